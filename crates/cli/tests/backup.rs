//! Backups and restores from the command line, on a directory and on a running server.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod process;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use process::Larder;
use serde_json::{Value, json};

/// What `larder` prints in a directory when all is well.
#[track_caller]
fn larder(dir: &Path, store: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(arguments).current_dir(dir).env("LARDER_STORE", store).env_remove("LARDER_KEY_FILE");
    command
        .env("AWS_ACCESS_KEY_ID", "any")
        .env("AWS_SECRET_ACCESS_KEY", "any")
        .env("AWS_REGION", "us-east-1");
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn on_both(test: impl Fn(&Path, &str)) {
    let dir = tempfile::tempdir().unwrap();
    test(dir.path(), "./data");
    let dir = tempfile::tempdir().unwrap();
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0"]);
    test(dir.path(), &format!("dynamodb:{}", server.url));
}

fn with_lunch(dir: &Path, store: &str) {
    larder(dir, store, &["init", "lunch"]);
    larder(dir, store, &["apply", "--yes"]);
    larder(dir, store, &["seed", "lunch", "--count", "5"]);
}

#[test]
fn a_backup_outlives_its_table_and_becomes_one_again() {
    on_both(|dir, store| {
        with_lunch(dir, store);
        let made: Value =
            serde_json::from_str(&larder(dir, store, &["backup", "lunch-cache-dev", "--json"])).unwrap();
        let arn = made["arn"].as_str().unwrap();
        let listed = larder(dir, store, &["backup", "--list"]);
        assert!(listed.contains("lunch-cache-dev") && listed.contains(arn), "{listed}");
        let told = larder(dir, store, &["restore", "--backup", arn, "--to", "lunch-again"]);
        assert_eq!(told, "lunch-again is there, with 5 items\n");
        larder(dir, store, &["backup", "--rm", arn]);
        assert_eq!(larder(dir, store, &["backup", "--list", "lunch-cache-dev"]), "");
    });
}

#[test]
fn a_table_comes_back_as_it_was() {
    on_both(|dir, store| {
        with_lunch(dir, store);
        let told = larder(dir, store, &["restore", "lunch-cache-dev", "--to", "lunch-now"]);
        assert_eq!(told, "lunch-now is there, with 5 items\n");
    });
}

/// What `larder` does, whatever comes of it.
fn tried(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(arguments).current_dir(dir).env_remove("LARDER_STORE").env_remove("LARDER_KEY_FILE");
    command.output().unwrap()
}

#[track_caller]
fn refused(dir: &Path, arguments: &[&str], expected: &str) {
    let output = tried(dir, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains(expected), "{arguments:?}: {error}");
}

/// The answer of a server to an operation.
fn ask(url: &str, operation: &str, body: &Value) -> Result<Value, String> {
    let target = format!("DynamoDB_20120810.{operation}");
    let request = ureq::post(url).header("x-amz-target", &target).content_type("application/x-amz-json-1.0");
    let mut answer = request.send(body.to_string().as_bytes()).map_err(|error| error.to_string())?;
    let text = answer.body_mut().read_to_string().map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

fn make_table(url: &str) {
    let key = json!([{"AttributeName": "id", "KeyType": "HASH"}]);
    let attributes = json!([{"AttributeName": "id", "AttributeType": "S"}]);
    let table = json!({
        "TableName": "writes", "KeySchema": key, "AttributeDefinitions": attributes, "BillingMode": "PAY_PER_REQUEST",
    });
    ask(url, "CreateTable", &table).unwrap();
}

fn put(url: &str, writer: u64, n: u64) -> Result<Value, String> {
    let item =
        json!({"id": {"S": format!("{writer}-{n}")}, "text": {"S": format!("a marker of {writer} and {n}")}});
    ask(url, "PutItem", &json!({"TableName": "writes", "Item": item}))
}

/// How many writes of each writer a store in a directory has: all up to the last.
fn counted(data: &Path, writers: u64) -> Vec<u64> {
    let server = Larder::on(data, &[]);
    let mut found = vec![Vec::new(); writers as usize];
    let mut start = Value::Null;
    loop {
        let mut scan = json!({"TableName": "writes"});
        if !start.is_null() {
            scan["ExclusiveStartKey"] = start;
        }
        let page = ask(&server.url, "Scan", &scan).unwrap();
        for item in page["Items"].as_array().unwrap() {
            let (writer, n) = item["id"]["S"].as_str().unwrap().split_once('-').unwrap();
            found[writer.parse::<usize>().unwrap()].push(n.parse::<u64>().unwrap());
        }
        start = page["LastEvaluatedKey"].clone();
        if start.is_null() {
            break;
        }
    }
    found
        .into_iter()
        .map(|mut writes| {
            writes.sort_unstable();
            assert!(writes.iter().zip(0..).all(|(n, expected)| *n == expected), "{writes:?}");
            writes.len() as u64
        })
        .collect()
}

fn metric(url: &str, name: &str) -> f64 {
    let text = ureq::get(format!("{url}/metrics")).call().unwrap().body_mut().read_to_string().unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_default();
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).unwrap_or(-1.0)
}

#[track_caller]
fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn a_directory_keeps_backups_of_a_store_and_makes_a_new_one_of_them() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path();
    with_lunch(dir, "./data");
    let first = larder(dir, "./data", &["backup", "--to", "kept"]);
    assert!(first.contains("new chunk") && first.contains("read again"), "{first}");
    let again: Value =
        serde_json::from_str(&larder(dir, "./data", &["backup", "--to", "kept", "--json"])).unwrap();
    assert_eq!(again["new_chunks"], 0);
    larder(dir, "./data", &["seed", "lunch", "--count", "9"]);
    larder(dir, "./data", &["backup", "--to", "kept"]);
    let listed = larder(dir, "./data", &["backup", "--to", "kept", "--list"]);
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let verified = larder(dir, "./data", &["backup", "--to", "kept", "--verify"]);
    assert!(verified.contains("3 backups") && verified.contains("all is well"), "{verified}");

    let id = again["id"].as_str().unwrap();
    let told = larder(dir, "./data", &["restore", "--from", "kept", "--backup", id, "--to", "five"]);
    assert!(told.contains("larder serve --store five"), "{told}");
    larder(dir, "./data", &["restore", "--from", "kept", "--to", "nine"]);
    let items = |store: &str| larder(dir, store, &["dump", "lunch"]).lines().count();
    assert!(items("./nine") > items("./five"), "{} and {}", items("./nine"), items("./five"));
    assert_eq!(items("./nine"), items("./data"));
    refused(dir, &["restore", "--from", "kept", "--to", "nine"], "is not empty");
    refused(
        dir,
        &["restore", "--from", "kept", "--backup", "../x", "--to", "new"],
        "there is no backup ../x",
    );
    refused(dir, &["backup", "--to", "data", "--store", "./nine"], "it holds something else");
    refused(dir, &["backup", "--to", "kept", "--store", "./nowhere"], "there is no store in");
    assert!(!dir.join("new.unfinished").exists() && !dir.join("nowhere").exists());
    fs::create_dir(dir.join("other.unfinished")).unwrap();
    fs::write(dir.join("other.unfinished/mine"), "kept").unwrap();
    refused(
        dir,
        &["restore", "--from", "kept", "--to", "other"],
        "other.unfinished is there, where the store is made",
    );
    assert!(dir.join("other.unfinished/mine").exists());

    let kept = larder(dir, "./data", &["backup", "--to", "kept", "--keep-last", "1"]);
    assert!(kept.contains("3 older backups removed"), "{kept}");
    let chunks =
        fs::read_dir(dir.join("kept/chunks")).unwrap().flat_map(|entry| fs::read_dir(entry.unwrap().path()));
    let chunk = chunks.flatten().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&chunk).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&chunk, bytes).unwrap();
    let output = tried(dir, &["backup", "--to", "kept", "--verify"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(1) && text.contains("1 problem"), "{text}");
    refused(dir, &["restore", "--from", "kept", "--to", "new"], "it");
    assert!(!dir.join("new").exists() && !dir.join("new.unfinished").exists());
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_server_under_load_is_backed_up_over_http_and_archived_and_both_outlive_its_machine() {
    const WRITERS: u64 = 3;
    let place = tempfile::tempdir().unwrap();
    let dir = place.path();
    let data = dir.join("data");
    let archive = dir.join("archive");
    let server = Larder::on(&data, &["--archive", archive.to_str().unwrap()]);
    let store = format!("dynamodb:{}", server.url);
    make_table(&server.url);
    let stop = AtomicBool::new(false);
    let acknowledged: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let counts = || acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect::<Vec<_>>();
    let (before, archived) = thread::scope(|scope| {
        // Whatever happens, the writers end.
        let stopped = Stop(&stop);
        for writer in 0..WRITERS {
            let (url, stop, acknowledged) = (&server.url, &stop, &acknowledged);
            scope.spawn(move || {
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) || put(url, writer, n).is_err() {
                        break;
                    }
                    acknowledged[writer as usize].store(n + 1, Ordering::SeqCst);
                }
            });
        }
        wait("writes come in", || counts().iter().all(|count| *count > 20));
        let before = counts();
        let made = larder(dir, &store, &["backup", "--to", "kept"]);
        assert!(made.contains("new chunk"), "{made}");
        // The server has the directory: it is asked.
        let made = larder(dir, "./data", &["backup", "--to", "other"]);
        assert!(made.contains("new chunk"), "{made}");
        wait("the archive has a base", || metric(&server.url, "larder_archive_bases_total") > 0.0);
        // Everything that was answered before is archived once the archive has a later commit.
        let archived = counts();
        let commits = metric(&server.url, "larder_archive_commit");
        wait("the archive goes on", || metric(&server.url, "larder_archive_commit") > commits + 50.0);
        assert!(metric(&server.url, "larder_archive_lag_seconds") < 30.0);
        assert!(metric(&server.url, "larder_archive_failing") == 0.0);
        drop(stopped);
        (before, archived)
    });
    let wrote = counts();
    wait("all is archived", || metric(&server.url, "larder_archive_lag_seconds") == 0.0);
    // The machine is lost.
    drop(server);
    fs::remove_dir_all(&data).unwrap();

    larder(dir, "./data", &["restore", "--from", "kept", "--to", "of-backup"]);
    let found = counted(&dir.join("of-backup"), WRITERS);
    assert!(found.iter().zip(&before).all(|(found, before)| found >= before), "{found:?} {before:?}");
    let told = larder(dir, "./data", &["restore", "--from", "archive", "--to", "of-archive"]);
    assert!(told.contains("archived after it"), "{told}");
    let found = counted(&dir.join("of-archive"), WRITERS);
    assert!(found.iter().zip(&archived).all(|(found, archived)| found >= archived), "{found:?} {archived:?}");
    assert_eq!(found, wrote);
    let verified = larder(dir, "./data", &["backup", "--to", "archive", "--verify"]);
    assert!(verified.contains("all is well"), "{verified}");
}

