//! Reading around damage: what of a range can be read, and which keys cannot.
//!
//! A page that is damaged takes its entries with it, or everything below it in the tree. [`Pieces`] tells which keys
//! those are and goes on behind them. It finds that out by watching the tree look for a key: the keys it compares
//! with on the way down are the bounds of the pages it goes through, so the last ones on either side are the bounds
//! of the page that cannot be read.
//!
//! Promises:
//! - Every entry on a page that can be read and reached comes, in order.
//! - Every other key is in one of the ranges that are told.
//! - What a memory table holds comes too, behind the range that is told where its page is damaged.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Bound;

use redb::{TableDefinition, TypeName};

use crate::panic::contain_panic;
use crate::snapshot::{Range, Snapshot, Tree, Value, as_slice};
use crate::{Error, absorb};

/// A piece of a range.
#[derive(Debug)]
pub enum Piece {
    Entry(Value, Value),
    Lost(Lost),
}

/// What cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// One value.
    Value { key: Vec<u8>, cause: &'static str },
    /// Whatever there was from one key on and before another; without that one, to the end.
    Keys { from: Vec<u8>, before: Option<Vec<u8>> },
}

/// The entries of a range that can be read, and what cannot. Ends after an error.
pub struct Pieces {
    snapshot: Snapshot,
    forward: bool,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    range: Option<Range>,
    /// What comes next.
    found: VecDeque<Piece>,
    ended: bool,
}

impl Snapshot {
    /// Like [`Snapshot::range`] from the front, or from the back, and goes on behind what is damaged.
    pub fn pieces(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, forward: bool) -> Pieces {
        Pieces {
            snapshot: self.clone(),
            forward,
            from: from.map(<[u8]>::to_vec),
            to: to.map(<[u8]>::to_vec),
            range: None,
            found: VecDeque::new(),
            ended: false,
        }
    }
}

impl Iterator for Pieces {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(piece) = self.found.pop_front() {
            return Some(Ok(piece));
        }
        if self.ended {
            return None;
        }
        let piece = self.step().transpose();
        self.ended |= !matches!(piece, Some(Ok(_)));
        piece
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pieces")
    }
}

impl Pieces {
    fn step(&mut self) -> Result<Option<Piece>, Error> {
        let entry = match self.next_entry() {
            Ok(entry) => entry,
            Err(Error::Corrupt { key, cause }) => {
                self.pass(key.clone());
                return Ok(Some(Piece::Lost(Lost::Value { key, cause })));
            }
            Err(Error::Damaged { .. }) => {
                self.range = None;
                let (from, to) = (self.from.clone(), self.to.clone());
                let lost = if self.forward { self.skip_forward() } else { self.skip_backward() }?;
                self.gather(as_slice(&from), as_slice(&to), lost)?;
                return Ok(self.found.pop_front());
            }
            Err(other) => return Err(other),
        };
        Ok(entry.map(|(key, value)| {
            self.pass(key.to_vec());
            Piece::Entry(key, value)
        }))
    }

    fn next_entry(&mut self) -> Result<Option<(Value, Value)>, Error> {
        let range = match &mut self.range {
            Some(range) => range,
            none => none.insert(self.snapshot.range(as_slice(&self.from), as_slice(&self.to))?),
        };
        if self.forward { range.next() } else { range.next_back() }.transpose()
    }

    /// Gathers what memory tables hold up to where a range is lost, and within it: that can be read whatever became of the
    /// tree. Without one, all that is left.
    fn gather(&mut self, from: Bound<&[u8]>, to: Bound<&[u8]>, lost: Option<Piece>) -> Result<(), Error> {
        let Some(Piece::Lost(Lost::Keys { from: first, before })) = &lost else {
            self.ended = true;
            self.found.extend(lost);
            return self.gather_memory(from, to);
        };
        let within =
            (Bound::Included(&first[..]), before.as_deref().map_or(Bound::Unbounded, Bound::Excluded));
        if self.forward {
            self.gather_memory(from, Bound::Excluded(first))?;
        } else if let Some(before) = before {
            self.gather_memory(Bound::Included(before), to)?;
        }
        self.found.push_back(Piece::Lost(Lost::Keys { from: first.clone(), before: before.clone() }));
        self.gather_memory(within.0, within.1)
    }

