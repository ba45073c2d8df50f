//! On a full disk nothing can be added, everything can be read, and whatever makes room is taken.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use larder_storage::faulty::FaultyPlace;
use larder_storage::{Batch, Error, Options, Pace, Store};
use std::ops::Bound::Unbounded;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
const VALUE_BYTES: usize = 12_000;

fn place(bytes: u64) -> FaultyPlace {
    let pace =
        Pace { reserve_after: Duration::ZERO, look_pause: Duration::from_millis(10), ..Pace::default() };
    let place = FaultyPlace::new(pace);
    place.limit(bytes);
    place
}

fn open(place: &FaultyPlace) -> Store {
    place.open(Options { log_bytes: 4 * MIB, cache_bytes: 8 << 20, ..Options::default() }).unwrap()
}

fn key(n: u64) -> Vec<u8> {
    // Neighbours in time are no neighbours in the tree.
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec()
}

fn put(n: u64) -> Batch {
    let mut batch = Batch::default();
    batch.put(key(n), vec![n as u8; VALUE_BYTES]);
    batch.add(b"count".to_vec(), [1, 0]);
    batch
}

fn delete(n: u64) -> Batch {
    let mut batch = Batch::default();
    batch.delete(key(n));
    batch.add(b"count".to_vec(), [-1, 0]);
    batch
}

/// Writes until the store says that the disk is full. The number of those that are there.
fn fill(store: &Store, from: u64) -> u64 {
    let mut n = from;
    loop {
        match store.write(put(n)) {
            Ok(()) => n += 1,
            Err(Error::Full) => return n,
            // The one that met the end of the disk.
            Err(Error::Failed { cause }) => assert!(matches!(*cause, Error::Io { .. }), "{cause}"),
            Err(other) => panic!("{other}"),
        }
    }
}

/// Checks that exactly these are there.
fn check(store: &Store, there: std::ops::Range<u64>) {
    let found = loop {
        let found = store.snapshot().range(Unbounded, Unbounded).unwrap();
        match found.map(|entry| entry.map(drop)).try_fold(0, |count, entry| entry.map(|()| count + 1)) {
            Ok(count) => break count,
            // The disk was found full meanwhile: read again.
            Err(Error::Expired) => {}
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(found, there.end - there.start + 1);
    for n in there {
        let value = store.latest(&key(n)).unwrap().unwrap();
        assert!(*value == vec![n as u8; VALUE_BYTES], "{n} is {} bytes of {}", value.len(), value[0]);
    }
}

#[test]
fn on_a_full_disk_deletes_work_until_writes_do_again_and_that_over_and_over() {
    let place = place(48 * MIB);
    let store = open(&place);
    let (mut from, mut to) = (0, 0);
    for round in 0..3 {
        to = fill(&store, to);
        assert!(to - from > 500, "{round}: {from}..{to}");
        check(&store, from..to);
        // One that shrinks what is there, which then goes too: room may be found at once, where much was deleted before.
        let mut shrinks = Batch::default();
        shrinks.put(key(from), vec![1; 10]);
        store.write(shrinks).unwrap();
        store.write(delete(from)).unwrap();
        from += 1;
        let limit = Instant::now() + Duration::from_secs(60);
        while store.activity().unwrap().full {
            assert!(Instant::now() < limit && from < to, "still full: {round}, {from}..{to}");
            store.write(delete(from)).unwrap_or_else(|error| panic!("{round}, {from}..{to}: {error}"));
            from += 1;
        }
        check(&store, from..to);
    }
    store.close().unwrap();
    check(&open(&place), from..to);
}

#[test]
fn room_that_the_disk_gets_is_found_and_a_crash_in_between_loses_nothing() {
    let place = place(40 * MIB);
    let store = open(&place);
    let to = fill(&store, 0);
    for n in 0..100 {
        store.write(delete(n)).unwrap();
    }
    let after = place.crash(7);
    after.limit(40 * MIB);
    drop(store);
    let store = open(&after);
    check(&store, 100..to);
    let to = fill(&store, to);
    store.write(delete(100)).unwrap();
    assert!(matches!(store.write(put(to)), Err(Error::Full)));
    after.limit(400 * MIB);
    let limit = Instant::now() + Duration::from_secs(60);
    while store.activity().unwrap().full {
        assert!(Instant::now() < limit, "the room is not found");
        std::thread::yield_now();
    }
    store.write(put(to)).unwrap();
    check(&store, 101..to + 1);
}
