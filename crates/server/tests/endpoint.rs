//! What a client sees of HTTP itself, whatever the operation.

mod client;

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use client::Running;
use flate2::Compression;
use flate2::read::{GzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::client::conn::http2;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use larder_server::{Config, Durability, Limits, StoreConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Duration, timeout};

const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
const LIMIT: Duration = Duration::from_secs(30);

fn table() -> Value {
    json!({
        "TableName": "fruit",
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
    })
}

fn put(pk: &str, note: &str) -> Value {
    json!({"TableName": "fruit", "Item": {"pk": {"S": pk}, "note": {"S": note}}})
}

fn get(pk: &str) -> Value {
    json!({"TableName": "fruit", "Key": {"pk": {"S": pk}}})
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("memory takes bytes");
    encoder.finish().expect("memory takes bytes")
}

fn deflated(text: &str) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("memory takes bytes");
    encoder.finish().expect("memory takes bytes")
}

#[tokio::test]
async fn what_is_put_is_got_on_one_connection() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", table()).await;
    for n in 0..20 {
        let note = n.to_string();
        connection.ok("PutItem", put("apple", &note)).await;
        let got = connection.ok("GetItem", get("apple")).await;
        assert_eq!(got["Item"], json!({"pk": {"S": "apple"}, "note": {"S": note}}));
    }
}

#[tokio::test]
async fn http2_with_prior_knowledge_shares_the_port() {
    let server = Running::memory().await;
    let mut connection = server.connect_http2().await;
    connection.ok("CreateTable", table()).await;
    connection.ok("PutItem", put("apple", "over h2")).await;
    let got = server.connect().await.ok("GetItem", get("apple")).await;
    assert_eq!(got["Item"]["note"]["S"], "over h2");
    let endpoints = connection.ok("DescribeEndpoints", json!({})).await;
    assert_eq!(endpoints["Endpoints"][0]["Address"], server.address.to_string());
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = Running::memory().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let health = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let list = "POST / HTTP/1.1\r\nhost: localhost\r\nx-amz-target: DynamoDB_20120810.ListTables\r\n\
                content-type: application/x-amz-json-1.0\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    stream.write_all(format!("{health}{health}{list}").as_bytes()).await.unwrap();
    let mut answers = String::new();
    timeout(LIMIT, stream.read_to_string(&mut answers)).await.unwrap().unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3, "{answers}");
    assert!(answers.ends_with(r#"{"TableNames":[]}"#), "{answers}");
}

#[tokio::test]
async fn answers_carry_dynamodb_s_headers() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    let ok = connection.post("ListTables", &[], "{}").await;
    let refused = connection.post("NoSuchThing", &[], "{}").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(refused.error(), "UnknownOperationException");
    let healthy = connection.send(Method::GET, "/", &[], "").await;
    assert!(healthy.body.starts_with(b"healthy: 127.0.0.1:") && healthy.body.ends_with(b" "));
    for answer in [&ok, &refused, &healthy] {
        assert_eq!(answer.header("x-amz-crc32"), crc32fast::hash(&answer.body).to_string());
        assert_eq!(answer.header("content-length"), answer.body.len().to_string());
        assert_eq!(answer.header("x-amzn-requestid").len(), 52);
        assert!(answer.headers.contains_key("date"));
        assert!(answer.header("server").starts_with("larder/"));
    }
    assert_ne!(ok.header("x-amzn-requestid"), refused.header("x-amzn-requestid"));
}

#[tokio::test]
async fn the_answer_has_the_content_type_of_the_request() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    for (sent, expected) in [
        ("application/x-amz-json-1.0", "application/x-amz-json-1.0"),
        ("Application/X-Amz-Json-1.0; charset=utf-8", "application/x-amz-json-1.0"),
        ("application/json", "application/json"),
        (" application/json ; charset=utf-8", "application/json"),
    ] {
        let answer = connection.post("ListTables", &[("content-type", sent)], "{}").await;
        assert_eq!(answer.status, StatusCode::OK, "{sent}");
        assert_eq!(answer.header("content-type"), expected, "{sent}");
    }
    for sent in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let answer = connection.post("ListTables", &[("content-type", sent)], "{}").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{sent}");
        assert_eq!(&answer.body[..], b"<UnknownOperationException/>\n");
    }
}

#[tokio::test]
async fn other_methods_and_paths_are_unknown() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    for (method, path) in [
        (Method::PUT, "/"),
        (Method::DELETE, "/"),
        (Method::OPTIONS, "/"),
        (Method::POST, "/elsewhere"),
        (Method::GET, "/elsewhere"),
    ] {
        let answer = connection.send(method, path, &[], "").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
        assert_eq!(&answer.body[..], b"<UnknownOperationException/>\n");
        assert_eq!(answer.header("x-amz-crc32"), "3552371480");
    }
}

