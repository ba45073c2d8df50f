//! What can go wrong between the engine and the disk.
//!
//! Errors are `Clone`: one failed commit answers every writer that shared it.

use crate::Holder;
use crate::medium::Revoked;
use crate::version::Newer;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why storage could not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(
        "{} is in use by {}: stop it, or choose another directory",
        path.display(),
        by.as_ref().map_or("another process".to_owned(), ToString::to_string)
    )]
    InUse { path: PathBuf, by: Option<Box<Holder>> },
    #[error("{0}")]
    Newer(Box<Newer>),
    #[error(
        "the store has format {version}: open it once for writing, as `larder serve` does; that makes it a new one"
    )]
    Early { version: u64 },
    #[error("{} holds no store", path.display())]
    Missing { path: PathBuf },
    #[error("{} is not a Larder store: {cause}", path.display())]
    Foreign { path: PathBuf, cause: String },
    #[error(
        "the store is encrypted: name the file of its key in LARDER_KEY_FILE, or put the key into LARDER_KEY"
    )]
    Sealed,
    #[error("no key in {place}: {cause}; `openssl rand -hex 32` makes one")]
    NoKey { place: String, cause: String },
    #[error("others than you may use the key in {path}: `chmod 600 {path}`", path = path.display())]
    OpenKey { path: PathBuf },
    #[error("the key is not the one this store is encrypted with: give that one")]
    WrongKey,
    #[error("the store is not encrypted: open it without a key, and copy what it holds to a new one that is")]
    NotSealed,
    /// The value is there and must not be used.
    #[error("the value at key {} is damaged: {cause}", Hex(key))]
    Corrupt { key: Vec<u8>, cause: &'static str },
    /// The file's structure, rather than one value, is broken.
    #[error(
        "the store's file is damaged: {cause}; `larder salvage DIR --to NEW` brings all that can be read into a new store"
    )]
    Damaged { cause: String },
    /// The file is not one that anything could be brought out of.
    #[error(
        "nothing of the store's file can be read: {cause}; `larder restore --from BACKUPS --to NEW` makes a store of a backup"
    )]
    Gone { cause: String },
    /// A backup or an archive, or something in it, that cannot be used.
    #[error("{}: {cause}", path.display())]
    Backup { path: PathBuf, cause: String },
    #[error("disk error: {cause}")]
    Io { kind: io::ErrorKind, cause: String },
    /// The snapshot was open while the store recovered from a disk error, or was closed: take a new one.
    #[error("the snapshot ended when the store recovered from a disk error or was closed: read again")]
    Expired,
    /// The write was not made and will not appear later.
    #[error("the write was not made: {cause}")]
    Failed { cause: Box<Error> },
    /// The write may or may not be there once the disk works again.
    #[error("the write's outcome is unknown until the disk works again: {cause}")]
    Unknown { cause: Box<Error> },
    /// Writes the batch may rest on were lost; nothing of the batch was written.
    #[error("earlier writes were lost with a failed commit: read again, then retry")]
    Lost,
    #[error("{queued_bytes} bytes of writes are waiting for the disk: retry in a moment")]
    Busy { queued_bytes: usize },
    /// Nothing was written. What makes room is.
    #[error("the disk is full: delete something, or make room on it; until then only deletes are taken")]
    Full,
    #[error("a batch of {bytes} bytes is over the limit of {limit}")]
    TooLarge { bytes: usize, limit: usize },
    #[error("the store was opened for reading only")]
    ReadOnly,
    #[error("the store is closed")]
    Closed,
}

impl Error {
    /// The same, and which file it is about.
    pub(crate) fn at(self, path: &Path) -> Self {
        match self {
            Self::InUse { .. } => {
                let by = path.parent().and_then(Holder::of).map(Box::new);
                Self::InUse { path: path.to_owned(), by }
            }
            Self::Newer(newer) => Self::Newer(Box::new(Newer { path: path.to_owned(), ..*newer })),
            Self::Io { kind: io::ErrorKind::InvalidData, cause } => {
                Self::Foreign { path: path.to_owned(), cause }
            }
            other => other,
        }
    }

    /// Whether there was no room on the disk.
    pub(crate) fn is_full_disk(&self) -> bool {
        match self {
            Self::Io { kind, .. } => {
                matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::Failed { cause } | Self::Unknown { cause } => cause.is_full_disk(),
            _ => false,
        }
    }

    /// A panic inside the storage library, which damaged pages can cause. What it says is about the library's code, and tells
    /// nobody anything about the file.
    pub(crate) fn panicked(_: &(dyn std::any::Any + Send)) -> Self {
        Self::Damaged { cause: "a page of the tree's structure cannot be read".to_owned() }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.downcast() {
            Ok(Revoked) => Self::Expired,
            Err(error) => Self::Io { kind: error.kind(), cause: error.to_string() },
        }
    }
}

impl From<redb::Error> for Error {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::Io(error) => error.into(),
            // A snapshot outlives the database only where the store recovers, or has been closed.
            redb::Error::PreviousIo | redb::Error::DatabaseClosed => Self::Expired,
            redb::Error::DatabaseAlreadyOpen => Self::InUse { path: PathBuf::new(), by: None },
            other => Self::Damaged { cause: other.to_string() },
        }
    }
}

macro_rules! from_redb {
    ($($error:ident),*) => {
        $(impl From<redb::$error> for Error {
            fn from(error: redb::$error) -> Self {
                redb::Error::from(error).into()
            }
        })*
    };
}

from_redb!(StorageError, DatabaseError, TableError, TransactionError, CommitError, SetDurabilityError);

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
