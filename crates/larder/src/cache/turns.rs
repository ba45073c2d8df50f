//! Who may write a key, and when: the worker of a queue, or somebody past it in their turn.
//!
//! Whoever writes past the queue holds the keys: what waits for them is not begun, and what is on its way has arrived before. Two
//! who find something of the queue under their keys go one after the other, because both decide what becomes of it.
//!
//! Promises:
//! - While turns last, the worker begins nothing of their keys, whenever it was pushed.
//! - Turns begin when nothing of their keys is on its way behind.
//! - A write in its turn takes the place of what waited before, never of what was pushed while it was under way: whoever has read
//!   that does not see it vanish.

use std::fmt;
use std::hash::Hash;

use tokio::sync::{Mutex, MutexGuard, Notify};

use super::queue::Queue;

/// What becomes of what waits to be written behind for the key of a write that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// It is older, and dropped.
    Dropped,
    /// What was older has been written or looked at before; what waits now came after it.
    Kept,
}

/// A queue, those who wait for it, and those whom it waits for.
#[derive(Debug)]
pub(crate) struct Line<K, W> {
    pub(crate) queue: Queue<K, W>,
    /// Whether two writes are one and the same, which is more than that they hold the same.
    is_same: fn(&W, &W) -> bool,
    /// Told after every round of the worker.
    changed: Notify,
    /// Told when a key is not held any more.
    released: Notify,
    /// One at a time decides what becomes of something that waits.
    only: Mutex<()>,
}

impl<K: Hash + Eq + Clone, W: Clone> Line<K, W> {
    pub(crate) fn new(capacity: usize, is_same: fn(&W, &W) -> bool) -> Self {
        let (changed, released) = (Notify::new(), Notify::new());
        Self { queue: Queue::new(capacity), is_same, changed, released, only: Mutex::default() }
    }

    /// The right to write these keys past the queue.
    pub(crate) async fn turns(&self, keys: Vec<K>) -> Turns<'_, K, W> {
        let mut is_known = false;
        for key in &keys {
            // Each is held, also after one that is known.
            is_known |= self.queue.hold(key);
        }
        let mut turns = Turns { line: self, keys, older: Vec::new(), _only: None };
        if is_known {
            self.until(|| !turns.keys.iter().any(|key| self.queue.is_writing(key))).await;
            turns._only = Some(self.only.lock().await);
            turns.older = turns.keys.iter().map(|key| self.queue.waiting(key)).collect();
        }
        turns
    }

    /// A write past the queue, in its turn. Where it takes the place of what was there, what waited for its key before is not
    /// written any more once it is made.
    pub(crate) async fn write<T, E>(
        &self,
        key: K,
        waiting: Waiting,
        made: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let turns = self.turns(vec![key.clone()]).await;
        let made = made.await;
        if made.is_ok() && waiting == Waiting::Dropped {
            turns.drop_older(&key);
        }
        made
    }

    /// Writes what waits for a key, in its turn, and says whether anything did.
    pub(crate) async fn flush<F, E>(&self, key: K, write: impl FnOnce(W) -> F) -> Result<bool, E>
    where
        F: Future<Output = Result<(), E>>,
    {
        let turns = self.turns(vec![key.clone()]).await;
        let Some(pending) = turns.older().cloned() else { return Ok(false) };
        write(pending).await?;
        turns.drop_older(&key);
        Ok(true)
    }

    /// For the worker: the oldest writes that nobody holds. `None` ends it: nothing is left.
    pub(crate) async fn take(&self, count_max: usize) -> Option<Vec<(K, W)>> {
        loop {
            let batch = self.queue.take(count_max)?;
            if !batch.is_empty() {
                return Some(batch);
            }
            self.released.notified().await;
        }
    }

    /// Something of the queue is over, written or not.
    pub(crate) fn tell(&self) {
        self.changed.notify_waiters();
    }

    pub(crate) async fn until(&self, is_done: impl Fn() -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Listening before looking, so that no change is missed in between.
            changed.as_mut().enable();
            if is_done() {
                return;
            }
            changed.await;
        }
    }
}

/// While they last, nothing of their keys is written behind.
pub(crate) struct Turns<'a, K: Hash + Eq + Clone, W: Clone> {
    line: &'a Line<K, W>,
    keys: Vec<K>,
    /// What waited for each when they began; nothing at all, if nothing did for any.
    older: Vec<Option<W>>,
    _only: Option<MutexGuard<'a, ()>>,
}

impl<K: Hash + Eq + Clone, W: Clone> Turns<'_, K, W> {
    /// What waited for the first of them when they began.
    pub(crate) fn older(&self) -> Option<&W> {
        self.older.first()?.as_ref()
    }

    /// A key was written: what waited for it when they began is not. What has been pushed since is newer, and stays.
    pub(crate) fn drop_older(&self, key: &K) {
        let is_same = self.line.is_same;
        for (_, older) in self.keys.iter().zip(&self.older).filter(|(held, _)| *held == key) {
            self.line
                .queue
                .forget_if(key, |waiting| older.as_ref().is_some_and(|older| is_same(waiting, older)));
        }
    }
}

impl<K: Hash + Eq + Clone, W: Clone> Drop for Turns<'_, K, W> {
    fn drop(&mut self) {
        for key in &self.keys {
            self.line.queue.release(key);
        }
        self.line.released.notify_one();
    }
}

impl<K: Hash + Eq + Clone, W: Clone> fmt::Debug for Turns<'_, K, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}
