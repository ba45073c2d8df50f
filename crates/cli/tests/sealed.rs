//! An encrypted store from the command line: nothing to be read in its file, clear words without its key.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod process;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::json;

const MARKER: &str = "a-marker-nobody-may-find";

/// `larder` in a directory, with the key in one of its files.
fn larder(dir: &Path, key: Option<&str>, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command
        .args(arguments)
        .current_dir(dir)
        .env_remove("LARDER_KEY")
        .env_remove("LARDER_KEY_FILE")
        .env_remove("LARDER_STORE");
    if let Some(key) = key {
        command.env("LARDER_KEY_FILE", dir.join(key));
    }
    command.output().unwrap()
}

#[track_caller]
fn ok(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn refused(output: &Output, text: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains(text), "{error}");
}

/// A directory with the lunch schema, two keys, and one menu in an encrypted store.
fn sealed() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, key) in [("one", "11".repeat(32)), ("two", "22".repeat(32) + "\n")] {
        let path = dir.path().join(name);
        fs::write(&path, key).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    ok(&larder(dir.path(), None, &["init", "lunch"]));
    ok(&larder(dir.path(), Some("one"), &["apply", "--yes"]));
    let fields = [&format!("restaurant={MARKER}"), "year=2025", "week=3", "lunches=[]"];
    ok(&larder(dir.path(), Some("one"), &[&["put", "lunch.Menu"], &fields[..]].concat()));
    dir
}

fn holds_marker(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().any(|entry| {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        bytes.windows(12).any(|window| MARKER.as_bytes().windows(12).any(|part| part == window))
    })
}

#[test]
fn l8_t10_a_store_with_a_key_is_encrypted_and_the_plan_says_that_it_is_possible() {
    let dir = sealed();
    let plan = ok(&larder(dir.path(), Some("one"), &["plan"]));
    assert!(!plan.contains("not possible"), "{plan}");
    assert!(!holds_marker(&dir.path().join("larder-data")));
    let shown = ok(&larder(
        dir.path(),
        Some("one"),
        &["get", "lunch.Menu", &format!("restaurant={MARKER}"), "year=2025", "week=3"],
    ));
    assert!(shown.contains(MARKER));
    assert!(ok(&larder(dir.path(), Some("one"), &["verify"])).contains("all is well"));
}

#[test]
fn without_its_key_a_store_says_what_to_do() {
    let dir = sealed();
    let get = ["get", "lunch.Menu", "restaurant=x", "year=2025", "week=3"];
    refused(&larder(dir.path(), None, &get), "the store is encrypted: name the file of its key");
    refused(&larder(dir.path(), Some("two"), &get), "not the one this store is encrypted with");
    refused(&larder(dir.path(), Some("none"), &get), "no key in ");
    refused(&larder(dir.path(), Some("two"), &["verify"]), "not the one this store is encrypted with");
}

#[test]
fn another_key_takes_over() {
    let dir = sealed();
    refused(&larder(dir.path(), Some("two"), &["rekey", "--new-key-file", "one"]), "not the one");
    ok(&larder(dir.path(), Some("one"), &["rekey", "--new-key-file", "two"]));
    refused(&larder(dir.path(), Some("one"), &["verify"]), "not the one");
    assert!(ok(&larder(dir.path(), Some("two"), &["verify"])).contains("1 table, 1 item"));
}

#[test]
fn l8_l20_t10_a_server_says_that_it_encrypts_only_when_it_does() {
    let dir = sealed();
    ok(&larder(dir.path(), None, &["init", "tdnet"]));
    let key = dir.path().join("one");
    for (data, arguments) in [("plain", &[][..]), ("encrypted", &["--key-file", key.to_str().unwrap()])] {
        let is_encrypted = data == "encrypted";
        let data = dir.path().join(data);
        let server = process::Larder::on(&data, arguments);
        let store = format!("dynamodb:{}", server.url);
        let lacks = "nothing is encrypted: the store has no key; a new one gets it with `larder serve --key-file FILE`";
        let apply = ["apply", "schemas/tdnet.larder", "--yes", "--store", &store];
        let told = ok(&larder(dir.path(), None, &apply));
        assert_eq!(told.contains(lacks), !is_encrypted, "{told}");
        let told = ok(&larder(dir.path(), None, &["doctor", "tdnet", "--store", &store]));
        assert_eq!(told.contains("ok    encryption"), is_encrypted, "{told}");
        assert_eq!(told.contains(lacks), !is_encrypted, "{told}");
        // Nothing is left to do that could not be done.
        assert!(ok(&larder(dir.path(), None, &apply)).contains("Nothing to do."));
        ok(&larder(dir.path(), None, &["drift", "schemas/tdnet.larder", "--store", &store]));

        let client = process::Client::new(&server.url);
        let sse = json!({"Enabled": true, "SSEType": "KMS"});
        let made = client.ok(
            "CreateTable",
            json!({
                "TableName": "theirs", "BillingMode": "PAY_PER_REQUEST", "SSESpecification": sse,
                "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            }),
        );
        client.ok("PutItem", json!({"TableName": "theirs", "Item": {"pk": {"S": MARKER}}}));
        assert_eq!(holds_marker(&data), !is_encrypted);
        let described = client.ok("DescribeTable", json!({"TableName": "theirs"}));
        let backup = client.ok("CreateBackup", json!({"TableName": "theirs", "BackupName": "theirs"}));
        let arn = &backup["BackupDetails"]["BackupArn"];
        let backup = client.ok("DescribeBackup", json!({"BackupArn": arn}));
        for described in [
            &made["TableDescription"],
            &described["Table"],
            &backup["BackupDescription"]["SourceTableFeatureDetails"],
        ] {
            let status = &described["SSEDescription"]["Status"];
            assert_eq!(*status == "ENABLED", is_encrypted, "{described:#}");
            assert_eq!(status.is_null(), !is_encrypted, "{described:#}");
        }
        let update = json!({"TableName": "theirs", "SSESpecification": {"Enabled": true, "SSEType": "KMS", "KMSMasterKeyId": "alias/k"}});
        let (status, answer) = client.send("UpdateTable", update).unwrap();
        assert_eq!(status == 200, is_encrypted, "{answer}");
        assert_eq!(
            answer["message"].as_str().is_some_and(|message| message.contains(lacks)),
            !is_encrypted,
            "{answer}"
        );
    }
}
