//! The load generator: a process of its own that keeps connections busy against one server.
//!
//! It is a process and not threads of the bench so that its CPU time can be told from everything else,
//! and it has one thread, so that it can never take more than one of the machine's cores.
//!
//! What completes after the warm-up counts, with its full latency, whenever it was sent; what is in flight
//! when time runs out is waited for and counts too. A server slower than the measurement is long is
//! measured all the same.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::http::{self, Connection, Place};
use crate::job::{self, Answer, Fill, Filled, Job, Measure, Measured, Tally};
use crate::process;
use crate::workload::{self, BATCH_ITEMS, Op, Random, Request, Sample, TABLE};

/// Distinct requests of one kind made beforehand; connections walk the ring from different places.
const RING: usize = 16_384;
const RING_BATCH: usize = 2_048;
const TABLE_ACTIVE: Duration = Duration::from_secs(20);

pub(crate) fn serve(server: SocketAddr) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut load = Load { server, runtime, ring: None };
    job::serve(|job| load.run(job))
}

#[derive(Debug)]
struct Load {
    server: SocketAddr,
    runtime: Runtime,
    ring: Option<Ring>,
}

impl Load {
    fn run(&mut self, job: Job) -> Result<Answer> {
        let server = self.server;
        match job {
            Job::Create => {
                self.runtime.block_on(create(server))?;
                Ok(Answer::Created)
            }
            Job::Fill(job) => Ok(Answer::Filled(LocalSet::new().block_on(&self.runtime, fill(server, job))?)),
            Job::Measure(measure) => {
                let requests = self.requests(&measure);
                let measured = LocalSet::new().block_on(&self.runtime, run(server, &measure, requests))?;
                Ok(Answer::Measured(measured))
            }
            Job::Together(measures) => {
                let requests: Vec<Requests> = measures.iter().map(|measure| self.requests(measure)).collect();
                let measured = LocalSet::new().block_on(&self.runtime, async {
                    let mut tasks = JoinSet::new();
                    for (at, (measure, requests)) in measures.into_iter().zip(requests).enumerate() {
                        tasks.spawn_local(async move { (at, run(server, &measure, requests).await) });
                    }
                    let mut all = tasks.join_all().await;
                    all.sort_by_key(|(at, _)| *at);
                    all.into_iter().map(|(_, measured)| measured).collect::<Result<_>>()
                })?;
                Ok(Answer::Together(measured))
            }
        }
    }

    fn requests(&mut self, measure: &Measure) -> Requests {
        let Measure { op, items, seed, .. } = *measure;
        if measure.spread {
            return Requests::Drawn { op, items, random: RefCell::new(Random::new(seed)) };
        }
        Requests::Ring(self.ring(op, items, seed))
    }

    fn ring(&mut self, op: Op, items: u64, seed: u64) -> Rc<[Vec<u8>]> {
        let made_for = (op, items, seed);
        match &self.ring {
            Some(ring) if ring.made_for == made_for => Rc::clone(&ring.requests),
            _ => {
                let mut random = Random::new(seed);
                let count = if op == Op::Batch { RING_BATCH } else { RING };
                let requests: Rc<[Vec<u8>]> = (0..count).map(|_| draw(op, items, &mut random)).collect();
                self.ring = Some(Ring { made_for, requests: Rc::clone(&requests) });
                requests
            }
        }
    }
}

/// Requests made beforehand.
#[derive(Debug)]
struct Ring {
    made_for: (Op, u64, u64),
    requests: Rc<[Vec<u8>]>,
}

/// What connections send.
#[derive(Debug)]
pub(crate) enum Requests {
    /// Made beforehand, sent again and again.
    Ring(Rc<[Vec<u8>]>),
    /// Each another.
    Drawn { op: Op, items: u64, random: RefCell<Random> },
}

impl Requests {
    /// Where each connection begins, so that no two send the same at the same time.
    fn stride(&self, connections: usize) -> usize {
        match self {
            Self::Ring(ring) => ring.len() / connections.max(1) + 1,
            Self::Drawn { .. } => 0,
        }
    }

