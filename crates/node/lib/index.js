// Larder: the data layer for fetched data. See docs/guides/typescript.md.
"use strict";

const { errorOf, ...errors } = require("./errors.js");
const { onLog } = require("./log.js");
const { Exact, Moment, Odd } = require("./values.js");
const { Store, open, Loaded, notModified, permanent } = require("./system.js");

module.exports = { open, Store, Loaded, notModified, permanent, onLog, Exact, Moment, Odd, ...errors };
