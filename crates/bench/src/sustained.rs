//! What lasts: each operation for a minute, with keys spread over all items, on a table that has grown to its size.
//!
//! One table of Larder grows by BatchWriteItem from nothing to each size in turn, and everything is measured there: the log
//! is full many times over while the clock runs, and the data is larger than the cache. At the first size the rivals do the
//! same work in the same run; the bare limits (hyper alone, hyper and a log without a tree) come right after what they
//! limit, and redb alone is filled to each size as Larder was.
//!
//! `bars.rs` says what has to be reached.

mod bars;
mod before;
mod seen;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use larder_server::Limits;

use crate::job::{Fill, Measure};
use crate::peer::{Installed, Peer};
use crate::results::median;
use crate::subject::{self, Subject};
use crate::workload::Op;
use crate::{package, report, run};
use seen::{Kept, Row, Seen, Work};

const CONNECTIONS: usize = 64;
const PAUSE_SECONDS: f64 = 0.3;
/// How long what was written may take to come to rest before something else is measured.
const SETTLE_MAX: Duration = Duration::from_secs(60);
/// Larder's memory for pages where nobody sets it.
fn cache_bytes() -> u64 {
    Limits::default().cache_bytes as u64
}

/// How much is done.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Ascending.
    pub(crate) items: Vec<u64>,
    pub(crate) seconds: f64,
    pub(crate) peers: Vec<Peer>,
    /// What latencies at the other sizes are compared with.
    pub(crate) few: u64,
    /// Where a default server's memory is looked at; none if it is not part of this run.
    pub(crate) some: Option<u64>,
    /// Puts of a client that pauses.
    pub(crate) pauses: u64,
    /// Opens after a crash, and of a store that was closed.
    pub(crate) opens: usize,
    pub(crate) fill_seconds: f64,
    /// Where `larder` and `larder-bench` of an earlier state are.
    pub(crate) before: Option<PathBuf>,
}

impl Plan {
    const PEERS: [Peer; 6] =
        [Peer::Larder, Peer::Dynoxide, Peer::DynamodbLocal, Peer::Bare, Peer::BareLog, Peer::BareRedb];

    pub(crate) fn full() -> Self {
        Self {
            items: vec![1_000_000, 10_000_000],
            seconds: 60.0,
            peers: Self::PEERS.to_vec(),
            few: 1_000,
            some: Some(100_000),
            pauses: 100,
            opens: 5,
            fill_seconds: 3_600.0,
            before: None,
        }
    }

    /// Shows that all of it runs.
    pub(crate) fn quick() -> Self {
        Self {
            items: vec![4_000],
            seconds: 0.4,
            some: None,
            pauses: 3,
            opens: 1,
            fill_seconds: 30.0,
            ..Self::full()
        }
    }

    /// Keeps those sizes that a table can grow to one after the other.
    pub(crate) fn of_items(mut self, mut items: Vec<u64>) -> Result<Self> {
        items.sort_unstable();
        items.dedup();
        self.some = self.some.filter(|some| items.first().is_some_and(|first| first > some));
        ensure!(
            items.iter().all(|items| *items > self.few),
            "a table has to have more than {} items",
            self.few
        );
        self.items = items;
        Ok(self)
    }

    fn first(&self) -> u64 {
        self.items.first().copied().unwrap_or_default()
    }

    fn measure(&self, op: Op, items: u64) -> Measure {
        Measure {
            op,
            connections: CONNECTIONS,
            items,
            seed: items,
            warmup_seconds: (self.seconds / 20.0).min(1.0),
            seconds: self.seconds,
            drain_seconds: 15.0,
            requests_max: u64::MAX,
            spread: true,
            pause_seconds: 0.0,
        }
    }

    /// One connection, for a shorter time: a median needs no more.
    fn alone(&self, op: Op, items: u64) -> Measure {
        Measure { connections: 1, seconds: (self.seconds / 6.0).max(0.2), ..self.measure(op, items) }
    }
}

