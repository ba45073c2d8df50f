//! UpdateItem: what an update expression does, what it returns, what it refuses.

use larder_conformance::{Table, conform, keys};
use serde_json::{Value, json};

fn key() -> Value {
    json!({"pk": {"S": "a"}})
}

fn update(expression: &str, values: &Value) -> Value {
    let mut request = json!({"Key": key(), "UpdateExpression": expression});
    if values.as_object().is_some_and(|values| !values.is_empty()) {
        request["ExpressionAttributeValues"] = values.clone();
    }
    request
}

/// The item's attributes, without its key, after the expression ran on `before`.
#[track_caller]
fn check(table: &Table<'_>, before: &Value, expression: &str, values: &Value, after: &Value) {
    let mut item = before.clone();
    item["pk"] = json!({"S": "a"});
    table.put(item);
    let answer = table.call("UpdateItem", update(expression, values));
    assert!(answer.status == 200, "{expression} was refused: {}", answer.body);
    let mut got = table.get(key());
    got.as_object_mut().expect("an item").remove("pk");
    assert_eq!(got, *after, "{expression}");
}

/// The expression is refused and the item stays as it was.
#[track_caller]
fn refuse(table: &Table<'_>, before: &Value, expression: &str, values: &Value, message: &str) {
    let mut item = before.clone();
    item["pk"] = json!({"S": "a"});
    table.put(item.clone());
    table.invalid("UpdateItem", update(expression, values), message);
    assert_eq!(table.get(key()), item, "{expression}");
}

#[test]
fn an_update_creates_an_absent_item() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.ok("UpdateItem", update("SET v = :v", &json!({":v": {"N": "1"}})));
        assert_eq!(table.get(key()), json!({"pk": {"S": "a"}, "v": {"N": "1"}}));
    });
}

#[test]
fn an_update_without_an_expression_creates_a_bare_item() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.ok("UpdateItem", json!({"Key": key()}));
        assert_eq!(table.get(key()), key());
    });
}

#[test]
fn an_update_that_only_removes_does_not_create_the_item() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        assert_eq!(table.ok("UpdateItem", update("REMOVE v", &json!({}))), json!({}));
        assert!(table.get(key()).is_null());
    });
}

#[test]
fn an_update_that_only_deletes_from_sets_does_not_create_the_item() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.ok("UpdateItem", update("DELETE v :v", &json!({":v": {"SS": ["x"]}})));
        assert!(table.get(key()).is_null());
    });
}

#[test]
fn set_replaces_and_adds() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let before =
            json!({"n": {"N": "5"}, "m": {"M": {"x": {"N": "1"}}}, "l": {"L": [{"S": "0"}, {"S": "1"}]}});
        let with = |name: &str, value: Value| {
            let mut after = before.clone();
            after[name] = value;
            after
        };
        let v = json!({":v": {"N": "2"}});
        for (expression, after) in [
            ("SET n = :v", with("n", json!({"N": "2"}))),
            ("SET w = :v", with("w", json!({"N": "2"}))),
            ("SET n = n + :v", with("n", json!({"N": "7"}))),
            ("SET n = :v - n", with("n", json!({"N": "-3"}))),
            ("SET n = n - :v", with("n", json!({"N": "3"}))),
            ("SET w = n + :v", with("w", json!({"N": "7"}))),
            ("SET m.x = :v", with("m", json!({"M": {"x": {"N": "2"}}}))),
            ("SET m.y = :v", with("m", json!({"M": {"x": {"N": "1"}, "y": {"N": "2"}}}))),
            ("SET l[0] = :v", with("l", json!({"L": [{"N": "2"}, {"S": "1"}]}))),
            ("SET l[9] = :v", with("l", json!({"L": [{"S": "0"}, {"S": "1"}, {"N": "2"}]}))),
            ("SET w = if_not_exists(w, :v)", with("w", json!({"N": "2"}))),
            ("SET n = if_not_exists(n, :v)", before.clone()),
            ("SET n = if_not_exists(m.x, :v)", with("n", json!({"N": "1"}))),
            ("SET n = if_not_exists(w, :v) + :v", with("n", json!({"N": "4"}))),
            ("SET n = n + n, w = :v", {
                let mut after = with("n", json!({"N": "10"}));
                after["w"] = json!({"N": "2"});
                after
            }),
        ] {
            check(
                &table,
                &before,
                expression,
                if expression.contains(":v") { &v } else { &Value::Null },
                &after,
            );
        }
    });
}

