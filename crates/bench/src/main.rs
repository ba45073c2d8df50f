//! Larder beside the other local DynamoDBs, on the same work, in the same run.
//!
//! `cargo run --profile dist -p larder-bench` fetches the peers, measures them in turn and prints one table of what was
//! measured and one of what Larder must reach. It is its own load generator and its own bare server: those
//! run as further processes of this binary.

mod bare;
mod door;
mod embedded;
mod guard;
mod http;
mod job;
mod layer;
mod load;
mod package;
mod peer;
mod plan;
mod process;
mod recovery;
mod report;
mod results;
mod run;
mod scale;
mod subject;
mod sustained;
mod tables;
mod targets;
mod workload;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use crate::embedded::Engine;
use crate::peer::Peer;
use crate::plan::Plan;
use crate::recovery::Sizes;
use crate::workload::Op;

/// Measures Larder beside DynamoDB Local, dynoxide and dynalite.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    process: Option<Process>,
    /// Seconds instead of minutes: small tables, fewer connections, one round
    #[arg(long)]
    quick: bool,
    /// Only these operations
    #[arg(long, value_delimiter = ',')]
    only: Vec<Op>,
    /// Only these peers
    #[arg(long, value_delimiter = ',')]
    peers: Vec<Peer>,
    /// How long each measurement takes
    #[arg(long, value_parser = positive)]
    seconds: Option<f64>,
    /// How often everything is measured; the median counts
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: Option<u8>,
    /// Also write every round of every measurement to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fail when a required ratio is missed or could not be measured
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Subcommand)]
enum Process {
    /// Measures the data layer beside the cache crate, the engine and the SDK
    Layer {
        /// How often everything is measured; the median counts
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..))]
        rounds: u8,
        /// How long each measurement takes
        #[arg(long, default_value_t = 1.0, value_parser = positive)]
        seconds: f64,
    },
    /// Measures what the change log, recovery, expiry and encryption cost, and how fast a table is restored
    Recovery {
        /// How often everything is measured; the median counts
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..))]
        rounds: u8,
        /// How long each measurement takes
        #[arg(long, default_value_t = 3.0, value_parser = positive)]
        seconds: f64,
        /// Small tables and one short round, as a check that it runs
        #[arg(long)]
        quick: bool,
    },
    /// Measures what ten thousand tables cost: making, describing and listing them, and a server that has them
    Tables {
        /// Few tables, as a check that it runs
        #[arg(long)]
        quick: bool,
    },
    /// Measures what signatures and TLS cost a GetItem
    Door {
        /// How often everything is measured; the median counts
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..))]
        rounds: u8,
        /// How long each measurement takes
        #[arg(long, default_value_t = 3.0, value_parser = positive)]
        seconds: f64,
        /// Also an earlier state, whose `larder` is in this directory
        #[arg(long, value_name = "DIRECTORY")]
        before: Option<PathBuf>,
        /// Few items and one short round, as a check that it runs
        #[arg(long)]
        quick: bool,
        /// Fail when a bar is missed; of a short round none are looked at
        #[arg(long, conflicts_with = "quick")]
        check: bool,
    },
    /// Measures what `serve --schema` costs a PutItem
    Guard {
        /// How often everything is measured; the median counts
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..))]
        rounds: u8,
        /// How long each measurement takes
        #[arg(long, default_value_t = 10.0, value_parser = positive)]
        seconds: f64,
        /// Few items and one short round, as a check that it runs
        #[arg(long)]
        quick: bool,
    },
    /// Measures what lasts: each operation for a minute, keys spread over all items, beside the bare limits and rivals
    Sustained {
        /// How many items the table has, ascending; by default a million, then ten million
        #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
        items: Vec<u64>,
        /// How long each measurement takes; 60 by default
        #[arg(long, value_parser = positive)]
        seconds: Option<f64>,
        /// Only these: larder, dynoxide, dynamodb-local, bare, bare-log, bare-redb
        #[arg(long, value_delimiter = ',')]
        peers: Vec<Peer>,
        /// Also compare with an earlier state, whose `larder` and `larder-bench` are in this directory
        #[arg(long, value_name = "DIRECTORY")]
        before: Option<PathBuf>,
        /// Few items and short, as a check that it runs
        #[arg(long)]
        quick: bool,
        /// Also write everything that was measured to this file
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Fail when a bar is missed or could not be measured
        #[arg(long)]
        check: bool,
    },
    /// Simulates the layer on many processes and one table: what it asks of the table as it grows
    Scale {
        /// Where random numbers begin
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Few processes and a short time, as a check that it runs
        #[arg(long)]
        quick: bool,
        /// Only these parts
        #[arg(long, value_delimiter = ',')]
        only: Vec<scale::Part>,
        /// At most so many workers
        #[arg(long, default_value_t = 1000)]
        workers: usize,
        /// Also draw the figures into this directory, as SVG
        #[arg(long, value_name = "DIRECTORY")]
        out: Option<PathBuf>,
    },
    /// The load generator, driven by the bench
    #[command(hide = true)]
    Load {
        #[arg(long)]
        server: SocketAddr,
    },
    /// A store in process, driven by the bench
    #[command(hide = true)]
    Embedded {
        #[arg(long)]
        engine: Engine,
        #[arg(long)]
        data: PathBuf,
    },
    /// A bare HTTP server that answers every GetItem with the same item, and a write once a log has it
    Bare {
        #[arg(long)]
        address: SocketAddr,
        #[arg(long)]
        log: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    raise_file_limit();
    let arguments = Arguments::parse();
    let done = match &arguments.process {
        Some(Process::Layer { rounds, seconds }) => layer::run(usize::from(*rounds), *seconds).map(|()| true),
        Some(Process::Recovery { quick: true, .. }) => recovery::run(Sizes::quick()).map(|()| true),
        Some(Process::Recovery { rounds, seconds, quick: false }) => {
            let sizes = Sizes::full(usize::from(*rounds), Duration::from_secs_f64(*seconds));
            recovery::run(sizes).map(|()| true)
        }
        Some(Process::Tables { quick }) => {
            tables::run(if *quick { tables::Sizes::quick() } else { tables::Sizes::full() }).map(|()| true)
        }
        Some(Process::Door { quick: true, before, .. }) => {
            door::run(door::Sizes::quick(), before.as_deref()).map(|_| true)
        }
        Some(Process::Door { rounds, seconds, before, quick: false, check }) => {
            let sizes = door::Sizes::full(usize::from(*rounds), *seconds);
            door::run(sizes, before.as_deref()).map(|reached| reached || !check)
        }
        Some(Process::Guard { quick: true, .. }) => guard::run(guard::Sizes::quick()).map(|()| true),
        Some(Process::Guard { rounds, seconds, quick: false }) => {
            guard::run(guard::Sizes::full(usize::from(*rounds), *seconds)).map(|()| true)
        }
        Some(Process::Sustained { items, seconds, peers, before, quick, json, check }) => {
            let mut plan = if *quick { sustained::Plan::quick() } else { sustained::Plan::full() };
            if !peers.is_empty() {
                plan.peers.retain(|peer| peers.contains(peer));
            }
            plan.seconds = seconds.unwrap_or(plan.seconds);
            plan.before = before.clone();
            let plan = if items.is_empty() { Ok(plan) } else { plan.of_items(items.clone()) };
            plan.and_then(|plan| until_interrupted(sustained::run(&plan, json.as_deref())))
                .map(|reached| reached || !check)
        }
        Some(Process::Scale { seed, quick, only, workers, out }) => {
            let plan = if *quick { scale::Plan::quick() } else { scale::Plan::full() };
            scale::run(&plan.only(only, *workers), *seed, out.as_deref()).map(|()| true)
        }
        Some(Process::Load { server }) => load::serve(*server).map(|()| true),
        Some(Process::Embedded { engine, data }) => embedded::serve(*engine, data).map(|()| true),
        Some(Process::Bare { address, log }) => bare::serve(*address, log.as_deref()).map(|()| true),
        None => bench(arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("larder-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs and prints; says whether what was to be checked holds.
fn bench(arguments: Arguments) -> Result<bool> {
    let mut plan = if arguments.quick { Plan::quick() } else { Plan::full() };
    if !arguments.only.is_empty() {
        plan.ops.retain(|op| arguments.only.contains(op));
    }
    if !arguments.peers.is_empty() {
        plan.peers.retain(|peer| arguments.peers.contains(peer));
    }
    plan.seconds = arguments.seconds.unwrap_or(plan.seconds);
    plan.rounds = arguments.rounds.map_or(plan.rounds, usize::from);

    let results = until_interrupted(run::run(&plan))?;
    let targets = targets::targets(&plan, &results);
    print!("{}", report::render(&plan, &results, &targets));
    if let Some(file) = arguments.json {
        let text = serde_json::to_string_pretty(&results)?;
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let missed = targets.iter().any(|target| target.met() == Some(false));
    Ok(!(arguments.check && missed))
}

/// Whichever comes first, dropping the run ends its processes and removes its files.
fn until_interrupted<T>(run: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminated = signal(SignalKind::terminate())?;
        tokio::select! {
            outcome = run => outcome,
            _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
            _ = terminated.recv() => anyhow::bail!("terminated"),
        }
    })
}

/// Each connection is an open file, and the usual limit is about a thousand. Servers started from here inherit it.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Refused, the run goes on, and the connections that fail are counted as errors.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 600.0 => Ok(seconds),
        _ => Err("a number of seconds above 0, up to 600".to_owned()),
    }
}
