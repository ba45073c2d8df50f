//! What the store's one file holds: a head, the log, a second head, and the tree.
//!
//! ```text
//! head     4 KiB     the header: what this is, its version, the size of the log, the key of the tags, the wrapped data key;
//!                    behind it which Larder wrote it (`version.rs`)
//!          4 KiB     how far the log is known to reach
//!          128 KiB   roots of the tree (`checked.rs`)
//! log                (`log.rs`)
//! head               header and roots once more
//! tree               nodes of tags, and redb's pages (`checked.rs`)
//! ```
//!
//! Damage to one of the heads costs nothing: the other counts, and is written over it.
//!
//! A header is written and synced before anything else is, so a disk without one is new, or is not ours. It is
//! written again once the tree is there: from then on a file without a tree was cut short.
//!
//! Formats before 3 had no tags (`early.rs`). In format 3 the tags of a store without a key were made as those of one with a key
//! are; they stay so. Before format 5 the log began anew at its first byte with each epoch. A file of formats 3 and 4 becomes
//! one of format 5 when it is opened for writing, in place.
//!
//! The mark, the version behind it and the checksum stay where they are in every format, or an older Larder could not tell a newer
//! file from a damaged one.

use crate::checked::{Checked, ROOTS_BYTES, TagKey};
use crate::early;
use crate::log::Log;
use crate::medium::{Base, Section, is_blank};
use crate::sealed::{DataKey, Key, Sealed, WRAPPED_BYTES};
use crate::syncing::Synced;
use crate::version::{self, Newer, STORE as VERSION};
use crate::{Disk, Error};
use redb::BackendError;
use redb::backends::FileBackend;
use std::fs::OpenOptions;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const FILE_NAME: &str = "larder.redb";
const MARK: [u8; 8] = *b"larder\r\n";
/// The last whose tags are all made with HighwayHash.
const SLOW_TAGS_VERSION: u64 = 3;
/// Bits of the header's third word.
const SEALED: u64 = 1;
const SLOW_TAGS: u64 = 2;
const HEADER_BYTES: u64 = 4096;
const REACH_BYTES: u64 = 4096;
const HEAD_BYTES: u64 = HEADER_BYTES + REACH_BYTES + ROOTS_BYTES;
const LOG_BYTES_MAX: u64 = 1 << 40;
/// How far the second head is looked for when the first does not tell where it is.
const SEARCHED_BYTES_MAX: u64 = 1 << 30;

/// The parts of a store's disk.
pub(crate) struct Parts {
    /// Absent in memory.
    pub(crate) lock: Option<Lock>,
    /// Absent in memory.
    pub(crate) log: Option<Log>,
    pub(crate) tree: Base,
    /// The tree may be missing; [`finish`] says that it is there.
    pub(crate) is_new: bool,
    /// Where the heads are, and who wrote it before; absent in memory.
    pub(crate) written: Option<Written>,
}

/// By whom a store was written.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) heads: [u64; 2],
    pub(crate) writer: Option<String>,
}

impl Written {
    fn of(disk: &dyn Disk, header: &Header) -> Self {
        let heads = header.places();
        Self { heads, writer: heads.into_iter().find_map(|head| version::noted(disk, head)) }
    }
}

/// What may be done with a disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// A blank one becomes a store.
    Create,
    /// It must hold a store.
    Open,
    /// And stays as it is.
    Read,
}

