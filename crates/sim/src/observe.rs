//! Looking at the whole database through its public operations.
//!
//! While it looks, it checks what must be true of any database: every index holds exactly the entries its
//! items owe, in order, and the counts of DescribeTable are the counts of what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use larder_engine::ops::{
    DescribeTable, DescribeTimeToLive, GetItem, IndexStatus, ListTables, PageOutput, Query, ReturnCapacity,
    Row, Scan, TimeToLive,
};
use larder_engine::{Engine, Error};
use larder_expr::{KeyCondition, KeyTest, SortTest};
use larder_model::{AttributeValue, Item, UnixTime};
use larder_storage::Error as StorageError;

use crate::schema::{IndexShape, Key, Place, index_name};

/// What the names of tables begin with that a test restores, and looks at itself.
pub const RESTORED: &str = "restored-";

/// All that can be seen.
#[derive(Clone, Debug)]
pub struct Observed {
    pub tables: BTreeMap<Place, ObservedTable>,
}

#[derive(Clone, Debug)]
pub struct ObservedTable {
    pub items: BTreeMap<Key, Item>,
    pub indexes: BTreeSet<String>,
    pub expires: bool,
}

/// Why nothing was observed.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// The disk failed; another look may succeed.
    Disk(String),
    /// What was seen cannot be.
    Broken(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Storage(
                StorageError::Io { .. }
                | StorageError::Expired
                | StorageError::Failed { .. }
                | StorageError::Lost
                | StorageError::Unknown { .. },
            ) => Self::Disk(text),
            _ => Self::Broken(text),
        }
    }
}

fn broken<T>(what: String) -> Result<T, Trouble> {
    Err(Trouble::Broken(what))
}

/// Fills indexes and clears what was dropped, at a time when nothing has expired.
pub fn finish_work(engine: &Engine) -> Result<(), Trouble> {
    const STEPS_MAX: usize = 200;
    for _ in 0..STEPS_MAX {
        if !engine.work(UnixTime::from_seconds(0), Duration::ZERO)?.more {
            return Ok(());
        }
    }
    broken(format!("after {STEPS_MAX} steps there is still background work to do"))
}

/// Looks at everything. Nobody may be writing meanwhile. Indexes that are being filled cannot be read.
pub fn observe(engine: &Engine) -> Result<Observed, Trouble> {
    let mut tables = BTreeMap::new();
    for name in engine.list_tables(&ListTables { start: None, limit: None })?.names {
        if name.as_str().starts_with(RESTORED) {
            continue;
        }
        let Some(place) = Place::ALL.into_iter().find(|place| place.table() == name) else {
            return broken(format!("there is a table {name} that nobody made"));
        };
        tables.insert(place, observe_table(engine, place)?);
    }
    Ok(Observed { tables })
}

fn observe_table(engine: &Engine, place: Place) -> Result<ObservedTable, Trouble> {
    let description = engine.describe_table(&DescribeTable { table: place.table() })?;
    let ttl = engine.describe_time_to_live(&DescribeTimeToLive { table: place.table() })?;
    let mut items = BTreeMap::new();
    for item in scan(engine, place, None)? {
        let Some(key) = Key::of(&item) else { return broken(format!("an item has no key: {item:?}")) };
        if let Some(twin) = items.insert(key, item) {
            return broken(format!("an item is there twice: {twin:?}"));
        }
    }
    for (key, item) in &items {
        let request = GetItem {
            table: place.table(),
            key: key.attributes(),
            projection: None,
            consistent: true,
            capacity: ReturnCapacity::None,
        };
        let found = engine.get_item(&request)?.item.map(read).transpose()?;
        if found.as_ref() != Some(item) {
            return broken(format!("a scan of {place:?} shows {item:?}, GetItem {found:?}"));
        }
    }
    check_counters(place, "the table", [description.item_count, description.bytes], items.values())?;

    let mut indexes = BTreeSet::new();
    for (definition, index) in description.definition.indexes.iter().zip(&description.indexes) {
        let name = definition.name.as_str();
        let Some(shape) = Place::index(name) else { return broken(format!("nobody made an index {name}")) };
        indexes.insert(name.to_owned());
        if index.status == IndexStatus::Active {
            check_index(engine, place, shape, &items, [index.item_count, index.bytes])?;
        }
    }
    let expires = ttl != TimeToLive::Disabled;
    Ok(ObservedTable { items, indexes, expires })
}

