"""Point-in-time recovery and backups through the boto3 client."""

import datetime
import time

import pytest
from botocore.exceptions import ClientError

SOON = {"Delay": 1, "MaxAttempts": 60}
RECOVERY_ON = {"PointInTimeRecoveryEnabled": True}


def refused(code, call, **request):
    with pytest.raises(ClientError) as caught:
        call(**request)
    assert caught.value.response["Error"]["Code"] == code


def active(client, table):
    client.get_waiter("table_exists").wait(TableName=table, WaiterConfig=SOON)
    return client.describe_table(TableName=table)["Table"]


def available(client, arn):
    # There is no waiter for backups.
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        backup = client.describe_backup(BackupArn=arn)["BackupDescription"]
        if backup["BackupDetails"]["BackupStatus"] == "AVAILABLE":
            return backup
        time.sleep(0.05)
    raise AssertionError(f"{arn} was not available within a minute")


def put(client, table, number, status):
    client.put_item(
        TableName=table,
        Item={
            "customer": {"S": "ada"},
            "number": {"N": str(number)},
            "status": {"S": status},
            "total": {"N": "1"},
        },
    )


def statuses(client, table):
    pages = client.get_paginator("scan").paginate(TableName=table)
    return {item["number"]["N"]: item["status"]["S"] for page in pages for item in page["Items"]}


def window(client, table):
    described = client.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
    assert described["ContinuousBackupsStatus"] == "ENABLED"
    return described["PointInTimeRecoveryDescription"]


def test_a_table_is_restored_to_a_second(client, orders, name):
    assert window(client, orders) == {"PointInTimeRecoveryStatus": "DISABLED"}
    refused(
        "PointInTimeRecoveryUnavailableException",
        client.restore_table_to_point_in_time,
        SourceTableName=orders,
        TargetTableName=name("none"),
        UseLatestRestorableTime=True,
    )
    client.update_continuous_backups(
        TableName=orders,
        PointInTimeRecoverySpecification=RECOVERY_ON | {"RecoveryPeriodInDays": 3},
    )
    for number in range(50):
        put(client, orders, number, "open")
    before = statuses(client, orders)

    # The next whole second ends the good time, and the accident comes after it.
    second = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    second += datetime.timedelta(seconds=1)
    deadline = time.monotonic() + 30
    while window(client, orders)["LatestRestorableDateTime"] <= second:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for number in range(0, 50, 2):
        client.delete_item(
            TableName=orders, Key={"customer": {"S": "ada"}, "number": {"N": str(number)}}
        )
    put(client, orders, 1, "lost")
    assert statuses(client, orders) != before

    found = window(client, orders)
    assert found["PointInTimeRecoveryStatus"] == "ENABLED"
    assert found["RecoveryPeriodInDays"] == 3
    assert found["EarliestRestorableDateTime"] <= second <= found["LatestRestorableDateTime"]
    saved = name("saved")
    made = client.restore_table_to_point_in_time(
        SourceTableName=orders, TargetTableName=saved, RestoreDateTime=second
    )["TableDescription"]
    assert made["TableStatus"] == "CREATING"
    assert made["RestoreSummary"]["RestoreInProgress"]
    table = active(client, saved)
    assert table["RestoreSummary"]["RestoreDateTime"] == second
    assert not table["RestoreSummary"]["RestoreInProgress"]
    assert table["ItemCount"] == 50
    assert statuses(client, saved) == before
    by_status = client.query(
        TableName=saved,
        IndexName="by_status",
        KeyConditionExpression="#s = :s",
        ExpressionAttributeNames={"#s": "status"},
        ExpressionAttributeValues={":s": {"S": "open"}},
        Select="COUNT",
    )
    assert by_status["Count"] == 50
    for moment in (found["EarliestRestorableDateTime"] - datetime.timedelta(days=1),
                   datetime.datetime.now() + datetime.timedelta(days=1)):
        refused(
            "InvalidRestoreTimeException",
            client.restore_table_to_point_in_time,
            SourceTableName=orders,
            TargetTableName=name("never"),
            RestoreDateTime=moment,
        )


