//! Query: key conditions, order, pages, projections, indexes.

use larder_conformance::{Endpoint, Table, conform, keys};
use serde_json::{Value, json};

/// Items `p`/1 to `p`/5 with `v` of 10 to 50, and one of another partition.
fn numbered(db: &Endpoint) -> Table<'_> {
    let table = db.table(keys("pk:S sk:N"));
    table
        .put_all((1..=5).map(
            |n| json!({"pk": {"S": "p"}, "sk": {"N": n.to_string()}, "v": {"N": (n * 10).to_string()}}),
        ));
    table.put(json!({"pk": {"S": "other"}, "sk": {"N": "1"}}));
    table
}

fn query(condition: &str, values: &Value) -> Value {
    json!({"KeyConditionExpression": condition, "ExpressionAttributeValues": values})
}

/// Sort keys of an answer's items, as text.
fn sorts(answer: &Value) -> Vec<String> {
    answer["Items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| {
            item["sk"].as_object().and_then(|value| value.values().next()?.as_str()).unwrap_or("?").to_owned()
        })
        .collect()
}

fn with(mut request: Value, changes: &Value) -> Value {
    for (member, value) in changes.as_object().expect("changes are an object") {
        request[member] = value.clone();
    }
    request
}

#[test]
fn a_partition_is_read_in_order() {
    conform(|db| {
        let table = numbered(db);
        let answer = table.ok("Query", query("pk = :p", &json!({":p": {"S": "p"}})));
        assert_eq!(sorts(&answer), ["1", "2", "3", "4", "5"]);
        assert_eq!((&answer["Count"], &answer["ScannedCount"]), (&json!(5), &json!(5)));
        assert!(answer["LastEvaluatedKey"].is_null());
    });
}

#[test]
fn a_partition_is_read_backwards() {
    conform(|db| {
        let table = numbered(db);
        let request = with(query("pk = :p", &json!({":p": {"S": "p"}})), &json!({"ScanIndexForward": false}));
        assert_eq!(sorts(&table.ok("Query", request)), ["5", "4", "3", "2", "1"]);
    });
}

#[test]
fn an_unknown_partition_is_empty() {
    conform(|db| {
        let table = numbered(db);
        let answer = table.ok("Query", query("pk = :p", &json!({":p": {"S": "nobody"}})));
        assert_eq!(answer, json!({"Items": [], "Count": 0, "ScannedCount": 0}));
    });
}

#[test]
fn sort_keys_are_narrowed_by_every_operator() {
    conform(|db| {
        let table = numbered(db);
        for (condition, expected) in [
            ("sk = :a", vec!["2"]),
            ("sk < :a", vec!["1"]),
            ("sk <= :a", vec!["1", "2"]),
            ("sk > :a", vec!["3", "4", "5"]),
            ("sk >= :a", vec!["2", "3", "4", "5"]),
            ("sk BETWEEN :a AND :b", vec!["2", "3", "4"]),
        ] {
            let mut values = json!({":p": {"S": "p"}, ":a": {"N": "2"}});
            if condition.contains(":b") {
                values[":b"] = json!({"N": "4"});
            }
            for condition in [
                format!("pk = :p AND {condition}"),
                format!("{condition} AND pk = :p"),
                format!("(pk = :p) AND ({condition})"),
            ] {
                let answer = table.ok("Query", query(&condition, &values));
                assert_eq!(sorts(&answer), expected, "{condition}");
            }
        }
    });
}

#[test]
fn numbers_sort_as_numbers() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N"));
        let order =
            ["-1E+20", "-100", "-2.5", "-2", "-1E-20", "0", "1E-20", "0.5", "2", "10", "100", "1E+20"];
        table.put_all(order.iter().rev().map(|n| json!({"pk": {"S": "p"}, "sk": {"N": n}, "as": {"S": n}})));
        let answer = table.ok("Query", query("pk = :p", &json!({":p": {"S": "p"}})));
        let got: Vec<&str> = answer["Items"]
            .as_array()
            .expect("items")
            .iter()
            .filter_map(|item| item["as"]["S"].as_str())
            .collect();
        assert_eq!(got, order);
    });
}

#[test]
fn strings_sort_by_their_utf8_bytes() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:S"));
        let order = [" ", "A", "Z", "a", "aa", "ab", "z", "é", "日", "\u{ffee}", "😀"];
        table.put_all(order.iter().rev().map(|s| json!({"pk": {"S": "p"}, "sk": {"S": s}})));
        assert_eq!(sorts(&table.ok("Query", query("pk = :p", &json!({":p": {"S": "p"}})))), order);
    });
}

#[test]
fn binary_sorts_by_unsigned_bytes() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:B"));
        let order = ["AA==", "AAA=", "AQ==", "fw==", "gA==", "/w==", "//8="];
        table.put_all(order.iter().rev().map(|b| json!({"pk": {"S": "p"}, "sk": {"B": b}})));
        assert_eq!(sorts(&table.ok("Query", query("pk = :p", &json!({":p": {"S": "p"}})))), order);
    });
}

