// The console as people use it. `run` says what is around it.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const { ENDPOINT, CONSOLE, READ_ONLY, BROKEN, ASKING, ADMIN, READER, CHROMIUM, ROOT, UPDATE_DOCS } = process.env;
const PORT = new URL(CONSOLE).port;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const SYSTEMS = {
  keiba: { entity: "Race", table: "keiba_data" },
  tdnet: { entity: "Execution", table: "tdnet_executions_dev", board: "/board/tdnet/Execution/status" },
  weather: { entity: "Forecast", table: "weather-forecast-cache-prod" },
  shops: { entity: "Shop", table: "aura-historia-data", board: "/board/shops/Shop/crawl?a.country=DE" },
  lunch: { entity: "Menu", table: "lunch-cache-dev" },
};

let browser;
before(async () => {
  browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: ["--no-sandbox", "--host-resolver-rules=MAP rebound.example 127.0.0.1"],
  });
});
after(() => browser.close());

/** A page on which nothing may go wrong unseen. */
async function open(options = {}) {
  const context = await browser.newContext({ timezoneId: "Europe/Stockholm", viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(`script: ${error.message}`));
  page.on("console", (message) => {
    // A refusal that was asked for is a message too.
    if (message.type() === "error" && !/status of (403|404|409|422)/.test(message.text())) page.faults.push(message.text());
  });
  page.on("dialog", (dialog) => {
    page.faults.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  return page;
}

async function done(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

/** What axe finds on a page, told in a line each. */
async function barriers(page, only) {
  await page.evaluate(axe);
  const options = only ? { runOnly: { type: "rule", values: only } } : {};
  const { violations } = await page.evaluate((options) => window.axe.run(document, options), options);
  return violations.map(({ id, nodes }) => `${page.url()} ${id}: ${nodes.map((node) => node.html.slice(0, 160)).slice(0, 3).join(" | ")}`);
}

/** What it finds in the light, and which colours are too close in the dark. */
async function lightAndDark(page) {
  const found = await barriers(page);
  await page.emulateMedia({ colorScheme: "dark" });
  found.push(...(await barriers(page, ["color-contrast"])));
  await page.emulateMedia({ colorScheme: "light" });
  return found;
}

const accessible = async (page) => assert.deepEqual(await lightAndDark(page), []);

async function dynamodb(operation, body) {
  const answer = await fetch(ENDPOINT, {
    method: "POST",
    headers: { "content-type": "application/x-amz-json-1.0", "x-amz-target": `DynamoDB_20120810.${operation}` },
    body: JSON.stringify(body),
  });
  const json = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(json));
  return json;
}

const shopKey = (domain) => ({ pk: { S: `SHOP#${domain}` }, sk: { S: "META#" } });
const shopPage = (domain, last = "") =>
  `${CONSOLE}/item/aura-historia-data${last}?pk=${encodeURIComponent(`SHOP#${domain}`)}&sk=${encodeURIComponent("META#")}`;

/** A shop as another program writes it. */
async function putShop(domain, more = {}) {
  const core = { S: domain.split(".")[0] };
  const country = { S: "COUNTRY#DE" };
  const Item = {
    ...shopKey(domain), domain: { S: domain }, core_domain_name: core, shop_name: { S: "Antik Becker" }, shop_country: country,
    gsi2_pk: country, gsi2_sk: { S: "NEVER#" }, gsi3_pk: country, gsi3_sk: { S: "NEVER#" }, gsi4_pk: core, gsi4_sk: { S: domain }, ...more,
  };
  await dynamodb("PutItem", { TableName: "aura-historia-data", Item });
}

const getShop = async (domain) =>
  (await dynamodb("GetItem", { TableName: "aura-historia-data", Key: shopKey(domain), ConsistentRead: true })).Item;

/** Every kind of page of a system. */
async function pagesOf(page, system) {
  const { entity, table, board } = SYSTEMS[system];
  await page.goto(`${CONSOLE}/browse/${system}/${entity}?by=all&scan=1`);
  const record = await page.locator("a.open").first().getAttribute("href");
  const [path, query] = record.split("?");
  const pages = [
    `/?count=${table}`, `/tables/${table}`, `/schema/${system}`, `/schema/${system}?view=docs`,
    `/schema/${system}?view=drawing`, `/schema/${system}?view=cost`,
    `/browse/${system}/${entity}`, `/browse/${system}/${entity}?by=key`, `/browse/${system}/${entity}?by=all&scan=1`,
    `/items/${table}?by=all`, record, `${path}/edit?${query}`, `${path}/edit?${query}&as=json`, `${path}/delete?${query}`,
    `/new/${system}/${entity}`, `/invalidate/${system}/${entity}?plan=1`, `/seed/${system}/${entity}`,
    `/tables/${table}/delete`, `/tables/${table}/apply`, `/changes/${table}`, `${path}/history?${query}`, `/items/${table}/new`, `/items/${table}/import`,
    `/statement?run=1&scan=1&statement=${encodeURIComponent(`SELECT * FROM "${table}"`)}`, `/find?q=${entity}`,
  ];
  // What is of no system is looked at once.
  if (system === "lunch") pages.push("/", "/statement", "/requests", "/tables", "/create", "/backups", "/traffic", "/find?q=nothing-like-it", "/nowhere");
  return board ? [...pages, board] : pages;
}

for (const system of Object.keys(SYSTEMS)) {
  test(`every page of ${system} is whole and accessible, light and dark`, async () => {
    const page = await open();
    const found = [];
    for (const path of await pagesOf(page, system)) {
      const answer = await page.goto(CONSOLE + path);
      assert.equal(answer.status(), path === "/nowhere" ? 404 : 200, path);
      for (const details of await page.locator("details").all()) await details.evaluate((it) => (it.open = true));
      found.push(...(await lightAndDark(page)));
    }
    assert.deepEqual(found, []);
    await page.setViewportSize({ width: 400, height: 800 });
    await page.goto(`${CONSOLE}/browse/${system}/${SYSTEMS[system].entity}?by=all&scan=1`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing is wider than a telephone");
    await done(page);
  });
}

test("an index is asked by its name, filtered, paged, and its address says all of it", async () => {
  for (let at = 0; at < 30; at++) await putShop(`paged${String(at).padStart(2, "0")}.de`);
  const page = await open();
  await page.goto(`${CONSOLE}/browse/shops/Shop`);
  await page.getByRole("link", { name: "by_last_crawled: country" }).click();
  await page.getByLabel("country string").fill("DE");
  await page.getByLabel("a page of").selectOption("25");
  await page.getByText("Filters").click();
  await page.getByLabel("Field of filter 1").selectOption("domain");
  await page.getByLabel("Operator of filter 1").selectOption("begins");
  await page.getByLabel("Value of filter 1").fill("paged");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  assert.equal(await page.locator("table.rows tbody tr").count(), 25);
  assert.match(await page.getByRole("status").textContent(), /25 rows, and more · took [\d.]+ read units?, .*\$/);
  assert.match(await page.locator("p.price").textContent(), /A page takes (about|at most) [\d.]+ read units?, .*\$/);
  const address = page.url();
  assert.match(address, /by=by_last_crawled&a\.country=DE&.*f=domain&o=begins&v=paged/);
  await page.getByRole("link", { name: "Next page" }).click();
  const rest = await page.locator("a.open").allTextContents();
  assert.ok(rest.length === 5 && rest.every((name) => name.startsWith("paged")), rest.join());

  const other = await open();
  await other.goto(address);
  assert.equal(await other.locator("table.rows tbody tr").count(), 25, "a colleague sees the same");
  await other.getByText("As code").click();
  const code = (await other.locator("details.code pre").allTextContents()).join("\n");
  // A query has no filters at the prompt: a statement has.
  assert.match(code, /larder sql 'SELECT \* FROM "aura-historia-data"\."CountryLastCrawledIndex" WHERE "gsi2_pk" = /);
  assert.match(code, /use aws_sdk_dynamodb::Client;/);
  assert.match(code, /db\.query\(/);
  assert.match(code, /new QueryCommand/);
  const json = await (await other.request.get(`${address}&format=json`)).json();
  assert.equal(json.length, 30, "a download is not cut at the page");
  await done(other);
  await done(page);
});

test("columns are chosen and sorted, a view is copied as code, and the life that is left counts down", async () => {
  await putShop("sorted-b.de");
  await putShop("sorted-a.de");
  const page = await open({ permissions: ["clipboard-read", "clipboard-write"] });
  const filters = "f=domain&o=begins&v=sorted-";
  await page.goto(`${CONSOLE}/browse/shops/Shop?by=all&scan=1&${filters}`);
  const heads = async () => (await page.locator("table.rows thead th").allTextContents()).map((text) => text.trim());
  assert.ok((await heads()).length > 2, (await heads()).join());
  await page.getByText(/^Columns \(/).click();
  const chosen = page.locator("details.columns input[type=checkbox]:checked");
  while ((await chosen.count()) > 0) await chosen.first().uncheck();
  await page.locator("details.columns").getByLabel("domain", { exact: true }).check();
  await page.locator("details.columns").getByLabel("shop_name", { exact: true }).check();
  await page.getByRole("button", { name: "Show these" }).click();
  assert.match(page.url(), /c=domain&c=shop_name|c=shop_name&c=domain/);
  assert.deepEqual((await heads()).filter((head) => head === "domain" || head === "shop_name").length, 2, (await heads()).join());
  const domains = () => page.locator("table.rows tbody tr a.open").allTextContents();
  const sort = page.locator("table.rows thead").getByRole("button", { name: "domain" });
  await sort.click();
  assert.deepEqual(await domains(), ["sorted-a.de", "sorted-b.de"]);
  await sort.click();
  assert.deepEqual(await domains(), ["sorted-b.de", "sorted-a.de"]);
  await page.getByText("As code").click();
  const boto3 = page.locator("details.code .block", { hasText: "boto3" }).first();
  await boto3.getByRole("button", { name: "Copy" }).click();
  await boto3.getByText("Copied").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), await boto3.locator("pre").textContent());

  await page.goto(`${CONSOLE}/browse/lunch/Menu?by=all&scan=1`);
  await page.locator("table.rows a.open").first().click();
  await page.locator(".away[data-at]").first().waitFor();
  // The page counts by itself, from what it says.
  const left = page.locator(".away[data-at]").first();
  await left.evaluate((it) => (it.dataset.at = new Date((Number(it.dataset.now) + 3600) * 1000).toISOString()));
  await page.waitForFunction(() => /^in (59 min|1 h)/.test(document.querySelector(".away[data-at]").textContent));
  await done(page);
});

test("an edit that somebody else overtook is shown, and not written", async () => {
  await putShop("conflict.de");
  const [mine, theirs] = [await open(), await open()];
  for (const page of [mine, theirs]) await page.goto(shopPage("conflict.de", "/edit"));
  await theirs.getByLabel("shop_name").fill("Theirs");
  await theirs.getByRole("button", { name: "Review the change" }).click();
  assert.match(await theirs.locator("table.difference").textContent(), /shop_nameAntik BeckerTheirs/);
  await accessible(theirs);
  await theirs.getByRole("button", { name: "Write it" }).click();
  assert.equal(await theirs.getByRole("status").textContent(), "Saved.");

  await mine.getByLabel("shop_name").fill("Mine");
  await mine.getByRole("button", { name: "Review the change" }).click();
  assert.match(await mine.getByRole("alert").textContent(), /Nothing was written/);
  assert.match(await mine.locator("table.difference").textContent(), /shop_nameTheirsMine/);
  assert.equal((await getShop("conflict.de")).shop_name.S, "Theirs");
  await accessible(mine);
  await mine.getByRole("button", { name: "Keep mine, and review it" }).click();
  await mine.getByRole("button", { name: "Write it" }).click();
  const stored = await getShop("conflict.de");
  assert.deepEqual([stored.shop_name.S, stored.gsi2_sk.S, stored.core_domain_name.S], ["Mine", "NEVER#", "conflict"]);
  await done(mine);
  await done(theirs);
});

test("a record is made, duplicated, edited as JSON and deleted; what is wrong is told where it is", async () => {
  const page = await open();
  await page.goto(`${CONSOLE}/new/shops/Shop`);
  await page.getByLabel("domain").fill("new.de");
  await page.getByLabel("country").fill("germany");
  await page.getByRole("button", { name: "Make it" }).click();
  assert.match(await page.locator("#field-country-wrong").textContent(), /country/);
  await accessible(page);
  await page.getByLabel("country").fill("DE");
  await page.getByRole("button", { name: "Make it" }).click();
  assert.equal(await page.getByRole("status").textContent(), "It is there now.");

  await page.getByRole("link", { name: "Duplicate" }).click();
  await page.getByLabel("domain").fill("copy.de");
  await page.getByRole("button", { name: "Make it" }).click();
  assert.equal((await getShop("copy.de")).shop_country.S, "COUNTRY#DE");

  await page.getByRole("link", { name: "Edit" }).click();
  await page.getByRole("link", { name: "As JSON" }).click();
  const text = await page.locator("#item").inputValue();
  await page.locator("#item").fill(text.replace("COUNTRY#DE", "COUNTRY#SE"));
  await page.getByRole("button", { name: "Review the change" }).click();
  assert.match(await page.getByRole("alert").textContent(), /gsi/, "an equation that does not hold is refused");
  await page.locator("#item").fill(text.replaceAll("COUNTRY#DE", "COUNTRY#SE"));
  await page.getByRole("button", { name: "Review the change" }).click();
  await page.getByRole("button", { name: "Write it" }).click();
  assert.equal((await getShop("copy.de")).gsi2_pk.S, "COUNTRY#SE");

  await page.getByRole("link", { name: "Delete…" }).click();
  await page.getByRole("button", { name: "Delete it" }).click();
  assert.equal(await page.getByRole("status").textContent(), "Deleted.");
  assert.equal(await getShop("copy.de"), undefined);
  await done(page);
});

test("a stuck shop is seen on the board and released; a run is moved as the schema allows", async () => {
  const started = { S: "2020-01-01T00:00:00Z" };
  await putShop("stuck.de", { last_crawled_start: started, gsi2_sk: { S: "PROGRESS#2020-01-01T00:00:00Z" } });
  const page = await open();
  await page.goto(CONSOLE + SYSTEMS.shops.board);
  const card = page.locator("article", { hasText: "SHOP#stuck.de" });
  assert.match(await card.textContent(), /stuck/);
  await accessible(page);
  await card.getByRole("button", { name: "Release" }).click();
  assert.match(await page.getByRole("status").textContent(), /Released/);
  assert.equal((await getShop("stuck.de")).gsi2_sk.S, "NEVER#");

  await page.goto(CONSOLE + SYSTEMS.tdnet.board);
  const [pending, running] = [page.locator("section.column").nth(0), page.locator("section.column").nth(1)];
  const run = pending.locator("article").first();
  const name = await run.locator("h3").textContent();
  assert.equal(await run.getByRole("button", { name: "complete" }).count(), 0, "pending is not completed at once");
  await run.getByRole("button", { name: "start → running" }).click();
  await page.goto(CONSOLE + SYSTEMS.tdnet.board);
  assert.ok((await running.textContent()).includes(name));
  await done(page);
});

test("a shop that failed tells why, and is tried again at once", async () => {
  const soon = String(Math.floor(Date.now() / 1000) + 3600);
  await putShop("failed.de", { crawl_until: { N: soon }, crawl_attempts: { N: "2" }, crawl_fence: { N: "2" }, larder_crawl_error: { S: "<b>503</b> from the shop" } });
  const page = await open();
  await page.goto(CONSOLE + SYSTEMS.shops.board);
  const card = page.locator("article", { hasText: "SHOP#failed.de" });
  assert.match(await card.textContent(), /pauses.*next attemptin.*attempts2last error<b>503<\/b> from the shop/s);
  assert.equal(await card.getByRole("button", { name: "Release" }).count(), 0, "nobody holds it");
  await accessible(page);
  await card.getByRole("button", { name: "Retry now" }).click();
  assert.match(await page.getByRole("status").textContent(), /due again/);
  await accessible(page);
  const stored = await getShop("failed.de");
  assert.deepEqual([stored.crawl_until, stored.crawl_attempts.N, stored.larder_crawl_error.S], [undefined, "2", "<b>503</b> from the shop"]);

  // A lease that lives is nobody's to give back.
  await putShop("held.de", { last_crawled_start: { S: "2026-01-15T10:00:00Z" }, gsi2_sk: { S: "PROGRESS#2026-01-15T10:00:00Z" }, crawl_owner: { S: "worker" }, crawl_until: { N: soon }, crawl_fence: { N: "1" } });
  await page.goto(shopPage("held.de"));
  assert.equal(await page.getByRole("button", { name: "Release" }).count(), 0);
  await done(page);
});

test("what is chosen is deleted, once that was confirmed", async () => {
  for (const domain of ["bulk1.de", "bulk2.de"]) await putShop(domain, { gsi4_pk: { S: "bulk" }, core_domain_name: { S: "bulk" } });
  const page = await open();
  await page.goto(`${CONSOLE}/browse/shops/Shop?by=siblings&a.core_domain_name=bulk`);
  for (const box of await page.locator("input[name=key]").all()) await box.check();
  await page.getByRole("button", { name: "Delete the chosen…" }).click();
  assert.match(await page.locator("h1").textContent(), /Delete 2 items\?/);
  await accessible(page);
  await page.getByRole("button", { name: "Delete 2 items" }).click();
  assert.match(await page.getByRole("status").textContent(), /2 items deleted/);
  await accessible(page);
  assert.equal(await getShop("bulk1.de"), undefined);
  await done(page);
});

test("secrets are shown once somebody asks for them", async () => {
  const id = "0b5ce6a0-5a51-4b7e-9c0e-0a3d6f1f2a11";
  const Item = { export_id: { S: id }, requested_at: { S: "2026-01-15T10:00:00Z" }, progress: { N: "0" }, status: { S: "pending" }, download_url: { S: "https://s3.example/hush" } };
  await dynamodb("PutItem", { TableName: "tdnet_export_status_dev", Item });
  const page = await open();
  await page.goto(`${CONSOLE}/item/tdnet_export_status_dev?pk=${id}`);
  assert.ok(!(await page.content()).includes("hush"));
  await accessible(page);
  await page.getByRole("button", { name: "Show them" }).click();
  assert.match(await page.locator("main").textContent(), /s3\.example\/hush/);
  await accessible(page);
  await dynamodb("DeleteItem", { TableName: "tdnet_export_status_dev", Key: { export_id: { S: id } } });
  await done(page);
});

test("a schema that is broken says where, and the tables are there all the same", async () => {
  const page = await open();
  for (const path of ["/", "/schema/broken", "/tables"]) {
    assert.equal((await page.goto(BROKEN + path)).status(), 200, path);
    await accessible(page);
  }
  await page.goto(`${BROKEN}/schema/broken`);
  assert.match(await page.locator("main").textContent(), /error/i);
  await done(page);
});

test("an invalidation shows its price before it removes anything", async () => {
  const page = await open();
  await page.goto(`${CONSOLE}/browse/weather/Forecast?by=all&scan=1`);
  const rows = await page.locator("table.rows tbody tr").count();
  const [lat, lon] = await page.locator("table.rows tbody tr").first().locator("td").evaluateAll((cells) =>
    cells.slice(1, 3).map((cell) => cell.textContent));
  await page.goto(`${CONSOLE}/invalidate/weather/Forecast`);
  await page.getByLabel("lat ").fill(lat);
  await page.getByLabel("lon ").fill(lon);
  await page.getByRole("button", { name: "What would it cost?" }).click();
  assert.match(await page.locator("section.card h2").textContent(), /item.*\$/);
  await page.getByRole("button", { name: /^Remove/ }).click();
  assert.match(await page.getByRole("status").textContent(), /removed/);
  await page.goto(`${CONSOLE}/browse/weather/Forecast?by=all&scan=1&limit=500`);
  assert.ok((await page.locator("table.rows tbody tr").count()) < Math.max(rows, 60));
  await done(page);
});

test("a table is made, changed, backed up, brought back and deleted by forms", async () => {
  const page = await open();
  await page.goto(`${CONSOLE}/tables`);
  await page.getByRole("link", { name: "New table" }).click();
  await page.getByLabel("Name", { exact: true }).fill("orders-by-hand");
  await page.getByLabel("Partition key").first().fill("id");
  await page.getByLabel("Index name").fill("by_day");
  await page.locator("#index-1-index-partition-1").fill("day");
  await page.getByRole("button", { name: "One more index" }).click();
  assert.equal(await page.getByLabel("Index name").count(), 2);
  assert.equal(await page.getByLabel("Index name").first().inputValue(), "by_day", "what was written is still there");
  await page.getByLabel("Recovery, days back").fill("7");
  await page.getByRole("button", { name: "Make the table" }).click();
  assert.equal(await page.getByRole("status").textContent(), "It is there now.");
  const described = async () => (await dynamodb("DescribeTable", { TableName: "orders-by-hand" })).Table;
  assert.deepEqual((await described()).GlobalSecondaryIndexes.map((index) => index.IndexName), ["by_day"]);

  await page.getByText("Change it").click();
  await page.getByLabel("What a change shows").selectOption("new images");
  await page.getByRole("button", { name: "Set: Stream" }).click();
  assert.match(await page.getByRole("status").textContent(), /Changed/);
  assert.equal((await described()).StreamSpecification.StreamViewType, "NEW_IMAGE");
  await page.getByRole("button", { name: "Drop the index by_day" }).click();
  assert.match(await page.locator("main").textContent(), /whatever asks by it fails/);
  await accessible(page);
  await page.getByRole("button", { name: "Yes, do it" }).click();
  await page.getByText("Change it").click();
  await page.getByRole("button", { name: "Protect it: Protection from deletion" }).click();
  await page.goto(`${CONSOLE}/tables/orders-by-hand/delete`);
  assert.match(await page.locator("main").textContent(), /protected from deletion/);
  assert.equal(await page.getByRole("button", { name: "Delete it" }).count(), 0);

  await dynamodb("PutItem", { TableName: "orders-by-hand", Item: { id: { S: "1" } } });
  await page.goto(`${CONSOLE}/tables/orders-by-hand`);
  await page.getByLabel("Name of a new backup").fill("by-hand");
  await page.getByRole("button", { name: "Back it up now" }).click();
  assert.equal(await page.getByRole("status").textContent(), "Backed up.");
  await page.getByLabel("New table for by-hand").fill("orders-again");
  await page.getByRole("button", { name: "Restore" }).click();
  assert.match(await page.getByRole("status").textContent(), /being brought back/);
  await page.goto(`${CONSOLE}/items/orders-again?by=all`);
  assert.equal(await page.locator("table.rows tbody tr").count(), 1);

  await page.goto(`${CONSOLE}/tables/orders-again/delete`);
  const name = page.getByLabel("Write its name to delete it");
  await name.fill("orders");
  await page.getByRole("button", { name: "Delete it" }).click();
  assert.match(await page.getByRole("alert").textContent(), /Nothing was deleted/);
  await name.fill("orders-again");
  await page.getByRole("button", { name: "Delete it" }).click();
  assert.equal(await page.getByRole("status").textContent(), "Deleted.");
  assert.equal(await page.getByRole("link", { name: "orders-again" }).count(), 0);
  await done(page);
});

test("a table that differs from its schema is brought back to it, as the plan was shown", async () => {
  const page = await open();
  await page.goto(`${CONSOLE}/tables/lunch-cache-dev`);
  await page.getByRole("button", { name: "Drop the index RestaurantIndex" }).click();
  await page.getByRole("button", { name: "Yes, do it" }).click();
  await page.goto(`${CONSOLE}/tables/lunch-cache-dev`);
  await page.getByRole("link", { name: "Apply the schema…" }).click();
  assert.match(await page.locator("table.difference").textContent(), /index/);
  await accessible(page);
  await page.getByRole("button", { name: "Do it" }).click();
  assert.match(await page.getByRole("status").textContent(), /index/);
  await accessible(page);
  const { Table } = await dynamodb("DescribeTable", { TableName: "lunch-cache-dev" });
  assert.deepEqual(Table.GlobalSecondaryIndexes.map((index) => index.IndexName), ["RestaurantIndex"]);
  await done(page);
});

test("a schema is drawn, and its cost follows the sliders without a new page", async () => {
  const page = await open();
  await page.goto(`${CONSOLE}/schema/shops?view=drawing`);
  const drawn = page.getByRole("img", { name: /States of Shop by crawl: never, progress, done/ });
  const [drawing, state] = [await drawn.boundingBox(), await drawn.getByText("progress", { exact: true }).boundingBox()];
  assert.ok(state.x > drawing.x && state.x + state.width < drawing.x + drawing.width, "it is within the drawing");

  await page.goto(`${CONSOLE}/schema/weather?view=cost`);
  const total = () => page.locator("#report .big").first().textContent();
  const before = await total();
  await page.evaluate(() => (window.same = true));
  await page.getByLabel("Requests a month").focus();
  for (let at = 0; at < 5; at++) await page.keyboard.press("ArrowRight");
  await page.getByText("from the figures above").waitFor();
  assert.equal(await page.locator("output").first().textContent(), "1,500,000");
  assert.notEqual(await total(), before);
  assert.ok(await page.evaluate(() => window.same), "the reader keeps the slider");
  assert.equal(await page.locator("label.live").count(), 0, "what the reader has set is not asked for again");
  await accessible(page);

  const plain = await open({ javaScriptEnabled: false });
  await plain.goto(`${CONSOLE}/schema/weather?view=cost`);
  await plain.getByLabel("Hit rate").focus();
  for (let at = 0; at < 5; at++) await plain.keyboard.press("ArrowLeft");
  await plain.getByRole("button", { name: "Reckon" }).click();
  assert.match(plain.url(), /hits=75/);
  await plain.context().close();
  await done(page);
});

test("an entity is emptied while somebody looks on, and filled with sample records", async () => {
  const page = await open();
  await page.goto(`${CONSOLE}/invalidate/weather/Forecast?plan=1`);
  await page.getByRole("button", { name: /^Remove/ }).click();
  await page.waitForURL(/\/progress\//);
  assert.match(await page.getByRole("status").textContent(), /[\d,]+ items removed, for .*write unit/);
  await accessible(page);
  await page.goto(`${CONSOLE}/browse/weather/Forecast?by=all&scan=1`);
  await page.getByRole("link", { name: "Make sample records…" }).click();
  await page.getByLabel("How many").fill("30");
  await page.getByRole("button", { name: "Make them" }).click();
  assert.equal(await page.getByRole("status").textContent(), "30 records put");
  await page.getByRole("link", { name: "Back", exact: true }).click();
  await page.goto(`${CONSOLE}/browse/weather/Forecast?by=all&scan=1`);
  assert.equal(await page.locator("table.rows tbody tr").count(), 30);
  await done(page);
});

test("a draft is checked while it is written", async () => {
  const page = await open();
  await page.goto(`${CONSOLE}/new/shops/Shop`);
  const country = page.getByLabel("country");
  await country.fill("germany");
  await page.locator("#field-country-wrong").waitFor();
  assert.match(await page.locator("#field-country-wrong").textContent(), /\[A-Z\]\{2\}/);
  assert.equal(await country.getAttribute("aria-invalid"), "true");
  assert.equal(await page.locator("p.wrong").count(), 1, "what nobody has touched is left alone");
  await accessible(page);
  await country.fill("DE");
  await page.locator("#field-country-wrong").waitFor({ state: "detached" });
  assert.equal(await country.getAttribute("aria-invalid"), null);

  // So is an item that is written as JSON.
  await putShop("draft.de");
  await page.goto(shopPage("draft.de", "/edit").replace("?", "?as=json&"));
  const box = page.locator("#item");
  const text = await box.inputValue();
  await box.fill(text.slice(1));
  await page.locator("#item-wrong", { hasText: "This is not JSON" }).waitFor();
  await box.fill(text.replace("COUNTRY#DE", "COUNTRY#germany"));
  await page.locator("#item-wrong", { hasText: "shop_country" }).waitFor();
  assert.equal(await box.getAttribute("aria-invalid"), "true");
  await accessible(page);
  await box.fill(text);
  await page.locator("#item-wrong").waitFor({ state: "detached" });

  // Without the script, the browser holds to what it can.
  const plain = await open({ javaScriptEnabled: false });
  await plain.goto(`${CONSOLE}/new/shops/Shop`);
  await plain.getByLabel("domain").fill("plain.de");
  await plain.getByLabel("country").fill("germany");
  await plain.getByRole("button", { name: "Make it" }).click();
  assert.equal(await getShop("plain.de"), undefined);
  assert.equal(new URL(plain.url()).pathname, "/new/shops/Shop");
  await plain.getByLabel("country").fill("DE");
  await plain.getByRole("button", { name: "Make it" }).click();
  assert.ok(await getShop("plain.de"));
  await plain.context().close();
  await done(page);
});

test("traffic is shown over time, and goes on while somebody looks", async () => {
  const page = await open();
  await page.goto(CONSOLE);
  const requests = page.getByRole("img", { name: /^Requests a second since .*: now [\d.,]+, at most [\d.,]+/ });
  await requests.waitFor({ timeout: 30_000 });
  const was = await requests.evaluate((it) => (it.mark = it.getAttribute("aria-label")));
  // Two moments may well have the same rate, unless much is asked between them.
  for (let asked = 0; asked < 200; asked++) await getShop("nowhere.de");
  const redrawn = (was) => {
    const now = document.querySelector("#traffic svg");
    return now && !now.mark && now.getAttribute("aria-label") !== was;
  };
  await page.waitForFunction(redrawn, was, { timeout: 30_000 });
  assert.match(await page.locator("main").textContent(), /expire within an hour, [\d,]+( or more)? within a day/);
  await accessible(page);
  await page.goto(`${CONSOLE}/tables/aura-historia-data`);
  await page.getByRole("img", { name: /^Size of the table since .*: now [\d.]+ .*B/ }).waitFor();
  await accessible(page);
  await page.goto(READ_ONLY);
  assert.match(await page.locator("#traffic").textContent(), /a store of another program/);
  await done(page);
});

test("what an item holds is shown and never run", async () => {
  const script = `</td><script>window.hacked = 1</script>"'><img src=x onerror="window.hacked = 1">`;
  let deep = { S: script };
  for (let at = 0; at < 25; at++) deep = { M: { [script]: deep } };
  await dynamodb("CreateTable", {
    TableName: "hostile", BillingMode: "PAY_PER_REQUEST", AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }],
    KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
  });
  const Item = {
    id: { S: script }, s: { S: script.repeat(4000).slice(0, 380_000) }, n: { N: "1e-120" }, b: { B: Buffer.from(script).toString("base64") },
    t: { BOOL: true }, z: { NULL: true }, l: { L: [{ S: script }] }, m: deep, ss: { SS: [script] }, ns: { NS: ["1"] },
    bs: { BS: [Buffer.from(script).toString("base64")] }, [script]: { S: "javascript:alert(1)" },
  };
  await dynamodb("PutItem", { TableName: "hostile", Item });
  const page = await open();
  await page.goto(`${CONSOLE}/items/hostile?by=all`);
  const row = await page.locator("a.open").first().getAttribute("href");
  for (const path of ["/items/hostile?by=all", row, row.replace("hostile?", "hostile/edit?"), row.replace("hostile?", "hostile/delete?"),
    `/find?q=${encodeURIComponent(script)}`, `/browse/shops/Shop?by=siblings&a.core_domain_name=${encodeURIComponent(script)}`]) {
    await page.goto(CONSOLE + path);
    for (const details of await page.locator("details").all()) await details.evaluate((it) => (it.open = true));
    assert.equal(await page.evaluate(() => window.hacked), undefined, path);
    assert.equal(await page.locator("main img, main script").count(), 0, path);
  }
  // The same as a record of an entity: on its page, in its past, among the changes of its table, and in a statement.
  const key = `${script}-2026-07`;
  const lunch = { name: { S: script }, description: { S: script }, price: { N: "100" }, weekday: { S: "måndag" }, week: { N: "7" }, place: { S: script } };
  const Menu = {
    pk: { S: key }, restaurant: { S: script }, year: { N: "2026" }, week: { N: "7" }, lunches: { L: [{ M: lunch }] }, lunchCount: { N: "1" },
    cachedAt: { S: "2026-01-15T10:00:00.000Z" }, ttl: { N: String(Math.floor(Date.now() / 1000) + 86400) },
    metadata: { M: { version: { S: script }, source: { S: script }, [script]: { S: script } } }, [script]: { S: script },
    validationErrors: { L: [{ M: { field: { S: script }, message: { S: script } } }] },
  };
  await dynamodb("PutItem", { TableName: "lunch-cache-dev", Item: { ...Menu, lunchCount: { N: "0" } } });
  await dynamodb("PutItem", { TableName: "lunch-cache-dev", Item: Menu });
  const [pk, all] = [encodeURIComponent(key), encodeURIComponent(script)];
  const select = encodeURIComponent(`SELECT * FROM "lunch-cache-dev" WHERE pk = '${key.replaceAll("'", "''")}'`);
  for (const path of [`/item/lunch-cache-dev?pk=${pk}`, `/item/lunch-cache-dev/edit?pk=${pk}`, `/item/lunch-cache-dev/history?pk=${pk}`, `/item/lunch-cache-dev/history?pk=${pk}&moment=2999-01-01T00:00:00Z`,
    `/browse/lunch/Menu?by=history&a.restaurant=${all}`, `/changes/lunch-cache-dev`, `/changes/lunch-cache-dev?attribute=${all}&key=${all}`, `/statement?run=1&statement=${select}`, `/statement?statement=${all}&run=1`]) {
    await page.goto(CONSOLE + path);
    for (const details of await page.locator("details").all()) await details.evaluate((it) => (it.open = true));
    assert.equal(await page.evaluate(() => window.hacked), undefined, path);
    assert.equal(await page.locator("main img, main script").count(), 0, path);
    if (!path.includes("?statement=") && !path.includes("attribute=")) assert.ok((await page.locator("main").textContent()).includes(script), path);
  }
  // A statement that cannot be read is answered with 400.
  page.faults = page.faults.filter((fault) => !/status of 400/.test(fault));
  assert.match(await page.goto(`${CONSOLE}/item/lunch-cache-dev/history?pk=${pk}`).then(() => page.locator("table.difference").textContent()), /lunchCount[^}]*"0"[^}]*}[^}]*"1"/);
  await dynamodb("DeleteItem", { TableName: "lunch-cache-dev", Key: { pk: { S: key } } });
  // And it is written back as it was, all ten types.
  await page.goto(CONSOLE + row.replace("hostile?", "hostile/edit?"));
  const text = await page.locator("#item").inputValue();
  await page.locator("#item").fill(text.replace('"BOOL": true', '"BOOL": false'));
  await page.getByRole("button", { name: "Review the change" }).click();
  await page.getByRole("button", { name: "Write it" }).click();
  const stored = (await dynamodb("GetItem", { TableName: "hostile", Key: { id: Item.id } })).Item;
  assert.deepEqual({ ...stored, n: { N: "1e-120" } }, { ...Item, t: { BOOL: false } });
  await done(page);
});

