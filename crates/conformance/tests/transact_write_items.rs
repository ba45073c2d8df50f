//! TransactWriteItems: all or none, and a reason for each.

use larder_conformance::{Endpoint, Table, conform, keys};
use serde_json::{Value, json};

fn key(name: &str) -> Value {
    json!({"pk": {"S": name}})
}

fn put(table: &Table<'_>, name: &str) -> Value {
    json!({"Put": {"TableName": table.name(), "Item": {"pk": {"S": name}, "n": {"N": "1"}}}})
}

fn with(mut action: Value, changes: &Value) -> Value {
    let inner = action.as_object_mut().and_then(|action| action.values_mut().next()).expect("an action");
    for (member, value) in changes.as_object().expect("changes are an object") {
        inner[member] = value.clone();
    }
    action
}

fn transact(db: &Endpoint, actions: &Value) -> Value {
    db.ok("TransactWriteItems", json!({"TransactItems": actions}))
}

/// The codes of the reasons, in order, and the whole error.
#[track_caller]
fn cancelled(db: &Endpoint, actions: &Value) -> (Vec<String>, Value) {
    let answer = db.call("TransactWriteItems", json!({"TransactItems": actions}));
    let error = answer.error(
        "TransactionCanceledException",
        "Transaction cancelled, please refer cancellation reasons for specific reasons […]",
    );
    let codes = error["CancellationReasons"]
        .as_array()
        .expect("reasons")
        .iter()
        .map(|reason| reason["Code"].as_str().unwrap_or_default().to_owned())
        .collect();
    (codes, error)
}

#[test]
fn every_kind_of_action_is_done_together() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for name in ["updated", "deleted", "checked"] {
            table.put(json!({"pk": {"S": name}, "n": {"N": "1"}}));
        }
        let answer = transact(
            db,
            &json!([
                put(&table, "put"),
                {"Update": {"TableName": table.name(), "Key": key("updated"), "UpdateExpression": "ADD n :n", "ExpressionAttributeValues": {":n": {"N": "5"}}}},
                {"Delete": {"TableName": table.name(), "Key": key("deleted")}},
                {"ConditionCheck": {"TableName": table.name(), "Key": key("checked"), "ConditionExpression": "attribute_exists(pk)"}},
            ]),
        );
        assert_eq!(answer, json!({}));
        assert_eq!(table.get(key("put"))["n"], json!({"N": "1"}));
        assert_eq!(table.get(key("updated"))["n"], json!({"N": "6"}));
        assert!(table.get(key("deleted")).is_null());
    });
}

#[test]
fn one_failed_condition_undoes_all() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_n", "n:N", "ALL"));
        table.put(json!({"pk": {"S": "there"}}));
        let (codes, error) = cancelled(
            db,
            &json!([
                put(&table, "a"),
                with(put(&table, "there"), &json!({"ConditionExpression": "attribute_not_exists(pk)"})),
                put(&table, "b"),
            ]),
        );
        assert_eq!(codes, ["None", "ConditionalCheckFailed", "None"]);
        assert_eq!(
            error["message"].as_str().or(error["Message"].as_str()),
            Some(
                "Transaction cancelled, please refer cancellation reasons for specific reasons [None, ConditionalCheckFailed, None]"
            )
        );
        assert_eq!(error["CancellationReasons"][1]["Message"], "The conditional request failed");
        assert!(error["CancellationReasons"][1]["Item"].is_null());
        assert!(error["CancellationReasons"][0]["Message"].is_null());
        assert_eq!(table.ok("Scan", json!({}))["Count"], json!(1));
        assert_eq!(table.ok("Scan", json!({"IndexName": "by_n"}))["Count"], json!(0));
    });
}

#[test]
fn every_failed_condition_has_its_reason() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let missing = json!({"ConditionExpression": "attribute_exists(pk)"});
        let check = |name: &str| {
            with(json!({"ConditionCheck": {"TableName": table.name(), "Key": key(name)}}), &missing)
        };
        let (codes, _) = cancelled(db, &json!([check("a"), put(&table, "b"), check("c")]));
        assert_eq!(codes, ["ConditionalCheckFailed", "None", "ConditionalCheckFailed"]);
    });
}

#[test]
fn a_failed_condition_can_return_the_item() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let item = json!({"pk": {"S": "a"}, "n": {"N": "7"}});
        table.put(item.clone());
        let failing = json!({"ConditionExpression": "attribute_not_exists(pk)", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"});
        for action in [
            put(&table, "a"),
            json!({"Delete": {"TableName": table.name(), "Key": key("a")}}),
            json!({"ConditionCheck": {"TableName": table.name(), "Key": key("a")}}),
            json!({"Update": {"TableName": table.name(), "Key": key("a"), "UpdateExpression": "REMOVE n"}}),
        ] {
            let (codes, error) = cancelled(db, &json!([with(action, &failing)]));
            assert_eq!(codes, ["ConditionalCheckFailed"]);
            assert_eq!(error["CancellationReasons"][0]["Item"], item);
        }
    });
}

