//! The one write path: check, apply, index, commit.
//!
//! Every change to an item goes through [`stage`], from PutItem to an expiry: in one batch with its index
//! entries, its expiry entry and the table's counters, so none of them can be forgotten.
//!
//! A write locks its item only until its batch is submitted, not until it is on disk. The next writer reads
//! what was submitted, so a chain of writes to one item shares a sync like any others; should that sync fail,
//! the store refuses all of them.
//!
//! An item that cannot be read refuses what depends on it: conditions, updates, a question for what it was. A put or a
//! delete that does not ask is made, and takes away what the item left in the indexes (`damage.rs`).

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use larder_expr::{Condition, Update, touched};
use larder_model::limits::{BATCH_BYTES_MAX, ITEM_BYTES_MAX, NESTING_DEPTH_MAX};
use larder_model::{ApiError, AttributeValue, IndexKind, Item, TableName, UnixTime};
use larder_storage::{Batch, Generation, Store, Ticket};
use parking_lot::{Mutex, MutexGuard};

use crate::capacity::{self, Meter};
use crate::catalog::{Catalog, Table};
use crate::changes::{self, Stamp};
use crate::conflicts::{Kind, Underway};
use crate::damage::{Remains, name_of_entry};
use crate::guard::{Judge, WriteKind};
use crate::index::{Content, Entry};
use crate::item_bytes::{self, ItemBytesError, StoredItem};
use crate::key_rules::{self, KeyFault, PutKind};
use crate::layout::TreeId;
use crate::metrics::{Operation, TableMetrics};
use crate::ops::{
    BatchWrite, BatchWriteItem, BatchWriteItemOutput, CollectionMetrics, DeleteItem, PutItem, ReturnValues,
    Row, UpdateItem, WriteOptions, WriteOutput,
};
use crate::{Engine, Error, index, layout, ttl};

/// What of a BatchWriteItem is submitted at once. With many indexes its items weigh more than the store takes in one
/// piece, and they need not be seen together.
const STAGED_BYTES_MAX: usize = 128 << 20;

const TOO_LARGE: &str = "Item size has exceeded the maximum allowed size";

/// One change asked for.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    pub action: Action,
    pub condition: Option<&'a Condition>,
    pub return_old_on_failure: bool,
}

#[derive(Debug)]
pub(crate) enum Action {
    Put(New),
    /// Without an update the item is created if it is missing.
    Update {
        key: Item,
        update: Option<Update>,
    },
    Delete {
        key: Item,
    },
    /// Nothing changes; the condition must hold.
    Check {
        key: Item,
    },
}

impl From<BatchWrite> for Action {
    fn from(write: BatchWrite) -> Self {
        match write {
            BatchWrite::Put(item) => Self::Put(item.into()),
            BatchWrite::Delete(key) => Self::Delete { key },
        }
    }
}

impl Action {
    /// The item's key, or the item that has it.
    pub(crate) fn keyed(&self) -> &Item {
        match self {
            Self::Put(new) => &new.item,
            Self::Update { key, .. } | Self::Delete { key } | Self::Check { key } => key,
        }
    }

    /// Checks the keys against the table.
    pub(crate) fn check(&self, table: &Table, kind: PutKind) -> Result<(), KeyFault> {
        match self {
            Self::Put(new) => key_rules::check_put(table, &new.item, kind),
            Self::Update { key, .. } | Self::Delete { key } | Self::Check { key } => {
                key_rules::check_key(table, key)
            }
        }
    }
}

/// The item as it was.
#[derive(Debug)]
pub(crate) struct Old {
    pub stored: StoredItem,
    pub item: Item,
    pub size: usize,
}

impl Old {
    pub(crate) fn read(bytes: larder_storage::Bytes) -> Result<Self, ItemBytesError> {
        let stored = StoredItem::from(bytes);
        Ok(Self { item: stored.decode()?, size: stored.size()?, stored })
    }
}

/// The item as it will be.
#[derive(Debug)]
pub(crate) struct New {
    pub item: Item,
    pub size: usize,
}

impl From<Item> for New {
    fn from(item: Item) -> Self {
        Self { size: item.size(), item }
    }
}

impl New {
    fn within_limit(self, message: &str) -> Result<Self, Error> {
        if self.size > ITEM_BYTES_MAX {
            return Err(Error::validation(message));
        }
        Ok(self)
    }
}

