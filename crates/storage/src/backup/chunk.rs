//! Entries in key order, cut into chunks.
//!
//! Where a chunk ends is decided by the key and the size of its last entry alone. So what is put in, changed or
//! deleted somewhere changes the chunk it is in, and every other chunk of the next backup is one that the last had.
//! The chance to end at an entry is proportional to its size: chunks are about equally large whatever the entries
//! are.
//!
//! A chunk's content is, for every entry, the lengths of key and value (32 bits each), the key and the value.

use super::vault::{Hash, hex};
use crate::{Error, Lost, Piece, Pieces, Snapshot};
use std::fmt;
use std::ops::Bound::Unbounded;

/// What a chunk has at least, on average beyond that, and at most unless one entry is larger.
const BYTES_MIN: usize = 256 << 10;
const BYTES_MORE: u64 = 768 << 10;
const BYTES_MAX: usize = 4 << 20;
const LENGTHS_BYTES: usize = 8;

/// A piece of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Of its content.
    pub hash: Hash,
    pub entries: u64,
    /// Of its content.
    pub bytes: u64,
    pub first_key: Vec<u8>,
    pub last_key: Vec<u8>,
}

/// A chunk with its content.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) chunk: Chunk,
    pub(crate) content: Vec<u8>,
}

/// Cuts entries into chunks.
#[derive(Debug, Default)]
pub(crate) struct Cutter {
    content: Vec<u8>,
    entries: u64,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
}

impl Cutter {
    /// Takes the next entry; gives the chunk that it ends.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Option<Cut> {
        if self.entries == 0 {
            self.first_key = key.to_vec();
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.entries += 1;
        self.content.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.content.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.content.extend_from_slice(key);
        self.content.extend_from_slice(value);
        let entry_bytes = (LENGTHS_BYTES + key.len() + value.len()) as u64;
        let ends =
            self.content.len() >= BYTES_MAX || self.content.len() >= BYTES_MIN && ends_at(key, entry_bytes);
        if ends { self.finish() } else { None }
    }

    /// What is left.
    pub(crate) fn finish(&mut self) -> Option<Cut> {
        if self.entries == 0 {
            return None;
        }
        let room = Vec::with_capacity(self.content.len());
        let content = std::mem::replace(&mut self.content, room);
        let chunk = Chunk {
            hash: Hash::of(&[&content]),
            entries: std::mem::take(&mut self.entries),
            bytes: content.len() as u64,
            first_key: std::mem::take(&mut self.first_key),
            last_key: std::mem::take(&mut self.last_key),
        };
        Some(Cut { chunk, content })
    }
}

fn ends_at(key: &[u8], entry_bytes: u64) -> bool {
    // FNV-1a, then mixed: cheap, and its meaning can never change with a library's version.
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) * BYTES_MORE < entry_bytes << 32
}

/// The entries of a content, or what is wrong with it. Keys rise.
pub(crate) fn entries(content: &[u8]) -> Entries<'_> {
    Entries { rest: content, last: None }
}

pub(crate) struct Entries<'a> {
    rest: &'a [u8],
    last: Option<&'a [u8]>,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let Some((key, value, rest)) = take_entry(self.rest) else {
            self.rest = &[];
            return Some(Err("its entries make no sense"));
        };
        let falls = self.last.is_some_and(|last| last >= key);
        (self.rest, self.last) = (rest, Some(key));
        Some(if falls { Err("its keys are not in order") } else { Ok((key, value)) })
    }
}

fn take_entry(content: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (lengths, rest) = content.split_first_chunk::<LENGTHS_BYTES>()?;
    let length = |bytes: Option<&[u8; 4]>| bytes.map(|bytes| u32::from_le_bytes(*bytes) as usize);
    let (key, rest) = rest.split_at_checked(length(lengths.first_chunk())?)?;
    let (value, rest) = rest.split_at_checked(length(lengths.last_chunk())?)?;
    Some((key, value, rest))
}

/// Checks a content against what is known of it.
pub(crate) fn check(chunk: &Chunk, content: &[u8]) -> Result<(), &'static str> {
    if Hash::of(&[content]) != chunk.hash {
        return Err("it is not what was written");
    }
    let (mut count, mut last) = (0, None);
    for entry in entries(content) {
        let (key, _) = entry?;
        if count == 0 && key != chunk.first_key {
            return Err("it begins with another key");
        }
        (count, last) = (count + 1, Some(key));
    }
    if count != chunk.entries || last.is_some_and(|last| last != chunk.last_key) {
        return Err("it holds other entries than the manifest says");
    }
    Ok(())
}

