//! Intercommunicators: communicators between two groups (MPI 4.1 section 7.6). Calls block; those
//! with an `i` before their names are futures.
//!
//! In an intercommunicator a rank addresses the other group: `send(&inter, data, Rank(2), tag)`
//! sends to rank 2 of the remote group, and the source of what arrives is the sender's rank in its
//! own. Every way of sending, receiving and probing that there is works so. Collectives send from
//! group to group: [`crate::inter`]. What needs one group refuses it with
//! [`Cause::Intercommunicator`]: [`merge`] makes one group of the two.
//!
//! | call | MPI | who takes part |
//! |---|---|---|
//! | [`create`] | MPI_Intercomm_create | two groups of which only the leaders know each other |
//! | [`merge`] | MPI_Intercomm_merge | both groups |
//! | [`dup`] | MPI_Comm_dup | both groups |
//! | [`split`], [`subset`] | MPI_Comm_split, MPI_Comm_create | both groups |
//! | [`free`] | MPI_Comm_free | both groups |
//!
//! Questions about an intercommunicator: [`Comm::is_inter`], [`Comm::size`] and [`Comm::rank`] (of
//! the local group), [`Comm::remote_size`]; [`CommRef::group`], [`CommRef::remote_group`],
//! [`CommRef::compare`].
//!
//! **Agreement.** Each group agrees within itself as it does on any communicator, its leader
//! exchanges with the other, and sends the result to its group: the context is a slot that is free
//! on all ranks of both groups.
//!
//! **Memory.** Two slots of the communicator table: its own and that of its *companion*, a
//! communicator of the local group that belongs to it ([`Endpoint::companion`]), by which the local
//! ranks agree. Pieces are taken by both groups, where they are no single stride.
//! `Cause::Full(Resource::Communicators)` if there are no two slots in common.
//!
//! **Failure.** As with all communicators (see [`super`]). Errors that another rank is the reason
//! of name it by its rank in the world.
//!
//! ```
//! use aldis_coll::comm::{self, SplitChoice, inter, inter::Leaders};
//! use aldis_kernel::{Endpoint, Error, Rank, Tag, hal::{Platform, Transport}};
//!
//! /// Lower and upper half of the world, and a word between the two ranks of each pair.
//! fn halves<T: Transport, P: Platform>(
//!     ep: &mut Endpoint<'_, T, P>,
//!     mine: u64,
//! ) -> Result<Option<u64>, Error> {
//!     let (world, mut scratch) = (ep.world(), [SplitChoice::NONE; 64]);
//!     let middle = world.size() / 2;
//!     let is_upper = world.rank().0 >= middle;
//!     let Some(half) = comm::split(ep, &world, Some(is_upper.into()), 0, &mut scratch)? else {
//!         return Ok(None);
//!     };
//!     let other_leader = Rank(if is_upper { 0 } else { middle });
//!     let leaders = Leaders {
//!         local: &half,
//!         leader: Rank(0),
//!         peer: &world,
//!         remote: other_leader,
//!         tag: Tag(1),
//!     };
//!     let between = inter::create(ep, leaders, &mut scratch)?;
//!     let mut theirs = None;
//!     if between.rank().0 < between.remote_size() {
//!         let mut got = [0_u64];
//!         let other = between.rank();
//!         ep.sendrecv(&between, &[mine], other, Tag(2), &mut got, other, Tag(2))?;
//!         theirs = Some(got[0]);
//!     }
//!     inter::free(ep, between)?;
//!     comm::free(ep, half)?;
//!     Ok(theirs)
//! }
//! ```
//!
//! [`CommRef::group`]: aldis_kernel::CommRef::group
//! [`CommRef::remote_group`]: aldis_kernel::CommRef::remote_group
//! [`CommRef::compare`]: aldis_kernel::CommRef::compare
//! [`Endpoint::companion`]: aldis_kernel::Endpoint::companion

use core::iter::Empty;

use aldis_kernel::hal::{Cause, Operation, PeerId, Platform, Resource, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Group, Members, Rank, Tag};

