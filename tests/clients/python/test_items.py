"""Items through the boto3 client: every type, every write, reads in pages, capacity, errors."""

import concurrent.futures

import pytest
from botocore.exceptions import ClientError


def key(customer, number):
    return {"customer": {"S": customer}, "number": {"N": str(number)}}


def order(customer, number, status="open", total=10, **more):
    return key(customer, number) | {"status": {"S": status}, "total": {"N": str(total)}} | more


def fill(client, table, customer, count, **more):
    for start in range(0, count, 25):
        puts = [
            {"PutRequest": {"Item": order(customer, i, total=i, **more)}}
            for i in range(start, min(start + 25, count))
        ]
        answer = client.batch_write_item(RequestItems={table: puts})
        assert answer["UnprocessedItems"] == {}


def numbers(items):
    return [int(item["number"]["N"]) for item in items]


def test_every_type_comes_back_as_it_went(client, orders):
    item = key("types", 1) | {
        "string": {"S": 'æøå 日本 \U0001f980 "quoted" \\ \n'},
        "empty": {"S": ""},
        "digits": {"N": "12345678901234567890123456789012345678"},
        "small": {"N": "-0.00000000000000000000000000000000000001"},
        "binary": {"B": bytes(range(256))},
        "yes": {"BOOL": True},
        "no": {"BOOL": False},
        "null": {"NULL": True},
        "list": {"L": [{"S": "a"}, {"N": "1"}, {"L": []}, {"M": {}}]},
        "map": {"M": {"deep": {"M": {"er": {"L": [{"NULL": True}]}}}}},
        "strings": {"SS": ["a", "b"]},
        "numbers": {"NS": ["1", "2.5"]},
        "binaries": {"BS": [b"\x00", b"\xff"]},
    }
    client.put_item(TableName=orders, Item=item)
    found = client.get_item(TableName=orders, Key=key("types", 1), ConsistentRead=True)["Item"]
    for name in ("strings", "numbers", "binaries"):
        for kind in found[name]:
            found[name][kind].sort()
    assert found == item


def test_numbers_are_kept_in_their_shortest_form(client, orders):
    for sent, kept in [
        ("1.0", "1"),
        ("-0", "0"),
        ("007.50", "7.5"),
        ("1E3", "1000"),
        ("12e-1", "1.2"),
    ]:
        client.put_item(TableName=orders, Item=key("numbers", 1) | {"n": {"N": sent}})
        found = client.get_item(TableName=orders, Key=key("numbers", 1))["Item"]
        assert found["n"] == {"N": kept}, sent
    # The same number, written otherwise, is the same key.
    found = client.get_item(TableName=orders, Key=key("numbers", "1.00"))
    assert found["Item"]["number"] == {"N": "1"}


def test_an_absent_item_is_no_error(client, orders):
    answer = client.get_item(TableName=orders, Key=key("nobody", 1))
    assert "Item" not in answer
    answer = client.delete_item(TableName=orders, Key=key("nobody", 1), ReturnValues="ALL_OLD")
    assert "Attributes" not in answer


def test_put_and_delete_return_what_was_there(client, orders):
    first, second = order("back", 1, total=1), order("back", 1, total=2)
    assert "Attributes" not in client.put_item(TableName=orders, Item=first, ReturnValues="ALL_OLD")
    put = client.put_item(TableName=orders, Item=second, ReturnValues="ALL_OLD")
    assert put["Attributes"] == first
    deleted = client.delete_item(TableName=orders, Key=key("back", 1), ReturnValues="ALL_OLD")
    assert deleted["Attributes"] == second
    assert "Item" not in client.get_item(TableName=orders, Key=key("back", 1))


def test_update_expressions_change_what_they_name(client, orders):
    client.put_item(
        TableName=orders,
        Item=order(
            "update",
            1,
            basket={"L": [{"S": "salt"}, {"S": "rice"}]},
            address={"M": {"city": {"S": "Lund"}, "zip": {"S": "22100"}}},
            labels={"SS": ["new", "rush"]},
            seen={"N": "4"},
        ),
    )
    answer = client.update_item(
        TableName=orders,
        Key=key("update", 1),
        UpdateExpression=(
            "SET #s = :paid, #t = #t + :five, address.city = :malmo, created = if_not_exists(created, :now),"
            " basket = list_append(basket, :oil)"
            " REMOVE address.zip ADD seen :one DELETE labels :new"
        ),
        ExpressionAttributeNames={"#s": "status", "#t": "total"},
        ExpressionAttributeValues={
            ":paid": {"S": "paid"},
            ":five": {"N": "5"},
            ":malmo": {"S": "Malmö"},
            ":now": {"S": "2024-05-02"},
            ":oil": {"L": [{"S": "oil"}]},
            ":one": {"N": "1"},
            ":new": {"SS": ["new"]},
        },
        ReturnValues="ALL_NEW",
    )
    after = order(
        "update",
        1,
        "paid",
        15,
        basket={"L": [{"S": "salt"}, {"S": "rice"}, {"S": "oil"}]},
        address={"M": {"city": {"S": "Malmö"}}},
        labels={"SS": ["rush"]},
        seen={"N": "5"},
        created={"S": "2024-05-02"},
    )
    assert answer["Attributes"] == after
    assert client.get_item(TableName=orders, Key=key("update", 1))["Item"] == after


