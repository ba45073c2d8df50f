//! `kill -9` under load, again and again on one store: every acknowledged write is there, no transaction is
//! half there, and the index agrees with the items.
//!
//! Each round starts the server, checks what the last round left, lets eight writers write, and kills the
//! server at a random moment. A writer writes one thing after the other, so at a kill at most its last write is
//! of unknown outcome.
//!
//! `LARDER_KILL_ROUNDS` and `LARDER_KILL_SEED` run it longer, or again.

mod process;

use std::collections::BTreeMap;
use std::env;
use std::hash::{BuildHasher, RandomState};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use process::{Client, Larder};
use serde_json::{Value, json};

const ROUNDS: u64 = 50;
const WRITERS: usize = 8;
/// Items each writer puts, over and over.
const SLOTS: u64 = 40;
/// Partitions of the index. An item moves between them as its number grows.
const GROUPS: u64 = 5;
const LOAD_MILLIS_MAX: u64 = 200;

#[test]
fn acknowledged_writes_survive_kill_9() {
    let rounds = from_env("LARDER_KILL_ROUNDS").unwrap_or(ROUNDS);
    let seed = from_env("LARDER_KILL_SEED").unwrap_or_else(|| RandomState::new().hash_one("kill"));
    println!("LARDER_KILL_SEED={seed}");
    let mut random = Random(seed);
    let dir = tempfile::tempdir().unwrap();
    let mut writers: Vec<Writer> = (0..WRITERS).map(Writer::new).collect();
    let mut acknowledged = 0;
    for round in 0..rounds {
        let server = Larder::on(dir.path(), &[]);
        let client = Client::new(&server.url);
        if round == 0 {
            client.ok("CreateTable", table());
        }
        check(&client, &mut writers, round);

        let load = Duration::from_millis(random.below(LOAD_MILLIS_MAX));
        let url = server.url.clone();
        let (stopped, stop) = mpsc::channel::<()>();
        writers = thread::scope(|scope| {
            let running: Vec<_> = writers
                .drain(..)
                .map(|mut writer| {
                    let (url, stopped) = (&url, stopped.clone());
                    scope.spawn(move || {
                        writer.write_until_gone(url);
                        drop(stopped);
                        writer
                    })
                })
                .collect();
            drop(stopped);
            // Ends early only if every writer lost its server before the kill.
            let waited = stop.recv_timeout(load);
            assert_eq!(waited, Err(mpsc::RecvTimeoutError::Timeout), "the server left by itself");
            drop(server);
            running.into_iter().map(|writer| writer.join().expect("a writer keeps its rules")).collect()
        });
        acknowledged = writers.iter().map(|writer| writer.acknowledged).sum::<u64>();
    }
    let server = Larder::on(dir.path(), &[]);
    check(&Client::new(&server.url), &mut writers, rounds);
    println!("{rounds} kills, {acknowledged} acknowledged writes");
    assert!(acknowledged > rounds, "hardly anything was written");
}

/// What one writer knows of its own items.
struct Writer {
    name: usize,
    /// The last number given out.
    number: u64,
    /// What each item holds, as acknowledged.
    known: BTreeMap<String, u64>,
    /// The write whose answer never came: its items, and the number it wrote to them.
    unknown: Option<(Vec<String>, u64)>,
    acknowledged: u64,
}

impl Writer {
    fn new(name: usize) -> Self {
        Self { name, number: 0, known: BTreeMap::new(), unknown: None, acknowledged: 0 }
    }

    fn write_until_gone(&mut self, url: &str) {
        let client = Client::new(url);
        loop {
            self.number += 1;
            let number = self.number;
            let (keys, operation, request) = match number % 4 {
                0 => self.update(number),
                1 => self.transaction(number),
                _ => self.put(number),
            };
            match client.send(operation, request) {
                Ok((200, _)) => {
                    self.acknowledged += 1;
                    self.known.extend(keys.into_iter().map(|key| (key, number)));
                }
                Ok((status, answer)) => panic!("{operation} answered {status}: {answer}"),
                Err(_) => {
                    self.unknown = Some((keys, number));
                    return;
                }
            }
        }
    }

    fn put(&self, number: u64) -> (Vec<String>, &'static str, Value) {
        let key = format!("{}/put/{}", self.name, number % SLOTS);
        let request = json!({"TableName": "kill", "Item": item(&key, number)});
        (vec![key], "PutItem", request)
    }

