//! A directory on a file system of some size, in memory, which loses power where it is told to. For tests.
//!
//! A file takes the blocks that were written, as on a disk: growing it takes none, and one that has lost its name
//! keeps its blocks while somebody has it open.

use super::FaultyDisk;
use crate::{Disk, Error, Options, Pace, Place, Store};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Weak};

const BLOCK_BYTES: u64 = 4096;

/// The surroundings of one store. A clone is a handle to the same.
#[derive(Clone, Debug)]
pub struct FaultyPlace(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// The file that has the store's name.
    named: File,
    /// The one that is to have it.
    made: Option<File>,
    /// The one that had it, if that may be found again after a power loss.
    before: Option<File>,
    files: Vec<Weak<Mutex<Blocks>>>,
    /// What the file system has, if that is limited.
    blocks_max: Option<u64>,
    /// Does not tell how much is left.
    silent: bool,
    /// Cannot make safe which file has the name.
    unsafe_names: bool,
    reserved_blocks: u64,
    changes: u64,
    /// Changes that still succeed.
    power_for: Option<u64>,
    pace: Pace,
}

type Blocks = HashSet<u64>;

#[derive(Clone, Debug)]
struct File {
    disk: FaultyDisk,
    blocks: Arc<Mutex<Blocks>>,
}

impl FaultyPlace {
    pub fn new(pace: Pace) -> Self {
        Self::with(FaultyDisk::default(), pace)
    }

    fn with(disk: FaultyDisk, pace: Pace) -> Self {
        let named = File::new(disk);
        let files = vec![Arc::downgrade(&named.blocks)];
        Self(Arc::new(Mutex::new(State {
            named,
            made: None,
            before: None,
            files,
            blocks_max: None,
            silent: false,
            unsafe_names: false,
            reserved_blocks: 0,
            changes: 0,
            power_for: None,
            pace,
        })))
    }

    /// The store that is there, or a new one.
    pub fn open(&self, options: Options) -> Result<Store, Error> {
        let file = self.0.lock().named.clone();
        Store::on_place(Handle { place: self.clone(), file }, self.clone(), options)
    }

    /// The size of the file system from now on.
    pub fn limit(&self, bytes: u64) {
        self.0.lock().blocks_max = Some(bytes / BLOCK_BYTES);
    }

    /// Whether it tells how much is left.
    pub fn tell_room(&self, tells: bool) {
        self.0.lock().silent = !tells;
    }

    /// Whether which file has the name cannot be made safe from now on.
    pub fn fail_sync(&self, fails: bool) {
        self.0.lock().unsafe_names = fails;
    }

    /// What all files take, the reserve too.
    pub fn used_bytes(&self) -> u64 {
        self.0.lock().used_blocks() * BLOCK_BYTES
    }

    /// Changes of files and names so far.
    pub fn changes(&self) -> u64 {
        self.0.lock().changes
    }

    /// Lets so many changes succeed, and none after them.
    pub fn power_for(&self, changes: u64) {
        self.0.lock().power_for = Some(changes);
    }

    /// Cuts the power: what is found afterwards, as of [`FaultyDisk::crash`].
    pub fn crash(&self, seed: u64) -> Self {
        let mut state = self.0.lock();
        state.power_for = Some(0);
        let disks = [&state.made, &state.before].into_iter().flatten().map(|file| &file.disk);
        disks.for_each(|disk| drop(disk.crash(0)));
        let named = state.named.disk.crash(seed);
        let found = match &state.before {
            Some(before) if seed.is_multiple_of(2) => before.disk.crash(seed),
            Some(_) | None => named,
        };
        Self::with(found, state.pace)
    }
}

impl State {
    fn used_blocks(&self) -> u64 {
        let of = |file: &Weak<Mutex<Blocks>>| file.upgrade().map_or(0, |blocks| blocks.lock().len() as u64);
        self.reserved_blocks + self.files.iter().map(of).sum::<u64>()
    }

    fn free_blocks(&self) -> Option<u64> {
        self.blocks_max.map(|max| max.saturating_sub(self.used_blocks()))
    }

    fn change(&mut self) -> io::Result<()> {
        self.changes += 1;
        match &mut self.power_for {
            Some(0) => Err(io::Error::other("the power is off")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Place for FaultyPlace {
    fn available(&self) -> Option<u64> {
        let state = self.0.lock();
        state.free_blocks().filter(|_| !state.silent).map(|blocks| blocks * BLOCK_BYTES)
    }

    fn reserve(&self, bytes: u64) -> u64 {
        let state = &mut *self.0.lock();
        let wanted = (bytes / BLOCK_BYTES).saturating_sub(state.reserved_blocks);
        state.reserved_blocks += state.free_blocks().map_or(wanted, |free| free.min(wanted));
        state.reserved_blocks * BLOCK_BYTES
    }

    fn reserved(&self) -> u64 {
        self.0.lock().reserved_blocks * BLOCK_BYTES
    }

    fn release(&self) {
        self.0.lock().reserved_blocks = 0;
    }

    fn used(&self) -> Option<u64> {
        Some(self.0.lock().named.blocks.lock().len() as u64 * BLOCK_BYTES)
    }

    fn create(&self) -> io::Result<Arc<dyn Disk>> {
        let state = &mut *self.0.lock();
        state.change()?;
        let file = File::new(FaultyDisk::default());
        state.files.push(Arc::downgrade(&file.blocks));
        state.made = Some(file.clone());
        Ok(Arc::new(Handle { place: self.clone(), file }))
    }

    fn rename(&self) -> io::Result<()> {
        let state = &mut *self.0.lock();
        state.change()?;
        let made = state.made.take().ok_or(io::ErrorKind::NotFound)?;
        state.before = Some(std::mem::replace(&mut state.named, made));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let state = &mut *self.0.lock();
        state.change()?;
        if state.unsafe_names {
            return Err(io::Error::other("a fault that was asked for"));
        }
        state.before = None;
        Ok(())
    }

    fn discard(&self) {
        self.0.lock().made = None;
    }

    fn pace(&self) -> Pace {
        self.0.lock().pace
    }
}

impl File {
    fn new(disk: FaultyDisk) -> Self {
        Self { disk, blocks: Arc::default() }
    }
}

/// A file that is open.
#[derive(Debug)]
struct Handle {
    place: FaultyPlace,
    file: File,
}

impl Disk for Handle {
    fn len(&self) -> io::Result<u64> {
        self.file.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.place.0.lock().change()?;
        self.file.blocks.lock().retain(|block| block * BLOCK_BYTES < len);
        self.file.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.place.0.lock().change()?;
        self.file.disk.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let state = &mut *self.place.0.lock();
        state.change()?;
        let touched = offset / BLOCK_BYTES..(offset + data.len() as u64).div_ceil(BLOCK_BYTES);
        let new = {
            let blocks = self.file.blocks.lock();
            touched.clone().filter(|block| !blocks.contains(block)).count() as u64
        };
        if state.free_blocks().is_some_and(|free| new > free) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.blocks.lock().extend(touched);
        self.file.disk.write(offset, data)
    }
}
