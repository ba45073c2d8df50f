//! What a system costs in a month, and what it saves: traffic × prices, with every step written down.
//!
//! Units are DynamoDB's: a read unit for 4 KB, half of one when the read is eventually consistent, a write unit
//! for 1 KB, and the same again for every index an item is in. An index whose key is a state or the time of the
//! write is counted twice: the item leaves one place there and enters another. Where a figure is not known the
//! higher one is taken, so a report errs towards costing more.
//!
//! What the layer does besides is counted too: `flight` writes a lease for each call of the source, `negative` an absence
//! for each call that brought nothing to write, and a `sequence` looks at a hundred numbers for each record. What may be
//! given past its time (`stale`, `grace`) is stored that much longer.
//!
//! Saved are the calls that a hit made unnecessary, and no others: not a `get` that found nothing, not a read that waited
//! for another's call, and not one that an open breaker turned away.
//!
//! Promises:
//! - Arithmetic is in integers. A line is rounded once, to a millionth of a dollar, and totals are sums of lines.
//! - Every amount has its arithmetic beside it ([`Line::how`]), with the figures it was made of.
//! - Nothing is free because it was forgotten: what has no price is an error that names the next step.
//!
//! Not counted: data transfer, streams, backups made by hand, KMS requests; and, unless units were counted rather
//! than reckoned, transactions (twice the units) and queries, which a workload does not tell apart from reads.

mod money;
mod prices;
mod reading;
mod size;
mod traffic;

use std::collections::BTreeMap;

use jiff::civil::Date;
use larder_model::limits::{READ_UNIT_BYTES, WRITE_UNIT_BYTES};

use crate::schema::{Billing, Consistency, Entity, Environment, Index, Projection, Schema, Table, Ttl, Type};
use crate::value::Value;

pub use money::{Money, Price, PriceTextError};
pub use prices::{Entry, PriceError, Prices};
pub use reading::{Consumed, Reading};
pub use traffic::{Load, MONTH_SECONDS, Traffic, TrafficError};

/// Where a table is when neither it nor anybody says.
pub const DEFAULT_REGION: &str = "us-east-1";
/// Numbers that are looked at together when a `sequence` takes the first free one. Each costs a read.
pub const SEQUENCE_PROBED_AT_ONCE: u32 = 100;
/// What a lease is written for, in the arithmetic.
const LEASED: &str = "a lease on the item, for each call of the source";
/// What DynamoDB bills for each item besides its bytes.
const ITEM_OVERHEAD_BYTES: u64 = 100;
/// How much of a provisioned capacity is meant to be used: the target of auto scaling unless said otherwise.
const TARGET_PERCENT: u128 = 70;
const MONTH_HOURS: u128 = MONTH_SECONDS as u128 / 3600;
const MONTH_MILLIS: u128 = MONTH_SECONDS as u128 * 1000;
const MILLION: u128 = 1_000_000;

/// Halves of a read unit to read so many bytes in one request.
///
/// ```
/// use larder_schema::cost::read_halves;
///
/// assert_eq!((read_halves(5_000, true), read_halves(5_000, false)), (4, 2)); // 4 KB a unit
/// ```
pub fn read_halves(bytes: u64, consistent: bool) -> u64 {
    bytes.div_ceil(READ_UNIT_BYTES as u64).max(1) * if consistent { 2 } else { 1 }
}

/// Units to write or delete an item of so many bytes.
///
/// ```
/// assert_eq!(larder_schema::cost::write_units(5_000), 5); // 1 KB a unit
/// ```
pub fn write_units(bytes: u64) -> u64 {
    bytes.div_ceil(WRITE_UNIT_BYTES as u64).max(1)
}

/// What a write of an item makes of an index.
struct Entered {
    /// Of the entry.
    bytes: u64,
    from: &'static str,
    /// How many entries are written: two when the old one goes.
    places: u64,
}

impl Entered {
    /// `None` when the item is not in it.
    fn of(
        table: &Table,
        index: &Index,
        entity: &Entity,
        attributes: &[(String, u64)],
        item_bytes: u64,
    ) -> Option<Self> {
        let entry = size::index_entry(table, index, attributes)?;
        let (bytes, from) = match index.projection {
            Projection::All => (item_bytes, "all of the item"),
            Projection::Keys | Projection::Include(_) => (entry.min(item_bytes), "what is projected"),
        };
        let places = if size::moves(entity, index) { 2 } else { 1 };
        Some(Self { bytes, from, places })
    }
}

