//! The log before the tree: what makes a write durable with one short append.
//!
//! A commit of the tree writes every page on the way to each change. So a group of batches is appended here instead, as
//! one record, and synced; it is then in a memory table (`memory.rs`), which the tree absorbs later with many others.
//! What the tree holds durably is cut from the log.
//!
//! The log is a ring. Each memory table has an epoch of its own, and the tree tells the epoch that is the first it does
//! not hold, and where in the ring that begins. Its records follow each other, and the first record of the next epoch follows
//! the last of the one before and says so: its epoch and how many records that had. A record that does not fit before the end
//! of the ring is at its beginning. So from the one place that the tree tells, all records are found in order that it does not
//! hold. A record says what its keys hold afterwards, so that what the tree holds already does no harm.
//!
//! Numbers of epochs rise by random steps, the first is random: no value in an old record can pass for a later one, and no
//! record that an earlier process left unfinished can follow one of this process.
//!
//! A record that was cut short by a crash ends the log, because nothing after it was acknowledged. Each record tells how many of
//! its epoch were on disk before it, and a new epoch begins only when all of the one before are: if one of those cannot be
//! read, the log is damaged, and that is an error rather than its end. After the last record, when nobody writes for a moment,
//! a mark elsewhere tells the same. The mark also tells of the last epoch that the tree has begun, so that a tree which was put
//! back to one before is found.
//!
//! Records are checked by a keyed hash over what they say and where they are.

use crate::batch::Changed;
use crate::checked::TagKey;
use crate::checksum::CHECKSUM_BYTES;
use crate::medium::Section;
use crate::{Disk, Error, Position};
use std::io;

/// A record begins on a sector of its own: writing it touches none that is already safe.
const SECTOR_BYTES: usize = 512;
const HEADER_BYTES: usize = 40;
/// How far ahead of its end the log is filled with zeros: overwriting is faster than growing.
const FILL_BYTES: u64 = 256 << 10;
const FILLED_AT_ONCE: usize = 4096;
/// What is read at once when the log is searched.
const SEARCHED_BYTES: usize = 256 << 10;
/// Memory that is kept for the next record.
const BUFFER_KEPT_BYTES: usize = 1 << 20;
const ABSENT: u32 = u32::MAX;
/// What the hash of a record is of, and those of the mark in this format and in the one before, beside their places.
const RECORD: u64 = 5;
const EARLY_MARK: u64 = 6;
const MARK: u64 = 7;
/// Set in the length of a record that begins with what it follows.
const LINKED: u64 = 1 << 63;
const LINK_BYTES: usize = 16;

/// Where an epoch begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) epoch: u64,
    pub(crate) at: u64,
}

/// So many records of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Reach {
    epoch: u64,
    count: u64,
}

impl Reach {
    /// Whether records beyond another are known to have been there.
    fn is_beyond(self, other: Self) -> bool {
        self.count > 0 && self > other
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    /// These were on disk.
    reach: Reach,
    /// The tree has begun this epoch.
    tree_epoch: u64,
    /// The newest epoch of all.
    newest: u64,
}

#[derive(Debug)]
pub(crate) struct Log {
    disk: Section,
    /// Where the mark is.
    reach: Section,
    key: TagKey,
    /// What the tree does not hold begins here.
    start: Start,
    /// Bytes from there to the end.
    used: u64,
    /// What records are appended to.
    epoch: Start,
    /// What the first of them follows.
    before: Reach,
    /// Records of this epoch.
    count: u64,
    end: u64,
    /// Of those, the ones that a sync covered.
    synced_count: u64,
    synced_end: u64,
    /// Where the first is that none covered.
    unsynced_at: Option<u64>,
    /// A record that counts for nothing may be there. Nothing is appended before it is certainly void.
    void_at: Option<u64>,
    /// Up to where bytes were written before.
    filled: u64,
    /// There is nothing to find.
    blank: bool,
    /// What the mark tells.
    marked: Mark,
    record: Vec<u8>,
}

impl Log {
    /// `blank` if it is known that nothing was ever written to it.
    pub(crate) fn new(disk: Section, reach: Section, key: TagKey, blank: bool) -> Self {
        Self {
            disk,
            reach,
            key,
            start: Start::default(),
            used: 0,
            epoch: Start::default(),
            before: Reach::default(),
            count: 0,
            end: 0,
            synced_count: 0,
            synced_end: 0,
            unsynced_at: None,
            void_at: None,
            filled: 0,
            blank,
            marked: Mark::default(),
            record: Vec::new(),
        }
    }

