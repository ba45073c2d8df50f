//! `larder seed`: sample records, made from the schema and put like any others.
//!
//! The same seed makes the same records, so running it twice leaves as many. Nothing is written unless all of them
//! could be made.

use std::process::ExitCode;

use clap::Args;
use larder::{Error, Fields};
use larder_schema::Sampler;

use super::plan;
use crate::data::chosen::{Place, Systems, chosen};
use crate::data::{Kind, told};
use crate::{held, terminal};

const BATCH_RECORDS_MAX: usize = 100;

/// Make valid sample records from a schema, and put them
///
/// Values look like what their names say, pass all checks, and are the same for the same --seed. Lifecycles are in
/// their first state.
#[derive(Debug, Args)]
pub(crate) struct Seed {
    /// Systems or entities, such as shops or shops.Shop
    #[arg(value_name = "SYSTEM|SYSTEM.ENTITY", required = true)]
    names: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// How many of each entity
    #[arg(long, value_name = "N", default_value_t = 100)]
    count: usize,
    /// Another number makes other records
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print them, one JSON object a line, and put nothing; `larder load --entity` takes them
    #[arg(long)]
    print: bool,
}

impl Seed {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let mut made = Vec::new();
        for chosen in chosen(&self.names)? {
            for kind in chosen.kinds()? {
                let records = self.samples(&kind)?;
                made.push((kind, records));
            }
        }
        if self.print {
            for (kind, records) in &made {
                if made.len() > 1 {
                    eprintln!("{}.{}:", kind.schema.system, kind.entity().name);
                }
                let lines = records.iter().map(|fields| format!("{}\n", kind.json(fields)));
                terminal::print(&lines.collect::<String>())?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let put = plan::runtime()?.block_on(self.put(&made));
        let refused = put.map_err(|error| told(&self.place.store, &error))?;
        Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn samples(&self, kind: &Kind) -> Result<Vec<Fields>, String> {
        let entity = &kind.entity().name;
        let mut sampler = Sampler::new(&kind.schema, entity, self.seed).expect("the schema has it");
        let records = (0..self.count).map(|_| sampler.sample());
        let wrong = |error| format!("{}.{error}; nothing was put", kind.schema.system);
        records.collect::<Result<_, _>>().map_err(wrong)
    }

    /// How many were refused. They are told.
    async fn put(&self, made: &[(Kind, Vec<Fields>)]) -> Result<usize, Error> {
        let mut systems = Systems::on(held::open(&self.place.store).await?);
        let mut refused = 0;
        for (kind, records) in made {
            let name = format!("{}.{}", kind.schema.system, kind.entity().name);
            let system = systems.with(&kind.schema).await?;
            let shelf = system.entries(&kind.entity().name).expect("the schema has it");
            let bar = terminal::progress(Some(records.len() as u64), name.clone());
            let mut written = 0;
            for batch in records.chunks(BATCH_RECORDS_MAX) {
                for outcome in shelf.put_many(batch.to_vec()).await {
                    match outcome {
                        Ok(_) => written += 1,
                        Err(error @ Error::Store(_)) => return Err(error),
                        Err(error) => {
                            refused += 1;
                            bar.suspend(|| eprintln!("larder: {error}"));
                        }
                    }
                }
                bar.inc(batch.len() as u64);
            }
            bar.finish_and_clear();
            // A reader that has left is no reason to stop.
            let _ = terminal::print(&format!("{} of {name}\n", terminal::count(written, "record")));
        }
        Ok(refused)
    }
}