#[test]
fn operands_are_read_before_anything_is_written() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let before = json!({"a": {"N": "1"}, "b": {"N": "2"}});
        check(&table, &before, "SET a = b, b = a", &json!({}), &json!({"a": {"N": "2"}, "b": {"N": "1"}}));
        check(&table, &before, "SET a = b REMOVE b", &json!({}), &json!({"a": {"N": "2"}}));
    });
}

#[test]
fn lists_are_appended_in_the_order_named() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let before = json!({"l": {"L": [{"N": "1"}]}});
        let values = json!({":l": {"L": [{"N": "2"}]}});
        for (expression, after) in [
            ("SET l = list_append(l, :l)", json!([{"N": "1"}, {"N": "2"}])),
            ("SET l = list_append(:l, l)", json!([{"N": "2"}, {"N": "1"}])),
            ("SET l = list_append(if_not_exists(absent, :l), l)", json!([{"N": "2"}, {"N": "1"}])),
            ("SET l = list_append(:l, :l)", json!([{"N": "2"}, {"N": "2"}])),
        ] {
            check(&table, &before, expression, &values, &json!({"l": {"L": after}}));
        }
    });
}

#[test]
fn indexes_past_the_end_append_in_index_order() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let before = json!({"l": {"L": [{"N": "1"}]}});
        check(
            &table,
            &before,
            "SET l[11] = :b, l[10] = :a",
            &json!({":a": {"N": "7"}, ":b": {"N": "8"}}),
            &json!({"l": {"L": [{"N": "1"}, {"N": "7"}, {"N": "8"}]}}),
        );
    });
}

#[test]
fn removing_from_a_list_closes_the_gap() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let before = json!({"l": {"L": [{"N": "0"}, {"N": "1"}, {"N": "2"}, {"N": "3"}]}});
        check(
            &table,
            &before,
            "REMOVE l[1], l[2]",
            &json!({}),
            &json!({"l": {"L": [{"N": "0"}, {"N": "3"}]}}),
        );
        check(&table, &before, "REMOVE l[9]", &json!({}), &before);
        check(&table, &before, "REMOVE l, nothing", &json!({}), &json!({}));
    });
}

#[test]
fn removing_from_a_map_leaves_the_rest() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let before = json!({"m": {"M": {"x": {"N": "1"}, "y": {"N": "2"}}}});
        check(&table, &before, "REMOVE m.x", &json!({}), &json!({"m": {"M": {"y": {"N": "2"}}}}));
        check(&table, &before, "REMOVE m.z", &json!({}), &before);
    });
}

#[test]
fn add_sums_numbers_and_unites_sets() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for (before, value, after) in [
            (json!({}), json!({"N": "5"}), json!({"v": {"N": "5"}})),
            (json!({"v": {"N": "1"}}), json!({"N": "-5"}), json!({"v": {"N": "-4"}})),
            (json!({}), json!({"SS": ["a"]}), json!({"v": {"SS": ["a"]}})),
            (json!({"v": {"SS": ["a"]}}), json!({"SS": ["b", "a"]}), json!({"v": {"SS": ["a", "b"]}})),
            (json!({"v": {"NS": ["1"]}}), json!({"NS": ["1.0"]}), json!({"v": {"NS": ["1"]}})),
            (json!({"v": {"BS": ["AQ=="]}}), json!({"BS": ["AQ=="]}), json!({"v": {"BS": ["AQ=="]}})),
        ] {
            check(&table, &before, "ADD v :v", &json!({":v": value}), &after);
        }
    });
}

#[test]
fn delete_takes_members_out_of_sets_and_drops_empty_ones() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let before = json!({"v": {"SS": ["a", "b"]}});
        check(
            &table,
            &before,
            "DELETE v :v",
            &json!({":v": {"SS": ["b", "z"]}}),
            &json!({"v": {"SS": ["a"]}}),
        );
        check(&table, &before, "DELETE v :v", &json!({":v": {"SS": ["a", "b"]}}), &json!({}));
        check(&table, &before, "DELETE w :v", &json!({":v": {"SS": ["a"]}}), &before);
    });
}

#[test]
fn clauses_come_in_any_order() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let before = json!({"n": {"N": "1"}, "gone": {"N": "1"}, "s": {"SS": ["a", "b"]}});
        check(
            &table,
            &before,
            "delete s :s remove gone add n :n set w = :n",
            &json!({":s": {"SS": ["a"]}, ":n": {"N": "2"}}),
            &json!({"n": {"N": "3"}, "s": {"SS": ["b"]}, "w": {"N": "2"}}),
        );
    });
}

#[test]
fn a_clause_is_written_once() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        refuse(
            &table,
            &json!({}),
            "SET a = :v SET b = :v",
            &json!({":v": {"N": "1"}}),
            "1 validation error detected: Invalid UpdateExpression: The \"SET\" section can only be used once in an update expression;",
        );
    });
}

