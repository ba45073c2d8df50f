//! `larder sql` on a store in a directory and on a server: what it prints, and what it says of a statement's price.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod process;

use std::process::Command;

use process::{Client, Larder};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A store in a directory with a table of visits.
fn visits() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let server = Larder::on(place.path(), &[]);
    let client = Client::new(&server.url);
    client.ok(
        "CreateTable",
        json!({
            "TableName": "visits", "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{"AttributeName": "page", "KeyType": "HASH"}, {"AttributeName": "day", "KeyType": "RANGE"}],
            "AttributeDefinitions": [
                {"AttributeName": "page", "AttributeType": "S"}, {"AttributeName": "day", "AttributeType": "N"},
                {"AttributeName": "city", "AttributeType": "S"},
            ],
            "GlobalSecondaryIndexes": [{
                "IndexName": "by-city", "KeySchema": [{"AttributeName": "city", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
            }],
        }),
    );
    place
}

fn run(store: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    run_as("sql", store, arguments)
}

fn run_as(command: &str, store: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut larder = Command::new(env!("CARGO_BIN_EXE_larder"));
    let output = larder.args([command, "--store", store]).args(arguments).env_clear().output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[track_caller]
fn ok(store: &str, arguments: &[&str]) -> String {
    let (code, out, error) = run(store, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {error}");
    out
}

#[test]
fn statements_are_carried_out_on_a_directory_and_through_its_server() {
    let place = visits();
    let directory = place.path().to_str().unwrap();
    let insert =
        "INSERT INTO visits VALUE {'page': 'home', 'day': ?, 'city': 'Kyoto', 'hits': 3, 'tags': <<'a'>>}";
    assert_eq!(ok(directory, &[insert, "--parameter", "1"]), "it is done\n");
    let server = Larder::on(place.path(), &[]);
    let endpoint = format!("dynamodb:{}", server.url);
    assert_eq!(ok(&endpoint, &[insert, "--parameter", "2"]), "it is done\n");

    let select = "SELECT * FROM visits WHERE page = 'home' ORDER BY day DESC";
    // The directory is served: the command goes through the server.
    for store in [directory, &endpoint] {
        assert_eq!(
            ok(store, &[select]),
            "page  day  city   hits  tags\nhome  2    Kyoto  3     [\"a\"]\nhome  1    Kyoto  3     [\"a\"]\n"
        );
        assert_eq!(
            ok(store, &[select, "--csv", "--limit", "1"]),
            "page,day,city,hits,tags\r\nhome,2,Kyoto,3,\"[\"\"a\"\"]\"\r\n"
        );
        let lines =
            ok(store, &["SELECT day, hits FROM visits WHERE page = ?", "--parameter", "home", "--json"]);
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines, [json!({"day": 1, "hits": 3}), json!({"day": 2, "hits": 3})]);
    }
    let update = "UPDATE visits SET hits = hits + 1 WHERE page = 'home' AND day = 1 RETURNING MODIFIED NEW *";
    assert_eq!(ok(&endpoint, &[update]), "hits\n4\n");
    assert_eq!(ok(&endpoint, &["SELECT * FROM visits WHERE page = 'none'"]), "nothing is there\n");
    let (_, _, told) = run(&endpoint, &["SELECT * FROM visits", "--limit", "1"]);
    assert!(told.starts_with("there is more: a higher --limit shows it\n0.5 read units, "), "{told}");
}

#[test]
fn a_refusal_names_its_cause() {
    let place = visits();
    let store = place.path().to_str().unwrap();
    for (statement, expected) in [
        (
            "SLECT * FROM visits",
            "Statement wasn't well formed, can't be processed: Expected data manipulation",
        ),
        ("SELECT * FROM none", "there is no table none in"),
        (
            "UPDATE visits SET hits = 1 WHERE page = 'none' AND day = 1",
            "The conditional request failed (ConditionalCheckFailedException)",
        ),
    ] {
        let (code, out, error) = run(store, &[statement]);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{statement}");
        assert!(error.starts_with(&format!("larder: {expected}")), "{error}");
    }
    let (code, _, error) = run("nowhere-at-all", &["SELECT * FROM visits"]);
    assert!(code == Some(1) && error.contains("there is no store in nowhere-at-all"), "{error}");
}

#[test]
fn an_explanation_says_what_would_be_done_and_does_nothing() {
    let place = visits();
    let store = place.path().to_str().unwrap();
    ok(store, &["INSERT INTO visits VALUE {'page': 'home', 'day': 1, 'city': 'Kyoto'}"]);
    for (statement, expected) in [
        (
            "SELECT * FROM visits WHERE page = 'a' AND day = 1",
            "GetItem: one item of visits, of 22 bytes on average\nabout 0.5 read units, ",
        ),
        (
            "SELECT * FROM visits WHERE page IN ['a', 'b'] AND day > 1",
            "Query: 2 partitions of visits, 22 bytes an item on average\na million items read so cost ",
        ),
        (
            "SELECT * FROM visits.\"by-city\" WHERE city = 'Kyoto'",
            "Query: 1 partition of index by-city of visits, 22 bytes an item on average\n",
        ),
        (
            "SELECT * FROM visits WHERE city = 'Kyoto'",
            "Scan: all 1 item of visits, 22 bytes\nabout 0.5 read units, ",
        ),
        ("DELETE FROM visits WHERE page = 'home' AND day = 1", "DeleteItem: one item of visits, "),
    ] {
        let told = ok(store, &[statement, "--explain"]);
        assert!(told.starts_with(expected), "{statement}: {told}");
        assert_eq!(run_as("explain", store, &[statement]), (Some(0), told, String::new()));
    }
    let asked = ["SELECT * FROM visits WHERE page = ?", "--parameter", "home"];
    let (code, told, _) = run_as("explain", store, &asked);
    assert!(code == Some(0) && told.starts_with("Query: 1 partition of visits, "), "{told}");
    let (code, _, told) = run_as("explain", store, &["SELECT * FROM nowhere"]);
    assert_eq!(code, Some(1));
    assert!(told.starts_with("larder: there is no table nowhere in "), "{told}");
    let told: Value =
        serde_json::from_str(&ok(store, &["SELECT * FROM visits", "--explain", "--json"])).unwrap();
    assert_eq!((&told["operation"], &told["read_units"]), (&json!("Scan"), &json!(0.5)));
    assert!(ok(store, &["SELECT page FROM visits"]).contains("home"), "it is still there");
}
