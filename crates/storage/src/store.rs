//! The store's handle: opening, reading, submitting, closing.

use crate::archive::{self, Archive, Ready};
use crate::commit::{Activity, Committer, Generation, Shared, Ticket};
use crate::early;
use crate::file::{self, FILE_NAME, Parts, Use};
use crate::holder::Sign;
use crate::medium::{Base, Medium, Section};
use crate::place::{self, Place};
use crate::snapshot::{Bytes, Snapshot};
use crate::version::{self, Newer};
use crate::{Batch, Disk, Error, Feed, Key};
use arc_swap::Guard;
use parking_lot::Mutex;
use redb::backends::{FileBackend, InMemoryBackend};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::ops::RangeInclusive;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub durability: Durability,
    /// Memory for pages and for what the tree has not absorbed yet; taken as it is used. What the
    /// tree has not absorbed may take 8 MiB even where that is more than half of it.
    pub cache_bytes: usize,
    /// Room for writes before the tree takes them, in a new store. More of it makes writing faster, and
    /// opening after a crash slower.
    pub log_bytes: u64,
    /// How much may wait for the disk in memory before writes are refused, as [`Error::Busy`].
    pub queue_bytes: usize,
    /// Encrypts a new store, and opens an encrypted one.
    pub key: Option<Key>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Immediate,
            cache_bytes: 256 << 20,
            log_bytes: 32 << 20,
            queue_bytes: 256 << 20,
            key: None,
        }
    }
}

/// Less, and a table would be absorbed for a few entries; more, and opening after a crash would take long.
const TABLE_BYTES: RangeInclusive<usize> = 8 << 20..=40 << 20;
/// More does not make a copy faster.
const COPY_BYTES_MAX: usize = 16 << 20;
/// The system keeps what is read from a file too, so this is enough to go on with.
const PAGE_BYTES_MIN: usize = 4 << 20;

/// Whose the memory is.
impl Options {
    /// Of entries that the tree has not absorbed yet.
    pub(crate) fn table_bytes(&self) -> usize {
        (self.cache_bytes / 2).clamp(*TABLE_BYTES.start(), *TABLE_BYTES.end())
    }

    /// Of pages of a copy that is being made.
    pub(crate) fn copy_bytes(&self) -> usize {
        (self.cache_bytes / 8).min(COPY_BYTES_MAX)
    }

    /// Of pages of the tree.
    pub(crate) fn page_bytes(&self) -> usize {
        let rest = self.cache_bytes.saturating_sub(self.table_bytes() + self.copy_bytes());
        rest.max(self.cache_bytes.min(PAGE_BYTES_MIN))
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

/// What a new store is called until it is whole.
const UNFINISHED_NAME: &str = "larder.redb.new";
/// Times that opening begins anew because another process made, or made over, the store meanwhile.
const ATTEMPTS: usize = 8;

/// An open store. Clones share it; the last one to go closes it, and blocks its thread meanwhile.
#[derive(Clone, Debug)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    archive: Mutex<Option<Archive>>,
    /// Absent where the store is in no directory, or is only read.
    sign: Mutex<Option<Sign>>,
    sealed: bool,
    /// Who wrote it last before it was opened.
    writer: Option<String>,
}

impl Store {
    /// Opens the store in `dir`, creating both if absent, for this user alone. One process may have it open.
    pub fn open(dir: &Path, options: Options) -> Result<Store, Error> {
        let path = dir.join(FILE_NAME);
        // Nothing can be made under such a name, as if another process had been faster.
        for link in [dir, &path] {
            if link.is_symlink() && !link.try_exists()? {
                let cause = "it is a link to what is not there".to_owned();
                return Err(Error::Foreign { path: link.to_owned(), cause });
            }
        }
        // A file that is there was whole once: it took its name only then.
        for _ in 0..ATTEMPTS {
            if !path.try_exists()? {
                match Self::create(dir, options) {
                    // Another process was faster.
                    Err(Error::Io { kind: io::ErrorKind::AlreadyExists, .. }) => continue,
                    created => {
                        return created.map(|store| store.signed(dir)).map_err(|error| error.at(&path));
                    }
                }
            }
            let place = place::directory(dir);
            let opened = file_id(&path)?;
            match Self::on(file(&path, Use::Open)?, Some(place), options, Use::Open) {
                // Another process has let a copy take the file's place since, and has closed both.
                Ok(store) if file_id(&path)? != opened => drop(store),
                Err(Error::Early { .. }) => Self::renew(dir, options).map_err(|error| error.at(&path))?,
                opened => return opened.map(|store| store.signed(dir)).map_err(|error| error.at(&path)),
            }
        }
        Err(Error::InUse { path: path.clone(), by: None }.at(&path))
    }

