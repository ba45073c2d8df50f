//! The formats of what is on disk, and which Larder wrote it.
//!
//! A store has a note of the Larder that opened it last for writing in each of its heads, at a place and in a form that are
//! the same in every format from 5 on:
//!
//! ```text
//! note     length of the text (8 bits), the text, zeros up to 60 bytes, checksum (32 bits)
//! ```
//!
//! A backup and the directory of it say it as `"larder"`, a segment of an archive at the end of its name. It is there to be
//! told, and nothing rests on it: a file from before there were notes has none, and a note that is damaged is none.
//!
//! Whatever changes in the file of a store, its log, its tree, the tables or items in it: the number of the store rises with it.
//! So an older Larder refuses a newer file at its head, before it has written anything.

use crate::backup::{self, Repository};
use crate::file::{self, FILE_NAME, Use};
use crate::{Disk, Error, archive, store};
use std::fmt;
use std::path::{Path, PathBuf};

/// The version of this Larder.
pub const LARDER: &str = env!("CARGO_PKG_VERSION");

/// The format of each kind of file, as it is written.
pub(crate) const STORE: u64 = 5;
pub(crate) const TREE: u64 = 1;
pub(crate) const BACKUPS: u64 = 1;
pub(crate) const BACKUP: u64 = 1;
pub(crate) const SEGMENT: u8 = 1;

/// Where in the first page of a head the note is.
const NOTE_AT: u64 = 1024;
const NOTE_BYTES: usize = 64;
const TEXT_BYTES_MAX: usize = NOTE_BYTES - 1 - 4;

/// A file of a format that this Larder does not know. It stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newer {
    /// Empty where there is no file.
    pub path: PathBuf,
    pub found: u64,
    /// The last format that is known.
    pub known: u64,
    /// The version of the Larder that wrote it, if the file tells.
    pub writer: Option<String>,
}

impl fmt::Display for Newer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, found, known, writer } = self;
        match path.as_os_str().is_empty() {
            true => f.write_str("the store")?,
            false => path.display().fmt(f)?,
        }
        write!(f, " has format {found}")?;
        if let Some(writer) = writer {
            write!(f, ", written by Larder {writer}")?;
        }
        write!(f, "; this is Larder {LARDER}, which reads up to {known}, and it has changed nothing: use ")?;
        match writer {
            // A program that was built from the same version and knows more formats.
            Some(writer) if writer == LARDER => f.write_str("the build that wrote it"),
            Some(writer) => write!(f, "Larder {writer} or a newer one"),
            None => f.write_str("a newer Larder"),
        }
    }
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Store,
    /// The directory that backups are in.
    Backups,
    Backup,
    Segment,
}

impl Kind {
    /// The formats that this Larder reads.
    pub fn known(self) -> std::ops::RangeInclusive<u64> {
        match self {
            Self::Store => 1..=STORE,
            Self::Backups => 1..=BACKUPS,
            Self::Backup => 1..=BACKUP,
            Self::Segment => 1..=u64::from(SEGMENT),
        }
    }
}

/// What a file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub path: PathBuf,
    pub kind: Kind,
    pub format: u64,
    pub writer: Option<String>,
}

impl Found {
    /// This Larder does not know the format.
    pub fn is_newer(&self) -> bool {
        self.format > *self.kind.known().end()
    }

    /// As what it is refused.
    pub fn newer(&self) -> Option<Newer> {
        let (path, writer, known) = (self.path.clone(), self.writer.clone(), *self.kind.known().end());
        self.is_newer().then_some(Newer { path, found: self.format, known, writer })
    }

    /// It becomes one of today's format when it is opened for writing. Backups and archives are read as they are.
    pub fn is_to_convert(&self) -> bool {
        self.kind == Kind::Store && self.format < STORE
    }
}

/// What the file of the store in `dir` says. It needs no key, waits for nobody and changes nothing; of the file its heads alone
/// are read.
pub fn of_store(dir: &Path) -> Result<Found, Error> {
    let path = dir.join(FILE_NAME);
    if !path.try_exists()? {
        return Err(Error::Missing { path: dir.to_owned() });
    }
    let told = store::file(&path, Use::Read).and_then(|disk| file::told(&disk));
    let (format, writer) = match told.map_err(|error| error.at(&path)) {
        Ok(told) => told,
        Err(Error::Newer(newer)) => (newer.found, newer.writer),
        Err(error) => return Err(error),
    };
    Ok(Found { path, kind: Kind::Store, format, writer })
}

