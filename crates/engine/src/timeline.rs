//! The time line: which moment each place of the change log was.
//!
//! What came first is told by the log's numbers, never by times. Times are for people who name a moment, and for how
//! long something is kept. They go forward, as trusted time does (`model/src/clock.rs`); only where the clock was set
//! back for good do they begin again lower, at a *turn*, which is an entry of the log with a number of its own. Between
//! two turns is a *stretch*, and a moment means its place in the last stretch that had begun by then.
//!
//! What the clock cannot be believed about is kept as well: spans of moments that were told twice, or not at all. Nobody
//! can restore a table to one of those; they are told so.
//!
//! ```text
//! turn = time:i64
//! floor = number:u64 time:i64 stream:u64
//! ```
//!
//! Promises:
//! - An entry's time is not below that of an earlier one of its stretch, but for the moment two writers need to pass each
//!   other.
//! - What is no longer in the log is noted in the batch that removes it (the floor), and never offered.
//! - A jump that the clock was in the middle of when the power went is uncertain afterwards, not forgotten.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use larder_model::clock::{Reading, Told, Unsettled};
use larder_model::{AttributeValue, Clock, Item, Number, UnixTime};
use larder_storage::{Batch, Snapshot, Store};
use parking_lot::Mutex;

use crate::layout::{self, TableId};
use crate::{Engine, Error, item_bytes, key_bytes};

/// How far below the newest change the clock must be to have been set back.
const TURN_MILLIS: i64 = 60_000;
/// How often the time is noted while there are writes.
const NOTE_MILLIS: i64 = 60_000;
/// How long it is remembered what is uncertain: longer than recovery reaches.
const UNSURE_MILLIS: i64 = 40 * 24 * 60 * 60 * 1000;
const UNSURE_MAX: usize = 1000;
/// The last moment of the year 9999.
const LABEL_MILLIS_MAX: i64 = 253_402_300_799_999;

/// How the log's numbers and moments belong together, in one snapshot.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// Where times begin again: the number, and the time.
    turns: Vec<(u64, UnixTime)>,
    unsure: Vec<(UnixTime, UnixTime)>,
}

/// The numbers of a stretch: from one, up to and without another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub from: u64,
    pub to: u64,
}

impl Timeline {
    pub(crate) fn read(snapshot: &Snapshot) -> Result<Self, Error> {
        let prefix = layout::turns();
        let end = key_bytes::after_prefix(&prefix).expect("turns do not begin with FF");
        let mut turns = Vec::new();
        for entry in snapshot.range(Bound::Included(&prefix), Bound::Excluded(&end))? {
            let (key, value) = entry?;
            let damaged = Error::Damaged("a turn of the time line cannot be read");
            let number = layout::turn_number(&key).zip(value.as_array().copied().map(i64::from_le_bytes));
            let (number, millis) = number.ok_or(damaged)?;
            turns.push((number, UnixTime::from_millis(millis)));
        }
        let Line { mut unsure, doubt, .. } = Line::read(snapshot)?;
        // It is not known yet where the clock will go on.
        unsure.extend(doubt.map(|since| (since, UnixTime::from_millis(LABEL_MILLIS_MAX))));
        Ok(Self { turns, unsure })
    }

    /// Where a moment is looked for.
    pub(crate) fn stretch(&self, moment: UnixTime) -> Stretch {
        let begun = self.turns.iter().rposition(|(_, time)| *time <= moment);
        self.stretch_from(begun.map_or(0, |at| self.turns[at].0))
    }

    /// The stretch that begins with a number.
    pub(crate) fn stretch_from(&self, from: u64) -> Stretch {
        let to = self.turns.iter().map(|(number, _)| *number).find(|number| *number > from);
        Stretch { from, to: to.unwrap_or(u64::MAX) }
    }

    /// The first number of the stretch that goes on.
    pub(crate) fn newest(&self) -> u64 {
        self.turns.last().map_or(0, |(number, _)| *number)
    }

    /// When something was at the latest: the clock may have been set back since.
    pub(crate) fn moment(&self, number: u64, time: UnixTime) -> UnixTime {
        let later = self.turns.iter().filter(|(turn, _)| *turn > number).map(|(_, time)| *time);
        later.fold(time, UnixTime::min)
    }

