//! PutItem.

use larder_conformance::{conform, keys};
use serde_json::{Value, json};

#[test]
fn an_item_is_stored_whole() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let item = json!({
            "pk": {"S": "a"},
            "string": {"S": "héllo"},
            "number": {"N": "12.5"},
            "binary": {"B": "AAEC"},
            "true": {"BOOL": true},
            "null": {"NULL": true},
            "list": {"L": [{"S": "x"}, {"N": "1"}, {"L": []}]},
            "map": {"M": {"k": {"M": {}}}},
            "strings": {"SS": ["a", "b"]},
            "numbers": {"NS": ["1"]},
            "binaries": {"BS": ["AQ=="]},
        });
        assert_eq!(table.ok("PutItem", json!({"Item": item})), json!({}));
        assert_eq!(table.get(json!({"pk": {"S": "a"}})), item);
    });
}

#[test]
fn an_item_replaces_the_old_one() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "old": {"N": "1"}}));
        table.put(json!({"pk": {"S": "a"}, "new": {"N": "2"}}));
        assert_eq!(table.get(json!({"pk": {"S": "a"}})), json!({"pk": {"S": "a"}, "new": {"N": "2"}}));
    });
}

#[test]
fn the_old_item_is_returned_when_asked_for() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let request = |n: &str| json!({"Item": {"pk": {"S": "a"}, "n": {"N": n}}, "ReturnValues": "ALL_OLD"});
        assert_eq!(table.ok("PutItem", request("1")), json!({}));
        assert_eq!(
            table.ok("PutItem", request("2")),
            json!({"Attributes": {"pk": {"S": "a"}, "n": {"N": "1"}}})
        );
    });
}

#[test]
fn nothing_but_the_old_item_can_be_returned() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let request = |values: &str| json!({"Item": {"pk": {"S": "a"}}, "ReturnValues": values});
        for values in ["ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"] {
            table.invalid(
                "PutItem",
                request(values),
                "1 validation error detected: ReturnValues can only be ALL_OLD or NONE",
            );
        }
        table.invalid(
            "PutItem",
            request("SOME"),
            "1 validation error detected: …atisfy constraint: Member must satisfy enum value set: […]",
        );
    });
}

#[test]
fn a_failed_condition_keeps_the_old_item() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let put = json!({"Item": {"pk": {"S": "a"}, "n": {"N": "2"}}, "ConditionExpression": "attribute_not_exists(pk)"});
        table.put(json!({"pk": {"S": "a"}, "n": {"N": "1"}}));
        let error = table
            .call("PutItem", put)
            .error("ConditionalCheckFailedException", "The conditional request failed");
        assert!(error["Item"].is_null());
        assert_eq!(table.get(json!({"pk": {"S": "a"}}))["n"], json!({"N": "1"}));
    });
}

#[test]
fn a_condition_sees_no_attributes_of_an_absent_item() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let put = |condition: &str| json!({"Item": {"pk": {"S": "a"}}, "ConditionExpression": condition});
        table
            .call("PutItem", put("attribute_exists(pk)"))
            .error("ConditionalCheckFailedException", "The conditional request failed");
        table.ok("PutItem", put("attribute_not_exists(pk)"));
    });
}

#[test]
fn a_failed_condition_can_return_the_item() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let old = json!({"pk": {"S": "a"}, "n": {"N": "1"}});
        table.put(old.clone());
        let request = |values: &str| {
            json!({
                "Item": {"pk": {"S": "a"}},
                "ConditionExpression": "attribute_not_exists(pk)",
                "ReturnValuesOnConditionCheckFailure": values,
            })
        };
        let error = table
            .call("PutItem", request("ALL_OLD"))
            .error("ConditionalCheckFailedException", "The conditional request failed");
        assert_eq!(error["Item"], old);
        let error = table
            .call("PutItem", request("NONE"))
            .error("ConditionalCheckFailedException", "The conditional request failed");
        assert!(error["Item"].is_null());
        table.invalid(
            "PutItem",
            request("SOME"),
            "1 validation error detected: Value 'SOME' at 'returnValuesOnConditionCheckFailure' failed to satisfy constraint: Member must satisfy enum value set: [ALL_OLD, NONE]",
        );
    });
}

#[test]
fn an_absent_item_has_nothing_to_return_on_a_failed_condition() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let error = table
            .call(
                "PutItem",
                json!({
                    "Item": {"pk": {"S": "a"}},
                    "ConditionExpression": "attribute_exists(pk)",
                    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                }),
            )
            .error("ConditionalCheckFailedException", "The conditional request failed");
        assert!(error["Item"].is_null());
    });
}

