//! Workers that claim what is due, of one group or of many: what leases ask of the table, and who waits for whom.
//!
//! Three jobs for each worker, due again four seconds after they are done: all workers always have something to do, if
//! they get it. One claim in fifty is that of a worker which dies of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use fastrand::Rng;
use larder::{Entry, Error, Fields, Lifecycle, Value};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::world::{Asked, shelf, simulate};
use super::{after, percentile};

/// How long a job takes on average; at least a fifth of it.
const WORK: Duration = Duration::from_secs(2);
/// As scale.larder says.
const LEASE: Duration = Duration::from_secs(4);
const JOBS_PER_WORKER: usize = 3;
/// How many claims are taken before a worker looks anew.
const TAKE: usize = 10;
/// A worker that found nothing looks again after so long on average.
const NOTHING: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub(super) struct Working {
    pub(super) processes: usize,
    pub(super) workers: usize,
    pub(super) groups: usize,
    pub(super) seconds: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Worked {
    pub(super) asked: Asked,
    pub(super) claimed: u64,
    pub(super) finished: u64,
    /// Workers that died, and jobs that were taken over from them.
    pub(super) died: u64,
    pub(super) taken_over: u64,
    /// Jobs that were given to one while another held them. There must be none.
    pub(super) held_twice: u64,
    /// Jobs that were taken from a dead worker before its lease can have been over. There must be none.
    pub(super) too_early: u64,
    /// Leases that their workers lost, and calls that failed for want of units or an answer.
    pub(super) lost: u64,
    pub(super) failed: u64,
    /// How long it took from asking to a lease.
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    /// The share of their time in which workers worked.
    pub(super) busy: f64,
}

#[derive(Debug, Default)]
struct Ledger {
    holders: HashMap<String, Holder>,
    micros: Vec<u32>,
    claimed: u64,
    finished: u64,
    died: u64,
    taken_over: u64,
    held_twice: u64,
    too_early: u64,
    lost: u64,
    failed: u64,
    worked: Duration,
}

#[derive(Debug)]
enum Holder {
    Alive,
    Dead(Instant),
}

impl Ledger {
    fn claim(&mut self, id: &str, waited: Duration) {
        self.claimed += 1;
        self.micros.push(waited.as_micros() as u32);
        match self.holders.insert(id.to_owned(), Holder::Alive) {
            Some(Holder::Alive) => self.held_twice += 1,
            Some(Holder::Dead(since)) => {
                self.taken_over += 1;
                // Its lease was renewed a third of it before at the earliest.
                self.too_early += u64::from(since.elapsed() < LEASE * 2 / 3);
            }
            None => {}
        }
    }
}

pub(super) fn run(plan: Working, seed: u64) -> Result<Worked> {
    simulate(seed, async |world| {
        let table = world.table().await?;
        let jobs = shelf(&table, "Job")?;
        let text = |name: &str, value: String| (name.to_owned(), Value::Text(value));
        let drafts = (0..plan.workers * JOBS_PER_WORKER).map(|number| {
            Fields::from([text("id", number.to_string()), text("group", (number % plan.groups).to_string())])
        });
        for outcome in jobs.put_many(drafts).await {
            outcome?;
        }
        world.throttle();
        let before = world.asked()?;
        let processes = world.processes(plan.processes).await?;
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let end = after(Duration::from_secs(plan.seconds));
        let mut workers = Vec::with_capacity(plan.workers);
        for number in 0..plan.workers {
            let jobs = shelf(&processes[number % plan.processes], "Job")?;
            let crawl = jobs.lifecycle("crawl").context("scale.larder has a lifecycle crawl")?;
            let group = (number % plan.groups).to_string();
            workers.push(tokio::spawn(worker(crawl, group, world.rng(), end, Arc::clone(&ledger))));
        }
        for worker in workers {
            worker.await?;
        }
        let asked = world.asked()?.since(&before);
        let mut ledger = ledger.lock();
        let time = Duration::from_secs(plan.seconds).as_secs_f64() * plan.workers as f64;
        Ok(Worked {
            asked,
            claimed: ledger.claimed,
            finished: ledger.finished,
            died: ledger.died,
            taken_over: ledger.taken_over,
            held_twice: ledger.held_twice,
            too_early: ledger.too_early,
            lost: ledger.lost,
            failed: ledger.failed,
            p50: percentile(&mut ledger.micros, 0.5),
            p99: percentile(&mut ledger.micros, 0.99),
            busy: ledger.worked.as_secs_f64() / time,
        })
    })
}

async fn worker(
    crawl: Lifecycle<Entry>,
    group: String,
    mut random: Rng,
    end: Instant,
    ledger: Arc<Mutex<Ledger>>,
) {
    // Nobody starts a thousand workers in one moment.
    sleep(NOTHING.mul_f64(random.f64())).await;
    while Instant::now() < end {
        let Ok(mut claims) = crawl.claim(group.as_str()).take(TAKE).await else { return };
        let mut taken = 0;
        while Instant::now() < end {
            let begun = Instant::now();
            let lease = match claims.next().await {
                Ok(Some(lease)) => lease,
                Ok(None) => break,
                Err(_) => {
                    ledger.lock().failed += 1;
                    continue;
                }
            };
            taken += 1;
            let id = lease.fields["id"].as_str().unwrap_or_default().to_owned();
            ledger.lock().claim(&id, begun.elapsed());
            if random.u32(..50) == 0 {
                let mut ledger = ledger.lock();
                ledger.died += 1;
                ledger.holders.insert(id, Holder::Dead(Instant::now()));
                continue;
            }
            let long = WORK.mul_f64(0.2 - 0.8 * (1.0 - random.f64()).ln());
            let begun = Instant::now();
            let worked = lease.work(sleep(long)).await;
            {
                let mut ledger = ledger.lock();
                ledger.worked += begun.elapsed().min(end.saturating_duration_since(begun));
                ledger.holders.remove(&id);
            }
            let outcome = match worked {
                Ok(()) => lease.finish().await.map(drop),
                Err(error) => Err(error),
            };
            let mut ledger = ledger.lock();
            match outcome {
                Ok(()) => ledger.finished += 1,
                Err(Error::LeaseLost { .. }) => ledger.lost += 1,
                // It ends by itself, and is taken over.
                Err(_) => ledger.failed += 1,
            }
        }
        if taken == 0 {
            sleep(NOTHING.mul_f64(0.5 + random.f64())).await;
        }
    }
}
