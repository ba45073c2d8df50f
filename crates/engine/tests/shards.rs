//! A stream that is divided: shards end, others continue them, and whoever reads them as the Kinesis client library does
//! misses nothing and meets nothing twice.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use common::*;
use larder_engine::ops::*;
use larder_engine::{Engine, Error};
use larder_model::{Item, StreamView, UnixTime};
use larder_storage::Options;
use pollster::block_on;

const HOUR: u64 = 60 * 60;

fn after(seconds: u64) -> UnixTime {
    NOW.plus(Duration::from_secs(seconds))
}

fn switch(engine: &Engine, on: bool, now: UnixTime) {
    let view = on.then_some(StreamView::NewImage);
    let request = UpdateTable {
        table: name("data"),
        attributes: Vec::new(),
        billing_mode: None,
        throughput: None,
        on_demand_limits: None,
        index_changes: None,
        stream: Some(StreamSpecification { enabled: on, view }),
        encryption: None,
        class: None,
        deletion_protection: None,
    };
    block_on(engine.update_table(request, now)).unwrap();
}

fn database(shards: u32) -> Engine {
    let engine = Engine::memory().unwrap();
    create(&engine, false);
    switch(&engine, true, NOW);
    engine.divide_streams(shards);
    engine
}

fn put_at(engine: &Engine, item: Item, now: UnixTime) {
    let request = PutItem { table: name("data"), item, options: WriteOptions::default() };
    block_on(engine.put_item(request, now)).unwrap();
}

/// Writes items, of which each says which change it is.
fn put_all(engine: &Engine, changes: std::ops::Range<u32>, now: UnixTime) {
    for change in changes {
        let (pk, n) = (format!("key {}", change % 40), change.to_string());
        put_at(engine, item([("pk", &pk), ("n", &n)]), now);
    }
}

fn change(record: &StreamRecord) -> u32 {
    record.new.as_ref().unwrap().get("n").unwrap().as_str().unwrap().parse().unwrap()
}

fn stream(engine: &Engine) -> StreamId {
    StreamId { table: name("data"), label: describe(engine).stream_label.unwrap() }
}

fn shards_of(engine: &Engine, stream: &StreamId, now: UnixTime) -> Vec<Shard> {
    let request = DescribeStream { stream: stream.clone(), start: None, children_of: None, limit: None };
    engine.describe_stream(&request, now).unwrap().shards
}

fn shards(engine: &Engine, now: UnixTime) -> Vec<Shard> {
    shards_of(engine, &stream(engine), now)
}

fn open(shards: &[Shard]) -> usize {
    shards.iter().filter(|shard| shard.last.is_none()).count()
}

fn iterator(
    engine: &Engine,
    stream: &StreamId,
    shard: &Shard,
    start: ShardStart,
    now: UnixTime,
) -> Result<ShardIterator, Error> {
    let request = GetShardIterator { stream: stream.clone(), shard: shard.id.clone(), start };
    engine.get_shard_iterator(&request, now)
}

/// What a shard still gives from there on, and whether it ended.
fn read(engine: &Engine, mut next: ShardIterator, limit: Option<usize>, now: UnixTime) -> (Vec<u32>, bool) {
    let mut changes = Vec::new();
    for _ in 0..10_000 {
        let page = engine.get_records(&GetRecords { iterator: next, limit }, now).unwrap();
        let is_empty = page.records.is_empty();
        changes.extend(page.records.iter().map(change));
        match page.next {
            None => return (changes, true),
            Some(_) if is_empty => return (changes, false),
            Some(after) => next = after,
        }
    }
    panic!("the shard does not end");
}

fn read_shard(engine: &Engine, shard: &Shard, now: UnixTime) -> (Vec<u32>, bool) {
    let stream = stream(engine);
    read(engine, iterator(engine, &stream, shard, ShardStart::TrimHorizon, now).unwrap(), Some(7), now)
}

#[test]
fn a_stream_has_one_shard_unless_more_are_asked_for() {
    let engine = database(1);
    put_all(&engine, 0..10, NOW);
    work(&engine, after(30 * HOUR));
    put_all(&engine, 10..20, after(30 * HOUR));
    let found = shards(&engine, after(30 * HOUR));
    assert_eq!((found.len(), open(&found), found[0].parent.as_deref()), (1, 1, None));
    assert_eq!(read_shard(&engine, &found[0], after(30 * HOUR)), ((10..20).collect(), false));
}

