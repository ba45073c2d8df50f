//! `larder serve`, and what it shares with the commands that do not stay: `larder-cli` has those.
//!
//! A crate of its own, because a server stays in memory: what it runs is compiled for that, and commands so that they are
//! compiled soon (`[profile.release]`).

pub mod access_file;
pub mod console;
pub mod project;
pub mod serve;

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use larder_storage::Key;
use tracing::level_filters::LevelFilter;

use crate::serve::Serve;

const EXIT_CODES: &str = "\
Exit codes:
  0  it is done, and all is well
  1  it found something wrong, or could not be done; the text says which
  2  the arguments were not understood
  3  `larder drift`: what is deployed is not what the schemas say; `larder review`: something calls for a decision;
     `larder upgrade --check`: the store is to be converted
  4  `larder get`, `rm`, `release`, `transition`, `collection`: there is no such record";

/// Schemas that say what is kept, and a store that behaves as DynamoDB does, on your own disk.
#[derive(Debug, Parser)]
#[command(name = "larder", version, after_help = EXIT_CODES)]
pub struct Arguments<C: Subcommand> {
    /// What to log to stderr: off, error, warn, info, debug or trace.
    #[arg(long, global = true, env = "LARDER_LOG", default_value = "warn", value_name = "LEVEL")]
    pub log: LevelFilter,
    #[command(subcommand)]
    pub command: C,
}

/// `larder serve` alone. A server stays, and with it the memory that parsing all commands would take.
#[derive(Debug, Subcommand)]
enum Serving {
    Serve(Serve),
}

/// Any other command than `serve`: the program's name, then its arguments.
pub type Others = fn(Vec<OsString>) -> Result<ExitCode, String>;

/// Runs the command that the process was started with.
pub fn main(others: Others) -> ExitCode {
    run(env::args_os().collect(), others)
}

/// Runs a command: the program's name, then its arguments.
pub fn run(arguments: Vec<OsString>, others: Others) -> ExitCode {
    let serves = arguments.get(1).is_some_and(|word| word == "serve");
    match if serves { serve(arguments) } else { others(arguments) } {
        Ok(code) => code,
        Err(message) => {
            eprintln!("larder: {message}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: Vec<OsString>) -> Result<ExitCode, String> {
    larder_heap::bound();
    let Arguments { log, command: Serving::Serve(serve) } = Arguments::parse_from(arguments);
    log_to_stderr(log);
    serve.run().map(|()| ExitCode::SUCCESS)
}

/// What is logged from here on goes to stderr.
pub fn log_to_stderr(level: LevelFilter) {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).init();
}

/// `1 error`, `2 errors`.
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// The key of an encrypted store: in the file that is named, or where the environment says.
pub fn key(file: Option<&Path>) -> Result<Option<Key>, String> {
    let key = match file {
        Some(path) => Key::from_file(path).map(Some),
        None => Key::from_env(),
    };
    key.map_err(|error| error.to_string())
}
