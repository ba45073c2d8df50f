//! Writes behind: after the answer, bounded, in batches, tried again until they are done.
//!
//! Each entity has a queue and, while something waits, one task that empties it, 25 items a request. What the
//! store turns away for now goes back to the front and is tried again after growing pauses; what it refuses for
//! good is given up, logged at `ERROR`, and reported by the next drain. So is what does not fit in a full queue: the
//! answer does not wait for room.
//!
//! A write past the queue takes its [`Turns`]: what is on its way at that very moment has arrived before it, and
//! nothing of its key is begun meanwhile. A whole write drops what waited for its key; a write that builds on what is
//! there writes it first. What is pushed while it is under way is newer, and written after it.
//!
//! What a source gave is written under the condition that nobody has written since the source was asked, one item a request and
//! several at a time: a batch knows no conditions.
//!
//! Promises:
//! - Nothing waits for a write behind, except a drain.
//! - Nothing is lost silently: a drain reports it, or the log does when nobody drains.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use larder_model::Item;
use larder_ops::BatchWrite;
use larder_schema::schema::{OversizeStep, Policy, Writes};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::queue::Pushed;
use super::turns::Line;
use super::{Identity, identity};
use crate::entity::Core;
use crate::observe::Observer;
use crate::write::{self, Outcome, Over};
use crate::{Error, backoff, oversize, store};

/// What BatchWriteItem takes.
const BATCH_MAX: usize = 25;
/// The first and the longest pause after a failure.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
/// Where the schema says nothing of writes behind.
const QUEUE_DEFAULT: u32 = 1000;
const DRAIN_DEFAULT: Duration = Duration::from_secs(5);
/// Longer than any program waits, and still a moment that can be named.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Losses that are named one by one; further ones are counted.
const NAMED_MAX: usize = 1000;

/// The writes of one entity that wait.
#[derive(Debug)]
pub(crate) struct Behind {
    entity: String,
    observer: Arc<Observer>,
    /// How long the end of the program waits for it.
    drain: Duration,
    pub(crate) line: Line<Identity, Arc<Write>>,
    /// Cuts a pause short.
    hurry: Notify,
    /// The keys that are being loaded: what a source gives is written after that.
    loading: Mutex<Vec<Arc<str>>>,
    tally: Mutex<Tally>,
}

#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) item: Item,
    pub(crate) over: Over,
    text: String,
}

/// Since the last drain.
#[derive(Debug, Default)]
struct Tally {
    written: u64,
    lost: Vec<Unwritten>,
    lost_count: u64,
    last_error: Option<String>,
}

impl Behind {
    pub(crate) fn new(entity: &str, policy: &Policy, observer: Arc<Observer>) -> Self {
        let (drain, capacity) = match policy.writes {
            Writes::Behind { drain_millis, queue } => {
                (Duration::from_millis(u64::try_from(drain_millis).unwrap_or(0)), queue)
            }
            Writes::Through => (DRAIN_DEFAULT, QUEUE_DEFAULT),
        };
        Self {
            entity: entity.to_owned(),
            observer,
            drain,
            line: Line::new(usize::try_from(capacity).unwrap_or(usize::MAX), Arc::ptr_eq),
            hurry: Notify::new(),
            loading: Mutex::default(),
            tally: Mutex::default(),
        }
    }

    /// Queues a write. One that finds no room is lost, and that is told.
    pub(crate) fn push(self: &Arc<Self>, core: &Arc<Core>, item: Item, over: Over) -> Result<(), Error> {
        let key = core.key_of(&item);
        let write = Arc::new(Write { text: core.key_text(&key), item, over });
        let pushed = self.line.queue.push(identity(&key), Arc::clone(&write));
        self.pushed(core, &write, pushed)
    }

    /// Queues what a source gave, unless something newer waits than what was pending when it was asked. In the place of that
    /// it may do what that one may.
    pub(crate) fn push_loaded(
        self: &Arc<Self>,
        core: &Arc<Core>,
        item: Item,
        seen: Option<&Item>,
        pending: Option<&Arc<Write>>,
    ) -> Result<Outcome, Error> {
        let key = core.key_of(&item);
        let mut made = None;
        let pushed = self.line.queue.push_over(identity(&key), |waiting| {
            let over = match (waiting, pending) {
                (None, _) => Over::seen(seen),
                (Some(waiting), Some(pending)) if Arc::ptr_eq(waiting, pending) => pending.over.clone(),
                (Some(_), _) => return None,
            };
            let write = Arc::new(Write { text: core.key_text(&key), item, over });
            made = Some(Arc::clone(&write));
            Some(write)
        });
        let Some(write) = made else { return Ok(Outcome::Overtaken) };
        self.pushed(core, &write, pushed).map(|()| Outcome::Made)
    }

