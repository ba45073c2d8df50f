//! Parameters from before expressions: Expected, AttributeUpdates, KeyConditions, QueryFilter, ScanFilter,
//! AttributesToGet, ConditionalOperator.

use larder_conformance::{Endpoint, Table, conform, keys};
use serde_json::{Value, json};

fn key() -> Value {
    json!({"pk": {"S": "a"}})
}

fn one(db: &Endpoint) -> Table<'_> {
    let table = db.table(keys("pk:S"));
    table.put(json!({
        "pk": {"S": "a"}, "s": {"S": "hello"}, "n": {"N": "5"}, "ss": {"SS": ["x", "y"]}, "l": {"L": [{"N": "1"}]},
    }));
    table
}

#[track_caller]
fn expected(table: &Table<'_>, expected: &Value, holds: bool) {
    let answer = table.call("PutItem", json!({"Item": {"pk": {"S": "a"}, "s": {"S": "hello"}, "n": {"N": "5"}, "ss": {"SS": ["x", "y"]}, "l": {"L": [{"N": "1"}]}}, "Expected": expected}));
    if holds {
        assert!(answer.status == 200, "{expected} does not hold: {}", answer.body);
    } else {
        answer.error("ConditionalCheckFailedException", "The conditional request failed");
    }
}

#[test]
fn expected_compares_values_and_existence() {
    conform(|db| {
        let table = one(db);
        for (condition, holds) in [
            (json!({"n": {"Value": {"N": "5"}}}), true),
            (json!({"n": {"Value": {"N": "6"}}}), false),
            (json!({"n": {"Exists": true, "Value": {"N": "5"}}}), true),
            (json!({"absent": {"Exists": false}}), true),
            (json!({"n": {"Exists": false}}), false),
            (json!({"n": {"Value": {"N": "5"}}, "s": {"Value": {"S": "no"}}}), false),
        ] {
            expected(&table, &condition, holds);
        }
    });
}

#[test]
fn expected_knows_every_operator() {
    conform(|db| {
        let table = one(db);
        for (name, operator, values, holds) in [
            ("n", "EQ", json!([{"N": "5.0"}]), true),
            ("n", "NE", json!([{"N": "5"}]), false),
            ("n", "LT", json!([{"N": "6"}]), true),
            ("n", "LE", json!([{"N": "5"}]), true),
            ("n", "GT", json!([{"N": "5"}]), false),
            ("n", "GE", json!([{"N": "5"}]), true),
            ("n", "BETWEEN", json!([{"N": "1"}, {"N": "5"}]), true),
            ("n", "IN", json!([{"N": "1"}, {"N": "5"}]), true),
            ("s", "BEGINS_WITH", json!([{"S": "he"}]), true),
            ("s", "CONTAINS", json!([{"S": "ell"}]), true),
            ("s", "NOT_CONTAINS", json!([{"S": "ell"}]), false),
            ("ss", "CONTAINS", json!([{"S": "x"}]), true),
            ("l", "CONTAINS", json!([{"N": "1"}]), true),
            ("absent", "NE", json!([{"N": "5"}]), true),
        ] {
            expected(
                &table,
                &json!({name: {"ComparisonOperator": operator, "AttributeValueList": values}}),
                holds,
            );
        }
        expected(&table, &json!({"n": {"ComparisonOperator": "NOT_NULL"}}), true);
        expected(&table, &json!({"n": {"ComparisonOperator": "NULL"}}), false);
        expected(&table, &json!({"absent": {"ComparisonOperator": "NULL"}}), true);
    });
}

#[test]
fn a_conditional_operator_joins_what_is_expected() {
    conform(|db| {
        let table = one(db);
        let request = |operator: &str| {
            json!({
                "Item": {"pk": {"S": "a"}, "n": {"N": "5"}}, "ConditionalOperator": operator,
                "Expected": {"n": {"Value": {"N": "5"}}, "m": {"Value": {"N": "1"}}},
            })
        };
        table
            .call("PutItem", request("AND"))
            .error("ConditionalCheckFailedException", "The conditional request failed");
        table.ok("PutItem", request("OR"));
    });
}