#[test]
fn a_write_that_cannot_be_done_is_a_reason_too() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "s": {"S": "text"}}));
        let (codes, error) = cancelled(
            db,
            &json!([
                put(&table, "b"),
                {"Update": {"TableName": table.name(), "Key": key("a"), "UpdateExpression": "SET s = s + :n", "ExpressionAttributeValues": {":n": {"N": "1"}}}},
            ]),
        );
        assert_eq!(codes, ["None", "ValidationError"]);
        assert_eq!(
            error["CancellationReasons"][1]["Message"],
            "An operand in the update expression has an incorrect data type"
        );
        assert!(table.get(key("b")).is_null());
    });
}

#[test]
fn a_key_of_another_schema_is_a_reason_too() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let (codes, error) = cancelled(
            db,
            &json!([put(&table, "a"), {"Delete": {"TableName": table.name(), "Key": {"wrong": {"S": "x"}}}}]),
        );
        assert_eq!(codes, ["None", "ValidationError"]);
        assert_eq!(
            error["CancellationReasons"][1]["Message"],
            "The provided key element does not match the schema"
        );
        assert!(table.get(key("a")).is_null());
    });
}

#[test]
fn an_item_is_named_once() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let check = json!({"ConditionCheck": {"TableName": table.name(), "Key": key("a"), "ConditionExpression": "attribute_exists(pk)"}});
        for second in [put(&table, "a"), check] {
            db.invalid(
                "TransactWriteItems",
                json!({"TransactItems": [put(&table, "a"), second]}),
                "Transaction request cannot include multiple operations on one item",
            );
        }
    });
}

#[test]
fn the_same_key_in_two_tables_is_two_items() {
    conform(|db| {
        let (one, two) = (db.table(keys("pk:S")), db.table(keys("pk:S")));
        transact(db, &json!([put(&one, "a"), put(&two, "a")]));
        assert!(!one.get(key("a")).is_null() && !two.get(key("a")).is_null());
    });
}

#[test]
fn a_hundred_actions_are_the_most() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let puts = |count: usize| -> Value { (0..count).map(|n| put(&table, &format!("k{n}"))).collect() };
        transact(db, &puts(100));
        assert_eq!(table.ok("Scan", json!({}))["Count"], json!(100));
        db.call("TransactWriteItems", json!({"TransactItems": puts(101)})).error(
            "ValidationException",
            "1 validation error detected: Value '…' at 'transactItems' failed to satisfy constraint: Member must have length less than or equal to 100",
        );
        db.invalid(
            "TransactWriteItems",
            json!({"TransactItems": []}),
            "1 validation error detected: Value '[]' at 'transactItems' failed to satisfy constraint: Member must have length greater than or equal to 1",
        );
    });
}

#[test]
fn four_megabytes_are_the_most() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let puts = |count: usize| -> Value {
            (0..count)
                .map(|n| {
                    with(
                        put(&table, &format!("k{n}")),
                        &json!({"Item": {"pk": {"S": format!("k{n}")}, "v": {"S": "x".repeat(390 * 1024)}}}),
                    )
                })
                .collect()
        };
        transact(db, &puts(10));
        db.call("TransactWriteItems", json!({"TransactItems": puts(11)})).error(
            "ValidationException",
            "Collection size of items exceeded, which can also be caused by the aggregate size of the items in the transaction exceeding the 4MB limit",
        );
    });
}

#[test]
fn an_element_has_exactly_one_action() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        db.invalid(
            "TransactWriteItems",
            json!({"TransactItems": [{}]}),
            "Invalid Request: TransactWriteRequest should contain Delete or Put or Update request",
        );
        let mut both = put(&table, "a");
        both["Delete"] = json!({"TableName": table.name(), "Key": key("b")});
        db.invalid(
            "TransactWriteItems",
            json!({"TransactItems": [both]}),
            "TransactItems can only contain one of Check, Put, Update or Delete",
        );
    });
}

#[test]
fn an_unknown_table_is_not_found() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let request = json!({"TransactItems": [put(&table, "a"), {"Put": {"TableName": "no.such.table", "Item": key("a")}}]});
        db.call("TransactWriteItems", request)
            .error("ResourceNotFoundException", "Requested resource not found");
        assert!(table.get(key("a")).is_null());
    });
}