test("another site changes nothing, frames nothing, and no other name leads here", async () => {
  await putShop("target.de");
  const remove = shopPage("target.de", "/delete");
  const foreign = createServer((request, response) => {
    response.setHeader("content-type", "text/html");
    response.end(`<form id=f method=post action="${remove}"><input name=token value=x></form><iframe src="${CONSOLE}/"></iframe>`);
  });
  await new Promise((ready) => foreign.listen(0, "127.0.0.1", ready));
  foreign.unref();
  const page = await open();
  await page.goto(CONSOLE);
  // Another port is another origin, and so is another name.
  for (const host of ["127.0.0.1", "rebound.example"]) {
    await page.goto(`http://${host}:${foreign.address().port}/`);
    assert.equal(await page.frameLocator("iframe").locator("h1", { hasText: "Overview" }).count(), 0, "no frame");
    // Even an answer that cannot be looked into is refused.
    const read = await page.evaluate((url) => fetch(url, { mode: "no-cors" }).then(() => "read", () => "refused"), `${CONSOLE}/assets/console.js`);
    assert.equal(read, "refused");
    const [answer] = await Promise.all([
      page.waitForResponse((it) => it.url().includes("/delete")), page.evaluate(() => setTimeout(() => document.getElementById("f").submit())),
    ]);
    assert.equal(answer.status(), 403, host);
    await page.waitForURL(/delete/);
  }
  assert.equal((await page.goto(`http://rebound.example:${PORT}/`)).status(), 421);
  assert.ok(await getShop("target.de"));
  foreign.close();
  await page.context().close();
});

