// What every test file shares: a client for ENDPOINT, and tables that are gone when the test ends.
//
// On a server with `--access`, ACCESS names its access file: a program signs as its system, and what
// is done around it is the administrator's.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import {
  CreateTableCommand,
  DeleteTableCommand,
  DynamoDBClient,
  waitUntilTableExists,
} from "@aws-sdk/client-dynamodb";

export const WAIT = { minDelay: 1, maxDelay: 2, maxWaitTime: 60 };

const endpoint = process.env.ENDPOINT;
if (!endpoint) throw new Error("set ENDPOINT, for example to http://127.0.0.1:8000");

export const NO_ACCESS = !process.env.ACCESS && "the server has no --access";

// The key of somebody in the access file. Without a file any key is good.
export function credentials(name = "administrator") {
  if (NO_ACCESS) return { accessKeyId: "larderclients", secretAccessKey: "secret" };
  const { principals } = JSON.parse(readFileSync(process.env.ACCESS, "utf8"));
  const found = principals.find((principal) => principal.name === name);
  if (!found) throw new Error(`${process.env.ACCESS} has no ${name}`);
  return { accessKeyId: found.keys[0].id, secretAccessKey: found.keys[0].secret };
}

// One attempt, so that an error a retry would have hidden is seen, unless throughput is enforced.
export function connect({ as, region = "us-east-1" } = {}) {
  const client = new DynamoDBClient({
    endpoint,
    region,
    credentials: credentials(as),
    maxAttempts: process.env.THROTTLES ? 12 : 1,
    requestHandler: { connectionTimeout: 5_000, requestTimeout: 30_000 },
  });
  // A test can stop the clock of its program: the SDK signs with the time that it is.
  Object.defineProperty(client.config, "systemClockOffset", {
    get: () => performance.timeOrigin + performance.now() - Date.now(),
    set: () => {},
  });
  return client;
}

// What is said when somebody lacks the permission that their name ends with.
export function denial(name, resource) {
  const action = `dynamodb:${name.split(".").at(-1)}`;
  return {
    name: "AccessDeniedException",
    message:
      `User: arn:aws:iam::000000000000:user/${name} is not authorized to perform: ${action} on resource: ` +
      `arn:aws:dynamodb:${resource} because no identity-based policy allows the ${action} action`,
  };
}

export function tableName(label) {
  return `${label}-${randomUUID()}`;
}

// Makes a table of string keys; `indexes` maps the name of a global index to its two attributes.
export async function createTable(client, t, { keys, indexes = {} }) {
  const TableName = tableName("node");
  const schema = ([hash, range]) => [
    { AttributeName: hash, KeyType: "HASH" },
    { AttributeName: range, KeyType: "RANGE" },
  ];
  const attributes = new Set([...keys, ...Object.values(indexes).flat()]);
  const globals = Object.entries(indexes).map(([IndexName, keys]) => ({
    IndexName,
    KeySchema: schema(keys),
    Projection: { ProjectionType: "ALL" },
  }));
  await client.send(
    new CreateTableCommand({
      TableName,
      BillingMode: "PAY_PER_REQUEST",
      AttributeDefinitions: [...attributes].map((AttributeName) => ({
        AttributeName,
        AttributeType: "S",
      })),
      KeySchema: schema(keys),
      GlobalSecondaryIndexes: globals.length > 0 ? globals : undefined,
    }),
  );
  t.after(() => client.send(new DeleteTableCommand({ TableName })));
  await waitUntilTableExists({ client, ...WAIT }, { TableName });
  return TableName;
}

export function range(from, to) {
  return Array.from({ length: to - from }, (_, i) => from + i);
}
