"""The AWS CLI: one table's life, as typed at a shell."""

import json
import os
import subprocess
import sys

import pytest


def run(*arguments, output="json"):
    aws = [sys.executable, "-m", "awscli", "--endpoint-url", os.environ["ENDPOINT"]]
    return subprocess.run(
        [*aws, "--output", output, "dynamodb", *arguments],
        capture_output=True,
        text=True,
        timeout=90,
    )


def aws(*arguments):
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else None


def text(*arguments, output="text"):
    done = run(*arguments, output=output)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def table(name):
    table = name("cli")
    made = aws(
        *("create-table", "--table-name", table),
        *("--attribute-definitions", "AttributeName=pk,AttributeType=S"),
        *("AttributeName=sk,AttributeType=N", "AttributeName=kind,AttributeType=S"),
        *("--key-schema", "AttributeName=pk,KeyType=HASH", "AttributeName=sk,KeyType=RANGE"),
        *("--billing-mode", "PAY_PER_REQUEST"),
        "--global-secondary-indexes",
        "IndexName=by_kind,KeySchema=[{AttributeName=kind,KeyType=HASH}],Projection={ProjectionType=ALL}",
    )
    assert made["TableDescription"]["TableName"] == table
    aws("wait", "table-exists", "--table-name", table)
    return table


def fill(table, tmp_path, count):
    path = tmp_path / "batch.json"
    for start in range(0, count, 25):
        puts = [
            {"PutRequest": {"Item": {"pk": {"S": "a"}, "sk": {"N": str(i)}, "kind": {"S": "k"}}}}
            for i in range(start, min(start + 25, count))
        ]
        path.write_text(json.dumps({table: puts}))
        answer = aws("batch-write-item", "--request-items", f"file://{path}")
        assert answer["UnprocessedItems"] == {}


def test_a_table_is_listed_described_and_deleted(table):
    assert table in aws("list-tables")["TableNames"]
    status = text("describe-table", "--table-name", table, "--query", "Table.TableStatus")
    assert status.strip() == "ACTIVE"
    deleted = aws("delete-table", "--table-name", table)
    assert deleted["TableDescription"]["TableName"] == table
    aws("wait", "table-not-exists", "--table-name", table)
    gone = run("describe-table", "--table-name", table)
    assert gone.returncode != 0
    assert "(ResourceNotFoundException)" in gone.stderr


def test_items_are_put_got_updated_and_deleted(table):
    item = {"pk": {"S": "a"}, "sk": {"N": "1"}, "bin": {"B": "raw"}, "list": {"L": [{"N": "1.5"}]}}
    key = ("--table-name", table, "--key", '{"pk": {"S": "a"}, "sk": {"N": "1"}}')
    put = aws(
        *("put-item", "--table-name", table, "--item", json.dumps(item)),
        *("--return-consumed-capacity", "TOTAL"),
    )
    assert put["ConsumedCapacity"] == {"TableName": table, "CapacityUnits": 1.0}
    # This version of the CLI takes binary values as they are and prints them in base64.
    assert aws("get-item", *key, "--consistent-read")["Item"] == item | {"bin": {"B": "cmF3"}}

    updated = aws(
        *("update-item", *key, "--update-expression", "SET #k = :k REMOVE bin ADD hits :one"),
        *("--expression-attribute-names", '{"#k": "kind"}'),
        *("--expression-attribute-values", '{":k": {"S": "soup"}, ":one": {"N": "1"}}'),
        *("--return-values", "UPDATED_NEW"),
    )
    assert updated["Attributes"] == {"kind": {"S": "soup"}, "hits": {"N": "1"}}

    refused = run("delete-item", *key, "--condition-expression", "attribute_exists(bin)")
    assert refused.returncode != 0
    assert "(ConditionalCheckFailedException)" in refused.stderr
    deleted = aws("delete-item", *key, "--return-values", "ALL_OLD")
    assert deleted["Attributes"]["kind"] == {"S": "soup"}
    # An empty answer is printed as nothing at all, or as an empty object.
    assert not aws("get-item", *key)


def test_a_query_is_shaped_by_jmespath_and_printed_as_a_table(table, tmp_path):
    fill(table, tmp_path, 30)
    query = (
        *("query", "--table-name", table),
        *("--key-condition-expression", "pk = :p AND sk BETWEEN :low AND :high"),
        "--expression-attribute-values",
        '{":p": {"S": "a"}, ":low": {"N": "9"}, ":high": {"N": "11"}}',
    )
    assert text(*query, "--query", "Items[].sk.N").split() == ["9", "10", "11"]
    assert text(*query, "--query", "Count").strip() == "3"
    shown = text(
        *query, "--query", "Items[].{Number: sk.N, Kind: kind.S}", output="table"
    ).splitlines()
    assert any("Query" in line for line in shown)
    assert [line.split("|")[1].strip() for line in shown if line.count("|") == 3] == [
        "Kind",
        "k",
        "k",
        "k",
    ]
    by_kind = text(
        *("query", "--table-name", table, "--index-name", "by_kind", "--select", "COUNT"),
        *("--key-condition-expression", "kind = :k"),
        *("--expression-attribute-values", '{":k": {"S": "k"}}', "--query", "Count"),
    )
    assert by_kind.strip() == "30"


