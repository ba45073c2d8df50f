//! A database with one table, and short ways to say what the tests do to it.
#![allow(dead_code, clippy::unwrap_used, reason = "test code, of which each test file uses its part")]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use larder_engine::ops::*;
use larder_engine::{Engine, Error};
use larder_expr::Scope;
use larder_model::{ApiError, AttributeValue, IndexName, Item, KeyType, TableName, UnixTime};
use larder_storage::{Batch, Store};
use pollster::block_on;

pub(crate) const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

pub(crate) fn name(text: &str) -> TableName {
    TableName::new(text).unwrap()
}

pub(crate) fn item<const N: usize>(pairs: [(&str, &str); N]) -> Item {
    pairs.into_iter().collect()
}

pub(crate) fn key(pk: &str) -> Item {
    item([("pk", pk)])
}

/// A table `data` with the partition key `pk`, and a global index `by_city` on `city` when asked for.
pub(crate) fn create(engine: &Engine, indexed: bool) {
    let mut attributes = vec![("pk".to_owned(), KeyType::S)];
    attributes.extend(indexed.then(|| ("city".to_owned(), KeyType::S)));
    let request = CreateTable {
        table: name("data"),
        attributes,
        key: vec![partition("pk")],
        local_indexes: None,
        global_indexes: indexed.then(|| vec![by_city()]),
        billing_mode: Some(BillingMode::OnDemand),
        throughput: None,
        on_demand_limits: None,
        stream: None,
        encryption: None,
        class: None,
        deletion_protection: None,
        tags: Vec::new(),
        policy: None,
    };
    block_on(engine.create_table(request, NOW)).unwrap();
}

pub(crate) fn partition(name: &str) -> KeyElement {
    KeyElement { name: name.to_owned(), role: KeyRole::Partition }
}

pub(crate) fn by_city() -> NewIndex {
    NewIndex {
        name: IndexName::new("by_city").unwrap(),
        key: vec![partition("city")],
        projection: Some(ProjectionSpecification { kind: Some(ProjectionKind::All), names: None }),
        throughput: None,
        on_demand_limits: None,
    }
}

pub(crate) fn change_indexes(engine: &Engine, change: IndexChange) {
    let request = UpdateTable {
        table: name("data"),
        attributes: vec![("pk".to_owned(), KeyType::S), ("city".to_owned(), KeyType::S)],
        billing_mode: None,
        throughput: None,
        on_demand_limits: None,
        index_changes: Some(vec![change]),
        stream: None,
        encryption: None,
        class: None,
        deletion_protection: None,
    };
    block_on(engine.update_table(request, NOW)).unwrap();
}

pub(crate) fn put(engine: &Engine, item: Item) -> Result<WriteOutput, Error> {
    block_on(engine.put_item(PutItem { table: name("data"), item, options: WriteOptions::default() }, NOW))
}

pub(crate) fn delete(engine: &Engine, key: Item) {
    block_on(
        engine.delete_item(DeleteItem { table: name("data"), key, options: WriteOptions::default() }, NOW),
    )
    .unwrap();
}

pub(crate) fn get(engine: &Engine, key: Item) -> Option<Item> {
    let request = GetItem {
        table: name("data"),
        key,
        projection: None,
        consistent: true,
        capacity: ReturnCapacity::None,
    };
    engine.get_item(&request).unwrap().item.map(|row| built(&row))
}

pub(crate) fn built(row: &Row) -> Item {
    match row {
        Row::Stored(item) => item.decode().unwrap(),
        Row::Built(item) => item.clone(),
    }
}

/// All items of the table, or of an index.
pub(crate) fn scan(engine: &Engine, index: Option<&str>) -> Result<Vec<Item>, Error> {
    let request = Scan { index: index.map(|index| IndexName::new(index).unwrap()), ..Scan::of(name("data")) };
    Ok(engine.scan(&request)?.items.unwrap_or_default().iter().map(built).collect())
}

/// The `pk`s in an index, sorted.
pub(crate) fn keys_in(engine: &Engine, index: Option<&str>) -> Vec<String> {
    let items = scan(engine, index).unwrap();
    let mut keys: Vec<String> =
        items.iter().filter_map(|item| item.get("pk")?.as_str().map(str::to_owned)).collect();
    keys.sort();
    keys
}

pub(crate) fn describe(engine: &Engine) -> TableDescription {
    engine.describe_table(&DescribeTable { table: name("data") }).unwrap()
}

/// Works until there is nothing left to do; returns how many items expired.
pub(crate) fn work(engine: &Engine, now: UnixTime) -> usize {
    let mut expired = 0;
    for _ in 0..10_000 {
        let worked = engine.work(now, Duration::ZERO).unwrap();
        expired += worked.expired;
        if !worked.more {
            return expired;
        }
    }
    panic!("the work does not end");
}

pub(crate) fn scope(values: &[(&str, AttributeValue)]) -> Scope {
    let values: BTreeMap<String, AttributeValue> =
        values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Scope::new(None, (!values.is_empty()).then_some(values)).unwrap()
}

pub(crate) fn code<T>(result: Result<T, Error>) -> &'static str {
    result.map(|_| ()).map_err(ApiError::from).unwrap_err().code()
}

/// Puts bytes that make no sense in the place of every item that holds a text.
pub(crate) fn spoil(store: &Store, text: &[u8]) {
    let is_item = |key: &[u8]| key.first() == Some(&0x10) && key.get(5..7) == Some(&[0, 0]);
    let mut batch = Batch::default();
    for (key, value) in store.snapshot().range(Bound::Unbounded, Bound::Unbounded).unwrap().flatten() {
        if is_item(&key) && value.windows(text.len()).any(|window| window == text) {
            batch.put(key.to_vec(), b"\xffspoiled".to_vec());
        }
    }
    assert!(!batch.is_empty());
    store.write(batch).unwrap();
}
