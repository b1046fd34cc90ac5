//! The table of workloads that are measured, with what is asked of the ranks for each and what
//! comes out. What a turn of each does is written in `tests/bench/src/batches.rs`.

use super::client::ClientRow;
use super::implementation::Transport;

/// A workload, as `cargo xtask bench` names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BenchWorkload {
    /// A loop of a program in C; everything else is the same over every implementation, bytes.
    Client(ClientRow),
    Latency,
    Bandwidth,
    Both,
    Rate,
    Consume,
    Loaned,
    Overlap,
    Barrier,
    Bcast,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    Reduce,
    Allreduce,
    Alltoallw,
    ReduceScatterBlock,
    ReduceScatter,
    Scan,
    Exscan,
    NeighborAllgather,
    NeighborAllgatherv,
    NeighborAlltoall,
    NeighborAlltoallv,
    NeighborAlltoallw,
}

/// The unit of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// Nanoseconds of half a turn.
    HalfNs,
    /// Microseconds of a turn.
    Us,
    /// Gigabytes a second.
    GBs,
    /// Millions of messages a second.
    MillionsPerS,
    /// Percent of a transfer that a computation hides.
    Percent,
}

/// A batch as the ranks are asked for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ask {
    /// Of the loops of programs: every rank answers, after a look at what arrived.
    pub(crate) is_call: bool,
    pub(crate) wire: &'static str,
    pub(crate) turns: u32,
    pub(crate) bytes: usize,
    /// Messages of a window, or units of computation.
    pub(crate) each: usize,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Bytes that a window is to hold at least, and what the measured programs have room for.
const WINDOW_BYTES: usize = 2 * MIB;
const WINDOW_MAX: usize = 64;

/// The prefix of the rows that are measured of every implementation by the same loops on bytes.
const NATIVE: &str = "native:";

impl BenchWorkload {
    /// The workloads of two ranks.
    pub(crate) const PAIRS: [Self; 7] =
        [Self::Latency, Self::Bandwidth, Self::Both, Self::Consume, Self::Loaned, Self::Rate, Self::Overlap];

    /// Every collective operation.
    pub(crate) const COLLECTIVES: [Self; 22] = [
        Self::Barrier,
        Self::Bcast,
        Self::Gather,
        Self::Gatherv,
        Self::Scatter,
        Self::Scatterv,
        Self::Allgather,
        Self::Allgatherv,
        Self::Alltoall,
        Self::Alltoallv,
        Self::Alltoallw,
        Self::Reduce,
        Self::Allreduce,
        Self::ReduceScatterBlock,
        Self::ReduceScatter,
        Self::Scan,
        Self::Exscan,
        Self::NeighborAllgather,
        Self::NeighborAllgatherv,
        Self::NeighborAlltoall,
        Self::NeighborAlltoallv,
        Self::NeighborAlltoallw,
    ];

