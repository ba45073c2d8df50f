//! BatchWriteItem.

use larder_conformance::{Table, conform, keys};
use serde_json::{Value, json};

fn put(n: usize) -> Value {
    json!({"PutRequest": {"Item": {"pk": {"S": format!("k{n}")}, "n": {"N": n.to_string()}}}})
}

fn delete(n: usize) -> Value {
    json!({"DeleteRequest": {"Key": {"pk": {"S": format!("k{n}")}}}})
}

fn of(table: &Table<'_>, requests: &Value) -> Value {
    json!({"RequestItems": {table.name(): requests}})
}

#[test]
fn puts_and_deletes_go_together() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "k9"}}));
        let answer = db.ok("BatchWriteItem", of(&table, &json!([put(0), put(1), delete(9), delete(8)])));
        assert_eq!(answer, json!({"UnprocessedItems": {}}));
        assert_eq!(table.ok("Scan", json!({}))["Count"], json!(2));
    });
}

#[test]
fn many_tables_are_written_at_once() {
    conform(|db| {
        let (one, two) = (db.table(keys("pk:S")), db.table(keys("pk:S")));
        db.ok(
            "BatchWriteItem",
            json!({"RequestItems": {one.name(): [put(0)], two.name(): [put(1), put(2)]}}),
        );
        assert_eq!(one.ok("Scan", json!({}))["Count"], json!(1));
        assert_eq!(two.ok("Scan", json!({}))["Count"], json!(2));
    });
}

#[test]
fn twenty_five_requests_are_the_most() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let puts = |count: usize| -> Value { (0..count).map(put).collect() };
        db.ok("BatchWriteItem", of(&table, &puts(25)));
        db.call("BatchWriteItem", of(&table, &puts(26))).error(
            "ValidationException",
            "1 validation error detected: Value '…' at 'requestItems' failed to satisfy constraint: Map value must satisfy constraint: [Member must have length less than or equal to 25, Member must have length greater than or equal to 1]",
        );
    });
}

#[test]
fn too_many_requests_over_many_tables_are_refused() {
    conform(|db| {
        let (one, two) = (db.table(keys("pk:S")), db.table(keys("pk:S")));
        let puts: Value = (0..15).map(put).collect();
        db.invalid("BatchWriteItem", json!({"RequestItems": {one.name(): puts, two.name(): puts}}), "…");
        assert_eq!(one.ok("Scan", json!({}))["Count"], json!(0));
    });
}

#[test]
fn an_item_is_named_once() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for requests in [json!([put(0), put(0)]), json!([put(0), delete(0)]), json!([delete(0), delete(0)])] {
            db.invalid(
                "BatchWriteItem",
                of(&table, &requests),
                "Provided list of item keys contains duplicates",
            );
        }
        assert_eq!(table.ok("Scan", json!({}))["Count"], json!(0));
    });
}

#[test]
fn something_must_be_written() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        db.invalid(
            "BatchWriteItem",
            json!({"RequestItems": {}}),
            "The requestItems parameter is required for BatchWriteItem",
        );
        db.call("BatchWriteItem", of(&table, &json!([])))
            .error("ValidationException", "1 validation error detected: …");
        db.call("BatchWriteItem", of(&table, &json!([{}]))).error("ValidationException", "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes");
        db.call("BatchWriteItem", json!({})).error("ValidationException", "…");
    });
}

#[test]
fn one_bad_item_fails_the_whole_batch() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_g", "g:S", "ALL"));
        for (bad, message) in [
            (json!({"n": {"N": "1"}}), "The provided key element does not match the schema"),
            (json!({"pk": {"N": "1"}}), "The provided key element does not match the schema"),
            (
                json!({"pk": {"S": ""}}),
                "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk",
            ),
            (
                json!({"pk": {"S": "a"}, "g": {"N": "1"}}),
                "One or more parameter values were invalid: Type mismatch for Index Key g Expected: S Actual: N IndexName: by_g",
            ),
            (
                json!({"pk": {"S": "a"}, "v": {"S": "x".repeat(400 * 1024)}}),
                "Item size has exceeded the maximum allowed size",
            ),
        ] {
            db.invalid(
                "BatchWriteItem",
                of(&table, &json!([put(0), {"PutRequest": {"Item": bad}}])),
                message,
            );
        }
        assert_eq!(table.ok("Scan", json!({}))["Count"], json!(0));
    });
}

