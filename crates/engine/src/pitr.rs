//! Point-in-time recovery: a table as it was at any moment of the last days.
//!
//! While it is switched on, the change log keeps what every item was before each change. A restore makes a new
//! table: `copy.rs` fills it from the table as it is, and undoes what came after the moment.
//!
//! Surprising rules:
//! - The window begins when recovery was switched on. Making it longer does not bring back what was forgotten.
//! - The latest moment is now; AWS's is five minutes ago. The window is told in whole seconds, as most clients
//!   send them, and moments are taken to the millisecond.
//!
//! Promises:
//! - A restored table holds every change up to its moment, and none after it.
//! - It cannot be used before it is whole, and becomes whole however often the power goes.

use larder_model::{ApiError, Arn, UnixTime};

use crate::catalog::{Recovery, Restored, Table};
use crate::copy::{Copy, Moment};
use crate::ops::{
    ContinuousBackups, DescribeContinuousBackups, PointInTimeRecovery, RestoreTableToPointInTime,
    TableDescription, UpdateContinuousBackups,
};
use crate::tables::put_record;
use crate::{Engine, Error, restore};

/// Days that can be gone back if nothing else is asked for: the most there are.
const DAYS_DEFAULT: u8 = 35;
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

impl Recovery {
    /// The first moment that can be restored.
    fn earliest(&self, latest: UnixTime) -> UnixTime {
        UnixTime::from_millis(latest.millis() - i64::from(self.days) * DAY_MILLIS).max(self.since)
    }
}

impl Engine {
    pub async fn update_continuous_backups(
        &self,
        request: UpdateContinuousBackups,
        now: UnixTime,
    ) -> Result<ContinuousBackups, Error> {
        let ((), ticket, description) = self.change_catalog(|catalog, batch| {
            let name = &request.table;
            let table = catalog.find(name)?.ok_or_else(|| ApiError::TableNotFound(name.clone()))?;
            if table.is_being_copied() {
                return Err(ApiError::ContinuousBackupsUnavailable(name.clone()).into());
            }
            let recovery = request.enabled.then(|| {
                let latest = self.mark(now);
                let days = request.days.unwrap_or(DAYS_DEFAULT);
                // What is out of the window now may be forgotten already.
                let since = table.recovery.as_ref().map_or(latest, |recovery| recovery.earliest(latest));
                Recovery { days, since }
            });
            let changed = Table { recovery, ..(**table).clone() };
            let description = self.continuous_backups(&changed, now);
            put_record(batch, &changed);
            catalog.insert(changed.into());
            Ok(((), description))
        })?;
        ticket.await?;
        Ok(description)
    }

    pub fn describe_continuous_backups(
        &self,
        request: &DescribeContinuousBackups,
        now: UnixTime,
    ) -> Result<ContinuousBackups, Error> {
        let catalog = self.catalog()?;
        let table =
            catalog.find(&request.table)?.ok_or_else(|| ApiError::TableNotFound(request.table.clone()))?;
        Ok(self.continuous_backups(table, now))
    }

    fn continuous_backups(&self, table: &Table, now: UnixTime) -> ContinuousBackups {
        let latest = self.latest(now);
        let recovery = table.recovery.as_ref().map(|recovery| PointInTimeRecovery {
            days: recovery.days,
            earliest: UnixTime::from_seconds((recovery.earliest(latest).millis() + 999).div_euclid(1000)),
            latest: UnixTime::from_seconds(latest.seconds()),
        });
        ContinuousBackups { recovery }
    }

    pub async fn restore_table_to_point_in_time(
        &self,
        request: RestoreTableToPointInTime,
        now: UnixTime,
    ) -> Result<TableDescription, Error> {
        let ((), ticket, description) = self.change_catalog(|catalog, batch| {
            let name = &request.source;
            let source = catalog.find(name)?.ok_or_else(|| ApiError::TableNotFound(name.clone()))?.clone();
            let recovery = source
                .recovery
                .as_ref()
                .ok_or_else(|| ApiError::PointInTimeRecoveryUnavailable(name.clone()))?;
            let latest = self.latest(now);
            let at = request.at.unwrap_or(latest);
            if at > latest || at < recovery.earliest(latest) {
                return Err(ApiError::InvalidRestoreTime.into());
            }
            restore::check_target(catalog, &request.target)?;
            let definition = restore::definition(&source.definition, &request.target, &request.overrides)?;
            self.mark(now);
            let restored = Restored {
                copy: Some(Copy { source: source.id, moment: Moment::Time(at) }),
                table_arn: Arn::table(name).to_string(),
                backup_arn: None,
                at,
            };
            let made = self.add_restored(catalog, batch, source.id, definition, restored, now)?;
            Ok(((), made))
        })?;
        ticket.await?;
        self.wake_worker();
        Ok(description)
    }
}
