// @aws-sdk/lib-dynamodb: the document client, its JavaScript values and its paginators.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import {
  BatchGetCommand,
  BatchWriteCommand,
  DeleteCommand,
  DynamoDBDocumentClient,
  GetCommand,
  NumberValue,
  PutCommand,
  QueryCommand,
  TransactGetCommand,
  TransactWriteCommand,
  UpdateCommand,
  paginateQuery,
  paginateScan,
} from "@aws-sdk/lib-dynamodb";
import { connect, createTable, range } from "./endpoint.js";

const client = connect();
const documents = DynamoDBDocumentClient.from(client, {
  marshallOptions: { removeUndefinedValues: true },
});
after(() => client.destroy());

const KEYS = { keys: ["pk", "sk"], indexes: { by_kind: ["kind", "sk"] } };
const sortKey = (i) => String(i).padStart(3, "0");

// Writes in batches of 25, sending again what comes back unprocessed, five times at most.
async function write(TableName, requests) {
  for (let start = 0; start < requests.length; start += 25) {
    let left = requests.slice(start, start + 25);
    for (let attempt = 0; left.length > 0; attempt += 1) {
      assert.ok(attempt < 5, "the batch is never finished");
      const answer = await documents.send(
        new BatchWriteCommand({ RequestItems: { [TableName]: left } }),
      );
      left = answer.UnprocessedItems?.[TableName] ?? [];
    }
  }
}

async function fill(TableName, count) {
  const puts = range(0, count).map((i) => ({
    PutRequest: { Item: { pk: "a", sk: sortKey(i), kind: i % 2 ? "odd" : "even", i } },
  }));
  await write(TableName, puts);
}

test("JavaScript values come back as they went", async (t) => {
  const TableName = await createTable(client, t, KEYS);
  const Item = {
    pk: "a",
    sk: "values",
    text: "日本 \u{1f980}",
    float: 0.1,
    negative: -5,
    large: 12345678901234567890123n,
    truth: true,
    nothing: null,
    bytes: Uint8Array.of(0, 1, 255),
    list: [1, "two", { three: [null] }],
    words: new Set(["x", "y"]),
    figures: new Set([1, 2.5]),
  };
  await documents.send(new PutCommand({ TableName, Item: { ...Item, absent: undefined } }));
  const found = await documents.send(
    new GetCommand({ TableName, Key: { pk: "a", sk: "values" }, ConsistentRead: true }),
  );
  assert.deepEqual(found.Item, Item);
});

test("a number keeps its 38 digits", async (t) => {
  const TableName = await createTable(client, t, KEYS);
  // A connection of its own: document clients on one connection share their options.
  const own = connect();
  t.after(() => own.destroy());
  const exact = DynamoDBDocumentClient.from(own, { unmarshallOptions: { wrapNumbers: true } });
  const digits = "1.2345678901234567890123456789012345678";
  const Item = { pk: "a", sk: "digits", n: NumberValue.from(digits) };
  await exact.send(new PutCommand({ TableName, Item }));
  const found = await exact.send(new GetCommand({ TableName, Key: { pk: "a", sk: "digits" } }));
  assert.equal(found.Item.n.toString(), digits);
});

test("an update returns what it changed", async (t) => {
  const TableName = await createTable(client, t, KEYS);
  const Key = { pk: "a", sk: "1" };
  await documents.send(
    new PutCommand({ TableName, Item: { ...Key, deep: { steps: [1, 2, 3] }, hits: 1 } }),
  );
  const { Attributes } = await documents.send(
    new UpdateCommand({
      TableName,
      Key,
      UpdateExpression: "SET deep.steps[1] = :two, seen = if_not_exists(seen, :now) ADD hits :one",
      ConditionExpression: "attribute_exists(pk) AND contains(deep.steps, :three)",
      ExpressionAttributeValues: { ":two": "two", ":now": "now", ":one": 1, ":three": 3 },
      ReturnValues: "ALL_NEW",
    }),
  );
  assert.deepEqual(Attributes, { ...Key, deep: { steps: [1, "two", 3] }, hits: 2, seen: "now" });
  const gone = await documents.send(new DeleteCommand({ TableName, Key, ReturnValues: "ALL_OLD" }));
  assert.deepEqual(gone.Attributes, Attributes);
});

