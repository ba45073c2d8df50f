//! What `/metrics`, `/healthz` and `/readyz` say, against what a client was told meanwhile.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

#[expect(dead_code, reason = "shared with other test files")]
mod client;

use std::collections::BTreeMap;

use client::{Connection, Running};
use hyper::{Method, StatusCode};
use larder_engine::Engine;
use larder_model::Clock;
use larder_server::Server;
use larder_storage::faulty::{self, FaultyDisk};
use larder_storage::{Options, Store};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Duration, timeout};

/// Samples by name and labels, as they are written.
type Samples = BTreeMap<String, f64>;

async fn scrape(connection: &mut Connection) -> Samples {
    let answer = connection.send(Method::GET, "/metrics", &[], "").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let samples = samples.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    samples.collect()
}

/// The sum of what is under a name and has all these labels.
fn sum(samples: &Samples, name: &str, labels: &[&str]) -> f64 {
    let of_name = |known: &str| known.split('{').next() == Some(name);
    let chosen = samples.iter().filter(|(known, _)| of_name(known));
    chosen.filter(|(known, _)| labels.iter().all(|label| known.contains(label))).map(|(_, value)| value).sum()
}

fn table(name: &str) -> Value {
    let key = |attribute: &str, role: &str| json!({"AttributeName": attribute, "KeyType": role});
    let typed = |attribute: &str| json!({"AttributeName": attribute, "AttributeType": "S"});
    json!({
        "TableName": name,
        "AttributeDefinitions": [typed("pk"), typed("sk"), typed("colour"), typed("size")],
        "KeySchema": [key("pk", "HASH"), key("sk", "RANGE")],
        "GlobalSecondaryIndexes": [{
            "IndexName": "by_colour",
            "KeySchema": [key("colour", "HASH")],
            "Projection": {"ProjectionType": "ALL"},
        }],
        "LocalSecondaryIndexes": [{
            "IndexName": "by_size",
            "KeySchema": [key("pk", "HASH"), key("size", "RANGE")],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }],
        "BillingMode": "PAY_PER_REQUEST",
    })
}

fn item(sk: &str, colour: &str, note_bytes: usize) -> Value {
    json!({
        "pk": {"S": "fruit"}, "sk": {"S": sk}, "colour": {"S": colour}, "size": {"S": "m"},
        "note": {"S": "n".repeat(note_bytes)},
    })
}

fn key(sk: &str) -> Value {
    json!({"pk": {"S": "fruit"}, "sk": {"S": sk}})
}

/// What a client was told that it consumed.
#[derive(Default)]
struct Told {
    table: f64,
    global: f64,
}

impl Told {
    fn add(&mut self, answer: &Value) {
        let consumed = &answer["ConsumedCapacity"];
        let one = consumed.is_object().then(|| vec![consumed.clone()]);
        for consumed in one.or_else(|| consumed.as_array().cloned()).unwrap_or_default() {
            let global = consumed["GlobalSecondaryIndexes"]["by_colour"]["CapacityUnits"].as_f64();
            self.table += consumed["CapacityUnits"].as_f64().unwrap() - global.unwrap_or(0.0);
            self.global += global.unwrap_or(0.0);
        }
    }
}

