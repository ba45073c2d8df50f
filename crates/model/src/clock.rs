//! The clock: what the system says, and how much of it a store may believe.
//!
//! [`Clock::now`] is the system's clock, and however far a test has moved it. [`Clock::trusted`] is what a store goes
//! by. While a process runs, the time of day advances as time passes; where it does not, somebody has set it, or
//! something is wrong with it, and what a store does with a time that is off cannot be undone: it deletes what has
//! expired and forgets the past. So a jump is not followed at once. Trusted time goes on as time passes, until the
//! system's clock has come back, or has stayed where it jumped to for [`PROOF`]. What cannot be undone follows a jump
//! forward as much later ([`Reading::settled`]).
//!
//! Nothing is known of the time between two processes. [`Clock::resume`] is told how far the last one came: a clock that
//! is behind it has jumped. One that is ahead of it is believed, but for [`PROOF`] not relied on: settled time goes on
//! from where the last process stopped. Of processes that are shorter, one is relied on once [`PROOF`] has passed in it
//! and those after it, and no clock was behind the one before. How far apart they began proves nothing.
//!
//! A clock that a test moves with [`Clock::advance`] is believed at once.
//!
//! Promises:
//! - Trusted time falls only where the clock was set back and stayed so, and says so ([`Told::Followed`]).
//! - A jump that does not last changes neither trusted nor settled time.
//! - Every jump of more than [`SLACK`] is told.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::UnixTime;

/// How far the time of day may be from what has passed. Clocks that are kept right are corrected by less.
pub const SLACK: Duration = Duration::from_secs(1);
/// How long a jump must last to be believed. As long as a transaction's token is remembered, so that none is forgotten
/// early.
pub const PROOF: Duration = Duration::from_secs(10 * 60);
/// A clock that is set back so soon after the start was wrong when the process started.
const START: Duration = Duration::from_secs(60 * 60);
/// Two readings that took longer than this are not of one moment.
const READING_MILLIS_MAX: i64 = 20;
/// Jumps that are remembered until somebody asks.
const TOLD_MAX: usize = 100;

/// The system's clock, and how far it has been moved. Clones move together.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<Hands>);

#[derive(Debug)]
struct Hands {
    offset_millis: AtomicI64,
    /// Where it stands still; [`RUNNING`] if it does not.
    stopped_millis: AtomicI64,
    /// Instead of the system's, in tests.
    simulated: Option<Simulated>,
    guard: Mutex<Guard>,
}

const RUNNING: i64 = i64::MIN;

impl Default for Hands {
    fn default() -> Self {
        Self {
            offset_millis: AtomicI64::new(0),
            stopped_millis: AtomicI64::new(RUNNING),
            simulated: None,
            guard: Mutex::default(),
        }
    }
}

/// What a clock says to whoever keeps a store's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Trusted time.
    pub now: UnixTime,
    /// What can be relied on for what cannot be undone; never after `now`.
    pub settled: UnixTime,
    /// Why `now` is more than what can be relied on.
    pub unsettled: Option<Unsettled>,
    /// What became of the clock since it was last read.
    pub told: Vec<Told>,
}

/// A clock that is not relied on yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// Up to when it could be.
    pub since: UnixTime,
    /// What is relied on next, once [`PROOF`] has passed: what the clock said when a process began.
    pub begun: UnixTime,
    /// The time that has passed since, in that process and those after it.
    pub passed: Duration,
}

impl From<UnixTime> for Reading {
    /// A clock that nobody doubts.
    fn from(now: UnixTime) -> Self {
        Self { now, settled: now, unsettled: None, told: Vec::new() }
    }
}

