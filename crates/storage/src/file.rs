//! What the store's one file holds: a header, the log, and the tree.
//!
//! ```text
//! 0           the header: what this is, its version, the size of the log, whether the rest is encrypted
//! 512, 1024   the data key, wrapped; the newer of the two counts
//! 4096        the log (`log.rs`)
//! 4096 + log  the tree, which is redb's
//! ```
//!
//! The header is written and synced before anything else is, so a file without one is new, or is
//! not ours. It is written again once the tree is there: from then on a file without a tree was cut
//! short. A file that begins with the tree is of the time before the log: it goes on without.

use crate::medium::{Section, is_blank};
use crate::sealed::{DataKey, Key, Sealed, WRAPPED_BYTES};
use crate::{Disk, Error};
use redb::backends::FileBackend;
use std::fs::OpenOptions;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const FILE_NAME: &str = "larder.redb";
const MARK: [u8; 8] = *b"larder\r\n";
const TREE_MARK: [u8; 8] = *b"redb\x1a\n\xa9\r";
const VERSION: u64 = 2;
/// Up to where the parts begin.
const HEAD_BYTES: u64 = 4096;
const LOG_BYTES_MAX: u64 = 1 << 40;
const SLOTS: [u64; 2] = [512, 1024];

/// The parts of a store's disk.
pub(crate) struct Parts {
    pub(crate) log: Option<Section>,
    pub(crate) tree: Section,
    /// The tree may be missing; [`finish`] says that it is there.
    pub(crate) is_new: bool,
}

/// Finds the parts, and lays out a new disk.
pub(crate) fn parts(disk: Arc<dyn Disk>, log_bytes: u64, key: Option<Key>) -> Result<Parts, Error> {
    let mark = begin(&*disk)?;
    if mark == TREE_MARK {
        return match key {
            None => Ok(Parts { log: None, tree: Section::from(disk, 0), is_new: false }),
            Some(_) => Err(Error::NotSealed),
        };
    }
    if mark != MARK {
        exclusively(&*disk, || lay_out(&*disk, log_bytes.next_multiple_of(HEAD_BYTES), key))?;
    }
    let header = Header::read(&*disk)?;
    let disk = match (header.sealed, key) {
        (false, None) => disk,
        (true, None) => return Err(Error::Sealed),
        (false, Some(_)) => return Err(Error::NotSealed),
        (true, Some(key)) => {
            let data_key = Slot::newest(&*disk)?.open(key)?;
            Arc::new(Sealed::new(disk, HEAD_BYTES, &data_key)) as Arc<dyn Disk>
        }
    };
    let tree = HEAD_BYTES + header.log_bytes;
    if header.finished && disk.len()? <= tree {
        return Err(Error::Damaged { cause: "it was cut short".to_owned() });
    }
    let log = Section::between(Arc::clone(&disk), HEAD_BYTES, tree);
    Ok(Parts { log: Some(log), tree: Section::from(disk, tree), is_new: !header.finished })
}

/// Notes that a new disk has a tree.
pub(crate) fn finish(disk: &dyn Disk) -> Result<(), Error> {
    Header { finished: true, ..Header::read(disk)? }.write(disk)
}

/// Puts the data key of the store in `dir`, which nobody may have open, under another master key.
pub fn rekey(dir: &Path, old: Key, new: Key) -> Result<(), Error> {
    let path = dir.join(FILE_NAME);
    let disk = FileBackend::new(OpenOptions::new().read(true).write(true).open(&path)?)?;
    let changed = exclusively(&disk, || {
        if begin(&disk)? != MARK || !Header::read(&disk)?.sealed {
            return Err(Error::NotSealed);
        }
        let slot = Slot::newest(&disk)?;
        let wrapped = slot.open(old)?.wrap(new);
        // The other place, so that one of them is whole whenever the power goes.
        Slot { number: slot.number + 1, wrapped }.write(&disk)?;
        // The old master key must not open what is left.
        disk.write(slot.place(), &[0; Slot::BYTES])?;
        Ok(disk.sync_data()?)
    });
    changed.map_err(|error| error.at(&path))
}

/// How a disk begins; zeros where it is shorter.
fn begin<const BYTES: usize>(disk: &dyn Disk) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let there = disk.len()?.min(BYTES as u64) as usize;
    if there > 0 {
        disk.read(0, &mut bytes[..there])?;
    }
    Ok(bytes)
}

