//! What happens over time: a small ring of samples of what the process counts anyway.
//!
//! From the first page on that somebody opens, a sample is taken on a tick, from the text that `/metrics` gives too: a console
//! that nobody uses takes neither time nor memory. Nothing is asked of the store for it. The ring holds half an hour and some
//! hundred kilobytes at most.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use larder_schema::Schema;
use larder_schema::cost::Reading;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Between two samples.
pub(crate) const TICK: Duration = Duration::from_secs(5);
const SAMPLES_MAX: usize = 360;
/// Entities of which hits and misses are kept.
const ENTITIES_MAX: usize = 64;
/// Tables of which the size is kept.
const TABLES_MAX: usize = 64;

/// What the process counts, in Prometheus' text format.
pub(crate) type Metrics = Box<dyn Fn() -> String + Send + Sync>;

#[derive(Default)]
pub(crate) struct Pulse {
    metrics: Option<Metrics>,
    /// Told when the first page is opened.
    opened: Notify,
    ring: Mutex<Ring>,
}

impl fmt::Debug for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pulse").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Ring {
    /// Systems and entities, in the order of a sample's figures.
    entities: Vec<(String, String)>,
    /// Tables, in the order of a sample's sizes.
    tables: Vec<String>,
    samples: VecDeque<Sample>,
}

/// Counters as they were at a moment.
#[derive(Debug)]
struct Sample {
    at: Instant,
    requests: f64,
    seconds: f64,
    errors: f64,
    read_units: f64,
    write_units: f64,
    bytes: f64,
    /// Hits, misses, calls saved and calls made of each entity.
    entities: Vec<[f64; 4]>,
    /// The size of each table; those that were made later are missing.
    tables: Vec<f64>,
}

/// Figures over time, one a second for each step between two samples, the newest last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series(pub(crate) Vec<f64>);

/// What the ring tells.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// How long ago the first step began.
    pub(crate) seconds: u64,
    pub(crate) requests: Series,
    /// A request's, on average, in milliseconds.
    pub(crate) latency: Series,
    pub(crate) errors: Series,
    pub(crate) read_units: Series,
    pub(crate) write_units: Series,
    pub(crate) bytes: Series,
    pub(crate) sources: Vec<Source>,
}

/// What became of the reads that a source stands behind.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) system: String,
    pub(crate) name: String,
    pub(crate) hits: Series,
    pub(crate) misses: Series,
    pub(crate) calls: Series,
    /// Since counting began, as far as the schema says what a call costs.
    pub(crate) dollars_saved: Option<f64>,
    /// Saved in an hour, at that rate.
    pub(crate) dollars: Series,
}

impl Pulse {
    pub(crate) fn of(metrics: Metrics) -> Self {
        Self { metrics: Some(metrics), ..Self::default() }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.metrics.is_some()
    }

    /// Somebody looks: samples are taken from now on.
    pub(crate) fn wake(&self) {
        self.opened.notify_one();
    }

    /// Takes samples for as long as it is polled.
    pub(crate) async fn beat(&self) {
        let Some(metrics) = &self.metrics else { return std::future::pending().await };
        self.opened.notified().await;
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.ring.lock().take(&metrics(), Instant::now());
        }
    }

    /// The size of a table over time, and since how many seconds; where it is known.
    pub(crate) fn growth(&self, table: &str) -> Option<(u64, Series)> {
        self.ring.lock().growth(table)
    }

    /// What happened, by the sources of these schemas.
    pub(crate) fn told<'a>(&self, schemas: impl Iterator<Item = &'a Schema>) -> Told {
        self.ring.lock().told(schemas)
    }
}

