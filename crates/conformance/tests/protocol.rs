//! What lies around the JSON: headers, encodings, connections, and bodies that are no JSON at all.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use flate2::Compression;
use flate2::read::{GzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use larder_conformance::{Endpoint, HEADERS, PAGE, Table, conform, keys};
use serde_json::{Value, json};

/// An HTTP answer as bytes.
#[derive(Debug)]
struct Raw {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Raw {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    fn code(&self) -> String {
        self.json()["__type"].as_str().and_then(|kind| kind.rsplit('#').next()).unwrap_or_default().to_owned()
    }
}

fn connect(db: &Endpoint) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(db.address()).expect("the endpoint accepts");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
    stream.set_write_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
    BufReader::new(stream)
}

/// Writes one request and reads its answer, leaving the connection open.
fn exchange(
    connection: &mut BufReader<TcpStream>,
    method: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Raw {
    let mut head = format!("{method} / HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    let stream = connection.get_mut();
    stream.write_all(head.as_bytes()).expect("the head is sent");
    // An endpoint that refuses a large body may close before it has read all of it.
    let _ = stream.write_all(body);
    read_answer(connection, method)
}

fn read_answer(connection: &mut BufReader<TcpStream>, method: &str) -> Raw {
    let mut line = String::new();
    connection.read_line(&mut line).expect("a status line");
    let status = line.split_whitespace().nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut headers = vec![];
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).expect("a header");
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut answer = Raw { status, headers, body: vec![] };
    if method == "HEAD" {
        return answer;
    }
    if answer.header("transfer-encoding") == Some("chunked") {
        loop {
            let mut size = String::new();
            connection.read_line(&mut size).expect("a chunk size");
            let size = usize::from_str_radix(size.trim(), 16).expect("a chunk size is hexadecimal");
            let mut chunk = vec![0; size + 2];
            connection.read_exact(&mut chunk).expect("a chunk");
            if size == 0 {
                return answer;
            }
            answer.body.extend_from_slice(&chunk[..size]);
        }
    }
    let length = answer.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    answer.body = vec![0; length];
    connection.read_exact(&mut answer.body).expect("a body");
    answer
}

fn headers<'a>(target: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut headers = vec![("x-amz-target", target)];
    headers.extend(HEADERS);
    headers.extend(more);
    headers
}

/// One POST on a connection of its own.
fn post(db: &Endpoint, target: &str, more: &[(&str, &str)], body: &[u8]) -> Raw {
    exchange(&mut connect(db), "POST", &headers(target, more), body)
}

const LIST: &str = "DynamoDB_20120810.ListTables";
const PUT: &str = "DynamoDB_20120810.PutItem";
const GET: &str = "DynamoDB_20120810.GetItem";

#[test]
fn every_answer_has_a_checksum_and_a_request_id() {
    conform(|db| {
        for answer in [
            post(db, LIST, &[], b"{}"),
            post(db, GET, &[], b"{}"),
            post(db, "DynamoDB_20120810.Nope", &[], b"{}"),
        ] {
            assert_eq!(
                answer.header("x-amz-crc32"),
                Some(crc32fast::hash(&answer.body).to_string().as_str()),
                "{answer:?}"
            );
            assert!(answer.header("x-amzn-requestid").is_some_and(|id| id.len() >= 36), "{answer:?}");
            assert_eq!(answer.header("content-type"), Some("application/x-amz-json-1.0"));
        }
    });
}

#[test]
fn request_ids_differ() {
    conform(|db| {
        let id = || post(db, LIST, &[], b"{}").header("x-amzn-requestid").map(str::to_owned);
        assert_ne!(id(), id());
    });
}

#[test]
fn an_unknown_operation_is_refused() {
    conform(|db| {
        for target in ["DynamoDB_20120810.Nope", "DynamoDB_20120810.", "Nope", "DynamoDB_20991231.ListTables"]
        {
            let answer = post(db, target, &[], b"{}");
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (400, "UnknownOperationException"),
                "{target} {answer:?}"
            );
        }
    });
}

#[test]
fn a_missing_target_is_refused() {
    conform(|db| {
        let answer = exchange(&mut connect(db), "POST", HEADERS, b"{}");
        assert_eq!((answer.status, answer.code().as_str()), (400, "UnknownOperationException"), "{answer:?}");
    });
}

