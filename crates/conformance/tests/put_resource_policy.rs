//! PutResourcePolicy.

use larder_conformance::{Endpoint, conform, keys};
use serde_json::{Value, json};

/// A policy for whoever may read this resource, with a name that tells it from others.
fn policy(arn: &str, sid: &str) -> String {
    let statement = json!({
        "Sid": sid, "Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "dynamodb:GetItem", "Resource": arn
    });
    json!({"Version": "2012-10-17", "Statement": [statement]}).to_string()
}

#[track_caller]
fn put(db: &Endpoint, arn: &str, policy: &str) -> Value {
    db.ok("PutResourcePolicy", json!({"ResourceArn": arn, "Policy": policy}))["RevisionId"].clone()
}

#[track_caller]
fn kept(db: &Endpoint, arn: &str) -> Value {
    db.ok("GetResourcePolicy", json!({"ResourceArn": arn}))
}

#[test]
fn a_policy_is_kept_as_it_is_and_replaced_by_another() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let arn = table.arn();
        let first = put(db, &arn, &policy(&arn, "First"));
        assert!(first.as_str().is_some_and(|revision| !revision.is_empty()));
        assert_eq!(kept(db, &arn), json!({"Policy": policy(&arn, "First"), "RevisionId": first}));
        let second = put(db, &arn, &policy(&arn, "Second"));
        assert_ne!(first, second);
        assert_eq!(kept(db, &arn), json!({"Policy": policy(&arn, "Second"), "RevisionId": second}));
    });
}

#[test]
fn the_same_policy_again_keeps_its_revision() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let arn = table.arn();
        let first = put(db, &arn, &policy(&arn, "Same"));
        assert_eq!(put(db, &arn, &policy(&arn, "Same")), first);
    });
}

#[test]
fn a_revision_can_be_expected() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let arn = table.arn();
        let call = |sid: &str, expected: &Value| {
            let body =
                json!({"ResourceArn": arn, "Policy": policy(&arn, sid), "ExpectedRevisionId": expected});
            db.call("PutResourcePolicy", body)
        };
        call("A", &"1".into()).error("PolicyNotFoundException", "…");
        let first = call("A", &"NO_POLICY".into()).ok()["RevisionId"].clone();
        call("B", &"NO_POLICY".into()).error("PolicyNotFoundException", "…");
        let second = call("B", &first).ok()["RevisionId"].clone();
        call("C", &first).error("PolicyNotFoundException", "…");
        assert_eq!(kept(db, &arn), json!({"Policy": policy(&arn, "B"), "RevisionId": second}));
    });
}

#[test]
fn a_stream_has_a_policy_of_its_own() {
    conform(|db| {
        let stream = json!({"StreamEnabled": true, "StreamViewType": "KEYS_ONLY"});
        let table = db.table(keys("pk:S").with("StreamSpecification", stream));
        let arn = table.describe()["LatestStreamArn"].as_str().expect("a stream").to_owned();
        let reads = policy(&arn, "Stream").replace("GetItem", "GetRecords");
        let revision = put(db, &arn, &reads);
        assert_eq!(kept(db, &arn), json!({"Policy": reads, "RevisionId": revision}));
        db.call("GetResourcePolicy", json!({"ResourceArn": table.arn()}))
            .error("PolicyNotFoundException", "…");
    });
}

#[test]
fn what_is_no_policy_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let arn = table.arn();
        let without_principal = policy(&arn, "Whose").replace(r#""Principal""#, r#""Who""#);
        for text in ["", "{}", "[]", "nonsense", without_principal.as_str()] {
            db.call("PutResourcePolicy", json!({"ResourceArn": arn, "Policy": text}))
                .error("ValidationException", "…");
        }
        db.call("GetResourcePolicy", json!({"ResourceArn": arn})).error("PolicyNotFoundException", "…");
    });
}

#[test]
fn actions_of_streams_are_not_for_tables() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let arn = table.arn();
        let reads = policy(&arn, "Stream").replace("GetItem", "GetRecords");
        db.invalid(
            "PutResourcePolicy",
            json!({"ResourceArn": arn, "Policy": reads}),
            "One or more parameter values were invalid: Invalid policy document: The following action names are \
             invalid: \"dynamodb:GetRecords\"",
        );
    });
}

#[test]
fn a_policy_has_at_most_twenty_kilobytes_with_its_spaces() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let arn = table.arn();
        let text = policy(&arn, "Large");
        let padded = |bytes: usize| format!("{text}{}", " ".repeat(bytes - text.len()));
        put(db, &arn, &padded(20 * 1024));
        let body = json!({"ResourceArn": arn, "Policy": padded(20 * 1024 + 1)});
        assert_eq!(db.call("PutResourcePolicy", body).status, 400);
    });
}

#[test]
fn what_is_not_there_has_no_policy() {
    conform(|db| {
        let arn = db.table(keys("pk:S")).arn();
        db.call("PutResourcePolicy", json!({"ResourceArn": arn, "Policy": policy(&arn, "Gone")}))
            .error("ResourceNotFoundException", "…");
    });
}

#[test]
fn indexes_are_in_the_policy_of_their_table() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_city", "city:S", "ALL"));
        let arn = format!("{}/index/by_city", table.arn());
        db.call("PutResourcePolicy", json!({"ResourceArn": arn, "Policy": policy(&arn, "Index")}))
            .error("ValidationException", "…");
    });
}

#[test]
fn whoever_leaves_themselves_out_may_say_that_they_mean_it() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let arn = table.arn();
        let body = json!({
            "ResourceArn": arn, "Policy": policy(&arn, "Sure"), "ConfirmRemoveSelfResourceAccess": true
        });
        assert_eq!(db.ok("PutResourcePolicy", body)["RevisionId"], kept(db, &arn)["RevisionId"]);
    });
}
