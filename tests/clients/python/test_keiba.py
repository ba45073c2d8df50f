"""The keiba cache: what was scraped from netkeiba, kept in one table through the boto3 resource."""

import logging
import os
import sys
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest
from boto3.dynamodb.conditions import Key
from botocore.exceptions import BotoCoreError, ClientError

import systems

logger = logging.getLogger("keiba")

RACE_ID = "202405021211"
HORSE_ID = "2021105857"
RACE = {
    "race_name": "東京優駿",
    "horses": [{"number": 5, "name": "ジャスティンミラノ", "weight": Decimal("57.5")}],
}
RESULTS = {"results": [{"race_id": RACE_ID, "place": 2}]}
PARENTS = {"sire": "キズナ", "dam": "マーゴットディド"}
STATS = {"win_rate": Decimal("0.213"), "place_rate": Decimal("0.5"), "rides": 812}
RACES = [{"track_name": "東京", "race_number": 11, "race_id": RACE_ID}]


class KeibaCache:
    """Reads the cache before scraping, and scrapes whenever the cache cannot answer."""

    TTL_DAYS = {"METADATA": 7, "RESULTS": 7, "PARENT": 7, "STATS": 7, "RACES": 1}

    def __init__(self, dynamodb):
        self.table = dynamodb.Table(os.environ.get("KEIBA_TABLE_NAME", "keiba_data"))

    def race(self, race_id, scrape):
        return self._cached(f"RACE#{race_id}", "METADATA", scrape)

    def jockey(self, jockey_id, scrape):
        return self._cached(f"JOCKEY#{jockey_id}", "STATS", scrape)

    def races_of(self, day, scrape):
        return self._cached(f"DATE#{day:%Y%m%d}", "RACES", scrape)

    def horse(self, horse_id, scrape):
        """Results and parents: two items of one partition, read in one query."""
        pk = f"HORSE#{horse_id}"
        try:
            items = self.table.query(KeyConditionExpression=Key("PK").eq(pk))["Items"]
        except (ClientError, BotoCoreError) as error:
            logger.error("cache error %s: %s", pk, error)
            items = []
        found = {item["SK"]: item["data"] for item in items if not self._is_expired(item)}
        if {"RESULTS", "PARENT"} <= found.keys():
            logger.info("cache hit %s", pk)
            return found["RESULTS"], found["PARENT"]
        logger.info("cache miss %s", pk)
        results, parents = scrape()
        self._store(pk, "RESULTS", results)
        self._store(pk, "PARENT", parents)
        return results, parents

    def _cached(self, pk, sk, scrape):
        try:
            item = self.table.get_item(Key={"PK": pk, "SK": sk}).get("Item")
        except (ClientError, BotoCoreError) as error:
            logger.error("cache error %s: %s", pk, error)
            item = None
        if item and not self._is_expired(item):
            logger.info("cache hit %s", pk)
            return item["data"]
        logger.info("cache miss %s", pk)
        data = scrape()
        self._store(pk, sk, data)
        return data

    def _store(self, pk, sk, data):
        now = datetime.now(timezone.utc)
        expires = now + timedelta(days=self.TTL_DAYS[sk])
        item = {
            "PK": pk,
            "SK": sk,
            "data": data,
            "fetched_at": int(now.timestamp()),
            "ttl": int(expires.timestamp()),
        }
        try:
            self.table.put_item(Item=item)
        except (ClientError, BotoCoreError) as error:
            # Also an item over 400 KB: this program does not split, it goes without a cache.
            logger.warning("not cached %s: %s", pk, error)

    @staticmethod
    def _is_expired(item):
        return item["ttl"] < int(datetime.now(timezone.utc).timestamp())


@pytest.fixture(scope="module")
def table(client):
    with systems.applied(client, "keiba", "KEIBA_TABLE_NAME", "keiba_data-") as name:
        yield name


@pytest.fixture
def empty(client, table):
    """The name of the table, which holds nothing."""
    for item in client.scan(TableName=table)["Items"]:
        client.delete_item(TableName=table, Key={"PK": item["PK"], "SK": item["SK"]})
    return table


