//! A clock that is set at random, under load and through losses of power: what was is restored, or it is said that it
//! cannot be; no record of a stream is lost or comes twice, nothing expires early, nothing happens twice.
//!
//! The store is driven as a server drives it. `time` is what a clock that is right would say, and moments are named
//! by it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::BTreeMap;
use std::time::Duration;

use larder_engine::ops::{
    DeleteItem, DescribeStream, GetRecords, GetShardIterator, PutItem, RestoreOverrides,
    RestoreTableToPointInTime, ReturnCapacity, Row, Scan, ShardIterator, ShardStart, StreamId, StreamRecord,
    StreamSpecification, TransactAction, TransactWrite, TransactWriteItems, UpdateContinuousBackups,
    WriteOptions,
};
use larder_engine::{Engine, Error};
use larder_model::clock::{PROOF, Simulated};
use larder_model::{ApiError, Clock, Item, StreamView, TableName, UnixTime};
use larder_sim::budget::seeds;
use larder_sim::observe::RESTORED;
use larder_sim::random::Random;
use larder_sim::run::BEGINNING;
use larder_sim::schema::{COUNT, EXPIRES, Key, Place, create_table, switch_expiry};
use larder_storage::faulty::FaultyDisk;
use larder_storage::{Options, Store};
use pollster::block_on;

type Items = BTreeMap<Key, Item>;

const HOUR: i64 = 60 * 60 * 1000;
const DAY: i64 = 24 * HOUR;
const JUMPS: [i64; 4] = [2 * HOUR, -2 * HOUR, 40 * DAY, -40 * DAY];
/// Within this time a request is asked again that must not happen twice.
const AGAIN: Duration = Duration::from_secs(9 * 60);

struct World {
    seed: u64,
    random: Random,
    disk: FaultyDisk,
    engine: Engine,
    clock: Clock,
    hand: Simulated,
    time: UnixTime,
    wrong_by: i64,
    /// The furthest time that the store was ever told to rely on.
    relied_on: UnixTime,
    /// What the table held, from when on.
    states: Vec<(UnixTime, Items)>,
    /// Tokens, the counters they count, and when they were first used.
    tokens: Vec<(String, Key, UnixTime)>,
    /// Changes that the stream must tell: the key, and the count afterwards.
    changes: Vec<(Key, Option<i64>)>,
    read: usize,
    last_read: Option<u64>,
    iterator: Option<ShardIterator>,
    /// Restores that were made, and that were refused.
    restored: usize,
    refused: usize,
}

fn open(disk: &FaultyDisk) -> Engine {
    let options = Options { cache_bytes: 64 << 10, log_bytes: 16 << 10, ..Options::default() };
    Engine::on_store(Store::on_disk(disk.clone(), options).unwrap()).unwrap()
}

fn table() -> TableName {
    Place::Main.table()
}

fn count_of(item: &Item) -> Option<i64> {
    item.get(COUNT)?.as_number()?.to_i64()
}