/// A change to one item, decided and not yet made.
#[derive(Debug)]
pub(crate) struct Change {
    pub key: Vec<u8>,
    pub old: Option<Old>,
    /// There was an item that cannot be read, and this is what it left.
    pub remains: Option<Remains>,
    pub new: Option<New>,
    /// What an update touches, for `UPDATED_OLD` and `UPDATED_NEW`.
    pub update: Option<Update>,
}

impl Change {
    /// The larger of the item's sizes before and after, which is what it is charged by.
    pub(crate) fn size(&self) -> usize {
        let old = self.old.as_ref().map_or(0, |old| old.size);
        self.new.as_ref().map_or(0, |new| new.size).max(old)
    }

    pub(crate) fn write_units(&self) -> f64 {
        capacity::write_units(self.size())
    }
}

/// Decides a write, given the item as it is.
pub(crate) fn decide(
    table: &Table,
    key: Vec<u8>,
    old: Option<Old>,
    write: Write<'_>,
    judge: &Judge,
) -> Result<Change, Error> {
    let current = old.as_ref().map(|old| &old.item);
    if let Some(condition) = write.condition
        && !condition.holds(current)?
    {
        let item = if write.return_old_on_failure { current.cloned().map(Box::new) } else { None };
        return Err(ApiError::ConditionalCheckFailed { item }.into());
    }
    let (kind, new, update) = match write.action {
        Action::Put(new) => (WriteKind::Put, Some(new.within_limit(TOO_LARGE)?), None),
        Action::Delete { .. } => (WriteKind::Delete, None, None),
        Action::Check { .. } => {
            let new = old.as_ref().map(|old| New { item: old.item.clone(), size: old.size });
            return Ok(Change { key, old, remains: None, new, update: None });
        }
        Action::Update { key, update } => {
            let new = updated(table, current, &key, update.as_ref())?;
            let new = new
                .map(|item| {
                    let message = "Item size to update has exceeded the maximum allowed size";
                    New::from(item).within_limit(message)
                })
                .transpose()?;
            (WriteKind::Update, new, update)
        }
    };
    judge.ask(table.name(), kind, current, new.as_ref().map(|new| &new.item))?;
    Ok(Change { key, old, remains: None, new, update })
}

fn updated(
    table: &Table,
    current: Option<&Item>,
    key: &Item,
    update: Option<&Update>,
) -> Result<Option<Item>, Error> {
    let Some(update) = update else { return Ok(Some(current.unwrap_or(key).clone())) };
    let new = update.apply_within(ITEM_BYTES_MAX, current, key)?;
    let touched = update.paths().filter_map(|path| new.get(&path.root));
    if touched.map(AttributeValue::levels).any(|levels| levels > NESTING_DEPTH_MAX) {
        return Err(Error::validation("Nesting Levels have exceeded supported limits"));
    }
    key_rules::check_index_keys(table, &new, Some(current.unwrap_or(key)))?;
    // What only removes does not make an item.
    Ok((current.is_some() || update.creates()).then_some(new))
}

/// What a write may ask of its table, whatever the item holds.
pub(crate) fn check(table: &Table, action: &Action, condition: Option<&Condition>) -> Result<(), Error> {
    action.check(table, PutKind::Single)?;
    if let Action::Update { update: Some(update), .. } = action {
        check_update(table, update)?;
    }
    if let Some(condition) = condition {
        key_rules::check_condition(table, None, condition)?;
    }
    Ok(())
}

/// An update may not name a key attribute.
fn check_update(table: &Table, update: &Update) -> Result<(), Error> {
    match update.paths().find(|path| table.definition.key.contains(&path.root)) {
        Some(path) => Err(Error::validation(format!(
            "One or more parameter values were invalid: Cannot update attribute {}. This attribute is part of \
             the key",
            path.root
        ))),
        None => Ok(()),
    }
}

