//! What safety costs: the change log and recovery, encryption, expiry beside reads, and how fast a table comes back.
//!
//! Both sides of a ratio do the same work in turns within one run, on the same disk, and the median of the rounds
//! counts. The engine is called in process.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use hdrhistogram::Histogram;
use larder_engine::Engine;
use larder_engine::ops::{
    BatchWrite, BatchWriteItem, CreateBackup, CreateTable, DescribeTable, GetItem, KeyElement, KeyRole,
    PutItem, RestoreOverrides, RestoreTableToPointInTime, ReturnCapacity, TableStatus,
    UpdateContinuousBackups, UpdateTimeToLive, WriteOptions,
};
use larder_model::{Clock, Item, KeyType, TableName, UnixTime};
use larder_storage::{Key, Options};
use tokio::runtime::{Handle, Runtime};

use crate::embedded::larder::{create_table, item};
use crate::workload::{self, BATCH_ITEMS, Random, Sample, TABLE};

const WRITERS: [usize; 2] = [1, 64];
const READERS: usize = 4;
/// How long expiry works, and rests, in turns.
const TURN: Duration = Duration::from_millis(500);
const ENDS: &str = "ends";

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) rounds: usize,
    pub(crate) time: Duration,
    /// In the tables that are written to and restored.
    pub(crate) items: u64,
    pub(crate) expiring: u64,
}

impl Sizes {
    pub(crate) fn full(rounds: usize, time: Duration) -> Self {
        Self { rounds, time, items: 100_000, expiring: 1_000_000 }
    }

    pub(crate) fn quick() -> Self {
        Self { rounds: 1, time: Duration::from_millis(200), items: 2_000, expiring: 5_000 }
    }
}

pub(crate) fn run(sizes: Sizes) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    println!("What safety costs; {} items, median of {}", sizes.items, sizes.rounds);
    compare_recovery(&runtime, sizes)?;
    compare_encryption(&runtime, sizes)?;
    restore(&runtime, sizes)?;
    expire(&runtime, sizes)
}

fn now() -> UnixTime {
    Clock::system().now()
}

fn table() -> TableName {
    TableName::new(TABLE).expect("it is a name")
}

fn open(place: &Path, key: Option<Key>) -> Result<Engine> {
    Ok(Engine::open(place, Options { key, ..Options::default() })?)
}

/// An engine with a filled table in a directory of its own.
fn filled(place: &Path, key: Option<Key>, runtime: &Runtime, items: u64) -> Result<Engine> {
    let engine = open(place, key)?;
    runtime.block_on(engine.create_table(create_table(table())?, now()))?;
    fill(&engine, runtime.handle(), items, &|number| item(Sample { number, version: 0 }))?;
    Ok(engine)
}

fn fill(
    engine: &Engine,
    handle: &Handle,
    items: u64,
    item: &(dyn Fn(u64) -> Result<Item> + Sync),
) -> Result<()> {
    let next = AtomicU64::new(0);
    on_threads(16, |_| {
        loop {
            let first = next.fetch_add(BATCH_ITEMS, Ordering::Relaxed);
            if first >= items {
                return Ok(());
            }
            let numbers = first..items.min(first + BATCH_ITEMS);
            let puts = numbers.map(|number| Ok(BatchWrite::Put(item(number)?))).collect::<Result<_>>()?;
            let tables = vec![(table(), puts)];
            let request =
                BatchWriteItem { tables, capacity: ReturnCapacity::None, collection_metrics: false };
            handle.block_on(engine.batch_write_item(request, now()))?;
        }
    })
}

fn on_threads(count: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count).map(|at| scope.spawn(move || work(at))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })
}

fn switch_recovery_on(engine: &Engine, runtime: &Runtime) -> Result<()> {
    let request = UpdateContinuousBackups { table: table(), enabled: true, days: None };
    runtime.block_on(engine.update_continuous_backups(request, now()))?;
    Ok(())
}

