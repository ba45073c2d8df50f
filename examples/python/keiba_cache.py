"""The keiba cache: what was scraped from netkeiba, in place of `KeibaCache`."""

from __future__ import annotations

from datetime import date
from typing import Callable

from keiba_types import Horse, JockeyStats, Keiba, RaceCard, RaceRef


class KeibaCache:
    """Reads the cache before scraping, and scrapes whenever the cache cannot answer."""

    def __init__(self, store: str) -> None:
        self.keiba = Keiba.open(store)

    def race(self, race_id: str, scrape: Callable[[str], RaceCard]) -> RaceCard:
        return self.keiba.races.fetch(race_id, scrape).data

    def jockey(self, jockey_id: str, scrape: Callable[[str], JockeyStats]) -> JockeyStats:
        return self.keiba.jockeys.fetch(jockey_id, scrape).data

    def races_of(self, day: date, scrape: Callable[[date], list[RaceRef]]) -> list[RaceRef]:
        return self.keiba.race_days.fetch(day, scrape).data

    def horse(self, horse_id: str, scrape: Callable[[str], tuple[dict[str, object], dict[str, object]]]) -> Horse:
        """Results and parents: two items of one partition, written together and read in one query."""

        def load(horse_id: str) -> dict[str, dict[str, object]]:
            results, parents = scrape(horse_id)
            key = {"horse_id": horse_id}
            return {"HorseResults": {**key, "data": results}, "HorseParents": {**key, "data": parents}}

        return self.keiba.horses.fetch(horse_id, load)