#[test]
fn malformed_json_is_a_serialization_error() {
    conform(|db| {
        for body in [
            &b"{"[..],
            b"{\"TableName\": \"abc\",}",
            b"{'a': 1}",
            b"{} x",
            b"hello",
            b"{\"a\": tru}",
            b"{\"a\": 01}",
            b"{\"a\" 1}",
        ] {
            let answer = post(db, GET, &[], body);
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (400, "SerializationException"),
                "{} {answer:?}",
                String::from_utf8_lossy(body)
            );
        }
    });
}

#[test]
fn an_empty_body_is_a_serialization_error() {
    conform(|db| {
        let answer = post(db, GET, &[], b"");
        assert_eq!((answer.status, answer.code().as_str()), (400, "SerializationException"), "{answer:?}");
    });
}

#[test]
fn json_that_is_no_object_is_refused() {
    conform(|db| {
        for body in [&b"\"x\""[..], b"5", b"true", b"[1]"] {
            let answer = post(db, GET, &[], body);
            assert_eq!(answer.status, 400, "{answer:?}");
            assert_eq!(answer.code(), "SerializationException", "{answer:?}");
        }
    });
}

#[test]
fn invalid_utf8_is_a_client_error() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let mut body =
            format!(r#"{{"TableName": "{}", "Item": {{"pk": {{"S": "a"#, table.name()).into_bytes();
        body.extend([0xff, 0xfe]);
        body.extend(b"\"}}}");
        let answer = post(db, PUT, &[], &body);
        assert_eq!((answer.status, answer.code().as_str()), (400, "SerializationException"), "{answer:?}");
        assert_eq!(table.ok("Scan", json!({}))["Count"], json!(0));
    });
}

fn put_body(table: &Table<'_>, name: &str) -> Vec<u8> {
    json!({"TableName": table.name(), "Item": {"pk": {"S": name}, "v": {"S": "x".repeat(5000)}}})
        .to_string()
        .into_bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Compression::default());
    encoder.write_all(bytes).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

#[test]
fn a_gzip_request_is_read() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let answer = post(db, PUT, &[("content-encoding", "gzip")], &gzip(&put_body(&table, "a")));
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(!table.get(json!({"pk": {"S": "a"}})).is_null());
    });
}

#[test]
fn a_deflate_request_is_read() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let mut encoder = ZlibEncoder::new(vec![], Compression::default());
        encoder.write_all(&put_body(&table, "a")).expect("memory takes all");
        let answer =
            post(db, PUT, &[("content-encoding", "deflate")], &encoder.finish().expect("memory takes all"));
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(!table.get(json!({"pk": {"S": "a"}})).is_null());
    });
}

#[test]
fn a_broken_gzip_request_changes_nothing() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let whole = gzip(&put_body(&table, "a"));
        for body in [put_body(&table, "a"), whole[..whole.len() - 4].to_vec(), vec![]] {
            let answer = post(db, PUT, &[("content-encoding", "gzip")], &body);
            assert_eq!((answer.status, answer.code().as_str()), (500, "InternalServerError"));
        }
        assert!(table.get(json!({"pk": {"S": "a"}})).is_null());
    });
}

#[test]
fn an_unknown_encoding_changes_nothing() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let answer = post(db, PUT, &[("content-encoding", "garbage")], &put_body(&table, "a"));
        assert_ne!(answer.status, 200);
        assert!(table.get(json!({"pk": {"S": "a"}})).is_null());
    });
}

#[test]
fn a_gzip_bomb_is_refused() {
    conform(|db| {
        // AWS bounds only what it receives; a bound on what it unpacks to is asked of every local endpoint.
        let table = db.table(keys("pk:S"));
        let mut body = put_body(&table, "a");
        body.pop();
        body.extend(vec![b' '; 32 << 20]);
        body.push(b'}');
        let answer = post(db, PUT, &[("content-encoding", "gzip")], &gzip(&body));
        assert!((400..500).contains(&answer.status), "{answer:?}");
        assert!(table.get(json!({"pk": {"S": "a"}})).is_null());
    });
}

