//! Values: nesting, binary, names, and what each type may hold.

use larder_conformance::{conform, keys};
use serde_json::{Value, json};

fn maps(depth: usize) -> Value {
    (0..depth).fold(json!({"S": "x"}), |inner, _| json!({"M": {"k": inner}}))
}

fn lists(depth: usize) -> Value {
    (0..depth).fold(json!({"S": "x"}), |inner, _| json!({"L": [inner]}))
}

#[test]
fn values_nest_31_deep_below_their_attribute() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for value in [maps(31), lists(31)] {
            table.put(json!({"pk": {"S": "a"}, "v": value}));
            assert_eq!(table.get(json!({"pk": {"S": "a"}}))["v"], value);
        }
        for value in [maps(32), lists(32), maps(100)] {
            table.invalid(
                "PutItem",
                json!({"Item": {"pk": {"S": "a"}, "v": value}}),
                "…Nesting Levels have exceeded supported limits…",
            );
        }
    });
}

#[test]
fn very_deep_values_are_refused_and_never_crash() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for depth in [200, 2_000, 50_000] {
            let body = format!(
                r#"{{"TableName": "{}", "Item": {{"pk": {{"S": "a"}}, "v": {}{{"S": "x"}}{}}}}}"#,
                table.name(),
                r#"{"L": ["#.repeat(depth),
                "]}".repeat(depth)
            );
            let answer = db.send("PutItem", body);
            assert_eq!(answer.status, 400, "{depth} deep: {}", answer.body);
        }
        let answer = db.send("PutItem", "[".repeat(100_000));
        assert_eq!(answer.status, 400);
        assert_eq!(table.ok("Scan", json!({}))["Count"], json!(0));
    });
}

#[test]
fn values_of_expressions_nest_no_deeper() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let update = |value: Value| json!({"Key": {"pk": {"S": "a"}}, "UpdateExpression": "SET v = :v", "ExpressionAttributeValues": {":v": value}});
        table.ok("UpdateItem", update(maps(31)));
        table.invalid("UpdateItem", update(maps(32)), "…Nesting Levels have exceeded supported limits…");
    });
}

#[test]
fn binary_comes_back_as_it_went() {
    conform(|db| {
        let table = db.table(keys("pk:B sk:B"));
        let item = json!({"pk": {"B": "AA=="}, "sk": {"B": "/+8="}, "v": {"BS": ["AQ==", "/w=="]}, "empty": {"B": ""}});
        table.put(item.clone());
        assert_eq!(table.get(json!({"pk": {"B": "AA=="}, "sk": {"B": "/+8="}})), item);
    });
}

#[test]
fn what_is_no_base64_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for text in ["!", "AQ", "A===", "AQ==AQ=="] {
            let answer = table.call("PutItem", json!({"Item": {"pk": {"S": "a"}, "v": {"B": text}}}));
            assert_eq!(
                (answer.status, answer.code()),
                (400, Some("SerializationException")),
                "{text} {}",
                answer.body
            );
        }
    });
}

#[test]
fn strings_hold_any_text() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for text in ["\u{0}", "a\u{0}b", "\"\\/\n\t", "日本語", "😀", "\u{feff}", "\u{10ffff}"] {
            table.put(json!({"pk": {"S": "a"}, "v": {"S": text}}));
            assert_eq!(table.get(json!({"pk": {"S": "a"}}))["v"], json!({"S": text}));
            table.put(json!({"pk": {"S": text}}));
            assert_eq!(table.get(json!({"pk": {"S": text}})), json!({"pk": {"S": text}}));
        }
    });
}

#[test]
fn attribute_names_hold_any_text() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let item = json!({"pk": {"S": "a"}, "a b": {"N": "1"}, "#x": {"N": "2"}, ":y": {"N": "3"}, "日": {"N": "4"}, "a.b[0]": {"N": "5"}});
        table.put(item.clone());
        assert_eq!(table.get(json!({"pk": {"S": "a"}})), item);
    });
}

#[test]
fn an_attribute_name_is_not_empty() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table
            .call("PutItem", json!({"Item": {"pk": {"S": "a"}, "": {"N": "1"}}}))
            .error("ValidationException", "…");
    });
}

#[test]
fn true_and_false_are_kept() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let item = json!({"pk": {"S": "a"}, "t": {"BOOL": true}, "f": {"BOOL": false}});
        table.put(item.clone());
        assert_eq!(table.get(json!({"pk": {"S": "a"}})), item);
    });
}

#[test]
fn sets_compare_whatever_their_order() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "v": {"SS": ["c", "a", "b"]}}));
        let request = json!({
            "Key": {"pk": {"S": "a"}}, "ConditionExpression": "v = :v",
            "ExpressionAttributeValues": {":v": {"SS": ["b", "c", "a"]}},
        });
        table.ok("DeleteItem", request);
    });
}
