// @aws-sdk/client-dynamodb: tables, waiters, typed values, errors as classes.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import {
  BatchGetItemCommand,
  ConditionalCheckFailedException,
  CreateTableCommand,
  DeleteItemCommand,
  DeleteTableCommand,
  DescribeLimitsCommand,
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  GetItemCommand,
  ListTagsOfResourceCommand,
  PutItemCommand,
  ResourceInUseException,
  ResourceNotFoundException,
  TagResourceCommand,
  TransactGetItemsCommand,
  TransactWriteItemsCommand,
  TransactionCanceledException,
  UpdateItemCommand,
  UpdateTimeToLiveCommand,
  paginateListTables,
  waitUntilTableExists,
  waitUntilTableNotExists,
} from "@aws-sdk/client-dynamodb";
import { WAIT, connect, createTable, range, tableName } from "./endpoint.js";

const client = connect();
after(() => client.destroy());

const key = (sk) => ({ pk: { S: "a" }, sk: { S: sk } });

test("a table lives and ends", async () => {
  const TableName = tableName("lives");
  const create = new CreateTableCommand({
    TableName,
    AttributeDefinitions: [{ AttributeName: "pk", AttributeType: "S" }],
    KeySchema: [{ AttributeName: "pk", KeyType: "HASH" }],
    ProvisionedThroughput: { ReadCapacityUnits: 2, WriteCapacityUnits: 1 },
  });
  await client.send(create);
  await waitUntilTableExists({ client, ...WAIT }, { TableName });
  const { Table } = await client.send(new DescribeTableCommand({ TableName }));
  assert.equal(Table.TableStatus, "ACTIVE");
  assert.equal(Table.ProvisionedThroughput.ReadCapacityUnits, 2);
  assert.ok(Math.abs(Date.now() - Table.CreationDateTime.getTime()) < 300_000);
  await assert.rejects(client.send(create), ResourceInUseException);
  await client.send(new DeleteTableCommand({ TableName }));
  await waitUntilTableNotExists({ client, ...WAIT }, { TableName });
  await assert.rejects(
    client.send(new DescribeTableCommand({ TableName })),
    ResourceNotFoundException,
  );
});

test("tables are listed in pages", async (t) => {
  const mine = [];
  for (const _ of range(0, 3)) mine.push(await createTable(client, t, { keys: ["pk", "sk"] }));
  const listed = [];
  for await (const page of paginateListTables({ client, pageSize: 2 }, {})) {
    assert.ok(page.TableNames.length <= 2);
    listed.push(...page.TableNames);
  }
  assert.equal(new Set(listed).size, listed.length);
  for (const table of mine) assert.ok(listed.includes(table));
});

test("every type comes back as it went", async (t) => {
  const TableName = await createTable(client, t, { keys: ["pk", "sk"] });
  const Item = {
    ...key("types"),
    number: { N: "-1234567890123456789012345678.9012345678" },
    binary: { B: Uint8Array.from(range(0, 256)) },
    list: { L: [{ S: "" }, { BOOL: false }, { NULL: true }] },
    map: { M: { "with space": { M: {} } } },
    strings: { SS: ["å", "日"] },
    numbers: { NS: ["1"] },
    binaries: { BS: [Uint8Array.of(0)] },
  };
  await client.send(new PutItemCommand({ TableName, Item }));
  const found = await client.send(new GetItemCommand({ TableName, Key: key("types") }));
  found.Item.strings.SS.sort();
  assert.deepEqual(found.Item, Item);
  assert.equal(found.$metadata.httpStatusCode, 200);
  assert.equal(found.$metadata.attempts, 1);
  assert.ok(found.$metadata.requestId);
});

test("a failed condition carries the item", async (t) => {
  const TableName = await createTable(client, t, { keys: ["pk", "sk"] });
  const Item = { ...key("1"), stock: { N: "1" } };
  await client.send(new PutItemCommand({ TableName, Item }));
  const take = new UpdateItemCommand({
    TableName,
    Key: key("1"),
    UpdateExpression: "SET stock = stock - :one",
    ConditionExpression: "stock >= :one",
    ExpressionAttributeValues: { ":one": { N: "1" } },
    ReturnValues: "UPDATED_NEW",
    ReturnValuesOnConditionCheckFailure: "ALL_OLD",
  });
  const taken = await client.send(take);
  assert.deepEqual(taken.Attributes, { stock: { N: "0" } });
  await assert.rejects(client.send(take), (error) => {
    assert.ok(error instanceof ConditionalCheckFailedException);
    assert.deepEqual(error.Item, { ...key("1"), stock: { N: "0" } });
    return true;
  });
});

