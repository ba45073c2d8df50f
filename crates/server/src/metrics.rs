//! `GET /metrics`, `/healthz` and `/readyz`: for Prometheus, and for whoever restarts what does not answer.
//!
//! `/metrics` is what the engine has counted since the store was opened, and a few figures of the process, as text.
//! `/healthz` says that the process lives. `/readyz` says that the store answers a read, that the last attempt to write
//! succeeded, that its disk has room and takes writes, and that background work goes on; where one does not, it is a 503
//! with the reason. A store that somebody else opened is worked for by them, so of it only the reads and writes are
//! looked at.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use larder_engine::Engine;
use larder_model::metrics::Exposition;
use larder_storage::Store;
use rustix::fs::StatVfsMountFlags;
use tokio::time::Instant;

use crate::archive;
use crate::budget::Budget;

/// A step of background work is bounded; one that takes longer than this hangs.
const STEP_MAX: Duration = Duration::from_secs(60);

/// With less room than this on its disk, a store is about to refuse writes.
const FREE_BYTES_MIN: u64 = 16 * 1024 * 1024;

/// More text for `/metrics`.
pub(crate) type More = Box<dyn Fn() -> String + Send + Sync>;

/// How the server is.
pub(crate) struct Metrics {
    engine: Engine,
    pub(crate) connections: AtomicUsize,
    /// Where the store's file is, if it has one that we opened.
    directory: Option<PathBuf>,
    /// None when somebody else works for the store.
    work: Option<Arc<Pulse>>,
    budget: Arc<Budget>,
    more: Option<More>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("connections", &self.connections).finish_non_exhaustive()
    }
}

impl Metrics {
    pub(crate) fn new(
        engine: Engine,
        directory: Option<PathBuf>,
        work: Option<Arc<Pulse>>,
        budget: Arc<Budget>,
        more: Option<More>,
    ) -> Self {
        Self { engine, connections: AtomicUsize::new(0), directory, work, budget, more }
    }

    pub(crate) fn text(&self) -> Result<String, larder_engine::Error> {
        let mut text = Exposition::default();
        self.engine.expose(&mut text)?;
        let activity = self.engine.activity()?;
        text.gauge("larder_uptime_seconds", "How long the store has been open; counters begin then.")
            .sample(&[], self.engine.counting_for().as_secs_f64());
        text.gauge("larder_open_connections", "Connections that are open.")
            .sample(&[], self.connections.load(Ordering::Relaxed));
        text.gauge("larder_requests_memory_bytes", "Memory that requests in flight take.")
            .sample(&[], self.budget.taken());
        text.gauge("larder_requests_memory_limit_bytes", "Memory that requests in flight may take.")
            .sample(&[], self.budget.limit());
        text.counter("larder_requests_turned_away_total", "Requests for which that memory did not suffice.")
            .sample(&[], self.budget.refused());
        text.gauge("larder_store_bytes", "The size of the store's file, or of its memory.")
            .sample(&[], activity.bytes);
        text.gauge("larder_store_live_bytes", "Bytes of all keys and values in the store.")
            .sample(&[], activity.live_bytes);
        text.gauge("larder_store_full", "1 while the disk is full and only deletes are taken.")
            .sample(&[], u8::from(activity.full));
        text.counter("larder_store_commits_total", "Groups of writes made durable together.")
            .sample(&[], activity.commits);
        text.counter("larder_store_checkpoints_total", "Times the store's tree was written out.")
            .sample(&[], activity.checkpoints);
        text.counter("larder_store_checkpoint_seconds_total", "How long that took, all in all.")
            .sample(&[], activity.checkpoint_time.as_secs_f64());
        archive::expose(self.engine.store(), &mut text);
        let mut text = text.finish();
        if let Some(more) = &self.more {
            text.push_str(&more());
        }
        Ok(text)
    }

    pub(crate) fn store(&self) -> Store {
        self.engine.store().clone()
    }

    /// Or why it is not ready.
    pub(crate) fn ready(&self) -> Result<(), String> {
        self.engine.answers().map_err(|error| format!("the store cannot be read: {error}"))?;
        if let Some(error) = self.engine.write_fault() {
            return Err(format!("the last write failed: {error}"));
        }
        self.directory.as_deref().map_or(Ok(()), check_disk)?;
        match &self.work {
            Some(work) => work.check(Instant::now()),
            None => Ok(()),
        }
    }
}

/// Looks at the file system before a client's write does.
fn check_disk(directory: &Path) -> Result<(), String> {
    // What cannot be asked is not held against it.
    let Ok(disk) = rustix::fs::statvfs(directory) else { return Ok(()) };
    let free = (disk.f_blocks > 0).then(|| disk.f_bavail.saturating_mul(disk.f_frsize));
    let fault = disk_fault(disk.f_flag.contains(StatVfsMountFlags::RDONLY), free);
    fault.map_or(Ok(()), |fault| Err(format!("the disk of {} is {fault}", directory.display())))
}

fn disk_fault(read_only: bool, free_bytes: Option<u64>) -> Option<String> {
    match free_bytes {
        _ if read_only => Some("read-only".to_owned()),
        Some(free) if free < FREE_BYTES_MIN => Some(format!("full: {} MiB are free", free >> 20)),
        _ => None,
    }
}

/// When background work last got on, and what stopped it.
#[derive(Debug)]
pub(crate) struct Pulse(Mutex<(Instant, Option<String>)>);

impl Pulse {
    pub(crate) fn new() -> Self {
        Self(Mutex::new((Instant::now(), None)))
    }

    pub(crate) fn beat(&self, fault: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), fault);
    }

    fn check(&self, now: Instant) -> Result<(), String> {
        let (last, fault) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (fault, now.saturating_duration_since(*last)) {
            (Some(fault), _) => Err(format!("background work fails: {fault}")),
            (None, silent) if silent > STEP_MAX => {
                Err(format!("background work has not got on for {} s", silent.as_secs()))
            }
            (None, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_full_or_read_only_is_not_ready() {
        assert_eq!(disk_fault(false, Some(FREE_BYTES_MIN)), None);
        assert_eq!(disk_fault(false, None), None);
        assert_eq!(disk_fault(false, Some(3 << 20)).as_deref(), Some("full: 3 MiB are free"));
        assert_eq!(disk_fault(true, Some(u64::MAX)).as_deref(), Some("read-only"));
        assert_eq!(check_disk(Path::new("/no such place")), Ok(()));
    }

    #[test]
    fn work_that_fails_or_hangs_is_not_ready_and_says_why() {
        let pulse = Pulse::new();
        let now = Instant::now();
        assert_eq!(pulse.check(now), Ok(()));
        let late = pulse.check(now + STEP_MAX + Duration::from_secs(2)).unwrap_err();
        assert!(late.starts_with("background work has not got on for 6"), "{late}");
        pulse.beat(Some("the disk is full".to_owned()));
        assert_eq!(pulse.check(now).unwrap_err(), "background work fails: the disk is full");
        pulse.beat(None);
        assert_eq!(pulse.check(now), Ok(()));
    }
}