#[test]
fn a_shard_goes_on_as_two_after_four_hours_while_there_may_be_more() {
    let engine = database(4);
    put_all(&engine, 0..100, NOW);
    work(&engine, after(4 * HOUR - 1));
    assert_eq!(shards(&engine, after(4 * HOUR)).len(), 1);
    work(&engine, after(4 * HOUR));
    put_all(&engine, 100..200, after(4 * HOUR));
    let found = shards(&engine, after(4 * HOUR));
    let [first, left, right] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!([&left.parent, &right.parent], [&Some(first.id.clone()), &Some(first.id.clone())]);
    assert!(first.last.unwrap() < left.first && left.first == right.first);
    assert_eq!(read_shard(&engine, first, after(4 * HOUR)), ((0..100).collect(), true));
    let (one, other) =
        (read_shard(&engine, left, after(4 * HOUR)), read_shard(&engine, right, after(4 * HOUR)));
    assert!(!one.1 && !other.1 && !one.0.is_empty() && !other.0.is_empty());
    let keys = |changes: &[u32]| -> BTreeSet<u32> { changes.iter().map(|change| change % 40).collect() };
    assert!(keys(&one.0).is_disjoint(&keys(&other.0)), "a key is in one shard at a time");
    let both: BTreeSet<u32> = one.0.into_iter().chain(other.0).collect();
    assert_eq!(both, (100..200).collect());

    // There are never more open than may be, and each lasts four hours.
    for (hours, expected) in [(8, [7, 4]), (12, [11, 4]), (16, [15, 4])] {
        work(&engine, after(hours * HOUR));
        let found = shards(&engine, after(hours * HOUR));
        assert_eq!([found.len(), open(&found)], expected, "after {hours} hours");
        let ids: BTreeSet<&String> = found.iter().map(|shard| &shard.id).collect();
        assert_eq!(ids.len(), found.len(), "no two have one name");
        assert!(found.is_sorted_by_key(|shard| &shard.id));
    }
}

#[test]
fn a_shard_that_is_given_too_much_goes_on_as_two_at_once() {
    let engine = database(2);
    put_all(&engine, 0..999, after(1));
    work(&engine, after(1));
    assert_eq!(shards(&engine, after(1)).len(), 1);
    put_all(&engine, 999..1000, after(1));
    // What is older than a second is not counted.
    work(&engine, after(3));
    assert_eq!(shards(&engine, after(3)).len(), 1);
    put_all(&engine, 1000..2000, after(4));
    work(&engine, after(4));
    let found = shards(&engine, after(4));
    assert_eq!([found.len(), open(&found)], [3, 2]);
    put_all(&engine, 2000..5000, after(5));
    work(&engine, after(5));
    assert_eq!(shards(&engine, after(5)).len(), 3, "there may be two");
}

#[test]
fn every_kind_of_iterator_knows_its_shard() {
    let engine = database(2);
    put_all(&engine, 0..30, after(10));
    work(&engine, after(4 * HOUR));
    let now = after(4 * HOUR + 10);
    put_all(&engine, 30..130, now);
    let (id, found) = (stream(&engine), shards(&engine, now));
    for (at, shard) in found.iter().enumerate() {
        let all = read_shard(&engine, shard, now);
        let from =
            |start| Ok::<_, Error>(read(&engine, iterator(&engine, &id, shard, start, now)?, None, now));
        assert_eq!(from(ShardStart::At(shard.first)).unwrap(), all);
        let first = engine
            .get_records(
                &GetRecords {
                    iterator: iterator(&engine, &id, shard, ShardStart::TrimHorizon, now).unwrap(),
                    limit: Some(1),
                },
                now,
            )
            .unwrap()
            .records
            .remove(0);
        assert_eq!(from(ShardStart::After(first.number)).unwrap().0, all.0[1..]);
        assert_eq!(from(ShardStart::AtTime(first.time)).unwrap(), all);
        assert_eq!(from(ShardStart::AtTime(NOW)).unwrap(), all);
        assert_eq!(from(ShardStart::Latest).unwrap(), (Vec::new(), at == 0), "shard {at}");
        let (before, behind) = (found[1].first - 1, found[0].last.unwrap() + 1);
        let of_another = if at == 0 { ShardStart::At(behind) } else { ShardStart::At(before) };
        assert_eq!(code(from(of_another)), "ValidationException");
    }
    let moment = ShardStart::AtTime(now);
    assert_eq!(
        read(&engine, iterator(&engine, &id, &found[0], moment, now).unwrap(), None, now),
        (Vec::new(), true)
    );
}

