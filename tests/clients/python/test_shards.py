"""`larder serve --stream-shards`: a consumer reads parents before their children, and misses and repeats nothing.
`--transaction-conflicts`: whoever meets a transaction is told so, and what was told to have happened has happened.
"""

import json
import os
import subprocess
import threading
import urllib.request

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

HOURS = 4
GENERATIONS = 4
KEYS = 20


@pytest.fixture(scope="module")
def server():
    """The address of a server with both, whose clock a test moves."""
    binary = os.environ.get("LARDER_BIN")
    if not binary:
        pytest.skip("LARDER_BIN does not name the binary to serve with")
    arguments = ["--memory", "--dynamodb", "127.0.0.1:0", "--stream-shards", "4", "--transaction-conflicts"]
    server = subprocess.Popen(
        [binary, "serve", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield server.stdout.readline().removeprefix("listening on ").strip()
    finally:
        server.terminate()
        server.wait(timeout=30)


def client(url, service="dynamodb"):
    config = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 1})
    return boto3.client(service, endpoint_url=url, region_name="us-east-1", config=config)


def advance(url, hours):
    request = urllib.request.Request(
        f"{url}/_larder/clock",
        data=json.dumps({"advance_seconds": hours * 3600}).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


def create(url, name, **more):
    created = client(url).create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        **more,
    )
    return created["TableDescription"]


def shards_of(streams, arn):
    shards, start = [], {}
    while True:
        described = streams.describe_stream(StreamArn=arn, Limit=3, **start)["StreamDescription"]
        shards.extend(described["Shards"])
        if "LastEvaluatedShardId" not in described:
            return shards
        start = {"ExclusiveStartShardId": described["LastEvaluatedShardId"]}


def read(streams, arn, shard):
    iterator = streams.get_shard_iterator(
        StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    while iterator:
        page = streams.get_records(ShardIterator=iterator, Limit=7)
        yield from page["Records"]
        iterator = page.get("NextShardIterator")
        if not page["Records"] and "EndingSequenceNumber" not in shard["SequenceNumberRange"]:
            return


def test_parents_before_children_give_each_change_once_and_in_order(server):
    url = server
    items, streams = client(url), client(url, "dynamodbstreams")
    arn = create(url, "orders", StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"})[
        "LatestStreamArn"
    ]
    written = 0
    for generation in range(GENERATIONS):
        for _ in range(60):
            item = {"pk": {"S": f"key {written % KEYS}"}, "n": {"N": str(written)}}
            items.put_item(TableName="orders", Item=item)
            written += 1
        if generation + 1 < GENERATIONS:
            advance(url, HOURS)

    shards = shards_of(streams, arn)
    known = {shard["ShardId"]: shard for shard in shards}
    assert len(known) == len(shards) == 1 + 2 + 4 + 4
    assert sum("EndingSequenceNumber" not in shard["SequenceNumberRange"] for shard in shards) == 4
    finished, seen = set(), []
    while len(finished) < len(shards):
        ready = [
            shard
            for name, shard in known.items()
            if name not in finished and shard.get("ParentShardId", "") in finished | {""}
        ]
        for shard in ready:
            first = int(shard["SequenceNumberRange"]["StartingSequenceNumber"])
            last = int(shard["SequenceNumberRange"].get("EndingSequenceNumber", 10**40))
            for record in read(streams, arn, shard):
                assert first <= int(record["dynamodb"]["SequenceNumber"]) <= last
                seen.append(int(record["dynamodb"]["NewImage"]["n"]["N"]))
            finished.add(shard["ShardId"])
    assert sorted(seen) == list(range(written))
    for key in range(KEYS):
        of_key = [change for change in seen if change % KEYS == key]
        assert of_key == sorted(of_key)


def test_conflicts_are_told_in_the_words_of_aws_and_lose_nothing(server):
    url = server
    create(url, "counters")
    done, codes = [0] * 4, set()

    def work(worker):
        own = client(url)
        for round in range(60):
            add = {
                "TableName": "counters",
                "Key": {"pk": {"S": "one"}},
                "UpdateExpression": "ADD n :one",
                "ExpressionAttributeValues": {":one": {"N": "1"}},
            }
            try:
                if (worker + round) % 2:
                    own.update_item(**add)
                else:
                    other = {"Put": {"TableName": "counters", "Item": {"pk": {"S": f"{worker}/{round}"}}}}
                    own.transact_write_items(TransactItems=[{"Update": add}, other])
                done[worker] += 1
            except ClientError as error:
                codes.add(error.response["Error"]["Code"])
                if error.response["Error"]["Code"] == "TransactionCanceledException":
                    reasons = [reason["Code"] for reason in error.response["CancellationReasons"]]
                    assert reasons == ["TransactionConflict", "None"]

    workers = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert codes <= {"TransactionConflictException", "TransactionCanceledException"}
    found = client(url).get_item(TableName="counters", Key={"pk": {"S": "one"}}, ConsistentRead=True)
    assert int(found["Item"]["n"]["N"]) == sum(done)