def test_updated_values_are_the_touched_ones_alone(client, orders):
    client.put_item(TableName=orders, Item=order("touched", 1, note={"S": "kept"}))
    for wanted, total in [("UPDATED_OLD", "10"), ("UPDATED_NEW", "12")]:
        answer = client.update_item(
            TableName=orders,
            Key=key("touched", 1),
            UpdateExpression="ADD #t :one",
            ExpressionAttributeNames={"#t": "total"},
            ExpressionAttributeValues={":one": {"N": "1"}},
            ReturnValues=wanted,
        )
        assert answer["Attributes"] == {"total": {"N": total}}


def test_an_update_creates_the_item_unless_it_only_removes(client, orders):
    client.update_item(TableName=orders, Key=key("made", 1), UpdateExpression="REMOVE note")
    assert "Item" not in client.get_item(TableName=orders, Key=key("made", 1))
    client.update_item(
        TableName=orders,
        Key=key("made", 1),
        UpdateExpression="SET note = :n",
        ExpressionAttributeValues={":n": {"S": "hello"}},
    )
    found = client.get_item(TableName=orders, Key=key("made", 1))["Item"]
    assert found == key("made", 1) | {"note": {"S": "hello"}}


def test_a_failed_condition_changes_nothing_and_shows_the_item(client, orders):
    kept = order("condition", 1)
    client.put_item(TableName=orders, Item=kept)
    condition = {
        "TableName": orders,
        "ConditionExpression": "#s = :shipped",
        "ExpressionAttributeNames": {"#s": "status"},
        "ExpressionAttributeValues": {":shipped": {"S": "shipped"}},
    }
    for call, request in [
        (client.put_item, {"Item": order("condition", 1, total=99)}),
        (client.delete_item, {"Key": key("condition", 1)}),
        (client.update_item, {"Key": key("condition", 1), "UpdateExpression": "REMOVE #s"}),
    ]:
        with pytest.raises(client.exceptions.ConditionalCheckFailedException) as caught:
            call(**condition, **request)
        assert "Item" not in caught.value.response
        assert caught.value.response["Error"]["Message"] == "The conditional request failed"
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400

        with pytest.raises(client.exceptions.ConditionalCheckFailedException) as caught:
            call(**condition, **request, ReturnValuesOnConditionCheckFailure="ALL_OLD")
        assert caught.value.response["Item"] == kept
    assert client.get_item(TableName=orders, Key=key("condition", 1))["Item"] == kept


def test_query_pages_are_bounded_and_resume(client, orders):
    fill(client, orders, "pages", 40)
    fill(client, orders, "other", 5)
    request = {
        "TableName": orders,
        "KeyConditionExpression": "customer = :c AND #n >= :from",
        "ExpressionAttributeNames": {"#n": "number"},
        "ExpressionAttributeValues": {":c": {"S": "pages"}, ":from": {"N": "3"}},
    }
    paginator = client.get_paginator("query")
    for forward in (True, False):
        pages = list(
            paginator.paginate(
                **request, ScanIndexForward=forward, PaginationConfig={"PageSize": 7}
            )
        )
        assert all(page["Count"] <= 7 for page in pages)
        found = [number for page in pages for number in numbers(page["Items"])]
        assert found == (list(range(3, 40)) if forward else list(range(39, 2, -1)))

    # What the filter drops still counts towards the page.
    page = client.query(
        **(request | {"ExpressionAttributeNames": {"#n": "number", "#t": "total"}}),
        FilterExpression="NOT #t < :from",
        Limit=10,
        Select="COUNT",
    )
    assert (page["Count"], page["ScannedCount"]) == (10, 10)
    assert "Items" not in page

    # The token that the paginator gives resumes where it stopped.
    first = paginator.paginate(**request, PaginationConfig={"MaxItems": 5}).build_full_result()
    rest = paginator.paginate(
        **request, PaginationConfig={"StartingToken": first["NextToken"]}
    ).build_full_result()
    assert numbers(first["Items"] + rest["Items"]) == list(range(3, 40))


