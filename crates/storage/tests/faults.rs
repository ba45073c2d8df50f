//! What a store promises when the disk fails, fills, flips bits or loses power.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use larder_storage::faulty::{FaultyDisk, Lasting, Operation};
use larder_storage::{Batch, Disk, Durability, Error, Options, Snapshot, Store, Ticket, Value};
use parking_lot::Mutex;
use redb::backends::FileBackend;
use std::io;
use std::ops::Bound::{self, Unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Small, so that most reads reach the disk, and the log is full after two batches.
const OPTIONS: Options = Options {
    durability: Durability::Immediate,
    cache_bytes: 16 << 10,
    log_bytes: 8 << 10,
    queue_bytes: 256 << 20,
    key: None,
};
const BATCHES: u32 = 5;
const KEYS_PER_BATCH: u32 = 12;

/// Batch `n` writes the same number to all its keys, takes the one before it away, and is counted.
fn batch(n: u32) -> Batch {
    let mut batch = Batch::default();
    for key in keys(n) {
        batch.put(key, n.to_be_bytes().repeat(50));
    }
    if let Some(before) = n.checked_sub(2) {
        keys(before).for_each(|key| batch.delete(key));
    }
    batch.put(b"last".to_vec(), n.to_be_bytes().to_vec());
    batch.add(b"count".to_vec(), [1, i64::from(n)]);
    batch
}

fn keys(n: u32) -> impl Iterator<Item = Vec<u8>> {
    (0..KEYS_PER_BATCH).map(move |key| format!("{key:02}/{n:04}").into_bytes())
}

/// The number of the last batch that the store holds, having checked that it holds all of it, all of
/// those before it, and nothing else.
fn last_batch(store: &Store) -> Option<u32> {
    let snapshot = store.snapshot();
    let last = snapshot.get(b"last").unwrap().map(|value| u32::from_be_bytes((*value).try_into().unwrap()));
    let mut expected = Vec::new();
    if let Some(last) = last {
        let sum = (1..=i64::from(last)).sum::<i64>();
        let count = [(i64::from(last) + 1).to_le_bytes(), sum.to_le_bytes()].concat();
        expected.push((b"count".to_vec(), count));
        expected.push((b"last".to_vec(), last.to_be_bytes().to_vec()));
        for n in last.saturating_sub(1)..=last {
            expected.extend(keys(n).map(|key| (key, n.to_be_bytes().repeat(50))));
        }
        expected.sort();
    }
    let found: Vec<_> = snapshot
        .range(Unbounded, Unbounded)
        .unwrap()
        .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap())
        .collect();
    assert_eq!(found, expected);
    last
}

/// Writes batches until one fails; the last one acknowledged.
fn write_until_failure(store: &Store) -> Option<u32> {
    (0..BATCHES).take_while(|n| store.write(batch(*n)).is_ok()).last()
}

#[test]
fn power_loss_at_any_operation_keeps_every_acknowledged_batch_whole() {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), OPTIONS).unwrap();
    let created = disk.changes();
    write_until_failure(&store);
    store.close().unwrap();
    let all = disk.changes();
    assert!(all > created + 5 * BATCHES as u64);

    for passing in 0..all {
        for seed in [0, 1, passing + 2] {
            let disk = FaultyDisk::default();
            disk.fail(Operation::Change, passing, Lasting::Forever);
            let acknowledged = match Store::on_disk(disk.clone(), OPTIONS) {
                Ok(store) => write_until_failure(&store),
                Err(_) => None,
            };
            let after = disk.crash(seed);
            let store = Store::on_disk(after, OPTIONS)
                .unwrap_or_else(|error| panic!("opens after {passing} changes, seed {seed}: {error}"));
            let last = last_batch(&store);
            let next = acknowledged.map_or(0, |n| n + 1);
            assert!(
                last == acknowledged || last == Some(next),
                "{acknowledged:?} {last:?}, {passing} {seed}"
            );
            store.write(batch(last.map_or(0, |n| n + 1))).unwrap();
        }
    }
}

