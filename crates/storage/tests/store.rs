//! What a store promises while the disk works.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use larder_storage::faulty::FaultyDisk;
use larder_storage::{Batch, Disk, Durability, Error, Options, Store, Ticket, counters};
use std::io;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

fn memory() -> Store {
    Store::memory(Options::default()).unwrap()
}

fn puts(entries: &[(&str, &str)]) -> Batch {
    let mut batch = Batch::default();
    for (key, value) in entries {
        batch.put(key.as_bytes().to_vec(), value.as_bytes().to_vec());
    }
    batch
}

fn deletes(key: &str) -> Batch {
    let mut batch = Batch::default();
    batch.delete(key.as_bytes().to_vec());
    batch
}

fn adds(key: &str, deltas: [i64; 2]) -> Batch {
    let mut batch = Batch::default();
    batch.add(key.as_bytes().to_vec(), deltas);
    batch
}

fn submit(store: &Store, batch: Batch) -> Ticket {
    store.submit(batch, store.generation()).unwrap()
}

fn committed(store: &Store, key: &str) -> Option<Vec<u8>> {
    store.snapshot().get(key.as_bytes()).unwrap().map(|value| value.to_vec())
}

fn latest(store: &Store, key: &str) -> Option<Vec<u8>> {
    store.latest(key.as_bytes()).unwrap().map(|value| value.to_vec())
}

