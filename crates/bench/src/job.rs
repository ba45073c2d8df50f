//! What the bench asks of a worker process, and what it answers: one line of JSON each way.
//!
//! A worker is this same binary. It drives an HTTP server (`load`) or holds a store in process
//! (`embedded`); the bench itself does not care which. What a worker of an earlier state does not tell is zero.

use std::io::{BufRead, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::workload::Op;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Make the table and wait until it is active.
    Create,
    Fill(Fill),
    Measure(Measure),
    /// All of these at once.
    Together(Vec<Measure>),
}

/// Puts the items `from..items`, stopping early when the time is up.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Fill {
    pub(crate) from: u64,
    pub(crate) items: u64,
    /// In an order in which no item is near the one before it.
    pub(crate) scattered: bool,
    pub(crate) connections: usize,
    pub(crate) seconds_max: f64,
}

impl Fill {
    /// The item that is put at this place in the order, counted from zero.
    pub(crate) fn number(&self, place: u64) -> u64 {
        // A prime, so that each number of a smaller range comes once.
        const STEP: u64 = 2_654_435_761;
        let step = if self.scattered { STEP } else { 1 };
        self.from + place * step % self.count()
    }

    pub(crate) fn count(&self) -> u64 {
        self.items - self.from
    }
}

/// `connections` requests in flight at all times, until time or count runs out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measure {
    pub(crate) op: Op,
    pub(crate) connections: usize,
    pub(crate) items: u64,
    pub(crate) seed: u64,
    pub(crate) warmup_seconds: f64,
    pub(crate) seconds: f64,
    /// How long answers are waited for once no more is sent.
    pub(crate) drain_seconds: f64,
    pub(crate) requests_max: u64,
    /// Each request is drawn when it is sent, so that keys are spread over all items; else a few thousand, drawn
    /// beforehand, are sent again and again, which costs the load generator less.
    pub(crate) spread: bool,
    /// How long a connection rests after each answer.
    pub(crate) pause_seconds: f64,
}

/// What filling came to. Latencies are those of the requests it took, where it took requests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Filled {
    /// How many there are now.
    pub(crate) items: u64,
    pub(crate) seconds: f64,
    /// Items a second in the last quarter.
    pub(crate) last_rate: f64,
    pub(crate) measured: Measured,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Created,
    Filled(Filled),
    Measured(Measured),
    Together(Vec<Measured>),
    Failed { reason: String },
}

/// Latencies in microseconds. `cpu_seconds` is the worker's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Measured {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    /// Errors that are requests without an answer; the server may be at work on them still.
    pub(crate) abandoned: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) seconds: f64,
    /// Successful requests a second.
    pub(crate) rate: f64,
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    pub(crate) cpu_seconds: f64,
}

/// Answers jobs from standard input until it closes, so a worker never outlives the bench.
pub(crate) fn serve(mut run: impl FnMut(Job) -> Result<Answer>) -> Result<()> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let job = serde_json::from_str(&line?).context("a job that is not JSON")?;
        let answer = run(job).unwrap_or_else(|error| Answer::Failed { reason: format!("{error:#}") });
        writeln!(output, "{}", serde_json::to_string(&answer)?)?;
        output.flush()?;
    }
    Ok(())
}

/// Gathers latencies of one measurement.
#[derive(Debug)]
pub(crate) struct Tally {
    latencies: Histogram<u64>,
    errors: u64,
    abandoned: u64,
    first_error: Option<String>,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        let latencies = Histogram::new_with_bounds(1, LATENCY_MAX_NANOS, 3)
            .expect("the bounds are constant and in order");
        Tally { latencies, errors: 0, abandoned: 0, first_error: None }
    }

    pub(crate) fn success(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_MAX_NANOS);
        self.latencies.saturating_record(nanos);
    }

    pub(crate) fn failure(&mut self, reason: impl FnOnce() -> String) {
        self.errors += 1;
        self.first_error.get_or_insert_with(reason);
    }

    /// A request given up after this long: its latency would have been at least that.
    pub(crate) fn abandon(&mut self, waited: Duration) {
        self.success(waited);
        self.abandoned += 1;
        self.failure(|| "no answer in time".to_owned());
    }

    pub(crate) fn merge(&mut self, other: Tally) {
        self.latencies.add(&other.latencies).expect("both have the same bounds");
        self.errors += other.errors;
        self.abandoned += other.abandoned;
        self.first_error = self.first_error.take().or(other.first_error);
    }

    pub(crate) fn summary(self, elapsed: Duration, cpu: Duration) -> Measured {
        let requests = self.latencies.len() - self.abandoned;
        let seconds = elapsed.as_secs_f64();
        let micros = |nanos: u64| nanos as f64 / 1_000.0;
        Measured {
            requests,
            errors: self.errors,
            abandoned: self.abandoned,
            first_error: self.first_error,
            seconds,
            rate: if seconds > 0.0 { requests as f64 / seconds } else { 0.0 },
            mean: self.latencies.mean() / 1_000.0,
            p50: micros(self.latencies.value_at_quantile(0.5)),
            p99: micros(self.latencies.value_at_quantile(0.99)),
            max: micros(self.latencies.max()),
            cpu_seconds: cpu.as_secs_f64(),
        }
    }
}

const LATENCY_MAX_NANOS: u64 = 120_000_000_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_fill_puts_each_item_once() {
        for scattered in [false, true] {
            let fill = Fill { from: 500, items: 3_000, scattered, connections: 1, seconds_max: 1.0 };
            let numbers: BTreeSet<u64> = (0..fill.count()).map(|place| fill.number(place)).collect();
            assert_eq!(numbers, (500..3_000).collect());
        }
    }

    #[test]
    fn what_was_abandoned_is_slow_and_not_done() {
        let mut tally = Tally::new();
        (0..90).for_each(|_| tally.success(Duration::from_millis(1)));
        (0..10).for_each(|_| tally.abandon(Duration::from_secs(20)));
        let measured = tally.summary(Duration::from_secs(1), Duration::ZERO);
        assert_eq!((measured.requests, measured.errors, measured.abandoned), (90, 10, 10));
        assert!((measured.p50 - 1_000.0).abs() < 10.0);
        assert!(measured.p99 > 19_000_000.0);
    }

    #[test]
    fn tallies_add_up() {
        let mut first = Tally::new();
        first.success(Duration::from_micros(10));
        let mut second = Tally::new();
        second.success(Duration::from_micros(30));
        second.failure(|| "torn".to_owned());
        first.merge(second);
        let measured = first.summary(Duration::from_secs(2), Duration::ZERO);
        assert_eq!((measured.requests, measured.errors, measured.rate), (2, 1, 1.0));
        assert_eq!(measured.first_error.as_deref(), Some("torn"));
    }
}