/// What an index costs for one entity, at the prices that are built in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexPrice {
    /// Of an entry: as the workload says, or reckoned from the schema.
    pub bytes: u64,
    /// For each write of an item, besides those of the table.
    pub write_units: u64,
    /// For each entry that is read.
    pub read_halves: u64,
    /// For a million writes and for a million entries read, on demand in the table's region.
    pub million: Option<(Money, Money)>,
}

/// What an index adds to writes of an entity, and what reading from it costs; `None` when the entity is not in it.
pub fn index_price(schema: &Schema, table: &Table, index: &Index, entity: &Entity) -> Option<IndexPrice> {
    let attributes = size::attributes(schema, table, entity);
    let said = schema.workload.as_ref().and_then(|workload| workload.item_bytes);
    let item_bytes = said.unwrap_or_else(|| size::item(&attributes));
    let Entered { bytes, places, .. } = Entered::of(table, index, entity, &attributes, item_bytes)?;
    let (write_units, read_halves) = (write_units(bytes) * places, read_halves(bytes, false));
    let prices = Prices::built_in();
    let region = table.region.as_deref().unwrap_or(DEFAULT_REGION);
    let entry = prices.find(region, table.class, None).ok();
    let million = entry.map(|entry| {
        let halves = if entry.whole_reads { read_halves * 2 } else { read_halves };
        (entry.write_million.times(write_units.into(), 1), entry.read_million.times(halves.into(), 2))
    });
    Some(IndexPrice { bytes, write_units, read_halves, million })
}

/// At which prices, and what else is known.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    pub prices: &'a Prices,
    /// Instead of the tables' own.
    pub region: Option<&'a str>,
    /// The newest prices, when none is given.
    pub date: Option<Date>,
    /// Whether the gigabytes that cost nothing are this system's to use. An account has them once in a region.
    pub free_storage: bool,
    pub environment: &'a Environment,
    /// What is stored, by the schema's names of the tables.
    pub stored: &'a BTreeMap<String, Stored>,
}

/// What is stored in a table, as `DescribeTable` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    pub items: u64,
    pub bytes: u64,
    /// Items and bytes by index.
    pub indexes: BTreeMap<String, (u64, u64)>,
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CostError {
    #[error(transparent)]
    Price(#[from] PriceError),
    #[error(
        "table {table} has point-in-time recovery, and no price of it is known in {region}: choose another --region, or give it with --prices FILE"
    )]
    NoPitr { table: String, region: String },
    #[error(
        "table {table} is provisioned, and no price of that is known in {region}: choose another --region, or give it with --prices FILE"
    )]
    NoHours { table: String, region: String },
    #[error("source {name} costs ${cost} a call: more decimals than a price can have")]
    Call { name: String, cost: String },
}

/// What a system costs in a month.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub system: String,
    pub origin: String,
    pub requests: u64,
    /// Requests that were answered without a source.
    pub hits: u64,
    pub tables: Vec<TableCost>,
    pub sources: Vec<SourceCost>,
    /// What somebody is told at.
    pub budgets: Vec<Money>,
    /// What was taken for granted.
    pub notes: Vec<String>,
}

/// One table with its indexes.
#[derive(Clone, Debug, PartialEq)]
pub struct TableCost {
    /// What the schema calls it.
    pub name: String,
    pub billing: Billing,
    /// The prices that were used.
    pub entry: Entry,
    pub lines: Vec<Line>,
    /// On demand against provisioned, where there is traffic and both have a price.
    pub choice: Option<Choice>,
}

/// One amount.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub kind: Kind,
    /// Of an entity; nobody's when it is of the whole table.
    pub entity: Option<String>,
    /// Of an operation, where units were counted.
    pub operation: Option<String>,
    pub index: Option<String>,
    /// Requests, where it is of requests.
    pub count: Option<u64>,
    pub quantity: Quantity,
    pub amount: Money,
    /// The arithmetic.
    pub how: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Reads,
    Writes,
    Capacity,
    Storage,
    Pitr,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Capacity => "capacity",
            Self::Storage => "storage",
            Self::Pitr => "recovery",
        }
    }
}

