"""The blocking face: `larder.open`. Python's lock is released while Rust works, and Ctrl-C ends any wait."""

from __future__ import annotations

from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Concatenate, Generic, Iterable, Iterator, Literal, Mapping, Sequence, TypeVar, cast

from . import _exit, _native
from ._core import (
    AT_ONCE, A, Asking, B, C, Drained, G, K, Listing, Miss, N, P, Page, R, Read, Record, S, Standing, Stats, Store, V, drafted, many,
    renamed, seconds, unmasked,
)  # fmt: skip
from ._load import Known, Load
from ._load import members as _members_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

M = TypeVar("M")


class System:
    """A schema on a store. As a context manager it is closed at the end, and what is written behind is waited for."""

    def __init__(self, native: _native.System, store: Store, owns_store: bool = False) -> None:
        self._native = native
        self._owns_store = owns_store
        self._shelves: dict[str, Any] = {}
        self.store = store
        _exit.remember(native)

    @property
    def name(self) -> str:
        return self._native.name

    @property
    def entities(self) -> list[str]:
        return self._native.entities()

    def shelf(self, entity: str) -> Shelf[Record, Any, ..., Any, Any, Any, Any, str]:
        """The records of an entity, by its name."""
        if entity not in self._shelves:
            native = self._native.shelf(entity)
            names, secrets = tuple(native.names()[0]), frozenset(native.secrets())
            self._shelves[entity] = Shelf(self, native, lambda fields, meta: Record(fields, meta, names, secrets))
        return cast("Shelf[Record, Any, ..., Any, Any, Any, Any, str]", self._shelves[entity])

    __getitem__ = shelf

    def collection(self, name: str) -> Collection[dict[str, list[Record]], Any, ...]:
        """A collection, by its name: its members by entity."""
        self._check_collection(name)
        return Collection(self, name, lambda members: members, self._record)

    def _check_collection(self, name: str) -> None:
        known = self._native.collections()
        if name not in known:
            raise KeyError(f"{self.name} has no collection `{name}`; there are {', '.join(known)}")

    def _record(self, entity: str, fields: dict[str, Any], meta: Any) -> Any:
        return self.shelf(entity)._read(fields, meta)

    def transaction(self) -> Transaction:
        """Several records written together, all or none, when `run` is called or the `with` ends."""
        return Transaction(self)

    def now(self) -> Any:
        return self._native.now()

    def provision(self) -> None:
        """Makes the tables that are missing. An embedded store has them already."""
        self._native.provision()

    def drain(self, timeout: float | timedelta | None = None) -> Drained:
        """Waits for what is written behind: so long, or as long as the schema says."""
        return Drained(**self._native.drain(seconds(timeout)))

    def close(self) -> Drained:
        """Drains, and lets go of the store."""
        drained = self.drain()
        _exit.forget(self._native)
        self._native.close()
        if self._owns_store:
            self.store.close()
        return drained

    def prometheus(self) -> str:
        """Its counts as text for Prometheus."""
        return _native.prometheus([self._native])

    def __enter__(self: M) -> M:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _exit.tell(self.name, self.close())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store!r})"


