//! The rows that a program in C sees: what it calls, and how long that takes it. The loops are in
//! `tests/bench/peers/client.c`, with the types that programs use.

use super::workload::Unit;

/// A loop of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClientRow {
    Pingpong,
    Window,
    Halo,
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
    Scan,
    ReduceScatterBlock,
    ReduceScatter,
    Iallreduce,
    Ialltoall,
    PersistentAllreduce,
    NeighborAlltoall,
    Overlap,
    OverlapIallreduce,
}

const KIB: usize = 1 << 10;

/// Messages of a window, as `client.c` has it.
const WINDOW: f64 = 64.0;

impl ClientRow {
    pub(crate) const ALL: [Self; 24] = [
        Self::Pingpong,
        Self::Window,
        Self::Halo,
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
        Self::Reduce,
        Self::Allreduce,
        Self::Scan,
        Self::ReduceScatterBlock,
        Self::ReduceScatter,
        Self::Iallreduce,
        Self::Ialltoall,
        Self::PersistentAllreduce,
        Self::NeighborAlltoall,
        Self::Overlap,
        Self::OverlapIallreduce,
    ];

    /// The name on the wire, on the command line and in results.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pingpong => "pingpong",
            Self::Window => "window",
            Self::Halo => "halo",
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
            Self::Scan => "scan",
            Self::ReduceScatterBlock => "reduce_scatter_block",
            Self::ReduceScatter => "reduce_scatter",
            Self::Iallreduce => "iallreduce",
            Self::Ialltoall => "ialltoall",
            Self::PersistentAllreduce => "persistent_allreduce",
            Self::NeighborAlltoall => "neighbor_alltoall",
            Self::Overlap => "overlap",
            Self::OverlapIallreduce => "overlap_iallreduce",
        }
    }

    /// Returns what a turn is.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Pingpong => "MPI_Send and MPI_Recv of MPI_CHAR there and back; half of it",
            Self::Window => "a message of 64 MPI_Isend or MPI_Irecv of MPI_CHAR and MPI_Waitall",
            Self::Halo => "2 MPI_Irecv, 2 MPI_Isend of MPI_DOUBLE in a ring, MPI_Waitall",
            Self::Barrier => "MPI_Barrier",
            Self::Bcast => "MPI_Bcast of MPI_CHAR from rank 0",
            Self::Gather => "MPI_Gather of MPI_INT to rank 0, a block of every rank",
            Self::Scatter => "MPI_Scatter of MPI_INT from rank 0, a block for every rank",
            Self::Gatherv => "MPI_Gatherv of MPI_INT to rank 0, which lists a block of every rank",
            Self::Scatterv => "MPI_Scatterv of MPI_INT from rank 0, which lists a block for every rank",
            Self::Allgather => "MPI_Allgather of MPI_DOUBLE, a block of every rank",
            Self::Allgatherv => "MPI_Allgatherv of MPI_DOUBLE, a block of every rank, all listed",
            Self::Alltoall => "MPI_Alltoall of MPI_DOUBLE, a block of every rank for every rank",
            Self::Alltoallv => {
                "MPI_Alltoallv of MPI_DOUBLE, a block of every rank for every rank, all listed"
            }
            Self::Reduce => "MPI_Reduce of MPI_DOUBLE, MPI_SUM, to rank 0",
            Self::Allreduce => "MPI_Allreduce of MPI_DOUBLE, MPI_SUM",
            Self::Scan => "MPI_Scan of MPI_INT, MPI_SUM",
            Self::ReduceScatterBlock => {
                "MPI_Reduce_scatter_block of MPI_DOUBLE, MPI_SUM, a block for every rank"
            }
            Self::ReduceScatter => {
                "MPI_Reduce_scatter of MPI_DOUBLE, MPI_SUM, a block for every rank, all listed"
            }
            Self::Iallreduce => "MPI_Iallreduce of MPI_DOUBLE, MPI_SUM, and MPI_Wait",
            Self::Ialltoall => {
                "MPI_Ialltoall of MPI_DOUBLE, a block of every rank for every rank, and MPI_Wait"
            }
            Self::PersistentAllreduce => "MPI_Allreduce_init of MPI_DOUBLE once, MPI_Start and MPI_Wait",
            Self::NeighborAlltoall => {
                "MPI_Neighbor_alltoall of MPI_DOUBLE in a periodic ring, a block for each side"
            }
            Self::Overlap => {
                "what a computation as long hides of a message of MPI_CHAR, with MPI_Test in between"
            }
            Self::OverlapIallreduce => {
                "what a computation as long hides of MPI_Iallreduce of MPI_DOUBLE, with MPI_Test in between"
            }
        }
    }

    pub(crate) const fn unit(self) -> Unit {
        match self {
            Self::Pingpong | Self::Window => Unit::HalfNs,
            Self::Overlap | Self::OverlapIallreduce => Unit::Percent,
            _ => Unit::Us,
        }
    }

    /// Returns true if it is the part of a call that a computation hides.
    pub(crate) const fn is_overlap(self) -> bool {
        matches!(self, Self::Overlap | Self::OverlapIallreduce)
    }

    /// The sizes that are measured unless others are asked for.
    pub(crate) const fn sizes(self) -> &'static [usize] {
        match self {
            Self::Barrier => &[0],
            Self::Overlap => &[4 << 20],
            Self::OverlapIallreduce => &[64 * KIB, 1 << 20],
            _ => &[8, KIB, 4 * KIB, 16 * KIB, 64 * KIB],
        }
    }

    /// The rank that has something to look at in the end, if any has.
    pub(crate) const fn looking(self, ranks: usize) -> Option<usize> {
        match self {
            Self::Barrier => None,
            Self::Gather | Self::Gatherv | Self::Reduce => Some(0),
            _ => Some(ranks - 1),
        }
    }

    /// The width of an element of its type: sizes are multiples of it.
    pub(crate) const fn width(self) -> usize {
        match self {
            Self::Pingpong | Self::Window | Self::Barrier | Self::Bcast | Self::Overlap => 1,
            Self::Gather | Self::Gatherv | Self::Scatter | Self::Scatterv | Self::Scan => 4,
            _ => 8,
        }
    }

    /// Returns the figure of a turn of so many nanoseconds, or of the share that is not hidden.
    pub(crate) fn figure(self, cost: f64) -> f64 {
        match self {
            Self::Pingpong => cost / 2.0,
            Self::Window => cost / WINDOW,
            Self::Overlap | Self::OverlapIallreduce => 100.0 * (1.0 - cost).clamp(0.0, 1.0),
            _ => cost / 1e3,
        }
    }
}
