// Builds the addon and the `larder` command with cargo, and puts them where the package looks for them.
//
// LARDER_PROFILE=dev builds faster what runs slower; LARDER_WITHOUT_COMMAND=1 leaves the command out.

import { execFileSync } from "node:child_process";
import { copyFileSync, chmodSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const cargo = process.env.CARGO ?? "cargo";
const profile = process.env.LARDER_PROFILE ?? "release";
const command = process.env.LARDER_WITHOUT_COMMAND ? [] : ["-p", "larder-cli"];

run("build", "--profile", profile, "-p", "larder-node", ...command);
const { target_directory } = JSON.parse(run("metadata", "--format-version", "1", "--no-deps"));
const built = join(target_directory, profile === "dev" ? "debug" : profile);
const library = { darwin: "liblarder_node.dylib", win32: "larder_node.dll" }[process.platform] ?? "liblarder_node.so";
put(join(built, library), join(here, "larder.node"));
if (command.length > 0) {
  const name = process.platform === "win32" ? "larder.exe" : "larder";
  put(join(built, name), join(here, "bin", name));
  chmodSync(join(here, "bin", name), 0o755);
}

function run(...args) {
  const stdio = ["ignore", args[0] === "metadata" ? "pipe" : "inherit", "inherit"];
  try {
    return execFileSync(cargo, args, { cwd: here, stdio, encoding: "utf8", maxBuffer: 1 << 28 });
  } catch (error) {
    if (error.code !== "ENOENT") process.exit(1);
    console.error("larder: there is no cargo: install Rust (rustup.rs), or name it with CARGO");
    process.exit(1);
  }
}

/** A process that runs the old file keeps it. */
function put(from, to) {
  copyFileSync(from, `${to}.new`);
  renameSync(`${to}.new`, to);
}