impl Ring {
    fn take(&mut self, text: &str, at: Instant) {
        // Nobody looks at the buckets of histograms, which are most of it.
        let lines = text.lines().filter(|line| !line.contains("_bucket{"));
        let Ok(reading) = Reading::parse(&lines.clone().collect::<Vec<_>>().join("\n")) else { return };
        for line in lines.filter(|line| line.starts_with("larder_cache_hits_total{")) {
            let label = |name: &str| line.split(&format!("{name}=\"")).nth(1)?.split('"').next();
            if let (Some(system), Some(entity)) = (label("system"), label("entity")) {
                let name = (system.to_owned(), entity.to_owned());
                if self.entities.len() < ENTITIES_MAX && !self.entities.contains(&name) {
                    self.entities.push(name);
                }
            }
        }
        for line in text.lines().filter_map(|line| line.strip_prefix("larder_table_size_bytes{table=\"")) {
            let name = line.split('"').next().unwrap_or_default().to_owned();
            if self.tables.len() < TABLES_MAX && !self.tables.contains(&name) {
                self.tables.push(name);
            }
        }
        let of_table = |table: &String| reading.sum("larder_table_size_bytes", &[("table", table)]);
        let sum = |name: &str| reading.sum(name, &[]);
        let of_entity = |(system, entity): &(String, String)| {
            ["cache_hits", "cache_misses", "saved_calls", "source_calls"].map(|name| {
                reading.sum(&format!("larder_{name}_total"), &[("system", system), ("entity", entity)])
            })
        };
        self.samples.push_back(Sample {
            at,
            requests: sum("larder_successful_request_latency_seconds_count"),
            seconds: sum("larder_successful_request_latency_seconds_sum"),
            errors: sum("larder_user_errors_total") + sum("larder_system_errors_total"),
            read_units: sum("larder_consumed_read_capacity_units_total"),
            write_units: sum("larder_consumed_write_capacity_units_total"),
            bytes: sum("larder_store_live_bytes"),
            entities: self.entities.iter().map(of_entity).collect(),
            tables: self.tables.iter().map(of_table).collect(),
        });
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
    }

    fn told<'a>(&self, schemas: impl Iterator<Item = &'a Schema>) -> Told {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return Told::default();
        };
        let rate = |figure: fn(&Sample) -> f64| self.rates(figure);
        let latency = self.steps().map(|(before, after)| {
            let requests = grown(before.requests, after.requests);
            if requests > 0.0 { grown(before.seconds, after.seconds) * 1000.0 / requests } else { 0.0 }
        });
        Told {
            seconds: last.at.duration_since(first.at).as_secs(),
            requests: rate(|sample| sample.requests),
            latency: Series(latency.collect()),
            errors: rate(|sample| sample.errors),
            read_units: rate(|sample| sample.read_units),
            write_units: rate(|sample| sample.write_units),
            bytes: Series(self.samples.iter().map(|sample| sample.bytes).collect()),
            sources: schemas.flat_map(|schema| self.sources(schema)).collect(),
        }
    }

    fn growth(&self, table: &str) -> Option<(u64, Series)> {
        let at = self.tables.iter().position(|known| known == table)?;
        let known = || self.samples.iter().filter_map(|sample| Some((sample.at, *sample.tables.get(at)?)));
        let (first, last) = (known().next()?.0, known().next_back()?.0);
        Some((last.duration_since(first).as_secs(), Series(known().map(|(_, bytes)| bytes).collect())))
    }

    fn steps(&self) -> impl Iterator<Item = (&Sample, &Sample)> {
        self.samples.iter().zip(self.samples.iter().skip(1))
    }

    /// By how much a counter grew in a second, for each step.
    fn rates(&self, figure: impl Fn(&Sample) -> f64) -> Series {
        let rate = |(before, after): (&Sample, &Sample)| {
            let seconds = after.at.duration_since(before.at).as_secs_f64().max(0.001);
            grown(figure(before), figure(after)) / seconds
        };
        Series(self.steps().map(rate).collect())
    }

    /// The sources of a schema that were asked, or could have been.
    fn sources(&self, schema: &Schema) -> Vec<Source> {
        let mut by_source: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let of_schema = self.entities.iter().enumerate().filter(|(_, (system, _))| *system == schema.system);
        for (at, (_, entity)) in of_schema {
            let known = schema.tables.iter().flat_map(|table| &table.entities).find(|it| it.name == *entity);
            if let Some(source) = known.and_then(|entity| entity.source.as_deref()) {
                by_source.entry(source).or_default().push(at);
            }
        }
        let source = |(name, places): (&str, Vec<usize>)| {
            let figure = |sample: &Sample, which: usize| -> f64 {
                places.iter().filter_map(|at| sample.entities.get(*at)).map(|figures| figures[which]).sum()
            };
            let rates = |which: usize| self.rates(|sample| figure(sample, which));
            let price = schema.sources.iter().find(|it| it.name == name).and_then(|it| it.cost.as_ref());
            let price = price.and_then(|price| price.to_string().parse::<f64>().ok());
            let saved = self.samples.back().map_or(0.0, |sample| figure(sample, 2));
            Source {
                system: schema.system.clone(),
                name: name.to_owned(),
                hits: rates(0),
                misses: rates(1),
                calls: rates(3),
                dollars_saved: price.map(|price| price * saved),
                dollars: Series(
                    rates(2).0.iter().map(|calls| calls * 3600.0 * price.unwrap_or(0.0)).collect(),
                ),
            }
        };
        by_source.into_iter().map(source).collect()
    }
}

