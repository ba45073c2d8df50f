//! The tree absorbs memory tables, in the background.
//!
//! One thread owns the redb database. A memory table that takes no more writes is brought into the tree by it, in the order of the
//! keys, with one durable commit, which also tells where in the log the next table begins. Then the state is published
//! without the table, and the log is cut. Nobody waits for that, except who finds no room in the log.
//!
//! What is absorbed stays in log and memory until the tree certainly has it, and absorbing it twice does no harm. So when the disk
//! fails, the database is opened again where it certainly was (see `medium`), readers go on, and it is tried again.
//!
//! A table with keys whose page is damaged is absorbed without them; those go to the log and to memory once more, as
//! if they were written now, and stay there.
//!
//! The same thread looks after the room on the disk (`reserve.rs`), and makes the copy without gaps (`compact.rs`).

use crate::batch::Changed;
use crate::checked::PAGE_BYTES;
use crate::commit::{Shared, readable};
use crate::compact::{self, Copied, Copying, Retired};
use crate::log::{Log, Start};
use crate::medium::{Lease, Medium};
use crate::memory::{Memory, Merged};
use crate::panic::contain_panic;
use crate::place::Place;
use crate::reserve::Room;
use crate::snapshot::{Tree, View};
use crate::store::Options;
use crate::version::{Newer, TREE as FORMAT_VERSION};
use crate::{Error, Position};
use parking_lot::{Condvar, Mutex};
use redb::{Database, ReadableDatabase, TableDefinition, TableError};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(crate) const DATA_NAME: &str = "data";
pub(crate) const DATA: TableDefinition<'static, &'static [u8], &'static [u8]> =
    TableDefinition::new(DATA_NAME);
pub(crate) const FORMAT: TableDefinition<'static, &'static str, u64> = TableDefinition::new("format");
const FORMAT_KEY: &str = "version";
pub(crate) const EPOCH_KEY: &str = "epoch";
const EPOCH_FIRST: u64 = 1;
/// Where in the log that epoch begins.
const START_KEY: &str = "start";
pub(crate) const CLOSED_KEY: &str = "closed";
/// The position at the last checkpoint.
const COMMIT_KEY: &str = "commit";
const RUN_KEY: &str = "run";
const TIME_KEY: &str = "time";
/// Bytes of all keys and values.
const LIVE_KEY: &str = "live";

/// The least time between two attempts to open the database after failed reads.
const REOPEN_PAUSE: Duration = Duration::from_millis(100);
/// How long a read waits for the database that is opened after another one failed.
const READER_WAIT: Duration = Duration::from_secs(2);
/// The time between two attempts to absorb a table when nobody waits for it.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// How many changes a step of absorbing makes: so many that their pages take such a part of redb's memory.
const STEP_CACHE_PART: usize = 8;
const STEP_MIN: usize = 256;
const STEP_MAX: usize = 8192;
/// What is absorbed at once where pages are damaged.
const CAREFUL_CHANGES: usize = 1024;

/// A memory table that takes no more writes.
#[derive(Clone)]
pub(crate) struct Frozen {
    pub(crate) table: Arc<Memory>,
    /// Where the log goes on when the tree holds it; absent where the log does not begin with it.
    pub(crate) cut: Option<Start>,
    /// Of its last group.
    pub(crate) position: Position,
    /// Its entries were written once more since: it has only to go.
    pub(crate) is_carried: bool,
}

/// A group that the log cannot hold.
pub(crate) struct Direct {
    pub(crate) changes: Vec<Changed>,
    pub(crate) cut: Option<Start>,
    pub(crate) position: Position,
}

/// What the commit thread and the tree's thread tell each other.
#[derive(Default)]
pub(crate) struct Exchange {
    state: Mutex<State>,
    /// For the tree's thread.
    asked: Condvar,
    /// For the commit thread.
    told: Condvar,
}

#[derive(Default)]
struct State {
    /// Oldest first.
    frozen: VecDeque<Frozen>,
    direct: Option<Arc<Direct>>,
    /// Somebody waits for it.
    urgent: bool,
    /// Attempts to absorb that have ended, and whether one is being made.
    attempts: u64,
    attempting: bool,
    /// How many tables and groups were absorbed.
    absorbed: u64,
    /// Why the last attempt failed, if it did.
    failed: Option<Error>,
    reopen: Option<Reopen>,
    reopened: u64,
    unreadable: Option<Error>,
    ran_out: bool,
    closing: Option<Closing>,
    ended: bool,
    tells: Told,
    switched: Option<Option<Switched>>,
}

/// What the commit thread is to know or to do.
#[derive(Default)]
pub(crate) struct Told {
    /// The log may be cut.
    pub(crate) cut: Option<Start>,
    /// A copy of the tree is whole.
    pub(crate) copied: Option<Box<Copied>>,
    /// The tree's thread wants what the memory table holds.
    pub(crate) wants_table: bool,
    /// What the tree cannot take is to be written once more.
    pub(crate) carry: Option<Carry>,
}