#[tokio::test]
async fn bodies_that_are_no_request_are_the_client_s_error() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    let deep = "[".repeat(100_000);
    let bodies: [&[u8]; 8] =
        [b"", b"{", b"nonsense", b"[]", b"null", b"{\"TableName\": \"\xff\"}", deep.as_bytes(), b"{}{}"];
    for body in bodies {
        for operation in ["GetItem", "PutItem", "CreateTable", "Query"] {
            let answer = connection.post(operation, &[], body.to_vec()).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{operation} {:?}", answer.body);
            let code = answer.error();
            assert!(
                ["SerializationException", "ValidationException"].contains(&&*code),
                "{operation} {code}"
            );
        }
    }
}

#[tokio::test]
async fn a_request_without_a_target_is_unknown() {
    let server = Running::memory().await;
    let headers = [("content-type", "application/x-amz-json-1.0")];
    let answer = server.connect().await.send(Method::POST, "/", &headers, "{}").await;
    assert_eq!((answer.status, &*answer.error()), (StatusCode::BAD_REQUEST, "UnknownOperationException"));
}

#[tokio::test]
async fn packed_requests_are_unpacked() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", table()).await;
    for (encoding, pack) in [("gzip", gzipped as fn(&str) -> Vec<u8>), ("deflate", deflated)] {
        let body = put(encoding, &"long ".repeat(1000)).to_string();
        let answer = connection.post("PutItem", &[("content-encoding", encoding)], pack(&body)).await;
        assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
        let got = connection.ok("GetItem", get(encoding)).await;
        assert_eq!(got["Item"]["note"]["S"], "long ".repeat(1000));
    }
    let plain = put("plain", "as it is").to_string();
    let answer = connection.post("PutItem", &[("content-encoding", "amz-1.0")], plain).await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test]
async fn badly_packed_requests_are_refused() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    for (encoding, body, error) in [
        ("gzip", b"{}".to_vec(), "InternalServerError"),
        ("deflate", b"{}".to_vec(), "InternalServerError"),
        ("gzip", gzipped("{}")[..12].to_vec(), "InternalServerError"),
        ("br", b"{}".to_vec(), "SerializationException"),
    ] {
        let answer = connection.post("ListTables", &[("content-encoding", encoding)], body).await;
        assert_eq!(answer.error(), error);
    }
    let bomb = gzipped(&" ".repeat(BODY_BYTES_MAX + 1));
    let answer = connection.post("ListTables", &[("content-encoding", "gzip")], bomb).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn large_answers_are_packed_for_those_who_ask() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", table()).await;
    connection.ok("PutItem", put("long", &"long ".repeat(1000))).await;
    let plain = connection.post("GetItem", &[], get("long").to_string()).await;
    assert_eq!(plain.header("content-encoding"), "");
    for encoding in ["gzip", "deflate"] {
        let answer =
            connection.post("GetItem", &[("accept-encoding", encoding)], get("long").to_string()).await;
        assert_eq!(answer.header("content-encoding"), encoding);
        assert_eq!(answer.header("x-amz-crc32"), crc32fast::hash(&answer.body).to_string());
        let mut unpacked = Vec::new();
        match encoding {
            "gzip" => GzDecoder::new(&answer.body[..]).read_to_end(&mut unpacked).unwrap(),
            _ => ZlibDecoder::new(&answer.body[..]).read_to_end(&mut unpacked).unwrap(),
        };
        assert_eq!(unpacked, plain.body);
    }
}

