//! GetItem.

use larder_conformance::{conform, keys};
use serde_json::json;

#[test]
fn an_absent_item_is_an_empty_answer() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        assert_eq!(table.ok("GetItem", json!({"Key": {"pk": {"S": "a"}}})), json!({}));
    });
}

#[test]
fn a_written_item_is_read_at_once() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N"));
        table.put(json!({"pk": {"S": "a"}, "sk": {"N": "1"}, "v": {"S": "x"}}));
        let key = json!({"pk": {"S": "a"}, "sk": {"N": "1.0"}});
        let answer = table.ok("GetItem", json!({"Key": key, "ConsistentRead": true}));
        assert_eq!(answer, json!({"Item": {"pk": {"S": "a"}, "sk": {"N": "1"}, "v": {"S": "x"}}}));
    });
}

#[test]
fn a_projection_keeps_the_shape_of_what_it_takes() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({
            "pk": {"S": "a"},
            "m": {"M": {"x": {"N": "1"}, "y": {"M": {"z": {"N": "2"}, "w": {"N": "3"}}}}},
            "l": {"L": [{"S": "0"}, {"M": {"k": {"S": "1"}, "j": {"S": "no"}}}, {"S": "2"}]},
        }));
        for (projection, expected) in [
            ("pk", json!({"pk": {"S": "a"}})),
            ("m.x", json!({"m": {"M": {"x": {"N": "1"}}}})),
            ("m.y.z, m.x", json!({"m": {"M": {"x": {"N": "1"}, "y": {"M": {"z": {"N": "2"}}}}}})),
            ("l[0], l[2]", json!({"l": {"L": [{"S": "0"}, {"S": "2"}]}})),
            ("l[2], l[0]", json!({"l": {"L": [{"S": "0"}, {"S": "2"}]}})),
            ("l[1].k", json!({"l": {"L": [{"M": {"k": {"S": "1"}}}]}})),
            ("l[9]", json!({})),
            ("absent, m.absent, l[0].absent", json!({})),
        ] {
            let answer =
                table.ok("GetItem", json!({"Key": {"pk": {"S": "a"}}, "ProjectionExpression": projection}));
            assert_eq!(answer["Item"], expected, "{projection}");
        }
    });
}

#[test]
fn projections_may_use_names() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "a.b": {"N": "1"}, "size": {"M": {"name": {"N": "2"}}}}));
        let answer = table.ok(
            "GetItem",
            json!({
                "Key": {"pk": {"S": "a"}},
                "ProjectionExpression": "#dotted, #size.#name",
                "ExpressionAttributeNames": {"#dotted": "a.b", "#size": "size", "#name": "name"},
            }),
        );
        assert_eq!(answer["Item"], json!({"a.b": {"N": "1"}, "size": {"M": {"name": {"N": "2"}}}}));
    });
}

#[test]
fn a_wrong_projection_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let get = |projection: &str| json!({"Key": {"pk": {"S": "a"}}, "ProjectionExpression": projection});
        table.all_invalid(
            "GetItem",
            [
                (get(""), "Invalid ProjectionExpression: The expression can not be empty;"),
                (
                    get("a, a"),
                    "Invalid ProjectionExpression: Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a], path two: [a]",
                ),
                (
                    get("a.b, a"),
                    "Invalid ProjectionExpression: Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a, b], path two: [a]",
                ),
                (get("name"), "Invalid ProjectionExpression: Attribute name is a reserved keyword; reserved keyword: name"),
                (
                    get("#n"),
                    "Invalid ProjectionExpression: An expression attribute name used in the document path is not defined; attribute name: #n",
                ),
            ],
        );
    });
}

#[test]
fn conflicting_paths_are_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let get = |projection: &str| json!({"Key": {"pk": {"S": "a"}}, "ProjectionExpression": projection});
        table.all_invalid("GetItem", [
                (
                    get("a[1], a.b"),
                    "Invalid ProjectionExpression: Two document paths conflict with each other; must remove or rewrite one of these paths; path one: [a, [1]], path two: [a, b]",
                ),
]);
    });
}

#[test]
fn a_syntax_error_is_shown_where_it_is() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let get = |projection: &str| json!({"Key": {"pk": {"S": "a"}}, "ProjectionExpression": projection});
        table.all_invalid(
            "GetItem",
            [
                (get("a,"), "Invalid ProjectionExpression: Syntax error; token: \"<EOF>\", near: \",\""),
                (get("a b"), "Invalid ProjectionExpression: Syntax error; token: \"b\", near: \"a b\""),
                (get("a[x]"), "Invalid ProjectionExpression: Syntax error; token: \"x\", near: \"[x]\""),
            ],
        );
    });
}

