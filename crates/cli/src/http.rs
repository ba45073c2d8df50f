//! One small text from a server on this machine or network, `/metrics` or `/readyz`; or an answer that is read as it comes.

use std::io::{BufRead, BufReader, Error, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

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

/// The status and the body.
pub(crate) fn get(host: &str, path: &str) -> Result<(u16, String), String> {
    let Answer { status, body } =
        ask(host, &format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n"), &[], LIMIT)?;
    let mut text = String::new();
    body.take(BODY_BYTES_MAX).read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok((status, text))
}

/// Asks for something that only who means it may ask for.
pub(crate) fn post(host: &str, path: &str, body: &[u8]) -> Result<Answer, String> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.0\r\nHost: {host}\r\nX-Larder-Admin: 1\r\nContent-Length: {length}\r\n\r\n"
    );
    ask(host, &head, body, SILENCE)
}

/// By HTTP/1.0, whose answers come in one piece.
fn ask(host: &str, head: &str, body: &[u8], limit: Duration) -> Result<Answer, String> {
    let said = |error: Error| error.to_string();
    let port = if host.contains(':') { "" } else { ":80" };
    let mut addresses = format!("{host}{port}").to_socket_addrs().map_err(said)?;
    let address = addresses.next().ok_or("there is no such host")?;
    let mut stream = TcpStream::connect_timeout(&address, LIMIT).map_err(said)?;
    stream.set_read_timeout(Some(limit)).map_err(said)?;
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).map_err(said)?;

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
