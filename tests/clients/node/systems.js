// The five systems as their users set them up: tables that `larder apply` makes, and items that
// all sides agree on.
//
// ITEMS are items in DynamoDB's JSON, all written at NOW: the programs here write exactly these and
// read them, and so does the data layer (crates/larder/tests/seeds.rs). NOW is far ahead, so that
// no server takes an item of that moment for an expired one.

import { execFile } from "node:child_process";
import { readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import {
  DeleteTableCommand,
  GetItemCommand,
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

// Deletes a table, also one that its schema retains.
export async function drop(client, TableName) {
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
