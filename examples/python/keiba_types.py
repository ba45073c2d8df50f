"""Races, horses and jockeys scraped from netkeiba, kept for a week.

Made by `larder export python keiba`: make it again instead of changing it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Mapping, NoReturn, TypedDict

import larder
from larder import aio

if TYPE_CHECKING:
    from typing_extensions import NotRequired


class RaceRef(TypedDict):
    track_name: str
    race_number: int
    race_id: str

RaceCard = dict[str, Any]
"""With `horses`: list[Any], and whatever else is kept with it."""

PastResults = dict[str, Any]
"""With `results`: list[Any], and whatever else is kept with it."""

Parents = dict[str, Any]
"""With `sire`: str, `dam`: str, and whatever else is kept with it."""

JockeyStats = dict[str, Any]
"""With `win_rate`: float, `place_rate`: float, and whatever else is kept with it."""


@dataclass
class Race(larder.TypedRecord):
    """One race with its complete list of horses."""
    race_id: str
    data: RaceCard
    fetched_at: datetime
    meta: larder.Meta = dataclasses.field(repr=False, compare=False)


class NewRace(TypedDict):
    """What is given to make a `Race`."""
    race_id: str
    data: RaceCard


class SetRace(TypedDict):
    """What an update may set of a `Race`."""
    data: NotRequired[RaceCard]


class AddRace(TypedDict):
    """What an update may add to in a `Race`."""


class RaceShelf(larder.Shelf[Race, str, [str], RaceCard, NewRace, SetRace, AddRace, NoReturn]):
    """The records of `Race`."""

    def partition(self, race_id: str) -> larder.Query[Race, str]:
        return larder.Query(self._native, self._read, {"index": None, "partition": {"race_id": race_id}})


class AsyncRaceShelf(aio.Shelf[Race, str, [str], RaceCard, NewRace, SetRace, AddRace, NoReturn]):
    """The records of `Race`."""

    def partition(self, race_id: str) -> aio.Query[Race, str]:
        return aio.Query(self._native, self._read, {"index": None, "partition": {"race_id": race_id}})


@dataclass
class HorseResults(larder.TypedRecord):
    """Past performances of one horse."""
    horse_id: str
    data: PastResults
    fetched_at: datetime
    meta: larder.Meta = dataclasses.field(repr=False, compare=False)


class NewHorseResults(TypedDict):
    """What is given to make a `HorseResults`."""
    horse_id: str
    data: PastResults


class SetHorseResults(TypedDict):
    """What an update may set of a `HorseResults`."""
    data: NotRequired[PastResults]


class AddHorseResults(TypedDict):
    """What an update may add to in a `HorseResults`."""


class HorseResultsShelf(larder.Shelf[HorseResults, str, [str], PastResults, NewHorseResults, SetHorseResults, AddHorseResults, NoReturn]):
    """The records of `HorseResults`."""

    def partition(self, horse_id: str) -> larder.Query[HorseResults, str]:
        return larder.Query(self._native, self._read, {"index": None, "partition": {"horse_id": horse_id}})


class AsyncHorseResultsShelf(aio.Shelf[HorseResults, str, [str], PastResults, NewHorseResults, SetHorseResults, AddHorseResults, NoReturn]):
    """The records of `HorseResults`."""

    def partition(self, horse_id: str) -> aio.Query[HorseResults, str]:
        return aio.Query(self._native, self._read, {"index": None, "partition": {"horse_id": horse_id}})


@dataclass
class HorseParents(larder.TypedRecord):
    """Sire and dam of one horse."""
    horse_id: str
    data: Parents
    fetched_at: datetime
    meta: larder.Meta = dataclasses.field(repr=False, compare=False)


class NewHorseParents(TypedDict):
    """What is given to make a `HorseParents`."""
    horse_id: str
    data: Parents


class SetHorseParents(TypedDict):
    """What an update may set of a `HorseParents`."""
    data: NotRequired[Parents]


class AddHorseParents(TypedDict):
    """What an update may add to in a `HorseParents`."""


class HorseParentsShelf(larder.Shelf[HorseParents, str, [str], Parents, NewHorseParents, SetHorseParents, AddHorseParents, NoReturn]):
    """The records of `HorseParents`."""

    def partition(self, horse_id: str) -> larder.Query[HorseParents, str]:
        return larder.Query(self._native, self._read, {"index": None, "partition": {"horse_id": horse_id}})


class AsyncHorseParentsShelf(aio.Shelf[HorseParents, str, [str], Parents, NewHorseParents, SetHorseParents, AddHorseParents, NoReturn]):
    """The records of `HorseParents`."""

    def partition(self, horse_id: str) -> aio.Query[HorseParents, str]:
        return aio.Query(self._native, self._read, {"index": None, "partition": {"horse_id": horse_id}})


@dataclass
class Jockey(larder.TypedRecord):
    """Win rate, place rate and the like of one jockey."""
    jockey_id: str
    data: JockeyStats
    fetched_at: datetime
    meta: larder.Meta = dataclasses.field(repr=False, compare=False)


class NewJockey(TypedDict):
    """What is given to make a `Jockey`."""
    jockey_id: str
    data: JockeyStats


class SetJockey(TypedDict):
    """What an update may set of a `Jockey`."""
    data: NotRequired[JockeyStats]


class AddJockey(TypedDict):
    """What an update may add to in a `Jockey`."""


class JockeyShelf(larder.Shelf[Jockey, str, [str], JockeyStats, NewJockey, SetJockey, AddJockey, NoReturn]):
    """The records of `Jockey`."""

    def partition(self, jockey_id: str) -> larder.Query[Jockey, str]:
        return larder.Query(self._native, self._read, {"index": None, "partition": {"jockey_id": jockey_id}})


class AsyncJockeyShelf(aio.Shelf[Jockey, str, [str], JockeyStats, NewJockey, SetJockey, AddJockey, NoReturn]):
    """The records of `Jockey`."""

    def partition(self, jockey_id: str) -> aio.Query[Jockey, str]:
        return aio.Query(self._native, self._read, {"index": None, "partition": {"jockey_id": jockey_id}})


@dataclass
class RaceDay(larder.TypedRecord):
    """The races of one day. Schedules change, so they expire sooner."""
    date: date
    data: list[RaceRef]
    fetched_at: datetime
    meta: larder.Meta = dataclasses.field(repr=False, compare=False)


class NewRaceDay(TypedDict):
    """What is given to make a `RaceDay`."""
    date: date
    data: list[RaceRef]


class SetRaceDay(TypedDict):
    """What an update may set of a `RaceDay`."""
    data: NotRequired[list[RaceRef]]


class AddRaceDay(TypedDict):
    """What an update may add to in a `RaceDay`."""


class RaceDayShelf(larder.Shelf[RaceDay, date, [date], list[RaceRef], NewRaceDay, SetRaceDay, AddRaceDay, NoReturn]):
    """The records of `RaceDay`."""

    def partition(self, date: date) -> larder.Query[RaceDay, str]:
        return larder.Query(self._native, self._read, {"index": None, "partition": {"date": date}})


class AsyncRaceDayShelf(aio.Shelf[RaceDay, date, [date], list[RaceRef], NewRaceDay, SetRaceDay, AddRaceDay, NoReturn]):
    """The records of `RaceDay`."""

    def partition(self, date: date) -> aio.Query[RaceDay, str]:
        return aio.Query(self._native, self._read, {"index": None, "partition": {"date": date}})


@dataclass
class Horse:
    """Both items of a horse: written in one transaction, read in one query."""
    horse_results: HorseResults | None
    horse_parents: HorseParents | None

    @classmethod
    def _gather(cls, members: dict[str, list[Any]]) -> Horse:
        return cls(next(iter(members.get("HorseResults", [])), None), next(iter(members.get("HorseParents", [])), None))


_RECORDS: dict[str, Any] = {"Race": Race, "HorseResults": HorseResults, "HorseParents": HorseParents, "Jockey": Jockey, "RaceDay": RaceDay}


class Keiba(larder.System):
    """Races, horses and jockeys scraped from netkeiba, kept for a week."""

    @classmethod
    def open(
        cls,
        store: str | larder.Store | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        provision: bool = False,
    ) -> Keiba:
        """Opens it on a store; see `larder.open`."""
        opened = larder.open("schemas/keiba.larder", store, text=FILES, environment=environment, provision=provision)
        return cls(opened._native, opened.store, opened._owns_store)

    @property
    def races(self) -> RaceShelf:
        """One race with its complete list of horses."""
        return RaceShelf(self, self._native.shelf("Race"), Race._read)

    @property
    def horse_results(self) -> HorseResultsShelf:
        """Past performances of one horse."""
        return HorseResultsShelf(self, self._native.shelf("HorseResults"), HorseResults._read)

    @property
    def horse_parents(self) -> HorseParentsShelf:
        """Sire and dam of one horse."""
        return HorseParentsShelf(self, self._native.shelf("HorseParents"), HorseParents._read)

    @property
    def jockeys(self) -> JockeyShelf:
        """Win rate, place rate and the like of one jockey."""
        return JockeyShelf(self, self._native.shelf("Jockey"), Jockey._read)

    @property
    def race_days(self) -> RaceDayShelf:
        """The races of one day. Schedules change, so they expire sooner."""
        return RaceDayShelf(self, self._native.shelf("RaceDay"), RaceDay._read)

    @property
    def horses(self) -> larder.Collection[Horse, str, [str]]:
        return larder.Collection(self, "Horse", Horse._gather, self._record)

    def _record(self, entity: str, fields: dict[str, Any], meta: Any) -> Any:
        return _RECORDS[entity]._read(fields, meta)


class AsyncKeiba(aio.System):
    """Races, horses and jockeys scraped from netkeiba, kept for a week."""

    @classmethod
    async def open(
        cls,
        store: str | larder.Store | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        provision: bool = False,
    ) -> AsyncKeiba:
        """Opens it on a store; see `larder.open`."""
        opened = await aio.open("schemas/keiba.larder", store, text=FILES, environment=environment, provision=provision)
        return cls(opened._native, opened.store, opened._owns_store)

    @property
    def races(self) -> AsyncRaceShelf:
        """One race with its complete list of horses."""
        return AsyncRaceShelf(self, self._native.shelf("Race"), Race._read)

    @property
    def horse_results(self) -> AsyncHorseResultsShelf:
        """Past performances of one horse."""
        return AsyncHorseResultsShelf(self, self._native.shelf("HorseResults"), HorseResults._read)

    @property
    def horse_parents(self) -> AsyncHorseParentsShelf:
        """Sire and dam of one horse."""
        return AsyncHorseParentsShelf(self, self._native.shelf("HorseParents"), HorseParents._read)

    @property
    def jockeys(self) -> AsyncJockeyShelf:
        """Win rate, place rate and the like of one jockey."""
        return AsyncJockeyShelf(self, self._native.shelf("Jockey"), Jockey._read)

    @property
    def race_days(self) -> AsyncRaceDayShelf:
        """The races of one day. Schedules change, so they expire sooner."""
        return AsyncRaceDayShelf(self, self._native.shelf("RaceDay"), RaceDay._read)

    @property
    def horses(self) -> aio.Collection[Horse, str, [str]]:
        return aio.Collection(self, "Horse", Horse._gather, self._record)

    def _record(self, entity: str, fields: dict[str, Any], meta: Any) -> Any:
        return _RECORDS[entity]._read(fields, meta)


#: The schema.
FILES = {
    "schemas/keiba.larder": """\