/// How much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Halves of read units.
    ReadHalves(u128),
    WriteUnits(u128),
    Bytes(u64),
    /// Provisioned units.
    Capacity {
        read: u64,
        write: u64,
    },
}

/// What the same traffic costs on demand and provisioned.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub on_demand: Money,
    /// At a capacity that is used to 70 % when traffic is steady.
    pub provisioned: Money,
    /// Of the table itself (no name), then of each index.
    pub capacity: Vec<(Option<String>, u64, u64)>,
    /// Requests in a hundred seconds, now and where provisioned begins to be cheaper.
    pub rate_hundredths: u64,
    pub cheaper_from_hundredths: Option<u64>,
}

impl Choice {
    pub fn is_provisioned_cheaper(&self) -> bool {
        self.provisioned < self.on_demand
    }

    /// The busiest time may be so many tenths of the average before provisioned costs more.
    pub fn peak_tenths(&self) -> i128 {
        self.on_demand.micros() * 10 / self.provisioned.micros().max(1)
    }
}

/// What a source costs, and would cost.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceCost {
    pub name: String,
    /// For one call, if the schema says.
    pub price: Option<Price>,
    pub calls: u64,
    pub calls_avoided: u64,
    pub made: Money,
    pub saved: Money,
}

impl TableCost {
    pub fn total(&self) -> Money {
        self.lines.iter().map(|line| line.amount).sum()
    }
}

impl Report {
    /// What the store costs.
    pub fn store(&self) -> Money {
        self.tables.iter().map(TableCost::total).sum()
    }

    /// What the calls cost that are made.
    pub fn made(&self) -> Money {
        self.sources.iter().map(|source| source.made).sum()
    }

    /// What the calls would cost that are not.
    pub fn saved(&self) -> Money {
        self.sources.iter().map(|source| source.saved).sum()
    }

    /// What is saved, less what the store costs; nobody knows while no source says what a call costs.
    pub fn net(&self) -> Option<Money> {
        let is_known = self.sources.iter().any(|source| source.price.is_some());
        is_known.then(|| self.saved() - self.store())
    }
}

/// Reckons what this traffic costs.
pub fn report(schema: &Schema, load: &Load, terms: &Terms<'_>) -> Result<Report, CostError> {
    let mut notes = Vec::new();
    let mut free: BTreeMap<String, u64> = BTreeMap::new();
    let mut tables = Vec::new();
    for table in &schema.tables {
        tables.push(Ledger::of(schema, table, load, terms, &mut notes)?.close(&mut free)?);
    }
    let used = tables.iter().any(|table: &TableCost| table.entry.storage_free_bytes > 0);
    if used && terms.free_storage {
        notes.push(
            "the first gigabytes stored are free once for an account in a region; --no-free-storage charges them"
                .to_owned(),
        );
    }
    let answers_itself = |entity: &Entity| {
        let traffic = load.entities.get(&entity.name);
        let is_counted =
            schema.entity(&entity.name).is_some_and(|(table, _)| load.consumed.contains_key(&table.name));
        !is_counted && entity.policy.l1.is_some() && traffic.is_some_and(|traffic| traffic.hits > 0)
    };
    if traffic::entities(schema).any(answers_itself) {
        notes.push(
            "what the process answers from its own memory is counted as a read of the store, unless reads are given"
                .to_owned(),
        );
    }
    if load.is_spread {
        notes.push(
            "a workload is the whole system's: it is spread evenly over the entities; --entity puts it on one"
                .to_owned(),
        );
    }
    let budgets = schema.budgets.iter().filter_map(|budget| Price::try_from(*budget).ok());
    Ok(Report {
        system: schema.system.clone(),
        origin: load.origin.clone(),
        requests: load.sum(|traffic| traffic.requests),
        hits: load.sum(|traffic| traffic.hits),
        tables,
        sources: sources(schema, load, &mut notes)?,
        budgets: budgets.map(|budget| budget.times(1, 1)).collect(),
        notes,
    })
}