    fn pushed(self: &Arc<Self>, core: &Arc<Core>, write: &Write, pushed: Pushed) -> Result<(), Error> {
        match pushed {
            Pushed::Full => {
                let error = Error::QueueFull { entity: self.entity.clone(), key: write.text.clone() };
                self.lose(core, write, &error.to_string());
                return Err(error);
            }
            Pushed::Queued | Pushed::Overtaken => {}
            Pushed::Start => drop(tokio::spawn(work(Arc::clone(self), Arc::clone(core)))),
        }
        self.observer.queue_depth(&write.text, self.line.queue.len(), core.unix_now());
        Ok(())
    }

    /// The newest write of a key that may not have arrived yet.
    pub(crate) fn pending(&self, key: &Identity) -> Option<Arc<Write>> {
        self.line.queue.pending(key)
    }

    /// The newest items that may not have arrived yet, of those that are meant.
    pub(crate) fn pending_of(&self, is_meant: impl Fn(&Item) -> bool) -> Vec<Arc<Write>> {
        let mut pending = self.line.queue.all_pending();
        pending.retain(|write| is_meant(&write.item));
        pending
    }

    /// What waits for a key and is not begun.
    pub(crate) fn waiting(&self, key: &Identity) -> Option<Arc<Write>> {
        self.line.queue.waiting(key)
    }

    /// The right to write these keys past the queue.
    pub(crate) async fn turns(&self, keys: Vec<Identity>) -> Turns<'_> {
        self.line.turns(keys).await
    }

    /// What waited for the key of these turns is written.
    pub(crate) fn flushed(&self) {
        self.tally.lock().written += 1;
    }

    /// Drops what waits for a key, if it is meant, and returns when nothing of it is under way. Whether it waited.
    pub(crate) async fn drop_pending(&self, key: &Identity, is_meant: impl Fn(&Item) -> bool) -> bool {
        // In its turn: somebody who flushes the key may be writing what waits.
        let _turns = self.turns(vec![Arc::clone(key)]).await;
        self.line.queue.forget_if(key, |write| is_meant(&write.item))
    }

    /// A load is under way until this is dropped, and a drain waits for it.
    pub(crate) fn loading(self: &Arc<Self>, key: &str) -> Loading {
        let key: Arc<str> = key.into();
        self.loading.lock().push(Arc::clone(&key));
        Loading { behind: Arc::clone(self), key }
    }

    fn lose(&self, core: &Core, write: &Write, reason: &str) {
        self.observer.lost(&write.text, reason, core.unix_now());
        let mut tally = self.tally.lock();
        tally.lost_count += 1;
        if tally.lost.len() < NAMED_MAX {
            let unwritten = self.unwritten(&write.text, reason);
            tally.lost.push(unwritten);
        }
    }

    fn unwritten(&self, key: &str, reason: &str) -> Unwritten {
        Unwritten { entity: self.entity.clone(), key: key.to_owned(), reason: reason.to_owned() }
    }

    async fn drain(&self, deadline: Instant, into: &Mutex<Drained>) {
        self.hurry.notify_one();
        let is_done = || self.loading.lock().is_empty() && self.line.queue.len() == 0;
        let empty = timeout_at(deadline, self.line.until(is_done)).await;
        let tally = std::mem::take(&mut *self.tally.lock());
        let mut into = into.lock();
        into.written += tally.written;
        into.lost_count += tally.lost_count;
        into.unwritten.extend(tally.lost);
        if empty.is_err() {
            let reason = tally.last_error.unwrap_or_else(|| "there was no time for it".to_owned());
            let waiting = self.line.queue.all();
            into.waiting_count += waiting.len() as u64;
            into.unwritten.extend(waiting.iter().map(|write| self.unwritten(&write.text, &reason)));
            let loading = self.loading.lock();
            into.waiting_count += loading.len() as u64;
            into.unwritten.extend(loading.iter().map(|key| self.unwritten(key, "it is still being loaded")));
        }
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        let keys: Vec<String> = self.line.queue.all().iter().map(|write| write.text.clone()).collect();
        if !keys.is_empty() {
            self.observer.abandoned(&keys);
        }
    }
}

