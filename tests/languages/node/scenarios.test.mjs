// The scenarios that every language runs, on memory, a directory and Larder's endpoint.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

import { open } from "larder";

import { directory, endpoint, languages } from "./larder.mjs";

// A random AWS account is nobody's.
process.env.AWS_ACCESS_KEY_ID ??= "any";
process.env.AWS_SECRET_ACCESS_KEY ??= "any";
process.env.AWS_REGION ??= "us-east-1";

const { scenarios } = JSON.parse(readFileSync(join(languages, "scenarios.json"), "utf8"));
const schema = join(languages, "scenarios.larder");
const EVENTUALLY_MILLIS = 10_000;

/** JSON of the scenarios as JavaScript's own values. */
const written = (entity, fields) => {
  const given = {};
  for (const [name, value] of Object.entries(fields)) given[name] = own(entity, name, value);
  return given;
};

function own(entity, name, value) {
  if (value?.$repeat) {
    const { text, times, members } = value.$repeat;
    return Array.from({ length: members }, () => text.repeat(times));
  }
  switch (`${entity}.${name}`) {
    case "Note.seen_at":
    case "Visit.at":
      return new Date(value);
    case "Note.raw":
      return new Uint8Array(Buffer.from(value, "base64"));
    case "Note.tags":
      return new Set(value);
    default:
      return value;
  }
}

/** JavaScript's own values as JSON of the scenarios. */
function plain(value) {
  if (value === undefined) return null;
  if (value instanceof Date) return value.toISOString().replace(".000Z", "Z");
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (value instanceof Set) return [...value].sort();
  return value;
}

function assertRecord(entity, record, expected) {
  if (expected === null) return assert.equal(record, undefined);
  assert.ok(record, "there is a record");
  for (const [name, value] of Object.entries(expected)) {
    const wanted = value?.$repeat ? own(entity, name, value) : value;
    assert.deepEqual(plain(record[name]), wanted, name);
  }
}

function assertError(error, expected) {
  const { kind, violations, obstacles, ...fields } = expected;
  assert.equal(error.kind, kind, String(error?.stack));
  for (const [name, value] of Object.entries(fields)) assert.equal(error[name], value, name);
  if (violations) {
    const told = (list) => list.map(({ field, rule }) => `${field}: ${rule}`).sort();
    assert.deepEqual(told(error.violations), told(violations));
  }
  obstacles?.forEach((obstacle, at) => {
    for (const [name, value] of Object.entries(obstacle)) assert.equal(error.obstacles[at][name], value);
  });
}