/// Entries on pages that are damaged.
#[derive(Clone)]
pub(crate) struct Carry {
    /// They alone.
    pub(crate) table: Arc<Memory>,
    /// Where the log goes on once it holds them again.
    cut: Option<Start>,
    position: Position,
}

impl Told {
    fn is_any(&self) -> bool {
        self.cut.is_some() || self.copied.is_some() || self.wants_table || self.carry.is_some()
    }
}

/// A file that has taken the place of another.
pub(crate) struct Switched {
    pub(crate) medium: Arc<Medium>,
    pub(crate) database: Opened,
    pub(crate) live: i64,
    pub(crate) start: Start,
    pub(crate) log_bytes: u64,
}

#[derive(Clone, Copy)]
struct Closing {
    /// Where the log would go on.
    start: Option<Start>,
    /// Something was written since the store was opened.
    written: bool,
}

/// When the database is to be opened again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reopen {
    /// Not too often.
    InTurn,
    AtOnce,
}

#[derive(Clone, Copy)]
pub(crate) enum Asked {
    /// A read failed, and redb refuses every operation after that.
    Reopen(Reopen),
    /// The disk is full.
    RanOut,
}

/// What the commit thread waits for.
pub(crate) struct Awaited {
    /// Of a group; tables may have been absorbed before.
    is_direct: bool,
    absorbed: u64,
    attempts: u64,
}

pub(crate) enum Outcome {
    Done,
    Failed(Error),
    /// Something else is to be attended to meanwhile.
    Told,
}

impl Exchange {
    pub(crate) fn freeze(&self, frozen: Frozen) {
        self.state.lock().frozen.push_back(frozen);
        self.asked.notify_one();
    }

    /// Whether a table is with the tree.
    pub(crate) fn has_frozen(&self) -> bool {
        !self.state.lock().frozen.is_empty()
    }

    /// Whether there is something to attend to.
    pub(crate) fn has_told(&self) -> bool {
        self.state.lock().tells.is_any()
    }

    pub(crate) fn ask(&self, asked: Asked) {
        let mut state = self.state.lock();
        match asked {
            Asked::Reopen(when) => state.reopen = state.reopen.max(Some(when)),
            Asked::RanOut => state.ran_out = true,
        }
        self.asked.notify_one();
    }

    pub(crate) fn take_told(&self) -> Told {
        std::mem::take(&mut self.state.lock().tells)
    }

    /// The log holds again what the tree cannot take.
    pub(crate) fn carried(&self, Carry { table, cut, position }: Carry) {
        self.state.lock().frozen.push_front(Frozen { table, cut, position, is_carried: true });
        self.asked.notify_one();
    }

    pub(crate) fn answer_switch(&self, switched: Option<Switched>) {
        let mut state = self.state.lock();
        if switched.is_some() {
            // What they know of the log is of the other one.
            state.frozen.iter_mut().for_each(|frozen| frozen.cut = None);
        }
        state.switched = Some(switched);
        self.asked.notify_one();
    }

    /// Waits until there is something to attend to. False if the tree's thread has ended.
    pub(crate) fn wait_told(&self) -> bool {
        let mut state = self.state.lock();
        while !state.tells.is_any() && !state.ended {
            self.told.wait(&mut state);
        }
        !state.ended || state.tells.is_any()
    }

    pub(crate) fn close(&self, start: Option<Start>, written: bool) {
        self.state.lock().closing = Some(Closing { start, written });
        self.asked.notify_one();
    }

    pub(crate) fn await_absorbed(&self) -> Awaited {
        let mut state = self.state.lock();
        self.await_attempt(&mut state, false)
    }

    pub(crate) fn await_direct(&self, direct: Direct) -> Awaited {
        let mut state = self.state.lock();
        state.direct = Some(Arc::new(direct));
        self.await_attempt(&mut state, true)
    }

    fn await_attempt(&self, state: &mut State, is_direct: bool) -> Awaited {
        state.urgent = true;
        self.asked.notify_one();
        // One that is under way may have begun before there was room for it.
        let attempts = state.attempts + u64::from(state.attempting);
        Awaited { is_direct, absorbed: state.absorbed, attempts }
    }

    pub(crate) fn next_outcome(&self, awaited: &Awaited) -> Outcome {
        let mut state = self.state.lock();
        loop {
            if state.absorbed > awaited.absorbed || !awaited.is_direct && state.frozen.is_empty() {
                return Outcome::Done;
            }
            if state.attempts > awaited.attempts
                && let Some(error) = &state.failed
            {
                return Outcome::Failed(error.clone());
            }
            if state.ended {
                return Outcome::Failed(Error::Closed);
            }
            if state.tells.is_any() {
                return Outcome::Told;
            }
            self.told.wait(&mut state);
        }
    }