/// Finds the parts, and lays out a new disk.
pub(crate) fn parts(
    raw: &Arc<dyn Disk>,
    log_bytes: u64,
    key: Option<Key>,
    purpose: Use,
) -> Result<Parts, Error> {
    // Before anything is read: another process may be writing what is read here.
    let lock = Lock::take(raw, purpose)?;
    let begun: [u8; 16] = begin(&**raw)?;
    if let Some(version) = early_version(&begun) {
        return Err(Error::Early { version });
    }
    let mut header = match Header::find(&**raw)? {
        Some(header) => header,
        None if purpose == Use::Create => lay_out(&**raw, log_bytes.next_multiple_of(HEADER_BYTES), key)?,
        None => return Err(headless(&**raw, &begun)?),
    };
    let tree = 2 * HEAD_BYTES + header.log_bytes;
    if !header.finished && purpose != Use::Create {
        return Err(Error::Gone { cause: "it was never finished".to_owned() });
    }
    if header.finished && raw.len()? <= HEAD_BYTES {
        return Err(Error::Gone { cause: "it was cut short".to_owned() });
    }
    // The log and the tree are written at the same time, and nobody waits for the mark.
    let disks = Synced::share(raw);
    let ([log_disk, mark_disk, disk], tag_key) = match (&header.wrapped, key) {
        (None, None) if header.slow_tags => (disks, TagKey::Highway(header.salt)),
        (None, None) => (disks, TagKey::Rapid(header.salt)),
        (Some(_), None) => return Err(Error::Sealed),
        (None, Some(_)) => return Err(Error::NotSealed),
        (Some(wrapped), Some(key)) => {
            let data_key = DataKey::unwrap(wrapped, key).ok_or(Error::WrongKey)?;
            let tag_key = TagKey::Highway(data_key.tag_key(header.salt));
            let seal = |disk| Arc::new(Sealed::new(disk, HEADER_BYTES, &data_key)) as Arc<dyn Disk>;
            (disks.map(seal), tag_key)
        }
    };
    let second_head = HEAD_BYTES + header.log_bytes;
    let roots = [0, second_head].map(|head| head + HEADER_BYTES + REACH_BYTES);
    let reach = Section::between(mark_disk, HEADER_BYTES, HEADER_BYTES + REACH_BYTES);
    let records = Section::between(log_disk, HEAD_BYTES, second_head);
    let log = Log::new(records, reach, tag_key, !header.finished);
    let checked = Checked::open(disk, roots, tree, tag_key, !header.finished)?;
    let written = Written::of(&**raw, &header);
    // Not before it is known to be the right one.
    if purpose != Use::Read {
        if header.version < VERSION {
            // First: a file of this format whose writer nobody can tell would be worse than an earlier one that this Larder
            // has opened.
            version::note(&**raw, written.heads)?;
        }
        header.version = VERSION;
        header.heal(&**raw)?;
    }
    let tree = Base::Checked(Box::new(checked));
    Ok(Parts { lock: Some(lock), log: Some(log), tree, is_new: !header.finished, written: Some(written) })
}

/// The format of a store, and who wrote it.
pub(crate) fn told(disk: &dyn Disk) -> Result<(u64, Option<String>), Error> {
    let begun = begin(disk)?;
    if let Some(version) = early_version(&begun) {
        return Ok((version, None));
    }
    match Header::find(disk)? {
        Some(header) => Ok((header.version, Written::of(disk, &header).writer)),
        None => Err(headless(disk, &begun)?),
    }
}

/// What is to be said of a disk without a header.
fn headless(disk: &dyn Disk, begun: &[u8; 16]) -> Result<Error, Error> {
    let cause = match () {
        () if disk.len()? == 0 => "it is empty",
        () if is_blank(disk, 0)? => "nothing but zeros is left of it",
        () if begun[..8] == MARK => "its header cannot be read, nor the copy of it",
        () => return Ok(not_ours()),
    };
    Ok(Error::Gone { cause: cause.to_owned() })
}

/// A disk that no other process has, or none that writes. Until this is dropped.
#[derive(Debug)]
pub(crate) struct Lock(Arc<dyn Disk>);

