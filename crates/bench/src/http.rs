//! One keep-alive HTTP/1.1 connection with one request in flight.
//!
//! Requests are complete bytes made beforehand and answers are read just far enough to know where they
//! end. That is all the client does, because it shares two cores with the server it measures: a full
//! client would spend about as much as a fast server and hide the difference between two of them.

use std::fmt;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Where a server is, and how it is spoken to.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<TlsConnector>,
}

impl From<SocketAddr> for Place {
    fn from(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("address", &self.address).finish_non_exhaustive()
    }
}

trait Connected: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Connected for T {}

/// A whole request as it goes on the wire. The signature is well formed and means nothing: the peers
/// ask for one and none of them checks it.
pub(crate) fn request(operation: &str, body: &str) -> Vec<u8> {
    format!(
        "POST / HTTP/1.1\r\n\
         host: 127.0.0.1\r\n\
         content-type: application/x-amz-json-1.0\r\n\
         x-amz-target: DynamoDB_20120810.{operation}\r\n\
         x-amz-date: 20260101T000000Z\r\n\
         authorization: AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/dynamodb/aws4_request, \
         SignedHeaders=host;x-amz-date;x-amz-target, Signature={:064}\r\n\
         content-length: {}\r\n\r\n{body}",
        0,
        body.len()
    )
    .into_bytes()
}

pub(crate) struct Connection {
    stream: Box<dyn Connected>,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(place: &Place) -> Result<Connection> {
        let stream = TcpStream::connect(place.address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Connected> = match &place.tls {
            None => Box::new(stream),
            Some(tls) => {
                let name = ServerName::try_from("localhost")?;
                Box::new(tls.connect(name, stream).await.context("cannot agree on TLS")?)
            }
        };
        Ok(Connection { stream, buffer: Vec::with_capacity(16 * 1024) })
    }

    /// Sends the request and reads the whole answer. After an error the connection is of no use.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Reply<'_>> {
        self.stream.write_all(request).await.context("cannot send")?;
        self.stream.flush().await.context("cannot send")?;
        self.buffer.clear();
        let head = loop {
            self.read_more().await?;
            if let Some(head) = Head::parse(&self.buffer)? {
                break head;
            }
        };
        let end = head.bytes + head.body_bytes;
        while self.buffer.len() < end {
            self.read_more().await?;
        }
        ensure!(self.buffer.len() == end, "the answer is longer than it says");
        Ok(Reply { status: head.status, body: &self.buffer[head.bytes..end] })
    }

    async fn read_more(&mut self) -> Result<()> {
        let read = self.stream.read_buf(&mut self.buffer).await.context("cannot read")?;
        ensure!(read > 0, "the server closed the connection");
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Reply<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl Reply<'_> {
    pub(crate) fn ok(&self) -> bool {
        self.status == 200
    }

    /// The start of the answer, for an error message.
    pub(crate) fn excerpt(&self) -> String {
        let text = String::from_utf8_lossy(self.body);
        format!("status {}: {}", self.status, text.chars().take(200).collect::<String>())
    }
}

#[derive(Debug, PartialEq)]
struct Head {
    status: u16,
    bytes: usize,
    body_bytes: usize,
}

impl Head {
    /// `None` while the head is not complete.
    fn parse(buffer: &[u8]) -> Result<Option<Head>> {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(bytes) = response.parse(buffer).context("not an HTTP answer")? else {
            return Ok(None);
        };
        let status = response.code.context("an answer without a status")?;
        let length =
            response.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
        let Some(length) = length else { bail!("status {status} without a content-length") };
        let body_bytes = std::str::from_utf8(length.value)?.trim().parse().context("a bad content-length")?;
        Ok(Some(Head { status, bytes, body_bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_in_pieces_is_not_complete_until_its_blank_line() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n";
        for cut in 0..whole.len() {
            assert_eq!(Head::parse(&whole[..cut]).unwrap(), None);
        }
        let head = Head { status: 200, bytes: whole.len(), body_bytes: 12 };
        assert_eq!(Head::parse(whole).unwrap(), Some(head));
    }

    #[test]
    fn an_answer_without_a_length_is_refused() {
        assert!(Head::parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(Head::parse(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n").is_err());
        assert!(Head::parse(b"SSH-2.0\r\n\r\n").is_err());
    }
}
