/**
 * Larder: the data layer for fetched data.
 *
 * `open<Tdnet>("schemas/tdnet.larder")` is checked with the types that `larder export typescript tdnet` writes; `open(…)` without
 * them takes and gives anything.
 */

/** A number where a double holds it exactly, otherwise its digits. */
export type Decimal = number | string;

/** A document. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** What can be given as a document. */
export type JsonInput = null | boolean | number | string | object;

/** Milliseconds, or a text such as "500ms", "90m", "2d". */
export type Duration = number | string;

export interface Cancellable {
  /** Stops the waiting. What was begun goes on: a load is kept for the next who asks, a write happens or not. */
  signal?: AbortSignal;
}

/** What `larder export typescript` says of an entity. */
export interface EntityTypes {
  record: object;
  new: object;
  key: object;
  bare: unknown;
  asked: unknown;
  loaded: object;
  changes: object;
  table: AccessTypes;
  indexes: { [index: string]: AccessTypes };
  lifecycles: { [lifecycle: string]: LifecycleTypes };
}

export interface AccessTypes {
  partition: unknown;
  sort: unknown;
  record: object;
}

export interface LifecycleTypes {
  states: string;
  transitions: { [transition: string]: object };
  group: unknown;
}

export interface CollectionTypes {
  key: unknown;
  asked: unknown;
  members: { [entity: string]: object };
  new: { [entity: string]: object };
}

/** What `larder export typescript` says of a system. */
export interface SystemTypes {
  entities: { [entity: string]: EntityTypes };
  collections: { [collection: string]: CollectionTypes };
}

type Fields = { [field: string]: any };

/** An entity of which nothing is known before the program runs. */
export interface AnyEntity {
  record: Fields;
  new: Fields;
  key: Fields;
  bare: any;
  asked: any;
  loaded: Fields;
  changes: Changes;
  table: { partition: any; sort: any; record: Fields };
  indexes: { [index: string]: { partition: any; sort: any; record: Fields } };
  lifecycles: { [lifecycle: string]: { states: string; transitions: { [transition: string]: Fields }; group: any } };
}

/** A system of which nothing is known before the program runs. */
export interface AnySystem {
  entities: { [entity: string]: AnyEntity };
  collections: { [collection: string]: { key: any; asked: any; members: { [entity: string]: Fields }; new: { [entity: string]: Fields } } };
}

export interface OpenOptions {
  /** "./data", "memory:", "dynamodb:", "dynamodb:http://HOST:PORT", or a store that is open; otherwise what LARDER_STORE says. */
  store?: string | Store;
  /** Variables over those of the process, for the schema's params. */
  environment?: { [variable: string]: string };
}

/** Opens the system of a schema's file. */
export function open<S extends SystemTypes = AnySystem>(schema: string, options?: OpenOptions): Promise<System<S>>;

/** An open system, with its entities and collections by name. */
export type System<S extends SystemTypes = AnySystem> = SystemBase<S> & {
  readonly [E in keyof S["entities"]]: Shelf<S["entities"][E]>;
} & {
  readonly [C in keyof S["collections"]]: Collection<S["collections"][C]>;
};

export interface SystemBase<S extends SystemTypes> extends AsyncDisposable {
  readonly name: string;
  readonly store: Store;
  readonly entities: string[];
  /** An entity by its name, for one that is called like a method. */
  entity<E extends keyof S["entities"]>(name: E): Shelf<S["entities"][E]>;
  collection<C extends keyof S["collections"]>(name: C): Collection<S["collections"][C]>;
  /** Several writes, all of which happen or none. */
  transaction(): Transaction<S>;
  /** What time it is for the store. */
  now(): Date;
  /** Makes the tables and indexes that are missing, on a store that is not embedded. */
  provision(): Promise<void>;
  /** Waits for what is written behind, at most so long, and says what was not written. */
  drain(deadline?: Duration, options?: Cancellable): Promise<Drained>;
  /** Waits as long as the schema's `drain` says, and lets go of the store that it opened. */
  close(): Promise<Drained>;
  /** What was counted, as Prometheus reads it. */
  metrics(): string;
}

export interface Drained {
  written: number;
  waiting: number;
  lost: number;
  unwritten: { entity: string; key: string; reason: string }[];
}

/** What is known of a record besides its fields. It is not enumerated, and a copy does not have it. */
export interface About {
  readonly version?: number;
  /** It is what an index shows of a record, and not all of it: it cannot be put back. */
  readonly partial?: true;
  /** When it ends. */
  readonly expires?: Date;
  /** When the store removes it. */
  readonly removed?: Date;
  /** Of each lifecycle the state it was in. */
  readonly states?: { readonly [lifecycle: string]: string | null };
}

