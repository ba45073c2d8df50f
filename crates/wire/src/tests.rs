//! What each operation refuses, and in which words.

use proptest::prelude::*;

use larder_engine::ops::{
    BatchWrite, Consumed, GetItemOutput, IndexChange, KeyRole, ReturnCapacity, ReturnValues, Row, Select,
    TransactAction, UnitKind,
};
use larder_model::limits::REQUEST_MEMORY_BYTES_MAX;
use larder_model::{AttributeValue, IndexKind, IndexName, Item, TableName, UnixTime};

use super::*;

fn target(operation: &str) -> String {
    format!("{PREFIX}{operation}")
}

/// The message a request is refused with.
fn check(operation: &str, body: &str, expected: &str) {
    match decode(&target(operation), body.as_bytes()) {
        Err(ApiError::Validation(message) | ApiError::Serialization(message)) => {
            assert_eq!(message, expected, "{operation} {body}");
        }
        other => panic!("{operation} {body}: {other:?}"),
    }
}

fn decoded(operation: &str, body: &str) -> Request {
    decode(&target(operation), body.as_bytes())
        .unwrap_or_else(|error| panic!("{operation} {body}: {error:?}"))
}

fn one(message: &str) -> String {
    format!("1 validation error detected: {message}")
}

const GET: &str = r#"{"TableName": "lunch", "Key": {"pk": {"S": "a"}}"#;
const PUT: &str = r#"{"TableName": "lunch", "Item": {"pk": {"S": "a"}}"#;
const QUERY: &str = r#"{"TableName": "lunch", "KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": "a"}}"#;

fn get(members: &str) -> String {
    format!("{GET}{members}}}")
}

fn put(members: &str) -> String {
    format!("{PUT}{members}}}")
}

fn query(members: &str) -> String {
    format!("{QUERY}{members}}}")
}

#[test]
fn unknown_operations_say_nothing_but_partiql_says_why() {
    for operation in ["", "NoSuch"] {
        let error = decode(&target(operation), b"{}").unwrap_err();
        assert_eq!(error, ApiError::UnknownOperation(String::new()));
    }
    assert_eq!(decode("", b"{}").unwrap_err(), ApiError::UnknownOperation(String::new()));
    assert_eq!(decode("Streams.GetItem", b"not json").unwrap_err(), ApiError::Serialization(String::new()));
}

