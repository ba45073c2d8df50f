//! How much is measured, and what of it answers the question at hand.

use crate::peer::Peer;
use crate::workload::Op;

/// Everything a run does, decided before it starts.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) peers: Vec<Peer>,
    pub(crate) ops: Vec<Op>,
    pub(crate) connections: Vec<usize>,
    /// Table sizes, ascending, for growth, memory and starts.
    pub(crate) sizes: Vec<u64>,
    /// The size of the table that all connection counts are measured on.
    pub(crate) table_items: u64,
    pub(crate) rounds: usize,
    pub(crate) starts: usize,
    pub(crate) seconds: f64,
    pub(crate) warmup_seconds: f64,
    /// How long answers are waited for after a measurement; the rest count as errors.
    pub(crate) drain_seconds: f64,
    /// How long a peer may take to be filled; one that cannot is left out at that size.
    pub(crate) fill_seconds: f64,
    pub(crate) seed: u64,
}

impl Plan {
    /// Some minutes: what the requirements are judged on.
    pub(crate) fn full() -> Plan {
        Plan {
            peers: Peer::ALL.to_vec(),
            ops: Op::ALL.to_vec(),
            connections: vec![1, 16, 64, 1000],
            sizes: vec![1_000, 100_000, 1_000_000],
            table_items: 100_000,
            rounds: 3,
            starts: 5,
            seconds: 1.0,
            warmup_seconds: 0.2,
            drain_seconds: 15.0,
            fill_seconds: 300.0,
            seed: 2024,
        }
    }

    /// Seconds: shows that every peer and operation still runs, and roughly where it stands.
    pub(crate) fn quick() -> Plan {
        Plan {
            connections: vec![1, 64],
            sizes: vec![1_000],
            table_items: 1_000,
            rounds: 1,
            starts: 1,
            seconds: 0.2,
            warmup_seconds: 0.1,
            drain_seconds: 3.0,
            fill_seconds: 20.0,
            ..Plan::full()
        }
    }

    /// The sizes this peer is measured at.
    pub(crate) fn sizes(&self, peer: Peer) -> Vec<u64> {
        let mut sizes = if peer.grows() { self.sizes.clone() } else { Vec::new() };
        if !sizes.contains(&self.table_items) {
            sizes.push(self.table_items);
        }
        sizes
    }

    /// Operations whose latency is followed as the table grows.
    pub(crate) fn growth_ops(&self) -> Vec<Op> {
        self.ops.iter().copied().filter(|op| *op != Op::Batch).collect()
    }

    /// Connection counts for this peer; a thousand threads say nothing about a store in process.
    pub(crate) fn connections(&self, peer: Peer) -> impl Iterator<Item = usize> {
        let most = if peer.engine().is_some() { THREADS_MAX } else { usize::MAX };
        self.connections.iter().copied().filter(move |connections| *connections <= most)
    }

    pub(crate) fn covers(&self, peer: Peer, op: Op, connections: usize, items: u64) -> bool {
        let matrix =
            items == self.table_items && self.connections(peer).any(|planned| planned == connections);
        let growth = connections == 1 && peer.grows() && self.sizes.contains(&items) && op != Op::Batch;
        self.peers.contains(&peer) && self.ops.contains(&op) && peer.runs(op) && (matrix || growth)
    }
}

const THREADS_MAX: usize = 64;
