//! CreateTable: what it refuses, in which words and which order, and what it describes.

use larder_conformance::{Endpoint, conform, keys};
use serde_json::{Value, json};

/// A request that is accepted, for tests to spoil: partition key `pk`, no index.
fn request(db: &Endpoint) -> Value {
    keys("pk:S").request(&db.unused_name())
}

fn with(db: &Endpoint, changes: &Value) -> Value {
    let mut request = request(db);
    for (member, value) in changes.as_object().expect("changes are an object") {
        if value.is_null() {
            request.as_object_mut().expect("a request is an object").remove(member);
        } else {
            request[member] = value.clone();
        }
    }
    request
}

#[track_caller]
fn all_invalid(db: &Endpoint, cases: &[(Value, &str)]) {
    db.all_invalid("CreateTable", cases.iter().map(|(changes, message)| (with(db, changes), *message)));
}

fn global(name: &str, key: &Value, projection: &Value) -> Value {
    json!({"IndexName": name, "KeySchema": key, "Projection": projection,
           "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}})
}

#[test]
fn a_new_table_is_described() {
    conform(|db| {
        let name = db.unused_name();
        let described = db.ok("CreateTable", keys("pk:S sk:N").request(&name))["TableDescription"].clone();
        let _table = db.adopt(&name);
        assert_eq!(described["TableName"], json!(name));
        assert!(described["TableStatus"] == "CREATING" || described["TableStatus"] == "ACTIVE");
        assert_eq!(
            described["KeySchema"],
            json!([{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}])
        );
        assert_eq!(described["ItemCount"], json!(0));
        assert_eq!(described["TableSizeBytes"], json!(0));
        assert_eq!(described["ProvisionedThroughput"]["ReadCapacityUnits"], json!(100));
        assert_eq!(described["ProvisionedThroughput"]["NumberOfDecreasesToday"], json!(0));
        assert!(described["CreationDateTime"].is_number());
        let arn = described["TableArn"].as_str().expect("an ARN");
        assert!(arn.starts_with("arn:aws:dynamodb:") && arn.ends_with(&format!(":table/{name}")), "{arn}");
    });
}

#[test]
fn a_new_table_has_an_id_and_deletion_protection_off() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let described = table.describe();
        assert_eq!(described["TableId"].as_str().map(str::len), Some(36));
        assert_eq!(described["DeletionProtectionEnabled"], json!(false));
    });
}

#[test]
fn a_taken_name_is_in_use() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        db.call("CreateTable", keys("pk:S").request(table.name()))
            .error("ResourceInUseException", &format!("Table already exists: {}", table.name()));
    });
}

#[test]
fn a_name_is_three_to_255_characters() {
    conform(|db| {
        let long = "a".repeat(256);
        let too_long = format!(
            "1 validation error detected: Value '{long}' at 'tableName' failed to satisfy constraint: Member must have length less than or equal to 255"
        );
        all_invalid(
            db,
            &[
                (
                    json!({"TableName": "ab"}),
                    "1 validation error detected: Value 'ab' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 3",
                ),
                (json!({"TableName": long}), &too_long),
            ],
        );
        let longest = "a".repeat(255);
        db.ok("CreateTable", with(db, &json!({"TableName": longest})));
        let _table = db.adopt(&longest);
    });
}

#[test]
fn a_name_is_of_certain_characters() {
    conform(|db| {
        all_invalid(
            db,
            &[(
                json!({"TableName": "abc;"}),
                "1 validation error detected: Value 'abc;' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+",
            )],
        );
    });
}

#[test]
fn a_name_is_required() {
    conform(|db| {
        all_invalid(
            db,
            &[(
                json!({"TableName": null}),
                "The parameter 'TableName' is required but was not present in the request",
            )],
        );
    });
}

#[test]
fn a_key_schema_is_required() {
    conform(|db| {
        all_invalid(
            db,
            &[
                (
                    json!({"KeySchema": null}),
                    "1 validation error detected: Value null at 'keySchema' failed to satisfy constraint: Member must not be null",
                ),
                (
                    json!({"KeySchema": []}),
                    "1 validation error detected: Value '[]' at 'keySchema' failed to satisfy constraint: Member must have length greater than or equal to 1",
                ),
                (
                    json!({"AttributeDefinitions": null}),
                    "1 validation error detected: Value null at 'attributeDefinitions' failed to satisfy constraint: Member must not be null",
                ),
            ],
        );
    });
}

