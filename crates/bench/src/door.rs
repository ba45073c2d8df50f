//! What the door costs: GetItem through `larder serve`, for everybody, with signatures, and with TLS as well.
//!
//! The servers are read from in turns. Requests are signed beforehand, as AWS lets a signature be used again for a quarter
//! of an hour, so that what is measured is the server. Ratios are of each round, to the server for everybody in the same round;
//! their median counts, and has bars. Beside an earlier state, which may have had no door, what it costs where it is off is seen too.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Result, ensure};
use larder_auth::{Access, AccessKey, HttpRequest, Policy, Principal};
use larder_model::Clock;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::LocalSet;
use tokio_rustls::TlsConnector;

use crate::http::{self, Connection, Place};
use crate::job::{Measure, Measured};
use crate::load::{self, Requests};
use crate::peer::{Installed, Peer};
use crate::process::{self, Running};
use crate::results::median;
use crate::workload::Op;

const CONNECTIONS: usize = 64;
const PAYLOAD_BYTES: usize = 300;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    rounds: usize,
    /// How long one server is read from before it is the next one's turn.
    seconds: f64,
    items: u32,
}

impl Sizes {
    pub(crate) fn full(rounds: usize, seconds: f64) -> Self {
        Self { rounds, seconds, items: 4096 }
    }

    pub(crate) fn quick() -> Self {
        Self { rounds: 1, seconds: 0.2, items: 256 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Open,
    /// For everybody, of an earlier state.
    Before,
    Signed,
    SignedTls,
}

impl Door {
    const ALL: [Self; 4] = [Self::Open, Self::Before, Self::Signed, Self::SignedTls];

    fn title(self) -> &'static str {
        match self {
            Self::Open => "for everybody",
            Self::Before => "for everybody, before",
            Self::Signed => "with signatures",
            Self::SignedTls => "with signatures and TLS",
        }
    }

    /// What is left of the rate at least.
    fn bar(self) -> Option<f64> {
        match self {
            Self::Open | Self::Before => None,
            Self::Signed => Some(0.7),
            Self::SignedTls => Some(0.5),
        }
    }

    fn asks(self) -> bool {
        self.bar().is_some()
    }
}

/// Whether the bars are reached. `before` holds the `larder` of an earlier state.
pub(crate) fn run(sizes: Sizes, before: Option<&Path>) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let larder = Peer::Larder.install(Path::new(""))?;
    let Sizes { rounds, seconds, items } = sizes;
    println!(
        "What the door costs; GetItem, {items} items of {PAYLOAD_BYTES} bytes, {CONNECTIONS} connections, median of \
         {rounds} times {seconds} s"
    );
    let before: Option<PathBuf> = before.map(|directory| directory.join("larder"));
    let before = before.map(|path| Installed::at(Peer::Larder, path)).transpose()?;
    LocalSet::new().block_on(&runtime, compare(&larder, before.as_ref(), sizes))
}

async fn compare(larder: &Installed, before: Option<&Installed>, sizes: Sizes) -> Result<bool> {
    let (mut doors, mut served) = (Vec::new(), Vec::new());
    for door in Door::ALL {
        let installed = if door == Door::Before { before } else { Some(larder) };
        if let Some(installed) = installed {
            doors.push(door);
            served.push(Served::start(installed, door, sizes.items).await?);
        }
    }
    let mut rounds: Vec<Vec<Measured>> = Vec::new();
    for _ in 0..sizes.rounds {
        let mut round = Vec::new();
        for one in &served {
            round.push(one.measure(sizes).await?);
        }
        rounds.push(round);
    }
    let mut reached = true;
    for (at, door) in doors.into_iter().enumerate() {
        let of = |value: fn(&Measured) -> f64| {
            median(rounds.iter().map(|round| value(&round[at]))).unwrap_or_default()
        };
        let ratio = median(rounds.iter().map(|round| round[at].rate / round[0].rate)).unwrap_or_default();
        let bar = door.bar().map_or_else(String::new, |bar| {
            let is_reached = ratio >= bar;
            reached &= is_reached;
            format!("   at least {bar}: {}", if is_reached { "met" } else { "MISSED" })
        });
        println!(
            "  {:<26} {:>9.0} /s   p99 {:>7.0} µs   ratio {ratio:>5.2}{bar}",
            door.title(),
            of(|measured| measured.rate),
            of(|measured| measured.p99)
        );
    }
    for one in served {
        one.running.stop().await?;
    }
    Ok(reached)
}

/// A server with items, and the requests that read them.
struct Served {
    running: Running,
    place: Place,
    gets: Rc<[Vec<u8>]>,
    /// Goes with it.
    _files: TempDir,
}