fn code(error: Error) -> &'static str {
    ApiError::from(error).code()
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = FaultyDisk::default();
        let engine = open(&disk);
        let (clock, hand) = Clock::simulated(BEGINNING);
        let mut create = create_table(Place::Main);
        create.stream = Some(StreamSpecification { enabled: true, view: Some(StreamView::NewImage) });
        block_on(engine.create_table(create, clock.trusted())).unwrap();
        block_on(engine.update_time_to_live(switch_expiry(true))).unwrap();
        let recovery = UpdateContinuousBackups { table: table(), enabled: true, days: Some(35) };
        block_on(engine.update_continuous_backups(recovery, clock.trusted())).unwrap();
        let time = BEGINNING.plus(Duration::from_secs(1));
        hand.pass(Duration::from_secs(1));
        Self {
            seed,
            random: Random::new(seed),
            disk,
            engine,
            clock,
            hand,
            time,
            wrong_by: 0,
            relied_on: BEGINNING,
            states: vec![(time, Items::new())],
            tokens: Vec::new(),
            changes: Vec::new(),
            read: 0,
            last_read: None,
            iterator: None,
            restored: 0,
            refused: 0,
        }
    }

    fn now(&self) -> UnixTime {
        self.clock.trusted()
    }

    /// Time passes, and background work is done.
    fn pass(&mut self, by: Duration) {
        self.time = self.time.plus(by);
        self.hand.pass(by);
        let reading = self.clock.read();
        self.relied_on = self.relied_on.max(reading.settled);
        self.engine.keep_time(&reading).unwrap();
        while self.engine.work(reading.now, Duration::ZERO).unwrap().more {}
        self.look();
    }

    fn jump(&mut self, by: i64) {
        self.wrong_by = by;
        self.hand.set(UnixTime::from_millis(self.time.millis() + by));
    }

    fn lose_power(&mut self) {
        self.disk = self.disk.crash(self.random.number());
        self.engine = open(&self.disk);
        (self.clock, self.hand) = Clock::simulated(UnixTime::from_millis(self.time.millis() + self.wrong_by));
        self.engine.resume_time(&self.clock).unwrap();
        let held = self.held().clone();
        assert_eq!(items(&self.engine, &table()), held, "seed {}: after losing power", self.seed);
    }

    fn held(&self) -> &Items {
        &self.states.last().unwrap().1
    }

    /// Takes note of what has expired; nothing else may be gone.
    fn look(&mut self) {
        let found = items(&self.engine, &table());
        let mut held = self.held().clone();
        let expires = |item: &Item| item.get(EXPIRES).and_then(|value| value.as_number()?.to_i64());
        let gone = held.iter().filter(|(key, _)| !found.contains_key(key));
        let mut gone: Vec<_> = gone.map(|(key, item)| (expires(item), key.clone())).collect();
        gone.sort();
        for (expires, key) in gone {
            let due = expires.is_some_and(|expires| expires <= self.relied_on.seconds());
            assert!(due, "seed {}: {key:?} is gone too early", self.seed);
            held.remove(&key);
            self.changes.push((key, None));
        }
        assert_eq!(found, held, "seed {}", self.seed);
        if *self.held() != held {
            self.states.push((self.time, held));
        }
    }

    fn key(&mut self, kind: &str) -> Key {
        Key(format!("{kind}{}", self.random.below(3)), self.random.between(0, 3))
    }

    fn write(&mut self) {
        let key = self.key("p");
        let mut held = self.held().clone();
        if self.random.one_in(4) {
            let request =
                DeleteItem { table: table(), key: key.attributes(), options: WriteOptions::default() };
            block_on(self.engine.delete_item(request, self.now())).unwrap();
            if held.remove(&key).is_some() {
                self.changes.push((key, None));
            }
        } else {
            let mut item = key.attributes();
            let count = self.changes.len() as i64;
            item.insert(COUNT, count);
            if self.random.one_in(3) {
                // No two at one time: they go in its order.
                let expires = self.time.seconds() + self.random.between(60, 3 * 60 * 60);
                item.insert(EXPIRES, (expires / 1000 + 1) * 1000 + count % 1000);
            }
            let request = PutItem { table: table(), item: item.clone(), options: WriteOptions::default() };
            block_on(self.engine.put_item(request, self.now())).unwrap();
            held.insert(key.clone(), item);
            self.changes.push((key, Some(count)));
        }
        self.states.push((self.time, held));
    }

    /// Counts under a token, a new one or one that was used already.
    fn count(&mut self) {
        let time = self.time;
        self.tokens.retain(|(.., used)| used.plus(AGAIN) > time);
        let again = !self.tokens.is_empty() && self.random.one_in(2);
        let (token, key) = if again {
            let (token, key, _) = self.random.pick(&self.tokens).clone();
            (token, key)
        } else {
            let (token, key) = (format!("token-{}", self.random.number()), self.key("counted"));
            self.tokens.push((token.clone(), key.clone(), time));
            (token, key)
        };
        let names = [("#n".to_owned(), COUNT.to_owned())].into();
        let values = [(":one".to_owned(), 1.into())].into();
        let mut scope = larder_expr::Scope::new(Some(names), Some(values)).unwrap();
        let write = TransactWrite {
            table: table(),
            action: TransactAction::Update {
                key: key.attributes(),
                update: scope.update("ADD #n :one").unwrap(),
            },
            condition: None,
            return_old_on_failure: false,
        };
        let request = TransactWriteItems {
            writes: vec![write],
            token: Some(token),
            capacity: ReturnCapacity::None,
            collection_metrics: false,
        };
        block_on(self.engine.transact_write_items(request, self.now())).unwrap();
        if !again {
            let mut held = self.held().clone();
            let count = held.get(&key).and_then(count_of).unwrap_or(0) + 1;
            let mut item = key.attributes();
            item.insert(COUNT, count);
            held.insert(key.clone(), item);
            self.states.push((self.time, held));
            self.changes.push((key, Some(count)));
        }
        let found = items(&self.engine, &table());
        assert_eq!(&found, self.held(), "seed {}: a token counts once", self.seed);
    }

    /// Reads the stream on from where the reader is, to its end.
    fn read(&mut self) {
        for _ in 0..1000 {
            let iterator = match self.iterator.take() {
                Some(iterator) => iterator,
                None => self.iterator(),
            };
            match self.engine.get_records(&GetRecords { iterator, limit: Some(5) }, self.now()) {
                Ok(page) => {
                    let ended = page.records.is_empty();
                    page.records.iter().for_each(|record| self.receive(record));
                    self.iterator = page.next;
                    if ended {
                        let (seed, read, made) = (self.seed, self.read, self.changes.len());
                        assert_eq!(read, made, "seed {seed}: the stream tells of {read} of {made} changes");
                        return;
                    }
                }
                // Another is asked for.
                Err(error) => {
                    let code = code(error);
                    assert!(
                        matches!(code, "ExpiredIteratorException" | "TrimmedDataAccessException"),
                        "{code}"
                    );
                }
            }
        }
        panic!("seed {}: the stream does not end", self.seed);
    }

    fn iterator(&self) -> ShardIterator {
        let described = larder_engine::ops::DescribeTable { table: table() };
        let label = self.engine.describe_table(&described).unwrap().stream_label.unwrap();
        let stream = StreamId { table: table(), label };
        let request = DescribeStream { stream: stream.clone(), start: None, children_of: None, limit: None };
        let shard = self.engine.describe_stream(&request, self.now()).unwrap().shards.remove(0).id;
        let from = |start| {
            let request = GetShardIterator { stream: stream.clone(), shard: shard.clone(), start };
            self.engine.get_shard_iterator(&request, self.now())
        };
        let start = self.last_read.map_or(ShardStart::TrimHorizon, ShardStart::After);
        // What was read last may be gone by now; what comes after it must not be.
        from(start).or_else(|_| from(ShardStart::TrimHorizon)).unwrap()
    }

    fn receive(&mut self, record: &StreamRecord) {
        if self.last_read.is_some_and(|last| record.number <= last) {
            return;
        }
        self.last_read = Some(record.number);
        let told = (Key::of(&record.key).unwrap(), record.new.as_ref().and_then(count_of));
        assert_eq!(Some(&told), self.changes.get(self.read), "seed {}: record {}", self.seed, self.read);
        self.read += 1;
    }

    /// Restores to a moment so far. It may be refused only where `may_refuse`.
    fn restore(&mut self, may_refuse: bool) {
        let first = self.states[0].0;
        let any = UnixTime::from_millis(self.random.between(first.millis(), self.time.millis()));
        let moment = if self.random.one_in(2) { self.random.pick(&self.states).0 } else { any };
        let after = self.states.partition_point(|(time, _)| *time <= moment);
        let held = self.states[after - 1].1.clone();
        let target = TableName::new(format!("{RESTORED}{}", self.restored)).unwrap();
        let request = RestoreTableToPointInTime {
            source: table(),
            target: target.clone(),
            at: Some(moment),
            overrides: RestoreOverrides::default(),
        };
        let context = format!("seed {}: to {moment:?} at {:?}", self.seed, self.time);
        match block_on(self.engine.restore_table_to_point_in_time(request, self.now())) {
            Ok(_) => {
                while self.engine.work(UnixTime::from_seconds(0), Duration::ZERO).unwrap().more {}
                assert_eq!(items(&self.engine, &target), held, "{context}");
                self.restored += 1;
                // A restore is a moment of its own.
                self.pass(Duration::from_millis(2));
            }
            Err(error) if may_refuse => {
                assert_eq!(code(error), "InvalidRestoreTimeException", "{context}");
                self.refused += 1;
            }
            Err(error) => panic!("{context}: {error}"),
        }
    }

    /// What a program does in a second or so.
    fn operate(&mut self) {
        match self.random.below(3) {
            0 => self.count(),
            _ => self.write(),
        }
        if self.random.one_in(3) {
            self.read();
        }
    }

    fn finish(mut self) {
        self.read();
        self.look();
        self.lose_power();
        let verified = self.engine.verify(self.time, |_| ()).unwrap();
        assert!(verified.problems.is_empty(), "seed {}: {:?}", self.seed, verified.problems);
    }
}

