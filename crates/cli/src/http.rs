//! One small text from a server on this machine or network, `/metrics` or `/readyz`; or an answer that is read as it comes.
//!
//! By `http://` or `https://`, and signed where the environment has a key: a server with `--access` asks for that.

use std::env;
use std::io::{BufRead, BufReader, Error, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use larder_auth::{AccessKey, HttpRequest, Secret};
use larder_model::{Arn, Clock};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Whoever does not answer in this time is not there.
const LIMIT: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: u64 = 64 * 1024;
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Whoever sends nothing for this time while it is being read is gone.
const SILENCE: Duration = Duration::from_secs(90);

/// An answer whose body is read as it comes.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Box<dyn Read>,
}

/// Where a server is.
struct Place<'a> {
    /// And port, unless it is the usual one.
    host: &'a str,
    secure: bool,
}

impl<'a> Place<'a> {
    fn of(endpoint: &'a str) -> Result<Self, String> {
        let (host, secure) = match (endpoint.strip_prefix("http://"), endpoint.strip_prefix("https://")) {
            (Some(host), _) => (host, false),
            (_, Some(host)) => (host, true),
            _ => return Err("give http://HOST:PORT or https://HOST:PORT".to_owned()),
        };
        Ok(Self { host: host.trim_end_matches('/'), secure })
    }

    /// The host alone.
    fn name(&self) -> &str {
        match self.host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => self.host,
        }
    }

    fn connect(&self, limit: Duration) -> Result<Box<dyn Connected>, String> {
        let said = |error: Error| error.to_string();
        let port = match (self.name() == self.host, self.secure) {
            (false, _) => "",
            (true, false) => ":80",
            (true, true) => ":443",
        };
        let mut addresses = format!("{}{port}", self.host).to_socket_addrs().map_err(said)?;
        let address = addresses.next().ok_or("there is no such host")?;
        let stream = TcpStream::connect_timeout(&address, LIMIT).map_err(said)?;
        stream.set_read_timeout(Some(limit)).map_err(said)?;
        if !self.secure {
            return Ok(Box::new(stream));
        }
        let name = self.name().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
        let connection = ClientConnection::new(trusting()?, name).map_err(|error| error.to_string())?;
        Ok(Box::new(StreamOwned::new(connection, stream)))
    }
}

trait Connected: Read + Write {}

impl<T: Read + Write> Connected for T {}

/// Trusts the authorities that this machine trusts, or those of `SSL_CERT_FILE`.
fn trusting() -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// The status and the body.
pub(crate) fn get(endpoint: &str, path: &str) -> Result<(u16, String), String> {
    let Answer { status, body } = ask(endpoint, "GET", path, &[], &[], LIMIT)?;
    let mut text = String::new();
    body.take(BODY_BYTES_MAX).read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok((status, text))
}

/// Asks for something that only who means it may ask for.
pub(crate) fn post(endpoint: &str, path: &str, body: &[u8]) -> Result<Answer, String> {
    ask(endpoint, "POST", path, &[("x-larder-admin", "1")], body, SILENCE)
}

/// By HTTP/1.0, whose answers come in one piece.
fn ask(
    endpoint: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    limit: Duration,
) -> Result<Answer, String> {
    let said = |error: Error| error.to_string();
    let place = Place::of(endpoint)?;
    let mut all: Vec<(&str, String)> = vec![("host", place.host.to_owned())];
    all.extend(headers.iter().map(|(name, value)| (*name, (*value).to_owned())));
    all.extend(signature(method, path, &all, body));
    let mut head = format!("{method} {path} HTTP/1.0\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in &all {
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    let mut stream = place.connect(limit)?;
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).map_err(said)?;
    stream.flush().map_err(said)?;

    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    for line in reader.by_ref().take(HEAD_BYTES_MAX).lines() {
        match line.map_err(said)? {
            line if line.is_empty() => break,
            line => head.push(line),
        }
    }
    let status = head.first().and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    let length = head.iter().filter_map(|line| line.split_once(':'));
    let length = length.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.filter_map(|(_, value)| value.trim().parse().ok()).next();
    let status = status.ok_or("the answer is not HTTP")?;
    Ok(Answer { status, body: Box::new(reader.take(length.unwrap_or(u64::MAX))) })
}

/// With the key of the environment, if it has one.
fn signature(
    method: &str,
    path: &str,
    headers: &[(&str, String)],
    body: &[u8],
) -> Vec<(&'static str, String)> {
    let said = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(id), Some(secret)) = (said("AWS_ACCESS_KEY_ID"), said("AWS_SECRET_ACCESS_KEY")) else {
        return Vec::new();
    };
    let key = AccessKey { id, secret: Secret::new(secret) };
    let token = said("AWS_SESSION_TOKEN");
    let region =
        said("AWS_REGION").or_else(|| said("AWS_DEFAULT_REGION")).unwrap_or_else(|| Arn::REGION.to_owned());
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let http = HttpRequest { method, path, query, headers: &headers, body };
    larder_auth::sign(&http, &key, token.as_deref(), &region, Clock::system().now())
}
