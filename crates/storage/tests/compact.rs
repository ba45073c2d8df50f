//! A file that is mostly gaps becomes small while it is in use, and nothing is lost on the way.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use larder_storage::faulty::FaultyPlace;
use larder_storage::{Batch, Error, Key, Options, Pace, Place, Snapshot, Store};
use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
const OPTIONS: Options = Options {
    durability: larder_storage::Durability::Immediate,
    cache_bytes: 4 << 20,
    log_bytes: 64 << 10,
    key: None,
    queue_bytes: 64 << 20,
};

fn place(copy_over_bytes: u64) -> FaultyPlace {
    FaultyPlace::new(Pace {
        reserve_after: Duration::from_hours(1),
        look_pause: Duration::from_millis(5),
        copy_over_bytes,
        copy_pause: Duration::from_millis(5),
    })
}

fn key(n: u64) -> Vec<u8> {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec()
}

fn put(n: u64, value: &[u8]) -> Batch {
    let mut batch = Batch::default();
    batch.put(key(n), value.to_vec());
    batch
}

fn delete(keys: std::ops::Range<u64>) -> Batch {
    let mut batch = Batch::default();
    keys.for_each(|n| batch.delete(key(n)));
    batch
}

fn all(snapshot: &Snapshot) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let entries = snapshot.range(Unbounded, Unbounded).unwrap();
    entries.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

fn wait(what: &str, mut until: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !until() {
        assert!(Instant::now() < limit, "{what} within a minute");
        std::thread::yield_now();
    }
}

#[test]
fn the_file_shrinks_while_others_read_and_write_and_a_snapshot_is_held() {
    let place = place(4 * MIB);
    let store = place.open(OPTIONS).unwrap();
    let value = [7; 4000];
    for n in 0..3000 {
        store.write(put(n, &value)).unwrap();
    }
    let held = store.snapshot();
    let (generation, commit) = (store.generation(), held.position().commit);
    let full = place.used().unwrap();
    assert!(full > 12 * MIB);
    let done = AtomicBool::new(false);
    let mut commits = 0;
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for n in 2900..3000 {
                    assert_eq!(*store.snapshot().get(&key(n)).unwrap().unwrap(), value);
                    assert_eq!(*store.latest(&key(n)).unwrap().unwrap(), value);
                }
            }
        });
        for from in (0..2900).step_by(100) {
            store.write(delete(from..from + 100)).unwrap();
            commits += 1;
        }
        // What is written while it is copied, before and behind where the copy is.
        let mut n = 0;
        wait("the file is small", || {
            store.write(put(10_000 + n, &n.to_be_bytes())).unwrap();
            store.write(put(10_000 + n % 7, b"again")).unwrap();
            commits += 2;
            n += 1;
            place.used().unwrap() < full / 4
        });
        done.store(true, Ordering::Relaxed);
        reading.join().unwrap();
        store.write(delete(10_003..10_004)).unwrap();
        commits += 1;
        let mut expected: BTreeMap<_, _> = (2900..3000).map(|n| (key(n), value.to_vec())).collect();
        expected.extend((7.min(n)..n).map(|n| (key(10_000 + n), n.to_be_bytes().to_vec())));
        expected.extend((0..7.min(n)).map(|n| (key(10_000 + n), b"again".to_vec())));
        expected.remove(&key(10_003));
        assert_eq!(all(&store.snapshot()), expected);
        assert_eq!(store.generation(), generation);
        assert_eq!(store.snapshot().position().commit, commit + commits);
        // The file from before is there as long as it is read.
        assert_eq!(all(&held).len(), 3000);
        assert!(place.used_bytes() > full);
        drop(held);
        wait("the old file is gone", || place.used_bytes() < full / 3);
        let live: usize = expected.iter().map(|(key, value)| key.len() + value.len() + 4).sum();
        // The tree knows what it holds once it has absorbed it.
        wait("all is counted", || store.activity().unwrap().live_bytes as usize == live);
        store.close().unwrap();
        let store = place.open(OPTIONS).unwrap();
        assert_eq!(all(&store.snapshot()), expected);
        assert_eq!(store.activity().unwrap().live_bytes as usize, live);
        assert_eq!(store.snapshot().position().commit, commit + commits);
    });
}

