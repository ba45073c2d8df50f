//! The change log: what happened to a table's items, in order, for as long as anybody may ask.
//!
//! An entry is written in one batch with its change, by the one write path, so that none can be missing or made
//! up. It says when, what kind of change it was, and whether expiry made it; it holds the item's key, and the
//! item before and after it where a stream or point-in-time recovery needs them. A table without either keeps
//! no log. A put that changes nothing leaves no entry.
//!
//! Entries are numbered in the order of their commits: whoever has read up to a number has missed none below it.
//! Their times never fall for one item, and across items only by the moment two writers need to pass each other.
//!
//! ```text
//! entry = 0x01 flags:u8 time:i64 [label:i64] length:u32 key [length:u32 old] [length:u32 new]
//! ```

use std::ops::Bound;
use std::sync::atomic::Ordering;

use larder_model::{Item, StreamView, UnixTime};
use larder_storage::{Batch, Snapshot};

use crate::catalog::{Catalog, Table};
use crate::layout::{self, TableId};
use crate::write::Change;
use crate::{Engine, Error, damage, item_bytes};

const VERSION: u8 = 1;
/// Entries that one step of trimming looks at.
const STEP_ENTRIES: usize = 1000;
/// How long a stream's entries can be read.
pub(crate) const STREAM_SECONDS: i64 = 24 * 60 * 60;
const DAY_SECONDS: i64 = 24 * 60 * 60;
/// How much longer entries are kept than recovery reaches, so that a restore that was asked for just before they
/// are forgotten still finds them.
const TRIM_SLACK_SECONDS: i64 = 60 * 60;
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

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Insert,
    Modify,
    Remove,
}

/// One entry of the log.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub number: u64,
    pub time: UnixTime,
    pub event: Event,
    pub expired: bool,
    /// The label of the stream it belongs to.
    pub stream: Option<UnixTime>,
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
    batch.append(layout::changes(table.id), bytes);
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
        let stream = if has(flag::STREAM) { Some(time().ok_or_else(damaged)?) } else { None };
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
        Ok(Self { number, time: at, event, expired: has(flag::EXPIRED), stream, key, old, new })
    }
}

/// A table's entries between two numbers, oldest first; from the other end, newest first.
pub(crate) fn entries(
    snapshot: &Snapshot,
    table: TableId,
    from: Bound<u64>,
    to: Bound<u64>,
) -> Result<impl DoubleEndedIterator<Item = Result<Entry, Error>> + use<>, Error> {
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
        Entry::read(&key, &value)
    }))
}

/// The number of a table's newest entry; zero before the first.
pub(crate) fn newest(snapshot: &Snapshot, table: TableId) -> Result<u64, Error> {
    let newest = entries(snapshot, table, Bound::Unbounded, Bound::Unbounded)?.next_back().transpose()?;
    Ok(newest.map_or(0, |entry| entry.number))
}

/// A number from which on all entries are after `moment`, and not far above the first of them.
pub(crate) fn number_after(snapshot: &Snapshot, table: TableId, moment: UnixTime) -> Result<u64, Error> {
    let later = moment.millis().saturating_add(TIME_SLACK_MILLIS);
    number_at(snapshot, table, UnixTime::from_millis(later))
}

/// A number that no entry after `moment` is below, and not far below the first of them.
pub(crate) fn number_at(snapshot: &Snapshot, table: TableId, moment: UnixTime) -> Result<u64, Error> {
    let (mut low, mut high) = (0, newest(snapshot, table)? + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let entry =
            entries(snapshot, table, Bound::Included(middle), Bound::Unbounded)?.next().transpose()?;
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
        let snapshot = self.store.snapshot();
        let mut more = false;
        let mut from = layout::all_changes().to_vec();
        let end = after(&from);
        loop {
            let first = snapshot.range(Bound::Included(&from), Bound::Excluded(&end))?.next().transpose()?;
            let Some((key, _)) = first else { return Ok(more) };
            let id = layout::change_owner(&key).ok_or(Error::Damaged("the log's key cannot be read"))?;
            from = after(&layout::changes(id));
            let catalog = self.writing()?;
            let forgotten = match catalog.by_id(id) {
                Some(table) if !table.copies.is_empty() => continue,
                Some(table) => {
                    let recovery = table
                        .recovery
                        .as_ref()
                        .map_or(0, |recovery| i64::from(recovery.days) * DAY_SECONDS + TRIM_SLACK_SECONDS);
                    now.seconds() - STREAM_SECONDS.max(recovery)
                }
                None if self.store.latest(&layout::remnant(id))?.is_some() => now.seconds() - STREAM_SECONDS,
                // It may belong to a table whose record cannot be read.
                None if !catalog.is_whole() => continue,
                None => i64::MAX,
            };
            let mut batch = Batch::default();
            let mut seen = 0;
            for entry in entries(&snapshot, id, Bound::Unbounded, Bound::Unbounded)?.take(STEP_ENTRIES) {
                let entry = entry?;
                if entry.time.seconds() >= forgotten {
                    break;
                }
                batch.delete(layout::change(id, entry.number));
                seen += 1;
            }
            if seen > 0 {
                let ticket = self.store.submit(batch, catalog.generation)?;
                drop(catalog);
                ticket.wait()?;
            }
            more |= seen == STEP_ENTRIES;
        }
    }
}

/// The first key after all of the log that begin so.
fn after(prefix: &[u8]) -> Vec<u8> {
    crate::key_bytes::after_prefix(prefix).expect("the log does not begin with FF")
}

/// The least time of a change that is made now: not below that of any other, and after every mark.
pub(crate) fn newest_time(snapshot: &Snapshot, catalog: &Catalog) -> Result<i64, Error> {
    let mut newest = i64::MIN;
    for table in catalog.all_tables() {
        let last = entries(snapshot, table.id, Bound::Unbounded, Bound::Unbounded)
            .and_then(|mut entries| entries.next_back().transpose())
            // The other tables' tell the time as well.
            .or_else(Error::unless_of_one_value)?;
        let copied = table.restored.as_ref().and_then(|restored| restored.copy?.moment.time());
        let closed = table.history.closed_streams.last().map(|stream| stream.closed);
        let recovery = table.recovery.as_ref().map(|recovery| recovery.since);
        let marks = [recovery, copied, table.history.stream_label, closed];
        let marked = marks.into_iter().flatten().map(|mark| mark.millis() + 1);
        newest = marked.chain(last.map(|entry| entry.time.millis())).fold(newest, i64::max);
    }
    Ok(newest)
}
