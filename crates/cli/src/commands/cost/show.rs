//! A cost report as people and programs read it.
//!
//! Amounts in tables have all their digits, so that they add up; those in the summary are rounded to the cent.

use std::fmt::Write as _;

use larder_schema::cost::{Choice, Line, Money, Quantity, Report, TableCost, grouped, halved};
use larder_schema::schema::Billing;
use serde_json::{Value as Json, json};

use crate::data::table;

pub(super) fn text(report: &Report, explain: bool) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}: a month of 30 days, from {}\n", report.system, report.origin);
    for cost in &report.tables {
        let billing = match cost.billing {
            Billing::OnDemand => "on demand".to_owned(),
            Billing::Provisioned { read, write } => format!("provisioned {read} / {write}"),
        };
        let entry = &cost.entry;
        let _ = writeln!(
            out,
            "table {}, {billing}, at the prices of {} since {}: {}",
            cost.name,
            entry.region,
            entry.from,
            cost.total()
        );
        let names = ["of", "index", "what", "requests", "quantity", "cost"].map(str::to_owned);
        out.push_str(&table(&names, cost.lines.iter().map(row).collect()));
        if explain {
            out.push('\n');
            for line in &cost.lines {
                let _ = writeln!(out, "  {}: {}", label(line), line.how);
            }
            let amounts: Vec<String> = cost.lines.iter().map(|line| line.amount.to_string()).collect();
            let _ = writeln!(out, "  table {}: {} = {}", cost.name, amounts.join(" + "), cost.total());
        }
        out.push('\n');
    }
    summary(&mut out, report, explain);
    for cost in &report.tables {
        if let Some(choice) = &cost.choice {
            let _ = writeln!(out, "{}", advice(cost, choice));
        }
    }
    budgets(&mut out, report);
    for note in &report.notes {
        let _ = writeln!(out, "Note: {note}.");
    }
    let mut told = Vec::new();
    for entry in report.tables.iter().map(|cost| &cost.entry) {
        let line = format!("Prices of {}: {}; as of {}.", entry.region, entry.source, entry.as_of);
        if !told.contains(&line) {
            let _ = writeln!(out, "{line}");
            told.push(line);
        }
    }
    out
}

fn row(line: &Line) -> Vec<String> {
    vec![
        of(line).unwrap_or_default(),
        line.index.clone().unwrap_or_default(),
        line.kind.name().to_owned(),
        line.count.map(|count| grouped(count.into())).unwrap_or_default(),
        quantity(line.quantity),
        line.amount.to_string(),
    ]
}

/// `Menu`, `Menu flight` or `PutItem`.
fn of(line: &Line) -> Option<String> {
    match (&line.entity, &line.operation) {
        (Some(entity), Some(operation)) => Some(format!("{entity} {operation}")),
        (one, other) => one.as_ref().or(other.as_ref()).cloned(),
    }
}

/// `Menu in RestaurantIndex, writes`.
fn label(line: &Line) -> String {
    let of = match (of(line), &line.index) {
        (Some(of), Some(index)) => format!("{of} in {index}, "),
        (Some(of), None) => format!("{of}, "),
        (None, Some(index)) => format!("{index}, "),
        (None, None) => String::new(),
    };
    format!("{of}{}", line.kind.name())
}

fn quantity(quantity: Quantity) -> String {
    match quantity {
        Quantity::ReadHalves(halves) => format!("{} read units", halved(halves)),
        Quantity::WriteUnits(units) => format!("{} write units", grouped(units)),
        Quantity::Bytes(bytes) => size(bytes),
        Quantity::Capacity { read, write } => format!("{read} / {write}"),
    }
}

/// `300 MB`, where a KB has 1024 bytes, as in a schema.
fn size(bytes: u64) -> String {
    for (unit, scale) in [("TB", 1u64 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)] {
        if bytes >= scale {
            // Rounded to a tenth, in integers.
            let tenths = (u128::from(bytes) * 10 + u128::from(scale / 2)) / u128::from(scale);
            let (whole, tenth) = (tenths / 10, tenths % 10);
            return if tenth == 0 { format!("{whole} {unit}") } else { format!("{whole}.{tenth} {unit}") };
        }
    }
    format!("{bytes} bytes")
}

