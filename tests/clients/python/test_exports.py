"""Exports of `larder dump --format dynamodb`, read by nothing of ours: gzip, json, hashlib and boto3."""

import base64
import gzip
import hashlib
import json
import os
import subprocess

import pytest
from boto3.dynamodb.types import TypeDeserializer

from conftest import ENDPOINT

LARDER = os.environ.get("LARDER_BIN")
pytestmark = pytest.mark.skipif(not LARDER, reason="LARDER_BIN is not set")


def larder(*arguments):
    done = subprocess.run(
        [LARDER, *arguments, "--store", f"dynamodb:{ENDPOINT}"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def table(client, name):
    table = name("exported")
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
    )
    client.get_waiter("table_exists").wait(TableName=table, WaiterConfig={"Delay": 1})
    return table


def md5(data):
    return base64.b64encode(hashlib.md5(data).digest()).decode()


def test_every_checksum_and_count_of_an_export_is_right(client, table, tmp_path):
    items = {
        f"item{n}": {"pk": {"S": f"item{n}"}, "n": {"N": str(n)}, "b": {"B": bytes([n % 256])},
                     "set": {"SS": ["a", "b"]}, "deep": {"L": [{"M": {"é": {"NULL": True}}}]}}
        for n in range(300)
    }
    for item in items.values():
        client.put_item(TableName=table, Item=item)
    told = json.loads(larder("dump", "--table", table, "--format", "dynamodb", "--out", str(tmp_path), "--json"))
    export = told["export"]
    assert sorted(os.listdir(export)) == [
        "_started", "data", "manifest-files.json", "manifest-files.md5",
        "manifest-summary.json", "manifest-summary.md5",
    ]
    assert os.path.getsize(f"{export}/_started") == 0
    for manifest in ("manifest-summary", "manifest-files"):
        with open(f"{export}/{manifest}.json", "rb") as file, open(f"{export}/{manifest}.md5") as sum:
            assert md5(file.read()) == sum.read()

    with open(f"{export}/manifest-summary.json") as file:
        summary = json.load(file)
    arn = client.describe_table(TableName=table)["Table"]["TableArn"]
    assert summary["tableArn"] == arn
    assert summary["exportArn"] == f"{arn}/export/{os.path.basename(export)}"
    assert (summary["outputFormat"], summary["exportType"]) == ("DYNAMODB_JSON", "FULL_EXPORT")
    assert summary["itemCount"] == len(items)
    assert summary["version"] == "2020-06-30"

    found = {}
    with open(f"{tmp_path}/{summary['manifestFilesS3Key']}") as manifest:
        for line in manifest:
            listed = json.loads(line)
            with open(f"{tmp_path}/{listed['dataFileS3Key']}", "rb") as file:
                data = file.read()
            assert md5(data) == listed["md5Checksum"]
            assert hashlib.md5(data).hexdigest() == listed["etag"]
            lines = gzip.decompress(data).decode().splitlines()
            assert len(lines) == listed["itemCount"]
            for item in map(json.loads, lines):
                assert list(item) == ["Item"]
                found[item["Item"]["pk"]["S"]] = item["Item"]
    assert found.keys() == items.keys()
    decode = TypeDeserializer().deserialize
    for key, item in found.items():
        item["b"]["B"] = base64.b64decode(item["b"]["B"])
        assert {name: decode(value) for name, value in item.items()} == {
            name: decode(value) for name, value in items[key].items()
        }


def test_files_that_another_program_made_are_loaded(client, table, tmp_path):
    lines = [json.dumps({"Item": {"pk": {"S": f"{n}"}, "text": {"S": "日本" * n}}}) for n in range(60)]
    with gzip.open(tmp_path / "one.json.gz", "wt") as file:
        file.write("\n".join(lines[:30]))
    (tmp_path / "two.json").write_text("\n".join(lines[30:]) + "\n")
    told = larder("load", str(tmp_path), "--table", table)
    assert told == "60 created, 0 overwritten, 0 unchanged, 0 refused\n"
    assert client.get_item(TableName=table, Key={"pk": {"S": "7"}})["Item"]["text"] == {"S": "日本" * 7}
    assert client.scan(TableName=table, Select="COUNT")["Count"] == 60