/// Does something while no other process has the disk.
fn exclusively<T>(disk: &dyn Disk, action: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let (start, end) = (Bound::Included(0), Bound::Unbounded);
    let locked = match disk.try_lock_range(start, end) {
        Ok(true) => true,
        Ok(false) => return Err(Error::InUse { path: PathBuf::new() }),
        // A disk without locks is this process's own.
        Err(_) => false,
    };
    let done = action();
    if locked {
        disk.unlock_range(start, end).map_err(redb::Error::from)?;
    }
    done
}

fn lay_out(disk: &dyn Disk, log_bytes: u64, key: Option<Key>) -> Result<(), Error> {
    // Another process may have come first.
    if begin(disk)? == MARK {
        return Ok(());
    }
    // A key may be there, from an attempt that was cut short.
    if begin(disk)? != [0; SLOTS[0] as usize] || !is_blank(disk, HEAD_BYTES)? {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has no mark of one").into());
    }
    disk.set_len(HEAD_BYTES + log_bytes)?;
    if let Some(key) = key {
        Slot { number: 0, wrapped: DataKey::random()?.wrap(key) }.write(disk)?;
    }
    Header { log_bytes, sealed: key.is_some(), finished: false }.write(disk)
}

struct Header {
    log_bytes: u64,
    sealed: bool,
    /// The tree was made.
    finished: bool,
}

impl Header {
    const BYTES: usize = 44;

    fn write(&self, disk: &dyn Disk) -> Result<(), Error> {
        let words = [VERSION, self.log_bytes, u64::from(self.sealed), u64::from(self.finished)];
        let words = words.map(u64::to_le_bytes);
        disk.write(0, &summed([&MARK[..], &words.concat()].concat()))?;
        Ok(disk.sync_data()?)
    }

    fn read(disk: &dyn Disk) -> Result<Self, Error> {
        let mut bytes = [0; Self::BYTES];
        disk.read(0, &mut bytes)?;
        let damaged = |what: &str| Error::Damaged { cause: format!("its header {what}") };
        let fields = unsummed(&bytes).ok_or_else(|| damaged("does not match its checksum"))?;
        let (words, _) = fields.as_chunks::<8>();
        let [_, version, log_bytes, sealed, finished] = [0, 1, 2, 3, 4].map(|n| u64::from_le_bytes(words[n]));
        if version > VERSION {
            return Err(Error::Newer { found: version, known: VERSION });
        }
        if log_bytes > LOG_BYTES_MAX || !log_bytes.is_multiple_of(HEAD_BYTES) {
            return Err(damaged(&format!("gives the log {log_bytes} bytes")));
        }
        Ok(Self { log_bytes, sealed: sealed == 1, finished: finished == 1 })
    }
}

/// A wrapped data key, and how many came before it.
struct Slot {
    number: u64,
    wrapped: [u8; WRAPPED_BYTES],
}

impl Slot {
    const BYTES: usize = 8 + WRAPPED_BYTES + 4;

    fn place(&self) -> u64 {
        SLOTS[(self.number % 2) as usize]
    }

    fn write(&self, disk: &dyn Disk) -> Result<(), Error> {
        disk.write(self.place(), &summed([&self.number.to_le_bytes()[..], &self.wrapped].concat()))?;
        Ok(disk.sync_data()?)
    }

    fn newest(disk: &dyn Disk) -> Result<Self, Error> {
        let mut newest: Option<Self> = None;
        for place in SLOTS {
            let mut bytes = [0; Self::BYTES];
            disk.read(place, &mut bytes)?;
            let Some((number, wrapped)) = unsummed(&bytes).and_then(<[u8]>::split_first_chunk) else {
                continue;
            };
            let Some(wrapped) = wrapped.as_array() else { continue };
            let slot = Self { number: u64::from_le_bytes(*number), wrapped: *wrapped };
            if newest.as_ref().is_none_or(|newest| newest.number < slot.number) {
                newest = Some(slot);
            }
        }
        newest.ok_or_else(|| Error::Damaged { cause: "its data key cannot be read".to_owned() })
    }

    fn open(&self, key: Key) -> Result<DataKey, Error> {
        DataKey::unwrap(&self.wrapped, key).ok_or(Error::WrongKey)
    }
}

/// Bytes, and their checksum.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = !crc32fast::hash(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// Bytes without their checksum, if it is right.
fn unsummed(bytes: &[u8]) -> Option<&[u8]> {
    let (bytes, sum) = bytes.split_last_chunk::<4>()?;
    (!crc32fast::hash(bytes) == u32::from_le_bytes(*sum)).then_some(bytes)
}
