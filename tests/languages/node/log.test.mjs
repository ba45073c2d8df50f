// What the layer tells, for listeners: levels, removal, failing listeners, worker threads, the end of a process.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { Worker } from "node:worker_threads";

import { onLog, open } from "larder";

import { directory, languages, root, run } from "./larder.mjs";

const schema = join(languages, "scenarios.larder");
const { Bridge } = createRequire(import.meta.url)(join(root, "crates/node/larder.node"));
const RANKS = ["off", "error", "warn", "info", "debug", "trace"];

/** What listeners of all threads together have the layer tell. */
const told = () => RANKS[new Bridge(() => {}).toldLevel()];

let system, stops;
beforeEach(async () => {
  stops = [];
  system = await open(schema, { store: "memory:" });
});
afterEach(async () => {
  for (const stop of stops) stop();
  await system.close();
  assert.equal(told(), "off");
});

/** A listener until the end of the test, and what it hears. */
function heard(level) {
  const records = [];
  stops.push(onLog((record) => records.push(record), { level }));
  return records;
}

/** Waits, half a minute at most, until something is true. */
async function until(isTrue) {
  const late = Date.now() + 30_000;
  while (!isTrue()) {
    assert.ok(Date.now() < late, `in time: ${isTrue}`);
    await new Promise(setImmediate);
  }
}

test("what_happens_is_told_with_its_level_its_place_and_its_fields", async () => {
  const records = heard("debug");
  const began = Date.now();
  await system.Page.fetch("https://a.example/", async () => ({ text: "a value" }));
  await until(() => records.some(({ message }) => message === "Cache miss"));
  const { time, fields, ...miss } = records.find(({ message }) => message === "Cache miss");
  assert.deepEqual(miss, { level: "debug", target: "larder.observe", message: "Cache miss" });
  const { latency_ms, ...others } = fields;
  assert.deepEqual(others, { system: "scenarios", entity: "Page", cache_key: "PAGE#https://a.example/ / PAGE", reason: "absent" });
  assert.ok(typeof latency_ms === "number" && latency_ms > 0);
  assert.ok(time instanceof Date && time >= began && time <= Date.now());
  assert.ok(!JSON.stringify(records).includes("a value"));
});

test("each_listener_hears_its_level_and_those_before_it", async () => {
  const all = heard("trace");
  const some = Object.fromEntries(RANKS.slice(1).map((level) => [level, heard(level)]));
  const usual = heard(undefined);
  await system.Page.fetch("https://a.example/", async () => ({ text: "x" }));
  await assert.rejects(system.Page.fetch("https://b.example/", async () => { throw new Error("mine"); }), /mine/);
  const weather = await open(join(root, "schemas/weather.larder"), { store: "memory:" });
  await weather.Forecast.look({ lat: 35.01, lon: 135.76, at: new Date(0) });
  await weather.close();
  const levels = () => [...new Set(all.map(({ level }) => level))].sort().join();
  await until(() => levels() === "debug,info,warn");
  for (const [level, records] of Object.entries(some)) {
    assert.deepEqual(records, all.filter((record) => RANKS.indexOf(record.level) <= RANKS.indexOf(level)), level);
  }
  assert.deepEqual(usual, some.info);
});

test("whoever_stops_listening_hears_nothing_more_and_nobody_is_told_what_nobody_hears", async () => {
  assert.equal(told(), "off");
  const [warn, debug] = [heard("warn"), heard("debug")];
  assert.equal(told(), "debug");
  const fetched = () => system.Page.fetch(`https://${Math.random()}.example/`, async () => ({ text: "x" }));
  await fetched();
  await until(() => debug.some(({ message }) => message === "Cache miss"));
  assert.equal(warn.length, 0);
  const [, stop] = stops;
  stop();
  stop();
  const before = debug.length;
  assert.equal(told(), "warn");
  await fetched();
  assert.equal(debug.length, before);
  // As `using` does at the end of its block.
  const using = onLog(() => assert.fail("it is over"), { level: "trace" });
  using[Symbol.dispose]();
  await fetched();
  // Of two that hear the same, the first undoes the second.
  let second;
  let undone = false;
  const undo = () => {
    undone = true;
    second();
  };
  const first = onLog(undo, { level: "debug" });
  second = onLog(() => assert.fail("it was undone"), { level: "debug" });
  await fetched();
  await until(() => undone);
  first();
});

test("a_mistake_is_told", () => {
  assert.throws(() => onLog(), { name: "TypeError", message: "onLog needs a function: onLog((record) => …)" });
  assert.throws(() => onLog(() => {}, { level: "loud" }), {
    name: "TypeError",
    message: "onLog knows no level loud: it is one of error, warn, info, debug, trace",
  });
});

