//! Where conflicts of transactions are told, whoever meets a transaction under way is turned away.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use common::*;
use larder_engine::ops::*;
use larder_engine::{Engine, Error};
use larder_model::{ApiError, CancellationReason, Item};
use pollster::block_on;

fn database() -> Engine {
    let engine = Engine::memory().unwrap();
    create(&engine, false);
    engine.tell_conflicts();
    engine
}

fn transaction(keys: &[&str]) -> TransactWriteItems {
    let write = |pk: &&str| TransactWrite {
        table: name("data"),
        action: TransactAction::Put { item: item([("pk", *pk), ("by", "transaction")]) },
        condition: None,
        return_old_on_failure: false,
    };
    TransactWriteItems {
        writes: keys.iter().map(write).collect(),
        token: None,
        capacity: ReturnCapacity::None,
        collection_metrics: false,
    }
}

fn reading(keys: &[&str]) -> TransactGetItems {
    let get = |pk: &&str| TransactGet { table: name("data"), key: key(pk), projection: None };
    TransactGetItems { gets: keys.iter().map(get).collect(), capacity: ReturnCapacity::None }
}

/// Begins it. What it wrote may be on disk by then, but nobody has heard of it.
fn begin<F: Future>(future: Pin<&mut F>) -> bool {
    matches!(future.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
}

#[track_caller]
fn reasons<T>(result: Result<T, Error>) -> Vec<&'static str> {
    let Err(Error::Api(ApiError::TransactionCanceled { reasons })) = result.map(|_| ()) else {
        panic!("it is not cancelled")
    };
    let in_words = |reason: &CancellationReason| match reason.code {
        "None" => assert_eq!(reason.message, None),
        _ => assert_eq!(reason.message.as_deref(), Some("Transaction is ongoing for the item")),
    };
    reasons.iter().for_each(in_words);
    reasons.iter().map(|reason| reason.code).collect()
}

/// A write that is begun and not answered: tried again where the disk was faster than the one look.
macro_rules! underway {
    ($name:ident, $future:expr) => {
        let mut $name = pin!($future);
        let mut tries = 0;
        while !begin($name.as_mut()) {
            tries += 1;
            assert!(tries < 1000, "every write is over at once");
            $name.set($future);
        }
    };
}

#[test]
fn a_transaction_keeps_others_from_its_items_until_it_is_answered() {
    let engine = database();
    underway!(first, engine.transact_write_items(transaction(&["a", "b"]), NOW));
    assert_eq!(code(put(&engine, key("a"))), "TransactionConflictException");
    let found = block_on(engine.transact_write_items(transaction(&["c", "b"]), NOW));
    assert_eq!(reasons(found), ["None", "TransactionConflict"]);
    assert_eq!(reasons(engine.transact_get_items(&reading(&["a", "c"]))), ["TransactionConflict", "None"]);
    // Of other items nobody is kept.
    put(&engine, key("d")).unwrap();
    block_on(first.as_mut()).unwrap();
    assert_eq!(get(&engine, key("b")), Some(item([("pk", "b"), ("by", "transaction")])));
    assert_eq!(get(&engine, key("c")), None);
    put(&engine, key("a")).unwrap();
    block_on(engine.transact_write_items(transaction(&["c", "b"]), NOW)).unwrap();
    engine.transact_get_items(&reading(&["a", "c"])).unwrap();
}

#[test]
fn a_batch_leaves_undone_what_a_transaction_is_writing() {
    let engine = database();
    let write = |keys: &[&str]| {
        let puts = keys.iter().map(|pk| BatchWrite::Put(key(pk))).collect();
        let (capacity, collection_metrics) = (ReturnCapacity::None, false);
        let request = BatchWriteItem { tables: vec![(name("data"), puts)], capacity, collection_metrics };
        block_on(engine.batch_write_item(request, NOW))
    };
    underway!(first, engine.transact_write_items(transaction(&["a"]), NOW));
    let left = write(&["a", "b"]).unwrap().unprocessed;
    let [(_, left)] = left.as_slice() else { panic!("one table has something left") };
    let [BatchWrite::Put(left)] = left.as_slice() else { panic!("one put is left") };
    assert_eq!((left, get(&engine, key("b"))), (&key("a"), Some(key("b"))));
    assert_eq!(code(write(&["a"])), "TransactionConflictException");
    block_on(first.as_mut()).unwrap();
    assert!(write(&["a", "b"]).unwrap().unprocessed.is_empty());
}

#[test]
fn a_transaction_reads_nothing_that_is_being_written() {
    let engine = database();
    let request = |item: Item| PutItem { table: name("data"), item, options: WriteOptions::default() };
    underway!(first, engine.put_item(request(key("a")), NOW));
    assert_eq!(reasons(engine.transact_get_items(&reading(&["a"]))), ["TransactionConflict"]);
    // One after the other they can be written.
    block_on(engine.transact_write_items(transaction(&["a"]), NOW)).unwrap();
    block_on(first.as_mut()).unwrap();
    engine.transact_get_items(&reading(&["a"])).unwrap();
}

#[test]
fn what_nobody_waits_for_keeps_nobody() {
    let engine = database();
    {
        underway!(first, engine.transact_write_items(transaction(&["a"]), NOW));
        assert_eq!(code(put(&engine, key("a"))), "TransactionConflictException");
    }
    put(&engine, key("a")).unwrap();
}

#[test]
fn unless_they_are_asked_for_there_are_no_conflicts() {
    let engine = Engine::memory().unwrap();
    create(&engine, false);
    underway!(first, engine.transact_write_items(transaction(&["a"]), NOW));
    put(&engine, key("a")).unwrap();
    engine.transact_get_items(&reading(&["a"])).unwrap();
    block_on(first.as_mut()).unwrap();
}