test("a cancelled transaction gives a reason per item", async (t) => {
  const TableName = await createTable(client, t, { keys: ["pk", "sk"] });
  await client.send(new PutItemCommand({ TableName, Item: key("1") }));
  const absent = { ConditionExpression: "attribute_not_exists(pk)" };
  await assert.rejects(
    client.send(
      new TransactWriteItemsCommand({
        TransactItems: [
          { Put: { TableName, Item: key("2") } },
          { Put: { TableName, Item: key("1"), ...absent } },
        ],
      }),
    ),
    (error) => {
      assert.ok(error instanceof TransactionCanceledException);
      const codes = error.CancellationReasons.map((reason) => reason.Code);
      assert.deepEqual(codes, ["None", "ConditionalCheckFailed"]);
      return true;
    },
  );
  const { Responses } = await client.send(
    new TransactGetItemsCommand({
      TransactItems: ["1", "2"].map((sk) => ({ Get: { TableName, Key: key(sk) } })),
    }),
  );
  assert.deepEqual(
    Responses.map((response) => response.Item),
    [key("1"), undefined],
  );
});

test("a batch that is too large to answer at once names the keys that are left", async (t) => {
  const TableName = await createTable(client, t, { keys: ["pk", "sk"] });
  const note = { S: "x".repeat(390_000) };
  const sks = range(0, 50).map((i) => String(i).padStart(2, "0"));
  await Promise.all(
    sks.map((sk) => client.send(new PutItemCommand({ TableName, Item: { ...key(sk), note } }))),
  );

  const found = [];
  let request = { [TableName]: { Keys: sks.map(key) } };
  let rounds = 0;
  while (request[TableName] !== undefined) {
    const answer = await client.send(new BatchGetItemCommand({ RequestItems: request }));
    const items = answer.Responses[TableName];
    assert.ok(items.length > 0, "every answer brings something");
    found.push(...items.map((item) => item.sk.S));
    request = answer.UnprocessedKeys;
    rounds += 1;
  }
  // 50 items of 390 KB are more than the 16 MB that one answer holds.
  assert.equal(rounds, 2);
  assert.deepEqual(found.sort(), sks);
});

test("time to live and tags are set", async (t) => {
  const TableName = await createTable(client, t, { keys: ["pk", "sk"] });
  await client.send(
    new UpdateTimeToLiveCommand({
      TableName,
      TimeToLiveSpecification: { Enabled: true, AttributeName: "expires" },
    }),
  );
  const ttl = await client.send(new DescribeTimeToLiveCommand({ TableName }));
  assert.equal(ttl.TimeToLiveDescription.AttributeName, "expires");

  const { Table } = await client.send(new DescribeTableCommand({ TableName }));
  const ResourceArn = Table.TableArn;
  const Tags = [{ Key: "team", Value: "kitchen" }];
  await client.send(new TagResourceCommand({ ResourceArn, Tags }));
  const tags = await client.send(new ListTagsOfResourceCommand({ ResourceArn }));
  assert.deepEqual(tags.Tags, Tags);
});

test("limits are described", async () => {
  const limits = await client.send(new DescribeLimitsCommand({}));
  assert.ok(limits.TableMaxReadCapacityUnits > 0);
});

test("refused requests name their fault", async (t) => {
  const TableName = await createTable(client, t, { keys: ["pk", "sk"] });
  for (const [command, message] of [
    [new GetItemCommand({ TableName, Key: { pk: { S: "a" } } }), /does not match the schema/],
    [new DeleteItemCommand({ TableName, Key: key("") }), /empty string value/],
    [
      new UpdateItemCommand({ TableName, Key: key("1"), UpdateExpression: "SET a = :a" }),
      /not defined; attribute value: :a/,
    ],
  ]) {
    await assert.rejects(client.send(command), { name: "ValidationException", message });
  }
});
