//! Everything that can still be read of a damaged store, brought into a new one.
//!
//! Table by table: its definition from its record, its items from its pages. Index entries, expiry entries and
//! counters are not copied but follow from the items, which go through the one write path. An item that is lost in
//! its table and whole in an index that projects everything is taken from there. Backups come too.
//!
//! What is not brought: the change log, so streams and recovery begin anew; tokens of transactions; restores and
//! backups that were under way. All of that is told, as is everything that cannot be read.
//!
//! Promises:
//! - The source is only read.
//! - What is brought out is what was written; what is missing is told, by table and key or range of keys.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use larder_model::{Item, Projection, StreamView, UnixTime};
use larder_storage::{Batch, Lost, Piece, Snapshot, Store, Ticket};

use crate::backup::put_backup;
use crate::capacity::Meter;
use crate::catalog::{Backup, Expiry, History, Recovery, Table};
use crate::changes::Stamp;
use crate::damage::{item_tail, name_of_entry, name_of_range};
use crate::layout::{self, TableId, TreeId};
use crate::records::{Records, is_within};
use crate::tables::{new_table, put_record};
use crate::write::{Change, New, stage};
use crate::{Engine, Error, item_bytes, key_bytes};

/// Bounds on one batch.
const STEP_ENTRIES: usize = 1000;
const STEP_BYTES: usize = 4 << 20;
/// Batches that are on their way to disk at once.
const STEPS_AHEAD: usize = 4;

/// What was brought out, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    pub tables: Vec<SalvagedTable>,
    pub backups: usize,
    /// What cannot be read and may have held something, in words.
    pub lost: Vec<String>,
    /// What was left out, or had to be changed, and loses no item.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvagedTable {
    pub name: String,
    pub items: u64,
    /// Of these, those that only an index still had.
    pub from_indexes: u64,
}

/// Who is told how it goes.
pub trait Watcher {
    /// So many items have been brought.
    fn brought(&mut self, items: u64);
    /// An item of a table of which nothing else is known: only its number can be told.
    fn stray(&mut self, table: u32, item: &Item) -> Result<(), std::io::Error>;
}

/// Brings what can be read of a store into an empty database. `lost` is what the source itself was brought out
/// without (`larder_storage::salvage`).
pub fn salvage(
    source: &Store,
    lost: &[Lost],
    target: &Engine,
    now: UnixTime,
    watcher: &mut impl Watcher,
) -> Result<Salvaged, Error> {
    let snapshot = source.snapshot();
    let records = Records::read(&snapshot, lost)?;
    let mut work = Work { snapshot, lost, target, now, watcher, brought: 0, done: Salvaged::default() };
    for table in &records.tables {
        if table.is_being_copied() {
            let again = if table.is_importing { "imported; import" } else { "restored; restore" };
            work.done.notes.push(format!("table {}: it was being {again} it again", table.name()));
            continue;
        }
        work.table(table)?;
    }
    for backup in records.backups.iter().filter(|backup| !backup.is_hidden) {
        if backup.items.is_being_copied() {
            work.done.notes.push(format!(
                "backup {} of table {}: it was being made; make it again",
                backup.name,
                backup.table.name()
            ));
            continue;
        }
        work.backup(backup)?;
    }
    work.records(&records)?;
    Ok(work.done)
}

struct Work<'a, W> {
    snapshot: Snapshot,
    lost: &'a [Lost],
    target: &'a Engine,
    now: UnixTime,
    watcher: &'a mut W,
    brought: u64,
    done: Salvaged,
}