#[test]
fn begins_with_narrows_strings_and_binary() {
    conform(|db| {
        let strings = db.table(keys("pk:S sk:S"));
        strings.put_all(["a", "ab", "abc", "b", "A"].map(|s| json!({"pk": {"S": "p"}, "sk": {"S": s}})));
        let answer = strings.ok(
            "Query",
            query("pk = :p AND begins_with(sk, :s)", &json!({":p": {"S": "p"}, ":s": {"S": "ab"}})),
        );
        assert_eq!(sorts(&answer), ["ab", "abc"]);
        let binary = db.table(keys("pk:S sk:B"));
        binary.put_all(["/w==", "//8=", "AA=="].map(|b| json!({"pk": {"S": "p"}, "sk": {"B": b}})));
        let answer = binary.ok(
            "Query",
            query("pk = :p AND begins_with(sk, :s)", &json!({":p": {"S": "p"}, ":s": {"B": "/w=="}})),
        );
        assert_eq!(sorts(&answer), ["/w==", "//8="]);
    });
}

#[test]
fn a_limit_ends_the_page_with_the_key_to_go_on_from() {
    conform(|db| {
        let table = numbered(db);
        for (forward, pages) in [
            (true, [vec!["1", "2"], vec!["3", "4"], vec!["5"]]),
            (false, [vec!["5", "4"], vec!["3", "2"], vec!["1"]]),
        ] {
            let base = with(
                query("pk = :p", &json!({":p": {"S": "p"}})),
                &json!({"Limit": 2, "ScanIndexForward": forward}),
            );
            let mut request = base.clone();
            for (number, page) in pages.iter().enumerate() {
                let answer = table.ok("Query", request);
                assert_eq!(&sorts(&answer), page);
                assert_eq!(answer["LastEvaluatedKey"].is_null(), number == 2);
                request = with(base.clone(), &json!({"ExclusiveStartKey": answer["LastEvaluatedKey"]}));
            }
        }
    });
}

#[test]
fn a_limit_met_exactly_may_be_followed_by_an_empty_page() {
    conform(|db| {
        let table = numbered(db);
        let base = with(query("pk = :p", &json!({":p": {"S": "p"}})), &json!({"Limit": 5}));
        let answer = table.ok("Query", base.clone());
        assert_eq!(answer["LastEvaluatedKey"], json!({"pk": {"S": "p"}, "sk": {"N": "5"}}));
        let answer = table.ok("Query", with(base, &json!({"ExclusiveStartKey": answer["LastEvaluatedKey"]})));
        assert_eq!(answer, json!({"Items": [], "Count": 0, "ScannedCount": 0}));
    });
}

#[test]
fn a_limit_counts_items_before_the_filter() {
    conform(|db| {
        let table = numbered(db);
        let request = with(
            query("pk = :p", &json!({":p": {"S": "p"}, ":v": {"N": "30"}})),
            &json!({"Limit": 4, "FilterExpression": "v >= :v"}),
        );
        let answer = table.ok("Query", request);
        assert_eq!(sorts(&answer), ["3", "4"]);
        assert_eq!((&answer["Count"], &answer["ScannedCount"]), (&json!(2), &json!(4)));
        assert_eq!(answer["LastEvaluatedKey"], json!({"pk": {"S": "p"}, "sk": {"N": "4"}}));
    });
}

#[test]
fn a_page_ends_at_one_megabyte() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N"));
        for n in 0..5 {
            table.put(json!({"pk": {"S": "p"}, "sk": {"N": n.to_string()}, "v": {"S": "x".repeat(300_000)}}));
        }
        let base = query("pk = :p", &json!({":p": {"S": "p"}}));
        let first = table.ok("Query", base.clone());
        assert_eq!(sorts(&first), ["0", "1", "2", "3"]);
        assert_eq!(first["LastEvaluatedKey"], json!({"pk": {"S": "p"}, "sk": {"N": "3"}}));
        let second = table.ok("Query", with(base, &json!({"ExclusiveStartKey": first["LastEvaluatedKey"]})));
        assert_eq!(sorts(&second), ["4"]);
        assert!(second["LastEvaluatedKey"].is_null());
    });
}

#[test]
fn a_page_ends_at_one_megabyte_before_the_filter_and_the_projection() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N"));
        for n in 0..5 {
            table.put(json!({"pk": {"S": "p"}, "sk": {"N": n.to_string()}, "v": {"S": "x".repeat(300_000)}}));
        }
        let request = with(
            query("pk = :p", &json!({":p": {"S": "p"}, ":v": {"S": "y"}})),
            &json!({"FilterExpression": "v = :v", "ProjectionExpression": "sk"}),
        );
        let answer = table.ok("Query", request);
        assert_eq!((&answer["Count"], &answer["ScannedCount"]), (&json!(0), &json!(4)));
        assert_eq!(answer["LastEvaluatedKey"], json!({"pk": {"S": "p"}, "sk": {"N": "3"}}));
    });
}

#[test]
fn a_projection_leaves_the_rest_out() {
    conform(|db| {
        let table = numbered(db);
        let request = with(
            query("pk = :p AND sk = :s", &json!({":p": {"S": "p"}, ":s": {"N": "1"}})),
            &json!({"ProjectionExpression": "v"}),
        );
        assert_eq!(table.ok("Query", request)["Items"], json!([{"v": {"N": "10"}}]));
    });
}

