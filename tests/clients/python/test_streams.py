"""boto3's streams client: the whole vocabulary, and a consumer beside writers."""

import threading
import time

import pytest

from conftest import CONFIG, ENDPOINT, check_crc32

WRITERS = 4
ITEMS = 5
WRITES = 150
CONSUMER_SECONDS = 120
EXPIRY_SECONDS = 60


@pytest.fixture(scope="session")
def streams(session):
    session.events.register("before-parse.dynamodb-streams", check_crc32)
    return session.client("dynamodbstreams", endpoint_url=ENDPOINT, config=CONFIG)


@pytest.fixture
def streamed(client, name):
    """Makes a table with a stream of a view; returns its name and the stream's ARN."""

    def streamed(view):
        table = name("streamed")
        made = client.create_table(
            TableName=table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            StreamSpecification={"StreamEnabled": True, "StreamViewType": view},
        )
        client.get_waiter("table_exists").wait(
            TableName=table, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
        )
        return table, made["TableDescription"]["LatestStreamArn"]

    return streamed


def shard_of(streams, arn):
    described = streams.describe_stream(StreamArn=arn)["StreamDescription"]
    (shard,) = described["Shards"]
    return shard["ShardId"]


def iterator(streams, arn, kind, **place):
    return streams.get_shard_iterator(
        StreamArn=arn, ShardId=shard_of(streams, arn), ShardIteratorType=kind, **place
    )["ShardIterator"]


def test_a_stream_is_found_from_its_table(client, streams, streamed):
    table, arn = streamed("NEW_AND_OLD_IMAGES")
    described_table = client.describe_table(TableName=table)["Table"]
    assert described_table["LatestStreamArn"] == arn
    (listed,) = streams.list_streams(TableName=table)["Streams"]
    assert listed == {
        "StreamArn": arn,
        "TableName": table,
        "StreamLabel": described_table["LatestStreamLabel"],
    }
    described = streams.describe_stream(StreamArn=arn)["StreamDescription"]
    assert described["StreamStatus"] == "ENABLED"
    assert described["StreamViewType"] == "NEW_AND_OLD_IMAGES"
    assert described["KeySchema"] == described_table["KeySchema"]
    assert abs((described["CreationRequestDateTime"] - described_table["CreationDateTime"]).total_seconds()) < 5


def test_every_kind_of_iterator_reads_its_part(client, streams, streamed):
    table, arn = streamed("NEW_AND_OLD_IMAGES")
    for number in range(3):
        client.put_item(TableName=table, Item={"pk": {"S": "a"}, "n": {"N": str(number)}})
    latest = iterator(streams, arn, "LATEST")
    client.delete_item(TableName=table, Key={"pk": {"S": "a"}})

    records = streams.get_records(ShardIterator=iterator(streams, arn, "TRIM_HORIZON"))["Records"]
    assert [record["eventName"] for record in records] == ["INSERT", "MODIFY", "MODIFY", "REMOVE"]
    assert records[1]["dynamodb"]["OldImage"]["n"] == {"N": "0"}
    assert records[1]["dynamodb"]["NewImage"]["n"] == {"N": "1"}
    assert len({record["eventID"] for record in records}) == 4

    second = records[1]["dynamodb"]["SequenceNumber"]
    for kind, expected in [
        ("AT_SEQUENCE_NUMBER", records[1:]),
        ("AFTER_SEQUENCE_NUMBER", records[2:]),
    ]:
        found = iterator(streams, arn, kind, SequenceNumber=second)
        assert streams.get_records(ShardIterator=found)["Records"] == expected
    assert streams.get_records(ShardIterator=latest)["Records"] == records[3:]
    # A record's time is told in whole seconds, rounded down.
    since = iterator(
        streams, arn, "AT_TIMESTAMP", Timestamp=records[0]["dynamodb"]["ApproximateCreationDateTime"]
    )
    assert streams.get_records(ShardIterator=since)["Records"] == records


def test_a_stream_that_is_switched_off_ends(client, streams, streamed):
    table, arn = streamed("KEYS_ONLY")
    client.put_item(TableName=table, Item={"pk": {"S": "a"}})
    client.update_table(TableName=table, StreamSpecification={"StreamEnabled": False})
    page = streams.get_records(ShardIterator=iterator(streams, arn, "TRIM_HORIZON"))
    assert len(page["Records"]) == 1
    assert "NextShardIterator" not in page
    described = streams.describe_stream(StreamArn=arn)["StreamDescription"]
    assert described["StreamStatus"] == "DISABLED"
    assert described["Shards"][0]["SequenceNumberRange"]["EndingSequenceNumber"]


