//! `larder health`: what it says and exits with, of a server that is ready and of everything else.

mod process;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use process::Larder;

/// The exit code, and what it printed or failed with.
fn asked(url: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(["health", url]);
    for name in ["AWS_ACCESS_KEY_ID", "AWS_PROFILE", "LARDER_LOG"] {
        command.env_remove(name);
    }
    let output = command.output().expect("the binary was built with this test");
    let told = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    (output.status.code(), String::from_utf8(told).expect("it prints text"))
}

/// What answers one request in this way.
fn answering(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it listens"));
    thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            request.push(byte[0]);
        }
        stream.write_all(format!("HTTP/1.0 {status}\r\n\r\n{body}").as_bytes())
    });
    url
}

#[test]
fn a_server_is_ready_until_it_has_stopped() {
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0", "--no-console"]);
    let url = server.url.clone();
    assert_eq!(asked(&url), (Some(0), "ready\n".to_owned()));
    drop(server);
    let (code, told) = asked(&url);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.starts_with(&format!("larder: {url} does not answer: ")), "{told}");
}

#[test]
fn keys_are_not_needed() {
    let place = tempfile::tempdir().expect("a place for temporary files");
    let access = place.path().join("access.json");
    let access = access.to_str().expect("temporary paths are text");
    let mut add = Command::new(env!("CARGO_BIN_EXE_larder"));
    let added = add.args(["access", "--access", access, "add", "app", "--policy", "all"]).output();
    assert!(added.expect("the binary was built with this test").status.success());
    let server =
        Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0", "--no-console", "--access", access]);
    assert_eq!(asked(&server.url), (Some(0), "ready\n".to_owned()));
}

#[test]
fn what_is_not_ready_and_what_is_something_else_is_told() {
    for (status, body, part) in [
        ("503 Service Unavailable", "the disk has no room\n", "is not ready: the disk has no room;"),
        ("200 OK", "<html>", "is no server of Larder: it answers 200"),
        ("404 Not Found", "", "is no server of Larder: it answers 404"),
    ] {
        let (code, told) = asked(&answering(status, body));
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains(part), "{told}");
    }
    let (code, told) = asked("127.0.0.1:8000");
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("give http://HOST:PORT"), "{told}");
}
