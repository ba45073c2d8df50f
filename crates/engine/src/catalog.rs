//! Which tables, indexes and backups exist.
//!
//! The catalog is kept in memory and in one record per table or backup. A record is an item like any other, so it needs
//! no format of its own; `record.rs` says what is in it.
//!
//! Writers hold the catalog while they stage and submit a change, and a change of the catalog waits for them,
//! so no write ever misses an index that was added beside it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use larder_model::{ApiError, IndexDefinition, Item, StreamView, TableDefinition, TableName, UnixTime};
use larder_storage::{Batch, Generation, Store};

use crate::backup::put_backup;
use crate::copy::Copy;
use crate::layout::{self, TableId, TreeId};
use crate::metrics::TableMetrics;
use crate::tables::put_record;
use crate::{Error, item_bytes, key_bytes, record};

/// A table as the engine knows it. Replaced, never changed.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub id: TableId,
    pub definition: Arc<TableDefinition>,
    /// In the order of `definition.indexes`.
    pub trees: Vec<IndexTree>,
    /// Tree numbers from here on have not been used by this table.
    pub next_tree: u16,
    pub expiry: Option<Expiry>,
    /// Set while it can be had as it was at any moment.
    pub recovery: Option<Recovery>,
    /// What is being copied from it. Until that is done its log is kept, and it stays.
    pub copies: Vec<TableId>,
    /// Where it comes from, if it was copied.
    pub restored: Option<Restored>,
    pub history: History,
    /// Shared by all that the table ever was since the store was opened.
    pub metrics: Arc<TableMetrics>,
}

/// Point-in-time recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recovery {
    /// How far back it reaches.
    pub days: u8,
    pub since: UnixTime,
}

/// What a table was copied from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Restored {
    /// Set until it is done; nobody may use the table before.
    pub copy: Option<Copy>,
    pub table_arn: String,
    pub backup_arn: Option<String>,
    /// The moment it shows.
    pub at: UnixTime,
}

/// A table as it was, kept.
#[derive(Clone, Debug)]
pub(crate) struct Backup {
    /// What its ARN ends with. It begins with the time, so that backups are listed in their order.
    pub id: String,
    pub name: String,
    pub created: UnixTime,
    /// When it goes by itself, which only what a deleted table leaves behind does.
    pub expires: Option<UnixTime>,
    /// The table when it was made.
    pub table: Arc<Table>,
    /// What keeps its items: a table without indexes that nobody can name.
    pub items: Arc<Table>,
}

/// Where an index keeps its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexTree {
    pub id: TreeId,
    /// Older items are still being added; until that is done nobody may read it.
    pub building: bool,
}

/// Which attribute says when an item expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expiry {
    pub attribute: String,
    /// Older items are still being entered.
    pub building: bool,
}

/// What a description tells about a table's past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct History {
    /// Shown as a UUID.
    pub uuid: [u8; 16],
    pub created: UnixTime,
    pub on_demand_since: Option<UnixTime>,
    pub throughput_increased: Option<UnixTime>,
    pub throughput_decreased: Option<UnixTime>,
    pub stream_label: Option<UnixTime>,
    /// Streams that were switched off and can still be read, oldest first.
    pub closed_streams: Vec<ClosedStream>,
    pub class_changed: Option<UnixTime>,
}

/// A stream that was switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClosedStream {
    pub label: UnixTime,
    pub view: StreamView,
    pub closed: UnixTime,
}

/// An index and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Index<'a> {
    pub definition: &'a IndexDefinition,
    pub tree: IndexTree,
}

impl Table {
    pub(crate) fn name(&self) -> &TableName {
        &self.definition.name
    }

    pub(crate) fn indexes(&self) -> impl Iterator<Item = Index<'_>> {
        self.definition
            .indexes
            .iter()
            .zip(&self.trees)
            .map(|(definition, tree)| Index { definition, tree: *tree })
    }

    pub(crate) fn index(&self, name: &str) -> Option<Index<'_>> {
        self.indexes().find(|index| index.definition.name.as_str() == name)
    }

    /// Whether it still lacks items.
    pub(crate) fn is_being_copied(&self) -> bool {
        self.restored.as_ref().is_some_and(|restored| restored.copy.is_some())
    }

    /// Whether a tree with this number belongs to the table as it is now.
    pub(crate) fn owns(&self, tree: TreeId) -> bool {
        match tree {
            TreeId::ITEMS => true,
            TreeId::EXPIRY => self.expiry.is_some(),
            other => self.trees.iter().any(|index| index.id == other),
        }
    }

    /// The key of the item that has these attributes; its key attributes have been checked.
    pub(crate) fn item_key(&self, item: &Item) -> Result<Vec<u8>, Error> {
        layout::key(self.id, TreeId::ITEMS, &self.definition.key, item)
            .ok_or_else(|| Error::validation("The provided key element does not match the schema"))
    }
}

