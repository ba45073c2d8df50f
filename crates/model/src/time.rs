//! Moments, and the clock that tests can move.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime(i64);

impl UnixTime {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds, rounded down.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// The system's clock, and how far it has been moved. Clones move together.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<Hands>);

#[derive(Debug)]
struct Hands {
    offset_millis: AtomicI64,
    /// Where it stands still; [`RUNNING`] if it does not.
    stopped_millis: AtomicI64,
}

const RUNNING: i64 = i64::MIN;

impl Default for Hands {
    fn default() -> Self {
        Self { offset_millis: AtomicI64::new(0), stopped_millis: AtomicI64::new(RUNNING) }
    }
}

impl Clock {
    pub fn system() -> Self {
        Self::default()
    }

    pub fn now(&self) -> UnixTime {
        let millis = match self.0.stopped_millis.load(Ordering::Relaxed) {
            RUNNING => system_millis(),
            stopped => stopped,
        };
        UnixTime(millis.saturating_add(self.0.offset_millis.load(Ordering::Relaxed)))
    }

    /// From now on only [`Clock::advance`] moves it.
    pub fn stop(&self) {
        self.0.stopped_millis.store(system_millis(), Ordering::Relaxed);
    }

    pub fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        // A clock moved past the end of time stays there.
        let _ = self
            .0
            .offset_millis
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |offset| Some(offset.saturating_add(millis)));
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
fn system_millis() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_clock_moves_when_it_is_told_to() {
        let clock = Clock::system();
        clock.stop();
        let before = clock.now();
        clock.clone().advance(Duration::from_secs(5));
        assert_eq!(clock.now(), before.plus(Duration::from_secs(5)));
    }
}