fn keys(
    range: impl Iterator<Item = Result<(larder_storage::Value, larder_storage::Value), Error>>,
) -> String {
    range.map(|entry| String::from_utf8(entry.unwrap().0.to_vec()).unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_written_batch_is_in_the_next_snapshot() {
    let store = memory();
    store.write(puts(&[("a", "1"), ("b", "")])).unwrap();
    assert_eq!(committed(&store, "a"), Some(b"1".to_vec()));
    assert_eq!(committed(&store, "b"), Some(Vec::new()));
    assert_eq!(committed(&store, "c"), None);
}

#[test]
fn a_snapshot_does_not_change() {
    let store = memory();
    store.write(puts(&[("a", "1")])).unwrap();
    let before = store.snapshot();
    store.write(puts(&[("a", "2"), ("b", "2")])).unwrap();
    assert_eq!(&*before.get(b"a").unwrap().unwrap(), b"1");
    assert!(before.get(b"b").unwrap().is_none());
}

#[test]
fn latest_sees_a_batch_before_and_after_its_commit() {
    let store = memory();
    store.write(puts(&[("gone", "1")])).unwrap();
    let put = submit(&store, puts(&[("a", "1")]));
    assert_eq!(latest(&store, "a"), Some(b"1".to_vec()));
    let delete = submit(&store, deletes("gone"));
    assert_eq!(latest(&store, "gone"), None);
    put.wait().unwrap();
    delete.wait().unwrap();
    assert_eq!(latest(&store, "a"), Some(b"1".to_vec()));
    assert_eq!(latest(&store, "gone"), None);
}

#[test]
fn the_last_write_to_a_key_wins_within_and_between_batches() {
    let store = memory();
    let mut batch = puts(&[("a", "1"), ("a", "2"), ("b", "1")]);
    batch.delete(b"b".to_vec());
    let tickets: Vec<_> = std::iter::once(submit(&store, batch))
        .chain((0..500).map(|n| submit(&store, puts(&[("c", &n.to_string())]))))
        .collect();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    assert_eq!(committed(&store, "a"), Some(b"2".to_vec()));
    assert_eq!(committed(&store, "b"), None);
    assert_eq!(committed(&store, "c"), Some(b"499".to_vec()));
}

#[test]
fn adds_sum_up_and_obey_puts_and_deletes_before_them() {
    let store = memory();
    let read = |key| counters(&committed(&store, key).unwrap()).unwrap();
    let tickets: Vec<_> = (0..100).map(|n| submit(&store, adds("n", [1, n]))).collect();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    assert_eq!(read("n"), [100, 4950]);
    store.write(adds("n", [-1, -50])).unwrap();
    assert_eq!(read("n"), [99, 4900]);

    let mut reset = deletes("n");
    reset.add(b"n".to_vec(), [7, 7]);
    store.write(reset).unwrap();
    assert_eq!(read("n"), [7, 7]);

    let mut gone = adds("n", [1, 1]);
    gone.delete(b"n".to_vec());
    store.write(gone).unwrap();
    assert_eq!(committed(&store, "n"), None);
}

#[test]
fn a_value_that_is_no_counter_refuses_adds_and_stays() {
    let store = memory();
    store.write(puts(&[("a", "text")])).unwrap();
    let error = store.write(adds("a", [1, 1])).unwrap_err();
    assert!(matches!(&error, Error::Failed { cause } if matches!(**cause, Error::Corrupt { .. })), "{error}");
    assert_eq!(committed(&store, "a"), Some(b"text".to_vec()));
    store.write(puts(&[("a", "still writable")])).unwrap();
    assert!(counters(b"short").is_err());
    assert!(counters(&[0; 17]).is_err());
}

#[test]
fn ranges_go_both_ways_and_respect_their_bounds() {
    let store = memory();
    store.write(puts(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")])).unwrap();
    let snapshot = store.snapshot();
    let range = |from, to| snapshot.range(from, to).unwrap();
    let (b, d) = (b"b".as_slice(), b"d".as_slice());
    assert_eq!(keys(range(Unbounded, Unbounded)), "a b c d");
    assert_eq!(keys(range(Included(b), Included(d))), "b c d");
    assert_eq!(keys(range(Excluded(b), Excluded(d))), "c");
    assert_eq!(keys(range(Unbounded, Excluded(d)).rev()), "c b a");
    assert_eq!(keys(range(Included(d), Included(b))), "");
    assert_eq!(keys(range(Excluded(b), Included(b))), "");
    assert_eq!(keys(range(Excluded(b), Excluded(b))), "");
    let mut both = range(Unbounded, Unbounded);
    assert_eq!(&*both.next().unwrap().unwrap().0, b"a");
    assert_eq!(&*both.next_back().unwrap().unwrap().1, b"4");
    assert_eq!(keys(both), "b c");
}

#[test]
fn values_and_ranges_outlive_their_snapshot_and_later_writes() {
    let store = memory();
    store.write(puts(&[("a", "1"), ("b", "2")])).unwrap();
    let value = store.snapshot().get(b"a").unwrap().unwrap();
    let range = store.snapshot().range(Unbounded, Unbounded).unwrap();
    for n in 0..50 {
        store.write(puts(&[("a", &n.to_string()), ("b", &n.to_string())])).unwrap();
    }
    assert_eq!(&*value, b"1");
    assert_eq!(keys(range), "a b");
}

#[test]
fn a_reopened_store_holds_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    for durability in [Durability::Immediate, Durability::Relaxed] {
        let options = Options { durability, ..Options::default() };
        let key = format!("{durability:?}");
        let store = Store::open(dir.path(), options).unwrap();
        let ticket = submit(&store, puts(&[(&key, "1")]));
        store.close().unwrap();
        ticket.wait().unwrap();
        let store = Store::open(dir.path(), options).unwrap();
        assert_eq!(committed(&store, &key), Some(b"1".to_vec()));
        drop(store);
    }
}

#[test]
fn a_closed_store_refuses_everything_and_closes_twice() {
    let store = memory();
    store.close().unwrap();
    store.close().unwrap();
    assert!(matches!(store.write(puts(&[("a", "1")])), Err(Error::Closed)));
}

#[test]
fn a_second_opener_is_told_who_is_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let error = Store::open(dir.path(), Options::default()).unwrap_err();
    assert!(matches!(&error, Error::InUse { path, .. } if path.ends_with("larder.redb")), "{error}");
    drop(store);
    Store::open(dir.path(), Options::default()).unwrap();
}

#[test]
fn a_file_of_something_else_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("larder.redb");
    let text = "not a store\n".repeat(1000);
    std::fs::write(&path, &text).unwrap();
    let error = Store::open(dir.path(), Options::default()).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_file_with_nothing_in_it_is_damaged_and_not_new() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("larder.redb");
    for content in [Vec::new(), vec![0; 10_000]] {
        std::fs::write(&path, &content).unwrap();
        let error = Store::open(dir.path(), Options::default()).unwrap_err();
        assert!(matches!(error, Error::Gone { .. }), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
}

#[cfg(unix)]
#[test]
fn links_to_nothing_and_what_is_no_file_are_refused_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let (link, real) = (dir.path().join("link"), dir.path().join("real"));
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink("nowhere", real.join("larder.redb")).unwrap();
    for (dir, named) in [(&link, link.clone()), (&real, real.join("larder.redb"))] {
        let error = Store::open(dir, Options::default()).unwrap_err();
        assert!(matches!(&error, Error::Foreign { path, .. } if *path == named), "{error}");
    }
    std::fs::remove_file(real.join("larder.redb")).unwrap();
    // A directory stands for a pipe, which a test that fails would wait for.
    std::fs::create_dir(real.join("larder.redb")).unwrap();
    for error in [Store::open(&real, Options::default()), Store::open_read_only(&real, Options::default())] {
        let error = error.unwrap_err();
        assert!(matches!(&error, Error::Foreign { cause, .. } if cause == "it is not a file"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn a_new_store_is_for_its_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("a/store");
    Store::open(&dir, Options::default()).unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&dir.join("larder.redb"))), (0o700, 0o600));
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn a_store_that_is_only_read_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("larder.redb");
    assert!(matches!(Store::open_read_only(dir.path(), Options::default()), Err(Error::Missing { .. })));
    let store = Store::open(dir.path(), Options::default()).unwrap();
    store.write(puts(&[("a", "in the tree")])).unwrap();
    store.close().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    store.write(puts(&[("b", "in the log")])).unwrap();
    // As a crash would leave it.
    let crashed = dir.path().join("crashed");
    std::fs::create_dir(&crashed).unwrap();
    std::fs::copy(&path, crashed.join("larder.redb")).unwrap();
    let before = std::fs::read(crashed.join("larder.redb")).unwrap();
    for _ in 0..2 {
        let store = Store::open_read_only(&crashed, Options::default()).unwrap();
        assert_eq!(committed(&store, "a").unwrap(), b"in the tree");
        assert_eq!(committed(&store, "b").unwrap(), b"in the log");
        assert!(matches!(store.write(puts(&[("c", "no")])), Err(Error::ReadOnly)));
        store.write(Batch::default()).unwrap();
        store.close().unwrap();
        assert!(std::fs::read(crashed.join("larder.redb")).unwrap() == before);
    }
}

#[test]
fn a_file_of_the_time_before_the_log_becomes_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    {
        let database = redb::Database::create(dir.path().join("larder.redb")).unwrap();
        let transaction = database.begin_write().unwrap();
        let format = redb::TableDefinition::<&str, u64>::new("format");
        transaction.open_table(format).unwrap().insert("version", 1).unwrap();
        transaction.open_table(redb::TableDefinition::<&[u8], &[u8]>::new("data")).unwrap();
        transaction.commit().unwrap();
    }
    for n in 0..3 {
        let store = Store::open(dir.path(), Options::default()).unwrap();
        store.write(puts(&[(&format!("key/{n}"), "kept")])).unwrap();
        store.close().unwrap();
    }
    let store = Store::open(dir.path(), Options::default()).unwrap();
    assert!((0..3).all(|n| committed(&store, &format!("key/{n}")).is_some()));
}

#[test]
fn a_file_that_was_cut_short_is_damaged_and_not_new() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { log_bytes: 64 << 10, ..Options::default() };
    Store::open(dir.path(), options).unwrap().write(puts(&[("a", "1")])).unwrap();
    let path = dir.path().join("larder.redb");
    let whole = std::fs::read(&path).unwrap();
    for length in (0..whole.len()).step_by(4096).chain([60, 3000, 8191, whole.len() - 1]) {
        std::fs::write(&path, &whole[..length]).unwrap();
        match Store::open(dir.path(), options) {
            // What was cut off may be needed by nobody.
            Ok(store) => assert_eq!(committed(&store, "a").unwrap(), b"1", "{length}"),
            Err(error) => assert!(
                matches!(
                    error,
                    Error::Damaged { .. } | Error::Gone { .. } | Error::Foreign { .. } | Error::Io { .. }
                ),
                "{length}: {error}"
            ),
        }
    }
}

