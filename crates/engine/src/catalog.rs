//! Which tables, indexes and backups exist.
//!
//! The catalog is kept in memory and in one record per table or backup. A record is an item like any other, so it needs
//! no format of its own; `record.rs` says what is in it.
//!
//! In memory it is a value that never changes: a change is made to a clone, which shares all that stays the same,
//! and the clone takes its place once what must be written with it is submitted. A change that is refused, for
//! whatever reason, leaves no trace. Whoever reads takes the value as it is and waits for nobody.
//!
//! Writers pass a gate while they stage and submit a write, and a change of the catalog waits for them and holds
//! them up, so no write ever misses an index that was added beside it. Nothing is read from disk behind the gate
//! but the items of a write.

use std::ops::{Bound, Deref};
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use larder_model::{ApiError, IndexDefinition, Item, StreamView, TableDefinition, TableName, UnixTime};
use larder_storage::{Batch, Generation, Store, Ticket};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use rpds::{RedBlackTreeMapSync as Map, RedBlackTreeSetSync as Set};

use crate::backup::put_backup;
use crate::copy::Copy;
use crate::exports::Export;
use crate::imports::Import;
use crate::layout::{self, TableId, TreeId};
use crate::metrics::TableMetrics;
use crate::policies::Policies;
use crate::tables::put_record;
use crate::twice::{self, Gap};
use crate::work::Sweep;
use crate::{Engine, Error, item_bytes, record};

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
    /// Set while it can be restored to any moment.
    pub recovery: Option<Recovery>,
    /// What is being copied from it. Until that is done its log is kept, and it stays.
    pub copies: Vec<TableId>,
    /// Where it comes from, if it was copied.
    pub restored: Option<Restored>,
    /// An import is filling it.
    pub is_importing: bool,
    /// What it and its streams have of policies.
    pub policies: Policies,
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
    /// An export keeps its items here.
    pub is_hidden: bool,
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

impl History {
    /// Whether a stream of this label is remembered.
    pub(crate) fn has_stream(&self, label: UnixTime) -> bool {
        self.stream_label == Some(label) || self.closed_streams.iter().any(|stream| stream.label == label)
    }
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
        self.is_importing || self.restored.as_ref().is_some_and(|restored| restored.copy.is_some())
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

#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    tables: Map<TableName, Arc<Table>>,
    by_id: Map<TableId, Arc<Table>>,
    backups: Map<String, Arc<Backup>>,
    /// The backups by the tables that keep their items.
    keepers: Map<TableId, Arc<Backup>>,
    /// Tables that are being copied into, those that backups keep among them.
    copied: Set<TableId>,
    /// Tables with an index or an expiry tree that is being filled.
    building: Set<TableId>,
    /// Tables whose items expire.
    expiring: Set<TableId>,
    /// Backups that go by themselves, in the order they do.
    leaving: Set<(UnixTime, String)>,
    exports: Map<String, Arc<Export>>,
    imports: Map<String, Arc<Import>>,
    /// Records that cannot be read in either copy, and places where some may be.
    gaps: Arc<[Gap]>,
    /// What this change of the catalog leaves without an owner. Empty once it is published.
    dropped: Vec<Dropped>,
    /// What the catalog rests on. Once the store has lost writes, it may hold changes that never were.
    pub(crate) generation: Generation,
}

impl Catalog {
    fn empty(generation: Generation) -> Self {
        Self {
            tables: Map::new_sync(),
            by_id: Map::new_sync(),
            backups: Map::new_sync(),
            keepers: Map::new_sync(),
            copied: Set::new_sync(),
            building: Set::new_sync(),
            expiring: Set::new_sync(),
            leaving: Set::new_sync(),
            exports: Map::new_sync(),
            imports: Map::new_sync(),
            gaps: Arc::default(),
            dropped: Vec::new(),
            generation,
        }
    }

