//! Throughput that is enforced, for those who ask for it: so that a hot key, or a table that is set too small, is found
//! before DynamoDB finds it.
//!
//! What can be used up is a bucket of units: those of a table, of each of its global indexes, and of each partition. It
//! fills by the second and keeps what is not used: five minutes' worth of provisioned units, a second's of all else. A new
//! table has a second's. Whoever finds something in it is let through and takes what they cost, more than there is if need
//! be; whoever finds nothing is turned away until it has filled again. A write that an index has no units for is not made
//! at all.
//!
//! A partition is all keys that are hashed to one place, so it is one partition key nearly always: DynamoDB, too, gives a hot
//! key a partition of its own in the end, and nothing more.
//!
//! Promises:
//! - Off, as it is unless [`Engine::throttle`] is called, it costs one look at whether it is on.
//! - What DynamoDB does for nothing, such as expiry, is never turned away and takes nothing.

use std::collections::HashMap;

use larder_model::{
    ApiError, Arn, Billing, Clock, Exceeded, IndexDefinition, IndexKind, IndexName, TableDefinition,
    Throughput,
};
use parking_lot::Mutex;

use crate::capacity::write_units;
use crate::catalog::{Index, Table};
use crate::index::{self, Content, Entry};
use crate::layout::{PARTITION_BYTES, TREE_PREFIX_BYTES};
use crate::write::Change;
use crate::{Engine, Error};

/// For how long provisioned units that nobody uses are kept.
const BURST_SECONDS: f64 = 300.0;
/// What one partition can be asked for in a second.
const PARTITION_UNITS: [f64; 2] = [3000.0, 1000.0];
/// What a table can be asked for in a second on demand, unless the account has more.
const ACCOUNT_UNITS: f64 = 40_000.0;
/// From so many on, partitions whose buckets are full are forgotten.
const PARTITIONS_KEPT: usize = 4096;

/// What is left of the units of one table.
#[derive(Debug, Default)]
pub(crate) struct Buckets(Mutex<Left>);

#[derive(Debug, Default)]
struct Left {
    buckets: HashMap<Resource, Bucket>,
    /// With more than these, and more than [`PARTITIONS_KEPT`], those of partitions are looked through.
    looked_through_at: usize,
}

