//! The run: prepares every peer, then measures them in turn, round after round.
//!
//! The machine is noisy, so peers take turns within a round and medians are taken over rounds: a slow
//! minute then hits everyone. A peer that cannot start, be filled or answer rightly is noted as absent, with the
//! reason, and the others go on.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::job::{Answer, Job, Measure, Measured};
use crate::package;
use crate::peer::{Installed, Peer};
use crate::plan::Plan;
use crate::process::{self, Running, Worker};
use crate::results::{Absent, Fill, Memory, Results, Round, Start};
use crate::workload::Op;

/// Beyond what a measurement takes by itself: connecting, and answers waited for at its end.
const SLACK: Duration = Duration::from_secs(60);
const REQUESTS_MAX: u64 = 5_000_000;
/// A file system in memory, where syncs cost nothing.
const MEMORY: &str = "/dev/shm";
const SETTLE: Duration = Duration::from_millis(500);

pub(crate) async fn run(plan: &Plan) -> Result<Results> {
    let cache = package::cache()?;
    // Beside the cache and not in the system's temporary directory, which may be memory.
    let data = tempfile::Builder::new().prefix("data-").tempdir_in(&cache)?;
    let mut results = Results::default();

    let mut installed = Vec::new();
    for peer in &plan.peers {
        match peer.install(&cache) {
            Ok(peer) => installed.push(peer),
            Err(error) => results.absent(*peer, &error),
        }
    }
    let mut subjects = Vec::new();
    for peer in &installed {
        for items in plan.sizes(peer.peer) {
            match Subject::prepare(peer, items, plan, data.path(), &mut results).await {
                Ok(subject) => subjects.push(subject),
                Err(error) => results.absent(peer.peer, &error.context(format!("with {items} items"))),
            }
        }
    }
    measure_growth(plan, &mut subjects, &mut results).await;
    measure_connections(plan, &mut subjects, &mut results).await;

    let mut kept = Vec::new();
    for subject in subjects {
        kept.push((subject.installed.clone(), subject.items, subject.stop().await?));
    }
    measure_starts(plan, &kept, data.path(), &mut results).await?;
    Ok(results)
}

/// Latency with one connection, and memory, at every size. Peers of one size take part too, so that all that is
/// measured with one connection is measured side by side.
async fn measure_growth(plan: &Plan, subjects: &mut [Subject], results: &mut Results) {
    for round in 0..plan.rounds {
        for op in plan.growth_ops() {
            eprintln!("round {} of {}: {}, growth", round + 1, plan.rounds, op.title());
            for subject in subjects.iter_mut() {
                subject.measure(plan, op, 1, round, results).await;
            }
        }
    }
    for subject in subjects.iter().filter(|subject| subject.peer().holds_items()) {
        if let Ok(resident_bytes) = subject.running().resident_bytes() {
            results.memory.push(Memory { peer: subject.peer(), items: subject.items, resident_bytes });
        }
    }
}

/// Every operation at every number of connections, on tables of one size.
async fn measure_connections(plan: &Plan, subjects: &mut [Subject], results: &mut Results) {
    for round in 0..plan.rounds {
        for op in &plan.ops {
            for connections in &plan.connections {
                eprintln!(
                    "round {} of {}: {}, {connections} connections",
                    round + 1,
                    plan.rounds,
                    op.title()
                );
                for subject in subjects.iter_mut().filter(|subject| subject.items == plan.table_items) {
                    let peer = subject.peer();
                    let measured = *connections == 1 && plan.growth_ops().contains(op);
                    if plan.covers(peer, *op, *connections, subject.items) && !measured {
                        subject.measure(plan, *op, *connections, round, results).await;
                    }
                }
            }
        }
    }
}

