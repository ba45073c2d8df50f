//! What has to last, and what did.

use super::seen::{Compared, Kept, Row, Seen, Work, item_bytes};
use super::{CONNECTIONS, Plan, cache_bytes};
use crate::job::Measured;
use crate::peer::Peer;
use crate::report::count;
use crate::targets::{Bound, Reached, Target};

/// Memory beside the cache: the server itself, and what is on its way to disk.
const BESIDE_CACHE_BYTES: u64 = 64 << 20;
const SOME_RESIDENT_BYTES: f64 = 150e6;
/// On two cores.
const NEW_ITEMS_PER_SECOND: f64 = 25_000.0;
const PAUSED_PUT_BYTES: f64 = 32.0 * 1024.0;

type Value = fn(&Measured) -> f64;
const RATE: Value = |measured| measured.rate;
const P50: Value = |measured| measured.p50;
const P99: Value = |measured| measured.p99;
const MAX: Value = |measured| measured.max;

pub(super) fn bars(plan: &Plan, seen: &Seen) -> Vec<Target> {
    let judge = Judge { plan, seen };
    let (first, last) = (plan.first(), plan.items.last().copied().unwrap_or_default());
    let mut bars = vec![
        judge.to_peer(Work::Put, Peer::BareLog, first, 0.6),
        judge.to_peer(Work::Put, Peer::Dynoxide, first, 10.0),
    ];
    for items in &plan.items {
        bars.push(judge.millis(Work::Put, *items, "p99", P99, 20.0));
        bars.push(judge.millis(Work::Put, *items, "max", MAX, 150.0));
    }
    if first < last {
        bars.extend([Work::Put, Work::Grow, Work::Get].map(|work| judge.lasts(work, first, last)));
    }
    bars.push(judge.grows(last));
    for items in &plan.items {
        bars.push(judge.beside(*items));
    }
    for items in &plan.items {
        let most = if *items <= 1_000_000 { 1.5 } else { 2.5 };
        bars.extend(
            [Work::QueryAlone, Work::GetAlone].map(|work| judge.latency_grows(work, plan.few, *items, most)),
        );
    }
    bars.push(judge.to_peer(Work::Get, Peer::Bare, first, 0.7));
    for items in &plan.items {
        bars.push(judge.written(*items));
    }
    bars.push(judge.kept(last, "disk to bytes of items", 3.0, |kept| {
        kept.disk_bytes as f64 / (kept.items as f64 * item_bytes())
    }));
    bars.push(judge.resident());
    bars.push(judge.resident_of_some());
    bars.push(judge.kept(last, "open after kill -9, ms", 300.0, |kept| kept.crash_open_millis));
    bars.push(judge.kept(last, "clean open, ms", 10.0, |kept| kept.clean_open_millis));
    bars.push(judge.paused(first));
    bars.extend(judge.before());
    bars
}

#[derive(Debug)]
struct Judge<'a> {
    plan: &'a Plan,
    seen: &'a Seen,
}

