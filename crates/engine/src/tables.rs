//! Creating, describing, changing and dropping tables; their tags; their TTL.
//!
//! A change is visible to other requests as soon as it is submitted and answered once it is on disk. Work that
//! takes time (filling an index, clearing away what was dropped) is left to [`Engine::work`].

use std::collections::HashMap;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

use larder_model::limits::EXPIRY_SWITCH_SECONDS;
use larder_model::{
    ApiError, Arn, Billing, Space, StreamView, TableDefinition, TableName, Tags, Throughput, UnixTime,
};
use larder_storage::{Batch, Ticket};

use crate::backup::put_backup;
use crate::catalog::{Backup, Expiry, History, IndexTree, Table};
use crate::layout::{self, TableId, TreeId};
use crate::ops::{
    CreateTable, DeleteTable, DescribeTable, DescribeTimeToLive, IndexDescription, IndexStatus, ListTables,
    ListTablesOutput, ListTagsOfResource, ResourcePolicy, RestoreSummary, TableDescription, TableStatus,
    TagResource, TimeToLive, UntagResource, UpdateTable, UpdateTimeToLive,
};
use crate::policies::Policies;
use crate::{Engine, Error, item_bytes, record, streams, table_rules, twice};

const LIST_TABLES_MAX: usize = 100;

/// Why a store does not encrypt.
pub const KEYLESS: &str = "nothing is encrypted: the store has no key; a new one gets it with `larder serve --key-file FILE`, or \
                           LARDER_KEY_FILE";

impl Engine {
    pub async fn create_table(&self, request: CreateTable, now: UnixTime) -> Result<TableDescription, Error> {
        let definition = table_rules::new_table(&request)?;
        let ((), ticket, mut description) = self.change_catalog(|catalog, batch| {
            if catalog.find(&definition.name)?.is_some() {
                return Err(
                    ApiError::ResourceInUse(format!("Table already exists: {}", definition.name)).into()
                );
            }
            let id = self.next_table_id(batch)?;
            let mut table = new_table(id, definition, now)?;
            // A moment of its own: no change is before it, and no other stream of that name has it.
            table.history.stream_label = table.history.stream_label.map(|_| self.mark(now));
            table.policies.table =
                request.policy.map(|text| Arc::new(ResourcePolicy::new(text, self.mark(now))));
            let table = Arc::new(table);
            put_record(batch, &table);
            let description = self.described(&table, &Counts::default());
            catalog.insert(table);
            Ok(((), description))
        })?;
        ticket.await?;
        description.status = TableStatus::Creating;
        for index in &mut description.indexes {
            index.status = IndexStatus::Creating { backfilling: false };
        }
        Ok(description)
    }

    pub fn describe_table(&self, request: &DescribeTable) -> Result<TableDescription, Error> {
        let table = self.named_table(&request.table)?;
        Ok(self.described(&table, &self.counts(&table)?))
    }

    pub(crate) fn described(&self, table: &Table, counts: &Counts) -> TableDescription {
        TableDescription { definition: self.in_force(&table.definition), ..describe(table, counts) }
    }

    /// The definition without what the store was told and does not do: only one with a key encrypts.
    pub(crate) fn in_force(&self, definition: &Arc<TableDefinition>) -> Arc<TableDefinition> {
        let mut definition = Arc::clone(definition);
        if definition.encryption.is_some() && !self.store.is_sealed() {
            Arc::make_mut(&mut definition).encryption = None;
        }
        definition
    }

    pub fn list_tables(&self, request: &ListTables) -> Result<ListTablesOutput, Error> {
        self.list_tables_in(&Space::default(), request)
    }

