//! A change of the catalog is made whole, or leaves no trace.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod common;

use std::ops::Bound;

use common::{NOW, create, item, key, name, partition, work};
use larder_engine::ops::*;
use larder_engine::{Engine, Error};
use larder_model::{ApiError, KeyType};
use larder_storage::faulty::FaultyDisk;
use larder_storage::{Batch, Options, Store};
use pollster::block_on;

fn protect() -> UpdateTable {
    UpdateTable {
        table: name("data"),
        attributes: Vec::new(),
        billing_mode: None,
        throughput: None,
        on_demand_limits: None,
        index_changes: None,
        stream: None,
        encryption: None,
        class: None,
        deletion_protection: Some(true),
    }
}

/// The counters of the first table's items.
fn counters() -> Vec<u8> {
    [&[0x03][..], &1u32.to_be_bytes(), &0u16.to_be_bytes()].concat()
}

#[test]
fn a_change_that_cannot_be_described_is_not_made() {
    let store = Store::memory(Options::default()).unwrap();
    let engine = Engine::on_store(store.clone()).unwrap();
    create(&engine, false);
    let mut batch = Batch::default();
    batch.put(counters(), b"no counters".to_vec());
    store.write(batch).unwrap();

    block_on(engine.update_table(protect(), NOW)).unwrap_err();
    // Nothing protects it, and it can go although nobody knows how large it is.
    block_on(engine.delete_table(DeleteTable { table: name("data") }, NOW)).unwrap();
}

