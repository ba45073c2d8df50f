//! The change log: what happened to a table's items, in order, for as long as anybody may ask.
//!
//! An entry is written in one batch with its change, by the one write path, so that none can be missing or made
//! up. It says when, what kind of change it was, and whether expiry made it; it holds the item's key, and the
//! item before and after it where a stream or point-in-time recovery needs them. A table without either keeps
//! no log. A put that changes nothing leaves no entry.
//!
//! Entries are numbered in the order of their commits: whoever has read up to a number has missed none below it.
//! `timeline.rs` says what their times mean.
//!
//! What is older than anybody may ask for is trimmed, oldest first. So is what is over the store's limit of history, but
//! never what a stream may still be asked for. How far a table's log was trimmed is noted with the deletes (the floor).
//!
//! ```text
//! entry = 0x01 flags:u8 time:i64 [label:i64] length:u32 key [length:u32 old] [length:u32 new]
//! ```

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use larder_model::{Item, StreamView, UnixTime};
use larder_storage::{Batch, Snapshot, Value};

use crate::catalog::{Catalog, Table};
use crate::layout::{self, TableId};
use crate::ops::Event;
use crate::timeline::{self, Floor, Timeline};
use crate::write::Change;
use crate::{Engine, Error, damage, item_bytes};

const VERSION: u8 = 1;
const NUMBER_BYTES: usize = 8;
/// Entries that one step of trimming looks at.
const STEP_ENTRIES: usize = 1000;
/// How long a stream's entries can be read.
pub(crate) const STREAM_SECONDS: i64 = 24 * 60 * 60;
const DAY_SECONDS: i64 = 24 * 60 * 60;
/// How much longer entries are kept than recovery reaches, so that a restore that was asked for just before they
/// are forgotten still finds them.
const TRIM_SLACK_SECONDS: i64 = 60 * 60;
/// The time is noted at least so often that no mark is further ahead of it.
const MARK_AHEAD_MAX: Duration = Duration::from_secs(10 * 60);
/// By how much an entry's time can be below that of an earlier one.
const TIME_SLACK_MILLIS: i64 = 60_000;

mod flag {
    pub(super) const WAS: u8 = 1;
    pub(super) const IS: u8 = 2;
    pub(super) const EXPIRED: u8 = 4;
    pub(super) const STREAM: u8 = 8;
    pub(super) const OLD: u8 = 16;
    pub(super) const NEW: u8 = 32;
}

/// When a change is made, and whose doing it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub time: UnixTime,
    /// The item's time had come; nobody asked.
    pub expired: bool,
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Of several, the greater came later.
    pub number: u64,
    pub time: UnixTime,
    pub event: Event,
    /// The item's time had come; nobody asked.
    pub expired: bool,
    pub key: Item,
    /// The item before and after, where the log keeps it.
    pub old: Option<Item>,
    pub new: Option<Item>,
}

/// What the log keeps of every change to a table.
struct Kept {
    stream: Option<UnixTime>,
    old: bool,
    new: bool,
}

/// Nothing, if nobody can ask for it.
fn kept(table: &Table) -> Option<Kept> {
    // What a copy is filled with has been logged where it comes from.
    if table.is_being_copied() {
        return None;
    }
    let view = table.definition.stream;
    let stream = view.and(table.history.stream_label);
    // A copy goes back in time by what items were before.
    let undone = table.recovery.is_some() || !table.copies.is_empty();
    (undone || stream.is_some()).then_some(Kept {
        stream,
        old: undone || matches!(view, Some(StreamView::OldImage | StreamView::NewAndOldImages)),
        new: matches!(view, Some(StreamView::NewImage | StreamView::NewAndOldImages)),
    })
}

