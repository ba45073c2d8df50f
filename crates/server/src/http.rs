//! DynamoDB's protocol as HTTP: routes, sizes, headers.
//!
//! An operation is a `POST /` that names itself in `X-Amz-Target`. Everything else is answered as AWS does:
//! `GET /` says that the service is healthy, a preflight gets its permission, any other method, path or
//! content type gets a 404 of one XML line, and a body over 16 MiB, packed or unpacked, an empty 413.
//!
//! `x-amz-crc32` is of the body as sent, so of the packed bytes when the answer is packed: SDKs check it
//! before they unpack.
//!
//! `GET /metrics`, `/healthz` and `/readyz` are ours; `metrics.rs` says what they tell.

use std::str;

use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    ORIGIN, SERVER,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use larder_model::limits::REQUEST_BODY_BYTES_MAX;
use larder_model::{ApiError, Clock};

use crate::admin::{self, Admin};
use crate::encoding::{Encoding, UnpackError};
use crate::metrics::Metrics;
use crate::pipeline::{Call, Pipeline};
use crate::request_id::RequestIds;

const X_AMZ_TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const X_AMZ_CRC32: HeaderName = HeaderName::from_static("x-amz-crc32");
const X_AMZN_REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");

const PRODUCT: HeaderValue = HeaderValue::from_static(concat!("larder/", env!("CARGO_PKG_VERSION")));
const AMZ_JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const METRICS_TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const ANY: HeaderValue = HeaderValue::from_static("*");
const EXPOSED: HeaderValue = HeaderValue::from_static("x-amzn-requestid,x-amz-crc32");
const PREFLIGHT_SECONDS: HeaderValue = HeaderValue::from_static("172800");

/// The space at the end is AWS's.
const HEALTHY: &[u8] = b"healthy: dynamodb.us-east-1.amazonaws.com ";
const NOT_FOUND: &[u8] = b"<UnknownOperationException/>\n";

/// What is read of an oversized body before the answer, so that a client still sending it sees the answer
/// rather than a broken connection.
const DISCARDED_BYTES_MAX: u64 = 4 * REQUEST_BODY_BYTES_MAX as u64;

type Answer = Response<Full<Bytes>>;

/// Everything a request needs. One for all connections.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pipeline: Pipeline,
    /// On memory servers alone.
    admin: Option<Admin>,
    clock: Clock,
    pub(crate) metrics: Metrics,
    request_ids: RequestIds,
}

impl Endpoint {
    pub(crate) fn new(pipeline: Pipeline, admin: Option<Admin>, clock: Clock, metrics: Metrics) -> Self {
        Self { pipeline, admin, clock, metrics, request_ids: RequestIds::new() }
    }

