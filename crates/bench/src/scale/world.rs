//! One table and many processes, in time that is simulated.
//!
//! The table is the engine in memory with `--throttle`'s throughput: a bucket of its provisioned units, which keeps five
//! minutes' worth of what is not used, one of each global index, and 1,000 write and 3,000 read units a second for each
//! partition key of either, which keep a second's. That is AWS after adaptive capacity has given a hot key a partition of its own; on the way
//! there AWS turns more away, and that is not simulated.
//!
//! A process is the data layer as a program has it: a [`System`] of its own, with its own L1, flights, queues and breaker, on the
//! AWS SDK with its own quota of retries. What would be HTTP is a call that takes as long as a request does.
//!
//! Time is that of `tokio`, paused: it goes on when nobody has anything left to do, to the moment of the next timer. The
//! clock of the table and of the layer follows it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryPartition;
use fastrand::Rng;
use larder::store::ops::{Request, Response};
use larder::store::{Backend, Deployed, Error, Inside, Lacks, Lookback, TableChange};
use larder::{Entry, Environment, Schema, Shelf, Store, System};
use larder_engine::Engine;
use larder_model::clock::Simulated;
use larder_model::metrics::Exposition;
use larder_model::{ApiError, Clock, Item, TableDefinition, TableName, UnixTime};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

const SCHEMA: &str = include_str!("scale.larder");
/// How long a request takes on its way and back, at least, and on average besides.
const LATENCY: (Duration, Duration) = (Duration::from_millis(3), Duration::from_millis(2));
/// How often the clock follows `tokio`'s.
const TICK: Duration = Duration::from_millis(1);
/// 2026-01-01.
const BEGIN_SECONDS: i64 = 1_767_225_600;

/// The table, the clock, and what was counted.
pub(super) struct World {
    engine: Engine,
    clock: Clock,
    time: Mutex<Time>,
    random: Mutex<Rng>,
    requests: AtomicU64,
}

struct Time {
    hand: Simulated,
    at: Instant,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

/// What a table was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Asked {
    pub(super) requests: u64,
    pub(super) read_units: f64,
    pub(super) write_units: f64,
    /// Requests and items of batches that were turned away.
    pub(super) throttled: u64,
    /// Conditions that did not hold.
    pub(super) conditions_failed: u64,
}

impl Asked {
    pub(super) fn since(self, before: &Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            read_units: self.read_units - before.read_units,
            write_units: self.write_units - before.write_units,
            throttled: self.throttled - before.throttled,
            conditions_failed: self.conditions_failed - before.conditions_failed,
        }
    }
}

/// Runs a simulation from its seed to its end.
pub(super) fn simulate<T>(seed: u64, run: impl AsyncFnOnce(Arc<World>) -> Result<T>) -> Result<T> {
    // The layer's and the SDK's pauses are drawn on this thread.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        let (clock, hand) = Clock::simulated(UnixTime::from_seconds(BEGIN_SECONDS));
        let world = Arc::new(World {
            engine: Engine::memory()?,
            clock,
            time: Mutex::new(Time { hand, at: Instant::now() }),
            random: Mutex::new(Rng::with_seed(seed)),
            requests: AtomicU64::new(0),
        });
        let ticking = {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                loop {
                    sleep(TICK).await;
                    world.follow();
                }
            })
        };
        let done = run(world).await;
        ticking.abort();
        done
    })
}

impl World {
    /// The clock is where `tokio`'s time is.
    fn follow(&self) {
        let mut time = self.time.lock();
        let now = Instant::now();
        let passed = Duration::from_millis(now.duration_since(time.at).as_millis() as u64);
        time.hand.pass(passed);
        time.at += passed;
    }

    pub(super) fn rng(&self) -> Rng {
        self.random.lock().fork()
    }

    fn latency(&self) -> Duration {
        let drawn = self.random.lock().f64();
        LATENCY.0 + LATENCY.1.mul_f64(-(1.0 - drawn).ln())
    }

    /// The table as it is, past all that stands before it.
    pub(super) async fn table(&self) -> Result<System> {
        let store = Store::sharing(self.engine.clone(), self.clock.clone(), "the table".to_owned());
        Ok(System::open_with(schema()?, store, Environment::new()).await?)
    }

    /// From now on units run out.
    pub(super) fn throttle(&self) {
        self.engine.throttle(self.clock.clone());
    }