#[test]
fn shards_are_described_in_pages_and_by_their_parent() {
    let engine = database(4);
    for hours in [4, 8] {
        work(&engine, after(hours * HOUR));
    }
    let now = after(8 * HOUR);
    let (id, all) = (stream(&engine), shards(&engine, now));
    let describe = |start: Option<&str>, children_of: Option<&str>, limit| {
        let (start, children_of) = (start.map(str::to_owned), children_of.map(str::to_owned));
        let request = DescribeStream { stream: id.clone(), start, children_of, limit };
        let found = engine.describe_stream(&request, now).unwrap();
        (found.shards.into_iter().map(|shard| shard.id).collect::<Vec<_>>(), found.last)
    };
    let ids: Vec<String> = all.iter().map(|shard| shard.id.clone()).collect();
    assert_eq!(describe(None, None, Some(3)), (ids[..3].to_vec(), Some(ids[2].clone())));
    assert_eq!(describe(Some(&ids[2]), None, Some(3)), (ids[3..6].to_vec(), Some(ids[5].clone())));
    assert_eq!(describe(Some(&ids[5]), None, Some(3)), (ids[6..].to_vec(), None));
    assert_eq!(describe(None, Some(&ids[0]), None), (ids[1..3].to_vec(), None));
    assert_eq!(describe(None, Some(&ids[6]), None), (Vec::new(), None));
}

#[test]
fn a_shard_is_gone_a_day_after_it_was_closed() {
    let engine = database(2);
    put_all(&engine, 0..10, NOW);
    work(&engine, after(4 * HOUR));
    let first = shards(&engine, after(4 * HOUR)).remove(0);
    let day = after(28 * HOUR);
    work(&engine, day);
    assert!(shards(&engine, day).iter().any(|shard| shard.id == first.id));
    let next = after(28 * HOUR + 1);
    assert!(!shards(&engine, next).iter().any(|shard| shard.id == first.id));
    let id = stream(&engine);
    let start = ShardStart::TrimHorizon;
    assert_eq!(code(iterator(&engine, &id, &first, start, next)), "ResourceNotFoundException");
    // What nobody can ask for is forgotten, and what goes on is not.
    for hours in 29..80 {
        work(&engine, after(hours * HOUR));
        put_all(&engine, 0..40, after(hours * HOUR));
        let found = shards(&engine, after(hours * HOUR));
        assert_eq!(open(&found), 2, "after {hours} hours");
        assert!(found.len() <= 16, "{} after {hours} hours", found.len());
    }
    let kept = |engine: &Engine| {
        let end = std::ops::Bound::Excluded([0x0e].as_slice());
        engine.store().snapshot().range(std::ops::Bound::Included(&[0x0d]), end).unwrap().count()
    };
    assert!((1..=8).contains(&kept(&engine)), "{} turnovers are kept", kept(&engine));
    block_on(engine.delete_table(DeleteTable { table: name("data") }, after(80 * HOUR))).unwrap();
    for hours in [81, 105, 107] {
        work(&engine, after(hours * HOUR));
    }
    assert_eq!(kept(&engine), 0);
}

#[test]
fn shards_end_with_their_stream_and_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let now = after(4 * HOUR);
    let (before, id) = {
        let engine = Engine::open(directory.path(), Options::default()).unwrap();
        create(&engine, false);
        switch(&engine, true, NOW);
        engine.divide_streams(2);
        put_all(&engine, 0..50, NOW);
        work(&engine, now);
        put_all(&engine, 50..90, now);
        let id = stream(&engine);
        switch(&engine, false, now);
        switch(&engine, true, now);
        put_all(&engine, 90..99, now);
        let found = (shards_of(&engine, &id, now), id);
        engine.close().unwrap();
        found
    };
    // Without shards of its own the next process reads those that there are.
    let engine = Engine::open(directory.path(), Options::default()).unwrap();
    let found = shards_of(&engine, &id, now);
    assert_eq!(format!("{found:?}"), format!("{before:?}"));
    assert_eq!([found.len(), open(&found)], [3, 0]);
    let mut all = BTreeSet::new();
    for shard in &found {
        let start = iterator(&engine, &id, shard, ShardStart::TrimHorizon, now).unwrap();
        let (changes, ended) = read(&engine, start, None, now);
        assert!(ended);
        all.extend(changes);
    }
    assert_eq!(all, (0..90).collect());
    let verified = engine.verify(now, |_| ()).unwrap();
    assert_eq!(verified.problems, Vec::<String>::new());
    // The new stream has a shard of its own, which is whole.
    assert_eq!(shards(&engine, now).len(), 1);
}

