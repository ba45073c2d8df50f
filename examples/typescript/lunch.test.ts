import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { Odd } from "larder";
import { LunchCache } from "./lunch.js";
import type { NewMenu } from "./lunch-types.js";

const NIAGARA = { restaurant: "niagara", year: 2025, week: 3 };
const MENU: NewMenu = {
  ...NIAGARA,
  lunches: [
    { name: "Köttbullar", description: "Med kokt potatis", price: 125, weekday: "måndag", week: 3, place: "Niagara" },
    { name: "Pannkakor", price: "129.50", weekday: "torsdag", week: 3, place: "Niagara" },
  ],
  metadata: { version: "1.0", source: "niagara-parser" },
  last_updated: new Date("2025-01-20T08:00:00.000Z"),
};

let cache: LunchCache;
beforeEach(async () => {
  cache = await LunchCache.open("../../schemas/lunch.larder", "memory:");
  cache.lunch.store.clock.stop();
});
afterEach(() => cache.lunch.close());

test("l3_the_count_is_the_length_of_the_list_after_every_write", async () => {
  assert.equal((await cache.store(MENU)).lunch_count, 2);
  const more = { ...MENU.lunches[0], name: "Gravlax" } as NewMenu["lunches"][number];
  assert.equal((await cache.lunch.Menu.update(NIAGARA, { append: { lunches: [more] } })).lunch_count, 3);
});

test("l4_a_menu_is_kept_with_what_it_breaks", async () => {
  const kept = await cache.store({ ...NIAGARA, lunches: [...MENU.lunches, new Odd({ name: "Soppa", price: "fråga" })] });
  assert.deepEqual(kept.lunches.map((lunch) => lunch instanceof Odd), [false, false, true]);
  assert.match(kept.validation_errors?.[0]?.field ?? "", /lunches\[2\]/);
  const read = await cache.lunch.Menu.get(NIAGARA);
  assert.deepEqual(read?.lunches[2], new Odd({ name: "Soppa", price: "fråga" }));
});

test("l5_a_restaurants_history_comes_newest_first", async () => {
  for (const week of [1, 2, 3]) {
    await cache.store({ ...MENU, week });
    cache.lunch.store.clock.advance("1h");
  }
  const weeks = (await cache.history("niagara", 2)).map((menu) => menu.week);
  assert.deepEqual(weeks, [3, 2]);
});

test("l6_expired_entries_are_swept_and_the_probe_leaves_nothing", async () => {
  await cache.store(MENU);
  cache.lunch.store.clock.advance("15d");
  await cache.store({ ...MENU, week: 4 });
  assert.equal(await cache.cleanup(), 1);
  assert.equal(await cache.isHealthy(), true);
  assert.equal((await cache.lunch.Menu.scan().all()).length, 1);
});

test("l7_a_menu_lives_a_fortnight", async () => {
  const { $ } = await cache.store(MENU);
  const days = (Number($.expires) - Number(cache.lunch.now())) / 86_400_000;
  assert.ok(days > 13.9 && days <= 14, `${days} days`);
});

test("l14_a_menu_is_parsed_once_and_then_had_from_memory_for_an_hour", async () => {
  let parsed = 0;
  const parse = async () => {
    parsed += 1;
    return { lunches: MENU.lunches };
  };
  const origins = [];
  for (const wait of ["0s", "59m", "2m"]) {
    cache.lunch.store.clock.advance(wait);
    origins.push((await cache.menu(NIAGARA, parse)).$.origin);
  }
  assert.deepEqual([origins, parsed], [["source", "l1", "store"], 1]);
});

test("prices_are_exact", async () => {
  const menu = await cache.store({ ...NIAGARA, lunches: [{ ...MENU.lunches[1], price: "129.95" }] as NewMenu["lunches"] });
  const [lunch] = menu.lunches;
  assert.ok(lunch && !(lunch instanceof Odd));
  assert.equal(lunch.price, 129.95);
  assert.equal(lunch.description, "");
});
