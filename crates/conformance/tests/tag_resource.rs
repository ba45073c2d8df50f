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

#[test]
fn the_answer_is_empty() {
    conform(|db| {
        let arn = db.table(keys("pk:S")).arn();
        let table = db.table(keys("pk:S"));
        let tagged =
            db.call("TagResource", json!({"ResourceArn": table.arn(), "Tags": [{"Key": "a", "Value": "1"}]}));
        assert_eq!((tagged.status, tagged.bytes.len()), (200, 0));
        let untagged = db.call("UntagResource", json!({"ResourceArn": table.arn(), "TagKeys": ["a"]}));
        assert_eq!((untagged.status, untagged.bytes.len()), (200, 0));
        drop(arn);
    });
}

#[test]
fn a_tag_has_a_key_and_a_value() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let tag =
            |tag: Value| json!({"ResourceArn": table.arn(), "Tags": [{"Key": "good", "Value": "1"}, tag]});
        let told = |value: &str, member: &str, rule: &str| {
            format!(
                "1 validation error detected: Value {value} at '{member}' failed to satisfy constraint: Member must {rule}"
            )
        };
        for (request, message) in [
            (tag(json!({"Key": "a"})), told("null", "tags.2.member.value", "not be null")),
            (tag(json!({"Value": "a"})), told("null", "tags.2.member.key", "not be null")),
            (
                tag(json!({"Key": "", "Value": "a"})),
                told("''", "tags.2.member.key", "have length greater than or equal to 1"),
            ),
            (
                tag(json!({"Key": "k".repeat(129), "Value": "a"})),
                told("'…'", "tags.2.member.key", "have length less than or equal to 128"),
            ),
            (
                tag(json!({"Key": "k", "Value": "v".repeat(257)})),
                told("'…'", "tags.2.member.value", "have length less than or equal to 256"),
            ),
            (json!({"ResourceArn": table.arn()}), told("null", "tags", "not be null")),
        ] {
            db.invalid("TagResource", request, &message);
        }
        assert!(tags(db, &table.arn()).is_empty());
        db.invalid(
            "UntagResource",
            json!({"ResourceArn": table.arn()}),
            &told("null", "tagKeys", "not be null"),
        );
    });
}

#[test]
fn what_is_no_arn_of_ours_is_denied() {
    conform(|db| {
        let requests = |arn: &str| {
            [
                ("TagResource", json!({"ResourceArn": arn, "Tags": [{"Key": "a", "Value": "1"}]})),
                ("UntagResource", json!({"ResourceArn": arn, "TagKeys": ["a"]})),
                ("ListTagsOfResource", json!({"ResourceArn": arn})),
            ]
        };
        for arn in ["nonsense", "arn:aws:s3:::bucket", "arn:aws:kms:us-east-1:000000000000:key/a"] {
            for (operation, request) in requests(arn) {
                db.call(operation, request).error(
                    "AccessDeniedException",
                    &format!("User: … is not authorized to perform: dynamodb:{operation} on resource: {arn}"),
                );
            }
        }
        for arn in ["arn:aws:dynamodb:us-east-1:000000000000:index/abc", "a:b:c:d:e:f/g"] {
            for (operation, request) in requests(arn) {
                db.invalid(
                    operation,
                    request,
                    &format!("Invalid TableArn: Invalid ResourceArn provided as input {arn}"),
                );
            }
        }
    });
}

#[test]
fn tags_changed_by_many_at_once_end_as_one_of_them_said() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let arn = table.arn();
        std::thread::scope(|scope| {
            for caller in 0..8 {
                let arn = &arn;
                scope.spawn(move || {
                    for _ in 0..10 {
                        let value = caller.to_string();
                        let all = json!([{"Key": "a", "Value": value}, {"Key": "b", "Value": value}]);
                        db.ok("TagResource", json!({"ResourceArn": arn, "Tags": all}));
                        db.ok("UntagResource", json!({"ResourceArn": arn, "TagKeys": ["gone"]}));
                    }
                });
            }
        });
        let tags = tags(db, &arn);
        assert_eq!(tags.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(tags[0].1, tags[1].1, "both are of one caller");
    });
}
