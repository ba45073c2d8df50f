"""ExportTableToPointInTime and ImportTable with boto3, and a directory in the place of S3."""

import gzip
import json
import os
import subprocess
import time

import boto3
import pytest
from botocore.config import Config

SECONDS = 60


@pytest.fixture
def server(tmp_path):
    """A client of a server with a bucket `bucket`, and that bucket's directory."""
    binary = os.environ.get("LARDER_BIN")
    if not binary:
        pytest.skip("LARDER_BIN does not name the binary to serve with")
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    arguments = ["--memory", "--no-console", "--dynamodb", "127.0.0.1:0", "--exports", str(tmp_path)]
    server = subprocess.Popen(
        [binary, "serve", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        url = server.stdout.readline().removeprefix("listening on ").strip()
        config = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 1})
        yield boto3.client("dynamodb", endpoint_url=url, region_name="us-east-1", config=config), bucket
    finally:
        server.terminate()
        server.wait(timeout=30)


def until_over(describe, status):
    deadline = time.monotonic() + SECONDS
    while True:
        described = describe()
        if described[status] != "IN_PROGRESS":
            return described
        assert time.monotonic() < deadline
        time.sleep(0.05)


def parameters(name):
    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    }


def test_a_table_goes_to_a_bucket_and_comes_back(server):
    client, bucket = server
    arn = client.create_table(**parameters("orders"))["TableDescription"]["TableArn"]
    with pytest.raises(client.exceptions.PointInTimeRecoveryUnavailableException):
        client.export_table_to_point_in_time(TableArn=arn, S3Bucket="bucket")
    client.update_continuous_backups(
        TableName="orders", PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )
    items = [{"pk": {"S": f"{at:04}"}, "v": {"L": [{"N": str(at)}, {"NULL": True}]}} for at in range(120)]
    for item in items:
        client.put_item(TableName="orders", Item=item)
    begun = client.export_table_to_point_in_time(
        TableArn=arn, S3Bucket="bucket", S3Prefix="nightly", ClientToken="one"
    )["ExportDescription"]
    again = client.export_table_to_point_in_time(
        TableArn=arn, S3Bucket="bucket", S3Prefix="nightly", ClientToken="one"
    )["ExportDescription"]
    assert again["ExportArn"] == begun["ExportArn"]
    with pytest.raises(client.exceptions.ExportConflictException):
        client.export_table_to_point_in_time(TableArn=arn, S3Bucket="bucket", ClientToken="one")

    def described():
        return client.describe_export(ExportArn=begun["ExportArn"])["ExportDescription"]

    done = until_over(described, "ExportStatus")
    assert done["ExportStatus"] == "COMPLETED", done
    assert done["ItemCount"] == 120
    summary = json.loads((bucket / done["ExportManifest"]).read_text())
    assert summary["itemCount"] == 120
    files = (bucket / summary["manifestFilesS3Key"]).read_text().splitlines()
    found = []
    for file in map(json.loads, files):
        with gzip.open(bucket / file["dataFileS3Key"], "rt") as lines:
            found.extend(json.loads(line)["Item"] for line in lines)
    assert sorted(found, key=lambda item: item["pk"]["S"]) == items
    (listed,) = client.list_exports(TableArn=arn)["ExportSummaries"]
    assert listed["ExportArn"] == begun["ExportArn"]

    folder = os.path.dirname(done["ExportManifest"])
    begun = client.import_table(
        S3BucketSource={"S3Bucket": "bucket", "S3KeyPrefix": f"{folder}/data/"},
        InputFormat="DYNAMODB_JSON",
        InputCompressionType="GZIP",
        TableCreationParameters=parameters("again"),
    )["ImportTableDescription"]

    def imported():
        return client.describe_import(ImportArn=begun["ImportArn"])["ImportTableDescription"]

    done = until_over(imported, "ImportStatus")
    assert done["ImportStatus"] == "COMPLETED", done
    assert (done["ImportedItemCount"], done["ErrorCount"]) == (120, 0)
    client.get_waiter("table_exists").wait(TableName="again", WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    scanned = client.scan(TableName="again")["Items"]
    assert sorted(scanned, key=lambda item: item["pk"]["S"]) == items
    (listed,) = client.list_imports()["ImportSummaryList"]
    assert listed["ImportStatus"] == "COMPLETED"


def test_csv_is_imported_with_its_errors_counted(server):
    client, bucket = server
    (bucket / "people.csv").write_text('pk,name\na,"Ito, Ken"\n,nobody\nb,Mori\nc\n')
    begun = client.import_table(
        S3BucketSource={"S3Bucket": "bucket", "S3KeyPrefix": "people"},
        InputFormat="CSV",
        TableCreationParameters=parameters("people"),
    )["ImportTableDescription"]

    def imported():
        return client.describe_import(ImportArn=begun["ImportArn"])["ImportTableDescription"]

    done = until_over(imported, "ImportStatus")
    assert (done["ImportedItemCount"], done["ErrorCount"], done["ProcessedItemCount"]) == (2, 2, 4)
    found = client.get_item(TableName="people", Key={"pk": {"S": "a"}})["Item"]
    assert found == {"pk": {"S": "a"}, "name": {"S": "Ito, Ken"}}


def test_what_is_not_there_is_told(server):
    client, _ = server
    with pytest.raises(client.exceptions.ExportNotFoundException):
        client.describe_export(ExportArn="arn:aws:dynamodb:us-east-1:000000000000:table/orders/export/1-2")
    with pytest.raises(client.exceptions.ImportNotFoundException):
        client.describe_import(ImportArn="arn:aws:dynamodb:us-east-1:000000000000:table/orders/import/1-2")
    with pytest.raises(client.exceptions.TableNotFoundException):
        client.export_table_to_point_in_time(
            TableArn="arn:aws:dynamodb:us-east-1:000000000000:table/orders", S3Bucket="bucket"
        )
