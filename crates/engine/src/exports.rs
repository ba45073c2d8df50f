//! Exports: a table as it was at a moment, or what became of its items between two, written to a depot.
//!
//! An export of a table keeps the table's items as a backup does, hidden, and writes them out once it has them all
//! (`copy.rs`). An export of changes keeps a line for each item that the log has a change of: what the item was before the
//! first change since the one moment, and what it was at the other. The lines are made in three passes, each a step at a
//! time: of the log forward, for the items that were changed; of those items as they are found; and of the log backward,
//! undoing what came after, as a copy does.
//!
//! Promises:
//! - What is exported is of its moments, whatever is written meanwhile.
//! - An export that was cut off goes on; what was written of it begins anew, and is in its place whole or not at all.
//! - What it keeps is gone when it is over, however it ends, and the log of its table is free again.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use larder_model::{ApiError, Arn, AttributeValue, Item, Space, UnixTime};
use larder_storage::{Batch, Generation, Ticket};

use crate::backup;
use crate::catalog::{Backup, Catalog};
use crate::changes;
use crate::copy::{Copy, Moment};
use crate::depot::{Depot, DepotError, ExportWriter, ExportWritten, ExportedChange};
use crate::layout::{self, TableId, TreeId};
use crate::ops::{
    DescribeExport, Event, ExportAsked, ExportDescription, ExportTableToPointInTime, ExportView, Exported,
    ListExports, ListExportsOutput, TaskStatus,
};
use crate::timeline::Timeline;
use crate::{Engine, Error, item_bytes, key_bytes, record, twice};

/// Bounds on one step.
const STEP_ENTRIES: usize = 1000;
const STEP_BYTES: usize = 4 << 20;
/// Exports in one answer of ListExports.
const LIST_EXPORTS_MAX: usize = 25;
/// Exports that may go on at once.
const EXPORTS_MAX: usize = 300;
/// How long a token stands for its export, and how long an export is remembered after its end.
pub(crate) const TOKEN_MILLIS: i64 = 8 * 60 * 60 * 1000;
pub(crate) const REMEMBERED_MILLIS: i64 = 90 * 24 * 60 * 60 * 1000;
/// How far apart the moments of an export of changes may be.
const WINDOW_MILLIS: [i64; 2] = [15 * 60 * 1000, 24 * 60 * 60 * 1000];
/// How often an export is tried again that met a change of what is left of the log.
const TRIES_MAX: usize = 20;

/// An export, and what it keeps while it goes on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Export {
    pub description: ExportDescription,
    /// What was asked for, to tell two requests with one token apart.
    pub asked: String,
    /// The backup that keeps its items or lines.
    pub kept: Option<String>,
    pub source: TableId,
    /// The stretches of the time line that its moments are of.
    pub stretches: [u64; 2],
}

impl Export {
    pub(crate) fn id(&self) -> &str {
        &self.description.id
    }

    fn arn(&self) -> String {
        Arn::export(&self.description.table, self.id()).to_string()
    }
}

/// What of an export is written by this process.
#[derive(Debug, Default)]
pub(crate) struct Writing(Option<Written>);

#[derive(Debug)]
struct Written {
    export: String,
    writer: Box<dyn ExportWriter>,
    /// The last key that was written, without the part that names the table.
    after: Vec<u8>,
}

/// How far an export of changes is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Progress {
    /// Items that were changed are noted, below this number.
    Changed(u64),
    /// Items are looked at as they are; the last one's key.
    Items(Vec<u8>),
    /// What came after is undone, from this number downwards.
    After(u64),
    /// The lines are right.
    Lines,
}

impl Progress {
    fn write(&self) -> Vec<u8> {
        let mut record = Item::new();
        let number = |number: u64| AttributeValue::from(number.cast_signed());
        match self {
            Self::Changed(below) => drop(record.insert("changed", number(*below))),
            Self::Items(after) => drop(record.insert("items", AttributeValue::B(after.clone()))),
            Self::After(below) => drop(record.insert("after", number(*below))),
            Self::Lines => drop(record.insert("lines", true)),
        }
        item_bytes::encode(&record)
    }