/// Everything that consumes units, with or without being told how many.
fn work(capacity: Option<&str>) -> Vec<(&'static str, Value)> {
    let ask = |mut body: Value| {
        if let Some(capacity) = capacity {
            body["ReturnConsumedCapacity"] = capacity.into();
        }
        body
    };
    let on_table = |mut body: Value| {
        body["TableName"] = "fruit".into();
        ask(body)
    };
    let values = json!({":p": {"S": "fruit"}});
    let colour = json!({":c": {"S": "red"}});
    vec![
        ("PutItem", on_table(json!({"Item": item("apple", "red", 3000)}))),
        ("PutItem", on_table(json!({"Item": item("pear", "green", 10)}))),
        (
            "UpdateItem",
            on_table(json!({
                "Key": key("pear"), "UpdateExpression": "SET colour = :c",
                "ExpressionAttributeValues": colour.clone(),
            })),
        ),
        ("GetItem", on_table(json!({"Key": key("apple"), "ConsistentRead": true}))),
        ("GetItem", on_table(json!({"Key": key("apple")}))),
        ("GetItem", on_table(json!({"Key": key("nothing")}))),
        (
            "Query",
            on_table(
                json!({"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": values.clone()}),
            ),
        ),
        (
            "Query",
            on_table(json!({
                "IndexName": "by_colour", "KeyConditionExpression": "colour = :c",
                "ExpressionAttributeValues": colour,
            })),
        ),
        (
            "Query",
            on_table(json!({
                "IndexName": "by_size", "KeyConditionExpression": "pk = :p",
                "ExpressionAttributeValues": values, "Select": "ALL_ATTRIBUTES",
            })),
        ),
        ("Scan", on_table(json!({}))),
        (
            "BatchGetItem",
            ask(
                json!({"RequestItems": {"fruit": {"Keys": [key("apple"), key("pear")]}, "other": {"Keys": [key("x")]}}}),
            ),
        ),
        (
            "BatchWriteItem",
            ask(json!({"RequestItems": {"fruit": [
                {"PutRequest": {"Item": item("plum", "blue", 2000)}},
                {"PutRequest": {"Item": item("fig", "blue", 1)}},
            ]}})),
        ),
        (
            "TransactGetItems",
            ask(json!({"TransactItems": [{"Get": {"TableName": "fruit", "Key": key("apple")}}]})),
        ),
        (
            "TransactWriteItems",
            ask(json!({"TransactItems": [
                {"Put": {"TableName": "fruit", "Item": item("kiwi", "green", 1200)}},
                {"Put": {"TableName": "other", "Item": item("kiwi", "green", 1)}},
            ]})),
        ),
        ("DeleteItem", on_table(json!({"Key": key("plum")}))),
        ("ExecuteStatement", ask(json!({"Statement": "SELECT * FROM fruit WHERE pk IN ['fruit', 'none']"}))),
        (
            "ExecuteStatement",
            ask(json!({"Statement": "SELECT * FROM \"fruit\".\"by_colour\" WHERE colour = 'red'"})),
        ),
        (
            "ExecuteStatement",
            ask(json!({"Statement": "UPDATE fruit SET colour = 'pink' WHERE pk = 'fruit' AND sk = 'apple'"})),
        ),
        (
            "BatchExecuteStatement",
            ask(json!({"Statements": [
                {"Statement": "INSERT INTO fruit VALUE {'pk': 'fruit', 'sk': 'lime', 'colour': 'green'}"},
                {"Statement": "INSERT INTO other VALUE {'pk': 'fruit', 'sk': 'lime'}"},
            ]})),
        ),
        (
            "ExecuteTransaction",
            ask(json!({"TransactStatements": [
                {"Statement": "SELECT * FROM fruit WHERE pk = 'fruit' AND sk = 'apple'"},
            ]})),
        ),
        (
            "ExecuteTransaction",
            ask(json!({"TransactStatements": [
                {"Statement": "DELETE FROM fruit WHERE pk = 'fruit' AND sk = 'lime'"},
            ]})),
        ),
    ]
}

const READS: &str = "larder_consumed_read_capacity_units_total";
const WRITES: &str = "larder_consumed_write_capacity_units_total";

