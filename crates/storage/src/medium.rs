//! The disk under redb, with a way back from its errors.
//!
//! redb gives up after the first failed write: every later operation on that `Database` fails, reads
//! included, until it is opened anew, and opening writes. So a full disk would take reads down. A
//! `Medium` outlives the `Database`s opened on it and lets a fresh one open although nothing can be
//! written: its writes go to a journal in memory, reads see disk and journal together. When the disk
//! works again the journal is replayed in order, syncs included, and the disk has then seen exactly
//! what redb did.
//!
//! A failed sync leaves it open which of the earlier writes are on disk, and the system may not try
//! them again. The journal therefore starts with everything written since the last good sync.
//!
//! Each `Database` gets a `Lease`. Taking the next one revokes it: a revoked lease can do nothing,
//! so an abandoned `Database`, which writes when dropped, cannot harm its successor. The file's lock
//! stays held in between.

use crate::Disk;
use parking_lot::Mutex;
use redb::BackendError;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Medium {
    disk: Section,
    /// The lease in force.
    lease: AtomicU64,
    journaling: AtomicBool,
    /// The lease in force could not read.
    read_failed: AtomicBool,
    examined: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Where bytes were written since the last good sync.
    unsynced: Vec<(u64, usize)>,
    journal: Vec<Step>,
    journal_len: u64,
    locks: Vec<(Bound<u64>, Bound<u64>)>,
}

#[derive(Debug)]
enum Step {
    Write { offset: u64, data: Vec<u8> },
    SetLen(u64),
    Sync,
}

