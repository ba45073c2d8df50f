//! A clock that jumps loses and misplaces nothing, or it is told.
//!
//! The tests do what whoever drives an engine does: requests and work are given trusted time, and the engine is told
//! what became of the clock.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::time::Duration;

use common::*;
use larder_engine::ops::*;
use larder_engine::{Engine, Error};
use larder_model::clock::{PROOF, Simulated};
use larder_model::{Clock, Item, StreamView, UnixTime};
use larder_storage::faulty::FaultyDisk;
use larder_storage::{Options, Store};
use pollster::block_on;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: i64 = 60 * 60 * 1000;
const DAY: i64 = 24 * HOUR;
const JUMPS: [i64; 4] = [2 * HOUR, -2 * HOUR, 40 * DAY, -40 * DAY];

/// A store, and a clock that can be wrong; `time` is right.
struct Driven {
    disk: FaultyDisk,
    engine: Engine,
    clock: Clock,
    hand: Simulated,
    time: UnixTime,
    wrong_by: i64,
    tables: usize,
}

impl Driven {
    /// A table with recovery, a stream and expiry.
    fn new() -> Self {
        let (clock, hand) = Clock::simulated(NOW);
        let disk = FaultyDisk::default();
        let engine = open(&disk);
        let mut driven = Self { disk, engine, clock, hand, time: NOW, wrong_by: 0, tables: 0 };
        create(&driven.engine, false);
        driven.pass(1);
        let recovery = UpdateContinuousBackups { table: name("data"), enabled: true, days: Some(2) };
        block_on(driven.engine.update_continuous_backups(recovery, driven.now())).unwrap();
        let request = UpdateTable {
            table: name("data"),
            attributes: Vec::new(),
            billing_mode: None,
            throughput: None,
            on_demand_limits: None,
            index_changes: None,
            stream: Some(StreamSpecification { enabled: true, view: Some(StreamView::NewImage) }),
            encryption: None,
            class: None,
            deletion_protection: None,
        };
        block_on(driven.engine.update_table(request, driven.now())).unwrap();
        let expiry = UpdateTimeToLive { table: name("data"), attribute: "ttl".into(), enabled: true };
        block_on(driven.engine.update_time_to_live(expiry)).unwrap();
        driven.pass(1);
        driven
    }

    fn now(&self) -> UnixTime {
        self.clock.trusted()
    }

    /// Seconds pass, and work is done in each.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.time = self.time.plus(SECOND);
            self.hand.pass(SECOND);
            self.work();
        }
    }

    /// Long times pass a minute at a step.
    fn pass_minutes(&mut self, minutes: u64) {
        for _ in 0..minutes {
            self.time = self.time.plus(60 * SECOND);
            self.hand.pass(60 * SECOND);
            self.work();
        }
    }

    fn work(&self) {
        let reading = self.clock.read();
        self.engine.keep_time(&reading).unwrap();
        while self.engine.work(reading.now, Duration::ZERO).unwrap().more {}
    }

    /// The clock becomes wrong by so much; by nothing, right again.
    fn jump(&mut self, by: i64) {
        self.wrong_by = by;
        self.hand.set(UnixTime::from_millis(self.time.millis() + by));
    }

    /// The power goes, and another process begins.
    fn restart(&mut self) {
        self.disk = self.disk.crash(7);
        self.engine = open(&self.disk);
        (self.clock, self.hand) = Clock::simulated(UnixTime::from_millis(self.time.millis() + self.wrong_by));
        self.engine.resume_time(&self.clock).unwrap();
    }

    fn put(&self, pk: &str, value: i64) {
        let mut item = key(pk);
        item.insert("n", value);
        self.put_item(item);
    }

    fn put_item(&self, item: Item) {
        let request = PutItem { table: name("data"), item, options: WriteOptions::default() };
        block_on(self.engine.put_item(request, self.now())).unwrap();
    }

    fn window(&self) -> (UnixTime, UnixTime) {
        let request = DescribeContinuousBackups { table: name("data") };
        let described = self.engine.describe_continuous_backups(&request, self.now()).unwrap();
        described.recovery.map(|recovery| (recovery.earliest, recovery.latest)).unwrap()
    }

    /// The table as it was, or why it cannot be restored.
    fn restored(&mut self, at: UnixTime) -> Result<Vec<(String, i64)>, Error> {
        self.tables += 1;
        let target = name(&format!("copy-{}", self.tables));
        let request = RestoreTableToPointInTime {
            source: name("data"),
            target: target.clone(),
            at: Some(at),
            overrides: RestoreOverrides::default(),
        };
        block_on(self.engine.restore_table_to_point_in_time(request, self.now()))?;
        self.work();
        let page = self.engine.scan(&Scan::of(target)).unwrap();
        let read = |item: Item| {
            let n = item.get("n").unwrap().as_number().unwrap().to_i64().unwrap();
            (item.get("pk").unwrap().as_str().unwrap().to_owned(), n)
        };
        let mut found: Vec<_> = page.items.unwrap().iter().map(|row| read(built(row))).collect();
        found.sort();
        Ok(found)
    }

    /// The values in the stream, from its oldest record on.
    fn stream(&self) -> Vec<i64> {
        let stream = StreamId { table: name("data"), label: describe(&self.engine).stream_label.unwrap() };
        let request = DescribeStream { stream: stream.clone(), start: None, children_of: None, limit: None };
        let shard = self.engine.describe_stream(&request, self.now()).unwrap().shards.remove(0).id;
        let request = GetShardIterator { stream, shard, start: ShardStart::TrimHorizon };
        let iterator = self.engine.get_shard_iterator(&request, self.now()).unwrap();
        let request = GetRecords { iterator, limit: None };
        let records = self.engine.get_records(&request, self.now()).unwrap().records;
        let value = |record: &StreamRecord| record.new.as_ref()?.get("n")?.as_number()?.to_i64();
        records.iter().filter_map(value).collect()
    }
}

