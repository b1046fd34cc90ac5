//! Two-level algorithms: within each node, and between one rank of each (in the all-to-all, between
//! all for their nodes).
//!
//! Where messages between nodes are dear, few of them should go there. Ranks of a node are
//! neighbours: node n has the ranks from `n k` on, `k` of them, and the last node what is left
//! (`Instance::with_cut` tells k). Each node has a *leader*: the root if it is there, else its
//! first rank. What is done within nodes is done by all of them at once.
//!
//! A call takes one of these where a rank shares no memory with another, it is known how many ranks
//! a node has, and it is cheaper so: near messages are priced by [`Options::prices`], those between
//! leaders by [`Options::far`]. It can also be named, by a call or a rule: `two_level`. Ranks of a
//! node are known where the transport says so
//! ([`ranks_per_node`](aldis_kernel::plane::EndpointPlane::ranks_per_node): in a job of `aldis-run`
//! whose hosts have equally many) and the communicator's group is a single stride; else
//! [`Options::node`](crate::Options::node) says it ([`ranks_per_node`] finds out).
//!
//! After Open MPI coll/han (Luo, Wu, Bosilca et al., "HAN: a hierarchical autotuned collective
//! communication framework",
//! 2020) and MPICH's `_smp` algorithms. As nodes are runs of ranks, reductions keep the order of
//! ranks.
//!
//! [`Options::prices`]: crate::Options::prices
//! [`Options::far`]: crate::Options::far

use aldis_kernel::hal::{PeerId, Platform, Transport};
use aldis_kernel::{Comm, Error};

pub use crate::algorithms::hierarchy::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Gather, Reduce, Scatter, TwoLevel, algorithm,
};
use crate::allreduce::allreduce;
use crate::blocking_endpoint::BlockingEndpoint;
use crate::op::{Max, Min};

/// Returns the number of ranks that a node has, if the ranks of each node are neighbours in `comm`,
/// as many of them on each but the last: what [`Options::node`](crate::Options::node) is to be. All
/// ranks call it and get the same answer. `shares` says of processes whether they are on this node,
/// as for [`split_type`](crate::comm::split_type).
///
/// # Errors
/// [`Cause::Stale`](aldis_kernel::hal::Cause::Stale) for a freed communicator; the rest as
/// [`allreduce`].
pub fn ranks_per_node<'s, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    comm: &Comm,
    shares: impl Fn(PeerId) -> bool,
) -> Result<Option<u32>, Error> {
    let endpoint = ep.endpoint();
    let me = endpoint.process();
    let group = endpoint.comm(comm).group()?;
    let mut here = (0..).zip(group.processes()).filter(|&(_, process)| process == me || shares(process));
    let first = here.next().map_or(0, |(rank, _): (u32, _)| rank);
    let (end, number) = here.fold((first + 1, 1), |(_, number), (rank, _)| (rank + 1, number + 1));
    let mut largest = [number];
    allreduce(Max, &mut largest, &mut [0]).run(ep, comm)?;
    let [node] = largest;
    let is_run = end - first == number && first.is_multiple_of(node);
    let mut fits = [u8::from(is_run && (number == node || end == comm.size()))];
    allreduce(Min, &mut fits, &mut [0]).run(ep, comm)?;
    Ok((fits == [1]).then_some(node))
}