test("the endpoint gives a page of another site nothing, by whatever name it is called", async () => {
  const server = createServer((request, response) => {
    response.setHeader("content-type", "text/html");
    response.end("<!doctype html><title>a page that asks</title>");
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const site = `http://127.0.0.1:${server.address().port}`;
  const { port } = new URL(ENDPOINT);
  const context = await browser.newContext();
  const asked = [];
  try {
    const page = await context.newPage();
    page.on("response", (response) => asked.push(`${new URL(response.url()).port === port ? response.status() : "own"}`));
    const ask = (address, options) =>
      page.evaluate(
        ([address, options]) => fetch(address, options).then((answer) => `${answer.type} ${answer.status}`, (error) => error.name),
        [address, options],
      );
    const create = {
      method: "POST",
      headers: { "content-type": "application/x-amz-json-1.0", "x-amz-target": "DynamoDB_20120810.CreateTable" },
      body: JSON.stringify({
        TableName: "stolen",
        AttributeDefinitions: [{ AttributeName: "pk", AttributeType: "S" }],
        KeySchema: [{ AttributeName: "pk", KeyType: "HASH" }],
        BillingMode: "PAY_PER_REQUEST",
      }),
    };
    await page.goto(site);
    assert.equal(await ask(ENDPOINT, create), "TypeError");
    assert.equal(await ask(`${ENDPOINT}/metrics`, {}), "TypeError");
    // What a page may send without asking reaches the server, and is refused there.
    assert.equal(await ask(ENDPOINT, { method: "POST", mode: "no-cors", body: create.body }), "opaque 0");
    // The name of another site that leads here: to the browser its page and the endpoint are one site.
    const answer = await page.goto(`http://rebound.example:${port}/`);
    assert.equal(answer.status(), 403);
    assert.equal(await ask(`http://rebound.example:${port}/`, create), "basic 403");
    assert.equal(await ask(`http://rebound.example:${port}/metrics`, {}), "basic 403");
    assert.ok(asked.filter((status) => status === "403").length >= 4, asked.join(" "));
    assert.ok(!asked.includes("200"), asked.join(" "));
    assert.ok(!(await dynamodb("ListTables", {})).TableNames.includes("stolen"));
  } finally {
    await context.close();
    server.close();
  }
});

test("a read-only console shows everything and changes nothing", async () => {
  await putShop("kept.de");
  const page = await open();
  await page.goto(shopPage("kept.de").replace(CONSOLE, READ_ONLY));
  assert.match(await page.locator("header").textContent(), /read-only/);
  for (const name of ["Edit", "Delete…", "Duplicate"]) assert.equal(await page.getByRole("link", { name }).count(), 0, name);
  await page.goto(`${READ_ONLY}/browse/shops/Shop?by=all&scan=1`);
  assert.equal(await page.locator("input[name=key]").count(), 0);
  // A form that cannot be sent is not shown; one that was made by hand is refused.
  const shown = await page.goto(shopPage("kept.de", "/delete").replace(CONSOLE, READ_ONLY));
  assert.equal(shown.status(), 403);
  assert.equal(await page.locator("main form").count(), 0);
  const remove = `DELETE FROM "aura-historia-data" WHERE pk = 'SHOP#kept.de' AND sk = 'META#'`;
  await page.goto(`${READ_ONLY}/statement?run=1&statement=${encodeURIComponent(remove)}`);
  assert.match(await page.locator("main").textContent(), /DeleteItem: one item.*This console is read-only\./s);
  const [answer] = await Promise.all([
    page.waitForResponse((it) => it.request().method() === "POST"),
    page.evaluate(() => {
      const form = document.querySelector("form.statement");
      form.method = "post";
      form.submit();
    }),
  ]);
  assert.equal(answer.status(), 403);
  assert.ok(await getShop("kept.de"));
  await done(page);
});

test("with the keyboard alone: browse, open, edit, save", async () => {
  await putShop("keyboard.de", { shop_country: { S: "COUNTRY#KB" }, gsi2_pk: { S: "COUNTRY#KB" }, gsi3_pk: { S: "COUNTRY#KB" } });
  const page = await open();
  await page.goto(CONSOLE);
  const press = async (...keys) => { for (const key of keys) await page.keyboard.press(key); };
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
  const tabTo = async (what) => {
    for (let at = 0; at < 60 && !(await focused()).startsWith(what); at++) await press("Tab");
    assert.match(await focused(), new RegExp(`^${what}`));
  };
  await press("?");
  assert.ok(await page.locator("dialog[open]").isVisible());
  await press("Escape", "/");
  await page.keyboard.type("by_last_crawled");
  await Promise.all([page.waitForURL(/find/), press("Enter")]);
  await tabTo("shops.Shop by_last_crawled");
  await Promise.all([page.waitForURL(/browse/), press("Enter")]);
  await tabTo("a0");
  await page.keyboard.type("KB");
  await Promise.all([page.waitForURL(/country=KB/), press("Enter")]);
  await press("j");
  await Promise.all([page.waitForURL(/\/item\//), press("Enter")]);
  await Promise.all([page.waitForURL(/\/edit/), press("e")]);
  await tabTo("field-shop_name");
  await press("Control+A");
  await page.keyboard.type("By hand");
  await press("Enter");
  await page.getByRole("heading", { name: "Write this?" }).waitFor();
  await Promise.all([page.waitForURL(/done=saved/), press("Enter")]);
  assert.equal((await getShop("keyboard.de")).shop_name.S, "By hand");
  await done(page);
});

test("without the script it does the same", async () => {
  await putShop("scriptless.de");
  const page = await open({ javaScriptEnabled: false });
  await page.goto(shopPage("scriptless.de", "/edit"));
  await page.getByLabel("shop_name").fill("No script");
  await page.getByRole("button", { name: "Review the change" }).click();
  await page.getByRole("button", { name: "Write it" }).click();
  assert.equal((await getShop("scriptless.de")).shop_name.S, "No script");
  await page.context().close();
});

test("a statement is written with the keyboard, priced, run, paged and sent to somebody else", async () => {
  const names = ["pk", "sk"];
  await dynamodb("CreateTable", {
    TableName: "statements", BillingMode: "PAY_PER_REQUEST",
    KeySchema: names.map((AttributeName, at) => ({ AttributeName, KeyType: ["HASH", "RANGE"][at] })),
    AttributeDefinitions: names.map((AttributeName) => ({ AttributeName, AttributeType: "S" })),
  });
  for (let at = 0; at < 60; at++) await dynamodb("PutItem", { TableName: "statements", Item: { pk: { S: "STATEMENT" }, sk: { S: String(at).padStart(2, "0") }, note: { S: "<b>bold</b>" } } });
  const page = await open();
  await page.goto(CONSOLE);
  await Promise.all([page.waitForURL(/\/statement$/), page.keyboard.press("s")]);
  await page.keyboard.press("s");
  await page.keyboard.type('SELECT * FROM "statements" WHERE pk = ?');
  await page.keyboard.press("Tab");
  await page.keyboard.type("STATEMENT");
  await Promise.all([page.waitForURL(/run=1/), page.keyboard.press("Control+Enter")]);
  assert.match(await page.locator("#price").textContent(), /Query: 1 partition of statements/);
  assert.match(await page.getByRole("status").textContent(), /50 rows, and more · took .*read units, (less than )?\$/);
  assert.equal(await page.locator("table.rows b").count(), 0, "what an item holds is text");
  await accessible(page);
  await Promise.all([page.waitForURL(/cursor=/), page.locator("#next").click()]);
  assert.match(await page.getByRole("status").textContent(), /10 rows/);
  const other = await open();
  await other.goto(page.url());
  assert.equal(await other.locator("table.rows tbody tr").count(), 10);
  await other.getByRole("link", { name: "As JSON" }).click();
  assert.match(await other.locator("pre").first().textContent(), /"STATEMENT"/);
  const [file] = await Promise.all([other.waitForEvent("download"), other.getByRole("link", { name: "CSV" }).click()]);
  assert.equal(file.suggestedFilename(), "statements.csv");
  await done(other);

  // A write is told first, and done by its form; then it is gone.
  const run = async (statement) => {
    await page.goto(`${CONSOLE}/statement?run=1&statement=${encodeURIComponent(statement)}`);
    await accessible(page);
    await page.locator("#go").click();
    return page.locator("main").textContent();
  };
  const where = `WHERE pk = 'STATEMENT' AND sk = '00'`;
  assert.match(await run(`UPDATE "statements" SET note = 'new' ${where} RETURNING ALL NEW *`), /It is done, for 1 write unit.*new/s);
  assert.match(await run(`DELETE FROM "statements" ${where}`), /It is done/);
  assert.match(await run(`UPDATE "statements" SET note = 'new' ${where}`), /Nothing was written: The conditional request failed/);
  const scan = `SELECT * FROM "statements" WHERE note = 'nobody wrote this'`;
  assert.match(await run(scan), /Scan: all .*Nothing is there/s);
  await done(page);

  const plain = await open({ javaScriptEnabled: false });
  await plain.goto(`${CONSOLE}/statement`);
  await plain.getByLabel("PartiQL").fill(`SELECT sk FROM "statements" WHERE pk = 'STATEMENT'`);
  await plain.getByRole("button", { name: "Run" }).click();
  assert.match(await plain.getByRole("status").textContent(), /50 rows/);
  await done(plain);
  await dynamodb("DeleteTable", { TableName: "statements" });
});

test("times are the reader's, with UTC behind them", async () => {
  await putShop("times.de", { last_crawled_start: { S: "2026-01-15T10:00:00Z" }, gsi2_sk: { S: "PROGRESS#2026-01-15T10:00:00Z" } });
  const page = await open();
  await page.goto(shopPage("times.de"));
  const time = page.locator("time").first();
  assert.equal(await time.textContent(), "2026-01-15 11:00:00");
  assert.equal(await time.getAttribute("title"), "2026-01-15 10:00:00 UTC");
  await done(page);
});

test("a scan shows its price before it reads anything", async () => {
  const page = await open();
  await page.goto(`${CONSOLE}/browse/keiba/Race`);
  await page.getByRole("link", { name: "all records (a scan)" }).click();
  assert.match(await page.locator(".empty").textContent(), /60 items|items, .*read units/);
  assert.equal(await page.locator("table.rows").count(), 0);
  await accessible(page);
  await page.getByRole("link", { name: /^Read a page: .* read units/ }).click();
  assert.ok((await page.locator("table.rows tbody tr").count()) > 0);
  // A console from outside asks for items too, as somebody may pay for them.
  await page.goto(`${READ_ONLY}/items/lunch-cache-dev?by=all`);
  await page.getByRole("link", { name: /^Read a page: / }).click();
  assert.ok((await page.locator("table.rows tbody tr").count()) > 0);
  await done(page);
});

test("what the server is asked is seen as it comes, the costly on top, and no keys", async () => {
  const page = await open();
  await page.goto(`${CONSOLE}/requests`);
  await accessible(page);
  await dynamodb("Scan", { TableName: "keiba_data", Limit: 3 });
  const refused = await fetch(ENDPOINT, {
    method: "POST", headers: { "content-type": "application/x-amz-json-1.0", "x-amz-target": "DynamoDB_20120810.GetItem" },
    body: JSON.stringify({ TableName: "keiba_data", Key: { nothing: { S: "not-on-the-page" } } }),
  });
  assert.equal(refused.status, 400);
  const latest = page.getByRole("region", { name: "Latest" });
  await latest.locator("tr", { hasText: "ValidationException" }).first().waitFor({ timeout: 10_000 });
  const row = await latest.locator("tr", { hasText: "keiba_data" }).filter({ hasText: "Scan" }).first().textContent();
  assert.match(row, /Scankeiba_data[\d.]+ R[\d.]+ (µs|ms)/);
  assert.ok(!(await page.content()).includes("not-on-the-page"));
  const units = await page.getByRole("region", { name: "Most costly" }).locator("tbody td:nth-child(2)").allTextContents();
  const numbers = units.map((text) => Number.parseFloat(text));
  assert.deepEqual(numbers, [...numbers].sort((a, b) => b - a));
  await page.goto(`${CONSOLE}/requests?errors=1`);
  const shown = await page.getByRole("region", { name: "Latest" }).locator("tbody tr").count();
  assert.equal(await page.getByRole("region", { name: "Latest" }).locator("tbody tr .badge.bad").count(), shown);
  await page.goto(`${READ_ONLY}/requests`);
  assert.match(await page.locator(".empty").textContent(), /Only a server knows/);
  await accessible(page);
  await done(page);
});

/** A menu of the lunch cache, which keeps its past. */
const menuPage = async (page) => {
  await page.goto(`${CONSOLE}/browse/lunch/Menu?by=all`);
  return page.locator("a.open").first().getAttribute("href");
};

test("a record is shown as it was at a moment chosen on a line", async () => {
  const page = await open();
  await page.goto(CONSOLE + (await menuPage(page)));
  await page.getByRole("link", { name: "Edit" }).click();
  await page.getByRole("link", { name: "As JSON" }).click();
  const text = await page.locator("#item").inputValue();
  const item = JSON.parse(text);
  await page.locator("#item").fill(JSON.stringify({ ...item, remark: { S: "written later" } }));
  await page.getByRole("button", { name: "Review the change" }).click();
  await page.getByRole("button", { name: "Write it" }).click();
  await page.getByRole("link", { name: "History" }).click();
  assert.match(await page.locator("main").textContent(), /until now/);
  assert.match(await page.locator("table.difference").textContent(), /remarknot therewritten later/);
  assert.deepEqual(await barriers(page), []);
  const first = page.getByRole("group", { name: "The changes on a line" }).getByRole("link").first();
  await first.click();
  assert.match(await page.locator("main").textContent(), /As it was from/);
  assert.ok(!(await page.locator("main").textContent()).includes("written later"), "it was not there then");
  // An hour ago there was nothing, and a moment from now it is as it is.
  const moment = page.getByLabel("as it was at");
  await moment.fill(new Date(Date.now() - 3600e3).toISOString());
  await page.getByRole("button", { name: "Show", exact: true }).click();
  assert.match(await page.getByRole("alert").textContent(), /nothing is known/);
  await page.getByLabel("as it was at").fill(new Date().toISOString());
  await page.getByRole("button", { name: "Show", exact: true }).click();
  assert.match(await page.locator("main").textContent(), /As it was at .*written later/s);
  await page.emulateMedia({ colorScheme: "dark" });
  assert.deepEqual(await barriers(page, ["color-contrast"]), []);
  await page.goto(page.url().replace(CONSOLE, READ_ONLY));
  assert.match(await page.locator(".empty").textContent(), /The past is not kept|Read the stream\?/);
  await accessible(page);
  await done(page);
});

test("the changes of a table are seen as they come, filtered", async () => {
  const page = await open();
  const href = await menuPage(page);
  const { Items } = await dynamodb("Scan", { TableName: "lunch-cache-dev", Limit: 1 });
  await page.goto(`${CONSOLE}/changes/lunch-cache-dev?event=changed&attribute=tail`);
  assert.match(await page.getByRole("status").textContent(), /0 changes/);
  await accessible(page);
  await dynamodb("PutItem", { TableName: "lunch-cache-dev", Item: { ...Items[0], tail: { S: "seen" } } });
  await page.locator("table.rows tbody tr", { hasText: "changed" }).waitFor({ timeout: 10_000 });
  assert.match(await page.getByRole("status").textContent(), /1 change of/);
  await page.locator("table.rows tbody a.open").first().click();
  assert.match(await page.locator("table.difference").textContent(), /tailnot thereseen/);
  await page.goto(`${CONSOLE}/changes/keiba_data`);
  assert.match(await page.locator(".empty").textContent(), /The past is not kept/);
  assert.ok(href);
  await done(page);
});

test("the changes of a store from outside are seen as they come by the stream", async () => {
  await dynamodb("CreateTable", {
    TableName: "watched", BillingMode: "PAY_PER_REQUEST", AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }],
    KeySchema: [{ AttributeName: "id", KeyType: "HASH" }], StreamSpecification: { StreamEnabled: true, StreamViewType: "NEW_AND_OLD_IMAGES" },
  });
  const page = await open();
  await page.goto(`${READ_ONLY}/changes/watched`);
  assert.match(await page.locator(".empty").textContent(), /Nothing came yet/);
  await accessible(page);
  await dynamodb("PutItem", { TableName: "watched", Item: { id: { S: "seven" }, price: { N: "1" } } });
  await page.locator("table.rows tbody tr", { hasText: "made" }).waitFor({ timeout: 10_000 });
  assert.match(await page.getByRole("status").textContent(), /1 change of 1 that came by the stream/);
  await accessible(page);
  await page.getByRole("link", { name: "seven" }).click();
  assert.match(await page.locator("h1").textContent(), /seven/);
  // So is the past of one item, which the stream has kept since before somebody looked.
  await dynamodb("PutItem", { TableName: "watched", Item: { id: { S: "seven" }, price: { N: "2" } } });
  await page.goto(`${READ_ONLY}/item/watched/history?pk=seven`);
  assert.match(await page.locator(".empty").textContent(), /Read the stream\?.*\$0\.02 for 100,000/s);
  await accessible(page);
  await page.getByRole("link", { name: "Read the stream" }).click();
  assert.match(await page.getByRole("status").textContent(), /2 changes of the table looked through.*all that the stream has/);
  assert.match(await page.locator("table.difference").textContent(), /price[^}]*"1"[^}]*}[^}]*"2"/);
  await accessible(page);
  await page.goto(`${READ_ONLY}/changes/keiba_data`);
  assert.match(await page.locator(".empty").textContent(), /no stream to look at/);
  await dynamodb("DeleteTable", { TableName: "watched" });
  await done(page);
});

