//! The console beside a server, and what it is given of that.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use larder::Store;
use larder_console::{Console as Pages, Error, Options, SchemaFile, Schemas, ServedRequest};
use larder_engine::Engine;
use larder_engine::ops::{DescribeTable, ListTables, UnitKind};
use larder_model::metrics::Exposition;
use larder_server::{Asked, Guests, Requests};

use crate::project;

/// Where a console is, unless told otherwise.
pub const PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8001);

pub fn open(store: Store, schemas: Schemas, options: Options) -> Result<Pages, Error> {
    Pages::bind(store, schemas, Options { environment: project::environment(), ..options })
}

/// The console of a server that asks for keys, which asks for them too.
pub async fn open_asking(
    guests: Guests,
    beside: &Store,
    schemas: Schemas,
    options: Options,
) -> Result<Pages, Error> {
    let options = Options { environment: project::environment(), ..options };
    Pages::asking(guests, beside, schemas, options).await
}

/// What a server was asked, as the console shows it.
pub fn requests(kept: Arc<Requests>) -> impl Fn() -> Vec<ServedRequest> + Send + Sync + 'static {
    let served = |asked: Asked| ServedRequest {
        at: asked.at,
        operation: asked.operation.name(),
        table: asked.table,
        tables: asked.tables,
        units: asked.units,
        writes: asked.operation.units() == UnitKind::Write,
        took: asked.took,
        error: asked.error,
    };
    move || kept.last().into_iter().map(served).collect()
}

/// What an engine has counted, for the charts of a console beside it.
pub fn metrics(engine: &Engine) -> String {
    let mut text = Exposition::default();
    // What cannot be told leaves a chart without a point.
    let _ = engine.expose(&mut text);
    if let Ok(activity) = engine.activity() {
        text.gauge("larder_store_live_bytes", "Bytes of all keys and values in the store.")
            .sample(&[], activity.live_bytes);
    }
    if let Ok(tables) = engine.list_tables(&ListTables { start: None, limit: None }) {
        let mut sizes = text.gauge("larder_table_size_bytes", "Bytes of the items of a table.");
        for table in tables.names {
            if let Ok(described) = engine.describe_table(&DescribeTable { table: table.clone() }) {
                sizes.sample(&[("table", table.as_str())], described.bytes);
            }
        }
    }
    text.finish()
}

pub fn is_taken(error: &Error) -> bool {
    matches!(error, Error::Listen { cause, .. } if cause.kind() == io::ErrorKind::AddrInUse)
}

pub fn advise(error: &Error) -> String {
    match error {
        Error::Listen { address, .. } if is_taken(error) => format!(
            "the console cannot listen on {address}: another program already does; stop it, or choose another port"
        ),
        other => other.to_string(),
    }
}

/// The schemas that are meant, read anew each time: those that were named, or those of `schemas/`.
pub fn files(named: Vec<PathBuf>) -> impl Fn() -> Vec<SchemaFile> + Clone + Send + Sync + 'static {
    move || {
        let default = [PathBuf::from("schemas")];
        let paths: &[PathBuf] = match named.as_slice() {
            [] if Path::new("schemas").is_dir() => &default,
            named => named,
        };
        paths.iter().flat_map(|path| files_of(path)).collect()
    }
}

fn files_of(path: &Path) -> Vec<SchemaFile> {
    let read = |path: PathBuf| SchemaFile { loaded: project::load(&path), path };
    if !path.is_dir() {
        return vec![read(path.to_owned())];
    }
    match project::schemas_in(path) {
        Ok(found) => found.into_iter().map(read).collect(),
        // A directory without any is no fault of a console.
        Err(_) if project::in_directory(path).is_ok_and(|found| found.is_empty()) => Vec::new(),
        Err(error) => vec![SchemaFile { path: path.to_owned(), loaded: Err(error) }],
    }
}
