// Leases: claimed one after the other, renewed by themselves, lost to whoever takes over, released when they are left.

import assert from "node:assert/strict";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";

import { LeaseLostError, Store, open } from "larder";
import ts from "typescript";

import { directory, languages } from "./larder.mjs";

const schema = join(languages, "scenarios.larder");
let store, system, crawl;
beforeEach(async () => {
  store = await Store.open("memory:");
  system = await open(schema, { store });
  crawl = system.Shop.lifecycle("crawl");
  for (const domain of ["a", "b", "c"]) await system.Shop.create({ domain: `${domain}.example`, country: "DE" });
});
afterEach(() => system.close());

test("a_claim_is_an_async_iterator_of_leases", async () => {
  const seen = [];
  for await (const lease of crawl.claim("DE")) {
    seen.push(lease.record.domain);
    assert.ok(lease.owner && lease.fence === 1 && (await lease.until()) > system.now());
    assert.equal((await lease.finish()).$.states.crawl, "done");
  }
  assert.deepEqual(seen.sort(), ["a.example", "b.example", "c.example"]);
  assert.deepEqual(await crawl.due("DE"), []);
});

test("two_workers_never_hold_one_thing", async () => {
  const second = (await open(schema, { store })).Shop.lifecycle("crawl");
  const taken = [];
  const work = async (lifecycle) => {
    for await (const lease of lifecycle.claim({ country: "DE" })) {
      taken.push(lease.record.domain);
      await lease.finish();
    }
  };
  await Promise.all([work(crawl), work(second)]);
  assert.deepEqual(taken.sort(), ["a.example", "b.example", "c.example"]);
});

test("what_is_left_without_an_end_is_released", async () => {
  {
    const { value: lease } = await crawl.claim("DE", { take: 1 }).next();
    await lease[Symbol.asyncDispose]();
    await lease[Symbol.asyncDispose]();
  }
  assert.equal((await crawl.due("DE")).length, 3);
  const { value: lease } = await crawl.claim("DE").next();
  await lease.run("finish");
  await lease[Symbol.asyncDispose]();
  assert.equal((await crawl.standing(lease.record)).state, "done");
  await assert.rejects(lease.finish(), { kind: "not_allowed" });
});

test("await_using_ends_what_its_block_leaves", async () => {
  // Node 20 has not the word: TypeScript makes of it what Node 20 runs.
  const { outputText } = ts.transpileModule(
    `export async function work(open, schema, store) {
      await using system = await open(schema, { store });
      for await (await using lease of system.Shop.lifecycle("crawl").claim("DE")) {
        if (lease.record.domain === "a.example") return await lease.finish();
      }
    }
    export async function fail(open, schema, store, mine) {
      await using system = await open(schema, { store });
      await using lease = await system.Shop.lifecycle("crawl").hold("b.example");
      throw mine;
    }`,
    { compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext } },
  );
  const { work, fail } = await import(`data:text/javascript,${encodeURIComponent(outputText)}`);
  assert.equal((await work(open, schema, store)).$.states.crawl, "done");
  const mine = new Error("mine");
  await assert.rejects(fail(open, schema, store, mine), (error) => error === mine);
  assert.deepEqual((await crawl.due("DE")).map(({ record }) => record.domain).sort(), ["b.example", "c.example"]);
});

test("whoever_lost_a_lease_is_told_and_finishes_nothing", async () => {
  store.clock.stop();
  await system.Shop.create({ domain: "only.example", country: "SE" });
  const { value: lease } = await crawl.claim("SE", { owner: "one" }).next();
  store.clock.advance("3h");
  const { value: heir } = await crawl.claim("SE", { owner: "two" }).next();
  assert.deepEqual([heir.record.domain, heir.fence, heir.attempts], ["only.example", 2, 2]);
  assert.match(heir.owner, /^two/);
  await assert.rejects(lease.renew(), LeaseLostError);
  await assert.rejects(lease.work(() => new Promise(() => {})), LeaseLostError);
  assert.ok(lease.isLost && lease.signal.reason instanceof LeaseLostError);
  await assert.rejects(lease.finish(), LeaseLostError);
  await lease[Symbol.asyncDispose]();
  assert.equal((await heir.finish()).$.states.crawl, "done");
});

test("work_gives_what_it_gives_and_throws_what_it_throws", async () => {
  const lease = await crawl.hold("b.example");
  assert.equal(await lease.work(async (one) => one.record.domain), "b.example");
  const mine = new Error("mine");
  await assert.rejects(lease.work(() => { throw mine; }), (error) => error === mine);
  await assert.rejects(crawl.hold("b.example"), { kind: "conflict" });
  await lease.release();
});