fn sources(schema: &Schema, load: &Load, notes: &mut Vec<String>) -> Result<Vec<SourceCost>, CostError> {
    let mut found = Vec::new();
    for source in &schema.sources {
        let of_source =
            traffic::entities(schema).filter(|entity| entity.source.as_ref() == Some(&source.name));
        let traffic: Vec<&Traffic> = of_source.filter_map(|entity| load.entities.get(&entity.name)).collect();
        if traffic.is_empty() {
            continue;
        }
        let price = source.cost.map(|cost| {
            Price::try_from(cost)
                .map_err(|_| CostError::Call { name: source.name.clone(), cost: cost.to_string() })
        });
        let price = price.transpose()?;
        if price.is_none() {
            notes.push(format!(
                "what a call of {} costs is not declared: `source {} {{ cost $0.0001 per call }}` would count it",
                source.name, source.name
            ));
        }
        let sum = |figure: fn(&Traffic) -> u64| {
            traffic.iter().fold(0, |sum: u64, traffic| sum.saturating_add(figure(traffic)))
        };
        let calls = sum(|traffic| traffic.calls);
        let calls_avoided = sum(|traffic| traffic.calls_saved);
        let cost = |calls: u64| price.map_or(Money::ZERO, |price| price.times(calls.into(), 1));
        found.push(SourceCost {
            name: source.name.clone(),
            price,
            calls,
            calls_avoided,
            made: cost(calls),
            saved: cost(calls_avoided),
        });
    }
    Ok(found)
}

/// Collects what one table is used for, then prices it.
struct Ledger<'a> {
    table: &'a Table,
    entry: &'a Entry,
    terms: &'a Terms<'a>,
    lines: Vec<Line>,
    requests: u64,
    /// What the table itself is used for.
    used: Part,
    /// Units were counted, and are not reckoned.
    is_counted: bool,
    stored: Pile,
    /// In the order of the table's indexes.
    indexes: Vec<(Part, Pile)>,
}

/// Bytes that are billed, and how they were found.
#[derive(Clone, Debug, Default)]
struct Pile {
    bytes: u64,
    how: Vec<String>,
}

impl Pile {
    fn add(&mut self, bytes: u64, how: String) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.how.push(how);
    }
}

impl<'a> Ledger<'a> {
    fn of(
        schema: &Schema,
        table: &'a Table,
        load: &Load,
        terms: &'a Terms<'a>,
        notes: &mut Vec<String>,
    ) -> Result<Self, CostError> {
        let region = terms.region.or(table.region.as_deref()).unwrap_or_else(|| {
            let note = format!("no region is declared: {DEFAULT_REGION} is taken");
            if !notes.contains(&note) {
                notes.push(note);
            }
            DEFAULT_REGION
        });
        let entry = terms.prices.find(region, table.class, terms.date)?;
        let mut ledger = Self {
            table,
            entry,
            terms,
            lines: Vec::new(),
            requests: 0,
            used: Part::default(),
            is_counted: load.consumed.contains_key(&table.name),
            stored: Pile::default(),
            indexes: vec![Default::default(); table.indexes.len()],
        };
        for entity in &table.entities {
            if let Some(traffic) = load.entities.get(&entity.name) {
                ledger.enter(schema, entity, traffic);
            }
        }
        if let Some(consumed) = load.consumed.get(&table.name) {
            ledger.enter_counted(consumed);
        }
        match terms.stored.get(&table.name) {
            Some(stored) => ledger.weigh(stored),
            None if ledger.is_counted && ledger.stored.how.is_empty() => notes.push(format!(
                "what {} holds was not counted: --from-store weighs it, and without it storage is free here",
                table.name
            )),
            None => {}
        }
        Ok(ledger)
    }

