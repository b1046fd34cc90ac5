//! Communicators of groups alone (MPI 5.0, 7.4.2 and 7.6.2): their members have no communicator in
//! common but the world, over which they agree. A name that the program gives, the string tag,
//! tells calls apart that are under way at a time.

use core::ffi::{c_char, c_int};

use aldis_coll::comm::inter::{self, Leaders};
use aldis_coll::comm::{self, Messenger};
use aldis_hal::PeerId;
use aldis_kernel::{Comm, Group, Rank, Tag};

use crate::abi::{
    Handle, MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_ERR_GROUP, MPI_ERR_RANK, MPI_ERR_TAG,
};
use crate::calls::communicators::{choices, let_go, made};
use crate::fault::CallFault;
use crate::ffi::Ptr;
use crate::objects::communicators::{self, rank_in};
use crate::objects::{errors, groups, info};
use crate::process::engine;

/// Bits of the tags by which communicators are made: names of groups have those with this bit,
/// numbers of the program's those without.
const NAMED: u32 = 1 << 28;

/// The tag of a creation to which the program has given a number. Numbers beyond the tags that
/// there are have those of lower ones.
///
/// # Errors
/// `MPI_ERR_TAG` for a negative number.
pub(crate) fn tag_of_number(number: c_int) -> Result<Tag, CallFault> {
    let number = u32::try_from(number).map_err(|_| CallFault::new(MPI_ERR_TAG, format!("tag {number}")))?;
    Ok(Tag(number % NAMED))
}

/// The tag of a creation to which the program has given a name: FNV-1a (Fowler, Noll, Vo), folded.
fn tag_of_name(name: &str) -> Tag {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325, step);
    // The last of all tags is the kernel's.
    Tag(NAMED | ((hash ^ hash >> 32) % u64::from(NAMED - 1)) as u32)
}

/// A group that this process is in.
fn own_group(group: Handle) -> Result<Vec<PeerId>, CallFault> {
    let processes = groups::processes(group)?;
    let me = engine::with(|engine| Ok(engine.endpoint().process()))?;
    if !processes.is_empty() && !processes.contains(&me) {
        return Err(CallFault::new(MPI_ERR_GROUP, "a group without the process that calls"));
    }
    Ok(processes)
}

/// A communicator of these processes, which all do the same.
async fn of_processes(
    poster: &mut crate::process::poster::Poster,
    processes: &[PeerId],
    tag: Tag,
) -> Result<Comm, CallFault> {
    let world = poster.endpoint().world();
    let mut memory = groups::pieces(processes.len());
    Ok(comm::icreate_group(poster, &world, &Group::of(processes, &mut memory)?, tag).await?)
}

/// Makes a communicator of a group; none of an empty one.
fn from_group(group: Handle, name: Ptr<c_char>, hints: Handle, handler: Handle) -> Result<Handle, CallFault> {
    let (tag, hints) = (tag_of_name(&name.text()?), info::of_communicator(hints)?);
    let processes = own_group(group)?;
    if processes.is_empty() {
        return Ok(MPI_COMM_NULL);
    }
    let made = made(MPI_COMM_WORLD, async move |poster, _| of_processes(poster, &processes, tag).await)?;
    communicators::insert_alone(made, handler, hints, groups::session_of(group))
}

/// A group of the two of an intercommunicator: its processes, and the one that leads it.
struct GroupSide {
    processes: Vec<PeerId>,
    leader: Rank,
}

impl GroupSide {
    fn new(processes: Vec<PeerId>, leader: c_int) -> Result<Self, CallFault> {
        let leader = rank_in(leader, processes.len() as u32, MPI_ERR_RANK)?;
        Ok(Self { processes, leader })
    }
}

/// Makes an intercommunicator of two groups, by way of a communicator of the local one.
fn from_groups(sides: [GroupSide; 2], name: &str) -> Result<Comm, CallFault> {
    let [local, remote] = sides;
    let tags = [tag_of_name(name), tag_of_name(&format!("{name} between groups"))];
    let leader = remote.processes.get(remote.leader.0 as usize).copied().unwrap_or(PeerId(0));
    let (made, own) = made(MPI_COMM_WORLD, async move |poster, world| {
        let own = of_processes(poster, &local.processes, tags[0]).await?;
        let mut scratch = choices(&world);
        let (remote, tag) = (Rank(leader.0), tags[1]);
        let leaders = Leaders { local: &own, leader: local.leader, peer: &world, remote, tag };
        let made = inter::icreate(poster, leaders, &mut scratch).await;
        Ok((made, own))
    })?;
    let_go(own)?;
    Ok(made?)
}

mpi! { fn MPI_Comm_create_from_group(group: Handle, name: Ptr<c_char>, hints: Handle, handler: Handle, new: Ptr<Handle>) -> c_int {
    let made = new
        .set(MPI_COMM_NULL)
        .and_then(|()| errors::check_handler(handler))
        .and_then(|handler| from_group(group, name, hints, handler))
        .and_then(|made| new.set(made));
    errors::ended("MPI_Comm_create_from_group", MPI_COMM_SELF, handler, made)
} }

mpi! { fn MPI_Intercomm_create_from_groups(local: Handle, leader: c_int, remote: Handle, remote_leader: c_int, name: Ptr<c_char>, hints: Handle, handler: Handle, new: Ptr<Handle>) -> c_int {
    let make = || {
        new.set(MPI_COMM_NULL)?;
        let (handler, hints) = (errors::check_handler(handler)?, info::of_communicator(hints)?);
        let session = groups::session_of(local);
        let local = GroupSide::new(own_group(local)?, leader)?;
        let remote = GroupSide::new(groups::processes(remote)?, remote_leader)?;
        let made = from_groups([local, remote], &name.text()?)?;
        new.set(communicators::insert_alone(made, handler, hints, session)?)
    };
    errors::ended("MPI_Intercomm_create_from_groups", MPI_COMM_SELF, handler, make())
} }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_have_tags_of_their_own_below_the_last() {
        for name in ["", "a", "b", "org.mpi-forum.mpi-v4_0.example-ex10_8", "grün"] {
            let tag = tag_of_name(name);
            assert!((NAMED..2 * NAMED - 1).contains(&tag.0), "{name}: {tag:?}");
            assert_eq!(tag, tag_of_name(name));
        }
        assert_ne!(tag_of_name("a"), tag_of_name("b"));
        for number in [0, 1, c_int::MAX] {
            assert!(tag_of_number(number).expect("a tag").0 < NAMED);
        }
        assert!(tag_of_number(-1).is_err());
    }
}
