// The TDnet collector: disclosures by company and by month, executions and exports by state.
//
// Ids, months of Tokyo, states, checks and thirty days are in schemas/tdnet.larder; the types beside this file are made of it:
// npx larder export typescript tdnet --out tdnet-types.ts

import { open, type System } from "larder";
import type { NewDisclosure, Tdnet } from "./tdnet-types.js";

type Range = { from?: string; until?: string; newestFirst?: boolean };

export class Collector {
  static async open(schema: string, store: string): Promise<Collector> {
    return new Collector(await open<Tdnet>(schema, { store }));
  }

  constructor(readonly tdnet: System<Tdnet>) {}

  /** The id is made of the day in Tokyo, the company and the first free number. */
  save(disclosure: Omit<NewDisclosure, "downloaded_at">) {
    return this.tdnet.Disclosure.create({ ...disclosure, downloaded_at: now() });
  }

  find(disclosure_id: string) {
    return this.tdnet.Disclosure.get(disclosure_id);
  }

  byCompany(company_code: string, range: Range = {}) {
    return this.tdnet.Disclosure.query("by_company", company_code, range);
  }

  byMonth(date_partition: string, range: Range = {}) {
    return this.tdnet.Disclosure.query("by_month", date_partition, range);
  }

  /** One run: from pending to completed, or to failed with what went wrong. */
  async run(execution_id: string, disclosures: AsyncIterable<Omit<NewDisclosure, "downloaded_at">>) {
    const { Execution } = this.tdnet;
    const status = Execution.lifecycle("status");
    await Execution.create({ execution_id });
    await status.run(execution_id, "start");
    try {
      for await (const disclosure of disclosures) {
        const saved = await this.save(disclosure).then(
          () => ({ success_count: 1 }),
          () => ({ failed_count: 1 }),
        );
        await Execution.update(execution_id, { add: saved });
      }
      return await status.run(execution_id, "complete");
    } catch (error) {
      return await status.run(execution_id, "fail", { error_message: String(error) });
    }
  }

  /** Exports are made by workers; the link is gone for the reader a week after it was made. */
  async export(export_id: string, make: () => Promise<string>) {
    const status = this.tdnet.Export.lifecycle("status");
    await this.tdnet.Export.create({ export_id });
    await status.run(export_id, "start");
    return status.run(export_id, "complete", { download_url: await make() });
  }

  async executions(state: "pending" | "running" | "completed" | "failed") {
    const found = await this.tdnet.Execution.lifecycle("status").inState(state, { newestFirst: true });
    return found.map(({ record }) => record.execution_id);
  }
}

/** TDnet's moments have seconds. */
function now(): Date {
  return new Date(Math.floor(Date.now() / 1000) * 1000);
}
