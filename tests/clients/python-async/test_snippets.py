"""The code of the weather document, run as it stands there against the endpoint."""

import asyncio
import json
import os
import re
import statistics
import subprocess
import urllib.request
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Dict, Optional

import aioboto3
import boto3
import pytest
from aws_lambda_powertools import Logger
from botocore.exceptions import ClientError

import snippets
import systems

ENDPOINT = os.environ["ENDPOINT"]
REGION = "sa-east-1"
PLACE = (-22.7572, -49.9439)
AT = datetime(2025, 11, 26, 15, 23, 45, tzinfo=timezone.utc)
KEY = "weather_-22.7572_-49.9439_1764169200"
# What the document calls Python and is none: results such as `$0.58 / month`, and a list of names.
RECKONED = ["Metrics", "DynamoDB Pricing (PAY_PER_REQUEST)"]
LISTED = "CloudWatch Metrics"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """The one change: where DynamoDB is."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", ENDPOINT)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "larderclients")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "WeatherForecastAPI")


@pytest.fixture
def client():
    return boto3.client("dynamodb", region_name=REGION)


@pytest.fixture
def table(client):
    with systems.applied(client, "weather", "ENVIRONMENT", "weather-forecast-cache-") as name:
        yield name


@dataclass
class Weather:
    temperature: object
    humidity: object
    wind_speed: object
    rainfall_intensity: object
    weather_description: str
    timestamp: datetime


def forecast(number):
    return Weather(
        *map(number, ("28.3", "65.0", "12.5", "35.5")), "Parcialmente nublado", datetime(2025, 11, 26, 15)
    )


def names(**more):
    """What the document's code takes for granted, and what one block takes from those before it."""
    return {
        "__name__": "weather",
        "aioboto3": aioboto3,
        "asyncio": asyncio,
        "ClientError": ClientError,
        "datetime": datetime,
        "Dict": Dict,
        "logger": Logger(service=uuid.uuid4().hex),
        "Optional": Optional,
        "os": os,
        "timedelta": timedelta,
        "timezone": timezone,
        "Weather": Weather,
    } | more


async def define(names, *titles):
    for title in titles:
        for block in snippets.titled("weather", "python", title):
            await snippets.run(block, names)
    return names


async def cache(table_name):
    """The class of the document, its methods as the document gives them one by one."""
    given = names()
    await define(given, "Class Structure")
    made = given["DynamoDBCache"]
    for title in ["Get Operation", "Put Operation", "Manual Invalidation", "Batch Invalidation"]:
        await define(given, title)
    for method in ["get", "put", "invalidate", "invalidate_pattern"]:
        setattr(made, method, given[method])
    return made(table_name), given


async def repository(table_name, fetch, get_weather=None):
    kept, given = await cache(table_name)
    await define(given, "AsyncOpenWeatherRepository", "Cache Key Strategy")
    made = given["AsyncOpenWeatherRepository"]
    made._generate_cache_key = given["_generate_cache_key"]
    made._fetch_from_api = fetch
    if get_weather:
        await define(given, get_weather)
        method = "get_weather_with_explicit_cache" if "Aside" in get_weather else "get_weather"
        made.get_weather = given[method]
    return made("no-key", kept)