/// Puts a change into a batch: the item, its index entries, its expiry, the counters and the log's entry.
pub(crate) fn stage(
    store: &Store,
    batch: &mut Batch,
    table: &Table,
    change: &Change,
    meter: &mut Meter,
    stamp: Stamp,
) -> Result<(), Error> {
    let Change { key, old, remains, new, .. } = change;
    let (old, new) = (old.as_ref(), new.as_ref());
    if let Some(remains) = remains {
        remains.clear(batch, table);
    }
    let new_bytes = new.map(|new| item_bytes::encode_sized(&new.item, new.size));

    for place in table.indexes() {
        let tree = place.tree.id;
        let mut old_entry = old.and_then(|old| index::entry(table, place, &old.item, key, old.size));
        // An index that is being filled may not have come to this item yet.
        if place.tree.building
            && let Some(entry) = &old_entry
            && store.latest(&entry.key)?.is_none()
        {
            old_entry = None;
        }
        let new_entry = new.and_then(|new| index::entry(table, place, &new.item, key, new.size));
        let same_content = |a: &Entry, b: &Entry| match (&a.content, &b.content) {
            (Content::Whole, Content::Whole) => old.map(|old| old.stored.as_bytes()) == new_bytes.as_deref(),
            (a, b) => a == b,
        };
        let units = match (&old_entry, &new_entry) {
            (None, None) => continue,
            (Some(old), Some(new)) if old.key == new.key && same_content(old, new) => continue,
            (Some(old), Some(new)) if old.key == new.key => {
                capacity::write_units(old.size).max(capacity::write_units(new.size))
            }
            (old, new) => {
                [old, new].into_iter().flatten().map(|entry| capacity::write_units(entry.size)).sum()
            }
        };
        meter.index(table, place.definition, units);
        let sizes = [old_entry.as_ref().map(|entry| entry.size), new_entry.as_ref().map(|entry| entry.size)];
        count(batch, table, tree, sizes);
        if let Some(old) = old_entry
            && new_entry.as_ref().is_none_or(|new| new.key != old.key)
        {
            batch.delete(old.key);
        }
        if let Some(entry) = new_entry {
            let content = match entry.content {
                Content::Whole => new_bytes.clone().expect("a new entry has a new item"),
                Content::Part(bytes) => bytes,
            };
            batch.put(entry.key, content);
        }
    }

    if let Some(expiry) = &table.expiry {
        let old_time = old.and_then(|old| ttl::expires_at(&old.item, expiry));
        let new_time = new.and_then(|new| ttl::expires_at(&new.item, expiry));
        if old_time != new_time {
            if let Some(time) = old_time {
                batch.delete(layout::expiry(table.id, time, key));
            }
            if let Some(time) = new_time {
                batch.put(layout::expiry(table.id, time, key), Vec::new());
            }
        }
    }

    changes::log(batch, table, change, new_bytes.as_deref(), stamp);
    count(batch, table, TreeId::ITEMS, [old.map(|old| old.size), new.map(|new| new.size)]);
    match new_bytes {
        Some(bytes) => batch.put(key.clone(), bytes),
        None if old.is_some() || remains.is_some() => batch.delete(key.clone()),
        None => {}
    }
    Ok(())
}

/// Moves the counters of a tree from an entry of one size to one of another.
pub(crate) fn count(batch: &mut Batch, table: &Table, tree: TreeId, sizes: [Option<usize>; 2]) {
    let [old, new] = sizes.map(|size| size.map_or([0, 0], |bytes| [1, bytes as i64]));
    let delta = [new[0] - old[0], new[1] - old[1]];
    if delta != [0, 0] {
        batch.add(layout::counters(table.id, tree), delta);
    }
}

/// The size of the item collection a write belongs to, for tables with a local index. Larder's collections
/// are not bounded, so it is an estimate below a gigabyte.
fn collection_metrics(table: &Table, keyed: &Item) -> Option<CollectionMetrics> {
    let local = table.definition.indexes.iter().any(|index| index.kind == IndexKind::Local);
    let partition = &table.definition.key.partition.first()?.name;
    local.then(|| CollectionMetrics {
        key: keyed.get(partition).map(|value| (partition.as_str(), value.clone())).into_iter().collect(),
        gigabytes: [0.0, 1.0],
    })
}

/// Item collections that a request wrote to, each once.
pub(crate) type Collections = Vec<(TableName, Vec<CollectionMetrics>)>;

pub(crate) fn note_collection(noted: &mut Collections, table: &Table, keyed: &Item) {
    let Some(found) = collection_metrics(table, keyed) else { return };
    match noted.iter_mut().find(|(name, _)| name == table.name()) {
        Some((_, list)) if list.iter().any(|known| known.key == found.key) => {}
        Some((_, list)) => list.push(found),
        None => noted.push((table.name().clone(), vec![found])),
    }
}

