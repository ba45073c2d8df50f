//! One load per key: the first who asks leads, the rest wait for its answer.
//!
//! A leader that goes away without an answer leaves no trace: those who wait are told so and ask again, and one
//! of them leads. A leader may also answer those who wait now and go on, when it has something good enough.
//!
//! Promises:
//! - At any moment a key has at most one leader.
//! - Whoever waits is answered, or told that there will be no answer.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use tokio::sync::oneshot::{Receiver, Sender, channel};

use crate::sync::Mutex;

/// The loads that are under way.
pub(crate) struct Flights<K, T> {
    waiting: Mutex<HashMap<K, Vec<Sender<T>>>>,
}

pub(crate) enum Joined<K: Hash + Eq, T> {
    Lead(Lead<K, T>),
    Wait(Receiver<T>),
}

impl<K: Hash + Eq + Clone, T: Clone> Flights<K, T> {
    pub(crate) fn new() -> Self {
        Self { waiting: Mutex::new(HashMap::new()) }
    }

    pub(crate) fn join(self: &Arc<Self>, key: &K) -> Joined<K, T> {
        let mut waiting = self.waiting.lock();
        if let Some(senders) = waiting.get_mut(key) {
            let (sender, receiver) = channel();
            senders.push(sender);
            return Joined::Wait(receiver);
        }
        waiting.insert(key.clone(), Vec::new());
        Joined::Lead(Lead { flights: Arc::clone(self), key: Some(key.clone()) })
    }

    /// Leads, unless somebody does already.
    pub(crate) fn lead(self: &Arc<Self>, key: &K) -> Option<Lead<K, T>> {
        let mut waiting = self.waiting.lock();
        if waiting.contains_key(key) {
            return None;
        }
        waiting.insert(key.clone(), Vec::new());
        Some(Lead { flights: Arc::clone(self), key: Some(key.clone()) })
    }
}

impl<K, T> fmt::Debug for Flights<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flights").finish_non_exhaustive()
    }
}

/// The right to answer for a key.
pub(crate) struct Lead<K: Hash + Eq, T> {
    flights: Arc<Flights<K, T>>,
    /// Taken by the answer.
    key: Option<K>,
}

impl<K: Hash + Eq + Clone, T: Clone> Lead<K, T> {
    /// Waits for the answer like the others, while somebody else carries the lead.
    pub(crate) fn wait(&self) -> Receiver<T> {
        let (sender, receiver) = channel();
        if let Some(key) = &self.key {
            self.flights.waiting.lock().entry(key.clone()).or_default().push(sender);
        }
        receiver
    }

    /// Answers those who wait now, and goes on.
    pub(crate) fn share(&self, answer: &T) {
        let Some(key) = &self.key else { return };
        let senders = self.flights.waiting.lock().get_mut(key).map(std::mem::take);
        send(senders.unwrap_or_default(), answer);
    }

    /// Answers, and ends the load.
    pub(crate) fn land(mut self, answer: &T) {
        let Some(key) = self.key.take() else { return };
        let senders = self.flights.waiting.lock().remove(&key);
        send(senders.unwrap_or_default(), answer);
    }
}

/// Those who have stopped waiting are nobody's loss.
fn send<T: Clone>(senders: Vec<Sender<T>>, answer: &T) {
    for sender in senders {
        let _ = sender.send(answer.clone());
    }
}

impl<K: Hash + Eq, T> Drop for Lead<K, T> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let senders = self.flights.waiting.lock().remove(&key);
            // After the lock: a dropped sender may wake somebody who joins at once.
            drop(senders);
        }
    }
}
