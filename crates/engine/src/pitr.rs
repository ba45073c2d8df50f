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
//! - What is offered is there: the window begins no earlier than what is left of the log, whatever the clock says.
//! - A moment that the clock told twice, or not at all, is refused.
//! - It cannot be used before it is whole, and becomes whole however often the power goes.

use std::sync::Arc;

use larder_model::{ApiError, Arn, TableName, UnixTime};
use larder_storage::Ticket;

use crate::catalog::{Recovery, Restored, Table};
use crate::copy::{Copy, Moment};
use crate::ops::{
    ContinuousBackups, DescribeContinuousBackups, PointInTimeRecovery, RestoreTableToPointInTime,
    TableDescription, UpdateContinuousBackups,
};
use crate::tables::put_record;
use crate::timeline::{Floor, Timeline};
use crate::{Engine, Error, restore};

/// How often a restore is tried again that met a change of what is left of the log.
const TRIES_MAX: usize = 20;
/// Days that can be gone back if nothing else is asked for: the most there are.
const DAYS_DEFAULT: u8 = 35;
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

impl Recovery {
    /// The first moment that can be restored, of a log that has this floor.
    pub(crate) fn earliest(&self, latest: UnixTime, floor: UnixTime) -> UnixTime {
        UnixTime::from_millis(latest.millis() - i64::from(self.days) * DAY_MILLIS).max(self.since).max(floor)
    }
}

impl Engine {
    /// The table, and the moment before which nothing is left of its log.
    pub(crate) fn recoverable(&self, name: &TableName) -> Result<(Arc<Table>, UnixTime), Error> {
        let found = self.catalog()?.find(name)?.cloned();
        let table = found.ok_or_else(|| ApiError::TableNotFound(name.clone()))?;
        let line = Timeline::read(&self.store.snapshot())?;
        let floor = Floor::latest(&self.store, table.id)?.moment(&line);
        Ok((table, floor))
    }

    pub async fn update_continuous_backups(
        &self,
        request: UpdateContinuousBackups,
        now: UnixTime,
    ) -> Result<ContinuousBackups, Error> {
        let (known, floor) = self.recoverable(&request.table)?;
        let ((), ticket, description) = self.change_catalog(|catalog, batch| {
            let name = &request.table;
            let table = catalog.find(name)?.ok_or_else(|| ApiError::TableNotFound(name.clone()))?;
            if table.is_being_copied() {
                return Err(ApiError::ContinuousBackupsUnavailable(name.clone()).into());
            }
            // Another table of that name has a log of its own.
            let floor = if table.id == known.id { floor } else { Floor::NONE.time };
            let recovery = request.enabled.then(|| {
                let latest = self.mark(now);
                let days = request.days.unwrap_or(DAYS_DEFAULT);
                // What is out of the window now may be forgotten already.
                let earliest = |recovery: &Recovery| recovery.earliest(latest, floor);
                let since = table.recovery.as_ref().map_or(latest, earliest);
                Recovery { days, since }
            });
            let changed = Table { recovery, ..(**table).clone() };
            let description = self.continuous_backups(&changed, floor, now);
            put_record(batch, &changed);
            catalog.insert(changed.into());
            Ok(((), description))
        })?;
        ticket.await?;
        self.wake_worker();
        Ok(description)
    }

    pub fn describe_continuous_backups(
        &self,
        request: &DescribeContinuousBackups,
        now: UnixTime,
    ) -> Result<ContinuousBackups, Error> {
        let (table, floor) = self.recoverable(&request.table)?;
        Ok(self.continuous_backups(&table, floor, now))
    }

    fn continuous_backups(&self, table: &Table, floor: UnixTime, now: UnixTime) -> ContinuousBackups {
        let latest = self.latest(now);
        let whole_second = |time: UnixTime| UnixTime::from_seconds((time.millis() + 999).div_euclid(1000));
        let recovery = table.recovery.as_ref().map(|recovery| PointInTimeRecovery {
            days: recovery.days,
            earliest: whole_second(recovery.earliest(latest, floor)),
            latest: UnixTime::from_seconds(latest.seconds()),
        });
        ContinuousBackups { recovery }
    }

    pub async fn restore_table_to_point_in_time(
        &self,
        request: RestoreTableToPointInTime,
        now: UnixTime,
    ) -> Result<TableDescription, Error> {
        let mut tries = 0;
        let (ticket, description) = loop {
            tries += 1;
            match self.begin_restore(&request, now) {
                // Something was trimmed just then.
                Err(Error::Api(ApiError::Throttled)) if tries < TRIES_MAX => {}
                begun => break begun?,
            }
        };
        ticket.await?;
        self.wake_worker();
        Ok(description)
    }

    fn begin_restore(
        &self,
        request: &RestoreTableToPointInTime,
        now: UnixTime,
    ) -> Result<(Ticket, TableDescription), Error> {
        let past = self.past()?;
        let (known, floor) = self.recoverable(&request.source)?;
        let ((), ticket, description) = self.change_catalog(|catalog, batch| {
            let name = &request.source;
            let source = catalog.find(name)?.ok_or_else(|| ApiError::TableNotFound(name.clone()))?.clone();
            let recovery = source
                .recovery
                .as_ref()
                .ok_or_else(|| ApiError::PointInTimeRecoveryUnavailable(name.clone()))?;
            let latest = self.latest(now);
            let at = request.at.unwrap_or(latest);
            if source.id != known.id || !past.has_line(self) || !past.has_floors(self) {
                return Err(ApiError::Throttled.into());
            }
            if at > latest || at < recovery.earliest(latest, floor) {
                return Err(ApiError::InvalidRestoreTime.into());
            }
            if request.at.is_some()
                && let Some((from, to)) = past.line.unsure(at)
            {
                return Err(ApiError::RestoreTimeUncertain { from, to }.into());
            }
            let moment = Moment::Time { time: at, stretch: past.line.stretch(at).from };
            restore::check_target(catalog, &request.target)?;
            let definition = restore::definition(&source.definition, &request.target, &request.overrides)?;
            self.mark(now);
            let restored = Restored {
                copy: Some(Copy { source: source.id, moment }),
                table_arn: Arn::table(name).to_string(),
                backup_arn: None,
                at,
            };
            let made = self.add_restored(catalog, batch, source.id, definition, restored, now)?;
            Ok(((), made))
        })?;
        Ok((ticket, description))
    }
}
