//! What happens over time, as small charts: requests, latency, errors, units, growth; hits, calls and dollars by source.

use larder_model::TableName;
use larder_server::Shown;
use maud::{Markup, html};

use super::{Page, Room};
use crate::pulse::{Series, Source, TICK};
use crate::show;

const WIDTH: f64 = 220.0;
const HEIGHT: f64 = 44.0;

/// The page of charts; the script takes them from it to renew those of the overview.
pub(super) fn show(room: &Room<'_>) -> Page {
    let main = html! { h1 { "Traffic" } (section(room)) };
    Ok(room.page_of("Traffic", "/", &main))
}

pub(super) fn section(room: &Room<'_>) -> Markup {
    if !room.might_see(Shown::Metrics) {
        return html! {};
    }
    let pulse = &room.desk.pulse;
    let told = pulse.told(room.known.systems().map(crate::house::Open::schema));
    html! {
        section.card #traffic data-every=[pulse.is_known().then_some(TICK.as_secs())] {
            @if !pulse.is_known() {
                h2 { "Traffic" }
                p.quiet { "Requests are counted by the server, and hits by the programs that use the layer: the console of " code { "larder serve" } " shows the "
                    "first, that of " code { "larder demo" } " both. This one looks at a store of another program." }
            } @else if told.requests.0.is_empty() {
                h2 { "Traffic" }
                p.quiet { "It is counted from now on; charts are here in a few seconds." }
            } @else {
                @let since = show::away_text(-i64::try_from(told.seconds).unwrap_or(0));
                h2 { "Traffic " span.quiet { "since " (since) } }
                div.charts {
                    (chart("Requests a second", &since, &[("", &told.requests)], number))
                    (chart("Latency in milliseconds", &since, &[("", &told.latency)], number))
                    (chart("Errors a second", &since, &[("", &told.errors)], number))
                    (chart("Units a second", &since, &[("read", &told.read_units), ("write", &told.write_units)], number))
                    @if told.bytes.most() > 0.0 { (chart("Size of the store", &since, &[("", &told.bytes)], size)) }
                }
                @for source in &told.sources { (of_source(source, &since)) }
            }
        }
    }
}

/// The size of one table over time, where it is known and may be seen.
pub(super) fn growth(room: &Room<'_>, table: &TableName) -> Markup {
    // The figures are those of the tables that have no region and account of their own; another's of the same name is another table.
    let is_it = room.guest.is_none_or(|guest| guest.shown(table) == table.as_str());
    let known = room.desk.pulse.growth(table.as_str()).filter(|_| is_it && room.might_see(Shown::Metrics));
    let Some((seconds, sizes)) = known.filter(|(_, sizes)| sizes.0.len() > 1) else { return html! {} };
    let since = show::away_text(-i64::try_from(seconds).unwrap_or(0));
    html! { div.charts { (chart("Size of the table", &since, &[("", &sizes)], size)) } }
}

fn of_source(source: &Source, since: &str) -> Markup {
    let (hits, misses) = (source.hits.all(), source.misses.all());
    let rate = if hits + misses > 0.0 { hits * 100.0 / (hits + misses) } else { 0.0 };
    html! {
        h3 { (source.system) " from " (source.name) " "
            span.quiet {
                @if hits + misses > 0.0 { (format!("{rate:.0}")) " % hits" } @else { "nothing was read" }
                @if let Some(saved) = source.dollars_saved { " · " (dollars(saved)) " saved since it was started" }
            }
        }
        div.charts {
            (chart("Hits and misses a second", since, &[("hits", &source.hits), ("misses", &source.misses)], number))
            (chart("Calls a second", since, &[("", &source.calls)], number))
            @if source.dollars_saved.is_some() { (chart("Dollars saved an hour", since, &[("", &source.dollars)], dollars)) }
        }
    }
}

/// Lines from left to right, all on one scale. What they show is said beside them.
fn chart(title: &str, since: &str, lines: &[(&str, &Series)], written: fn(f64) -> String) -> Markup {
    let most = lines.iter().map(|(_, series)| series.most()).fold(0.0, f64::max);
    let said: Vec<String> = lines
        .iter()
        .map(|(name, series)| {
            format!("{name}{}{}", if name.is_empty() { "" } else { " " }, written(series.now()))
        })
        .collect();
    let label = format!("{title} since {since}: now {}, at most {}", said.join(", "), written(most));
    html! {
        figure.chart {
            figcaption { (title) }
            svg role="img" aria-label=(label) viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" {
                @for (at, (_, series)) in lines.iter().enumerate() { polyline class={ "l" (at) } points=(points(series, most)) {} }
            }
            p {
                @for (at, text) in said.iter().enumerate() {
                    @if lines.len() > 1 { span class={ "dot l" (at) } aria-hidden="true" {} }
                    b { (text) } " "
                }
                span.quiet { "at most " (written(most)) }
            }
        }
    }
}

fn points(series: &Series, most: f64) -> String {
    let step = WIDTH / (series.0.len().max(2) - 1) as f64;
    let y = |value: f64| if most > 0.0 { HEIGHT - 2.0 - value / most * (HEIGHT - 4.0) } else { HEIGHT - 2.0 };
    let points =
        series.0.iter().enumerate().map(|(at, value)| format!("{:.1},{:.1}", at as f64 * step, y(*value)));
    points.collect::<Vec<_>>().join(" ")
}

fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => show::number(value.round() as u64),
        value if value >= 10.0 || value == 0.0 => format!("{value:.0}"),
        value if value >= 0.1 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn size(bytes: f64) -> String {
    larder::price::size(bytes as u64)
}

fn dollars(dollars: f64) -> String {
    if dollars == 0.0 || dollars >= 0.01 { format!("${dollars:.2}") } else { format!("${dollars:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_within_its_chart_and_is_told_in_words() {
        let series = Series(vec![0.0, 5.0, 10.0]);
        assert_eq!(points(&series, 10.0), "0.0,42.0 110.0,22.0 220.0,2.0");
        assert_eq!(points(&Series(vec![0.0]), 0.0), "0.0,42.0");
        let shown = chart("Requests", "1 min ago", &[("", &series)], number).into_string();
        assert!(shown.contains("Requests since 1 min ago: now 10, at most 10"), "{shown}");
    }
}
