//! UpdateTable: capacity, billing, protection, and indexes that come and go on a table with items.

use larder_conformance::{Table, conform, keys, wait_until};
use serde_json::{Value, json};

fn create_index(name: &str, key: &str) -> Value {
    json!({
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"}],
        "GlobalSecondaryIndexUpdates": [{"Create": {
            "IndexName": name,
            "KeySchema": [{"AttributeName": key, "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "ALL"},
            "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1},
        }}],
    })
}

fn create_index_on_composite(name: &str, key: &str) -> Value {
    let mut request = create_index(name, key);
    let definitions = request["AttributeDefinitions"].as_array_mut().expect("definitions");
    definitions.push(json!({"AttributeName": "pk", "AttributeType": "S"}));
    request
}

/// The partition keys of the items in the index, in order.
fn indexed(table: &Table<'_>, index: &str) -> Vec<String> {
    let scanned = table.ok("Scan", json!({"IndexName": index}));
    let mut keys: Vec<String> = scanned["Items"]
        .as_array()
        .expect("items")
        .iter()
        .filter_map(|item| item["pk"]["S"].as_str())
        .map(str::to_owned)
        .collect();
    keys.sort();
    keys
}

#[test]
fn something_must_change() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.invalid(
            "UpdateTable",
            json!({}),
            "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates…is required",
        );
    });
}

#[test]
fn capacity_is_changed() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.ok(
            "UpdateTable",
            json!({"ProvisionedThroughput": {"ReadCapacityUnits": 7, "WriteCapacityUnits": 8}}),
        );
        table.wait_until_active();
        let throughput = &table.describe()["ProvisionedThroughput"];
        assert_eq!(throughput["ReadCapacityUnits"], json!(7));
        assert_eq!(throughput["WriteCapacityUnits"], json!(8));
    });
}

#[test]
fn capacity_that_stays_the_same_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.invalid(
            "UpdateTable",
            json!({"ProvisionedThroughput": {"ReadCapacityUnits": 100, "WriteCapacityUnits": 100}}),
            "The provisioned throughput for the table will not change. The requested value equals the current value. Current ReadCapacityUnits provisioned for the table: 100. Requested ReadCapacityUnits: 100. Current WriteCapacityUnits provisioned for the table: 100. Requested WriteCapacityUnits: 100. Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits.",
        );
    });
}

#[test]
fn billing_changes_both_ways() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.ok("UpdateTable", json!({"BillingMode": "PAY_PER_REQUEST"}));
        table.wait_until_active();
        assert_eq!(table.describe()["BillingModeSummary"]["BillingMode"], "PAY_PER_REQUEST");
        table.ok(
            "UpdateTable",
            json!({"BillingMode": "PROVISIONED", "ProvisionedThroughput": {"ReadCapacityUnits": 3, "WriteCapacityUnits": 4}}),
        );
        table.wait_until_active();
        assert_eq!(table.describe()["ProvisionedThroughput"]["ReadCapacityUnits"], json!(3));
    });
}

#[test]
fn provisioned_billing_needs_capacity() {
    conform(|db| {
        let mut request =
            keys("pk:S").with("BillingMode", json!("PAY_PER_REQUEST")).request(&db.unused_name());
        request.as_object_mut().expect("a request is an object").remove("ProvisionedThroughput");
        let table = db.table_from(request);
        table.invalid(
            "UpdateTable",
            json!({"BillingMode": "PROVISIONED"}),
            "One or more parameter values were invalid: ProvisionedThroughput must be specified when BillingMode is PROVISIONED",
        );
    });
}

#[test]
fn deletion_protection_is_changed() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let answer = table.ok("UpdateTable", json!({"DeletionProtectionEnabled": true}));
        assert_eq!(answer["TableDescription"]["DeletionProtectionEnabled"], json!(true));
        table.ok("UpdateTable", json!({"DeletionProtectionEnabled": false}));
        assert_eq!(table.describe()["DeletionProtectionEnabled"], json!(false));
    });
}

#[test]
fn a_stream_is_enabled_and_disabled() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.ok(
            "UpdateTable",
            json!({"StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_IMAGE"}}),
        );
        table.wait_until_active();
        assert_eq!(table.describe()["StreamSpecification"]["StreamViewType"], "NEW_IMAGE");
        table.ok("UpdateTable", json!({"StreamSpecification": {"StreamEnabled": false}}));
        table.wait_until_active();
        assert!(table.describe()["StreamSpecification"].is_null());
    });
}

