// The TDnet collector: disclosures by company and by month, executions and exports by state.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { PutItemCommand } from "@aws-sdk/client-dynamodb";
import {
  DynamoDBDocumentClient,
  GetCommand,
  PutCommand,
  UpdateCommand,
  paginateQuery,
} from "@aws-sdk/lib-dynamodb";
import { NO_ACCESS, connect, denial } from "./endpoint.js";
import { ITEMS, SKIP, apply, drop, starve, stopClock, stored } from "./systems.js";

const client = connect();
const program = connect({ as: "tdnet" });
after(() => client.destroy());
after(() => program.destroy());

const utc = (date) => date.toISOString().replace(/\.\d{3}Z$/, "Z");
const thirtyDaysAhead = () => Math.floor(Date.now() / 1000) + 30 * 24 * 60 * 60;
// Tokyo has kept UTC+9, without summer time, since 1951.
const inTokyo = (instant) => new Date(Date.parse(instant) + 9 * 60 * 60 * 1000).toISOString();

function generateDatePartition(disclosedAt) {
  return inTokyo(disclosedAt).slice(0, 7);
}

function generateDisclosureId(disclosedAt, companyCode, sequence) {
  const day = inTokyo(disclosedAt).slice(0, 10).replaceAll("-", "");
  return `${day}_${companyCode}_${String(sequence).padStart(3, "0")}`;
}

class Disclosures {
  constructor(documents, env) {
    this.documents = documents;
    this.TableName = `tdnet_disclosures_${env}`;
  }

  async save({ sequence, ...disclosure }) {
    const { disclosed_at, company_code } = disclosure;
    const Item = {
      disclosure_id: generateDisclosureId(disclosed_at, company_code, sequence),
      ...disclosure,
      downloaded_at: utc(new Date()),
      date_partition: generateDatePartition(disclosed_at),
    };
    await this.documents.send(
      new PutCommand({
        TableName: this.TableName,
        Item,
        ConditionExpression: "attribute_not_exists(disclosure_id)",
      }),
    );
    return Item;
  }

  async find(disclosure_id) {
    const { Item } = await this.documents.send(
      new GetCommand({ TableName: this.TableName, Key: { disclosure_id } }),
    );
    return Item;
  }

  byCompany(companyCode, options) {
    return this.#query("GSI_CompanyCode_DiscloseDate", "company_code", companyCode, options);
  }

  byMonth(datePartition, options) {
    return this.#query("GSI_DatePartition", "date_partition", datePartition, options);
  }

  async #query(
    IndexName,
    key,
    value,
    { from = "0", to = "9", newestFirst = false, pageSize } = {},
  ) {
    const pages = paginateQuery(
      { client: this.documents, pageSize },
      {
        TableName: this.TableName,
        IndexName,
        KeyConditionExpression: "#key = :key AND disclosed_at BETWEEN :from AND :to",
        ExpressionAttributeNames: { "#key": key },
        ExpressionAttributeValues: { ":key": value, ":from": from, ":to": to },
        ScanIndexForward: !newestFirst,
      },
    );
    const found = [];
    for await (const page of pages) found.push(...page.Items);
    return found;
  }
}

// Executions and exports: a status that only moves from where it is expected to be.
class StatusTable {
  constructor(documents, { TableName, key, since, index, running }) {
    Object.assign(this, { documents, TableName, key, since, index, running });
  }

  async create(id, counters) {
    const Item = {
      [this.key]: id,
      status: "pending",
      [this.since]: utc(new Date()),
      progress: 0,
      ...counters,
      ttl: thirtyDaysAhead(),
    };
    await this.documents.send(
      new PutCommand({
        TableName: this.TableName,
        Item,
        ConditionExpression: "attribute_not_exists(#key)",
        ExpressionAttributeNames: { "#key": this.key },
      }),
    );
  }

  start(id) {
    return this.#move(id, "pending", { status: this.running });
  }

