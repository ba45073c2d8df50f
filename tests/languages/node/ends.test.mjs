// How a process or a worker ends: nothing hangs, and what was promised to be written is written, or it is told that it was not.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";

import { open } from "larder";

import { directory, languages, run } from "./larder.mjs";

const schema = join(languages, "scenarios.larder");
const HEAD = `
import { open } from "larder";
const system = await open(${JSON.stringify(schema)}, { store: process.env.STORE });
const behind = (n) => system.Visit.putBehind({ page: "home", at: new Date(n * 1000), seconds: 1 });
`;
const WRITES = 200;

/** Runs a program of JavaScript on a store in a directory. */
function program(text, store) {
  const args = ["--input-type=module", "--expose-gc", "-e", HEAD + text];
  return run(process.execPath, args, { env: { ...process.env, STORE: store }, cwd: join(languages, "node") });
}

/** How many visits there are in a directory. */
async function visits(store) {
  const system = await open(schema, { store });
  try {
    return await system.Visit.within("home").count();
  } finally {
    await system.close();
  }
}

const ALL = `for (let n = 0; n < ${WRITES}; n += 1) await behind(n);`;

for (const [name, text, code] of [
  ["that_comes_to_its_end", ALL, 0],
  ["that_calls_exit", `${ALL} process.exit(3);`, 3],
  ["that_throws", `${ALL} throw new Error("mine");`, 1],
  ["that_closes_its_system", `${ALL} await system.close();`, 0],
  ["that_exits_in_a_loader", `${ALL} await system.Page.fetch("https://a.example/", () => process.exit(4));`, 4],
  ["that_is_interrupted_in_a_loader", `process.once("SIGINT", () => process.exit(130)); ${ALL} await system.Page.fetch("https://a.example/", () => { process.kill(process.pid, "SIGINT"); return new Promise(() => {}); });`, 130],
  ["whose_loader_never_answers", `${ALL} system.Page.fetch("https://a.example/", () => new Promise(() => {})); setTimeout(() => process.exit(0), 50);`, 0],
  ["that_handles_sigterm", `process.once("SIGTERM", () => process.exit(0)); ${ALL} process.kill(process.pid, "SIGTERM"); await new Promise((r) => setTimeout(r, 10_000));`, 0],
]) {
  test(`a_process_${name}_has_written_what_it_wrote_behind`, async (t) => {
    const store = directory(t);
    const ended = await program(text, store);
    assert.deepEqual([ended.code, ended.signal], [code, null], ended.stderr);
    assert.equal(await visits(store), WRITES);
  });
}

