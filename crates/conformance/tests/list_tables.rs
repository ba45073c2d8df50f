//! ListTables: names in order, a page at a time.

use larder_conformance::{conform, keys};
use serde_json::json;

#[test]
fn a_new_table_is_listed() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let mut names: Vec<String> = vec![];
        let mut request = json!({});
        loop {
            let page = db.ok("ListTables", request);
            names.extend(
                page["TableNames"]
                    .as_array()
                    .expect("names")
                    .iter()
                    .filter_map(|name| name.as_str())
                    .map(str::to_owned),
            );
            if page["LastEvaluatedTableName"].is_null() {
                break;
            }
            request = json!({"ExclusiveStartTableName": page["LastEvaluatedTableName"]});
        }
        assert!(names.iter().any(|name| name == table.name()), "{names:?}");
        assert!(names.is_sorted(), "{names:?}");
    });
}

#[test]
fn a_page_ends_with_the_name_to_go_on_from() {
    conform(|db| {
        let _tables = [db.table(keys("pk:S")), db.table(keys("pk:S"))];
        let page = db.ok("ListTables", json!({"Limit": 1}));
        assert_eq!(page["TableNames"].as_array().map(Vec::len), Some(1));
        assert_eq!(page["LastEvaluatedTableName"], page["TableNames"][0]);
    });
}

#[test]
fn a_page_starts_after_a_name_that_need_not_exist() {
    conform(|db| {
        let name = db.unused_name();
        let _after = db.table_from(keys("pk:S").request(&format!("{name}.b")));
        let page = db.ok("ListTables", json!({"ExclusiveStartTableName": format!("{name}.a"), "Limit": 1}));
        assert_eq!(page["TableNames"], json!([format!("{name}.b")]));
    });
}

#[test]
fn the_last_page_has_no_name_to_go_on_from() {
    conform(|db| {
        let page = db.ok("ListTables", json!({"ExclusiveStartTableName": "zzzzzzzzzz"}));
        assert_eq!(page, json!({"TableNames": []}));
    });
}

#[test]
fn a_limit_is_one_to_a_hundred() {
    conform(|db| {
        db.all_invalid(
            "ListTables",
            [
                (
                    json!({"Limit": 0}),
                    "1 validation error detected: Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1",
                ),
                (
                    json!({"Limit": 101}),
                    "1 validation error detected: Value '101' at 'limit' failed to satisfy constraint: Member must have value less than or equal to 100",
                ),
            ],
        );
    });
}

#[test]
fn a_start_name_is_constrained() {
    conform(|db| {
        db.invalid(
            "ListTables",
            json!({"ExclusiveStartTableName": "a;"}),
            "2 validation errors detected: …'exclusiveStartTableName'…",
        );
    });
}
