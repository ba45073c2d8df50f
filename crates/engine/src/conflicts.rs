//! Conflicts of transactions, for those who ask for them: so that a program which cannot bear them is found before DynamoDB
//! finds it.
//!
//! Here transactions wait for each other, and for other writes, for microseconds. DynamoDB turns one of the two away. Where
//! conflicts are told ([`Engine::tell_conflicts`]), a write is underway from when it is decided until it is on disk, and
//!
//! - a single write of an item that a transaction is writing is refused, and left undone in a batch;
//! - a transaction that writes an item which another is writing is cancelled;
//! - a transaction that reads an item which anything is writing is cancelled.
//!
//! Promises:
//! - Off, as it is unless it is asked for, it costs one look at whether it is on.
//! - What was refused has changed nothing, and whatever is underway ends: by its answer, or when nobody waits for that any more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use larder_model::{ApiError, CancellationReason};
use parking_lot::Mutex;

use crate::{Engine, Error};

#[derive(Debug, Default)]
pub(crate) struct Conflicts {
    told: AtomicBool,
    underway: Mutex<HashMap<Vec<u8>, Writers>>,
}

/// Who is writing an item.
#[derive(Clone, Copy, Debug, Default)]
struct Writers {
    single: u32,
    transactions: u32,
}

impl Writers {
    fn of(&mut self, kind: Kind) -> &mut u32 {
        match kind {
            Kind::Single => &mut self.single,
            Kind::Transaction => &mut self.transactions,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Single,
    Transaction,
}

/// A write that is underway until this is dropped.
#[derive(Debug)]
pub(crate) struct Underway {
    engine: Engine,
    keys: Vec<Vec<u8>>,
    kind: Kind,
}

impl Drop for Underway {
    fn drop(&mut self) {
        let mut underway = self.engine.conflicts.underway.lock();
        for key in &self.keys {
            let Some(writers) = underway.get_mut(key) else { continue };
            let writer = writers.of(self.kind);
            *writer = writer.saturating_sub(1);
            if writers.single == 0 && writers.transactions == 0 {
                underway.remove(key);
            }
        }
    }
}

impl Engine {
    /// Tells conflicts of transactions from now on.
    pub fn tell_conflicts(&self) {
        self.conflicts.told.store(true, Ordering::Relaxed);
    }

    pub(crate) fn tells_conflicts(&self) -> bool {
        self.conflicts.told.load(Ordering::Relaxed)
    }

    /// Notes that these items are written, if conflicts are told. For whoever holds their locks.
    pub(crate) fn under_way(&self, keys: impl FnOnce() -> Vec<Vec<u8>>, kind: Kind) -> Option<Underway> {
        if !self.tells_conflicts() {
            return None;
        }
        let keys = keys();
        let mut underway = self.conflicts.underway.lock();
        for key in &keys {
            *underway.entry(key.clone()).or_default().of(kind) += 1;
        }
        drop(underway);
        Some(Underway { engine: self.clone(), keys, kind })
    }

    /// Refuses to write an item that a transaction is writing. For whoever holds its lock.
    pub(crate) fn check_conflict(&self, key: &[u8]) -> Result<(), Error> {
        if self.is_written(key, |writers| writers.transactions > 0) {
            return Err(ApiError::TransactionConflict.into());
        }
        Ok(())
    }

    /// Refuses to read an item in a transaction that anybody is writing.
    pub(crate) fn check_reading(&self, key: &[u8]) -> Result<(), Error> {
        if self.is_written(key, |_| true) {
            return Err(ApiError::TransactionConflict.into());
        }
        Ok(())
    }

    fn is_written(&self, key: &[u8], by: impl Fn(&Writers) -> bool) -> bool {
        self.tells_conflicts() && self.conflicts.underway.lock().get(key).is_some_and(by)
    }
}

/// What a conflict means for the transaction.
pub(crate) fn reason() -> CancellationReason {
    CancellationReason {
        code: CancellationReason::CONFLICT,
        message: Some(ApiError::TransactionConflict.to_string()),
        item: None,
    }
}
