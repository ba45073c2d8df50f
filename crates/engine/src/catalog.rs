//! Which tables and indexes exist.
//!
//! The catalog is kept in memory and in one record per table. A record is an item like any other, so it needs
//! no format of its own; `record.rs` says what is in it.
//!
//! Writers hold the catalog while they stage and submit a change, and a change of the catalog waits for them,
//! so no write ever misses an index that was added beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use larder_model::{ApiError, IndexDefinition, Item, TableDefinition, TableName, UnixTime};
use larder_storage::{Generation, Store};

use crate::layout::{self, TableId, TreeId};
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
    pub history: History,
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
    pub class_changed: Option<UnixTime>,
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
    /// What the catalog rests on. Once the store has lost writes, it may hold changes that never were.
    pub(crate) generation: Generation,
}

impl Catalog {
    /// Reads all records.
    pub(crate) fn load(store: &Store) -> Result<Self, Error> {
        // The generation first: should it change meanwhile, the catalog is read again.
        let generation = store.generation();
        let snapshot = store.snapshot();
        let from = layout::records();
        let to = key_bytes::after_prefix(&from).expect("records do not begin with FF");
        let mut tables = BTreeMap::new();
        for entry in snapshot.range(std::ops::Bound::Included(&from), std::ops::Bound::Excluded(&to))? {
            let (_, value) = entry?;
            let table = record::read(&item_bytes::decode(&value)?)?;
            tables.insert(table.name().clone(), Arc::new(table));
        }
        Ok(Self { tables, generation })
    }

    pub(crate) fn find(&self, name: &TableName) -> Option<&Arc<Table>> {
        self.tables.get(name)
    }

    /// The table, or DynamoDB's answer when there is none.
    pub(crate) fn table(&self, name: &TableName) -> Result<&Arc<Table>, Error> {
        self.find(name).ok_or_else(|| ApiError::table_not_found().into())
    }

    pub(crate) fn by_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.tables.values().find(|table| table.id == id)
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// Names after `start`, in order.
    pub(crate) fn names_after(&self, start: Option<&str>) -> impl Iterator<Item = &TableName> {
        let from = start.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.tables.range::<str, _>((from, std::ops::Bound::Unbounded)).map(|(name, _)| name)
    }

    pub(crate) fn insert(&mut self, table: Arc<Table>) {
        self.tables.insert(table.name().clone(), table);
    }

    pub(crate) fn remove(&mut self, name: &TableName) {
        self.tables.remove(name);
    }
}