/// Adds the entry of a change to its batch. `new_bytes` is the item afterwards, encoded.
pub(crate) fn log(batch: &mut Batch, table: &Table, change: &Change, new_bytes: Option<&[u8]>, stamp: Stamp) {
    let Some(kept) = kept(table) else { return };
    let old_bytes = change.old.as_ref().map(|old| old.stored.as_bytes());
    // What an item was that cannot be read is not told, only that it was.
    let lost = change.remains.is_some();
    if old_bytes == new_bytes && !lost {
        return;
    }
    let any = change.new.as_ref().map(|new| &new.item).or(change.old.as_ref().map(|old| &old.item));
    let key_names = table.definition.key.attributes().map(|attribute| attribute.name.as_str());
    let key: Item = match any {
        Some(any) => key_names.filter_map(|name| Some((name, any.get(name)?.clone()))).collect(),
        None => damage::key_item(table, &change.key).unwrap_or_default(),
    };
    let (old, new) = (old_bytes.filter(|_| kept.old), new_bytes.filter(|_| kept.new));
    let flags = [
        (old_bytes.is_some() || lost, flag::WAS),
        (new_bytes.is_some(), flag::IS),
        (stamp.expired, flag::EXPIRED),
        (kept.stream.is_some(), flag::STREAM),
        (old.is_some(), flag::OLD),
        (new.is_some(), flag::NEW),
    ];
    let flags = flags.into_iter().filter(|(set, _)| *set).fold(0, |flags, (_, flag)| flags | flag);
    let mut bytes = vec![VERSION, flags];
    bytes.extend_from_slice(&stamp.time.millis().to_le_bytes());
    if let Some(label) = kept.stream {
        bytes.extend_from_slice(&label.millis().to_le_bytes());
    }
    for part in [Some(item_bytes::encode(&key).as_slice()), old, new].into_iter().flatten() {
        let length = u32::try_from(part.len()).expect("an item is at most 400 KB");
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(part);
    }
    let prefix = layout::changes(table.id);
    batch.add(layout::history(), [1, (prefix.len() + NUMBER_BYTES + bytes.len()) as i64]);
    batch.append(prefix, bytes);
}

/// An entry that is not read yet but for what is in front.
#[derive(Debug)]
pub(crate) struct Found {
    pub number: u64,
    pub time: UnixTime,
    /// The label of the stream it belongs to.
    pub stream: Option<UnixTime>,
    key: Value,
    value: Value,
}

impl Found {
    fn read(key: Value, value: Value) -> Result<Self, Error> {
        let front = || {
            let number = layout::change_number(&key)?;
            let (&[VERSION, flags], rest) = value.split_first_chunk::<2>()? else { return None };
            let (time, rest) = rest.split_first_chunk::<8>()?;
            let time = UnixTime::from_millis(i64::from_le_bytes(*time));
            let stream = if flags & flag::STREAM == 0 { None } else { Some(rest.first_chunk::<8>()?) };
            Some((number, time, stream.map(|label| UnixTime::from_millis(i64::from_le_bytes(*label)))))
        };
        let (number, time, stream) =
            front().ok_or(Error::Damaged("an entry of the change log cannot be read"))?;
        Ok(Self { number, time, stream, key, value })
    }

    /// What it takes in the log.
    pub(crate) fn bytes(&self) -> usize {
        self.key.len() + self.value.len()
    }

    /// The key of the item, and nothing else of it.
    pub(crate) fn item_key(&self) -> Result<Item, Error> {
        let front = 10 + if self.stream.is_some() { 8 } else { 0 };
        let read = || {
            let (length, rest) = self.value.get(front..)?.split_first_chunk::<4>()?;
            item_bytes::decode(rest.get(..u32::from_le_bytes(*length) as usize)?).ok()
        };
        read().ok_or(Error::Damaged("an entry of the change log cannot be read"))
    }

    pub(crate) fn entry(&self) -> Result<Entry, Error> {
        Entry::read(&self.key, &self.value)
    }
}

impl Entry {
    pub(crate) fn read(key: &[u8], bytes: &[u8]) -> Result<Self, Error> {
        let damaged = || Error::Damaged("an entry of the change log cannot be read");
        let number = layout::change_number(key).ok_or_else(damaged)?;
        let (&[version, flags], mut rest) = bytes.split_first_chunk::<2>().ok_or_else(damaged)?;
        if version != VERSION {
            return Err(damaged());
        }
        let has = |flag: u8| flags & flag != 0;
        let mut time = || {
            let (millis, after) = rest.split_first_chunk::<8>()?;
            rest = after;
            Some(UnixTime::from_millis(i64::from_le_bytes(*millis)))
        };
        let at = time().ok_or_else(damaged)?;
        if has(flag::STREAM) {
            time().ok_or_else(damaged)?;
        }
        let mut item = || {
            let (length, after) = rest.split_first_chunk::<4>()?;
            let (bytes, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            rest = after;
            item_bytes::decode(bytes).ok()
        };
        let key = item().ok_or_else(damaged)?;
        let old = if has(flag::OLD) { Some(item().ok_or_else(damaged)?) } else { None };
        let new = if has(flag::NEW) { Some(item().ok_or_else(damaged)?) } else { None };
        let event = match (has(flag::WAS), has(flag::IS)) {
            (false, true) => Event::Insert,
            (true, true) => Event::Modify,
            (true, false) => Event::Remove,
            (false, false) => return Err(damaged()),
        };
        Ok(Self { number, time: at, event, expired: has(flag::EXPIRED), key, old, new })
    }
}

/// A table's entries between two numbers, oldest first; from the other end, newest first.
pub(crate) fn entries(
    snapshot: &Snapshot,
    table: TableId,
    from: Bound<u64>,
    to: Bound<u64>,
) -> Result<impl DoubleEndedIterator<Item = Result<Found, Error>> + use<>, Error> {
    let prefix = layout::changes(table);
    let key = |number: u64| [&prefix[..], &number.to_be_bytes()].concat();
    let end = after(&prefix);
    let from = from.map(key);
    let from = if let Bound::Unbounded = from { Bound::Included(prefix.clone()) } else { from };
    let to = to.map(key);
    let to = if let Bound::Unbounded = to { Bound::Excluded(end) } else { to };
    let range = snapshot.range(from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice))?;
    Ok(range.map(|entry| {
        let (key, value) = entry?;
        Found::read(key, value)
    }))
}

