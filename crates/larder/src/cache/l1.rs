//! What a process keeps in memory: bounded by bytes, records as they are, so that a hit decodes nothing.
//!
//! An entry carries its own life and leaves after the time the schema gives L1, whatever the store says. A fill
//! says what it knew before it read, by a [`Mark`]; when the key was written meanwhile, the fill is dropped, so an
//! old value cannot come back over a newer write.

use std::any::Any;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use larder_model::UnixTime;
use larder_schema::schema::L1 as Limits;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::Identity;
use super::freshness::Life;

/// Several keys share a counter; a collision loses a fill and nothing else.
const COUNTERS: usize = 256;
/// What an entry takes besides its record, about.
const OVERHEAD_BYTES: u64 = 128;
/// A guess, for the size of tables inside.
const AVERAGE_BYTES: u64 = 1024;

pub(crate) struct L1 {
    limits: Limits,
    entries: Cache<Identity, L1Entry, ByBytes>,
    writes: Box<[AtomicU64]>,
}

#[derive(Clone, Debug)]
pub(crate) struct L1Entry {
    /// The record, or nothing where the source said that there is none.
    pub(crate) value: Option<Arc<dyn Any + Send + Sync>>,
    pub(crate) life: Life,
    /// When it leaves L1.
    until: UnixTime,
    bytes: usize,
}

/// What was known of a key's writes before it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u64);

impl Mark {
    /// The same after one more write: the reader's own.
    pub(crate) fn after_own_write(self) -> Self {
        Self(self.0 + 1)
    }
}

#[derive(Clone, Debug)]
struct ByBytes;

impl Weighter<Identity, L1Entry> for ByBytes {
    fn weight(&self, key: &Identity, entry: &L1Entry) -> u64 {
        (key.len() + entry.bytes) as u64 + OVERHEAD_BYTES
    }
}

impl L1 {
    pub(crate) fn new(limits: Limits) -> Self {
        let items = usize::try_from((limits.bytes_max / AVERAGE_BYTES).max(1)).unwrap_or(usize::MAX);
        Self {
            limits,
            entries: Cache::with_weighter(items, limits.bytes_max, ByBytes),
            writes: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// What is kept, while its time in L1 lasts.
    pub(crate) fn get(&self, key: &[u8], now: UnixTime) -> Option<L1Entry> {
        self.entries.get(key).filter(|entry| now.millis() < entry.until.millis())
    }

    pub(crate) fn mark(&self, key: &[u8]) -> Mark {
        Mark(self.counter(key).load(Ordering::SeqCst))
    }

    /// Keeps a record, at most so long, unless its key was written since the mark.
    pub(crate) fn fill(
        &self,
        key: &Identity,
        mark: Mark,
        (value, bytes): (Option<Arc<dyn Any + Send + Sync>>, usize),
        (life, at_most): (Life, Option<UnixTime>),
        now: UnixTime,
    ) {
        let until = UnixTime::from_millis(now.millis().saturating_add(self.limits.millis));
        let until = at_most.map_or(until, |at_most| until.min(at_most));
        self.entries.insert(Arc::clone(key), L1Entry { value, life, until, bytes });
        // Looked at after the insert: a write before it is seen here, a later one removes the entry itself.
        if self.mark(key).0 != mark.0 {
            self.entries.remove(&**key);
        }
    }

    /// Nothing is kept any more, nor is what was read before.
    pub(crate) fn clear(&self) {
        for counter in &self.writes {
            counter.fetch_add(1, Ordering::SeqCst);
        }
        self.entries.clear();
    }

    pub(crate) fn forget(&self, key: &[u8]) {
        self.counter(key).fetch_add(1, Ordering::SeqCst);
        self.entries.remove(key);
    }

    fn counter(&self, key: &[u8]) -> &AtomicU64 {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % COUNTERS as u64).unwrap_or(0);
        &self.writes[at]
    }
}

impl fmt::Debug for L1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("L1").field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn l1(bytes_max: u64) -> L1 {
        L1::new(Limits { millis: 1000, bytes_max })
    }

    fn fill(l1: &L1, key: &str, mark: Mark, bytes: usize) {
        let now = UnixTime::from_millis(0);
        let life = Life { stored_at: now, fresh_until: None };
        l1.fill(&Arc::from(key.as_bytes()), mark, (Some(Arc::new(key.to_owned())), bytes), (life, None), now);
    }

    #[test]
    fn an_entry_leaves_when_its_time_in_l1_is_over() {
        let l1 = l1(1 << 20);
        fill(&l1, "a", l1.mark(b"a"), 10);
        assert!(l1.get(b"a", UnixTime::from_millis(999)).is_some());
        assert!(l1.get(b"a", UnixTime::from_millis(1000)).is_none());
    }

    #[test]
    fn a_fill_that_read_before_a_write_is_dropped() {
        let l1 = l1(1 << 20);
        let mark = l1.mark(b"a");
        l1.forget(b"a");
        fill(&l1, "a", mark, 10);
        assert!(l1.get(b"a", UnixTime::from_millis(0)).is_none());
        fill(&l1, "a", mark.after_own_write(), 10);
        assert!(l1.get(b"a", UnixTime::from_millis(0)).is_some());
    }

    #[test]
    fn a_fill_that_read_before_everything_was_forgotten_is_dropped() {
        let l1 = l1(1 << 20);
        let mark = l1.mark(b"a");
        l1.clear();
        fill(&l1, "a", mark, 10);
        assert!(l1.get(b"a", UnixTime::from_millis(0)).is_none());
    }

    #[test]
    fn all_together_stay_within_the_bytes() {
        let l1 = l1(100_000);
        for key in 0..1000 {
            let key = key.to_string();
            fill(&l1, &key, l1.mark(key.as_bytes()), 1000);
        }
        assert!(l1.entries.weight() <= 100_000, "{}", l1.entries.weight());
        assert!(l1.entries.len() > 10);
    }
}