    /// Whether times that were taken by this moment may be of another stretch.
    pub(crate) fn turned_before(&self, moment: UnixTime) -> bool {
        self.turns.iter().any(|(_, time)| *time <= moment)
    }

    /// The moments around this one that are uncertain, if it is one of them.
    pub(crate) fn unsure(&self, moment: UnixTime) -> Option<(UnixTime, UnixTime)> {
        self.unsure.iter().find(|(from, to)| *from < moment && moment < *to).copied()
    }
}

/// What is noted of the time line as it grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Line {
    /// What the clock said last.
    time: Option<UnixTime>,
    unsure: Vec<(UnixTime, UnixTime)>,
    /// Since when the clock is doubted.
    doubt: Option<UnixTime>,
    /// Why the process that noted this did not rely on the clock.
    unsettled: Option<Unsettled>,
    /// The log's size is counted.
    counted: bool,
}

impl Line {
    fn read(snapshot: &Snapshot) -> Result<Self, Error> {
        let Some(bytes) = snapshot.get(layout::LINE)? else { return Ok(Self::default()) };
        let record = item_bytes::decode(&bytes)?;
        let time =
            |value: &AttributeValue| value.as_number().and_then(Number::to_i64).map(UnixTime::from_millis);
        let read = || {
            let Some(AttributeValue::L(unsure)) = record.get("unsure") else { return None };
            let unsure = unsure.chunks(2).map(|span| Some((time(span.first()?)?, time(span.get(1)?)?)));
            Some(Self {
                time: record.get("time").and_then(time),
                unsure: unsure.collect::<Option<_>>()?,
                doubt: record.get("doubt").and_then(time),
                unsettled: record.get("unsettled").and_then(time).map(|since| {
                    let begun = record.get("begun").and_then(time).unwrap_or(since);
                    let passed = record.get("passed").and_then(time).map_or(0, UnixTime::millis);
                    Unsettled { since, begun, passed: Duration::from_millis(passed.try_into().unwrap_or(0)) }
                }),
                counted: record.get("counted").is_some(),
            })
        };
        read().ok_or(Error::Damaged("what is noted of the time line cannot be read"))
    }

    fn write(&self) -> Vec<u8> {
        let mut record = Item::new();
        let times = self.unsure.iter().flat_map(|(from, to)| [from.millis().into(), to.millis().into()]);
        record.insert("unsure", AttributeValue::L(times.collect()));
        let unsettled = self.unsettled;
        let times = [
            ("time", self.time),
            ("doubt", self.doubt),
            ("unsettled", unsettled.map(|clock| clock.since)),
            ("begun", unsettled.map(|clock| clock.begun)),
        ];
        for (name, time) in times {
            if let Some(time) = time {
                record.insert(name, time.millis());
            }
        }
        if let Some(Unsettled { passed, .. }) = unsettled {
            record.insert("passed", i64::try_from(passed.as_millis()).unwrap_or(i64::MAX));
        }
        if self.counted {
            record.insert("counted", true);
        }
        item_bytes::encode(&record)
    }

    fn doubt_until(&mut self, from: UnixTime, to: UnixTime) {
        if from < to {
            self.unsure.push((from, to));
            let excess = self.unsure.len().saturating_sub(UNSURE_MAX);
            self.unsure.drain(..excess);
        }
    }
}

/// The time line as somebody read it who is about to change the catalog, and goes by it then.
#[derive(Debug)]
pub(crate) struct Past {
    pub line: Timeline,
    turns: u64,
    trims: u64,
}

impl Past {
    /// Whether the clock has not been set back since it was read. For whoever holds the catalog.
    pub(crate) fn has_line(&self, engine: &Engine) -> bool {
        let time = &engine.time;
        !time.turning.load(Ordering::Acquire) && time.turns.load(Ordering::Acquire) == self.turns
    }

    /// Whether no floor has risen since either.
    pub(crate) fn has_floors(&self, engine: &Engine) -> bool {
        engine.time.trims.load(Ordering::Acquire) == self.trims
    }
}