def test_a_page_ends_at_a_megabyte(client, orders):
    note = {"S": "x" * 50_000}
    for i in range(25):
        client.put_item(TableName=orders, Item=key("large", i) | {"note": note})
    pages = list(
        client.get_paginator("query").paginate(
            TableName=orders,
            KeyConditionExpression="customer = :c",
            ExpressionAttributeValues={":c": {"S": "large"}},
        )
    )
    # DynamoDB does not say whether the item that crosses the line is still in.
    assert [page["Count"] for page in pages] in ([20, 5], [21, 4])
    assert numbers(pages[0]["Items"] + pages[1]["Items"]) == list(range(25))


def test_scan_pages_and_segments_see_each_item_once(client, orders):
    for customer in "abcdefgh":
        fill(client, orders, customer, 10)
    paginator = client.get_paginator("scan")

    def scanned(**more):
        pages = paginator.paginate(TableName=orders, PaginationConfig={"PageSize": 9}, **more)
        return [(i["customer"]["S"], i["number"]["N"]) for p in pages for i in p["Items"]]

    expected = sorted((customer, str(i)) for customer in "abcdefgh" for i in range(10))
    assert sorted(scanned()) == expected
    assert sorted(scanned(IndexName="by_status")) == expected
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        segments = pool.map(lambda i: scanned(Segment=i, TotalSegments=4), range(4), timeout=60)
        assert sorted(found for segment in segments for found in segment) == expected


def test_indexes_follow_their_items(client, orders):
    client.put_item(
        TableName=orders,
        Item=order("index", 1, total=7, date={"S": "2024-01"}, note={"S": "n"}, extra={"S": "e"}),
    )
    client.put_item(TableName=orders, Item=order("index", 2, total=5))

    def by_status(status):
        return numbers(
            client.query(
                TableName=orders,
                IndexName="by_status",
                KeyConditionExpression="#s = :s",
                ExpressionAttributeNames={"#s": "status"},
                ExpressionAttributeValues={":s": {"S": status}},
            )["Items"]
        )

    by_date = {
        "TableName": orders,
        "IndexName": "by_date",
        "KeyConditionExpression": "customer = :c AND begins_with(#d, :year)",
        "ExpressionAttributeNames": {"#d": "date"},
        "ExpressionAttributeValues": {":c": {"S": "index"}, ":year": {"S": "2024"}},
    }
    assert by_status("open") == [2, 1]
    # The local index holds less than the item, and reads the rest from the table when asked.
    (held,) = client.query(**by_date)["Items"]
    assert held == key("index", 1) | {"date": {"S": "2024-01"}, "note": {"S": "n"}}
    (whole,) = client.query(**by_date, Select="ALL_ATTRIBUTES", ConsistentRead=True)["Items"]
    assert whole["extra"] == {"S": "e"}

    client.update_item(
        TableName=orders,
        Key=key("index", 1),
        UpdateExpression="SET #s = :s REMOVE #d",
        ExpressionAttributeNames={"#s": "status", "#d": "date"},
        ExpressionAttributeValues={":s": {"S": "paid"}},
    )
    assert (by_status("open"), by_status("paid")) == ([2], [1])
    assert client.query(**by_date)["Items"] == []
    client.delete_item(TableName=orders, Key=key("index", 2))
    assert by_status("open") == []


def test_batches_put_delete_and_get(client, orders):
    fill(client, orders, "batch", 30)
    client.batch_write_item(
        RequestItems={
            orders: [{"DeleteRequest": {"Key": key("batch", i)}} for i in range(0, 30, 2)]
            + [{"PutRequest": {"Item": order("batch", 100)}}]
        }
    )
    answer = client.batch_get_item(
        RequestItems={
            orders: {
                "Keys": [key("batch", i) for i in [*range(30), 100]],
                "ProjectionExpression": "#n",
                "ExpressionAttributeNames": {"#n": "number"},
                "ConsistentRead": True,
            }
        }
    )
    assert answer["UnprocessedKeys"] == {}
    assert sorted(numbers(answer["Responses"][orders])) == [*range(1, 30, 2), 100]
    assert all(item.keys() == {"number"} for item in answer["Responses"][orders])