#[test]
fn a_token_makes_a_request_happen_once() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let request = |amount: &str| {
            json!({
                "ClientRequestToken": table.name(),
                "TransactItems": [{"Update": {
                    "TableName": table.name(), "Key": key("a"),
                    "UpdateExpression": "ADD n :n", "ExpressionAttributeValues": {":n": {"N": amount}},
                }}],
            })
        };
        let token_is_short_enough = table.name().len() <= 36;
        assert!(token_is_short_enough);
        db.ok("TransactWriteItems", request("1"));
        db.ok("TransactWriteItems", request("1"));
        assert_eq!(table.get(key("a"))["n"], json!({"N": "1"}));
        db.call("TransactWriteItems", request("2")).error("IdempotentParameterMismatchException", "…");
        assert_eq!(table.get(key("a"))["n"], json!({"N": "1"}));
    });
}

#[test]
fn a_repeated_request_reports_what_it_would_have_read() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let request = json!({
            "ClientRequestToken": table.name(),
            "ReturnConsumedCapacity": "TOTAL",
            "TransactItems": [put(&table, "a")],
        });
        let first = db.ok("TransactWriteItems", request.clone());
        assert_eq!(first["ConsumedCapacity"][0]["CapacityUnits"], json!(2.0));
        let again = db.ok("TransactWriteItems", request);
        assert!(again["ConsumedCapacity"][0]["CapacityUnits"].is_number(), "{again}");
    });
}

#[test]
fn a_token_is_one_to_36_characters() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let request = |token: &str| json!({"ClientRequestToken": token, "TransactItems": [put(&table, "a")]});
        db.call("TransactWriteItems", request(&"x".repeat(37))).error(
            "ValidationException",
            "1 validation error detected: Value '…' at 'clientRequestToken' failed to satisfy constraint: Member must have length less than or equal to 36",
        );
    });
}

#[test]
fn an_empty_token_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        db.call("TransactWriteItems", json!({"ClientRequestToken": "", "TransactItems": [put(&table, "a")]}))
            .error("ValidationException", "…lientRequestToken…");
    });
}

#[test]
fn capacity_is_double_per_item() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "checked"}}));
        let answer = db.ok(
            "TransactWriteItems",
            json!({
                "ReturnConsumedCapacity": "TOTAL",
                "TransactItems": [
                    put(&table, "a"),
                    {"Delete": {"TableName": table.name(), "Key": key("absent")}},
                    {"ConditionCheck": {"TableName": table.name(), "Key": key("checked"), "ConditionExpression": "attribute_exists(pk)"}},
                ],
            }),
        );
        let capacity = &answer["ConsumedCapacity"][0];
        assert_eq!(capacity["TableName"], json!(table.name()));
        assert_eq!(capacity["CapacityUnits"], json!(6.0));
        assert_eq!(capacity["WriteCapacityUnits"], json!(6.0));
    });
}

#[test]
fn capacity_of_indexes_is_not_doubled() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_n", "n:N", "ALL"));
        let answer = db.ok(
            "TransactWriteItems",
            json!({"ReturnConsumedCapacity": "INDEXES", "TransactItems": [put(&table, "a")]}),
        );
        let capacity = &answer["ConsumedCapacity"][0];
        assert_eq!(capacity["CapacityUnits"], json!(3.0));
        assert_eq!(capacity["Table"]["CapacityUnits"], json!(2.0));
        assert_eq!(capacity["GlobalSecondaryIndexes"]["by_n"]["CapacityUnits"], json!(1.0));
    });
}

#[test]
fn expressions_are_checked_before_anything_runs() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for (action, message) in [
            (
                with(put(&table, "b"), &json!({"ConditionExpression": "a ="})),
                "Invalid ConditionExpression: Syntax error; token: \"<EOF>\", near: \"=\"",
            ),
            (
                json!({"Update": {"TableName": table.name(), "Key": key("b"), "UpdateExpression": "SET"}}),
                "Invalid UpdateExpression: Syntax error; token: \"<EOF>\", near: \"SET\"",
            ),
            (
                json!({"Update": {"TableName": table.name(), "Key": key("b"), "UpdateExpression": ""}}),
                "Invalid UpdateExpression: The expression can not be empty;",
            ),
        ] {
            db.invalid("TransactWriteItems", json!({"TransactItems": [put(&table, "a"), action]}), message);
        }
        assert!(table.get(key("a")).is_null());
    });
}

#[test]
fn an_update_and_a_check_need_their_expressions() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        db.call(
            "TransactWriteItems",
            json!({"TransactItems": [{"Update": {"TableName": table.name(), "Key": key("a")}}]}),
        )
        .error(
            "ValidationException",
            "…transactItems.1.member.update.updateExpression…Member must not be null…",
        );
        db.call(
            "TransactWriteItems",
            json!({"TransactItems": [{"ConditionCheck": {"TableName": table.name(), "Key": key("a")}}]}),
        )
        .error(
            "ValidationException",
            "…transactItems.1.member.conditionCheck.conditionExpression…Member must not be null…",
        );
    });
}