/// What became of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It jumped by so much, and is not followed yet. Up to `since` all was well.
    Doubted { since: UnixTime, by_millis: i64 },
    /// It came back by itself.
    Recovered { now: UnixTime, by_millis: i64 },
    /// It stayed. It is `now`, and what moments after `since` and before it were is not certain.
    Followed { since: UnixTime, now: UnixTime, by_millis: i64 },
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = |millis: i64| {
            format!(
                "{}{}.{:03} s",
                if millis < 0 { '-' } else { '+' },
                millis.unsigned_abs() / 1000,
                millis.unsigned_abs() % 1000
            )
        };
        match self {
            Self::Doubted { by_millis, .. } => write!(
                f,
                "the clock jumped by {}: the store goes on by the time that passes, and follows the clock if it stays there for {} minutes",
                by(*by_millis),
                PROOF.as_secs() / 60
            ),
            Self::Recovered { by_millis, .. } => {
                write!(
                    f,
                    "the clock, which had jumped by {}, is right again; nothing followed it",
                    by(*by_millis)
                )
            }
            Self::Followed { since, now, by_millis } => write!(
                f,
                "the clock has stayed where it jumped to by {}, and is followed: no table can be restored to a moment between {}Z and {}Z",
                by(*by_millis),
                since.to_label(),
                now.to_label()
            ),
        }
    }
}

impl Clock {
    pub fn system() -> Self {
        Self::default()
    }

    /// A clock whose every reading is made by hand.
    pub fn simulated(begin: UnixTime) -> (Self, Simulated) {
        let hand = Simulated(Arc::new(Mutex::new(Raw { wall: begin.millis(), elapsed: 0 })));
        let hands = Hands { simulated: Some(hand.clone()), ..Hands::default() };
        (Self(Arc::new(hands)), hand)
    }

    /// What the time of day is said to be.
    pub fn now(&self) -> UnixTime {
        let millis = match self.stopped() {
            Some(stopped) => stopped,
            None => match &self.0.simulated {
                Some(simulated) => simulated.lock().wall,
                None => system_millis(),
            },
        };
        self.moved(millis)
    }

    /// What the time of day is taken to be.
    pub fn trusted(&self) -> UnixTime {
        let millis = match self.stopped() {
            Some(stopped) => stopped,
            None => self.guard().follow(self.raw()),
        };
        self.moved(millis)
    }

    /// What time it is at least: what cannot be undone goes by it.
    pub fn settled(&self) -> UnixTime {
        let millis = match self.stopped() {
            Some(stopped) => stopped,
            None => {
                let mut guard = self.guard();
                let raw = self.raw();
                guard.follow(raw);
                guard.settled(raw.elapsed)
            }
        };
        self.moved(millis)
    }