test("a_secret_is_in_no_record", async () => {
  const records = heard("trace");
  const tdnet = await open(join(root, "schemas/tdnet.larder"), { store: "memory:" });
  const secret = "https://files.example/signed?token=hush";
  const export_id = "7f9c24e8-3b12-4c1e-9f0a-52d7b6c0e1a4";
  await tdnet.Export.create({ export_id, download_url: secret });
  await tdnet.Export.update(export_id, { set: { download_url: `${secret}-2` } });
  await tdnet.Export.put(await tdnet.Export.get(export_id));
  await assert.rejects(tdnet.Export.update(export_id, { set: { download_url: "hush is no address", progress: 101 } }), { kind: "invalid" });
  tdnet.store.faults.down();
  await assert.rejects(tdnet.Export.put({ export_id, download_url: secret }));
  await tdnet.close();
  await until(() => records.some(({ fields }) => fields.entity === "Export"));
  assert.ok(!JSON.stringify(records).includes("hush"));
});

test("more_than_there_is_room_for_is_counted_and_told_in_one_record", async () => {
  const load = async () => ({ text: "x" });
  await system.Page.fetch("https://a.example/", load);
  const records = heard("debug");
  const hits = () => records.filter(({ message }) => message === "Cache hit").length;
  // A hit is answered at once: JavaScript takes no record meanwhile.
  await Promise.all(Array.from({ length: 10_500 }, () => system.Page.fetch("https://a.example/", load)));
  await until(() => records.some(({ fields }) => fields.lost));
  const [{ time, ...lost }, ...others] = records.filter(({ fields }) => fields.lost);
  // Something else may have been told meanwhile.
  const count = 10_500 - hits();
  assert.ok(count >= 500 && count < 510, count);
  const message = `${count} records were lost: more was told than listeners took`;
  assert.deepEqual(lost, { level: "error", target: "larder", message, fields: { lost: count } });
  assert.deepEqual(others, []);
  const before = hits();
  await system.Page.fetch("https://a.example/", load);
  await until(() => hits() === before + 1);
});

test("a_worker_has_listeners_of_its_own_and_leaves_nothing_behind", async () => {
  const warn = heard("warn");
  for (const end of ["terminate", "exit"]) {
    const worker = new Worker(
      `const { onLog, open } = require("larder");
      const { parentPort } = require("node:worker_threads");
      (async () => {
        onLog(({ message }) => message === "Cache miss" && parentPort.postMessage(message), { level: "trace" });
        parentPort.on("message", () => process.exit());
        const system = await open(${JSON.stringify(schema)}, { store: "memory:" });
        await system.Page.fetch("https://a.example/", async () => ({ text: "x" }));
      })();`,
      { eval: true, execArgv: [] },
    );
    const ended = new Promise((resolve) => worker.on("exit", resolve));
    await new Promise((resolve, reject) => worker.on("message", resolve).on("error", reject));
    assert.equal(told(), "trace");
    if (end === "exit") worker.postMessage("end");
    else void worker.terminate();
    await ended;
    await until(() => told() === "warn");
  }
  assert.deepEqual(warn, []);
});

/** Runs a program of JavaScript with a store in a directory. */
function program(t, text) {
  const head = `
    import { onLog, open } from "larder";
    const say = (text) => process.stdout.write(text + "\\n");
    const system = await open(${JSON.stringify(schema)}, { store: process.env.STORE });
    const fetched = () => system.Page.fetch("https://a.example/", async () => ({ text: "x" }));`;
  const env = { ...process.env, STORE: directory(t) };
  return run(process.execPath, ["--input-type=module", "-e", head + text], { env, cwd: join(languages, "node") });
}

test("what_a_listener_throws_is_an_uncaught_exception_and_stops_no_other", async (t) => {
  const thrown = `onLog(({ message }) => { throw new Error("mine: " + message); }, { level: "debug" });`;
  const ended = await program(t, `${thrown} onLog(({ message }) => say("heard " + message), { level: "debug" }); await fetched();`);
  assert.equal(ended.code, 1);
  assert.match(ended.stderr, /Error: mine: /);
  assert.match(ended.stdout, /^heard Cache miss$/m);

  const caught = await program(t, `process.on("uncaughtException", ({ message }) => say(message)); ${thrown} await fetched();`);
  assert.equal(caught.code, 0, caught.stderr);
  assert.match(caught.stdout, /^mine: Cache miss$/m);
});

test("what_a_listener_throws_at_the_end_of_the_process_is_told", async (t) => {
  const text = `await fetched();
    onLog(({ message }) => { throw new Error("mine: " + message); }, { level: "debug" });
    onLog(({ message }) => say("heard " + message), { level: "debug" });
    void fetched();
    process.exit();`;
  const ended = await program(t, text);
  assert.notEqual(ended.code, 0);
  assert.match(ended.stderr, /Error: mine: Cache hit/);
  assert.equal(ended.stdout, "heard Cache hit\n");
});

test("a_listener_keeps_no_process_alive_and_hears_what_is_told_at_its_end", async (t) => {
  const text = `
    onLog(({ message, fields }) => say(message + " " + fields.cache_key), { level: "debug" });
    await system.Visit.putBehind({ page: "home", at: new Date(0), seconds: 1 });`;
  const ended = await program(t, text);
  assert.equal(ended.code, 0, ended.stderr);
  assert.match(ended.stdout, /^Cache saved VISIT#home /m);
});
