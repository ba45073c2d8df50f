//! A memory table: what was committed and the tree has not absorbed yet, sorted, for any number of readers.
//!
//! One thread adds the groups it commits, in their order; others read at the same time and wait for nobody. Every entry has the number
//! of its commit, so a reader sees the newest entry of a key that is not newer than the state it reads, and entries that
//! come later change nothing for it. A key that was deleted has an entry too, which hides what is below.

use crate::batch::Pending;
use crossbeam_skiplist::SkipMap;
use crossbeam_skiplist::map::Entry;
use rapidhash::v3::rapidhash_v3;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64, AtomicUsize};

/// Memory of an entry beside its key and its value: what the list, the two allocations and the allocator keep.
const OVERHEAD: usize = 160;

/// Bits by which a key is known to be absent; each key has two.
const FILTER_BITS: usize = 1 << 19;

pub(crate) struct Memory {
    entries: SkipMap<Versioned, Pending>,
    /// Most of what is read is in the tree, and looking for it here would take half as long as reading it there.
    filter: Box<[AtomicU64]>,
    bytes: AtomicUsize,
    /// What its entries may take in the tree.
    debt: AtomicU64,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            entries: SkipMap::new(),
            filter: (0..FILTER_BITS / 64).map(|_| AtomicU64::new(0)).collect(),
            bytes: AtomicUsize::new(0),
            debt: AtomicU64::new(0),
        }
    }
}

