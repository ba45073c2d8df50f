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
        db.call("ListTagsOfResource", json!({"ResourceArn": "nonsense"})).error("ValidationException", "…");
    });
}

#[test]
fn an_unknown_table_is_refused() {
    conform(|db| {
        let arn = db.table(keys("pk:S")).arn();
        // AWS tells of no table that the caller may not see; whether an absent one is such depends on the account.
        let answer = db.call("ListTagsOfResource", json!({"ResourceArn": arn}));
        assert_eq!(answer.status, 400);
        assert!(
            matches!(answer.code(), Some("AccessDeniedException" | "ResourceNotFoundException")),
            "{}",
            answer.body
        );
    });
}
