//! Processes that write behind, within what the table takes and beyond: how long their queues become, and what is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;
use larder::{Entry, Fields, Shelf, System, Value};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::after;
use super::world::{Asked, shelf, simulate};

/// The pause between two writes of a process, on average: twenty a second.
const PAUSE: Duration = Duration::from_millis(50);
/// How often the queues are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long the end of a program waits for its writes.
const DRAIN: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug)]
pub(super) struct Writing {
    pub(super) processes: usize,
    /// All write one key, instead of a new one each time.
    pub(super) is_hot: bool,
    pub(super) seconds: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wrote {
    pub(super) asked: Asked,
    /// Writes that were taken.
    pub(super) accepted: u64,
    /// Keys of writes that were taken and are not in the table after the drain, with what was written last.
    /// There must be none.
    pub(super) lost: u64,
    /// Losses that were told: there was no room in a queue.
    pub(super) told: u64,
    /// The longest that the queue of one process was.
    pub(super) queue_max: u64,
    /// How long the drain took after the last write.
    pub(super) drain: Duration,
}

#[derive(Debug, Default)]
struct Given {
    /// What each process wrote last to a key.
    last: BTreeMap<String, Vec<i64>>,
    accepted: u64,
    told: u64,
    queue_max: u64,
}

pub(super) fn run(plan: Writing, seed: u64) -> Result<Wrote> {
    simulate(seed, async |world| {
        let table = world.table().await?;
        world.throttle();
        let processes = world.processes(plan.processes).await?;
        let given = Arc::new(Mutex::new(Given::default()));
        let end = after(Duration::from_secs(plan.seconds));
        let mut writers = Vec::with_capacity(plan.processes);
        for (number, process) in processes.iter().enumerate() {
            let late = shelf(process, "Late")?;
            writers.push(tokio::spawn(writer(
                late,
                number,
                plan.is_hot,
                world.rng(),
                end,
                Arc::clone(&given),
            )));
        }
        let watching = tokio::spawn(watch(processes.clone(), Arc::clone(&given)));
        for writer in writers {
            writer.await?;
        }
        let begun = Instant::now();
        let mut drains = Vec::with_capacity(plan.processes);
        for process in &processes {
            let process = process.clone();
            drains.push(tokio::spawn(async move { process.drain(DRAIN).await }));
        }
        let mut left = 0;
        for drain in drains {
            let drained = drain.await?;
            left += drained.waiting();
        }
        let drain = begun.elapsed();
        watching.abort();
        anyhow::ensure!(left == 0, "{left} writes still wait after {} s", DRAIN.as_secs());
        let asked = world.asked()?;
        let given = std::mem::take(&mut *given.lock());
        let mut lost = 0;
        let late = shelf(&table, "Late")?;
        for (id, last) in &given.last {
            // The table itself is asked slowly enough.
            sleep(Duration::from_millis(2)).await;
            let found = late.get(Fields::from([("id".to_owned(), Value::Text(id.clone()))])).await?;
            let number = found.and_then(|found| found.fields.get("number").and_then(Value::as_i64));
            lost += u64::from(!number.is_some_and(|number| last.contains(&number)));
        }
        Ok(Wrote {
            asked,
            accepted: given.accepted,
            lost,
            told: given.told,
            queue_max: given.queue_max,
            drain,
        })
    })
}

/// Looks at the queues now and then.
async fn watch(processes: Vec<System>, given: Arc<Mutex<Given>>) {
    loop {
        sleep(LOOK).await;
        let text = larder::prometheus(&processes);
        let depths = text.lines().filter(|line| line.starts_with("larder_queue_depth{"));
        let longest = depths.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).max();
        let mut given = given.lock();
        given.queue_max = given.queue_max.max(longest.unwrap_or(0));
    }
}

async fn writer(
    late: Shelf<Entry>,
    number: usize,
    is_hot: bool,
    mut random: Rng,
    end: Instant,
    given: Arc<Mutex<Given>>,
) {
    for step in 0_i64.. {
        sleep(PAUSE.mul_f64(2.0 * random.f64())).await;
        if Instant::now() >= end {
            return;
        }
        let id = if is_hot { "hot".to_owned() } else { format!("{number}-{step}") };
        // Says who wrote it.
        let value = step * 1_000_000 + number as i64;
        let fields = [("id".to_owned(), Value::Text(id.clone())), ("number".to_owned(), Value::from(value))];
        let outcome = late.put_behind(Fields::from(fields)).await;
        let mut given = given.lock();
        match outcome {
            Ok(_) => {
                given.accepted += 1;
                let last = given.last.entry(id).or_default();
                last.retain(|value| value % 1_000_000 != number as i64);
                last.push(value);
            }
            Err(_) => given.told += 1,
        }
    }
}