/// Locks on items, by a hash of their keys: unrelated items seldom share one, and a shared one is held for
/// microseconds.
#[derive(Debug)]
pub(crate) struct ItemLocks {
    stripes: Box<[Mutex<()>]>,
    hasher: RandomState,
}

impl Default for ItemLocks {
    fn default() -> Self {
        Self { stripes: (0..1024).map(|_| Mutex::new(())).collect(), hasher: RandomState::new() }
    }
}

impl ItemLocks {
    fn stripe(&self, key: &[u8]) -> usize {
        self.hasher.hash_one(key) as usize % self.stripes.len()
    }

    pub(crate) fn lock(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.stripes[self.stripe(key)].lock()
    }

    /// Locks many items, always in the same order, so that two callers cannot wait for each other.
    pub(crate) fn lock_all<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> Vec<MutexGuard<'_, ()>> {
        let mut stripes: Vec<usize> = keys.map(|key| self.stripe(key)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        stripes.into_iter().map(|stripe| self.stripes[stripe].lock()).collect()
    }
}

/// A single write on its way to disk.
enum Submitted {
    Made(Box<Made>),
    /// Refused for what the item holds. If that is not on disk yet, the answer waits until it is: a client
    /// must not be told of a state that a crash can still undo.
    Refused {
        error: Error,
        settled: Option<Ticket>,
    },
    /// There is an item that cannot be read. What it left behind has to be found first.
    Unreadable(Box<Target>),
}

/// On the heap, because whoever waits for the disk holds it meanwhile.
struct Made {
    ticket: Ticket,
    change: Change,
    meter: Meter,
    metrics: Option<CollectionMetrics>,
    underway: Option<Underway>,
}

/// The item before a write.
enum Before {
    Known(Option<Old>),
    /// It cannot be read, for this reason.
    Lost(Error),
}

impl Engine {
    pub async fn put_item(&self, request: PutItem, now: UnixTime) -> Result<WriteOutput, Error> {
        let action = Action::Put(request.item.into());
        self.write(Operation::PutItem, &request.table, action, request.options, now).await
    }

    pub async fn update_item(&self, request: UpdateItem, now: UnixTime) -> Result<WriteOutput, Error> {
        let UpdateItem { table, key, update, options } = request;
        self.write(Operation::UpdateItem, &table, Action::Update { key, update }, options, now).await
    }

    pub async fn delete_item(&self, request: DeleteItem, now: UnixTime) -> Result<WriteOutput, Error> {
        let action = Action::Delete { key: request.key };
        self.write(Operation::DeleteItem, &request.table, action, request.options, now).await
    }

    async fn write(
        &self,
        operation: Operation,
        table: &TableName,
        action: Action,
        options: WriteOptions,
        now: UnixTime,
    ) -> Result<WriteOutput, Error> {
        let watch = self.watch(operation);
        if matches!(&action, Action::Put(new) if new.size > ITEM_BYTES_MAX) {
            return watch.found(Err(Error::validation(TOO_LARGE)));
        }
        let (metrics, submitted) =
            watch.found(self.submit_one(operation, table, action, None, &options, now))?;
        let outcome = match submitted {
            Ok(submitted) => self.written(operation, table, submitted, &options, now).await,
            Err(error) => Err(error),
        };
        watch.end_on(&metrics, outcome)
    }

    /// A write whose request is counted by the caller; what it consumes is counted here.
    pub(crate) async fn write_uncounted(
        &self,
        operation: Operation,
        table: &TableName,
        action: Action,
        options: WriteOptions,
        now: UnixTime,
    ) -> Result<WriteOutput, Error> {
        let (_, submitted) = self.submit_one(operation, table, action, None, &options, now)?;
        self.written(operation, table, submitted?, &options, now).await
    }

    async fn written(
        &self,
        operation: Operation,
        table: &TableName,
        submitted: Submitted,
        options: &WriteOptions,
        now: UnixTime,
    ) -> Result<WriteOutput, Error> {
        match submitted {
            // Rare, and large: no other write is to set aside room for it.
            Submitted::Unreadable(target) => {
                Box::pin(self.write_over(operation, table, *target, options, now)).await
            }
            submitted => finish(submitted, options.return_values).await,
        }
    }

