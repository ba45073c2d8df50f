//! The log before the tree: what makes a write durable with one short append.
//!
//! A commit of the tree writes every page on the way to each change. So a group of batches is appended
//! here instead, as one record, and synced; the tree takes it in memory only. At a checkpoint (the log
//! is full, or nobody writes) the tree is written out once for all of it, and the log begins anew.
//!
//! The tree holds the number of the epoch that began with its last checkpoint; the first is a random one,
//! so that no value in an old record can pass for a later record. Records of that epoch are not in the
//! tree's pages yet and are replayed when it is opened; all others are void. A record says what its keys
//! hold afterwards, so that replaying twice does no harm.
//!
//! A record that was cut short by a crash ends the log, because nothing after it was acknowledged. Each
//! record tells how many before it were on disk: if one of those cannot be read, the log is damaged, and
//! that is an error rather than its end. After the last record, when nobody writes for a moment, a mark elsewhere
//! tells the same. The mark also tells of every epoch that has begun, so that a tree which was put back to one before
//! is found.
//!
//! Records are checked by a keyed hash over what they say and where they are.

use crate::batch::Changed;
use crate::checked::TagKey;
use crate::medium::Section;
use crate::{Disk, Error, Position};
use std::io;

/// A record begins on a sector of its own: writing it touches none that is already safe.
const SECTOR_BYTES: usize = 512;
const HEADER_BYTES: usize = 40;
/// How far ahead of its end the log is filled with zeros: overwriting is faster than growing.
const FILL_BYTES: u64 = 256 << 10;
/// What is read at once when the log is searched.
const SEARCHED_BYTES: usize = 256 << 10;
/// Memory that is kept for the next record.
const BUFFER_KEPT_BYTES: usize = 1 << 20;
const ABSENT: u32 = u32::MAX;
/// What the hash of a record is of, and that of the mark, beside their places.
const RECORD: u64 = 5;
const MARK: u64 = 6;
const MARK_BYTES: usize = 24;

#[derive(Debug)]
pub(crate) struct Log {
    disk: Section,
    /// Where the mark is.
    reach: Section,
    key: TagKey,
    epoch: u64,
    /// Records of this epoch.
    count: u64,
    end: u64,
    /// Of those, the ones that a sync covered.
    synced_count: u64,
    synced_end: u64,
    /// Up to where bytes were written since the log was opened.
    filled: u64,
    /// Nothing more is appended in this epoch.
    full: bool,
    /// There is nothing to find.
    blank: bool,
    /// How many records the mark tells of.
    marked: u64,
    record: Vec<u8>,
}

impl Log {
    /// `blank` if it is known that nothing was ever written to it.
    pub(crate) fn new(disk: Section, reach: Section, key: TagKey, blank: bool) -> Self {
        Self {
            disk,
            reach,
            key,
            epoch: 0,
            count: 0,
            end: 0,
            synced_count: 0,
            synced_end: 0,
            filled: 0,
            full: false,
            blank,
            marked: 0,
            record: Vec::new(),
        }
    }

    /// Room for records.
    pub(crate) fn bytes(&self) -> u64 {
        self.disk.bytes()
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether there has never been a record.
    pub(crate) fn is_unused(&self) -> io::Result<bool> {
        Ok(self.read_header(0)?.is_none_or(|first| first.epoch == 0))
    }

    /// Begins an epoch that the tree on disk has begun.
    pub(crate) fn begin(&mut self, epoch: u64) {
        self.epoch = epoch;
        (self.count, self.end) = (0, 0);
        (self.synced_count, self.synced_end) = (0, 0);
        self.marked = 0;
        self.full = false;
    }

    /// Makes the next record: what each key holds from it on, and the position that this is.
    pub(crate) fn record(&mut self, position: Position, changes: &[Changed]) {
        self.record.clear();
        self.record.shrink_to(BUFFER_KEPT_BYTES);
        self.record.resize(HEADER_BYTES, 0);
        self.record.extend_from_slice(&position.to_bytes());
        for (key, value) in changes {
            self.record.extend_from_slice(&(key.len() as u32).to_le_bytes());
            let length = value.as_ref().map_or(ABSENT, |value| value.len() as u32);
            self.record.extend_from_slice(&length.to_le_bytes());
            self.record.extend_from_slice(key);
            self.record.extend_from_slice(value.as_deref().map_or(&[], Vec::as_slice));
        }
    }

    /// Whether the record can be appended; if not, only a checkpoint makes it durable.
    pub(crate) fn has_room(&self) -> bool {
        !self.full && self.end + padded(self.record.len()) as u64 <= self.disk.bytes()
    }

    /// Writes the record. After an error everything since the last sync is void.
    pub(crate) fn append(&mut self) -> io::Result<()> {
        self.try_append().inspect_err(|_| self.distrust())
    }

    fn try_append(&mut self) -> io::Result<()> {
        let payload = self.record.len() - HEADER_BYTES;
        let words = [payload as u64, self.epoch, self.count, self.synced_count].map(u64::to_le_bytes);
        self.record[8..HEADER_BYTES].copy_from_slice(words.as_flattened());
        let sum = self.key.sum([RECORD, self.end], &self.record[8..]);
        self.record[..8].copy_from_slice(&sum.to_le_bytes());
        self.record.resize(padded(self.record.len()), 0);

        let end = self.end + self.record.len() as u64;
        if end > self.filled {
            let filled = (end + FILL_BYTES).min(self.disk.bytes());
            self.disk.write(end, &vec![0; (filled - end) as usize])?;
            self.filled = filled;
        }
        self.disk.write(self.end, &self.record)?;
        (self.count, self.end) = (self.count + 1, end);
        Ok(())
    }

    /// Makes every record durable. After an error those since the last sync are void.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.disk.sync_data().inspect_err(|_| self.distrust())?;
        (self.synced_count, self.synced_end) = (self.count, self.end);
        Ok(())
    }