/** Of a record that was fetched. */
export interface AboutFetched extends About {
  readonly origin: "l1" | "store" | "source" | "stale";
  readonly staleReason?: "refreshing" | "slow_source" | "source_failed";
  readonly staleCause?: string;
  readonly storedAt: Date;
  /** In milliseconds. */
  readonly age: number;
  /** How the store failed, where the answer came without it. */
  readonly storeError?: LarderError;
}

/** Of a record that was put. */
export interface AboutPut extends About {
  /** Whether it differs from what was there. */
  readonly changed: boolean;
  readonly storeError?: LarderError;
}

export type Kept<R, A = About> = R & { readonly $: A };

/** A key: its one field, or an object with its fields. A record that was read is a key too. */
export type KeyOf<E extends EntityTypes> = E["key"] | E["bare"] | Kept<E["record"]>;

export interface Known {
  /** What the source called the version that is kept. */
  etag?: string;
  lastModified?: string;
  /** Aborted when the source's time is up. */
  signal: AbortSignal;
}

type Given<T> = T | Loaded<T> | NotModified | null | undefined;

/**
 * Calls the source. It gives the fields that are not in the key; `undefined` when there is none; `notModified()`; or `new Loaded(…)`.
 * What it throws comes back to whoever fetches, as it is.
 */
export type Loader<E extends EntityTypes> = (key: E["asked"], known: Known) => Given<E["loaded"]> | Promise<Given<E["loaded"]>>;

declare const NOT_MODIFIED: unique symbol;
export type NotModified = typeof NOT_MODIFIED;
/** What is kept is still right. */
export function notModified(): NotModified;

/** What a source gave, with more than the value. */
export class Loaded<T> {
  private readonly value: T;
  constructor(value: T | NotModified | null | undefined, more?: { etag?: string; lastModified?: string | Date; ttl?: Duration });
}

/** Marks an error that trying again does not mend: `throw permanent(new Error("404"))`. */
export function permanent<E>(error: E): E;

/** The records of one entity. */
export interface Shelf<E extends EntityTypes = AnyEntity> {
  readonly name: string;
  /** From L1, the store or the source: one load per key, however many ask. */
  fetch(key: KeyOf<E>, load: Loader<E>, options?: Cancellable): Promise<Kept<E["record"], AboutFetched>>;
  get(key: KeyOf<E>, options?: Cancellable): Promise<Kept<E["record"]> | undefined>;
  /** Cache-aside: what is kept, or why there is nothing. */
  look(key: KeyOf<E>, options?: Cancellable): Promise<Look<E["record"]>>;
  create(fields: E["new"], options?: Cancellable): Promise<Kept<E["record"]>>;
  /** A record that was read, and changed in place, does not overwrite a newer version. */
  put(record: E["new"] | Kept<E["record"]>, options?: Cancellable & { version?: number }): Promise<Kept<E["record"], AboutPut>>;
  /** Checks a record and writes it after this is answered: see `drain`. */
  putBehind(record: E["new"] | Kept<E["record"]>): Promise<Kept<E["record"]>>;
  update(key: KeyOf<E>, changes: E["changes"], options?: Cancellable & { version?: number }): Promise<Kept<E["record"]>>;
  /** Gives what was removed. */
  delete(key: KeyOf<E>, options?: Cancellable): Promise<Kept<E["record"]> | undefined>;
  /** Makes a key a miss. */
  forget(key: KeyOf<E>, options?: Cancellable): Promise<void>;
  /** The number that `create` would take. */
  nextSequence(fields: Partial<E["new"]>, options?: Cancellable): Promise<number>;
  /** One for each key: its record, `undefined`, or the error it failed with. */
  getMany(keys: Iterable<KeyOf<E>>, options?: Cancellable): Promise<(Kept<E["record"]> | undefined | LarderError)[]>;
  putMany(records: Iterable<E["new"] | Kept<E["record"]>>, options?: Cancellable): Promise<(Kept<E["record"]> | LarderError)[]>;
  deleteMany(keys: Iterable<KeyOf<E>>, options?: Cancellable): Promise<(undefined | LarderError)[]>;
  /** The records of a partition of an index. */
  query<I extends keyof E["indexes"]>(
    index: I,
    partition: E["indexes"][I]["partition"],
    options?: QueryOptions<E["indexes"][I]["sort"]>,
  ): Listing<E["indexes"][I]["record"]>;
  /** The records of a partition of the table itself. */
  within(partition: E["table"]["partition"], options?: QueryOptions<E["table"]["sort"]>): Listing<E["record"]>;
  /** All records, where the schema allows that to be asked. */
  scan(options?: ScanOptions): Listing<E["record"]>;
  /** What would be removed, and its price. `run` removes it. */
  invalidate(which: { by?: Partial<E["new"]>; label?: string }, options?: Cancellable): Promise<Plan>;
  /** The same of what has expired and is still there. */
  sweep(options?: Cancellable): Promise<Plan>;
  stats(): Stats;
  lifecycle<L extends keyof E["lifecycles"]>(name: L): Lifecycle<E, E["lifecycles"][L]>;
}