    /// Opens the store in `dir` and leaves every byte of it as it is. Nobody may have it open for writing. Writes are
    /// refused.
    pub fn open_read_only(dir: &Path, options: Options) -> Result<Store, Error> {
        let path = dir.join(FILE_NAME);
        if !path.try_exists()? {
            return Err(Error::Missing { path: dir.to_owned() });
        }
        Self::on(file(&path, Use::Read)?, None, options, Use::Read).map_err(|error| error.at(&path))
    }

    /// Makes a store under another name, and gives it its own when it is whole.
    fn create(dir: &Path, options: Options) -> Result<Store, Error> {
        let new_dir = !dir.exists();
        create_dir(dir)?;
        if new_dir && let Some(parent) = dir.canonicalize()?.parent() {
            sync_entry(parent)?;
        }
        let (path, unfinished) = (dir.join(FILE_NAME), dir.join(UNFINISHED_NAME));
        let place = place::directory(dir);
        let store = Self::on(file(&unfinished, Use::Create)?, Some(place), options, Use::Create)
            .map_err(|error| error.at(&unfinished))?;
        // Unlike a rename, a link replaces nothing that came meanwhile.
        match fs::hard_link(&unfinished, &path) {
            Ok(()) => fs::remove_file(&unfinished)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                store.close()?;
                let _ = fs::remove_file(&unfinished);
                return Err(error.into());
            }
            // Another process gave it its name.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                store.close()?;
                return Err(io::Error::from(io::ErrorKind::AlreadyExists).into());
            }
            // Not every file system has links.
            Err(_) => fs::rename(&unfinished, &path)?,
        }
        sync_entry(dir)?;
        Ok(store)
    }

    /// Copies a store of an early format into a new file, which takes its place when it is whole.
    fn renew(dir: &Path, options: Options) -> Result<(), Error> {
        let (path, unfinished) = (dir.join(FILE_NAME), dir.join(UNFINISHED_NAME));
        let early: Arc<dyn Disk> = Arc::new(file(&path, Use::Open)?);
        file::exclusively(&early, || {
            // Another process may have done it before this one had the lock.
            if file::early_version(&file::begin(&file(&path, Use::Read)?)?).is_none() {
                return Ok(());
            }
            // What an attempt left that was cut short.
            if unfinished.try_exists()? {
                fs::remove_file(&unfinished)?;
            }
            let store = Self::on(file(&unfinished, Use::Create)?, None, options, Use::Create)?;
            early::copy(Arc::clone(&early), options.key, &store)?;
            store.close()?;
            fs::rename(&unfinished, &path)?;
            Ok(sync_entry(dir)?)
        })
    }

    /// Whether there is a store in `dir`.
    pub fn is_in(dir: &Path) -> bool {
        dir.join(FILE_NAME).exists()
    }

    /// A store that is gone when it closes.
    pub fn memory(options: Options) -> Result<Store, Error> {
        let tree = Base::Plain(Section::from(Arc::new(InMemoryBackend::new()), 0));
        let parts = Parts { lock: None, log: None, tree, is_new: false, written: None };
        Self::on_parts(parts, None, options, Use::Create)
    }

    /// A store on any disk; a blank one becomes a new store.
    pub fn on_disk(disk: impl Disk, options: Options) -> Result<Store, Error> {
        Self::on(disk, None, options, Use::Create)
    }

    /// The same, in surroundings that a directory has.
    pub fn on_place(disk: impl Disk, place: impl Place, options: Options) -> Result<Store, Error> {
        Self::on(disk, Some(Box::new(place)), options, Use::Create)
    }

    /// A store on any disk, which is left as it is. Writes are refused.
    pub fn on_disk_read_only(disk: impl Disk, options: Options) -> Result<Store, Error> {
        Self::on(disk, None, options, Use::Read)
    }

    fn on(
        disk: impl Disk,
        place: Option<Box<dyn Place>>,
        options: Options,
        purpose: Use,
    ) -> Result<Store, Error> {
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let parts = file::parts(&disk, options.log_bytes, options.key, purpose)?;
        let (is_new, written) = (parts.is_new, parts.written.clone());
        let store = Self::on_parts(parts, place, options, purpose)?;
        if is_new {
            file::finish(&*disk)?;
        }
        // Not before the tree has opened: what this Larder does not know stays another's.
        if purpose != Use::Read
            && let Some(written) = written
        {
            version::note(&*disk, written.heads)?;
        }
        Ok(store)
    }

    fn on_parts(
        parts: Parts,
        place: Option<Box<dyn Place>>,
        options: Options,
        purpose: Use,
    ) -> Result<Store, Error> {
        let read_only = purpose == Use::Read;
        let medium = if read_only {
            Medium::read_only(parts.tree, parts.lock)?
        } else {
            Medium::new(parts.tree, parts.lock)
        };
        let writer = parts.written.and_then(|written| written.writer);
        let committer = Committer::open(medium, parts.log, place, options, read_only).map_err(|error| {
            // The tree does not know who wrote it.
            match error {
                Error::Newer(newer) => Error::Newer(Box::new(Newer { writer: writer.clone(), ..*newer })),
                other => other,
            }
        })?;
        let shared = committer.shared();
        let thread =
            thread::Builder::new().name("larder-commit".to_owned()).spawn(move || committer.run())?;
        let (thread, sealed) = (Mutex::new(Some(thread)), options.key.is_some());
        Ok(Store(Arc::new(Inner {
            shared,
            thread,
            archive: Mutex::default(),
            sign: Mutex::default(),
            sealed,
            writer,
        })))
    }

    fn signed(self, dir: &Path) -> Self {
        *self.0.sign.lock() = Some(Sign::put(dir, None));
        self
    }

    /// Tells those who find the store in use where it is served. Nothing secret: a URL.
    pub fn announce(&self, address: &str) {
        if let Some(sign) = &*self.0.sign.lock() {
            sign.address(address);
        }
    }

    /// The last committed state. Waits for nothing.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(Guard::into_inner(self.0.shared.view()))
    }

    /// Changes only when submitted batches may have been lost, which takes a disk error.
    pub fn generation(&self) -> Generation {
        self.0.shared.generation()
    }

    /// The value a writer builds on: the last commit, and every batch submitted since.
    pub fn latest(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        // The overlay first: a batch leaves it only after it is in the state that is read.
        if let Some(pending) = self.0.shared.pending(key) {
            return Ok(pending.map(Bytes::pending));
        }
        Ok(self.0.shared.view().get(key)?.map(Bytes::stored))
    }

    /// Whether `latest` rests on a batch that is not committed yet.
    pub fn is_pending(&self, key: &[u8]) -> bool {
        self.0.shared.pending(key).is_some()
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

    /// Archives every commit from now on, with the time that `clock` tells in milliseconds since 1970; what is removed for
    /// its age goes by `settled`, which must not be ahead of the truth. Closing the store ends it. A store has one archive
    /// or one feed.
    pub fn archive_to(
        &self,
        options: archive::Options,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
        settled: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let mut archive = self.0.archive.lock();
        let dir = options.dir.clone();
        let ready = Ready::new(options)?;
        let before = self.snapshot().position();
        let Some(feed) = self.feed(clock) else {
            return Err(Error::Backup { path: dir, cause: "the store is archived already".to_owned() });
        };
        *archive = Some(Archive::start(&self.0.shared, before, feed, Box::new(settled), ready)?);
        Ok(())
    }

    /// Whether it is encrypted.
    pub fn is_sealed(&self) -> bool {
        self.0.sealed
    }

    /// The version of the Larder that wrote it last before it was opened, if the file tells; of a new one this.
    pub fn writer(&self) -> Option<&str> {
        self.0.writer.as_deref()
    }

    /// How its archive is doing, if it has one.
    pub fn archive_status(&self) -> Option<archive::Status> {
        self.0.archive.lock().as_ref().map(Archive::status)
    }

    /// What it has done so far, and how large it is.
    pub fn activity(&self) -> Result<Activity, Error> {
        self.0.shared.activity()
    }

    /// Why the last attempt to write failed; none once one has succeeded.
    pub fn write_fault(&self) -> Option<Error> {
        self.0.shared.write_fault()
    }

    /// Pages that hold no entries and cannot be read: without them nothing can be written. Only a store that is opened for
    /// reading looks for them.
    pub fn unreadable_pages(&self) -> Result<u64, Error> {
        self.0.shared.unreadable_pages()
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
        // While the lock is still held: afterwards the note may be another's.
        drop(self.sign.lock().take());
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
        if thread.is_none()
            && let Some(archive) = self.archive.lock().take()
        {
            archive.finish();
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

/// A directory that is made is for this user alone.
pub(crate) fn create_dir(dir: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Tells one file from another that has its name later.
fn file_id(path: &Path) -> io::Result<[u64; 2]> {
    let found = fs::metadata(path)?;
    #[cfg(unix)]
    return Ok([found.dev(), found.ino()]);
    // Elsewhere a file that is open keeps its name.
    #[cfg(not(unix))]
    return Ok([0, found.len() & 0]);
}

/// A file that is made is for this user alone.
pub(crate) fn file(path: &Path, purpose: Use) -> Result<FileBackend, Error> {
    // Opening a pipe waits for somebody at its other end.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(Error::Foreign { path: path.to_owned(), cause: "it is not a file".to_owned() });
    }
    let mut options = OpenOptions::new();
    options.read(true).write(purpose != Use::Read).create(purpose == Use::Create).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    // Nobody asks when the file was last read, and noting it is a part of every read. Not for a file of somebody else.
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fcntl_getfl(&file)
        .and_then(|flags| rustix::fs::fcntl_setfl(&file, flags | rustix::fs::OFlags::NOATIME));
    Ok(FileBackend::new(file)?)
}

/// Makes a new file's name survive power loss; syncing the file keeps only its contents.
pub(crate) fn sync_entry(dir: &Path) -> io::Result<()> {
    // Elsewhere a directory cannot be opened as a file.
    if cfg!(unix) {
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(())
}