#[test]
fn expected_is_checked() {
    conform(|db| {
        let table = one(db);
        let put = |expected: Value| json!({"Item": key(), "Expected": expected});
        table.all_invalid(
            "PutItem",
            [
                (put(json!({"n": {}})), "…One or more parameter values were invalid: Value must be provided when Exists is null for Attribute: n"),
                (
                    put(json!({"n": {"Exists": true}})),
                    "…One or more parameter values were invalid: Value must be provided when Exists is true for Attribute: n",
                ),
                (
                    put(json!({"n": {"Exists": false, "Value": {"N": "1"}}})),
                    "…One or more parameter values were invalid: Value cannot be used when Exists is false for Attribute: n",
                ),
                (
                    put(json!({"n": {"Value": {"N": "1"}, "AttributeValueList": [{"N": "1"}]}})),
                    "…One or more parameter values were invalid: Value and AttributeValueList cannot be used together for Attribute: n",
                ),
                (
                    put(json!({"n": {"AttributeValueList": [{"N": "1"}]}})),
                    "…One or more parameter values were invalid: AttributeValueList can only be used with a ComparisonOperator for Attribute: n",
                ),
                (
                    put(json!({"n": {"ComparisonOperator": "BETWEEN", "AttributeValueList": [{"N": "1"}]}})),
                    "…One or more parameter values were invalid: Invalid number of argument(s) for the BETWEEN ComparisonOperator",
                ),
                (
                    put(json!({"n": {"ComparisonOperator": "LT", "AttributeValueList": [{"SS": ["a"]}]}})),
                    "…One or more parameter values were invalid: ComparisonOperator LT is not valid for SS AttributeValue type",
                ),
            ],
        );
    });
}

#[test]
fn attribute_updates_put_add_and_delete() {
    conform(|db| {
        let table = one(db);
        table.ok(
            "UpdateItem",
            json!({"Key": key(), "AttributeUpdates": {
                "new": {"Value": {"S": "x"}},
                "s": {"Action": "PUT", "Value": {"S": "bye"}},
                "n": {"Action": "ADD", "Value": {"N": "2"}},
                "ss": {"Action": "DELETE", "Value": {"SS": ["x"]}},
                "l": {"Action": "DELETE"},
            }}),
        );
        assert_eq!(
            table.get(key()),
            json!({"pk": {"S": "a"}, "new": {"S": "x"}, "s": {"S": "bye"}, "n": {"N": "7"}, "ss": {"SS": ["y"]}})
        );
    });
}

#[test]
fn attribute_updates_add_to_lists() {
    conform(|db| {
        let table = one(db);
        table.ok(
            "UpdateItem",
            json!({"Key": key(), "AttributeUpdates": {"l": {"Action": "ADD", "Value": {"L": [{"N": "2"}]}}}}),
        );
        assert_eq!(table.get(key())["l"], json!({"L": [{"N": "1"}, {"N": "2"}]}));
    });
}

#[test]
fn attribute_updates_that_only_delete_do_not_create_the_item() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.ok("UpdateItem", json!({"Key": key(), "AttributeUpdates": {"v": {"Action": "DELETE"}}}));
        assert!(table.get(key()).is_null());
    });
}

#[test]
fn attribute_updates_are_checked() {
    conform(|db| {
        let table = one(db);
        let update = |updates: Value| json!({"Key": key(), "AttributeUpdates": updates});
        table.all_invalid(
            "UpdateItem",
            [
                (
                    update(json!({"n": {"Action": "PUT"}})),
                    "…One or more parameter values were invalid: Only DELETE action is allowed when no attribute value is specified",
                ),
                (
                    update(json!({"n": {"Action": "ADD", "Value": {"S": "x"}}})),
                    "…One or more parameter values were invalid: ADD action is not supported for the type S",
                ),
                (
                    update(json!({"n": {"Action": "DELETE", "Value": {"N": "1"}}})),
                    "…One or more parameter values were invalid: DELETE action with value is not supported for the type N",
                ),
                (
                    update(json!({"pk": {"Value": {"S": "b"}}})),
                    "One or more parameter values were invalid: Cannot update attribute pk. This attribute is part of the key",
                ),
            ],
        );
    });
}

#[test]
fn attributes_to_get_are_whole_top_level_names() {
    conform(|db| {
        let table = one(db);
        let answer = table.ok("GetItem", json!({"Key": key(), "AttributesToGet": ["n", "absent", "l"]}));
        assert_eq!(answer["Item"], json!({"n": {"N": "5"}, "l": {"L": [{"N": "1"}]}}));
        let answer = table.ok("Scan", json!({"AttributesToGet": ["s"]}));
        assert_eq!(answer["Items"], json!([{"s": {"S": "hello"}}]));
        table.invalid(
            "GetItem",
            json!({"Key": key(), "AttributesToGet": ["n", "n"]}),
            "One or more parameter values were invalid: Duplicate value in attribute name: n",
        );
    });
}

fn numbered(db: &Endpoint) -> Table<'_> {
    let table = db.table(keys("pk:S sk:N"));
    table.put_all(
        (1..=5)
            .map(|n| json!({"pk": {"S": "p"}, "sk": {"N": n.to_string()}, "v": {"N": (n % 2).to_string()}})),
    );
    table
}

