"""Transactions through the boto3 client: all or none, a reason per item, tokens."""

import concurrent.futures
import uuid

import pytest
from botocore.exceptions import ClientError


def key(number):
    return {"customer": {"S": "t"}, "number": {"N": str(number)}}


def put(table, number, **more):
    return {"Put": {"TableName": table, "Item": key(number), **more}}


def found(client, table, number):
    return client.get_item(TableName=table, Key=key(number), ConsistentRead=True).get("Item")


def test_all_kinds_of_write_happen_together(client, orders):
    client.put_item(TableName=orders, Item=key(1))
    client.put_item(TableName=orders, Item=key(2))
    client.put_item(TableName=orders, Item=key(3))
    answer = client.transact_write_items(
        TransactItems=[
            {
                "ConditionCheck": {
                    "TableName": orders,
                    "Key": key(1),
                    "ConditionExpression": "attribute_exists(customer)",
                }
            },
            {"Delete": {"TableName": orders, "Key": key(2)}},
            {
                "Update": {
                    "TableName": orders,
                    "Key": key(3),
                    "UpdateExpression": "SET note = :n",
                    "ExpressionAttributeValues": {":n": {"S": "updated"}},
                }
            },
            put(orders, 4),
        ],
        ReturnConsumedCapacity="TOTAL",
    )
    (capacity,) = answer["ConsumedCapacity"]
    assert capacity["CapacityUnits"] == 8.0
    assert found(client, orders, 1) == key(1)
    assert found(client, orders, 2) is None
    assert found(client, orders, 3) == key(3) | {"note": {"S": "updated"}}
    assert found(client, orders, 4) == key(4)


def test_a_cancelled_transaction_gives_a_reason_per_item_and_writes_nothing(client, orders):
    taken = key(1) | {"note": {"S": "first"}}
    client.put_item(TableName=orders, Item=taken)
    absent = {"ConditionExpression": "attribute_not_exists(customer)"}
    with pytest.raises(client.exceptions.TransactionCanceledException) as caught:
        client.transact_write_items(
            TransactItems=[
                put(orders, 2),
                put(orders, 1, **absent, ReturnValuesOnConditionCheckFailure="ALL_OLD"),
                put(orders, 3, **absent),
            ]
        )
    reasons = caught.value.response["CancellationReasons"]
    assert [reason["Code"] for reason in reasons] == ["None", "ConditionalCheckFailed", "None"]
    assert reasons[1]["Message"] == "The conditional request failed"
    assert reasons[1]["Item"] == taken
    assert "[None, ConditionalCheckFailed, None]" in caught.value.response["Error"]["Message"]
    assert found(client, orders, 1) == taken
    assert found(client, orders, 2) is None
    assert found(client, orders, 3) is None


def test_an_item_may_be_written_once_per_transaction(client, orders):
    with pytest.raises(ClientError) as caught:
        client.transact_write_items(TransactItems=[put(orders, 1), put(orders, 1)])
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert found(client, orders, 1) is None


def test_a_repeated_token_writes_once_and_only_for_the_same_request(client, orders):
    token = str(uuid.uuid4())
    add = {
        "Update": {
            "TableName": orders,
            "Key": key(1),
            "UpdateExpression": "ADD hits :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
    }
    for _ in range(3):
        client.transact_write_items(TransactItems=[add], ClientRequestToken=token)
    assert found(client, orders, 1)["hits"] == {"N": "1"}
    with pytest.raises(client.exceptions.IdempotentParameterMismatchException):
        client.transact_write_items(TransactItems=[put(orders, 1)], ClientRequestToken=token)


def test_reads_come_back_in_the_order_asked(client, orders):
    for i in (1, 2):
        client.put_item(TableName=orders, Item=key(i) | {"note": {"S": f"n{i}"}, "x": {"N": "1"}})
    answer = client.transact_get_items(
        TransactItems=[
            {"Get": {"TableName": orders, "Key": key(2), "ProjectionExpression": "note"}},
            {"Get": {"TableName": orders, "Key": key(9)}},
            {"Get": {"TableName": orders, "Key": key(1), "ProjectionExpression": "x"}},
        ]
    )
    assert answer["Responses"] == [{"Item": {"note": {"S": "n2"}}}, {}, {"Item": {"x": {"N": "1"}}}]


def test_a_hundred_items_fit_in_one_transaction(client, orders):
    client.transact_write_items(TransactItems=[put(orders, i) for i in range(100)])
    assert client.scan(TableName=orders, Select="COUNT")["Count"] == 100
    with pytest.raises(ClientError) as caught:
        client.transact_write_items(TransactItems=[put(orders, i) for i in range(101)])
    assert caught.value.response["Error"]["Code"] == "ValidationException"


def test_concurrent_transfers_keep_the_sum(client, orders):
    accounts, balance = 4, 100
    for i in range(accounts):
        client.put_item(TableName=orders, Item=key(i) | {"balance": {"N": str(balance)}})

    def move(account, amount):
        return {
            "Update": {
                "TableName": orders,
                "Key": key(account),
                "UpdateExpression": "ADD balance :a",
                "ExpressionAttributeValues": {":a": {"N": str(amount)}},
            }
        }

    def transfer(i):
        to = (i + 1 + i % (accounts - 1)) % accounts
        try:
            client.transact_write_items(TransactItems=[move(i % accounts, -1), move(to, 1)])
        except client.exceptions.TransactionCanceledException as error:
            codes = {reason["Code"] for reason in error.response["CancellationReasons"]}
            assert codes <= {"None", "TransactionConflict"}

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(transfer, range(80), timeout=60))
    balances = [int(found(client, orders, i)["balance"]["N"]) for i in range(accounts)]
    assert sum(balances) == accounts * balance
