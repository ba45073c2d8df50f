//! Group commit: many writers, one sync.
//!
//! One thread takes all batches that wait, folds them into one change per key, makes them durable as one record of the log
//! (`log.rs`), adds them to the memory table (`memory.rs`), publishes the new state, and only then answers. Batches that arrive
//! meanwhile are the next group: the sync is the only delay.
//!
//! The thread does not touch the tree. When the memory table holds enough, or nobody has written for a while, the next one takes
//! its place and another thread (`absorb.rs`) brings it into the tree. While that one is behind, groups are taken a little later, the
//! more so the fuller log and memory are. Only a group that finds no room in the log waits for the tree; one that the
//! log can never hold is made durable by the tree alone.
//!
//! When an append or its sync fails, what it may have left on disk is made void and every batch that waits is answered with an error; the
//! generation changes, because those batches may rest on each other. Who reads from then on, and who opens the store
//! next, sees the same.

use crate::absorb::{
    Asked, Begun, Carry, Direct, Ended, Exchange, Frozen, Keeper, Outcome, Reopen, Switched, open_database,
    open_tree, prepare,
};
use crate::batch::{Change, Changed, Pending, counter_value, counters};
use crate::compact::Copied;
use crate::feed::{Committed, Feed};
use crate::log::Log;
use crate::medium::Medium;
use crate::memory::{Memory, Merged};
use crate::panic::contain_panic;
use crate::place::{Pace, Place};
use crate::position::{Position, random_run};
use crate::reserve;
use crate::snapshot::{self, Tree, View};
use crate::store::{Durability, Options};
use crate::{Batch, Error, checksum};
use arc_swap::{ArcSwap, Guard};
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Bounds on one group, so that a flood of writes does not make the first of them wait.
const GROUP_BATCHES_MAX: usize = 4096;
const GROUP_BYTES_MAX: usize = 16 << 20;
/// Bound on the changes of a group when the disk is full, and each takes room before it makes some.
const GROUP_CHANGES_FULL: usize = 256;
/// From how many batches on a group is answered by another thread.
const ANSWERED_ASIDE_MIN: usize = 8;
/// How long `Durability::Relaxed` may leave a commit unsynced.
const RELAXED_SYNC: Duration = Duration::from_millis(100);
/// More numbers than are given out in that time.
const LOST_NUMBERS_MAX: u64 = 1 << 20;
/// How long no one must have written before the log's end is marked.
const IDLE_BEFORE_MARK: Duration = Duration::from_millis(5);
/// A table is handed over when the tree is idle and it fills so much of the log, or of the memory.
const HANDED_OVER: f64 = 0.4;
/// How many looks long no one must have written before a table that holds much, or little, is handed over.
const IDLE_LOOKS: u32 = 2;
const IDLE_LOOKS_LITTLE: u32 = 10;
const LITTLE_BYTES: usize = 1 << 20;
/// What part of log or memory is given out in a second at least while the tree absorbs.
const SLOWEST: f64 = 0.02;
/// The longest that a group waits for the tree although there is room.
const DELAY_MAX: Duration = Duration::from_millis(25);
/// What the newest measurement counts for against those before.
const NEWEST_COUNTS: f64 = 0.5;
/// This part of the log is left for what the tree cannot take, so that the rest can be cut.
const CARRY_PART: u64 = 8;
/// How often a group waits for a tree that is opened again before it fails.
const REOPENED_MAX: usize = 8;
/// Changes in a record of what another log held.
const RELOGGED_CHANGES: usize = 4096;

/// Between two equal generations no submitted batch was lost, and none turned out to be there after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(u64);

/// The answer to a submitted batch, to be awaited or waited for. Needs no runtime.
///
/// Dropping it does not withdraw the batch.
#[derive(Debug)]
pub struct Ticket(oneshot::Receiver<Result<(), Error>>);

impl Ticket {
    /// Blocks the thread until the answer is there.
    pub fn wait(self) -> Result<(), Error> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut ticket = pin!(self);
        loop {
            if let Poll::Ready(answer) = ticket.as_mut().poll(&mut context) {
                return answer;
            }
            thread::park();
        }
    }
}

impl Future for Ticket {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|answer| answer.unwrap_or(Err(Error::Closed)))
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What handles, the commit thread and the tree's thread share.
pub(crate) struct Shared {
    view: ArcSwap<View>,
    /// Held by whoever makes a new view of the one before.
    publishing: Mutex<()>,
    pub(crate) exchange: Exchange,
    /// Bound on what may wait in memory.
    queue_bytes: usize,
    generation: AtomicU64,
    queue: Mutex<Queue>,
    read_only: bool,
    arrived: Condvar,
    /// Where committed groups go besides, once somebody asks for them.
    feed: OnceLock<Arc<Feed>>,
    /// The disk is full: only what makes room is taken.
    full: AtomicBool,
    live_bytes: AtomicU64,
    /// Room that is held back on the disk.
    pub(crate) reserved_bytes: AtomicU64,
    commits: AtomicU64,
    checkpoints: AtomicU64,
    checkpoint_nanos: AtomicU64,
    /// Why the last attempt to write failed, until one succeeds.
    fault: Mutex<Option<Error>>,
}

