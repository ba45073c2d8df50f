//! BatchGetItem.

use larder_conformance::{Endpoint, Table, conform, keys};
use serde_json::{Value, json};

fn key(n: usize) -> Value {
    json!({"pk": {"S": format!("k{n}")}})
}

fn filled(db: &Endpoint, count: usize) -> Table<'_> {
    let table = db.table(keys("pk:S"));
    table.put_all((0..count).map(|n| json!({"pk": {"S": format!("k{n}")}, "n": {"N": n.to_string()}})));
    table
}

fn of(table: &Table<'_>, request: &Value) -> Value {
    json!({"RequestItems": {table.name(): request}})
}

#[test]
fn present_items_are_returned_and_absent_ones_left_out() {
    conform(|db| {
        let table = filled(db, 3);
        let answer = db.ok("BatchGetItem", of(&table, &json!({"Keys": [key(0), key(2), key(9)]})));
        let mut items = answer["Responses"][table.name()].as_array().expect("items").clone();
        items.sort_by_key(std::string::ToString::to_string);
        assert_eq!(
            items,
            [json!({"pk": {"S": "k0"}, "n": {"N": "0"}}), json!({"pk": {"S": "k2"}, "n": {"N": "2"}})]
        );
        assert_eq!(answer["UnprocessedKeys"], json!({}));
    });
}

#[test]
fn many_tables_are_read_at_once() {
    conform(|db| {
        let (one, two) = (filled(db, 1), filled(db, 2));
        let request = json!({"RequestItems": {one.name(): {"Keys": [key(0)]}, two.name(): {"Keys": [key(1)], "ConsistentRead": true}}});
        let answer = db.ok("BatchGetItem", request);
        assert_eq!(answer["Responses"][one.name()].as_array().map(Vec::len), Some(1));
        assert_eq!(answer["Responses"][two.name()].as_array().map(Vec::len), Some(1));
    });
}

#[test]
fn a_projection_is_per_table() {
    conform(|db| {
        let table = filled(db, 1);
        let request =
            json!({"Keys": [key(0)], "ProjectionExpression": "#n", "ExpressionAttributeNames": {"#n": "n"}});
        let answer = db.ok("BatchGetItem", of(&table, &request));
        assert_eq!(answer["Responses"][table.name()], json!([{"n": {"N": "0"}}]));
    });
}

#[test]
fn a_hundred_keys_are_the_most() {
    conform(|db| {
        let table = filled(db, 100);
        let keys = |count: usize| -> Value { (0..count).map(key).collect() };
        let answer = db.ok("BatchGetItem", of(&table, &json!({"Keys": keys(100)})));
        assert_eq!(answer["Responses"][table.name()].as_array().map(Vec::len), Some(100));
        db.call("BatchGetItem", of(&table, &json!({"Keys": keys(101)}))).error(
            "ValidationException",
            "1 validation error detected: …Member must have length less than or equal to 100…",
        );
    });
}

#[test]
fn too_many_keys_over_many_tables_are_refused() {
    conform(|db| {
        let (one, two) = (filled(db, 0), filled(db, 0));
        let keys: Value = (0..60).map(key).collect();
        let request = json!({"RequestItems": {one.name(): {"Keys": keys}, two.name(): {"Keys": keys}}});
        db.call("BatchGetItem", request).error("ValidationException", "…");
    });
}

#[test]
fn a_key_is_asked_for_once() {
    conform(|db| {
        let table = filled(db, 1);
        db.invalid(
            "BatchGetItem",
            of(&table, &json!({"Keys": [key(0), key(0)]})),
            "Provided list of item keys contains duplicates",
        );
    });
}

#[test]
fn something_must_be_asked_for() {
    conform(|db| {
        let table = filled(db, 0);
        db.call("BatchGetItem", json!({"RequestItems": {}}))
            .error("ValidationException", "1 validation error detected: …equestItems' failed to satisfy constraint: Member must have length greater than or equal to 1");
        db.call("BatchGetItem", of(&table, &json!({"Keys": []}))).error(
            "ValidationException",
            "1 validation error detected: …Member must have length greater than or equal to 1…",
        );
        db.call("BatchGetItem", json!({})).error("ValidationException", "…");
    });
}

#[test]
fn a_key_is_exactly_the_tables() {
    conform(|db| {
        let table = filled(db, 0);
        for key in [json!({}), json!({"pk": {"N": "1"}}), json!({"pk": {"S": "a"}, "n": {"N": "1"}})] {
            db.invalid(
                "BatchGetItem",
                of(&table, &json!({"Keys": [key]})),
                "The provided key element does not match the schema",
            );
        }
    });
}

#[test]
fn an_unknown_table_fails_the_whole_batch() {
    conform(|db| {
        let table = filled(db, 1);
        let request =
            json!({"RequestItems": {table.name(): {"Keys": [key(0)]}, "no.such.table": {"Keys": [key(0)]}}});
        db.call("BatchGetItem", request).error("ResourceNotFoundException", "Requested resource not found");
    });
}