    /// How much time has passed since some moment of this process, and how far a test has moved the clock. Setting the time
    /// of day does not change it: differences of it are what one machine can say about time by itself.
    ///
    /// ```
    /// use std::time::Duration;
    /// use larder_model::{Clock, UnixTime};
    ///
    /// let (clock, hand) = Clock::simulated(UnixTime::from_seconds(1_000_000));
    /// let begin = clock.elapsed();
    /// hand.set(UnixTime::from_seconds(2_000_000));
    /// assert_eq!(clock.elapsed(), begin);
    /// hand.pass(Duration::from_secs(7));
    /// clock.advance(Duration::from_secs(3));
    /// assert_eq!(clock.elapsed() - begin, Duration::from_secs(10));
    /// ```
    pub fn elapsed(&self) -> Duration {
        let millis = self.moved(self.raw().elapsed).millis();
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// Trusted time, and how certain it is.
    pub fn read(&self) -> Reading {
        if let Some(stopped) = self.stopped() {
            return self.moved(stopped).into();
        }
        let mut guard = self.guard();
        let raw = self.raw();
        let now = guard.follow(raw);
        let settled = guard.settled(raw.elapsed);
        let unsettled = guard.opened.filter(|opened| !opened.settled).map(|opened| {
            let passed = u64::try_from(opened.passed_by(raw.elapsed)).unwrap_or(0);
            Unsettled {
                since: self.moved(opened.after),
                begun: self.moved(opened.begun),
                passed: Duration::from_millis(passed),
            }
        });
        let told = std::mem::take(&mut guard.told);
        drop(guard);
        let moved = |time: UnixTime| self.moved(time.millis());
        let told = told.into_iter().map(|told| match told {
            Told::Doubted { since, by_millis } => Told::Doubted { since: moved(since), by_millis },
            Told::Recovered { now, by_millis } => Told::Recovered { now: moved(now), by_millis },
            Told::Followed { since, now, by_millis } => {
                Told::Followed { since: moved(since), now: moved(now), by_millis }
            }
        });
        Reading { now: self.moved(now), settled: self.moved(settled), unsettled, told: told.collect() }
    }

    /// Goes on from what a store was told last, before this process, and from what of that could be relied on.
    pub fn resume(&self, last: UnixTime, settled: Unsettled) {
        let offset = self.0.offset_millis.load(Ordering::Relaxed);
        let unmoved = |time: UnixTime| time.millis().saturating_sub(offset);
        let Unsettled { since, begun, passed } = settled;
        let opened = Opened {
            after: unmoved(since.min(last)),
            begun: unmoved(begun),
            passed: millis(passed),
            ..Opened::default()
        };
        self.guard().resume(unmoved(last), opened, self.raw());
    }

    /// From now on only [`Clock::advance`] moves it.
    pub fn stop(&self) {
        self.0.stopped_millis.store(self.raw().wall, Ordering::Relaxed);
    }

    pub fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        // A clock moved past the end of time stays there.
        let _ = self
            .0
            .offset_millis
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |offset| Some(offset.saturating_add(millis)));
    }

    fn stopped(&self) -> Option<i64> {
        Some(self.0.stopped_millis.load(Ordering::Relaxed)).filter(|stopped| *stopped != RUNNING)
    }

    fn moved(&self, millis: i64) -> UnixTime {
        UnixTime::from_millis(millis.saturating_add(self.0.offset_millis.load(Ordering::Relaxed)))
    }

    fn raw(&self) -> Raw {
        match &self.0.simulated {
            Some(simulated) => *simulated.lock(),
            None => system_raw(),
        }
    }

    fn guard(&self) -> MutexGuard<'_, Guard> {
        self.0.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time of day, and the time that has passed since some moment: milliseconds.
#[derive(Clone, Copy, Debug)]
struct Raw {
    wall: i64,
    elapsed: i64,
}

/// Moves a simulated clock.
#[derive(Clone, Debug)]
pub struct Simulated(Arc<Mutex<Raw>>);

impl Simulated {
    /// Time passes.
    pub fn pass(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        let mut raw = self.lock();
        raw.wall = raw.wall.saturating_add(millis);
        raw.elapsed = raw.elapsed.saturating_add(millis);
    }

    /// Somebody sets the time of day.
    pub fn set(&self, wall: UnixTime) {
        self.lock().wall = wall.millis();
    }

    fn lock(&self) -> MutexGuard<'_, Raw> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Trusted time. All in milliseconds.
#[derive(Debug, Default)]
struct Guard {
    last: Option<Last>,
    doubt: Option<Doubt>,
    opened: Option<Opened>,
    told: Vec<Told>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    time: i64,
    elapsed: i64,
}

#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// How far the clock is from trusted time.
    by: i64,
    /// What was seen before the jump.
    since: Last,
    /// When it was noticed.
    elapsed: i64,
}

/// A process that begins after another, or a jump that was followed.
#[derive(Clone, Copy, Debug, Default)]
struct Opened {
    /// The time before it.
    after: i64,
    /// The time at it.
    time: i64,
    elapsed: i64,
    settled: bool,
    /// The time at the first that is not relied on, and what had passed since then in processes before this.
    begun: i64,
    passed: i64,
}

