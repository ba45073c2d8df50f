//! What every release of Larder wrote, opened by this one: `releases/VERSION` has a store as a kill left it, a directory of
//! backups with an archive in it, an encrypted one, and what that release answered about them.
//!
//! `KEEP_RELEASE=1 cargo test -p larder-server --test releases every_release` keeps those of the version it is compiled from, before that is
//! released. What is kept is never written again.

#[allow(dead_code, reason = "not every file of tests needs all of it")]
mod client;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use client::{Connection, Running};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use larder_model::Clock;
use larder_server::{Config, Durability, Server, StoreConfig};
use larder_storage::backup::{Repository, Request};
use larder_storage::version::{self, LARDER};
use larder_storage::{Key, Options, Store, archive};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

const STORE: &str = "larder.redb";
const PLAIN: &str = "store.redb.gz";
const BACKUPS: &str = "backups";
const SEALED: &str = "sealed-backups";
const ANSWERS: &str = "answers.json";
const KEPT_BYTES_MAX: u64 = 100_000;
const LIMIT: Duration = Duration::from_secs(60);

fn key() -> Key {
    Key::new([7; 32])
}

fn releases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/releases")
}

/// Those that are kept.
fn kept() -> Vec<PathBuf> {
    let entries = fs::read_dir(releases()).expect("releases are kept");
    let mut kept: Vec<_> = entries.map(|entry| entry.expect("the directory can be read").path()).collect();
    kept.sort();
    kept
}

fn config(dir: &Path, key: Option<Key>) -> Config {
    Config::local(StoreConfig::Directory { path: dir.to_owned(), durability: Durability::Immediate, key })
}

/// A store of a release, in a directory of its own.
fn unpacked(release: &Path, file: &str) -> TempDir {
    let dir = tempfile::tempdir().expect("there is room");
    let packed = fs::File::open(release.join(file)).expect("a release has the file");
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).expect("it is packed");
    fs::write(dir.path().join(STORE), bytes).expect("there is room");
    dir
}

fn pack(file: &Path, to: &Path) {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&fs::read(file).expect("it is there")).expect("memory takes bytes");
    fs::write(to, packed.finish().expect("memory takes bytes")).expect("there is room");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("there is room");
    for entry in fs::read_dir(from).expect("it is there") {
        let path = entry.expect("the directory can be read").path();
        let name = path.file_name().expect("it has a name");
        let to = to.join(name);
        // Who holds them is no part of what was written.
        if name.to_string_lossy().ends_with("lock") {
            continue;
        }
        match path.is_dir() {
            true => copy(&path, &to),
            false => drop(fs::copy(path, to).expect("there is room")),
        }
    }
}

/// What fills a store. No time in it comes before the year 2100.
fn writes() -> Vec<(&'static str, Value)> {
    let all_types = json!({
        "pk": {"S": "every"}, "sk": {"N": "-12.5"},
        "string": {"S": "猫 and more"}, "empty": {"S": ""},
        "number": {"N": "123456789012345678901234567890.12345678"},
        "binary": {"B": "AAH/"},
        "yes": {"BOOL": true}, "no": {"BOOL": false},
        "null": {"NULL": true},
        "list": {"L": [{"S": "a"}, {"N": "1E-130"}, {"L": []}]},
        "map": {"M": {"in": {"M": {"deep": {"N": "9.9999999999999999999999999999999999999E+125"}}}}},
        "strings": {"SS": ["a", "b"]}, "numbers": {"NS": ["1", "2.5"]}, "binaries": {"BS": ["AA==", "/w=="]},
        "group": {"S": "green"}, "rank": {"N": "3"},
        "until": {"N": "4102444800"},
    });
    let item = |n: u32| {
        json!({"pk": {"S": "few"}, "sk": {"N": n.to_string()}, "group": {"S": if n.is_multiple_of(2) { "green" } else { "blue" }},
            "rank": {"N": (10 - n).to_string()}, "note": {"S": format!("item {n} ").repeat(20)}})
    };
    let mut writes = vec![
        (
            "CreateTable",
            json!({
                "TableName": "things",
                "AttributeDefinitions": [
                    {"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "sk", "AttributeType": "N"},
                    {"AttributeName": "group", "AttributeType": "S"}, {"AttributeName": "rank", "AttributeType": "N"},
                ],
                "KeySchema": [
                    {"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"},
                ],
                "BillingMode": "PAY_PER_REQUEST",
                "GlobalSecondaryIndexes": [{
                    "IndexName": "by_group", "Projection": {"ProjectionType": "ALL"},
                    "KeySchema": [
                        {"AttributeName": "group", "KeyType": "HASH"}, {"AttributeName": "rank", "KeyType": "RANGE"},
                    ],
                }],
                "LocalSecondaryIndexes": [{
                    "IndexName": "by_rank", "Projection": {"ProjectionType": "KEYS_ONLY"},
                    "KeySchema": [
                        {"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "rank", "KeyType": "RANGE"},
                    ],
                }],
                "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"},
                "Tags": [{"Key": "team", "Value": "data"}],
            }),
        ),
        (
            "CreateTable",
            json!({
                "TableName": "bytes",
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "B"}],
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 6},
                "DeletionProtectionEnabled": true,
            }),
        ),
        (
            "UpdateTimeToLive",
            json!({"TableName": "things", "TimeToLiveSpecification": {"AttributeName": "until", "Enabled": true}}),
        ),
        (
            "UpdateContinuousBackups",
            json!({"TableName": "things", "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true}}),
        ),
        ("PutItem", json!({"TableName": "things", "Item": all_types})),
        ("PutItem", json!({"TableName": "bytes", "Item": {"id": {"B": "AAEC"}, "n": {"N": "1"}}})),
    ];
    writes.extend((0..8).map(|n| ("PutItem", json!({"TableName": "things", "Item": item(n)}))));
    writes.push((
        "UpdateItem",
        json!({"TableName": "things", "Key": {"pk": {"S": "few"}, "sk": {"N": "3"}},
            "UpdateExpression": "SET #g = :green ADD #r :one", "ExpressionAttributeNames": {"#g": "group", "#r": "rank"},
            "ExpressionAttributeValues": {":green": {"S": "green"}, ":one": {"N": "1"}}}),
    ));
    writes.push((
        "TransactWriteItems",
        json!({"TransactItems": [
            {"Delete": {"TableName": "things", "Key": {"pk": {"S": "few"}, "sk": {"N": "0"}}}},
            {"Put": {"TableName": "bytes", "Item": {"id": {"B": "/w=="}, "n": {"N": "2"}}}},
        ]}),
    ));
    writes.push(("CreateBackup", json!({"TableName": "things", "BackupName": "kept"})));
    writes
}