/// Races, horses and jockeys scraped from netkeiba, kept for a week.
system keiba

param table_name: string = "keiba_data" from KEIBA_TABLE_NAME

source netkeiba

defaults {
  billing   on_demand
  on_error  open              // a store that fails is a cache miss, never a failed request
  oversize  split else skip   // over 400 KB: several items; if that fails, do not cache
  log       hit, miss, oversize
}

table keiba_data {
  name  table_name
  key   PK / SK
  ttl   ttl
  strict

  /// One race with its complete list of horses.
  entity Race from netkeiba {
    key  "RACE#{race_id}" / "METADATA"
    ttl  7d

    input race_id: string nonempty
    data:          RaceCard
    fetched_at:    epoch = now
  }

  /// Past performances of one horse.
  entity HorseResults from netkeiba {
    key  "HORSE#{horse_id}" / "RESULTS"
    ttl  7d

    input horse_id: string nonempty
    data:           PastResults
    fetched_at:     epoch = now
  }

  /// Sire and dam of one horse.
  entity HorseParents from netkeiba {
    key  "HORSE#{horse_id}" / "PARENT"
    ttl  7d

    input horse_id: string nonempty
    data:           Parents
    fetched_at:     epoch = now
  }

  /// Win rate, place rate and the like of one jockey.
  entity Jockey from netkeiba {
    key  "JOCKEY#{jockey_id}" / "STATS"
    ttl  7d

    input jockey_id: string nonempty
    data:            JockeyStats
    fetched_at:      epoch = now
  }

  /// The races of one day. Schedules change, so they expire sooner.
  entity RaceDay from netkeiba {
    key  "DATE#{date:%Y%m%d}" / "RACES"
    ttl  1d

    input date: date
    data:       [RaceRef]
    fetched_at: epoch = now
  }

  /// Both items of a horse: written in one transaction, read in one query.
  collection Horse { HorseResults, HorseParents }
}

type RaceRef {
  track_name:  string nonempty
  race_number: int in 1..
  race_id:     string nonempty
}

type RaceCard    { horses: [json], .. }
type PastResults { results: [json], .. }
type Parents     { sire: string, dam: string, .. }
type JockeyStats { win_rate: float in 0..=1, place_rate: float in 0..=1, .. }
""",
}
