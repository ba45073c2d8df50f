//! A server in this process, and a client whose every byte a test can see.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper::header::HeaderMap;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use larder_server::{Config, Error, Server, StoreConfig};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), Error>>,
}

impl Running {
    pub(crate) async fn memory() -> Running {
        Self::start(Config::local(StoreConfig::Memory)).await
    }

    pub(crate) async fn start(config: Config) -> Running {
        Self::serve(Server::bind(config).await.expect("a free port and an empty store open"))
    }

    pub(crate) fn serve(server: Server) -> Running {
        let address = server.address();
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Running { address, stop, ended }
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::to(self.address).await
    }

    pub(crate) async fn connect_http2(&self) -> Connection {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("the server takes HTTP/2 with prior knowledge");
        tokio::spawn(connection);
        Connection { sender: Sender::Http2(sender), address: self.address }
    }

    /// Tells it to stop; `ended` says when it has.
    pub(crate) fn stop(self) -> JoinHandle<Result<(), Error>> {
        self.stop.send(()).expect("the server runs");
        self.ended
    }
}

/// One connection, used for one request after the other.
pub(crate) struct Connection {
    sender: Sender,
    address: SocketAddr,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("headers are text"))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }

    /// The code of the error, without its namespace.
    pub(crate) fn error(&self) -> String {
        let body = self.json();
        let code = body["__type"].as_str().expect("an error has a type");
        code.rsplit('#').next().expect("a split has a last part").to_owned()
    }
}

impl Connection {
    #[allow(dead_code, reason = "not every file of tests asks")]
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn to(address: SocketAddr) -> Connection {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1 needs nothing");
        tokio::spawn(connection);
        Connection { sender: Sender::Http1(sender), address }
    }

    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        timeout(LIMIT, self.exchange(method, path, headers, body.into())).await.expect("an answer in time")
    }

    async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Answer {
        let uri = match self.sender {
            Sender::Http1(_) => path.to_owned(),
            Sender::Http2(_) => format!("http://{}{path}", self.address),
        };
        let mut request = Request::builder().method(method).uri(uri);
        if let Sender::Http1(_) = self.sender {
            request = request.header("host", self.address.to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).expect("the test's request is well formed");
        let response = match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await.expect("the connection is kept");
                sender.send_request(request).await
            }
            Sender::Http2(sender) => sender.send_request(request).await,
        };
        let (head, body) = response.expect("an answer").into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        Answer { status: head.status, headers: head.headers, body }
    }

    pub(crate) async fn post(
        &mut self,
        operation: &str,
        extra: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let target = format!("DynamoDB_20120810.{operation}");
        let mut headers = vec![("x-amz-target", &*target)];
        if !extra.iter().any(|(name, _)| *name == "content-type") {
            headers.push(("content-type", "application/x-amz-json-1.0"));
        }
        headers.extend_from_slice(extra);
        self.send(Method::POST, "/", &headers, body).await
    }

    pub(crate) async fn ok(&mut self, operation: &str, body: Value) -> Value {
        let answer = self.post(operation, &[], body.to_string()).await;
        assert_eq!(answer.status, StatusCode::OK, "{operation}: {:?}", answer.body);
        answer.json()
    }
}
