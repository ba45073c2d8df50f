"""`larder serve --throttle`: a program that is turned away tries again as its SDK has it, and gets through."""

import os
import subprocess
import urllib.request

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

REASON = "TableWriteProvisionedThroughputExceeded"


@pytest.fixture(scope="module")
def throttled():
    """The address of a server that enforces throughput."""
    binary = os.environ.get("LARDER_BIN")
    if not binary:
        pytest.skip("LARDER_BIN does not name the binary to serve with")
    server = subprocess.Popen(
        [binary, "serve", "--memory", "--dynamodb", "127.0.0.1:0", "--throttle"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield server.stdout.readline().removeprefix("listening on ").strip()
    finally:
        server.terminate()
        server.wait(timeout=30)


def client(url, attempts):
    config = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": attempts})
    return boto3.client("dynamodb", endpoint_url=url, region_name="us-east-1", config=config)


def small_table(url, name, units):
    client(url, 1).create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        ProvisionedThroughput={"ReadCapacityUnits": 100, "WriteCapacityUnits": units},
    )


def throttles(url, table):
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    wanted = f'larder_throttled_requests_total{{table="{table}"'
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(wanted))


def test_one_attempt_is_told_why(throttled):
    small_table(throttled, "once", 1)
    once = client(throttled, 1)
    with pytest.raises(ClientError) as refused:
        for n in range(5):
            once.put_item(TableName="once", Item={"pk": {"S": str(n)}})
    assert refused.value.response["Error"]["Code"] == "ProvisionedThroughputExceededException"
    reasons = refused.value.response["ThrottlingReasons"]
    assert [reason["reason"] for reason in reasons] == [REASON]
    assert reasons[0]["resource"].endswith(":table/once")
    # What an alarm for throttles looks at.
    assert throttles(throttled, "once") == 1


def test_the_sdk_tries_again_until_it_is_let_through(throttled):
    small_table(throttled, "again", 5)
    patient = client(throttled, 10)
    retries = 0
    for n in range(12):
        answer = patient.put_item(TableName="again", Item={"pk": {"S": str(n)}})
        retries += answer["ResponseMetadata"]["RetryAttempts"]
    assert retries > 0
    assert throttles(throttled, "again") == retries
    assert patient.scan(TableName="again", Select="COUNT", ConsistentRead=True)["Count"] == 12


def test_a_batch_is_finished_by_those_who_ask_for_the_rest(throttled):
    small_table(throttled, "rest", 5)
    session = boto3.resource(
        "dynamodb", endpoint_url=throttled, region_name="us-east-1", config=Config(retries={"mode": "standard", "total_max_attempts": 10})
    )
    with session.Table("rest").batch_writer() as batch:
        for n in range(12):
            batch.put_item(Item={"pk": str(n)})
    assert session.Table("rest").scan(Select="COUNT", ConsistentRead=True)["Count"] == 12
    assert throttles(throttled, "rest") > 0
