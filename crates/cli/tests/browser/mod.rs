//! Somebody with a browser, as far as that is HTTP.

#![allow(dead_code, reason = "each test file uses what it needs")]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const LIMIT: Duration = Duration::from_secs(20);

/// Somebody with a browser: cookies are kept, and forms carry what a page gave.
pub(crate) struct Browser {
    address: String,
    /// The certificate it trusts, where TLS is spoken.
    trusts: Option<PathBuf>,
    pub(crate) cookies: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn token(&self) -> &str {
        self.body.split("name=\"token\" value=\"").nth(1).expect("a form").split('"').next().unwrap()
    }
}

impl Browser {
    pub(crate) fn new(address: &str, trusts: Option<&Path>) -> Self {
        let (address, trusts) = (address.to_owned(), trusts.map(Path::to_owned));
        Self { address, trusts, cookies: BTreeMap::new() }
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.try_send("GET", path, None).expect(path)
    }

    /// A form, as it is on a page that has it.
    pub(crate) fn post(&mut self, path: &str, token: &str, form: &str) -> Answer {
        self.try_send("POST", path, Some(&format!("token={token}&{form}"))).expect(path)
    }

    pub(crate) fn try_send(
        &mut self,
        method: &str,
        path: &str,
        form: Option<&str>,
    ) -> Result<Answer, std::io::Error> {
        let scheme = if self.trusts.is_some() { "https" } else { "http" };
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        request += &format!("Cookie: {}\r\n", cookies.join("; "));
        if let Some(form) = form {
            request += &format!("Origin: {scheme}://{}\r\nContent-Length: {}\r\n", self.address, form.len());
            request += "Content-Type: application/x-www-form-urlencoded\r\n";
        }
        request += "\r\n";
        request += form.unwrap_or_default();
        let stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(LIMIT))?;
        let text = match &self.trusts {
            None => exchange(stream, &request)?,
            Some(certificate) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
                let provider = Arc::new(rustls::crypto::ring::default_provider());
                let config = ClientConfig::builder_with_provider(provider)
                    .with_safe_default_protocol_versions()
                    .unwrap()
                    .with_root_certificates(roots)
                    .with_no_client_auth();
                let name = ServerName::try_from("127.0.0.1").unwrap();
                let connection = ClientConnection::new(Arc::new(config), name).unwrap();
                exchange(StreamOwned::new(connection, stream), &request)?
            }
        };
        let (head, body) = text.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        for line in head.lines().filter_map(|line| line.strip_prefix("set-cookie: ")) {
            let (name, value) = line.split(';').next().unwrap().split_once('=').unwrap();
            if line.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
    }
}

fn exchange(mut stream: impl Read + Write, request: &str) -> Result<String, std::io::Error> {
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        // Whoever closes does not always say so first.
        Err(error) if bytes.is_empty() || error.kind() != std::io::ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Asks again until it is so: a server looks at its files twice a second.
pub(crate) fn until(mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < LIMIT, "it takes too long");
    }
}

pub(crate) fn free_address() -> String {
    // Free a moment ago: the system gives such a port to nobody else for a while.
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}
