//! Stores measured in process: a worker that opens one and calls it from many threads.
//!
//! Threads stand where connections stand over HTTP. Each store runs in a process of its own, so that its
//! memory is its own and stores do not share a heap or a cache.

mod dynoxide;
mod entries;
pub(crate) mod larder;
mod redb;
mod storage;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::job::{self, Answer, Fill, Filled, Job, Measure, Measured, Tally};
use crate::process;
use crate::workload::{Op, Random, Request};

pub(crate) use dynoxide::FILE as DYNOXIDE_FILE;

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Engine {
    Larder,
    Dynoxide,
    Storage,
    Redb,
}

impl Engine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Larder => "larder",
            Engine::Dynoxide => "dynoxide",
            Engine::Storage => "storage",
            Engine::Redb => "redb",
        }
    }

    /// Whether it can do this at all: a bare store knows nothing of queries.
    pub(crate) fn runs(self, op: Op) -> bool {
        match self {
            Engine::Larder | Engine::Dynoxide => true,
            Engine::Storage => op != Op::Query,
            Engine::Redb => op == Op::Get,
        }
    }
}

/// A store doing the bench's work by direct calls.
trait Embedded: Sync {
    type Call;

    fn create(&self) -> Result<()>;
    /// Puts these items as fast as the store can be filled.
    fn fill(&self, numbers: &[u64]) -> Result<()>;
    /// Makes the arguments of the call, which is not measured.
    fn prepare(&self, request: Request) -> Result<Self::Call>;
    /// Makes one call, durable if it writes, and checks that there was an answer.
    fn call(&self, call: Self::Call) -> Result<()>;
}

/// What a store is given at a time while it is filled.
const FILL_ITEMS: u64 = 50_000;

pub(crate) fn serve(engine: Engine, data: &Path) -> Result<()> {
    match engine {
        Engine::Larder => answer(&larder::Larder::open(data)?),
        Engine::Dynoxide => answer(&dynoxide::Dynoxide::open(data)?),
        Engine::Storage => answer(&storage::Storage::open(data)?),
        Engine::Redb => answer(&redb::Redb::open(data)?),
    }
}

fn answer(store: &impl Embedded) -> Result<()> {
    job::serve(|job| match job {
        Job::Create => {
            store.create()?;
            Ok(Answer::Created)
        }
        Job::Fill(job) => Ok(Answer::Filled(fill(store, job)?)),
        Job::Measure(measure) => Ok(Answer::Measured(run(store, &measure)?)),
        Job::Together(_) => bail!("a store in process does one thing at a time"),
    })
}

fn fill(store: &impl Embedded, job: Fill) -> Result<Filled> {
    let started = Instant::now();
    let (mut put, mut last_quarter) = (0, None);
    while put < job.count() && started.elapsed().as_secs_f64() < job.seconds_max {
        if put >= job.count() / 4 * 3 && last_quarter.is_none() {
            last_quarter = Some((put, Instant::now()));
        }
        let end = job.count().min(put + FILL_ITEMS);
        let numbers: Vec<u64> = (put..end).map(|place| job.number(place)).collect();
        store.fill(&numbers)?;
        put = end;
    }
    let (first, since) = last_quarter.unwrap_or((0, started));
    Ok(Filled {
        items: job.from + put,
        seconds: started.elapsed().as_secs_f64(),
        last_rate: (put - first) as f64 / since.elapsed().as_secs_f64(),
        measured: Measured::default(),
    })
}

fn run(store: &impl Embedded, measure: &Measure) -> Result<Measured> {
    let first = Request::draw(measure.op, measure.items, &mut Random::new(measure.seed));
    store.call(store.prepare(first)?)?;
    let warm = Instant::now() + Duration::from_secs_f64(measure.warmup_seconds);
    let end = warm + Duration::from_secs_f64(measure.seconds);
    let left = AtomicU64::new(measure.requests_max);
    let cpu = process::cpu_of_self()?;
    let tallies: Vec<(Tally, Instant)> = std::thread::scope(|scope| {
        let thread = |n| {
            let random = Random::new(measure.seed.wrapping_add(n as u64 + 1));
            scope.spawn(|| keep_busy(store, measure, random, (warm, end), &left))
        };
        let threads: Vec<_> = (0..measure.connections).map(thread).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    if tallies.len() < measure.connections {
        bail!("a thread of the store panicked");
    }
    // The warm-up's share is taken out by time: a process has one CPU clock for all its threads.
    let (spent, whole) =
        (process::cpu_of_self()?.saturating_sub(cpu), measure.warmup_seconds + measure.seconds);
    let cpu = spent.mul_f64(measure.seconds / whole);
    let last = tallies.iter().map(|(_, last)| *last).max().unwrap_or(end);
    let mut total = Tally::new();
    tallies.into_iter().for_each(|(tally, _)| total.merge(tally));
    Ok(total.summary(last.saturating_duration_since(warm), cpu))
}

fn keep_busy(
    store: &impl Embedded,
    measure: &Measure,
    mut random: Random,
    (warm, end): (Instant, Instant),
    left: &AtomicU64,
) -> (Tally, Instant) {
    let mut tally = Tally::new();
    let mut last = warm;
    while last < end && left.fetch_sub(1, Ordering::Relaxed) > 1 {
        let call = store.prepare(Request::draw(measure.op, measure.items, &mut random));
        let sent = Instant::now();
        if sent >= end {
            break;
        }
        let outcome = call.and_then(|call| store.call(call));
        let answered = Instant::now();
        if answered >= warm {
            last = answered;
            match outcome {
                Ok(()) => tally.success(answered - sent),
                Err(error) => tally.failure(|| format!("{error:#}")),
            }
        }
    }
    (tally, last)
}
