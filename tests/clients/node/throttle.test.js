// `larder serve --throttle`: a program that is turned away tries again as the AWS SDK has it, and gets
// through; one that makes a single attempt is told why.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { after, before, describe, test } from "node:test";
import {
  BatchWriteItemCommand,
  CreateTableCommand,
  DynamoDBClient,
  PutItemCommand,
  ScanCommand,
} from "@aws-sdk/client-dynamodb";
import { SKIP } from "./systems.js";

describe("throughput that is enforced", { skip: SKIP }, () => {
  let server;
  let endpoint;
  const clients = [];

  before(async () => {
    const listen = ["--memory", "--dynamodb", "127.0.0.1:0", "--throttle"];
    server = spawn(process.env.LARDER_BIN, ["serve", ...listen], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
    endpoint = (await lines.next()).value.replace("listening on ", "");
  });
  after(() => {
    for (const client of clients) client.destroy();
    server?.kill();
  });

  function connect(maxAttempts) {
    const client = new DynamoDBClient({
      endpoint,
      region: "us-east-1",
      credentials: { accessKeyId: "larderclients", secretAccessKey: "secret" },
      maxAttempts,
      requestHandler: { connectionTimeout: 5_000, requestTimeout: 30_000 },
    });
    clients.push(client);
    return client;
  }

  async function smallTable(TableName, units) {
    await connect(1).send(
      new CreateTableCommand({
        TableName,
        AttributeDefinitions: [{ AttributeName: "pk", AttributeType: "S" }],
        KeySchema: [{ AttributeName: "pk", KeyType: "HASH" }],
        ProvisionedThroughput: { ReadCapacityUnits: 100, WriteCapacityUnits: units },
      }),
    );
  }

  const put = (client, TableName, n) =>
    client.send(new PutItemCommand({ TableName, Item: { pk: { S: String(n) } } }));

  async function stored(TableName) {
    const all = { TableName, Select: "COUNT", ConsistentRead: true };
    return (await connect(1).send(new ScanCommand(all))).Count;
  }

  // What an alarm for throttles looks at.
  async function throttles(table, operation) {
    const text = await (await fetch(new URL("/metrics", endpoint))).text();
    const begin = `larder_throttled_requests_total{table="${table}",operation="${operation}"} `;
    const line = text.split("\n").find((line) => line.startsWith(begin));
    return Number(line.slice(begin.length));
  }

  test("one attempt is told why", async () => {
    await smallTable("once", 1);
    const once = connect(1);
    const all = Promise.all([1, 2, 3, 4, 5].map((n) => put(once, "once", n)));
    await assert.rejects(all, (error) => {
      assert.equal(error.name, "ProvisionedThroughputExceededException");
      assert.equal(error.$metadata.attempts, 1);
      const [{ reason, resource }] = error.ThrottlingReasons;
      assert.equal(reason, "TableWriteProvisionedThroughputExceeded");
      assert.match(resource, /:table\/once$/);
      return true;
    });
  });

  test("the SDK tries again until it is let through", async () => {
    await smallTable("again", 5);
    const patient = connect(10);
    let retries = 0;
    for (let n = 0; n < 12; n += 1) {
      const { $metadata } = await put(patient, "again", n);
      retries += $metadata.attempts - 1;
    }
    assert.ok(retries > 0, "twelve of five a second");
    assert.equal(await throttles("again", "PutItem"), retries);
    assert.equal(await stored("again"), 12);
  });

  test("a batch is finished by those who ask for the rest", async () => {
    await smallTable("rest", 5);
    const patient = connect(10);
    let asked = 0;
    let RequestItems = {
      rest: Array.from({ length: 12 }, (_, n) => ({
        PutRequest: { Item: { pk: { S: String(n) } } },
      })),
    };
    while (Object.keys(RequestItems).length > 0) {
      const answer = await patient.send(new BatchWriteItemCommand({ RequestItems }));
      RequestItems = answer.UnprocessedItems;
      asked += 1;
      assert.ok(asked < 100);
    }
    assert.ok(asked > 1, "twelve of five a second");
    assert.equal(await stored("rest"), 12);
  });
});
