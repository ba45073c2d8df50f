//! What one request may read, write and answer with, however large the items are.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use common::*;
use larder_engine::Engine;
use larder_engine::ops::*;
use larder_model::limits::{GLOBAL_INDEXES_MAX, ITEM_BYTES_MAX, LOCAL_INDEXES_MAX, PAGE_BYTES_MAX};
use larder_model::{AttributeValue, IndexName, Item, KeyType};
use pollster::block_on;

const SIZE: usize = 40 * 1024;

/// A table `data` with the key `pk` and `sk`, a local index `by_l` of keys alone, and as many more global indexes of
/// whole items.
fn create_indexed(engine: &Engine, locals: usize, globals: usize, projection: ProjectionKind) {
    let index = |name: String, key: Vec<KeyElement>| NewIndex {
        name: IndexName::new(name).unwrap(),
        key,
        projection: Some(ProjectionSpecification { kind: Some(projection), names: None }),
        throughput: None,
        on_demand_limits: None,
    };
    let sort = |name: &str| KeyElement { name: name.to_owned(), role: KeyRole::Sort };
    let local = |n: usize| index(format!("local{n}"), vec![partition("pk"), sort("l")]);
    let global = |n: usize| index(format!("global{n}"), vec![partition("l")]);
    let attributes = [("pk", KeyType::S), ("sk", KeyType::S), ("l", KeyType::S)];
    let request = CreateTable {
        table: name("data"),
        attributes: attributes.map(|(name, kind)| (name.to_owned(), kind)).to_vec(),
        key: vec![partition("pk"), sort("sk")],
        local_indexes: (locals > 0).then(|| (0..locals).map(local).collect()),
        global_indexes: (globals > 0).then(|| (0..globals).map(global).collect()),
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

fn large(n: usize, size: usize) -> Item {
    let mut item = item([("pk", "p"), ("sk", &format!("{n:04}")), ("l", &format!("{n:04}"))]);
    item.insert("body", AttributeValue::from("x".repeat(size).as_str()));
    item
}

#[test]
fn a_page_of_a_local_index_counts_the_items_it_fetches() {
    const ITEMS: usize = 100;
    let engine = Engine::memory().unwrap();
    create_indexed(&engine, 1, 0, ProjectionKind::KeysOnly);
    for n in 0..ITEMS {
        put(&engine, large(n, SIZE)).unwrap();
    }
    for forward in [true, false] {
        let (mut seen, mut start) = (0, None);
        for pages in 0.. {
            assert!(pages < ITEMS, "the pages do not end");
            let mut scope = scope(&[(":p", "p".into())]);
            let request = Query {
                table: name("data"),
                index: Some(IndexName::new("local0").unwrap()),
                key_condition: scope.key_condition("pk = :p").unwrap(),
                filter: None,
                legacy_filter: false,
                projection: None,
                select: Some(Select::AllAttributes),
                limit: None,
                forward,
                start,
                consistent: true,
                capacity: ReturnCapacity::None,
                skip_damaged: false,
            };
            let page = engine.query(&request).unwrap();
            let bytes: usize = page.items.iter().flatten().map(|row| built(row).size()).sum();
            assert!(bytes < PAGE_BYTES_MAX + ITEM_BYTES_MAX, "a page of {bytes} bytes");
            seen += page.count;
            start = page.last_key;
            if start.is_none() {
                break;
            }
        }
        assert_eq!(seen, ITEMS);
    }
}

fn grow(n: usize, size: usize) -> TransactWrite {
    let mut values = scope(&[(":text", "x".repeat(size).as_str().into())]);
    let action = TransactAction::Update {
        key: item([("pk", "p"), ("sk", &format!("{n:04}"))]),
        update: values.update("SET body = :text").unwrap(),
    };
    TransactWrite { table: name("data"), action, condition: None, return_old_on_failure: false }
}

fn transact(
    engine: &Engine,
    writes: Vec<TransactWrite>,
) -> Result<TransactWriteItemsOutput, larder_engine::Error> {
    let request =
        TransactWriteItems { writes, token: None, capacity: ReturnCapacity::None, collection_metrics: false };
    block_on(engine.transact_write_items(request, NOW))
}

#[test]
fn a_transaction_counts_the_items_that_its_updates_make() {
    let engine = Engine::memory().unwrap();
    create_indexed(&engine, 1, 0, ProjectionKind::All);
    let refused = transact(&engine, (0..50).map(|n| grow(n, 300 * 1024)).collect()).unwrap_err();
    assert!(refused.to_string().contains("exceeding the 4MB limit"), "{refused}");
    assert_eq!(describe(&engine).item_count, 0);
    // An update of a large item by a little counts the item.
    for n in 0..11 {
        put(&engine, large(n, 390 * 1024)).unwrap();
    }
    let touch = |n: usize| {
        let TransactAction::Update { key, .. } = grow(n, 0).action else { unreachable!() };
        let update = scope(&[(":one", 1.into())]).update("SET n = :one").unwrap();
        TransactWrite { action: TransactAction::Update { key, update }, ..grow(n, 0) }
    };
    assert_eq!(code(transact(&engine, (0..11).map(touch).collect())), "ValidationException");
    transact(&engine, (0..10).map(touch).collect()).unwrap();
    // What goes, and what is only looked at, costs its key.
    let delete = |n: usize| {
        let TransactAction::Update { key, .. } = grow(n, 0).action else { unreachable!() };
        TransactWrite { action: TransactAction::Delete { key }, ..grow(n, 0) }
    };
    transact(&engine, (0..11).map(delete).collect()).unwrap();
    assert_eq!(describe(&engine).item_count, 0);
}

#[test]
fn the_most_that_a_transaction_and_a_batch_may_write_is_taken_with_every_index_there_can_be() {
    let engine = Engine::memory().unwrap();
    create_indexed(&engine, LOCAL_INDEXES_MAX, GLOBAL_INDEXES_MAX, ProjectionKind::All);
    let recovery = UpdateContinuousBackups { table: name("data"), enabled: true, days: None };
    block_on(engine.update_continuous_backups(recovery, NOW)).unwrap();
    let size = 408 * 1000;
    // The second time the log keeps what they were before.
    for size in [size, size + 1] {
        let puts = (0..25).map(|n| BatchWrite::Put(large(n, size))).collect();
        let request = BatchWriteItem {
            tables: vec![(name("data"), puts)],
            capacity: ReturnCapacity::None,
            collection_metrics: false,
        };
        block_on(engine.batch_write_item(request, NOW)).unwrap();
    }
    assert_eq!(describe(&engine).item_count, 25);

    let put = |n: usize, size: usize| TransactWrite {
        action: TransactAction::Put { item: large(n, size) },
        ..grow(n, 0)
    };
    transact(&engine, (0..10).map(|n| put(n, 409 * 1000)).collect()).unwrap();
    assert_eq!(code(transact(&engine, (0..100).map(|n| grow(n, size)).collect())), "ValidationException");
    assert_eq!(describe(&engine).item_count, 25);
}
