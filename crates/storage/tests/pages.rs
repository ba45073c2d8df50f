//! Pages are checked when they are read: what is damaged fails, and nothing else is lost with it, or put back.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use larder_storage::faulty::{FaultyDisk, FaultyPlace, Lasting, Operation};
use larder_storage::{Batch, Durability, Error, Options, Pace, Store};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const LOG_BYTES: usize = 64 << 10;
const ROOTS: [usize; 2] = [2 * PAGE, HEAD + LOG_BYTES + 2 * PAGE];
const ROOTS_BYTES: usize = 128 << 10;
const HEAD: usize = 2 * PAGE + ROOTS_BYTES;
const TREE: usize = 2 * HEAD + LOG_BYTES;

const ENTRIES: u32 = 400;

fn options() -> Options {
    Options {
        durability: Durability::Immediate,
        cache_bytes: 256 << 10,
        log_bytes: LOG_BYTES as u64,
        ..Options::default()
    }
}

fn key(n: u32) -> Vec<u8> {
    format!("key {n:06}").into_bytes()
}

fn put(store: &Store, n: u32, version: u32) {
    let mut batch = Batch::default();
    batch.put(key(n), value(n, version));
    store.write(batch).unwrap();
}

fn value(n: u32, version: u32) -> Vec<u8> {
    format!("{n} {version} ").repeat(20).into_bytes()
}

#[test]
fn a_delete_beside_a_damaged_page_drops_nothing_that_was_on_it() {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), options()).unwrap();
    let mut batch = Batch::default();
    (0..ENTRIES).for_each(|n| batch.put(key(n), value(n, 0)));
    store.write(batch).unwrap();
    store.close().unwrap();
    let image = disk.bytes();
    let leaves: Vec<usize> = (TREE..image.len()).step_by(PAGE).filter(|at| image[*at] == 1).collect();
    let mut hit = 0;
    for leaf in leaves {
        let disk = FaultyDisk::from(image.clone());
        disk.flip(leaf as u64 + 2000, 1);
        let Ok(store) = Store::on_disk(disk, options()) else { continue };
        let lost: Vec<u32> = (0..ENTRIES).filter(|n| store.snapshot().get(&key(*n)).is_err()).collect();
        let (Some(first), Some(last)) = (lost.first(), lost.last()) else { continue };
        hit += 1;
        // Thins out what is on both sides, so that pages there are joined with their neighbours.
        for n in (first.saturating_sub(60)..last + 60).filter(|n| *n < ENTRIES && !lost.contains(n)) {
            let mut batch = Batch::default();
            batch.delete(key(n));
            let _ = store.write(batch);
        }
        for n in &lost {
            assert!(store.snapshot().get(&key(*n)).is_err(), "{n} is said to be absent");
        }
    }
    assert!(hit > 5, "{hit} leaves were in use");
}

/// Stores with one damaged leaf, and the keys that were on it. Their log goes on at a third of its length.
fn damaged_leaves() -> Vec<(Vec<u8>, Vec<u32>)> {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), options()).unwrap();
    let mut batch = Batch::default();
    (0..ENTRIES).for_each(|n| batch.put(key(n), value(n, 0)));
    store.write(batch).unwrap();
    store.write(sized(LOG_BYTES / 3)).unwrap();
    store.close().unwrap();
    let image = disk.bytes();
    let leaves = (TREE..image.len()).step_by(PAGE).filter(|at| image[*at] == 1);
    let damaged = leaves.filter_map(|leaf| {
        let mut image = image.clone();
        image[leaf + 2000] ^= 1;
        let probe = Store::on_disk(FaultyDisk::from(image.clone()), options()).ok()?;
        let lost: Vec<_> = (0..ENTRIES).filter(|n| probe.snapshot().get(&key(*n)).is_err()).collect();
        // What tests write besides is behind all of these, on other pages and not beside this one.
        (lost.len() > 1 && lost.iter().all(|n| n + 60 < ENTRIES)).then_some((image, lost))
    });
    let damaged: Vec<_> = damaged.step_by(2).collect();
    assert!(damaged.len() > 3, "{} leaves were in use", damaged.len());
    damaged
}

/// One key with a value of so many bytes.
fn sized(bytes: usize) -> Batch {
    let mut batch = Batch::default();
    batch.put(b"sized".to_vec(), vec![7; bytes]);
    batch
}