/// What a store has done since it was opened, and how large it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Groups of batches that were made durable together.
    pub commits: u64,
    /// Times the tree was written out.
    pub checkpoints: u64,
    /// How long that took, all in all.
    pub checkpoint_time: Duration,
    /// The size of its file, or of its memory.
    pub bytes: u64,
    /// Of all keys and values in it.
    pub live_bytes: u64,
    /// Pages that were found damaged.
    pub damaged_pages: u64,
    /// The disk is full: only what makes room is taken.
    pub full: bool,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Of batches waiting and being committed.
    bytes: usize,
    /// The newest uncommitted change of each key, with the batch that made it.
    overlay: HashMap<Arc<[u8]>, (u64, Pending)>,
    next_number: u64,
    /// For the next entry that is appended.
    next_entry: u64,
    /// The tree's thread has something for the commit thread.
    attend: bool,
    closed: bool,
    closing: Option<Error>,
}

struct Waiting {
    number: u64,
    batch: Batch,
    answer: oneshot::Sender<Result<(), Error>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("generation", &self.generation).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn activity(&self) -> Result<Activity, Error> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Ok(Activity {
            commits: count(&self.commits),
            checkpoints: count(&self.checkpoints),
            checkpoint_time: Duration::from_nanos(count(&self.checkpoint_nanos)),
            bytes: self.view.load().tree.medium.bytes()?,
            live_bytes: count(&self.live_bytes),
            damaged_pages: self.view.load().tree.medium.damaged_pages(),
            full: self.is_full(),
        })
    }

    /// Why nothing can be written, as far as the last attempt showed.
    pub(crate) fn write_fault(&self) -> Option<Error> {
        self.fault.lock().clone().or_else(|| self.is_full().then_some(Error::Full))
    }

    pub(crate) fn unreadable_pages(&self) -> Result<u64, Error> {
        self.view.load().tree.medium.unreadable_pages()
    }

    fn count(&self) {
        *self.fault.lock() = None;
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_checkpoint(&self, took: Duration, live: i64) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.checkpoint_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.set_live(live);
    }

    pub(crate) fn set_live(&self, live: i64) {
        self.live_bytes.store(live.max(0) as u64, Ordering::Relaxed);
    }

    pub(crate) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Release);
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// Whether a batch leaves less than there was. What it appends, which tells of what it takes away, counts for nothing.
    fn makes_room(&self, batch: &Batch) -> bool {
        batch.makes_room || {
            let view = self.view();
            let before = |key: &[u8]| match self.pending(key) {
                Some(pending) => pending.map(|value| value.len()),
                // A damaged one is worth deleting too.
                None => view.get(key).map_or(Some(0), |found| found.map(|value| value.len())),
            };
            let net = batch.changes.iter().map(|(key, change)| {
                let size = |value: usize| (key.len() + value) as i64;
                let before = || before(key).map_or(0, size);
                match change {
                    Change::Put(value) => size(value.len()) - before(),
                    Change::Delete => -before(),
                    Change::Add(_) => 0,
                }
            });
            net.sum::<i64>() < 0
        }
    }

    pub(crate) fn generation(&self) -> Generation {
        Generation(self.generation.load(Ordering::Acquire))
    }

    /// The last commit.
    pub(crate) fn view(&self) -> Guard<Arc<View>> {
        let view = self.view.load();
        if view.tree.medium.read_failed() {
            self.exchange.ask(Asked::Reopen(Reopen::InTurn));
        }
        view
    }

    /// Replaces the state that is read by another one made of it.
    pub(crate) fn publish(&self, next: impl FnOnce(&View) -> View) {
        let _publishing = self.publishing.lock();
        let before = self.view.load_full();
        self.view.store(Arc::new(next(&before)));
    }

    /// Lets the commit thread see what the tree's has for it.
    pub(crate) fn attend(&self) {
        self.queue.lock().attend = true;
        self.arrived.notify_one();
    }

    /// Hands out every group that is committed from now on. False if they go elsewhere already.
    pub(crate) fn feed(&self, feed: Arc<Feed>) -> bool {
        self.feed.set(feed).is_ok()
    }

    /// The state whose tree has taken the place of one that ended. Waits until there is one.
    pub(crate) fn succeeding(&self, ended: &Arc<Tree>) -> Result<Arc<View>, Error> {
        let before = self.exchange.reopened();
        if Arc::ptr_eq(&self.view.load().tree, ended) {
            self.exchange.reopen_and_wait(before)?;
        }
        let view = self.view.load_full();
        if Arc::ptr_eq(&view.tree, ended) { Err(Error::Expired) } else { Ok(view) }
    }

    fn read_failed(&self) -> bool {
        self.view.load().tree.medium.read_failed()
    }

    pub(crate) fn pending(&self, key: &[u8]) -> Option<Pending> {
        self.queue.lock().overlay.get(key).map(|(_, value)| value.clone())
    }

    pub(crate) fn submit(&self, mut batch: Batch, seen: Generation) -> Result<Ticket, Error> {
        if self.read_only && !batch.is_empty() {
            return Err(Error::ReadOnly);
        }
        if batch.bytes() > self.queue_bytes {
            return Err(Error::TooLarge { bytes: batch.bytes(), limit: self.queue_bytes });
        }
        if self.view.load().tree.medium.damaged_pages() > 0 {
            // Not in the commit thread, where it would fail whoever shares the group.
            let view = self.view();
            let damaged = batch.changes.iter().find_map(|(key, _)| readable(&view.tree, key).err());
            // Another error is not of the page: the tree is being opened again.
            if let Some(error @ Error::Damaged { .. }) = damaged {
                return Err(error);
            }
        }
        if self.is_full() && !batch.is_empty() && !self.makes_room(&batch) {
            return Err(Error::Full);
        }
        let (answer, ticket) = oneshot::channel();
        {
            let queue = &mut *self.queue.lock();
            if queue.closed {
                return Err(Error::Closed);
            }
            if self.generation() != seen {
                return Err(Error::Lost);
            }
            // A batch that begins below the limit may go beyond it: what one request writes in several batches is taken
            // whole by a store that is idle, however slow its disk is.
            if queue.bytes >= self.queue_bytes {
                return Err(Error::Busy { queued_bytes: queue.bytes });
            }
            let number = queue.next_number;
            queue.next_number += 1;
            queue.bytes += batch.bytes();
            queue.next_entry = batch.number(queue.next_entry);
            for (key, change) in &batch.changes {
                let value = match change {
                    Change::Put(value) => Some(Arc::clone(value)),
                    Change::Delete => None,
                    Change::Add(_) => continue,
                };
                queue.overlay.insert(Arc::clone(key), (number, value));
            }
            queue.waiting.push_back(Waiting { number, batch, answer });
        }
        self.arrived.notify_one();
        Ok(Ticket(ticket))
    }

    pub(crate) fn close(&self) {
        self.queue.lock().closed = true;
        self.arrived.notify_one();
    }

    pub(crate) fn closing_result(&self) -> Result<(), Error> {
        self.queue.lock().closing.clone().map_or(Ok(()), Err)
    }

    /// Waits for work, or until it is time to tidy up. Groups are taken from a moment on.
    fn next(&self, tick_at: Option<Instant>, take_from: Option<Instant>) -> Work {
        let mut queue = self.queue.lock();
        loop {
            if std::mem::take(&mut queue.attend) {
                return Work::Attend;
            }
            let wait = take_from.filter(|from| !queue.closed && *from > Instant::now());
            if !queue.waiting.is_empty() && wait.is_none() {
                return Work::Commit(take_group(&mut queue.waiting, self.is_full()));
            }
            if queue.closed && queue.waiting.is_empty() {
                return Work::Close;
            }
            let wait = wait.filter(|_| !queue.waiting.is_empty());
            match wait.into_iter().chain(tick_at).min() {
                None => self.arrived.wait(&mut queue),
                Some(at) => {
                    let timed_out = self.arrived.wait_until(&mut queue, at).timed_out();
                    if timed_out && tick_at.is_some_and(|tick| tick <= at) {
                        return Work::Tick;
                    }
                }
            }
        }
    }

    /// Forgets pending values that the published state holds, and answers who wrote them.
    fn settle(&self, group: Vec<Waiting>) {
        // A few keys at a time: writers share the lock.
        const KEYS_PER_LOCK: usize = 256;
        let mut dropped = Vec::with_capacity(KEYS_PER_LOCK);
        let mut changes = group
            .iter()
            .flat_map(|waiting| waiting.batch.changes.iter().map(|(key, _)| (waiting.number, key)))
            .peekable();
        while changes.peek().is_some() {
            let mut queue = self.queue.lock();
            for (number, key) in changes.by_ref().take(KEYS_PER_LOCK) {
                if queue.overlay.get(key).is_some_and(|(newest, _)| *newest == number) {
                    dropped.push(queue.overlay.remove_entry(key));
                }
            }
            drop(queue);
            dropped.clear();
        }
        answer(group, &Ok(()));
    }

    fn make_room(&self, group: &[Waiting]) {
        let bytes = group.iter().map(|waiting| waiting.batch.bytes()).sum();
        let mut queue = self.queue.lock();
        queue.bytes = queue.bytes.saturating_sub(bytes);
    }

    /// Fails every batch that is not committed.
    fn lose(&self, group: Vec<Waiting>, in_group: &Error, behind: &Error) {
        let (waiting, overlay) = {
            let queue = &mut *self.queue.lock();
            self.generation.fetch_add(1, Ordering::AcqRel);
            queue.bytes = 0;
            (std::mem::take(&mut queue.waiting), std::mem::take(&mut queue.overlay))
        };
        drop(overlay);
        *self.fault.lock() = Some(in_group.clone());
        answer(group, &Err(in_group.clone()));
        answer(waiting, &Err(behind.clone()));
    }
}