use super::creation::{make, make_with};
use super::inter_link::{InterLink, Remote, RemoteLeader};
use super::local_ranks::{CallTag, LocalRanks, check_subset};
use super::messenger::{Blocking, Messenger, now};
use super::participants::Participants;
use super::split::{SplitChoice, gather, processes, select};
use crate::blocking_endpoint::BlockingEndpoint;
use crate::tag;

/// The two groups of a new intercommunicator and the way between their leaders: the arguments of
/// MPI_Intercomm_create.
#[derive(Clone, Copy, Debug)]
pub struct Leaders<'c> {
    /// The communicator of the local group.
    pub local: &'c Comm,
    /// The leader of the local group, a rank of `local`.
    pub leader: Rank,
    /// A communicator that both leaders are in; of no matter on other ranks.
    pub peer: &'c Comm,
    /// The leader of the other group, as a rank of `peer`; of no matter on ranks but the leader.
    pub remote: Rank,
    /// A tag below 2^29, the same for both leaders, by which calls are told apart that are under
    /// way between them at a time; of no matter on other ranks.
    pub tag: Tag,
}

/// An intercommunicator between the ranks of `leaders.local` and another group, which makes the
/// same call (MPI_Intercomm_create). The groups have no process in common. `scratch` has an entry
/// for each rank of both groups.
///
/// # Errors
/// On all ranks of both groups [`Cause::Overlap`] if a process is in both; [`Cause::Full`] if any
/// has too little scratch, too few pieces or no free slots in common with the others (on the rank
/// itself [`Cause::TooSmall`] says how much is needed). [`Cause::RankOutOfRange`] for `leader`; and
/// on the leader, for one that has no way to the other leader, [`Cause::RankOutOfRange`],
/// [`Cause::Stale`] or [`Cause::TagOutOfRange`] - its group fails with [`Cause::Declined`] then,
/// and the other group waits for its deadline, as do groups whose leaders give different tags. Else
/// as [`super::dup`]. After a deadline or a death another tag should be used: messages of this call
/// may still be about.
pub fn create<'s, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    leaders: Leaders<'_>,
    scratch: &mut [SplitChoice],
) -> Result<Comm, Error> {
    now(icreate(&mut Blocking(ep), leaders, scratch))
}

/// Makes an intercommunicator like [`create`], by a [`Messenger`].
///
/// # Errors
/// [`Cause::Overlap`] on all ranks of both groups if a process is in both, [`Cause::Full`] if any
/// has too little scratch, too few pieces or no free slots; [`Cause::RankOutOfRange`] for `leader`;
/// the rest as [`create`].
pub async fn icreate<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    leaders: Leaders<'_>,
    scratch: &mut [SplitChoice],
) -> Result<Comm, Error> {
    let (Leaders { local, leader, peer, remote, tag }, operation) = (leaders, Operation::Create);
    let local_ranks = LocalRanks::of_all(messenger, local, operation)?;
    if leader.0 >= local.size() {
        return Err(Error::new(operation, Cause::RankOutOfRange { rank: leader.0, size: local.size() }));
    }
    let is_leader = local.rank() == leader;
    let found = if is_leader { find_remote(messenger, leaders) } else { Ok((PeerId(0), tag)) };
    let (process, tag) = found.unwrap_or((PeerId(0), tag));
    let other = RemoteLeader { rank: remote, process, call: CallTag::new(peer, tag, operation) };
    let link = InterLink::new(messenger, local_ranks, leader, other);
    // The leaders first: a process of both groups would wait for itself.
    let there = match found {
        Ok(_) if is_leader => introduce(messenger, &link, scratch).await,
        found => found.map(|_| 0).map_err(|cause| Error::new(operation, cause)),
    };
    link.settle(messenger, there.map(|_| ())).await?;
    let mut there = [there?];
    let received = local_ranks.bcast(messenger, leader.0, &mut there).await;
    link.forward_failure(messenger, received)?;
    let [there] = there;
    let (have, need) = (scratch.len() as u32, local.size().saturating_add(there));
    let short = Cause::TooSmall { what: Resource::Scratch, need, have };
    link.meet(messenger, (need > have).then_some(short)).await?;
    let choices = scratch.get_mut(local.size() as usize..need as usize);
    let choices = choices.ok_or(Error::new(operation, short))?;
    let received = local_ranks.bcast(messenger, leader.0, choices).await;
    link.forward_failure(messenger, received)?;
    let (ours, theirs) = (Members::<Empty<PeerId>>::Of(*local), Members::These(processes(choices)));
    let made = connect(messenger, &link.to(Remote::These(choices)), Some((ours, theirs))).await;
    made?.ok_or(Error::new(operation, Cause::Stale))
}

