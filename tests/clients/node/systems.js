// The five systems as their users set them up: tables that `larder apply` makes, and items that
// all sides agree on.
//
// ITEMS are items in DynamoDB's JSON, all written at NOW: the programs here write exactly these and
// read them, and so does the data layer (crates/larder/tests/seeds.rs). NOW is far ahead, so that
// no server takes an item of that moment for an expired one.
//
// On a server with `--throttle`, THROTTLES names a file: see systems.py.

import { execFile } from "node:child_process";
import { appendFileSync, readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import {
  DeleteItemCommand,
  DeleteTableCommand,
  DescribeTableCommand,
  GetItemCommand,
  PutItemCommand,
  ScanCommand,
  UpdateTableCommand,
} from "@aws-sdk/client-dynamodb";
import { credentials } from "./endpoint.js";

// `run` links the directory beside a copy of this file; the schemas are beside the original.
const here = realpathSync(fileURLToPath(new URL("../systems", import.meta.url)));
const { now, ...items } = JSON.parse(readFileSync(join(here, "items.json"), "utf8"));

export const NOW = new Date(now);
export const ITEMS = items;
export const SKIP =
  !process.env.LARDER_BIN && "LARDER_BIN does not name the binary whose `apply` makes the tables";

// Makes the tables of a system, named by the environment as in production.
export async function apply(system, environment) {
  const schema = join(here, "../../../schemas", `${system}.larder`);
  const store = `dynamodb:${process.env.ENDPOINT}`;
  const { accessKeyId, secretAccessKey } = credentials();
  await promisify(execFile)(process.env.LARDER_BIN, ["apply", schema, "--yes", "--store", store], {
    env: {
      ...process.env,
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
      AWS_REGION: "us-east-1",
      AWS_EC2_METADATA_DISABLED: "true",
      ...environment,
    },
    timeout: 60_000,
  });
}

// The systems of tables that were left with few units.
const starved = new Map();

// Leaves a table with few units, where throughput is enforced: too few for what its program does at once. It was
// written to before, so that what is counted of it is there to be read.
export async function starve(client, system, TableName) {
  if (!process.env.THROTTLES) return;
  const { Table } = await client.send(new DescribeTableCommand({ TableName }));
  const Key = Object.fromEntries(
    Table.KeySchema.map(({ AttributeName }) => [AttributeName, { S: "first" }]),
  );
  await client.send(new PutItemCommand({ TableName, Item: Key }));
  await client.send(new DeleteItemCommand({ TableName, Key }));
  const ProvisionedThroughput = { ReadCapacityUnits: 1, WriteCapacityUnits: 1 };
  const indexes = Table.GlobalSecondaryIndexes?.map(({ IndexName }) => ({
    Update: { IndexName, ProvisionedThroughput },
  }));
  await client.send(
    new UpdateTableCommand({
      TableName,
      BillingMode: "PROVISIONED",
      ProvisionedThroughput,
      GlobalSecondaryIndexUpdates: indexes,
    }),
  );
  starved.set(TableName, system);
  await note(TableName, "before");
}

// Notes what was turned away of a table, by operation, as the server has counted it.
async function note(table, when) {
  const system = starved.get(table);
  const answer = await fetch(new URL("/metrics", process.env.ENDPOINT));
  const begin = `larder_throttled_requests_total{table="${table}",`;
  for (const line of (await answer.text()).split("\n")) {
    if (!line.startsWith(begin)) continue;
    const [series, value] = line.split(" ");
    appendFileSync(process.env.THROTTLES, `${system}\t${when}\t${series}\t${value}\n`);
  }
}

// Deletes a table of a system, also one that its schema retains.
export async function drop(client, TableName) {
  if (starved.has(TableName)) await note(TableName, "after");
  await client.send(new UpdateTableCommand({ TableName, DeletionProtectionEnabled: false }));
  await client.send(new DeleteTableCommand({ TableName }));
}

// An item as it is stored, in DynamoDB's JSON.
export async function stored(client, TableName, Key) {
  const { Item } = await client.send(new GetItemCommand({ TableName, Key, ConsistentRead: true }));
  return Item;
}

export async function count(client, TableName) {
  return (await client.send(new ScanCommand({ TableName, Select: "COUNT" }))).Count;
}

// The clock of the program stands at NOW until the test ends.
export function stopClock(t) {
  t.mock.timers.enable({ apis: ["Date"], now: NOW });
}
