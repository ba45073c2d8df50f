//! What is sent back: a page, a file, or another place to go to.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use larder_server::Life;
use maud::Markup;

use crate::address::Url;

pub(crate) type Answer = Response<Full<Bytes>>;

/// How much of an answer is handed over at a time.
const PART_BYTES: usize = 64 << 10;

/// The bytes of an answer on their way. Each part that is taken is a sign of life of its connection, so that a long file arrives
/// over a slow line.
#[derive(Debug)]
pub(crate) struct Sent {
    rest: Bytes,
    life: Arc<Life>,
}

impl Sent {
    pub(crate) fn new(body: Full<Bytes>, life: Arc<Life>) -> Self {
        Self { rest: body.into_inner().unwrap_or_default(), life }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        self.life.sign();
        let most = self.rest.len().min(PART_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(most)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

/// Styles and scripts are files of ours; nothing on a page is either.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub(crate) fn page(status: StatusCode, markup: Markup) -> Answer {
    with(status, "text/html; charset=utf-8", markup.into_string().into())
}

pub(crate) fn plain(status: StatusCode, text: &'static str) -> Answer {
    with(status, "text/plain; charset=utf-8", text.into())
}

/// What is wrong, where a file was wanted.
pub(crate) fn told(status: StatusCode, text: String) -> Answer {
    with(status, "text/plain; charset=utf-8", text.into())
}

/// What the script asked for.
pub(crate) fn json(value: &serde_json::Value) -> Answer {
    with(StatusCode::OK, "application/json", value.to_string().into())
}

/// A style or a script. Its address changes with its content.
pub(crate) fn asset(kind: &'static str, text: &'static str) -> Answer {
    let mut answer = with(StatusCode::OK, kind, text.into());
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    answer.headers_mut().insert(CACHE_CONTROL, forever);
    answer
}

/// A file to keep.
pub(crate) fn download(name: &str, kind: &'static str, body: Vec<u8>) -> Answer {
    let mut answer = with(StatusCode::OK, kind, body.into());
    let safe: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '_' })
        .collect();
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{safe}\"")) {
        answer.headers_mut().insert(CONTENT_DISPOSITION, value);
    }
    answer
}

/// After a change, another page.
pub(crate) fn go_to(url: &Url) -> Answer {
    let mut answer = with(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", Bytes::new());
    if let Ok(value) = HeaderValue::from_str(&url.to_string()) {
        answer.headers_mut().insert(LOCATION, value);
    }
    answer
}

fn with(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // `no-referrer` would take the origin from our own forms too.
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}
