//! Shards: what of a stream is read by itself.
//!
//! A stream begins with one shard, and that is all it has unless [`Engine::divide_streams`] allows more. Then a shard ends four
//! hours after it began, or once it was given a thousand changes within a second, and two shards go on for it, each with half
//! of its keys; one, where there are as many as there may be.
//!
//! There is one log all the same. Which shard a record is of follows from its number and from the place that its partition key
//! is hashed to. What is kept is where shards went over into others: a turnover, which is an entry with a number of the log's
//! own, so that every record comes before it or after it.
//!
//! ```text
//! turnover = { stream: its label, time, shards: [[parent's number, parent's place, parent's time, place, end], …] }
//! ```
//!
//! Promises:
//! - At any number of the log each place is of one open shard: all changes of a key are in one line, from parent to child.
//! - A shard holds nothing from before its parent was closed, and nothing from after it was closed itself.
//! - A turnover is remembered for as long as any of its shards may be asked for.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use larder_model::{AttributeValue, Item, UnixTime};
use larder_storage::{Batch, Snapshot};
use parking_lot::Mutex;

use crate::catalog::Table;
use crate::changes::{self, Found};
use crate::layout::{self, PARTITIONS, TableId, TreeId};
use crate::ops::ShardKey;
use crate::timeline::Timeline;
use crate::{Engine, Error, item_bytes, key_bytes, streams};

/// For how long a shard is open.
const SHARD_LIFE: Duration = Duration::from_secs(4 * 60 * 60);
/// With so many changes in a second a shard has more than one partition can take.
const HOT_CHANGES: usize = 1000;
const HOT_MILLIS: i64 = 1000;
/// How often it is looked what can be forgotten.
const FORGET_MILLIS: i64 = 60 * 60 * 1000;

/// What the engine is told of shards, and does with them.
#[derive(Debug)]
pub(crate) struct Dividing {
    most: AtomicU32,
    /// Held while shards are turned over: two that did so at once would each give a shard children.
    turning: Mutex<()>,
    forget_due_millis: AtomicI64,
}

impl Default for Dividing {
    fn default() -> Self {
        Self {
            most: AtomicU32::new(1),
            turning: Mutex::default(),
            forget_due_millis: AtomicI64::new(i64::MIN),
        }
    }
}

/// A shard of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub key: ShardKey,
    /// When it began; no other of its stream but those of the same turnover have the same.
    pub began: UnixTime,
    /// Its places end before this one.
    end: u32,
    /// The shard that it continues, and when that began.
    parent: Option<(ShardKey, UnixTime)>,
    /// The number at which it was closed, and when, if another continues it.
    pub closed: Option<(u64, UnixTime)>,
}

impl Shard {
    /// The one that a stream begins with.
    fn first(label: UnixTime) -> Self {
        Self { key: ShardKey::default(), began: label, end: PARTITIONS, parent: None, closed: None }
    }

    pub(crate) fn id(&self, table: TableId) -> String {
        shard_id(self.key, self.began, table)
    }

    pub(crate) fn parent_id(&self, table: TableId) -> Option<String> {
        self.parent.map(|(key, began)| shard_id(key, began, table))
    }

    /// The first number that a record of it can have.
    pub(crate) fn from(&self) -> u64 {
        self.key.opened.saturating_add(1)
    }

    /// Whether a record of its stream is its own.
    pub(crate) fn has(&self, table: &Table, found: &Found) -> Result<bool, Error> {
        let is_then = (self.key.opened == 0 || found.number > self.key.opened)
            && self.closed.is_none_or(|(number, _)| found.number < number);
        Ok(is_then && (self.has_all_places() || self.has_place(place(table, found)?)))
    }

    fn has_all_places(&self) -> bool {
        self.key.place == 0 && self.end == PARTITIONS
    }

    fn has_place(&self, place: u16) -> bool {
        (u32::from(self.key.place)..self.end).contains(&u32::from(place))
    }

    /// Its places as two parts, or as one.
    fn parts(&self, two: bool) -> Vec<[u32; 2]> {
        let from = u32::from(self.key.place);
        let middle = from.midpoint(self.end);
        if two { vec![[from, middle], [middle, self.end]] } else { vec![[from, self.end]] }
    }
}

/// As DynamoDB's look: a time, and what tells shards of one time apart.
fn shard_id(ShardKey { opened, place }: ShardKey, began: UnixTime, table: TableId) -> String {
    let millis = began.millis();
    match opened {
        0 => format!("shardId-{millis:020}-{:08x}", table.0),
        _ => format!("shardId-{millis:020}-{place:04x}{:04x}", table.0 & 0xffff),
    }
}

