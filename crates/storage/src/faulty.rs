//! A disk that fails, tears, fills or loses power where it is told to. For tests.
//!
//! The image is in memory and keeps apart what a sync has made safe and what a power loss may take.
//! A clone is a handle to the same disk, to control it while a store owns it.
//!
//! ```
//! use larder_storage::{Batch, Options, Store, faulty::FaultyDisk};
//!
//! let disk = FaultyDisk::default();
//! let store = Store::on_disk(disk.clone(), Options::default())?;
//! let mut batch = Batch::default();
//! batch.put(b"key".to_vec(), b"value".to_vec());
//! store.write(batch)?;
//!
//! let after = Store::on_disk(disk.crash(7), Options::default())?;
//! assert!(after.snapshot().get(b"key")?.is_some());
//! # Ok::<(), larder_storage::Error>(())
//! ```

mod place;

pub use place::FaultyPlace;

use crate::Disk;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

const SECTOR_BYTES: u64 = 512;

#[derive(Clone, Debug, Default)]
pub struct FaultyDisk(Arc<Mutex<Image>>);

/// Which operations a fault counts and hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
    Sync,
    SetLen,
    /// Any of the last three.
    Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    Once,
    /// Until `heal`. With `Operation::Change` this is the instant the power goes.
    Forever,
}

#[derive(Debug, Default)]
struct Image {
    /// What reads see.
    bytes: Vec<u8>,
    /// What a power loss leaves at least.
    synced: Vec<u8>,
    unsynced: Vec<Change>,
    fault: Option<Fault>,
    limit_bytes: Option<u64>,
    changes: u64,
    dead: bool,
    drops: bool,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: u64, data: Vec<u8> },
    SetLen(u64),
}

#[derive(Debug)]
struct Fault {
    operation: Operation,
    /// Operations to let pass first.
    countdown: u64,
    lasting: Lasting,
}

impl From<Vec<u8>> for FaultyDisk {
    /// A disk that holds these bytes, synced.
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(Image { synced: bytes.clone(), bytes, ..Image::default() })))
    }
}

impl FaultyDisk {
    /// Lets `passing` operations of this kind succeed, then fails. Replaces an earlier fault.
    pub fn fail(&self, operation: Operation, passing: u64, lasting: Lasting) {
        self.0.lock().fault = Some(Fault { operation, countdown: passing, lasting });
    }

    /// Whether a sync that fails drops what it was to make safe: reads then see what was there before, as they do when the
    /// system forgets pages that it could not write.
    pub fn drop_on_failed_sync(&self, drops: bool) {
        self.0.lock().drops = drops;
    }

    /// No growth past this size from now on; writes within the disk's length still succeed.
    pub fn limit(&self, bytes: u64) {
        self.0.lock().limit_bytes = Some(bytes);
    }

    /// Removes fault and limit.
    pub fn heal(&self) {
        let mut image = self.0.lock();
        image.fault = None;
        image.limit_bytes = None;
    }

    /// Inverts the bits of `mask` in one byte, at rest. Past the end it does nothing.
    pub fn flip(&self, offset: u64, mask: u8) {
        let image = &mut *self.0.lock();
        for bytes in [&mut image.bytes, &mut image.synced] {
            if let Some(byte) = usize::try_from(offset).ok().and_then(|offset| bytes.get_mut(offset)) {
                *byte ^= mask;
            }
        }
    }

    /// What a read of the whole disk would return.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().bytes.clone()
    }

    /// Writes, syncs and length changes so far, failed ones included.
    pub fn changes(&self) -> u64 {
        self.0.lock().changes
    }

    /// Cuts the power: this disk is dead, and the one returned is what is found afterwards.
    ///
    /// That is everything synced, and of the rest what `seed` lets survive: any subset of the writes,
    /// some of them with only some of their sectors. Seed 0 loses all of it, and seed 1 nothing.
    pub fn crash(&self, seed: u64) -> FaultyDisk {
        let mut image = self.0.lock();
        image.dead = true;
        let mut bytes = image.synced.clone();
        let mut random = Random::new(seed);
        for change in &image.unsynced {
            match (seed, change) {
                (0, _) => {}
                (1, change) => apply(&mut bytes, change),
                (_, change) if random.one_in(2) => apply(&mut bytes, change),
                (_, Change::Write { offset, data }) if random.one_in(2) => {
                    tear(&mut bytes, *offset, data, &mut random);
                }
                (_, Change::Write { .. } | Change::SetLen(_)) => {}
            }
        }
        bytes.into()
    }
}

impl Image {
    fn begin(&mut self, operation: Operation) -> io::Result<()> {
        let changes = operation != Operation::Read;
        self.changes += u64::from(changes);
        if self.dead {
            return Err(io::Error::other("the disk lost power"));
        }
        let Some(fault) = &mut self.fault else { return Ok(()) };
        if fault.operation != operation && !(fault.operation == Operation::Change && changes) {
            return Ok(());
        }
        if fault.countdown > 0 {
            fault.countdown -= 1;
            return Ok(());
        }
        if fault.lasting == Lasting::Once {
            self.fault = None;
        }
        Err(io::Error::other("a fault that was asked for"))
    }

    fn check_growth(&self, end: u64) -> io::Result<()> {
        if end > self.bytes.len() as u64 && self.limit_bytes.is_some_and(|limit| end > limit) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.bytes, &change);
        self.unsynced.push(change);
    }
}

impl Disk for FaultyDisk {
    fn len(&self) -> io::Result<u64> {
        let image = self.0.lock();
        if image.dead { Err(io::Error::other("the disk lost power")) } else { Ok(image.bytes.len() as u64) }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut image = self.0.lock();
        image.begin(Operation::Read)?;
        let found = usize::try_from(offset)
            .ok()
            .and_then(|start| image.bytes.get(start..start.checked_add(out.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut image = self.0.lock();
        image.begin(Operation::SetLen)?;
        image.check_growth(len)?;
        image.change(Change::SetLen(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let image = &mut *self.0.lock();
        if let Err(error) = image.begin(Operation::Sync) {
            if image.drops {
                image.bytes.clone_from(&image.synced);
                image.unsynced.clear();
            }
            return Err(error);
        }
        for change in image.unsynced.drain(..) {
            apply(&mut image.synced, &change);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut image = self.0.lock();
        image.begin(Operation::Write)?;
        image.check_growth(offset + data.len() as u64)?;
        image.change(Change::Write { offset, data: data.to_vec() });
        Ok(())
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::SetLen(len) => bytes.resize(*len as usize, 0),
        Change::Write { offset, data } => {
            let start = *offset as usize;
            let end = start + data.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[start..end].copy_from_slice(data);
        }
    }
}

/// Writes some sectors of `data` and leaves the others as they were.
fn tear(bytes: &mut Vec<u8>, offset: u64, data: &[u8], random: &mut Random) {
    let mut at = offset;
    let mut rest = data;
    while !rest.is_empty() {
        let in_sector = (SECTOR_BYTES - at % SECTOR_BYTES).min(rest.len() as u64);
        let (sector, after) = rest.split_at(in_sector as usize);
        if random.one_in(2) {
            apply(bytes, &Change::Write { offset: at, data: sector.to_vec() });
        }
        at += in_sector;
        rest = after;
    }
}

/// Xorshift: enough to pick sectors.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        // Neighbouring seeds should not begin alike, and the state must not be zero.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33).is_multiple_of(n)
    }
}
