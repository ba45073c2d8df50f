//! A new table made from another as it was at a moment.
//!
//! First the items are copied as they are found, while writers go on; then the log is read backwards, and every
//! change after the moment is undone in the copy. It does not matter when each item was copied: the oldest change
//! after the moment says what the item was then, and an item without one has not changed since. So no snapshot
//! has to be held, the source is never locked, and a copy that was cut off goes on where it stopped.
//!
//! A step is one batch: what it copies or undoes, the index entries that follow, and how far it came. The moment
//! is a mark ([`Engine::mark`]): changes up to it were submitted before the copy was, and those after it are logged.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use larder_model::{AttributeValue, Item, UnixTime};
use larder_storage::{Batch, Generation};

use crate::capacity::Meter;
use crate::catalog::{Catalog, Table};
use crate::changes::{self, Found, Stamp};
use crate::guard::{Judge, WriteKind};
use crate::layout::{self, TableId, TreeId};
use crate::timeline::{Stretch, Timeline};
use crate::write::{Change, New, Old, stage};
use crate::{Engine, Error, item_bytes, key_bytes};

/// Bounds on one step.
const STEP_ENTRIES: usize = 1000;
const STEP_BYTES: usize = 4 << 20;

/// What a table is being copied from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub source: TableId,
    pub moment: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The source does not change.
    Now,
    /// After every change up to this time, in the stretch of the time line that begins with this number.
    Time { time: UnixTime, stretch: u64 },
}

impl Moment {
    pub(crate) fn time(self) -> Option<UnixTime> {
        match self {
            Self::Now => None,
            Self::Time { time, .. } => Some(time),
        }
    }

    pub(crate) fn undoes(self, entry: &Found, line: &Timeline) -> bool {
        match self {
            Self::Now => false,
            Self::Time { time, stretch } => {
                let Stretch { from, to } = line.stretch_from(stretch);
                entry.number >= to || entry.number >= from && entry.time > time
            }
        }
    }

    /// Whether nothing before this entry is to be undone.
    pub(crate) fn is_reached(self, entry: &Found, line: &Timeline) -> bool {
        match self {
            Self::Now => true,
            Self::Time { time, stretch } => {
                let Stretch { from, to } = line.stretch_from(stretch);
                entry.number < from || entry.number < to && !changes::may_be_after(entry.time, time)
            }
        }
    }
}

/// How far a copy came.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Progress {
    /// Items are copied; the last one's key, without the part that names the table.
    Items(Vec<u8>),
    /// Changes are undone, from this number downwards.
    Changes(u64),
}

impl Progress {
    fn write(&self) -> Vec<u8> {
        let mut record = Item::new();
        match self {
            Self::Items(after) => record.insert("items", AttributeValue::B(after.clone())),
            Self::Changes(below) => record.insert("changes", i64::try_from(*below).unwrap_or(i64::MAX)),
        };
        item_bytes::encode(&record)
    }

    fn read(bytes: &[u8]) -> Result<Self, Error> {
        let record = item_bytes::decode(bytes)?;
        match (record.get("items"), record.get("changes").and_then(AttributeValue::as_number)) {
            (Some(AttributeValue::B(after)), None) => Ok(Self::Items(after.clone())),
            (None, Some(below)) => {
                let below = below.to_i64().and_then(|below| u64::try_from(below).ok());
                below.map(Self::Changes).ok_or(Error::Damaged("the progress of a copy cannot be read"))
            }
            _ => Err(Error::Damaged("the progress of a copy cannot be read")),
        }
    }
}

/// The copies that are being made.
fn unfinished(catalog: &Catalog) -> Vec<(Arc<Table>, Copy)> {
    catalog.copied().filter_map(|table| Some((table.clone(), table.restored.as_ref()?.copy?))).collect()
}

impl Engine {
    /// Takes a copy one step further. True while there may be more.
    pub(crate) fn copy(&self, now: UnixTime) -> Result<bool, Error> {
        let seen = self.store.generation();
        let found = unfinished(&*self.catalog()?);
        let mut failed = Ok(false);
        for (target, copy) in found {
            // One that cannot go on does not hold up the others.
            match self.copy_further(&target, copy, seen, now) {
                Ok(()) => {
                    self.stuck_copies.lock().remove(&target.id);
                    return Ok(true);
                }
                Err(error) => {
                    if error.concerns_one_value() {
                        self.stuck_copies.lock().insert(target.id);
                    }
                    failed = Err(error);
                }
            }
        }
        failed
    }

    fn copy_further(&self, target: &Table, copy: Copy, seen: Generation, now: UnixTime) -> Result<(), Error> {
        let progress = match self.store.latest(&layout::copy_progress(target.id))? {
            Some(bytes) => Progress::read(&bytes)?,
            None => {
                // Changes up to the moment may still be on their way to the snapshot.
                self.store.write(Batch::default())?;
                Progress::Items(Vec::new())
            }
        };
        let step = match progress {
            Progress::Items(after) => self.copied_items(copy, &after)?,
            Progress::Changes(below) => self.undone_changes(target, copy, below)?,
        };
        match step {
            Some(step) => self.take_step(target, step, seen, &self.judge(now)),
            None => self.finish_copy(target, copy),
        }
    }

