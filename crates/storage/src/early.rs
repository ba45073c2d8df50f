//! Stores of the formats before 3, which had no tags: read once, and copied into a new file.
//!
//! Format 1 is redb's file alone. Format 2 has a header of 4 KiB with the wrapped data key in two slots, the log, and
//! the tree; a record of its log is checked by CRC-32 and has no position.

use crate::absorb::{CLOSED_KEY, DATA, EPOCH_KEY, FORMAT};
use crate::batch::Batch;
use crate::file::{begin, unsummed};
use crate::log::take_entry;
use crate::medium::{Base, Medium, Section};
use crate::panic::contain_panic;
use crate::sealed::{DataKey, Key, Sealed, WRAPPED_BYTES};
use crate::{Disk, Error, Store, checksum};
use redb::{Database, ReadableDatabase, ReadableTable};
use std::sync::Arc;

pub(crate) const TREE_MARK: [u8; 8] = *b"redb\x1a\n\xa9\r";
pub(crate) const VERSION: u64 = 2;
const HEAD_BYTES: u64 = 4096;
const HEADER_BYTES: usize = 44;
const SLOTS: [u64; 2] = [512, 1024];
const SLOT_BYTES: usize = 8 + WRAPPED_BYTES + 4;
const SECTOR_BYTES: usize = 512;
const RECORD_HEADER_BYTES: usize = 36;
/// What is written to the new store at once.
const COPIED_BYTES: usize = 4 << 20;
const CACHE_BYTES: usize = 64 << 20;

/// Copies everything that a disk of an early format holds, and leaves it as it was. No other process may have it.
pub(crate) fn copy(disk: Arc<dyn Disk>, key: Option<Key>, to: &Store) -> Result<(), Error> {
    let (log, tree) = parts(disk, key)?;
    let medium = Medium::read_only(Base::Plain(tree), None)?;
    contain_panic(|| {
        let database =
            redb::Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(medium.lease())?;
        if let Some(log) = log {
            replay(&database, &log)?;
        }
        let table = database.begin_read()?.open_table(DATA)?;
        let mut batch = Batch::default();
        for entry in table.iter()? {
            let (key, value) = entry?;
            let (key, value) = (key.value(), value.value());
            batch.put(key.to_vec(), value[..checksum::verify(key, value)?].to_vec());
            if batch.bytes() > COPIED_BYTES {
                to.write(std::mem::take(&mut batch))?;
            }
        }
        to.write(batch)
    })
}

/// The log, if there is one, and the tree.
fn parts(disk: Arc<dyn Disk>, key: Option<Key>) -> Result<(Option<Section>, Section), Error> {
    let damaged = |what: &str| Error::Damaged { cause: format!("its header {what}") };
    let header: [u8; HEADER_BYTES] = begin(&*disk)?;
    if header[..8] == TREE_MARK {
        return match key {
            None => Ok((None, Section::from(disk, 0))),
            Some(_) => Err(Error::NotSealed),
        };
    }
    let fields = unsummed(&header).ok_or_else(|| damaged("does not match its checksum"))?;
    let (words, _) = fields.as_chunks::<8>();
    let [log_bytes, sealed] = [2, 3].map(|n: usize| u64::from_le_bytes(words[n]));
    let disk = match (sealed == 1, key) {
        (false, None) => disk,
        (true, None) => return Err(Error::Sealed),
        (false, Some(_)) => return Err(Error::NotSealed),
        (true, Some(key)) => {
            let wrapped = newest_slot(&*disk)?.ok_or_else(|| damaged("has no data key that can be read"))?;
            let data_key = DataKey::unwrap(&wrapped, key).ok_or(Error::WrongKey)?;
            Arc::new(Sealed::new(disk, HEAD_BYTES, &data_key)) as Arc<dyn Disk>
        }
    };
    let tree = HEAD_BYTES.checked_add(log_bytes).ok_or_else(|| damaged("makes no sense"))?;
    if disk.len()? <= tree {
        return Err(Error::Damaged { cause: "it was cut short".to_owned() });
    }
    let log = Section::between(Arc::clone(&disk), HEAD_BYTES, tree);
    Ok((Some(log), Section::from(disk, tree)))
}