    fn read(bytes: &[u8]) -> Result<Self, Error> {
        let record = item_bytes::decode(bytes)?;
        let number = |name| Some(record.get(name)?.as_number()?.to_i64()?.cast_unsigned());
        let read = || match record.get("items") {
            Some(AttributeValue::B(after)) => Some(Self::Items(after.clone())),
            _ if record.get("lines").is_some() => Some(Self::Lines),
            _ => number("changed").map(Self::Changed).or_else(|| number("after").map(Self::After)),
        };
        read().ok_or(Error::Damaged("the progress of an export cannot be read"))
    }
}

/// What became of an item, as an export of changes keeps it.
fn write_line(line: &ExportedChange) -> Vec<u8> {
    let mut record = Item::new();
    record.insert("time", line.time.millis());
    record.insert("key", AttributeValue::M(line.key.clone()));
    for (name, image) in [("old", &line.old), ("new", &line.new)] {
        if let Some(image) = image {
            record.insert(name, AttributeValue::M(image.clone()));
        }
    }
    item_bytes::encode(&record)
}

fn read_line(bytes: &[u8]) -> Result<ExportedChange, Error> {
    let record = item_bytes::decode(bytes)?;
    let image = |name| match record.get(name) {
        Some(AttributeValue::M(image)) => Some(image.clone()),
        _ => None,
    };
    let read = || {
        let time = UnixTime::from_millis(record.get("time")?.as_number()?.to_i64()?);
        Some(ExportedChange { time, key: image("key")?, old: image("old"), new: image("new") })
    };
    read().ok_or(Error::Damaged("a line of an export cannot be read"))
}

impl Engine {
    pub async fn export_table_to_point_in_time(
        &self,
        request: ExportTableToPointInTime,
        now: UnixTime,
    ) -> Result<ExportDescription, Error> {
        self.check_depot()?;
        let mut tries = 0;
        let (ticket, description) = loop {
            tries += 1;
            match self.begin_export(&request, now) {
                // Something was trimmed just then.
                Err(Error::Api(ApiError::Throttled)) if tries < TRIES_MAX => {}
                begun => break begun?,
            }
        };
        ticket.await?;
        self.wake_worker();
        Ok(description)
    }