    /// Room for records.
    pub(crate) fn bytes(&self) -> u64 {
        self.disk.bytes()
    }

    /// What of it the tree does not hold.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used
    }

    /// Whether there has never been a record.
    pub(crate) fn is_unused(&self) -> io::Result<bool> {
        Ok(self.read_header(0)?.is_none_or(|first| first.epoch == 0))
    }

    /// Begins the next epoch, unless this one has no record. All records must be synced.
    pub(crate) fn next_epoch(&mut self) -> Result<Start, Error> {
        if self.count > 0 {
            self.begin_epoch(self.epoch.epoch)?;
        }
        Ok(self.epoch)
    }

    /// Begins another epoch in any case: the tree is about to hold what no record tells.
    pub(crate) fn fresh_epoch(&mut self) -> Result<Start, Error> {
        self.begin_epoch(self.epoch.epoch)?;
        Ok(self.epoch)
    }

    fn begin_epoch(&mut self, after: u64) -> Result<(), Error> {
        if self.synced_count > 0 {
            self.before = Reach { epoch: self.epoch.epoch, count: self.synced_count };
        }
        self.epoch = Start { epoch: later_epoch(after)?, at: self.synced_end };
        (self.count, self.end) = (0, self.synced_end);
        self.synced_count = 0;
        self.used = self.used_until(self.end);
        Ok(())
    }

    /// Gives up what comes before this, which the tree holds durably.
    pub(crate) fn cut(&mut self, start: Start) {
        self.start = start;
        self.used = self.used_until(self.end);
    }

    /// A record never ends where the log starts, so that an end there is an empty log.
    fn used_until(&self, end: u64) -> u64 {
        end.checked_sub(self.start.at).unwrap_or_else(|| self.disk.bytes() - self.start.at + end)
    }

    /// Where a record of so many bytes goes.
    fn place(&self, bytes: usize) -> Option<u64> {
        let (bytes, end, start) = (padded(bytes) as u64, self.end, self.start.at);
        let behind = || (end + bytes <= self.disk.bytes()).then_some(end);
        let in_front = |at: u64| (at + bytes < start).then_some(at);
        if end >= start { behind().or_else(|| in_front(0)) } else { in_front(end) }
    }

    /// Whether a record of these changes can be appended, and leaves so many bytes.
    pub(crate) fn has_room(&self, changes: &[Changed], spare_bytes: u64) -> bool {
        let bytes = HEADER_BYTES + LINK_BYTES + Position::BYTES + entries_bytes(changes);
        self.place(bytes + spare_bytes as usize).is_some()
    }

