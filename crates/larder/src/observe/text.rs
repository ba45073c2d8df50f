//! What the layer has counted, as Prometheus reads it.
//!
//! The names are those of the `metrics` recorder, the labels `system` and `entity`. A server that runs in the same
//! process ends its `/metrics` with this text (`larder demo` does); any other program gives it out itself, on whatever
//! port it has.

use std::sync::atomic::Ordering;

use larder_model::metrics::Exposition;

use super::{Observer, Stats};
use crate::System;

/// What these systems have counted in this process, in Prometheus' text format. Give it all systems at once: a name
/// may be told only once.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # use pages::Pages;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// pages.pages().get("https://example.com/").await?;
/// // The body of `GET /metrics`; its type is `text/plain; version=0.0.4`.
/// let text = larder::prometheus([&*pages]);
/// assert!(text.contains("larder_cache_misses_total{system=\"pages\",entity=\"Page\"} 1\n"));
/// # Ok(())
/// # }
/// ```
pub fn prometheus<'a>(systems: impl IntoIterator<Item = &'a System>) -> String {
    let systems: Vec<&System> = systems.into_iter().collect();
    let observers: Vec<&Observer> = systems.iter().flat_map(|system| system.observers()).collect();
    let mut text = Exposition::default();
    let mut count = |name, help, figure: fn(&Stats) -> u64| {
        let mut family = text.counter(name, help);
        for observer in &observers {
            family.sample(&labels(observer), figure(&observer.stats()));
        }
    };
    count("larder_cache_hits_total", "Reads answered without the source.", |stats| stats.hits);
    count("larder_cache_misses_total", "Reads that were not.", |stats| stats.misses);
    count("larder_saved_calls_total", "Calls of the source that hits made unnecessary.", |stats| {
        stats.calls_saved
    });
    count("larder_source_calls_total", "Calls of the source, each try counted.", |stats| stats.loads);
    count(
        "larder_source_failures_total",
        "Those that failed, or gave something that is not a record.",
        |stats| stats.load_failures,
    );
    count("larder_store_errors_total", "Requests that the store failed at.", |stats| stats.store_errors);
    count("larder_writes_total", "Writes of what was fetched or written behind.", |stats| stats.writes);
    count("larder_writes_lost_total", "Writes behind that will not happen.", |stats| stats.writes_lost);
    count("larder_unreadable_records_total", "Records left out of listings: they cannot be read.", |stats| {
        stats.unread
    });
    let mut queue = text.gauge("larder_queue_depth", "Writes waiting behind.");
    for (observer, depth) in observers.iter().filter_map(|one| Some((one, one.queue.as_ref()?))) {
        queue.sample(&labels(observer), depth.load(Ordering::Relaxed) as f64);
    }
    let mut stuck = text
        .counter("larder_stuck_total", "Leases that ran out, counted when somebody else took the work over.");
    for (observer, (lifecycle, count)) in
        observers.iter().flat_map(|one| one.stuck.iter().map(move |two| (one, two)))
    {
        let [system, entity] = labels(observer);
        stuck.sample(&[system, entity, ("lifecycle", lifecycle)], count.load(Ordering::Relaxed));
    }
    let mut latency =
        text.histogram("larder_cache_latency_seconds", "How long reads took, misses with their load.");
    for observer in observers.iter().filter(|observer| observer.counts.latency.count() > 0) {
        latency.sample(&labels(observer), &observer.counts.latency);
    }
    let mut uptime = text.gauge("larder_system_uptime_seconds", "How long the system has been open.");
    for system in &systems {
        uptime.sample(&[("system", &system.schema().system)], system.open_for().as_secs_f64());
    }
    text.finish()
}

fn labels(observer: &Observer) -> [(&'static str, &str); 2] {
    [("system", &observer.system), ("entity", &observer.entity)]
}