/// The number of a table's newest entry; zero before the first.
pub(crate) fn newest(snapshot: &Snapshot, table: TableId) -> Result<u64, Error> {
    let newest = entries(snapshot, table, Bound::Unbounded, Bound::Unbounded)?.next_back().transpose()?;
    Ok(newest.map_or(0, |entry| entry.number))
}

/// A number from which on all entries are after `moment`, and not far above the first of them.
pub(crate) fn number_after(
    snapshot: &Snapshot,
    line: &Timeline,
    table: TableId,
    moment: UnixTime,
) -> Result<u64, Error> {
    let later = moment.millis().saturating_add(TIME_SLACK_MILLIS);
    number_at(snapshot, line, table, UnixTime::from_millis(later))
}

/// A number that no entry after `moment` is below, and not far below the first of them.
pub(crate) fn number_at(
    snapshot: &Snapshot,
    line: &Timeline,
    table: TableId,
    moment: UnixTime,
) -> Result<u64, Error> {
    let stretch = line.stretch(moment);
    let newest = newest(snapshot, table)?;
    let (mut low, mut high) = (stretch.from, stretch.to.min(newest + 1));
    while low < high {
        let middle = low + (high - low) / 2;
        let entry =
            entries(snapshot, table, Bound::Included(middle), Bound::Excluded(high))?.next().transpose()?;
        match entry {
            Some(entry) if !may_be_after(entry.time, moment) => low = entry.number + 1,
            Some(_) | None => high = middle,
        }
    }
    Ok(low)
}

/// Whether entries before one of this time can still be after `moment`.
pub(crate) fn may_be_after(time: UnixTime, moment: UnixTime) -> bool {
    time.millis().saturating_add(TIME_SLACK_MILLIS) > moment.millis()
}

impl Engine {
    /// The time of a change made now. It never falls, even if the clock does.
    pub(crate) fn stamp(&self, now: UnixTime) -> Stamp {
        let last = self.last_change_millis.fetch_max(now.millis(), Ordering::AcqRel);
        Stamp { time: UnixTime::from_millis(last.max(now.millis())), expired: false }
    }

    /// The time of a change if it were made now.
    pub(crate) fn latest(&self, now: UnixTime) -> UnixTime {
        UnixTime::from_millis(self.last_change_millis.load(Ordering::Acquire)).max(now)
    }

    /// A moment that no earlier change is after, and every later one is. Only for whoever changes the catalog:
    /// writers hold it from when they take their time until they have submitted.
    pub(crate) fn mark(&self, now: UnixTime) -> UnixTime {
        let moment = self.stamp(now).time;
        self.last_change_millis.fetch_max(moment.millis() + 1, Ordering::AcqRel);
        moment
    }

    /// Removes some entries that nobody may ask for any more. True while there may be more.
    pub(crate) fn trim_changes(&self, now: UnixTime) -> Result<bool, Error> {
        if now.millis() < self.trim_due_millis.load(Ordering::Acquire) {
            return Ok(false);
        }
        // Put back before the log is looked at: what becomes due meanwhile is not forgotten.
        self.trim_due_millis.store(i64::MAX, Ordering::Release);
        let trimmed = self.trim_all(now);
        let due = match trimmed {
            Ok((false, due)) => due,
            Ok((true, _)) | Err(_) => i64::MIN,
        };
        self.trim_due_millis.fetch_min(due, Ordering::AcqRel);
        trimmed.map(|(more, _)| more)
    }