test("a_process_whose_store_is_down_tells_what_it_did_not_write", async (t) => {
  const ended = await program(`system.store.faults.down(); await behind(1);`, directory(t));
  assert.equal(ended.code, 1);
  assert.match(ended.stderr, /larder: 1 writes behind were not written: Visit VISIT#home/);
});

test("an_open_system_does_not_keep_a_process_alive", async (t) => {
  const ended = await program(`await system.Page.fetch("https://a.example/", () => ({ text: "x" }));`, directory(t));
  assert.equal(ended.code, 0, ended.stderr);
});

test("a_process_waits_for_a_load_that_somebody_waits_for", async (t) => {
  const text = `
    system.Page.fetch("https://a.example/", async () => {
      await new Promise((resolve) => setTimeout(resolve, 100));
      return { text: "x" };
    }).then(({ text }) => console.log("had", text));`;
  const ended = await program(text, directory(t));
  assert.deepEqual([ended.code, ended.stdout], [0, "had x\n"], ended.stderr);
});

test("a_wait_that_was_aborted_does_not_keep_a_process_alive", async (t) => {
  const text = `
    const controller = new AbortController();
    const fetching = system.Page.fetch("https://a.example/", () => new Promise(() => {}), { signal: controller.signal });
    setTimeout(() => controller.abort(), 20);
    await fetching.catch((error) => console.log(error.name));`;
  const ended = await program(text, directory(t));
  assert.deepEqual([ended.code, ended.stdout], [0, "AbortError\n"], ended.stderr);
});

const WORKER = (text) => `
  import { Worker } from "node:worker_threads";
  await system.close();
  const code = ${JSON.stringify(`
    const { open } = require("larder");
    const { parentPort } = require("node:worker_threads");
    (async () => {
      const system = await open(${JSON.stringify(schema)}, { store: process.env.STORE });
      for (let n = 0; n < ${WRITES}; n += 1) await system.Visit.putBehind({ page: "home", at: new Date(n * 1000), seconds: 1 });
      parentPort.postMessage("ready");
      WAIT
    })();`)};
  const worker = (more) => new Worker(code.replace("WAIT", more), { eval: true, execArgv: [] });
  ${text}`;

for (const [name, text] of [
  ["that_comes_to_its_end", `await new Promise((resolve) => worker("").on("exit", resolve));`],
  ["that_is_terminated", `const one = worker("await new Promise((r) => setTimeout(r, 60_000));"); one.on("message", () => one.terminate()); await new Promise((resolve) => one.on("exit", resolve));`],
]) {
  test(`a_worker_${name}_has_written_what_it_wrote_behind`, async (t) => {
    const store = directory(t);
    const ended = await program(WORKER(text), store);
    assert.deepEqual([ended.code, ended.signal], [0, null], ended.stderr);
    assert.equal(await visits(store), WRITES);
  });
}

test("several_workers_each_have_a_system_of_their_own", async (t) => {
  const text = `
    import { Worker } from "node:worker_threads";
    const code = ${JSON.stringify(`
      const { open } = require("larder");
      const { parentPort } = require("node:worker_threads");
      (async () => {
        const system = await open(${JSON.stringify(schema)}, { store: "memory:" });
        let loads = 0;
        const load = async () => { loads += 1; return { text: "x" }; };
        await Promise.all(Array.from({ length: 100 }, () => system.Page.fetch("https://a.example/", load)));
        parentPort.postMessage(loads);
      })();`)};
    const loads = await Promise.all([1, 2, 3, 4].map(() => new Promise((resolve, reject) => new Worker(code, { eval: true, execArgv: [] }).on("message", resolve).on("error", reject))));
    console.log(loads.join());`;
  const ended = await program(text, directory(t));
  assert.deepEqual([ended.code, ended.stdout], [0, "1,1,1,1\n"], ended.stderr);
});

test("a_worker_that_is_terminated_in_a_load_leaves_the_process_whole", async (t) => {
  const text = `
    import { Worker } from "node:worker_threads";
    const code = ${JSON.stringify(`
      const { open } = require("larder");
      const { parentPort } = require("node:worker_threads");
      (async () => {
        const system = await open(${JSON.stringify(schema)}, { store: "memory:" });
        system.Page.fetch("https://a.example/", () => { parentPort.postMessage("loading"); return new Promise(() => {}); });
      })();`)};
    const one = new Worker(code, { eval: true, execArgv: [] });
    one.on("message", () => one.terminate());
    await new Promise((resolve) => one.on("exit", resolve));
    const { text } = await system.Page.fetch("https://a.example/", () => ({ text: "whole" }));
    console.log(text);`;
  const ended = await program(text, directory(t));
  assert.deepEqual([ended.code, ended.stdout], [0, "whole\n"], ended.stderr);
});

test("an_await_using_that_ends_with_unwritten_writes_throws", async () => {
  const system = await open(schema, { store: "memory:" });
  await system.Visit.putBehind({ page: "home", at: new Date(0), seconds: 1 });
  await system[Symbol.asyncDispose]();
  const broken = await open(schema, { store: "memory:" });
  broken.store.faults.down();
  await broken.Visit.putBehind({ page: "home", at: new Date(0), seconds: 1 });
  await assert.rejects(broken[Symbol.asyncDispose](), /1 writes behind were not written: Visit VISIT#home/);
});
