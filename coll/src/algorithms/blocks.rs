//! Algorithms of operations on blocks, one a rank.

pub(crate) mod allgather;
pub(crate) mod alltoall;
pub(crate) mod gather;
pub(crate) mod reduce_scatter;
pub(crate) mod scatter;

use aldis_kernel::hal::Operation;

use super::neighbor;
use crate::schedule::Candidate;

/// Every algorithm of an operation on blocks, or among neighbours. Empty for any other.
pub(crate) fn algorithms(operation: Operation) -> &'static [Candidate] {
    match operation {
        Operation::Gather => &gather::ALGORITHMS,
        Operation::Gatherv => &gather::OF_UNLIKE,
        Operation::Scatter => &scatter::ALGORITHMS,
        Operation::Scatterv => &scatter::OF_UNLIKE,
        Operation::Allgather | Operation::Allgatherv => &allgather::ALGORITHMS,
        Operation::Alltoall => &alltoall::ALGORITHMS,
        Operation::Alltoallv | Operation::Alltoallw => &alltoall::OF_UNLIKE,
        Operation::ReduceScatterBlock | Operation::ReduceScatter => &reduce_scatter::ALGORITHMS,
        Operation::NeighborAllgather | Operation::NeighborAllgatherv => &neighbor::GATHERS,
        Operation::NeighborAlltoall | Operation::NeighborAlltoallv | Operation::NeighborAlltoallw => {
            &neighbor::EXCHANGES
        }
        _ => &[],
    }
}
