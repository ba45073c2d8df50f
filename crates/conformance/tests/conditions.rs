//! Conditions: what holds of an item, what is refused. Written as filters of a Scan, which share the language with
//! condition expressions, and again as conditions where the wording differs.

use larder_conformance::{Table, conform, keys};
use serde_json::{Value, json};

fn filter(expression: &str, values: &Value) -> Value {
    let mut request = json!({"FilterExpression": expression});
    if values.as_object().is_some_and(|values| !values.is_empty()) {
        request["ExpressionAttributeValues"] = values.clone();
    }
    request
}

#[track_caller]
fn check(table: &Table<'_>, expression: &str, values: &Value, holds: bool) {
    let answer = table.call("Scan", filter(expression, values));
    assert!(answer.status == 200, "{expression} was refused: {}", answer.body);
    assert_eq!(answer.body["Count"] == 1, holds, "{expression} with {values}");
}

#[track_caller]
fn refuse(table: &Table<'_>, expression: &str, values: &Value, detail: &str) {
    table.invalid("Scan", filter(expression, values), &format!("Invalid FilterExpression: {detail}"));
}

fn item() -> Value {
    json!({
        "pk": {"S": "a"},
        "s": {"S": "hello"},
        "n": {"N": "5"},
        "b": {"B": "AQID"},
        "t": {"BOOL": true},
        "nil": {"NULL": true},
        "l": {"L": [{"S": "x"}, {"N": "1"}]},
        "m": {"M": {"k": {"S": "v"}, "deep": {"M": {"list": {"L": [{"N": "7"}]}}}}},
        "ss": {"SS": ["a", "b"]},
        "ns": {"NS": ["1", "2"]},
        "bs": {"BS": ["AQ=="]},
    })
}

#[test]
fn values_compare_within_their_type() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(item());
        for (expression, value, holds) in [
            ("n = :v", json!({"N": "5.0"}), true),
            ("n <> :v", json!({"N": "5.0"}), false),
            ("n < :v", json!({"N": "10"}), true),
            ("n <= :v", json!({"N": "5"}), true),
            ("n > :v", json!({"N": "-5"}), true),
            ("n >= :v", json!({"N": "5.1"}), false),
            (":v < n", json!({"N": "4"}), true),
            ("s = :v", json!({"S": "hello"}), true),
            ("s < :v", json!({"S": "hellp"}), true),
            ("s > :v", json!({"S": "Hello"}), true),
            ("b = :v", json!({"B": "AQID"}), true),
            ("b > :v", json!({"B": "AQI="}), true),
            ("t = :v", json!({"BOOL": true}), true),
            ("t = :v", json!({"BOOL": false}), false),
            ("nil = :v", json!({"NULL": true}), true),
            ("l = :v", json!({"L": [{"S": "x"}, {"N": "1.0"}]}), true),
            ("l = :v", json!({"L": [{"N": "1"}, {"S": "x"}]}), false),
            ("ss = :v", json!({"SS": ["b", "a"]}), true),
            ("ns = :v", json!({"NS": ["2.0", "1"]}), true),
            ("ss = :v", json!({"SS": ["a"]}), false),
        ] {
            check(&table, expression, &json!({":v": value}), holds);
        }
    });
}

#[test]
fn values_of_different_types_are_unequal_and_unordered() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(item());
        let v = json!({":v": {"S": "5"}});
        for (expression, holds) in [
            ("n = :v", false),
            ("n <> :v", true),
            ("n < :v", false),
            ("n > :v", false),
            ("n BETWEEN :v AND :v", false),
            ("n IN (:v)", false),
        ] {
            check(&table, expression, &v, holds);
        }
    });
}

#[test]
fn an_absent_attribute_is_unequal_to_everything() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(item());
        let v = json!({":v": {"S": "5"}});
        for (expression, holds) in [
            ("absent = :v", false),
            ("absent <> :v", true),
            ("absent < :v", false),
            ("NOT absent < :v", true),
            ("absent IN (:v)", false),
            ("absent BETWEEN :v AND :v", false),
            ("begins_with(absent, :v)", false),
            ("contains(absent, :v)", false),
            ("size(absent) < :v", false),
            ("absent = foo OR s <> :v", true),
        ] {
            check(&table, expression, &v, holds);
        }
    });
}