    /// Reads all records.
    pub(crate) fn load(store: &Store) -> Result<Self, Error> {
        // The generation first: should it change meanwhile, the catalog is read again.
        let mut catalog = Self::empty(store.generation());
        let snapshot = store.snapshot();
        let read = |value: &[u8]| Ok(Arc::new(record::read(&item_bytes::decode(value)?)?));
        let (tables, mut gaps) = twice::read_all(&snapshot, &layout::records(), read)?;
        tables.into_iter().for_each(|table| catalog.insert(table));
        let read = |value: &[u8]| Ok(Arc::new(record::read_backup(&item_bytes::decode(value)?)?));
        let (backups, more_gaps) = twice::read_all(&snapshot, &layout::backups(), read)?;
        backups.into_iter().for_each(|backup| catalog.insert_backup(backup));
        gaps.extend(more_gaps);
        let read = |value: &[u8]| Ok(Arc::new(record::read_export(&item_bytes::decode(value)?)?));
        let (exports, more_gaps) = twice::read_all(&snapshot, &layout::exports(), read)?;
        exports.into_iter().for_each(|export| catalog.insert_export(export));
        gaps.extend(more_gaps);
        let read = |value: &[u8]| Ok(Arc::new(record::read_import(&item_bytes::decode(value)?)?));
        let (imports, more_gaps) = twice::read_all(&snapshot, &layout::imports(), read)?;
        imports.into_iter().for_each(|import| catalog.insert_import(import));
        gaps.extend(more_gaps);
        catalog.gaps = gaps.into();
        Ok(catalog)
    }

    /// Whether the store has lost nothing since.
    fn is_of(&self, store: &Store) -> bool {
        self.generation == store.generation()
    }

    /// Takes over what another catalog's tables have counted.
    fn go_on_counting(&mut self, before: &Self) {
        let tables: Vec<Arc<Table>> = self.tables().cloned().collect();
        for mut table in tables {
            if let Some(known) = before.by_id(table.id) {
                Arc::make_mut(&mut table).metrics = known.metrics.clone();
                self.insert(table);
            }
        }
    }

    /// The table, if there is one; an error if that cannot be told.
    pub(crate) fn find(&self, name: &TableName) -> Result<Option<&Arc<Table>>, Error> {
        let found = self.tables.get(name);
        if found.is_none() {
            self.check_gaps(&layout::record(name), || format!("table {name}"))?;
        }
        Ok(found)
    }

    fn check_gaps(&self, key: &[u8], what: impl FnOnce() -> String) -> Result<(), Error> {
        if self.gaps.iter().any(|gap| gap.has(key)) {
            return Err(Error::Damaged("its record cannot be read, nor the copy of it").about(what));
        }
        Ok(())
    }

    /// Whether all records could be read. Otherwise there are tables that are not known here.
    pub(crate) fn is_whole(&self) -> bool {
        self.gaps.is_empty()
    }

    /// What could not be read, in words.
    pub(crate) fn unreadable(&self) -> impl Iterator<Item = String> {
        self.gaps.iter().map(|gap| match gap.only().and_then(layout::recorded) {
            Some(name) => format!("the record of table {name} cannot be read: nothing of it can be used"),
            None => "records of tables or backups cannot be read: nothing of those can be used".to_owned(),
        })
    }

    /// The table, or DynamoDB's answer when there is none, or none yet.
    pub(crate) fn table(&self, name: &TableName) -> Result<&Arc<Table>, Error> {
        self.find(name)?
            .filter(|table| !table.is_being_copied())
            .ok_or_else(|| ApiError::table_not_found().into())
    }