fn summary(out: &mut String, report: &Report, explain: bool) {
    let each = |calls: u64, price: Option<_>| match price {
        Some(price) => format!("{} at {price}", grouped(calls.into())),
        None => grouped(calls.into()),
    };
    let told = |verb: &str, calls: fn(&larder_schema::cost::SourceCost) -> u64| {
        let sources = report.sources.iter();
        let sources = sources.map(|source| format!("{} {}", source.name, each(calls(source), source.price)));
        format!("calls {verb}: {}", sources.collect::<Vec<_>>().join(", "))
    };
    if report.hits > 0 {
        // In hundredths of a percent, down.
        let share = u128::from(report.hits) * 10_000 / u128::from(report.requests.max(1));
        let (requests, hits) = (grouped(report.requests.into()), grouped(report.hits.into()));
        let share = format!("{}.{:02} %", share / 100, share % 100);
        let _ = writeln!(out, "{requests} requests, {hits} of them hits ({share})");
    }
    let mut lines = vec![("store", report.store(), "what DynamoDB charges".to_owned())];
    if !report.sources.is_empty() {
        lines.push(("source", report.made(), told("made", |source| source.calls)));
        lines.push(("saved", report.saved(), told("avoided", |source| source.calls_avoided)));
    }
    lines.extend(report.net().map(|net| ("net", net, "saved, less the store".to_owned())));
    let rows = lines.iter().map(|(name, amount, about)| (name, amount.rounded(), about));
    let rows: Vec<_> = rows.collect();
    let widest = rows.iter().map(|(_, amount, _)| amount.len()).max().unwrap_or(0);
    for (name, amount, about) in rows {
        let _ = writeln!(out, "{name:6}  {amount:>widest$}  {about}");
    }
    if explain {
        let _ = writeln!(out);
        for (name, amount, _) in &lines {
            let how = match *name {
                "store" => {
                    let tables = report.tables.iter().map(|cost| cost.total().to_string());
                    tables.collect::<Vec<_>>().join(" + ")
                }
                "net" => format!("{} − {}", report.saved(), report.store()),
                name => {
                    let calls = |source: &larder_schema::cost::SourceCost| {
                        if name == "saved" { source.calls_avoided } else { source.calls }
                    };
                    let sources = report.sources.iter().map(|source| match source.price {
                        Some(price) => format!("{} calls × {price}", grouped(calls(source).into())),
                        None => format!("{} calls of no declared cost", grouped(calls(source).into())),
                    });
                    sources.collect::<Vec<_>>().join(" + ")
                }
            };
            let _ = writeln!(out, "  {name}: {how} = {amount}");
        }
    }
    out.push('\n');
}

/// Which way of paying is cheaper, and where that changes.
fn advice(cost: &TableCost, choice: &Choice) -> String {
    let capacity = choice.capacity.iter().map(|(index, read, write)| match index {
        Some(index) => format!("{index} {read} / {write}"),
        None => format!("{read} / {write}"),
    });
    let capacity = capacity.collect::<Vec<_>>().join(", ");
    let prices = format!(
        "on demand {}, provisioned ({capacity}) {}",
        choice.on_demand.rounded(),
        choice.provisioned.rounded()
    );
    let is_on_demand = cost.billing == Billing::OnDemand;
    let verdict = if choice.is_provisioned_cheaper() {
        let peak = choice.peak_tenths();
        let less = (choice.on_demand - choice.provisioned).rounded();
        let way = if is_on_demand { "Provisioned would be" } else { "Provisioned is" };
        format!(
            "{way} {less} cheaper while the busiest time is under {}.{} times the average",
            peak / 10,
            peak % 10
        )
    } else {
        let meeting = match choice.cheaper_from_hundredths {
            Some(rate) => format!("; provisioned is cheaper from {} requests a second, steady", second(rate)),
            None => String::new(),
        };
        let way = if is_on_demand { "On demand is cheaper" } else { "On demand would be cheaper" };
        format!("{way} at {} requests a second{meeting}", second(choice.rate_hundredths))
    };
    format!("{}: {prices}. {verdict}.", cost.name)
}

