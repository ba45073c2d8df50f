//! Clients of HTTP/2 and TLS that mean no good: each is bounded or closed, holds no memory for requests, and others are answered.

#![expect(clippy::expect_used, reason = "the helpers of a test fail with the test")]

#[expect(dead_code, reason = "shared with other test files")]
mod client;

use std::sync::Arc;
use std::time::Duration;

use client::{Answer, Connection, Running};
use hyper::{Method, StatusCode};
use larder_auth::{Access, HttpRequest, sign};
use larder_model::Clock;
use larder_server::{Config, Principals, StoreConfig, Tls, TlsFiles};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const LIMIT: Duration = Duration::from_secs(30);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What is sent of something that has no end before the server must have ended it.
const PATIENCE_BYTES: usize = 32 << 20;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame is small").to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// `POST /` of a host that is ours, as HPACK writes it without a table.
fn head() -> Vec<u8> {
    let mut block = vec![0x83, 0x86, 0x84, 0x01, 9];
    block.extend(b"localhost");
    block
}

/// A header that no table keeps.
fn header(name: &str, value: &[u8]) -> Vec<u8> {
    let mut block = vec![0x00, u8::try_from(name.len()).expect("a short name")];
    block.extend(name.as_bytes());
    // A length of more than seven bits goes on in bytes of seven.
    block.push(0x7f);
    let mut rest = value.len() - 127;
    while rest >= 128 {
        block.push(u8::try_from(rest % 128).expect("seven bits") | 128);
        rest /= 128;
    }
    block.push(u8::try_from(rest).expect("seven bits"));
    block.extend(value);
    block
}

/// How a connection went on that was sent something to no end.
#[derive(Debug, Default)]
struct Went {
    /// Bytes that could be sent.
    sent: usize,
    /// Frames that came, by kind.
    came: [usize; 10],
    /// The server closed it.
    closed: bool,
}

/// Opens a connection of HTTP/2 and sends parts until there are no more, or nobody takes them.
async fn flood(server: &Running, parts: impl Iterator<Item = Vec<u8>>) -> Went {
    flood_over(TcpStream::connect(server.address).await.expect("the server listens"), parts).await
}

async fn flood_over(
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    parts: impl Iterator<Item = Vec<u8>>,
) -> Went {
    let (mut reads, mut writes) = tokio::io::split(stream);
    let reader = tokio::spawn(async move {
        let mut came = [0; 10];
        let mut head = [0; 9];
        while reads.read_exact(&mut head).await.is_ok() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            if reads.read_exact(&mut payload).await.is_err() {
                break;
            }
            if let Some(count) = came.get_mut(usize::from(head[3])) {
                *count += 1;
            }
        }
        came
    });
    let mut went = Went::default();
    let start = [PREFACE.to_vec(), frame(SETTINGS, 0, 0, &[])].into_iter();
    for part in start.chain(parts) {
        match timeout(LIMIT, writes.write_all(&part)).await {
            Ok(Ok(())) => went.sent += part.len(),
            Ok(Err(_)) => {
                went.closed = true;
                break;
            }
            Err(_) => panic!("the server neither reads nor closes: {went:?}"),
        }
    }
    // Whoever is still let in says good bye.
    let _ = writes.shutdown().await;
    went.came =
        timeout(LIMIT, reader).await.expect("the connection ends").expect("the reader does not panic");
    went
}

/// Somebody else is answered, and nothing of the memory for requests is taken.
async fn is_well(server: &Running) {
    let answer = server.connect().await.post("ListTables", &[], "{}").await;
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    let metrics = server.connect().await.send(Method::GET, "/metrics", &[], "").await;
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let taken =
        text.lines().find_map(|line| line.strip_prefix("larder_requests_memory_bytes ")).expect("a gauge");
    assert_eq!(taken, "0", "bytes are held");
}

#[tokio::test]
async fn streams_that_are_taken_back_at_once_are_bounded() {
    let server = Running::memory().await;
    let cancel = 8_u32.to_be_bytes();
    let pairs = (0..50_000_u32).map(|at| {
        let stream = 2 * at + 1;
        [frame(HEADERS, END_HEADERS, stream, &head()), frame(RST_STREAM, 0, stream, &cancel)].concat()
    });
    let went = flood(&server, pairs).await;
    assert_eq!(went.came[usize::from(DATA)], 0, "nobody waits for an answer: {went:?}");
    is_well(&server).await;
}