impl Served {
    async fn start(larder: &Installed, door: Door, items: u32) -> Result<Self> {
        let files = tempfile::tempdir()?;
        let address = process::free_address()?;
        let mut serve = larder.server(address, &files.path().join("data"))?;
        serve.env("XDG_DATA_HOME", files.path());
        if door != Door::Before || larder.serves_with("--no-console")? {
            serve.arg("--no-console");
        }
        let key = AccessKey::generate(&[7; 40]);
        if door.asks() {
            let path = files.path().join("access.json");
            std::fs::write(&path, access(&key)?)?;
            #[cfg(unix)]
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
            serve.arg("--access").arg(path);
        }
        if door == Door::SignedTls {
            serve.args(["--tls", "self-signed"]);
        }
        let mut running = Running::start(&mut serve)?;
        let key = door.asks().then_some(&key);
        let certificate = files.path().join("larder/tls/certificate.pem");
        let certificate = (door == Door::SignedTls).then_some(certificate.as_path());
        let place =
            running.answers_to(&request("ListTables", "{}", key), || place(address, certificate)).await?;

        let table = json!({
            "TableName": "bench", "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        });
        let mut connection = Connection::open(&place).await?;
        let mut wanted = vec![request("CreateTable", &table.to_string(), key)];
        let payload = "x".repeat(PAYLOAD_BYTES);
        wanted.extend((0..items).map(|number| {
            let item = json!({"pk": {"S": number.to_string()}, "payload": {"S": payload}});
            request("PutItem", &json!({"TableName": "bench", "Item": item}).to_string(), key)
        }));
        for request in &wanted {
            let reply = connection.exchange(request).await?;
            ensure!(reply.ok(), "{}", reply.excerpt());
        }
        if key.is_some() {
            // Else it would be no door that was measured.
            let reply = connection.exchange(&request("ListTables", "{}", None)).await?;
            ensure!(reply.status == 400, "a signature that is wrong was let in: {}", reply.excerpt());
        }
        let gets = (0..items).map(|number| {
            let key_of_item = json!({"TableName": "bench", "Key": {"pk": {"S": number.to_string()}}});
            request("GetItem", &key_of_item.to_string(), key)
        });
        Ok(Self { running, place, gets: gets.collect(), _files: files })
    }

    async fn measure(&self, sizes: Sizes) -> Result<Measured> {
        let measure = Measure {
            op: Op::Get,
            connections: CONNECTIONS,
            items: sizes.items.into(),
            seed: 0,
            warmup_seconds: 0.2,
            seconds: sizes.seconds,
            drain_seconds: 20.0,
            requests_max: u64::MAX,
            spread: false,
            pause_seconds: 0.0,
        };
        let measured = load::run(self.place.clone(), &measure, Requests::Ring(Rc::clone(&self.gets))).await?;
        let first = measured.first_error.as_deref().unwrap_or_default();
        ensure!(measured.errors == 0, "{} gets failed: {first}", measured.errors);
        Ok(measured)
    }
}

fn access(key: &AccessKey) -> Result<String> {
    let policy = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*"}}"#;
    let principal = Principal {
        name: "bench".to_owned(),
        account: "000000000000".to_owned(),
        keys: vec![key.clone()],
        tags: std::collections::BTreeMap::new(),
        policies: vec![("all".to_owned(), Policy::identity(policy)?)],
    };
    Ok(Access::new(vec![principal])?.write())
}

/// How it is spoken to, once its certificate is there.
fn place(address: SocketAddr, certificate: Option<&Path>) -> Result<Place> {
    let tls = match certificate {
        None => None,
        Some(path) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(path)?)?;
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config =
                ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
            let mut config = config.with_root_certificates(roots).with_no_client_auth();
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Some(TlsConnector::from(Arc::new(config)))
        }
    };
    Ok(Place { address, tls })
}

/// A request as it goes on the wire, signed where there is a key.
fn request(operation: &str, body: &str, key: Option<&AccessKey>) -> Vec<u8> {
    let Some(key) = key else { return http::request(operation, body) };
    let target = format!("DynamoDB_20120810.{operation}");
    let headers: [(&str, &[u8]); 3] = [
        ("host", b"127.0.0.1"),
        ("content-type", b"application/x-amz-json-1.0"),
        ("x-amz-target", target.as_bytes()),
    ];
    let http = HttpRequest { method: "POST", path: "/", query: "", headers: &headers, body: body.as_bytes() };
    let signed = larder_auth::sign(&http, key, None, "us-east-1", Clock::system().now());
    let mut head = format!(
        "POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/x-amz-json-1.0\r\nx-amz-target: {target}\r\n\
         content-length: {}\r\n",
        body.len()
    );
    for (name, value) in signed {
        head += &format!("{name}: {value}\r\n");
    }
    format!("{head}\r\n{body}").into_bytes()
}
