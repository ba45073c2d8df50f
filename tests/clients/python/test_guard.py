"""`larder serve --schema`: what the five schemas do not allow, boto3 cannot write, however it tries.

`systems/invalid.json` says what is wrong with each item, and the AWS SDK for JavaScript tries the same. Each is an item
of `systems/items.json` with a few attributes changed.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError
from conftest import CONFIG

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "systems"))
from systems import HERE, ITEMS, SCHEMAS  # noqa: E402

INVALID = json.loads((HERE / "invalid.json").read_text(encoding="utf-8"))
RULES = "required type unknown check entity key equation state transition lease ttl parts".split()
WAYS = ["put", "update", "batch", "transaction"]


@pytest.fixture(scope="module")
def guarded():
    """A client of a server that holds the five systems' tables against their schemas."""
    binary = os.environ.get("LARDER_BIN")
    if not binary:
        pytest.skip("LARDER_BIN does not name the binary to serve with")
    server = subprocess.Popen(
        [binary, "serve", "--memory", "--dynamodb", "127.0.0.1:0", "--schema", SCHEMAS],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        url = server.stdout.readline().removeprefix("listening on ").strip()
        environment = os.environ | {"LARDER_STORE": f"dynamodb:{url}"}
        schemas = sorted(SCHEMAS.glob("*.larder"))
        subprocess.run(
            [binary, "apply", *schemas, "--yes"], env=environment, check=True, timeout=60, stdout=subprocess.DEVNULL
        )
        yield boto3.client("dynamodb", endpoint_url=url, region_name="us-east-1", config=CONFIG)
    finally:
        server.terminate()
        server.wait(timeout=30)


def key_of(case, item):
    return {name: item[name] for name in case["keys"]}


def changed(item, case):
    item = {name: value for name, value in item.items() if name not in case.get("remove", [])}
    return item | case.get("set", {})


def write(client, way, case, before, after):
    """Sends the item in one of the ways. An update sends what has changed alone, where there is something to change."""
    table = case["table"]
    if way == "put":
        return client.put_item(TableName=table, Item=after)
    if way == "batch":
        return client.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": after}}]})
    if way == "transaction":
        return client.transact_write_items(TransactItems=[{"Put": {"TableName": table, "Item": after}}])
    key = key_of(case, after)
    old = before if key_of(case, before) == key else key
    sets = {name: value for name, value in after.items() if old.get(name) != value}
    removed = [name for name in old if name not in after]
    names = {f"#{at}": name for at, name in enumerate([*sets, *removed])}
    marks = {name: mark for mark, name in names.items()}
    text = ""
    if sets:
        text += "SET " + ", ".join(f"{marks[name]} = :{marks[name][1:]}" for name in sets)
    if removed:
        text += " REMOVE " + ", ".join(marks[name] for name in removed)
    values = {f":{marks[name][1:]}": value for name, value in sets.items()}
    extra = {"ExpressionAttributeValues": values} if values else {}
    return client.update_item(
        TableName=table, Key=key, UpdateExpression=text.strip(), ExpressionAttributeNames=names, **extra
    )


def refusal(error):
    """What the client is told, and the code of it."""
    reasons = error.response.get("CancellationReasons")
    if reasons:
        return reasons[0]["Code"], reasons[0]["Message"]
    return error.response["Error"]["Code"], error.response["Error"]["Message"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", INVALID, ids=lambda case: case["name"])
def test_what_a_schema_does_not_allow_is_refused(guarded, case, way):
    valid = ITEMS[case["system"]][case["item"]] | case.get("before", {})
    guarded.delete_item(TableName=case["table"], Key=key_of(case, valid))
    guarded.put_item(TableName=case["table"], Item=valid)
    before = guarded.scan(TableName=case["table"], ConsistentRead=True)["Items"]
    with pytest.raises(ClientError) as error:
        write(guarded, way, case, valid, changed(valid, case))
    code, message = refusal(error.value)
    assert code == ("ValidationError" if way == "transaction" else "ValidationException")
    told = re.search(
        re.escape(case["field"]) + r"[^;]*?\(" + case["rule"] + r", [^)]*?" + case["system"] + r"\.larder:(\d+)\)",
        message,
    )
    assert told, message
    line = (SCHEMAS / f"{case['system']}.larder").read_text(encoding="utf-8").splitlines()[int(told[1]) - 1]
    assert case["says"] in line, f"{line!r} of {message}"
    assert "hush" not in message
    assert guarded.scan(TableName=case["table"], ConsistentRead=True)["Items"] == before


def test_there_are_enough_of_them_and_every_rule_is_among_them():
    assert len(INVALID) >= 40
    assert {case["rule"] for case in INVALID} == set(RULES)


@pytest.mark.parametrize("way", WAYS)
def test_what_the_teams_write_is_allowed(guarded, way):
    table_of = {(case["system"], case["item"]): case for case in INVALID}
    for system, items in ITEMS.items():
        for name, item in items.items():
            case = table_of.get((system, name)) or table_of[(system, "race" if system == "keiba" else "shop")]
            guarded.delete_item(TableName=case["table"], Key=key_of(case, item))
            write(guarded, way, {**case, "set": {}, "remove": []}, {k: {} for k in case["keys"]}, item)
            stored = guarded.get_item(TableName=case["table"], Key=key_of(case, item), ConsistentRead=True)
            assert stored["Item"] == item


def test_all_that_is_wrong_is_told_at_once(guarded):
    with pytest.raises(ClientError) as error:
        guarded.put_item(TableName="tdnet_executions_dev", Item={"execution_id": {"S": "x"}, "progress": {"N": "900"}})
    _, message = refusal(error.value)
    for field in ["execution_id", "started_at", "progress", "status", "ttl"]:
        assert f"Execution.{field}: " in message, message