#[tokio::test]
async fn only_so_many_streams_are_open_on_a_connection() {
    let server = Running::memory().await;
    let opened = (0..1000_u32).map(|at| frame(HEADERS, END_HEADERS, 2 * at + 1, &head()));
    let went = flood(&server, opened).await;
    let refused = went.came[usize::from(RST_STREAM)];
    assert!(refused >= 1000 - 2 * 128 || went.came[usize::from(GOAWAY)] > 0, "{went:?}");
    is_well(&server).await;
}

#[tokio::test]
async fn a_head_that_goes_on_and_on_ends_its_connection() {
    let server = Running::memory().await;
    let part = header("x-more", &[b'a'; 8000]);
    for (what, parts) in [("large parts", vec![part; 1]), ("empty parts", vec![Vec::new()])] {
        let count = PATIENCE_BYTES / parts[0].len().max(9);
        let begun = [frame(HEADERS, 0, 1, &head())].into_iter();
        let more = (0..count).map(|_| frame(CONTINUATION, 0, 1, &parts[0]));
        let went = flood(&server, begun.chain(more)).await;
        assert!(went.closed && went.sent < PATIENCE_BYTES, "{what}: {went:?}");
        is_well(&server).await;
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let server = Running::memory().await;
    let block = [head(), header("x-large", &[b'a'; 15_000])].concat();
    let more = header("x-larger", &[b'a'; 15_000]);
    let head = [frame(HEADERS, 0, 1, &block)]
        .into_iter()
        .chain((0..8).map(|at| frame(CONTINUATION, if at == 7 { END_HEADERS } else { 0 }, 1, &more)));
    let went = flood(&server, head).await;
    let answered = went.came[usize::from(HEADERS)];
    let refused = went.came[usize::from(RST_STREAM)] + went.came[usize::from(GOAWAY)];
    assert!(answered + refused > 0, "{went:?}");
    is_well(&server).await;
}

/// The table of headers makes a few bytes out of many: they are counted as what they stand for.
#[tokio::test]
async fn a_header_that_is_said_again_and_again_counts_each_time() {
    let server = Running::memory().await;
    let mut block = [head(), header("x-large", &[b'a'; 3000])].concat();
    // That one is kept in the table from now on, as its first,
    let at = head().len();
    block[at] = 0x40;
    // and meant six million bytes' worth of times.
    block.extend([0xbe; 2000]);
    let went = flood(&server, [frame(HEADERS, END_HEADERS, 1, &block)].into_iter()).await;
    let refused = went.came[usize::from(RST_STREAM)] + went.came[usize::from(GOAWAY)];
    assert!(went.came[usize::from(HEADERS)] + refused > 0, "{went:?}");
    assert_eq!(went.came[usize::from(DATA)], 0, "it was carried out: {went:?}");
    is_well(&server).await;
}

#[tokio::test]
async fn bodies_of_many_streams_that_do_not_go_on_are_given_up_together() {
    let server = Running::memory().await;
    let stream = TcpStream::connect(server.address).await.expect("the server listens");
    let (mut reads, mut writes) = stream.into_split();
    let mut begun = [PREFACE.to_vec(), frame(SETTINGS, 0, 0, &[])].concat();
    for at in 0..100_u32 {
        begun.extend(frame(HEADERS, END_HEADERS, 2 * at + 1, &head()));
        begun.extend(frame(DATA, 0, 2 * at + 1, b"{"));
    }
    writes.write_all(&begun).await.expect("the server reads");
    let answers = async {
        let (mut answers, mut head) = (0, [0; 9]);
        while answers < 100 {
            reads.read_exact(&mut head).await.expect("the connection lasts until they are answered");
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            reads.read_exact(&mut payload).await.expect("whole frames");
            answers += usize::from(head[3] == HEADERS);
        }
    };
    let others = async {
        for _ in 0..20 {
            let answer = server.connect().await.post("ListTables", &[], "{}").await;
            assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
        }
    };
    let ((), ()) = tokio::join!(async { timeout(LIMIT, answers).await.expect("given up in time") }, others);
    is_well(&server).await;
}

#[tokio::test]
async fn questions_that_are_cheap_to_ask_keep_nobody_out() {
    let server = Running::memory().await;
    let pings = (0..200_000).map(|_| frame(PING, 0, 0, &[0; 8]));
    let settings = (0..200_000).map(|_| frame(SETTINGS, 0, 0, &[]));
    let (pinged, set, ()) = tokio::join!(flood(&server, pings), flood(&server, settings), async {
        for _ in 0..20 {
            is_well(&server).await;
        }
    });
    assert!(pinged.came[usize::from(PING)] > 0 && set.came[usize::from(SETTINGS)] > 0, "{pinged:?} {set:?}");
    is_well(&server).await;
}

/// A server with TLS, and what its clients trust.
async fn with_tls() -> (Running, RootCertStore, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("there is room");
    let files = TlsFiles::self_signed(dir.path(), &["localhost".to_owned()]).expect("it can be made");
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(&files.certificate).expect("it was just made");
    roots.add(certificate).expect("a certificate");
    let tls = Some(Tls::load(files).expect("they fit"));
    let server = Running::start(Config { tls, ..Config::local(StoreConfig::Memory) }).await;
    (server, roots, dir)
}

fn offering(roots: &RootCertStore, offered: &[&[u8]]) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has them")
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
    config
}