#[test]
fn a_count_has_no_items() {
    conform(|db| {
        let table = numbered(db);
        let request = with(query("pk = :p", &json!({":p": {"S": "p"}})), &json!({"Select": "COUNT"}));
        assert_eq!(table.ok("Query", request), json!({"Count": 5, "ScannedCount": 5}));
    });
}

#[test]
fn select_and_projection_must_agree() {
    conform(|db| {
        let table = numbered(db);
        let base = || query("pk = :p", &json!({":p": {"S": "p"}}));
        table.all_invalid(
            "Query",
            [
                (
                    with(base(), &json!({"Select": "SPECIFIC_ATTRIBUTES"})),
                    "1 validation error detected: Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES",
                ),
                (
                    with(base(), &json!({"Select": "COUNT", "ProjectionExpression": "v"})),
                    "1 validation error detected: Cannot specify the ProjectionExpression when choosing to get only the Count",
                ),
                (
                    with(base(), &json!({"Select": "ALL_ATTRIBUTES", "ProjectionExpression": "v"})),
                    "1 validation error detected: Cannot specify the ProjectionExpression when choosing to get ALL_ATTRIBUTES",
                ),
                (
                    with(base(), &json!({"Select": "ALL_PROJECTED_ATTRIBUTES"})),
                    "1 validation error detected: ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName",
                ),
                (
                    with(base(), &json!({"Select": "SOME"})),
                    "1 validation error detected: Value 'SOME' at 'select' failed to satisfy constraint: Member must satisfy enum value set: [SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES]",
                ),
            ],
        );
        let request =
            with(base(), &json!({"Select": "SPECIFIC_ATTRIBUTES", "ProjectionExpression": "v", "Limit": 1}));
        assert_eq!(table.ok("Query", request)["Items"], json!([{"v": {"N": "10"}}]));
    });
}

#[test]
fn a_key_condition_names_the_partition_key() {
    conform(|db| {
        let table = numbered(db);
        table.all_invalid(
            "Query",
            [
                (query("sk = :s", &json!({":s": {"N": "1"}})), "Query condition missed key schema element: pk"),
                (query("v = :s", &json!({":s": {"N": "1"}})), "Query condition missed key schema element: pk"),
                (
                    query("pk = :p AND v = :s", &json!({":p": {"S": "p"}, ":s": {"N": "1"}})),
                    "Query condition missed key schema element: sk",
                ),
                (query("pk > :p", &json!({":p": {"S": "p"}})), "Query key condition not supported"),
                (
                    query("begins_with(pk, :p)", &json!({":p": {"S": "p"}})),
                    "Query key condition not supported",
                ),
                (
                    json!({}),
                    "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.",
                ),
            ],
        );
    });
}

#[test]
fn a_key_condition_is_of_the_keys_type() {
    conform(|db| {
        let table = numbered(db);
        table.all_invalid(
            "Query",
            [
                (
                    query("pk = :p", &json!({":p": {"N": "1"}})),
                    "One or more parameter values were invalid: Condition parameter type does not match schema type",
                ),
                (
                    query("pk = :p AND sk = :s", &json!({":p": {"S": "p"}, ":s": {"S": "1"}})),
                    "One or more parameter values were invalid: Condition parameter type does not match schema type",
                ),
            ],
        );
    });
}

#[test]
fn a_key_condition_says_little() {
    conform(|db| {
        let table = numbered(db);
        let values = json!({":p": {"S": "p"}, ":s": {"N": "1"}});
        let p = json!({":p": {"S": "p"}});
        table.all_invalid(
            "Query",
            [
                (query("pk = :p OR sk = :s", &values), "Invalid operator used in KeyConditionExpression: OR"),
                (query("NOT pk = :p", &p), "Invalid operator used in KeyConditionExpression: NOT"),
                (query("pk = :p AND sk <> :s", &values), "Invalid operator used in KeyConditionExpression: <>"),
                (query("pk = :p AND sk IN (:s)", &values), "Invalid operator used in KeyConditionExpression: IN"),
                (
                    query("pk = :p AND attribute_exists(sk)", &p),
                    "Invalid operator used in KeyConditionExpression: attribute_exists",
                ),
                (
                    query("pk = :p AND contains(sk, :s)", &values),
                    "Invalid operator used in KeyConditionExpression: contains",
                ),
                (
                    query("pk = :p AND pk = :p", &p),
                    "Invalid KeyConditionExpression: KeyConditionExpressions must only contain one condition per key",
                ),
                (
                    query("pk = :p AND sk.a = :s", &values),
                    "Invalid KeyConditionExpression: KeyConditionExpressions cannot have conditions on nested attributes",
                ),
                (
                    query("pk = :p AND sk BETWEEN :b AND :s", &json!({":p": {"S": "p"}, ":s": {"N": "1"}, ":b": {"N": "2"}})),
                    "Invalid KeyConditionExpression: The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {N:2}, upper bound operand: AttributeValue: {N:1}",
                ),
            ],
        );
    });
}

