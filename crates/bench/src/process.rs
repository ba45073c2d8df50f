//! Processes the bench starts, and what the kernel says of them.
//!
//! Promises: a process ends when its `Running` is dropped, and is waited for, so nothing is left running and
//! its files can be removed right after.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::{Instant, sleep, timeout};

use crate::http::{self, Connection, Place};
use crate::job::{Answer, Job};

/// Kernel clock ticks in a second, fixed by Linux's interface to programs.
const TICKS_PER_SECOND: u64 = 100;
const PROBE_EVERY: Duration = Duration::from_micros(250);
const FIRST_ANSWER: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
}

impl Running {
    /// Starts a server whose output nobody reads.
    pub(crate) fn start(command: &mut Command) -> Result<Running> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Running { child: spawn(command)? })
    }

    pub(crate) fn cpu(&self) -> Result<Duration> {
        cpu(&format!("/proc/{}/stat", self.child.id()))
    }

    /// Resident memory.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes * 1024)
    }

    /// What it has had written to disk so far. A page that is written again before it is there counts once.
    pub(crate) fn written_bytes(&self) -> Result<u64> {
        let io = std::fs::read_to_string(format!("/proc/{}/io", self.child.id()))?;
        let line = io.lines().find_map(|line| line.strip_prefix("write_bytes:")).context("no write_bytes")?;
        Ok(line.trim().parse()?)
    }

    /// Waits until it has written nothing for a moment, at most so long.
    pub(crate) async fn settle(&self, at_most: Duration) -> Result<()> {
        let (started, mut written, mut since) = (Instant::now(), self.written_bytes()?, Instant::now());
        while since.elapsed() < QUIET && started.elapsed() < at_most {
            sleep(QUIET / 10).await;
            let now = self.written_bytes()?;
            if now != written {
                (written, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    /// Waits for the first successful answer to a ListTables.
    pub(crate) async fn answers(&mut self, server: SocketAddr) -> Result<()> {
        self.answers_to(&http::request("ListTables", "{}"), || Ok(server.into())).await.map(|_| ())
    }

    /// Waits for the first successful answer to this request; `place` may fail until it is there.
    pub(crate) async fn answers_to(
        &mut self,
        request: &[u8],
        place: impl Fn() -> Result<Place>,
    ) -> Result<Place> {
        let started = Instant::now();
        let mut last = anyhow::anyhow!("it was never asked");
        while started.elapsed() < FIRST_ANSWER {
            let probed = async {
                let place = place()?;
                probe(&place, request).await.map(|()| place)
            };
            match probed.await {
                Ok(place) => return Ok(place),
                Err(error) => last = error,
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended before it answered: {status}");
            }
            sleep(PROBE_EVERY).await;
        }
        Err(last.context(format!("no answer within {} s", FIRST_ANSWER.as_secs())))
    }

    /// Asks it to end, so that what it holds reaches its files; ends it if it does not.
    pub(crate) async fn stop(mut self) -> Result<()> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM)?;
        }
        let started = Instant::now();
        while started.elapsed() < GRACE {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A worker: this same binary, answering jobs.
#[derive(Debug)]
pub(crate) struct Worker {
    running: Running,
    jobs: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) fn start(command: &mut Command) -> Result<Worker> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = spawn(command)?;
        let jobs = child.stdin.take().context("no pipe to the worker")?;
        let answers = child.stdout.take().context("no pipe from the worker")?;
        Ok(Worker {
            running: Running { child },
            jobs: Some(ChildStdin::from_std(jobs)?),
            answers: BufReader::new(ChildStdout::from_std(answers)?).lines(),
        })
    }

    pub(crate) async fn run(&mut self, job: &Job, limit: Duration) -> Result<Answer> {
        let jobs = self.jobs.as_mut().context("the worker was told to end")?;
        jobs.write_all(format!("{}\n", serde_json::to_string(job)?).as_bytes()).await?;
        let line =
            timeout(limit, self.answers.next_line()).await.context("the worker did not answer in time")?;
        let line = line?.context("the worker ended")?;
        match serde_json::from_str(&line)? {
            Answer::Failed { reason } => bail!("{reason}"),
            answer => Ok(answer),
        }
    }

    pub(crate) fn running(&self) -> &Running {
        &self.running
    }

    /// Closes its input, which is how a worker is told to end, and waits for it.
    pub(crate) async fn stop(mut self) -> Result<()> {
        drop(self.jobs.take());
        let ended = timeout(GRACE, self.answers.next_line()).await;
        ended.context("the worker did not end in time")??;
        self.running.child.wait()?;
        Ok(())
    }
}

/// A loopback port nobody listens on.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

pub(crate) fn cpu_of_self() -> Result<Duration> {
    cpu("/proc/self/stat")
}

fn spawn(command: &mut Command) -> Result<Child> {
    command.spawn().with_context(|| format!("cannot start {}", command.get_program().display()))
}

async fn probe(server: &Place, request: &[u8]) -> Result<()> {
    let mut connection = Connection::open(server).await?;
    let reply = timeout(FIRST_ANSWER, connection.exchange(request)).await??;
    anyhow::ensure!(reply.ok(), "{}", reply.excerpt());
    Ok(())
}

/// User and system time of all its threads.
fn cpu(stat: &str) -> Result<Duration> {
    let stat = std::fs::read_to_string(stat)?;
    // The name in parentheses may hold spaces; the fields after it do not.
    let (_, fields) = stat.rsplit_once(')').context("no process name")?;
    let ticks = |n: usize| -> Result<u64> {
        fields.split_whitespace().nth(n).context("too few fields")?.parse().context("not a number")
    };
    Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * 1000 / TICKS_PER_SECOND))
}
