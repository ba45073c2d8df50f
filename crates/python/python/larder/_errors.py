"""What can go wrong. Every error is a `LarderError`; each class has the fields that its message speaks of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence


class LarderError(Exception):
    """Something that the layer could not do."""

    kind: str = "other"
    entity: str | None = None
    key: str | None = None
    #: Whether the same call may succeed later, or after reading again.
    transient: bool = False


@dataclass(frozen=True)
class Violation:
    """Something that is wrong with a record."""

    #: By the names of the schema: `Menu.data_quality.accuracy`.
    path: str
    #: By the names in the store: `dataQuality.accuracy`.
    attribute: str
    #: What kind of thing it is: missing, type, unknown, check, key, equation, state, ...
    fault: str
    #: What must hold: `must be positive`.
    rule: str
    #: What it is. A secret is not shown.
    value: str

    @property
    def field(self) -> str:
        """The path without the entity's name."""
        return self.path.split(".", 1)[-1]

    def __str__(self) -> str:
        return f"{self.path}: {self.rule}, and it is {self.value}"


@dataclass(frozen=True)
class Obstacle:
    """What was in the way of a transaction."""

    step: int
    entity: str
    key: str
    cause: str


class InvalidError(LarderError):
    """The record breaks its checks. All that is wrong is in `violations`."""

    kind = "invalid"
    violations: Sequence[Violation] = ()


class ExistsError(LarderError):
    """`create` found the key taken."""

    kind = "exists"


class MissingError(LarderError):
    """`update` or a transition found nothing to change."""

    kind = "missing"


class ConflictError(LarderError):
    """Somebody else changed it meanwhile: read it again."""

    kind = "conflict"
    cause: str = ""


class StateError(LarderError):
    """A transition that the lifecycle does not allow from where it is."""

    kind = "state"
    transition: str = ""
    found: str = ""
    wanted: str = ""


class LeaseLostError(LarderError):
    """The lease ran out, or somebody else has it."""

    kind = "lease_lost"
    cause: str = ""


class AbsentError(LarderError):
    """The source says that there is no such thing."""

    kind = "absent"


class StoreError(LarderError):
    """The store did not do what it was asked."""

    kind = "store"


class SourceError(LarderError):
    """The source is left alone, or gave no answer in time. What a loader raises comes back as it is, not as this."""

    kind = "source"
    cause: str = ""


class DownError(LarderError):
    """Neither the store nor the source had it. `__cause__` is what the loader raised."""

    kind = "down"
    store: StoreError | None = None
    cause: str = ""


class TooLargeError(LarderError):
    """Larger than an item may be, and the schema says to refuse that."""

    kind = "too_large"
    bytes: int = 0
    limit: int = 0


class QueueFullError(LarderError):
    """Too much waits to be written behind."""

    kind = "queue_full"


class CorruptError(LarderError):
    """What is stored is not what the schema says."""

    kind = "corrupt"
    cause: str = ""


class KeyFieldError(LarderError):
    """A key that cannot be made from what was given."""

    kind = "key"
    cause: str = ""


class RecordError(LarderError):
    """Something that is not in the record has to be there to write it."""

    kind = "record"
    cause: str = ""


class EnvironmentVariableError(LarderError):
    """Variables that do not fit the params of the schema."""

    kind = "environment"


class CursorError(LarderError):
    """A cursor that this query did not make."""

    kind = "cursor"
    cause: str = ""


class CancelledError(LarderError):
    """A transaction that did not happen, with what was in its way."""

    kind = "cancelled"
    obstacles: Sequence[Obstacle] = ()


class NotAllowedError(LarderError):
    """The schema does not allow it; the text says what would."""

    kind = "not_allowed"


class SchemaError(LarderError):
    """A schema with errors; the text shows each with its place."""

    kind = "schema"


class ClosedError(LarderError):
    """The system was closed."""

    kind = "closed"


class ForkedError(LarderError):
    """It was opened by the process that this one was forked from."""

    kind = "forked"


class ManyError(LarderError):
    """Some of many could not be done. `outcomes` has the record or the error of each, in order."""

    kind = "many"
    outcomes: Sequence[Any] = ()


class Permanent(Exception):
    """Raised by a loader: trying again does not help, and it is not held against the source."""


_KINDS: dict[str, type[LarderError]] = {
    kind.kind: kind
    for kind in (
        InvalidError, ExistsError, MissingError, ConflictError, StateError, LeaseLostError, AbsentError, StoreError,
        SourceError, DownError, TooLargeError, QueueFullError, CorruptError, KeyFieldError, RecordError,
        EnvironmentVariableError, CursorError, CancelledError, NotAllowedError, SchemaError, ClosedError, ForkedError,
    )
}  # fmt: skip


def make(kind: str, message: str, fields: dict[str, Any]) -> LarderError:
    """Called by the native module."""
    error = _KINDS.get(kind, LarderError)(message)
    for name, value in fields.items():
        setattr(error, name, value)
    return error
