//! A store rebuilt from its archive alone.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use larder_storage::archive::{self, Rebuilt, Status, Until};
use larder_storage::backup::{Breaks, Repository, Verified};
use larder_storage::faulty::{FaultyDisk, Lasting, Operation};
use larder_storage::{Batch, Durability, Error, Key, Options, Store};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound::Unbounded;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const START_MS: u64 = 1_794_808_800_000;
const MARKER: &str = "a marker that must not be readable";
const WRITERS: u64 = 4;

#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn now(&self) -> u64 {
        START_MS + self.0.load(Ordering::SeqCst)
    }

    fn advance(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }

    fn set(&self, ms: u64) {
        self.0.store(ms, Ordering::SeqCst);
    }
}

fn options(dir: &Path, key: Option<Key>, breaks: &Breaks) -> archive::Options {
    archive::Options {
        sync_every: Duration::from_millis(5),
        retry_after: Duration::from_millis(5),
        breaks: breaks.clone(),
        ..archive::Options::new(dir.to_owned(), key)
    }
}

/// With a clock that is certain.
fn start(store: &Store, options: archive::Options, clock: &Clock) -> Result<(), Error> {
    let (now, settled) = (clock.clone(), clock.clone());
    store.archive_to(options, move || now.now(), move || settled.now())
}

fn archived(store: &Store, dir: &Path, clock: &Clock) {
    start(store, options(dir, None, &Breaks::default()), clock).unwrap();
}

fn memory() -> Store {
    Store::memory(Options::default()).unwrap()
}

fn on(disk: &FaultyDisk) -> Store {
    Store::on_disk(disk.clone(), Options::default()).unwrap()
}

/// One write of a writer: what it wrote last, and the write itself, together.
fn write(writer: u64, n: u64) -> Batch {
    let mut batch = Batch::default();
    batch.put(format!("last/{writer}").into_bytes(), n.to_string().into_bytes());
    batch.put(format!("each/{writer}/{n:010}").into_bytes(), MARKER.as_bytes().to_vec());
    if n > 0 {
        batch.put(format!("before/{writer}").into_bytes(), (n - 1).to_string().into_bytes());
        batch.delete(format!("gone/{writer}/{}", n - 1).into_bytes());
    }
    batch.put(format!("gone/{writer}/{n}").into_bytes(), Vec::new());
    batch
}

/// How many writes of each writer a store has: all up to the last, none half.
fn found(store: &Store) -> BTreeMap<u64, u64> {
    let snapshot = store.snapshot();
    let text = |key: String| {
        snapshot.get(key.as_bytes()).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
    };
    let mut counts = BTreeMap::new();
    for writer in 0..WRITERS {
        let prefix = format!("each/{writer}/");
        let each = snapshot.range(std::ops::Bound::Included(prefix.as_bytes()), Unbounded).unwrap();
        let each =
            each.map(|entry| entry.unwrap().0.to_vec()).take_while(|key| key.starts_with(prefix.as_bytes()));
        let mut count = 0_u64;
        for key in each {
            assert_eq!(String::from_utf8(key).unwrap(), format!("{prefix}{count:010}"));
            count += 1;
        }
        let last = count.checked_sub(1);
        assert_eq!(text(format!("last/{writer}")), last.map(|last| last.to_string()));
        if let Some(last) = last {
            assert!(text(format!("gone/{writer}/{last}")).is_some());
            assert!(last == 0 || text(format!("gone/{writer}/{}", last - 1)).is_none());
        }
        counts.insert(writer, count);
    }
    counts
}

fn all(store: &Store) -> Vec<(Vec<u8>, Vec<u8>)> {
    let all = store.snapshot().range(Unbounded, Unbounded).unwrap();
    all.map(|entry| entry.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

fn rebuilt(dir: &Path, key: Option<Key>, until: Until) -> Result<(Rebuilt, Store), Error> {
    let store = memory();
    let rebuilt = archive::rebuild(&Repository::open(dir, key)?, until, &store, &mut |_| ())?;
    Ok((rebuilt, store))
}

fn count(dir: &Path, until: Until) -> u64 {
    found(&rebuilt(dir, None, until).unwrap().1)[&0]
}

fn problems(dir: &Path, key: Option<Key>) -> Vec<String> {
    let repository = Repository::open(dir, key).unwrap();
    let mut verified = repository.verify(None, &mut |_| ()).unwrap();
    archive::verify(&repository, &mut verified).unwrap();
    verified.problems
}

/// Waits until something is so.
fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        thread::park_timeout(Duration::from_millis(2));
    }
}

