//! Space given back while the store is in use: a copy without gaps takes the place of the file.
//!
//! redb returns what is free at the end of its file and keeps every other gap, and its own way to close them wants nobody
//! to read. So when most of the file is gaps, the tree's thread copies the tree in the order of its keys into a second
//! file, a little at a time. What the tree absorbs meanwhile and lies within the part that is copied is made
//! there too. When the copy has reached the end it is made durable, the commit thread writes to its log what is in memory alone, and it gets
//! the store's name and is the store from then on.
//!
//! Promises:
//! - At every moment one of the two files has the name, and that one has every write that was answered.
//! - Writers wait for the log of the copy alone, at the end, and snapshots from before stay readable: their file goes when they do.
//! - A copy that fails changes nothing.

use crate::absorb::{Begun, DATA, Opened, copy_format, open_database, open_tree, prepare, set};
use crate::batch::Changed;
use crate::file::{self, Use};
use crate::log::{Log, Start};
use crate::medium::Medium;
use crate::panic::contain_panic;
use crate::snapshot::Tree;
use crate::store::Options;
use crate::{Error, Place, Position};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a step copies.
const STEP_BYTES: usize = 1 << 20;
/// What is copied between two syncs, so that none takes long.
const UNSYNCED_BYTES_MAX: usize = 8 << 20;
/// After a step the thread is left to others for so many times as long as it took.
const PAUSES: u32 = 3;
/// A copy is made when the tree's part of the file is so many times as large as what is in it. A fresh copy takes
/// at most about twice as much.
const GAPS: u64 = 3;

/// A copy that is being made.
pub(crate) struct Copying {
    medium: Arc<Medium>,
    log: Log,
    database: Opened,
    start: Start,
    /// The last key that was copied.
    reached: Option<Vec<u8>>,
    ended: bool,
    live: i64,
    unsynced_bytes: usize,
    pub(crate) step_at: Instant,
}

/// A copy that is whole and durable.
pub(crate) struct Copied {
    pub(crate) medium: Arc<Medium>,
    pub(crate) log: Log,
    pub(crate) database: Opened,
    pub(crate) tree: Tree,
    pub(crate) live: i64,
    /// Where its log begins.
    pub(crate) start: Start,
}

/// Whether a copy is worth its while: `used` is what the file takes, `log` its log.
pub(crate) fn is_worth(used: u64, log: u64, live: u64, over: u64) -> bool {
    used >= over && used.saturating_sub(log) > GAPS * live + over / 4
}

/// What the disk must have left for a copy.
pub(crate) fn takes(live: u64) -> u64 {
    2 * live + (4 << 20)
}

impl Copying {
    pub(crate) fn begin(place: &dyn Place, options: Options) -> Result<Self, Error> {
        let disk = place.create()?;
        let parts = file::parts(&disk, options.log_bytes, options.key, Use::Create)?;
        let medium = Medium::new(parts.tree, parts.lock);
        let mut log = parts.log.ok_or(Error::Closed)?;
        let (database, start) = contain_panic(|| {
            let database = open_database(medium.lease(), options.copy_bytes())?;
            prepare(&database, Some(&log))?;
            let start = Begun::read(&database)?.start;
            log.find(start, false, |_, _, _| Ok(()))?;
            Ok((database, start))
        })?;
        file::finish(&*disk)?;
        Ok(Self {
            medium,
            log,
            database,
            start,
            reached: None,
            ended: false,
            live: 0,
            unsynced_bytes: 0,
            step_at: Instant::now(),
        })
    }

    /// Copies a little of the last committed state. True if that was the last of it.
    pub(crate) fn step(&mut self, tree: &Tree) -> Result<bool, Error> {
        let begun = Instant::now();
        contain_panic(|| self.try_step(tree))?;
        self.step_at = Instant::now() + begun.elapsed().min(Duration::from_secs(1)) * PAUSES;
        Ok(self.ended)
    }

    fn try_step(&mut self, tree: &Tree) -> Result<(), Error> {
        let transaction = self.database.begin_write()?;
        let mut copied = 0;
        {
            let mut copy = transaction.open_table(DATA)?;
            let from = self.reached.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut entries = tree.range::<&[u8]>((from, Bound::Unbounded))?;
            let mut last = None;
            self.ended = loop {
                let Some(entry) = entries.next() else { break true };
                let (key, value) = entry?;
                self.live += set(&mut copy, key.value(), Some(value.value()))?;
                copied += key.value().len() + value.value().len();
                last = Some(key);
                if copied >= STEP_BYTES {
                    break false;
                }
            };
            if let Some(last) = last {
                self.reached = Some(last.value().to_vec());
            }
        }
        self.commit(transaction, copied)
    }

    /// Makes changes that the tree has absorbed, as far as the copy has come. In the order of their keys.
    pub(crate) fn follow(&mut self, changes: impl Iterator<Item = Changed>) -> Result<(), Error> {
        let Some(reached) = self.reached.clone() else { return Ok(()) };
        let mut within = changes.take_while(|(key, _)| self.ended || **key <= *reached).peekable();
        if within.peek().is_none() {
            return Ok(());
        }
        let mut grown = 0;
        let mut written = 0;
        contain_panic(|| {
            let transaction = self.database.begin_write()?;
            {
                let mut copy = transaction.open_table(DATA)?;
                for (key, value) in within {
                    let value = value.as_ref().map(|value| value.as_slice());
                    written += key.len() + value.map_or(0, <[u8]>::len);
                    grown += set(&mut copy, &key, value)?;
                }
            }
            Ok(transaction)
        })
        .and_then(|transaction| contain_panic(|| self.commit(transaction, written)))?;
        self.live += grown;
        Ok(())
    }

    /// Leaves off. Nothing is written any more.
    pub(crate) fn abandon(self) {
        self.medium.revoke();
    }

    fn commit(&mut self, mut transaction: redb::WriteTransaction, bytes: usize) -> Result<(), Error> {
        self.unsynced_bytes += bytes;
        if self.unsynced_bytes < UNSYNCED_BYTES_MAX {
            transaction.set_durability(redb::Durability::None)?;
        } else {
            self.unsynced_bytes = 0;
        }
        Ok(transaction.commit()?)
    }

    /// Makes the copy durable as the state that has this position.
    pub(crate) fn finish(self, position: Position, options: Options) -> Result<Copied, Error> {
        let Self { medium, log, database, live, start, .. } = self;
        contain_panic(|| {
            copy_format(&database, position, live)?;
            // Closed, it has no free pages at its end; opened again, it has all the memory it may take. It has no name, so
            // nobody else can open it in between.
            drop(database);
            let database = open_database(medium.lease(), options.page_bytes())?;
            let tree = open_tree(&database, &medium)?;
            Ok(Copied { medium, log, database, tree, live, start })
        })
    }
}

/// A file that has lost its name, and is read by those who have snapshots of it.
pub(crate) struct Retired {
    database: Opened,
    medium: Arc<Medium>,
}

impl Retired {
    pub(crate) fn new(database: Opened, medium: Arc<Medium>) -> Self {
        medium.freeze();
        Self { database, medium }
    }

    /// Whether somebody may still read it.
    pub(crate) fn is_read(&mut self) -> bool {
        // Looks for readers first, and cannot write.
        let attempt = contain_panic(|| Ok(self.database.compact()));
        matches!(attempt, Ok(Err(redb::CompactionError::TransactionInProgress)))
    }
}

impl Drop for Retired {
    fn drop(&mut self) {
        self.medium.revoke();
    }
}