    /// Counts on from the value it knows, and only from that.
    fn update(&self, number: u64) -> (Vec<String>, &'static str, Value) {
        let key = format!("{}/count", self.name);
        let mut request = json!({
            "TableName": "kill",
            "Key": {"pk": {"S": key}},
            "UpdateExpression": "SET n = :n, g = :g, filler = :filler",
            "ConditionExpression": "attribute_not_exists(pk)",
            "ExpressionAttributeValues": {
                ":n": {"N": number.to_string()}, ":g": {"S": group(number)}, ":filler": {"S": filler(number)},
            },
        });
        if let Some(known) = self.known.get(&key) {
            request["ConditionExpression"] = json!("n = :known");
            request["ExpressionAttributeValues"][":known"] = json!({"N": known.to_string()});
        }
        (vec![key], "UpdateItem", request)
    }

    fn transaction(&self, number: u64) -> (Vec<String>, &'static str, Value) {
        let keys = vec![format!("{}/left", self.name), format!("{}/right", self.name)];
        let puts: Vec<Value> =
            keys.iter().map(|key| json!({"Put": {"TableName": "kill", "Item": item(key, number)}})).collect();
        (keys, "TransactWriteItems", json!({"TransactItems": puts}))
    }

    /// Compares with what is stored, and learns how the unknown write went.
    fn check(&mut self, stored: &BTreeMap<String, u64>, context: &str) {
        if let Some((keys, number)) = self.unknown.take() {
            let arrived = keys.iter().filter(|key| stored.get(*key) == Some(&number)).count();
            assert!(arrived == 0 || arrived == keys.len(), "{context}: half of {keys:?} = {number} is there");
            if arrived > 0 {
                self.known.extend(keys.into_iter().map(|key| (key, number)));
            }
        }
        let prefix = format!("{}/", self.name);
        let own: BTreeMap<String, u64> = stored
            .iter()
            .filter(|(key, _)| key.starts_with(&prefix))
            .map(|(key, number)| (key.clone(), *number))
            .collect();
        assert_eq!(own, self.known, "{context}: writer {}'s items are not what was acknowledged", self.name);
    }
}

fn check(client: &Client, writers: &mut [Writer], round: u64) {
    let context = format!("after {round} kills");
    let scanned = pages(client, "Scan", json!({"TableName": "kill", "ConsistentRead": true}));
    let mut indexed = Vec::new();
    for number in 0..GROUPS {
        indexed.extend(pages(
            client,
            "Query",
            json!({
                "TableName": "kill",
                "IndexName": "by-group",
                "KeyConditionExpression": "g = :g",
                "ExpressionAttributeValues": {":g": {"S": group(number)}},
            }),
        ));
    }
    let mut stored = BTreeMap::new();
    for found in &scanned {
        let key = found["pk"]["S"].as_str().expect("a key");
        let number = found["n"]["N"].as_str().and_then(|n| n.parse().ok()).expect("a number");
        assert_eq!(found, &item(key, number), "{context}: {key} is not what anybody wrote");
        stored.insert(key.to_owned(), number);
    }
    for writer in writers {
        writer.check(&stored, &context);
    }
    assert_eq!(sorted(indexed), sorted(scanned), "{context}: the index and the items differ");
}

fn pages(client: &Client, operation: &str, mut request: Value) -> Vec<Value> {
    let mut items = Vec::new();
    loop {
        let mut page = client.ok(operation, request.clone());
        if let Value::Array(found) = page["Items"].take() {
            items.extend(found);
        }
        match page["LastEvaluatedKey"].take() {
            Value::Null => return items,
            last => request["ExclusiveStartKey"] = last,
        }
    }
}

fn sorted(mut items: Vec<Value>) -> Vec<Value> {
    items.sort_by(|a, b| a["pk"]["S"].as_str().cmp(&b["pk"]["S"].as_str()));
    items
}

fn table() -> Value {
    json!({
        "TableName": "kill",
        "AttributeDefinitions": [
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "g", "AttributeType": "S"},
            {"AttributeName": "n", "AttributeType": "N"},
        ],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "GlobalSecondaryIndexes": [{
            "IndexName": "by-group",
            "KeySchema": [
                {"AttributeName": "g", "KeyType": "HASH"},
                {"AttributeName": "n", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "ALL"},
        }],
        "BillingMode": "PAY_PER_REQUEST",
    })
}

fn item(key: &str, number: u64) -> Value {
    json!({
        "pk": {"S": key},
        "n": {"N": number.to_string()},
        "g": {"S": group(number)},
        "filler": {"S": filler(number)},
    })
}

fn group(number: u64) -> String {
    format!("g{}", number % GROUPS)
}

/// From nothing to a few pages of the file.
fn filler(number: u64) -> String {
    number.to_string().repeat((number % 97) as usize * 8)
}

fn from_env(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// splitmix64
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % limit
    }
}