#[test]
fn an_item_has_its_key() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N"));
        table.all_invalid(
            "PutItem",
            [
                (
                    json!({"Item": {}}),
                    "One or more parameter values were invalid: Missing the key pk in the item",
                ),
                (
                    json!({"Item": {"sk": {"N": "1"}}}),
                    "One or more parameter values were invalid: Missing the key pk in the item",
                ),
                (
                    json!({"Item": {"pk": {"S": "a"}}}),
                    "One or more parameter values were invalid: Missing the key sk in the item",
                ),
            ],
        );
    });
}

#[test]
fn a_key_is_of_its_type() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N"));
        table.all_invalid(
            "PutItem",
            [
                (
                    json!({"Item": {"pk": {"N": "1"}, "sk": {"N": "1"}}}),
                    "One or more parameter values were invalid: Type mismatch for key pk expected: S actual: N",
                ),
                (
                    json!({"Item": {"pk": {"S": "a"}, "sk": {"S": "1"}}}),
                    "One or more parameter values were invalid: Type mismatch for key sk expected: N actual: S",
                ),
                (
                    json!({"Item": {"pk": {"SS": ["a"]}, "sk": {"N": "1"}}}),
                    "One or more parameter values were invalid: Type mismatch for key pk expected: S actual: SS",
                ),
                (
                    json!({"Item": {"pk": {"NULL": true}, "sk": {"N": "1"}}}),
                    "One or more parameter values were invalid: Type mismatch for key pk expected: S actual: NULL",
                ),
            ],
        );
    });
}

#[test]
fn a_key_is_not_empty() {
    conform(|db| {
        let strings = db.table(keys("pk:S sk:S"));
        strings.all_invalid(
            "PutItem",
            [
                (
                    json!({"Item": {"pk": {"S": ""}, "sk": {"S": "a"}}}),
                    "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk",
                ),
                (
                    json!({"Item": {"pk": {"S": "a"}, "sk": {"S": ""}}}),
                    "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: sk",
                ),
            ],
        );
        let binary = db.table(keys("pk:B"));
        binary.invalid(
            "PutItem",
            json!({"Item": {"pk": {"B": ""}}}),
            "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty binary value. Key: pk",
        );
    });
}

#[test]
fn keys_have_a_longest_length() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:S"));
        let item = |partition: usize, sort: usize| json!({"Item": {"pk": {"S": "p".repeat(partition)}, "sk": {"S": "s".repeat(sort)}}});
        table.ok("PutItem", item(2048, 1024));
        table.invalid(
            "PutItem",
            item(2049, 1),
            "One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes",
        );
        table.invalid(
            "PutItem",
            item(1, 1025),
            "One or more parameter values were invalid: Aggregated size of all range keys has exceeded the size limit of 1024 bytes",
        );
    });
}

#[test]
fn key_lengths_are_in_utf8_bytes() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "é".repeat(1024)}}));
        table.invalid(
            "PutItem",
            json!({"Item": {"pk": {"S": "é".repeat(1024) + "e"}}}),
            "One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes",
        );
    });
}

#[test]
fn values_other_than_keys_may_be_empty() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let item = json!({
            "pk": {"S": "a"}, "s": {"S": ""}, "b": {"B": ""}, "l": {"L": []}, "m": {"M": {}},
            "nested": {"M": {"s": {"S": ""}}}, "ss": {"SS": [""]},
        });
        table.put(item.clone());
        assert_eq!(table.get(json!({"pk": {"S": "a"}})), item);
    });
}

#[test]
fn sets_are_not_empty() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let item = |value: Value| json!({"Item": {"pk": {"S": "a"}, "v": value}});
        table.all_invalid(
            "PutItem",
            [
                (
                    item(json!({"SS": []})),
                    "1 validation error detected: One or more parameter values were invalid: An string set  may not be empty",
                ),
                (
                    item(json!({"NS": []})),
                    "1 validation error detected: One or more parameter values were invalid: An number set  may not be empty",
                ),
                (
                    item(json!({"BS": []})),
                    "1 validation error detected: One or more parameter values were invalid: Binary sets should not be empty",
                ),
                (
                    item(json!({"L": [{"M": {"x": {"SS": []}}}]})),
                    "1 validation error detected: One or more parameter values were invalid: An string set  may not be empty",
                ),
            ],
        );
    });
}