    /// Whether the mark does not tell of the last record.
    pub(crate) fn wants_mark(&self) -> bool {
        self.synced_count > self.marked
    }

    /// Tells, apart from the records, how many of them are on disk. It need not be synced: it says nothing that is not so.
    pub(crate) fn mark(&mut self) {
        let words = [self.epoch, self.synced_count].map(u64::to_le_bytes).concat();
        let sum = self.key.sum([MARK, 0], &words);
        let mut sector = [&words[..], &sum.to_le_bytes()].concat();
        sector.resize(SECTOR_BYTES, 0);
        // If it fails, the last record is as safe as it was.
        let _ = self.reach.write(0, &sector);
        self.marked = self.synced_count;
    }

    /// How many records of this epoch were once on disk, as far as the mark knows.
    fn marked(&self) -> u64 {
        self.read_mark().filter(|(epoch, _)| *epoch == self.epoch).map_or(0, |(_, count)| count)
    }

    /// The epoch that the mark is of, and how many records it had. Absent if it is not what was written.
    fn read_mark(&self) -> Option<(u64, u64)> {
        let mut bytes = [0; MARK_BYTES];
        self.reach.read(0, &mut bytes).ok()?;
        let (words, _) = bytes.as_chunks::<8>();
        let [epoch, count, sum] = [0, 1, 2].map(|n| u64::from_le_bytes(words[n]));
        (self.key.sum([MARK, 0], &bytes[..16]) == sum).then_some((epoch, count))
    }

    /// Whether an epoch after this one has begun.
    fn is_behind(&self) -> io::Result<bool> {
        let marked = self.read_mark().is_some_and(|(epoch, _)| epoch > self.epoch);
        Ok(marked
            || self.read_header(0)?.is_some_and(|first| first.epoch > self.epoch && self.is_whole(0, &first)))
    }

    /// Makes void what the last sync did not cover, as far as the disk lets it: the answer is whether that is certain.
    pub(crate) fn void(&mut self) -> bool {
        let end = self.synced_end;
        self.distrust();
        if end + SECTOR_BYTES as u64 > self.disk.bytes() {
            return true;
        }
        self.disk.write(end, &[0; SECTOR_BYTES]).and_then(|()| self.disk.sync_data()).is_ok()
    }

    /// Forgets what may not be on disk. Bytes of it may be there all the same, until the next epoch.
    pub(crate) fn distrust(&mut self) {
        (self.count, self.end) = (self.synced_count, self.synced_end);
        self.full = true;
    }

    /// Finds the records of `epoch` that an earlier process left. Until the next epoch nothing is added.
    pub(crate) fn find(&mut self, epoch: u64) -> Result<(), Error> {
        self.begin(epoch);
        if std::mem::take(&mut self.blank) {
            return Ok(());
        }
        let damaged = |cause: &str| Error::Damaged { cause: format!("its log {cause}") };
        if self.is_behind()? {
            return Err(damaged("is of a later state than the rest"));
        }
        while let Some(header) = self.read_header(self.end)? {
            if header.epoch != epoch || header.number != self.count || !self.is_whole(self.end, &header) {
                break;
            }
            self.count += 1;
            self.end += header.record_bytes();
        }
        if self.goes_on()? || self.marked() > self.count {
            return Err(damaged(&format!("cannot be read from its record {} on", self.count)));
        }
        (self.synced_count, self.synced_end) = (self.count, self.end);
        // Also if there are none: those that followed a lost one may be there, and must not follow another.
        self.full = true;
        Ok(())
    }

    /// Whether a record after the end was written when one that cannot be read was on disk.
    fn goes_on(&self) -> io::Result<bool> {
        let mut chunk = vec![0; SEARCHED_BYTES];
        let mut start = self.end + SECTOR_BYTES as u64;
        while start < self.disk.bytes() {
            let length = (self.disk.bytes() - start).min(SEARCHED_BYTES as u64) as usize;
            self.read(start, &mut chunk[..length])?;
            for (sector, at) in chunk[..length].chunks(SECTOR_BYTES).zip((start..).step_by(SECTOR_BYTES)) {
                let Some(header) = sector.first_chunk().map(Header::read) else { continue };
                if header.epoch == self.epoch
                    && header.synced_count > self.count
                    && self.is_whole(at, &header)
                {
                    return Ok(true);
                }
            }
            start += length as u64;
        }
        Ok(false)
    }

