//! `larder bench weather`: a hundred cities, fifty at a time, at three rates of hits.

use std::time::Duration;

use clap::Args;
use larder::Error;
use larder::jiff::Timestamp;
use larder_examples::origin::{Manners, Origin};
use larder_examples::source::openweather::OpenWeather;
use larder_examples::weather::{self, NewForecast, WeatherSystem};
use serde_json::json;

use super::timing::{self, Figures, Times, millis};
use super::{Options, Outcome, PATIENCE, environment};
use crate::commands::plan;
use crate::data::table;

/// The share of hits, and what the document measured: P50, P90, P99, mean.
const SCENARIOS: [(usize, Figures); 3] = [
    (100, [150.0, 180.0, 200.0, 155.0]),
    (50, [200.0, 300.0, 400.0, 225.0]),
    (0, [450.0, 550.0, 650.0, 475.0]),
];

const ABOUT: &str = "\
Ours is from the call of `fetch` to its answer, in this process; what the store
does not hold is asked of a server on this machine that takes as long as
OpenWeather does. Theirs is of a Lambda with 512 MB in sa-east-1, by their
document, with DynamoDB and OpenWeather over the network. Cities, concurrency
and shares of hits are the same, machines and networks are not: compare the
shape, and what a hit saves.
";

/// Fetch the forecasts of 100 cities, 50 at a time, at 100 %, 50 % and 0 % hits
#[derive(Debug, Args)]
pub(super) struct Weather {
    #[command(flatten)]
    pub(super) options: Options,
    /// How many cities there are
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    cities: u32,
    /// How many ask at a time
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrent: u32,
    /// How often each city is asked for, at each rate
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How long the source takes
    #[arg(long, value_name = "DURATION[..DURATION]", default_value = "200ms..500ms", value_parser = delay)]
    origin_delay: (Duration, Duration),
}

/// At least, and at most.
fn delay(text: &str) -> Result<(Duration, Duration), String> {
    let read = |text: &str| humantime::parse_duration(text).map_err(|error| error.to_string());
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let (least, most) = (read(least)?, read(most)?);
    if least <= most { Ok((least, most)) } else { Err("the first is longer than the second".to_owned()) }
}

/// What one rate of hits came to.
struct Scenario {
    percent: usize,
    theirs: Figures,
    times: Times,
    hits: u64,
    misses: u64,
    calls: u64,
    failed: usize,
}

impl Weather {
    pub(super) fn measure(&self) -> Result<Outcome, String> {
        plan::runtime()?.block_on(async {
            let (store, _directory) = self.options.open(weather::schema()).await?;
            let (least, most) = self.origin_delay;
            let manners = Manners { delay: least, spread: most - least, ..Manners::default() };
            let origin =
                Origin::start(manners).await.map_err(|error| format!("cannot start the source: {error}"))?;
            let source = OpenWeather::new(&origin.url(), "none").map_err(|error| error.to_string())?;
            let weather =
                WeatherSystem::open_with(store, environment()).await.map_err(|error| error.to_string())?;
            let run = Run { bench: self, at: weather.now(), weather, source, origin };
            let mut scenarios = Vec::new();
            for (percent, theirs) in SCENARIOS {
                scenarios.push(run.scenario(percent, theirs).await.map_err(|error| error.to_string())?);
            }
            run.clear().await.map_err(|error| error.to_string())?;
            Ok(self.outcome(&scenarios))
        })
    }

    fn outcome(&self, scenarios: &[Scenario]) -> Outcome {
        let names =
            ["hits", "P50", "P90", "P99", "mean", "theirs: P50", "P90", "P99", "mean", "asked", "calls"];
        let rows = scenarios.iter().map(|scenario| {
            let mut row = vec![format!("{} %", scenario.percent)];
            row.extend(scenario.times.figures().map(millis));
            row.extend(scenario.theirs.map(millis));
            row.extend([scenario.times.count().to_string(), scenario.calls.to_string()]);
            row
        });
        let head = format!(
            "{} cities, {} at a time, {} times, on {}\n\n",
            self.cities,
            self.concurrent,
            self.rounds,
            self.options.place()
        );
        let text = format!("{head}{}\n{ABOUT}", table(&names.map(str::to_owned), rows.collect()));
        let json = scenarios.iter().map(|scenario| {
            json!({
                "hit_percent": scenario.percent,
                "requests": scenario.times.count(),
                "hits": scenario.hits,
                "misses": scenario.misses,
                "calls": scenario.calls,
                "failed": scenario.failed,
                "ours": scenario.times.json(),
                "theirs": timing::json(scenario.theirs),
            })
        });
        let json = json!({
            "cities": self.cities,
            "concurrent": self.concurrent,
            "rounds": self.rounds,
            "store": self.options.place(),
            "scenarios": json.collect::<Vec<_>>(),
        });
        Outcome { text, json, faults: scenarios.iter().flat_map(|scenario| self.faults(scenario)).collect() }
    }