fn status(store: &Store) -> Status {
    store.archive_status().unwrap()
}

fn wait_archived(store: &Store) {
    wait("everything is archived", || {
        status(store).archived.is_some_and(|archived| archived.is(&store.snapshot().position()))
    });
}

/// What another machine would find: a copy made while it is written to.
fn copy(dir: &Path) -> TempDir {
    fn copy_into(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let target = to.join(path.file_name().unwrap());
            if path.is_dir() {
                copy_into(&path, &target);
            } else if let Ok(bytes) = fs::read(&path) {
                fs::write(target, bytes).unwrap();
            }
        }
    }
    let to = tempfile::tempdir().unwrap();
    copy_into(dir, to.path());
    to
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(dir.join("segments")).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

#[test]
fn a_machine_lost_under_load_leaves_every_acknowledged_write_up_to_the_last_archived_commit() {
    for key in [None, Some(Key::new([1; 32]))] {
        let dir = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::default();
        let store = on(&disk);
        for n in 0..50 {
            store.write(write(0, n)).unwrap();
        }
        let begun = Instant::now();
        let now = move || START_MS + begun.elapsed().as_millis() as u64;
        store.archive_to(options(dir.path(), key, &Breaks::default()), now, now).unwrap();
        let stop = AtomicBool::new(false);
        let lost = thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (store, stop) = (store.clone(), &stop);
                    scope.spawn(move || {
                        let mut acknowledged = Vec::new();
                        let first = if writer == 0 { 50 } else { 0 };
                        for n in first.. {
                            if stop.load(Ordering::Relaxed) {
                                break;
                            }
                            let submitted_ms = now();
                            store.write(write(writer, n)).unwrap();
                            acknowledged.push((n, submitted_ms, now(), store.snapshot().position().commit));
                        }
                        acknowledged
                    })
                })
                .collect();
            wait("a base is there", || status(&store).archived.is_some());
            let mut lost = Vec::new();
            for _ in 0..5 {
                let since = status(&store).archived.unwrap().commit;
                wait("it goes on", || status(&store).archived.unwrap().commit > since + 20);
                let archived = status(&store).archived.unwrap();
                lost.push((archived, now(), copy(dir.path())));
            }
            stop.store(true, Ordering::Relaxed);
            let acknowledged: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
            (lost, acknowledged)
        });
        let (lost, acknowledged) = lost;
        for (archived, at_ms, copy) in &lost {
            let (rebuilt, store) = rebuilt(copy.path(), key, Until::Latest).unwrap();
            assert!(rebuilt.position.commit >= archived.commit);
            let found = found(&store);
            for (writer, writes) in acknowledged.iter().enumerate() {
                let safe = writes.iter().rev().find(|(_, _, _, commit)| *commit <= archived.commit);
                let count = found[&(writer as u64)];
                assert!(
                    safe.is_none_or(|(n, ..)| *n < count),
                    "writer {writer} has {count}, and {safe:?} was safe"
                );
            }
            assert_eq!(problems(copy.path(), key), [""; 0]);
            let _ = at_ms;
        }
        // Any moment of the time before, from the last copy.
        let (archived, _, copy) = lost.last().unwrap();
        let first = lost[0].1;
        let step = ((archived.time_ms - first) / 5).max(1);
        for time_ms in (first..archived.time_ms).step_by(step as usize) {
            let (rebuilt, store) = rebuilt(copy.path(), key, Until::Time(time_ms)).unwrap();
            assert_eq!(rebuilt.notes, [""; 0]);
            let found = found(&store);
            for (writer, writes) in acknowledged.iter().enumerate() {
                let count = found[&(writer as u64)];
                for (n, submitted_ms, acknowledged_ms, _) in writes {
                    assert!(*acknowledged_ms > time_ms || *n < count, "{n} was answered before {time_ms}");
                    assert!(*submitted_ms <= time_ms || *n >= count, "{n} was written after {time_ms}");
                }
            }
        }
        store.close().unwrap();
    }
}