    /// A write that met an item which cannot be read.
    async fn write_over(
        &self,
        operation: Operation,
        table: &TableName,
        (known, key, action): Target,
        options: &WriteOptions,
        now: UnixTime,
    ) -> Result<WriteOutput, Error> {
        let remains = self.remains(&known, &key).await?;
        let (_, submitted) = self.submit_one(operation, table, action, Some(remains), options, now)?;
        let written = finish(submitted?, options.return_values).await?;
        self.begin_recovery_anew(&known, now).await;
        Ok(written)
    }

    /// What an item was that could not be read, nobody can tell: no moment before it was written over can be had
    /// back. Should this fail, a restore to such a moment does.
    async fn begin_recovery_anew(&self, table: &Table, now: UnixTime) {
        if table.recovery.is_none() {
            return;
        }
        let moved = self.change_catalog(|catalog, batch| {
            let since = self.mark(now);
            catalog.change(batch, table.id, |table| {
                if let Some(recovery) = &mut table.recovery {
                    recovery.since = since;
                }
            });
            Ok(((), ()))
        });
        if let Ok(((), ticket, ())) = moved {
            let _ = ticket.await;
        }
    }

    fn before(&self, table: &Table, key: &[u8]) -> Result<Before, Error> {
        let read = || Ok(self.store.latest(key)?.map(Old::read).transpose()?);
        match read().map_err(|error: Error| error.about(|| name_of_entry(table, TreeId::ITEMS, key))) {
            Ok(old) => Ok(Before::Known(old)),
            Err(error) if error.is_damage() => Ok(Before::Lost(error)),
            Err(error) => Err(error),
        }
    }

    /// The item before a write that depends on it.
    pub(crate) fn old(&self, table: &Table, key: &[u8]) -> Result<Option<Old>, Error> {
        match self.before(table, key)? {
            Before::Known(old) => Ok(old),
            Before::Lost(error) => Err(error),
        }
    }

    /// Looks the table up, and submits the write; says where its table is counted. It fails for want of the table.
    fn submit_one(
        &self,
        operation: Operation,
        table: &TableName,
        action: Action,
        remains: Option<Remains>,
        options: &WriteOptions,
        now: UnixTime,
    ) -> Result<(Arc<TableMetrics>, Result<Submitted, Error>), Error> {
        let catalog = self.writing()?;
        let table = catalog.table(table)?;
        let submitted = self.submit_to(table, operation, action, remains, options, (catalog.generation, now));
        Ok((table.metrics.clone(), submitted))
    }

    fn submit_to(
        &self,
        table: &Arc<Table>,
        operation: Operation,
        action: Action,
        mut remains: Option<Remains>,
        options: &WriteOptions,
        (seen, now): (Generation, UnixTime),
    ) -> Result<Submitted, Error> {
        let condition = options.condition.as_ref();
        check(table, &action, condition)?;
        let key = table.item_key(action.keyed())?;
        let mut meter = Meter::new(operation, options.capacity, None);
        let metrics =
            if options.collection_metrics { collection_metrics(table, action.keyed()) } else { None };

        let lock = self.locks.lock(&key);
        self.check_conflict(&key)?;
        let old = match self.before(table, &key)? {
            Before::Known(old) => {
                remains = None;
                old
            }
            Before::Lost(error) if !overwrites(&action, options) => return Err(error),
            Before::Lost(_) if remains.is_none() => {
                return Ok(Submitted::Unreadable(Box::new((table.clone(), key, action))));
            }
            Before::Lost(_) => None,
        };
        let old_bytes = old.as_ref().map_or(0, |old| old.size);
        let write = Write { action, condition, return_old_on_failure: options.return_old_on_failure };
        let change = match decide(table, key.clone(), old, write, &self.judge(now)) {
            Ok(change) => {
                self.admit_write(table, &change, 1.0)?.take_from(table);
                Change { remains, ..change }
            }
            Err(refusal) => {
                if let Error::Api(ApiError::ConditionalCheckFailed { .. }) = refusal {
                    let units = capacity::write_units(old_bytes);
                    self.admit_condition(table, &key, units)?.take_from(table);
                    meter.table(table, units);
                    meter.count();
                }
                let settled = self.until_durable([key.as_slice()].into_iter(), seen)?;
                return Ok(Submitted::Refused { error: refusal, settled });
            }
        };
        let mut batch = Batch::default();
        stage(&self.store, &mut batch, table, &change, &mut meter, self.stamp(now))?;
        let ticket = self.store.submit(batch, seen)?;
        let underway = self.under_way(|| vec![key], Kind::Single);
        drop(lock);

        meter.table(table, change.write_units());
        Ok(Submitted::Made(Box::new(Made { ticket, change, meter, metrics, underway })))
    }

