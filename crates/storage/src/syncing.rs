//! One disk, synced by several.
//!
//! A sync covers all that was written to the disk before it began, whoever wrote it. So whoever waits for a sync that has not
//! begun shares it. And one that fails may have taken along what others wrote, of which they would hear nothing: so their
//! own next sync fails too.

use crate::Disk;
use parking_lot::{Condvar, Mutex};
use redb::BackendError;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

/// One writer's view of a disk that has others. Each keeps track of what it has written since its last sync.
#[derive(Debug)]
pub(crate) struct Synced {
    disk: Arc<dyn Disk>,
    syncs: Arc<Syncs>,
    /// How many syncs had failed before the first write since the last sync.
    written: Mutex<Option<u64>>,
}

#[derive(Debug, Default)]
struct Syncs {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: bool,
    begun: u64,
    ended: u64,
    failed: u64,
}

impl Synced {
    /// So many writers to one disk.
    pub(crate) fn share<const WRITERS: usize>(disk: &Arc<dyn Disk>) -> [Arc<dyn Disk>; WRITERS] {
        let syncs = Arc::new(Syncs::default());
        [(); WRITERS].map(|()| {
            let (disk, syncs) = (Arc::clone(disk), Arc::clone(&syncs));
            Arc::new(Self { disk, syncs, written: Mutex::default() }) as Arc<dyn Disk>
        })
    }

    fn note(&self) {
        self.written.lock().get_or_insert_with(|| self.syncs.state.lock().failed);
    }
}

impl Disk for Synced {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.note();
        self.disk.set_len(len)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.note();
        self.disk.write(offset, data)
    }

    fn sync_data(&self) -> io::Result<()> {
        let before = self.written.lock().take();
        let mut state = self.syncs.state.lock();
        let failed = before.unwrap_or(state.failed);
        let wanted = state.begun + 1;
        let mut result = Ok(());
        while state.ended < wanted {
            if state.running {
                self.syncs.ended.wait(&mut state);
                continue;
            }
            state.running = true;
            state.begun += 1;
            let number = state.begun;
            drop(state);
            result = self.disk.sync_data();
            state = self.syncs.state.lock();
            (state.running, state.ended) = (false, number);
            state.failed += u64::from(result.is_err());
            self.syncs.ended.notify_all();
        }
        result?;
        if state.failed != failed {
            return Err(io::Error::other("a sync failed that may have been for this write too"));
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.disk.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.disk.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.disk.unlock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faulty::{FaultyDisk, Lasting, Operation};

    #[test]
    fn a_failed_sync_fails_the_next_one_of_whoever_had_written_and_nobody_elses() {
        let disk = FaultyDisk::default();
        let [one, other] = Synced::share(&(Arc::new(disk.clone()) as Arc<dyn Disk>));
        one.write(0, b"one").unwrap();
        other.write(3, b"other").unwrap();
        disk.fail(Operation::Sync, 0, Lasting::Once);
        one.sync_data().unwrap_err();
        one.write(0, b"one").unwrap();
        one.sync_data().unwrap();
        other.sync_data().unwrap_err();
        other.write(3, b"other").unwrap();
        other.sync_data().unwrap();
        disk.fail(Operation::Sync, 0, Lasting::Once);
        one.sync_data().unwrap_err();
        other.write(3, b"other").unwrap();
        other.sync_data().unwrap();
    }
}
