//! A disk whose syncs wait until they are let through, so that a test decides what happens meanwhile.
//!
//! It can also refuse to be read, at the same time as the disk under it fails otherwise, and make one reader wait
//! while others go on.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use larder_storage::Disk;
use larder_storage::faulty::FaultyDisk;
use parking_lot::{Condvar, Mutex};

/// How long to wait for somebody to come.
const PATIENCE: Duration = Duration::from_secs(10);

/// A clone is a handle to the same gate and disk.
#[derive(Clone, Debug)]
pub struct GatedDisk {
    disk: FaultyDisk,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    waiting: bool,
    unreadable: bool,
    reader: Reader,
}

/// The one reader that is made to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reader {
    #[default]
    None,
    /// The next one will be.
    Wanted,
    Waiting,
}

impl GatedDisk {
    pub fn new(disk: FaultyDisk) -> Self {
        Self { disk, gate: Arc::default() }
    }

    /// From now on a sync waits.
    pub fn shut(&self) {
        self.gate.state.lock().closed = true;
    }

    /// Lets syncs through again.
    pub fn open(&self) {
        self.gate.state.lock().closed = false;
        self.gate.changed.notify_all();
    }

    pub fn set_readable(&self, readable: bool) {
        self.gate.state.lock().unreadable = !readable;
    }

    /// The next read waits; others, after it, do not.
    pub fn hold_next_read(&self) {
        self.gate.state.lock().reader = Reader::Wanted;
    }

    /// Waits until a read waits, and says whether one came in time.
    pub fn wait_for_read(&self) -> bool {
        let mut state = self.gate.state.lock();
        self.gate.changed.wait_while_for(&mut state, |state| state.reader != Reader::Waiting, PATIENCE);
        state.reader == Reader::Waiting
    }

    /// Lets the read that waits go on.
    pub fn let_read(&self) {
        self.gate.state.lock().reader = Reader::None;
        self.gate.changed.notify_all();
    }

    /// Waits until a sync waits at the gate, and says whether one came in time.
    pub fn wait_for_sync(&self) -> bool {
        let mut state = self.gate.state.lock();
        self.gate.changed.wait_while_for(&mut state, |state| !state.waiting, PATIENCE);
        state.waiting
    }
}

impl Gate {
    fn check_readable(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.reader == Reader::Wanted {
            state.reader = Reader::Waiting;
            self.changed.notify_all();
            self.changed.wait_while(&mut state, |state| state.reader == Reader::Waiting);
        }
        if state.unreadable { Err(io::Error::other("the disk cannot be read")) } else { Ok(()) }
    }
}

impl Disk for GatedDisk {
    fn len(&self) -> io::Result<u64> {
        self.gate.check_readable()?;
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.gate.check_readable()?;
        self.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.gate.state.lock();
        while state.closed {
            state.waiting = true;
            self.gate.changed.notify_all();
            self.gate.changed.wait(&mut state);
        }
        state.waiting = false;
        drop(state);
        self.disk.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.write(offset, data)
    }
}
