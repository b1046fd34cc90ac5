//! A network: its costs, its topology, its slow nodes, and whether messages wait for each other on
//! shared links.

use super::cost::LogGp;
use super::topology::Topology;

/// The network that a schedule runs on, with its nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleNetwork {
    cost: LogGp,
    topology: Topology,
    contention: bool,
    /// By rank, each once.
    slow: Vec<(u32, u32)>,
}

impl ScheduleNetwork {
    /// A network of equal nodes on which messages do not wait for each other.
    pub const fn new(cost: LogGp, topology: Topology) -> Self {
        Self { cost, topology, contention: false, slow: Vec::new() }
    }

    /// This network with messages that wait for each other where they share a link.
    ///
    /// Stated simply: a message enters its way when all links of it are free, in the order in which
    /// messages leave their senders, and holds each of them for k G. The sender is not held up by
    /// that.
    #[must_use]
    pub fn with_contention(self) -> Self {
        Self { contention: true, ..self }
    }

    /// This network with a node whose processor takes `factor` times as long for everything: its o
    /// and its local steps.
    #[must_use]
    pub fn with_slow_node(mut self, rank: u32, factor: u32) -> Self {
        match self.slow.binary_search_by_key(&rank, |(slow, _)| *slow) {
            Ok(place) => self.slow[place].1 = factor,
            Err(place) => self.slow.insert(place, (rank, factor)),
        }
        self
    }

    /// The costs.
    pub const fn cost(&self) -> &LogGp {
        &self.cost
    }

    /// The topology.
    pub const fn topology(&self) -> Topology {
        self.topology
    }

    /// Returns true if messages wait for each other where they share a link.
    pub const fn has_contention(&self) -> bool {
        self.contention
    }

    /// `ps` of processor time as `rank` takes them.
    pub(crate) fn processor_ps(&self, rank: u32, ps: u64) -> u64 {
        if self.slow.is_empty() {
            return ps;
        }
        match self.slow.binary_search_by_key(&rank, |(slow, _)| *slow) {
            Ok(place) => ps.saturating_mul(self.slow[place].1.into()),
            Err(_) => ps,
        }
    }

    /// L from one node to another of `size`.
    pub fn latency_ps(&self, size: u32, from: u32, to: u32) -> u64 {
        let further = self.topology.hops(size, from, to).saturating_sub(1);
        self.cost.latency_ps.saturating_add(self.cost.hop_ps.saturating_mul(further.into()))
    }
}

/// A message that is ready to enter its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadyMessage {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) bytes: u64,
    pub(crate) ready_ps: u64,
}

/// The times at which the shared links are free again.
#[derive(Debug)]
pub(crate) struct LinkTimes {
    free_ps: Vec<u64>,
}

impl LinkTimes {
    pub(crate) fn new(network: &ScheduleNetwork, size: u32) -> Self {
        let links = if network.contention { network.topology.shared_links(size) } else { 0 };
        Self { free_ps: vec![0; links as usize] }
    }

    pub(crate) const fn memory(&self) -> usize {
        self.free_ps.capacity() * size_of::<u64>()
    }

    /// Returns the time at which a message enters its way; holds its links from then on.
    pub(crate) fn enter(&mut self, network: &ScheduleNetwork, size: u32, message: &ReadyMessage) -> u64 {
        let &ReadyMessage { from, to, bytes, ready_ps } = message;
        let mut start = ready_ps;
        network.topology.shared_route(size, from, to, |link| start = start.max(self.free_ps[link]));
        let end = start.saturating_add(network.cost.byte_ps.saturating_mul(bytes));
        network.topology.shared_route(size, from, to, |link| self.free_ps[link] = end);
        start
    }
}
