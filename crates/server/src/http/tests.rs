//! What only a test inside the crate can bring about: a handler that panics, and a pause that is too long.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::pipeline::tests::PANIC;
use crate::{Config, Server, StoreConfig, Tls, TlsFiles};

fn request(target: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\nx-amz-target: {target}\r\n\
         content-type: application/x-amz-json-1.0\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// The status and body of one answer, which ends where its length says.
fn answer(stream: &mut TcpStream) -> (u16, String) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    (head[9..12].parse().unwrap(), String::from_utf8(body).unwrap())
}

#[test]
fn a_body_that_does_not_begin_or_go_on_is_given_up() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let server = runtime.block_on(Server::bind(Config::local(StoreConfig::Memory))).unwrap();
    let address = server.address();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = runtime.spawn(server.run(async {
        let _ = stopped.await;
    }));
    let whole = request("DynamoDB_20120810.ListTables", "{}");
    for missing in [2, 1] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(&whole.as_bytes()[..whole.len() - missing]).unwrap();
        assert_eq!(answer(&mut stream), (408, String::new()), "{missing}");
    }
    stop.send(()).unwrap();
    runtime.block_on(running).unwrap().unwrap();
}

#[test]
fn a_handshake_that_does_not_end_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let files = TlsFiles::self_signed(dir.path(), &["localhost".to_owned()]).unwrap();
    let tls = Some(Tls::load(files).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let config = Config { tls, ..Config::local(StoreConfig::Memory) };
    let server = runtime.block_on(Server::bind(config)).unwrap();
    let address = server.address();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = runtime.spawn(server.run(async {
        let _ = stopped.await;
    }));
    // Nothing, and the beginning of a hello of 512 bytes, each byte of which is a sign of life and of nothing else.
    for begun in [&[][..], &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(begun).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "{begun:?} is closed");
    }
    stop.send(()).unwrap();
    runtime.block_on(running).unwrap().unwrap();
}

#[test]
fn a_handshake_byte_by_byte_is_given_up_as_soon() {
    let dir = tempfile::tempdir().unwrap();
    let files = TlsFiles::self_signed(dir.path(), &["localhost".to_owned()]).unwrap();
    let tls = Some(Tls::load(files).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let config = Config { tls, ..Config::local(StoreConfig::Memory) };
    let server = runtime.block_on(Server::bind(config)).unwrap();
    let address = server.address();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = runtime.spawn(server.run(async {
        let _ = stopped.await;
    }));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    // A hello that is 16 KB long, if it is waited for.
    stream.write_all(&[0x16, 0x03, 0x01, 0x40, 0x00, 0x01, 0x00, 0x3f, 0xfc, 0x03, 0x03]).unwrap();
    let bytes = (0..1000).take_while(|_| {
        let closed = match stream.read(&mut [0]) {
            Ok(length) => length == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        };
        !closed && stream.write_all(&[0]).is_ok()
    });
    assert!(bytes.count() < 500, "each byte won it time");
    stop.send(()).unwrap();
    runtime.block_on(running).unwrap().unwrap();
}

#[test]
fn a_panic_is_an_error_of_ours_and_leaves_the_connection_open() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let server = runtime.block_on(Server::bind(Config::local(StoreConfig::Memory))).unwrap();
    let address = server.address();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = runtime.spawn(server.run(async {
        let _ = stopped.await;
    }));
    let mut stream = TcpStream::connect(address).unwrap();
    for _ in 0..3 {
        stream.write_all(request(PANIC, "{}").as_bytes()).unwrap();
        let (status, body) = answer(&mut stream);
        assert_eq!(status, 500);
        assert!(body.contains("InternalServerError") && !body.contains("told to"), "{body}");
        stream.write_all(request("DynamoDB_20120810.ListTables", "{}").as_bytes()).unwrap();
        assert_eq!(answer(&mut stream), (200, r#"{"TableNames":[]}"#.to_owned()));
    }
    // Nothing of the memory for requests was lost.
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let (_, metrics) = answer(&mut stream);
    assert!(metrics.contains("\nlarder_requests_memory_bytes 0\n"), "{metrics}");
    drop(stream);
    stop.send(()).unwrap();
    runtime.block_on(running).unwrap().unwrap();
}
