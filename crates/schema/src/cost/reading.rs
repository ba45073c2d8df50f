//! What a server and its programs have counted: the text of `/metrics`, as traffic.
//!
//! A server counts consumed units by table, operation and index; a program that uses the layer counts hits, misses and
//! calls by entity. One text may hold both, of many systems. What is of other systems is passed over.
//!
//! Counters begin when the server or the program did, which the text says; of two readings the difference counts.

use std::collections::BTreeMap;

use super::{
    Kind, Ledger, Line, Load, MILLION, MONTH_SECONDS, Quantity, Traffic, TrafficError, grouped, halved,
};
use crate::schema::{Environment, Schema};

const READS: &str = "larder_consumed_read_capacity_units_total";
const WRITES: &str = "larder_consumed_write_capacity_units_total";
const REQUESTS: &str = "larder_successful_request_latency_seconds_count";
const UPTIME: &str = "larder_uptime_seconds";
const SYSTEM_UPTIME: &str = "larder_system_uptime_seconds";

/// Units that one operation consumed of a table, or of one of its indexes, in a month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumed {
    pub operation: String,
    pub index: Option<String>,
    /// Successful requests; of an index they are not counted apart.
    pub requests: Option<u64>,
    pub read_halves: u128,
    pub write_units: u128,
}

/// One reading of `/metrics`, or the difference of two.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    samples: BTreeMap<(String, Labels), f64>,
}

type Labels = BTreeMap<String, String>;

impl Reading {
    /// Reads Prometheus' text format. Names that mean nothing here are passed over.
    pub fn parse(text: &str) -> Result<Self, TrafficError> {
        let mut samples = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') || !line.starts_with("larder_") {
                continue;
            }
            let (key, value) = sample(line).ok_or_else(|| {
                TrafficError::Measured(format!("line {} is not a metric as Prometheus writes it", at + 1))
            })?;
            samples.insert(key, value);
        }
        Ok(Self { samples })
    }

    /// What was counted after an earlier reading of the same.
    pub fn since(&self, earlier: &Self) -> Result<Self, TrafficError> {
        let mut samples = BTreeMap::new();
        for (key, value) in &self.samples {
            let grown = value - earlier.samples.get(key).copied().unwrap_or(0.0);
            let only_grows = key.0.ends_with("_total") || key.0.ends_with("_count") || is_uptime(&key.0);
            if only_grows && grown < 0.0 {
                return Err(TrafficError::Measured(format!(
                    "{} is less than in the earlier reading: it was restarted in between, or the readings are in the wrong order",
                    key.0
                )));
            }
            samples.insert(key.clone(), grown);
        }
        Ok(Self { samples })
    }

    /// Samples of a name, with their labels.
    fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a Labels, f64)> {
        let samples = self.samples.iter().filter(move |((known, _), _)| known == name);
        samples.map(|((_, labels), value)| (labels, *value))
    }

    /// All samples of a name together that have these labels.
    pub fn sum(&self, name: &str, wanted: &[(&str, &str)]) -> f64 {
        let chosen = self.of(name).filter(|(labels, _)| {
            wanted.iter().all(|(label, value)| labels.get(*label).is_some_and(|known| known == value))
        });
        chosen.map(|(_, value)| value).sum()
    }

    /// How long was counted, in milliseconds.
    fn millis(&self, name: &str, wanted: &[(&str, &str)]) -> Result<u128, TrafficError> {
        let millis = (self.sum(name, wanted) * 1000.0) as u128;
        if millis == 0 {
            return Err(TrafficError::Measured(format!(
                "it does not say how long was counted: {name} is missing or 0"
            )));
        }
        Ok(millis)
    }
}

fn is_uptime(name: &str) -> bool {
    name == UPTIME || name == SYSTEM_UPTIME
}

/// `name{label="value",…} 1.5`, perhaps with a time after it.
fn sample(line: &str) -> Option<((String, Labels), f64)> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            rest = rest.trim_start_matches([',', ' ']);
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.insert(label.to_owned(), value);
            rest = after;
        }
    }
    let value = rest.split_whitespace().next()?.parse::<f64>().ok()?;
    Some(((name.to_owned(), labels), value))
}

/// The text up to the closing quote, and what is after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match letters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

impl Load {
    /// The traffic of a system that was counted, taken for a month.
    pub fn counted(
        schema: &Schema,
        reading: &Reading,
        environment: &Environment,
    ) -> Result<Self, TrafficError> {
        let mut consumed = BTreeMap::new();
        let mut names = Vec::new();
        for table in &schema.tables {
            let name = schema
                .table_name(table, environment)
                .map_err(|error| TrafficError::Measured(error.to_string()))?;
            let units = of_table(reading, name.as_str())?;
            if !units.is_empty() {
                consumed.insert(table.name.clone(), units);
            }
            names.push(name.to_string());
        }
        let mut entities = BTreeMap::new();
        for entity in super::traffic::entities(schema) {
            let labels = [("system", schema.system.as_str()), ("entity", entity.name.as_str())];
            let count = |name: &str| reading.sum(name, &labels) as u128;
            let (hits, misses) = (count("larder_cache_hits_total"), count("larder_cache_misses_total"));
            let (loads, writes) = (count("larder_source_calls_total"), count("larder_writes_total"));
            if hits + misses + loads + writes == 0 {
                continue;
            }
            let millis = reading.millis(SYSTEM_UPTIME, &labels[..1])?;
            let month = |count: u128| u64::try_from(monthly(count, millis)).unwrap_or(u64::MAX);
            // What is saved is rounded down.
            let at_least = |count: u128| {
                let month = count.saturating_mul(u128::from(MONTH_SECONDS) * 1000) / millis;
                u64::try_from(month).unwrap_or(u64::MAX)
            };
            entities.insert(
                entity.name.clone(),
                Traffic {
                    requests: month(hits + misses),
                    hits: at_least(hits),
                    calls_saved: at_least(count("larder_saved_calls_total")),
                    reads: month(hits + misses),
                    writes: month(writes),
                    calls: month(loads),
                    item_bytes: None,
                    stored_bytes: None,
                },
            );
        }
        let millis = if consumed.is_empty() {
            if entities.is_empty() {
                return Err(TrafficError::Measured(format!(
                    "nothing in it is of {}: no request of {}, and no read of its entities was counted",
                    schema.system,
                    names.join(" or ")
                )));
            }
            reading.millis(SYSTEM_UPTIME, &[("system", &schema.system)])?
        } else {
            reading.millis(UPTIME, &[])?
        };
        let origin =
            format!("{} seconds of counted traffic, taken for a month", grouped(millis.div_ceil(1000)));
        Ok(Self { origin, entities, is_spread: false, consumed })
    }
}

