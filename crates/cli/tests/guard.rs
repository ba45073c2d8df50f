//! `larder serve --schema`: what a schema does not allow is refused, however it is written, and nothing has changed.

mod process;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use process::{Client, Larder, command};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(30);

const NOTES: &str = r#"system notes

table notes {
  key  id
  strict

  entity Note {
    key  "NOTE#{number}"

    number:    int in 1..
    text:      string nonempty
    kind:      "a" | "b"
    length   = text.len()
    token:     string? secret match /[a-f]+/

    lifecycle status {
      state new, read, gone

      open:    new -> read
      remove:  new | read -> gone
    }
  }
}
"#;

fn note(number: u32, kind: &str, status: &str) -> Value {
    json!({
        "id": {"S": format!("NOTE#{number}")}, "number": {"N": number.to_string()}, "text": {"S": "hello"},
        "kind": {"S": kind}, "length": {"N": "5"}, "status": {"S": status},
    })
}

fn with(mut item: Value, name: &str, value: Value) -> Value {
    item[name] = value;
    item
}

/// A server that holds `notes` against the schema, and its client.
fn guarded(schema: &Path, arguments: &[&str]) -> (Larder, Client) {
    let schema = schema.to_str().expect("temporary paths are text");
    let mut all = vec!["--memory", "--dynamodb", "127.0.0.1:0", "--schema", schema];
    all.extend_from_slice(arguments);
    let server = Larder::serve(&all);
    let client = Client::new(&server.url);
    for table in ["notes", "others"] {
        client.ok(
            "CreateTable",
            json!({
                "TableName": table, "BillingMode": "PAY_PER_REQUEST",
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
            }),
        );
    }
    (server, client)
}

fn written(text: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a place for temporary files");
    fs::write(place.path().join("notes.larder"), text).expect("it can be written");
    place
}

fn put(client: &Client, item: &Value) -> Result<(), String> {
    answer(client, "PutItem", json!({"TableName": "notes", "Item": item}))
}

fn answer(client: &Client, operation: &str, body: Value) -> Result<(), String> {
    let (status, answer) = client.send(operation, body).expect("an answer");
    if status == 200 { Ok(()) } else { Err(answer.to_string()) }
}

fn stored(client: &Client) -> Vec<Value> {
    let found = client.ok("Scan", json!({"TableName": "notes", "ConsistentRead": true}));
    found["Items"].as_array().expect("items").clone()
}

fn metrics(server: &Larder) -> String {
    let mut answer = ureq::get(format!("{}/metrics", server.url)).call().expect("an answer");
    answer.body_mut().read_to_string().expect("it is text")
}