#[derive(Debug)]
pub(crate) struct Catalog {
    tables: BTreeMap<TableName, Arc<Table>>,
    backups: BTreeMap<String, Arc<Backup>>,
    /// What the catalog rests on. Once the store has lost writes, it may hold changes that never were.
    pub(crate) generation: Generation,
}

impl Catalog {
    /// Reads all records.
    pub(crate) fn load(store: &Store) -> Result<Self, Error> {
        // The generation first: should it change meanwhile, the catalog is read again.
        let generation = store.generation();
        let snapshot = store.snapshot();
        let records = |from: [u8; 1]| {
            let to = key_bytes::after_prefix(&from).expect("records do not begin with FF");
            snapshot.range(Bound::Included(&from), Bound::Excluded(&to))
        };
        let mut tables = BTreeMap::new();
        for entry in records(layout::records())? {
            let (_, value) = entry?;
            let table = record::read(&item_bytes::decode(&value)?)?;
            tables.insert(table.name().clone(), Arc::new(table));
        }
        let mut backups = BTreeMap::new();
        for entry in records(layout::backups())? {
            let (_, value) = entry?;
            let backup = record::read_backup(&item_bytes::decode(&value)?)?;
            backups.insert(backup.id.clone(), Arc::new(backup));
        }
        Ok(Self { tables, backups, generation })
    }

    /// Takes over what another catalog's tables have counted.
    pub(crate) fn go_on_counting(&mut self, before: &Self) {
        for table in self.tables.values_mut() {
            if let Some(known) = before.by_id(table.id) {
                Arc::make_mut(table).metrics = known.metrics.clone();
            }
        }
    }

    pub(crate) fn find(&self, name: &TableName) -> Option<&Arc<Table>> {
        self.tables.get(name)
    }

    /// The table, or DynamoDB's answer when there is none, or none yet.
    pub(crate) fn table(&self, name: &TableName) -> Result<&Arc<Table>, Error> {
        self.find(name)
            .filter(|table| !table.is_being_copied())
            .ok_or_else(|| ApiError::table_not_found().into())
    }

    pub(crate) fn by_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.tables.values().find(|table| table.id == id)
    }

    /// Tables, and those that backups keep.
    pub(crate) fn all_tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values().chain(self.backups.values().map(|backup| &backup.items))
    }

    /// A table, or one that a backup keeps.
    pub(crate) fn any_by_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.all_tables().find(|table| table.id == id)
    }

    /// Notes that a copy is whole, and that its source is free.
    pub(crate) fn finish_copy(&mut self, batch: &mut Batch, target: TableId, source: TableId) {
        self.change(batch, source, |source| source.copies.retain(|copy| *copy != target));
        self.change(batch, target, |target| {
            if let Some(restored) = &mut target.restored {
                restored.copy = None;
            }
        });
    }

    /// Changes a table, or one that a backup keeps, if it is still there.
    pub(crate) fn change(&mut self, batch: &mut Batch, id: TableId, change: impl FnOnce(&mut Table)) {
        if let Some(table) = self.by_id(id) {
            let mut table = (**table).clone();
            change(&mut table);
            put_record(batch, &table);
            self.insert(Arc::new(table));
        } else if let Some(backup) = self.backups.values().find(|backup| backup.items.id == id) {
            let mut backup = (**backup).clone();
            change(Arc::make_mut(&mut backup.items));
            put_backup(batch, &backup);
            self.insert_backup(Arc::new(backup));
        }
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// Names after `start`, in order.
    pub(crate) fn names_after(&self, start: Option<&str>) -> impl Iterator<Item = &TableName> {
        let from = start.map_or(Bound::Unbounded, Bound::Excluded);
        self.tables.range::<str, _>((from, Bound::Unbounded)).map(|(name, _)| name)
    }

    pub(crate) fn insert(&mut self, table: Arc<Table>) {
        self.tables.insert(table.name().clone(), table);
    }

    pub(crate) fn remove(&mut self, name: &TableName) {
        self.tables.remove(name);
    }

    pub(crate) fn backup(&self, id: &str) -> Option<&Arc<Backup>> {
        self.backups.get(id)
    }

    /// Backups after the one with this id, oldest first.
    pub(crate) fn backups_after(&self, id: Option<&str>) -> impl Iterator<Item = &Arc<Backup>> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        self.backups.range::<str, _>((from, Bound::Unbounded)).map(|(_, backup)| backup)
    }

    pub(crate) fn insert_backup(&mut self, backup: Arc<Backup>) {
        self.backups.insert(backup.id.clone(), backup);
    }

    pub(crate) fn remove_backup(&mut self, id: &str) {
        self.backups.remove(id);
    }
}
