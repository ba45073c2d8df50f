"""What every Python test shares: clients for ENDPOINT, and tables that are gone when the test ends.

Each response that botocore reads here, of every test, has its `x-amz-crc32` compared with its body.
Clients make one attempt, so that an error a retry would have hidden is seen, unless throughput is enforced.
"""

import os
import uuid
import zlib

import boto3
import pytest
from botocore.config import Config
from botocore.waiter import WaiterModel, create_waiter_with_client

from systems import RETRIES, credentials

ENDPOINT = os.environ["ENDPOINT"]
REGION = "us-east-1"

# Set before any session is made, and read by the CLI as well: nothing of the machine's own setup counts.
os.environ.update(
    {variable.upper(): value for variable, value in credentials().items()},
    AWS_DEFAULT_REGION=REGION,
    AWS_CONFIG_FILE=os.devnull,
    AWS_SHARED_CREDENTIALS_FILE=os.devnull,
    AWS_EC2_METADATA_DISABLED="true",
    AWS_PAGER="",
    NO_PROXY="127.0.0.1,localhost",
    no_proxy="127.0.0.1,localhost",
)
for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"):
    os.environ.pop(name, None)

CONFIG = Config(
    connect_timeout=5,
    read_timeout=30,
    max_pool_connections=32,
    retries=RETRIES,
)

# The table waiters say nothing of indexes, so these are described here.
INDEX_WAITERS = WaiterModel(
    {
        "version": 2,
        "waiters": {
            "IndexesActive": {
                "operation": "DescribeTable",
                "delay": 1,
                "maxAttempts": 60,
                "acceptors": [
                    {
                        "matcher": "pathAll",
                        "argument": "Table.[TableStatus, GlobalSecondaryIndexes[].IndexStatus][]",
                        "expected": "ACTIVE",
                        "state": "success",
                    }
                ],
            },
            "IndexesGone": {
                "operation": "DescribeTable",
                "delay": 1,
                "maxAttempts": 60,
                "acceptors": [
                    {
                        "matcher": "path",
                        "argument": "Table.TableStatus == 'ACTIVE' && !(Table.GlobalSecondaryIndexes)",
                        "expected": True,
                        "state": "success",
                    }
                ],
            },
        },
    }
)


def check_crc32(response_dict, **_):
    headers = response_dict["headers"]
    assert int(headers["x-amz-crc32"]) == zlib.crc32(response_dict["body"])
    assert headers["x-amzn-requestid"]


@pytest.fixture(scope="session")
def session():
    session = boto3.session.Session(region_name=REGION)
    session.events.register("before-parse.dynamodb", check_crc32)
    return session


@pytest.fixture(scope="session")
def client(session):
    return session.client("dynamodb", endpoint_url=ENDPOINT, config=CONFIG)


@pytest.fixture(scope="session")
def resource(session):
    return session.resource("dynamodb", endpoint_url=ENDPOINT, config=CONFIG)


@pytest.fixture(scope="session")
def resource_of(session):
    """Makes the resource of a program, which is let in by this name where the server asks."""
    return lambda name: session.resource("dynamodb", endpoint_url=ENDPOINT, config=CONFIG, **credentials(name))


@pytest.fixture
def name(client):
    """Makes table names that no one else has, and deletes those tables afterwards."""
    made = []

    def name(label):
        made.append(f"{label}-{uuid.uuid4().hex}")
        return made[-1]

    yield name
    for table in made:
        try:
            client.delete_table(TableName=table)
        except client.exceptions.ResourceNotFoundException:
            pass


@pytest.fixture
def index_waiter(client):
    return lambda name: create_waiter_with_client(name, INDEX_WAITERS, client)


@pytest.fixture
def orders(client, name):
    """The name of a table of orders: by customer and order number, with an index of each kind.

    `by_status` is global, by status then total, and holds every attribute.
    `by_date` is local, by customer then date, and holds keys and `note`.
    """
    table = name("orders")
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": "customer", "AttributeType": "S"},
            {"AttributeName": "number", "AttributeType": "N"},
            {"AttributeName": "status", "AttributeType": "S"},
            {"AttributeName": "total", "AttributeType": "N"},
            {"AttributeName": "date", "AttributeType": "S"},
        ],
        KeySchema=[
            {"AttributeName": "customer", "KeyType": "HASH"},
            {"AttributeName": "number", "KeyType": "RANGE"},
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "by_status",
                "KeySchema": [
                    {"AttributeName": "status", "KeyType": "HASH"},
                    {"AttributeName": "total", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
        LocalSecondaryIndexes=[
            {
                "IndexName": "by_date",
                "KeySchema": [
                    {"AttributeName": "customer", "KeyType": "HASH"},
                    {"AttributeName": "date", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["note"]},
            }
        ],
    )
    client.get_waiter("table_exists").wait(
        TableName=table, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    return table
