"""The weather cache: forecasts of OpenWeather, kept for three hours through aioboto3."""

import asyncio
import contextlib
import logging
import os
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import aioboto3
import boto3
import pytest
from boto3.dynamodb.conditions import Attr
from botocore.config import Config
from botocore.exceptions import ClientError

import systems

logger = logging.getLogger("weather")

ENDPOINT = os.environ["ENDPOINT"]
CONFIG = Config(connect_timeout=5, read_timeout=30, retries=systems.RETRIES)

PLACE = (-22.7572, -49.9439)
AT = datetime(2025, 11, 26, 15, 23, 45, tzinfo=timezone.utc)
KEY = "weather_-22.7572_-49.9439_1764169200"


@dataclass
class Weather:
    temperature: float
    humidity: float
    wind_speed: float
    rainfall_intensity: float
    weather_description: str
    timestamp: datetime


FORECAST = Weather(28.3, 65.0, 12.5, 35.5, "Parcialmente nublado", datetime(2025, 11, 26, 15))


class DynamoDBCache:
    """Items with a TTL. A store that fails is a miss, never an error."""

    def __init__(self, table_name, credentials):
        self.table_name = table_name
        self.credentials = credentials
        self._open = contextlib.AsyncExitStack()
        self._first = asyncio.Lock()
        self._table = None

    async def _get_table(self):
        async with self._first:
            if self._table is None:
                session = aioboto3.Session(**self.credentials)
                resource = session.resource(
                    "dynamodb", region_name="sa-east-1", endpoint_url=ENDPOINT, config=CONFIG
                )
                # Open for as long as its tables are used, so no `async with` may end it here.
                dynamodb = await self._open.enter_async_context(resource)
                self._table = await dynamodb.Table(self.table_name)
        return self._table

    async def close(self):
        await self._open.aclose()

    async def get(self, key):
        table = await self._get_table()
        try:
            response = await table.get_item(Key={"cacheKey": key})
        except ClientError as error:
            logger.error("DynamoDB get error %s: %s", key, error)
            return None
        item = response.get("Item")
        if not item:
            return None
        ttl = item.get("ttl", 0)
        if 0 < ttl < int(datetime.now(timezone.utc).timestamp()):
            logger.info("Cache item expired %s", key)
            return None
        return item

    async def put(self, key, value, ttl_hours=3):
        table = await self._get_table()
        now = datetime.now(timezone.utc)
        item = {
            "cacheKey": key,
            "data": value,
            "ttl": int((now + timedelta(hours=ttl_hours)).timestamp()),
            "createdAt": now.isoformat(timespec="microseconds"),
        }
        try:
            await table.put_item(Item=item)
        except ClientError as error:
            logger.error("DynamoDB put error %s: %s", key, error)

    async def invalidate(self, key):
        table = await self._get_table()
        try:
            await table.delete_item(Key={"cacheKey": key})
        except ClientError as error:
            logger.error("DynamoDB delete error %s: %s", key, error)

    async def invalidate_pattern(self, prefix):
        """Deletes every key that begins so: a prefix without `*`, and all pages of the scan."""
        table = await self._get_table()
        request = {
            "FilterExpression": Attr("cacheKey").begins_with(prefix),
            "ProjectionExpression": "cacheKey",
        }
        deleted = 0
        while True:
            page = await table.scan(**request)
            for item in page["Items"]:
                await table.delete_item(Key=item)
            deleted += len(page["Items"])
            if "LastEvaluatedKey" not in page:
                return deleted
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


class AsyncOpenWeatherRepository:
    """Forecasts from the cache, or else from the API and into the cache."""

    def __init__(self, cache, fetch_from_api):
        self.cache = cache
        self._fetch_from_api = fetch_from_api
        self.writes = set()

    async def get_weather(self, lat, lon, target_dt):
        cache_key = self._generate_cache_key(lat, lon, target_dt)
        cached = await self.cache.get(cache_key)
        if cached:
            logger.info("Cache hit %s", cache_key)
            return self._deserialize_weather(cached["data"])
        logger.info("Cache miss %s", cache_key)
        weather = await self._fetch_from_api(lat, lon, target_dt)
        # Not awaited, but held: the loop itself would let an unfinished task go.
        write = self.cache.put(cache_key, self._serialize_weather(weather))
        self.writes.add(asyncio.create_task(write))
        return weather

    @staticmethod
    def _generate_cache_key(lat, lon, target_dt):
        rounded = target_dt.replace(minute=0, second=0, microsecond=0)
        # Zero is added because minus zero is zero, and would be written `-0.0000`.
        lat, lon = round(lat, 4) + 0.0, round(lon, 4) + 0.0
        return f"weather_{lat:.4f}_{lon:.4f}_{int(rounded.timestamp())}"

    @staticmethod
    def _serialize_weather(weather):
        # boto3 refuses floats: a number is what its text says.
        return {
            "temperature": Decimal(str(weather.temperature)),
            "humidity": Decimal(str(weather.humidity)),
            "windSpeed": Decimal(str(weather.wind_speed)),
            "rainfallIntensity": Decimal(str(weather.rainfall_intensity)),
            "weatherDescription": weather.weather_description,
            "timestamp": weather.timestamp.isoformat(),
        }

    @staticmethod
    def _deserialize_weather(data):
        return Weather(
            temperature=float(data["temperature"]),
            humidity=float(data["humidity"]),
            wind_speed=float(data["windSpeed"]),
            rainfall_intensity=float(data["rainfallIntensity"]),
            weather_description=data["weatherDescription"],
            timestamp=datetime.fromisoformat(data["timestamp"]),
        )


