//! What the five systems share: when it is over, what happened last, and counts of what their readers saw.
//!
//! A reader counts by the answer it was given. The layer and the origin count for themselves, so that the three can
//! be held against each other at the end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use larder::{Clock, Error, Fetched, Origin as From, Stats, System};
use larder_examples::origin::Origin;
use larder_model::Item;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// News that are kept: as many as a tall screen has room for.
const NEWS_MAX: usize = 80;

/// Clones are the same world.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) clock: Clock,
    pub(super) seed: u64,
    pub(super) over: watch::Receiver<bool>,
    pub(super) news: Arc<Mutex<VecDeque<News>>>,
}

#[derive(Clone, Debug)]
pub(super) struct News {
    pub(super) seconds: i64,
    pub(super) system: &'static str,
    pub(super) text: String,
}

impl World {
    /// Waits that long; false when it is over.
    pub(super) async fn pause(&self, time: Duration) -> bool {
        let mut over = self.over.clone();
        // Out of time is what is hoped for. Whoever could say that it is over is there as long as we are.
        timeout(time, over.wait_for(|over| *over)).await.is_err()
    }

    /// Choices that are the same in every run with the same seed.
    pub(super) fn random(&self, name: &str) -> Rng {
        let name = name.bytes().fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        Rng::with_seed(self.seed ^ name)
    }

    pub(super) fn tell(&self, system: &'static str, text: impl Into<String>) {
        let mut news = self.news.lock();
        if news.len() == NEWS_MAX {
            news.pop_front();
        }
        news.push_back(News { seconds: self.clock.now().seconds(), system, text: text.into() });
    }
}

/// Lets those go who are done.
pub(super) fn see_out<T: 'static>(tasks: &mut JoinSet<T>) {
    while let Some(done) = tasks.try_join_next() {
        done.expect("nobody panics");
    }
}

/// A system, and what can be counted about it.
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) system: System,
    pub(super) origin: Origin,
    /// What readers saw, where it is a cache.
    pub(super) tally: Option<Arc<Tally>>,
    /// Requests that were sent to the origin, and how many of them because of a 429.
    pub(super) sent: Box<dyn Fn() -> (u64, u64) + Send + Sync>,
    /// The states of an item in the lifecycles of its entity, at a time in Unix seconds.
    pub(super) states: fn(&Item, i64) -> Vec<(&'static str, &'static str)>,
}

impl Part {
    /// What the layer counted, over all entities.
    pub(super) fn stats(&self) -> Stats {
        let entities = self.system.schema().tables.iter().flat_map(|table| &table.entities);
        let mut sum = Stats::default();
        for stats in
            entities.filter_map(|entity| self.system.entries(&entity.name)).map(|shelf| shelf.stats())
        {
            sum.hits += stats.hits;
            sum.misses += stats.misses;
            sum.calls_saved += stats.calls_saved;
            sum.loads += stats.loads;
            sum.load_failures += stats.load_failures;
            sum.store_errors += stats.store_errors;
            sum.writes += stats.writes;
            sum.writes_lost += stats.writes_lost;
            sum.call_microdollars = sum.call_microdollars.max(stats.call_microdollars);
        }
        sum
    }

    /// Why the last read failed that did.
    pub(super) fn failure(&self) -> Option<String> {
        self.tally.as_ref()?.failure()
    }

    pub(super) fn counts(&self) -> Counts {
        self.tally.as_ref().map(|tally| tally.counts()).unwrap_or_default()
    }
}

pub(super) fn stateless(_: &Item, _: i64) -> Vec<(&'static str, &'static str)> {
    Vec::new()
}

/// What came of reads, as their readers saw it.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Counts>, Mutex<Option<String>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) l1: u64,
    pub(super) store: u64,
    pub(super) stale: u64,
    pub(super) source: u64,
    /// The source says that there is no such thing.
    pub(super) absent: u64,
    pub(super) failed: u64,
    /// Calls of the source.
    pub(super) called: u64,
    /// Reads that called it. The others that missed waited for such a call.
    pub(super) led: u64,
}

impl Counts {
    pub(super) fn hits(&self) -> u64 {
        self.l1 + self.store + self.stale
    }

    pub(super) fn misses(&self) -> u64 {
        self.source + self.absent + self.failed
    }

    pub(super) fn reads(&self) -> u64 {
        self.hits() + self.misses()
    }

    pub(super) fn of(&mut self, origin: &From) -> &mut u64 {
        match origin {
            From::L1 => &mut self.l1,
            From::Store => &mut self.store,
            From::Source => &mut self.source,
            // Past its time, and being fetched anew: none of the demo's schemas gives it in place of a failure.
            _ => &mut self.stale,
        }
    }
}

impl Tally {
    pub(super) fn counts(&self) -> Counts {
        *self.0.lock()
    }

    /// Why the last read failed that did.
    pub(super) fn failure(&self) -> Option<String> {
        self.1.lock().clone()
    }

    /// A read failed: there was nothing to give instead.
    pub(super) fn fail(&self, why: &dyn std::fmt::Display) {
        self.add(|counts| counts.failed += 1);
        *self.1.lock() = Some(why.to_string());
    }

    /// The call that a read may have to make.
    pub(super) fn call(self: &Arc<Self>) -> Call {
        Call { tally: Arc::clone(self), made: Arc::default() }
    }

    pub(super) fn add(&self, add: impl FnOnce(&mut Counts)) {
        add(&mut self.0.lock());
    }
}

/// One read's call of its source.
#[derive(Clone, Debug)]
pub(super) struct Call {
    tally: Arc<Tally>,
    made: Arc<AtomicBool>,
}

impl Call {
    /// The source is being called.
    pub(super) fn make(&self) {
        let first = !self.made.swap(true, Ordering::Relaxed);
        self.tally.add(|counts| {
            counts.called += 1;
            counts.led += u64::from(first);
        });
    }

    /// The same loader, counted.
    pub(super) fn around<K, F>(
        &self,
        load: impl Fn(K) -> F + Send + Sync + 'static,
    ) -> impl Fn(K) -> F + Send + Sync + 'static {
        let call = self.clone();
        move |key| {
            call.make();
            load(key)
        }
    }

    /// Counts how the read ended, and hands on what it was given.
    pub(super) fn ended<R>(&self, read: Result<Fetched<R>, Error>) -> Option<Fetched<R>> {
        match &read {
            Ok(fetched) => self.tally.add(|counts| *counts.of(fetched.origin()) += 1),
            Err(error) if error.is_absent() => self.tally.add(|counts| counts.absent += 1),
            Err(error) => self.tally.fail(error),
        }
        read.ok()
    }
}
