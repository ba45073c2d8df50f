//! Leaving alone what fails: after so many failures in a row nobody asks for a while; then one call tries.
//!
//! Waiting is counted by `tokio`'s time, which tests can pause.

use std::time::Duration;

use larder_schema::schema::Breaker as Settings;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Without settings nothing is ever left alone.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    settings: Option<Settings>,
    health: Mutex<Health>,
}

#[derive(Debug, Default)]
struct Health {
    failures: u32,
    /// Left alone until then; afterwards one call goes through.
    resting_until: Option<Instant>,
}

impl Breaker {
    pub(crate) fn new(settings: Option<Settings>) -> Self {
        Self { settings, health: Mutex::default() }
    }

    /// After how many failures it is left alone now, if it is.
    pub(crate) fn resting(&self) -> Option<u32> {
        let health = self.health.lock();
        (Instant::now() < health.resting_until?).then_some(health.failures)
    }

    /// Whether it may be called. The first after a rest is the trial; the others go on resting until it is over.
    pub(crate) fn may_call(&self) -> Result<(), u32> {
        let Some(settings) = self.settings else { return Ok(()) };
        let mut health = self.health.lock();
        let Some(until) = health.resting_until else { return Ok(()) };
        let now = Instant::now();
        if now < until {
            return Err(health.failures);
        }
        health.resting_until = Some(now + rest(settings));
        Ok(())
    }

    pub(crate) fn succeeded(&self) {
        if self.settings.is_some() {
            *self.health.lock() = Health::default();
        }
    }

    pub(crate) fn failed(&self) {
        let Some(settings) = self.settings else { return };
        let mut health = self.health.lock();
        health.failures = health.failures.saturating_add(1);
        if health.failures >= settings.failures {
            health.resting_until = Some(Instant::now() + rest(settings));
        }
    }
}

fn rest(settings: Settings) -> Duration {
    Duration::from_millis(u64::try_from(settings.rest_millis).unwrap_or(0))
}