#[test]
fn relaxed_writes_are_lost_from_the_end_and_never_in_part() {
    let options = Options { durability: Durability::Relaxed, ..OPTIONS };
    for passing in 0..30 {
        let disk = FaultyDisk::default();
        let store = Store::on_disk(disk.clone(), options).unwrap();
        disk.fail(Operation::Change, passing, Lasting::Forever);
        let acknowledged = write_until_failure(&store);
        let store = Store::on_disk(disk.crash(passing), options).unwrap();
        assert!(last_batch(&store) <= Some(acknowledged.map_or(0, |n| n + 1)));
    }
}

#[test]
fn a_relaxed_write_is_synced_soon() {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), Options { durability: Durability::Relaxed, ..OPTIONS }).unwrap();
    let created = disk.changes();
    store.write(batch(0)).unwrap();
    let limit = Instant::now() + Duration::from_secs(10);
    while disk.changes() < created + 3 {
        assert!(Instant::now() < limit, "no sync within ten seconds");
        std::thread::yield_now();
    }
    store.close().unwrap();
    assert_eq!(last_batch(&Store::on_disk(disk.crash(0), OPTIONS).unwrap()), Some(0));
}

#[test]
fn after_one_failed_operation_reads_and_writes_go_on() {
    let operations = [
        (Operation::Write, false),
        (Operation::Sync, false),
        (Operation::Sync, true),
        (Operation::SetLen, false),
    ];
    for (operation, drops) in operations {
        for passing in 0..25 {
            let disk = FaultyDisk::default();
            disk.drop_on_failed_sync(drops);
            let store = Store::on_disk(disk.clone(), OPTIONS).unwrap();
            store.write(batch(0)).unwrap();
            disk.fail(operation, passing, Lasting::Once);
            let mut last = 0;
            while last + 1 < BATCHES {
                let generation = store.generation();
                match store.write(batch(last + 1)) {
                    Ok(()) => last += 1,
                    Err(Error::Failed { .. }) => assert_ne!(store.generation(), generation),
                    Err(other) => panic!("{operation:?} {passing}: {other}"),
                }
                assert_eq!(last_batch(&store), Some(last), "{operation:?} {passing}");
            }
            drop(store);
            assert_eq!(last_batch(&Store::on_disk(disk.crash(passing), OPTIONS).unwrap()), Some(last));
        }
    }
}

/// What was answered with an error is not there afterwards, whether the process is killed (the system still writes what it
/// was given) or the power fails.
#[test]
fn a_write_that_was_refused_after_a_failed_sync_never_appears() {
    for (drops, log_bytes) in [(false, 64 << 10), (true, 64 << 10), (false, 0), (true, 0)] {
        for passing in 0..12 {
            for crash in [0, 1, 7] {
                let options = Options { log_bytes, ..OPTIONS };
                let disk = FaultyDisk::default();
                disk.drop_on_failed_sync(drops);
                let store = Store::on_disk(disk.clone(), options).unwrap();
                store.write(batch(0)).unwrap();
                disk.fail(Operation::Sync, passing, Lasting::Once);
                let mut last = 0;
                let refused = loop {
                    match store.write(batch(last + 1)) {
                        Ok(()) => last += 1,
                        Err(error) => break Some(error),
                    }
                    if last == 20 {
                        break None;
                    }
                };
                if let Some(error) = refused {
                    assert!(matches!(error, Error::Failed { .. }), "{error}");
                }
                assert_eq!(last_batch(&store), Some(last));
                let found = last_batch(&Store::on_disk(disk.crash(crash), options).unwrap());
                assert_eq!(found, Some(last), "drops {drops}, log {log_bytes}, {passing}, crash {crash}");
            }
        }
    }
}

