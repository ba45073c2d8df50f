//! A batch: changes that happen together or not at all.
//!
//! Within a batch, and between batches in the order of `submit`, the later change to a key wins.

use crate::{Error, checksum};
use std::sync::Arc;

const OVERHEAD: usize = 96;
/// Holds the number after the last that was appended. The engine's keys begin with other bytes.
pub(crate) const NEXT_NUMBER: &[u8] = b"\x00next number";

/// A set of changes, applied atomically.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) changes: Vec<(Arc<[u8]>, Change)>,
    /// Entries whose keys are not known before the batch is submitted: their beginnings, and the values.
    pub(crate) appended: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) makes_room: bool,
    bytes: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// The value with its checksum already appended.
    Put(Arc<Vec<u8>>),
    Delete,
    Add([i64; 2]),
}

/// An uncommitted value with its checksum; absent if the key is to be deleted.
pub(crate) type Pending = Option<Arc<Vec<u8>>>;

/// What a key holds after the changes of a group.
pub(crate) type Changed = (Arc<[u8]>, Pending);

impl Batch {
    pub fn put(&mut self, key: Vec<u8>, mut value: Vec<u8>) {
        // Here rather than in the commit thread: writers run in parallel, commits do not.
        checksum::append(&key, &mut value);
        self.push(key, Change::Put(Arc::new(value)));
    }

    pub fn delete(&mut self, key: Vec<u8>) {
        self.push(key, Change::Delete);
    }

    /// Adds to the two counters at `key`; an absent key counts as zeros.
    ///
    /// Adds of concurrent batches merge, so they never conflict. `Store::latest` does not see them
    /// until they are committed.
    pub fn add(&mut self, key: Vec<u8>, deltas: [i64; 2]) {
        self.push(key, Change::Add(deltas));
    }

    /// Puts a value at `prefix` and the next number, eight bytes big-endian.
    ///
    /// Numbers rise in the order of `submit`, so that whoever has read the entries of a snapshot up to a
    /// number has missed none below it. None is given out twice, also not one that was lost with the power, and some
    /// are left out.
    pub fn append(&mut self, prefix: Vec<u8>, value: Vec<u8>) {
        self.bytes += OVERHEAD + prefix.len() + value.len();
        self.appended.push((prefix, value));
    }

    /// Says that room comes of it, if not at once: it is taken when the disk is full. One that leaves less than there was is
    /// taken anyway.
    pub fn makes_room(&mut self) {
        self.makes_room = true;
    }

    /// Completes the keys of what was appended, from this number on. Returns the next number.
    pub(crate) fn number(&mut self, mut next: u64) -> u64 {
        if self.appended.is_empty() {
            return next;
        }
        let bytes = self.bytes;
        for (mut key, value) in std::mem::take(&mut self.appended) {
            key.extend_from_slice(&next.to_be_bytes());
            self.put(key, value);
            next += 1;
        }
        self.put(NEXT_NUMBER.to_vec(), next.to_be_bytes().to_vec());
        // What was counted when it was appended is not counted again.
        self.bytes = bytes;
        next
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.appended.is_empty()
    }

    /// Roughly the memory the batch holds until it is committed.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, key: Vec<u8>, change: Change) {
        let value_bytes = match &change {
            Change::Put(value) => value.len(),
            Change::Delete | Change::Add(_) => 0,
        };
        self.bytes += OVERHEAD + key.len() + value_bytes;
        self.changes.push((key.into(), change));
    }
}

/// Reads a value that `Batch::add` maintains.
pub fn counters(value: &[u8]) -> Result<[i64; 2], Error> {
    let (low, high) = value
        .split_first_chunk::<8>()
        .and_then(|(low, rest)| Some((low, rest.as_array::<8>()?)))
        .ok_or(Error::Corrupt { key: Vec::new(), cause: "it is not a pair of counters" })?;
    Ok([i64::from_le_bytes(*low), i64::from_le_bytes(*high)])
}

pub(crate) fn counter_value([first, second]: [i64; 2]) -> Vec<u8> {
    [first.to_le_bytes(), second.to_le_bytes()].concat()
}
