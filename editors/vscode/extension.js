// Starts `larder lsp` for the schemas that are open. All else is the server's: diagnostics, completion, rename, fixes,
// formatting, colours, hover.
"use strict";

const { commands, window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

/** @type {LanguageClient | undefined} */
let client;

async function start() {
  const command = workspace.getConfiguration("larder").get("command") || "larder";
  client = new LanguageClient(
    "larder",
    "Larder",
    { command, args: ["lsp"] },
    { documentSelector: [{ language: "larder" }] },
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const settings = "Open settings";
    const chosen = await window.showErrorMessage(
      `\`${command} lsp\` could not be started: ${error.message ?? error}. Install larder, or say where it is.`,
      settings,
    );
    if (chosen === settings) {
      await commands.executeCommand("workbench.action.openSettings", "larder.command");
    }
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function restart() {
  await stop();
  await start();
}

exports.activate = async (context) => {
  context.subscriptions.push(
    commands.registerCommand("larder.restart", restart),
    workspace.onDidChangeConfiguration((change) => change.affectsConfiguration("larder.command") && restart()),
  );
  await start();
};

exports.deactivate = stop;