#[test]
fn a_syntax_error_is_shown_where_it_is() {
    conform(|db| {
        let table = numbered(db);
        let p = json!({":p": {"S": "p"}});
        table.all_invalid(
            "Query",
            [
                (json!({"KeyConditionExpression": ""}), "Invalid KeyConditionExpression: The expression can not be empty;"),
                (
                    json!({"KeyConditionExpression": "pk ="}),
                    "Invalid KeyConditionExpression: Syntax error; token: \"<EOF>\", near: \"=\"",
                ),
                (query("pk = :p x", &p), "Invalid KeyConditionExpression: Syntax error; token: \"x\", near: \":p x\""),
                (query("pk = :p)", &p), "Invalid KeyConditionExpression: Syntax error; token: \")\", near: \":p)\""),
                (
                    query("pk = :q", &p),
                    "Invalid KeyConditionExpression: An expression attribute value used in expression is not defined; attribute value: :q",
                ),
            ],
        );
    });
}

#[test]
fn an_empty_key_value_is_refused() {
    conform(|db| {
        let table = numbered(db);
        table.invalid(
            "Query",
            query("pk = :p", &json!({":p": {"S": ""}})),
            "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk…",
        );
    });
}

#[test]
fn a_filter_leaves_keys_alone() {
    conform(|db| {
        let table = numbered(db);
        for key in ["pk", "sk"] {
            table.invalid(
                "Query",
                with(query("pk = :p", &json!({":p": {"S": "p"}})), &json!({"FilterExpression": format!("{key} = :p")})),
                &format!("Filter Expression can only contain non-primary key attributes: Primary key attribute: {key}"),
            );
        }
    });
}

#[test]
fn a_limit_is_at_least_one() {
    conform(|db| {
        let table = numbered(db);
        table
            .call("Query", with(query("pk = :p", &json!({":p": {"S": "p"}})), &json!({"Limit": 0})))
            .error("ValidationException", "1 validation error detected: Value …imit' failed to satisfy constraint: Member must have value greater than or equal to 1");
    });
}

#[test]
fn a_start_key_is_a_whole_key() {
    conform(|db| {
        let table = numbered(db);
        let from = |key: Value| {
            with(query("pk = :p", &json!({":p": {"S": "p"}})), &json!({"ExclusiveStartKey": key}))
        };
        table.all_invalid(
            "Query",
            [
                (from(json!({})), "The provided starting key is invalid"),
                (from(json!({"pk": {"S": "p"}})), "The provided starting key is invalid"),
                (from(json!({"pk": {"S": "p"}, "v": {"N": "1"}})), "The provided starting key is invalid…"),
                (from(json!({"pk": {"S": "p"}, "sk": {"S": "1"}})), "The provided starting key is invalid…"),
                (
                    from(json!({"pk": {"S": "p"}, "sk": {"N": "1"}, "v": {"N": "1"}})),
                    "The provided starting key is invalid…",
                ),
            ],
        );
    });
}

#[test]
fn a_start_key_is_within_the_condition() {
    conform(|db| {
        let table = numbered(db);
        let from = |condition: &str, values: Value, key: Value| {
            with(query(condition, &values), &json!({"ExclusiveStartKey": key}))
        };
        table.all_invalid(
            "Query",
            [
                (
                    from(
                        "pk = :p",
                        json!({":p": {"S": "p"}}),
                        json!({"pk": {"S": "other"}, "sk": {"N": "1"}}),
                    ),
                    "The provided starting key is outside query boundaries based on provided conditions",
                ),
                (
                    from(
                        "pk = :p AND sk > :s",
                        json!({":p": {"S": "p"}, ":s": {"N": "3"}}),
                        json!({"pk": {"S": "p"}, "sk": {"N": "1"}}),
                    ),
                    "The provided starting key does not match the range key predicate",
                ),
            ],
        );
    });
}

#[test]
fn a_query_of_one_item_is_not_begun_in_the_middle() {
    conform(|db| {
        let from = |condition: &str, values: Value, key: Value| {
            with(query(condition, &values), &json!({"ExclusiveStartKey": key}))
        };
        let one_row = "The query can return at most one row and cannot be restarted";
        numbered(db).invalid(
            "Query",
            from(
                "pk = :p AND sk = :s",
                json!({":p": {"S": "p"}, ":s": {"N": "1"}}),
                json!({"pk": {"S": "other"}, "sk": {"N": "1"}}),
            ),
            one_row,
        );
        db.table(keys("pk:S")).invalid(
            "Query",
            from("pk = :p", json!({":p": {"S": "p"}}), json!({"pk": {"S": "other"}})),
            "The provided exclusive start key is invalid",
        );
        let table = db.table(keys("pk:S").global_many("many", "g:S h:S", "", "ALL"));
        let mut request = from(
            "g = :g AND h = :h",
            json!({":g": {"S": "g"}, ":h": {"S": "h"}}),
            json!({"pk": {"S": "a"}, "g": {"S": "other"}, "h": {"S": "h"}}),
        );
        request["IndexName"] = "many".into();
        table.invalid("Query", request, one_row);
    });
}

#[test]
fn a_key_condition_is_at_most_four_kilobytes() {
    conform(|db| {
        let table = numbered(db);
        let padded = |bytes: usize| format!("pk = :p{}", " ".repeat(bytes - 7));
        let values = json!({":p": {"S": "p"}});
        table.ok("Query", query(&padded(4096), &values));
        table.invalid(
            "Query",
            query(&padded(4097), &values),
            "Invalid KeyConditionExpression: Expression size has exceeded the maximum allowed size;…",
        );
    });
}

