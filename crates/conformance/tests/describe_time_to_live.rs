//! DescribeTimeToLive.

use larder_conformance::{conform, keys};
use serde_json::json;

#[test]
fn a_new_table_has_none() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let answer = table.ok("DescribeTimeToLive", json!({}));
        assert_eq!(answer, json!({"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}));
    });
}

#[test]
fn an_enabled_attribute_is_named() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.ok(
            "UpdateTimeToLive",
            json!({"TimeToLiveSpecification": {"Enabled": true, "AttributeName": "expires"}}),
        );
        let description = table.ok("DescribeTimeToLive", json!({}))["TimeToLiveDescription"].clone();
        assert_eq!(description["AttributeName"], "expires");
        let status = &description["TimeToLiveStatus"];
        assert!(status == "ENABLED" || status == "ENABLING", "{status}");
    });
}

#[test]
fn an_unknown_table_is_not_found() {
    conform(|db| {
        db.call("DescribeTimeToLive", json!({"TableName": "no.such.table"})).error(
            "ResourceNotFoundException",
            "Requested resource not found: Table: no.such.table not found",
        );
    });
}
