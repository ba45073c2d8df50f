// The types of `larder export typescript`: the examples are right by them, and a mistake does not compile.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";

import ts from "typescript";

import { binary, root, run } from "./larder.mjs";

const examples = join(root, "examples/typescript");
const config = ts.getParsedCommandLineOfConfigFile(join(examples, "tsconfig.json"), {}, {
  ...ts.sys,
  onUnRecoverableConfigFileDiagnostic: (diagnostic) => assert.fail(JSON.stringify(diagnostic.messageText)),
});

/** What the compiler says of these files. */
function diagnostics(names, host) {
  const program = ts.createProgram(names, { ...config.options, noEmit: true }, host);
  return ts.getPreEmitDiagnostics(program).map(({ file, start, code, messageText }) => {
    const line = file && file.getLineAndCharacterOfPosition(start).line + 1;
    return `${file?.fileName}:${line}: TS${code}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`;
  });
}

/** The same of a text among the examples. The library is read once. */
const shared = ts.createCompilerHost(config.options);
const read = new Map();
function diagnosticsOf(text, file = "mistake.ts") {
  const name = join(examples, file);
  const host = {
    ...shared,
    fileExists: (file) => file === name || shared.fileExists(file),
    readFile: (file) => (file === name ? text : shared.readFile(file)),
    getSourceFile(file, options) {
      if (file === name) return ts.createSourceFile(file, text, options);
      if (!read.has(file)) read.set(file, shared.getSourceFile(file, options));
      return read.get(file);
    },
  };
  return diagnostics([name], host);
}

const HEAD = `
import { onLog, open } from "larder";
import type { LunchSystem } from "./lunch-types.js";
import type { Tdnet } from "./tdnet-types.js";
const tdnet = await open<Tdnet>("tdnet.larder");
const lunch = await open<LunchSystem>("lunch.larder");
const toyota = { company_code: "7203", company_name: "トヨタ", disclosure_type: "決算短信", title: "t", disclosed_at: new Date(), downloaded_at: new Date() };
`;

const RIGHT = `
await tdnet.Disclosure.create(toyota);
const one = await tdnet.Disclosure.get("20240201_7203_001");
const day: Date | undefined = one?.disclosed_at;
await tdnet.Execution.lifecycle("status").run("id", "fail", { error_message: "x" });
await lunch.Menu.fetch({ restaurant: "niagara", year: 2025, week: 3 }, async ({ week }) => ({ lunches: [], last_updated: new Date(week) }));
for await (const menu of lunch.Menu.query("history", "niagara", { from: new Date() })) menu.lunch_count.toFixed();
using listening = onLog(({ level, message, fields, time }) => console[level](time.toISOString(), message, fields["entity"]), { level: "debug" });
listening();
`;

const MISTAKES = {
  "an entity that is not there": [`await tdnet.Disclosures.get("1");`, /Disclosures/],
  "a field that is not there": [`await tdnet.Disclosure.create({ ...toyota, titel: "t" });`, /titel/],
  "a field that is missing": [`await tdnet.Execution.create({});`, /execution_id/],
  "a number where a text belongs": [`await tdnet.Disclosure.create({ ...toyota, company_code: 7203 });`, /number.*string/s],
  "a text where a number belongs": [`await tdnet.Execution.create({ execution_id: "id", progress: "10" });`, /string/],
  "a field that is worked out": [`await tdnet.Disclosure.update("id", { set: { date_partition: "2024-01" } });`, /date_partition/],
  "a weekday in another language": [
    `await lunch.Menu.put({ restaurant: "n", year: 2025, week: 3, lunches: [{ name: "n", price: 1, weekday: "monday", week: 3, place: "p" }] });`,
    /"monday"/,
  ],
  "a key that lacks a part": [`await lunch.Menu.get({ restaurant: "niagara", week: 3 });`, /year/],
  "an index that is not there": [`tdnet.Disclosure.query("by_day", "2024-01-31");`, /by_day/],
  "a range of another type": [`tdnet.Disclosure.query("by_company", "7203", { from: 20240131 });`, /number/],
  "a state that is not there": [`await tdnet.Execution.lifecycle("status").inState("done");`, /"done"/],
  "a transition that is not there": [`await tdnet.Execution.lifecycle("status").run("id", "finish");`, /"finish"/],
  "a transition without its parameter": [`await tdnet.Execution.lifecycle("status").run("id", "fail");`, /arguments/],
  "a loader that gives something else": [
    `await lunch.Menu.fetch({ restaurant: "n", year: 2025, week: 3 }, async () => ({ menus: [] }));`,
    /lunches|menus/,
  ],
  "a record that may not be there": [`(await tdnet.Disclosure.get("id")).title;`, /undefined/],
  "an optional field taken for granted": [`(await tdnet.Disclosure.create(toyota)).pdf_url.length;`, /undefined/],
  "a level that is not there": [`onLog(() => {}, { level: "warning" });`, /"warning"/],
  "adding to what is no number": [`await tdnet.Execution.update("id", { add: { error_message: 1 } });`, /error_message/],
  "clearing what must be there": [`await tdnet.Disclosure.update("id", { clear: ["title"] });`, /"title"/],
};