impl Judge<'_> {
    fn value(&self, peer: Peer, work: Work, items: u64, value: Value) -> Reached {
        match self.seen.row(peer, work, items) {
            Some(row) => Reached::Value(value(&row.measured)),
            None => self.without(peer),
        }
    }

    fn without(&self, peer: Peer) -> Reached {
        if self.plan.peers.contains(&peer) { Reached::Missing } else { Reached::Skipped }
    }

    fn to_peer(&self, work: Work, peer: Peer, items: u64, least: f64) -> Target {
        let ours = self.value(Peer::Larder, work, items, RATE);
        Target {
            what: format!("{}, {} items: rate to {}", work.title(), count(items), peer.title()),
            required: Bound::AtLeast(least),
            reached: ours.over(self.value(peer, work, items, RATE)),
        }
    }

    fn millis(&self, work: Work, items: u64, name: &str, value: Value, most: f64) -> Target {
        Target {
            what: format!("{}, {} items: {name}, ms", work.title(), count(items)),
            required: Bound::AtMost(most),
            reached: self.value(Peer::Larder, work, items, value).over(Reached::Value(1_000.0)),
        }
    }

    /// The rate at the largest size over that at the first.
    fn lasts(&self, work: Work, first: u64, last: u64) -> Target {
        let rate = |items| match self.seen.row(Peer::Larder, work, items) {
            Some(row) => Reached::Value(row.last_rate.unwrap_or(row.measured.rate)),
            None => self.without(Peer::Larder),
        };
        Target {
            what: format!("{}: rate at {} items to that at {}", work.title(), count(last), count(first)),
            required: Bound::AtLeast(0.7),
            reached: rate(last).over(rate(first)),
        }
    }

    /// Either bar will do, so the better of the two ratios counts.
    fn grows(&self, items: u64) -> Target {
        let ours = self.value(Peer::Larder, Work::Grow, items, RATE);
        let fixed = ours.over(Reached::Value(NEW_ITEMS_PER_SECOND));
        let redb = match self.value(Peer::BareRedb, Work::Grow, items, RATE) {
            Reached::Value(rate) => ours.over(Reached::Value(rate / 2.0)),
            other => other,
        };
        let reached = match (fixed, redb) {
            (Reached::Value(fixed), Reached::Value(redb)) => Reached::Value(fixed.max(redb)),
            (fixed, _) => fixed,
        };
        let least = count(NEW_ITEMS_PER_SECOND as u64);
        let what = format!(
            "{} up to {}: rate to {least} a second, or to half of redb's own",
            Work::Grow.title(),
            count(items)
        );
        Target { what, required: Bound::AtLeast(1.0), reached }
    }

    fn beside(&self, items: u64) -> Target {
        let busy = self.value(Peer::Larder, Work::GetBeside, items, P99);
        Target {
            what: format!(
                "GetItem, {} items: p99 beside {CONNECTIONS} writers to that without",
                count(items)
            ),
            required: Bound::AtMost(3.0),
            reached: busy.over(self.value(Peer::Larder, Work::Get, items, P99)),
        }
    }

    fn latency_grows(&self, work: Work, few: u64, items: u64, most: f64) -> Target {
        let large = self.value(Peer::Larder, work, items, P50);
        Target {
            what: format!("{}: latency at {} items to that at {}", work.title(), count(items), count(few)),
            required: Bound::AtMost(most),
            reached: large.over(self.value(Peer::Larder, work, few, P50)),
        }
    }

    fn written(&self, items: u64) -> Target {
        let row = self.seen.row(Peer::Larder, Work::Put, items);
        let reached = match row.and_then(Row::written_each) {
            Some(bytes) => Reached::Value(bytes / item_bytes()),
            None => self.without(Peer::Larder),
        };
        let what = format!("PutItem, {} items: bytes written to bytes of items", count(items));
        Target { what, required: Bound::AtMost(12.0), reached }
    }

    fn kept(&self, items: u64, what: &str, most: f64, value: fn(&Kept) -> f64) -> Target {
        let reached = match self.seen.kept.iter().find(|kept| kept.items == items) {
            Some(kept) => Reached::Value(value(kept)),
            None => self.without(Peer::Larder),
        };
        Target { what: format!("{what}, {} items", count(items)), required: Bound::AtMost(most), reached }
    }

    /// At every size and after every operation.
    fn resident(&self) -> Target {
        let ours = self.seen.rows.iter().filter(|row| row.peer == Peer::Larder);
        let reached = match ours.map(|row| row.resident_bytes).max() {
            Some(most) => Reached::Value(most as f64 / 1e6),
            None => self.without(Peer::Larder),
        };
        let most = (cache_bytes() + BESIDE_CACHE_BYTES) as f64 / 1e6;
        let what = "resident after any operation, MB; the cache and 64 MiB".to_owned();
        Target { what, required: Bound::AtMost(most.floor()), reached }
    }

    fn resident_of_some(&self) -> Target {
        let some = self.plan.some;
        let ours = self.seen.rows.iter().filter(|row| row.peer == Peer::Larder && Some(row.items) == some);
        let reached = match ours.map(|row| row.resident_bytes).max() {
            Some(most) => Reached::Value(most as f64 / 1e6),
            None if some.is_some() => self.without(Peer::Larder),
            None => Reached::Skipped,
        };
        let what = format!("resident with {} items, MB", count(some.unwrap_or(100_000)));
        Target { what, required: Bound::AtMost(SOME_RESIDENT_BYTES / 1e6), reached }
    }

    fn paused(&self, items: u64) -> Target {
        let row = self.seen.row(Peer::Larder, Work::PutWithPauses, items);
        let reached = match row.and_then(Row::written_each) {
            Some(bytes) => Reached::Value(bytes / 1024.0),
            None => self.without(Peer::Larder),
        };
        let what = format!("{}, {} items: KiB written a put", Work::PutWithPauses.title(), count(items));
        Target { what, required: Bound::AtMost(PAUSED_PUT_BYTES / 1024.0), reached }
    }

    /// What was, and is not to be worse.
    fn before(&self) -> Vec<Target> {
        const MOST: Bound = Bound::AtMost(1.05);
        let target =
            |what: &str, reached| Target { what: format!("{what}: now to before"), required: MOST, reached };
        if self.plan.before.is_none() {
            return vec![target("GetItem, Query, embedded get, idle memory, start", Reached::Skipped)];
        }
        let compared = |one: &Compared| target(one.what, Reached::Value(one.now / one.before));
        self.seen.before.iter().map(compared).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(peer: Peer, work: Work, items: u64, rate: f64) -> Row {
        Row {
            peer,
            items,
            work,
            measured: Measured {
                rate,
                p50: 10.0,
                p99: 20.0,
                max: 30.0,
                requests: 100,
                ..Measured::default()
            },
            last_rate: None,
            resident_bytes: 1,
            written_bytes: Some(100 * 1_024),
            server_cpu_seconds: None,
        }
    }

    fn verdict(plan: &Plan, seen: &Seen, what: &str) -> Option<bool> {
        let bars = bars(plan, seen);
        let bar = bars.iter().find(|bar| bar.what.starts_with(what));
        bar.unwrap_or_else(|| panic!("no bar begins with {what}")).met()
    }

    #[test]
    fn nothing_measured_meets_no_bar() {
        let plan = Plan::full();
        let bars = bars(&plan, &Seen::default());
        assert!(bars.iter().all(|bar| bar.met() != Some(true)));
        // All but what an earlier state is needed for.
        assert_eq!(bars.iter().filter(|bar| bar.met().is_none()).count(), 1);
    }

    #[test]
    fn a_rate_is_held_against_that_of_the_first_size() {
        let plan = Plan::full();
        for (large, met) in [(70.0, Some(true)), (69.0, Some(false))] {
            let rows = vec![
                row(Peer::Larder, Work::Put, 1_000_000, 100.0),
                row(Peer::Larder, Work::Put, 10_000_000, large),
            ];
            let seen = Seen { rows, ..Seen::default() };
            assert_eq!(verdict(&plan, &seen, "PutItem: rate at 10 000 000 items"), met);
        }
    }

    #[test]
    fn new_items_are_fast_enough_or_half_as_fast_as_redb() {
        let plan = Plan::full();
        for (ours, redb, met) in
            [(25_000.0, 90_000.0, true), (10_000.0, 20_000.0, true), (9_000.0, 20_000.0, false)]
        {
            let rows = vec![
                row(Peer::Larder, Work::Grow, 10_000_000, ours),
                row(Peer::BareRedb, Work::Grow, 10_000_000, redb),
            ];
            let seen = Seen { rows, ..Seen::default() };
            assert_eq!(verdict(&plan, &seen, "BatchWriteItem of new items up to"), Some(met));
        }
    }

    #[test]
    fn a_peer_that_is_not_part_of_the_run_is_not_missed() {
        let plan = Plan { peers: vec![Peer::Larder], ..Plan::full() };
        let seen = Seen { rows: vec![row(Peer::Larder, Work::Put, 1_000_000, 1.0)], ..Seen::default() };
        assert_eq!(verdict(&plan, &seen, "PutItem, 1 000 000 items: rate to dynoxide"), None);
        assert_eq!(verdict(&Plan::full(), &seen, "PutItem, 1 000 000 items: rate to dynoxide"), Some(false));
    }
}