    /// Answers one request. Fails only when the client is gone.
    pub(crate) async fn respond(&self, request: Request<Incoming>) -> Result<Answer, hyper::Error> {
        let (head, body) = request.into_parts();
        let mut answer = match (&head.method, head.uri.path()) {
            (&Method::POST, "/") => self.operation(&head, body).await?,
            (&Method::GET, "/") => plain(StatusCode::OK, Bytes::from_static(HEALTHY)),
            (&Method::GET, "/metrics") => self.metrics(&head.headers),
            (&Method::GET, "/healthz") => plain(StatusCode::OK, Bytes::from_static(b"ok\n")),
            (&Method::GET, "/readyz") => self.ready(),
            (&Method::OPTIONS, "/") if head.headers.contains_key(ORIGIN) => preflight(&head.headers),
            (&Method::POST, admin::CLOCK_PATH) => self.clock_call(&head, body).await?,
            _ => not_found(),
        };
        let headers = answer.headers_mut();
        headers.insert(X_AMZN_REQUEST_ID, self.request_ids.next());
        headers.insert(SERVER, PRODUCT);
        if head.headers.contains_key(ORIGIN) && head.uri.path() == "/" {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
        Ok(answer)
    }

    async fn operation(&self, head: &Parts, body: Incoming) -> Result<Answer, hyper::Error> {
        let Some(body) = whole(body).await? else { return Ok(too_large()) };
        let Some(content_type) = content_type(&head.headers, body.is_empty()) else { return Ok(not_found()) };
        let body = match unpacked(&head.headers, body) {
            Ok(body) => body,
            Err(Unreadable::TooLarge) => return Ok(too_large()),
            Err(Unreadable::Refused(error)) => return Ok(refused(&error, content_type, &head.headers)),
        };
        let call = Call { target: text(&head.headers, &X_AMZ_TARGET), host: host(head), body: &body };
        Ok(match self.pipeline.handle(call, self.clock.trusted()).await {
            Ok(body) => json(StatusCode::OK, content_type, body, &head.headers),
            Err(error) => {
                if let ApiError::Internal { cause } = &error {
                    tracing::error!(target = call.target, cause, "a request failed");
                }
                refused(&error, content_type, &head.headers)
            }
        })
    }

    fn metrics(&self, asked: &HeaderMap) -> Answer {
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

    async fn clock_call(&self, head: &Parts, body: Incoming) -> Result<Answer, hyper::Error> {
        let Some(admin) = &self.admin else { return Ok(not_found()) };
        // A web page can post a form to any address, but not this type without leave.
        if head.headers.get(CONTENT_TYPE) != Some(&JSON) {
            return Ok(not_found());
        }
        let Some(body) = whole(body).await? else { return Ok(too_large()) };
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

/// The whole body, or `None` when it is over the limit.
async fn whole(mut body: Incoming) -> Result<Option<Bytes>, hyper::Error> {
    let declared = body.size_hint().lower();
    if declared > DISCARDED_BYTES_MAX {
        return Ok(None);
    }
    // Nearly always the body is one frame, and is used where it lies.
    let Some(first) = next(&mut body).await? else { return Ok(Some(Bytes::new())) };
    if body.is_end_stream() && first.len() <= REQUEST_BODY_BYTES_MAX {
        return Ok(Some(first));
    }
    let declared = usize::try_from(declared).unwrap_or(usize::MAX).min(REQUEST_BODY_BYTES_MAX);
    let mut gathered = Vec::with_capacity(declared);
    let mut frame = Some(first);
    while let Some(data) = frame {
        if data.len() > REQUEST_BODY_BYTES_MAX - gathered.len() {
            drop(gathered);
            discard(body).await?;
            return Ok(None);
        }
        gathered.extend_from_slice(&data);
        frame = next(&mut body).await?;
    }
    Ok(Some(gathered.into()))
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

async fn discard(mut body: Incoming) -> Result<(), hyper::Error> {
    let mut discarded = 0;
    while let Some(data) = next(&mut body).await? {
        discarded += data.len() as u64;
        if discarded > DISCARDED_BYTES_MAX {
            break;
        }
    }
    Ok(())
}

enum Unreadable {
    TooLarge,
    Refused(ApiError),
}

fn unpacked(headers: &HeaderMap, body: Bytes) -> Result<Bytes, Unreadable> {
    if !headers.contains_key(CONTENT_ENCODING) {
        return Ok(body);
    }
    let serialization = |message: String| Unreadable::Refused(ApiError::Serialization(message));
    match Encoding::of_content(text(headers, &CONTENT_ENCODING)) {
        Ok(None) => Ok(body),
        Ok(Some(encoding)) => match encoding.unpack(&body, REQUEST_BODY_BYTES_MAX) {
            Ok(body) => Ok(body.into()),
            Err(UnpackError::TooLarge) => Err(Unreadable::TooLarge),
            Err(UnpackError::Damaged) => {
                Err(serialization(format!("The body is not valid {}", encoding.name())))
            }
        },
        Err(unknown) => Err(serialization(format!("Unsupported Content-Encoding: {unknown}"))),
    }
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
    let mut answer = Response::new(Full::new(body));
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

/// Permission for a browser to send what it asks to send.
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
