//! What it came to, and whether it adds up.
//!
//! Three count independently: readers by the answers they were given, the layer, and the origins. What must be equal
//! is compared here, and what is not is told.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::screen::{self, SystemView};
use crate::data::table;

/// One system's figures, when all has come to rest.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) view: SystemView,
    /// Requests the origin says it was sent.
    pub(super) received: u64,
    /// Requests that were sent again after a 429.
    pub(super) waits: u64,
}

#[derive(Debug)]
pub(super) struct Summary {
    pub(super) elapsed: Duration,
    pub(super) speed: u32,
    pub(super) rows: Vec<Row>,
    /// Writes behind that did not happen.
    pub(super) unwritten: u64,
}

impl Summary {
    /// What does not add up.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for Row { view, received, waits } in &self.rows {
            let (counts, stats) = (view.counts, view.stats);
            let mut equal = |what: &str, one: u64, other: u64| {
                if one != other {
                    faults.push(format!("{}: {what}: {one} and {other}", view.name));
                }
            };
            equal("requests sent, and received by the origin", view.sent, *received);
            equal("hits by the readers, and by the layer", counts.hits(), stats.hits);
            equal("misses by the readers, and by the layer", counts.misses(), stats.misses);
            // A cache-aside reader calls its source itself.
            if stats.loads > 0 {
                equal("calls by the loaders, and by the layer", counts.called, stats.loads);
            }
            if *waits > view.turned_away {
                let turned_away = view.turned_away;
                faults.push(format!("{}: {waits} waits for {turned_away} requests turned away", view.name));
            }
            if counts.led > counts.misses() {
                faults.push(format!(
                    "{}: {} reads called for {} misses",
                    view.name,
                    counts.led,
                    counts.misses()
                ));
            }
        }
        if self.unwritten > 0 {
            faults.push(format!("{} forecasts were fetched and not written", self.unwritten));
        }
        faults
    }

    pub(super) fn json(&self) -> Json {
        let rows = self.rows.iter().map(|Row { view, received, waits }| {
            let (counts, stats) = (view.counts, view.stats);
            json!({
                "system": view.name,
                "reads": counts.reads(),
                "hits": {"l1": counts.l1, "store": counts.store, "stale": counts.stale},
                "misses": {"source": counts.source, "absent": counts.absent, "failed": counts.failed},
                "called": counts.led,
                "joined": counts.misses().saturating_sub(counts.led),
                "layer": {
                    "hits": stats.hits, "misses": stats.misses, "loads": stats.loads,
                    "load_failures": stats.load_failures, "store_errors": stats.store_errors,
                    "writes": stats.writes, "writes_lost": stats.writes_lost,
                    "dollars_spent": stats.dollars_spent(), "dollars_saved": stats.dollars_saved(),
                },
                "requests": {
                    "sent": view.sent, "received": received, "waits": waits,
                    "turned_away": view.turned_away, "failed": view.failed,
                },
                "items": view.held.items,
                "expired": view.held.expired,
                "split": view.held.split,
                "faulty": view.held.faulty,
                "states": states(view),
            })
        });
        json!({
            "seconds": self.elapsed.as_secs_f64(),
            "speed": self.speed,
            "systems": rows.collect::<Vec<_>>(),
            "unwritten": self.unwritten,
            "faults": self.faults(),
        })
    }

    pub(super) fn text(&self) -> String {
        let hours = self.elapsed.as_secs_f64() * f64::from(self.speed) / 3600.0;
        let mut text = format!("{:.0} s, in which {hours:.1} hours went by\n\n", self.elapsed.as_secs_f64());
        text.push_str(&self.reads());
        text.push('\n');
        text.push_str(&self.requests());
        text.push('\n');
        let stats = self.rows.iter().map(|row| row.view.stats);
        let (spent, saved) = stats.fold((0.0, 0.0), |(spent, saved), stats| {
            (spent + stats.dollars_spent(), saved + stats.dollars_saved())
        });
        text.push_str(&format!("forecasts cost ${spent:.4}; the cache saved ${saved:.4}\n"));
        text.extend(self.rows.iter().flat_map(|row| screen::lifecycles(&row.view)).map(|line| line + "\n"));
        let views: Vec<&SystemView> = self.rows.iter().map(|row| &row.view).collect();
        text.extend(screen::faults(&views).into_iter().map(|line| line + "\n"));
        let faults = self.faults();
        if faults.is_empty() {
            text.push_str(
                "It adds up: reads = hits + misses, misses = called + joined, and requests sent\n\
                 = received. Readers, layer and origins each counted for themselves.\n",
            );
        } else {
            text.push_str("It does not add up:\n");
            text.extend(faults.iter().map(|fault| format!("  {fault}\n")));
        }
        text
    }

    /// Reads, by where they were answered from.
    fn reads(&self) -> String {
        let names = [
            "", "reads", "=", "L1", "store", "stale", "+", "called", "joined", "|", "source", "absent",
            "failed",
        ];
        let mut rows = Vec::new();
        let mut sum = [0; 9];
        let row = |name: &str, numbers: [u64; 9]| {
            let [reads, l1, store, stale, called, joined, source, absent, failed] =
                numbers.map(|number| number.to_string());
            let mark = |text: &str| text.to_owned();
            vec![
                name.to_owned(),
                reads,
                mark("="),
                l1,
                store,
                stale,
                mark("+"),
                called,
                joined,
                mark("|"),
                source,
                absent,
                failed,
            ]
        };
        for Row { view, .. } in self.rows.iter().filter(|row| row.view.is_cache) {
            let counts = view.counts;
            let joined = counts.misses().saturating_sub(counts.led);
            let numbers = [
                counts.reads(),
                counts.l1,
                counts.store,
                counts.stale,
                counts.led,
                joined,
                counts.source,
                counts.absent,
                counts.failed,
            ];
            for (sum, number) in sum.iter_mut().zip(numbers) {
                *sum += number;
            }
            rows.push(row(view.name, numbers));
        }
        rows.push(row("all", sum));
        table(&names.map(str::to_owned), rows)
    }

    /// Requests to the origins, and what is kept of their answers.
    fn requests(&self) -> String {
        let names = ["", "sent", "received", "429", "500", "items", "expired"];
        let rows = self.rows.iter().map(|Row { view, received, .. }| {
            let (held, sent) = (&view.held, view.sent);
            let numbers = [sent, *received, view.turned_away, view.failed, held.items, held.expired];
            let name = std::iter::once(view.name.to_owned());
            name.chain(numbers.map(|number| number.to_string())).collect()
        });
        table(&names.map(str::to_owned), rows.collect())
    }
}

fn states(view: &SystemView) -> Json {
    let mut all = serde_json::Map::new();
    for ((lifecycle, state), count) in &view.held.states {
        let states = all.entry(*lifecycle).or_insert_with(|| json!({}));
        states[*state] = (*count).into();
    }
    all.into()
}
