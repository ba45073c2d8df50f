//! `larder bench rate`: how many requests a second a store takes before it gives up.
//!
//! Requests are sent at a rate whether or not those before them are answered, as clients do that know nothing of each
//! other, and each is timed from the moment it was due. The rate is doubled while it holds; then the border between
//! what held and what did not is halved a few times.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use larder::store::ops::{GetItem, ReturnCapacity};
use larder::{Error, Store};
use larder_examples::lunch::{self, LunchSystem};
use larder_model::Item;
use larder_schema::cost::{read_halves, write_units};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::lunch::menu;
use super::timing::{Times, millis};
use super::{Options, Outcome, environment};
use crate::commands::plan;
use crate::data::table;

const MENUS: i64 = 50;
const YEAR: i64 = 2025;
/// How often the border is halved.
const HALVINGS: u32 = 3;

const ABOUT: &str = "\
A rate holds when every request is answered and 99 of 100 come in time. Each is
timed from when it was due, so a queue that grows shows as time. The sender is
this process: what it cannot send, no store can answer.
";

/// Find the rate at which a store gives up, by requests that do not wait for each other
#[derive(Debug, Args)]
pub(super) struct Rate {
    #[command(flatten)]
    pub(super) options: Options,
    /// Requests a second to begin with
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    from: u32,
    /// Go no further than this
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..))]
    most: u32,
    /// How long each rate lasts
    #[arg(long = "for", value_name = "DURATION", default_value = "1s", value_parser = humantime::parse_duration)]
    time: Duration,
    /// A rate holds while 99 of 100 answers come within this
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = humantime::parse_duration)]
    slow: Duration,
    /// So many of a hundred requests are writes
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=100))]
    writes: u32,
    /// Say where a provisioned capacity gives up, such as 25/5 (read and write units)
    #[arg(long, value_name = "READ/WRITE", value_parser = capacity)]
    capacity: Option<(u32, u32)>,
}

/// What became of one rate.
struct Step {
    rate: u32,
    times: Times,
    failed: usize,
    /// Why the first that failed did.
    cause: Option<String>,
    holds: bool,
}

impl Step {
    fn verdict(&self, slow: Duration) -> String {
        match &self.cause {
            Some(cause) => format!("{} failed: {cause}", self.failed),
            None if self.holds => "holds".to_owned(),
            None => format!("P99 is over {}", humantime::format_duration(slow)),
        }
    }
}

impl Rate {
    pub(super) fn measure(&self) -> Result<Outcome, String> {
        plan::runtime()?.block_on(async {
            let (store, _directory) = self.options.open(lunch::schema()).await?;
            let measured = self.steps(store).await;
            let (steps, bytes) = measured.map_err(|error| error.to_string())?;
            Ok(self.outcome(&steps, bytes))
        })
    }

    /// The rates in the order they were tried, and the bytes of an item.
    async fn steps(&self, store: Store) -> Result<(Vec<Step>, u64), Error> {
        let lunch = LunchSystem::open_with(store, environment()).await?;
        let keys = || (1..=MENUS).map(|week| ("restaurant".to_owned(), YEAR, week));
        let menus = keys().map(|(name, year, week)| menu(&name, year, week));
        lunch.menus().put_many(menus).await.into_iter().try_for_each(|put| put.map(drop))?;
        let (table, region) = super::tables(lunch.schema()).remove(0);
        let store = lunch.store().at(region.as_deref());
        let mut reads = Vec::new();
        for key in keys() {
            let key = lunch.menus().stored_key((&*key.0, key.1, key.2))?;
            let capacity = ReturnCapacity::None;
            reads.push(GetItem { table: table.clone(), key, projection: None, consistent: false, capacity });
        }
        let first = store.get_item(reads[0].clone()).await?;
        let bytes = first.as_ref().map_or(0, Item::size) as u64;
        let work = Arc::new(Work { lunch: lunch.clone(), store, reads, writes: self.writes });
        let steps = self.climb(&work).await;
        let gone = lunch.menus().delete_many(keys()).await;
        gone.into_iter().try_for_each(|(_, gone)| gone)?;
        Ok((steps, bytes))
    }

    async fn climb(&self, work: &Arc<Work>) -> Vec<Step> {
        let mut steps = Vec::new();
        let (mut held, mut lost, mut rate) = (None, None, self.from.min(self.most));
        for _ in 0..u32::BITS + HALVINGS {
            let step = self.step(work, rate).await;
            let border = if step.holds { &mut held } else { &mut lost };
            *border = Some(rate);
            steps.push(step);
            rate = match (held, lost) {
                (Some(held), None) if held < self.most => held.saturating_mul(2).min(self.most),
                (Some(held), Some(lost)) if lost - held > held >> HALVINGS => held + (lost - held) / 2,
                _ => break,
            };
        }
        steps
    }

    /// Sends at one rate for a while.
    async fn step(&self, work: &Arc<Work>, rate: u32) -> Step {
        let started = Instant::now();
        let count = (f64::from(rate) * self.time.as_secs_f64()).ceil().max(1.0) as u32;
        let mut running = JoinSet::new();
        for at in 0..count {
            let due = started + Duration::from_secs_f64(f64::from(at) / f64::from(rate));
            tokio::time::sleep_until(due).await;
            let work = Arc::clone(work);
            running.spawn(async move {
                let outcome = work.request(at).await;
                (due.elapsed(), outcome.err())
            });
        }
        let (mut times, mut failed, mut cause) = (Vec::new(), 0, None);
        while let Some(done) = running.join_next().await {
            let Ok((took, error)) = done else { continue };
            times.push(took);
            if let Some(error) = error {
                failed += 1;
                cause.get_or_insert(error.to_string());
            }
        }
        let times = Times::new(times, started.elapsed());
        let holds = failed == 0 && times.figures()[2] <= self.slow.as_secs_f64() * 1000.0;
        Step { rate, times, failed, cause, holds }
    }