/// Returns the other leader's process, and the tag of messages to it.
fn find_remote<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    Leaders { local, peer, remote, tag, .. }: Leaders<'_>,
) -> Result<(PeerId, Tag), Cause> {
    let endpoint = messenger.endpoint();
    let process = endpoint.process_of(peer, remote).map_err(|error| error.cause)?;
    let group = endpoint.comm(local).group().map_err(|error| error.cause)?;
    if group.contains(process) {
        return Err(Cause::Overlap { rank: process.0 });
    }
    Ok((process, tag::of_user(tag)?))
}

/// The leaders send each other the members of their groups. Those of the other group are left
/// behind this side's entries of the scratch; their number is the result.
async fn introduce<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    link: &InterLink<'_>,
    scratch: &mut [SplitChoice],
) -> Result<u32, Error> {
    let (local, have) = (*link.local.comm(), scratch.len() as u32);
    let mut there = [0_u32];
    link.exchange_leaders(messenger, &[local.size()], &mut there).await?;
    let [there] = there;
    let need = local.size().saturating_add(there);
    let short = (need > have).then_some(Cause::TooSmall { what: Resource::Scratch, need, have });
    let (mine, mut theirs) = ([link.objection(short)], [0]);
    link.exchange_leaders(messenger, &mine, &mut theirs).await?;
    let [objection] = theirs;
    link.check_objection(objection, short)?;
    let lists = scratch.split_at_mut_checked(local.size() as usize);
    let lists = lists.and_then(|(ours, rest)| Some((ours, rest.get_mut(..there as usize)?)));
    let (ours, theirs) = lists.ok_or(Error::new(link.operation(), Cause::Stale))?;
    let endpoint = messenger.endpoint();
    let group = endpoint.comm(&local).group()?;
    for ((choice, process), rank) in ours.iter_mut().zip(group.processes()).zip((0..).map(Rank)) {
        *choice = SplitChoice::new(None, 0, rank, process);
    }
    drop(endpoint);
    link.exchange_leaders(messenger, ours, theirs).await?;
    let endpoint = messenger.endpoint();
    let group = endpoint.comm(&local).group()?;
    let both = processes(theirs).find(|&process| group.contains(process));
    both.map_or(Ok(there), |process| Err(Error::new(link.operation(), Cause::Overlap { rank: process.0 })))
}

/// A communicator of both groups (MPI_Intercomm_merge). All ranks of a group give the same `high`:
/// the ranks of the group that gives true come after those of the other; if both give the same, the
/// group whose first process is lower in the world comes first.
///
/// # Errors
/// On all ranks [`Cause::Disagreement`] if ranks of a group give different values (on the other
/// group it names one of them); [`Cause::Intracommunicator`]; else as [`super::dup`].
pub fn merge<'s, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    inter: &Comm,
    high: bool,
) -> Result<Comm, Error> {
    now(imerge(&mut Blocking(ep), inter, high))
}

/// Merges the groups like [`merge`], by a [`Messenger`].
///
/// # Errors
/// [`Cause::Disagreement`] on all ranks if ranks of a group give different values;
/// [`Cause::Intracommunicator`]; the rest as [`merge`].
pub async fn imerge<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    inter: &Comm,
    high: bool,
) -> Result<Comm, Error> {
    let link = InterLink::over(messenger, inter, Operation::Create)?;
    let mut given = [high.into(), (!high).into()];
    let agreed = link.local.agree(messenger, &mut given, |_, mine, theirs| mine | theirs).await;
    link.forward_failure(messenger, agreed)?;
    link.meet(messenger, (given == [1, 1]).then_some(Cause::Disagreement)).await?;
    let mut theirs = [0_u8];
    link.swap(messenger, &[u8::from(high)], &mut theirs).await?;
    let local = messenger.endpoint().comm(inter).group()?.process(Rank(0));
    let first = [local, messenger.endpoint().comm(inter).remote_group()?.process(Rank(0))];
    let remote_first = match (high, theirs == [1]) {
        (true, false) => true,
        (false, true) => false,
        _ => first.is_sorted_by(|local, remote| local > remote),
    };
    let members = Members::<Empty<PeerId>>::Both { inter: *inter, remote_first };
    make(messenger, &link, Ok(Some(members))).await?.ok_or(Error::new(Operation::Create, Cause::Stale))
}