/** What each step does. It gives what `expect` may name. */
const does = {
  advance: ({ system }, { seconds }) => system.store.clock.advance(seconds * 1000),
  down: ({ system }) => system.store.faults.down(),
  up: ({ system }) => system.store.faults.up(),
  fetch: (context, step) => fetching(context, step),
  async fetch_together(context, step) {
    let loads = 0;
    const load = async () => {
      loads += 1;
      await pause(5);
      return written(step.entity, step.source.value);
    };
    const shelf = context.system.entity(step.entity);
    const all = await Promise.all(Array.from({ length: step.tasks }, () => shelf.fetch(step.key, load)));
    for (const record of all) assertRecord(step.entity, record, step.expect.record);
    return { record: all[0], loads };
  },
  async look({ shelf }, { key }) {
    const { hit, miss } = await shelf.look(key);
    return { record: hit, miss };
  },
  async get({ shelf }, { entity, key }) {
    const record = await shelf.get(written(entity, key));
    return { record, version: record?.$.version };
  },
  create: async ({ shelf }, { entity, fields }) => told(await shelf.create(written(entity, fields))),
  put: async ({ shelf }, { entity, fields }) => told(await shelf.put(written(entity, fields))),
  async put_earlier({ system, stage }, { entity, fields }) {
    const earlier = await open(join(languages, "earlier/scenarios.larder"), { store: system.store, environment: { SCENARIOS_STAGE: stage } });
    await earlier.entity(entity).put(written(entity, fields));
    await earlier.close();
  },
  async put_shown({ system, shelf }, { entity, index, partition, expect }) {
    const shown = await shelf.query(index, partition).first();
    assert.equal(shown.$.partial, true);
    const [many] = await shelf.putMany([shown]);
    assertError(many, expect.error);
    for (const put of [() => shelf.create(shown), () => shelf.putBehind(shown), () => system.transaction().put(entity, shown).run()]) {
      await assert.rejects(put, (error) => assertError(error, expect.error) ?? true);
    }
    return told(await shelf.put(shown));
  },
  put_behind: async ({ shelf }, { entity, fields }) => told(await shelf.putBehind(written(entity, fields))),
  delete: async ({ shelf }, { entity, key }) => ({ record: await shelf.delete(written(entity, key)) }),
  forget: ({ shelf }, { entity, key }) => shelf.forget(written(entity, key)),
  async update({ shelf }, { entity, key, set = {}, add, clear, if_version: version }) {
    return told(await shelf.update(written(entity, key), { set: written(entity, set), add, clear }, { version }));
  },
  async put_many({ shelf }, { entity, records }) {
    const put = await shelf.putMany(records.map((record) => written(entity, record)));
    return { written: put.filter((one) => !(one instanceof Error)).length };
  },
  async get_many({ shelf }, { keys, field }) {
    const found = await shelf.getMany(keys);
    return { values: found.map((record) => plain(record?.[field])) };
  },
  async delete_many({ shelf }, { keys }) {
    const deleted = await shelf.deleteMany(keys);
    return { deleted: deleted.filter((one) => one === undefined).length };
  },
  async query(context, { index, partition, field, limit, next, newest_first: newestFirst, from, until, at }) {
    const { shelf } = context;
    const options = { limit, newestFirst, from, until, at };
    const query = index === undefined ? shelf.within(partition, options) : shelf.query(index, partition, options);
    if (limit === undefined) return { values: (await query.all()).map((record) => plain(record[field])) };
    const page = await query.page(next ? context.cursor : undefined);
    context.cursor = page.cursor;
    return { values: page.items.map((record) => plain(record[field])), more: page.cursor !== undefined };
  },
  async transaction({ system }, { steps }) {
    const transaction = system.transaction();
    for (const { key, fields, set, ...step } of steps) {
      const [[what, entity]] = Object.entries(step);
      if (what === "update") transaction.update(entity, key, { set });
      else transaction[what](entity, key ?? written(entity, fields));
    }
    await transaction.run();
    return {};
  },
  collection_put: ({ system }, { collection, members }) => system.collection(collection).put(members),
  async collection_fetch({ system }, { collection, key, source }) {
    let loads = 0;
    const own = new Error(source.fails);
    const load = async (asked) => {
      loads += 1;
      assert.deepEqual(asked, Object.values(key)[0]);
      if (source.fails) throw own;
      return source.absent ? undefined : source.members;
    };
    try {
      const members = await system.collection(collection).fetch(key, load);
      return { members, loads, origin: members.$.origin };
    } catch (error) {
      return error === own ? { raises: own.message, loads } : { error, loads };
    }
  },
  async collection_get({ system }, { collection, key }) {
    return { members: await system.collection(collection).get(key) };
  },
  async collection_delete({ system }, { collection, key }) {
    return { deleted: await system.collection(collection).delete(key) };
  },
  async claim({ shelf, leases }, { lifecycle, group, take, as }) {
    const { value: lease } = await shelf.lifecycle(lifecycle).claim(group, { take }).next();
    leases.set(as, lease);
    return { record: lease?.record, fence: lease?.fence, attempts: lease?.attempts };
  },
  async hold({ shelf, leases }, { lifecycle, key, as }) {
    leases.set(as, await shelf.lifecycle(lifecycle).hold(key));
  },
  finish: async ({ leases }, { lease }) => told(await leases.get(lease).finish()),
  release: async ({ leases }, { lease }) => told(await leases.get(lease).release()),
  async transition({ shelf }, { lifecycle, key, name, params }) {
    return told(await shelf.lifecycle(lifecycle).run(key, name, params));
  },
  drain: ({ system }, { seconds }) => system.drain(seconds * 1000),
  async invalidate({ shelf }, { by, label }) {
    const plan = await shelf.invalidate({ by, label });
    const { removed } = await plan.run();
    return { planned: plan.items, is_scan: plan.scan, removed };
  },
  stats: ({ shelf }) => shelf.stats(),
};