    fn begin_export(
        &self,
        request: &ExportTableToPointInTime,
        now: UnixTime,
    ) -> Result<(Ticket, ExportDescription), Error> {
        let past = self.past()?;
        let (known, floor) = self.recoverable(&request.table)?;
        let asked = format!("{:?}", (&request.table, &request.place, &request.encryption, &request.what));
        let ((), ticket, description) = self.change_catalog(|catalog, batch| {
            let name = &request.table;
            if let Some(export) = request.token.as_ref().and_then(|token| of_token(catalog, token, now)) {
                if export.asked != asked {
                    return Err(ApiError::ExportConflict.into());
                }
                return Ok(((), export.description.clone()));
            }
            let source = catalog.find(name)?.ok_or_else(|| ApiError::TableNotFound(name.clone()))?.clone();
            let recovery = source
                .recovery
                .as_ref()
                .ok_or_else(|| ApiError::PointInTimeRecoveryUnavailable(name.clone()))?;
            if source.id != known.id || !past.has_line(self) || !past.has_floors(self) {
                return Err(ApiError::Throttled.into());
            }
            if going_on(catalog).count() >= EXPORTS_MAX {
                return Err(ApiError::LimitExceeded(format!(
                    "Subscriber limit exceeded: There is a limit of {EXPORTS_MAX} concurrent exports"
                ))
                .into());
            }
            let latest = self.latest(now);
            let window = [recovery.earliest(latest, floor), latest];
            let (what, moments) = moments(&request.what, window)?;
            if let Some((from, to)) = moments.into_iter().find_map(|moment| past.line.unsure(moment)) {
                return Err(ApiError::RestoreTimeUncertain { from, to }.into());
            }
            let stretches = moments.map(|moment| past.line.stretch(moment).from);
            let started = self.mark(now);
            let id = self.next_table_id(batch)?;
            let copy = match what {
                Exported::Table { at } => {
                    Some(Copy { source: source.id, moment: Moment::Time { time: at, stretch: stretches[1] } })
                }
                Exported::Changes { .. } => None,
            };
            let backup = Backup::for_export(&source, id, started, copy);
            let description = ExportDescription {
                table: name.clone(),
                id: backup.id.clone(),
                status: TaskStatus::InProgress,
                started,
                ended: None,
                manifest: None,
                table_id: source.history.uuid,
                token: request.token.clone(),
                place: request.place.clone(),
                encryption: request.encryption.clone(),
                bytes: 0,
                items: 0,
                what,
            };
            let kept = Some(backup.id.clone());
            let export =
                Export { description: description.clone(), asked, kept, source: source.id, stretches };
            backup::put_backup(batch, &backup);
            catalog.insert_backup(Arc::new(backup));
            // Until it is over the log of the table is kept.
            catalog.change(batch, source.id, |table| table.copies.push(id));
            put_export(batch, &export);
            catalog.insert_export(Arc::new(export));
            Ok(((), description))
        })?;
        Ok((ticket, description))
    }

    pub fn describe_export(&self, request: &DescribeExport) -> Result<ExportDescription, Error> {
        let catalog = self.catalog()?;
        let found = catalog.export(id_of(&request.arn)).filter(|export| export.arn() == request.arn);
        let export = found.ok_or_else(|| ApiError::ExportNotFound(request.arn.clone()))?;
        Ok(export.description.clone())
    }

    pub(crate) fn list_exports_in(
        &self,
        space: &Space,
        request: &ListExports,
    ) -> Result<ListExportsOutput, Error> {
        let limit = request.limit.unwrap_or(LIST_EXPORTS_MAX).min(LIST_EXPORTS_MAX);
        let catalog = self.catalog()?;
        // A list is of one space, whatever table it is to be of: nobody was asked about others.
        let mut found = catalog.exports_after(request.start.as_deref()).filter(|export| {
            let table = &export.description.table;
            table.is_in(space) && request.table.as_ref().is_none_or(|asked| asked == table)
        });
        let exports: Vec<_> = found.by_ref().take(limit).map(|export| export.description.clone()).collect();
        let last = found.next().and(exports.last().map(|export| export.id.clone()));
        Ok(ListExportsOutput { exports, last })
    }

