//! What was asked of each table, in CloudWatch's terms.
//!
//! A table's record hangs on the table, so whoever has found the table has found its counters: there is no map of names
//! to lock. Reading an item takes no lock and allocates nothing for them, and writes to no memory that all threads write to. Names that are no table's are counted
//! without one, so nobody can make up labels; a dropped table takes its record along.
//!
//! As on CloudWatch, a condition that failed is no user error (a transaction that was cancelled is one), and consumes
//! what the item it met would cost to write; units of a local index are its table's; only Query and Scan return
//! items; an item that expires costs nothing. An operation on several tables is timed once for each. Transactions
//! wait for each other and never conflict.
//!
//! The engine reads no time of day; how long something took is measured with a monotonic clock.

use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use larder_model::metrics::{Exposition, Histogram};
use larder_model::{ApiError, CancellationReason, IndexName};
use parking_lot::RwLock;

pub use larder_ops::Operation;

use crate::catalog::Table;
use crate::ops::UnitKind;
use crate::throttle::Buckets;
use crate::{Engine, Error, timeline};

const ITEM_OPERATIONS: usize = Operation::OF_ITEMS;
const OPERATIONS: usize = Operation::ALL.len();

/// One operation, on one table or on none, as counted by some of the threads.
#[derive(Debug, Default)]
// Not on a cache line with another thread's.
#[repr(align(128))]
pub(crate) struct Counters {
    latency: Histogram,
    read_halves: AtomicU64,
    write_halves: AtomicU64,
    returned: AtomicU64,
    user_errors: AtomicU64,
    system_errors: AtomicU64,
    throttled: AtomicU64,
    conditions_failed: AtomicU64,
}

impl Counters {
    /// Units are whole or halves.
    pub(crate) fn consume(&self, kind: UnitKind, units: f64) {
        let counter = match kind {
            UnitKind::Read => &self.read_halves,
            UnitKind::Write => &self.write_halves,
        };
        add(counter, (units * 2.0) as u64);
    }

    pub(crate) fn returned(&self, items: usize) {
        add(&self.returned, items as u64);
    }

    fn condition_failed(&self) {
        add(&self.conditions_failed, 1);
    }

    fn fail(&self, fault: Fault) {
        let counter = match fault {
            Fault::Condition => &self.conditions_failed,
            Fault::User => &self.user_errors,
            Fault::Throttled => &self.throttled,
            Fault::System => &self.system_errors,
        };
        add(counter, 1);
    }
}

/// One operation, on one table or on none. Threads count apart, so that no cache line goes from core to core with every
/// request; whoever wants to know adds up.
#[derive(Debug, Default)]
struct Striped([OnceLock<Box<Counters>>; STRIPES]);

const STRIPES: usize = 8;

/// Threads that have counted something, so that each has a stripe that few others have.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: usize = THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES;
}

impl Striped {
    /// Those of this thread.
    fn own(&self) -> &Counters {
        self.0[STRIPE.with(|stripe| *stripe)].get_or_init(Box::default)
    }

    fn sum(&self) -> Counters {
        let sum = Counters::default();
        for counters in self.0.iter().filter_map(OnceLock::get) {
            let Counters {
                latency,
                read_halves,
                write_halves,
                returned,
                user_errors,
                system_errors,
                throttled,
                conditions_failed,
            } = &**counters;
            sum.latency.add(latency);
            add(&sum.read_halves, read(read_halves));
            add(&sum.write_halves, read(write_halves));
            add(&sum.returned, read(returned));
            add(&sum.user_errors, read(user_errors));
            add(&sum.system_errors, read(system_errors));
            add(&sum.throttled, read(throttled));
            add(&sum.conditions_failed, read(conditions_failed));
        }
        sum
    }
}

fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Whose fault it is.
#[derive(Clone, Copy)]
enum Fault {
    Condition,
    User,
    Throttled,
    System,
}

impl From<&ApiError> for Fault {
    fn from(error: &ApiError) -> Self {
        match error {
            ApiError::ConditionalCheckFailed { .. } | ApiError::DuplicateItem => Self::Condition,
            ApiError::Throttled | ApiError::Exceeded(_) => Self::Throttled,
            ApiError::Internal { .. } => Self::System,
            _ => Self::User,
        }
    }
}