    /// The requests of one entity, and what it keeps.
    fn enter(&mut self, schema: &Schema, entity: &Entity, traffic: &Traffic) {
        let attributes = size::attributes(schema, self.table, entity);
        let average = self.terms.stored.get(&self.table.name).filter(|stored| stored.items > 0);
        let average = average.map(|stored| stored.bytes.div_ceil(stored.items));
        let (item_bytes, from) = match (traffic.item_bytes, average) {
            (Some(bytes), _) => (bytes, "as given"),
            (None, Some(bytes)) => (bytes, "the average in the store"),
            (None, None) => (size::item(&attributes), "reckoned from the schema"),
        };
        let (reads, writes) = if self.is_counted { (0, 0) } else { (traffic.reads, traffic.writes) };
        self.requests = self.requests.saturating_add(reads).saturating_add(writes);
        self.read(entity, reads, item_bytes, from);
        self.write(entity, None, writes, item_bytes, from, 1);
        if !self.is_counted {
            self.enter_besides(entity, traffic, item_bytes);
        }
        let kept = kept(schema, entity, traffic, item_bytes, self.terms.environment);
        self.stored.add(kept.0, kept.1.clone());
        let table = self.table;
        for (at, index) in table.indexes.iter().enumerate() {
            let entry = Entered::of(table, index, entity, &attributes, item_bytes);
            let Some(Entered { bytes, from, places }) = entry else { continue };
            let mut units = self.write(entity, Some(index), writes, bytes, from, places);
            // A lease changes the item, and with it every index that shows all of it.
            if entity.policy.flight_millis.is_some()
                && index.projection == Projection::All
                && !self.is_counted
            {
                let leases = self.write_for("flight", entity, Some(index), traffic.calls, bytes, LEASED);
                units = units.saturating_add(leases);
            }
            let (entry_bytes, whole_bytes) = (billed(bytes), billed(item_bytes));
            let part = (u128::from(kept.0) * u128::from(entry_bytes)).div_ceil(whole_bytes.into());
            let part = u64::try_from(part).unwrap_or(u64::MAX);
            let (used, pile) = &mut self.indexes[at];
            used.write_units = used.write_units.saturating_add(units);
            pile.add(
                part,
                format!(
                    "({}) × ({} + {ITEM_OVERHEAD_BYTES}) ÷ ({} + {ITEM_OVERHEAD_BYTES})",
                    kept.1,
                    grouped(bytes.into()),
                    grouped(item_bytes.into())
                ),
            );
        }
    }

    /// What the layer reads and writes by itself for these requests.
    fn enter_besides(&mut self, entity: &Entity, traffic: &Traffic, item_bytes: u64) {
        let policy = &entity.policy;
        if policy.negative_millis.is_some() {
            let absences = traffic.calls.saturating_sub(traffic.writes);
            let from = "a key and its end, for each call that brought nothing";
            self.write_for("negative", entity, None, absences, 0, from);
        }
        if policy.flight_millis.is_some() {
            self.write_for("flight", entity, None, traffic.calls, item_bytes, LEASED);
        }
        if entity.fields.iter().any(|field| field.kind == Type::Sequence) && traffic.writes > 0 {
            // Those that are taken cost as much as they are large; how many are is not known.
            let (numbers, each) = (u64::from(SEQUENCE_PROBED_AT_ONCE), read_halves(item_bytes, true));
            let halves = u128::from(traffic.writes) * u128::from(numbers) * u128::from(each);
            self.used.read_halves = self.used.read_halves.saturating_add(halves);
            self.lines.push(Line {
                kind: Kind::Reads,
                entity: Some(entity.name.clone()),
                operation: Some("sequence".to_owned()),
                index: None,
                count: Some(traffic.writes),
                quantity: Quantity::ReadHalves(halves),
                amount: self.entry.read_million.times(halves, 2 * MILLION),
                how: format!(
                    "{} new records × {numbers} numbers looked at × {} (strong) = {} read units",
                    grouped(traffic.writes.into()),
                    counted(&halved(each.into()), "read unit"),
                    halved(halves),
                ),
            });
        }
    }

    /// Writes that the layer makes for something else than a record.
    fn write_for(
        &mut self,
        what: &str,
        entity: &Entity,
        index: Option<&Index>,
        writes: u64,
        bytes: u64,
        from: &str,
    ) -> u128 {
        let before = self.lines.len();
        let units = self.write(entity, index, writes, bytes, from, 1);
        for line in &mut self.lines[before..] {
            line.operation = Some(what.to_owned());
        }
        units
    }

