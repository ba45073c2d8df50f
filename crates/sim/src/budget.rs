//! How much to run: by default what fits a build, and more, or one run again, when the environment says so.
//!
//! `SIM_RUNS=200` runs that many seeds in each test; `SIM_SEED=7` one seed, and `SIM_AT=41` with it one point
//! at which the fault hits, where a test tries them all.

use std::env;

/// The seeds a test runs: `SIM_SEED` alone if it is set, else `SIM_RUNS`, else `default_runs`, from 1 on.
pub fn seeds(default_runs: u64) -> impl Iterator<Item = u64> {
    let (first, runs) = match variable("SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (1, variable("SIM_RUNS").unwrap_or(default_runs)),
    };
    (0..runs).map(move |run| first.wrapping_add(run))
}

/// Where the fault hits: `SIM_AT` alone if it is set, else everywhere.
pub fn points(count: u64) -> impl Iterator<Item = u64> {
    let only = variable("SIM_AT");
    (0..count).filter(move |at| only.is_none_or(|only| only == *at))
}

fn variable(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}
