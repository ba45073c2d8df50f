import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { inspect } from "node:util";
import { afterEach, beforeEach, test } from "node:test";
import { InvalidError, Moment, StateError } from "larder";
import { Collector } from "./tdnet.js";

const TOYOTA = {
  company_code: "7203",
  company_name: "トヨタ自動車株式会社",
  disclosure_type: "決算短信",
  title: "2024年3月期 第3四半期決算短信",
  disclosed_at: "2024-01-31T15:00:00Z",
  pdf_url: "https://www.release.tdnet.info/inbs/140120240131.pdf",
};

let collector: Collector;
beforeEach(async () => {
  collector = await Collector.open("../../schemas/tdnet.larder", "memory:");
});
afterEach(() => collector.tdnet.close());

test("t2_every_violation_is_named_before_anything_is_written", async () => {
  const wrong = { ...TOYOTA, company_code: "72", title: "" };
  await assert.rejects(collector.save(wrong), (error) => {
    assert.ok(error instanceof InvalidError);
    assert.deepEqual(error.violations.map(({ field }) => field).sort(), ["company_code", "title"]);
    return true;
  });
  assert.equal(collector.tdnet.store.requests("PutItem"), 0);
});

test("t3_concurrent_creates_take_every_number_once", async () => {
  const saved = await Promise.all(Array.from({ length: 20 }, () => collector.save(TOYOTA)));
  assert.equal(new Set(saved.map(({ disclosure_id }) => disclosure_id)).size, 20);
});

test("t4_the_month_and_the_day_are_those_of_tokyo", async () => {
  const saved = await collector.save(TOYOTA);
  assert.equal(saved.disclosure_id, "20240201_7203_001");
  assert.equal(saved.date_partition, "2024-02");
  assert.deepEqual(await collector.find("20240201_7203_001"), saved);
});

test("t5_disclosures_come_in_time_order_both_ways_and_ranges_include_their_ends", async () => {
  const days = ["2024-02-01", "2024-02-02", "2024-02-03"];
  for (const day of days) await collector.save({ ...TOYOTA, disclosed_at: `${day}T06:00:00Z` });
  const found = [];
  for await (const { disclosed_at } of collector.byCompany("7203", { newestFirst: true })) {
    found.push(disclosed_at.toISOString().slice(0, 10));
  }
  assert.deepEqual(found, [...days].reverse());
  const range = { from: "2024-02-02T06:00:00Z", until: "2024-02-03T06:00:00Z" };
  assert.equal(await collector.byMonth("2024-02", range).count(), 2);
});

test("t6_only_declared_transitions_happen", async () => {
  const execution_id = randomUUID();
  const stream = async function* () {
    yield TOYOTA;
    yield { ...TOYOTA, company_code: "x" };
  };
  const done = await collector.run(execution_id, stream());
  assert.equal(done.$.states?.["status"], "completed");
  assert.deepEqual([done.progress, done.success_count, done.failed_count], [100, 1, 1]);
  const status = collector.tdnet.Execution.lifecycle("status");
  await assert.rejects(status.run(execution_id, "start"), (error) => error instanceof StateError && error.found === "completed");
  assert.deepEqual(await collector.executions("completed"), [execution_id]);
});

test("t8_a_download_url_is_secret_and_gone_after_a_week", async () => {
  const { tdnet } = collector;
  const export_id = randomUUID();
  const done = await collector.export(export_id, async () => "https://s3.example/signed");
  assert.equal(done.download_url, "https://s3.example/signed");
  assert.ok(!inspect(done).includes("signed"), "the console does not show it");
  tdnet.store.clock.advance("8d");
  assert.equal((await tdnet.Export.get(export_id))?.download_url, undefined);
});

test("t14_an_instant_keeps_its_precision_or_is_refused", async () => {
  // What orders an index has the precision of the schema: seconds.
  const finer = collector.save({ ...TOYOTA, disclosed_at: "2024-01-31T15:00:00.123Z" });
  await assert.rejects(finer, (error) => error instanceof InvalidError && error.field === "disclosed_at");
  // What toISOString() writes is found by ranges.
  const disclosed_at = new Date("2024-01-31T15:00:00Z");
  await collector.save({ ...TOYOTA, disclosed_at });
  assert.equal(await collector.byCompany("7203", { from: disclosed_at.toISOString() }).count(), 1);
  // Where order does not matter, all digits are kept, more than a Date has.
  const exact = "2024-02-01T00:00:00.123456Z";
  const { disclosure_id } = await collector.tdnet.Disclosure.create({ ...TOYOTA, disclosed_at, downloaded_at: exact });
  const read = await collector.find(disclosure_id);
  assert.ok(read?.downloaded_at instanceof Moment);
  assert.equal(read.downloaded_at.exact, exact);
  await collector.tdnet.Disclosure.put({ ...read, title: "訂正" });
  assert.equal(((await collector.find(disclosure_id))?.downloaded_at as Moment).exact, exact);
});