#[test]
fn overlapping_paths_are_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let values = json!({":v": {"N": "1"}});
        for (expression, one, two) in [
            ("SET a = :v, a = :v", "[a]", "[a]"),
            ("SET a.b = :v, a = :v", "[a, b]", "[a]"),
            ("SET a = :v, a.b.c = :v", "[a]", "[a, b, c]"),
            ("SET a = :v REMOVE a", "[a]", "[a]"),
            ("SET l[1] = :v REMOVE l[1]", "[l, [1]]", "[l, [1]]"),
        ] {
            refuse(
                &table,
                &json!({"l": {"L": []}}),
                expression,
                &values,
                &format!(
                    "1 validation error detected: Invalid UpdateExpression: Two document paths overlap with each other; must remove or rewrite one of these paths; path one: {one}, path two: {two}"
                ),
            );
        }
    });
}

#[test]
fn a_path_is_a_list_or_a_map_not_both() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        refuse(
            &table,
            &json!({}),
            "SET a.b = :v, a[1] = :v",
            &json!({":v": {"N": "1"}}),
            "1 validation error detected: Invalid UpdateExpression: Two document paths conflict with each other; must remove or rewrite one of these paths; path one: [a, b], path two: [a, [1]]",
        );
    });
}

#[test]
fn a_path_needs_its_parents() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let before = json!({"s": {"S": "x"}, "m": {"M": {}}, "l": {"L": []}});
        for expression in [
            "SET absent.x = :v",
            "SET m.absent.x = :v",
            "SET s.x = :v",
            "SET m[0] = :v",
            "SET l.x = :v",
            "SET absent[0] = :v",
        ] {
            refuse(
                &table,
                &before,
                expression,
                &json!({":v": {"N": "1"}}),
                "The document path provided in the update expression is invalid for update",
            );
        }
    });
}

#[test]
fn an_operand_must_exist() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for expression in ["SET a = b", "SET a = b + :v", "SET a = list_append(b, :l)"] {
            let values = if expression.contains(":v") {
                json!({":v": {"N": "1"}})
            } else if expression.contains(":l") {
                json!({":l": {"L": []}})
            } else {
                json!({})
            };
            refuse(
                &table,
                &json!({}),
                expression,
                &values,
                "The provided expression refers to an attribute that does not exist in the item",
            );
        }
    });
}

#[test]
fn an_attribute_of_the_wrong_type_cannot_be_computed_with() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let before = json!({"s": {"S": "x"}, "n": {"N": "1"}, "l": {"L": []}, "ss": {"SS": ["a"]}});
        for (expression, values) in [
            ("SET s = s + :v", json!({":v": {"N": "1"}})),
            ("SET w = list_append(s, :l)", json!({":l": {"L": []}})),
            ("ADD s :v", json!({":v": {"N": "1"}})),
            ("ADD n :ss", json!({":ss": {"SS": ["a"]}})),
            ("ADD ss :ns", json!({":ns": {"NS": ["1"]}})),
            ("DELETE n :ss", json!({":ss": {"SS": ["a"]}})),
        ] {
            refuse(
                &table,
                &before,
                expression,
                &values,
                "An operand in the update expression has an incorrect data type",
            );
        }
    });
}

#[test]
fn a_value_of_the_wrong_type_is_refused_whatever_the_item() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let wrong = "1 validation error detected: Invalid UpdateExpression: Incorrect operand type for operator or function; ";
        for (expression, value, detail) in [
            ("SET a = a + :v", json!({"S": "x"}), "operator or function: +, operand type: S"),
            ("SET a = :v - a", json!({"BOOL": true}), "operator or function: -, operand type: BOOL"),
            (
                "SET a = list_append(a, :v)",
                json!({"N": "1"}),
                "operator or function: list_append, operand type: N",
            ),
            (
                "ADD a :v",
                json!({"S": "x"}),
                "operator: ADD, operand type: STRING, typeSet: ALLOWED_FOR_ADD_OPERAND",
            ),
            (
                "ADD a :v",
                json!({"L": []}),
                "operator: ADD, operand type: LIST, typeSet: ALLOWED_FOR_ADD_OPERAND",
            ),
            ("DELETE a :v", json!({"N": "1"}), "operator: DELETE, operand type: NUMBER, typeSet: …"),
        ] {
            refuse(&table, &json!({}), expression, &json!({":v": value}), &format!("{wrong}{detail}"));
        }
    });
}

