//! DescribeTable.

use larder_conformance::{conform, keys};
use serde_json::json;

#[test]
fn a_new_table_is_empty_and_active() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let described = table.describe();
        assert_eq!(described["TableStatus"], "ACTIVE");
        assert_eq!(described["ItemCount"], json!(0));
        assert_eq!(described["AttributeDefinitions"], json!([{"AttributeName": "pk", "AttributeType": "S"}]));
    });
}

#[test]
fn absent_settings_are_absent() {
    conform(|db| {
        let described = db.table(keys("pk:S")).describe();
        for member in [
            "GlobalSecondaryIndexes",
            "LocalSecondaryIndexes",
            "StreamSpecification",
            "LatestStreamArn",
            "SSEDescription",
        ] {
            assert!(described[member].is_null(), "{member}: {}", described[member]);
        }
    });
}

#[test]
fn an_unknown_table_is_not_found() {
    conform(|db| {
        db.call("DescribeTable", json!({"TableName": "no.such.table"})).error(
            "ResourceNotFoundException",
            "Requested resource not found: Table: no.such.table not found",
        );
    });
}

#[test]
fn a_name_is_checked_before_it_is_looked_up() {
    conform(|db| {
        db.all_invalid(
            "DescribeTable",
            [
                (json!({}), "The parameter 'TableName' is required but was not present in the request"),
                (json!({"TableName": "ab"}), "TableName must be at least 3 characters long and at most 255 characters long"),
                (
                    json!({"TableName": "abc;"}),
                    "1 validation error detected: Value 'abc;' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+",
                ),
            ],
        );
    });
}

#[test]
fn a_table_may_be_named_by_its_arn() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let described = db.ok("DescribeTable", json!({"TableName": table.arn()}));
        assert_eq!(described["Table"]["TableName"], json!(table.name()));
    });
}