/// What is asked of a store, and what of the answer is the same whenever it is asked.
fn reads(stream: &str) -> Vec<(&'static str, Value)> {
    let of_group = |group: &str| {
        json!({"TableName": "things", "IndexName": "by_group", "KeyConditionExpression": "#g = :g",
            "ExpressionAttributeNames": {"#g": "group"}, "ExpressionAttributeValues": {":g": {"S": group}}})
    };
    vec![
        ("ListTables", json!({})),
        ("DescribeTable", json!({"TableName": "things"})),
        ("DescribeTable", json!({"TableName": "bytes"})),
        ("DescribeTimeToLive", json!({"TableName": "things"})),
        ("ListBackups", json!({})),
        ("ListTagsOfResource", json!({"ResourceArn": stream.split("/stream/").next()})),
        ("GetItem", json!({"TableName": "things", "Key": {"pk": {"S": "every"}, "sk": {"N": "-12.5"}}})),
        (
            "Query",
            json!({"TableName": "things", "KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": "few"}}}),
        ),
        ("Query", of_group("green")),
        ("Query", of_group("blue")),
        (
            "Query",
            json!({"TableName": "things", "IndexName": "by_rank", "ScanIndexForward": false,
                "KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": "few"}}}),
        ),
        ("Scan", json!({"TableName": "things"})),
        ("Scan", json!({"TableName": "bytes"})),
    ]
}

/// Whether an answer has all that another has. A later version may tell more.
fn has(answer: &Value, kept: &Value) -> bool {
    match (answer, kept) {
        (Value::Object(answer), Value::Object(kept)) => {
            kept.iter().all(|(name, kept)| answer.get(name).is_some_and(|answer| has(answer, kept)))
        }
        (Value::Array(answer), Value::Array(kept)) => {
            answer.len() == kept.len() && answer.iter().zip(kept).all(|(answer, kept)| has(answer, kept))
        }
        (answer, kept) => answer == kept,
    }
}

/// Asks again what a release was asked of the store in `dir`.
async fn check(release: &Path, dir: &Path, key: Option<Key>, what: &str) {
    let answers = fs::read(release.join(ANSWERS)).expect("its answers are kept");
    let answers: Vec<Value> = serde_json::from_slice(&answers).expect("they are JSON");
    assert!(answers.len() > 10);
    let server = Running::start(config(dir, key)).await;
    let mut connection = server.connect().await;
    for kept in &answers {
        let operation = kept["operation"].as_str().expect("it is an operation");
        let answer = connection.ok(operation, kept["request"].clone()).await;
        assert!(
            has(&answer, &kept["answer"]),
            "{}, {what}: {operation} {}: {answer}\nand it was {}",
            release.display(),
            kept["request"],
            kept["answer"]
        );
    }
    goes_on(&mut connection).await;
    drop(connection);
    timeout(LIMIT, server.stop()).await.expect("it ends").expect("nothing panics").expect("it stops");
}

