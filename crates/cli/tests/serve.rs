//! `larder serve` as a process: what it says, how it ends.

mod process;

use std::fs;
use std::net::TcpListener;
use std::process::Output;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use process::{Client, Larder, command};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

/// `larder serve` with arguments that make it end by itself.
fn refused(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the binary was built with this test")
}

/// Sends the signal and waits until it ends. A server that hangs is killed, and has no code.
fn code_after(signal: Signal, mut server: Larder) -> Option<i32> {
    let pid = i32::try_from(server.child.id()).ok().and_then(Pid::from_raw).expect("a process has an id");
    kill_process(pid, signal).expect("our own child can be told");
    let (tell, hear) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let ended = server.child.wait().expect("our own child can be waited for");
            tell.send(ended.code()).expect("the receiver waits for this thread");
        });
        hear.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|_| {
            kill_process(pid, Signal::KILL).expect("our own child can be killed");
            None
        })
    })
}

/// It ends with code 1 and one line on stderr, of which these are parts.
#[track_caller]
fn check_refusal(output: &Output, parts: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(output.stdout.is_empty());
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.starts_with("larder: "), "{message}");
    for part in parts {
        assert!(message.contains(part), "{message} lacks {part}");
    }
}

#[test]
fn a_hangup_never_ends_it() {
    let place = process::place_with_schemas();
    let schemas = place.path().join("schemas");
    for arguments in [&[][..], &["--schema", schemas.to_str().unwrap()]] {
        let all = [&["--memory", "--dynamodb", "127.0.0.1:0"], arguments].concat();
        let server = Larder::serve(&all);
        let client = Client::new(&server.url);
        let pid = i32::try_from(server.child.id()).ok().and_then(Pid::from_raw).unwrap();
        for _ in 0..3 {
            kill_process(pid, Signal::HUP).unwrap();
            client.ok("ListTables", json!({}));
        }
        assert_eq!(code_after(Signal::TERM, server), Some(0), "{arguments:?}");
    }
}

/// As under `nohup`.
#[cfg(target_os = "linux")]
#[test]
fn a_hangup_that_is_ignored_at_the_start_stays_so() {
    let binary = env!("CARGO_BIN_EXE_larder");
    let mut nohup = std::process::Command::new("sh");
    nohup.args([
        "-c",
        "trap '' HUP; exec \"$@\"",
        "sh",
        binary,
        "serve",
        "--memory",
        "--dynamodb",
        "127.0.0.1:0",
    ]);
    let server = Larder::start(nohup);
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap() & 1
    };
    assert_eq!((of("SigIgn:"), of("SigCgt:")), (1, 0), "{status}");
}

#[test]
fn a_store_has_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let owner = Larder::on(dir.path(), &[]);
    let second = refused(&["--data", data, "--dynamodb", "127.0.0.1:0"]);
    let holder = format!("in use by process {} (larder), which serves it at {}", owner.child.id(), owner.url);
    check_refusal(&second, &[data, &holder]);
    Client::new(&owner.url).ok("ListTables", json!({}));
}

#[test]
fn a_port_has_one_owner() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    check_refusal(
        &refused(&["--memory", "--dynamodb", &address]),
        &[&address, "another program", "--dynamodb"],
    );
}

#[test]
fn other_machines_are_let_in_only_on_an_explicit_word() {
    check_refusal(&refused(&["--memory", "--dynamodb", "0.0.0.0:0"]), &["0.0.0.0", "--allow-anonymous"]);
    let server = Larder::serve(&["--memory", "--dynamodb", "0.0.0.0:0", "--allow-anonymous"]);
    let url = server.url.replace("0.0.0.0", "127.0.0.1");
    Client::new(&url).ok("ListTables", json!({}));
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let below = file.join("data");
    let output = refused(&["--data", below.to_str().unwrap(), "--dynamodb", "127.0.0.1:0"]);
    check_refusal(&output, &[below.to_str().unwrap(), "--store"]);
}

#[test]
fn arguments_that_make_no_sense_are_usage_errors() {
    for (arguments, part) in [
        (&["--memory", "--data", "x"][..], "cannot be used with"),
        (&["--dynamodb", "nonsense"], "HOST:PORT"),
        (&["--ttl-delay", "soon"], "--ttl-delay"),
        (&["--durability", "perhaps"], "relaxed"),
        (&["--history-limit", "much"], "500M"),
        (&["--history-limit", "5X"], "500M"),
        (&["--history-limit", "99999999999T"], "500M"),
        (&["--cache", "1M"], "at least 16M"),
        (&["--memory", "--cache", "64M"], "cannot be used with"),
    ] {
        let output = refused(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn signals_stop_it_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let dir = tempfile::tempdir().unwrap();
        let server = Larder::on(
            dir.path(),
            &["--durability", "relaxed", "--ttl-delay", "2d", "--history-limit", "20GiB", "--cache", "64M"],
        );
        let client = Client::new(&server.url);
        client.ok("ListTables", json!({}));
        assert_eq!(code_after(signal, server), Some(0));
        // The store is free again.
        Larder::on(dir.path(), &[]);
    }
}