/// Where the bits of a key are: which word, and which bit of it.
fn bits(key: &[u8]) -> [(usize, u64); 2] {
    let hash = rapidhash_v3(key);
    [hash, hash >> 32].map(|part| (part as usize % FILTER_BITS / 64, 1 << (part % 64)))
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Memory {
    /// Adds what a key holds from a commit on.
    pub(crate) fn insert(&self, commit: u64, key: Arc<[u8]>, value: Pending) {
        let value_bytes = value.as_ref().map_or(0, |value| value.len());
        self.bytes.fetch_add(OVERHEAD + key.len() + value_bytes, atomic::Ordering::Relaxed);
        let marks = bits(&key);
        self.entries.insert(Versioned { key, commit }, value);
        // Seen by whoever sees the state that has the entry, because that is published later.
        for (word, bit) in marks {
            self.filter[word].fetch_or(bit, atomic::Ordering::Relaxed);
        }
    }

    pub(crate) fn owe(&self, debt: u64) {
        self.debt.fetch_add(debt, atomic::Ordering::Relaxed);
    }

    pub(crate) fn debt(&self) -> u64 {
        self.debt.load(atomic::Ordering::Relaxed)
    }

    /// Roughly the memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(atomic::Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What a key holds in a state; nothing if the table does not know.
    pub(crate) fn get(&self, key: &[u8], visible: u64) -> Option<Pending> {
        if bits(key).iter().any(|(word, bit)| self.filter[*word].load(atomic::Ordering::Relaxed) & bit == 0) {
            return None;
        }
        let wanted = (key, visible);
        let entry = self.entries.lower_bound(Bound::Included(&wanted as &dyn Place))?;
        (*entry.key().key == *key).then(|| entry.value().clone())
    }

    /// The same table without what was committed after a commit.
    pub(crate) fn until(&self, commit: u64) -> Self {
        let kept = Self::default();
        for entry in self.entries.iter().filter(|entry| entry.key().commit <= commit) {
            kept.insert(entry.key().commit, Arc::clone(&entry.key().key), entry.value().clone());
        }
        if !kept.is_empty() {
            kept.owe(self.debt());
        }
        kept
    }

    /// Gathers what the first keys of a range hold in a state.
    fn first(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visible: u64,
        count: usize,
        out: &mut VecDeque<Held>,
    ) {
        // Of one key the newest comes first.
        let (newest, oldest);
        let bound: Bound<&dyn Place> = match from {
            Bound::Included(key) => {
                newest = (key, u64::MAX);
                Bound::Included(&newest)
            }
            Bound::Excluded(key) => {
                oldest = (key, 0);
                Bound::Excluded(&oldest)
            }
            Bound::Unbounded => Bound::Unbounded,
        };
        let mut next = self.entries.lower_bound(bound);
        while let Some(entry) = next {
            let Versioned { key, commit } = entry.key();
            let is_past = match to {
                Bound::Included(to) => **key > *to,
                Bound::Excluded(to) => **key >= *to,
                Bound::Unbounded => false,
            };
            if is_past {
                return;
            }
            if *commit > visible {
                next = entry.next();
                continue;
            }
            out.push_back((Arc::clone(key), entry.value().clone()));
            if out.len() == count {
                return;
            }
            next = self.after(&entry);
        }
    }

    /// The first entry of the next key.
    fn after<'a>(&'a self, entry: &Entry<'a, Versioned, Pending>) -> Option<Entry<'a, Versioned, Pending>> {
        // Few keys have more than one.
        const STEPS: usize = 4;
        let key = &*entry.key().key;
        let mut next = entry.next();
        for _ in 0..STEPS {
            match &next {
                Some(found) if *found.key().key == *key => next = found.next(),
                _ => return next,
            }
        }
        self.entries.lower_bound(Bound::Excluded(&(key, 0u64) as &dyn Place))
    }

    /// The last key of a range, and what it holds in a state.
    fn last(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, visible: u64) -> Option<Held> {
        let mut key;
        let mut to = to;
        loop {
            let (newest, oldest);
            let bound: Bound<&dyn Place> = match to {
                Bound::Included(key) => {
                    oldest = (key, 0);
                    Bound::Included(&oldest)
                }
                Bound::Excluded(key) => {
                    newest = (key, u64::MAX);
                    Bound::Excluded(&newest)
                }
                Bound::Unbounded => Bound::Unbounded,
            };
            key = Arc::clone(&self.entries.upper_bound(bound)?.key().key);
            let is_before = match from {
                Bound::Included(from) => *key < *from,
                Bound::Excluded(from) => *key <= *from,
                Bound::Unbounded => false,
            };
            if is_before {
                return None;
            }
            if let Some(value) = self.get(&key, visible) {
                return Some((key, value));
            }
            to = Bound::Excluded(&key);
        }
    }
}

/// A key, and what it holds.
pub(crate) type Held = (Arc<[u8]>, Pending);

/// The keys of several tables in a range, each with what it holds in a state: the first of the tables that knows it tells.
/// From either end.
pub(crate) struct Merged {
    tables: Vec<Source>,
    visible: u64,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
}

struct Source {
    table: Arc<Memory>,
    front: VecDeque<Held>,
    /// How many to gather next.
    count: usize,
    /// There are no more than those gathered.
    ended: bool,
    back: Option<Held>,
}

const GATHERED_MIN: usize = 4;
const GATHERED_MAX: usize = 128;

impl Merged {
    /// Tables from the newest on.
    pub(crate) fn new(
        tables: impl IntoIterator<Item = Arc<Memory>>,
        visible: u64,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Self {
        let source =
            |table| Source { table, front: VecDeque::new(), count: GATHERED_MIN, ended: false, back: None };
        Self {
            tables: tables.into_iter().map(source).collect(),
            visible,
            from: from.map(<[u8]>::to_vec),
            to: to.map(<[u8]>::to_vec),
        }
    }

    /// All that some tables hold.
    pub(crate) fn all(tables: impl IntoIterator<Item = Arc<Memory>>) -> Self {
        Self::new(tables, u64::MAX, Bound::Unbounded, Bound::Unbounded)
    }

    /// The first key that is left, without taking it.
    pub(crate) fn peek_front(&mut self) -> Option<&Held> {
        let (from, to) = (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice));
        for source in &mut self.tables {
            while source.front.front().is_some_and(|(key, _)| !is_after(key, from)) {
                source.front.pop_front();
            }
            if source.front.is_empty() && !source.ended {
                source.table.first(from, to, self.visible, source.count, &mut source.front);
                source.ended = source.front.len() < source.count;
                source.count = (source.count * 2).min(GATHERED_MAX);
            }
        }
        let held = self.tables.iter().filter_map(|source| source.front.front());
        // Of equal ones the first.
        held.filter(|(key, _)| is_before(key, to)).min_by(|(a, _), (b, _)| a.cmp(b))
    }

    /// The last key that is left, without taking it.
    pub(crate) fn peek_back(&mut self) -> Option<&Held> {
        let (from, to) = (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice));
        for source in &mut self.tables {
            if source.back.as_ref().is_none_or(|(key, _)| !is_before(key, to)) {
                source.back = source.table.last(from, to, self.visible);
            }
        }
        let held = self.tables.iter().rev().filter_map(|source| source.back.as_ref());
        held.filter(|(key, _)| is_after(key, from)).max_by(|(a, _), (b, _)| a.cmp(b))
    }

    /// Leaves a key behind, and all before it.
    pub(crate) fn pass_front(&mut self, key: &[u8]) {
        set(&mut self.from, key);
    }

    /// Leaves a key behind, and all after it.
    pub(crate) fn pass_back(&mut self, key: &[u8]) {
        set(&mut self.to, key);
    }
}

