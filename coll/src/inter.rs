//! Collectives over the two groups of an [intercommunicator](crate::comm::inter) (MPI 4.1
//! chapter 6).
//!
//! Each group's data goes to the other group. A call says what is to be done; it is then
//! [run](Crossing::run) or [started](Crossing::start) on an intercommunicator:
//!
//! ```
//! use aldis_coll::inter::{self, Root};
//! use aldis_kernel::{Comm, Endpoint, Error, Rank, hal::{Platform, Transport}};
//!
//! /// Rank 1 of the one group tells the whole other group.
//! fn tell<T: Transport, P: Platform>(
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
//! broadcasts, gathers and scatters. That ranks of a group talk to each other meanwhile is what
//! Open MPI's coll/inter and MPICH's `remote_send_local_bcast` and its like do, with a tree more.
//! The others have algorithms of their own, `inter_..`, that
//! [cross](crate::schedule::Schedule::crosses): see [`algorithms`].
//!
//! **Persistent.** Options that are [persistent](crate::Options::persistent) make what is started
//! later, as for one group.
//!
//! **Errors.** [`Cause::Intracommunicator`] for a communicator of one group,
//! [`Cause::RankOutOfRange`] for a root that the other group does not have. An error of a message
//! names the rank in the communicator it was sent in: the intercommunicator, or its companion for
//! one of the own group.
//!
//! [`Cause::Intracommunicator`]: aldis_kernel::hal::Cause::Intracommunicator
//! [`Cause::RankOutOfRange`]: aldis_kernel::hal::Cause::RankOutOfRange

mod crossing;

use aldis_kernel::hal::Operation;
pub use crossing::Crossing;
use zerocopy::IntoBytes;

pub use crate::algorithms::inter::{algorithms, allgather, allreduce, alltoall, reduce, reduce_scatter};
pub use crate::collective::Root;
use crate::collective::{Input, Lent, Over};
use crate::layout::{Block, Layout, TypedBlock};
use crate::op::{Element, Kernel, Reduce};

/// Waits until every rank of both groups has called it (MPI_Barrier, MPI_Ibarrier).
pub fn barrier() -> Crossing<'static> {
    Crossing::new::<u8>(Operation::Barrier, Over::Groups, Lent::stretch(&mut [], &mut []))
}

/// Sends the root's `data` to every rank of the other group, into its `data` (MPI_Bcast,
/// MPI_Ibcast). Ranks beside the root may give none.
pub fn bcast<E: Element>(data: &mut [E], root: Root) -> Crossing<'_> {
    Crossing::new::<E>(Operation::Bcast, Over::Rooted(root), Lent::stretch(data.as_mut_bytes(), &mut []))
}

/// Gathers `data` of all ranks of the other group at the root, whose `data` are a block for each of
/// them (MPI_Gather, MPI_Igather). Ranks beside the root may give none.
///
/// `scratch` is working memory, of the same length on every rank but those beside the root: none is
/// needed, with as many blocks as the group has ranks a tree can be used.
pub fn gather<'m, E: Element>(data: &'m mut [E], scratch: &'m mut [E], root: Root) -> Crossing<'m> {
    rooted(Operation::Gather, data, Layout::Even, scratch, root)
}

/// Gathers `data` of all ranks of the other group at the root, whose `data` have a block of its
/// length for each of them, as listed by `blocks`, which no other rank reads (MPI_Gatherv,
/// MPI_Igatherv).
pub fn gatherv<'m, E: Element>(data: &'m mut [E], blocks: &'m [Block], root: Root) -> Crossing<'m> {
    rooted(Operation::Gatherv, data, Layout::Listed(blocks), &mut [], root)
}

/// Sends every rank of the other group its block of the root's `data`, into its `data`
/// (MPI_Scatter, MPI_Iscatter). Ranks beside the root may give none.
///
/// `scratch` is as in [`gather`].
pub fn scatter<'m, E: Element>(data: &'m mut [E], scratch: &'m mut [E], root: Root) -> Crossing<'m> {
    rooted(Operation::Scatter, data, Layout::Even, scratch, root)
}