    /// How often the database was opened again. To be asked before a read that may need another.
    pub(crate) fn reopened(&self) -> u64 {
        self.state.lock().reopened
    }

    /// Lets the database be opened again unless it was since, and waits for that. Who reads does not wait for a disk that hangs.
    pub(crate) fn reopen_and_wait(&self, before: u64) -> Result<(), Error> {
        self.ask(Asked::Reopen(Reopen::InTurn));
        let limit = Instant::now() + READER_WAIT;
        let mut state = self.state.lock();
        while state.reopened == before && !state.ended {
            if self.told.wait_until(&mut state, limit).timed_out() {
                return Err(Error::Expired);
            }
        }
        state.unreadable.clone().map_or(Ok(()), Err)
    }

    /// The same for the commit thread, step by step.
    pub(crate) fn next_reopened(&self, before: u64) -> Outcome {
        let mut state = self.state.lock();
        loop {
            if state.reopened > before {
                return state.unreadable.clone().map_or(Outcome::Done, Outcome::Failed);
            }
            if state.ended {
                return Outcome::Failed(Error::Closed);
            }
            if state.tells.is_any() {
                return Outcome::Told;
            }
            self.told.wait(&mut state);
        }
    }
}

/// What the tree tells of itself.
#[derive(Clone, Copy)]
struct Holds {
    /// Where the log begins that it does not hold, if that changes.
    start: Option<Start>,
    position: Position,
    closed: bool,
}

enum Work {
    Absorb(Vec<Frozen>, Option<Arc<Direct>>),
    RanOut,
    Reopen(Reopen),
    Tick,
    Close(Closing),
}

/// What is left when the tree's thread has ended.
pub(crate) struct Ended {
    /// Whether the tree tells that the store was closed.
    pub(crate) closed: Result<bool, Error>,
    pub(crate) medium: Arc<Medium>,
}

/// Tells that the tree's thread has ended, however it did.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.exchange.state.lock().ended = true;
        self.0.exchange.told.notify_all();
    }
}

/// The tree's thread.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    medium: Arc<Medium>,
    /// Absent while it cannot be opened.
    database: Option<Opened>,
    options: Options,
    /// What is around the file, and what is known of its room; absent in memory.
    room: Option<(Arc<dyn Place>, Room)>,
    log_bytes: u64,
    /// A copy that is to take the place of the file.
    copying: Option<Copying>,
    /// When a copy may be begun, if it is worth its while.
    copy_from: Instant,
    /// Set while one is, and is not begun.
    begin_copy_at: Option<Instant>,
    /// Files that have lost their names, and when to see whether somebody still reads them.
    retired: Vec<Retired>,
    retire_at: Option<Instant>,
    /// When to look for room again, if the tables have to be absorbed first.
    look_at: Option<Instant>,
    /// Of all keys and values in the tree.
    live: i64,
    /// The first epoch of the log that the tree does not hold, as far as is known.
    epoch: u64,
    /// Nothing in the tree is of a later commit.
    reached: u64,
    /// Something was absorbed since the store was opened.
    written: bool,
    /// When to try again what failed.
    retry_at: Option<Instant>,
    /// A page was found damaged that had to be written: keys are looked at before they are absorbed.
    is_careful: bool,
    /// Entries that the tree cannot take, which the log does not hold again yet: it is not cut until then.
    stuck: Option<Arc<Memory>>,
    /// The same for the commit thread, which is told when the tables that they are from have gone.
    carry: Option<Carry>,
    /// The last attempt to open the database, and when to make the next one, if somebody waits for it.
    reopened_at: Option<Instant>,
    reread_at: Option<Instant>,
}

impl Keeper {
    pub(crate) fn new(
        shared: Arc<Shared>,
        medium: Arc<Medium>,
        database: Opened,
        place: Option<Arc<dyn Place>>,
        options: Options,
        begun: &Begun,
        log_bytes: u64,
    ) -> Self {
        let room = place.map(|place| {
            let room = Room::new(&*place);
            (place, room)
        });
        // A store that is only read becomes small too, but not one that is open for a moment.
        let begin_copy_at = room
            .as_ref()
            .filter(|_| !shared.is_read_only())
            .map(|(place, _)| Instant::now() + place.pace().look_pause);
        let keeper = Self {
            shared,
            medium,
            database: Some(database),
            options,
            room,
            log_bytes,
            copying: None,
            copy_from: Instant::now(),
            begin_copy_at,
            retired: Vec::new(),
            retire_at: None,
            look_at: None,
            live: begun.live,
            epoch: begun.start.epoch,
            reached: begun.position.commit,
            written: false,
            retry_at: None,
            is_careful: false,
            stuck: None,
            carry: None,
            reopened_at: None,
            reread_at: None,
        };
        keeper.tell_reserved();
        keeper
    }