#[test]
fn a_store_is_rebuilt_to_a_moment_with_exactly_what_was_written_before_it() {
    let (dir, clock, store) = (tempfile::tempdir().unwrap(), Clock::default(), memory());
    archived(&store, dir.path(), &clock);
    wait_archived(&store);
    for n in 0..50 {
        clock.advance(1_000);
        store.write(write(0, n)).unwrap();
    }
    clock.advance(60_000);
    store.close().unwrap();
    for n in [0, 1, 7, 49] {
        let time_ms = START_MS + n * 1_000;
        assert_eq!(count(dir.path(), Until::Time(time_ms)), n, "{n}");
        assert_eq!(count(dir.path(), Until::Time(time_ms + 999)), n, "{n}");
    }
    assert_eq!(count(dir.path(), Until::Commit(20)), 20);
    assert_eq!(count(dir.path(), Until::Latest), 50);
    // Nothing more was written until it was closed, and that is known.
    let (rebuilt, _) = rebuilt(dir.path(), None, Until::Time(START_MS + 109_000)).unwrap();
    assert_eq!(rebuilt.notes, [""; 0]);
    assert_eq!(rebuilt.position.commit, 50);
    let later = self::rebuilt(dir.path(), None, Until::Time(START_MS + 500_000)).unwrap().0;
    assert!(later.notes[0].contains("knows of no commit after"), "{:?}", later.notes);
    let earlier = self::rebuilt(dir.path(), None, Until::Time(START_MS - 1)).unwrap_err();
    assert!(earlier.to_string().contains("its archive begins at"), "{earlier}");
}

#[test]
fn closing_and_opening_goes_on_where_it_was() {
    let (dir, clock, disk) = (tempfile::tempdir().unwrap(), Clock::default(), FaultyDisk::default());
    for round in 0..4 {
        let store = on(&disk);
        archived(&store, dir.path(), &clock);
        wait("it has a base", || status(&store).archived.is_some());
        for n in 0..10 {
            clock.advance(1_000);
            store.write(write(0, round * 10 + n)).unwrap();
        }
        assert_eq!(status(&store).gaps, 0);
        store.close().unwrap();
    }
    let bases = Repository::open(dir.path(), None).unwrap().list().unwrap().len();
    assert_eq!(bases, 1, "no gap, so no other base");
    assert_eq!(count(dir.path(), Until::Time(START_MS + 25_000)), 25);
    assert_eq!(count(dir.path(), Until::Latest), 40);
}

#[test]
fn a_killed_store_goes_on_or_begins_a_new_line_and_loses_nothing_that_it_kept() {
    let (dir, clock, mut disk) = (tempfile::tempdir().unwrap(), Clock::default(), FaultyDisk::default());
    let mut n = 0;
    for round in 0..6 {
        let store = on(&disk);
        archived(&store, dir.path(), &clock);
        wait_archived(&store);
        let (_, found_store) = rebuilt(dir.path(), None, Until::Latest).unwrap();
        assert_eq!(found(&found_store), found(&store), "round {round}");
        for _ in 0..10 {
            clock.advance(1_000);
            store.write(write(0, n)).unwrap();
            n += 1;
        }
        if round % 2 == 0 {
            wait_archived(&store);
        }
        disk = disk.crash(round);
        // The process that is gone held the lock.
        store.close().unwrap_err();
    }
    assert_eq!(problems(dir.path(), None), [""; 0]);
}