    /// What to wait for until all that these items were seen to hold is on disk.
    pub(crate) fn until_durable<'a>(
        &self,
        mut keys: impl Iterator<Item = &'a [u8]>,
        seen: Generation,
    ) -> Result<Option<Ticket>, Error> {
        let pending = keys.any(|key| self.store.is_pending(key));
        Ok(pending.then(|| self.store.submit(Batch::default(), seen)).transpose()?)
    }

    pub async fn batch_write_item(
        &self,
        request: BatchWriteItem,
        now: UnixTime,
    ) -> Result<BatchWriteItemOutput, Error> {
        let watch = self.watch(Operation::BatchWriteItem);
        let tables = self.known_tables(request.tables.iter().map(|(table, _)| table));
        let outcome = async {
            let mut meter = Meter::new(Operation::BatchWriteItem, request.capacity, None);
            let mut metrics = Vec::new();
            let wants_metrics = request.collection_metrics;
            let mut left = Vec::new();
            let mut noted = (&mut metrics, &mut left);
            match self.submit_batch(request.tables, wants_metrics, &mut meter, &mut noted, now)? {
                BatchSubmitted::Made(tickets, underway) => {
                    for ticket in tickets {
                        ticket.await?;
                    }
                    drop(underway);
                }
                // One by one, which a batch is for its caller too.
                BatchSubmitted::Unreadable(writes) => {
                    for (table, _, action) in writes {
                        let options = WriteOptions::default();
                        let written =
                            self.write(Operation::BatchWriteItem, table.name(), action, options, now);
                        Box::pin(written).await?;
                    }
                }
            }
            Ok(BatchWriteItemOutput { unprocessed: left, consumed: meter.all(), collection_metrics: metrics })
        };
        watch.end_all(&tables, outcome.await)
    }

    fn submit_batch(
        &self,
        tables: Vec<(TableName, Vec<BatchWrite>)>,
        wants_metrics: bool,
        meter: &mut Meter,
        (metrics, left): &mut (&mut Collections, &mut Vec<(TableName, Vec<BatchWrite>)>),
        now: UnixTime,
    ) -> Result<BatchSubmitted, Error> {
        let tables: Vec<(TableName, Vec<Action>)> = tables
            .into_iter()
            .map(|(table, writes)| (table, writes.into_iter().map(Action::from).collect()))
            .collect();
        let mut total = 0;
        for action in tables.iter().flat_map(|(_, actions)| actions) {
            let size = match action {
                Action::Put(new) => new.size,
                other => other.keyed().size(),
            };
            if size > ITEM_BYTES_MAX {
                return Err(Error::validation(TOO_LARGE));
            }
            total += size;
        }
        if total > BATCH_BYTES_MAX {
            return Err(Error::validation(
                "Item collection too large: aggregate size of items in BatchWriteItem exceeds 16MB limit",
            ));
        }

        let catalog = self.writing()?;
        let writes = batch_targets(&catalog, tables)?;
        let seen = catalog.generation;
        let locks = self.locks.lock_all(writes.iter().map(|(_, key, _)| key.as_slice()));
        let mut before = Vec::with_capacity(writes.len());
        for (table, key, _) in &writes {
            match self.before(table, key)? {
                Before::Known(old) => before.push(old),
                Before::Lost(_) => return Ok(BatchSubmitted::Unreadable(writes)),
            }
        }
        // All are decided before any is staged: what is refused refuses the batch, and nothing of it is made.
        let judge = self.judge(now);
        let mut decided = Vec::with_capacity(writes.len());
        let (mut refused, mut throttled) = (None, Vec::new());
        for ((table, key, action), old) in writes.into_iter().zip(before) {
            if wants_metrics {
                note_collection(metrics, &table, action.keyed());
            }
            let may_be_left = self.is_throttling() || self.tells_conflicts();
            let asked = may_be_left.then(|| (batch_write(&action), self.check_conflict(&key)));
            let write = Write { action, condition: None, return_old_on_failure: false };
            let change = decide(&table, key, old, write, &judge)?;
            if let Some((asked, free)) = asked {
                match free.and_then(|()| self.admit_write(&table, &change, 1.0)) {
                    Ok(cost) => cost.take_from(&table),
                    Err(error) => {
                        match left.iter_mut().find(|(name, _)| name == table.name()) {
                            Some((_, writes)) => writes.push(asked),
                            None => left.push((table.name().clone(), vec![asked])),
                        }
                        throttled.push(table);
                        refused = Some(error);
                        continue;
                    }
                }
            }
            decided.push((table, change));
        }
        // What there is no throughput for, or a transaction is writing, is left undone, unless that is all.
        if let Some(refused) = refused.filter(|_| decided.is_empty()) {
            return Err(refused);
        }
        throttled.iter().for_each(|table| table.metrics.left_out(Operation::BatchWriteItem));
        let stamp = self.stamp(now);
        let mut batch = Batch::default();
        let mut tickets = Vec::new();
        let mut keys = Vec::new();
        for (table, change) in decided {
            stage(&self.store, &mut batch, &table, &change, meter, stamp)?;
            meter.table(&table, change.write_units());
            if self.tells_conflicts() {
                keys.push(change.key);
            }
            if batch.bytes() >= STAGED_BYTES_MAX {
                tickets.push(self.store.submit(std::mem::take(&mut batch), seen)?);
            }
        }
        tickets.push(self.store.submit(batch, seen)?);
        let underway = self.under_way(|| keys, Kind::Single);
        drop(locks);
        Ok(BatchSubmitted::Made(tickets, underway))
    }
}