/** A browser in which somebody shows a key to the console that asks for one, on the way to a page. */
async function signIn([id, secret], path = "/", options = {}) {
  const page = await open({ ignoreHTTPSErrors: true, ...options });
  await page.goto(ASKING + path);
  await page.getByLabel("Access key ID").fill(id);
  await page.getByLabel("Secret access key").fill(secret);
  await page.getByRole("button", { name: "Sign in" }).click();
  return page;
}

const SHOPS = "/browse/shops/Shop?by=all&scan=1";

test("the page that asks for a key is accessible, light and dark, and leads to where one wanted to go", async () => {
  const page = await open({ ignoreHTTPSErrors: true });
  await page.goto(ASKING + SHOPS);
  assert.match(page.url(), /\/sign-in\?to=/);
  await accessible(page);
  await page.emulateMedia({ colorScheme: "dark" });
  assert.deepEqual(await barriers(page, ["color-contrast"]), []);
  await page.setViewportSize({ width: 400, height: 800 });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing is wider than a telephone");
  // By the keyboard alone: the first field has the focus.
  const [id, secret] = ADMIN.split(" ");
  await page.keyboard.type(id);
  await page.keyboard.press("Tab");
  await page.keyboard.type(secret);
  await page.keyboard.press("Enter");
  await page.waitForURL(ASKING + SHOPS);
  assert.match(await page.getByRole("status").textContent(), /5 rows/);
  const cookies = await page.context().cookies();
  const session = cookies.find((cookie) => cookie.name.includes("larder_session"));
  assert.deepEqual([session.httpOnly, session.secure, session.sameSite], [true, true, "Strict"]);
  assert.ok(!(await page.content()).includes(secret));
  await done(page);
});