impl Iterator for Merged {
    type Item = Held;

    fn next(&mut self) -> Option<Held> {
        let held = self.peek_front()?.clone();
        self.pass_front(&held.0);
        Some(held)
    }
}

fn set(bound: &mut Bound<Vec<u8>>, key: &[u8]) {
    let mut buffer = match std::mem::replace(bound, Bound::Unbounded) {
        Bound::Included(buffer) | Bound::Excluded(buffer) => buffer,
        Bound::Unbounded => Vec::new(),
    };
    buffer.clear();
    buffer.extend_from_slice(key);
    *bound = Bound::Excluded(buffer);
}

fn is_after(key: &[u8], from: Bound<&[u8]>) -> bool {
    match from {
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
        Bound::Unbounded => true,
    }
}

fn is_before(key: &[u8], to: Bound<&[u8]>) -> bool {
    match to {
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
        Bound::Unbounded => true,
    }
}

/// A key as it was written by a commit. Sorted by key, and then the newest first.
struct Versioned {
    key: Arc<[u8]>,
    commit: u64,
}

/// What a place in the order is found by, whoever owns the key.
trait Place {
    fn place(&self) -> (&[u8], u64);
}

impl Place for Versioned {
    fn place(&self) -> (&[u8], u64) {
        (&self.key, self.commit)
    }
}

impl Place for (&[u8], u64) {
    fn place(&self) -> (&[u8], u64) {
        *self
    }
}

impl<'a> Borrow<dyn Place + 'a> for Versioned {
    fn borrow(&self) -> &(dyn Place + 'a) {
        self
    }
}

fn compare(a: (&[u8], u64), b: (&[u8], u64)) -> Ordering {
    a.0.cmp(b.0).then(b.1.cmp(&a.1))
}

impl Ord for dyn Place + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.place(), other.place())
    }
}

impl PartialOrd for dyn Place + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Place + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn Place + '_ {}

impl Ord for Versioned {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.place(), other.place())
    }
}

impl PartialOrd for Versioned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Versioned {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Versioned {}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(&str, u64, Option<&str>)]) -> Arc<Memory> {
        let table = Memory::default();
        for (key, commit, value) in entries {
            let value = value.map(|value| Arc::new(value.as_bytes().to_vec()));
            table.insert(*commit, key.as_bytes().into(), value);
        }
        Arc::new(table)
    }

    fn show((key, value): &Held) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("{}={}", text(key), value.as_ref().map_or("-".to_owned(), |value| text(value)))
    }

    #[test]
    fn a_state_sees_the_newest_entry_that_is_not_newer() {
        let table = table(&[("a", 1, Some("1")), ("a", 3, None), ("a", 5, Some("5"))]);
        let at = |visible| table.get(b"a", visible).map(|value| value.map(|value| value[0]));
        assert_eq!(at(0), None);
        assert_eq!([at(1), at(2)], [Some(Some(b'1')); 2]);
        assert_eq!([at(3), at(4)], [Some(None); 2]);
        assert_eq!(at(9), Some(Some(b'5')));
        assert_eq!(table.get(b"", 9), None);
        assert_eq!(table.get(b"b", 9), None);
    }

    #[test]
    fn tables_are_merged_from_both_ends_and_the_first_of_them_tells() {
        let newer = table(&[("b", 7, None), ("d", 8, Some("8")), ("e", 99, Some("later"))]);
        let many: Vec<_> = (1..9).map(|commit| ("c", commit, Some("old"))).collect();
        let older =
            table(&[&many[..], &[("a", 1, Some("1")), ("b", 2, Some("2")), ("d", 3, Some("3"))]].concat());
        let merged =
            || Merged::new([Arc::clone(&newer), Arc::clone(&older)], 10, Bound::Unbounded, Bound::Unbounded);
        let expected = ["a=1", "b=-", "c=old", "d=8"];
        assert_eq!(merged().map(|held| show(&held)).collect::<Vec<_>>(), expected);
        let mut both = merged();
        for back in ["d=8", "c=old"] {
            let last = both.peek_back().unwrap().clone();
            assert_eq!(show(&last), back);
            both.pass_back(&last.0);
        }
        assert_eq!(both.by_ref().map(|held| show(&held)).collect::<Vec<_>>(), ["a=1", "b=-"]);
        assert!(both.peek_back().is_none());
        let from = Merged::new([newer, older], 10, Bound::Excluded(b"a"), Bound::Excluded(b"d"));
        assert_eq!(from.map(|held| show(&held)).collect::<Vec<_>>(), ["b=-", "c=old"]);
    }
}
