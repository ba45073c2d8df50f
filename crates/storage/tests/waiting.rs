//! What goes on while the tree's thread does not: its disk hangs, or the tree is being opened again.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use larder_storage::faulty::FaultyDisk;
use larder_storage::{Batch, Disk, Durability, Options, Store};
use parking_lot::{Condvar, Mutex};
use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
const OPTIONS: Options = Options {
    durability: Durability::Immediate,
    cache_bytes: 64 << 10,
    log_bytes: LOG_BYTES,
    queue_bytes: 256 << 20,
    key: None,
};
const LOG_BYTES: u64 = 64 << 10;
const HEAD: u64 = 2 * PAGE + (128 << 10);
const ROOTS: Range<u64> = 2 * PAGE..HEAD;
const LOG: Range<u64> = HEAD..HEAD + LOG_BYTES;
const TREE: Range<u64> = 2 * HEAD + LOG_BYTES..u64::MAX;

const ENTRIES: u32 = 400;
/// The longest that something may take that takes a moment.
const LIMIT: Duration = Duration::from_secs(60);

fn key(n: u32) -> Vec<u8> {
    format!("key {n:06}").into_bytes()
}

fn put(key: Vec<u8>, value: Vec<u8>) -> Batch {
    let mut batch = Batch::default();
    batch.put(key, value);
    batch
}

/// On a page that nothing else is read from.
fn counter() -> Vec<u8> {
    [&key(300)[..], b" count"].concat()
}

fn count() -> Batch {
    let mut batch = Batch::default();
    batch.add(counter(), [1, 2]);
    batch
}

/// A store that was closed.
fn image() -> Vec<u8> {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), OPTIONS).unwrap();
    let mut batch = count();
    (0..ENTRIES).for_each(|n| batch.put(key(n), vec![7; 200]));
    store.write(batch).unwrap();
    store.close().unwrap();
    disk.bytes()
}

/// The same with a page that is damaged, and a key on it.
fn damaged(image: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let leaves = (TREE.start as usize..image.len()).step_by(PAGE as usize).filter(|at| image[*at] == 1);
    let mut damaged = leaves.filter_map(|leaf| {
        let mut image = image.to_vec();
        image[leaf + 2000] ^= 1;
        let store = Store::on_disk(FaultyDisk::from(image.clone()), OPTIONS).ok()?;
        let is_lost = |n: u32| store.snapshot().get(&key(n)).is_err();
        (is_lost(200) && !is_lost(300) && !is_lost(ENTRIES - 1)).then_some(image)
    });
    (damaged.next().unwrap(), key(200))
}

#[derive(Debug)]
struct GatedDisk {
    disk: FaultyDisk,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whoever writes there waits.
    shut: Range<u64>,
    is_waited_at: bool,
    /// Writes to the tree fail.
    is_broken: bool,
    /// Something was written to the log since the last sync.
    is_log_unsynced: bool,
    /// Who has written to the tree.
    writers: HashSet<ThreadId>,
}

impl Gate {
    fn open(&self) {
        let mut state = self.state.lock();
        (state.shut, state.is_broken) = (0..0, false);
        self.changed.notify_all();
    }
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
        self.gate.state.lock().is_log_unsynced = false;
        self.disk.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.gate.state.lock();
        while state.shut.contains(&offset) {
            state.is_waited_at = true;
            self.gate.changed.wait(&mut state);
        }
        state.is_log_unsynced |= LOG.contains(&offset);
        if state.is_broken && TREE.contains(&offset) {
            return Err(io::Error::other("broken"));
        }
        if TREE.contains(&offset) {
            state.writers.insert(thread::current().id());
        }
        drop(state);
        self.disk.write(offset, data)
    }
}

/// A store on a disk with a gate.
fn open(image: Vec<u8>, options: Options) -> (Store, Arc<Gate>) {
    let gate = Arc::<Gate>::default();
    let disk = GatedDisk { disk: FaultyDisk::from(image), gate: Arc::clone(&gate) };
    (Store::on_disk(disk, options).unwrap(), gate)
}

fn wait(what: &str, mut until: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_mins(1);
    while !until() {
        assert!(Instant::now() < limit, "{what} within a minute");
        thread::yield_now();
    }
}