/// A thread that settles groups. It ends by itself when the commit thread does; nobody waits for it,
/// because it may be the one that drops the last handle of the store.
fn start_answering(shared: Arc<Shared>) -> std::io::Result<mpsc::Sender<Vec<Waiting>>> {
    let (groups, committed) = mpsc::channel::<Vec<Waiting>>();
    thread::Builder::new().name("larder-answer".to_owned()).spawn(move || {
        committed.into_iter().for_each(|group| shared.settle(group));
    })?;
    Ok(groups)
}

fn answer(group: impl IntoIterator<Item = Waiting>, result: &Result<(), Error>) {
    for waiting in group {
        // The writer may have gone; its batch stands.
        let _ = waiting.answer.send(result.clone());
    }
}

/// Whether a key can be written: the page it is on, or belongs on, is not damaged. Its value may be.
pub(crate) fn readable(tree: &Tree, key: &[u8]) -> Result<(), Error> {
    match snapshot::get_absorbed(tree, key) {
        Ok(_) | Err(Error::Corrupt { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

enum Work {
    Commit(Vec<Waiting>),
    /// The tree's thread has something to tell.
    Attend,
    Tick,
    Close,
}

fn take_group(waiting: &mut VecDeque<Waiting>, full: bool) -> Vec<Waiting> {
    let (mut bytes, mut changes) = (0, 0);
    let changes_max = if full { GROUP_CHANGES_FULL } else { usize::MAX };
    let count = waiting
        .iter()
        .take(GROUP_BATCHES_MAX)
        .take_while(|waiting| {
            let fits = bytes < GROUP_BYTES_MAX && changes < changes_max;
            bytes += waiting.batch.bytes();
            changes += waiting.batch.changes.len();
            fits
        })
        .count();
    waiting.drain(..count).collect()
}

/// The commit thread's own state.
pub(crate) struct Committer {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<Ended>>,
    /// Absent in memory.
    log: Option<Log>,
    /// What is around the file; absent in memory.
    place: Option<Arc<dyn Place>>,
    pace: Pace,
    options: Options,
    /// Of this opening of the store.
    run: u64,
    /// Of what is published.
    position: Position,
    /// Up to where the log is synced.
    synced: Position,
    /// What takes writes.
    active: Arc<Memory>,
    /// The changes of the group that is being committed.
    committing: Vec<Changed>,
    /// What the tree cannot take and the log does not hold again yet.
    carry: Option<Carry>,
    /// A group is on its way into the tree, and has the next position.
    is_direct: bool,
    /// The log's last place is told: nothing is written to it any more.
    is_closing: bool,
    /// The file's name may be that of the file before it, if the power fails.
    renamed: bool,
    /// Started with the first group that is worth it.
    answering: Option<mpsc::Sender<Vec<Waiting>>>,
    /// Set while a commit is not synced.
    sync_at: Option<Instant>,
    /// Set while the mark of the log does not tell of its last record.
    mark_at: Option<Instant>,
    /// Set while the table holds something that the tree has not refused.
    absorb_at: Option<Instant>,
    /// When the next group may be taken.
    take_from: Option<Instant>,
    /// What the tree is absorbing.
    absorbing: Option<Absorbing>,
    /// What part of log or memory it has absorbed in a second, lately.
    absorbed_a_second: Option<f64>,
    /// Something was committed since the store was opened.
    written: bool,
}

/// A table that is with the tree: since when, and what part of log or memory it takes.
struct Absorbing {
    begun: Instant,
    share: f64,
}

impl Committer {
    pub(crate) fn open(
        medium: Arc<Medium>,
        mut log: Option<Log>,
        place: Option<Box<dyn Place>>,
        options: Options,
        read_only: bool,
    ) -> Result<Self, Error> {
        let lease = medium.lease();
        let replayed = Arc::new(Memory::default());
        let (database, tree, begun, position) = contain_panic(|| {
            let database = open_database(lease, options.page_bytes())?;
            prepare(&database, log.as_ref())?;
            let begun = Begun::read(&database)?;
            let mut last = begun.position;
            if let Some(log) = &mut log {
                log.find(begun.start, begun.closed, |position, key, value| {
                    last = position;
                    replayed.owe(reserve::estimate_one(key, value));
                    replayed.insert(position.commit, key.into(), value.map(|value| Arc::new(value.to_vec())));
                    Ok(())
                })?;
            }
            let tree = open_tree(&database, &medium)?;
            Ok((database, tree, begun, last))
        })?;
        let active = Arc::new(Memory::default());
        let tables = [&active, &replayed].map(Arc::clone);
        let tables = tables.into_iter().take(if replayed.is_empty() { 1 } else { 2 }).collect();
        let view = View {
            tree: Arc::new(tree),
            reached: begun.position.commit,
            reached_voids: 0,
            voids: 0,
            tables,
            position,
            shared: Weak::new(),
        };
        let mut next_entry = snapshot::next_number(&view)?;
        // Entries that were seen may have been lost with the power: their numbers are left out.
        let was_closed = log.is_none() || begun.closed && replayed.is_empty();
        if !was_closed && next_entry > 1 {
            next_entry = next_entry.saturating_add(LOST_NUMBERS_MAX);
        }
        let shared = Arc::new_cyclic(|shared| Shared {
            view: ArcSwap::from_pointee(View { shared: Weak::clone(shared), ..view }),
            publishing: Mutex::new(()),
            exchange: Exchange::default(),
            queue_bytes: options.queue_bytes,
            generation: AtomicU64::new(0),
            queue: Mutex::new(Queue { next_entry, ..Queue::default() }),
            read_only,
            arrived: Condvar::new(),
            feed: OnceLock::new(),
            full: AtomicBool::new(false),
            live_bytes: AtomicU64::new(begun.live.max(0) as u64),
            reserved_bytes: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
            checkpoint_nanos: AtomicU64::new(0),
            fault: Mutex::new(None),
        });
        let place: Option<Arc<dyn Place>> = place.filter(|_| !read_only).map(Arc::from);
        if let Some(place) = &place {
            // One that a crash left.
            place.discard();
        }
        if !read_only && !replayed.is_empty() {
            let cut = log.as_mut().map(Log::next_epoch).transpose()?;
            shared.exchange.freeze(Frozen { table: replayed, cut, position, is_carried: false });
        }
        let log_bytes = log.as_ref().map_or(0, Log::bytes);
        let keeper =
            Keeper::new(Arc::clone(&shared), medium, database, place.clone(), options, &begun, log_bytes);
        let keeper = thread::Builder::new().name("larder-tree".to_owned()).spawn(move || keeper.run())?;
        Ok(Self {
            shared,
            keeper: Some(keeper),
            log,
            pace: place.as_ref().map_or_else(Pace::default, |place| place.pace()),
            place,
            options,
            run: random_run()?,
            position,
            synced: position,
            active,
            committing: Vec::new(),
            carry: None,
            is_direct: false,
            is_closing: false,
            renamed: false,
            answering: None,
            sync_at: None,
            mark_at: None,
            absorb_at: None,
            take_from: None,
            absorbing: None,
            absorbed_a_second: None,
            written: false,
        })
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    pub(crate) fn run(mut self) {
        loop {
            // Not only when nobody writes.
            if self.sync_at.is_some_and(|at| at <= Instant::now()) {
                self.sync();
            }
            self.attend();
            let tick = [self.sync_at, self.mark_at, self.absorb_at].into_iter().flatten().min();
            match self.shared.next(tick, self.take_from) {
                Work::Commit(group) => self.commit(group),
                Work::Attend => {}
                Work::Tick => self.tick(),
                Work::Close => return self.close(),
            }
        }
    }

    /// Does what it is time for when nobody writes.
    fn tick(&mut self) {
        let now = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(self.mark_at) {
            self.mark_at = None;
            if let Some(log) = &mut self.log {
                log.mark();
            }
        } else if due(self.absorb_at) {
            // Unless it is handed over now.
            self.absorb_at = Some(now + self.pace.look_pause * IDLE_LOOKS);
            let _ = self.hand_over_table();
        }
    }

    /// Takes note of what the tree's thread has done.
    fn attend(&mut self) {
        let told = self.shared.exchange.take_told();
        if let (Some(cut), Some(log)) = (told.cut, &mut self.log) {
            log.cut(cut);
            log.mark();
        }
        if self.absorbing.is_some() && !self.shared.exchange.has_frozen() {
            self.take_from = None;
            if let Some(Absorbing { begun, share }) = self.absorbing.take() {
                let rate = share / begun.elapsed().as_secs_f64().max(1e-3);
                let before = self.absorbed_a_second.unwrap_or(rate);
                self.absorbed_a_second = Some(before + (rate - before) * NEWEST_COUNTS);
            }
        }
        self.carry = told.carry.or(self.carry.take());
        if let Some(copied) = told.copied {
            let switched = self.switch(*copied);
            self.shared.exchange.answer_switch(switched);
        }
        if told.wants_table {
            let _ = self.hand_over_table();
        }
        if let Some(carry) = self.carry.take_if(|_| !self.is_direct && !self.is_closing) {
            self.carry(carry);
        }
    }

    /// Writes once more what the tree cannot take, so that the log before it can be cut.
    fn carry(&mut self, carry: Carry) {
        let view = self.shared.view.load_full();
        if !view.tables.iter().any(|table| Arc::ptr_eq(table, &carry.table)) {
            // Another one has taken its place, and is about to be told.
            return;
        }
        let is_newer = |key: &[u8]| {
            let above = view.tables.iter().filter(|table| !Arc::ptr_eq(table, &carry.table));
            above.into_iter().any(|table| table.get(key, u64::MAX).is_some())
        };
        let left = Merged::all([Arc::clone(&carry.table)]).filter(|(key, _)| !is_newer(key));
        let changes: Vec<Changed> = left.collect();
        if !changes.is_empty() {
            if !self.log.as_ref().is_none_or(|log| log.has_room(&changes, 0)) {
                // Before the next group.
                self.carry = Some(carry);
                return;
            }
            let was_synced = self.position == self.synced;
            if let Err(error) = self.commit_to_log(self.next_position(), &changes) {
                self.carry = Some(carry);
                self.notice(&error);
                if !was_synced {
                    // Groups that were answered went with it.
                    self.shared.lose(Vec::new(), &error, &error);
                }
                return;
            }
            self.committing = changes;
            self.settle(Vec::new());
            if self.sync_at.is_some() {
                // The log is cut for it, so it must not be lost as the newest may be.
                let generation = self.shared.generation();
                self.sync();
                if self.shared.generation() != generation {
                    self.carry = Some(carry);
                    return;
                }
            }
        }
        self.shared.exchange.carried(carry);
    }

    fn commit(&mut self, group: Vec<Waiting>) {
        if self.shared.read_only {
            // There is nothing in it.
            self.settle(group);
            return;
        }
        let generation = self.shared.generation();
        let changes = match self.fold(&group) {
            Ok(changes) => changes,
            Err(cause) => {
                self.notice(&cause);
                let failed = Error::Failed { cause: Box::new(cause) };
                return self.shared.lose(group, &failed, &failed);
            }
        };
        if changes.is_empty() {
            return self.settle(group);
        }
        let begun = Instant::now();
        let room = self.make_room(&changes).and_then(|room| self.keep_name().map(|()| room));
        let (before, position) = (self.fullness(), self.next_position());
        let committed = match room {
            // What it was folded with is lost.
            Ok(_) if self.shared.generation() != generation => {
                Err(Error::Failed { cause: Box::new(Error::Lost) })
            }
            Ok(true) => self.commit_to_log(position, &changes).map(|()| self.owe(&changes)),
            Ok(false) => self.commit_to_tree(position, &changes),
            Err(cause) => Err(Error::Failed { cause: Box::new(cause) }),
        };
        match committed {
            Ok(()) => {
                self.written = true;
                self.shared.count();
                self.pace(self.fullness() - before, begun);
                self.committing = changes;
                self.settle(group);
                self.hand_over_if_full();
            }
            Err(error) => {
                self.notice(&error);
                let behind = match &error {
                    Error::Failed { cause } | Error::Unknown { cause } => {
                        Error::Failed { cause: cause.clone() }
                    }
                    other => Error::Failed { cause: Box::new(other.clone()) },
                };
                self.shared.lose(group, &error, &behind);
            }
        }
    }

    /// Whether the log, the memory and the disk have room for these changes; if need be once the tree has absorbed what is there.
    fn make_room(&mut self, changes: &[Changed]) -> Result<bool, Error> {
        let debt = reserve::estimate(changes);
        loop {
            self.attend();
            let view = self.shared.view.load();
            let has_room =
                self.log.as_ref().is_none_or(|log| log.has_room(changes, log.bytes() / CARRY_PART))
                    && view.memory_bytes() < self.options.table_bytes()
                    && self.may_owe(view.debt() + debt);
            drop(view);
            if has_room {
                return Ok(true);
            }
            if !self.shared.exchange.has_frozen() && !self.hand_over_table()? {
                // The last of it may have been told since.
                if self.shared.exchange.has_told() {
                    continue;
                }
                // Nothing is left that could make any. What the tree cannot take would hide what it took later.
                if self.carry.is_some() || !self.active.is_empty() {
                    return Err(Error::Damaged {
                        cause: "its tree cannot take what its log is full of".to_owned(),
                    });
                }
                return Ok(self.log.is_none());
            }
            self.wait_until_absorbed()?;
        }
    }

    fn may_owe(&self, debt: u64) -> bool {
        let reserved = self.shared.reserved_bytes.load(Ordering::Relaxed);
        self.place.as_ref().is_none_or(|place| reserve::may_owe(&**place, reserved, debt))
    }

    /// Waits until the tree holds one table more, or has failed to take it.
    fn wait_until_absorbed(&mut self) -> Result<(), Error> {
        let awaited = self.shared.exchange.await_absorbed();
        self.wait(|exchange| exchange.next_outcome(&awaited))
    }

    /// Waits for the tree's thread, and attends to what that wants meanwhile.
    fn wait(&mut self, next: impl Fn(&Exchange) -> Outcome) -> Result<(), Error> {
        // That may take longer than a commit may be unsynced.
        if self.sync_at.is_some() {
            self.sync();
        }
        let shared = Arc::clone(&self.shared);
        loop {
            match next(&shared.exchange) {
                Outcome::Done => return Ok(()),
                Outcome::Failed(error) => return Err(error),
                Outcome::Told => self.attend(),
            }
        }
    }

    fn commit_to_log(&mut self, position: Position, changes: &[Changed]) -> Result<(), Error> {
        if let Some(log) = &mut self.log {
            // The first of all says that the store is not closed any more, and must not be lost.
            let is_synced = self.options.durability == Durability::Immediate || !self.written;
            let appended =
                log.append(position, changes).and_then(|()| if is_synced { log.sync() } else { Ok(()) });
            if let Err(cause) = appended {
                return Err(self.void(cause.into()));
            }
            let now = Instant::now();
            if is_synced {
                self.synced = position;
            } else {
                self.sync_at = self.sync_at.or(Some(now + RELAXED_SYNC));
            }
            self.mark_at = log.wants_mark().then_some(now + IDLE_BEFORE_MARK);
        }
        for (key, value) in changes {
            self.active.insert(position.commit, Arc::clone(key), value.clone());
        }
        self.position = position;
        self.shared.publish(|view| View { position, ..view.clone() });
        Ok(())
    }

    /// Takes note of what the tree is to take from the table.
    fn owe(&mut self, changes: &[Changed]) {
        self.active.owe(reserve::estimate(changes));
        let looks = if self.active.bytes() < LITTLE_BYTES { IDLE_LOOKS_LITTLE } else { IDLE_LOOKS };
        self.absorb_at = Some(Instant::now() + self.pace.look_pause * looks);
    }

    /// For a group that the log cannot hold. All tables are absorbed.
    fn commit_to_tree(&mut self, position: Position, changes: &[Changed]) -> Result<(), Error> {
        // From before the place in the log is taken: no other log may take its place until the tree has told it.
        self.is_direct = true;
        let outcome = self.commit_directly(position, changes);
        self.is_direct = false;
        if matches!(outcome, Err(Error::Unknown { .. })) {
            // The tree may hold it, with this position: what comes has another.
            self.run = self.run.wrapping_add(1);
        }
        outcome?;
        (self.position, self.synced) = (position, position);
        Ok(())
    }

    fn commit_directly(&mut self, position: Position, changes: &[Changed]) -> Result<(), Error> {
        let cut = self.log.as_mut().map(Log::fresh_epoch).transpose()?;
        let direct = Direct { changes: changes.to_vec(), cut, position };
        let awaited = self.shared.exchange.await_direct(direct);
        self.wait(|exchange| exchange.next_outcome(&awaited))
    }

    /// Makes void what the log may hold of groups that were not synced. Says what became of them.
    fn void(&mut self, cause: Error) -> Error {
        (self.sync_at, self.mark_at) = (None, None);
        let voided = match &mut self.log {
            Some(log) => log.void(),
            None => Ok(true),
        };
        if self.position != self.synced {
            // What was answered before it was synced goes too, and what comes has not the numbers of it.
            self.active = Arc::new(self.active.until(self.synced.commit));
            self.position = self.synced;
            self.run = self.run.wrapping_add(1);
            let (active, position) = (Arc::clone(&self.active), self.position);
            self.shared.publish(|view| {
                let older = view.tables.iter().skip(1).map(Arc::clone);
                let tables = std::iter::once(active).chain(older).collect();
                View { tables, position, voids: view.voids + 1, ..view.clone() }
            });
        }
        match voided {
            Ok(true) => Error::Failed { cause: Box::new(cause) },
            Ok(false) => Error::Unknown { cause: Box::new(cause) },
            Err(other) => other,
        }
    }

    /// Lets the next group wait a little while the tree absorbs a table, so that what is left of log and memory lasts until it
    /// has: in proportion to what this one took of it.
    fn pace(&mut self, took: f64, begun: Instant) {
        self.take_from = None;
        let Some(absorbing) = &self.absorbing else { return };
        let left = (1.0 - self.fullness()).max(0.0);
        let expected = self.absorbed_a_second.map_or(0.0, |rate| absorbing.share / rate);
        let elapsed = absorbing.begun.elapsed().as_secs_f64();
        // One that takes longer than the one before takes, for all that is known, half as long again.
        let remaining = (expected - elapsed).max(expected.max(elapsed) / 2.0);
        let a_second = (left / remaining.max(1e-3)).max(SLOWEST);
        if took / a_second > 1e-5 {
            self.take_from = Some(begun + Duration::from_secs_f64(took / a_second).min(DELAY_MAX));
        }
    }

    /// How much of log or memory is taken.
    fn fullness(&self) -> f64 {
        let log_bytes = self.log.as_ref().map_or(0, Log::used_bytes);
        self.share(log_bytes, self.shared.view.load().memory_bytes())
    }

    /// What part of the log, or of the memory, so much is.
    fn share(&self, log_bytes: u64, memory_bytes: usize) -> f64 {
        let log = self.log.as_ref().map_or(0.0, |log| log_bytes as f64 / log.bytes().max(1) as f64);
        log.max(memory_bytes as f64 / self.options.table_bytes() as f64)
    }

    fn hand_over_if_full(&mut self) {
        if self.fullness() >= HANDED_OVER {
            let _ = self.hand_over_table();
        }
    }

    /// Gives the table to the tree unless the one before is still with it. Not one that holds nothing but what the tree has
    /// refused, which it would refuse again.
    fn hand_over_table(&mut self) -> Result<bool, Error> {
        if self.absorb_at.is_none() || self.shared.exchange.has_frozen() {
            return Ok(false);
        }
        self.freeze()
    }

    /// Gives the table to the tree, and begins another. False if it holds nothing.
    fn freeze(&mut self) -> Result<bool, Error> {
        if self.active.is_empty() {
            self.absorb_at = None;
            return Ok(false);
        }
        self.sync_at = None;
        if let Some(Err(cause)) = self.log.as_mut().map(Log::sync_rest) {
            let lost = self.void(cause.into());
            self.shared.lose(Vec::new(), &lost, &lost);
            return Err(lost);
        }
        self.synced = self.position;
        let cut = self.log.as_mut().map(Log::next_epoch).transpose()?;
        let table = std::mem::take(&mut self.active);
        let (active, position) = (Arc::clone(&self.active), self.position);
        self.shared.publish(|view| {
            let tables = std::iter::once(active).chain(view.tables.iter().map(Arc::clone)).collect();
            View { tables, position, ..view.clone() }
        });
        self.absorb_at = None;
        let share = self.share(self.log.as_ref().map_or(0, Log::used_bytes), table.bytes());
        self.absorbing = Some(Absorbing { begun: Instant::now(), share });
        self.shared.exchange.freeze(Frozen { table, cut, position, is_carried: false });
        Ok(true)
    }

    /// Lets a copy of the tree take the place of the file: what only memory and the old log hold goes to the log of the new one first.
    fn switch(&mut self, copied: Copied) -> Option<Switched> {
        let Copied { medium, mut log, database, tree, live, start } = copied;
        if self.is_direct || self.is_closing || self.carry.is_some() {
            // Somebody has a place in the log that would go. It is copied again later.
            medium.revoke();
            return None;
        }
        let place = self.place.as_ref()?;
        let view = self.shared.view.load_full();
        let relogged = contain_panic(|| {
            let mut changes: Vec<Changed> = Vec::new();
            let mut held = Merged::all(view.tables.iter().cloned()).peekable();
            while let Some(next) = held.next() {
                changes.push(next);
                if changes.len() == RELOGGED_CHANGES || held.peek().is_none() {
                    if !log.has_room(&changes, 0) {
                        return Err(Error::Closed);
                    }
                    log.append(self.position, &changes)?;
                    changes.clear();
                }
            }
            log.sync()?;
            Ok(place.rename()?)
        });
        if relogged.is_err() {
            medium.revoke();
            return None;
        }
        self.renamed = place.sync().is_err();
        let log_bytes = log.bytes();
        log.mark();
        self.log = Some(log);
        let now = Arc::new(tree);
        self.shared.publish(|view| View { tree: Arc::clone(&now), ..view.clone() });
        (self.synced, self.written, self.sync_at) = (self.position, true, None);
        Some(Switched { medium, database, live, start, log_bytes })
    }

    /// Answers a group that is committed. For a large one another thread does it: waking many writers
    /// takes as long as a sync, and the next group need not wait for it.
    fn settle(&mut self, group: Vec<Waiting>) {
        let changes = std::mem::take(&mut self.committing);
        if let Some(feed) = self.shared.feed.get().filter(|_| !changes.is_empty()) {
            feed.push(Committed { position: self.position, changes });
        }
        self.shared.make_room(&group);
        let small = group.len() < ANSWERED_ASIDE_MIN;
        let left = if small { Some(group) } else { self.hand_over(group) };
        if let Some(group) = left {
            self.shared.settle(group);
        }
    }

    /// Gives the group back if there is no thread to take it.
    fn hand_over(&mut self, group: Vec<Waiting>) -> Option<Vec<Waiting>> {
        if self.answering.is_none() {
            self.answering = start_answering(Arc::clone(&self.shared)).ok();
        }
        match &self.answering {
            Some(answering) => answering.send(group).err().map(|unsent| unsent.0),
            None => Some(group),
        }
    }

    fn next_position(&self) -> Position {
        self.position.next(self.run, self.shared.feed.get().map_or(0, |feed| feed.now_ms()))
    }

    /// If the cause is a full disk, only what makes room is taken from now on.
    fn notice(&self, cause: &Error) {
        if cause.is_full_disk() {
            self.shared.exchange.ask(Asked::RanOut);
        }
    }

    fn sync(&mut self) {
        self.sync_at = None;
        match self.log.as_mut().map(Log::sync) {
            Some(Err(cause)) => {
                // Whoever wrote was answered long ago, and was promised no more than this attempt.
                let lost = self.void(cause.into());
                self.notice(&lost);
                self.shared.lose(Vec::new(), &lost, &lost);
            }
            Some(Ok(())) | None => {
                self.synced = self.position;
                self.mark_at = Some(Instant::now() + IDLE_BEFORE_MARK);
            }
        }
    }

    /// One change per key, in key order. If the tree is being opened again, waits for that.
    fn fold(&mut self, group: &[Waiting]) -> Result<Vec<Changed>, Error> {
        for _ in 0..REOPENED_MAX {
            let before = self.shared.exchange.reopened();
            if !self.shared.read_failed() {
                match fold(group, &self.shared.view()) {
                    Err(Error::Expired) => {}
                    done => return done,
                }
            }
            self.shared.exchange.ask(Asked::Reopen(Reopen::AtOnce));
            self.wait(|exchange| exchange.next_reopened(before))?;
        }
        Err(Error::Expired)
    }

    /// Nothing is answered that would go with the file's name if the power failed.
    fn keep_name(&mut self) -> Result<(), Error> {
        if let Some(place) = self.place.as_ref().filter(|_| self.renamed) {
            place.sync()?;
            self.renamed = false;
        }
        Ok(())
    }

    fn close(mut self) {
        self.is_closing = true;
        // A sync that fails takes what it was for along. What was on disk before it goes to the tree all the same.
        let lost = self.freeze().err();
        if lost.is_some() {
            let _ = self.freeze();
        }
        // Only when the tree has all that is before it does the log go on there.
        let is_all = self.active.is_empty() && !self.shared.read_only;
        let start = self.log.as_mut().filter(|_| is_all).and_then(|log| log.next_epoch().ok());
        self.shared.exchange.close(start, self.written);
        // It may want something of this thread first.
        while self.shared.exchange.wait_told() {
            self.attend();
        }
        let closed = self.keeper.take().map(JoinHandle::join);
        let saved = match closed {
            Some(Ok(Ended { closed: saved, medium })) => {
                if let (Ok(true), Some(start), Some(log)) = (&saved, start, &mut self.log) {
                    log.cut(start);
                    log.mark();
                }
                medium.release();
                saved.map(drop)
            }
            None => Ok(()),
            Some(Err(_)) => Err(Error::Damaged { cause: "the tree's thread panicked".to_owned() }),
        };
        self.shared.queue.lock().closing = lost.or(saved.err());
        if let Some(feed) = self.shared.feed.get() {
            feed.close();
        }
    }
}

/// `view` is the state before the group.
fn fold(group: &[Waiting], view: &View) -> Result<Vec<Changed>, Error> {
    let mut changes: Vec<_> = group.iter().flat_map(|waiting| &waiting.batch.changes).collect();
    // Stable: changes of one key stay in the order they were submitted.
    changes.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut folded: Vec<Changed> = Vec::with_capacity(changes.len());
    for (key, change) in changes {
        let earlier = folded.last_mut().filter(|(last, _)| last == key).map(|(_, value)| value);
        let value = match change {
            Change::Put(value) => Some(Arc::clone(value)),
            Change::Delete => None,
            Change::Add(deltas) => {
                let before = match &earlier {
                    Some(Some(value)) => counters_at(key, &value[..checksum::verify(key, value)?])?,
                    Some(None) => [0, 0],
                    None => match view.get_at_once(key)? {
                        Some(stored) => counters_at(key, &stored)?,
                        None => [0, 0],
                    },
                };
                Some(Arc::new(counter_entry(key, sum(before, *deltas))))
            }
        };
        match earlier {
            Some(earlier) => *earlier = value,
            None => folded.push((Arc::clone(key), value)),
        }
    }
    Ok(folded)
}

fn sum(a: [i64; 2], b: [i64; 2]) -> [i64; 2] {
    [a[0].saturating_add(b[0]), a[1].saturating_add(b[1])]
}

fn counter_entry(key: &[u8], counters: [i64; 2]) -> Vec<u8> {
    let mut value = counter_value(counters);
    checksum::append(key, &mut value);
    value
}

fn counters_at(key: &[u8], value: &[u8]) -> Result<[i64; 2], Error> {
    counters(value).map_err(|error| match error {
        Error::Corrupt { cause, .. } => Error::Corrupt { key: key.to_vec(), cause },
        other => other,
    })
}
