//! Collectives over the two groups of an [intercommunicator](crate::comm::inter) (MPI 4.1
//! chapter 6).
//!
//! Each group's data goes to the other group. A call says what is to be done; it is then
//! [run](InterCall::run) or [started](InterCall::start) on an intercommunicator:
//!
//! ```
//! use aldis_coll::inter::{self, Root};
//! use aldis_kernel::{Comm, Endpoint, Error, Rank, hal::{Platform, Transport}};
//!
//! /// Rank 1 of the one group broadcasts to the whole other group.
//! fn broadcast<T: Transport, P: Platform>(
//!     ep: &mut Endpoint<'_, T, P>,
//!     between: &Comm,
//!     i_am_of_the_first: bool,
//!     plan: &mut [u32; 8],
//! ) -> Result<(), Error> {
//!     let root = match (i_am_of_the_first, between.rank()) {
//!         (true, Rank(1)) => Root::This,
//!         (true, _) => Root::Beside,
//!         (false, _) => Root::Remote(Rank(1)),
//!     };
//!     inter::bcast(plan, root).run(ep, between)?;
//!     inter::barrier().run(ep, between)
//! }
//! ```
//!
//! | call | MPI | what a rank ends with |
//! |---|---|---|
//! | [`barrier`] | MPI_Barrier | all ranks of both groups have called it |
//! | [`bcast`] | MPI_Bcast | the root's data, on every rank of the other group |
//! | [`gather`], [`gatherv`] | MPI_Gather, MPI_Gatherv | at the root: each remote block |
//! | [`scatter`], [`scatterv`] | MPI_Scatter, MPI_Scatterv | a block of the remote root's |
//! | [`allgather()`], [`allgatherv`] | MPI_Allgather, MPI_Allgatherv | each remote block |
//! | [`alltoall()`], [`alltoallv`] | MPI_Alltoall, MPI_Alltoallv | each remote block for it |
//! | [`alltoallw`], [`alltoallw_typed`] | MPI_Alltoallw | the same |
//! | [`reduce()`], [`reduce_by`] | MPI_Reduce | at the root: the reduction of remote data |
//! | [`allreduce()`], [`allreduce_by`] | MPI_Allreduce | the reduction of the other group's data |
//! | [`reduce_scatter_block`] | MPI_Reduce_scatter_block | its block of the reduction |
//! | [`reduce_scatter()`] | MPI_Reduce_scatter | the same |
//!
//! **Algorithms.** A schedule names places, and the places may be ranks of two groups: the group
//! that the root is not in and the root itself, or both groups. So algorithms for one group serve
//! here too where the operation allows it, and are chosen, priced and checked as there: barriers,
//! broadcasts, gathers and scatters. Ranks of one group exchange messages in them, as in Open MPI's
//! coll/inter and MPICH's `remote_send_local_bcast` and its like, which take one tree more. The
//! others have algorithms of their own, `inter_..`, that
//! [cross](crate::schedule::Schedule::crosses): see [`algorithms`].
//!
//! **Persistent.** [`persistent`](InterCall::persistent) makes what is started later, as for one
//! group.
//!
//! **Errors.** [`Cause::Intracommunicator`] for a communicator of one group,
//! [`Cause::RankOutOfRange`] for a root that the other group does not have. An error of a message
//! names the rank in the communicator it was sent in: the intercommunicator, or its companion for
//! one of the own group.
//!
//! [`Cause::Intracommunicator`]: aldis_kernel::hal::Cause::Intracommunicator
//! [`Cause::RankOutOfRange`]: aldis_kernel::hal::Cause::RankOutOfRange

mod call;

use aldis_kernel::hal::Operation;
pub use call::InterCall;
use zerocopy::IntoBytes;

pub use crate::algorithms::inter::{algorithms, allgather, allreduce, alltoall, reduce, reduce_scatter};
use crate::block_call::InputBlocks;
pub use crate::collective::Root;
use crate::collective::{Input, Over};
use crate::layout::{Block, Layout, TypedBlock};
use crate::op::{Element, Kernel, Reduce};

/// Waits until every rank of both groups has called it (MPI_Barrier, MPI_Ibarrier).
pub fn barrier() -> InterCall<'static> {
    InterCall::new::<u8>(Operation::Barrier, Over::Groups, &mut [], &mut [])
}

/// Sends the root's `data` to every rank of the other group, into its `data` (MPI_Bcast,
/// MPI_Ibcast). Ranks beside the root may give none.
pub fn bcast<E: Element>(data: &mut [E], root: Root) -> InterCall<'_> {
    InterCall::new(Operation::Bcast, Over::Rooted(root), data, &mut [])
}

/// Gathers `data` of all ranks of the other group at the root, whose `data` are a block for each of
/// them (MPI_Gather, MPI_Igather). Ranks beside the root may give none.
///
/// `scratch` is working memory, of the same length on every rank but those beside the root: none is
/// needed, with as many blocks as the group has ranks a tree can be used.
pub fn gather<'m, E: Element>(data: &'m mut [E], scratch: &'m mut [E], root: Root) -> InterCall<'m> {
    InterCall::new(Operation::Gather, Over::Rooted(root), data, scratch).divided_at(root, Layout::Even)
}

