//! Writes behind: after the answer, bounded, in batches, and never lost in silence.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod logs;
mod sources;
#[macro_use]
mod stores;
mod systems;

use std::time::Duration;

use larder::store::Fault;
use larder::store::ops::Request;
use larder::{Error, Fields, Look, Origin, Store, System, Value, Why};

use sources::{Source, forecast_data, forecast_key, page_key, pages, shelf, stored, text_of};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);

fn page(id: &str, text: &str) -> Fields {
    let mut page = page_key(id);
    page.insert("text".to_owned(), Value::from(text));
    page
}

async fn open(store: &Store, settings: &str) -> System {
    systems::open_text(&pages("", settings), store).await
}

/// All the ways a write can reach a store.
const WRITES: [&str; 2] = ["BatchWriteItem", "PutItem"];

async fn w7_an_answer_does_not_wait_for_its_write(store: Store) {
    let weather = systems::open("weather", &store).await;
    let (forecasts, source) = (shelf(&weather, "Forecast"), Source::default());
    let key = forecast_key(-22.7572, "2025-11-26T15:23:45Z");
    store.faults().only(&WRITES).delay(1.0, Duration::from_secs(3600));
    let forecast = forecasts.fetch(key.clone(), source.gives(forecast_data(28.3))).await.unwrap();
    assert_eq!(forecast.origin(), &Origin::Source);
    assert!(stored(&store, forecast.kept().key()).await.is_none(), "it is not written yet");

    let again = forecasts.fetch(key, source.gives(forecast_data(30.0))).await.unwrap();
    assert_eq!(
        (again.origin(), source.calls()),
        (&Origin::Store, 1),
        "what waits is read as if it were there"
    );
    let drained = weather.drain(SHORT).await;
    assert_eq!((drained.waiting(), drained.lost()), (1, 0));
    assert_eq!(drained.unwritten()[0].key, "weather_-22.7572_-49.9439_1764169200");
}

async fn w7_a_drain_finishes_what_waits(store: Store) {
    let system = open(&store, "writes behind").await;
    let pages = shelf(&system, "Page");
    for id in 0..60 {
        pages.put_behind(page(&id.to_string(), "text")).await.unwrap();
    }
    let drained = system.drain(LONG).await;
    drained.expect_empty();
    assert_eq!(drained.written(), 60);
    for id in 0..60 {
        assert!(pages.get(page_key(&id.to_string())).await.unwrap().is_some(), "{id}");
    }
    assert_eq!(system.drain(LONG).await.written(), 0, "a drain tells what happened since the last one");
}

async fn w7_a_drain_reports_what_was_not_written_and_the_writes_go_on(store: Store) {
    let system = open(&store, "writes behind").await;
    let pages = shelf(&system, "Page");
    store.faults().only(&WRITES).down();
    pages.put_behind(page("1", "text")).await.unwrap();
    let drained = system.drain(SHORT).await;
    assert!(!drained.is_empty());
    let text = drained.to_string();
    assert!(text.starts_with("0 written, 1 waiting, 0 lost\n  Page PAGE#1: "), "{text}");
    assert!(text.contains("cannot be reached"), "{text}");
    store.faults().reset();
    system.drain(LONG).await.expect_empty();
    assert!(pages.get(page_key("1")).await.unwrap().is_some());
}

async fn w7_the_queue_is_bounded_and_a_full_one_is_told(store: Store) {
    let system = open(&store, "writes behind queue 2").await;
    let (pages, source) = (shelf(&system, "Page"), Source::default());
    store.faults().only(&WRITES).down();
    pages.put_behind(page("1", "text")).await.unwrap();
    pages.put_behind(page("2", "text")).await.unwrap();
    assert!(matches!(pages.put_behind(page("3", "text")).await, Err(Error::QueueFull { .. })));
    let fetched = pages.fetch(page_key("4"), source.numbered()).await.unwrap();
    assert_eq!(fetched.origin(), &Origin::Source, "a full queue does not fail a read");
    store.faults().reset();
    let drained = system.drain(LONG).await;
    assert_eq!((drained.written(), drained.waiting(), drained.lost()), (2, 0, 2), "{drained}");
    let mut lost: Vec<&str> = drained.unwritten().iter().map(|unwritten| &*unwritten.key).collect();
    lost.sort_unstable();
    assert_eq!(lost, ["PAGE#3", "PAGE#4"]);
}

async fn the_newest_write_of_a_key_wins(store: Store) {
    let system = open(&store, "writes behind").await;
    let pages = shelf(&system, "Page");
    store.faults().only(&WRITES).fail_next(3, Fault::Throttle);
    for number in 0..50 {
        pages.put_behind(page("1", &format!("text {number}"))).await.unwrap();
        let read = pages.get(page_key("1")).await.unwrap().unwrap();
        assert_eq!(text_of(&read.fields), format!("text {number}"), "readers see the newest");
    }
    system.drain(LONG).await.expect_empty();
    let read = pages.get(page_key("1")).await.unwrap().unwrap();
    assert_eq!(text_of(&read.fields), "text 49");
}

async fn writes_go_in_batches_of_twenty_five(store: Store) {
    let system = open(&store, "writes behind").await;
    let pages = shelf(&system, "Page");
    store.faults().only(&WRITES).down();
    for id in 0..100 {
        pages.put_behind(page(&id.to_string(), "text")).await.unwrap();
    }
    store.requests().take();
    store.faults().reset();
    system.drain(LONG).await.expect_empty();
    let sizes: Vec<usize> = store
        .requests()
        .take()
        .iter()
        .filter_map(|request| match request {
            Request::BatchWriteItem(batch) => Some(batch.tables.iter().map(|(_, writes)| writes.len()).sum()),
            _ => None,
        })
        .collect();
    assert!(sizes.iter().all(|size| *size <= 25), "{sizes:?}");
    assert!(sizes.len() <= 7, "{sizes:?}");
}

