//! The least an HTTP endpoint can do: what hyper alone costs a GetItem, and hyper and a log a write.
//!
//! For a GetItem it parses the request, reads no store, and answers one fixed item with the headers DynamoDB's clients
//! look at, checksum included. With a log, a write is parsed as Larder parses it and is answered once what it owes is on
//! disk, appended and synced with all that wait (`log.rs`): no old item is read and no tree is kept. Runtime and workers
//! are those of Larder's own server, so the distance to it is what Larder itself spends.

mod log;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use larder_engine::ops::{BatchWrite, Request as Operation};
use larder_engine::{item_bytes, key_bytes};
use larder_model::Item;
use serde::Deserialize;
use tokio::net::TcpListener;

use crate::workload::Sample;
use log::GroupLog;

pub(crate) fn serve(address: SocketAddr, log: Option<&Path>) -> Result<()> {
    let log = log.map(GroupLog::open).transpose()?.map(Arc::new);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(accept(address, log))
}

async fn accept(address: SocketAddr, log: Option<Arc<GroupLog>>) -> Result<()> {
    let item = Bytes::from(format!(r#"{{"Item":{}}}"#, Sample { number: 0, version: 0 }.json()));
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (item, log) = (item.clone(), log.clone());
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, item.clone(), log.as_deref()));
            // A connection that breaks is the client's business.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    item: Bytes,
    log: Option<&GroupLog>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    const NOTHING: Bytes = Bytes::from_static(b"{}");
    let (head, body) = request.into_parts();
    let target = head.headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    let (status, body) = match (target, log) {
        ("DynamoDB_20120810.GetItem", _) => match serde_json::from_slice::<GetItem>(&body) {
            Ok(get) if get.key.values().any(Key::filled) && !get.table_name.is_empty() => {
                (StatusCode::OK, item)
            }
            _ => (StatusCode::BAD_REQUEST, NOTHING),
        },
        ("DynamoDB_20120810.PutItem" | "DynamoDB_20120810.BatchWriteItem", Some(log)) => {
            match written(target, &body) {
                Some(record) if log.append(&record).await => (StatusCode::OK, NOTHING),
                _ => (StatusCode::BAD_REQUEST, NOTHING),
            }
        }
        _ => (StatusCode::OK, NOTHING),
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

/// What a write owes the disk: each item twice, as itself and in its index.
fn written(target: &str, body: &[u8]) -> Option<Vec<u8>> {
    let mut record = Vec::with_capacity(1024);
    let mut owe = |item: &Item| {
        let bytes = item_bytes::encode_sized(item, item.size());
        for names in [&["pk", "sk"][..], &["group", "at", "pk", "sk"]] {
            let start = record.len();
            record.extend_from_slice(&[0; 8]);
            for key in names.iter().filter_map(|name| item.get(name)) {
                key_bytes::put(&mut record, key);
            }
            record.extend_from_slice(&bytes);
            let length = (record.len() - start) as u64;
            record[start..start + 8].copy_from_slice(&length.to_le_bytes());
        }
    };
    match larder_wire::decode(target, body).ok()? {
        Operation::PutItem(put) => owe(&put.item),
        Operation::BatchWriteItem(batch) => {
            for write in batch.tables.iter().flat_map(|(_, writes)| writes) {
                match write {
                    BatchWrite::Put(item) | BatchWrite::Delete(item) => owe(item),
                }
            }
        }
        _ => return None,
    }
    Some(record)
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