    pub(crate) fn by_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.by_id.get(&id)
    }

    /// Tables, and those that backups keep.
    pub(crate) fn all_tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables().chain(self.backups.values().map(|backup| &backup.items))
    }

    /// A table, or one that a backup keeps.
    pub(crate) fn any_by_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.by_id(id).or_else(|| self.keepers.get(&id).map(|backup| &backup.items))
    }

    /// Tables that are being copied into, those that backups keep among them; the oldest first.
    pub(crate) fn copied(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.copied.iter().filter_map(|id| self.any_by_id(*id))
    }

    /// Tables with an index or an expiry tree that is being filled, the oldest first.
    pub(crate) fn building(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.building.iter().filter_map(|id| self.by_id(*id))
    }

    /// Tables whose items expire.
    pub(crate) fn expiring(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.expiring.iter().filter_map(|id| self.by_id(*id))
    }

    /// Backups whose time has come.
    pub(crate) fn leaving(&self, now: UnixTime) -> impl Iterator<Item = &Arc<Backup>> {
        let due = self.leaving.iter().take_while(move |(expires, _)| *expires <= now);
        due.filter_map(|(_, id)| self.backup(id))
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
        } else if let Some(backup) = self.keepers.get(&id) {
            let mut backup = (**backup).clone();
            change(Arc::make_mut(&mut backup.items));
            put_backup(batch, &backup);
            self.insert_backup(Arc::new(backup));
        }
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// Tables from what they are kept under, in order: those of one space are together.
    pub(crate) fn tables_from<'a>(&'a self, from: Bound<&'a str>) -> impl Iterator<Item = &'a Arc<Table>> {
        self.tables.range::<str, _>((from, Bound::Unbounded)).map(|(_, table)| table)
    }

    /// Tables after the one that is kept under this, in order.
    pub(crate) fn tables_after<'a>(&'a self, name: Option<&'a str>) -> impl Iterator<Item = &'a Arc<Table>> {
        self.tables_from(name.map_or(Bound::Unbounded, Bound::Excluded))
    }

    pub(crate) fn insert(&mut self, table: Arc<Table>) {
        if let Some(before) = self.by_id(table.id) {
            let trees = before.trees.iter().map(|tree| tree.id).chain([TreeId::EXPIRY]);
            let gone = trees.filter(|tree| before.owns(*tree) && !table.owns(*tree));
            let record = layout::record(table.name());
            let gone =
                gone.map(|tree| Dropped { prefix: layout::tree(table.id, tree), record: record.clone() });
            let gone: Vec<Dropped> = gone.collect();
            self.dropped.extend(gone);
        }
        let fills = table.trees.iter().any(|tree| tree.building)
            || table.expiry.as_ref().is_some_and(|expiry| expiry.building);
        set(&mut self.copied, table.id, table.is_being_copied());
        set(&mut self.building, table.id, fills);
        set(&mut self.expiring, table.id, table.expiry.is_some());
        self.by_id.insert_mut(table.id, table.clone());
        self.tables.insert_mut(table.name().clone(), table);
    }

    pub(crate) fn remove(&mut self, name: &TableName) {
        let Some(id) = self.tables.get(name).map(|table| table.id) else { return };
        self.dropped.push(Dropped { prefix: layout::table_data(id), record: layout::record(name) });
        self.tables.remove_mut(name);
        self.by_id.remove_mut(&id);
        for ids in [&mut self.copied, &mut self.building, &mut self.expiring] {
            ids.remove_mut(&id);
        }
    }

    pub(crate) fn backup(&self, id: &str) -> Option<&Arc<Backup>> {
        self.backups.get(id)
    }

    /// The backup, if there is one; an error if that cannot be told.
    pub(crate) fn find_backup(&self, id: &str) -> Result<Option<&Arc<Backup>>, Error> {
        let found = self.backup(id);
        if found.is_none() {
            self.check_gaps(&layout::backup(id), || format!("backup {id}"))?;
        }
        Ok(found)
    }

    /// Backups after the one with this id, oldest first.
    pub(crate) fn backups_after(&self, id: Option<&str>) -> impl Iterator<Item = &Arc<Backup>> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        self.backups.range::<str, _>((from, Bound::Unbounded)).map(|(_, backup)| backup)
    }

    pub(crate) fn export(&self, id: &str) -> Option<&Arc<Export>> {
        self.exports.get(id)
    }

    /// Exports after the one with this id, oldest first.
    pub(crate) fn exports_after(&self, id: Option<&str>) -> impl Iterator<Item = &Arc<Export>> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        self.exports.range::<str, _>((from, Bound::Unbounded)).map(|(_, export)| export)
    }

    pub(crate) fn insert_export(&mut self, export: Arc<Export>) {
        self.exports.insert_mut(export.id().to_owned(), export);
    }

    pub(crate) fn remove_export(&mut self, id: &str) {
        self.exports.remove_mut(id);
    }

    pub(crate) fn import(&self, id: &str) -> Option<&Arc<Import>> {
        self.imports.get(id)
    }

    /// Imports after the one with this id, oldest first.
    pub(crate) fn imports_after(&self, id: Option<&str>) -> impl Iterator<Item = &Arc<Import>> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        self.imports.range::<str, _>((from, Bound::Unbounded)).map(|(_, import)| import)
    }

    pub(crate) fn insert_import(&mut self, import: Arc<Import>) {
        self.imports.insert_mut(import.id().to_owned(), import);
    }

    pub(crate) fn remove_import(&mut self, id: &str) {
        self.imports.remove_mut(id);
    }

    pub(crate) fn insert_backup(&mut self, backup: Arc<Backup>) {
        set(&mut self.copied, backup.items.id, backup.items.is_being_copied());
        if let Some(expires) = backup.expires {
            self.leaving.insert_mut((expires, backup.id.clone()));
        }
        self.keepers.insert_mut(backup.items.id, backup.clone());
        self.backups.insert_mut(backup.id.clone(), backup);
    }

    pub(crate) fn remove_backup(&mut self, id: &str) {
        let Some(backup) = self.backup(id).cloned() else { return };
        self.dropped
            .push(Dropped { prefix: layout::table_data(backup.items.id), record: layout::backup(id) });
        self.backups.remove_mut(id);
        self.keepers.remove_mut(&backup.items.id);
        set(&mut self.copied, backup.items.id, false);
        if let Some(expires) = backup.expires {
            self.leaving.remove_mut(&(expires, backup.id.clone()));
        }
    }
}

