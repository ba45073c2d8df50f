//! Throughput that is enforced, for those who ask for it: so that a hot key, or a table that is set too small, is found
//! before DynamoDB finds it.
//!
//! What can be used up is a bucket of units: those of a table, of each of its global indexes, and of each partition of
//! either. It fills by the second and keeps what is not used: five minutes' worth of provisioned units, a second's of all
//! else. A new table has a second's, and so has a new index, or a table that is billed otherwise from now on. Whoever finds
//! something in it is let through and takes what they cost, more than there is if need be; whoever finds nothing is turned
//! away until it has filled again. A write that an index has no units for is not made at all.
//!
//! A partition is all keys that are hashed to one place, so it is one partition key nearly always: DynamoDB, too, gives a hot
//! key a partition of its own in the end, and nothing more. What is in a local index stands beside its items: it is of the
//! table, and in their partition.
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
use crate::layout::{PARTITION_BYTES, TREE_PREFIX_BYTES, TreeId};
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

/// What has units. A tree is never made again, so an index owes nothing of one that had its name before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Resource {
    Table(Kind),
    /// A global index.
    Index(TreeId, Kind),
    /// Of the table or of a global index, by the place that partition keys are hashed to.
    Partition(TreeId, [u8; PARTITION_BYTES], Kind),
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Read,
    Write,
}

impl Resource {
    fn of(tree: TreeId, kind: Kind) -> Self {
        if tree == TreeId::ITEMS { Self::Table(kind) } else { Self::Index(tree, kind) }
    }

    /// The partition of a tree that a stored key is in.
    fn partition(tree: TreeId, key: &[u8], kind: Kind) -> Option<Self> {
        Some(Self::Partition(tree, *key.get(TREE_PREFIX_BYTES..)?.first_chunk()?, kind))
    }

    fn kind(self) -> Kind {
        match self {
            Self::Table(kind) | Self::Index(_, kind) | Self::Partition(.., kind) => kind,
        }
    }

    /// What keeps it.
    fn tree(self) -> TreeId {
        match self {
            Self::Table(_) => TreeId::ITEMS,
            Self::Index(tree, _) | Self::Partition(tree, ..) => tree,
        }
    }