    fn read(&mut self, entity: &Entity, reads: u64, item_bytes: u64, from: &str) {
        if reads == 0 {
            return;
        }
        let strong = entity.policy.reads == Consistency::Strong || self.entry.whole_reads;
        let each = read_halves(item_bytes, strong);
        let halves = u128::from(reads) * u128::from(each);
        self.used.read_halves = self.used.read_halves.saturating_add(halves);
        let consistency = match (entity.policy.reads, self.entry.whole_reads) {
            (Consistency::Strong, _) => "strong",
            (Consistency::Eventual, true) => "eventual, at these prices a whole one",
            (Consistency::Eventual, false) => "eventual, half of one",
        };
        let amount = self.entry.read_million.times(halves, 2 * MILLION);
        self.lines.push(Line {
            kind: Kind::Reads,
            entity: Some(entity.name.clone()),
            operation: None,
            index: None,
            count: Some(reads),
            quantity: Quantity::ReadHalves(halves),
            amount,
            how: format!(
                "{} reads × {} ({} bytes, {from}; 4,096 bytes a unit; {consistency}) = {} read units",
                grouped(reads.into()),
                counted(&halved(each.into()), "read unit"),
                grouped(item_bytes.into()),
                halved(halves),
            ),
        });
    }

    fn write(
        &mut self,
        entity: &Entity,
        index: Option<&Index>,
        writes: u64,
        bytes: u64,
        from: &str,
        places: u64,
    ) -> u128 {
        if writes == 0 {
            return 0;
        }
        let each = write_units(bytes);
        let units = (u128::from(writes) * u128::from(each)).saturating_mul(places.into());
        if index.is_none() {
            self.used.write_units = self.used.write_units.saturating_add(units);
        }
        let moved = if places == 2 { " × 2 (out of one place, into another)" } else { "" };
        self.lines.push(Line {
            kind: Kind::Writes,
            entity: Some(entity.name.clone()),
            operation: None,
            index: index.map(|index| index.name.clone()),
            count: Some(writes),
            quantity: Quantity::WriteUnits(units),
            amount: self.entry.write_million.times(units, MILLION),
            how: format!(
                "{} writes × {} ({} bytes, {from}; 1,024 bytes a unit){moved} = {} write units",
                grouped(writes.into()),
                counted(&grouped(each.into()), "write unit"),
                grouped(bytes.into()),
                grouped(units),
            ),
        });
        units
    }

    /// What is in the store, in place of what is reckoned.
    fn weigh(&mut self, stored: &Stored) {
        let pile = |items: u64, bytes: u64| {
            let billed = bytes.saturating_add(items.saturating_mul(ITEM_OVERHEAD_BYTES));
            let how = format!(
                "{} bytes in the store + {} items × {ITEM_OVERHEAD_BYTES} bytes",
                grouped(bytes.into()),
                grouped(items.into())
            );
            Pile { bytes: billed, how: vec![how] }
        };
        self.stored = pile(stored.items, stored.bytes);
        for (index, (_, kept)) in self.table.indexes.iter().zip(&mut self.indexes) {
            if let Some((items, bytes)) = stored.indexes.get(&index.name) {
                *kept = pile(*items, *bytes);
            }
        }
    }

    fn close(mut self, free: &mut BTreeMap<String, u64>) -> Result<TableCost, CostError> {
        let choice = self.choice();
        match self.table.billing {
            Billing::OnDemand => {
                let entry = self.entry;
                for line in &mut self.lines {
                    let price =
                        if line.kind == Kind::Reads { entry.read_million } else { entry.write_million };
                    line.how.push_str(&format!("; × {price} a million = {}", line.amount));
                }
            }
            Billing::Provisioned { read, write } => {
                for line in &mut self.lines {
                    line.amount = Money::ZERO;
                    line.how.push_str("; paid for by the capacity");
                }
                self.provisioned(read, write)?;
            }
        }
        self.storage(free)?;
        Ok(TableCost {
            name: self.table.name.clone(),
            billing: self.table.billing,
            entry: self.entry.clone(),
            lines: self.lines,
            choice,
        })
    }

    /// The capacity that is declared. Every index has as much as its table.
    fn provisioned(&mut self, read: u32, write: u32) -> Result<(), CostError> {
        let Some((read_hour, write_hour)) = self.entry.hour else {
            return Err(CostError::NoHours {
                table: self.table.name.clone(),
                region: self.entry.region.clone(),
            });
        };
        let indexes = self.table.indexes.iter().map(|index| Some(index.name.clone()));
        for index in std::iter::once(None).chain(indexes) {
            let amount = capacity_cost((read_hour, write_hour), read.into(), write.into());
            self.lines.push(Line {
                kind: Kind::Capacity,
                entity: None,
                operation: None,
                index,
                count: None,
                quantity: Quantity::Capacity { read: read.into(), write: write.into() },
                amount,
                how: format!(
                    "({read} read units × {read_hour} + {write} write units × {write_hour}) × {MONTH_HOURS} hours = {amount}"
                ),
            });
        }
        Ok(())
    }

