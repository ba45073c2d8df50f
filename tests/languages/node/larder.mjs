// What the tests share: the package, the binary, a server of their own, an empty directory.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../../../", import.meta.url));
export const languages = join(root, "tests/languages");
export const binary = process.env.LARDER_BIN ?? join(root, "target/debug/larder");

/** A directory that is gone after the test. */
export function directory(t) {
  const path = mkdtempSync(join(tmpdir(), "larder-node-"));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** A server in memory, stopped after the test: its address. */
export async function endpoint(t, ...more) {
  const server = spawn(binary, ["serve", "--memory", "--dynamodb", "127.0.0.1:0", "--no-console", ...more], { stdio: ["ignore", "pipe", "inherit"] });
  t.after(async () => {
    if (server.exitCode !== null) return;
    server.kill("SIGTERM");
    await once(server, "exit");
  });
  for await (const line of createInterface({ input: server.stdout })) {
    const [, address] = /listening on (http:\S+)/.exec(line) ?? [];
    if (address) {
      server.stdout.resume();
      return address;
    }
  }
  throw new Error("the server did not start");
}

/** Runs a program and gives what it wrote and how it ended. It has a minute, or as long as is said. */
export async function run(command, args, { millis = 60_000, ...options } = {}) {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
  const late = setTimeout(() => child.kill("SIGKILL"), millis);
  const texts = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) child[name].setEncoding("utf8").on("data", (text) => (texts[name] += text));
  const [code, signal] = await once(child, "close");
  clearTimeout(late);
  return { code, signal, ...texts };
}