    /// Ends when the store is closed. Says whether the tree told so.
    pub(crate) fn run(mut self) -> Ended {
        // Also if this thread panics: the commit thread must not wait for it then.
        let _ending = Ending(Arc::clone(&self.shared));
        self.medium.write_here_only();
        let closed = loop {
            self.copy_on();
            match self.next() {
                Work::Absorb(frozen, direct) => self.absorb(&frozen, direct.as_deref()),
                Work::RanOut => self.run_out(),
                Work::Reopen(when) => self.reread(when),
                Work::Tick => self.tick(),
                Work::Close(closing) => break self.close(closing),
            }
        };
        Ended { closed, medium: self.medium }
    }

    fn next(&mut self) -> Work {
        let ticks = [
            self.look_at(),
            self.copying.as_ref().map(|copying| copying.step_at),
            self.retire_at,
            self.begin_copy_at,
            self.retry_at,
            self.reread_at,
        ];
        let tick_at = ticks.into_iter().flatten().min();
        let exchange = &self.shared.exchange;
        let mut state = exchange.state.lock();
        loop {
            if std::mem::take(&mut state.ran_out) {
                return Work::RanOut;
            }
            if let Some(when) = state.reopen.take() {
                return Work::Reopen(when);
            }
            if let Some(closing) = state.closing {
                return Work::Close(closing);
            }
            let is_any = !state.frozen.is_empty() || state.direct.is_some();
            if is_any && (self.retry_at.is_none_or(|at| at <= Instant::now()) || state.urgent) {
                (state.urgent, state.attempting, self.retry_at) = (false, true, None);
                return Work::Absorb(state.frozen.iter().cloned().collect(), state.direct.take());
            }
            match tick_at {
                None => exchange.asked.wait(&mut state),
                Some(at) => {
                    if exchange.asked.wait_until(&mut state, at).timed_out() {
                        return Work::Tick;
                    }
                }
            }
        }
    }

    /// Does what it is time for.
    fn tick(&mut self) {
        let now = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(self.reread_at) {
            self.reread(Reopen::InTurn);
        } else if due(self.look_at()) {
            self.look_for_room(false);
        } else if due(self.begin_copy_at) {
            self.begin_copy();
        } else if due(self.retire_at) {
            self.retired.retain_mut(Retired::is_read);
            self.retire_at = self.retire_at();
        } else if due(self.retry_at) {
            self.retry_at = None;
        }
    }