#[test]
fn an_answer_ends_at_sixteen_megabytes_and_tells_what_is_left() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for n in 0..45 {
            table.put(json!({"pk": {"S": format!("k{n}")}, "v": {"S": "x".repeat(400 * 1024 - 100)}}));
        }
        let mut wanted: Vec<Value> = (0..45).map(key).collect();
        let mut seen = 0;
        for round in 0..3 {
            let answer = db.ok("BatchGetItem", of(&table, &json!({"Keys": wanted, "ConsistentRead": true})));
            seen += answer["Responses"][table.name()].as_array().map_or(0, Vec::len);
            let left = &answer["UnprocessedKeys"][table.name()];
            if round == 0 {
                assert!((38..45).contains(&seen), "{seen}");
                assert_eq!(left["ConsistentRead"], json!(true));
            }
            let Some(keys) = left["Keys"].as_array() else { break };
            wanted.clone_from(keys);
        }
        assert_eq!(seen, 45);
    });
}

#[test]
fn capacity_is_per_table_and_per_item() {
    conform(|db| {
        let table = filled(db, 3);
        let units = |request: Value| {
            let mut whole = of(&table, &request);
            whole["ReturnConsumedCapacity"] = "TOTAL".into();
            db.ok("BatchGetItem", whole)["ConsumedCapacity"].clone()
        };
        let keys = json!([key(0), key(1), key(2)]);
        assert_eq!(units(json!({"Keys": keys})), json!([{"TableName": table.name(), "CapacityUnits": 1.5}]));
        assert_eq!(units(json!({"Keys": keys, "ConsistentRead": true}))[0]["CapacityUnits"], json!(3.0));
        assert_eq!(units(json!({"Keys": [key(8), key(9)]}))[0]["CapacityUnits"], json!(1.0));
    });
}

#[test]
fn expressions_are_checked() {
    conform(|db| {
        let table = filled(db, 1);
        db.invalid(
            "BatchGetItem",
            of(&table, &json!({"Keys": [key(0)], "ProjectionExpression": ""})),
            "Invalid ProjectionExpression: The expression can not be empty;",
        );
        db.invalid(
            "BatchGetItem",
            of(&table, &json!({"Keys": [key(0)], "ExpressionAttributeNames": {"#n": "n"}})),
            "ExpressionAttributeNames can only be specified when using expressions",
        );
    });
}

#[test]
fn equal_numbers_are_one_key() {
    conform(|db| {
        let table = db.table(keys("pk:N"));
        db.invalid(
            "BatchGetItem",
            of(&table, &json!({"Keys": [{"pk": {"N": "1"}}, {"pk": {"N": "1.0"}}]})),
            "Provided list of item keys contains duplicates",
        );
    });
}

#[test]
fn names_to_get_are_not_none() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let wanted = json!({"Keys": [{"pk": {"S": "a"}}], "AttributesToGet": []});
        db.invalid(
            "BatchGetItem",
            json!({"RequestItems": {table.name(): wanted}}),
            &format!(
                "1 validation error detected: Value '[]' at 'requestItems.{}.member.attributesToGet' failed to satisfy constraint: Member must have length greater than or equal to 1",
                table.name()
            ),
        );
    });
}

#[test]
fn a_table_is_answered_under_the_arn_by_which_it_was_asked_for() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}}));
        let arn = table.arn();
        let answer = db.ok(
            "BatchGetItem",
            json!({"RequestItems": {&arn: {"Keys": [{"pk": {"S": "a"}}]}}, "ReturnConsumedCapacity": "TOTAL"}),
        );
        assert_eq!(answer["Responses"], json!({&arn: [{"pk": {"S": "a"}}]}));
        assert_eq!(answer["ConsumedCapacity"][0]["TableName"], json!(arn));
    });
}

#[test]
fn a_table_asked_for_in_two_ways_is_answered_in_both() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put_all(["a", "z"].map(|pk| json!({"pk": {"S": pk}})));
        let (name, arn) = (table.name(), table.arn());
        let key = |pk: &str| json!({"Keys": [{"pk": {"S": pk}}]});
        let answer = db.ok(
            "BatchGetItem",
            json!({"RequestItems": {&arn: key("z"), name: key("a")}, "ReturnConsumedCapacity": "TOTAL"}),
        );
        assert_eq!(answer["Responses"], json!({&arn: [{"pk": {"S": "z"}}], name: [{"pk": {"S": "a"}}]}));
        assert_eq!(answer["ConsumedCapacity"], json!([{"TableName": arn, "CapacityUnits": 1.0}]));
        db.invalid(
            "BatchGetItem",
            json!({"RequestItems": {&arn: key("a"), name: key("a")}}),
            "Provided list of item keys contains duplicates",
        );
    });
}
