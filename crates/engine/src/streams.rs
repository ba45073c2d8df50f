//! Streams: the change log as a client reads it.
//!
//! A stream is the part of a table's log that was written between two moments: when it was switched on, which is
//! its label, and when it was switched off. It has one shard, open as long as the stream is, unless it is divided
//! (`shards.rs`). Its records can be read for 24 hours, and the stream itself, and each of its shards, for 24 hours after it
//! was closed; a table that is deleted leaves its record behind for that long.
//!
//! Everything is read from one snapshot, the table's record too. So a stream or shard that is found closed has all its
//! records in that snapshot, and an iterator ends only after the last of them.
//!
//! Promises:
//! - A reader who goes from iterator to iterator gets every record once, in the order of their commits.
//! - Iterators need no memory here: they survive a restart, and expire after 15 minutes.
//! - Records that were lost to a reader's slowness are an error, not a gap.
//! - What can be read is decided by what can be relied on of the time (`Engine::keep_time`): a clock that jumps hides nothing.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use larder_model::limits::{STREAM_PAGE_BYTES_MAX, STREAM_PAGE_RECORDS_MAX};
use larder_model::{ApiError, Arn, Item, Space, StreamView, UnixTime};
use larder_storage::{Batch, Snapshot};

use crate::catalog::{ClosedStream, History, Table};
use crate::changes::{self, Entry, Found, STREAM_SECONDS};
use crate::layout::{self, TableId};
use crate::ops::{
    self, DescribeStream, GetRecords, GetRecordsOutput, GetShardIterator, ListStreams, ListStreamsOutput,
    ShardIterator, ShardPosition, ShardStart, StreamDescription, StreamId, StreamRecord,
};
use crate::shards::{self, Shard};
use crate::timeline::{Floor, Timeline};
use crate::{Engine, Error, item_bytes, key_bytes, record, twice};

const LIST_STREAMS_MAX: usize = 100;
/// Shards in one answer of DescribeStream.
const SHARDS_MAX: usize = 100;
const ITERATOR_LIFE: Duration = Duration::from_secs(15 * 60);
/// Entries that one page looks at; those of no stream, or another, are passed over.
const PAGE_ENTRIES: usize = 10_000;
/// Bytes of the log that one page passes over without handing them out.
const PAGE_PASSED_BYTES: usize = 16 << 20;
/// Streams of a table that are remembered after they were switched off.
const CLOSED_STREAMS_MAX: usize = 100;

impl Engine {
    pub fn list_streams(&self, request: &ListStreams, now: UnixTime) -> Result<ListStreamsOutput, Error> {
        self.list_streams_in(&Space::default(), request, now)
    }

    pub(crate) fn list_streams_in(
        &self,
        space: &Space,
        request: &ListStreams,
        now: UnixTime,
    ) -> Result<ListStreamsOutput, Error> {
        let now = self.settled(now);
        let limit = request.limit.unwrap_or(LIST_STREAMS_MAX).min(LIST_STREAMS_MAX);
        let snapshot = self.store.snapshot();
        let mut found = BTreeSet::new();
        for prefix in [layout::records(), layout::remnants()] {
            for table in tables(&snapshot, &prefix)? {
                let table = table?;
                let name = table.name();
                // A list is of one space, whatever table it is to be of: nobody was asked about others.
                if !name.is_in(space) || request.table.as_ref().is_some_and(|wanted| wanted != name) {
                    continue;
                }
                let ids = streams(&table, now)
                    .map(|stream| StreamId { table: table.name().clone(), label: stream.label });
                found.extend(ids.filter(|id| request.start.as_ref().is_none_or(|start| id > start)));
            }
        }
        let more = found.len() > limit;
        let streams: Vec<StreamId> = found.into_iter().take(limit).collect();
        let last = streams.last().cloned().filter(|_| more);
        Ok(ListStreamsOutput { streams, last })
    }

