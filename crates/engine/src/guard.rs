//! Who may refuse a write for what it would make of an item.
//!
//! The engine asks and knows none of the reasons: a schema is one, and lives above. A guard is asked once the item that
//! will be is known, after every rule of DynamoDB's own and after the condition, so with a guard more is refused and
//! nothing is done otherwise. All writes of one request are judged by one guard; another takes its place between
//! requests.

use std::fmt;
use std::sync::Arc;

use larder_model::{Item, TableName, UnixTime};

use crate::{Engine, Error};

/// Judges writes. It is asked under the lock of the item, so it must not wait for anything.
pub trait Guard: fmt::Debug + Send + Sync {
    /// Whether this may be made, or why not, in a message for the client.
    ///
    /// What a restore brings back is judged too, and made whatever the answer: a copy is whole or it is none.
    fn judge(&self, write: &Proposal<'_>) -> Result<(), String>;
}

/// A change to one item that is decided and not yet made.
#[derive(Clone, Copy, Debug)]
pub struct Proposal<'a> {
    pub table: &'a TableName,
    pub kind: WriteKind,
    pub before: Option<&'a Item>,
    /// Absent when the item is removed.
    pub after: Option<&'a Item>,
    pub now: UnixTime,
}

/// What asks for a change, be it alone, in a batch or in a transaction. An expiry is not asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    Put,
    Update,
    Delete,
    Restore,
}

/// The guard of one request, if there is any, and the time of the request.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    guard: Option<Arc<dyn Guard>>,
    now: UnixTime,
}

impl Judge {
    pub(crate) fn ask(
        &self,
        table: &TableName,
        kind: WriteKind,
        before: Option<&Item>,
        after: Option<&Item>,
    ) -> Result<(), Error> {
        let Some(guard) = &self.guard else { return Ok(()) };
        guard.judge(&Proposal { table, kind, before, after, now: self.now }).map_err(Error::validation)
    }
}

impl Engine {
    /// Has every write from now on judged by this guard, or by none.
    pub fn set_guard(&self, guard: Option<Arc<dyn Guard>>) {
        self.guard.store(guard.map(Arc::new));
    }

    pub(crate) fn judge(&self, now: UnixTime) -> Judge {
        Judge { guard: self.guard.load().as_ref().map(|guard| Arc::clone(guard.as_ref())), now }
    }
}
