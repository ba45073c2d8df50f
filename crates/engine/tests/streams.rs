//! A stream tells every change once, in order, for as long as it may be read.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::time::Duration;

use common::*;
use larder_engine::ops::*;
use larder_engine::{Engine, Error};
use larder_model::limits::STREAM_PAGE_BYTES_MAX;
use larder_model::{AttributeValue, Item, StreamView, TableName, UnixTime};
use larder_storage::Options;
use pollster::block_on;

const DAY: u64 = 24 * 60 * 60;

fn after(seconds: u64) -> UnixTime {
    NOW.plus(Duration::from_secs(seconds))
}

fn switch(engine: &Engine, view: Option<StreamView>, now: UnixTime) {
    let request = UpdateTable {
        table: name("data"),
        attributes: Vec::new(),
        billing_mode: None,
        throughput: None,
        on_demand_limits: None,
        index_changes: None,
        stream: Some(StreamSpecification { enabled: view.is_some(), view }),
        encryption: None,
        class: None,
        deletion_protection: None,
    };
    block_on(engine.update_table(request, now)).unwrap();
}

fn database(view: StreamView) -> Engine {
    let engine = Engine::memory().unwrap();
    create(&engine, false);
    switch(&engine, Some(view), NOW);
    engine
}

fn put_at(engine: &Engine, item: Item, now: UnixTime) {
    let request = PutItem { table: name("data"), item, options: WriteOptions::default() };
    block_on(engine.put_item(request, now)).unwrap();
}

fn put_numbered(engine: &Engine, numbers: std::ops::Range<u32>, now: UnixTime) {
    numbers.for_each(|number| put_at(engine, key(&format!("{number:05}")), now));
}

fn list(engine: &Engine, now: UnixTime) -> Vec<StreamId> {
    let request = ListStreams { table: Some(name("data")), start: None, limit: None };
    engine.list_streams(&request, now).unwrap().streams
}

/// The table's newest stream.
fn stream(engine: &Engine) -> StreamId {
    StreamId { table: name("data"), label: describe(engine).stream_label.unwrap() }
}

fn describe_stream(engine: &Engine, stream: &StreamId, now: UnixTime) -> Result<StreamDescription, Error> {
    let request = DescribeStream { stream: stream.clone(), start: None, children_of: None, limit: None };
    engine.describe_stream(&request, now)
}

fn iterator(
    engine: &Engine,
    stream: &StreamId,
    start: ShardStart,
    now: UnixTime,
) -> Result<ShardIterator, Error> {
    let shard = describe_stream(engine, stream, now)?.shards.remove(0).id;
    engine.get_shard_iterator(&GetShardIterator { stream: stream.clone(), shard, start }, now)
}

fn page(
    engine: &Engine,
    iterator: ShardIterator,
    limit: Option<usize>,
    now: UnixTime,
) -> Result<GetRecordsOutput, Error> {
    engine.get_records(&GetRecords { iterator, limit }, now)
}

/// What is read from there on until a page is empty or the shard ends, and whether it ended.
fn read(
    engine: &Engine,
    mut iterator: ShardIterator,
    limit: Option<usize>,
    now: UnixTime,
) -> (Vec<StreamRecord>, bool) {
    let mut records = Vec::new();
    for _ in 0..10_000 {
        let found = page(engine, iterator, limit, now).unwrap();
        let empty = found.records.is_empty();
        records.extend(found.records);
        match found.next {
            None => return (records, true),
            Some(_) if empty => return (records, false),
            Some(next) => iterator = next,
        }
    }
    panic!("the stream does not end");
}

fn read_all(engine: &Engine, stream: &StreamId, now: UnixTime) -> Vec<StreamRecord> {
    let oldest = iterator(engine, stream, ShardStart::TrimHorizon, now).unwrap();
    read(engine, oldest, None, now).0
}

fn keys(records: &[StreamRecord]) -> Vec<&str> {
    records.iter().map(|record| record.key.get("pk").unwrap().as_str().unwrap()).collect()
}

fn delete_table(engine: &Engine, now: UnixTime) {
    block_on(engine.delete_table(DeleteTable { table: name("data") }, now)).unwrap();
}