#[test]
fn names_are_all_used() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let key = json!({"pk": {"S": "a"}});
        table.all_invalid(
            "GetItem",
            [
                (
                    json!({"Key": key, "ProjectionExpression": "#a", "ExpressionAttributeNames": {"#a": "a", "#b": "b"}}),
                    "Value provided in ExpressionAttributeNames unused in expressions: keys: {#b}",
                ),
                (
                    json!({"Key": key, "ExpressionAttributeNames": {"#a": "a"}}),
                    "ExpressionAttributeNames can only be specified when using expressions",
                ),
                (
                    json!({"Key": key, "ProjectionExpression": "a", "ExpressionAttributeNames": {}}),
                    "ExpressionAttributeNames must not be empty",
                ),
                (
                    json!({"Key": key, "ProjectionExpression": "a", "ExpressionAttributeNames": {"a": "a"}}),
                    "ExpressionAttributeNames contains invalid key: Syntax error; key: \"a\"",
                ),
            ],
        );
    });
}

#[test]
fn a_key_is_exactly_the_tables() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N"));
        let get = |key| json!({"Key": key});
        table.all_invalid(
            "GetItem",
            [
                (get(json!({})), "The provided key element does not match the schema"),
                (get(json!({"pk": {"S": "a"}})), "The provided key element does not match the schema"),
                (
                    get(json!({"pk": {"S": "a"}, "other": {"N": "1"}})),
                    "The provided key element does not match the schema",
                ),
                (
                    get(json!({"pk": {"S": "a"}, "sk": {"N": "1"}, "more": {"N": "1"}})),
                    "The provided key element does not match the schema",
                ),
                (
                    get(json!({"pk": {"N": "1"}, "sk": {"N": "1"}})),
                    "The provided key element does not match the schema",
                ),
            ],
        );
    });
}

#[test]
fn an_empty_key_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.invalid(
            "GetItem",
            json!({"Key": {"pk": {"S": ""}}}),
            "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk",
        );
    });
}

#[test]
fn a_too_long_key_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:S"));
        table.all_invalid(
            "GetItem",
            [
                (
                    json!({"Key": {"pk": {"S": "p".repeat(2049)}, "sk": {"S": "s"}}}),
                    "One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes",
                ),
                (
                    json!({"Key": {"pk": {"S": "p"}, "sk": {"S": "s".repeat(1025)}}}),
                    "One or more parameter values were invalid: Aggregated size of all range keys has exceeded the size limit of 1024 bytes",
                ),
            ],
        );
    });
}

#[test]
fn a_key_is_required() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.invalid(
            "GetItem",
            json!({}),
            "1 validation error detected: Value null at 'key' failed to satisfy constraint: Member must not be null",
        );
    });
}

#[test]
fn capacity_is_half_a_unit_per_four_kilobytes_and_double_when_consistent() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "s"}, "v": {"S": "x".repeat(4096 - 4)}}));
        table.put(json!({"pk": {"S": "l"}, "v": {"S": "x".repeat(4096 - 3)}}));
        let units = |key: &str, consistent: bool| {
            let request = json!({"Key": {"pk": {"S": key}}, "ConsistentRead": consistent, "ReturnConsumedCapacity": "TOTAL"});
            table.ok("GetItem", request)["ConsumedCapacity"].clone()
        };
        assert_eq!(units("s", false), json!({"TableName": table.name(), "CapacityUnits": 0.5}));
        assert_eq!(units("s", true)["CapacityUnits"], json!(1.0));
        assert_eq!(units("l", false)["CapacityUnits"], json!(1.0));
        assert_eq!(units("l", true)["CapacityUnits"], json!(2.0));
        assert_eq!(units("absent", false)["CapacityUnits"], json!(0.5));
        assert_eq!(units("absent", true)["CapacityUnits"], json!(1.0));
    });
}

#[test]
fn a_projection_does_not_lower_the_cost() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "v": {"S": "x".repeat(9000)}}));
        let answer = table.ok(
            "GetItem",
            json!({"Key": {"pk": {"S": "a"}}, "ProjectionExpression": "pk", "ReturnConsumedCapacity": "INDEXES"}),
        );
        assert_eq!(
            answer["ConsumedCapacity"],
            json!({"TableName": table.name(), "CapacityUnits": 1.5, "Table": {"CapacityUnits": 1.5}})
        );
    });
}

#[test]
fn an_unknown_table_is_not_found() {
    conform(|db| {
        db.call("GetItem", json!({"TableName": "no.such.table", "Key": {"pk": {"S": "a"}}}))
            .error("ResourceNotFoundException", "Requested resource not found");
    });
}

#[test]
fn an_expression_is_checked_before_the_table() {
    conform(|db| {
        db.invalid(
            "GetItem",
            json!({"TableName": "no.such.table", "Key": {"pk": {"S": "a"}}, "ProjectionExpression": "a,"}),
            "Invalid ProjectionExpression: Syntax error; token: \"<EOF>\", near: \",\"",
        );
    });
}

#[test]
fn a_projection_is_at_most_four_kilobytes() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let request = |bytes: usize| {
            let projection = format!("a{}", " ".repeat(bytes - 1));
            json!({"Key": {"pk": {"S": "a"}}, "ProjectionExpression": projection})
        };
        table.ok("GetItem", request(4096));
        table.invalid(
            "GetItem",
            request(4097),
            "Invalid ProjectionExpression: Expression size has exceeded the maximum allowed size;…",
        );
    });
}