fn items(engine: &Engine, table: &TableName) -> Items {
    let mut found = Items::new();
    let mut start = None;
    loop {
        let page = engine.scan(&Scan { start, ..Scan::of(table.clone()) }).unwrap();
        for row in page.items.unwrap_or_default() {
            let item = match row {
                Row::Built(item) => item,
                Row::Stored(stored) => stored.decode().unwrap(),
            };
            found.insert(Key::of(&item).unwrap(), item);
        }
        start = page.last_key;
        if start.is_none() {
            return found;
        }
    }
}

#[test]
fn a_clock_that_is_wrong_for_a_while_changes_nothing() {
    const STEPS: usize = 150;
    for seed in seeds(8) {
        let mut world = World::new(seed);
        let mut until = 0;
        for step in 0..STEPS {
            let millis = world.random.below(4_000) + 1;
            world.pass(Duration::from_millis(millis));
            // Wrong for some steps, which take less than it takes to be believed.
            match world.random.below(10) {
                0 if world.wrong_by == 0 => {
                    let by = *world.random.pick(&JUMPS);
                    world.jump(by);
                    until = step + world.random.below(8) as usize;
                }
                _ if world.wrong_by != 0 && step >= until => world.jump(0),
                // The power goes only while the clock is right.
                1 if world.wrong_by == 0 => world.lose_power(),
                2 if world.wrong_by == 0 => {
                    world.pass(Duration::from_secs(1));
                    world.restore(false);
                }
                _ => {}
            }
            world.operate();
        }
        world.finish();
    }
}