#[test]
fn while_the_disk_is_broken_reads_go_on_and_once_it_works_writes_do() {
    for operation in [Operation::Write, Operation::Sync, Operation::Change] {
        for passing in 0..12 {
            let disk = FaultyDisk::default();
            let store = Store::on_disk(disk.clone(), OPTIONS).unwrap();
            (0..3).for_each(|n| store.write(batch(n)).unwrap());
            disk.fail(operation, passing, Lasting::Forever);
            let mut last = 2;
            let error = loop {
                match store.write(batch(last + 1)) {
                    Ok(()) => last += 1,
                    Err(error) => break error,
                }
            };
            let found = last_batch(&store).unwrap();
            match error {
                Error::Failed { .. } => assert_eq!(found, last),
                Error::Unknown { .. } => assert!(found == last || found == last + 1),
                other => panic!("{other}"),
            }
            assert!(matches!(store.write(batch(found + 1)), Err(Error::Failed { .. })));
            assert_eq!(last_batch(&store), Some(found), "{operation:?} {passing}");

            disk.heal();
            store.write(batch(found + 1)).unwrap();
            assert_eq!(last_batch(&store), Some(found + 1));
            drop(store);
            assert_eq!(last_batch(&Store::on_disk(disk.crash(0), OPTIONS).unwrap()), Some(found + 1));
        }
    }
}

#[test]
fn power_loss_while_recovering_keeps_every_acknowledged_batch_whole() {
    for broken_at in [0, 1, 4, 9] {
        for passing in 0..25 {
            let disk = FaultyDisk::default();
            let store = Store::on_disk(disk.clone(), OPTIONS).unwrap();
            store.write(batch(0)).unwrap();
            store.write(batch(1)).unwrap();
            disk.fail(Operation::Change, broken_at, Lasting::Forever);
            let mut acknowledged = 1;
            while store.write(batch(acknowledged + 1)).is_ok() {
                acknowledged += 1;
            }
            let mut last = last_batch(&store).unwrap();
            disk.fail(Operation::Change, passing, Lasting::Forever);
            while last < BATCHES && store.write(batch(last + 1)).is_ok() {
                last += 1;
                acknowledged = last;
            }
            let after = Store::on_disk(disk.crash(passing + 2), OPTIONS).unwrap();
            let found = last_batch(&after).unwrap();
            assert!(found == acknowledged || found == acknowledged + 1, "{broken_at} {passing}");
        }
    }
}

#[test]
fn a_full_disk_refuses_writes_keeps_reads_and_recovers_with_space() {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), OPTIONS).unwrap();
    store.write(batch(0)).unwrap();
    disk.limit(disk.bytes().len() as u64);
    let mut large = Batch::default();
    (0..200_u32).for_each(|n| large.put(n.to_be_bytes().to_vec(), vec![1; 64 << 10]));
    let error = store.write(large).unwrap_err();
    assert!(matches!(&error, Error::Failed { .. }), "{error}");
    assert_eq!(last_batch(&store), Some(0));
    disk.heal();
    store.write(batch(1)).unwrap();
    assert_eq!(last_batch(&store), Some(1));
}

#[test]
fn a_failed_read_is_an_error_and_later_reads_recover() {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), OPTIONS).unwrap();
    (0..4).for_each(|n| store.write(batch(n)).unwrap());
    disk.fail(Operation::Read, 0, Lasting::Forever);
    let limit = Instant::now() + Duration::from_secs(10);
    let read_all = || store.snapshot().range(Unbounded, Unbounded)?.try_for_each(|entry| entry.map(drop));
    assert!(read_all().is_err());
    disk.heal();
    while read_all().is_err() {
        assert!(Instant::now() < limit, "reads did not recover within ten seconds");
        std::thread::yield_now();
    }
    assert_eq!(last_batch(&store), Some(3));
    // A read that failed may have the store opened once more between; a write that saw it before is made again.
    while let Err(error) = store.write(batch(4)) {
        assert!(matches!(error, Error::Lost) && Instant::now() < limit, "{error}");
    }
    assert_eq!(last_batch(&store), Some(4));
}

