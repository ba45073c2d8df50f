//! A store that is whole is found to be, and one that is not is told of by name.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod common;

use common::{NOW, create, item, put, spoil};
use larder_engine::Engine;
use larder_storage::faulty::FaultyDisk;
use larder_storage::{Batch, Options, Store};

const OPTIONS: Options = Options {
    durability: larder_storage::Durability::Immediate,
    cache_bytes: 64 << 10,
    log_bytes: 64 << 10,
    queue_bytes: 256 << 20,
    key: None,
};

fn filled(disk: &FaultyDisk) -> Engine {
    let engine = Engine::on_store(Store::on_disk(disk.clone(), OPTIONS).unwrap()).unwrap();
    create(&engine, true);
    for n in 0..50 {
        put(
            &engine,
            item([("pk", &format!("person-{n:02}")), ("city", "Lund"), ("note", "x".repeat(40).as_str())]),
        )
        .unwrap();
    }
    engine
}

#[test]
fn a_whole_store_has_no_problems() {
    let verified = filled(&FaultyDisk::default()).verify(NOW, |_| {}).unwrap();
    assert_eq!(
        (verified.tables, verified.items, verified.problem_count),
        (1, 50, 0),
        "{:?}",
        verified.problems
    );
}

#[test]
fn an_item_that_cannot_be_read_is_told_by_its_key() {
    let disk = FaultyDisk::default();
    filled(&disk).close().unwrap();
    let store = Store::on_disk(disk, OPTIONS).unwrap();
    spoil(&store, b"person-07");
    let verified = Engine::on_store(store).unwrap().verify(NOW, |_| {}).unwrap();
    let told = |problem: &String| problem.contains("table data") && problem.contains("pk=person-07");
    assert!(verified.problems.iter().any(told), "{:?}", verified.problems);
}

#[test]
fn what_does_not_follow_from_the_items_is_told() {
    let disk = FaultyDisk::default();
    filled(&disk).close().unwrap();
    let store = Store::on_disk(disk, OPTIONS).unwrap();
    // Trees begin with 10, the table's number and the tree's.
    let index: Vec<u8> = [&[0x10][..], &1u32.to_be_bytes(), &1u16.to_be_bytes()].concat();
    let end = [&[0x10][..], &1u32.to_be_bytes(), &2u16.to_be_bytes()].concat();
    let mut batch = Batch::default();
    let range =
        store.snapshot().range(std::ops::Bound::Included(&index), std::ops::Bound::Excluded(&end)).unwrap();
    let first = range.map(|entry| entry.unwrap().0.to_vec()).next().unwrap();
    batch.delete(first);
    store.write(batch).unwrap();
    let verified = Engine::on_store(store).unwrap().verify(NOW, |_| {}).unwrap();
    assert_eq!(verified.problem_count, 2, "{:?}", verified.problems);
    assert!(verified.problems.iter().any(|problem| problem.contains("index by_city lacks it")));
    assert!(verified.problems.iter().any(|problem| problem.contains("has 49 entries")));
}

#[test]
fn an_index_entry_that_no_item_owes_is_told() {
    let disk = FaultyDisk::default();
    filled(&disk).close().unwrap();
    let store = Store::on_disk(disk, OPTIONS).unwrap();
    let tree = |tree: u16| [&[0x10][..], &1u32.to_be_bytes(), &tree.to_be_bytes()].concat();
    let range = store
        .snapshot()
        .range(std::ops::Bound::Included(&tree(0)), std::ops::Bound::Excluded(&tree(1)))
        .unwrap();
    let item = range.map(|entry| entry.unwrap().0.to_vec()).next().unwrap();
    let mut batch = Batch::default();
    batch.delete(item);
    store.write(batch).unwrap();
    let verified = Engine::on_store(store).unwrap().verify(NOW, |_| {}).unwrap();
    let is_told = |text: &str| verified.problems.iter().any(|problem| problem.contains(text));
    assert!(is_told("index by_city, item pk=person-") && is_told("there is no such item"));
    assert!(is_told("items has 49 entries"));
}