    fn faults(&self, scenario: &Scenario) -> Vec<String> {
        let asked = u64::from(self.cities) * u64::from(self.rounds);
        let hits = (0..self.cities as usize).filter(|at| is_kept(*at, scenario.percent)).count() as u64;
        let hits = hits * u64::from(self.rounds);
        let wanted = [
            ("asked", asked, scenario.times.count() as u64),
            ("hits", hits, scenario.hits),
            ("misses", asked - hits, scenario.misses),
            ("calls", asked - hits, scenario.calls),
            ("failures", 0, scenario.failed as u64),
        ];
        let wrong = wanted.into_iter().filter(|(_, wanted, found)| wanted != found);
        let told = wrong.map(|(what, wanted, found)| {
            format!("at {} % hits there are {found} {what}, and not {wanted}", scenario.percent)
        });
        told.collect()
    }
}

/// Whether a city's forecast is there beforehand: that share of the cities, evenly among them.
fn is_kept(city: usize, percent: usize) -> bool {
    (city + 1) * percent / 100 > city * percent / 100
}

/// A place of its own for each city, all over Brazil.
fn city(at: usize) -> (f64, f64) {
    let spread = |share: f64| (at as f64 * share).fract();
    (-33.0 + 35.0 * spread(0.754_877_666_246_693), -70.0 + 35.0 * spread(0.569_840_290_998_053))
}

struct Run<'a> {
    bench: &'a Weather,
    weather: WeatherSystem,
    source: OpenWeather,
    origin: Origin,
    at: Timestamp,
}

impl Run<'_> {
    fn keys(&self) -> impl Iterator<Item = (f64, f64, Timestamp)> {
        (0..self.bench.cities as usize).map(|at| {
            let (lat, lon) = city(at);
            (lat, lon, self.at)
        })
    }

    async fn scenario(&self, percent: usize, theirs: Figures) -> Result<Scenario, Error> {
        let (before, requests) = (self.weather.forecasts().stats(), self.origin.requests());
        let mut times = Times::default();
        let mut failed = 0;
        for _ in 0..self.bench.rounds {
            self.prepare(percent).await?;
            let jobs = self.keys().map(|key| {
                let (weather, source) = (self.weather.clone(), self.source.clone());
                async move {
                    let forecasts = weather.forecasts().loaded_by(source);
                    larder::at_most(PATIENCE, forecasts.fetch(key)).await.is_ok()
                }
            });
            let (more, answered) = timing::all_at_once(jobs, self.bench.concurrent as usize).await;
            times.add(more);
            failed += answered.into_iter().filter(|answered| !answered).count();
            // What is written behind is not to disturb the next round.
            failed += self.weather.close().await.unwritten().len();
        }
        let after = self.weather.forecasts().stats();
        Ok(Scenario {
            percent,
            theirs,
            times,
            hits: after.hits - before.hits,
            misses: after.misses - before.misses,
            calls: self.origin.requests() - requests,
            failed,
        })
    }

    /// Keeps the forecasts of that share of the cities, and no others.
    async fn prepare(&self, percent: usize) -> Result<(), Error> {
        self.clear().await?;
        let kept = self.keys().enumerate().filter(|(at, _)| is_kept(*at, percent));
        let drafts = kept.map(|(_, (lat, lon, at))| NewForecast { lat, lon, at, data: sample(at) });
        self.weather.forecasts().put_many(drafts).await.into_iter().try_for_each(|put| put.map(drop))
    }

    async fn clear(&self) -> Result<(), Error> {
        self.weather.forecasts().delete_many(self.keys()).await.into_iter().try_for_each(|(_, gone)| gone)
    }
}

fn sample(at: Timestamp) -> weather::Weather {
    weather::Weather {
        temperature: 28.31,
        humidity: 65.0,
        wind_speed: 3.4,
        rainfall_intensity: 0.0,
        weather_description: "céu limpo".to_owned(),
        timestamp: larder::jiff::tz::TimeZone::UTC.to_datetime(at),
    }
}