export type Look<R> =
  | { hit: Kept<R, AboutFetched>; miss?: undefined; error?: undefined }
  | { hit?: undefined; miss: "absent" | "expired" | "unreachable"; error?: LarderError };

/** The changes of an update, all in one write. */
export interface Changes {
  /** `null` removes a field that may be missing. */
  set?: Fields;
  add?: { [field: string]: number | bigint | string };
  append?: { [field: string]: readonly any[] };
  insert?: { [field: string]: Iterable<any> };
  remove?: { [field: string]: Iterable<any> };
  insertAt?: { [field: string]: { [name: string]: any } | ReadonlyMap<string, any> };
  removeAt?: { [field: string]: Iterable<string> };
  clear?: readonly string[];
}

export interface ScanOptions extends Cancellable {
  limit?: number;
  cursor?: string;
  /** Also what has expired and is still stored. */
  evenExpired?: boolean;
  consistent?: boolean;
  /** Fail at a record that cannot be read, instead of leaving it out. */
  strict?: boolean;
  /** Where the schema says `scan ask`. */
  atAnyPrice?: boolean;
}

export interface QueryOptions<S> extends Omit<ScanOptions, "atAnyPrice"> {
  at?: S;
  /** From here on, itself included. */
  from?: S;
  /** Up to here, itself included. */
  until?: S;
  beginsWith?: string;
  newestFirst?: boolean;
}

/** Records in an order. */
export interface Listing<R> extends AsyncIterable<Kept<R>> {
  page(cursor?: string): Promise<Page<R>>;
  all(): Promise<Kept<R>[]>;
  first(): Promise<Kept<R> | undefined>;
  count(): Promise<number>;
}

export interface Page<R> {
  items: Kept<R>[];
  /** Of the next page, if there may be one. */
  cursor?: string;
  /** How many were left out because they cannot be read. */
  unread: { count: number; first: { key: string; why: string } | null };
  units: number;
}

export interface Plan {
  readonly items: number;
  readonly bytes: number;
  readonly dollars: number;
  readonly exact: boolean;
  readonly scan: boolean;
  run(options?: Cancellable): Promise<{ removed: number; pages: number; dollars: number }>;
  toString(): string;
}

export interface Stats {
  hits: number;
  misses: number;
  hitRate: number;
  callsSaved: number;
  loads: number;
  loadFailures: number;
  storeErrors: number;
  writes: number;
  writesLost: number;
  unread: number;
  dollarsSaved: number;
  dollarsSpent: number;
}

export interface Transaction<S extends SystemTypes = AnySystem> {
  create<E extends keyof S["entities"] & string>(entity: E, fields: S["entities"][E]["new"]): this;
  put<E extends keyof S["entities"] & string>(entity: E, record: S["entities"][E]["new"] | Kept<S["entities"][E]["record"]>): this;
  update<E extends keyof S["entities"] & string>(
    entity: E,
    key: KeyOf<S["entities"][E]>,
    changes: S["entities"][E]["changes"],
    options?: { version?: number },
  ): this;
  delete<E extends keyof S["entities"] & string>(entity: E, key: KeyOf<S["entities"][E]>): this;
  /** It must be there. */
  check<E extends keyof S["entities"] & string>(entity: E, key: KeyOf<S["entities"][E]>): this;
  /** It must not be there. */
  checkAbsent<E extends keyof S["entities"] & string>(entity: E, key: KeyOf<S["entities"][E]>): this;
  /** With a token, the same transaction again within ten minutes is made once. */
  run(options?: Cancellable & { token?: string }): Promise<void>;
}

export type MembersOf<M> = { [E in keyof M]: Kept<M[E]>[] };
export type NewMembersOf<M> = { [E in keyof M]?: readonly M[E][] };