    fn gather_memory(&mut self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<(), Error> {
        let mut range = self.snapshot.memory_range(from, to);
        while let Some(entry) = if self.forward { range.next() } else { range.next_back() } {
            let (key, value) = entry?;
            self.found.push_back(Piece::Entry(key, value));
        }
        Ok(())
    }

    /// Leaves everything up to this key behind.
    fn pass(&mut self, key: Vec<u8>) {
        if self.forward { self.from = Bound::Excluded(key) } else { self.to = Bound::Excluded(key) }
    }

    /// The damage is on the page of the first key that is left, or on one of the next.
    fn skip_forward(&mut self) -> Result<Option<Piece>, Error> {
        let end = match &self.to {
            Bound::Included(key) => Some(successor(key)),
            Bound::Excluded(key) => Some(key.clone()),
            Bound::Unbounded => None,
        };
        let is_past = |key: &[u8]| end.as_deref().is_some_and(|end| key >= end);
        let mut first = match &self.from {
            Bound::Included(key) => key.clone(),
            Bound::Excluded(key) => successor(key),
            Bound::Unbounded => Vec::new(),
        };
        loop {
            if is_past(&first) {
                return Ok(None);
            }
            let page = PageBounds::of(&self.snapshot, &first)?;
            let next = page.last.as_deref().map(successor);
            let behind = next.clone().filter(|next| !is_past(next));
            if page.damaged {
                match &behind {
                    Some(behind) => self.from = Bound::Included(behind.clone()),
                    None => self.ended = true,
                }
                return Ok(Some(Piece::Lost(Lost::Keys { from: first, before: behind.or(end) })));
            }
            let Some(next) = next else { return Ok(None) };
            first = next;
        }
    }

    fn skip_backward(&mut self) -> Result<Option<Piece>, Error> {
        // No key of a store is as long as this.
        const AFTER_ALL: [u8; 4096] = [0xff; 4096];
        let (mut last, mut before) = match &self.to {
            Bound::Included(key) => (key.clone(), Some(successor(key))),
            Bound::Excluded(key) => (key.clone(), Some(key.clone())),
            Bound::Unbounded => (AFTER_ALL.to_vec(), None),
        };
        let start = match &self.from {
            Bound::Included(key) => key.clone(),
            Bound::Excluded(key) => successor(key),
            Bound::Unbounded => Vec::new(),
        };
        loop {
            let page = PageBounds::of(&self.snapshot, &last)?;
            let first = page.after.as_deref().map(successor).filter(|first| *first > start);
            if page.damaged && before.as_ref().is_none_or(|before| first.as_ref().unwrap_or(&start) < before)
            {
                match page.after.filter(|_| first.is_some()) {
                    Some(after) => self.to = Bound::Included(after),
                    None => self.ended = true,
                }
                return Ok(Some(Piece::Lost(Lost::Keys { from: first.unwrap_or(start), before })));
            }
            let (Some(after), Some(first)) = (page.after, first) else { return Ok(None) };
            (last, before) = (after, Some(first));
        }
    }
}

/// The key right after another.
fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Which keys are on the page that a key is on, if there is such a key.
struct PageBounds {
    /// They are all above this one.
    after: Option<Vec<u8>>,
    /// None is above this one.
    last: Option<Vec<u8>>,
    damaged: bool,
}

impl PageBounds {
    fn of(snapshot: &Snapshot, key: &[u8]) -> Result<Self, Error> {
        snapshot.0.in_tree(|tree| Self::in_tree(tree, key))
    }

    fn in_tree(tree: &Tree, key: &[u8]) -> Result<Self, Error> {
        WATCH.set(Some(Watch { wanted: key.to_vec(), below: None, from: None }));
        let outcome = contain_panic(|| {
            let table = tree.transaction.open_table(WATCHED)?;
            drop(table.get(key)?);
            Ok(())
        });
        let watch = WATCH.take().expect("it was set above");
        let damaged = match outcome {
            Ok(()) => false,
            Err(Error::Damaged { .. }) => true,
            Err(other) => return Err(other),
        };
        Ok(Self { after: watch.below, last: watch.from, damaged })
    }
}

thread_local! {
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// What a key was compared with.
struct Watch {
    wanted: Vec<u8>,
    /// The last that is below it.
    below: Option<Vec<u8>>,
    /// The first that is not.
    from: Option<Vec<u8>>,
}

impl Watch {
    fn note(&mut self, other: &[u8]) {
        if other < &self.wanted[..] {
            if self.below.as_deref().is_none_or(|below| below < other) {
                self.below = Some(other.to_vec());
            }
        } else if self.from.as_deref().is_none_or(|from| from > other) {
            self.from = Some(other.to_vec());
        }
    }
}

/// The keys of the map, in the same order, noted as they are compared.
#[derive(Debug)]
struct WatchedKey;

const WATCHED: TableDefinition<'static, WatchedKey, &'static [u8]> = TableDefinition::new(absorb::DATA_NAME);

impl redb::Value for WatchedKey {
    type SelfType<'a> = &'a [u8];
    type AsBytes<'a> = &'a [u8];

    fn fixed_width() -> Option<usize> {
        None
    }

    fn from_bytes<'a>(data: &'a [u8]) -> &'a [u8]
    where
        Self: 'a,
    {
        data
    }

    fn as_bytes<'a, 'b: 'a>(value: &'a &'b [u8]) -> &'a [u8]
    where
        Self: 'b,
    {
        value
    }

    fn type_name() -> TypeName {
        <&[u8] as redb::Value>::type_name()
    }
}

impl redb::Key for WatchedKey {
    fn compare(a: &[u8], b: &[u8]) -> Ordering {
        WATCH.with_borrow_mut(|watch| {
            let Some(watch) = watch else { return a.cmp(b) };
            let (other, wanted_is) =
                if *a == *watch.wanted { (b, Ordering::Less) } else { (a, Ordering::Greater) };
            watch.note(other);
            // A search that meets its very key ends there, and has not seen the bound on the other side. The key is
            // on the same page as those just below it.
            a.cmp(b).then(wanted_is)
        })
    }
}