fn check_counters<'a>(
    place: Place,
    what: &str,
    [count, bytes]: [i64; 2],
    entries: impl Iterator<Item = &'a Item>,
) -> Result<(), Trouble> {
    let sizes: Vec<usize> = entries.map(Item::size).collect();
    let actual = [sizes.len() as i64, sizes.iter().sum::<usize>() as i64];
    if actual != [count, bytes] {
        return broken(format!(
            "{place:?}: {what} holds {} entries of {} bytes, and DescribeTable says {count} of {bytes}",
            actual[0], actual[1]
        ));
    }
    Ok(())
}

fn check_index(
    engine: &Engine,
    place: Place,
    shape: IndexShape,
    items: &BTreeMap<Key, Item>,
    counters: [i64; 2],
) -> Result<(), Trouble> {
    let owed: BTreeMap<Key, Item> =
        items.iter().filter_map(|(key, item)| Some((key.clone(), shape.entry(item)?))).collect();
    let scanned = by_key(scan(engine, place, Some(shape))?)?;
    compare(place, shape, "a scan", &scanned, &owed)?;
    check_counters(place, shape.name, counters, owed.values())?;

    let partitions: BTreeSet<&str> =
        owed.values().filter_map(|entry| entry.get(shape.partition)?.as_str()).collect();
    let mut queried = BTreeMap::new();
    for partition in partitions {
        let entries = query(engine, place, shape, partition)?;
        let sorts: Vec<_> =
            entries.iter().map(|entry| shape.sort.and_then(|sort| entry.get(sort)?.as_number())).collect();
        if !sorts.is_sorted() {
            return broken(format!("a query of {} is out of order: {entries:?}", shape.name));
        }
        queried.extend(by_key(entries)?);
    }
    compare(place, shape, "queries", &queried, &owed)
}

fn by_key(entries: Vec<Item>) -> Result<BTreeMap<Key, Item>, Trouble> {
    let mut out = BTreeMap::new();
    for entry in entries {
        let Some(key) = Key::of(&entry) else { return broken(format!("an entry has no key: {entry:?}")) };
        if let Some(twin) = out.insert(key, entry) {
            return broken(format!("an item is in an index twice: {twin:?}"));
        }
    }
    Ok(out)
}

fn compare(
    place: Place,
    shape: IndexShape,
    how: &str,
    found: &BTreeMap<Key, Item>,
    owed: &BTreeMap<Key, Item>,
) -> Result<(), Trouble> {
    for key in owed.keys().chain(found.keys()) {
        let (found, owed) = (found.get(key), owed.get(key));
        if found != owed {
            return broken(format!(
                "{place:?}: by {how}, {} has for {key:?} {found:?}, and the item owes {owed:?}",
                shape.name
            ));
        }
    }
    Ok(())
}

/// Small pages, so that resuming is part of what is checked.
const PAGE_ITEMS: usize = 7;

fn scan(engine: &Engine, place: Place, index: Option<IndexShape>) -> Result<Vec<Item>, Trouble> {
    pages(|start| {
        engine.scan(&Scan {
            index: index.map(|index| index_name(index.name)),
            limit: Some(PAGE_ITEMS),
            start,
            ..Scan::of(place.table())
        })
    })
}

fn query(engine: &Engine, place: Place, index: IndexShape, partition: &str) -> Result<Vec<Item>, Trouble> {
    let test = KeyTest {
        attribute: index.partition.into(),
        test: SortTest::Equal(Arc::new(AttributeValue::from(partition))),
    };
    pages(|start| {
        engine.query(&Query {
            table: place.table(),
            index: Some(index_name(index.name)),
            key_condition: KeyCondition { tests: vec![test.clone()] },
            filter: None,
            legacy_filter: false,
            projection: None,
            select: None,
            limit: Some(PAGE_ITEMS),
            forward: true,
            start,
            consistent: false,
            skip_damaged: false,
            capacity: ReturnCapacity::None,
        })
    })
}

fn pages(page: impl Fn(Option<Item>) -> Result<PageOutput, Error>) -> Result<Vec<Item>, Trouble> {
    let mut items = Vec::new();
    let mut start = None;
    loop {
        let output = page(start)?;
        for row in output.items.into_iter().flatten() {
            items.push(read(row)?);
        }
        start = output.last_key;
        if start.is_none() {
            return Ok(items);
        }
    }
}

pub(crate) fn read(row: Row) -> Result<Item, Trouble> {
    match row {
        Row::Built(item) => Ok(item),
        Row::Stored(stored) => stored.decode().map_err(|error| Trouble::Broken(error.to_string())),
    }
}
