//! Files that are read again when they change: schemas, certificates, the access file.
//!
//! At SIGHUP, and when a file was changed, added or removed and then left alone for a moment: one that is still being written
//! is read once it is whole.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::spawn_blocking;
use tokio::time::MissedTickBehavior;

use super::hangup::Hangups;

/// Files, when each was written last, and how long it is.
pub(super) type Seen = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// What is in force as files say.
pub(super) trait Followed: Send + Sync + 'static {
    fn files(&self) -> Vec<PathBuf>;

    /// Reads the files, and puts what they say in force or logs what is wrong with them.
    fn read_again(&self);
}

/// The files as they are now.
pub(super) fn look(files: impl IntoIterator<Item = PathBuf>) -> Seen {
    let written = |path: PathBuf| {
        let seen = path.metadata();
        let at = seen.as_ref().ok().and_then(|seen| seen.modified().ok());
        (path, (at, seen.map_or(0, |seen| seen.len())))
    };
    files.into_iter().map(written).collect()
}

/// Reads the files again whenever that is worth it, from now on and for ever. `read` is what they were like when they were
/// read at the start.
pub(super) fn follow(followed: Arc<impl Followed>, read: Seen) -> io::Result<impl Future<Output = ()>> {
    let mut hangups = Hangups::heed()?;
    Ok(async move {
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut read, mut before) = (read.clone(), read);
        loop {
            let asked = tokio::select! {
                _ = ticks.tick() => false,
                () = hangups.next() => true,
            };
            // What waits for the disk does so on another thread.
            let looking = Arc::clone(&followed);
            let Ok(seen) = spawn_blocking(move || look(looking.files())).await else { continue };
            let settled = seen != read && seen == before;
            before.clone_from(&seen);
            if asked || settled {
                read = seen;
                let reading = Arc::clone(&followed);
                let _ = spawn_blocking(move || reading.read_again()).await;
            }
        }
    })
}
