//! `larder review` as people and programs meet it.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use larder::store::ops::{PutItem, WriteOptions};
use larder::{Address, Fields, Schema, Store, System, Value};
use larder_model::{Item, TableName};
use larder_schema::{Environment, NoFiles};
use serde_json::Value as Json;

/// A page costs a cent, and half the requests are hits.
const PAGES: &str = r#"
system pages
source web { cost $0.01 per call }
table pages {
  key pk
  ttl ttl
  BILLING
  entity Page from web {
    key "PAGE#{id}"
    ttl 1d
    input id: string nonempty
    host: string nonempty
    note: string?
  }
}
budget $0.3, $10 per month
workload {
  requests   1_000_000 per month
  hit_rate   50%
  item_size  300B
}
"#;

fn larder(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.arg("review").args(arguments).current_dir(directory);
    command.env_remove("ENVIRONMENT").env_remove("LARDER_STORE").output().unwrap()
}

/// What is found about each thing, and the exit code.
fn review(directory: &Path, arguments: &[&str]) -> (Json, Option<i32>) {
    let output = larder(directory, &[arguments, &["--json"]].concat());
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.code())
}

fn finding<'a>(found: &'a Json, about: &str) -> (&'a str, bool) {
    let all = found["findings"].as_array().unwrap();
    let one = all.iter().find(|finding| finding["about"] == about);
    let one = one.unwrap_or_else(|| panic!("nothing is said of {about}: {found}"));
    (one["text"].as_str().unwrap(), one["ok"].as_bool().unwrap())
}

fn pages(directory: &Path, billing: &str) -> Schema {
    let text = PAGES.replace("BILLING", billing);
    fs::write(directory.join("pages.larder"), &text).unwrap();
    Schema::load("pages.larder", &text, &mut NoFiles, &Environment::new()).schema.unwrap()
}

#[test]
fn l19_a_month_is_held_against_its_budget_and_what_it_returns() {
    let directory = tempfile::tempdir().unwrap();
    pages(directory.path(), "billing on_demand");
    let (found, code) = review(directory.path(), &[]);
    // Reads: 1M halves of a unit at $0.125 a million units; writes: 500,000 at $0.625 a million.
    let (cost, is_fine) = finding(&found, "cost");
    assert!(!is_fine && cost.contains("the budget of $0.30 is reached"), "{cost}");
    // Half a million calls at a cent for less than half a dollar.
    let (returns, is_fine) = finding(&found, "return");
    assert!(is_fine && returns.contains("$5,000.00 of calls avoided"), "{returns}");
    assert!(found["return_percent"].as_i64().unwrap() > 1_000_000, "{found}");
    let (attributes, is_fine) = finding(&found, "attributes");
    assert!(is_fine && attributes.starts_with("not looked at: there is no store"), "{attributes}");
    assert_eq!(code, Some(3), "a budget that is reached calls for a decision");
}

#[test]
fn l19_a_capacity_that_is_too_small_is_told() {
    let directory = tempfile::tempdir().unwrap();
    pages(directory.path(), "billing provisioned 1 / 1");
    let (found, _) = review(directory.path(), &["--requests", "200/second"]);
    let (capacity, is_fine) = finding(&found, "capacity");
    assert!(!is_fine && capacity.contains("provisioned 1 / 1"), "{capacity}");
    assert!(capacity.contains("requests will be turned away"), "{capacity}");
}

#[test]
fn l19_attributes_that_no_field_reads_and_fields_that_nothing_has_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let schema = pages(directory.path(), "billing on_demand");
    let data = directory.path().join("data");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Store::open(&Address::Directory(data.clone())).await.unwrap();
        let system = System::open(schema, store.clone()).await.unwrap();
        let page =
            Fields::from([("id".to_owned(), Value::from("1")), ("host".to_owned(), Value::from("a.com"))]);
        system.entries("Page").unwrap().put(page).await.unwrap();
        let mut item = Item::new();
        for (name, text) in [("pk", "PAGE#2"), ("host", "b.com"), ("legacy_html", "<html>")] {
            item.insert(name, text);
        }
        let options = WriteOptions::default();
        store.put_item(PutItem { table: TableName::new("pages").unwrap(), item, options }).await.unwrap();
    });
    let (found, code) = review(directory.path(), &["--store", data.to_str().unwrap(), "--requests", "100"]);
    let (attributes, is_fine) = finding(&found, "attributes");
    assert!(!is_fine && code == Some(3), "{found}");
    assert!(
        attributes.contains("`legacy_html` is in 1 of 2 Page, 17 bytes each, and no field reads it"),
        "{attributes}"
    );
    assert!(attributes.contains("no Page has `note`"), "{attributes}");
    assert!(!attributes.contains("`host`") && !attributes.contains("`ttl`"), "{attributes}");
}

#[test]
fn w17_the_weather_team_s_return_comes_out_at_its_own_figures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = larder(&root, &["weather"]);
    let text = String::from_utf8(output.stdout).unwrap();
    // $80 of calls for less than a dollar; the document has 13,700 % at the prices of its day.
    assert!(text.contains("$80.00 of calls avoided for $0."), "{text}");
    let percent =
        text.lines().find_map(|line| line.split_once(" % on what")?.0.rsplit(' ').next().map(str::to_owned));
    let percent: u64 = percent.unwrap().replace(',', "").parse().unwrap();
    assert!(percent > 10_000, "{text}");
}
