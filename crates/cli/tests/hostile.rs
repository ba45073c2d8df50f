//! Requests made to take a server's memory or time, on a real `larder serve` whose memory is watched from outside.
//!
//! No request may take more than [`MEMORY_MAX`], whatever it says, nor more than [`BUSY_MAX`] of the processor. Meanwhile
//! another client goes on being answered.
//!
//! The limits are those of a release, which `./test bench` builds and names as `LARDER_UNDER_TEST`.

#![cfg(target_os = "linux")]

mod process;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use process::{Client, Larder};
use serde_json::{Value, json};

const MIB: usize = 1024 * 1024;
const MEMORY_MAX: usize = 100 * MIB;
const BUSY_MAX: Duration = Duration::from_secs(1);
/// How long somebody else may wait meanwhile, on a machine that does other things too.
const WAIT_MAX: Duration = Duration::from_secs(4);
const BODY_MAX: usize = 16 * MIB - 4096;

/// A server, and what the kernel says about it.
struct Watched {
    server: Larder,
    address: SocketAddr,
}

impl Watched {
    fn serve(arguments: &[&str]) -> Self {
        Self::watch(Larder::serve(&[&["--memory", "--dynamodb", "127.0.0.1:0"], arguments].concat()))
    }

    fn watch(server: Larder) -> Self {
        let address = server.url.strip_prefix("http://").expect("a URL").parse().expect("an address");
        Self { server, address }
    }

    fn file(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.server.child.id())
    }

    fn status(&self, field: &str) -> usize {
        let status = fs::read_to_string(self.file("status")).expect("the server lives");
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field of the kernel's");
        let kib: usize = line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().expect("a number");
        kib * 1024
    }

    fn resident(&self) -> usize {
        self.status("VmRSS")
    }

    /// The most that was resident since [`Self::forget_peak`].
    fn peak(&self) -> usize {
        self.status("VmHWM")
    }

    fn forget_peak(&self) {
        fs::write(self.file("clear_refs"), "5").expect("our own child");
    }

    /// What it has used of the processor. The kernel counts in hundredths of a second.
    fn busy(&self) -> Duration {
        let stat = fs::read_to_string(self.file("stat")).expect("the server lives");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("a name ends").split_whitespace().collect();
        let ticks = |at: usize| fields[at].parse::<u64>().expect("a number");
        Duration::from_millis(10 * (ticks(11) + ticks(12)))
    }
}

/// One request on a connection of its own. An answer need not come: a server may close.
fn send(address: SocketAddr, operation: &str, extra: &str, body: &[u8]) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout is set");
    let length = body.len();
    let head = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-amz-target: DynamoDB_20120810.{operation}\r\n\
         content-type: application/x-amz-json-1.0\r\n{extra}content-length: {length}\r\n\r\n"
    );
    // The server may have answered and closed before it has read all.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.get(9..12)?.parse().ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some((status, body.to_owned()))
}

/// A table, and what a request finds in it.
fn prepare(client: &Client, stored: Stored) {
    client.ok(
        "CreateTable",
        json!({
            "TableName": "fruit", "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "sk", "AttributeType": "N"}],
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        }),
    );
    let item = |pk: &str, sk: usize, more: Value| {
        let mut item = json!({"pk": {"S": pk}, "sk": {"N": sk.to_string()}});
        item.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        json!({"TableName": "fruit", "Item": item})
    };
    let put = |pk: &str, sk: usize, more: Value| drop(client.ok("PutItem", item(pk, sk, more)));
    match stored {
        Stored::Nothing => {}
        Stored::Large => {
            put("one", 0, json!({"big": {"S": "x".repeat(380_000)}}));
            put("list", 0, json!({"l": {"L": vec![json!({"N": "1"}); 100_000]}}));
            put("zeros", 0, json!({"b": {"B": "AAAA".repeat(100_000)}}));
        }
        Stored::Pages(count) => {
            (0..count).for_each(|at| put("page", at, json!({"big": {"S": "y".repeat(390_000)}})));
        }
    }
}

fn repeated(part: &str) -> String {
    repeated_to(BODY_MAX, part)
}

fn repeated_to(length: usize, part: &str) -> String {
    let count = length / (part.len() + 1);
    let mut text = format!("{part},").repeat(count);
    text.pop();
    text
}

fn numbered(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(",")
}

fn key() -> &'static str {
    r#""TableName":"fruit","Key":{"pk":{"S":"one"},"sk":{"N":"0"}}"#
}