test("who may read sees everything, is offered nothing, and a forged form is refused in the endpoint's words", async () => {
  const page = await signIn(READER.split(" "), SHOPS);
  await page.locator("a.open").first().click();
  await page.locator("h1.key").waitFor();
  await accessible(page);
  for (const name of ["Edit", "Duplicate", "Delete…"]) assert.equal(await page.getByRole("link", { name }).count(), 0, name);
  assert.equal(await page.getByRole("link", { name: "Requests" }).count(), 0);
  assert.match(await page.locator("header").textContent(), /reader/);
  const record = new URL(page.url());
  const shown = await page.goto(`${ASKING}/item/aura-historia-data/delete${record.search}`);
  assert.equal(shown.status(), 403);
  assert.equal(await page.locator("main form").count(), 0, "a form is shown to who may send it");
  const [pk, sk] = ["pk", "sk"].map((name) => record.searchParams.get(name));
  const forged = await page.evaluate(async (statement) => {
    const body = new URLSearchParams({ token: document.querySelector("[name=token]").value, statement });
    const answer = await fetch("/statement", { method: "POST", body });
    return [answer.status, await answer.text()];
  }, `DELETE FROM "aura-historia-data" WHERE pk = '${pk}' AND sk = '${sk}'`);
  assert.equal(forged[0], 403);
  assert.match(forged[1], /user\/reader is not authorized to perform: dynamodb:/);
  await page.goto(`${ASKING}/requests`);
  assert.match(await page.getByRole("alert").textContent(), /larder:ReadRequests/);
  await accessible(page);
  await page.goto(record.href);
  assert.equal(await page.locator("h1.key").count(), 1, "it is still there");
  await done(page);
});

