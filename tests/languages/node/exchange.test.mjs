// What is written here is read by the others, and the other way round: through a directory, with the command of Rust.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { open } from "larder";

import { binary, directory, languages, run } from "./larder.mjs";

const schema = join(languages, "scenarios.larder");
const { exchange } = JSON.parse(readFileSync(join(languages, "scenarios.json"), "utf8"));
const KEYS = { Note: ["owner", "title"], Page: ["url"], Book: ["isbn"], Shop: ["domain"], Report: ["day", "number"] };

/** Fields of the scenarios, with what `$repeat` stands for. */
const filled = (fields) =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => {
      if (!value?.$repeat) return [name, value];
      const { text, times, members } = value.$repeat;
      return [name, Array.from({ length: members }, () => text.repeat(times))];
    }),
  );

/** The same with JavaScript's own types. */
const own = ({ raw, tags, seen_at, ...fields }) => ({
  ...fields,
  ...(raw && { raw: new Uint8Array(Buffer.from(raw, "base64")) }),
  ...(tags && { tags: new Set(tags) }),
  ...(seen_at && { seen_at: new Date(seen_at) }),
});

const larder = async (store, ...args) => {
  const done = await run(binary, [...args, "--store", store], { cwd: languages });
  assert.equal(done.code, 0, done.stderr);
  return done.stdout;
};

// The package of Python, where tests/languages/run has installed it; ./test has.
const python = process.env.LARDER_PYTHON;
const withPython = async (what, store) => {
  const done = await run(python, [join(languages, "python/exchange.py"), what, store], { cwd: join(languages, "python") });
  assert.equal(done.code, 0, done.stderr);
};

test("python_reads_what_is_written_here", { skip: !python && "LARDER_PYTHON is not set" }, async (t) => {
  const store = directory(t);
  const system = await open(schema, { store });
  for (const { entity, fields } of exchange) await system.entity(entity).put(own(filled(fields)));
  await system.close();
  await withPython("read", store);
});

test("what_python_writes_is_read_here", { skip: !python && "LARDER_PYTHON is not set" }, async (t) => {
  const store = directory(t);
  await withPython("write", store);
  const system = await open(schema, { store });
  for (const { entity, fields } of exchange) {
    const read = await system.entity(entity).get(Object.fromEntries(KEYS[entity].map((name) => [name, fields[name]])));
    for (const [name, value] of Object.entries(own(filled(fields)))) assert.deepEqual(read[name], value, `${entity}.${name}`);
  }
  await system.close();
});

test("the_command_reads_what_is_written_here", async (t) => {
  const store = directory(t);
  const system = await open(schema, { store });
  for (const { entity, fields } of exchange) await system.entity(entity).put(own(filled(fields)));
  await system.close();
  for (const { entity, fields } of exchange) {
    const key = KEYS[entity].map((name) => `${name}=${fields[name]}`);
    const read = JSON.parse(await larder(store, "get", `scenarios.${entity}`, ...key, "--json"));
    for (const [name, value] of Object.entries(filled(fields))) assert.deepEqual(read[name], value, `${entity}.${name}`);
  }
});

test("what_the_command_writes_is_read_here", async (t) => {
  const store = directory(t);
  for (const { entity, fields } of exchange) {
    const given = Object.entries(filled(fields)).map(
      ([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`,
    );
    if (given.join().length < 100_000) await larder(store, "put", `scenarios.${entity}`, ...given);
  }
  const system = await open(schema, { store });
  for (const { entity, fields } of exchange.filter(({ entity }) => entity !== "Book")) {
    const read = await system.entity(entity).get(Object.fromEntries(KEYS[entity].map((name) => [name, fields[name]])));
    for (const [name, value] of Object.entries(own(filled(fields)))) assert.deepEqual(read[name], value, `${entity}.${name}`);
  }
  await system.close();
});