#[test]
fn a_start_key_need_not_exist() {
    conform(|db| {
        let table = numbered(db);
        let base = query("pk = :p", &json!({":p": {"S": "p"}}));
        let request = with(base, &json!({"ExclusiveStartKey": {"pk": {"S": "p"}, "sk": {"N": "2.5"}}}));
        assert_eq!(sorts(&table.ok("Query", request)), ["3", "4", "5"]);
    });
}

#[test]
fn capacity_is_of_all_the_bytes_read_together() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N"));
        table
            .put_all((0..10).map(
                |n| json!({"pk": {"S": "p"}, "sk": {"N": n.to_string()}, "v": {"S": "x".repeat(1000)}}),
            ));
        let units = |consistent: bool| {
            let request = with(
                query("pk = :p", &json!({":p": {"S": "p"}})),
                &json!({"ConsistentRead": consistent, "ReturnConsumedCapacity": "TOTAL"}),
            );
            table.ok("Query", request)["ConsumedCapacity"].clone()
        };
        assert_eq!(units(false), json!({"TableName": table.name(), "CapacityUnits": 1.5}));
        assert_eq!(units(true)["CapacityUnits"], json!(3.0));
    });
}

#[test]
fn an_empty_answer_costs_half_a_unit() {
    conform(|db| {
        let table = numbered(db);
        let request = with(
            query("pk = :p", &json!({":p": {"S": "nobody"}})),
            &json!({"ReturnConsumedCapacity": "TOTAL"}),
        );
        assert_eq!(table.ok("Query", request)["ConsumedCapacity"]["CapacityUnits"], json!(0.5));
    });
}

// Indexes.

fn indexed(db: &Endpoint) -> Table<'_> {
    let table = db.table(
        keys("pk:S sk:N")
            .global("by_g", "g:S r:N", "ALL")
            .global("keys", "g:S", "KEYS_ONLY")
            .global("some", "g:S", "v")
            .local("by_l", "l:S", "KEYS_ONLY"),
    );
    table.put_all((1..=4).map(|n: i32| {
        json!({
            "pk": {"S": "p"}, "sk": {"N": n.to_string()}, "g": {"S": "g"}, "r": {"N": (-n).to_string()},
            "l": {"S": format!("l{}", 9 - n)}, "v": {"N": "1"}, "w": {"N": "2"},
        })
    }));
    table.put(json!({"pk": {"S": "p"}, "sk": {"N": "9"}}));
    table
}

#[test]
fn a_global_index_has_its_own_order() {
    conform(|db| {
        let table = indexed(db);
        let request = with(query("g = :g", &json!({":g": {"S": "g"}})), &json!({"IndexName": "by_g"}));
        assert_eq!(sorts(&table.ok("Query", request)), ["4", "3", "2", "1"]);
        let request = with(
            query("g = :g AND r > :r", &json!({":g": {"S": "g"}, ":r": {"N": "-3"}})),
            &json!({"IndexName": "by_g"}),
        );
        assert_eq!(sorts(&table.ok("Query", request)), ["2", "1"]);
    });
}

#[test]
fn a_local_index_has_its_own_order() {
    conform(|db| {
        let table = indexed(db);
        let request = with(
            query("pk = :p", &json!({":p": {"S": "p"}})),
            &json!({"IndexName": "by_l", "ConsistentRead": true}),
        );
        assert_eq!(sorts(&table.ok("Query", request)), ["4", "3", "2", "1"]);
        let request = with(
            query("pk = :p AND l >= :l", &json!({":p": {"S": "p"}, ":l": {"S": "l7"}})),
            &json!({"IndexName": "by_l"}),
        );
        assert_eq!(sorts(&table.ok("Query", request)), ["2", "1"]);
    });
}

#[test]
fn an_index_holds_only_items_with_its_whole_key() {
    conform(|db| {
        let table = indexed(db);
        table.put(json!({"pk": {"S": "half"}, "sk": {"N": "1"}, "g": {"S": "g"}}));
        let count = |index: &str| {
            table.ok("Query", with(query("g = :g", &json!({":g": {"S": "g"}})), &json!({"IndexName": index})))
                ["Count"]
                .clone()
        };
        assert_eq!(count("by_g"), json!(4));
        assert_eq!(count("keys"), json!(5));
    });
}

#[test]
fn an_index_returns_what_it_projects() {
    conform(|db| {
        let table = indexed(db);
        for (index, expected) in [
            ("by_g", json!(["g", "l", "pk", "r", "sk", "v", "w"])),
            ("keys", json!(["g", "pk", "sk"])),
            ("some", json!(["g", "pk", "sk", "v"])),
        ] {
            let request =
                with(query("g = :g", &json!({":g": {"S": "g"}})), &json!({"IndexName": index, "Limit": 1}));
            let mut names: Vec<String> = table.ok("Query", request)["Items"][0]
                .as_object()
                .expect("an item")
                .keys()
                .cloned()
                .collect();
            names.sort();
            assert_eq!(json!(names), expected, "{index}");
        }
    });
}

