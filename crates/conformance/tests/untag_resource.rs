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
