// Values: JavaScript's own, exact both ways, and refused where they would be changed.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { inspect } from "node:util";

import { Exact, InvalidError, Moment, NotAllowedError, SchemaError, Store, open } from "larder";

import { directory, languages, run } from "./larder.mjs";

const SCHEMA = `
system values
table things {
  key  pk
  entity Thing {
    key  "T#{id}"
    versions on
    input id: int
    whole:    int?
    money:    decimal?
    float:    float?
    flag:     bool?
    bytes:    bytes?
    doc:      json?
    day:      date?
    clock:    datetime?
    lasts:    duration?
    at:       instant?
    exact:    instant us?
    seconds:  epoch?
    list:     [Part]?
    numbers:  set<int>
    days:     set<date>
    map:      map<string, Part>?
    choice:   "a" | "b"?
    token:    string? secret
    count:    int default 3
  }
}

type Part { name: string, price: decimal?, when: instant?, sub: Part?, note: string default "-", .. }
`;

let system;
before(async () => {
  const path = join(directory({ after }), "values.larder");
  writeFileSync(path, SCHEMA.replace("sub: Part?, ", ""));
  system = await open(path, { store: "memory:" });
});
after(() => system.close());

test("a_whole_number_that_no_double_is_sure_of_is_refused", async () => {
  for (const whole of [2 ** 60, -(2 ** 53) - 2]) {
    await assert.rejects(system.Thing.create({ id: 1_000_000, whole }), (error) => {
      assert.ok(error instanceof InvalidError, error);
      assert.deepEqual([error.field, error.rule], ["whole", "must be of type int"]);
      return true;
    });
  }
  assert.equal((await read({ whole: 2n ** 60n })).whole, 2n ** 60n);
  assert.equal((await read({ whole: Number.MAX_SAFE_INTEGER })).whole, Number.MAX_SAFE_INTEGER);
});

test("the_store_that_the_environment_names_is_observed_too", async (t) => {
  const text = `
    import { Store } from "larder";
    const store = await Store.open();
    store.faults.failNext(1);
    console.log(store.requests());`;
  const env = { ...process.env, LARDER_STORE: directory(t) };
  const ended = await run(process.execPath, ["--input-type=module", "-e", text], { env, cwd: join(languages, "node") });
  assert.deepEqual([ended.code, ended.stdout], [0, "0\n"], ended.stderr);
});

let id = 0;
/** A thing with these fields, as it is read. */
async function read(fields) {
  id += 1;
  await system.Thing.create({ id, ...fields });
  return system.Thing.get(id);
}

test("every_type_is_read_as_it_was_written", async () => {
  const fields = {
    whole: -7,
    money: 129.95,
    float: 0.1,
    flag: false,
    bytes: new Uint8Array([0, 255, 128]),
    doc: { a: [1, null, "t", { b: true }], "": {}, __proto__x: 1 },
    day: "2026-02-28",
    clock: "2026-02-28T10:00:00",
    lasts: 90_500,
    at: new Date("2026-01-15T10:00:00Z"),
    exact: new Date("2026-01-15T10:00:00.123Z"),
    seconds: new Date("2026-01-15T10:00:00Z"),
    list: [{ name: "é 漢 🙂", price: 1, when: new Date(0), note: "n", more: [1] }],
    numbers: new Set([3, 1]),
    days: new Set(["2026-01-01"]),
    map: { x: { name: "n", note: "-" } },
    choice: "b",
    token: "hunter2",
    count: 4,
  };
  const kept = await read(fields);
  assert.deepEqual(kept, { id, ...fields, numbers: new Set([1, 3]) });
  assert.equal(kept.$.version, 1);
});

