//! What the entities of a system are asked for in a month: declared, or measured.
//!
//! A month has 30 days. Of a declared range the higher figure counts. A declared workload is the system's; it is
//! spread evenly, requests over the entities that have a source (over all, when none has), reads and writes over
//! all. What cannot be spread evenly goes to the first.
//!
//! Counts are rounded up and hits down, so that neither costs nor savings look better than they are.

use std::collections::BTreeMap;

use larder_model::Number;
use serde_json::{Map, Value as Json};

use super::Consumed;
use crate::schema::{Entity, Rate, Schema, Workload};

pub const MONTH_SECONDS: u64 = 30 * 86_400;
const MONTH_MILLIS: u128 = MONTH_SECONDS as u128 * 1000;
const MILLION: u128 = 1_000_000;

/// What one entity is asked for in a month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads of the cache, or of the records.
    pub requests: u64,
    /// Those that were answered without the source.
    pub hits: u64,
    /// Calls of the source that they made unnecessary: a hit that begins a refresh does not.
    pub calls_saved: u64,
    /// Reads and writes that the store sees.
    pub reads: u64,
    pub writes: u64,
    /// Calls of the source that are made.
    pub calls: u64,
    /// An average item, if it is known.
    pub item_bytes: Option<u64>,
    /// All items together, if it is known.
    pub stored_bytes: Option<u64>,
}

/// The traffic of a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Where the figures are from, in words.
    pub origin: String,
    /// By entity.
    pub entities: BTreeMap<String, Traffic>,
    /// The figures are the system's, and were spread over its entities.
    pub is_spread: bool,
    /// Units that were counted, by the schema's names of the tables; they stand in place of reads and writes.
    pub consumed: BTreeMap<String, Vec<Consumed>>,
}

/// Why there is no traffic to reckon with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrafficError {
    #[error(
        "{0} declares no workload: add `workload {{ requests 1_000_000 per month }}` to it, or say --requests, --reads, --writes or --measured"
    )]
    NoWorkload(String),
    #[error("{system} has no entity `{name}`; there are {known}")]
    Entity { system: String, name: String, known: String },
    #[error("the measured traffic cannot be read: {0}")]
    Measured(String),
}

impl Load {
    /// The traffic that a workload says, of all entities or of one.
    pub fn of(schema: &Schema, workload: &Workload, entity: Option<&str>) -> Result<Self, TrafficError> {
        if workload.requests.is_none() && workload.reads.is_none() && workload.writes.is_none() {
            return Err(TrafficError::NoWorkload(schema.system.clone()));
        }
        let all: Vec<&Entity> = entities(schema).collect();
        let all = match entity {
            None => all,
            Some(name) => vec![find(schema, name)?],
        };
        let sourced: Vec<&Entity> = all.iter().copied().filter(|entity| entity.source.is_some()).collect();
        let asked = if sourced.is_empty() { &all } else { &sourced };
        let hit_millionths = workload.hit_rate_percent.map_or(0, millionths_of_percent);
        let monthly = |rate: Option<Rate>| rate.map(|rate| monthly(&rate));
        let mut entities = BTreeMap::new();
        for (at, entity) in all.iter().enumerate() {
            let place = asked.iter().position(|other| other.name == entity.name);
            let requests = monthly(workload.requests).zip(place);
            let requests = requests.map(|(total, place)| share(total, place, asked.len()));
            let spread = |total: Option<u64>| total.map(|total| share(total, at, all.len()));
            let (reads, writes) = (spread(monthly(workload.reads)), spread(monthly(workload.writes)));
            let asked = requests.unwrap_or(0);
            let hits = (u128::from(asked) * hit_millionths / MILLION) as u64;
            let is_sourced = entity.source.is_some();
            let is_fetched = is_sourced || workload.hit_rate_percent.is_some();
            entities.insert(
                entity.name.clone(),
                Traffic {
                    requests: requests.or(reads).unwrap_or(0),
                    hits,
                    calls_saved: hits,
                    reads: reads.unwrap_or(asked),
                    // What is missed is fetched and kept; records are not written because somebody looked.
                    writes: writes.unwrap_or(if is_fetched { asked - hits } else { 0 }),
                    calls: if is_sourced { asked - hits } else { 0 },
                    item_bytes: workload.item_bytes,
                    stored_bytes: spread(workload.stored_bytes),
                },
            );
        }
        Ok(Self {
            origin: "the workload".to_owned(),
            is_spread: entities.len() > 1,
            entities,
            consumed: BTreeMap::new(),
        })
    }

