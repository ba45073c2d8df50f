"""The three programs at work."""

from __future__ import annotations

import asyncio
from datetime import date, datetime, timezone

import pytest
from keiba_cache import KeibaCache
from shop_table import ShopTable
from shops_types import Shop
from weather_cache import WeatherCache
from weather_types import Weather


def test_k13_keiba_scrapes_once_and_goes_on_without_its_store() -> None:
    cache, scraped = KeibaCache("memory:"), []

    def scrape(race_id: str) -> dict[str, object]:
        scraped.append(race_id)
        return {"horses": [{"number": 5, "name": "ジャスティンミラノ"}], "race_name": "東京優駿"}

    for _ in range(3):
        assert cache.race("202405021211", scrape)["race_name"] == "東京優駿"
    assert scraped == ["202405021211"]
    cache.keiba.store.faults.down()
    assert cache.race("202405021212", scrape)["horses"]
    cache.keiba.store.faults.up()
    cache.keiba.store.clock.advance(8 * 86400)
    cache.race("202405021211", scrape)
    assert scraped == ["202405021211", "202405021212", "202405021211"]


def test_k13_keiba_keeps_both_items_of_a_horse_together_and_splits_what_is_large() -> None:
    cache, scraped = KeibaCache("memory:"), []

    def scrape(horse_id: str) -> tuple[dict[str, object], dict[str, object]]:
        scraped.append(horse_id)
        return {"results": [{"place": 2, "note": "x" * 500_000}]}, {"sire": "キズナ", "dam": "マーゴットディド"}

    for _ in range(2):
        horse = cache.horse("2021105857", scrape)
        assert horse.horse_results is not None and horse.horse_parents is not None
        assert horse.horse_parents.data["sire"] == "キズナ"
        assert len(horse.horse_results.data["results"][0]["note"]) == 500_000
    assert scraped == ["2021105857"]
    day = cache.races_of(date(2024, 5, 26), lambda day: [{"track_name": "東京", "race_number": 11, "race_id": "1"}])
    assert day[0]["race_number"] == 11


FORECAST: Weather = {
    "temperature": 28.3,
    "humidity": 65.0,
    "wind_speed": 12.5,
    "rainfall_intensity": 35.5,
    "weather_description": "Parcialmente nublado",
    "timestamp": datetime(2025, 11, 26, 15),
}


def test_w17_weather_buys_one_forecast_an_hour_and_waits_for_its_writes() -> None:
    bought = []

    async def buy(lat: float, lon: float, at: datetime) -> Weather:
        bought.append((lat, lon, at))
        await asyncio.sleep(0)
        return FORECAST

    async def run() -> None:
        cache = await WeatherCache.open("memory:")
        at = datetime(2025, 11, 26, 15, 23, 45, tzinfo=timezone.utc)
        places = [cache.forecast(-22.7572, -49.9439, at.replace(minute=minute), buy) for minute in range(60)]
        assert all(forecast == FORECAST for forecast in await asyncio.gather(*places))
        assert len(bought) == 1
        assert (await cache.weather.drain(5)).is_empty
        stored = cache.weather.forecasts.stored_key((-22.7572, -49.9439, at))
        assert stored == {"cacheKey": "weather_-22.7572_-49.9439_1764169200"}
        assert await cache.forecast(-22.7572, -49.9439, at, buy) == FORECAST
        assert cache.weather.forecasts.stats().dollars_saved == pytest.approx(0.0001)
        await cache.invalidate(-22.7572, -49.9439, at)
        await cache.forecast(-22.7572, -49.9439, at, buy)
        assert len(bought) == 2
        await cache.weather.drain(5)
        assert await cache.invalidate_place(-22.7572, -49.9439) == 1
        await cache.close()

    asyncio.run(run())


def test_s15_shops_are_crawled_then_scraped_and_two_workers_never_have_one() -> None:
    table, crawled = ShopTable("memory:"), []
    for domain in ("a.example.de", "b.example.de"):
        table.register(domain, "Example", "DE")

    def crawl(shop: Shop) -> None:
        crawled.append(shop.domain)
        assert table.save_url(shop.domain, f"https://{shop.domain}/1", "product", "available", "9.90")
        table.crawl("DE", crawl, 1)  # another worker, meanwhile

    table.crawl("DE", crawl, 10)
    assert sorted(crawled) == ["a.example.de", "b.example.de"]
    scraped: list[str] = []
    table.scrape("DE", lambda shop: scraped.append(shop.domain), 10)
    assert sorted(scraped) == ["a.example.de", "b.example.de"]
    table.scrape("DE", lambda shop: scraped.append(shop.domain), 10)
    assert len(scraped) == 2
    assert not table.save_url("a.example.de", "https://a.example.de/1", "product", "available", "9.90")
    assert table.save_url("a.example.de", "https://a.example.de/1", "product", "sold out", None)
    assert table.urls_of_type("a.example.de", "product") == ["https://a.example.de/1"]
    assert table.related("example") == ["a.example.de", "b.example.de"]
    assert table.stuck_crawls("DE") == []


def test_s15_the_work_of_a_worker_that_fails_is_not_lost() -> None:
    table = ShopTable("memory:")
    table.register("a.example.de", "Example", "DE")

    def crawl(shop: Shop) -> None:
        raise OSError("the shop is closed")

    with pytest.raises(OSError, match="closed"):
        table.crawl("DE", crawl, 1)
    table.table.store.clock.advance(7200)
    assert table.crawl("DE", lambda shop: None, 1) == 1
