//! `larder console`: look at what a store keeps, and work with it, in a browser.
//!
//! The same pages that `larder serve` opens beside its endpoint; this one is for any store. It prints one line to stdout,
//! `the console is on http://ADDRESS`, once it can be opened.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use larder::{Address, Store};
use larder_console::{Console as Pages, Error, Options, SchemaFile, Schemas, ServedRequest};
use larder_engine::Engine;
use larder_engine::ops::{DescribeTable, ListTables, UnitKind};
use larder_model::metrics::Exposition;
use larder_server::{Asked, Guests, Requests};

use super::{plan, serve};
use crate::data::{self, chosen::Place};
use crate::{held, project, terminal};

/// Where a console is, unless told otherwise.
pub(super) const PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8001);

/// Look at what is kept, and work with it, in a browser
///
/// Records with their types, states and checks where a schema knows them; tables as they are where none does. On AWS nothing
/// can be changed unless --write is given.
#[derive(Debug, Args)]
pub(crate) struct Console {
    #[command(flatten)]
    place: Place,
    /// Schemas: a file, or a directory of them [default: schemas, where it exists]
    #[arg(long, value_name = "DIR|FILE")]
    schema: Vec<PathBuf>,
    /// Where to listen, on loopback [default: 127.0.0.1:8001, or another port if that is taken]
    #[arg(long, value_name = "ADDRESS", value_parser = serve::address)]
    address: Option<SocketAddr>,
    /// Change nothing
    #[arg(long)]
    read_only: bool,
    /// Allow changes on AWS too
    #[arg(long, conflicts_with = "read_only")]
    write: bool,
}

impl Console {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let store = &self.place.store;
        data::check_there(store)?;
        let read_only = self.read_only || (is_aws(store) && !self.write);
        plan::runtime()?.block_on(async {
            let shutdown =
                serve::shutdown_signal().map_err(|error| format!("cannot watch signals: {error}"))?;
            let opened = held::open(store).await.map_err(|error| plan::advise(store, &error))?;
            let pages =
                open_somewhere(self.address, &opened, files(self.schema.clone()), read_only, |told| {
                    eprintln!("larder: {told}; --address chooses");
                })?;
            terminal::print(&format!("the console is on {}\n", pages.url()))?;
            pages.run(shutdown).await;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Whether a store is, or may be, the real thing: by no endpoint at all, or by one of AWS.
fn is_aws(store: &Address) -> bool {
    let Address::DynamoDb { endpoint } = store else { return false };
    let Some(endpoint) = endpoint else { return true };
    let rest = endpoint.split_once("://").map_or(endpoint.as_str(), |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let host = host.split(':').next().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    ["amazonaws.com", "amazonaws.com.cn", "api.aws"].iter().any(|of_aws| {
        host.strip_suffix(of_aws).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

/// Opens a console where it was asked for, or else where it is usual, or else where there is room.
pub(super) fn open_somewhere(
    asked: Option<SocketAddr>,
    store: &Store,
    schemas: impl Fn() -> Vec<SchemaFile> + Clone + Send + Sync + 'static,
    read_only: bool,
    tell: impl FnOnce(String),
) -> Result<Pages, String> {
    let open = |address| {
        let options = Options { read_only, ..Options::at(address) };
        open(store.clone(), Box::new(schemas.clone()), options)
    };
    if let Some(address) = asked {
        return open(address).map_err(|error| advise(&error));
    }
    match open(PORT) {
        Err(error) if is_taken(&error) => {
            tell(format!("another program has port {}, so the console takes another", PORT.port()));
            open(SocketAddr::new(PORT.ip(), 0)).map_err(|error| advise(&error))
        }
        opened => opened.map_err(|error| advise(&error)),
    }
}

pub(super) fn open(store: Store, schemas: Schemas, options: Options) -> Result<Pages, Error> {
    Pages::bind(store, schemas, Options { environment: project::environment(), ..options })
}

/// The console of a server that asks for keys, which asks for them too.
pub(super) async fn open_asking(
    guests: Guests,
    beside: &Store,
    schemas: Schemas,
    options: Options,
) -> Result<Pages, Error> {
    let options = Options { environment: project::environment(), ..options };
    Pages::asking(guests, beside, schemas, options).await
}

/// What a server was asked, as the console shows it.
pub(super) fn requests(kept: Arc<Requests>) -> impl Fn() -> Vec<ServedRequest> + Send + Sync + 'static {
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
pub(super) fn metrics(engine: &Engine) -> String {
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

pub(super) fn is_taken(error: &Error) -> bool {
    matches!(error, Error::Listen { cause, .. } if cause.kind() == io::ErrorKind::AddrInUse)
}

pub(super) fn advise(error: &Error) -> String {
    match error {
        Error::Listen { address, .. } if is_taken(error) => format!(
            "the console cannot listen on {address}: another program already does; stop it, or choose another port"
        ),
        other => other.to_string(),
    }
}

/// The schemas that are meant, read anew each time: those that were named, or those of `schemas/`.
pub(super) fn files(named: Vec<PathBuf>) -> impl Fn() -> Vec<SchemaFile> + Clone + Send + Sync + 'static {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aws_is_known_by_its_names() {
        for (place, aws) in [
            ("dynamodb:", true),
            ("dynamodb:https://dynamodb.us-east-1.amazonaws.com", true),
            ("dynamodb:https://DynamoDB.eu-central-1.AmazonAWS.com.:443/", true),
            ("dynamodb:https://dynamodb.cn-north-1.amazonaws.com.cn", true),
            ("dynamodb:https://dynamodb.eu-west-1.api.aws", true),
            ("dynamodb:http://127.0.0.1:8000", false),
            ("dynamodb:http://notamazonaws.com:8000", false),
            ("memory:", false),
        ] {
            let store: Address = place.parse().expect(place);
            assert_eq!(is_aws(&store), aws, "{place}");
        }
    }
}
