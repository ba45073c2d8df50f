// Loaders: one call for many who ask, what they throw, what is given up.

import assert from "node:assert/strict";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";

import { AbsentError, DownError, Loaded, SourceError, notModified, open, permanent } from "larder";

import { languages } from "./larder.mjs";

const schema = join(languages, "scenarios.larder");
const URL_ = "https://a.example/1";
let system;
beforeEach(async () => (system = await open(schema, { store: "memory:" })));
afterEach(() => system.close());

const never = () => assert.fail("the source is not asked");

/** A promise and what settles it. */
function deferred() {
  let resolve, reject;
  const promise = new Promise((...both) => ([resolve, reject] = both));
  return { promise, resolve, reject };
}

test("a_thousand_cold_fetches_call_the_loader_once", async () => {
  let calls = 0;
  const gate = deferred();
  const load = async () => {
    calls += 1;
    await gate.promise;
    return { text: "hot" };
  };
  const all = Array.from({ length: 1000 }, () => system.Page.fetch(URL_, load));
  gate.resolve();
  const records = await Promise.all(all);
  assert.equal(calls, 1);
  assert.ok(records.every(({ text }) => text === "hot"));
  records[0].text = "changed";
  assert.equal(records[1].text, "hot", "each has its own");
});

test("a_loader_gives_a_value_or_a_promise_of_one", async () => {
  assert.equal((await system.Page.fetch(URL_, () => ({ text: "now" }))).text, "now");
  assert.equal((await system.Page.fetch(`${URL_}2`, async (url) => ({ text: url }))).text, `${URL_}2`);
});

test("what_a_loader_throws_comes_back_as_the_same_object_to_all_who_wait", async () => {
  class Mine extends Error {}
  const mine = new Mine("no network");
  const gate = deferred();
  const load = async () => {
    await gate.promise;
    throw mine;
  };
  const all = Array.from({ length: 10 }, () => system.Page.fetch(URL_, load).catch((error) => error));
  gate.resolve();
  assert.ok((await Promise.all(all)).every((error) => error === mine));
  for (const thrown of ["a text", 7, null, undefined, { code: 1 }]) {
    const came = await system.Page.fetch(URL_, () => { throw thrown; }).then(() => "no error", (error) => ({ error }));
    assert.deepEqual(came, { error: thrown });
  }
});

test("a_loader_that_throws_what_has_no_text_has_failed_and_found_nothing", async () => {
  const wordless = (message) => Object.assign(new Error("x"), { message });
  const noText = { toString() { throw new Error("no text"); } };
  for (const thrown of [wordless(undefined), wordless(7), wordless({}), wordless(noText), noText, Object.create(null), Symbol("s")]) {
    const came = await system.Page.fetch(URL_, () => { throw thrown; }).then(() => "no error", (error) => ({ error }));
    assert.ok(came.error === thrown);
  }
  assert.equal((await system.Page.fetch(URL_, () => ({ text: "there" }))).text, "there");
});

test("when_store_and_source_fail_one_error_names_both", async () => {
  system.store.faults.down();
  const mine = new Error("no network");
  await assert.rejects(system.Page.fetch(URL_, () => { throw mine; }), (error) => {
    assert.ok(error instanceof DownError);
    assert.equal(error.cause, mine);
    assert.equal(error.store.kind, "store");
    assert.equal(error.transient, true);
    return true;
  });
});

test("an_abort_ends_the_waiting_and_not_the_load", async () => {
  const gate = deferred();
  const begun = deferred();
  const load = async () => {
    begun.resolve();
    await gate.promise;
    return { text: "late" };
  };
  const controller = new AbortController();
  const waits = system.Page.fetch(URL_, load, { signal: controller.signal });
  const stays = system.Page.fetch(URL_, load);
  await begun.promise;
  const why = new Error("the client went away");
  controller.abort(why);
  await assert.rejects(waits, (error) => error === why);
  gate.resolve();
  assert.equal((await stays).text, "late");
  await assert.rejects(system.Page.fetch(URL_, never, { signal: controller.signal }), (error) => error === why);
});

test("what_a_loader_gives_is_checked", async () => {
  await assert.rejects(system.Page.fetch(URL_, () => ({ text: 7 })), { kind: "invalid" });
  await assert.rejects(system.Page.fetch(URL_, () => "text"), TypeError);
  await assert.rejects(system.Page.fetch(URL_, () => ({ text: Symbol("x") })), TypeError);
  await assert.rejects(system.Page.fetch(URL_, "no function"), TypeError);
});

test("an_absence_is_told_and_remembered", async () => {
  for (const load of [() => undefined, never]) {
    await assert.rejects(system.Page.fetch(URL_, load), (error) => error instanceof AbsentError && error.entity === "Page");
  }
});

test("a_source_that_says_not_modified_is_believed", async () => {
  await system.Page.fetch(URL_, () => new Loaded({ text: "one" }, { etag: "v1", ttl: "10m" }));
  system.store.clock.advance("2h");
  const again = await system.Page.fetch(URL_, (_, known) => (known.etag === "v1" ? notModified() : assert.fail(known.etag)));
  assert.equal(again.text, "one");
  assert.equal(again.$.origin, "source");
});

test("a_ttl_of_the_source_goes_before_that_of_the_schema", async () => {
  system.store.clock.stop();
  const { $ } = await system.Page.fetch(URL_, () => new Loaded({ text: "one" }, { ttl: "10m" }));
  assert.ok(Math.abs(Number($.expires) - Number(system.now()) - 600_000) < 1000, String($.expires));
});

test("a_permanent_error_comes_back_too", async () => {
  const gone = permanent(new Error("410"));
  await assert.rejects(system.Page.fetch(URL_, () => { throw gone; }), (error) => error === gone);
});

test("a_loader_is_let_go_of_when_it_is_not_needed", async () => {
  const { gc } = globalThis;
  const held = await (async () => {
    const load = () => ({ text: "x".repeat(10) });
    await system.Page.fetch(`${URL_}gc`, load);
    return new WeakRef(load);
  })();
  for (let turn = 0; turn < 50 && held.deref(); turn += 1) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    gc();
  }
  assert.equal(held.deref(), undefined);
});

test("a_source_that_is_not_called_is_an_error_of_larders", () => {
  assert.equal(new SourceError({ kind: "source", message: "left alone" }).name, "SourceError");
});
