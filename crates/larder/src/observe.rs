//! What the layer tells about itself: events, metrics, and CloudWatch's embedded metric format.
//!
//! Events are `tracing`'s, with the fields `system`, `entity`, `cache_key`, `latency_ms`, `origin`, `reason` and
//! `ttl_hours`. Queries are written against their texts: `Cache hit`, `Cache miss`, `Cache saved`, `Cache invalidated`.
//! What the schema lists under `log` is told at `INFO`, the rest at `DEBUG`, failures at `WARN` and losses at
//! `ERROR`. Keys are told, values never.
//!
//! Metrics go to whatever recorder of the `metrics` crate is installed when an entity is first used; without one
//! they cost next to nothing. [`prometheus`] gives the same counts as text, without any recorder. Embedded metrics are lines of JSON for the writer that
//! [`System::emf_to`](crate::System::emf_to) sets, under the names that the schema gives.

pub mod emf;
mod text;

use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use larder_model::metrics::Histogram as Latencies;
use larder_model::{Number, UnixTime};
use larder_schema::Entity;
use larder_schema::schema::{LogEvent, MetricKind, Metrics, Writes};
use metrics::{Counter, Gauge, Histogram};
use parking_lot::Mutex;
use tracing::{debug, error, info, warn};

use crate::{Origin, Schema};

/// Hits in L1 from one that is measured to the next.
const HITS_BETWEEN: u64 = 16;

pub use text::prometheus;

/// Where embedded metrics are written.
#[derive(Default)]
pub(crate) struct Sink {
    is_set: AtomicBool,
    writer: Mutex<Option<Box<dyn Write + Send>>>,
}

impl Sink {
    pub(crate) fn set(&self, writer: Box<dyn Write + Send>) {
        *self.writer.lock() = Some(writer);
        self.is_set.store(true, Ordering::Release);
    }

    fn write(&self, line: &str) {
        if let Some(writer) = self.writer.lock().as_mut() {
            // Nobody waits for metrics, and there is nobody to tell of their loss.
            let _ = writeln!(writer, "{line}").and_then(|()| writer.flush());
        }
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("is_set", &self.is_set).finish_non_exhaustive()
    }
}

/// Tells what happens to one entity.
#[derive(Debug)]
pub(crate) struct Observer {
    system: String,
    entity: String,
    log: Vec<LogEvent>,
    logs_hits: bool,
    /// Dollars a call of the source, in millionths.
    call_microdollars: Option<u64>,
    metrics: Option<Metrics>,
    sink: Arc<Sink>,
    meters: OnceLock<Meters>,
    counts: Counts,
    /// How many writes wait, where they do.
    queue: Option<AtomicU64>,
    /// Leases that ran out, by lifecycle.
    stuck: Vec<(String, AtomicU64)>,
}

/// What a program can ask for without a recorder of metrics.
#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    calls_saved: AtomicU64,
    loads: AtomicU64,
    load_failures: AtomicU64,
    store_errors: AtomicU64,
    writes: AtomicU64,
    writes_lost: AtomicU64,
    unread: AtomicU64,
    latency: Latencies,
    /// How long the last measured hit in L1 took; 0 before the first.
    hit_nanos: AtomicU64,
}

