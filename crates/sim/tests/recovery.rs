//! Any moment of a history can be restored, however it was interrupted.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::BTreeMap;
use std::env;
use std::future::Future;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use larder_engine::ops::{
    BackupKind, BackupStatus, BatchWrite, BatchWriteItem, CreateBackup, CreateTable, DescribeBackup,
    DescribeStream, DescribeTable, GetRecords, GetShardIterator, ListBackups, ListStreams, ListTables,
    PutItem, RestoreOverrides, RestoreTableFromBackup, RestoreTableToPointInTime, ReturnCapacity, Row, Scan,
    ShardStart, StreamRecord, StreamSpecification, TableStatus, TransactAction, TransactWrite,
    TransactWriteItems, UpdateContinuousBackups, WriteOptions,
};
use larder_engine::{Engine, Error};
use larder_model::{ApiError, Item, StreamView, TableName, UnixTime};
use larder_sim::budget::{points, seeds};
use larder_sim::gate::GatedDisk;
use larder_sim::observe::{RESTORED, Trouble, finish_work, observe};
use larder_sim::operation::{self, Answer};
use larder_sim::oracle::Oracle;
use larder_sim::random::Random;
use larder_sim::run::BEGINNING;
use larder_sim::schema::{COUNT, GROUP, Key, Place, create_table, switch_expiry};
use larder_sim::workload::Workload;
use larder_storage::faulty::{FaultyDisk, Lasting, Operation as DiskOperation};
use larder_storage::{Options, Store};
use pollster::block_on;

type Items = BTreeMap<Key, Item>;

fn open(disk: &FaultyDisk) -> Engine {
    let options = Options { cache_bytes: 64 << 10, log_bytes: 16 << 10, ..Options::default() };
    Engine::on_store(Store::on_disk(disk.clone(), options).unwrap()).unwrap()
}

fn named(n: usize) -> TableName {
    TableName::new(format!("{RESTORED}{n}")).unwrap()
}

fn switch_recovery_on(engine: &Engine, now: UnixTime) {
    let request = UpdateContinuousBackups { table: Place::Main.table(), enabled: true, days: Some(1) };
    block_on(engine.update_continuous_backups(request, now)).unwrap();
}

fn restore(engine: &Engine, target: TableName, at: UnixTime, now: UnixTime) -> Result<(), Error> {
    let request = RestoreTableToPointInTime {
        source: Place::Main.table(),
        target,
        at: Some(at),
        overrides: RestoreOverrides::default(),
    };
    block_on(engine.restore_table_to_point_in_time(request, now)).map(drop)
}

fn back_up(engine: &Engine, now: UnixTime) -> Result<String, Error> {
    let request = CreateBackup { table: Place::Main.table(), name: "sim".to_owned() };
    block_on(engine.create_backup(request, now)).map(|backup| backup.arn)
}

fn restore_backup(engine: &Engine, arn: &str, target: TableName, now: UnixTime) {
    let request =
        RestoreTableFromBackup { backup: arn.to_owned(), target, overrides: RestoreOverrides::default() };
    block_on(engine.restore_table_from_backup(request, now)).unwrap();
}