/// Puts a second in place of items that are there.
fn puts(engine: &Engine, handle: &Handle, writers: usize, sizes: Sizes) -> Result<f64> {
    let (start, done) = (Instant::now(), AtomicU64::new(0));
    on_threads(writers, |at| {
        let mut random = Random::new(at as u64 + 1);
        while start.elapsed() < sizes.time {
            let sample = Sample { number: random.below(sizes.items), version: random.next() };
            let put = PutItem { table: table(), item: item(sample)?, options: WriteOptions::default() };
            handle.block_on(engine.put_item(put, now()))?;
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    })?;
    Ok(done.into_inner() as f64 / start.elapsed().as_secs_f64())
}

fn compare_recovery(runtime: &Runtime, sizes: Sizes) -> Result<()> {
    let (without, with) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let without = filled(without.path(), None, runtime, sizes.items)?;
    let with = filled(with.path(), None, runtime, sizes.items)?;
    switch_recovery_on(&with, runtime)?;
    in_turns(runtime, sizes, "log and recovery", &without, &with)
}

fn compare_encryption(runtime: &Runtime, sizes: Sizes) -> Result<()> {
    let (without, with) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let key = Key::new([7; 32]);
    let plain = filled(without.path(), None, runtime, sizes.items)?;
    let sealed = filled(with.path(), Some(key), runtime, sizes.items)?;
    in_turns(runtime, sizes, "encryption", &plain, &sealed)?;
    drop((plain, sealed));
    // From the file: what is in memory is not encrypted.
    let (mut of_plain, mut of_sealed) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        of_plain.push(cold_reads(without.path(), None, sizes.items)?);
        of_sealed.push(cold_reads(with.path(), Some(key), sizes.items)?);
    }
    tell("encryption: each item read once after opening", median(of_plain), median(of_sealed));
    Ok(())
}

/// The same table without and with something, written to in turns.
fn in_turns(runtime: &Runtime, sizes: Sizes, what: &str, without: &Engine, with: &Engine) -> Result<()> {
    for writers in WRITERS {
        let (mut of_without, mut of_with) = (Vec::new(), Vec::new());
        for _ in 0..sizes.rounds {
            of_without.push(puts(without, runtime.handle(), writers, sizes)?);
            of_with.push(puts(with, runtime.handle(), writers, sizes)?);
        }
        let name = format!("{what}: puts, {writers} at once");
        tell(&name, median(of_without), median(of_with));
    }
    Ok(())
}

fn cold_reads(place: &Path, key: Option<Key>, items: u64) -> Result<f64> {
    let engine = open(place, key)?;
    let start = Instant::now();
    for number in 0..items {
        let keys = workload::keys(number);
        let key = [("pk", keys.partition_key), ("sk", keys.sort_key)].into_iter().collect();
        ensure!(get(&engine, key)?, "an item is missing");
    }
    Ok(items as f64 / start.elapsed().as_secs_f64())
}

fn get(engine: &Engine, key: Item) -> Result<bool> {
    let request =
        GetItem { table: table(), key, projection: None, consistent: false, capacity: ReturnCapacity::None };
    Ok(engine.get_item(&request)?.item.is_some())
}

