// A `fetch` that hits, in Node: Larder beside keyv with SQLite and bentocache, in one run.
//
//   (cd crates/node && LARDER_WITHOUT_COMMAND=1 node build.mjs)       a release
//   cd tests/languages/bench-node && npm install && npm link --no-save ../../../crates/node
//   node ../bench.mjs [--seconds 1] [--rounds 3]
//
// One value of about 300 bytes, asked for again and again by one program, one after the other. Larder and bentocache keep it in
// memory too: each is measured with that (hit in memory) and without (hit on disk). Also: a thousand who ask for one cold key, of whom Larder
// lets one load. What is not installed is left out.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// The packages are those of the directory that this is run in.
const require = createRequire(join(process.cwd(), "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const isThere = (name) => {
  try {
    return Boolean(require.resolve(name));
  } catch {
    return false;
  }
};
const option = (name, otherwise) => Number(process.argv[process.argv.indexOf(`--${name}`) + 1] || otherwise);
const seconds = process.argv.includes("--seconds") ? option("seconds", 1) : 1;
const rounds = process.argv.includes("--rounds") ? option("rounds", 3) : 3;

const work = mkdtempSync(join(tmpdir(), "larder-bench-"));
const VALUE = { name: "緑風ステークス", horses: Array.from({ length: 8 }, (_, n) => `horse ${n}`), text: "x".repeat(150) };
const KEY = "202405021211";

const schema = (l1) => `
system bench
table races {
  key  pk
  ttl  ends
  entity Race {
    key  "RACE#{race_id}"
    ttl  7d
    ${l1}
    input race_id: string nonempty
    data: json
  }
}
`;

const contenders = [];
const add = (name, keeps, get, cold) => contenders.push({ name, keeps, get, cold });

const { open } = await load("larder");
for (const [name, l1] of [["larder, in memory", "l1 1h"], ["larder, on disk", ""]]) {
  const path = join(work, `${l1 || "disk"}.larder`);
  writeFileSync(path, schema(l1));
  const system = await open(path, { store: join(work, `${l1 || "disk"}-data`) });
  const race = async () => ({ data: VALUE });
  await system.Race.fetch(KEY, race);
  add(name, "a directory", () => system.Race.fetch(KEY, race), (count) => (key) => system.Race.fetch(key, count(race)));
}

if (isThere("@keyv/sqlite")) {
  const { default: Keyv } = await load("keyv").then((module) => ({ default: module.Keyv ?? module.default }));
  const sqlite = await load("@keyv/sqlite");
  const KeyvSqlite = sqlite.KeyvSqlite ?? sqlite.default;
  const keyv = new Keyv({ store: new KeyvSqlite(`sqlite://${join(work, "keyv.sqlite")}`) });
  await keyv.set(KEY, VALUE, 7 * 86_400_000);
  add("keyv with SQLite", "a file", () => keyv.get(KEY), (count) => async (key) => {
    const kept = await keyv.get(key);
    if (kept !== undefined) return kept;
    const made = await count(async () => VALUE)();
    await keyv.set(key, made);
    return made;
  });
}

if (isThere("bentocache")) {
  const { BentoCache, bentostore } = await load("bentocache");
  const memory = await load("bentocache/drivers/memory");
  const file = await load("bentocache/drivers/file");
  const bento = new BentoCache({
    default: "both",
    stores: {
      both: bentostore().useL1Layer(memory.memoryDriver({ maxSize: "10mb" })).useL2Layer(file.fileDriver({ directory: join(work, "both") })),
      disk: bentostore().useL2Layer(file.fileDriver({ directory: join(work, "disk") })),
    },
  });
  for (const [name, store] of [["bentocache, in memory", "both"], ["bentocache, on disk", "disk"]]) {
    const cache = bento.use(store);
    const ask = (key, factory) => cache.getOrSet({ key, ttl: "7d", factory });
    await ask(KEY, async () => VALUE);
    add(name, "files", () => ask(KEY, async () => VALUE), (count) => (key) => ask(key, count(async () => VALUE)));
  }
}

async function perSecond(get) {
  const until = performance.now() + seconds * 1000;
  const started = performance.now();
  let done = 0;
  while (performance.now() < until) {
    for (let n = 0; n < 50; n += 1) await get();
    done += 50;
  }
  return done / ((performance.now() - started) / 1000);
}

/** How often the source is called when a thousand ask at once. */
async function calls(cold, key) {
  let called = 0;
  const ask = cold((load) => async (...args) => {
    called += 1;
    await new Promise((resolve) => setTimeout(resolve, 5));
    return load(...args);
  });
  await Promise.all(Array.from({ length: 1000 }, () => ask(key)));
  return called;
}

const best = new Map(contenders.map(({ name }) => [name, 0]));
for (let round = 0; round < rounds; round += 1) {
  for (const { name, get } of contenders) best.set(name, Math.max(best.get(name), await perSecond(get)));
}
console.log(`node ${process.version}, best of ${rounds} rounds of ${seconds} s\n`);
console.log(`${"".padEnd(24)}${"keeps in".padEnd(14)}${"µs a hit".padStart(10)}${"hits a second".padStart(16)}${"calls for 1,000 cold".padStart(22)}`);
for (const { name, keeps, cold } of contenders) {
  const rate = best.get(name);
  const called = await calls(cold, `cold ${name}`);
  if (name.startsWith("larder")) assert.equal(called, 1, "one load per key");
  const columns = [(1e6 / rate).toFixed(1).padStart(10), Math.round(rate).toLocaleString("en").padStart(16), String(called).padStart(22)];
  console.log(name.padEnd(24) + keeps.padEnd(14) + columns.join(""));
}
process.on("exit", () => rmSync(work, { recursive: true, force: true }));
process.exit(0);
