"""Larder: the data layer for data that comes from slow, costly or fragile places.

    keiba = larder.open("schemas/keiba.larder", store="./data")
    race = keiba["Race"].fetch("202405021211", scrape_race)
    print(race.data["horses"], race.meta.origin)

`larder.aio.open` is the same for asyncio. `larder export python keiba` writes a module with types for it.
"""

from __future__ import annotations

from os import PathLike, fspath
from typing import Mapping

from . import _log, _native, aio
from ._core import Clock, Drained, Faults, Meta, Miss, Moment, Page, Record, Standing, Stats, Store, TypedRecord, files_of
from ._errors import (
    AbsentError, CancelledError, ClosedError, ConflictError, CorruptError, CursorError, DownError, EnvironmentVariableError,
    ExistsError, ForkedError, InvalidError, KeyFieldError, LarderError, LeaseLostError, ManyError, MissingError, NotAllowedError,
    Obstacle, Permanent, QueueFullError, RecordError, SchemaError, SourceError, StateError, StoreError, TooLargeError, Violation,
)  # fmt: skip
from ._load import Known, Load
from ._sync import Claims, Collection, Lease, Lifecycle, Plan, Query, Shelf, System, Transaction

__all__ = [
    "AbsentError", "CancelledError", "Claims", "Clock", "ClosedError", "Collection", "ConflictError", "CorruptError", "CursorError",
    "DownError", "Drained", "EnvironmentVariableError", "ExistsError", "Faults", "ForkedError", "InvalidError", "KeyFieldError",
    "Known", "LarderError", "Lease", "LeaseLostError", "Lifecycle", "Load", "ManyError", "Meta", "Miss", "MissingError", "Moment",
    "NotAllowedError", "Obstacle", "Page", "Permanent", "Plan", "Query", "QueueFullError", "Record", "RecordError", "SchemaError",
    "Shelf", "SourceError", "Standing", "StateError", "Stats", "Store", "StoreError", "System", "TooLargeError", "Transaction",
    "TypedRecord", "Violation", "aio", "open", "prometheus",
]  # fmt: skip


def open(
    schema: str | PathLike[str],
    store: str | Store | None = None,
    *,
    text: str | Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    provision: bool = False,
) -> System:
    """Opens a schema on a store.

    `store` is a directory, `memory:`, `dynamodb:` (AWS), `dynamodb:http://HOST:PORT`, or a `Store`; without one, what `LARDER_STORE`
    names, or the directory `larder-data`. `text` is the schema itself, where it is in no file. `environment` is beside the process's own. Tables of an embedded
    store are made; on DynamoDB `provision` makes them, as `larder apply` does.
    """
    _log.refresh()
    on = store if isinstance(store, Store) else Store(store)
    native = _native.open(fspath(schema), files_of(schema, text), on._native, dict(environment or {}), provision)
    return System(native, on, on is not store)


def prometheus(*systems: System | aio.System) -> str:
    """The counts of systems as text for Prometheus."""
    return _native.prometheus([system._native for system in systems])