@pytest.fixture
def cache_of(resource_of, empty, monkeypatch):
    monkeypatch.setenv("KEIBA_TABLE_NAME", empty)
    monkeypatch.setattr(sys.modules[__name__], "datetime", systems.Stopped)
    return lambda name: KeibaCache(resource_of(name))


@pytest.fixture
def cache(cache_of):
    return cache_of("keiba")


def ask_for_all(cache, race, horse, jockey, races):
    day = datetime(2024, 5, 26)
    assert cache.race(RACE_ID, race) == RACE
    assert cache.horse(HORSE_ID, horse) == (RESULTS, PARENTS)
    assert cache.jockey("05339", jockey) == STATS
    assert cache.races_of(day, races) == RACES


def never():
    raise AssertionError("the cache has it")


def test_the_program_writes_the_items_of_the_layer(client, cache, empty):
    ask_for_all(cache, lambda: RACE, lambda: (RESULTS, PARENTS), lambda: STATS, lambda: RACES)
    for item in systems.ITEMS["keiba"].values():
        assert systems.stored(client, empty, {"PK": item["PK"], "SK": item["SK"]}) == item
    assert client.scan(TableName=empty)["Count"] == len(systems.ITEMS["keiba"])


def test_the_program_reads_the_items_of_the_layer(client, cache, empty):
    for item in systems.ITEMS["keiba"].values():
        client.put_item(TableName=empty, Item=item)
    ask_for_all(cache, never, never, never, never)


def test_an_expired_race_is_scraped_again_and_overwritten(client, cache, empty, caplog):
    caplog.set_level(logging.INFO, "keiba")
    race = systems.ITEMS["keiba"]["race"]
    last = int(systems.NOW.timestamp())
    client.put_item(TableName=empty, Item=race | {"ttl": {"N": str(last)}})
    assert cache.race(RACE_ID, never) == RACE
    old = race | {"ttl": {"N": str(last - 1)}, "data": {"M": {"horses": {"L": []}}}}
    client.put_item(TableName=empty, Item=old)
    assert cache.race(RACE_ID, lambda: RACE) == RACE
    assert caplog.messages == [f"cache hit RACE#{RACE_ID}", f"cache miss RACE#{RACE_ID}"]
    assert systems.stored(client, empty, {"PK": race["PK"], "SK": race["SK"]}) == race


def test_a_store_that_fails_is_a_miss(resource_of, monkeypatch, caplog):
    monkeypatch.setenv("KEIBA_TABLE_NAME", "keiba_data-that-is-nowhere")
    assert KeibaCache(resource_of("keiba")).race(RACE_ID, lambda: RACE) == RACE
    levels = [record.levelname for record in caplog.records if record.name == "keiba"]
    assert levels == ["ERROR", "WARNING"]


def test_a_race_over_400_kb_is_returned_and_not_cached(client, cache, empty, caplog):
    large = RACE | {"comment": "x" * 400 * 1024}
    assert cache.race(RACE_ID, lambda: large) == large
    assert "Item size has exceeded the maximum allowed size" in caplog.text
    assert client.scan(TableName=empty)["Count"] == 0


@systems.needs_access
def test_without_a_permission_the_program_goes_without_a_cache_and_says_which(cache_of, empty, caplog):
    horse, race = f"HORSE#{HORSE_ID}", f"RACE#{RACE_ID}"
    # What is not cached first, for the others cache what they scrape.
    told = {
        "keiba.1.PutItem": [f"not cached {race}: ", f"not cached {horse}: ", f"not cached {horse}: "],
        "keiba.1.GetItem": [f"cache error {race}: "],
        "keiba.1.Query": [f"cache error {horse}: "],
    }
    for name, begins in told.items():
        caplog.clear()
        cache = cache_of(name)
        assert cache.race(RACE_ID, lambda: RACE) == RACE
        assert cache.horse(HORSE_ID, lambda: (RESULTS, PARENTS)) == (RESULTS, PARENTS)
        why = systems.denied(name, f"us-east-1:000000000000:table/{empty}")
        assert caplog.messages == [begin + why for begin in begins]
