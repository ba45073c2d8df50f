"""Tables through the boto3 client: their making and ending, indexes, billing, TTL, tags, limits."""

import datetime

import pytest
from botocore.exceptions import ClientError

SOON = {"Delay": 1, "MaxAttempts": 60}


def create(client, table, **more):
    request = {
        "TableName": table,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    }
    description = client.create_table(**(request | more))["TableDescription"]
    client.get_waiter("table_exists").wait(TableName=table, WaiterConfig=SOON)
    return description


def refused(code, call, **request):
    with pytest.raises(ClientError) as caught:
        call(**request)
    assert caught.value.response["Error"]["Code"] == code
    return caught.value.response["Error"]["Message"]


def test_a_table_describes_what_was_asked_for(client, orders):
    table = client.describe_table(TableName=orders)["Table"]
    assert table["TableName"] == orders
    assert table["TableStatus"] == "ACTIVE"
    assert table["ItemCount"] == 0
    assert table["TableArn"].startswith("arn:aws:dynamodb:")
    assert table["TableArn"].endswith(f":table/{orders}")
    assert table["TableId"]
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    age = datetime.datetime.now(datetime.timezone.utc) - table["CreationDateTime"]
    assert abs(age) < datetime.timedelta(minutes=5)
    assert table["KeySchema"] == [
        {"AttributeName": "customer", "KeyType": "HASH"},
        {"AttributeName": "number", "KeyType": "RANGE"},
    ]
    (status,) = table["GlobalSecondaryIndexes"]
    assert status["IndexName"] == "by_status"
    assert status["IndexStatus"] == "ACTIVE"
    assert status["Projection"] == {"ProjectionType": "ALL"}
    assert status["IndexArn"] == table["TableArn"] + "/index/by_status"
    (date,) = table["LocalSecondaryIndexes"]
    assert date["IndexName"] == "by_date"
    assert date["Projection"] == {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["note"]}


def test_a_name_is_taken_until_its_table_is_gone(client, name):
    table = name("taken")
    create(client, table)
    with pytest.raises(client.exceptions.ResourceInUseException):
        create(client, table)
    client.delete_table(TableName=table)
    client.get_waiter("table_not_exists").wait(TableName=table, WaiterConfig=SOON)
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.describe_table(TableName=table)
    create(client, table)


def test_a_table_that_never_was_cannot_be_deleted(client, name):
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.delete_table(TableName=name("never"))


def test_pages_of_tables_hold_each_name_once_and_in_order(client, name):
    mine = [name(f"listed{i}") for i in range(5)]
    for table in mine:
        create(client, table)
    pages = list(client.get_paginator("list_tables").paginate(PaginationConfig={"PageSize": 2}))
    assert all(len(page["TableNames"]) <= 2 for page in pages)
    assert len(pages) >= 3
    listed = [table for page in pages for table in page["TableNames"]]
    assert listed == sorted(set(listed))
    assert set(mine) <= set(listed)


def test_a_new_index_holds_old_items_and_a_removed_one_answers_no_more(client, name, index_waiter):
    table = name("indexed")
    create(client, table)
    for i in range(20):
        colour = {"colour": {"S": ["red", "blue"][i % 2]}} if i < 15 else {}
        client.put_item(TableName=table, Item={"pk": {"S": f"item{i}"}, **colour})
    client.put_item(TableName=table, Item={"pk": {"S": "odd"}, "colour": {"N": "1"}})

    client.update_table(
        TableName=table,
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "colour", "AttributeType": "S"},
        ],
        GlobalSecondaryIndexUpdates=[
            {
                "Create": {
                    "IndexName": "by_colour",
                    "KeySchema": [{"AttributeName": "colour", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            }
        ],
    )
    index_waiter("IndexesActive").wait(TableName=table)

    red = {
        "TableName": table,
        "IndexName": "by_colour",
        "KeyConditionExpression": "colour = :c",
        "ExpressionAttributeValues": {":c": {"S": "red"}},
    }
    found = client.query(**red)["Items"]
    assert sorted(item["pk"]["S"] for item in found) == sorted(f"item{i}" for i in range(0, 15, 2))
    assert client.scan(TableName=table, IndexName="by_colour")["Count"] == 15

    # A write after the backfill is refused where the backfill passed an item over.
    refused(
        "ValidationException",
        client.put_item,
        TableName=table,
        Item={"pk": {"S": "late"}, "colour": {"N": "1"}},
    )

    client.update_table(
        TableName=table, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "by_colour"}}]
    )
    index_waiter("IndexesGone").wait(TableName=table)
    refused("ValidationException", client.query, **red)
    assert client.scan(TableName=table)["Count"] == 21


