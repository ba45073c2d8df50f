//! How long things take: many at once, and what is told of their times.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Times of the same thing, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Times {
    sorted: Vec<Duration>,
    /// From the first to the last, all together.
    pub(super) whole: Duration,
}

/// Milliseconds: P50, P90, P99, mean.
pub(super) type Figures = [f64; 4];

impl Times {
    pub(super) fn new(mut times: Vec<Duration>, whole: Duration) -> Self {
        times.sort_unstable();
        Self { sorted: times, whole }
    }

    pub(super) fn count(&self) -> usize {
        self.sorted.len()
    }

    /// Takes in more of the same.
    pub(super) fn add(&mut self, more: Self) {
        self.sorted.extend(more.sorted);
        self.sorted.sort_unstable();
        self.whole += more.whole;
    }

    /// The time that so many of a hundred do not exceed.
    fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.sorted.len() * percent).div_ceil(100);
        self.sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    pub(super) fn figures(&self) -> Figures {
        let mean = self.sorted.iter().sum::<Duration>()
            / u32::try_from(self.sorted.len().max(1)).unwrap_or(u32::MAX);
        [self.percentile(50), self.percentile(90), self.percentile(99), mean]
            .map(|time| time.as_secs_f64() * 1000.0)
    }

    pub(super) fn json(&self) -> Json {
        json(self.figures())
    }
}

pub(super) fn json([p50, p90, p99, mean]: Figures) -> Json {
    json!({"p50_ms": p50, "p90_ms": p90, "p99_ms": p99, "mean_ms": mean})
}

/// `0.12 ms`, `3.4 ms`, `250 ms`.
pub(super) fn millis(millis: f64) -> String {
    match millis {
        millis if millis < 1.0 => format!("{millis:.2} ms"),
        millis if millis < 10.0 => format!("{millis:.1} ms"),
        millis => format!("{millis:.0} ms"),
    }
}

/// Does all of them, at most so many at a time. Each is timed from when it is let in to its answer, so waiting for
/// the processor counts and waiting to be let in does not.
pub(super) async fn all_at_once<T: Send + 'static>(
    jobs: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
    at_once: usize,
) -> (Times, Vec<T>) {
    let places = Arc::new(Semaphore::new(at_once));
    let mut running = JoinSet::new();
    let started = Instant::now();
    for job in jobs {
        let place = Arc::clone(&places).acquire_owned().await.expect("nobody closes it");
        let begun = Instant::now();
        running.spawn(async move {
            let done = job.await;
            drop(place);
            (begun.elapsed(), done)
        });
    }
    let (mut sorted, outcomes): (Vec<Duration>, Vec<T>) = running.join_all().await.into_iter().unzip();
    sorted.sort_unstable();
    (Times { sorted, whole: started.elapsed() }, outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let sorted: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        let mut times = Times { sorted, whole: Duration::ZERO };
        assert_eq!(times.figures(), [100.0, 180.0, 198.0, 100.5]);
        times.add(Times { sorted: vec![Duration::ZERO; 200], whole: Duration::ZERO });
        assert_eq!((times.count(), times.figures()[0]), (400, 0.0));
        assert_eq!(Times::default().figures(), [0.0; 4]);
    }

    #[test]
    fn a_time_is_shown_with_the_digits_it_needs() {
        assert_eq!([0.123, 3.44, 250.4].map(millis), ["0.12 ms", "3.4 ms", "250 ms"]);
    }
}