#[test]
fn a_batch_larger_than_the_log_is_written_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { log_bytes: 4096, ..Options::default() };
    for round in 0..3 {
        let store = Store::open(dir.path(), options).unwrap();
        store.write(puts(&[("small", &round.to_string())])).unwrap();
        store.write(puts(&[("large", &round.to_string().repeat(100_000))])).unwrap();
        store.write(puts(&[("small", &format!("{round} again"))])).unwrap();
    }
    let store = Store::open(dir.path(), options).unwrap();
    assert_eq!(committed(&store, "large").unwrap(), "2".repeat(100_000).into_bytes());
    assert_eq!(committed(&store, "small").unwrap(), b"2 again");
}

#[test]
fn appended_entries_are_numbered_in_the_order_of_submit_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let append = |texts: &[&str]| {
        let mut batch = Batch::default();
        texts.iter().for_each(|text| batch.append(b"log/".to_vec(), text.as_bytes().to_vec()));
        batch
    };
    for _ in 0..2 {
        let store = Store::open(dir.path(), Options::default()).unwrap();
        let tickets = [submit(&store, append(&["a", "b"])), submit(&store, append(&["c"]))];
        tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
    }
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let entries = store.snapshot().range(Included(b"log/"), Excluded(b"log0")).unwrap();
    let (keys, values): (Vec<_>, Vec<_>) =
        entries.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).unzip();
    assert_eq!(values.concat(), b"abcabc");
    let numbers = keys.iter().map(|key| u64::from_be_bytes(*key.last_chunk().unwrap()));
    assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_batch_too_large_to_queue_is_refused() {
    let mut batch = Batch::default();
    for n in 0..9_u8 {
        batch.delete(vec![n; 32 << 20]);
    }
    assert!(matches!(memory().write(batch), Err(Error::TooLarge { .. })));
}