    pub(crate) fn list_tables_in(
        &self,
        space: &Space,
        request: &ListTables,
    ) -> Result<ListTablesOutput, Error> {
        let limit = request.limit.unwrap_or(LIST_TABLES_MAX).min(LIST_TABLES_MAX);
        let catalog = self.catalog()?;
        let start = request.start.as_deref().map(|name| format!("{}{name}", space.prefix()));
        let from = start.as_deref().map_or(Bound::Included(space.prefix()), Bound::Excluded);
        let of_space = catalog.tables_from(from).take_while(|table| table.name().is_in(space));
        let mut after = of_space.map(|table| table.name().clone());
        let names: Vec<TableName> = after.by_ref().take(limit).collect();
        let last = after.next().and(names.last().cloned());
        Ok(ListTablesOutput { names, last })
    }

    /// How many tables there are, in all spaces.
    pub fn count_tables(&self) -> Result<usize, Error> {
        Ok(self.catalog()?.tables().count())
    }

    pub async fn update_table(&self, request: UpdateTable, now: UnixTime) -> Result<TableDescription, Error> {
        table_rules::check_update(&request)?;
        let asks = request.encryption.as_ref().is_some_and(|asked| asked.enabled == Some(true));
        if asks && !self.store.is_sealed() {
            return Err(Error::validation(KEYLESS));
        }
        let counts = self.counts_of(&request.table)?;
        let (deleted, ticket, mut description) = self.change_catalog(|catalog, batch| {
            let table = catalog.find(&request.table)?.ok_or_else(|| table_not_found(&request.table))?.clone();
            check_whole(&table)?;
            let building = table.trees.iter().any(|tree| tree.building);
            let change = table_rules::change_table(&table.definition, building, &request)?;
            let deleted = change.deleted_index.as_ref().and_then(|name| {
                let index = table.index(name.as_str())?;
                batch.delete(layout::counters(table.id, index.tree.id));
                Some((describe_index(&table, index.tree, &counts), index.definition.clone()))
            });
            let now = self.stamp(now).time;
            let changed = Arc::new(changed_table(&table, change.definition, change.stream_switched, now)?);
            put_record(batch, &changed);
            let description = self.described(&changed, &counts);
            self.settle_throughput(&table, &changed);
            catalog.insert(changed);
            Ok((deleted, description))
        })?;
        ticket.await?;
        self.wake_worker();
        description.status = TableStatus::Updating;
        if let Some((gone, definition)) = deleted {
            // The answer still shows the index that goes.
            Arc::make_mut(&mut description.definition).indexes.push(definition);
            description.indexes.push(IndexDescription { status: IndexStatus::Deleting, ..gone });
        }
        Ok(description)
    }

    pub async fn delete_table(&self, request: DeleteTable, now: UnixTime) -> Result<TableDescription, Error> {
        // One whose counters are damaged can go, too.
        let counts = self.counts_of(&request.table).or_else(Error::unless_of_one_value)?;
        let ((), ticket, mut description) = self.change_catalog(|catalog, batch| {
            let table = catalog.find(&request.table)?.ok_or_else(|| table_not_found(&request.table))?.clone();
            if table.definition.deletion_protection {
                return Err(Error::validation(
                    "Resource cannot be deleted as it is currently protected against deletion. Disable deletion \
                     protection first.",
                ));
            }
            // A copy that cannot become whole would keep its source for ever.
            if self.is_filling(&table) {
                check_whole(&table)?;
            }
            if !table.copies.is_empty() {
                return Err(ApiError::ResourceInUse(format!(
                    "Attempt to change a resource which is still in use: Table is being backed up: {}",
                    table.name()
                ))
                .into());
            }
            let description = self.described(&table, &counts);
            // Its items go afterwards.
            batch.makes_room();
            self.abandon_copy(catalog, batch, &table);
            twice::delete(batch, layout::record(table.name()));
            for tree in table.trees.iter().map(|tree| tree.id) {
                batch.delete(layout::counters(table.id, tree));
            }
            if table.recovery.is_some() {
                let backup = Backup::of_deleted(&table, now);
                put_backup(batch, &backup);
                catalog.insert_backup(Arc::new(backup));
            } else {
                batch.delete(layout::counters(table.id, TreeId::ITEMS));
            }
            streams::leave(batch, &table, self.stamp(now).time);
            catalog.remove(table.name());
            Ok(((), description))
        })?;
        ticket.await?;
        self.wake_worker();
        description.status = TableStatus::Deleting;
        Ok(description)
    }

