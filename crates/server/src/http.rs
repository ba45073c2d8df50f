//! DynamoDB's protocol as HTTP: routes, sizes, headers.
//!
//! An operation is a `POST /` that names itself in `X-Amz-Target`. Everything else is answered as AWS does:
//! `GET /` says that the service is healthy, any other method, path or content type gets a 404 of one XML line, and a body over
//! 16 MiB, packed or unpacked, an empty 413. Before all of it `door.rs` looks at the host that a request names and at the web
//! page it comes from: AWS lets every page in, and we those that were declared.
//!
//! `x-amz-crc32` is of the body as sent, so of the packed bytes when the answer is packed: SDKs check it
//! before they unpack.
//!
//! What is set aside for a body as it arrives is counted against the memory for requests, and one that stops arriving, or
//! never begins to, is given up. A request takes nothing of that memory before its body comes: headers alone keep nobody else out.
//!
//! `GET /metrics`, `/healthz` and `/readyz` are ours; `metrics.rs` says what they tell. So is `POST /_larder/backup`
//! (`backup.rs`).

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::str;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    HeaderValue, ORIGIN, SERVER, VARY,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use larder_model::limits::REQUEST_BODY_BYTES_MAX;
use larder_model::{ApiError, Clock};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use crate::access::{BACKUP, CLOCK, Gate, METRICS};
use crate::admin::{self, Admin};
use crate::backup::{self, Backups, Streamed};
use crate::budget::{self, Budget, SMALL_BYTES, Share};
use crate::connections::{Life, Peer, Working};
use crate::door::{self, Door};
use crate::encoding::Encoding;
use crate::metrics::Metrics;
use crate::panics::{Caught, caught};
use crate::pipeline::{Answered, Call, Pipeline, Refused, Sender};
use crate::request_id::RequestIds;

/// Our own: asks a scan or a query to leave out what is damaged, and says how much that was.
const X_LARDER_SKIP_DAMAGED: HeaderName = HeaderName::from_static("x-larder-skip-damaged");
const X_LARDER_SKIPPED: HeaderName = HeaderName::from_static("x-larder-skipped");
const X_AMZ_TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const X_AMZ_CRC32: HeaderName = HeaderName::from_static("x-amz-crc32");
const X_AMZN_REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");

const PRODUCT: HeaderValue = HeaderValue::from_static(concat!("larder/", env!("CARGO_PKG_VERSION")));
const AMZ_JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const METRICS_TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const EXPOSED: HeaderValue = HeaderValue::from_static("x-amzn-requestid,x-amz-crc32");
const PREFLIGHT_SECONDS: HeaderValue = HeaderValue::from_static("172800");
const BY_ORIGIN: HeaderValue = HeaderValue::from_static("origin");

/// What AWS takes of request line and headers.
const HEAD_BYTES_MAX: usize = 16 * 1024;

const NOT_FOUND: &[u8] = b"<UnknownOperationException/>\n";

/// What is read of an oversized body before the answer, so that a client still sending it sees the answer
/// rather than a broken connection.
const DISCARDED_BYTES_MAX: u64 = 4 * REQUEST_BODY_BYTES_MAX as u64;

/// How long a body may pause, and how long it may take to begin.
const BODY_PAUSE_MAX: Duration =
    if cfg!(test) { Duration::from_millis(300) } else { Duration::from_secs(10) };
/// How slow a body may be, once it has had that long.
const BODY_BYTES_PER_SECOND_MIN: u64 = 16 * 1024;
/// What is read of a body before others have their turn.
const TURN_BYTES: usize = 256 * 1024;

pub(crate) type Answer = Response<Sent>;
/// What answers are made of.
pub(crate) type Sent = Either<Full<Bytes>, Streamed>;

/// Everything a request needs. One for all connections.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pipeline: Pipeline,
    gate: Arc<Gate>,
    door: Door,
    /// Where it listens.
    bound: IpAddr,
    /// On memory servers alone.
    admin: Option<Admin>,
    backups: Backups,
    clock: Clock,
    pub(crate) metrics: Metrics,
    budget: Arc<Budget>,
    request_ids: RequestIds,
}

impl Endpoint {
    /// What to do when there are as many connections as there may be.
    pub(crate) const CROWDED: &'static str = "--connections and --memory-limit set how many";