#[tokio::test]
async fn l10_units_are_what_clients_are_told_also_those_who_do_not_ask() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    for name in ["fruit", "other"] {
        connection.ok("CreateTable", table(name)).await;
    }
    let (mut reads, mut writes) = (Told::default(), Told::default());
    for (operation, body) in work(Some("INDEXES")) {
        let reading = ["GetItem", "Query", "Scan", "BatchGetItem", "TransactGetItems"].contains(&operation)
            || body.to_string().contains("SELECT");
        let answer = connection.ok(operation, body).await;
        if reading { &mut reads } else { &mut writes }.add(&answer);
    }
    assert!(reads.global > 0.0 && writes.global > 0.0);
    let asked = scrape(&mut connection).await;
    for (name, told) in [(READS, &reads), (WRITES, &writes)] {
        let global = sum(&asked, name, &["index=\"by_colour\""]);
        assert_eq!(global, told.global, "{name}");
        assert_eq!(sum(&asked, name, &[]) - global, told.table, "{name}");
    }

    // Once more from the same state, without asking.
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    for name in ["fruit", "other"] {
        connection.ok("CreateTable", table(name)).await;
    }
    for (operation, body) in work(None) {
        connection.ok(operation, body).await;
    }
    let unasked = scrape(&mut connection).await;
    let units = |samples: &Samples| -> Vec<(String, f64)> {
        let units = samples.iter().filter(|(name, _)| name.contains("capacity_units"));
        units.map(|(name, value)| (name.clone(), *value)).collect()
    };
    assert_eq!(units(&unasked), units(&asked));
}

#[tokio::test]
async fn l10_requests_are_timed_and_faults_counted_by_whose_they_are() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    for name in ["fruit", "other"] {
        connection.ok("CreateTable", table(name)).await;
    }
    for (operation, body) in work(None) {
        connection.ok(operation, body).await;
    }
    let refuse = async |connection: &mut Connection, operation: &str, body: Value| {
        let answer = connection.post(operation, &[], body.to_string()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        answer.error()
    };
    let before = scrape(&mut connection).await;
    // The apple is there, and has 3 KB.
    let put = json!({"TableName": "fruit", "Item": item("apple", "red", 1), "ConditionExpression": "attribute_not_exists(pk)"});
    assert_eq!(refuse(&mut connection, "PutItem", put.clone()).await, "ConditionalCheckFailedException");
    let transaction = json!({"TransactItems": [{"Put": put}]});
    assert_eq!(
        refuse(&mut connection, "TransactWriteItems", transaction).await,
        "TransactionCanceledException"
    );
    let wrong_key = json!({"TableName": "fruit", "Key": {"pk": {"N": "1"}}});
    assert_eq!(refuse(&mut connection, "GetItem", wrong_key).await, "ValidationException");
    for n in 0..20 {
        let unknown = json!({"TableName": format!("made-up-{n}"), "Key": key("apple")});
        assert_eq!(refuse(&mut connection, "GetItem", unknown).await, "ResourceNotFoundException");
    }
    refuse(&mut connection, "PutItem", json!({"TableName": 5})).await;
    refuse(&mut connection, "MakeCoffee", json!({})).await;
    let after = scrape(&mut connection).await;

    let grown = |name: &str, labels: &[&str]| sum(&after, name, labels) - sum(&before, name, labels);
    let latency = "larder_successful_request_latency_seconds_count";
    assert_eq!(sum(&after, latency, &["table=\"fruit\"", "operation=\"GetItem\""]), 3.0);
    assert_eq!(sum(&after, latency, &["table=\"fruit\"", "operation=\"Query\""]), 3.0);
    assert_eq!(sum(&after, latency, &["table=\"other\"", "operation=\"TransactWriteItems\""]), 1.0);
    assert_eq!(sum(&after, latency, &["operation=\"CreateTable\""]), 2.0);
    assert_eq!(grown(latency, &[]), 0.0, "only what succeeded is timed");

    let failed = "larder_conditional_check_failed_requests_total";
    assert_eq!(grown(failed, &["table=\"fruit\"", "operation=\"PutItem\""]), 1.0);
    assert_eq!(grown(failed, &["table=\"fruit\"", "operation=\"TransactWriteItems\""]), 1.0);
    assert_eq!(grown(WRITES, &["operation=\"PutItem\""]), 3.0, "the item it met");
    let user = "larder_user_errors_total";
    assert_eq!(grown(user, &["table=\"fruit\"", "operation=\"PutItem\""]), 0.0);
    assert_eq!(grown(user, &["table=\"fruit\"", "operation=\"TransactWriteItems\""]), 1.0);
    assert_eq!(grown(user, &["table=\"fruit\"", "operation=\"GetItem\""]), 1.0);
    assert_eq!(after["larder_user_errors_total{operation=\"GetItem\"}"], 20.0);
    assert_eq!(after["larder_user_errors_total{operation=\"PutItem\"}"], 1.0);
    assert_eq!(after["larder_user_errors_total{operation=\"Unknown\"}"], 1.0);
    assert!(!after.keys().any(|name| name.contains("made-up")));

    let returned = "larder_returned_item_count_total";
    assert_eq!(sum(&after, returned, &["operation=\"Query\""]), 6.0);
    assert_eq!(sum(&after, returned, &["operation=\"Scan\""]), 2.0);
    for name in ["larder_system_errors_total", "larder_throttled_requests_total"] {
        assert_eq!(sum(&after, name, &["table=\"fruit\""]), 0.0);
        assert!(after.contains_key(&format!("{name}{{table=\"fruit\",operation=\"GetItem\"}}")));
    }
    assert_eq!(
        after["larder_transaction_conflict_total{table=\"fruit\",operation=\"TransactWriteItems\"}"],
        0.0
    );
    assert_eq!(after["larder_open_connections"], 1.0);
    assert!(after["larder_store_commits_total"] > 0.0 && after["larder_store_bytes"] > 0.0);
}