#[test]
fn attributes_compare_with_each_other() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "x": {"N": "1"}, "y": {"N": "2"}, "m": {"M": {"x": {"N": "1"}}}}));
        for (expression, holds) in [
            ("x < y", true),
            ("x = m.x", true),
            ("x > y", false),
            ("x <> absent", true),
            ("y IN (x, m.x)", false),
            ("x BETWEEN m.x AND y", true),
        ] {
            check(&table, expression, &json!({}), holds);
        }
    });
}

#[test]
fn paths_reach_into_lists_and_maps() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(item());
        for (expression, value, holds) in [
            ("m.k = :v", json!({"S": "v"}), true),
            ("m.deep.#l[0] = :v", json!({"N": "7"}), true),
            ("l[0] = :v", json!({"S": "x"}), true),
            ("l[2] = :v", json!({"S": "x"}), false),
            ("m[0] = :v", json!({"S": "v"}), false),
            ("l.k = :v", json!({"S": "v"}), false),
            ("s.k = :v", json!({"S": "v"}), false),
        ] {
            let mut request = filter(expression, &json!({":v": value}));
            if expression.contains("#l") {
                request["ExpressionAttributeNames"] = json!({"#l": "list"});
            }
            assert_eq!(table.ok("Scan", request)["Count"] == 1, holds, "{expression}");
        }
    });
}

#[test]
fn between_includes_both_ends() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(item());
        for (low, high, holds) in
            [("5", "5", true), ("4", "6", true), ("5.1", "6", false), ("1", "4.9", false)]
        {
            check(
                &table,
                "n BETWEEN :low AND :high",
                &json!({":low": {"N": low}, ":high": {"N": high}}),
                holds,
            );
        }
    });
}

#[test]
fn in_takes_one_to_a_hundred_values() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(item());
        let of = |count: usize| {
            let names: Vec<String> = (0..count).map(|n| format!(":v{n}")).collect();
            let values: serde_json::Map<String, Value> =
                (0..count).map(|n| (format!(":v{n}"), json!({"N": n.to_string()}))).collect();
            (format!("n IN ({})", names.join(", ")), Value::Object(values))
        };
        let (expression, values) = of(100);
        check(&table, &expression, &values, true);
        let (expression, values) = of(5);
        check(&table, &expression, &values, false);
        let (expression, values) = of(101);
        refuse(&table, &expression, &values, "…number of operands: …");
    });
}

#[test]
fn not_and_or_bind_in_that_order() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(item());
        let values = json!({":t": {"BOOL": true}, ":f": {"BOOL": false}});
        for (expression, holds) in [
            ("t = :t OR t = :f AND t = :f", true),
            ("(t = :t OR t = :f) AND t = :f", false),
            ("NOT t = :f AND t = :t", true),
            ("NOT (t = :f OR t = :t)", false),
            ("not t = :f and t = :t", true),
            ("NOT NOT t = :t AND t <> :f", true),
        ] {
            check(&table, expression, &values, holds);
        }
    });
}

#[test]
fn existence_is_of_the_path() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(item());
        for (path, exists) in [
            ("s", true),
            ("nil", true),
            ("absent", false),
            ("m.k", true),
            ("m.absent", false),
            ("l[1]", true),
            ("l[2]", false),
        ] {
            check(&table, &format!("attribute_exists({path})"), &json!({}), exists);
            check(&table, &format!("attribute_not_exists({path})"), &json!({}), !exists);
        }
    });
}

#[test]
fn a_type_is_named_by_its_letters() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(item());
        for (path, kind) in [
            ("s", "S"),
            ("n", "N"),
            ("b", "B"),
            ("t", "BOOL"),
            ("nil", "NULL"),
            ("l", "L"),
            ("m", "M"),
            ("ss", "SS"),
            ("ns", "NS"),
            ("bs", "BS"),
        ] {
            check(&table, &format!("attribute_type({path}, :t)"), &json!({":t": {"S": kind}}), true);
            check(
                &table,
                &format!("attribute_type({path}, :t)"),
                &json!({":t": {"S": if kind == "S" { "N" } else { "S" }}}),
                false,
            );
        }
    });
}

#[test]
fn an_unknown_type_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        refuse(
            &table,
            "attribute_type(s, :t)",
            &json!({":t": {"S": "STRING"}}),
            "Invalid attribute type name found; type: STRING, valid types: {…}",
        );
    });
}