test("numbers_are_exact_or_of_a_type_that_is", async () => {
  const big = 2n ** 53n + 1n;
  assert.equal((await read({ whole: big })).whole, big);
  assert.equal((await read({ whole: Number.MAX_SAFE_INTEGER })).whole, Number.MAX_SAFE_INTEGER);
  assert.equal((await read({ whole: -(2n ** 63n) })).whole, -(2n ** 63n));
  const digits = "12345678901234567890.123456789";
  assert.equal((await read({ money: digits })).money, digits);
  assert.equal((await read({ money: "0.10" })).money, 0.1);
  assert.equal((await read({ float: 5e-100 })).float, 5e-100);
  for (const wrong of [{ whole: 0.5 }, { whole: NaN }, { float: Infinity }, { whole: "7" }, { whole: 2n ** 64n }]) {
    await assert.rejects(read(wrong), InvalidError, inspect(wrong));
  }
});

test("moments_keep_their_digits_or_are_refused", async () => {
  const exact = "2026-01-15T10:00:00.123456Z";
  const fine = await read({ exact });
  assert.ok(fine.exact instanceof Moment && fine.exact instanceof Date);
  assert.equal(fine.exact.exact, exact);
  assert.equal(fine.exact.toISOString(), "2026-01-15T10:00:00.123Z");
  fine.whole = 1;
  await system.Thing.put(fine);
  assert.equal((await system.Thing.get(id)).exact.exact, exact, "written back whole");
  fine.exact.setUTCFullYear(2027);
  assert.equal(fine.exact.exact, "2027-01-15T10:00:00.123Z", "a changed one is a Date");
  await assert.rejects(read({ at: new Date(NaN) }), InvalidError);
  await assert.rejects(read({ at: "yesterday" }), InvalidError);
  await assert.rejects(read({ seconds: new Date(1) }), InvalidError, "an epoch has seconds");
});

test("maps_sets_and_views_are_taken_in_every_form", async () => {
  const kept = await read({
    map: new Map([["x", { name: "n" }], ["__proto__", { name: "p" }]]),
    numbers: [1, 2],
    bytes: Buffer.from("hi"),
    lasts: "90m",
  });
  assert.deepEqual(Object.keys(kept.map).sort(), ["__proto__", "x"]);
  assert.equal(Object.getPrototypeOf(kept.map), Object.prototype);
  assert.equal(kept.map.x.note, "-", "a default inside a type");
  assert.deepEqual(kept.numbers, new Set([1, 2]));
  assert.deepEqual(kept.bytes, new Uint8Array([104, 105]));
  assert.equal(kept.lasts, 5_400_000);
  assert.equal((await read({})).count, 3, "a default");
  assert.deepEqual((await read({})).numbers, new Set());
});

test("what_a_document_would_lose_is_refused", async () => {
  for (const doc of [{ a: 1n }, { a: new Map() }, new Set(), { a: new Uint8Array(1) }, { a: NaN }, () => 1, { a: [Symbol()] }]) {
    await assert.rejects(read({ doc }), TypeError, inspect(doc));
  }
  assert.deepEqual((await read({ doc: { a: undefined, d: new Date(0), l: [undefined] } })).doc, { d: "1970-01-01T00:00:00.000Z", l: [null] });
  assert.deepEqual((await read({ doc: JSON.parse('{"__proto__": {"x": 1}}') })).doc, JSON.parse('{"__proto__": {"x": 1}}'));
});

test("numbers_in_a_document_are_exact", async () => {
  const digits = ["9007199254740993", "-12345678901234567890.123456789", "0.1000000000000000000001"];
  const doc = { list: digits.map((one) => new Exact(one)), "\0exact": { "\0exact": "7" }, safe: 2 ** 53, small: 0.1 };
  const part = { name: "n", note: "-", more: new Exact(digits[0]) };
  const kept = await read({ doc, list: [part] });
  assert.deepEqual([kept.doc, kept.list], [doc, [part]]);
  kept.whole = 1;
  await system.Thing.put(kept);
  const again = await system.Thing.get(id);
  assert.deepEqual([again.doc, again.list], [doc, [part]], "written back whole");
  assert.equal(`${again.doc.list[0]}`, digits[0]);
  assert.equal(again.doc.list[0] - 1, Number(digits[0]) - 1);
  assert.equal(JSON.stringify(again.doc.list), JSON.stringify(digits));
  assert.deepEqual((await read({ doc: new Exact("0.50") })).doc, 0.5);
  for (const wrong of ["", "x", "1e126", "1e-131", "1".repeat(39)]) assert.throws(() => new Exact(wrong), /is no number|no store can hold/);
  for (const wrong of [1e126, -1e300, 1e-131]) await assert.rejects(read({ doc: { wrong } }), TypeError);
});