#[test]
fn a_store_that_lost_its_last_moment_begins_a_new_line_and_both_can_be_had() {
    let (dir, clock, disk) = (tempfile::tempdir().unwrap(), Clock::default(), FaultyDisk::default());
    let store = on(&disk);
    for n in 0..5 {
        store.write(write(0, n)).unwrap();
    }
    archived(&store, dir.path(), &clock);
    wait_archived(&store);
    let earlier = FaultyDisk::from(disk.bytes());
    clock.advance(1_000);
    for n in 5..9 {
        store.write(write(0, n)).unwrap();
    }
    wait_archived(&store);
    store.close().unwrap();
    clock.advance(1_000);
    // Put back to what it was, and written to differently.
    let store = on(&earlier);
    archived(&store, dir.path(), &clock);
    wait_archived(&store);
    assert_eq!(status(&store).gaps, 1);
    clock.advance(1_000);
    store.write(write(1, 0)).unwrap();
    store.close().unwrap();
    let at = |ms| found(&rebuilt(dir.path(), None, Until::Time(START_MS + ms)).unwrap().1);
    assert_eq!((at(1_500)[&0], at(1_500)[&1]), (9, 0));
    assert_eq!((at(2_500)[&0], at(2_500)[&1]), (5, 0));
    assert_eq!((at(3_500)[&0], at(3_500)[&1]), (5, 1));
    assert_eq!(problems(dir.path(), None), [""; 0]);
}

#[test]
fn numbers_given_out_again_after_a_failed_sync_are_not_taken_for_the_same() {
    let (dir, clock, disk) = (tempfile::tempdir().unwrap(), Clock::default(), FaultyDisk::default());
    let relaxed = Options { durability: Durability::Relaxed, ..Options::default() };
    let store = Store::on_disk(disk.clone(), relaxed).unwrap();
    archived(&store, dir.path(), &clock);
    for n in 0..5 {
        store.write(write(0, n)).unwrap();
    }
    wait_archived(&store);
    disk.fail(Operation::Sync, 0, Lasting::Once);
    // Whether they are lost is the store's to say; the archive must know what it says.
    let mut n = 5;
    wait("writes go on after the failed sync", || {
        n += 1;
        store.write(write(0, n)).is_ok() && n > 60
    });
    wait_archived(&store);
    let (_, rebuilt) = rebuilt(dir.path(), None, Until::Latest).unwrap();
    assert_eq!(all(&rebuilt), all(&store));
}

#[test]
fn a_directory_that_fails_for_a_while_leaves_no_gap_as_long_as_memory_lasts() {
    let (dir, clock, store) = (tempfile::tempdir().unwrap(), Clock::default(), memory());
    let breaks = Breaks::default();
    start(&store, options(dir.path(), None, &breaks), &clock).unwrap();
    store.write(write(0, 0)).unwrap();
    wait_archived(&store);
    let mut written = 1;
    for round in 0..5 {
        breaks.after(round);
        wait("it is told", || {
            clock.advance(100);
            store.write(write(0, written)).unwrap();
            written += 1;
            status(&store).failing.is_some()
        });
        for _ in 0..20 {
            clock.advance(100);
            store.write(write(0, written)).unwrap();
            written += 1;
        }
        assert!(status(&store).lag >= Duration::from_millis(100));
        breaks.mend();
        wait_archived(&store);
        wait("it is told", || status(&store).failing.is_none());
        assert_eq!(status(&store).lag, Duration::ZERO);
        assert_eq!(count(dir.path(), Until::Latest), written);
    }
    assert_eq!((status(&store).gaps, status(&store).bases), (0, 1));
    assert_eq!(problems(dir.path(), None), [""; 0]);
}

#[test]
fn more_than_memory_holds_is_healed_by_a_new_base() {
    let (dir, clock, store) = (tempfile::tempdir().unwrap(), Clock::default(), memory());
    let breaks = Breaks::default();
    start(&store, options(dir.path(), None, &breaks), &clock).unwrap();
    store.write(write(0, 0)).unwrap();
    wait_archived(&store);
    breaks.after(0);
    for n in 0..90_u8 {
        let mut batch = Batch::default();
        batch.put(b"large".to_vec(), vec![n; 1 << 20]);
        store.write(batch).unwrap();
    }
    store.write(write(0, 1)).unwrap();
    breaks.mend();
    wait_archived(&store);
    assert_eq!((status(&store).gaps, status(&store).bases), (1, 2));
    store.write(write(0, 2)).unwrap();
    wait_archived(&store);
    let (_, rebuilt) = rebuilt(dir.path(), None, Until::Latest).unwrap();
    assert_eq!(found(&rebuilt)[&0], 3);
    assert_eq!(rebuilt.snapshot().get(b"large").unwrap().unwrap()[0], 89);
    assert_eq!(problems(dir.path(), None), [""; 0]);
}