impl Lock {
    fn take(disk: &Arc<dyn Disk>, purpose: Use) -> Result<Self, Error> {
        let (start, end) = (Bound::Included(0), Bound::Unbounded);
        let taken = match purpose {
            Use::Create | Use::Open => disk.try_lock_range(start, end),
            Use::Read => disk.try_lock_shared_range(start, end),
        };
        match taken {
            // A disk without locks is this process's own.
            Ok(true) | Err(BackendError::Unsupported) => Ok(Self(Arc::clone(disk))),
            Ok(false) => Err(Error::InUse { path: PathBuf::new(), by: None }),
            Err(error) => Err(redb::Error::from(error).into()),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // It goes with the file in any case.
        let _ = self.0.close();
    }
}

/// Notes that a new disk has a tree.
pub(crate) fn finish(disk: &dyn Disk) -> Result<(), Error> {
    match Header::find(disk)? {
        Some(header) => Header { finished: true, ..header }.write_both(disk),
        None => Err(Error::Damaged { cause: "its header cannot be read".to_owned() }),
    }
}

/// Puts the data key of the store in `dir`, which nobody may have open, under another master key.
pub fn rekey(dir: &Path, old: Key, new: Key) -> Result<(), Error> {
    let path = dir.join(FILE_NAME);
    let file = FileBackend::new(OpenOptions::new().read(true).write(true).open(&path)?)?;
    let disk: Arc<dyn Disk> = Arc::new(file);
    let changed = exclusively(&disk, || {
        if let Some(version) = early_version(&begin(&*disk)?) {
            return Err(Error::Early { version });
        }
        let header = Header::find(&*disk)?.ok_or_else(not_ours)?;
        let Some(wrapped) = header.wrapped else { return Err(Error::NotSealed) };
        let data_key = DataKey::unwrap(&wrapped, old).ok_or(Error::WrongKey)?;
        let number = header.number + 1;
        // One after the other, so that one of them is whole whenever the power goes. When both are written, the old
        // master key opens nothing.
        Header { number, wrapped: Some(data_key.wrap(new)), ..header }.write_both(&*disk)
    });
    changed.map_err(|error| error.at(&path))
}

/// How a disk begins; zeros where it is shorter.
pub(crate) fn begin<const BYTES: usize>(disk: &dyn Disk) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let there = disk.len()?.min(BYTES as u64) as usize;
    if there > 0 {
        disk.read(0, &mut bytes[..there])?;
    }
    Ok(bytes)
}

/// The format of a disk that begins so, if it is one before 3.
pub(crate) fn early_version(begun: &[u8; 16]) -> Option<u64> {
    let (mark, version) = begun.split_first_chunk::<8>()?;
    let version = u64::from_le_bytes(*version.as_array()?);
    match *mark {
        early::TREE_MARK => Some(1),
        MARK if version == early::VERSION => Some(version),
        _ => None,
    }
}

/// Does something while no other process has the disk.
pub(crate) fn exclusively<T>(
    disk: &Arc<dyn Disk>,
    action: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let _lock = Lock::take(disk, Use::Open)?;
    action()
}

fn lay_out(disk: &dyn Disk, log_bytes: u64, key: Option<Key>) -> Result<Header, Error> {
    if !is_blank(disk, 0)? {
        return Err(not_ours());
    }
    let mut salt = [0; 32];
    getrandom::fill(&mut salt).map_err(|error| io::Error::other(error.to_string()))?;
    let (words, _) = salt.as_chunks::<8>();
    let salt = [0, 1, 2, 3].map(|n| u64::from_le_bytes(words[n]));
    let wrapped = key.map(|key| Ok::<_, Error>(DataKey::random()?.wrap(key))).transpose()?;
    let header =
        Header { version: VERSION, log_bytes, finished: false, slow_tags: false, salt, number: 0, wrapped };
    disk.set_len(2 * HEAD_BYTES + log_bytes)?;
    header.write_both(disk)?;
    version::note(disk, header.places())?;
    Ok(header)
}