    /// Takes an export one step further. True while there may be more.
    pub(crate) fn export(&self, now: UnixTime) -> Result<bool, Error> {
        let Some(depot) = self.depot.get() else { return Ok(false) };
        let mut writing = self.writing_export.lock();
        let begun = writing.0.as_ref().map(|written| written.export.clone());
        let mut exports: Vec<Arc<Export>> = going_on(&*self.catalog()?).cloned().collect();
        // What is half written comes first, as it would have to begin anew.
        exports.sort_by_key(|export| begun.as_deref() != Some(export.id()));
        let mut failed = Ok(false);
        for export in exports {
            // One that cannot go on does not hold up the others.
            match self.export_further(&**depot, &export, &mut writing, now) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) if error.is_damage() => {
                    writing.0 = None;
                    let told = DepotError::new("DamagedTable", error.to_string());
                    self.finish_export(&export, Err(told), now)?;
                    failed = Err(error);
                }
                Err(error) => return Err(error),
            }
        }
        failed
    }

    fn export_further(
        &self,
        depot: &dyn Depot,
        export: &Export,
        writing: &mut Writing,
        now: UnixTime,
    ) -> Result<bool, Error> {
        let kept = export.kept.as_deref().and_then(|id| self.catalog().ok()?.backup(id).cloned());
        let Some(backup) = kept else {
            let lost = DepotError::new("Lost", "what it kept is gone");
            return self.finish_export(export, Err(lost), now).map(|()| true);
        };
        let kept = backup.items.id;
        let is_ready = match export.description.what {
            Exported::Table { .. } => {
                if backup.items.is_being_copied() && !self.is_filling(&backup.items) {
                    let stuck = DepotError::new("DamagedTable", "the table cannot be read through");
                    return self.finish_export(export, Err(stuck), now).map(|()| true);
                }
                !backup.items.is_being_copied()
            }
            Exported::Changes { from, to, .. } => {
                let [from_stretch, to_stretch] = export.stretches;
                let from = before(from, from_stretch);
                let to = before(to, to_stretch);
                if self.gather_changes(export.source, kept, [from, to])? {
                    return Ok(true);
                }
                true
            }
        };
        if !is_ready {
            return Ok(false);
        }
        match self.write_export(depot, export, kept, writing, now)? {
            Ok(None) => Ok(true),
            Ok(Some(written)) => self.finish_export(export, Ok(written), now).map(|()| true),
            Err(error) => {
                writing.0 = None;
                self.finish_export(export, Err(error), now).map(|()| true)
            }
        }
    }

    /// Writes some of what is kept, and says what was written when that is all.
    fn write_export(
        &self,
        depot: &dyn Depot,
        export: &Export,
        kept: TableId,
        writing: &mut Writing,
        now: UnixTime,
    ) -> Result<Result<Option<ExportWritten>, DepotError>, Error> {
        let begun = writing.0.take().filter(|written| written.export == export.id());
        let mut written = match begun {
            Some(written) => written,
            None => match depot.export(&export.description) {
                Ok(writer) => Written { export: export.id().to_owned(), writer, after: Vec::new() },
                Err(error) => return Ok(Err(error)),
            },
        };
        let mut bytes = 0;
        let mut is_over = true;
        for entry in self.kept_after(kept, &written.after)?.take(STEP_ENTRIES) {
            let (key, value) = entry?;
            let wrote = match export.description.what {
                Exported::Table { .. } => written.writer.item(&item_bytes::decode(&value)?),
                Exported::Changes { view, .. } => {
                    let mut line = read_line(&value)?;
                    let is_nothing = line.old.is_none() && line.new.is_none();
                    if view == ExportView::New {
                        line.old = None;
                    }
                    // What came and went between the two moments was never there.
                    if is_nothing { Ok(()) } else { written.writer.change(&line) }
                }
            };
            if let Err(error) = wrote {
                return Ok(Err(error));
            }
            written.after = layout::item_key_tail(&key).to_vec();
            is_over = false;
            bytes += value.len();
            if bytes >= STEP_BYTES {
                break;
            }
        }
        if is_over {
            return Ok(written.writer.finish(now).map(Some));
        }
        writing.0 = Some(written);
        Ok(Ok(None))
    }

    /// What an export keeps, after a key.
    fn kept_after(&self, kept: TableId, after: &[u8]) -> Result<larder_storage::Range, Error> {
        let prefix = layout::tree(kept, TreeId::ITEMS);
        let end = key_bytes::after_prefix(&prefix).expect("a data key does not begin with FF");
        let last = [&prefix[..], after].concat();
        let from = if after.is_empty() { Bound::Included(&*prefix) } else { Bound::Excluded(&*last) };
        Ok(self.store.snapshot().range(from, Bound::Excluded(&end))?)
    }

    /// Makes the lines of an export of changes, a step at a time. False once they are right.
    fn gather_changes(&self, source: TableId, kept: TableId, window: [Moment; 2]) -> Result<bool, Error> {
        let seen = self.store.generation();
        let progress = match self.store.latest(&layout::copy_progress(kept))? {
            Some(bytes) => Progress::read(&bytes)?,
            None => {
                // Changes up to the moment may still be on their way to the snapshot.
                self.store.write(Batch::default())?;
                Progress::Changed(0)
            }
        };
        let (lines, progress) = match progress {
            Progress::Changed(below) => self.changed_items(source, kept, below, window)?,
            Progress::Items(after) => self.items_now(source, kept, &after)?,
            Progress::After(below) => self.items_then(source, kept, below, window[1])?,
            Progress::Lines => return Ok(false),
        };
        self.keep_lines(kept, lines, &progress, seen)?;
        Ok(true)
    }

    fn keep_lines(
        &self,
        kept: TableId,
        lines: HashMap<Vec<u8>, ExportedChange>,
        progress: &Progress,
        seen: Generation,
    ) -> Result<(), Error> {
        let catalog = self.writing()?;
        // It may be over meanwhile.
        if catalog.any_by_id(kept).is_none() {
            return Ok(());
        }
        let mut batch = Batch::default();
        for (tail, line) in lines {
            batch.put([&layout::tree(kept, TreeId::ITEMS)[..], &tail].concat(), write_line(&line));
        }
        batch.put(layout::copy_progress(kept), progress.write());
        let ticket = self.store.submit(batch, seen)?;
        drop(catalog);
        Ok(ticket.wait()?)
    }

    /// Notes the items that were changed in the window, and what they were before.
    fn changed_items(
        &self,
        source: TableId,
        kept: TableId,
        below: u64,
        [from, to]: [Moment; 2],
    ) -> Result<Lines, Error> {
        let snapshot = self.store.snapshot();
        let line = Timeline::read(&snapshot)?;
        let (Some(begin), Some(end)) = (from.time(), to.time()) else {
            return Err(Error::Damaged("an export of changes has no moments"));
        };
        let begin = below.max(changes::number_at(&snapshot, &line, source, begin)?);
        let end = changes::number_after(&snapshot, &line, source, end)?;
        let table = self.catalog()?.by_id(source).cloned();
        let table = table.ok_or(Error::Damaged("the table of an export is gone"))?;
        let (mut lines, mut next, mut bytes) = (HashMap::new(), None, 0);
        if begin < end {
            let entries = changes::entries(&snapshot, source, Bound::Included(begin), Bound::Excluded(end))?;
            for found in entries.take(STEP_ENTRIES) {
                let found = found?;
                next = Some(found.number + 1);
                if !from.undoes(&found, &line) || to.undoes(&found, &line) {
                    continue;
                }
                let entry = found.entry()?;
                if entry.old.is_none() && entry.event != Event::Insert {
                    return Err(Error::Damaged("the log does not say what an item was before a change"));
                }
                bytes += entry.old.as_ref().map_or(0, Item::size);
                let tail = layout::item_key_tail(&table.item_key(&entry.key)?).to_vec();
                let known = match lines.remove(&tail) {
                    Some(known) => Some(known),
                    None => {
                        let key = [&layout::tree(kept, TreeId::ITEMS)[..], &tail].concat();
                        snapshot.get(&key)?.map(|bytes| read_line(&bytes)).transpose()?
                    }
                };
                let known = known.unwrap_or(ExportedChange {
                    time: entry.time,
                    key: entry.key,
                    old: entry.old,
                    new: None,
                });
                lines.insert(tail, ExportedChange { time: known.time.max(entry.time), ..known });
                if bytes >= STEP_BYTES {
                    break;
                }
            }
        }
        Ok((lines, next.map_or(Progress::Items(Vec::new()), Progress::Changed)))
    }

    /// Notes what some of the items are.
    fn items_now(&self, source: TableId, kept: TableId, after: &[u8]) -> Result<Lines, Error> {
        let snapshot = self.store.snapshot();
        let (mut lines, mut last, mut bytes) = (HashMap::new(), None, 0);
        for entry in self.kept_after(kept, after)?.take(STEP_ENTRIES) {
            let (key, value) = entry?;
            let tail = layout::item_key_tail(&key).to_vec();
            let item = snapshot.get(&[&layout::tree(source, TreeId::ITEMS)[..], &tail].concat())?;
            let new = item.map(|bytes| item_bytes::decode(&bytes)).transpose()?;
            bytes += new.as_ref().map_or(0, Item::size);
            lines.insert(tail.clone(), ExportedChange { new, ..read_line(&value)? });
            last = Some(tail);
            if bytes >= STEP_BYTES {
                break;
            }
        }
        let progress = match last {
            Some(last) => Progress::Items(last),
            // Whatever was looked at is in this snapshot, and so is its entry in the log.
            None => Progress::After(changes::newest(&self.store.snapshot(), source)? + 1),
        };
        Ok((lines, progress))
    }

    /// Undoes in the lines what came after the window.
    fn items_then(&self, source: TableId, kept: TableId, below: u64, to: Moment) -> Result<Lines, Error> {
        let snapshot = self.store.snapshot();
        let line = Timeline::read(&snapshot)?;
        let table = self.catalog()?.by_id(source).cloned();
        let table = table.ok_or(Error::Damaged("the table of an export is gone"))?;
        // Of several changes to one item the oldest counts, and comes last.
        let (mut lines, mut next, mut bytes) = (HashMap::new(), None, 0);
        let entries = changes::entries(&snapshot, source, Bound::Unbounded, Bound::Excluded(below))?;
        for found in entries.rev().take(STEP_ENTRIES) {
            let found = found?;
            if to.is_reached(&found, &line) || bytes >= STEP_BYTES {
                break;
            }
            next = Some(found.number);
            if !to.undoes(&found, &line) {
                continue;
            }
            let entry = found.entry()?;
            let tail = layout::item_key_tail(&table.item_key(&entry.key)?).to_vec();
            let known = snapshot.get(&[&layout::tree(kept, TreeId::ITEMS)[..], &tail].concat())?;
            let Some(known) = known else { continue };
            if entry.old.is_none() && entry.event != Event::Insert {
                return Err(Error::Damaged("the log does not say what an item was before a change"));
            }
            bytes += entry.old.as_ref().map_or(0, Item::size);
            lines.insert(tail, ExportedChange { new: entry.old, ..read_line(&known)? });
        }
        Ok((lines, next.map_or(Progress::Lines, Progress::After)))
    }

    /// Ends an export, and lets go of what it kept.
    fn finish_export(
        &self,
        export: &Export,
        outcome: Result<ExportWritten, DepotError>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let ((), ticket, ()) = self.change_catalog(|catalog, batch| {
            let mut ended = export.clone();
            let description = &mut ended.description;
            description.ended = Some(now.max(description.started));
            match outcome {
                Ok(written) => {
                    description.status = TaskStatus::Completed;
                    (description.items, description.bytes) = (written.items, written.bytes);
                    description.manifest = Some(written.manifest);
                }
                Err(DepotError { code, message }) => {
                    description.status = TaskStatus::Failed { code, message };
                }
            }
            let kept = ended.kept.take().and_then(|id| catalog.backup(&id).cloned());
            if let Some(backup) = kept {
                self.abandon_copy(catalog, batch, &backup.items);
                batch.delete(layout::copy_progress(backup.items.id));
                catalog.change(batch, export.source, |table| {
                    table.copies.retain(|copy| *copy != backup.items.id);
                });
                backup::remove(catalog, batch, &backup);
            }
            put_export(batch, &ended);
            catalog.insert_export(Arc::new(ended));
            Ok(((), ()))
        })?;
        ticket.wait()?;
        self.wake_worker();
        Ok(())
    }

    /// Forgets exports and imports that ended long ago. True if there were any.
    pub(crate) fn forget_tasks(&self, now: UnixTime) -> Result<bool, Error> {
        let is_old = |ended: Option<UnixTime>| {
            ended.is_some_and(|ended| ended.millis().saturating_add(REMEMBERED_MILLIS) < now.millis())
        };
        let old = |catalog: &Catalog| {
            let exports = catalog.exports_after(None).filter(|export| is_old(export.description.ended));
            let imports = catalog.imports_after(None).filter(|import| is_old(import.description.ended));
            let exports: Vec<String> = exports.map(|export| export.id().to_owned()).collect();
            let imports: Vec<String> = imports.map(|import| import.id().to_owned()).collect();
            [exports, imports]
        };
        if old(&*self.catalog()?).iter().all(Vec::is_empty) {
            return Ok(false);
        }
        let ((), ticket, ()) = self.change_catalog(|catalog, batch| {
            let [exports, imports] = old(catalog);
            for id in exports {
                twice::delete(batch, layout::export(&id));
                catalog.remove_export(&id);
            }
            for id in imports {
                twice::delete(batch, layout::import(&id));
                catalog.remove_import(&id);
            }
            Ok(((), ()))
        })?;
        ticket.wait()?;
        Ok(true)
    }
}

