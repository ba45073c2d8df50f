//! What is around a store's file: how much room there is, a file that holds some back, and one to take its place.

use crate::Disk;
use crate::file::{FILE_NAME, Use};
use crate::store::{file, sync_entry};
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What a file is called that is to take the place of the store's.
const COPY_NAME: &str = "larder.redb.compact";
const RESERVE_NAME: &str = "larder.reserve";
/// Written at once.
const CHUNK_BYTES: u64 = 256 << 10;

/// The surroundings of a store's file. `Store::open` has those of a directory; tests have others.
pub trait Place: fmt::Debug + Send + Sync + 'static {
    /// Bytes that the disk has left for the file; absent if that is not known.
    fn available(&self) -> Option<u64>;

    /// Holds back so many bytes of the disk, or as many as it has. Returns how many those are.
    fn reserve(&self, bytes: u64) -> u64;

    /// How many are held back.
    fn reserved(&self) -> u64;

    /// Gives them to the disk again.
    fn release(&self);

    /// What the file takes of the disk; absent if that is not known.
    fn used(&self) -> Option<u64>;

    /// A blank second file. One that is there goes.
    fn create(&self) -> io::Result<Arc<dyn Disk>>;

    /// Gives the store's name to the second file. After an error it has not got it.
    fn rename(&self) -> io::Result<()>;

    /// Makes that outlast a power loss.
    fn sync(&self) -> io::Result<()>;

    /// Removes the second file, if there is one.
    fn discard(&self);

    fn pace(&self) -> Pace {
        Pace::default()
    }
}

/// How a store looks after its room.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long it is open before room is held back: one that is opened for a moment does without.
    pub reserve_after: Duration,
    /// How often it is seen whether a full disk has room again. Two of these without a write, or ten if there is little to
    /// do, and the tree takes what is in memory.
    pub look_pause: Duration,
    /// How large the file must be before one without gaps takes its place.
    pub copy_over_bytes: u64,
    /// The least time between two of these.
    pub copy_pause: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            reserve_after: Duration::from_secs(2),
            look_pause: Duration::from_secs(1),
            copy_over_bytes: 64 << 20,
            copy_pause: Duration::from_mins(5),
        }
    }
}

#[derive(Debug)]
struct Directory(PathBuf);

pub(crate) fn directory(dir: &Path) -> Box<dyn Place> {
    Box::new(Directory(dir.to_owned()))
}

impl Directory {
    fn reserve_path(&self) -> PathBuf {
        self.0.join(RESERVE_NAME)
    }

    fn try_reserve(&self, bytes: u64) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(self.reserve_path())?;
        let missing = bytes.saturating_sub(file.metadata()?.len());
        // Bytes that no file system leaves out or makes smaller.
        let mut chunk = vec![0; CHUNK_BYTES as usize];
        getrandom::fill(&mut chunk).map_err(|error| io::Error::other(error.to_string()))?;
        for _ in 0..missing.div_ceil(CHUNK_BYTES) {
            file.write_all(&chunk)?;
        }
        file.sync_all()
    }
}

impl Place for Directory {
    #[cfg(unix)]
    fn available(&self) -> Option<u64> {
        let found = rustix::fs::statvfs(&self.0).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    #[cfg(not(unix))]
    fn available(&self) -> Option<u64> {
        None
    }

    fn used(&self) -> Option<u64> {
        let found = fs::metadata(self.0.join(FILE_NAME)).ok()?;
        #[cfg(unix)]
        let bytes = std::os::unix::fs::MetadataExt::blocks(&found) * 512;
        #[cfg(not(unix))]
        let bytes = found.len();
        Some(bytes)
    }

    fn create(&self) -> io::Result<Arc<dyn Disk>> {
        self.discard();
        let file = file(&self.0.join(COPY_NAME), Use::Create)
            .map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Arc::new(file))
    }

    fn rename(&self) -> io::Result<()> {
        fs::rename(self.0.join(COPY_NAME), self.0.join(FILE_NAME))
    }

    fn sync(&self) -> io::Result<()> {
        sync_entry(&self.0)
    }

    fn discard(&self) {
        // If it stays, the next copy or the next open removes it.
        let _ = fs::remove_file(self.0.join(COPY_NAME));
    }

    fn reserve(&self, bytes: u64) -> u64 {
        // What could not be written is not held back.
        let _ = self.try_reserve(bytes);
        self.reserved()
    }

    fn reserved(&self) -> u64 {
        fs::metadata(self.reserve_path()).map_or(0, |found| found.len())
    }

    fn release(&self) {
        // If it cannot be had back, the disk stays full.
        let file = OpenOptions::new().write(true).open(self.reserve_path());
        let _ = file.and_then(|file| file.set_len(0).and_then(|()| file.sync_all()));
    }
}
