//! Committed groups, on their way from the commit thread to whoever keeps them.
//!
//! The commit thread never waits for the taker: when too much is under way, groups are left out. Their numbers
//! tell the taker that they were.

use crate::batch::Changed;
use crate::{Position, checksum};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What may be under way, beyond which groups are left out.
const BYTES_MAX: usize = 64 << 20;
/// From how much on a taker that gathers is woken.
const GATHERED_BYTES: usize = BYTES_MAX / 8;
/// Memory of a change beside its key and its value.
const OVERHEAD: usize = 64;

/// One committed group: what each key holds from it on.
#[derive(Debug)]
pub struct Committed {
    pub(crate) position: Position,
    /// In the order of the keys; values with their checksums.
    pub(crate) changes: Vec<Changed>,
}

impl Committed {
    pub fn position(&self) -> Position {
        self.position
    }

    /// What each key that was written holds from then on: a value, or nothing.
    pub fn changes(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let value = |stored: &Arc<Vec<u8>>| stored.len() - checksum::CHECKSUM_BYTES;
        self.changes
            .iter()
            .map(move |(key, stored)| (&**key, stored.as_ref().map(|stored| &stored[..value(stored)])))
    }

    fn bytes(&self) -> usize {
        let of =
            |(key, value): &Changed| OVERHEAD + key.len() + value.as_ref().map_or(0, |value| value.len());
        self.changes.iter().map(of).sum()
    }
}

/// Tells the time, in milliseconds since 1970.
pub(crate) type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

/// What is committed, from the moment on when `Store::feed` made it.
pub struct Feed {
    clock: Clock,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    groups: VecDeque<Committed>,
    bytes: usize,
    closed: bool,
}

/// What [`Feed::take`] finds.
#[derive(Debug)]
pub enum Taken {
    Groups(Vec<Committed>),
    /// Nothing came in time.
    Nothing,
    /// Nothing will come any more.
    Closed,
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Feed")
    }
}

impl Feed {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, state: Mutex::default(), arrived: Condvar::new() }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        (self.clock)()
    }

    pub(crate) fn push(&self, group: Committed) {
        let bytes = group.bytes();
        let mut state = self.state.lock();
        // One group always fits, however large.
        if state.groups.is_empty() || state.bytes + bytes <= BYTES_MAX {
            let wakes = state.groups.is_empty() || state.bytes + bytes >= GATHERED_BYTES;
            state.bytes += bytes;
            state.groups.push_back(group);
            if wakes {
                self.arrived.notify_one();
            }
        }
    }

    /// The time of the oldest group that nobody took.
    pub(crate) fn waiting_since_ms(&self) -> Option<u64> {
        self.state.lock().groups.front().map(|group| group.position.time_ms)
    }

    /// Whether it is closed, by `until` at the latest.
    pub(crate) fn wait_closed(&self, until: Instant) -> bool {
        let mut state = self.state.lock();
        while !state.closed && !self.arrived.wait_until(&mut state, until).timed_out() {}
        state.closed
    }

    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.arrived.notify_one();
    }

    /// All that is there; waits for something until `until`, and for more as long as `gather`.
    pub fn take(&self, until: Instant, gather: Duration) -> Taken {
        let mut state = self.state.lock();
        let mut gathered = None;
        loop {
            if !state.groups.is_empty() {
                let at = *gathered.get_or_insert_with(|| (Instant::now() + gather).min(until));
                let enough = state.closed || state.bytes >= GATHERED_BYTES;
                if !enough && !self.arrived.wait_until(&mut state, at).timed_out() {
                    continue;
                }
                state.bytes = 0;
                return Taken::Groups(std::mem::take(&mut state.groups).into());
            }
            if state.closed {
                return Taken::Closed;
            }
            if self.arrived.wait_until(&mut state, until).timed_out() {
                return Taken::Nothing;
            }
        }
    }
}
