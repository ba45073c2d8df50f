//! What a system costs in a month and what it saves, by the same arithmetic as `larder cost`; two sliders say what if.

use std::collections::BTreeMap;

use larder_model::Number;
use larder_schema::Schema;
use larder_schema::cost::{self, Load, Prices, Quantity, Report, Terms, grouped, halved};
use larder_schema::schema::{Period, Rate, Workload};
use maud::{Markup, html};

use super::Room;
use crate::address::Url;

/// Where nothing is declared.
const REQUESTS_ASSUMED: u64 = 1_000_000;
const HIT_RATE_ASSUMED: u64 = 80;
/// What the slider for requests reaches, times what is declared.
const TIMES: u64 = 10;
const STEPS: u64 = 100;

/// What the sliders stand at.
struct Asked {
    requests: u64,
    hit_rate: u64,
    /// Of the slider: how far it goes, and by how much.
    reach: u64,
    step: u64,
    /// Nothing was moved, and the schema says it all.
    declared: bool,
}

impl Asked {
    fn of(room: &Room<'_>, schema: &Schema) -> Self {
        let workload = schema.workload.as_ref();
        let rate = workload.and_then(|workload| workload.requests.or(workload.reads));
        let declared = rate.map_or(REQUESTS_ASSUMED, |rate| rate.monthly() as u64).max(STEPS);
        let step = (declared * TIMES / STEPS).max(1);
        let said = |name: &str| room.given.said(name).and_then(|text| text.parse::<u64>().ok());
        let rate_declared = workload.and_then(|workload| workload.hit_rate_percent);
        let hit_rate = rate_declared
            .and_then(|percent| percent.to_i64())
            .and_then(|percent| u64::try_from(percent).ok());
        Self {
            requests: said("requests").unwrap_or(declared).min(declared * TIMES),
            hit_rate: said("hits").or(hit_rate).unwrap_or(HIT_RATE_ASSUMED).min(100),
            reach: declared * TIMES,
            step,
            declared: workload.is_some() && said("requests").is_none() && said("hits").is_none(),
        }
    }

    fn workload(&self, declared: Option<&Workload>) -> Workload {
        let workload = declared.cloned().unwrap_or_default();
        if self.declared {
            return workload;
        }
        let requests = self.requests as f64;
        let rate = Rate { from: requests, to: requests, per: Period::Month };
        let hit_rate_percent = Some(Number::from(self.hit_rate as i64));
        Workload { requests: Some(rate), reads: None, writes: None, hit_rate_percent, ..workload }
    }
}

pub(super) fn show(room: &Room<'_>, schema: &Schema) -> Markup {
    let asked = Asked::of(room, schema);
    let here = Url::to(["schema", &schema.system]);
    html! {
        form.ask.sliders method="get" action=(here) data-live="report" {
            input type="hidden" name="view" value="cost";
            div.field {
                label for="requests" { "Requests a month: " output for="requests" { (grouped(asked.requests.into())) } }
                input #requests type="range" name="requests" min="0" max=(asked.reach) step=(asked.step) value=(asked.requests);
            }
            div.field {
                label for="hits" { "Hit rate in percent: " output for="hits" { (asked.hit_rate) } }
                input #hits type="range" name="hits" min="0" max="100" value=(asked.hit_rate);
            }
            div.field.do { button type="submit" { "Reckon" } " " a.button href=(here.with("view", "cost")) { "As declared" } }
        }
        div #report aria-live="polite" {
            @match reckon(room, schema, &asked) {
                Err(why) => p.notice { (why) },
                Ok(report) => (told(&report)),
            }
        }
    }
}

fn reckon(room: &Room<'_>, schema: &Schema, asked: &Asked) -> Result<Report, String> {
    let mut load = Load::of(schema, &asked.workload(schema.workload.as_ref()), None)
        .map_err(|error| error.to_string())?;
    if !asked.declared {
        load.origin = "the figures above".to_owned();
    }
    let terms = Terms {
        prices: &Prices::built_in(),
        region: None,
        date: None,
        free_storage: true,
        environment: room.house.environment(),
        stored: &BTreeMap::new(),
    };
    cost::report(schema, &load, &terms).map_err(|error| error.to_string())
}

fn told(report: &Report) -> Markup {
    html! {
        section.card {
            h2 { "A month of 30 days, from " (report.origin) }
            div.facts {
                div { span.quiet { "store" } b.big { (report.store().rounded()) } }
                @if !report.sources.is_empty() {
                    div { span.quiet { "calls made" } b.big { (report.made().rounded()) } }
                    div { span.quiet { "calls saved" } b.big { (report.saved().rounded()) } }
                }
                @if let Some(net) = report.net() { div { span.quiet { "saved, less the store" } b.big { (net.rounded()) } } }
            }
            @for source in &report.sources {
                p { b { (source.name) } ": " (grouped(source.calls.into())) " calls made, " (grouped(source.calls_avoided.into())) " avoided"
                    @if let Some(price) = &source.price { ", at " (price.to_string()) " each" } }
            }
        }
        @for table in &report.tables {
            section.card {
                h2 { (table.name) ": " (table.total().to_string()) }
                div.scroll tabindex="0" role="region" aria-label={ "Cost of " (table.name) } {
                    table {
                        thead { tr { th { "Of" } th { "Index" } th { "What" } th.right { "Requests" } th.right { "Quantity" } th.right { "Cost" } th { "How" } } }
                        tbody {
                            @for line in &table.lines {
                                tr {
                                    td { (line.entity.as_deref().unwrap_or_default()) " " (line.operation.as_deref().unwrap_or_default()) }
                                    td { (line.index.as_deref().unwrap_or_default()) }
                                    td { (line.kind.name()) }
                                    td.right { (line.count.map(|count| grouped(count.into())).unwrap_or_default()) }
                                    td.right { (quantity(line.quantity)) }
                                    td.right { (line.amount.to_string()) }
                                    td.quiet { (line.how) }
                                }
                            }
                        }
                    }
                }
                p.quiet { "Prices of " (table.entry.region) ", as of " (table.entry.as_of.to_string()) ": " (table.entry.source) }
            }
        }
        @for note in &report.notes { p.quiet { (note) "." } }
    }
}

fn quantity(quantity: Quantity) -> String {
    match quantity {
        Quantity::ReadHalves(halves) => format!("{} read units", halved(halves)),
        Quantity::WriteUnits(units) => format!("{} write units", grouped(units)),
        Quantity::Bytes(bytes) => larder::price::size(bytes),
        Quantity::Capacity { read, write } => format!("{read} / {write} units"),
    }
}
