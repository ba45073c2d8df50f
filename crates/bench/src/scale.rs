//! The data layer on many processes and one table, simulated: what it asks of the table, and of the source, as it grows.
//!
//! It is the layer itself that runs, on the AWS SDK, on the engine with its throughput enforced; only time, the network and the
//! source are made up. So the figures are those of the layer and not of the machine. One seed gives nearly the same again where the
//! table turns nothing away: maps in the layer and in the SDK are walked in an order by chance.
//!
//! What must hold however large it grows is checked after every run: no job is held by two, nothing that was to be written behind is
//! lost, and with a flight a key is loaded once while it is fresh. The last is promised only while the table answers: where it
//! turned requests away, the layer goes on without it, as the schema says.

mod plot;
mod reading;
mod working;
mod world;
mod writing;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use tokio::time::Instant;

use reading::{Read, Reading};
use working::{Worked, Working};
use writing::{Writing, Wrote};

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Workers that fetch one key
    Hot,
    /// Workers that fetch many keys
    Spread,
    /// Workers that claim what is due
    Claims,
    /// Processes that write behind
    Behind,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    reading: Vec<Reading>,
    working: Vec<Working>,
    writing: Vec<Writing>,
}

impl Plan {
    pub(crate) fn full() -> Self {
        Self::of(&[1, 10, 100], &[10, 100, 1000], 11)
    }

    pub(crate) fn quick() -> Self {
        Self::of(&[1, 5], &[10], 6)
    }

    fn of(caches: &[usize], workers: &[usize], seconds: u64) -> Self {
        let mut reading = Vec::new();
        for is_hot in [true, false] {
            for entity in ["Alone", "Shared", "Bare"] {
                for &caches in caches {
                    for &workers in workers.iter().filter(|workers| **workers >= caches) {
                        // Half the time shows as much of many keys.
                        let seconds = if is_hot { seconds } else { seconds / 2 + 1 };
                        reading.push(Reading { caches, workers, is_hot, entity, seconds });
                    }
                }
            }
        }
        // What nobody keeps in the process asks the table every time, hot or not.
        reading.retain(|one| one.is_hot || one.entity != "Bare");
        let working = [1, 16].into_iter().flat_map(|groups| {
            workers.iter().map(move |&workers| Working {
                processes: workers.min(100),
                workers,
                groups,
                seconds: seconds + 1,
            })
        });
        let writing = [true, false]
            .into_iter()
            .flat_map(|is_hot| caches.iter().map(move |&processes| Writing { processes, is_hot, seconds }));
        Self { reading, working: working.collect(), writing: writing.collect() }
    }

    /// Only these parts, where any are named, and at most so many workers.
    pub(crate) fn only(mut self, parts: &[Part], workers_max: usize) -> Self {
        let is_meant = |part| parts.is_empty() || parts.contains(&part);
        self.reading.retain(|one| {
            is_meant(if one.is_hot { Part::Hot } else { Part::Spread }) && one.workers <= workers_max
        });
        self.working.retain(|one| is_meant(Part::Claims) && one.workers <= workers_max);
        self.writing.retain(|_| is_meant(Part::Behind));
        self
    }
}

/// What came of it.
#[derive(Debug, Default)]
struct Figures {
    reading: Vec<(Reading, Read)>,
    working: Vec<(Working, Worked)>,
    writing: Vec<(Writing, Wrote)>,
}

/// Simulates, prints, draws into a directory, and fails when something does not hold that must.
pub(crate) fn run(plan: &Plan, seed: u64, out: Option<&Path>) -> Result<()> {
    let mut figures = Figures::default();
    println!("Simulated time, seed {seed}. One table of 3,000 read and 1,000 write units a second.");
    for (at, &one) in plan.reading.iter().enumerate() {
        if at == 0 {
            println!("\n{READING}");
        }
        let read = reading::run(one, seed)?;
        println!("{}", reading_line(&one, &read));
        figures.reading.push((one, read));
    }
    for (at, &one) in plan.working.iter().enumerate() {
        if at == 0 {
            println!("\n{WORKING}");
        }
        let worked = working::run(one, seed)?;
        println!("{}", working_line(&one, &worked));
        figures.working.push((one, worked));
    }
    for (at, &one) in plan.writing.iter().enumerate() {
        if at == 0 {
            println!("\n{WRITING}");
        }
        let wrote = writing::run(one, seed)?;
        println!("{}", writing_line(&one, &wrote));
        figures.writing.push((one, wrote));
    }
    for (name, picture) in out.iter().flat_map(|_| plot::draw(&figures)) {
        let file = out.unwrap_or(Path::new(".")).join(name);
        std::fs::write(&file, picture).with_context(|| format!("cannot write {}", file.display()))?;
    }
    check(&figures)
}

const READING: &str = "\
fetch                        a second              of 1,000 fetches    of a key while fresh
keys    entity  caches  workers  requests  read u.  write u.  throttled  loads  twice  failed  loads at most   p50 ms   p99 ms";

fn reading_line(one: &Reading, read: &Read) -> String {
    let second = |figure: f64| figure / one.seconds as f64;
    let share = |count: u64| count as f64 * 1000.0 / read.fetches.max(1) as f64;
    format!(
        "{:<7} {:<6} {:>7} {:>8} {:>9.0} {:>8.0} {:>9.0} {:>10.1} {:>6.1} {:>6.1} {:>7.1} {:>14} {:>8} {:>8}",
        if one.is_hot { "one" } else { "spread" },
        one.entity,
        one.caches,
        one.workers,
        second(read.asked.requests as f64),
        second(read.asked.read_units),
        second(read.asked.write_units),
        second(read.asked.throttled as f64),
        share(read.loads),
        share(read.duplicates),
        share(read.failed),
        read.loads_of_a_key_max,
        read.p50.as_millis(),
        read.p99.as_millis(),
    )
}

