//! One budget of memory for all requests in flight.
//!
//! A request is let in with [`SMALL_BYTES`], and takes more as its body arrives, as it is read into values and as its
//! answer is written. What does not fit is turned away, and the client tries again. The last quarter is for
//! small requests alone: however many large ones there are, others are still answered.
//!
//! A small request costs two additions to one counter, and nothing else.
//!
//! Promise: a [`Share`] gives back what it took when it is dropped, however its request ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What any request has, for its head, a small body and a small answer.
pub(crate) const SMALL_BYTES: usize = 32 * 1024;

/// How often the log is told at most.
const HINT_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    taken: AtomicUsize,
    refused: AtomicU64,
    hints: Hints,
}

/// What one request has of the budget.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

/// A request did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Budget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let (taken, refused) = (AtomicUsize::new(0), AtomicU64::new(0));
        Arc::new(Self { limit, taken, refused, hints: Hints::default() })
    }

    /// Lets a request in.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Share, Full> {
        self.take(SMALL_BYTES, self.limit)?;
        Ok(Share { budget: Arc::clone(self), bytes: SMALL_BYTES })
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize, ceiling: usize) -> Result<(), Full> {
        let before = self.taken.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= ceiling {
            return Ok(());
        }
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
        self.refused.fetch_add(1, Ordering::Relaxed);
        if self.hints.due() {
            tracing::warn!(
                in_flight_mib = before >> 20,
                limit_mib = self.limit >> 20,
                "requests are turned away: those in flight take all the memory they may; --memory-limit sets it"
            );
        }
        Err(Full)
    }
}

impl Share {
    /// Takes what is missing for the request to have `bytes`.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Full> {
        if bytes > self.bytes {
            let ceiling = self.budget.limit - self.budget.limit / 4;
            self.budget.take(bytes - self.bytes, ceiling)?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Has `bytes` from now on, whether or not they fit: they are there already, and cannot be refused any more.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.budget.taken.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            self.budget.taken.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Lets one in [`HINT_EVERY`] through.
#[derive(Debug)]
pub(crate) struct Hints {
    start: Instant,
    /// In milliseconds from the start, and one.
    last: AtomicU64,
}

impl Default for Hints {
    fn default() -> Self {
        Self { start: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl Hints {
    pub(crate) fn due(&self) -> bool {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1;
        let last = self.last.load(Ordering::Relaxed);
        let every = u64::try_from(HINT_EVERY.as_millis()).unwrap_or(u64::MAX);
        let due = last == 0 || now.saturating_sub(last) >= every;
        due && self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_comes_back() {
        let budget = Budget::new(1 << 20);
        let mut share = budget.enter().unwrap();
        share.grow_to(100_000).unwrap();
        share.grow_to(50_000).unwrap();
        assert_eq!(budget.taken(), 100_000);
        share.set(3_000_000);
        assert_eq!((budget.taken(), budget.enter().unwrap_err()), (3_000_000, Full));
        share.set(10);
        assert_eq!(budget.taken(), 10);
        drop(share);
        assert_eq!((budget.taken(), budget.refused()), (0, 1));
    }

    #[test]
    fn the_last_quarter_is_for_small_requests() {
        let budget = Budget::new(1 << 20);
        let mut large = budget.enter().unwrap();
        large.grow_to((1 << 20) * 3 / 4).unwrap();
        let mut other = budget.enter().unwrap();
        assert_eq!(other.grow_to(SMALL_BYTES + 1), Err(Full));
        let small: Vec<Share> = (0..7).map(|_| budget.enter().unwrap()).collect();
        assert_eq!(budget.enter().unwrap_err(), Full);
        drop((large, other, small));
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn the_log_is_told_seldom() {
        let hints = Hints::default();
        assert!(hints.due());
        assert!(!hints.due());
    }
}