/// What a directory of backups says, and each backup and segment in it, or why it cannot be read. It needs no key and changes
/// nothing; `larder backup --verify` reads everything.
pub fn of_backups(dir: &Path) -> Result<Vec<Result<Found, Error>>, Error> {
    if !Repository::is_in(dir) {
        return Err(backup::unfit(dir, "there are no backups in it"));
    }
    let mut found = backup::told(dir)?;
    found.extend(archive::told(dir)?.into_iter().map(Ok));
    Ok(found)
}

/// The note in the head that begins at `head`.
pub(crate) fn noted(disk: &dyn Disk, head: u64) -> Option<String> {
    let mut note = [0; NOTE_BYTES];
    let at = head.checked_add(NOTE_AT)?;
    if disk.len().ok()? < at + NOTE_BYTES as u64 {
        return None;
    }
    disk.read(at, &mut note).ok()?;
    let (length, rest) = file::unsummed(&note)?.split_first()?;
    version(std::str::from_utf8(rest.get(..usize::from(*length))?).ok()?)
}

/// Notes that this Larder writes the store whose heads are at these places.
pub(crate) fn note(disk: &dyn Disk, heads: [u64; 2]) -> Result<(), Error> {
    put(disk, heads, LARDER)
}

fn put(disk: &dyn Disk, heads: [u64; 2], writer: &str) -> Result<(), Error> {
    let mut fields = vec![writer.len() as u8];
    fields.extend_from_slice(writer.as_bytes());
    fields.resize(NOTE_BYTES - 4, 0);
    let note = file::summed(fields);
    for head in heads {
        if noted(disk, head).as_deref() != Some(writer) {
            disk.write(head + NOTE_AT, &note)?;
            disk.sync_data()?;
        }
    }
    Ok(())
}

/// A version as a file tells it; none if it is none, and should be in no message.
pub(crate) fn version(text: &str) -> Option<String> {
    let is_one = text.starts_with(|first: char| first.is_ascii_digit())
        && text.len() <= TEXT_BYTES_MAX
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-+".contains(letter));
    is_one.then(|| text.to_owned())
}

const _: () = assert!(LARDER.len() <= TEXT_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::absorb::{FORMAT, open_database};
    use crate::medium::Medium;
    use crate::{Options, Store};
    use std::sync::Arc;

    /// It should not come to that: the number of the store rises with that of the tree. Opening the tree is a write to redb's
    /// own pages, so here it is not the bytes that stay, but what the file says of its writer.
    #[test]
    fn a_newer_tree_in_a_store_of_this_format_is_refused_and_keeps_its_writer() {
        let dir = tempfile::tempdir().expect("there is room");
        let path = dir.path().join(FILE_NAME);
        Store::open(dir.path(), Options::default()).and_then(|store| store.close()).expect("it is new");
        {
            let disk: Arc<dyn Disk> = Arc::new(store::file(&path, Use::Open).expect("it is there"));
            let parts = file::parts(&disk, 0, None, Use::Open).expect("it is whole");
            put(&*disk, parts.written.expect("it has heads").heads, "9.8.7").expect("there is room");
            let medium = Medium::new(parts.tree, parts.lock);
            let database = open_database(medium.lease(), 1 << 20).expect("it is whole");
            let transaction = database.begin_write().expect("nobody else writes");
            transaction
                .open_table(FORMAT)
                .and_then(|mut format| Ok(format.insert("version", 2).map(drop)?))
                .expect("there is room");
            transaction.commit().expect("there is room");
        }
        for refused in [
            Store::open(dir.path(), Options::default()),
            Store::open_read_only(dir.path(), Options::default()),
        ] {
            let Err(Error::Newer(newer)) = refused else {
                panic!("it was opened, or refused for something else")
            };
            let told = Newer { path: path.clone(), found: 2, known: TREE, writer: Some("9.8.7".to_owned()) };
            assert_eq!(*newer, told);
        }
        let found = of_store(dir.path()).expect("its head is whole");
        assert_eq!(found.writer.as_deref(), Some("9.8.7"));
    }
}
