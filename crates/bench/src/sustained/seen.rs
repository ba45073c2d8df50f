//! What was seen, and its tables.

use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;

use super::{CONNECTIONS, PAUSE_SECONDS, Plan};
use crate::embedded::larder::item;
use crate::job::Measured;
use crate::peer::Peer;
use crate::report::{Table, count, megabytes, micros};
use crate::subject::Subject;
use crate::workload::Sample;

#[derive(Debug, Default, Serialize)]
pub(super) struct Seen {
    pub(super) rows: Vec<Row>,
    pub(super) kept: Vec<Kept>,
    pub(super) before: Vec<Compared>,
    pub(super) absent: Vec<(Peer, String)>,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Work {
    Grow,
    Put,
    Get,
    Query,
    GetAlone,
    QueryAlone,
    GetBeside,
    PutBeside,
    PutWithPauses,
}

impl Work {
    pub(super) fn title(self) -> String {
        match self {
            Self::Grow => "BatchWriteItem of new items".to_owned(),
            Self::Put => "PutItem".to_owned(),
            Self::Get => "GetItem".to_owned(),
            Self::Query => "Query of 50".to_owned(),
            Self::GetAlone => "GetItem, one connection".to_owned(),
            Self::QueryAlone => "Query of 50, one connection".to_owned(),
            Self::GetBeside => format!("GetItem beside {CONNECTIONS} writers"),
            Self::PutBeside => format!("PutItem beside {CONNECTIONS} readers"),
            Self::PutWithPauses => format!("PutItem, one client, {:.0} ms apart", PAUSE_SECONDS * 1_000.0),
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) peer: Peer,
    pub(super) items: u64,
    pub(super) work: Work,
    pub(super) measured: Measured,
    /// Items a second in the last quarter of a table that grew.
    pub(super) last_rate: Option<f64>,
    /// Of its server, or of the store in process, right afterwards.
    pub(super) resident_bytes: u64,
    /// Warm-up included.
    pub(super) written_bytes: Option<u64>,
    pub(super) server_cpu_seconds: Option<f64>,
}

impl Row {
    pub(super) fn new(subject: &Subject, items: u64, work: Work, measured: Measured) -> Result<Self> {
        let (peer, resident_bytes) = (subject.peer(), subject.running().resident_bytes()?);
        let (last_rate, written_bytes, server_cpu_seconds) = (None, None, None);
        Ok(Self { peer, items, work, measured, last_rate, resident_bytes, written_bytes, server_cpu_seconds })
    }

    pub(super) fn written_each(&self) -> Option<f64> {
        Some(self.written_bytes? as f64 / self.measured.requests.max(1) as f64)
    }

    fn cells(&self) -> Vec<String> {
        let Measured { rate, p50, p99, max, errors, .. } = self.measured;
        let mut rate = count(rate.round() as u64);
        if let Some(last) = self.last_rate {
            rate = format!("{rate}, at last {}", count(last.round() as u64));
        }
        if errors > 0 {
            rate = format!("{rate} ({errors} errors)");
        }
        let latencies = if max > 0.0 { [p50, p99, max].map(micros) } else { ["", "", ""].map(str::to_owned) };
        let cpu = self.server_cpu_seconds.map(|cpu| micros(1e6 * cpu / self.measured.requests.max(1) as f64));
        let written = match self.work {
            Work::Grow | Work::Put | Work::PutWithPauses => self.written_each().map(kilobytes),
            _ => None,
        };
        let mut cells = vec![rate];
        cells.extend(latencies);
        cells.extend([
            cpu.unwrap_or_default(),
            written.unwrap_or_default(),
            megabytes(self.resident_bytes as f64),
        ]);
        cells
    }
}

/// A store that was closed.
#[derive(Debug, Serialize)]
pub(super) struct Kept {
    pub(super) items: u64,
    pub(super) disk_bytes: u64,
    pub(super) crash_open_millis: f64,
    pub(super) clean_open_millis: f64,
}

/// Something now, and as it was: the more the worse.
#[derive(Debug, Serialize)]
pub(super) struct Compared {
    pub(super) what: &'static str,
    pub(super) now: f64,
    pub(super) before: f64,
}

impl Seen {
    pub(super) fn absent(&mut self, peer: Peer, error: &anyhow::Error) {
        let reason = format!("{error:#}");
        eprintln!("{} is absent: {reason}", peer.title());
        self.absent.push((peer, reason));
    }

    pub(super) fn row(&self, peer: Peer, work: Work, items: u64) -> Option<&Row> {
        self.rows.iter().find(|row| (row.peer, row.work, row.items) == (peer, work, items))
    }

    pub(super) fn render(&self, plan: &Plan) -> String {
        let mut text = String::new();
        let mut sizes: Vec<u64> = self.rows.iter().map(|row| row.items).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for items in sizes {
            let mut table = Table::new(format!(
                "{} items of {:.0} bytes, one index with all; {CONNECTIONS} connections, {} s each",
                count(items),
                item_bytes(),
                plan.seconds
            ));
            let heads = ["a second", "p50", "p99", "max", "CPU", "written", "resident"];
            table.row("", heads.map(str::to_owned));
            for row in self.rows.iter().filter(|row| row.items == items) {
                table.row(&format!("{}: {}", row.peer.title(), row.work.title()), row.cells());
            }
            text.push_str(&table.render());
            for kept in self.kept.iter().filter(|kept| kept.items == items) {
                let times = kept.disk_bytes as f64 / (items as f64 * item_bytes());
                let _ = writeln!(
                    text,
                    "  on disk {}, {times:.1} times the items; open after kill -9 {:.1} ms at worst, clean {:.1} ms",
                    megabytes(kept.disk_bytes as f64),
                    kept.crash_open_millis,
                    kept.clean_open_millis
                );
            }
            text.push('\n');
        }
        for compared in &self.before {
            let Compared { what, now, before } = compared;
            let _ = writeln!(text, "Before and now: {what}: {before:.1}, {now:.1}");
        }
        for (peer, reason) in &self.absent {
            let _ = writeln!(text, "Absent: {}: {reason}", peer.title());
        }
        text
    }
}

/// What an item of the workload counts, on average.
pub(super) fn item_bytes() -> f64 {
    const SAMPLES: u64 = 1_000;
    let bytes = |number| item(Sample { number, version: number }).map_or(0, |item| item.size());
    (0..SAMPLES).map(bytes).sum::<usize>() as f64 / SAMPLES as f64
}

fn kilobytes(bytes: f64) -> String {
    format!("{:.1} KB", bytes / 1_000.0)
}