/// What the engine knows of the clock that drives it.
#[derive(Debug)]
pub(crate) struct Timekeeper {
    line: Mutex<Line>,
    /// It is not known yet whether the last process left a doubt behind that goes on.
    left: AtomicBool,
    /// The clock is doubted since before this process.
    guessed: AtomicBool,
    /// This process has noted nothing yet.
    begins: AtomicBool,
    /// The store's commits when the time was last noted.
    noted_commits: AtomicU64,
    /// A turn is on its way to disk.
    turning: AtomicBool,
    turns: AtomicU64,
    /// Times that something was removed from the log.
    trims: AtomicU64,
    /// What can be relied on; the end of time while nobody has said.
    settled_millis: AtomicI64,
    doubted: AtomicU64,
    recovered: AtomicU64,
    followed: AtomicU64,
}

impl Timekeeper {
    pub(crate) fn open(snapshot: &Snapshot) -> Result<Self, Error> {
        let line = Line::read(snapshot)?;
        Ok(Self {
            left: AtomicBool::new(true),
            guessed: AtomicBool::new(false),
            begins: AtomicBool::new(false),
            line: Mutex::new(line),
            noted_commits: AtomicU64::new(0),
            turning: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            trims: AtomicU64::new(0),
            settled_millis: AtomicI64::new(i64::MAX),
            doubted: AtomicU64::new(0),
            recovered: AtomicU64::new(0),
            followed: AtomicU64::new(0),
        })
    }

    /// Notes that a floor has risen. For whoever holds the catalog, after it was submitted.
    pub(crate) fn trimmed(&self) {
        self.trims.fetch_add(1, Ordering::AcqRel);
    }

    /// What the clock said last.
    pub(crate) fn noted(&self) -> Option<UnixTime> {
        self.line.lock().time
    }

    /// Jumps of the clock that were not followed yet, were over by themselves, and were followed.
    pub(crate) fn jumps(&self) -> [(&'static str, u64); 3] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("doubted", read(&self.doubted)),
            ("recovered", read(&self.recovered)),
            ("followed", read(&self.followed)),
        ]
    }
}

fn is_apart(a: UnixTime, b: UnixTime, millis: i64) -> bool {
    a.millis().abs_diff(b.millis()) >= millis.unsigned_abs()
}

/// The first line of a new store: it has no log yet.
pub(crate) fn begin(batch: &mut Batch) {
    let line = Line { counted: true, ..Line::default() };
    batch.put(layout::LINE.to_vec(), line.write());
}

