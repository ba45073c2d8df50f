// `larder serve --schema`: what the five schemas do not allow, the AWS SDK cannot write, however it
// tries. `systems/invalid.json` says what is wrong with each item, and boto3 tries the same. Each is
// an item of `systems/items.json` with a few attributes changed.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { readFileSync, readdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import {
  BatchWriteItemCommand,
  DeleteItemCommand,
  DynamoDBClient,
  PutItemCommand,
  ScanCommand,
  TransactWriteItemsCommand,
  UpdateItemCommand,
} from "@aws-sdk/client-dynamodb";
import { ITEMS, SKIP } from "./systems.js";

const here = realpathSync(fileURLToPath(new URL("../systems", import.meta.url)));
const schemas = join(here, "../../../schemas");
const INVALID = JSON.parse(readFileSync(join(here, "invalid.json"), "utf8"));

let server;
let client;

before(async () => {
  if (SKIP) return;
  const binary = process.env.LARDER_BIN;
  const listen = ["--memory", "--dynamodb", "127.0.0.1:0", "--schema", schemas];
  server = spawn(binary, ["serve", ...listen], { stdio: ["ignore", "pipe", "ignore"] });
  const [line] = await createInterface({ input: server.stdout })[Symbol.asyncIterator]()
    .next()
    .then(({ value }) => [value]);
  const endpoint = line.replace("listening on ", "");
  const files = readdirSync(schemas).filter((name) => name.endsWith(".larder"));
  await promisify(execFile)(binary, ["apply", ...files.map((name) => join(schemas, name)), "--yes"], {
    env: {
      ...process.env,
      AWS_ACCESS_KEY_ID: "larderclients",
      AWS_SECRET_ACCESS_KEY: "secret",
      AWS_EC2_METADATA_DISABLED: "true",
      LARDER_STORE: `dynamodb:${endpoint}`,
    },
    timeout: 60_000,
  });
  client = new DynamoDBClient({
    endpoint,
    region: "us-east-1",
    credentials: { accessKeyId: "larderclients", secretAccessKey: "secret" },
    maxAttempts: 1,
    requestHandler: { connectionTimeout: 5_000, requestTimeout: 30_000 },
  });
});

after(() => {
  client?.destroy();
  server?.kill();
});

const keyOf = ({ keys }, item) => Object.fromEntries(keys.map((name) => [name, item[name]]));
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

function changed(item, { set = {}, remove = [] }) {
  const kept = Object.entries(item).filter(([name]) => !remove.includes(name));
  return { ...Object.fromEntries(kept), ...set };
}

// What has changed alone, where there is something to change.
function update(invalid, old, item) {
  const Key = keyOf(invalid, item);
  const before = same(keyOf(invalid, old), Key) ? old : Key;
  const set = Object.keys(item).filter((name) => !same(before[name], item[name]));
  const removed = Object.keys(before).filter((name) => !(name in item));
  const names = Object.fromEntries([...set, ...removed].map((name, at) => [`#n${at}`, name]));
  const values = Object.fromEntries(set.map((name, at) => [`:v${at}`, item[name]]));
  const parts = [];
  if (set.length > 0) parts.push(`SET ${set.map((_, at) => `#n${at} = :v${at}`).join(", ")}`);
  if (removed.length > 0) {
    parts.push(`REMOVE ${removed.map((_, at) => `#n${set.length + at}`).join(", ")}`);
  }
  return new UpdateItemCommand({
    TableName: invalid.table,
    Key,
    UpdateExpression: parts.join(" "),
    ExpressionAttributeNames: names,
    ExpressionAttributeValues: set.length > 0 ? values : undefined,
  });
}

// SDKs take bytes, and JSON has them in base64.
function bytes(item) {
  const read = ([name, value]) => [
    name,
    typeof value.B === "string" ? { B: Buffer.from(value.B, "base64") } : value,
  ];
  return Object.fromEntries(Object.entries(item).map(read));
}

const WAYS = {
  put: ({ table }, _, Item) => new PutItemCommand({ TableName: table, Item }),
  update,
  batch: ({ table }, _, Item) =>
    new BatchWriteItemCommand({ RequestItems: { [table]: [{ PutRequest: { Item } }] } }),
  transaction: ({ table }, _, Item) =>
    new TransactWriteItemsCommand({ TransactItems: [{ Put: { TableName: table, Item } }] }),
};

async function all(TableName) {
  return (await client.send(new ScanCommand({ TableName, ConsistentRead: true }))).Items;
}

for (const invalid of INVALID) {
  test(`what a schema does not allow is refused: ${invalid.name}`, { skip: SKIP }, async () => {
    const { system, table, field, rule, says } = invalid;
    const valid = { ...ITEMS[system][invalid.item], ...invalid.before };
    for (const [way, command] of Object.entries(WAYS)) {
      await client.send(new DeleteItemCommand({ TableName: table, Key: keyOf(invalid, valid) }));
      await client.send(new PutItemCommand({ TableName: table, Item: valid }));
      const stored = await all(table);
      const item = bytes(changed(valid, invalid));
      const error = await client.send(command(invalid, valid, item)).then(
        () => assert.fail(`by ${way} it was written`),
        (error) => error,
      );
      const reason = error.CancellationReasons?.[0];
      assert.equal(reason?.Code ?? error.name, reason ? "ValidationError" : "ValidationException");
      const message = reason?.Message ?? error.message;
      const quoted = field.replace(/[.[\]]/g, "\\$&");
      const place = new RegExp(`${quoted}[^;]*?\\(${rule}, [^)]*?${system}\\.larder:(\\d+)\\)`);
      const told = message.match(place);
      assert.ok(told, message);
      const lines = readFileSync(join(schemas, `${system}.larder`), "utf8").split("\n");
      assert.ok(lines[told[1] - 1].includes(says), `${lines[told[1] - 1]}: ${message}`);
      assert.ok(!message.includes("hush"), message);
      assert.deepEqual(await all(table), stored);
    }
  });
}

test("there are enough of them", () => assert.ok(INVALID.length >= 40));
