//! Deletes items whose TTL attribute is in the past.
//!
//! The attribute holds epoch seconds as a number; anything else never expires. A value more than five years
//! old is taken for a mistake and left alone, as DynamoDB does.
//!
//! An expiry tree holds an entry per item that has a time, ordered by time, so a pass costs what expires and
//! not what the table holds. [`Engine::reap`] makes one bounded pass and says whether there is more. It owns
//! no thread and no clock: the server calls it on a tick, tests call it with any time they like.
//!
//! Promises:
//! - A write that renews an item always wins: expiry is checked again under the item's lock.
//! - Removals go through the one write path, so indexes and counters follow.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use larder_model::limits::TTL_PAST_SECONDS_MAX;
use larder_model::{Item, TableName, UnixTime};
use larder_storage::{Batch, Piece, Ticket};

use crate::capacity::Meter;
use crate::catalog::{Expiry, Table};
use crate::changes::Stamp;
use crate::write::{Change, stage};
use crate::{Engine, Error, layout};

/// What one pass looks at.
const PASS_ENTRIES: usize = 1000;

/// When an item expires: never, if its attribute is missing or holds no time.
pub(crate) fn expires_at(item: &Item, expiry: &Expiry) -> Option<i64> {
    let seconds = item.get(&expiry.attribute)?.as_number()?.trunc_i64();
    (seconds > 0).then_some(seconds)
}

/// What a pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    pub removed: usize,
    /// The pass was full: there may be more to remove.
    pub more: bool,
}

impl Engine {
    /// Removes items that expired more than `delay` before `now`, as far as that can be relied on, up to a bound.
    pub fn reap(&self, now: UnixTime, delay: Duration) -> Result<Reaped, Error> {
        let due =
            self.settled(now).seconds().saturating_sub(i64::try_from(delay.as_secs()).unwrap_or(i64::MAX));
        // While items are still being copied, nobody else may touch them.
        let tables: Vec<_> =
            self.catalog()?.expiring().filter(|table| !table.is_being_copied()).cloned().collect();
        let mut reaped = Reaped::default();
        let mut tickets = Vec::new();
        let mut damage = None;
        for table in tables {
            let [from, to] = layout::expiring_before(table.id, due);
            let entries = self.store.snapshot().pieces(Bound::Included(&from), Bound::Excluded(&to), true);
            let mut seen = 0;
            for entry in entries.take(PASS_ENTRIES) {
                seen += 1;
                let outcome = match entry? {
                    Piece::Entry(key, _) => self.reap_entry(&table, &key, now),
                    Piece::Lost(_) => Err(Error::Damaged("some of what has expired cannot be told")
                        .about(|| format!("table {}, expiry", table.name()))),
                };
                match outcome {
                    Ok((ticket, removed)) => {
                        tickets.extend(ticket);
                        reaped.removed += usize::from(removed);
                    }
                    // What cannot be read stays, and holds up nothing else.
                    Err(error) if error.is_damage() => damage = damage.or(Some(error)),
                    Err(error) => return Err(error),
                }
            }
            reaped.more |= seen == PASS_ENTRIES;
        }
        tickets.into_iter().try_for_each(Ticket::wait)?;
        damage.map_or(Ok(reaped), Err)
    }

    /// How many items of a table expire from a moment on until another, counted up to a bound. It reads what it counts, and no
    /// item.
    pub fn expiring(
        &self,
        table: &TableName,
        from: UnixTime,
        until: UnixTime,
        most: usize,
    ) -> Result<usize, Error> {
        let table = Arc::clone(self.catalog()?.table(table)?);
        let [from, until] = [from, until].map(|moment| layout::expiry(table.id, moment.seconds(), &[]));
        let entries = self.store.snapshot().pieces(Bound::Included(&from), Bound::Excluded(&until), true);
        let mut count = 0;
        for entry in entries.take(most) {
            match entry? {
                Piece::Entry(..) => count += 1,
                Piece::Lost(_) => {}
            }
        }
        Ok(count)
    }

    fn reap_entry(
        &self,
        table: &Table,
        entry_key: &[u8],
        now: UnixTime,
    ) -> Result<(Option<Ticket>, bool), Error> {
        let catalog = self.writing()?;
        // The table may have been dropped, or its TTL switched off, since the pass began.
        let Some(table) = catalog.by_id(table.id) else { return Ok((None, false)) };
        let Some(expiry) = &table.expiry else { return Ok((None, false)) };
        let Some((expires, key)) = layout::read_expiry(table.id, entry_key) else {
            return Err(Error::Damaged("an expiry entry cannot be read"));
        };

        let seen = catalog.generation;
        let _lock = self.locks.lock(&key);
        let old = self.old(table, &key)?;
        let mut batch = Batch::default();
        let too_old = expires < now.seconds() - TTL_PAST_SECONDS_MAX;
        let due = old.as_ref().is_some_and(|old| expires_at(&old.item, expiry) == Some(expires)) && !too_old;
        if due {
            let change = Change { key, old, remains: None, new: None, update: None };
            let stamp = Stamp { expired: true, ..self.stamp(now) };
            stage(&self.store, &mut batch, table, &change, &mut Meter::default(), stamp)?;
        } else {
            // Renewed, removed, or never to expire: the entry is all that is left.
            batch.delete(entry_key.to_vec());
        }
        let ticket = self.store.submit(batch, seen)?;
        if due {
            table.metrics.expired();
        }
        Ok((Some(ticket), due))
    }
}