    pub async fn update_time_to_live(&self, request: UpdateTimeToLive) -> Result<UpdateTimeToLive, Error> {
        self.switch_expiry(&request, None)?.await?;
        self.wake_worker();
        Ok(request)
    }

    /// The same for clients of DynamoDB, where a change takes an hour and keeps out others meanwhile. It is ours
    /// that take no time, so a restart ends the hour.
    pub(crate) async fn update_time_to_live_at(
        &self,
        request: UpdateTimeToLive,
        now: UnixTime,
    ) -> Result<UpdateTimeToLive, Error> {
        self.switch_expiry(&request, Some(now))?.await?;
        self.wake_worker();
        Ok(request)
    }

    fn switch_expiry(&self, request: &UpdateTimeToLive, now: Option<UnixTime>) -> Result<Ticket, Error> {
        let mut switched = self.expiry_switched.lock();
        if let Some(now) = now {
            switched.retain(|_, at| (0..EXPIRY_SWITCH_SECONDS).contains(&(now.seconds() - *at)));
        }
        let (id, ticket, ()) = self.change_catalog(|catalog, batch| {
            let table = catalog.find(&request.table)?.ok_or_else(|| table_not_found(&request.table))?.clone();
            check_whole(&table)?;
            let attribute = &request.attribute;
            let expiry = match (&table.expiry, request.enabled) {
                (None, true) => Some(Expiry { attribute: attribute.clone(), building: true }),
                (None, false) => return Err(Error::validation("TimeToLive is already disabled")),
                (Some(current), true) if current.attribute == *attribute => {
                    return Err(Error::validation("TimeToLive is already enabled"));
                }
                (Some(current), false) if current.attribute == *attribute => None,
                (Some(current), _) => {
                    return Err(Error::validation(format!(
                        "TimeToLive is active on a different AttributeName: current AttributeName is {}",
                        current.attribute
                    )));
                }
            };
            if now.is_some() && switched.contains_key(&table.id) {
                return Err(Error::validation(
                    "Time to live has been modified multiple times within a fixed interval",
                ));
            }
            let changed = Arc::new(Table { expiry, ..(*table).clone() });
            put_record(batch, &changed);
            catalog.insert(changed);
            // A tree that was begun before it was switched off lacks what was written since.
            self.progress.lock().give_up(table.id, TreeId::EXPIRY);
            Ok((table.id, ()))
        })?;
        if let Some(now) = now {
            switched.insert(id, now.seconds());
        }
        Ok(ticket)
    }

    pub fn describe_time_to_live(&self, request: &DescribeTimeToLive) -> Result<TimeToLive, Error> {
        let table = self.named_table(&request.table)?;
        Ok(table
            .expiry
            .as_ref()
            .map_or(TimeToLive::Disabled, |expiry| TimeToLive::Enabled(expiry.attribute.clone())))
    }

    pub async fn tag_resource(&self, request: TagResource) -> Result<(), Error> {
        table_rules::check_tags(&request.tags)?;
        self.change_tags(&request.table, |tags| {
            *tags = table_rules::merge_tags(tags, &request.tags)?;
            Ok(())
        })?
        .await?;
        Ok(())
    }

    pub async fn untag_resource(&self, request: UntagResource) -> Result<(), Error> {
        self.change_tags(&request.table, |tags| {
            tags.retain(|key, _| !request.keys.contains(key));
            Ok(())
        })?
        .await?;
        Ok(())
    }

    pub fn list_tags_of_resource(&self, request: &ListTagsOfResource) -> Result<Tags, Error> {
        let catalog = self.catalog()?;
        let table = catalog.find(&request.table)?.ok_or_else(|| {
            // Not that it is not there: that could be told to somebody who may not know.
            let arn = Arn::table(&request.table).to_string();
            ApiError::concealed(request.table.account(), "ListTagsOfResource", arn)
        })?;
        Ok(table.definition.tags.clone())
    }

