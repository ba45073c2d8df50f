//! The load generator: a process of its own that keeps connections busy against one server.
//!
//! It is a process and not threads of the bench so that its CPU time can be told from everything else,
//! and it has one thread, so that it can never take more than one of the machine's cores.
//!
//! What completes after the warm-up counts, with its full latency, whenever it was sent; what is in flight
//! when time runs out is waited for and counts too. A server slower than the measurement is long is
//! measured all the same.

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
use crate::job::{self, Answer, Job, Measure, Measured, Tally};
use crate::process;
use crate::workload::{self, BATCH_ITEMS, Op, Random, Request, Sample, TABLE};

/// Distinct requests of one kind made beforehand; connections walk the ring from different places.
const RING: usize = 16_384;
const RING_BATCH: usize = 2_048;
const FILL_CONNECTIONS: usize = 16;
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
            Job::Fill { items, seconds_max } => {
                let limit = Duration::from_secs_f64(seconds_max);
                let (items, spent) = LocalSet::new().block_on(&self.runtime, fill(server, items, limit))?;
                Ok(Answer::Filled { items, seconds: spent.as_secs_f64() })
            }
            Job::Measure(measure) => {
                let ring = self.ring(measure.op, measure.items, measure.seed);
                let measured = LocalSet::new().block_on(&self.runtime, run(server, &measure, ring))?;
                Ok(Answer::Measured(measured))
            }
        }
    }

    fn ring(&mut self, op: Op, items: u64, seed: u64) -> Rc<[Vec<u8>]> {
        let made_for = (op, items, seed);
        match &self.ring {
            Some(ring) if ring.made_for == made_for => Rc::clone(&ring.requests),
            _ => {
                let mut random = Random::new(seed);
                let count = if op == Op::Batch { RING_BATCH } else { RING };
                let draw = |_| http::request(op.operation(), &Request::draw(op, items, &mut random).body());
                let requests: Rc<[Vec<u8>]> = (0..count).map(draw).collect();
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

/// Puts items in order with batches of 25; says how many it got to. Ends early, too, when a tenth of the time shows
/// that the whole would not do.
async fn fill(server: SocketAddr, items: u64, limit: Duration) -> Result<(u64, Duration)> {
    let started = Instant::now();
    let next = Rc::new(Cell::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..FILL_CONNECTIONS {
        let next = Rc::clone(&next);
        tasks.spawn_local(async move {
            let mut connection = Connection::open(&server.into()).await?;
            while next.get() < items {
                let first = next.get();
                let (spent, share) = (started.elapsed(), first as f64 / items as f64);
                let hopeless = spent > limit / 10 && spent.as_secs_f64() / share > limit.as_secs_f64();
                if spent > limit || hopeless {
                    break;
                }
                let end = items.min(first + BATCH_ITEMS);
                next.set(end);
                let body = workload::batch((first..end).map(|number| Sample { number, version: 0 }));
                let reply = connection.exchange(&http::request("BatchWriteItem", &body.to_string())).await?;
                check(Op::Batch, &reply)?;
            }
            Ok::<(), anyhow::Error>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok((next.get(), started.elapsed()))
}

pub(crate) async fn run(
    server: impl Into<Place>,
    measure: &Measure,
    ring: Rc<[Vec<u8>]>,
) -> Result<Measured> {
    let server = server.into();
    // A server that answers quickly and wrongly must not look fast.
    let mut first = Connection::open(&server).await?;
    check(measure.op, &first.exchange(&ring[0]).await?)?;

    let mut connections = vec![first];
    while connections.len() < measure.connections {
        connections.push(Connection::open(&server).await?);
    }
    let warm = Instant::now() + Duration::from_secs_f64(measure.warmup_seconds);
    let window = Rc::new(Window {
        server,
        ring,
        warm,
        end: warm + Duration::from_secs_f64(measure.seconds),
        left: Cell::new(measure.requests_max),
        last: Cell::new(warm),
        sent: vec![Cell::new(None); measure.connections],
        tally: RefCell::new(Tally::new()),
    });
    let stride = window.ring.len() / measure.connections.max(1) + 1;
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
    ring: Rc<[Vec<u8>]>,
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
        let mut sent = Instant::now();
        while sent < self.end && self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
            self.sent[n].set(Some(sent));
            position = (position + 1) % self.ring.len();
            let failure = match connection.exchange(&self.ring[position]).await {
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
            sent = answered;
            if let Some((_, true)) = failure {
                let Some(again) = self.reconnect().await else { return };
                connection = again;
                sent = Instant::now();
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