async def settled():
    """Waits for what the document lets go of: its writes to the cache."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    return await asyncio.gather(*others, return_exceptions=True)


def test_every_block_is_python_but_results_and_a_list():
    found = snippets.blocks("weather", "python")
    assert len(found) == 31
    others = [block.title for block in found if snippets.compiled(block) is None]
    assert others == [RECKONED[0]] * 2 + [LISTED] + [RECKONED[1]] * 2


def test_keys_are_those_of_the_document():
    given = asyncio.run(define(names(), "Cache Key Strategy"))
    assert given["_generate_cache_key"](None, *PLACE, AT) == KEY


def test_what_is_put_is_found_and_what_is_invalidated_is_gone(table):
    async def scenario():
        kept, _ = await cache(table)
        assert await kept.get(KEY) is None
        value = {"temperature": Decimal("28.3"), "weatherDescription": "Parcialmente nublado"}
        await kept.put(KEY, value, ttl_hours=3)
        item = await kept.get(KEY)
        assert (item["cacheKey"], item["data"]) == (KEY, value)
        ahead = int(item["ttl"]) - int(datetime.now(timezone.utc).timestamp())
        assert 3 * 3600 - 60 <= ahead <= 3 * 3600
        await kept.put(KEY, value, ttl_hours=-1)
        assert await kept.get(KEY) is None, "past its time, whether it is removed yet or not"
        await kept.put(KEY, value)
        await kept.invalidate(KEY)
        assert await kept.get(KEY) is None
        for hour in range(3):
            await kept.put(f"weather_-22.7572_-49.9439_{hour}", value)
        await kept.put("weather_0.0000_0.0000_0", value)
        # The document's example ends in `*`, which `begins_with` takes for a letter.
        await kept.invalidate_pattern("weather_-22.7572_-49.9439_*")
        assert await kept.get("weather_-22.7572_-49.9439_0")
        await kept.invalidate_pattern("weather_-22.7572_-49.9439_")
        assert await kept.get("weather_-22.7572_-49.9439_0") is None
        assert await kept.get("weather_0.0000_0.0000_0")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "pattern",
    [None, "Read-Through Cache", "Cache-Aside Pattern", "Write-Behind Cache (Fire-and-Forget)"],
)
def test_every_pattern_asks_the_source_once(table, pattern):
    async def scenario():
        calls = []

        async def fetch(self, lat, lon, target_dt):
            calls.append((lat, lon, target_dt))
            return forecast(Decimal)

        weather = await repository(table, fetch, pattern)
        first = await weather.get_weather(*PLACE, AT)
        await settled()
        second = await weather.get_weather(*PLACE, AT + timedelta(minutes=20))
        assert first == second == forecast(Decimal)
        assert len(calls) == 1

    asyncio.run(scenario())


def test_floats_are_refused_by_the_client_before_any_store_sees_them(table, client):
    """The document serializes floats, which boto3 does not take, on AWS as here: the write is lost in silence."""

    async def scenario():
        async def fetch(self, lat, lon, target_dt):
            return forecast(float)

        weather = await repository(table, fetch)
        assert await weather.get_weather(*PLACE, AT) == forecast(float)
        [lost] = await settled()
        assert isinstance(lost, TypeError) and "Float types are not supported" in str(lost)

    asyncio.run(scenario())
    assert client.scan(TableName=table)["Count"] == 0


def test_the_ttl_is_hours_ahead_and_comes_from_the_environment(monkeypatch):
    async def scenario():
        [reckoned, configured] = snippets.titled("weather", "python", "TTL Calculation")
        given = names()
        await snippets.run(reckoned, given)
        ahead = given["_calculate_ttl"](3) - int(datetime.now(timezone.utc).timestamp())
        assert 3 * 3600 - 60 <= ahead <= 3 * 3600
        put = []

        class Cache:
            async def put(self, key, value, ttl_hours):
                put.append(ttl_hours)

        monkeypatch.setenv("CACHE_TTL_HOURS", "6")
        await snippets.run(configured, names(cache=Cache(), key=KEY, value={}))
        assert put == [6]

    asyncio.run(scenario())


def test_the_item_of_the_document_is_stored_as_it_stands(table, client):
    [block] = snippets.titled("weather", "python", "Item Structure")
    item = eval(block.text, {})
    exact = json.loads(json.dumps(item), parse_float=Decimal)
    resource = boto3.resource("dynamodb", region_name=REGION)
    resource.Table(table).put_item(Item=exact)
    stored = resource.Table(table).get_item(Key={"cacheKey": item["cacheKey"]})
    # Its time was over in 2024: it may have been removed already, and is never changed.
    assert stored.get("Item", exact) == exact


def test_what_the_document_reckons_comes_out():
    """Line by line, without those that only say the result."""
    given = {"cache_hits": 80, "total_requests": 100}
    for title in RECKONED:
        for block in snippets.titled("weather", "python", title):
            for line in block.text.splitlines():
                line = line.partition("#")[0].replace("api_call_cost = $", "api_call_cost = ").rstrip()
                if "$" not in line and not line.endswith("%"):
                    exec(line, given)
    assert given["api_calls_avoided"] == 800_000
    assert round(given["savings"], 2) == 80.00
    assert round(given["total_cost"], 3) == 0.575
    assert round(given["net_benefit"], 2) == 79.42


def test_the_metrics_that_the_document_lists_are_counted(client, table):
    item = {"cacheKey": {"S": KEY}}
    client.put_item(TableName=table, Item=item)
    client.get_item(TableName=table, Key=item)
    with pytest.raises(ClientError):
        client.get_item(TableName=table, Key={"other": {"S": KEY}})
    with urllib.request.urlopen(f"{ENDPOINT}/metrics", timeout=30) as page:
        counted = page.read().decode()
    block = snippets.titled("weather", "python", LISTED)[0]
    listed = re.findall(r"^([A-Z]\w+)", block.text, re.MULTILINE)
    assert len(listed) == 5
    # What fails through the server's own fault is counted when it does.
    for name in set(listed) - {"SystemErrors"}:
        assert f"larder_{re.sub('(?<!^)(?=[A-Z])', '_', name).lower()}" in counted, name


def test_do_and_do_not_run_as_they_stand(table):
    async def scenario():
        kept, given = await cache(table)
        resource = boto3.resource("dynamodb", region_name=REGION)

        class Scanned:
            async def scan(self):
                return resource.Table(table).scan()

        async def create_table():
            return "a table"

        given |= {
            "cache": kept,
            "key": KEY,
            "value": {"temperature": Decimal("28.3")},
            "ttl": 0,
            "current_timestamp": 1,
            "weather": "the forecast",
            "table": Scanned(),
            "create_table": create_table,
            "api_key": "not a secret",
            "response": None,
        }
        outcomes = []
        for title in ["DO", "DON'T"]:
            for block in snippets.titled("weather", "python", title):
                outcomes.append(await snippets.run(block, given))
        await settled()
        assert outcomes == [None, None, None, None, None, "the forecast", None, None, None]
        assert (await kept.get(KEY))["data"] == {"api_key": "not a secret"}
        assert given["response"]["Count"] == 1

    asyncio.run(scenario())


# CloudWatch Logs Insights, as far as the document's queries go.


def insights(query, lines):
    """What a query finds in structured lines."""
    rows = None
    for step in query.strip().splitlines():
        step = step.removeprefix("| ")
        word, _, rest = step.partition(" ")
        if word == "filter" and " like /" in rest:
            field, _, pattern = rest.partition(" like /")
            lines = [line for line in lines if re.search(pattern.rstrip("/"), line.get(field, ""))]
        elif word == "filter":
            field, _, wanted = rest.partition(" = ")
            lines = [line for line in lines if line.get(field) == wanted.strip('"')]
        elif word == "stats":
            asked, _, by = rest.partition(" by ")
            groups = {}
            for line in lines:
                groups.setdefault(line[by] if by else None, []).append(line)
            calls = re.findall(r"(\w+)\(([^)]*)\) as (\w+)", asked)
            rows = [
                ({by: group} if by else {}) | {name: stat(what, of, members) for what, of, name in calls}
                for group, members in groups.items()
            ]
        elif word == "sort":
            rows.sort(key=lambda row: row[rest.removesuffix(" desc")], reverse=rest.endswith(" desc"))
        else:
            assert word in ("#", "fields"), f"`{word}` is not known here"
    return rows


def stat(what, of, lines):
    if what == "count":
        return len(lines)
    field, _, share = of.partition(", ")
    values = sorted(line[field] for line in lines if field in line)
    if what == "avg":
        return statistics.fmean(values)
    assert what == "pct"
    return values[round((len(values) - 1) * float(share) / 100)]


def queries():
    [block] = snippets.blocks("weather", "sql")
    return [query for query in re.split(r"(?=^# )", block.text, flags=re.MULTILINE) if query.strip()]


def test_the_queries_find_what_the_documents_logger_writes(capsys):
    given = names(cache_key=KEY, e=ValueError("no table"))
    [block] = snippets.titled("weather", "python", "Logging")
    asyncio.run(snippets.run(block, given))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    rate, latency = (insights(query, lines) for query in queries())
    assert {row["message"]: row["requests"] for row in rate} == {"Cache hit": 1, "Cache miss": 1}
    assert latency == [{"avg": 25.3, "p50": 25.3, "p99": 25.3}]
    [saved] = [line for line in lines if line["message"] == "Cache saved"]
    assert (saved["cache_key"], saved["ttl_hours"]) == (KEY, 3)


def test_the_metrics_are_those_of_the_schema(capsys):
    given = names()
    asyncio.run(snippets.run(snippets.titled("weather", "python", LISTED)[1], given))
    given["metrics"].flush_metrics()
    line = json.loads(capsys.readouterr().out)
    [directive] = line["_aws"]["CloudWatchMetrics"]
    told = {metric["Name"] for metric in directive["Metrics"]}
    schema = (systems.SCHEMAS / "weather.larder").read_text(encoding="utf-8")
    block = re.search(r'metrics "(\w+)" \{(.*?)\}', schema, re.DOTALL)
    assert (directive["Namespace"], told) == (block[1], set(re.findall(r"\w+ +(\w+)", block[2])))


def test_the_terraform_module_becomes_a_table(tmp_path, client):
    [block] = snippets.blocks("weather", "hcl")
    binary = os.environ.get("LARDER_BIN")
    if not binary:
        pytest.skip("LARDER_BIN does not name the binary that reads Terraform")
    own = uuid.uuid4().hex
    (tmp_path / "main.tf").write_text(block.text, encoding="utf-8")
    variable = f'variable "environment" {{\n  type = string\n  default = "{own}"\n}}\n'
    (tmp_path / "variables.tf").write_text(variable, encoding="utf-8")
    schema = tmp_path / "weather.larder"

    def larder(*arguments):
        env = os.environ | {"AWS_REGION": REGION}
        done = subprocess.run([binary, *arguments], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr

    larder("import", "main.tf", "variables.tf", "--system", "weather", "--out", str(schema))
    larder("apply", str(schema), "--yes", "--store", f"dynamodb:{ENDPOINT}")
    name = f"weather-forecast-cache-{own}"
    try:
        table = client.describe_table(TableName=name)["Table"]
        assert table["KeySchema"] == [{"AttributeName": "cacheKey", "KeyType": "HASH"}]
        assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
        ttl = client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
        assert (ttl["AttributeName"], ttl["TimeToLiveStatus"]) == ("ttl", "ENABLED")
        tags = client.list_tags_of_resource(ResourceArn=table["TableArn"])["Tags"]
        tags = {tag["Key"]: tag["Value"] for tag in tags}
        assert tags["Name"] == "Weather Forecast Cache" and tags["Environment"] == own
    finally:
        client.delete_table(TableName=name)