/// While they last, nothing of their keys is written behind.
pub(crate) type Turns<'a> = super::turns::Turns<'a, Identity, Arc<Write>>;

/// A load that is under way.
pub(crate) struct Loading {
    behind: Arc<Behind>,
    key: Arc<str>,
}

impl Drop for Loading {
    fn drop(&mut self) {
        let mut loading = self.behind.loading.lock();
        if let Some(at) = loading.iter().position(|key| Arc::ptr_eq(key, &self.key)) {
            loading.swap_remove(at);
        }
        drop(loading);
        self.behind.line.tell();
    }
}

/// Puts back what was under way when its task is dropped.
struct Working<'a> {
    behind: &'a Behind,
    /// The queue knows already that the worker has ended; another may be at work.
    is_over: bool,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.behind.line.queue.stop();
        }
        self.behind.line.tell();
    }
}

/// Empties the queue, and ends when it is empty.
async fn work(behind: Arc<Behind>, core: Arc<Core>) {
    let mut working = Working { behind: &behind, is_over: false };
    let mut failures = 0_u32;
    while let Some(batch) = behind.line.take(BATCH_MAX).await {
        let last = batch.last().map(|(_, write)| write.text.clone()).unwrap_or_default();
        let error = write_batch(&behind, &core, batch).await;
        behind.observer.queue_depth(&last, behind.line.queue.len(), core.unix_now());
        behind.line.tell();
        match error {
            None => failures = 0,
            Some(error) => {
                failures += 1;
                let reason = error.to_string();
                behind.observer.store_failed("", "write behind", &reason, core.unix_now());
                behind.tally.lock().last_error = Some(reason);
                tokio::select! {
                    () = backoff::pause(BACKOFF, failures) => {}
                    () = behind.hurry.notified() => {}
                }
            }
        }
    }
    working.is_over = true;
}

/// Writes a batch: what is done or hopeless leaves the queue, the rest goes back. The error is why.
async fn write_batch(
    behind: &Behind,
    core: &Core,
    batch: Vec<(Identity, Arc<Write>)>,
) -> Option<store::Error> {
    // An item that may have parts cleans up after the one it replaces, which a batch cannot.
    let policy = &core.entity().policy;
    let steps = [Some(policy.oversize.first), policy.oversize.otherwise];
    let has_parts = steps.iter().flatten().any(|step| matches!(step, OversizeStep::Split));
    // And one that must not undo what somebody else did meanwhile is written under a condition.
    let one_by_one = has_parts || core.keeps();
    let (single, batch): (Vec<_>, Vec<_>) = batch.into_iter().partition(|(_, write)| {
        one_by_one || matches!(write.over, Over::Seen(_)) || oversize::is_oversize(core, &write.item)
    });
    let singles = single.into_iter().map(|entry| write_one(behind, core, entry));
    let mut transient = futures_util::future::join_all(singles).await.into_iter().flatten().next();
    if batch.is_empty() {
        return transient;
    }
    let puts = batch.iter().map(|(_, write)| BatchWrite::Put(write.item.clone())).collect();
    match write::send_batch(&core.store, &core.table_name, puts).await {
        Ok(undone) => {
            let left = undone.iter().map(|write| match write {
                BatchWrite::Put(item) => identity(&core.key_of(item)),
                BatchWrite::Delete(key) => identity(key),
            });
            let left: HashSet<Identity> = left.collect();
            let (left, done): (Vec<_>, Vec<_>) = batch.into_iter().partition(|(key, _)| left.contains(key));
            behind.done(core, &done);
            behind.line.queue.put_back(left.iter().map(|(key, _)| key));
            let turned_away = || store::Error::Throttled("part of a batch was not taken".to_owned());
            (!left.is_empty()).then(turned_away).or(transient)
        }
        Err(error) if error.is_transient() => {
            behind.line.queue.put_back(batch.iter().map(|(key, _)| key));
            Some(error)
        }
        // One of them is at fault: each is written by itself, so that the others are.
        Err(_) => {
            for entry in batch {
                transient = write_one(behind, core, entry).await.or(transient);
            }
            transient
        }
    }
}

async fn write_one(behind: &Behind, core: &Core, entry: (Identity, Arc<Write>)) -> Option<store::Error> {
    let error = try_one(behind, core, entry).await;
    behind.line.tell();
    error
}