const WORKING: &str = "\
claim                    a second
groups  workers  requests  read u.  write u.  throttled   jobs  requests a job  races lost a job  taken over  leases lost  failed  busy %   p50 ms   p99 ms";

fn working_line(one: &Working, worked: &Worked) -> String {
    let second = |figure: f64| figure / one.seconds as f64;
    let of_a_job = |count: u64| count as f64 / worked.claimed.max(1) as f64;
    format!(
        "{:>6} {:>8} {:>9.0} {:>8.0} {:>9.0} {:>10.1} {:>6.1} {:>15.1} {:>17.2} {:>6} of {:<2} {:>11} {:>7} {:>7.0} {:>8} {:>8}",
        one.groups,
        one.workers,
        second(worked.asked.requests as f64),
        second(worked.asked.read_units),
        second(worked.asked.write_units),
        second(worked.asked.throttled as f64),
        second(worked.finished as f64),
        of_a_job(worked.asked.requests),
        of_a_job(worked.asked.conditions_failed),
        worked.taken_over,
        worked.died,
        worked.lost,
        worked.failed,
        worked.busy * 100.0,
        worked.p50.as_millis(),
        worked.p99.as_millis(),
    )
}

const WRITING: &str = "\
write behind                a second
keys    processes  writes  requests  write u.  throttled  longest queue  drain s  told lost";

fn writing_line(one: &Writing, wrote: &Wrote) -> String {
    let second = |figure: f64| figure / one.seconds as f64;
    // What the drain asks comes after the writes.
    let whole = |figure: f64| figure / (one.seconds as f64 + wrote.drain.as_secs_f64());
    format!(
        "{:<7} {:>9} {:>7.0} {:>9.0} {:>9.0} {:>10.0} {:>14} {:>8.1} {:>10}",
        if one.is_hot { "one" } else { "spread" },
        one.processes,
        second(wrote.accepted as f64),
        whole(wrote.asked.requests as f64),
        whole(wrote.asked.write_units),
        whole(wrote.asked.throttled as f64),
        wrote.queue_max,
        wrote.drain.as_secs_f64(),
        wrote.told,
    )
}

/// What must hold.
fn check(figures: &Figures) -> Result<()> {
    for (one, read) in &figures.reading {
        ensure!(read.fetches > 0 && read.loads > 0, "{one:?}: nothing was fetched");
        ensure!(read.failed == 0, "{one:?}: {} fetches failed, and the source did not", read.failed);
        let is_shared = one.entity != "Alone";
        if read.asked.throttled > 0 {
            continue;
        }
        let most = if is_shared { 1 } else { one.caches as u64 };
        let found = read.loads_of_a_key_max;
        ensure!(found <= most, "{one:?}: a key was loaded {found} times while it was fresh, and not {most}");
        ensure!(!is_shared || read.duplicates == 0, "{one:?}: {} loads too many", read.duplicates);
    }
    for (one, worked) in &figures.working {
        ensure!(worked.finished > 0, "{one:?}: no work was done");
        ensure!(worked.held_twice == 0, "{one:?}: {} jobs were held by two", worked.held_twice);
        ensure!(worked.too_early == 0, "{one:?}: {} jobs were taken over too early", worked.too_early);
    }
    for (one, wrote) in &figures.writing {
        ensure!(wrote.accepted > 0, "{one:?}: nothing was written");
        ensure!(wrote.lost == 0, "{one:?}: {} writes behind were lost", wrote.lost);
    }
    Ok(())
}

/// So long from now.
fn after(time: Duration) -> Instant {
    Instant::now() + time
}

/// The value below which such a share is; zero of none.
fn percentile(micros: &mut [u32], share: f64) -> Duration {
    micros.sort_unstable();
    let at = ((micros.len() as f64 * share) as usize).min(micros.len().saturating_sub(1));
    Duration::from_micros(micros.get(at).copied().unwrap_or(0).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(plan: &Plan) -> Figures {
        let Plan { reading, working, writing } = plan.clone();
        Figures {
            reading: reading.into_iter().map(|one| (one, reading::run(one, 7).unwrap())).collect(),
            working: working.into_iter().map(|one| (one, working::run(one, 7).unwrap())).collect(),
            writing: writing.into_iter().map(|one| (one, writing::run(one, 7).unwrap())).collect(),
        }
    }

    #[test]
    fn what_must_hold_holds_on_a_few_processes() {
        let mut figures = figures(&Plan::quick());
        check(&figures).unwrap();
        // Without a flight several processes load one key: the check of flights has something to find.
        let is_alone = |one: &Reading| one.is_hot && one.entity == "Alone" && one.caches == 5;
        let (alone, read) = figures.reading.iter_mut().find(|(one, _)| is_alone(one)).unwrap();
        assert!(read.duplicates > 0, "{read:?}");
        alone.entity = "Shared";
        assert!(check(&figures).unwrap_err().to_string().contains("was loaded"));
        figures.reading.clear();
        figures.working[0].1.held_twice = 1;
        assert!(check(&figures).unwrap_err().to_string().contains("held by two"));
        figures.working.clear();
        figures.writing[0].1.lost = 1;
        assert!(check(&figures).unwrap_err().to_string().contains("were lost"));
    }
}