#[tokio::test]
async fn bodies_over_the_limit_are_refused_and_the_client_sees_it() {
    let server = Running::memory().await;
    let mut body = b"{}".to_vec();
    body.resize(BODY_BYTES_MAX, b' ');
    let largest = server.connect().await.post("ListTables", &[], body.clone()).await;
    assert_eq!(largest.status, StatusCode::OK);
    body.push(b' ');
    let answer = server.connect().await.post("ListTables", &[], body.clone()).await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::PAYLOAD_TOO_LARGE, 0));
    let answer = server.connect_http2().await.post("ListTables", &[], body).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_body_declared_far_over_the_limit_is_not_waited_for() {
    let server = Running::memory().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(LIMIT, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn pages_that_were_declared_get_leave() {
    let mut config = Config::local(StoreConfig::Memory);
    config.door.allow_origin("http://localhost:3000").unwrap();
    let server = Running::start(config).await;
    let mut connection = server.connect().await;
    let question = [
        ("origin", "http://localhost:3000"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "x-amz-target,content-type,authorization"),
    ];
    let leave = connection.send(Method::OPTIONS, "/", &question, "").await;
    assert_eq!((leave.status, leave.body.len()), (StatusCode::OK, 0));
    for (name, expected) in [
        ("access-control-allow-origin", "http://localhost:3000"),
        ("vary", "origin"),
        ("access-control-allow-methods", "POST"),
        ("access-control-allow-headers", "x-amz-target,content-type,authorization"),
        ("access-control-max-age", "172800"),
    ] {
        assert_eq!(leave.header(name), expected);
    }
    let answer = connection.post("ListTables", &question[..1], "{}").await;
    assert_eq!(answer.header("access-control-allow-origin"), "http://localhost:3000");
    assert_eq!(answer.header("access-control-expose-headers"), "x-amzn-requestid,x-amz-crc32");
    let answer = connection.post("ListTables", &[], "{}").await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (StatusCode::OK, ""));
}

#[tokio::test]
async fn a3_other_pages_and_other_names_get_nothing() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    let preflight = [("origin", "http://evil.example"), ("access-control-request-method", "POST")];
    let json_type = [("origin", "http://evil.example"), ("content-type", "application/json")];
    for answer in [
        connection.send(Method::OPTIONS, "/", &preflight, "").await,
        connection.post("ListTables", &preflight[..1], "{}").await,
        connection.send(Method::GET, "/metrics", &preflight[..1], "").await,
        connection.send(Method::POST, "/_larder/clock", &json_type, r#"{"advance_seconds": 0}"#).await,
    ] {
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        assert_eq!(answer.header("access-control-allow-origin"), "");
        assert!(answer.json()["message"].as_str().unwrap().contains("--allow-origin http://evil.example"));
    }
    assert_eq!(connection.ok("ListTables", serde_json::json!({})).await["TableNames"], serde_json::json!([]));
    for (host, status) in
        [("host: evil.example:8000\r\n", "403"), ("", "400"), ("host: localhost:1\r\n", "200")]
    {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream
            .write_all(format!("GET / HTTP/1.1\r\n{host}connection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        timeout(LIMIT, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
    }
}

#[tokio::test]
async fn a_moved_clock_expires_items_before_the_answer() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    let json_type = [("content-type", "application/json")];
    let moved =
        connection.send(Method::POST, "/_larder/clock", &json_type, r#"{"advance_seconds": 0}"#).await;
    assert_eq!(moved.status, StatusCode::OK, "{:?}", moved.body);
    let now = moved.json()["now"].as_i64().unwrap();

    connection.ok("CreateTable", table()).await;
    let specification = json!({"Enabled": true, "AttributeName": "until"});
    let request = json!({"TableName": "fruit", "TimeToLiveSpecification": specification});
    connection.ok("UpdateTimeToLive", request).await;
    for (pk, until) in [("soon", now + 1800), ("late", now + 7200)] {
        let item = json!({"pk": {"S": pk}, "until": {"N": until.to_string()}});
        connection.ok("PutItem", json!({"TableName": "fruit", "Item": item})).await;
    }
    let moved =
        connection.send(Method::POST, "/_larder/clock", &json_type, r#"{"advance_seconds": 3600}"#).await;
    let later = moved.json()["now"].as_i64().unwrap();
    assert!((now + 3600..now + 3660).contains(&later), "{later}");
    assert_eq!(connection.ok("GetItem", get("soon")).await, json!({}));
    assert_eq!(connection.ok("GetItem", get("late")).await["Item"]["pk"]["S"], "late");
}

#[tokio::test]
async fn the_clock_call_is_for_memory_servers_and_programs() {
    let dir = tempfile::tempdir().unwrap();
    let store =
        StoreConfig::Directory { path: dir.path().to_owned(), durability: Durability::Immediate, key: None };
    let json_type = [("content-type", "application/json")];
    let on_disk = Running::start(Config::local(store)).await;
    let body = r#"{"advance_seconds": 1}"#;
    let answer = on_disk.connect().await.send(Method::POST, "/_larder/clock", &json_type, body).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);

    let server = Running::memory().await;
    let mut connection = server.connect().await;
    let form = [("content-type", "text/plain")];
    let answer = connection.send(Method::POST, "/_larder/clock", &form, body).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    let answer = connection.send(Method::POST, "/_larder/clock", &json_type, "{}").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_request_accepted_before_the_stop_is_answered() {
    let server = Running::memory().await;
    let mut setup = server.connect().await;
    setup.ok("CreateTable", table()).await;

    let body = put("apple", "in time").to_string();
    let (early, late) = body.split_at(10);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\nx-amz-target: DynamoDB_20120810.PutItem\r\n\
         content-type: application/x-amz-json-1.0\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server asks for the body once it has taken the request on.
    let mut go_on = [0; 25];
    timeout(LIMIT, stream.read_exact(&mut go_on)).await.unwrap().unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(early.as_bytes()).await.unwrap();

    let address = server.address;
    let ended = server.stop();
    // The listener is closed before connections are told: from here on the stop is under way.
    timeout(LIMIT, async { while TcpStream::connect(address).await.is_ok() {} }).await.unwrap();
    assert!(!ended.is_finished());

    stream.write_all(late.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(LIMIT, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    timeout(LIMIT, ended).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn idle_connections_do_not_hold_up_the_stop() {
    let server = Running::memory().await;
    let mut used = server.connect().await;
    used.ok("ListTables", json!({})).await;
    let unused = server.connect().await;
    let mut http2 = server.connect_http2().await;
    http2.ok("ListTables", json!({})).await;
    timeout(Duration::from_secs(5), server.stop()).await.unwrap().unwrap().unwrap();
    drop((used, unused, http2));
}

#[tokio::test]
async fn a_stopped_server_leaves_its_store_for_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let store =
        StoreConfig::Directory { path: dir.path().to_owned(), durability: Durability::Immediate, key: None };
    let first = Running::start(Config::local(store.clone())).await;
    let mut connection = first.connect().await;
    connection.ok("CreateTable", table()).await;
    connection.ok("PutItem", put("apple", "kept")).await;
    timeout(LIMIT, first.stop()).await.unwrap().unwrap().unwrap();
    let second = Running::start(Config::local(store)).await;
    let got = second.connect().await.ok("GetItem", get("apple")).await;
    assert_eq!(got["Item"]["note"]["S"], "kept");
}

#[tokio::test]
async fn a3_addresses_of_other_machines_need_leave() {
    let mut config = Config::local(StoreConfig::Memory);
    config.address = "0.0.0.0:0".parse().unwrap();
    let refused = larder_server::Server::bind(config.clone()).await.unwrap_err();
    assert!(matches!(refused, larder_server::Error::Remote { .. }), "{refused}");
    config.access = Some(larder_server::Principals::new(larder_auth::Access::default()));
    let refused = larder_server::Server::bind(config.clone()).await.unwrap_err();
    assert!(matches!(refused, larder_server::Error::Plain { .. }), "{refused}");
    config.allow_plain = true;
    larder_server::Server::bind(config.clone()).await.unwrap();
    (config.access, config.allow_plain, config.allow_anonymous) = (None, false, true);
    larder_server::Server::bind(config).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_connections_at_once_are_all_answered() {
    let server = Running::memory().await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..400 {
        let address = server.address;
        clients.spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        });
    }
    while let Some(answer) = timeout(LIMIT, clients.join_next()).await.unwrap() {
        assert!(answer.unwrap().unwrap().starts_with("HTTP/1.1 200 OK"));
    }
}

/// A server that takes as little memory for requests as one can.
async fn with_little_memory() -> Running {
    let mut config = Config::local(StoreConfig::Memory);
    config.limits.memory_bytes = Limits::MEMORY_BYTES_MIN;
    Running::start(config).await
}

fn gauge(metrics: &str, name: &str) -> usize {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.expect("the metric is there").parse().expect("a number")
}

fn memory_taken(metrics: &str) -> usize {
    gauge(metrics, "larder_requests_memory_bytes")
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_one_connection_share_the_memory_and_are_turned_away_as_dynamodb_would() {
    let server = with_little_memory().await;
    let mut other = server.connect().await;
    // A hundred bodies of which the last byte does not come.
    let streams = unfinished_streams(server.address, 100, 15 << 20).await;
    let (mut most, mut limit, mut turned_away) = (0, 0, 0);
    for _ in 0..50 {
        let metrics = other.send(Method::GET, "/metrics", &[], "").await;
        let metrics = String::from_utf8(metrics.body.to_vec()).expect("metrics are text");
        most = most.max(memory_taken(&metrics));
        limit = gauge(&metrics, "larder_requests_memory_limit_bytes");
        turned_away = gauge(&metrics, "larder_requests_turned_away_total");
        other.ok("ListTables", json!({})).await;
        if turned_away > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(most <= limit && limit < Limits::MEMORY_BYTES_MIN, "{most} of {limit}");
    assert!(turned_away > 0);
    drop(streams);
    // All of it comes back once the client is gone.
    for _ in 0..100 {
        let metrics = other.send(Method::GET, "/metrics", &[], "").await;
        if memory_taken(&String::from_utf8_lossy(&metrics.body)) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the memory does not come back");
}

/// Opens streams on one connection of HTTP/2, each with a body that lacks its last byte.
async fn unfinished_streams(address: SocketAddr, count: usize, length: usize) -> JoinSet<()> {
    open_streams(address, count, length - 1, length).await.0
}

#[tokio::test]
async fn streams_without_their_bodies_take_no_memory_from_others() {
    const STREAMS: usize = 100;
    let server = with_little_memory().await;
    for sent in [0, 1] {
        let (_streams, mut sender) = open_streams(server.address, STREAMS, sent, 20_000).await;
        // Whatever a connection sends is taken in its order: once this is answered, the streams have been seen.
        let request = Request::get(format!("http://{}/healthz", server.address))
            .body(Unfinished { left: 0, length: 0 })
            .expect("the test's request is well formed");
        let answer = timeout(LIMIT, sender.send_request(request)).await.unwrap().unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let metrics = server.connect().await.send(Method::GET, "/metrics", &[], "").await;
        let taken = memory_taken(&String::from_utf8_lossy(&metrics.body));
        assert!(taken <= STREAMS * sent, "{taken} bytes for {STREAMS} streams that sent {sent}");
    }
}

/// Opens streams on one connection of HTTP/2, each of which sends so much of its body and no more.
async fn open_streams(
    address: SocketAddr,
    count: usize,
    sent: usize,
    length: usize,
) -> (JoinSet<()>, http2::SendRequest<Unfinished>) {
    let stream = TcpStream::connect(address).await.expect("the server listens");
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .expect("the server takes HTTP/2 with prior knowledge");
    let mut streams = JoinSet::new();
    streams.spawn(async move {
        let _ = connection.await;
    });
    for _ in 0..count {
        let request = Request::post(format!("http://{address}/"))
            .header("x-amz-target", "DynamoDB_20120810.PutItem")
            .header("content-type", "application/x-amz-json-1.0")
            .body(Unfinished { left: sent, length })
            .expect("the test's request is well formed");
        let answer = sender.send_request(request);
        streams.spawn(async move {
            let _ = answer.await;
        });
    }
    (streams, sender)
}

/// A body that promises more than comes.
struct Unfinished {
    left: usize,
    length: usize,
}

impl Body for Unfinished {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        const SPACES: &[u8] = &[b' '; 16 * 1024];
        let part = self.left.min(SPACES.len());
        if part == 0 {
            return Poll::Pending;
        }
        self.left -= part;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&SPACES[..part])))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length as u64)
    }
}

#[tokio::test]
async fn what_is_damaged_is_left_out_of_a_scan_that_asks_for_it() {
    let dir = tempfile::tempdir().expect("there is room");
    let directory = || StoreConfig::Directory {
        path: dir.path().to_owned(),
        durability: Durability::Immediate,
        key: None,
    };
    let config = || Config::local(directory());
    let server = Running::start(config()).await;
    let mut connection = server.connect().await;
    connection.ok("CreateTable", table()).await;
    for pk in ["apple", "pear", "plum"] {
        connection.ok("PutItem", put(pk, "ripe")).await;
    }
    drop(connection);
    server.stop().await.expect("it ends").expect("it closes its store");
    let store =
        larder_storage::Store::open(dir.path(), larder_storage::Options::default()).expect("it opens");
    let mut batch = larder_storage::Batch::default();
    for entry in
        store.snapshot().range(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded).expect("it reads")
    {
        let (key, _) = entry.expect("it is whole");
        if key.windows(4).any(|part| part == b"pear") {
            batch.put(key.to_vec(), b"rubbish".to_vec());
        }
    }
    store.write(batch).expect("it writes");
    store.close().expect("it closes");

    let server = Running::start(config()).await;
    let mut connection = server.connect().await;
    let scan = json!({"TableName": "fruit"}).to_string().into_bytes();
    let refused = connection.post("Scan", &[], scan.clone()).await;
    assert_eq!(refused.status, StatusCode::INTERNAL_SERVER_ERROR);
    let skipped = connection.post("Scan", &[("x-larder-skip-damaged", "true")], scan).await;
    assert_eq!(skipped.status, StatusCode::OK);
    assert_eq!(skipped.headers["x-larder-skipped"], "1");
    let body: Value = serde_json::from_slice(&skipped.body).expect("it is JSON");
    assert_eq!(body["Count"], 2);
}