    fn change_tags(
        &self,
        name: &TableName,
        change: impl FnOnce(&mut Tags) -> Result<(), Error>,
    ) -> Result<Ticket, Error> {
        let ((), ticket, ()) = self.change_catalog(|catalog, batch| {
            let mut table = (**catalog.find(name)?.ok_or_else(|| resource_not_found(name))?).clone();
            change(&mut Arc::make_mut(&mut table.definition).tags)?;
            put_record(batch, &table);
            catalog.insert(Arc::new(table));
            Ok(((), ()))
        })?;
        Ok(ticket)
    }

    /// The table, or the answer of operations on tables when there is none.
    fn named_table(&self, name: &TableName) -> Result<Arc<Table>, Error> {
        self.catalog()?.find(name)?.cloned().ok_or_else(|| table_not_found(name))
    }

    /// How large a table and its indexes are now.
    pub(crate) fn counts(&self, table: &Table) -> Result<Counts, Error> {
        let snapshot = self.store.snapshot();
        let mut counts = Counts::default();
        for tree in table.trees.iter().map(|tree| tree.id).chain([TreeId::ITEMS]) {
            if let Some(value) = snapshot.get(&layout::counters(table.id, tree))? {
                counts.0.insert((table.id, tree), larder_storage::counters(&value)?);
            }
        }
        Ok(counts)
    }

    /// The same for whoever is about to change the table, and may find that it is gone.
    pub(crate) fn counts_of(&self, name: &TableName) -> Result<Counts, Error> {
        let table = self.catalog()?.find(name)?.cloned();
        table.map_or(Ok(Counts::default()), |table| self.counts(&table))
    }
}

/// How many entries some trees have, and how many bytes those are.
#[derive(Debug, Default)]
pub(crate) struct Counts(HashMap<(TableId, TreeId), [i64; 2]>);

impl Counts {
    /// Nothing, for a tree that nobody had written to.
    pub(crate) fn of(&self, table: &Table, tree: TreeId) -> [i64; 2] {
        self.0.get(&(table.id, tree)).copied().unwrap_or_default()
    }
}

fn describe(table: &Table, counts: &Counts) -> TableDescription {
    let [item_count, bytes] = counts.of(table, TreeId::ITEMS);
    let building = table.trees.iter().any(|tree| tree.building);
    let history = &table.history;
    TableDescription {
        definition: table.definition.clone(),
        status: match (table.is_being_copied(), building) {
            (true, _) => TableStatus::Creating,
            (false, true) => TableStatus::Updating,
            (false, false) => TableStatus::Active,
        },
        id: history.uuid,
        created: history.created,
        item_count,
        bytes,
        indexes: table.trees.iter().map(|tree| describe_index(table, *tree, counts)).collect(),
        on_demand_since: history.on_demand_since,
        throughput_increased: history.throughput_increased,
        throughput_decreased: history.throughput_decreased,
        decreases_today: 0,
        stream_label: history.stream_label,
        class_changed: history.class_changed,
        restored: table.restored.as_ref().map(|restored| RestoreSummary {
            table_arn: restored.table_arn.clone(),
            backup_arn: restored.backup_arn.clone(),
            at: restored.at,
            in_progress: restored.copy.is_some(),
        }),
    }
}

fn describe_index(table: &Table, tree: IndexTree, counts: &Counts) -> IndexDescription {
    let [item_count, bytes] = counts.of(table, tree.id);
    let status = match (table.is_being_copied(), tree.building) {
        (true, _) => IndexStatus::Creating { backfilling: false },
        (false, true) => IndexStatus::Creating { backfilling: true },
        (false, false) => IndexStatus::Active,
    };
    IndexDescription { status, item_count, bytes }
}

/// A table that is still being filled cannot be changed.
pub(crate) fn check_whole(table: &Table) -> Result<(), Error> {
    if !table.is_being_copied() {
        return Ok(());
    }
    Err(ApiError::ResourceInUse(format!(
        "Attempt to change a resource which is still in use: Table is being created: {}",
        table.name()
    ))
    .into())
}