/// Each attempt to open the tree again writes to the disk and syncs it.
#[test]
fn while_nothing_can_be_read_the_tree_is_not_opened_again_all_the_time() {
    let options = Options { log_bytes: 64 << 10, ..OPTIONS };
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), options).unwrap();
    (0..4).for_each(|n| store.write(batch(n)).unwrap());
    store.close().unwrap();
    let store = Store::on_disk(disk.clone(), options).unwrap();
    let read_all = || store.snapshot().range(Unbounded, Unbounded)?.try_for_each(|entry| entry.map(drop));
    disk.fail(Operation::Read, 0, Lasting::Forever);
    assert!(read_all().is_err());
    // Whoever writes does not wait for the next attempt.
    store.write(batch(4)).unwrap_err();
    let before = disk.changes();
    let limit = Instant::now() + Duration::from_millis(500);
    while Instant::now() < limit {
        assert!(read_all().is_err());
    }
    assert!(disk.changes() < before + 60, "{}", disk.changes() - before);
    disk.heal();
    let limit = Instant::now() + Duration::from_secs(10);
    while read_all().is_err() {
        assert!(Instant::now() < limit, "not readable within ten seconds");
    }
    assert_eq!(last_batch(&store), Some(3));
}

/// Of a store without a log, whose commits go to the tree.
#[test]
fn a_write_whose_outcome_is_unknown_does_not_give_its_position_to_another() {
    let options = Options { log_bytes: 0, ..OPTIONS };
    let mut unknown = 0;
    for passing in 0..12 {
        let disk = FaultyDisk::default();
        let store = Store::on_disk(disk.clone(), options).unwrap();
        store.write(batch(0)).unwrap();
        let position = store.snapshot().position();
        disk.fail(Operation::Change, passing, Lasting::Forever);
        let Err(Error::Unknown { .. }) = store.write(batch(1)) else { continue };
        unknown += 1;
        disk.heal();
        store.write(named(9, 9)).unwrap();
        let next = store.snapshot().position();
        assert_eq!(next.commit, position.commit + 1);
        assert_ne!(next.run, position.run);
    }
    assert!(unknown > 0);
}

#[test]
fn a_snapshot_and_a_range_go_on_when_the_tree_is_opened_again() {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), OPTIONS).unwrap();
    (0..4).for_each(|n| store.write(batch(n)).unwrap());
    // All of it is in the tree then.
    store.close().unwrap();
    let store = Store::on_disk(disk.clone(), OPTIONS).unwrap();
    let entry = |entry: Result<(Value, Value), Error>| {
        entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()
    };
    let all = |snapshot: &Snapshot| -> Vec<_> {
        snapshot.range(Unbounded, Unbounded).unwrap().map(entry).collect()
    };
    let held = store.snapshot();
    let expected = all(&held);
    let mut range = held.range(Unbounded, Unbounded).unwrap();
    let (first, last) = (range.next().map(entry), range.next_back().map(entry));
    // Somebody else's read fails.
    let limit = Instant::now() + Duration::from_secs(10);
    let read_all = || store.snapshot().range(Unbounded, Unbounded)?.try_for_each(|entry| entry.map(drop));
    disk.fail(Operation::Read, 0, Lasting::Once);
    while read_all().is_ok() {
        assert!(Instant::now() < limit, "nothing was read from the disk");
    }
    for (key, value) in &expected {
        assert_eq!(held.get(key).unwrap().as_deref(), Some(value.as_slice()));
    }
    assert_eq!(all(&held), expected);
    let middle: Vec<_> = range.map(entry).collect();
    assert_eq!(first.into_iter().chain(middle).chain(last).collect::<Vec<_>>(), expected);
    assert_eq!(last_batch(&store), Some(3));
}

#[test]
fn a_file_stays_locked_while_the_store_recovers() {
    let dir = tempfile::tempdir().unwrap();
    Store::open(dir.path(), OPTIONS).unwrap().close().unwrap();
    let path = dir.path().join("larder.redb");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let broken = Arc::new(AtomicBool::new(false));
    let disk = BreakableFile { file: FileBackend::new(file).unwrap(), broken: Arc::clone(&broken) };
    let store = Store::on_disk(disk, OPTIONS).unwrap();
    let locked = || matches!(Store::open(dir.path(), OPTIONS), Err(Error::InUse { .. }));

    store.write(batch(0)).unwrap();
    broken.store(true, Ordering::SeqCst);
    store.write(batch(1)).unwrap_err();
    assert!(locked());
    broken.store(false, Ordering::SeqCst);
    let last = last_batch(&store).unwrap();
    store.write(batch(last + 1)).unwrap();
    assert!(locked());
    store.close().unwrap();
    assert_eq!(last_batch(&Store::open(dir.path(), OPTIONS).unwrap()), Some(last + 1));
}

