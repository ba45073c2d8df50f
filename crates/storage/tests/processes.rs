//! Several processes and one directory: whoever opens a store sees all that the one before it wrote.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use larder_storage::faulty::{FaultyDisk, Lasting, Operation};
use larder_storage::{Batch, Disk, Durability, Error, Options, Store};
use parking_lot::Mutex;
use redb::BackendError;
use redb::backends::FileBackend;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::ops::Bound;
use std::path::Path;

fn options() -> Options {
    Options { durability: Durability::Immediate, log_bytes: 64 << 10, ..Options::default() }
}

fn put(store: &Store, key: &str) -> Result<(), Error> {
    let mut batch = Batch::default();
    batch.put(key.as_bytes().to_vec(), b"value".to_vec());
    store.write(batch)
}

fn holds(store: &Store, key: &str) -> bool {
    store.snapshot().get(key.as_bytes()).unwrap().is_some()
}

fn file(path: &Path) -> FileBackend {
    FileBackend::new(OpenOptions::new().read(true).write(true).open(path).unwrap()).unwrap()
}

/// A file that another process has until the moment this one asks for it.
struct Contested {
    file: FileBackend,
    before: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Contested {
    fn new(path: &Path, before: impl FnOnce() + Send + 'static) -> Self {
        Self { file: file(path), before: Mutex::new(Some(Box::new(before))) }
    }
}

impl fmt::Debug for Contested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contested")
    }
}

impl Disk for Contested {
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
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        if let Some(before) = self.before.lock().take() {
            before();
        }
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        if let Some(before) = self.before.lock().take() {
            before();
        }
        self.file.try_lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}

#[test]
fn what_was_written_until_the_lock_was_free_is_seen() {
    for read_only in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("larder.redb");
        let first = Store::open(dir.path(), options()).unwrap();
        put(&first, "early").unwrap();
        let disk = Contested::new(&path, move || {
            (0..200).for_each(|n| put(&first, &format!("late {n}")).unwrap());
            first.close().unwrap();
        });
        let open = if read_only { Store::on_disk_read_only } else { Store::on_disk };
        let second = open(disk, options()).unwrap();
        assert!(holds(&second, "early") && (0..200).all(|n| holds(&second, &format!("late {n}"))));
        assert_eq!(second.activity().unwrap().damaged_pages, 0);
    }
}

#[test]
fn a_store_that_another_process_finished_is_not_begun_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("larder.redb");
    // As it is after the headers were written.
    let disk = FaultyDisk::default();
    disk.fail(Operation::Change, 6, Lasting::Forever);
    assert!(Store::on_disk(disk.clone(), options()).is_err());
    fs::write(&path, disk.bytes()).unwrap();
    let other = path.clone();
    let disk = Contested::new(&path, move || {
        let store = Store::on_disk(file(&other), options()).unwrap();
        put(&store, "there").unwrap();
        store.close().unwrap();
    });
    let store = Store::on_disk(disk, options()).unwrap();
    assert!(holds(&store, "there"));
}

#[test]
fn a_store_has_one_process_also_while_it_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    put(&store, "there").unwrap();
    assert!(matches!(Store::open(dir.path(), options()), Err(Error::InUse { .. })));
    assert!(matches!(Store::open_read_only(dir.path(), options()), Err(Error::InUse { .. })));
    store.close().unwrap();
    let readers = [(); 2].map(|()| Store::open_read_only(dir.path(), options()).unwrap());
    assert!(readers.iter().all(|store| holds(store, "there")));
    assert!(matches!(Store::open(dir.path(), options()), Err(Error::InUse { .. })));
    drop(readers);
    assert!(holds(&Store::open(dir.path(), options()).unwrap(), "there"));
}
