//! Accepts connections, serves each on a task of its own, and sees them out.
//!
//! A connection that finishes no request for a whole [`SILENCE`] is closed. That one rule bounds idle
//! connections, slow headers and slow bodies alike, and costs a request nothing: each connection has one
//! timer that fires once a minute, rather than one timer a request. When there are as many connections as there
//! may be, the rule is a sharper one: each further client closes those that finished nothing since the one before,
//! at most once a second.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::Either;
use hyper::body::{Body, Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at, sleep, timeout};
use tokio_rustls::server::TlsStream;

use crate::budget::Hints;
use crate::http::{Endpoint, Sent};
use crate::tls::Tls;

/// How long accepted requests may take to finish once the server is told to stop.
pub const GRACE: Duration = Duration::from_secs(10);

const SILENCE: Duration = Duration::from_secs(60);
/// How long a client may take to agree on TLS.
const HANDSHAKE: Duration = if cfg!(test) { Duration::from_millis(300) } else { Duration::from_secs(10) };
/// How long to wait when the process has no file descriptor left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// How often connections are looked through for idle ones at most.
const CROWDED_EVERY: Duration = Duration::from_secs(1);
const STREAMS_PER_CONNECTION_MAX: u32 = 128;
const HEADER_BYTES_MAX: u32 = 64 * 1024;
/// What a connection of HTTP/1 reads ahead, and so what a head may be.
pub(crate) const READ_BYTES_MAX: usize = 64 * 1024;
/// What a connection of HTTP/2 may send ahead of what is taken from it: a stream, and all of them.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 512 * 1024;
/// What of an answer is copied ahead of what the client takes.
const SEND_BYTES_MAX: usize = 64 * 1024;
/// Streams that a client opened and took back before they were looked at; more, and the connection is closed.
const RESET_STREAMS_MAX: usize = 20;

/// Whoever is at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    pub address: SocketAddr,
    /// Over TLS.
    pub secure: bool,
}

/// What answers requests beside the endpoint, such as a console.
pub trait Answering: Send + Sync + 'static {
    /// What to do when there are as many connections as there may be.
    fn crowded(&self) -> &'static str;

    /// Answers one request.
    fn answer<'a>(&'a self, request: Request<Incoming>, peer: Peer, life: &'a Arc<Life>) -> AnswerFuture<'a>;
}

/// An answer on its way.
pub type AnswerFuture<'a> = Pin<Box<dyn Future<Output = Response<AnswerBody>> + Send + 'a>>;

/// What an answer is made of.
pub type AnswerBody = Pin<Box<dyn Body<Data = Bytes, Error = Infallible> + Send>>;

/// Who answers. Not a type parameter: HTTP is then compiled once, here, whoever serves.
pub(crate) enum Answerer {
    Endpoint(Box<Endpoint>),
    Beside(Box<dyn Answering>),
}

impl Answerer {
    fn crowded(&self) -> &'static str {
        match self {
            Self::Endpoint(_) => Endpoint::CROWDED,
            Self::Beside(beside) => beside.crowded(),
        }
    }

    /// Fails only when the client is gone.
    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: Peer,
        life: &Arc<Life>,
    ) -> Result<Response<Either<Sent, AnswerBody>>, hyper::Error> {
        match self {
            Self::Endpoint(endpoint) => Ok(endpoint.answer(request, peer, life).await?.map(Either::Left)),
            Self::Beside(beside) => Ok(beside.answer(request, peer, life).await.map(Either::Right)),
        }
    }

    /// Told of every connection, and of its end.
    fn count(&self, opened: bool) {
        match self {
            Self::Endpoint(endpoint) => endpoint.count(opened),
            Self::Beside(_) => {}
        }
    }
}

/// What tells of a connection that somebody uses it.
#[derive(Debug, Default)]
pub struct Life {
    finished: AtomicU64,
    /// Requests that are being carried out.
    pub(crate) working: AtomicUsize,
}

/// A request that is carried out while this lives.
#[derive(Debug)]
pub struct Working<'a>(&'a AtomicUsize);

impl<'a> Working<'a> {
    pub(crate) fn on(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Life {
    /// A request is carried out until what is returned is dropped: its connection is not taken for an idle one.
    pub fn at_work(&self) -> Working<'_> {
        Working::on(&self.working)
    }

    /// A request was answered, or a part of a long answer was taken.
    pub fn sign(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }
}

/// Until when to serve.
pub type Shutdown<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Serves as the endpoint does: until `shutdown` is done, then until the last request is answered or [`GRACE`] is over.
pub fn serve_beside<'a>(
    listener: TcpListener,
    answering: Box<dyn Answering>,
    tls: Option<Arc<Tls>>,
    connections_max: usize,
    shutdown: Shutdown<'a>,
) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
    Box::pin(serve(listener, Answerer::Beside(answering), tls, connections_max, shutdown))
}