impl Medium {
    pub(crate) fn new(disk: Section) -> Arc<Self> {
        Arc::new(Self {
            disk,
            lease: AtomicU64::new(0),
            journaling: AtomicBool::new(false),
            read_failed: AtomicBool::new(false),
            examined: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    /// For a first `Database`: writes go to the disk.
    pub(crate) fn lease(self: &Arc<Self>) -> Lease {
        Lease { medium: Arc::clone(self), number: self.lease.load(Ordering::Acquire) }
    }

    /// For the `Database` after one that failed: revokes its lease, and keeps writes in the journal
    /// until `restore`.
    pub(crate) fn lease_after_failure(self: &Arc<Self>) -> io::Result<Lease> {
        let mut state = self.state.lock();
        self.lease.fetch_add(1, Ordering::AcqRel);
        let disk_len = self.disk.len()?;
        let mut journal = Vec::with_capacity(state.unsynced.len());
        for &(offset, length) in &state.unsynced {
            let length = disk_len.saturating_sub(offset).min(length as u64) as usize;
            if length == 0 {
                continue;
            }
            let mut data = vec![0; length];
            self.disk.read(offset, &mut data)?;
            journal.push(Step::Write { offset, data });
        }
        state.journal = journal;
        state.journal_len = disk_len;
        self.journaling.store(true, Ordering::Release);
        self.read_failed.store(false, Ordering::Release);
        drop(state);
        Ok(self.lease())
    }

    /// Empties a disk on which redb's first open was cut short.
    ///
    /// redb marks a file as its own last of all, and later refuses one without the mark. Such a file
    /// has no page in it yet, only a header, so nothing can be lost.
    fn discard_unfinished(&self) -> io::Result<()> {
        const MARK_BYTES: u64 = 9;
        const HEADER_BYTES: u64 = 512;
        let len = self.disk.len()?;
        let mut mark = vec![0; MARK_BYTES.min(len) as usize];
        self.disk.read(0, &mut mark)?;
        let unmarked = mark.iter().all(|byte| *byte == 0);
        if len > 0 && unmarked && is_blank(&self.disk, HEADER_BYTES)? { self.disk.set_len(0) } else { Ok(()) }
    }

    /// The size of all of it, the log included.
    pub(crate) fn bytes(&self) -> io::Result<u64> {
        self.disk.disk.len()
    }

    /// Lets the `Database` that holds the lease write no more.
    pub(crate) fn revoke(&self) {
        let _state = self.state.lock();
        self.lease.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn is_journaling(&self) -> bool {
        self.journaling.load(Ordering::Acquire)
    }

    pub(crate) fn mark_unreadable(&self) {
        self.read_failed.store(true, Ordering::Release);
    }

    pub(crate) fn read_failed(&self) -> bool {
        self.read_failed.load(Ordering::Relaxed)
    }

    /// Brings the disk to the state of the journal. After an error it can be called again.
    pub(crate) fn restore(&self) -> io::Result<()> {
        if !self.journaling.load(Ordering::Acquire) {
            return Ok(());
        }
        let state = &mut *self.state.lock();
        state.journal.push(Step::Sync);
        while let Some(sync) = state.journal.iter().position(|step| matches!(step, Step::Sync)) {
            for step in &state.journal[..sync] {
                match step {
                    Step::Write { offset, data } => {
                        state.unsynced.push((*offset, data.len()));
                        self.disk.write(*offset, data)?;
                    }
                    Step::SetLen(len) => self.disk.set_len(*len)?,
                    Step::Sync => {}
                }
            }
            self.disk.sync_data()?;
            state.unsynced.clear();
            // Only what is synced is forgotten, so that a repeated attempt starts from there.
            state.journal.drain(..=sync);
        }
        self.journaling.store(false, Ordering::Release);
        Ok(())
    }
}

/// What one `Database` holds of a medium.
#[derive(Debug)]
pub(crate) struct Lease {
    medium: Arc<Medium>,
    number: u64,
}

impl Lease {
    fn check(&self) -> io::Result<()> {
        if self.medium.lease.load(Ordering::Acquire) == self.number {
            Ok(())
        } else {
            Err(io::Error::other("the store was reopened after a disk error"))
        }
    }

    fn journaling(&self) -> bool {
        self.medium.journaling.load(Ordering::Acquire)
    }
}

impl Disk for Lease {
    fn len(&self) -> io::Result<u64> {
        self.check()?;
        // redb asks for the length first of all once it has the lock.
        if !self.medium.examined.swap(true, Ordering::AcqRel) {
            self.medium.discard_unfinished()?;
        }
        if self.journaling() { Ok(self.medium.state.lock().journal_len) } else { self.medium.disk.len() }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let read = if self.journaling() {
            read_through(&self.medium.disk, &self.medium.state.lock(), offset, out)
        } else {
            self.medium.disk.read(offset, out)
        };
        // After the read: a successor may have been writing meanwhile.
        self.check()?;
        read.inspect_err(|_| self.medium.read_failed.store(true, Ordering::Release))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.medium.state.lock();
        self.check()?;
        if self.journaling() {
            state.journal.push(Step::SetLen(len));
            state.journal_len = len;
            return Ok(());
        }
        self.medium.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let covered = {
            let mut state = self.medium.state.lock();
            self.check()?;
            if self.journaling() {
                state.journal.push(Step::Sync);
                return Ok(());
            }
            std::mem::take(&mut state.unsynced)
        };
        let synced = self.medium.disk.sync_data();
        if synced.is_err() {
            self.medium.state.lock().unsynced.splice(0..0, covered);
        }
        synced
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.medium.state.lock();
        self.check()?;
        if self.journaling() {
            state.journal.push(Step::Write { offset, data: data.to_vec() });
            return Ok(());
        }
        state.unsynced.push((offset, data.len()));
        self.medium.disk.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        if self.check().is_err() {
            return Ok(());
        }
        self.medium.state.lock().locks.clear();
        self.medium.disk.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.locked(start, end, || self.medium.disk.try_lock_range(start, end))
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.locked(start, end, || self.medium.disk.try_lock_shared_range(start, end))
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.locked(start, end, || self.medium.disk.lock_range(start, end).map(|()| true)).map(drop)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.locked(start, end, || self.medium.disk.lock_shared_range(start, end).map(|()| true)).map(drop)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        let mut state = self.medium.state.lock();
        if self.check().is_err() {
            return Ok(());
        }
        state.locks.retain(|held| *held != (start, end));
        self.medium.disk.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.medium.disk.query_lock_range(start, end)
    }
}

impl Lease {
    /// A lock that an earlier lease took is still held, and is this one's now.
    fn locked(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
        lock: impl FnOnce() -> Result<bool, BackendError>,
    ) -> Result<bool, BackendError> {
        let mut state = self.medium.state.lock();
        self.check()?;
        if state.locks.contains(&(start, end)) {
            return Ok(true);
        }
        let taken = lock()?;
        if taken {
            state.locks.push((start, end));
        }
        Ok(taken)
    }
}

/// Whether a disk holds nothing but zeros from an offset on.
pub(crate) fn is_blank(disk: &dyn Disk, from: u64) -> io::Result<bool> {
    const CHUNK_BYTES: u64 = 64 << 10;
    let len = disk.len()?;
    let mut chunk = vec![0; CHUNK_BYTES as usize];
    for offset in (from..len).step_by(CHUNK_BYTES as usize) {
        let chunk = &mut chunk[..CHUNK_BYTES.min(len - offset) as usize];
        disk.read(offset, chunk)?;
        if chunk.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Locks are those of the disk below, in `self.disk`.
macro_rules! forward_locks {
    () => {
        fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
            self.disk.try_lock_range(start, end)
        }

        fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
            self.disk.try_lock_shared_range(start, end)
        }

        fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
            self.disk.lock_range(start, end)
        }

        fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
            self.disk.lock_shared_range(start, end)
        }

        fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
            self.disk.unlock_range(start, end)
        }

        fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
            self.disk.query_lock_range(start, end)
        }
    };
}
pub(crate) use forward_locks;