test("who may do everything edits a record over TLS, and after signing out nothing is shown", async () => {
  const page = await signIn(ADMIN.split(" "), SHOPS);
  await page.locator("a.open").first().click();
  const record = page.url();
  await page.getByRole("link", { name: "Edit" }).click();
  await page.getByLabel("shop_name").fill("Over TLS");
  await page.getByRole("button", { name: "Review the change" }).click();
  await page.getByRole("button", { name: "Write it" }).click();
  assert.match(await page.locator("main").textContent(), /Saved.*Over TLS/s);
  await page.goto(`${ASKING}/`);
  await accessible(page);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(/\/sign-in$/, { waitUntil: "load" });
  await page.goBack();
  assert.ok(!(await page.content()).includes("Over TLS") && (await page.getByLabel("Access key ID").count()) === 1, "nothing is kept for the way back");
  await page.goto(record);
  assert.match(page.url(), /\/sign-in\?to=/);
  await done(page);
});

test("a link of another site opens the page of who is signed in, and begins nothing that costs", async () => {
  const site = createServer((request, response) => {
    response.setHeader("content-type", "text/html");
    response.end(`<a id=page href="${ASKING}/tables">there</a><a id=scan href="${ASKING}${SHOPS}">scan</a>`);
  });
  await new Promise((ready) => site.listen(0, "127.0.0.1", ready));
  site.unref();
  const page = await signIn(ADMIN.split(" "));
  await page.getByRole("button", { name: "Sign out" }).waitFor();
  await page.goto(`http://rebound.example:${site.address().port}/`);
  await page.locator("#page").click();
  await page.getByRole("heading", { name: "Tables", level: 1 }).waitFor();
  await page.goto(`http://rebound.example:${site.address().port}/`);
  await page.locator("#scan").click();
  assert.match(await page.locator("body").textContent(), /page of another site/);
  site.close();
  await done(page);
});