/// What happened to an entity in this process so far.
///
/// ```
/// # use larder::{Environment, Fields, Schema, Store, System, Value};
/// # use larder_schema::NoFiles;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let text = "system pages\nsource web { cost $0.01 per call }\ntable pages {\n  key pk\n  ttl ttl\n  entity Page from web {\n    key \"PAGE#{id}\"\n    ttl 1h\n    input id: string nonempty\n    text: string\n  }\n}\n";
/// # let schema = Schema::load("pages.larder", text, &mut NoFiles, &Environment::new()).schema.unwrap();
/// # let system = System::open(schema, Store::memory().await).await?;
/// # let pages = system.entries("Page").unwrap();
/// # let load = |_: Fields| async { Ok::<_, std::io::Error>(Fields::from([("text".to_owned(), Value::from("once"))])) };
/// for _ in 0..4 {
///     pages.fetch(Fields::from([("id".to_owned(), Value::from("1"))]), load).await?;
/// }
/// let stats = pages.stats();
/// assert_eq!((stats.hits, stats.loads), (3, 1));
/// assert_eq!(stats.hit_rate(), 0.75);
/// assert_eq!(stats.dollars_saved(), 0.03);
/// # Ok::<(), larder::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Reads that were answered without the source.
    pub hits: u64,
    /// Reads that were not. Those who wait for one load are a miss each, and so are those who are given what is past its
    /// time because the source failed or was slow.
    pub misses: u64,
    /// Calls of the source that hits made unnecessary: a hit that begins a refresh does not, nor does any without a source.
    pub calls_saved: u64,
    /// Calls of the source, each try counted.
    pub loads: u64,
    /// Those that failed, or gave something that is not a record.
    pub load_failures: u64,
    /// Requests that the store failed at.
    pub store_errors: u64,
    /// Writes of what was fetched or written behind.
    pub writes: u64,
    /// Writes behind that will not happen.
    pub writes_lost: u64,
    /// Records that a listing or a worker left out because they cannot be read.
    pub unread: u64,
    /// What a call of the source costs, in millionths of a dollar.
    pub call_microdollars: u64,
}

impl Stats {
    /// The share of reads that were hits; 0 before the first read.
    pub fn hit_rate(&self) -> f64 {
        match self.hits + self.misses {
            0 => 0.0,
            reads => self.hits as f64 / reads as f64,
        }
    }

    /// What the calls would have cost that hits made unnecessary.
    pub fn dollars_saved(&self) -> f64 {
        (self.calls_saved * self.call_microdollars) as f64 / 1e6
    }

    /// What the loads cost.
    pub fn dollars_spent(&self) -> f64 {
        (self.loads * self.call_microdollars) as f64 / 1e6
    }
}

struct Meters {
    hits: Counter,
    misses: Counter,
    read_seconds: Histogram,
    store_errors: Counter,
    loads: Counter,
    load_failures: Counter,
    load_seconds: Histogram,
    spent_microdollars: Counter,
    calls_saved: Counter,
    saved_microdollars: Counter,
    writes: Counter,
    writes_lost: Counter,
    unread: Counter,
    queue_depth: Gauge,
}

impl fmt::Debug for Meters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meters").finish_non_exhaustive()
    }
}

impl Observer {
    pub(crate) fn new(schema: &Schema, entity: &Entity, sink: Arc<Sink>) -> Self {
        let source =
            entity.source.as_ref().and_then(|name| schema.sources.iter().find(|source| source.name == *name));
        Self {
            system: schema.system.clone(),
            entity: entity.name.clone(),
            log: entity.policy.log.clone(),
            logs_hits: entity.policy.log.contains(&LogEvent::Hit),
            call_microdollars: source.map(|source| source.cost.as_ref().map_or(0, microdollars)),
            metrics: schema.metrics.clone(),
            sink,
            meters: OnceLock::new(),
            counts: Counts::default(),
            queue: matches!(entity.policy.writes, Writes::Behind { .. }).then(AtomicU64::default),
            stuck: entity
                .lifecycles
                .iter()
                .filter(|lifecycle| lifecycle.states.iter().any(|state| state.lease_millis.is_some()))
                .map(|lifecycle| (lifecycle.name.clone(), AtomicU64::default()))
                .collect(),
        }
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self {
            system: "tests".to_owned(),
            entity: "Entity".to_owned(),
            log: Vec::new(),
            logs_hits: false,
            call_microdollars: None,
            metrics: None,
            sink: Arc::default(),
            meters: OnceLock::new(),
            counts: Counts::default(),
            queue: None,
            stuck: Vec::new(),
        }
    }

    pub(crate) fn span(&self, call: &'static str, key: &str) -> tracing::Span {
        let (system, entity) = (&*self.system, &*self.entity);
        tracing::debug_span!("larder", call, system, entity, cache_key = key)
    }