fn create_named(engine: &Engine, table: &str) -> Result<TableDescription, Error> {
    let request = CreateTable {
        table: name(table),
        attributes: vec![("pk".to_owned(), KeyType::S)],
        key: vec![partition("pk")],
        local_indexes: None,
        global_indexes: None,
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
    block_on(engine.create_table(request, NOW))
}

fn put_in(engine: &Engine, table: &str, pk: &str) -> Result<(), Error> {
    let item = item([("pk", pk), ("note", "x".repeat(200).as_str())]);
    let put = PutItem { table: name(table), item, options: WriteOptions::default() };
    block_on(engine.put_item(put, NOW)).map(drop)
}

/// Whether the item is there.
fn has(engine: &Engine, table: &str, pk: &str) -> Result<bool, Error> {
    let get = GetItem {
        table: name(table),
        key: key(pk),
        consistent: true,
        projection: None,
        capacity: ReturnCapacity::None,
    };
    Ok(engine.get_item(&get)?.item.is_some())
}

/// Where the record of a table is, and its second copy.
fn record(table: &str) -> [Vec<u8>; 2] {
    let first = [&[0x02], table.as_bytes()].concat();
    [first.clone(), [&[0x30], &first[..]].concat()]
}

fn overwrite(store: &Store, keys: &[Vec<u8>]) {
    let mut batch = Batch::default();
    keys.iter().for_each(|key| batch.put(key.clone(), b"no record".to_vec()));
    store.write(batch).unwrap();
}

#[test]
fn a_record_that_cannot_be_read_is_found_in_its_second_copy() {
    for copy in record("one") {
        let store = Store::memory(Options::default()).unwrap();
        let engine = Engine::on_store(store.clone()).unwrap();
        for table in ["one", "two"] {
            create_named(&engine, table).unwrap();
            put_in(&engine, table, "a").unwrap();
        }
        overwrite(&store, &[copy]);
        let engine = Engine::on_store(store).unwrap();
        assert!(has(&engine, "one", "a").unwrap() && has(&engine, "two", "a").unwrap());
        assert_eq!(engine.unreadable_records().unwrap(), [""; 0]);
        assert!(engine.verify(NOW, |_| {}).unwrap().problem_count > 0);
        // Whatever is written next mends it.
        let tags = vec![("mended".to_owned(), String::new())];
        block_on(engine.tag_resource(TagResource { table: name("one"), tags })).unwrap();
        assert_eq!(engine.verify(NOW, |_| {}).unwrap().problems, [""; 0]);
    }
}

#[test]
fn a_table_whose_record_is_lost_is_refused_and_keeps_its_items() {
    let store = Store::memory(Options::default()).unwrap();
    let engine = Engine::on_store(store.clone()).unwrap();
    for table in ["one", "two"] {
        create_named(&engine, table).unwrap();
        put_in(&engine, table, "a").unwrap();
    }
    let records: Vec<Vec<u8>> =
        record("one").iter().map(|key| store.latest(key).unwrap().unwrap().to_vec()).collect();
    overwrite(&store, &record("one"));

    let engine = Engine::on_store(store.clone()).unwrap();
    assert_eq!(engine.unreadable_records().unwrap().len(), 1);
    assert!(engine.unreadable_records().unwrap()[0].contains("table one"));
    let damage = |answer: Result<(), Error>| match answer.map_err(ApiError::from) {
        Err(ApiError::Internal { .. }) => {}
        other => panic!("{other:?}"),
    };
    damage(has(&engine, "one", "a").map(drop));
    damage(put_in(&engine, "one", "b"));
    damage(create_named(&engine, "one").map(drop));
    damage(engine.describe_table(&DescribeTable { table: name("one") }).map(drop));
    damage(block_on(engine.delete_table(DeleteTable { table: name("one") }, NOW)).map(drop));
    assert!(has(&engine, "two", "a").unwrap() && !has(&engine, "two", "b").unwrap());
    create_named(&engine, "three").unwrap();
    block_on(engine.delete_table(DeleteTable { table: name("three") }, NOW)).unwrap();
    work(&engine, NOW);

    let mut batch = Batch::default();
    record("one").into_iter().zip(records).for_each(|(key, value)| batch.put(key, value));
    store.write(batch).unwrap();
    assert!(has(&Engine::on_store(store).unwrap(), "one", "a").unwrap());
}

#[test]
fn a_store_from_before_there_were_second_copies_gets_them() {
    let store = Store::memory(Options::default()).unwrap();
    let engine = Engine::on_store(store.clone()).unwrap();
    let tables: Vec<String> = (0..30).map(|n| format!("table-{n:02}")).collect();
    tables.iter().for_each(|table| drop(create_named(&engine, table).unwrap()));
    let backup = CreateBackup { table: name("table-07"), name: "kept".to_owned() };
    block_on(engine.create_backup(backup, NOW)).unwrap();
    work(&engine, NOW);
    let second = || store.snapshot().range(Bound::Included(&[0x30]), Bound::Excluded(&[0x31])).unwrap();
    let copies: Vec<(Vec<u8>, Vec<u8>)> =
        second().map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect();
    let mut batch = Batch::default();
    copies.iter().for_each(|(key, _)| batch.delete(key.clone()));
    store.write(batch).unwrap();

    let engine = Engine::on_store(store.clone()).unwrap();
    work(&engine, NOW);
    let again: Vec<(Vec<u8>, Vec<u8>)> =
        second().map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect();
    let records = |copies: &[(Vec<u8>, Vec<u8>)]| {
        let is_record = |key: &[u8]| matches!(key.get(1), None | Some(0x02 | 0x07));
        copies.iter().filter(|(key, _)| is_record(key)).cloned().collect::<Vec<_>>()
    };
    assert_eq!(records(&again), records(&copies));
    assert_eq!(engine.verify(NOW, |_| {}).unwrap().problems, [""; 0]);
}

#[test]
fn a_page_that_cannot_be_read_loses_no_table() {
    const PAGE: usize = 4096;
    let options = || Options { log_bytes: 64 << 10, cache_bytes: 0, ..Options::default() };
    let disk = FaultyDisk::default();
    let engine = Engine::on_store(Store::on_disk(disk.clone(), options()).unwrap()).unwrap();
    let tables: Vec<String> = (0..60).map(|n| format!("table-{n:02}")).collect();
    for table in &tables {
        create_named(&engine, table).unwrap();
        (0..3).for_each(|n| put_in(&engine, table, &format!("item-{n}")).unwrap());
    }
    engine.close().unwrap();
    let bytes = disk.bytes();
    // Pages with the text of a record on them; some are left over from earlier commits.
    let marker = b"deletion_protection";
    let marked = |page: &[u8]| page.windows(marker.len()).any(|part| part == marker);
    let pages = (17..bytes.len() / PAGE).map(|page| page * PAGE);
    let pages: Vec<usize> = pages.filter(|at| marked(&bytes[*at..*at + PAGE])).collect();
    let mut hit = 0;
    for at in pages {
        let image = FaultyDisk::from(bytes.clone());
        image.flip(at as u64, 0xff);
        // The storage's own numbers are on the first page.
        let Ok(store) = Store::on_disk(image, options()) else { continue };
        let engine = Engine::on_store(store).unwrap();
        assert_eq!(engine.unreadable_records().unwrap(), [""; 0]);
        let listed = engine.list_tables(&ListTables { start: None, limit: None }).unwrap().names;
        assert_eq!(listed.len(), tables.len());
        for table in &tables {
            // Items may be on that page, too.
            match has(&engine, table, "item-1") {
                Ok(there) => assert!(there),
                Err(error) if error.concerns_one_value() => {}
                Err(error) => panic!("{error}"),
            }
        }
        create_named(&engine, "another")
            .map(drop)
            .or_else(|error| match error {
                // Nothing can be added to it either.
                damage if damage.concerns_one_value() => Ok(()),
                other => Err(other),
            })
            .unwrap();
        hit += 1;
    }
    assert!(hit > 1);
}