/// An intercommunicator between the same groups, whose messages meet none of the old one's
/// (MPI_Comm_dup).
///
/// # Errors
/// [`Cause::Intracommunicator`]; else as [`super::dup`].
pub fn dup<'s, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    inter: &Comm,
) -> Result<Comm, Error> {
    now(idup(&mut Blocking(ep), inter))
}

/// Duplicates an intercommunicator like [`dup`], by a [`Messenger`].
///
/// # Errors
/// [`Cause::Intracommunicator`]; [`Cause::Full`] if there is no free slot in common; the rest as
/// [`dup`].
pub async fn idup<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    inter: &Comm,
) -> Result<Comm, Error> {
    let link = InterLink::over(messenger, inter, Operation::Dup)?;
    let companion = messenger.endpoint().companion(inter)?;
    let lacking = messenger.endpoint().check_attributes(inter).err();
    link.meet(messenger, lacking).await?;
    let members = [companion, *inter].map(Members::<Empty<PeerId>>::Of);
    let made = connect(messenger, &link, Some(members.into())).await?;
    let made = made.ok_or(Error::new(Operation::Dup, Cause::Stale))?;
    messenger.endpoint().copy_attributes(inter, &made);
    Ok(made)
}

/// Splits both groups: ranks of either that give the same colour are in an intercommunicator
/// together, each group in the order of its keys and, where these are equal, of its ranks. A rank
/// without a colour, or with one that no rank on the other side has given, is in none
/// (MPI_Comm_split, MPI 4.1 section 7.4.2). `scratch` has an entry for each rank of both groups.
///
/// # Errors
/// [`Cause::Intracommunicator`]; else as [`super::split()`].
pub fn split<'s, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    inter: &Comm,
    colour: Option<u32>,
    key: i32,
    scratch: &mut [SplitChoice],
) -> Result<Option<Comm>, Error> {
    now(isplit(&mut Blocking(ep), inter, colour, key, scratch))
}

/// Splits both groups like [`split`](split()), by a [`Messenger`].
///
/// # Errors
/// [`Cause::Intracommunicator`]; [`Cause::Full`] on all ranks if any has too little scratch, too
/// few pieces or no free slot in common; the rest as [`split`](split()).
pub async fn isplit<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    inter: &Comm,
    colour: Option<u32>,
    key: i32,
    scratch: &mut [SplitChoice],
) -> Result<Option<Comm>, Error> {
    let link = InterLink::over(messenger, inter, Operation::Split)?;
    let own = SplitChoice::new(colour, key, inter.rank(), messenger.endpoint().process());
    choose(messenger, &link, inter, Ok(own), scratch).await
}

/// An intercommunicator between part of each group (MPI_Comm_create of an intercommunicator,
/// MPI 4.1 section 7.4.2): `group` has processes of the local group, and all ranks of that give the
/// same. `None` for ranks that are in no part, and for all if a part is empty. `scratch` has an
/// entry for each rank of both groups.
///
/// # Errors
/// [`Cause::RankOutOfRange`] for a process that is not in the local group ([`Cause::Declined`] on
/// the other ranks); else as [`split`].
pub fn subset<'s, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    inter: &Comm,
    group: &Group<'_>,
    scratch: &mut [SplitChoice],
) -> Result<Option<Comm>, Error> {
    now(isubset(&mut Blocking(ep), inter, group, scratch))
}