    /// Everything that is measured, the loops of programs first.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        ClientRow::ALL.map(Self::Client).into_iter().chain(Self::PAIRS).chain(Self::COLLECTIVES)
    }

    /// The name on the command line and in results: two families share some names.
    pub(crate) fn row(self) -> String {
        let family = if matches!(self, Self::Client(_)) { "" } else { NATIVE };
        format!("{family}{}", self.name())
    }

    /// The name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client(row) => row.name(),
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Both => "bibw",
            Self::Rate => "rate",
            Self::Consume => "consume",
            Self::Loaned => "loaned",
            Self::Overlap => "overlap",
            Self::Barrier => "barrier",
            Self::Bcast => "bcast",
            Self::Gather => "gather",
            Self::Gatherv => "gatherv",
            Self::Scatter => "scatter",
            Self::Scatterv => "scatterv",
            Self::Allgather => "allgather",
            Self::Allgatherv => "allgatherv",
            Self::Alltoall => "alltoall",
            Self::Alltoallv => "alltoallv",
            Self::Reduce => "reduce",
            Self::Allreduce => "allreduce",
            Self::Alltoallw => "alltoallw",
            Self::ReduceScatterBlock => "reduce_scatter_block",
            Self::ReduceScatter => "reduce_scatter",
            Self::NeighborAllgather => "neighbor_allgather",
            Self::NeighborAllgatherv => "neighbor_allgatherv",
            Self::NeighborAlltoall => "neighbor_alltoall",
            Self::NeighborAlltoallv => "neighbor_alltoallv",
            Self::NeighborAlltoallw => "neighbor_alltoallw",
            Self::Scan => "scan",
            Self::Exscan => "exscan",
        }
    }

    /// Returns what a figure is, for the head of a table.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Client(row) => row.title(),
            Self::Latency => "half a round trip of blocking calls",
            Self::Bandwidth => "one way, windows of messages that the sender writes anew before each send",
            Self::Both => {
                "both ways at once, windows of messages that their senders write anew before each send"
            }
            Self::Rate => "messages of a window of 64 nonblocking calls",
            Self::Consume => {
                "a message written anew, which its receiver reads once, all of it; from arenas in place"
            }
            Self::Loaned => "the same with the writing in the time: loaned memory, written and read",
            Self::Overlap => "how much of a transfer is hidden by a computation as long, polling in between",
            Self::Barrier => "barrier",
            Self::Bcast => "broadcast, the root goes round",
            Self::Gather => "a block of every rank at the root, its own in place; the root goes round",
            Self::Gatherv => "the same in blocks of half and of one and a half times the bytes",
            Self::Scatter => "a block of the root for every rank, its own in place; the root goes round",
            Self::Scatterv => "the same in blocks of half and of one and a half times the bytes",
            Self::Allgather => "a block of every rank on all, in place; every other turn in reversed order",
            Self::Allgatherv => "the same in blocks of half and of one and a half times the bytes",
            Self::Alltoall => "a block of every rank for every rank, there and back",
            Self::Alltoallv => "the same in blocks of half and of one and a half times the bytes",
            Self::Alltoallw => "the same with a type for each block, which is bytes",
            Self::Reduce => "sum of doubles at the root, in place; the root goes round",
            Self::Allreduce => "sum of doubles on all ranks, in place",
            Self::ReduceScatterBlock => {
                "sum of doubles, a block for each rank, which puts it into its data; every other turn in reversed order"
            }
            Self::ReduceScatter => "the same with the blocks' lengths listed",
            Self::NeighborAllgather => {
                "a block of every rank for both its neighbours in a ring, there and back"
            }
            Self::NeighborAlltoall => {
                "a block of every rank for each of its two neighbours in a ring, there and back"
            }
            Self::NeighborAllgatherv | Self::NeighborAlltoallv => {
                "the same in blocks of half and of one and a half times the bytes"
            }
            Self::NeighborAlltoallw => "the same with a type for each block, which is bytes",
            Self::Scan => "sum of doubles up to each rank, in place; every other turn in reversed order",
            Self::Exscan => {
                "sum of doubles of the ranks before each, in place; every other turn in reversed order"
            }
        }
    }

    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::Client(row) => row.unit(),
            Self::Latency => Unit::HalfNs,
            Self::Bandwidth | Self::Both | Self::Consume | Self::Loaned => Unit::GBs,
            Self::Rate => Unit::MillionsPerS,
            Self::Overlap => Unit::Percent,
            _ => Unit::Us,
        }
    }

    /// Returns true if all ranks call it.
    pub(crate) fn is_collective(self) -> bool {
        Self::COLLECTIVES.contains(&self)
    }

    /// The sizes that show how it grows.
    pub(crate) fn sizes(self) -> &'static [usize] {
        match self {
            Self::Client(row) => row.sizes(),
            Self::Latency => &[8, 64, KIB, 4 * KIB, 8 * KIB],
            Self::Bandwidth => &[64 * KIB, 256 * KIB, MIB, 4 * MIB],
            Self::Both => &[64 * KIB, MIB],
            Self::Consume | Self::Loaned => &[64 * KIB, MIB, 4 * MIB],
            Self::Rate => &[8],
            Self::Overlap => &[256 * KIB, 4 * MIB],
            Self::Barrier => &[0],
            _ => &[8, 256, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB],
        }
    }

    /// Returns true if it is the part of a transfer that a computation hides.
    pub(crate) fn is_overlap(self) -> bool {
        match self {
            Self::Client(row) => row.is_overlap(),
            workload => workload == Self::Overlap,
        }
    }

    /// The least size that can be asked for, and of the loops of programs what sizes are multiples
    /// of.
    pub(crate) fn bytes_min(self) -> usize {
        match self {
            Self::Client(ClientRow::Barrier) => 0,
            Self::Client(row) => row.width(),
            Self::Latency | Self::Barrier => 0,
            Self::Reduce | Self::Allreduce | Self::ReduceScatterBlock | Self::ReduceScatter => 8,
            Self::Scan | Self::Exscan | Self::Consume | Self::Loaned => 8,
            _ => 1,
        }
    }

    /// Messages of a turn's window.
    pub(crate) fn window(self, bytes: usize) -> usize {
        match self {
            Self::Bandwidth | Self::Both => (WINDOW_BYTES / bytes.max(1)).clamp(2, WINDOW_MAX),
            Self::Rate => WINDOW_MAX,
            _ => 1,
        }
    }

    /// Turns in a batch: about 0.1 ms of small messages, few enough that one interrupt spoils one
    /// sample.
    fn turns(self, bytes: usize, transport: Transport, ranks: usize) -> u32 {
        let turns = match (self, bytes) {
            // As many as take a batch's time, which the first ones show.
            (Self::Client(_), _) => 4,
            (Self::Bandwidth | Self::Both | Self::Overlap, _) => 2,
            (Self::Consume | Self::Loaned, _) => 4,
            (Self::Rate, _) => 10,
            (_, 0..=4096) => 200,
            (_, 4097..=262_144) => 20,
            _ => 5,
        };
        // A socket takes tens of times as long as a line of cache, and so does a rank that waits
        // for its core.
        let slow = (transport == Transport::Tcp || ranks > 2) && turns > 10;
        let turns: u32 = if slow { turns / 4 } else { turns };
        // Every rank is the root as often as every other.
        if self.is_collective() { turns.next_multiple_of(ranks as u32) } else { turns }
    }

    /// The batch for a size.
    pub(crate) fn ask(self, bytes: usize, transport: Transport, ranks: usize) -> Ask {
        let turns = self.turns(bytes, transport, ranks);
        let is_call = matches!(self, Self::Client(_));
        Ask { is_call, wire: self.name(), turns, bytes, each: self.window(bytes) }
    }

    /// The figure that a turn of `cost` makes: nanoseconds, or of [`BenchWorkload::Overlap`] the
    /// share that is not hidden.
    pub(crate) fn figure(self, bytes: usize, cost: f64) -> f64 {
        let messages = self.window(bytes) as f64;
        match self {
            Self::Client(row) => row.figure(cost),
            Self::Latency => cost / 2.0,
            Self::Bandwidth | Self::Consume | Self::Loaned => messages * bytes as f64 / cost,
            Self::Both => 2.0 * messages * bytes as f64 / cost,
            Self::Rate => messages * 1e3 / cost,
            Self::Overlap => 100.0 * (1.0 - cost).clamp(0.0, 1.0),
            _ => cost / 1e3,
        }
    }
}