/// Cuts a snapshot. What is damaged in it is an error, or is left out and listed.
pub(crate) struct Cuts {
    pieces: Option<Pieces>,
    cutter: Cutter,
    skip_damage: bool,
    pub(crate) skipped: Vec<Skipped>,
}

/// Something that a backup does not have because it could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The key, or the first that could not be read.
    pub key: Vec<u8>,
    pub cause: String,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the value at key {}: {}", hex(&self.key), self.cause)
    }
}

impl Cuts {
    pub(crate) fn new(snapshot: &Snapshot, skip_damage: bool) -> Self {
        let pieces = Some(snapshot.pieces(Unbounded, Unbounded, true));
        Self { pieces, cutter: Cutter::default(), skip_damage, skipped: Vec::new() }
    }
}

impl Iterator for Cuts {
    type Item = Result<Cut, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let error = match self.pieces.as_mut()?.next() {
                Some(Ok(Piece::Entry(key, value))) => match self.cutter.push(&key, &value) {
                    Some(cut) => return Some(Ok(cut)),
                    None => continue,
                },
                Some(Ok(Piece::Lost(lost))) if self.skip_damage => {
                    self.skipped.push(skipped(lost));
                    continue;
                }
                Some(Ok(Piece::Lost(Lost::Value { key, cause }))) => Error::Corrupt { key, cause },
                Some(Ok(Piece::Lost(lost))) => {
                    let Skipped { key, cause } = skipped(lost);
                    Error::Damaged { cause: format!("at key {}: {cause}", hex(&key)) }
                }
                Some(Err(error)) => error,
                None => {
                    self.pieces = None;
                    return self.cutter.finish().map(Ok);
                }
            };
            self.pieces = None;
            return Some(Err(error));
        }
    }
}

fn skipped(lost: Lost) -> Skipped {
    match lost {
        Lost::Value { key, cause } => Skipped { key, cause: cause.to_owned() },
        Lost::Keys { from, before } => {
            let end = before.map_or("the end".to_owned(), |before| format!("before {}", hex(&before)));
            Skipped {
                key: from,
                cause: format!("a page of the tree cannot be read: everything from this key to {end}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(entries: impl Iterator<Item = (u32, usize)>) -> Vec<Chunk> {
        let mut cutter = Cutter::default();
        let mut chunks = Vec::new();
        for (key, bytes) in entries {
            chunks.extend(cutter.push(&key.to_be_bytes(), &vec![7; bytes]));
        }
        chunks.extend(cutter.finish());
        chunks.into_iter().map(|cut| cut.chunk).collect()
    }

    #[test]
    fn chunks_are_about_a_mebibyte_whatever_the_entries_are() {
        for (entries, bytes) in [(400_000, 60), (40_000, 1_000), (400, 100_000)] {
            let chunks = cuts((0..entries).map(|key| (key, bytes)));
            let mean = chunks.iter().map(|chunk| chunk.bytes).sum::<u64>() / chunks.len() as u64;
            assert!((700 << 10..1_500 << 10).contains(&mean), "{bytes}: {mean}");
            let largest = chunks.iter().map(|chunk| chunk.bytes).max().unwrap();
            assert!(largest <= (BYTES_MAX + bytes + 12) as u64);
        }
    }

    #[test]
    fn an_entry_more_or_less_changes_the_chunk_it_is_in_and_at_most_the_next() {
        let before = cuts((0..20_000).filter(|key| *key != 7_777).map(|key| (key, 1_000)));
        let after = cuts((0..20_000).map(|key| (key, 1_000)));
        let new = after.iter().filter(|chunk| !before.contains(chunk)).count();
        assert!((1..=2).contains(&new), "{new} of {}", after.len());
    }

    #[test]
    fn a_content_that_is_cut_or_out_of_order_is_found() {
        let mut cutter = Cutter::default();
        cutter.push(b"a", b"1");
        cutter.push(b"b", b"2");
        let cut = cutter.finish().unwrap();
        assert_eq!(check(&cut.chunk, &cut.content), Ok(()));
        assert!(check(&cut.chunk, &cut.content[..5]).is_err());
        assert!(entries(&cut.content[..cut.content.len() - 1]).any(|entry| entry.is_err()));
        let mut swapped = cut.content[cut.content.len() / 2..].to_vec();
        swapped.extend_from_slice(&cut.content[..cut.content.len() / 2]);
        assert!(entries(&swapped).any(|entry| entry == Err("its keys are not in order")));
    }
}