#[test]
fn each_view_shows_its_part_of_a_change() {
    let (old, new) = (item([("pk", "a"), ("v", "one")]), item([("pk", "a"), ("v", "two")]));
    for (view, shows_new, shows_old) in [
        (StreamView::KeysOnly, false, false),
        (StreamView::NewImage, true, false),
        (StreamView::OldImage, false, true),
        (StreamView::NewAndOldImages, true, true),
    ] {
        let engine = database(view);
        put(&engine, old.clone()).unwrap();
        put(&engine, new.clone()).unwrap();
        delete(&engine, key("a"));
        let records = read_all(&engine, &stream(&engine), NOW);
        let image = |shown: bool, item: &Item| shown.then(|| item.clone());
        let seen: Vec<_> =
            records.iter().map(|record| (record.event, record.new.clone(), record.old.clone())).collect();
        let expected = [
            (Event::Insert, image(shows_new, &old), None),
            (Event::Modify, image(shows_new, &new), image(shows_old, &old)),
            (Event::Remove, None, image(shows_old, &new)),
        ];
        assert_eq!(seen, expected, "{view:?}");
        for record in &records {
            assert_eq!((&record.key, record.view, record.expired), (&key("a"), view, false));
            let images = [&record.new, &record.old].into_iter().flatten().map(Item::size).sum::<usize>();
            assert_eq!(record.bytes, record.key.size() + images);
        }
    }
}

#[test]
fn what_changes_nothing_has_no_record() {
    let engine = database(StreamView::NewAndOldImages);
    put(&engine, item([("pk", "a"), ("v", "one")])).unwrap();
    put(&engine, item([("pk", "a"), ("v", "one")])).unwrap();
    delete(&engine, key("absent"));
    assert_eq!(read_all(&engine, &stream(&engine), NOW).len(), 1);
}

#[test]
fn an_iterator_begins_where_it_was_told() {
    let engine = database(StreamView::KeysOnly);
    let id = stream(&engine);
    let latest_of_empty = iterator(&engine, &id, ShardStart::Latest, NOW).unwrap();
    put_numbered(&engine, 0..5, NOW);
    let latest = iterator(&engine, &id, ShardStart::Latest, NOW).unwrap();
    let third = read_all(&engine, &id, NOW)[2].number;
    put_numbered(&engine, 5..7, NOW);
    let all: Vec<String> = (0..7).map(|number| format!("{number:05}")).collect();
    for (start, from) in
        [(ShardStart::TrimHorizon, 0), (ShardStart::At(third), 2), (ShardStart::After(third), 3)]
    {
        for limit in [None, Some(1), Some(2)] {
            let iterator = iterator(&engine, &id, start, NOW).unwrap();
            assert_eq!(keys(&read(&engine, iterator, limit, NOW).0), all[from..], "{start:?} {limit:?}");
        }
    }
    assert_eq!(keys(&read(&engine, latest, None, NOW).0), all[5..]);
    assert_eq!(keys(&read(&engine, latest_of_empty, None, NOW).0), all);
    // The shard's own beginning is a place to begin at.
    let first = describe_stream(&engine, &id, NOW).unwrap().shards[0].first;
    let iterator = iterator(&engine, &id, ShardStart::At(first), NOW).unwrap();
    assert_eq!(keys(&read(&engine, iterator, None, NOW).0), all);
}

#[test]
fn the_beginning_of_a_stream_without_records_is_a_place_to_begin_at() {
    let engine = database(StreamView::KeysOnly);
    let id = stream(&engine);
    let first = describe_stream(&engine, &id, NOW).unwrap().shards[0].first;
    let early = iterator(&engine, &id, ShardStart::At(first), NOW).unwrap();
    put_numbered(&engine, 0..2, NOW);
    assert_eq!(keys(&read(&engine, early, None, NOW).0), ["00000", "00001"]);
    let late = iterator(&engine, &id, ShardStart::At(first), NOW).unwrap();
    assert_eq!(keys(&read(&engine, late, None, NOW).0), ["00000", "00001"]);
}