#[test]
fn sets_have_no_duplicates() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let item = |value: Value| json!({"Item": {"pk": {"S": "a"}, "v": value}});
        table.all_invalid(
            "PutItem",
            [
                (item(json!({"SS": ["a", "a"]})), "…Input collection […] contains duplicates."),
                (item(json!({"NS": ["1", "1.0"]})), "…Input collection…contains duplicates…"),
                (item(json!({"BS": ["AQ==", "AQ=="]})), "…Input collection…contains duplicates."),
            ],
        );
    });
}

#[test]
fn a_value_has_exactly_one_type() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let item = |value: Value| json!({"Item": {"pk": {"S": "a"}, "v": value}});
        table.all_invalid(
            "PutItem",
            [
                (
                    item(json!({})),
                    "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
                ),
                (
                    item(json!({"S": "a", "N": "1"})),
                    "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes",
                ),
                (
                    item(json!({"NULL": false})),
                    "1 validation error detected: One or more parameter values were invalid: Null attribute value types must have the value of true",
                ),
            ],
        );
    });
}

#[test]
fn an_item_is_at_most_400_kb() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        // "pk" + "a" is 3 bytes and "v" is 1: the rest is the value.
        let item = |bytes: usize| json!({"Item": {"pk": {"S": "a"}, "v": {"S": "x".repeat(bytes - 4)}}});
        table.ok("PutItem", item(400 * 1024));
        table.invalid("PutItem", item(400 * 1024 + 1), "Item size has exceeded the maximum allowed size");
    });
}

/// The value that fills the item to exactly 400 KB, beside one whose size is asserted.
fn filled(value: &Value, bytes: usize, over: usize) -> Value {
    let used = "pk".len() + "a".len() + "v".len() + bytes + "fill".len();
    json!({"Item": {"pk": {"S": "a"}, "v": value, "fill": {"S": "x".repeat(400 * 1024 - used + over)}}})
}

#[test]
fn item_sizes_are_counted_as_documented() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for (value, bytes) in [
            (json!({"S": "héllo"}), 6),
            (json!({"B": "AAECAw=="}), 4),
            (json!({"BOOL": true}), 1),
            (json!({"NULL": true}), 1),
            (json!({"SS": ["a", "bcd"]}), 4),
            (json!({"BS": ["AQ==", "AQI="]}), 3),
            (json!({"L": []}), 3),
            (json!({"M": {}}), 3),
            (json!({"L": [{"S": "ab"}, {"BOOL": false}]}), 3 + (1 + 2) + (1 + 1)),
            (json!({"M": {"key": {"S": "ab"}}}), 3 + (1 + 3 + 2)),
            (json!({"N": "0"}), 1),
            (json!({"N": "1"}), 2),
            (json!({"N": "12"}), 2),
            (json!({"N": "100"}), 2),
            (json!({"N": "-1"}), 3),
            (json!({"N": "123"}), 3),
        ] {
            let fits = table.call("PutItem", filled(&value, bytes, 0));
            assert!(fits.status == 200, "{value} is more than {bytes} bytes: {}", fits.body);
            let over = table.call("PutItem", filled(&value, bytes, 1));
            assert!(over.status == 400, "{value} is less than {bytes} bytes");
        }
    });
}

#[test]
fn capacity_is_one_unit_a_kilobyte() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let units = |bytes: usize| {
            let item = json!({"pk": {"S": "a"}, "v": {"S": "x".repeat(bytes - 4)}});
            table.ok("PutItem", json!({"Item": item, "ReturnConsumedCapacity": "TOTAL"}))["ConsumedCapacity"]
                .clone()
        };
        assert_eq!(units(10), json!({"TableName": table.name(), "CapacityUnits": 1.0}));
        assert_eq!(units(1024)["CapacityUnits"], json!(1.0));
        assert_eq!(units(1025)["CapacityUnits"], json!(2.0));
        // The larger of the old and the new item counts.
        assert_eq!(units(10)["CapacityUnits"], json!(2.0));
        assert_eq!(units(10)["CapacityUnits"], json!(1.0));
    });
}