    /// Whether a table is being filled, and it goes on.
    pub(crate) fn is_filling(&self, target: &Table) -> bool {
        let is_waiting = target.is_importing && self.depot.get().is_none();
        target.is_being_copied() && !is_waiting && !self.stuck_copies.lock().contains(&target.id)
    }

    /// Gives up a copy that is deleted before it is whole, and frees its source.
    pub(crate) fn abandon_copy(&self, catalog: &mut Catalog, batch: &mut Batch, target: &Table) {
        if let Some(copy) = target.restored.as_ref().and_then(|restored| restored.copy) {
            batch.delete(layout::copy_progress(target.id));
            catalog.finish_copy(batch, target.id, copy.source);
            self.stuck_copies.lock().remove(&target.id);
        }
    }

    /// Makes one batch of what the copy's items become. The keys are without the part that names a table.
    fn take_step(
        &self,
        target: &Table,
        (items, progress): Step,
        seen: Generation,
        judge: &Judge,
    ) -> Result<(), Error> {
        let catalog = self.writing()?;
        // It may have been deleted meanwhile.
        if catalog.any_by_id(target.id).is_none() {
            return Ok(());
        }
        let mut batch = Batch::default();
        for (tail, item) in items {
            let mut key = layout::tree(target.id, TreeId::ITEMS);
            key.extend_from_slice(&tail);
            let old = self.store.latest(&key)?.map(Old::read).transpose()?;
            let new = item.map(New::from);
            if old.is_none() && new.is_none() {
                continue;
            }
            let change = Change { key, old, remains: None, new, update: None };
            let (before, after) = (change.old.as_ref(), change.new.as_ref());
            let (before, after) = (before.map(|old| &old.item), after.map(|new| &new.item));
            // Whoever judges is told; a copy is made whole all the same.
            let _ = judge.ask(target.name(), WriteKind::Restore, before, after);
            // A copy that is being made keeps no log, so nobody sees the time.
            let stamp = Stamp { time: UnixTime::from_millis(0), expired: false };
            stage(&self.store, &mut batch, target, &change, &mut Meter::default(), stamp)?;
        }
        batch.put(layout::copy_progress(target.id), progress.write());
        let ticket = self.store.submit(batch, seen)?;
        drop(catalog);
        Ok(ticket.wait()?)
    }

    fn copied_items(&self, copy: Copy, after: &[u8]) -> Result<Option<Step>, Error> {
        let snapshot = self.store.snapshot();
        let items = layout::tree(copy.source, TreeId::ITEMS);
        let end = key_bytes::after_prefix(&items).expect("a data key does not begin with FF");
        let last = [&items[..], after].concat();
        let from = if after.is_empty() { Bound::Included(&*items) } else { Bound::Excluded(&*last) };
        let mut found = Vec::new();
        let mut bytes = 0;
        for entry in snapshot.range(from, Bound::Excluded(&end))?.take(STEP_ENTRIES) {
            let (key, value) = entry?;
            bytes += value.len();
            found.push((layout::item_key_tail(&key).to_vec(), Some(item_bytes::decode(&value)?)));
            if bytes >= STEP_BYTES {
                break;
            }
        }
        let progress = match found.last() {
            Some((last, _)) => Progress::Items(last.clone()),
            None if copy.moment == Moment::Now => return Ok(None),
            // Whatever was copied is in this snapshot, and so is its entry in the log.
            None => Progress::Changes(changes::newest(&snapshot, copy.source)? + 1),
        };
        Ok(Some((found, progress)))
    }

    fn undone_changes(&self, target: &Table, copy: Copy, below: u64) -> Result<Option<Step>, Error> {
        let snapshot = self.store.snapshot();
        let line = Timeline::read(&snapshot)?;
        let entries =
            changes::entries(&snapshot, copy.source, Bound::Unbounded, Bound::Excluded(below))?.rev();
        // Of several changes to one item the oldest counts, and comes last.
        let mut before: HashMap<Vec<u8>, Option<Item>> = HashMap::new();
        let mut next = None;
        let mut bytes = 0;
        for entry in entries.take(STEP_ENTRIES) {
            let found = entry?;
            if copy.moment.is_reached(&found, &line) || bytes >= STEP_BYTES {
                break;
            }
            next = Some(found.number);
            if !copy.moment.undoes(&found, &line) {
                continue;
            }
            let entry = found.entry()?;
            if entry.old.is_none() && entry.event != crate::ops::Event::Insert {
                return Err(Error::Damaged("the log does not say what an item was before a change"));
            }
            bytes += entry.old.as_ref().map_or(0, Item::size);
            let key = target.item_key(&entry.key)?;
            before.insert(layout::item_key_tail(&key).to_vec(), entry.old);
        }
        Ok(next.map(|number| (before.into_iter().collect(), Progress::Changes(number))))
    }

    fn finish_copy(&self, target: &Table, copy: Copy) -> Result<(), Error> {
        let ((), ticket, ()) = self.change_catalog(|catalog, batch| {
            batch.delete(layout::copy_progress(target.id));
            catalog.finish_copy(batch, target.id, copy.source);
            Ok(((), ()))
        })?;
        ticket.wait()?;
        self.wake_worker();
        Ok(())
    }
}

/// What items become, and how far that is.
type Step = (Vec<(Vec<u8>, Option<Item>)>, Progress);
