//! Counting, and telling what was counted as Prometheus reads it (text format 0.0.4).
//!
//! Written by hand, because the crates that do it keep a registry of names and a thread to summarise them, which an
//! idle server would pay for in memory: here a counter is an atomic where it is counted.
//!
//! Promises:
//! - Counting takes no lock and allocates nothing.
//! - What is written is valid: one heading for a name, labels escaped, buckets cumulative.

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets: in microseconds, and in seconds as they are written.
const BOUNDS: [(u64, &str); 15] = [
    (100, "0.0001"),
    (250, "0.00025"),
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (10_000_000, "10"),
];

/// How long things took: counted by how long, and summed up.
///
/// ```
/// use larder_model::metrics::{Exposition, Histogram};
/// use std::time::Duration;
///
/// let latency = Histogram::default();
/// latency.record(Duration::from_millis(3));
/// let mut text = Exposition::default();
/// text.histogram("seconds", "How long it took.").sample(&[], &latency);
/// assert!(text.finish().contains("seconds_bucket{le=\"0.005\"} 1\n"));
/// ```
#[derive(Debug, Default)]
pub struct Histogram {
    /// The last holds what is over every bound.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
}

impl Histogram {
    pub fn record(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let micros = nanos.div_ceil(1000);
        let at = BOUNDS.partition_point(|(bound, _)| *bound < micros);
        self.buckets[at].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Takes over all that another has recorded.
    pub fn add(&self, other: &Self) {
        let own = self.buckets.iter().chain([&self.nanos]);
        for (own, other) in own.zip(other.buckets.iter().chain([&other.nanos])) {
            own.fetch_add(other.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }
}

/// A text that grows by one family of metrics after the other.
#[derive(Debug, Default)]
pub struct Exposition(String);

/// One name, and the samples under it. Without any, nothing is written.
#[derive(Debug)]
pub struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    is_begun: bool,
}

/// A family whose samples are histograms.
#[derive(Debug)]
pub struct Histograms<'a>(Family<'a>);

/// Names and values; an empty value is no label.
pub type Labels<'a> = [(&'a str, &'a str)];

impl Exposition {
    /// Only ever grows; its name ends in `_total`.
    pub fn counter(&mut self, name: &'static str, help: &'static str) -> Family<'_> {
        self.family(name, "counter", help)
    }

    pub fn gauge(&mut self, name: &'static str, help: &'static str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    pub fn histogram(&mut self, name: &'static str, help: &'static str) -> Histograms<'_> {
        Histograms(self.family(name, "histogram", help))
    }

    fn family(&mut self, name: &'static str, kind: &'static str, help: &'static str) -> Family<'_> {
        Family { text: &mut self.0, name, kind, help, is_begun: false }
    }

    pub fn finish(self) -> String {
        self.0
    }
}

impl Family<'_> {
    pub fn sample(&mut self, labels: &Labels<'_>, value: impl Display) {
        self.line("", labels, None, value);
    }

    fn line(&mut self, suffix: &str, labels: &Labels<'_>, bound: Option<&str>, value: impl Display) {
        let text = &mut *self.text;
        if !self.is_begun {
            self.is_begun = true;
            let (name, kind, help) = (self.name, self.kind, self.help);
            // Writing to a text does not fail, here and below.
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        }
        let _ = write!(text, "{}{suffix}", self.name);
        let mut mark = '{';
        for (name, value) in labels.iter().copied().chain(bound.map(|bound| ("le", bound))) {
            if value.is_empty() {
                continue;
            }
            let _ = write!(text, "{mark}{name}=\"");
            for letter in value.chars() {
                match letter {
                    '\\' => text.push_str(r"\\"),
                    '"' => text.push_str(r#"\""#),
                    '\n' => text.push_str(r"\n"),
                    letter => text.push(letter),
                }
            }
            text.push('"');
            mark = ',';
        }
        if mark == ',' {
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }
}

impl Histograms<'_> {
    pub fn sample(&mut self, labels: &Labels<'_>, histogram: &Histogram) {
        let mut count = 0;
        let bounds = BOUNDS.iter().map(|(_, bound)| *bound).chain(["+Inf"]);
        for (bucket, bound) in histogram.buckets.iter().zip(bounds) {
            count += bucket.load(Ordering::Relaxed);
            self.0.line("_bucket", labels, Some(bound), count);
        }
        let seconds = Duration::from_nanos(histogram.nanos.load(Ordering::Relaxed)).as_secs_f64();
        self.0.line("_sum", labels, None, seconds);
        self.0.line("_count", labels, None, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_one_heading_and_its_labels_are_escaped() {
        let mut text = Exposition::default();
        let mut family = text.counter("calls_total", "How many.");
        family.sample(&[("table", "a\"b\\c\nd"), ("index", "")], 1.5);
        family.sample(&[], 2);
        text.gauge("nothing", "Has no samples.");
        assert_eq!(
            text.finish(),
            "# HELP calls_total How many.\n# TYPE calls_total counter\ncalls_total{table=\"a\\\"b\\\\c\\nd\"} 1.5\ncalls_total 2\n"
        );
    }

    #[test]
    fn buckets_are_cumulative_and_include_their_bound() {
        let histogram = Histogram::default();
        for micros in [0, 100, 101, 10_000_000, 10_000_001] {
            histogram.record(Duration::from_micros(micros));
        }
        let mut text = Exposition::default();
        text.histogram("s", "Time.").sample(&[("t", "x")], &histogram);
        let text = text.finish();
        for line in [
            "s_bucket{t=\"x\",le=\"0.0001\"} 2",
            "s_bucket{t=\"x\",le=\"0.00025\"} 3",
            "s_bucket{t=\"x\",le=\"10\"} 4",
            "s_bucket{t=\"x\",le=\"+Inf\"} 5",
            "s_sum{t=\"x\"} 20.000202",
            "s_count{t=\"x\"} 5",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
        }
        assert_eq!(histogram.count(), 5);
    }
}