#[test]
fn readers_see_all_of_a_transaction_or_none() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let write = |n: usize| {
            let item = |name: &str| json!({"Put": {"TableName": table.name(), "Item": {"pk": {"S": name}, "n": {"N": n.to_string()}}}});
            json!({"TransactItems": [item("a"), item("b")]})
        };
        db.ok("TransactWriteItems", write(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 1..=30 {
                    // A conflict with the reader's transaction is an answer too.
                    db.call("TransactWriteItems", write(n));
                }
            });
            scope.spawn(|| {
                for _ in 0..30 {
                    let get = |name: &str| json!({"Get": {"TableName": table.name(), "Key": key(name)}});
                    let answer = db.call("TransactGetItems", json!({"TransactItems": [get("a"), get("b")]}));
                    if answer.status == 200 {
                        let n = |index: usize| answer.body["Responses"][index]["Item"]["n"].clone();
                        assert_eq!(n(0), n(1));
                    }
                }
            });
        });
    });
}

#[test]
fn equal_numbers_are_one_item() {
    conform(|db| {
        let table = db.table(keys("pk:N"));
        let put = |number: &str| json!({"Put": {"TableName": table.name(), "Item": {"pk": {"N": number}}}});
        db.invalid(
            "TransactWriteItems",
            json!({"TransactItems": [put("1"), put("1.0")]}),
            "Transaction request cannot include multiple operations on one item",
        );
    });
}

#[test]
fn an_update_creates_what_is_absent() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_n", "n:N", "ALL"));
        transact(
            db,
            &json!([{"Update": {"TableName": table.name(), "Key": key("a"), "UpdateExpression": "SET n = :n", "ExpressionAttributeValues": {":n": {"N": "1"}}}}]),
        );
        assert_eq!(table.get(key("a"))["n"], json!({"N": "1"}));
        assert_eq!(table.ok("Scan", json!({"IndexName": "by_n"}))["Count"], json!(1));
    });
}

#[test]
fn an_item_that_grows_too_large_is_a_reason_too() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "v": {"S": "x".repeat(400 * 1024 - 10)}}));
        let (codes, error) = cancelled(
            db,
            &json!([
                put(&table, "b"),
                {"Update": {"TableName": table.name(), "Key": key("a"), "UpdateExpression": "SET w = :w", "ExpressionAttributeValues": {":w": {"S": "x".repeat(100)}}}},
            ]),
        );
        assert_eq!(codes, ["None", "ValidationError"]);
        assert_eq!(
            error["CancellationReasons"][1]["Message"],
            "Item size to update has exceeded the maximum allowed size"
        );
        assert!(table.get(key("b")).is_null());
    });
}

#[test]
fn the_tables_items_may_be_of_many_tables() {
    conform(|db| {
        let (one, two) = (db.table(keys("pk:S")), db.table(keys("pk:S")));
        let failing = with(put(&two, "a"), &json!({"ConditionExpression": "attribute_exists(pk)"}));
        let (codes, _) = cancelled(db, &json!([put(&one, "a"), failing]));
        assert_eq!(codes, ["None", "ConditionalCheckFailed"]);
        assert!(one.get(key("a")).is_null());
    });
}

#[test]
fn every_write_has_its_reason_beside_one_that_is_invalid() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "there"}}));
        let put = |item: Value, condition: &str| json!({"Put": {"TableName": table.name(), "Item": item, "ConditionExpression": condition}});
        let answer = db.call(
            "TransactWriteItems",
            json!({"TransactItems": [
                put(json!({"pk": {"S": "new"}}), "attribute_not_exists(pk)"),
                put(json!({"pk": {"N": "1"}}), "attribute_not_exists(pk)"),
                put(json!({"pk": {"S": "there"}}), "attribute_not_exists(pk)"),
            ]}),
        );
        let body = answer.error(
            "TransactionCanceledException",
            "Transaction cancelled, please refer cancellation reasons for specific reasons [None, ValidationError, ConditionalCheckFailed]",
        );
        assert_eq!(body["CancellationReasons"][0], json!({"Code": "None"}));
        assert!(table.get(json!({"pk": {"S": "new"}})).is_null());
    });
}

#[test]
fn the_size_of_a_condition_that_is_too_long_is_told() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let condition = format!("attribute_not_exists({})", "a".repeat(4097 - 22));
        let put =
            json!({"TableName": table.name(), "Item": {"pk": {"S": "a"}}, "ConditionExpression": condition});
        db.invalid(
            "TransactWriteItems",
            json!({"TransactItems": [{"Put": put}]}),
            "Invalid ConditionExpression: Expression size has exceeded the maximum allowed size; expression size: 4097",
        );
    });
}