async fn secured(server: &Running, config: ClientConfig) -> Result<TlsStream<TcpStream>, String> {
    let stream = TcpStream::connect(server.address).await.expect("the server listens");
    let name = ServerName::try_from("localhost").expect("a name");
    let connected = TlsConnector::from(Arc::new(config)).connect(name, stream);
    timeout(LIMIT, connected).await.expect("an end in time").map_err(|error| error.to_string())
}

/// What the server and a client agree on, that offers these protocols.
async fn agreed(
    server: &Running,
    roots: &RootCertStore,
    offered: &[&[u8]],
) -> Result<Option<Vec<u8>>, String> {
    let config = offering(roots, offered);
    let mut stream = secured(server, config).await?;
    let protocol = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    if protocol.as_deref() != Some(b"h2") {
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .await
            .expect("sent");
        let mut answer = Vec::new();
        // A server that closes at once has no time for a good bye.
        let _ = timeout(LIMIT, stream.read_to_end(&mut answer)).await.expect("an answer in time");
        assert!(answer.starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&answer));
    }
    Ok(protocol)
}

#[tokio::test]
async fn protocols_are_agreed_on_by_name_and_an_unknown_one_is_none() {
    let (server, roots, _dir) = with_tls().await;
    assert_eq!(agreed(&server, &roots, &[b"h2", b"http/1.1"]).await, Ok(Some(b"h2".to_vec())));
    assert_eq!(agreed(&server, &roots, &[b"http/1.1"]).await, Ok(Some(b"http/1.1".to_vec())));
    assert_eq!(agreed(&server, &roots, &[]).await, Ok(None));
    let refused = agreed(&server, &roots, &[b"h3"]).await.expect_err("nobody speaks it");
    assert!(refused.contains("NoApplicationProtocol"), "{refused}");
}

#[tokio::test]
async fn what_is_no_tls_ends_its_connection_and_nobody_else_s() {
    let (server, roots, _dir) = with_tls().await;
    let hello_of_old = [0x80, 0x2e, 0x01, 0x00, 0x02];
    // A record that says to be longer than one may be, a handshake in pieces of nothing, and an alert out of nowhere.
    let long = [0x16, 0x03, 0x01, 0xff, 0xff];
    let empty: Vec<u8> = (0..100_000).flat_map(|_| [0x16, 0x03, 0x01, 0x00, 0x00]).collect();
    let alert = [0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x28];
    let plain = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}";
    for (what, bytes) in [
        ("an old hello", &hello_of_old[..]),
        ("a long record", &long),
        ("empty records", &empty),
        ("an alert", &alert),
        ("plain HTTP", plain),
        ("HTTP/2 without TLS", PREFACE),
    ] {
        let mut stream = TcpStream::connect(server.address).await.expect("the server listens");
        let _ = timeout(LIMIT, stream.write_all(bytes)).await.expect("taken or closed");
        let mut answer = Vec::new();
        let ended = timeout(LIMIT, stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "{what} is left open");
        assert!(!answer.windows(5).any(|part| part == b"HTTP/"), "{what} is answered in the clear");
        assert_eq!(agreed(&server, &roots, &[]).await, Ok(None), "after {what}");
    }
}