fn all_items(engine: &Engine, table: &TableName) -> Items {
    let mut found = Items::new();
    let mut start = None;
    loop {
        let request = Scan { start, ..Scan::of(table.clone()) };
        let page = engine.scan(&request).unwrap();
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

/// Keys, index entries and counters of everything agree.
fn check_whole(engine: &Engine, context: &str) {
    let mut problems = engine.verify(BEGINNING, |_| ()).unwrap().problems;
    // Time has gone on since: an item whose time is years in the past stays, and loses its place among those that
    // expire.
    problems.retain(|problem| !problem.contains("its expiry entry is missing"));
    assert!(problems.is_empty(), "{context}: {problems:?}");
}

fn finish(engine: &Engine) {
    finish_work(engine).unwrap_or_else(|trouble| panic!("{trouble:?}"));
}

/// A history of a table: what it held after each change, as a plain map.
struct History {
    seed: u64,
    random: Random,
    disk: FaultyDisk,
    engine: Engine,
    oracle: Oracle,
    workload: Workload,
    now: UnixTime,
    states: Vec<(UnixTime, Items)>,
    /// Restored tables and what they must hold in the end.
    restored: Vec<(TableName, Items, String)>,
    /// Backups and what they must hold.
    backups: Vec<(String, Items)>,
}

impl History {
    fn new(seed: u64) -> Self {
        let disk = FaultyDisk::default();
        let engine = open(&disk);
        block_on(engine.create_table(create_table(Place::Main), BEGINNING)).unwrap();
        switch_recovery_on(&engine, BEGINNING);
        Self {
            seed,
            random: Random::new(!seed),
            disk,
            engine,
            oracle: Oracle::new(Duration::ZERO),
            workload: Workload::new(seed),
            now: BEGINNING,
            states: vec![(BEGINNING, Items::new())],
            restored: Vec::new(),
            backups: Vec::new(),
        }
    }

    fn step(&mut self) {
        self.now = self.now.plus(Duration::from_millis(self.random.below(900) + 1));
        match self.random.below(12) {
            0 => self.crash(),
            1 => self.restore(),
            2 if self.backups.len() < 3 => {
                let arn = back_up(&self.engine, self.now).unwrap();
                let held = self.states.last().unwrap().1.clone();
                self.backups.push((arn, held));
            }
            // A copy goes on among the writes.
            3 | 4 => drop(self.engine.work(UnixTime::from_seconds(0), Duration::ZERO).unwrap()),
            _ => self.operate(),
        }
    }

    /// Does the workload's next operation. The oracle's plain map says what may come of it.
    fn operate(&mut self) {
        let operation = self.workload.next(&self.oracle, self.now);
        if let operation::Operation::Advance(by) = operation {
            self.now = self.now.plus(by);
        }
        let answer = operation::perform(&self.engine, &operation, self.now, Duration::ZERO)
            .unwrap_or_else(|what| panic!("seed {}: {what}", self.seed));
        assert!(matches!(answer, Answer::Known(_)), "seed {}: {answer:?}", self.seed);
        let learned = self.oracle.learn(&operation, &answer, self.now);
        learned.unwrap_or_else(|what| panic!("seed {}: {what}", self.seed));
        let observed = match observe(&self.engine) {
            Ok(observed) => observed,
            Err(Trouble::Disk(what) | Trouble::Broken(what)) => panic!("seed {}: {what}", self.seed),
        };
        self.oracle.see(&observed).unwrap_or_else(|what| panic!("seed {}: {what}", self.seed));
        self.states.push((self.now, observed.tables[&Place::Main].items.clone()));
    }

    fn crash(&mut self) {
        self.disk = self.disk.crash(self.random.number());
        self.engine = open(&self.disk);
    }

    /// Begins a restore to any moment so far: one of a change, a whole second, or another.
    fn restore(&mut self) {
        let any = self.random.between(BEGINNING.millis(), self.now.millis());
        let moment = match self.random.below(3) {
            0 => self.random.pick(&self.states).0,
            1 => UnixTime::from_seconds(any / 1000).max(BEGINNING),
            _ => UnixTime::from_millis(any),
        };
        let after = self.states.partition_point(|(time, _)| *time <= moment);
        let held = self.states[after - 1].1.clone();
        let target = named(self.restored.len());
        restore(&self.engine, target.clone(), moment, self.now)
            .unwrap_or_else(|error| panic!("seed {}: to {moment:?} at {:?}: {error}", self.seed, self.now));
        self.restored.push((target, held, format!("seed {}: at {moment:?}", self.seed)));
    }

    fn check(mut self) {
        for _ in 0..4 {
            self.restore();
        }
        finish(&self.engine);
        for (arn, held) in std::mem::take(&mut self.backups) {
            let target = named(self.restored.len());
            restore_backup(&self.engine, &arn, target.clone(), self.now);
            self.restored.push((target, held, format!("seed {}: backup {arn}", self.seed)));
        }
        finish(&self.engine);
        self.crash();
        for (table, held, context) in &self.restored {
            assert_eq!(&all_items(&self.engine, table), held, "{context}");
        }
        check_whole(&self.engine, &format!("seed {}", self.seed));
    }
}

#[test]
fn any_moment_of_a_random_history_can_be_restored() {
    const STEPS: usize = 120;
    for seed in seeds(20) {
        let mut history = History::new(seed);
        for _ in 0..STEPS {
            history.step();
        }
        history.check();
    }
}

#[test]
fn trimming_never_takes_what_a_restore_may_need() {
    const STEPS: usize = 60;
    for seed in seeds(6) {
        let mut history = History::new(seed);
        let mut random = Random::new(seed);
        let mut kept_from = BEGINNING;
        for _ in 0..STEPS {
            history.operate();
            history.now = history.now.plus(Duration::from_secs(random.below(3 * 60 * 60) + 1));
            // What has expired goes too, so the state is what is found afterwards.
            history.engine.work(history.now, Duration::from_secs(u32::MAX.into())).unwrap();
            let day_ago = UnixTime::from_seconds(history.now.seconds() - 24 * 60 * 60 + 1);
            kept_from = kept_from.max(day_ago);
        }
        for n in 0..8 {
            let moment = UnixTime::from_millis(random.between(kept_from.millis(), history.now.millis()));
            let after = history.states.partition_point(|(time, _)| *time <= moment);
            restore(&history.engine, named(n), moment, history.now).unwrap();
            // A later pass of trimming waits for it.
            history.engine.work(history.now.plus(Duration::from_secs(1 << 20)), Duration::MAX).unwrap();
            finish(&history.engine);
            let held = &history.states[after - 1].1;
            assert_eq!(&all_items(&history.engine, &named(n)), held, "seed {seed}: at {moment:?}");
            history.now = history.now.plus(Duration::from_millis(1));
        }
    }
}

/// More items than a step copies, and more changes than a step undoes; all after `MOMENT` to be undone.
const ITEMS: i64 = 1100;
const MOMENT: UnixTime = UnixTime::from_millis(BEGINNING.millis() + 1000);
const LATER: UnixTime = UnixTime::from_millis(BEGINNING.millis() + 2000);

fn put_all(engine: &Engine, group: &str, now: UnixTime) {
    let item = |n: i64| {
        let mut item = Key(format!("p{}", n % 7), n).attributes();
        item.insert(GROUP, group);
        item.insert(COUNT, n);
        item
    };
    let tables = vec![(Place::Main.table(), (0..ITEMS).map(|n| BatchWrite::Put(item(n))).collect())];
    let request = BatchWriteItem { tables, capacity: ReturnCapacity::None, collection_metrics: false };
    block_on(engine.batch_write_item(request, now)).unwrap();
}

/// A closed database with a past, and what its table held at `MOMENT` and holds now.
fn past() -> (Vec<u8>, Items, Items) {
    let disk = FaultyDisk::default();
    let engine = open(&disk);
    block_on(engine.create_table(create_table(Place::Main), BEGINNING)).unwrap();
    block_on(engine.update_time_to_live(switch_expiry(true))).unwrap();
    switch_recovery_on(&engine, BEGINNING);
    put_all(&engine, "before", MOMENT);
    let before = all_items(&engine, &Place::Main.table());
    put_all(&engine, "after", LATER);
    let after = all_items(&engine, &Place::Main.table());
    finish(&engine);
    engine.close().unwrap();
    drop(engine);
    (disk.bytes(), before, after)
}

/// Writes and works until all is done, or the power has gone.
fn go_on(engine: &Engine) -> Result<(), Error> {
    const STEPS_MAX: i64 = 100;
    for n in 0..STEPS_MAX {
        let mut item = Key("p0".to_owned(), n).attributes();
        item.insert(GROUP, "meanwhile");
        let put = PutItem { table: Place::Main.table(), item, options: WriteOptions::default() };
        block_on(engine.put_item(put, LATER))?;
        if !engine.work(UnixTime::from_seconds(0), Duration::ZERO)?.more {
            return Ok(());
        }
    }
    panic!("the work does not end");
}

/// Where the power goes in a build.
const POINTS: u64 = 24;

/// Runs `begin` and the work it needs on a disk that loses power after each number of changes, and then `check`.
fn interrupt_everywhere(
    image: &[u8],
    begin: impl Fn(&Engine) -> Result<(), Error>,
    go_on: impl Fn(&Engine) -> Result<(), Error>,
    check: impl Fn(&Engine, &str),
) {
    let disk = FaultyDisk::from(image.to_vec());
    let engine = open(&disk);
    let before = disk.changes();
    begin(&engine).unwrap();
    go_on(&engine).unwrap();
    check(&engine, "without interruption");
    let changes = disk.changes() - before;
    drop(engine);
    // All of them take minutes; a build tries some, spread over all.
    let every = if env::var("SIM_RUNS").is_ok() { 1 } else { changes.div_ceil(POINTS) };
    for after in points(changes).filter(|at| env::var("SIM_AT").is_ok() || at % every == 0) {
        let disk = FaultyDisk::from(image.to_vec());
        let engine = open(&disk);
        disk.fail(DiskOperation::Change, after, Lasting::Forever);
        // It may still end well, where little was left to do.
        let _ = begin(&engine).and_then(|()| go_on(&engine));
        let found = disk.crash(after);
        drop(engine);
        let engine = open(&found);
        // Writes at the same time as the one that was cut off are after it all the same.
        go_on(&engine).unwrap();
        check(&engine, &format!("SIM_AT={after}"));
    }
}

#[test]
fn a_restore_survives_a_crash_at_every_step() {
    let (image, before, _) = past();
    interrupt_everywhere(
        &image,
        |engine| restore(engine, named(0), MOMENT, LATER),
        go_on,
        |engine, context| {
            let tables = engine.list_tables(&ListTables { start: None, limit: None }).unwrap().names;
            if !tables.contains(&named(0)) {
                restore(engine, named(0), MOMENT, LATER).unwrap();
                go_on(engine).unwrap();
            }
            let described = engine.describe_table(&DescribeTable { table: named(0) }).unwrap();
            assert_eq!(described.status, TableStatus::Active, "{context}");
            assert_eq!(all_items(engine, &named(0)), before, "{context}");
            check_whole(engine, context);
        },
    );
}

#[test]
fn a_backup_survives_a_crash_at_every_step() {
    let (image, _, after) = past();
    interrupt_everywhere(
        &image,
        |engine| back_up(engine, LATER).map(drop),
        go_on,
        |engine, context| {
            let list = ListBackups {
                table: None,
                kinds: vec![BackupKind::User],
                from: None,
                before: None,
                limit: None,
                start: None,
            };
            // One that was never answered may be missing, but not be wrong.
            for backup in engine.list_backups(&list).unwrap().backups {
                let described = engine.describe_backup(&DescribeBackup { arn: backup.arn.clone() }).unwrap();
                assert_eq!(described.status, BackupStatus::Available, "{context}");
                restore_backup(engine, &backup.arn, named(0), LATER);
                go_on(engine).unwrap();
                assert_eq!(all_items(engine, &named(0)), after, "{context}");
                check_whole(engine, context);
            }
        },
    );
}

const HOUR: Duration = Duration::from_secs(60 * 60);

/// A moment so many hours after the beginning.
fn hour(n: u32) -> UnixTime {
    BEGINNING.plus(HOUR * n)
}

/// Writes and trims as long as there is something to trim. What is older than a day and an hour goes.
fn trim(engine: &Engine) -> Result<(), Error> {
    const STEPS_MAX: i64 = 100;
    for n in 0..STEPS_MAX {
        let mut item = Key("p0".to_owned(), ITEMS + n).attributes();
        item.insert(GROUP, "meanwhile");
        let put = PutItem { table: Place::Main.table(), item, options: WriteOptions::default() };
        block_on(engine.put_item(put, hour(26)))?;
        if !engine.work(hour(26), Duration::MAX)?.more {
            return Ok(());
        }
    }
    panic!("the work does not end");
}

/// The records of the stream from a place on.
fn read_stream(engine: &Engine, start: ShardStart, now: UnixTime) -> Result<Vec<StreamRecord>, Error> {
    let list = ListStreams { table: Some(Place::Main.table()), start: None, limit: None };
    let stream = engine.list_streams(&list, now)?.streams.remove(0);
    let describe = DescribeStream { stream: stream.clone(), start: None, children_of: None, limit: None };
    let shard = engine.describe_stream(&describe, now)?.shards.remove(0).id;
    let mut iterator = engine.get_shard_iterator(&GetShardIterator { stream, shard, start }, now)?;
    let mut records = Vec::new();
    loop {
        let page = engine.get_records(&GetRecords { iterator, limit: None }, now)?;
        if page.records.is_empty() {
            return Ok(records);
        }
        records.extend(page.records);
        iterator = page.next.expect("the stream is open");
    }
}

#[test]
fn trimming_survives_a_crash_at_every_step_and_leaves_no_hole() {
    let disk = FaultyDisk::default();
    let engine = open(&disk);
    let stream = StreamSpecification { enabled: true, view: Some(StreamView::NewAndOldImages) };
    let table = CreateTable { stream: Some(stream), ..create_table(Place::Main) };
    block_on(engine.create_table(table, BEGINNING)).unwrap();
    switch_recovery_on(&engine, BEGINNING);
    put_all(&engine, "old", MOMENT);
    let old = all_items(&engine, &Place::Main.table());
    put_all(&engine, "kept", hour(12));
    let kept = all_items(&engine, &Place::Main.table());
    let told = read_stream(&engine, ShardStart::TrimHorizon, hour(12)).unwrap();
    let (first, later) = told.split_at(usize::try_from(ITEMS).unwrap());
    let later: Vec<(u64, Item)> = later.iter().map(|record| (record.number, record.key.clone())).collect();
    assert_eq!((first.len(), later.len()), (old.len(), kept.len()));
    engine.close().unwrap();
    drop(engine);

    interrupt_everywhere(
        &disk.bytes(),
        |_| Ok(()),
        trim,
        |engine, context| {
            let found = read_stream(engine, ShardStart::TrimHorizon, hour(26)).unwrap();
            let (found, meanwhile) = found.split_at(later.len());
            let told: Vec<(u64, Item)> =
                found.iter().map(|record| (record.number, record.key.clone())).collect();
            assert_eq!(told, later, "{context}");
            assert!(!meanwhile.is_empty(), "{context}");
            // Who has read a part goes on without a gap, and who has read too little is told.
            let (middle, _) = later[later.len() / 2];
            let rest = read_stream(engine, ShardStart::After(middle), hour(26)).unwrap();
            assert_eq!(rest.len(), later.len() - later.len() / 2 - 1 + meanwhile.len(), "{context}");
            let lost = read_stream(engine, ShardStart::After(first[1].number), hour(26)).unwrap_err();
            assert!(matches!(lost, Error::Api(ApiError::TrimmedDataAccess)), "{context}: {lost}");
            for (n, (moment, held)) in [(hour(11), &old), (hour(12), &kept)].into_iter().enumerate() {
                restore(engine, named(n), moment, hour(26)).unwrap();
                finish(engine);
                assert_eq!(&all_items(engine, &named(n)), held, "{context}");
            }
            check_whole(engine, context);
        },
    );
}

#[test]
fn a_copy_has_all_of_a_transaction_or_nothing() {
    const WRITERS: i64 = 3;
    const TRANSACTIONS: i64 = 200;
    const COPIES: usize = 3;
    let engine = Engine::memory().unwrap();
    block_on(engine.create_table(create_table(Place::Main), BEGINNING)).unwrap();
    switch_recovery_on(&engine, BEGINNING);
    // Some thousand others, so that the parts of a transaction are copied in different steps.
    let others = (0..4000).map(|n| BatchWrite::Put(Key(format!("other{n}"), 0).attributes()));
    let request = BatchWriteItem {
        tables: vec![(Place::Main.table(), others.collect())],
        capacity: ReturnCapacity::None,
        collection_metrics: false,
    };
    block_on(engine.batch_write_item(request, BEGINNING)).unwrap();
    let parts = ["p", "q", "r", "s", "t", "u"];
    let write = &|writer: i64, n: i64| {
        let put = |part: &str| {
            let mut item = Key(part.to_owned(), writer).attributes();
            item.insert(COUNT, n);
            TransactWrite {
                table: Place::Main.table(),
                action: TransactAction::Put { item },
                condition: None,
                return_old_on_failure: false,
            }
        };
        let request = TransactWriteItems {
            writes: parts.map(put).into(),
            token: None,
            capacity: ReturnCapacity::None,
            collection_metrics: false,
        };
        // The clock stands still: only the order of changes and copies can tell them apart.
        block_on(engine.transact_write_items(request, BEGINNING)).unwrap();
    };
    let arns = thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || (1..=TRANSACTIONS).for_each(|n| write(writer, n)));
        }
        (0..COPIES)
            .map(|n| {
                let request = RestoreTableToPointInTime {
                    source: Place::Main.table(),
                    target: named(n),
                    at: None,
                    overrides: RestoreOverrides::default(),
                };
                block_on(engine.restore_table_to_point_in_time(request, BEGINNING)).unwrap();
                engine.work(UnixTime::from_seconds(0), Duration::ZERO).unwrap();
                back_up(&engine, BEGINNING).unwrap()
            })
            .collect::<Vec<_>>()
    });
    finish(&engine);
    for (n, arn) in arns.iter().enumerate() {
        restore_backup(&engine, arn, named(COPIES + n), BEGINNING);
    }
    finish(&engine);
    for n in 0..2 * COPIES {
        let items = all_items(&engine, &named(n));
        for writer in 0..WRITERS {
            let count = |part: &str| items.get(&Key(part.to_owned(), writer))?.get(COUNT).cloned();
            let counts = parts.map(count);
            assert!(counts.iter().all(|count| *count == counts[0]), "copy {n} has a part: {counts:?}");
        }
    }
}