#[test]
fn a1_every_way_to_write_is_guarded_and_a_refusal_changes_nothing() {
    let place = written(NOTES);
    let (server, client) = guarded(place.path(), &[]);
    put(&client, &note(1, "a", "new")).expect("it is right");
    let before = stored(&client);
    let key = json!({"id": {"S": "NOTE#1"}});
    let update = |expression: &str, values: Value| {
        json!({
            "TableName": "notes", "Key": key, "UpdateExpression": expression,
            "ExpressionAttributeNames": {"#a": "text"}, "ExpressionAttributeValues": values,
        })
    };
    let wrong = with(note(2, "a", "new"), "length", json!({"N": "4"}));
    let right = note(3, "b", "new");
    let put_of = |item: &Value| json!({"PutRequest": {"Item": item}});
    let step_of = |item: &Value| json!({"Put": {"TableName": "notes", "Item": item}});
    let cases = [
        (
            "PutItem",
            json!({"TableName": "notes", "Item": wrong}),
            "must be text.len(), which is 5, and it is 4",
        ),
        (
            "UpdateItem",
            update("SET #a = :v", json!({":v": {"S": "hi"}})),
            "Note.length: must be text.len(), which is 2",
        ),
        (
            "UpdateItem",
            update("SET #a = :v", json!({":v": {"N": "7"}})),
            "Note.text: must be of type string, and it is 7",
        ),
        (
            "UpdateItem",
            json!({
                "TableName": "notes", "Key": {"id": {"S": "NOTE#9"}}, "UpdateExpression": "SET kind = :v",
                "ExpressionAttributeValues": {":v": {"S": "a"}},
            }),
            "Note.text: is required, and it is missing",
        ),
        (
            "BatchWriteItem",
            json!({"RequestItems": {"notes": [put_of(&right), put_of(&wrong)]}}),
            "must be text.len(), which is 5, and it is 4",
        ),
        (
            "TransactWriteItems",
            json!({"TransactItems": [step_of(&right), step_of(&wrong)]}),
            "must be text.len(), which is 5, and it is 4",
        ),
        (
            "ExecuteStatement",
            json!({"Statement": "UPDATE notes SET \"text\" = 'hi' WHERE id = 'NOTE#1'"}),
            "Note.length: must be text.len(), which is 2",
        ),
        (
            "ExecuteStatement",
            json!({"Statement": "INSERT INTO notes VALUE ?", "Parameters": [{"M": wrong}]}),
            "must be text.len(), which is 5, and it is 4",
        ),
        (
            "ExecuteTransaction",
            json!({"TransactStatements": [
                {"Statement": "INSERT INTO notes VALUE ?", "Parameters": [{"M": right}]},
                {"Statement": "INSERT INTO notes VALUE ?", "Parameters": [{"M": wrong}]},
            ]}),
            "must be text.len(), which is 5, and it is 4",
        ),
    ];
    for (operation, body, expected) in cases {
        let refusal = answer(&client, operation, body).expect_err(operation).replace('\\', "");
        assert!(refusal.contains(expected), "{operation}: {refusal}");
        assert!(refusal.contains("notes.larder:1"), "{operation} names the line: {refusal}");
        if ["TransactWriteItems", "ExecuteTransaction"].contains(&operation) {
            assert!(
                refusal.contains("TransactionCanceledException")
                    && refusal.contains("[None, ValidationError]")
            );
        } else {
            assert!(refusal.contains("ValidationException"), "{operation}: {refusal}");
        }
        assert_eq!(stored(&client), before, "{operation} changed something");
    }

    // A batch of statements is answered one by one.
    let body =
        json!({"Statements": [{"Statement": "INSERT INTO notes VALUE ?", "Parameters": [{"M": wrong}]}]});
    let batch = client.ok("BatchExecuteStatement", body);
    assert_eq!(batch["Responses"][0]["Error"]["Code"], "ValidationError");
    assert_eq!(stored(&client), before);

    // All that is wrong at once, and no secret.
    let all = json!({"id": {"S": "NOTE#4"}, "number": {"N": "4"}, "kind": {"S": "c"}, "token": {"S": "hush"}, "x": {"S": "y"}});
    let refusal = put(&client, &all).expect_err("it is wrong");
    for expected in [
        "Note.text: is required",
        "Note.kind: must be",
        "Note.token: must match",
        "Note.status",
        "Note.x: there is no",
    ] {
        assert!(refusal.contains(expected), "{expected}: {refusal}");
    }
    assert!(!refusal.contains("hush"), "{refusal}");

    // Transitions, and what the guard leaves alone.
    let opened = with(note(1, "a", "gone"), "text", json!({"S": "hello"}));
    put(&client, &opened).expect("it may be removed");
    let refusal = put(&client, &note(1, "a", "read")).expect_err("nothing leads back");
    assert!(refusal.contains("must stay gone, which no transition leaves"), "{refusal}");
    client.ok("DeleteItem", json!({"TableName": "notes", "Key": key}));
    client.ok(
        "PutItem",
        json!({"TableName": "others", "Item": {"id": {"S": "anything"}, "at": {"BOOL": true}}}),
    );

    let text = metrics(&server);
    for expected in [
        "larder_schema_enforced 1",
        "larder_schema_violations_total{table=\"notes\",rule=\"equation\"} 8",
        "larder_schema_violations_total{table=\"notes\",rule=\"transition\"} 1",
    ] {
        assert!(text.contains(expected), "{expected}:\n{text}");
    }
}