fn open(disk: &FaultyDisk) -> Engine {
    let options = Options { cache_bytes: 64 << 10, log_bytes: 64 << 10, ..Options::default() };
    Engine::on_store(Store::on_disk(disk.clone(), options).unwrap()).unwrap()
}

fn of(items: &[(&str, i64)]) -> Vec<(String, i64)> {
    items.iter().map(|(pk, n)| ((*pk).to_owned(), *n)).collect()
}

#[test]
fn a_clock_that_is_wrong_for_three_seconds_changes_nothing() {
    for by in JUMPS {
        let mut driven = Driven::new();
        driven.put("a", 1);
        driven.pass(10);
        let before = driven.time;
        driven.pass(10);
        driven.put("a", 2);
        driven.put("b", 3);
        driven.pass(2);
        driven.jump(by);
        driven.pass(1);
        driven.put("c", 4);
        let during = driven.time;
        driven.pass(2);
        driven.jump(0);
        driven.pass(2);
        driven.put("a", 5);
        let after = driven.time;
        driven.pass(5);
        driven.put("d", 6);
        driven.pass(5);
        assert_eq!(driven.restored(before).unwrap(), of(&[("a", 1)]), "{by}");
        assert_eq!(driven.restored(during).unwrap(), of(&[("a", 2), ("b", 3), ("c", 4)]), "{by}");
        assert_eq!(driven.restored(after).unwrap(), of(&[("a", 5), ("b", 3), ("c", 4)]), "{by}");
        assert_eq!(driven.window().1, driven.time, "{by}");
        assert_eq!(driven.stream(), [1, 2, 3, 4, 5, 6], "{by}");
    }
}

#[test]
fn a_clock_that_stays_wrong_is_followed_and_nothing_is_misplaced() {
    for by in JUMPS {
        let mut driven = Driven::new();
        driven.put("a", 1);
        driven.pass(10);
        let before = driven.time;
        driven.pass(10);
        driven.jump(by);
        driven.pass(5);
        driven.put("a", 2);
        driven.pass_minutes(PROOF.as_secs() / 60);
        driven.pass(2);
        // The clock is followed: its moments are what it says.
        driven.put("a", 3);
        let third = driven.now();
        assert_eq!(third.millis(), driven.time.millis() + by);
        driven.pass(5);
        driven.put("a", 4);
        driven.pass(5);
        assert_eq!(driven.restored(third).unwrap(), of(&[("a", 3)]), "{by}");
        match driven.restored(before) {
            Ok(found) => assert_eq!(found, of(&[("a", 1)]), "{by}"),
            // Two days of recovery are over, says the clock, or the moment is yet to come.
            Err(error) => {
                assert!(by != 2 * HOUR && code::<()>(Err(error)) == "InvalidRestoreTimeException", "{by}");
            }
        }
        // What happened while it was not believed has no certain moment.
        for moment in [by + 15_000, 15_000].map(|millis| UnixTime::from_millis(before.millis() + millis)) {
            if let Ok(found) = driven.restored(moment) {
                assert!(by < 0 && moment > before && found == of(&[("a", 1)]), "{by}: {moment:?}");
            }
        }
        if by < 2 * DAY {
            assert_eq!(driven.stream(), [1, 2, 3, 4], "{by}");
        }
        // And back.
        driven.jump(0);
        driven.pass_minutes(PROOF.as_secs() / 60 + 1);
        driven.pass(2);
        driven.put("a", 5);
        let fifth = driven.time;
        driven.pass(2);
        driven.put("a", 6);
        driven.pass(2);
        assert_eq!(driven.restored(fifth).unwrap(), of(&[("a", 5)]), "{by}");
        assert_eq!(driven.window().1, driven.time, "{by}");
        match driven.restored(before) {
            Ok(found) => assert_eq!(found, of(&[("a", 1)]), "{by}"),
            Err(error) => assert_eq!(code::<()>(Err(error)), "InvalidRestoreTimeException", "{by}"),
        }
    }
}