/// Measures, and prints; says whether every bar that was part of the run is reached.
pub(crate) async fn run(plan: &Plan, json: Option<&Path>) -> Result<bool> {
    let cache = package::cache()?;
    // Beside the cache and not in the system's temporary directory, which may be memory.
    let data = tempfile::Builder::new().prefix("sustained-").tempdir_in(&cache)?;
    let mut seen = Seen::default();
    let mut installed = Vec::new();
    for peer in &plan.peers {
        match peer.install(&cache) {
            Ok(peer) => installed.push(peer),
            Err(error) => seen.absent(*peer, &error),
        }
    }
    let of = |peer: Peer| installed.iter().find(|installed| installed.peer == peer);
    if let Some(larder) = of(Peer::Larder) {
        let limits = [Peer::Bare, Peer::BareLog].map(of);
        grow(plan, larder, limits, data.path(), &mut seen).await?;
    }
    for rival in installed.iter().filter(|installed| installed.peer.rival()) {
        if let Err(error) = rival_at_work(plan, rival, data.path(), &mut seen).await {
            seen.absent(rival.peer, &error);
        }
    }
    if let Some(redb) = of(Peer::BareRedb)
        && let Err(error) = absorb(plan, redb, data.path(), &mut seen).await
    {
        seen.absent(Peer::BareRedb, &error);
    }
    if let (Some(before), Some(larder)) = (&plan.before, of(Peer::Larder)) {
        seen.before = before::compare(larder, before, plan, data.path()).await?;
    }
    let bars = bars::bars(plan, &seen);
    print!("{}\n{}", seen.render(plan), report::ratios("Required and reached", &bars));
    if let Some(file) = json {
        let text = serde_json::to_string_pretty(&seen)?;
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(bars.iter().all(|bar| bar.met() != Some(false)))
}

/// Larder, from nothing to the largest size.
async fn grow(
    plan: &Plan,
    larder: &Installed,
    limits: [Option<&Installed>; 2],
    data: &Path,
    seen: &mut Seen,
) -> Result<()> {
    let mut subject = Subject::open(larder, tempfile::tempdir_in(data)?).await?;
    subject.create().await?;
    let mut at_work = AtWork { subject: &mut subject, plan, items: 0, seen };
    at_work.grow_to(plan.few).await?;
    for (work, op) in [(Work::GetAlone, Op::Get), (Work::QueryAlone, Op::Query)] {
        at_work.measure(work, &plan.alone(op, plan.few)).await?;
    }
    if let Some(some) = plan.some {
        at_work.grow_to(some).await?;
        for (work, op) in [(Work::Put, Op::Put), (Work::Get, Op::Get), (Work::Query, Op::Query)] {
            at_work.measure(work, &plan.measure(op, some)).await?;
        }
    }
    for items in &plan.items {
        at_work.grow_to(*items).await?;
        at_work.measure(Work::Put, &plan.measure(Op::Put, *items)).await?;
        if let Some(log) = limits[1] {
            limit(plan, log, Work::Put, *items, data, at_work.seen).await;
        }
        at_work.settle().await?;
        at_work.measure(Work::Get, &plan.measure(Op::Get, *items)).await?;
        if let Some(hyper) = limits[0] {
            limit(plan, hyper, Work::Get, *items, data, at_work.seen).await;
        }
        at_work.measure(Work::Query, &plan.measure(Op::Query, *items)).await?;
        for (work, op) in [(Work::GetAlone, Op::Get), (Work::QueryAlone, Op::Query)] {
            at_work.measure(work, &plan.alone(op, *items)).await?;
        }
        at_work.get_beside_writers().await?;
        at_work.settle().await?;
        at_work.put_with_pauses().await?;
        let mut after_crash = Vec::new();
        for round in 0..plan.opens {
            after_crash.push(at_work.crash(round).await?);
        }
        let kept = subject.stop().await?;
        let disk_bytes = disk_bytes(kept.path())?;
        let mut after_close = Vec::new();
        for _ in 0..plan.opens {
            after_close.push(run::start(larder, *items, kept.path()).await?.millis);
        }
        seen.kept.push(Kept {
            items: *items,
            disk_bytes,
            // The worst, because how full the log is at a crash is a matter of chance.
            crash_open_millis: after_crash.into_iter().fold(0.0, f64::max),
            clean_open_millis: median(after_close.into_iter()).unwrap_or(f64::NAN),
        });
        subject = Subject::open(larder, kept).await?;
        at_work = AtWork { subject: &mut subject, plan, items: *items, seen };
    }
    subject.stop().await?;
    Ok(())
}

/// Larder with a table of some size.
struct AtWork<'a> {
    subject: &'a mut Subject,
    plan: &'a Plan,
    items: u64,
    seen: &'a mut Seen,
}