test("t13_the_examples_are_right_by_their_types", () => {
  const files = config.fileNames.filter((name) => !name.includes("/dist/"));
  assert.ok(files.length >= 6, files.join());
  assert.deepEqual(diagnostics(files), []);
});

test("what_is_right_compiles", () => assert.deepEqual(diagnosticsOf(HEAD + RIGHT), []));

test("without_types_everything_compiles", () => {
  const text = `import { open } from "larder";
    const any = await open("tdnet.larder", { store: "memory:" });
    const page = await any.entity("Page").fetch("k", () => ({ text: 1 }));
    page["anything"].whatever;
    for await (await using lease of any.entity("Shop").lifecycle("crawl").claim("DE")) await lease.finish();
    await using closed = any;`;
  assert.deepEqual(diagnosticsOf(text), []);
});

test("what_is_required_has_the_same_types", () => {
  const text = (more) => `import larder = require("larder");
    import type { Tdnet } from "./tdnet-types.js" with { "resolution-mode": "import" };
    async function run() {
      const tdnet = await larder.open<Tdnet>("tdnet.larder");
      return [(await tdnet.Disclosure.get("20240201_7203_001"))?.title, larder.LarderError.name, ${more}];
    }
    void run;`;
  assert.deepEqual(diagnosticsOf(text(""), "required.cts"), []);
  assert.match(diagnosticsOf(text(`tdnet.Disclosures`), "required.cts").join(), /Disclosures/);
});

describe("t13_a_mistake_does_not_compile", () => {
  for (const [name, [text, expected]] of Object.entries(MISTAKES)) {
    test(name, () => {
      const told = diagnosticsOf(`${HEAD}${text}\n`);
      assert.equal(told.length, 1, told.join("\n") || "it compiles");
      assert.match(told[0], expected);
      assert.match(told[0], /mistake\.ts:8:/);
    });
  }
});

for (const system of ["lunch", "tdnet"]) {
  test(`the types of ${system} are those that the command writes`, async () => {
    const { stdout, stderr } = await run(binary, ["export", "typescript", join(root, `schemas/${system}.larder`)]);
    assert.equal(stdout, readFileSync(join(examples, `${system}-types.ts`), "utf8"), stderr);
  });
}

for (const system of ["keiba", "weather", "shops", "../tests/exports/all", "../tests/languages/scenarios"]) {
  test(`the types of ${system} compile`, async () => {
    const { stdout } = await run(binary, ["export", "typescript", join(root, `schemas/${system}.larder`)]);
    assert.match(stdout, /export interface/);
    assert.deepEqual(diagnosticsOf(stdout), []);
  });
}

test("an_example_is_shorter_than_the_class_it_replaces", () => {
  const lines = (text) => text.split("\n").filter((line) => line.trim() !== "").length;
  const between = (file, from, to) => {
    const text = readFileSync(join(root, file), "utf8");
    assert.ok(text.includes(from) && text.includes(to), `${file} has the class`);
    return lines(text.slice(text.indexOf(from), text.indexOf(to)));
  };
  const classes = {
    lunch: between("tests/clients/node/lunch.test.js", "const DAY", "const MENU"),
    tdnet: between("tests/clients/node/tdnet.test.js", "const utc", "const TOYOTA"),
  };
  for (const [system, theirs] of Object.entries(classes)) {
    const ours = lines(readFileSync(join(examples, `${system}.ts`), "utf8"));
    assert.ok(ours < theirs, `${system}: ${ours} lines, the class has ${theirs}`);
  }
});