#[test]
fn capacity_is_told_per_index() {
    conform(|db| {
        let table =
            db.table(keys("pk:S sk:S").global("by_g", "g:S", "ALL").local("by_l", "l:S", "KEYS_ONLY"));
        let answer = table.ok(
            "PutItem",
            json!({
                "Item": {"pk": {"S": "a"}, "sk": {"S": "b"}, "g": {"S": "g"}, "l": {"S": "l"}},
                "ReturnConsumedCapacity": "INDEXES",
            }),
        );
        assert_eq!(
            answer["ConsumedCapacity"],
            json!({
                "TableName": table.name(),
                "CapacityUnits": 3.0,
                "Table": {"CapacityUnits": 1.0},
                "GlobalSecondaryIndexes": {"by_g": {"CapacityUnits": 1.0}},
                "LocalSecondaryIndexes": {"by_l": {"CapacityUnits": 1.0}},
            })
        );
    });
}

#[test]
fn an_index_without_the_item_costs_nothing() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_g", "g:S", "ALL"));
        let put = |item: Value| {
            table.ok("PutItem", json!({"Item": item, "ReturnConsumedCapacity": "TOTAL"}))["ConsumedCapacity"]
                ["CapacityUnits"]
                .clone()
        };
        assert_eq!(put(json!({"pk": {"S": "a"}})), json!(1.0));
        assert_eq!(put(json!({"pk": {"S": "a"}, "g": {"S": "x"}})), json!(2.0));
        // An entry that moves is deleted and written.
        assert_eq!(put(json!({"pk": {"S": "a"}, "g": {"S": "y"}})), json!(3.0));
        // An entry that stays the same is not written.
        assert_eq!(put(json!({"pk": {"S": "a"}, "g": {"S": "y"}})), json!(1.0));
        assert_eq!(put(json!({"pk": {"S": "a"}})), json!(2.0));
    });
}

#[test]
fn no_capacity_is_told_unasked() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let put = |mode: &str| json!({"Item": {"pk": {"S": "a"}}, "ReturnConsumedCapacity": mode});
        assert_eq!(table.ok("PutItem", put("NONE")), json!({}));
        table.invalid(
            "PutItem",
            put("SOME"),
            "1 validation error detected: Value 'SOME' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]",
        );
    });
}

#[test]
fn collection_metrics_are_told_with_a_local_index() {
    conform(|db| {
        let put = json!({
            "Item": {"pk": {"S": "a"}, "sk": {"S": "b"}},
            "ReturnItemCollectionMetrics": "SIZE",
        });
        let table = db.table(keys("pk:S sk:S").local("by_l", "l:S", "ALL"));
        let metrics = table.ok("PutItem", put.clone())["ItemCollectionMetrics"].clone();
        assert_eq!(metrics["ItemCollectionKey"], json!({"pk": {"S": "a"}}));
        let range = metrics["SizeEstimateRangeGB"].as_array().expect("a range");
        assert_eq!(range.len(), 2);
        assert!(range[0].as_f64() <= range[1].as_f64());

        let plain = db.table(keys("pk:S sk:S"));
        assert_eq!(plain.ok("PutItem", put), json!({}));
    });
}

#[test]
fn an_index_key_of_another_type_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:S").global("by_g", "g:S r:N", "ALL").local("by_l", "l:N", "ALL"));
        let item =
            |name: &str, value: Value| json!({"Item": {"pk": {"S": "a"}, "sk": {"S": "b"}, name: value}});
        table.all_invalid(
            "PutItem",
            [
                (
                    item("g", json!({"N": "1"})),
                    "One or more parameter values were invalid: Type mismatch for Index Key g Expected: S Actual: N IndexName: by_g",
                ),
                (
                    item("r", json!({"S": "1"})),
                    "One or more parameter values were invalid: Type mismatch for Index Key r Expected: N Actual: S IndexName: by_g",
                ),
                (
                    item("l", json!({"S": "1"})),
                    "One or more parameter values were invalid: Type mismatch for Index Key l Expected: N Actual: S IndexName: by_l",
                ),
                (
                    item("g", json!({"NULL": true})),
                    "One or more parameter values were invalid: Type mismatch for Index Key g Expected: S Actual: NULL IndexName: by_g",
                ),
            ],
        );
        assert_eq!(table.ok("Scan", json!({}))["Count"], json!(0));
    });
}

#[test]
fn an_empty_index_key_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_g", "g:S", "ALL").global("by_b", "b:B", "ALL"));
        table.all_invalid(
            "PutItem",
            [
                (
                    json!({"Item": {"pk": {"S": "a"}, "g": {"S": ""}}}),
                    "One or more parameter values are not valid. A value specified for a secondary index key is not supported. The AttributeValue for a key attribute cannot contain an empty string value. IndexName: by_g, IndexKey: g",
                ),
                (
                    json!({"Item": {"pk": {"S": "a"}, "b": {"B": ""}}}),
                    "One or more parameter values are not valid. A value specified for a secondary index key is not supported. The AttributeValue for a key attribute cannot contain an empty binary value. IndexName: by_b, IndexKey: b",
                ),
            ],
        );
    });
}

