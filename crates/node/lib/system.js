// Systems, and what is in them: entities, lifecycles, collections.
"use strict";

const { inspect } = require("node:util");
const { writeSync } = require("node:fs");
const { resolve } = require("node:path");

const { asThrown, bridge, call, callNow, fetch, keep, leases } = require("./bridge.js");
const { errorOf } = require("./errors.js");
const { flush } = require("./log.js");
const { decoder, encode, millis, typesOf } = require("./values.js");

/** Records that an iterator asks for at once. */
const AT_ONCE = 100;

/** What was let go of without being ended is let go of by the layer too. */
const handles = new FinalizationRegistry((id) => {
  leases.delete(id);
  bridge.dropHandle(id);
});

// ---------------------------------------------------------------------------------------------------------------- stores

/** Where tables are: a directory, memory, DynamoDB. */
class Store {
  #id;

  /** Opens "./data", "memory:", "dynamodb:" or "dynamodb:http://HOST:PORT"; without an address what LARDER_STORE says. */
  static async open(address) {
    return new Store(await call("openStore", { address }));
  }

  constructor(id) {
    this.#id = id;
    this.clock = new Clock(id);
    this.faults = new Faults(id);
    handles.register(this, id, this);
  }

  get id() {
    if (this.#id === undefined) throw errorOf({ kind: "not_allowed", message: "the store is closed" });
    return this.#id;
  }

  /** How often an operation such as "GetItem", or any, was asked for. */
  requests(operation) {
    return callNow("requests", { store: this.id, operation });
  }

  toString() {
    return callNow("place", { store: this.id });
  }

  /** Lets go of it. Systems that are open on it go on. */
  close() {
    if (this.#id === undefined) return;
    handles.unregister(this);
    bridge.dropHandle(this.#id);
    this.#id = undefined;
  }

  [Symbol.dispose ?? Symbol.for("dispose")]() {
    this.close();
  }
}

/** What time it is for a store. Tests stop it and move it. */
class Clock {
  #store;

  constructor(store) {
    this.#store = store;
  }

  now() {
    return new Date(callNow("now", { store: this.#store }));
  }

  stop() {
    callNow("clock", { store: this.#store, do: "stop" });
  }

  advance(duration) {
    callNow("clock", { store: this.#store, do: "advance", millis: millis(duration) });
  }
}

/** How a store fails, for tests. */
class Faults {
  #store;

  constructor(store) {
    this.#store = store;
  }

  #do(what, more = {}) {
    callNow("faults", { store: this.#store, do: what, ...more });
    return this;
  }

  down() {
    return this.#do("down");
  }
  up() {
    return this.#do("up");
  }
  reset() {
    return this.#do("reset");
  }
  seed(seed) {
    return this.#do("seed", { seed });
  }
  throttle(probability) {
    return this.#do("throttle", { probability });
  }
  fail(probability) {
    return this.#do("fail", { probability });
  }
  loseAnswers(probability) {
    return this.#do("loseAnswers", { probability });
  }
  delay(probability, by) {
    return this.#do("delay", { probability, millis: millis(by) });
  }
  failNext(count, fault) {
    return this.#do("failNext", { count, fault });
  }
  only(...operations) {
    return this.#do("only", { operations });
  }
}

// --------------------------------------------------------------------------------------------------------------- systems

/** Systems that have not been closed: at the end of the process, what they write behind is waited for. */
const opened = new Set();

process.on("exit", () => {
  for (const system of opened) {
    const drained = JSON.parse(bridge.drainNow(system.id));
    bridge.dropHandle(system.id);
    if (drained.waiting + drained.lost === 0) continue;
    const which = drained.unwritten.map(({ entity, key, reason }) => `${entity} ${key}: ${reason}`);
    writeSync(2, `larder: ${drained.waiting + drained.lost} writes behind were not written: ${which.join("; ")}\n`);
    process.exitCode ||= 1;
  }
  flush();
});

/** Opens the system of a schema's file. */
async function open(schema, options = {}) {
  const own = !(options.store instanceof Store);
  const store = own ? await Store.open(options.store) : options.store;
  try {
    const found = await call("open", { store: store.id, schema: resolve(schema), environment: options.environment });
    return new System(found, store, own);
  } catch (error) {
    if (own) store.close();
    throw error;
  }
}

class System {
  #id;
  #own;
  #entities = new Map();
  #collections = new Map();

  constructor({ id, schema }, store, own) {
    this.#id = id;
    this.#own = own;
    this.store = store;
    this.name = schema.system;
    const types = typesOf(schema.types);
    for (const [name, described] of Object.entries(schema.entities)) {
      const shelf = new Shelf(this, name, described, types);
      this.#entities.set(name, shelf);
      // A method of this name stays; the entity is had by `entity`.
      if (!(name in this)) Object.defineProperty(this, name, { value: shelf, enumerable: true });
    }
    for (const [name, described] of Object.entries(schema.collections)) {
      const collection = new Collection(this, name, described, this.#entities);
      this.#collections.set(name, collection);
      if (!(name in this)) Object.defineProperty(this, name, { value: collection, enumerable: true });
    }
    opened.add(this);
  }

  get id() {
    return this.#id;
  }

  entity(name) {
    return known(this.#entities, name, "entity", this.name);
  }

  collection(name) {
    return known(this.#collections, name, "collection", this.name);
  }

  get entities() {
    return [...this.#entities.keys()];
  }

  /** Several writes, all of which happen or none. */
  transaction() {
    return new Transaction(this);
  }

  now() {
    return this.store.clock.now();
  }

  /** Makes the tables and indexes that are missing. An embedded store has done that when a system is opened. */
  async provision() {
    await call("provision", { system: this.#id });
  }

  /** Waits for what is written behind, at most so long, and says what was not written. */
  drain(deadline = "10s", { signal } = {}) {
    return call("drain", { system: this.#id, millis: millis(deadline) }, signal);
  }

  /** Waits for what is written behind as long as the schema's `drain` says, and lets go of the store that it opened. */
  async close() {
    if (!opened.delete(this)) return { written: 0, waiting: 0, lost: 0, unwritten: [] };
    try {
      return await call("close", { system: this.#id });
    } finally {
      bridge.dropHandle(this.#id);
      if (this.#own) this.store.close();
    }
  }

  async [Symbol.asyncDispose]() {
    const { waiting, lost, unwritten } = await this.close();
    if (waiting + lost === 0) return;
    const which = unwritten.map(({ entity, key, reason }) => `${entity} ${key}: ${reason}`).join("; ");
    throw errorOf({ kind: "store", message: `${waiting + lost} writes behind were not written: ${which}`, transient: true });
  }

  /** What was counted, as Prometheus reads it. */
  metrics() {
    return callNow("prometheus", { system: this.#id });
  }

  [inspect.custom]() {
    return `System(${this.name})`;
  }
}

function known(all, name, what, of) {
  const found = all.get(name);
  if (found) return found;
  const names = [...all.keys()].join(", ") || "none";
  throw errorOf({ kind: "not_allowed", message: `${of} has no ${what} \`${name}\`; it has ${names}` });
}

// -------------------------------------------------------------------------------------------------------------- entities

const isObject = (value) =>
  typeof value === "object" && value !== null && !(value instanceof Date) && !ArrayBuffer.isView(value);

/** The records of one entity. */
class Shelf {
  #system;
  #decoders;
  #fields;
  #types;
  #described;
  #shown;

  constructor(system, name, described, types) {
    this.#system = system;
    this.#described = described;
    this.#fields = Object.assign(Object.create(null), described.fields);
    this.#types = types;
    this.#decoders = Object.entries(described.fields).flatMap(([field, { kind }]) => {
      const decode = decoder(kind, types);
      return decode === null ? [] : [[field, decode]];
    });
    const secrets = Object.keys(described.fields).filter((field) => described.fields[field].secret);
    if (secrets.length > 0) this.#shown = shownWithout(secrets);
    this.name = name;
  }

  /** The record of a key, from L1, the store or the source: the loader is called when neither has it. */
  async fetch(key, load, { signal } = {}) {
    if (typeof load !== "function") throw new TypeError("a fetch needs a loader: fetch(key, async (key) => ({ … }))");
    const loader = {
      load: async (asked, known) => loaded(await load(this.#asked(asked), known), (fields) => this.encodeFields(fields, true)),
      failed: failedBy,
    };
    try {
      return this.decode(await fetch(this.#system.id, this.name, JSON.stringify(this.encodeKey(key)), loader, signal));
    } catch (error) {
      throw asThrown(error);
    }
  }

  /** A key as a loader gets it: its one field, or an object. */
  #asked(key) {
    const read = this.decodeFields(key);
    const { key: names } = this.#described;
    return names.length === 1 ? read[names[0]] : read;
  }

  async get(key, { signal } = {}) {
    const found = await call("get", this.args({ key: this.encodeKey(key) }), signal);
    return found === null ? undefined : this.decode(found);
  }

  /** Cache-aside: `{ hit }`, or `{ miss, error }` with why there is nothing. */
  async look(key, { signal } = {}) {
    const { hit, miss, error } = await call("look", this.args({ key: this.encodeKey(key) }), signal);
    if (hit) return { hit: this.decode(hit) };
    return error ? { miss, error: errorOf(error) } : { miss };
  }

  async create(fields, { signal } = {}) {
    const partial = fields?.$?.partial;
    return this.decode(await call("create", this.args({ fields: this.encodeFields(fields, false), partial }), signal));
  }

  async put(record, { signal, version } = {}) {
    const put = await call("put", this.args(this.encodeDraft(record, version)), signal);
    const about = { changed: put.changed };
    if (put.storeError) about.storeError = put.storeError;
    Object.assign(put.record[1], about);
    return this.decode(put.record);
  }

  /** Checks a record and writes it after this is answered: see `System.drain`. */
  async putBehind(record) {
    return this.decode(await call("putBehind", this.args(this.encodeDraft(record))));
  }

  async update(key, changes, { signal, version } = {}) {
    const encoded = { ...this.encodeChanges(changes), version };
    return this.decode(await call("update", this.args({ key: this.encodeKey(key), changes: encoded }), signal));
  }

  /** The record that was removed, if there was one. */
  async delete(key, { signal } = {}) {
    const removed = await call("delete", this.args({ key: this.encodeKey(key) }), signal);
    return removed === null ? undefined : this.decode(removed);
  }

  /** Makes a key a miss. */
  async forget(key, { signal } = {}) {
    await call("forget", this.args({ key: this.encodeKey(key) }), signal);
  }

  /** The number that `create` would take. */
  nextSequence(fields, { signal } = {}) {
    return call("nextSequence", this.args({ fields: this.encodeFields(fields, true) }), signal);
  }

  /** For each key its record, `undefined`, or the error it failed with. */
  async getMany(keys, { signal } = {}) {
    const found = await call("getMany", this.args({ keys: Array.from(keys, (key) => this.encodeKey(key)) }), signal);
    return found.map(({ value, error }) => (error ? errorOf(error) : value ? this.decode(value) : undefined));
  }

  /** For each draft the record, or the error it failed with. */
  async putMany(drafts, { signal } = {}) {
    const encoded = Array.from(drafts, (draft) => this.encodeDraft(draft));
    const put = await call("putMany", this.args({ drafts: encoded }), signal);
    return put.map(({ value, error }) => (error ? errorOf(error) : this.decode(value)));
  }

  /** For each key `undefined`, or the error it failed with. */
  async deleteMany(keys, { signal } = {}) {
    const deleted = await call("deleteMany", this.args({ keys: Array.from(keys, (key) => this.encodeKey(key)) }), signal);
    return deleted.map(({ error }) => (error ? errorOf(error) : undefined));
  }

  /** The records of a partition of an index. */
  query(index, partition, options = {}) {
    const access = Object.hasOwn(this.#described.indexes, index) ? this.#described.indexes[index] : undefined;
    return new Listing(this, "query", { index, ...this.#asking(access, partition, options) }, options);
  }

  /** The records of a partition of the table itself. */
  within(partition, options = {}) {
    return new Listing(this, "query", this.#asking(this.#described.table, partition, options), options);
  }

  /** All records of the entity, where the schema allows that to be asked. */
  scan(options = {}) {
    const { atAnyPrice, evenExpired, consistent, strict } = options;
    return new Listing(this, "scan", { atAnyPrice, evenExpired, consistent, strict }, options);
  }

  #asking(access, partition, options) {
    const names = access?.partition ?? [];
    const bound = (name) => {
      if (options[name] === undefined) return undefined;
      return encode(access?.sort ?? "text", options[name], this.#types, name);
    };
    const { beginsWith, newestFirst, evenExpired, consistent, strict } = options;
    return {
      partition: this.encodeNamed(names, partition),
      at: bound("at"),
      from: bound("from"),
      until: bound("until"),
      beginsWith,
      newestFirst,
      evenExpired,
      consistent,
      strict,
    };
  }

  /** What would be removed, and its price: `await (await shelf.invalidate({ by, label })).run()` removes it. */
  async invalidate({ by = {}, label } = {}, { signal } = {}) {
    return new Plan(await call("plan", this.args({ by: this.encodeFields(by, false), label }), signal));
  }

  /** The same of what has expired and is still there. */
  async sweep({ signal } = {}) {
    return new Plan(await call("plan", this.args({ sweep: true }), signal));
  }

  stats() {
    return callNow("stats", this.args());
  }

  lifecycle(name) {
    const lifecycles = new Map(Object.entries(this.#described.lifecycles));
    return new Lifecycle(this, name, known(lifecycles, name, "lifecycle", this.name));
  }

  [inspect.custom]() {
    return `Shelf(${this.#system.name}.${this.name})`;
  }

  // What follows is for this package.

  get system() {
    return this.#system;
  }

  args(more) {
    return { system: this.#system.id, entity: this.name, ...more };
  }

  encodeKey(key) {
    const { key: names } = this.#described;
    if (isObject(key)) {
      const encoded = {};
      for (const name of names) {
        if (key[name] !== undefined) encoded[name] = encode(this.#fields[name].kind, key[name], this.#types, name);
      }
      if (key.$ === undefined) {
        const other = Object.keys(key).find((name) => !names.includes(name));
        if (other !== undefined && Object.keys(encoded).length === names.length) {
          throw new TypeError(`\`${other}\` is not in the key of ${this.name}, which is made of ${names.join(", ")}`);
        }
        // A key may be made of other fields, from which the layer works it out.
        if (Object.keys(encoded).length < names.length) return this.encodeFields(key, false);
      }
      return encoded;
    }
    if (names.length !== 1) {
      throw new TypeError(`the key of ${this.name} is made of ${names.join(", ")}: give an object with them`);
    }
    return { [names[0]]: encode(this.#fields[names[0]].kind, key, this.#types, names[0]) };
  }

  /** `lenient`: what the layer works out is left out. */
  encodeFields(fields, lenient) {
    if (!isObject(fields)) throw new TypeError(`the fields of ${this.name} are given as an object`);
    const encoded = {};
    for (const [name, value] of Object.entries(fields)) {
      if (value === undefined || value === null) continue;
      const field = this.#fields[name];
      if (lenient && field?.given === false) continue;
      encoded[name] = encode(field?.kind ?? "json", value, this.#types, name);
    }
    return encoded;
  }

  encodeDraft(record, version = record?.$?.version) {
    return { fields: this.encodeFields(record, true), version, partial: record?.$?.partial };
  }

  encodeChanges({ set = {}, add = {}, append = {}, insert = {}, remove = {}, insertAt = {}, removeAt = {}, clear = [] }) {
    const kind = (name) => this.#fields[name]?.kind ?? "json";
    const member = (name) => kind(name).list ?? kind(name).set ?? kind(name).map ?? "json";
    const each = (changes, encodeOne) =>
      Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined).map(([name, value]) => [name, encodeOne(name, value)]));
    const members = (name, values) => Array.from(values, (value, at) => encode(member(name), value, this.#types, `${name}[${at}]`));
    const cleared = Object.keys(set).filter((name) => set[name] === null);
    return {
      set: each(Object.fromEntries(Object.entries(set).filter(([, value]) => value !== null)), (name, value) => encode(kind(name), value, this.#types, name)),
      add: each(add, (name, value) => (typeof value === "bigint" || typeof value === "number" ? String(value) : value)),
      append: each(append, members),
      insert: each(insert, members),
      remove: each(remove, members),
      insertAt: each(insertAt, (name, entries) => {
        const all = entries instanceof Map ? [...entries] : Object.entries(entries);
        return Object.fromEntries(all.map(([at, value]) => [at, encode(member(name), value, this.#types, `${name}[${JSON.stringify(at)}]`)]));
      }),
      removeAt: each(removeAt, (_, names) => [...names]),
      clear: [...clear, ...cleared],
    };
  }

  /** The fields that name a partition or a group: one value, or an object of them. */
  encodeNamed(names, given) {
    const values = isObject(given) ? given : names.length === 1 ? { [names[0].name]: given } : {};
    const encoded = {};
    for (const [name, value] of Object.entries(values)) {
      const kind = names.find((one) => one.name === name)?.kind ?? "json";
      if (value !== undefined) encoded[name] = encode(kind, value, this.#types, name);
    }
    return encoded;
  }

  decodeFields(fields) {
    for (const [name, decode] of this.#decoders) {
      const value = fields[name];
      if (value !== undefined) fields[name] = decode(value);
    }
    return fields;
  }

  decode([fields, about]) {
    const record = this.decodeFields(fields);
    Object.defineProperty(record, "$", { value: aboutOf(about) });
    if (this.#shown) Object.defineProperty(record, inspect.custom, { value: this.#shown });
    return record;
  }
}

/** How the console shows a record: without its secrets. */
function shownWithout(secrets) {
  return function (_depth, options) {
    const shown = { ...this };
    for (const name of secrets) if (name in shown) shown[name] = "(a secret)";
    return inspect(shown, options);
  };
}

/** What is known of a record besides its fields. */
function aboutOf(about) {
  for (const name of ["expires", "removed", "storedAt"]) {
    if (about[name] !== undefined) about[name] = new Date(about[name]);
  }
  if (about.storeError !== undefined) about.storeError = errorOf(about.storeError);
  return Object.freeze(about);
}

// --------------------------------------------------------------------------------------------------------------- loaders

const NOT_MODIFIED = Symbol("not modified");
const permanents = new WeakSet();

/** What a loader returns when what is kept is still right. */
const notModified = () => NOT_MODIFIED;

/** What a loader returns to say more than the value: `etag`, `lastModified`, `ttl`. */
class Loaded {
  constructor(value, { etag, lastModified, ttl } = {}) {
    Object.assign(this, { value, etag, lastModified, ttl });
  }
}

/** Marks an error that trying again does not mend: `throw permanent(new Error("404"))`. */
function permanent(error) {
  if (typeof error === "object" && error !== null) permanents.add(error);
  return error;
}

function loaded(given, encodeValue) {
  const { value, etag, lastModified, ttl } = given instanceof Loaded ? given : { value: given };
  const more = { etag, lastModified: lastModified instanceof Date ? lastModified.toUTCString() : lastModified };
  if (ttl !== undefined) more.ttl = millis(ttl);
  if (value === NOT_MODIFIED) return { notModified: true, ...more };
  if (value === undefined || value === null) return { value: null, ...more };
  return { value: encodeValue(value), ...more };
}

/** What was thrown, as a text, whatever it is. */
function messageOf(error) {
  try {
    return String(error instanceof Error ? error.message : error);
  } catch {
    return "something was thrown that has no text";
  }
}

function failedBy(error) {
  return { failed: messageOf(error), permanent: typeof error === "object" && error !== null && permanents.has(error) };
}

// --------------------------------------------------------------------------------------------------------------- queries

/** Records in an order: `for await`, in pages, or all of them. */
class Listing {
  #shelf;
  #operation;
  #asked;
  #limit;
  #signal;
  #cursor;

  constructor(shelf, operation, asked, { limit, signal, cursor }) {
    this.#shelf = shelf;
    this.#operation = operation;
    this.#asked = asked;
    this.#limit = limit;
    this.#signal = signal;
    this.#cursor = cursor;
  }

  async #read(limit, cursor) {
    const args = this.#shelf.args({ ...this.#asked, limit, cursor });
    const page = await call(this.#operation, args, this.#signal);
    page.items = page.items.map((item) => this.#shelf.decode(item));
    page.cursor ??= undefined;
    return page;
  }

  /** The first records, up to the limit, and the cursor of the next page, if there is one. */
  page(cursor = this.#cursor) {
    return this.#read(this.#limit, cursor);
  }

  async *[Symbol.asyncIterator]() {
    let cursor = this.#cursor;
    let left = this.#limit ?? Infinity;
    while (left > 0) {
      const page = await this.#read(Math.min(left, AT_ONCE), cursor);
      yield* page.items;
      left -= page.items.length;
      cursor = page.cursor;
      if (cursor === undefined) return;
    }
  }

  async all() {
    const all = [];
    for await (const record of this) all.push(record);
    return all;
  }

  async first() {
    for await (const record of this) return record;
    return undefined;
  }

  count() {
    if (this.#operation !== "query") return this.all().then((all) => all.length);
    return call("count", this.#shelf.args({ ...this.#asked, limit: this.#limit }), this.#signal);
  }
}

/** What an invalidation would remove. */
class Plan {
  #id;
  #text;

  constructor({ id, text, ...described }) {
    this.#id = id;
    this.#text = text;
    Object.assign(this, described);
    handles.register(this, id);
  }

  run({ signal } = {}) {
    return call("runPlan", { plan: this.#id }, signal);
  }

  toString() {
    return this.#text;
  }
}

// ---------------------------------------------------------------------------------------------------------- transactions

class Transaction {
  #system;
  #steps = [];

  constructor(system) {
    this.#system = system;
  }

  #step(entity, step) {
    const shelf = this.#system.entity(entity);
    this.#steps.push({ entity, ...step(shelf) });
    return this;
  }

  create(entity, fields) {
    return this.#step(entity, (shelf) => ({ do: "create", fields: shelf.encodeFields(fields, false), partial: fields?.$?.partial }));
  }
  put(entity, record) {
    return this.#step(entity, (shelf) => ({ do: "put", ...shelf.encodeDraft(record) }));
  }
  update(entity, key, changes, { version } = {}) {
    return this.#step(entity, (shelf) => ({
      do: "update",
      key: shelf.encodeKey(key),
      changes: { ...shelf.encodeChanges(changes), version },
    }));
  }
  delete(entity, key) {
    return this.#step(entity, (shelf) => ({ do: "delete", key: shelf.encodeKey(key) }));
  }
  /** It must be there. */
  check(entity, key) {
    return this.#step(entity, (shelf) => ({ do: "check", key: shelf.encodeKey(key) }));
  }
  /** It must not be there. */
  checkAbsent(entity, key) {
    return this.#step(entity, (shelf) => ({ do: "checkAbsent", key: shelf.encodeKey(key) }));
  }

  async run({ token, signal } = {}) {
    await call("transaction", { system: this.#system.id, steps: this.#steps, token }, signal);
  }
}

// ----------------------------------------------------------------------------------------------------------- collections

/** Several entities that are kept in one partition, and written and read as one. */
class Collection {
  #system;
  #entities;
  #described;

  constructor(system, name, described, entities) {
    this.#system = system;
    this.#described = described;
    this.#entities = entities;
    this.name = name;
  }

  #args(more) {
    return { system: this.#system.id, collection: this.name, ...more };
  }

  #key(key) {
    const shelf = this.#entities.get(this.#described.members[0]);
    const names = this.#described.key;
    return shelf.encodeFields(isObject(key) ? key : { [names[0]]: key }, false);
  }

  #encode(members) {
    const encoded = {};
    for (const [entity, records] of Object.entries(members)) {
      if (!this.#described.members.includes(entity)) {
        const message = `${entity} is not in ${this.name}, which holds ${this.#described.members.join(", ")}`;
        throw errorOf({ kind: "not_allowed", message });
      }
      const shelf = this.#entities.get(entity);
      encoded[entity] = Array.from(records, (record) => {
        if (!record?.$?.partial) return shelf.encodeFields(record, true);
        throw errorOf({ kind: "not_allowed", message: `this ${entity} is the part that an index shows: read it by its key` });
      });
    }
    return encoded;
  }

  #decode(members) {
    const decoded = {};
    for (const entity of this.#described.members) {
      const shelf = this.#entities.get(entity);
      decoded[entity] = (members[entity] ?? []).map((entry) => shelf.decode(entry));
    }
    return decoded;
  }

  async put(members, { signal } = {}) {
    await call("collectionPut", this.#args({ members: this.#encode(members) }), signal);
  }

  async get(key, { signal } = {}) {
    const members = await call("collectionGet", this.#args({ key: this.#key(key) }), signal);
    return members === null ? undefined : this.#decode(members);
  }

  async fetch(key, load, { signal } = {}) {
    const loader = keep({
      load: async (asked, known) => {
        const shelf = this.#entities.get(this.#described.members[0]);
        const read = shelf.decodeFields(asked);
        const names = this.#described.key;
        return loaded(await load(names.length === 1 ? read[names[0]] : read, known), (members) => this.#encode(members));
      },
      failed: failedBy,
    });
    try {
      const [members, about] = await call("collectionFetch", this.#args({ key: this.#key(key), loader }), signal);
      const decoded = this.#decode(members);
      Object.defineProperty(decoded, "$", { value: aboutOf(about) });
      return decoded;
    } catch (error) {
      throw asThrown(error);
    }
  }

  /** How many were removed. */
  delete(key, { signal } = {}) {
    return call("collectionDelete", this.#args({ key: this.#key(key) }), signal);
  }
}

// ------------------------------------------------------------------------------------------------------------ lifecycles

class Lifecycle {
  #shelf;
  #described;

  constructor(shelf, name, described) {
    this.#shelf = shelf;
    this.#described = described;
    this.name = name;
  }

  #args(more) {
    return this.#shelf.args({ lifecycle: this.name, ...more });
  }

  #group(group) {
    if (group === undefined || group === null) return [];
    const names = this.#described.group;
    const encoded = this.#shelf.encodeNamed(names, group);
    return names.filter(({ name }) => name in encoded).map(({ name }) => encoded[name]);
  }

  #params(params) {
    return params === undefined ? undefined : this.#shelf.encodeFields(params, false);
  }

  /** Makes a transition. */
  async run(key, transition, params, { signal } = {}) {
    const args = this.#args({ key: this.#shelf.encodeKey(key), transition, params: this.#params(params) });
    return this.#shelf.decode(await call("transition", args, signal));
  }

  #standing(standing) {
    const { record, since, until, owner, ...rest } = standing;
    return {
      record: this.#shelf.decode(record),
      since: since === null ? undefined : new Date(since),
      until: until === null ? undefined : new Date(until),
      owner: owner ?? undefined,
      ...rest,
    };
  }

  /** Where a record stands. */
  async standing(key, { signal } = {}) {
    const standing = await call("standing", this.#args({ key: this.#shelf.encodeKey(key) }), signal);
    return standing === null ? undefined : this.#standing(standing);
  }

  async #list(which, group, { olderThan, newestFirst, limit, strict, signal, ...more } = {}) {
    const args = this.#args({
      which,
      group,
      olderThan: olderThan === undefined ? undefined : millis(olderThan),
      newestFirst,
      limit,
      strict,
      ...more,
    });
    const { items } = await call("list", args, signal);
    return items.map((standing) => this.#standing(standing));
  }

  /** What a claim would take, in that order. */
  due(group, options) {
    return this.#list("due", this.#group(group), options);
  }
  /** What is held by a lease that ran out. */
  stuck(group, options) {
    return this.#list("stuck", this.#group(group), options);
  }
  inState(state, { group, ...options } = {}) {
    return this.#list("state", group === undefined ? undefined : this.#group(group), { ...options, state });
  }

  /** Takes what is stuck away from whoever held it. */
  async release(key, { signal } = {}) {
    return this.#shelf.decode(await call("releaseStuck", this.#args({ key: this.#shelf.encodeKey(key) }), signal));
  }

  /** Takes what is due, one after the other: `for await (const lease of shops.Shop.lifecycle("crawl").claim("DE"))`. */
  claim(group, { groups = [], take, olderThan, owner, params, strict, signal } = {}) {
    const args = this.#args({
      group: this.#group(group),
      groups: groups.map((one) => this.#group(one)),
      take,
      olderThan: olderThan === undefined ? undefined : millis(olderThan),
      owner,
      params: this.#params(params),
      strict,
    });
    return new Claims(this, this.#shelf, args, signal);
  }

  /** Takes one by its key. */
  async hold(key, { transition, params, signal } = {}) {
    const args = this.#args({ key: this.#shelf.encodeKey(key), transition, params: this.#params(params) });
    // What is held after an abort is given back: nobody has it.
    const late = ({ value }) => {
      if (value) call("lease", this.#shelf.args({ lease: value.id, do: "release" })).catch(() => {});
    };
    return new Lease(this, this.#shelf, await call("hold", args, signal, late));
  }
}

class Claims {
  #lifecycle;
  #shelf;
  #args;
  #signal;
  #begun;

  constructor(lifecycle, shelf, args, signal) {
    this.#lifecycle = lifecycle;
    this.#shelf = shelf;
    this.#args = args;
    this.#signal = signal;
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  async next() {
    this.#signal?.throwIfAborted();
    this.#begun ??= call("claim", this.#args).then((id) => {
      handles.register(this, id, this);
      return id;
    });
    const claims = await this.#begun;
    // An abort does not stop this one: a lease that nobody gets would be held by nobody.
    const lease = await call("claimNext", this.#shelf.args({ claims }));
    if (lease === null) {
      await this.return();
      return { done: true, value: undefined };
    }
    return { done: false, value: new Lease(this.#lifecycle, this.#shelf, lease) };
  }

  async return() {
    if (this.#begun !== undefined) {
      handles.unregister(this);
      bridge.dropHandle(await this.#begun);
    }
    return { done: true, value: undefined };
  }

  async [Symbol.asyncDispose]() {
    await this.return();
  }
}

/** Something that is held, and renewed by itself until it is finished, released or given back. */
class Lease {
  #id;
  #shelf;
  #lost = new AbortController();
  #over = false;

  constructor(_lifecycle, shelf, { id, record, fence, owner, attempts }) {
    this.#id = id;
    this.#shelf = shelf;
    this.record = shelf.decode(record);
    this.fence = fence;
    this.owner = owner;
    this.attempts = attempts;
    handles.register(this, id, this);
    // Not by `this`, which would never be let go of.
    const lost = this.#lost;
    leases.set(id, (error) => lost.abort(errorOf(error)));
  }

  /** Aborted when the lease is lost, with why. */
  get signal() {
    return this.#lost.signal;
  }

  get isLost() {
    return this.#lost.signal.aborted;
  }

  /** Whether it was finished, released or given back. */
  get isOver() {
    return this.#over;
  }

  #ask(what, more) {
    return call("lease", this.#shelf.args({ lease: this.#id, do: what, ...more }));
  }

  async #end(what, more) {
    this.#over = true;
    handles.unregister(this);
    leases.delete(this.#id);
    const record = await this.#ask(what, more);
    return record === null ? undefined : this.#shelf.decode(record);
  }

  async renew() {
    await this.#ask("renew");
  }

  /** Until when it is held if it is not renewed. */
  async until() {
    const until = await this.#ask("until");
    return until === null ? undefined : new Date(until);
  }

  /** The work is done: makes the one transition that leads on, or `finish` or `complete`. */
  finish() {
    return this.#end("finish");
  }

  /** Ends it by a transition. */
  async run(transition, params) {
    // A mistake ends nothing: it can still be finished, or released.
    if (typeof transition !== "string") throw new TypeError("a lease is ended by the name of a transition: run(\"finish\")");
    const encoded = params === undefined ? undefined : this.#shelf.encodeFields(params, false);
    return this.#end("run", { transition, params: encoded });
  }

  /** Gives it back, as if it had not been claimed. */
  release() {
    return this.#end("release");
  }

  /** The work failed: it is due again after the schema's pause, or failed for good. */
  async retry(error) {
    await this.#end("retry", { error: messageOf(error) });
  }

  /** Does the work, unless the lease is lost meanwhile: then this fails with `LeaseLostError`. */
  async work(task) {
    this.signal.throwIfAborted();
    let stop;
    const lost = new Promise((_, reject) => {
      stop = () => reject(this.signal.reason);
      this.signal.addEventListener("abort", stop, { once: true });
    });
    try {
      return await Promise.race([task(this), lost]);
    } finally {
      this.signal.removeEventListener("abort", stop);
    }
  }

  /** Released, unless it was ended or lost. */
  async [Symbol.asyncDispose]() {
    if (this.#over || this.isLost) return;
    try {
      await this.release();
    } catch (error) {
      if (error.kind !== "lease_lost") throw error;
    }
  }
}

module.exports = { Store, open, Loaded, notModified, permanent };
