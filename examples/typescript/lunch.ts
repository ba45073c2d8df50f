// The lunch cache: weekly menus of restaurants, by the five access patterns of its design.
//
// Keys, the count, the TTL, the checks and what one hour in memory means are in schemas/lunch.larder; the types beside this
// file are made of it: npx larder export typescript lunch --out lunch-types.ts

import { randomUUID } from "node:crypto";
import { open, type System } from "larder";
import type { LunchSystem, NewMenu } from "./lunch-types.js";

type Week = { restaurant: string; year: number; week: number };

export class LunchCache {
  static async open(schema: string, store: string): Promise<LunchCache> {
    return new LunchCache(await open<LunchSystem>(schema, { store }));
  }

  constructor(readonly lunch: System<LunchSystem>) {}

  // 1. Store weekly menu
  store(menu: NewMenu) {
    return this.lunch.Menu.put(menu);
  }

  // 2. Retrieve current week's menu, parsed again when there is none
  menu(week: Week, parse: (week: Week) => Promise<Omit<NewMenu, keyof Week> | undefined>) {
    return this.lunch.Menu.fetch(week, parse);
  }

  // 3. Get restaurant cache history
  history(restaurant: string, limit: number) {
    return this.lunch.Menu.query("history", restaurant, { newestFirst: true, limit }).all();
  }

  // 4. Cleanup expired cache
  async cleanup() {
    const plan = await this.lunch.Menu.sweep();
    return (await plan.run()).removed;
  }

  // 5. Health check
  async isHealthy() {
    const probe = { restaurant: `health-check-${randomUUID()}`, year: 2000, week: 1 };
    await this.lunch.Menu.put({ ...probe, lunches: [] });
    return (await this.lunch.Menu.delete(probe)) !== undefined;
  }
}