def test_a_restore_may_leave_out_indexes_and_change_billing(client, orders, name):
    arn = client.describe_table(TableName=orders)["Table"]["TableArn"]
    client.update_continuous_backups(
        TableName=orders, PointInTimeRecoverySpecification=RECOVERY_ON
    )
    target = name("other")
    client.restore_table_to_point_in_time(
        SourceTableArn=arn,
        TargetTableName=target,
        UseLatestRestorableTime=True,
        BillingModeOverride="PROVISIONED",
        ProvisionedThroughputOverride={"ReadCapacityUnits": 2, "WriteCapacityUnits": 3},
        GlobalSecondaryIndexOverride=[],
        SSESpecificationOverride={"Enabled": True, "SSEType": "KMS"},
    )
    table = active(client, target)
    assert table["ProvisionedThroughput"]["WriteCapacityUnits"] == 3
    assert "GlobalSecondaryIndexes" not in table
    assert table["LocalSecondaryIndexes"][0]["IndexName"] == "by_date"
    # The server has no key: it takes the setting, and does not say that it encrypts.
    assert "SSEDescription" not in table


def test_a_backup_is_made_listed_restored_and_deleted(client, orders, name):
    for number in range(30):
        put(client, orders, number, "open")
    before = statuses(client, orders)
    made = client.create_backup(TableName=orders, BackupName="nightly")["BackupDetails"]
    assert made["BackupStatus"] == "CREATING"
    assert made["BackupType"] == "USER"
    arn = made["BackupArn"]
    put(client, orders, 0, "changed")
    backup = available(client, arn)
    assert backup["SourceTableDetails"]["TableName"] == orders
    assert backup["SourceTableDetails"]["ItemCount"] == 30
    assert backup["SourceTableDetails"]["BillingMode"] == "PAY_PER_REQUEST"
    features = backup["SourceTableFeatureDetails"]
    assert [index["IndexName"] for index in features["GlobalSecondaryIndexes"]] == ["by_status"]
    assert [index["IndexName"] for index in features["LocalSecondaryIndexes"]] == ["by_date"]

    second = client.create_backup(TableName=orders, BackupName="again")["BackupDetails"]["BackupArn"]
    available(client, second)
    pages = client.get_paginator("list_backups").paginate(
        TableName=orders, BackupType="ALL", PaginationConfig={"PageSize": 1}
    )
    assert [b["BackupArn"] for page in pages for b in page["BackupSummaries"]] == [arn, second]

    restored = name("restored")
    client.restore_table_from_backup(TargetTableName=restored, BackupArn=arn)
    table = active(client, restored)
    assert table["RestoreSummary"]["SourceBackupArn"] == arn
    assert statuses(client, restored) == before
    refused(
        "TableAlreadyExistsException",
        client.restore_table_from_backup,
        TargetTableName=restored,
        BackupArn=arn,
    )

    deleted = client.delete_backup(BackupArn=arn)["BackupDescription"]["BackupDetails"]
    assert deleted["BackupStatus"] == "DELETED"
    refused("BackupNotFoundException", client.describe_backup, BackupArn=arn)
    refused("BackupNotFoundException", client.delete_backup, BackupArn=arn)
    client.delete_backup(BackupArn=second)
    with pytest.raises(client.exceptions.TableNotFoundException):
        client.create_backup(TableName=name("nothing"), BackupName="nothing")


def test_a_deleted_table_comes_back(client, orders):
    client.update_continuous_backups(
        TableName=orders, PointInTimeRecoverySpecification=RECOVERY_ON
    )
    put(client, orders, 1, "open")
    client.delete_table(TableName=orders)
    client.get_waiter("table_not_exists").wait(TableName=orders, WaiterConfig=SOON)
    (backup,) = client.list_backups(TableName=orders, BackupType="SYSTEM")["BackupSummaries"]
    kept = backup["BackupExpiryDateTime"] - backup["BackupCreationDateTime"]
    assert kept == datetime.timedelta(days=35)
    client.restore_table_from_backup(TargetTableName=orders, BackupArn=backup["BackupArn"])
    active(client, orders)
    assert statuses(client, orders) == {"1": "open"}
    client.delete_backup(BackupArn=backup["BackupArn"])