#[test]
fn a_syntax_error_is_shown_where_it_is() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for (expression, token, near) in [
            ("SET", "<EOF>", "SET"),
            ("SET a", "<EOF>", "a"),
            ("SET a =", "<EOF>", "="),
            ("SET a = :v x", "x", ":v x"),
            ("SET a :v", ":v", "a :v"),
            ("SET a = :v,", "<EOF>", ","),
            ("REMOVE a :v", ":v", "a :v"),
            ("ADD a", "<EOF>", "a"),
            ("SET a = :v !", "!", ":v !"),
            ("NONSENSE a = :v", "NONSENSE", "NONSENSE a"),
        ] {
            let values = if expression.contains(":v") { json!({":v": {"N": "1"}}) } else { json!({}) };
            refuse(
                &table,
                &json!({}),
                expression,
                &values,
                &format!(
                    "1 validation error detected: Invalid UpdateExpression: Syntax error; token: \"{token}\", near: \"{near}\""
                ),
            );
        }
    });
}

#[test]
fn functions_are_known_and_have_their_operands() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let values = json!({":v": {"N": "1"}});
        for (expression, detail) in [
            ("SET a = nope(b, :v)", "Invalid function name; function: nope"),
            (
                "SET a = if_not_exists(:v, :v)",
                "Operator or function requires a document path; operator or function: if_not_exists",
            ),
            (
                "SET a = if_not_exists(b)",
                "Incorrect number of operands for operator or function; operator or function: if_not_exists, number of operands: 1",
            ),
            (
                "SET a = list_append(b)",
                "Incorrect number of operands for operator or function; operator or function: list_append, number of operands: 1",
            ),
        ] {
            let values = if expression.contains(":v") { &values } else { &Value::Null };
            refuse(
                &table,
                &json!({}),
                expression,
                values,
                &format!("1 validation error detected: Invalid UpdateExpression: {detail}"),
            );
        }
    });
}

#[test]
fn functions_of_conditions_do_not_belong_in_an_update() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for function in ["size", "attribute_exists"] {
            refuse(
                &table,
                &json!({}),
                &format!("SET a = {function}(b)"),
                &json!({}),
                &format!(
                    "1 validation error detected: Invalid UpdateExpression: The function is not allowed in an update expression; function: {function}"
                ),
            );
        }
    });
}

#[test]
fn names_and_values_are_defined_and_used() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let v = json!({":v": {"N": "1"}});
        table.all_invalid(
            "UpdateItem",
            [
                (
                    json!({"Key": key(), "UpdateExpression": "SET a = :w", "ExpressionAttributeValues": v}),
                    "1 validation error detected: Invalid UpdateExpression: An expression attribute value used in expression is not defined; attribute value: :w",
                ),
                (
                    json!({"Key": key(), "UpdateExpression": "SET #a = :v", "ExpressionAttributeValues": v}),
                    "1 validation error detected: Invalid UpdateExpression: An expression attribute name used in the document path is not defined; attribute name: #a",
                ),
                (
                    json!({"Key": key(), "UpdateExpression": "SET a = :v", "ExpressionAttributeValues": {":v": {"N": "1"}, ":w": {"N": "1"}}}),
                    "1 validation error detected: Value provided in ExpressionAttributeValues unused in expressions: keys: {:w}",
                ),
                (
                    json!({"Key": key(), "UpdateExpression": "SET a = :v", "ExpressionAttributeValues": v, "ExpressionAttributeNames": {"#a": "a"}}),
                    "1 validation error detected: Value provided in ExpressionAttributeNames unused in expressions: keys: {#a}",
                ),
                (
                    json!({"Key": key(), "UpdateExpression": "REMOVE a", "ExpressionAttributeValues": {}}),
                    "1 validation error detected: ExpressionAttributeValues must not be empty",
                ),
                (
                    json!({"Key": key(), "UpdateExpression": "SET a = :v", "ExpressionAttributeValues": {"v": {"N": "1"}}}),
                    "ExpressionAttributeValues contains invalid key: Syntax error; key: \"v\"",
                ),
                (
                    json!({"Key": key(), "ExpressionAttributeValues": v}),
                    "1 validation error detected: ExpressionAttributeValues can only be specified when using expressions…",
                ),
            ],
        );
    });
}

#[test]
fn reserved_words_need_a_name() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for word in ["name", "STATUS", "Size", "data", "ttl", "zone"] {
            refuse(
                &table,
                &json!({}),
                &format!("SET {word} = :v"),
                &json!({":v": {"N": "1"}}),
                &format!(
                    "1 validation error detected: Invalid UpdateExpression: Attribute name is a reserved keyword; reserved keyword: {word}"
                ),
            );
        }
        table.ok(
            "UpdateItem",
            json!({
                "Key": key(),
                "UpdateExpression": "SET #name = :v",
                "ExpressionAttributeNames": {"#name": "name"},
                "ExpressionAttributeValues": {":v": {"N": "1"}},
            }),
        );
    });
}