    /// Writes a record: what each key holds from it on, and the position that this is. After an error everything since
    /// the last sync is void.
    pub(crate) fn append(&mut self, position: Position, changes: &[Changed]) -> io::Result<()> {
        self.settle_void()?;
        let is_first = self.count == 0;
        let link = [self.before.epoch, self.before.count].map(u64::to_le_bytes);
        let link = if is_first { link.as_flattened() } else { &[] };
        let payload = link.len() + Position::BYTES + entries_bytes(changes);
        let Some(at) = self.place(HEADER_BYTES + payload) else {
            return Err(io::ErrorKind::StorageFull.into());
        };
        let length = payload as u64 | if is_first { LINKED } else { 0 };
        let words = [0, length, self.epoch.epoch, self.count, self.synced_count].map(u64::to_le_bytes);
        self.record.clear();
        self.record.shrink_to(BUFFER_KEPT_BYTES);
        self.record.extend_from_slice(words.as_flattened());
        self.record.extend_from_slice(link);
        self.record.extend_from_slice(&position.to_bytes());
        for (key, value) in changes {
            self.record.extend_from_slice(&(key.len() as u32).to_le_bytes());
            let length = value.as_ref().map_or(ABSENT, |value| value.len() as u32);
            self.record.extend_from_slice(&length.to_le_bytes());
            self.record.extend_from_slice(key);
            self.record.extend_from_slice(value.as_deref().map_or(&[], Vec::as_slice));
        }
        let sum = self.key.sum([RECORD, at], &self.record[8..]);
        self.record[..8].copy_from_slice(&sum.to_le_bytes());
        self.record.resize(padded(self.record.len()), 0);

        self.unsynced_at.get_or_insert(at);
        let end = at + self.record.len() as u64;
        if at < self.end {
            self.filled = self.disk.bytes();
        }
        if end > self.filled {
            let limit = if self.start.at > end { self.start.at } else { self.disk.bytes() };
            let filled = (end + FILL_BYTES).min(limit);
            // In small pieces: the system remembers as one what is written as one, and counts all of it with every record in it.
            for at in (end..filled).step_by(FILLED_AT_ONCE) {
                self.disk.write(at, &[0; FILLED_AT_ONCE][..FILLED_AT_ONCE.min((filled - at) as usize)])?;
            }
            self.filled = filled;
        }
        if is_first && self.marked.newest < self.epoch.epoch {
            // With the same sync as the record: a tree that was closed is not taken for the last state.
            self.write_mark(Mark { newest: self.epoch.epoch, ..self.next_mark() })?;
        }
        self.disk.write(at, &self.record)?;
        (self.count, self.end) = (self.count + 1, end);
        self.used = self.used_until(end);
        Ok(())
    }