#[test]
fn a_new_index_holds_the_items_that_were_there() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for n in 0..30 {
            table.put(json!({"pk": {"S": format!("{n:02}")}, "g": {"S": "x"}}));
        }
        let answer = table.ok("UpdateTable", create_index("by_g", "g"));
        let description = &answer["TableDescription"]["GlobalSecondaryIndexes"][0];
        assert_eq!(description["IndexName"], "by_g");
        table.wait_until_active();
        let found = table.ok(
            "Query",
            json!({"IndexName": "by_g", "KeyConditionExpression": "g = :g", "ExpressionAttributeValues": {":g": {"S": "x"}}}),
        );
        assert_eq!(found["Count"], json!(30));
    });
}

#[test]
fn backfill_skips_items_without_the_key_or_with_a_key_of_another_type() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "good"}, "g": {"S": "x"}}));
        table.put(json!({"pk": {"S": "missing"}}));
        table.put(json!({"pk": {"S": "number"}, "g": {"N": "1"}}));
        table.put(json!({"pk": {"S": "map"}, "g": {"M": {}}}));
        table.ok("UpdateTable", create_index("by_g", "g"));
        table.wait_until_active();
        assert_eq!(indexed(&table, "by_g"), ["good"]);
        assert_eq!(table.ok("Scan", json!({}))["Count"], json!(4));
    });
}

#[test]
fn backfill_skips_items_whose_key_is_empty_or_too_long() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "good"}, "g": {"S": "x".repeat(2048)}}));
        table.put(json!({"pk": {"S": "empty"}, "g": {"S": ""}}));
        table.put(json!({"pk": {"S": "long"}, "g": {"S": "x".repeat(2049)}}));
        table.ok("UpdateTable", create_index("by_g", "g"));
        table.wait_until_active();
        assert_eq!(indexed(&table, "by_g"), ["good"]);
    });
}

#[test]
fn a_new_index_guards_writes_at_once() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.ok("UpdateTable", create_index("by_g", "g"));
        table.wait_until_active();
        table.invalid(
            "PutItem",
            json!({"Item": {"pk": {"S": "a"}, "g": {"N": "1"}}}),
            "One or more parameter values were invalid: Type mismatch for Index Key g Expected: S Actual: N IndexName: by_g",
        );
    });
}

#[test]
fn an_index_is_removed() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_g", "g:S", "ALL"));
        table.put(json!({"pk": {"S": "a"}, "g": {"S": "x"}}));
        table.ok("UpdateTable", json!({"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "by_g"}}]}));
        wait_until("the index is gone", || table.describe()["GlobalSecondaryIndexes"].is_null());
        table.invalid(
            "Scan",
            json!({"IndexName": "by_g"}),
            "The table does not have the specified index: by_g",
        );
        assert_eq!(table.ok("Scan", json!({}))["Count"], json!(1));
        // The attribute is free again: any type may be written.
        table.put(json!({"pk": {"S": "a"}, "g": {"N": "1"}}));
    });
}

#[test]
fn an_unknown_index_cannot_be_removed() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table
            .call("UpdateTable", json!({"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "nope"}}]}))
            .error("ResourceNotFoundException", "Requested resource not found…");
    });
}

#[test]
fn an_index_that_exists_cannot_be_created() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_g", "g:S", "ALL"));
        table
            .call("UpdateTable", create_index("by_g", "g"))
            .error("ValidationException", "Attempting to create an index which already exists");
    });
}

#[test]
fn one_index_is_created_at_a_time() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let mut request = create_index("by_a", "a");
        let second = create_index("by_b", "b");
        request["AttributeDefinitions"]
            .as_array_mut()
            .expect("definitions")
            .push(second["AttributeDefinitions"][0].clone());
        request["GlobalSecondaryIndexUpdates"]
            .as_array_mut()
            .expect("updates")
            .push(second["GlobalSecondaryIndexUpdates"][0].clone());
        table.call("UpdateTable", request).error(
            "LimitExceededException",
            "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table",
        );
    });
}

#[test]
fn an_index_key_must_be_defined() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let mut request = create_index("by_g", "g");
        request["AttributeDefinitions"] = json!([{"AttributeName": "pk", "AttributeType": "S"}]);
        table.call("UpdateTable", request).error(
            "ValidationException",
            "One or more parameter values were invalid: Some index key attributes are not defined in AttributeDefinitions. Keys: […], AttributeDefinitions: […]",
        );
    });
}

