//! Reading: one committed state, and the bytes found in it.
//!
//! A state is the tree, and above it the memory tables with what the tree has not absorbed yet. Values are the pages they
//! were read from, or what their writers gave, not copies; they and iterators keep their snapshot alive. A checksum is verified
//! before a value of the tree is handed out.
//!
//! When a disk fails, redb refuses every read until the database is opened again, and states of the tree from before are gone.
//! Who reads one goes on with the tree that takes its place, if that holds nothing later: what it lacks or has besides is in
//! the memory tables of the state, which come first. Only where it does is the snapshot over ([`Error::Expired`]).

use crate::batch::{NEXT_NUMBER, Pending};
use crate::commit::Shared;
use crate::medium::Medium;
use crate::memory::{Memory, Merged};
use crate::panic::contain_panic;
use crate::{Error, Position, checksum};
use redb::{OwnedAccessGuard, OwnedRange, ReadOnlyTable, ReadTransaction};
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Bound, Deref};
use std::sync::{Arc, Weak};

/// How often a read looks for the tree that took the place of its own.
const SUCCESSORS_MAX: usize = 8;

/// A committed state.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) tree: Arc<Tree>,
    /// Nothing in the tree is of a later commit.
    pub(crate) reached: u64,
    /// How often commits had been taken back when the tree came to that, and when this state was made. Numbers are used
    /// again after that.
    pub(crate) reached_voids: u64,
    pub(crate) voids: u64,
    /// What the tree has not absorbed, from the newest on.
    pub(crate) tables: Vec<Arc<Memory>>,
    /// Which state it is; entries of later commits are not part of it.
    pub(crate) position: Position,
    /// Where a tree that takes the place of this one is found.
    pub(crate) shared: Weak<Shared>,
}

impl View {
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        match self.in_memory(key) {
            Some(held) => Ok(held.map(Value::written)),
            None => self.in_tree(|tree| get_absorbed(tree, key)),
        }
    }

    /// The same for the threads that open the tree again: they must not wait for that.
    pub(crate) fn get_at_once(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        match self.in_memory(key) {
            Some(held) => Ok(held.map(Value::written)),
            None => get_absorbed(&self.tree, key),
        }
    }

    /// Reads from the tree.
    pub(crate) fn in_tree<T>(&self, read: impl Fn(&Tree) -> Result<T, Error>) -> Result<T, Error> {
        match read(&self.tree) {
            Err(Error::Expired) => self.in_successor(read),
            done => done,
        }
    }

    /// Reads what the tree held from the one that took its place. Waits until there is one, so it is not for the threads
    /// that make it.
    #[cold]
    fn in_successor<T>(&self, read: impl Fn(&Tree) -> Result<T, Error>) -> Result<T, Error> {
        let shared = self.shared.upgrade().ok_or(Error::Expired)?;
        let mut tried = Arc::clone(&self.tree);
        for _ in 0..SUCCESSORS_MAX {
            let now = shared.succeeding(&tried)?;
            if now.reached > self.position.commit || now.reached_voids > self.voids {
                break;
            }
            match read(&now.tree) {
                Err(Error::Expired) => tried = Arc::clone(&now.tree),
                done => return done,
            }
        }
        Err(Error::Expired)
    }

    /// What memory tables hold of a key, if one knows it.
    fn in_memory(&self, key: &[u8]) -> Option<Pending> {
        self.tables.iter().find_map(|table| table.get(key, self.position.commit))
    }

    /// What the memory tables take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.tables.iter().map(|table| table.bytes()).sum()
    }

    /// What they owe to the tree.
    pub(crate) fn debt(&self) -> u64 {
        self.tables.iter().map(|table| table.debt()).sum()
    }
}

/// A state of the tree.
pub(crate) struct Tree {
    pub(crate) table: ReadOnlyTable<&'static [u8], &'static [u8]>,
    /// Through which the tree can be looked at in another way.
    pub(crate) transaction: ReadTransaction,
    /// What its pages are read from.
    pub(crate) medium: Arc<Medium>,
}

