"""Policies of tables and streams with boto3: kept without `--access`, and enforced together with those of whoever asks."""

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

REGION = "us-east-1"
OTHER_ACCOUNT = "222222222222"
KEY = {"id": {"S": "o-1"}}
ORDERS = {
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
}
NOTHING = {"Version": "2012-10-17", "Statement": []}


def statement(effect, principal, action, resource="*"):
    return {"Effect": effect, "Principal": principal, "Action": action, "Resource": resource}


def policy(*statements):
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def user(name, account="000000000000"):
    return {"AWS": f"arn:aws:iam::{account}:user/{name}"}


class Shop:
    """A server that lets in an administrator, a clerk who may do nothing, and a partner of another account."""

    def __init__(self, url, certificate, keys):
        self.url, self.certificate, self.keys = url, certificate, keys

    @cache
    def client(self, who, service="dynamodb"):
        verify = self.certificate
        return boto3.client(
            service, endpoint_url=self.url, region_name=REGION, config=CONFIG, verify=verify, **self.keys[who]
        )


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    directory = tmp_path_factory.mktemp("shop")
    file = directory / "access.json"
    keys = {
        "admin": access.add(file, "admin")[1],
        "clerk": access.add(file, "clerk", NOTHING)[1],
        "partner": access.add(file, "partner", "all", "--account", OTHER_ACCOUNT)[1],
        "stranger": access.add(file, "stranger", NOTHING, "--account", OTHER_ACCOUNT)[1],
    }
    with access.serve(directory, "--tls", "self-signed", "--access", file) as (url, certificate):
        yield Shop(url, certificate, keys)


@pytest.fixture
def orders(shop, request):
    """A table of each test's own, its ARN and that of its stream."""
    client, name = shop.client("admin"), request.node.name.replace("[", ".").replace("]", "")
    table = client.create_table(TableName=name, **ORDERS)["TableDescription"]
    client.put_item(TableName=name, Item=KEY | {"note": {"S": "hush"}})
    yield table["TableArn"], table["LatestStreamArn"]
    client.delete_table(TableName=name)


def denied(call):
    with pytest.raises(ClientError) as error:
        call()
    assert error.value.response["Error"]["Code"] == "AccessDeniedException", error.value
    return error.value.response["Error"]["Message"]


def test_a_policy_is_kept_returned_and_deleted(shop, orders):
    client, (arn, _) = shop.client("admin"), orders
    text = policy(statement("Allow", user("clerk"), "dynamodb:GetItem", arn))
    revision = client.put_resource_policy(ResourceArn=arn, Policy=text)["RevisionId"]
    got = client.get_resource_policy(ResourceArn=arn)
    assert (got["Policy"], got["RevisionId"]) == (text, revision)
    with pytest.raises(client.exceptions.PolicyNotFoundException):
        client.put_resource_policy(ResourceArn=arn, Policy=text, ExpectedRevisionId="NO_POLICY")
    assert client.put_resource_policy(ResourceArn=arn, Policy=text, ExpectedRevisionId=revision)
    assert client.delete_resource_policy(ResourceArn=arn, ExpectedRevisionId=revision)["RevisionId"] == revision
    with pytest.raises(client.exceptions.PolicyNotFoundException):
        client.get_resource_policy(ResourceArn=arn)
    client.delete_resource_policy(ResourceArn=arn)


def test_within_an_account_the_policy_of_the_table_is_enough(shop, orders):
    admin, clerk, (arn, _) = shop.client("admin"), shop.client("clerk"), orders
    told = denied(lambda: clerk.get_item(TableName=arn, Key=KEY))
    assert told.endswith("because no identity-based policy allows the dynamodb:GetItem action")
    admin.put_resource_policy(
        ResourceArn=arn, Policy=policy(statement("Allow", user("clerk"), "dynamodb:GetItem", arn))
    )
    assert clerk.get_item(TableName=arn, Key=KEY)["Item"]["note"] == {"S": "hush"}
    denied(lambda: clerk.put_item(TableName=arn, Item=KEY))
    admin.delete_resource_policy(ResourceArn=arn)
    denied(lambda: clerk.get_item(TableName=arn, Key=KEY))


def test_an_account_that_is_named_leaves_it_to_its_own_policies(shop, orders):
    admin, clerk, (arn, _) = shop.client("admin"), shop.client("clerk"), orders
    admin.put_resource_policy(
        ResourceArn=arn, Policy=policy(statement("Allow", {"AWS": "000000000000"}, "dynamodb:*"))
    )
    denied(lambda: clerk.get_item(TableName=arn, Key=KEY))