/// Gathers `data` of all ranks of the other group at the root, whose `data` have a block of its
/// length for each of them, as listed by `blocks`, which no other rank reads (MPI_Gatherv,
/// MPI_Igatherv).
pub fn gatherv<'m, E: Element>(data: &'m mut [E], blocks: &'m [Block], root: Root) -> InterCall<'m> {
    InterCall::new(Operation::Gatherv, Over::Rooted(root), data, &mut [])
        .divided_at(root, Layout::Listed(blocks))
}

/// Sends every rank of the other group its block of the root's `data`, into its `data`
/// (MPI_Scatter, MPI_Iscatter). Ranks beside the root may give none.
///
/// `scratch` is as in [`gather`].
pub fn scatter<'m, E: Element>(data: &'m mut [E], scratch: &'m mut [E], root: Root) -> InterCall<'m> {
    InterCall::new(Operation::Scatter, Over::Rooted(root), data, scratch).divided_at(root, Layout::Even)
}

/// Sends every rank of the other group its block of the root's `data`, as listed there by `blocks`,
/// which no other rank reads, into its `data` (MPI_Scatterv, MPI_Iscatterv).
pub fn scatterv<'m, E: Element>(data: &'m mut [E], blocks: &'m [Block], root: Root) -> InterCall<'m> {
    InterCall::new(Operation::Scatterv, Over::Rooted(root), data, &mut [])
        .divided_at(root, Layout::Listed(blocks))
}

/// Sends `input` to every rank of the other group, whose `data` are a block for each rank of this
/// one (MPI_Allgather, MPI_Iallgather). The blocks of the two groups may have unlike lengths, and
/// one group none.
///
/// `scratch` is working memory, of the same length on every rank: none is needed, with a block for
/// each rank of the larger group a further algorithm can be used.
pub fn allgather<'m, E: Element>(
    input: impl Into<Input<'m, E>>,
    data: &'m mut [E],
    scratch: &'m mut [E],
) -> InterCall<'m> {
    InterCall::new(Operation::Allgather, Over::Groups, data, scratch)
        .divided(Layout::Even)
        .given(input.into(), Layout::Own)
}

/// Sends `input` to every rank of the other group, whose `data` have a block of its length for this
/// one, as listed by `blocks` (MPI_Allgatherv, MPI_Iallgatherv).
pub fn allgatherv<'m, E: Element>(
    input: impl Into<Input<'m, E>>,
    data: &'m mut [E],
    blocks: &'m [Block],
) -> InterCall<'m> {
    InterCall::new(Operation::Allgatherv, Over::Groups, data, &mut [])
        .divided(Layout::Listed(blocks))
        .given(input.into(), Layout::Own)
}

/// Sends every rank of the other group its block of `input`; `data` are a block of each of them
/// (MPI_Alltoall, MPI_Ialltoall). What is sent one way may have another length than what comes
/// back.
pub fn alltoall<'m, E: Element>(input: impl Into<Input<'m, E>>, data: &'m mut [E]) -> InterCall<'m> {
    InterCall::new(Operation::Alltoall, Over::Groups, data, &mut [])
        .divided(Layout::Even)
        .given(input.into(), Layout::Even)
}

/// Sends every rank of the other group its block of `input`, as listed by `given`; `data` have a
/// block of each of them, as listed by `blocks` (MPI_Alltoallv, MPI_Ialltoallv).
pub fn alltoallv<'m, E: Element>(
    input: impl Into<Input<'m, E>>,
    given: &'m [Block],
    data: &'m mut [E],
    blocks: &'m [Block],
) -> InterCall<'m> {
    InterCall::new(Operation::Alltoallv, Over::Groups, data, &mut [])
        .divided(Layout::Listed(blocks))
        .given(input.into(), Layout::Listed(given))
}

/// Sends every rank of the other group its block of `input`, as listed by `given`; `data` have a
/// block of each of them, as listed by `blocks`; all are bytes, as are places and lengths
/// (MPI_Alltoallw and MPI_Ialltoallw of contiguous types). Bytes are not converted between ranks of
/// unlike byte orders.
pub fn alltoallw<'m>(
    input: impl Into<Input<'m, u8>>,
    given: &'m [Block],
    data: &'m mut [u8],
    blocks: &'m [Block],
) -> InterCall<'m> {
    InterCall::new(Operation::Alltoallw, Over::Groups, data, &mut [])
        .divided(Layout::Listed(blocks))
        .given(input.into(), Layout::Listed(given))
}

/// Sends every rank of the other group its block of `input`, as listed by `given`; `data` have a
/// block of each of them, as listed by `blocks`, each of a datatype of its own (MPI_Alltoallw,
/// MPI_Ialltoallw): see [`alltoallw_typed`](crate::alltoallw_typed), also for its errors.
pub fn alltoallw_typed<'m, E: Element>(
    input: impl Into<Input<'m, E>>,
    given: &'m [TypedBlock],
    data: &'m mut [E],
    blocks: &'m [TypedBlock],
) -> InterCall<'m> {
    InterCall::new(Operation::Alltoallw, Over::Groups, data.as_mut_bytes(), &mut [])
        .divided(Layout::Typed(blocks))
        .given(input.into().into_bytes(), Layout::Typed(given))
}