impl Tree {
    fn entries(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Entries, Error> {
        contain_panic(|| Ok(self.range_owned::<&[u8]>((from, to))?))
    }
}

impl Deref for Tree {
    type Target = ReadOnlyTable<&'static [u8], &'static [u8]>;

    fn deref(&self) -> &Self::Target {
        &self.table
    }
}

/// The store as it was after some commit. Cheap to clone; unaffected by later writes.
///
/// Space freed by later writes is reused only once the snapshot is gone, so do not keep one for long.
#[derive(Clone)]
pub struct Snapshot(pub(crate) Arc<View>);

impl Snapshot {
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.0.get(key)
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
            return Ok(Range::default());
        }
        let entries = self.0.in_tree(|tree| tree.entries(from, to))?;
        let owned = |bound: Bound<&[u8]>| bound.map(<[u8]>::to_vec);
        let left = Left { entries, from: owned(from), to: owned(to), view: Arc::clone(&self.0) };
        Ok(Range { tree: Some(left), ..self.memory_range(from, to) })
    }

    /// What of a range memory tables hold.
    pub(crate) fn memory_range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Range {
        let tables: Vec<_> = self.0.tables.iter().filter(|table| !table.is_empty()).cloned().collect();
        let is_any = !tables.is_empty() && !crossed(from, to);
        let memory = is_any.then(|| Box::new(Merged::new(tables, self.0.position.commit, from, to)));
        Range { memory, ..Range::default() }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshot")
    }
}

/// What the tree alone holds.
pub(crate) fn get_absorbed(tree: &Tree, key: &[u8]) -> Result<Option<Value>, Error> {
    contain_panic(|| {
        let Some(guard) = tree.get_owned(key)? else { return Ok(None) };
        let length = checksum::verify(key, guard.value())?;
        Ok(Some(Value { bytes: Owner::Page(guard), length }))
    })
}

pub(crate) fn next_number(view: &View) -> Result<u64, Error> {
    let Some(next) = view.get(NEXT_NUMBER)? else { return Ok(1) };
    let bytes =
        next.as_array().ok_or(Error::Corrupt { key: NEXT_NUMBER.to_vec(), cause: "it is no number" })?;
    Ok(u64::from_be_bytes(*bytes))
}

/// A key or a value, as stored; the checksum is verified and not part of it.
pub struct Value {
    bytes: Owner,
    length: usize,
}

