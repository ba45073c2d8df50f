//! A segment of an archive: committed groups in a row, in frames that are written and checked as one.
//!
//! ```text
//! header   mark, format (8 bits), line (64 bits), the position before the first group, salt (16 bytes), checksum (32 bytes)
//! frame    mark, length of the body (32 bits), checksum of the frame before (32 bytes), the position of its last
//!          group, checksum (32 bytes), body
//! body     the groups: position, number of changes (32 bits), and for each lengths of key and value, key, value
//! ```
//!
//! A frame's checksum covers the segment's salt and the checksum of the frame before, so frames cannot change places;
//! in an encrypted archive it is keyed and the body is encrypted. A segment that was being written when the machine stopped
//! may end within a frame; one that goes on after a frame that cannot be read is damaged.
//!
//! Its name tells the line, the commit before its first, some of its salt, and which Larder began it. The header is the same in
//! every format.

use crate::backup::{CONTENT_BYTES_MAX, Folder, Growing, Hash, Vault, fill, hex, newer, read_part, unfit};
use crate::version::{self, Found, Kind, LARDER, SEGMENT};
use crate::{Committed, Error, Position};
use std::fs::File;
use std::path::{Path, PathBuf};

const MARK: [u8; 7] = *b"LARSEG\n";
const FRAME_MARK: [u8; 8] = *b"LARFRAME";
const SALT_BYTES: usize = 16;
const SUM_BYTES: usize = 32;
const HEADER_BYTES: usize = MARK.len() + 1 + 8 + Position::BYTES + SALT_BYTES + SUM_BYTES;
const FRAME_BYTES: usize = 8 + 4 + SUM_BYTES + Position::BYTES + SUM_BYTES;
/// What a frame holds before it is ended.
const CONTENT_BYTES: usize = 1 << 20;
const ABSENT: u32 = u32::MAX;

/// A segment that is being written.
#[derive(Debug)]
pub(crate) struct Segment {
    file: Growing,
    vault: Vault,
    salt: [u8; SALT_BYTES],
    previous: Hash,
    pub(crate) bytes: u64,
}

impl Segment {
    pub(crate) fn begin(folder: &Folder, vault: &Vault, line: u64, after: Position) -> Result<Self, Error> {
        let mut salt = [0; SALT_BYTES];
        fill(&mut salt)?;
        let name = name(line, after.commit, &salt);
        let mut file = folder.begin(&name)?;
        let mut header = MARK.to_vec();
        header.push(SEGMENT);
        header.extend_from_slice(&line.to_le_bytes());
        header.extend_from_slice(&after.to_bytes());
        header.extend_from_slice(&salt);
        let sum = vault.sum(&[&header]);
        header.extend_from_slice(&sum.0);
        if let Err(error) = file.append(&header) {
            // Nothing is in it, and there will be one at every attempt.
            let _ = folder.remove(&name);
            return Err(error);
        }
        Ok(Self { file, vault: vault.clone(), salt, previous: sum, bytes: header.len() as u64 })
    }

    /// Writes groups, which follow those before.
    pub(crate) fn append<'a>(&mut self, groups: impl Iterator<Item = &'a Committed>) -> Result<(), Error> {
        let mut content = Vec::new();
        let mut last = None;
        for group in groups {
            encode(group, &mut content);
            last = Some(group.position);
            if content.len() >= CONTENT_BYTES {
                self.frame(group.position, &content)?;
                content.clear();
                last = None;
            }
        }
        match last {
            Some(last) => self.frame(last, &content),
            None => Ok(()),
        }
    }

    /// Notes that nothing was committed after `position` up to its time.
    pub(crate) fn mark(&mut self, position: Position) -> Result<(), Error> {
        self.frame(position, &[])
    }

    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        self.file.sync()
    }

    fn frame(&mut self, last: Position, content: &[u8]) -> Result<(), Error> {
        let body = self.vault.close(&label(&self.salt, &self.previous), content)?;
        let mut frame = FRAME_MARK.to_vec();
        frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
        frame.extend_from_slice(&self.previous.0);
        frame.extend_from_slice(&last.to_bytes());
        let sum = self.vault.sum(&[&self.salt, &frame, &body]);
        frame.extend_from_slice(&sum.0);
        frame.extend_from_slice(&body);
        self.file.append(&frame)?;
        self.previous = sum;
        self.bytes += frame.len() as u64;
        Ok(())
    }
}

fn label(salt: &[u8], previous: &Hash) -> Vec<u8> {
    [b"segment", salt, &previous.0].concat()
}