#[test]
fn begins_with_is_of_strings_and_binary() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(item());
        for (expression, value, holds) in [
            ("begins_with(s, :v)", json!({"S": "hel"}), true),
            ("begins_with(s, :v)", json!({"S": "ello"}), false),
            ("begins_with(b, :v)", json!({"B": "AQI="}), true),
            ("begins_with(n, :v)", json!({"S": "5"}), false),
        ] {
            check(&table, expression, &json!({":v": value}), holds);
        }
        refuse(
            &table,
            "begins_with(s, :v)",
            &json!({":v": {"N": "5"}}),
            "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N",
        );
    });
}

#[test]
fn contains_is_of_strings_sets_and_lists() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(item());
        for (expression, value, holds) in [
            ("contains(s, :v)", json!({"S": "ell"}), true),
            ("contains(s, :v)", json!({"S": "elx"}), false),
            ("contains(b, :v)", json!({"B": "Ag=="}), true),
            ("contains(ss, :v)", json!({"S": "a"}), true),
            ("contains(ss, :v)", json!({"S": "c"}), false),
            ("contains(ns, :v)", json!({"N": "1.0"}), true),
            ("contains(ns, :v)", json!({"S": "1"}), false),
            ("contains(bs, :v)", json!({"B": "AQ=="}), true),
            ("contains(l, :v)", json!({"N": "1"}), true),
            ("contains(l, :v)", json!({"S": "1"}), false),
            ("contains(m, :v)", json!({"S": "k"}), false),
            ("contains(n, :v)", json!({"N": "5"}), false),
        ] {
            check(&table, expression, &json!({":v": value}), holds);
        }
    });
}

#[test]
fn size_counts_what_the_type_has() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(item());
        for (path, size) in [("s", 5), ("b", 3), ("ss", 2), ("l", 2), ("m", 2)] {
            check(&table, &format!("size({path}) = :v"), &json!({":v": {"N": size.to_string()}}), true);
        }
        // A number, a boolean and a null have no size.
        for path in ["n", "t", "nil", "absent"] {
            check(&table, &format!("size({path}) >= :v"), &json!({":v": {"N": "0"}}), false);
        }
    });
}

#[test]
fn an_empty_string_is_a_value_like_others() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "s": {"S": ""}}));
        check(&table, "s < :v", &json!({":v": {"S": "a"}}), true);
        check(&table, "s = :v", &json!({":v": {"S": ""}}), true);
        check(&table, "size(s) = :v", &json!({":v": {"N": "0"}}), true);
        check(&table, "attribute_exists(s)", &json!({}), true);
        check(&table, "begins_with(pk, :v)", &json!({":v": {"S": ""}}), true);
    });
}

#[test]
fn size_of_a_string_is_in_characters() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "s": {"S": "日本"}}));
        check(&table, "size(s) = :v", &json!({":v": {"N": "2"}}), true);
    });
}

#[test]
fn a_wrong_operand_type_is_refused_not_false() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(item());
        let wrong = "Incorrect operand type for operator or function; ";
        for (expression, value, detail) in [
            ("s < :v", json!({"BOOL": true}), "operator or function: <, operand type: BOOL"),
            ("s >= :v", json!({"NULL": true}), "operator or function: >=, operand type: NULL"),
            ("s > :v", json!({"SS": ["a"]}), "operator or function: >, operand type: SS"),
            ("s <= :v", json!({"L": []}), "operator or function: <=, operand type: L"),
            ("s BETWEEN :v AND :v", json!({"M": {}}), "operator or function: BETWEEN, operand type: M"),
            (
                "attribute_type(s, :v)",
                json!({"N": "1"}),
                "operator or function: attribute_type, operand type: N",
            ),
            (
                "begins_with(s, :v)",
                json!({"SS": ["a"]}),
                "operator or function: begins_with, operand type: SS",
            ),
            ("size(:v) = n", json!({"N": "1"}), "operator or function: size, operand type: N"),
        ] {
            let answer = table.call("Scan", filter(expression, &json!({":v": value})));
            let message = answer.message().unwrap_or_default().to_owned();
            assert!(
                answer.code() == Some("ValidationException")
                    && message.contains(wrong.trim_end_matches("; ")),
                "{expression} {detail}: {} {message}",
                answer.status
            );
        }
    });
}