/// Serves until `shutdown` is done, then until the last request is answered or [`GRACE`] is over.
pub(crate) async fn serve(
    listener: TcpListener,
    answerer: Answerer,
    tls: Option<Arc<Tls>>,
    connections_max: usize,
    mut shutdown: Shutdown<'_>,
) {
    let answerer = Arc::new(answerer);
    let protocol = Arc::new(protocol());
    let (stop, stopping) = watch::channel(false);
    let (crowd, crowded) = watch::channel(0);
    let (mut crowded_at, hints) = (None, Hints::default());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                // The client sees its connection closed, and tries again.
                Ok((stream, _)) if connections.len() >= connections_max => {
                    drop(stream);
                    if crowded_at.is_none_or(|last: Instant| last.elapsed() >= CROWDED_EVERY) {
                        crowded_at = Some(Instant::now());
                        crowd.send_modify(|times| *times += 1);
                    }
                    if hints.due() {
                        tracing::warn!(
                            limit = connections_max,
                            "connections are closed unserved: the limit is reached; {}",
                            answerer.crowded()
                        );
                    }
                }
                Ok((stream, address)) => {
                    connections.spawn(connection(
                        stream,
                        address,
                        tls.clone(),
                        Arc::clone(&protocol),
                        Open::count(&answerer),
                        stopping.clone(),
                        crowded.clone(),
                    ));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    sleep(ACCEPT_AGAIN).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    // Nobody listens once every connection is gone.
    let _ = stop.send(true);
    let finished = timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
    if finished.is_err() {
        tracing::warn!(connections = connections.len(), "cut off what did not finish in time");
        connections.shutdown().await;
    }
}

fn protocol() -> auto::Builder<TokioExecutor> {
    let mut protocol = auto::Builder::new(TokioExecutor::new());
    // A client that closes its side after the request still gets its answer. `pipeline_flush` stays off: it
    // copies answers into a buffer that every connection keeps at the size of its largest.
    protocol.http1().half_close(true).max_buf_size(READ_BYTES_MAX);
    protocol
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BYTES_MAX)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_local_error_reset_streams(RESET_STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX);
    protocol
}

/// A connection, which is counted for as long as this lives. Its requests share it: what all connections share is not touched
/// for each request, as each core would have to wait for the other.
struct Open {
    answerer: Arc<Answerer>,
    life: Arc<Life>,
}

impl Open {
    fn count(answerer: &Arc<Answerer>) -> Arc<Self> {
        answerer.count(true);
        Arc::new(Self { answerer: Arc::clone(answerer), life: Arc::default() })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.answerer.count(false);
    }
}

/// What a connection is read from and written to. One type of both, so that HTTP is compiled once.
enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

async fn connection(
    stream: TcpStream,
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
    protocol: Arc<auto::Builder<TokioExecutor>>,
    open: Arc<Open>,
    mut stopping: watch::Receiver<bool>,
    mut crowded: watch::Receiver<u64>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection closed before it was served");
        return;
    }
    let Some(tls) = tls else {
        let peer = Peer { address, secure: false };
        return requests(Wire::Plain(stream), peer, &protocol, open, stopping, crowded).await;
    };
    let agreed = tokio::select! {
        agreed = timeout(HANDSHAKE, tls.acceptor().accept(stream)) => agreed,
        _ = stopping.changed() => return,
        // Room is made for others twice: whoever does not agree meanwhile does nothing.
        () = async { let _ = crowded.changed().await; let _ = crowded.changed().await; } => return,
    };
    match agreed {
        Ok(Ok(stream)) => {
            let peer = Peer { address, secure: true };
            requests(Wire::Tls(Box::new(stream)), peer, &protocol, open, stopping, crowded).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, %address, "a client did not agree on TLS"),
        Err(_) => tracing::debug!(%address, "a client did not agree on TLS in time"),
    }
}

/// The requests of one connection, to its end.
async fn requests(
    stream: Wire,
    peer: Peer,
    protocol: &auto::Builder<TokioExecutor>,
    open: Arc<Open>,
    mut stopping: watch::Receiver<bool>,
    mut crowded: watch::Receiver<u64>,
) {
    let life = &open.life;
    let service = service_fn(|request| {
        let open = Arc::clone(&open);
        async move {
            let response = open.answerer.answer(request, peer, &open.life).await;
            open.life.sign();
            response
        }
    });
    let connection = protocol.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let mut check = interval_at(Instant::now() + SILENCE, SILENCE);
    let mut finished_before = 0;
    let mut finished_before_crowd = None;
    let mut told_to_stop = false;
    loop {
        tokio::select! {
            // First, so that a request that is already here counts as accepted.
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(error, "a connection ended early");
                }
                return;
            }
            _ = stopping.changed(), if !told_to_stop => {
                told_to_stop = true;
                connection.as_mut().graceful_shutdown();
            }
            Ok(()) = crowded.changed() => {
                let finished_now = life.finished.load(Ordering::Relaxed);
                let idle = life.working.load(Ordering::Relaxed) == 0;
                if idle && finished_before_crowd == Some(finished_now) {
                    return;
                }
                finished_before_crowd = Some(finished_now);
            }
            _ = check.tick() => {
                let finished_now = life.finished.load(Ordering::Relaxed);
                if finished_now == finished_before {
                    return;
                }
                finished_before = finished_now;
            }
        }
    }
}
