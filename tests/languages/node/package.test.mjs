// The package: `import` and `require`, what it gives, what `npm install` makes of a checkout.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import * as larder from "larder";

import { directory, languages, root, run } from "./larder.mjs";

test("import_and_require_give_the_same", () => {
  const required = createRequire(import.meta.url)("larder");
  const names = Object.keys(required).sort();
  assert.deepEqual(Object.keys(larder).sort(), names);
  for (const name of names) assert.equal(larder[name], required[name]);
});

test("everything_that_is_declared_is_there", async () => {
  const { readFileSync } = await import("node:fs");
  const declared = readFileSync(join(root, "crates/node/lib/index.d.ts"), "utf8");
  const names = [...declared.matchAll(/^export (?:function|class) (\w+)/gm)].map(([, name]) => name);
  assert.deepEqual(names.filter((name) => larder[name] === undefined), []);
  const missing = Object.keys(larder).filter((name) => !names.includes(name));
  assert.deepEqual(missing, []);
});

test("metrics_are_text_for_prometheus", async () => {
  const system = await larder.open(join(languages, "scenarios.larder"), { store: "memory:" });
  await system.Page.fetch("https://a.example/", () => ({ text: "x" }));
  await system.Page.fetch("https://a.example/", () => ({ text: "x" }));
  assert.match(system.metrics(), /larder_cache_hits_total\{system="scenarios",entity="Page"\} 1/);
  const { hits, loads, hitRate } = system.Page.stats();
  assert.deepEqual([hits, loads, hitRate], [1, 1, 0.5]);
  await system.close();
});

test("npm_install_from_a_checkout_brings_the_package_and_the_command", { skip: !process.env.LARDER_TEST_INSTALL }, async (t) => {
  const project = directory(t);
  const began = Date.now() - 1000;
  writeFileSync(join(project, "package.json"), '{ "private": true, "type": "module" }');
  const env = { ...process.env, LARDER_PROFILE: "dev" };
  const installed = await run("npm", ["install", "--no-audit", "--no-fund", join(root, "crates/node")], { cwd: project, env, millis: 500_000 });
  assert.equal(installed.code, 0, installed.stderr);
  const built = statSync(join(project, "node_modules/larder/larder.node"));
  assert.ok(built.mtimeMs >= began, "it was built just now");
  const script = `import { open } from "larder"; console.log((await open(process.argv[1], { store: "memory:" })).entities.length);`;
  writeFileSync(join(project, "program.mjs"), script.replace("argv[1]", "argv[2]"));
  const ran = await run(process.execPath, ["program.mjs", join(languages, "scenarios.larder")], { cwd: project });
  assert.deepEqual([ran.code, ran.stdout], [0, "9\n"], ran.stderr);
  const command = await run("npx", ["--no", "--", "larder", "--version"], { cwd: project });
  assert.match(command.stdout, /^larder \d/, command.stderr);

  // Whoever ends the package's program ends the server.
  const bin = join(project, "node_modules/larder/bin/larder.js");
  const served = spawn(process.execPath, [bin, "serve", "--memory", "--dynamodb", "127.0.0.1:0", "--no-console"], { stdio: ["ignore", "pipe", "pipe"] });
  t.after(() => served.kill("SIGKILL"));
  let said = "";
  const url = await new Promise((resolve, reject) => {
    served.on("exit", () => reject(new Error(`it ended: ${said}`)));
    for (const stream of [served.stdout, served.stderr]) {
      stream.on("data", (data) => {
        said += data;
        const found = /listening on (\S+)/.exec(said);
        if (found) resolve(found[1]);
      });
    }
  });
  const exit = new Promise((resolve) => served.on("exit", (code, signal) => resolve([code, signal])));
  served.kill("SIGTERM");
  assert.deepEqual(await exit, [0, null], said);
  await assert.rejects(fetch(url));
});