    fn absorb(&mut self, frozen: &[Frozen], direct: Option<&Direct>) {
        self.note_carried(frozen);
        let mut outcome = self.attempt(frozen, direct);
        if matches!(outcome, Err(Error::Damaged { .. })) && !self.is_careful {
            // Whoever waits is told of another attempt: this one may have failed for a key that is not theirs.
            self.is_careful = true;
            if direct.is_none() {
                outcome = self.attempt(frozen, direct);
            }
        }
        if outcome.is_ok() {
            self.absorbed(frozen, direct);
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.exchange.state.lock();
        (state.attempting, state.attempts) = (false, state.attempts + 1);
        match outcome {
            Ok(()) => {
                state.failed = None;
                // Not the first so many: what is carried comes to the front meanwhile.
                let is_done = |other: &Frozen| frozen.iter().any(|one| Arc::ptr_eq(&one.table, &other.table));
                state.frozen.retain(|frozen| !is_done(frozen));
                state.tells.carry = self.carry.take().or(state.tells.carry.take());
                state.absorbed += frozen.len() as u64 + u64::from(direct.is_some());
                if self.stuck.is_none() {
                    state.tells.cut = last_cut(frozen, direct).or(state.tells.cut);
                }
            }
            Err(error) => {
                state.failed = Some(error);
                self.retry_at = Some(Instant::now() + RETRY_PAUSE);
            }
        }
        shared.exchange.told.notify_all();
        drop(state);
        shared.attend();
    }

    fn attempt(&mut self, frozen: &[Frozen], direct: Option<&Direct>) -> Result<(), Error> {
        let is_careful = self.stuck.is_some() || self.is_careful && self.medium.damaged_pages() > 0;
        let attempt = self.revive().and_then(|()| match direct {
            None if is_careful => self.absorb_carefully(frozen),
            _ => self.try_absorb(frozen, direct, None),
        });
        attempt.or_else(|cause| self.recover(frozen, direct, cause))
    }

    /// Goes back to where the tree certainly was. Perhaps it holds what was absorbed after all.
    fn recover(&mut self, frozen: &[Frozen], direct: Option<&Direct>, cause: Error) -> Result<(), Error> {
        self.notice(&cause);
        let (reopened, voided) = self.reopen();
        let holds = last_cut(frozen, direct).is_some_and(|cut| cut.epoch <= self.epoch);
        match (reopened, direct) {
            (Ok(()), _) if holds && self.restore().is_ok() => {
                let tree = Arc::clone(&self.shared.view().tree);
                self.publish(tree, frozen, direct);
                Ok(())
            }
            (Ok(()), Some(_)) if voided && !holds => Err(Error::Failed { cause: Box::new(cause) }),
            (Ok(()) | Err(_), Some(_)) => Err(Error::Unknown { cause: Box::new(cause) }),
            // Log and memory have it.
            (Ok(()) | Err(_), None) => Err(cause),
        }
    }

    fn publish(&self, tree: Arc<Tree>, frozen: &[Frozen], direct: Option<&Direct>) {
        let is_absorbed =
            |table: &&Arc<Memory>| frozen.iter().any(|frozen| Arc::ptr_eq(&frozen.table, table));
        self.shared.publish(|view| View {
            tables: view.tables.iter().filter(|table| !is_absorbed(table)).cloned().collect(),
            position: direct.map_or(view.position, |direct| direct.position),
            ..self.with_tree(view, tree)
        });
    }

    fn with_tree(&self, view: &View, tree: Arc<Tree>) -> View {
        View { tree, reached: self.reached, reached_voids: view.voids, ..view.clone() }
    }

    /// One durable commit of all that tables hold, and of a group that the log does not. When it is the last one, the next
    /// open need not look for the log's records.
    fn try_absorb(
        &mut self,
        frozen: &[Frozen],
        direct: Option<&Direct>,
        closing: Option<Closing>,
    ) -> Result<(), Error> {
        let position = direct.map(|direct| direct.position).or(frozen.last().map(|frozen| frozen.position));
        let state = Holds {
            start: closing.and_then(|closing| closing.start).or_else(|| last_cut(frozen, direct)),
            position: position.unwrap_or_else(|| self.shared.view().position),
            closed: closing.is_some(),
        };
        let changes = Merged::all(newest_first(frozen));
        let direct_changes = direct.iter().flat_map(|direct| direct.changes.iter().cloned());
        let tree = self.commit(changes.chain(direct_changes), Some(state))?;
        if let Some(start) = state.start.filter(|_| self.stuck.is_none()) {
            self.epoch = start.epoch;
        }
        self.reached = self.reached.max(state.position.commit);
        self.publish(tree, frozen, direct);
        Ok(())
    }

    /// Nothing is stuck any more once that very table comes back: the log holds its entries again.
    fn note_carried(&mut self, frozen: &[Frozen]) {
        self.stuck.take_if(|stuck| {
            frozen.iter().any(|frozen| frozen.is_carried && Arc::ptr_eq(&frozen.table, stuck))
        });
    }

    /// The same where pages are damaged: a little at a time, without those keys that cannot be written. They are carried on.
    fn absorb_carefully(&mut self, frozen: &[Frozen]) -> Result<(), Error> {
        let Some(last) = frozen.last() else { return Ok(()) };
        // What is stuck since before comes along, as the oldest: one table takes the place of the other, so that the log
        // is not cut before it holds both again, and no old entry is written over a new one.
        let before = self.stuck.clone();
        if before.is_some() {
            // What may be written now after all, a copy that has passed its place would lack.
            self.abandon_copy();
        }
        // From the first part on.
        self.reached = self.reached.max(last.position.commit);
        let mut changes = Merged::all(newest_first(frozen).chain(before.clone())).peekable();
        let stuck = Memory::default();
        while changes.peek().is_some() {
            let tree = Arc::clone(&self.shared.view().tree);
            let mut writable = Vec::new();
            for (key, value) in changes.by_ref().take(CAREFUL_CHANGES) {
                match readable(&tree, &key) {
                    Ok(()) => writable.push((key, value)),
                    Err(Error::Damaged { .. }) => stuck.insert(0, key, value),
                    Err(other) => return Err(other),
                }
            }
            match self.commit(writable.iter().cloned(), None) {
                Ok(tree) => self.publish(tree, &[], None),
                Err(Error::Damaged { .. }) => {
                    self.reopen().0?;
                    self.restore()?;
                    writable.into_iter().for_each(|(key, value)| stuck.insert(0, key, value));
                }
                Err(other) => return Err(other),
            }
        }
        // Without entries this is the end of it.
        let is_end = stuck.is_empty() && before.is_none();
        let carried = frozen.iter().filter(|frozen| frozen.is_carried).cloned();
        let done: Vec<_> = if is_end { frozen.to_vec() } else { carried.collect() };
        let emptied: Vec<_> =
            done.iter().map(|frozen| Frozen { table: Arc::default(), ..frozen.clone() }).collect();
        if !emptied.is_empty() {
            self.try_absorb(&emptied, None, None)?;
        }
        let stuck = (!is_end).then(|| Arc::new(stuck));
        let is_gone = |table: &Arc<Memory>| {
            frozen.iter().map(|frozen| &frozen.table).chain(&before).any(|gone| Arc::ptr_eq(gone, table))
        };
        // At once: nobody is to read a state without what is stuck.
        self.shared.publish(|view| View {
            tables: view.tables.iter().filter(|table| !is_gone(table)).chain(&stuck).cloned().collect(),
            ..view.clone()
        });
        if let Some(table) = stuck {
            self.stuck = Some(Arc::clone(&table));
            self.carry = Some(Carry { table, cut: last.cut, position: last.position });
        }
        Ok(())
    }

    /// Makes changes in the tree with one durable commit, and tells what it holds then.
    fn commit(
        &mut self,
        changes: impl Iterator<Item = Changed>,
        state: Option<Holds>,
    ) -> Result<Arc<Tree>, Error> {
        let begun = Instant::now();
        let Some(database) = &self.database else { return Err(Error::Closed) };
        let (medium, before) = (&self.medium, self.live);
        let is_whole = self.stuck.is_none();
        // Half of its memory holds what redb has changed: a step must fit, or its pages are written more than once.
        let step = (self.options.page_bytes() / STEP_CACHE_PART / PAGE_BYTES).clamp(STEP_MIN, STEP_MAX);
        let (tree, live) = contain_panic(|| {
            let mut live = before;
            let mut changes = changes.peekable();
            loop {
                let mut transaction = database.begin_write()?;
                {
                    let mut table = transaction.open_table(DATA)?;
                    for (key, value) in changes.by_ref().take(step) {
                        live += set(&mut table, &key, value.as_ref().map(|value| value.as_slice()))?;
                    }
                }
                if changes.peek().is_some() {
                    transaction.set_durability(redb::Durability::None)?;
                    transaction.commit()?;
                    continue;
                }
                {
                    let mut format = transaction.open_table(FORMAT)?;
                    if let Some(Holds { start, position, closed }) = state {
                        if let Some(start) = start.filter(|_| is_whole) {
                            format.insert(EPOCH_KEY, start.epoch)?;
                            format.insert(START_KEY, start.at)?;
                        }
                        format.insert(CLOSED_KEY, u64::from(closed && is_whole))?;
                        tell_position(&mut format, position)?;
                    }
                    format.insert(LIVE_KEY, live.max(0) as u64)?;
                }
                // Saves redb's map of free space, so that an open after a crash need not rebuild it.
                transaction.set_quick_repair(true);
                transaction.commit()?;
                return Ok((open_tree(database, medium)?, live));
            }
        })?;
        (self.live, self.written) = (live, true);
        self.shared.count_checkpoint(begun.elapsed(), live);
        Ok(Arc::new(tree))
    }

    /// What follows on a table that the tree has.
    fn absorbed(&mut self, frozen: &[Frozen], direct: Option<&Direct>) {
        if let Some(copying) = &mut self.copying {
            let changes = direct.iter().flat_map(|direct| direct.changes.iter().cloned());
            let followed =
                copying.follow(Merged::all(newest_first(frozen))).and_then(|()| copying.follow(changes));
            if followed.is_err() {
                self.abandon_copy();
            }
        }
        if let Some((place, room)) = &mut self.room {
            room.reserve(&**place);
            self.tell_reserved();
            self.begin_copy();
        }
        if self.look_at.is_some() {
            self.look_for_room(true);
        }
    }

    fn tell_reserved(&self) {
        let reserved = self.room.as_ref().map_or(0, |(_, room)| room.reserved_bytes());
        self.shared.reserved_bytes.store(reserved, Ordering::Relaxed);
    }

    /// Makes the tree writable again if an earlier attempt or a read failed.
    fn revive(&mut self) -> Result<(), Error> {
        if self.database.is_none() || self.medium.read_failed() {
            self.reopen().0?;
        }
        self.restore()
    }

    /// Brings the disk to what the tree has seen of it.
    fn restore(&mut self) -> Result<(), Error> {
        Ok(self.medium.restore()?)
    }

    /// Makes the store readable again after a failed read.
    fn reread(&mut self, when: Reopen) {
        self.reread_at = None;
        let recently = self.reopened_at.is_some_and(|at| at.elapsed() < REOPEN_PAUSE);
        if self.database.is_some() && !self.medium.read_failed() {
            // It was, since somebody asked for it.
            self.tell_reopened(Ok(()));
        } else if recently && when == Reopen::InTurn {
            self.reread_at = Some(Instant::now() + REOPEN_PAUSE);
        } else if self.reopen().0.is_ok() && !self.shared.is_read_only() {
            // If this fails, the next attempt to write tries again.
            let _ = self.restore();
        }
    }

    fn tell_reopened(&self, result: Result<(), Error>) {
        let mut state = self.shared.exchange.state.lock();
        state.reopened += 1;
        state.unreadable = result.err();
        self.shared.exchange.told.notify_all();
    }

    /// Opens the database anew and publishes what it holds; writes stay in memory until `restore`. Also says whether
    /// what was not synced is certainly void.
    fn reopen(&mut self) -> (Result<(), Error>, bool) {
        self.reopened_at = Some(Instant::now());
        self.abandon_copy();
        let (lease, voided) = self.medium.lease_after_failure();
        let reopened = self.reopen_on(lease).inspect_err(|_| self.medium.mark_unreadable());
        self.tell_reopened(reopened.clone());
        (reopened, voided)
    }

    fn reopen_on(&mut self, lease: std::io::Result<Lease>) -> Result<(), Error> {
        // Its lease is revoked, so it cannot close in order; the successor repairs what it left.
        self.database = None;
        let medium = &self.medium;
        let (database, tree, begun) = contain_panic(|| {
            let database = open_database(lease?, self.options.page_bytes())?;
            let begun = Begun::read(&database)?;
            let tree = open_tree(&database, medium)?;
            Ok((database, tree, begun))
        })?;
        if begun.start.epoch < self.epoch {
            return Err(Error::Damaged { cause: "its tree has gone back to an earlier state".to_owned() });
        }
        (self.live, self.epoch) = (begun.live, begun.start.epoch);
        self.shared.set_live(self.live);
        self.reached = self.reached.max(begun.position.commit);
        self.shared.publish(|view| self.with_tree(view, Arc::new(tree)));
        self.database = Some(database);
        Ok(())
    }

    /// Begins a copy if the file is mostly gaps, or says when to see again.
    fn begin_copy(&mut self) {
        self.begin_copy_at = None;
        let (Some((place, _)), None) = (&self.room, &self.copying) else { return };
        let (pace, live) = (place.pace(), self.live.max(0) as u64);
        let worth = |used| compact::is_worth(used, self.log_bytes, live, pace.copy_over_bytes);
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
        let tree = Arc::clone(&self.shared.view().tree);
        match copying.step(&tree) {
            Ok(false) => {}
            Ok(true) => self.finish_copy(),
            Err(cause) if cause.is_full_disk() => {
                self.abandon_copy();
                self.begin_copy_at = Some(self.copy_from);
            }
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

    /// Lets the copy take the place of the file. The commit thread does the last of it, because the log goes too.
    fn finish_copy(&mut self) {
        let (Some(copying), Some((place, _))) = (self.copying.take(), &self.room) else { return };
        let position = self.shared.view().position;
        let switched = copying.finish(position, self.options).ok().and_then(|copied| {
            let mut state = self.shared.exchange.state.lock();
            state.tells.copied = Some(Box::new(copied));
            self.shared.exchange.told.notify_all();
            drop(state);
            self.shared.attend();
            let mut state = self.shared.exchange.state.lock();
            loop {
                if let Some(switched) = state.switched.take() {
                    return switched;
                }
                self.shared.exchange.asked.wait(&mut state);
            }
        });
        let Some(Switched { medium, database, live, start, log_bytes }) = switched else {
            place.discard();
            self.begin_copy_at = Some(self.copy_from);
            return;
        };
        medium.write_here_only();
        let medium = std::mem::replace(&mut self.medium, medium);
        let database = self.database.replace(database);
        (self.live, self.epoch, self.written) = (live, start.epoch, true);
        self.log_bytes = log_bytes;
        self.shared.set_live(live);
        self.retired.extend(database.map(|database| Retired::new(database, medium)));
        self.retire_at = self.retire_at();
    }

    fn retire_at(&self) -> Option<Instant> {
        let pause = self.room.as_ref().map(|(place, _)| place.pace().look_pause)?;
        (!self.retired.is_empty()).then(|| Instant::now() + pause)
    }

    /// The disk is full: only what makes room is taken from now on. A copy that took the room is given up instead.
    fn run_out(&mut self) {
        if self.copying.is_some() {
            self.abandon_copy();
            return;
        }
        if let Some((place, room)) = &mut self.room {
            room.run_out(&**place, self.live);
            self.tell_reserved();
            self.shared.set_full(true);
        }
    }

    fn notice(&mut self, cause: &Error) {
        if cause.is_full_disk() {
            self.run_out();
        }
    }

    fn look_at(&self) -> Option<Instant> {
        let look_at = self.room.as_ref().and_then(|(_, room)| room.look_at())?;
        Some(self.look_at.map_or(look_at, |later| later.max(look_at)))
    }

    /// Takes all writes again if there is room for them.
    fn look_for_room(&mut self, is_paid: bool) {
        // What the tables owe is paid while the room of the reserve is there for it.
        if self.shared.view().debt() > 0 && !is_paid {
            let pause = self.room.as_ref().map_or(RETRY_PAUSE, |(place, _)| place.pace().look_pause);
            self.look_at = Some(Instant::now() + pause);
            self.shared.exchange.state.lock().tells.wants_table = true;
            self.shared.attend();
            return;
        }
        self.look_at = None;
        if let Some((place, room)) = &mut self.room
            && room.look(&**place, self.live)
        {
            self.shared.set_full(false);
        }
        self.tell_reserved();
        self.begin_copy();
    }

    fn close(&mut self, closing: Closing) -> Result<bool, Error> {
        self.abandon_copy();
        self.retired.clear();
        let saved = if self.shared.is_read_only() { Ok(false) } else { self.save(closing) };
        if saved.is_err() || self.shared.is_read_only() {
            // Nothing that redb does when it closes is to reach the disk.
            self.medium.revoke();
        }
        // redb saves its free space here, so that the next open need not look for it.
        let closed = self.database.take().map_or(Ok(()), Opened::close);
        saved.and_then(|saved| closed.map(|()| saved))
    }

    /// Writes out what only log and memory hold. On a full disk that takes the reserve.
    fn save(&mut self, closing: Closing) -> Result<bool, Error> {
        let is_whole = |keeper: &Self| keeper.stuck.is_none() && (keeper.written || closing.written);
        let Err(mut cause) = self.try_save(closing) else { return Ok(is_whole(self)) };
        if matches!(cause, Error::Damaged { .. }) && !self.is_careful {
            self.is_careful = true;
            self.reopen().0?;
            match self.try_save(closing) {
                Ok(()) => return Ok(is_whole(self)),
                Err(other) => cause = other,
            }
        }
        if self.room.is_none() || !cause.is_full_disk() {
            return Err(cause);
        }
        self.notice(&cause);
        self.reopen().0?;
        self.try_save(closing).map(|()| is_whole(self))
    }

    fn try_save(&mut self, closing: Closing) -> Result<(), Error> {
        self.revive()?;
        let frozen: Vec<_> = self.shared.exchange.state.lock().frozen.iter().cloned().collect();
        if frozen.is_empty() && !self.written && !closing.written {
            return Ok(());
        }
        self.note_carried(&frozen);
        if self.is_careful {
            self.absorb_carefully(&frozen)?;
            self.try_absorb(&[], None, Some(closing))?;
        } else {
            self.try_absorb(&frozen, None, Some(closing))?;
        }
        let mut state = self.shared.exchange.state.lock();
        state.frozen.clear();
        state.tells.carry = self.carry.take().or(state.tells.carry.take());
        Ok(())
    }
}

/// Where the log goes on when the tree holds all of these.
fn last_cut(frozen: &[Frozen], direct: Option<&Direct>) -> Option<Start> {
    direct.map_or_else(|| frozen.last().and_then(|frozen| frozen.cut), |direct| direct.cut)
}

/// The tables of what was frozen, the newest first.
fn newest_first(frozen: &[Frozen]) -> impl Iterator<Item = Arc<Memory>> {
    frozen.iter().rev().filter(|frozen| !frozen.is_carried).map(|frozen| Arc::clone(&frozen.table))
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

/// Creates the tables of a new store; checks the version of an old one.
pub(crate) fn prepare(database: &Database, log: Option<&Log>) -> Result<(), Error> {
    match database.begin_read()?.open_table(FORMAT) {
        Ok(format) => {
            let found = format.get(FORMAT_KEY)?.map_or(0, |version| version.value());
            if found > FORMAT_VERSION {
                let newer = Newer { path: PathBuf::new(), found, known: FORMAT_VERSION, writer: None };
                return Err(Error::Newer(Box::new(newer)));
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
    {
        let mut format = transaction.open_table(FORMAT)?;
        tell_position(&mut format, position)?;
        format.insert(LIVE_KEY, live.max(0) as u64)?;
    }
    transaction.set_quick_repair(true);
    Ok(transaction.commit()?)
}

fn tell_position(format: &mut redb::Table<'_, &'static str, u64>, position: Position) -> Result<(), Error> {
    format.insert(COMMIT_KEY, position.commit)?;
    format.insert(RUN_KEY, position.run)?;
    format.insert(TIME_KEY, position.time_ms)?;
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
    /// Where the log begins that it does not hold.
    pub(crate) start: Start,
    /// There were no records.
    pub(crate) closed: bool,
    pub(crate) position: Position,
    /// Bytes of all keys and values.
    pub(crate) live: i64,
}

impl Begun {
    pub(crate) fn read(database: &Database) -> Result<Self, Error> {
        let format = database.begin_read()?.open_table(FORMAT)?;
        let number = |key: &str| Ok::<_, Error>(format.get(key)?.map(|number| number.value()));
        Ok(Self {
            start: Start {
                epoch: number(EPOCH_KEY)?.unwrap_or(EPOCH_FIRST),
                at: number(START_KEY)?.unwrap_or_default(),
            },
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

pub(crate) fn open_database(lease: Lease, cache_bytes: usize) -> Result<Opened, Error> {
    let database = redb::Builder::new().set_cache_size(cache_bytes).create_with_backend(lease)?;
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

pub(crate) fn open_tree(database: &Database, medium: &Arc<Medium>) -> Result<Tree, Error> {
    let transaction = database.begin_read()?;
    Ok(Tree { table: transaction.open_table(DATA)?, transaction, medium: Arc::clone(medium) })
}
