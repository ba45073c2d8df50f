//! Continuous archiving: every committed group is written to a directory elsewhere, so that the store can be rebuilt to
//! any moment after its machine is lost.
//!
//! The directory is a repository of backups (`backup`). A *base* in it is a backup that an archive made; `segments/` has
//! what was committed since, in order. As long as no commit is missing, that is one *line*: any state of it is a base and
//! the groups after it ([`rebuild`]). When the archive cannot go on from where it was (the store was written to without
//! it, was put back to an earlier state, or committed more than could be kept while the directory was failing), a new line
//! begins with a base of its own.
//!
//! A thread does the work; commits never wait for it. It writes within a twentieth of a second and syncs within
//! [`Options::sync_every`]; what is not synced when the machine is lost is lost. If the directory fails or is full the
//! store goes on, [`Status::failing`] tells, and it is tried again.
//!
//! Promises:
//! - What [`Status::archived`] names, and everything committed before, can be rebuilt from the directory alone.
//! - A state is rebuilt as it was after some commit, never between two, and to a moment with every write that was
//!   answered before it and none that was made after.
//! - Restarts leave no gap: a store that was closed, or killed and found as the archive knows it, goes on in its line.

mod rebuild;
mod segment;

pub use rebuild::{Rebuilt, Until, is_in, rebuild, verify};

use crate::backup::{Base, Breaks, Folder, Held, Made, Manifest, Progress, Repository, Request};
use crate::commit::Shared;
use crate::feed::{Clock, Committed, Feed, Taken};
use crate::{Error, Key, Position, Snapshot, version};
use arc_swap::Guard;
use parking_lot::Mutex;
use segment::{Next, Reader, Segment};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub(crate) const SEGMENTS: &str = "segments";
const LOCK: &str = "archive.lock";
/// How long groups are gathered before they are written.
const LINGER: Duration = Duration::from_millis(50);
const IDLE: Duration = Duration::from_secs(600);
/// The shortest pause before another attempt.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// How long closing a store waits for its archive.
const CLOSE_WAIT: Duration = Duration::from_secs(30);
const DAY_MS: u64 = 24 * 3_600_000;

/// How a store is archived.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to. A directory on another disk, or on one that is copied off the machine.
    pub dir: PathBuf,
    /// Encrypts the archive; give the store's.
    pub key: Option<Key>,
    pub sync_every: Duration,
    /// A segment that is larger, or older, is followed by the next.
    pub segment_bytes: u64,
    pub segment_age: Duration,
    /// A new base is made after so long, or once so much was archived since the last.
    pub base_every_ms: u64,
    pub base_after_bytes: u64,
    /// The longest pause before another attempt while the directory fails.
    pub retry_after: Duration,
    /// For how long any moment can be gone back to; what is older is removed with the next base. None keeps all.
    pub keep_ms: Option<u64>,
    /// Makes it fail; for tests.
    pub breaks: Breaks,
}

impl Options {
    pub fn new(dir: PathBuf, key: Option<Key>) -> Self {
        Self {
            dir,
            key,
            sync_every: Duration::from_millis(500),
            segment_bytes: 64 << 20,
            segment_age: Duration::from_secs(600),
            base_every_ms: DAY_MS,
            base_after_bytes: 1 << 30,
            retry_after: Duration::from_secs(30),
            keep_ms: Some(35 * DAY_MS),
            breaks: Breaks::default(),
        }
    }
}

/// How an archive is doing.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The last commit that is safe in the directory; none before the first base is.
    pub archived: Option<Position>,
    /// How long the oldest commit that is not safe there has been waiting.
    pub lag: Duration,
    /// What it was told by the disk at the last attempt, while it does not get on.
    pub failing: Option<String>,
    /// Groups and bytes that it wrote.
    pub groups: u64,
    pub bytes: u64,
    pub bases: u64,
    /// Times that it could not go on from where it was.
    pub gaps: u64,
    /// Values in the last base that could not be read and are missing in it.
    pub skipped: u64,
}

/// A store's archive, at work.
#[derive(Debug)]
pub(crate) struct Archive {
    state: Arc<Mutex<State>>,
    feed: Arc<Feed>,
    thread: JoinHandle<()>,
}