#[test]
fn an_iterator_begins_at_a_moment() {
    let engine = database(StreamView::KeysOnly);
    let id = stream(&engine);
    for (number, seconds) in [(0, 0), (1, 100), (2, 100), (3, 5_000)] {
        put_numbered(&engine, number..number + 1, after(seconds));
    }
    let from = |time: UnixTime, now: UnixTime| {
        let iterator = iterator(&engine, &id, ShardStart::AtTime(time), now)?;
        let records = read(&engine, iterator, None, now).0;
        Ok::<usize, Error>(records.len())
    };
    let now = after(6_000);
    let before = UnixTime::from_seconds(0);
    for (time, expected) in
        [(before, 4), (NOW, 4), (after(1), 3), (after(100), 3), (after(101), 1), (after(5_001), 0), (now, 0)]
    {
        assert_eq!(from(time, now).unwrap(), expected, "{time:?}");
    }
    assert_eq!(code(from(after(6_001), now)), "ValidationException");
    // What is older than a day begins with the oldest that is left.
    assert_eq!(from(NOW, after(DAY + 50)).unwrap(), 3);
    // Nothing is there yet, and what comes is read.
    let latest = iterator(&engine, &id, ShardStart::AtTime(now), now).unwrap();
    put_numbered(&engine, 9..10, now);
    assert_eq!(keys(&read(&engine, latest, None, now).0), ["00009"]);
}

#[test]
fn a_number_that_was_never_given_is_invalid() {
    let engine = database(StreamView::KeysOnly);
    put_numbered(&engine, 0..2, NOW);
    for start in [ShardStart::At(1_000), ShardStart::After(u64::MAX)] {
        assert_eq!(code(iterator(&engine, &stream(&engine), start, NOW)), "ValidationException");
    }
}

#[test]
fn every_record_has_an_id_of_its_own_that_stays() {
    let engine = database(StreamView::KeysOnly);
    put_numbered(&engine, 0..50, NOW);
    let ids = || -> Vec<[u8; 16]> {
        read_all(&engine, &stream(&engine), NOW).iter().map(|record| record.id).collect()
    };
    let first = ids();
    assert_eq!(first, ids());
    assert_eq!(first.iter().collect::<std::collections::BTreeSet<_>>().len(), 50);
}

#[test]
fn what_expires_is_removed_by_the_ttl_service() {
    let engine = database(StreamView::OldImage);
    let request = UpdateTimeToLive { table: name("data"), attribute: "ttl".into(), enabled: true };
    block_on(engine.update_time_to_live(request)).unwrap();
    let mut expiring = key("a");
    expiring.insert("ttl", NOW.seconds());
    put(&engine, expiring.clone()).unwrap();
    put(&engine, key("b")).unwrap();
    delete(&engine, key("b"));
    assert_eq!(work(&engine, after(1)), 1);
    let records = read_all(&engine, &stream(&engine), after(1));
    let seen: Vec<_> = records.iter().map(|record| (record.event, record.expired)).collect();
    assert_eq!(
        seen,
        [(Event::Insert, false), (Event::Insert, false), (Event::Remove, false), (Event::Remove, true)]
    );
    assert_eq!(records[3].old, Some(expiring));
}

#[test]
fn the_records_of_a_transaction_follow_each_other_and_have_one_time() {
    let engine = database(StreamView::KeysOnly);
    put(&engine, key("before")).unwrap();
    let write = |pk: &str| TransactWrite {
        table: name("data"),
        action: TransactAction::Put { item: key(pk) },
        condition: None,
        return_old_on_failure: false,
    };
    let request = TransactWriteItems {
        writes: ["c", "a", "b"].map(write).to_vec(),
        token: None,
        capacity: ReturnCapacity::None,
        collection_metrics: false,
    };
    block_on(engine.transact_write_items(request, after(5))).unwrap();
    put_at(&engine, key("later"), after(6));
    let records = read_all(&engine, &stream(&engine), after(6));
    assert_eq!(keys(&records), ["before", "c", "a", "b", "later"]);
    for (record, offset) in records[1..4].iter().zip(0..) {
        assert_eq!((record.number, record.time), (records[1].number + offset, after(5)));
    }
}

