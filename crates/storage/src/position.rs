//! Where a store is in its own history.
//!
//! Every group of batches that is committed gets the next number. The number is in the group's record of the log,
//! and in the tree with every table that it absorbs, so it goes on where it was when the store is opened again.
//!
//! Two states with the same number need not be the same: a copy of the file goes its own way, and a store with
//! [`Relaxed`](crate::Durability::Relaxed) durability may lose its last moment and go on differently. So each time a
//! store is opened is a run with a random number of its own; commit and run together name one state.

use crate::Error;

/// A committed state: its number, and when it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// How many groups of batches were committed.
    pub commit: u64,
    /// The opening of the store that committed the last of them.
    pub run: u64,
    /// When that was, in milliseconds since 1970, by a clock that may have been set back meanwhile; zero if nobody told the
    /// store the time.
    pub time_ms: u64,
}

impl Position {
    pub(crate) const BYTES: usize = 24;

    pub(crate) fn next(self, run: u64, now_ms: u64) -> Self {
        Self { commit: self.commit + 1, run, time_ms: if now_ms == 0 { self.time_ms } else { now_ms } }
    }

    /// Whether both are the same state of the same store.
    pub fn is(&self, other: &Self) -> bool {
        (self.commit, self.run) == (other.commit, other.run)
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let words = [self.commit, self.run, self.time_ms].map(u64::to_le_bytes);
        let mut bytes = [0; Self::BYTES];
        bytes.copy_from_slice(words.as_flattened());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let [commit, run, time_ms] = [0, 1, 2].map(|n: usize| u64::from_le_bytes(words[n]));
        Self { commit, run, time_ms }
    }
}

pub(crate) fn random_run() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(u64::from_le_bytes(bytes))
}
