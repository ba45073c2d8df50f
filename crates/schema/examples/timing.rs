//! How long the five systems take: `cargo run --release -p larder-schema --example timing`

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use larder_model::{AttributeValue, Item, UnixTime};
use larder_schema::{Checker, Environment, NoFiles, Schema, format};
use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn main() -> io::Result<()> {
    let directory = Path::new(ROOT).join("schemas");
    let mut texts = Vec::new();
    for system in ["keiba", "lunch", "shops", "tdnet", "weather"] {
        texts.push(std::fs::read_to_string(directory.join(format!("{system}.larder")))?);
    }
    let environment = Environment::new();
    let mut times = Vec::new();
    for _ in 0..100 {
        let start = Instant::now();
        for text in &texts {
            let loaded = Schema::load("x.larder", text, &mut NoFiles, &environment);
            assert!(loaded.schema.is_some());
        }
        times.push(start.elapsed());
    }
    let start = Instant::now();
    texts.iter().for_each(|text| drop(format(text)));
    let formatted = start.elapsed();
    let first = times[0];
    times.sort_unstable();
    println!(
        "parse and check, first {first:?}, median {:?}, worst {:?}; format {formatted:?}",
        times[50], times[99]
    );
    checks(&directory)
}

/// How long it takes to hold an item against its schema.
fn checks(schemas: &Path) -> io::Result<()> {
    let text = std::fs::read_to_string(Path::new(ROOT).join("tests/clients/systems/items.json"))?;
    let known: Value = serde_json::from_str(&text)?;
    for (system, table, entity) in
        [("lunch", "cache", "menu"), ("shops", "data", "shop"), ("shops", "data", "page")]
    {
        let text = std::fs::read_to_string(schemas.join(format!("{system}.larder")))?;
        let loaded = Schema::load("x.larder", &text, &mut NoFiles, &Environment::new());
        let schema = Arc::new(loaded.schema.ok_or_else(|| io::Error::other("the schema is wrong"))?);
        let checker = Checker::new(schema, table, &loaded.files).expect("the system has such a table");
        let item: Item = members(&known[system][entity]).collect();
        let now = UnixTime::from_seconds(4_000_000_000);
        const TIMES: u32 = 100_000;
        let start = Instant::now();
        for _ in 0..TIMES {
            assert_eq!(checker.check(Some(&item), &item, now), []);
        }
        println!("check of {system} {entity}: {:?}", start.elapsed() / TIMES);
    }
    Ok(())
}

fn members(json: &Value) -> impl Iterator<Item = (String, AttributeValue)> {
    json.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), typed(value)))
}

/// A value in DynamoDB's JSON, of the types that these items have.
fn typed(json: &Value) -> AttributeValue {
    let (kind, value) = json.as_object().and_then(|value| value.iter().next()).expect("a typed value");
    match (kind.as_str(), value) {
        ("N", Value::String(number)) => AttributeValue::N(number.parse().expect("a number")),
        ("S", Value::String(text)) => AttributeValue::S(text.clone()),
        ("BOOL", Value::Bool(is)) => AttributeValue::Bool(*is),
        ("L", Value::Array(list)) => AttributeValue::L(list.iter().map(typed).collect()),
        ("M", value) => AttributeValue::M(members(value).collect()),
        other => panic!("{other:?} is not among them"),
    }
}