    /// The traffic that a program has counted, taken for a month.
    ///
    /// The document is what `larder::price::measured` gives: how many `seconds` were counted, and of each of the
    /// `entities` its `hits`, `misses`, `calls_saved`, `loads` and `writes`. Without `calls_saved`, each hit saved one.
    /// `reads` (of the store, when the process answers some itself), `item_bytes` and `stored_bytes` may be added.
    pub fn measured(schema: &Schema, text: &str) -> Result<Self, TrafficError> {
        let wrong = |problem: String| TrafficError::Measured(problem);
        let document: Json = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let Json::Object(document) = document else { return Err(wrong("it is no JSON object".to_owned())) };
        known(&document, &["system", "seconds", "entities"], "the document").map_err(wrong)?;
        match document.get("system") {
            Some(Json::String(system)) if *system == schema.system => {}
            None => {}
            Some(other) => {
                return Err(wrong(format!(
                    "it is of the system {other}, and {} is asked for",
                    schema.system
                )));
            }
        }
        let seconds = count(&document, "seconds").map_err(wrong)?;
        let seconds = seconds.filter(|seconds| *seconds > 0);
        let seconds = seconds.ok_or_else(|| wrong("`seconds` must say how long was counted".to_owned()))?;
        let Some(Json::Object(measured)) = document.get("entities") else {
            return Err(wrong("it has no object called `entities`".to_owned()));
        };
        let mut entities = BTreeMap::new();
        for (name, json) in measured {
            find(schema, name)?;
            let Json::Object(counts) = json else { return Err(wrong(format!("{name} is no JSON object"))) };
            let traffic = counted(counts, seconds).map_err(|problem| wrong(format!("{name}: {problem}")))?;
            entities.insert(name.clone(), traffic);
        }
        let origin = format!("{seconds} seconds of measured traffic, taken for a month");
        Ok(Self { origin, entities, is_spread: false, consumed: BTreeMap::new() })
    }

    /// A figure of all entities together.
    pub fn sum(&self, figure: impl Fn(&Traffic) -> u64) -> u64 {
        self.entities.values().fold(0, |sum, traffic| sum.saturating_add(figure(traffic)))
    }
}

/// What was counted, as a month.
fn counted(counts: &Map<String, Json>, seconds: u64) -> Result<Traffic, String> {
    let names = ["hits", "misses", "calls_saved", "loads", "writes", "reads", "item_bytes", "stored_bytes"];
    known(counts, &names, "it")?;
    let month = |number: u64| -> Result<u64, String> {
        let scaled = (u128::from(number) * u128::from(MONTH_SECONDS)).div_ceil(u128::from(seconds));
        u64::try_from(scaled).map_err(|_| "a month of it is more than can be counted".to_owned())
    };
    // What is saved is rounded down.
    let at_least = |number: u64| {
        let scaled = u128::from(number) * u128::from(MONTH_SECONDS) / u128::from(seconds);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    };
    let figure = |name: &str| count(counts, name).map(|figure| figure.unwrap_or(0));
    let (hits, misses, loads) = (figure("hits")?, figure("misses")?, figure("loads")?);
    let asked = hits.checked_add(misses).ok_or("it counts more reads than there are numbers")?;
    Ok(Traffic {
        requests: month(asked)?,
        hits: at_least(hits),
        calls_saved: at_least(count(counts, "calls_saved")?.unwrap_or(hits)),
        reads: month(count(counts, "reads")?.unwrap_or(asked))?,
        writes: month(figure("writes")?)?,
        calls: month(loads)?,
        item_bytes: count(counts, "item_bytes")?,
        stored_bytes: count(counts, "stored_bytes")?,
    })
}