/// Sends every rank of the other group its block of the root's `data`, as listed there by `blocks`,
/// which no other rank reads, into its `data` (MPI_Scatterv, MPI_Iscatterv).
pub fn scatterv<'m, E: Element>(data: &'m mut [E], blocks: &'m [Block], root: Root) -> Crossing<'m> {
    rooted(Operation::Scatterv, data, Layout::Listed(blocks), &mut [], root)
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
) -> Crossing<'m> {
    let lent =
        Lent::stretch(data.as_mut_bytes(), scratch.as_mut_bytes()).divided([Layout::Even, Layout::Own]);
    Crossing::new::<E>(Operation::Allgather, Over::Groups, lent.given(input.into().into_bytes()))
}

/// Sends `input` to every rank of the other group, whose `data` have a block of its length for this
/// one, as listed by `blocks` (MPI_Allgatherv, MPI_Iallgatherv).
pub fn allgatherv<'m, E: Element>(
    input: impl Into<Input<'m, E>>,
    data: &'m mut [E],
    blocks: &'m [Block],
) -> Crossing<'m> {
    let layouts = [Layout::Listed(blocks), Layout::Own];
    let lent = Lent::stretch(data.as_mut_bytes(), &mut []).divided(layouts);
    Crossing::new::<E>(Operation::Allgatherv, Over::Groups, lent.given(input.into().into_bytes()))
}

/// Sends every rank of the other group its block of `input`; `data` are a block of each of them
/// (MPI_Alltoall, MPI_Ialltoall). What is sent one way may have another length than what comes
/// back.
pub fn alltoall<'m, E: Element>(input: impl Into<Input<'m, E>>, data: &'m mut [E]) -> Crossing<'m> {
    let lent = Lent::stretch(data.as_mut_bytes(), &mut []).divided([Layout::Even; 2]);
    Crossing::new::<E>(Operation::Alltoall, Over::Groups, lent.given(input.into().into_bytes()))
}

/// Sends every rank of the other group its block of `input`, as listed by `given`; `data` have a
/// block of each of them, as listed by `blocks` (MPI_Alltoallv, MPI_Ialltoallv).
pub fn alltoallv<'m, E: Element>(
    input: impl Into<Input<'m, E>>,
    given: &'m [Block],
    data: &'m mut [E],
    blocks: &'m [Block],
) -> Crossing<'m> {
    listed(Operation::Alltoallv, (input.into(), given), (data, blocks))
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
) -> Crossing<'m> {
    listed(Operation::Alltoallw, (input.into(), given), (data, blocks))
}

/// Sends every rank of the other group its block of `input`, as listed by `given`; `data` have a
/// block of each of them, as listed by `blocks`, each of a datatype of its own (MPI_Alltoallw,
/// MPI_Ialltoallw): see [`alltoallw_typed`](crate::alltoallw_typed), also for its errors.
pub fn alltoallw_typed<'m, E: Element>(
    input: impl Into<Input<'m, E>>,
    given: &'m [TypedBlock],
    data: &'m mut [E],
    blocks: &'m [TypedBlock],
) -> Crossing<'m> {
    let layouts = [Layout::Typed(blocks), Layout::Typed(given)];
    let lent = Lent::stretch(data.as_mut_bytes(), &mut []).divided(layouts);
    Crossing::new::<u8>(Operation::Alltoallw, Over::Groups, lent.given(input.into().into_bytes()))
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
) -> Crossing<'m> {
    let lent = Lent::stretch(data.as_mut_bytes(), scratch.as_mut_bytes());
    Crossing::new::<E>(Operation::Reduce, Over::Rooted(root), lent).reducing(Kernel::of::<R, E>())
}

