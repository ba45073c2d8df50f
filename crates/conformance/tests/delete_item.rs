//! DeleteItem.

use larder_conformance::{conform, keys};
use serde_json::json;

#[test]
fn a_deleted_item_is_gone() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}}));
        assert_eq!(table.ok("DeleteItem", json!({"Key": {"pk": {"S": "a"}}})), json!({}));
        assert!(table.get(json!({"pk": {"S": "a"}})).is_null());
    });
}

#[test]
fn deleting_what_is_absent_is_no_error() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let request = json!({"Key": {"pk": {"S": "a"}}, "ReturnValues": "ALL_OLD"});
        assert_eq!(table.ok("DeleteItem", request), json!({}));
    });
}

#[test]
fn the_old_item_is_returned_when_asked_for() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "v": {"N": "1"}}));
        let answer = table.ok("DeleteItem", json!({"Key": {"pk": {"S": "a"}}, "ReturnValues": "ALL_OLD"}));
        assert_eq!(answer, json!({"Attributes": {"pk": {"S": "a"}, "v": {"N": "1"}}}));
    });
}

#[test]
fn nothing_but_the_old_item_can_be_returned() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for values in ["ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"] {
            table.invalid(
                "DeleteItem",
                json!({"Key": {"pk": {"S": "a"}}, "ReturnValues": values}),
                "1 validation error detected: ReturnValues can only be ALL_OLD or NONE",
            );
        }
    });
}

#[test]
fn a_failed_condition_keeps_the_item_and_can_return_it() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let item = json!({"pk": {"S": "a"}, "v": {"N": "1"}});
        table.put(item.clone());
        let error = table
            .call(
                "DeleteItem",
                json!({
                    "Key": {"pk": {"S": "a"}},
                    "ConditionExpression": "v > :v",
                    "ExpressionAttributeValues": {":v": {"N": "5"}},
                    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                }),
            )
            .error("ConditionalCheckFailedException", "The conditional request failed");
        assert_eq!(error["Item"], item);
        assert_eq!(table.get(json!({"pk": {"S": "a"}})), item);
    });
}

#[test]
fn a_condition_on_an_absent_item_fails() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table
            .call(
                "DeleteItem",
                json!({"Key": {"pk": {"S": "a"}}, "ConditionExpression": "attribute_exists(pk)"}),
            )
            .error("ConditionalCheckFailedException", "The conditional request failed");
    });
}

#[test]
fn the_item_leaves_every_index() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:S").global("by_g", "g:S", "ALL").local("by_l", "l:S", "ALL"));
        table.put(json!({"pk": {"S": "a"}, "sk": {"S": "b"}, "g": {"S": "g"}, "l": {"S": "l"}}));
        table.ok("DeleteItem", json!({"Key": {"pk": {"S": "a"}, "sk": {"S": "b"}}}));
        assert_eq!(table.ok("Scan", json!({"IndexName": "by_g"}))["Count"], json!(0));
        assert_eq!(table.ok("Scan", json!({"IndexName": "by_l"}))["Count"], json!(0));
    });
}

#[test]
fn capacity_is_of_the_deleted_item_and_its_entries() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_g", "g:S", "KEYS_ONLY"));
        table.put(json!({"pk": {"S": "a"}, "g": {"S": "g"}, "v": {"S": "x".repeat(3000)}}));
        let request = json!({"Key": {"pk": {"S": "a"}}, "ReturnConsumedCapacity": "INDEXES"});
        assert_eq!(
            table.ok("DeleteItem", request.clone())["ConsumedCapacity"],
            json!({
                "TableName": table.name(),
                "CapacityUnits": 4.0,
                "Table": {"CapacityUnits": 3.0},
                "GlobalSecondaryIndexes": {"by_g": {"CapacityUnits": 1.0}},
            })
        );
        assert_eq!(table.ok("DeleteItem", request)["ConsumedCapacity"]["CapacityUnits"], json!(1.0));
    });
}

#[test]
fn a_key_is_exactly_the_tables() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.all_invalid(
            "DeleteItem",
            [
                (json!({"Key": {}}), "The provided key element does not match the schema"),
                (json!({"Key": {"pk": {"S": "a"}, "v": {"N": "1"}}}), "The provided key element does not match the schema"),
                (
                    json!({"Key": {"pk": {"S": ""}}}),
                    "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk",
                ),
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
        db.call("DeleteItem", json!({"TableName": "no.such.table", "Key": {"pk": {"S": "a"}}}))
            .error("ResourceNotFoundException", "Requested resource not found");
    });
}