def test_what_expires_is_removed_by_the_service(client, streams, streamed):
    table, arn = streamed("OLD_IMAGE")
    client.update_time_to_live(
        TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ends"}
    )
    client.put_item(TableName=table, Item={"pk": {"S": "a"}, "ends": {"N": str(int(time.time()) - 5)}})
    position, records = iterator(streams, arn, "TRIM_HORIZON"), []
    deadline = time.monotonic() + EXPIRY_SECONDS
    while len(records) < 2:
        assert time.monotonic() < deadline, f"the item is still there after {EXPIRY_SECONDS} s"
        page = streams.get_records(ShardIterator=position)
        position = page["NextShardIterator"]
        records += page["Records"]
    put, removal = records
    assert "userIdentity" not in put
    assert removal["eventName"] == "REMOVE"
    assert removal["userIdentity"] == {"PrincipalId": "dynamodb.amazonaws.com", "Type": "Service"}
    assert removal["dynamodb"]["OldImage"]["pk"] == {"S": "a"}


def test_errors_are_of_their_class(streams, streamed):
    _, arn = streamed("KEYS_ONLY")
    with pytest.raises(streams.exceptions.ResourceNotFoundException):
        streams.describe_stream(StreamArn=arn.replace("streamed", "vanished"))
    with pytest.raises(streams.exceptions.ClientError) as refused:
        streams.get_records(ShardIterator="made up")
    assert refused.value.response["Error"]["Code"] == "ValidationException"


def test_a_consumer_beside_writers_misses_and_repeats_nothing(client, streams, streamed):
    """Puts, updates and transactions by several threads; each item counts its own changes."""
    table, arn = streamed("NEW_AND_OLD_IMAGES")
    expected = {}
    failures = []

    def write(writer):
        try:
            counts = dict.fromkeys(range(ITEMS), 0)
            for step in range(WRITES):
                item = step % ITEMS
                counts[item] += 1
                key = {"pk": {"S": f"{writer}.{item}"}}
                image = {**key, "n": {"N": str(counts[item])}}
                if step % 7 == 3:
                    put = {"Put": {"TableName": table, "Item": image}}
                    client.transact_write_items(TransactItems=[put])
                elif step % 7 == 5:
                    client.update_item(
                        TableName=table,
                        Key=key,
                        UpdateExpression="SET n = :n",
                        ExpressionAttributeValues={":n": image["n"]},
                    )
                else:
                    client.put_item(TableName=table, Item=image)
            expected.update({f"{writer}.{item}": count for item, count in counts.items()})
        except Exception as error:  # told to the test, which would wait for the records in vain
            failures.append(error)

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    position = iterator(streams, arn, "TRIM_HORIZON")
    for writer in writers:
        writer.start()
    seen, numbers, restarts = {}, [], 0
    deadline = time.monotonic() + CONSUMER_SECONDS
    total = WRITERS * WRITES
    while len(numbers) < total:
        assert time.monotonic() < deadline, f"{len(numbers)} of {total} records after {CONSUMER_SECONDS} s"
        assert not failures
        page = streams.get_records(ShardIterator=position, Limit=37)
        for record in page["Records"]:
            change = record["dynamodb"]
            pk, count = change["Keys"]["pk"]["S"], int(change["NewImage"]["n"]["N"])
            assert count == seen.get(pk, 0) + 1, f"{pk} goes from {seen.get(pk, 0)} to {count}"
            before = change.get("OldImage", {}).get("n", {}).get("N", "0")
            assert int(before) == count - 1
            seen[pk] = count
            numbers.append(change["SequenceNumber"])
        position = page["NextShardIterator"]
        # A consumer that starts again goes on from its checkpoint.
        if numbers and len(numbers) // 100 > restarts:
            restarts = len(numbers) // 100
            position = iterator(streams, arn, "AFTER_SEQUENCE_NUMBER", SequenceNumber=numbers[-1])
    for writer in writers:
        writer.join(CONSUMER_SECONDS)
    assert not failures
    assert seen == expected
    assert numbers == sorted(set(numbers))
    assert streams.get_records(ShardIterator=position)["Records"] == []
