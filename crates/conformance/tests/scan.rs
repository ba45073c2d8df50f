//! Scan: the whole table, its segments, its indexes.

use larder_conformance::{Endpoint, Table, conform, keys};
use serde_json::{Value, json};

fn twenty(db: &Endpoint) -> Table<'_> {
    let table = db.table(keys("pk:S").global("by_g", "g:S", "KEYS_ONLY"));
    table.put_all((0..20).map(|n| {
        let mut item = json!({"pk": {"S": format!("k{n:02}")}, "n": {"N": n.to_string()}});
        if n % 2 == 0 {
            item["g"] = json!({"S": "even"});
        }
        item
    }));
    table
}

/// Partition keys over all pages of the scan, sorted, and how many pages there were.
fn all(table: &Table<'_>, base: &Value) -> (Vec<String>, usize) {
    let mut keys: Vec<String> = vec![];
    let mut request = base.clone();
    for page in 1..100 {
        let answer = table.ok("Scan", request);
        keys.extend(
            answer["Items"]
                .as_array()
                .expect("items")
                .iter()
                .filter_map(|item| item["pk"]["S"].as_str())
                .map(str::to_owned),
        );
        if answer["LastEvaluatedKey"].is_null() {
            keys.sort();
            return (keys, page);
        }
        request = base.clone();
        request["ExclusiveStartKey"] = answer["LastEvaluatedKey"].clone();
    }
    panic!("the scan does not end");
}

fn expected(numbers: impl Iterator<Item = u32>) -> Vec<String> {
    numbers.map(|n| format!("k{n:02}")).collect()
}

#[test]
fn an_empty_table_has_no_items() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        assert_eq!(table.ok("Scan", json!({})), json!({"Items": [], "Count": 0, "ScannedCount": 0}));
    });
}

#[test]
fn every_item_is_seen_once() {
    conform(|db| {
        let table = twenty(db);
        assert_eq!(all(&table, &json!({})), (expected(0..20), 1));
        assert_eq!(all(&table, &json!({"Limit": 7})).0, expected(0..20));
        assert_eq!(all(&table, &json!({"Limit": 1})).0, expected(0..20));
    });
}

#[test]
fn a_filter_is_applied_after_the_limit() {
    conform(|db| {
        let table = twenty(db);
        let request = json!({"FilterExpression": "n < :n", "ExpressionAttributeValues": {":n": {"N": "5"}}});
        let answer = table.ok("Scan", request.clone());
        assert_eq!((&answer["Count"], &answer["ScannedCount"]), (&json!(5), &json!(20)));
        let mut limited = request;
        limited["Limit"] = json!(3);
        assert_eq!(table.ok("Scan", limited.clone())["ScannedCount"], json!(3));
        assert_eq!(all(&table, &limited).0, expected(0..5));
    });
}

#[test]
fn a_filter_may_name_keys() {
    conform(|db| {
        let table = twenty(db);
        let request =
            json!({"FilterExpression": "pk = :k", "ExpressionAttributeValues": {":k": {"S": "k03"}}});
        assert_eq!(table.ok("Scan", request)["Count"], json!(1));
    });
}

#[test]
fn a_projection_leaves_the_rest_out() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "n": {"N": "1"}, "m": {"M": {"x": {"N": "2"}, "y": {"N": "3"}}}}));
        let answer = table.ok("Scan", json!({"ProjectionExpression": "n, m.y"}));
        assert_eq!(answer["Items"], json!([{"n": {"N": "1"}, "m": {"M": {"y": {"N": "3"}}}}]));
    });
}

#[test]
fn a_count_has_no_items() {
    conform(|db| {
        let table = twenty(db);
        assert_eq!(table.ok("Scan", json!({"Select": "COUNT"})), json!({"Count": 20, "ScannedCount": 20}));
    });
}

