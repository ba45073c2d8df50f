//! Something cannot be read: it is named, it can be written over and deleted, and all else goes on.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::ops::Bound;
use std::time::Duration;

use common::*;
use larder_engine::ops::*;
use larder_engine::{Engine, Error};
use larder_model::{IndexName, Item, UnixTime};
use larder_storage::faulty::FaultyDisk;
use larder_storage::{Batch, Options, Store};
use pollster::block_on;

fn options() -> Options {
    Options { log_bytes: 64 << 10, ..Options::default() }
}

fn open(disk: &FaultyDisk) -> Engine {
    Engine::on_store(Store::on_disk(disk.clone(), options()).unwrap()).unwrap()
}

fn person(n: usize) -> Item {
    let city = if n.is_multiple_of(2) { "Lund" } else { "Umeå" };
    item([("pk", &format!("person-{n:03}")), ("city", city), ("note", &"x".repeat(n))])
}

/// A table of fifty, each in the index.
fn filled(disk: &FaultyDisk) -> Engine {
    let engine = open(disk);
    create(&engine, true);
    (0..50).for_each(|n| drop(put(&engine, person(n)).unwrap()));
    engine
}

/// Puts something into the place of what a key of the store holds that is no item.
fn spoil(disk: &FaultyDisk, tree: u16, pk: &str) {
    let store = Store::on_disk(disk.clone(), options()).unwrap();
    // A tree begins with 10, the table's number and its own.
    let begin = |tree: u16| [&[0x10][..], &1u32.to_be_bytes(), &tree.to_be_bytes()].concat();
    let (from, to) = (begin(tree), begin(tree + 1));
    let range = store.snapshot().range(Bound::Included(&from), Bound::Excluded(&to)).unwrap();
    let keys = range.map(|entry| entry.unwrap().0.to_vec());
    let found =
        keys.filter(|key| key.windows(pk.len()).any(|part| part == pk.as_bytes())).collect::<Vec<_>>();
    let mut batch = Batch::default();
    batch.put(found[0].clone(), b"rubbish".to_vec());
    assert_eq!(found.len(), 1);
    store.write(batch).unwrap();
    store.close().unwrap();
}

/// One item of fifty cannot be read.
fn spoilt() -> Engine {
    let disk = FaultyDisk::default();
    filled(&disk).close().unwrap();
    spoil(&disk, 0, "person-007");
    open(&disk)
}

fn problems(engine: &Engine) -> Vec<String> {
    engine.verify(NOW, |_| {}).unwrap().problems
}

fn is_named(result: Result<impl Sized, Error>) {
    let error = result.map(drop).unwrap_err();
    assert!(error.to_string().starts_with("table data, item pk=person-007: "), "{error}");
    assert!(error.is_of_one_value());
    assert_eq!(code::<()>(Err(error)), "InternalServerError");
}

fn put_with(engine: &Engine, item: Item, options: WriteOptions) -> Result<WriteOutput, Error> {
    block_on(engine.put_item(PutItem { table: name("data"), item, options }, NOW))
}