    /// A read that was answered without the source, or with an absence that was remembered. It saved a call, unless it
    /// began a refresh.
    pub(crate) fn hit(
        &self,
        key: &str,
        origin: &dyn fmt::Display,
        is_saved: bool,
        latency: Duration,
        now: UnixTime,
    ) {
        let saved = self.count_hit(is_saved, latency);
        self.tell_hit(key, origin, saved, latency, now);
    }

    /// When a hit in L1 begins, if that is looked at. Two looks at the clock take longer than all the rest of it, so every
    /// sixteenth is measured, and those after it count as long.
    pub(crate) fn begin_hit(&self) -> Option<Instant> {
        let hits = self.counts.hits.load(Ordering::Relaxed);
        (hits.is_multiple_of(HITS_BETWEEN) || self.counts.hit_nanos.load(Ordering::Relaxed) == 0)
            .then(Instant::now)
    }

    /// A read that L1 answered. What it is about is made only if somebody is told.
    pub(crate) fn hit_in_l1(&self, key: impl FnOnce() -> String, started: Option<Instant>, now: UnixTime) {
        let latency = match started {
            Some(started) => {
                let latency = started.elapsed();
                let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1);
                self.counts.hit_nanos.store(nanos, Ordering::Relaxed);
                latency
            }
            None => Duration::from_nanos(self.counts.hit_nanos.load(Ordering::Relaxed)),
        };
        let saved = self.count_hit(true, latency);
        let is_embedded = self.metrics.is_some() && self.sink.is_set.load(Ordering::Acquire);
        if is_embedded || self.logs_hits || tracing::enabled!(tracing::Level::DEBUG) {
            self.tell_hit(&key(), &Origin::L1, saved, latency, now);
        }
    }

    /// How many calls it saved.
    fn count_hit(&self, is_saved: bool, latency: Duration) -> f64 {
        let meters = self.meters();
        meters.hits.increment(1);
        add(&self.counts.hits, 1);
        self.counts.latency.record(latency);
        meters.read_seconds.record(latency);
        let (Some(cost), true) = (self.call_microdollars, is_saved) else { return 0.0 };
        add(&self.counts.calls_saved, 1);
        meters.calls_saved.increment(1);
        meters.saved_microdollars.increment(cost);
        1.0
    }

    fn tell_hit(&self, key: &str, origin: &dyn fmt::Display, saved: f64, latency: Duration, now: UnixTime) {
        let (system, entity, latency_ms) = (&*self.system, &*self.entity, in_millis(latency));
        if self.logs_hits {
            info!(system, entity, cache_key = key, latency_ms, %origin, "Cache hit");
        } else {
            debug!(system, entity, cache_key = key, latency_ms, %origin, "Cache hit");
        }
        let values = [(MetricKind::Hit, 1.0), (MetricKind::Saved, saved), (MetricKind::Latency, latency_ms)];
        self.embed(key, &values, now);
    }

    /// A read that was not.
    pub(crate) fn miss(&self, key: &str, reason: &str, latency: Duration, now: UnixTime) {
        let meters = self.meters();
        meters.misses.increment(1);
        add(&self.counts.misses, 1);
        self.counts.latency.record(latency);
        meters.read_seconds.record(latency);
        let (system, entity, latency_ms) = (&*self.system, &*self.entity, in_millis(latency));
        if self.log.contains(&LogEvent::Miss) {
            info!(system, entity, cache_key = key, latency_ms, reason, "Cache miss");
        } else {
            debug!(system, entity, cache_key = key, latency_ms, reason, "Cache miss");
        }
        self.embed(key, &[(MetricKind::Miss, 1.0), (MetricKind::Latency, latency_ms)], now);
    }

    /// The store failed, and the call continued without it.
    pub(crate) fn store_failed(
        &self,
        key: &str,
        doing: &'static str,
        reason: &dyn fmt::Display,
        now: UnixTime,
    ) {
        self.meters().store_errors.increment(1);
        add(&self.counts.store_errors, 1);
        let (system, entity) = (&*self.system, &*self.entity);
        warn!(system, entity, cache_key = key, doing, %reason, "store failed");
        self.embed(key, &[(MetricKind::Error, 1.0)], now);
    }

    /// Something was returned and not stored, because it is too large.
    pub(crate) fn oversize(&self, key: &str, reason: &dyn fmt::Display) {
        let (system, entity) = (&*self.system, &*self.entity);
        warn!(system, entity, cache_key = key, %reason, "too large to be stored");
    }

    /// The source was called.
    pub(crate) fn loaded(&self, key: &str, latency: Duration, failure: Option<&str>) {
        let meters = self.meters();
        meters.loads.increment(1);
        add(&self.counts.loads, 1);
        meters.load_seconds.record(latency);
        meters.spent_microdollars.increment(self.call_microdollars.unwrap_or(0));
        let (system, entity, latency_ms) = (&*self.system, &*self.entity, in_millis(latency));
        match failure {
            Some(reason) => {
                meters.load_failures.increment(1);
                add(&self.counts.load_failures, 1);
                warn!(system, entity, cache_key = key, latency_ms, reason, "source failed");
            }
            None if self.log.contains(&LogEvent::Load) => {
                info!(system, entity, cache_key = key, latency_ms, "loaded");
            }
            None => debug!(system, entity, cache_key = key, latency_ms, "loaded"),
        }
    }

    /// The source gave something that is not a record.
    pub(crate) fn refused(&self, key: &str, reason: &dyn fmt::Display) {
        self.meters().load_failures.increment(1);
        add(&self.counts.load_failures, 1);
        let (system, entity) = (&*self.system, &*self.entity);
        warn!(system, entity, cache_key = key, %reason, "value refused");
    }

    /// Counts a load in the embedded metrics: once for all its tries.
    pub(crate) fn load_ended(&self, key: &str, failed: bool, now: UnixTime) {
        let error = if failed { 1.0 } else { 0.0 };
        self.embed(key, &[(MetricKind::Load, 1.0), (MetricKind::Error, error)], now);
    }

    /// What was fetched or written behind is in the store, to live so long.
    pub(crate) fn written(&self, key: &str, ends: Option<UnixTime>, now: UnixTime) {
        self.meters().writes.increment(1);
        add(&self.counts.writes, 1);
        self.saved(key, ends, now);
        self.embed(key, &[(MetricKind::Write, 1.0)], now);
    }

    /// A record is in the store, to live so long.
    pub(crate) fn saved(&self, key: &str, ends: Option<UnixTime>, now: UnixTime) {
        let (system, entity) = (&*self.system, &*self.entity);
        let ttl_hours = ends.map(|ends| ends.seconds().saturating_sub(now.seconds()) as f64 / 3600.0);
        if self.log.contains(&LogEvent::Write) {
            info!(system, entity, cache_key = key, ttl_hours, "Cache saved");
        } else {
            debug!(system, entity, cache_key = key, ttl_hours, "Cache saved");
        }
    }

    /// Somebody asked for it to be gone.
    pub(crate) fn invalidated(&self, key: &str) {
        let (system, entity) = (&*self.system, &*self.entity);
        if self.log.contains(&LogEvent::Invalidate) {
            info!(system, entity, cache_key = key, "Cache invalidated");
        } else {
            debug!(system, entity, cache_key = key, "Cache invalidated");
        }
    }

    /// A write behind will not happen.
    pub(crate) fn lost(&self, key: &str, reason: &str, now: UnixTime) {
        self.meters().writes_lost.increment(1);
        add(&self.counts.writes_lost, 1);
        let (system, entity) = (&*self.system, &*self.entity);
        error!(system, entity, cache_key = key, reason, "write lost");
        self.embed(key, &[(MetricKind::Error, 1.0)], now);
    }

    /// A listing or a worker leaves out what it cannot read; it tells the first.
    pub(crate) fn unread(&self, key: &str, reason: &str, is_first: bool) {
        self.meters().unread.increment(1);
        add(&self.counts.unread, 1);
        if is_first {
            let (system, entity) = (&*self.system, &*self.entity);
            warn!(system, entity, cache_key = key, reason, "record left out: it cannot be read");
        }
    }

    /// The process lets go of writes that nobody drained.
    pub(crate) fn abandoned(&self, keys: &[String]) {
        self.meters().writes_lost.increment(keys.len() as u64);
        add(&self.counts.writes_lost, keys.len() as u64);
        let (system, entity, count) = (&*self.system, &*self.entity, keys.len());
        let cache_keys = keys.join(", ");
        error!(
            system,
            entity,
            count,
            cache_keys,
            reason = "the system was closed without a drain",
            "writes lost"
        );
    }

    pub(crate) fn stats(&self) -> Stats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.counts;
        Stats {
            hits: count(&counts.hits),
            misses: count(&counts.misses),
            calls_saved: count(&counts.calls_saved),
            loads: count(&counts.loads),
            load_failures: count(&counts.load_failures),
            store_errors: count(&counts.store_errors),
            writes: count(&counts.writes),
            writes_lost: count(&counts.writes_lost),
            unread: count(&counts.unread),
            call_microdollars: self.call_microdollars.unwrap_or(0),
        }
    }

    /// So many writes wait behind.
    pub(crate) fn queue_depth(&self, key: &str, depth: usize, now: UnixTime) {
        self.meters().queue_depth.set(depth as f64);
        if let Some(queue) = &self.queue {
            queue.store(depth as u64, Ordering::Relaxed);
        }
        self.embed(key, &[(MetricKind::Queue, depth as f64)], now);
    }

    /// A lease ran out, and somebody else goes on with the work.
    pub(crate) fn stuck(&self, lifecycle: &str, key: &str, owner: Option<&str>, now: UnixTime) {
        let (system, entity) = (&*self.system, &*self.entity);
        let labels = [("system", system), ("entity", entity), ("lifecycle", lifecycle)];
        metrics::counter!("larder_stuck_total", &labels.map(|(name, value)| (name, value.to_owned())))
            .increment(1);
        if let Some((_, count)) = self.stuck.iter().find(|(name, _)| name == lifecycle) {
            add(count, 1);
        }
        warn!(
            system,
            entity,
            lifecycle,
            cache_key = key,
            reason = "the lease ran out",
            owner,
            "work taken over"
        );
        self.embed(key, &[(MetricKind::Stuck, 1.0)], now);
    }

    fn embed(&self, key: &str, values: &[(MetricKind, f64)], now: UnixTime) {
        let Some(metrics) = &self.metrics else { return };
        if !self.sink.is_set.load(Ordering::Acquire) {
            return;
        }
        let about = [("System", &*self.system), ("Entity", &*self.entity), ("cache_key", key)];
        if let Some(line) = emf::line(metrics, &about[..2], &about[2..], values, now) {
            self.sink.write(&line);
        }
    }

    fn meters(&self) -> &Meters {
        self.meters.get_or_init(|| {
            let labels = [("system", self.system.clone()), ("entity", self.entity.clone())];
            Meters {
                hits: metrics::counter!("larder_cache_hits_total", &labels),
                misses: metrics::counter!("larder_cache_misses_total", &labels),
                read_seconds: metrics::histogram!("larder_cache_latency_seconds", &labels),
                store_errors: metrics::counter!("larder_store_errors_total", &labels),
                loads: metrics::counter!("larder_source_calls_total", &labels),
                load_failures: metrics::counter!("larder_source_failures_total", &labels),
                load_seconds: metrics::histogram!("larder_source_seconds", &labels),
                spent_microdollars: metrics::counter!("larder_source_microdollars_total", &labels),
                calls_saved: metrics::counter!("larder_saved_calls_total", &labels),
                saved_microdollars: metrics::counter!("larder_source_microdollars_saved_total", &labels),
                writes: metrics::counter!("larder_writes_total", &labels),
                writes_lost: metrics::counter!("larder_writes_lost_total", &labels),
                unread: metrics::counter!("larder_unreadable_records_total", &labels),
                queue_depth: metrics::gauge!("larder_queue_depth", &labels),
            }
        })
    }
}

fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

fn in_millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn microdollars(dollars: &Number) -> u64 {
    let dollars: f64 = dollars.to_string().parse().unwrap_or(0.0);
    // Prices are small and not negative; a cast saturates.
    (dollars * 1e6).round() as u64
}