/// What of a tree could not be read.
#[derive(Default)]
struct Missing {
    /// Keys of the tree, without the part that names it.
    values: Vec<Vec<u8>>,
    ranges: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Missing {
    /// Adds what is lost of the tree whose keys begin so.
    fn add(&mut self, lost: Lost, tree: &[u8]) {
        match lost {
            Lost::Value { key, .. } => self.values.push(key),
            Lost::Keys { from, before } => {
                let end = key_bytes::after_prefix(tree).expect("a data key does not begin with FF");
                let before = before.filter(|before| *before < end).unwrap_or(end);
                self.ranges.push((from.max(tree.to_vec()), Some(before)));
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.values.is_empty() && self.ranges.is_empty()
    }

    fn has(&self, key: &[u8]) -> bool {
        let within = |(from, before): &(Vec<u8>, Option<Vec<u8>>)| {
            from.as_slice() <= key && before.as_ref().is_none_or(|before| key < before.as_slice())
        };
        self.values.iter().any(|value| value == key) || self.ranges.iter().any(within)
    }
}

impl<W: Watcher> Work<'_, W> {
    fn table(&mut self, source: &Arc<Table>) -> Result<(), Error> {
        // Without a stream until it is filled: nobody changed these items now.
        let definition = larder_model::TableDefinition { stream: None, ..(*source.definition).clone() };
        let expiry = source.expiry.as_ref().map(|expiry| Expiry { building: false, ..expiry.clone() });
        let table = self.add(|id| Ok(Table { expiry, ..new_table(id, definition, self.now)? }))?;
        let (mut items, missing) = self.items(source, &table)?;
        let from_indexes =
            if missing.is_empty() { 0 } else { self.bring_from_indexes(source, &table, &missing)? };
        items += from_indexes;
        self.tell_missing(source, &table, &missing, items)?;
        self.finish(source, &table)?;
        let name = table.name().to_string();
        self.done.tables.push(SalvagedTable { name, items, from_indexes });
        Ok(())
    }

    /// Adds a table to the new database.
    fn add(&self, make: impl FnOnce(TableId) -> Result<Table, Error>) -> Result<Arc<Table>, Error> {
        let ((), ticket, table) = self.target.change_catalog(|catalog, batch| {
            let table = Arc::new(make(self.target.next_table_id(batch)?)?);
            put_record(batch, &table);
            catalog.insert(table.clone());
            Ok(((), table))
        })?;
        ticket.wait()?;
        Ok(table)
    }

    /// Copies the items that can be read. Returns how many, and what could not be.
    fn items(&mut self, source: &Table, table: &Table) -> Result<(u64, Missing), Error> {
        let tree = layout::tree(source.id, TreeId::ITEMS);
        let end = key_bytes::after_prefix(&tree).expect("a data key does not begin with FF");
        let mut writer = Writer::new(self.target, table);
        let (mut items, mut missing) = (0, Missing::default());
        for piece in self.snapshot.pieces(Bound::Included(&tree), Bound::Excluded(&end), true) {
            match piece? {
                Piece::Entry(key, value) => match item_bytes::decode(&value) {
                    Ok(item)
                        if table.item_key(&item).is_ok_and(|new| new[tree.len()..] == key[tree.len()..]) =>
                    {
                        writer.put(item)?;
                        items += 1;
                        self.brought += 1;
                        if self.brought.is_multiple_of(1000) {
                            self.watcher.brought(self.brought);
                        }
                    }
                    Ok(_) | Err(_) => missing.values.push(key.to_vec()),
                },
                Piece::Lost(lost) => missing.add(lost, &tree),
            }
        }
        let lost = self.lost.iter().filter(|lost| is_within(lost, &tree));
        lost.for_each(|lost| missing.add(lost.clone(), &tree));
        writer.finish()?;
        Ok((items, missing))
    }

    /// Brings items that are lost in the table and whole in an index.
    fn bring_from_indexes(&mut self, source: &Table, table: &Table, missing: &Missing) -> Result<u64, Error> {
        let own = layout::tree(source.id, TreeId::ITEMS);
        let mut found = 0;
        for place in source.indexes() {
            if place.definition.projection != Projection::All || place.tree.building {
                continue;
            }
            let tree = layout::tree(source.id, place.tree.id);
            let end = key_bytes::after_prefix(&tree).expect("a data key does not begin with FF");
            let mut writer = Writer::new(self.target, table);
            for piece in self.snapshot.pieces(Bound::Included(&tree), Bound::Excluded(&end), true) {
                let Piece::Entry(key, value) = piece? else { continue };
                let Some(tail) = item_tail(source, place.tree.id, &key) else { continue };
                let item_key = [&own[..], tail].concat();
                if !missing.has(&item_key) {
                    continue;
                }
                let Ok(item) = item_bytes::decode(&value) else { continue };
                let Ok(new_key) = table.item_key(&item) else { continue };
                // Another index may have had it.
                if new_key[own.len()..] == *tail && self.target.store.latest(&new_key)?.is_none() {
                    writer.put(item)?;
                    found += 1;
                }
            }
            writer.finish()?;
        }
        Ok(found)
    }

    fn tell_missing(
        &mut self,
        source: &Table,
        table: &Table,
        missing: &Missing,
        items: u64,
    ) -> Result<(), Error> {
        if missing.is_empty() {
            return Ok(());
        }
        // The counter is written with every change, so it knows how many there were.
        let counters = self.snapshot.get(&layout::counters(source.id, TreeId::ITEMS)).ok().flatten();
        let there_were = counters.and_then(|value| larder_storage::counters(&value).ok());
        let short = there_were.and_then(|[count, _]| u64::try_from(count).ok()?.checked_sub(items));
        if short == Some(0) {
            self.done
                .notes
                .push(format!("table {}: all that is damaged in it was whole in an index", table.name()));
            return Ok(());
        }
        for key in &missing.values {
            let new_key = [&layout::tree(table.id, TreeId::ITEMS)[..], layout::item_key_tail(key)].concat();
            if self.target.store.latest(&new_key)?.is_none() {
                self.done.lost.push(name_of_entry(source, TreeId::ITEMS, key));
            }
        }
        for (from, before) in &missing.ranges {
            self.done.lost.push(name_of_range(source, TreeId::ITEMS, from, before.as_deref()));
        }
        if let Some(short) = short {
            self.done.notes.push(format!("table {}: {short} items are missing, by its count", table.name()));
        }
        Ok(())
    }

    /// Gives a table that is filled the settings it had.
    fn finish(&self, source: &Table, table: &Table) -> Result<(), Error> {
        let ((), ticket, ()) = self.target.change_catalog(|catalog, batch| {
            let Some(table) = catalog.by_id(table.id) else { return Ok(((), ())) };
            let mark = self.target.mark(self.now);
            let mut definition = (*table.definition).clone();
            definition.stream = source.definition.stream;
            let stream_label = definition.stream.map(|_: StreamView| self.target.mark(self.now));
            let recovery =
                source.recovery.as_ref().map(|recovery| Recovery { since: mark, ..recovery.clone() });
            let history = History { stream_label, closed_streams: Vec::new(), ..source.history.clone() };
            // Its streams are new ones, and theirs are gone.
            let policies = source.policies.of_streams_in(&history);
            let table =
                Table { definition: definition.into(), recovery, policies, history, ..(**table).clone() };
            put_record(batch, &table);
            catalog.insert(Arc::new(table));
            Ok(((), ()))
        })?;
        Ok(ticket.wait()?)
    }

    /// A backup without items that it had would be restored as if it were whole, so its name says that it is not.
    fn backup(&mut self, source: &Arc<Backup>) -> Result<(), Error> {
        let mut batch = Batch::default();
        let id = self.target.next_table_id(&mut batch)?;
        self.target.store.write(batch)?;
        let items = Table { id, copies: Vec::new(), restored: None, ..(*source.items).clone() };
        let (_, missing) = self.items(&source.items, &items)?;
        let mut name = source.name.clone();
        if !missing.is_empty() {
            name.push_str(".incomplete");
            let ranges = missing
                .ranges
                .iter()
                .map(|(from, before)| name_of_range(&source.items, TreeId::ITEMS, from, before.as_deref()));
            let values = missing.values.iter().map(|key| name_of_entry(&source.items, TreeId::ITEMS, key));
            let lost = values.chain(ranges).map(|lost| format!("backup {}: {lost}", source.name));
            self.done.lost.extend(lost);
            self.done.notes.push(format!("backup {} lacks items and is named {name} now", source.name));
        }
        let backup = Backup {
            id: format!("{:014}-{:08x}", source.created.millis(), id.0),
            name,
            items: Arc::new(items),
            ..(**source).clone()
        };
        let ((), ticket, ()) = self.target.change_catalog(|catalog, batch| {
            put_backup(batch, &backup);
            catalog.insert_backup(Arc::new(backup));
            Ok(((), ()))
        })?;
        ticket.wait()?;
        self.done.backups += 1;
        Ok(())
    }

    /// Tells of records that are lost, and hands out the items of tables that they were of.
    fn records(&mut self, records: &Records) -> Result<(), Error> {
        if records.lost.is_empty() {
            return Ok(());
        }
        self.done.lost.extend(records.lost.iter().map(|lost| match lost {
            Lost::Value { key, .. } => records.name_of(key),
            Lost::Keys { .. } => "records of tables or backups, and with them what they were of".to_owned(),
        }));
        let mut strays: BTreeMap<TableId, u64> = BTreeMap::new();
        let data = layout::data();
        let end = key_bytes::after_prefix(&data).expect("data does not begin with FF");
        for piece in self.snapshot.pieces(Bound::Included(&data), Bound::Excluded(&end), true) {
            let Piece::Entry(key, value) = piece? else { continue };
            if let Some((id, TreeId::ITEMS)) = layout::owner(&key)
                && records.by_id(id).is_none()
                && let Ok(item) = item_bytes::decode(&value)
            {
                *strays.entry(id).or_default() += 1;
                self.watcher.stray(id.0, &item).map_err(larder_storage::Error::from)?;
            }
        }
        for (id, count) in strays {
            self.done.lost.push(format!(
                "table {} (its record cannot be read): {count} items without indexes and settings, kept apart",
                id.0
            ));
        }
        Ok(())
    }
}

/// Puts items into a table, many in a batch.
struct Writer<'a> {
    target: &'a Engine,
    table: &'a Table,
    batch: Batch,
    entries: usize,
    under_way: Vec<Ticket>,
}

impl<'a> Writer<'a> {
    fn new(target: &'a Engine, table: &'a Table) -> Self {
        Self { target, table, batch: Batch::default(), entries: 0, under_way: Vec::new() }
    }

    fn put(&mut self, item: Item) -> Result<(), Error> {
        let key = self.table.item_key(&item)?;
        let new = Some(New::from(item));
        let change = Change { key, old: None, remains: None, new, update: None };
        // Nothing is logged yet, so nobody sees the time.
        let stamp = Stamp { time: UnixTime::from_millis(0), expired: false };
        stage(&self.target.store, &mut self.batch, self.table, &change, &mut Meter::default(), stamp)?;
        self.entries += 1;
        if self.entries >= STEP_ENTRIES || self.batch.bytes() >= STEP_BYTES {
            self.submit()?;
        }
        Ok(())
    }

    fn submit(&mut self) -> Result<(), Error> {
        self.entries = 0;
        let batch = std::mem::take(&mut self.batch);
        self.under_way.push(self.target.store.submit(batch, self.target.store.generation())?);
        if self.under_way.len() >= STEPS_AHEAD {
            self.under_way.remove(0).wait()?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Error> {
        self.submit()?;
        self.under_way.into_iter().try_for_each(Ticket::wait)?;
        Ok(())
    }
}