class Api:
    """OpenWeather, counting its calls."""

    def __init__(self):
        self.calls = 0

    async def __call__(self, lat, lon, target_dt):
        self.calls += 1
        return FORECAST


@pytest.fixture(scope="module")
def client():
    return boto3.client(
        "dynamodb", region_name="sa-east-1", endpoint_url=ENDPOINT, config=CONFIG, **systems.credentials()
    )


@pytest.fixture(scope="module")
def table(client):
    with systems.applied(client, "weather", "ENVIRONMENT", "weather-forecast-cache-") as name:
        yield name


@pytest.fixture(autouse=True)
def stopped(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "datetime", systems.Stopped)


@pytest.fixture
def empty(client, table):
    """The name of the table, which holds nothing."""
    for item in client.scan(TableName=table)["Items"]:
        client.delete_item(TableName=table, Key={"cacheKey": item["cacheKey"]})
    return table


def check(table, work, name="weather"):
    """Runs `work(repository, api)` on a cache of its own, for a minute at most."""

    async def run():
        cache, api = DynamoDBCache(table, systems.credentials(name)), Api()
        try:
            await work(AsyncOpenWeatherRepository(cache, api), api)
        finally:
            await cache.close()

    asyncio.run(asyncio.wait_for(run(), timeout=60))


async def written(repository):
    await asyncio.gather(*repository.writes)


def test_the_program_writes_the_item_of_the_layer(client, empty):
    async def work(repository, api):
        assert await repository.get_weather(*PLACE, AT) == FORECAST
        await written(repository)
        assert await repository.get_weather(*PLACE, AT.replace(minute=47)) == FORECAST
        assert api.calls == 1

    check(empty, work)
    item = systems.stored(client, empty, {"cacheKey": {"S": KEY}})
    # `isoformat` writes the zone as an offset, the layer as `Z`; either reads both.
    item["createdAt"]["S"] = item["createdAt"]["S"].replace("+00:00", "Z")
    assert item == systems.ITEMS["weather"]["forecast"]


def test_the_program_reads_the_item_of_the_layer(client, empty):
    client.put_item(TableName=empty, Item=systems.ITEMS["weather"]["forecast"])

    async def work(repository, api):
        assert await repository.get_weather(*PLACE, AT) == FORECAST
        assert api.calls == 0

    check(empty, work)


def test_an_expired_forecast_is_a_miss_though_it_is_still_stored(client, empty):
    forecast = systems.ITEMS["weather"]["forecast"]
    last = int(systems.NOW.timestamp())

    async def work(repository, api):
        for ttl, calls in [(last, 0), (last - 1, 1)]:
            client.put_item(TableName=empty, Item=forecast | {"ttl": {"N": str(ttl)}})
            await repository.get_weather(*PLACE, AT)
            assert api.calls == calls
        await written(repository)

    check(empty, work)


def test_one_forecast_is_invalidated_or_all_of_a_place(client, empty):
    async def work(repository, api):
        for hour in range(3):
            for lat in (-22.7572, -23.5505):
                await repository.get_weather(lat, -49.9439, AT + timedelta(hours=hour))
        await written(repository)
        await repository.cache.invalidate(KEY)
        assert await repository.cache.get(KEY) is None
        assert await repository.cache.invalidate_pattern("weather_-22.7572_-49.9439_") == 2

    check(empty, work)
    left = [item["cacheKey"]["S"] for item in client.scan(TableName=empty)["Items"]]
    assert len(left) == 3 and all(key.startswith("weather_-23.5505_") for key in left)


def test_a_store_that_fails_is_a_miss(caplog):
    async def work(repository, api):
        assert await repository.get_weather(*PLACE, AT) == FORECAST
        await written(repository)
        await repository.cache.invalidate(KEY)
        assert api.calls == 1

    check("weather-forecast-cache-that-is-nowhere", work)
    levels = [record.levelname for record in caplog.records if record.name == "weather"]
    assert levels == ["ERROR"] * 3


def test_fifty_at_once_share_one_connection_pool(empty):
    async def work(repository, api):
        places = [(lat / 10, lat / 5) for lat in range(50)]
        for calls in (50, 50):
            found = await asyncio.gather(*(repository.get_weather(*place, AT) for place in places))
            await written(repository)
            assert (found, api.calls) == ([FORECAST] * 50, calls)

    check(empty, work)


@systems.needs_access
def test_without_a_permission_the_program_goes_without_it_and_says_which(empty, caplog):
    async def work(repository, api):
        assert await repository.get_weather(*PLACE, AT) == FORECAST
        await written(repository)
        await repository.cache.invalidate(KEY)

    async def sweep(repository, api):
        with pytest.raises(ClientError) as error:
            await repository.cache.invalidate_pattern("weather_")
        raised.append(str(error.value))

    raised = []
    place = f"sa-east-1:000000000000:table/{empty}"
    for action, begin in [("GetItem", "get"), ("PutItem", "put"), ("DeleteItem", "delete")]:
        name = f"weather.1.{action}"
        caplog.clear()
        check(empty, work, name)
        told = f"DynamoDB {begin} error {KEY}: {systems.denied(name, place)}"
        assert caplog.messages == [told]
    check(empty, sweep, "weather.1.Scan")
    assert raised == [systems.denied("weather.1.Scan", place)]
