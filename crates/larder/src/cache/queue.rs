//! Writes that wait: bounded, in order, the newest of a key alone.
//!
//! The one worker takes some writes, does them, says what became of each, and takes the next. So while a write of
//! a key is under way the next one of that key waits, and an older value never lands on a newer one. The queue
//! owns no task: a push says when a worker has to be started, and a worker that finds nothing to take has ended.
//!
//! Promises:
//! - What was pushed is waiting, under way, written, replaced by a newer one, or forgotten; never nowhere.
//! - There is at most one worker, and none is missing while something waits.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use crate::sync::Mutex;

#[derive(Debug)]
pub(crate) struct Queue<K, W> {
    state: Mutex<Entries<K, W>>,
    capacity: usize,
}

#[derive(Debug)]
struct Entries<K, W> {
    order: VecDeque<K>,
    waiting: HashMap<K, W>,
    writing: HashMap<K, W>,
    /// Not to be begun while somebody writes the key past the queue.
    held: HashMap<K, usize>,
    is_running: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    Queued,
    /// It waits, and whoever pushed it starts a worker.
    Start,
    /// There is no room for another key.
    Full,
    /// What waits is newer.
    Overtaken,
}

impl<K: Hash + Eq + Clone, W: Clone> Queue<K, W> {
    pub(crate) fn new(capacity: usize) -> Self {
        let state = Entries {
            order: VecDeque::new(),
            waiting: HashMap::new(),
            writing: HashMap::new(),
            held: HashMap::new(),
            is_running: false,
        };
        Self { state: Mutex::new(state), capacity }
    }

    pub(crate) fn push(&self, key: K, write: W) -> Pushed {
        self.push_over(key, |_| Some(write))
    }

    /// Pushes what is made of the write that waits for the key, if any; or nothing.
    pub(crate) fn push_over(&self, key: K, write: impl FnOnce(Option<&W>) -> Option<W>) -> Pushed {
        let mut state = self.state.lock();
        let Some(write) = write(state.waiting.get(&key)) else { return Pushed::Overtaken };
        if let Some(older) = state.waiting.get_mut(&key) {
            *older = write;
        } else if state.waiting.len() + state.writing.len() >= self.capacity {
            return Pushed::Full;
        } else {
            state.order.push_back(key.clone());
            state.waiting.insert(key, write);
        }
        if std::mem::replace(&mut state.is_running, true) { Pushed::Queued } else { Pushed::Start }
    }

    /// The oldest writes that are not held; none while all are. `None` ends the worker that asks: nothing is left.
    pub(crate) fn take(&self, count_max: usize) -> Option<Vec<(K, W)>> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let (mut taken, mut held) = (Vec::new(), Vec::new());
        while taken.len() < count_max {
            let Some(key) = state.order.pop_front() else { break };
            if state.held.contains_key(&key) {
                held.push(key);
                continue;
            }
            let Some(write) = state.waiting.remove(&key) else { continue };
            state.writing.insert(key.clone(), write.clone());
            taken.push((key, write));
        }
        for key in held.into_iter().rev() {
            state.order.push_front(key);
        }
        if taken.is_empty() && state.order.is_empty() {
            state.is_running = false;
            return None;
        }
        Some(taken)
    }

    /// These are over: written, or given up.
    pub(crate) fn finish<'a>(&self, keys: impl IntoIterator<Item = &'a K>)
    where
        K: 'a,
    {
        let mut state = self.state.lock();
        for key in keys {
            state.writing.remove(key);
        }
    }

    /// These have to be tried again, before all others. Where something newer waits, that alone is tried.
    pub(crate) fn put_back<'a>(&self, keys: impl IntoIterator<Item = &'a K>)
    where
        K: 'a,
    {
        let mut state = self.state.lock();
        for key in keys {
            state.put_back(key);
        }
    }

    /// The worker is gone, whatever it was doing.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        let keys: Vec<K> = state.writing.keys().cloned().collect();
        for key in &keys {
            state.put_back(key);
        }
        state.is_running = false;
    }

    /// Keeps what waits for a key, or comes to, from being begun. Whether there is anything of it.
    pub(crate) fn hold(&self, key: &K) -> bool {
        let mut state = self.state.lock();
        *state.held.entry(key.clone()).or_default() += 1;
        state.waiting.contains_key(key) || state.writing.contains_key(key)
    }

    pub(crate) fn release(&self, key: &K) {
        let mut state = self.state.lock();
        match state.held.get_mut(key) {
            Some(holders) if *holders > 1 => *holders -= 1,
            _ => drop(state.held.remove(key)),
        }
    }

    /// Drops what waits for a key, if it is this. Whether it was.
    pub(crate) fn forget_if(&self, key: &K, is_this: impl Fn(&W) -> bool) -> bool {
        let mut state = self.state.lock();
        let is_this = state.waiting.get(key).is_some_and(is_this);
        if is_this {
            state.waiting.remove(key);
            state.order.retain(|waiting| waiting != key);
        }
        is_this
    }

    /// What waits for a key and is not begun.
    pub(crate) fn waiting(&self, key: &K) -> Option<W> {
        self.state.lock().waiting.get(key).cloned()
    }

    /// The newest write of a key that may not have arrived yet.
    pub(crate) fn pending(&self, key: &K) -> Option<W> {
        let state = self.state.lock();
        state.waiting.get(key).or_else(|| state.writing.get(key)).cloned()
    }

    /// The newest write of each key that may not have arrived yet.
    pub(crate) fn all_pending(&self) -> Vec<W> {
        let state = self.state.lock();
        let newest = state.writing.iter().filter(|(key, _)| !state.waiting.contains_key(*key));
        let writing = newest.map(|(_, write)| write);
        writing.chain(state.waiting.values()).cloned().collect()
    }

    pub(crate) fn is_writing(&self, key: &K) -> bool {
        self.state.lock().writing.contains_key(key)
    }

    pub(crate) fn len(&self) -> usize {
        let state = self.state.lock();
        state.waiting.len() + state.writing.len()
    }

    /// Everything that may not have arrived yet.
    pub(crate) fn all(&self) -> Vec<W> {
        let state = self.state.lock();
        state.writing.values().chain(state.waiting.values()).cloned().collect()
    }
}

impl<K: Hash + Eq + Clone, W> Entries<K, W> {
    fn put_back(&mut self, key: &K) {
        let Some(write) = self.writing.remove(key) else { return };
        if !self.waiting.contains_key(key) {
            self.waiting.insert(key.clone(), write);
            self.order.push_front(key.clone());
        }
    }
}