#[test]
fn a_closed_stream_is_read_to_its_end() {
    let engine = database(StreamView::KeysOnly);
    let first = stream(&engine);
    put_numbered(&engine, 0..3, NOW);
    let open = iterator(&engine, &first, ShardStart::Latest, NOW).unwrap();
    assert!(page(&engine, open.clone(), None, NOW).unwrap().next.is_some());
    switch(&engine, None, after(10));
    put_numbered(&engine, 10..12, after(20));
    switch(&engine, Some(StreamView::NewImage), after(20));
    put_numbered(&engine, 20..22, after(20));

    let second = stream(&engine);
    assert_eq!(list(&engine, after(20)), [first.clone(), second.clone()]);
    let described = describe_stream(&engine, &first, after(20)).unwrap();
    assert!(!described.enabled && described.view == StreamView::KeysOnly);
    assert!(describe_stream(&engine, &second, after(20)).unwrap().enabled);

    assert!(page(&engine, open, None, after(20)).unwrap().next.is_none());
    let oldest = iterator(&engine, &first, ShardStart::TrimHorizon, after(20)).unwrap();
    let (records, ended) = read(&engine, oldest, Some(1), after(20));
    assert_eq!((keys(&records), ended), (vec!["00000", "00001", "00002"], true));
    let range = [described.shards[0].first, described.shards[0].last.unwrap()];
    assert_eq!(range, [records[0].number, records[2].number]);
    assert_eq!(keys(&read_all(&engine, &second, after(20))), ["00020", "00021"]);

    let gone = after(10 + DAY + 1);
    assert_eq!(list(&engine, gone), [second]);
    assert_eq!(code(describe_stream(&engine, &first, gone)), "ResourceNotFoundException");
}

#[test]
fn a_log_that_is_kept_for_recovery_shows_no_more_than_the_stream() {
    let engine = Engine::memory().unwrap();
    create(&engine, false);
    let request = UpdateContinuousBackups { table: name("data"), enabled: true, days: None };
    block_on(engine.update_continuous_backups(request, NOW)).unwrap();
    put_numbered(&engine, 0..10, NOW);
    switch(&engine, Some(StreamView::KeysOnly), NOW);
    put_numbered(&engine, 0..10, NOW);
    put_numbered(&engine, 10..20, after(10));
    switch(&engine, None, after(10));
    put_numbered(&engine, 20..30, after(10));
    put_numbered(&engine, 30..40, after(200));

    let id = stream(&engine);
    let check = |expected: std::ops::Range<u32>, now: UnixTime| {
        let oldest = iterator(&engine, &id, ShardStart::TrimHorizon, now).unwrap();
        let (records, ended) = read(&engine, oldest, Some(3), now);
        assert!(ended && records.iter().all(|record| record.old.is_none() && record.new.is_none()));
        let expected: Vec<String> = expected.map(|number| format!("{number:05}")).collect();
        assert_eq!(keys(&records), expected);
        let shard = describe_stream(&engine, &id, now).unwrap().shards.remove(0);
        assert_eq!([shard.first, shard.last.unwrap()], [records[0].number, records.last().unwrap().number]);
    };
    check(10..20, after(200));
    work(&engine, after(DAY + 5));
    check(10..20, after(DAY + 5));
    assert!(list(&engine, after(DAY + 11)).is_empty());
}

#[test]
fn streams_switched_on_in_one_moment_are_told_apart() {
    let engine = database(StreamView::KeysOnly);
    for number in 0..3 {
        put_numbered(&engine, number..number + 1, NOW);
        switch(&engine, None, NOW);
        switch(&engine, Some(StreamView::KeysOnly), NOW);
    }
    let streams = list(&engine, NOW);
    assert_eq!(streams.len(), 4);
    for (stream, expected) in streams.iter().zip(["00000", "00001", "00002"]) {
        assert_eq!(keys(&read_all(&engine, stream, NOW)), [expected]);
    }
}

#[test]
fn a_table_that_is_deleted_leaves_its_streams_for_a_day() {
    let engine = database(StreamView::KeysOnly);
    let first = stream(&engine);
    put_numbered(&engine, 0..3, NOW);
    let early = iterator(&engine, &first, ShardStart::TrimHorizon, NOW).unwrap();
    delete_table(&engine, after(5));
    work(&engine, after(6));
    // Another table of the same name is another table.
    create(&engine, false);
    switch(&engine, Some(StreamView::KeysOnly), after(10));
    put_numbered(&engine, 5..6, after(10));

    let (records, ended) = read(&engine, early, None, after(10));
    assert_eq!((keys(&records), ended), (vec!["00000", "00001", "00002"], true));
    assert_eq!(list(&engine, after(10)), [first.clone(), stream(&engine)]);
    assert!(!describe_stream(&engine, &first, after(10)).unwrap().enabled);
    assert_eq!(keys(&read_all(&engine, &stream(&engine), after(10))), ["00005"]);

    let gone = after(5 + DAY + 1);
    work(&engine, gone);
    assert_eq!(list(&engine, gone), [stream(&engine)]);
    assert_eq!(code(iterator(&engine, &first, ShardStart::TrimHorizon, gone)), "ResourceNotFoundException");
}