/// What was written before the damage to its page was known is in the log and in memory, and stays there.
#[test]
fn a_write_to_a_page_that_is_damaged_stays_readable_and_holds_up_no_other() {
    for (image, lost) in damaged_leaves() {
        let written = lost[1];
        let disk = FaultyDisk::from(image);
        let store = Store::on_disk(disk.clone(), options()).unwrap();
        put(&store, written, 1);
        // Several times what the log holds.
        (0..600).for_each(|n| put(&store, ENTRIES + n % 50, n));
        let check = |store: &Store| {
            let found = |n: u32| store.snapshot().get(&key(n)).map(|found| found.map(|found| found.to_vec()));
            assert_eq!(found(written).unwrap(), Some(value(written, 1)));
            (0..50).for_each(|n| assert_eq!(found(ENTRIES + n).unwrap(), Some(value(ENTRIES + n, 550 + n))));
            assert!(lost.iter().filter(|n| **n != written).all(|n| found(*n).is_err()), "{lost:?}");
        };
        check(&store);
        check(&Store::on_disk(FaultyDisk::from(disk.bytes()), options()).unwrap());
        let _ = store.close();
        check(&Store::on_disk(disk, options()).unwrap());
    }
}

/// The log has no room for a group beside an entry whose page is damaged, and will not have any.
#[test]
fn a_group_that_has_no_room_beside_what_the_tree_cannot_take_is_answered_and_so_is_a_close() {
    for (image, lost) in damaged_leaves() {
        let store = Store::on_disk(FaultyDisk::from(image), options()).unwrap();
        put(&store, lost[1], 1);
        for _ in 0..2 {
            let answered = within_a_minute(&store, |store| store.write(sized(2 * LOG_BYTES)));
            assert!(matches!(answered, Err(Error::Failed { .. })), "{answered:?}");
        }
        // Others are written.
        put(&store, ENTRIES, 1);
        let _ = within_a_minute(&store, Store::close);
    }
}

/// The same in a thread of its own, because one that waits for ever cannot be ended.
fn within_a_minute<T: Send + 'static>(store: &Store, act: impl FnOnce(&Store) -> T + Send + 'static) -> T {
    let (answer, answered) = std::sync::mpsc::channel();
    let store = store.clone();
    std::thread::spawn(move || {
        let result = act(&store);
        // Closing waits for the last of them.
        drop(store);
        answer.send(result)
    });
    answered.recv_timeout(Duration::from_mins(1)).unwrap()
}

/// The tree meets the damage while somebody waits for it to make room: without a key there, which can be had at once.
#[test]
fn a_group_that_waits_for_room_does_not_fail_for_the_damaged_page_of_another() {
    for (image, lost) in damaged_leaves() {
        let store = Store::on_disk(FaultyDisk::from(image), options()).unwrap();
        let mut batch = sized(LOG_BYTES / 3);
        batch.put(key(lost[1]), value(lost[1], 1));
        store.write(batch).unwrap();
        let generation = store.generation();
        // Neither behind it nor before it.
        store.write(sized(LOG_BYTES / 3)).unwrap();
        assert_eq!(store.generation(), generation);
        assert_eq!(*store.snapshot().get(&key(lost[1])).unwrap().unwrap(), value(lost[1], 1));
    }
}

#[test]
fn a_store_that_nobody_uses_writes_nothing_though_a_page_is_damaged() {
    let pace = Pace {
        reserve_after: Duration::from_hours(1),
        look_pause: Duration::from_millis(5),
        copy_over_bytes: 1 << 40,
        copy_pause: Duration::from_hours(1),
    };
    for (image, lost) in damaged_leaves() {
        let disk = FaultyDisk::from(image);
        let store = Store::on_place(disk.clone(), FaultyPlace::new(pace), options()).unwrap();
        put(&store, lost[1], 1);
        let limit = Instant::now() + Duration::from_mins(1);
        let written = store.snapshot().position().commit;
        let wait = |what: &str, until: &mut dyn FnMut() -> bool| {
            while !until() {
                assert!(Instant::now() < limit, "{what} within a minute");
                std::thread::yield_now();
            }
        };
        wait("it was written once more", &mut || store.snapshot().position().commit > written);
        // Many times what is between two attempts.
        let (mut changes, mut since) = (0, Instant::now());
        wait("it is quiet", &mut || {
            if disk.changes() != changes {
                (changes, since) = (disk.changes(), Instant::now());
            }
            since.elapsed() > Duration::from_millis(500)
        });
        // With the next write it is tried again, and kept.
        put(&store, ENTRIES, 1);
        let before = store.snapshot().position().commit;
        wait("it was written once more", &mut || store.snapshot().position().commit > before);
        assert_eq!(*store.snapshot().get(&key(lost[1])).unwrap().unwrap(), value(lost[1], 1));
    }
}

/// Images of a store as it is after each of many writes, and what it held then.
fn history(writes: u32) -> Vec<(Vec<u8>, BTreeMap<u32, u32>)> {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), options()).unwrap();
    let mut held = BTreeMap::new();
    let mut images = Vec::new();
    for version in 0..writes {
        let n = version % 37;
        put(&store, n, version);
        held.insert(n, version);
        if version % 8 == 0 {
            images.push((disk.bytes(), held.clone()));
        }
    }
    store.close().unwrap();
    images.push((disk.bytes(), held.clone()));
    // And open again.
    let store = Store::on_disk(disk.clone(), options()).unwrap();
    for version in writes..writes + 12 {
        put(&store, version % 37, version);
        held.insert(version % 37, version);
        images.push((disk.bytes(), held.clone()));
    }
    images
}

