//! The `larder` command. One file per subcommand, in `commands/`.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing::level_filters::LevelFilter;

/// A store that behaves as DynamoDB does, on your own disk.
#[derive(Debug, Parser)]
#[command(name = "larder", version)]
struct Arguments {
    /// What to log to stderr: off, error, warn, info, debug or trace.
    #[arg(long, global = true, env = "LARDER_LOG", default_value = "warn", value_name = "LEVEL")]
    log: LevelFilter,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(commands::serve::Serve),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(arguments.log).init();
    let done = match arguments.command {
        Command::Serve(serve) => serve.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("larder: {message}");
            ExitCode::FAILURE
        }
    }
}
