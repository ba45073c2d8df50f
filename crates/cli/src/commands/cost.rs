//! `larder cost`: what a system costs in a month, and what it saves.
//!
//! The traffic is the schema's workload, with what is said here in its place, or what a program or a server has
//! counted. The sizes are the schema's, or those of the tables as they are. The arithmetic is `larder_schema::cost`'s.

mod reading;
pub(super) mod show;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use larder::store::{Error, STORE_VARIABLE};
use larder::{Address, Schema, census};
use larder_model::Number;
use larder_schema::cost::{self, Load, Prices, Report, Stored, Terms, TrafficError};
use larder_schema::jiff::civil::Date;
use larder_schema::schema::{Period, Rate, Workload};
use reading::Measured;

use super::plan;
use crate::data::check_there;
use crate::{held, project, terminal};

/// Say what a system costs in a month, and what it saves
///
/// From the workload its schema declares, from that with other figures (--requests 5M --hit-rate 0.9), or from what was
/// counted (--measured http://127.0.0.1:8000/metrics). A month has 30 days. Amounts are rounded to a millionth of a dollar, once for
/// each line, and to the cent in the summary.
#[derive(Debug, Args)]
pub(crate) struct Cost {
    /// The system, or the file of its schema [default: all in schemas/ or here]
    #[arg(value_name = "SYSTEM")]
    system: Option<String>,
    #[command(flatten)]
    what_if: WhatIf,
    /// Take the traffic that was counted: /metrics of a server or program, its text in a file, or what
    /// `larder::price::measured` gives; `-` is stdin
    #[arg(long, value_name = "FILE|URL", conflicts_with = "WhatIf")]
    measured: Option<String>,
    /// Take what was counted after this earlier reading of /metrics
    #[arg(long, value_name = "FILE", requires = "measured")]
    since: Option<PathBuf>,
    /// Read /metrics twice, with so much time between, as in 1m
    #[arg(long = "for", value_name = "DURATION", requires = "measured", conflicts_with = "since", value_parser = humantime::parse_duration)]
    time: Option<Duration>,
    /// Take sizes from the tables as they are; DynamoDB counts them about every six hours
    #[arg(long, conflicts_with_all = ["item_size", "stored"])]
    from_store: bool,
    /// Where the tables are: a directory, memory:, dynamodb: (AWS) or dynamodb:http://HOST:PORT
    #[arg(long, env = STORE_VARIABLE, value_name = "STORE", default_value_t = Address::default())]
    store: Address,
    /// Take prices from a file instead of those built in
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Take the prices of this region [default: the tables' own, or us-east-1]
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// Take the prices of this day, such as 2024-06-01 [default: the newest]
    #[arg(long, value_name = "DATE")]
    date: Option<Date>,
    /// Charge the gigabytes that an account has free in a region
    #[arg(long)]
    no_free_storage: bool,
    /// Print the arithmetic of every amount
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// What `larder cost` was asked about.
pub(super) struct Asked {
    pub(super) paths: Vec<PathBuf>,
    prices: Prices,
    measured: Option<Measured>,
}

/// What systems cost, which say too little to know, and what went wrong.
#[derive(Default)]
pub(super) struct Reckoned {
    pub(super) reports: Vec<Report>,
    pub(super) left_out: Vec<String>,
    pub(super) failures: Vec<String>,
}

/// Figures in place of the declared ones.
#[derive(Debug, Args)]
struct WhatIf {
    /// Reads of the cache, such as 5M (a month) or 200/second
    #[arg(long, value_name = "N[/PERIOD]")]
    requests: Option<Figure>,
    /// Reads that the store sees
    #[arg(long, value_name = "N[/PERIOD]")]
    reads: Option<Figure>,
    /// Writes that the store sees
    #[arg(long, value_name = "N[/PERIOD]")]
    writes: Option<Figure>,
    /// The share of requests that is answered without the source, such as 0.9 or 90%
    #[arg(long, value_name = "SHARE")]
    hit_rate: Option<Share>,
    /// An average item, such as 2KB
    #[arg(long, value_name = "SIZE")]
    item_size: Option<Size>,
    /// All items together, such as 15MB
    #[arg(long, value_name = "SIZE")]
    stored: Option<Size>,
    /// All of it is of this entity
    #[arg(long, value_name = "ENTITY")]
    entity: Option<String>,
}

/// Why nobody knows what a system costs.
pub(super) enum Unknown {
    /// It says nothing of what is asked of it, and neither did the command.
    NoWorkload(String),
    Wrong(String),
}

impl From<String> for Unknown {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

impl From<TrafficError> for Unknown {
    fn from(error: TrafficError) -> Self {
        match error {
            TrafficError::NoWorkload(_) => Self::NoWorkload(error.to_string()),
            TrafficError::Entity { .. } | TrafficError::Measured(_) => Self::Wrong(error.to_string()),
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NoWorkload(why) | Self::Wrong(why)) = self;
        f.write_str(why)
    }
}

impl WhatIf {
    fn is_empty(&self) -> bool {
        self.requests.is_none()
            && self.reads.is_none()
            && self.writes.is_none()
            && self.hit_rate.is_none()
            && self.item_size.is_none()
            && self.stored.is_none()
            && self.entity.is_none()
    }

    /// The declared workload with these figures in it. Requests that are said here bring their own reads and writes.
    fn over(&self, declared: Option<&Workload>) -> Workload {
        let mut workload = declared.cloned().unwrap_or_default();
        if let Some(Figure(rate)) = self.requests {
            workload = Workload { requests: Some(rate), reads: None, writes: None, ..workload };
        }
        let rate = |said: Option<Figure>, declared: Option<Rate>| said.map(|figure| figure.0).or(declared);
        workload.reads = rate(self.reads, workload.reads);
        workload.writes = rate(self.writes, workload.writes);
        workload.hit_rate_percent = self.hit_rate.map(|share| share.0).or(workload.hit_rate_percent);
        workload.item_bytes = self.item_size.map(|size| size.0).or(workload.item_bytes);
        workload.stored_bytes = self.stored.map(|size| size.0).or(workload.stored_bytes);
        workload
    }
}

impl Cost {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let Reckoned { reports, left_out, mut failures } = self.reckon()?;
        terminal::print(&match self.json {
            true => reports.iter().map(|report| format!("{}\n", show::json(report))).collect(),
            false => self.text(&reports),
        })?;
        for why in left_out {
            eprintln!("larder: left out: {why}");
        }
        let last = failures.pop();
        for failure in failures {
            eprintln!("larder: {failure}");
        }
        last.map_or(Ok(ExitCode::SUCCESS), Err)
    }

    /// What each of the systems costs. Whoever asked for all of them is told of those that can be told, and which cannot;
    /// when none can, that is a failure.
    pub(super) fn reckon(&self) -> Result<Reckoned, String> {
        let asked = self.asked()?;
        let mut found = Reckoned::default();
        for path in &asked.paths {
            match self.of(path, &asked).map_err(Unknown::Wrong).and_then(|(_, report)| report) {
                Ok(report) => found.reports.push(report),
                Err(Unknown::NoWorkload(why)) => found.left_out.push(why),
                Err(Unknown::Wrong(why)) => found.failures.push(why),
            }
        }
        if found.reports.is_empty() {
            found.failures.append(&mut found.left_out);
        }
        Ok(found)
    }

    pub(super) fn text(&self, reports: &[Report]) -> String {
        let texts: Vec<String> = reports.iter().map(|report| show::text(report, self.explain)).collect();
        texts.join("\n")
    }

    /// Which systems are meant, at which prices, and what was counted.
    pub(super) fn asked(&self) -> Result<Asked, String> {
        let paths = match &self.system {
            Some(name) => vec![project::named(name)?],
            None if self.what_if.is_empty() && self.measured.is_none() => project::schemas(&[])?,
            None => vec![project::only()?],
        };
        let prices = match &self.prices {
            None => Prices::built_in(),
            Some(path) => {
                let text = project::text(path)
                    .map_err(|error| format!("cannot read the prices in {}: {error}", path.display()))?;
                Prices::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?
            }
        };
        let measured = self.measured.as_deref();
        let measured =
            measured.map(|from| reading::read(from, self.since.as_deref(), self.time)).transpose()?;
        Ok(Asked { paths, prices, measured })
    }

    /// A system, and what it costs or why nobody knows.
    pub(super) fn of(&self, path: &Path, asked: &Asked) -> Result<(Schema, Result<Report, Unknown>), String> {
        let broken = || format!("{} has errors: nothing was reckoned", path.display());
        let schema = terminal::sound(project::load(path)?).ok_or_else(broken)?;
        let report = self.report(&schema, &asked.prices, asked.measured.as_ref());
        Ok((schema, report))
    }

    pub(super) fn address(&self) -> &Address {
        &self.store
    }

    /// The arithmetic, if it is wanted.
    pub(super) fn explained(&self, report: &Report) -> Option<String> {
        self.explain.then(|| show::text(report, true))
    }

    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    fn report(
        &self,
        schema: &Schema,
        prices: &Prices,
        measured: Option<&Measured>,
    ) -> Result<Report, Unknown> {
        let stored = if self.from_store { self.stored(schema)? } else { BTreeMap::new() };
        let mut quiet = None;
        let load = match measured {
            Some(Measured::Document(text)) => Load::measured(schema, text)?,
            Some(Measured::Reading(reading)) => Load::counted(schema, reading, &project::environment())?,
            None => {
                let mut workload = self.what_if.over(schema.workload.as_ref());
                if self.from_store {
                    (workload.item_bytes, workload.stored_bytes) = (None, None);
                }
                let mut load = Load::of(schema, &workload, self.what_if.entity.as_deref())?;
                if !self.what_if.is_empty() {
                    load.origin = "the figures given here".to_owned();
                }
                if let Some(workload) = workload.at_its_lower_end() {
                    quiet = Some(Load::of(schema, &workload, self.what_if.entity.as_deref())?);
                }
                load
            }
        };
        let terms = Terms {
            prices,
            region: self.region.as_deref(),
            date: self.date,
            free_storage: !self.no_free_storage,
            environment: &project::environment(),
            stored: &stored,
        };
        let of = |load| cost::report(schema, load, &terms).map_err(|error| Unknown::Wrong(error.to_string()));
        let mut report = of(&load)?;
        if let Some(quiet) = &quiet {
            let store = of(quiet)?.store();
            report.notes.insert(0, format!("the workload is a range, and its higher end counts; at the lower end the store costs {store}"));
        }
        Ok(report)
    }

    /// What the tables hold, by the schema's names of them.
    fn stored(&self, schema: &Schema) -> Result<BTreeMap<String, Stored>, String> {
        check_there(&self.store)?;
        let environment = project::environment();
        let found = plan::runtime()?.block_on(async {
            let store = held::open(&self.store).await?;
            let mut found = BTreeMap::new();
            for table in &schema.tables {
                let name = schema.table_name(table, &environment).map_err(|error| error.to_string());
                let store = store.at(table.region.as_deref());
                let sizes = match &name {
                    Ok(name) => census::size(&store, name).await?,
                    Err(_) => None,
                };
                found.insert(table.name.clone(), name.map(|name| (name, sizes)));
            }
            Ok::<_, Error>(found)
        });
        let mut stored = BTreeMap::new();
        for (table, sizes) in found.map_err(|error| plan::advise(&self.store, &error))? {
            let (name, sizes) = sizes?;
            let sizes = sizes.ok_or_else(|| {
                format!("there is no table {name} in {}: create it with `larder apply`", self.store)
            })?;
            let indexes = sizes.indexes.into_iter().map(|index| (index.name, (index.items, index.bytes)));
            let sizes = Stored { items: sizes.items, bytes: sizes.bytes, indexes: indexes.collect() };
            stored.insert(table, sizes);
        }
        Ok(stored)
    }
}

/// `5M` a month, or `200/second`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figure(Rate);

impl FromStr for Figure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "give a number, such as 500000, 5M or 200/second".to_owned();
        let (number, per) = match text.split_once('/') {
            None => (text, Period::Month),
            Some((number, name)) => {
                let per = Period::ALL.into_iter().find(|period| period.name() == name).ok_or_else(|| {
                    let names: Vec<&str> = Period::ALL.iter().map(|period| period.name()).collect();
                    format!("`{name}` is not a period; there are {}", names.join(", "))
                })?;
                (number, per)
            }
        };
        let (digits, factor) = match number.strip_suffix(['K', 'k', 'M', 'G', 'B']) {
            None => (number, 1.0),
            Some(digits) if number.ends_with(['K', 'k']) => (digits, 1e3),
            Some(digits) if number.ends_with('M') => (digits, 1e6),
            Some(digits) => (digits, 1e9),
        };
        let parsed: Number = digits.replace('_', "").parse().map_err(|_| wrong())?;
        let figure = parsed.to_string().parse::<f64>().map_err(|_| wrong())? * factor;
        if parsed.is_negative() || !figure.is_finite() {
            return Err(wrong());
        }
        Ok(Self(Rate { from: figure, to: figure, per }))
    }
}