    fn outcome(&self, steps: &[Step], bytes: u64) -> Outcome {
        let names = ["requests a second", "sent", "P50", "P99", ""].map(str::to_owned);
        let rows = steps.iter().map(|step| {
            let [p50, _, p99, _] = step.times.figures();
            let sent = step.times.count().to_string();
            vec![step.rate.to_string(), sent, millis(p50), millis(p99), step.verdict(self.slow)]
        });
        let held = steps.iter().filter(|step| step.holds).map(|step| step.rate).max();
        let lost = steps.iter().filter(|step| !step.holds).min_by_key(|step| step.rate);
        let writes = self.writes;
        let mut text = format!(
            "menus of {bytes} bytes on {}, {writes} of 100 requests are writes\n\n{}\n",
            self.options.place(),
            table(&names, rows.collect())
        );
        text.push_str(&match (held, lost) {
            (Some(held), Some(lost)) => {
                format!(
                    "It holds {held} requests a second, and gives up at {}: {}.\n",
                    lost.rate,
                    lost.verdict(self.slow)
                )
            }
            (Some(held), None) => {
                format!("It holds {held} requests a second; --most ends the search there.\n")
            }
            (None, Some(lost)) => {
                format!("It gives up at {}: {}. Try --from less.\n", lost.rate, lost.verdict(self.slow))
            }
            (None, None) => String::new(),
        });
        let provisioned = self.capacity.map(|units| provisioned(units, bytes, writes));
        if let (Some((rate, first)), Some((read, write))) = (provisioned, self.capacity) {
            text.push_str(&format!(
                "A table provisioned {read} / {write} gives up at {rate:.1} requests a second: {first} units run out first.\n"
            ));
        }
        text.push_str(&format!("\n{ABOUT}"));
        let json_steps = steps.iter().map(|step| {
            json!({"rate": step.rate, "sent": step.times.count(), "failed": step.failed, "cause": step.cause, "holds": step.holds, "ours": step.times.json()})
        });
        let json = json!({
            "store": self.options.place(),
            "item_bytes": bytes,
            "writes_percent": writes,
            "steps": json_steps.collect::<Vec<_>>(),
            "holds": held,
            "gives_up": lost.map(|lost| json!({"rate": lost.rate, "why": lost.verdict(self.slow)})),
            "provisioned_gives_up": provisioned.map(|(rate, first)| json!({"rate": rate, "first": first})),
        });
        Outcome { text, json, faults: Vec::new() }
    }
}

/// What requests are made of.
struct Work {
    lunch: LunchSystem,
    store: Store,
    reads: Vec<GetItem>,
    writes: u32,
}

impl Work {
    /// Reads past L1, which would answer for any store.
    async fn request(&self, at: u32) -> Result<(), Error> {
        let menu_at = i64::from(at) % MENUS;
        if at % 100 < self.writes {
            return self.lunch.menus().put(menu("restaurant", YEAR, menu_at + 1)).await.map(drop);
        }
        let read = self.reads[usize::try_from(menu_at).unwrap_or(0)].clone();
        match self.store.get_item(read).await? {
            Some(_) => Ok(()),
            None => {
                Err(Error::Missing { entity: "Menu".to_owned(), key: "a menu that was written".to_owned() })
            }
        }
    }
}

/// The rate at which a provisioned table runs out of units, and of which kind. An index has units of its own.
fn provisioned((read, write): (u32, u32), bytes: u64, writes: u32) -> (f64, &'static str) {
    let share = f64::from(writes) / 100.0;
    let rate = |units: u32, each: f64, share: f64| {
        if share > 0.0 { f64::from(units) / (each * share) } else { f64::INFINITY }
    };
    let reads = rate(read, read_halves(bytes, false) as f64 / 2.0, 1.0 - share);
    let writes = rate(write, write_units(bytes) as f64, share);
    if writes < reads { (writes, "write") } else { (reads, "read") }
}

fn capacity(text: &str) -> Result<(u32, u32), String> {
    let units = text
        .split_once('/')
        .and_then(|(read, write)| Some((read.trim().parse().ok()?, write.trim().parse().ok()?)));
    units
        .filter(|(read, write)| *read > 0 && *write > 0)
        .ok_or_else(|| "read and write units are wanted, such as 25/5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provisioned_capacity_gives_up_where_the_first_kind_of_unit_runs_out() {
        // 2 KB are half a read unit and two write units.
        assert_eq!(provisioned((25, 5), 2000, 10), (25.0, "write"));
        assert_eq!(provisioned((5, 100), 2000, 50), (20.0, "read"));
        assert_eq!(provisioned((10, 1), 2000, 0), (20.0, "read"));
    }

    #[test]
    fn a_capacity_is_two_numbers() {
        assert_eq!(capacity("25/5"), Ok((25, 5)));
        for text in ["25", "0/5", "a/b", "/"] {
            assert!(capacity(text).is_err(), "{text}");
        }
    }
}