/// Like [`reduce()`], but on the bytes of elements that are known only when the program runs: see
/// [`erased`](crate::dyn_op), also for its errors.
pub fn reduce_by<'m>(kernel: Kernel, data: &'m mut [u8], scratch: &'m mut [u8], root: Root) -> Crossing<'m> {
    Crossing::new::<u8>(Operation::Reduce, Over::Rooted(root), Lent::stretch(data, scratch)).reducing(kernel)
}

/// Like [`allreduce()`], but on bytes in the way of [`reduce_by`].
pub fn allreduce_by<'m>(kernel: Kernel, data: &'m mut [u8], scratch: &'m mut [u8]) -> Crossing<'m> {
    Crossing::new::<u8>(Operation::Allreduce, Over::Groups, Lent::stretch(data, scratch)).reducing(kernel)
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
) -> Crossing<'m> {
    let lent = Lent::stretch(data.as_mut_bytes(), scratch.as_mut_bytes());
    Crossing::new::<E>(Operation::Allreduce, Over::Groups, lent).reducing(Kernel::of::<R, E>())
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
) -> Crossing<'m> {
    scattered(Operation::ReduceScatterBlock, (input.into(), Layout::Even), data, scratch)
        .reducing(Kernel::of::<R, E>())
}

/// Reduces `input` of all ranks of each group and leaves block r of the result, of its length as
/// listed by `given`, in `data` of rank r of the other group (MPI_Reduce_scatter,
/// MPI_Ireduce_scatter). Lengths are alike on all ranks of a group, places need not be. The blocks
/// of both groups have as many elements in all.
///
/// MPI lists the blocks of the own group, as they come; here, as in all calls, each group lists
/// what it gives. What MPI calls `recvcounts` is `given` of the other group.
///
/// `scratch` is as in [`reduce_scatter_block`].
pub fn reduce_scatter<'m, R: Reduce<E>, E: Element>(
    _op: R,
    (input, given): (impl Into<Input<'m, E>>, &'m [Block]),
    data: &'m mut [E],
    scratch: &'m mut [E],
) -> Crossing<'m> {
    scattered(Operation::ReduceScatter, (input.into(), Layout::Listed(given)), data, scratch)
        .reducing(Kernel::of::<R, E>())
}

/// Blocks for all ranks of the other group, of which each has its own in the end.
fn scattered<'m, E: Element>(
    operation: Operation,
    (input, given): (Input<'m, E>, Layout<'m>),
    data: &'m mut [E],
    scratch: &'m mut [E],
) -> Crossing<'m> {
    let lent = Lent::stretch(data.as_mut_bytes(), scratch.as_mut_bytes()).divided([Layout::Own, given]);
    Crossing::new::<E>(operation, Over::Groups, lent.given(input.into_bytes()))
}

/// Blocks for all ranks of the other group, and one of each of them, as listed.
fn listed<'m, E: Element>(
    operation: Operation,
    (input, given): (Input<'m, E>, &'m [Block]),
    (data, blocks): (&'m mut [E], &'m [Block]),
) -> Crossing<'m> {
    let layouts = [Layout::Listed(blocks), Layout::Listed(given)];
    let lent = Lent::stretch(data.as_mut_bytes(), &mut []).divided(layouts);
    Crossing::new::<E>(operation, Over::Groups, lent.given(input.into_bytes()))
}

/// Blocks at the root, divided like this, and one on each other rank.
fn rooted<'m, E: Element>(
    operation: Operation,
    data: &'m mut [E],
    at_root: Layout<'m>,
    scratch: &'m mut [E],
    root: Root,
) -> Crossing<'m> {
    let layout = if root == Root::This { at_root } else { Layout::Own };
    let lent = Lent::stretch(data.as_mut_bytes(), scratch.as_mut_bytes()).divided([layout, Layout::Whole]);
    Crossing::new::<E>(operation, Over::Rooted(root), lent)
}
