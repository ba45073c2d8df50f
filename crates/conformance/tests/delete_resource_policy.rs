//! DeleteResourcePolicy.

use larder_conformance::{Endpoint, Table, conform, keys};
use serde_json::{Value, json};

/// A table with a policy, its ARN and the policy's revision.
fn governed(db: &Endpoint) -> (Table<'_>, String, Value) {
    let table = db.table(keys("pk:S"));
    let arn = table.arn();
    let policy = json!({
        "Version": "2012-10-17",
        "Statement": {"Effect": "Deny", "Principal": "*", "Action": "dynamodb:DeleteItem", "Resource": "*"},
    });
    let put = db.ok("PutResourcePolicy", json!({"ResourceArn": arn, "Policy": policy.to_string()}));
    (table, arn, put["RevisionId"].clone())
}

#[test]
fn a_policy_is_deleted_and_again() {
    conform(|db| {
        let (_table, arn, revision) = governed(db);
        let deleted = db.ok("DeleteResourcePolicy", json!({"ResourceArn": arn}));
        assert_eq!(deleted["RevisionId"], revision);
        db.call("GetResourcePolicy", json!({"ResourceArn": arn})).error("PolicyNotFoundException", "…");
        let again = db.ok("DeleteResourcePolicy", json!({"ResourceArn": arn}));
        assert!(again["RevisionId"].as_str().unwrap_or_default().is_empty());
    });
}

#[test]
fn a_revision_can_be_expected() {
    conform(|db| {
        let (_table, arn, revision) = governed(db);
        let call = |expected: &Value| {
            db.call("DeleteResourcePolicy", json!({"ResourceArn": arn, "ExpectedRevisionId": expected}))
        };
        call(&"1".into()).error("PolicyNotFoundException", "…");
        call(&revision).ok();
        call(&revision).error("PolicyNotFoundException", "…");
    });
}

#[test]
fn a_policy_goes_with_its_table() {
    conform(|db| {
        let (table, arn, _) = governed(db);
        let name = table.name().to_owned();
        drop(table);
        db.ok("CreateTable", keys("pk:S").request(&name));
        let answer = db.call("GetResourcePolicy", json!({"ResourceArn": arn}));
        db.call("DeleteTable", json!({"TableName": name})).ok();
        answer.error("PolicyNotFoundException", "…");
    });
}

#[test]
fn an_unknown_table_is_refused() {
    conform(|db| {
        let arn = db.table(keys("pk:S")).arn();
        db.call("DeleteResourcePolicy", json!({"ResourceArn": arn})).error("ResourceNotFoundException", "…");
    });
}