/// What the thread tells.
#[derive(Debug, Default)]
struct State {
    status: Status,
    /// The time of the oldest commit that was taken and is not safe.
    waiting_since_ms: Option<u64>,
}

/// A directory that is ready to be archived to.
pub(crate) struct Ready {
    repository: Repository,
    segments: Folder,
    lock: Held,
    options: Options,
    found: Found,
}

impl Ready {
    pub(crate) fn new(options: Options) -> Result<Self, Error> {
        let repository = Repository::open_or_create_with(&options.dir, options.key, options.breaks.clone())?;
        let segments = repository.folder().child(SEGMENTS);
        segments.create()?;
        let lock = repository.folder().lock(LOCK)?;
        let found = Found::in_folder(&repository, &segments)?;
        Ok(Self { repository, segments, lock, options, found })
    }
}

impl Archive {
    /// `before` is where the store was before the feed began.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        before: Position,
        feed: Arc<Feed>,
        settled: Clock,
        ready: Ready,
    ) -> Result<Self, Error> {
        let Ready { repository, segments, lock, options, found } = ready;
        let state = Arc::new(Mutex::new(State::default()));
        let archiver = Archiver {
            shared: Arc::clone(shared),
            feed: Arc::clone(&feed),
            repository,
            segments,
            options,
            state: Arc::clone(&state),
            settled,
            _lock: lock,
            line: None,
            last_line: found.last_line,
            base: None,
            base_error: None,
        };
        let thread = thread::Builder::new()
            .name("larder-archive".to_owned())
            .spawn(move || archiver.run(found.end, before))?;
        Ok(Self { state, feed, thread })
    }

    pub(crate) fn status(&self) -> Status {
        let state = self.state.lock();
        let since = state.waiting_since_ms.into_iter().chain(self.feed.waiting_since_ms()).min();
        let lag = since.map_or(0, |since| self.feed.now_ms().saturating_sub(since));
        Status { lag: Duration::from_millis(lag), ..state.status.clone() }
    }

    /// Waits until what was committed is archived, or does not get on. The feed is closed.
    pub(crate) fn finish(self) {
        let until = Instant::now() + CLOSE_WAIT;
        while !self.thread.is_finished() && Instant::now() < until {
            thread::park_timeout(Duration::from_millis(5));
        }
        if self.thread.is_finished() {
            // A panic of it was told by the runtime; the store is closed all the same.
            let _ = self.thread.join();
        }
    }
}

/// What the segments in a directory say of themselves.
pub(crate) fn told(dir: &Path) -> Result<Vec<version::Found>, Error> {
    segment::told(&Folder::new(dir, Breaks::default()).child(SEGMENTS))
}

/// What an earlier run left.
struct Found {
    last_line: u64,
    /// Where the last line ends, if it has a base and can go on.
    end: Option<Line>,
}

impl Found {
    fn in_folder(repository: &Repository, segments: &Folder) -> Result<Self, Error> {
        let bases: Vec<Manifest> = repository.list()?.into_iter().flatten().collect();
        let lines = bases.iter().filter_map(|manifest| manifest.base.map(|base| (base.line, manifest)));
        let named = segment::named(segments)?;
        let last_line = lines
            .clone()
            .map(|(line, _)| line)
            .chain(named.iter().map(|named| named.line))
            .max()
            .unwrap_or_default();
        let newest =
            lines.filter(|(line, _)| *line == last_line).max_by_key(|(_, base)| base.position.commit);
        let Some((_, newest)) = newest else { return Ok(Self { last_line, end: None }) };
        let mut end = newest.position;
        let own: Vec<_> = named.iter().filter(|named| named.line == last_line).collect();
        let mut bytes = 0;
        for named in &own {
            bytes += segments.bytes(&named.name)?.unwrap_or_default();
        }
        // The last that was begun goes on from where those before it end.
        for named in own.iter().rev() {
            let mut reader = match Reader::open(segments, &named.name, repository.vault()) {
                Ok(Some(reader)) => reader,
                Ok(None) => continue,
                // What cannot be read ends the line; a new one begins, and the old one stays as it is.
                Err(_) => return Ok(Self { last_line, end: None }),
            };
            end = reader.after;
            loop {
                match reader.next() {
                    Ok(Next::Frame(frame)) => end = frame.last,
                    Ok(Next::End) => break,
                    Ok(Next::Torn) => {
                        segments.cut(&named.name, reader.at)?;
                        break;
                    }
                    Err(_) => return Ok(Self { last_line, end: None }),
                }
            }
            break;
        }
        let line = Line {
            number: last_line,
            start: end,
            safe: end,
            written: end,
            pending: VecDeque::new(),
            unwritten: 0,
            segment: None,
            segment_begun: Instant::now(),
            sync_at: None,
            has_base: true,
            based_ms: newest.made_ms,
            bytes_since_base: bytes,
        };
        Ok(Self { last_line, end: Some(line) })
    }
}