def test_a_scan_pages_by_itself_and_by_token(table, tmp_path):
    fill(table, tmp_path, 40)
    scan = ("scan", "--table-name", table)
    whole = aws(*scan, "--page-size", "7")
    assert [item["sk"]["N"] for item in whole["Items"]] == [str(i) for i in range(40)]
    assert whole["Count"] == whole["ScannedCount"] == 40

    first = aws(*scan, "--max-items", "15")
    rest = aws(*scan, "--starting-token", first["NextToken"])
    assert len(first["Items"]) == 15
    assert first["Items"] + rest["Items"] == whole["Items"]


def test_transactions_and_batch_reads_take_files(table, tmp_path):
    path = tmp_path / "request.json"
    put = {"Put": {"TableName": table, "Item": {"pk": {"S": "t"}, "sk": {"N": "1"}}}}
    guarded = {"Put": put["Put"] | {"ConditionExpression": "attribute_not_exists(pk)"}}
    path.write_text(json.dumps([guarded]))
    aws("transact-write-items", "--transact-items", f"file://{path}")
    refused = run("transact-write-items", "--transact-items", f"file://{path}")
    assert refused.returncode != 0
    assert "(TransactionCanceledException)" in refused.stderr
    assert "[ConditionalCheckFailed]" in refused.stderr

    path.write_text(json.dumps({table: {"Keys": [{"pk": {"S": "t"}, "sk": {"N": "1"}}]}}))
    got = aws("batch-get-item", "--request-items", f"file://{path}")
    assert got["Responses"][table] == [{"pk": {"S": "t"}, "sk": {"N": "1"}}]


def test_time_to_live_and_tags_are_set(table):
    aws(
        *("update-time-to-live", "--table-name", table),
        *("--time-to-live-specification", "Enabled=true,AttributeName=expires"),
    )
    described = aws("describe-time-to-live", "--table-name", table)["TimeToLiveDescription"]
    assert described["AttributeName"] == "expires"
    arn = text("describe-table", "--table-name", table, "--query", "Table.TableArn").strip()
    aws("tag-resource", "--resource-arn", arn, "--tags", "Key=team,Value=kitchen")
    tags = aws("list-tags-of-resource", "--resource-arn", arn)["Tags"]
    assert tags == [{"Key": "team", "Value": "kitchen"}]


def test_statements_are_executed_page_by_page_in_batches_and_at_once(table, tmp_path):
    def statement(text, *values):
        parameters = [{"N": value} if value.isdigit() else {"S": value} for value in values]
        return {"Statement": text.replace("@", f'"{table}"')} | ({"Parameters": parameters} if values else {})

    def executed(text, *values, more=()):
        asked = statement(text, *values)
        parameters = ("--parameters", json.dumps(asked["Parameters"])) if values else ()
        return ("execute-statement", "--statement", asked["Statement"], *parameters, *more)

    insert = "INSERT INTO @ VALUE {'pk': ?, 'sk': ?, 'kind': 'k'}"
    for n in "1", "2", "3":
        assert not aws(*executed(insert, "a", n))["Items"]
    refused = run(*executed(insert, "a", "1"))
    assert refused.returncode != 0
    assert "(DuplicateItemException)" in refused.stderr

    select = "SELECT sk FROM @ WHERE pk = ? AND sk > ?"
    first = aws(*executed(select, "a", "0", more=("--limit", "2", "--return-consumed-capacity", "TOTAL")))
    assert first["Items"] == [{"sk": {"N": "1"}}, {"sk": {"N": "2"}}]
    assert first["ConsumedCapacity"] == {"TableName": table, "CapacityUnits": 0.5}
    last = aws(*executed(select, "a", "0", more=("--next-token", first["NextToken"], "--consistent-read")))
    assert last["Items"] == [{"sk": {"N": "3"}}]
    assert "NextToken" not in last

    updated = aws(*executed("UPDATE @ SET kind = 'l' WHERE pk = ? AND sk = ? RETURNING MODIFIED OLD *", "a", "1"))
    assert updated["Items"] == [{"kind": {"S": "k"}}]

    path = tmp_path / "statements.json"
    one = "SELECT kind FROM @ WHERE pk = ? AND sk = ?"
    path.write_text(json.dumps([statement(one, "a", "1"), statement(one, "a", "9"), statement("SELECT kind FROM @")]))
    responses = aws("batch-execute-statement", "--statements", f"file://{path}")["Responses"]
    assert responses[0] == {"TableName": table, "Item": {"kind": {"S": "l"}}}
    assert responses[1] == {"TableName": table}
    assert responses[2]["Error"]["Code"] == "ValidationError"

    path.write_text(json.dumps([statement("DELETE FROM @ WHERE pk = ? AND sk = ?", "a", "1"), statement(insert, "b", "1")]))
    transaction = ("execute-transaction", "--transact-statements", f"file://{path}", "--client-request-token", "once")
    assert not (aws(*transaction) or {}).get("Responses")
    # Under its token it is done once.
    assert not (aws(*transaction) or {}).get("Responses")
    path.write_text(json.dumps([statement(one, "b", "1"), statement(one, "a", "1")]))
    responses = aws("execute-transaction", "--transact-statements", f"file://{path}")["Responses"]
    assert responses == [{"Item": {"kind": {"S": "k"}}}, {}]
    path.write_text(json.dumps([statement(insert, "c", "1"), statement(insert, "b", "1")]))
    refused = run("execute-transaction", "--transact-statements", f"file://{path}")
    assert "(TransactionCanceledException)" in refused.stderr
    assert "[None, DuplicateItem]" in refused.stderr


def test_limits_are_described():
    assert aws("describe-limits")["AccountMaxReadCapacityUnits"] > 0