#[test]
fn key_conditions_narrow_by_every_operator() {
    conform(|db| {
        let table = numbered(db);
        for (operator, values, count) in [
            ("EQ", json!([{"N": "2"}]), 1),
            ("LT", json!([{"N": "2"}]), 1),
            ("LE", json!([{"N": "2"}]), 2),
            ("GT", json!([{"N": "2"}]), 3),
            ("GE", json!([{"N": "2"}]), 4),
            ("BETWEEN", json!([{"N": "2"}, {"N": "4"}]), 3),
        ] {
            let request = json!({"KeyConditions": {
                "pk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "p"}]},
                "sk": {"ComparisonOperator": operator, "AttributeValueList": values},
            }});
            assert_eq!(table.ok("Query", request)["Count"], json!(count), "{operator}");
        }
    });
}

#[test]
fn key_conditions_are_checked() {
    conform(|db| {
        let table = numbered(db);
        let equals = json!({"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "p"}]});
        table.all_invalid(
            "Query",
            [
                (
                    json!({"KeyConditions": {"sk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"N": "1"}]}}}),
                    "Query condition missed key schema element: pk",
                ),
                (
                    json!({"KeyConditions": {"pk": {"ComparisonOperator": "GT", "AttributeValueList": [{"S": "p"}]}}}),
                    "Query key condition not supported",
                ),
                (
                    json!({"KeyConditions": {"pk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"N": "1"}]}}}),
                    "One or more parameter values were invalid: Condition parameter type does not match schema type",
                ),
                (
                    json!({"KeyConditions": {"pk": equals, "sk": {"ComparisonOperator": "EQ", "AttributeValueList": []}}}),
                    "One or more parameter values were invalid: Invalid number of argument(s) for the EQ ComparisonOperator",
                ),
                (
                    json!({"KeyConditions": {"pk": equals, "sk": {"ComparisonOperator": "CONTAINS", "AttributeValueList": [{"N": "1"}]}}}),
                    "…",
                ),
            ],
        );
    });
}

#[test]
fn a_query_filter_is_applied_after_reading() {
    conform(|db| {
        let table = numbered(db);
        let request = json!({
            "KeyConditions": {"pk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "p"}]}},
            "QueryFilter": {"v": {"ComparisonOperator": "EQ", "AttributeValueList": [{"N": "1"}]}},
        });
        let answer = table.ok("Query", request);
        assert_eq!((&answer["Count"], &answer["ScannedCount"]), (&json!(3), &json!(5)));
    });
}

#[test]
fn a_query_filter_leaves_keys_alone() {
    conform(|db| {
        let table = numbered(db);
        table.invalid(
            "Query",
            json!({
                "KeyConditions": {"pk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "p"}]}},
                "QueryFilter": {"sk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"N": "1"}]}},
            }),
            "QueryFilter can only contain non-primary key attributes: Primary key attribute: sk",
        );
    });
}

#[test]
fn a_scan_filter_keeps_what_matches() {
    conform(|db| {
        let table = numbered(db);
        for (filter, count) in [
            (json!({"v": {"ComparisonOperator": "EQ", "AttributeValueList": [{"N": "0"}]}}), 2),
            (json!({"absent": {"ComparisonOperator": "NULL"}}), 5),
            (json!({"v": {"ComparisonOperator": "NOT_NULL"}}), 5),
            (
                json!({"sk": {"ComparisonOperator": "IN", "AttributeValueList": [{"N": "1"}, {"N": "2"}, {"N": "9"}]}}),
                2,
            ),
        ] {
            assert_eq!(table.ok("Scan", json!({"ScanFilter": filter}))["Count"], json!(count), "{filter}");
        }
        let both = json!({
            "ScanFilter": {
                "v": {"ComparisonOperator": "EQ", "AttributeValueList": [{"N": "0"}]},
                "sk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"N": "1"}]},
            },
            "ConditionalOperator": "OR",
        });
        assert_eq!(table.ok("Scan", both)["Count"], json!(3));
    });
}

#[test]
fn old_and_new_parameters_do_not_mix() {
    conform(|db| {
        let table = numbered(db);
        let mixed = |old: &str, new: &str| {
            format!(
                "…Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {{{old}}} Expression parameters: {{{new}}}"
            )
        };
        let whole = json!({"pk": {"S": "p"}, "sk": {"N": "1"}});
        for (operation, request, old, new) in [
            (
                "GetItem",
                json!({"Key": whole, "AttributesToGet": ["v"], "ProjectionExpression": "v"}),
                "AttributesToGet",
                "ProjectionExpression",
            ),
            (
                "PutItem",
                json!({"Item": whole, "Expected": {"v": {"Exists": false}}, "ConditionExpression": "attribute_exists(v)"}),
                "Expected",
                "ConditionExpression",
            ),
            (
                "DeleteItem",
                json!({"Key": whole, "Expected": {"v": {"Exists": false}}, "ConditionExpression": "attribute_exists(v)"}),
                "Expected",
                "ConditionExpression",
            ),
            (
                "UpdateItem",
                json!({"Key": whole, "AttributeUpdates": {"v": {"Action": "DELETE"}}, "UpdateExpression": "REMOVE v"}),
                "AttributeUpdates",
                "UpdateExpression",
            ),
            (
                "UpdateItem",
                json!({"Key": whole, "Expected": {"v": {"Exists": false}}, "UpdateExpression": "REMOVE v"}),
                "Expected",
                "UpdateExpression",
            ),
            (
                "Scan",
                json!({"ScanFilter": {"v": {"ComparisonOperator": "NULL"}}, "FilterExpression": "attribute_exists(v)"}),
                "ScanFilter",
                "FilterExpression",
            ),
        ] {
            table.invalid(operation, request, &mixed(old, new));
        }
    });
}

#[test]
fn a_conditional_operator_needs_conditions() {
    conform(|db| {
        let table = one(db);
        table.all_invalid(
            "PutItem",
            [
                (
                    json!({"Item": key(), "ConditionalOperator": "AND"}),
                    "…ConditionalOperator cannot be used without Filter or Expected",
                ),
                (
                    json!({"Item": key(), "ConditionalOperator": "AND", "Expected": {"n": {"Exists": false}}}),
                    "…ConditionalOperator can only be used when Filter or Expected has two or more elements",
                ),
            ],
        );
    });
}

/// For half a year there were expressions for all but the key of a query.
#[test]
fn key_conditions_stand_beside_expressions_for_all_else() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N"));
        for n in 0..4 {
            table.put(json!({"pk": {"S": "p"}, "sk": {"N": n.to_string()}, "v": {"N": (n % 2).to_string()}}));
        }
        let keys = json!({"pk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "p"}]}});
        let answer = table.ok(
            "Query",
            json!({"KeyConditions": keys, "FilterExpression": "v = :v", "ProjectionExpression": "sk",
                   "ExpressionAttributeValues": {":v": {"N": "1"}}}),
        );
        assert_eq!(answer["Items"], json!([{"sk": {"N": "1"}}, {"sk": {"N": "3"}}]));
        let counted = table.ok("Query", json!({"KeyConditions": keys, "Select": "COUNT"}));
        assert_eq!(counted["Count"], json!(4));
        let chosen =
            json!({"KeyConditions": keys, "Select": "SPECIFIC_ATTRIBUTES", "ProjectionExpression": "v"});
        assert_eq!(table.ok("Query", chosen)["Items"][0], json!({"v": {"N": "0"}}));
        table.invalid(
            "Query",
            json!({"KeyConditions": keys, "KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": "p"}}}),
            "Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {KeyConditions} Expression parameters: {KeyConditionExpression}",
        );
        table.invalid(
            "Query",
            json!({"KeyConditions": keys, "AttributesToGet": ["v"], "FilterExpression": "attribute_exists(v)"}),
            "Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {AttributesToGet} Expression parameters: {FilterExpression}",
        );
    });
}

#[test]
fn key_conditions_are_on_every_attribute_of_an_index() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:S").global_many("by_xy", "x:S y:S", "pk:S sk:S", "ALL"));
        for n in 0..4 {
            table.put(json!({"pk": {"S": format!("p{}", n % 2)}, "sk": {"S": format!("s{n}")}, "x": {"S": "x"}, "y": {"S": "y"}}));
        }
        let equals = |value: &str| json!({"ComparisonOperator": "EQ", "AttributeValueList": [{"S": value}]});
        let found = |conditions: Value| {
            let answer = table.ok("Query", json!({"IndexName": "by_xy", "KeyConditions": conditions}));
            answer["Count"].as_u64().expect("a count")
        };
        assert_eq!(found(json!({"x": equals("x"), "y": equals("y")})), 4);
        assert_eq!(found(json!({"x": equals("x"), "y": equals("y"), "pk": equals("p1")})), 2);
        let later = json!({"ComparisonOperator": "GE", "AttributeValueList": [{"S": "s2"}]});
        assert_eq!(found(json!({"x": equals("x"), "y": equals("y"), "pk": equals("p1"), "sk": later})), 1);
        table
            .call("Query", json!({"IndexName": "by_xy", "KeyConditions": {"x": equals("x")}}))
            .error("ValidationException", "…");
    });
}