/// `0.9` or `90%`, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Share(Number);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = match text.strip_suffix('%') {
            Some(percent) => percent.parse::<Number>().ok(),
            None => text.parse::<Number>().ok().and_then(|share| {
                Number::from_parts(share.is_negative(), share.digits(), share.magnitude() + 2).ok()
            }),
        };
        let fitting = percent.filter(|percent| !percent.is_negative() && *percent <= Number::from(100));
        fitting.map(Self).ok_or_else(|| "give a share, such as 0.9 or 90%".to_owned())
    }
}

/// `2KB`, where a KB has 1024 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Size(u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let shift = ["B", "KB", "MB", "GB", "TB"].iter().position(|known| *known == unit);
        let shift = if unit.is_empty() { Some(0) } else { shift };
        let bytes = shift.and_then(|shift| number.parse::<u64>().ok()?.checked_mul(1 << (10 * shift)));
        bytes.map(Self).ok_or_else(|| "give a size, such as 300B, 2KB or 15MB".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_with_their_period() {
        for (text, to, per) in [
            ("5M", 5e6, Period::Month),
            ("1_000", 1e3, Period::Month),
            ("2.5k", 2500.0, Period::Month),
            ("200/second", 200.0, Period::Second),
            ("1G/year", 1e9, Period::Year),
        ] {
            assert_eq!(text.parse(), Ok(Figure(Rate { from: to, to, per })), "{text}");
        }
        for text in ["", "M", "-5", "5X", "5/fortnight", "1e400"] {
            assert!(text.parse::<Figure>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_is_a_fraction_or_in_percent() {
        for (text, percent) in [("0.9", "90"), ("90%", "90"), ("1", "100"), ("0", "0"), ("99.95%", "99.95")] {
            assert_eq!(text.parse(), Ok(Share(percent.parse().unwrap())), "{text}");
        }
        for text in ["90", "101%", "-0.1", "most", "%"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_as_a_schema_reads_them() {
        for (text, bytes) in [("300B", 300), ("2KB", 2048), ("15MB", 15 << 20), ("7", 7), ("1TB", 1 << 40)] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "KB", "2kb", "2.5KB", "99999999999TB", "-1B"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