/// Data that nobody owns any more, and the record whose change makes it so.
#[derive(Clone, Debug)]
struct Dropped {
    prefix: Vec<u8>,
    record: Vec<u8>,
}

fn set(ids: &mut Set<TableId>, id: TableId, there: bool) {
    if there {
        ids.insert_mut(id);
    } else {
        ids.remove_mut(&id);
    }
}

/// The catalog that is in force.
#[derive(Debug)]
pub(crate) struct Published {
    current: ArcSwap<Catalog>,
    gate: RwLock<()>,
    /// Held by whoever reads the catalog from the store; the others need what it will have read.
    loading: Mutex<()>,
}

/// The catalog while a write is staged and submitted: nobody changes it meanwhile.
#[derive(Debug)]
pub(crate) struct Writing<'a> {
    catalog: Guard<Arc<Catalog>>,
    _gate: RwLockReadGuard<'a, ()>,
}

impl Deref for Writing<'_> {
    type Target = Catalog;

    fn deref(&self) -> &Catalog {
        &self.catalog
    }
}

impl Published {
    pub(crate) fn new(catalog: Catalog) -> Self {
        Self { current: ArcSwap::from_pointee(catalog), gate: RwLock::new(()), loading: Mutex::new(()) }
    }

    /// The last one, though the store may have lost what it rests on.
    pub(crate) fn last(&self) -> Guard<Arc<Catalog>> {
        self.current.load()
    }

    /// Reads the catalog again after the store has lost writes.
    ///
    /// Nobody can have changed the catalog of this generation before it is published here, so all there is of it
    /// has been committed. A change that was submitted before the loss may still be published over it; it is of
    /// an older generation, and is replaced in its turn.
    fn reload(&self, store: &Store) -> Result<(), Error> {
        let _loading = self.loading.lock();
        let last = self.current.load();
        if last.is_of(store) {
            return Ok(());
        }
        let mut fresh = Catalog::load(store)?;
        fresh.go_on_counting(&last);
        self.current.store(Arc::new(fresh));
        Ok(())
    }
}

impl Engine {
    /// The catalog as it rests on what the store holds. It stays as it is while it is held, and holds nobody up.
    pub(crate) fn catalog(&self) -> Result<Guard<Arc<Catalog>>, Error> {
        loop {
            let catalog = self.catalog.current.load();
            if catalog.is_of(&self.store) {
                return Ok(catalog);
            }
            self.catalog.reload(&self.store)?;
        }
    }

    /// The catalog for a write, to be held from before it is staged until it is submitted, and no longer.
    pub(crate) fn writing(&self) -> Result<Writing<'_>, Error> {
        loop {
            let gate = self.catalog.gate.read();
            let catalog = self.catalog.current.load();
            if catalog.is_of(&self.store) {
                return Ok(Writing { catalog, _gate: gate });
            }
            drop(gate);
            self.catalog.reload(&self.store)?;
        }
    }

    /// Changes the catalog and submits what must be written with the change; if either fails, nothing has changed.
    ///
    /// No writer is between reading the catalog and submitting while `change` runs, and none begins. So it must
    /// not read the store: whoever needs something from there reads it before.
    ///
    /// Should the batch be lost with a failed commit, the store's generation changes, and whoever uses the
    /// catalog next reads it again from what was kept.
    pub(crate) fn change_catalog<A, B>(
        &self,
        change: impl FnOnce(&mut Catalog, &mut Batch) -> Result<(A, B), Error>,
    ) -> Result<(A, Ticket, B), Error> {
        let (_gate, mut catalog) = loop {
            let gate = self.catalog.gate.write();
            let catalog = self.catalog.current.load();
            if catalog.is_of(&self.store) {
                break (gate, Catalog::clone(&catalog));
            }
            drop(gate);
            self.catalog.reload(&self.store)?;
        };
        let mut batch = Batch::default();
        let (a, b) = change(&mut catalog, &mut batch)?;
        let ticket = self.store.submit(batch, catalog.generation)?;
        let dropped = std::mem::take(&mut catalog.dropped);
        self.catalog.current.store(Arc::new(catalog));
        let sweeps = dropped.into_iter().map(|dropped| Sweep::of(dropped.prefix, Some(dropped.record)));
        self.garbage.lock().extend(sweeps);
        Ok((a, ticket, b))
    }
}