    pub fn describe_stream(
        &self,
        request: &DescribeStream,
        now: UnixTime,
    ) -> Result<StreamDescription, Error> {
        let now = self.settled(now);
        let snapshot = self.store.snapshot();
        let stream = Stream::find(&snapshot, &request.stream, None, now)?;
        let limit = request.limit.unwrap_or(SHARDS_MAX).min(SHARDS_MAX);
        let id_of = |shard: &Shard| shard.id(stream.table.id);
        let mut asked = stream.shards.iter().filter(|shard| {
            let parent = || shard.parent_id(stream.table.id);
            request.children_of.as_ref().is_none_or(|wanted| parent().as_ref() == Some(wanted))
                && request.start.as_ref().is_none_or(|start| id_of(shard) > *start)
        });
        let shards = asked.by_ref().take(limit).map(|shard| stream.described(&snapshot, shard, now));
        let shards = shards.collect::<Result<Vec<_>, Error>>()?;
        let last = asked.next().and(shards.last().map(|shard| shard.id.clone()));
        Ok(StreamDescription {
            stream: request.stream.clone(),
            view: stream.view,
            enabled: stream.closed.is_none(),
            key: stream.table.definition.key.clone(),
            shards,
            last,
        })
    }

    pub fn get_shard_iterator(
        &self,
        request: &GetShardIterator,
        now: UnixTime,
    ) -> Result<ShardIterator, Error> {
        let issued = now;
        let now = self.settled(now);
        let snapshot = self.store.snapshot();
        let stream = Stream::find(&snapshot, &request.stream, None, now)?;
        let shard = stream.shards.iter().find(|shard| shard.id(stream.table.id) == request.shard);
        let shard = shard.ok_or_else(|| {
            ApiError::ResourceNotFound(format!(
                "Requested resource not found: Shard: {} in Stream: {} not found",
                request.shard,
                arn(&request.stream)
            ))
        })?;
        let position = match request.start {
            ShardStart::TrimHorizon => ShardPosition::Oldest,
            ShardStart::Latest => ShardPosition::From(snapshot.next_number()?),
            ShardStart::At(number) => stream.position(&snapshot, shard, number, number, now)?,
            ShardStart::After(number) => {
                stream.position(&snapshot, shard, number, number.saturating_add(1), now)?
            }
            ShardStart::AtTime(time) if time > issued => {
                return Err(Error::validation("Timestamp must not be in the future"));
            }
            ShardStart::AtTime(time) => stream.position_at(&snapshot, shard, time, now)?,
        };
        let (stream, table_id, shard) = (request.stream.clone(), stream.table.id.0, shard.key);
        Ok(ShardIterator { stream, table_id, shard, position, issued })
    }