#[test]
fn a_report_lets_everything_through_and_counts_it() {
    let place = written(NOTES);
    let (server, client) = guarded(&place.path().join("notes.larder"), &["--schema-mode", "report"]);
    let wrong = with(note(1, "a", "new"), "length", json!({"N": "4"}));
    for _ in 0..3 {
        put(&client, &wrong).expect("it is let through");
    }
    put(&client, &json!({"id": {"S": "garbage"}})).expect("it is let through");
    assert_eq!(stored(&client).len(), 2);
    let text = metrics(&server);
    for expected in [
        "larder_schema_enforced 0",
        "larder_schema_violations_total{table=\"notes\",rule=\"entity\"} 1",
        "larder_schema_violations_total{table=\"notes\",rule=\"equation\"} 3",
    ] {
        assert!(text.contains(expected), "{expected}:\n{text}");
    }
}

#[test]
fn schemas_that_are_wrong_or_contradict_each_other_end_the_start() {
    let place = written("system notes\ntable notes { key id\n entity Note { key \"N#{x}\" } }\n");
    let twice = written(NOTES);
    fs::write(twice.path().join("again.larder"), NOTES.replace("system notes", "system again"))
        .expect("written");
    let nothing = tempfile::tempdir().expect("a place for temporary files");
    for (path, expected) in [
        (place.path().to_owned(), "error[L0201]"),
        (twice.path().to_owned(), "table notes is declared by two systems"),
        (nothing.path().to_owned(), "there are no .larder files in"),
        (nothing.path().join("none.larder"), "there is no file"),
    ] {
        let schema = path.to_str().expect("text").to_owned();
        let ended = command(&["--memory", "--dynamodb", "127.0.0.1:0", "--schema", &schema])
            .stderr(Stdio::piped())
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!ended.status.success() && text.contains(expected), "{expected}: {text}");
    }
}

/// Asks the server until it has done something by itself.
fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LIMIT, "{what} did not come about");
    }
}

/// Waits until schemas have been read again so often, and taken or not.
fn read_again(server: &Larder, outcome: &str, times: u32) {
    let expected = format!("larder_schema_reads_total{{outcome=\"{outcome}\"}} {times}\n");
    until(&expected, || metrics(server).contains(&expected));
}

#[test]
fn a_changed_schema_is_in_force_from_the_next_write_and_a_wrong_one_never() {
    let place = written(NOTES);
    let path = place.path().join("notes.larder");
    let (server, client) = guarded(place.path(), &[]);
    let odd = with(note(1, "c", "new"), "number", json!({"N": "1"}));
    assert!(put(&client, &odd).is_err());

    // A file that changes.
    fs::write(&path, NOTES.replace("\"a\" | \"b\"", "\"a\" | \"b\" | \"c\"")).expect("written");
    read_again(&server, "taken", 1);
    put(&client, &odd).expect("it is allowed now");

    // A wrong one: what was in force stays so.
    fs::write(&path, NOTES.replace("key  id", "")).expect("written");
    read_again(&server, "wrong", 1);
    put(&client, &odd).expect("it is still allowed");
    assert!(put(&client, &with(odd.clone(), "kind", json!({"S": "d"}))).is_err());

    // A new file, at once.
    fs::write(&path, NOTES).expect("written");
    fs::write(place.path().join("others.larder"), NOTES.replace("notes", "others")).expect("written");
    hang_up(&server);
    until("the new file", || reads_taken(&server) >= 2);
    let garbage = json!({"TableName": "others", "Item": {"id": {"S": "garbage"}}});
    assert!(answer(&client, "PutItem", garbage).is_err());
    assert!(put(&client, &odd).is_err());
}

/// How often schemas were read again and taken. A file that changed may be read by itself too.
fn reads_taken(server: &Larder) -> u32 {
    let text = metrics(server);
    let line =
        text.lines().find_map(|line| line.strip_prefix("larder_schema_reads_total{outcome=\"taken\"} "));
    line.and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn hang_up(server: &Larder) {
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().expect("kill is there").success());
}

