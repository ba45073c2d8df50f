//! `larder bench`, small: its counts hold, whatever its speed.

mod process;

use std::process::{Command, Output};

use process::{Client, Larder};
use serde_json::{Value, json};

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.arg("bench").args(arguments).env_remove("LARDER_LOG").env_remove("LARDER_STORE");
    for (name, value) in
        [("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_REGION", "eu-west-1")]
    {
        command.env(name, value);
    }
    command.env("AWS_EC2_METADATA_DISABLED", "true").output().expect("the binary was built with this test")
}

#[track_caller]
fn measured(arguments: &[&str]) -> Value {
    let output = bench(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

#[test]
fn w12_the_cities_are_fetched_at_three_rates_of_hits() {
    let small = [
        "weather",
        "--json",
        "--cities",
        "20",
        "--concurrent",
        "10",
        "--rounds",
        "2",
        "--origin-delay",
        "1ms..3ms",
    ];
    let measured = measured(&small);
    let scenarios = measured["scenarios"].as_array().expect("a list");
    let counts: Vec<[u64; 5]> = scenarios
        .iter()
        .map(|scenario| {
            ["requests", "hits", "misses", "calls", "failed"]
                .map(|name| scenario[name].as_u64().expect("a count"))
        })
        .collect();
    assert_eq!(counts, [[40, 40, 0, 0, 0], [40, 20, 20, 20, 0], [40, 0, 40, 40, 0]]);
    for scenario in scenarios {
        for name in ["p50_ms", "p90_ms", "p99_ms", "mean_ms"] {
            assert!(scenario["ours"][name].as_f64().is_some_and(|millis| millis > 0.0), "{scenario:#}");
        }
    }
    assert_eq!(scenarios[0]["theirs"]["p50_ms"], 150.0);
}

#[test]
fn w12_the_figures_stand_beside_those_of_the_document() {
    let output =
        bench(&["weather", "--cities", "4", "--concurrent", "2", "--rounds", "1", "--origin-delay", "1ms"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in [
        "4 cities, 2 at a time",
        "P50",
        "P90",
        "P99",
        "mean",
        "100 %",
        "50 %",
        "0 %",
        "475 ms",
        "Theirs is of a Lambda",
    ] {
        assert!(text.contains(part), "`{part}` is missing:\n{text}");
    }
}

/// Names, requests and menus of the tests.
fn tests(measured: &Value) -> Vec<(&str, u64, u64)> {
    let tests = measured["tests"].as_array().expect("a list").iter();
    let count = |value: &Value| value.as_u64().expect("a count");
    tests
        .map(|test| (test["test"].as_str().expect("a name"), count(&test["requests"]), count(&test["menus"])))
        .collect()
}

#[test]
fn l15_menus_are_written_in_batches_read_at_once_and_queried_by_the_index() {
    let measured = measured(&["lunch", "--json", "--reads", "60"]);
    // Each restaurant has six menus.
    let wanted =
        [("batch_write", 3, 60), ("read_store", 60, 60), ("read_l1", 60, 60), ("index_query", 200, 1200)];
    assert_eq!(tests(&measured), wanted);
}

#[test]
fn l15_the_same_runs_over_dynamodbs_protocol_in_tables_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let server = Larder::on(directory.path(), &[]);
    let store = format!("dynamodb:{}", server.url);
    let refused = bench(&["lunch", "--reads", "30", "--store", &store]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{errors}");
    assert!(errors.contains("lunch-cache-bench") && errors.contains("--yes"), "{errors}");

    let measured = measured(&["lunch", "--json", "--reads", "30", "--yes", "--store", &store]);
    let wanted =
        [("batch_write", 2, 30), ("read_store", 30, 30), ("read_l1", 30, 30), ("index_query", 200, 600)];
    assert_eq!(tests(&measured), wanted);

    let client = Client::new(&server.url);
    assert_eq!(client.ok("ListTables", json!({}))["TableNames"], json!(["lunch-cache-bench"]));
    let left = client.ok("Scan", json!({"TableName": "lunch-cache-bench", "Select": "COUNT"}));
    assert_eq!(left["Count"], 0, "what was written is removed");
}

#[test]
fn l19_a_rate_is_raised_until_it_does_not_hold() {
    // An hour is never over; the search ends at the most.
    let easy = ["rate", "--json", "--from", "20", "--most", "50", "--for", "100ms", "--slow", "1h"];
    let found = measured(&easy);
    let rates: Vec<u64> =
        found["steps"].as_array().unwrap().iter().map(|step| step["rate"].as_u64().unwrap()).collect();
    assert_eq!((rates, &found["holds"], &found["gives_up"]), (vec![20, 40, 50], &json!(50), &Value::Null));
    // No answer takes no time at all.
    let hard = ["rate", "--json", "--from", "20", "--for", "100ms", "--slow", "1ns", "--capacity", "25/5"];
    let found = measured(&hard);
    assert_eq!((&found["holds"], &found["gives_up"]["rate"]), (&Value::Null, &json!(20)));
    assert!(found["gives_up"]["why"].as_str().unwrap().starts_with("P99 is over"), "{found}");
    // Menus of 15 dishes are over 2 KB: of 10 writes in 100, 5 write units are used up first.
    let (bytes, out) = (found["item_bytes"].as_u64().unwrap(), &found["provisioned_gives_up"]);
    let units = bytes.div_ceil(1024) as f64;
    assert_eq!((&out["first"], &out["rate"]), (&json!("write"), &json!(5.0 / (units * 0.1))));
}

#[test]
fn l19_a_rate_is_found_over_dynamodbs_protocol_and_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let server = Larder::on(directory.path(), &[]);
    let store = format!("dynamodb:{}", server.url);
    let easy = [
        "rate", "--from", "20", "--most", "20", "--for", "100ms", "--slow", "1h", "--yes", "--store", &store,
    ];
    let output = bench(&easy);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("It holds 20 requests a second"), "{text}");
    let client = Client::new(&server.url);
    let left = client.ok("Scan", json!({"TableName": "lunch-cache-bench", "Select": "COUNT"}));
    assert_eq!(left["Count"], 0, "what was written is removed");
}

#[test]
fn a_delay_that_is_none_is_refused() {
    let output = bench(&["weather", "--origin-delay", "5ms..1ms"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the first is longer"));
}
