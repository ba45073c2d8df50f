//! What is in the store: items, how many of them end soon, how many lives have ended, and the states of lifecycles.
//!
//! The tables are read whole, which is cheap while they are as small as the demo's.

use std::collections::{BTreeMap, HashMap};

use larder::store::Error;
use larder::store::ops::Scan;
use larder::{Environment, Number, Store};
use larder_model::{AttributeValue, Item, TableName};

use super::lunch;
use super::world::Part;

/// What the first item of a split record has.
const PARTS: &str = "larder_parts";

/// What ends within this time ends soon.
pub(super) const SOON_SECONDS: i64 = 60 * 60;

/// What one system keeps.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    pub(super) items: u64,
    pub(super) expiring: u64,
    /// Lives that have ended since the start, whether the item is gone or was fetched again.
    pub(super) expired: u64,
    /// Records over 400 KB, which several items hold together.
    pub(super) split: u64,
    /// Records that are kept with what is wrong with them.
    pub(super) faulty: u64,
    /// Lifecycle, state, count.
    pub(super) states: BTreeMap<(&'static str, &'static str), u64>,
}

/// Counts, and remembers what it saw to know what has ended.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// When the items of each table end, in Unix seconds.
    ends: HashMap<TableName, HashMap<String, i64>>,
    expired: HashMap<&'static str, u64>,
}

impl Census {
    pub(super) async fn take(&mut self, store: &Store, part: &Part) -> Result<Held, Error> {
        let schema = part.system.schema();
        let mut held = Held::default();
        let mut ended = 0;
        for setup in schema.tables(&Environment::new()).unwrap_or_default() {
            let Some(table) = schema.tables.iter().find(|table| table.name == setup.table) else { continue };
            let name = setup.definition.name;
            let items = all(store, &name).await?;
            let now = store.clock().now().seconds();
            let mut ends = HashMap::new();
            for item in &items {
                held.items += 1;
                held.split += u64::from(item.contains(PARTS));
                let faults = item.get(lunch::FAULTS);
                held.faulty += u64::from(matches!(faults, Some(AttributeValue::L(list)) if !list.is_empty()));
                for state in (part.states)(item, now) {
                    *held.states.entry(state).or_default() += 1;
                }
                let end = table
                    .ttl
                    .as_ref()
                    .and_then(|ttl| item.get(&ttl.attribute))
                    .and_then(AttributeValue::as_number);
                if let Some(end) = end.and_then(Number::to_i64) {
                    held.expiring += u64::from((now..now + SOON_SECONDS).contains(&end));
                    let key = std::iter::once(&table.partition).chain(&table.sort);
                    let key = key.filter_map(|part| item.get(&part.attribute)?.as_str());
                    ends.insert(key.collect::<Vec<_>>().join("\n"), end);
                }
            }
            let before = self.ends.insert(name.clone(), HashMap::new()).unwrap_or_default();
            ended +=
                before.iter().filter(|(key, end)| **end < now && ends.get(*key) != Some(end)).count() as u64;
            self.ends.insert(name, ends);
        }
        let expired = self.expired.entry(part.name).or_default();
        *expired += ended;
        Ok(Held { expired: *expired, ..held })
    }
}

async fn all(store: &Store, table: &TableName) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    let mut start = None;
    loop {
        let scan = Scan { start, consistent: true, ..Scan::of(table.clone()) };
        let page = store.scan(scan).await?;
        items.extend(page.items);
        start = page.last_key;
        if start.is_none() {
            return Ok(items);
        }
    }
}
