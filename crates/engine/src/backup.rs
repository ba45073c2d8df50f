//! Backups: tables as they were when somebody asked, and deleted tables that can be restored.
//!
//! A backup's items are kept like a table's, under a number of their own, and without indexes. `copy.rs` makes
//! them while writers of the table go on. A table that is deleted while point-in-time recovery is on leaves a
//! backup behind: it takes over the items where they are, and goes after 35 days.
//!
//! Promises:
//! - A backup is the table at one moment: every change answered before it was asked for, none made after the
//!   answer, no half of a transaction.
//! - A backup that is being made or restored cannot be deleted, unless something damaged keeps it from becoming whole.

use std::sync::Arc;

use larder_model::{ApiError, Arn, Space, TableName, UnixTime};
use larder_storage::Batch;

use crate::catalog::{Backup, Catalog, Restored, Table};
use crate::copy::{Copy, Moment};
use crate::layout::{self, TableId, TreeId};
use crate::ops::{
    BackupDescription, BackupKind, BackupStatus, CreateBackup, DeleteBackup, DescribeBackup, ListBackups,
    ListBackupsOutput, RestoreTableFromBackup, TableDescription, TimeToLive,
};
use crate::policies::Policies;
use crate::tables::Counts;
use crate::{Engine, Error, item_bytes, record, restore, twice};

/// Backups in one answer of ListBackups.
const LIST_BACKUPS_MAX: usize = 100;
/// How long a deleted table can be restored.
const DELETED_TABLE_MILLIS: i64 = 35 * 24 * 60 * 60 * 1000;

impl Backup {
    fn new(table: &Arc<Table>, name: String, id: TableId, created: UnixTime, copy: Option<Copy>) -> Self {
        let copied =
            Restored { copy, table_arn: Arn::table(table.name()).to_string(), backup_arn: None, at: created };
        // A restored table has no policy, so none is kept.
        let table = Arc::new(Table { policies: Policies::default(), ..(**table).clone() });
        let items = Table {
            id,
            trees: Vec::new(),
            expiry: None,
            recovery: None,
            copies: Vec::new(),
            restored: copy.map(|_| copied),
            metrics: Arc::default(),
            ..(*table).clone()
        };
        Self {
            // Unlike a table's, these two together are never given out again.
            id: format!("{:014}-{:08x}", created.millis(), id.0),
            name,
            created,
            expires: None,
            is_hidden: false,
            table,
            items: Arc::new(items),
        }
    }

    /// The backup that a table leaves behind. It owns the table's items from now on.
    pub(crate) fn of_deleted(table: &Arc<Table>, now: UnixTime) -> Self {
        let name = format!("{}$DeletedTableBackup", table.name());
        let expires = UnixTime::from_millis(now.millis().saturating_add(DELETED_TABLE_MILLIS));
        Self { expires: Some(expires), ..Self::new(table, name, table.id, now, None) }
    }

    /// What keeps the items of an export for as long as that goes on. Nobody can ask for it.
    pub(crate) fn for_export(table: &Arc<Table>, id: TableId, created: UnixTime, copy: Option<Copy>) -> Self {
        Self { is_hidden: true, ..Self::new(table, String::new(), id, created, copy) }
    }

    fn arn(&self) -> String {
        Arn::backup(self.table.name(), &self.id).to_string()
    }

    fn is_in_use(&self) -> bool {
        self.items.is_being_copied() || !self.items.copies.is_empty()
    }

    /// What says how large it is. Until it is made, it is about to be as large as its table.
    fn counted(&self) -> &Table {
        if self.items.is_being_copied() { &self.table } else { &self.items }
    }

    /// Whether nothing goes on with it: one that cannot be made, because something is damaged, can be removed.
    fn may_go(&self, engine: &Engine) -> bool {
        !engine.is_filling(&self.items) && self.items.copies.is_empty()
    }

    fn kind(&self) -> BackupKind {
        if self.expires.is_some() { BackupKind::System } else { BackupKind::User }
    }
}

impl Engine {
    pub async fn create_backup(
        &self,
        request: CreateBackup,
        now: UnixTime,
    ) -> Result<BackupDescription, Error> {
        let counts = self.counts_of(&request.table)?;
        let past = self.past()?;
        let ((), ticket, description) = self.change_catalog(|catalog, batch| {
            let name = &request.table;
            let table = catalog.find(name)?.ok_or_else(|| ApiError::TableNotFound(name.clone()))?.clone();
            if table.is_being_copied() {
                return Err(ApiError::TableInUse(name.clone()).into());
            }
            if !past.has_line(self) {
                return Err(ApiError::Throttled.into());
            }
            let moment = self.mark(now);
            let id = self.next_table_id(batch)?;
            let stretch = past.line.newest();
            let copy = Copy { source: table.id, moment: Moment::Time { time: moment, stretch } };
            let backup = Backup::new(&table, request.name, id, moment, Some(copy));
            let description = self.described_backup(&backup, &counts);
            put_backup(batch, &backup);
            catalog.insert_backup(Arc::new(backup));
            // From now on the table is logged, so that what changes can be undone in the backup.
            catalog.change(batch, table.id, |table| table.copies.push(id));
            Ok(((), description))
        })?;
        ticket.await?;
        self.wake_worker();
        Ok(description)
    }

    pub fn describe_backup(&self, request: &DescribeBackup) -> Result<BackupDescription, Error> {
        let backup = find(&*self.catalog()?, &request.arn)?;
        self.describe_backup_now(&backup)
    }

    pub fn list_backups(&self, request: &ListBackups) -> Result<ListBackupsOutput, Error> {
        self.list_backups_in(&Space::default(), request)
    }

