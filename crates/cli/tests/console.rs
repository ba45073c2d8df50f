//! The console beside a server, and by itself.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod browser;
mod process;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use browser::{Browser, free_address, until};
use larder_server::TlsFiles;
use process::{Client, Larder, command};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

fn page(address: &str, path: &str) -> String {
    let answer = ureq::get(format!("http://{address}{path}")).call();
    answer.unwrap_or_else(|error| panic!("{path}: {error}")).body_mut().read_to_string().unwrap()
}

#[test]
fn the_console_speaks_tls_where_the_endpoint_does_with_certificates_that_are_read_again() {
    let place = tempfile::tempdir().unwrap();
    let made =
        |name: &str| TlsFiles::self_signed(&place.path().join(name), &["127.0.0.1".to_owned()]).unwrap();
    let (first, second) = (made("first"), made("second"));
    let (certificate, key) = (place.path().join("certificate.pem"), place.path().join("key.pem"));
    let use_files = |files: &TlsFiles| {
        fs::copy(&files.key, &key).unwrap();
        fs::copy(&files.certificate, &certificate).unwrap();
    };
    use_files(&first);
    let console = free_address();
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let serve = ["--memory", "--dynamodb", "127.0.0.1:0", "--console", &console];
    let tls = ["--tls-cert", certificate, "--tls-key", key];
    let server = Larder::serve(&[&serve[..], &tls].concat());
    assert!(server.url.starts_with("https://"), "{}", server.url);

    let mut browser = Browser::new(&console, Some(&first.certificate));
    let shown = browser.get("/create");
    assert_eq!(shown.status, 200, "{}", shown.head);
    let cookie = shown.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-") && cookie.ends_with("; Secure"), "{cookie}");
    let made =
        browser.post("/create", shown.token(), "name=carts&partition=id&partition-type=S&billing=on-demand");
    assert_eq!(made.status, 303, "{}", made.body);
    assert!(browser.get("/tables").body.contains("carts"));
    let plain = Browser::new(&console, None).try_send("GET", "/", None);
    assert!(plain.as_ref().is_ok_and(|answer| answer.status != 200) || plain.is_err(), "{plain:?}");

    use_files(&second);
    until(|| {
        let mut browser = Browser::new(&console, Some(&second.certificate));
        browser.try_send("GET", "/", None).is_ok_and(|answer| answer.status == 200)
    });
    drop(server);

    let authority = first.certificate.to_str().unwrap();
    let _server = Larder::serve(&[&serve[..], &tls, &["--tls-client-ca", authority]].concat());
    let stranger = Browser::new(&console, Some(&second.certificate)).try_send("GET", "/", None);
    assert!(stranger.is_err(), "without a certificate of its own it gets no page: {stranger:?}");
}

#[test]
fn s13_one_command_opens_the_store_and_the_console_beside_it() {
    let console = free_address();
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0", "--console", &console]);
    assert!(page(&console, "/").contains("Nothing is kept here yet"));
    let table = json!({
        "TableName": "carts",
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
    });
    let client = Client::new(&server.url);
    client.ok("CreateTable", table);
    client.ok("PutItem", json!({"TableName": "carts", "Item": {"id": {"S": "seven"}}}));
    assert!(page(&console, "/").contains("carts"));
    assert!(page(&console, "/items/carts?by=all").contains("seven"), "it shows what the endpoint was given");
}

#[test]
fn changes_of_a_store_from_outside_are_seen_as_they_come_by_the_stream() {
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0", "--no-console"]);
    let client = Client::new(&server.url);
    let table = |name: &str, stream: bool| {
        json!({
            "TableName": name,
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            "BillingMode": "PAY_PER_REQUEST",
            "StreamSpecification": if stream {
                json!({"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"})
            } else {
                json!({"StreamEnabled": false})
            },
        })
    };
    client.ok("CreateTable", table("carts", true));
    client.ok("CreateTable", table("silent", false));
    client.ok("PutItem", json!({"TableName": "carts", "Item": {"id": {"S": "before"}}}));
    let mut child = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["console", "--address", "127.0.0.1:0", "--store", &format!("dynamodb:{}", server.url)])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("the console is on http://").expect("it says where").to_owned();
    let first = page(&address, "/changes/carts");
    assert!(first.contains("Nothing came yet") && !first.contains("before</a>"), "{first}");
    client.ok("PutItem", json!({"TableName": "carts", "Item": {"id": {"S": "seven"}, "price": {"N": "1"}}}));
    client.ok("PutItem", json!({"TableName": "carts", "Item": {"id": {"S": "seven"}, "price": {"N": "2"}}}));
    client.ok("DeleteItem", json!({"TableName": "carts", "Key": {"id": {"S": "seven"}}}));
    let shown = page(&address, "/changes/carts");
    let places = ["deleted</span>", "changed</span>", "made</span>"].map(|word| shown.find(word));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "the newest first: {shown}");
    assert!(shown.contains("3 changes") && shown.contains("/item/carts?pk=seven"), "{shown}");
    let touching = page(&address, "/changes/carts?event=changed&attribute=price");
    assert!(touching.contains("<b>1 change</b>"), "{touching}");
    assert!(page(&address, "/changes/silent").contains("There is no stream to look at"));
    let past = page(&address, "/item/carts/history?pk=before");
    assert!(past.contains("Read the stream?") && past.contains("href=\"/changes/carts\""), "{past}");
    let past = page(&address, "/item/carts/history?pk=before&scan=1");
    assert!(past.contains("all that the stream has") && past.contains("made</span>"), "{past}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_usual_port_that_is_taken_is_no_error_and_a_chosen_one_is() {
    // Whoever has it, this test or another program, it is taken.
    let _taken = TcpListener::bind("127.0.0.1:8001");
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0"]);
    Client::new(&server.url).ok("ListTables", json!({}));

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    for (asked, parts) in [
        (address.as_str(), ["cannot listen", "another program"]),
        ("0.0.0.0:0", ["loopback alone", "--access"]),
    ] {
        let refused =
            command(&["--memory", "--dynamodb", "127.0.0.1:0", "--console", asked]).output().unwrap();
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
}

#[test]
fn a_console_of_its_own_says_where_it_is_and_ends_when_it_is_told() {
    let place = process::place_with_schemas();
    let seeded = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["seed", "lunch", "--count", "3"])
        .current_dir(place.path())
        .env_remove("LARDER_STORE")
        .output()
        .unwrap();
    assert!(seeded.status.success());
    let mut child = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["console", "--address", "127.0.0.1:0", "--read-only"])
        .current_dir(place.path())
        .env_remove("LARDER_STORE")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("the console is on http://").expect("it says where").to_owned();
    let shown = page(&address, "/browse/lunch/Menu?by=all");
    assert!(shown.contains("3 rows") && shown.contains("read-only"), "{shown}");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));

    let nothing = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["console", "--store", "nowhere", "--address", "127.0.0.1:0"])
        .current_dir(place.path())
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert!(
        nothing.status.code() == Some(1) && message.contains("there is no store in nowhere"),
        "{message}"
    );
}