def test_billing_changes_both_ways(client, name):
    table = name("billed")
    create(
        client,
        table,
        BillingMode="PROVISIONED",
        ProvisionedThroughput={"ReadCapacityUnits": 3, "WriteCapacityUnits": 4},
    )
    described = client.describe_table(TableName=table)["Table"]
    assert described["ProvisionedThroughput"]["ReadCapacityUnits"] == 3
    assert described["ProvisionedThroughput"]["WriteCapacityUnits"] == 4

    client.update_table(TableName=table, BillingMode="PAY_PER_REQUEST")
    client.get_waiter("table_exists").wait(TableName=table, WaiterConfig=SOON)
    described = client.describe_table(TableName=table)["Table"]
    assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert described["ProvisionedThroughput"]["ReadCapacityUnits"] == 0


def test_a_protected_table_stays(client, name):
    table = name("protected")
    create(client, table, DeletionProtectionEnabled=True)
    assert client.describe_table(TableName=table)["Table"]["DeletionProtectionEnabled"] is True
    refused("ValidationException", client.delete_table, TableName=table)
    client.update_table(TableName=table, DeletionProtectionEnabled=False)
    client.get_waiter("table_exists").wait(TableName=table, WaiterConfig=SOON)
    client.delete_table(TableName=table)
    client.get_waiter("table_not_exists").wait(TableName=table, WaiterConfig=SOON)


def test_time_to_live_is_enabled_once(client, name):
    table = name("expiring")
    create(client, table)
    described = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    assert described == {"TimeToLiveStatus": "DISABLED"}

    specification = {"Enabled": True, "AttributeName": "expires"}
    answer = client.update_time_to_live(TableName=table, TimeToLiveSpecification=specification)
    assert answer["TimeToLiveSpecification"] == specification
    described = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    assert described["TimeToLiveStatus"] in ("ENABLING", "ENABLED")
    assert described["AttributeName"] == "expires"

    message = refused(
        "ValidationException",
        client.update_time_to_live,
        TableName=table,
        TimeToLiveSpecification=specification,
    )
    assert message == "TimeToLive is already enabled"


def test_tags_are_added_replaced_and_removed(client, name):
    table = name("tagged")
    arn = create(client, table, Tags=[{"Key": "team", "Value": "kitchen"}])["TableArn"]

    def tags():
        pages = client.get_paginator("list_tags_of_resource").paginate(ResourceArn=arn)
        return {tag["Key"]: tag["Value"] for page in pages for tag in page["Tags"]}

    assert tags() == {"team": "kitchen"}
    client.tag_resource(
        ResourceArn=arn,
        Tags=[{"Key": "team", "Value": "cellar"}, {"Key": "cost", "Value": ""}],
    )
    assert tags() == {"team": "cellar", "cost": ""}
    client.untag_resource(ResourceArn=arn, TagKeys=["team", "absent"])
    assert tags() == {"cost": ""}


def test_limits_are_described(client):
    limits = client.describe_limits()
    for limit in (
        "AccountMaxReadCapacityUnits",
        "AccountMaxWriteCapacityUnits",
        "TableMaxReadCapacityUnits",
        "TableMaxWriteCapacityUnits",
    ):
        assert limits[limit] > 0


def test_endpoints_are_described(client):
    (endpoint,) = client.describe_endpoints()["Endpoints"]
    assert endpoint["Address"]
    assert endpoint["CachePeriodInMinutes"] > 0
