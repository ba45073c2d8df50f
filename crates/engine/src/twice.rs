//! What is kept twice: the records of tables and backups, and the few values that the store cannot do without.
//!
//! A table whose record is gone is gone with all its items, although they are there. So each record is written a
//! second time at a key after all data, far from the first: one page that cannot be read never takes both, except in
//! a store so small that it takes everything. Both are written and deleted in one batch.
//!
//! A store from before this was so has no second copies. [`Engine::copy_records`] makes them in the background, and
//! then notes that they are all there: only from then on is something that has none known not to be.

use std::collections::BTreeMap;
use std::ops::Bound;

use larder_storage::{Batch, Lost, Piece, Snapshot, Value};

use crate::backup::put_backup;
use crate::layout::{self, COPIES};
use crate::tables::put_record;
use crate::{Engine, Error, key_bytes};

/// Records that are copied in one step.
const STEP_RECORDS: usize = 1000;

pub(crate) fn put(batch: &mut Batch, key: Vec<u8>, value: Vec<u8>) {
    batch.put(layout::second(&key), value.clone());
    batch.put(key, value);
}

pub(crate) fn delete(batch: &mut Batch, key: Vec<u8>) {
    batch.delete(layout::second(&key));
    batch.delete(key);
}

/// The value, from its second copy if the first cannot be read.
pub(crate) fn get(snapshot: &Snapshot, key: &[u8]) -> Result<Option<Value>, Error> {
    match snapshot.get(key) {
        Err(error @ (larder_storage::Error::Corrupt { .. } | larder_storage::Error::Damaged { .. })) => {
            match snapshot.get(&layout::second(key)) {
                Ok(Some(value)) => Ok(Some(value)),
                // There may have been no copies yet.
                Ok(None) if snapshot.get(COPIES).is_ok_and(|copies| copies.is_some()) => Ok(None),
                Ok(None) | Err(_) => Err(error.into()),
            }
        }
        other => Ok(other?),
    }
}

/// What is wrong with the second copy of a value, in words.
pub(crate) fn check(
    get: impl Fn(&[u8]) -> Result<Option<Value>, larder_storage::Error>,
    key: &[u8],
    value: &[u8],
) -> Result<(), &'static str> {
    match get(&layout::second(key)) {
        Ok(Some(copy)) if *copy == *value => Ok(()),
        Ok(Some(_)) => Err("its second copy says something else"),
        Ok(None) if get(COPIES).is_ok_and(|copies| copies.is_some()) => Err("it has no second copy"),
        // Told at its own place, or not made yet.
        Ok(None) | Err(_) => Ok(()),
    }
}

/// Keys of which nobody knows whether they are there: those from one on and before another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub from: Vec<u8>,
    pub before: Vec<u8>,
}

impl Gap {
    fn of(key: Vec<u8>) -> Self {
        let before = [&key[..], &[0]].concat();
        Self { from: key, before }
    }

    fn of_lost(lost: Lost, end: &[u8]) -> Self {
        match lost {
            Lost::Value { key, .. } => Self::of(key),
            Lost::Keys { from, before } => Self { from, before: before.unwrap_or_else(|| end.to_vec()) },
        }
    }

    pub(crate) fn has(&self, key: &[u8]) -> bool {
        *self.from <= *key && *key < *self.before
    }

    /// The one key it is, if it is one.
    pub(crate) fn only(&self) -> Option<&[u8]> {
        (self.before.strip_suffix(&[0]) == Some(&self.from)).then_some(&self.from)
    }
}

