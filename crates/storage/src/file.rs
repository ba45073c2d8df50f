//! What the store's one file holds: a header, the log, and the tree.
//!
//! ```text
//! 0           the header: what this is, its version, the size of the log
//! 4096        the log (`log.rs`)
//! 4096 + log  the tree, which is redb's
//! ```
//!
//! The header is written once and synced before anything else is, so a file without one is new, or is
//! not ours. A file that begins with the tree is of the time before the log: it goes on without.

use crate::medium::{Section, is_blank};
use crate::{Disk, Error};
use std::io;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

const MARK: [u8; 8] = *b"larder\r\n";
const TREE_MARK: [u8; 8] = *b"redb\x1a\n\xa9\r";
const VERSION: u64 = 2;
const HEADER_BYTES: u64 = 4096;
const LOG_BYTES_MAX: u64 = 1 << 40;

/// The parts of a store's disk.
pub(crate) struct Parts {
    pub(crate) log: Option<Section>,
    pub(crate) tree: Section,
}

/// Finds the parts, and lays out a new disk.
pub(crate) fn parts(disk: Arc<dyn Disk>, log_bytes: u64) -> Result<Parts, Error> {
    let mut header = begin(&*disk)?;
    if header[..8] == TREE_MARK {
        return Ok(Parts { log: None, tree: Section::from(disk, 0) });
    }
    if header[..8] != MARK {
        header = lay_out(&*disk, log_bytes.next_multiple_of(HEADER_BYTES))?;
    }
    let tree = HEADER_BYTES + read_header(&header)?;
    let log = Section::between(Arc::clone(&disk), HEADER_BYTES, tree);
    Ok(Parts { log: Some(log), tree: Section::from(disk, tree) })
}

/// How a disk begins; zeros if it is shorter than a header.
fn begin(disk: &dyn Disk) -> io::Result<[u8; 28]> {
    let mut header = [0; 28];
    if disk.len()? >= HEADER_BYTES {
        disk.read(0, &mut header)?;
    }
    Ok(header)
}

fn lay_out(disk: &dyn Disk, log_bytes: u64) -> Result<[u8; 28], Error> {
    let whole = (Bound::Included(0), Bound::Unbounded);
    let locked = match disk.try_lock_range(whole.0, whole.1) {
        Ok(true) => true,
        Ok(false) => return Err(Error::InUse { path: PathBuf::new() }),
        // Nobody else can have it.
        Err(_) => false,
    };
    let header = lay_out_alone(disk, log_bytes);
    if locked {
        disk.unlock_range(whole.0, whole.1).map_err(redb::Error::from)?;
    }
    header
}

fn lay_out_alone(disk: &dyn Disk, log_bytes: u64) -> Result<[u8; 28], Error> {
    // Another process may have come first.
    let found = begin(disk)?;
    if found[..8] == MARK {
        return Ok(found);
    }
    if !is_blank(disk, 0)? {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has no mark of one").into());
    }
    let header = write_header(log_bytes);
    disk.set_len(HEADER_BYTES + log_bytes)?;
    disk.write(0, &header)?;
    disk.sync_data()?;
    Ok(header)
}

fn write_header(log_bytes: u64) -> [u8; 28] {
    let mut header = [0; 28];
    header[..8].copy_from_slice(&MARK);
    header[8..16].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&log_bytes.to_le_bytes());
    let sum = crc32fast::hash(&header[..24]);
    header[24..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// The size of the log.
fn read_header(header: &[u8; 28]) -> Result<u64, Error> {
    let (fields, sum) = header.split_at(24);
    if crc32fast::hash(fields).to_le_bytes() != *sum {
        return Err(Error::Damaged { cause: "its header's checksum does not match".to_owned() });
    }
    let (words, _) = fields.as_chunks::<8>();
    let (version, log_bytes) = (u64::from_le_bytes(words[1]), u64::from_le_bytes(words[2]));
    if version > VERSION {
        return Err(Error::Newer { found: version, known: VERSION });
    }
    if log_bytes > LOG_BYTES_MAX || !log_bytes.is_multiple_of(HEADER_BYTES) {
        return Err(Error::Damaged { cause: format!("its header gives the log {log_bytes} bytes") });
    }
    Ok(log_bytes)
}