/// A file that refuses syncs while it is broken.
#[derive(Debug)]
struct BreakableFile {
    file: FileBackend,
    broken: Arc<AtomicBool>,
}

impl Disk for BreakableFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        if self.broken.load(Ordering::SeqCst) {
            Err(io::Error::other("broken"))
        } else {
            self.file.sync_data()
        }
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }
    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, redb::BackendError> {
        self.file.try_lock_range(start, end)
    }
    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), redb::BackendError> {
        self.file.unlock_range(start, end)
    }
}

#[test]
fn a_batch_that_rests_on_lost_writes_is_refused() {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), OPTIONS).unwrap();
    let seen = store.generation();
    disk.fail(Operation::Change, 0, Lasting::Forever);
    store.submit(batch(0), seen).unwrap().wait().unwrap_err();
    assert!(matches!(store.submit(batch(1), seen), Err(Error::Lost)));
    assert!(store.latest(b"last").unwrap().is_none());
    disk.heal();
    store.submit(batch(0), store.generation()).unwrap().wait().unwrap();
    assert_eq!(last_batch(&store), Some(0));
}

#[test]
fn a4_a_flipped_bit_on_a_page_is_damage_and_hurts_no_other_page() {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), OPTIONS).unwrap();
    let mut entries = Batch::default();
    entries.put(b"a".to_vec(), b"what opening the store reads is before it ".repeat(200));
    entries.put(b"bad".to_vec(), b"a value that will be damaged ".repeat(200));
    entries.put(b"good".to_vec(), b"a value that will not ".repeat(200));
    store.write(entries).unwrap();
    store.close().unwrap();
    let image = disk.bytes();
    let damaged = b"will be damaged a value that";
    for (offset, _) in image.windows(damaged.len()).enumerate().filter(|(_, window)| window == damaged) {
        disk.flip(offset as u64, 0x10);
    }
    let store = Store::on_disk(disk, OPTIONS).unwrap();
    let snapshot = store.snapshot();
    assert!(matches!(snapshot.get(b"bad"), Err(Error::Damaged { .. })));
    assert!(matches!(store.latest(b"bad"), Err(Error::Damaged { .. })));
    assert_eq!(&*snapshot.get(b"good").unwrap().unwrap(), b"a value that will not ".repeat(200));
    assert!(snapshot.range(Unbounded, Unbounded).unwrap().any(|entry| entry.is_err()));
    assert!(store.activity().unwrap().damaged_pages > 0);

    let one = |key: &[u8]| {
        let mut batch = Batch::default();
        batch.put(key.to_vec(), b"new".to_vec());
        batch
    };
    assert!(matches!(store.write(one(b"bad")), Err(Error::Damaged { .. })));
    store.write(one(b"good")).unwrap();
    assert_eq!(&*store.snapshot().get(b"good").unwrap().unwrap(), b"new");
}

/// Where the mark tells how many records there are, and where those begin.
const MARK_COUNT: usize = (4 << 10) + 8;
const LOG_START: usize = (8 << 10) + (128 << 10);