fn encode(group: &Committed, content: &mut Vec<u8>) {
    content.extend_from_slice(&group.position.to_bytes());
    content.extend_from_slice(&(group.changes.len() as u32).to_le_bytes());
    for (key, value) in group.changes() {
        content.extend_from_slice(&(key.len() as u32).to_le_bytes());
        content.extend_from_slice(&value.map_or(ABSENT, |value| value.len() as u32).to_le_bytes());
        content.extend_from_slice(key);
        content.extend_from_slice(value.unwrap_or_default());
    }
}

/// Names sort in the order of what they hold.
fn name(line: u64, after: u64, salt: &[u8; SALT_BYTES]) -> String {
    format!("{line:010}-{after:020}-{}-{LARDER}", hex(&salt[..4]))
}

/// Who began the segment of this name, if it tells.
fn writer(name: &str) -> Option<String> {
    version::version(name.splitn(4, '-').nth(3)?)
}

/// What segments say of themselves, without the key.
pub(crate) fn told(folder: &Folder) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    for Named { name, .. } in named(folder)? {
        let path = folder.file(&name);
        let mut file = File::open(&path).map_err(|error| unfit(&path, &error.to_string()))?;
        // Of one without a header nothing was written; of one with another, the archive's own reader tells.
        if let Some([format]) = read_part(&mut file, &path, 0, MARK.len() + 1)?.strip_prefix(&MARK) {
            let format = u64::from(*format);
            found.push(Found { path, kind: Kind::Segment, format, writer: writer(&name) });
        }
    }
    Ok(found)
}

/// A segment by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Named {
    pub(crate) line: u64,
    /// The number of the commit before its first.
    pub(crate) after: u64,
    pub(crate) name: String,
}

/// The segments in a folder, in order.
pub(crate) fn named(folder: &Folder) -> Result<Vec<Named>, Error> {
    let read = |name: &String| {
        let mut parts = name.splitn(3, '-');
        let (line, after) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Named { line, after, name: name.clone() })
    };
    let mut found: Vec<Named> = folder.names()?.iter().filter_map(read).collect();
    found.sort();
    Ok(found)
}

/// Whether all that a segment holds was committed up to `commit`: a later one begins there, or before. Several can begin at
/// the same commit, where attempts failed, and any of them can be the one that goes on.
pub(crate) fn is_before(of_line: &[Named], n: usize, commit: u64) -> bool {
    let later = of_line[n + 1..].iter().find(|later| later.after > of_line[n].after);
    later.is_some_and(|later| later.after <= commit)
}

/// A segment that is read from its beginning.
#[derive(Debug)]
pub(crate) struct Reader {
    file: File,
    path: PathBuf,
    vault: Vault,
    salt: Vec<u8>,
    previous: Hash,
    /// Up to where it was read and is whole.
    pub(crate) at: u64,
    pub(crate) line: u64,
    pub(crate) after: Position,
}

/// Some groups that were written together.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) last: Position,
    content: Vec<u8>,
}

/// How a segment goes on.
#[derive(Debug)]
pub(crate) enum Next {
    Frame(Frame),
    End,
    /// It ends with bytes that are no whole frame, as if the machine stopped while they were written.
    Torn,
}

impl Reader {
    /// None if not even the header was written.
    pub(crate) fn open(folder: &Folder, name: &str, vault: &Vault) -> Result<Option<Self>, Error> {
        let path = folder.file(name);
        let mut file = File::open(&path).map_err(|error| unfit(&path, &error.to_string()))?;
        let header = read_part(&mut file, &path, 0, HEADER_BYTES)?;
        if header.len() < HEADER_BYTES {
            return Ok(None);
        }
        let (fields, sum) = header.split_at(HEADER_BYTES - SUM_BYTES);
        let sum = sum.try_into().map(Hash).ok().filter(|sum| *sum == vault.sum(&[fields]));
        let fields = fields.strip_prefix(&MARK).and_then(|fields| {
            let (format, fields) = fields.split_first()?;
            let (line, fields) = fields.split_first_chunk()?;
            let (after, salt) = fields.split_first_chunk()?;
            Some((*format, u64::from_le_bytes(*line), Position::from_bytes(after), salt.to_vec()))
        });
        let (Some(previous), Some((format, line, after, salt))) = (sum, fields) else {
            return Err(unfit(&path, "its header is damaged"));
        };
        if format > SEGMENT {
            return Err(newer(path, format.into(), SEGMENT.into(), writer(name)));
        }
        let vault = vault.clone();
        Ok(Some(Self { file, path, vault, salt, previous, at: HEADER_BYTES as u64, line, after }))
    }

