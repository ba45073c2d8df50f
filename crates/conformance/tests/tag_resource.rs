//! TagResource.

use larder_conformance::{Endpoint, conform, keys};
use serde_json::{Value, json};

fn tags(db: &Endpoint, arn: &str) -> Vec<(String, String)> {
    let mut tags: Vec<(String, String)> = db.ok("ListTagsOfResource", json!({"ResourceArn": arn}))["Tags"]
        .as_array()
        .expect("tags")
        .iter()
        .map(|tag| {
            let part = |name: &str| tag[name].as_str().unwrap_or_default().to_owned();
            (part("Key"), part("Value"))
        })
        .collect();
    tags.sort();
    tags
}

#[test]
fn a_tag_is_added_or_replaced() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let arn = table.arn();
        db.ok(
            "TagResource",
            json!({"ResourceArn": arn, "Tags": [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": ""}]}),
        );
        db.ok("TagResource", json!({"ResourceArn": arn, "Tags": [{"Key": "a", "Value": "2"}]}));
        assert_eq!(tags(db, &arn), [("a".into(), "2".into()), ("b".into(), String::new())]);
    });
}

#[test]
fn at_least_one_tag_is_given() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        db.invalid(
            "TagResource",
            json!({"ResourceArn": table.arn(), "Tags": []}),
            "Atleast one Tag needs to be provided as Input.",
        );
    });
}

#[test]
fn a_table_has_at_most_fifty_tags() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let many: Value = (0..51).map(|n| json!({"Key": format!("k{n}"), "Value": "v"})).collect();
        db.call("TagResource", json!({"ResourceArn": table.arn(), "Tags": many}))
            .error("ValidationException", "…");
        assert!(tags(db, &table.arn()).is_empty());
    });
}

#[test]
fn an_unknown_table_is_refused() {
    conform(|db| {
        let arn = db.table(keys("pk:S")).arn();
        let answer =
            db.call("TagResource", json!({"ResourceArn": arn, "Tags": [{"Key": "a", "Value": "1"}]}));
        answer.error(
            "ResourceNotFoundException",
            &format!("Requested resource not found: ResourcArn: {arn} not found"),
        );
    });
}