/// A crash leaves the last batches in the log alone.
#[test]
fn a_flipped_bit_in_the_log_is_an_error_and_never_a_lost_batch() {
    let options = Options { log_bytes: 64 << 10, ..OPTIONS };
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), options).unwrap();
    (0..3).for_each(|n| store.write(batch(n)).unwrap());
    store.write(batch(3)).unwrap();
    // A moment later the mark tells of it.
    let marked = |bytes: &[u8]| u64::from_le_bytes(bytes[MARK_COUNT..MARK_COUNT + 8].try_into().unwrap());
    let limit = Instant::now() + Duration::from_secs(10);
    while marked(&disk.bytes()) < 4 {
        assert!(Instant::now() < limit, "no mark within ten seconds");
        std::thread::yield_now();
    }
    let image = disk.crash(1).bytes();
    assert_eq!(last_batch(&Store::on_disk(FaultyDisk::from(image.clone()), options).unwrap()), Some(3));
    let used: Vec<_> = (LOG_START..LOG_START + (64 << 10)).filter(|at| image[*at] != 0).collect();
    for (n, &offset) in used.iter().enumerate().step_by(37) {
        let disk = FaultyDisk::from(image.clone());
        disk.flip(offset as u64, 1 << (n % 8));
        let error = Store::on_disk(disk, options).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "byte {offset}: {error}");
    }
}

#[test]
fn a_flipped_bit_anywhere_never_panics_and_never_yields_other_bytes() {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), OPTIONS).unwrap();
    (0..3).for_each(|n| store.write(batch(n)).unwrap());
    store.close().unwrap();
    let image = disk.bytes();
    let used: Vec<_> = (0..image.len()).filter(|at| image[*at] != 0).collect();
    for (n, &offset) in used.iter().enumerate().step_by(211) {
        let disk = FaultyDisk::from(image.clone());
        disk.flip(offset as u64, 1 << (n % 8));
        let Ok(store) = Store::on_disk(disk, OPTIONS) else { continue };
        let snapshot = store.snapshot();
        for n in 0..3 {
            for key in keys(n) {
                if let Ok(Some(value)) = snapshot.get(&key) {
                    assert_eq!(&*value, n.to_be_bytes().repeat(50));
                }
            }
        }
        for (key, value) in snapshot.range(Unbounded, Unbounded).into_iter().flatten().flatten() {
            if let Some((_, n)) = std::str::from_utf8(&key).ok().and_then(|key| key.split_once('/')) {
                assert_eq!(&*value, n.parse::<u32>().unwrap().to_be_bytes().repeat(50));
            }
        }
        let _ = store.write(batch(3));
        let _ = store.close();
    }
}

/// A batch whose record in the log is as long as any other's.
fn named(n: u8, life: u8) -> Batch {
    let mut batch = Batch::default();
    batch.put(vec![n], vec![life; 100]);
    batch
}

fn lives(store: &Store) -> Vec<(u8, u8)> {
    let range = store.snapshot().range(Unbounded, Unbounded).unwrap();
    range.map(|entry| entry.map(|(key, value)| (key[0], value[0])).unwrap()).collect()
}

#[test]
fn a_relaxed_write_that_a_power_loss_took_never_comes_back() {
    let options = Options { durability: Durability::Relaxed, log_bytes: 64 << 10, ..OPTIONS };
    for seed in 0..400 {
        let disk = FaultyDisk::default();
        let store = Store::on_disk(disk.clone(), options).unwrap();
        (0..6).for_each(|n| store.write(named(n, 1)).unwrap());
        let disk = disk.crash(seed);
        let store = Store::on_disk(disk.clone(), options).unwrap();
        let mut expected = lives(&store);
        let lost = expected.len() as u8;
        assert_eq!(expected, (0..lost).map(|n| (n, 1)).collect::<Vec<_>>(), "seed {seed}");
        store.write(named(lost, 2)).unwrap();
        expected.push((lost, 2));
        let after = lives(&Store::on_disk(disk.crash(seed / 7), options).unwrap());
        assert!(after == expected || after == expected[..lost as usize], "seed {seed}: {after:?}");
    }
}

#[test]
fn a_close_whose_sync_fails_loses_nothing_that_was_synced_and_says_so() {
    let options = Options { durability: Durability::Relaxed, ..OPTIONS };
    for drops in [false, true] {
        let disk = FaultyDisk::default();
        disk.drop_on_failed_sync(drops);
        let store = Store::on_disk(disk.clone(), options).unwrap();
        let generation = store.generation();
        // The first of an opening is synced, and the next is not yet.
        store.write(named(1, 1)).unwrap();
        store.write(named(2, 2)).unwrap();
        disk.fail(Operation::Sync, 0, Lasting::Once);
        let closed = store.close();
        // If the time for it came before the close, it is told by the generation.
        assert!(closed.is_err() || store.generation() != generation);
        assert_eq!(lives(&Store::on_disk(disk, options).unwrap())[0], (1, 1));
    }
}