/// A size as people say it.
pub(crate) fn spell_bytes(bytes: usize) -> String {
    match bytes {
        MIB.. if bytes.is_multiple_of(MIB) => format!("{} MiB", bytes / MIB),
        KIB.. if bytes.is_multiple_of(KIB) => format!("{} KiB", bytes / KIB),
        _ => bytes.to_string(),
    }
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::HalfNs => "ns",
            Self::Us => "us",
            Self::GBs => "GB/s",
            Self::MillionsPerS => "M/s",
            Self::Percent => "% hidden",
        }
    }

    /// Returns true if more is better.
    pub(crate) fn is_rate(self) -> bool {
        !matches!(self, Self::HalfNs | Self::Us)
    }

    /// A figure with as many digits as a batch can tell.
    pub(crate) fn spell(self, figure: f64) -> String {
        match self {
            // Of 2 ns as much is to be seen as of 20.
            Self::HalfNs if figure < 10.0 => format!("{figure:.1}"),
            Self::HalfNs | Self::Percent => format!("{figure:.0}"),
            Self::Us | Self::GBs | Self::MillionsPerS => format!("{figure:.2}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_in_their_units() {
        assert_eq!(BenchWorkload::Latency.figure(8, 300.0), 150.0);
        assert_eq!(BenchWorkload::Bandwidth.window(MIB), 2);
        assert_eq!(BenchWorkload::Bandwidth.figure(MIB, 2.0 * MIB as f64 / 10.0), 10.0);
        assert_eq!(BenchWorkload::Both.figure(MIB, 2.0 * MIB as f64 / 10.0), 20.0);
        assert_eq!(BenchWorkload::Rate.figure(8, 6400.0), 10.0);
        assert_eq!(BenchWorkload::Overlap.figure(8, 0.25), 75.0);
        assert_eq!(BenchWorkload::Barrier.figure(0, 1500.0), 1.5);
    }

    #[test]
    fn sizes_are_short_where_they_are_round() {
        let spelled = [8, 1000, KIB, 64 * KIB, MIB + 1, 4 * MIB].map(spell_bytes);
        assert_eq!(spelled, ["8", "1000", "1 KiB", "64 KiB", "1048577", "4 MiB"]);
    }

    #[test]
    fn sums_of_a_batch_stay_finite() {
        for (ranks, transport) in [(2.0_f64, Transport::Shm), (4.0, Transport::Shm), (4.0, Transport::Tcp)] {
            let turns = BenchWorkload::Allreduce.ask(8, transport, ranks as usize).turns;
            assert!(ranks.powi((turns + turns.div_ceil(10)) as i32).is_finite());
        }
    }

    #[test]
    fn every_rank_is_the_root_as_often_as_every_other() {
        for (workload, bytes, ranks) in [(BenchWorkload::Bcast, MIB, 2), (BenchWorkload::Gather, 8, 4)] {
            assert_eq!(workload.ask(bytes, Transport::Shm, ranks).turns as usize % ranks, 0);
        }
    }

    #[test]
    fn default_sizes_can_be_asked_for() {
        for workload in BenchWorkload::all() {
            assert!(workload.sizes().iter().all(|&bytes| bytes >= workload.bytes_min()));
        }
    }

    #[test]
    fn rows_have_names_of_their_own() {
        let mut names: Vec<_> = BenchWorkload::all().map(BenchWorkload::row).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