#[test]
fn a_delete_key_is_exactly_the_tables() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        db.invalid(
            "BatchWriteItem",
            of(&table, &json!([{"DeleteRequest": {"Key": {"pk": {"S": "a"}, "n": {"N": "1"}}}}])),
            "The provided key element does not match the schema",
        );
    });
}

#[test]
fn an_unknown_table_fails_the_whole_batch() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        db.call(
            "BatchWriteItem",
            json!({"RequestItems": {table.name(): [put(0)], "no.such.table": [put(0)]}}),
        )
        .error("ResourceNotFoundException", "Requested resource not found");
        assert_eq!(table.ok("Scan", json!({}))["Count"], json!(0));
    });
}

#[test]
fn indexes_follow() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_n", "n:N", "ALL"));
        db.ok("BatchWriteItem", of(&table, &json!([put(0), put(1)])));
        assert_eq!(table.ok("Scan", json!({"IndexName": "by_n"}))["Count"], json!(2));
        db.ok("BatchWriteItem", of(&table, &json!([delete(0)])));
        assert_eq!(table.ok("Scan", json!({"IndexName": "by_n"}))["Count"], json!(1));
    });
}

#[test]
fn capacity_is_per_table() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_n", "n:N", "ALL"));
        let mut request = of(
            &table,
            &json!([put(0), put(1), {"PutRequest": {"Item": {"pk": {"S": "large"}, "v": {"S": "x".repeat(3000)}}}}]),
        );
        request["ReturnConsumedCapacity"] = "INDEXES".into();
        assert_eq!(
            db.ok("BatchWriteItem", request)["ConsumedCapacity"],
            json!([{
                "TableName": table.name(),
                "CapacityUnits": 7.0,
                "Table": {"CapacityUnits": 5.0},
                "GlobalSecondaryIndexes": {"by_n": {"CapacityUnits": 2.0}},
            }])
        );
    });
}

#[test]
fn collection_metrics_are_per_table() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:S").local("by_l", "l:S", "ALL"));
        let request = json!({
            "RequestItems": {table.name(): [{"PutRequest": {"Item": {"pk": {"S": "a"}, "sk": {"S": "b"}}}}]},
            "ReturnItemCollectionMetrics": "SIZE",
        });
        let metrics = db.ok("BatchWriteItem", request)["ItemCollectionMetrics"][table.name()].clone();
        assert_eq!(metrics[0]["ItemCollectionKey"], json!({"pk": {"S": "a"}}));
    });
}

#[test]
fn equal_numbers_are_one_key() {
    conform(|db| {
        let table = db.table(keys("pk:N"));
        db.invalid(
            "BatchWriteItem",
            of(&table, &json!([{"PutRequest": {"Item": {"pk": {"N": "1"}}}}, {"DeleteRequest": {"Key": {"pk": {"N": "1.0"}}}}])),
            "Provided list of item keys contains duplicates",
        );
    });
}

#[test]
fn a_request_is_a_put_or_a_delete() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let mut both = put(0);
        both["DeleteRequest"] = delete(1)["DeleteRequest"].clone();
        db.call("BatchWriteItem", of(&table, &json!([both]))).error("ValidationException", "…");
        assert_eq!(table.ok("Scan", json!({}))["Count"], json!(0));
    });
}

#[test]
fn a_table_is_answered_under_the_arn_by_which_it_was_asked_for() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:S").local("by_l", "l:S", "ALL"));
        let arn = table.arn();
        let put = |sk: &str| json!([{"PutRequest": {"Item": {"pk": {"S": "a"}, "sk": {"S": sk}}}}]);
        let answer = db.ok(
            "BatchWriteItem",
            json!({
                "RequestItems": {&arn: put("b")},
                "ReturnConsumedCapacity": "TOTAL", "ReturnItemCollectionMetrics": "SIZE",
            }),
        );
        assert_eq!(answer["ConsumedCapacity"], json!([{"TableName": arn, "CapacityUnits": 1.0}]));
        let collections = &answer["ItemCollectionMetrics"][&arn];
        assert_eq!(collections[0]["ItemCollectionKey"], json!({"pk": {"S": "a"}}), "{answer}");
        db.invalid(
            "BatchWriteItem",
            json!({"RequestItems": {&arn: put("c"), table.name(): put("c")}}),
            "Provided list of item keys contains duplicates",
        );
    });
}