/// A part of a disk, which looks like a disk of its own. Its sync is one of the whole disk.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    disk: Arc<dyn Disk>,
    start: u64,
    /// Where it ends; the last one ends where the disk does.
    end: Option<u64>,
}

impl Section {
    pub(crate) fn from(disk: Arc<dyn Disk>, start: u64) -> Self {
        Self { disk, start, end: None }
    }

    pub(crate) fn between(disk: Arc<dyn Disk>, start: u64, end: u64) -> Self {
        Self { disk, start, end: Some(end) }
    }

    /// The size of a section that has an end of its own.
    pub(crate) fn bytes(&self) -> u64 {
        self.end.map_or(0, |end| end - self.start)
    }
}

impl Disk for Section {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.len()?.min(self.end.unwrap_or(u64::MAX)).saturating_sub(self.start))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(self.start + offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(self.start + len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.write(self.start + offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.disk.close()
    }

    forward_locks!();
}

/// Reads what the disk would hold if the journal were replayed.
fn read_through(disk: &dyn Disk, state: &State, offset: u64, out: &mut [u8]) -> io::Result<()> {
    let end = offset + out.len() as u64;
    if end > state.journal_len {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "read past the end of the disk"));
    }
    let on_disk = disk.len()?.saturating_sub(offset).min(out.len() as u64) as usize;
    let (present, absent) = out.split_at_mut(on_disk);
    if !present.is_empty() {
        disk.read(offset, present)?;
    }
    absent.fill(0);
    for step in &state.journal {
        match step {
            Step::Write { offset: at, data } => overlay(offset, out, *at, data),
            // What lies past a shorter end is zeros if the disk grows again.
            Step::SetLen(len) => {
                let kept = len.saturating_sub(offset).min(out.len() as u64) as usize;
                out[kept..].fill(0);
            }
            Step::Sync => {}
        }
    }
    Ok(())
}

fn overlay(offset: u64, out: &mut [u8], at: u64, data: &[u8]) {
    let start = at.max(offset);
    let end = (at + data.len() as u64).min(offset + out.len() as u64);
    if start < end {
        let length = (end - start) as usize;
        let (to, from) = ((start - offset) as usize, (start - at) as usize);
        out[to..to + length].copy_from_slice(&data[from..from + length]);
    }
}
