//! Positions rise by one with every commit and outlast the store; a feed has every group in order.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use larder_storage::faulty::{FaultyDisk, Lasting, Operation};
use larder_storage::{Batch, Committed, Durability, Feed, Options, Position, Store, Taken};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CLOCK_START: u64 = 1_000;

fn put(key: &str, value: &str) -> Batch {
    let mut batch = Batch::default();
    batch.put(key.as_bytes().to_vec(), value.as_bytes().to_vec());
    batch
}

fn open(disk: &FaultyDisk) -> Store {
    Store::on_disk(disk.clone(), Options::default()).unwrap()
}

fn commit(store: &Store) -> u64 {
    store.snapshot().position().commit
}

/// All groups of a store that is closed.
fn all(feed: &Feed) -> Vec<Committed> {
    let mut found = Vec::new();
    loop {
        match feed.take(Instant::now() + Duration::from_secs(60), Duration::ZERO) {
            Taken::Groups(groups) => found.extend(groups),
            Taken::Closed => return found,
            Taken::Nothing => panic!("the store was closed"),
        }
    }
}

#[test]
fn the_number_rises_by_one_with_each_commit_and_goes_on_after_a_crash_and_after_closing() {
    for crash in [true, false] {
        let disk = FaultyDisk::default();
        let store = open(&disk);
        assert_eq!(commit(&store), 0);
        for n in 1..=20 {
            store.write(put("a", &n.to_string())).unwrap();
            assert_eq!(commit(&store), n);
        }
        let before = store.snapshot().position();
        let disk = if crash {
            disk.crash(7)
        } else {
            store.close().unwrap();
            disk
        };
        let store = open(&disk);
        assert!(store.snapshot().position().is(&before), "crash: {crash}");
        store.write(put("b", "1")).unwrap();
        let after = store.snapshot().position();
        assert_eq!(after.commit, 21);
        assert_ne!(after.run, before.run);
    }
}

#[test]
fn a_checkpoint_has_the_number_of_what_it_writes_out() {
    let disk = FaultyDisk::default();
    let options = Options { log_bytes: 64 << 10, ..Options::default() };
    let store = Store::on_disk(disk.clone(), options).unwrap();
    // More than the log holds, several times.
    for n in 1..=200 {
        store.write(put(&format!("key {n}"), &"x".repeat(2_000))).unwrap();
        if n % 7 == 0 {
            assert_eq!(commit(&store), n);
        }
    }
    assert!(store.activity().unwrap().checkpoints > 1);
    assert_eq!(commit(&open(&disk.crash(3))), 200);
}

#[test]
fn a_commit_that_failed_takes_no_number() {
    let disk = FaultyDisk::default();
    let store = open(&disk);
    store.write(put("a", "1")).unwrap();
    disk.fail(Operation::Sync, 0, Lasting::Once);
    store.write(put("a", "2")).unwrap_err();
    store.write(put("a", "3")).unwrap();
    assert_eq!(commit(&store), 2);
}

#[test]
fn a_feed_has_every_group_with_its_number_and_the_time_that_the_clock_told() {
    let disk = FaultyDisk::default();
    let store = open(&disk);
    store.write(put("before", "1")).unwrap();
    let clock = Arc::new(AtomicU64::new(CLOCK_START));
    let told = Arc::clone(&clock);
    let feed = store.feed(move || told.load(Ordering::Relaxed)).unwrap();
    assert!(store.feed(|| 0).is_none(), "there is one feed");
    store.write(put("a", "1")).unwrap();
    clock.store(CLOCK_START - 500, Ordering::Relaxed);
    let mut batch = put("a", "2");
    batch.delete(b"before".to_vec());
    batch.add(b"n".to_vec(), [1, 2]);
    store.write(batch).unwrap();
    clock.store(CLOCK_START + 500, Ordering::Relaxed);
    // A failed one is not in it.
    disk.fail(Operation::Sync, 0, Lasting::Once);
    store.write(put("lost", "1")).unwrap_err();
    store.write(put("b", "1")).unwrap();
    store.close().unwrap();

    let groups = all(&feed);
    let told: Vec<(u64, u64)> = groups
        .iter()
        .map(Committed::position)
        .map(|Position { commit, time_ms, .. }| (commit, time_ms))
        .collect();
    assert_eq!(told, [(2, CLOCK_START), (3, CLOCK_START - 500), (4, CLOCK_START + 500)]);
    let changes: Vec<_> = groups[1].changes().collect();
    let counters = [1_i64.to_le_bytes(), 2_i64.to_le_bytes()].concat();
    assert_eq!(changes, [(&b"a"[..], Some(&b"2"[..])), (b"before", None), (b"n", Some(&counters))]);
}

#[test]
fn the_time_of_a_commit_is_kept_until_a_clock_tells_another() {
    let disk = FaultyDisk::default();
    let store = open(&disk);
    let _feed = store.feed(|| CLOCK_START).unwrap();
    store.write(put("a", "1")).unwrap();
    let store = open(&disk.crash(1));
    store.write(put("a", "2")).unwrap();
    assert_eq!(store.snapshot().position().time_ms, CLOCK_START);
    let _feed = store.feed(|| CLOCK_START / 2).unwrap();
    store.write(put("a", "3")).unwrap();
    assert_eq!(store.snapshot().position().time_ms, CLOCK_START / 2);
}

#[test]
fn nobody_waits_for_a_feed_that_nobody_takes_from() {
    let options = Options { durability: Durability::Relaxed, ..Options::default() };
    let store = Store::memory(options).unwrap();
    let feed = store.feed(|| CLOCK_START).unwrap();
    let value = "x".repeat(1 << 20);
    for n in 0..100 {
        store.write(put(&n.to_string(), &value)).unwrap();
    }
    store.close().unwrap();
    let commits: Vec<u64> = all(&feed).iter().map(|group| group.position().commit).collect();
    assert!(commits.len() < 100, "memory is bounded");
    assert!(commits.iter().zip(1..).all(|(found, expected)| *found == expected), "no gap before the end");
}