#[tokio::test]
async fn items_that_expire_are_counted_and_cost_nothing() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", table("fruit")).await;
    let enabled = json!({"AttributeName": "ttl", "Enabled": true});
    connection
        .ok("UpdateTimeToLive", json!({"TableName": "fruit", "TimeToLiveSpecification": enabled}))
        .await;
    let moved = connection.send(
        Method::POST,
        "/_larder/clock",
        &[("content-type", "application/json")],
        json!({"advance_seconds": 0}).to_string(),
    );
    let now = moved.await.json()["now"].as_i64().unwrap();
    for sk in ["apple", "pear"] {
        let mut item = item(sk, "red", 1);
        item["ttl"] = json!({"N": (now + 60).to_string()});
        connection.ok("PutItem", json!({"TableName": "fruit", "Item": item})).await;
    }
    let expired = "larder_time_to_live_deleted_items_total{table=\"fruit\"}";
    let before = scrape(&mut connection).await;
    assert_eq!(before[expired], 0.0);
    let body = json!({"advance_seconds": 3600}).to_string();
    connection.send(Method::POST, "/_larder/clock", &[("content-type", "application/json")], body).await;
    let after = scrape(&mut connection).await;
    assert_eq!(after[expired], 2.0);
    assert_eq!(sum(&after, WRITES, &[]), sum(&before, WRITES, &[]));
}

#[tokio::test]
async fn a_table_that_is_dropped_takes_its_figures_along() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", table("fruit")).await;
    connection.ok("PutItem", json!({"TableName": "fruit", "Item": item("apple", "red", 1)})).await;
    assert!(sum(&scrape(&mut connection).await, WRITES, &["table=\"fruit\""]) > 0.0);
    let change = json!({"TableName": "fruit", "DeletionProtectionEnabled": false});
    connection.ok("UpdateTable", change).await;
    assert!(
        sum(&scrape(&mut connection).await, WRITES, &["table=\"fruit\""]) > 0.0,
        "a change of the table keeps them"
    );
    connection.ok("DeleteTable", json!({"TableName": "fruit"})).await;
    let after = scrape(&mut connection).await;
    assert!(!after.keys().any(|name| name.contains("table=")), "{after:?}");
}