#[test]
fn an_expression_is_not_empty() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.invalid(
            "UpdateItem",
            json!({"Key": key(), "UpdateExpression": ""}),
            "1 validation error detected: Invalid UpdateExpression: The expression can not be empty;",
        );
    });
}

#[test]
fn an_expression_is_at_most_four_kilobytes() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let padded = |bytes: usize| {
            let expression = "SET a = :v";
            let expression = expression.to_owned() + &" ".repeat(bytes - expression.len());
            update(&expression, &json!({":v": {"N": "1"}}))
        };
        table.ok("UpdateItem", padded(4096));
        table.invalid(
            "UpdateItem",
            padded(4097),
            "1 validation error detected: Invalid UpdateExpression: Expression size has exceeded the maximum allowed size;…",
        );
    });
}

#[test]
fn the_key_cannot_be_updated() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for expression in ["SET pk = :v", "REMOVE pk", "ADD pk :n"] {
            let values = match expression {
                "SET pk = :v" => json!({":v": {"S": "b"}}),
                "ADD pk :n" => json!({":n": {"N": "1"}}),
                _ => json!({}),
            };
            table.invalid(
                "UpdateItem",
                update(expression, &values),
                "One or more parameter values were invalid: Cannot update attribute pk. This attribute is part of the key",
            );
        }
    });
}

#[test]
fn return_values_are_of_the_whole_item_or_of_what_was_touched() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let before = json!({"pk": {"S": "a"}, "n": {"N": "1"}, "same": {"S": "x"}});
        for (values, expected) in [
            ("NONE", Value::Null),
            ("ALL_OLD", before.clone()),
            ("ALL_NEW", json!({"pk": {"S": "a"}, "n": {"N": "2"}, "same": {"S": "x"}, "new": {"N": "2"}})),
            ("UPDATED_OLD", json!({"n": {"N": "1"}})),
            ("UPDATED_NEW", json!({"n": {"N": "2"}, "new": {"N": "2"}})),
        ] {
            table.put(before.clone());
            let mut request = update("SET n = :v, #new = :v", &json!({":v": {"N": "2"}}));
            request["ExpressionAttributeNames"] = json!({"#new": "new"});
            request["ReturnValues"] = values.into();
            assert_eq!(table.ok("UpdateItem", request)["Attributes"], expected, "{values}");
        }
    });
}

#[test]
fn updated_values_are_of_the_touched_paths_only() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let before = json!({
            "pk": {"S": "a"},
            "m": {"M": {"x": {"N": "1"}, "y": {"N": "2"}}},
            "l": {"L": [{"N": "0"}, {"N": "1"}, {"N": "2"}]},
        });
        for (expression, values, old, new) in [
            (
                "SET m.x = :v",
                json!({":v": {"N": "9"}}),
                json!({"m": {"M": {"x": {"N": "1"}}}}),
                json!({"m": {"M": {"x": {"N": "9"}}}}),
            ),
            ("SET m.z = :v", json!({":v": {"N": "9"}}), Value::Null, json!({"m": {"M": {"z": {"N": "9"}}}})),
            ("REMOVE m.x", json!({}), json!({"m": {"M": {"x": {"N": "1"}}}}), Value::Null),
            ("REMOVE l", json!({}), json!({"l": {"L": [{"N": "0"}, {"N": "1"}, {"N": "2"}]}}), Value::Null),
            ("REMOVE nothing", json!({}), Value::Null, Value::Null),
        ] {
            for (which, expected) in [("UPDATED_OLD", &old), ("UPDATED_NEW", &new)] {
                table.put(before.clone());
                let mut request = update(expression, &values);
                request["ReturnValues"] = which.into();
                assert_eq!(table.ok("UpdateItem", request)["Attributes"], *expected, "{expression} {which}");
            }
        }
    });
}

