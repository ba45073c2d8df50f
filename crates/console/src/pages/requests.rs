//! The last requests that the server answered: the slowest and the most costly on top. No key and nothing of an item is in them.

use std::ops::Deref;

use larder::UnixTime;
use larder::jiff::Timestamp;
use larder_model::TableName;
use maud::{Markup, html};

use super::{Page, Room};
use crate::address::Url;
use crate::http::ServedRequest;
use crate::show;

/// How many are on top, and how many are listed below.
const TOP: usize = 5;
const LISTED: usize = 100;

/// A request, with what its reader calls its table.
struct Line {
    /// One of another region or account has both before its name, and no page here.
    table: Option<String>,
    request: ServedRequest,
}

impl Line {
    fn new(room: &Room<'_>, request: ServedRequest) -> Self {
        let shown =
            |table: &TableName| room.guest.map_or_else(|| table.to_string(), |guest| guest.shown(table));
        Self { table: request.table.as_ref().map(shown), request }
    }
}

impl Deref for Line {
    type Target = ServedRequest;

    fn deref(&self) -> &ServedRequest {
        &self.request
    }
}

pub(super) fn show(room: &Room<'_>) -> Page {
    let Some(requests) = &room.desk.requests else {
        let main = html! {
            h1 { "Requests" }
            div.empty {
                h2 { "Only a server knows what it was asked" }
                p { "This console looks at " span.mono { (room.house.store().place()) } " from outside, as its other clients do. The one that "
                    code { "larder serve" } " opens shows the requests of its own endpoint." }
            }
        };
        return Ok(room.page_of("Requests", "/requests", &main));
    };
    let mut all: Vec<Line> = requests().into_iter().map(|request| Line::new(room, request)).collect();
    all.reverse();
    let given = &room.given;
    let (table, operation) = (given.said("table"), given.said("operation"));
    let errors = given.said("errors").is_some();
    let mut tables: Vec<&str> = all.iter().filter_map(|request| request.table.as_deref()).collect();
    tables.sort_unstable();
    tables.dedup();
    let mut operations: Vec<&str> = all.iter().map(|request| request.operation).collect();
    operations.sort_unstable();
    operations.dedup();
    let wanted: Vec<&Line> = all
        .iter()
        .filter(|request| table.is_none_or(|table| request.table.as_deref() == Some(table)))
        .filter(|request| operation.is_none_or(|operation| request.operation == operation))
        .filter(|request| !errors || request.error.is_some())
        .collect();
    let mut slowest = wanted.clone();
    slowest.sort_by_key(|request| std::cmp::Reverse(request.took));
    let mut costly: Vec<&Line> = wanted.iter().copied().filter(|request| request.units > 0.0).collect();
    costly.sort_by(|a, b| b.units.total_cmp(&a.units));
    let failed = wanted.iter().filter(|request| request.error.is_some()).count();
    let units: f64 = wanted.iter().map(|request| request.units).fold(0.0, |sum, units| sum + units);
    let choice = |name: &str, label: &str, choices: &[&str], chosen: Option<&str>| {
        html! {
            div.field {
                label for=(name) { (label) }
                select id=(name) name=(name) {
                    option value="" { "all" }
                    @for choice in choices { option value=(choice) selected[Some(*choice) == chosen] { (choice) } }
                }
            }
        }
    };
    let main = html! {
        h1 { "Requests" }
        p.quiet { "The last thousand that this server's endpoint answered since it was started; what this console asks is not among them." }
        form.ask action="/requests" method="get" {
            (choice("table", "table", &tables, table))
            (choice("operation", "operation", &operations, operation))
            div.field.check { label { input type="checkbox" name="errors" value="1" checked[errors]; " errors alone" } }
            div.field.do { button.primary type="submit" { "Show" } }
        }
        div data-live {
            p role="status" {
                b { (show::count(wanted.len() as u64, "request")) } ", " (show::count(failed as u64, "error")) ", "
                (show::units(units)) " units"
            }
            @if wanted.is_empty() {
                div.empty {
                    h2 { "Nothing was asked yet" }
                    p { "Point a program at the endpoint, " span.mono { (room.house.store().place().trim_start_matches("dynamodb:")) } ", and its requests show up here." }
                }
            } @else {
                div.pair {
                    section.card { h2 { "Slowest" } (top("Slowest", &slowest[..slowest.len().min(TOP)])) }
                    section.card { h2 { "Most costly" } (top("Most costly", &costly[..costly.len().min(TOP)])) }
                }
                h2 { "Latest" @if wanted.len() > LISTED { span.quiet { " " (LISTED) " of " (show::number(wanted.len() as u64)) } } }
                (list("Latest", &wanted[..wanted.len().min(LISTED)]))
            }
        }
    };
    Ok(room.page_of("Requests", "/requests", &main))
}

/// The first of an order, with what they are ordered by in front.
fn top(name: &str, requests: &[&Line]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(name) {
            table {
                thead { tr { th.right { "Time" } th.right { "Units" } th { "Operation" } th { "Table" } } }
                tbody {
                    @for request in requests {
                        tr {
                            td.right { (took(request.took)) }
                            td.right { (units(request)) }
                            td { (request.operation) @if request.error.is_some() { " " span.badge.bad { "error" } } }
                            td.mono { (request.table.as_deref().unwrap_or_default()) }
                        }
                    }
                }
            }
        }
    }
}

fn units(request: &Line) -> String {
    let kind = if request.writes { "W" } else { "R" };
    if request.units > 0.0 { format!("{} {kind}", show::units(request.units)) } else { String::new() }
}

fn list(name: &str, requests: &[&Line]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(name) {
            table {
                thead { tr { th { "At" } th { "Operation" } th { "Table" } th.right { "Units" } th.right { "Time" } th { "Error" } } }
                tbody {
                    @for request in requests {
                        tr {
                            td { (moment(request.at)) }
                            td { (request.operation) }
                            td {
                                @if let Some(table) = &request.table {
                                    @if table.contains('/') { (table) } @else { a href=(Url::to(["tables", table])) { (table) } }
                                    @if request.tables > 1 { span.quiet { " and " (request.tables - 1) " more" } }
                                }
                            }
                            td.right { (units(request)) }
                            td.right { (took(request.took)) }
                            td { @if let Some(error) = request.error { span.badge.bad { (error) } } }
                        }
                    }
                }
            }
        }
    }
}

/// A moment with its milliseconds: requests come closer together than seconds.
fn moment(at: UnixTime) -> Markup {
    match Timestamp::from_millisecond(at.millis()) {
        Ok(at) => show::moment(at),
        Err(_) => html! { (at.millis()) },
    }
}

fn took(time: std::time::Duration) -> String {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    match micros {
        0..1000 => format!("{micros} µs"),
        1000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.2} s", micros as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_is_told_by_a_unit_that_fits() {
        for (micros, shown) in [(7, "7 µs"), (1500, "1.5 ms"), (2_340_000, "2.34 s")] {
            assert_eq!(took(Duration::from_micros(micros)), shown);
        }
    }
}