    /// What anything costs at least: with less than that a bucket is empty.
    fn least(self) -> f64 {
        match self.kind() {
            Kind::Read => 0.5,
            Kind::Write => 1.0,
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
    /// `index`: the global index that the resource is, or is of.
    fn of(resource: Resource, definition: &TableDefinition, index: Option<&IndexDefinition>) -> Self {
        let kind = resource.kind();
        if let Resource::Partition(..) = resource {
            let name = "KeyRangeThroughputExceeded";
            return Self { units_per_second: PARTITION_UNITS[kind as usize], seconds: 1.0, name };
        }
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
        let mut left = self.0.lock();
        left.forget_full(millis);
        let new = Bucket { units: unused.min(most), filled_millis: millis };
        let bucket = left.buckets.entry(resource).or_insert(new);
        let passed = (millis - bucket.filled_millis).max(0) as f64 / 1000.0;
        bucket.units = (bucket.units + passed * limit.units_per_second).min(most);
        bucket.filled_millis = bucket.filled_millis.max(millis);
        bucket.units >= resource.least()
    }

    fn take(&self, resource: Resource, units: f64) {
        if let Some(bucket) = self.0.lock().buckets.get_mut(&resource) {
            bucket.units -= units;
        }
    }
}

/// What a write costs, once it is made: units of what has some. Nothing where throughput is not enforced.
#[derive(Debug, Default)]
pub(crate) struct Cost(Vec<(Resource, f64)>);

impl Cost {
    fn of_item(key: &[u8], units: f64) -> Self {
        let kind = Kind::Write;
        let partition = Resource::partition(TreeId::ITEMS, key, kind);
        Self([Some(Resource::Table(kind)), partition].into_iter().flatten().map(|of| (of, units)).collect())
    }

    fn of_change(table: &Table, change: &Change, factor: f64) -> Self {
        let mut of_item = factor * change.write_units();
        let mut of_indexes = Vec::new();
        for place in table.indexes() {
            let entries = entries_changed(table, place, change);
            let units: f64 = entries.iter().map(|(_, units)| units).sum();
            match place.definition.kind {
                IndexKind::Local => of_item += units,
                IndexKind::Global if entries.is_empty() => {}
                IndexKind::Global => {
                    let tree = place.tree.id;
                    of_indexes.push((Resource::Index(tree, Kind::Write), units));
                    of_indexes.extend(entries.iter().filter_map(|(key, units)| {
                        Some((Resource::partition(tree, key, Kind::Write)?, *units))
                    }));
                }
            }
        }
        let mut cost = Self::of_item(&change.key, of_item);
        cost.0.extend(of_indexes);
        cost
    }

    pub(crate) fn take_from(self, table: &Table) {
        for (resource, units) in self.0 {
            table.metrics.buckets.take(resource, units);
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

    fn throttle_millis(&self) -> Option<i64> {
        self.throttle.get().map(|clock| clock.trusted().millis())
    }

    /// Turns away a read of a table or an index, of the partition that a stored key is in if it is of one. What it cost
    /// is known once it is done: [`read_from`](Self::read_from).
    pub(crate) fn admit_read(
        &self,
        table: &Table,
        index: Option<Index<'_>>,
        key: Option<&[u8]>,
    ) -> Result<(), Error> {
        let Some(millis) = self.throttle_millis() else { return Ok(()) };
        read_resources(index, key).try_for_each(|resource| admit(table, resource, millis))
    }

    /// Takes what a read cost.
    pub(crate) fn read_from(&self, table: &Table, index: Option<Index<'_>>, key: Option<&[u8]>, units: f64) {
        if self.is_throttling() {
            read_resources(index, key).for_each(|resource| table.metrics.buckets.take(resource, units));
        }
    }

    /// What is charged for a write that is not made, since its condition does not hold, unless it is turned away.
    pub(crate) fn admit_condition(&self, table: &Table, key: &[u8], units: f64) -> Result<Cost, Error> {
        self.admit_cost(table, || Cost::of_item(key, units))
    }

    /// What a change costs, unless it is turned away because the table, its partition, an index that it would change or a
    /// partition of that has no units. `factor`: what a transaction multiplies the units of the table by.
    pub(crate) fn admit_write(&self, table: &Table, change: &Change, factor: f64) -> Result<Cost, Error> {
        self.admit_cost(table, || Cost::of_change(table, change, factor))
    }

    fn admit_cost(&self, table: &Table, cost: impl FnOnce() -> Cost) -> Result<Cost, Error> {
        let Some(millis) = self.throttle_millis() else { return Ok(Cost::default()) };
        let cost = cost();
        cost.0.iter().try_for_each(|(resource, _)| admit(table, *resource, millis))?;
        Ok(cost)
    }

    /// A table is about to be changed: the time until now counts by what it was. A new index begins with a second's units,
    /// and so does all of a table that is provisioned, or no longer is.
    pub(crate) fn settle_throughput(&self, before: &Table, after: &Table) {
        let Some(millis) = self.throttle_millis() else { return };
        for resource in resources(before) {
            has_some(before, resource, millis);
        }
        // Units on demand are none that were saved.
        let is_billed_anew = is_provisioned(before) != is_provisioned(after);
        let new = resources(after).filter(|resource| is_billed_anew || !before.owns(resource.tree()));
        let mut left = after.metrics.buckets.0.lock();
        left.buckets.retain(|resource, _| after.owns(resource.tree()));
        for resource in new {
            let units = limit(after, resource).units_per_second;
            left.buckets.insert(resource, Bucket { units, filled_millis: millis });
        }
    }
}

fn is_provisioned(table: &Table) -> bool {
    matches!(table.definition.billing, Billing::Provisioned(_))
}

/// What of a table has units, but for partitions.
fn resources(table: &Table) -> impl Iterator<Item = Resource> {
    let global = table.indexes().filter(|index| index.definition.kind == IndexKind::Global);
    let trees = std::iter::once(TreeId::ITEMS).chain(global.map(|index| index.tree.id));
    trees.flat_map(|tree| [Kind::Read, Kind::Write].map(|kind| Resource::of(tree, kind)))
}

fn read_resources(index: Option<Index<'_>>, key: Option<&[u8]>) -> impl Iterator<Item = Resource> {
    let global = index.filter(|index| index.definition.kind == IndexKind::Global);
    let tree = global.map_or(TreeId::ITEMS, |index| index.tree.id);
    let partition = key.and_then(|key| Resource::partition(tree, key, Kind::Read));
    std::iter::once(Resource::of(tree, Kind::Read)).chain(partition)
}

/// The entries of an index that a change costs something: none when its entry stays as it is, both when it moves.
fn entries_changed(table: &Table, place: Index<'_>, change: &Change) -> Vec<(Vec<u8>, f64)> {
    let old = change.old.as_ref().map(|old| (&old.item, old.size));
    let new = change.new.as_ref().map(|new| (&new.item, new.size));
    let entry = |(item, size)| index::entry(table, place, item, &change.key, size);
    let same = |before: &Entry, after: &Entry| match (&before.content, &after.content) {
        (Content::Whole, Content::Whole) => old.map(|(item, _)| item) == new.map(|(item, _)| item),
        (before, after) => before == after,
    };
    match (old.and_then(entry), new.and_then(entry)) {
        (Some(before), Some(after)) if before.key == after.key && same(&before, &after) => Vec::new(),
        (Some(before), Some(after)) if before.key == after.key => {
            vec![(after.key, write_units(before.size.max(after.size)))]
        }
        (before, after) => {
            let both = [before, after].into_iter().flatten();
            both.map(|entry| (entry.key, write_units(entry.size))).collect()
        }
    }
}

fn index_of(table: &Table, resource: Resource) -> Option<&IndexDefinition> {
    table.indexes().find(|index| index.tree.id == resource.tree()).map(|index| index.definition)
}

fn limit(table: &Table, resource: Resource) -> Limit {
    Limit::of(resource, &table.definition, index_of(table, resource))
}

fn has_some(table: &Table, resource: Resource, millis: i64) -> bool {
    table.metrics.buckets.has(resource, &limit(table, resource), table.history.created.millis(), millis)
}

fn admit(table: &Table, resource: Resource, millis: i64) -> Result<(), Error> {
    if has_some(table, resource, millis) {
        return Ok(());
    }
    let index = index_of(table, resource).map(|index| &index.name);
    let exceeded = limit(table, resource).exceeded(&table.definition, index, resource.kind());
    Err(ApiError::Exceeded(Box::new(exceeded)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_fills_by_the_second_and_keeps_five_minutes() {
        let buckets = Buckets::default();
        let limit = Limit { units_per_second: 2.0, seconds: 300.0, name: "" };
        let resource = Resource::Table(Kind::Write);
        let has = |seconds: i64| buckets.has(resource, &limit, 0, seconds * 1000);
        assert!(has(0));
        buckets.take(resource, 12.0);
        assert!(!has(0) && !has(5) && has(6), "ten more than there was, at two a second");
        buckets.take(resource, 2.0);
        assert!(!has(6));
        assert!(has(10_000));
        buckets.take(resource, 600.0);
        assert!(!has(10_000), "no more than five minutes' worth was kept");
        assert!(!has(9_000) && !has(10_000), "a clock that goes back fills nothing");
    }
}