test("a wrong key is told so, later and later", async () => {
  const page = await signIn([ADMIN.split(" ")[0], "wrong"]);
  assert.match(await page.getByRole("alert").textContent(), /Nobody has this key, or its secret is another/);
  await accessible(page);
  let took = 0;
  for (let times = 1; times < 8; times++) {
    await page.getByLabel("Secret access key").fill("wrong");
    const begun = Date.now();
    const answered = page.waitForResponse((answer) => answer.url().endsWith("/sign-in"));
    await page.getByRole("button", { name: "Sign in" }).click();
    await answered;
    took = Date.now() - begun;
  }
  assert.ok(took >= 200, `the eighth took ${took} ms`);
  await done(page);
});

test("a record is shown as it was an hour ago", async () => {
  const Key = { pk: { S: "an-hour-ago-2026-07" } };
  const menu = (remark) => ({ ...Key, restaurant: { S: "an-hour-ago" }, year: { N: "2026" }, week: { N: "7" }, lunches: { L: [] }, lunchCount: { N: "0" }, remark: { S: remark } });
  await dynamodb("PutItem", { TableName: "lunch-cache-dev", Item: menu("what it was then") });
  const moved = await fetch(`${ENDPOINT}/_larder/clock`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ advance_seconds: 3600 }),
  });
  assert.equal(moved.status, 200);
  const { now } = await moved.json();
  await dynamodb("PutItem", { TableName: "lunch-cache-dev", Item: menu("what it is now") });
  const page = await open();
  await page.goto(`${CONSOLE}/item/lunch-cache-dev/history?pk=${Key.pk.S}`);
  const at = async (seconds) => {
    await page.getByLabel("as it was at").fill(new Date(seconds * 1000).toISOString());
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await page.getByText("Attributes", { exact: true }).first().click();
    return page.getByRole("region", { name: "Attributes" }).textContent();
  };
  // Half an hour, and almost all of the hour, before now.
  for (const ago of [1800, 3590]) {
    const was = await at(now - ago);
    assert.ok(was.includes("what it was then") && !was.includes("what it is now"), `${ago}: ${was}`);
  }
  const is = await at(now + 60);
  assert.ok(is.includes("what it is now") && !is.includes("what it was then"), is);
  await accessible(page);
  await done(page);
});

