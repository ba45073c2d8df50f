//! Workers that fetch, spread over processes: what L1 and flights leave for the table and for the source.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;
use larder::{Entry, Fields, Shelf, Value};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::world::{Asked, shelf, simulate};
use super::{after, percentile};

/// How long a value is fresh; as scale.larder says.
const FRESH: Duration = Duration::from_secs(5);
/// Lives are written in whole seconds.
const SECOND: Duration = Duration::from_secs(1);
/// The pause of a worker between two fetches, on average.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the source takes, at least and at most.
const SOURCE_MILLIS: std::ops::RangeInclusive<u64> = 100..=300;
const SPREAD_KEYS: usize = 200;

#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) caches: usize,
    pub(super) workers: usize,
    /// All ask for one key, instead of one of two hundred.
    pub(super) is_hot: bool,
    pub(super) entity: &'static str,
    pub(super) seconds: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Read {
    pub(super) asked: Asked,
    pub(super) fetches: u64,
    pub(super) failed: u64,
    pub(super) loads: u64,
    /// Loads of a key that somebody was loading, or had loaded so lately that it was fresh.
    pub(super) duplicates: u64,
    /// Of one key, in one time of freshness from its first load on.
    pub(super) loads_of_a_key_max: u64,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
}

/// Where the data comes from, and who asked it for what.
#[derive(Debug, Default)]
struct Origin {
    keys: HashMap<String, Calls>,
    loads: u64,
    duplicates: u64,
    of_a_key_max: u64,
}

#[derive(Debug, Default)]
struct Calls {
    under_way: u64,
    ended: Option<Instant>,
    /// When a load began that was no duplicate, and how many there were since.
    window: Option<Instant>,
    in_window: u64,
}

impl Origin {
    fn begin(&mut self, id: &str) {
        let now = Instant::now();
        let calls = self.keys.entry(id.to_owned()).or_default();
        let is_fresh = calls.ended.is_some_and(|ended| now.duration_since(ended) < FRESH - SECOND);
        let is_duplicate = calls.under_way > 0 || is_fresh;
        if !is_duplicate {
            (calls.window, calls.in_window) = (Some(now), 0);
        }
        calls.in_window += 1;
        calls.under_way += 1;
        self.loads += 1;
        self.duplicates += u64::from(is_duplicate);
        self.of_a_key_max = self.of_a_key_max.max(calls.in_window);
    }

    fn end(&mut self, id: &str) {
        if let Some(calls) = self.keys.get_mut(id) {
            calls.under_way -= 1;
            calls.ended = Some(Instant::now());
        }
    }
}

#[derive(Debug, Default)]
struct Answers {
    micros: Vec<u32>,
    failed: u64,
}

pub(super) fn run(plan: Reading, seed: u64) -> Result<Read> {
    simulate(seed, async |world| {
        world.table().await?;
        world.throttle();
        let processes = world.processes(plan.caches).await?;
        let origin = Arc::new(Mutex::new(Origin::default()));
        let answers = Arc::new(Mutex::new(Answers::default()));
        let end = after(Duration::from_secs(plan.seconds));
        let mut workers = Vec::with_capacity(plan.workers);
        for number in 0..plan.workers {
            let shelf = shelf(&processes[number % plan.caches], plan.entity)?;
            let keys = if plan.is_hot { 1 } else { SPREAD_KEYS };
            let (origin, answers) = (Arc::clone(&origin), Arc::clone(&answers));
            workers.push(tokio::spawn(worker(shelf, keys, world.rng(), end, origin, answers)));
        }
        for worker in workers {
            worker.await?;
        }
        let asked = world.asked()?;
        let (origin, mut answers) = (origin.lock(), answers.lock());
        Ok(Read {
            asked,
            fetches: answers.micros.len() as u64,
            failed: answers.failed,
            loads: origin.loads,
            duplicates: origin.duplicates,
            loads_of_a_key_max: origin.of_a_key_max,
            p50: percentile(&mut answers.micros, 0.5),
            p99: percentile(&mut answers.micros, 0.99),
        })
    })
}

async fn worker(
    shelf: Shelf<Entry>,
    keys: usize,
    mut random: Rng,
    end: Instant,
    origin: Arc<Mutex<Origin>>,
    answers: Arc<Mutex<Answers>>,
) {
    loop {
        sleep(PAUSE.mul_f64(2.0 * random.f64())).await;
        if Instant::now() >= end {
            return;
        }
        let id = random.usize(..keys).to_string();
        let took = Duration::from_millis(random.u64(SOURCE_MILLIS));
        let load = {
            let (origin, id) = (Arc::clone(&origin), id.clone());
            move |_: Fields| {
                let (origin, id) = (Arc::clone(&origin), id.clone());
                async move {
                    origin.lock().begin(&id);
                    sleep(took).await;
                    origin.lock().end(&id);
                    Ok::<_, std::io::Error>(Fields::from([(
                        "text".to_owned(),
                        Value::from("x".repeat(300).as_str()),
                    )]))
                }
            }
        };
        let begun = Instant::now();
        let fetched = shelf.fetch(Fields::from([("id".to_owned(), Value::Text(id))]), load).await;
        let mut answers = answers.lock();
        answers.micros.push(begun.elapsed().as_micros() as u32);
        answers.failed += u64::from(fetched.is_err());
    }
}
