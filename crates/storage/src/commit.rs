//! Group commit: many writers, one sync.
//!
//! One thread owns the redb database. It takes all batches that wait, folds them into one change per
//! key, applies those in key order in one transaction, makes them durable in the log (`log.rs`),
//! publishes the new snapshot, and only then answers. Batches that arrive meanwhile are the next group:
//! the sync is the only delay.
//!
//! When a commit fails, what it may have left on disk is made void, the database is reopened where it certainly
//! was (see `medium`), and the log is replayed. If the group is there and on disk after all, the commit succeeded. Otherwise
//! every batch waiting is answered with an error and the generation changes, because those batches may rest on each
//! other. Who reads from then on, and who opens the store next, sees the same.

use crate::batch::{Change, Changed, Pending, counter_value, counters};
use crate::compact::{self, Copied, Copying, Retired};
use crate::feed::{Committed, Feed};
use crate::log::Log;
use crate::medium::{Lease, Medium};
use crate::panic::contain_panic;
use crate::place::Place;
use crate::position::{Position, random_run};
use crate::reserve::{self, Room};
use crate::snapshot::{self, Table};
use crate::store::{Durability, Options};
use crate::{Batch, Error, checksum};
use arc_swap::{ArcSwap, Guard};
use parking_lot::{Condvar, Mutex};
use redb::{Database, ReadableDatabase, TableDefinition, TableError, WriteTransaction};
use std::cmp;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

pub(crate) const DATA_NAME: &str = "data";
pub(crate) const DATA: TableDefinition<'static, &'static [u8], &'static [u8]> =
    TableDefinition::new(DATA_NAME);
pub(crate) const FORMAT: TableDefinition<'static, &'static str, u64> = TableDefinition::new("format");
const FORMAT_KEY: &str = "version";
const FORMAT_VERSION: u64 = 1;
pub(crate) const EPOCH_KEY: &str = "epoch";
const EPOCH_FIRST: u64 = 1;
pub(crate) const CLOSED_KEY: &str = "closed";
/// The position at the last checkpoint.
const COMMIT_KEY: &str = "commit";
const RUN_KEY: &str = "run";
const TIME_KEY: &str = "time";
/// Bytes of all keys and values.
const LIVE_KEY: &str = "live";

/// Bounds on one transaction, so that a flood of writes does not make the first of them wait.
const GROUP_BATCHES_MAX: usize = 4096;
const GROUP_BYTES_MAX: usize = 16 << 20;
/// Bound on the changes of a transaction when the disk is full, and each takes room before it makes some.
const GROUP_CHANGES_FULL: usize = 256;
/// From how many batches on a group is answered by another thread.
const ANSWERED_ASIDE_MIN: usize = 8;
/// How long `Durability::Relaxed` may leave a commit unsynced.
const RELAXED_SYNC: Duration = Duration::from_millis(100);
/// More numbers than are given out in that time.
const LOST_NUMBERS_MAX: u64 = 1 << 20;
/// How long no one must have written before the log's end is marked.
const IDLE_BEFORE_MARK: Duration = Duration::from_millis(5);
/// How long no one must have written before the tree is written out although the log has room.
const IDLE_BEFORE_CHECKPOINT: Duration = Duration::from_millis(250);
/// The least time between two attempts to open the database after failed reads.
const REOPEN_PAUSE: Duration = Duration::from_millis(100);

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

