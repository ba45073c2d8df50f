"""Ten typical mistakes. Every line that ends in `# wrong`, and no other, is refused by mypy and by pyright."""

from __future__ import annotations

from datetime import date, datetime, timezone

from keiba_types import Keiba
from shops_types import Shops
from weather_types import AsyncWeatherSystem, Weather

keiba, shops = Keiba.open("memory:"), Shops.open("memory:")


def a_key_of_another_type() -> None:
    keiba.races.get(202405021211)  # wrong


def a_loader_that_takes_something_else() -> None:
    def scrape(race_id: int) -> dict[str, object]:
        return {"horses": []}

    keiba.races.fetch("202405021211", scrape)  # wrong


def a_field_that_is_not_there() -> None:
    shop = shops.shops.get("example.de")
    print(shop.domian if shop else None)  # wrong


def a_record_that_may_be_missing() -> None:
    print(shops.shops.get("example.de").domain)  # wrong


def a_new_record_without_what_it_needs() -> None:
    shops.pages.put({"domain": "example.de", "url": "https://example.de/", "status": "available"})  # wrong


def a_computed_field_that_is_given() -> None:
    shops.shops.create({"domain": "example.de", "core_domain_name": "example"})  # wrong


def an_update_of_another_type() -> None:
    shops.shops.update("example.de", {"last_crawled_end": "yesterday"})  # wrong


def a_sort_key_of_another_type() -> None:
    shops.pages.by_type("example.de").at(date(2026, 1, 15))  # wrong


def a_transition_that_is_not_there() -> None:
    shops.shops.crawl.run("example.de", "start")  # wrong


async def an_answer_that_is_not_awaited() -> None:
    weather = await AsyncWeatherSystem.open("memory:")

    async def buy(lat: float, lon: float, at: datetime) -> Weather:
        raise NotImplementedError

    weather.forecasts.fetch((35.0, 135.8, datetime.now(timezone.utc)), buy).data  # wrong