#[test]
fn records_are_gone_after_a_day_and_asking_for_them_is_an_error() {
    for trimmed in [false, true] {
        let engine = database(StreamView::KeysOnly);
        let id = stream(&engine);
        put_numbered(&engine, 0..2, NOW);
        put_numbered(&engine, 2..4, after(100));
        let numbers: Vec<u64> = read_all(&engine, &id, NOW).iter().map(|record| record.number).collect();
        let slow = iterator(&engine, &id, ShardStart::At(numbers[1]), after(DAY)).unwrap();
        let now = after(DAY + 50);
        if trimmed {
            work(&engine, now);
        }
        assert_eq!(keys(&read_all(&engine, &id, now)), ["00002", "00003"]);
        for start in [ShardStart::At(numbers[0]), ShardStart::After(numbers[1])] {
            assert_eq!(code(iterator(&engine, &id, start, now)), "TrimmedDataAccessException");
        }
        assert_eq!(code(page(&engine, slow, None, now)), "TrimmedDataAccessException");
        let kept = iterator(&engine, &id, ShardStart::After(numbers[2]), now).unwrap();
        assert_eq!(keys(&read(&engine, kept, None, now).0), ["00003"]);

        // When nothing is left, the shard still says where it begins.
        let now = after(2 * DAY);
        let first = describe_stream(&engine, &id, now).unwrap().shards[0].first;
        assert_eq!(
            code(iterator(&engine, &id, ShardStart::At(numbers[3]), now)),
            "TrimmedDataAccessException"
        );
        let empty = iterator(&engine, &id, ShardStart::At(first), now).unwrap();
        put_numbered(&engine, 9..10, now);
        assert_eq!(keys(&read(&engine, empty, None, now).0), ["00009"]);
    }
}

#[test]
fn an_iterator_expires_after_fifteen_minutes() {
    let engine = database(StreamView::KeysOnly);
    let iterator = iterator(&engine, &stream(&engine), ShardStart::TrimHorizon, NOW).unwrap();
    let next = page(&engine, iterator.clone(), None, after(900)).unwrap().next.unwrap();
    assert_eq!(code(page(&engine, iterator, None, after(901))), "ExpiredIteratorException");
    assert!(page(&engine, next, None, after(1800)).is_ok());
}

#[test]
fn a_page_ends_at_one_megabyte() {
    let engine = database(StreamView::NewImage);
    for pk in ["a", "b", "c", "d", "e"] {
        let mut large = key(pk);
        large.insert("text", AttributeValue::from("x".repeat(390 * 1024).as_str()));
        put(&engine, large).unwrap();
    }
    let mut next = iterator(&engine, &stream(&engine), ShardStart::TrimHorizon, NOW).unwrap();
    let mut pages = Vec::new();
    for _ in 0..3 {
        let found = page(&engine, next, None, NOW).unwrap();
        assert!(found.records.iter().map(|record| record.bytes).sum::<usize>() <= STREAM_PAGE_BYTES_MAX);
        pages.push(keys(&found.records).join(""));
        next = found.next.unwrap();
    }
    assert_eq!(pages, ["ab", "cd", "e"]);
}

#[test]
fn a_page_holds_a_thousand_records_at_most() {
    let engine = database(StreamView::KeysOnly);
    put_numbered(&engine, 0..1_001, NOW);
    let oldest = iterator(&engine, &stream(&engine), ShardStart::TrimHorizon, NOW).unwrap();
    let first = page(&engine, oldest, None, NOW).unwrap();
    assert_eq!(first.records.len(), 1_000);
    assert_eq!(keys(&page(&engine, first.next.unwrap(), None, NOW).unwrap().records), ["01000"]);
}

