//! Tables in the format in which DynamoDB exports to S3, and directories in the place of buckets.
//!
//! ```text
//! BUCKET/PREFIX/AWSDynamoDB/01699999999999-1a2b3c4d/_started
//!                                                  /manifest-summary.json, .md5      the table, when, how many items
//!                                                  /manifest-files.json, .md5        a line for each file: items, MD5
//!                                                  /data/….json.gz                   a line for each item: {"Item":{…}}
//!              /AWSDynamoDB/data/….json.gz                                          those of exports of changes
//! ```
//!
//! `larder dump` and `larder load` write and read such exports; [`Folder`] is where a server's `ExportTableToPointInTime` and
//! `ImportTable` do.
//!
//! Promises:
//! - An export is in its place whole, or not at all.
//! - Each time a file is read it is compared with the checksum and the count of the manifest, and one that does not
//!   match is named. That is known at its end: whoever wants nothing of a damaged file reads it through first.

mod csv;
mod folder;
mod read;
mod write;

use std::io;
use std::path::{Path, PathBuf};

pub use folder::Folder;
pub use read::{Export, Line, Lines};
pub use write::{About, Exported, Exporting};

/// Above all exports of a bucket.
const FOLDER: &str = "AWSDynamoDB";
const SUMMARY: &str = "manifest-summary";
const FILES: &str = "manifest-files";
const DATA: &str = "data";
const FORMAT: &str = "DYNAMODB_JSON";
const FULL: &str = "FULL_EXPORT";
const INCREMENTAL: &str = "INCREMENTAL_EXPORT";

/// What is wrong with the files of an export. Each names the file it is about.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or written.
    #[error("cannot {what} {}: {cause}", path.display())]
    File { what: &'static str, path: PathBuf, cause: String },
    /// It is not what its manifest says, or cannot be read.
    #[error("{} is damaged: {cause}; get it again from where it was exported", path.display())]
    Damaged { path: PathBuf, cause: String },
    /// It is right, and nothing that can be imported.
    #[error("{} cannot be imported: {cause}", path.display())]
    Unfit { path: PathBuf, cause: String },
}

impl Error {
    fn file(what: &'static str, path: &Path, cause: &io::Error) -> Self {
        Self::File { what, path: path.to_owned(), cause: cause.to_string() }
    }

    fn damaged(path: &Path, cause: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), cause: cause.into() }
    }

    fn unfit(path: &Path, cause: impl Into<String>) -> Self {
        Self::Unfit { path: path.to_owned(), cause: cause.into() }
    }
}