#[test]
fn a_process_that_starts_while_the_clock_is_wrong_loses_nothing() {
    for by in JUMPS {
        let mut driven = Driven::new();
        driven.put("a", 1);
        driven.pass(10);
        let before = driven.time;
        driven.pass(10);
        driven.put("a", 2);
        let second = driven.time;
        driven.pass(1);
        driven.jump(by);
        driven.pass(1);
        driven.restart();
        driven.put("b", 3);
        driven.pass(2);
        assert_eq!(driven.stream(), [1, 2, 3], "{by}");
        let during = driven.time;
        driven.jump(0);
        driven.pass(5);
        driven.put("c", 4);
        driven.pass_minutes(PROOF.as_secs() / 60 + 1);
        driven.pass(2);
        driven.put("a", 5);
        let fifth = driven.time;
        driven.pass(1);
        driven.put("d", 6);
        driven.pass(1);
        assert_eq!(driven.stream(), [1, 2, 3, 4, 5, 6], "{by}");
        assert_eq!(driven.restored(before).unwrap(), of(&[("a", 1)]), "{by}");
        assert_eq!(driven.restored(second).unwrap(), of(&[("a", 2)]), "{by}");
        match driven.restored(during) {
            Ok(found) => assert_eq!(found, of(&[("a", 2), ("b", 3)]), "{by}"),
            Err(error) => assert!(error.to_string().contains("uncertain"), "{by}: {error}"),
        }
        assert_eq!(driven.restored(fifth).unwrap(), of(&[("a", 5), ("b", 3), ("c", 4)]), "{by}");
        assert_eq!(driven.window().1, driven.time, "{by}");
        // All of it survives another process.
        driven.restart();
        assert_eq!(driven.restored(fifth).unwrap(), of(&[("a", 5), ("b", 3), ("c", 4)]), "{by}");
    }
}

#[test]
fn nothing_expires_and_no_transaction_happens_twice_because_the_clock_jumps() {
    for by in JUMPS {
        for restarts in [false, true] {
            let mut driven = Driven::new();
            let mut expiring = key("expiring");
            expiring.insert("n", 1);
            expiring.insert("ttl", driven.time.seconds() + 3600);
            driven.put_item(expiring);
            let count = |driven: &Driven| {
                let update = scope(&[(":one", 1.into())]).update("ADD n :one").unwrap();
                let action = TransactAction::Update { key: key("counted"), update };
                let write = TransactWrite {
                    table: name("data"),
                    action,
                    condition: None,
                    return_old_on_failure: false,
                };
                let request = TransactWriteItems {
                    writes: vec![write],
                    token: Some("once".into()),
                    capacity: ReturnCapacity::None,
                    collection_metrics: false,
                };
                block_on(driven.engine.transact_write_items(request, driven.now())).unwrap();
                get(&driven.engine, key("counted")).unwrap().get("n").cloned()
            };
            assert_eq!(count(&driven), Some(1.into()));
            driven.pass(1);
            driven.jump(by);
            driven.pass(1);
            if restarts {
                driven.restart();
            }
            assert_eq!(count(&driven), Some(1.into()), "{by} {restarts}");
            driven.pass(2);
            assert_eq!(count(&driven), Some(1.into()), "{by} {restarts}");
            driven.jump(0);
            driven.pass(2);
            assert_eq!(count(&driven), Some(1.into()), "{by} {restarts}");
            assert!(get(&driven.engine, key("expiring")).is_some(), "{by} {restarts}");
            // Its time comes all the same.
            driven.pass_minutes(62);
            assert!(get(&driven.engine, key("expiring")).is_none(), "{by} {restarts}");
        }
    }
}

