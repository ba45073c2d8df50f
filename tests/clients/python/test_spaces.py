"""`larder serve --access`: each region of each account has its own tables, and ARNs that say so."""

import json
import os
from functools import cache

import boto3
import pytest
from botocore.exceptions import ClientError
from conftest import CONFIG

import access

if not os.environ.get("LARDER_BIN"):
    pytest.skip("LARDER_BIN does not name the binary to serve with", allow_module_level=True)

KEY = {"id": {"S": "o-1"}}
ORDERS = {
    "TableName": "orders",
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
}
PLACES = [(account, region) for account in ("111111111111", "222222222222") for region in ("us-east-1", "eu-north-1")]


class World:
    """A server that lets in one of each account, who may do everything that is theirs."""

    def __init__(self, url, certificate, keys):
        self.url, self.certificate, self.keys = url, certificate, keys

    @cache
    def client(self, account, region, service="dynamodb"):
        where = {"endpoint_url": self.url, "region_name": region, "verify": self.certificate}
        return boto3.client(service, config=CONFIG, **where, **self.keys[account])


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """With a table of one name everywhere, in which is where it is."""
    directory = tmp_path_factory.mktemp("world")
    file = directory / "access.json"
    keys = {account: access.add(file, "admin", "all", "--account", account)[1] for account, _ in PLACES[::2]}
    with access.serve(directory, "--tls", "self-signed", "--access", file) as (url, certificate):
        world = World(url, certificate, keys)
        for account, region in PLACES:
            client = world.client(account, region)
            assert client.list_tables()["TableNames"] == []
            client.create_table(**ORDERS)
            client.put_item(TableName="orders", Item=KEY | {"place": {"S": f"{region}:{account}"}})
        yield world


def code(call):
    with pytest.raises(ClientError) as error:
        call()
    return error.value.response["Error"]["Code"]


@pytest.mark.parametrize("account, region", PLACES)
def test_everything_that_is_answered_says_where_it_is(world, account, region):
    client, streams = world.client(account, region), world.client(account, region, "dynamodbstreams")
    arn = f"arn:aws:dynamodb:{region}:{account}:table/orders"
    table = client.describe_table(TableName="orders")["Table"]
    assert table["TableArn"] == arn
    assert table["LatestStreamArn"].startswith(f"{arn}/stream/")
    for name in ("orders", arn):
        assert client.get_item(TableName=name, Key=KEY)["Item"]["place"] == {"S": f"{region}:{account}"}
    assert client.list_tables()["TableNames"] == ["orders"]

    (stream,) = streams.list_streams()["Streams"]
    assert stream["StreamArn"] == table["LatestStreamArn"]
    (shard,) = streams.describe_stream(StreamArn=stream["StreamArn"])["StreamDescription"]["Shards"]
    iterator = streams.get_shard_iterator(
        StreamArn=stream["StreamArn"], ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    assert {record["awsRegion"] for record in streams.get_records(ShardIterator=iterator)["Records"]} == {region}

    backup = client.create_backup(TableName="orders", BackupName="nightly")["BackupDetails"]["BackupArn"]
    assert backup.startswith(f"{arn}/backup/")
    listed = client.list_backups()["BackupSummaries"]
    assert [(one["BackupArn"], one["TableArn"]) for one in listed] == [(backup, arn)]

    client.tag_resource(ResourceArn=arn, Tags=[{"Key": "place", "Value": region}])
    assert client.list_tags_of_resource(ResourceArn=arn)["Tags"] == [{"Key": "place", "Value": region}]


def test_what_is_of_another_account_is_denied_and_of_another_region_unknown(world):
    client = world.client("111111111111", "us-east-1")
    theirs, far = (f"arn:aws:dynamodb:{place}:table/orders" for place in ("us-east-1:222222222222", "eu-north-1:111111111111"))
    assert code(lambda: client.get_item(TableName=theirs, Key=KEY)) == "AccessDeniedException"
    assert code(lambda: client.list_tags_of_resource(ResourceArn=theirs)) == "AccessDeniedException"
    assert code(lambda: client.get_item(TableName=far, Key=KEY)) == "ResourceNotFoundException"


def test_a_table_is_used_from_another_account_by_its_arn_and_its_policy(world):
    owner, guest = (world.client(account, "us-east-1") for account in ("222222222222", "111111111111"))
    arn = "arn:aws:dynamodb:us-east-1:222222222222:table/orders"
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": "111111111111"},
        "Action": ["dynamodb:GetItem", "dynamodb:BatchGetItem"],
        "Resource": arn,
    }
    owner.put_resource_policy(ResourceArn=arn, Policy=json.dumps({"Version": "2012-10-17", "Statement": statement}))
    got = guest.get_item(TableName=arn, Key=KEY, ReturnConsumedCapacity="TOTAL")
    assert got["Item"]["place"] == {"S": "us-east-1:222222222222"}
    assert got["ConsumedCapacity"]["TableName"] == arn
    # A name is still the guest's own, and both can be read at once.
    wanted = {"Keys": [KEY]}
    answer = guest.batch_get_item(RequestItems={"orders": wanted, arn: wanted})["Responses"]
    assert {name: items[0]["place"]["S"] for name, items in answer.items()} == {
        "orders": "us-east-1:111111111111",
        arn: "us-east-1:222222222222",
    }
    assert code(lambda: guest.put_item(TableName=arn, Item=KEY)) == "AccessDeniedException"
    owner.delete_resource_policy(ResourceArn=arn)
    assert code(lambda: guest.get_item(TableName=arn, Key=KEY)) == "AccessDeniedException"
