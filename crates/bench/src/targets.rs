//! What Larder must reach, as ratios within one run, and what it reached.
//!
//! A ratio and not a number, because only a ratio survives a change of machine. A row that the plan leaves out
//! is skipped; a row that was planned and could not be measured is not met.

use crate::job::Measured;
use crate::peer::Peer;
use crate::plan::Plan;
use crate::results::Results;
use crate::workload::Op;

#[derive(Debug, PartialEq)]
pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) required: Bound,
    pub(crate) reached: Reached,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reached {
    Value(f64),
    /// Planned, but one side is missing.
    Missing,
    /// Not part of this run.
    Skipped,
}

impl Target {
    pub(crate) fn met(&self) -> Option<bool> {
        match (self.reached, self.required) {
            (Reached::Value(value), Bound::AtLeast(least)) => Some(value >= least),
            (Reached::Value(value), Bound::AtMost(most)) => Some(value <= most),
            (Reached::Missing, _) => Some(false),
            (Reached::Skipped, _) => None,
        }
    }
}

pub(crate) fn targets(plan: &Plan, results: &Results) -> Vec<Target> {
    let judge = Judge { plan, results };
    let mut targets = vec![
        judge.rate(Op::Get, Peer::Bare, 0.6),
        judge.rate(Op::Get, Peer::DynamodbLocal, 5.0),
        judge.rate(Op::Get, Peer::Dynoxide, 3.0),
        judge.rate(Op::Put, Peer::Dynoxide, 10.0),
        judge.rate(Op::Put, Peer::BareStorage, 0.5),
        judge.rate(Op::Query, Peer::DynamodbLocal, 5.0),
        judge.rate(Op::Query, Peer::Dynoxide, 3.0),
        judge.embedded_get(),
    ];
    for op in Op::ALL {
        targets.push(judge.crowd_errors(op));
        targets.extend(Peer::ALL.into_iter().filter(|peer| peer.rival()).map(|peer| judge.crowd(op, peer)));
    }
    targets.extend([Op::Get, Op::Put, Op::Query].map(|op| judge.growth(op)));
    targets.extend(judge.starts());
    targets
}

const CONNECTIONS: usize = 64;
const CROWD: usize = 1000;
const GROWTH: (u64, u64) = (1_000, 1_000_000);

#[derive(Debug)]
struct Judge<'a> {
    plan: &'a Plan,
    results: &'a Results,
}