impl From<&Error> for Fault {
    fn from(error: &Error) -> Self {
        match error {
            Error::Api(error) => error.into(),
            Error::Key(_) | Error::Expression(_) | Error::Statement(_) => Self::User,
            Error::Storage(larder_storage::Error::Busy { .. }) => Self::Throttled,
            Error::Storage(_)
            | Error::Item(_)
            | Error::Record(_)
            | Error::Damaged(_)
            | Error::Unreadable { .. }
            | Error::Newer { .. } => Self::System,
        }
    }
}

/// What was asked of one table.
#[derive(Default)]
pub(crate) struct TableMetrics {
    operations: [OnceLock<Box<Striped>>; ITEM_OPERATIONS],
    indexes: RwLock<Vec<(IndexName, IndexUnits)>>,
    expired: AtomicU64,
    pub(crate) buckets: Buckets,
}

/// Units of a global index in halves, read and written, by operation.
type IndexUnits = [[AtomicU64; 2]; ITEM_OPERATIONS];

impl fmt::Debug for TableMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableMetrics").finish_non_exhaustive()
    }
}

impl TableMetrics {
    /// The counters of an operation on items.
    pub(crate) fn of(&self, operation: Operation) -> &Counters {
        self.operations[operation as usize].get_or_init(Box::default).own()
    }

    pub(crate) fn consume_of_index(
        &self,
        operation: Operation,
        kind: UnitKind,
        index: &IndexName,
        units: f64,
    ) {
        let halves = (units * 2.0) as u64;
        let find = |indexes: &[(IndexName, IndexUnits)]| {
            let (_, units) = indexes.iter().find(|(name, _)| name == index)?;
            add(&units[operation as usize][kind as usize], halves);
            Some(())
        };
        if find(&self.indexes.read()).is_some() {
            return;
        }
        let mut indexes = self.indexes.write();
        if find(&indexes).is_none() {
            indexes.push((index.clone(), Default::default()));
            find(&indexes);
        }
    }

    /// Counts an item of a batch or a transaction for which there was no throughput.
    pub(crate) fn left_out(&self, operation: Operation) {
        self.of(operation).fail(Fault::Throttled);
    }

    /// Counts a part of a batch that failed by itself, if there was no throughput for it.
    pub(crate) fn part_failed(&self, operation: Operation, error: &Error) {
        if let Fault::Throttled = error.into() {
            self.left_out(operation);
        }
    }

    pub(crate) fn expired(&self) {
        add(&self.expired, 1);
    }
}

/// What was asked of no table in particular, and since when anything is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    operations: [OnceLock<Box<Striped>>; OPERATIONS],
    begun: Instant,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { operations: std::array::from_fn(|_| OnceLock::new()), begun: Instant::now() }
    }
}

impl Metrics {
    fn of(&self, operation: Operation) -> &Counters {
        self.operations[operation as usize].get_or_init(Box::default).own()
    }
}

/// A request that is being answered.
pub(crate) struct Stopwatch<'a> {
    metrics: &'a Metrics,
    operation: Operation,
    begun: Instant,
}

impl Stopwatch<'_> {
    /// What was looked for; that it is not there is counted without a table.
    pub(crate) fn found<T>(&self, found: Result<T, Error>) -> Result<T, Error> {
        found.inspect_err(|error| self.metrics.of(self.operation).fail(error.into()))
    }

    /// The end of an operation on one table.
    pub(crate) fn end<T>(self, table: &Table, outcome: Result<T, Error>) -> Result<T, Error> {
        self.end_on(&table.metrics, outcome)
    }

    /// The same, of a table that is counted there.
    pub(crate) fn end_on<T>(self, metrics: &TableMetrics, outcome: Result<T, Error>) -> Result<T, Error> {
        self.end_of(std::iter::once(metrics), outcome)
    }

    /// The end of an operation on several tables, one for each of its items. When one is not there, the fault is
    /// counted without a table.
    pub(crate) fn end_all<T>(
        self,
        tables: &[Option<Arc<Table>>],
        outcome: Result<T, Error>,
    ) -> Result<T, Error> {
        if tables.iter().any(Option::is_none) {
            return self.found(outcome);
        }
        let mut distinct: Vec<&TableMetrics> = Vec::new();
        for table in tables.iter().flatten() {
            if !distinct.iter().any(|known| std::ptr::eq(*known, &*table.metrics)) {
                distinct.push(&table.metrics);
            }
        }
        if let Err(Error::Api(ApiError::TransactionCanceled { reasons })) = &outcome {
            for (table, reason) in tables.iter().flatten().zip(reasons) {
                match reason.code {
                    CancellationReason::CONDITION => table.metrics.of(self.operation).condition_failed(),
                    CancellationReason::THROUGHPUT | CancellationReason::THROTTLED => {
                        table.metrics.left_out(self.operation);
                    }
                    _ => {}
                }
            }
        }
        self.end_of(distinct.into_iter(), outcome)
    }

    fn end_of<'t, T>(
        self,
        tables: impl Iterator<Item = &'t TableMetrics>,
        outcome: Result<T, Error>,
    ) -> Result<T, Error> {
        match &outcome {
            Ok(_) => {
                let took = self.begun.elapsed();
                tables.for_each(|table| table.of(self.operation).latency.record(took));
            }
            Err(error) => tables.for_each(|table| table.of(self.operation).fail(error.into())),
        }
        outcome
    }

    /// The end of an operation that is on no items.
    pub(crate) fn end_other<T>(self, outcome: &Result<T, ApiError>) {
        let counters = self.metrics.of(self.operation);
        match outcome {
            Ok(_) => counters.latency.record(self.begun.elapsed()),
            Err(error) => counters.fail(error.into()),
        }
    }
}

