//! The least an HTTP endpoint can do for a GetItem: what hyper alone costs.
//!
//! It parses the request, reads no store, and answers one fixed item with the headers DynamoDB's clients
//! look at, checksum included. Runtime and workers are those of Larder's own server, so the distance to it
//! is what Larder itself spends.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpListener;

use crate::workload::Sample;

pub(crate) fn serve(address: SocketAddr) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(accept(address))
}

async fn accept(address: SocketAddr) -> Result<()> {
    let item = serde_json::json!({"Item": Sample { number: 0, version: 0 }.json()});
    let item = Bytes::from(item.to_string());
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let item = item.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, item.clone()));
            // A connection that breaks is the client's business.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(request: Request<Incoming>, item: Bytes) -> Result<Response<Full<Bytes>>, Infallible> {
    let get =
        request.headers().get("x-amz-target").is_some_and(|target| target == "DynamoDB_20120810.GetItem");
    let parsed = match request.into_body().collect().await {
        Ok(body) => serde_json::from_slice::<GetItem>(&body.to_bytes()).ok(),
        Err(_) => None,
    };
    let known = parsed.is_some_and(|get| get.key.values().any(Key::filled) && !get.table_name.is_empty());
    let (status, body) = match (get, known) {
        (true, true) => (StatusCode::OK, item),
        (true, false) => (StatusCode::BAD_REQUEST, Bytes::from_static(b"{}")),
        (false, _) => (StatusCode::OK, Bytes::from_static(b"{}")),
    };
    let checksum = crc32fast::hash(&body);
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
    headers.insert(HeaderName::from_static("x-amz-crc32"), HeaderValue::from(checksum));
    let id = HeaderValue::from_static("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEF");
    headers.insert(HeaderName::from_static("x-amzn-requestid"), id);
    Ok(response)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GetItem {
    table_name: String,
    key: BTreeMap<String, Key>,
}

#[derive(Debug, Deserialize)]
enum Key {
    S(String),
    N(String),
    B(String),
}

impl Key {
    fn filled(&self) -> bool {
        match self {
            Key::S(text) | Key::N(text) | Key::B(text) => !text.is_empty(),
        }
    }
}