class Shelf(Generic[R, K, P, V, N, S, A, C]):
    """The records of one entity."""

    def __init__(self, system: System, native: _native.Shelf, read: Read[R]) -> None:
        self._system = system
        self._native = native
        self._read = read

    @property
    def entity(self) -> str:
        return self._native.entity

    def fetch(self, key: K, load: Callable[P, V | Load[V] | None]) -> R:
        """From memory, the store, or `load`, which is called with the values of the key, once however many ask.

        What it gives is kept; `None` says that there is none, which raises `AbsentError`. What it raises is raised.
        """
        return self._read(*self._native.fetch(key, load, False))

    def fetch_with(self, key: K, load: Callable[Concatenate[Known, P], V | Load[V] | None]) -> R:
        """The same; `load` is also told what is kept already, before the values of the key."""
        return self._read(*self._native.fetch(key, load, True))

    def get(self, key: K) -> R | None:
        got = self._native.get(key)
        return None if got is None else self._read(*got)

    def look(self, key: K) -> R | Miss:
        """What is kept and fresh, or why nothing is."""
        found, miss = self._native.look(key)
        return Miss(*miss) if found is None else self._read(*found)

    def create(self, new: N) -> R:
        """Writes a record that is not there yet. A sequence that is not given takes the first free number."""
        return self._read(*self._native.create(*drafted(new)))

    def next_sequence(self, new: N) -> int:
        """The number that `create` would take."""
        number: int = self._native.next_sequence(new)
        return number

    def put(self, draft: N | R) -> R:
        """Writes a record, there or not. One that was read and changed loses against a newer version."""
        return self._read(*self._native.put(*drafted(draft)))

    def put_behind(self, new: N) -> R:
        """Writes it after the answer. `drain` waits for it, and so does the end of the program."""
        _exit.hold(self._system._native)
        return self._read(*self._native.put_behind(*drafted(new)))

    def update(
        self,
        key: K,
        set: S | None = None,
        *,
        add: A | None = None,
        append: S | None = None,
        insert: S | None = None,
        remove: S | None = None,
        insert_at: Mapping[str, Mapping[str, Any]] | None = None,
        remove_at: Mapping[str, Sequence[str]] | None = None,
        clear: Sequence[C] = (),
        if_version: int | None = None,
    ) -> R:
        """Changes some fields of a record that is there. `append` is for lists, `insert` and `remove` for sets, `insert_at` and
        `remove_at` for maps."""
        changes = {
            "set": set, "add": add, "append": append, "insert": insert, "remove": remove, "insert_at": insert_at,
            "remove_at": remove_at, "clear": list(clear), "if_version": if_version,
        }  # fmt: skip
        return self._read(*self._native.update(key, changes))

    def delete(self, key: K) -> R | None:
        """Removes a record; what it was."""
        old = self._native.delete(key)
        return None if old is None else self._read(*old)

    def forget(self, key: K) -> None:
        """Removes a cached record, also what is on its way to be written."""
        self._native.forget(key)

    def check(self, new: N) -> None:
        """Raises everything that is wrong with a record, found without a store."""
        self._native.check(new)

    def stored_key(self, key: K) -> dict[str, Any]:
        """The key as it is stored."""
        return self._native.stored_key(key)

    def get_many(self, keys: Iterable[K]) -> list[R | None]:
        """The record of each key, in order."""
        return many(self._native.get_many(keys), self._read)

    def put_many(self, drafts: Iterable[N | R]) -> list[R]:
        return many(self._native.put_many([drafted(draft) for draft in drafts]), self._read)

    def delete_many(self, keys: Iterable[K]) -> None:
        many(self._native.delete_many(keys), self._read)

    def index(self, name: str, **partition: Any) -> Query[R, Any]:
        """Asks an index for a partition, by the fields that name it."""
        return Query(self._native, self._read, {"index": name, "partition": renamed(partition)})

    def within(self, **partition: Any) -> Query[R, Any]:
        """Asks the table itself for a partition."""
        return Query(self._native, self._read, {"index": None, "partition": renamed(partition)})

    def scan(
        self,
        *,
        at_any_price: bool = False,
        even_expired: bool = False,
        consistent: bool = False,
        strict: bool = False,
        limit: int | None = None,
    ) -> Iterator[R]:
        """All records, where the schema allows that."""
        asked = {"at_any_price": at_any_price, "even_expired": even_expired, "consistent": consistent, "strict": strict}
        return _pages(self._native.scan, self._read, asked, limit)

    def invalidate(self, *, label: str | None = None, **by: Any) -> Plan:
        """What has these fields or this label, and what removing it costs; `run` removes it."""
        return Plan(self._native.invalidate(renamed(by), label, False))

    def sweep(self) -> Plan:
        """What has expired and is still stored."""
        return Plan(self._native.invalidate({}, None, True))

    def stats(self) -> Stats:
        return Stats(**self._native.stats())

    def lifecycle(self, name: str) -> Lifecycle[R, K, Any, str, str]:
        known = self._native.names()[2]
        if name not in known:
            raise KeyError(f"{self.entity} has no lifecycle `{name}`; there are {', '.join(known) or 'none'}")
        return Lifecycle(self._native, self._read, name)

    def __repr__(self) -> str:
        return f"Shelf({self.entity!r})"


