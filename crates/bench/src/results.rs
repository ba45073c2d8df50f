//! What was measured: every round of every cell, and medians over rounds.

use serde::Serialize;

use crate::job::Measured;
use crate::peer::Peer;
use crate::workload::Op;

#[derive(Debug, Default, Serialize)]
pub(crate) struct Results {
    pub(crate) cells: Vec<Cell>,
    pub(crate) fills: Vec<Fill>,
    pub(crate) memory: Vec<Memory>,
    pub(crate) starts: Vec<Start>,
    pub(crate) absent: Vec<Absent>,
}

/// One peer doing one thing at one number of connections on a table of one size.
#[derive(Debug, Serialize)]
pub(crate) struct Cell {
    pub(crate) peer: Peer,
    pub(crate) op: Op,
    pub(crate) connections: usize,
    pub(crate) items: u64,
    pub(crate) rounds: Vec<Round>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Round {
    #[serde(flatten)]
    pub(crate) measured: Measured,
    /// The server's CPU time; for a store in process there is none beside the worker's.
    pub(crate) server_cpu_seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Fill {
    pub(crate) peer: Peer,
    pub(crate) items: u64,
    pub(crate) seconds: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Memory {
    pub(crate) peer: Peer,
    pub(crate) items: u64,
    pub(crate) resident_bytes: u64,
}

/// From spawn to the first successful answer; memory once it has been left alone.
#[derive(Debug, Serialize)]
pub(crate) struct Start {
    pub(crate) peer: Peer,
    pub(crate) items: u64,
    pub(crate) millis: f64,
    pub(crate) idle_bytes: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Absent {
    pub(crate) peer: Peer,
    pub(crate) reason: String,
}

impl Results {
    pub(crate) fn record(&mut self, (peer, op, connections, items): (Peer, Op, usize, u64), round: Round) {
        let same = |cell: &&mut Cell| {
            (cell.peer, cell.op, cell.connections, cell.items) == (peer, op, connections, items)
        };
        match self.cells.iter_mut().find(same) {
            Some(cell) => cell.rounds.push(round),
            None => self.cells.push(Cell { peer, op, connections, items, rounds: vec![round] }),
        }
    }

    pub(crate) fn cell(&self, peer: Peer, op: Op, connections: usize, items: u64) -> Option<&Cell> {
        self.cells
            .iter()
            .find(|cell| (cell.peer, cell.op, cell.connections, cell.items) == (peer, op, connections, items))
    }

    /// Median start-up in milliseconds and idle memory in bytes.
    pub(crate) fn start(&self, peer: Peer, items: u64) -> Option<(f64, f64)> {
        let of: Vec<&Start> =
            self.starts.iter().filter(|start| (start.peer, start.items) == (peer, items)).collect();
        let millis = median(of.iter().map(|start| start.millis))?;
        Some((millis, median(of.iter().map(|start| start.idle_bytes as f64))?))
    }

    pub(crate) fn resident(&self, peer: Peer, items: u64) -> Option<u64> {
        let of = self.memory.iter().find(|memory| (memory.peer, memory.items) == (peer, items));
        of.map(|memory| memory.resident_bytes)
    }
}

impl Cell {
    pub(crate) fn median(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        median(self.rounds.iter().map(|round| of(&round.measured))).unwrap_or(f64::NAN)
    }

    pub(crate) fn errors(&self) -> u64 {
        self.rounds.iter().map(|round| round.measured.errors).sum()
    }

    /// CPU microseconds a request costs: the server's and the load generator's.
    pub(crate) fn cpu_split(&self) -> Option<(f64, f64)> {
        let per_request = |seconds: f64, round: &Round| 1e6 * seconds / round.measured.requests.max(1) as f64;
        let server = self.rounds.iter().map(|round| Some(per_request(round.server_cpu_seconds?, round)));
        let client = self.rounds.iter().map(|round| per_request(round.measured.cpu_seconds, round));
        Some((median(server.collect::<Option<Vec<f64>>>()?.into_iter())?, median(client)?))
    }
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two() {
        let of = |values: &[f64]| median(values.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7.0]), Some(7.0));
        assert_eq!(of(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(of(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn rounds_of_one_cell_stay_together() {
        let mut results = Results::default();
        for rate in [3.0, 1.0, 2.0] {
            let measured = Measured { rate, errors: 1, ..Measured::default() };
            let round = Round { measured, server_cpu_seconds: None };
            results.record((Peer::Dynalite, Op::Get, 64, 1_000), round);
        }
        let cell = results.cell(Peer::Dynalite, Op::Get, 64, 1_000).unwrap();
        assert_eq!(cell.median(|measured| measured.rate), 2.0);
        assert_eq!(cell.errors(), 3);
        assert!(results.cell(Peer::Dynalite, Op::Get, 1, 1_000).is_none());
    }
}