#[test]
fn a_local_index_fetches_what_it_does_not_project() {
    conform(|db| {
        let table = indexed(db);
        let base =
            || with(query("pk = :p", &json!({":p": {"S": "p"}})), &json!({"IndexName": "by_l", "Limit": 1}));
        let names = |request: Value| {
            let mut names: Vec<String> = table.ok("Query", request)["Items"][0]
                .as_object()
                .expect("an item")
                .keys()
                .cloned()
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(base()), ["l", "pk", "sk"]);
        assert_eq!(
            names(with(base(), &json!({"Select": "ALL_ATTRIBUTES"}))),
            ["g", "l", "pk", "r", "sk", "v", "w"]
        );
        assert_eq!(names(with(base(), &json!({"ProjectionExpression": "v, sk"}))), ["sk", "v"]);
        assert_eq!(names(with(base(), &json!({"Select": "ALL_PROJECTED_ATTRIBUTES"}))), ["l", "pk", "sk"]);
    });
}

#[test]
fn a_global_index_cannot_fetch_what_it_does_not_project() {
    conform(|db| {
        let table = indexed(db);
        let base =
            |index: &str| with(query("g = :g", &json!({":g": {"S": "g"}})), &json!({"IndexName": index}));
        table.invalid(
            "Query",
            with(base("keys"), &json!({"Select": "ALL_ATTRIBUTES"})),
            "One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not supported for global secondary index keys because its projection type is not ALL",
        );
        table.ok("Query", with(base("by_g"), &json!({"Select": "ALL_ATTRIBUTES"})));
    });
}

#[test]
fn a_projection_of_what_a_global_index_lacks_is_refused() {
    conform(|db| {
        let table = indexed(db);
        let request = with(
            query("g = :g", &json!({":g": {"S": "g"}})),
            &json!({"IndexName": "keys", "ProjectionExpression": "v"}),
        );
        table.invalid(
            "Query",
            request,
            "One or more parameter values were invalid: Global secondary index keys does not project [v]",
        );
    });
}

#[test]
fn a_global_index_is_not_read_consistently() {
    conform(|db| {
        let table = indexed(db);
        let request = with(
            query("g = :g", &json!({":g": {"S": "g"}})),
            &json!({"IndexName": "keys", "ConsistentRead": true}),
        );
        table.invalid("Query", request, "Consistent reads are not supported on global secondary indexes");
    });
}

#[test]
fn an_unknown_index_is_refused() {
    conform(|db| {
        let table = indexed(db);
        let request = with(query("g = :g", &json!({":g": {"S": "g"}})), &json!({"IndexName": "nope"}));
        table.invalid("Query", request, "The table does not have the specified index: nope");
    });
}

#[test]
fn pages_of_an_index_resume_even_among_equal_keys() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_g", "g:S r:N", "KEYS_ONLY"));
        table.put_all(
            (0..10).map(|n| json!({"pk": {"S": format!("k{n}")}, "g": {"S": "g"}, "r": {"N": "1"}})),
        );
        for forward in [true, false] {
            let base = with(
                query("g = :g", &json!({":g": {"S": "g"}})),
                &json!({"IndexName": "by_g", "Limit": 3, "ScanIndexForward": forward}),
            );
            let mut seen: Vec<String> = vec![];
            let mut request = base.clone();
            loop {
                let answer = table.ok("Query", request);
                seen.extend(
                    answer["Items"]
                        .as_array()
                        .expect("items")
                        .iter()
                        .map(|item| item["pk"]["S"].as_str().expect("a key").to_owned()),
                );
                let last = answer["LastEvaluatedKey"].clone();
                if last.is_null() {
                    break;
                }
                assert_eq!(last.as_object().map(serde_json::Map::len), Some(3), "{last}");
                request = with(base.clone(), &json!({"ExclusiveStartKey": last}));
            }
            seen.sort();
            seen.dedup();
            assert_eq!(seen.len(), 10);
        }
    });
}

#[test]
fn a_start_key_of_an_index_has_both_keys() {
    conform(|db| {
        let table = indexed(db);
        let from = |key: Value| {
            with(
                query("g = :g", &json!({":g": {"S": "g"}})),
                &json!({"IndexName": "by_g", "ExclusiveStartKey": key}),
            )
        };
        table.all_invalid(
            "Query",
            [
                (from(json!({"pk": {"S": "p"}, "sk": {"N": "1"}})), "The provided starting key is invalid"),
                (from(json!({"g": {"S": "g"}, "r": {"N": "1"}})), "The provided starting key is invalid"),
            ],
        );
    });
}

#[test]
fn a_filter_leaves_the_keys_of_the_index_alone() {
    conform(|db| {
        let table = indexed(db);
        let base = |filter: &str| {
            with(
                query("g = :g", &json!({":g": {"S": "g"}})),
                &json!({"IndexName": "by_g", "FilterExpression": filter}),
            )
        };
        table.invalid(
            "Query",
            base("g = :g"),
            "Filter Expression can only contain non-primary key attributes: Primary key attribute: g",
        );
        // The table's own key is an ordinary attribute to the index.
        assert_eq!(table.ok("Query", base("pk <> :g"))["Count"], json!(4));
    });
}