    pub(crate) fn next(&mut self) -> Result<Next, Error> {
        if let Some((frame, sum, bytes)) = self.frame_at(self.at, Some(self.previous))? {
            self.at += bytes;
            self.previous = sum;
            return Ok(Next::Frame(frame));
        }
        if read_part(&mut self.file, &self.path, self.at, 1)?.is_empty() {
            return Ok(Next::End);
        }
        if self.goes_on()? {
            return Err(unfit(
                &self.path,
                &format!("it is damaged at byte {}, and goes on after that", self.at),
            ));
        }
        Ok(Next::Torn)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The frame at an offset, its checksum and its length; none if there is no whole one.
    fn frame_at(&mut self, at: u64, previous: Option<Hash>) -> Result<Option<(Frame, Hash, u64)>, Error> {
        let header = read_part(&mut self.file, &self.path, at, FRAME_BYTES)?;
        if header.len() < FRAME_BYTES || !header.starts_with(&FRAME_MARK) {
            return Ok(None);
        }
        let (fields, sum) = header.split_at(FRAME_BYTES - SUM_BYTES);
        let Some(told) = Told::read(&fields[FRAME_MARK.len()..]) else { return Ok(None) };
        if told.body_bytes > CONTENT_BYTES_MAX || previous.is_some_and(|previous| previous != told.previous) {
            return Ok(None);
        }
        let body = read_part(&mut self.file, &self.path, at + FRAME_BYTES as u64, told.body_bytes)?;
        let expected = self.vault.sum(&[&self.salt, fields, &body]);
        if body.len() < told.body_bytes || sum != expected.0 {
            return Ok(None);
        }
        let Ok(content) = self.vault.open(&label(&self.salt, &told.previous), &body) else { return Ok(None) };
        let bytes = (FRAME_BYTES + body.len()) as u64;
        Ok(Some((Frame { last: told.last, content }, expected, bytes)))
    }

    /// Whether there is a whole frame after one that is not.
    fn goes_on(&mut self) -> Result<bool, Error> {
        const PART_BYTES: usize = 1 << 20;
        let mut from = self.at + 1;
        loop {
            let part = read_part(&mut self.file, &self.path, from, PART_BYTES)?;
            let marks =
                part.windows(FRAME_MARK.len()).enumerate().filter(|(_, window)| *window == FRAME_MARK);
            for place in marks.map(|(place, _)| from + place as u64).collect::<Vec<_>>() {
                if self.frame_at(place, None)?.is_some() {
                    return Ok(true);
                }
            }
            if part.len() < PART_BYTES {
                return Ok(false);
            }
            // A mark may lie across two parts.
            from += (PART_BYTES - FRAME_MARK.len()) as u64;
        }
    }
}

/// What a frame's header tells.
struct Told {
    body_bytes: usize,
    previous: Hash,
    last: Position,
}

impl Told {
    fn read(fields: &[u8]) -> Option<Self> {
        let (length, fields) = fields.split_first_chunk()?;
        let (previous, fields) = fields.split_first_chunk()?;
        Some(Self {
            body_bytes: u32::from_le_bytes(*length) as usize,
            previous: Hash(*previous),
            last: Position::from_bytes(fields.as_array()?),
        })
    }
}

/// A group as an archive has it.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub(crate) position: Position,
    pub(crate) changes: Vec<(&'a [u8], Option<&'a [u8]>)>,
}

impl Frame {
    /// Its groups; none if they make no sense, which its checksum would have told.
    pub(crate) fn groups(&self) -> Option<Vec<Group<'_>>> {
        let mut rest = &self.content[..];
        let mut groups = Vec::new();
        while !rest.is_empty() {
            let (position, after) = rest.split_first_chunk()?;
            let (count, after) = after.split_first_chunk::<4>()?;
            rest = after;
            let mut changes = Vec::new();
            for _ in 0..u32::from_le_bytes(*count) {
                changes.push(take_change(&mut rest)?);
            }
            groups.push(Group { position: Position::from_bytes(position), changes });
        }
        Some(groups)
    }
}

fn take_change<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let (key_bytes, after) = rest.split_first_chunk()?;
    let (value_bytes, after) = after.split_first_chunk()?;
    let (key, after) = after.split_at_checked(u32::from_le_bytes(*key_bytes) as usize)?;
    let (value, after) = match u32::from_le_bytes(*value_bytes) {
        ABSENT => (None, after),
        bytes => after.split_at_checked(bytes as usize).map(|(value, after)| (Some(value), after))?,
    };
    *rest = after;
    Some((key, value))
}