function told(record) {
  const { version, changed, states } = record.$;
  return { record, version, changed, state: states };
}

async function fetching({ shelf }, step) {
  const { entity, key, source } = step;
  let loads = 0;
  const own = new Error(source.fails);
  const load = async () => {
    loads += 1;
    if (source.fails) throw own;
    return source.absent ? undefined : written(entity, source.value);
  };
  try {
    const record = await shelf.fetch(key, load);
    const { origin, staleReason, storeError } = record.$;
    return { record, loads, origin, stale_reason: staleReason, store_error: storeError !== undefined };
  } catch (error) {
    if (error === own) return { raises: own.message, loads };
    return { error, loads };
  }
}

async function once(context, step) {
  let came;
  try {
    came = (await does[step.do](context, step)) ?? {};
  } catch (error) {
    came = { error };
  }
  const { record, error, members, state, ...rest } = step.expect ?? {};
  if (came.error && !error) throw came.error;
  if (error) {
    assert.ok(came.error, "it fails");
    assertError(came.error, error);
  }
  if (record !== undefined) assertRecord(step.entity, came.record, record);
  if (members === null) assert.equal(came.members, undefined);
  for (const [entity, records] of Object.entries(members ?? {})) {
    assert.equal(came.members[entity].length, records.length);
    records.forEach((record, at) => assertRecord(entity, came.members[entity][at], record));
  }
  for (const [lifecycle, wanted] of Object.entries(state ?? {})) assert.equal(came.state[lifecycle], wanted);
  for (const [name, value] of Object.entries(rest)) assert.deepEqual(came[name], value, name);
}

async function step(context, step) {
  const shelf = step.entity && context.system.entity(step.entity);
  const until = Date.now() + EVENTUALLY_MILLIS;
  for (;;) {
    try {
      return await once(Object.assign(context, { shelf }), step);
    } catch (error) {
      if (!step.eventually || Date.now() > until) throw error;
      await pause(10);
    }
  }
}

async function play(scenario, store, stage) {
  const system = await open(schema, { store, environment: { SCENARIOS_STAGE: stage } });
  try {
    if (store.startsWith("dynamodb:")) await system.provision();
    system.store.clock.stop();
    const context = { system, stage, leases: new Map() };
    for (const [at, one] of scenario.steps.entries()) {
      try {
        await step(context, one);
      } catch (error) {
        error.message = `step ${at}, ${JSON.stringify(one).slice(0, 200)}: ${error.message}`;
        throw error;
      }
    }
  } finally {
    await system.close();
  }
}

describe("in memory", () => {
  for (const scenario of scenarios) test(scenario.name, () => play(scenario, "memory:", "dev"));
});

describe("in a directory", () => {
  for (const scenario of scenarios) test(scenario.name, (t) => play(scenario, directory(t), "dev"));
});

describe("at Larder's endpoint", () => {
  const stops = [];
  let address;
  before(async () => (address = await endpoint({ after: (stop) => stops.push(stop) })));
  after(async () => {
    for (const stop of stops) await stop();
  });
  scenarios.forEach((scenario, at) => test(scenario.name, () => play(scenario, `dynamodb:${address}`, `s${at}`)));
});
