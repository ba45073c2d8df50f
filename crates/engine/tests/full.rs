//! On a full disk items can be read, deleted and expired, tables can be deleted, and nothing can be added.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use common::*;
use larder_engine::ops::{DeleteTable, UpdateTimeToLive};
use larder_engine::{Engine, Error};
use larder_model::{ApiError, Item, UnixTime};
use larder_storage::faulty::FaultyPlace;
use larder_storage::{Options, Pace};
use pollster::block_on;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn database(bytes: u64) -> (FaultyPlace, Engine) {
    let pace =
        Pace { reserve_after: Duration::ZERO, look_pause: Duration::from_millis(10), ..Pace::default() };
    let place = FaultyPlace::new(pace);
    place.limit(bytes);
    let options = Options { log_bytes: MIB, cache_bytes: 8 << 20, ..Options::default() };
    let engine = Engine::on_store(place.open(options).unwrap()).unwrap();
    create(&engine, true);
    (place, engine)
}

/// They expire one after the other.
fn large(n: usize) -> Item {
    let text = "x".repeat(5000);
    let mut item = item([("pk", n.to_string().as_str()), ("city", "Malmö"), ("text", &text)]);
    item.insert("ttl", NOW.seconds() + n as i64);
    item
}

/// Puts until that is refused; how many are there.
fn fill(engine: &Engine, from: usize) -> usize {
    let mut n = from;
    loop {
        match put(engine, large(n)) {
            Ok(_) => n += 1,
            Err(error) if engine.activity().unwrap().full => {
                assert!(matches!(ApiError::from(error), ApiError::Internal { .. }));
                return n;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn wait_for_room(engine: &Engine) {
    let limit = Instant::now() + Duration::from_secs(60);
    while engine.activity().unwrap().full {
        assert!(Instant::now() < limit, "there is room, and nobody finds it");
        std::thread::yield_now();
    }
}

/// As the server does: what failed because the disk was full is tried again.
fn work_through(engine: &Engine, now: UnixTime) {
    let done = (0..10_000).any(|_| engine.work(now, Duration::ZERO).is_ok_and(|worked| !worked.more));
    assert!(done, "the work does not end");
}

#[test]
fn items_can_be_deleted_and_then_put_again() {
    let (_place, engine) = database(40 * MIB);
    let there = fill(&engine, 0);
    for n in 0..there / 2 {
        let refused = put(&engine, large(there + n)).is_err();
        assert!(refused || !engine.activity().unwrap().full);
        delete(&engine, key(&n.to_string()));
        if !refused {
            delete(&engine, key(&(there + n).to_string()));
        }
    }
    wait_for_room(&engine);
    put(&engine, large(there)).unwrap();
    assert_eq!(describe(&engine).item_count as usize, there - there / 2 + 1);
}

#[test]
fn items_expire_and_tables_can_be_deleted() {
    let (place, engine) = database(40 * MIB);
    let request = UpdateTimeToLive { table: name("data"), attribute: "ttl".into(), enabled: true };
    block_on(engine.update_time_to_live(request)).unwrap();
    work(&engine, NOW);
    let there = fill(&engine, 0);
    work_through(&engine, UnixTime::from_seconds(NOW.seconds() + there as i64 / 2));
    wait_for_room(&engine);
    assert_eq!(describe(&engine).item_count as usize, there - there / 2);
    let there = fill(&engine, there);
    assert!(matches!(put(&engine, large(there)), Err(Error::Storage(larder_storage::Error::Full))));
    block_on(engine.delete_table(DeleteTable { table: name("data") }, NOW)).unwrap();
    work_through(&engine, NOW);
    wait_for_room(&engine);
    create(&engine, false);
    put(&engine, large(0)).unwrap();
    drop(place);
}
