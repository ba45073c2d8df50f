//! `--stream-shards` as a client sees it: parents and children, described in pages and read to their ends.

#[expect(dead_code, reason = "shared with other test files")]
mod client;

use std::collections::BTreeSet;

use client::{Connection, Running};
use hyper::{Method, StatusCode};
use larder_server::{Config, Server, StoreConfig};
use serde_json::{Value, json};

async fn divided(shards: u32) -> Running {
    let config = Config { stream_shards: shards, ..Config::local(StoreConfig::Memory) };
    let server = Server::bind(config).await.expect("a free port and an empty store open");
    // Time passes only as a test says.
    server.clock().stop();
    Running::serve(server)
}

async fn streams(connection: &mut Connection, operation: &str, body: &Value) -> Value {
    let target = format!("DynamoDBStreams_20120810.{operation}");
    let headers = [("x-amz-target", &*target), ("content-type", "application/x-amz-json-1.0")];
    let answer = connection.send(Method::POST, "/", &headers, body.to_string()).await;
    assert_eq!(answer.status, StatusCode::OK, "{operation} {body}: {:?}", answer.body);
    answer.json()
}

/// Moves the clock. The work that is due by then is done when this is over.
async fn advance_hours(connection: &mut Connection, hours: u64) {
    let body = json!({"advance_seconds": hours * 3600}).to_string();
    let answer =
        connection.send(Method::POST, "/_larder/clock", &[("content-type", "application/json")], body).await;
    assert_eq!(answer.status, StatusCode::OK);
}

async fn create(connection: &mut Connection) -> Value {
    let table = json!({
        "TableName": "orders",
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
        "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "KEYS_ONLY"},
    });
    connection.ok("CreateTable", table).await["TableDescription"]["LatestStreamArn"].clone()
}

async fn put(connection: &mut Connection, names: std::ops::Range<u32>) {
    for name in names {
        let item = json!({"TableName": "orders", "Item": {"pk": {"S": name.to_string()}}});
        connection.ok("PutItem", item).await;
    }
}

/// The keys in a shard, and whether it ended.
async fn read(connection: &mut Connection, arn: &Value, shard: &Value) -> (BTreeSet<String>, bool) {
    let request = json!({"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"});
    let mut next = streams(connection, "GetShardIterator", &request).await["ShardIterator"].clone();
    let mut keys = BTreeSet::new();
    loop {
        let page = streams(connection, "GetRecords", &json!({"ShardIterator": next, "Limit": 3})).await;
        let records = page["Records"].as_array().expect("a list");
        let key = |record: &Value| record["dynamodb"]["Keys"]["pk"]["S"].as_str().map(str::to_owned);
        keys.extend(records.iter().filter_map(key));
        match page.get("NextShardIterator") {
            None => return (keys, true),
            Some(_) if records.is_empty() => return (keys, false),
            Some(after) => next = after.clone(),
        }
    }
}

#[tokio::test]
async fn shards_have_parents_and_end() {
    let server = divided(2).await;
    let mut connection = server.connect().await;
    let arn = create(&mut connection).await;
    put(&mut connection, 0..20).await;
    advance_hours(&mut connection, 4).await;
    put(&mut connection, 20..40).await;

    let mut found = Vec::new();
    let mut request = json!({"StreamArn": arn, "Limit": 2});
    loop {
        let described = streams(&mut connection, "DescribeStream", &request).await;
        let described = &described["StreamDescription"];
        found.extend(described["Shards"].as_array().expect("a list").iter().cloned());
        match described.get("LastEvaluatedShardId") {
            Some(last) => request["ExclusiveStartShardId"] = last.clone(),
            None => break,
        }
    }
    let [first, left, right] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(first.get("ParentShardId"), None);
    for child in [left, right] {
        assert_eq!(child["ParentShardId"], first["ShardId"]);
        assert_eq!(child["SequenceNumberRange"].get("EndingSequenceNumber"), None);
        assert!(
            child["SequenceNumberRange"]["StartingSequenceNumber"].as_str()
                > first["SequenceNumberRange"]["EndingSequenceNumber"].as_str()
        );
        assert!((28..=65).contains(&child["ShardId"].as_str().map_or(0, str::len)));
    }
    let filter = json!({"Type": "CHILD_SHARDS", "ShardId": first["ShardId"]});
    let children =
        streams(&mut connection, "DescribeStream", &json!({"StreamArn": arn, "ShardFilter": filter})).await;
    assert_eq!(children["StreamDescription"]["Shards"], json!([left, right]));

    let named = |range: std::ops::Range<u32>| range.map(|name| name.to_string()).collect::<BTreeSet<_>>();
    assert_eq!(read(&mut connection, &arn, first).await, (named(0..20), true));
    let (one, one_ended) = read(&mut connection, &arn, left).await;
    let (other, other_ended) = read(&mut connection, &arn, right).await;
    assert!(!one_ended && !other_ended && one.is_disjoint(&other));
    assert_eq!(one.union(&other).cloned().collect::<BTreeSet<_>>(), named(20..40));
}

#[tokio::test]
async fn a_stream_has_one_shard_unless_more_are_asked_for() {
    let server = divided(1).await;
    let mut connection = server.connect().await;
    let arn = create(&mut connection).await;
    advance_hours(&mut connection, 20).await;
    put(&mut connection, 0..3).await;
    let described = streams(&mut connection, "DescribeStream", &json!({"StreamArn": arn})).await;
    let shards = described["StreamDescription"]["Shards"].as_array().expect("a list");
    let [shard] = shards.as_slice() else { panic!("{shards:?}") };
    let members: BTreeSet<&String> = shard.as_object().expect("members").keys().collect();
    assert_eq!(members.into_iter().collect::<Vec<_>>(), ["SequenceNumberRange", "ShardId"]);
    assert_eq!(described["StreamDescription"].get("LastEvaluatedShardId"), None);
}
