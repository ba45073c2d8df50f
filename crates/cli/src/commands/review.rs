//! `larder review`: what somebody looks at once a month: cost and budget, what the cache returns, capacity, and
//! attributes that nobody reads.
//!
//! The amounts are those of `larder cost`, from the same figures. Attributes are those of one page of each table.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use larder::Schema;
use larder::store::ops;
use larder_model::limits::PAGE_BYTES_MAX;
use larder_schema::cost::{Report, TableCost, grouped};
use larder_schema::schema::{Billing, Entity, Table};
use serde_json::json;

use super::cost::Cost;
use super::plan;
use crate::data::check_there;
use crate::{held, project, terminal};

/// Where something is to be done.
const TO_DO: u8 = 3;
/// What Larder adds to items begins so.
const OWN: &str = "larder_";

/// Look at what a month costs, what it returns, whether the capacity fits, and which attributes nobody reads
///
/// From the workload that the schema declares, or from what was counted (--measured). Exit code 3 when something calls for
/// a decision.
#[derive(Debug, Args)]
pub(crate) struct Review {
    #[command(flatten)]
    cost: Cost,
}

/// One thing that was looked at.
struct Finding {
    about: &'static str,
    /// Nothing is to be done about it.
    is_fine: bool,
    text: String,
}

impl Finding {
    fn fine(about: &'static str, text: String) -> Self {
        Self { about, is_fine: true, text }
    }

    fn to_do(about: &'static str, text: String) -> Self {
        Self { about, is_fine: false, text }
    }
}

impl Review {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let asked = self.cost.asked()?;
        let mut parting = "";
        let mut all_fine = true;
        for path in &asked.paths {
            let (schema, report) = self.cost.of(path, &asked)?;
            let mut findings = match &report {
                Ok(report) => reckoned(report),
                Err(why) => vec![Finding::to_do("cost", why.to_string())],
            };
            findings.push(self.attributes(&schema)?);
            all_fine &= findings.iter().all(|finding| finding.is_fine);
            terminal::print(&match self.cost.is_json() {
                true => format!("{}\n", json(&schema, report.as_ref().ok(), &findings)),
                false => format!("{parting}{}", text(&schema, report.as_ref().ok(), &findings)),
            })?;
            if let Some(arithmetic) = report.ok().and_then(|report| self.cost.explained(&report)) {
                terminal::print(&format!("\n{arithmetic}"))?;
            }
            parting = "\n";
        }
        Ok(if all_fine { ExitCode::SUCCESS } else { ExitCode::from(TO_DO) })
    }

    /// What a page of each table holds that no field of the schema reads, and fields that nothing holds.
    fn attributes(&self, schema: &Schema) -> Result<Finding, String> {
        const ABOUT: &str = "attributes";
        let address = self.cost.address();
        if let Err(why) = check_there(address) {
            return Ok(Finding::fine(ABOUT, format!("not looked at: {why}")));
        }
        let pages = plan::runtime()?.block_on(async {
            let store = held::look(address).await?;
            let mut pages = Vec::new();
            for table in &schema.tables {
                let Ok(name) = schema.table_name(table, &project::environment()) else { continue };
                let store = store.at(table.region.as_deref());
                if store.describe(&name).await?.is_some() {
                    pages.push((table, store.scan(ops::Scan::of(name)).await?.items));
                }
            }
            Ok(pages)
        });
        let pages = pages.map_err(|error: larder::store::Error| plan::advise(address, &error))?;
        let looked: usize = pages.iter().map(|(_, items)| items.len()).sum();
        if looked == 0 {
            return Ok(Finding::fine(ABOUT, format!("not looked at: {address} holds no items of it")));
        }
        let mut told = Vec::new();
        for (table, items) in &pages {
            // By entity: how many there are, and by attribute how many have it and in how many bytes.
            let mut seen: BTreeMap<&str, (u64, Attributes<'_>)> = BTreeMap::new();
            for item in items {
                let Some(entity) = schema.entity_of(table, item) else { continue };
                let (count, attributes) = seen.entry(&entity.name).or_default();
                *count += 1;
                for (name, value) in item {
                    let (times, bytes) = attributes.entry(name).or_default();
                    *times += 1;
                    *bytes += (name.len() + value.size()) as u64;
                }
            }
            for entity in &table.entities {
                if let Some((count, attributes)) = seen.get(&*entity.name) {
                    told.extend(unread(table, entity, *count, attributes));
                }
            }
        }
        let sample = format!(
            "{} items looked at, at most {} MB of each table",
            grouped(looked as u128),
            PAGE_BYTES_MAX >> 20
        );
        Ok(match told.is_empty() {
            true => Finding::fine(ABOUT, format!("all are read and written; {sample}")),
            false => Finding::to_do(ABOUT, format!("{}; {sample}", told.join("; "))),
        })
    }
}

/// By name: how many items have it, and in how many bytes.
type Attributes<'a> = BTreeMap<&'a str, (u64, u64)>;

