//! The data layer for Python: the native half of the package `larder`, whose other half is in `python/larder`.
//!
//! What is here works on names and values, as `larder::Entry` does; classes, builders and types for programs are made of it in
//! Python. Every call takes an event loop or none: without one the calling thread waits, with one the answer is a future of that
//! loop, unless it is there at once. Both are in `run.rs`.
//!
//! Promises:
//! - No lock of Python's is held while Rust works or waits, but for the moment in which L1 answers, and none of ours while Python is called.
//! - What a loader raises is what its callers get: the same object. What is not an `Exception` only its own caller gets.
//! - A process that was forked is told so, whatever it calls.

#![expect(clippy::needless_pass_by_value, reason = "what Python hands over is made for the call")]

mod error;
mod kept;
mod lifecycle;
mod load;
mod log;
mod run;
mod shelf;
mod store;
mod system;
mod value;

use std::time::Duration;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::kept::Meta;
    #[pymodule_export]
    use super::lifecycle::{Claims, Lease};
    #[pymodule_export]
    use super::load::Answer;
    #[pymodule_export]
    use super::log::{drop_logs, log_level, logs};
    #[pymodule_export]
    use super::run::Abort;
    #[pymodule_export]
    use super::shelf::{Plan, Shelf};
    #[pymodule_export]
    use super::store::Store;
    #[pymodule_export]
    use super::system::{System, open, prometheus};
    #[pymodule_export]
    use super::{end, forked, main, wait_for_loaders};
}

/// The `larder` command; its exit code.
#[cfg(feature = "command")]
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<String>) -> u8 {
    use std::process::ExitCode;
    let code = py.detach(|| larder_cli::run(arguments));
    // Nothing says the number itself.
    (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap_or(1)
}

/// In place of the command, in a build without it.
#[cfg(not(feature = "command"))]
#[pyfunction]
fn main(arguments: Vec<String>) -> u8 {
    drop(arguments);
    eprintln!("larder: this build has no command: it was made without the feature `command`");
    1
}

/// Waits until no loader runs on a thread of ours, at most so long; how many still do.
#[pyfunction]
fn wait_for_loaders(py: Python<'_>, seconds: f64) -> usize {
    py.detach(|| load::wait(seconds))
}

/// Keeps threads of ours out of Python from now on, and waits for those that are in it, at most so long.
#[pyfunction]
fn end(py: Python<'_>, seconds: f64) {
    py.detach(|| run::end(Duration::try_from_secs_f64(seconds).unwrap_or_default()));
}

/// This process was forked: what was counted of threads is the other's.
#[pyfunction]
fn forked() {
    load::forked();
    run::forked();
}
