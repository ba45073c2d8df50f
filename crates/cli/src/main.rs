//! The `larder` command. One file per subcommand, in `commands/`.

mod commands;
mod history;
mod project;
mod terminal;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing::level_filters::LevelFilter;

const EXIT_CODES: &str = "\
Exit codes:
  0  it is done, and all is well
  1  it found something wrong, or could not be done; the text says which
  2  the arguments were not understood
  3  `larder drift`: what is deployed is not what the schemas say";

/// Schemas that say what is kept, and a store that behaves as DynamoDB does, on your own disk.
#[derive(Debug, Parser)]
#[command(name = "larder", version, after_help = EXIT_CODES)]
struct Arguments {
    /// What to log to stderr: off, error, warn, info, debug or trace.
    #[arg(long, global = true, env = "LARDER_LOG", default_value = "warn", value_name = "LEVEL")]
    log: LevelFilter,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(commands::init::Init),
    Check(commands::check::Check),
    Fmt(commands::fmt::Fmt),
    Docs(commands::docs::Docs),
    Schema(commands::schema::Schema),
    Explain(commands::explain::Explain),
    Lsp(commands::lsp::Lsp),
    Plan(commands::plan::Plan),
    Apply(commands::apply::Apply),
    Drift(commands::drift::Drift),
    Serve(commands::serve::Serve),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(arguments.log).init();
    let done = match arguments.command {
        Command::Init(init) => init.run(),
        Command::Check(check) => check.run(),
        Command::Fmt(fmt) => fmt.run(),
        Command::Docs(docs) => docs.run(),
        Command::Schema(schema) => schema.run(),
        Command::Explain(explain) => explain.run(),
        Command::Lsp(lsp) => lsp.run(),
        Command::Plan(plan) => plan.run(),
        Command::Apply(apply) => apply.run(),
        Command::Drift(drift) => drift.run(),
        Command::Serve(serve) => serve.run().map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(code) => code,
        Err(message) => {
            eprintln!("larder: {message}");
            ExitCode::FAILURE
        }
    }
}