impl Judge<'_> {
    /// Larder's requests a second over a peer's, at 64 connections.
    fn rate(&self, op: Op, peer: Peer, least: f64) -> Target {
        let items = self.plan.table_items;
        let rate = |measured: &Measured| measured.rate;
        let ours = self.median(Peer::Larder, op, CONNECTIONS, items, rate);
        let theirs = self.median(peer, op, CONNECTIONS, items, rate);
        Target {
            what: format!("{}, {CONNECTIONS} connections: rate to {}", op.operation(), peer.title()),
            required: Bound::AtLeast(least),
            reached: ours.over(theirs),
        }
    }

    /// The time of one get, alone, over that of a get on bare redb.
    fn embedded_get(&self) -> Target {
        let items = self.plan.table_items;
        // Not the mean: on a get of a microsecond it tells of the scheduler.
        let p50 = |measured: &Measured| measured.p50;
        let ours = self.median(Peer::LarderEmbedded, Op::Get, 1, items, p50);
        let bare = self.median(Peer::BareRedb, Op::Get, 1, items, p50);
        Target {
            what: format!("GetItem, embedded: time to {}", Peer::BareRedb.title()),
            required: Bound::AtMost(3.0),
            reached: ours.over(bare),
        }
    }

    fn crowd_errors(&self, op: Op) -> Target {
        let (peer, items) = (Peer::Larder, self.plan.table_items);
        let reached = match self.results.cell(peer, op, CROWD, items) {
            Some(cell) => Reached::Value(cell.errors() as f64),
            None => self.without(peer, op, CROWD, items),
        };
        let what = format!("{}, {CROWD} connections: errors", op.operation());
        Target { what, required: Bound::AtMost(0.0), reached }
    }

    fn crowd(&self, op: Op, peer: Peer) -> Target {
        let items = self.plan.table_items;
        let p99 = |measured: &Measured| measured.p99;
        let ours = self.median(Peer::Larder, op, CROWD, items, p99);
        let theirs = self.median(peer, op, CROWD, items, p99);
        Target {
            what: format!("{}, {CROWD} connections: p99 to {}", op.operation(), peer.title()),
            required: Bound::AtMost(1.0),
            reached: ours.over(theirs),
        }
    }

    fn growth(&self, op: Op) -> Target {
        let p50 = |measured: &Measured| measured.p50;
        let large = self.median(Peer::Larder, op, 1, GROWTH.1, p50);
        let small = self.median(Peer::Larder, op, 1, GROWTH.0, p50);
        Target {
            what: format!("{}: latency at 1 M items to that at 1 k", op.operation()),
            required: Bound::AtMost(1.5),
            reached: large.over(small),
        }
    }

    fn starts(&self) -> [Target; 3] {
        let target = |what: &str, ours: Reached, theirs: Reached| Target {
            what: what.to_owned(),
            required: Bound::AtMost(1.5),
            reached: ours.over(theirs),
        };
        let (full_millis, full_bytes) = self.start(Peer::Larder, GROWTH.1);
        let (_, empty_bytes) = self.start(Peer::Larder, 0);
        let (their_millis, their_bytes) = self.start(Peer::Dynoxide, 0);
        [
            target("start with 1 M items to dynoxide's empty start", full_millis, their_millis),
            target("idle memory, empty, to dynoxide's", empty_bytes, their_bytes),
            target("idle memory with 1 M items to dynoxide's empty", full_bytes, their_bytes),
        ]
    }

    fn start(&self, peer: Peer, items: u64) -> (Reached, Reached) {
        let planned =
            self.plan.peers.contains(&peer) && (items == 0 || self.plan.sizes.last() == Some(&items));
        match self.results.start(peer, items) {
            Some((millis, bytes)) => (Reached::Value(millis), Reached::Value(bytes)),
            None if planned => (Reached::Missing, Reached::Missing),
            None => (Reached::Skipped, Reached::Skipped),
        }
    }

    fn median(
        &self,
        peer: Peer,
        op: Op,
        connections: usize,
        items: u64,
        of: impl Fn(&Measured) -> f64,
    ) -> Reached {
        match self.results.cell(peer, op, connections, items) {
            Some(cell) => Reached::Value(cell.median(of)),
            None => self.without(peer, op, connections, items),
        }
    }

    fn without(&self, peer: Peer, op: Op, connections: usize, items: u64) -> Reached {
        match self.plan.covers(peer, op, connections, items) {
            true => Reached::Missing,
            false => Reached::Skipped,
        }
    }
}

impl Reached {
    pub(crate) fn over(self, other: Reached) -> Reached {
        match (self, other) {
            (Reached::Value(ours), Reached::Value(theirs)) => Reached::Value(ours / theirs),
            (Reached::Skipped, _) | (_, Reached::Skipped) => Reached::Skipped,
            (Reached::Missing, _) | (_, Reached::Missing) => Reached::Missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Round;

    fn results(rates: &[(Peer, f64)]) -> Results {
        let mut results = Results::default();
        for (peer, rate) in rates {
            let measured = Measured { rate: *rate, ..Measured::default() };
            let cell = (*peer, Op::Get, CONNECTIONS, Plan::full().table_items);
            results.record(cell, Round { measured, server_cpu_seconds: None });
        }
        results
    }

    fn check(plan: &Plan, rates: &[(Peer, f64)], reached: Reached, met: Option<bool>) {
        let target = Judge { plan, results: &results(rates) }.rate(Op::Get, Peer::Dynoxide, 3.0);
        assert_eq!((target.reached, target.met()), (reached, met));
    }

    #[test]
    fn a_ratio_is_met_at_its_bound() {
        let full = Plan::full();
        check(&full, &[(Peer::Larder, 30.0), (Peer::Dynoxide, 10.0)], Reached::Value(3.0), Some(true));
        check(&full, &[(Peer::Larder, 29.0), (Peer::Dynoxide, 10.0)], Reached::Value(2.9), Some(false));
    }

    #[test]
    fn what_could_not_be_measured_is_not_met() {
        check(&Plan::full(), &[(Peer::Larder, 30.0)], Reached::Missing, Some(false));
    }

    #[test]
    fn what_was_not_planned_is_neither_met_nor_missed() {
        let plan = Plan { peers: vec![Peer::Larder], ..Plan::full() };
        check(&plan, &[(Peer::Larder, 30.0)], Reached::Skipped, None);
    }
}