/// What is stored of an entity and read by no field of it, and what no item has.
fn unread(table: &Table, entity: &Entity, count: u64, attributes: &Attributes<'_>) -> Vec<String> {
    let keys = std::iter::once(&table.partition).chain(table.sort.as_ref()).map(|key| &*key.attribute);
    let ttl = table.ttl.iter().map(|ttl| &*ttl.attribute);
    let fields = entity.fields.iter().filter(|field| field.is_stored());
    let states = entity.lifecycles.iter().flat_map(|lifecycle| {
        let lease = lifecycle.lease.iter().flat_map(larder_schema::schema::LeaseAttributes::names);
        std::iter::once(&*lifecycle.attribute).chain(lease)
    });
    let known: Vec<&str> =
        keys.chain(ttl).chain(fields.clone().map(|field| &*field.attribute)).chain(states).collect();
    let strangers = attributes.iter().filter(|(name, _)| !known.contains(*name) && !name.starts_with(OWN));
    let mut told: Vec<String> = strangers
        .map(|(name, (times, bytes))| {
            format!(
                "`{name}` is in {times} of {count} {}, {} bytes each, and no field reads it",
                entity.name,
                bytes / times.max(&1)
            )
        })
        .collect();
    let empty = fields.filter(|field| !attributes.contains_key(&*field.attribute));
    let empty: Vec<String> = empty.map(|field| format!("`{}`", field.name)).collect();
    if !empty.is_empty() {
        told.push(format!("no {} has {}", entity.name, empty.join(", ")));
    }
    told
}

/// What follows from the amounts.
fn reckoned(report: &Report) -> Vec<Finding> {
    let mut findings = vec![budget(report)];
    findings.extend(returns(report));
    findings.extend(report.tables.iter().filter_map(capacity));
    findings
}

fn budget(report: &Report) -> Finding {
    let store = report.store();
    let cost = format!(
        "{} a month for the store, {} for calls that are made",
        store.rounded(),
        report.made().rounded()
    );
    match (report.budgets.iter().rev().find(|budget| store >= **budget), report.budgets.first()) {
        (Some(reached), _) => Finding::to_do("cost", format!("{cost}; the budget of {reached} is reached")),
        (None, Some(first)) => Finding::fine("cost", format!("{cost}; under the first budget, {first}")),
        (None, None) => Finding::fine("cost", format!("{cost}; no budget is declared")),
    }
}

/// What comes back for each dollar that the store costs, in percent.
fn return_percent(report: &Report) -> Option<i128> {
    Some(report.net()?.micros() * 100 / report.store().micros().max(1))
}

fn returns(report: &Report) -> Option<Finding> {
    let percent = return_percent(report)?;
    let (saved, store) = (report.saved().rounded(), report.store().rounded());
    let text = format!("{} % on what the store costs: {saved} of calls avoided for {store}", signed(percent));
    Some(if percent >= 0 { Finding::fine("return", text) } else { Finding::to_do("return", text) })
}

fn signed(number: i128) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", grouped(number.unsigned_abs()))
}

/// Whether a table is billed as its traffic asks for.
fn capacity(cost: &TableCost) -> Option<Finding> {
    let choice = cost.choice.as_ref()?;
    let (on_demand, provisioned) = (choice.on_demand.rounded(), choice.provisioned.rounded());
    let (_, read, write) = choice.capacity.iter().find(|(index, ..)| index.is_none())?;
    let steady = format!("{read} / {write}");
    let name = &cost.name;
    Some(match cost.billing {
        Billing::OnDemand if choice.is_provisioned_cheaper() => Finding::to_do(
            "capacity",
            format!(
                "{name} costs {on_demand} on demand and would cost {provisioned} provisioned {steady}, if the busiest time is under {}.{} times the average",
                choice.peak_tenths() / 10,
                choice.peak_tenths() % 10
            ),
        ),
        Billing::OnDemand => Finding::fine(
            "capacity",
            format!("{name} is cheapest on demand: {on_demand}, provisioned {steady} {provisioned}"),
        ),
        Billing::Provisioned { read: has, write: takes }
            if u64::from(has) < *read || u64::from(takes) < *write =>
        {
            Finding::to_do(
                "capacity",
                format!(
                    "{name} is provisioned {has} / {takes}, and this traffic needs {steady} to be used to 70 %: requests will be turned away"
                ),
            )
        }
        Billing::Provisioned { .. } if !choice.is_provisioned_cheaper() => Finding::to_do(
            "capacity",
            format!("{name} would cost {on_demand} on demand, and {provisioned} provisioned {steady}"),
        ),
        Billing::Provisioned { .. } => {
            Finding::fine("capacity", format!("{name} has what this traffic needs, {steady}"))
        }
    })
}

fn text(schema: &Schema, report: Option<&Report>, findings: &[Finding]) -> String {
    let from =
        report.map_or_else(String::new, |report| format!(": a month of 30 days, from {}", report.origin));
    let mut out = format!("{}{from}\n", schema.system);
    for finding in findings {
        let mark = if finding.is_fine { "ok  " } else { "look" };
        out.push_str(&format!("{mark}  {:<10}  {}\n", finding.about, finding.text));
    }
    out
}

fn json(schema: &Schema, report: Option<&Report>, findings: &[Finding]) -> serde_json::Value {
    let findings = findings
        .iter()
        .map(|finding| json!({"about": finding.about, "ok": finding.is_fine, "text": finding.text}));
    json!({
        "system": schema.system,
        "store_usd": report.map(|report| report.store().decimal()),
        "saved_usd": report.map(|report| report.saved().decimal()),
        "return_percent": report.and_then(return_percent),
        "findings": findings.collect::<Vec<_>>(),
    })
}
