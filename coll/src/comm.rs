//! Communicators: making and freeing them (MPI 4.1 section 7.4).
//!
//! | call | who takes part | who is in the new communicator |
//! |---|---|---|
//! | [`dup`] | all ranks | all, in the same order |
//! | [`split()`], [`split_type`] | all ranks | those of a colour, in the order of keys |
//! | [`create`] | all ranks | the processes of a group |
//! | [`create_group`] | the group's processes | the same |
//! | [`Grid::create`], [`Grid::sub`] | all ranks | those of a grid, or of a slice of it |
//! | [`Graph::create`] | all ranks | those of a graph |
//! | [`DistributedGraph::create`], [`create_adjacent`] | all ranks | all, in the same order |
//! | [`free`] | all ranks | - |
//! | [`inter`] | two groups | both, each addressing the other |
//!
//! [`create_adjacent`]: DistributedGraph::create_adjacent
//!
//! **Without blocking.** Each call has one with an `i` before its name ([`idup`], [`isplit`],
//! [`Grid::icreate`]): a future, for programs that do other things meanwhile. They give it a
//! [`Messenger`], which has the endpoint between two waits and exchanges messages. Any number may
//! be under way, begun in any order on different communicators.
//!
//! **Context ids.** A communicator's context is a slot of the communicator table that is free on
//! all members, with a generation that is new on all of them. Members agree on both in a few
//! exchanges, the number of which grows with the logarithm of the ranks; the last of them ends when
//! every member has the communicator in its table, so no message arrives too early. A process
//! offers its free slots to one call at a time; calls of one process that are under way together
//! have their turns in an order that is the same on all ranks. A call that does not block is
//! promised a slot before its turn, if there is none and no other has one. A slot is used again
//! after its communicator was freed on all ranks of the next one. Members whose free slots have
//! none in common have no slot: [`Cause::Full`], on all ranks.
//!
//! **Old messages.** What arrives for a freed communicator is recognised by its generation, dropped
//! and counted (`stale_contexts`). Once in 32767 communicators a slot's generations start again:
//! then every member first receives what every other has sent.
//!
//! **Memory.** A communicator takes a row of the table ([`BYTES_PER_COMMUNICATOR`]); its group
//! takes nothing more if it is a single stride - every duplicate of world, every row or column of a
//! grid - and else [`BYTES_PER_PIECE`] for each stride or, if that is less, for each 32 processes
//! that its members are among. A split needs a [`SplitChoice`] for each rank, lent for the call.
//!
//! **Failure.** A rank that cannot take part, because an argument of its own is wrong or a table is
//! full, says so to the others, and the call fails on all of them; nothing has changed then. A rank
//! that fails alone, because its deadline has passed or a rank that it waits for has died, notifies
//! the ranks that would wait for it, and they notify others: these fail with [`Cause::Declined`],
//! or with the name of the dead rank. Some may have made the communicator by then: they
//! [`discard`](aldis_kernel::Endpoint::discard) it.
//!
//! ```
//! use aldis_coll::{allreduce, comm, op::Sum};
//! use aldis_kernel::{Endpoint, Error, hal::{Platform, Transport}};
//!
//! /// The sum over the ranks of this one's row, in a grid of rows of four.
//! fn row_sum<T: Transport, P: Platform>(
//!     ep: &mut Endpoint<'_, T, P>,
//!     mine: u64,
//! ) -> Result<u64, Error> {
//!     let world = ep.world();
//!     let mut scratch = [comm::SplitChoice::NONE; 64];
//!     let row = comm::split(ep, &world, Some(world.rank().0 / 4), 0, &mut scratch)?;
//!     let Some(row) = row else { return Ok(mine) };
//!     let mut sum = [mine];
//!     allreduce(Sum, &mut sum, &mut [0]).run(ep, &row)?;
//!     comm::free(ep, row)?;
//!     Ok(sum[0])
//! }
//! ```
//!
//! [`Cause::Full`]: aldis_kernel::hal::Cause::Full
//! [`Cause::Declined`]: aldis_kernel::hal::Cause::Declined
//! [`BYTES_PER_COMMUNICATOR`]: aldis_kernel::storage::BYTES_PER_COMMUNICATOR
//! [`BYTES_PER_PIECE`]: aldis_kernel::storage::BYTES_PER_PIECE