#[test]
fn an_archive_that_stops_anywhere_has_what_it_said_it_has() {
    for step in 0..40 {
        let (dir, clock, store) = (tempfile::tempdir().unwrap(), Clock::default(), memory());
        let breaks = Breaks::default();
        breaks.after(step);
        if start(&store, options(dir.path(), None, &breaks), &clock).is_err() {
            continue;
        }
        for n in 0..40 {
            clock.advance(100);
            store.write(write(0, n)).unwrap();
            // So that the steps are met between the writes.
            thread::park_timeout(Duration::from_micros(500));
        }
        wait("it stops", || status(&store).failing.is_some() || breaks.taken() < step);
        let safe = status(&store).archived;
        let lost = copy(dir.path());
        match (rebuilt(lost.path(), None, Until::Latest), safe) {
            (Ok((rebuilt, store)), safe) => {
                assert_eq!(found(&store)[&0], rebuilt.position.commit);
                assert!(
                    safe.is_none_or(|safe| safe.commit <= rebuilt.position.commit),
                    "stopped after {step}"
                );
            }
            (Err(error), safe) => assert!(safe.is_none(), "stopped after {step}: {error}"),
        }
    }
}

#[test]
fn a_changed_byte_is_found_or_ends_the_archive_and_never_changes_an_answer() {
    for key in [None, Some(Key::new([1; 32]))] {
        let (dir, clock, store) = (tempfile::tempdir().unwrap(), Clock::default(), memory());
        start(&store, options(dir.path(), key, &Breaks::default()), &clock).unwrap();
        wait_archived(&store);
        let mut frames = 0;
        for n in 0..40 {
            store.write(write(0, n)).unwrap();
            if n % 10 == 9 {
                wait_archived(&store);
                frames += 1;
            }
        }
        store.close().unwrap();
        assert!(frames == 4);
        let path = segments(dir.path()).pop().unwrap();
        let whole = fs::read(&path).unwrap();
        let mut told = 0;
        for at in (0..whole.len()).step_by(23) {
            let mut changed = whole.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(&path, &changed).unwrap();
            match rebuilt(dir.path(), key, Until::Latest) {
                Ok((rebuilt, store)) => {
                    assert_eq!(found(&store)[&0], rebuilt.position.commit);
                    assert!(!rebuilt.notes.is_empty(), "changed at {at}");
                }
                Err(error) => {
                    assert!(matches!(error, Error::Backup { .. }), "{error}");
                    assert_eq!(problems(dir.path(), key).len(), 1);
                    told += 1;
                }
            }
        }
        assert!(told > 10, "{told}");
        for length in (0..whole.len()).step_by(97) {
            fs::write(&path, &whole[..length]).unwrap();
            let (rebuilt, store) = rebuilt(dir.path(), key, Until::Latest).unwrap();
            assert_eq!(found(&store)[&0], rebuilt.position.commit);
        }
    }
}

#[test]
fn a_segment_that_is_missing_in_the_middle_is_told() {
    let (dir, clock, disk) = (tempfile::tempdir().unwrap(), Clock::default(), FaultyDisk::default());
    for round in 0..3 {
        let store = on(&disk);
        archived(&store, dir.path(), &clock);
        wait_archived(&store);
        for n in 0..5 {
            store.write(write(0, round * 5 + n)).unwrap();
        }
        store.close().unwrap();
    }
    let all = segments(dir.path());
    assert_eq!(all.len(), 3);
    fs::remove_file(&all[1]).unwrap();
    let error = rebuilt(dir.path(), None, Until::Latest).unwrap_err();
    assert!(error.to_string().contains("the commits after 5 up to 10 are missing"), "{error}");
    assert_eq!(problems(dir.path(), None).len(), 1);
}