/// What a batch asked for.
fn batch_write(action: &Action) -> BatchWrite {
    match action {
        Action::Put(new) => BatchWrite::Put(new.item.clone()),
        Action::Update { key, .. } | Action::Delete { key } | Action::Check { key } => {
            BatchWrite::Delete(key.clone())
        }
    }
}

/// A batch on its way to disk.
enum BatchSubmitted {
    Made(Vec<Ticket>, Option<Underway>),
    /// One of the items before it cannot be read.
    Unreadable(Vec<Target>),
}

/// Whether a write is the same whatever the item was.
fn overwrites(action: &Action, options: &WriteOptions) -> bool {
    matches!(action, Action::Put(_) | Action::Delete { .. })
        && options.condition.is_none()
        && options.return_values != ReturnValues::AllOld
}

type Target = (Arc<Table>, Vec<u8>, Action);

fn batch_targets(catalog: &Catalog, tables: Vec<(TableName, Vec<Action>)>) -> Result<Vec<Target>, Error> {
    let mut targets = Vec::new();
    let mut keys = HashSet::new();
    for (name, actions) in tables {
        let table = catalog.table(&name)?;
        for action in actions {
            action.check(table, PutKind::Batch)?;
            let key = table.item_key(action.keyed())?;
            if !keys.insert(key.clone()) {
                return Err(Error::validation("Provided list of item keys contains duplicates"));
            }
            targets.push((table.clone(), key, action));
        }
    }
    Ok(targets)
}

async fn finish(submitted: Submitted, return_values: ReturnValues) -> Result<WriteOutput, Error> {
    let mut made = match submitted {
        Submitted::Made(made) => made,
        Submitted::Refused { error, settled } => {
            if let Some(settled) = settled {
                settled.await?;
            }
            return Err(error);
        }
        Submitted::Unreadable(target) => {
            let (table, key, _) = *target;
            let lost = Error::Damaged("it cannot be read, and what it left in the indexes is not known");
            return Err(lost.about(|| name_of_entry(&table, TreeId::ITEMS, &key)));
        }
    };
    (&mut made.ticket).await?;
    drop(made.underway.take());
    let Made { change, meter, metrics, .. } = *made;
    let touched_of = |item: Option<&Item>| {
        let part = touched(change.update.as_ref()?, item?);
        (!part.is_empty()).then_some(Row::Built(part))
    };
    let attributes = match return_values {
        ReturnValues::None => None,
        ReturnValues::UpdatedOld => touched_of(change.old.as_ref().map(|old| &old.item)),
        ReturnValues::UpdatedNew => touched_of(change.new.as_ref().map(|new| &new.item)),
        ReturnValues::AllOld => change.old.map(|old| Row::Stored(old.stored)),
        ReturnValues::AllNew => change.new.map(|new| Row::Built(new.item)),
    };
    Ok(WriteOutput { attributes, consumed: meter.one(), collection_metrics: metrics })
}