#[test]
fn a_key_schema_has_at_most_two_attributes() {
    conform(|db| {
        all_invalid(
            db,
            &[(
                json!({"KeySchema": [
                    {"AttributeName": "a", "KeyType": "HASH"},
                    {"AttributeName": "b", "KeyType": "RANGE"},
                    {"AttributeName": "c", "KeyType": "RANGE"},
                ]}),
                "1 validation error detected: Value '[KeySchemaElement(attributeName=a, keyType=HASH), KeySchemaElement(attributeName=b, keyType=RANGE), KeySchemaElement(attributeName=c, keyType=RANGE)]' at 'keySchema' failed to satisfy constraint: Member must have length less than or equal to 2",
            )],
        );
    });
}

#[test]
fn key_schema_members_are_constrained() {
    conform(|db| {
        all_invalid(
            db,
            &[
                (
                    json!({"KeySchema": [{"AttributeName": "pk", "KeyType": "hash"}]}),
                    "1 validation error detected: Value 'hash' at 'keySchema.1.member.keyType' failed to satisfy constraint: Member must satisfy enum value set: [HASH, RANGE]",
                ),
                (
                    json!({"KeySchema": [{"AttributeName": "pk"}]}),
                    "1 validation error detected: Value null at 'keySchema.1.member.keyType' failed to satisfy constraint: Member must not be null",
                ),
                (
                    json!({"AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "BOOL"}]}),
                    "1 validation error detected: Value 'BOOL' at 'attributeDefinitions.1.member.attributeType' failed to satisfy constraint: Member must satisfy enum value set: [B, N, S]",
                ),
            ],
        );
    });
}

#[test]
fn constraint_errors_are_counted_together() {
    conform(|db| {
        all_invalid(
            db,
            &[(
                json!({
                    "KeySchema": [{"AttributeName": "pk", "KeyType": "X"}],
                    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "Y"}],
                }),
                "2 validation errors detected: …; …",
            )],
        );
    });
}

#[test]
fn the_first_key_is_the_partition_key() {
    conform(|db| {
        all_invalid(
            db,
            &[
                (
                    json!({"KeySchema": [{"AttributeName": "pk", "KeyType": "RANGE"}]}),
                    "Invalid KeySchema: The first KeySchemaElement is not a HASH key type",
                ),
                (
                    json!({
                        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "HASH"}],
                        "AttributeDefinitions": [
                            {"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "sk", "AttributeType": "S"}],
                    }),
                    "Invalid KeySchema: The second KeySchemaElement is not a RANGE key type",
                ),
            ],
        );
    });
}