#[test]
fn the_log_counts_until_the_tree_is_on_disk_however_often_reads_fail() {
    // Room for hardly a page, so that a read of a few reaches the disk.
    let options = Options { log_bytes: 64 << 10, cache_bytes: 4 << 10, ..OPTIONS };
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), options).unwrap();
    (0..40).for_each(|n| store.write(batch(n)).unwrap());
    let fail_read = || {
        let read = |n| keys(n).try_for_each(|key| store.snapshot().get(&key).map(drop));
        let limit = Instant::now() + Duration::from_secs(1);
        // The store itself may be the one who reads, and what it holds in memory nobody reads.
        disk.fail(Operation::Read, 0, Lasting::Once);
        while (0..40).all(|n| read(n).is_ok()) && Instant::now() < limit {
            disk.fail(Operation::Read, 0, Lasting::Once);
        }
    };
    let wait_until_readable = || {
        let limit = Instant::now() + Duration::from_secs(10);
        let read_all = || store.snapshot().range(Unbounded, Unbounded)?.try_for_each(|entry| entry.map(drop));
        while read_all().is_err() {
            assert!(Instant::now() < limit, "not readable within ten seconds");
            std::thread::yield_now();
        }
    };
    fail_read();
    disk.fail(Operation::Change, 0, Lasting::Forever);
    wait_until_readable();
    // Until somebody tries to write the tree out.
    let tried = disk.changes() + 1;
    let limit = Instant::now() + Duration::from_secs(1);
    while disk.changes() <= tried && Instant::now() < limit {
        std::thread::yield_now();
    }
    fail_read();
    wait_until_readable();
    assert_eq!(last_batch(&store), Some(39));
    disk.heal();
    store.write(batch(40)).unwrap();
    assert_eq!(last_batch(&Store::on_disk(disk.crash(0), options).unwrap()), Some(40));
}

#[test]
fn a_file_cut_short_is_an_error_and_never_an_empty_store() {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), OPTIONS).unwrap();
    (0..BATCHES).for_each(|n| store.write(batch(n)).unwrap());
    store.close().unwrap();
    let whole = disk.bytes();
    for length in (1..whole.len()).step_by(509) {
        let cut = FaultyDisk::from(whole[..length].to_vec());
        if let Ok(store) = Store::on_disk(cut, OPTIONS) {
            // What was cut off may be a page that only some need.
            let read = store
                .snapshot()
                .range(Unbounded, Unbounded)
                .and_then(|mut all| all.try_for_each(|e| e.map(drop)));
            if matches!(read, Err(Error::Damaged { .. })) {
                continue;
            }
            assert_eq!(last_batch(&store), Some(BATCHES - 1), "{length} of {} bytes", whole.len());
        }
    }
}

/// A disk that is written to, once, in the middle of being read.
#[derive(Debug)]
struct BusyDisk {
    disk: FaultyDisk,
    writer: Arc<Mutex<Option<Store>>>,
    tickets: Arc<Mutex<Vec<Ticket>>>,
}

impl Disk for BusyDisk {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)?;
        if let Some(store) = self.writer.lock().take() {
            self.tickets.lock().push(store.submit(named(9, 9), store.generation()).unwrap());
        }
        Ok(())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.disk.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.write(offset, data)
    }
}