#[test]
fn a_wrong_operand_type_is_named() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let wrong = "Incorrect operand type for operator or function; ";
        for (expression, value, detail) in [
            ("s < :v", json!({"BOOL": true}), "operator or function: <, operand type: BOOL"),
            ("s >= :v", json!({"NULL": true}), "operator or function: >=, operand type: NULL"),
            ("s > :v", json!({"SS": ["a"]}), "operator or function: >, operand type: SS"),
            ("s BETWEEN :v AND :v", json!({"M": {}}), "operator or function: BETWEEN, operand type: M"),
            (
                "attribute_type(s, :v)",
                json!({"N": "1"}),
                "operator or function: attribute_type, operand type: N",
            ),
        ] {
            refuse(&table, expression, &json!({":v": value}), &format!("{wrong}{detail}"));
        }
    });
}

#[test]
fn between_takes_bounds_of_one_type_in_order() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        refuse(
            &table,
            "n BETWEEN :a AND :b",
            &json!({":a": {"N": "5"}, ":b": {"N": "1"}}),
            "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {N:5}, upper bound operand: AttributeValue: {N:1}",
        );
        refuse(
            &table,
            "n BETWEEN :a AND :b",
            &json!({":a": {"N": "5"}, ":b": {"S": "6"}}),
            "The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: AttributeValue: {N:5}, upper bound operand: AttributeValue: {S:6}",
        );
    });
}

#[test]
fn a_syntax_error_is_shown_where_it_is() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for (expression, token, near) in [
            ("a =", "<EOF>", "="),
            ("a = :v AND", "<EOF>", "AND"),
            ("a = :v)", ")", ":v)"),
            ("(a = :v", "<EOF>", ":v"),
            ("a = = :v", "=", "= = :v"),
            ("= :v", "=", "= :v"),
            ("AND a = :v", "AND", "AND a"),
            ("a :v", ":v", "a :v"),
            ("a = :v :w", ":w", ":v :w"),
            ("a IN ()", ")", "()"),
            ("a IN :v", ":v", "IN :v"),
            ("a BETWEEN :v OR :w", "OR", ":v OR :w"),
            ("NOT", "<EOF>", "NOT"),
            ("a[x] = :v", "x", "[x]"),
            ("a ! b", "!", "a ! b"),
            ("attribute_exists(a,)", ")", ",)"),
            ("attribute_exists a", "a", "attribute_exists a"),
        ] {
            let mut values = json!({});
            for value in [":v", ":w"] {
                if expression.contains(value) {
                    values[value] = json!({"N": "1"});
                }
            }
            refuse(
                &table,
                expression,
                &values,
                &format!("Syntax error; token: \"{token}\", near: \"{near}\""),
            );
        }
    });
}

#[test]
fn functions_are_known_and_have_their_operands() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let v = json!({":v": {"S": "x"}});
        for (expression, detail) in [
            ("nope(a, :v)", "Invalid function name; function: nope"),
            ("attribute_type(a, :v) AND size(a) > :v AND a", "Syntax error; token: \"<EOF>\", near: \"a\""),
            ("size(a)", "The function is not allowed to be used this way in an expression; function: size"),
            (
                "a = attribute_exists(b) AND a = :v",
                "The function is not allowed to be used this way in an expression; function: attribute_exists",
            ),
            (
                "if_not_exists(a, :v)",
                "The function is not allowed in a condition expression; function: if_not_exists",
            ),
        ] {
            refuse(&table, expression, &v, detail);
        }
    });
}

#[test]
fn existence_is_asked_of_a_path() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for function in ["attribute_exists", "attribute_not_exists"] {
            refuse(
                &table,
                &format!("{function}(:v)"),
                &json!({":v": {"S": "x"}}),
                &format!("Operator or function requires a document path; operator or function: {function}"),
            );
        }
    });
}

#[test]
fn functions_take_a_fixed_number_of_operands() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for (expression, detail) in [
            (
                "begins_with(a, :v, :v)",
                "Incorrect number of operands for operator or function; operator or function: begins_with, number of operands: 3",
            ),
            (
                "attribute_exists(a, :v)",
                "Incorrect number of operands for operator or function; operator or function: attribute_exists, number of operands: 2",
            ),
        ] {
            refuse(&table, expression, &json!({":v": {"S": "x"}}), detail);
        }
    });
}