/// Reduces `data` of all ranks of the other group element by element into `data` of the root
/// (MPI_Reduce, MPI_Ireduce), in the order of their ranks. Elsewhere `data` are working memory:
/// what they hold afterwards depends on the algorithm. Ranks beside the root may give none.
///
/// `scratch` is working memory, of the same length on every rank but those beside the root: one
/// element is enough, as many as `data` are never too few.
pub fn reduce<'m, R: Reduce<E>, E: Element>(
    _op: R,
    data: &'m mut [E],
    scratch: &'m mut [E],
    root: Root,
) -> InterCall<'m> {
    InterCall::new(Operation::Reduce, Over::Rooted(root), data, scratch).reducing(Kernel::of::<R, E>())
}

/// Like [`reduce()`], but on the bytes of elements that are known only when the program runs: see
/// [`dyn_op`](crate::dyn_op), also for its errors.
pub fn reduce_by<'m>(kernel: Kernel, data: &'m mut [u8], scratch: &'m mut [u8], root: Root) -> InterCall<'m> {
    InterCall::new(Operation::Reduce, Over::Rooted(root), data, scratch).reducing(kernel)
}

/// Like [`allreduce()`], but on bytes in the way of [`reduce_by`].
pub fn allreduce_by<'m>(kernel: Kernel, data: &'m mut [u8], scratch: &'m mut [u8]) -> InterCall<'m> {
    InterCall::new(Operation::Allreduce, Over::Groups, data, scratch).reducing(kernel)
}

/// Reduces `data` of all ranks of each group element by element, in the order of their ranks, and
/// leaves the result in `data` of every rank of the other group (MPI_Allreduce, MPI_Iallreduce).
/// Both groups have as many elements.
///
/// `scratch` is working memory, of the same length on every rank: one element is enough, as many as
/// `data` are never too few.
pub fn allreduce<'m, R: Reduce<E>, E: Element>(
    _op: R,
    data: &'m mut [E],
    scratch: &'m mut [E],
) -> InterCall<'m> {
    InterCall::new(Operation::Allreduce, Over::Groups, data, scratch).reducing(Kernel::of::<R, E>())
}

/// Reduces `input` of all ranks of each group, a block for every rank of the other group, element
/// by element in the order of their ranks, and leaves block r of the result in `data` of rank r of
/// the other group (MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block). The inputs of both groups
/// are as long, so blocks for more ranks are shorter.
///
/// `scratch` is working memory, of the same length on every rank: two elements are enough, with two
/// blocks for each rank of the larger group a further algorithm can be used.
///
/// ```
/// # use aldis_coll::{inter, op::Max};
/// # use aldis_kernel::{Comm, Endpoint, Error, hal::{Platform, Transport}};
/// /// Two groups of two ranks: the largest of the other group's samples, one of two features each.
/// fn extremes<T: Transport, P: Platform>(
///     ep: &mut Endpoint<'_, T, P>,
///     between: &Comm,
///     mine: [u32; 2],
/// ) -> Result<u32, Error> {
///     let mut theirs = [0];
///     inter::reduce_scatter_block(Max, &mine, &mut theirs, &mut [0; 8]).run(ep, between)?;
///     Ok(theirs[0])
/// }
/// ```
pub fn reduce_scatter_block<'m, R: Reduce<E>, E: Element>(
    _op: R,
    input: impl Into<Input<'m, E>>,
    data: &'m mut [E],
    scratch: &'m mut [E],
) -> InterCall<'m> {
    InterCall::new(Operation::ReduceScatterBlock, Over::Groups, data, scratch)
        .divided(Layout::Own)
        .given(input.into(), Layout::Even)
        .reducing(Kernel::of::<R, E>())
}

/// Reduces the input of all ranks of each group and leaves block r of the result, of its length as
/// listed with it, in `data` of rank r of the other group (MPI_Reduce_scatter,
/// MPI_Ireduce_scatter). Lengths are alike on all ranks of a group, places need not be. The blocks
/// of both groups have as many elements in all.
///
/// MPI lists the blocks of the own group, as they come; here, as in all calls, each group lists
/// what it gives. What MPI calls `recvcounts` is `given` of the other group.
///
/// `scratch` is as in [`reduce_scatter_block`].
pub fn reduce_scatter<'m, R: Reduce<E>, E: Element>(
    _op: R,
    given: InputBlocks<'m, E>,
    data: &'m mut [E],
    scratch: &'m mut [E],
) -> InterCall<'m> {
    InterCall::new(Operation::ReduceScatter, Over::Groups, data, scratch)
        .divided(Layout::Own)
        .given(given.input, Layout::Listed(given.blocks))
        .reducing(Kernel::of::<R, E>())
}