mod creation;
mod dims;
mod graph;
mod grid;
pub mod inter;
mod inter_link;
mod local_ranks;
mod messenger;
mod participants;
mod split;
mod topology;

use core::iter::Empty;

use aldis_kernel::hal::{Cause, Operation, PeerId, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Group, Hints, Members, PREDEFINED, Tag};
use creation::make;
pub use dims::dims_create;
pub use graph::{DistributedGraph, Edge, Graph, Neighbour};
pub use grid::{Dimension, Grid};
use local_ranks::{LocalRanks, check_subset};
use messenger::{Blocking, now};
pub use messenger::{MessagePair, Messenger, NOTICE_BYTES};
use participants::Participants;
pub use split::{SplitChoice, isplit, isplit_type, split, split_type};
pub use topology::{Topology, TopologyKind};

use crate::blocking_endpoint::BlockingEndpoint;

/// A communicator of the same ranks in the same order, whose messages meet none of the old one's
/// (MPI_Comm_dup). It has those attributes that the old one's keys give it, and as every new
/// communicator the old one's error policy, but not its hints (MPI 4.1 section 7.4.2).
///
/// # Errors
/// On all ranks [`Cause::Full`] if there is no free slot in common, or if any has too few pieces
/// for the group or slots for attributes (on the rank itself [`Cause::TooSmall`] says how many are
/// needed); else as [`Collective::wait`](crate::Collective::wait).
pub fn dup<'s, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    comm: &Comm,
) -> Result<Comm, Error> {
    now(idup(&mut Blocking(ep), comm))
}

/// Duplicates a communicator like [`dup`], by a [`Messenger`].
///
/// # Errors
/// [`Cause::Full`] on all ranks if there is no free slot in common, or if any has too few pieces
/// for the group or slots for attributes; the rest as [`dup`].
pub async fn idup<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    comm: &Comm,
) -> Result<Comm, Error> {
    let local_ranks = LocalRanks::of_all(messenger, comm, Operation::Dup)?;
    let members = Members::<Empty<PeerId>>::Of(*comm);
    let members = messenger.endpoint().check_attributes(comm).map(|()| Some(members));
    let made =
        make(messenger, &local_ranks, members).await?.ok_or(Error::new(Operation::Dup, Cause::Stale))?;
    messenger.endpoint().copy_attributes(comm, &made);
    Ok(made)
}

/// Like [`dup`], but with hints for the new communicator (MPI_Comm_dup_with_info): each rank
/// promises for itself.
///
/// # Errors
/// [`Cause::Full`] on all ranks if there is no free slot in common, or if any has too few pieces
/// for the group or slots for attributes; the rest as [`dup`].
pub fn dup_with_hints<'s, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    comm: &Comm,
    hints: Hints,
) -> Result<Comm, Error> {
    now(idup_with_hints(&mut Blocking(ep), comm, hints))
}

/// Duplicates a communicator like [`dup_with_hints`], by a [`Messenger`].
///
/// # Errors
/// [`Cause::Full`] on all ranks if there is no free slot in common, or if any has too few pieces
/// for the group or slots for attributes; the rest as [`dup_with_hints`].
pub async fn idup_with_hints<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    comm: &Comm,
    hints: Hints,
) -> Result<Comm, Error> {
    let made = idup(messenger, comm).await?;
    messenger.endpoint().comm_mut(&made).set_hints(hints)?;
    Ok(made)
}