def _pages(ask: Callable[[dict[str, Any]], Any], read: Read[R], asked: dict[str, Any], limit: int | None) -> Iterator[R]:
    left = limit
    cursor = asked.get("start_at")
    while left is None or left > 0:
        size = AT_ONCE if left is None else min(left, AT_ONCE)
        items, cursor, _, _ = ask({**asked, "limit": size, "start_at": cursor})
        for item in items:
            yield read(*item)
        if left is not None:
            left -= len(items)
        if cursor is None:
            return


class Query(Asking[R, B]):
    """Records of one partition, in the order of the sort key. Iterating asks for them as they are needed."""

    def at(self, value: B) -> Query[R, B]:
        """Only what has this sort key."""
        return cast("Query[R, B]", self._with(at=value))

    def from_(self, value: B) -> Query[R, B]:
        """What has this sort key or a later one."""
        return cast("Query[R, B]", self._with(**{"from": value}))

    def until(self, value: B) -> Query[R, B]:
        """What has this sort key or an earlier one."""
        return cast("Query[R, B]", self._with(until=value))

    def between(self, low: B, high: B) -> Query[R, B]:
        return self.from_(low).until(high)

    def begins_with(self, text: str) -> Query[R, B]:
        return cast("Query[R, B]", self._with(begins_with=text))

    def newest_first(self) -> Query[R, B]:
        return cast("Query[R, B]", self._with(newest_first=True))

    def limit(self, records: int) -> Query[R, B]:
        return cast("Query[R, B]", self._with(limit=records))

    def start_at(self, cursor: str) -> Query[R, B]:
        return cast("Query[R, B]", self._with(start_at=cursor))

    def even_expired(self) -> Query[R, B]:
        return cast("Query[R, B]", self._with(even_expired=True))

    def consistent(self) -> Query[R, B]:
        return cast("Query[R, B]", self._with(consistent=True))

    def strict(self) -> Query[R, B]:
        """What cannot be read is an error, and not left out."""
        return cast("Query[R, B]", self._with(strict=True))

    def page(self) -> Page[R]:
        return self._page(self._shelf.query(self._asked, "page"))

    def all(self) -> list[R]:
        return list(self)

    def count(self) -> int:
        counted: int = self._shelf.query(self._asked, "count")
        return counted

    def __iter__(self) -> Iterator[R]:
        return _pages(lambda asked: self._shelf.query(asked, "page"), self._read, self._asked, self._asked.get("limit"))


class Plan:
    """What an invalidation would remove, and what that costs."""

    def __init__(self, native: _native.Plan) -> None:
        self._native = native

    @property
    def items(self) -> int:
        return self._native.items

    @property
    def bytes(self) -> int:
        return self._native.bytes

    @property
    def is_exact(self) -> bool:
        return self._native.is_exact

    @property
    def is_scan(self) -> bool:
        """Whether the whole table is read for it."""
        return self._native.is_scan

    @property
    def dollars(self) -> float:
        return self._native.dollars

    def run(self) -> int:
        """Removes them; how many."""
        removed: int = self._native.run()
        return removed

    def __str__(self) -> str:
        return str(self._native)


T = TypeVar("T", bound=str)
St = TypeVar("St", bound=str)