/// The place of the key that a change was of.
fn place(table: &Table, found: &Found) -> Result<u16, Error> {
    let key = layout::key(table.id, TreeId::ITEMS, &table.definition.key, &found.item_key()?);
    // The key of what could not be read when it was changed is not always known.
    Ok(key.as_deref().and_then(layout::place).unwrap_or(0))
}

/// Where shards of a stream were closed and others opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turnover {
    number: u64,
    stream: UnixTime,
    time: UnixTime,
    opened: Vec<Opened>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Opened {
    parent: ShardKey,
    parent_began: UnixTime,
    places: [u32; 2],
}

impl Turnover {
    fn write(&self) -> Vec<u8> {
        let shard = |shard: &Opened| {
            let [from, to] = shard.places;
            let number = |number: u64| AttributeValue::from(number.cast_signed());
            AttributeValue::L(vec![
                number(shard.parent.opened),
                i64::from(shard.parent.place).into(),
                shard.parent_began.millis().into(),
                i64::from(from).into(),
                i64::from(to).into(),
            ])
        };
        let mut record = Item::new();
        record.insert("stream", self.stream.millis());
        record.insert("time", self.time.millis());
        record.insert("shards", AttributeValue::L(self.opened.iter().map(shard).collect()));
        item_bytes::encode(&record)
    }

    pub(crate) fn read(key: &[u8], bytes: &[u8]) -> Result<Self, Error> {
        let damaged = || Error::Damaged("a turnover of shards cannot be read");
        let record = item_bytes::decode(bytes).map_err(|_| damaged())?;
        let integer = |value: &AttributeValue| value.as_number()?.to_i64();
        let shard = |value: &AttributeValue| {
            let AttributeValue::L(parts) = value else { return None };
            let [opened, parent, began, from, to] = parts.as_slice() else { return None };
            let places = [u32::try_from(integer(from)?).ok()?, u32::try_from(integer(to)?).ok()?];
            let is_range = places[0] < places[1] && places[1] <= PARTITIONS;
            is_range.then_some(Opened {
                parent: ShardKey {
                    opened: integer(opened)?.cast_unsigned(),
                    place: u16::try_from(integer(parent)?).ok()?,
                },
                parent_began: UnixTime::from_millis(integer(began)?),
                places,
            })
        };
        let read = || {
            let Some(AttributeValue::L(shards)) = record.get("shards") else { return None };
            Some(Self {
                number: layout::change_number(key)?,
                stream: UnixTime::from_millis(integer(record.get("stream")?)?),
                time: UnixTime::from_millis(integer(record.get("time")?)?),
                opened: shards.iter().map(shard).collect::<Option<_>>()?,
            })
        };
        read().ok_or_else(damaged)
    }

    fn shards(&self) -> impl Iterator<Item = Shard> {
        self.opened.iter().map(|opened| Shard {
            key: ShardKey {
                opened: self.number,
                place: u16::try_from(opened.places[0]).expect("a range of places is not empty"),
            },
            began: self.time,
            end: opened.places[1],
            parent: Some((opened.parent, opened.parent_began)),
            closed: None,
        })
    }
}

/// The turnovers of a table's streams, oldest first.
fn turnovers(
    snapshot: &Snapshot,
    prefix: &[u8],
) -> Result<impl Iterator<Item = Result<(TableId, Turnover), Error>> + use<>, Error> {
    let end = key_bytes::after_prefix(prefix).expect("turnovers do not begin with FF");
    let range = snapshot.range(Bound::Included(prefix), Bound::Excluded(&end))?;
    Ok(range.map(|entry| {
        let (key, value) = entry?;
        let table =
            layout::turnover_owner(&key).ok_or(Error::Damaged("a turnover of shards cannot be read"))?;
        Ok((table, Turnover::read(&key, &value)?))
    }))
}

/// The shards of a stream, in the order of their ids.
pub(crate) fn of_stream(snapshot: &Snapshot, table: TableId, label: UnixTime) -> Result<Vec<Shard>, Error> {
    let mut shards = vec![Shard::first(label)];
    for found in turnovers(snapshot, &layout::turnovers(table))? {
        let (_, turnover) = found?;
        if turnover.stream == label {
            turn(&mut shards, &turnover);
        }
    }
    Ok(shards)
}