test("a_transition_takes_its_parameters", async () => {
  const closed = await crawl.run("a.example", "close", { reason: "gone" });
  assert.deepEqual([closed.reason, closed.$.states.crawl], ["gone", "closed"]);
  await assert.rejects(crawl.run("a.example", "close", { reason: "again" }), { kind: "state", found: "closed" });
  await assert.rejects(crawl.run("b.example", "begin"), { kind: "not_allowed" }, "it takes a claim");
  assert.equal((await crawl.inState("closed", { group: "DE" })).length, 1);
});

test("an_abort_ends_a_claim_between_leases", async () => {
  const controller = new AbortController();
  const seen = [];
  await assert.rejects(async () => {
    for await (const lease of crawl.claim("DE", { signal: controller.signal })) {
      seen.push(lease.record.domain);
      await lease.finish();
      controller.abort(new Error("enough"));
    }
  }, /enough/);
  assert.equal(seen.length, 1);
});

test("a_lease_that_nobody_has_any_more_is_not_renewed", async () => {
  await system.Shop.create({ domain: "only.example", country: "SE" });
  await (async () => {
    await crawl.claim("SE").next();
  })();
  for (let turn = 0; turn < 20; turn += 1) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    globalThis.gc();
  }
  store.clock.advance("3h");
  const { value: heir } = await crawl.claim("SE").next();
  assert.equal(heir.record.domain, "only.example");
  await heir.release();
});

/** Waits, a few seconds at most, until something is true. */
async function until(isTrue) {
  const late = Date.now() + 5_000;
  while (!(await isTrue())) {
    assert.ok(Date.now() < late, `in time: ${isTrue}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const givenBack = async (domain) => {
  const { state, fence } = await crawl.standing(domain);
  return state === "never" && fence === 1;
};

test("what_is_held_after_an_abort_is_given_back", async () => {
  store.faults.delay(1, "50ms");
  const controller = new AbortController();
  const holding = crawl.hold("a.example", { signal: controller.signal });
  controller.abort(new Error("enough"));
  await assert.rejects(holding, /enough/);
  store.faults.reset();
  await until(() => givenBack("a.example"));
});

test("what_is_held_after_its_system_was_closed_is_given_back", async () => {
  const other = await open(schema, { store });
  store.faults.delay(1, "50ms");
  const holding = assert.rejects(other.Shop.lifecycle("crawl").hold("a.example"), { kind: "not_allowed" });
  await other.close();
  store.faults.reset();
  await holding;
  assert.ok(await givenBack("a.example"));
});

test("a_lease_that_was_ended_after_its_system_was_closed_is_let_go_of", async () => {
  const other = await open(schema, { store });
  const lease = await other.Shop.lifecycle("crawl").hold("a.example");
  await other.close();
  await assert.rejects(lease.finish(), /it is closed/);
  await assert.rejects(lease.renew(), /it is closed/);
});

test("what_is_of_a_closed_system_does_not_keep_its_directory", async (t) => {
  const place = directory(t);
  const other = await open(schema, { store: place });
  for (const domain of ["a.example", "b.example"]) await other.Shop.create({ domain, country: "DE" });
  const claims = other.Shop.lifecycle("crawl").claim("DE");
  const { value: lease } = await claims.next();
  await other.Page.fetch("https://a.example/", () => ({ text: "x" }));
  const plan = await other.Page.invalidate({ label: "a.example" });
  await other.close();
  let again;
  await until(async () => (again = await open(schema, { store: place }).catch((error) => assert.ok(error.kind === "store", error))));
  assert.equal((await again.Shop.get("a.example")).country, "DE");
  for (const gone of [() => claims.next(), () => lease.renew(), () => plan.run()]) await assert.rejects(gone, /it is closed/);
  await again.close();
});

test("a_mistake_does_not_end_a_lease", async () => {
  const lease = await crawl.hold("a.example");
  await assert.rejects(lease.run(undefined), TypeError);
  await assert.rejects(lease.run("finish", 7), TypeError);
  assert.equal(lease.isOver, false);
  assert.equal((await lease.release()).$.states.crawl, "never");
});

test("work_that_failed_with_anything_is_told", async () => {
  for (const thrown of [Object.assign(new Error("x"), { message: 7 }), Object.create(null), undefined]) {
    const lease = await crawl.hold("a.example");
    await lease.retry(thrown);
    assert.equal((await crawl.standing("a.example")).owner, undefined);
  }
});
