"""What both faces share: records, and how calls are told to the native module."""

from __future__ import annotations

import dataclasses
import logging
import re
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from os import PathLike, fspath
from typing import Any, Callable, Generic, Iterator, Mapping, ParamSpec, Sequence, TypedDict, TypeVar

from . import _native
from ._errors import LarderError, ManyError
from ._native import Meta as Meta

R = TypeVar("R")
#: A key: the one field, a tuple of them, or a dict by name.
K = TypeVar("K")
#: What a loader is called with.
P = ParamSpec("P")
#: What a source gives: the one given field that is not in the key, or a dict of all of them.
V = TypeVar("V")
#: What a record is made of.
N = TypeVar("N")
S = TypeVar("S")
A = TypeVar("A")
C = TypeVar("C")
#: What the sort key of a query holds.
B = TypeVar("B")
#: The group of a claim.
G = TypeVar("G")



class Listing(TypedDict, total=False):
    """How records of a lifecycle are listed."""

    limit: int
    #: Due when it was last done so long ago, instead of what the schema says.
    older_than: timedelta
    newest_first: bool
    #: What cannot be read is an error, and not left out.
    strict: bool


Read = Callable[[dict[str, Any], Meta], R]


class Record(Mapping[str, Any]):
    """A record by the names of the schema: `race["data"]` or `race.data`. What is absent is `None`; `meta` tells the rest."""

    __slots__ = ("_fields", "_names", "_secrets", "meta")

    def __init__(
        self, fields: dict[str, Any], meta: Meta, names: Sequence[str] = (), secrets: frozenset[str] = frozenset()
    ) -> None:
        self._fields = fields
        self._names = names
        self._secrets = secrets
        self.meta = meta

    def __getitem__(self, name: str) -> Any:
        if name in self._fields:
            return self._fields[name]
        if name in self._names:
            return None
        raise KeyError(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._fields[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no field `{name}`; there are {', '.join(self._names)}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in Record.__slots__:
            object.__setattr__(self, name, value)
        elif name in self._names or name in self._fields:
            self._fields[name] = value
        else:
            raise AttributeError(f"there is no field `{name}`; there are {', '.join(self._names)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        shown = (f"{name!r}: {'a secret' if name in self._secrets else repr(value)}" for name, value in self._fields.items())
        return f"Record({{{', '.join(shown)}}})"


class TypedRecord:
    """The base of the records that `larder export python` writes."""

    #: The schema's names of members that Python calls otherwise.
    _renamed: dict[str, str] = {}

    @classmethod
    def _read(cls, fields: dict[str, Any], meta: Meta) -> Any:
        make: Any = cls
        return make(*[fields.get(name) for name in _members(cls)], meta)


_member_names: dict[type, tuple[str, ...]] = {}


def _members(kind: type) -> tuple[str, ...]:
    """The schema's names of a typed record's members."""
    known = _member_names.get(kind)
    if known is None:
        renamed: dict[str, str] = getattr(kind, "_renamed", {})
        record: Any = kind
        fields = dataclasses.fields(record)
        known = tuple(renamed.get(field.name, field.name) for field in fields[:-1])
        _member_names[kind] = known
    return known


def drafted(draft: Any) -> tuple[Any, Meta | None]:
    """The fields of something to write, and what was read if it was."""
    if isinstance(draft, Record):
        return draft._fields, draft.meta
    if isinstance(draft, TypedRecord):
        fields = dataclasses.fields(draft)  # type: ignore[arg-type]
        values = [getattr(draft, field.name) for field in fields]
        return dict(zip(_members(type(draft)), values[:-1])), values[-1]
    return draft, None


def files_of(schema: str | PathLike[str], text: str | Mapping[str, str] | None) -> dict[str, str] | None:
    """The texts of a schema's files, where a program has them."""
    if text is None:
        return None
    return {fspath(schema): text} if isinstance(text, str) else dict(text)


def renamed(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters whose names Python keeps for itself end in `_`."""
    return {name[:-1] if name.endswith("_") else name: value for name, value in params.items()}


@contextmanager
def unmasked(raised: BaseException | None, what: str) -> Iterator[None]:
    """What goes wrong at the end of a `with` is logged where something was raised in it already, which is to be seen."""
    try:
        yield
    except LarderError as error:
        if raised is None:
            raise
        logging.getLogger("larder").error("a lease could not be %s, and is somebody else's when its time is over: %s", what, error)


def seconds(duration: float | timedelta | None) -> float | None:
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def many(outcomes: list[Any], read: Read[R]) -> list[Any]:
    """The records of a batch, or one error that has them all."""
    made = [read(*outcome) if isinstance(outcome, tuple) else outcome for outcome in outcomes]
    failed = [outcome for outcome in made if isinstance(outcome, LarderError)]
    if failed:
        error = ManyError(f"{len(failed)} of {len(made)} were not done; the first: {failed[0]}")
        error.outcomes = made
        raise error from failed[0]
    return made


@dataclasses.dataclass(frozen=True)
class Page(Generic[R]):
    """Some of the records of a query, in order."""

    items: list[R]
    #: Where the next page begins, if there may be one. It can be given to a client.
    cursor: str | None
    #: How many were left out because they cannot be read.
    unread: int
    #: The read units it took.
    units: float


@dataclasses.dataclass(frozen=True)
class Standing(Generic[R]):
    """Where a record stands in a lifecycle."""

    record: R
    state: str
    since: Any
    owner: str | None
    until: Any
    fence: int
    attempts: int
    #: It was tried as often as the schema says.
    exhausted: bool


@dataclasses.dataclass(frozen=True)
class Miss:
    """Why a look found nothing: absent, expired or unreachable."""

    why: str
    error: LarderError | None = None

    def __bool__(self) -> bool:
        return False


@dataclasses.dataclass(frozen=True)
class Drained:
    """What became of the writes behind."""

    written: int
    #: Still to be written.
    waiting: int
    #: Not written, and never will be.
    lost: int
    #: (entity, key, reason) of each that was not written.
    unwritten: list[tuple[str, str, str]]

    @property
    def is_empty(self) -> bool:
        return not self.waiting and not self.lost


@dataclasses.dataclass(frozen=True)
class Stats:
    """What happened to an entity in this process so far."""

    hits: int
    misses: int
    calls_saved: int
    loads: int
    load_failures: int
    store_errors: int
    writes: int
    writes_lost: int
    unread: int
    hit_rate: float
    dollars_saved: float
    dollars_spent: float


class Asking(Generic[R, B]):
    """A query that has not been sent: what is asked. Each method gives a new one."""

    def __init__(self, shelf: _native.Shelf, read: Read[R], asked: dict[str, Any]) -> None:
        self._shelf = shelf
        self._read = read
        self._asked = asked

    def _with(self: Any, **more: Any) -> Any:
        return type(self)(self._shelf, self._read, {**self._asked, **more})

    def explain(self) -> str:
        """The request it makes and what that costs."""
        told: str = self._shelf.query(self._asked, "explain")
        return told

    def _page(self, got: tuple[list[Any], str | None, int, float]) -> Page[R]:
        items, cursor, unread, units = got
        return Page([self._read(*item) for item in items], cursor, unread, units)


class Moment(datetime):
    """A moment that is finer than Python's microseconds. `exact` has all its digits, with which it is written back; what is worked out
    of it is a `datetime`."""

    __slots__ = ("exact",)
    exact: str

    def __new__(cls, *of: Any, **named: Any) -> Any:
        if len(of) != 1 or named or not isinstance(of[0], str):
            # What is worked out of one.
            return datetime(*of, **named)
        found = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", of[0])
        if found is None:
            raise ValueError(f"{of[0]!r} is no moment: give it as 2026-01-15T10:00:00.123456789Z")
        second, digits, zone = found.groups()
        at = datetime.fromisoformat(second + ("+00:00" if zone == "Z" else zone)).astimezone(timezone.utc)
        micros = int((digits or "").ljust(6, "0")[:6])
        moment = super().__new__(cls, at.year, at.month, at.day, at.hour, at.minute, at.second, micros, timezone.utc)
        moment.exact = of[0]
        return moment

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Moment, (self.exact,)


#: What is read at once for an iterator.
AT_ONCE = 100


class Clock:
    """The clock of a store, which tests move."""

    def __init__(self, store: _native.Store) -> None:
        self._store = store

    def now(self) -> Any:
        return self._store.now()

    def advance(self, by: float | timedelta) -> None:
        """So many seconds on."""
        self._store.advance(seconds(by) or 0.0)

    def stop(self) -> None:
        """It stands still but for `advance`."""
        self._store.stop_clock()


class Faults:
    """What an observed store is to do wrong."""

    def __init__(self, store: _native.Store) -> None:
        self._store = store

    def down(self) -> None:
        """No request gets there."""
        self._store.fault("down")

    def up(self) -> None:
        self._store.fault("up")

    def throttle(self, probability: float) -> None:
        self._store.fault("throttle", probability)

    def fail(self, probability: float) -> None:
        self._store.fault("fail", probability)

    def lose_answers(self, probability: float) -> None:
        """Requests are carried out, but nobody hears of it."""
        self._store.fault("lose_answers", probability)

    def delay(self, probability: float, by: float | timedelta) -> None:
        self._store.fault("delay", probability, seconds(by) or 0.0)

    def fail_next(self, count: int, fault: str = "unreachable") -> None:
        """The next requests fail: throttle, unreachable, lost_answer or error."""
        self._store.fail_next(count, fault)

    def only(self, *operations: str) -> None:
        """Of these operations alone, such as `GetItem`."""
        self._store.only(list(operations))

    def seed(self, seed: int) -> None:
        self._store.seed(seed)

    def reset(self) -> None:
        self._store.fault("reset")


class Store:
    """Where data is kept. One store may be opened by several systems; `observed` counts what it is asked and can make it fail."""

    def __init__(self, address: str | None = None, *, observed: bool = False) -> None:
        self._native: _native.Store = _native.Store.open(address, observed)

    @classmethod
    def _of(cls, native: _native.Store) -> Store:
        store = cls.__new__(cls)
        store._native = native
        return store

    def close(self) -> None:
        """Lets go of it. A directory is free once the systems on it are closed too."""
        self._native.close()

    @property
    def place(self) -> str:
        return self._native.place

    @property
    def clock(self) -> Clock:
        return Clock(self._native)

    @property
    def faults(self) -> Faults:
        return Faults(self._native)

    def requests(self, operation: str | None = None) -> int:
        """How often an observed store was asked for an operation, or for any."""
        return self._native.requests(operation)

    def __repr__(self) -> str:
        try:
            return f"Store({self.place!r})"
        except LarderError:
            return "Store(closed)"
