// What every test file shares: a client for ENDPOINT, and tables that are gone when the test ends.

import { randomUUID } from "node:crypto";
import {
  CreateTableCommand,
  DeleteTableCommand,
  DynamoDBClient,
  waitUntilTableExists,
} from "@aws-sdk/client-dynamodb";

export const WAIT = { minDelay: 1, maxDelay: 2, maxWaitTime: 60 };

const endpoint = process.env.ENDPOINT;
if (!endpoint) throw new Error("set ENDPOINT, for example to http://127.0.0.1:8000");

// One attempt, so that an error a retry would have hidden is seen.
export function connect() {
  return new DynamoDBClient({
    endpoint,
    region: "us-east-1",
    credentials: { accessKeyId: "larderclients", secretAccessKey: "secret" },
    maxAttempts: 1,
    requestHandler: { connectionTimeout: 5_000, requestTimeout: 30_000 },
  });
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