impl Engine {
    pub(crate) fn watch(&self, operation: Operation) -> Stopwatch<'_> {
        Stopwatch { metrics: &self.metrics, operation, begun: Instant::now() }
    }

    /// Counts a request that was refused before it got here.
    pub fn count_refused(&self, operation: Operation, error: &ApiError) {
        self.metrics.of(operation).fail(error.into());
    }

    /// How long it has been counting: since the store was opened.
    pub fn counting_for(&self) -> Duration {
        self.metrics.begun.elapsed()
    }

    /// Writes everything that was counted.
    pub fn expose(&self, text: &mut Exposition) -> Result<(), Error> {
        let tables: Vec<Arc<Table>> = self.catalog()?.tables().cloned().collect();
        let of_tables = tables.iter().flat_map(|table| {
            let of = table.metrics.operations.iter().zip(Operation::ALL);
            of.filter_map(|(counters, operation)| {
                Some((table.name().qualified(), *operation, counters.get()?.sum()))
            })
        });
        let others = self.metrics.operations.iter().zip(Operation::ALL);
        let others = others.filter_map(|(counters, operation)| Some(("", *operation, counters.get()?.sum())));
        let counted: Vec<(&str, Operation, Counters)> = of_tables.chain(others).collect();
        let rows = || counted.iter().map(|(table, operation, counters)| (*table, *operation, counters));
        for (kind, name, help) in [
            (
                UnitKind::Read,
                "larder_consumed_read_capacity_units_total",
                "Read capacity units consumed; those of a global index under its name.",
            ),
            (
                UnitKind::Write,
                "larder_consumed_write_capacity_units_total",
                "Write capacity units consumed; those of a global index under its name.",
            ),
        ] {
            let mut family = text.counter(name, help);
            for (table, operation, counters) in rows().filter(|(table, ..)| !table.is_empty()) {
                let halves = read(match kind {
                    UnitKind::Read => &counters.read_halves,
                    UnitKind::Write => &counters.write_halves,
                });
                if (operation.units() == kind && !operation.is_of_either_kind()) || halves > 0 {
                    let labels = [("table", table), ("operation", operation.name())];
                    family.sample(&labels, halves as f64 / 2.0);
                }
            }
            for table in &tables {
                for (index, units) in &*table.metrics.indexes.read() {
                    for (halves, operation) in units.iter().zip(Operation::ALL) {
                        let halves = &halves[kind as usize];
                        if read(halves) > 0 {
                            let labels = [
                                ("table", table.name().qualified()),
                                ("operation", operation.name()),
                                ("index", index.as_str()),
                            ];
                            family.sample(&labels, read(halves) as f64 / 2.0);
                        }
                    }
                }
            }
        }
        let mut latency = text.histogram(
            "larder_successful_request_latency_seconds",
            "How long successful requests took in the store.",
        );
        for (table, operation, counters) in rows().filter(|(.., counters)| counters.latency.count() > 0) {
            latency.sample(&[("table", table), ("operation", operation.name())], &counters.latency);
        }
        type Chosen = fn(Operation, &Counters) -> Option<u64>;
        let plain: [(&'static str, &'static str, Chosen); 6] = [
            (
                "larder_returned_item_count_total",
                "Items returned by Query and Scan.",
                |operation, counters| {
                    matches!(operation, Operation::Query | Operation::Scan).then(|| read(&counters.returned))
                },
            ),
            (
                "larder_user_errors_total",
                "Requests refused with a client error, other than failed conditions and throttles.",
                |_, counters| Some(read(&counters.user_errors)),
            ),
            (
                "larder_system_errors_total",
                "Requests that failed through no fault of the client.",
                |_, counters| Some(read(&counters.system_errors)),
            ),
            (
                "larder_throttled_requests_total",
                "Requests turned away because there was no throughput for them or too many writes were waiting; items that a batch left out for that.",
                |_, counters| Some(read(&counters.throttled)),
            ),
            (
                "larder_conditional_check_failed_requests_total",
                "Conditional writes whose condition did not hold.",
                |operation, counters| {
                    operation.writes_conditionally().then(|| read(&counters.conditions_failed))
                },
            ),
            (
                "larder_transaction_conflict_total",
                "Items refused because of a concurrent transaction; they wait for each other here, so there are none.",
                |operation, _| {
                    matches!(operation, Operation::TransactGetItems | Operation::TransactWriteItems)
                        .then_some(0)
                },
            ),
        ];
        for (name, help, chosen) in plain {
            let mut family = text.counter(name, help);
            for (table, operation, counters) in rows() {
                if let Some(value) = chosen(operation, counters) {
                    family.sample(&[("table", table), ("operation", operation.name())], value);
                }
            }
        }
        let mut expired = text
            .counter("larder_time_to_live_deleted_items_total", "Items removed because they had expired.");
        for table in tables.iter().filter(|table| table.expiry.is_some() || read(&table.metrics.expired) > 0)
        {
            expired.sample(&[("table", table.name().qualified())], read(&table.metrics.expired));
        }
        let [_, bytes] = timeline::history(&self.store.snapshot())?;
        text.gauge(
            "larder_history_bytes",
            "What the change log takes: of streams, recovery and backups being made.",
        )
        .sample(&[], u64::try_from(bytes).unwrap_or(0));
        if self.history.limit() < u64::MAX {
            text.gauge("larder_history_limit_bytes", "What it may take.").sample(&[], self.history.limit());
        }
        text.counter(
            "larder_history_cut_bytes_total",
            "What was removed from it early, to stay within the limit; recovery reaches less far back.",
        )
        .sample(&[], self.history.cut());
        let mut jumps = text.counter(
            "larder_clock_jumps_total",
            "Jumps of the clock: doubted when they are seen; then recovered, if the clock came back, or followed.",
        );
        for (outcome, count) in self.time.jumps() {
            jumps.sample(&[("outcome", outcome)], count);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_count_apart_adds_up() {
        let striped = Striped::default();
        std::thread::scope(|scope| {
            for thread in 1..=20 {
                let striped = &striped;
                scope.spawn(move || {
                    striped.own().latency.record(Duration::from_millis(1));
                    striped.own().consume(UnitKind::Read, 0.5);
                    striped.own().consume(UnitKind::Write, 1.0);
                    striped.own().returned(thread);
                    [Fault::Condition, Fault::User, Fault::Throttled, Fault::System]
                        .into_iter()
                        .for_each(|fault| striped.own().fail(fault));
                });
            }
        });
        let sum = striped.sum();
        assert_eq!(sum.latency.count(), 20);
        assert_eq!([&sum.read_halves, &sum.write_halves, &sum.returned].map(read), [20, 40, 210]);
        let failures = [&sum.user_errors, &sum.system_errors, &sum.throttled, &sum.conditions_failed];
        assert_eq!(failures.map(read), [20; 4]);
    }

    #[test]
    fn operations_on_items_come_first_reads_before_writes() {
        let of_items = Operation::ALL.iter().filter(|operation| operation.is_of_items()).count();
        assert_eq!(of_items, ITEM_OPERATIONS);
        assert!(Operation::ExecuteTransaction.is_of_items() && !Operation::CreateTable.is_of_items());
        assert_eq!(Operation::TransactGetItems.units(), UnitKind::Read);
        assert_eq!(Operation::PutItem.units(), UnitKind::Write);
        assert_eq!(Operation::named("Query"), Operation::Query);
        assert_eq!(Operation::named("query"), Operation::Unknown);
    }
}