#[test]
fn names_and_values_are_defined_and_used() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let v = json!({":v": {"N": "1"}});
        refuse(
            &table,
            "a = :w",
            &json!({}),
            "An expression attribute value used in expression is not defined; attribute value: :w",
        );
        refuse(
            &table,
            "#a = :v",
            &v,
            "An expression attribute name used in the document path is not defined; attribute name: #a",
        );
        refuse(&table, "name = :v", &v, "Attribute name is a reserved keyword; reserved keyword: name");
        refuse(&table, "a.name = :v", &v, "Attribute name is a reserved keyword; reserved keyword: name");
        refuse(&table, "", &json!({}), "The expression can not be empty;");
        table.all_invalid(
            "Scan",
            [
                (
                    filter("a = :v", &json!({":v": {"N": "1"}, ":w": {"N": "1"}})),
                    "Value provided in ExpressionAttributeValues unused in expressions: keys: {:w}",
                ),
                (
                    json!({"FilterExpression": "attribute_exists(a)", "ExpressionAttributeNames": {"#a": "a"}}),
                    "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a}",
                ),
                (
                    json!({"ExpressionAttributeValues": v}),
                    "ExpressionAttributeValues can only be specified when using expressions: FilterExpression is null",
                ),
                (
                    json!({"ExpressionAttributeNames": {"#a": "a"}}),
                    "ExpressionAttributeNames can only be specified when using expressions",
                ),
                (
                    json!({"FilterExpression": "attribute_exists(a)", "ExpressionAttributeValues": {}}),
                    "ExpressionAttributeValues must not be empty",
                ),
            ],
        );
    });
}

#[test]
fn redundant_parentheses_are_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let v = json!({":v": {"N": "1"}});
        refuse(&table, "((a = :v))", &v, "The expression has redundant parentheses;");
        table.ok("Scan", filter("(a = :v) AND (b = :v)", &v));
    });
}

#[test]
fn an_expression_is_at_most_four_kilobytes() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let padded = |bytes: usize| format!("a = :v{}", " ".repeat(bytes - 6));
        let v = json!({":v": {"N": "1"}});
        table.ok("Scan", filter(&padded(4096), &v));
        refuse(&table, &padded(4097), &v, "Expression size has exceeded the maximum allowed size;…");
    });
}

#[test]
fn an_expression_has_at_most_300_operators() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        // Each condition has one operator, and one more joins it to the rest.
        let of = |conditions: usize| vec!["a=:v"; conditions].join(" OR ");
        let v = json!({":v": {"N": "1"}});
        table.ok("Scan", filter(&of(150), &v));
        refuse(&table, &of(151), &v, "The expression contains too many operators; operator count: 301");
    });
}

#[test]
fn deep_nesting_is_refused_and_never_crashes() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let v = json!({":v": {"N": "1"}});
        for expression in [
            format!("{}a = :v{}", "(".repeat(2000), ")".repeat(2000)),
            format!("{} a = :v", "NOT ".repeat(1000)),
            format!("{}a = :v", "(".repeat(4000)),
            format!("a{} = :v", "[0]".repeat(1300)),
            format!("a{} = :v", ".b".repeat(2000)),
        ] {
            let answer = table.call("Scan", filter(&expression, &v));
            assert_eq!(answer.code(), Some("ValidationException"), "{} {}", &expression[..20], answer.body);
        }
        table.ok("Scan", json!({}));
    });
}

#[test]
fn conditions_are_refused_in_the_words_of_their_parameter() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let cases = |operation: &str, base: &Value| {
            for (expression, values, detail) in [
                ("a = ", json!({}), "Syntax error; token: \"<EOF>\", near: \"=\""),
                (
                    "name = :v",
                    json!({":v": {"N": "1"}}),
                    "Attribute name is a reserved keyword; reserved keyword: name",
                ),
                ("nope(a)", json!({}), "Invalid function name; function: nope"),
                ("", json!({}), "The expression can not be empty;"),
                ("((a = :v))", json!({":v": {"N": "1"}}), "The expression has redundant parentheses;"),
            ] {
                let mut request = base.clone();
                request["ConditionExpression"] = expression.into();
                if values != json!({}) {
                    request["ExpressionAttributeValues"] = values;
                }
                table.invalid(
                    operation,
                    request,
                    &format!("1 validation error detected: Invalid ConditionExpression: {detail}"),
                );
            }
        };
        cases("PutItem", &json!({"Item": {"pk": {"S": "a"}}}));
        cases("DeleteItem", &json!({"Key": {"pk": {"S": "a"}}}));
        cases("UpdateItem", &json!({"Key": {"pk": {"S": "a"}}}));
    });
}