    /// Answers one request; fails only when the client is gone.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        peer: Peer,
        life: &Arc<Life>,
    ) -> Result<Answer, hyper::Error> {
        let mut answer = self.respond(request, peer, &life.working).await?;
        // An answer that is sent as it is made may take long; each part of it is a sign of life.
        if let Either::Right(streamed) = answer.body_mut() {
            let life = Arc::clone(life);
            streamed.on_each(move || life.sign());
        }
        Ok(answer)
    }

    /// Told of every connection, and of its end.
    pub(crate) fn count(&self, opened: bool) {
        let connections = &self.metrics.connections;
        if opened {
            connections.fetch_add(1, Ordering::Relaxed);
        } else {
            connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn new(
        pipeline: Pipeline,
        gate: Arc<Gate>,
        (door, bound): (Door, IpAddr),
        admin: Option<Admin>,
        clock: Clock,
        metrics: Metrics,
        budget: Arc<Budget>,
    ) -> Self {
        let backups = Backups::new(metrics.store());
        Self {
            pipeline,
            gate,
            door,
            bound,
            admin,
            backups,
            clock,
            metrics,
            budget,
            request_ids: RequestIds::new(),
        }
    }

    /// Answers one request. Fails only when the client is gone. `working` is one higher while the request is
    /// carried out, its body being here.
    pub(crate) async fn respond(
        &self,
        request: Request<Incoming>,
        peer: Peer,
        working: &AtomicUsize,
    ) -> Result<Answer, hyper::Error> {
        let (head, body) = request.into_parts();
        let (mut answer, page) = match self.door.check(&head, self.bound) {
            _ if head_bytes(&head) > HEAD_BYTES_MAX => {
                let mut answer = plain(StatusCode::BAD_REQUEST, Bytes::new());
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                (answer, None)
            }
            Err(refusal) => {
                self.gate.note_turned_away(peer, &refusal);
                (turned_away(&refusal, &head.headers), None)
            }
            Ok(page) => match caught(pin!(self.route(&head, body, peer, working))).await {
                Ok(answer) => (answer?, page),
                Err(Caught { place, cause }) => {
                    let target = text(&head.headers, &X_AMZ_TARGET);
                    tracing::error!(target, place, cause, "the handler of a request panicked");
                    (refused(&ApiError::Internal { cause }, AMZ_JSON, &head.headers), page)
                }
            },
        };
        let headers = answer.headers_mut();
        headers.insert(X_AMZN_REQUEST_ID, self.request_ids.next());
        headers.insert(SERVER, PRODUCT);
        if let Some(origin) = page {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
            headers.insert(VARY, BY_ORIGIN);
        }
        Ok(answer)
    }

    async fn route(
        &self,
        head: &Parts,
        body: Incoming,
        peer: Peer,
        working: &AtomicUsize,
    ) -> Result<Answer, hyper::Error> {
        // What is asked for rarely is boxed: an operation would carry the room for it from hand to hand.
        Ok(match (&head.method, head.uri.path()) {
            (&Method::POST, "/") => self.operation(head, body, peer, working).await?,
            // The space at the end is AWS's.
            (&Method::GET, "/") => plain(StatusCode::OK, format!("healthy: {} ", host(head)).into()),
            (&Method::GET, "/metrics") => Box::pin(self.metrics(head, peer)).await,
            (&Method::GET, "/healthz") => plain(StatusCode::OK, Bytes::from_static(b"ok\n")),
            (&Method::GET, "/readyz") => self.ready(),
            (&Method::OPTIONS, "/") if head.headers.contains_key(ORIGIN) => preflight(&head.headers),
            (&Method::POST, admin::CLOCK_PATH) => Box::pin(self.clock_call(head, body, peer)).await?,
            (&Method::POST, backup::PATH) => Box::pin(self.backup(head, body, peer)).await?,
            _ => not_found(),
        })
    }

    async fn operation(
        &self,
        head: &Parts,
        body: Incoming,
        peer: Peer,
        working: &AtomicUsize,
    ) -> Result<Answer, hyper::Error> {
        let (body, mut share) = match whole(body, &self.budget).await? {
            Gathered::Whole(body, share) => (body, share),
            Gathered::Refused(refusal) => return Ok(refusal.answer(&head.headers)),
        };
        let Some(content_type) = content_type(&head.headers, body.is_empty()) else { return Ok(not_found()) };
        let skip_damaged = text(&head.headers, &X_LARDER_SKIP_DAMAGED).eq_ignore_ascii_case("true");
        let target = text(&head.headers, &X_AMZ_TARGET);
        let call = Call {
            sender: Sender::Signed(head, peer),
            target,
            host: host(head),
            encoding: text(&head.headers, &CONTENT_ENCODING),
            skip_damaged,
            body,
            share: &mut share,
        };
        let at_work = Working::on(working);
        let handled = self.pipeline.answer(call, self.clock.trusted()).await;
        drop(at_work);
        Ok(match handled {
            Ok(Answered { body, skipped }) => {
                let mut answer = json(StatusCode::OK, content_type, body, &head.headers);
                for name in &skipped {
                    tracing::warn!(target, name, "left out of an answer, because it is damaged");
                }
                if skip_damaged {
                    answer.headers_mut().insert(X_LARDER_SKIPPED, skipped.len().into());
                }
                held(answer, share)
            }
            Err(Refused::Stranger(stranger)) => {
                // Nothing is held for them meanwhile, and they are no reason to keep their connection.
                drop(share);
                refused(&stranger.kept_waiting().await, content_type, &head.headers)
            }
            Err(Refused::TooLarge) => too_large(),
            Err(Refused::Error(error)) => {
                if let ApiError::Internal { cause } = &error {
                    tracing::error!(target, cause, "a request failed");
                }
                refused(&error, content_type, &head.headers)
            }
        })
    }

    /// Whether what is no operation of DynamoDB's may be done: whoever is known, and whose policies allow it.
    async fn admitted(
        &self,
        head: &Parts,
        body: &Bytes,
        peer: Peer,
        action: &'static str,
    ) -> Result<(), ApiError> {
        let access = self.gate.access();
        match self.gate.authenticate(access.as_deref(), head, body, peer) {
            Ok(visitor) => self.gate.authorize_action(&visitor, action),
            Err(stranger) => Err(stranger.kept_waiting().await),
        }
    }

    async fn metrics(&self, head: &Parts, peer: Peer) -> Answer {
        let asked = &head.headers;
        // Names of tables are in there. What collects it on this machine cannot sign; a page or a proxy is not that.
        let is_collector = peer.address.ip().to_canonical().is_loopback()
            && ![ORIGIN.as_str(), "forwarded", "x-forwarded-for", "via"]
                .iter()
                .any(|name| asked.contains_key(*name));
        if !is_collector && let Err(error) = self.admitted(head, &Bytes::new(), peer, METRICS).await {
            return refused(&error, JSON, asked);
        }
        match self.metrics.text() {
            Ok(text) => json(StatusCode::OK, METRICS_TEXT, text.into_bytes(), asked),
            Err(error) => unavailable(&error.to_string()),
        }
    }

    fn ready(&self) -> Answer {
        match self.metrics.ready() {
            Ok(()) => plain(StatusCode::OK, Bytes::from_static(b"ok\n")),
            Err(reason) => unavailable(&reason),
        }
    }

    async fn backup(&self, head: &Parts, body: Incoming, peer: Peer) -> Result<Answer, hyper::Error> {
        if !Backups::may_ask(&head.headers) {
            return Ok(not_found());
        }
        let (known, _share) = match whole(body, &self.budget).await? {
            Gathered::Whole(known, share) => (known, share),
            Gathered::Refused(refusal) => return Ok(refusal.answer(&head.headers)),
        };
        if let Err(error) = self.admitted(head, &known, peer, BACKUP).await {
            return Ok(refused(&error, JSON, &head.headers));
        }
        let skip_damage = head.uri.query() == Some("skip-damage");
        Ok(match self.backups.send(known, skip_damage, self.clock.trusted()) {
            Some(streamed) => Response::new(Either::Right(streamed)),
            None => unavailable("another backup is being made"),
        })
    }

    async fn clock_call(&self, head: &Parts, body: Incoming, peer: Peer) -> Result<Answer, hyper::Error> {
        let Some(admin) = &self.admin else { return Ok(not_found()) };
        // A web page can post a form to any address, but not this type without leave.
        if head.headers.get(CONTENT_TYPE) != Some(&JSON) {
            return Ok(not_found());
        }
        let (body, _share) = match whole(body, &self.budget).await? {
            Gathered::Whole(body, share) => (body, share),
            Gathered::Refused(refusal) => return Ok(refusal.answer(&head.headers)),
        };
        if let Err(error) = self.admitted(head, &body, peer, CLOCK).await {
            return Ok(refused(&error, JSON, &head.headers));
        }
        Ok(match admin.move_clock(&body).await {
            Ok(answer) => json(StatusCode::OK, JSON, answer, &head.headers),
            Err(message) => {
                let answer = serde_json::json!({ "message": message }).to_string().into_bytes();
                json(StatusCode::BAD_REQUEST, JSON, answer, &head.headers)
            }
        })
    }
}

/// The type of the answer: the request's own. `None` when the request is not of this protocol.
fn content_type(headers: &HeaderMap, body_is_empty: bool) -> Option<HeaderValue> {
    let Some(header) = headers.get(CONTENT_TYPE) else { return body_is_empty.then_some(JSON) };
    if header == AMZ_JSON {
        return Some(AMZ_JSON);
    }
    let name = header.to_str().ok()?.split(';').next()?.trim();
    if name.eq_ignore_ascii_case("application/x-amz-json-1.0") {
        Some(AMZ_JSON)
    } else if name.eq_ignore_ascii_case("application/json") {
        Some(JSON)
    } else {
        None
    }
}

/// A body, once it has been read or given up.
enum Gathered {
    /// And what its request has of the memory for requests.
    Whole(Bytes, Share),
    Refused(Refusal),
}

#[derive(Clone, Copy)]
enum Refusal {
    TooLarge,
    /// Other requests take the memory.
    NoRoom,
    TooSlow,
}

impl Refusal {
    fn answer(self, asked: &HeaderMap) -> Answer {
        match self {
            Self::TooLarge => too_large(),
            Self::NoRoom => throttled(asked),
            Self::TooSlow => {
                let mut answer = plain(StatusCode::REQUEST_TIMEOUT, Bytes::new());
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                answer
            }
        }
    }
}

async fn whole(mut body: Incoming, budget: &Arc<Budget>) -> Result<Gathered, hyper::Error> {
    if body.size_hint().lower() > DISCARDED_BYTES_MAX {
        return Ok(Gathered::Refused(Refusal::TooLarge));
    }
    let Some(first) = next_in_time(&mut body).await else { return Ok(Gathered::Refused(Refusal::TooSlow)) };
    let first = first?.unwrap_or_default();
    // Nearly always the body is one frame, and is used where it lies.
    if body.is_end_stream() && first.len() <= SMALL_BYTES {
        return Ok(admitted(first, budget.outside()));
    }
    let (mut share, mut gathered, mut frame) = (budget.outside(), Vec::new(), Some(first));
    let (start, mut turn) = (Instant::now(), Turn::default());
    while let Some(data) = frame {
        let length = gathered.len() + data.len();
        // What is set aside counts, not what has come; it grows by a quarter at a time.
        let room = if length <= gathered.capacity() { gathered.capacity() } else { length + length / 4 };
        let refusal = if length > REQUEST_BODY_BYTES_MAX {
            Some(Refusal::TooLarge)
        } else {
            share.grow_to(room).err().map(|budget::Full| Refusal::NoRoom)
        };
        if let Some(refusal) = refusal {
            drop((gathered, data, share));
            discard(body).await?;
            return Ok(Gathered::Refused(refusal));
        }
        gathered.reserve_exact(room - gathered.len());
        gathered.extend_from_slice(&data);
        turn.give_way(data.len()).await;
        frame = match next_in_time(&mut body).await {
            Some(frame) if frame.is_err() || keeps_pace(start.elapsed(), length) => frame?,
            _ => return Ok(Gathered::Refused(Refusal::TooSlow)),
        };
    }
    Ok(admitted(gathered.into(), share))
}

/// The body is here: its request has what every request has, if there is room.
fn admitted(body: Bytes, mut share: Share) -> Gathered {
    match share.admit() {
        Ok(()) => Gathered::Whole(body, share),
        Err(budget::Full) => Gathered::Refused(Refusal::NoRoom),
    }
}

fn keeps_pace(time: Duration, bytes: usize) -> bool {
    time <= BODY_PAUSE_MAX || bytes as u64 >= BODY_BYTES_PER_SECOND_MIN * time.as_secs()
}

/// How far the reading of a large body has come since another request was let go first. While its bytes arrive faster
/// than they are read, nothing else would be.
#[derive(Default)]
struct Turn(usize);

impl Turn {
    async fn give_way(&mut self, bytes: usize) {
        self.0 += bytes;
        if self.0 >= TURN_BYTES {
            self.0 = 0;
            yield_now().await;
        }
    }
}

/// The next bytes of the body. Trailers are passed over.
async fn next(body: &mut Incoming) -> Result<Option<Bytes>, hyper::Error> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// The same; none if they do not come in time.
async fn next_in_time(body: &mut Incoming) -> Option<Result<Option<Bytes>, hyper::Error>> {
    let mut next = pin!(next(body));
    // Nearly always they are here already, and need no timer.
    match poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await {
        Poll::Ready(frame) => Some(frame),
        Poll::Pending => timeout(BODY_PAUSE_MAX, next).await.ok(),
    }
}

/// Reads on without keeping anything, for as long as that is bearable.
async fn discard(mut body: Incoming) -> Result<(), hyper::Error> {
    let (mut discarded, mut turn) = (0, Turn::default());
    while let Some(frame) = next_in_time(&mut body).await {
        let Some(data) = frame? else { break };
        discarded += data.len() as u64;
        turn.give_way(data.len()).await;
        if discarded > DISCARDED_BYTES_MAX {
            break;
        }
    }
    Ok(())
}

/// What the request line and the headers take.
fn head_bytes(head: &Parts) -> usize {
    let line = head.uri.path_and_query().map_or(0, |address| address.as_str().len());
    line + head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>()
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| str::from_utf8(value.as_bytes()).ok()).unwrap_or_default()
}

