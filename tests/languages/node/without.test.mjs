// The lines that the guide gives to programs that stay with the SDK, as they stand there, beside the layer: they read the same, and judge
// freshness alike, at every moment of a clock that is moved.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { DeleteCommand, DynamoDBDocumentClient, GetCommand, PutCommand, UpdateCommand } from "@aws-sdk/lib-dynamodb";
import { AbsentError, Store, open } from "larder";
import ts from "typescript";

import { endpoint, languages, root } from "./larder.mjs";

const HOUR = 3600;
/** For how many seconds each entity may be given past its time, as `larder docs` says of without.larder. */
const STALE = { Plain: 0, Grace: 24 * HOUR, Stale: 600, Both: 24 * HOUR, Endless: 0, Split: HOUR, Packed: 0 };
const TableName = "without-node";
const NAMES = ["pk", "sk"];
const stops = [];
let store, system, documents, whole, freshness;

before(async () => {
  const guide = readFileSync(join(root, "docs/guides/typescript.md"), "utf8");
  const blocks = guide.split("\n```").filter((block) => block.startsWith("ts\n") && block.includes("function whole("));
  assert.equal(blocks.length, 1);
  const code = blocks[0].slice(3);
  // Which the compiler has checked.
  assert.equal(`${code}\n`, readFileSync(join(root, "examples/typescript/larder-parts.ts"), "utf8"));
  const { outputText } = ts.transpileModule(code, { compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext } });
  ({ whole, freshness } = await import(`data:text/javascript,${encodeURIComponent(outputText)}`));

  const address = await endpoint({ after: (stop) => stops.push(stop) });
  Object.assign(process.env, { AWS_ACCESS_KEY_ID: "any", AWS_SECRET_ACCESS_KEY: "any", AWS_REGION: "us-east-1", AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: "true" });
  const client = new DynamoDBClient({ endpoint: address });
  documents = DynamoDBDocumentClient.from(client);
  stops.push(() => client.destroy());
  store = await Store.open(`dynamodb:${address}`);
  store.clock.stop();
  system = await open(join(languages, "without.larder"), { store, environment: { WITHOUT_STAGE: "node" } });
  stops.push(() => system.close());
  await system.provision();
});
after(async () => {
  for (const stop of stops.reverse()) await stop();
});

const keyOf = (entity, id) => ({ pk: `${entity.toUpperCase()}#${id}`, sk: entity.toUpperCase() });
const get = async (Key) => (await documents.send(new GetCommand({ TableName, Key, ConsistentRead: true }))).Item;

/** What the layer makes of a record when its source is down. */
async function ofTheLayer(entity, id) {
  const down = new Error("the source is down");
  const { hit } = await system[entity].look(id);
  const fetched = await system[entity].fetch(id, () => { throw down; }).catch((error) => {
    assert.ok(error === down || error instanceof AbsentError, error);
  });
  if (!fetched) return "gone";
  assert.equal(fetched.$.origin, hit ? "store" : "stale");
  return hit ? "fresh" : "stale";
}

test("an_item_is_fresh_stale_or_gone_as_the_layer_has_it", async () => {
  const ids = [...Object.keys(STALE).map((entity) => [entity, "kept"]), ["Grace", "absent"]];
  for (const entity of Object.keys(STALE)) await system[entity].put({ id: "kept", text: "x" });
  await assert.rejects(system.Grace.fetch("absent", () => undefined), AbsentError);
  // What another program put is judged by its own time, if it is one.
  for (const [id, ends] of Object.entries({ text: "1", fraction: 1.5, none: undefined })) {
    await documents.send(new PutCommand({ TableName, Item: { ...keyOf("Plain", id), text: "x", ...(ends && { ends }) } }));
    ids.push(["Plain", id]);
  }
  const began = Math.floor(store.clock.now() / 1000);
  const ends = [HOUR, HOUR + 600, 2 * HOUR, 25 * HOUR].flatMap((second) => [second, second + 1]);
  const seen = {};
  for (const second of [0, ...ends]) {
    store.clock.advance((began + second) * 1000 + 999 - store.clock.now().getTime());
    for (const [entity, id] of ids) {
      const stored = await get(keyOf(entity, id));
      const said = freshness(stored, store.clock.now(), "ends", STALE[entity]);
      assert.equal(said, await ofTheLayer(entity, id), `${entity} ${id} after ${second} seconds`);
      (seen[`${entity} ${id}`] ??= new Set()).add(said);
    }
  }
  const all = Object.fromEntries(Object.entries(seen).map(([which, said]) => [which, [...said].join()]));
  assert.deepEqual(all, {
    "Plain kept": "fresh,gone",
    "Grace kept": "fresh,stale,gone",
    "Stale kept": "fresh,stale,gone",
    "Both kept": "fresh,stale,gone",
    "Endless kept": "fresh",
    "Split kept": "fresh,stale,gone",
    "Packed kept": "fresh,gone",
    "Grace absent": "gone",
    "Plain text": "fresh",
    "Plain fraction": "fresh",
    "Plain none": "fresh",
  });
});

/** One of each type, each long enough to be packed. */
const VALUES = {
  more: { list: [1, -2.5, null, true, false, "t".repeat(2000), { deep: ["長い話"] }], none: {}, empty: [] },
  tags: new Set(Array.from({ length: 500 }, (_, number) => `tag ${number}`)),
  counts: new Set(Array.from({ length: 1000 }, (_, number) => number * 1000)),
  raw: Uint8Array.from({ length: 2000 }, (_, number) => number % 256),
};

test("packed_and_split_items_are_read_as_the_layer_reads_them", async () => {
  for (const [entity, text, marked] of [
    ["Split", "長い話 ".repeat(60_000), ({ larder_parts }) => larder_parts.count > 1],
    ["Packed", "lorem ipsum ".repeat(1000), ({ larder_packed }) => larder_packed.length > 0],
    ["Packed", "short", ({ larder_parts }) => !larder_parts],
  ]) {
    const values = text === "short" ? { tags: new Set("a"), counts: new Set([1]) } : VALUES;
    await system[entity].put({ id: "parts", text, ...values });
    const key = keyOf(entity, "parts");
    const stored = await get(key);
    assert.ok(marked(stored), entity);
    const same = async () => {
      const { larder_fresh_until, larder_stored_at, ends, ...read } = (await whole(get, NAMES, await get(key))) ?? {};
      const { id, ...fields } = (await system[entity].get("parts")) ?? {};
      assert.deepEqual(read, id ? { ...key, ...fields } : {});
      return read;
    };
    assert.deepEqual(await same(), { ...key, text, ...values });
    // What somebody has written into the item itself is newer than its parts.
    const newer = { UpdateExpression: "SET #text = :text", ExpressionAttributeNames: { "#text": "text" }, ExpressionAttributeValues: { ":text": "newer" } };
    await documents.send(new UpdateCommand({ TableName, Key: key, ...newer }));
    assert.equal((await same()).text, "newer");
    if (entity !== "Split") continue;
    // A part that is gone takes the whole of it along.
    await documents.send(new DeleteCommand({ TableName, Key: { ...key, sk: `${key.sk}#larder#${stored.larder_parts.version}#0` } }));
    assert.equal(await whole(get, NAMES, await get(key)), undefined);
    assert.deepEqual(await same(), {});
  }
});