#[test]
fn a_queue_that_is_full_says_busy_and_drains() {
    let gate = Arc::new(Mutex::new(()));
    let disk = GatedDisk { disk: FaultyDisk::default(), gate: Arc::clone(&gate) };
    let store = Store::on_disk(disk, Options::default()).unwrap();
    let shut = gate.lock().unwrap();
    let mut tickets = Vec::new();
    let refused = (0..20_u8).find_map(|n| {
        let mut batch = Batch::default();
        batch.delete(vec![n; 16 << 20]);
        store.submit(batch, store.generation()).map(|ticket| tickets.push(ticket)).err()
    });
    assert!(matches!(refused, Some(Error::Busy { .. })));
    // Each has a few bytes beside its 16 MiB: the sixteenth begins below the limit of 256 MiB and ends beyond it.
    assert_eq!(tickets.len(), 16);
    drop(shut);
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    store.write(puts(&[("a", "1")])).unwrap();
}

/// A disk that syncs only while the gate is open.
#[derive(Debug)]
struct GatedDisk {
    disk: FaultyDisk,
    gate: Arc<Mutex<()>>,
}

impl Disk for GatedDisk {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        let _open = self.gate.lock().unwrap();
        self.disk.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.write(offset, data)
    }
}

#[test]
fn reads_and_submits_do_not_wait_for_a_sync() {
    let gate = Arc::new(Mutex::new(()));
    let disk = GatedDisk { disk: FaultyDisk::default(), gate: Arc::clone(&gate) };
    let store = Store::on_disk(disk, Options { log_bytes: 1 << 20, ..Options::default() }).unwrap();
    store.write(puts(&[("a", "1")])).unwrap();
    let shut = gate.lock().unwrap();
    let tickets: Vec<_> = (2..9).map(|n| submit(&store, puts(&[("a", &n.to_string())]))).collect();
    assert_eq!(committed(&store, "a"), Some(b"1".to_vec()));
    assert_eq!(latest(&store, "a"), Some(b"8".to_vec()));
    drop(shut);
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    assert_eq!(committed(&store, "a"), Some(b"8".to_vec()));
}

