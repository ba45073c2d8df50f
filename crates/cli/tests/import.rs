//! `larder import` gives back what `larder apply` made and `larder seed` filled, and says the price of more.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod process;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use larder::store::ops::Scan;
use larder::{Address, Store};
use larder_model::Item;
use larder_schema::{Environment, NoFiles, Schema, TableSetup};
use process::Larder;
use serde_json::Value;

const SYSTEMS: [&str; 5] = ["keiba", "lunch", "shops", "tdnet", "weather"];

fn run(dir: &Path, store: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(arguments).current_dir(dir).env("LARDER_STORE", store).env("NO_COLOR", "1");
    for name in ["LARDER_KEY_FILE", "ENVIRONMENT", "ENV", "KEIBA_TABLE_NAME", "DYNAMODB_TABLE_NAME"] {
        command.env_remove(name);
    }
    command
        .env("AWS_ACCESS_KEY_ID", "any")
        .env("AWS_SECRET_ACCESS_KEY", "any")
        .env("AWS_REGION", "us-east-1");
    command.output().unwrap()
}

/// What `larder` prints when all is well.
#[track_caller]
fn larder(dir: &Path, store: &str, arguments: &[&str]) -> String {
    let output = run(dir, store, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn schema(text: &str) -> Schema {
    let loaded = Schema::load("test.larder", text, &mut NoFiles, &Environment::new());
    loaded.schema.unwrap_or_else(|| panic!("{:?}\n{text}", loaded.diagnostics))
}

/// The tables by name. A store that is no region's and has no key does not say these, and the order of attributes
/// means nothing.
fn setups(schema: &Schema) -> Vec<TableSetup> {
    let mut setups = schema.tables(&Environment::new()).unwrap();
    for setup in &mut setups {
        setup.region = None;
        setup.definition.encryption = None;
        setup.definition.attributes.sort_by(|a, b| a.0.cmp(&b.0));
    }
    setups.sort_by(|a, b| a.table.cmp(&b.table));
    setups
}

async fn items(store: &Store, setup: &TableSetup) -> Vec<Item> {
    let (mut items, mut start) = (Vec::new(), None);
    loop {
        let page = store.scan(Scan { start, ..Scan::of(setup.definition.name.clone()) }).await.unwrap();
        items.extend(page.items);
        start = page.last_key;
        if start.is_none() {
            return items;
        }
    }
}

/// Applied, seeded and imported again: the same tables, and a schema that every item keeps.
async fn check(dir: &Path, store: &str, system: &str) {
    larder(dir, store, &["init", system, "--dir", system]);
    let file = format!("{system}/{system}.larder");
    larder(dir, store, &["apply", &file, "--yes"]);
    larder(dir, store, &["seed", &file, "--count", "40"]);
    let imported: Value = serde_json::from_str(&larder(dir, store, &["import", "--json"])).unwrap();
    assert_eq!(imported["system"], system);
    let notes = imported["notes"].as_array().unwrap();
    assert!(notes.iter().all(|note| note.as_str().unwrap().contains("this store says nothing")), "{notes:?}");
    let text = imported["schema"].as_str().unwrap();
    let again = schema(text);
    let original = schema(&fs::read_to_string(dir.join(&file)).unwrap());
    assert_eq!(setups(&again), setups(&original), "{text}");

    let path = format!("{system}/again.larder");
    larder(dir, store, &["import", "--out", &path]);
    assert_eq!(fs::read_to_string(dir.join(&path)).unwrap(), text);
    larder(dir, store, &["check", &path]);
    larder(dir, store, &["fmt", "--check", &path]);
    // Nothing would change if it were applied.
    larder(dir, store, &["drift", &path]);

    let Some(directory) = store.strip_prefix("./") else { return };
    let store = Store::open(&Address::Directory(dir.join(directory))).await.unwrap();
    for (table, setup) in again.tables.iter().zip(again.tables(&Environment::new()).unwrap()) {
        let items = items(&store, &setup).await;
        assert!(items.len() >= 40);
        for item in items {
            let entity =
                again.entity_of(table, &item).unwrap_or_else(|| panic!("{item:?} is nobody's in\n{text}"));
            let fields = again.read_item(table, entity, &item).unwrap();
            assert_eq!(again.violations(entity, &fields), [], "{item:?}");
            let rewritten = again.write_item(table, entity, &fields).unwrap();
            for key in std::iter::once(&table.partition).chain(&table.sort) {
                assert_eq!(rewritten.get(&key.attribute), item.get(&key.attribute));
            }
        }
    }
}

#[tokio::test]
async fn what_apply_made_comes_back_for_all_five() {
    for system in SYSTEMS {
        let dir = tempfile::tempdir().unwrap();
        check(dir.path(), "./data", system).await;
    }
}

#[tokio::test]
async fn what_apply_made_comes_back_from_a_server() {
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0"]);
    let dir = tempfile::tempdir().unwrap();
    check(dir.path(), &format!("dynamodb:{}", server.url), "shops").await;
}

#[test]
fn a_large_sample_shows_its_price_and_reads_one_page() {
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0"]);
    let store = format!("dynamodb:{}", server.url);
    let dir = tempfile::tempdir().unwrap();
    let big = "system big\ntable big {\n  name \"big\"\n  key id\n  entity Big {\n    id: string nonempty\n    text: string\n  }\n}\n";
    fs::write(dir.path().join("big.larder"), big).unwrap();
    larder(dir.path(), &store, &["apply", "--yes"]);
    let line = |id: usize| format!("{{\"id\": \"{id}\", \"text\": \"{}\"}}\n", "x".repeat(100_000));
    fs::write(dir.path().join("big.jsonl"), (0..20).map(line).collect::<String>()).unwrap();
    larder(dir.path(), &store, &["load", "big.jsonl", "--entity", "big.Big"]);

    let sampled = |arguments: &[&str]| {
        let output = run(dir.path(), &store, arguments);
        let head = String::from_utf8(output.stdout).unwrap().lines().nth(1).unwrap().to_owned();
        (head, String::from_utf8(output.stderr).unwrap())
    };
    let (head, told) = sampled(&["import"]);
    assert!(told.contains("read units, $") && told.contains("--yes"), "{told}");
    assert!(head.contains("guessed from 10 items") || head.contains("guessed from 11 items"), "{head}");
    let (head, told) = sampled(&["import", "--yes"]);
    assert!(head.contains("guessed from 20 items") && !told.contains("read units"), "{head} {told}");
    let (head, told) = sampled(&["import", "--sample", "8"]);
    assert!(head.contains("guessed from 8 items") && !told.contains("read units"), "{head} {told}");
}

#[test]
fn what_cannot_be_imported_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let failed = |arguments: &[&str], why: &str| {
        let output = run(dir.path(), "./data", arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(error.contains(why), "{arguments:?}: {error}");
    };
    failed(&["import"], "there is no store in ./data");
    assert!(!dir.path().join("data").exists(), "looking makes no store");
    failed(&["import", "nobody"], "there is no store in ./data");
    failed(&["import", "nothing.tf"], "there is no file nothing.tf");
    failed(&["import", "nothing.tf", "nobody"], "not both");
    failed(&["import", "."], "there are no .tf files");
    fs::write(dir.path().join("main.tf"), "resource {{").unwrap();
    failed(&["import", "."], "is no HCL");
    fs::write(dir.path().join("t.json"), "{\"Resources\": {}}").unwrap();
    failed(&["import", "t.json"], "there are no tables in t.json");
    let table = "resource \"aws_dynamodb_table\" \"t\" {\n  name = \"things\"\n  hash_key = \"id\"\n}\n";
    fs::write(dir.path().join("main.tf"), table).unwrap();
    fs::write(dir.path().join("mine.larder"), "mine").unwrap();
    failed(&["import", ".", "--out", "mine.larder"], "already there");
    assert_eq!(fs::read_to_string(dir.path().join("mine.larder")).unwrap(), "mine");
}
