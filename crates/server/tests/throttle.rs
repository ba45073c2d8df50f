//! Throughput that is enforced: what is turned away, in which words, and when it is let through again.

#[expect(dead_code, reason = "shared with other test files")]
mod client;

use client::{Answer, Connection, Running};
use hyper::{Method, StatusCode};
use larder_server::{Config, Server, StoreConfig};
use serde_json::{Value, json};

async fn throttling() -> Running {
    let config = Config { throttle: true, ..Config::local(StoreConfig::Memory) };
    let server = Server::bind(config).await.expect("a free port and an empty store open");
    // Time passes only as a test says.
    server.clock().stop();
    Running::serve(server)
}

fn units(units: i64) -> Value {
    json!({"ReadCapacityUnits": units, "WriteCapacityUnits": units})
}

fn table(more: &Value) -> Value {
    let mut table = json!({
        "TableName": "hot",
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    });
    for (member, value) in more.as_object().expect("members") {
        table[member] = value.clone();
    }
    table
}

fn put(pk: &str, bytes: usize) -> Value {
    json!({"TableName": "hot", "Item": {"pk": {"S": pk}, "v": {"S": "x".repeat(bytes)}}})
}

async fn advance(connection: &mut Connection, seconds: u64) {
    let body = json!({"advance_seconds": seconds}).to_string();
    let json_type = [("content-type", "application/json")];
    let answer = connection.send(Method::POST, "/_larder/clock", &json_type, body).await;
    assert_eq!(answer.status, StatusCode::OK);
}

/// The last of some puts, and how many were let through before it.
async fn until_refused(connection: &mut Connection, request: &Value, most: usize) -> (usize, Answer) {
    for passed in 0..most {
        let answer = connection.post("PutItem", &[], request.to_string()).await;
        if answer.status != StatusCode::OK {
            return (passed, answer);
        }
    }
    panic!("{most} were let through");
}

