//! The tables and backups of a store that is damaged, as far as their records can be read, in either copy.
//!
//! The catalog does the same for an engine; whoever looks at a damaged store may look at what was brought out of one,
//! which lacks what it lacks without saying so.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use larder_storage::{Lost, Piece, Snapshot};

use crate::catalog::{Backup, Table};
use crate::damage::{name_of_entry, name_of_range, tree_name};
use crate::layout::{self, COPIES, TableId, TreeId};
use crate::{Error, damage, item_bytes, key_bytes, record};

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub tables: Vec<Arc<Table>>,
    pub backups: Vec<Arc<Backup>>,
    /// Tables, and those that backups keep.
    by_id: HashMap<TableId, Arc<Table>>,
    /// What can be read in neither copy: data of a table that is not here may be of one that was there.
    pub lost: Vec<Lost>,
}

impl Records {
    /// `lost` is what the snapshot lacks without saying so.
    pub(crate) fn read(snapshot: &Snapshot, lost: &[Lost]) -> Result<Self, Error> {
        let mut records = Self::default();
        let read = |value: &[u8]| Some(Arc::new(record::read(&item_bytes::decode(value).ok()?).ok()?));
        records.tables = records.either(snapshot, &layout::records(), lost, read)?;
        let read = |value: &[u8]| Some(Arc::new(record::read_backup(&item_bytes::decode(value).ok()?).ok()?));
        records.backups = records.either(snapshot, &layout::backups(), lost, read)?;
        let kept = records.backups.iter().map(|backup| &backup.items);
        records.by_id = records.tables.iter().chain(kept).map(|table| (table.id, table.clone())).collect();
        Ok(records)
    }