test("pictures for the documentation", { skip: !UPDATE_DOCS }, async () => {
  const day = Date.now();
  const iso = (hours) => new Date(day - hours * 3600e3).toISOString().slice(0, 19) + "Z";
  for (let at = 0; at < 9; at++) {
    const start = { last_crawled_start: { S: iso(at + 1) } };
    const state = [["NEVER#", {}], [`PROGRESS#${iso(at + 1)}`, start], [`DONE#${iso(at)}`, { ...start, last_crawled_end: { S: iso(at) } }]][at % 3];
    await putShop(`shop${at}.se`, { ...state[1], shop_country: { S: "COUNTRY#SE" }, gsi2_pk: { S: "COUNTRY#SE" }, gsi3_pk: { S: "COUNTRY#SE" }, gsi2_sk: { S: state[0] } });
  }
  const pastMenu = async () => {
    const page = await open();
    const path = (await menuPage(page)).replace("?", "/history?");
    await done(page);
    return path;
  };
  const shots = {
    overview: [`/?count=aura-historia-data`, "light"], browse: ["/browse/shops/Shop?by=by_last_crawled&a.country=SE&newest=1&c=domain&c=last_crawled_start&c=last_crawled_end", "light"],
    record: [shopPage("shop5.se").replace(CONSOLE, ""), "dark"], requests: ["/requests", "light"], history: [await pastMenu(), "light"], board: ["/board/shops/Shop/crawl?a.country=SE", "light"],
    statement: [`/statement?run=1&parameters=${encodeURIComponent("COUNTRY#SE")}&statement=${encodeURIComponent('SELECT domain, gsi2_sk, last_crawled_end\nFROM "aura-historia-data"."CountryLastCrawledIndex"\nWHERE gsi2_pk = ?')}`, "light"],
    table: ["/tables/lunch-cache-dev", "light"], drawing: ["/schema/shops?view=drawing", "dark"], cost: ["/schema/weather?view=cost", "light"],
  };
  for (const [name, [path, colorScheme]] of Object.entries(shots)) {
    const page = await open({ colorScheme, viewport: { width: 1180, height: 720 } });
    await page.goto(CONSOLE + path);
    if (name === "overview") {
      await page.locator("polyline").first().waitFor();
      await page.setViewportSize({ width: 1180, height: 1120 });
    }
    if (name === "table") {
      await page.getByText("Change it").click();
      await page.getByText("Change it").evaluate((it) => it.scrollIntoView({ block: "center" }));
    }
    await page.screenshot({ path: `${ROOT}/docs/pictures/console-${name}.png` });
    await done(page);
  }
  const page = await open({ ignoreHTTPSErrors: true, viewport: { width: 1180, height: 560 } });
  await page.goto(ASKING);
  await page.screenshot({ path: `${ROOT}/docs/pictures/console-sign-in.png` });
  await done(page);
});