#[test]
fn an_update_names_one_action() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.invalid(
            "UpdateTable",
            json!({"GlobalSecondaryIndexUpdates": [{}]}),
            "One or more parameter values were invalid: One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, GlobalSecondaryIndexUpdate.Delete must not be null",
        );
    });
}

#[test]
fn the_new_definition_is_described() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.ok("UpdateTable", create_index_on_composite("by_g", "g"));
        table.wait_until_active();
        let mut names: Vec<String> = table.describe()["AttributeDefinitions"]
            .as_array()
            .expect("definitions")
            .iter()
            .filter_map(|definition| definition["AttributeName"].as_str())
            .map(str::to_owned)
            .collect();
        names.sort();
        assert_eq!(names, ["g", "pk"]);
    });
}

#[test]
fn an_unknown_table_is_not_found() {
    conform(|db| {
        db.call("UpdateTable", json!({"TableName": "no.such.table", "DeletionProtectionEnabled": true}))
            .error(
                "ResourceNotFoundException",
                "Requested resource not found: Table: no.such.table not found",
            );
    });
}

#[test]
fn capacity_of_an_index_is_changed() {
    conform(|db| {
        let table = db.table(keys("pk:S").global("by_g", "g:S", "ALL"));
        table.ok(
            "UpdateTable",
            json!({"GlobalSecondaryIndexUpdates": [{"Update": {
                "IndexName": "by_g", "ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 6}}}]}),
        );
        table.wait_until_active();
        let throughput = &table.describe()["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"];
        assert_eq!(
            (&throughput["ReadCapacityUnits"], &throughput["WriteCapacityUnits"]),
            (&json!(5), &json!(6))
        );
    });
}

#[test]
fn a_new_index_may_have_many_key_attributes() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "g": {"S": "x"}, "h": {"S": "y"}}));
        table.put(json!({"pk": {"S": "half"}, "g": {"S": "x"}}));
        let mut request = create_index("many", "g");
        request["AttributeDefinitions"] = json!([{"AttributeName": "g", "AttributeType": "S"}, {"AttributeName": "h", "AttributeType": "S"}]);
        request["GlobalSecondaryIndexUpdates"][0]["Create"]["KeySchema"] =
            json!([{"AttributeName": "g", "KeyType": "HASH"}, {"AttributeName": "h", "KeyType": "HASH"}]);
        table.ok("UpdateTable", request);
        table.wait_until_active();
        assert_eq!(indexed(&table, "many"), ["a"]);
    });
}

#[test]
fn an_attribute_of_a_key_is_not_redefined() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N"));
        let create = |definitions: Value, key: &str| {
            let index = json!({
                "IndexName": "by_key",
                "KeySchema": [{"AttributeName": key, "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
                "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1},
            });
            json!({"AttributeDefinitions": definitions, "GlobalSecondaryIndexUpdates": [{"Create": index}]})
        };
        table.invalid(
            "UpdateTable",
            create(json!([{"AttributeName": "sk", "AttributeType": "S"}]), "sk"),
            "One or more parameter values were invalid: Attributes cannot be redefined. Please check that your attribute has the same type as previously defined. Existing schema: Schema:[SchemaElement: key{pk:S:HASH}, SchemaElement: key{sk:N:RANGE}] New schema: Schema:[SchemaElement: key{sk:S:HASH}]",
        );
        table.ok("UpdateTable", create(json!([{"AttributeName": "sk", "AttributeType": "N"}]), "sk"));
    });
}

#[test]
fn names_of_a_new_index_have_a_longest_length() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let request = |key: usize, held: usize| {
            let mut request = create_index("by_key", &"k".repeat(key));
            let projection = json!({"ProjectionType": "INCLUDE", "NonKeyAttributes": ["h".repeat(held)]});
            request["GlobalSecondaryIndexUpdates"][0]["Create"]["Projection"] = projection;
            request
        };
        let path = "globalSecondaryIndexUpdates.1.member.create";
        for member in [
            &format!("{path}.keySchema.1.member.attributeName"),
            "attributeDefinitions.1.member.attributeName",
        ] {
            let told = format!(
                "…Value '…' at '{member}' failed to satisfy constraint: Member must have length less than or equal to 255…"
            );
            table.invalid("UpdateTable", request(256, 1), &told);
        }
        table.invalid(
            "UpdateTable",
            request(255, 256),
            &format!("1 validation error detected: Value '[…]' at '{path}.projection.nonKeyAttributes' failed to satisfy constraint: Member must satisfy constraint: [Member must have length less than or equal to 255, Member must have length greater than or equal to 1]"),
        );
        table.ok("UpdateTable", request(255, 255));
    });
}
