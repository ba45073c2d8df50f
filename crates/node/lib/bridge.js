// The way to the layer: calls that are answered at once or later, and what the layer has to say by itself.
//
// There is one bridge for each thread of JavaScript. While something is waited for, the process stays alive; an open system
// alone does not keep it.
"use strict";

const { DownError, LarderError, SourceError, errorOf } = require("./errors.js");

const { Bridge } = require("../larder.node");

const ANSWER = 0;
const LOAD = 1;
const GIVEN_UP = 2;
const LOADER_GONE = 3;
const LEASE_LOST = 4;
const THROWN_GONE = 5;
const LOG = 6;

/** What each call that waits is told its answer by. */
const waiting = new Map();
/** Loaders by number, until the layer says that they will not be called any more. */
const loaders = new Map();
/** What loaders threw, by the calls that they ended, until the layer has forgotten it. */
const thrown = new Map();
/** Calls of loaders that run. */
const loading = new Map();
/** What is told that a lease is lost. */
const leases = new Map();
/** What is told that the log has something to take: see log.js. */
const log = { wake() {} };

const keepAlive = setInterval(() => {}, 0x7fffffff).unref();
let last = 0;

const bridge = new Bridge((what, id, text) => {
  switch (what) {
    case ANSWER: {
      const answered = waiting.get(id);
      forget(id);
      answered?.(text);
      break;
    }
    case LOAD:
      void load(id, JSON.parse(text));
      break;
    case GIVEN_UP:
      loading.get(id)?.abort(new DOMException("nobody waits for this any more", "TimeoutError"));
      break;
    case LOADER_GONE:
      loaders.delete(id);
      break;
    case LEASE_LOST:
      leases.get(id)?.(JSON.parse(text));
      break;
    case THROWN_GONE:
      thrown.delete(id);
      break;
    case LOG:
      log.wake();
      break;
  }
});

function next() {
  last = last === 0xffffffff ? 1 : last + 1;
  return last;
}

function forget(id) {
  waiting.delete(id);
  if (waiting.size === 0) keepAlive.unref();
}

/**
 * The answer of a call that was started: its text, or a rejection when the signal comes first. `late` is given the answer
 * that comes after that.
 */
function answer(id, signal, late) {
  return new Promise((resolve, reject) => {
    if (waiting.size === 0) keepAlive.ref();
    if (!signal) {
      waiting.set(id, resolve);
      return;
    }
    const abort = () => {
      if (late) waiting.set(id, late);
      else forget(id);
      reject(signal.reason);
    };
    signal.addEventListener("abort", abort, { once: true });
    waiting.set(id, (text) => {
      signal.removeEventListener("abort", abort);
      resolve(text);
    });
  });
}

function read(text) {
  const { value, error } = JSON.parse(text);
  if (error) throw errorOf(error);
  return value;
}

/** Calls the layer. An abort stops the waiting; what was begun goes on, and `late` is told what came of it. */
async function call(operation, args, signal, late) {
  signal?.throwIfAborted();
  const id = next();
  const text = bridge.call(id, operation, JSON.stringify(args));
  return read(text ?? (await answer(id, signal, late && ((text) => late(JSON.parse(text))))));
}

/** Calls what the layer answers at once. */
function callNow(operation, args) {
  return read(bridge.call(next(), operation, JSON.stringify(args)));
}

/**
 * Fetches: `loader` is what the layer calls if it needs the source. What is at hand is given as it is, without a promise
 * of its own.
 */
function fetch(system, entity, key, loader, signal) {
  signal?.throwIfAborted();
  const id = next();
  const number = next();
  const text = bridge.fetch(id, system, entity, key, number);
  if (text === null) {
    loaders.set(number, loader);
    return answer(id, signal).then(read);
  }
  const { value, error, refreshing } = JSON.parse(text);
  if (refreshing) loaders.set(number, loader);
  if (error) throw errorOf(error);
  return value;
}

/** Keeps a loader that is named in a call. */
function keep(loader) {
  const number = next();
  loaders.set(number, loader);
  return number;
}

async function load(number, { call, key, etag, lastModified }) {
  const controller = new AbortController();
  loading.set(call, controller);
  const loader = loaders.get(number);
  const known = { etag: etag ?? undefined, lastModified: lastModified ?? undefined, signal: controller.signal };
  let text;
  try {
    text = JSON.stringify(await loader.load(key, known));
  } catch (error) {
    thrown.set(call, error);
    text = JSON.stringify(loader.failed(error));
  }
  loading.delete(call);
  bridge.loaded(call, text);
}

/** What a loader threw comes back as it was; where the store failed too, the error of both has it as its cause. */
function asThrown(error) {
  if (!(error instanceof LarderError) || !thrown.has(error.thrown)) return error;
  const own = thrown.get(error.thrown);
  if (error instanceof SourceError) return own;
  if (error instanceof DownError) error.cause = own;
  return error;
}

module.exports = { asThrown, bridge, call, callNow, fetch, keep, leases, log };
