//! The run: prepares every peer, then measures them in turn, round after round.
//!
//! The machine is noisy, so peers take turns within a round and medians are taken over rounds: a slow
//! minute then hits everyone. A peer that cannot start, be filled or answer rightly is noted as absent, with the
//! reason, and the others go on.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::job::Measure;
use crate::package;
use crate::peer::{Installed, Peer};
use crate::plan::Plan;
use crate::process::{self, Running};
use crate::results::{Absent, Fill, Memory, Results, Round, Start};
use crate::subject::{self, Subject};
use crate::workload::Op;

const REQUESTS_MAX: u64 = 5_000_000;
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
            match Filled::prepare(peer, items, plan, data.path(), &mut results).await {
                Ok(subject) => subjects.push(subject),
                Err(error) => results.absent(peer.peer, &error.context(format!("with {items} items"))),
            }
        }
    }
    measure_growth(plan, &mut subjects, &mut results).await;
    measure_connections(plan, &mut subjects, &mut results).await;

    let mut kept = Vec::new();
    for subject in subjects {
        let Filled { subject, items } = subject;
        kept.push((subject.installed.clone(), items, subject.stop().await?));
    }
    measure_starts(plan, &kept, data.path(), &mut results).await?;
    Ok(results)
}

/// Latency with one connection, and memory, at every size. Peers of one size take part too, so that all that is
/// measured with one connection is measured side by side.
async fn measure_growth(plan: &Plan, subjects: &mut [Filled], results: &mut Results) {
    for round in 0..plan.rounds {
        for op in plan.growth_ops() {
            eprintln!("round {} of {}: {}, growth", round + 1, plan.rounds, op.title());
            for subject in subjects.iter_mut() {
                subject.measure(plan, op, 1, round, results).await;
            }
        }
    }
    for Filled { subject, items } in subjects.iter().filter(|filled| filled.subject.peer().holds_items()) {
        if let Ok(resident_bytes) = subject.running().resident_bytes() {
            results.memory.push(Memory { peer: subject.peer(), items: *items, resident_bytes });
        }
    }
}

/// Every operation at every number of connections, on tables of one size.
async fn measure_connections(plan: &Plan, subjects: &mut [Filled], results: &mut Results) {
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
                    let peer = subject.subject.peer();
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

pub(crate) async fn start(installed: &Installed, items: u64, data: &Path) -> Result<Start> {
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

/// A peer with a table of one size.
#[derive(Debug)]
struct Filled {
    subject: Subject,
    items: u64,
}

impl Filled {
    /// Fills a fresh directory, then opens it anew: every peer is measured on what it has on disk.
    async fn prepare(
        installed: &Installed,
        items: u64,
        plan: &Plan,
        data: &Path,
        results: &mut Results,
    ) -> Result<Filled> {
        let peer = installed.peer;
        eprintln!("{}: {items} items", peer.title());
        let data = tempfile::tempdir_in(data)?;
        if peer.holds_items() {
            let seconds = subject::fill(installed, items, plan.fill_seconds, data.path()).await?;
            results.fills.push(Fill { peer, items, seconds });
        }
        let mut subject = Subject::open(installed, data).await?;
        for op in plan.ops.iter().filter(|op| peer.runs(**op)) {
            subject.ask(&plan.measure(*op, 16, items, 0)).await?;
        }
        Ok(Filled { subject, items })
    }

    async fn measure(
        &mut self,
        plan: &Plan,
        op: Op,
        connections: usize,
        round: usize,
        results: &mut Results,
    ) {
        let (peer, items) = (self.subject.peer(), self.items);
        if !peer.runs(op) {
            return;
        }
        let measure = plan.measure(op, connections, items, round as u64 + 1);
        let before = self.subject.server_cpu();
        match self.subject.ask(&measure).await {
            Ok(measured) => {
                // The server's clock also ran in the warm-up; its share is taken out by time.
                let share = measured.seconds / (measured.seconds + plan.warmup_seconds);
                let spent =
                    self.subject.server_cpu().zip(before).map(|(after, before)| after.saturating_sub(before));
                let server_cpu_seconds = spent.map(|spent| spent.as_secs_f64() * share);
                let abandoned = measured.abandoned > 0;
                results.record((peer, op, connections, items), Round { measured, server_cpu_seconds });
                if abandoned && let Err(error) = self.subject.reopen().await {
                    results.absent(peer, &error.context("cannot be started again"));
                }
            }
            Err(error) => {
                let place = format!("{}, {connections} connections, {items} items", op.title());
                results.absent(peer, &error.context(place));
            }
        }
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
            spread: false,
            pause_seconds: 0.0,
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
