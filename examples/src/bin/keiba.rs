//! The races of a day, their horses, and a cache in between that lasts a week.
//!
//! Shows read-through: `fetch` looks in the store and then asks netkeiba, once for each key however many ask. The
//! second pass calls nobody. A horse is two records that are written and read together.
//!
//! ```console
//! $ cargo run -p larder-examples --bin keiba
//! $ cargo run -p larder-examples --bin keiba -- --base-url https://race.netkeiba.com \
//!       --horses-url https://db.netkeiba.com --date 2024-05-26
//! ```

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use futures_util::future::join_all;
use larder::Fetched;
use larder::jiff::civil::Date;
use larder_examples::Options;
use larder_examples::keiba::{Keiba, Race};
use larder_examples::source::netkeiba::Netkeiba;

/// Fetches the races of a day through the cache, twice.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Where horses come from, if not from where races do.
    #[arg(long, value_name = "URL")]
    horses_url: Option<String>,
    /// The day of the races.
    #[arg(long, default_value = "2024-05-26")]
    date: Date,
}

#[tokio::main]
async fn main() -> ExitCode {
    larder_examples::end(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let Arguments { options, horses_url, date } = arguments;
    let (_origin, url) = options.origin().await?;
    let netkeiba = Netkeiba::new(&url, horses_url.as_deref().unwrap_or(&url))?;
    let keiba = Keiba::open(options.store().await?).await?;

    let (races, horses) =
        (keiba.races().loaded_by(netkeiba.clone()), keiba.horses().loaded_by(netkeiba.clone()));

    let site = netkeiba.clone();
    let load = move |date| {
        let site = site.clone();
        async move { site.day(date).await }
    };
    let day = keiba.race_days().fetch(date, load).await?;
    println!("{} races on {date}, from {}", day.data.len(), day.origin());

    for pass in ["first", "second"] {
        println!("\n{pass} pass");
        for entry in &day.data {
            print!("  {}  {:>2}R {}  ", entry.race_id, entry.race_number, entry.track_name);
            match races.fetch(&*entry.race_id).await {
                Ok(race) => println!("{}", line(&race)),
                Err(error) if error.is_absent() => println!("not published yet"),
                Err(error) => println!("{error}"),
            }
        }
    }

    // A hundred ask for one horse; netkeiba is called for its two pages, once.
    let Some(entry) = day.data.first() else { return Ok(()) };
    let card = races.fetch(&*entry.race_id).await?;
    let Some(id) = card.data.horses.first().and_then(|horse| horse["horse_id"].as_str()) else {
        return Ok(());
    };
    let before = netkeiba.calls();
    let horses =
        join_all((0..100).map(|_| horses.fetch(id))).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    if let Some(horse) = horses.first()
        && let (Some(parents), Some(results)) = (&horse.parents, &horse.results)
    {
        println!(
            "\nhorse {id}: {} past races, by {} out of {}",
            results.data.results.len(),
            parents.data.sire,
            parents.data.dam
        );
    }
    println!("asked {} times, {} pages read", horses.len(), netkeiba.calls() - before);
    Ok(())
}

fn line(race: &Fetched<Race>) -> String {
    let name = race.data.rest.get("name").and_then(|name| name.as_str()).unwrap_or_default();
    format!("{} horses, from {}, {} old  {name}", race.data.horses.len(), race.origin(), race.age())
}
