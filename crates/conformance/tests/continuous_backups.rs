//! UpdateContinuousBackups, DescribeContinuousBackups, RestoreTableToPointInTime.

use larder_conformance::{Endpoint, Table, conform, keys};
use serde_json::{Value, json};

fn switch_on(table: &Table<'_>) -> Value {
    table.ok(
        "UpdateContinuousBackups",
        json!({"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true}}),
    )
}

fn scanned(table: &Table<'_>) -> Vec<String> {
    let items = table.ok("Scan", json!({}))["Items"].as_array().cloned().unwrap_or_default();
    let mut keys: Vec<String> = items.iter().map(|item| item["pk"]["S"].to_string()).collect();
    keys.sort();
    keys
}

/// A request to restore a table to the latest moment.
fn latest(source: &Table<'_>, target: &str) -> Value {
    json!({"SourceTableName": source.name(), "TargetTableName": target, "UseLatestRestorableTime": true})
}

#[test]
fn recovery_is_switched_on_and_off() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let described =
            || table.ok("DescribeContinuousBackups", json!({}))["ContinuousBackupsDescription"].clone();
        let off = json!({
            "ContinuousBackupsStatus": "ENABLED",
            "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "DISABLED"},
        });
        assert_eq!(described(), off);
        let on = switch_on(&table)["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"].clone();
        assert_eq!(on["PointInTimeRecoveryStatus"], "ENABLED");
        assert_eq!(on["RecoveryPeriodInDays"], 35);
        assert!(on["EarliestRestorableDateTime"].is_number() && on["LatestRestorableDateTime"].is_number());
        let week = json!({"PointInTimeRecoveryEnabled": true, "RecoveryPeriodInDays": 7});
        table.ok("UpdateContinuousBackups", json!({"PointInTimeRecoverySpecification": week}));
        assert_eq!(described()["PointInTimeRecoveryDescription"]["RecoveryPeriodInDays"], 7);
        let switch_off = json!({"PointInTimeRecoveryEnabled": false});
        table.ok("UpdateContinuousBackups", json!({"PointInTimeRecoverySpecification": switch_off}));
        assert_eq!(described(), off);
    });
}

#[test]
fn a_table_is_restored_to_a_moment() {
    conform(|db| {
        let source = db.table(keys("pk:S").global("by_city", "city:S", "ALL"));
        switch_on(&source);
        source.put(json!({"pk": {"S": "a"}, "city": {"S": "Lund"}}));
        let name = db.unused_name();
        let made = db.ok("RestoreTableToPointInTime", latest(&source, &name))["TableDescription"].clone();
        source.put(json!({"pk": {"S": "b"}, "city": {"S": "Lund"}}));
        assert_eq!(made["TableStatus"], "CREATING");
        let summary = &made["RestoreSummary"];
        assert_eq!(summary["SourceTableArn"], source.arn());
        assert_eq!(summary["RestoreInProgress"], true);
        let restored = db.adopt(&name);
        assert_eq!(scanned(&restored), ["\"a\""]);
        let described = restored.describe();
        assert_eq!(described["RestoreSummary"]["RestoreInProgress"], false);
        for member in ["KeySchema", "AttributeDefinitions"] {
            assert_eq!(described[member], source.describe()[member]);
        }
        let found = restored.ok(
            "Query",
            json!({
                "IndexName": "by_city",
                "KeyConditionExpression": "city = :c",
                "ExpressionAttributeValues": {":c": {"S": "Lund"}},
            }),
        );
        assert_eq!(found["Count"], 1);

        // Nothing was written at that moment but after it, so it can be asked for again.
        source.ok("DeleteItem", json!({"Key": {"pk": {"S": "a"}}}));
        let name = db.unused_name();
        db.ok(
            "RestoreTableToPointInTime",
            json!({
                "SourceTableArn": source.arn(),
                "TargetTableName": name,
                "RestoreDateTime": summary["RestoreDateTime"],
            }),
        );
        assert_eq!(scanned(&db.adopt(&name)), ["\"a\""]);
    });
}