#[test]
fn segments_share_the_table_without_overlap() {
    conform(|db| {
        let table = twenty(db);
        for total in [1, 2, 4, 7] {
            let mut together: Vec<String> = (0..total)
                .flat_map(|segment| {
                    all(&table, &json!({"Segment": segment, "TotalSegments": total, "Limit": 3})).0
                })
                .collect();
            together.sort();
            assert_eq!(together, expected(0..20), "{total} segments");
        }
    });
}

#[test]
fn segments_are_checked() {
    conform(|db| {
        let table = twenty(db);
        table.all_invalid(
            "Scan",
            [
                (
                    json!({"Segment": 4, "TotalSegments": 4}),
                    "The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: 4 is not less than TotalSegments: 4",
                ),
                (
                    json!({"Segment": 0}),
                    "The TotalSegments parameter is required but was not present in the request when Segment parameter is present",
                ),
                (
                    json!({"TotalSegments": 2}),
                    "The Segment parameter is required but was not present in the request when parameter TotalSegments is present",
                ),
                (json!({"Segment": -1, "TotalSegments": 2}), "1 validation error detected: Value …egment' failed to satisfy constraint: Member must have value greater than or equal to 0"),
                (json!({"Segment": 0, "TotalSegments": 0}), "1 validation error detected: Value …otalSegments' failed to satisfy constraint: Member must have value greater than or equal to 1"),
                (
                    json!({"Segment": 0, "TotalSegments": 1_000_001}),
                    "1 validation error detected: Value …otalSegments' failed to satisfy constraint: Member must have value less than or equal to 1000000",
                ),
            ],
        );
    });
}

#[test]
fn an_index_holds_only_items_with_its_key() {
    conform(|db| {
        let table = twenty(db);
        assert_eq!(all(&table, &json!({"IndexName": "by_g"})).0, expected((0..20).step_by(2)));
        assert_eq!(all(&table, &json!({"IndexName": "by_g", "Limit": 3})).0, expected((0..20).step_by(2)));
    });
}

#[test]
fn segments_of_an_index_share_it() {
    conform(|db| {
        let table = twenty(db);
        let mut together: Vec<String> = (0..3)
            .flat_map(|segment| {
                all(&table, &json!({"IndexName": "by_g", "Segment": segment, "TotalSegments": 3})).0
            })
            .collect();
        together.sort();
        assert_eq!(together, expected((0..20).step_by(2)));
    });
}

#[test]
fn select_and_projection_must_agree() {
    conform(|db| {
        let table = twenty(db);
        table.all_invalid(
            "Scan",
            [
                (
                    json!({"Select": "SPECIFIC_ATTRIBUTES"}),
                    "Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES",
                ),
                (
                    json!({"Select": "COUNT", "ProjectionExpression": "n"}),
                    "Cannot specify the ProjectionExpression when choosing to get only the Count",
                ),
                (
                    json!({"Select": "ALL_PROJECTED_ATTRIBUTES"}),
                    "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName",
                ),
                (
                    json!({"Select": "ALL_ATTRIBUTES", "IndexName": "by_g"}),
                    "One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not supported for global secondary index by_g because its projection type is not ALL",
                ),
                (
                    json!({"ConsistentRead": true, "IndexName": "by_g"}),
                    "Consistent reads are not supported on global secondary indexes",
                ),
                (json!({"IndexName": "nope"}), "The table does not have the specified index: nope"),
            ],
        );
    });
}

#[test]
fn a_start_key_is_a_whole_key() {
    conform(|db| {
        let table = twenty(db);
        let mismatch =
            "The provided starting key is invalid: The provided key element does not match the schema";
        table.all_invalid(
            "Scan",
            [
                (json!({"ExclusiveStartKey": {}}), mismatch),
                (json!({"ExclusiveStartKey": {"n": {"N": "1"}}}), mismatch),
                (json!({"ExclusiveStartKey": {"pk": {"N": "1"}}}), mismatch),
                (json!({"ExclusiveStartKey": {"pk": {"S": "a"}, "n": {"N": "1"}}}), mismatch),
                (
                    json!({"IndexName": "by_g", "ExclusiveStartKey": {"pk": {"S": "a"}}}),
                    "The provided starting key is invalid…",
                ),
            ],
        );
    });
}

