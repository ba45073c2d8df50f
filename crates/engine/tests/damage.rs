//! Something cannot be read: it is named, it can be written over and deleted, and all else goes on.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::HashMap;
use std::ops::Bound;
use std::time::Duration;

use common::*;
use larder_engine::ops::*;
use larder_engine::{Engine, Error, Salvaged, SalvagedTable, Watcher, salvage};
use larder_model::{AttributeValue, IndexName, Item, UnixTime};
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
    assert!(error.concerns_one_value());
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

/// Where pages of the tree seem to begin.
fn tree_pages(image: &[u8]) -> Vec<usize> {
    (0..image.len()).step_by(4096).filter(|&at| matches!(image[at], 1 | 2)).collect()
}

/// A store of two tables with much in them, of which one page after the other is filled with zeros.
#[test]
fn whichever_page_is_damaged_no_answer_is_wrong_and_verify_tells() {
    let disk = FaultyDisk::default();
    let engine = filled(&disk);
    for n in 0..600 {
        put(&engine, item([("pk", &format!("more-{n:04}")), ("note", &"y".repeat(60))])).unwrap();
    }
    engine.close().unwrap();
    let whole = disk.bytes();
    let all = keys_in(&open(&FaultyDisk::from(whole.clone())), None);
    let (mut opened, mut refused, mut hit) = (0, 0, 0);
    for at in tree_pages(&whole) {
        let mut image = whole.clone();
        image[at..at + 4096].fill(0);
        let Ok(store) = Store::on_disk_read_only(FaultyDisk::from(image), options()) else {
            refused += 1;
            continue;
        };
        opened += 1;
        let verified = larder_engine::verify(&store, &[], NOW, |_| {}).unwrap();
        let Ok(engine) = Engine::on_store(store) else {
            assert!(verified.problem_count > 0);
            refused += 1;
            continue;
        };
        let (items, skipped) = skipping(&engine, None, Some(100));
        let mut wrong = 0;
        for pk in &all {
            let get = GetItem {
                table: name("data"),
                key: key(pk),
                projection: None,
                consistent: true,
                capacity: ReturnCapacity::None,
            };
            match engine.get_item(&get) {
                Ok(found) => assert!(found.item.is_some(), "{pk} is said to be absent"),
                Err(error) => {
                    assert!(error.to_string().starts_with(&format!("table data, item pk={pk}: ")), "{error}");
                    wrong += 1;
                }
            }
        }
        assert_eq!(items.len() + wrong, all.len());
        assert_eq!(skipped.is_empty(), wrong == 0, "{skipped:?}");
        assert!(skipped.iter().all(|name| name.starts_with("table data: the items ")), "{skipped:?}");
        if wrong > 0 {
            hit += 1;
            assert!(verified.problems.iter().any(|problem| problem.starts_with("table data: the items ")));
            assert_eq!(code(scan(&engine, None)), "InternalServerError");
        }
    }
    assert!(hit > 5, "{opened} opened, {refused} refused, {hit} hit");
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
    assert_eq!(problems(&engine).len(), 1);
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
        engine.work(later, Duration::ZERO).unwrap_err().concerns_one_value(),
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
        policy: None,
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

/// Keeps what belongs to no table.
#[derive(Default)]
struct Strays(Vec<Item>);

impl Watcher for Strays {
    fn brought(&mut self, _items: u64) {}

    fn stray(&mut self, _table: u32, item: &Item) -> Result<(), std::io::Error> {
        self.0.push(item.clone());
        Ok(())
    }
}

/// What is brought out of a store, which is not changed.
fn salvaged(disk: &FaultyDisk) -> (Engine, Salvaged, Vec<Item>) {
    let before = disk.bytes();
    let store = Store::memory(Options::default()).unwrap();
    let found = larder_storage::salvage_disk(disk.clone(), options(), &store).unwrap();
    let target = Engine::memory().unwrap();
    let mut strays = Strays::default();
    let done = salvage(&store, &found.lost, &target, NOW, &mut strays).unwrap();
    assert!(before == disk.bytes(), "the source was changed");
    assert_eq!(problems(&target), Vec::<String>::new());
    (target, done, strays.0)
}

#[test]
fn a_whole_store_is_brought_out_whole() {
    let disk = FaultyDisk::default();
    let engine = filled(&disk);
    let request = UpdateTimeToLive { table: name("data"), attribute: "until".to_owned(), enabled: true };
    block_on(engine.update_time_to_live(request)).unwrap();
    let switch = UpdateContinuousBackups { table: name("data"), enabled: true, days: Some(9) };
    block_on(engine.update_continuous_backups(switch, NOW)).unwrap();
    block_on(engine.create_backup(CreateBackup { table: name("data"), name: "kept".to_owned() }, NOW))
        .unwrap();
    work(&engine, NOW);
    let mut timed = person(3);
    timed.insert("until", NOW.seconds() + 60);
    put(&engine, timed).unwrap();
    engine.close().unwrap();
    let (target, done, _) = salvaged(&disk);
    assert_eq!((done.lost, done.notes, done.backups), (Vec::<String>::new(), Vec::<String>::new(), 1));
    assert_eq!(done.tables, [SalvagedTable { name: "data".to_owned(), items: 50, from_indexes: 0 }]);
    assert_eq!((keys_in(&target, None).len(), keys_in(&target, Some("by_city")).len()), (50, 50));
    assert_eq!(describe(&target).item_count, 50);
    let recovery = DescribeContinuousBackups { table: name("data") };
    assert_eq!(target.describe_continuous_backups(&recovery, NOW).unwrap().recovery.unwrap().days, 9);
    let list = ListBackups {
        table: None,
        kinds: [BackupKind::User].into(),
        from: None,
        before: None,
        limit: None,
        start: None,
    };
    let backups = target.list_backups(&list).unwrap().backups;
    assert_eq!((backups[0].name.as_str(), backups[0].item_count), ("kept", 50));
    assert_eq!(work(&target, NOW.plus(Duration::from_secs(120))), 1, "what is to expire expires");
}

#[test]
fn an_item_that_only_an_index_still_has_is_brought_out_from_there() {
    let disk = FaultyDisk::default();
    let engine = filled(&disk);
    put(&engine, item([("pk", "no city")])).unwrap();
    engine.close().unwrap();
    spoil(&disk, 0, "person-007");
    let (target, done, _) = salvaged(&disk);
    assert_eq!(done.tables, [SalvagedTable { name: "data".to_owned(), items: 51, from_indexes: 1 }]);
    assert_eq!(done.lost, Vec::<String>::new());
    assert_eq!(get(&target, key("person-007")), Some(person(7)));
    // The index does not have everybody.
    spoil(&disk, 0, "no city");
    let (_, done, _) = salvaged(&disk);
    assert_eq!(done.lost, ["table data, item pk=no city"]);
}

#[test]
fn items_of_a_table_whose_record_is_lost_are_handed_out() {
    let disk = FaultyDisk::default();
    filled(&disk).close().unwrap();
    let store = Store::on_disk(disk.clone(), options()).unwrap();
    let mut batch = Batch::default();
    batch.put([&[0x02][..], b"data"].concat(), b"rubbish".to_vec());
    store.write(batch).unwrap();
    store.close().unwrap();
    let (_, done, strays) = salvaged(&disk);
    assert_eq!((done.tables.len(), strays.len()), (1, 0), "its second copy is there");
    let store = Store::on_disk(disk.clone(), options()).unwrap();
    let mut batch = Batch::default();
    batch.put([&[0x30, 0x02][..], b"data"].concat(), b"rubbish".to_vec());
    store.write(batch).unwrap();
    store.close().unwrap();
    let (_, done, strays) = salvaged(&disk);
    assert_eq!(done.tables, []);
    assert_eq!(strays.len(), 50);
    assert!(done.lost.contains(&"the record of table data".to_owned()), "{:?}", done.lost);
}

fn by_pk(items: Vec<Item>) -> HashMap<String, Item> {
    let pk = |item: &Item| item.get("pk").and_then(AttributeValue::as_str).unwrap().to_owned();
    items.into_iter().map(|item| (pk(&item), item)).collect()
}

#[test]
fn whichever_page_is_damaged_all_else_is_brought_out() {
    let disk = FaultyDisk::default();
    let engine = filled(&disk);
    for n in 0..600 {
        put(&engine, item([("pk", &format!("more-{n:04}")), ("note", &"y".repeat(60))])).unwrap();
    }
    engine.close().unwrap();
    let whole = disk.bytes();
    let mut incomplete = 0;
    for at in tree_pages(&whole).into_iter().step_by(3) {
        let mut image = whole.clone();
        image[at..at + 4096].fill(0);
        let image = FaultyDisk::from(image);
        let Ok(store) = Store::on_disk_read_only(image.clone(), options()) else { continue };
        let readable = Engine::on_store(store).map(|engine| skipping(&engine, None, None));
        let (target, done, _) = salvaged(&image);
        if !done.tables.is_empty() {
            assert_eq!(done.tables[0].items < 650, !done.lost.is_empty(), "{done:?}");
        }
        // Without the page that says what wrote the store, no engine opens it.
        let Ok((items, skipped)) = readable else { continue };
        let brought: HashMap<String, Item> = by_pk(scan(&target, None).unwrap());
        assert!(by_pk(items).iter().all(|(pk, item)| brought.get(pk) == Some(item)));
        if brought.len() < 650 {
            incomplete += 1;
            assert!(!skipped.is_empty());
        }
    }
    assert!(incomplete > 2, "{incomplete}");
}