/// A communicator of the processes of `group`, all of which are in `comm`; `None` for the other
/// ranks of `comm`, which take part (MPI_Comm_create). Ranks may give different groups if these
/// have no process in common; all processes of a group give the same.
///
/// # Errors
/// As [`dup`], and [`Cause::RankOutOfRange`] for a process that is not in `comm`; it tells the
/// process. The other ranks fail with [`Cause::Declined`] then.
pub fn create<'s, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    comm: &Comm,
    group: &Group<'_>,
) -> Result<Option<Comm>, Error> {
    now(icreate(&mut Blocking(ep), comm, group))
}

/// Makes a communicator like [`create`], by a [`Messenger`].
///
/// # Errors
/// [`Cause::RankOutOfRange`] for a process that is not in `comm`, [`Cause::Declined`] on the other
/// ranks then; [`Cause::Full`] and the rest as [`create`].
pub async fn icreate<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    comm: &Comm,
    group: &Group<'_>,
) -> Result<Option<Comm>, Error> {
    let local_ranks = LocalRanks::of_all(messenger, comm, Operation::Create)?;
    let is_member = group.contains(messenger.endpoint().process());
    let members = check_subset(&messenger.endpoint().comm(comm).group()?, group)
        .map(|()| is_member.then_some(Members::These(group.processes())));
    make(messenger, &local_ranks, members).await
}

/// A communicator of the processes of `group`, all of which are in `comm`, and which alone take
/// part (MPI_Comm_create_group). `tag`, below 2^29, tells calls apart that are under way on `comm`
/// at a time.
///
/// # Errors
/// [`Cause::RankOutOfRange`] for a process that is not in `comm`, or if this one is not in `group`;
/// [`Cause::TagOutOfRange`]; [`Cause::Full`] and the rest as [`dup`].
pub fn create_group<'s, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    comm: &Comm,
    group: &Group<'_>,
    tag: Tag,
) -> Result<Comm, Error> {
    now(icreate_group(&mut Blocking(ep), comm, group, tag))
}

/// Makes a communicator like [`create_group`], by a [`Messenger`].
///
/// # Errors
/// [`Cause::RankOutOfRange`] for a process that is not in `comm`, or if this one is not in `group`;
/// [`Cause::TagOutOfRange`]; the rest as [`create_group`].
pub async fn icreate_group<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    comm: &Comm,
    group: &Group<'_>,
    tag: Tag,
) -> Result<Comm, Error> {
    let local_ranks = LocalRanks::of_group(messenger, comm, group, tag, Operation::Create)?;
    let made = make(messenger, &local_ranks, Ok(Some(Members::These(group.processes())))).await?;
    made.ok_or(Error::new(Operation::Create, Cause::Stale))
}

/// Frees a communicator (MPI_Comm_free): returns once every rank of it has called this. What was
/// sent in it and not received is dropped and counted. Every copy of the handle is stale from then
/// on.
///
/// # Errors
/// [`Cause::Predefined`] for world and self, [`Cause::Stale`] for one that is freed; else as
/// [`Collective::wait`](crate::Collective::wait), and it is freed on this rank all the same.
pub fn free<'s, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    comm: Comm,
) -> Result<(), Error> {
    now(ifree(&mut Blocking(ep), comm))
}

/// Frees a communicator like [`free`], by a [`Messenger`].
///
/// # Errors
/// [`Cause::Predefined`] for world and self, [`Cause::Stale`] for one that is freed; the rest as
/// [`free`].
pub async fn ifree<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    comm: Comm,
) -> Result<(), Error> {
    let mut endpoint = messenger.endpoint();
    if [endpoint.world(), endpoint.itself()].iter().any(|own| own.context() == comm.context()) {
        return endpoint.discard(&comm);
    }
    drop(endpoint);
    let met = LocalRanks::of_all(messenger, &comm, Operation::Free)?.meet(messenger, None).await;
    messenger.endpoint().discard(&comm)?;
    met
}

const _: () = assert!(PREDEFINED == 2, "world and self are what `free` refuses");