fn newest_slot(disk: &dyn Disk) -> Result<Option<[u8; WRAPPED_BYTES]>, Error> {
    let mut slots = Vec::new();
    for place in SLOTS {
        let mut bytes = [0; SLOT_BYTES];
        disk.read(place, &mut bytes)?;
        if let Some((number, wrapped)) = unsummed(&bytes).and_then(<[u8]>::split_first_chunk)
            && let Some(wrapped) = wrapped.as_array()
        {
            slots.push((u64::from_le_bytes(*number), *wrapped));
        }
    }
    Ok(slots.into_iter().max_by_key(|(number, _)| *number).map(|(_, wrapped)| wrapped))
}

/// Brings the tree, in memory, to where the log ends.
fn replay(database: &Database, log: &Section) -> Result<(), Error> {
    let format = database.begin_read()?.open_table(FORMAT)?;
    let number = |key: &str| Ok::<_, Error>(format.get(key)?.map_or(0, |number| number.value()));
    let epoch = number(EPOCH_KEY)?;
    if number(CLOSED_KEY)? == 1 {
        return Ok(());
    }
    let mut transaction = database.begin_write()?;
    transaction.set_durability(redb::Durability::None)?;
    {
        let mut table = transaction.open_table(DATA)?;
        let mut at = 0;
        let mut count = 0;
        while let Some(record) =
            read_record(log, at)?.filter(|record| (record.epoch, record.number) == (epoch, count))
        {
            at += (RECORD_HEADER_BYTES + record.payload.len()).next_multiple_of(SECTOR_BYTES) as u64;
            count += 1;
            let mut rest = &record.payload[..];
            while !rest.is_empty() {
                match take_entry(&mut rest) {
                    Some((key, Some(value))) => drop(table.insert(key, value)?),
                    Some((key, None)) => drop(table.remove(key)?),
                    None => {
                        return Err(Error::Damaged {
                            cause: "a record of its log makes no sense".to_owned(),
                        });
                    }
                }
            }
        }
        // A record behind the end that was written when one that cannot be read was on disk.
        for at in (at..log.bytes()).step_by(SECTOR_BYTES) {
            if read_record(log, at)?
                .is_some_and(|record| record.epoch == epoch && record.synced_count > count)
            {
                return Err(Error::Damaged {
                    cause: format!("its log cannot be read from its record {count} on"),
                });
            }
        }
    }
    Ok(transaction.commit()?)
}

struct Record {
    epoch: u64,
    number: u64,
    synced_count: u64,
    payload: Vec<u8>,
}

/// Absent if what is there is none.
fn read_record(log: &Section, at: u64) -> Result<Option<Record>, Error> {
    let room = log.bytes().saturating_sub(at);
    if room < SECTOR_BYTES as u64 {
        return Ok(None);
    }
    let mut header = [0; RECORD_HEADER_BYTES];
    log.read(at, &mut header)?;
    let (sum, words) = header.split_first_chunk::<4>().expect("a header is longer than its sum");
    let (words, _) = words.as_chunks::<8>();
    let [payload_bytes, epoch, number, synced_count] =
        [0, 1, 2, 3].map(|n: usize| u64::from_le_bytes(words[n]));
    if epoch == 0 || payload_bytes > room.saturating_sub(RECORD_HEADER_BYTES as u64) {
        return Ok(None);
    }
    let mut record = vec![0; RECORD_HEADER_BYTES + payload_bytes as usize];
    log.read(at, &mut record)?;
    let whole = crc32fast::hash(&record[4..]) == u32::from_le_bytes(*sum);
    Ok(whole.then(|| Record { epoch, number, synced_count, payload: record.split_off(RECORD_HEADER_BYTES) }))
}
