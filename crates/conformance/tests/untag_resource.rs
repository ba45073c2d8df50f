//! UntagResource.

use larder_conformance::{conform, keys};
use serde_json::json;

#[test]
fn a_tag_is_removed() {
    conform(|db| {
        let tags = json!([{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]);
        let table = db.table(keys("pk:S").with("Tags", tags));
        db.ok("UntagResource", json!({"ResourceArn": table.arn(), "TagKeys": ["a", "unknown"]}));
        let listed = db.ok("ListTagsOfResource", json!({"ResourceArn": table.arn()}));
        assert_eq!(listed["Tags"], json!([{"Key": "b", "Value": "2"}]));
    });
}

#[test]
fn at_least_one_key_is_given() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        db.invalid(
            "UntagResource",
            json!({"ResourceArn": table.arn(), "TagKeys": []}),
            "Atleast one Tag Key needs to be provided as Input.",
        );
    });
}

#[test]
fn a_key_is_of_1_to_128_characters() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let request = |key: &str| json!({"ResourceArn": table.arn(), "TagKeys": ["a", key]});
        db.ok("UntagResource", request(&"k".repeat(128)));
        for key in ["", &"k".repeat(129)] {
            db.invalid(
                "UntagResource",
                request(key),
                "1 validation error detected: Value '[…]' at 'tagKeys' failed to satisfy constraint: Member must satisfy constraint: [Member must have length less than or equal to 128, Member must have length greater than or equal to 1]",
            );
        }
    });
}