    /// Takes over a log that is known to be empty. Its epoch is left for the next all the same, so that it is
    /// known only once.
    pub(crate) fn begin_known(&mut self, epoch: u64) -> Result<(), Error> {
        self.begin(epoch);
        self.full = true;
        if self.is_behind()? {
            return Err(Error::Damaged { cause: "its log is of a later state than the rest".to_owned() });
        }
        Ok(())
    }

    /// Gives out what the records say, oldest first, and the position of the last.
    pub(crate) fn replay(
        &self,
        mut apply: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), Error>,
    ) -> Result<Option<Position>, Error> {
        let mut at = 0;
        let mut last = None;
        for number in 0..self.count {
            let header = self.read_header(at)?.filter(|header| header.number == number);
            let record = match header {
                Some(header) => self.read_record(at, &header)?,
                None => None,
            };
            let Some(record) = record else {
                return Err(Error::Damaged { cause: format!("its log has no record {number}") });
            };
            at += padded(record.len()) as u64;
            let senseless = || Error::Damaged { cause: "a record of its log makes no sense".to_owned() };
            let (position, mut rest) = record[HEADER_BYTES..].split_first_chunk().ok_or_else(senseless)?;
            last = Some(Position::from_bytes(position));
            while !rest.is_empty() {
                let (key, value) = take_entry(&mut rest).ok_or_else(senseless)?;
                apply(key, value)?;
            }
        }
        Ok(last)
    }

    /// Gives out what whole records of an epoch say, in their order, and goes on behind those that cannot be read.
    /// Returns how many it gave out, and how many are known to be missing.
    pub(crate) fn replay_whole(
        &mut self,
        epoch: u64,
        mut apply: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), Error>,
    ) -> Result<(u64, u64), Error> {
        self.begin(epoch);
        let mut whole = Vec::new();
        let mut at = 0;
        while let Some(header) = self.read_header(at)? {
            if header.epoch == epoch && self.is_whole(at, &header) {
                whole.push((at, header));
            }
            at += whole
                .last()
                .filter(|(last, _)| *last == at)
                .map_or(SECTOR_BYTES as u64, |(_, header)| header.record_bytes());
        }
        let synced = whole.iter().map(|(_, header)| header.synced_count).fold(self.marked(), u64::max);
        let (mut next, mut replayed) = (0, 0);
        for (at, header) in whole {
            // One that follows on nothing was once on disk, or counts for nothing.
            if header.number != next && !(next..synced).contains(&header.number) {
                continue;
            }
            let record = self.read_record(at, &header)?.unwrap_or_default();
            let mut rest = record.get(HEADER_BYTES + Position::BYTES..).unwrap_or_default();
            while let Some((key, value)) = take_entry(&mut rest) {
                apply(key, value)?;
            }
            next = header.number + 1;
            replayed += 1;
        }
        Ok((replayed, next.max(synced) - replayed))
    }

    /// The epoch of the newest record that can be read.
    pub(crate) fn newest_epoch(&self) -> Result<Option<u64>, Error> {
        let mut newest = None;
        for at in (0..self.disk.bytes()).step_by(SECTOR_BYTES) {
            if let Some(header) = self.read_header(at)?
                && Some(header.epoch) > newest
                && self.is_whole(at, &header)
            {
                newest = Some(header.epoch);
            }
        }
        Ok(newest)
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

    fn is_whole(&self, at: u64, header: &Header) -> bool {
        self.read_record(at, header).is_ok_and(|record| record.is_some())
    }

    /// Header and payload; absent if they are not what was written.
    fn read_record(&self, at: u64, header: &Header) -> io::Result<Option<Vec<u8>>> {
        let room = self.disk.bytes() - at;
        if header.payload_bytes > room.saturating_sub(HEADER_BYTES as u64) {
            return Ok(None);
        }
        let mut record = vec![0; HEADER_BYTES + header.payload_bytes as usize];
        self.read(at, &mut record)?;
        Ok(Some(record).filter(|record| self.key.sum([RECORD, at], &record[8..]) == header.sum))
    }
}

struct Header {
    sum: u64,
    payload_bytes: u64,
    epoch: u64,
    number: u64,
    synced_count: u64,
}

impl Header {
    fn read(bytes: &[u8; HEADER_BYTES]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |n: usize| u64::from_le_bytes(words[n]);
        Self { sum: word(0), payload_bytes: word(1), epoch: word(2), number: word(3), synced_count: word(4) }
    }

    fn record_bytes(&self) -> u64 {
        padded(HEADER_BYTES + self.payload_bytes as usize) as u64
    }
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