test("paginateQuery and paginateScan see each item once", async (t) => {
  const TableName = await createTable(client, t, KEYS);
  await fill(TableName, 60);
  const config = { client: documents, pageSize: 7 };

  const backwards = [];
  for await (const page of paginateQuery(config, {
    TableName,
    IndexName: "by_kind",
    KeyConditionExpression: "kind = :k AND sk > :sk",
    ExpressionAttributeValues: { ":k": "even", ":sk": sortKey(9) },
    ScanIndexForward: false,
  })) {
    assert.ok(page.Count <= 7);
    backwards.push(...page.Items.map((item) => item.i));
  }
  assert.deepEqual(
    backwards,
    range(5, 30)
      .map((i) => 2 * i)
      .reverse(),
  );

  const scanned = [];
  for await (const page of paginateScan(config, { TableName, ProjectionExpression: "i" })) {
    scanned.push(...page.Items);
  }
  assert.deepEqual(
    scanned,
    range(0, 60).map((i) => ({ i })),
  );

  const segments = await Promise.all(
    range(0, 3).map(async (Segment) => {
      let count = 0;
      const request = { TableName, Segment, TotalSegments: 3, Select: "COUNT" };
      for await (const page of paginateScan(config, request)) count += page.Count;
      return count;
    }),
  );
  assert.equal(
    segments.reduce((sum, count) => sum + count),
    60,
  );
});

test("capacity and counts come with a query", async (t) => {
  const TableName = await createTable(client, t, KEYS);
  await fill(TableName, 10);
  const answer = await documents.send(
    new QueryCommand({
      TableName,
      KeyConditionExpression: "pk = :a AND begins_with(sk, :zero)",
      FilterExpression: "#i IN (:two, :three)",
      ExpressionAttributeNames: { "#i": "i" },
      ExpressionAttributeValues: { ":a": "a", ":zero": "00", ":two": 2, ":three": 3 },
      ReturnConsumedCapacity: "TOTAL",
    }),
  );
  assert.equal(answer.Count, 2);
  assert.equal(answer.ScannedCount, 10);
  assert.deepEqual(answer.ConsumedCapacity, { TableName, CapacityUnits: 0.5 });
});

test("a batch get loops until nothing is left", async (t) => {
  const TableName = await createTable(client, t, KEYS);
  await fill(TableName, 100);
  const found = [];
  let request = {
    [TableName]: { Keys: range(0, 100).map((i) => ({ pk: "a", sk: sortKey(i) })) },
  };
  for (let attempt = 0; Object.keys(request).length > 0; attempt += 1) {
    assert.ok(attempt < 5, "the batch is never finished");
    const answer = await documents.send(new BatchGetCommand({ RequestItems: request }));
    found.push(...answer.Responses[TableName].map((item) => item.i));
    request = answer.UnprocessedKeys ?? {};
  }
  assert.deepEqual(
    found.sort((a, b) => a - b),
    range(0, 100),
  );
});

test("transactions move money once, or not at all", async (t) => {
  const TableName = await createTable(client, t, KEYS);
  const account = (sk) => ({ pk: "account", sk });
  await write(TableName, [
    { PutRequest: { Item: { ...account("ann"), balance: 10 } } },
    { PutRequest: { Item: { ...account("bob"), balance: 0 } } },
  ]);
  const transfer = (amount, ClientRequestToken) =>
    documents.send(
      new TransactWriteCommand({
        ClientRequestToken,
        TransactItems: [
          {
            Update: {
              TableName,
              Key: account("bob"),
              UpdateExpression: "SET balance = balance + :a",
              ExpressionAttributeValues: { ":a": amount },
            },
          },
          {
            Update: {
              TableName,
              Key: account("ann"),
              UpdateExpression: "SET balance = balance - :a",
              ConditionExpression: "balance >= :a",
              ExpressionAttributeValues: { ":a": amount },
              ReturnValuesOnConditionCheckFailure: "ALL_OLD",
            },
          },
        ],
      }),
    );
  await transfer(7, `once-${TableName.slice(-20)}`);
  await transfer(7, `once-${TableName.slice(-20)}`);
  await assert.rejects(transfer(7), (error) => {
    assert.equal(error.name, "TransactionCanceledException");
    assert.deepEqual(
      error.CancellationReasons.map((reason) => reason.Code),
      ["None", "ConditionalCheckFailed"],
    );
    return true;
  });
  const { Responses } = await documents.send(
    new TransactGetCommand({
      TransactItems: ["ann", "bob"].map((sk) => ({ Get: { TableName, Key: account(sk) } })),
    }),
  );
  assert.deepEqual(
    Responses.map((response) => response.Item.balance),
    [3, 7],
  );
});

test("many requests at once share the connections", async (t) => {
  const TableName = await createTable(client, t, KEYS);
  const Key = { pk: "a", sk: "counter" };
  await Promise.all(
    range(0, 200).map(() =>
      documents.send(
        new UpdateCommand({
          TableName,
          Key,
          UpdateExpression: "ADD hits :one",
          ExpressionAttributeValues: { ":one": 1 },
        }),
      ),
    ),
  );
  const found = await documents.send(new GetCommand({ TableName, Key, ConsistentRead: true }));
  assert.equal(found.Item.hits, 200);
});