/// Two schemas take turns: one allows notes of kind a alone, the other of kind b. Every request is judged by one of them.
#[test]
fn a_schema_that_changes_under_load_judges_each_request_alone() {
    let only = |kind: &str| NOTES.replace("\"a\" | \"b\"", &format!("\"{kind}\""));
    let place = written(&only("a"));
    let path = place.path().join("notes.larder");
    let (server, _) = guarded(place.path(), &[]);
    let over = AtomicBool::new(false);
    let made = [AtomicU32::new(0), AtomicU32::new(0)];
    let (accepted, mixtures) = thread::scope(|scope| {
        let workers: Vec<_> = (0..4u32)
            .map(|worker| {
                let (url, over, made) = (&server.url, &over, &made);
                scope.spawn(move || {
                    let client = Client::new(url);
                    let (mut accepted, mut mixtures) = (Vec::new(), 0);
                    for turn in 0.. {
                        if over.load(Ordering::Relaxed) {
                            break;
                        }
                        let number = 1 + worker + 4 * turn;
                        let step = |number: u32, kind: &str| {
                            json!({"Put": {"TableName": "notes", "Item": note(number, kind, "new")}})
                        };
                        for (at, kind) in ["a", "b"].into_iter().enumerate() {
                            let item = note(number, kind, "new");
                            if put(&client, &item).is_ok() {
                                accepted.push(number);
                                made[at].fetch_add(1, Ordering::Relaxed);
                            }
                        }
                        let mixed = json!({"TransactItems": [step(1_000_000 + number, "a"), step(2_000_000 + number, "b")]});
                        if answer(&client, "TransactWriteItems", mixed).is_ok() {
                            mixtures += 1;
                        }
                    }
                    (accepted, mixtures)
                })
            })
            .collect();
        for (times, kind) in (1..).zip(["b", "a", "b", "a"]) {
            fs::write(&path, only(kind)).expect("written");
            hang_up(&server);
            until("the other schema", || reads_taken(&server) >= times);
            let made = &made[usize::from(kind == "b")];
            let before = made.load(Ordering::Relaxed);
            until("writes under it", || made.load(Ordering::Relaxed) > before);
        }
        over.store(true, Ordering::Relaxed);
        let done = workers.into_iter().map(|worker| worker.join().expect("it keeps its rules"));
        done.fold((Vec::new(), 0), |(mut all, count), (accepted, more)| {
            all.extend(accepted);
            (all, count + more)
        })
    });
    assert_eq!(mixtures, 0, "no request was judged by two schemas");
    let client = Client::new(&server.url);
    let expected: BTreeSet<u32> = accepted.into_iter().collect();
    let mut found = BTreeSet::new();
    let mut from = Value::Null;
    loop {
        let mut request = json!({"TableName": "notes", "ConsistentRead": true});
        if !from.is_null() {
            request["ExclusiveStartKey"] = from;
        }
        let page = client.ok("Scan", request);
        let numbers = page["Items"].as_array().expect("items").iter();
        found.extend(
            numbers
                .map(|item| item["number"]["N"].as_str().expect("a number").parse::<u32>().expect("whole")),
        );
        from = page["LastEvaluatedKey"].clone();
        if from.is_null() {
            break;
        }
    }
    assert_eq!(found, expected, "what was accepted is there, and nothing else");
}

/// `larder check --data` on the tables of a server.
fn check_data(place: &Path, server: &Larder, arguments: &[&str]) -> (bool, String, String) {
    larder(place, server, &[&["check", "--data", "notes.larder"], arguments].concat())
}

/// A command beside the schema, on the tables of a server.
fn larder(place: &Path, server: &Larder, arguments: &[&str]) -> (bool, String, String) {
    let ended = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(arguments)
        .args(["--store", &format!("dynamodb:{}", server.url)])
        .current_dir(place)
        .env("AWS_ACCESS_KEY_ID", "any")
        .env("AWS_SECRET_ACCESS_KEY", "any")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
    (ended.status.success(), text(ended.stdout), text(ended.stderr))
}

