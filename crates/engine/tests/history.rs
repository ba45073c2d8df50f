//! How much history is kept, and that it says so.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::ops::Bound;
use std::time::Duration;

use common::*;
use larder_engine::ops::*;
use larder_engine::{Engine, Error};
use larder_model::metrics::Exposition;
use larder_model::{AttributeValue, Item, KeyType, StreamView, UnixTime};
use larder_storage::{Options, Store};
use pollster::block_on;

const DAY: i64 = 24 * 60 * 60;

fn at(seconds: i64) -> UnixTime {
    UnixTime::from_seconds(NOW.seconds() + seconds)
}

fn stored() -> (Store, Engine) {
    let store = Store::memory(Options::default()).unwrap();
    (store.clone(), Engine::on_store(store).unwrap())
}

fn create_named(engine: &Engine, table: &str, stream: bool, recovery: bool) {
    let request = CreateTable {
        table: name(table),
        attributes: vec![("pk".to_owned(), KeyType::S)],
        key: vec![partition("pk")],
        local_indexes: None,
        global_indexes: None,
        billing_mode: Some(BillingMode::OnDemand),
        throughput: None,
        on_demand_limits: None,
        stream: stream.then_some(StreamSpecification { enabled: true, view: Some(StreamView::KeysOnly) }),
        encryption: None,
        class: None,
        deletion_protection: None,
        tags: Vec::new(),
        policy: None,
    };
    block_on(engine.create_table(request, NOW)).unwrap();
    if recovery {
        let request = UpdateContinuousBackups { table: name(table), enabled: true, days: Some(35) };
        block_on(engine.update_continuous_backups(request, NOW)).unwrap();
    }
}

fn put_in(engine: &Engine, table: &str, n: i64, now: UnixTime) {
    let mut item = key("a");
    item.insert("n", n);
    item.insert("body", AttributeValue::from("x".repeat(10_000).as_str()));
    let request = PutItem { table: name(table), item, options: WriteOptions::default() };
    block_on(engine.put_item(request, now)).unwrap();
}

/// What is in the log: the numbers and bytes of its entries.
fn log(store: &Store) -> (usize, usize) {
    let range = store.snapshot().range(Bound::Included(&[0x20]), Bound::Excluded(&[0x21])).unwrap();
    range
        .map(|entry| entry.unwrap())
        .fold((0, 0), |(count, bytes), (key, value)| (count + 1, bytes + key.len() + value.len()))
}