fn skipping(engine: &Engine, index: Option<&str>, limit: Option<usize>) -> (Vec<Item>, Vec<String>) {
    let (mut items, mut skipped, mut start) = (Vec::new(), Vec::new(), None);
    loop {
        let index = index.map(|index| IndexName::new(index).unwrap());
        let request = Scan { index, limit, start, skip_damaged: true, ..Scan::of(name("data")) };
        let page = engine.scan(&request).unwrap();
        items.extend(page.items.unwrap().iter().map(built));
        skipped.extend(page.skipped);
        start = page.last_key;
        if start.is_none() {
            return (items, skipped);
        }
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let engine = spoilt();
    let get = GetItem {
        table: name("data"),
        key: key("person-007"),
        projection: None,
        consistent: true,
        capacity: ReturnCapacity::None,
    };
    is_named(engine.get_item(&get).map(|found| found.item.map(|row| built(&row))));
    is_named(scan(&engine, None));
    assert_eq!(scan(&engine, Some("by_city")).unwrap().len(), 50, "the index is whole");
}

#[test]
fn a_scan_that_is_asked_to_skip_tells_what_it_skipped() {
    let engine = spoilt();
    for limit in [None, Some(1), Some(7)] {
        let (items, skipped) = skipping(&engine, None, limit);
        assert_eq!(items.len(), 49);
        assert_eq!(skipped, ["table data, item pk=person-007"]);
    }
}

#[test]
fn what_depends_on_the_old_item_is_refused() {
    let engine = spoilt();
    let new = item([("pk", "person-007"), ("city", "Kiruna")]);
    let condition = scope(&[]).condition("attribute_not_exists(pk)").unwrap();
    is_named(put_with(
        &engine,
        new.clone(),
        WriteOptions { condition: Some(condition), ..WriteOptions::default() },
    ));
    let asks = WriteOptions { return_values: ReturnValues::AllOld, ..WriteOptions::default() };
    is_named(put_with(&engine, new.clone(), asks));
    let update = UpdateItem {
        table: name("data"),
        key: key("person-007"),
        update: Some(scope(&[]).update("REMOVE note").unwrap()),
        options: WriteOptions::default(),
    };
    is_named(block_on(engine.update_item(update, NOW)));
    let writes = vec![TransactWrite {
        table: name("data"),
        action: TransactAction::Put { item: new },
        condition: None,
        return_old_on_failure: false,
    }];
    let transaction =
        TransactWriteItems { writes, token: None, capacity: ReturnCapacity::None, collection_metrics: false };
    is_named(block_on(engine.transact_write_items(transaction, NOW)));
    assert_eq!(problems(&engine).len(), 2);
}

#[test]
fn it_can_be_written_over_and_leaves_nothing_behind() {
    let engine = spoilt();
    let new = item([("pk", "person-007"), ("city", "Kiruna")]);
    put(&engine, new.clone()).unwrap();
    assert_eq!(get(&engine, key("person-007")), Some(new.clone()));
    assert_eq!(problems(&engine), Vec::<String>::new());
    let in_index = scan(&engine, Some("by_city")).unwrap();
    assert_eq!(in_index.iter().filter(|item| item.get("pk") == new.get("pk")).collect::<Vec<_>>(), [&new]);
    assert_eq!(describe(&engine).item_count, 50);
}

#[test]
fn it_can_be_deleted() {
    let engine = spoilt();
    delete(&engine, key("person-007"));
    assert_eq!(get(&engine, key("person-007")), None);
    assert_eq!((scan(&engine, None).unwrap().len(), scan(&engine, Some("by_city")).unwrap().len()), (49, 49));
    assert_eq!(problems(&engine), Vec::<String>::new());
    assert_eq!(describe(&engine).item_count, 49);
}

#[test]
fn a_batch_writes_over_it_too() {
    let engine = spoilt();
    let writes = vec![
        BatchWrite::Put(item([("pk", "person-006"), ("city", "Kiruna")])),
        BatchWrite::Put(item([("pk", "person-007"), ("city", "Kiruna")])),
        BatchWrite::Delete(key("person-008")),
    ];
    let request = BatchWriteItem {
        tables: vec![(name("data"), writes)],
        capacity: ReturnCapacity::None,
        collection_metrics: false,
    };
    block_on(engine.batch_write_item(request, NOW)).unwrap();
    assert_eq!(problems(&engine), Vec::<String>::new());
    assert_eq!(describe(&engine).item_count, 49);
}

#[test]
fn of_several_that_cannot_be_read_each_can_go() {
    let disk = FaultyDisk::default();
    filled(&disk).close().unwrap();
    for pk in ["person-007", "person-011", "person-040"] {
        spoil(&disk, 0, pk);
    }
    // And one of their index entries.
    spoil(&disk, 1, "person-011");
    let engine = open(&disk);
    delete(&engine, key("person-040"));
    delete(&engine, key("person-011"));
    put(&engine, person(7)).unwrap();
    assert_eq!(problems(&engine), Vec::<String>::new());
    assert_eq!(describe(&engine).item_count, 48);
}

#[test]
fn an_expiry_entry_of_it_goes_along() {
    let disk = FaultyDisk::default();
    let engine = filled(&disk);
    let request = UpdateTimeToLive { table: name("data"), attribute: "until".to_owned(), enabled: true };
    block_on(engine.update_time_to_live(request)).unwrap();
    work(&engine, NOW);
    let mut timed = person(7);
    timed.insert("until", NOW.seconds() + 60);
    put(&engine, timed).unwrap();
    engine.close().unwrap();
    spoil(&disk, 0, "person-007");
    let engine = open(&disk);
    let later = NOW.plus(Duration::from_secs(120));
    assert!(
        engine.work(later, Duration::ZERO).unwrap_err().is_of_one_value(),
        "it is due, and cannot be read"
    );
    put(&engine, person(7)).unwrap();
    assert_eq!(work(&engine, later), 0);
    assert_eq!(get(&engine, key("person-007")), Some(person(7)));
    assert_eq!(problems(&engine), Vec::<String>::new());
}

#[test]
fn no_moment_before_it_was_written_over_is_offered() {
    let disk = FaultyDisk::default();
    let engine = filled(&disk);
    let at = |seconds: u64| NOW.plus(Duration::from_secs(seconds));
    let switch = UpdateContinuousBackups { table: name("data"), enabled: true, days: None };
    block_on(engine.update_continuous_backups(switch, at(10))).unwrap();
    engine.close().unwrap();
    spoil(&disk, 0, "person-007");
    let engine = open(&disk);
    let new = PutItem { table: name("data"), item: person(7), options: WriteOptions::default() };
    block_on(engine.put_item(new, at(100))).unwrap();
    let restore = |target: &str, moment: UnixTime| {
        let request = RestoreTableToPointInTime {
            source: name("data"),
            target: name(target),
            at: Some(moment),
            overrides: RestoreOverrides::default(),
        };
        block_on(engine.restore_table_to_point_in_time(request, at(200)))
    };
    assert_eq!(code(restore("before", at(50))), "InvalidRestoreTimeException");
    restore("after", at(150)).unwrap();
    work(&engine, at(200));
    let restored = Scan::of(name("after"));
    assert_eq!(engine.scan(&restored).unwrap().count, 50);
}

#[test]
fn one_table_s_damage_holds_up_no_other() {
    let engine = spoilt();
    // Another table gets an index, as the damaged one does.
    let other = CreateTable {
        table: name("other"),
        attributes: vec![("pk".to_owned(), larder_model::KeyType::S)],
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
    };
    block_on(engine.create_table(other, NOW)).unwrap();
    let put_other = PutItem { table: name("other"), item: person(1), options: WriteOptions::default() };
    block_on(engine.put_item(put_other, NOW)).unwrap();
    for table in ["data", "other"] {
        let index =
            NewIndex { name: IndexName::new("by_note").unwrap(), key: vec![partition("note")], ..by_city() };
        let request = UpdateTable {
            table: name(table),
            attributes: vec![
                ("pk".to_owned(), larder_model::KeyType::S),
                ("note".to_owned(), larder_model::KeyType::S),
            ],
            billing_mode: None,
            throughput: None,
            on_demand_limits: None,
            index_changes: Some(vec![IndexChange::Create(index)]),
            stream: None,
            encryption: None,
            class: None,
            deletion_protection: None,
        };
        block_on(engine.update_table(request, NOW)).unwrap();
    }
    for _ in 0..10 {
        let _ = engine.work(NOW, Duration::ZERO);
    }
    let filled = |table: &str| {
        let index = Some(IndexName::new("by_note").unwrap());
        engine.scan(&Scan { index, ..Scan::of(name(table)) }).map(|page| page.count)
    };
    assert_eq!(filled("other").unwrap(), 1);
    assert_eq!(code(filled("data")), "ValidationException", "it is still being filled");
    put(&engine, person(7)).unwrap();
    work(&engine, NOW);
    // Of the first person the note is empty.
    assert_eq!(filled("data").unwrap(), 49);
}