#[test]
fn who_reads_and_who_counts_goes_on_when_the_tree_was_opened_again() {
    let image = image();
    for is_damaged in [false, true] {
        let (image, bad) = if is_damaged { damaged(&image) } else { (image.clone(), key(200)) };
        let (store, gate) = open(image, OPTIONS);
        let generation = store.generation();
        {
            let mut state = gate.state.lock();
            (state.shut, state.is_broken) = (ROOTS, !is_damaged);
        }
        // So much that the table goes to the tree, which cannot write it and is opened again.
        store.write(put(bad, b"new".to_vec())).unwrap();
        store.write(put(key(ENTRIES), vec![1; LOG_BYTES as usize / 2])).unwrap();
        wait("the tree is opened again", || gate.state.lock().is_waited_at);
        let counted = store.submit(count(), store.generation()).unwrap();
        let reading = thread::spawn({
            let store = store.clone();
            move || store.snapshot().get(&key(100)).map(|found| found.unwrap().to_vec())
        });
        // Both meet the tree that was given up.
        let limit = Instant::now() + Duration::from_millis(500);
        wait("a moment", || store.generation() != generation || Instant::now() > limit);
        gate.open();
        assert_eq!(reading.join().unwrap().unwrap(), vec![7; 200], "damaged: {is_damaged}");
        counted.wait().unwrap();
        assert_eq!(store.generation(), generation);
        assert_eq!(
            *store.snapshot().get(&counter()).unwrap().unwrap(),
            [2_i64, 4].map(i64::to_le_bytes).concat()
        );
    }
}

#[test]
fn a_relaxed_write_is_synced_soon_though_the_next_one_waits_for_room() {
    let options = Options { durability: Durability::Relaxed, ..OPTIONS };
    let (store, gate) = open(image(), options);
    gate.state.lock().shut = TREE;
    let written = Arc::new(AtomicU64::new(0));
    let writing = thread::spawn({
        let (store, written) = (store.clone(), Arc::clone(&written));
        move || {
            for n in 0..200 {
                store.write(put(key(n), vec![1; 1000])).unwrap();
                written.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    wait("the tree's thread waits", || gate.state.lock().is_waited_at);
    let (mut before, mut since) = (0, Instant::now());
    wait("a write waits for room, and those before it are synced", || {
        let now = written.load(Ordering::Relaxed);
        if now != before {
            (before, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_millis(500) && !gate.state.lock().is_log_unsynced
    });
    assert!(before < 200);
    gate.open();
    writing.join().unwrap();
}

#[test]
fn whoever_reads_does_not_write_to_the_tree() {
    const ENTRIES: u32 = 3_000;
    const ABSORBED: u64 = 6;
    // Each table is absorbed in several steps, which do not fit into the memory for pages.
    let (store, gate) = open(Vec::new(), Options { log_bytes: 1 << 20, ..OPTIONS });
    let all = |value: u8| {
        let mut batch = Batch::default();
        (0..ENTRIES).for_each(|n| batch.put(key(n), vec![value; 200]));
        batch
    };
    store.write(all(0)).unwrap();
    let done = AtomicBool::new(false);
    let readers = thread::scope(|scope| {
        let reading: Vec<_> = (0..2u32)
            .map(|reader| {
                let (store, done) = (&store, &done);
                scope.spawn(move || {
                    for n in (0..u32::MAX).take_while(|_| !done.load(Ordering::Relaxed)) {
                        let key = key(n.wrapping_mul(7_919 + reader) % ENTRIES);
                        assert!(store.snapshot().get(&key).unwrap().is_some());
                    }
                    thread::current().id()
                })
            })
            .collect();
        let (before, limit) = (store.activity().unwrap().checkpoints, Instant::now() + LIMIT);
        for value in 1..=u8::MAX {
            if store.activity().unwrap().checkpoints >= before + ABSORBED || Instant::now() > limit {
                break;
            }
            store.write(all(value)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(store.activity().unwrap().checkpoints >= before + ABSORBED);
        reading.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
    });
    let state = gate.state.lock();
    assert!(!state.writers.is_empty());
    assert!(readers.iter().all(|reader| !state.writers.contains(reader)));
}
