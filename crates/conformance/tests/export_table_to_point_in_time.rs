//! ExportTableToPointInTime, DescribeExport, ListExports.

use larder_conformance::{BUCKET, Endpoint, Table, conform, keys, wait_until};
use serde_json::{Value, json};

const ABSENT: &str = "arn:aws:dynamodb:us-east-1:000000000000:table/no.such.table";

fn recoverable(db: &Endpoint) -> Table<'_> {
    let table = db.table(keys("pk:S"));
    let specification = json!({"PointInTimeRecoveryEnabled": true});
    table.ok("UpdateContinuousBackups", json!({"PointInTimeRecoverySpecification": specification}));
    table
}

/// The export once it is over.
#[expect(clippy::needless_pass_by_value, reason = "tests pass `json!` in place")]
fn exported(db: &Endpoint, table: &Table<'_>, more: Value) -> Value {
    let mut request = json!({"TableArn": table.arn(), "S3Bucket": BUCKET});
    request.as_object_mut().expect("members").extend(more.as_object().expect("members").clone());
    let begun = db.ok("ExportTableToPointInTime", request)["ExportDescription"].clone();
    assert_eq!(begun["ExportStatus"], "IN_PROGRESS");
    assert!(
        begun["ExportArn"].as_str().is_some_and(|arn| arn.starts_with(&format!("{}/export/", table.arn())))
    );
    let described =
        || db.ok("DescribeExport", json!({"ExportArn": begun["ExportArn"]}))["ExportDescription"].clone();
    wait_until("the export is over", || described()["ExportStatus"] != "IN_PROGRESS");
    described()
}

#[test]
fn a_table_is_exported_and_listed() {
    conform(|db| {
        let table = recoverable(db);
        for pk in ["a", "b"] {
            table.put(json!({"pk": {"S": pk}}));
        }
        let done = exported(db, &table, json!({"S3Prefix": "conformance"}));
        for (member, expected) in [
            ("ExportStatus", json!("COMPLETED")),
            ("ExportType", json!("FULL_EXPORT")),
            ("ExportFormat", json!("DYNAMODB_JSON")),
            ("ItemCount", json!(2)),
            ("TableArn", json!(table.arn())),
            ("TableId", table.describe()["TableId"].clone()),
            ("S3Bucket", json!(BUCKET)),
            ("S3Prefix", json!("conformance")),
        ] {
            assert_eq!(done[member], expected, "{member}");
        }
        for member in ["StartTime", "EndTime", "ExportTime", "BilledSizeBytes"] {
            assert!(done[member].is_number(), "{member}");
        }
        let id = done["ExportArn"].as_str().and_then(|arn| arn.rsplit('/').next()).expect("an id");
        assert_eq!(done["ExportManifest"], format!("conformance/AWSDynamoDB/{id}/manifest-summary.json"));
        let listed = db.ok("ListExports", json!({"TableArn": table.arn()}));
        let summary =
            json!({"ExportArn": done["ExportArn"], "ExportStatus": "COMPLETED", "ExportType": "FULL_EXPORT"});
        assert_eq!(listed, json!({"ExportSummaries": [summary]}));
    });
}

#[test]
fn a_client_token_stands_for_one_export() {
    conform(|db| {
        let table = recoverable(db);
        let request = json!({"TableArn": table.arn(), "S3Bucket": BUCKET, "ClientToken": table.name()});
        let first = db.ok("ExportTableToPointInTime", request.clone());
        let again = db.ok("ExportTableToPointInTime", request.clone());
        assert_eq!(first["ExportDescription"]["ExportArn"], again["ExportDescription"]["ExportArn"]);
        let mut other = request;
        other["S3Prefix"] = "elsewhere".into();
        db.call("ExportTableToPointInTime", other).error("ExportConflictException", "…");
    });
}

#[test]
fn what_cannot_be_exported_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let request = json!({"TableArn": table.arn(), "S3Bucket": BUCKET});
        db.call("ExportTableToPointInTime", request).error("PointInTimeRecoveryUnavailableException", "…");
        let request = json!({"TableArn": ABSENT, "S3Bucket": BUCKET});
        db.call("ExportTableToPointInTime", request).error("TableNotFoundException", "…");
        let table = recoverable(db);
        let request = json!({"TableArn": table.arn(), "S3Bucket": BUCKET, "ExportTime": 1});
        db.call("ExportTableToPointInTime", request).error("InvalidExportTimeException", "…");
        let arn = format!("{ABSENT}/export/01234567890123-a1b2c3d4");
        db.call("DescribeExport", json!({"ExportArn": arn})).error("ExportNotFoundException", "…");
    });
}

#[test]
fn members_are_constrained() {
    conform(|db| {
        let arn = ABSENT;
        let of = |path: &str, rule: &str| {
            format!("1 validation error detected: Value {path} failed to satisfy constraint: {rule}")
        };
        let cases = [
            (json!({"TableArn": arn}), of("null at 's3Bucket'", "Member must not be null")),
            (json!({"S3Bucket": BUCKET}), of("null at 'tableArn'", "Member must not be null")),
            (
                json!({"TableArn": arn, "S3Bucket": "-"}),
                of(
                    "'-' at 's3Bucket'",
                    r"Member must satisfy regular expression pattern: ^[a-z0-9A-Z]+[\.\-\w]*[a-z0-9A-Z]+$",
                ),
            ),
            (
                json!({"TableArn": arn, "S3Bucket": BUCKET, "ExportFormat": "XML"}),
                of("'XML' at 'exportFormat'", "Member must satisfy enum value set: [DYNAMODB_JSON, ION]"),
            ),
            (
                json!({"TableArn": arn, "S3Bucket": BUCKET, "ExportType": "PART"}),
                of(
                    "'PART' at 'exportType'",
                    "Member must satisfy enum value set: [FULL_EXPORT, INCREMENTAL_EXPORT]",
                ),
            ),
        ];
        db.all_invalid(
            "ExportTableToPointInTime",
            cases.iter().map(|(body, message)| (body.clone(), message.as_str())),
        );
        let message = of("'26' at 'maxResults'", "Member must have value less than or equal to 25");
        db.invalid("ListExports", json!({"MaxResults": 26}), &message);
    });
}
