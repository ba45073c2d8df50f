// `larder export jsonschema`, as zod reads it: what the layer reads and what is stored are accepted, what is wrong is refused.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";

import { z } from "zod";

import { binary, root, run } from "./larder.mjs";

const items = JSON.parse(readFileSync(join(root, "tests/clients/systems/items.json"), "utf8"));

async function exported(system) {
  const { stdout, stderr } = await run(binary, ["export", "jsonschema", join(root, `schemas/${system}.larder`)]);
  assert.ok(stdout, stderr);
  return JSON.parse(stdout);
}

/** One of its definitions, for zod. */
const of = ({ $schema, $defs }, name) => z.fromJSONSchema({ $schema, $defs, $ref: `#/$defs/${name}` });

/** A stored value as JSON. */
function plain(value) {
  const [[kind, inner]] = Object.entries(value);
  switch (kind) {
    case "N":
      return Number(inner);
    case "M":
      return Object.fromEntries(Object.entries(inner).map(([name, member]) => [name, plain(member)]));
    case "L":
      return inner.map(plain);
    default:
      return inner;
  }
}

test("what_the_layer_reads_is_checked_by_zod", async () => {
  const forecast = of(await exported("weather"), "Forecast");
  const read = {
    lat: 35,
    lon: 135.8,
    hour: "2026-01-15T10:00:00Z",
    created_at: "2026-01-15T10:00:00.000000Z",
    data: { temperature: 1, humidity: 65, wind_speed: 1, rainfall_intensity: 0, weather_description: "x", timestamp: "2026-01-15T10:00:00" },
  };
  assert.equal(forecast.parse(read).data.humidity, 65);
  const refused = forecast.safeParse({ ...read, data: { ...read.data, humidity: 101 } });
  assert.deepEqual(refused.error.issues.map(({ path }) => path.join(".")), ["data.humidity"]);
});

describe("the_items_of_the_five_programs_are_accepted_by_zod", () => {
  const { now, ...systems } = items;
  for (const [system, theirs] of Object.entries(systems)) {
    test(system, async () => {
      const schema = await exported(system);
      const names = Object.keys(schema.$defs).filter((name) => name.endsWith("Item"));
      const whole = z.union(names.map((name) => of(schema, name)));
      const all = (Array.isArray(theirs) ? theirs : Object.values(theirs).flat()).map((item) => plain({ M: item }));
      assert.ok(all.length > 0);
      for (const item of all) {
        assert.deepEqual(whole.safeParse(item).error?.issues ?? [], []);
        const [first, ...others] = Object.keys(item);
        const lacking = Object.fromEntries(others.map((name) => [name, item[name]]));
        assert.equal(whole.safeParse({ ...lacking, [first]: Symbol("no JSON") }).success, false);
      }
    });
  }
});