#[test]
fn a_large_answer_is_compressed_when_asked_for() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "v": {"S": "x".repeat(50_000)}}));
        let body = json!({"TableName": table.name(), "Key": {"pk": {"S": "a"}}}).to_string();
        for (accept, encoding) in [
            ("gzip", Some("gzip")),
            ("deflate", Some("deflate")),
            ("gzip, deflate", Some("gzip")),
            ("gzip;q=0.5, deflate;q=0.9", Some("deflate")),
            ("identity", None),
            ("br", None),
            ("gzip;q=0", None),
        ] {
            let answer = post(db, GET, &[("accept-encoding", accept)], body.as_bytes());
            assert_eq!(answer.header("content-encoding"), encoding, "{accept}");
            if let Some(checksum) = answer.header("x-amz-crc32") {
                assert_eq!(
                    checksum,
                    crc32fast::hash(&answer.body).to_string(),
                    "the checksum is of the bytes sent"
                );
            }
            let mut plain = String::new();
            match encoding {
                Some("gzip") => GzDecoder::new(&answer.body[..]).read_to_string(&mut plain).expect("gzip"),
                Some(_) => ZlibDecoder::new(&answer.body[..]).read_to_string(&mut plain).expect("deflate"),
                None => (&answer.body[..]).read_to_string(&mut plain).expect("text"),
            };
            assert!(encoding.is_none() || answer.body.len() < 5_000);
            let plain: Value = serde_json::from_str(&plain).expect("JSON");
            assert_eq!(plain["Item"]["v"]["S"].as_str().map(str::len), Some(50_000));
        }
    });
}

#[test]
fn a_small_answer_is_not_compressed() {
    conform(|db| {
        let answer = post(db, LIST, &[("accept-encoding", "gzip")], b"{\"Limit\": 1}");
        assert_eq!((answer.status, answer.header("content-encoding")), (200, None));
    });
}

#[test]
fn a_browser_may_ask_first() {
    conform(|db| {
        let answer = exchange(
            &mut connect(db),
            "OPTIONS",
            &[
                ("origin", PAGE),
                ("access-control-request-method", "POST"),
                ("access-control-request-headers", "x-amz-target,content-type"),
            ],
            b"",
        );
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(matches!(answer.header("access-control-allow-origin"), Some("*" | PAGE)), "{answer:?}");
        assert!(
            answer.header("access-control-allow-methods").is_some_and(|methods| methods.contains("POST")),
            "{answer:?}"
        );
        assert_eq!(answer.header("access-control-allow-headers"), Some("x-amz-target,content-type"));
        assert!(answer.header("access-control-max-age").is_some());
    });
}

#[test]
fn a_browser_may_read_the_answer() {
    conform(|db| {
        let answer = post(db, LIST, &[("origin", PAGE)], b"{}");
        assert_eq!(answer.status, 200);
        assert!(matches!(answer.header("access-control-allow-origin"), Some("*" | PAGE)), "{answer:?}");
    });
}

#[test]
fn a_get_says_that_the_endpoint_is_healthy() {
    conform(|db| {
        let answer = exchange(&mut connect(db), "GET", &[], b"");
        assert_eq!(answer.status, 200);
        // The host that was asked for, and a space.
        assert_eq!(String::from_utf8_lossy(&answer.body), "healthy: localhost ");
    });
}

#[test]
fn another_method_is_not_served() {
    conform(|db| {
        for method in ["PUT", "DELETE", "PATCH"] {
            let answer = exchange(&mut connect(db), method, &headers(LIST, &[]), b"{}");
            assert!((400..500).contains(&answer.status), "{method} {answer:?}");
        }
    });
}

#[test]
fn plain_json_is_taken_as_json() {
    conform(|db| {
        let mut headers = headers(LIST, &[]);
        headers.retain(|(name, _)| *name != "content-type");
        headers.push(("content-type", "application/json"));
        let answer = exchange(&mut connect(db), "POST", &headers, b"{}");
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.json()["TableNames"].is_array());
    });
}

#[test]
fn a_body_over_sixteen_megabytes_is_refused() {
    conform(|db| {
        let mut body = b"{}".to_vec();
        body.resize((16 << 20) + 100, b' ');
        let answer = post(db, LIST, &[], &body);
        assert_eq!(answer.status, 413, "{answer:?}");
        // The endpoint is still there.
        assert_eq!(post(db, LIST, &[], b"{}").status, 200);
    });
}

#[test]
fn a_connection_serves_many_requests() {
    conform(|db| {
        let mut connection = connect(db);
        for _ in 0..20 {
            assert_eq!(exchange(&mut connection, "POST", &headers(LIST, &[]), b"{}").status, 200);
            assert_eq!(exchange(&mut connection, "POST", &headers(GET, &[]), b"{}").status, 400);
        }
    });
}

