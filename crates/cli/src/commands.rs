//! The subcommands. Each runs to its end and returns what a person should read when it fails.

pub(crate) mod serve;