#[test]
fn capacity_of_an_index_is_told_apart() {
    conform(|db| {
        let table = indexed(db);
        let request = with(
            query("g = :g", &json!({":g": {"S": "g"}})),
            &json!({"IndexName": "by_g", "ReturnConsumedCapacity": "INDEXES"}),
        );
        assert_eq!(
            table.ok("Query", request)["ConsumedCapacity"],
            json!({
                "TableName": table.name(),
                "CapacityUnits": 0.5,
                "Table": {"CapacityUnits": 0.0},
                "GlobalSecondaryIndexes": {"by_g": {"CapacityUnits": 0.5}},
            })
        );
    });
}

// Indexes whose keys have many attributes.

fn many(db: &Endpoint) -> Table<'_> {
    let table = db.table(keys("pk:S").global_many("many", "team:S year:N", "kind:S rank:N", "ALL"));
    for (pk, team, year, kind, rank) in [
        ("a", "red", 1, "x", 1),
        ("b", "red", 1, "x", 2),
        ("c", "red", 1, "y", 1),
        ("d", "red", 2, "x", 1),
        ("e", "blue", 1, "x", 1),
    ] {
        table.put(json!({
            "pk": {"S": pk}, "team": {"S": team}, "year": {"N": year.to_string()}, "kind": {"S": kind}, "rank": {"N": rank.to_string()},
        }));
    }
    table.put(json!({"pk": {"S": "sparse"}, "team": {"S": "red"}, "year": {"N": "1"}, "kind": {"S": "x"}}));
    table
}

fn names() -> Value {
    json!({"#team": "team", "#year": "year", "#kind": "kind", "#rank": "rank"})
}

fn many_query(condition: &str, values: &Value) -> Value {
    let names = names();
    let used: serde_json::Map<String, Value> = names
        .as_object()
        .expect("names")
        .iter()
        .filter(|(name, _)| condition.contains(name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    with(query(condition, values), &json!({"IndexName": "many", "ExpressionAttributeNames": used}))
}

fn partitions(answer: &Value) -> Vec<&str> {
    answer["Items"].as_array().expect("items").iter().filter_map(|item| item["pk"]["S"].as_str()).collect()
}

#[test]
fn an_index_key_of_many_attributes_is_narrowed_from_the_left() {
    conform(|db| {
        let table = many(db);
        let base = json!({":t": {"S": "red"}, ":y": {"N": "1"}});
        let x = with(base.clone(), &json!({":k": {"S": "x"}}));
        let r = with(x.clone(), &json!({":r": {"N": "1"}}));
        for (condition, values, expected) in [
            ("#team = :t AND #year = :y", &base, vec!["a", "b", "c"]),
            ("#team = :t AND #year = :y AND #kind = :k", &x, vec!["a", "b"]),
            ("#team = :t AND #year = :y AND #kind > :k", &x, vec!["c"]),
            ("#team = :t AND #year = :y AND #kind = :k AND #rank > :r", &r, vec!["b"]),
        ] {
            assert_eq!(
                partitions(&table.ok("Query", many_query(condition, values))),
                expected,
                "{condition}"
            );
        }
    });
}

#[test]
fn every_partition_attribute_of_an_index_is_required() {
    conform(|db| {
        let table = many(db);
        table
            .call("Query", many_query("#team = :t", &json!({":t": {"S": "red"}})))
            .error("ValidationException", "…");
        table
            .call(
                "Query",
                many_query("#team = :t AND #year > :y", &json!({":t": {"S": "red"}, ":y": {"N": "0"}})),
            )
            .error("ValidationException", "…");
    });
}

#[test]
fn a_sort_attribute_of_an_index_needs_those_before_it() {
    conform(|db| {
        let table = many(db);
        let values = json!({":t": {"S": "red"}, ":y": {"N": "1"}, ":r": {"N": "1"}});
        table
            .call("Query", many_query("#team = :t AND #year = :y AND #rank = :r", &values))
            .error("ValidationException", "…");
        let values = json!({":t": {"S": "red"}, ":y": {"N": "1"}, ":k": {"S": "a"}, ":r": {"N": "1"}});
        table
            .call("Query", many_query("#team = :t AND #year = :y AND #kind > :k AND #rank = :r", &values))
            .error("ValidationException", "…");
    });
}

#[test]
fn pages_of_an_index_of_many_attributes_resume() {
    conform(|db| {
        let table = many(db);
        let base = with(
            many_query("#team = :t AND #year = :y", &json!({":t": {"S": "red"}, ":y": {"N": "1"}})),
            &json!({"Limit": 1}),
        );
        let first = table.ok("Query", base.clone());
        assert_eq!(partitions(&first), ["a"]);
        assert_eq!(
            first["LastEvaluatedKey"],
            json!({"pk": {"S": "a"}, "team": {"S": "red"}, "year": {"N": "1"}, "kind": {"S": "x"}, "rank": {"N": "1"}})
        );
        let second = table.ok("Query", with(base, &json!({"ExclusiveStartKey": first["LastEvaluatedKey"]})));
        assert_eq!(partitions(&second), ["b"]);
    });
}

#[test]
fn an_unknown_table_is_not_found() {
    conform(|db| {
        db.call(
            "Query",
            with(query("pk = :p", &json!({":p": {"S": "p"}})), &json!({"TableName": "no.such.table"})),
        )
        .error("ResourceNotFoundException", "Requested resource not found");
    });
}

#[test]
fn every_key_type_is_a_partition_key() {
    conform(|db| {
        for (kind, value, other) in [("S", "a", "b"), ("N", "1.5", "2"), ("B", "AQ==", "Ag==")] {
            let table =
                db.table(keys(&format!("pk:{kind} sk:S")).global("by_g", &format!("g:{kind}"), "ALL"));
            for key in [value, other] {
                table.put(json!({"pk": {kind: key}, "sk": {"S": "x"}, "g": {kind: key}}));
            }
            let on_table = query("pk = :p", &json!({":p": {kind: value}}));
            assert_eq!(table.ok("Query", on_table)["Count"], json!(1));
            let on_index =
                with(query("g = :p", &json!({":p": {kind: value}})), &json!({"IndexName": "by_g"}));
            assert_eq!(table.ok("Query", on_index)["Count"], json!(1));
        }
    });
}

#[test]
fn pages_of_a_local_index_resume() {
    conform(|db| {
        let table = indexed(db);
        let base =
            with(query("pk = :p", &json!({":p": {"S": "p"}})), &json!({"IndexName": "by_l", "Limit": 3}));
        let first = table.ok("Query", base.clone());
        assert_eq!(first["LastEvaluatedKey"], json!({"pk": {"S": "p"}, "sk": {"N": "2"}, "l": {"S": "l7"}}));
        let second = table.ok("Query", with(base, &json!({"ExclusiveStartKey": first["LastEvaluatedKey"]})));
        assert_eq!(sorts(&second), ["1"]);
    });
}

#[test]
fn a_filter_may_reach_into_items() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N"));
        table.put(json!({"pk": {"S": "p"}, "sk": {"N": "1"}, "m": {"M": {"l": {"L": [{"S": "x"}]}}}}));
        table.put(json!({"pk": {"S": "p"}, "sk": {"N": "2"}, "m": {"M": {"l": {"L": [{"S": "y"}]}}}}));
        let request = with(
            query("pk = :p", &json!({":p": {"S": "p"}, ":v": {"S": "y"}})),
            &json!({"FilterExpression": "m.l[0] = :v"}),
        );
        assert_eq!(sorts(&table.ok("Query", request)), ["2"]);
    });
}