#[test]
fn requests_may_be_sent_ahead() {
    conform(|db| {
        let mut connection = connect(db);
        let mut head = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n".to_owned();
        for (name, value) in headers(LIST, &[]) {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n{}";
        connection.get_mut().write_all(head.repeat(3).as_bytes()).expect("three requests are sent");
        for _ in 0..3 {
            assert_eq!(read_answer(&mut connection, "POST").status, 200);
        }
    });
}

#[test]
fn a_chunked_request_is_read() {
    conform(|db| {
        let mut connection = connect(db);
        let mut head = "POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n".to_owned();
        for (name, value) in headers(LIST, &[]) {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n";
        connection.get_mut().write_all(head.as_bytes()).expect("the request is sent");
        assert_eq!(read_answer(&mut connection, "POST").status, 200);
    });
}

#[test]
fn many_connections_are_served_at_once() {
    conform(|db| {
        let mut connections: Vec<BufReader<TcpStream>> = (0..64).map(|_| connect(db)).collect();
        for connection in connections.iter_mut().rev() {
            assert_eq!(exchange(connection, "POST", &headers(LIST, &[]), b"{}").status, 200);
        }
    });
}

// HTTP/2 without TLS, as a client starts it that knows beforehand. Headers are sent as literals that are never
// indexed, so that no table of the header compression is needed.

const SETTINGS: u8 = 4;
const HEADERS_FRAME: u8 = 1;
const DATA: u8 = 0;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a small frame");
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn literal(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0x10);
    for text in [name, value] {
        // Lengths from 127 on take a prefix of ones and then seven bits a byte.
        if text.len() < 127 {
            block.push(u8::try_from(text.len()).expect("below 127"));
        } else {
            block.push(127);
            let mut rest = text.len() - 127;
            while rest >= 128 {
                block.push(u8::try_from(rest % 128 + 128).expect("a byte"));
                rest /= 128;
            }
            block.push(u8::try_from(rest).expect("a byte"));
        }
        block.extend(text.as_bytes());
    }
}

#[test]
fn http2_is_spoken_to_clients_that_know_it() {
    conform(|db| {
        let mut connection = connect(db);
        let mut block = vec![];
        for (name, value) in
            [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "localhost")]
        {
            literal(&mut block, name, value);
        }
        for (name, value) in headers(LIST, &[]) {
            literal(&mut block, name, value);
        }
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(SETTINGS, 0, 0, &[]));
        bytes.extend(frame(HEADERS_FRAME, END_HEADERS, 1, &block));
        bytes.extend(frame(DATA, END_STREAM, 1, b"{\"Limit\": 1}"));
        connection.get_mut().write_all(&bytes).expect("the request is sent");

        let (mut status, mut body) = (None, vec![]);
        for _ in 0..100 {
            let mut head = [0; 9];
            connection.read_exact(&mut head).expect("a frame");
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            connection.read_exact(&mut payload).expect("a payload");
            match head[3] {
                SETTINGS if head[4] == 0 => {
                    connection.get_mut().write_all(&frame(SETTINGS, 1, 0, &[])).expect("an answer");
                }
                HEADERS_FRAME => status = payload.first().copied(),
                DATA => body.extend(payload),
                _ => {}
            }
            if matches!(head[3], HEADERS_FRAME | DATA) && head[4] & END_STREAM != 0 {
                break;
            }
        }
        // The eighth entry of the static table is `:status: 200`.
        assert_eq!(status, Some(0x88));
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert!(body["TableNames"].is_array(), "{body}");
    });
}

#[test]
fn an_answer_of_four_kilobytes_is_sent_as_it_is() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let body = json!({"TableName": table.name(), "Key": {"pk": {"S": "a"}}}).to_string();
        let whole = |text: usize| {
            table.put(json!({"pk": {"S": "a"}, "v": {"S": "x".repeat(text)}}));
            post(db, GET, &[], body.as_bytes()).body.len()
        };
        let around = whole(1000) - 1000;
        for (size, encoding) in [(4096, None), (4097, Some("gzip"))] {
            assert_eq!(whole(size - around), size);
            let answer = post(db, GET, &[("accept-encoding", "gzip")], body.as_bytes());
            assert_eq!(answer.header("content-encoding"), encoding, "{size}");
        }
    });
}

#[test]
fn a_head_has_at_most_sixteen_kilobytes() {
    conform(|db| {
        let long = "x".repeat(17_000);
        assert_eq!(post(db, LIST, &[("x-long", &long)], b"{}").status, 400);
        let many: Vec<(String, String)> = (0..80).map(|n| (format!("x-{n}"), "x".repeat(250))).collect();
        let many: Vec<(&str, &str)> =
            many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(post(db, LIST, &many, b"{}").status, 400);
        assert_eq!(post(db, LIST, &[("x-long", &long[..10_000])], b"{}").status, 200);

        let mut connection = connect(db);
        let head = format!("POST /{long} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n");
        connection.get_mut().write_all(head.as_bytes()).expect("the head is sent");
        assert_eq!(read_answer(&mut connection, "POST").status, 400);
    });
}
