// Errors: a class for each way in which something fails, with what it is about as properties.
"use strict";

class LarderError extends Error {
  constructor(fields) {
    const { message, kind, transient = false, ...rest } = fields;
    super(message);
    Object.assign(this, rest);
    this.kind = kind;
    this.transient = transient;
  }

  get name() {
    return this.constructor.name;
  }
}

class InvalidError extends LarderError {
  /** The first thing that is wrong. */
  get field() {
    return this.violations[0]?.field;
  }
  get rule() {
    return this.violations[0]?.rule;
  }
  get value() {
    return this.violations[0]?.value;
  }
}
class ExistsError extends LarderError {}
class MissingError extends LarderError {}
class ConflictError extends LarderError {}
class StateError extends LarderError {}
class LeaseLostError extends LarderError {}
class AbsentError extends LarderError {}
class StoreError extends LarderError {}
class SourceError extends LarderError {}
class DownError extends LarderError {
  constructor(fields) {
    super({ ...fields, store: errorOf(fields.store) });
  }
}
class TooLargeError extends LarderError {}
class QueueFullError extends LarderError {}
class CorruptError extends LarderError {}
class KeyError extends LarderError {}
class RecordError extends LarderError {}
class EnvironmentError extends LarderError {}
class CursorError extends LarderError {}
class CancelledError extends LarderError {}
class NotAllowedError extends LarderError {}
class SchemaError extends LarderError {}

const classes = {
  invalid: InvalidError,
  exists: ExistsError,
  missing: MissingError,
  conflict: ConflictError,
  state: StateError,
  lease_lost: LeaseLostError,
  absent: AbsentError,
  store: StoreError,
  source: SourceError,
  down: DownError,
  too_large: TooLargeError,
  queue_full: QueueFullError,
  corrupt: CorruptError,
  key: KeyError,
  record: RecordError,
  environment: EnvironmentError,
  cursor: CursorError,
  cancelled: CancelledError,
  not_allowed: NotAllowedError,
  schema: SchemaError,
};

function errorOf(fields) {
  return new (classes[fields.kind] ?? LarderError)(fields);
}

const exported = Object.fromEntries(Object.values(classes).map((one) => [one.name, one]));

module.exports = { LarderError, ...exported, errorOf };