    /// A further process.
    pub(super) async fn process(self: &Arc<Self>, number: usize) -> Result<System> {
        let place = format!("process {number}");
        let store = Store::sharing(self.engine.clone(), self.clock.clone(), place.clone());
        let inside = store.inside().context("the store is in this process")?;
        let lacks = store.lacks().await?.clone();
        let wire = Arc::new(Wire { world: Arc::clone(self), below: inside });
        let through = Store::through(wire, self.clock.clone(), place.clone(), lacks);
        let client = through.sdk_client().await?;
        let quota = RetryPartition::custom(place.clone()).build();
        let client = Client::from_conf(client.config().to_builder().retry_partition(quota).build());
        let below = Arc::clone(Store::on_client(client).backend());
        let process = Process { world: Arc::clone(self), place, below, table: Arc::clone(store.backend()) };
        Ok(System::open_with(schema()?, Store::on(Arc::new(process)), Environment::new()).await?)
    }

    pub(super) async fn processes(self: &Arc<Self>, count: usize) -> Result<Vec<System>> {
        let mut processes = Vec::with_capacity(count);
        for number in 0..count {
            processes.push(self.process(number).await?);
        }
        Ok(processes)
    }

    pub(super) fn asked(&self) -> Result<Asked> {
        let mut text = Exposition::default();
        self.engine.expose(&mut text)?;
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for line in text.finish().lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            let value = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0);
            *sums.entry(name.to_owned()).or_default() += value;
        }
        let of = |name: &str| sums.get(name).copied().unwrap_or(0.0);
        Ok(Asked {
            requests: self.requests.load(Ordering::Relaxed),
            read_units: of("larder_consumed_read_capacity_units_total"),
            write_units: of("larder_consumed_write_capacity_units_total"),
            throttled: of("larder_throttled_requests_total") as u64,
            conditions_failed: of("larder_conditional_check_failed_requests_total") as u64,
        })
    }
}

pub(super) fn shelf(system: &System, entity: &str) -> Result<Shelf<Entry>> {
    system.entries(entity).with_context(|| format!("scale.larder has no entity {entity}"))
}

fn schema() -> Result<Schema> {
    let loaded = Schema::load("scale.larder", SCHEMA, &mut larder_schema::NoFiles, &Environment::new());
    let faults = loaded.diagnostics;
    loaded.schema.with_context(|| format!("scale.larder is wrong: {faults:?}"))
}

/// The way to the table and back.
#[derive(Debug)]
struct Wire {
    world: Arc<World>,
    below: Arc<dyn Inside>,
}

#[async_trait]
impl Inside for Wire {
    async fn answer(&self, target: &str, body: &[u8]) -> Result<Vec<u8>, ApiError> {
        let way = self.world.latency() / 2;
        sleep(way).await;
        self.world.follow();
        self.world.requests.fetch_add(1, Ordering::Relaxed);
        // Here and now: no time passes while the table works.
        let answer = pollster::block_on(self.below.answer(target, body));
        sleep(way).await;
        self.world.follow();
        answer
    }

    async fn look_back(
        &self,
        table: &TableName,
        key: Option<Item>,
        before: Option<u64>,
        most: usize,
    ) -> Result<Lookback, Error> {
        self.below.look_back(table, key, before, most).await
    }

    fn expiring(&self, table: &TableName, seconds: i64, most: usize) -> Result<Option<u64>, Error> {
        self.below.expiring(table, seconds, most)
    }
}

/// The store of one process: the SDK, by the clock of the simulation.
#[derive(Debug)]
struct Process {
    world: Arc<World>,
    place: String,
    below: Arc<dyn Backend>,
    table: Arc<dyn Backend>,
}

#[async_trait]
impl Backend for Process {
    fn place(&self) -> String {
        self.place.clone()
    }

    async fn lacks(&self) -> Result<&Lacks, Error> {
        self.table.lacks().await
    }

    fn limited(&self, limits: &larder_schema::schema::StoreLimits) -> Option<Arc<dyn Backend>> {
        let below = self.below.limited(limits)?;
        let (world, table) = (Arc::clone(&self.world), Arc::clone(&self.table));
        Some(Arc::new(Self { world, place: self.place.clone(), below, table }))
    }

    async fn list_tables(&self) -> Result<Vec<TableName>, Error> {
        self.table.list_tables().await
    }

    async fn describe(&self, table: &TableName) -> Result<Option<Deployed>, Error> {
        self.table.describe(table).await
    }

    async fn create_table(&self, definition: &TableDefinition) -> Result<(), Error> {
        self.table.create_table(definition).await
    }

    async fn change_table(&self, table: &TableName, change: &TableChange) -> Result<(), Error> {
        self.table.change_table(table, change).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<(), Error> {
        self.table.delete_table(table).await
    }

    async fn execute(&self, request: Request) -> Result<Response, Error> {
        self.below.execute(request).await
    }

    fn clock(&self) -> &Clock {
        self.world.follow();
        &self.world.clock
    }

    async fn pause(&self, asked: u32) -> Result<(), Error> {
        self.table.pause(asked).await
    }
}