/// Starts of servers, empty and with the most items.
async fn measure_starts(
    plan: &Plan,
    kept: &[(Installed, u64, TempDir)],
    data: &Path,
    results: &mut Results,
) -> Result<()> {
    for round in 0..plan.starts {
        eprintln!("start {} of {}", round + 1, plan.starts);
        for (installed, items, filled) in
            kept.iter().filter(|(installed, ..)| installed.peer.engine().is_none())
        {
            if *items == plan.table_items {
                let empty = tempfile::tempdir_in(data)?;
                results.starts.push(start(installed, 0, empty.path()).await?);
            }
            if installed.peer.grows() && plan.sizes.last() == Some(items) {
                results.starts.push(start(installed, *items, filled.path()).await?);
            }
        }
    }
    Ok(())
}

async fn start(installed: &Installed, items: u64, data: &Path) -> Result<Start> {
    let server = process::free_address()?;
    let started = Instant::now();
    let mut running = Running::start(&mut installed.server(server, data)?)?;
    running.answers(server).await.with_context(|| format!("{} does not start", installed.peer.title()))?;
    let millis = started.elapsed().as_secs_f64() * 1_000.0;
    tokio::time::sleep(SETTLE).await;
    let idle_bytes = running.resident_bytes()?;
    running.stop().await?;
    Ok(Start { peer: installed.peer, items, millis, idle_bytes })
}

/// A peer at work on a table of one size.
#[derive(Debug)]
struct Subject {
    installed: Installed,
    items: u64,
    worker: Worker,
    server: Option<Running>,
    data: TempDir,
}

impl Subject {
    /// Fills a fresh directory, then opens it anew: every peer is measured on what it has on disk.
    async fn prepare(
        installed: &Installed,
        items: u64,
        plan: &Plan,
        data: &Path,
        results: &mut Results,
    ) -> Result<Subject> {
        let peer = installed.peer;
        eprintln!("{}: {items} items", peer.title());
        let data = tempfile::tempdir_in(data)?;
        if peer.holds_items() {
            let seconds = fill(installed, items, plan.fill_seconds, data.path()).await?;
            results.fills.push(Fill { peer, items, seconds });
        }
        let mut subject = Subject::open(installed, items, data).await?;
        for op in plan.ops.iter().filter(|op| peer.runs(**op)) {
            subject.ask(&plan.measure(*op, 16, items, 0)).await?;
        }
        Ok(subject)
    }

    async fn open(installed: &Installed, items: u64, data: TempDir) -> Result<Subject> {
        let (worker, server) = match installed.peer.engine() {
            Some(engine) => (embedded_worker(engine.name(), data.path())?, None),
            None => {
                let (worker, server) = serve(installed, data.path()).await?;
                (worker, Some(server))
            }
        };
        Ok(Subject { installed: installed.clone(), items, worker, server, data })
    }

    fn peer(&self) -> Peer {
        self.installed.peer
    }

    /// The process that holds the store.
    fn running(&self) -> &Running {
        self.server.as_ref().unwrap_or_else(|| self.worker.running())
    }

    async fn measure(
        &mut self,
        plan: &Plan,
        op: Op,
        connections: usize,
        round: usize,
        results: &mut Results,
    ) {
        if !self.peer().runs(op) {
            return;
        }
        let measure = plan.measure(op, connections, self.items, round as u64 + 1);
        let before = self.server.as_ref().and_then(|server| server.cpu().ok());
        match self.ask(&measure).await {
            Ok(measured) => {
                let after = self.server.as_ref().and_then(|server| server.cpu().ok());
                // The server's clock also ran in the warm-up; its share is taken out by time.
                let share = measured.seconds / (measured.seconds + plan.warmup_seconds);
                let spent = after.zip(before).map(|(after, before)| after.saturating_sub(before));
                let server_cpu_seconds = spent.map(|spent| spent.as_secs_f64() * share);
                let cell = (self.peer(), op, connections, self.items);
                let abandoned = measured.abandoned > 0;
                results.record(cell, Round { measured, server_cpu_seconds });
                if abandoned && let Err(error) = self.reopen().await {
                    results.absent(self.peer(), &error.context("cannot be started again"));
                }
            }
            Err(error) => {
                let place = format!("{}, {connections} connections, {} items", op.title(), self.items);
                results.absent(self.peer(), &error.context(place));
            }
        }
    }