#[test]
fn a_too_long_index_key_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_g", "g:S r:S", "ALL"));
        table.put(json!({"pk": {"S": "a"}, "g": {"S": "x".repeat(2048)}, "r": {"S": "x".repeat(1024)}}));
        table.all_invalid(
            "PutItem",
            [
                (
                    json!({"Item": {"pk": {"S": "b"}, "g": {"S": "x".repeat(2049)}}}),
                    "One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes…",
                ),
                (
                    json!({"Item": {"pk": {"S": "b"}, "r": {"S": "x".repeat(1025)}}}),
                    "One or more parameter values were invalid: Aggregated size of all range keys has exceeded the size limit of 1024 bytes…",
                ),
            ],
        );
    });
}

#[test]
fn an_item_and_a_table_are_required() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.invalid(
            "PutItem",
            json!({}),
            "1 validation error detected: Value null at 'item' failed to satisfy constraint: Member must not be null",
        );
        db.call("PutItem", json!({"Item": {"pk": {"S": "a"}}})).error("ValidationException", "…");
    });
}

#[test]
fn an_unknown_table_is_not_found() {
    conform(|db| {
        db.call("PutItem", json!({"TableName": "no.such.table", "Item": {"pk": {"S": "a"}}}))
            .error("ResourceNotFoundException", "Requested resource not found");
    });
}

#[test]
fn a_table_may_be_named_by_its_arn() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        db.ok("PutItem", json!({"TableName": table.arn(), "Item": {"pk": {"S": "a"}}}));
        assert_eq!(table.get(json!({"pk": {"S": "a"}})), json!({"pk": {"S": "a"}}));
    });
}

#[test]
fn a_refused_put_changes_nothing() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_g", "g:S", "ALL"));
        table.put(json!({"pk": {"S": "a"}, "g": {"S": "x"}}));
        table
            .call("PutItem", json!({"Item": {"pk": {"S": "a"}, "g": {"N": "1"}}}))
            .error("ValidationException", "…");
        assert_eq!(table.get(json!({"pk": {"S": "a"}})), json!({"pk": {"S": "a"}, "g": {"S": "x"}}));
        assert_eq!(table.ok("Scan", json!({"IndexName": "by_g"}))["Count"], json!(1));
    });
}

#[test]
fn of_many_who_create_an_item_one_succeeds() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let won: usize = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8)
                .map(|n: usize| {
                    let table = &table;
                    scope.spawn(move || {
                        let request = json!({
                            "Item": {"pk": {"S": "lock"}, "owner": {"N": n.to_string()}},
                            "ConditionExpression": "attribute_not_exists(pk)",
                        });
                        usize::from(table.call("PutItem", request).status == 200)
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().expect("a writer ends")).sum()
        });
        assert_eq!(won, 1);
    });
}

#[test]
fn a_lease_is_taken_when_it_has_run_out() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let take = |now: &str, until: &str| {
            json!({
                "Item": {"pk": {"S": "lease"}, "until": {"N": until}},
                "ConditionExpression": "attribute_not_exists(pk) OR #until < :now",
                "ExpressionAttributeNames": {"#until": "until"},
                "ExpressionAttributeValues": {":now": {"N": now}},
            })
        };
        table.ok("PutItem", take("100", "200"));
        table
            .call("PutItem", take("150", "250"))
            .error("ConditionalCheckFailedException", "The conditional request failed");
        table.ok("PutItem", take("201", "300"));
    });
}

#[test]
fn an_attribute_name_has_a_longest_length_wherever_it_stands() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let told = "1 validation error detected: Attribute name is too large, must be less than 65536 bytes";
        let at = |bytes: usize| "a".repeat(bytes);
        table.put(json!({"pk": {"S": "a"}, at(65_535): {"S": "v"}}));
        table.put(json!({"pk": {"S": "a"}, "m": {"M": {at(65_535): {"S": "v"}}}}));
        table.invalid("PutItem", json!({"Item": {"pk": {"S": "a"}, at(65_536): {"S": "v"}}}), told);
        table.invalid(
            "PutItem",
            json!({"Item": {"pk": {"S": "a"}, "m": {"M": {at(65_536): {"S": "v"}}}}}),
            told,
        );
    });
}
