#!/usr/bin/env node
// The `larder` command, as it was built with the package.
"use strict";

const { spawn } = require("node:child_process");
const { existsSync } = require("node:fs");
const { constants } = require("node:os");
const { join } = require("node:path");

const command = join(__dirname, process.platform === "win32" ? "larder.exe" : "larder");
if (!existsSync(command)) {
  console.error("larder: the command was not built with this package: run `npm rebuild larder` without LARDER_WITHOUT_COMMAND");
  process.exit(1);
}
const child = spawn(command, process.argv.slice(2), { stdio: "inherit" });
// Whoever ends this process means the command, which decides what that means. A signal from the keyboard reaches both.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`larder: the command cannot be run: ${error.message}`);
  process.exit(1);
});
child.on("exit", (status, signal) => process.exit(status ?? 128 + constants.signals[signal]));
