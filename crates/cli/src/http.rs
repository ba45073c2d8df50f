//! One small text from a server on this machine or network: `/metrics`, `/readyz`.

use std::io::{BufRead, BufReader, Error, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Whoever does not answer in this time is not there.
const LIMIT: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: u64 = 64 * 1024;
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The status and the body. It asks by HTTP/1.0, whose answers come in one piece.
pub(crate) fn get(host: &str, path: &str) -> Result<(u16, String), String> {
    let said = |error: Error| error.to_string();
    let port = if host.contains(':') { "" } else { ":80" };
    let mut addresses = format!("{host}{port}").to_socket_addrs().map_err(said)?;
    let address = addresses.next().ok_or("there is no such host")?;
    let mut stream = TcpStream::connect_timeout(&address, LIMIT).map_err(said)?;
    stream.set_read_timeout(Some(LIMIT)).map_err(said)?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes()).map_err(said)?;

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
    let mut body = String::new();
    let expected = length.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX);
    reader.take(expected).read_to_string(&mut body).map_err(said)?;
    Ok((status.ok_or("the answer is not HTTP")?, body))
}
