//! One small text from a server on this machine or network, `/metrics` or `/readyz`; or an answer that is read as it comes.
//!
//! By `http://` or `https://`, with the certificate of this process and signed as the SDK would sign, where the environment has
//! them: a server with `--tls-client-ca` or `--access` asks for that.

use std::io::{BufRead, BufReader, Error, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use aws_sdk_dynamodb::config::ProvideCredentials;
use larder::store::connection;
use larder_auth::{AccessKey, HttpRequest, Secret};
use larder_model::{Arn, Clock};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use tokio::runtime;

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
        let connection =
            ClientConnection::new(Arc::new(connection::tls()?), name).map_err(|error| error.to_string())?;
        Ok(Box::new(StreamOwned::new(connection, stream)))
    }
}

trait Connected: Read + Write {}

impl<T: Read + Write> Connected for T {}

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
    if let Some(identity) = Identity::known(endpoint)? {
        all.extend(identity.signature(method, path, &all, body));
    }
    let mut head = format!("{method} {path} HTTP/1.0\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in &all {
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    let mut stream = place.connect(limit)?;
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let sent = sent.and_then(|()| stream.flush());

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
    // Whoever does not read to the end may have answered all the same.
    let Some(status) = status else {
        return Err(sent.err().map_or_else(|| "the answer is not HTTP".to_owned(), said));
    };
    Ok(Answer { status, body: Box::new(reader.take(length.unwrap_or(u64::MAX))) })
}

/// Whom the SDK would sign as.
struct Identity {
    key: AccessKey,
    token: Option<String>,
    region: String,
}

impl Identity {
    /// Nobody, if the environment names nobody.
    fn known(endpoint: &str) -> Result<Option<Self>, String> {
        if !connection::has_credentials() {
            return Ok(None);
        }
        // Whoever asks may be on a thread of a runtime, and waits for the answer anyway.
        let asked = thread::scope(|scope| scope.spawn(|| Self::of_sdk(endpoint)).join());
        asked.expect("it does not panic").map(Some)
    }

    fn of_sdk(endpoint: &str) -> Result<Self, String> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start its threads: {error}"))?;
        runtime.block_on(async {
            let config = connection::sdk_config(Some(endpoint)).await?;
            let region = config.region().map_or(Arn::REGION, |region| region.as_ref()).to_owned();
            let provider = config.credentials_provider().ok_or("there is nothing to sign with")?;
            let credentials = provider.provide_credentials().await.map_err(|error| {
                let cause =
                    std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
                format!("there is nothing to sign with: {error}{cause}")
            })?;
            let key = AccessKey {
                id: credentials.access_key_id().to_owned(),
                secret: Secret::new(credentials.secret_access_key().to_owned()),
            };
            Ok(Self { key, token: credentials.session_token().map(str::to_owned), region })
        })
    }

    fn signature(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, String)],
        body: &[u8],
    ) -> Vec<(&'static str, String)> {
        let headers: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let http = HttpRequest { method, path, query, headers: &headers, body };
        larder_auth::sign(&http, &self.key, self.token.as_deref(), &self.region, Clock::system().now())
    }
}