class Lifecycle(Generic[R, K, G, T, St]):
    """How the records of an entity go from state to state."""

    def __init__(self, shelf: _native.Shelf, read: Read[R], name: str) -> None:
        self._shelf = shelf
        self._read = read
        self._name = name

    def run(self, key: K, transition: T, **params: Any) -> R:
        """Makes a transition that needs no lease."""
        return self._read(*self._shelf.transition(self._name, key, transition, renamed(params)))

    def claim(
        self,
        *groups: G,
        take: int | None = None,
        older_than: timedelta | None = None,
        owner: str | None = None,
        params: Mapping[str, Any] | None = None,
        strict: bool = False,
    ) -> Claims[R]:
        """What is due, oldest first, one lease after the other: `for lease in crawl.claim("DE"): with lease: …`."""
        options = {"take": take, "older_than": older_than, "owner": owner, "params": params, "strict": strict}
        return Claims(self._shelf.claim(self._name, list(groups) or [None], options), self._read)

    def hold(self, key: K, transition: T | None = None, **params: Any) -> Lease[R]:
        """The lease of one record."""
        lease, record = self._shelf.hold(self._name, key, transition, renamed(params))
        return Lease(lease, record, self._read)

    def standing(self, key: K) -> Standing[R] | None:
        found = self._standings(self._shelf.stands(self._name, key))
        return found[0] if found else None

    def due(self, *groups: G, **listing: Unpack[Listing]) -> list[Standing[R]]:
        """What a claim would take, in that order."""
        return self._standings(self._shelf.standing(self._name, "due", None, list(groups) or [None], dict(listing)))

    def stuck(self, *groups: G, **listing: Unpack[Listing]) -> list[Standing[R]]:
        """What is held by a lease that ran out."""
        return self._standings(self._shelf.standing(self._name, "stuck", None, list(groups) or [None], dict(listing)))

    def in_state(self, state: St, *groups: G, **listing: Unpack[Listing]) -> list[Standing[R]]:
        return self._standings(self._shelf.standing(self._name, "in_state", state, list(groups), dict(listing)))

    def release(self, key: K) -> R:
        """Takes a lease from whoever has it."""
        return self._read(*self._shelf.release(self._name, key))

    def _standings(self, got: list[Any]) -> list[Standing[R]]:
        return [Standing(self._read(*record), **about) for record, about in got]


class Claims(Generic[R]):
    """Leases, one after the other. It may also be a `with`; a lease that was left open in it is given back at its end."""

    def __init__(self, native: _native.Claims, read: Read[R]) -> None:
        self._native = native
        self._read = read
        self._last: Lease[R] | None = None

    def __iter__(self) -> Claims[R]:
        return self

    def __next__(self) -> Lease[R]:
        held = self._native.next()
        if held is None:
            raise StopIteration
        lease, record = held
        self._last = Lease(lease, record, self._read)
        return self._last

    def __enter__(self) -> Claims[R]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._last is not None and self._last.is_held:
            with unmasked(error, "given back"):
                self._last.release()


class Lease(Generic[R]):
    """Something that this worker holds. It is renewed by itself until it is finished, given back or dropped.

    As a context manager: finished at its end, given back when the program is interrupted, tried again later when something else is
    raised.
    """

    def __init__(self, native: _native.Lease, record: Any, read: Read[R]) -> None:
        self._native = native
        self._read = read
        self.record: R = read(*record)

    @property
    def fence(self) -> int:
        """Grows with each claim of this record."""
        return self._native.fence

    @property
    def owner(self) -> str:
        return self._native.owner

    @property
    def attempts(self) -> int:
        return self._native.attempts

    @property
    def until(self) -> Any:
        return self._native.until

    @property
    def is_held(self) -> bool:
        """It was neither finished nor given back."""
        return self._native.is_held

    @property
    def is_lost(self) -> bool:
        """It ran out, or somebody else has it."""
        return self._native.is_held and self._native.is_lost

    def renew(self) -> None:
        """Renews it now; raises `LeaseLostError` if it is lost."""
        self._native.renew()

    def finish(self) -> R:
        """Ends the work, only if it is still ours."""
        return self._read(*self._native.finish())

    def run(self, transition: str, **params: Any) -> R:
        """Ends the work by this transition."""
        return self._read(*self._native.run(transition, renamed(params)))

    def release(self) -> R:
        """Gives it back as if it had not been claimed."""
        return self._read(*self._native.release())

    def retry(self, error: object) -> None:
        """The work failed: it is tried again later, as often as the schema says."""
        self._native.retry(str(error) or type(error).__name__)

    def __enter__(self) -> Lease[R]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        if not self.is_held:
            return False
        if error is None:
            self.finish()
        elif self.is_lost:
            pass
        elif isinstance(error, Exception):
            with unmasked(error, "left to be tried again"):
                self.retry(error)
        else:
            with unmasked(error, "given back"):
                self.release()
        return False