    pub(crate) fn list_backups_in(
        &self,
        space: &Space,
        request: &ListBackups,
    ) -> Result<ListBackupsOutput, Error> {
        let limit = request.limit.unwrap_or(LIST_BACKUPS_MAX).min(LIST_BACKUPS_MAX);
        let start = request.start.as_deref().map(id_of);
        let catalog = self.catalog()?;
        // A list is of one space, whatever table it is to be of: nobody was asked about others.
        let of_table =
            |name: &TableName| name.is_in(space) && request.table.as_ref().is_none_or(|asked| asked == name);
        let mut found = catalog.backups_after(start).filter(|backup| {
            !backup.is_hidden
                && request.kinds.contains(&backup.kind())
                && of_table(backup.table.name())
                && request.from.is_none_or(|from| backup.created >= from)
                && request.before.is_none_or(|before| backup.created < before)
        });
        let backups = found
            .by_ref()
            .take(limit)
            .map(|backup| self.describe_backup_now(backup))
            .collect::<Result<Vec<_>, _>>()?;
        let last = found.next().and(backups.last().map(|backup| backup.arn.clone()));
        Ok(ListBackupsOutput { backups, last })
    }

    pub async fn delete_backup(&self, request: DeleteBackup) -> Result<BackupDescription, Error> {
        let known = find(&*self.catalog()?, &request.arn)?;
        // One whose counters are damaged can go, too.
        let counts = self.counts(known.counted()).or_else(Error::unless_of_one_value)?;
        let ((), ticket, mut description) = self.change_catalog(|catalog, batch| {
            let backup = find(catalog, &request.arn)?;
            if !backup.may_go(self) {
                return Err(ApiError::BackupInUse(request.arn).into());
            }
            let description = self.described_backup(&backup, &counts);
            self.abandon_copy(catalog, batch, &backup.items);
            remove(catalog, batch, &backup);
            Ok(((), description))
        })?;
        ticket.await?;
        self.wake_worker();
        description.status = BackupStatus::Deleted;
        Ok(description)
    }

    pub async fn restore_table_from_backup(
        &self,
        request: RestoreTableFromBackup,
        now: UnixTime,
    ) -> Result<TableDescription, Error> {
        let ((), ticket, description) = self.change_catalog(|catalog, batch| {
            let backup = find(catalog, &request.backup)?;
            if backup.items.is_being_copied() {
                return Err(ApiError::BackupInUse(request.backup).into());
            }
            restore::check_target(catalog, &request.target)?;
            let table = &backup.table;
            let definition = restore::definition(&table.definition, &request.target, &request.overrides)?;
            let restored = Restored {
                copy: Some(Copy { source: backup.items.id, moment: Moment::Now }),
                table_arn: Arn::table(table.name()).to_string(),
                backup_arn: Some(request.backup),
                at: backup.created,
            };
            let made = self.add_restored(catalog, batch, backup.items.id, definition, restored, now)?;
            Ok(((), made))
        })?;
        ticket.await?;
        self.wake_worker();
        Ok(description)
    }

    /// Removes backups of deleted tables whose time has come. True if there were any.
    pub(crate) fn expire_backups(&self, now: UnixTime) -> Result<bool, Error> {
        if self.catalog()?.leaving(now).all(|backup| backup.is_in_use()) {
            return Ok(false);
        }
        let ((), ticket, ()) = self.change_catalog(|catalog, batch| {
            let due: Vec<_> = catalog.leaving(now).filter(|backup| !backup.is_in_use()).cloned().collect();
            due.iter().for_each(|backup| remove(catalog, batch, backup));
            Ok(((), ()))
        })?;
        ticket.wait()?;
        self.wake_worker();
        Ok(true)
    }

    fn describe_backup_now(&self, backup: &Backup) -> Result<BackupDescription, Error> {
        Ok(self.described_backup(backup, &self.counts(backup.counted())?))
    }

    fn described_backup(&self, backup: &Backup, counts: &Counts) -> BackupDescription {
        BackupDescription { table: self.in_force(&backup.table.definition), ..describe(backup, counts) }
    }
}

fn describe(backup: &Backup, counts: &Counts) -> BackupDescription {
    let making = backup.items.is_being_copied();
    let [item_count, bytes] = counts.of(backup.counted(), TreeId::ITEMS);
    let table = &*backup.table;
    BackupDescription {
        arn: backup.arn(),
        name: backup.name.clone(),
        kind: backup.kind(),
        status: if making { BackupStatus::Creating } else { BackupStatus::Available },
        created: backup.created,
        expires: backup.expires,
        item_count,
        bytes,
        table: table.definition.clone(),
        table_id: table.history.uuid,
        table_created: table.history.created,
        time_to_live: table
            .expiry
            .as_ref()
            .map_or(TimeToLive::Disabled, |expiry| TimeToLive::Enabled(expiry.attribute.clone())),
    }
}

fn find(catalog: &Catalog, arn: &str) -> Result<Arc<Backup>, Error> {
    let backup = catalog.find_backup(id_of(arn))?.filter(|backup| !backup.is_hidden && backup.arn() == arn);
    backup.cloned().ok_or_else(|| ApiError::BackupNotFound(arn.to_owned()).into())
}

/// What an ARN ends with.
fn id_of(arn: &str) -> &str {
    arn.rsplit_once('/').map_or(arn, |(_, id)| id)
}

pub(crate) fn remove(catalog: &mut Catalog, batch: &mut Batch, backup: &Backup) {
    twice::delete(batch, layout::backup(&backup.id));
    batch.delete(layout::counters(backup.items.id, TreeId::ITEMS));
    catalog.remove_backup(&backup.id);
}

pub(crate) fn put_backup(batch: &mut Batch, backup: &Backup) {
    twice::put(batch, layout::backup(&backup.id), item_bytes::encode(&record::write_backup(backup)));
}