#[test]
fn updated_values_of_a_list_are_the_touched_elements() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for (expression, which, expected) in [
            ("SET l[1] = :v", "UPDATED_OLD", json!({"l": {"L": [{"N": "1"}]}})),
            ("SET l[1] = :v", "UPDATED_NEW", json!({"l": {"L": [{"N": "9"}]}})),
            ("SET l[0] = :v, l[2] = :v", "UPDATED_OLD", json!({"l": {"L": [{"N": "0"}, {"N": "2"}]}})),
            ("REMOVE l[1], l[7]", "UPDATED_OLD", json!({"l": {"L": [{"N": "1"}]}})),
            // What moved into the place of the removed element is returned.
            ("REMOVE l[1]", "UPDATED_NEW", json!({"l": {"L": [{"N": "2"}]}})),
            // An appended element is not at the index that was written.
            ("SET l[100] = :v", "UPDATED_NEW", Value::Null),
        ] {
            table.put(json!({"pk": {"S": "a"}, "l": {"L": [{"N": "0"}, {"N": "1"}, {"N": "2"}]}}));
            let values = if expression.contains(":v") { json!({":v": {"N": "9"}}) } else { json!({}) };
            let mut request = update(expression, &values);
            request["ReturnValues"] = which.into();
            assert_eq!(table.ok("UpdateItem", request)["Attributes"], expected, "{expression} {which}");
        }
    });
}

#[test]
fn a_created_item_has_no_old_values() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for values in ["ALL_OLD", "UPDATED_OLD"] {
            let mut request = update("SET v = :v", &json!({":v": {"N": "1"}}));
            request["ReturnValues"] = values.into();
            assert_eq!(table.ok("UpdateItem", request), json!({}));
            table.ok("DeleteItem", json!({"Key": key()}));
        }
    });
}

#[test]
fn a_failed_condition_changes_nothing_and_can_return_the_item() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let item = json!({"pk": {"S": "a"}, "v": {"N": "1"}});
        table.put(item.clone());
        let mut request = update("SET v = :v", &json!({":v": {"N": "2"}}));
        request["ConditionExpression"] = "v = :v".into();
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD".into();
        let error = table
            .call("UpdateItem", request)
            .error("ConditionalCheckFailedException", "The conditional request failed");
        assert_eq!(error["Item"], item);
        assert_eq!(table.get(key()), item);
    });
}

#[test]
fn a_failed_condition_creates_nothing() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let mut request = update("SET v = :v", &json!({":v": {"N": "2"}}));
        request["ConditionExpression"] = "attribute_exists(pk)".into();
        table
            .call("UpdateItem", request)
            .error("ConditionalCheckFailedException", "The conditional request failed");
        assert!(table.get(key()).is_null());
    });
}

#[test]
fn an_update_moves_index_entries() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_g", "g:S", "ALL"));
        let count = |value: &str| {
            table.ok(
                "Query",
                json!({"IndexName": "by_g", "KeyConditionExpression": "g = :g", "ExpressionAttributeValues": {":g": {"S": value}}}),
            )["Count"]
                .clone()
        };
        table.ok("UpdateItem", update("SET g = :g", &json!({":g": {"S": "x"}})));
        assert_eq!((count("x"), count("y")), (json!(1), json!(0)));
        table.ok("UpdateItem", update("SET g = :g", &json!({":g": {"S": "y"}})));
        assert_eq!((count("x"), count("y")), (json!(0), json!(1)));
        table.ok("UpdateItem", update("REMOVE g", &json!({})));
        assert_eq!((count("x"), count("y")), (json!(0), json!(0)));
    });
}

#[test]
fn an_index_key_stays_of_its_type() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_g", "g:S", "ALL"));
        table.put(json!({"pk": {"S": "a"}, "g": {"S": "x"}}));
        table.invalid(
            "UpdateItem",
            update("SET g = :g", &json!({":g": {"N": "1"}})),
            "One or more parameter values were invalid: Type mismatch for Index Key g Expected: S Actual: N IndexName: by_g",
        );
        table.invalid(
            "UpdateItem",
            update("SET g = :g", &json!({":g": {"S": ""}})),
            "One or more parameter values are not valid. The update expression attempted to update a secondary index key to a value that is not supported. The AttributeValue for a key attribute cannot contain an empty string value.",
        );
        assert_eq!(table.get(key())["g"], json!({"S": "x"}));
    });
}

#[test]
fn an_item_does_not_grow_over_400_kb() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "v": {"S": "x".repeat(400 * 1024 - 10)}}));
        // "pk" + "a" is 3 bytes and "v" is 1: six bytes are left.
        table.ok("UpdateItem", update("SET w = :w", &json!({":w": {"S": "12345"}})));
        table.invalid(
            "UpdateItem",
            update("SET w = :w", &json!({":w": {"S": "123456"}})),
            "Item size to update has exceeded the maximum allowed size",
        );
        assert_eq!(table.get(key())["w"], json!({"S": "12345"}));
    });
}