  complete(id, results = {}) {
    const completed_at = utc(new Date());
    return this.#move(id, this.running, {
      status: "completed",
      completed_at,
      progress: 100,
      ...results,
    });
  }

  fail(id, error_message) {
    return this.#move(id, this.running, {
      status: "failed",
      completed_at: utc(new Date()),
      error_message,
    });
  }

  async #move(id, from, fields) {
    const names = Object.keys(fields);
    const { Attributes } = await this.documents.send(
      new UpdateCommand({
        TableName: this.TableName,
        Key: { [this.key]: id },
        UpdateExpression: `SET ${names.map((name) => `#${name} = :${name}`).join(", ")}`,
        ConditionExpression: "#status = :from",
        ExpressionAttributeNames: Object.fromEntries(names.map((name) => [`#${name}`, name])),
        ExpressionAttributeValues: {
          ":from": from,
          ...Object.fromEntries(names.map((name) => [`:${name}`, fields[name]])),
        },
        ReturnValues: "ALL_NEW",
      }),
    );
    return Attributes;
  }

  async advance(id, progress, succeeded, failed) {
    await this.documents.send(
      new UpdateCommand({
        TableName: this.TableName,
        Key: { [this.key]: id },
        UpdateExpression:
          "SET progress = :progress ADD success_count :succeeded, failed_count :failed",
        ExpressionAttributeValues: {
          ":progress": progress,
          ":succeeded": succeeded,
          ":failed": failed,
        },
      }),
    );
  }

  async byStatus(status) {
    const found = [];
    for await (const page of paginateQuery(
      { client: this.documents },
      {
        TableName: this.TableName,
        IndexName: this.index,
        KeyConditionExpression: "#status = :status",
        ExpressionAttributeNames: { "#status": "status" },
        ExpressionAttributeValues: { ":status": status },
        ScanIndexForward: false,
      },
    )) {
      found.push(...page.Items.map((item) => item[this.key]));
    }
    return found;
  }
}

const TOYOTA = {
  sequence: 1,
  company_code: "7203",
  company_name: "トヨタ自動車株式会社",
  disclosure_type: "決算短信",
  title: "2024年3月期 第3四半期決算短信",
  disclosed_at: "2024-01-31T15:00:00Z",
  pdf_url: "https://www.release.tdnet.info/inbs/140120240131.pdf",
  pdf_s3_key: "pdf/2024/02/20240201_7203_001.pdf",
};

