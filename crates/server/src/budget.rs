//! One budget of memory for all requests in flight.
//!
//! A request takes what is set aside for its body. Once that is whole it is let in with [`SMALL_BYTES`], and takes more
//! as it is read into values and as its answer is written. What does not fit is turned away, and the client tries
//! again. The last quarter is for small requests whose body is here: however many large ones there are, and however
//! many of which the rest does not come, others are still answered.
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

    /// What a request has that is not let in yet: nothing.
    pub(crate) fn outside(self: &Arc<Self>) -> Share {
        Share { budget: Arc::clone(self), bytes: 0 }
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
                "requests are turned away: those in flight use all the memory allowed; --memory-limit sets it"
            );
        }
        Err(Full)
    }
}

impl Share {
    /// Lets the request in.
    pub(crate) fn admit(&mut self) -> Result<(), Full> {
        self.take_up_to(SMALL_BYTES, self.budget.limit)
    }

    /// Takes what is missing for the request to have `bytes`.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Full> {
        self.take_up_to(bytes, self.budget.limit - self.budget.limit / 4)
    }

    fn take_up_to(&mut self, bytes: usize, ceiling: usize) -> Result<(), Full> {
        if bytes > self.bytes {
            self.budget.take(bytes - self.bytes, ceiling)?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Has `bytes` from now on, whether or not they fit: they are there already, and cannot be refused any more.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.budget.taken.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
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

    fn entered(budget: &Arc<Budget>) -> Result<Share, Full> {
        let mut share = budget.outside();
        share.admit().map(|()| share)
    }

    #[test]
    fn what_was_taken_comes_back() {
        let budget = Budget::new(1 << 20);
        let mut share = entered(&budget).unwrap();
        share.grow_to(100_000).unwrap();
        share.grow_to(50_000).unwrap();
        assert_eq!(budget.taken(), 100_000);
        share.set(3_000_000);
        assert_eq!((budget.taken(), entered(&budget).unwrap_err()), (3_000_000, Full));
        share.set(10);
        assert_eq!(budget.taken(), 10);
        drop(share);
        assert_eq!((budget.taken(), budget.refused()), (0, 1));
    }

    #[test]
    fn the_last_quarter_is_for_small_requests() {
        let budget = Budget::new(1 << 20);
        let mut large = entered(&budget).unwrap();
        large.grow_to((1 << 20) * 3 / 4).unwrap();
        let mut other = entered(&budget).unwrap();
        assert_eq!(other.grow_to(SMALL_BYTES + 1), Err(Full));
        let small: Vec<Share> = (0..7).map(|_| entered(&budget).unwrap()).collect();
        assert_eq!(entered(&budget).unwrap_err(), Full);
        drop((large, other, small));
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn bodies_whose_rest_does_not_come_leave_room_for_those_that_are_here() {
        let budget = Budget::new(1 << 20);
        let mut begun: Vec<Share> = (0..1000).map(|_| budget.outside()).collect();
        assert_eq!(budget.taken(), 0);
        let taken = begun.iter_mut().filter_map(|share| share.grow_to(1024).ok()).count();
        assert_eq!((taken, budget.taken()), (768, 768 * 1024));
        assert_eq!(begun[0].grow_to(1025), Err(Full));
        assert!(entered(&budget).is_ok());
        assert_eq!(begun[0].admit(), Ok(()));
        drop(begun);
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn the_log_is_told_seldom() {
        let hints = Hints::default();
        assert!(hints.due());
        assert!(!hints.due());
    }
}