    /// Whether there may be more to remove, and when there will be.
    fn trim_all(&self, now: UnixTime) -> Result<(bool, i64), Error> {
        let snapshot = self.store.snapshot();
        let line = Timeline::read(&snapshot)?;
        let mut more = false;
        // What is written from now on lives at least that long.
        let mut due = now.millis().saturating_add(STREAM_SECONDS * 1000);
        let mut from = layout::all_changes().to_vec();
        while let Some(id) = next_logged(&snapshot, &mut from)? {
            let Some(kept) = self.kept_seconds(id)? else { continue };
            let mut gone = Vec::new();
            for entry in entries(&snapshot, id, Bound::Unbounded, Bound::Unbounded)?.take(STEP_ENTRIES) {
                let entry = entry?;
                let moment = line.moment(entry.number, entry.time);
                if moment.seconds() >= now.seconds().saturating_sub(kept) {
                    due = due
                        .min(UnixTime::from_seconds(moment.seconds().saturating_add(kept)).millis() + 1000);
                    break;
                }
                gone.push(entry);
            }
            more |= gone.len() == STEP_ENTRIES;
            self.forget_changes(id, kept, &line, &gone)?;
        }
        Ok((more, due))
    }

    /// How long a table's entries are kept; nothing while somebody copies it, and needs them all.
    fn kept_seconds(&self, id: TableId) -> Result<Option<i64>, Error> {
        let catalog = self.catalog()?;
        Ok(match catalog.by_id(id) {
            Some(table) if !table.copies.is_empty() => None,
            Some(table) => Some(table.recovery.as_ref().map_or(STREAM_SECONDS, |recovery| {
                STREAM_SECONDS.max(i64::from(recovery.days) * DAY_SECONDS + TRIM_SLACK_SECONDS)
            })),
            None if self.store.latest(&layout::remnant(id))?.is_some() => Some(STREAM_SECONDS),
            // It may belong to a table whose record cannot be read.
            None if !catalog.is_whole() => None,
            // Nobody can ask any more.
            None => Some(i64::MIN),
        })
    }

    /// Removes a table's oldest entries, and notes that they are gone. Not if somebody needs them by now.
    fn forget_changes(
        &self,
        id: TableId,
        kept_seconds: i64,
        line: &Timeline,
        gone: &[Found],
    ) -> Result<u64, Error> {
        let Some(newest) = gone.last() else { return Ok(0) };
        let mut batch = Batch::default();
        let mut floor = Floor::latest(&self.store, id)?;
        floor.time = floor.moment(line);
        let mut bytes = 0;
        for entry in gone {
            batch.delete(layout::change(id, entry.number));
            bytes += entry.bytes();
            floor.time = floor.time.max(line.moment(entry.number, entry.time));
            if entry.stream.is_some() {
                floor.stream = entry.number;
            }
        }
        floor.number = newest.number + 1;
        batch.add(layout::history(), [-(gone.len() as i64), -(bytes as i64)]);
        if kept_seconds == i64::MIN {
            batch.delete(layout::floor(id));
        } else {
            batch.put(layout::floor(id), floor.encode());
        }
        // Held until the deletes are submitted: nobody begins to copy the table in between.
        let catalog = self.writing()?;
        if catalog.by_id(id).is_some_and(|table| !table.copies.is_empty()) {
            return Ok(0);
        }
        let ticket = self.store.submit(batch, catalog.generation)?;
        self.time.trimmed();
        drop(catalog);
        ticket.wait()?;
        Ok(bytes as u64)
    }

