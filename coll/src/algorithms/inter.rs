//! Algorithms over the two groups of an intercommunicator: see [`inter`](crate::inter).

pub mod allgather;
pub mod allreduce;
pub mod alltoall;
mod groups;
pub mod reduce;
pub mod reduce_scatter;

use aldis_kernel::hal::Operation;

use crate::schedule::Candidate;

/// Every algorithm by which an operation can be carried out over two groups.
pub fn algorithms(operation: Operation) -> &'static [Candidate] {
    use Operation::{Barrier, Bcast, Gather, Gatherv, Scatter, Scatterv};
    match operation {
        Barrier | Bcast | Gather | Gatherv | Scatter | Scatterv => super::algorithms(operation),
        Operation::Reduce => &[&reduce::LocalReduceRemoteSend, &reduce::Linear],
        Operation::Allreduce => &[&allreduce::ReduceExchangeBcast],
        Operation::Allgather => &[
            &allgather::LocalGatherRemoteBcast,
            &allgather::RemoteGatherLocalBcast,
            &allgather::PairwiseExchange,
        ],
        Operation::Allgatherv => &[&allgather::RemoteGatherLocalBcast, &allgather::PairwiseExchange],
        Operation::Alltoall | Operation::Alltoallv | Operation::Alltoallw => {
            &[&alltoall::Linear, &alltoall::PairwiseExchange]
        }
        Operation::ReduceScatterBlock | Operation::ReduceScatter => {
            &[&reduce_scatter::PairwiseExchange, &reduce_scatter::LocalReduceRemoteScatter]
        }
        _ => &[],
    }
}