fn turn(shards: &mut Vec<Shard>, turnover: &Turnover) {
    let closes = |key: ShardKey| turnover.opened.iter().any(|opened| opened.parent == key);
    // Where the turnover that closed the first shard is forgotten, so is the shard.
    shards.retain(|shard| shard.key.opened != 0 || shard.closed.is_some() || closes(shard.key));
    for shard in shards.iter_mut().filter(|shard| closes(shard.key)) {
        shard.closed = Some((turnover.number, turnover.time));
    }
    shards.extend(turnover.shards());
}

impl Engine {
    /// Lets each stream have so many shards at once, as long as this engine is open. Those that there are stay.
    pub fn divide_streams(&self, shards_max: u32) {
        self.dividing.most.store(shards_max.max(1), Ordering::Relaxed);
    }

    /// Closes shards whose time is over, or that are given too much, and opens those that continue them.
    pub(crate) fn turn_shards_over(&self, now: UnixTime) -> Result<(), Error> {
        let most = self.dividing.most.load(Ordering::Relaxed) as usize;
        if most <= 1 {
            return Ok(());
        }
        let _turning = self.dividing.turning.lock();
        let streamed: Vec<Arc<Table>> = {
            let catalog = self.catalog()?;
            let has_stream =
                |table: &&Arc<Table>| table.definition.stream.is_some() && !table.is_being_copied();
            catalog.tables().filter(has_stream).cloned().collect()
        };
        let snapshot = self.store.snapshot();
        let mut failed = Ok(());
        for table in streamed {
            // What is damaged of one stream holds up no other.
            match self.turn_over(&snapshot, &table, most, now) {
                Err(error) if error.concerns_one_value() => failed = Err(error),
                other => other?,
            }
        }
        failed
    }

    fn turn_over(&self, snapshot: &Snapshot, table: &Table, most: usize, now: UnixTime) -> Result<(), Error> {
        let Some(label) = table.history.stream_label else { return Ok(()) };
        let shards = of_stream(snapshot, table.id, label)?;
        let open: Vec<&Shard> = shards.iter().filter(|shard| shard.closed.is_none()).collect();
        let hot = if open.len() < most { hot(snapshot, table, label, &open, now)? } else { Vec::new() };
        let mut count = open.len();
        let mut opened = Vec::new();
        for shard in open {
            let is_over = shard.began.plus(SHARD_LIFE) <= now;
            let divides = count < most && shard.end - u32::from(shard.key.place) > 1;
            let ends = is_over || divides && hot.contains(&shard.key);
            if !ends {
                continue;
            }
            count += usize::from(divides);
            opened.extend(shard.parts(divides).into_iter().map(|places| Opened {
                parent: shard.key,
                parent_began: shard.began,
                places,
            }));
        }
        if opened.is_empty() {
            return Ok(());
        }
        // Of its own: shards are told apart by it, and sorted.
        let last = shards.iter().map(|shard| shard.began).max().unwrap_or(label);
        let time = now.max(last.plus(Duration::from_millis(1)));
        let turnover = Turnover { number: 0, stream: label, time, opened };
        let ((), ticket, ()) = self.change_catalog(|catalog, batch| {
            // No writer is underway: each record comes before this, or after it.
            let is_open = |table: &Arc<Table>| {
                table.definition.stream.is_some() && table.history.stream_label == Some(label)
            };
            if catalog.by_id(table.id).is_some_and(is_open) {
                batch.append(layout::turnovers(table.id), turnover.write());
            }
            Ok(((), ()))
        })?;
        Ok(ticket.wait()?)
    }

    /// Forgets turnovers none of whose shards anybody may ask for.
    pub(crate) fn forget_shards(&self, now: UnixTime) -> Result<(), Error> {
        if now.millis() < self.dividing.forget_due_millis.load(Ordering::Acquire) {
            return Ok(());
        }
        let snapshot = self.store.snapshot();
        let line = Timeline::read(&snapshot)?;
        let catalog = self.catalog()?.clone();
        let mut batch = Batch::default();
        let mut known: Option<(TableId, Option<Table>)> = None;
        for found in turnovers(&snapshot, &layout::all_turnovers())? {
            let (id, turnover) = found?;
            if known.as_ref().is_none_or(|(known, _)| *known != id) {
                let table = match catalog.by_id(id) {
                    Some(table) => Some((**table).clone()),
                    // It may belong to a table whose record cannot be read.
                    None if !catalog.is_whole() => continue,
                    None => streams::remnant(&snapshot, id)?,
                };
                known = Some((id, table));
            }
            let Some((_, Some(table))) = &known else {
                batch.delete(layout::turnover(id, turnover.number));
                continue;
            };
            let shards = of_stream(&snapshot, id, turnover.stream)?;
            let may_be_asked = |shard: &Shard| {
                shard.key.opened == turnover.number && streams::is_shard_remembered(shard, &line, now)
            };
            if !streams::is_readable(table, turnover.stream, now) || !shards.iter().any(may_be_asked) {
                batch.delete(layout::turnover(id, turnover.number));
            }
        }
        if !batch.is_empty() {
            self.store.write(batch)?;
        }
        self.dividing.forget_due_millis.store(now.millis().saturating_add(FORGET_MILLIS), Ordering::Release);
        Ok(())
    }
}

