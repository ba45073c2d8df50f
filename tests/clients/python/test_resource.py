"""Items through the boto3 resource: Python's own types, its condition builders, its batch writer."""

import decimal
from decimal import Decimal

import pytest
from boto3.dynamodb.conditions import Attr, Key
from boto3.dynamodb.types import Binary


@pytest.fixture
def table(resource, orders):
    return resource.Table(orders)


@pytest.fixture
def months(table):
    """Twelve orders of one customer, one a month, every third one shipped."""
    with table.batch_writer() as batch:
        for i in range(1, 13):
            batch.put_item(
                Item={
                    "customer": "ann",
                    "number": i,
                    "status": "shipped" if i % 3 == 0 else "open",
                    "total": Decimal(i) / 4,
                    "date": f"2024-{i:02}",
                    "tags": {"even" if i % 2 == 0 else "odd", "all"},
                    "basket": [f"line{n}" for n in range(i)],
                    "address": {"city": "Lund" if i < 7 else "Ystad"},
                }
                | ({"note": f"note {i}"} if i > 10 else {})
            )
    return table


def numbers(answer):
    return [int(item["number"]) for item in answer["Items"]]


def test_a_table_lives_and_ends(resource, name):
    table = resource.create_table(
        TableName=name("lives"),
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "B"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
    )
    table.wait_until_exists(WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    table.reload()
    assert table.table_status == "ACTIVE"
    assert table.key_schema == [{"AttributeName": "pk", "KeyType": "HASH"}]
    assert table.name in {each.name for each in resource.tables.all()}
    table.put_item(Item={"pk": b"\x00\x01", "v": 1})
    assert table.get_item(Key={"pk": b"\x00\x01"})["Item"] == {"pk": Binary(b"\x00\x01"), "v": 1}
    table.delete()
    table.wait_until_not_exists(WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    assert table.name not in {each.name for each in resource.tables.all()}


def test_python_values_come_back_as_they_went(table):
    item = {
        "customer": "types",
        "number": Decimal("1.5"),
        "decimal": Decimal("3.1415926535897932384626433832795028842"),
        "longest": Decimal("-99999999999999999999999999999999999999"),
        "smallest": Decimal("-1E-130"),
        "integer": -42,
        "binary": Binary(bytes(range(256))),
        "text": "日本",
        "nothing": None,
        "truth": True,
        "list": [1, "two", None, [Decimal("3.5")], {"four": False}],
        "map": {"a": {"b": {"c": []}}},
        "words": {"a", "b"},
        "figures": {Decimal("1"), Decimal("2.5")},
        "blobs": {Binary(b"x"), Binary(b"y")},
    }
    table.put_item(Item=item)
    found = table.get_item(Key={"customer": "types", "number": Decimal("1.5")})["Item"]
    assert found == item
    assert isinstance(found["integer"], Decimal)
    assert isinstance(found["binary"], Binary)


def test_numbers_of_more_than_38_digits_never_leave_the_client(table):
    with pytest.raises(decimal.Inexact):
        table.put_item(Item={"customer": "a", "number": 1, "n": Decimal("1." + "1" * 39)})


def test_the_batch_writer_sends_everything_and_keeps_the_last_of_a_key(table):
    with table.batch_writer(overwrite_by_pkeys=["customer", "number"]) as batch:
        for i in range(70):
            batch.put_item(Item={"customer": "batch", "number": i, "round": 1})
            batch.put_item(Item={"customer": "batch", "number": i, "round": 2})
    answer = table.query(KeyConditionExpression=Key("customer").eq("batch"))
    assert numbers(answer) == list(range(70))
    assert {item["round"] for item in answer["Items"]} == {2}

    with table.batch_writer() as batch:
        for i in range(69):
            batch.delete_item(Key={"customer": "batch", "number": i})
    assert numbers(table.scan()) == [69]


def test_key_conditions_choose_a_range(months):
    number, ann = Key("number"), Key("customer").eq("ann")
    for condition, expected in [
        (ann, range(1, 13)),
        (ann & number.eq(5), [5]),
        (ann & number.lt(4), [1, 2, 3]),
        (ann & number.lte(4), [1, 2, 3, 4]),
        (ann & number.gt(10), [11, 12]),
        (ann & number.gte(10), [10, 11, 12]),
        (ann & number.between(3, 6), [3, 4, 5, 6]),
        (Key("customer").eq("bob"), []),
    ]:
        assert numbers(months.query(KeyConditionExpression=condition)) == list(expected)

    by_date = Key("customer").eq("ann") & Key("date").begins_with("2024-1")
    answer = months.query(
        IndexName="by_date", KeyConditionExpression=by_date, ScanIndexForward=False
    )
    assert numbers(answer) == [12, 11, 10]
    assert [item.get("note") for item in answer["Items"]] == ["note 12", "note 11", None]

    answer = months.query(
        IndexName="by_status",
        KeyConditionExpression=Key("status").eq("shipped") & Key("total").gt(1),
        ProjectionExpression="#n, address.city, tags",
        ExpressionAttributeNames={"#n": "number"},
    )
    assert answer["Items"][0] == {
        "number": 6,
        "address": {"city": "Lund"},
        "tags": {"even", "all"},
    }
    assert numbers(answer) == [6, 9, 12]


def test_filters_keep_what_they_describe(months):
    for condition, expected in [
        (Attr("status").eq("shipped"), [3, 6, 9, 12]),
        (Attr("status").ne("open"), [3, 6, 9, 12]),
        (Attr("total").lt(1), [1, 2, 3]),
        (Attr("total").between(Decimal("1.25"), Decimal("1.75")), [5, 6, 7]),
        (Attr("number").is_in([2, 4, 99]), [2, 4]),
        (Attr("note").exists(), [11, 12]),
        (Attr("note").not_exists() & Attr("number").gte(9), [9, 10]),
        (Attr("note").contains("2"), [12]),
        (Attr("tags").contains("even"), [2, 4, 6, 8, 10, 12]),
        (Attr("basket").contains("line10"), [11, 12]),
        (Attr("basket").size().lte(2), [1, 2]),
        (Attr("basket[3]").eq("line3") & Attr("number").lt(6), [4, 5]),
        (Attr("tags").attribute_type("SS") & Attr("number").eq(1), [1]),
        (Attr("note").attribute_type("N"), []),
        (Attr("address.city").eq("Ystad"), range(7, 13)),
        (Attr("date").begins_with("2024-0"), range(1, 10)),
        (~(Attr("number").gt(2)), [1, 2]),
        (Attr("number").eq(1) | (Attr("number").eq(2) & Attr("status").eq("open")), [1, 2]),
        (Attr("number").eq("1"), []),
    ]:
        answer = months.scan(FilterExpression=condition)
        assert sorted(numbers(answer)) == list(expected), condition.get_expression()
        assert answer["ScannedCount"] == 12


def test_a_scan_resumes_at_its_last_key(months):
    found, request = [], {"Limit": 5}
    while True:
        answer = months.scan(**request)
        found += numbers(answer)
        if "LastEvaluatedKey" not in answer:
            break
        assert len(found) <= 12
        request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
    assert found == list(range(1, 13))


def test_a_condition_guards_a_write(months):
    failed = months.meta.client.exceptions.ConditionalCheckFailedException
    with pytest.raises(failed):
        months.put_item(
            Item={"customer": "ann", "number": 1}, ConditionExpression=Attr("customer").not_exists()
        )
    with pytest.raises(failed) as caught:
        months.update_item(
            Key={"customer": "ann", "number": 1},
            UpdateExpression="SET #s = :s",
            ExpressionAttributeNames={"#s": "status"},
            ExpressionAttributeValues={":s": "paid"},
            ConditionExpression=Attr("total").gt(1) & Attr("status").eq("open"),
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    # The resource turns answers into Python values, but leaves errors as they came.
    assert caught.value.response["Item"]["status"] == {"S": "open"}
    updated = months.update_item(
        Key={"customer": "ann", "number": 12},
        UpdateExpression="SET #s = :s, address.zip = :z REMOVE note",
        ExpressionAttributeNames={"#s": "status"},
        ExpressionAttributeValues={":s": "paid", ":z": None},
        ConditionExpression=Attr("total").gt(1) & Attr("status").eq("shipped"),
        ReturnValues="UPDATED_NEW",
    )
    assert updated["Attributes"] == {"status": "paid", "address": {"zip": None}}


def test_batch_get_takes_python_keys(resource, months):
    answer = resource.batch_get_item(
        RequestItems={
            months.name: {
                "Keys": [{"customer": "ann", "number": i} for i in (2, 4, 99)],
                "ProjectionExpression": "#d",
                "ExpressionAttributeNames": {"#d": "date"},
            }
        }
    )
    found = sorted(item["date"] for item in answer["Responses"][months.name])
    assert found == ["2024-02", "2024-04"]
    assert answer["UnprocessedKeys"] == {}


def test_legacy_parameters_still_work(months):
    answer = months.query(
        KeyConditions={
            "customer": {"AttributeValueList": ["ann"], "ComparisonOperator": "EQ"},
            "number": {"AttributeValueList": [3, 9], "ComparisonOperator": "BETWEEN"},
        },
        QueryFilter={"status": {"AttributeValueList": ["shipped"], "ComparisonOperator": "EQ"}},
        AttributesToGet=["number"],
    )
    assert answer["Items"] == [{"number": 3}, {"number": 6}, {"number": 9}]

    updated = months.update_item(
        Key={"customer": "ann", "number": 1},
        AttributeUpdates={
            "total": {"Action": "ADD", "Value": 10},
            "note": {"Action": "PUT", "Value": "put"},
            "date": {"Action": "DELETE"},
        },
        Expected={"status": {"Value": "open", "Exists": True}},
        ReturnValues="ALL_NEW",
    )["Attributes"]
    assert (updated["total"], updated["note"]) == (Decimal("10.25"), "put")
    assert "date" not in updated
    with pytest.raises(months.meta.client.exceptions.ConditionalCheckFailedException):
        months.delete_item(
            Key={"customer": "ann", "number": 1}, Expected={"status": {"Exists": False}}
        )