#[test]
fn a_restored_table_may_differ_from_its_source() {
    conform(|db| {
        let source = db.table(keys("pk:S sk:S").global("by_city", "city:S", "ALL").local(
            "by_year",
            "year:N",
            "KEYS_ONLY",
        ));
        switch_on(&source);
        source.ok(
            "UpdateTimeToLive",
            json!({"TimeToLiveSpecification": {"Enabled": true, "AttributeName": "ttl"}}),
        );
        let name = db.unused_name();
        let mut request = latest(&source, &name);
        request["BillingModeOverride"] = "PAY_PER_REQUEST".into();
        request["GlobalSecondaryIndexOverride"] = json!([]);
        db.ok("RestoreTableToPointInTime", request);
        let restored = db.adopt(&name);
        let described = restored.describe();
        assert_eq!(described["BillingModeSummary"]["BillingMode"], "PAY_PER_REQUEST");
        assert_eq!(described["GlobalSecondaryIndexes"], Value::Null);
        assert_eq!(described["LocalSecondaryIndexes"][0]["IndexName"], "by_year");
        let ttl = restored.ok("DescribeTimeToLive", json!({}));
        assert_eq!(ttl["TimeToLiveDescription"]["TimeToLiveStatus"], "DISABLED");
        let recovery = restored.ok("DescribeContinuousBackups", json!({}));
        assert_eq!(
            recovery["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"],
            "DISABLED"
        );

        let mut request = latest(&source, &db.unused_name());
        request["GlobalSecondaryIndexOverride"] = json!([{
            "IndexName": "by_name",
            "KeySchema": [{"AttributeName": "city", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "ALL"},
        }]);
        db.invalid("RestoreTableToPointInTime", request, "One or more parameter values were invalid: …");
    });
}

#[test]
fn what_cannot_be_restored_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let restore = |request: Value| db.call("RestoreTableToPointInTime", request);
        restore(latest(&table, &db.unused_name())).error("PointInTimeRecoveryUnavailableException", "…");
        switch_on(&table);
        restore(latest(&table, table.name()))
            .error("TableAlreadyExistsException", &format!("Table already exists: {}", table.name()));
        for moment in [1.0, 99_999_999_999.0] {
            let target = db.unused_name();
            restore(json!({"SourceTableName": table.name(), "TargetTableName": target, "RestoreDateTime": moment}))
                .error("InvalidRestoreTimeException", "…");
        }
        let unknown = json!({"SourceTableName": "no.such.table", "TargetTableName": "no.target", "UseLatestRestorableTime": true});
        restore(unknown).error("TableNotFoundException", "Table not found: no.such.table");
        for operation in ["UpdateContinuousBackups", "DescribeContinuousBackups"] {
            let specification = json!({"PointInTimeRecoveryEnabled": true});
            let request =
                json!({"TableName": "no.such.table", "PointInTimeRecoverySpecification": specification});
            db.call(operation, request).error("TableNotFoundException", "Table not found: no.such.table");
        }
    });
}

#[test]
fn members_are_constrained() {
    conform(|db: &Endpoint| {
        let table = db.table(keys("pk:S"));
        let switch = |specification: Value| json!({"PointInTimeRecoverySpecification": specification});
        table.all_invalid(
            "UpdateContinuousBackups",
            [
                (
                    json!({}),
                    "1 validation error detected: Value null at 'pointInTimeRecoverySpecification' failed to satisfy constraint: Member must not be null",
                ),
                (
                    switch(json!({})),
                    "1 validation error detected: Value null at 'pointInTimeRecoverySpecification.pointInTimeRecoveryEnabled' failed to satisfy constraint: Member must not be null",
                ),
                (
                    switch(json!({"PointInTimeRecoveryEnabled": true, "RecoveryPeriodInDays": 36})),
                    "1 validation error detected: Value '36' at 'pointInTimeRecoverySpecification.recoveryPeriodInDays' failed to satisfy constraint: Member must have value less than or equal to 35",
                ),
                (
                    switch(json!({"PointInTimeRecoveryEnabled": true, "RecoveryPeriodInDays": 0})),
                    "1 validation error detected: Value '0' at 'pointInTimeRecoverySpecification.recoveryPeriodInDays' failed to satisfy constraint: Member must have value greater than or equal to 1",
                ),
            ],
        );
        let both = json!({"SourceTableName": table.name(), "TargetTableName": "no.target", "UseLatestRestorableTime": true, "RestoreDateTime": 1});
        db.all_invalid(
            "RestoreTableToPointInTime",
            [
                (
                    json!({"SourceTableName": table.name(), "UseLatestRestorableTime": true}),
                    "1 validation error detected: Value null at 'targetTableName' failed to satisfy constraint: Member must not be null",
                ),
                (both, "…"),
                (json!({"SourceTableName": table.name(), "TargetTableName": "no.target"}), "…"),
                (json!({"TargetTableName": "no.target", "UseLatestRestorableTime": true}), "…"),
            ],
        );
    });
}
