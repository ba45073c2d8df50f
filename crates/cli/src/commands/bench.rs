//! `larder bench`: the measurements that the systems' own documents describe, on any store.
//!
//! Ours are printed beside theirs, with what each of them measures. Counts are checked: a run whose hits, misses and
//! calls do not add up fails.
//!
//! Tables are those of the stage `bench`, so that no other data is touched, and what is written is removed at the
//! end. Outside the embedded store they are made only with `--yes`, because there they cost money.

mod lunch;
mod rate;
mod timing;
mod weather;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use larder::{Address, Environment, Schema, Store, System};
use serde_json::Value as Json;
use tempfile::TempDir;

use super::plan;
use crate::{held, terminal};

/// How long an answer takes is what is measured, so that nobody goes on without it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measure what the systems' documents measure, beside their figures
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Weather(weather::Weather),
    Lunch(lunch::Lunch),
    Rate(rate::Rate),
}

/// Where to measure, and how to tell.
#[derive(Debug, Args)]
struct Options {
    /// A directory, memory:, dynamodb: (AWS) or dynamodb:http://HOST:PORT [default: a temporary directory]
    #[arg(long, value_name = "STORE")]
    store: Option<Address>,
    /// Make the tables that are missing, where they may cost money
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was measured: for people, for programs, and what does not add up.
struct Outcome {
    text: String,
    json: Json,
    faults: Vec<String>,
}

impl Bench {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let (outcome, json) = match &self.what {
            What::Weather(weather) => (weather.measure(), weather.options.json),
            What::Lunch(lunch) => (lunch.measure(), lunch.options.json),
            What::Rate(rate) => (rate.measure(), rate.options.json),
        };
        let outcome = outcome?;
        let text = if json { format!("{:#}\n", outcome.json) } else { outcome.text };
        terminal::print(&text)?;
        for fault in &outcome.faults {
            eprintln!("larder: it does not add up: {fault}");
        }
        Ok(if outcome.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

impl Options {
    /// The store, opened; the directory goes when the second is dropped.
    async fn open(&self, schema: &Schema) -> Result<(Store, Option<TempDir>), String> {
        let (address, directory) = match &self.store {
            Some(address) => (address.clone(), None),
            None => {
                let made = tempfile::Builder::new().prefix("larder-bench-").tempdir();
                let made = made.map_err(|error| format!("cannot make a temporary directory: {error}"))?;
                (Address::Directory(made.path().to_owned()), Some(made))
            }
        };
        let advise = |error: larder::store::Error| plan::advise(&address, &error);
        let store = held::open(&address).await.map_err(advise)?;
        if !store.is_embedded() {
            let system = System::open_with(schema.clone(), store.clone(), environment());
            let system = system.await.map_err(|error| error.to_string())?;
            for (table, region) in tables(schema) {
                let found = store.at(region.as_deref()).describe(&table).await.map_err(advise)?;
                if found.is_none() && !self.yes {
                    return Err(format!(
                        "there is no table {table} in {address}: --yes makes it, and may cost money"
                    ));
                }
            }
            system.provision().await.map_err(|error| error.to_string())?;
        }
        Ok((store, directory))
    }

    /// Where it is measured, for people.
    fn place(&self) -> String {
        self.store
            .as_ref()
            .map_or_else(|| "an embedded store in a temporary directory".to_owned(), ToString::to_string)
    }
}

/// The stage whose tables are measured.
fn environment() -> Environment {
    Environment::from([("ENVIRONMENT".to_owned(), "bench".to_owned())])
}

fn tables(schema: &Schema) -> Vec<(larder_model::TableName, Option<String>)> {
    let setups = schema.tables(&environment()).unwrap_or_default().into_iter();
    let region = |name: &str| schema.tables.iter().find(|table| table.name == name)?.region.clone();
    setups.map(|setup| (setup.definition.name.clone(), region(&setup.table))).collect()
}