#[test]
fn an_update_does_not_nest_too_deep() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let deep = |depth: usize| (0..depth).fold(json!({"S": "x"}), |inner, _| json!({"M": {"k": inner}}));
        table.put(json!({"pk": {"S": "a"}, "m": deep(30)}));
        let path = format!("m{}", ".k".repeat(30));
        table.invalid(
            "UpdateItem",
            update(&format!("SET {path} = :v"), &json!({":v": deep(2)})),
            "Nesting Levels have exceeded supported limits",
        );
        assert_eq!(table.get(key())["m"], deep(30));
    });
}

#[test]
fn a_number_that_overflows_leaves_the_item() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let before = json!({"n": {"N": "9".to_owned() + &"0".repeat(125)}});
        refuse(
            &table,
            &before,
            "ADD n :n",
            &json!({":n": before["n"]}),
            "Number overflow. Attempting to store a number with magnitude larger than supported range",
        );
    });
}

#[test]
fn capacity_is_of_the_larger_of_the_old_and_new_item() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let units = |bytes: usize| {
            let mut request = update("SET v = :v", &json!({":v": {"S": "x".repeat(bytes - 4)}}));
            request["ReturnConsumedCapacity"] = "TOTAL".into();
            table.ok("UpdateItem", request)["ConsumedCapacity"]["CapacityUnits"].clone()
        };
        assert_eq!(
            [units(10), units(3000), units(10), units(10)],
            [json!(1.0), json!(3.0), json!(3.0), json!(1.0)]
        );
    });
}

#[test]
fn concurrent_increments_are_all_counted() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        table.ok("UpdateItem", update("ADD n :one", &json!({":one": {"N": "1"}})));
                    }
                });
            }
        });
        assert_eq!(table.get(key())["n"], json!({"N": "80"}));
    });
}

#[test]
fn a_key_is_exactly_the_tables() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.all_invalid(
            "UpdateItem",
            [
                (json!({"Key": {}}), "The provided key element does not match the schema"),
                (json!({"Key": {"pk": {"N": "1"}}}), "The provided key element does not match the schema"),
                (
                    json!({}),
                    "1 validation error detected: Value null at 'key' failed to satisfy constraint: Member must not be null",
                ),
            ],
        );
    });
}

#[test]
fn an_unknown_table_is_not_found() {
    conform(|db| {
        db.call("UpdateItem", json!({"TableName": "no.such.table", "Key": key()}))
            .error("ResourceNotFoundException", "Requested resource not found");
    });
}

#[test]
fn capacity_of_a_moved_index_entry_is_of_both_places() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_g", "g:S", "ALL"));
        let units = |expression: &str, values: Value| {
            let mut request = update(expression, &values);
            request["ReturnConsumedCapacity"] = "INDEXES".into();
            let capacity = table.ok("UpdateItem", request)["ConsumedCapacity"].clone();
            (
                capacity["Table"]["CapacityUnits"].clone(),
                capacity["GlobalSecondaryIndexes"]["by_g"]["CapacityUnits"].clone(),
            )
        };
        assert_eq!(units("SET g = :g", json!({":g": {"S": "x"}})), (json!(1.0), json!(1.0)));
        assert_eq!(units("SET g = :g", json!({":g": {"S": "y"}})), (json!(1.0), json!(2.0)));
        assert_eq!(units("SET v = :g", json!({":g": {"S": "y"}})), (json!(1.0), json!(1.0)));
        assert_eq!(units("REMOVE g", json!({})), (json!(1.0), json!(1.0)));
    });
}

#[test]
fn deep_paths_are_updated_in_place() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let before = json!({"m": {"M": {"l": {"L": [{"M": {"x": {"N": "1"}, "y": {"N": "2"}}}]}}}});
        check(
            &table,
            &before,
            "SET m.l[0].x = m.l[0].x + :n REMOVE m.l[0].y",
            &json!({":n": {"N": "5"}}),
            &json!({"m": {"M": {"l": {"L": [{"M": {"x": {"N": "6"}}}]}}}}),
        );
        check(
            &table,
            &before,
            "ADD m.l[0].x :n, m.c :n",
            &json!({":n": {"N": "5"}}),
            &json!({"m": {"M": {"c": {"N": "5"}, "l": {"L": [{"M": {"x": {"N": "6"}, "y": {"N": "2"}}}]}}}}),
        );
    });
}

#[test]
fn a_condition_may_compare_what_is_with_what_will_be() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "version": {"N": "3"}}));
        let advance = |from: &str, to: &str| {
            json!({
                "Key": key(), "UpdateExpression": "SET version = :to", "ConditionExpression": "version = :from",
                "ExpressionAttributeValues": {":from": {"N": from}, ":to": {"N": to}},
            })
        };
        table.ok("UpdateItem", advance("3", "4"));
        table
            .call("UpdateItem", advance("3", "4"))
            .error("ConditionalCheckFailedException", "The conditional request failed");
        assert_eq!(table.get(key())["version"], json!({"N": "4"}));
    });
}

