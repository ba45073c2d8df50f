"""aioboto3: the same protocol through aiohttp, many requests at once."""

import asyncio
import os
import uuid

import aioboto3
from boto3.dynamodb.conditions import Attr, Key
from botocore.config import Config

ENDPOINT = os.environ["ENDPOINT"]
CONFIG = Config(
    connect_timeout=5,
    read_timeout=30,
    max_pool_connections=64,
    retries={"mode": "standard", "total_max_attempts": 1},
)


def check(work):
    """Runs `work(table)` on a table of its own, for a minute at most."""

    async def run():
        session = aioboto3.Session(
            aws_access_key_id="larderclients",
            aws_secret_access_key="secret",
            region_name="us-east-1",
        )
        async with session.resource("dynamodb", endpoint_url=ENDPOINT, config=CONFIG) as resource:
            table = await resource.create_table(
                TableName=f"async-{uuid.uuid4().hex}",
                BillingMode="PAY_PER_REQUEST",
                AttributeDefinitions=[
                    {"AttributeName": "pk", "AttributeType": "S"},
                    {"AttributeName": "sk", "AttributeType": "N"},
                ],
                KeySchema=[
                    {"AttributeName": "pk", "KeyType": "HASH"},
                    {"AttributeName": "sk", "KeyType": "RANGE"},
                ],
            )
            try:
                await table.wait_until_exists(WaiterConfig={"Delay": 1, "MaxAttempts": 30})
                await work(table)
            finally:
                await table.delete()

    asyncio.run(asyncio.wait_for(run(), timeout=60))


def test_a_batch_is_written_and_queried():
    async def work(table):
        async with table.batch_writer() as batch:
            for i in range(60):
                await batch.put_item(Item={"pk": "a", "sk": i, "even": i % 2 == 0})
        answer = await table.query(
            KeyConditionExpression=Key("pk").eq("a") & Key("sk").lt(10),
            FilterExpression=Attr("even").eq(True),
        )
        assert [int(item["sk"]) for item in answer["Items"]] == [0, 2, 4, 6, 8]

    check(work)


def test_pages_arrive_one_after_another():
    async def work(table):
        async with table.batch_writer() as batch:
            for i in range(30):
                await batch.put_item(Item={"pk": "a", "sk": i})
        paginator = table.meta.client.get_paginator("scan")
        found = []
        async for page in paginator.paginate(
            TableName=table.name, PaginationConfig={"PageSize": 7}
        ):
            assert len(page["Items"]) <= 7
            found += [int(item["sk"]) for item in page["Items"]]
        assert found == list(range(30))

    check(work)


def test_writes_in_flight_together_are_all_kept():
    async def work(table):
        puts = (table.put_item(Item={"pk": f"p{i}", "sk": i}) for i in range(200))
        adds = (
            table.update_item(
                Key={"pk": "counter", "sk": 0},
                UpdateExpression="ADD hits :one",
                ExpressionAttributeValues={":one": 1},
            )
            for _ in range(100)
        )
        await asyncio.gather(*puts, *adds)
        assert (await table.scan(Select="COUNT"))["Count"] == 201
        counter = await table.get_item(Key={"pk": "counter", "sk": 0}, ConsistentRead=True)
        assert counter["Item"]["hits"] == 100

    check(work)


def test_a_failed_condition_is_an_exception():
    async def work(table):
        await table.put_item(Item={"pk": "a", "sk": 1})
        try:
            await table.put_item(
                Item={"pk": "a", "sk": 1}, ConditionExpression=Attr("pk").not_exists()
            )
        except table.meta.client.exceptions.ConditionalCheckFailedException:
            return
        raise AssertionError("the second put was let through")

    check(work)