#[tokio::test]
async fn what_is_hostile_is_so_through_tls_too() {
    let (server, roots, _dir) = with_tls().await;
    let connect = async || secured(&server, offering(&roots, &[b"h2"])).await.expect("it agrees");
    let cancel = 8_u32.to_be_bytes();
    let pairs = (0..20_000_u32).map(|at| {
        let stream = 2 * at + 1;
        [frame(HEADERS, END_HEADERS, stream, &head()), frame(RST_STREAM, 0, stream, &cancel)].concat()
    });
    let went = flood_over(connect().await, pairs).await;
    assert_eq!(went.came[usize::from(DATA)], 0, "nobody waits for an answer: {went:?}");
    let begun = [frame(HEADERS, 0, 1, &head())].into_iter();
    let endless = (0..PATIENCE_BYTES / 9).map(|_| frame(CONTINUATION, 0, 1, &[]));
    let went = flood_over(connect().await, begun.chain(endless)).await;
    assert!(went.closed && went.sent < PATIENCE_BYTES, "{went:?}");
    // Halves of requests, and what is none, from clients that go without a good bye.
    for sent in [
        &b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{"[..],
        &[0xff; 70_000],
        b"\r\n\r\n",
    ] {
        let mut stream = secured(&server, offering(&roots, &[b"http/1.1"])).await.expect("it agrees");
        let _ = timeout(LIMIT, stream.write_all(sent)).await.expect("taken or closed");
        let (tcp, _) = stream.into_inner();
        drop(tcp);
        assert_eq!(agreed(&server, &roots, &[]).await, Ok(None));
    }
}

/// Hellos that break off at each of their parts, and clients that leave in the middle of a handshake.
#[tokio::test]
async fn handshakes_that_are_left_keep_nobody_out() {
    let (server, roots, _dir) = with_tls().await;
    let name = ServerName::try_from("localhost").expect("a name");
    let mut hello = Vec::new();
    let config = Arc::new(offering(&roots, &[]));
    let mut client = rustls::ClientConnection::new(config, name).expect("a name and trust are enough");
    client.write_tls(&mut hello).expect("memory takes it");
    let mut left = Vec::new();
    for length in (0..=hello.len()).step_by(7) {
        let mut stream = TcpStream::connect(server.address).await.expect("the server listens");
        stream.write_all(&hello[..length]).await.expect("the server reads");
        left.push(stream);
    }
    // One bit of it is another.
    for at in (0..hello.len()).step_by(11) {
        let mut stream = TcpStream::connect(server.address).await.expect("the server listens");
        let mut changed = hello.clone();
        changed[at] ^= 0x10;
        let _ = stream.write_all(&changed).await;
        left.push(stream);
    }
    assert_eq!(agreed(&server, &roots, &[]).await, Ok(None), "while {} hold on", left.len());
    drop(left);
    assert_eq!(agreed(&server, &roots, &[b"h2"]).await, Ok(Some(b"h2".to_vec())));
}

const KEY_ID: &str = "LKIAAAAAAAAAAAAAAAAA";

fn everybody_may() -> Access {
    let policy =
        json!({"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}});
    let principal = json!({
        "name": "ann", "account": "000000000000", "keys": [{"id": KEY_ID, "secret": "secret"}], "policies": {"all": policy},
    });
    Access::read(&json!({"version": 1, "principals": [principal]}).to_string()).expect("an access file")
}

async fn ask(connection: &mut Connection, operation: &str, body: &Value) -> Answer {
    let access = everybody_may();
    let key = access.find(KEY_ID).expect("it is there").1;
    let (body, target) = (body.to_string(), format!("DynamoDB_20120810.{operation}"));
    let host = connection.address().to_string();
    let headers: [(&str, &[u8]); 3] = [
        ("host", host.as_bytes()),
        ("content-type", b"application/x-amz-json-1.0"),
        ("x-amz-target", target.as_bytes()),
    ];
    let bytes = body.as_bytes();
    let http = HttpRequest { method: "POST", path: "/", query: "", headers: &headers, body: bytes };
    let signed = sign(&http, key, None, "us-east-1", Clock::system().now());
    let signed: Vec<(&str, &str)> = signed.iter().map(|(name, value)| (*name, value.as_str())).collect();
    connection.post(operation, &signed, body.clone()).await
}

#[tokio::test]
async fn policies_that_are_deep_or_huge_are_refused_and_the_worst_that_are_not_are_decided_soon() {
    let principals = Some(Principals::new(everybody_may()));
    let server = Running::start(Config { access: principals, ..Config::local(StoreConfig::Memory) }).await;
    let mut connection = server.connect().await;
    let create = json!({
        "TableName": "orders", "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    });
    assert_eq!(ask(&mut connection, "CreateTable", &create).await.status, StatusCode::OK);
    let arn = "arn:aws:dynamodb:us-east-1:000000000000:table/orders";
    let put = |policy: &str| json!({"ResourceArn": arn, "Policy": policy});
    let around = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let statement = |more: &str| {
        format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":"*","Resource":"*",{more}}}]}}"#
        )
    };
    let strings = |text: &str, count: usize| vec![format!("{text:?}"); count].join(",");
    for (what, policy) in [
        ("deep", around(9_000)),
        ("deep where a list is", statement(&format!(r#""Action":{}"#, around(9_000)))),
        (
            "deep in a condition",
            statement(&format!(r#""Action":"*","Condition":{}"#, "{\"a\":".repeat(3_000))),
        ),
        ("huge", statement(&format!(r#""Action":[{}]"#, strings("dynamodb:GetItem", 100_000)))),
        ("a long name", statement(&format!(r#""Action":"{}""#, "a".repeat(1 << 20)))),
        ("a number that is none", statement(&format!(r#""Action":{}"#, "9".repeat(19_000)))),
        ("nothing", "\0".repeat(19_000)),
    ] {
        let answer = ask(&mut connection, "PutResourcePolicy", &put(&policy)).await;
        assert_eq!(
            (answer.status, answer.error().as_str()),
            (StatusCode::BAD_REQUEST, "ValidationException"),
            "{what}"
        );
    }
    // As long as one may be, of nothing but what matches slowly: wildcards before what never comes, of every kind.
    let stars = "*a".repeat(90);
    let resources = |count: usize| strings(&format!("arn:aws:dynamodb:*:*:table/{stars}"), count);
    let values = |count: usize| strings(&format!("{stars}*b"), count);
    let slow = |element: String| {
        format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Deny","Principal":"*","Action":"*",{element}}}]}}"#
        )
    };
    for (what, policy) in [
        ("resources", slow(format!(r#""Resource":[{}]"#, resources(90)))),
        (
            "conditions",
            slow(format!(
                r#""Resource":"*","Condition":{{"ForAnyValue:StringLike":{{"dynamodb:LeadingKeys":[{}]}}}}"#,
                values(90)
            )),
        ),
    ] {
        assert!(policy.len() > 16_000, "{what}: {}", policy.len());
        let answer = ask(&mut connection, "PutResourcePolicy", &put(&policy)).await;
        assert_eq!(answer.status, StatusCode::OK, "{what}: {:?}", answer.body);
        // A hundred keys as long as they may be are each held against all of it.
        let keys: Vec<Value> =
            (0..100).map(|at| json!({"pk": {"S": format!("{}{at:03}", "a".repeat(2040))}})).collect();
        let start = Instant::now();
        let got =
            ask(&mut connection, "BatchGetItem", &json!({"RequestItems": {"orders": {"Keys": keys}}})).await;
        assert_eq!(got.status, StatusCode::OK, "{what}: {:?}", got.body);
        assert!(start.elapsed() < LIMIT / 2, "{what}: {:?}", start.elapsed());
        println!("{what}: {:?}", start.elapsed());
    }
    // Who asked for it waited, and nobody else.
    let healthy = server.connect().await.send(Method::GET, "/healthz", &[], "").await;
    assert_eq!(healthy.status, StatusCode::OK);
}