/// Counters that were begun anew have not gone back.
fn grown(before: f64, after: f64) -> f64 {
    (after - before).max(0.0)
}

impl Series {
    pub(crate) fn now(&self) -> f64 {
        self.0.last().copied().unwrap_or(0.0)
    }

    pub(crate) fn most(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }

    pub(crate) fn all(&self) -> f64 {
        self.0.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_schema::{Environment, NoFiles};

    fn schema() -> Schema {
        let text = "system pages\nsource web { cost $0.01 per call }\ntable pages {\n  key pk\n  ttl ttl\n  entity Page from web {\n    key \"PAGE#{id}\"\n    ttl 1h\n    input id: string nonempty\n    text: string\n  }\n}\n";
        Schema::load("pages.larder", text, &mut NoFiles, &Environment::new()).schema.expect("it is a schema")
    }

    fn metrics(requests: u32, hits: u32) -> String {
        format!(
            "# TYPE x counter\nlarder_successful_request_latency_seconds_bucket{{le=\"1\"}} 9\n\
             larder_successful_request_latency_seconds_count{{table=\"a\",operation=\"GetItem\"}} {requests}\n\
             larder_successful_request_latency_seconds_sum{{table=\"a\",operation=\"GetItem\"}} {}\n\
             larder_consumed_read_capacity_units_total{{table=\"a\",operation=\"GetItem\"}} {requests}\n\
             larder_cache_hits_total{{system=\"pages\",entity=\"Page\"}} {hits}\n\
             larder_cache_misses_total{{system=\"pages\",entity=\"Page\"}} 2\n\
             larder_saved_calls_total{{system=\"pages\",entity=\"Page\"}} {hits}\n\
             larder_source_calls_total{{system=\"pages\",entity=\"Page\"}} 2\n",
            f64::from(requests) / 1000.0
        )
    }

    #[test]
    fn what_was_counted_between_two_samples_is_told_as_rates_and_by_source() {
        let mut ring = Ring::default();
        let begin = Instant::now();
        for (at, requests, hits) in [(0, 0, 0), (10, 50, 20), (20, 150, 60)] {
            ring.take(&metrics(requests, hits), begin + Duration::from_secs(at));
        }
        let schema = schema();
        let told = ring.told([&schema].into_iter());
        assert_eq!(
            (told.seconds, told.requests, told.read_units),
            (20, Series(vec![5.0, 10.0]), Series(vec![5.0, 10.0]))
        );
        assert!((told.latency.now() - 1.0).abs() < 1e-9, "{:?}", told.latency);
        let web = &told.sources[0];
        assert_eq!((web.hits.clone(), web.misses.clone()), (Series(vec![2.0, 4.0]), Series(vec![0.0, 0.0])));
        assert!((web.dollars_saved.expect("it has a price") - 0.6).abs() < 1e-9);
        assert!((web.dollars.now() - 144.0).abs() < 1e-9, "4 calls a second at a cent");
    }

    #[test]
    fn a_table_grows_from_when_it_was_seen_first() {
        let mut ring = Ring::default();
        let begin = Instant::now();
        let sizes =
            ["", "larder_table_size_bytes{table=\"a\"} 10\n", "larder_table_size_bytes{table=\"a\"} 30\n"];
        for (at, more) in sizes.iter().enumerate() {
            ring.take(&format!("{}{more}", metrics(1, 1)), begin + Duration::from_secs(5 * at as u64));
        }
        assert_eq!(ring.growth("a"), Some((5, Series(vec![10.0, 30.0]))));
        assert_eq!(ring.growth("b"), None);
    }

    #[test]
    fn a_counter_that_begins_anew_has_not_gone_back_and_the_ring_stays_small() {
        let mut ring = Ring::default();
        let begin = Instant::now();
        for at in 0..SAMPLES_MAX as u64 + 100 {
            let requests = if at % 2 == 0 { 100 } else { 1 };
            ring.take(&metrics(requests, 1), begin + Duration::from_secs(at));
        }
        let told = ring.told(std::iter::empty());
        assert_eq!(told.requests.0.len(), SAMPLES_MAX - 1);
        assert!(told.requests.0.iter().all(|rate| *rate >= 0.0));
        ring.take("larder_broken{", begin);
        assert_eq!(ring.samples.len(), SAMPLES_MAX, "what cannot be read is no sample");
    }
}
