//! TransactGetItems.

use larder_conformance::{Endpoint, Table, conform, keys};
use serde_json::{Value, json};

fn get(table: &Table<'_>, name: &str) -> Value {
    json!({"Get": {"TableName": table.name(), "Key": {"pk": {"S": name}}}})
}

fn filled(db: &Endpoint, count: usize) -> Table<'_> {
    let table = db.table(keys("pk:S"));
    table.put_all((0..count).map(|n| json!({"pk": {"S": format!("k{n}")}, "n": {"N": n.to_string()}})));
    table
}

#[test]
fn answers_come_in_the_order_asked() {
    conform(|db| {
        let table = filled(db, 3);
        let answer = db.ok(
            "TransactGetItems",
            json!({"TransactItems": [get(&table, "k2"), get(&table, "none"), get(&table, "k0")]}),
        );
        assert_eq!(
            answer,
            json!({"Responses": [
                {"Item": {"pk": {"S": "k2"}, "n": {"N": "2"}}},
                {},
                {"Item": {"pk": {"S": "k0"}, "n": {"N": "0"}}},
            ]})
        );
    });
}

#[test]
fn a_projection_is_per_item() {
    conform(|db| {
        let table = filled(db, 1);
        let mut request = get(&table, "k0");
        request["Get"]["ProjectionExpression"] = "#n".into();
        request["Get"]["ExpressionAttributeNames"] = json!({"#n": "n"});
        let answer = db.ok("TransactGetItems", json!({"TransactItems": [request]}));
        assert_eq!(answer["Responses"], json!([{"Item": {"n": {"N": "0"}}}]));
    });
}

#[test]
fn a_hundred_items_are_the_most() {
    conform(|db| {
        let table = filled(db, 100);
        let gets = |count: usize| -> Value { (0..count).map(|n| get(&table, &format!("k{n}"))).collect() };
        let answer = db.ok("TransactGetItems", json!({"TransactItems": gets(100)}));
        assert_eq!(answer["Responses"].as_array().map(Vec::len), Some(100));
        db.call("TransactGetItems", json!({"TransactItems": gets(101)})).error(
            "ValidationException",
            "1 validation error detected: Value '…' at 'transactItems' failed to satisfy constraint: Member must have length less than or equal to 100",
        );
        db.invalid(
            "TransactGetItems",
            json!({"TransactItems": []}),
            "1 validation error detected: Value '[]' at 'transactItems' failed to satisfy constraint: Member must have length greater than or equal to 1",
        );
    });
}

#[test]
fn an_item_is_asked_for_once() {
    conform(|db| {
        let table = filled(db, 1);
        db.invalid(
            "TransactGetItems",
            json!({"TransactItems": [get(&table, "k0"), get(&table, "k0")]}),
            "Transaction request cannot include multiple operations on one item",
        );
    });
}

#[test]
fn a_get_is_required() {
    conform(|db| {
        db.invalid(
            "TransactGetItems",
            json!({"TransactItems": [{}]}),
            "1 validation error detected: Value null at 'transactItems.1.member.get' failed to satisfy constraint: Member must not be null",
        );
    });
}

#[test]
fn a_key_of_another_schema_cancels_with_a_reason() {
    conform(|db| {
        let table = filled(db, 1);
        let wrong = json!({"Get": {"TableName": table.name(), "Key": {"wrong": {"S": "x"}}}});
        let error = db
            .call("TransactGetItems", json!({"TransactItems": [get(&table, "k0"), wrong]}))
            .error("TransactionCanceledException", "Transaction cancelled, please refer cancellation reasons for specific reasons [None, ValidationError]");
        assert_eq!(
            error["CancellationReasons"][1]["Message"],
            "The provided key element does not match the schema"
        );
    });
}

#[test]
fn an_unknown_table_is_not_found() {
    conform(|db| {
        db.call(
            "TransactGetItems",
            json!({"TransactItems": [{"Get": {"TableName": "no.such.table", "Key": {"pk": {"S": "a"}}}}]}),
        )
        .error("ResourceNotFoundException", "Requested resource not found");
    });
}

#[test]
fn capacity_is_double_a_consistent_read() {
    conform(|db| {
        let table = filled(db, 1);
        let answer = db.ok(
            "TransactGetItems",
            json!({"ReturnConsumedCapacity": "TOTAL", "TransactItems": [get(&table, "k0"), get(&table, "absent")]}),
        );
        let capacity = &answer["ConsumedCapacity"][0];
        assert_eq!(capacity["TableName"], json!(table.name()));
        assert_eq!(capacity["CapacityUnits"], json!(4.0));
        assert_eq!(capacity["ReadCapacityUnits"], json!(4.0));
    });
}

#[test]
fn expressions_are_checked_before_anything_is_read() {
    conform(|db| {
        let table = filled(db, 1);
        let mut request = get(&table, "k0");
        request["Get"]["ProjectionExpression"] = "".into();
        db.invalid(
            "TransactGetItems",
            json!({"TransactItems": [request]}),
            "Invalid ProjectionExpression: The expression can not be empty;",
        );
    });
}

#[test]
fn four_megabytes_are_the_most() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for n in 0..11 {
            table.put(json!({"pk": {"S": format!("k{n}")}, "v": {"S": "x".repeat(390 * 1024)}}));
        }
        let gets = |count: usize| -> Value { (0..count).map(|n| get(&table, &format!("k{n}"))).collect() };
        let answer = db.ok("TransactGetItems", json!({"TransactItems": gets(10)}));
        assert_eq!(answer["Responses"].as_array().map(Vec::len), Some(10));
        db.call("TransactGetItems", json!({"TransactItems": gets(11)})).error(
            "ValidationException",
            "Collection size of items exceeded, which can also be caused by the aggregate size of the items in the transaction exceeding the 4MB limit",
        );
    });
}
