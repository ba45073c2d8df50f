// The lunch cache: weekly menus of restaurants, by the five access patterns of its design.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { PutItemCommand } from "@aws-sdk/client-dynamodb";
import {
  DeleteCommand,
  DynamoDBDocumentClient,
  GetCommand,
  PutCommand,
  QueryCommand,
  paginateScan,
} from "@aws-sdk/lib-dynamodb";
import { NO_ACCESS, connect, denial } from "./endpoint.js";
import { ITEMS, NOW, SKIP, apply, count, drop, starve, stopClock, stored } from "./systems.js";

const DAY = 24 * 60 * 60;
const region = "eu-west-1";
const client = connect({ region });
const program = connect({ as: "lunch", region });
after(() => client.destroy());
after(() => program.destroy());

class LunchCache {
  constructor(documents, environment) {
    this.documents = documents;
    this.TableName = `lunch-cache-${environment}`;
  }

  static key(restaurant, year, week) {
    return `${restaurant}-${year}-${String(week).padStart(2, "0")}`;
  }

  // 1. Store weekly menu
  async store({ restaurant, year, week, lunches, ...optional }) {
    const Item = {
      pk: LunchCache.key(restaurant, year, week),
      restaurant,
      week,
      year,
      lunches,
      lunchCount: lunches.length,
      cachedAt: new Date().toISOString(),
      ttl: Math.floor(Date.now() / 1000) + 14 * DAY,
      ...optional,
    };
    await this.documents.send(new PutCommand({ TableName: this.TableName, Item }));
    return Item;
  }

  // 2. Retrieve current week's menu
  async menu(restaurant, year, week) {
    const Key = { pk: LunchCache.key(restaurant, year, week) };
    const { Item } = await this.documents.send(new GetCommand({ TableName: this.TableName, Key }));
    return Item && Item.ttl >= Math.floor(Date.now() / 1000) ? Item : undefined;
  }

  // 3. Get restaurant cache history
  async history(restaurant, Limit) {
    const { Items } = await this.documents.send(
      new QueryCommand({
        TableName: this.TableName,
        IndexName: "RestaurantIndex",
        KeyConditionExpression: "restaurant = :restaurant",
        ExpressionAttributeValues: { ":restaurant": restaurant },
        ScanIndexForward: false,
        Limit,
      }),
    );
    return Items;
  }

  // 4. Cleanup expired cache
  async cleanup() {
    const expired = {
      TableName: this.TableName,
      // `ttl` is a reserved word: the bare `ttl < :now` of the design is refused.
      FilterExpression: "#ttl < :now",
      ExpressionAttributeNames: { "#ttl": "ttl" },
      ExpressionAttributeValues: { ":now": Math.floor(Date.now() / 1000) },
    };
    let deleted = 0;
    for await (const page of paginateScan({ client: this.documents }, expired)) {
      for (const { pk } of page.Items) {
        await this.documents.send(new DeleteCommand({ TableName: this.TableName, Key: { pk } }));
        deleted += 1;
      }
    }
    return deleted;
  }

  // 5. Health check
  async isHealthy() {
    const TableName = this.TableName;
    const Key = { pk: `health-check-${randomUUID()}` };
    await this.documents.send(new PutCommand({ TableName, Item: { ...Key, probe: true } }));
    const { Item } = await this.documents.send(
      new GetCommand({ TableName, Key, ConsistentRead: true }),
    );
    await this.documents.send(new DeleteCommand({ TableName, Key }));
    return Item?.probe === true;
  }
}

const MENU = {
  restaurant: "niagara",
  year: 2025,
  week: 3,
  lunches: [
    {
      name: "Köttbullar med gräddsås",
      description: "Serveras med kokt potatis och lingonsylt",
      price: 125,
      weekday: "måndag",
      week: 3,
      place: "Niagara",
    },
    {
      name: "Pannkakor",
      description: "Med sylt och grädde",
      price: 129.5,
      weekday: "torsdag",
      week: 3,
      place: "Niagara",
    },
  ],
  metadata: { version: "1.0", source: "niagara-parser" },
  dataQuality: { completeness: 0.95, accuracy: 0.98 },
  lastUpdated: "2025-01-20T08:00:00.000Z",
};