/// What handles and the commit thread share.
pub(crate) struct Shared {
    table: ArcSwap<Table>,
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
    /// Someone found that reads fail.
    reopen: bool,
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
            bytes: self.table.load().medium.bytes()?,
            live_bytes: count(&self.live_bytes),
            damaged_pages: self.table.load().medium.damaged_pages(),
            full: self.is_full(),
        })
    }

    /// Why nothing can be written, as far as the last attempt showed.
    pub(crate) fn write_fault(&self) -> Option<Error> {
        self.fault.lock().clone().or_else(|| self.is_full().then_some(Error::Full))
    }

    pub(crate) fn unreadable_pages(&self) -> Result<u64, Error> {
        self.table.load().medium.unreadable_pages()
    }

    fn count(&self, has_changes: bool, checkpoint: Option<Duration>) {
        *self.fault.lock() = None;
        self.commits.fetch_add(u64::from(has_changes), Ordering::Relaxed);
        if let Some(took) = checkpoint {
            let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            self.checkpoints.fetch_add(1, Ordering::Relaxed);
            self.checkpoint_nanos.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// Whether a batch leaves less than there was. What it appends, which tells of what it takes away, counts for nothing.
    fn makes_room(&self, batch: &Batch) -> bool {
        batch.makes_room || {
            let table = self.table();
            let before = |key: &[u8]| match self.pending(key) {
                Some(pending) => pending.map(|value| value.len()),
                // A damaged one is worth deleting too.
                None => snapshot::get(&table, key).map_or(Some(0), |found| found.map(|value| value.len())),
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
    pub(crate) fn table(&self) -> Guard<Arc<Table>> {
        let table = self.table.load();
        if table.medium.read_failed() {
            self.queue.lock().reopen = true;
            self.arrived.notify_one();
        }
        table
    }

    /// Hands out every group that is committed from now on. False if they go elsewhere already.
    pub(crate) fn feed(&self, feed: Arc<Feed>) -> bool {
        self.feed.set(feed).is_ok()
    }

    fn read_failed(&self) -> bool {
        self.table.load().medium.read_failed()
    }

    /// What can be read may be in memory only.
    pub(crate) fn unsettled(&self) -> bool {
        self.table.load().medium.is_holding()
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
        if self.table.load().medium.damaged_pages() > 0 {
            // Not in the commit thread, where it would fail whoever shares the group.
            let table = self.table();
            batch.changes.iter().try_for_each(|(key, _)| readable(&table, key))?;
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
            if queue.bytes + batch.bytes() > self.queue_bytes {
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

    /// Waits for work, or until it is time to tidy up.
    fn next(&self, tick_at: Option<Instant>) -> Work {
        let mut queue = self.queue.lock();
        loop {
            if !queue.waiting.is_empty() {
                return Work::Commit(take_group(&mut queue.waiting, self.is_full()));
            }
            if queue.closed {
                return Work::Close;
            }
            if std::mem::take(&mut queue.reopen) {
                return Work::Reopen;
            }
            match tick_at {
                None => self.arrived.wait(&mut queue),
                Some(at) => {
                    if self.arrived.wait_until(&mut queue, at).timed_out() {
                        return Work::Tick;
                    }
                }
            }
        }
    }

    /// Forgets pending values that the published table holds, and answers who wrote them.
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
        self.queue.lock().bytes -= group.iter().map(|waiting| waiting.batch.bytes()).sum::<usize>();
    }

    /// Publishes what was found in place of what was expected. Batches that wait rest on the latter: whoever
    /// reads from now on must not miss them, so they are refused.
    fn publish_found(&self, table: Table) {
        let (waiting, overlay) = {
            let queue = &mut *self.queue.lock();
            self.table.store(Arc::new(table));
            self.generation.fetch_add(1, Ordering::AcqRel);
            queue.bytes -= queue.waiting.iter().map(|waiting| waiting.batch.bytes()).sum::<usize>();
            (std::mem::take(&mut queue.waiting), std::mem::take(&mut queue.overlay))
        };
        drop(overlay);
        answer(waiting, &Err(lost()));
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
fn readable(table: &Table, key: &[u8]) -> Result<(), Error> {
    match snapshot::get(table, key) {
        Ok(_) | Err(Error::Corrupt { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The answer to a batch that rests on what is no more.
fn lost() -> Error {
    Error::Failed { cause: Box::new(Error::Lost) }
}

enum Work {
    Commit(Vec<Waiting>),
    Tick,
    /// A read failed, and redb refuses every operation after that.
    Reopen,
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
    medium: Arc<Medium>,
    /// Absent in memory, and in a file of the time before it: every commit is then one of the tree.
    log: Option<Log>,
    /// Absent while it cannot be opened.
    database: Option<Opened>,
    options: Options,
    /// Of this opening of the store.
    run: u64,
    /// Of what is published.
    position: Position,
    /// The changes of the group that is being committed.
    committing: Vec<Changed>,
    /// What is around the file, and what is known of its room; absent in memory.
    room: Option<(Box<dyn Place>, Room)>,
    /// A copy that is to take the place of the file.
    copying: Option<Copying>,
    /// When a copy may be begun, if it is worth its while.
    copy_from: Instant,
    /// Set while one is, and is not begun.
    begin_copy_at: Option<Instant>,
    /// The file's name may be that of the file before it, if the power fails.
    renamed: bool,
    /// Files that have lost their names, and when to see whether somebody still reads them.
    retired: Vec<Retired>,
    retire_at: Option<Instant>,
    /// Of all keys and values.
    live: i64,
    /// What the changes that only the log holds may take in the tree.
    debt: u64,
    /// Started with the first group that is worth it.
    answering: Option<mpsc::Sender<Vec<Waiting>>>,
    /// Set while a commit is not synced.
    sync_at: Option<Instant>,
    /// Set while the mark of the log does not tell of its last record.
    mark_at: Option<Instant>,
    /// Set while the log holds what the tree's pages do not.
    checkpoint_at: Option<Instant>,
    /// Something was committed since the store was opened.
    written: bool,
    /// The last attempt.
    reopened_at: Option<Instant>,
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
        let mut was_closed = true;
        let (database, table, replayed) = contain_panic(|| {
            let database = open_database(lease, options)?;
            prepare(&database, log.as_ref())?;
            let begun = Begun::read(&database)?;
            let mut replayed = Replayed { live: begun.live, ..Replayed::default() };
            if let Some(log) = &mut log {
                was_closed = begun.closed;
                if begun.closed {
                    log.begin_known(begun.epoch)?;
                } else {
                    log.find(begun.epoch)?;
                    replayed = replay(&database, log, begun.live)?;
                }
            }
            let table = open_table(&database, &medium, replayed.position.unwrap_or(begun.position))?;
            Ok((database, table, replayed))
        })?;
        let mut next_entry = snapshot::next_number(&table)?;
        // Entries that were seen may have been lost with the power: their numbers are left out.
        if !was_closed && next_entry > 1 {
            next_entry = next_entry.saturating_add(LOST_NUMBERS_MAX);
        }
        let position = table.position;
        let shared = Arc::new(Shared {
            table: ArcSwap::from_pointee(table),
            queue_bytes: options.queue_bytes,
            generation: AtomicU64::new(0),
            queue: Mutex::new(Queue { next_entry, ..Queue::default() }),
            read_only,
            arrived: Condvar::new(),
            feed: OnceLock::new(),
            full: AtomicBool::new(false),
            live_bytes: AtomicU64::new(replayed.live.max(0) as u64),
            commits: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
            checkpoint_nanos: AtomicU64::new(0),
            fault: Mutex::new(None),
        });
        if let Some(place) = place.as_ref().filter(|_| !read_only) {
            // One that a crash left.
            place.discard();
        }
        let unsaved = log.as_ref().is_some_and(|log| !log.is_empty()) && !read_only;
        let checkpoint_at = unsaved.then(Instant::now);
        Ok(Self {
            shared,
            medium,
            log,
            database: Some(database),
            options,
            run: random_run()?,
            position,
            committing: Vec::new(),
            room: place.filter(|_| !read_only).map(|place| {
                let room = Room::new(&*place);
                (place, room)
            }),
            copying: None,
            copy_from: Instant::now(),
            begin_copy_at: None,
            renamed: false,
            retired: Vec::new(),
            retire_at: None,
            live: replayed.live,
            debt: replayed.debt,
            answering: None,
            sync_at: None,
            mark_at: None,
            checkpoint_at,
            written: false,
            reopened_at: None,
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
            self.copy_on();
            let ticks = [
                self.sync_at.or(self.checkpoint_at),
                self.mark_at,
                self.look_at(),
                self.copying.as_ref().map(|copying| copying.step_at),
                self.retire_at,
                self.begin_copy_at,
            ];
            match self.shared.next(ticks.into_iter().flatten().min()) {
                Work::Commit(group) => self.commit(group),
                Work::Tick => self.tick(),
                Work::Reopen => self.reread(),
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
        } else if due(self.sync_at) {
            self.sync();
        } else if due(self.look_at()) {
            self.look_for_room();
        } else if due(self.begin_copy_at) {
            self.begin_copy();
        } else if due(self.retire_at) {
            self.retired.retain_mut(Retired::is_read);
            self.retire_at = self.retire_at();
        } else if self.sync_at.is_none() && due(self.checkpoint_at) {
            // The log holds every write, so none is lost.
            if !self.checkpoint_or_reopen() {
                // If this fails, the next commit tries again.
                let _ = self.restore();
            }
        }
    }

    fn commit(&mut self, group: Vec<Waiting>) {
        let seen = self.shared.generation();
        if self.shared.read_only {
            // There is nothing in it.
            self.settle(group);
            return;
        }
        if let Err(cause) = self.revive() {
            self.notice(&cause);
            let failed = Error::Failed { cause: Box::new(cause) };
            self.shared.lose(group, &failed, &failed);
            return;
        }
        if self.shared.generation() != seen {
            self.shared.lose(group, &lost(), &lost());
            return;
        }
        let mut stage = Stage::Applying;
        let changes = fold(&group, &self.shared.table());
        let committed = changes.and_then(|changes| {
            let committed = self.try_commit(&changes, &mut stage, false);
            self.committing = changes;
            committed
        });
        match committed {
            Ok(()) => self.settle(group),
            Err(cause) => self.recover(group, stage, cause),
        }
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

    /// Applies and publishes. On error nothing is published, and `stage` tells how far it came.
    ///
    /// A group that finds no room in the log, or none at all, is a checkpoint. When it is the last one, `closing`,
    /// the next open need not look for the log's records.
    fn try_commit(&mut self, changes: &[Changed], stage: &mut Stage, closing: bool) -> Result<(), Error> {
        let position = if changes.is_empty() { self.position } else { self.next_position() };
        let debt = self.debt + reserve::estimate(changes);
        let to_log = !changes.is_empty() && self.may_owe(debt);
        let live = self.live;
        let Some(database) = &self.database else { return Err(Error::Closed) };
        let (log, medium, durability) = (&mut self.log, &self.medium, self.options.durability);
        let begun = Instant::now();
        let (logged, table, live) = contain_panic(|| {
            let mut transaction = database.begin_write()?;
            let live = live + apply(&transaction, changes)?;
            if let Some(log) = log {
                log.record(position, changes);
            }
            let logged = match log {
                Some(log) if to_log && log.has_room() => {
                    *stage = Stage::Logging;
                    log.append()?;
                    if durability == Durability::Immediate {
                        log.sync()?;
                    }
                    transaction.set_durability(redb::Durability::None)?;
                    true
                }
                Some(log) => {
                    let mut format = transaction.open_table(FORMAT)?;
                    format.insert(EPOCH_KEY, log.epoch() + 1)?;
                    format.insert(CLOSED_KEY, u64::from(closing))?;
                    tell_state(&mut format, position, live)?;
                    drop(format);
                    // Saves redb's map of free space, so that an open after a crash need not rebuild it.
                    transaction.set_quick_repair(true);
                    false
                }
                None => false,
            };
            *stage = if logged { Stage::Logged } else { Stage::Committing };
            transaction.commit()?;
            Ok((logged, open_table(database, medium, position)?, live))
        })
        .inspect_err(|_| {
            // A failed sync may have taken records along that wait for one.
            if let (Stage::Committing, Some(log)) = (&stage, log) {
                log.distrust();
            }
        })?;
        self.written = true;
        self.position = position;
        self.shared.table.store(Arc::new(table));
        self.set_live(live);
        self.debt = if logged { debt } else { 0 };
        if self.copying.as_mut().is_some_and(|copying| copying.follow(changes).is_err()) {
            self.abandon_copy();
        }
        self.shared.count(!changes.is_empty(), (!logged).then(|| begun.elapsed()));
        if logged {
            let now = Instant::now();
            let relaxed = self.options.durability == Durability::Relaxed;
            self.sync_at = self.sync_at.or(relaxed.then(|| now + RELAXED_SYNC));
            self.checkpoint_at = Some(now + IDLE_BEFORE_CHECKPOINT);
            self.mark_at = self.log.as_ref().filter(|log| log.wants_mark()).map(|_| now + IDLE_BEFORE_MARK);
        } else {
            (self.sync_at, self.mark_at, self.checkpoint_at) = (None, None, None);
            if let Some(log) = &mut self.log {
                log.begin(log.epoch() + 1);
                log.mark();
            }
            if let Some((place, room)) = self.room.as_mut().filter(|_| !closing) {
                room.reserve(&**place);
                self.begin_copy();
            }
        }
        Ok(())
    }

    /// Begins a copy if the file is mostly gaps, or says when to see again.
    fn begin_copy(&mut self) {
        self.begin_copy_at = None;
        let (Some((place, _)), Some(log), None) = (&self.room, &self.log, &self.copying) else { return };
        let (pace, live) = (place.pace(), self.live.max(0) as u64);
        let worth = |used| compact::is_worth(used, log.bytes(), live, pace.copy_over_bytes);
        if !place.used().is_some_and(worth) {
            return;
        }
        let now = Instant::now();
        let fits = place.available().is_none_or(|available| available >= compact::takes(live));
        if now < self.copy_from || !fits || !self.retired.is_empty() || self.medium.is_holding() {
            self.begin_copy_at = Some(self.copy_from.max(now + pace.look_pause));
            return;
        }
        self.copy_from = now + pace.copy_pause;
        self.copying = Copying::begin(&**place, self.options).ok();
        if self.copying.is_none() {
            place.discard();
            self.begin_copy_at = Some(self.copy_from);
        }
    }

    /// Goes on with the copy, if it is time.
    fn copy_on(&mut self) {
        let Some(copying) = self.copying.as_mut().filter(|copying| copying.step_at <= Instant::now()) else {
            return;
        };
        match copying.step(&self.shared.table.load()) {
            Ok(false) => {}
            Ok(true) => self.finish_copy(),
            Err(_) => self.abandon_copy(),
        }
    }

    fn abandon_copy(&mut self) {
        if let (Some(copying), Some((place, _))) = (self.copying.take(), &self.room) {
            copying.abandon();
            place.discard();
            self.begin_copy_at = Some(self.copy_from);
        }
    }

    /// Lets the copy take the place of the file.
    fn finish_copy(&mut self) {
        let (Some(copying), Some((place, _))) = (self.copying.take(), &self.room) else { return };
        let copied = copying.finish(self.position, self.options);
        let Ok(Copied { medium, log, database, table, live }) =
            copied.and_then(|copied| place.rename().map(|()| copied).map_err(Error::from))
        else {
            place.discard();
            self.begin_copy_at = Some(self.copy_from);
            return;
        };
        self.renamed = place.sync().is_err();
        let medium = std::mem::replace(&mut self.medium, medium);
        let database = self.database.replace(database);
        self.log = Some(log);
        self.shared.table.store(Arc::new(table));
        (self.sync_at, self.mark_at, self.checkpoint_at) = (None, None, None);
        (self.debt, self.written) = (0, true);
        self.set_live(live);
        self.retired.extend(database.map(|database| Retired::new(database, medium)));
        self.retire_at = self.retire_at();
    }

    fn retire_at(&self) -> Option<Instant> {
        let pause = self.room.as_ref().map(|(place, _)| place.pace().look_pause)?;
        (!self.retired.is_empty()).then(|| Instant::now() + pause)
    }

    fn set_live(&mut self, live: i64) {
        self.live = live;
        self.shared.live_bytes.store(live.max(0) as u64, Ordering::Relaxed);
    }

    fn may_owe(&self, debt: u64) -> bool {
        self.room.as_ref().is_none_or(|(place, room)| room.may_owe(&**place, debt))
    }

    /// If the cause is a full disk, only what makes room is taken from now on. A copy that took the room is given up instead.
    fn notice(&mut self, cause: &Error) {
        if cause.is_full_disk() && self.copying.is_some() {
            self.abandon_copy();
            return;
        }
        if let Some((place, room)) = self.room.as_mut().filter(|_| cause.is_full_disk()) {
            room.run_out(&**place, self.live);
            self.shared.full.store(true, Ordering::Release);
        }
    }

    fn look_at(&self) -> Option<Instant> {
        self.room.as_ref().and_then(|(_, room)| room.look_at())
    }

    /// Takes all writes again if there is room for them.
    fn look_for_room(&mut self) {
        // What the log owes is paid while the room of the reserve is there for it.
        if self.debt > 0 && !self.checkpoint_or_reopen() {
            let _ = self.restore();
            return;
        }
        if let Some((place, room)) = &mut self.room
            && room.look(&**place, self.live)
        {
            self.shared.full.store(false, Ordering::Release);
        }
        self.begin_copy();
    }

    fn next_position(&self) -> Position {
        self.position.next(self.run, self.shared.feed.get().map_or(0, |feed| feed.now_ms()))
    }

    fn sync(&mut self) {
        self.sync_at = None;
        if let Some(log) = &mut self.log
            && let Err(cause) = log.sync()
        {
            // Whoever wrote was answered long ago, and was promised no more than this attempt.
            self.recover(Vec::new(), Stage::Logging, cause.into());
        }
    }

    /// Writes the tree out, so that the log can begin anew.
    fn checkpoint(&mut self) -> Result<(), Error> {
        self.checkpoint_at = None;
        // A commit that only the journal holds would make the log void too early.
        self.restore()?;
        let mut stage = Stage::Applying;
        self.try_commit(&[], &mut stage, false)
    }

    /// Whether the tree was written out. If not, the store is readable again where that is possible.
    fn checkpoint_or_reopen(&mut self) -> bool {
        match self.checkpoint() {
            Ok(()) => true,
            Err(cause) => {
                self.notice(&cause);
                let _ = self.reopen();
                false
            }
        }
    }

    fn recover(&mut self, group: Vec<Waiting>, stage: Stage, cause: Error) {
        (self.sync_at, self.mark_at, self.checkpoint_at) = (None, None, None);
        self.notice(&cause);
        let begun = self.log.as_ref().map(Log::epoch);
        // Before anybody reads on: a record that is found after a crash would bring back what was refused.
        let log_voided = match (stage, &mut self.log) {
            (Stage::Logging, Some(log)) => log.void(),
            (Stage::Applying | Stage::Logging | Stage::Logged | Stage::Committing, _) => true,
        };
        let (reopened, tree_voided) = self.reopen();
        let on_disk = reopened.is_ok() && self.restore().is_ok();
        let failed = Error::Failed { cause: Box::new(cause.clone()) };
        let unknown = Error::Unknown { cause: Box::new(cause) };
        let outcome = match stage {
            Stage::Applying => Err(failed.clone()),
            // The next epoch makes it void too.
            Stage::Logging if log_voided || on_disk && self.checkpoint_or_reopen() => Err(failed.clone()),
            // The log holds it.
            Stage::Logged if reopened.is_ok() => Ok(()),
            // The tree holds it.
            Stage::Committing if reopened.is_ok() && begun != self.log.as_ref().map(Log::epoch) => Ok(()),
            Stage::Committing if reopened.is_ok() && tree_voided => Err(failed.clone()),
            Stage::Logging | Stage::Logged | Stage::Committing => Err(unknown),
        };
        match outcome {
            Ok(()) => self.settle(group),
            Err(error) => {
                self.committing.clear();
                self.shared.lose(group, &error, &failed);
            }
        }
    }

    /// Makes the store readable again after a failed read.
    fn reread(&mut self) {
        if self.reopened_at.is_some_and(|at| at.elapsed() < REOPEN_PAUSE) {
            return;
        }
        if self.reopen().0.is_ok() {
            // If this fails, the next commit tries again.
            let _ = self.restore();
        }
    }

    /// Brings the disk to what the tree has seen of it.
    fn restore(&mut self) -> Result<(), Error> {
        self.medium.restore().inspect_err(|_| {
            // A failed sync may have taken records along that wait for one.
            if let Some(log) = &mut self.log {
                log.distrust();
            }
        })?;
        Ok(())
    }

    /// Makes the store writable again if an earlier commit or read failed.
    fn revive(&mut self) -> Result<(), Error> {
        if let Some((place, _)) = self.room.as_ref().filter(|_| self.renamed) {
            place.sync()?;
            self.renamed = false;
        }
        if self.database.is_none() || self.shared.read_failed() {
            self.reopen().0?;
        }
        self.restore()
    }

    /// Opens the database anew and publishes what it holds; writes stay in memory until `restore`. Also says whether
    /// what was not synced is certainly void.
    fn reopen(&mut self) -> (Result<(), Error>, bool) {
        self.reopened_at = Some(Instant::now());
        // A group may be there after all that it has not followed.
        self.abandon_copy();
        let (lease, voided) = self.medium.lease_after_failure();
        let reopened = self.reopen_on(lease).inspect_err(|_| self.medium.mark_unreadable());
        (reopened, voided)
    }

    fn reopen_on(&mut self, lease: std::io::Result<Lease>) -> Result<(), Error> {
        // Its lease is revoked, so it cannot close in order; the successor repairs what it left.
        self.database = None;
        let (log, medium, live) = (&mut self.log, &self.medium, self.live);
        let (database, table, replayed) = contain_panic(|| {
            let database = open_database(lease?, self.options)?;
            let begun = Begun::read(&database)?;
            let mut position = self.position;
            let mut replayed = Replayed { live, ..Replayed::default() };
            if let Some(log) = log {
                match begun.epoch.cmp(&log.epoch()) {
                    cmp::Ordering::Equal => {}
                    cmp::Ordering::Greater => log.begin(begun.epoch),
                    // The checkpoint was seen, and is not there after all.
                    cmp::Ordering::Less => log.find(begun.epoch)?,
                }
                replayed = replay(&database, log, begun.live)?;
                position = replayed.position.unwrap_or(begun.position);
            }
            let table = open_table(&database, medium, position)?;
            Ok((database, table, replayed))
        })?;
        if table.position.commit < self.position.commit {
            // What is committed from here on is not what had these numbers before.
            self.run = self.run.wrapping_add(1);
        }
        self.set_live(replayed.live);
        self.debt = replayed.debt;
        self.position = table.position;
        self.shared.publish_found(table);
        self.database = Some(database);
        Ok(())
    }

    fn close(mut self) {
        self.abandon_copy();
        self.retired.clear();
        let saved = if self.shared.read_only { Ok(()) } else { self.save() };
        if saved.is_err() || self.shared.read_only {
            // Dropping the database would write out what is in the log only, in the epoch of the log.
            self.medium.revoke();
        }
        // redb saves its free space here, so that the next open need not look for it.
        let closed = self.database.take().map_or(Ok(()), Opened::close);
        self.medium.release();
        self.shared.queue.lock().closing = saved.and(closed).err();
        if let Some(feed) = self.shared.feed.get() {
            feed.close();
        }
    }

    /// Writes out what only the log holds. On a full disk that takes the reserve.
    fn save(&mut self) -> Result<(), Error> {
        let Err(cause) = self.try_save() else { return Ok(()) };
        if self.room.is_none() || !cause.is_full_disk() {
            return Err(cause);
        }
        self.notice(&cause);
        self.reopen().0?;
        self.try_save()
    }

    fn try_save(&mut self) -> Result<(), Error> {
        self.restore()?;
        match &self.log {
            Some(_) if self.written => {
                let mut stage = Stage::Applying;
                self.try_commit(&[], &mut stage, true)
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// One change per key, in key order. `table` is the state before the group.
fn fold(group: &[Waiting], table: &Table) -> Result<Vec<Changed>, Error> {
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
                    None => match snapshot::get(table, key)? {
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

/// How far a commit came that failed.
#[derive(Clone, Copy)]
enum Stage {
    Applying,
    /// The log may hold it.
    Logging,
    /// The log holds it.
    Logged,
    /// The tree may hold it.
    Committing,
}

/// Makes the changes in the tree. Returns by how much more is in it then.
pub(crate) fn apply(transaction: &WriteTransaction, changes: &[Changed]) -> Result<i64, Error> {
    if changes.is_empty() {
        return Ok(0);
    }
    let mut table = transaction.open_table(DATA)?;
    let mut grown = 0;
    for (key, value) in changes {
        grown += set(&mut table, key, value.as_ref().map(|value| value.as_slice()))?;
    }
    Ok(grown)
}

/// Makes one change. Returns by how much more is in the tree then.
pub(crate) fn set(
    table: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<i64, Error> {
    let before = match value {
        Some(value) => table.insert(key, value)?,
        None => table.remove(key)?,
    };
    let size = |value: &[u8]| (key.len() + value.len()) as i64;
    let before = before.map_or(0, |before| size(before.value()));
    Ok(value.map_or(0, size) - before)
}

/// What the log added to the tree in memory.
#[derive(Default)]
struct Replayed {
    /// Of the last record, if there is one.
    position: Option<Position>,
    live: i64,
    debt: u64,
}

/// Brings the tree, in memory, to where the log ends; `live` is what the tree holds without it.
fn replay(database: &Database, log: &Log, live: i64) -> Result<Replayed, Error> {
    let mut replayed = Replayed { live, ..Replayed::default() };
    if log.is_empty() {
        return Ok(replayed);
    }
    let mut transaction = database.begin_write()?;
    transaction.set_durability(redb::Durability::None)?;
    {
        let mut table = transaction.open_table(DATA)?;
        replayed.position = log.replay(|key, value| {
            replayed.live += set(&mut table, key, value)?;
            replayed.debt += reserve::estimate_one(key, value);
            Ok(())
        })?;
    }
    transaction.commit()?;
    Ok(replayed)
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

/// Creates the tables of a new store; checks the version of an old one.
pub(crate) fn prepare(database: &Database, log: Option<&Log>) -> Result<(), Error> {
    match database.begin_read()?.open_table(FORMAT) {
        Ok(format) => {
            let found = format.get(FORMAT_KEY)?.map_or(0, |version| version.value());
            if found > FORMAT_VERSION {
                return Err(Error::Newer { found, known: FORMAT_VERSION });
            }
            Ok(())
        }
        Err(TableError::TableDoesNotExist(_)) => {
            if let Some(log) = log
                && !log.is_unused()?
            {
                return Err(Error::Damaged { cause: "it has a log, and nothing else".to_owned() });
            }
            let mut transaction = database.begin_write()?;
            {
                let mut format = transaction.open_table(FORMAT)?;
                format.insert(FORMAT_KEY, FORMAT_VERSION)?;
                format.insert(EPOCH_KEY, first_epoch()?)?;
            }
            transaction.open_table(DATA)?;
            transaction.set_quick_repair(true);
            Ok(transaction.commit()?)
        }
        Err(other) => Err(other.into()),
    }
}

/// Writes out a copy that holds the state of this position. Its log is empty.
pub(crate) fn copy_format(database: &Database, position: Position, live: i64) -> Result<(), Error> {
    let mut transaction = database.begin_write()?;
    tell_state(&mut transaction.open_table(FORMAT)?, position, live)?;
    transaction.set_quick_repair(true);
    Ok(transaction.commit()?)
}

fn tell_state(
    format: &mut redb::Table<'_, &'static str, u64>,
    position: Position,
    live: i64,
) -> Result<(), Error> {
    format.insert(COMMIT_KEY, position.commit)?;
    format.insert(RUN_KEY, position.run)?;
    format.insert(TIME_KEY, position.time_ms)?;
    format.insert(LIVE_KEY, live.max(0) as u64)?;
    Ok(())
}

/// Nobody can guess it: a value in an old record must not pass for a record of a later epoch.
fn first_epoch() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    // Room to count up from there.
    Ok((u64::from_le_bytes(bytes) >> 2) + EPOCH_FIRST)
}

/// What the tree says of its last checkpoint.
pub(crate) struct Begun {
    /// Records of the log of this epoch are not in the tree's pages.
    pub(crate) epoch: u64,
    /// There are none.
    closed: bool,
    position: Position,
    /// Bytes of all keys and values.
    live: i64,
}

impl Begun {
    pub(crate) fn read(database: &Database) -> Result<Self, Error> {
        let format = database.begin_read()?.open_table(FORMAT)?;
        let number = |key: &str| Ok::<_, Error>(format.get(key)?.map(|number| number.value()));
        Ok(Self {
            epoch: number(EPOCH_KEY)?.unwrap_or(EPOCH_FIRST),
            closed: number(CLOSED_KEY)?.is_some_and(|closed| closed == 1),
            live: number(LIVE_KEY)?.unwrap_or_default() as i64,
            position: Position {
                commit: number(COMMIT_KEY)?.unwrap_or_default(),
                run: number(RUN_KEY)?.unwrap_or_default(),
                time_ms: number(TIME_KEY)?.unwrap_or_default(),
            },
        })
    }
}

pub(crate) fn open_database(lease: Lease, options: Options) -> Result<Opened, Error> {
    let database = redb::Builder::new().set_cache_size(options.cache_bytes).create_with_backend(lease)?;
    Ok(Opened(Some(database)))
}

/// A database that may be let go anywhere: redb writes when it closes, and panics where what it reads for that is
/// damaged.
pub(crate) struct Opened(Option<Database>);

impl Opened {
    pub(crate) fn close(mut self) -> Result<(), Error> {
        self.shut()
    }

    fn shut(&mut self) -> Result<(), Error> {
        contain_panic(|| {
            drop(self.0.take());
            Ok(())
        })
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // Who wants to know closes it.
        let _ = self.shut();
    }
}

impl Deref for Opened {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.0.as_ref().expect("only closing takes it")
    }
}

impl DerefMut for Opened {
    fn deref_mut(&mut self) -> &mut Database {
        self.0.as_mut().expect("only closing takes it")
    }
}

pub(crate) fn open_table(
    database: &Database,
    medium: &Arc<Medium>,
    position: Position,
) -> Result<Table, Error> {
    let transaction = database.begin_read()?;
    Ok(Table { table: transaction.open_table(DATA)?, transaction, medium: Arc::clone(medium), position })
}
