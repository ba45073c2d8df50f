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

/// What a request that is turned away says: the code, the reason, and what has no units.
async fn refused(connection: &mut Connection, operation: &str, request: &Value) -> [String; 3] {
    let answer = connection.post(operation, &[], request.to_string()).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{operation} is let through: {}", answer.json());
    let (code, body) = (answer.error(), answer.json());
    let reasons = body.get("ThrottlingReasons").or(body.get("throttlingReasons"));
    let reason = reasons.map_or(Value::Null, |reasons| reasons[0].clone());
    let text = |member: &str| reason[member].as_str().unwrap_or_default().to_owned();
    [code, text("reason"), text("resource").rsplit(':').next().unwrap_or_default().to_owned()]
}

async fn throttled(connection: &mut Connection, operation: &str) -> u64 {
    let metrics = connection.send(Method::GET, "/metrics", &[], "").await;
    let text = String::from_utf8(metrics.body.to_vec()).expect("text");
    let row = format!(r#"larder_throttled_requests_total{{table="hot",operation="{operation}"}} "#);
    let value = text.lines().find_map(|line| line.strip_prefix(&row));
    value.map_or(0, |value| value.parse().expect("a number"))
}

fn get(pk: &str) -> Value {
    json!({"TableName": "hot", "Key": {"pk": {"S": pk}}, "ConsistentRead": true})
}

fn insert(pk: &str) -> Value {
    json!({"Statement": format!("INSERT INTO hot VALUE {{'pk': '{pk}'}}")})
}

/// A table of these units, with a global index by `g` of those.
fn indexed(of_table: &Value, of_index: &Value) -> Value {
    let mut index = json!({
        "IndexName": "by_g",
        "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    });
    for (member, value) in of_index.as_object().expect("members") {
        index[member] = value.clone();
    }
    let mut table = table(of_table);
    table["AttributeDefinitions"] =
        json!([{"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "g", "AttributeType": "S"}]);
    table["GlobalSecondaryIndexes"] = json!([index]);
    table
}

/// A table of these units, with a local index by `l` that projects this.
fn local(of_table: &Value, projection: &str) -> Value {
    let mut table = table(of_table);
    table["KeySchema"] = json!([
        {"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}
    ]);
    let attributes = ["pk", "sk", "l"].map(|name| json!({"AttributeName": name, "AttributeType": "S"}));
    table["AttributeDefinitions"] = json!(attributes);
    table["LocalSecondaryIndexes"] = json!([{
        "IndexName": "by_l",
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "l", "KeyType": "RANGE"}],
        "Projection": {"ProjectionType": projection},
    }]);
    table
}

fn put_local(sk: &str, bytes: usize) -> Value {
    let item = json!({"pk": {"S": "a"}, "sk": {"S": sk}, "l": {"S": "l"}, "v": {"S": "x".repeat(bytes)}});
    json!({"TableName": "hot", "Item": item})
}

fn put_indexed(pk: &str, g: &str, bytes: usize) -> Value {
    json!({"TableName": "hot", "Item": {"pk": {"S": pk}, "g": {"S": g}, "v": {"S": "x".repeat(bytes)}}})
}

const PROVISIONED: &str = "ProvisionedThroughputExceededException";

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
async fn a_hot_key_of_an_index_is_found() {
    let server = throttling().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", indexed(&json!({"BillingMode": "PAY_PER_REQUEST"}), &json!({}))).await;
    for pk in ["a", "b", "c"] {
        connection.ok("PutItem", put_indexed(pk, "hot", 390_000)).await;
    }
    let found = refused(&mut connection, "PutItem", &put_indexed("d", "hot", 390_000)).await;
    assert_eq!(
        found,
        ["ThrottlingException", "IndexWriteKeyRangeThroughputExceeded", "table/hot/index/by_g"]
    );
    // What leaves the hot place costs it, too; another is free.
    let found = refused(&mut connection, "PutItem", &put_indexed("b", "another", 10)).await;
    assert_eq!(found[1], "IndexWriteKeyRangeThroughputExceeded");
    connection.ok("PutItem", put_indexed("d", "another", 390_000)).await;
}

#[tokio::test]
async fn a_local_index_takes_of_the_table_and_of_the_partition() {
    let server = throttling().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", local(&json!({"ProvisionedThroughput": units(10)}), "ALL")).await;
    for at in 0..5 {
        connection.ok("PutItem", put_local(&at.to_string(), 10)).await;
    }
    let found = refused(&mut connection, "PutItem", &put_local("5", 10)).await;
    assert_eq!(found, [PROVISIONED, "TableWriteProvisionedThroughputExceeded", "table/hot"]);

    connection.ok("DeleteTable", json!({"TableName": "hot"})).await;
    connection.ok("CreateTable", local(&json!({"BillingMode": "PAY_PER_REQUEST"}), "ALL")).await;
    connection.ok("PutItem", put_local("0", 390_000)).await;
    connection.ok("PutItem", put_local("1", 390_000)).await;
    let found = refused(&mut connection, "PutItem", &put_local("2", 10)).await;
    assert_eq!(found, ["ThrottlingException", "TableWriteKeyRangeThroughputExceeded", "table/hot"]);

    // It is read from the partition of the table that it stands beside.
    let query = json!({
        "TableName": "hot", "IndexName": "by_l", "ConsistentRead": true, "Limit": 1,
        "KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": "a"}},
    });
    for _ in 0..32 {
        connection.ok("Query", query.clone()).await;
    }
    let found = refused(&mut connection, "Query", &query).await;
    assert_eq!(found[1], "TableReadKeyRangeThroughputExceeded");
    let key = json!({"pk": {"S": "a"}, "sk": {"S": "0"}});
    let found = refused(&mut connection, "GetItem", &json!({"TableName": "hot", "Key": key})).await;
    assert_eq!(found, ["ThrottlingException", "TableReadKeyRangeThroughputExceeded", "table/hot"]);
}

#[tokio::test]
async fn a_page_takes_the_units_that_it_tells() {
    let server = throttling().await;
    let mut connection = server.connect().await;
    let provisioned = json!({"ReadCapacityUnits": 11, "WriteCapacityUnits": 100});
    let create = local(&json!({"ProvisionedThroughput": provisioned}), "KEYS_ONLY");
    connection.ok("CreateTable", create).await;
    for at in 0..10 {
        connection.ok("PutItem", put_local(&at.to_string(), 10)).await;
    }
    let query = json!({
        "TableName": "hot", "IndexName": "by_l", "ConsistentRead": true, "Select": "ALL_ATTRIBUTES",
        "KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": "a"}},
        "ReturnConsumedCapacity": "TOTAL",
    });
    let answer = connection.ok("Query", query).await;
    assert_eq!(answer["ConsumedCapacity"]["CapacityUnits"], json!(11.0), "one, and one for each item");
    let key = json!({"pk": {"S": "a"}, "sk": {"S": "0"}});
    let found = refused(&mut connection, "GetItem", &json!({"TableName": "hot", "Key": key})).await;
    assert_eq!(found, [PROVISIONED, "TableReadProvisionedThroughputExceeded", "table/hot"]);
}

#[tokio::test]
async fn keys_that_a_batch_leaves_for_their_size_cost_nothing() {
    let server = throttling().await;
    let mut connection = server.connect().await;
    let provisioned = json!({"ReadCapacityUnits": 43 * 96 + 1, "WriteCapacityUnits": 40_000});
    connection.ok("CreateTable", table(&json!({"ProvisionedThroughput": provisioned}))).await;
    let mut keys = Vec::new();
    for at in 0..50 {
        connection.ok("PutItem", put(&at.to_string(), 390_000)).await;
        keys.push(json!({"pk": {"S": at.to_string()}}));
    }
    let batch = json!({
        "RequestItems": {"hot": {"Keys": keys, "ConsistentRead": true}},
        "ReturnConsumedCapacity": "TOTAL",
    });
    let answer = connection.ok("BatchGetItem", batch).await;
    assert_eq!(answer["UnprocessedKeys"]["hot"]["Keys"].as_array().map(Vec::len), Some(7), "of 16 MB");
    assert_eq!(answer["ConsumedCapacity"][0]["CapacityUnits"], json!(43.0 * 96.0));
    connection.ok("GetItem", get("none")).await;
    assert_eq!(refused(&mut connection, "GetItem", &get("none")).await[0], PROVISIONED);
}

#[tokio::test]
async fn a_condition_that_fails_costs_what_the_item_does() {
    let server = throttling().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", table(&json!({"ProvisionedThroughput": units(4)}))).await;
    connection.ok("PutItem", put("a", 10)).await;
    let put = json!({
        "TableName": "hot", "Item": {"pk": {"S": "a"}}, "ConditionExpression": "attribute_not_exists(pk)",
    });
    for _ in 0..3 {
        assert_eq!(refused(&mut connection, "PutItem", &put).await[0], "ConditionalCheckFailedException");
    }
    assert_eq!(refused(&mut connection, "PutItem", &put).await[0], PROVISIONED);

    advance(&mut connection, 1).await;
    let transaction = json!({"TransactItems": [{"Put": put}]}).to_string();
    for code in ["ConditionalCheckFailed", "ConditionalCheckFailed", "ProvisionedThroughputExceeded"] {
        let answer = connection.post("TransactWriteItems", &[], transaction.clone()).await;
        assert_eq!(answer.json()["CancellationReasons"][0]["Code"], code, "two for each");
    }
}

#[tokio::test]
async fn a_transaction_takes_what_it_tells_that_it_costs() {
    let server = throttling().await;
    let mut connection = server.connect().await;
    let provisioned = json!({"ReadCapacityUnits": 4, "WriteCapacityUnits": 8});
    connection.ok("CreateTable", table(&json!({"ProvisionedThroughput": provisioned}))).await;
    let transaction = json!({
        "TransactItems": [{"Put": {"TableName": "hot", "Item": {"pk": {"S": "a"}}}}],
        "ClientRequestToken": "once", "ReturnConsumedCapacity": "TOTAL",
    });
    connection.ok("TransactWriteItems", transaction.clone()).await;
    // Repeated it reads, and writes nothing.
    for _ in 0..2 {
        let answer = connection.ok("TransactWriteItems", transaction.clone()).await;
        assert_eq!(answer["ConsumedCapacity"][0]["ReadCapacityUnits"], json!(2.0));
    }
    assert_eq!(refused(&mut connection, "GetItem", &get("a")).await[0], PROVISIONED);
    let reads = json!({"TransactItems": [{"Get": {"TableName": "hot", "Key": {"pk": {"S": "a"}}}}]});
    let answer = connection.post("TransactGetItems", &[], reads.to_string()).await;
    assert_eq!(answer.json()["CancellationReasons"][0]["Code"], "ProvisionedThroughputExceeded");

    // One that is cancelled costs the items as they are: nothing is written of the large one.
    let large =
        json!({"Put": {"TableName": "hot", "Item": {"pk": {"S": "b"}, "v": {"S": "x".repeat(300_000)}}}});
    let failing = json!({"ConditionCheck": {
        "TableName": "hot", "Key": {"pk": {"S": "a"}}, "ConditionExpression": "attribute_not_exists(pk)",
    }});
    let cancelled = json!({"TransactItems": [large, failing]}).to_string();
    let answer = connection.post("TransactWriteItems", &[], cancelled).await;
    assert_eq!(answer.json()["CancellationReasons"][1]["Code"], "ConditionalCheckFailed");
    connection.ok("PutItem", put("c", 10)).await;
    connection.ok("PutItem", put("c", 10)).await;
    assert_eq!(refused(&mut connection, "PutItem", &put("c", 10)).await[0], PROVISIONED, "8 = 2 + 4 + 2");
}

#[tokio::test]
async fn time_counts_at_the_rate_that_there_was() {
    let server = throttling().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", table(&json!({"ProvisionedThroughput": units(1)}))).await;
    until_refused(&mut connection, &put("a", 10), 10).await;
    advance(&mut connection, 20).await;
    let raised = json!({"TableName": "hot", "ProvisionedThroughput": units(1000)});
    connection.ok("UpdateTable", raised).await;
    let (passed, _) = until_refused(&mut connection, &put("a", 10), 100).await;
    assert_eq!(passed, 20, "twenty seconds of one");
    advance(&mut connection, 1).await;
    connection.ok("PutItem", put("a", 390_000)).await;
    connection.ok("PutItem", put("a", 390_000)).await;

    // What a table on demand may do in a second was not saved by one that is provisioned.
    let on_demand = json!({"TableName": "hot", "BillingMode": "PAY_PER_REQUEST"});
    connection.ok("UpdateTable", on_demand).await;
    advance(&mut connection, 3600).await;
    connection.ok("PutItem", put("b", 10)).await;
    let provisioned =
        json!({"TableName": "hot", "BillingMode": "PROVISIONED", "ProvisionedThroughput": units(2)});
    connection.ok("UpdateTable", provisioned).await;
    let (passed, _) = until_refused(&mut connection, &put("b", 10), 100).await;
    assert_eq!(passed, 2);
}

#[tokio::test]
async fn an_index_that_is_made_later_begins_with_a_second_and_owes_nothing_of_one_before() {
    let server = throttling().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", table(&json!({"ProvisionedThroughput": units(1000)}))).await;
    advance(&mut connection, 3600).await;
    let of_index = json!({"ProvisionedThroughput": units(1)});
    let index = indexed(&json!({}), &of_index)["GlobalSecondaryIndexes"][0].clone();
    let attributes = indexed(&json!({}), &of_index)["AttributeDefinitions"].clone();
    let create = json!({
        "TableName": "hot", "AttributeDefinitions": attributes,
        "GlobalSecondaryIndexUpdates": [{"Create": index}],
    });
    for again in [false, true] {
        connection.ok("UpdateTable", create.clone()).await;
        until_active(&mut connection).await;
        let name = format!("first {again}");
        connection.ok("PutItem", put_indexed(&name, &name, 200_000)).await;
        let found = refused(&mut connection, "PutItem", &put_indexed("second", &name, 10)).await;
        assert_eq!(found, [PROVISIONED, "IndexWriteProvisionedThroughputExceeded", "table/hot/index/by_g"]);
        let drop =
            json!({"TableName": "hot", "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "by_g"}}]});
        connection.ok("UpdateTable", drop).await;
        until_active(&mut connection).await;
    }
}

/// It is being filled meanwhile, by a thread of its own.
async fn until_active(connection: &mut Connection) {
    for _ in 0..100_000 {
        let table = connection.ok("DescribeTable", json!({"TableName": "hot"})).await["Table"].take();
        let indexes = table["GlobalSecondaryIndexes"].as_array().cloned().unwrap_or_default();
        if table["TableStatus"] == "ACTIVE" && indexes.iter().all(|index| index["IndexStatus"] == "ACTIVE") {
            return;
        }
    }
    panic!("the index is never filled");
}

#[tokio::test]
async fn what_is_turned_away_is_counted_once() {
    let server = throttling().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", table(&json!({"ProvisionedThroughput": units(2)}))).await;
    let write = |pk: &str| json!({"PutRequest": {"Item": {"pk": {"S": pk}}}});
    let batch = json!({"RequestItems": {"hot": [write("a"), write("b"), write("c"), write("d")]}});
    connection.ok("BatchWriteItem", batch.clone()).await;
    assert_eq!(throttled(&mut connection, "BatchWriteItem").await, 2, "the items that are left");
    assert_eq!(refused(&mut connection, "BatchWriteItem", &batch).await[0], PROVISIONED);
    assert_eq!(throttled(&mut connection, "BatchWriteItem").await, 3, "the request");

    let key = |pk: &str| json!({"pk": {"S": pk}});
    let batch =
        json!({"RequestItems": {"hot": {"Keys": [key("a"), key("b"), key("c")], "ConsistentRead": true}}});
    let answer = connection.ok("BatchGetItem", batch.clone()).await;
    assert_eq!(answer["UnprocessedKeys"]["hot"]["Keys"], json!([key("c")]));
    assert_eq!(throttled(&mut connection, "BatchGetItem").await, 1);
    assert_eq!(refused(&mut connection, "BatchGetItem", &batch).await[0], PROVISIONED);
    assert_eq!(throttled(&mut connection, "BatchGetItem").await, 2);

    // Of a batch of statements each is answered by itself.
    let statements = json!({"Statements": [insert("x"), insert("y")]});
    let answer = connection.ok("BatchExecuteStatement", statements).await;
    assert_eq!(answer["Responses"][0]["Error"]["Code"], "ProvisionedThroughputExceeded");
    assert_eq!(answer["Responses"][1]["Error"]["Code"], "ProvisionedThroughputExceeded");
    assert_eq!(throttled(&mut connection, "BatchExecuteStatement").await, 2);
    let read = json!({"Statements": [{"Statement": "SELECT * FROM hot WHERE pk = 'a'"}]});
    let answer = connection.ok("BatchExecuteStatement", read).await;
    assert_eq!(answer["Responses"][0]["Error"]["Code"], "ProvisionedThroughputExceeded");
    assert_eq!(throttled(&mut connection, "BatchExecuteStatement").await, 3);

    let transaction = json!({"TransactStatements": [insert("x"), insert("y")]}).to_string();
    let answer = connection.post("ExecuteTransaction", &[], transaction).await;
    assert_eq!(answer.json()["CancellationReasons"][1]["Code"], "ProvisionedThroughputExceeded");
    assert_eq!(throttled(&mut connection, "ExecuteTransaction").await, 2);
}

#[tokio::test]
async fn what_a_batch_leaves_is_named_as_it_was_asked_for() {
    let server = throttling().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", table(&json!({"ProvisionedThroughput": units(1)}))).await;
    let arn = "arn:aws:dynamodb:us-east-1:000000000000:table/hot";
    let write = |pk: &str| json!({"PutRequest": {"Item": {"pk": {"S": pk}}}});
    let batch = json!({"RequestItems": {arn: [write("a"), write("b")]}});
    let answer = connection.ok("BatchWriteItem", batch).await;
    assert_eq!(answer["UnprocessedItems"], json!({arn: [write("b")]}));
    let keys = |pk: &str| json!({"Keys": [{"pk": {"S": pk}}], "ConsistentRead": true});
    let batch = json!({"RequestItems": {arn: keys("a"), "hot": keys("b")}});
    let answer = connection.ok("BatchGetItem", batch).await;
    assert_eq!(answer["Responses"], json!({arn: [{"pk": {"S": "a"}}], "hot": []}));
    assert_eq!(answer["UnprocessedKeys"], json!({"hot": keys("b")}));
}

#[tokio::test]
async fn a_hot_key_and_an_index_are_told_from_the_table() {
    let server = throttling().await;
    let mut connection = server.connect().await;
    let of_index = json!({"ProvisionedThroughput": units(2)});
    connection.ok("CreateTable", indexed(&json!({"ProvisionedThroughput": units(5000)}), &of_index)).await;
    for _ in 0..3 {
        connection.ok("PutItem", put("hot", 390_000)).await;
    }
    let found = refused(&mut connection, "PutItem", &put("hot", 10)).await;
    assert_eq!(found, [PROVISIONED, "TableWriteKeyRangeThroughputExceeded", "table/hot"]);
    for _ in 0..32 {
        connection.ok("GetItem", get("hot")).await;
    }
    let found = refused(&mut connection, "GetItem", &get("hot")).await;
    assert_eq!(found, [PROVISIONED, "TableReadKeyRangeThroughputExceeded", "table/hot"]);
    connection.ok("GetItem", get("another")).await;

    let query = json!({
        "TableName": "hot", "IndexName": "by_g",
        "KeyConditionExpression": "g = :g", "ExpressionAttributeValues": {":g": {"S": "g"}},
    });
    for _ in 0..4 {
        connection.ok("Query", query.clone()).await;
    }
    for (operation, request) in [
        ("Query", query),
        ("Scan", json!({"TableName": "hot", "IndexName": "by_g"})),
        ("ExecuteStatement", json!({"Statement": r#"SELECT * FROM hot."by_g" WHERE g = 'g'"#})),
    ] {
        let found = refused(&mut connection, operation, &request).await;
        assert_eq!(found, [PROVISIONED, "IndexReadProvisionedThroughputExceeded", "table/hot/index/by_g"]);
    }

    connection.ok("DeleteTable", json!({"TableName": "hot"})).await;
    let most = json!({"OnDemandThroughput": {"MaxReadRequestUnits": 1, "MaxWriteRequestUnits": 1}});
    connection.ok("CreateTable", indexed(&json!({"BillingMode": "PAY_PER_REQUEST"}), &most)).await;
    connection.ok("PutItem", put_indexed("a", "g", 10)).await;
    let found = refused(&mut connection, "PutItem", &put_indexed("b", "g", 10)).await;
    let reason = "IndexWriteMaxOnDemandThroughputExceeded";
    assert_eq!(found, ["ThrottlingException", reason, "table/hot/index/by_g"]);
}

#[tokio::test]
async fn a_table_on_demand_has_forty_thousand_units() {
    let server = throttling().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", table(&json!({"BillingMode": "PAY_PER_REQUEST"}))).await;
    let text = "x".repeat(390_000);
    for each in 0..6 {
        let item = |at: i32| json!({"pk": {"S": format!("{each} {at}")}, "v": {"S": text}});
        let puts: Vec<Value> =
            (0..10).map(|at| json!({"Put": {"TableName": "hot", "Item": item(at)}})).collect();
        connection.ok("TransactWriteItems", json!({"TransactItems": puts})).await;
    }
    let found = refused(&mut connection, "PutItem", &put("a", 10)).await;
    assert_eq!(found, ["RequestLimitExceeded", "TableWriteAccountLimitExceeded", "table/hot"]);
    let batch = json!({"Statements": [insert("a")]});
    let answer = connection.ok("BatchExecuteStatement", batch).await;
    assert_eq!(answer["Responses"][0]["Error"]["Code"], "RequestLimitExceeded");
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