    pub fn get_records(&self, request: &GetRecords, now: UnixTime) -> Result<GetRecordsOutput, Error> {
        let iterator = &request.iterator;
        if iterator.issued.plus(ITERATOR_LIFE) < now {
            return Err(ApiError::ExpiredIterator.into());
        }
        let issued = now;
        let now = self.settled(now);
        let limit = request.limit.unwrap_or(STREAM_PAGE_RECORDS_MAX).min(STREAM_PAGE_RECORDS_MAX);
        let snapshot = self.store.snapshot();
        let stream = Stream::find(&snapshot, &iterator.stream, Some(TableId(iterator.table_id)), now)?;
        let shard = stream.shards.iter().find(|shard| shard.key == iterator.shard);
        let shard = shard.ok_or(ApiError::TrimmedDataAccess)?;
        let from = match iterator.position {
            ShardPosition::Oldest => stream.beginning(&snapshot, now)?,
            ShardPosition::At(number) | ShardPosition::From(number) => number,
        };
        let continues = iterator.position != ShardPosition::Oldest;
        if continues && stream.floor.is_missed_from(from) {
            return Err(ApiError::TrimmedDataAccess.into());
        }
        let mut entries = stream.entries(&snapshot, shard, from)?.peekable();
        if let ShardPosition::At(number) = iterator.position {
            let is_there = match entries.peek() {
                Some(Ok(found)) => found.number == number && stream.has(shard, found, now)?,
                Some(Err(_)) => true,
                None => false,
            };
            if !is_there {
                return Err(ApiError::TrimmedDataAccess.into());
            }
        }
        let mut records: Vec<StreamRecord> = Vec::new();
        let (mut bytes, mut passed, mut cut) = (0, 0, None);
        for (seen, found) in entries.enumerate() {
            let found = found?;
            if seen == PAGE_ENTRIES || passed >= PAGE_PASSED_BYTES {
                cut = Some(ShardPosition::From(found.number));
                break;
            }
            if !stream.has(shard, &found, now)? {
                // Whoever came this far was to get it, and is too late.
                if continues && stream.had(shard, &found)? {
                    return Err(ApiError::TrimmedDataAccess.into());
                }
                passed += found.bytes();
                continue;
            }
            let record = stream.record(found.entry()?);
            bytes += record.bytes;
            if records.len() == limit || (bytes > STREAM_PAGE_BYTES_MAX && !records.is_empty()) {
                cut = Some(ShardPosition::At(record.number));
                break;
            }
            passed += found.bytes() - record.bytes.min(found.bytes());
            records.push(record);
        }
        let is_closed = stream.closed.is_some() || shard.closed.is_some();
        let position = match cut {
            Some(position) => Some(position),
            None if is_closed => None,
            None => Some(ShardPosition::From(snapshot.next_number()?)),
        };
        let next = position.map(|position| ShardIterator { position, issued, ..iterator.clone() });
        Ok(GetRecordsOutput { table: stream.table.name().clone(), records, next })
    }

    /// Forgets deleted tables whose streams nobody may read any more.
    pub(crate) fn forget_streams(&self, now: UnixTime) -> Result<(), Error> {
        let mut batch = Batch::default();
        for table in tables(&self.store.snapshot(), &layout::remnants())? {
            let table = table?;
            if streams(&table, now).next().is_none() {
                batch.delete(layout::remnant(table.id));
                batch.delete(layout::floor(table.id));
            }
        }
        if !batch.is_empty() {
            self.store.write(batch)?;
            self.trim_due_millis.store(i64::MIN, Ordering::Release);
        }
        Ok(())
    }
}

/// What a stream that is switched on now is called. No two streams of a table have one name.
pub(crate) fn new_label(history: &History, now: UnixTime) -> UnixTime {
    history.stream_label.map_or(now, |last| now.max(last.plus(Duration::from_millis(1))))
}

/// Notes that the table's stream, of this view, is switched off.
pub(crate) fn close(history: &mut History, view: Option<StreamView>, now: UnixTime) {
    history.closed_streams.retain(|stream| is_remembered(stream, now));
    let (Some(label), Some(view)) = (history.stream_label, view) else { return };
    history.closed_streams.push(ClosedStream { label, view, closed: now });
    let excess = history.closed_streams.len().saturating_sub(CLOSED_STREAMS_MAX);
    history.closed_streams.drain(..excess);
}

/// Closes the stream of a table that is deleted, and leaves its record for those who read on.
pub(crate) fn leave(batch: &mut Batch, table: &Table, now: UnixTime) {
    let mut table = table.clone();
    close(&mut table.history, table.definition.stream, now);
    if !table.history.closed_streams.is_empty() {
        Arc::make_mut(&mut table.definition).stream = None;
        table.policies.table = None;
        batch.put(layout::remnant(table.id), item_bytes::encode(&record::write(&table)));
    } else {
        batch.delete(layout::floor(table.id));
    }
}

/// A stream that can be read.
struct Stream {
    table: Table,
    label: UnixTime,
    view: StreamView,
    closed: Option<UnixTime>,
    line: Timeline,
    floor: Floor,
    /// Those that can be read, in the order of their ids.
    shards: Vec<Shard>,
}

