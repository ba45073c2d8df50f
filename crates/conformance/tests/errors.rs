//! Requests that are wrong in shape, and which of several errors comes first: shape, then constraints, then
//! expressions, then the table, then the key, then the condition.

use larder_conformance::{conform, keys};
use serde_json::json;

fn null(member: &str) -> String {
    format!("Value null at '{member}' failed to satisfy constraint: Member must not be null")
}

#[test]
fn a_member_of_the_wrong_shape_is_named_as_the_service_reads_it() {
    conform(|db| {
        for (operation, body, message) in [
            ("GetItem", json!({"TableName": 1}), "NUMBER_VALUE cannot be converted to String"),
            ("GetItem", json!({"TableName": 1.5}), "DECIMAL_VALUE cannot be converted to String"),
            ("GetItem", json!({"TableName": true}), "TRUE_VALUE cannot be converted to String"),
            ("GetItem", json!({"TableName": false}), "FALSE_VALUE cannot be converted to String"),
            ("GetItem", json!({"TableName": []}), "Unrecognized collection type class java.lang.String"),
            ("GetItem", json!({"TableName": {}}), "Start of structure or map found where not expected"),
            ("GetItem", json!({"ConsistentRead": 1}), "NUMBER_VALUE cannot be converted to Boolean"),
            ("GetItem", json!({"Key": "a"}), "Unexpected field type"),
            (
                "GetItem",
                json!({"Key": []}),
                "Unrecognized collection type java.util.Map<java.lang.String, com.amazonaws.dynamodb.v20120810.AttributeValue>",
            ),
            ("GetItem", json!({"Key": {"pk": "a"}}), "Unexpected value type in payload"),
            ("GetItem", json!({"AttributesToGet": "a"}), "Unexpected field type"),
            ("GetItem", json!({"AttributesToGet": [1]}), "NUMBER_VALUE cannot be converted to String"),
            ("Scan", json!({"Limit": "5"}), "STRING_VALUE cannot be converted to Integer"),
            ("Scan", json!({"Limit": true}), "TRUE_VALUE cannot be converted to Integer"),
            ("Scan", json!({"Limit": []}), "Unrecognized collection type class java.lang.Integer"),
            (
                "TransactWriteItems",
                json!({"TransactItems": {}}),
                "Start of structure or map found where not expected",
            ),
            (
                "BatchWriteItem",
                json!({"RequestItems": []}),
                "Unrecognized collection type java.util.Map<java.lang.String, java.util.List<com.amazonaws.dynamodb.v20120810.WriteRequest>>",
            ),
        ] {
            db.call(operation, body).error("SerializationException", message);
        }
    });
}

#[test]
fn a_value_of_the_wrong_shape_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for value in [
            json!({"S": 1}),
            json!({"N": 1}),
            json!({"BOOL": "x"}),
            json!({"L": {}}),
            json!({"L": "x"}),
            json!({"M": []}),
            json!({"SS": "x"}),
            json!({"SS": [1]}),
            json!("text"),
            json!(5),
        ] {
            let answer = table.call("PutItem", json!({"Item": {"pk": {"S": "a"}, "v": value}}));
            assert_eq!(
                (answer.status, answer.code()),
                (400, Some("SerializationException")),
                "{value} {}",
                answer.body
            );
        }
    });
}

#[test]
fn a_value_of_an_unknown_type_is_empty() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.invalid(
            "PutItem",
            json!({"Item": {"pk": {"S": "a"}, "v": {"Z": "x"}}}),
            "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
        );
    });
}

#[test]
fn unknown_members_are_ignored() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.ok("PutItem", json!({"Item": {"pk": {"S": "a"}}, "Unknown": {"anything": [1, 2]}}));
    });
}

#[test]
fn null_members_are_absent() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.ok(
            "PutItem",
            json!({"Item": {"pk": {"S": "a"}}, "ConditionExpression": null, "ReturnValues": null}),
        );
    });
}

#[test]
fn missing_members_are_all_told() {
    conform(|db| {
        for (operation, members) in [
            ("GetItem", ["key", "tableName"]),
            ("PutItem", ["tableName", "item"]),
            ("UpdateItem", ["tableName", "key"]),
            ("DeleteItem", ["tableName", "key"]),
        ] {
            let message = format!("2 validation errors detected: {}; {}", null(members[0]), null(members[1]));
            db.invalid(operation, json!({}), &message);
        }
        for operation in ["Query", "Scan"] {
            db.invalid(operation, json!({}), &format!("1 validation error detected: {}", null("tableName")));
        }
    });
}