class Transaction:
    """Up to 100 steps that happen together. No two of them are about one record."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._steps: list[tuple[str, str, Any, Any]] = []
        self._token: str | None = None

    def create(self, shelf: Shelf[R, K, P, V, N, S, A, C], new: N) -> Transaction:
        return self._step("create", shelf.entity, new)

    def put(self, shelf: Shelf[R, K, P, V, N, S, A, C], draft: N | R) -> Transaction:
        return self._step("put", shelf.entity, *drafted(draft))

    def update(
        self,
        shelf: Shelf[R, K, P, V, N, S, A, C],
        key: K,
        set: S | None = None,
        *,
        add: A | None = None,
        clear: Sequence[C] = (),
        if_version: int | None = None,
    ) -> Transaction:
        changes = {"set": set, "add": add, "clear": list(clear), "if_version": if_version}
        return self._step("update", shelf.entity, key, changes)

    def delete(self, shelf: Shelf[R, K, P, V, N, S, A, C], key: K) -> Transaction:
        return self._step("delete", shelf.entity, key)

    def check(self, shelf: Shelf[R, K, P, V, N, S, A, C], key: K) -> Transaction:
        """Only if there is such a record."""
        return self._step("check", shelf.entity, key)

    def check_absent(self, shelf: Shelf[R, K, P, V, N, S, A, C], key: K) -> Transaction:
        """Only if there is none."""
        return self._step("check_absent", shelf.entity, key)

    def token(self, token: str) -> Transaction:
        """A second run of the same transaction within ten minutes does nothing."""
        self._token = token
        return self

    def run(self) -> None:
        self._system._native.transact(self._steps, self._token)

    def _step(self, what: str, entity: str, first: Any, second: Any = None) -> Transaction:
        self._steps.append((what, entity, first, second))
        return self

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.run()


class Collection(Generic[M, K, P]):
    """Records of one partition that belong together."""

    def __init__(
        self,
        system: System,
        name: str,
        gather: Callable[[dict[str, list[Any]]], M],
        record: Callable[[str, dict[str, Any], Any], Any],
    ) -> None:
        self._system = system
        self._name = name
        self._gather = gather
        self._record = record

    def get(self, key: K) -> M | None:
        got = self._system._native.collection_get(self._name, key)
        return None if got is None else self._made(got)

    def fetch(self, key: K, load: Callable[P, Mapping[str, Any] | Load[Mapping[str, Any]] | None]) -> M:
        """`load` gives the members: a dict of fields, or a list of them, by entity."""
        return self._made(self._system._native.collection_fetch(self._name, key, load))

    def put(self, members: Mapping[str, Any]) -> None:
        """Writes them in one transaction."""
        self._system._native.collection_put(self._name, _members_of(members))

    def delete(self, key: K) -> int:
        """Removes all of it; how many items."""
        deleted: int = self._system._native.collection_delete(self._name, key)
        return deleted

    def _made(self, got: list[Any]) -> M:
        members: dict[str, list[Any]] = {}
        for entity, record in got:
            members.setdefault(entity, []).append(self._record(entity, *record))
        return self._gather(members)