/// The host and port the client used, which HTTP/2 has in the address rather than a header.
fn host(head: &Parts) -> &str {
    match head.uri.authority() {
        Some(authority) => authority.as_str(),
        None => text(&head.headers, &HOST),
    }
}

/// The answer to what the door does not let in.
fn turned_away(refusal: &door::Refusal, asked: &HeaderMap) -> Answer {
    let error = ApiError::NotLetIn { code: "AccessDeniedException", message: refusal.to_string() };
    // A browser shows this type, and would save the other.
    let mut answer = refused(&error, JSON, asked);
    *answer.status_mut() = match refusal {
        door::Refusal::NoHost => StatusCode::BAD_REQUEST,
        door::Refusal::Host(_) | door::Refusal::Origin(_) | door::Refusal::NoOrigin => StatusCode::FORBIDDEN,
    };
    answer
}

fn throttled(asked: &HeaderMap) -> Answer {
    refused(&ApiError::Throttled, content_type(asked, true).unwrap_or(AMZ_JSON), asked)
}

/// The answer, which keeps its share of the memory until it is sent. A small one has been counted long enough.
fn held(answer: Answer, mut share: Share) -> Answer {
    let (head, body) = answer.into_parts();
    let Either::Left(body) = body else { return Response::from_parts(head, body) };
    let mut bytes = body.into_inner().unwrap_or_default();
    if bytes.len() > SMALL_BYTES {
        share.set(bytes.len());
        bytes = Bytes::from_owner(Held { bytes, _share: share });
    }
    Response::from_parts(head, Either::Left(Full::new(bytes)))
}