/// One of several workers that share the shards of a stream, by the algorithm of the Kinesis client library: a lease for each
/// shard in a table, which is taken, renewed and stolen by conditional writes; a shard's lease is made once its parent has been
/// read to its end; a checkpoint is kept with the lease, by whoever has it still.
struct Worker {
    name: String,
    iterators: HashMap<String, ShardIterator>,
    /// Counters of others' leases when this worker last looked: one that has not moved since is nobody's.
    seen: HashMap<String, String>,
}

/// What the workers share: their leases are in the store; what was processed is counted here.
struct Shared<'a> {
    engine: &'a Engine,
    stream: StreamId,
    processed: Vec<u32>,
}

const END: &str = "SHARD_END";

fn update(
    shared: &Shared<'_>,
    shard: &str,
    text: &str,
    condition: Option<&str>,
    values: &[(&str, &str)],
) -> bool {
    let values: Vec<(&str, larder_model::AttributeValue)> =
        values.iter().map(|(name, value)| (*name, (*value).into())).collect();
    let mut scope = scope(&values);
    let options = WriteOptions {
        condition: condition.map(|text| scope.condition(text).unwrap()),
        ..WriteOptions::default()
    };
    let update = Some(scope.update(text).unwrap());
    let request = UpdateItem { table: name("leases"), key: key(shard), update, options };
    match block_on(shared.engine.update_item(request, NOW)) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(code::<()>(Err(error)), "ConditionalCheckFailedException");
            false
        }
    }
}

fn leases(engine: &Engine) -> BTreeMap<String, Item> {
    let items = engine.scan(&Scan::of(name("leases"))).unwrap().items.unwrap();
    let lease = |item: Item| (item.get("pk").unwrap().as_str().unwrap().to_owned(), item);
    items.iter().map(built).map(lease).collect()
}

fn text<'a>(lease: &'a Item, name: &str) -> &'a str {
    lease.get(name).and_then(|value| value.as_str()).unwrap_or("")
}

impl Worker {
    fn new(name: String) -> Self {
        Self { name, iterators: HashMap::new(), seen: HashMap::new() }
    }

    /// Makes leases of shards that may be read by now.
    fn sync(&self, shared: &Shared<'_>, now: UnixTime) {
        let known = leases(shared.engine);
        let listed = shards_of(shared.engine, &shared.stream, now);
        for shard in &listed {
            let waits = shard.parent.as_ref().is_some_and(|parent| {
                let is_read = known.get(parent).is_some_and(|lease| text(lease, "checkpoint") == END);
                listed.iter().any(|shard| shard.id == *parent) && !is_read
            });
            if !known.contains_key(&shard.id) && !waits {
                let values = [(":c", "TRIM_HORIZON"), (":n", "0")];
                let unless = Some("attribute_not_exists(pk)");
                update(shared, &shard.id, "SET checkpoint = :c, lease = :n", unless, &values);
            }
        }
    }

    /// Takes a lease that nobody has, or whose worker has not renewed it since this one looked.
    fn take(&mut self, shared: &Shared<'_>) {
        for (shard, lease) in leases(shared.engine) {
            let (owner, counter) = (text(&lease, "worker"), text(&lease, "lease").to_owned());
            let is_free = owner.is_empty() || self.seen.get(&shard) == Some(&counter);
            self.seen.insert(shard.clone(), counter.clone());
            if owner == self.name || text(&lease, "checkpoint") == END || !is_free {
                continue;
            }
            let next = (counter.parse::<u64>().unwrap() + 1).to_string();
            let values = [(":w", self.name.as_str()), (":n", next.as_str()), (":was", counter.as_str())];
            if update(shared, &shard, "SET worker = :w, lease = :n", Some("lease = :was"), &values) {
                self.iterators.remove(&shard);
                return;
            }
        }
    }