#[tokio::test]
async fn provisioned_units_are_used_up_and_come_back_with_five_minutes_at_most() {
    let server = throttling().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", table(&json!({"ProvisionedThroughput": units(2)}))).await;
    let (passed, refused) = until_refused(&mut connection, &put("a", 10), 10).await;
    assert_eq!(passed, 2);
    assert_eq!(
        (refused.status, refused.error().as_str()),
        (StatusCode::BAD_REQUEST, "ProvisionedThroughputExceededException")
    );
    let body = refused.json();
    assert_eq!(
        body["message"],
        "The level of configured provisioned throughput for the table was exceeded. Consider increasing your provisioning level with the UpdateTable API."
    );
    assert_eq!(
        body["ThrottlingReasons"],
        json!([{"reason": "TableWriteProvisionedThroughputExceeded", "resource": "arn:aws:dynamodb:us-east-1:000000000000:table/hot"}])
    );
    advance(&mut connection, 24 * 3600).await;
    let (passed, _) = until_refused(&mut connection, &put("a", 10), 1000).await;
    assert_eq!(passed, 600, "five minutes' worth, and not a day's");

    // Reads have units of their own; one that costs more than there is is let through once.
    advance(&mut connection, 300).await;
    connection.ok("PutItem", put("large", 300_000)).await;
    let get = json!({"TableName": "hot", "Key": {"pk": {"S": "large"}}, "ConsistentRead": true});
    let mut reads = 0;
    while connection.post("GetItem", &[], get.to_string()).await.status == StatusCode::OK {
        reads += 1;
        assert!(reads < 1000);
    }
    assert_eq!(reads, 9, "600 units, 74 for each, and the last of them owes");
    for (operation, request) in [
        ("Scan", json!({"TableName": "hot"})),
        (
            "Query",
            json!({"TableName": "hot", "KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": "a"}}}),
        ),
        ("ExecuteStatement", json!({"Statement": "SELECT * FROM hot WHERE pk = 'a'"})),
    ] {
        let answer = connection.post(operation, &[], request.to_string()).await;
        assert_eq!(answer.error(), "ProvisionedThroughputExceededException", "{operation}");
        assert_eq!(answer.json()["ThrottlingReasons"][0]["reason"], "TableReadProvisionedThroughputExceeded");
    }
    // It is told where alarms look.
    let metrics = connection.send(Method::GET, "/metrics", &[], "").await;
    let text = String::from_utf8(metrics.body.to_vec()).expect("text");
    assert!(text.contains(r#"larder_throttled_requests_total{table="hot",operation="Scan"} 1"#), "{text}");
    assert!(text.contains(r#"larder_throttled_requests_total{table="hot",operation="PutItem"} 2"#), "{text}");
}

#[tokio::test]
async fn an_index_without_units_keeps_back_what_would_change_it() {
    let server = throttling().await;
    let mut connection = server.connect().await;
    let index = json!([{
        "IndexName": "by_g",
        "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
        "ProvisionedThroughput": units(1),
    }]);
    let attributes =
        json!([{"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "g", "AttributeType": "S"}]);
    let create = json!({"AttributeDefinitions": attributes, "GlobalSecondaryIndexes": index, "ProvisionedThroughput": units(1000)});
    connection.ok("CreateTable", table(&create)).await;
    let indexed = |pk: &str| json!({"TableName": "hot", "Item": {"pk": {"S": pk}, "g": {"S": "g"}}});
    connection.ok("PutItem", indexed("a")).await;
    let refused = connection.post("PutItem", &[], indexed("b").to_string()).await;
    assert_eq!(refused.error(), "ProvisionedThroughputExceededException");
    assert_eq!(
        refused.json()["ThrottlingReasons"],
        json!([{"reason": "IndexWriteProvisionedThroughputExceeded", "resource": "arn:aws:dynamodb:us-east-1:000000000000:table/hot/index/by_g"}])
    );
    let get = json!({"TableName": "hot", "Key": {"pk": {"S": "b"}}});
    assert_eq!(connection.ok("GetItem", get).await, json!({}), "nothing of it was made");
    // What is not in the index, or stays there as it is, is none of its business.
    connection.ok("PutItem", put("plain", 10)).await;
    let update = json!({"TableName": "hot", "Key": {"pk": {"S": "a"}}, "UpdateExpression": "SET v = :v", "ExpressionAttributeValues": {":v": {"S": "x"}}});
    connection.ok("UpdateItem", update).await;
}

#[tokio::test]
async fn on_demand_has_maxima_and_a_partition_its_own() {
    let server = throttling().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", table(&json!({"BillingMode": "PAY_PER_REQUEST"}))).await;
    let (passed, refused) = until_refused(&mut connection, &put("hot", 390_000), 10).await;
    assert_eq!(passed, 3, "1000 units, 381 for each");
    assert_eq!(refused.error(), "ThrottlingException");
    assert_eq!(
        refused.json()["throttlingReasons"],
        json!([{"reason": "TableWriteKeyRangeThroughputExceeded", "resource": "arn:aws:dynamodb:us-east-1:000000000000:table/hot"}])
    );
    connection.ok("PutItem", put("another", 390_000)).await;

    connection
        .ok("UpdateTable", json!({"TableName": "hot", "OnDemandThroughput": {"MaxWriteRequestUnits": 2}}))
        .await;
    advance(&mut connection, 3600).await;
    let (passed, refused) = until_refused(&mut connection, &put("other", 10), 10).await;
    assert_eq!(passed, 2, "a second's worth");
    assert_eq!(refused.error(), "ThrottlingException");
    assert_eq!(refused.json()["throttlingReasons"][0]["reason"], "TableWriteMaxOnDemandThroughputExceeded");
}

#[tokio::test]
async fn batches_leave_out_what_there_is_nothing_for_and_transactions_say_so() {
    let server = throttling().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", table(&json!({"ProvisionedThroughput": units(3)}))).await;
    let writes: Vec<Value> =
        (0..10).map(|n| json!({"PutRequest": {"Item": {"pk": {"S": n.to_string()}}}})).collect();
    let batch = json!({"RequestItems": {"hot": writes}});
    let answer = connection.ok("BatchWriteItem", batch.clone()).await;
    assert_eq!(answer["UnprocessedItems"]["hot"], json!(writes[3..]), "what comes after three units");
    let refused = connection.post("BatchWriteItem", &[], batch.to_string()).await;
    assert_eq!(refused.error(), "ProvisionedThroughputExceededException", "none of it could be done");

    let update = |pk: &str| json!({"Put": {"TableName": "hot", "Item": {"pk": {"S": pk}}}});
    let refused = connection
        .post("TransactWriteItems", &[], json!({"TransactItems": [update("a"), update("b")]}).to_string())
        .await;
    assert_eq!(refused.error(), "TransactionCanceledException");
    assert_eq!(refused.json()["CancellationReasons"][0]["Code"], "ProvisionedThroughputExceeded");
}

#[tokio::test]
async fn nothing_is_turned_away_unasked() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", table(&json!({"ProvisionedThroughput": units(1)}))).await;
    for _ in 0..50 {
        connection.ok("PutItem", put("a", 2_000)).await;
    }
}
