//! A peer at work: its processes, its files, and the load generator that drives it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::job::{Answer, Fill, Filled, Job, Measure, Measured};
use crate::peer::{Installed, Peer};
use crate::process::{self, Running, Worker};

/// Beyond what a measurement takes by itself: connecting, and answers waited for at its end.
const SLACK: Duration = Duration::from_secs(60);
/// A file system in memory, where syncs cost nothing.
const MEMORY: &str = "/dev/shm";
const FILL_CONNECTIONS: usize = 16;

#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) installed: Installed,
    worker: Worker,
    server: Option<Running>,
    data: TempDir,
}

impl Subject {
    pub(crate) async fn open(installed: &Installed, data: TempDir) -> Result<Subject> {
        let (worker, server) = match installed.peer.engine() {
            Some(engine) => (Worker::start(&mut installed.worker(engine, data.path()))?, None),
            None => {
                let (worker, server) = serve(installed, data.path()).await?;
                (worker, Some(server))
            }
        };
        Ok(Subject { installed: installed.clone(), worker, server, data })
    }

    pub(crate) fn peer(&self) -> Peer {
        self.installed.peer
    }

    /// The process that holds the store.
    pub(crate) fn running(&self) -> &Running {
        self.server.as_ref().unwrap_or_else(|| self.worker.running())
    }

    /// The CPU time of its server; a store in process has none beside the worker's.
    pub(crate) fn server_cpu(&self) -> Option<Duration> {
        self.server.as_ref().and_then(|server| server.cpu().ok())
    }

    /// Starts the server anew: one with requests still queued would do them during the next measurement. What it had not
    /// synced it loses.
    pub(crate) async fn reopen(&mut self) -> Result<()> {
        if self.server.take().is_some() {
            let (worker, server) = serve(&self.installed, self.data.path()).await?;
            (self.worker, self.server) = (worker, Some(server));
        }
        Ok(())
    }

    /// Kills the server so long after the measurement has begun, and starts it again; says how long that took.
    pub(crate) async fn crash(&mut self, measure: &Measure, after: Duration) -> Result<Duration> {
        let job = Job::Measure(measure.clone());
        tokio::select! {
            outcome = self.worker.run(&job, limit(measure)) => bail!("it ended before the crash: {outcome:?}"),
            () = tokio::time::sleep(after) => {}
        }
        drop(self.server.take());
        let started = Instant::now();
        let (address, server) = start(&self.installed, self.data.path()).await?;
        let taken = started.elapsed();
        (self.worker, self.server) = (load(address)?, Some(server));
        Ok(taken)
    }

    pub(crate) async fn create(&mut self) -> Result<()> {
        self.worker.run(&Job::Create, SLACK).await.context("cannot make the table")?;
        Ok(())
    }

    /// Fails when not all items were put in time.
    pub(crate) async fn fill(&mut self, fill: Fill) -> Result<Filled> {
        filled(&mut self.worker, fill).await
    }

    pub(crate) async fn ask(&mut self, measure: &Measure) -> Result<Measured> {
        match self.worker.run(&Job::Measure(measure.clone()), limit(measure)).await? {
            Answer::Measured(measured) => Ok(measured),
            other => bail!("an answer to another job: {other:?}"),
        }
    }

    /// All at once, from one load generator.
    pub(crate) async fn ask_together(&mut self, measures: Vec<Measure>) -> Result<Vec<Measured>> {
        let limit = measures.iter().map(limit).max().unwrap_or_default();
        match self.worker.run(&Job::Together(measures), limit).await? {
            Answer::Together(measured) => Ok(measured),
            other => bail!("an answer to another job: {other:?}"),
        }
    }

    /// Ends it and keeps its files.
    pub(crate) async fn stop(self) -> Result<TempDir> {
        self.worker.stop().await?;
        if let Some(server) = self.server {
            server.stop().await?;
        }
        Ok(self.data)
    }
}

fn limit(measure: &Measure) -> Duration {
    Duration::from_secs_f64(measure.warmup_seconds + measure.seconds) + SLACK
}

/// Makes the table in a directory and puts the items; says how long the items took.
pub(crate) async fn fill(installed: &Installed, items: u64, seconds_max: f64, data: &Path) -> Result<f64> {
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
        Some(engine) => {
            let own = Installed::at(installed.peer, std::env::current_exe()?)?;
            (Worker::start(&mut own.worker(engine, data))?, None)
        }
        None => {
            let (worker, server) = serve(installed, data).await?;
            (worker, Some(server))
        }
    };
    worker.run(&Job::Create, SLACK).await.context("cannot make the table")?;
    let fill = Fill { from: 0, items, scattered: false, connections: FILL_CONNECTIONS, seconds_max };
    let filled = filled(&mut worker, fill).await?;
    worker.stop().await?;
    if let Some(server) = server {
        server.stop().await?;
    }
    Ok(filled.seconds)
}

async fn filled(worker: &mut Worker, fill: Fill) -> Result<Filled> {
    let limit = Duration::from_secs_f64(fill.seconds_max) + SLACK;
    let answer = worker.run(&Job::Fill(fill), limit).await.context("cannot be filled")?;
    let Answer::Filled(filled) = answer else { bail!("an answer to another job: {answer:?}") };
    ensure!(
        filled.items == fill.items,
        "{} were put in {:.0} s, too few for the {:.0} s it has",
        filled.items,
        filled.seconds,
        fill.seconds_max
    );
    Ok(filled)
}

async fn serve(installed: &Installed, data: &Path) -> Result<(Worker, Running)> {
    let (address, server) = start(installed, data).await?;
    Ok((load(address)?, server))
}

/// A server that answers.
async fn start(installed: &Installed, data: &Path) -> Result<(SocketAddr, Running)> {
    let address = process::free_address()?;
    let mut server = Running::start(&mut installed.server(address, data)?)?;
    server.answers(address).await?;
    Ok((address, server))
}

fn load(server: SocketAddr) -> Result<Worker> {
    let mut command = Command::new(std::env::current_exe()?);
    Worker::start(command.args(["load", "--server", &server.to_string()]))
}