    fn storage(&mut self, free: &mut BTreeMap<String, u64>) -> Result<(), CostError> {
        let entry = self.entry;
        let allowed = if self.terms.free_storage { entry.storage_free_bytes } else { 0 };
        let left = free.entry(entry.region.clone()).or_insert(allowed);
        let gigabyte = u128::from(entry.gigabyte_bytes);
        let piles = self.indexes.iter().zip(&self.table.indexes);
        let piles = piles.map(|((_, pile), index)| (Some(index.name.clone()), pile.clone()));
        let piles: Vec<_> = std::iter::once((None, self.stored.clone())).chain(piles).collect();
        for (index, pile) in piles {
            if index.is_some() && pile.bytes == 0 {
                continue;
            }
            let unpaid = pile.bytes.min(*left);
            *left -= unpaid;
            let amount = entry.storage.times((pile.bytes - unpaid).into(), gigabyte);
            let less = match unpaid {
                0 => String::new(),
                unpaid => format!(" − {} free bytes", grouped(unpaid.into())),
            };
            self.lines.push(Line {
                kind: Kind::Storage,
                entity: None,
                operation: None,
                index,
                count: None,
                quantity: Quantity::Bytes(pile.bytes),
                amount,
                how: format!(
                    "{} = {} bytes{less}; ÷ {} × {} a gigabyte = {amount}",
                    if pile.how.is_empty() { "nothing".to_owned() } else { pile.how.join(" + ") },
                    grouped(pile.bytes.into()),
                    grouped(gigabyte),
                    entry.storage,
                ),
            });
        }
        if self.table.pitr.is_some() {
            let price = entry.pitr.ok_or_else(|| CostError::NoPitr {
                table: self.table.name.clone(),
                region: entry.region.clone(),
            })?;
            let amount = price.times(self.stored.bytes.into(), gigabyte);
            self.lines.push(Line {
                kind: Kind::Pitr,
                entity: None,
                operation: None,
                index: None,
                count: None,
                quantity: Quantity::Bytes(self.stored.bytes),
                amount,
                how: format!(
                    "{} bytes of the table, without its indexes; ÷ {} × {price} a gigabyte = {amount}",
                    grouped(self.stored.bytes.into()),
                    grouped(gigabyte),
                ),
            });
        }
        Ok(())
    }

    /// On demand against provisioned, for the traffic as it is and where they meet.
    fn choice(&self) -> Option<Choice> {
        let hour = self.entry.hour?;
        if self.requests == 0 {
            return None;
        }
        let on_demand: Money = self.lines.iter().map(|line| line.amount).sum();
        let parts = self.parts();
        let names =
            std::iter::once(None).chain(self.table.indexes.iter().map(|index| Some(index.name.clone())));
        let month = u128::from(MONTH_SECONDS);
        let now = (1, 1);
        let capacity = names.zip(&parts).map(|(name, part)| {
            let (read, write) = part.capacity(now);
            (name, read, write)
        });
        let rate = u128::from(self.requests) * 100 / month;
        Some(Choice {
            on_demand,
            provisioned: parts.iter().map(|part| part.provisioned(hour, now)).sum(),
            capacity: capacity.collect(),
            rate_hundredths: u64::try_from(rate).unwrap_or(u64::MAX),
            cheaper_from_hundredths: self.meeting_point(&parts, hour),
        })
    }

    /// The table itself, then each index.
    fn parts(&self) -> Vec<Part> {
        std::iter::once(self.used).chain(self.indexes.iter().map(|(used, _)| *used)).collect()
    }