impl Stream {
    /// The stream with this name; of this table, where several had its name.
    fn find(
        snapshot: &Snapshot,
        wanted: &StreamId,
        table_id: Option<TableId>,
        now: UnixTime,
    ) -> Result<Self, Error> {
        let of = |table: Table| {
            if *table.name() != wanted.table || table_id.is_some_and(|wanted| wanted != table.id) {
                return None;
            }
            let known = streams(&table, now).find(|stream| stream.label == wanted.label)?;
            Some((table, known))
        };
        let read = |(table, Known { label, view, closed }): (Table, Known)| {
            let (line, floor) = (Timeline::read(snapshot)?, Floor::read(snapshot, table.id)?);
            let mut shards = shards::of_stream(snapshot, table.id, label)?;
            shards.retain(|shard| is_shard_remembered(shard, &line, now));
            Ok(Self { table, label, view, closed, line, floor, shards })
        };
        if let Some(stored) = twice::get(snapshot, &layout::record(&wanted.table))?
            && let Some(found) = of(read_table(&stored)?)
        {
            return read(found);
        }
        for table in tables(snapshot, &layout::remnants())? {
            if let Some(found) = of(table?) {
                return read(found);
            }
        }
        Err(not_found(wanted))
    }

    fn described(&self, snapshot: &Snapshot, shard: &Shard, now: UnixTime) -> Result<ops::Shard, Error> {
        let first = match shard.key.opened {
            0 => self.first_number(snapshot, shard, now)?,
            _ => shard.from(),
        };
        let last = match (shard.closed, self.closed) {
            (Some((number, _)), _) => Some(number),
            (None, Some(closed)) => Some(self.last(snapshot, shard, closed)?.unwrap_or(first)),
            (None, None) => None,
        };
        let (id, parent) = (shard.id(self.table.id), shard.parent_id(self.table.id));
        Ok(ops::Shard { id, parent, first, last })
    }

    /// Whether an entry is a record of this shard that can still be read.
    fn has(&self, shard: &Shard, found: &Found, now: UnixTime) -> Result<bool, Error> {
        Ok(self.moment(found).seconds() >= horizon_seconds(now) && self.had(shard, found)?)
    }

    /// Whether an entry is a record of this shard, whatever became of it.
    fn had(&self, shard: &Shard, found: &Found) -> Result<bool, Error> {
        Ok(found.stream == Some(self.label) && shard.has(&self.table, found)?)
    }

    fn moment(&self, found: &Found) -> UnixTime {
        self.line.moment(found.number, found.time)
    }

    /// Entries of the log from a number on, up to where the shard has certainly ended.
    fn entries(
        &self,
        snapshot: &Snapshot,
        shard: &Shard,
        from: u64,
    ) -> Result<impl Iterator<Item = Result<Found, Error>>, Error> {
        let from = if shard.key.opened == 0 { from } else { from.max(shard.from()) };
        let entries = match shard.closed {
            Some((number, _)) if number <= from => None,
            closed => {
                let to = closed.map_or(Bound::Unbounded, |(number, _)| Bound::Excluded(number));
                Some(changes::entries(snapshot, self.table.id, Bound::Included(from), to)?)
            }
        };
        // What comes after the stream belongs to a later one, or to none.
        let is_after = |found: &Found| {
            found.stream > Some(self.label)
                || found.stream.is_none() && self.closed.is_some_and(|closed| self.moment(found) > closed)
        };
        let entries = entries.into_iter().flatten();
        Ok(entries.take_while(move |found| !found.as_ref().is_ok_and(is_after)))
    }

    /// A number from which on all that can be read since a moment is found.
    fn number_at(&self, snapshot: &Snapshot, moment: UnixTime) -> Result<u64, Error> {
        // Where the clock was set back, what the label comes before cannot be told by its time.
        let moment = if self.line.turned_before(self.label) { moment } else { moment.max(self.label) };
        changes::number_at(snapshot, &self.line, self.table.id, moment)
    }

