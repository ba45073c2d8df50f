// Values: what JavaScript has for the types of a schema, and the form in which they cross to the layer.
//
// int: number, or bigint beyond 2^53. decimal: number where a double holds it exactly, otherwise its digits as a string.
// instant, epoch: Date; a moment that is finer than a millisecond is a `Moment`, a Date that knows all its digits and is written
// back with them. duration: milliseconds. date, datetime: string. bytes: Uint8Array. set: Set. map: object, or Map when
// written. What is not of its type, in a record that is kept with its faults, is an `Odd`. In a document a number that no
// double holds is an `Exact`.
"use strict";

const ODD = "\0odd";
const EXACT = "\0exact";

/** A moment finer than a Date can tell. `exact` has all its digits, while the Date is not changed. */
class Moment extends Date {
  #exact;
  #millis;

  constructor(exact) {
    super(exact);
    this.#exact = exact;
    this.#millis = this.getTime();
  }

  get exact() {
    return this.getTime() === this.#millis ? this.#exact : this.toISOString();
  }
}

/** Something that is not of the type that the schema asks for, as it came. */
class Odd {
  constructor(value) {
    this.value = value;
  }

  toJSON() {
    return this.value;
  }
}

/** A number in a document that no double holds: all its digits, which are written back. */
class Exact {
  constructor(digits) {
    const [, whole, fraction = "", exponent = "0"] = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(digits) ?? [];
    if (whole === undefined) throw new TypeError(`${JSON.stringify(digits)} is no number: give its digits, such as "0.5"`);
    const significant = (whole + fraction).replace(/^0+/, "");
    const magnitude = significant.length - fraction.length - 1 + Number(exponent);
    if (significant.replace(/0+$/, "").length > 38 || (significant !== "" && (magnitude > 125 || magnitude < -130))) {
      throw new RangeError(`${digits} has more than 38 digits, or is not between 1e-130 and 1e126: no store can hold it`);
    }
    this.digits = digits;
    Object.freeze(this);
  }

  /** The nearest double. */
  valueOf() {
    return Number(this.digits);
  }

  toString() {
    return this.digits;
  }

  toJSON() {
    return this.digits;
  }
}

/** What a value of a kind becomes that was read. `null`: what it is already. */
function decoder(kind, types) {
  if (kind === "json") return restored;
  const plain = decoderOf(kind, types);
  return (value) => {
    if (typeof value === "object" && value !== null && ODD in value) return new Odd(restored(value[ODD]));
    return plain === null ? value : plain(value);
  };
}

function decoderOf(kind, types) {
  switch (kind) {
    case "text":
    case "float":
    case "decimal":
    case "bool":
    case "duration":
      return null;
    case "int":
      return (value) => (typeof value === "string" ? BigInt(value) : value);
    case "instant":
      // 2026-01-15T10:00:00.000Z
      return (text) => (text.length > 24 ? new Moment(text) : new Date(text));
    case "bytes":
      return (text) => new Uint8Array(Buffer.from(text, "base64"));
  }
  if (kind.list !== undefined) {
    const member = decoder(kind.list, types);
    return member === null ? null : (list) => list.map(member);
  }
  if (kind.set !== undefined) {
    const member = decoder(kind.set, types);
    return (list) => new Set(list.map(member));
  }
  if (kind.map !== undefined) {
    const member = decoder(kind.map, types);
    if (member === null) return null;
    return (map) => {
      for (const name of Object.keys(map)) map[name] = member(map[name]);
      return map;
    };
  }
  // By name when it is needed: a type may hold itself.
  return (members) => {
    const decoders = types[kind.type].decoders();
    for (const name of Object.keys(members)) {
      const decode = decoders[name] ?? restored;
      members[name] = decode(members[name]);
    }
    return members;
  };
}

/** A document that was read, with its numbers. */
function restored(value) {
  if (typeof value !== "object" || value === null) return value;
  if (Object.hasOwn(value, EXACT)) {
    if (typeof value[EXACT] === "string") return new Exact(value[EXACT]);
    value = value[EXACT];
  }
  for (const name of Object.keys(value)) {
    const member = value[name];
    if (typeof member === "object" && member !== null) value[name] = restored(member);
  }
  return value;
}