#[tokio::test]
async fn a_server_says_that_it_lives_and_is_ready() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    for path in ["/healthz", "/readyz"] {
        let answer = connection.send(Method::GET, path, &[], "").await;
        assert_eq!((answer.status, &*answer.body), (StatusCode::OK, &b"ok\n"[..]), "{path}");
        let posted = connection.send(Method::POST, path, &[], "").await;
        assert_eq!(posted.status, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn a_server_on_a_store_of_its_process_ends_its_metrics_with_what_the_process_counts() {
    let engine = Engine::memory().unwrap();
    let server = Server::share(engine, Clock::system(), ([127, 0, 0, 1], 0).into()).await.unwrap();
    let server = server.with_metrics(|| "more 1\n".to_owned());
    let address = server.address();
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    let ask = async |path: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(Duration::from_secs(30), stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        answer
    };
    assert!(ask("/readyz").await.starts_with("HTTP/1.0 200"));
    let metrics = ask("/metrics").await;
    assert!(metrics.contains("\nlarder_uptime_seconds ") && metrics.ends_with("\nmore 1\n"), "{metrics}");
    stop.send(()).unwrap();
    ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_whose_writes_fail_is_not_ready_until_one_succeeds() {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), Options::default()).unwrap();
    let engine = Engine::on_store(store).unwrap();
    let server = Server::share(engine, Clock::system(), ([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = server.address();
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    let mut connection = Connection::to(address).await;
    let ready = async |connection: &mut Connection| {
        let answer = connection.send(Method::GET, "/readyz", &[], "").await;
        (answer.status, String::from_utf8(answer.body.to_vec()).unwrap())
    };
    connection.ok("CreateTable", table("fruit")).await;
    let put = json!({"TableName": "fruit", "Item": item("apple", "red", 1)});
    assert_eq!(ready(&mut connection).await.0, StatusCode::OK);

    disk.fail(faulty::Operation::Change, 0, faulty::Lasting::Forever);
    let failed = connection.post("PutItem", &[], put.to_string()).await;
    assert_eq!(failed.status, StatusCode::INTERNAL_SERVER_ERROR);
    let (status, reason) = ready(&mut connection).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(reason.starts_with("the last write failed: "), "{reason}");

    disk.heal();
    connection.ok("PutItem", put).await;
    assert_eq!(ready(&mut connection).await.0, StatusCode::OK);
    stop.send(()).unwrap();
    ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_last_requests_are_kept_for_who_asks_and_answers_stay_as_they_were() {
    let engine = Engine::memory().unwrap();
    let mut server = Server::share(engine, Clock::system(), ([127, 0, 0, 1], 0).into()).await.unwrap();
    let (requests, address) = (server.requests(), server.address());
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    let mut connection = Connection::to(address).await;
    connection.ok("CreateTable", table("fruit")).await;
    let put = json!({"TableName": "fruit", "Item": item("apple", "red", 2000)});
    let answer = connection.ok("PutItem", put.clone()).await;
    assert_eq!(answer, json!({}), "nobody asked for the units");
    let mut asking = put;
    asking["ReturnConsumedCapacity"] = "TOTAL".into();
    let told = connection.ok("PutItem", asking).await["ConsumedCapacity"]["CapacityUnits"].as_f64().unwrap();
    let gets = json!([{"Get": {"TableName": "fruit", "Key": key("apple")}}, {"Get": {"TableName": "fruit", "Key": key("none")}}]);
    let answer = connection.ok("TransactGetItems", json!({"TransactItems": gets})).await;
    assert!(answer.get("ConsumedCapacity").is_none(), "{answer}");
    let refused =
        connection.post("GetItem", &[], json!({"TableName": "none", "Key": key("a")}).to_string()).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    connection.post("MakeTea", &[], "{}").await;

    let seen: Vec<_> = requests.last();
    let lines: Vec<_> = seen
        .iter()
        .map(|asked| {
            let table = asked.table.as_ref().map(larder_model::TableName::as_str);
            (asked.operation.name(), table, asked.tables, asked.units, asked.error)
        })
        .collect();
    assert_eq!(
        lines,
        [
            ("CreateTable", None, 0, 0.0, None),
            // The first one writes to the indexes too.
            ("PutItem", Some("fruit"), 1, told + 3.0, None),
            ("PutItem", Some("fruit"), 1, told, None),
            ("TransactGetItems", Some("fruit"), 2, 4.0, None),
            ("GetItem", Some("none"), 1, 0.0, Some("ResourceNotFoundException")),
            ("Unknown", None, 0, 0.0, Some("UnknownOperationException")),
        ]
    );
    assert!(seen.iter().all(|asked| asked.took > Duration::ZERO));
    drop(connection);
    stop.send(()).unwrap();
    ended.await.unwrap().unwrap();
}