struct Held {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn refused(error: &ApiError, content_type: HeaderValue, asked: &HeaderMap) -> Answer {
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json(status, content_type, larder_wire::encode_error(error), asked)
}

fn json(status: StatusCode, content_type: HeaderValue, body: Vec<u8>, asked: &HeaderMap) -> Answer {
    let encoding = Encoding::accepted(text(asked, &ACCEPT_ENCODING), body.len());
    let body = match encoding {
        Some(encoding) => encoding.pack(&body),
        None => body,
    };
    let mut answer = plain(status, body.into());
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    if let Some(encoding) = encoding {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.name()));
    }
    answer
}

fn plain(status: StatusCode, body: Bytes) -> Answer {
    let checksum = crc32fast::hash(&body);
    let mut answer = Response::new(Either::Left(Full::new(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(X_AMZ_CRC32, checksum.into());
    answer
}

fn unavailable(reason: &str) -> Answer {
    plain(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n").into())
}

fn not_found() -> Answer {
    plain(StatusCode::NOT_FOUND, Bytes::from_static(NOT_FOUND))
}

fn too_large() -> Answer {
    plain(StatusCode::PAYLOAD_TOO_LARGE, Bytes::new())
}

/// Permission for a page that was declared to send what its browser asks to send.
fn preflight(asked: &HeaderMap) -> Answer {
    let mut answer = plain(StatusCode::OK, Bytes::new());
    let headers = answer.headers_mut();
    headers.insert(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS);
    for (question, permission) in [
        (ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_ALLOW_HEADERS),
        (ACCESS_CONTROL_REQUEST_METHOD, ACCESS_CONTROL_ALLOW_METHODS),
    ] {
        if let Some(value) = asked.get(question) {
            headers.insert(permission, value.clone());
        }
    }
    answer
}

#[cfg(test)]
mod tests;