    /// A number from which on all that can be read is found.
    fn beginning(&self, snapshot: &Snapshot, now: UnixTime) -> Result<u64, Error> {
        self.number_at(snapshot, UnixTime::from_seconds(horizon_seconds(now)))
    }

    /// The number of the first record of a shard; where there is none, that of the next, or where the shard ended.
    fn first_number(&self, snapshot: &Snapshot, shard: &Shard, now: UnixTime) -> Result<u64, Error> {
        Ok(match (self.first(snapshot, shard, 0, now)?, shard.closed) {
            (Some(found), _) => found.number,
            (None, Some((number, _))) => number,
            (None, None) => snapshot.next_number()?,
        })
    }

    /// The first record from a number on.
    fn first(
        &self,
        snapshot: &Snapshot,
        shard: &Shard,
        from: u64,
        now: UnixTime,
    ) -> Result<Option<Found>, Error> {
        let from = from.max(self.beginning(snapshot, now)?);
        self.find_record(snapshot, shard, from, now, |_| true)
    }

    fn find_record(
        &self,
        snapshot: &Snapshot,
        shard: &Shard,
        from: u64,
        now: UnixTime,
        wanted: impl Fn(&Found) -> bool,
    ) -> Result<Option<Found>, Error> {
        for found in self.entries(snapshot, shard, from)? {
            let found = found?;
            if wanted(&found) && self.has(shard, &found, now)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The number of the last record of a shard whose stream was closed.
    fn last(&self, snapshot: &Snapshot, shard: &Shard, closed: UnixTime) -> Result<Option<u64>, Error> {
        let end = if self.line.turned_before(closed) {
            Bound::Unbounded
        } else {
            Bound::Excluded(changes::number_after(snapshot, &self.line, self.table.id, closed)?)
        };
        let entries = changes::entries(snapshot, self.table.id, Bound::Unbounded, end)?;
        for found in entries.rev() {
            let found = found?;
            if self.had(shard, &found)? {
                return Ok(Some(found.number));
            }
            if !self.line.turned_before(self.label) && found.time < self.label
                || found.number <= shard.key.opened
            {
                break;
            }
        }
        Ok(None)
    }

    /// Where a reader begins who names the record `number` and wants those from `from` on.
    fn position(
        &self,
        snapshot: &Snapshot,
        shard: &Shard,
        number: u64,
        from: u64,
        now: UnixTime,
    ) -> Result<ShardPosition, Error> {
        let next = snapshot.next_number()?;
        let is_of_another = number < shard.from() && shard.key.opened != 0
            || shard.closed.is_some_and(|(closed, _)| number > closed);
        if number > next || is_of_another {
            return Err(Error::validation("Invalid SequenceNumber for the shard"));
        }
        let first = self.first_number(snapshot, shard, now)?;
        // Of a younger shard nothing has been removed yet, but where the stream's floor says so.
        if number < first
            && (shard.began.seconds() < horizon_seconds(now) || self.floor.is_missed_from(number))
        {
            return Err(ApiError::TrimmedDataAccess.into());
        }
        let record = self.first(snapshot, shard, from, now)?;
        Ok(record.map_or(ShardPosition::From(next), |found| ShardPosition::At(found.number)))
    }

    /// Where a reader begins who wants the records from a moment on.
    fn position_at(
        &self,
        snapshot: &Snapshot,
        shard: &Shard,
        time: UnixTime,
        now: UnixTime,
    ) -> Result<ShardPosition, Error> {
        if time.seconds() < horizon_seconds(now) {
            return Ok(ShardPosition::Oldest);
        }
        let from = self.number_at(snapshot, time)?;
        let stretch = self.line.stretch(time);
        let wanted = |found: &Found| found.time >= time || found.number >= stretch.to;
        let record = self.find_record(snapshot, shard, from, now, wanted)?;
        Ok(match record {
            Some(found) => ShardPosition::At(found.number),
            None => ShardPosition::From(snapshot.next_number()?),
        })
    }

    fn record(&self, entry: Entry) -> StreamRecord {
        let (shows_new, shows_old) = match self.view {
            StreamView::KeysOnly => (false, false),
            StreamView::NewImage => (true, false),
            StreamView::OldImage => (false, true),
            StreamView::NewAndOldImages => (true, true),
        };
        // The log may keep more than the view shows.
        let (new, old) = (entry.new.filter(|_| shows_new), entry.old.filter(|_| shows_old));
        let bytes =
            [Some(&entry.key), new.as_ref(), old.as_ref()].into_iter().flatten().map(Item::size).sum();
        let mut id = self.table.history.uuid;
        id[8..].copy_from_slice(&entry.number.to_be_bytes());
        StreamRecord {
            id,
            number: entry.number,
            time: entry.time,
            event: entry.event,
            expired: entry.expired,
            view: self.view,
            key: entry.key,
            new,
            old,
            bytes,
        }
    }
}

/// A stream as its table's record tells of it.
struct Known {
    label: UnixTime,
    view: StreamView,
    closed: Option<UnixTime>,
}

/// The streams of a table that can be read, oldest first.
fn streams(table: &Table, now: UnixTime) -> impl Iterator<Item = Known> {
    let closed = table.history.closed_streams.iter().filter(move |stream| is_remembered(stream, now));
    let closed =
        closed.map(|stream| Known { label: stream.label, view: stream.view, closed: Some(stream.closed) });
    let open = table.history.stream_label.zip(table.definition.stream);
    closed.chain(open.map(|(label, view)| Known { label, view, closed: None }))
}

/// Whether a table has a stream of this label that can be read.
pub(crate) fn is_readable(table: &Table, label: UnixTime, now: UnixTime) -> bool {
    streams(table, now).any(|stream| stream.label == label)
}

/// The deleted table that a stream is of, while it is remembered.
pub(crate) fn deleted_table(snapshot: &Snapshot, stream: &StreamId) -> Result<Option<Table>, Error> {
    for table in tables(snapshot, &layout::remnants())? {
        let table = table?;
        if *table.name() == stream.table && table.history.has_stream(stream.label) {
            return Ok(Some(table));
        }
    }
    Ok(None)
}

/// What is left of a deleted table, while it is remembered.
pub(crate) fn remnant(snapshot: &Snapshot, id: TableId) -> Result<Option<Table>, Error> {
    snapshot.get(&layout::remnant(id))?.map(|bytes| read_table(&bytes)).transpose()
}

pub(crate) fn not_found(stream: &StreamId) -> Error {
    let message = format!("Requested resource not found: Stream: {} not found", arn(stream));
    ApiError::ResourceNotFound(message).into()
}

fn is_remembered(stream: &ClosedStream, now: UnixTime) -> bool {
    stream.closed.seconds() >= horizon_seconds(now)
}

/// Whether a shard can be asked for: it is open, or was a day ago.
pub(crate) fn is_shard_remembered(shard: &Shard, line: &Timeline, now: UnixTime) -> bool {
    let closed = shard.closed.map(|(number, time)| line.moment(number, time));
    closed.is_none_or(|closed| closed.seconds() >= horizon_seconds(now))
}

/// Before this second nothing can be read.
fn horizon_seconds(now: UnixTime) -> i64 {
    now.seconds() - STREAM_SECONDS
}

pub(crate) fn arn(stream: &StreamId) -> Arn {
    Arn::stream(&stream.table, stream.label)
}

/// The tables whose records begin so.
fn tables(
    snapshot: &Snapshot,
    prefix: &[u8],
) -> Result<impl Iterator<Item = Result<Table, Error>> + use<>, Error> {
    let end = key_bytes::after_prefix(prefix).expect("records do not begin with FF");
    let range = snapshot.range(Bound::Included(prefix), Bound::Excluded(&end))?;
    Ok(range.map(|entry| read_table(&entry?.1)))
}

fn read_table(bytes: &[u8]) -> Result<Table, Error> {
    Ok(record::read(&item_bytes::decode(bytes)?)?)
}