    /// Removes the oldest entries while the log is over its limit, but none that a stream may be asked for. True while
    /// there is more to remove.
    pub(crate) fn cut_history(&self, now: UnixTime) -> Result<bool, Error> {
        let limit = self.history.limit();
        let snapshot = self.store.snapshot();
        let [_, bytes] = timeline::history(&snapshot)?;
        let Some(excess) = u64::try_from(bytes).ok().and_then(|bytes| bytes.checked_sub(limit)) else {
            return Ok(false);
        };
        if excess == 0 {
            return Ok(false);
        }
        let line = Timeline::read(&snapshot)?;
        let readable = now.seconds().saturating_sub(STREAM_SECONDS);
        let may_go = |entry: &Found| {
            entry.stream.is_none() || line.moment(entry.number, entry.time).seconds() < readable
        };
        // The table with the oldest entry that may go, and the next oldest.
        let mut oldest: Vec<(u64, TableId, i64)> = Vec::new();
        let mut from = layout::all_changes().to_vec();
        while let Some(id) = next_logged(&snapshot, &mut from)? {
            let first = entries(&snapshot, id, Bound::Unbounded, Bound::Unbounded)?.next().transpose()?;
            if let Some(first) = first.filter(may_go)
                && let Some(kept) = self.kept_seconds(id)?
            {
                oldest.push((first.number, id, kept));
                oldest.sort_unstable();
                oldest.truncate(2);
            }
        }
        let Some((_, id, kept)) = oldest.first().copied() else { return Ok(false) };
        let until = oldest.get(1).map_or(u64::MAX, |(number, ..)| *number);
        let mut gone = Vec::new();
        let mut freed = 0;
        for entry in entries(&snapshot, id, Bound::Unbounded, Bound::Excluded(until))?.take(STEP_ENTRIES) {
            let entry = entry?;
            if freed >= excess || !may_go(&entry) {
                break;
            }
            freed += entry.bytes() as u64;
            gone.push(entry);
        }
        let cut = self.forget_changes(id, kept, &line, &gone)?;
        self.history.note_cut(cut);
        Ok(cut > 0)
    }
}

/// The next table that has entries in the log, and where to look for the one after it.
fn next_logged(snapshot: &Snapshot, from: &mut Vec<u8>) -> Result<Option<TableId>, Error> {
    let end = after(&layout::all_changes());
    let first = snapshot.range(Bound::Included(from), Bound::Excluded(&end))?.next().transpose()?;
    let Some((key, _)) = first else { return Ok(None) };
    let id = layout::change_owner(&key).ok_or(Error::Damaged("the log's key cannot be read"))?;
    *from = after(&layout::changes(id));
    Ok(Some(id))
}

/// How much history a store keeps.
#[derive(Debug)]
pub(crate) struct History {
    limit: AtomicU64,
    cut: AtomicU64,
    /// What was cut and not told yet.
    untold: AtomicU64,
}

impl Default for History {
    fn default() -> Self {
        Self { limit: AtomicU64::new(u64::MAX), cut: AtomicU64::new(0), untold: AtomicU64::new(0) }
    }
}

impl History {
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Bytes that were removed although they were in somebody's window.
    pub(crate) fn cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }

    /// The same, since this was last asked.
    pub(crate) fn take_untold(&self) -> u64 {
        self.untold.swap(0, Ordering::Relaxed)
    }

    fn note_cut(&self, bytes: u64) {
        self.cut.fetch_add(bytes, Ordering::Relaxed);
        self.untold.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Engine {
    /// Keeps no more than so many bytes of history: the changes that recovery goes back by. The oldest go first, and
    /// what can be restored begins later; what streams may be asked for stays.
    pub fn limit_history(&self, bytes: u64) {
        self.history.limit.store(bytes, Ordering::Relaxed);
    }
}

/// The first key after all of the log that begin so.
fn after(prefix: &[u8]) -> Vec<u8> {
    crate::key_bytes::after_prefix(prefix).expect("the log does not begin with FF")
}

/// The least time of a change that is made now: not below that of any other, and after every mark.
pub(crate) fn newest_time(
    snapshot: &Snapshot,
    catalog: &Catalog,
    noted: Option<UnixTime>,
) -> Result<i64, Error> {
    let line = Timeline::read(snapshot)?;
    // A mark has no number: one that is far ahead of what the clock said last was made before it was set back.
    let is_told =
        |mark: &UnixTime| line.newest() == 0 || noted.is_some_and(|noted| *mark < noted.plus(MARK_AHEAD_MAX));
    let mut newest = noted.map_or(i64::MIN, UnixTime::millis);
    for table in catalog.all_tables() {
        let last = entries(snapshot, table.id, Bound::Unbounded, Bound::Unbounded)
            .and_then(|mut entries| entries.next_back().transpose())
            // The other tables' tell the time as well.
            .or_else(Error::unless_of_one_value)?;
        let copied = table.restored.as_ref().and_then(|restored| restored.copy?.moment.time());
        let closed = table.history.closed_streams.last().map(|stream| stream.closed);
        let recovery = table.recovery.as_ref().map(|recovery| recovery.since);
        let marks = [recovery, copied, table.history.stream_label, closed];
        let marked = marks.into_iter().flatten().filter(is_told).map(|mark| mark.millis() + 1);
        let last = last.map(|entry| line.moment(entry.number, entry.time).millis());
        newest = marked.chain(last).fold(newest, i64::max);
    }
    Ok(newest)
}
