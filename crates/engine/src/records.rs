//! The tables and backups of a store that is damaged, as far as their records can be read.
//!
//! [`Catalog::load`](crate::catalog::Catalog) wants every record; whoever looks at a damaged store takes what there is.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use larder_storage::{Lost, Piece, Snapshot};

use crate::catalog::{Backup, Table};
use crate::damage::{name_of_entry, name_of_range, tree_name};
use crate::layout::{self, TableId, TreeId};
use crate::{Error, damage, item_bytes, key_bytes, record};

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub tables: Vec<Arc<Table>>,
    pub backups: Vec<Arc<Backup>>,
    /// Tables, and those that backups keep.
    by_id: HashMap<TableId, Arc<Table>>,
    /// Some cannot be read: data of a table that is not here may be of one that is there.
    pub incomplete: bool,
}

impl Records {
    /// `lost` is what the snapshot may lack without saying so.
    pub(crate) fn read(snapshot: &Snapshot, lost: &[Lost]) -> Result<Self, Error> {
        let hits = |prefix: &[u8]| lost.iter().any(|lost| is_within(lost, prefix));
        let incomplete = hits(&layout::records()) || hits(&layout::backups());
        let mut records = Self { incomplete, ..Self::default() };
        for value in records.values(snapshot, &layout::records())? {
            match item_bytes::decode(&value).ok().and_then(|item| record::read(&item).ok()) {
                Some(table) => records.tables.push(Arc::new(table)),
                None => records.incomplete = true,
            }
        }
        for value in records.values(snapshot, &layout::backups())? {
            match item_bytes::decode(&value).ok().and_then(|item| record::read_backup(&item).ok()) {
                Some(backup) => records.backups.push(Arc::new(backup)),
                None => records.incomplete = true,
            }
        }
        let kept = records.backups.iter().map(|backup| &backup.items);
        records.by_id = records.tables.iter().chain(kept).map(|table| (table.id, table.clone())).collect();
        Ok(records)
    }

    fn values(&mut self, snapshot: &Snapshot, prefix: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let end = key_bytes::after_prefix(prefix).expect("records do not begin with FF");
        let mut values = Vec::new();
        for piece in snapshot.pieces(Bound::Included(prefix), Bound::Excluded(&end), true) {
            match piece? {
                Piece::Entry(_, value) => values.push(value.to_vec()),
                Piece::Lost(_) => self.incomplete = true,
            }
        }
        Ok(values)
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
        if key.starts_with(&layout::records()) {
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