fn not_ours() -> Error {
    io::Error::new(io::ErrorKind::InvalidData, "it has no mark of one").into()
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Header {
    version: u64,
    log_bytes: u64,
    /// The tree was made.
    finished: bool,
    /// All tags are made with HighwayHash, also without a key.
    slow_tags: bool,
    /// Makes the tags of this store unlike those of any other.
    salt: [u64; 4],
    /// How many master keys came before the one that wraps the data key.
    number: u64,
    wrapped: Option<[u8; WRAPPED_BYTES]>,
}

impl Header {
    const BYTES: usize = 8 + 9 * 8 + WRAPPED_BYTES + 4;

    /// The newer of the two that can be read.
    fn find(disk: &dyn Disk) -> Result<Option<Self>, Error> {
        let first = Self::read(disk, 0)?;
        let second = match &first {
            Some(first) => Self::read(disk, HEAD_BYTES + first.log_bytes)?,
            None => Self::search(disk)?,
        };
        let newest = [first, second].into_iter().flatten();
        Ok(newest.max_by_key(|header| (header.number, header.finished)))
    }

    /// The second header, wherever it is.
    fn search(disk: &dyn Disk) -> Result<Option<Self>, Error> {
        let end = disk.len()?.min(SEARCHED_BYTES_MAX);
        for place in (HEAD_BYTES..end).step_by(HEADER_BYTES as usize) {
            if let Some(header) = Self::read(disk, place)?
                && place == HEAD_BYTES + header.log_bytes
            {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    /// Absent if it is not what was written.
    fn read(disk: &dyn Disk, place: u64) -> Result<Option<Self>, Error> {
        let mut bytes = [0; Self::BYTES];
        if place + Self::BYTES as u64 > disk.len()? {
            return Ok(None);
        }
        // One of the two is enough.
        if disk.read(place, &mut bytes).is_err() || bytes[..8] != MARK {
            return Ok(None);
        }
        let Some(fields) = unsummed(&bytes) else { return Ok(None) };
        let (words, wrapped) = fields[8..].split_at(9 * 8);
        let (words, _) = words.as_chunks::<8>();
        let word = |n: usize| u64::from_le_bytes(words[n]);
        let (version, log_bytes, sealed, finished, number) = (word(0), word(1), word(2), word(3), word(4));
        if version > VERSION {
            let second = HEAD_BYTES.saturating_add(log_bytes);
            let writer = [place, second].into_iter().find_map(|head| version::noted(disk, head));
            let newer = Newer { path: PathBuf::new(), found: version, known: VERSION, writer };
            return Err(Error::Newer(Box::new(newer)));
        }
        if log_bytes > LOG_BYTES_MAX || !log_bytes.is_multiple_of(HEADER_BYTES) {
            return Ok(None);
        }
        let salt = [word(5), word(6), word(7), word(8)];
        let wrapped = if sealed & SEALED != 0 { wrapped.as_array().copied() } else { None };
        let slow_tags = version <= SLOW_TAGS_VERSION || sealed & SLOW_TAGS != 0;
        Ok(Some(Self { version, log_bytes, finished: finished == 1, slow_tags, salt, number, wrapped }))
    }

    fn write(&self, disk: &dyn Disk, place: u64) -> Result<(), Error> {
        let Self { version, log_bytes, finished, slow_tags, salt, number, wrapped } = self;
        let sealed = if wrapped.is_some() { SEALED } else { 0 } | if *slow_tags { SLOW_TAGS } else { 0 };
        let words =
            [*version, *log_bytes, sealed, u64::from(*finished), *number, salt[0], salt[1], salt[2], salt[3]];
        let words = words.map(u64::to_le_bytes).concat();
        let wrapped = wrapped.unwrap_or([0; WRAPPED_BYTES]);
        disk.write(place, &summed([&MARK[..], &words, &wrapped].concat()))?;
        Ok(disk.sync_data()?)
    }

    fn write_both(&self, disk: &dyn Disk) -> Result<(), Error> {
        self.places().into_iter().try_for_each(|place| self.write(disk, place))
    }

    fn places(&self) -> [u64; 2] {
        [0, HEAD_BYTES + self.log_bytes]
    }

    /// Writes it where something else is.
    fn heal(&self, disk: &dyn Disk) -> Result<(), Error> {
        for place in self.places() {
            if Self::read(disk, place)?.as_ref() != Some(self) {
                self.write(disk, place)?;
            }
        }
        Ok(())
    }
}

/// Bytes, and their checksum.
pub(crate) fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = !crc32fast::hash(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// Bytes without their checksum, if it is right.
pub(crate) fn unsummed(bytes: &[u8]) -> Option<&[u8]> {
    let (bytes, sum) = bytes.split_last_chunk::<4>()?;
    (!crc32fast::hash(bytes) == u32::from_le_bytes(*sum)).then_some(bytes)
}
