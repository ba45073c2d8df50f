//! What was: Larder as it is beside an earlier state of it, in turns, on the same work.

use std::path::Path;

use anyhow::Result;

use super::seen::Compared;
use super::{CONNECTIONS, Plan};
use crate::job::{Fill, Measure, Measured};
use crate::peer::{Installed, Peer};
use crate::results::median;
use crate::run;
use crate::subject::Subject;
use crate::workload::Op;

const ITEMS: u64 = 100_000;

/// What is compared: the more of it the worse.
const WHAT: [&str; 5] = [
    "GetItem, 64 connections, µs",
    "Query of 50, 64 connections, µs",
    "embedded get, µs",
    "idle memory, empty, MB",
    "start, empty, ms",
];

/// `before` holds `larder` and `larder-bench` of the earlier state.
pub(super) async fn compare(
    larder: &Installed,
    before: &Path,
    plan: &Plan,
    data: &Path,
) -> Result<Vec<Compared>> {
    let items = ITEMS.min(plan.first());
    let states = [
        [larder.clone(), Installed::at(Peer::LarderEmbedded, std::env::current_exe()?)?],
        [
            Installed::at(Peer::Larder, before.join("larder"))?,
            Installed::at(Peer::LarderEmbedded, before.join("larder-bench"))?,
        ],
    ];
    let fill =
        Fill { from: 0, items, scattered: false, connections: CONNECTIONS, seconds_max: plan.fill_seconds };
    let mut subjects = Vec::new();
    for installed in states.iter().flatten() {
        let mut subject = Subject::open(installed, tempfile::tempdir_in(data)?).await?;
        subject.create().await?;
        subject.fill(fill).await?;
        subjects.push(subject);
    }
    let measure = |op, connections| Measure {
        connections,
        seconds: (plan.seconds / 20.0).max(0.2),
        spread: false,
        ..plan.measure(op, items)
    };
    let mut rounds: [Vec<[f64; WHAT.len()]>; 2] = Default::default();
    for _ in 0..plan.opens {
        for (at, [installed, _]) in states.iter().enumerate() {
            let micros = |measured: &Measured| 1e6 / measured.rate;
            let get = subjects[2 * at].ask(&measure(Op::Get, CONNECTIONS)).await?;
            let query = subjects[2 * at].ask(&measure(Op::Query, CONNECTIONS)).await?;
            let embedded = subjects[2 * at + 1].ask(&measure(Op::Get, 1)).await?;
            let start = run::start(installed, 0, tempfile::tempdir_in(data)?.path()).await?;
            let idle_megabytes = start.idle_bytes as f64 / 1e6;
            rounds[at].push([micros(&get), micros(&query), embedded.p50, idle_megabytes, start.millis]);
        }
    }
    for subject in subjects {
        subject.stop().await?;
    }
    let value =
        |state: usize, at: usize| median(rounds[state].iter().map(|round| round[at])).unwrap_or(f64::NAN);
    let compared = |(at, what)| Compared { what, now: value(0, at), before: value(1, at) };
    Ok(WHAT.into_iter().enumerate().map(compared).collect())
}