#[test]
fn power_that_goes_while_the_clock_is_wrong_loses_nothing_and_what_is_uncertain_is_told() {
    const STEPS: usize = 60;
    let (mut restored, mut refused) = (0, 0);
    for seed in seeds(8) {
        let mut world = World::new(seed);
        for _ in 0..3 {
            for _ in 0..STEPS / 3 {
                let millis = world.random.below(4_000) + 1;
                world.pass(Duration::from_millis(millis));
                world.operate();
            }
            let by = *world.random.pick(&JUMPS);
            world.jump(by);
            for _ in 0..world.random.below(6) + 1 {
                let millis = world.random.below(2_000) + 1;
                world.pass(Duration::from_millis(millis));
                if world.random.one_in(2) {
                    world.lose_power();
                }
                world.operate();
            }
            world.jump(0);
            // Before the clock is believed again, and after.
            for _ in 0..PROOF.as_secs() / 30 + 2 {
                world.pass(Duration::from_secs(30));
                world.operate();
                if world.random.one_in(6) {
                    world.restore(true);
                }
            }
            assert_eq!(world.now(), world.time, "seed {seed}: the clock is right and not followed");
            for _ in 0..4 {
                world.restore(true);
            }
        }
        restored += world.restored;
        refused += world.refused;
        world.finish();
    }
    assert!(restored > 0, "{refused} were refused, and none was made");
}

#[test]
fn a_clock_that_stays_wrong_is_followed_and_comes_back() {
    let (mut restored, mut refused) = (0, 0);
    for seed in seeds(5) {
        let mut world = World::new(seed);
        for _ in 0..2 {
            let by = *world.random.pick(&JUMPS);
            for wrong_by in [by, 0] {
                for _ in 0..20 {
                    let millis = world.random.below(9_000) + 1;
                    world.pass(Duration::from_millis(millis));
                    world.operate();
                    if world.wrong_by == 0 && world.random.one_in(3) {
                        world.restore(true);
                    }
                }
                world.read();
                world.jump(wrong_by);
                for _ in 0..2 * PROOF.as_secs() / 30 + 4 {
                    world.pass(Duration::from_secs(30));
                    world.operate();
                    // Whoever waits longer than a day, as the clock tells it, is too late.
                    world.read();
                }
                let clock = UnixTime::from_millis(world.time.millis() + wrong_by);
                assert_eq!(world.now(), clock, "seed {seed}: the clock is not followed");
            }
        }
        for _ in 0..10 {
            world.restore(true);
        }
        restored += world.restored;
        refused += world.refused;
        world.finish();
    }
    assert!(restored > 0, "{refused} were refused, and none was made");
}