impl Left {
    /// A partition that nobody asked for a second, and that owes nothing, is as one that nobody ever asked.
    fn forget_full(&mut self, millis: i64) {
        if self.buckets.len() <= self.looked_through_at.max(PARTITIONS_KEPT) {
            return;
        }
        self.buckets.retain(|resource, bucket| {
            let is_idle = millis - bucket.filled_millis >= 1000 && bucket.units >= 0.0;
            !(matches!(resource, Resource::Partition(..)) && is_idle)
        });
        // Twice as many, so that it is seldom done for nothing.
        self.looked_through_at = 2 * self.buckets.len();
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Resource {
    Table(Kind),
    Index(IndexName, Kind),
    Partition(Vec<u8>, Kind),
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Read,
    Write,
}

impl Resource {
    /// What anything costs at least: with less than that a bucket is empty.
    fn least(&self) -> f64 {
        match self {
            Self::Table(kind) | Self::Index(_, kind) | Self::Partition(_, kind) => match kind {
                Kind::Read => 0.5,
                Kind::Write => 1.0,
            },
        }
    }
}

#[derive(Debug)]
struct Bucket {
    units: f64,
    filled_millis: i64,
}

/// What fills a bucket, and what is said when it is empty.
struct Limit {
    units_per_second: f64,
    seconds: f64,
    /// As reasons of throttling call it.
    name: &'static str,
}

impl Kind {
    fn of(self, units: Throughput) -> f64 {
        match self {
            Self::Read => units.read as f64,
            Self::Write => units.write as f64,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::Write => "Write",
        }
    }
}

impl Limit {
    /// Of a table, or of one of its global indexes.
    fn of(definition: &TableDefinition, index: Option<&IndexDefinition>, kind: Kind) -> Self {
        if let Billing::Provisioned(units) = definition.billing {
            let units = index.map_or(units, |index| index.throughput);
            return Self {
                units_per_second: kind.of(units),
                seconds: BURST_SECONDS,
                name: "ProvisionedThroughputExceeded",
            };
        }
        let most = index.map_or(definition.on_demand_limits, |index| index.on_demand_limits);
        // A negative maximum is none.
        match most.map(|most| kind.of(most)).filter(|most| *most >= 0.0) {
            Some(most) => {
                Self { units_per_second: most, seconds: 1.0, name: "MaxOnDemandThroughputExceeded" }
            }
            None => Self { units_per_second: ACCOUNT_UNITS, seconds: 1.0, name: "AccountLimitExceeded" },
        }
    }

    fn of_partition(kind: Kind) -> Self {
        Self {
            units_per_second: PARTITION_UNITS[kind as usize],
            seconds: 1.0,
            name: "KeyRangeThroughputExceeded",
        }
    }

    /// In DynamoDB's words.
    fn exceeded(&self, definition: &TableDefinition, index: Option<&IndexName>, kind: Kind) -> Exceeded {
        let (code, message) = match (self.name, definition.billing, index) {
            ("KeyRangeThroughputExceeded", Billing::OnDemand, _) => (
                "ThrottlingException",
                "Throughput exceeds the current capacity of your table or index. DynamoDB is automatically scaling your \
                 table or index so please try again shortly. If exceptions persist, check if you have a hot key: \
                 https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html",
            ),
            ("MaxOnDemandThroughputExceeded", ..) => (
                "ThrottlingException",
                "Throughput exceeds the maximum OnDemandThroughput configured on table or index. Consider increasing it \
                 with the UpdateTable API.",
            ),
            ("AccountLimitExceeded", ..) => (
                "RequestLimitExceeded",
                "Throughput exceeds the current throughput limit for your account. Please contact AWS Support at \
                 https://aws.amazon.com/support to request a limit increase.",
            ),
            (_, _, Some(_)) => (
                "ProvisionedThroughputExceededException",
                "The level of configured provisioned throughput for one or more global secondary indexes of the table \
                 was exceeded. Consider increasing your provisioning level for the under-provisioned global secondary \
                 indexes with the UpdateTable API",
            ),
            (_, _, None) => (
                "ProvisionedThroughputExceededException",
                "The level of configured provisioned throughput for the table was exceeded. Consider increasing your \
                 provisioning level with the UpdateTable API.",
            ),
        };
        let place = if index.is_some() { "Index" } else { "Table" };
        Exceeded {
            code,
            message,
            reason: format!("{place}{}{}", kind.name(), self.name),
            resource: match index {
                Some(index) => Arn::index(&definition.name, index).to_string(),
                None => Arn::table(&definition.name).to_string(),
            },
        }
    }
}

impl Buckets {
    /// Whether something is left, as of `millis`. One that was never asked has filled since `since_millis`.
    fn has(&self, resource: Resource, limit: &Limit, since_millis: i64, millis: i64) -> bool {
        let most = limit.units_per_second * limit.seconds;
        let unused = (millis.saturating_sub(since_millis) as f64 / 1000.0).max(1.0) * limit.units_per_second;
        let least = resource.least();
        let mut left = self.0.lock();
        left.forget_full(millis);
        let new = Bucket { units: unused.min(most), filled_millis: millis };
        let bucket = left.buckets.entry(resource).or_insert(new);
        let passed = (millis - bucket.filled_millis).max(0) as f64 / 1000.0;
        bucket.units = (bucket.units + passed * limit.units_per_second).min(most);
        bucket.filled_millis = bucket.filled_millis.max(millis);
        bucket.units >= least
    }

    fn take(&self, resource: &Resource, units: f64) {
        if let Some(bucket) = self.0.lock().buckets.get_mut(resource) {
            bucket.units -= units;
        }
    }
}

impl Engine {
    /// Enforces throughput from now on, by the time of this clock.
    pub fn throttle(&self, clock: Clock) {
        let _ = self.throttle.set(clock);
    }

    pub fn is_throttling(&self) -> bool {
        self.throttle.get().is_some()
    }

    /// Turns away a read of a table or an index, of the partition that a stored key is in if it is of one. What it cost
    /// is known once it is done: [`read_from`](Self::read_from).
    pub(crate) fn admit_read(
        &self,
        table: &Table,
        index: Option<&IndexDefinition>,
        key: Option<&[u8]>,
    ) -> Result<(), Error> {
        let Some(clock) = self.throttle.get() else { return Ok(()) };
        let millis = clock.trusted().millis();
        let index = index.filter(|index| index.kind == IndexKind::Global);
        admit(table, index, Kind::Read, millis)?;
        key.map_or(Ok(()), |key| admit_partition(table, index, key, Kind::Read, millis))
    }

    /// Takes what a read cost.
    pub(crate) fn read_from(
        &self,
        table: &Table,
        index: Option<&IndexDefinition>,
        key: Option<&[u8]>,
        units: f64,
    ) {
        if !self.is_throttling() {
            return;
        }
        let index = index.filter(|index| index.kind == IndexKind::Global);
        table.metrics.buckets.take(&resource(index, Kind::Read), units);
        if let Some(key) = key {
            table.metrics.buckets.take(&partition(key, Kind::Read), units);
        }
    }

    /// Turns away a write that is charged although it is not made, since its condition does not hold; or takes its units.
    pub(crate) fn admit_condition(&self, table: &Table, key: &[u8], units: f64) -> Result<(), Error> {
        let Some(clock) = self.throttle.get() else { return Ok(()) };
        let millis = clock.trusted().millis();
        admit(table, None, Kind::Write, millis)?;
        admit_partition(table, None, key, Kind::Write, millis)?;
        take_write(table, key, units);
        Ok(())
    }

    /// Turns away a change for which the table, its partition or an index that it would change has no units; or takes
    /// them. `factor`: what a transaction multiplies the units of the table by.
    pub(crate) fn admit_write(&self, table: &Table, change: &Change, factor: f64) -> Result<(), Error> {
        let Some(clock) = self.throttle.get() else { return Ok(()) };
        let millis = clock.trusted().millis();
        admit(table, None, Kind::Write, millis)?;
        admit_partition(table, None, &change.key, Kind::Write, millis)?;
        let mut of_indexes = Vec::new();
        for place in table.indexes().filter(|place| place.definition.kind == IndexKind::Global) {
            let units = index_units(table, place, change);
            if units > 0.0 {
                admit(table, Some(place.definition), Kind::Write, millis)?;
                of_indexes.push((place.definition, units));
            }
        }
        take_write(table, &change.key, factor * change.write_units());
        for (index, units) in of_indexes {
            table.metrics.buckets.take(&resource(Some(index), Kind::Write), units);
        }
        Ok(())
    }
}

fn take_write(table: &Table, key: &[u8], units: f64) {
    table.metrics.buckets.take(&resource(None, Kind::Write), units);
    table.metrics.buckets.take(&partition(key, Kind::Write), units);
}

/// What a change costs an index: nothing when its entry stays as it is, both entries when it moves.
fn index_units(table: &Table, place: Index<'_>, change: &Change) -> f64 {
    let old = change.old.as_ref().map(|old| (&old.item, old.size));
    let new = change.new.as_ref().map(|new| (&new.item, new.size));
    let entry = |(item, size)| index::entry(table, place, item, &change.key, size);
    let same = |before: &Entry, after: &Entry| match (&before.content, &after.content) {
        (Content::Whole, Content::Whole) => old.map(|(item, _)| item) == new.map(|(item, _)| item),
        (before, after) => before == after,
    };
    match (old.and_then(entry), new.and_then(entry)) {
        (Some(before), Some(after)) if before.key == after.key && same(&before, &after) => 0.0,
        (Some(before), Some(after)) if before.key == after.key => write_units(before.size.max(after.size)),
        (before, after) => [before, after].iter().flatten().map(|entry| write_units(entry.size)).sum(),
    }
}

fn resource(index: Option<&IndexDefinition>, kind: Kind) -> Resource {
    match index {
        Some(index) => Resource::Index(index.name.clone(), kind),
        None => Resource::Table(kind),
    }
}

fn admit(table: &Table, index: Option<&IndexDefinition>, kind: Kind, millis: i64) -> Result<(), Error> {
    let definition = &table.definition;
    let limit = Limit::of(definition, index, kind);
    pass(table, resource(index, kind), &limit, millis, || {
        limit.exceeded(definition, index.map(|index| &index.name), kind)
    })
}

fn admit_partition(
    table: &Table,
    index: Option<&IndexDefinition>,
    key: &[u8],
    kind: Kind,
    millis: i64,
) -> Result<(), Error> {
    let limit = Limit::of_partition(kind);
    pass(table, partition(key, kind), &limit, millis, || {
        limit.exceeded(&table.definition, index.map(|index| &index.name), kind)
    })
}

fn pass(
    table: &Table,
    resource: Resource,
    limit: &Limit,
    millis: i64,
    exceeded: impl FnOnce() -> Exceeded,
) -> Result<(), Error> {
    if table.metrics.buckets.has(resource, limit, table.history.created.millis(), millis) {
        return Ok(());
    }
    Err(ApiError::Exceeded(Box::new(exceeded())).into())
}

/// The partition that a stored key is in: its tree, and the place its partition key is hashed to.
fn partition(key: &[u8], kind: Kind) -> Resource {
    let place = key.get(TREE_PREFIX_BYTES - 2..TREE_PREFIX_BYTES + PARTITION_BYTES).unwrap_or(key);
    Resource::Partition(place.to_vec(), kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_fills_by_the_second_and_keeps_five_minutes() {
        let buckets = Buckets::default();
        let limit = Limit { units_per_second: 2.0, seconds: 300.0, name: "" };
        let resource = || Resource::Table(Kind::Write);
        let has = |seconds: i64| buckets.has(resource(), &limit, 0, seconds * 1000);
        assert!(has(0));
        buckets.take(&resource(), 12.0);
        assert!(!has(0) && !has(5) && has(6), "ten more than there was, at two a second");
        buckets.take(&resource(), 2.0);
        assert!(!has(6));
        assert!(has(10_000));
        buckets.take(&resource(), 600.0);
        assert!(!has(10_000), "no more than five minutes' worth was kept");
        assert!(!has(9_000) && !has(10_000), "a clock that goes back fills nothing");
    }
}
