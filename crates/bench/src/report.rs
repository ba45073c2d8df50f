//! The tables, as a person reads them.

use std::fmt::Write;

use crate::plan::Plan;
use crate::results::{Cell, Results};
use crate::targets::{Bound, Reached, Target};
use crate::workload::Op;

pub(crate) fn render(plan: &Plan, results: &Results, targets: &[Target]) -> String {
    let mut sections: Vec<String> = plan.ops.iter().map(|op| matrix(plan, results, *op)).collect();
    sections.push(cpu(plan, results));
    sections.push(growth(plan, results));
    sections.push(starts(plan, results));
    sections.push(notes(plan, results));
    sections.push(ratios("Required and reached, as ratios within this run", targets));
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

/// Requests a second, p50 and p99 in microseconds, by connections.
fn matrix(plan: &Plan, results: &Results, op: Op) -> String {
    let mut table = Table::new(format!(
        "{}, {} items; requests a second, p50 and p99; median of {}",
        op.title(),
        count(plan.table_items),
        plan.rounds
    ));
    let heads = plan.connections.iter().map(|connections| format!("{connections} conn."));
    table.row("", heads.flat_map(|head| [head, "p50".into(), "p99".into()]));
    for peer in plan.peers.iter().filter(|peer| peer.runs(op)) {
        let cells = plan.connections.iter().map(|connections| {
            results
                .cell(*peer, op, *connections, plan.table_items)
                .map_or(["–".into(), "".into(), "".into()], cell)
        });
        table.row(peer.title(), cells.flatten());
    }
    table.render()
}

fn cell(cell: &Cell) -> [String; 3] {
    let rate = count(cell.median(|measured| measured.rate).round() as u64);
    let rate = match cell.errors() {
        0 => rate,
        errors => format!("{rate} ({errors} errors)"),
    };
    [rate, micros(cell.median(|measured| measured.p50)), micros(cell.median(|measured| measured.p99))]
}

/// Who spends the two cores.
fn cpu(plan: &Plan, results: &Results) -> String {
    const CONNECTIONS: usize = 64;
    let mut table =
        Table::new(format!("CPU time of one request at {CONNECTIONS} connections: server + load generator"));
    table.row("", plan.ops.iter().map(|op| op.operation().to_owned()));
    for peer in plan.peers.iter().filter(|peer| peer.engine().is_none()) {
        let split = |op: &Op| {
            let cell = results.cell(*peer, *op, CONNECTIONS, plan.table_items);
            let split = cell.and_then(Cell::cpu_split);
            split.map_or("–".into(), |(server, client)| format!("{} + {}", micros(server), micros(client)))
        };
        table.row(peer.title(), plan.ops.iter().map(split));
    }
    table.render()
}

fn growth(plan: &Plan, results: &Results) -> String {
    let mut table = Table::new("Growth: p50 with one connection, and resident memory, by items".to_owned());
    let ops = plan.growth_ops();
    let heads = plan.sizes.iter().flat_map(|items| {
        let ops = ops.iter().map(|op| op.operation().to_owned());
        ops.chain([format!("at {}", count(*items))])
    });
    table.row("", heads);
    for peer in plan.peers.iter().filter(|peer| peer.grows()) {
        let cells = plan.sizes.iter().flat_map(|items| {
            let p50 = |op: &Op| {
                let cell = results.cell(*peer, *op, 1, *items);
                cell.map_or("–".into(), |cell| micros(cell.median(|measured| measured.p50)))
            };
            let memory =
                results.resident(*peer, *items).map_or("–".into(), |bytes| megabytes(bytes as f64));
            ops.iter().map(p50).chain([memory]).collect::<Vec<String>>()
        });
        table.row(peer.title(), cells);
    }
    table.render()
}

fn starts(plan: &Plan, results: &Results) -> String {
    let most = plan.sizes.last().copied().unwrap_or_default();
    let mut table =
        Table::new(format!("Start to first answer, and idle memory after it; median of {}", plan.starts));
    let full = format!("{} items", count(most));
    table.row("", ["empty".into(), "idle".into(), full, "idle".into()]);
    for peer in plan.peers.iter().filter(|peer| peer.engine().is_none()) {
        let cells = [0, most].into_iter().flat_map(|items| match results.start(*peer, items) {
            Some((millis, bytes)) => [format!("{millis:.1} ms"), megabytes(bytes)],
            None => ["–".into(), "".into()],
        });
        table.row(peer.title(), cells);
    }
    table.render()
}

fn notes(plan: &Plan, results: &Results) -> String {
    let mut text = String::from("Writes\n");
    for peer in &plan.peers {
        let _ = writeln!(text, "  {}: {}", peer.title(), peer.durability());
    }
    if !results.fills.is_empty() {
        text.push_str("\nFilled\n");
    }
    for fill in &results.fills {
        let rate = count((fill.items as f64 / fill.seconds).round() as u64);
        let _ = writeln!(text, "  {}: {} items, {rate} a second", fill.peer.title(), count(fill.items));
    }
    let first_errors = results.cells.iter().filter_map(|cell| {
        let error = cell.rounds.iter().find_map(|round| round.measured.first_error.as_ref())?;
        let place = (cell.peer.title(), cell.op.operation(), cell.connections);
        Some(format!("  {}, {}, {} connections: {error}\n", place.0, place.1, place.2))
    });
    let first_errors: String = first_errors.collect();
    if !first_errors.is_empty() {
        text.push_str("\nErrors\n");
        text.push_str(&first_errors);
    }
    if !results.absent.is_empty() {
        text.push_str("\nAbsent\n");
    }
    for absent in &results.absent {
        let _ = writeln!(text, "  {}: {}", absent.peer.title(), absent.reason);
    }
    text
}

pub(crate) fn ratios(title: &str, targets: &[Target]) -> String {
    let mut table = Table::new(title.to_owned());
    table.row("", ["required", "reached", ""].map(String::from));
    for target in targets {
        let required = match target.required {
            Bound::AtLeast(least) => format!("≥ {least}"),
            Bound::AtMost(most) => format!("≤ {most}"),
        };
        let reached = match target.reached {
            Reached::Value(value) => format!("{value:.2}"),
            Reached::Missing | Reached::Skipped => "–".into(),
        };
        let verdict = match (target.reached, target.met()) {
            (_, Some(true)) => "met",
            (Reached::Missing, _) => "not measured",
            (_, Some(false)) => "MISSED",
            (_, None) => "not in this run",
        };
        table.row(&target.what, [required, reached, verdict.into()]);
    }
    table.render()
}

/// Columns as wide as their widest cell; the first is left-aligned, the others right-aligned.
#[derive(Debug)]
pub(crate) struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(title: String) -> Table {
        Table { title, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, name: &str, cells: impl IntoIterator<Item = String>) {
        self.rows.push([name.to_owned()].into_iter().chain(cells).collect());
    }

    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = format!("{}\n", self.title);
        for row in &self.rows {
            let mut line = format!("  {:<width$}", row[0], width = widths[0]);
            for (cell, width) in row.iter().zip(&widths).skip(1) {
                let _ = write!(line, "  {cell:>width$}");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

pub(crate) fn micros(value: f64) -> String {
    match value {
        value if value >= 100_000.0 => format!("{:.0} ms", value / 1_000.0),
        value if value >= 1_000.0 => format!("{:.1} ms", value / 1_000.0),
        value if value >= 100.0 => format!("{value:.0} µs"),
        value => format!("{value:.1} µs"),
    }
}

pub(crate) fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}

/// Thousands apart: 12 345.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        for (value, text) in [(0, "0"), (999, "999"), (1_000, "1 000"), (1_234_567, "1 234 567")] {
            assert_eq!(count(value), text);
        }
    }

    #[test]
    fn a_latency_keeps_three_figures() {
        for (value, text) in [(8.51, "8.5 µs"), (123.4, "123 µs"), (1_234.0, "1.2 ms"), (123_456.0, "123 ms")]
        {
            assert_eq!(micros(value), text);
        }
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new("t".to_owned());
        table.row("", ["a".to_owned(), "bb".to_owned()]);
        table.row("one", ["1 000".to_owned(), "–".to_owned()]);
        assert_eq!(table.render(), "t\n           a  bb\n  one  1 000   –\n");
    }
}