/// With an item that is to expire in an hour, and one in the stream.
fn with_expiring() -> Driven {
    let driven = Driven::new();
    let mut expiring = key("expiring");
    expiring.insert("n", 1);
    expiring.insert("ttl", driven.time.seconds() + 3600);
    driven.put_item(expiring);
    driven
}

#[test]
fn starts_with_clocks_that_are_wrong_by_different_amounts_delete_nothing() {
    for jumps in [[40 * DAY, 41 * DAY], [2 * HOUR, 40 * DAY], [40 * DAY, 40 * DAY + 2 * HOUR]] {
        for writes in [false, true] {
            let mut driven = with_expiring();
            driven.pass(5);
            let mut told = vec![1];
            for by in jumps {
                driven.jump(by);
                driven.restart();
                if writes {
                    told.push(by);
                    driven.put("other", by);
                }
                driven.pass(7);
                assert!(get(&driven.engine, key("expiring")).is_some(), "{by} of {jumps:?}, {writes}");
                assert_eq!(driven.stream(), told, "{by} of {jumps:?}, {writes}");
            }
            driven.jump(0);
            driven.restart();
            driven.pass(3);
            assert!(get(&driven.engine, key("expiring")).is_some(), "{jumps:?}, {writes}");
            assert_eq!(driven.stream(), told, "{jumps:?}, {writes}");
            // Its time comes all the same.
            driven.pass_minutes(75);
            assert!(get(&driven.engine, key("expiring")).is_none(), "{jumps:?}, {writes}");
        }
    }
}

#[test]
fn a_clock_that_was_right_proves_nothing_of_the_next() {
    let mut driven = with_expiring();
    driven.pass(5);
    driven.restart();
    driven.pass_minutes(PROOF.as_secs() / 60 - 1);
    driven.jump(40 * DAY);
    driven.restart();
    driven.pass_minutes(2);
    assert!(get(&driven.engine, key("expiring")).is_some());
    assert_eq!(driven.stream(), [1]);
}

#[test]
fn a_store_that_was_switched_off_for_days_catches_up_in_the_time_a_clock_has_to_last() {
    let mut driven = with_expiring();
    driven.time = driven.time.plus(5 * 24 * 3600 * SECOND);
    driven.restart();
    driven.pass_minutes(PROOF.as_secs() / 60 - 1);
    assert!(get(&driven.engine, key("expiring")).is_some());
    driven.pass_minutes(1);
    assert!(get(&driven.engine, key("expiring")).is_none());
}

#[test]
fn processes_that_are_shorter_than_a_clock_has_to_last_catch_up_together() {
    let mut driven = with_expiring();
    for day in 1..=6 {
        driven.time = driven.time.plus(24 * 3600 * SECOND);
        driven.restart();
        driven.pass_minutes(3);
        let is_there = get(&driven.engine, key("expiring")).is_some();
        assert_eq!(is_there, day < 4, "day {day}");
    }
}

#[test]
fn what_was_trimmed_is_not_offered_whatever_the_time_is_said_to_be() {
    // Nobody guards this clock.
    let engine = Engine::memory().unwrap();
    create(&engine, false);
    let at = |seconds: i64| UnixTime::from_seconds(NOW.seconds() + seconds);
    let recovery = UpdateContinuousBackups { table: name("data"), enabled: true, days: Some(35) };
    block_on(engine.update_continuous_backups(recovery, NOW)).unwrap();
    let put = |n: i64, now: UnixTime| {
        let mut item = key("a");
        item.insert("n", n);
        block_on(
            engine.put_item(PutItem { table: name("data"), item, options: WriteOptions::default() }, now),
        )
        .unwrap();
    };
    put(1, at(1));
    put(2, at(10));
    let far = at(40 * 86_400);
    work(&engine, far);
    put(3, at(20));
    let request = DescribeContinuousBackups { table: name("data") };
    let described = engine.describe_continuous_backups(&request, at(20)).unwrap().recovery.unwrap();
    assert_eq!((described.earliest, described.latest), (at(10), at(20)));
    let restore = |target: &str, moment: UnixTime| {
        let request = RestoreTableToPointInTime {
            source: name("data"),
            target: name(target),
            at: Some(moment),
            overrides: RestoreOverrides::default(),
        };
        block_on(engine.restore_table_to_point_in_time(request, at(20)))
    };
    assert_eq!(code(restore("early", at(9))), "InvalidRestoreTimeException");
    restore("copy", at(10)).unwrap();
    work(&engine, at(20));
    let items = engine.scan(&Scan::of(name("copy"))).unwrap().items.unwrap();
    assert_eq!(built(&items[0]).get("n").cloned(), Some(2.into()));
}