/// Lines, and how far they are.
type Lines = (HashMap<Vec<u8>, ExportedChange>, Progress);

/// After every change before a moment.
fn before(moment: UnixTime, stretch: u64) -> Moment {
    Moment::Time { time: UnixTime::from_millis(moment.millis().saturating_sub(1)), stretch }
}

fn going_on(catalog: &Catalog) -> impl Iterator<Item = &Arc<Export>> {
    catalog.exports_after(None).filter(|export| export.description.status == TaskStatus::InProgress)
}

/// The export that a token stands for.
fn of_token<'a>(catalog: &'a Catalog, token: &str, now: UnixTime) -> Option<&'a Arc<Export>> {
    catalog.exports_after(None).find(|export| {
        let description = &export.description;
        let ended = description.ended.unwrap_or(now).millis().saturating_add(TOKEN_MILLIS);
        description.token.as_deref() == Some(token) && ended >= now.millis()
    })
}

/// The moments that are meant, if they are within those that can be had, the first and the last.
fn moments(asked: &ExportAsked, window: [UnixTime; 2]) -> Result<(Exported, [UnixTime; 2]), Error> {
    let [earliest, latest] = window;
    let outside = |name: &str| {
        let message = format!("{name} is outside of the point in time recovery window of the table");
        Err(ApiError::InvalidExportTime(message).into())
    };
    let has = |moment: UnixTime| earliest <= moment && moment <= latest;
    match *asked {
        ExportAsked::Table { at } => {
            let at = at.unwrap_or(latest);
            if has(at) { Ok((Exported::Table { at }, [at, at])) } else { outside("ExportTime") }
        }
        ExportAsked::Changes { from, to, view } => {
            let to = to.unwrap_or(latest);
            if !has(from) {
                return outside("ExportFromTime");
            }
            if !has(to) {
                return outside("ExportToTime");
            }
            let [least, most] = WINDOW_MILLIS;
            let apart = to.millis() - from.millis();
            if apart < least || apart > most {
                return Err(Error::validation(
                    "The difference between ExportFromTime and ExportToTime must be at least 15 minutes and at most 24 \
                     hours",
                ));
            }
            Ok((Exported::Changes { from, to, view }, [from, to]))
        }
    }
}

/// What an ARN ends with.
pub(crate) fn id_of(arn: &str) -> &str {
    arn.rsplit_once('/').map_or(arn, |(_, id)| id)
}

fn put_export(batch: &mut Batch, export: &Export) {
    twice::put(batch, layout::export(export.id()), item_bytes::encode(&record::write_export(export)));
}