/// Both places of the roots are put back, and with them the tree, as far as its pages were not written over.
#[test]
fn a_tree_put_back_to_an_earlier_state_is_not_taken_for_the_latest() {
    let images = history(400);
    let mut refused = 0;
    for (at, (image, held)) in images.iter().enumerate() {
        for (older, _) in &images[at.saturating_sub(3)..at] {
            let mut image = image.clone();
            for place in ROOTS {
                image[place..place + ROOTS_BYTES].copy_from_slice(&older[place..place + ROOTS_BYTES]);
            }
            let store = match Store::on_disk(FaultyDisk::from(image), options()) {
                Ok(store) => store,
                Err(Error::Damaged { .. }) => {
                    refused += 1;
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            for (n, version) in held {
                if let Ok(found) = store.snapshot().get(&key(*n)) {
                    assert_eq!(found.as_deref(), Some(&value(*n, *version)[..]), "image {at}");
                }
            }
        }
    }
    assert!(refused > 0);
}

/// A tree of several nodes of tags that grows and shrinks, with the power going, or a sync failing and dropping what
/// it was to write, at many moments.
#[test]
fn a_large_tree_survives_power_loss_and_failed_syncs_while_it_grows_and_shrinks() {
    const STEPS: u32 = 14;
    let options = Options { cache_bytes: 64 << 10, log_bytes: 16 << 10, ..options() };
    // What a step leaves: entries of a page or so each, most of which go again.
    let count = |step: u32| if step.is_multiple_of(4) { 1200 } else { 20 + step };
    let batch = |step: u32| {
        let mut batch = Batch::default();
        let before = step.checked_sub(1).map_or(0, count);
        (count(step)..before).for_each(|n| batch.delete(key(n)));
        for n in (0..count(step)).filter(|n| n % 5 == step % 5 || *n >= before) {
            batch.put(key(n), vec![step as u8; 2500]);
        }
        batch.put(b"last".to_vec(), step.to_be_bytes().to_vec());
        batch
    };
    let check = |store: &Store, acknowledged: Option<u32>| -> Option<u32> {
        let snapshot = store.snapshot();
        let last = snapshot.get(b"last").unwrap().map(|last| u32::from_be_bytes((*last).try_into().unwrap()));
        assert!(last >= acknowledged, "{acknowledged:?} was acknowledged, and {last:?} is there");
        let entries: Vec<_> =
            snapshot.range(Bound::Unbounded, Bound::Unbounded).unwrap().map(Result::unwrap).collect();
        assert_eq!(entries.len() as u32, last.map_or(0, |last| count(last) + 1));
        assert_eq!(store.activity().unwrap().damaged_pages, 0);
        last
    };
    let begun = FaultyDisk::default();
    Store::on_disk(begun.clone(), options).unwrap().close().unwrap();
    let image = begun.bytes();
    let run = |disk: &FaultyDisk| -> Option<u32> {
        let store = Store::on_disk(disk.clone(), options).ok()?;
        (0..STEPS).take_while(|step| store.write(batch(*step)).is_ok()).last()
    };
    let disk = FaultyDisk::from(image.clone());
    assert_eq!(run(&disk), Some(STEPS - 1));
    let all = disk.changes();
    for at in (0..24).map(|n| n * all / 24 + n % 5) {
        let disk = FaultyDisk::from(image.clone());
        disk.fail(Operation::Change, at, Lasting::Forever);
        let acknowledged = run(&disk);
        for seed in [0, 1, at + 2] {
            let store = Store::on_disk(disk.crash(seed), options).unwrap();
            let last = check(&store, acknowledged);
            // And it goes on.
            store.write(batch(last.map_or(0, |last| last + 1))).unwrap();
            check(&store, Some(last.map_or(0, |last| last + 1)));
        }
    }
    for at in (0..40).step_by(2) {
        let disk = FaultyDisk::from(image.clone());
        disk.drop_on_failed_sync(true);
        disk.fail(Operation::Sync, at, Lasting::Once);
        let Ok(store) = Store::on_disk(disk.clone(), options) else { continue };
        let mut last = None;
        for _ in 0..STEPS {
            let step = last.map_or(0, |last| last + 1);
            match store.write(batch(step)) {
                Ok(()) => last = Some(step),
                Err(Error::Failed { .. } | Error::Lost) => {}
                Err(error) => panic!("{error}"),
            }
            check(&store, last);
        }
        let store = Store::on_disk(disk.crash(at), options).unwrap();
        assert_eq!(check(&store, last), last);
    }
}