#[test]
fn an_encrypted_archive_can_be_read_with_its_key_alone() {
    let (dir, clock, store) = (tempfile::tempdir().unwrap(), Clock::default(), memory());
    let key = Some(Key::new([1; 32]));
    start(&store, options(dir.path(), key, &Breaks::default()), &clock).unwrap();
    for n in 0..20 {
        store.write(write(0, n)).unwrap();
    }
    store.close().unwrap();
    for path in segments(dir.path()) {
        let bytes = fs::read(path).unwrap();
        for text in [&MARKER.as_bytes()[..10], b"last/", b"each/"] {
            assert!(!bytes.windows(text.len()).any(|window| window == text));
        }
    }
    rebuilt(dir.path(), None, Until::Latest).unwrap_err();
    rebuilt(dir.path(), Some(Key::new([2; 32])), Until::Latest).unwrap_err();
    assert_eq!(found(&rebuilt(dir.path(), key, Until::Latest).unwrap().1)[&0], 20);
}

#[test]
fn what_is_older_than_is_kept_goes_with_a_new_base_and_what_is_kept_can_be_had() {
    const HOUR_MS: u64 = 3_600_000;
    let (dir, clock, store) = (tempfile::tempdir().unwrap(), Clock::default(), memory());
    let options = archive::Options {
        base_every_ms: HOUR_MS,
        keep_ms: Some(3 * HOUR_MS),
        segment_bytes: 1,
        ..options(dir.path(), None, &Breaks::default())
    };
    start(&store, options, &clock).unwrap();
    wait_archived(&store);
    let mut times = Vec::new();
    for hour in 0..8 {
        clock.advance(HOUR_MS);
        times.push(clock.now());
        store.write(write(0, 2 * hour)).unwrap();
        wait_archived(&store);
        clock.advance(1_000);
        // Wakes it, and it sees that an hour has passed.
        times.push(clock.now());
        store.write(write(0, 2 * hour + 1)).unwrap();
        wait("a base is made", || status(&store).bases == hour + 2);
    }
    store.close().unwrap();
    let repository = Repository::open(dir.path(), None).unwrap();
    let bases = repository.list().unwrap().len();
    assert!((3..=5).contains(&bases), "{bases}");
    assert!(segments(dir.path()).len() < 14, "{}", segments(dir.path()).len());
    assert_eq!(problems(dir.path(), None), [""; 0]);
    let now_ms = clock.now();
    for hours in 0..3 {
        let time_ms = now_ms - hours * HOUR_MS;
        for time_ms in [time_ms, time_ms - 500, time_ms - 8_500] {
            let expected = times.iter().filter(|written_ms| **written_ms <= time_ms).count() as u64;
            assert_eq!(count(dir.path(), Until::Time(time_ms)), expected, "{hours} hours before");
        }
    }
    rebuilt(dir.path(), None, Until::Time(START_MS)).unwrap_err();
}

#[test]
fn one_store_archives_to_a_directory_at_a_time() {
    let (dir, clock, store) = (tempfile::tempdir().unwrap(), Clock::default(), memory());
    archived(&store, dir.path(), &clock);
    let error = memory().archive_to(options(dir.path(), None, &Breaks::default()), || 0, || 0).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    let elsewhere = tempfile::tempdir().unwrap();
    let error =
        store.archive_to(options(elsewhere.path(), None, &Breaks::default()), || 0, || 0).unwrap_err();
    assert!(error.to_string().contains("archived already"), "{error}");
}

#[test]
fn backups_beside_an_archive_are_pruned_without_touching_it() {
    let (dir, clock, store) = (tempfile::tempdir().unwrap(), Clock::default(), memory());
    archived(&store, dir.path(), &clock);
    wait_archived(&store);
    store.write(write(0, 0)).unwrap();
    wait_archived(&store);
    let repository = Repository::open(dir.path(), None).unwrap();
    let request = larder_storage::backup::Request { now_ms: clock.now(), ..Default::default() };
    repository.back_up(&store.snapshot(), request, &mut |_| ()).unwrap();
    let pruned = repository.prune(Default::default()).unwrap();
    assert_eq!(pruned.backups.len(), 1);
    store.close().unwrap();
    assert_eq!(count(dir.path(), Until::Latest), 1);
    let mut verified = Verified::default();
    archive::verify(&repository, &mut verified).unwrap();
    assert_eq!((verified.groups, verified.problems.len()), (1, 0));
}