#[test]
fn a_start_key_belongs_to_its_segment() {
    conform(|db| {
        let table = twenty(db);
        // Of the two segments, at most one holds the key.
        let refused = (0..2)
            .filter(|segment| {
                let request = json!({"Segment": segment, "TotalSegments": 2, "ExclusiveStartKey": {"pk": {"S": "k00"}}});
                let answer = table.call("Scan", request);
                if answer.status != 200 {
                    answer
                        .error("ValidationException", "The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct Segment. TotalSegments: 2 Segment: …");
                    return true;
                }
                false
            })
            .count();
        assert_eq!(refused, 1);
    });
}

#[test]
fn a_page_ends_at_one_megabyte() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for n in 0..5 {
            table.put(json!({"pk": {"S": format!("k{n:02}")}, "v": {"S": "x".repeat(300_000)}}));
        }
        let first = table.ok("Scan", json!({}));
        assert_eq!(first["Count"], json!(4));
        assert!(!first["LastEvaluatedKey"].is_null());
        assert_eq!(all(&table, &json!({})), (expected(0..5), 2));
    });
}

#[test]
fn capacity_is_of_all_the_bytes_read_together() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put_all((0..10).map(|n| json!({"pk": {"S": format!("k{n}")}, "v": {"S": "x".repeat(1000)}})));
        let units = |changes: Value| {
            let mut request = json!({"ReturnConsumedCapacity": "TOTAL"});
            for (member, value) in changes.as_object().expect("changes") {
                request[member] = value.clone();
            }
            table.ok("Scan", request)["ConsumedCapacity"]["CapacityUnits"].clone()
        };
        assert_eq!(units(json!({})), json!(1.5));
        assert_eq!(units(json!({"ConsistentRead": true})), json!(3.0));
        assert_eq!(units(json!({"Select": "COUNT"})), json!(1.5));
        assert_eq!(
            units(json!({"FilterExpression": "pk = :k", "ExpressionAttributeValues": {":k": {"S": "none"}}})),
            json!(1.5)
        );
    });
}

#[test]
fn a_limit_is_at_least_one() {
    conform(|db| {
        let table = twenty(db);
        table
            .call("Scan", json!({"Limit": 0}))
            .error("ValidationException", "1 validation error detected: Value …imit' failed to satisfy constraint: Member must have value greater than or equal to 1");
    });
}

#[test]
fn an_unknown_table_is_not_found() {
    conform(|db| {
        db.call("Scan", json!({"TableName": "no.such.table"}))
            .error("ResourceNotFoundException", "Requested resource not found");
    });
}

#[test]
fn a_local_index_is_scanned_consistently() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:S").local("by_l", "l:N", "KEYS_ONLY"));
        table.put(json!({"pk": {"S": "a"}, "sk": {"S": "1"}, "l": {"N": "1"}, "v": {"N": "1"}}));
        table.put(json!({"pk": {"S": "a"}, "sk": {"S": "2"}}));
        let answer = table.ok("Scan", json!({"IndexName": "by_l", "ConsistentRead": true}));
        assert_eq!(answer["Items"], json!([{"pk": {"S": "a"}, "sk": {"S": "1"}, "l": {"N": "1"}}]));
    });
}

#[test]
fn the_size_of_a_filter_that_is_too_long_is_told() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let filter = |bytes: usize| format!("attribute_exists({})", "a".repeat(bytes - 18));
        table.ok("Scan", json!({"FilterExpression": filter(4096)}));
        table.invalid(
            "Scan",
            json!({"FilterExpression": filter(4097)}),
            "Invalid FilterExpression: Expression size has exceeded the maximum allowed size; expression size: 4097",
        );
    });
}

#[test]
fn names_to_get_are_not_none() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.invalid("Scan", json!({"AttributesToGet": []}), NO_NAMES);
    });
}

const NO_NAMES: &str = "1 validation error detected: Value '[]' at 'attributesToGet' failed to satisfy constraint: Member must have length greater than or equal to 1";
