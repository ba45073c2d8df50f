//! ListTagsOfResource.

use larder_conformance::{conform, keys};
use serde_json::json;

#[test]
fn a_new_table_has_no_tags() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        assert_eq!(db.ok("ListTagsOfResource", json!({"ResourceArn": table.arn()})), json!({"Tags": []}));
    });
}

#[test]
fn something_that_is_no_arn_is_refused() {
    conform(|db| {
        db.call("ListTagsOfResource", json!({"ResourceArn": "nonsense"})).error("AccessDeniedException", "…");
    });
}

#[test]
fn an_unknown_table_is_refused() {
    conform(|db| {
        let arn = db.table(keys("pk:S")).arn();
        db.call("ListTagsOfResource", json!({"ResourceArn": arn})).error(
            "AccessDeniedException",
            &format!("User: … is not authorized to perform: dynamodb:ListTagsOfResource on resource: {arn}"),
        );
    });
}