async fn whatever_fails_at_random_all_is_written_in_the_end(store: Store) {
    let system = open(&store, "writes behind").await;
    let pages = shelf(&system, "Page");
    store.faults().seed(11).only(&WRITES).throttle(0.3).fail(0.2).lose_answers(0.1);
    for id in 0..200 {
        pages.put_behind(page(&id.to_string(), "text")).await.unwrap();
    }
    let drained = system.drain(LONG).await;
    store.faults().reset();
    let drained = if drained.is_empty() { drained } else { system.drain(LONG).await };
    drained.expect_empty();
    for id in 0..200 {
        assert!(pages.get(page_key(&id.to_string())).await.unwrap().is_some(), "{id}");
    }
}

async fn a_write_past_the_queue_is_not_overwritten_by_what_waited(store: Store) {
    let system = open(&store, "writes behind").await;
    let pages = shelf(&system, "Page");
    store.faults().only(&["BatchWriteItem"]).down();
    for id in ["1", "2"] {
        pages.put_behind(page(id, "old")).await.unwrap();
    }
    pages.put(page("1", "new")).await.unwrap();
    pages.forget(page_key("2")).await.unwrap();
    store.faults().reset();
    system.drain(LONG).await.expect_empty();
    assert_eq!(text_of(&pages.get(page_key("1")).await.unwrap().unwrap().fields), "new");
    assert!(matches!(pages.look(page_key("2")).await, Look::Miss(Why::Absent)));
}

async fn what_the_store_refuses_for_good_is_reported_and_the_rest_is_written(store: Store) {
    let system = open(&store, "writes behind").await;
    let pages = shelf(&system, "Page");
    store.faults().only(&WRITES).down();
    for id in ["1", "2", "3"] {
        let text = if id == "2" { "x".repeat(500_000) } else { "text".to_owned() };
        pages.put_behind(page(id, &text)).await.unwrap();
    }
    store.faults().reset();
    let drained = system.drain(LONG).await;
    assert_eq!((drained.written(), drained.waiting(), drained.lost()), (2, 0, 1), "{drained}");
    assert_eq!(drained.unwritten()[0].key, "PAGE#2");
}

async fn a_record_that_is_not_valid_is_refused_at_once(store: Store) {
    let system = open(&store, "writes behind").await;
    let pages = shelf(&system, "Page");
    assert!(matches!(pages.put_behind(page_key("1")).await, Err(Error::Invalid(_))));
    assert_eq!(system.drain(LONG).await.written(), 0);
}

async fn w7_the_end_of_a_program_waits_as_long_as_the_schema_says(store: Store) {
    let system = open(&store, "writes behind drain 50ms").await;
    shelf(&system, "Page").put_behind(page("1", "text")).await.unwrap();
    store.faults().only(&WRITES).delay(1.0, Duration::from_secs(3600));
    shelf(&system, "Page").put_behind(page("2", "text")).await.unwrap();
    let drained = system.close().await;
    assert_eq!(drained.written() + drained.waiting(), 2, "{drained}");
    assert!(drained.waiting() >= 1, "{drained}");
}

async fn a_failed_write_past_the_queue_leaves_what_waits(store: Store) {
    let system = open(&store, "writes behind").await;
    let pages = shelf(&system, "Page");
    store.faults().down();
    pages.put_behind(page("1", "waits")).await.unwrap();
    pages.put(page("1", "fails")).await.unwrap_err();
    store.faults().up();
    system.drain(LONG).await.expect_empty();
    assert_eq!(text_of(&pages.get(page_key("1")).await.unwrap().unwrap().fields), "waits");
}

#[test]
fn w7_what_nobody_drained_is_told_when_the_system_is_dropped() {
    let lines = logs::captured(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let system = runtime.block_on(async {
            let store = Store::memory().await;
            let system = open(&store, "writes behind").await;
            shelf(&system, "Page").put_behind(page("0", "text")).await.unwrap();
            system.drain(LONG).await.expect_empty();
            store.faults().only(&WRITES).down();
            shelf(&system, "Page").put_behind(page("1", "text")).await.unwrap();
            system
        });
        drop(runtime);
        drop(system);
    });
    let lost: Vec<_> = lines.iter().filter(|line| line["fields"]["message"] == "writes lost").collect();
    assert_eq!(lost.len(), 1, "{lines:?}");
    assert_eq!((&lost[0]["level"], &lost[0]["fields"]["cache_keys"]), (&"ERROR".into(), &"PAGE#1".into()));
}

on_each_store! {
    w7_an_answer_does_not_wait_for_its_write,
    w7_a_drain_finishes_what_waits,
    w7_a_drain_reports_what_was_not_written_and_the_writes_go_on,
    w7_the_queue_is_bounded_and_a_full_one_is_told,
    the_newest_write_of_a_key_wins,
    writes_go_in_batches_of_twenty_five,
    whatever_fails_at_random_all_is_written_in_the_end,
    a_write_past_the_queue_is_not_overwritten_by_what_waited,
    what_the_store_refuses_for_good_is_reported_and_the_rest_is_written,
    a_record_that_is_not_valid_is_refused_at_once,
    w7_the_end_of_a_program_waits_as_long_as_the_schema_says,
    a_failed_write_past_the_queue_leaves_what_waits,
}