    /// Reads a page of a shard whose lease it believes to have, and notes how far it is, which fails if it was taken from it.
    fn read(&mut self, shared: &mut Shared<'_>, limit: usize, now: UnixTime) {
        for (shard, lease) in leases(shared.engine) {
            let checkpoint = text(&lease, "checkpoint");
            if text(&lease, "worker") != self.name || checkpoint == END {
                continue;
            }
            let next = self.iterators.remove(&shard).unwrap_or_else(|| {
                let start = match checkpoint {
                    "TRIM_HORIZON" => ShardStart::TrimHorizon,
                    number => ShardStart::After(number.parse().unwrap()),
                };
                let request = GetShardIterator { stream: shared.stream.clone(), shard: shard.clone(), start };
                shared.engine.get_shard_iterator(&request, now).unwrap()
            });
            let request = GetRecords { iterator: next, limit: Some(limit) };
            let page = match shared.engine.get_records(&request, now) {
                Ok(page) => page,
                // Another is asked for from the checkpoint.
                Err(error) => {
                    assert_eq!(code::<()>(Err(error)), "ExpiredIteratorException");
                    continue;
                }
            };
            let reached = match (&page.next, page.records.last()) {
                (None, _) => END.to_owned(),
                (Some(_), Some(last)) => last.number.to_string(),
                (Some(_), None) => checkpoint.to_owned(),
            };
            let counter = text(&lease, "lease");
            let next = (counter.parse::<u64>().unwrap() + 1).to_string();
            let values = [
                (":c", reached.as_str()),
                (":n", next.as_str()),
                (":was", counter),
                (":w", self.name.as_str()),
            ];
            let has_it = Some("worker = :w AND lease = :was");
            if update(shared, &shard, "SET checkpoint = :c, lease = :n", has_it, &values) {
                shared.processed.extend(page.records.iter().map(change));
                page.next.map(|next| self.iterators.insert(shard, next));
            }
        }
    }
}

fn create_leases(engine: &Engine) {
    let request = CreateTable {
        table: name("leases"),
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
    block_on(engine.create_table(request, NOW)).unwrap();
}

/// A random number below another, of a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[test]
fn workers_that_share_leases_miss_nothing_and_repeat_nothing_while_shards_are_turned_over() {
    let mut generations = 0;
    for seed in 1..=40 {
        let engine = database(4);
        create_leases(&engine);
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
        let mut shared = Shared { engine: &engine, stream: stream(&engine), processed: Vec::new() };
        let mut workers: Vec<Worker> = (0..3).map(|at| Worker::new(format!("worker {at}"))).collect();
        let (mut seconds, mut written, mut born) = (0, 0, 3);
        for _ in 0..150 {
            let now = after(seconds);
            match random.below(10) {
                0..=2 => {
                    let some = u32::try_from(random.below(30)).unwrap();
                    put_all(&engine, written..written + some, now);
                    written += some;
                }
                // Time passes: seconds, or hours after which shards end. Never so much that a record is a day old.
                3 => seconds = (seconds + [1, 20 * 60, 2 * HOUR][random.below(3) as usize]).min(18 * HOUR),
                4 => assert_eq!(work(&engine, now), 0),
                // A worker is gone, with all it knew, and another begins.
                5 if random.below(4) == 0 => {
                    let at = random.below(3) as usize;
                    workers[at] = Worker::new(format!("worker {born}"));
                    born += 1;
                }
                _ => {
                    let (at, limit) = (random.below(3) as usize, 1 + random.below(9) as usize);
                    let worker = &mut workers[at];
                    match random.below(4) {
                        0 => worker.sync(&shared, now),
                        1 => worker.take(&shared),
                        _ => worker.read(&mut shared, limit, now),
                    }
                }
            }
        }
        // Whoever is left reads on until all is read.
        let now = after(seconds);
        for _ in 0..1000 {
            if shared.processed.len() >= written as usize {
                break;
            }
            for worker in &mut workers {
                worker.sync(&shared, now);
                worker.take(&shared);
                worker.read(&mut shared, 100, now);
            }
        }
        let mut sorted = shared.processed.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..written).collect::<Vec<_>>(), "seed {seed}: each change once");
        let mut last: HashMap<u32, u32> = HashMap::new();
        for change in &shared.processed {
            let before = last.insert(change % 40, *change);
            assert!(before < Some(*change), "seed {seed}: the changes of a key are in their order");
        }
        generations = generations.max(shards(&engine, now).len());
    }
    assert!(generations > 6, "shards were turned over, at most {generations} were there");
}

#[test]
fn a_reader_beside_writers_and_turnovers_misses_nothing() {
    let engine = database(8);
    let stream = stream(&engine);
    let (writers, each) = (4, 250);
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let engine = &engine;
            scope.spawn(move || put_all(engine, writer * each..(writer + 1) * each, NOW));
        }
        let turner =
            scope.spawn(|| (1..6).for_each(|turn| assert_eq!(work(&engine, after(turn * 4 * HOUR)), 0)));
        turner.join().unwrap();
    });
    let (mut found, all) = (BTreeMap::new(), shards(&engine, NOW));
    for shard in &all {
        let start = iterator(&engine, &stream, shard, ShardStart::TrimHorizon, NOW).unwrap();
        for change in read(&engine, start, Some(50), NOW).0 {
            assert_eq!(found.insert(change, shard.id.clone()), None, "change {change} is in two shards");
        }
    }
    assert_eq!(found.len() as u32, writers * each);
    assert!(all.len() > 20);
}