#[test]
fn relaxed_writes_are_visible_once_answered() {
    let store = Store::memory(Options { durability: Durability::Relaxed, ..Options::default() }).unwrap();
    for n in 0..100 {
        store.write(puts(&[("a", &n.to_string())])).unwrap();
        assert_eq!(committed(&store, "a"), Some(n.to_string().into_bytes()));
    }
}

/// A disk that has the next batch queued whenever one is written, until there is a sync.
#[derive(Debug)]
struct FeedingDisk {
    disk: FaultyDisk,
    fed: Arc<Mutex<Option<Store>>>,
}

impl Disk for FeedingDisk {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.fed.lock().unwrap().take();
        self.disk.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Some(store) = &*self.fed.lock().unwrap() {
            submit(store, puts(&[("a", "1")]));
        }
        self.disk.write(offset, data)
    }
}

#[test]
fn a_relaxed_write_is_synced_soon_although_others_follow() {
    let fed = Arc::new(Mutex::new(None));
    let disk = FeedingDisk { disk: FaultyDisk::default(), fed: Arc::clone(&fed) };
    let options = Options { durability: Durability::Relaxed, ..Options::default() };
    let store = Store::on_disk(disk, options).unwrap();
    store.write(puts(&[("a", "1")])).unwrap();
    *fed.lock().unwrap() = Some(store.clone());
    store.write(puts(&[("a", "1")])).unwrap();
    let limit = Instant::now() + Duration::from_secs(1);
    while fed.lock().unwrap().is_some() && Instant::now() < limit {
        thread::yield_now();
    }
    assert!(fed.lock().unwrap().take().is_none(), "no sync within a second");
}

/// Each thread owns a key and counts it up on what `latest` says; all share a counter and read
/// snapshots in which two keys must always agree.
#[test]
fn sixty_four_writers_lose_nothing() {
    const THREADS: usize = 64;
    const WRITES: usize = 50;
    let store = memory();
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for writer in 0..THREADS {
            let (store, barrier) = (&store, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let (left, right) = (format!("left/{writer}"), format!("right/{writer}"));
                for n in 0..WRITES {
                    let before = latest(store, &left).map_or(0, |value| count(&value));
                    assert_eq!(before, n);
                    let value = (n + 1).to_string();
                    let mut batch = puts(&[(&left, &value), (&right, &value)]);
                    batch.add(b"total".to_vec(), [1, writer as i64]);
                    let ticket = submit(store, batch);
                    assert_eq!(latest(store, &left).map(|value| count(&value)), Some(n + 1));
                    if n % 3 == 0 {
                        ticket.wait().unwrap();
                    }
                    let snapshot = store.snapshot();
                    let value = |key: &str| snapshot.get(key.as_bytes()).unwrap().map(|value| value.to_vec());
                    assert_eq!(value(&left), value(&right));
                }
            });
        }
    });
    store.write(Batch::default()).unwrap();
    let total = counters(&committed(&store, "total").unwrap()).unwrap();
    assert_eq!(total, [(THREADS * WRITES) as i64, (WRITES * THREADS * (THREADS - 1) / 2) as i64]);
}

fn count(value: &[u8]) -> usize {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}