#[test]
fn a_web_page_cannot_ask_for_a_backup() {
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0"]);
    let url = format!("{}/_larder/backup", server.url);
    let status = |headers: &[(&str, &str)]| {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let request =
            headers.iter().fold(agent.post(&url), |request, (name, value)| request.header(*name, *value));
        request.send(&[][..]).unwrap().status().as_u16()
    };
    assert_eq!(status(&[]), 404);
    assert_eq!(status(&[("x-larder-admin", "1"), ("origin", "http://evil.example")]), 403);
    assert_eq!(status(&[("x-larder-admin", "1")]), 200);
}

#[test]
fn the_backup_of_an_encrypted_store_is_encrypted() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path();
    fs::write(dir.join("key"), "07".repeat(32)).unwrap();
    fs::set_permissions(dir.join("key"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let key = dir.join("key");
    let key = key.to_str().unwrap();
    let server = Larder::on(
        &dir.join("data"),
        &["--key-file", key, "--archive", dir.join("archive").to_str().unwrap()],
    );
    make_table(&server.url);
    put(&server.url, 0, 0).unwrap();
    let store = format!("dynamodb:{}", server.url);
    refused(dir, &["backup", "--to", "plain", "--store", &store], "the store is encrypted");
    larder(dir, &store, &["backup", "--to", "kept", "--key-file", key]);
    wait("the archive has a base", || metric(&server.url, "larder_archive_bases_total") > 0.0);
    wait("all is archived", || metric(&server.url, "larder_archive_lag_seconds") == 0.0);
    drop(server);
    for kept in ["kept", "archive"] {
        let files = Command::new("grep")
            .args(["-r", "-l", "-a", "a marker of\\|writes", kept])
            .current_dir(dir)
            .output();
        assert_eq!(String::from_utf8(files.unwrap().stdout).unwrap(), "", "{kept}");
        refused(dir, &["restore", "--from", kept, "--to", "new"], "are encrypted");
        larder(dir, "./data", &["restore", "--from", kept, "--to", &format!("of-{kept}"), "--key-file", key]);
        let server = Larder::on(&dir.join(format!("of-{kept}")), &["--key-file", key]);
        let count = ask(&server.url, "Scan", &json!({"TableName": "writes"})).unwrap();
        assert_eq!(count["Count"], 1, "{kept}");
    }
}