#[test]
fn what_is_stored_is_checked_counted_and_fixed() {
    let place = written(NOTES);
    let (server, client) = guarded(place.path(), &["--schema-mode", "report"]);
    put(&client, &note(1, "a", "new")).expect("it is let in");
    put(&client, &with(note(2, "a", "new"), "length", json!({"N": "4"}))).expect("it is let in");
    put(&client, &with(note(3, "c", "new"), "length", json!({"N": "9"}))).expect("it is let in");
    put(&client, &json!({"id": {"S": "garbage"}})).expect("it is let in");

    let (fine, text, _) = check_data(place.path(), &server, &[]);
    assert!(!fine, "{text}");
    assert!(text.starts_with("notes: 4 items looked at: 3 wrong\n"), "{text}");
    for expected in [
        "       2  equation    Note.length  (",
        "       1  type        Note.kind  (",
        "       1  entity      notes.id  (",
        "NOTE#2: Note.length: must be text.len(), which is 5, and it is 4",
    ] {
        assert!(text.contains(expected), "{expected}:\n{text}");
    }
    let (_, text, _) = check_data(place.path(), &server, &["--json", "--limit", "1"]);
    let report: Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(
        (&report["tables"][0]["items"], &report["tables"][0]["cut"]),
        (&json!(1), &json!(true)),
        "{report}"
    );

    // What can be derived is shown, and written once that is agreed to.
    let before = stored(&client);
    let (_, _, told) = check_data(place.path(), &server, &["--fix"]);
    assert!(told.contains("length: 4 -> 5") && told.contains("--yes writes"), "{told}");
    assert_eq!(stored(&client), before);
    let (_, _, told) = check_data(place.path(), &server, &["--fix", "--yes"]);
    assert!(told.contains("notes: 2 items fixed"), "{told}");
    let (_, text, _) = check_data(place.path(), &server, &[]);
    assert!(text.starts_with("notes: 4 items looked at: 2 wrong\n") && !text.contains("equation"), "{text}");
}

#[test]
fn a_dump_and_an_export_are_checked_as_a_store_is() {
    let place = written(NOTES);
    let (server, client) = guarded(place.path(), &["--schema-mode", "report"]);
    put(&client, &note(1, "a", "new")).expect("it is let in");
    put(&client, &with(note(2, "a", "new"), "length", json!({"N": "4"}))).expect("it is let in");
    put(&client, &json!({"id": {"S": "garbage"}})).expect("it is let in");
    let (_, of_store, _) = check_data(place.path(), &server, &[]);
    assert!(of_store.starts_with("notes: 3 items looked at: 2 wrong\n"), "{of_store}");
    for (format, out) in [("lines", "notes.jsonl"), ("dynamodb", "exported")] {
        let (fine, _, told) =
            larder(place.path(), &server, &["dump", "notes", "--format", format, "--out", out]);
        assert!(fine, "{told}");
        let (fine, text, told) = check_data(place.path(), &server, &["--from", out]);
        assert!(!fine, "{told}");
        assert_eq!(text, of_store, "{format}");
    }
}

#[test]
fn what_is_mended_of_a_secret_is_not_shown() {
    let place = written(&NOTES.replace("    lifecycle", "    shadow   = \"of {token}\"\n\n    lifecycle"));
    let (server, client) = guarded(place.path(), &["--schema-mode", "report"]);
    let note = with(note(1, "a", "new"), "token", json!({"S": "abcdef"}));
    put(&client, &with(note, "shadow", json!({"S": "of fedcba"}))).expect("it is let in");
    let (fine, text, told) = check_data(place.path(), &server, &["--fix", "--yes"]);
    assert!(!fine && told.contains("shadow: a secret -> a secret"), "{text}{told}");
    assert!(!format!("{text}{told}").contains("fedcba") && !told.contains("abcdef"), "{text}{told}");
    assert_eq!(stored(&client)[0]["shadow"]["S"], "of abcdef");
}
