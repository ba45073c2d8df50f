//! What a store on disk keeps, and what it lets go of.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use common::*;
use larder_engine::ops::{DeleteTable, ReturnCapacity, TransactAction, TransactWrite, TransactWriteItems};
use larder_engine::{Engine, Error, item_bytes};
use larder_model::{Item, UnixTime};
use larder_storage::{Batch, Options, Store};
use pollster::block_on;
use std::ops::Bound;

fn count_once(engine: &Engine, token: &str, key: Item, now: UnixTime) -> Result<(), Error> {
    let update = scope(&[(":one", 1.into())]).update("ADD n :one").unwrap();
    let write = TransactWrite {
        table: name("data"),
        action: TransactAction::Update { key, update },
        condition: None,
        return_old_on_failure: false,
    };
    let request = TransactWriteItems {
        writes: vec![write],
        token: Some(token.into()),
        capacity: ReturnCapacity::None,
        collection_metrics: false,
    };
    block_on(engine.transact_write_items(request, now)).map(|_| ())
}

#[test]
fn a_closed_store_opens_with_all_it_had() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(dir.path(), Options::default()).unwrap();
    create(&engine, true);
    put(&engine, item([("pk", "a"), ("city", "Lund")])).unwrap();
    assert!(matches!(
        Engine::open(dir.path(), Options::default()),
        Err(Error::Storage(larder_storage::Error::InUse { .. }))
    ));
    engine.close().unwrap();
    drop(engine);

    let engine = Engine::open(dir.path(), Options::default()).unwrap();
    assert_eq!(get(&engine, key("a")), Some(item([("pk", "a"), ("city", "Lund")])));
    assert_eq!(keys_in(&engine, Some("by_city")), ["a"]);
    assert_eq!(describe(&engine).item_count, 1);
}

#[test]
fn a_token_is_honoured_after_a_restart_until_it_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Engine::open(dir.path(), Options::default()).unwrap();
    let engine = open();
    create(&engine, false);
    count_once(&engine, "token", key("a"), NOW).unwrap();
    count_once(&engine, "token", key("a"), NOW).unwrap();
    assert_eq!(code(count_once(&engine, "token", key("b"), NOW)), "IdempotentParameterMismatchException");
    engine.close().unwrap();
    drop(engine);

    let engine = open();
    count_once(&engine, "token", key("a"), NOW).unwrap();
    let counted = |engine: &Engine| get(engine, key("a")).unwrap().get("n").cloned();
    assert_eq!(counted(&engine), Some(1.into()));
    let later = UnixTime::from_seconds(NOW.seconds() + 601);
    work(&engine, later);
    count_once(&engine, "token", key("a"), later).unwrap();
    assert_eq!(counted(&engine), Some(2.into()));
}

#[test]
fn a_token_of_an_earlier_version_is_honoured() {
    let store = Store::memory(Options::default()).unwrap();
    let engine = Engine::on_store(store.clone()).unwrap();
    create(&engine, false);
    count_once(&engine, "token", key("a"), NOW).unwrap();

    let token = [&[0x04][..], b"token"].concat();
    let mut record = item_bytes::decode(&store.latest(&token).unwrap().unwrap()).unwrap();
    record.remove("fingerprint_version");
    let mut batch = Batch::default();
    batch.put(token, item_bytes::encode(&record));
    store.write(batch).unwrap();
    count_once(&engine, "token", key("a"), NOW).unwrap();
    assert_eq!(get(&engine, key("a")).unwrap().get("n"), Some(&1.into()));
}

#[test]
fn what_a_dropped_table_held_is_cleared_away() {
    let store = Store::memory(Options::default()).unwrap();
    let engine = Engine::on_store(store.clone()).unwrap();
    let entries = || store.snapshot().range(Bound::Unbounded, Bound::Unbounded).unwrap().count();
    create(&engine, false);
    delete_table(&engine);
    work(&engine, NOW);
    let empty = entries();

    create(&engine, true);
    for n in 0..1500 {
        put(&engine, item([("pk", &format!("{n}")), ("city", "Lund")])).unwrap();
    }
    assert!(entries() > 3000);
    delete_table(&engine);
    create(&engine, true);
    put(&engine, item([("pk", "kept"), ("city", "Lund")])).unwrap();
    work(&engine, NOW);
    assert_eq!(keys_in(&engine, Some("by_city")), ["kept"]);
    assert_eq!(describe(&engine).item_count, 1);
    delete_table(&engine);
    work(&engine, NOW);
    assert_eq!(entries(), empty);
}

fn delete_table(engine: &Engine) {
    block_on(engine.delete_table(DeleteTable { table: name("data") }, NOW)).unwrap();
}