enum Owner {
    Page(OwnedAccessGuard<&'static [u8]>),
    Key(Arc<[u8]>),
    Written(Arc<Vec<u8>>),
}

impl Value {
    /// `value` ends with its checksum.
    fn written(value: Arc<Vec<u8>>) -> Self {
        Self { length: value.len() - checksum::CHECKSUM_BYTES, bytes: Owner::Written(value) }
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let bytes = match &self.bytes {
            Owner::Page(guard) => guard.value(),
            Owner::Key(key) => key,
            Owner::Written(value) => value,
        };
        &bytes[..self.length]
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
#[derive(Default)]
pub struct Range {
    /// Absent if no table holds anything.
    memory: Option<Box<Merged>>,
    tree: Option<Left>,
    /// Taken from an end of the tree, and not given out yet.
    front: Option<Guards>,
    back: Option<Guards>,
}

type Guards = (OwnedAccessGuard<&'static [u8]>, OwnedAccessGuard<&'static [u8]>);
type Entries = OwnedRange<&'static [u8], &'static [u8]>;

/// What is left of a range in the tree.
struct Left {
    entries: Entries,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    view: Arc<View>,
}

impl Left {
    fn take(&mut self, end: End) -> Result<Option<Guards>, Error> {
        let taken = match take(&mut self.entries, end) {
            Err(Error::Expired) => {
                let (from, to) = (as_slice(&self.from), as_slice(&self.to));
                if crossed(from, to) {
                    return Ok(None);
                }
                let (entries, taken) = self.view.in_successor(|tree| {
                    let mut entries = tree.entries(from, to)?;
                    let taken = take(&mut entries, end)?;
                    Ok((entries, taken))
                })?;
                self.entries = entries;
                taken
            }
            taken => taken?,
        };
        if let Some((key, _)) = &taken {
            let bound = match end {
                End::Front => &mut self.from,
                End::Back => &mut self.to,
            };
            exclude(bound, key.value());
        }
        Ok(taken)
    }
}

fn take(entries: &mut Entries, end: End) -> Result<Option<Guards>, Error> {
    contain_panic(|| {
        let taken = match end {
            End::Front => entries.next(),
            End::Back => entries.next_back(),
        };
        Ok(taken.transpose()?)
    })
}

/// Lets a range begin or end at a key that is not part of it. Keeps the memory of the bound.
fn exclude(bound: &mut Bound<Vec<u8>>, key: &[u8]) {
    let mut bytes = match std::mem::replace(bound, Bound::Unbounded) {
        Bound::Included(bytes) | Bound::Excluded(bytes) => bytes,
        Bound::Unbounded => Vec::new(),
    };
    bytes.clear();
    bytes.extend_from_slice(key);
    *bound = Bound::Excluded(bytes);
}

pub(crate) fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

impl Range {
    fn step(&mut self, end: End) -> Option<Result<(Value, Value), Error>> {
        let entry = self.try_step(end).transpose()?;
        // A damaged value leaves its neighbours readable; a broken page does not.
        if entry.as_ref().is_err_and(|error| !matches!(error, Error::Corrupt { .. })) {
            *self = Self::default();
        }
        Some(entry)
    }

    fn try_step(&mut self, end: End) -> Result<Option<(Value, Value)>, Error> {
        loop {
            let tree = self.take_tree(end)?;
            let Some(memory) = &mut self.memory else { return tree.map(entry).transpose() };
            let held = match end {
                End::Front => memory.peek_front(),
                End::Back => memory.peek_back(),
            };
            let Some((key, value)) = held else { return tree.map(entry).transpose() };
            let order = match (&tree, end) {
                (None, _) => Ordering::Greater,
                (Some((stored, _)), End::Front) => stored.value().cmp(key),
                (Some((stored, _)), End::Back) => (**key).cmp(stored.value()),
            };
            if order.is_lt() {
                return tree.map(entry).transpose();
            }
            let (key, value) = (Arc::clone(key), value.clone());
            match end {
                End::Front => memory.pass_front(&key),
                End::Back => memory.pass_back(&key),
            }
            // What the tree holds of the same key is of an earlier time.
            if order.is_gt() {
                match end {
                    End::Front => self.front = tree,
                    End::Back => self.back = tree,
                }
            }
            if let Some(value) = value {
                let key = Value { length: key.len(), bytes: Owner::Key(key) };
                return Ok(Some((key, Value::written(value))));
            }
        }
    }

    /// What is next at an end of the tree.
    fn take_tree(&mut self, end: End) -> Result<Option<Guards>, Error> {
        let (own, other) = match end {
            End::Front => (&mut self.front, &mut self.back),
            End::Back => (&mut self.back, &mut self.front),
        };
        if own.is_some() {
            return Ok(own.take());
        }
        let Some(left) = &mut self.tree else { return Ok(None) };
        // The last that is left may have been taken from the other end.
        Ok(left.take(end)?.or_else(|| other.take()))
    }
}

fn entry((key, value): Guards) -> Result<(Value, Value), Error> {
    let key = Value { length: key.value().len(), bytes: Owner::Page(key) };
    let length = checksum::verify(&key, value.value())?;
    Ok((key, Value { bytes: Owner::Page(value), length }))
}

impl Iterator for Range {
    type Item = Result<(Value, Value), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(End::Front)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(End::Back)
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
        match value.bytes {
            Owner::Written(value) => Self::pending(value),
            Owner::Page(_) | Owner::Key(_) => Self(Repr::Stored(Arc::new(value))),
        }
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