test("every_double_is_read_as_it_was_written", async () => {
  const doubles = Array.from({ length: 2000 }, (_, at) => Math.sin(at + 1) * 10 ** ((at % 41) - 20));
  assert.deepEqual((await read({ doc: doubles })).doc, doubles);
  for (const double of doubles.slice(0, 200)) {
    const { float, money } = await read({ float: double, money: double });
    assert.deepEqual([float, money], [double, double]);
  }
});

test("a_text_that_is_no_unicode_is_refused", async () => {
  await assert.rejects(system.Thing.create({ id: 9999, token: "\ud800" }), NotAllowedError);
});

test("a_secret_is_not_shown", async () => {
  const kept = await read({ token: "hunter2", whole: 7 });
  assert.ok(!inspect(kept).includes("hunter2") && inspect(kept).includes("7"));
  assert.equal(kept.token, "hunter2");
  await assert.rejects(system.Thing.create({ id: 1.5, token: 77 }), (error) => !error.message.includes("77"));
});

test("a_record_that_was_read_does_not_overwrite_a_newer_version", async () => {
  const mine = await read({ whole: 1 });
  const theirs = await system.Thing.get(id);
  theirs.whole = 2;
  await system.Thing.put(theirs);
  mine.whole = 3;
  await assert.rejects(system.Thing.put(mine), { kind: "conflict", entity: "Thing" });
  await assert.rejects(system.Thing.put({ ...mine }, { version: 1 }), { kind: "conflict" });
  assert.equal((await system.Thing.put({ id, whole: 4 })).$.changed, true);
});

test("updates_change_members_and_null_clears", async () => {
  await read({ numbers: [1], map: { x: { name: "n" } }, list: [], whole: 1, choice: "a" });
  const changed = await system.Thing.update(id, {
    set: { choice: null, money: "1.5" },
    add: { whole: 2n },
    append: { list: [{ name: "l" }] },
    insert: { numbers: [2] },
    insertAt: { map: { y: { name: "m" } } },
  });
  assert.deepEqual([changed.choice, changed.money, changed.whole, changed.list[0].name], [undefined, 1.5, 3, "l"]);
  assert.deepEqual([changed.numbers, Object.keys(changed.map)], [new Set([1, 2]), ["x", "y"]]);
  const again = await system.Thing.update(id, { remove: { numbers: [1] }, removeAt: { map: ["x"] }, clear: ["money"] });
  assert.deepEqual([again.numbers, Object.keys(again.map), again.money], [new Set([2]), ["y"], undefined]);
});

test("mistakes_are_told_with_names", async () => {
  assert.throws(() => system.entity("Thnig"), /values has no entity `Thnig`; it has Thing/);
  assert.throws(() => system.Thing.lifecycle("crawl"), /Thing has no lifecycle `crawl`; it has none/);
  await assert.rejects(system.Thing.get({ id: 1, whole: 2 }), /`whole` is not in the key of Thing, which is made of id/);
  await assert.rejects(system.Thing.create({ id: 1, wohle: 2 }), (error) => error.violations[0].field === "wohle");
  await assert.rejects(open("nowhere.larder", { store: "memory:" }), SchemaError);
  await assert.rejects(open("nowhere.larder", { store: "memori:" }), { kind: "store", code: "address" });
});

test("two_systems_share_a_store_that_was_opened_once", async (t) => {
  const store = await Store.open(directory(t));
  const path = join(directory(t), "values.larder");
  writeFileSync(path, SCHEMA.replace("sub: Part?, ", ""));
  const [one, two] = [await open(path, { store }), await open(path, { store })];
  await one.Thing.create({ id: 1, whole: 1 });
  assert.equal((await two.Thing.get(1)).whole, 1);
  await one.close();
  assert.equal((await two.Thing.get(1)).whole, 1, "the store stays open");
  await two.close();
  store.close();
});