    /// Requests in a hundred seconds from which provisioned is cheaper, the mix being the same. Capacity comes in
    /// whole units, so the two prices may cross more than once close to it; `None` when they never do.
    fn meeting_point(&self, parts: &[Part], hour: (Price, Price)) -> Option<u64> {
        let month = u128::from(MONTH_SECONDS);
        let is_cheaper = |hundredths: u64| {
            let scale = (u128::from(hundredths) * month, u128::from(self.requests) * 100);
            let on_demand = |part: &Part| {
                self.entry.read_million.times(part.read_halves.saturating_mul(scale.0), 2 * MILLION * scale.1)
                    + self
                        .entry
                        .write_million
                        .times(part.write_units.saturating_mul(scale.0), MILLION * scale.1)
            };
            let provisioned: Money = parts.iter().map(|part| part.provisioned(hour, scale)).sum();
            provisioned < parts.iter().map(on_demand).sum()
        };
        let (mut low, mut high) = (0, 1);
        while !is_cheaper(high) {
            low = high;
            high = high.checked_mul(2).filter(|high| *high <= RATE_HUNDREDTHS_MAX)?;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if is_cheaper(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(high)
    }
}

/// A million requests a second.
const RATE_HUNDREDTHS_MAX: u64 = 100_000_000;

/// What a table or index is used for in a month.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    read_halves: u128,
    write_units: u128,
}

impl Part {
    /// Units that are used to the target when the traffic, times a fraction, is steady; one at least.
    fn capacity(&self, (by, of): (u128, u128)) -> (u64, u64) {
        let second = u128::from(MONTH_SECONDS);
        let units = |used: u128, per: u128| {
            let units = used.saturating_mul(by * 100).div_ceil(per * second * TARGET_PERCENT * of).max(1);
            u64::try_from(units).unwrap_or(u64::MAX)
        };
        (units(self.read_halves, 2), units(self.write_units, 1))
    }

    fn provisioned(&self, hour: (Price, Price), fraction: (u128, u128)) -> Money {
        let (read, write) = self.capacity(fraction);
        capacity_cost(hour, read, write)
    }
}

fn capacity_cost((read_hour, write_hour): (Price, Price), read: u64, write: u64) -> Money {
    read_hour.times(u128::from(read) * MONTH_HOURS, 1) + write_hour.times(u128::from(write) * MONTH_HOURS, 1)
}

/// The bytes an entity keeps, and how they were found.
fn kept(
    schema: &Schema,
    entity: &Entity,
    traffic: &Traffic,
    item_bytes: u64,
    environment: &Environment,
) -> (u64, String) {
    if let Some(bytes) = traffic.stored_bytes {
        return (bytes, format!("{} bytes of {}, as given", grouped(bytes.into()), entity.name));
    }
    let (items, why) = match lifetime_millis(schema, entity, environment) {
        Some(millis) => {
            let items = (u128::from(traffic.writes) * millis).div_ceil(MONTH_MILLIS);
            (u64::try_from(items).unwrap_or(u64::MAX), "written in one lifetime")
        }
        None => (traffic.writes, "written in a month, as they do not expire"),
    };
    let bytes = items.saturating_mul(billed(item_bytes));
    let how = format!(
        "{} {} items {why} × ({} + {ITEM_OVERHEAD_BYTES}) bytes",
        grouped(items.into()),
        entity.name,
        grouped(item_bytes.into())
    );
    (bytes, how)
}

/// What an item of so many bytes is billed as.
fn billed(bytes: u64) -> u64 {
    bytes.saturating_add(ITEM_OVERHEAD_BYTES)
}

/// How long an item stays: past its time for as long as it may be given stale, or in its grace.
fn lifetime_millis(schema: &Schema, entity: &Entity, environment: &Environment) -> Option<u128> {
    let fresh = match entity.ttl.as_ref()? {
        Ttl::After { millis } => u128::try_from(*millis).ok()?,
        Ttl::Param(name) => match schema.param(name)?.value(environment).ok()? {
            Value::Duration(duration) => u128::try_from(duration.as_millis()).ok()?,
            _ => return None,
        },
        Ttl::Value(_) => return None,
    };
    let past = entity.policy.stale_millis.max(entity.policy.grace_millis).unwrap_or(0);
    Some(fresh + u128::try_from(past).unwrap_or(0))
}

/// `1,000,000`.
pub fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 write unit`, `0.5 read units`.
fn counted(number: &str, unit: &str) -> String {
    format!("{number} {unit}{}", if number == "1" { "" } else { "s" })
}

/// `0.5`, `1,000`: what so many halves are.
pub fn halved(halves: u128) -> String {
    let whole = grouped(halves / 2);
    if halves.is_multiple_of(2) { whole } else { format!("{whole}.5") }
}

#[cfg(test)]
mod tests;