    /// Starts the server anew: one with requests still queued would do them during the next measurement.
    async fn reopen(&mut self) -> Result<()> {
        if self.server.take().is_some() {
            let (worker, server) = serve(&self.installed, self.data.path()).await?;
            (self.worker, self.server) = (worker, Some(server));
        }
        Ok(())
    }

    async fn ask(&mut self, measure: &Measure) -> Result<Measured> {
        let limit = Duration::from_secs_f64(measure.warmup_seconds + measure.seconds) + SLACK;
        match self.worker.run(&Job::Measure(measure.clone()), limit).await? {
            Answer::Measured(measured) => Ok(measured),
            other => bail!("an answer to another job: {other:?}"),
        }
    }

    /// Ends it and keeps its files.
    async fn stop(self) -> Result<TempDir> {
        self.worker.stop().await?;
        if let Some(server) = self.server {
            server.stop().await?;
        }
        Ok(self.data)
    }
}

impl Plan {
    fn measure(&self, op: Op, connections: usize, items: u64, round: u64) -> Measure {
        Measure {
            op,
            connections,
            items,
            seed: self.seed + round,
            warmup_seconds: self.warmup_seconds,
            seconds: self.seconds,
            drain_seconds: self.drain_seconds,
            requests_max: REQUESTS_MAX,
        }
    }
}

impl Results {
    fn absent(&mut self, peer: Peer, error: &anyhow::Error) {
        let reason = format!("{error:#}");
        eprintln!("{} is absent: {reason}", peer.title());
        self.absent.push(Absent { peer, reason });
    }
}

/// Makes the table and puts the items; says how long the items took.
async fn fill(installed: &Installed, items: u64, seconds_max: f64, data: &Path) -> Result<f64> {
    let memory = Path::new(MEMORY);
    if !installed.peer.fills_in_memory() || !memory.is_dir() {
        return fill_in(installed, items, seconds_max, data).await;
    }
    let scratch = tempfile::Builder::new().prefix("larder-bench-").tempdir_in(memory)?;
    let seconds = fill_in(installed, items, seconds_max, scratch.path()).await?;
    for file in std::fs::read_dir(scratch.path())? {
        let file = file?;
        std::fs::copy(file.path(), data.join(file.file_name()))?;
    }
    Ok(seconds)
}

async fn fill_in(installed: &Installed, items: u64, seconds_max: f64, data: &Path) -> Result<f64> {
    let (mut worker, server) = match installed.peer.filler() {
        Some(engine) => (embedded_worker(engine.name(), data)?, None),
        None => {
            let (worker, server) = serve(installed, data).await?;
            (worker, Some(server))
        }
    };
    let limit = Duration::from_secs_f64(seconds_max) + SLACK;
    worker.run(&Job::Create, limit).await.context("cannot make the table")?;
    let answer = worker.run(&Job::Fill { items, seconds_max }, limit).await.context("cannot be filled")?;
    let Answer::Filled { items: filled, seconds } = answer else {
        bail!("an answer to another job: {answer:?}");
    };
    worker.stop().await?;
    if let Some(server) = server {
        server.stop().await?;
    }
    ensure!(
        filled == items,
        "{filled} were put in {seconds:.0} s, too few for the {seconds_max:.0} s it has"
    );
    Ok(seconds)
}

async fn serve(installed: &Installed, data: &Path) -> Result<(Worker, Running)> {
    let address: SocketAddr = process::free_address()?;
    let mut server = Running::start(&mut installed.server(address, data)?)?;
    server.answers(address).await?;
    let worker = Worker::start(&["load", "--server", &address.to_string()])?;
    Ok((worker, server))
}

fn embedded_worker(engine: &str, data: &Path) -> Result<Worker> {
    let data = data.to_str().context("the data directory is not UTF-8")?;
    Worker::start(&["embedded", "--engine", engine, "--data", data])
}