impl Engine {
    /// Takes note of what the clock says. Whoever drives the engine does so before the first request and before each
    /// step of work; requests and work are given trusted time. Blocks until it is on disk, if anything is to be noted.
    pub fn keep_time(&self, reading: &Reading) -> Result<(), Error> {
        let time = &self.time;
        time.settled_millis.store(reading.settled.millis(), Ordering::Release);
        let mut noted = time.line.lock();
        let mut line = noted.clone();
        if time.left.swap(false, Ordering::AcqRel) {
            let is_doubted = reading.told.iter().any(|told| matches!(told, Told::Doubted { .. }));
            // What passed between the two processes is a guess.
            time.guessed.store(is_doubted, Ordering::Release);
            if !is_doubted && let Some(since) = line.doubt.take() {
                line.doubt_until(since, reading.now);
            }
        }
        for told in &reading.told {
            let counter = match told {
                Told::Doubted { since, .. } => {
                    line.doubt = Some(line.doubt.map_or(*since, |doubt| doubt.min(*since)));
                    &time.doubted
                }
                Told::Recovered { now, .. } => {
                    let since = line.doubt.take();
                    if let Some(since) = since.filter(|_| time.guessed.swap(false, Ordering::AcqRel)) {
                        line.doubt_until(since, *now);
                    }
                    &time.recovered
                }
                Told::Followed { since, now, .. } => {
                    let doubted = line.doubt.take().unwrap_or(*since);
                    line.doubt_until(doubted.min(*since), *now);
                    time.guessed.store(false, Ordering::Release);
                    &time.followed
                }
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        line.unsure.retain(|(_, to)| to.millis().saturating_add(UNSURE_MILLIS) > reading.settled.millis());

        let last = self.last_change_millis.load(Ordering::Acquire);
        let turns = reading.now.millis().saturating_add(TURN_MILLIS) < last;
        let begins = time.begins.load(Ordering::Acquire);
        let noted_long_ago = line.time.is_none_or(|noted| is_apart(noted, reading.now, NOTE_MILLIS));
        let is_due = || -> Result<bool, Error> {
            let written = || Ok::<_, Error>(self.store.activity()?.commits);
            // A clock that is not relied on yet is noted, for the next process to go on from, if it is far from where the
            // last process left it; and any when there are writes.
            Ok(line != *noted
                || (reading.unsettled.or(line.unsettled)).is_some() && noted_long_ago && line.time.is_some()
                || (begins || noted_long_ago) && written()? != time.noted_commits.load(Ordering::Relaxed))
        };
        if !turns && !is_due()? {
            return Ok(());
        }
        line.time = Some(reading.now);
        line.unsettled = reading.unsettled;
        if turns {
            self.turn(&mut line, reading.now)?;
        } else {
            let mut batch = Batch::default();
            batch.put(layout::LINE.to_vec(), line.write());
            self.store.write(batch)?;
        }
        *noted = line;
        time.begins.store(false, Ordering::Release);
        time.noted_commits.store(self.store.activity()?.commits, Ordering::Relaxed);
        Ok(())
    }

    /// Lets a clock go on from where the last process was, and takes note of it. Before the first request: nothing is
    /// forgotten, or done twice, because of what the clock says at the start.
    pub fn resume_time(&self, clock: &Clock) -> Result<(), Error> {
        let last = self.last_change_millis.load(Ordering::Acquire);
        self.time.begins.store(true, Ordering::Release);
        if last > i64::MIN {
            let last = UnixTime::from_millis(last);
            let line = self.time.line.lock().clone();
            // How far apart two processes seem to be says nothing: each may be wrong by another amount.
            let mut settled =
                line.unsettled.unwrap_or(Unsettled { since: last, begun: last, passed: Duration::ZERO });
            // A clock that went back proves nothing of the one before.
            if line.time.is_some_and(|time| clock.now() < time) {
                settled.passed = Duration::ZERO;
            }
            clock.resume(last, settled);
        }
        self.keep_time(&clock.read())
    }

    /// Begins a new stretch: the clock was set back.
    fn turn(&self, line: &mut Line, now: UnixTime) -> Result<(), Error> {
        for (_, to) in &mut line.unsure {
            *to = (*to).min(now);
        }
        line.unsure.retain(|(from, to)| from < to);
        let before = self.last_change_millis.load(Ordering::Acquire);
        let turned = self.change_catalog(|catalog, batch| {
            batch.append(layout::turns().to_vec(), now.millis().to_le_bytes().to_vec());
            batch.put(layout::LINE.to_vec(), line.write());
            // What began or ended in moments that are yet to come did so by now.
            let ahead: Vec<TableId> = catalog
                .all_tables()
                .filter(|table| {
                    table.recovery.as_ref().is_some_and(|recovery| recovery.since > now)
                        || table.history.closed_streams.iter().any(|stream| stream.closed > now)
                })
                .map(|table| table.id)
                .collect();
            for id in ahead {
                catalog.change(batch, id, |table| {
                    if let Some(recovery) = &mut table.recovery {
                        recovery.since = recovery.since.min(now);
                    }
                    for stream in &mut table.history.closed_streams {
                        stream.closed = stream.closed.min(now);
                    }
                });
            }
            self.time.turning.store(true, Ordering::Release);
            // Writers wait: whoever takes a time from here on has a number after the turn's.
            self.last_change_millis.store(now.millis(), Ordering::Release);
            Ok(((), ()))
        });
        let turned = turned.and_then(|((), ticket, ())| Ok(ticket.wait()?));
        if turned.is_err() {
            // What was submitted meanwhile is lost with it.
            self.last_change_millis.fetch_max(before, Ordering::AcqRel);
        }
        // In this order: whoever read the time line before it was on disk finds one of the two.
        self.time.turns.fetch_add(1, Ordering::AcqRel);
        self.time.turning.store(false, Ordering::Release);
        self.trim_due_millis.store(i64::MIN, Ordering::Release);
        turned
    }

    /// What is known of the past.
    pub(crate) fn past(&self) -> Result<Past, Error> {
        let turns = self.time.turns.load(Ordering::Acquire);
        let trims = self.time.trims.load(Ordering::Acquire);
        Ok(Past { line: Timeline::read(&self.store.snapshot())?, turns, trims })
    }

    /// What can be relied on of `now` for what cannot be undone.
    pub(crate) fn settled(&self, now: UnixTime) -> UnixTime {
        now.min(UnixTime::from_millis(self.time.settled_millis.load(Ordering::Acquire)))
    }

    /// Counts the log of a store from the time before it was counted.
    pub(crate) fn count_history(&self) -> Result<(), Error> {
        let mut noted = self.time.line.lock();
        if noted.counted {
            return Ok(());
        }
        let snapshot = self.store.snapshot();
        let prefix = layout::all_changes();
        let end = key_bytes::after_prefix(&prefix).expect("the log does not begin with FF");
        let mut counted = [0, 0];
        for entry in snapshot.range(Bound::Included(&prefix), Bound::Excluded(&end))? {
            let (key, value) = match entry {
                Ok(entry) => entry,
                // It cannot be counted, and nobody can read it either.
                Err(larder_storage::Error::Corrupt { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            counted = [counted[0] + 1, counted[1] + (key.len() + value.len()) as i64];
        }
        // Both are of one snapshot, so that what is added meanwhile stays counted.
        let known = history(&snapshot)?;
        let line = Line { counted: true, ..noted.clone() };
        let mut batch = Batch::default();
        batch.add(layout::history(), [counted[0] - known[0], counted[1] - known[1]]);
        batch.put(layout::LINE.to_vec(), line.write());
        self.store.write(batch)?;
        *noted = line;
        Ok(())
    }
}

/// Entries of the log, and their bytes.
pub(crate) fn history(snapshot: &Snapshot) -> Result<[i64; 2], Error> {
    match snapshot.get(&layout::history())? {
        Some(value) => Ok(larder_storage::counters(&value)?),
        None => Ok([0, 0]),
    }
}

/// What is gone from a table's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Floor {
    /// Entries below are gone.
    pub number: u64,
    /// All of them are of this moment or earlier.
    pub time: UnixTime,
    /// The newest of them that was in a stream; zero if none was.
    pub stream: u64,
}

impl Floor {
    pub(crate) const NONE: Self = Self { number: 0, time: UnixTime::from_millis(i64::MIN), stream: 0 };

    /// As it is in a snapshot.
    pub(crate) fn read(snapshot: &Snapshot, table: TableId) -> Result<Self, Error> {
        snapshot.get(&layout::floor(table))?.map_or(Ok(Self::NONE), |bytes| Self::decode(&bytes))
    }

    /// As it was last submitted.
    pub(crate) fn latest(store: &Store, table: TableId) -> Result<Self, Error> {
        store.latest(&layout::floor(table))?.map_or(Ok(Self::NONE), |bytes| Self::decode(&bytes))
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let parts = || {
            let (number, rest) = bytes.split_first_chunk::<8>()?;
            let (time, stream) = rest.split_first_chunk::<8>()?;
            Some(Self {
                number: u64::from_be_bytes(*number),
                time: UnixTime::from_millis(i64::from_be_bytes(*time)),
                stream: u64::from_be_bytes(*stream.as_array()?),
            })
        };
        parts().ok_or(Error::Damaged("what is gone from the log cannot be read"))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        [self.number.to_be_bytes(), self.time.millis().to_be_bytes(), self.stream.to_be_bytes()].concat()
    }

    /// Whether a reader of a stream who goes on from a number misses something.
    pub(crate) fn is_missed_from(&self, number: u64) -> bool {
        self.stream > 0 && number <= self.stream
    }

    /// The first moment that nothing is missing for.
    pub(crate) fn moment(&self, line: &Timeline) -> UnixTime {
        line.moment(self.number.saturating_sub(1), self.time)
    }
}