#[test]
fn what_is_no_json_is_refused_without_a_word() {
    for body in ["", "{", "[]", "null", "5", "{\"TableName\": \"lunch\"} x", "{'TableName': 'lunch'}"] {
        check("DescribeTable", body, "");
    }
    // Also when an earlier member is of the wrong type.
    check("DescribeTable", r#"{"TableName": 5, "#, "");
    assert!(decode(&target("DescribeTable"), b"{\"TableName\": \"\xff\"}").is_err());
}

#[test]
fn members_of_the_wrong_type_are_named() {
    check("GetItem", r#"{"TableName": 5}"#, "NUMBER_VALUE cannot be converted to String");
    check(
        "GetItem",
        r#"{"Key": []}"#,
        "Unrecognized collection type java.util.Map<java.lang.String, com.amazonaws.dynamodb.v20120810.AttributeValue>",
    );
    check("GetItem", r#"{"Key": {"pk": "a"}}"#, "Unexpected value type in payload");
    check("GetItem", &get(r#", "ConsistentRead": "maybe""#), "Unexpected token received from parser");
    check("Query", &query(r#", "Limit": "5""#), "STRING_VALUE cannot be converted to Integer");
    check(
        "CreateTable",
        r#"{"KeySchema": [[]]}"#,
        "Unrecognized collection type class com.amazonaws.dynamodb.v20120810.KeySchemaElement",
    );
    check(
        "CreateTable",
        r#"{"ProvisionedThroughput": {"ReadCapacityUnits": "a"}}"#,
        "STRING_VALUE cannot be converted to Long",
    );
    let cast = "class sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl cannot be cast to class java.lang.Class (sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl and java.lang.Class are in module java.base of loader 'bootstrap')";
    check("BatchGetItem", r#"{"RequestItems": {"lunch": {"Keys": ["a"]}}}"#, cast);
    check("BatchWriteItem", r#"{"RequestItems": {"lunch": "a"}}"#, cast);
}

const NULL_TABLE: &str = "Value null at 'tableName' failed to satisfy constraint: Member must not be null";
const EMPTY_TABLE: &str =
    "Value at 'TableName' failed to satisfy constraint: Member must have length greater than or equal to 1";
const SHORT_TABLE: &str = "Value 'ab' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 3";
const CAPACITY: &str = "Value 'X' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]";
const METRICS: &str = "Value 'X' at 'returnItemCollectionMetrics' failed to satisfy constraint: Member must satisfy enum value set: [SIZE, NONE]";
const ON_FAILURE: &str = "Value 'X' at 'returnValuesOnConditionCheckFailure' failed to satisfy constraint: Member must satisfy enum value set: [ALL_OLD, NONE]";
const RETURN_VALUES: &str = "Failed to satisfy constraint: Member must satisfy enum value set: [ALL_OLD, UPDATED_OLD, ALL_NEW, UPDATE_NEW, NONE]";

#[test]
fn broken_constraints_are_listed_together() {
    let key = "Value null at 'key' failed to satisfy constraint: Member must not be null";
    check("GetItem", "{}", &format!("2 validation errors detected: {key}; {NULL_TABLE}"));
    check("DeleteItem", "{}", &format!("2 validation errors detected: {NULL_TABLE}; {key}"));
    check("UpdateItem", "{}", &format!("2 validation errors detected: {NULL_TABLE}; {key}"));
    check("Scan", "{}", &one(NULL_TABLE));
    check("Query", "{}", &one(NULL_TABLE));
    check(
        "PutItem",
        "{}",
        &format!(
            "2 validation errors detected: {NULL_TABLE}; Value null at 'item' failed to satisfy constraint: Member must not be null"
        ),
    );
    let bad = r#", "ReturnConsumedCapacity": "X", "ReturnValues": "X", "ReturnItemCollectionMetrics": "X", "ReturnValuesOnConditionCheckFailure": "X""#;
    check(
        "PutItem",
        &put(bad),
        &format!("4 validation errors detected: {CAPACITY}; {RETURN_VALUES}; {METRICS}; {ON_FAILURE}"),
    );
    for operation in ["PutItem", "GetItem", "DeleteItem", "UpdateItem", "Query", "Scan"] {
        check(
            operation,
            r#"{"TableName": "", "Key": {}, "Item": {}, "ReturnConsumedCapacity": "X"}"#,
            &one(EMPTY_TABLE),
        );
    }
    for operation in ["PutItem", "GetItem", "DeleteItem", "Query", "Scan"] {
        check(
            operation,
            r#"{"TableName": "ab", "Key": {}, "Item": {}, "ReturnConsumedCapacity": "X"}"#,
            &format!("2 validation errors detected: {SHORT_TABLE}; {CAPACITY}"),
        );
    }
}

#[test]
fn an_update_reports_one_member_at_a_time() {
    check(
        "UpdateItem",
        r#"{"TableName": "ab", "Key": {}, "ReturnConsumedCapacity": "X"}"#,
        &one(SHORT_TABLE),
    );
    check("UpdateItem", &get(r#", "ReturnConsumedCapacity": "X""#), CAPACITY);
    check(
        "UpdateItem",
        &get(r#", "ReturnItemCollectionMetrics": "X", "ReturnConsumedCapacity": "X""#),
        &one(METRICS),
    );
    let both = r#", "ReturnValuesOnConditionCheckFailure": "X", "ReturnItemCollectionMetrics": "X""#;
    check("UpdateItem", &get(both), ON_FAILURE);
    check("UpdateItem", &get(r#", "ReturnValues": "X", "ReturnConsumedCapacity": "X""#), &one(RETURN_VALUES));
}

#[test]
fn single_writes_put_refusals_of_values_in_an_envelope() {
    let not_a_number = "The parameter cannot be converted to a numeric value: x";
    check("PutItem", r#"{"TableName": "lunch", "Item": {"a": {"N": "x"}}}"#, &one(not_a_number));
    check("GetItem", r#"{"TableName": "lunch", "Key": {"a": {"N": "x"}}}"#, not_a_number);
    let batch = r#"{"RequestItems": {"lunch": [{"PutRequest": {"Item": {"a": {"N": "x"}}}}]}}"#;
    check("BatchWriteItem", batch, not_a_number);
    let repeated = r#"{"TableName": "lunch", "Item": {"a": {"SS": ["b", "b"]}}}"#;
    let invalid = "One or more parameter values were invalid: ";
    check(
        "PutItem",
        repeated,
        &one(&format!(r#"{invalid}Input collection ["b", "b"] contains duplicates."#)),
    );
    // A word for a boolean anywhere sends the request to the older layer, which has no envelope.
    let older = r#"{"TableName": "lunch", "Item": {"a": {"SS": ["b", "b"]}, "b": {"BOOL": "yes"}}}"#;
    check("PutItem", older, &format!("{invalid}Input collection [b, b] contains duplicates."));
    let null = format!("{invalid}Null attribute value types must have the value of true");
    check("PutItem", r#"{"TableName": "lunch", "Item": {"a": {"NULL": false}}}"#, &one(&null));
    check("PutItem", r#"{"TableName": "lunch", "Item": {"a": {"NULL": "no"}}}"#, &null);
}

#[test]
fn a_fault_of_a_placeholder_names_it_where_the_operation_does() {
    let not_true =
        "One or more parameter values were invalid: Null attribute value types must have the value of true";
    let named =
        |message: &str| format!("ExpressionAttributeValues contains invalid value: {message} for key :v");
    let values = |value: &str| format!(r#", "ExpressionAttributeValues": {{":v": {value}}}"#);
    let update = |value: &str| get(&format!(r#", "UpdateExpression": "SET a = :v"{}"#, values(value)));
    let delete = |value: &str| get(&format!(r#", "ConditionExpression": "a = :v"{}"#, values(value)));
    check("UpdateItem", &update(r#"{"NULL": "no"}"#), &named(not_true));
    check("UpdateItem", &update(r#"{"NULL": false}"#), &one(not_true));
    check("DeleteItem", &delete(r#"{"NULL": "no"}"#), &named(not_true));
    check("DeleteItem", &delete(r#"{"NULL": false}"#), &one(not_true));
    let no_type = "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes";
    check("DeleteItem", &delete("{}"), &named(no_type));
    let query = r#"{"TableName": "lunch", "KeyConditionExpression": "pk = :v", "ExpressionAttributeValues": {":v": {}}}"#;
    check("Query", query, &named(no_type));
    check("UpdateItem", &update("{}"), no_type);
}

fn nested(levels: usize) -> String {
    format!("{}{{\"S\":\"a\"}}{}", r#"{"L":["#.repeat(levels), "]}".repeat(levels))
}

#[test]
fn values_nest_to_31_levels() {
    let too_deep = "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit";
    let item = |levels| format!(r#"{{"TableName": "lunch", "Item": {{"a": {}}}}}"#, nested(levels));
    decoded("PutItem", &item(31));
    check("PutItem", &item(32), &one(too_deep));
    check("PutItem", &item(62), &one(too_deep));
    check("PutItem", &item(63), too_deep);
    check("PutItem", &item(1_000), too_deep);
    check("PutItem", &item(3_000), "");
    check("PutItem", &item(2_000_000), "");
    let start = |levels| query(&format!(r#", "ExclusiveStartKey": {{"pk": {}}}"#, nested(levels)));
    check("Query", &start(32), too_deep);
    check("Query", &start(70), &format!("The provided starting key is invalid: {too_deep}"));
}

#[test]
fn empty_names_are_refused() {
    check("PutItem", r#"{"TableName": "lunch", "Item": {"": {"S": "a"}}}"#, &one("Empty attribute name"));
    check("GetItem", r#"{"TableName": "lunch", "Key": {"": {"S": "a"}}}"#, "Empty attribute name");
    check("GetItem", &get(r#", "AttributesToGet": [""]"#), "Empty attribute name");
    check(
        "GetItem",
        &get(r##", "ProjectionExpression": "#n", "ExpressionAttributeNames": {"#n": ""}"##),
        "ExpressionAttributeNames contains invalid value: Empty attribute name for key #n",
    );
}

#[test]
fn placeholders_need_an_expression() {
    let names = r##", "ExpressionAttributeNames": {"#n": "a"}"##;
    let values = r#", "ExpressionAttributeValues": {":v": {"S": "a"}}"#;
    let no_names = "ExpressionAttributeNames can only be specified when using expressions";
    check("GetItem", &get(names), no_names);
    check("PutItem", &put(names), &one(no_names));
    check(
        "PutItem",
        &put(values),
        &one("ExpressionAttributeValues can only be specified when using expressions"),
    );
    check(
        "Scan",
        &format!(r#"{{"TableName": "lunch"{values}}}"#),
        "ExpressionAttributeValues can only be specified when using expressions: FilterExpression is null",
    );
    check(
        "PutItem",
        &put(r#", "ConditionExpression": "", "Expected": {}"#),
        &one(
            "Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {Expected} Expression parameters: {ConditionExpression}",
        ),
    );
    check(
        "PutItem",
        &put(r#", "ConditionExpression": """#),
        &one("Invalid ConditionExpression: The expression can not be empty;"),
    );
    check(
        "GetItem",
        &get(r#", "ProjectionExpression": "a", "ExpressionAttributeNames": {"n": "a"}"#),
        "ExpressionAttributeNames contains invalid key: Syntax error; key: \"n\"",
    );
    check(
        "PutItem",
        &put(&format!(r#", "ConditionExpression": "attribute_exists(a)"{names}"#)),
        &one("Value provided in ExpressionAttributeNames unused in expressions: keys: {#n}"),
    );
}

#[test]
fn return_values_suit_the_operation() {
    let message = one("ReturnValues can only be ALL_OLD or NONE");
    check("PutItem", &put(r#", "ReturnValues": "ALL_NEW""#), &message);
    check("DeleteItem", &get(r#", "ReturnValues": "UPDATED_OLD""#), &message);
    let Request::UpdateItem(update) = decoded("UpdateItem", &get(r#", "ReturnValues": "UPDATED_NEW""#))
    else {
        panic!("an UpdateItem")
    };
    assert_eq!(update.options.return_values, ReturnValues::UpdatedNew);
    assert!(update.update.is_none());
}

#[test]
fn select_agrees_with_the_projection() {
    check(
        "Query",
        &query(r#", "Select": "COUNT", "ProjectionExpression": "a""#),
        &one("Cannot specify the ProjectionExpression when choosing to get only the Count"),
    );
    check(
        "Query",
        &query(r#", "Select": "ALL_PROJECTED_ATTRIBUTES""#),
        &one("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName"),
    );
    check(
        "Scan",
        r#"{"TableName": "lunch", "Select": "SPECIFIC_ATTRIBUTES"}"#,
        "Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES",
    );
    check(
        "Query",
        &query(r#", "Limit": 0, "Select": "X""#),
        &one(
            "Value at 'Limit' failed to satisfy constraint: Member must have value greater than or equal to 1",
        ),
    );
    check(
        "Scan",
        r#"{"TableName": "lunch", "Segment": 1, "TotalSegments": 1}"#,
        "The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: 1 is not less than TotalSegments: 1",
    );
    check(
        "Scan",
        r#"{"TableName": "lunch", "Segment": 1}"#,
        "The TotalSegments parameter is required but was not present in the request when Segment parameter is present",
    );
    check(
        "Query",
        r#"{"TableName": "lunch"}"#,
        "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.",
    );
}

#[test]
fn batches_are_bounded() {
    check(
        "BatchGetItem",
        r#"{"RequestItems": {}}"#,
        &one(
            "Value at 'RequestItems' failed to satisfy constraint: Member must have length greater than or equal to 1",
        ),
    );
    check(
        "BatchGetItem",
        r#"{"RequestItems": {"lunch": {"Keys": []}}}"#,
        &one(
            "Value at 'RequestItems.lunch.member.Keys' failed to satisfy constraint: Member must have length greater than or equal to 1",
        ),
    );
    let keys: Vec<String> = (0..101).map(|n| format!(r#"{{"pk": {{"N": "{n}"}}}}"#)).collect();
    check(
        "BatchGetItem",
        &format!(r#"{{"RequestItems": {{"lunch": {{"Keys": [{}]}}}}}}"#, keys.join(",")),
        &one(
            "Value at 'RequestItems.lunch.member.Keys' failed to satisfy constraint: Member must have length less than or equal to 100",
        ),
    );
    check(
        "BatchGetItem",
        r#"{"RequestItems": {"lunch": {"Keys": [{"pk": {"N": "1"}}, {"pk": {"N": "1.0"}}]}}}"#,
        "Provided list of item keys contains duplicates",
    );
    check(
        "BatchWriteItem",
        r#"{"RequestItems": {}}"#,
        "The requestItems parameter is required for BatchWriteItem",
    );
    check(
        "BatchWriteItem",
        r#"{"RequestItems": {"lunch": []}}"#,
        &one(
            "Value '{lunch=[]}' at 'requestItems' failed to satisfy constraint: Map value must satisfy constraint: [Member must have length less than or equal to 25, Member must have length greater than or equal to 1]",
        ),
    );
    check(
        "BatchGetItem",
        r#"{"RequestItems": {"ab": {"Keys": [{"pk": {"N": "1"}}]}}}"#,
        &one(
            r#"Value '{"ab":{"Keys":[{"pk":{"N":"1"}}]}}' at 'requestItems' failed to satisfy constraint: Map keys must satisfy constraint: [Member must have length less than or equal to 255, Member must have length greater than or equal to 3, Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+]"#,
        ),
    );
}

#[test]
fn transactions_have_one_action_an_item() {
    let empty = "Value '[]' at 'transactItems' failed to satisfy constraint: Member must have length greater than or equal to 1";
    check("TransactWriteItems", r#"{"TransactItems": []}"#, &one(empty));
    check("TransactGetItems", r#"{"TransactItems": []}"#, &one(empty));
    check(
        "TransactGetItems",
        r#"{"TransactItems": [{}]}"#,
        &one(
            "Value null at 'transactItems.1.member.get' failed to satisfy constraint: Member must not be null",
        ),
    );
    check(
        "TransactWriteItems",
        r#"{"TransactItems": [{}]}"#,
        "Invalid Request: TransactWriteRequest should contain Delete or Put or Update request",
    );
    let (put, delete) = (put(""), get(""));
    check(
        "TransactWriteItems",
        &format!(r#"{{"TransactItems": [{{"Put": {put}, "Delete": {delete}}}]}}"#),
        "TransactItems can only contain one of Check, Put, Update or Delete",
    );
    let token = "t".repeat(37);
    check(
        "TransactWriteItems",
        &format!(r#"{{"TransactItems": [{{"Put": {put}}}], "ClientRequestToken": "{token}"}}"#),
        &one(&format!(
            "Value '{token}' at 'clientRequestToken' failed to satisfy constraint: Member must have length less than or equal to 36"
        )),
    );
    check(
        "TransactWriteItems",
        r#"{"TransactItems": [{"Delete": {"TableName": "a!", "Key": {}}}]}"#,
        "2 validation errors detected: Value 'a!' at 'transactItems.1.member.delete.tableName' failed to satisfy constraint: Member must have length greater than or equal to 3; Value 'a!' at 'transactItems.1.member.delete.tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+",
    );
    let too_many = vec![format!(r#"{{"Put": {put}}}"#); 101].join(",");
    let error =
        decode(&target("TransactWriteItems"), format!(r#"{{"TransactItems": [{too_many}]}}"#).as_bytes());
    let message = error.unwrap_err().to_string();
    assert!(message.starts_with("1 validation error detected: Value '[TransactWriteItem(conditionCheck=null, put=Put(item={pk=AttributeValue(s=a, n=null,"));
    assert!(message.ends_with(
        "' at 'transactItems' failed to satisfy constraint: Member must have length less than or equal to 100"
    ));
}

#[test]
fn tables_are_named_in_the_words_of_their_operation() {
    for operation in ["DescribeTable", "DeleteTable", "UpdateTable", "CreateTable", "DescribeTimeToLive"] {
        check(operation, "{}", "The parameter 'TableName' is required but was not present in the request");
    }
    for operation in ["DescribeTable", "DeleteTable", "UpdateTable"] {
        check(
            operation,
            r#"{"TableName": "a!"}"#,
            "TableName must be at least 3 characters long and at most 255 characters long",
        );
    }
    let pattern =
        "failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+";
    check(
        "DescribeTable",
        r#"{"TableName": "a b c"}"#,
        &one(&format!("Value 'a b c' at 'tableName' {pattern}")),
    );
    check(
        "CreateTable",
        r#"{"TableName": "a!"}"#,
        &format!(
            "2 validation errors detected: Value 'a!' at 'tableName' {pattern}; Value 'a!' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 3"
        ),
    );
    check(
        "ListTables",
        r#"{"Limit": 101}"#,
        &one(
            "Value '101' at 'limit' failed to satisfy constraint: Member must have value less than or equal to 100",
        ),
    );
}

#[test]
fn a_new_table_is_checked_member_by_member() {
    check(
        "CreateTable",
        r#"{"TableName": "lunch", "BillingMode": "X", "KeySchema": [{"KeyType": "X"}]}"#,
        "4 validation errors detected: Value 'X' at 'billingMode' failed to satisfy constraint: Member must satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]; Value null at 'keySchema.1.member.attributeName' failed to satisfy constraint: Member must not be null; Value 'X' at 'keySchema.1.member.keyType' failed to satisfy constraint: Member must satisfy enum value set: [HASH, RANGE]; Value null at 'attributeDefinitions' failed to satisfy constraint: Member must not be null",
    );
    check(
        "CreateTable",
        r#"{"TableName": "lunch", "AttributeDefinitions": [], "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}], "GlobalSecondaryIndexes": [{"IndexName": "ab"}], "LocalSecondaryIndexes": [{"IndexName": "b!"}]}"#,
        "7 validation errors detected: Value null at 'globalSecondaryIndexes.1.member.keySchema' failed to satisfy constraint: Member must not be null; Value null at 'globalSecondaryIndexes.1.member.projection' failed to satisfy constraint: Member must not be null; Value 'ab' at 'globalSecondaryIndexes.1.member.indexName' failed to satisfy constraint: Member must have length greater than or equal to 3; Value 'b!' at 'localSecondaryIndexes.1.member.indexName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+; Value 'b!' at 'localSecondaryIndexes.1.member.indexName' failed to satisfy constraint: Member must have length greater than or equal to 3; Value null at 'localSecondaryIndexes.1.member.keySchema' failed to satisfy constraint: Member must not be null; Value null at 'localSecondaryIndexes.1.member.projection' failed to satisfy constraint: Member must not be null",
    );
}

#[test]
fn tags_are_bounded() {
    check("ListTagsOfResource", "{}", "Invalid TableArn");
    check(
        "UntagResource",
        r#"{"ResourceArn": "a:b:c:d:e:f/lunch", "TagKeys": ["a"]}"#,
        "Invalid TableArn: Invalid ResourceArn provided as input a:b:c:d:e:f/lunch",
    );
    let arn = "arn:aws:dynamodb:us-east-1:000000000000:table/lunch";
    check(
        "TagResource",
        &format!(r#"{{"ResourceArn": "{arn}", "Tags": []}}"#),
        "Atleast one Tag needs to be provided as Input.",
    );
    let Request::TagResource(tag) = decoded(
        "TagResource",
        &format!(r#"{{"ResourceArn": "{arn}", "Tags": [{{"Key": "a", "Value": ""}}]}}"#),
    ) else {
        panic!("a TagResource")
    };
    assert_eq!((tag.table.as_str(), tag.tags), ("lunch", vec![("a".to_owned(), String::new())]));
}

#[test]
fn requests_are_read_in_full() {
    let arn = r#"{"TableName": "arn:aws:dynamodb:eu-west-1:1:table/lunch", "Key": {"pk": {"S": "a"}}, "ConsistentRead": true, "ReturnConsumedCapacity": "TOTAL", "ProjectionExpression": "a, b[1]"}"#;
    let Request::GetItem(get_item) = decoded("GetItem", arn) else { panic!("a GetItem") };
    assert_eq!(get_item.table.as_str(), "lunch");
    assert!(get_item.consistent && get_item.capacity == ReturnCapacity::Total);
    assert_eq!(get_item.projection.unwrap().paths.len(), 2);

    let members = r#", "Select": "COUNT", "Limit": 3.0, "ScanIndexForward": "no", "IndexName": "by_day", "ExclusiveStartKey": {"pk": {"S": "z"}}"#;
    let Request::Query(found) = decoded("Query", &query(members)) else { panic!("a Query") };
    assert_eq!((found.select, found.limit, found.forward), (Some(Select::Count), Some(3), false));
    assert_eq!(found.start.unwrap().get("pk"), Some(&AttributeValue::from("z")));
    assert_eq!(found.index.unwrap().as_str(), "by_day");

    let legacy = r#"{"TableName": "lunch", "KeyConditions": {"pk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "a"}]}}, "QueryFilter": {"n": {"ComparisonOperator": "NULL"}}, "AttributesToGet": ["a"]}"#;
    let Request::Query(found) = decoded("Query", legacy) else { panic!("a Query") };
    assert_eq!(found.key_condition.tests.len(), 1);
    assert!(found.filter.is_some() && found.projection.is_some());

    let batch = r#"{"RequestItems": {"lunch": [{"PutRequest": {"Item": {"pk": {"S": "a"}}}}, {"DeleteRequest": {"Key": {"pk": {"S": "b"}}}}]}}"#;
    let Request::BatchWriteItem(batch) = decoded("BatchWriteItem", batch) else { panic!("a BatchWriteItem") };
    assert!(matches!(batch.tables[0].1.as_slice(), [BatchWrite::Put(_), BatchWrite::Delete(_)]));

    let update = get(r#", "UpdateExpression": "REMOVE a""#);
    let check = get(r#", "ConditionExpression": "attribute_exists(a)""#);
    let transaction = format!(
        r#"{{"TransactItems": [{{"Update": {update}}}, {{"ConditionCheck": {check}}}], "ClientRequestToken": "t"}}"#
    );
    let Request::TransactWriteItems(transaction) = decoded("TransactWriteItems", &transaction) else {
        panic!("a TransactWriteItems")
    };
    assert!(matches!(transaction.writes[0].action, TransactAction::Update { .. }));
    assert!(matches!(transaction.writes[1].action, TransactAction::Check { .. }));

    let table = r#"{"TableName": "lunch", "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}], "GlobalSecondaryIndexes": [{"IndexName": "by_day", "KeySchema": [{"AttributeName": "day", "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"}}]}"#;
    let Request::CreateTable(table) = decoded("CreateTable", table) else { panic!("a CreateTable") };
    assert_eq!(table.key[0].role, KeyRole::Partition);
    assert_eq!(table.global_indexes.unwrap()[0].name.as_str(), "by_day");
    assert!(table.local_indexes.is_none());

    let change =
        r#"{"TableName": "lunch", "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "by_day"}}]}"#;
    let Request::UpdateTable(change) = decoded("UpdateTable", change) else { panic!("an UpdateTable") };
    assert!(matches!(change.index_changes.unwrap().as_slice(), [IndexChange::Delete { .. }]));
}

#[test]
fn an_answer_leaves_out_what_is_not_there() {
    let answer = |output| String::from_utf8(encode(&Response::GetItem(output)).unwrap()).unwrap();
    assert_eq!(answer(GetItemOutput { item: None, consumed: None }), "{}");
    let item: Item = [("pk", AttributeValue::from(1))].into_iter().collect();
    let consumed = Consumed {
        table: TableName::new("lunch").unwrap(),
        table_units: 0.5,
        indexes: vec![(IndexName::new("by_day").unwrap(), IndexKind::Global, 1.0)],
        kind: Some(UnitKind::Read),
        parts: true,
    };
    insta::assert_snapshot!(
        answer(GetItemOutput { item: Some(Row::Built(item)), consumed: Some(consumed) }),
        @r#"{"Item":{"pk":{"N":"1"}},"ConsumedCapacity":{"TableName":"lunch","CapacityUnits":1.5,"ReadCapacityUnits":1.5,"Table":{"CapacityUnits":0.5,"ReadCapacityUnits":0.5},"GlobalSecondaryIndexes":{"by_day":{"CapacityUnits":1.0,"ReadCapacityUnits":1.0}}}}"#
    );
    assert_eq!(
        String::from_utf8(encode_endpoints("127.0.0.1:8000")).unwrap(),
        r#"{"Endpoints":[{"Address":"127.0.0.1:8000","CachePeriodInMinutes":1440}]}"#
    );
}

const OPERATIONS: [&str; 10] = [
    "PutItem",
    "GetItem",
    "UpdateItem",
    "DeleteItem",
    "Query",
    "Scan",
    "BatchGetItem",
    "BatchWriteItem",
    "TransactWriteItems",
    "CreateTable",
];

proptest! {
    #[test]
    fn any_bytes_are_a_request_or_an_error(operation in prop::sample::select(&OPERATIONS[..]), body: Vec<u8>) {
        let _ = decode(&target(operation), &body);
    }

    #[test]
    fn a_damaged_request_is_a_request_or_an_error(
        operation in prop::sample::select(&OPERATIONS[..]),
        at in any::<prop::sample::Index>(),
        byte in prop::sample::select(b"{}[]\",:0ntSNM".to_vec()),
    ) {
        let mut body = query(r##", "Item": {"a": {"M": {"b": {"L": [{"N": "1"}, {"NS": ["1", "2"]}, {"BOOL": true}]}}}}, "Key": {"pk": {"B": "AA=="}}, "TransactItems": [{"Put": {"TableName": "abc", "Item": {}}}], "RequestItems": {"abc": {"Keys": [{"a": {"S": "b"}}]}}, "ExpressionAttributeNames": {"#a": "b"}, "Limit": 5"##).into_bytes();
        let at = at.index(body.len());
        body[at] = byte;
        let _ = decode(&target(operation), &body);
        let _ = decode(&target(operation), &body[..at]);
    }
}

#[test]
fn a_restore_names_one_source_and_one_moment() {
    let restore = |members: &str| format!(r#"{{"TargetTableName": "new", {members}}}"#);
    let one_source = [
        (r#""UseLatestRestorableTime": true"#, "Either SourceTableName or SourceTableArn must be specified"),
        (
            r#""SourceTableName": "old", "SourceTableArn": "arn:aws:dynamodb:us-east-1:1:table/old", "UseLatestRestorableTime": true"#,
            "Only one of SourceTableName and SourceTableArn can be specified",
        ),
    ];
    let moment = "Exactly one of UseLatestRestorableTime and RestoreDateTime must be specified";
    let one_moment = [
        r#""SourceTableName": "old""#,
        r#""SourceTableName": "old", "UseLatestRestorableTime": false"#,
        r#""SourceTableName": "old", "UseLatestRestorableTime": true, "RestoreDateTime": 1"#,
    ];
    for (members, message) in one_source.into_iter().chain(one_moment.map(|members| (members, moment))) {
        check("RestoreTableToPointInTime", &restore(members), message);
    }
    let asked =
        restore(r#""SourceTableArn": "arn:aws:dynamodb:us-east-1:1:table/old", "RestoreDateTime": 1.5"#);
    let Request::RestoreTableToPointInTime(request) = decoded("RestoreTableToPointInTime", &asked) else {
        panic!("it is a restore")
    };
    assert_eq!(request.source.as_str(), "old");
    assert_eq!(request.at, Some(UnixTime::from_millis(1500)));
}

#[test]
fn recovery_that_is_switched_off_has_no_days() {
    check(
        "UpdateContinuousBackups",
        r#"{"TableName": "lunch", "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": false, "RecoveryPeriodInDays": 3}}"#,
        "RecoveryPeriodInDays can only be specified when PointInTimeRecoveryEnabled is true",
    );
}

#[test]
fn overrides_have_paths_of_their_own() {
    check(
        "RestoreTableFromBackup",
        r#"{"BackupArn": "arn:aws:dynamodb:us-east-1:1:table/old/backup/1", "TargetTableName": "new", "BillingModeOverride": "FREE", "ProvisionedThroughputOverride": {"ReadCapacityUnits": 0, "WriteCapacityUnits": 1}}"#,
        "2 validation errors detected: Value 'FREE' at 'billingModeOverride' failed to satisfy constraint: Member must satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]; Value '0' at 'provisionedThroughputOverride.readCapacityUnits' failed to satisfy constraint: Member must have value greater than or equal to 1",
    );
}

#[test]
fn a_line_of_an_export_is_an_item_or_refused_as_a_put_of_it_would_be() {
    for (line, message) in [
        ("", "this is not JSON"),
        ("{\"Item\":{\"id\":{\"S\":\"1\"}}", "this is not JSON"),
        ("{\"Item\":{\"id\":{\"S\":\"1\"}}} {}", "this is not JSON"),
        ("{\"Keys\":{}}", "there is no Item in the line"),
        ("{\"Item\":{\"id\":{\"N\":\"x\"}}}", "The parameter cannot be converted to a numeric value: x"),
        ("{\"Item\":{\"id\":{}}}", "Supplied AttributeValue is empty"),
    ] {
        let error = crate::decode_exported(line.as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with(message), "{line}: {error}");
    }
    assert!(crate::decode_exported(b"{\"Item\":{\"id\":{\"S\":\"\xff\"}}}").is_err());
    let deep =
        format!("{{\"Item\":{{\"a\":{}{{\"NULL\":true}}{}}}}}", "{\"L\":[".repeat(5000), "]}".repeat(5000));
    assert!(crate::decode_exported(deep.as_bytes()).is_err());
    let item = crate::decode_exported(b" {\"Item\": {\"n\": {\"NS\": [\"1\", \"2.50\"]}}, \"more\": [1]}\n")
        .unwrap();
    let mut line = Vec::new();
    crate::encode_exported(&mut line, &item);
    assert_eq!(String::from_utf8_lossy(&line), "{\"Item\":{\"n\":{\"NS\":[\"1\",\"2.5\"]}}}");
}

/// Bodies whose values would take many times what they do.
#[test]
fn values_that_take_too_much_memory_are_refused_as_they_are_read() {
    // As many as take what a request may, if each takes `bytes`.
    let repeated = |part: &str, bytes: usize| vec![part; REQUEST_MEMORY_BYTES_MAX / bytes + 1].join(",");
    let list = |part: &str, bytes: usize| {
        format!(r#"{{"TableName": "abc", "Item": {{"a": {{"L": [{}]}}}}}}"#, repeated(part, bytes))
    };
    let numbered = |part: fn(usize) -> String| (0..180_000).map(part).collect::<Vec<_>>().join(",");
    for (operation, body) in [
        ("PutItem", list(r#"{"S":""}"#, 64)),
        ("PutItem", list(r#"{"L":[]}"#, 64)),
        ("PutItem", list(r#"{"L":[{"S":""}]}"#, 200)),
        ("PutItem", list(r#"{"M":{"a":{"S":""}}}"#, 600)),
        ("PutItem", list(r#"{"SS":["a"]}"#, 300)),
        ("PutItem", list(r#"{"NS":["1"]}"#, 300)),
        ("TransactWriteItems", format!(r#"{{"TransactItems": [{}]}}"#, repeated("{}", 2048))),
        ("TransactGetItems", format!(r#"{{"TransactItems": [{}]}}"#, repeated("{}", 2048))),
        ("BatchWriteItem", format!(r#"{{"RequestItems": {{"abc": [{}]}}}}"#, repeated("{}", 2048))),
        ("BatchGetItem", format!(r#"{{"RequestItems": {{"abc": {{"Keys": [{}]}}}}}}"#, repeated("{}", 2048))),
        ("BatchGetItem", format!(r#"{{"RequestItems": {{{}}}}}"#, numbered(|at| format!(r#""{at}":{{}}"#)))),
        ("Scan", format!(r#"{{"TableName": "abc", "AttributesToGet": [{}]}}"#, repeated(r#""a""#, 80))),
        (
            "Scan",
            format!(
                r#"{{"TableName": "abc", "ScanFilter": {{{}}}}}"#,
                numbered(|at| format!(r#""{at}":{{}}"#))
            ),
        ),
        (
            "UpdateItem",
            format!(
                r#"{{"TableName": "abc", "ExpressionAttributeNames": {{{}}}}}"#,
                numbered(|at| format!(r##""#{at}":"n""##))
            ),
        ),
        (
            "UpdateItem",
            format!(
                r#"{{"TableName": "abc", "AttributeUpdates": {{{}}}}}"#,
                numbered(|at| format!(r#""{at}":{{}}"#))
            ),
        ),
        ("CreateTable", format!(r#"{{"GlobalSecondaryIndexes": [{}]}}"#, repeated("{}", 2048))),
        ("TagResource", format!(r#"{{"Tags": [{}]}}"#, repeated("{}", 2048))),
    ] {
        let error = decode(&format!("DynamoDB_20120810.{operation}"), body.as_bytes()).unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with("The request has too many values"),
            "{operation} {body:.80}: {message:.200}"
        );
    }
}

#[test]
fn the_largest_batch_of_ordinary_items_is_read() {
    let fields = (0..10).map(|at| format!(r#""field_{at}": {{"S": "some text of a value"}}"#));
    let part = format!(r#"{{"M": {{{}}}}}"#, fields.collect::<Vec<_>>().join(", "));
    let item = format!(r#"{{"PutRequest": {{"Item": {{"a": {{"L": [{}]}}}}}}}}"#, vec![part; 800].join(", "));
    let body = format!(r#"{{"RequestItems": {{"abc": [{}]}}}}"#, vec![item; 25].join(", "));
    assert!(body.len() > 8 << 20, "{}", body.len());
    assert!(decode("DynamoDB_20120810.BatchWriteItem", body.as_bytes()).is_ok());
}

#[test]
fn a_long_value_is_shown_in_part() {
    let name = "!".repeat(5 << 20);
    let error =
        decode("DynamoDB_20120810.GetItem", format!(r#"{{"TableName": "{name}", "Key": {{}}}}"#).as_bytes());
    let message = error.unwrap_err().to_string();
    assert!(message.len() < 3 << 20 && message.contains("!..."), "{}", message.len());
}

/// A member that is not known comes once for each placeholder, and each is looked at once.
#[test]
fn members_and_flawed_values_are_not_multiplied() {
    let values = (0..20_000).map(|at| format!(r#"":{at}":{{"SS":[]}}"#)).collect::<Vec<_>>().join(",");
    let others = vec![r#""x":0"#; 200_000].join(",");
    let body =
        format!(r#"{{"TableName":"abc","Key":{{}},"ExpressionAttributeValues":{{{values}}},{others}}}"#);
    let start = std::time::Instant::now();
    assert!(decode("DynamoDB_20120810.UpdateItem", body.as_bytes()).is_err());
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}
