//! GetResourcePolicy.

use larder_conformance::{conform, keys};
use serde_json::json;

#[test]
fn a_new_table_has_no_policy() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        db.call("GetResourcePolicy", json!({"ResourceArn": table.arn()}))
            .error("PolicyNotFoundException", "…");
    });
}

#[test]
fn a_policy_given_at_creation_is_there() {
    conform(|db| {
        let policy = json!({
            "Version": "2012-10-17",
            "Statement": {"Effect": "Deny", "Principal": "*", "Action": "dynamodb:DeleteItem", "Resource": "*"},
        });
        let table = db.table(keys("pk:S").with("ResourcePolicy", policy.to_string().into()));
        let kept = db.ok("GetResourcePolicy", json!({"ResourceArn": table.arn()}));
        assert_eq!(kept["Policy"], policy.to_string());
        let refused = keys("pk:S").with("ResourcePolicy", "{}".into()).request("with.a.bad.policy");
        db.call("CreateTable", refused).error("ValidationException", "…");
    });
}

#[test]
fn an_unknown_table_is_refused() {
    conform(|db| {
        let arn = db.table(keys("pk:S")).arn();
        db.call("GetResourcePolicy", json!({"ResourceArn": arn})).error("ResourceNotFoundException", "…");
    });
}

#[test]
fn something_that_is_no_arn_is_refused() {
    conform(|db| {
        for arn in ["nonsense", ""] {
            db.call("GetResourcePolicy", json!({"ResourceArn": arn})).error("ValidationException", "…");
        }
        db.call("GetResourcePolicy", json!({})).error("ValidationException", "…");
    });
}