#[test]
fn constraints_are_all_told() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.invalid(
            "PutItem",
            json!({"Item": {"pk": {"S": "a"}}, "ReturnConsumedCapacity": "x", "ReturnItemCollectionMetrics": "y"}),
            "2 validation errors detected: Value 'x' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]; Value 'y' at 'returnItemCollectionMetrics' failed to satisfy constraint: Member must satisfy enum value set: [SIZE, NONE]",
        );
    });
}

#[test]
fn table_names_are_constrained_everywhere() {
    conform(|db| {
        let key = json!({"pk": {"S": "a"}});
        for (operation, body) in [
            ("GetItem", json!({"Key": key})),
            ("PutItem", json!({"Item": key})),
            ("DeleteItem", json!({"Key": key})),
            ("UpdateItem", json!({"Key": key})),
            ("Scan", json!({})),
        ] {
            for (name, constraint) in [
                ("ab", "Member must have length greater than or equal to 3"),
                ("a;c", "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"),
            ] {
                let mut body = body.clone();
                body["TableName"] = name.into();
                db.invalid(
                    operation,
                    body,
                    &format!("1 validation error detected: Value '{name}' at 'tableName' failed to satisfy constraint: {constraint}"),
                );
            }
        }
    });
}

#[test]
fn shape_comes_before_constraints() {
    conform(|db| {
        db.call("GetItem", json!({"TableName": "a", "Key": {"pk": {"S": "a"}}, "ConsistentRead": 1}))
            .error("SerializationException", "…");
    });
}

#[test]
fn constraints_come_before_expressions() {
    conform(|db| {
        db.invalid(
            "PutItem",
            json!({"TableName": "ab", "Item": {"pk": {"S": "a"}}, "ConditionExpression": "a ="}),
            "1 validation error detected: Value 'ab' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 3",
        );
    });
}

#[test]
fn expressions_come_before_the_table() {
    conform(|db| {
        for (operation, body) in [
            ("PutItem", json!({"Item": {"pk": {"S": "a"}}, "ConditionExpression": "a ="})),
            ("UpdateItem", json!({"Key": {"pk": {"S": "a"}}, "UpdateExpression": "SET"})),
            ("DeleteItem", json!({"Key": {"pk": {"S": "a"}}, "ConditionExpression": "a ="})),
            ("Scan", json!({"FilterExpression": "a ="})),
            ("Query", json!({"KeyConditionExpression": "a ="})),
        ] {
            let mut body = body;
            body["TableName"] = "no.such.table".into();
            db.call(operation, body).error("ValidationException", "…Syntax error…");
        }
    });
}

#[test]
fn values_come_before_the_table() {
    conform(|db| {
        for value in [json!({}), json!({"S": "a", "N": "1"}), json!({"N": "x"}), json!({"SS": []})] {
            db.call("PutItem", json!({"TableName": "no.such.table", "Item": {"pk": {"S": "a"}, "v": value}}))
                .error("ValidationException", "…");
        }
    });
}

#[test]
fn the_table_comes_before_the_key() {
    conform(|db| {
        db.call(
            "GetItem",
            json!({"TableName": "no.such.table", "Key": {"wrong": {"S": "a"}, "two": {"N": "1"}}}),
        )
        .error("ResourceNotFoundException", "Requested resource not found");
    });
}

#[test]
fn the_key_comes_before_the_condition() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.invalid(
            "DeleteItem",
            json!({"Key": {"wrong": {"S": "a"}}, "ConditionExpression": "attribute_exists(pk)"}),
            "The provided key element does not match the schema",
        );
    });
}

#[test]
fn a_condition_comes_before_what_the_update_cannot_do() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "s": {"S": "x"}}));
        table
            .call(
                "UpdateItem",
                json!({
                    "Key": {"pk": {"S": "a"}}, "UpdateExpression": "SET s = s + :n", "ConditionExpression": "attribute_exists(nothing)",
                    "ExpressionAttributeValues": {":n": {"N": "1"}},
                }),
            )
            .error("ConditionalCheckFailedException", "The conditional request failed");
    });
}

#[test]
fn errors_of_the_service_carry_their_namespace() {
    conform(|db| {
        let answer = db.call("DescribeTable", json!({"TableName": "no.such.table"}));
        assert_eq!(answer.body["__type"], "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException");
        let answer = db.call("Scan", json!({}));
        assert_eq!(answer.body["__type"], "com.amazon.coral.validate#ValidationException");
        let answer = db.call("GetItem", json!({"TableName": 1}));
        assert_eq!(answer.body["__type"], "com.amazon.coral.service#SerializationException");
    });
}
