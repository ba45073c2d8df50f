//! ImportTable, DescribeImport, ListImports.

use larder_conformance::{BUCKET, Endpoint, conform, keys, wait_until};
use serde_json::{Value, json};

const ABSENT: &str = "arn:aws:dynamodb:us-east-1:000000000000:table/no.such.table";

fn parameters(name: &str) -> Value {
    json!({
        "TableName": name,
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
    })
}

/// The import once it is over.
fn imported(db: &Endpoint, request: Value) -> Value {
    let begun = db.ok("ImportTable", request)["ImportTableDescription"].clone();
    assert_eq!(begun["ImportStatus"], "IN_PROGRESS");
    let described = || {
        db.ok("DescribeImport", json!({"ImportArn": begun["ImportArn"]}))["ImportTableDescription"].clone()
    };
    wait_until("the import is over", || described()["ImportStatus"] != "IN_PROGRESS");
    described()
}

#[test]
fn a_table_is_made_of_what_another_was_exported_to() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let specification = json!({"PointInTimeRecoveryEnabled": true});
        table.ok("UpdateContinuousBackups", json!({"PointInTimeRecoverySpecification": specification}));
        let item = json!({"pk": {"S": "a"}, "v": {"M": {"deep": {"L": [{"N": "1.5"}, {"BOOL": true}]}}}});
        table.put(item.clone());
        let begun = db.ok("ExportTableToPointInTime", json!({"TableArn": table.arn(), "S3Bucket": BUCKET}));
        let arn = begun["ExportDescription"]["ExportArn"].clone();
        let described = || db.ok("DescribeExport", json!({"ExportArn": arn}))["ExportDescription"].clone();
        wait_until("the export is over", || described()["ExportStatus"] == "COMPLETED");
        let manifest = described()["ExportManifest"].as_str().map(str::to_owned).expect("a key");
        let prefix = manifest.replace("manifest-summary.json", "data/");

        let name = db.unused_name();
        let source = json!({"S3Bucket": BUCKET, "S3KeyPrefix": prefix});
        let done = imported(
            db,
            json!({
                "S3BucketSource": source,
                "InputFormat": "DYNAMODB_JSON",
                "InputCompressionType": "GZIP",
                "TableCreationParameters": parameters(&name),
            }),
        );
        let made = db.adopt(&name);
        for (member, expected) in [
            ("ImportStatus", json!("COMPLETED")),
            ("InputFormat", json!("DYNAMODB_JSON")),
            ("InputCompressionType", json!("GZIP")),
            ("S3BucketSource", source),
            ("TableArn", json!(made.arn())),
            ("TableId", made.describe()["TableId"].clone()),
            ("ErrorCount", json!(0)),
            ("ProcessedItemCount", json!(1)),
            ("ImportedItemCount", json!(1)),
        ] {
            assert_eq!(done[member], expected, "{member}");
        }
        assert_eq!(made.get(json!({"pk": {"S": "a"}})), item);
        let listed = db.ok("ListImports", json!({"TableArn": made.arn()}));
        let [summary] = listed["ImportSummaryList"].as_array().expect("a list").as_slice() else {
            panic!("{listed}")
        };
        assert_eq!(
            (&summary["ImportArn"], &summary["ImportStatus"]),
            (&done["ImportArn"], &json!("COMPLETED"))
        );
    });
}

#[test]
fn what_cannot_be_imported_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let request = json!({
            "S3BucketSource": {"S3Bucket": BUCKET},
            "InputFormat": "DYNAMODB_JSON",
            "TableCreationParameters": parameters(table.name()),
        });
        db.call("ImportTable", request).error("ResourceInUseException", "…");
        let arn = format!("{ABSENT}/import/01234567890123-a1b2c3d4");
        db.call("DescribeImport", json!({"ImportArn": arn})).error("ImportNotFoundException", "…");
    });
}

#[test]
fn members_are_constrained() {
    conform(|db| {
        let of = |path: &str, rule: &str| {
            format!("1 validation error detected: Value {path} failed to satisfy constraint: {rule}")
        };
        let good = json!({
            "S3BucketSource": {"S3Bucket": BUCKET},
            "InputFormat": "CSV",
            "TableCreationParameters": parameters("no.such.table"),
        });
        let with = |member: &str, value: Value| {
            let mut body = good.clone();
            body[member] = value;
            body
        };
        let cases = [
            (with("S3BucketSource", Value::Null), of("null at 's3BucketSource'", "Member must not be null")),
            (with("InputFormat", Value::Null), of("null at 'inputFormat'", "Member must not be null")),
            (
                with("InputCompressionType", json!("ZIP")),
                of(
                    "'ZIP' at 'inputCompressionType'",
                    "Member must satisfy enum value set: [GZIP, ZSTD, NONE]",
                ),
            ),
            (
                with("InputFormatOptions", json!({"Csv": {"Delimiter": "x"}})),
                of(
                    "'x' at 'inputFormatOptions.csv.delimiter'",
                    r"Member must satisfy regular expression pattern: [,;:|\t ]",
                ),
            ),
        ];
        db.all_invalid("ImportTable", cases.iter().map(|(body, message)| (body.clone(), message.as_str())));
        let message = of("'0' at 'pageSize'", "Member must have value greater than or equal to 1");
        db.invalid("ListImports", json!({"PageSize": 0}), &message);
    });
}
