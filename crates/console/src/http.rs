//! The console's port: connections, sizes, and the way of a request to its page.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{HeaderValue, SET_COOKIE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use larder::{Environment, Store, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Sleep, sleep, timeout};

use crate::address::{Given, segments};
use crate::answer::{self, Answer};
use crate::house::{House, Schemas};
use crate::pages::{self, Asked};
use crate::pulse::Pulse;
use crate::safety::{Aside, Refusal, Safety};

/// A form with an item of 400 KB, each byte of which may take three.
const FORM_BYTES_MAX: usize = 4 << 20;
const CONNECTIONS_MAX: usize = 64;
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
const FORM_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a browser may take nothing of what it is sent.
const SEND_PAUSE_MAX: Duration = Duration::from_secs(30);
/// A large page takes long to make, and what serves the endpoint beside it has others to answer: it has a thread of its own.
const PAGES_AT_ONCE: usize = 8;
/// How long pages under way may take once it is told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// How a console is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of loopback; port 0 takes any free port.
    pub address: SocketAddr,
    /// Nothing can be changed.
    pub read_only: bool,
    /// What the params of schemas are taken from.
    pub environment: Environment,
}

/// Why a console could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Anybody who reaches it may change everything.
    #[error(
        "the console listens on loopback alone, and {address} is none: give 127.0.0.1 or [::1] and a port"
    )]
    Remote {
        /// What was asked for.
        address: SocketAddr,
    },
    /// The port is taken, say.
    #[error("the console cannot listen on {address}: {cause}")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// What the system said.
        cause: io::Error,
    },
    /// There are no tokens without it.
    #[error("the system gives no random numbers: {0}")]
    Random(String),
}

/// A console with its port open.
#[derive(Debug)]
pub struct Console {
    listener: TcpListener,
    address: SocketAddr,
    desk: Desk,
}

/// A request that a server answered, as a page shows it.
#[derive(Clone, Debug)]
pub struct ServedRequest {
    /// When it came.
    pub at: UnixTime,
    /// DynamoDB's name of what it asked for.
    pub operation: &'static str,
    /// The table whose items it was about; of several, the first.
    pub table: Option<String>,
    /// How many times it names a table.
    pub tables: usize,
    /// The units it took.
    pub units: f64,
    /// They are write units.
    pub writes: bool,
    /// How long it took.
    pub took: Duration,
    /// DynamoDB's name of what was wrong.
    pub error: Option<&'static str>,
}

type Requests = Box<dyn Fn() -> Vec<ServedRequest> + Send + Sync>;

/// What every request needs.
pub(crate) struct Desk {
    pub(crate) safety: Safety,
    pub(crate) house: House,
    pub(crate) aside: Aside,
    /// What the server beside this was asked.
    pub(crate) requests: Option<Requests>,
    pub(crate) pulse: Pulse,
    pub(crate) read_only: bool,
    /// Pages that are made at once.
    places: Semaphore,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk")
            .field("house", &self.house)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl Console {
    /// Opens the port. Nothing is asked of the store, and no schema is read, before the first page.
    pub fn bind(store: Store, schemas: Schemas, options: Options) -> Result<Self, Error> {
        let address = options.address;
        if !address.ip().is_loopback() {
            return Err(Error::Remote { address });
        }
        let (listener, address) = listen(address).map_err(|cause| Error::Listen { address, cause })?;
        let safety = Safety::new(address).map_err(|error| Error::Random(error.to_string()))?;
        let house = House::new(store, schemas, options.environment);
        let (aside, pulse) = (Aside::default(), Pulse::default());
        let places = Semaphore::new(PAGES_AT_ONCE);
        let desk = Desk { safety, house, aside, pulse, requests: None, read_only: options.read_only, places };
        Ok(Self { listener, address, desk })
    }

    /// Shows what a server was asked: the last requests it has answered, oldest first.
    #[must_use]
    pub fn with_requests(mut self, last: impl Fn() -> Vec<ServedRequest> + Send + Sync + 'static) -> Self {
        self.desk.requests = Some(Box::new(last));
        self
    }

    /// Shows over time what the process counts, in Prometheus' text format: requests, units, hits.
    #[must_use]
    pub fn with_metrics(mut self, metrics: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.desk.pulse = Pulse::of(Box::new(metrics));
        self
    }

    /// Where it listens: the port it got, when it asked for any.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown` is done, and finishes what it was asked by then.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let (stop, stopping) = watch::channel(false);
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let desk = Arc::new(self.desk);
        let mut connections = JoinSet::new();
        tokio::pin!(shutdown);
        let counted = Arc::clone(&desk);
        let beat = tokio::spawn(async move { counted.pulse.beat().await });
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        // One too many is closed, and a browser tries again.
                        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
                            let serving = connection(stream, Arc::clone(&desk), stopping.clone());
                            connections.spawn(async move {
                                serving.await;
                                drop(place);
                            });
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the console did not accept a connection");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
        beat.abort();
        let _ = stop.send(true);
        let _ = timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
        connections.shutdown().await;
    }
}

fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((TcpListener::from_std(listener)?, address))
}

async fn connection(stream: TcpStream, desk: Arc<Desk>, mut stopping: watch::Receiver<bool>) {
    let service = service_fn(move |request| {
        let desk = Arc::clone(&desk);
        async move { Ok::<Answer, std::convert::Infallible>(respond(&desk, request).await) }
    });
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX);
    let stream = Reading { stream, pause_max: SEND_PAUSE_MAX, pause: None };
    let mut serving = std::pin::pin!(protocol.serve_connection(TokioIo::new(stream), service));
    let mut told = false;
    loop {
        tokio::select! {
            // A browser that goes away is nobody's fault.
            _ = &mut serving => return,
            Ok(()) = stopping.changed(), if !told => {
                told = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

/// A connection that is given up when the other side takes nothing for too long.
struct Reading<S> {
    stream: S,
    pause_max: Duration,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<S> Reading<S> {
    fn within<T>(&mut self, context: &mut Context<'_>, sent: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if sent.is_ready() {
            self.pause = None;
            return sent;
        }
        let pause_max = self.pause_max;
        let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(pause_max)));
        ready!(pause.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Reading<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Reading<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within(context, sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.within(context, sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

async fn respond(desk: &Arc<Desk>, request: Request<Incoming>) -> Answer {
    let (head, body) = request.into_parts();
    if let Err(refusal) = desk.safety.may_ask(&head.method, &head.headers) {
        return refused(refusal, &head.method, head.uri.path());
    }
    let form = match head.method {
        Method::GET | Method::HEAD => None,
        Method::POST => {
            let body = timeout(FORM_TIME_MAX, Limited::new(body, FORM_BYTES_MAX).collect()).await;
            let Ok(Ok(body)) = body else {
                return answer::plain(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "A form takes 4 MB at most, and half a minute.",
                );
            };
            let form = Given::read(&String::from_utf8_lossy(&body.to_bytes()));
            if let Err(refusal) = desk.safety.may_change(&head.headers, &form) {
                return refused(refusal, &head.method, head.uri.path());
            }
            Some(form)
        }
        _ => {
            return answer::plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "A page is read by GET and changed by POST.",
            );
        }
    };
    let path = segments(head.uri.path());
    let given = Given::read(head.uri.query().unwrap_or_default());
    if ["format", "count", "scan"].iter().any(|name| given.said(name).is_some())
        && let Err(refusal) = Safety::may_take_long(&head.headers)
    {
        return refused(refusal, &head.method, head.uri.path());
    }
    let mut answer = made(Arc::clone(desk), path, given, form).await;
    if !desk.safety.has_session(&head.headers)
        && let Ok(cookie) = HeaderValue::from_str(&desk.safety.cookie())
    {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    answer
}

/// The page, made on a thread where nobody waits.
async fn made(desk: Arc<Desk>, path: Vec<String>, given: Given, form: Option<Given>) -> Answer {
    let runtime = Handle::current();
    let place = Arc::clone(&desk);
    let _place = place.places.acquire().await;
    let asked = move || runtime.block_on(pages::answer(Asked { desk: &desk, path, given, form }));
    match spawn_blocking(asked).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::error!(%error, "a page of the console could not be made");
            answer::plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                "The page could not be made: the log has the cause.",
            )
        }
    }
}

fn refused(refusal: Refusal, method: &Method, path: &str) -> Answer {
    tracing::warn!(%method, path, ?refusal, "the console refused a request");
    let status = match refusal {
        Refusal::Host => StatusCode::MISDIRECTED_REQUEST,
        Refusal::Site | Refusal::Token => StatusCode::FORBIDDEN,
    };
    answer::plain(status, refusal.text())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn who_takes_nothing_of_what_is_sent_is_given_up() {
        let (here, _there) = tokio::io::duplex(64);
        let mut sending = Reading { stream: here, pause_max: Duration::from_millis(20), pause: None };
        let sent = timeout(Duration::from_secs(30), sending.write_all(&[0; 1000])).await;
        assert_eq!(
            sent.expect("it does not wait").expect_err("nobody reads").kind(),
            io::ErrorKind::TimedOut
        );
    }
}