    fn at(&self, place: usize) -> Cow<'_, [u8]> {
        match self {
            Self::Ring(ring) => Cow::Borrowed(&ring[place % ring.len()]),
            Self::Drawn { op, items, random } => Cow::Owned(draw(*op, *items, &mut random.borrow_mut())),
        }
    }
}

fn draw(op: Op, items: u64, random: &mut Random) -> Vec<u8> {
    http::request(op.operation(), &Request::draw(op, items, random).body())
}

async fn create(server: SocketAddr) -> Result<()> {
    let mut connection = Connection::open(&server.into()).await?;
    let create = http::request("CreateTable", &workload::create_table().to_string());
    let reply = connection.exchange(&create).await?;
    ensure!(reply.ok(), "CreateTable: {}", reply.excerpt());
    let describe = http::request("DescribeTable", &serde_json::json!({"TableName": TABLE}).to_string());
    let active = async {
        loop {
            let reply = connection.exchange(&describe).await?;
            ensure!(reply.ok(), "DescribeTable: {}", reply.excerpt());
            let described: Value = serde_json::from_slice(reply.body)?;
            if described["Table"]["TableStatus"] == "ACTIVE" {
                return Ok(());
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TABLE_ACTIVE, active).await.context("the table did not become active")?
}

/// Puts items with batches of 25. Ends early, too, when a tenth of the time shows that the whole would not do.
async fn fill(server: SocketAddr, job: Fill) -> Result<Filled> {
    let (started, limit) = (Instant::now(), Duration::from_secs_f64(job.seconds_max));
    let cpu = process::cpu_of_self()?;
    let next = Rc::new(Cell::new(0));
    let last_quarter = Rc::new(Cell::new(None));
    let tally = Rc::new(RefCell::new(Tally::new()));
    let mut tasks = JoinSet::new();
    for _ in 0..job.connections {
        let (next, last_quarter, tally) = (Rc::clone(&next), Rc::clone(&last_quarter), Rc::clone(&tally));
        tasks.spawn_local(async move {
            let mut connection = Connection::open(&server.into()).await?;
            while next.get() < job.count() {
                let first = next.get();
                let (spent, share) = (started.elapsed(), first as f64 / job.count() as f64);
                let hopeless = spent > limit / 10 && spent.as_secs_f64() / share > limit.as_secs_f64();
                if spent > limit || hopeless {
                    break;
                }
                if share >= 0.75 && last_quarter.get().is_none() {
                    last_quarter.set(Some((first, Instant::now())));
                }
                let end = job.count().min(first + BATCH_ITEMS);
                next.set(end);
                let body =
                    workload::batch((first..end).map(|at| Sample { number: job.number(at), version: 0 }));
                let request = http::request("BatchWriteItem", &body);
                let sent = Instant::now();
                let reply = connection.exchange(&request).await?;
                tally.borrow_mut().success(sent.elapsed());
                check(Op::Batch, &reply)?;
            }
            Ok::<(), anyhow::Error>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let (spent, put) = (started.elapsed(), next.get());
    let (first, since) = last_quarter.get().unwrap_or((0, started));
    let cpu = process::cpu_of_self()?.saturating_sub(cpu);
    Ok(Filled {
        items: job.from + put,
        seconds: spent.as_secs_f64(),
        last_rate: (put - first) as f64 / since.elapsed().as_secs_f64(),
        measured: tally.replace(Tally::new()).summary(spent, cpu),
    })
}

pub(crate) async fn run(server: impl Into<Place>, measure: &Measure, requests: Requests) -> Result<Measured> {
    let server = server.into();
    // A server that answers quickly and wrongly must not look fast.
    let mut first = Connection::open(&server).await?;
    check(measure.op, &first.exchange(&requests.at(0)).await?)?;

    let mut connections = vec![first];
    while connections.len() < measure.connections {
        connections.push(Connection::open(&server).await?);
    }
    let warm = Instant::now() + Duration::from_secs_f64(measure.warmup_seconds);
    let window = Rc::new(Window {
        server,
        requests,
        pause: Duration::from_secs_f64(measure.pause_seconds),
        warm,
        end: warm + Duration::from_secs_f64(measure.seconds),
        left: Cell::new(measure.requests_max),
        last: Cell::new(warm),
        sent: vec![Cell::new(None); measure.connections],
        tally: RefCell::new(Tally::new()),
    });
    let stride = window.requests.stride(measure.connections);
    let mut tasks = JoinSet::new();
    for (n, connection) in connections.into_iter().enumerate() {
        tasks.spawn_local(Rc::clone(&window).keep_busy(n, connection, n * stride));
    }
    sleep_until(warm).await;
    let cpu = process::cpu_of_self()?;
    let all = async { while tasks.join_next().await.is_some() {} };
    let given_up = window.end + Duration::from_secs_f64(measure.drain_seconds);
    if timeout_at(given_up, all).await.is_err() {
        for sent in window.sent.iter().filter_map(Cell::get) {
            window.tally.borrow_mut().abandon(given_up - sent);
        }
        window.last.set(given_up);
        tasks.shutdown().await;
    }
    let cpu = process::cpu_of_self()?.saturating_sub(cpu);
    let tally = window.tally.replace(Tally::new());
    Ok(tally.summary(window.last.get() - warm, cpu))
}

/// What all connections of one measurement share.
#[derive(Debug)]
struct Window {
    server: Place,
    requests: Requests,
    pause: Duration,
    warm: Instant,
    end: Instant,
    left: Cell<u64>,
    last: Cell<Instant>,
    /// By connection: when the request in flight was sent.
    sent: Vec<Cell<Option<Instant>>>,
    tally: RefCell<Tally>,
}

impl Window {
    async fn keep_busy(self: Rc<Self>, n: usize, mut connection: Connection, mut position: usize) {
        while Instant::now() < self.end && self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
            position = position.wrapping_add(1);
            let request = self.requests.at(position);
            let sent = Instant::now();
            self.sent[n].set(Some(sent));
            let failure = match connection.exchange(&request).await {
                Ok(reply) if reply.ok() => None,
                Ok(reply) => Some((reply.excerpt(), false)),
                Err(error) => Some((format!("{error:#}"), true)),
            };
            let answered = Instant::now();
            self.sent[n].set(None);
            if answered >= self.warm {
                self.last.set(answered);
                match &failure {
                    None => self.tally.borrow_mut().success(answered - sent),
                    Some((reason, _)) => self.tally.borrow_mut().failure(|| reason.clone()),
                }
            }
            if let Some((_, true)) = failure {
                let Some(again) = self.reconnect().await else { return };
                connection = again;
            }
            if !self.pause.is_zero() {
                sleep(self.pause).await;
            }
        }
    }

    async fn reconnect(&self) -> Option<Connection> {
        while Instant::now() < self.end {
            match Connection::open(&self.server).await {
                Ok(connection) => return Some(connection),
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
        None
    }
}

fn check(op: Op, reply: &http::Reply<'_>) -> Result<()> {
    ensure!(reply.ok(), "{}: {}", op.operation(), reply.excerpt());
    let answer: Value = serde_json::from_slice(reply.body).context("an answer that is not JSON")?;
    let right = match op {
        Op::Get => answer["Item"]["payload"]["S"].is_string(),
        Op::Put => true,
        Op::Query => {
            answer["Count"] == 50 && answer["Items"].as_array().is_some_and(|items| items.len() == 50)
        }
        Op::Batch => answer["UnprocessedItems"].as_object().is_none_or(serde_json::Map::is_empty),
    };
    if !right {
        bail!("{}: a wrong answer: {}", op.operation(), reply.excerpt());
    }
    Ok(())
}
