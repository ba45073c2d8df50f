//! The `larder` command. One file per subcommand, in `commands/`. It is a library so that Python's package brings it too.

#![cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "what the tools alone ask of a command"))]

mod commands;
mod data;
mod held;
mod history;
mod http;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use larder_serve::{Arguments, log_to_stderr, project};
use tracing::level_filters::LevelFilter;

#[derive(Debug, Subcommand)]
enum Command {
    Init(commands::init::Init),
    Import(commands::import::Import),
    Check(commands::check::Check),
    Fmt(commands::fmt::Fmt),
    Docs(commands::docs::Docs),
    Schema(commands::schema::Schema),
    Explain(commands::explain::Explain),
    Lsp(commands::lsp::Lsp),
    #[cfg(feature = "mcp")]
    Mcp(commands::mcp::Mcp),
    Plan(commands::plan::Plan),
    Apply(commands::apply::Apply),
    Migrate(commands::migrate::Migrate),
    Drift(commands::drift::Drift),
    Doctor(commands::doctor::Doctor),
    Stats(commands::stats::Stats),
    Cost(commands::cost::Cost),
    Review(commands::review::Review),
    Export(commands::export::Export),
    Get(commands::get::Get),
    Put(commands::put::Put),
    Query(commands::query::Query),
    Scan(commands::scan::Scan),
    Sql(commands::sql::Sql),
    Watch(commands::watch::Watch),
    Rm(commands::rm::Rm),
    Collection(commands::collection::Collection),
    Invalidate(commands::invalidate::Invalidate),
    Sweep(commands::sweep::Sweep),
    Dump(commands::dump::Dump),
    Load(commands::load::Load),
    Seed(commands::seed::Seed),
    Due(commands::due::Due),
    Stuck(commands::stuck::Stuck),
    Release(commands::release::Release),
    Transition(commands::transition::Transition),
    Serve(commands::serve::Serve),
    Health(commands::health::Health),
    Access(commands::access::AccessCommand),
    Console(commands::console::Console),
    Backup(commands::backup::Backup),
    Restore(commands::restore::Restore),
    Verify(commands::verify::Verify),
    Salvage(commands::salvage::Salvage),
    Rekey(commands::rekey::Rekey),
    Upgrade(commands::upgrade::Upgrade),
    Demo(commands::demo::Demo),
    Bench(commands::bench::Bench),
    Completions(commands::completions::Completions),
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    larder_serve::main(command)
}

/// Runs a command: the program's name, then its arguments.
pub fn run(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> ExitCode {
    larder_serve::run(arguments.into_iter().map(Into::into).collect(), command)
}

fn command(arguments: Vec<OsString>) -> Result<ExitCode, String> {
    let arguments = Arguments::<Command>::parse_from(arguments);
    // What fails in the demo's world is part of the show; the others tell of a store that fails, and of what cannot be
    // read, themselves.
    let tells = matches!(
        arguments.command,
        Command::Demo(_)
            | Command::Get(_)
            | Command::Watch(_)
            | Command::Query(_)
            | Command::Scan(_)
            | Command::Due(_)
            | Command::Stuck(_)
    );
    let unheard = tells && arguments.log == LevelFilter::WARN;
    let log = if unheard { LevelFilter::ERROR } else { arguments.log };
    log_to_stderr(log);
    match arguments.command {
        Command::Init(init) => init.run(),
        Command::Import(import) => import.run(),
        Command::Check(check) => check.run(),
        Command::Fmt(fmt) => fmt.run(),
        Command::Docs(docs) => docs.run(),
        Command::Schema(schema) => schema.run(),
        Command::Explain(explain) => explain.run(),
        Command::Lsp(lsp) => lsp.run(),
        #[cfg(feature = "mcp")]
        Command::Mcp(mcp) => mcp.run(),
        Command::Plan(plan) => plan.run(),
        Command::Apply(apply) => apply.run(),
        Command::Migrate(migrate) => migrate.run(),
        Command::Drift(drift) => drift.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Stats(stats) => stats.run(),
        Command::Cost(cost) => cost.run(),
        Command::Review(review) => review.run(),
        Command::Export(export) => export.run(),
        Command::Get(get) => get.run(),
        Command::Put(put) => put.run(),
        Command::Query(query) => query.run(),
        Command::Scan(scan) => scan.run(),
        Command::Sql(sql) => sql.run(),
        Command::Watch(watch) => watch.run(),
        Command::Rm(rm) => rm.run(),
        Command::Collection(collection) => collection.run(),
        Command::Invalidate(invalidate) => invalidate.run(),
        Command::Sweep(sweep) => sweep.run(),
        Command::Dump(dump) => dump.run(),
        Command::Load(load) => load.run(),
        Command::Seed(seed) => seed.run(),
        Command::Due(due) => due.run(),
        Command::Stuck(stuck) => stuck.run(),
        Command::Release(release) => release.run(),
        Command::Transition(transition) => transition.run(),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
        Command::Verify(verify) => verify.run(),
        Command::Salvage(salvage) => salvage.run(),
        Command::Rekey(rekey) => rekey.run(),
        Command::Upgrade(upgrade) => upgrade.run(),
        Command::Serve(serve) => serve.run().map(|()| ExitCode::SUCCESS),
        Command::Health(health) => health.run(),
        Command::Access(access) => access.run(),
        Command::Console(console) => console.run(),
        Command::Demo(demo) => demo.run(),
        Command::Bench(bench) => bench.run(),
        Command::Completions(completions) => completions.run(),
    }
}
