//! `larder console`: look at what a store keeps, and work with it, in a browser.
//!
//! The same pages that `larder serve` opens beside its endpoint; this one is for any store. It prints one line to stdout,
//! `the console is on http://ADDRESS`, once it can be opened.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use larder::{Address, Store};
use larder_console::{Console as Pages, Options, SchemaFile};
pub(super) use larder_serve::console::{PORT, advise, files, is_taken, metrics, open, requests};

use super::{plan, serve};
use crate::data::{self, chosen::Place};
use crate::{held, terminal};

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