    /// Makes every record durable. After an error those since the last sync are void.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.disk.sync_data()?;
        (self.synced_count, self.synced_end) = (self.count, self.end);
        self.unsynced_at = None;
        Ok(())
    }

    /// The same, if there is any that is not.
    pub(crate) fn sync_rest(&mut self) -> io::Result<()> {
        if self.unsynced_at.is_some() { self.sync() } else { Ok(()) }
    }

    /// Whether the mark does not tell all that is known.
    pub(crate) fn wants_mark(&self) -> bool {
        self.marked != self.next_mark()
    }

    fn next_mark(&self) -> Mark {
        let own = Reach { epoch: self.epoch.epoch, count: self.synced_count };
        Mark {
            reach: if own.count > 0 { own } else { self.before },
            tree_epoch: self.start.epoch,
            newest: self.marked.newest.max(self.start.epoch).max(if own.count > 0 { own.epoch } else { 0 }),
        }
    }

    /// Tells, apart from the records, how many of them are on disk. It need not be synced: it says nothing that is not so.
    pub(crate) fn mark(&mut self) {
        // If it fails, the last record is as safe as it was.
        let _ = self.write_mark(self.next_mark());
    }

    fn write_mark(&mut self, mark: Mark) -> io::Result<()> {
        let words = [mark.reach.epoch, mark.reach.count, mark.tree_epoch, mark.newest].map(u64::to_le_bytes);
        let sum = self.key.sum([MARK, 0], words.as_flattened());
        let mut sector = [words.as_flattened(), &sum.to_le_bytes()].concat();
        sector.resize(SECTOR_BYTES, 0);
        self.reach.write(0, &sector)?;
        self.marked = mark;
        Ok(())
    }

    /// Absent if it is not what was written.
    fn read_mark(&self) -> Option<Mark> {
        let mut bytes = [0; 40];
        self.reach.read(0, &mut bytes).ok()?;
        let (words, _) = bytes.as_chunks::<8>();
        let word = |n: usize| u64::from_le_bytes(words[n]);
        let reach = Reach { epoch: word(0), count: word(1) };
        if self.key.sum([MARK, 0], &bytes[..32]) == word(4) {
            return Some(Mark { reach, tree_epoch: word(2), newest: word(3) });
        }
        let is_early = self.key.sum([EARLY_MARK, 0], &bytes[..16]) == word(2);
        is_early.then_some(Mark { reach, tree_epoch: reach.epoch, newest: reach.epoch })
    }

    /// Makes void what the last sync did not cover, as far as the disk lets it: the answer is whether that is certain.
    pub(crate) fn void(&mut self) -> Result<bool, Error> {
        let Some(at) = self.unsynced_at.take() else { return Ok(true) };
        self.void_at = Some(at);
        self.begin_epoch(self.epoch.epoch)?;
        Ok(self.settle_void().is_ok())
    }

    fn settle_void(&mut self) -> io::Result<()> {
        if let Some(at) = self.void_at {
            self.disk.write(at, &[0; SECTOR_BYTES])?;
            self.disk.sync_data()?;
            self.void_at = None;
        }
        Ok(())
    }

    /// Gives out what the records say that the tree does not hold, oldest first, and the position of the last. What is
    /// appended then follows them. `closed` if the tree said that there were none.
    pub(crate) fn find(
        &mut self,
        start: Start,
        closed: bool,
        mut apply: impl FnMut(Position, &[u8], Option<&[u8]>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let damaged = |cause: &str| Error::Damaged { cause: format!("its log {cause}") };
        self.start = start;
        let mut found = Reach { epoch: start.epoch, count: 0 };
        let mut at = start.at;
        if !std::mem::take(&mut self.blank) {
            let mark = self.read_mark();
            self.marked = mark.unwrap_or_default();
            if self.marked.tree_epoch > start.epoch {
                return Err(damaged("is of a later state than the rest"));
            }
            while let Some((place, header, record)) = self.follow(found, at)? {
                at = place + header.record_bytes();
                found = Reach { epoch: header.epoch, count: header.number + 1 };
                let senseless = || Error::Damaged { cause: "a record of its log makes no sense".to_owned() };
                let (position, mut rest) = record.split_first_chunk().ok_or_else(senseless)?;
                let position = Position::from_bytes(position);
                while !rest.is_empty() {
                    let (key, value) = take_entry(&mut rest).ok_or_else(senseless)?;
                    if value.is_some_and(|value| value.len() < CHECKSUM_BYTES) {
                        return Err(senseless());
                    }
                    apply(position, key, value)?;
                }
            }
            let is_closed = closed && found.count == 0 && mark.is_some_and(|mark| mark.newest == start.epoch);
            let beyond = || Ok::<_, Error>(self.marked.reach.is_beyond(found) || self.goes_on(found)?);
            if !is_closed && beyond()? {
                return Err(damaged(&format!("cannot be read from its record {} on", found.count)));
            }
        }
        (self.count, self.synced_count) = (found.count, found.count);
        (self.end, self.synced_end) = (at, at);
        self.epoch = Start { epoch: found.epoch, at: start.at };
        self.before = found;
        self.filled = at;
        self.begin_epoch(self.marked.newest.max(found.epoch))
    }

    /// The record that follows so many of an epoch, which end here; without its header and link.
    fn follow(&self, found: Reach, end: u64) -> io::Result<Option<(u64, Header, Vec<u8>)>> {
        for place in [Some(end), (end > 0).then_some(0)].into_iter().flatten() {
            let Some(header) = self.read_header(place)? else { continue };
            let next = header.epoch == found.epoch && header.number == found.count;
            let begins = header.number == 0 && header.linked && header.epoch > found.epoch;
            if !next && !begins {
                continue;
            }
            // An epoch without records is not told of by the next: it follows on the last one that has some.
            let follows = |link: Reach| link == found || found.count == 0 && link.epoch < found.epoch;
            if let Some((link, payload)) = self.read_record(place, &header)?
                && (next || link.is_some_and(follows))
            {
                return Ok(Some((place, header, payload)));
            }
        }
        Ok(None)
    }

    /// Whether a record somewhere shows that there were more than were found.
    fn goes_on(&self, found: Reach) -> io::Result<bool> {
        let mut chunk = vec![0; SEARCHED_BYTES];
        for start in (0..self.disk.bytes()).step_by(SEARCHED_BYTES) {
            let length = (self.disk.bytes() - start).min(SEARCHED_BYTES as u64) as usize;
            self.read(start, &mut chunk[..length])?;
            for (sector, at) in chunk[..length].chunks(SECTOR_BYTES).zip((start..).step_by(SECTOR_BYTES)) {
                let Some(header) = sector.first_chunk().map(Header::read) else { continue };
                // An epoch begins after the one before it.
                if header.epoch >= found.epoch
                    && self.shown(at, &header)?.is_some_and(|shown| shown.is_beyond(found))
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// What a record shows to have been on disk when it was written.
    fn shown(&self, at: u64, header: &Header) -> io::Result<Option<Reach>> {
        let own = Reach { epoch: header.epoch, count: header.synced_count };
        Ok(self.read_record(at, header)?.map(|(link, _)| link.unwrap_or(own)))
    }

    /// Gives out what whole records say, in their order, and goes on behind those that cannot be read. The tree tells the
    /// epoch where they begin; if it does not, the mark does. Returns how many it gave out, and how many are missing.
    pub(crate) fn replay_whole(
        &mut self,
        first: Option<u64>,
        mut apply: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), Error>,
    ) -> Result<(u64, u64), Error> {
        let mark = self.read_mark();
        let first = first.or(mark.map(|mark| mark.tree_epoch));
        let mut whole = Vec::new();
        // How many records each epoch is known to have had.
        let mut known = std::collections::BTreeMap::<u64, u64>::new();
        let mut know = |reach: Reach| {
            let count = known.entry(reach.epoch).or_default();
            *count = reach.count.max(*count);
        };
        mark.into_iter().for_each(|mark| know(mark.reach));
        let mut at = 0;
        while let Some(header) = self.read_header(at)? {
            let is_wanted = header.epoch >= first.unwrap_or_default().max(1);
            let shown = if is_wanted { self.shown(at, &header)? } else { None };
            at += match shown {
                Some(shown) => {
                    know(shown);
                    let bytes = header.record_bytes();
                    whole.push((at, header));
                    bytes
                }
                None => SECTOR_BYTES as u64,
            };
        }
        whole.sort_by_key(|(_, header)| (header.epoch, header.number));
        // If nothing tells, the newest epoch: what is in those before may be in the tree, and newer values of it in the tree alone.
        let newest =
            || whole.iter().rev().find(|(_, header)| header.linked).map_or(0, |(_, header)| header.epoch);
        let first = first.unwrap_or_else(newest);
        let before = whole.partition_point(|(_, header)| header.epoch < first);
        let (mut replayed, mut missing) = (0, before as u64);
        let mut next = Reach { epoch: first, count: 0 };
        for (at, header) in whole.split_off(before) {
            if header.epoch != next.epoch {
                missing += known.range(next.epoch..header.epoch).map(|(_, count)| count).sum::<u64>()
                    - next.count.min(known.get(&next.epoch).copied().unwrap_or_default());
                next = Reach { epoch: header.epoch, count: 0 };
            }
            let synced = known.get(&header.epoch).copied().unwrap_or_default();
            // One that follows on nothing was once on disk, or counts for nothing.
            if header.number != next.count && !(next.count..synced).contains(&header.number) {
                continue;
            }
            missing += header.number - next.count;
            let payload = self.read_record(at, &header)?.map(|(_, payload)| payload).unwrap_or_default();
            let mut rest = payload.get(Position::BYTES..).unwrap_or_default();
            while let Some((key, value)) = take_entry(&mut rest) {
                apply(key, value)?;
            }
            next.count = header.number + 1;
            replayed += 1;
        }
        missing += known.range(next.epoch..).map(|(_, count)| count).sum::<u64>()
            - next.count.min(known.get(&next.epoch).copied().unwrap_or_default());
        Ok((replayed, missing))
    }

    /// Absent past the end.
    fn read_header(&self, at: u64) -> io::Result<Option<Header>> {
        if at + SECTOR_BYTES as u64 > self.disk.bytes() {
            return Ok(None);
        }
        let mut bytes = [0; HEADER_BYTES];
        self.read(at, &mut bytes)?;
        Ok(Some(Header::read(&bytes)))
    }

    /// What was cut off reads as if it had never been written.
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let there = self.disk.len()?.saturating_sub(at).min(out.len() as u64) as usize;
        let (present, absent) = out.split_at_mut(there);
        absent.fill(0);
        if present.is_empty() { Ok(()) } else { self.disk.read(at, present) }
    }

    /// What it follows, if it tells, and what it says; absent if it is not what was written.
    fn read_record(&self, at: u64, header: &Header) -> io::Result<Option<(Option<Reach>, Vec<u8>)>> {
        let room = self.disk.bytes() - at;
        let link_bytes = if header.linked { LINK_BYTES } else { 0 };
        if header.payload_bytes > room.saturating_sub(HEADER_BYTES as u64)
            || header.payload_bytes < link_bytes as u64
        {
            return Ok(None);
        }
        let mut record = vec![0; HEADER_BYTES + header.payload_bytes as usize];
        self.read(at, &mut record)?;
        if self.key.sum([RECORD, at], &record[8..]) != header.sum {
            return Ok(None);
        }
        let payload = record.split_off(HEADER_BYTES + link_bytes);
        let (words, _) = record[HEADER_BYTES..].as_chunks::<8>();
        let link = match words {
            [epoch, count] => {
                Some(Reach { epoch: u64::from_le_bytes(*epoch), count: u64::from_le_bytes(*count) })
            }
            _ => None,
        };
        Ok(Some((link, payload)))
    }
}

/// Nobody can guess it, and it is none that was used before.
fn later_epoch(epoch: u64) -> Result<u64, Error> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(epoch.saturating_add(1 + u64::from(u32::from_le_bytes(bytes))))
}

