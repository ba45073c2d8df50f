// The code of the tdnet and lunch documents, run as it stands there.
//
// The tables of the CDK blocks are made on the endpoint: CDK writes its template, `larder import` makes a schema of it,
// and `larder apply` the tables.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import {
  DescribeContinuousBackupsCommand,
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  PutItemCommand,
} from "@aws-sdk/client-dynamodb";
import { DynamoDBDocumentClient, GetCommand } from "@aws-sdk/lib-dynamodb";
import * as cdk from "aws-cdk-lib";
import { Template } from "aws-cdk-lib/assertions";
import * as dynamodb from "aws-cdk-lib/aws-dynamodb";
import { connect } from "./endpoint.js";
import { ITEMS, SKIP, drop, stopClock } from "./systems.js";

const run = promisify(execFile);
const client = connect();
after(() => client.destroy());

const systems = realpathSync(fileURLToPath(new URL("../systems", import.meta.url)));
const packages = realpathSync(fileURLToPath(new URL("node_modules", import.meta.url)));

function blocks(system, language) {
  const text = readFileSync(join(systems, `../snippets/${system}.md`), "utf8");
  const found = text.matchAll(/^```(\w*)\n(.*?)^```$/gms);
  return [...found].filter((block) => block[1] === language).map((block) => block[2]);
}

const typescript = blocks("tdnet", "typescript");
const models = typescript.filter((block) => block.startsWith("interface"));
const constructs = typescript.filter((block) => !block.startsWith("interface"));

// The blocks stand in the constructor of a stack, which gives them `this` and `env`.
function stack(env) {
  const made = new cdk.Stack(new cdk.App(), "Foundation", { env: { region: "us-east-1" } });
  for (const block of constructs) {
    new Function("cdk", "dynamodb", "env", block).call(made, cdk, dynamodb, env);
  }
  return made;
}

describe("the tdnet document", { skip: SKIP }, () => {
  const env = randomUUID();
  const directory = mkdtempSync(join(tmpdir(), "larder-snippets-"));
  const names = ["disclosures", "executions", "export_status"].map((name) => `tdnet_${name}_${env}`);
  const template = Template.fromStack(stack(env)).toJSON();

  before(async () => {
    writeFileSync(join(directory, "template.json"), JSON.stringify(template));
    const options = {
      cwd: directory,
      timeout: 60_000,
      env: {
        ...process.env,
        AWS_ACCESS_KEY_ID: "larderclients",
        AWS_SECRET_ACCESS_KEY: "secret",
        AWS_EC2_METADATA_DISABLED: "true",
      },
    };
    const larder = (...given) => run(process.env.LARDER_BIN, given, options);
    await larder("import", "template.json", "--system", "tdnet", "--out", "tdnet.larder");
    await larder("apply", "tdnet.larder", "--yes", "--store", `dynamodb:${process.env.ENDPOINT}`);
  });
  after(async () => {
    await Promise.all(names.map((name) => drop(client, name)));
    rmSync(directory, { recursive: true });
  });

  test("every block is a model or a construct", () => {
    assert.deepEqual([models.length, constructs.length], [3, 3]);
  });

  test("the tables of the constructs are made as they say", async () => {
    const tables = Object.values(template.Resources).filter(
      (resource) => resource.Type === "AWS::DynamoDB::Table",
    );
    assert.deepEqual(tables.map((table) => table.Properties.TableName).sort(), [...names].sort());
    for (const { Properties, DeletionPolicy } of tables) {
      const { TableName } = Properties;
      const { Table } = await client.send(new DescribeTableCommand({ TableName }));
      assert.deepEqual(Table.KeySchema, Properties.KeySchema);
      const described = Table.GlobalSecondaryIndexes.map(({ IndexName, KeySchema, Projection }) => ({
        IndexName,
        KeySchema,
        Projection: { ProjectionType: Projection.ProjectionType },
      }));
      const byName = (a, b) => a.IndexName.localeCompare(b.IndexName);
      assert.deepEqual(described.sort(byName), [...Properties.GlobalSecondaryIndexes].sort(byName));
      assert.equal(Table.BillingModeSummary.BillingMode, Properties.BillingMode);
      assert.equal(Table.DeletionProtectionEnabled, DeletionPolicy === "Retain");
      const backups = await client.send(new DescribeContinuousBackupsCommand({ TableName }));
      const { PointInTimeRecoveryStatus } =
        backups.ContinuousBackupsDescription.PointInTimeRecoveryDescription;
      assert.equal(PointInTimeRecoveryStatus, "ENABLED");
      const ttl = await client.send(new DescribeTimeToLiveCommand({ TableName }));
      const wanted = Properties.TimeToLiveSpecification?.AttributeName;
      assert.equal(ttl.TimeToLiveDescription.AttributeName, wanted);
    }
  });

  test("what is kept is what the models say", async () => {
    const documents = DynamoDBDocumentClient.from(client);
    const { disclosure, execution, export: exported } = ITEMS.tdnet;
    const kept = [
      [names[0], "disclosure_id", disclosure, "Disclosure", { company_code: 7203 }],
      [names[1], "execution_id", execution, "ExecutionStatus", { status: "done" }],
      [names[2], "export_id", exported, "ExportStatus", { ttl: "tomorrow" }],
    ];
    const right = [...models];
    const spoiled = [...models];
    for (const [TableName, key, Item, model, wrong] of kept) {
      await client.send(new PutItemCommand({ TableName, Item }));
      const Key = { [key]: Item[key].S };
      const found = await documents.send(new GetCommand({ TableName, Key, ConsistentRead: true }));
      const constant = (value) => `export const a${model}: ${model} = ${JSON.stringify(value)};`;
      right.push(constant(found.Item));
      spoiled.push(constant({ ...found.Item, ...wrong }));
    }
    assert.equal(await mistakes(directory, right.join("\n")), 0);
    assert.equal(await mistakes(directory, spoiled.join("\n")), 3, "the models are looked at");
  });
});

// How many values of a text are not of their type.
async function mistakes(directory, text) {
  const file = join(directory, "check.ts");
  writeFileSync(file, text);
  const compiler = join(packages, "typescript/bin/tsc");
  const given = [compiler, "--noEmit", "--strict", "--target", "es2022", "--types", "", file];
  try {
    await run(process.execPath, given, { cwd: directory, timeout: 120_000 });
    return 0;
  } catch (error) {
    const found = error.stdout.match(/error TS\d+/g) ?? [];
    assert.ok(found.length > 0 && found.every((code) => code === "error TS2322"), error.stdout);
    return found.length;
  }
}

describe("the lunch document", () => {
  test("a menu ends fourteen days ahead", (t) => {
    stopClock(t);
    const [block] = blocks("lunch", "javascript");
    const ttl = new Function(`${block}\nreturn ttlTimestamp;`)();
    assert.equal(ttl, Math.floor(Date.now() / 1000) + 14 * 86_400);
  });
});