/** Several entities that are kept in one partition, and written and read as one. */
export interface Collection<C extends CollectionTypes> {
  readonly name: string;
  put(members: NewMembersOf<C["new"]>, options?: Cancellable): Promise<void>;
  get(key: C["key"], options?: Cancellable): Promise<MembersOf<C["members"]> | undefined>;
  fetch(
    key: C["key"],
    load: (key: C["asked"], known: Known) => Given<NewMembersOf<C["new"]>> | Promise<Given<NewMembersOf<C["new"]>>>,
    options?: Cancellable,
  ): Promise<MembersOf<C["members"]> & { readonly $: AboutFetched }>;
  /** How many were removed. */
  delete(key: C["key"], options?: Cancellable): Promise<number>;
}

type Params<P> = keyof P extends never ? [params?: undefined] : [params: P];

export interface Lifecycle<E extends EntityTypes = AnyEntity, L extends LifecycleTypes = AnyEntity["lifecycles"][string]> {
  readonly name: string;
  /** Makes a transition, if the record is in a state it starts from. */
  run<T extends keyof L["transitions"] & string>(
    key: KeyOf<E>,
    transition: T,
    ...params: keyof L["transitions"][T] extends never
      ? [params?: undefined, options?: Cancellable]
      : [params: L["transitions"][T], options?: Cancellable]
  ): Promise<Kept<E["record"]>>;
  standing(key: KeyOf<E>, options?: Cancellable): Promise<Standing<E, L> | undefined>;
  /** What a claim would take, in that order. */
  due(group?: L["group"], options?: ListOptions): Promise<Standing<E, L>[]>;
  /** What is held by a lease that ran out. */
  stuck(group?: L["group"], options?: ListOptions): Promise<Standing<E, L>[]>;
  inState(state: L["states"], options?: ListOptions & { group?: L["group"] }): Promise<Standing<E, L>[]>;
  /** Takes what is stuck away from whoever held it. */
  release(key: KeyOf<E>, options?: Cancellable): Promise<Kept<E["record"]>>;
  /** Takes what is due, one after the other, each held until it is ended. */
  claim(group?: L["group"], options?: ClaimOptions<L["group"]>): Claims<E, L>;
  /** Takes one by its key. */
  hold(key: KeyOf<E>, options?: Cancellable & { transition?: keyof L["transitions"] & string; params?: object }): Promise<Lease<E, L>>;
}

export interface ListOptions extends Cancellable {
  olderThan?: Duration;
  newestFirst?: boolean;
  limit?: number;
  strict?: boolean;
}

export interface ClaimOptions<G> extends Cancellable {
  /** More groups, taken from in turn. */
  groups?: G[];
  take?: number;
  olderThan?: Duration;
  /** Who holds them; otherwise this process. */
  owner?: string;
  params?: object;
  strict?: boolean;
}

export interface Standing<E extends EntityTypes, L extends LifecycleTypes> {
  record: Kept<E["record"]>;
  state: L["states"];
  since?: Date;
  owner?: string;
  until?: Date;
  fence: number;
  attempts: number;
  exhausted: boolean;
}

export interface Claims<E extends EntityTypes, L extends LifecycleTypes> extends AsyncIterableIterator<Lease<E, L>>, AsyncDisposable {}

/** Something that is held, and renewed by itself until it is ended. Left by `await using`, it is released. */
export interface Lease<E extends EntityTypes = AnyEntity, L extends LifecycleTypes = AnyEntity["lifecycles"][string]> extends AsyncDisposable {
  readonly record: Kept<E["record"]>;
  /** Higher than that of every lease on it before. */
  readonly fence: number;
  readonly owner: string;
  readonly attempts: number;
  /** Aborted when the lease is lost, with a `LeaseLostError`. */
  readonly signal: AbortSignal;
  readonly isLost: boolean;
  readonly isOver: boolean;
  renew(): Promise<void>;
  /** Until when it is held if it is not renewed. */
  until(): Promise<Date | undefined>;
  /** The work is done. */
  finish(): Promise<Kept<E["record"]>>;
  /** Ends it by a transition. */
  run<T extends keyof L["transitions"] & string>(transition: T, ...params: Params<L["transitions"][T]>): Promise<Kept<E["record"]>>;
  /** Gives it back, as if it had not been claimed. */
  release(): Promise<Kept<E["record"]>>;
  /** The work failed: it is due again after the schema's pause, or failed for good. */
  retry(error: unknown): Promise<void>;
  /** Does the work; fails with `LeaseLostError` if the lease is lost meanwhile. */
  work<T>(task: (lease: this) => T | Promise<T>): Promise<T>;
}

/** Where tables are. */
export class Store implements Disposable {
  private constructor();
  static open(address?: string): Promise<Store>;
  readonly clock: Clock;
  readonly faults: Faults;
  /** How often an operation such as "GetItem", or any, was asked for. */
  requests(operation?: string): number;
  toString(): string;
  close(): void;
  [Symbol.dispose](): void;
}

