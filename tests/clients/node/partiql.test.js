// @aws-sdk/client-dynamodb and lib-dynamodb: PartiQL statements, batches, transactions.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import {
  BatchExecuteStatementCommand,
  ConditionalCheckFailedException,
  DuplicateItemException,
  ExecuteStatementCommand,
  ExecuteTransactionCommand,
  TransactionCanceledException,
} from "@aws-sdk/client-dynamodb";
import {
  DynamoDBDocumentClient,
  ExecuteStatementCommand as ExecuteDocumentStatementCommand,
} from "@aws-sdk/lib-dynamodb";
import { connect, createTable, range } from "./endpoint.js";

const client = connect();
const documents = DynamoDBDocumentClient.from(client);
after(() => client.destroy());

async function filled(t, count) {
  const table = await createTable(client, t, { keys: ["pk", "sk"] });
  for (const n of range(0, count)) {
    const Statement = `INSERT INTO "${table}" VALUE {'pk': 'a', 'sk': ?, 'n': ${n}}`;
    await client.send(new ExecuteStatementCommand({ Statement, Parameters: [{ S: `s${n}` }] }));
  }
  return table;
}

test("a statement writes, reads and is refused as a class", async (t) => {
  const table = await filled(t, 2);
  const insert = { Statement: `INSERT INTO "${table}" VALUE {'pk': 'a', 'sk': 's0'}` };
  await assert.rejects(client.send(new ExecuteStatementCommand(insert)), DuplicateItemException);
  const where = `WHERE pk = 'a' AND sk = 's1'`;
  const update = { Statement: `UPDATE "${table}" SET n = n + 5 ${where} RETURNING MODIFIED NEW *` };
  const { Items } = await client.send(new ExecuteStatementCommand(update));
  assert.deepEqual(Items, [{ n: { N: "6" } }]);
  const missing = { Statement: `UPDATE "${table}" SET n = 1 WHERE pk = 'a' AND sk = 'none'` };
  await assert.rejects(client.send(new ExecuteStatementCommand(missing)), ConditionalCheckFailedException);
});

test("pages go on with their token", async (t) => {
  const table = await filled(t, 5);
  const found = [];
  let NextToken;
  do {
    const Statement = `SELECT sk FROM "${table}" WHERE pk = 'a' ORDER BY sk DESC`;
    const page = await client.send(new ExecuteStatementCommand({ Statement, Limit: 2, NextToken }));
    found.push(...page.Items.map((item) => item.sk.S));
    ({ NextToken } = page);
  } while (NextToken);
  assert.deepEqual(found, ["s4", "s3", "s2", "s1", "s0"]);
});

test("a batch tells what became of each statement", async (t) => {
  const table = await filled(t, 1);
  const Statements = [
    { Statement: `DELETE FROM "${table}" WHERE pk = 'a' AND sk = 's0' AND n = 7` },
    { Statement: `INSERT INTO "${table}" VALUE {'pk': 'b', 'sk': 's0'}` },
  ];
  const { Responses } = await client.send(new BatchExecuteStatementCommand({ Statements }));
  assert.equal(Responses[0].Error.Code, "ConditionalCheckFailed");
  assert.deepEqual(Responses[1], { TableName: table });
});

test("a transaction happens as a whole", async (t) => {
  const table = await filled(t, 2);
  const TransactStatements = [
    { Statement: `EXISTS(SELECT * FROM "${table}" WHERE pk = 'a' AND sk = 's0' AND n = 0)` },
    { Statement: `DELETE FROM "${table}" WHERE pk = 'a' AND sk = 's1'` },
  ];
  await client.send(new ExecuteTransactionCommand({ TransactStatements }));
  TransactStatements[0].Statement = TransactStatements[0].Statement.replace("n = 0", "n = 9");
  await assert.rejects(
    client.send(new ExecuteTransactionCommand({ TransactStatements })),
    (error) =>
      error instanceof TransactionCanceledException &&
      error.CancellationReasons[0].Code === "ConditionalCheckFailed",
  );
  const select = [{ Statement: `SELECT n FROM "${table}" WHERE pk = 'a' AND sk = 's0'` }];
  const { Responses } = await client.send(new ExecuteTransactionCommand({ TransactStatements: select }));
  assert.deepEqual(Responses, [{ Item: { n: { N: "0" } } }]);
});

test("the document client has plain values", async (t) => {
  const table = await filled(t, 2);
  const Statement = `SELECT sk, n FROM "${table}" WHERE pk = ? AND n >= ?`;
  const command = new ExecuteDocumentStatementCommand({ Statement, Parameters: ["a", 1] });
  const { Items } = await documents.send(command);
  assert.deepEqual(Items, [{ sk: "s1", n: 1 }]);
});
