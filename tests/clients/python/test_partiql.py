"""PartiQL through the boto3 client: statements, their pages, batches and transactions."""

import uuid

import pytest
from botocore.exceptions import ClientError


@pytest.fixture
def run(client, orders):
    """Executes a statement whose table is `@`, with parameters in DynamoDB's own form."""

    def run(statement, *parameters, **more):
        if parameters:
            more["Parameters"] = list(parameters)
        return client.execute_statement(Statement=statement.replace("@", f'"{orders}"'), **more)

    return run


def insert(run, *numbers, customer="ann"):
    for number in numbers:
        run(
            "INSERT INTO @ VALUE {'customer': ?, 'number': ?, 'status': 'open', 'total': 10, 'tags': <<'a'>>}",
            {"S": customer},
            {"N": str(number)},
        )


def numbers(answer):
    return [int(item["number"]["N"]) for item in answer["Items"]]


def test_an_item_is_inserted_selected_updated_and_deleted(client, orders, run):
    insert(run, 1)
    with pytest.raises(client.exceptions.DuplicateItemException):
        insert(run, 1)
    where = "WHERE customer = 'ann' AND number = 1"
    answer = run(
        f"UPDATE @ SET total = total + 5 SET tags = set_add(tags, <<'b'>>) REMOVE status {where} RETURNING ALL NEW *"
    )
    assert answer["Items"] == [
        {
            "customer": {"S": "ann"},
            "number": {"N": "1"},
            "total": {"N": "15"},
            "tags": {"SS": ["a", "b"]},
        }
    ]
    assert run(f"SELECT total FROM @ {where}")["Items"] == [{"total": {"N": "15"}}]
    assert run(f"DELETE FROM @ {where} AND total = 15")["Items"] == []
    assert run(f"SELECT * FROM @ {where}")["Items"] == []
    with pytest.raises(client.exceptions.ConditionalCheckFailedException):
        run(f"UPDATE @ SET total = 1 {where}")


def test_a_failed_condition_returns_the_item(client, run):
    insert(run, 1)
    with pytest.raises(client.exceptions.ConditionalCheckFailedException) as caught:
        run(
            "UPDATE @ SET total = 1 WHERE customer = 'ann' AND number = 1 AND total > 99",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    assert caught.value.response["Item"]["total"] == {"N": "10"}


def test_pages_go_on_with_their_token_and_an_order_can_be_turned(run):
    insert(run, *range(7))
    select = "SELECT number FROM @ WHERE customer = 'ann' ORDER BY number DESC"
    found, token = [], None
    while True:
        answer = run(select, Limit=3, **({"NextToken": token} if token else {}))
        found += numbers(answer)
        token = answer.get("NextToken")
        if not token:
            break
    assert found == [6, 5, 4, 3, 2, 1, 0]


def test_indexes_are_read(run):
    insert(run, 1, 2)
    insert(run, 3, customer="bob")
    answer = run('SELECT number FROM @."by_status" WHERE status = \'open\' AND total >= 10')
    assert sorted(numbers(answer)) == [1, 2, 3]


def test_a_batch_fails_one_by_one(client, orders, run):
    insert(run, 1)
    statements = [
        "INSERT INTO @ VALUE {'customer': 'ann', 'number': 2}",
        "INSERT INTO @ VALUE {'customer': 'ann', 'number': 1}",
        "UPDATE @ SET total = 1 WHERE customer = 'none' AND number = 1",
        "nothing at all",
    ]
    answer = client.batch_execute_statement(
        Statements=[{"Statement": text.replace("@", f'"{orders}"')} for text in statements],
        ReturnConsumedCapacity="TOTAL",
    )
    codes = [response.get("Error", {}).get("Code") for response in answer["Responses"]]
    assert codes == [None, "DuplicateItem", "ConditionalCheckFailed", "ValidationError"]
    assert answer["ConsumedCapacity"][0]["TableName"] == orders
    read = client.batch_execute_statement(
        Statements=[
            {
                "Statement": f'SELECT number FROM "{orders}" WHERE customer = ? AND number = ?',
                "Parameters": [{"S": "ann"}, {"N": str(number)}],
            }
            for number in (2, 9)
        ]
    )
    assert [response.get("Item") for response in read["Responses"]] == [{"number": {"N": "2"}}, None]


def test_a_transaction_happens_once_or_not_at_all(client, orders, run):
    insert(run, 1)

    def execute(*statements, **more):
        statements = [{"Statement": text.replace("@", f'"{orders}"')} for text in statements]
        return client.execute_transaction(TransactStatements=statements, **more)

    step = "UPDATE @ SET total = total + 1 WHERE customer = 'ann' AND number = 1"
    token = str(uuid.uuid4())
    for _ in range(2):
        execute("INSERT INTO @ VALUE {'customer': 'ann', 'number': 2}", step, ClientRequestToken=token)
    with pytest.raises(client.exceptions.TransactionCanceledException) as caught:
        execute(step, "INSERT INTO @ VALUE {'customer': 'ann', 'number': 2}")
    codes = [reason["Code"] for reason in caught.value.response["CancellationReasons"]]
    assert codes == ["None", "DuplicateItem"]
    with pytest.raises(client.exceptions.TransactionCanceledException):
        execute(
            "EXISTS(SELECT * FROM @ WHERE customer = 'ann' AND number = 1 AND total = 99)",
            "DELETE FROM @ WHERE customer = 'ann' AND number = 2",
        )
    answer = execute(
        "SELECT total FROM @ WHERE customer = 'ann' AND number = 1",
        "SELECT number FROM @ WHERE customer = 'ann' AND number = 2",
    )
    assert answer["Responses"] == [{"Item": {"total": {"N": "11"}}}, {"Item": {"number": {"N": "2"}}}]


def test_what_is_no_statement_is_refused(run):
    with pytest.raises(ClientError) as caught:
        run("SLECT * FROM @")
    assert caught.value.response["Error"] == {
        "Code": "ValidationException",
        "Message": "Statement wasn't well formed, can't be processed: Expected data manipulation",
    }


def test_the_resource_takes_plain_values(resource, orders, run):
    insert(run, 1)
    answer = resource.meta.client.execute_statement(
        Statement=f'SELECT number FROM "{orders}" WHERE customer = ? AND number = ?', Parameters=["ann", 1]
    )
    assert answer["Items"] == [{"number": 1}]