/// Commits without a gap, as far as they are archived.
#[derive(Debug)]
struct Line {
    number: u64,
    /// Groups up to here are in it already, or in its base.
    start: Position,
    safe: Position,
    written: Position,
    /// Groups that are not safe yet, oldest first; of those the last so many are not written either.
    pending: VecDeque<Committed>,
    unwritten: usize,
    segment: Option<Segment>,
    segment_begun: Instant,
    sync_at: Option<Instant>,
    has_base: bool,
    /// When the last base was made or begun.
    based_ms: u64,
    bytes_since_base: u64,
}

struct Archiver {
    shared: Arc<Shared>,
    feed: Arc<Feed>,
    repository: Repository,
    segments: Folder,
    options: Options,
    state: Arc<Mutex<State>>,
    /// What time it is at least, for what cannot be undone.
    settled: Clock,
    _lock: Held,
    line: Option<Line>,
    last_line: u64,
    base: Option<Making>,
    /// What came of the last base, and when the next is to be tried.
    base_error: Option<(String, Instant)>,
}

/// A base that is being made.
struct Making {
    line: u64,
    thread: JoinHandle<Result<Made, Error>>,
}

impl Archiver {
    fn run(mut self, end: Option<Line>, before: Position) {
        match end.filter(|line| line.safe.is(&before)) {
            Some(line) => {
                self.state.lock().status.archived = Some(line.safe);
                self.line = Some(line);
            }
            None => self.state.lock().status.gaps += u64::from(self.last_line > 0),
        }
        let first = RETRY_FIRST.min(self.options.retry_after);
        let mut pause = first;
        loop {
            match self.round() {
                Ok(Round::Closed) => break,
                Ok(Round::Done) => {
                    pause = first;
                    self.state.lock().status.failing =
                        self.base_error.as_ref().map(|(error, _)| error.clone());
                }
                Err(error) => {
                    self.give_up_segment();
                    self.state.lock().status.failing = Some(error.to_string());
                    if self.feed.wait_closed(Instant::now() + pause) {
                        // One more attempt for what is left.
                        while matches!(self.round(), Ok(Round::Done)) {}
                        break;
                    }
                    pause = (pause * 2).min(self.options.retry_after);
                }
            }
        }
        if let Some(making) = self.base.take() {
            // The store is closed, so it ends soon.
            let _ = making.thread.join();
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot(Guard::into_inner(self.shared.view()))
    }

    fn round(&mut self) -> Result<Round, Error> {
        self.take_base();
        if self.line.is_none() {
            self.begin_line();
        }
        self.begin_base_if_due();
        self.write()?;
        let line = self.line.as_ref();
        // A base that is being made is looked after; otherwise there is nothing to do until something comes.
        let idle = Instant::now() + if self.base.is_some() { LINGER } else { IDLE };
        let retry = self.base_error.as_ref().map(|(_, retry_at)| *retry_at);
        let until = line.and_then(|line| line.sync_at).into_iter().chain(retry).fold(idle, Instant::min);
        let closed = match self.feed.take(until, LINGER) {
            Taken::Groups(groups) => {
                self.accept(groups);
                self.write()?;
                false
            }
            Taken::Nothing => false,
            Taken::Closed => true,
        };
        let due = |line: &Line| line.sync_at.is_some_and(|at| at <= Instant::now());
        if closed {
            self.close()?;
            return Ok(Round::Closed);
        }
        if self.line.as_ref().is_some_and(due) {
            self.sync()?;
        }
        Ok(Round::Done)
    }

    /// Begins anew with the store as it is.
    fn begin_line(&mut self) {
        let now_ms = self.feed.now_ms();
        let snapshot = self.snapshot();
        let position = snapshot.position();
        self.last_line += 1;
        self.line = Some(Line {
            number: self.last_line,
            start: position,
            safe: position,
            written: position,
            pending: VecDeque::new(),
            unwritten: 0,
            segment: None,
            segment_begun: Instant::now(),
            sync_at: None,
            has_base: false,
            based_ms: now_ms,
            bytes_since_base: 0,
        });
        {
            let mut state = self.state.lock();
            state.status.archived = None;
            state.waiting_since_ms.get_or_insert(now_ms);
        }
        self.begin_base(snapshot, now_ms, now_ms.max(position.time_ms));
    }

    fn begin_base(&mut self, snapshot: Snapshot, now_ms: u64, from_ms: u64) {
        let line = self.last_line;
        let repository = self.repository.clone();
        let request = Request { now_ms, skip_damage: true, base: Some(Base { line, from_ms }) };
        let make = move || repository.back_up(&snapshot, request, &mut |_: Progress| ());
        // Without a thread for it there is none, and it is tried again with the next round.
        let thread = thread::Builder::new().name("larder-base".to_owned()).spawn(make);
        self.base = thread.ok().map(|thread| Making { line, thread });
        self.base_error = None;
    }

    fn begin_base_if_due(&mut self) {
        let now_ms = self.feed.now_ms();
        let Some(line) = &mut self.line else { return };
        let old =
            now_ms.saturating_sub(line.based_ms) >= self.options.base_every_ms && line.bytes_since_base > 0;
        let due = match &self.base_error {
            Some((_, retry_at)) => *retry_at <= Instant::now(),
            None => !line.has_base || old || line.bytes_since_base >= self.options.base_after_bytes,
        };
        if self.base.is_some() || !due {
            return;
        }
        (line.based_ms, line.bytes_since_base) = (now_ms, 0);
        let has_base = line.has_base;
        let snapshot = self.snapshot();
        let time_ms = snapshot.position().time_ms;
        // Before the first there may have been commits without a time.
        self.begin_base(snapshot, now_ms, if has_base { time_ms } else { time_ms.max(now_ms) });
    }

    /// Takes note of a base that is made.
    fn take_base(&mut self) {
        let Some(making) = self.base.take_if(|making| making.thread.is_finished()) else { return };
        let made = making.thread.join().unwrap_or_else(|panic| Err(Error::panicked(&*panic)));
        let done = made.and_then(|made| {
            let line = self.line.as_mut().filter(|line| line.number == making.line);
            let mut state = self.state.lock();
            state.status.bases += 1;
            state.status.skipped = made.manifest.skipped.len() as u64;
            if let Some(line) = line {
                line.has_base = true;
                state.status.archived = Some(line.safe);
                state.waiting_since_ms = line.pending.front().map(|group| group.position.time_ms);
            }
            drop(state);
            // One that lacks what was damaged takes the place of none.
            if made.manifest.skipped.is_empty() { self.prune((self.settled)()) } else { Ok(()) }
        });
        self.base_error =
            done.err().map(|error| (error.to_string(), Instant::now() + self.options.retry_after));
    }

    /// Takes groups in. One that does not follow the last ends the line.
    fn accept(&mut self, groups: Vec<Committed>) {
        for group in groups {
            let Some(line) = &mut self.line else { return };
            let last = line.pending.back().map_or(line.written, |group| group.position);
            let position = group.position;
            if position.commit <= line.start.commit && position.run == line.start.run {
                continue;
            }
            if position.commit != last.commit + 1 {
                // What is in it stays of use. The next round begins another, with all that is committed by then.
                let _ = self.write().and_then(|()| self.sync());
                self.state.lock().status.gaps += 1;
                self.line = None;
                return;
            }
            line.pending.push_back(group);
            line.unwritten += 1;
        }
        let line = self.line.as_ref();
        let oldest = line.filter(|line| line.has_base).and_then(|line| line.pending.front());
        if let Some(oldest) = oldest {
            self.state.lock().waiting_since_ms = Some(oldest.position.time_ms);
        }
    }

    fn write(&mut self) -> Result<(), Error> {
        let Some(line) = self.line.as_mut().filter(|line| line.unwritten > 0) else { return Ok(()) };
        let before = match &line.segment {
            Some(segment) => segment.bytes,
            None => 0,
        };
        let segment = match &mut line.segment {
            Some(segment) => segment,
            none => {
                line.segment_begun = Instant::now();
                none.insert(Segment::begin(
                    &self.segments,
                    self.repository.vault(),
                    line.number,
                    line.written,
                )?)
            }
        };
        segment.append(line.pending.iter().skip(line.pending.len() - line.unwritten))?;
        let bytes = segment.bytes - before;
        line.bytes_since_base += bytes;
        if let Some(last) = line.pending.back() {
            line.written = last.position;
        }
        let mut state = self.state.lock();
        state.status.groups += std::mem::take(&mut line.unwritten) as u64;
        state.status.bytes += bytes;
        line.sync_at.get_or_insert_with(|| Instant::now() + self.options.sync_every);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        let Some(line) = &mut self.line else { return Ok(()) };
        if let Some(segment) = &mut line.segment {
            segment.sync()?;
            line.sync_at = None;
            line.safe = line.written;
            line.pending.drain(..line.pending.len() - line.unwritten);
            if segment.bytes >= self.options.segment_bytes
                || line.segment_begun.elapsed() >= self.options.segment_age
            {
                line.segment = None;
            }
        }
        if line.has_base {
            let mut state = self.state.lock();
            state.status.archived = Some(line.safe);
            state.waiting_since_ms = line.pending.front().map(|group| group.position.time_ms);
        }
        Ok(())
    }

    /// Notes in the archive up to when it knows everything.
    fn close(&mut self) -> Result<(), Error> {
        self.write()?;
        let now_ms = self.feed.now_ms();
        if let Some(line) = &mut self.line
            && let Some(segment) = &mut line.segment
        {
            segment.mark(Position { time_ms: now_ms, ..line.written })?;
        }
        self.sync()
    }

    /// What was written since the last sync is written again, to another segment.
    fn give_up_segment(&mut self) {
        if let Some(line) = &mut self.line {
            line.segment = None;
            line.sync_at = None;
            line.written = line.safe;
            line.unwritten = line.pending.len();
        }
    }

    /// Removes what is not needed to go back as far as is promised. That cannot be undone: `now_ms` is certain.
    fn prune(&mut self, now_ms: u64) -> Result<(), Error> {
        let Some(keep_ms) = self.options.keep_ms else { return Ok(()) };
        let from_ms = now_ms.saturating_sub(keep_ms);
        let mut bases: Vec<(Base, Manifest)> = Vec::new();
        for manifest in self.repository.list()?.into_iter().flatten() {
            bases.extend(manifest.base.map(|base| (base, manifest)));
        }
        bases.sort_by_key(|(base, manifest)| (base.line, manifest.position.commit));
        // The newest from which the oldest moment can be reached, with nothing missing.
        let reaches =
            |(base, manifest): &(Base, Manifest)| base.from_ms <= from_ms && manifest.skipped.is_empty();
        let Some(first) = bases.iter().rposition(reaches) else { return Ok(()) };
        let (kept, position) = (bases[first].0, bases[first].1.position);
        if first > 0 {
            let ids: Vec<String> = bases[..first].iter().map(|(_, manifest)| manifest.id.clone()).collect();
            self.repository.remove(&ids)?;
        }
        let named = segment::named(&self.segments)?;
        for line in named.chunk_by(|a, b| a.line == b.line) {
            for (n, segment) in line.iter().enumerate() {
                let is_past = segment.line < kept.line
                    || segment.line == kept.line && segment::is_before(line, n, position.commit);
                if is_past {
                    self.segments.remove(&segment.name)?;
                }
            }
        }
        Ok(())
    }
}

enum Round {
    Done,
    Closed,
}
