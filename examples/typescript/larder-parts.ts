/** For programs that stay with the AWS SDK: reads what Larder keeps packed or split over several items, and judges how fresh an item is. */

import { crc32, gunzipSync } from "node:zlib";

export type Item = Record<string, any>;
/** Reads one item by its key, consistently. */
export type Get = (key: Item) => Promise<Item | undefined>;

/** An item as it was put, of the one that the store has, if its parts are still there. `names`: of the attributes of the table's key. */
export async function whole(get: Get, names: string[], { larder_parts: parts, ...item }: Item): Promise<Item | undefined> {
  if (!parts) return item;
  if (parts.count) {
    const last = names.at(-1)!;
    const key = Object.fromEntries(names.map((name) => [name, item[name]]));
    const ends = Array.from({ length: parts.count }, (_, number) => `${item[last]}#larder#${parts.version}#${number}`);
    const chunks = await Promise.all(ends.map((end) => get({ ...key, [last]: end })));
    const joined = Buffer.concat(chunks.map((chunk) => chunk?.larder_chunk ?? Buffer.of()));
    if (crc32(joined) !== parts.checksum) return undefined;
    item = { ...unpacked(joined), ...item };
  } else if (!item.larder_packed) return undefined;
  const { larder_packed: packed, ...rest } = item;
  return packed ? { ...unpacked(gunzipSync(packed)), ...rest } : rest;
}

/** Attributes of bytes: a version, their size, and names with tagged values. */
function unpacked(bytes: Buffer): Item {
  let at = 1;
  const take = (length: number) => bytes.subarray(at, (at += length));
  const byte = () => take(1).readUInt8();
  const size = (first = byte()): number => (first < 128 ? first : (first & 127) | (size() << 7));
  const text = () => take(size()).toString();
  const number = () => Number(text()); // what is beyond 2⁵³ loses digits
  const binary = () => Uint8Array.from(take(size()));
  const many = <T>(of: () => T) => Array.from({ length: size() }, () => of());
  const set = (of: () => unknown) => () => new Set(many(of));
  const members = (): Item => Object.fromEntries(many(() => [text(), value()]));
  const value = (): unknown => {
    const tag = byte();
    take(tag > 6 ? 4 : 0);
    const list = () => many(value);
    return [text, number, binary, () => false, () => true, () => null, set(text), set(number), set(binary), list, members][tag - 1]!();
  };
  size();
  return members();
}

/** Whether a stored item may be given: always, if there is nothing better, or not. `ttl` is the table's, and `stale` so many seconds. */
export function freshness(item: Item, now: Date, ttl = "ttl", stale = 0): "fresh" | "stale" | "gone" {
  const until = item.larder_fresh_until ?? item[ttl];
  const past = Number.isInteger(until) ? Math.floor(now.getTime() / 1000) - until : 0;
  if (item.larder_absent || past > stale) return "gone";
  return past > 0 ? "stale" : "fresh";
}