#[test]
fn streams_are_listed_in_pages() {
    let engine = database(StreamView::KeysOnly);
    for _ in 0..4 {
        switch(&engine, None, NOW);
        switch(&engine, Some(StreamView::KeysOnly), NOW);
    }
    let mut start = None;
    let mut pages = Vec::new();
    for _ in 0..10 {
        let request = ListStreams { table: None, start, limit: Some(2) };
        let found = engine.list_streams(&request, NOW).unwrap();
        pages.push(found.streams);
        start = found.last;
        if start.is_none() {
            break;
        }
    }
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(pages.concat(), list(&engine, NOW));
    let other = ListStreams { table: Some(name("other")), start: None, limit: None };
    assert!(engine.list_streams(&other, NOW).unwrap().streams.is_empty());
}

#[test]
fn a_stream_and_its_iterators_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Engine::open(dir.path(), Options::default()).unwrap();
    let engine = open();
    create(&engine, false);
    switch(&engine, Some(StreamView::KeysOnly), NOW);
    put_numbered(&engine, 0..3, NOW);
    let first = stream(&engine);
    let oldest = iterator(&engine, &first, ShardStart::TrimHorizon, NOW).unwrap();
    let page_one = page(&engine, oldest, Some(2), NOW).unwrap();
    switch(&engine, None, NOW);
    engine.close().unwrap();
    drop(engine);
    let engine = open();
    let (rest, ended) = read(&engine, page_one.next.unwrap(), None, NOW);
    assert_eq!((keys(&rest), ended), (vec!["00002"], true));
    delete_table(&engine, NOW);
    engine.close().unwrap();
    drop(engine);
    let engine = open();
    assert_eq!(read_all(&engine, &first, NOW).len(), 3);
}

#[test]
fn an_unknown_stream_or_shard_is_not_found() {
    let engine = database(StreamView::KeysOnly);
    let known = stream(&engine);
    let others = [
        StreamId { label: after(1), ..known.clone() },
        StreamId { table: TableName::new("other").unwrap(), ..known.clone() },
    ];
    for other in others {
        assert_eq!(code(describe_stream(&engine, &other, NOW)), "ResourceNotFoundException");
    }
    let request =
        GetShardIterator { stream: known, shard: "shardId-1".into(), start: ShardStart::TrimHorizon };
    assert_eq!(code(engine.get_shard_iterator(&request, NOW)), "ResourceNotFoundException");
}

#[test]
fn a_reader_beside_writers_misses_nothing_and_sees_each_item_in_order() {
    const WRITERS: i64 = 4;
    const WRITES: i64 = 200;
    let engine = database(StreamView::NewImage);
    let id = stream(&engine);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let engine = engine.clone();
            scope.spawn(move || {
                for number in 1..=WRITES {
                    let mut item = key(&writer.to_string());
                    item.insert("n", number);
                    put(&engine, item).unwrap();
                }
            });
        }
        let mut next = iterator(&engine, &id, ShardStart::TrimHorizon, NOW).unwrap();
        let mut seen = [0; WRITERS as usize];
        let mut pages = 0;
        while seen.iter().sum::<i64>() < WRITERS * WRITES {
            pages += 1;
            assert!(pages < 1_000_000, "the reader does not come to the end: {seen:?}");
            let found = page(&engine, next, Some(7), NOW).unwrap();
            for record in &found.records {
                let writer: usize = record.key.get("pk").unwrap().as_str().unwrap().parse().unwrap();
                let number =
                    record.new.as_ref().unwrap().get("n").unwrap().as_number().unwrap().to_i64().unwrap();
                assert_eq!(number, seen[writer] + 1);
                seen[writer] = number;
            }
            next = found.next.unwrap();
        }
    });
}

fn create_with_stream(engine: &Engine, now: UnixTime) {
    let request = CreateTable {
        table: name("data"),
        attributes: vec![("pk".to_owned(), larder_model::KeyType::S)],
        key: vec![partition("pk")],
        local_indexes: None,
        global_indexes: None,
        billing_mode: Some(BillingMode::OnDemand),
        throughput: None,
        on_demand_limits: None,
        stream: Some(StreamSpecification { enabled: true, view: Some(StreamView::KeysOnly) }),
        encryption: None,
        class: None,
        deletion_protection: None,
        tags: Vec::new(),
        policy: None,
    };
    block_on(engine.create_table(request, now)).unwrap();
}

