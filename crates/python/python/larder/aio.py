"""The face for asyncio: `larder.aio.open`. The same names as the blocking one, awaited.

A loader is called in the event loop, and awaited if it is a coroutine; one that blocks belongs in `asyncio.to_thread`. A task that is
cancelled while it waits for a fetch ends; the load goes on, for others who wait for it and for the next who asks.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from os import PathLike, fspath
from types import TracebackType
from typing import (
    TYPE_CHECKING, Any, AsyncIterator, Awaitable, Callable, Concatenate, Generic, Iterable, Literal, Mapping, Sequence, TypeVar, cast,
)  # fmt: skip

from . import _exit, _log, _native
from ._core import (
    AT_ONCE, A, Asking, B, C, Drained, G, K, Listing, Miss, N, P, Page, R, Read, Record, S, Standing, Stats, Store, V, drafted,
    files_of, many, renamed, seconds, unmasked,
)  # fmt: skip
from ._errors import LeaseLostError
from ._load import Known, Load
from ._load import members as _members_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

M = TypeVar("M")
T = TypeVar("T", bound=str)
St = TypeVar("St", bound=str)

_loop = asyncio.get_running_loop

#: How often a lease under `async with` is looked at.
LEASE_SECONDS = 0.25


async def _got(got: Any) -> Any:
    return await got if asyncio.isfuture(got) else got


async def open(
    schema: str | PathLike[str],
    store: str | Store | None = None,
    *,
    text: str | Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    provision: bool = False,
) -> System:
    """Opens a schema on a store; see `larder.open`."""
    _log.refresh()
    on = store if isinstance(store, Store) else Store._of(await _got(_native.Store.open(store, False, _loop())))
    opened = _native.open(fspath(schema), files_of(schema, text), on._native, dict(environment or {}), provision, _loop())
    return System(await _got(opened), on, on is not store)


class System:
    """A schema on a store. As an `async with` it is closed at the end, and what is written behind is waited for."""

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
        """Several records written together, all or none, when `run` is awaited or the `async with` ends."""
        return Transaction(self)

    def now(self) -> Any:
        return self._native.now()

    async def provision(self) -> None:
        await _got(self._native.provision(_loop()))

    async def drain(self, timeout: float | timedelta | None = None) -> Drained:
        """Waits for what is written behind: so long, or as long as the schema says."""
        return Drained(**await _got(self._native.drain(seconds(timeout), _loop())))

    async def close(self) -> Drained:
        """Drains, and lets go of the store."""
        drained = await self.drain()
        _exit.forget(self._native)
        self._native.close()
        if self._owns_store:
            self.store.close()
        return drained

    def prometheus(self) -> str:
        return _native.prometheus([self._native])

    async def __aenter__(self: M) -> M:
        return self

    async def __aexit__(self, *_: object) -> None:
        _exit.tell(self.name, await self.close())

    def __repr__(self) -> str:
        return f"aio.{type(self).__name__}({self.store!r})"


class Shelf(Generic[R, K, P, V, N, S, A, C]):
    """The records of one entity."""

    def __init__(self, system: System, native: _native.Shelf, read: Read[R]) -> None:
        self._system = system
        self._native = native
        self._read = read

    @property
    def entity(self) -> str:
        return self._native.entity

    async def fetch(self, key: K, load: Callable[P, Awaitable[V | Load[V] | None] | V | Load[V] | None]) -> R:
        """From memory, the store, or `load`, which is called with the values of the key, once however many ask."""
        got = self._native.fetch(key, load, False, _loop())
        return self._read(*(await got if asyncio.isfuture(got) else got))

    async def fetch_with(
        self, key: K, load: Callable[Concatenate[Known, P], Awaitable[V | Load[V] | None] | V | Load[V] | None]
    ) -> R:
        """The same; `load` is also told what is kept already, before the values of the key."""
        return self._read(*await _got(self._native.fetch(key, load, True, _loop())))

    async def get(self, key: K) -> R | None:
        got = await _got(self._native.get(key, _loop()))
        return None if got is None else self._read(*got)

    async def look(self, key: K) -> R | Miss:
        """What is kept and fresh, or why nothing is."""
        found, miss = await _got(self._native.look(key, _loop()))
        return Miss(*miss) if found is None else self._read(*found)

    async def create(self, new: N) -> R:
        return self._read(*await _got(self._native.create(*drafted(new), _loop())))

    async def next_sequence(self, new: N) -> int:
        """The number that `create` would take."""
        number: int = await _got(self._native.next_sequence(new, _loop()))
        return number

    async def put(self, draft: N | R) -> R:
        return self._read(*await _got(self._native.put(*drafted(draft), _loop())))

    async def put_behind(self, new: N) -> R:
        _exit.hold(self._system._native)
        return self._read(*await _got(self._native.put_behind(*drafted(new), _loop())))

    async def update(
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
        changes = {
            "set": set, "add": add, "append": append, "insert": insert, "remove": remove, "insert_at": insert_at,
            "remove_at": remove_at, "clear": list(clear), "if_version": if_version,
        }  # fmt: skip
        return self._read(*await _got(self._native.update(key, changes, _loop())))

    async def delete(self, key: K) -> R | None:
        old = await _got(self._native.delete(key, _loop()))
        return None if old is None else self._read(*old)

    async def forget(self, key: K) -> None:
        await _got(self._native.forget(key, _loop()))

    def check(self, new: N) -> None:
        self._native.check(new)

    def stored_key(self, key: K) -> dict[str, Any]:
        return self._native.stored_key(key)

    async def get_many(self, keys: Iterable[K]) -> list[R | None]:
        return many(await _got(self._native.get_many(keys, _loop())), self._read)

    async def put_many(self, drafts: Iterable[N | R]) -> list[R]:
        return many(await _got(self._native.put_many([drafted(draft) for draft in drafts], _loop())), self._read)

    async def delete_many(self, keys: Iterable[K]) -> None:
        many(await _got(self._native.delete_many(keys, _loop())), self._read)

    def index(self, name: str, **partition: Any) -> Query[R, Any]:
        return Query(self._native, self._read, {"index": name, "partition": renamed(partition)})

    def within(self, **partition: Any) -> Query[R, Any]:
        return Query(self._native, self._read, {"index": None, "partition": renamed(partition)})

    def scan(
        self,
        *,
        at_any_price: bool = False,
        even_expired: bool = False,
        consistent: bool = False,
        strict: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[R]:
        asked = {"at_any_price": at_any_price, "even_expired": even_expired, "consistent": consistent, "strict": strict}
        return _pages(self._native.scan, self._read, asked, limit)

    async def invalidate(self, *, label: str | None = None, **by: Any) -> Plan:
        return Plan(await _got(self._native.invalidate(renamed(by), label, False, _loop())))

    async def sweep(self) -> Plan:
        return Plan(await _got(self._native.invalidate({}, None, True, _loop())))

    def stats(self) -> Stats:
        return Stats(**self._native.stats())

    def lifecycle(self, name: str) -> Lifecycle[R, K, Any, str, str]:
        known = self._native.names()[2]
        if name not in known:
            raise KeyError(f"{self.entity} has no lifecycle `{name}`; there are {', '.join(known) or 'none'}")
        return Lifecycle(self._native, self._read, name)

    def __repr__(self) -> str:
        return f"aio.Shelf({self.entity!r})"


async def _pages(
    ask: Callable[[dict[str, Any], Any], Any], read: Read[R], asked: dict[str, Any], limit: int | None
) -> AsyncIterator[R]:
    left = limit
    cursor = asked.get("start_at")
    while left is None or left > 0:
        size = AT_ONCE if left is None else min(left, AT_ONCE)
        items, cursor, _, _ = await _got(ask({**asked, "limit": size, "start_at": cursor}, _loop()))
        for item in items:
            yield read(*item)
        if left is not None:
            left -= len(items)
        if cursor is None:
            return


class Query(Asking[R, B]):
    """Records of one partition, in the order of the sort key. Iterating asks for them as they are needed."""

    def at(self, value: B) -> Query[R, B]:
        return cast("Query[R, B]", self._with(at=value))

    def from_(self, value: B) -> Query[R, B]:
        return cast("Query[R, B]", self._with(**{"from": value}))

    def until(self, value: B) -> Query[R, B]:
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
        return cast("Query[R, B]", self._with(strict=True))

    async def page(self) -> Page[R]:
        return self._page(await _got(self._shelf.query(self._asked, "page", _loop())))

    async def all(self) -> list[R]:
        return [record async for record in self]

    async def count(self) -> int:
        counted: int = await _got(self._shelf.query(self._asked, "count", _loop()))
        return counted

    def __aiter__(self) -> AsyncIterator[R]:
        asked = self._asked
        return _pages(lambda asked, loop: self._shelf.query(asked, "page", loop), self._read, asked, asked.get("limit"))


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
        return self._native.is_scan

    @property
    def dollars(self) -> float:
        return self._native.dollars

    async def run(self) -> int:
        removed: int = await _got(self._native.run(_loop()))
        return removed

    def __str__(self) -> str:
        return str(self._native)


class Lifecycle(Generic[R, K, G, T, St]):
    """How the records of an entity go from state to state."""

    def __init__(self, shelf: _native.Shelf, read: Read[R], name: str) -> None:
        self._shelf = shelf
        self._read = read
        self._name = name

    async def run(self, key: K, transition: T, **params: Any) -> R:
        return self._read(*await _got(self._shelf.transition(self._name, key, transition, renamed(params), _loop())))

    def claim(
        self,
        *groups: G,
        take: int | None = None,
        older_than: timedelta | None = None,
        owner: str | None = None,
        params: Mapping[str, Any] | None = None,
        strict: bool = False,
    ) -> Claims[R]:
        """What is due, oldest first: `async for lease in crawl.claim("DE"): async with lease: …`."""
        options = {"take": take, "older_than": older_than, "owner": owner, "params": params, "strict": strict}
        return Claims(self._shelf.claim(self._name, list(groups) or [None], options), self._read)

    async def hold(self, key: K, transition: T | None = None, **params: Any) -> Lease[R]:
        lease, record = await _got(self._shelf.hold(self._name, key, transition, renamed(params), _loop()))
        return Lease(lease, record, self._read)

    async def standing(self, key: K) -> Standing[R] | None:
        found = self._standings(await _got(self._shelf.stands(self._name, key, _loop())))
        return found[0] if found else None

    async def due(self, *groups: G, **listing: Unpack[Listing]) -> list[Standing[R]]:
        got = self._shelf.standing(self._name, "due", None, list(groups) or [None], dict(listing), _loop())
        return self._standings(await _got(got))

    async def stuck(self, *groups: G, **listing: Unpack[Listing]) -> list[Standing[R]]:
        got = self._shelf.standing(self._name, "stuck", None, list(groups) or [None], dict(listing), _loop())
        return self._standings(await _got(got))

    async def in_state(self, state: St, *groups: G, **listing: Unpack[Listing]) -> list[Standing[R]]:
        got = self._shelf.standing(self._name, "in_state", state, list(groups), dict(listing), _loop())
        return self._standings(await _got(got))

    async def release(self, key: K) -> R:
        return self._read(*await _got(self._shelf.release(self._name, key, _loop())))

    def _standings(self, got: list[Any]) -> list[Standing[R]]:
        return [Standing(self._read(*record), **about) for record, about in got]


class Claims(Generic[R]):
    """Leases, one after the other. As an `async with`, a lease that was left open in it is given back at its end."""

    def __init__(self, native: _native.Claims, read: Read[R]) -> None:
        self._native = native
        self._read = read
        self._last: Lease[R] | None = None

    def __aiter__(self) -> Claims[R]:
        return self

    async def __anext__(self) -> Lease[R]:
        held = await _got(self._native.next(_loop()))
        if held is None:
            raise StopAsyncIteration
        lease, record = held
        self._last = Lease(lease, record, self._read)
        return self._last

    async def __aenter__(self) -> Claims[R]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._last is not None and self._last.is_held:
            with unmasked(error, "given back"):
                await self._last.release()


class Lease(Generic[R]):
    """Something that this worker holds. It is renewed by itself until it is finished, given back or dropped.

    As an `async with`: finished at its end, given back when the task is cancelled, tried again later when something else is raised. When
    the lease is lost, the work is cancelled, and `LeaseLostError` raised.
    """

    def __init__(self, native: _native.Lease, record: Any, read: Read[R]) -> None:
        self._native = native
        self._read = read
        self._watch: asyncio.Task[None] | None = None
        self._cancelled = False
        self.record: R = read(*record)

    @property
    def fence(self) -> int:
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
        return self._native.is_held

    @property
    def is_lost(self) -> bool:
        return self._native.is_held and self._native.is_lost

    async def renew(self) -> None:
        await _got(self._native.renew(_loop()))

    async def finish(self) -> R:
        return self._read(*await _got(self._native.finish(_loop())))

    async def run(self, transition: str, **params: Any) -> R:
        return self._read(*await _got(self._native.run(transition, renamed(params), _loop())))

    async def release(self) -> R:
        return self._read(*await _got(self._native.release(_loop())))

    async def retry(self, error: object) -> None:
        await _got(self._native.retry(str(error) or type(error).__name__, _loop()))

    async def __aenter__(self) -> Lease[R]:
        working = asyncio.current_task()
        assert working is not None

        async def watch() -> None:
            while self.is_held and not self.is_lost:
                await asyncio.sleep(LEASE_SECONDS)
            if self.is_lost:
                self._cancelled = True
                working.cancel()

        self._watch = asyncio.create_task(watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        if self._watch is not None:
            self._watch.cancel()
        if isinstance(error, asyncio.CancelledError) and self._cancelled:
            working = asyncio.current_task()
            # Somebody else's cancelling is theirs.
            if working is None or not hasattr(working, "uncancel") or working.uncancel() == 0:
                lost = LeaseLostError("the lease is lost: it ran out, or somebody else has it")
                raise lost from None
        if not self.is_held:
            return False
        if error is None:
            await self.finish()
        elif self.is_lost:
            pass
        elif isinstance(error, Exception):
            with unmasked(error, "left to be tried again"):
                await self.retry(error)
        else:
            with unmasked(error, "given back"):
                await asyncio.shield(self.release())
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
        return self._step("check", shelf.entity, key)

    def check_absent(self, shelf: Shelf[R, K, P, V, N, S, A, C], key: K) -> Transaction:
        return self._step("check_absent", shelf.entity, key)

    def token(self, token: str) -> Transaction:
        self._token = token
        return self

    async def run(self) -> None:
        await _got(self._system._native.transact(self._steps, self._token, _loop()))

    def _step(self, what: str, entity: str, first: Any, second: Any = None) -> Transaction:
        self._steps.append((what, entity, first, second))
        return self

    async def __aenter__(self) -> Transaction:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.run()


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

    async def get(self, key: K) -> M | None:
        got = await _got(self._system._native.collection_get(self._name, key, _loop()))
        return None if got is None else self._made(got)

    async def fetch(
        self,
        key: K,
        load: Callable[P, Awaitable[Mapping[str, Any] | Load[Mapping[str, Any]] | None] | Mapping[str, Any] | None],
    ) -> M:
        return self._made(await _got(self._system._native.collection_fetch(self._name, key, load, _loop())))

    async def put(self, members: Mapping[str, Any]) -> None:
        await _got(self._system._native.collection_put(self._name, _members_of(members), _loop()))

    async def delete(self, key: K) -> int:
        deleted: int = await _got(self._system._native.collection_delete(self._name, key, _loop()))
        return deleted

    def _made(self, got: list[Any]) -> M:
        members: dict[str, list[Any]] = {}
        for entity, record in got:
            members.setdefault(entity, []).append(self._record(entity, *record))
        return self._gather(members)