describe("the TDnet collector", { skip: SKIP }, () => {
  const ENV = process.env.LARDER_STAGE ?? randomUUID();
  const documents = DynamoDBDocumentClient.from(program);
  const executionsOf = (documents) =>
    new StatusTable(documents, {
      TableName: `tdnet_executions_${ENV}`,
      key: "execution_id",
      since: "started_at",
      index: "GSI_Status_StartedAt",
      running: "running",
    });
  const exportsOf = (documents) =>
    new StatusTable(documents, {
      TableName: `tdnet_export_status_${ENV}`,
      key: "export_id",
      since: "requested_at",
      index: "GSI_Status_RequestedAt",
      running: "processing",
    });
  const disclosures = new Disclosures(documents, ENV);
  const executions = executionsOf(documents);
  const exports = exportsOf(documents);
  const tables = [disclosures, executions, exports].map((table) => table.TableName);
  const { disclosure, execution, export: exported } = ITEMS.tdnet;
  before(async () => {
    await apply("tdnet", { ENV });
    for (const table of tables) await starve(client, "tdnet", table);
  });
  after(() => Promise.all(tables.map((table) => drop(client, table))));

  test("the program writes the items of the layer", async (t) => {
    stopClock(t);
    await disclosures.save(TOYOTA);
    await executions.create(execution.execution_id.S, { success_count: 0, failed_count: 0 });
    await exports.create(exported.export_id.S);
    const { disclosure_id } = disclosure;
    const { execution_id } = execution;
    const { export_id } = exported;
    assert.deepEqual(await stored(client, disclosures.TableName, { disclosure_id }), disclosure);
    assert.deepEqual(await stored(client, executions.TableName, { execution_id }), execution);
    assert.deepEqual(await stored(client, exports.TableName, { export_id }), exported);
  });

  test("the program reads the items of the layer", async () => {
    await client.send(new PutItemCommand({ TableName: disclosures.TableName, Item: disclosure }));
    await client.send(new PutItemCommand({ TableName: executions.TableName, Item: execution }));
    await client.send(new PutItemCommand({ TableName: exports.TableName, Item: exported }));
    const found = await disclosures.find("20240201_7203_001");
    assert.deepEqual(found, {
      ...Object.fromEntries(Object.entries(TOYOTA).filter(([name]) => name !== "sequence")),
      disclosure_id: "20240201_7203_001",
      downloaded_at: "2100-01-15T10:30:00Z",
      date_partition: "2024-02",
    });
    assert.deepEqual(await disclosures.byMonth("2024-02"), [found]);
    assert.deepEqual(await executions.byStatus("pending"), [execution.execution_id.S]);
    assert.deepEqual(await exports.byStatus("pending"), [exported.export_id.S]);
  });

  test("a disclosure is saved once", async () => {
    const other = { ...TOYOTA, company_code: "6758" };
    await disclosures.save(other);
    await assert.rejects(disclosures.save(other), { name: "ConditionalCheckFailedException" });
    assert.equal(
      (await disclosures.save({ ...other, sequence: 2 })).disclosure_id,
      "20240201_6758_002",
    );
  });

  test("a company's disclosures come in time order, by range and by page", async () => {
    const days = Array.from({ length: 9 }, (_, i) => `2023-03-0${i + 1}T06:00:00Z`);
    for (const disclosed_at of days) {
      await disclosures.save({ ...TOYOTA, company_code: "9984", disclosed_at });
    }
    const at = (found) => found.map((one) => one.disclosed_at);
    assert.deepEqual(at(await disclosures.byCompany("9984", { pageSize: 2 })), days);
    assert.deepEqual(
      at(await disclosures.byCompany("9984", { newestFirst: true })),
      [...days].reverse(),
    );
    const range = { from: "2023-03-03", to: "2023-03-05T06:00:00Z" };
    assert.deepEqual(at(await disclosures.byCompany("9984", range)), days.slice(2, 5));
    assert.deepEqual(at(await disclosures.byMonth("2023-03", { pageSize: 4 })), days);
  });

  test("an execution goes forward only, and is found by its status", async () => {
    const id = randomUUID();
    await executions.create(id, { success_count: 0, failed_count: 0 });
    await assert.rejects(executions.complete(id), { name: "ConditionalCheckFailedException" });
    await executions.start(id);
    await assert.rejects(executions.start(id), { name: "ConditionalCheckFailedException" });
    await Promise.all(Array.from({ length: 10 }, () => executions.advance(id, 50, 3, 1)));
    assert.deepEqual(await executions.byStatus("running"), [id]);
    const done = await executions.complete(id);
    assert.equal(done.success_count, 30);
    assert.equal(done.failed_count, 10);
    assert.equal(done.progress, 100);
    assert.deepEqual(await executions.byStatus("running"), []);
    assert.deepEqual(await executions.byStatus("completed"), [id]);
  });

  test("exports end with a link or with a reason", async () => {
    const [good, bad] = [randomUUID(), randomUUID()];
    for (const id of [good, bad]) {
      await exports.create(id);
      await exports.start(id);
    }
    const download_url = "https://bucket.s3.amazonaws.com/export.csv?X-Amz-Expires=604800";
    assert.equal((await exports.complete(good, { download_url })).download_url, download_url);
    assert.equal((await exports.fail(bad, "no such month")).error_message, "no such month");
    assert.deepEqual(await exports.byStatus("completed"), [good]);
    assert.deepEqual(await exports.byStatus("failed"), [bad]);
  });

  const missing = "without a permission the program fails and says which";
  test(missing, { skip: NO_ACCESS }, async () => {
    const states = (number, of) => [
      [`tdnet.${number}.PutItem`, of, (table) => table.create(randomUUID())],
      [`tdnet.${number}.UpdateItem`, of, (table) => table.start(randomUUID())],
      [`tdnet.${number}.Query`, of, (table) => table.byStatus("pending"), (table) => table.index],
    ];
    const disclosuresOf = (documents) => new Disclosures(documents, ENV);
    const byCompany = "GSI_CompanyCode_DiscloseDate";
    const uses = [
      ["tdnet.1.GetItem", disclosuresOf, (table) => table.find("20240201_7203_001")],
      ["tdnet.1.PutItem", disclosuresOf, (table) => table.save(TOYOTA)],
      ["tdnet.1.Query", disclosuresOf, (table) => table.byCompany("7203"), () => byCompany],
      ["tdnet.1.Query", disclosuresOf, (table) => table.byMonth("2024-02"), () => "GSI_DatePartition"],
      ...states(2, executionsOf),
      ...states(3, exportsOf),
    ];
    for (const [name, of, use, index] of uses) {
      const without = connect({ as: name });
      const table = of(DynamoDBDocumentClient.from(without));
      const resource = `us-east-1:000000000000:table/${table.TableName}`;
      const at = index ? `${resource}/index/${index(table)}` : resource;
      await assert.rejects(use(table), denial(name, at));
      without.destroy();
    }
  });
});
