//! A log with group sync: the least that makes writes durable.
//!
//! Whoever appends waits for one sync with all who came meanwhile. The file is written round and round within the room
//! that Larder's own log has, whose pages exist already, so that no append grows it.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use larder_storage::Options;
use tokio::sync::oneshot;

const SECTOR_BYTES: usize = 512;

#[derive(Debug)]
pub(super) struct GroupLog(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    waiting: Vec<oneshot::Sender<()>>,
    /// The disk refused: nothing more is written.
    is_over: bool,
}

impl GroupLog {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let room = Options::default().log_bytes;
        let mut file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
        std::io::copy(&mut std::io::Read::take(std::io::repeat(0), room), &mut file)?;
        file.flush()?;
        file.sync_all()?;
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        thread::Builder::new().name("bare-log".to_owned()).spawn(move || own.run(&file, room))?;
        Ok(Self(shared))
    }

    /// Whether it is on disk.
    pub(super) async fn append(&self, record: &[u8]) -> bool {
        match self.submit(record) {
            Some(on_disk) => on_disk.await.is_ok(),
            None => false,
        }
    }

    fn submit(&self, record: &[u8]) -> Option<oneshot::Receiver<()>> {
        let (sender, on_disk) = oneshot::channel();
        let mut queue = self.0.lock();
        if queue.is_over {
            return None;
        }
        queue.bytes.extend_from_slice(record);
        queue.waiting.push(sender);
        self.0.filled.notify_one();
        Some(on_disk)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends when the disk refuses. Whoever waits then is told so by a channel that closes.
    fn run(&self, file: &File, room: u64) {
        let (mut group, mut end) = (Queue::default(), 0);
        loop {
            let queue = self.filled.wait_while(self.lock(), |queue| queue.waiting.is_empty());
            std::mem::swap(&mut *queue.unwrap_or_else(PoisonError::into_inner), &mut group);
            match write(file, room, end, &mut group.bytes) {
                Ok(next) => end = next,
                Err(_) => {
                    *self.lock() = Queue { is_over: true, ..Queue::default() };
                    return;
                }
            }
            // Whoever has gone does not want to know.
            group.waiting.drain(..).for_each(|waiting| {
                let _ = waiting.send(());
            });
            group.bytes.clear();
        }
    }
}

/// Writes one record, which begins on a sector of its own; says where the next begins.
fn write(file: &File, room: u64, end: u64, bytes: &mut Vec<u8>) -> std::io::Result<u64> {
    let checksum = crc32fast::hash(bytes);
    let header = [bytes.len() as u64, checksum.into()].map(u64::to_le_bytes);
    bytes.splice(0..0, header.as_flattened().iter().copied());
    bytes.resize(bytes.len().next_multiple_of(SECTOR_BYTES), 0);
    let start = if end + bytes.len() as u64 > room { 0 } else { end };
    file.write_all_at(bytes, start)?;
    file.sync_data()?;
    Ok(start + bytes.len() as u64)
}