#[test]
fn sums_have_two_terms_and_may_stand_in_parentheses() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let before = json!({"a": {"N": "1"}, "b": {"N": "2"}});
        check(&table, &before, "SET a = (a + b)", &json!({}), &json!({"a": {"N": "3"}, "b": {"N": "2"}}));
        refuse(
            &table,
            &before,
            "SET a = a + b + b",
            &json!({}),
            "1 validation error detected: Invalid UpdateExpression: Syntax error; token: \"+\", near: \"b + b\"",
        );
    });
}

#[test]
fn a_default_is_not_the_attribute_itself() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        refuse(
            &table,
            &json!({}),
            "SET a = if_not_exists(b, b)",
            &json!({}),
            "1 validation error detected: Invalid UpdateExpression: The first operand must be distinct from the remaining operands for this operator or function; operator: if_not_exists, first operand: [b]",
        );
    });
}

#[test]
fn a_path_is_not_too_deep() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        refuse(
            &table,
            &json!({}),
            &format!("SET a{} = b", ".c".repeat(40)),
            &json!({}),
            "1 validation error detected: Invalid UpdateExpression: The document path has too many nesting levels; nesting levels: 41",
        );
    });
}

#[test]
fn an_attribute_name_has_a_longest_length_wherever_it_stands() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let told = "1 validation error detected: Attribute name is too large, must be less than 65536 bytes";
        let long = "a".repeat(65_536);
        let key = json!({"pk": {"S": "a"}});
        table.invalid(
            "UpdateItem",
            json!({"Key": key, "UpdateExpression": "SET doc = :v", "ExpressionAttributeValues": {":v": {"M": {&long: {"S": "v"}}}}}),
            told,
        );
        let put = json!({"Action": "PUT", "Value": {"S": "v"}});
        table.invalid("UpdateItem", json!({"Key": key, "AttributeUpdates": {&long: put}}), told);
        let named = json!({"Key": key, "UpdateExpression": "SET #n = :v", "ExpressionAttributeNames": {"#n": long},
                           "ExpressionAttributeValues": {":v": {"S": "v"}}});
        table
            .call("UpdateItem", named)
            .error("ValidationException", "…Attribute name is too large, must be less than 65536 bytes…");
    });
}

#[test]
fn a_nested_path_of_an_item_that_is_absent_cannot_be_removed() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for path in ["a.b", "a[0]"] {
            table.invalid(
                "UpdateItem",
                json!({"Key": {"pk": {"S": "absent"}}, "UpdateExpression": format!("REMOVE {path}")}),
                "The document path provided in the update expression is invalid for update",
            );
        }
        table.ok("UpdateItem", json!({"Key": {"pk": {"S": "absent"}}, "UpdateExpression": "REMOVE a"}));
        assert!(table.get(json!({"pk": {"S": "absent"}})).is_null());
    });
}

#[test]
fn sums_that_would_lose_digits_are_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "n": {"N": "1e38"}}));
        let key = json!({"pk": {"S": "a"}});
        let told = "Attempting to store more than 38 significant digits in a Number";
        for update in ["SET n = n + :v", "SET n = n - :v", "ADD n :v"] {
            table.invalid(
                "UpdateItem",
                json!({"Key": key, "UpdateExpression": update, "ExpressionAttributeValues": {":v": {"N": "0.1"}}}),
                told,
            );
        }
        table.invalid(
            "UpdateItem",
            json!({"Key": key, "AttributeUpdates": {"n": {"Action": "ADD", "Value": {"N": "0.1"}}}}),
            told,
        );
        assert_eq!(table.get(key)["n"], json!({"N": format!("1{}", "0".repeat(38))}));
    });
}

#[test]
fn functions_and_names_that_are_none_are_shown() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let update = |text: &str| json!({"Key": {"pk": {"S": "a"}}, "UpdateExpression": text});
        table.all_invalid(
            "UpdateItem",
            [
                (update("SET a = foo(b)"), "1 validation error detected: Invalid UpdateExpression: Invalid function name; function: foo"),
                (update("SET a = #"), "1 validation error detected: Invalid UpdateExpression: Syntax error; token: \"#\", near: \"= #\""),
                (update("hello"), "1 validation error detected: Invalid UpdateExpression: Syntax error; token: \"hello\", near: \"hello\""),
            ],
        );
    });
}