fn tell(name: &str, without: f64, with: f64) {
    println!("  {name:<50} without {without:>10.0}/s   with {with:>10.0}/s   ratio {:>5.2}", with / without);
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How fast a table comes back: as it is, as it was before every item was changed, and as a backup.
fn restore(runtime: &Runtime, sizes: Sizes) -> Result<()> {
    let place = tempfile::tempdir()?;
    let engine = filled(place.path(), None, runtime, sizes.items)?;
    switch_recovery_on(&engine, runtime)?;
    // The restore that follows marks a moment of its own, and every later change is after it.
    let before = now();
    let speed = restore_to(&engine, runtime, None, "now", sizes.items)?;
    println!("  {:<50} {speed:>10.0} items/s", "restore to now");
    fill(&engine, runtime.handle(), sizes.items, &|number| item(Sample { number, version: 1 }))?;
    let speed = restore_to(&engine, runtime, Some(before), "before", sizes.items)?;
    println!("  {:<50} {speed:>10.0} items/s", "restore to before a change of every item");
    let start = Instant::now();
    let backup = CreateBackup { table: table(), name: "bench".to_owned() };
    runtime.block_on(engine.create_backup(backup, now()))?;
    work_off(&engine)?;
    let speed = sizes.items as f64 / start.elapsed().as_secs_f64();
    println!("  {:<50} {speed:>10.0} items/s", "backup");
    Ok(())
}

fn restore_to(
    engine: &Engine,
    runtime: &Runtime,
    at: Option<UnixTime>,
    name: &str,
    items: u64,
) -> Result<f64> {
    let target = TableName::new(format!("{TABLE}-{name}"))?;
    let overrides = RestoreOverrides::default();
    let request = RestoreTableToPointInTime { source: table(), target: target.clone(), at, overrides };
    let start = Instant::now();
    runtime.block_on(engine.restore_table_to_point_in_time(request, now()))?;
    work_off(engine)?;
    let taken = start.elapsed();
    let described = engine.describe_table(&DescribeTable { table: target })?;
    ensure!(described.status == TableStatus::Active, "the restore is not done");
    Ok(items as f64 / taken.as_secs_f64())
}

/// Works until nothing is left to do.
fn work_off(engine: &Engine) -> Result<()> {
    while engine.work(now(), Duration::ZERO)?.more {}
    Ok(())
}

/// The slowest reads of what stays, while all else expires and while nothing does.
fn expire(runtime: &Runtime, sizes: Sizes) -> Result<()> {
    let place = tempfile::tempdir()?;
    let engine = open(place.path(), None)?;
    let definition = CreateTable {
        attributes: vec![("pk".to_owned(), KeyType::S)],
        key: vec![KeyElement { name: "pk".to_owned(), role: KeyRole::Partition }],
        global_indexes: None,
        ..create_table(table())?
    };
    runtime.block_on(engine.create_table(definition, now()))?;
    let request = UpdateTimeToLive { table: table(), attribute: ENDS.to_owned(), enabled: true };
    runtime.block_on(engine.update_time_to_live(request))?;
    work_off(&engine)?;
    let staying = sizes.items;
    let past = now().seconds() - 60;
    let numbered = |number: u64| -> Result<Item> {
        let mut item: Item =
            [("pk", format!("{number:08}")), ("text", "x".repeat(100))].into_iter().collect();
        // Among each other, as they are in a table that is used.
        if !number.is_multiple_of(1 + sizes.expiring / staying) {
            item.insert(ENDS, past);
        }
        Ok(item)
    };
    fill(&engine, runtime.handle(), staying + sizes.expiring, &numbered)?;

    let (working, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let read = |at: usize| -> Result<[Histogram<u64>; 2]> {
        let mut latencies = [Histogram::new(3)?, Histogram::new(3)?];
        let mut random = Random::new(at as u64 + 1);
        while !over.load(Ordering::Relaxed) {
            let kept = random.below(staying / 2) * (1 + sizes.expiring / staying);
            let mut key = Item::new();
            key.insert("pk", format!("{kept:08}"));
            let was_working = working.load(Ordering::Relaxed);
            let start = Instant::now();
            ensure!(get(&engine, key)?, "an item that stays is gone");
            let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            latencies[usize::from(was_working)].record(nanos)?;
        }
        Ok(latencies)
    };
    let (latencies, removed, taken) = std::thread::scope(|scope| -> Result<_> {
        let read = &read;
        let readers: Vec<_> = (0..READERS).map(|at| scope.spawn(move || read(at))).collect();
        let (mut removed, mut taken) = (0, Duration::ZERO);
        let mut more = true;
        while more {
            #[expect(
                clippy::disallowed_methods,
                reason = "reads are measured for so long, and nothing else is done"
            )]
            std::thread::sleep(TURN.min(sizes.time));
            working.store(true, Ordering::Relaxed);
            let start = Instant::now();
            while more && start.elapsed() < TURN {
                let worked = engine.work(now(), Duration::ZERO)?;
                (removed, more) = (removed + worked.expired, worked.more);
            }
            taken += start.elapsed();
            working.store(false, Ordering::Relaxed);
        }
        over.store(true, Ordering::Relaxed);
        let mut all = [Histogram::<u64>::new(3)?, Histogram::new(3)?];
        for reader in readers {
            let of_reader = reader.join().map_err(|_| anyhow!("a reader panicked"))??;
            for (all, one) in all.iter_mut().zip(of_reader) {
                all.add(one)?;
            }
        }
        Ok((all, removed, taken))
    })?;
    let [idle, busy] = latencies.map(|latencies| latencies.value_at_quantile(0.99) as f64 / 1000.0);
    println!(
        "  {:<50} without {idle:>8.1} µs   with {busy:>8.1} µs   ratio {:>5.2}",
        format!("reads while {removed} items expire: p99, {READERS} readers"),
        busy / idle
    );
    let speed = removed as f64 / taken.as_secs_f64();
    println!("  {:<50} {speed:>10.0} items/s", "expiry, beside the reads");
    Ok(())
}