#[test]
fn a_count_is_of_what_the_filter_keeps() {
    conform(|db| {
        let table = numbered(db);
        let request = with(
            query("pk = :p", &json!({":p": {"S": "p"}, ":v": {"N": "30"}})),
            &json!({"Select": "COUNT", "FilterExpression": "v > :v"}),
        );
        assert_eq!(table.ok("Query", request), json!({"Count": 2, "ScannedCount": 5}));
    });
}

#[test]
fn a_key_may_stand_on_the_right() {
    conform(|db| {
        let table = numbered(db);
        let request = query(":p = pk AND :s < sk", &json!({":p": {"S": "p"}, ":s": {"N": "3"}}));
        assert_eq!(sorts(&table.ok("Query", request)), ["4", "5"]);
    });
}

#[test]
fn an_index_may_turn_the_tables_key_around() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:S").global("turned", "sk:S pk:S", "ALL"));
        for (pk, sk) in [("user1", "group1"), ("user2", "group1"), ("user1", "group2")] {
            table.put(json!({"pk": {"S": pk}, "sk": {"S": sk}}));
        }
        let base = with(
            query("sk = :g", &json!({":g": {"S": "group1"}})),
            &json!({"IndexName": "turned", "Limit": 1}),
        );
        let first = table.ok("Query", base.clone());
        assert_eq!(partitions(&first), ["user1"]);
        assert_eq!(first["LastEvaluatedKey"], json!({"pk": {"S": "user1"}, "sk": {"S": "group1"}}));
        let second = table.ok("Query", with(base, &json!({"ExclusiveStartKey": first["LastEvaluatedKey"]})));
        assert_eq!(partitions(&second), ["user2"]);
    });
}

#[test]
fn a_range_is_paged_backwards() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:S"));
        table
            .put_all(["a1", "b1", "b2", "b3", "b4", "c1"].map(|s| json!({"pk": {"S": "p"}, "sk": {"S": s}})));
        let base = with(
            query("pk = :p AND begins_with(sk, :s)", &json!({":p": {"S": "p"}, ":s": {"S": "b"}})),
            &json!({"ScanIndexForward": false, "Limit": 3}),
        );
        let first = table.ok("Query", base.clone());
        assert_eq!(sorts(&first), ["b4", "b3", "b2"]);
        let second = table.ok("Query", with(base, &json!({"ExclusiveStartKey": first["LastEvaluatedKey"]})));
        assert_eq!(sorts(&second), ["b1"]);
        assert!(second["LastEvaluatedKey"].is_null());
    });
}

#[test]
fn names_to_get_are_not_none() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let equals = json!({"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "p"}]});
        table.invalid(
            "Query",
            json!({"KeyConditions": {"pk": equals}, "AttributesToGet": []}),
            "1 validation error detected: Value '[]' at 'attributesToGet' failed to satisfy constraint: Member must have length greater than or equal to 1",
        );
    });
}