fn of_table(reading: &Reading, table: &str) -> Result<Vec<Consumed>, TrafficError> {
    let mut found: BTreeMap<(Option<&str>, &str), (f64, f64)> = BTreeMap::new();
    for name in [READS, WRITES] {
        for (labels, units) in reading.of(name) {
            if labels.get("table").is_none_or(|known| known != table) {
                continue;
            }
            let operation = labels.get("operation").map_or("", String::as_str);
            let entry = found.entry((labels.get("index").map(String::as_str), operation)).or_default();
            if name == READS { entry.0 += units } else { entry.1 += units }
        }
    }
    found.retain(|_, (reads, writes)| *reads + *writes > 0.0);
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let millis = reading.millis(UPTIME, &[])?;
    let consumed = found.into_iter().map(|((index, operation), (reads, writes))| {
        let requests = reading.sum(REQUESTS, &[("table", table), ("operation", operation)]) as u128;
        let requests = u64::try_from(monthly(requests, millis)).unwrap_or(u64::MAX);
        Consumed {
            operation: operation.to_owned(),
            requests: index.is_none().then_some(requests),
            index: index.map(str::to_owned),
            read_halves: monthly((reads * 2.0) as u128, millis),
            write_units: monthly(writes.ceil() as u128, millis),
        }
    });
    Ok(consumed.collect())
}

/// What was counted, as a month, rounded up.
fn monthly(count: u128, millis: u128) -> u128 {
    count.saturating_mul(u128::from(MONTH_SECONDS) * 1000).div_ceil(millis)
}

impl Ledger<'_> {
    /// Units as they were counted.
    pub(super) fn enter_counted(&mut self, consumed: &[Consumed]) {
        for Consumed { operation, index, requests, read_halves, write_units } in consumed {
            self.requests = self.requests.saturating_add(requests.unwrap_or(0));
            let place =
                index.as_ref().map(|name| self.table.indexes.iter().position(|known| known.name == *name));
            let used = match place {
                None => Some(&mut self.used),
                Some(at) => at.map(|at| &mut self.indexes[at].0),
            };
            if let Some(used) = used {
                used.read_halves = used.read_halves.saturating_add(*read_halves);
                used.write_units = used.write_units.saturating_add(*write_units);
            }
            for (kind, quantity, units, amount) in [
                (
                    Kind::Reads,
                    Quantity::ReadHalves(*read_halves),
                    halved(*read_halves),
                    self.entry.read_million.times(*read_halves, 2 * MILLION),
                ),
                (
                    Kind::Writes,
                    Quantity::WriteUnits(*write_units),
                    grouped(*write_units),
                    self.entry.write_million.times(*write_units, MILLION),
                ),
            ] {
                if units == "0" {
                    continue;
                }
                self.lines.push(Line {
                    kind,
                    entity: None,
                    operation: Some(operation.clone()),
                    index: index.clone(),
                    count: *requests,
                    quantity,
                    amount,
                    how: format!("{units} units, as counted"),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_read_with_its_labels() {
        let text = "# HELP larder_x_total X.\nlarder_x_total{table=\"a\\\"b\",index=\"i\"} 1.5\nlarder_y 3 1700000000\ngo_threads 5\n";
        let reading = Reading::parse(text).unwrap();
        assert_eq!(reading.sum("larder_x_total", &[("table", "a\"b")]), 1.5);
        assert_eq!(reading.sum("larder_y", &[]), 3.0);
        assert_eq!(reading.samples.len(), 2);
        for wrong in ["larder_x", "larder_x{a=\"b} 1", "larder_x{a} 1", "larder_x many"] {
            let error = Reading::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("line 1 is not a metric"), "{error}");
        }
    }

    #[test]
    fn of_two_readings_the_difference_counts_and_a_restart_is_seen() {
        let [before, after] = [3.0, 10.0].map(|count| {
            Reading::parse(&format!("larder_x_total {count}\nlarder_uptime_seconds {}\n", count * 2.0))
                .unwrap()
        });
        let grown = after.since(&before).unwrap();
        assert_eq!((grown.sum("larder_x_total", &[]), grown.millis(UPTIME, &[])), (7.0, Ok(14_000)));
        assert!(before.since(&after).unwrap_err().to_string().contains("restarted in between"));
    }
}