pub(crate) fn new_table(id: TableId, definition: TableDefinition, now: UnixTime) -> Result<Table, Error> {
    let trees: Vec<IndexTree> = (1..)
        .map(TreeId)
        .map(|id| IndexTree { id, building: false })
        .take(definition.indexes.len())
        .collect();
    Ok(Table {
        id,
        next_tree: trees.len() as u16 + 1,
        trees,
        expiry: None,
        recovery: None,
        copies: Vec::new(),
        restored: None,
        is_importing: false,
        policies: Policies::default(),
        history: History {
            uuid: random_uuid()?,
            created: now,
            on_demand_since: (definition.billing == Billing::OnDemand).then_some(now),
            throughput_increased: None,
            throughput_decreased: None,
            stream_label: definition.stream.map(|_: StreamView| now),
            closed_streams: Vec::new(),
            class_changed: None,
        },
        definition: Arc::new(definition),
        metrics: Arc::default(),
    })
}

/// The table under its new definition: indexes that stay keep their trees, new ones get fresh trees to fill.
fn changed_table(
    table: &Table,
    definition: TableDefinition,
    stream_switched_on: bool,
    now: UnixTime,
) -> Result<Table, Error> {
    let mut next_tree = table.next_tree;
    let mut trees = Vec::with_capacity(definition.indexes.len());
    for index in &definition.indexes {
        trees.push(match table.index(index.name.as_str()) {
            Some(known) => known.tree,
            None => {
                let id = TreeId(next_tree);
                next_tree =
                    next_tree.checked_add(1).filter(|next| *next < TreeId::EXPIRY.0).ok_or_else(|| {
                        ApiError::LimitExceeded(
                            "the table has had too many indexes: copy it to a new one".into(),
                        )
                    })?;
                IndexTree { id, building: true }
            }
        });
    }
    let mut history = table.history.clone();
    let old = &*table.definition;
    let units = |billing: Billing| match billing {
        Billing::Provisioned(throughput) => throughput,
        Billing::OnDemand => Throughput::default(),
    };
    if definition.billing == Billing::OnDemand && old.billing != Billing::OnDemand {
        history.on_demand_since = Some(now);
    }
    if let (Billing::Provisioned(new), old) = (definition.billing, units(old.billing)) {
        if new.read > old.read || new.write > old.write {
            history.throughput_increased = Some(now);
        }
        if new.read < old.read || new.write < old.write {
            history.throughput_decreased = Some(now);
        }
    }
    if stream_switched_on {
        history.stream_label = Some(streams::new_label(&history, now));
    } else if definition.stream.is_none() {
        streams::close(&mut history, old.stream, now);
    }
    if definition.class != old.class {
        history.class_changed = Some(now);
    }
    Ok(Table {
        id: table.id,
        trees,
        next_tree,
        expiry: table.expiry.clone(),
        recovery: table.recovery.clone(),
        copies: table.copies.clone(),
        restored: table.restored.clone(),
        is_importing: table.is_importing,
        policies: table.policies.of_streams_in(&history),
        history,
        definition: Arc::new(definition),
        metrics: table.metrics.clone(),
    })
}

pub(crate) fn put_record(batch: &mut Batch, table: &Table) {
    twice::put(batch, layout::record(table.name()), item_bytes::encode(&record::write(table)));
}

fn table_not_found(name: &TableName) -> Error {
    ApiError::ResourceNotFound(format!("Requested resource not found: Table: {name} not found")).into()
}

pub(crate) fn resource_not_found(name: &TableName) -> Error {
    // The spelling is DynamoDB's.
    ApiError::ResourceNotFound(format!(
        "Requested resource not found: ResourcArn: {} not found",
        Arn::table(name)
    ))
    .into()
}

/// A version 4 UUID.
fn random_uuid() -> Result<[u8; 16], Error> {
    let mut uuid = [0; 16];
    getrandom::fill(&mut uuid)
        .map_err(|error| larder_storage::Error::from(io::Error::other(error.to_string())))?;
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(uuid)
}