def test_an_explicit_deny_wins(shop, orders):
    admin, (arn, _) = shop.client("admin"), orders
    admin.put_resource_policy(ResourceArn=arn, Policy=policy(statement("Deny", "*", "dynamodb:DeleteItem")))
    told = denied(lambda: admin.delete_item(TableName=arn, Key=KEY))
    assert told.endswith("with an explicit deny in a resource-based policy")
    assert admin.get_item(TableName=arn, Key=KEY)["Item"]["note"] == {"S": "hush"}
    admin.delete_resource_policy(ResourceArn=arn)
    admin.delete_item(TableName=arn, Key=KEY)


def test_from_another_account_both_have_to_allow(shop, orders):
    admin, partner, stranger = (shop.client(who) for who in ("admin", "partner", "stranger"))
    arn, _ = orders
    told = denied(lambda: partner.get_item(TableName=arn, Key=KEY))
    assert told.endswith("because no resource-based policy allows the dynamodb:GetItem action")
    both = {"AWS": [user("partner", OTHER_ACCOUNT)["AWS"], user("stranger", OTHER_ACCOUNT)["AWS"]]}
    admin.put_resource_policy(ResourceArn=arn, Policy=policy(statement("Allow", both, "dynamodb:GetItem")))
    assert partner.get_item(TableName=arn, Key=KEY)["Item"]["note"] == {"S": "hush"}
    denied(lambda: partner.scan(TableName=arn))
    told = denied(lambda: stranger.get_item(TableName=arn, Key=KEY))
    assert told.endswith("because no identity-based policy allows the dynamodb:GetItem action")


def test_a_stream_is_read_by_its_own_policy(shop, orders):
    admin, clerk = shop.client("admin"), shop.client("clerk", "dynamodbstreams")
    arn, stream = orders
    admin.put_resource_policy(ResourceArn=arn, Policy=policy(statement("Allow", user("clerk"), "dynamodb:*")))
    denied(lambda: clerk.describe_stream(StreamArn=stream))
    reads = ["dynamodb:DescribeStream", "dynamodb:GetShardIterator", "dynamodb:GetRecords"]
    admin.put_resource_policy(ResourceArn=stream, Policy=policy(statement("Allow", user("clerk"), reads)))
    (shard,) = clerk.describe_stream(StreamArn=stream)["StreamDescription"]["Shards"]
    iterator = clerk.get_shard_iterator(
        StreamArn=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    (record,) = clerk.get_records(ShardIterator=iterator)["Records"]
    assert record["dynamodb"]["Keys"] == KEY
    admin.delete_resource_policy(ResourceArn=stream)
    denied(lambda: clerk.get_records(ShardIterator=iterator))


def test_a_table_is_made_with_its_policy_by_whoever_may_give_it_one(shop):
    admin, clerk = shop.client("admin"), shop.client("clerk")
    text = policy(statement("Allow", user("clerk"), ["dynamodb:GetItem", "dynamodb:DeleteTable"]))
    arn = admin.create_table(TableName="made.so", ResourcePolicy=text, **ORDERS)["TableDescription"]["TableArn"]
    assert "Item" not in clerk.get_item(TableName=arn, Key=KEY)
    clerk.delete_table(TableName=arn)
    admin.create_table(TableName="made.so", **ORDERS)
    denied(lambda: clerk.get_item(TableName=arn, Key=KEY))
    admin.delete_table(TableName="made.so")


def test_what_is_no_policy_is_refused_with_what_is_wrong_with_it(shop, orders):
    admin, (arn, _) = shop.client("admin"), orders
    for text, part in [
        ("nonsense", "it cannot be read"),
        (policy({"Effect": "Allow", "Action": "*", "Resource": "*"}), "Principal is missing"),
        (policy(statement("Allow", "*", "dynamodb:GetRecords")), 'action names are invalid: "dynamodb:GetRecords"'),
    ]:
        with pytest.raises(ClientError) as error:
            admin.put_resource_policy(ResourceArn=arn, Policy=text)
        answer = error.value.response["Error"]
        assert answer["Code"] == "ValidationException"
        assert answer["Message"].startswith("One or more parameter values were invalid: Invalid policy document: ")
        assert part in answer["Message"]
