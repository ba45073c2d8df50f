//! The subcommands. Each runs to its end and returns what a person should read when it fails.
//!
//! Those that judge return an exit code: what they found is already told, and is no failure of their own.

pub(crate) mod access;
pub(crate) mod apply;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod collection;
pub(crate) mod completions;
pub(crate) mod console;
pub(crate) mod cost;
pub(crate) mod demo;
pub(crate) mod docs;
pub(crate) mod doctor;
pub(crate) mod drift;
pub(crate) mod due;
pub(crate) mod dump;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod fmt;
pub(crate) mod get;
pub(crate) mod health;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod invalidate;
pub(crate) mod load;
pub(crate) mod lsp;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
pub(crate) mod migrate;
pub(crate) mod plan;
pub(crate) mod put;
pub(crate) mod query;
pub(crate) mod rekey;
pub(crate) mod release;
pub(crate) mod restore;
pub(crate) mod review;
pub(crate) mod rm;
pub(crate) mod salvage;
pub(crate) mod scan;
pub(crate) mod schema;
pub(crate) mod seed;
pub(crate) mod sql;
pub(crate) mod stats;
pub(crate) mod stuck;
pub(crate) mod sweep;
pub(crate) mod transition;
pub(crate) mod upgrade;
pub(crate) mod verify;
pub(crate) mod watch;

use std::path::Path;

use larder::Address;
use larder_serve::key;
pub(crate) use larder_serve::serve;

/// The directory of a store, for commands that work on its file.
fn directory(address: &Address) -> Result<&Path, String> {
    match address {
        Address::Directory(path) => Ok(path),
        other => Err(format!(
            "{other} is no directory, and this works on a store's own file: name its directory with --store"
        )),
    }
}

/// Opening a store makes one where there is none, which is not for commands that look at one.
fn check_store(directory: &Path) -> Result<(), String> {
    if larder_storage::Store::is_in(directory) {
        return Ok(());
    }
    Err(format!("there is no store in {}: name its directory with --store", directory.display()))
}