describe("the lunch cache", { skip: SKIP }, () => {
  const ENVIRONMENT = process.env.LARDER_STAGE ?? randomUUID();
  const cache = new LunchCache(DynamoDBDocumentClient.from(program), ENVIRONMENT);
  const { TableName } = cache;
  before(async () => {
    await apply("lunch", { ENVIRONMENT, AWS_REGION: region });
    await starve(client, "lunch", TableName);
  });
  after(() => drop(client, TableName));

  test("the program writes the item of the layer", async (t) => {
    stopClock(t);
    await cache.store(MENU);
    assert.deepEqual(
      await stored(client, TableName, { pk: ITEMS.lunch.menu.pk }),
      ITEMS.lunch.menu,
    );
  });

  test("the program reads the item of the layer", async (t) => {
    stopClock(t);
    await client.send(new PutItemCommand({ TableName, Item: ITEMS.lunch.menu }));
    const { pk, lunchCount, cachedAt, ttl, ...menu } = await cache.menu("niagara", 2025, 3);
    assert.deepEqual(menu, MENU);
    assert.equal(pk, "niagara-2025-03");
    assert.equal(lunchCount, 2);
    assert.equal(cachedAt, NOW.toISOString());
    assert.equal(ttl, Math.floor(NOW / 1000) + 14 * DAY);
  });

  test("the history of a restaurant is newest first, whatever its weeks are", async (t) => {
    stopClock(t);
    for (const week of [7, 9, 8]) {
      await cache.store({ ...MENU, restaurant: "valfärden", week });
      t.mock.timers.tick(60_000);
    }
    const weeks = (menus) => menus.map((menu) => menu.week);
    assert.deepEqual(weeks(await cache.history("valfärden")), [8, 9, 7]);
    assert.deepEqual(weeks(await cache.history("valfärden", 1)), [8]);
    assert.deepEqual(await cache.history("nowhere"), []);
  });

  test("an expired menu is not given, and is swept", async (t) => {
    stopClock(t);
    await cache.store({ ...MENU, restaurant: "spill" });
    t.mock.timers.tick(14 * DAY * 1000);
    await cache.store({ ...MENU, restaurant: "mat" });
    assert.ok(await cache.menu("spill", 2025, 3), "it lives to the end of its last second");
    t.mock.timers.tick(1000);
    assert.equal(await cache.menu("spill", 2025, 3), undefined);
    const all = await count(client, TableName);
    const deleted = await cache.cleanup();
    assert.ok(deleted >= 1);
    assert.equal(await count(client, TableName), all - deleted);
    assert.ok(await cache.menu("mat", 2025, 3), "it is new");
    assert.equal(await cache.cleanup(), 0);
  });

  test("the health check leaves nothing behind", async () => {
    const before = await count(client, TableName);
    assert.ok(await cache.isHealthy());
    assert.equal(await count(client, TableName), before);
  });

  const missing = "without a permission the program fails and says which";
  test(missing, { skip: NO_ACCESS }, async (t) => {
    stopClock(t);
    await cache.store({ ...MENU, restaurant: "spill" });
    t.mock.timers.tick(15 * DAY * 1000);
    const table = `eu-west-1:000000000000:table/${TableName}`;
    const uses = [
      ["lunch.1.PutItem", (cache) => cache.store(MENU), table],
      ["lunch.1.GetItem", (cache) => cache.menu("niagara", 2025, 3), table],
      ["lunch.1.Query", (cache) => cache.history("niagara"), `${table}/index/RestaurantIndex`],
      ["lunch.1.Scan", (cache) => cache.cleanup(), table],
      ["lunch.1.DeleteItem", (cache) => cache.cleanup(), table],
      ["lunch.1.PutItem", (cache) => cache.isHealthy(), table],
      ["lunch.1.GetItem", (cache) => cache.isHealthy(), table],
      ["lunch.1.DeleteItem", (cache) => cache.isHealthy(), table],
    ];
    for (const [name, use, resource] of uses) {
      const without = connect({ as: name, region });
      const cache = new LunchCache(DynamoDBDocumentClient.from(without), ENVIRONMENT);
      await assert.rejects(use(cache), denial(name, resource));
      without.destroy();
    }
  });
});