fn metric(engine: &Engine, metric: &str) -> f64 {
    let mut text = Exposition::default();
    engine.expose(&mut text).unwrap();
    let text = text.finish();
    let line = text.lines().find(|line| line.starts_with(&format!("{metric} "))).unwrap().to_owned();
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

fn earliest(engine: &Engine, table: &str, now: UnixTime) -> UnixTime {
    let request = DescribeContinuousBackups { table: name(table) };
    engine.describe_continuous_backups(&request, now).unwrap().recovery.unwrap().earliest
}

fn restored(engine: &Engine, target: &str, moment: UnixTime, now: UnixTime) -> Result<i64, Error> {
    let request = RestoreTableToPointInTime {
        source: name("data"),
        target: name(target),
        at: Some(moment),
        overrides: RestoreOverrides::default(),
    };
    block_on(engine.restore_table_to_point_in_time(request, now))?;
    work(engine, now);
    let items: Vec<Item> =
        engine.scan(&Scan::of(name(target))).unwrap().items.unwrap().iter().map(built).collect();
    Ok(items[0].get("n").unwrap().as_number().unwrap().to_i64().unwrap())
}

#[test]
fn history_over_its_limit_is_cut_and_the_window_says_so() {
    const LIMIT: u64 = 500_000;
    let (store, engine) = stored();
    create_named(&engine, "data", false, true);
    for n in 0..200 {
        put_in(&engine, "data", n, at(n));
    }
    let now = at(200);
    work(&engine, now);
    assert_eq!(earliest(&engine, "data", now), NOW);
    assert_eq!(metric(&engine, "larder_history_bytes"), log(&store).1 as f64);
    engine.limit_history(LIMIT);
    let mut cut = 0;
    loop {
        let worked = engine.work(now, Duration::ZERO).unwrap();
        cut += worked.history_cut_bytes;
        if !worked.more {
            break;
        }
    }
    let (entries, bytes) = log(&store);
    assert!(bytes as u64 <= LIMIT && entries > 45, "{entries} entries of {bytes} bytes");
    assert!(cut > 1_000_000, "{cut}");
    assert_eq!(metric(&engine, "larder_history_bytes"), bytes as f64);
    assert_eq!(metric(&engine, "larder_history_cut_bytes_total"), cut as f64);
    assert_eq!(metric(&engine, "larder_history_limit_bytes"), LIMIT as f64);

    let first = 200 - entries as i64 - 1;
    assert_eq!(earliest(&engine, "data", now), at(first));
    assert_eq!(code(restored(&engine, "early", at(first - 1), now)), "InvalidRestoreTimeException");
    assert_eq!(restored(&engine, "first", at(first), now).unwrap(), first);
    assert_eq!(restored(&engine, "later", at(first + 20), now).unwrap(), first + 20);
    // Switched off and on, it offers no more than that either.
    for enabled in [true, false, true] {
        let request = UpdateContinuousBackups { table: name("data"), enabled, days: Some(35) };
        block_on(engine.update_continuous_backups(request, now)).unwrap();
    }
    assert_eq!(earliest(&engine, "data", now), at(201));
}

#[test]
fn the_oldest_changes_of_any_table_go_first() {
    let (_, engine) = stored();
    for table in ["data", "more"] {
        create_named(&engine, table, false, true);
    }
    for n in 0..50 {
        put_in(&engine, "data", n, at(n));
    }
    for n in 50..100 {
        put_in(&engine, "more", n, at(n));
    }
    for n in 100..150 {
        put_in(&engine, "data", n, at(n));
    }
    let now = at(150);
    engine.limit_history(800_000);
    work(&engine, now);
    assert_eq!((earliest(&engine, "data", now), earliest(&engine, "more", now)), (at(49), at(70)));
}

#[test]
fn what_a_stream_may_be_asked_for_stays() {
    let (store, engine) = stored();
    create_named(&engine, "data", true, true);
    for n in 0..20 {
        put_in(&engine, "data", n, at(n));
    }
    engine.limit_history(0);
    work(&engine, at(20));
    assert_eq!(log(&store).0, 20);
    assert_eq!(earliest(&engine, "data", at(20)), at(1));
    // After a day the limit is met.
    work(&engine, at(DAY + 10));
    assert_eq!(log(&store).0, 10);
    assert_eq!(earliest(&engine, "data", at(DAY + 10)), at(9));
    work(&engine, at(2 * DAY));
    assert_eq!(log(&store), (0, 0));
    assert_eq!(metric(&engine, "larder_history_bytes"), 0.0);
}

#[test]
fn a_copy_that_is_being_made_keeps_what_it_needs() {
    let (_, engine) = stored();
    create_named(&engine, "data", false, true);
    for n in 0..20 {
        put_in(&engine, "data", n, at(n));
    }
    let request = RestoreTableToPointInTime {
        source: name("data"),
        target: name("copy"),
        at: Some(at(5)),
        overrides: RestoreOverrides::default(),
    };
    block_on(engine.restore_table_to_point_in_time(request, at(20))).unwrap();
    engine.limit_history(0);
    work(&engine, at(20));
    let items = engine.scan(&Scan::of(name("copy"))).unwrap().items.unwrap();
    assert_eq!(built(&items[0]).get("n").cloned(), Some(5.into()));
    assert_eq!(earliest(&engine, "data", at(20)), at(19));
}

#[test]
fn the_log_of_a_store_that_was_not_counted_is_counted() {
    let (store, engine) = stored();
    create_named(&engine, "data", false, true);
    for n in 0..20 {
        put_in(&engine, "data", n, at(n));
    }
    let counted = metric(&engine, "larder_history_bytes");
    let mut batch = larder_storage::Batch::default();
    // The counters of the log, and what is noted of the time line.
    batch.delete(vec![0x03, 0, 0, 0, 0, 0, 0]);
    batch.delete(vec![0x0b]);
    store.write(batch).unwrap();
    drop(engine);
    let engine = Engine::on_store(store).unwrap();
    put_in(&engine, "data", 20, at(20));
    assert!(metric(&engine, "larder_history_bytes") < counted);
    work(&engine, at(21));
    assert!(metric(&engine, "larder_history_bytes") > counted);
    work(&engine, at(90 * DAY));
    assert_eq!(metric(&engine, "larder_history_bytes"), 0.0);
}

#[test]
fn looking_back_finds_the_changes_of_one_item_among_those_of_others() {
    let (_, engine) = stored();
    create_named(&engine, "kept", false, true);
    create_named(&engine, "none", false, false);
    for n in 0..4 {
        put_in(&engine, "kept", n, at(n));
        let other = PutItem {
            table: name("kept"),
            item: key(&format!("other{n}")),
            options: WriteOptions::default(),
        };
        block_on(engine.put_item(other, at(n))).unwrap();
    }
    put_in(&engine, "none", 1, at(1));
    let look =
        |key: Option<&Item>, before, most| engine.look_back(&name("kept"), key, before, most, at(9)).unwrap();
    let number = |item: Option<&Item>| item.and_then(|item| item.get("n")?.as_number()?.to_i64());
    let past = look(Some(&key("a")), None, 3);
    assert_eq!((number(past.item.as_ref()), past.is_kept), (Some(3), true));
    let olds: Vec<_> =
        past.changes.iter().map(|change| (change.event, number(change.old.as_ref()))).collect();
    assert_eq!(olds, [(Event::Modify, Some(2)), (Event::Modify, Some(1)), (Event::Modify, Some(0))]);
    // Recovery keeps what items were before: what they were after follows from that.
    let news: Vec<_> = past.changes.iter().map(|change| number(change.new.as_ref())).collect();
    assert_eq!(news, [Some(3), Some(2), Some(1)]);
    assert!(past.whole_since.is_some_and(|since| since <= at(0)));
    // The rest, and after it nothing.
    let rest = look(Some(&key("a")), past.more_before, 3);
    let rest: Vec<_> = rest.changes.iter().map(|change| (change.event, change.time.seconds())).collect();
    assert_eq!(rest, [(Event::Insert, at(0).seconds())]);
    assert_eq!(look(None, None, 100).changes.len(), 8);
    let empty = engine.look_back(&name("none"), Some(&key("a")), None, 3, at(9)).unwrap();
    assert!(empty.changes.is_empty() && !empty.is_kept && empty.item.is_some());
    assert!(engine.look_back(&name("absent"), None, None, 3, at(9)).is_err());
}