/** What crosses to the layer for a value of a kind. What is not of the kind crosses as odd, and is told by the layer. */
function encode(kind, value, types, path) {
  if (value instanceof Odd) return { [ODD]: document(value.value, path) };
  switch (kind) {
    case "json":
      return document(value, path);
    case "text":
      return typeof value === "string" ? value : odd(value, path);
    case "bool":
      return typeof value === "boolean" ? value : odd(value, path);
    case "int":
      if (typeof value === "bigint") return value.toString();
      // Beyond 2^53 nobody knows which whole number was meant.
      if (Number.isInteger(value) && !Number.isSafeInteger(value)) return { [ODD]: String(value) };
      return Number.isFinite(value) ? value : odd(value, path);
    case "float":
      if (typeof value === "bigint") return value.toString();
      return Number.isFinite(value) ? numeral(value) : odd(value, path);
    case "decimal":
      if (typeof value === "bigint") return value.toString();
      if (typeof value === "string") return value;
      return Number.isFinite(value) ? numeral(value) : odd(value, path);
    case "duration":
      return Number.isFinite(value) || typeof value === "string" ? value : odd(value, path);
    case "instant":
      if (value instanceof Moment) return value.exact;
      if (value instanceof Date) return Number.isNaN(value.getTime()) ? odd("Invalid Date", path) : value.toISOString();
      return typeof value === "string" ? value : odd(value, path);
    case "bytes":
      if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64");
      return odd(value, path);
  }
  if (kind.list !== undefined || kind.set !== undefined) {
    const member = kind.list ?? kind.set;
    if (!Array.isArray(value) && !(value instanceof Set)) return odd(value, path);
    return Array.from(value, (one, at) => encode(member, one, types, `${path}[${at}]`));
  }
  if (!isObject(value) && !(value instanceof Map)) return odd(value, path);
  const entries = value instanceof Map ? value : Object.entries(value);
  const crossed = Object.create(null);
  if (kind.map !== undefined) {
    for (const [name, one] of entries) {
      if (one !== undefined) crossed[name] = encode(kind.map, one, types, `${path}[${JSON.stringify(name)}]`);
    }
    return crossed;
  }
  const { fields } = types[kind.type];
  for (const [name, one] of entries) {
    if (one === undefined || one === null) continue;
    crossed[name] = encode(Object.hasOwn(fields, name) ? fields[name] : "json", one, types, `${path}.${name}`);
  }
  return crossed;
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A number as it crosses: by its digits where the layer's reader of JSON might miss the double by one in its last place. */
function numeral(value) {
  return Number.isSafeInteger(value) ? value : String(value);
}

function odd(value, path) {
  if (value === undefined || typeof value === "function" || typeof value === "symbol") {
    throw new TypeError(`\`${path}\` is ${typeof value}, which nothing can be kept as`);
  }
  if (typeof value === "bigint") return { [ODD]: value.toString() };
  if (typeof value === "number" && !Number.isFinite(value)) return { [ODD]: String(value) };
  return { [ODD]: document(value, path) };
}

/** A document: what JSON holds. What it would lose is refused. */
function document(value, path) {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      if (value === 0 || (Math.abs(value) >= 1e-130 && Math.abs(value) < 1e126)) {
        return Number.isSafeInteger(value) ? value : { [EXACT]: numeral(value) };
      }
      throw new TypeError(`\`${path}\` is ${value}, which a document cannot hold`);
    case "object":
      break;
    default:
      throw new TypeError(`\`${path}\` is a ${typeof value}, which a document cannot hold`);
  }
  if (value === null) return null;
  if (value instanceof Exact) return { [EXACT]: value.digits };
  if (typeof value.toJSON === "function") return document(value.toJSON(), path);
  if (Array.isArray(value)) return value.map((one, at) => (one === undefined ? null : document(one, `${path}[${at}]`)));
  if (value instanceof Set || value instanceof Map || ArrayBuffer.isView(value)) {
    throw new TypeError(`\`${path}\` is a ${value.constructor.name}, which a document cannot hold: give a list or an object`);
  }
  const crossed = Object.create(null);
  for (const [name, one] of Object.entries(value)) {
    if (one !== undefined) crossed[name] = document(one, `${path}.${name}`);
  }
  return EXACT in crossed ? { [EXACT]: crossed } : crossed;
}

/** The named types of a schema, by which others are read and written. */
function typesOf(described) {
  const types = Object.create(null);
  for (const [name, fields] of Object.entries(described)) {
    let decoders;
    types[name] = {
      fields,
      decoders: () =>
        (decoders ??= Object.assign(
          Object.create(null),
          Object.fromEntries(Object.entries(fields).map(([field, kind]) => [field, decoder(kind, types)])),
        )),
    };
  }
  return types;
}

/** A duration in milliseconds: a number of them, or a text such as 90m. */
function millis(duration) {
  if (typeof duration === "number" && duration >= 0 && Number.isFinite(duration)) return duration;
  const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
  const [, number, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(duration) ?? [];
  if (unit === undefined) throw new TypeError(`${JSON.stringify(duration)} is no duration: give milliseconds, or a text such as "90m"`);
  return Number(number) * units[unit];
}

module.exports = { Exact, Moment, Odd, decoder, encode, millis, typesOf };