struct Header {
    sum: u64,
    payload_bytes: u64,
    /// It begins with what it follows.
    linked: bool,
    epoch: u64,
    number: u64,
    synced_count: u64,
}

impl Header {
    fn read(bytes: &[u8; HEADER_BYTES]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |n: usize| u64::from_le_bytes(words[n]);
        Self {
            sum: word(0),
            payload_bytes: word(1) & !LINKED,
            linked: word(1) & LINKED != 0,
            epoch: word(2),
            number: word(3),
            synced_count: word(4),
        }
    }

    fn record_bytes(&self) -> u64 {
        padded(HEADER_BYTES + self.payload_bytes as usize) as u64
    }
}

fn entries_bytes(changes: &[Changed]) -> usize {
    changes.iter().map(|(key, value)| 8 + key.len() + value.as_ref().map_or(0, |value| value.len())).sum()
}

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(SECTOR_BYTES)
}

pub(crate) fn take_entry<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let (lengths, after) = rest.split_first_chunk::<8>()?;
    let key_bytes = u32::from_le_bytes(*lengths.first_chunk()?) as usize;
    let value_bytes = u32::from_le_bytes(*lengths.last_chunk()?);
    let (key, after) = after.split_at_checked(key_bytes)?;
    if value_bytes == ABSENT {
        *rest = after;
        return Some((key, None));
    }
    let (value, after) = after.split_at_checked(value_bytes as usize)?;
    *rest = after;
    Some((key, Some(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faulty::FaultyDisk;
    use std::sync::Arc;

    #[test]
    fn a_record_with_a_value_that_has_no_checksum_is_damage() {
        let disk: Arc<dyn Disk> = Arc::new(FaultyDisk::default());
        let find = |blank: bool| {
            let [records, mark] =
                [(4096, 65_536), (0, 4096)].map(|(from, to)| Section::between(Arc::clone(&disk), from, to));
            let mut log = Log::new(records, mark, TagKey::Rapid([1, 2, 3, 4]), blank);
            let mut found = Vec::new();
            log.find(Start { epoch: 1, at: 0 }, false, |_, key, _| {
                found.push(key.to_vec());
                Ok(())
            })
            .map(|()| (log, found))
        };
        let mut log = find(true).unwrap().0;
        let entry = |key: &[u8], value: &[u8]| [(Arc::from(key), Some(Arc::new(value.to_vec())))];
        log.append(Position::default(), &entry(b"one", &[0; 4])).unwrap();
        assert_eq!(find(false).unwrap().1, [b"one"]);
        log.append(Position::default(), &entry(b"other", &[0; 3])).unwrap();
        assert!(matches!(find(false), Err(Error::Damaged { .. })));
    }
}