/// A store with gaps, about to be copied. Returns what is in it.
fn with_gaps(place: &FaultyPlace) -> (Store, BTreeMap<Vec<u8>, Vec<u8>>) {
    let store = place.open(OPTIONS).unwrap();
    for from in (0..400).step_by(20) {
        let mut batch = Batch::default();
        (from..from + 20).for_each(|n| batch.put(key(n), vec![n as u8; 4000]));
        store.write(batch).unwrap();
    }
    let expected = (380..400).map(|n| (key(n), vec![n as u8; 4000])).collect();
    (store, expected)
}

#[test]
fn power_loss_at_any_operation_of_the_copy_keeps_every_acknowledged_write() {
    let mut switched = 0;
    let mut passing = 0;
    loop {
        let place = place(MIB);
        let (store, mut expected) = with_gaps(&place);
        place.power_for(passing);
        let mut small = false;
        // The one that is not answered with success may be there or not.
        let mut unknown = 0..380;
        if store.write(delete(0..380)).is_ok() {
            unknown = 0..0;
            // A little more, also with the copy.
            let mut left = 3;
            for n in 0.. {
                let written = n % 500;
                if store.write(put(written, &n.to_be_bytes())).is_err() {
                    unknown = written..written + 1;
                    break;
                }
                expected.insert(key(written), n.to_be_bytes().to_vec());
                small = place.used().unwrap() < MIB;
                left -= u64::from(small);
                if left == 0 {
                    break;
                }
            }
        }
        switched += u64::from(small);
        let after = place.crash(passing + 3);
        drop(store);
        let store = after.open(OPTIONS).unwrap_or_else(|error| panic!("after {passing} changes: {error}"));
        let mut found = all(&store.snapshot());
        for n in unknown {
            expected.remove(&key(n));
            found.remove(&key(n));
        }
        assert!(found == expected, "{passing} changes: {} and {}", found.len(), expected.len());
        store.write(put(1, b"1")).unwrap();
        if switched > 30 {
            break;
        }
        // Each operation around the end of the copy, some before it.
        passing += if switched == 0 { 13 } else { 1 };
    }
}

#[test]
fn a_copy_that_ends_while_a_group_goes_straight_to_the_tree_loses_nothing() {
    for round in 0..6 {
        let place = place(MIB);
        let (store, mut expected) = with_gaps(&place);
        store.write(delete(0..380)).unwrap();
        let begun = place.changes();
        for n in 0..100_u64 {
            // More than the log holds.
            let value = vec![n as u8; 70_000];
            store.write(put(n % 2, &value)).unwrap();
            expected.insert(key(n % 2), value);
        }
        assert!(place.changes() > begun);
        let after = if round % 2 == 0 {
            // To the log alone.
            store.write(put(2, b"last")).unwrap();
            expected.insert(key(2), b"last".to_vec());
            let after = place.crash(round);
            drop(store);
            after
        } else {
            // Also a close may meet the end of a copy.
            store.close().unwrap();
            place
        };
        let store = after.open(OPTIONS).unwrap();
        assert_eq!(all(&store.snapshot()), expected);
        wait("the file is small", || after.used().unwrap() < MIB);
        assert_eq!(all(&store.snapshot()), expected);
        drop(store);
        assert_eq!(all(&after.open(OPTIONS).unwrap().snapshot()), expected);
    }
}

