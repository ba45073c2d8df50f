//! The console beside a server, and by itself.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod process;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use process::{Client, Larder, command};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

fn free_address() -> String {
    // Free a moment ago: the system gives such a port to nobody else for a while.
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn page(address: &str, path: &str) -> String {
    let answer = ureq::get(format!("http://{address}{path}")).call();
    answer.unwrap_or_else(|error| panic!("{path}: {error}")).body_mut().read_to_string().unwrap()
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
fn a_usual_port_that_is_taken_is_no_error_and_a_chosen_one_is() {
    // Whoever has it, this test or another program, it is taken.
    let _taken = TcpListener::bind("127.0.0.1:8001");
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0"]);
    Client::new(&server.url).ok("ListTables", json!({}));

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    for (asked, parts) in [
        (address.as_str(), ["cannot listen", "another program"]),
        ("0.0.0.0:0", ["loopback alone", "127.0.0.1"]),
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
