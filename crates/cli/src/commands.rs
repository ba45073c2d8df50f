//! The subcommands. Each runs to its end and returns what a person should read when it fails.
//!
//! Those that judge return an exit code: what they found is already told, and is no failure of their own.

pub(crate) mod apply;
pub(crate) mod check;
pub(crate) mod docs;
pub(crate) mod drift;
pub(crate) mod due;
pub(crate) mod explain;
pub(crate) mod fmt;
pub(crate) mod get;
pub(crate) mod init;
pub(crate) mod invalidate;
pub(crate) mod lsp;
pub(crate) mod plan;
pub(crate) mod put;
pub(crate) mod query;
pub(crate) mod release;
pub(crate) mod rm;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod stuck;
pub(crate) mod sweep;