#[test]
fn a_path_that_is_no_condition_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for expression in ["a", ":v", "a.b"] {
            let values = if expression == ":v" { json!({":v": {"BOOL": true}}) } else { json!({}) };
            let answer = table.call("Scan", filter(expression, &values));
            assert_eq!(answer.code(), Some("ValidationException"), "{expression} {}", answer.body);
        }
    });
}

#[test]
fn an_operand_is_not_compared_with_itself() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for (expression, detail) in [
            ("a = a", "operator: =, first operand: [a]"),
            ("a.b < a.b", "operator: <, first operand: [a, b]"),
            ("a IN (b, a)", "operator: IN, first operand: [a]"),
            ("begins_with(a, a)", "operator: begins_with, first operand: [a]"),
            ("contains(a, a)", "operator: contains, first operand: [a]"),
        ] {
            refuse(
                &table,
                expression,
                &json!({}),
                &format!(
                    "The first operand must be distinct from the remaining operands for this operator or function; {detail}"
                ),
            );
        }
    });
}

#[test]
fn keywords_have_no_case_and_functions_do() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(item());
        let values = json!({":a": {"N": "1"}, ":b": {"N": "9"}});
        check(&table, "n between :a and :b Or n iN (:a)", &values, true);
        refuse(
            &table,
            "Attribute_Exists(n)",
            &json!({}),
            "Invalid function name; function: Attribute_Exists",
        );
    });
}

#[test]
fn white_space_is_free() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(item());
        let values = json!({":a": {"N": "1"}, ":b": {"S": "v"}});
        check(&table, "n>:a AND m . k=:b", &values, true);
        check(&table, "\tn\n>\r :a  AND(m.k = :b)", &values, true);
        check(&table, "attribute_exists ( l [ 0 ] )", &json!({}), true);
    });
}

#[test]
fn a_name_may_stand_for_any_text() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "a.b": {"N": "1"}, "l[0]": {"N": "2"}, "SELECT": {"N": "3"}}));
        let request = json!({
            "FilterExpression": "#a = :a AND #b = :b AND #c = :c",
            "ExpressionAttributeNames": {"#a": "a.b", "#b": "l[0]", "#c": "SELECT"},
            "ExpressionAttributeValues": {":a": {"N": "1"}, ":b": {"N": "2"}, ":c": {"N": "3"}},
        });
        assert_eq!(table.ok("Scan", request)["Count"], json!(1));
    });
}

#[test]
fn values_of_expressions_are_checked_as_values_of_items() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for value in [
            json!({}),
            json!({"S": "a", "N": "1"}),
            json!({"N": "x"}),
            json!({"SS": []}),
            json!({"SS": ["a", "a"]}),
            json!({"NULL": false}),
        ] {
            table.call("Scan", filter("a = :v", &json!({":v": value}))).error("ValidationException", "…");
        }
    });
}

#[test]
fn an_empty_set_among_values_is_told_with_its_name() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for (set, told) in [
            ("SS", "An string set  may not be empty"),
            ("NS", "An number set  may not be empty"),
            ("BS", "Binary sets should not be empty"),
        ] {
            table.invalid(
                "Scan",
                filter("a = :v", &json!({":v": {set: []}})),
                &format!("ExpressionAttributeValues contains invalid value: One or more parameter values were invalid: {told} for key :v"),
            );
        }
    });
}

#[test]
fn an_expression_of_white_space_ends_too_soon() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        refuse(&table, "  ", &json!({}), "Syntax error; token: \"<EOF>\", near: \"  \"");
    });
}

#[test]
fn a_path_is_not_too_deep() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.ok("Scan", filter(&format!("a{} = b", ".c".repeat(30)), &json!({})));
        for step in [".c", "[0]"] {
            refuse(
                &table,
                &format!("a{} = b", step.repeat(40)),
                &json!({}),
                "The document path has too many nesting levels; nesting levels: 41",
            );
        }
    });
}

#[test]
fn a_list_index_has_a_range() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for index in ["2147483648", "99999999999999", "99999999999999999999999999"] {
            refuse(
                &table,
                &format!("a[{index}] = b"),
                &json!({}),
                &format!("List index is not within the allowable range; index: [{index}]"),
            );
        }
        refuse(&table, "a[-1] = b", &json!({}), "Syntax error; token: \"-\", near: \"[-1\"");
        refuse(&table, "a = b[00]", &json!({}), "Syntax error; token: \"0\", near: \"00]\"");
    });
}
