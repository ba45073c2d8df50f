//! The disk under redb, with a way back from its errors.
//!
//! redb gives up after the first failed operation: every later one on that `Database` fails, reads included,
//! until it is opened anew, and opening writes. So a full disk would take reads down. A `Medium` outlives the
//! `Database`s opened on it. After a failure it goes back to the last state that is certainly on disk, and lets a fresh
//! `Database` open there although nothing can be written: writes are held in memory, in layers that end where redb
//! asked for a sync, and reads see disk and layers together. When the disk works again, the layers are written
//! one after the other.
//!
//! A store that is only read is opened the same way, and its layers are never written.
//!
//! Each `Database` gets a `Lease`. Taking the next one revokes it: a revoked lease can do nothing,
//! so an abandoned `Database`, which writes when dropped, cannot harm its successor. The file's lock is none of their
//! business: it is taken before anything is read, and held until [`Medium::release`].

use crate::checked::{Checked, PAGE_BYTES};
use crate::file::Lock;
use crate::{Disk, Error, salvage};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};

/// What lies below.
#[derive(Debug)]
pub(crate) enum Base {
    Checked(Box<Checked>),
    /// Memory, which does not fail, or a file of an earlier format, which is only read.
    Plain(Section),
}

impl Base {
    fn len(&self) -> io::Result<u64> {
        match self {
            Self::Checked(checked) => Ok(checked.len()),
            Self::Plain(section) => section.len(),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Checked(checked) => checked.read(offset, out),
            Self::Plain(section) => section.read(offset, out),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match self {
            Self::Checked(checked) => checked.write(offset, data),
            Self::Plain(section) => section.write(offset, data),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        match self {
            Self::Checked(checked) => checked.set_len(len),
            Self::Plain(section) => section.set_len(len),
        }
    }

    fn sync(&self) -> io::Result<()> {
        match self {
            Self::Checked(checked) => checked.sync(),
            Self::Plain(section) => section.sync_data(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Medium {
    base: Base,
    /// The lease in force.
    lease: AtomicU64,
    /// Writes are held in memory.
    holding: AtomicBool,
    /// Nothing is ever written.
    read_only: bool,
    /// Nothing is written any more.
    frozen: AtomicBool,
    /// The lease in force could not read.
    read_failed: AtomicBool,
    /// The one thread that writes, once there is one.
    writer: OnceLock<ThreadId>,
    state: Mutex<State>,
    lock: Mutex<Option<Lock>>,
}

#[derive(Debug, Default)]
struct State {
    /// What is held, oldest first; each is to be synced before the next is written.
    layers: Vec<Layer>,
}

/// What redb wrote between two syncs.
#[derive(Clone, Debug, Default)]
struct Layer {
    len: u64,
    /// Parts of the first page.
    head: Vec<(u64, Vec<u8>)>,
    pages: HashMap<u64, Box<[u8]>>,
}

impl Layer {
    fn write(&mut self, offset: u64, data: &[u8]) {
        self.len = self.len.max(offset + data.len() as u64);
        if offset < PAGE_BYTES as u64 {
            self.head.push((offset, data.to_vec()));
            return;
        }
        for (page, bytes) in (offset / PAGE_BYTES as u64..).zip(data.chunks(PAGE_BYTES)) {
            self.pages.insert(page, bytes.into());
        }
    }
}

impl Medium {
    pub(crate) fn new(base: Base, lock: Option<Lock>) -> Arc<Self> {
        Arc::new(Self {
            base,
            lease: AtomicU64::new(0),
            holding: AtomicBool::new(false),
            read_only: false,
            frozen: AtomicBool::new(false),
            read_failed: AtomicBool::new(false),
            writer: OnceLock::new(),
            state: Mutex::default(),
            lock: Mutex::new(lock),
        })
    }

    /// For a store that is only read.
    pub(crate) fn read_only(base: Base, lock: Option<Lock>) -> io::Result<Arc<Self>> {
        let layer = Layer { len: base.len()?, ..Layer::default() };
        Ok(Arc::new(Self {
            base,
            lease: AtomicU64::new(0),
            holding: AtomicBool::new(true),
            read_only: true,
            frozen: AtomicBool::new(false),
            read_failed: AtomicBool::new(false),
            writer: OnceLock::new(),
            state: Mutex::new(State { layers: vec![layer] }),
            lock: Mutex::new(lock),
        }))
    }

    /// For a first `Database`.
    pub(crate) fn lease(self: &Arc<Self>) -> Lease {
        Lease { medium: Arc::clone(self), number: self.lease.load(Ordering::Acquire) }
    }

    /// For the `Database` after one that failed: revokes its lease, goes back to what is certainly on disk, and holds
    /// writes until `restore`. Also says whether what the other one wrote since then is certainly void.
    pub(crate) fn lease_after_failure(self: &Arc<Self>) -> (io::Result<Lease>, bool) {
        let mut state = self.state.lock();
        self.lease.fetch_add(1, Ordering::AcqRel);
        let voided = match &self.base {
            Base::Checked(checked) if !self.read_only => checked.roll_back(),
            Base::Checked(_) | Base::Plain(_) => true,
        };
        let lease = self.base.len().map(|len| {
            state.layers = vec![Layer { len, ..Layer::default() }];
            self.holding.store(true, Ordering::Release);
            self.read_failed.store(false, Ordering::Release);
            self.lease()
        });
        (lease, voided)
    }

    /// The size of all of it, the log included.
    pub(crate) fn bytes(&self) -> io::Result<u64> {
        match &self.base {
            Base::Checked(checked) => checked.disk_bytes(),
            Base::Plain(section) => section.disk.len(),
        }
    }

    /// Pages found damaged since it was opened.
    pub(crate) fn damaged_pages(&self) -> u64 {
        match &self.base {
            Base::Checked(checked) => checked.damaged_pages(),
            Base::Plain(_) => 0,
        }
    }

    /// Pages that redb needs for itself and that cannot be read. Not while they are written to.
    pub(crate) fn unreadable_pages(&self) -> Result<u64, Error> {
        match &self.base {
            Base::Checked(checked) if self.read_only => salvage::unreadable_pages(checked),
            Base::Checked(_) | Base::Plain(_) => Ok(0),
        }
    }

    /// Lets other processes have the disk. Nothing may be done with it any more.
    pub(crate) fn release(&self) {
        self.revoke();
        drop(self.lock.lock().take());
    }

    /// Lets the `Database` that holds the lease write no more.
    pub(crate) fn revoke(&self) {
        let _state = self.state.lock();
        self.lease.fetch_add(1, Ordering::AcqRel);
    }

    /// Refuses writes from now on; reads go on.
    pub(crate) fn freeze(&self) {
        let _state = self.state.lock();
        self.frozen.store(true, Ordering::Release);
    }

    /// Lets no other thread than this one write from now on.
    ///
    /// Where its memory is full, redb has whoever reads write out what a commit has left in it, and does without if that
    /// fails. A request would wait for the disk then, and for the sync that is due every few megabytes.
    pub(crate) fn write_here_only(&self) {
        let _ = self.writer.set(thread::current().id());
    }

    fn is_written_here(&self) -> bool {
        self.writer.get().is_none_or(|writer| *writer == thread::current().id())
    }

    /// What can be read may be in memory only.
    pub(crate) fn is_holding(&self) -> bool {
        self.holding.load(Ordering::Acquire)
    }

    pub(crate) fn mark_unreadable(&self) {
        self.read_failed.store(true, Ordering::Release);
    }

    pub(crate) fn read_failed(&self) -> bool {
        self.read_failed.load(Ordering::Relaxed)
    }

    /// Writes what is held. After an error it can be called again.
    pub(crate) fn restore(&self) -> io::Result<()> {
        if !self.is_holding() {
            return Ok(());
        }
        if self.read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let state = &mut *self.state.lock();
        while let Some(layer) = state.layers.first() {
            self.base.set_len(layer.len)?;
            for (offset, data) in &layer.head {
                self.base.write(*offset, data)?;
            }
            for (page, bytes) in &layer.pages {
                self.base.write(page * PAGE_BYTES as u64, bytes)?;
            }
            self.base.sync()?;
            // Only what is synced is forgotten, so that a repeated attempt starts from there.
            state.layers.remove(0);
        }
        self.holding.store(false, Ordering::Release);
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
            Err(io::Error::other(Revoked))
        }
    }
}

/// The `Database` that reads or writes has a successor, or the store was closed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the store was reopened after a disk error")]
pub(crate) struct Revoked;

impl Lease {
    fn check_writable(&self) -> io::Result<()> {
        self.check()?;
        if self.medium.frozen.load(Ordering::Acquire) {
            return Err(io::Error::other("another file has taken the place of this one"));
        }
        Ok(())
    }
}

impl Disk for Lease {
    fn len(&self) -> io::Result<u64> {
        self.check()?;
        let held = self.medium.state.lock().layers.last().map(|layer| layer.len);
        held.map_or_else(|| self.medium.base.len(), Ok)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let read = if self.medium.is_holding() {
            read_through(&self.medium.base, &self.medium.state.lock().layers, offset, out)
        } else {
            self.medium.base.read(offset, out)
        };
        // After the read: a successor may have been writing meanwhile.
        self.check()?;
        read.inspect_err(|_| self.medium.read_failed.store(true, Ordering::Release))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.medium.state.lock();
        self.check_writable()?;
        match state.layers.last_mut() {
            Some(layer) => {
                layer.len = len;
                layer.pages.retain(|page, _| page * (PAGE_BYTES as u64) < len);
                Ok(())
            }
            None => self.medium.base.set_len(len),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        {
            let mut state = self.medium.state.lock();
            self.check_writable()?;
            if let Some(layer) = state.layers.last() {
                let next = Layer { len: layer.len, ..Layer::default() };
                state.layers.push(next);
                return Ok(());
            }
        }
        self.medium.base.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if !self.medium.is_written_here() {
            return Err(io::Error::other("a thread that reads does not write"));
        }
        let mut state = self.medium.state.lock();
        self.check_writable()?;
        match state.layers.last_mut() {
            Some(layer) => {
                layer.write(offset, data);
                Ok(())
            }
            None => self.medium.base.write(offset, data),
        }
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
}

/// Reads what the base would hold if the layers were written.
fn read_through(base: &Base, layers: &[Layer], offset: u64, out: &mut [u8]) -> io::Result<()> {
    let end = offset + out.len() as u64;
    if layers.last().is_some_and(|layer| end > layer.len) {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "read past the end of the disk"));
    }
    if offset < PAGE_BYTES as u64 {
        if end <= base.len()? {
            base.read(offset, out)?;
        }
        for (at, data) in layers.iter().flat_map(|layer| &layer.head) {
            overlay(offset, out, *at, data);
        }
        return Ok(());
    }
    let first = offset / PAGE_BYTES as u64;
    let held = |page: u64| layers.iter().rev().find_map(|layer| layer.pages.get(&page));
    // redb reads what it wrote as one, so the pages of one read are all held, or none is.
    if held(first).is_none() {
        return if end <= base.len()? {
            base.read(offset, out)
        } else {
            out.fill(0);
            Ok(())
        };
    }
    for (page, out) in (first..).zip(out.chunks_mut(PAGE_BYTES)) {
        match held(page) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => out.fill(0),
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