#[test]
fn attempts_that_failed_hide_no_commit() {
    let (dir, clock, store) = (tempfile::tempdir().unwrap(), Clock::default(), memory());
    archived(&store, dir.path(), &clock);
    wait_archived(&store);
    for n in 0..20 {
        store.write(write(0, n)).unwrap();
    }
    store.close().unwrap();
    // They begin where one begins that holds something, and their names are before and after its.
    for segment in segments(dir.path()) {
        let name = segment.file_name().unwrap().to_str().unwrap();
        let (begin, _) = name.rsplit_once('-').unwrap();
        for salt in ["00000000", "ffffffff"] {
            fs::write(segment.with_file_name(format!("{begin}-{salt}")), b"").unwrap();
        }
    }
    assert_eq!(count(dir.path(), Until::Latest), 20);
    assert_eq!(problems(dir.path(), None), [""; 0]);
}

#[test]
fn a_clock_that_is_ahead_removes_nothing() {
    const DAY_MS: u64 = 24 * 3_600_000;
    let (dir, clock, settled) = (tempfile::tempdir().unwrap(), Clock::default(), Clock::default());
    let store = memory();
    let (now, certain) = (clock.clone(), settled.clone());
    let options = options(dir.path(), None, &Breaks::default());
    store.archive_to(options, move || now.now(), move || certain.now()).unwrap();
    wait_archived(&store);
    store.write(write(0, 0)).unwrap();
    wait_archived(&store);
    let before_ms = clock.now();
    clock.advance(40 * DAY_MS);
    store.write(write(0, 1)).unwrap();
    wait("a base is made", || status(&store).bases == 2);
    assert_eq!(count(dir.path(), Until::Time(before_ms)), 1);
    settled.advance(80 * DAY_MS);
    clock.advance(40 * DAY_MS);
    for n in 2..4 {
        store.write(write(0, n)).unwrap();
        wait_archived(&store);
    }
    wait("a base is made", || status(&store).bases == 3);
    store.close().unwrap();
    rebuilt(dir.path(), None, Until::Time(before_ms)).unwrap_err();
}

#[test]
fn a_clock_that_was_ahead_and_is_set_back_hides_no_commit() {
    const MINUTE_MS: u64 = 60_000;
    let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::default());
    let disk = FaultyDisk::default();
    let store = on(&disk);
    archived(&store, dir.path(), &clock);
    wait_archived(&store);
    // Minutes by the clock: 1, 121, 122, 10.
    for (n, minute) in [1, 121, 122, 10].into_iter().enumerate() {
        clock.set(minute * MINUTE_MS);
        store.write(write(0, n as u64)).unwrap();
    }
    wait_archived(&store);
    store.close().unwrap();
    let store = on(&disk);
    clock.set(20 * MINUTE_MS);
    archived(&store, dir.path(), &clock);
    store.write(write(0, 4)).unwrap();
    store.close().unwrap();
    let at = |minute: u64| {
        let (rebuilt, store) = rebuilt(dir.path(), None, Until::Time(START_MS + minute * MINUTE_MS)).unwrap();
        (found(&store)[&0], rebuilt.notes)
    };
    assert_eq!(at(10), (4, Vec::new()));
    assert_eq!(at(20), (5, Vec::new()));
    assert_eq!(at(0), (0, Vec::new()));
    let (count, notes) = at(5);
    assert_eq!(count, 1);
    assert!(
        notes[0].contains("which of the 2 commits after commit 1 were made by then cannot be told"),
        "{notes:?}"
    );
    let (count, notes) = at(130);
    assert_eq!(count, 5);
    assert!(notes[0].contains("knows of no commit after"), "{notes:?}");
}