impl Opened {
    fn passed_by(self, elapsed: i64) -> i64 {
        self.passed.saturating_add((elapsed - self.elapsed).max(0))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Guard {
    fn follow(&mut self, raw: Raw) -> i64 {
        let Some(last) = self.last else {
            self.last = Some(Last { time: raw.wall, elapsed: raw.elapsed });
            return raw.wall;
        };
        let expected = last.time.saturating_add((raw.elapsed - last.elapsed).max(0));
        let by = raw.wall.saturating_sub(expected);
        let is_near = |by: i64| by.abs() <= millis(SLACK);
        let time = if is_near(by) {
            if let Some(doubt) = self.doubt.take() {
                self.tell(Told::Recovered { now: UnixTime::from_millis(raw.wall), by_millis: doubt.by });
            }
            raw.wall.max(last.time)
        } else {
            match self.doubt {
                Some(doubt) if is_near(by.saturating_sub(doubt.by)) => {
                    if raw.elapsed - doubt.elapsed >= millis(PROOF) {
                        self.believe(doubt, raw)
                    } else {
                        expected
                    }
                }
                Some(_) | None => {
                    self.doubt = Some(Doubt { by, since: last, elapsed: raw.elapsed });
                    let since = last.time.min(self.wrong_since(by, last.elapsed));
                    self.tell(Told::Doubted { since: UnixTime::from_millis(since), by_millis: by });
                    expected
                }
            }
        };
        self.last = Some(Last { time, elapsed: raw.elapsed });
        time
    }

    /// A clock that is set back so soon after a start was already wrong then.
    fn wrong_since(&self, by: i64, elapsed: i64) -> i64 {
        match self.opened {
            Some(opened) if by < 0 && elapsed - opened.elapsed < millis(START) => opened.after,
            Some(_) | None => i64::MAX,
        }
    }

    fn believe(&mut self, doubt: Doubt, raw: Raw) -> i64 {
        let in_doubt = raw.elapsed - doubt.since.elapsed;
        let before = doubt.since.time.min(raw.wall.saturating_sub(in_doubt));
        let since = before.min(self.wrong_since(doubt.by, doubt.since.elapsed));
        // What was written meanwhile lives as long as it should: certain time takes as long again to follow.
        let after = doubt.since.time.saturating_add(in_doubt);
        let (time, elapsed) = (raw.wall, raw.elapsed);
        self.opened =
            (doubt.by > 0).then_some(Opened { after, time, elapsed, begun: time, ..Opened::default() });
        self.doubt = None;
        self.tell(Told::Followed {
            since: UnixTime::from_millis(since),
            now: UnixTime::from_millis(raw.wall),
            by_millis: doubt.by,
        });
        raw.wall
    }

    fn settled(&mut self, elapsed: i64) -> i64 {
        let time = self.last.map_or(i64::MIN, |last| last.time);
        match &mut self.opened {
            Some(opened) if !opened.settled => {
                let is_proof = |passed: i64| passed >= millis(PROOF) && self.doubt.is_none();
                opened.settled = is_proof(elapsed - opened.elapsed);
                if opened.settled {
                    return time;
                }
                if is_proof(opened.passed_by(elapsed)) {
                    // An earlier process is proved, and this one is next.
                    opened.after = opened.begun.max(opened.after.saturating_add(opened.passed));
                    (opened.begun, opened.passed) = (opened.time, 0);
                }
                time.min(opened.after.saturating_add(opened.passed_by(elapsed)))
            }
            Some(_) | None => time,
        }
    }

    fn resume(&mut self, last: i64, opened: Opened, raw: Raw) {
        // A clock that is behind jumped while nobody looked.
        let behind = raw.wall.saturating_add(millis(SLACK)) < last;
        let time = if behind { last } else { raw.wall };
        self.last = Some(Last { time, elapsed: raw.elapsed });
        let (begun, passed) =
            if behind || opened.passed == 0 { (time, 0) } else { (opened.begun, opened.passed) };
        self.opened = Some(Opened { time, elapsed: raw.elapsed, begun, passed, ..opened });
    }

    fn tell(&mut self, told: Told) {
        if self.told.len() < TOLD_MAX {
            self.told.push(told);
        }
    }
}

/// Both clocks, of one moment.
fn system_raw() -> Raw {
    const TRIES: u32 = 10;
    let mut before = elapsed_millis();
    for _ in 0..TRIES {
        let wall = system_millis();
        let after = elapsed_millis();
        if after - before <= READING_MILLIS_MAX {
            return Raw { wall, elapsed: after };
        }
        before = after;
    }
    Raw { wall: system_millis(), elapsed: elapsed_millis() }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
fn system_millis() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

/// The time that has passed, that of a machine asleep included.
#[cfg(target_os = "linux")]
fn elapsed_millis() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec.saturating_mul(1000).saturating_add(time.tv_nsec / 1_000_000)
}

/// The time that has passed; where a machine asleep does not count it, its clock seems to jump when it wakes.
#[cfg(not(target_os = "linux"))]
fn elapsed_millis() -> i64 {
    static BEGUN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    millis(BEGUN.get_or_init(std::time::Instant::now).elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: UnixTime = UnixTime::from_seconds(1_800_000_000);
    const HOUR: i64 = 60 * 60 * 1000;
    const DAY: i64 = 24 * HOUR;

    fn at(millis: i64) -> UnixTime {
        UnixTime::from_millis(BEGIN.millis() + millis)
    }

    fn from(since: UnixTime, begun: UnixTime, passed: i64) -> Unsettled {
        Unsettled { since, begun, passed: Duration::from_millis(passed.unsigned_abs()) }
    }

    fn pass(hand: &Simulated, millis: i64) {
        hand.pass(Duration::from_millis(millis.unsigned_abs()));
    }

    #[test]
    fn a_stopped_clock_moves_when_it_is_told_to() {
        let clock = Clock::system();
        clock.stop();
        let before = clock.now();
        clock.clone().advance(Duration::from_secs(5));
        assert_eq!(clock.now(), before.plus(Duration::from_secs(5)));
        assert_eq!((clock.trusted(), clock.read()), (clock.now(), clock.now().into()));
    }

    #[test]
    fn a_clock_that_is_moved_on_purpose_is_believed_at_once() {
        let (clock, hand) = Clock::simulated(BEGIN);
        assert_eq!(clock.trusted(), BEGIN);
        clock.advance(Duration::from_secs(86_400));
        pass(&hand, 1000);
        assert_eq!(clock.read(), at(DAY + 1000).into());
    }

    #[test]
    fn a_jump_that_does_not_last_changes_nothing() {
        for by in [2 * HOUR, -2 * HOUR, 40 * DAY, -40 * DAY, 1500, -1500] {
            let (clock, hand) = Clock::simulated(BEGIN);
            assert_eq!(clock.trusted(), BEGIN);
            pass(&hand, 1000);
            hand.set(at(1000 + by));
            assert_eq!(clock.trusted(), at(1000));
            pass(&hand, 3000);
            assert_eq!(clock.now(), at(4000 + by));
            let reading = clock.read();
            assert_eq!((reading.now, reading.settled), (at(4000), at(4000)));
            assert_eq!(reading.told, [Told::Doubted { since: BEGIN, by_millis: by }]);
            hand.set(at(4000));
            let reading = clock.read();
            assert_eq!(reading.told, [Told::Recovered { now: at(4000), by_millis: by }]);
            pass(&hand, 1);
            assert_eq!(clock.read(), at(4001).into());
        }
    }

    #[test]
    fn a_jump_that_lasts_is_followed_and_says_what_is_uncertain() {
        for by in [2 * HOUR, -2 * HOUR, 40 * DAY, -40 * DAY] {
            let (clock, hand) = Clock::simulated(BEGIN);
            assert_eq!(clock.trusted(), BEGIN);
            hand.set(at(by));
            let proof = millis(PROOF);
            for minute in 0..proof / 60_000 {
                assert_eq!(clock.trusted(), at(minute * 60_000));
                pass(&hand, 60_000);
            }
            let reading = clock.read();
            let settled = if by < 0 { at(by + proof) } else { at(proof) };
            assert_eq!((reading.now, reading.settled), (at(by + proof), settled));
            let since = if by < 0 { at(by) } else { BEGIN };
            let expected = [
                Told::Doubted { since: BEGIN, by_millis: by },
                Told::Followed { since, now: at(by + proof), by_millis: by },
            ];
            assert_eq!(reading.told, expected);
            pass(&hand, proof);
            assert_eq!(clock.read(), at(by + 2 * proof).into());
        }
    }

    #[test]
    fn a_jump_must_last_in_one_place() {
        let (clock, hand) = Clock::simulated(BEGIN);
        assert_eq!(clock.trusted(), BEGIN);
        let mut passed = 0;
        for by in [HOUR, 2 * HOUR, 3 * HOUR] {
            hand.set(at(passed + by));
            assert_eq!(clock.trusted(), at(passed));
            pass(&hand, millis(PROOF) - 1);
            passed += millis(PROOF) - 1;
            assert_eq!(clock.trusted(), at(passed));
        }
    }

    #[test]
    fn small_corrections_are_followed_and_time_does_not_fall() {
        let (clock, hand) = Clock::simulated(BEGIN);
        for (by, expected) in [(900, 900), (0, 900), (500, 900), (950, 950)] {
            hand.set(at(by));
            assert_eq!(clock.read(), at(expected).into());
        }
    }

    #[test]
    fn the_time_between_two_processes_is_believed_and_not_relied_on_at_once() {
        let (clock, hand) = Clock::simulated(at(5 * HOUR));
        clock.resume(BEGIN, from(BEGIN, BEGIN, 0));
        let reading = clock.read();
        assert_eq!((reading.now, reading.settled), (at(5 * HOUR), BEGIN));
        pass(&hand, 60_000);
        assert_eq!(clock.read().settled, at(60_000));
        pass(&hand, millis(PROOF));
        let reading = clock.read();
        assert_eq!((reading.settled, reading.told), (reading.now, Vec::new()));
    }

    #[test]
    fn what_passes_in_a_process_proves_the_clock_of_those_before_it() {
        let (clock, hand) = Clock::simulated(at(5 * HOUR));
        let proof = millis(PROOF);
        clock.resume(at(HOUR), from(BEGIN, at(HOUR), proof - 60_000));
        assert_eq!(clock.read().settled, at(proof - 60_000));
        pass(&hand, 60_000);
        let reading = clock.read();
        assert_eq!(reading.settled, at(HOUR + 60_000));
        assert_eq!(reading.unsettled, Some(from(at(HOUR), at(5 * HOUR), 60_000)));
        pass(&hand, proof - 60_000);
        assert_eq!(clock.read(), at(5 * HOUR + proof).into());
    }

    #[test]
    fn a_clock_that_is_behind_proves_nothing_of_those_before_it() {
        let (clock, hand) = Clock::simulated(at(-HOUR));
        clock.resume(at(HOUR), from(BEGIN, at(HOUR), millis(PROOF)));
        assert_eq!(clock.read().unsettled, Some(from(BEGIN, at(HOUR), 0)));
        pass(&hand, 1000);
        assert_eq!(clock.read().settled, at(1000));
    }

    #[test]
    fn a_process_that_starts_with_a_clock_ahead_makes_uncertain_all_since_the_one_before() {
        let (clock, hand) = Clock::simulated(at(40 * DAY));
        clock.resume(BEGIN, from(BEGIN, BEGIN, 0));
        pass(&hand, 3000);
        assert_eq!(clock.read().settled, at(3000));
        hand.set(at(5000));
        let told = clock.read().told;
        assert!(matches!(told[..], [Told::Doubted { since: BEGIN, .. }]), "{told:?}");
        pass(&hand, millis(PROOF));
        let reading = clock.read();
        let now = at(5000 + millis(PROOF));
        assert_eq!((reading.now, reading.settled), (now, now));
        assert!(matches!(reading.told[..], [Told::Followed { since: BEGIN, .. }]), "{:?}", reading.told);
    }

    #[test]
    fn a_process_that_starts_with_a_clock_behind_waits_for_it() {
        let (clock, hand) = Clock::simulated(at(-2 * HOUR));
        clock.resume(BEGIN, from(BEGIN, BEGIN, 0));
        assert_eq!(clock.trusted(), BEGIN);
        pass(&hand, 3000);
        hand.set(at(3500));
        let reading = clock.read();
        assert_eq!((reading.now, reading.settled), (at(3500), at(3000)));
    }
}
