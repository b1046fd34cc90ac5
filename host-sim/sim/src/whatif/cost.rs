//! The parameters of the LogGP model, in picoseconds: a byte at 400 Gbit/s takes 20.

/// The costs of messages and local steps. All sums saturate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogGp {
    /// L: from the moment a byte leaves the sender until it is at the receiver, over the shortest
    /// way.
    pub latency_ps: u64,
    /// The time that each further switch or node on the way adds to L.
    pub hop_ps: u64,
    /// o: what the processor spends on sending or on receiving a message.
    pub overhead_ps: u64,
    /// g: the least time between two messages at one network interface, in one direction.
    pub gap_ps: u64,
    /// G: the time for each byte of a message after the first.
    pub byte_ps: u64,
    /// The processor's time for each byte that is reduced or copied.
    pub local_byte_ps: u64,
}

impl LogGp {
    /// The order of magnitude of a cluster of the 2020s with a 200 Gbit/s network. Measure your
    /// own.
    pub const CLUSTER: Self = Self {
        latency_ps: 900_000,
        hop_ps: 100_000,
        overhead_ps: 300_000,
        gap_ps: 50_000,
        byte_ps: 40,
        local_byte_ps: 50,
    };

    /// The time on the wire that the bytes after the first take: (k-1) G.
    pub const fn stream_ps(&self, bytes: u64) -> u64 {
        self.byte_ps.saturating_mul(bytes.saturating_sub(1))
    }

    /// A message by itself over the shortest way: o + (k-1) G + L + o.
    pub const fn message_ps(&self, bytes: u64) -> u64 {
        let ends = self.overhead_ps.saturating_mul(2);
        ends.saturating_add(self.latency_ps).saturating_add(self.stream_ps(bytes))
    }
}

impl Default for LogGp {
    fn default() -> Self {
        Self::CLUSTER
    }
}