/// Everything that begins with `prefix` and that `read` can read in either copy, and what it can read in neither.
pub(crate) fn read_all<T>(
    snapshot: &Snapshot,
    prefix: &[u8],
    read: impl Fn(&[u8]) -> Result<T, Error>,
) -> Result<(Vec<T>, Vec<Gap>), Error> {
    let end = key_bytes::after_prefix(prefix).expect("records do not begin with FF");
    let mut found = Vec::new();
    let gaps = pieces(snapshot, prefix, &end, |_, value| {
        found.push(read(value)?);
        Ok(())
    })?;
    let mut lost = Vec::new();
    if gaps.is_empty() {
        return Ok((found, lost));
    }
    // Without this, what has no second copy may be there all the same.
    let all_have_copies = snapshot.get(COPIES).is_ok_and(|copies| copies.is_some());
    for gap in gaps {
        let (from, before) = (layout::second(&gap.from), layout::second(&gap.before));
        let mut copies = BTreeMap::new();
        let in_copies = pieces(snapshot, &from, &before, |key, value| {
            copies.insert(layout::first(key).to_vec(), read(value)?);
            Ok(())
        })?;
        if all_have_copies {
            let first = |key: Vec<u8>| layout::first(&key).to_vec();
            lost.extend(
                in_copies.into_iter().map(|gap| Gap { from: first(gap.from), before: first(gap.before) }),
            );
        } else if !gap.only().is_some_and(|key| copies.contains_key(key)) {
            lost.push(gap);
        }
        found.extend(copies.into_values());
    }
    Ok((found, lost))
}

/// Hands on what can be read of a range, and returns what cannot.
fn pieces(
    snapshot: &Snapshot,
    from: &[u8],
    before: &[u8],
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
) -> Result<Vec<Gap>, Error> {
    let mut gaps = Vec::new();
    for piece in snapshot.pieces(Bound::Included(from), Bound::Excluded(before), true) {
        match piece? {
            Piece::Entry(key, value) => match take(&key, &value) {
                Ok(()) => {}
                // Its checksum is right, and it makes no sense: whoever wrote it was at fault, and wrote both.
                Err(error) if error.concerns_one_value() => gaps.push(Gap::of(key.to_vec())),
                Err(error) => return Err(error),
            },
            Piece::Lost(lost) => gaps.push(Gap::of_lost(lost, before)),
        }
    }
    Ok(gaps)
}

/// How far the records of a store that has no second copies have got them.
#[derive(Debug)]
pub(crate) enum Copying {
    /// Tables after this one, and all backups, have none yet.
    Tables(Option<String>),
    /// Backups after this one have none yet.
    Backups(Option<String>),
    Done,
}

impl Copying {
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        match snapshot.get(COPIES) {
            Ok(None) => Self::Tables(None),
            // One that cannot be read was there.
            Ok(Some(_)) | Err(_) => Self::Done,
        }
    }
}

impl Engine {
    /// Gives some records of an older store their second copies. True while there may be more.
    pub(crate) fn copy_records(&self) -> Result<bool, Error> {
        let mut copying = self.copying.lock();
        let next = match &*copying {
            Copying::Done => return Ok(false),
            Copying::Tables(after) => self.copy_tables(after.as_deref())?,
            Copying::Backups(after) => self.copy_backups(after.as_deref())?,
        };
        *copying = next;
        Ok(true)
    }

    fn copy_tables(&self, after: Option<&str>) -> Result<Copying, Error> {
        let (next, ticket, ()) = self.change_catalog(|catalog, batch| {
            let tables: Vec<_> = catalog.tables_after(after).take(STEP_RECORDS).collect();
            tables.iter().for_each(|table| put_record(batch, table));
            let last = tables.last().map(|table| table.name().key().to_owned());
            Ok((last.map_or(Copying::Backups(None), |last| Copying::Tables(Some(last))), ()))
        })?;
        ticket.wait()?;
        Ok(next)
    }

    fn copy_backups(&self, after: Option<&str>) -> Result<Copying, Error> {
        let (next, ticket, ()) = self.change_catalog(|catalog, batch| {
            let backups: Vec<_> = catalog.backups_after(after).take(STEP_RECORDS).collect();
            backups.iter().for_each(|backup| put_backup(batch, backup));
            let next = match backups.last() {
                Some(last) => Copying::Backups(Some(last.id.clone())),
                None => {
                    // What cannot be read has got none.
                    if catalog.is_whole() {
                        batch.put(COPIES.to_vec(), Vec::new());
                    }
                    Copying::Done
                }
            };
            Ok((next, ()))
        })?;
        ticket.wait()?;
        Ok(next)
    }
}
