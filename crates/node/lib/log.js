// What the layer tells, for listeners on this thread of JavaScript.
"use strict";

const { bridge, log } = require("./bridge.js");

/** Each has those before it, too. */
const LEVELS = ["error", "warn", "info", "debug", "trace"];
/** Records that are handed on before something else has its turn. */
const AT_ONCE = 1000;

/** Each call of `onLog` that has not been undone. */
const listening = new Set();

/** Calls `listener` with each record of at least a level, until the function that this gives is called. */
function onLog(listener, { level = "info" } = {}) {
  if (typeof listener !== "function") throw new TypeError("onLog needs a function: onLog((record) => …)");
  const rank = LEVELS.indexOf(level) + 1;
  if (rank === 0) throw new TypeError(`onLog knows no level ${String(level)}: it is one of ${LEVELS.join(", ")}`);
  const one = { listener, rank };
  const stop = () => {
    if (listening.delete(one)) listen();
  };
  stop[Symbol.dispose ?? Symbol.for("dispose")] = stop;
  listening.add(one);
  listen();
  return stop;
}

/** Has the layer tell what somebody listens to, and nothing else. */
function listen() {
  bridge.listen(Math.max(0, ...Array.from(listening, ({ rank }) => rank)));
}

/** Hands on what waits, so many records at most; whether there are more. `failed` is given what a listener throws. */
function take(most, failed) {
  const text = bridge.logs(most);
  if (text === null) return false;
  const { records, more } = JSON.parse(text);
  for (const record of records) {
    record.time = new Date(record.time);
    const rank = LEVELS.indexOf(record.level) + 1;
    for (const one of [...listening]) {
      // Another listener may have undone it just now.
      if (rank > one.rank || !listening.has(one)) continue;
      try {
        one.listener(record);
      } catch (error) {
        failed(error);
      }
    }
  }
  return more;
}

/** As Node does with what listeners of its own throw: the others go on, and then it is an uncaught exception. */
function uncaught(error) {
  process.nextTick(() => {
    throw error;
  });
}

log.wake = () => {
  if (take(AT_ONCE, uncaught)) setImmediate(log.wake).unref();
};

/** Hands on all that waits, at the end of the process. */
function flush() {
  const thrown = [];
  take(0xffffffff, (error) => thrown.push(error));
  // There is no next tick any more.
  if (thrown.length > 0) throw thrown[0];
}

module.exports = { flush, onLog };