fn known(members: &Map<String, Json>, names: &[&str], whole: &str) -> Result<(), String> {
    match members.keys().find(|name| !names.contains(&name.as_str())) {
        Some(unknown) => Err(format!("{whole} has `{unknown}`; known are {}", names.join(", "))),
        None => Ok(()),
    }
}

fn count(members: &Map<String, Json>, name: &str) -> Result<Option<u64>, String> {
    match members.get(name) {
        None => Ok(None),
        Some(json) => {
            json.as_u64().map(Some).ok_or_else(|| format!("`{name}` must be a whole number, not negative"))
        }
    }
}

pub(crate) fn entities(schema: &Schema) -> impl Iterator<Item = &Entity> {
    schema.tables.iter().flat_map(|table| &table.entities)
}

fn find<'a>(schema: &'a Schema, name: &str) -> Result<&'a Entity, TrafficError> {
    let found = schema.entity(name).map(|(_, entity)| entity);
    found.ok_or_else(|| TrafficError::Entity {
        system: schema.system.clone(),
        name: name.to_owned(),
        known: entities(schema).map(|entity| entity.name.as_str()).collect::<Vec<_>>().join(", "),
    })
}

/// An even share; the first gets what is left over.
fn share(total: u64, at: usize, of: usize) -> u64 {
    let of = of as u64;
    total / of + if at == 0 { total % of } else { 0 }
}

/// The higher figure in a month, rounded up. The rate's floats are whole or short decimals, and are read as such.
pub(crate) fn monthly(rate: &Rate) -> u64 {
    if rate.to >= u64::MAX as f64 {
        return u64::MAX;
    }
    let number = rate.to.to_string().parse::<Number>().unwrap_or(Number::ZERO);
    let millionths = scaled(&number, 6);
    let per = rate.per.millis() as u128;
    let total = millionths.saturating_mul(MONTH_MILLIS).div_ceil(per.saturating_mul(MILLION));
    u64::try_from(total).unwrap_or(u64::MAX)
}

fn millionths_of_percent(percent: Number) -> u128 {
    scaled(&percent, 4).min(MILLION)
}

/// The number times ten to the power of `places`, down to a whole one.
fn scaled(number: &Number, places: i16) -> u128 {
    let digits = number.digits();
    let count = digits.checked_ilog10().map_or(1, |log| log + 1);
    let exponent = i32::from(number.magnitude()) - count as i32 + 1 + i32::from(places);
    let power = 10u128.checked_pow(exponent.unsigned_abs());
    match (exponent >= 0, power) {
        (true, Some(power)) => digits.saturating_mul(power),
        (true, None) => u128::MAX,
        (false, Some(power)) => digits / power,
        (false, None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Period;

    #[test]
    fn a_rate_is_a_month_of_its_higher_figure() {
        for (to, per, expected) in [
            (1_000_000.0, Period::Month, 1_000_000),
            (500.0, Period::Day, 15_000),
            (50.0, Period::Week, 215), // 214.28…, up
            (0.1, Period::Second, 259_200),
            (1e9, Period::Day, 30_000_000_000),
            (0.0, Period::Day, 0),
            (365.0, Period::Year, 30),
            (1e300, Period::Second, u64::MAX),
        ] {
            assert_eq!(monthly(&Rate { from: 0.0, to, per }), expected, "{to} per {}", per.name());
        }
    }

    #[test]
    fn a_share_in_percent_is_exact() {
        for (percent, expected) in [("80", 800_000), ("99.99", 999_900), ("0", 0), ("100", 1_000_000)] {
            assert_eq!(millionths_of_percent(percent.parse().unwrap()), expected);
        }
    }

    #[test]
    fn shares_add_up() {
        assert_eq!((0..3).map(|at| share(10, at, 3)).collect::<Vec<_>>(), [4, 3, 3]);
    }
}