#[test]
fn a_batch_that_comes_while_the_tree_is_reopened_is_committed_and_nothing_else_changes() {
    let (disk, writer, tickets) = (FaultyDisk::default(), Arc::default(), Arc::default());
    let busy = BusyDisk { disk: disk.clone(), writer: Arc::clone(&writer), tickets: Arc::clone(&tickets) };
    let store = Store::on_disk(busy, OPTIONS).unwrap();
    (0..4).for_each(|n| store.write(batch(n)).unwrap());
    let generation = store.generation();
    let read_all = || store.snapshot().range(Unbounded, Unbounded)?.try_for_each(|entry| entry.map(drop));
    let limit = Instant::now() + Duration::from_secs(10);
    disk.fail(Operation::Read, 0, Lasting::Once);
    // The tree's thread may be the one who reads.
    while read_all().is_ok() && Instant::now() < limit {
        disk.fail(Operation::Read, 0, Lasting::Once);
    }
    *writer.lock() = Some(store.clone());
    while tickets.lock().is_empty() {
        assert!(Instant::now() < limit, "not reopened within ten seconds");
        drop(store.snapshot());
        std::thread::yield_now();
    }
    let ticket = tickets.lock().pop().unwrap();
    ticket.wait().unwrap();
    while read_all().is_err() {
        assert!(Instant::now() < limit, "reads did not recover within ten seconds");
    }
    assert_eq!(store.generation(), generation);
    assert_eq!(*store.snapshot().get(&[9]).unwrap().unwrap(), [9; 100]);
    let mut gone = Batch::default();
    gone.delete(vec![9]);
    store.write(gone).unwrap();
    assert_eq!(last_batch(&store), Some(3));
    store.write(batch(4)).unwrap();
    assert_eq!(last_batch(&store), Some(4));
}

/// What a record of the log looks like, for who can put anything into a value.
fn forged(epoch: u64) -> Vec<u8> {
    let (key, value) = (b"forged", b"value");
    let lengths = [key.len() as u32, value.len() as u32].map(u32::to_le_bytes).concat();
    let payload = [&[0; 24], &lengths[..], key, value].concat();
    // The hash in front of it would have to be guessed, with its key.
    let header = [u64::MAX / 3, payload.len() as u64, epoch, 1, 0].map(u64::to_le_bytes).concat();
    let mut sector = [header, payload].concat();
    sector.resize(512, 0);
    sector
}

#[test]
fn a_value_that_looks_like_a_record_of_the_log_is_never_replayed() {
    for epoch in 1..6 {
        let disk = FaultyDisk::default();
        let store = Store::on_disk(disk.clone(), OPTIONS).unwrap();
        store.write(named(0, 1)).unwrap();
        let mut trap = Batch::default();
        // Its value begins 73 bytes into the log.
        trap.put(vec![1], [&[0; 512 - 73][..], &forged(epoch).repeat(4)].concat());
        store.write(trap).unwrap();
        let mut large = Batch::default();
        large.put(vec![2], vec![2; OPTIONS.log_bytes as usize]);
        store.write(large).unwrap();
        store.write(named(3, 3)).unwrap();
        let store = Store::on_disk(disk.crash(0), OPTIONS).unwrap();
        let range = store.snapshot().range(Unbounded, Unbounded).unwrap();
        let found: Vec<_> = range.map(|entry| entry.map(|(key, _)| key.to_vec()).unwrap()).collect();
        assert_eq!(found, [[0], [1], [2], [3]], "epoch {epoch}");
    }
}

#[test]
fn the_number_of_an_entry_that_was_lost_is_not_given_to_another() {
    let disk = FaultyDisk::default();
    let open = |disk: &FaultyDisk| {
        let options = Options { durability: Durability::Relaxed, log_bytes: 64 << 10, ..Options::default() };
        Store::on_disk(disk.clone(), options).unwrap()
    };
    let append = |store: &Store| {
        let mut batch = Batch::default();
        batch.append(b"log/".to_vec(), b"entry".to_vec());
        store.write(batch).unwrap();
        store.snapshot().next_number().unwrap()
    };
    let store = open(&disk);
    append(&store);
    store.close().unwrap();
    let store = open(&disk);
    let seen = append(&store);
    assert_eq!(seen, 3);
    // Nothing that was not synced survives.
    let disk = disk.crash(0);
    drop(store);
    let store = open(&disk);
    let next = append(&store);
    assert!(next > seen, "{next} is not after {seen}");
    store.close().unwrap();
    assert_eq!(append(&open(&disk)), next + 1);
}
