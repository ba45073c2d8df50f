//! What the five example programs share.
//!
//! Each program in `src/bin` keeps the data of one system with `larder`. Where the data comes from is in [`source`]:
//! real sources, read over HTTP. [`origin`] is a server on this machine that stands in for them, with pages of the
//! same shape, so that the programs run without the internet.
//!
//! The schemas are made into types here, because the sources give what the schemas keep.

pub mod origin;
pub mod source;

larder::schema!("schemas/keiba.larder");
larder::schema!("schemas/tdnet.larder");
larder::schema!("schemas/weather.larder");
larder::schema!("schemas/shops.larder");
larder::schema!("schemas/lunch.larder");

use std::error::Error;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use larder::{Address, Store};
use origin::{Manners, Origin};

/// What every program can be told.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Where data is kept: memory:, a directory, or dynamodb:http://127.0.0.1:8000.
    #[arg(long, env = "LARDER_STORE", default_value = "memory:")]
    pub store: Address,
    /// Where data comes from; a server inside this program unless said otherwise.
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// How long the server inside takes to answer.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 20)]
    pub delay: u64,
    /// The share of its requests that fail, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub error_rate: f64,
    /// How many requests it answers in a second.
    #[arg(long, value_name = "COUNT")]
    pub per_second: Option<u32>,
}

impl Options {
    /// Opens the store.
    pub async fn store(&self) -> Result<Store, larder::store::Error> {
        Store::open(&self.store).await
    }

    /// Whether the clock may be moved, because nothing that is kept outlives the program.
    pub fn is_in_memory(&self) -> bool {
        self.store == Address::Memory
    }

    /// Where data comes from: what was said, or else the server inside, which ends when it is dropped.
    pub async fn origin(&self) -> io::Result<(Option<Origin>, String)> {
        if let Some(url) = &self.base_url {
            return Ok((None, url.clone()));
        }
        let delay = Duration::from_millis(self.delay);
        let (error_rate, per_second) = (self.error_rate, self.per_second);
        let manners = Manners { delay, error_rate, per_second, ..Manners::default() };
        let origin = Origin::start(manners).await?;
        let url = origin.url();
        Ok((Some(origin), url))
    }
}

/// Ends a program: what went wrong is told in words.
pub fn end(outcome: Result<(), Box<dyn Error>>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
