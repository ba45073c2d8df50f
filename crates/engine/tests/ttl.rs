//! Items with a TTL leave after their time, and only then.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::time::Duration;

use common::*;
use larder_engine::Engine;
use larder_engine::ops::UpdateTimeToLive;
use larder_model::{AttributeValue, Item, UnixTime};
use pollster::block_on;

fn enable(engine: &Engine, enabled: bool) -> Result<UpdateTimeToLive, larder_engine::Error> {
    block_on(engine.update_time_to_live(UpdateTimeToLive {
        table: name("data"),
        attribute: "ttl".into(),
        enabled,
    }))
}

fn with_ttl(pk: &str, value: impl Into<AttributeValue>) -> Item {
    let mut item = item([("pk", pk), ("city", "Malmö")]);
    item.insert("ttl", value);
    item
}

fn database() -> Engine {
    let engine = Engine::memory().unwrap();
    create(&engine, true);
    enable(&engine, true).unwrap();
    work(&engine, NOW);
    engine
}

#[test]
fn an_item_leaves_after_its_second_with_its_index_entries() {
    let engine = database();
    put(&engine, with_ttl("a", NOW.seconds())).unwrap();
    assert_eq!(work(&engine, NOW), 0);
    assert_eq!(keys_in(&engine, Some("by_city")), ["a"]);
    assert_eq!(work(&engine, UnixTime::from_seconds(NOW.seconds() + 1)), 1);
    assert!(keys_in(&engine, None).is_empty());
    assert!(keys_in(&engine, Some("by_city")).is_empty());
    assert_eq!(describe(&engine).item_count, 0);
}

#[test]
fn what_is_no_time_never_expires() {
    let engine = database();
    let five_years = 5 * 365 * 24 * 60 * 60;
    let values: [(&str, AttributeValue); 6] = [
        ("text", "1".into()),
        ("list", AttributeValue::L(vec![1.into()])),
        ("zero", 0.into()),
        ("negative", (-5).into()),
        ("mistake", (NOW.seconds() - five_years - 1).into()),
        ("later", (NOW.seconds() + 10).into()),
    ];
    for (pk, value) in values {
        put(&engine, with_ttl(pk, value)).unwrap();
    }
    put(&engine, item([("pk", "none")])).unwrap();
    put(&engine, with_ttl("past", NOW.seconds() - five_years + 10)).unwrap();
    assert_eq!(work(&engine, NOW), 1);
    assert_eq!(keys_in(&engine, None), ["later", "list", "mistake", "negative", "none", "text", "zero"]);
}

#[test]
fn a_renewing_write_wins() {
    let engine = database();
    put(&engine, with_ttl("a", NOW.seconds() - 10)).unwrap();
    put(&engine, with_ttl("a", NOW.seconds() + 10)).unwrap();
    put(&engine, with_ttl("b", NOW.seconds() - 10)).unwrap();
    put(&engine, item([("pk", "b")])).unwrap();
    assert_eq!(work(&engine, NOW), 0);
    assert_eq!(keys_in(&engine, None), ["a", "b"]);
    assert_eq!(work(&engine, UnixTime::from_seconds(NOW.seconds() + 11)), 1);
    assert_eq!(keys_in(&engine, None), ["b"]);
}

#[test]
fn items_from_before_ttl_was_switched_on_expire_too() {
    let engine = Engine::memory().unwrap();
    create(&engine, false);
    for n in 0..2500 {
        put(&engine, with_ttl(&format!("{n}"), NOW.seconds() - 10 + n % 20)).unwrap();
    }
    assert_eq!(work(&engine, NOW), 0);
    enable(&engine, true).unwrap();
    assert_eq!(work(&engine, NOW), 1250);
    assert_eq!(describe(&engine).item_count, 1250);
    enable(&engine, false).unwrap();
    assert_eq!(work(&engine, UnixTime::from_seconds(NOW.seconds() + 100)), 0);
    assert_eq!(describe(&engine).item_count, 1250);
}

#[test]
fn a_delay_holds_removal_back() {
    let engine = database();
    put(&engine, with_ttl("a", NOW.seconds() - 10)).unwrap();
    let hour = std::time::Duration::from_secs(3600);
    assert_eq!(engine.work(NOW, hour).unwrap().expired, 0);
    assert_eq!(engine.work(NOW.plus(hour), hour).unwrap().expired, 1);
}

#[test]
fn switched_off_and_on_again_before_old_items_were_entered_it_forgets_none() {
    let engine = Engine::memory().unwrap();
    create(&engine, true);
    put(&engine, with_ttl("a", NOW.seconds() - 10)).unwrap();
    let long_ago = UnixTime::from_seconds(0);
    enable(&engine, true).unwrap();
    engine.work(long_ago, Duration::ZERO).unwrap();
    enable(&engine, false).unwrap();
    work(&engine, long_ago);
    enable(&engine, true).unwrap();
    assert_eq!(work(&engine, NOW), 1);
}

#[test]
fn switching_to_what_is_already_so_is_refused() {
    let engine = database();
    assert_eq!(code(enable(&engine, true)), "ValidationException");
    enable(&engine, false).unwrap();
    assert_eq!(code(enable(&engine, false)), "ValidationException");
}