/// It takes writes, and a backup inside it becomes a table. All is as it was afterwards.
async fn goes_on(connection: &mut Connection) {
    let at = json!({"pk": {"S": "new"}, "sk": {"N": "1"}});
    connection.ok("PutItem", json!({"TableName": "things", "Item": at.clone()})).await;
    let got = connection.ok("GetItem", json!({"TableName": "things", "Key": at.clone()})).await;
    assert_eq!(got["Item"], at);
    connection.ok("DeleteItem", json!({"TableName": "things", "Key": at})).await;

    let backups = connection.ok("ListBackups", json!({})).await;
    let backup = &backups["BackupSummaries"][0]["BackupArn"];
    connection
        .ok("RestoreTableFromBackup", json!({"BackupArn": backup, "TargetTableName": "restored"}))
        .await;
    let restored = json!({"TableName": "restored"});
    timeout(LIMIT, async {
        loop {
            let table = connection.ok("DescribeTable", restored.clone()).await;
            if table["Table"]["TableStatus"] == "ACTIVE" {
                break;
            }
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it is restored");
    let items = connection.ok("Scan", json!({"TableName": "restored", "Select": "COUNT"})).await;
    assert_eq!(items["Count"], 8);
    connection.ok("DeleteTable", restored.clone()).await;
    timeout(LIMIT, async {
        while connection.post("DescribeTable", &[], restored.to_string()).await.status.is_success() {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it is gone");
}

/// Lays a release out: what it writes, and what it answers.
async fn keep(release: &Path) {
    assert!(!release.exists(), "{} is kept already, and stays as it is", release.display());
    let place = tempfile::tempdir().expect("there is room");
    let made = place.path().join("release");
    fs::create_dir(&made).expect("there is room");
    let (plain, sealed) = (place.path().join("plain"), place.path().join("sealed"));
    // A small log.
    let options = Options { log_bytes: 1 << 20, ..Options::default() };
    Store::open(&plain, options).expect("it is new").close().expect("nothing is wrong");
    fill(&plain, &made).await;
    pack(&plain.join(STORE), &made.join(PLAIN));
    // The same in a store that is encrypted, and a backup of that: noise cannot be packed, and a backup has little of it.
    let store = Store::open(&sealed, Options { key: Some(key()), ..options }).expect("it is new");
    restore(&made.join(BACKUPS), None, &store);
    back_up(&Repository::open_or_create(&made.join(SEALED), Some(key())).expect("it is new"), &store);
    store.close().expect("nothing is wrong");
    copy(&made, release);
}

/// The newest backup of a directory, in a store.
fn restore(backups: &Path, key: Option<Key>, into: &Store) {
    let repository = Repository::open(backups, key).expect("it is whole");
    let newest =
        repository.list().expect("it can be read").pop().expect("there is one").expect("it is whole");
    repository.restore(&newest, into, &mut |_| ()).expect("it is whole");
}

fn back_up(repository: &Repository, store: &Store) {
    let request = Request { now_ms: Clock::system().now().millis() as u64 + 1000, ..Request::default() };
    repository.back_up(&store.snapshot(), request, &mut |_| ()).expect("there is room");
}

/// Fills the store in `dir`, with an archive and a backup of it beside, and keeps what it answers. The file is copied before the
/// server stops, as a kill would leave it.
async fn fill(dir: &Path, release: &Path) {
    let backups = release.join(BACKUPS);
    let archive = archive::Options {
        sync_every: Duration::from_millis(5),
        ..archive::Options::new(backups.clone(), None)
    };
    let server = Running::start(Config { archive: Some(archive), ..config(dir, None) }).await;
    let mut connection = server.connect().await;
    let metric = async |connection: &mut Connection, name: &str| {
        let answer = connection.send(hyper::Method::GET, "/metrics", &[], "").await;
        let text = String::from_utf8(answer.body.to_vec()).expect("metrics are text");
        let line = text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).map(str::to_owned);
        line.and_then(|value| value.parse::<f64>().ok())
    };
    // A base first, so that what is written is in the segment.
    timeout(LIMIT, async {
        while metric(&mut connection, "larder_archive_bases_total").await.unwrap_or_default() < 1.0 {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the archive begins");
    for (operation, request) in writes() {
        connection.ok(operation, request).await;
    }
    timeout(LIMIT, async {
        while connection.ok("ListBackups", json!({})).await["BackupSummaries"][0]["BackupStatus"]
            != "AVAILABLE"
        {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the backup is made");
    let table = connection.ok("DescribeTable", json!({"TableName": "things"})).await;
    let stream = table["Table"]["LatestStreamArn"].as_str().expect("it has a stream").to_owned();
    let mut answers = Vec::new();
    for (operation, request) in reads(&stream) {
        let answer = connection.ok(operation, request.clone()).await;
        answers.push(json!({"operation": operation, "request": request, "answer": answer}));
    }
    let text = serde_json::to_string_pretty(&answers).expect("it is JSON");
    fs::write(release.join(ANSWERS), text + "\n").expect("there is room");
    let killed = dir.with_file_name("killed");
    fs::create_dir(&killed).expect("there is room");
    fs::copy(dir.join(STORE), killed.join(STORE)).expect("there is room");
    drop(connection);
    timeout(LIMIT, server.stop()).await.expect("it ends").expect("nothing panics").expect("it stops");
    let store = Store::open_read_only(dir, Options::default()).expect("it was closed");
    back_up(&Repository::open(&backups, None).expect("the archive made it"), &store);
    drop(store);
    fs::copy(killed.join(STORE), dir.join(STORE)).expect("there is room");
}

fn bytes_below(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).expect("it is there").map(|entry| entry.expect("it can be read").path());
    entries
        .map(
            |path| {
                if path.is_dir() {
                    bytes_below(&path)
                } else {
                    fs::metadata(path).expect("it is there").len()
                }
            },
        )
        .sum()
}

#[tokio::test]
async fn what_every_release_wrote_opens_with_everything_in_it() {
    let own = releases().join(LARDER);
    if std::env::var_os("KEEP_RELEASE").is_some() {
        keep(&own).await;
    }
    assert!(
        own.exists(),
        "nothing of {LARDER} is kept: KEEP_RELEASE=1 cargo test -p larder-server --test releases"
    );
    for release in kept() {
        assert!(bytes_below(&release) <= KEPT_BYTES_MAX, "{} is large", release.display());
        let wrote = release.file_name().and_then(|name| name.to_str()).expect("a version is text").to_owned();
        let dir = unpacked(&release, PLAIN);
        assert_eq!(version::of_store(dir.path()).expect("it is whole").writer.as_deref(), Some(&*wrote));
        check(&release, dir.path(), None, "its store").await;
        // What this one wrote, too.
        check(&release, dir.path(), None, "its store, opened again").await;

        for (name, key) in [(BACKUPS, None), (SEALED, Some(key()))] {
            let backups = tempfile::tempdir().expect("there is room");
            copy(&release.join(name), backups.path());
            let told = version::of_backups(backups.path()).expect("it is whole");
            assert!(
                told.into_iter().all(|found| found.expect("it is whole").writer.as_deref() == Some(&*wrote))
            );
            let repository = Repository::open(backups.path(), key).expect("it is whole");
            let mut verified = repository.verify(None, &mut |_| ()).expect("it is whole");
            archive::verify(&repository, &mut verified).expect("it is whole");
            assert_eq!(verified.problems, Vec::<String>::new());
            let restored = tempfile::tempdir().expect("there is room");
            let into =
                Store::open(restored.path(), Options { key, ..Options::default() }).expect("it is new");
            restore(backups.path(), key, &into);
            into.close().expect("nothing is wrong");
            check(&release, restored.path(), key, name).await;
            if key.is_some() {
                continue;
            }
            assert!(verified.groups > 0);
            let rebuilt = tempfile::tempdir().expect("there is room");
            let into = Store::open(rebuilt.path(), Options::default()).expect("it is new");
            let told = archive::rebuild(&repository, archive::Until::Latest, &into, &mut |_| ());
            assert_eq!(told.expect("it is whole").missing, Vec::<String>::new());
            into.close().expect("nothing is wrong");
            check(&release, rebuilt.path(), None, "its archive").await;
        }
    }
}

#[tokio::test]
async fn a_newer_store_is_refused_by_a_server_and_stays_as_it_is() {
    const HEADER_BYTES: usize = 152;
    for release in kept() {
        let dir = unpacked(&release, PLAIN);
        let path = dir.path().join(STORE);
        let mut bytes = fs::read(&path).expect("it is there");
        bytes[8] = 99;
        let sum = !crc32fast::hash(&bytes[..HEADER_BYTES]);
        bytes[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&sum.to_le_bytes());
        fs::write(&path, &bytes).expect("there is room");
        let Err(error) = Server::bind(config(dir.path(), None)).await else { panic!("it was opened") };
        let (error, path_told) = (error.to_string(), path.display().to_string());
        assert!(error.contains(&format!("{path_told} has format 99, written by Larder ")), "{error}");
        assert!(
            error.contains(&format!(
                "this is Larder {LARDER}, which reads up to 5, and it has changed nothing"
            )),
            "{error}"
        );
        assert!(fs::read(&path).expect("it is there") == bytes, "it was changed");
        assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 1);
    }
}