/// Makes the intercommunicator of subgroups like [`subset`], by a [`Messenger`].
///
/// # Errors
/// [`Cause::RankOutOfRange`] for a process that is not in the local group ([`Cause::Declined`] on
/// the other ranks); the rest as [`subset`].
pub async fn isubset<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    inter: &Comm,
    group: &Group<'_>,
    scratch: &mut [SplitChoice],
) -> Result<Option<Comm>, Error> {
    let link = InterLink::over(messenger, inter, Operation::Create)?;
    let process = messenger.endpoint().process();
    let place = group.rank_of(process);
    let own = check_subset(&messenger.endpoint().comm(inter).group()?, group).map(|()| {
        let key = place.map_or(0, |place| place.0.cast_signed());
        SplitChoice::new(place.map(|_| 0), key, inter.rank(), process)
    });
    choose(messenger, &link, inter, own, scratch).await
}

/// Frees an intercommunicator (MPI_Comm_free): returns once every rank of both groups has called
/// this. What was sent in it and not received is dropped and counted.
///
/// # Errors
/// [`Cause::Intracommunicator`]; [`Cause::Stale`] for one that is freed; the rest as
/// [`super::free`].
pub fn free<'s, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    inter: Comm,
) -> Result<(), Error> {
    now(ifree(&mut Blocking(ep), inter))
}

/// Frees an intercommunicator like [`free`], by a [`Messenger`].
///
/// # Errors
/// [`Cause::Intracommunicator`]; [`Cause::Stale`] for one that is freed; the rest as [`free`].
pub async fn ifree<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    inter: Comm,
) -> Result<(), Error> {
    let met = InterLink::over(messenger, &inter, Operation::Free)?.meet(messenger, None).await;
    messenger.endpoint().discard(&inter)?;
    met
}

/// Makes an intercommunicator of the ranks on both sides that have chosen alike.
async fn choose<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    link: &InterLink<'_>,
    inter: &Comm,
    own: Result<SplitChoice, Cause>,
    scratch: &mut [SplitChoice],
) -> Result<Option<Comm>, Error> {
    let (have, need) = (scratch.len() as u32, inter.size().saturating_add(inter.remote_size()));
    let short = Cause::TooSmall { what: Resource::Scratch, need, have };
    let choices = scratch.get_mut(..need as usize).ok_or(short);
    let lists = choices.and_then(|choices| choices.split_at_mut_checked(inter.size() as usize).ok_or(short));
    link.meet(messenger, own.err().or(lists.as_ref().err().copied())).await?;
    let refused = |cause| Error::new(link.operation(), cause);
    let (own, (ours, theirs)) = (own.map_err(refused)?, lists.map_err(refused)?);
    let gathered = gather(messenger, &link.local, own, ours).await;
    link.forward_failure(messenger, gathered)?;
    link.swap(messenger, ours, theirs).await?;
    let (ours, theirs) = (select(ours, &own), select(theirs, &own));
    let is_in = own.is_in() && !theirs.is_empty();
    let members = (Members::These(processes(ours)), Members::These(processes(theirs)));
    connect(messenger, link, is_in.then_some(members)).await
}

/// Makes an intercommunicator of members on this side and on the other; both sides take part, also
/// ranks that will be in none.
async fn connect<'s, T, P, I, J>(
    messenger: &mut impl Messenger<'s, T, P>,
    link: &InterLink<'_>,
    members: Option<(Members<I>, Members<J>)>,
) -> Result<Option<Comm>, Error>
where
    T: Transport,
    P: Platform,
    I: Iterator<Item = PeerId> + Clone,
    J: Iterator<Item = PeerId> + Clone,
{
    let (ours, theirs) = members.unzip();
    let companion = make(messenger, &link.local, Ok(ours)).await;
    // Also if that has failed: the error is sent to the other side.
    let theirs = companion.map(|_| theirs).map_err(|error| error.cause);
    let made = make_with(messenger, link, theirs, |endpoint, slot, generation, theirs| {
        let companion = companion.ok().flatten().ok_or(Cause::Stale)?;
        endpoint.install_inter(slot, generation, &companion, theirs)
    })
    .await;
    if let (Ok(Some(companion)), Err(_)) = (&companion, &made) {
        // Gone with the intercommunicator, if that had been made.
        let _ = messenger.endpoint().discard(companion);
    }
    companion.and(made)
}