async fn try_one(behind: &Behind, core: &Core, entry: (Identity, Arc<Write>)) -> Option<store::Error> {
    let (key, write) = &entry;
    match core.write_over(write.item.clone(), &write.over).await {
        Ok(Outcome::Made) => {
            behind.done(core, std::slice::from_ref(&entry));
            if core.keeps() {
                // What was kept of the old one is not in the item that readers were given meanwhile.
                core.cache.forget_in_l1(key);
            }
            None
        }
        Ok(Outcome::Overtaken) => {
            behind.line.queue.finish([key]);
            core.cache.forget_in_l1(key);
            tracing::debug!(key = write.text, "somebody has written since the source was asked");
            None
        }
        Err(Error::Store(error)) if error.is_transient() => {
            behind.line.queue.put_back([key]);
            Some(error)
        }
        Err(error @ Error::TooLarge { .. }) if may_skip(&core.entity().policy) => {
            core.observer.oversize(&write.text, &error);
            behind.line.queue.finish([key]);
            None
        }
        Err(error) => {
            behind.lose(core, write, &error.to_string());
            behind.line.queue.finish([key]);
            None
        }
    }
}

/// Whether something too large is returned and not stored.
pub(crate) fn may_skip(policy: &Policy) -> bool {
    [Some(policy.oversize.first), policy.oversize.otherwise].contains(&Some(OversizeStep::Skip))
}

impl Behind {
    fn done(&self, core: &Core, entries: &[(Identity, Arc<Write>)]) {
        self.line.queue.finish(entries.iter().map(|(key, _)| key));
        self.tally.lock().written += entries.len() as u64;
        for (_, write) in entries {
            self.observer.written(&write.text, core.expires(&write.item), core.unix_now());
        }
    }
}

/// Waits until all queues are empty, at most so long, or for each as long as the schema says.
pub(crate) async fn drain(queues: &[Arc<Behind>], at_most: Option<Duration>) -> Drained {
    let now = Instant::now();
    let drained = Mutex::new(Drained::default());
    let end = |limit: Duration| now.checked_add(limit).unwrap_or(now + FOREVER);
    let all = queues.iter().map(|queue| queue.drain(end(at_most.unwrap_or(queue.drain)), &drained));
    futures_util::future::join_all(all).await;
    drained.into_inner()
}

/// What became of the writes behind since the last drain.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::{Library, NewBook};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// use std::time::Duration;
///
/// library.store().faults().down();
/// library.books().put_behind(NewBook::new("1")).await?;
/// let drained = library.drain(Duration::ZERO).await;
/// assert_eq!((drained.is_empty(), drained.waiting()), (false, 1));
///
/// library.store().faults().up();
/// library.drain(Duration::from_secs(60)).await.expect_empty();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "it says what was not written"]
pub struct Drained {
    written: u64,
    waiting_count: u64,
    lost_count: u64,
    unwritten: Vec<Unwritten>,
}

/// A write that did not happen.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::{Library, NewBook};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// # use std::time::Duration;
/// library.store().faults().down();
/// library.books().put_behind(NewBook::new("1")).await?;
/// let drained = library.drain(Duration::ZERO).await;
/// assert_eq!(drained.unwritten()[0].entity, "Book");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{entity} {key}: {reason}")]
pub struct Unwritten {
    /// Whose record it is.
    pub entity: String,
    /// Its key, as people write it.
    pub key: String,
    /// Why it was not written.
    pub reason: String,
}

impl Drained {
    /// Whether everything was written.
    pub fn is_empty(&self) -> bool {
        self.waiting_count == 0 && self.lost_count == 0
    }

    /// How many were written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Those that still wait, and are still tried.
    pub fn waiting(&self) -> u64 {
        self.waiting_count
    }

    /// Those that will not be tried again.
    pub fn lost(&self) -> u64 {
        self.lost_count
    }

    /// What was not written, and why. Of very many losses, the first.
    pub fn unwritten(&self) -> &[Unwritten] {
        &self.unwritten
    }

    /// Goes on if everything was written.
    ///
    /// # Panics
    ///
    /// If something was not, with what and why.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// library.books().put_behind(NewBook::new("1")).await?;
    /// library.drain(std::time::Duration::from_secs(5)).await.expect_empty();
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn expect_empty(&self) {
        assert!(self.is_empty(), "{self}");
    }
}

impl fmt::Display for Drained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} written, {} waiting, {} lost", self.written, self.waiting_count, self.lost_count)?;
        for unwritten in &self.unwritten {
            write!(f, "\n  {unwritten}")?;
        }
        Ok(())
    }
}