#[test]
fn a_line_whose_base_cannot_be_read_is_not_passed_over() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::default());
    let disk = FaultyDisk::default();
    for n in 0..2 {
        let store = on(&disk);
        archived(&store, dir.path(), &clock);
        wait_archived(&store);
        clock.advance(1_000);
        store.write(write(n, 0)).unwrap();
        store.close().unwrap();
        // Without the archive: the next begins a line of its own.
        let store = on(&disk);
        store.write(write(2, n)).unwrap();
        store.close().unwrap();
    }
    assert_eq!(problems(dir.path(), None), [""; 0]);
    let mut bases: Vec<PathBuf> =
        fs::read_dir(dir.path().join("backups")).unwrap().map(|entry| entry.unwrap().path()).collect();
    bases.sort();
    let (last, whole) = (bases.last().unwrap(), fs::read(bases.last().unwrap()).unwrap());
    for damage in [Some(&whole[..whole.len() / 2]), None] {
        match damage {
            Some(bytes) => fs::write(last, bytes).unwrap(),
            None => fs::remove_file(last).unwrap(),
        }
        assert!(!problems(dir.path(), None).is_empty());
        let error = rebuilt(dir.path(), None, Until::Latest).unwrap_err().to_string();
        assert!(error.contains("the base that its commits follow cannot be read"), "{error}");
        rebuilt(dir.path(), None, Until::Time(START_MS + 1_500)).unwrap_err();
        // What was before it can be had.
        rebuilt(dir.path(), None, Until::Time(START_MS + 999)).unwrap();
    }
}

#[test]
fn what_a_base_lacks_is_told() {
    let disk = FaultyDisk::default();
    let store = on(&disk);
    let mut batch = Batch::default();
    for n in 0..200_u32 {
        batch.put(n.to_be_bytes().to_vec(), vec![7; 300]);
    }
    store.write(batch).unwrap();
    store.close().unwrap();
    let image = disk.bytes();
    let ours = |at: &usize| {
        image[*at] == 1 && image[*at..at + 4096].iter().filter(|byte| **byte == 7).count() > 2000
    };
    // Not the last: what the store itself keeps is there.
    let leaf = (0..image.len()).step_by(4096).find(ours).unwrap();
    let mut damaged = image.clone();
    damaged[leaf..leaf + 4096].fill(0);
    let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::default());
    let store = on(&FaultyDisk::from(damaged));
    archived(&store, dir.path(), &clock);
    wait("a base is made", || status(&store).bases == 1);
    assert!(status(&store).skipped > 0);
    store.close().unwrap();
    let (rebuilt, _) = rebuilt(dir.path(), None, Until::Latest).unwrap();
    assert!(rebuilt.missing[0].contains("could not be read when the base was made"), "{:?}", rebuilt.missing);
}

#[test]
fn a_directory_that_is_gone_is_told() {
    let (dir, clock, store) = (tempfile::tempdir().unwrap(), Clock::default(), memory());
    archived(&store, dir.path(), &clock);
    store.write(write(0, 0)).unwrap();
    wait_archived(&store);
    fs::rename(dir.path().join("segments"), dir.path().join("elsewhere")).unwrap();
    store.write(write(0, 1)).unwrap();
    wait("it is told", || status(&store).failing.is_some());
    assert!(!status(&store).archived.unwrap().is(&store.snapshot().position()));
    fs::rename(dir.path().join("elsewhere"), dir.path().join("segments")).unwrap();
    wait_archived(&store);
    store.close().unwrap();
    assert_eq!(count(dir.path(), Until::Latest), 2);
}

#[test]
fn damage_after_a_moment_does_not_keep_it_from_being_had() {
    let (dir, clock, store) = (tempfile::tempdir().unwrap(), Clock::default(), memory());
    archived(&store, dir.path(), &clock);
    wait_archived(&store);
    for n in 0..20 {
        clock.advance(1_000);
        store.write(write(0, n)).unwrap();
        wait_archived(&store);
    }
    store.close().unwrap();
    let segment = &segments(dir.path())[0];
    let mut bytes = fs::read(segment).unwrap();
    let at = bytes.len() * 3 / 4;
    bytes[at] ^= 1;
    fs::write(segment, bytes).unwrap();
    let (found_at, store) = rebuilt(dir.path(), None, Until::Time(START_MS + 5_000)).unwrap();
    assert_eq!(found(&store)[&0], 5);
    assert!(found_at.notes[0].contains("afterwards cannot be read to its end"), "{:?}", found_at.notes);
    rebuilt(dir.path(), None, Until::Time(START_MS + 19_500)).unwrap_err();
}