fn second(hundredths: u64) -> String {
    if hundredths == 0 {
        return "under 0.01".to_owned();
    }
    format!("{}.{:02}", grouped((hundredths / 100).into()), hundredths % 100)
}

fn budgets(out: &mut String, report: &Report) {
    if report.budgets.is_empty() {
        return;
    }
    let store = report.store();
    let told = report.budgets.iter().map(|budget| {
        let state = if store >= *budget { "reached" } else { "not reached" };
        // In hundredths of a percent, down.
        let share = store.micros() * 10_000 / budget.micros().max(1);
        format!("{budget} {state} ({}.{:02} %)", share / 100, share % 100)
    });
    let _ = writeln!(out, "Budget alerts: {}.", told.collect::<Vec<_>>().join(", "));
}

pub(in crate::commands) fn json(report: &Report) -> Json {
    let tables: Vec<Json> = report.tables.iter().map(table_json).collect();
    let sources = report.sources.iter().map(|source| {
        json!({
            "source": source.name,
            "call_usd": source.price.map(|price| price.to_string().trim_start_matches('$').to_owned()),
            "calls": source.calls,
            "calls_avoided": source.calls_avoided,
            "made_usd": source.made.decimal(),
            "saved_usd": source.saved.decimal(),
        })
    });
    let store = report.store();
    let budgets = report.budgets.iter();
    let budgets = budgets.map(|budget| json!({"usd": budget.decimal(), "reached": store >= *budget}));
    json!({
        "system": report.system,
        "from": report.origin,
        "month_days": 30,
        "tables": tables,
        "sources": sources.collect::<Vec<_>>(),
        "budgets": budgets.collect::<Vec<_>>(),
        "store_usd": store.decimal(),
        "made_usd": report.made().decimal(),
        "saved_usd": report.saved().decimal(),
        "net_usd": report.net().map(Money::decimal),
        "requests": report.requests,
        "hits": report.hits,
        "notes": report.notes,
    })
}

fn table_json(cost: &TableCost) -> Json {
    let lines = cost.lines.iter().map(|line| {
        let (unit, quantity) = match line.quantity {
            Quantity::ReadHalves(halves) => ("read units", json!(halved(halves).replace(',', ""))),
            Quantity::WriteUnits(units) => ("write units", json!(units.to_string())),
            Quantity::Bytes(bytes) => ("bytes", json!(bytes.to_string())),
            Quantity::Capacity { read, write } => ("capacity", json!({"read": read, "write": write})),
        };
        json!({
            "what": line.kind.name(),
            "entity": line.entity,
            "operation": line.operation,
            "index": line.index,
            "requests": line.count,
            "quantity": quantity,
            "unit": unit,
            "usd": line.amount.decimal(),
            "how": line.how,
        })
    });
    let choice = cost.choice.as_ref().map(|choice| {
        let capacity = choice.capacity.iter();
        let capacity =
            capacity.map(|(index, read, write)| json!({"index": index, "read": read, "write": write}));
        json!({
            "on_demand_usd": choice.on_demand.decimal(),
            "provisioned_usd": choice.provisioned.decimal(),
            "capacity": capacity.collect::<Vec<_>>(),
            "cheaper": if choice.is_provisioned_cheaper() { "provisioned" } else { "on_demand" },
            "requests_per_100_seconds": choice.rate_hundredths,
            "provisioned_cheaper_from_requests_per_100_seconds": choice.cheaper_from_hundredths,
        })
    });
    json!({
        "table": cost.name,
        "billing": match cost.billing {
            Billing::OnDemand => "on_demand",
            Billing::Provisioned { .. } => "provisioned",
        },
        "prices": {
            "region": cost.entry.region,
            "from": cost.entry.from.to_string(),
            "as_of": cost.entry.as_of.to_string(),
            "source": cost.entry.source,
        },
        "lines": lines.collect::<Vec<_>>(),
        "choice": choice,
        "usd": cost.total().decimal(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_as_a_schema_writes_them() {
        for (bytes, text) in
            [(300, "300 bytes"), (2048, "2 KB"), (300 << 20, "300 MB"), (1536, "1.5 KB"), (25 << 30, "25 GB")]
        {
            assert_eq!(size(bytes), text);
        }
    }
}