/// The shards that were given too much in the last second.
fn hot(
    snapshot: &Snapshot,
    table: &Table,
    label: UnixTime,
    open: &[&Shard],
    now: UnixTime,
) -> Result<Vec<ShardKey>, Error> {
    let mut given = vec![0; open.len()];
    let newest = changes::entries(snapshot, table.id, Bound::Unbounded, Bound::Unbounded)?.rev();
    for found in newest.take(HOT_CHANGES * open.len()) {
        let found = found?;
        if found.stream != Some(label) || found.time.millis() <= now.millis().saturating_sub(HOT_MILLIS) {
            break;
        }
        for (shard, given) in open.iter().zip(&mut given) {
            *given += usize::from(shard.has(table, &found)?);
        }
    }
    let hot = open.iter().zip(given).filter(|(_, given)| *given >= HOT_CHANGES);
    Ok(hot.map(|(shard, _)| shard.key).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(turnovers: &[Turnover]) -> Vec<Shard> {
        let mut shards = vec![Shard::first(UnixTime::from_millis(1))];
        turnovers.iter().for_each(|turnover| turn(&mut shards, turnover));
        shards
    }

    fn turnover(number: u64, opened: &[(ShardKey, [u32; 2])]) -> Turnover {
        let time = UnixTime::from_millis(number.cast_signed());
        let opened = opened.iter().map(|(parent, places)| Opened {
            parent: *parent,
            parent_began: UnixTime::from_millis(parent.opened.cast_signed()),
            places: *places,
        });
        Turnover { number, stream: UnixTime::from_millis(1), time, opened: opened.collect() }
    }

    fn halves() -> [Turnover; 2] {
        let half = PARTITIONS / 2;
        let first = ShardKey::default();
        [
            turnover(10, &[(first, [0, half]), (first, [half, PARTITIONS])]),
            turnover(20, &[(ShardKey { opened: 10, place: 0 }, [0, half])]),
        ]
    }

    #[test]
    fn a_turnover_is_read_as_it_was_written() {
        for turnover in halves() {
            let key = layout::turnover(TableId(7), turnover.number);
            assert_eq!(layout::turnover_owner(&key), Some(TableId(7)));
            assert_eq!(Turnover::read(&key, &turnover.write()).ok(), Some(turnover));
        }
        assert!(Turnover::read(&layout::turnover(TableId(7), 1), b"nothing").is_err());
    }

    #[test]
    fn each_place_is_of_one_open_shard() {
        let turnovers = halves();
        for known in 0..=turnovers.len() {
            let shards = of(&turnovers[..known]);
            let open = || shards.iter().filter(|shard| shard.closed.is_none());
            assert_eq!(open().count(), known.min(1) + 1);
            for place in [0, 1, 0x7fff, 0x8000, 0xffff] {
                assert_eq!(open().filter(|shard| shard.has_place(place)).count(), 1, "{place}");
            }
        }
    }

    #[test]
    fn what_is_forgotten_takes_the_shards_before_it_along() {
        let all = of(&halves());
        let ids = |shards: &[Shard]| -> Vec<String> {
            shards.iter().map(|shard| shard.id(TableId(0x1_0005))).collect()
        };
        assert_eq!(
            ids(&all),
            [
                "shardId-00000000000000000001-00010005",
                "shardId-00000000000000000010-00000005",
                "shardId-00000000000000000010-80000005",
                "shardId-00000000000000000020-00000005",
            ]
        );
        assert_eq!(all[3].parent_id(TableId(5)), Some(all[1].id(TableId(5))));
        let left = of(&halves()[1..]);
        assert_eq!(ids(&left), ["shardId-00000000000000000020-00000005"]);
    }
}