def test_consumed_capacity_adds_up(client, orders):
    put = client.put_item(
        TableName=orders,
        Item=order("capacity", 1, date={"S": "2024"}, extra={"S": "x" * 5_000}),
        ReturnConsumedCapacity="INDEXES",
    )["ConsumedCapacity"]
    # Five and some kilobytes in the table and the index of everything, under one in the index of keys.
    assert put["TableName"] == orders
    assert put["Table"] == {"CapacityUnits": 5.0}
    assert put["GlobalSecondaryIndexes"] == {"by_status": {"CapacityUnits": 5.0}}
    assert put["LocalSecondaryIndexes"] == {"by_date": {"CapacityUnits": 1.0}}
    assert put["CapacityUnits"] == 11.0

    get = {"TableName": orders, "Key": key("capacity", 1), "ReturnConsumedCapacity": "TOTAL"}
    eventual, consistent = client.get_item(**get), client.get_item(**get, ConsistentRead=True)
    assert eventual["ConsumedCapacity"] == {"TableName": orders, "CapacityUnits": 1.0}
    assert consistent["ConsumedCapacity"] == {"TableName": orders, "CapacityUnits": 2.0}

    absent = client.get_item(**(get | {"Key": key("capacity", 2)}))
    assert absent["ConsumedCapacity"]["CapacityUnits"] == 0.5

    metrics = client.update_item(
        TableName=orders,
        Key=key("capacity", 1),
        UpdateExpression="REMOVE extra",
        ReturnItemCollectionMetrics="SIZE",
    )["ItemCollectionMetrics"]
    assert metrics["ItemCollectionKey"] == {"customer": {"S": "capacity"}}


def test_one_of_many_conditional_writers_wins(client, orders):
    def claim(worker):
        try:
            client.put_item(
                TableName=orders,
                Item=order("claim", 1, worker={"N": str(worker)}),
                ConditionExpression="attribute_not_exists(customer)",
            )
        except client.exceptions.ConditionalCheckFailedException:
            return None
        return worker

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        winners = [won for won in pool.map(claim, range(16), timeout=60) if won is not None]
    (winner,) = winners
    found = client.get_item(TableName=orders, Key=key("claim", 1), ConsistentRead=True)["Item"]
    assert found["worker"] == {"N": str(winner)}


def test_concurrent_additions_are_all_counted(client, orders):
    def add(_):
        client.update_item(
            TableName=orders,
            Key=key("counter", 1),
            UpdateExpression="ADD hits :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(add, range(200), timeout=60))
    found = client.get_item(TableName=orders, Key=key("counter", 1), ConsistentRead=True)["Item"]
    assert found["hits"] == {"N": "200"}


def test_errors_are_the_ones_botocore_knows(client, orders, name):
    def refused(call, **request):
        with pytest.raises(ClientError) as caught:
            call(**request)
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
        return caught.value

    absent = refused(client.get_item, TableName=name("absent"), Key=key("a", 1))
    assert isinstance(absent, client.exceptions.ResourceNotFoundException)
    assert absent.response["Error"]["Message"].startswith("Requested resource not found")

    large = order("large", 1, note={"S": "x" * 400 * 1024})
    condition = {"TableName": orders, "KeyConditionExpression": "customer = :c"}
    for call, request, part in [
        (client.put_item, {"Item": {"customer": {"S": "a"}}}, "Missing the key number in the item"),
        (client.put_item, {"Item": order("a", 1, total="x")}, "cannot be converted"),
        (client.put_item, {"Item": large}, "Item size has exceeded the maximum allowed size"),
        (client.put_item, {"Item": order("", 1)}, "empty string value"),
        (client.put_item, {"Item": order("a", 1, set={"SS": []})}, "may not be empty"),
        (client.put_item, {"Item": order("a", 1, set={"SS": ["x", "x"]})}, "duplicates"),
        (client.get_item, {"Key": {"customer": {"S": "a"}}}, "does not match the schema"),
        (
            client.update_item,
            {"Key": key("a", 1), "UpdateExpression": "SET customer = note"},
            "This attribute is part of the key",
        ),
        (
            client.update_item,
            {"Key": key("a", 1), "UpdateExpression": "SET note = :v"},
            "An expression attribute value used in expression is not defined",
        ),
        (
            client.update_item,
            {"Key": key("a", 1), "UpdateExpression": "SET status = note"},
            "Attribute name is a reserved keyword",
        ),
        (client.update_item, {"Key": key("a", 1), "UpdateExpression": "SET ="}, "Syntax error"),
        (client.scan, {"Segment": 3, "TotalSegments": 2}, "Segment"),
    ]:
        error = refused(call, TableName=orders, **request)
        assert error.response["Error"]["Code"] == "ValidationException", request
        assert part in error.response["Error"]["Message"]

    error = refused(client.query, **condition, ExpressionAttributeValues={":c": {"N": "1"}})
    assert error.response["Error"]["Code"] == "ValidationException"
    assert client.scan(TableName=orders)["Count"] == 0