impl AtWork<'_> {
    async fn grow_to(&mut self, items: u64) -> Result<()> {
        eprintln!("{}: up to {items} items", self.subject.peer().title());
        let (from, seconds_max) = (self.items, self.plan.fill_seconds);
        let fill = Fill { from, items, scattered: true, connections: CONNECTIONS, seconds_max };
        let before = self.subject.running().written_bytes()?;
        let filled = self.subject.fill(fill).await?;
        let mut row = Row::new(self.subject, items, Work::Grow, filled.measured)?;
        // Of items, not of batches.
        row.measured.rate = fill.count() as f64 / filled.seconds;
        row.measured.requests = fill.count();
        row.last_rate = Some(filled.last_rate);
        row.written_bytes = Some(self.subject.running().written_bytes()? - before);
        self.items = items;
        self.seen.rows.push(row);
        Ok(())
    }

    async fn measure(&mut self, work: Work, measure: &Measure) -> Result<()> {
        let row = measured(self.subject, work, measure).await?;
        self.seen.rows.push(row);
        Ok(())
    }

    async fn settle(&self) -> Result<()> {
        self.subject.running().settle(SETTLE_MAX).await
    }

    async fn get_beside_writers(&mut self) -> Result<()> {
        eprintln!("{}: {}", self.subject.peer().title(), Work::GetBeside.title());
        let (get, put) = (self.plan.measure(Op::Get, self.items), self.plan.measure(Op::Put, self.items));
        let works = [Work::GetBeside, Work::PutBeside];
        let measured = self.subject.ask_together(vec![get, put]).await?;
        for (work, measured) in works.into_iter().zip(measured) {
            self.seen.rows.push(Row::new(self.subject, self.items, work, measured)?);
        }
        Ok(())
    }

    async fn put_with_pauses(&mut self) -> Result<()> {
        let measure = Measure {
            connections: 1,
            warmup_seconds: 0.0,
            seconds: self.plan.pauses as f64 * (PAUSE_SECONDS + 0.1),
            requests_max: self.plan.pauses,
            pause_seconds: PAUSE_SECONDS,
            ..self.plan.measure(Op::Put, self.items)
        };
        self.measure(Work::PutWithPauses, &measure).await
    }

    /// Kills the server in the midst of writes; says how many milliseconds pass from its start until it answers again.
    async fn crash(&mut self, round: usize) -> Result<f64> {
        eprintln!("{}: crash {}", self.subject.peer().title(), round + 1);
        // Not always after the same time: the log is as full as it happens to be.
        let seconds = (self.plan.seconds / 10.0).min(3.0) + 0.37 * round as f64;
        let measure = Measure {
            seconds: 2.0 * seconds,
            drain_seconds: 0.1,
            seed: round as u64,
            ..self.plan.measure(Op::Put, self.items)
        };
        let taken = self.subject.crash(&measure, Duration::from_secs_f64(seconds)).await?;
        // Whatever it had to do after the open is done before it is killed again.
        self.settle().await?;
        Ok(taken.as_secs_f64() * 1_000.0)
    }
}

async fn measured(subject: &mut Subject, work: Work, measure: &Measure) -> Result<Row> {
    eprintln!("{}: {}, {} items", subject.peer().title(), work.title(), measure.items);
    let (cpu, written) = (subject.server_cpu(), subject.running().written_bytes()?);
    let measured = subject.ask(measure).await?;
    let mut row = Row::new(subject, measure.items, work, measured)?;
    row.written_bytes = Some(subject.running().written_bytes()? - written);
    let spent = subject.server_cpu().zip(cpu).map(|(after, before)| after.saturating_sub(before));
    let share = row.measured.seconds / (row.measured.seconds + measure.warmup_seconds);
    row.server_cpu_seconds = spent.map(|spent| spent.as_secs_f64() * share);
    Ok(row)
}

/// A bare server at the same work, right after Larder.
async fn limit(plan: &Plan, installed: &Installed, work: Work, items: u64, data: &Path, seen: &mut Seen) {
    let outcome = async {
        let mut subject = Subject::open(installed, tempfile::tempdir_in(data)?).await?;
        let op = if work == Work::Put { Op::Put } else { Op::Get };
        let row = measured(&mut subject, work, &plan.measure(op, items)).await?;
        subject.stop().await?;
        Ok(row)
    };
    match outcome.await {
        Ok(row) => seen.rows.push(row),
        Err(error) => seen.absent(installed.peer, &error),
    }
}

/// What programs could use instead, at the first size.
async fn rival_at_work(plan: &Plan, installed: &Installed, data: &Path, seen: &mut Seen) -> Result<()> {
    let items = plan.first();
    eprintln!("{}: {items} items", installed.peer.title());
    let data = tempfile::tempdir_in(data)?;
    subject::fill(installed, items, plan.fill_seconds.min(900.0), data.path()).await?;
    let mut subject = Subject::open(installed, data).await?;
    for (work, op) in [(Work::Put, Op::Put), (Work::Get, Op::Get), (Work::Query, Op::Query)] {
        let row = measured(&mut subject, work, &plan.measure(op, items)).await?;
        let left = row.measured.abandoned > 0;
        seen.rows.push(row);
        if left {
            subject.reopen().await?;
        }
    }
    subject.stop().await?;
    Ok(())
}

/// redb alone, filled to each size with 100,000 scattered entries at a time, in key order.
async fn absorb(plan: &Plan, redb: &Installed, data: &Path, seen: &mut Seen) -> Result<()> {
    let mut subject = Subject::open(redb, tempfile::tempdir_in(data)?).await?;
    subject.create().await?;
    let mut from = 0;
    for items in &plan.items {
        eprintln!("{}: up to {items} items", redb.peer.title());
        let seconds_max = plan.fill_seconds;
        let fill = Fill { from, items: *items, scattered: true, connections: 1, seconds_max };
        let filled = subject.fill(fill).await?;
        let mut row = Row::new(&subject, *items, Work::Grow, filled.measured)?;
        row.measured.rate = fill.count() as f64 / filled.seconds;
        row.measured.requests = fill.count();
        row.last_rate = Some(filled.last_rate);
        seen.rows.push(row);
        from = *items;
    }
    subject.stop().await?;
    Ok(())
}

/// What the files of a directory take on disk.
fn disk_bytes(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for file in std::fs::read_dir(directory)? {
        let found = file?.metadata()?;
        ensure!(found.is_file(), "a directory within the data directory");
        bytes += found.blocks() * 512;
    }
    Ok(bytes)
}