fn packed(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

struct Hostile {
    name: &'static str,
    operation: &'static str,
    headers: String,
    body: Vec<u8>,
    /// The statuses it may be answered with.
    statuses: &'static [u16],
    /// What it finds in the store.
    stored: Stored,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stored {
    Nothing,
    /// A long text, a list of 100,000 numbers and a binary of zeros.
    Large,
    /// Items of 390 KB in one partition.
    Pages(usize),
}

fn hostile(name: &'static str, operation: &'static str, body: impl Into<Vec<u8>>) -> Hostile {
    Hostile {
        name,
        operation,
        headers: String::new(),
        body: body.into(),
        statuses: &[400],
        stored: Stored::Nothing,
    }
}

impl Hostile {
    fn finds(mut self, stored: Stored) -> Self {
        self.stored = stored;
        self
    }
}

/// Made one at a time, because together they are half a gigabyte.
type Made = Box<dyn FnOnce() -> Hostile>;

fn values() -> String {
    format!(r#""ExpressionAttributeValues":{{":v":{{"L":[{}]}}}}"#, vec![r#"{"S":""}"#; 600_000].join(","))
}

fn put(value: &str) -> String {
    format!(r#"{{"TableName":"fruit","Item":{{"pk":{{"S":"a"}},"sk":{{"N":"1"}},"v":{value}}}}}"#)
}

fn list_of(part: &str) -> String {
    put(&format!(r#"{{"L":[{}]}}"#, repeated(part)))
}

/// What is said about one value, many times over.
fn about_values() -> Vec<Made> {
    vec![
        Box::new(|| {
            let sets = numbered(460, |at| format!("a{at}=:v"));
            let update = format!(r#"{{{},"UpdateExpression":"SET {sets}",{}}}"#, key(), values());
            hostile("a value set 460 times", "UpdateItem", update)
        }),
        Box::new(|| {
            let sets = numbered(460, |at| format!("a{at}=:v"));
            let named = key().replace("fruit", "no.such.table");
            let update = format!(r#"{{{named},"UpdateExpression":"SET {sets}",{}}}"#, values());
            hostile("the same where there is no table", "UpdateItem", update)
        }),
        Box::new(|| {
            let among = numbered(100, |_| ":v".to_owned());
            let delete = format!(r#"{{{},"ConditionExpression":"a IN ({among})",{}}}"#, key(), values());
            hostile("IN a hundred large values", "DeleteItem", delete)
        }),
        Box::new(|| {
            let tests = (0..100).map(|at| format!("a{at}=:v")).collect::<Vec<_>>().join(" AND ");
            let query = format!(r#"{{"TableName":"fruit","KeyConditionExpression":"{tests}",{}}}"#, values());
            hostile("a hundred key conditions of large values", "Query", query)
        }),
        Box::new(|| {
            let sets = numbered(400, |at| format!("a{at}=big"));
            hostile(
                "a stored value copied 400 times",
                "UpdateItem",
                format!(r#"{{{},"UpdateExpression":"SET {sets}"}}"#, key()),
            )
            .finds(Stored::Large)
        }),
        Box::new(|| {
            let key = key().replace("one", "list");
            let sets = numbered(100, |at| format!("a{at}=list_append(l,l)"));
            hostile(
                "a stored list doubled 100 times",
                "UpdateItem",
                format!(r#"{{{key},"UpdateExpression":"SET {sets}"}}"#),
            )
            .finds(Stored::Large)
        }),
        Box::new(|| {
            let key = key().replace("one", "list");
            let paths = numbered(500, |at| format!("l[{at}]"));
            let mut many = hostile(
                "500 elements removed",
                "UpdateItem",
                format!(r#"{{{key},"UpdateExpression":"REMOVE {paths}"}}"#),
            )
            .finds(Stored::Large);
            many.statuses = &[200];
            many
        }),
    ]
}

/// What is read into much more than it is.
fn about_reading() -> Vec<Made> {
    vec![
        Box::new(|| hostile("a list of empty strings", "PutItem", list_of(r#"{"S":""}"#))),
        Box::new(|| hostile("a list of lists of one", "PutItem", list_of(r#"{"L":[{"S":""}]}"#))),
        Box::new(|| hostile("a list of maps of one", "PutItem", list_of(r#"{"M":{"a":{"S":""}}}"#))),
        Box::new(|| hostile("a list of sets of one", "PutItem", list_of(r#"{"SS":["a"]}"#))),
        Box::new(|| {
            hostile(
                "a set of the same again and again",
                "PutItem",
                put(&format!(r#"{{"SS":[{}]}}"#, repeated_to(6 * MIB, r#""""#))),
            )
        }),
        Box::new(|| hostile("nothing but brackets", "PutItem", "[".repeat(BODY_MAX))),
        Box::new(|| {
            let deep = format!("{}{}", r#"{"L":["#.repeat(5_000), "]}".repeat(5_000));
            hostile("a value 5,000 deep", "PutItem", put(&deep))
        }),
        Box::new(|| {
            hostile("a number of 4 MB", "PutItem", put(&format!(r#"{{"N":"{}"}}"#, "1".repeat(4 * MIB))))
        }),
        Box::new(|| {
            hostile(
                "an item of 16 MB",
                "PutItem",
                put(&format!(r#"{{"S":"{}"}}"#, "s".repeat(BODY_MAX - 200))),
            )
        }),
        Box::new(|| hostile("16 MB that end in no JSON", "PutItem", format!("{}!", list_of(r#"{"S":""}"#)))),
        Box::new(|| hostile("16 MB for no operation", "NoSuchOperation", list_of(r#"{"S":""}"#))),
        Box::new(|| {
            hostile(
                "a table's name of 16 MB",
                "GetItem",
                format!(r#"{{"TableName":"{}","Key":{{}}}}"#, "!".repeat(BODY_MAX - 200)),
            )
        }),
        Box::new(|| {
            hostile(
                "a transaction of nothings",
                "TransactWriteItems",
                format!(r#"{{"TransactItems":[{}]}}"#, repeated("{}")),
            )
        }),
        Box::new(|| {
            hostile(
                "a batch of nothings",
                "BatchWriteItem",
                format!(r#"{{"RequestItems":{{"fruit":[{}]}}}}"#, repeated("{}")),
            )
        }),
        Box::new(|| {
            hostile(
                "a batch of 500,000 tables",
                "BatchGetItem",
                format!(r#"{{"RequestItems":{{{}}}}}"#, numbered(500_000, |at| format!(r#""t{at}":{{}}"#))),
            )
        }),
        Box::new(|| {
            hostile(
                "a table of nothing but indexes",
                "CreateTable",
                format!(r#"{{"TableName":"other","GlobalSecondaryIndexes":[{}]}}"#, repeated("{}")),
            )
        }),
        Box::new(|| {
            hostile(
                "a million tags",
                "TagResource",
                format!(r#"{{"ResourceArn":"arn","Tags":[{}]}}"#, repeated(r#"{"Key":"a"}"#)),
            )
        }),
    ]
}

/// What came before expressions, and long names.
fn about_parameters() -> Vec<Made> {
    vec![
        Box::new(|| {
            let conditions = numbered(30_000, |at| {
                format!(r#""a{at}":{{"ComparisonOperator":"NE","AttributeValueList":[{{"S":"x"}}]}}"#)
            });
            hostile(
                "a filter of 30,000 conditions",
                "Scan",
                format!(r#"{{"TableName":"fruit","ScanFilter":{{{conditions}}}}}"#),
            )
        }),
        Box::new(|| {
            let conditions = numbered(200_000, |at| format!(r#""a{at}":{{"Exists":false}}"#));
            hostile(
                "200,000 expectations",
                "DeleteItem",
                format!(r#"{{{},"Expected":{{{conditions}}}}}"#, key()),
            )
        }),
        Box::new(|| {
            let names = numbered(300_000, |at| format!(r#""{at}""#));
            let mut many = hostile(
                "300,000 attributes to get",
                "GetItem",
                format!(r#"{{{},"AttributesToGet":[{names}]}}"#, key()),
            );
            many.statuses = &[200, 400];
            many
        }),
        Box::new(|| {
            let updates = numbered(100_000, |at| format!(r#""a{at}":{{"Value":{{"N":"1"}}}}"#));
            hostile(
                "100,000 attribute updates",
                "UpdateItem",
                format!(r#"{{{},"AttributeUpdates":{{{updates}}}}}"#, key()),
            )
        }),
        Box::new(|| {
            let values = numbered(20_000, |at| format!(r#"":{at}":{{"SS":[]}}"#));
            let others = vec![r#""x":0"#; 500_000].join(",");
            hostile(
                "unknown members beside flawed values",
                "UpdateItem",
                format!(r#"{{{},"ExpressionAttributeValues":{{{values}}},{others}}}"#, key()),
            )
        }),
        Box::new(|| {
            let name = "n".repeat(65_535);
            let paths = numbered(500, |at| format!("#n.a{at}"));
            let get = |_| {
                format!(
                    r##"{{"Get":{{{},"ProjectionExpression":"{paths},#n.a499","ExpressionAttributeNames":{{"#n":"{name}"}}}}}}"##,
                    key()
                )
            };
            hostile(
                "a hundred projections of long names that clash",
                "TransactGetItems",
                format!(r#"{{"TransactItems":[{}]}}"#, numbered(100, get)),
            )
        }),
        Box::new(|| {
            let (start, end) = ("AAAA".repeat(60_000), "AQ==");
            let tests = (0..140).map(|_| "contains(b,:b)").collect::<Vec<_>>().join(" OR ");
            let key = key().replace("one", "zeros");
            hostile(
                "binaries that nearly contain another",
                "DeleteItem",
                format!(
                    r#"{{{key},"ConditionExpression":"{tests}","ExpressionAttributeValues":{{":b":{{"B":"{start}{end}"}}}}}}"#
                ),
            ).finds(Stored::Large)
        }),
    ]
}

/// What is large by right, or comes packed.
fn about_size() -> Vec<Made> {
    vec![
        Box::new(|| {
            let keys = numbered(40, |at| format!(r#"{{"pk":{{"S":"page"}},"sk":{{"N":"{at}"}}}}"#));
            let mut large = hostile(
                "the largest batch there is to get",
                "BatchGetItem",
                format!(r#"{{"RequestItems":{{"fruit":{{"Keys":[{keys}]}}}}}}"#),
            )
            .finds(Stored::Pages(40));
            large.statuses = &[200];
            large
        }),
        Box::new(|| {
            let mut bomb = hostile("200 MB of spaces, packed", "PutItem", packed(&vec![b' '; 200 * MIB]));
            bomb.headers = "content-encoding: gzip\r\n".to_owned();
            bomb.statuses = &[413];
            bomb
        }),
        Box::new(|| {
            let mut bomb = hostile(
                "16 MB of maps, packed",
                "PutItem",
                packed(list_of(r#"{"M":{"a":{"S":""}}}"#).as_bytes()),
            );
            bomb.headers = "content-encoding: gzip\r\n".to_owned();
            bomb
        }),
        Box::new(|| {
            let mut many = hostile("5,000 headers", "ListTables", "{}");
            many.headers = (0..5_000).map(|at| format!("h{at}: v\r\n")).collect();
            many.statuses = &[431, 400];
            many
        }),
        Box::new(|| {
            let mut long = hostile("a header of a megabyte", "ListTables", "{}");
            long.headers = format!("h: {}\r\n", "v".repeat(MIB));
            long.statuses = &[431, 400];
            long
        }),
        Box::new(|| {
            let text = "z".repeat(390_000);
            let puts = numbered(25, |at| {
                format!(
                    r#"{{"PutRequest":{{"Item":{{"pk":{{"S":"put"}},"sk":{{"N":"{at}"}},"v":{{"S":"{text}"}}}}}}}}"#
                )
            });
            let mut large = hostile(
                "the largest batch there is to put",
                "BatchWriteItem",
                format!(r#"{{"RequestItems":{{"fruit":[{puts}]}}}}"#),
            );
            large.statuses = &[200];
            large
        }),
    ]
}

#[test]
#[ignore = "for a release: ./test bench"]
fn no_request_takes_more_than_its_share_of_memory_or_time() {
    let mut faults = Vec::new();
    for made in
        about_values().into_iter().chain(about_reading()).chain(about_parameters()).chain(about_size())
    {
        let hostile = made();
        // Each has a server of its own: what one has given back to the allocator would hide what the next takes.
        let watched = Watched::serve(&[]);
        prepare(&Client::new(&watched.server.url), hostile.stored);
        let (before, busy) = (watched.resident(), watched.busy());
        watched.forget_peak();
        let (answer, slowest) = while_another_asks(&watched.server.url, || {
            send(watched.address, hostile.operation, &hostile.headers, &hostile.body)
        });
        let (took, busy) = (watched.peak().saturating_sub(before), watched.busy() - busy);
        let shown = answer.as_ref().map(|(status, body)| format!("{status} {body:.120}"));
        let told = format!("{}: {} MiB, {busy:?}, others {slowest:?}, {shown:?}", hostile.name, took / MIB);
        println!("{told}");
        let answered = answer.is_some_and(|(status, _)| hostile.statuses.contains(&status));
        if !answered || took > MEMORY_MAX || busy > BUSY_MAX || slowest > WAIT_MAX {
            faults.push(told);
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Does the work, and says how long another client had to wait for an answer meanwhile.
fn while_another_asks<T>(url: &str, work: impl FnOnce() -> T) -> (T, Duration) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let other = Client::new(url);
            let mut slowest = Duration::ZERO;
            while !done.load(Ordering::Relaxed) {
                let start = Instant::now();
                let key = json!({"pk": {"S": "none"}, "sk": {"N": "0"}});
                other.ok("GetItem", json!({"TableName": "fruit", "Key": key}));
                slowest = slowest.max(start.elapsed());
                // Often enough to meet the request, and no load by itself.
                pause(5);
            }
            slowest
        });
        let made = work();
        done.store(true, Ordering::Relaxed);
        (made, other.join().expect("the other client is answered"))
    })
}

/// Between two looks at a process that tells nobody when it is done. Every loop that pauses has an end.
#[expect(clippy::disallowed_methods, reason = "another process is asked again, and cannot be waited for")]
fn pause(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}

/// What each of many clients does, by its number.
fn attack(at: usize, address: SocketAddr, all_there: &Barrier, over: &AtomicBool) {
    let connected = TcpStream::connect(address);
    all_there.wait();
    let Ok(mut stream) = connected else { return };
    let _ = stream.set_write_timeout(Some(Duration::from_secs(5)));
    let head = |length: usize, operation: &str| {
        format!(
            "POST / HTTP/1.1\r\nhost: localhost\r\nx-amz-target: DynamoDB_20120810.{operation}\r\n\
             content-type: application/x-amz-json-1.0\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    match at % 4 {
        // Most of a large body, and then silence.
        0 => {
            let _ = stream.write_all(head(15 * MIB, "PutItem").as_bytes());
            let _ = stream.write_all(&vec![b' '; 15 * MIB - 1]);
        }
        // A body that is read into thirty times its size.
        1 => {
            let body = put(&format!(r#"{{"L":[{}]}}"#, repeated_to(200_000, r#"{"M":{"a":{"S":""}}}"#)));
            for _ in 0..3 {
                let _ = stream.write_all(format!("{}{body}", head(body.len(), "PutItem")).as_bytes());
            }
        }
        // A page after the other, and none is read.
        2 => {
            let query = r#"{"TableName":"fruit","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"page"}}}"#;
            for _ in 0..10 {
                let _ = stream.write_all(format!("{}{query}", head(query.len(), "Query")).as_bytes());
            }
        }
        // A head that does not end.
        _ => {
            let _ = stream.write_all(b"POST / HTTP/1.1\r\nhost: localhost\r\n");
        }
    }
    while !over.load(Ordering::Relaxed) {
        pause(20);
    }
}

#[test]
#[ignore = "for a release: ./test bench"]
fn five_hundred_clients_at_once_stay_within_the_budget_and_others_are_answered() {
    const CLIENTS: usize = 500;
    const BUDGET: usize = 256 * MIB;
    let watched = Watched::serve(&["--memory-limit", "256M"]);
    let client = Client::new(&watched.server.url);
    prepare(&client, Stored::Pages(4));
    let before = watched.resident();
    let (all_there, over) = (Barrier::new(CLIENTS + 1), AtomicBool::new(false));
    thread::scope(|scope| {
        for at in 0..CLIENTS {
            let (all_there, over, address) = (&all_there, &over, watched.address);
            let attacker = move || attack(at, address, all_there, over);
            // The bodies are what takes memory here, not the stacks.
            thread::Builder::new().stack_size(256 * 1024).spawn_scoped(scope, attacker).expect("a thread");
        }
        all_there.wait();
        let (start, mut slowest, mut answered) = (Instant::now(), Duration::ZERO, 0);
        while start.elapsed() < Duration::from_secs(8) {
            let sent = Instant::now();
            let put = json!({"TableName": "fruit", "Item": {"pk": {"S": "good"}, "sk": {"N": answered.to_string()}}});
            client.ok("PutItem", put);
            let got = client.ok("GetItem", json!({"TableName": "fruit", "Key": {"pk": {"S": "good"}, "sk": {"N": answered.to_string()}}}));
            assert!(got["Item"].is_object());
            answered += 1;
            slowest = slowest.max(sent.elapsed());
        }
        over.store(true, Ordering::Relaxed);
        let took = watched.peak().saturating_sub(before);
        println!("{answered} answered, the slowest in {slowest:?}, {} MiB", took / MIB);
        assert!(took < BUDGET, "{} MiB", took / MIB);
        // The clients write as fast as they can, on the processors that the server has too.
        assert!(answered > 4 && slowest < 5 * WAIT_MAX, "{answered}, {slowest:?}");
    });
    // All is given back, and a large request is served again.
    let start = Instant::now();
    loop {
        let (status, answer) = client
            .send("PutItem", json!({"TableName": "fruit", "Item": {"pk": {"S": "good"}, "sk": {"N": "0"}, "v": {"S": "v".repeat(300_000)}}}))
            .expect("an answer");
        if status == 200 {
            break;
        }
        assert_eq!(answer["__type"], "com.amazon.coral.service#ThrottlingException", "{answer}");
        assert!(start.elapsed() < Duration::from_secs(20), "the memory does not come back");
        pause(50);
    }
}

/// The items that a client writes or reads, from one number to the next, several in one request.
fn write_and_read(address: SocketAddr, from: usize, to: usize) {
    const PAGE: usize = 25;
    // Scattered, so that every part of the tree is written over and over.
    let key = |at: usize| format!(r#"{{"pk":{{"S":"{:016x}"}}}}"#, at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let asked = |operation: &str, body: &str| {
        let (status, answer) = send(address, operation, "", body.as_bytes()).expect("an answer");
        assert_eq!(status, 200, "{answer}");
    };
    for first in (from..to).step_by(PAGE) {
        let put = |at: usize| {
            let item = key(first + at).replacen(
                '{',
                &format!(r#"{{"by":{{"S":"{at}"}},"v":{{"S":"{}"}},"#, "v".repeat(250)),
                1,
            );
            format!(r#"{{"PutRequest":{{"Item":{item}}}}}"#)
        };
        asked("BatchWriteItem", &format!(r#"{{"RequestItems":{{"shops":[{}]}}}}"#, numbered(PAGE, put)));
    }
    for first in (from..to).step_by(4 * PAGE) {
        let keys = numbered(4 * PAGE, |at| key(first + at));
        asked("BatchGetItem", &format!(r#"{{"RequestItems":{{"shops":{{"Keys":[{keys}]}}}}}}"#));
    }
}

#[test]
#[ignore = "for a release: ./test bench"]
fn a_server_keeps_to_its_cache_however_much_is_written_and_read() {
    const CACHE: usize = 16 * MIB;
    const BESIDE_IT: usize = 48 * MIB;
    const CLIENTS: usize = 8;
    const ITEMS: usize = 80_000;
    let data = tempfile::tempdir().expect("a directory");
    let watched = Watched::watch(Larder::on(data.path(), &["--cache", "16M"]));
    Client::new(&watched.server.url).ok(
        "CreateTable",
        json!({
            "TableName": "shops", "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "by", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            "GlobalSecondaryIndexes": [{
                "IndexName": "by-place", "KeySchema": [{"AttributeName": "by", "KeyType": "HASH"}, {"AttributeName": "pk", "KeyType": "RANGE"}],
                "Projection": {"ProjectionType": "ALL"},
            }],
        }),
    );
    let part = ITEMS / CLIENTS;
    thread::scope(|scope| {
        for at in 0..CLIENTS {
            let address = watched.address;
            scope.spawn(move || write_and_read(address, at * part, (at + 1) * part));
        }
    });
    let peak = watched.peak();
    println!("{} MiB with {} MiB of cache", peak / MIB, CACHE / MIB);
    assert!(peak <= CACHE + BESIDE_IT, "{} MiB", peak / MIB);
}

#[test]
#[ignore = "for a release: ./test bench"]
fn connections_over_the_limit_are_closed_and_idle_ones_make_room() {
    let watched = Watched::serve(&["--connections", "20"]);
    let connect = || {
        let stream = TcpStream::connect(watched.address).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout is set");
        stream
    };
    let idle: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
    let start = Instant::now();
    // Some of the next are turned away; each makes those go that did nothing since the one before.
    let served = (0..200).any(|_| {
        let mut stream = connect();
        let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let mut start = [0; 12];
        let is_served = stream.read_exact(&mut start).is_ok() && &start == b"HTTP/1.1 200";
        if !is_served {
            pause(100);
        }
        is_served
    });
    assert!(served && start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    drop(idle);
}