#[test]
fn a_clock_that_goes_back_hides_no_record() {
    let engine = Engine::memory().unwrap();
    create_with_stream(&engine, after(3600));
    put_numbered(&engine, 0..2, NOW);
    assert_eq!(keys(&read_all(&engine, &stream(&engine), NOW)), ["00000", "00001"]);
}

#[test]
fn a_clock_that_goes_back_while_the_store_is_closed_hides_no_record() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(dir.path(), Options::default()).unwrap();
    create(&engine, false);
    switch(&engine, Some(StreamView::KeysOnly), after(3600));
    engine.close().unwrap();
    drop(engine);
    let engine = Engine::open(dir.path(), Options::default()).unwrap();
    put_numbered(&engine, 0..2, NOW);
    assert_eq!(keys(&read_all(&engine, &stream(&engine), NOW)), ["00000", "00001"]);
}

#[test]
fn a_table_made_again_in_one_moment_has_a_stream_of_its_own() {
    let engine = Engine::memory().unwrap();
    for number in 0..2 {
        create_with_stream(&engine, NOW);
        put_numbered(&engine, number..number + 1, NOW);
        delete_table(&engine, NOW);
    }
    let found: Vec<_> = list(&engine, NOW).iter().map(|id| read_all(&engine, id, NOW)).collect();
    assert_eq!(found.iter().map(|records| keys(records)).collect::<Vec<_>>(), [["00000"], ["00001"]]);
}

#[test]
fn a_reader_among_entries_of_no_stream_is_told_what_it_missed() {
    for trimmed in [false, true] {
        let engine = database(StreamView::KeysOnly);
        let id = stream(&engine);
        let recovery = UpdateContinuousBackups { table: name("data"), enabled: true, days: Some(35) };
        block_on(engine.update_continuous_backups(recovery, NOW)).unwrap();
        put_numbered(&engine, 0..1, NOW);
        // A reader who stands before records that are not written yet, in an iterator that is kept alive.
        let first = iterator(&engine, &id, ShardStart::TrimHorizon, NOW).unwrap();
        let mut next = page(&engine, first, None, NOW).unwrap().next.unwrap();
        put_numbered(&engine, 1..3, after(10));
        next.issued = after(DAY + 15);
        if trimmed {
            let recovery = UpdateContinuousBackups { table: name("data"), enabled: false, days: None };
            block_on(engine.update_continuous_backups(recovery, after(11))).unwrap();
            work(&engine, after(DAY + 15));
        }
        assert_eq!(code(page(&engine, next, None, after(DAY + 15))), "TrimmedDataAccessException");
    }
}

#[test]
fn a_page_passes_over_a_bounded_part_of_the_log() {
    let engine = database(StreamView::KeysOnly);
    let first = stream(&engine);
    put_numbered(&engine, 0..1, NOW);
    let recovery = UpdateContinuousBackups { table: name("data"), enabled: true, days: Some(35) };
    block_on(engine.update_continuous_backups(recovery, NOW)).unwrap();
    switch(&engine, None, after(1));
    // Twenty megabytes of what items were.
    for n in 0..50 {
        let mut large = key("large");
        large.insert("n", n);
        large.insert("body", AttributeValue::from("x".repeat(390 * 1024).as_str()));
        put_at(&engine, large, after(1));
    }
    switch(&engine, Some(StreamView::KeysOnly), after(1));
    let second = stream(&engine);
    put_numbered(&engine, 1..2, after(1));
    assert_eq!(keys(&read_all(&engine, &first, after(2))), ["00000"]);
    let oldest = iterator(&engine, &second, ShardStart::TrimHorizon, after(2)).unwrap();
    let mut from_front = oldest.clone();
    from_front.position = ShardPosition::From(0);
    let page_one = page(&engine, from_front, None, after(2)).unwrap();
    assert!(page_one.records.is_empty());
    let page_two = page(&engine, page_one.next.unwrap(), None, after(2)).unwrap();
    assert_eq!(keys(&page_two.records), ["00001"]);
}