#[test]
fn a_backup_has_the_writes_that_were_waiting_for_the_disk() {
    const PATIENCE: Duration = Duration::from_millis(200);
    let disk = GatedDisk::new(FaultyDisk::default());
    let options = Options { log_bytes: 64 << 10, ..Options::default() };
    let engine = Engine::on_store(Store::on_disk(disk.clone(), options).unwrap()).unwrap();
    block_on(engine.create_table(create_table(Place::Main), BEGINNING)).unwrap();
    let put = |partition: &str| {
        let item = Key(partition.to_owned(), 0).attributes();
        let request = PutItem { table: Place::Main.table(), item, options: WriteOptions::default() };
        let mut asked = Box::pin(engine.put_item(request, BEGINNING));
        let polled = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "the disk is held up");
        asked
    };
    disk.shut();
    let held = put("held");
    assert!(disk.wait_for_sync());
    let waiting = put("waiting");
    let request = CreateBackup { table: Place::Main.table(), name: "sim".to_owned() };
    let mut backup = Box::pin(engine.create_backup(request, BEGINNING));
    assert!(backup.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    thread::scope(|scope| {
        let worker = scope.spawn(|| engine.work(UnixTime::from_seconds(0), Duration::ZERO));
        // A copy that begins without them has time to.
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            thread::yield_now();
        }
        disk.open();
        worker.join().unwrap().unwrap();
    });
    block_on(held).unwrap();
    block_on(waiting).unwrap();
    let arn = block_on(backup).unwrap().arn;
    finish(&engine);
    restore_backup(&engine, &arn, named(0), BEGINNING);
    finish(&engine);
    let found: Vec<String> = all_items(&engine, &named(0)).into_keys().map(|key| key.0).collect();
    assert_eq!(found, ["held", "waiting"]);
}