#[test]
fn both_keys_cannot_be_one_attribute() {
    conform(|db| {
        all_invalid(
            db,
            &[(
                json!({"KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "pk", "KeyType": "RANGE"}]}),
                "Invalid KeySchema: Some index key attribute have no definition",
            )],
        );
    });
}

#[test]
fn keys_are_defined_attributes() {
    conform(|db| {
        all_invalid(
            db,
            &[(
                json!({"AttributeDefinitions": [{"AttributeName": "other", "AttributeType": "S"}]}),
                "One or more parameter values were invalid: Some index key attributes are not defined in AttributeDefinitions. Keys: [pk], AttributeDefinitions: [other]",
            )],
        );
    });
}

#[test]
fn unused_definitions_are_refused() {
    conform(|db| {
        all_invalid(
            db,
            &[(
                json!({"AttributeDefinitions": [
                    {"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "other", "AttributeType": "S"}]}),
                "One or more parameter values were invalid: Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions",
            )],
        );
    });
}

#[test]
fn unused_definitions_are_named_when_there_are_indexes() {
    conform(|db| {
        all_invalid(
            db,
            &[(
                json!({
                    "AttributeDefinitions": [
                        {"AttributeName": "pk", "AttributeType": "S"},
                        {"AttributeName": "g", "AttributeType": "S"},
                        {"AttributeName": "other", "AttributeType": "S"},
                    ],
                    "GlobalSecondaryIndexes": [
                        global("by_g", &json!([{"AttributeName": "g", "KeyType": "HASH"}]), &json!({"ProjectionType": "ALL"}))],
                }),
                "One or more parameter values were invalid: Some AttributeDefinitions are not used. AttributeDefinitions: […], keys used: […]",
            )],
        );
    });
}

#[test]
fn an_attribute_is_defined_once() {
    conform(|db| {
        all_invalid(
            db,
            &[(
                json!({"AttributeDefinitions": [
                    {"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "pk", "AttributeType": "N"}]}),
                "…",
            )],
        );
    });
}

#[test]
fn billing_is_provisioned_unless_told() {
    conform(|db| {
        all_invalid(
            db,
            &[(
                json!({"ProvisionedThroughput": null}),
                "One or more parameter values were invalid: ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED",
            )],
        );
    });
}

#[test]
fn provisioned_capacity_is_required_when_billing_is_provisioned() {
    conform(|db| {
        all_invalid(
            db,
            &[(
                json!({"ProvisionedThroughput": null, "BillingMode": "PROVISIONED"}),
                "One or more parameter values were invalid: ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED",
            )],
        );
    });
}

#[test]
fn provisioned_capacity_is_at_least_one() {
    conform(|db| {
        all_invalid(
            db,
            &[
                (
                    json!({"ProvisionedThroughput": {"ReadCapacityUnits": 0, "WriteCapacityUnits": 1}}),
                    "1 validation error detected: Value '0' at 'provisionedThroughput.readCapacityUnits' failed to satisfy constraint: Member must have value greater than or equal to 1",
                ),
                (
                    json!({"ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": -5}}),
                    "1 validation error detected: Value '-5' at 'provisionedThroughput.writeCapacityUnits' failed to satisfy constraint: Member must have value greater than or equal to 1",
                ),
                (
                    json!({"ProvisionedThroughput": {"ReadCapacityUnits": 1}}),
                    "1 validation error detected: Value null at 'provisionedThroughput.writeCapacityUnits' failed to satisfy constraint: Member must not be null",
                ),
            ],
        );
    });
}

#[test]
fn on_demand_billing_takes_no_capacity() {
    conform(|db| {
        all_invalid(
            db,
            &[(
                json!({"BillingMode": "PAY_PER_REQUEST"}),
                "One or more parameter values were invalid: Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST",
            )],
        );
    });
}

#[test]
fn billing_mode_is_one_of_two() {
    conform(|db| {
        all_invalid(
            db,
            &[(
                json!({"BillingMode": "FREE"}),
                "1 validation error detected: Value 'FREE' at 'billingMode' failed to satisfy constraint: Member must satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]",
            )],
        );
    });
}

#[test]
fn an_on_demand_table_says_so() {
    conform(|db| {
        let table = db
            .table_from(with(db, &json!({"ProvisionedThroughput": null, "BillingMode": "PAY_PER_REQUEST"})));
        let described = table.describe();
        assert_eq!(described["BillingModeSummary"]["BillingMode"], "PAY_PER_REQUEST");
        assert_eq!(described["ProvisionedThroughput"]["ReadCapacityUnits"], json!(0));
        assert_eq!(described["ProvisionedThroughput"]["WriteCapacityUnits"], json!(0));
    });
}

#[test]
fn a_local_index_needs_a_sort_key_on_the_table() {
    conform(|db| {
        all_invalid(
            db,
            &[(
                json!({
                    "AttributeDefinitions": [
                        {"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "l", "AttributeType": "S"}],
                    "LocalSecondaryIndexes": [{"IndexName": "by_l", "Projection": {"ProjectionType": "ALL"}, "KeySchema": [
                        {"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "l", "KeyType": "RANGE"}]}],
                }),
                "One or more parameter values were invalid: Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex",
            )],
        );
    });
}

fn composite_with_local(db: &Endpoint, key: &Value) -> Value {
    let mut request = keys("pk:S sk:S").request(&db.unused_name());
    request["AttributeDefinitions"] = json!([
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
        {"AttributeName": "l", "AttributeType": "S"},
    ]);
    request["LocalSecondaryIndexes"] =
        json!([{"IndexName": "by_l", "Projection": {"ProjectionType": "ALL"}, "KeySchema": key}]);
    request
}

#[test]
fn a_local_index_shares_the_partition_key() {
    conform(|db| {
        let key =
            json!([{"AttributeName": "l", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]);
        db.invalid(
            "CreateTable",
            composite_with_local(db, &key),
            "One or more parameter values were invalid: Index KeySchema does not have the same leading hash key as table KeySchema for index: by_l. index hash key: l, table hash key: pk",
        );
    });
}

#[test]
fn a_local_index_has_a_sort_key() {
    conform(|db| {
        let mut request = composite_with_local(db, &json!([{"AttributeName": "pk", "KeyType": "HASH"}]));
        request["AttributeDefinitions"] = json!([
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ]);
        db.invalid(
            "CreateTable",
            request,
            "One or more parameter values were invalid: Index KeySchema does not have a range key for index: by_l",
        );
    });
}

#[test]
fn a_table_has_at_most_five_local_indexes() {
    conform(|db| {
        let mut schema = keys("pk:S sk:S");
        for n in 0..6 {
            schema = schema.local(&format!("local{n}"), &format!("l{n}:S"), "KEYS_ONLY");
        }
        db.invalid(
            "CreateTable",
            schema.request(&db.unused_name()),
            "One or more parameter values were invalid: Number of LocalSecondaryIndexes exceeds per-table limit of 5",
        );
    });
}

#[test]
fn a_table_has_at_most_twenty_global_indexes() {
    conform(|db| {
        let schema = |count| {
            (0..count).fold(keys("pk:S"), |schema, n| {
                schema.global(&format!("global{n}"), &format!("g{n}:S"), "KEYS_ONLY")
            })
        };
        db.invalid(
            "CreateTable",
            schema(21).request(&db.unused_name()),
            "One or more parameter values were invalid: GlobalSecondaryIndex count exceeds the per-table limit of 20",
        );
        let table = db.table(schema(20));
        assert_eq!(table.describe()["GlobalSecondaryIndexes"].as_array().map(Vec::len), Some(20));
    });
}

#[test]
fn index_names_are_distinct() {
    conform(|db| {
        db.invalid(
            "CreateTable",
            keys("pk:S").global("same", "a:S", "ALL").global("same", "b:S", "ALL").request(&db.unused_name()),
            "One or more parameter values were invalid: Duplicate index name: same",
        );
        db.invalid(
            "CreateTable",
            keys("pk:S sk:S")
                .global("same", "a:S", "ALL")
                .local("same", "b:S", "ALL")
                .request(&db.unused_name()),
            "One or more parameter values were invalid: Duplicate index name: same",
        );
    });
}

#[test]
fn index_names_are_constrained() {
    conform(|db| {
        db.invalid(
            "CreateTable",
            keys("pk:S").global("ab", "a:S", "ALL").request(&db.unused_name()),
            "1 validation error detected: Value 'ab' at 'globalSecondaryIndexes.1.member.indexName' failed to satisfy constraint: Member must have length greater than or equal to 3",
        );
        db.invalid(
            "CreateTable",
            keys("pk:S").global("a!cd", "a:S", "ALL").request(&db.unused_name()),
            "1 validation error detected: Value 'a!cd' at 'globalSecondaryIndexes.1.member.indexName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+",
        );
    });
}

#[test]
fn index_lists_are_not_empty() {
    conform(|db| {
        all_invalid(
            db,
            &[
                (
                    json!({"GlobalSecondaryIndexes": []}),
                    "One or more parameter values were invalid: List of GlobalSecondaryIndexes is empty",
                ),
                (
                    json!({"LocalSecondaryIndexes": []}),
                    "One or more parameter values were invalid: List of LocalSecondaryIndexes is empty",
                ),
            ],
        );
    });
}

fn with_projection(projection: &Value) -> Value {
    json!({
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "g", "AttributeType": "S"}],
        "GlobalSecondaryIndexes": [global("by_g", &json!([{"AttributeName": "g", "KeyType": "HASH"}]), projection)],
    })
}

#[test]
fn a_projection_has_a_known_type() {
    conform(|db| {
        all_invalid(
            db,
            &[
                (
                    with_projection(&json!({})),
                    "One or more parameter values were invalid: Unknown ProjectionType: null",
                ),
                (
                    with_projection(&json!({"ProjectionType": "SOME"})),
                    "1 validation error detected: Value 'SOME' at 'globalSecondaryIndexes.1.member.projection.projectionType' failed to satisfy constraint: Member must satisfy enum value set: [ALL, INCLUDE, KEYS_ONLY]",
                ),
            ],
        );
    });
}

#[test]
fn projected_names_go_with_include_alone() {
    conform(|db| {
        all_invalid(
            db,
            &[
                (
                    with_projection(&json!({"ProjectionType": "ALL", "NonKeyAttributes": ["a"]})),
                    "One or more parameter values were invalid: ProjectionType is ALL, but NonKeyAttributes is specified",
                ),
                (
                    with_projection(&json!({"ProjectionType": "KEYS_ONLY", "NonKeyAttributes": ["a"]})),
                    "One or more parameter values were invalid: ProjectionType is KEYS_ONLY, but NonKeyAttributes is specified",
                ),
                (
                    with_projection(&json!({"ProjectionType": "INCLUDE"})),
                    "One or more parameter values were invalid: ProjectionType is INCLUDE, but NonKeyAttributes is not specified",
                ),
                (
                    with_projection(&json!({"ProjectionType": "INCLUDE", "NonKeyAttributes": []})),
                    "1 validation error detected: Value '[]' at 'globalSecondaryIndexes.1.member.projection.nonKeyAttributes' failed to satisfy constraint: Member must have length greater than or equal to 1",
                ),
            ],
        );
    });
}

#[test]
fn an_index_names_its_parts() {
    conform(|db| {
        let throughput = json!({"ReadCapacityUnits": 1, "WriteCapacityUnits": 1});
        let key = json!([{"AttributeName": "pk", "KeyType": "HASH"}]);
        all_invalid(
            db,
            &[
                (
                    json!({"GlobalSecondaryIndexes": [{"IndexName": "abc", "Projection": {"ProjectionType": "ALL"}, "ProvisionedThroughput": throughput}]}),
                    "1 validation error detected: Value null at 'globalSecondaryIndexes.1.member.keySchema' failed to satisfy constraint: Member must not be null",
                ),
                (
                    json!({"GlobalSecondaryIndexes": [{"IndexName": "abc", "KeySchema": key, "ProvisionedThroughput": throughput}]}),
                    "1 validation error detected: Value null at 'globalSecondaryIndexes.1.member.projection' failed to satisfy constraint: Member must not be null",
                ),
                (
                    json!({"GlobalSecondaryIndexes": [{"KeySchema": key, "Projection": {"ProjectionType": "ALL"}, "ProvisionedThroughput": throughput}]}),
                    "1 validation error detected: Value null at 'globalSecondaryIndexes.1.member.indexName' failed to satisfy constraint: Member must not be null",
                ),
            ],
        );
    });
}

#[test]
fn an_index_of_an_on_demand_table_takes_no_capacity() {
    conform(|db| {
        let mut request = keys("pk:S").global("by_g", "g:S", "ALL").request(&db.unused_name());
        request["BillingMode"] = json!("PAY_PER_REQUEST");
        request.as_object_mut().expect("a request is an object").remove("ProvisionedThroughput");
        db.invalid(
            "CreateTable",
            request,
            "One or more parameter values were invalid: ProvisionedThroughput should not be specified for index: by_g when BillingMode is PAY_PER_REQUEST",
        );
    });
}

#[test]
fn indexes_are_described() {
    conform(|db| {
        let table =
            db.table(keys("pk:S sk:S").global("by_g", "g:S r:N", "a b").local("by_l", "l:B", "KEYS_ONLY"));
        let described = table.describe();
        let global = &described["GlobalSecondaryIndexes"][0];
        assert_eq!(global["IndexName"], "by_g");
        assert_eq!(global["IndexStatus"], "ACTIVE");
        assert_eq!(
            global["KeySchema"],
            json!([{"AttributeName": "g", "KeyType": "HASH"}, {"AttributeName": "r", "KeyType": "RANGE"}])
        );
        assert_eq!(global["Projection"]["ProjectionType"], "INCLUDE");
        assert_eq!(global["ItemCount"], json!(0));
        assert_eq!(global["IndexSizeBytes"], json!(0));
        assert_eq!(global["IndexArn"], json!(format!("{}/index/by_g", table.arn())));
        let local = &described["LocalSecondaryIndexes"][0];
        assert_eq!(local["IndexName"], "by_l");
        assert_eq!(local["Projection"], json!({"ProjectionType": "KEYS_ONLY"}));
        assert!(local["IndexStatus"].is_null());
        assert_eq!(local["IndexArn"], json!(format!("{}/index/by_l", table.arn())));
    });
}

#[test]
fn a_global_index_key_has_up_to_four_attributes_of_each_kind() {
    conform(|db| {
        let table = db.table(keys("pk:S").global_many("many", "a:S b:N c:B d:S", "e:S f:N g:B h:S", "ALL"));
        let roles: Vec<String> = table.describe()["GlobalSecondaryIndexes"][0]["KeySchema"]
            .as_array()
            .expect("a key schema")
            .iter()
            .map(|element| element["KeyType"].as_str().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(roles, ["HASH", "HASH", "HASH", "HASH", "RANGE", "RANGE", "RANGE", "RANGE"]);
    });
}

#[test]
fn a_fifth_key_attribute_of_a_kind_is_refused() {
    conform(|db| {
        db.invalid(
            "CreateTable",
            keys("pk:S").global_many("many", "a:S b:S c:S d:S e:S", "f:S", "ALL").request(&db.unused_name()),
            "One or more parameter values were invalid: The KeySchema exceeds the maximum allowed number of HASH key attributes",
        );
        db.invalid(
            "CreateTable",
            keys("pk:S").global_many("many", "a:S", "b:S c:S d:S e:S f:S", "ALL").request(&db.unused_name()),
            "One or more parameter values were invalid: The KeySchema exceeds the maximum allowed number of RANGE key attributes",
        );
    });
}

#[test]
fn partition_keys_of_an_index_come_before_its_sort_keys() {
    conform(|db| {
        let mut request =
            keys("pk:S").global_many("many", "a:S b:S", "c:S", "ALL").request(&db.unused_name());
        request["GlobalSecondaryIndexes"][0]["KeySchema"] = json!([
            {"AttributeName": "a", "KeyType": "HASH"},
            {"AttributeName": "c", "KeyType": "RANGE"},
            {"AttributeName": "b", "KeyType": "HASH"},
        ]);
        db.invalid(
            "CreateTable",
            request,
            "One or more parameter values were invalid: All HASH key attributes must precede RANGE key attributes in the KeySchema",
        );
    });
}

#[test]
fn tags_given_at_creation_are_listed() {
    conform(|db| {
        let table = db.table(keys("pk:S").with("Tags", json!([{"Key": "team", "Value": "blue"}])));
        let listed = db.ok("ListTagsOfResource", json!({"ResourceArn": table.arn()}));
        assert_eq!(listed["Tags"], json!([{"Key": "team", "Value": "blue"}]));
    });
}

#[test]
fn a_stream_is_described() {
    conform(|db| {
        let stream = json!({"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"});
        let table = db.table(keys("pk:S").with("StreamSpecification", stream.clone()));
        let described = table.describe();
        assert_eq!(described["StreamSpecification"], stream);
        let label = described["LatestStreamLabel"].as_str().expect("a stream has a label");
        assert_eq!(described["LatestStreamArn"], json!(format!("{}/stream/{label}", table.arn())));
    });
}

#[test]
fn a_disabled_stream_has_no_view() {
    conform(|db| {
        all_invalid(
            db,
            &[(
                json!({"StreamSpecification": {"StreamEnabled": false, "StreamViewType": "KEYS_ONLY"}}),
                "One or more parameter values were invalid: Table is being created with a stream disabled, UpdateViewType should not be specified",
            )],
        );
    });
}

#[test]
fn deletion_protection_is_described() {
    conform(|db| {
        let table = db.table(keys("pk:S").with("DeletionProtectionEnabled", json!(true)));
        assert_eq!(table.describe()["DeletionProtectionEnabled"], json!(true));
        table.ok("UpdateTable", json!({"DeletionProtectionEnabled": false}));
    });
}

#[test]
fn a_table_may_be_asked_for_with_encryption() {
    conform(|db| {
        let table =
            db.table(keys("pk:S").with("SSESpecification", json!({"Enabled": true, "SSEType": "KMS"})));
        table.ok("PutItem", json!({"Item": {"pk": {"S": "a"}}}));
    });
}

#[test]
fn encryption_with_a_managed_key_is_described() {
    conform(|db| {
        let table =
            db.table(keys("pk:S").with("SSESpecification", json!({"Enabled": true, "SSEType": "KMS"})));
        let described = table.describe();
        assert_eq!(described["SSEDescription"]["Status"], "ENABLED");
        assert_eq!(described["SSEDescription"]["SSEType"], "KMS");
    });
}

#[test]
fn a_table_class_is_described() {
    conform(|db| {
        let table = db.table(keys("pk:S").with("TableClass", json!("STANDARD_INFREQUENT_ACCESS")));
        assert_eq!(table.describe()["TableClassSummary"]["TableClass"], "STANDARD_INFREQUENT_ACCESS");
        all_invalid(
            db,
            &[(
                json!({"TableClass": "GOLD"}),
                "1 validation error detected: Value 'GOLD' at 'tableClass' failed to satisfy constraint: Member must satisfy enum value set: [STANDARD, STANDARD_INFREQUENT_ACCESS]",
            )],
        );
    });
}

#[test]
fn a_refused_request_creates_nothing() {
    conform(|db| {
        let mut request = request(db);
        let name = request["TableName"].as_str().expect("a name").to_owned();
        request["AttributeDefinitions"] = json!([{"AttributeName": "other", "AttributeType": "S"}]);
        db.call("CreateTable", request).error("ValidationException", "…");
        db.call("DescribeTable", json!({"TableName": name})).error("ResourceNotFoundException", "…");
    });
}

#[test]
fn names_of_keys_and_of_what_an_index_holds_have_a_longest_length() {
    conform(|db| {
        let name = db.unused_name();
        let request = |key: usize, held: usize| {
            let (key, held) = ("k".repeat(key), "h".repeat(held));
            keys(&format!("{key}:S")).global("by_g", "g:S", &held).request(&name)
        };
        let told = |member: &str| {
            format!(
                "…Value '…' at '{member}' failed to satisfy constraint: Member must have length less than or equal to 255…"
            )
        };
        db.invalid("CreateTable", request(256, 1), &told("keySchema.1.member.attributeName"));
        db.invalid("CreateTable", request(256, 1), &told("attributeDefinitions.1.member.attributeName"));
        db.invalid(
            "CreateTable",
            request(255, 256),
            "1 validation error detected: Value '[…]' at 'globalSecondaryIndexes.1.member.projection.nonKeyAttributes' failed to satisfy constraint: Member must satisfy constraint: [Member must have length less than or equal to 255, Member must have length greater than or equal to 1]",
        );
        db.table_from(request(255, 255));
    });
}

#[test]
fn a_key_has_each_name_once() {
    conform(|db| {
        let name = db.unused_name();
        let mut request = keys("pk:S sk:S").request(&name);
        request["KeySchema"][1]["AttributeName"] = "pk".into();
        db.invalid(
            "CreateTable",
            request,
            "Both the Hash Key and the Range Key element in the KeySchema have the same name",
        );
        let request = keys("pk:S").global_many("many", "g:S h:S", "g:S", "ALL").request(&name);
        db.invalid(
            "CreateTable",
            request,
            "The KeySchema contains multiple key attributes with the same name",
        );
    });
}
