//! Reading: one committed state, and the bytes found in it.
//!
//! Values are the pages they were read from, not copies; they and iterators keep their snapshot
//! alive. A checksum is verified before a value is handed out.

use crate::batch::NEXT_NUMBER;
use crate::medium::Medium;
use crate::panic::contain_panic;
use crate::{Error, Position, checksum};
use redb::{OwnedAccessGuard, OwnedRange, ReadOnlyTable, ReadTransaction};
use std::fmt;
use std::ops::{Bound, Deref};
use std::sync::Arc;

/// A committed state of the tree, and which it is.
pub(crate) struct Table {
    pub(crate) table: ReadOnlyTable<&'static [u8], &'static [u8]>,
    /// Through which the tree can be looked at in another way.
    pub(crate) transaction: ReadTransaction,
    /// What its pages are read from.
    pub(crate) medium: Arc<Medium>,
    pub(crate) position: Position,
}

impl Deref for Table {
    type Target = ReadOnlyTable<&'static [u8], &'static [u8]>;

    fn deref(&self) -> &Self::Target {
        &self.table
    }
}

/// The store as it was after some commit. Cheap to clone; unaffected by later writes.
///
/// Space freed by later writes is reused only once the snapshot is gone, so do not keep one for long.
#[derive(Clone)]
pub struct Snapshot(pub(crate) Arc<Table>);

impl Snapshot {
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        get(&self.0, key)
    }

    /// Which committed state it is.
    pub fn position(&self) -> Position {
        self.0.position
    }

    /// The number after the last that was appended: all in the snapshot are below it, later ones are not.
    pub fn next_number(&self) -> Result<u64, Error> {
        next_number(&self.0)
    }

    /// The entries between two keys, in key order, from either end.
    ///
    /// A range whose bounds cross is empty.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Range, Error> {
        if crossed(from, to) {
            return Ok(Range(None));
        }
        let range = contain_panic(|| Ok(self.0.range_owned::<&[u8]>((from, to))?))?;
        Ok(Range(Some(range)))
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshot")
    }
}

pub(crate) fn get(table: &Table, key: &[u8]) -> Result<Option<Value>, Error> {
    contain_panic(|| {
        let Some(guard) = table.get_owned(key)? else { return Ok(None) };
        let length = checksum::verify(key, guard.value())?;
        Ok(Some(Value { guard, length }))
    })
}

pub(crate) fn next_number(table: &Table) -> Result<u64, Error> {
    let Some(next) = get(table, NEXT_NUMBER)? else { return Ok(1) };
    let bytes =
        next.as_array().ok_or(Error::Corrupt { key: NEXT_NUMBER.to_vec(), cause: "it is no number" })?;
    Ok(u64::from_be_bytes(*bytes))
}

/// A key or a value, as stored; the checksum is verified and not part of it.
pub struct Value {
    guard: OwnedAccessGuard<&'static [u8]>,
    length: usize,
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.guard.value()[..self.length]
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// The entries of a range. Owns what it needs; after an error it ends.
pub struct Range(Option<OwnedRange<&'static [u8], &'static [u8]>>);

type Guards = (OwnedAccessGuard<&'static [u8]>, OwnedAccessGuard<&'static [u8]>);

impl Range {
    fn step(
        &mut self,
        step: impl FnOnce(
            &mut OwnedRange<&'static [u8], &'static [u8]>,
        ) -> Option<Result<Guards, redb::StorageError>>,
    ) -> Option<Result<(Value, Value), Error>> {
        let range = self.0.as_mut()?;
        let entry = contain_panic(|| step(range).transpose()?.map(entry).transpose()).transpose()?;
        // A damaged value leaves its neighbours readable; a broken page does not.
        if entry.as_ref().is_err_and(|error| !matches!(error, Error::Corrupt { .. })) {
            self.0 = None;
        }
        Some(entry)
    }
}

fn entry((key, value): Guards) -> Result<(Value, Value), Error> {
    let key = Value { length: key.value().len(), guard: key };
    let length = checksum::verify(&key, value.value())?;
    Ok((key, Value { guard: value, length }))
}

impl Iterator for Range {
    type Item = Result<(Value, Value), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(OwnedRange::next)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(OwnedRange::next_back)
    }
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Range")
    }
}

/// A value as a writer sees it: still in memory, or on its page. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Bytes(Repr);

#[derive(Clone, Debug)]
enum Repr {
    Pending(Arc<Vec<u8>>),
    Stored(Arc<Value>),
}

impl Bytes {
    /// `value` ends with its checksum.
    pub(crate) fn pending(value: Arc<Vec<u8>>) -> Self {
        Self(Repr::Pending(value))
    }

    pub(crate) fn stored(value: Value) -> Self {
        Self(Repr::Stored(Arc::new(value)))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Pending(value) => &value[..value.len() - checksum::CHECKSUM_BYTES],
            Repr::Stored(value) => value,
        }
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// redb's own ranges panic on these.
fn crossed(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from >= to
        }
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    }
}
