// The packaged extension, started in place of VS Code: its API is played by this test, the server and what is packaged are real.
"use strict";

const assert = require("node:assert");
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const Module = require("node:module");
const path = require("node:path");
const { after, test } = require("node:test");

const EXTENSION = process.env.EXTENSION;
const manifest = JSON.parse(fs.readFileSync(path.join(EXTENSION, "package.json"), "utf8"));

const told = { commands: {}, errors: [], settings: { command: process.env.LARDER_BIN }, watchers: [] };
const clients = [];

// What a client of the protocol does at its start and end, with the command that the extension names.
class LanguageClient {
  constructor(id, name, server, options) {
    Object.assign(this, { id, name, server, options });
    clients.push(this);
  }

  async start() {
    this.child = spawn(this.server.command, this.server.args, { stdio: ["pipe", "pipe", "inherit"] });
    this.ended = new Promise((resolve) => this.child.once("exit", resolve));
    await new Promise((resolve, reject) => this.child.once("spawn", resolve).once("error", reject));
    this.capabilities = (await this.ask(1, "initialize", { processId: null, rootUri: null, capabilities: {} })).capabilities;
  }

  ask(id, method, params) {
    this.tell({ id, method, params });
    return new Promise((resolve) => {
      let text = "";
      this.child.stdout.on("data", (part) => {
        text += part;
        const body = text.split("\r\n\r\n")[1];
        if (body && Buffer.byteLength(body) >= Number(/Content-Length: (\d+)/.exec(text)[1])) {
          this.child.stdout.removeAllListeners("data");
          resolve(JSON.parse(body).result);
        }
      });
    });
  }

  tell(message) {
    const text = JSON.stringify({ jsonrpc: "2.0", ...message });
    this.child.stdin.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
  }

  async stop() {
    this.tell({ method: "initialized", params: {} });
    await this.ask(2, "shutdown", null);
    this.tell({ method: "exit" });
    this.code = await this.ended;
  }
}

const vscode = {
  commands: {
    registerCommand: (name, run) => ((told.commands[name] = run), { dispose() {} }),
    executeCommand: async () => {},
  },
  window: { showErrorMessage: async (message) => void told.errors.push(message) },
  workspace: {
    getConfiguration: () => ({ get: (name) => told.settings[name] }),
    onDidChangeConfiguration: (watch) => (told.watchers.push(watch), { dispose() {} }),
  },
};

const load = Module._load;
Module._load = (name, ...rest) => {
  if (name === "vscode") return vscode;
  if (name === "vscode-languageclient/node") {
    // What is played here is there in the package.
    Module._resolveFilename(name, ...rest);
    return { LanguageClient };
  }
  return load(name, ...rest);
};

const extension = require(path.join(EXTENSION, manifest.main));
after(() => extension.deactivate());

test("the package has what its manifest names", () => {
  for (const { path: file } of manifest.contributes.grammars) assert(fs.existsSync(path.join(EXTENSION, file)), file);
  for (const { configuration } of manifest.contributes.languages) assert(fs.existsSync(path.join(EXTENSION, configuration)));
  assert.deepStrictEqual(manifest.contributes.commands.map(({ command }) => command), ["larder.restart"]);
});

test("it starts the server for schemas", async () => {
  const context = { subscriptions: [] };
  await extension.activate(context);
  assert.strictEqual(context.subscriptions.length, 2);
  const [client] = clients;
  assert.deepStrictEqual(client.server, { command: process.env.LARDER_BIN, args: ["lsp"] });
  assert.deepStrictEqual(client.options.documentSelector, [{ language: "larder" }]);
  assert(client.capabilities.renameProvider && client.capabilities.semanticTokensProvider);
});

test("it starts again when it is told, and when the command changes", async () => {
  await told.commands["larder.restart"]();
  assert.strictEqual(clients[0].code, 0);
  assert.strictEqual(clients.length, 2);
  const change = (name) => ({ affectsConfiguration: (asked) => asked === name });
  await told.watchers[0](change("editor.tabSize"));
  assert.strictEqual(clients.length, 2);
  await told.watchers[0](change("larder.command"));
  assert.strictEqual(clients[1].code, 0);
  assert.strictEqual(clients.length, 3);
});

test("a command that is not there is told", async () => {
  told.settings.command = "/nowhere/larder";
  await told.commands["larder.restart"]();
  assert.match(told.errors[0], /`\/nowhere\/larder lsp` could not be started/);
  await extension.deactivate();
});
