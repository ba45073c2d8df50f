//! The store's handle: opening, reading, submitting, closing.

use crate::commit::{Activity, Committer, Generation, Shared, Ticket};
use crate::file::{self, FILE_NAME, Parts};
use crate::log::Log;
use crate::medium::{Medium, Section};
use crate::snapshot::{self, Bytes, Snapshot};
use crate::{Batch, Disk, Error, Feed, Key};
use arc_swap::Guard;
use parking_lot::Mutex;
use redb::backends::{FileBackend, InMemoryBackend};
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub durability: Durability,
    /// Memory for pages; taken as it is used.
    pub cache_bytes: usize,
    /// Room for writes before the tree takes them, in a new store. More of it makes writing faster, and
    /// opening after a crash slower.
    pub log_bytes: u64,
    /// Encrypts a new store, and opens an encrypted one.
    pub key: Option<Key>,
}

impl Default for Options {
    fn default() -> Self {
        Self { durability: Durability::Immediate, cache_bytes: 256 << 20, log_bytes: 32 << 20, key: None }
    }
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Once it is on disk.
    Immediate,
    /// Once it is visible; on disk about 100 ms later, and on close.
    Relaxed,
}

/// An open store. Clones share it; the last one to go closes it, and blocks its thread meanwhile.
#[derive(Clone, Debug)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens the store in `dir`, creating both if absent. One process may have it open.
    pub fn open(dir: &Path, options: Options) -> Result<Store, Error> {
        let new_dir = !dir.exists();
        fs::create_dir_all(dir)?;
        let path = dir.join(FILE_NAME);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        sync_entry(dir)?;
        if new_dir && let Some(parent) = dir.canonicalize()?.parent() {
            sync_entry(parent)?;
        }
        Self::on_disk(FileBackend::new(file)?, options).map_err(|error| error.at(&path))
    }

    /// Whether there is a store in `dir`: its file, with something in it.
    pub fn is_in(dir: &Path) -> bool {
        fs::metadata(dir.join(FILE_NAME)).is_ok_and(|file| file.len() > 0)
    }

    /// A store that is gone when it closes.
    pub fn memory(options: Options) -> Result<Store, Error> {
        let tree = Section::from(Arc::new(InMemoryBackend::new()), 0);
        Self::on_parts(Parts { log: None, tree, is_new: false }, options)
    }

    pub fn on_disk(disk: impl Disk, options: Options) -> Result<Store, Error> {
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let parts = file::parts(Arc::clone(&disk), options.log_bytes, options.key)?;
        let is_new = parts.is_new;
        let store = Self::on_parts(parts, options)?;
        if is_new {
            file::finish(&*disk)?;
        }
        Ok(store)
    }

    fn on_parts(parts: Parts, options: Options) -> Result<Store, Error> {
        let log = parts.log.map(|section| if parts.is_new { Log::blank(section) } else { Log::new(section) });
        let committer = Committer::open(Medium::new(parts.tree), log, options)?;
        let shared = committer.shared();
        let thread =
            thread::Builder::new().name("larder-commit".to_owned()).spawn(move || committer.run())?;
        Ok(Store(Arc::new(Inner { shared, thread: Mutex::new(Some(thread)) })))
    }

    /// The last committed state. Waits for nothing.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(Guard::into_inner(self.0.shared.table()))
    }

    /// Changes only when submitted batches may have been lost, which takes a disk error.
    pub fn generation(&self) -> Generation {
        self.0.shared.generation()
    }

    /// The value a writer builds on: the last commit, and every batch submitted since.
    pub fn latest(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        // The overlay first: a batch leaves it only after it is in the table.
        if let Some(pending) = self.0.shared.pending(key) {
            return Ok(pending.map(Bytes::pending));
        }
        Ok(snapshot::get(&self.0.shared.table(), key)?.map(Bytes::stored))
    }

    /// Whether `latest` rests on a batch that is not committed yet.
    pub fn is_pending(&self, key: &[u8]) -> bool {
        self.0.shared.pending(key).is_some() || self.0.shared.unsettled()
    }

    /// Queues a batch, which `latest` sees at once. The ticket says when it is durable.
    ///
    /// `seen` is the generation from before the batch's inputs were read. If it is no longer
    /// current the batch may rest on values that never became durable, and is refused.
    pub fn submit(&self, batch: Batch, seen: Generation) -> Result<Ticket, Error> {
        self.0.shared.submit(batch, seen)
    }

    /// Submits and waits. Blocks the thread.
    pub fn write(&self, batch: Batch) -> Result<(), Error> {
        self.submit(batch, self.generation())?.wait()
    }

    /// Every group that is committed from now on, in order, with the time that `clock` tells in milliseconds since 1970.
    /// None if another asked for it before: there is one feed.
    pub fn feed(&self, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Option<Arc<Feed>> {
        let feed = Arc::new(Feed::new(Box::new(clock)));
        self.0.shared.feed(Arc::clone(&feed)).then_some(feed)
    }

    /// What it has done so far, and how large it is.
    pub fn activity(&self) -> Result<Activity, Error> {
        self.0.shared.activity()
    }

    /// Refuses further writes, commits what is queued, and closes the file. Blocks the thread.
    ///
    /// Reads of later snapshots fail; so may those of snapshots still held.
    pub fn close(&self) -> Result<(), Error> {
        self.0.close()
    }
}

impl Inner {
    fn close(&self) -> Result<(), Error> {
        self.shared.close();
        let mut thread = self.thread.lock();
        // The commit thread itself can come here when it drops the last waker of a task that owns
        // the last handle; it ends by itself.
        if thread.as_ref().is_some_and(|handle| handle.thread().id() != thread::current().id())
            && let Some(handle) = thread.take()
            && handle.join().is_err()
        {
            return Err(Error::Damaged { cause: "the commit thread panicked".to_owned() });
        }
        self.shared.closing_result()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Every acknowledged batch is already on disk; there is nobody left to tell.
        let _ = self.close();
    }
}

/// Makes a new file's name survive power loss; syncing the file keeps only its contents.
fn sync_entry(dir: &Path) -> Result<(), Error> {
    // Elsewhere a directory cannot be opened as a file.
    if cfg!(unix) {
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(())
}