#[test]
fn nothing_is_answered_while_a_power_loss_may_bring_the_old_file_back() {
    for round in 0..4 {
        let place = place(MIB);
        let (store, _) = with_gaps(&place);
        store.write(delete(0..380)).unwrap();
        place.fail_sync(true);
        // So many of them wait for the tree that the copy ends meanwhile.
        let written: Vec<_> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4_u64)
                .map(|writer| {
                    let store = &store;
                    scope.spawn(move || {
                        let write = |n: &u64| {
                            store.write(put(1000 + writer, &[&n.to_be_bytes()[..], &[7; 30_000]].concat()))
                        };
                        (0..).take_while(|n| write(n).is_ok()).last()
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let after = place.crash(2 * round + 2);
        drop(store);
        let store = after.open(OPTIONS).unwrap();
        for (writer, last) in (0..).zip(written) {
            let found = store.snapshot().get(&key(1000 + writer)).unwrap();
            let found = found.map(|found| u64::from_be_bytes(*found.first_chunk().unwrap()));
            assert!(found >= last, "{last:?} was answered, and {found:?} is there");
        }
    }
}

/// The log of the first file is larger than all of the second.
#[test]
fn a_copy_whose_log_is_smaller_is_copied_again_when_it_has_gaps() {
    let place = place(MIB);
    place.open(Options { log_bytes: 8 * MIB, ..OPTIONS }).unwrap().close().unwrap();
    let store = place.open(OPTIONS).unwrap();
    for entries in [4000, 1000] {
        for from in (0..entries).step_by(20) {
            let mut batch = Batch::default();
            (from..from + 20).for_each(|n| batch.put(key(n), vec![n as u8; 4000]));
            store.write(batch).unwrap();
        }
        store.write(delete(0..entries - 20)).unwrap();
        wait("the file is small", || place.used().unwrap() < MIB);
        assert_eq!(all(&store.snapshot()).len(), 20);
        store.write(delete(entries - 20..entries)).unwrap();
    }
}

/// Without a copy.
#[test]
fn what_is_free_at_the_end_of_the_file_is_given_back_at_checkpoints() {
    let place = place(1 << 40);
    let (store, _) = with_gaps(&place);
    let before = store.activity().unwrap().bytes;
    store.write(delete(0..400)).unwrap();
    let mut n = 0;
    wait("the file is shorter", || {
        n += 1;
        store.write(put(0, &vec![n as u8; 40_000])).unwrap();
        store.activity().unwrap().bytes < before * 3 / 4
    });
    assert_eq!(all(&store.snapshot()).len(), 1);
}

#[test]
fn a_disk_that_fills_while_it_is_copied_costs_the_copy_alone() {
    // Those that ask how much is left do not begin; the others fail on the way.
    for tells in [true, false] {
        let place = place(MIB);
        let (store, expected) = with_gaps(&place);
        store.write(delete(0..300)).unwrap();
        place.tell_room(tells);
        // Less than what is left takes.
        place.limit(place.used_bytes() + 60_000);
        wait("the rest is deleted", || store.write(delete(300..380)).is_ok());
        let tried = place.changes();
        let limit = Instant::now() + Duration::from_millis(500);
        while Instant::now() < limit {
            assert_eq!(all(&store.snapshot()), expected);
        }
        assert!(tells || place.changes() > tried + 20, "nothing was tried");
        assert!(place.used().unwrap() > MIB);
        place.limit(100 * MIB);
        wait("the file is small", || place.used().unwrap() < MIB);
        wait("there is room", || !store.activity().unwrap().full);
        store.write(put(380, &[380_u64 as u8; 4000])).unwrap();
        assert_eq!(all(&store.snapshot()), expected);
    }
}

/// What the file takes of the disk.
fn used(dir: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&dir.join("larder.redb").metadata().unwrap()) * 512
}

#[test]
fn a_directory_gives_space_back_plain_and_sealed_and_stays_locked() {
    for key in [None, Key::from_hex(&"11".repeat(32))] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { key, log_bytes: MIB, ..OPTIONS };
        let store = Store::open(dir.path(), options).unwrap();
        for n in 0..90 {
            store.write(put(n, &vec![n as u8; 1_000_000])).unwrap();
        }
        assert!(used(dir.path()) > 80 * MIB);
        store.write(delete(2..90)).unwrap();
        wait("the file is small", || used(dir.path()) < 20 * MIB);
        assert!(matches!(Store::open(dir.path(), options), Err(Error::InUse { .. })));
        store.write(put(2, b"2")).unwrap();
        drop(store);
        assert!(!dir.path().join("larder.redb.compact").exists());
        // One that a crash left is removed.
        std::fs::write(dir.path().join("larder.redb.compact"), b"part of a copy").unwrap();
        let store = Store::open(dir.path(), options).unwrap();
        assert!(!dir.path().join("larder.redb.compact").exists());
        assert_eq!(all(&store.snapshot()).len(), 3);
        assert_eq!(*store.snapshot().get(&self::key(1)).unwrap().unwrap(), vec![1; 1_000_000]);
    }
}