/** What time it is for a store. Tests stop it and move it. */
export interface Clock {
  now(): Date;
  stop(): void;
  advance(duration: Duration): void;
}

/** How a store fails, for tests. */
export interface Faults {
  down(): this;
  up(): this;
  reset(): this;
  seed(seed: number): this;
  throttle(probability: number): this;
  fail(probability: number): this;
  loseAnswers(probability: number): this;
  delay(probability: number, by: Duration): this;
  failNext(count: number, fault?: "throttle" | "error" | "unreachable" | "lost_answer"): this;
  only(...operations: string[]): this;
}

/** Each has those before it, too. */
export type LogLevel = "error" | "warn" | "info" | "debug" | "trace";

/** Something that the layer tells. Keys are told, values never. */
export interface LogRecord {
  readonly level: LogLevel;
  /** Which part of the layer tells it, such as `larder.observe`. */
  readonly target: string;
  readonly message: string;
  /** Such as `system`, `entity`, `cache_key`, `latency_ms`, `reason`. */
  readonly fields: { readonly [name: string]: string | number | boolean };
  readonly time: Date;
}

/** Ends the listening, also as `using`. */
export interface LogListening extends Disposable {
  (): void;
}

/**
 * Calls a function with what the layer tells, of a level (`info`, if none is said) and those before it. It does not keep the process alive, and hears all
 * that is told on behalf of this process, not of one system. What it throws is an uncaught exception; the other listeners go on.
 */
export function onLog(listener: (record: LogRecord) => void, options?: { level?: LogLevel }): LogListening;

/** A moment finer than a millisecond: a Date that is written back with all its digits, while it is not changed. */
export class Moment extends Date {
  constructor(exact: string);
  readonly exact: string;
}

/** A number in a document (`json`) that no double holds. It is written back with all its digits. */
export class Exact {
  constructor(digits: string);
  readonly digits: string;
  /** The nearest double. */
  valueOf(): number;
  toString(): string;
  toJSON(): string;
}

/** Something that is not of the type that the schema asks for, in a record that is kept with its faults. */
export class Odd {
  constructor(value: Json);
  value: Json;
  toJSON(): Json;
}

/** Everything that Larder itself fails with. */
export class LarderError extends Error {
  protected constructor();
  readonly kind: string;
  /** The same may succeed later. */
  readonly transient: boolean;
}

export interface Violation {
  /** Such as `price`, or `lunches[2].price`. */
  field: string;
  /** With the entity's name. */
  path: string;
  /** What the store calls it. */
  attribute: string;
  rule: string;
  value: string;
}

/** The record breaks its schema. `field`, `rule` and `value` are of the first violation. */
export class InvalidError extends LarderError {
  readonly entity: string;
  readonly violations: Violation[];
  readonly field?: string;
  readonly rule?: string;
  readonly value?: string;
}
/** It is about one record. */
declare class RecordFailure extends LarderError {
  readonly entity: string;
  readonly key: string;
}
export class ExistsError extends RecordFailure {}
export class MissingError extends RecordFailure {}
/** Somebody else changed it. */
export class ConflictError extends RecordFailure {
  readonly reason: string;
}
/** It is not in a state that the transition starts from. */
export class StateError extends RecordFailure {
  readonly transition: string;
  readonly found: string;
  readonly wanted: string;
}
export class LeaseLostError extends RecordFailure {
  readonly reason: string;
}
/** The source has none. */
export class AbsentError extends RecordFailure {}
export class StoreError extends LarderError {
  readonly code: string;
}
/** The source was not called, or did not answer in time. What a loader throws comes back itself. */
export class SourceError extends RecordFailure {
  readonly reason: string;
}
/** Store and source failed. `cause` is what the loader threw. */
export class DownError extends RecordFailure {
  readonly reason: string;
  readonly store: LarderError;
}
export class TooLargeError extends RecordFailure {
  readonly bytes: number;
  readonly limit: number;
}
export class QueueFullError extends RecordFailure {}
/** What is stored cannot be read. */
export class CorruptError extends RecordFailure {
  readonly reason: string;
}
export class KeyError extends LarderError {
  readonly entity: string;
  readonly reason: string;
}
export class RecordError extends LarderError {
  readonly entity: string;
  readonly reason: string;
}
export class EnvironmentError extends LarderError {}
export class CursorError extends LarderError {}
/** A transaction that was not made: nothing was written. */
export class CancelledError extends LarderError {
  readonly obstacles: { step: number; entity: string; key: string; reason: string }[];
}
export class NotAllowedError extends LarderError {}
/** The schema has errors. */
export class SchemaError extends LarderError {}
export {};