    /// All that begin so, each from the copy that can be read.
    fn either<T>(
        &mut self,
        snapshot: &Snapshot,
        prefix: &[u8],
        lost: &[Lost],
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, Error> {
        let (mut found, gaps) = copies(snapshot, prefix, lost, &read)?;
        if gaps.is_empty() {
            return Ok(found.into_values().collect());
        }
        let (seconds, second_gaps) = copies(snapshot, &layout::second(prefix), lost, &read)?;
        for (key, value) in seconds {
            found.entry(layout::first(&key).to_vec()).or_insert(value);
        }
        // Without this, what has no second copy may have been there all the same.
        let all_have_copies = snapshot.get(COPIES).is_ok_and(|copies| copies.is_some());
        for gap in gaps {
            match &gap {
                Lost::Value { key, .. } if found.contains_key(key) => {}
                _ if all_have_copies => {
                    let firsts = second_gaps.iter().map(first_of);
                    self.lost.extend(firsts.filter(|second| meet(&gap, second)));
                }
                _ => self.lost.push(gap),
            }
        }
        Ok(found.into_values().collect())
    }

    pub(crate) fn by_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.by_id.get(&id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.by_id.values()
    }

    /// What a key is the key of, in words.
    pub(crate) fn name_of(&self, key: &[u8]) -> String {
        if let Some((id, tree)) = layout::owner(key) {
            return match self.by_id(id) {
                Some(table) => name_of_entry(table, tree, key),
                None => format!("table {} (no record of it can be read), {}", id.0, damage::hex(key)),
            };
        }
        let text = |key: &[u8]| String::from_utf8_lossy(key.get(1..).unwrap_or_default()).into_owned();
        if let Some(first) = layout::is_second(key).filter(|first| !first.is_empty()) {
            format!("the second copy of {}", self.name_of(first))
        } else if key.starts_with(&layout::records()) {
            format!("the record of table {}", text(key))
        } else if key.starts_with(&layout::backups()) {
            format!("the record of backup {}", text(key))
        } else if let Some(id) = layout::change_owner(key) {
            format!("the change log of table {}", self.name_of_table(id))
        } else if let Some((id, tree)) = layout::counters_owner(key) {
            match self.by_id(id) {
                Some(table) => format!("table {}, the counters of {}", table.name(), tree_name(table, tree)),
                None => format!("the counters of table {}", id.0),
            }
        } else {
            format!("the entry at {}", damage::hex(key))
        }
    }

    fn name_of_table(&self, id: TableId) -> String {
        self.by_id(id).map_or_else(|| id.0.to_string(), |table| table.name().to_string())
    }

    /// What a range of keys is of: a name for each tree and each kind of record in it.
    pub(crate) fn names_of(&self, lost: &Lost) -> Vec<String> {
        let (from, before) = match lost {
            Lost::Value { key, .. } => return vec![self.name_of(key)],
            Lost::Keys { from, before } => (from.as_slice(), before.as_deref()),
        };
        let overlaps = |prefix: &[u8]| is_within(lost, prefix);
        let mut names = Vec::new();
        for (prefix, name) in [
            (layout::records(), "records of tables"),
            (layout::all_counters(), "counters of tables"),
            (layout::tokens(), "tokens of transactions"),
            (layout::backups(), "records of backups"),
            (layout::all_seconds(), "second copies of records"),
        ] {
            if overlaps(&prefix) {
                names.push(name.to_owned());
            }
        }
        let mut known: Vec<_> = self.all().collect();
        known.sort_by_key(|table| table.id);
        for table in known {
            for tree in self.trees_of(table, lost) {
                names.push(name_of_range(table, tree, from, before));
            }
            if overlaps(&layout::changes(table.id)) {
                names.push(format!("the change log of table {}", table.name()));
            }
        }
        if names.is_empty() {
            let before = before.map_or("the end".to_owned(), damage::hex);
            names.push(format!("the entries from {} to before {before}", damage::hex(from)));
        }
        names
    }

    /// The trees of a table that a lost range is of.
    pub(crate) fn trees_of(&self, table: &Table, lost: &Lost) -> Vec<TreeId> {
        let indexes = table.trees.iter().map(|tree| tree.id);
        let trees = [TreeId::ITEMS].into_iter().chain(indexes).chain([TreeId::EXPIRY]);
        let is_hit = |tree: &TreeId| is_within(lost, &layout::tree(table.id, *tree));
        trees.filter(|tree| table.owns(*tree)).filter(is_hit).collect()
    }
}

/// Values by their keys, and what cannot be read.
type Copies<T> = (BTreeMap<Vec<u8>, T>, Vec<Lost>);

/// What can be read of a range.
fn copies<T>(
    snapshot: &Snapshot,
    prefix: &[u8],
    lost: &[Lost],
    read: impl Fn(&[u8]) -> Option<T>,
) -> Result<Copies<T>, Error> {
    let end = key_bytes::after_prefix(prefix).expect("records do not begin with FF");
    let mut found = BTreeMap::new();
    let mut gaps: Vec<Lost> = lost.iter().filter(|lost| is_within(lost, prefix)).cloned().collect();
    for piece in snapshot.pieces(Bound::Included(prefix), Bound::Excluded(&end), true) {
        match piece? {
            Piece::Entry(key, value) => match read(&value) {
                Some(value) => drop(found.insert(key.to_vec(), value)),
                None => gaps.push(Lost::Value { key: key.to_vec(), cause: "it makes no sense" }),
            },
            Piece::Lost(lost) => gaps.push(lost),
        }
    }
    Ok((found, gaps))
}

/// The same of first copies.
fn first_of(second: &Lost) -> Lost {
    let first = |key: &[u8]| layout::first(key).to_vec();
    match second {
        Lost::Value { key, cause } => Lost::Value { key: first(key), cause },
        // A bound outside of the second copies is one of none.
        Lost::Keys { from, before } => Lost::Keys {
            from: first(from),
            before: before.as_deref().map(first).filter(|before| !before.is_empty()),
        },
    }
}

fn meet(a: &Lost, b: &Lost) -> bool {
    let bounds = |lost: &Lost| match lost {
        Lost::Value { key, .. } => (key.clone(), Some([&key[..], &[0]].concat())),
        Lost::Keys { from, before } => (from.clone(), before.clone()),
    };
    let ((a_from, a_before), (b_from, b_before)) = (bounds(a), bounds(b));
    a_before.is_none_or(|before| b_from < before) && b_before.is_none_or(|before| a_from < before)
}

/// Whether a key is one of those that are lost.
pub(crate) fn has(lost: &Lost, key: &[u8]) -> bool {
    match lost {
        Lost::Value { key: lost, .. } => lost == key,
        Lost::Keys { from, before } => **from <= *key && before.as_deref().is_none_or(|before| key < before),
    }
}

/// Whether some of what is lost has keys that begin so.
pub(crate) fn is_within(lost: &Lost, prefix: &[u8]) -> bool {
    match lost {
        Lost::Value { key, .. } => key.starts_with(prefix),
        Lost::Keys { from, before } => {
            key_bytes::after_prefix(prefix).is_none_or(|end| *from < end)
                && before.as_deref().is_none_or(|before| prefix < before)
        }
    }
}
