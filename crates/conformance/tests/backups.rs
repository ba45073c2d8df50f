//! CreateBackup, DescribeBackup, ListBackups, DeleteBackup, RestoreTableFromBackup.

use larder_conformance::{Endpoint, Table, conform, keys, wait_until};
use serde_json::{Value, json};

/// Makes a backup, waits until it is there, and returns its ARN.
fn backed_up(db: &Endpoint, table: &Table<'_>, name: &str) -> String {
    let made = table.ok("CreateBackup", json!({"BackupName": name}))["BackupDetails"].clone();
    assert_eq!(made["BackupName"], name);
    assert_eq!(made["BackupType"], "USER");
    assert_eq!(made["BackupStatus"], "CREATING");
    let arn = made["BackupArn"].as_str().expect("a backup has an ARN").to_owned();
    assert!(arn.starts_with(&format!("{}/backup/", table.arn())));
    wait_until("the backup is available", || {
        description(db, &arn)["BackupDetails"]["BackupStatus"] == "AVAILABLE"
    });
    arn
}

fn description(db: &Endpoint, arn: &str) -> Value {
    db.ok("DescribeBackup", json!({"BackupArn": arn}))["BackupDescription"].clone()
}

fn names(listed: &Value) -> Vec<&str> {
    let summaries = listed["BackupSummaries"].as_array().expect("a list");
    summaries.iter().filter_map(|summary| summary["BackupName"].as_str()).collect()
}

#[test]
fn a_backup_keeps_its_table_as_it_was() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_city", "city:S", "ALL"));
        table.put(json!({"pk": {"S": "a"}, "city": {"S": "Lund"}}));
        let arn = backed_up(db, &table, "first");
        table.put(json!({"pk": {"S": "a"}, "city": {"S": "Ystad"}}));
        table.put(json!({"pk": {"S": "b"}, "city": {"S": "Ystad"}}));
        let described = description(db, &arn);
        let source = &described["SourceTableDetails"];
        assert_eq!(source["TableName"], table.name());
        assert_eq!(source["TableId"], table.describe()["TableId"]);
        assert_eq!(source["KeySchema"], table.describe()["KeySchema"]);
        assert_eq!(source["ItemCount"], 1);
        assert_eq!(source["BillingMode"], "PROVISIONED");
        assert_eq!(
            source["ProvisionedThroughput"],
            json!({"ReadCapacityUnits": 100, "WriteCapacityUnits": 100})
        );
        let features = &described["SourceTableFeatureDetails"];
        assert_eq!(features["GlobalSecondaryIndexes"][0]["IndexName"], "by_city");
        assert_eq!(features["TimeToLiveDescription"]["TimeToLiveStatus"], "DISABLED");

        let name = db.unused_name();
        let made = db.ok("RestoreTableFromBackup", json!({"BackupArn": arn, "TargetTableName": name}));
        let summary = &made["TableDescription"]["RestoreSummary"];
        assert_eq!(summary["SourceBackupArn"], arn);
        assert_eq!(summary["SourceTableArn"], table.arn());
        let restored = db.adopt(&name);
        assert_eq!(restored.get(json!({"pk": {"S": "a"}}))["city"]["S"], "Lund");
        assert_eq!(restored.ok("Scan", json!({"IndexName": "by_city"}))["Count"], 1);

        db.call("RestoreTableFromBackup", json!({"BackupArn": arn, "TargetTableName": name}))
            .error("TableAlreadyExistsException", &format!("Table already exists: {name}"));
        let deleted = db.ok("DeleteBackup", json!({"BackupArn": arn}));
        assert_eq!(deleted["BackupDescription"]["BackupDetails"]["BackupStatus"], "DELETED");
        for operation in ["DescribeBackup", "DeleteBackup"] {
            db.call(operation, json!({"BackupArn": arn}))
                .error("BackupNotFoundException", &format!("Backup not found: {arn}"));
        }
    });
}

#[test]
fn backups_of_a_table_are_listed_in_pages() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for name in ["one", "two", "three"] {
            backed_up(db, &table, name);
        }
        assert_eq!(names(&table.ok("ListBackups", json!({}))), ["one", "two", "three"]);
        let first = table.ok("ListBackups", json!({"Limit": 2}));
        assert_eq!(names(&first), ["one", "two"]);
        let rest =
            table.ok("ListBackups", json!({"ExclusiveStartBackupArn": first["LastEvaluatedBackupArn"]}));
        assert_eq!(names(&rest), ["three"]);
        assert_eq!(rest["LastEvaluatedBackupArn"], Value::Null);
        let second = &first["BackupSummaries"][1]["BackupCreationDateTime"];
        assert_eq!(names(&table.ok("ListBackups", json!({"TimeRangeLowerBound": second}))), ["two", "three"]);
        assert_eq!(names(&table.ok("ListBackups", json!({"TimeRangeUpperBound": second}))), ["one"]);
        assert!(names(&table.ok("ListBackups", json!({"BackupType": "SYSTEM"}))).is_empty());
        assert_eq!(names(&table.ok("ListBackups", json!({"BackupType": "ALL"}))).len(), 3);
    });
}

#[test]
fn a_deleted_table_with_recovery_leaves_a_backup() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let recovery = json!({"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true}});
        table.ok("UpdateContinuousBackups", recovery);
        table.put(json!({"pk": {"S": "a"}}));
        table.ok("DeleteTable", json!({}));
        let listed = table.ok("ListBackups", json!({"BackupType": "SYSTEM"}));
        assert_eq!(names(&listed), [format!("{}$DeletedTableBackup", table.name())]);
        let backup = &listed["BackupSummaries"][0];
        assert!(backup["BackupExpiryDateTime"].as_f64() > backup["BackupCreationDateTime"].as_f64());
        let request = json!({"BackupArn": backup["BackupArn"], "TargetTableName": table.name()});
        wait_until("the name is free", || db.call("RestoreTableFromBackup", request.clone()).status == 200);
        table.wait_until_active();
        assert_eq!(table.ok("Scan", json!({}))["Count"], 1);
    });
}

#[test]
fn members_are_constrained() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.all_invalid(
            "CreateBackup",
            [
                (
                    json!({}),
                    "1 validation error detected: Value null at 'backupName' failed to satisfy constraint: Member must not be null",
                ),
                (
                    json!({"BackupName": "a"}),
                    "1 validation error detected: Value 'a' at 'backupName' failed to satisfy constraint: Member must have length greater than or equal to 3",
                ),
                (
                    json!({"BackupName": "a b c"}),
                    "1 validation error detected: Value 'a b c' at 'backupName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+",
                ),
            ],
        );
        db.all_invalid(
            "ListBackups",
            [(
                json!({"Limit": 101, "BackupType": "OTHER"}),
                "2 validation errors detected: Value '101' at 'limit' failed to satisfy constraint: Member must have value less than or equal to 100; Value 'OTHER' at 'backupType' failed to satisfy constraint: Member must satisfy enum value set: [USER, SYSTEM, AWS_BACKUP, ALL]",
            )],
        );
        db.all_invalid(
            "DescribeBackup",
            [
                (
                    json!({}),
                    "1 validation error detected: Value null at 'backupArn' failed to satisfy constraint: Member must not be null",
                ),
                (
                    json!({"BackupArn": "short"}),
                    "1 validation error detected: Value 'short' at 'backupArn' failed to satisfy constraint: Member must have length greater than or equal to 37",
                ),
            ],
        );
        db.call("CreateBackup", json!({"TableName": "no.such.table", "BackupName": "name"}))
            .error("TableNotFoundException", "Table not found: no.such.table");
    });
}
