//! SIGHUP asks for files to be read again, and never ends a server: not one that has no files to read either.
//!
//! Where it was ignored at the start, as `nohup` has it, it stays so.

use std::fs;
use std::future::pending;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug)]
pub(super) struct Hangups(Option<Signal>);

impl Hangups {
    /// From now on they are told here; nobody is ended by one any more, even once this is dropped.
    pub(super) fn heed() -> io::Result<Self> {
        Ok(Self(if is_ignored() { None } else { Some(signal(SignalKind::hangup())?) }))
    }

    /// The next one; never, where they are ignored.
    pub(super) async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => {
                signal.recv().await;
            }
            None => pending().await,
        }
    }
}

/// Whether SIGHUP does nothing, as far as the system tells.
fn is_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    ignored.is_some_and(|set| set & (1 << (SignalKind::hangup().as_raw_value() - 1)) != 0)
}
