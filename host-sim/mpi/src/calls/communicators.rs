//! Communicators (MPI 5.0, chapter 7): making, freeing and asking about them.

use core::ffi::{c_char, c_int};
use core::future::Future;

use aldis_coll::comm::inter::{self, Leaders};
use aldis_coll::comm::{self, Messenger, SplitChoice};
use aldis_hal::{Cause, PeerId};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Group, Rank};

use crate::abi::{
    Handle, MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_HW_UNGUIDED,
    MPI_COMM_TYPE_RESOURCE_GUIDED, MPI_COMM_TYPE_SHARED, MPI_COMM_WORLD, MPI_ERR_ARG, MPI_ERR_COMM,
    MPI_ERR_RANK, MPI_MAX_OBJECT_NAME, MPI_UNDEFINED,
};
use crate::calls::from_groups::tag_of_number;
use crate::fault::CallFault;
use crate::ffi::Ptr;
use crate::objects::attributes::{self, ObjectKind};
use crate::objects::communicators::{
    change, check, insert, insert_if, insert_with, of, of_number, rank_in, remove, session_of,
};
use crate::objects::freed_comms::{self, OwnComm};
use crate::objects::groups;
use crate::objects::info::{self, Info};
use crate::process::engine::{self, ProcessEngine};
use crate::process::handles::to_int;
use crate::process::poster::{Poster, poster};
use crate::requests::{self, buffers, futures};

/// Scratch for a choice of every rank of both groups.
pub(crate) fn choices(comm: &Comm) -> Vec<SplitChoice> {
    vec![SplitChoice::NONE; comm.size() as usize + comm.remote_size() as usize]
}

/// The creation of a duplicate, with these hints or those of the parent.
fn duplicate(
    parent: Handle,
    hints: Option<Info>,
) -> Result<impl Future<Output = Result<Handle, CallFault>> + 'static, CallFault> {
    freed_comms::release(requests::communicators);
    let comm = of(parent)?;
    let (given, topology, own) =
        change(parent, |data| (data.attributes.clone(), data.topology.clone(), data.info.clone()))?;
    let copies = attributes::copied(ObjectKind::Comm, parent, &given)?;
    let mut poster = poster()?;
    Ok(async move {
        let made = match topology {
            Some(topology) => {
                let (made, topology) = topology.duplicate(&mut poster, &comm).await?;
                insert_with(made, parent, topology)?
            }
            None if comm.is_inter() => insert(inter::idup(&mut poster, &comm).await?, parent)?,
            None => insert(comm::idup(&mut poster, &comm).await?, parent)?,
        };
        change(made, |data| (data.attributes, data.info) = (copies, hints.unwrap_or(own)))?;
        Ok(made)
    })
}

/// Makes one, for a call that waits.
pub(crate) fn made<R: 'static>(
    parent: Handle,
    make: impl AsyncFnOnce(&mut Poster, Comm) -> Result<R, CallFault> + 'static,
) -> Result<R, CallFault> {
    freed_comms::release(requests::communicators);
    let (comm, mut poster) = (of(parent)?, poster()?);
    futures::complete(parent, async move { make(&mut poster, comm).await })
}

/// A copy of a communicator for one collective, which is started there again and again by control
/// slots; `None` if none is to be had on any rank. A program's communicators find slots as well: of
/// those that there are for several the last ones are theirs.
pub(crate) fn dedicated(parent: Handle) -> Result<Option<OwnComm>, CallFault> {
    let has_slots = |comm: &Comm| {
        engine::with(|engine| {
            Ok(engine.endpoint().control_slots(comm).is_ok_and(|slots| slots.sets_behind() > 0))
        })
    };
    if !has_slots(&of(parent)?)? {
        return Ok(None);
    }
    let copy = made(parent, async move |poster, of| Ok(comm::idup(poster, &of).await))?;
    match copy {
        Ok(copy) => Ok(Some(OwnComm(copy)).filter(|copy| has_slots(&copy.0).unwrap_or(false))),
        Err(error) if matches!(error.cause, Cause::Full(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A communicator that can be freed.
fn to_be_freed(handle: Ptr<Handle>) -> Result<Handle, CallFault> {
    let own = handle.get()?;
    check(own)?;
    if matches!(own, MPI_COMM_WORLD | MPI_COMM_SELF) {
        return Err(CallFault::new(MPI_ERR_COMM, "MPI_COMM_WORLD and MPI_COMM_SELF cannot be freed"));
    }
    Ok(own)
}

/// Frees a communicator's handle, and leaves the communicator to what uses it. No rank waits for
/// another.
fn free(handle: Ptr<Handle>) -> Result<(), CallFault> {
    let own = to_be_freed(handle)?;
    let mut attributes = change(own, |data| core::mem::take(&mut data.attributes))?;
    let deleted = attributes::deleted(ObjectKind::Comm, own, &mut attributes);
    change(own, |data| data.attributes.append(&mut attributes))?;
    deleted?;
    buffers::forget(own)?;
    remove(own)?;
    freed_comms::release(requests::communicators);
    handle.set(MPI_COMM_NULL)
}

/// Frees a communicator of the library's own, which the program has never seen.
pub(crate) fn let_go(comm: Comm) -> Result<(), CallFault> {
    remove(insert(comm, MPI_COMM_SELF)?)?;
    freed_comms::release(requests::communicators);
    Ok(())
}

/// Returns true if a process is on this one's node.
fn is_near(engine: &mut ProcessEngine, process: PeerId) -> bool {
    let explained = engine.endpoint().explain(Rank(process.0), 8);
    explained.is_ok_and(|explained| explained.transport() != Some("tcp"))
}

mpi! { fn MPI_Comm_rank(comm: Handle, rank: Ptr<c_int>) on comm => { rank.set(of(comm)?.rank().0 as c_int)?; } }

mpi! { fn MPI_Comm_size(comm: Handle, size: Ptr<c_int>) on comm => { size.set(of(comm)?.size() as c_int)?; } }

mpi! { fn MPI_Comm_remote_size(comm: Handle, size: Ptr<c_int>) on comm => {
    size.check_place()?;
    let of = of(comm)?;
    if !of.is_inter() { return Err(CallFault::new(MPI_ERR_COMM, "not an intercommunicator")); }
    size.set(of.remote_size() as c_int)?;
} }

mpi! { fn MPI_Comm_test_inter(comm: Handle, flag: Ptr<c_int>) on comm => { flag.set(of(comm)?.is_inter().into())?; } }

mpi! { fn MPI_Comm_compare(one: Handle, other: Handle, result: Ptr<c_int>) on one => {
    let (first, second) = (of(one)?, of(other)?);
    let comparison = engine::with(|engine| Ok(engine.endpoint().comm(&first).compare(&second)?))?;
    result.set(groups::name_of(comparison))?;
} }

mpi! { fn MPI_Comm_group(comm: Handle, group: Ptr<Handle>) on comm => {
    let of = of(comm)?;
    let processes = engine::with(|engine| Ok(engine.endpoint().comm(&of).group()?.processes().collect()))?;
    group.set(groups::insert(processes, session_of(comm))?)?;
} }

mpi! { fn MPI_Comm_remote_group(comm: Handle, group: Ptr<Handle>) on comm => {
    group.check_place()?;
    let of = of(comm)?;
    let processes = engine::with(|engine| Ok(engine.endpoint().comm(&of).remote_group()?.processes().collect()))?;
    group.set(groups::insert(processes, session_of(comm))?)?;
} }

mpi! { fn MPI_Comm_dup(comm: Handle, made: Ptr<Handle>) on comm => {
    made.set(MPI_COMM_NULL)?;
    made.set(futures::complete(comm, duplicate(comm, None)?)?)?;
} }

mpi! { fn MPI_Comm_dup_with_info(comm: Handle, hints: Handle, made: Ptr<Handle>) on comm => {
    made.set(MPI_COMM_NULL)?;
    made.set(futures::complete(comm, duplicate(comm, Some(info::of_communicator(hints)?))?)?)?;
} }

mpi! { fn MPI_Comm_idup(comm: Handle, made: Ptr<Handle>, request: Ptr<Handle>) on comm => {
    made.set(MPI_COMM_NULL)?;
    request.check_place()?;
    let copy = duplicate(comm, None)?;
    request.set(futures::begin(comm, async move { made.set(copy.await?) })?)?;
} }

mpi! { fn MPI_Comm_idup_with_info(comm: Handle, hints: Handle, made: Ptr<Handle>, request: Ptr<Handle>) on comm => {
    made.set(MPI_COMM_NULL)?;
    request.check_place()?;
    let copy = duplicate(comm, Some(info::of_communicator(hints)?))?;
    request.set(futures::begin(comm, async move { made.set(copy.await?) })?)?;
} }

mpi! { fn MPI_Comm_create(comm: Handle, group: Handle, new: Ptr<Handle>) on comm => {
    new.set(MPI_COMM_NULL)?;
    let processes = groups::processes(group)?;
    let created = made(comm, async move |poster, of| {
        let mut memory = groups::pieces(processes.len());
        let group = Group::of(&processes, &mut memory)?;
        Ok(match of.is_inter() {
            true => inter::isubset(poster, &of, &group, &mut choices(&of)).await?,
            false => comm::icreate(poster, &of, &group).await?,
        })
    })?;
    new.set(insert_if(created, comm)?)?;
} }

mpi! { fn MPI_Comm_create_group(comm: Handle, group: Handle, tag: c_int, new: Ptr<Handle>) on comm => {
    new.set(MPI_COMM_NULL)?;
    let tag = tag_of_number(tag)?;
    let processes = groups::processes(group)?;
    let me = engine::with(|engine| Ok(engine.endpoint().process()))?;
    if !processes.contains(&me) {
        check(comm)?;
        return new.set(MPI_COMM_NULL);
    }
    let created = made(comm, async move |poster, of| {
        let mut memory = groups::pieces(processes.len());
        let group = Group::of(&processes, &mut memory)?;
        Ok(comm::icreate_group(poster, &of, &group, tag).await?)
    })?;
    new.set(insert(created, comm)?)?;
} }

mpi! { fn MPI_Comm_split(comm: Handle, colour: c_int, key: c_int, new: Ptr<Handle>) on comm => {
    new.set(MPI_COMM_NULL)?;
    let colour = match colour {
        MPI_UNDEFINED => None,
        colour => Some(u32::try_from(colour).map_err(|_| CallFault::new(MPI_ERR_ARG, format!("colour {colour}")))?),
    };
    let created = made(comm, async move |poster, of| {
        let mut scratch = choices(&of);
        Ok(match of.is_inter() {
            true => inter::isplit(poster, &of, colour, key, &mut scratch).await?,
            false => comm::isplit(poster, &of, colour, key, &mut scratch).await?,
        })
    })?;
    new.set(insert_if(created, comm)?)?;
} }

/// Returns true if a type of split asks for the ranks that share memory, the one kind of resource
/// that is known here; with any other no process gets a communicator (MPI 5.0, 7.4.2: its name may
/// be in `info`, and there may be nothing smaller).
fn is_by_memory(kind: c_int, info: Handle) -> Result<bool, CallFault> {
    info::check(info)?;
    match kind {
        MPI_COMM_TYPE_SHARED => Ok(true),
        MPI_COMM_TYPE_HW_GUIDED | MPI_COMM_TYPE_RESOURCE_GUIDED => {
            let asked = |(key, value): &(String, String)| {
                key == "mpi_hw_resource_type" && value == "mpi_shared_memory"
            };
            Ok(info::of(info)?.iter().any(asked))
        }
        MPI_COMM_TYPE_HW_UNGUIDED | MPI_UNDEFINED => Ok(false),
        _ => Err(CallFault::new(MPI_ERR_ARG, format!("split type {kind}"))),
    }
}

mpi! { fn MPI_Comm_split_type(comm: Handle, kind: c_int, key: c_int, info: Handle, new: Ptr<Handle>) on comm => {
    new.set(MPI_COMM_NULL)?;
    let is_by_memory = is_by_memory(kind, info)?;
    let near: Vec<bool> = engine::with(|engine| {
        let world = engine.endpoint().world().size();
        Ok((0..world).map(|process| is_by_memory && is_near(engine, PeerId(process))).collect())
    })?;
    let created = made(comm, async move |poster, of| {
        let mut scratch = choices(&of);
        if of.is_inter() {
            // A node is named by the first of its processes.
            let first = near.iter().position(|is_near| *is_near).map(|process| process as u32);
            return Ok(inter::isplit(poster, &of, first, key, &mut scratch).await?);
        }
        if !is_by_memory {
            return Ok(comm::isplit(poster, &of, None, key, &mut scratch).await?);
        }
        let shares = |process: PeerId| near.get(process.0 as usize).copied().unwrap_or(false);
        Ok(comm::isplit_type(poster, &of, key, shares, &mut scratch).await?)
    })?;
    new.set(insert_if(created, comm)?)?;
} }

mpi! { fn MPI_Intercomm_create(local: Handle, leader: c_int, peer: Handle, remote: c_int, tag: c_int, new: Ptr<Handle>) on local => {
    new.set(MPI_COMM_NULL)?;
    let own = of(local)?;
    let leader = rank_in(leader, own.size(), MPI_ERR_RANK)?;
    let is_leader = own.rank() == leader;
    let peer_comm = if is_leader { of(peer)? } else { own };
    let remote = if is_leader { rank_in(remote, peer_comm.size(), MPI_ERR_RANK)? } else { Rank(0) };
    let tag = tag_of_number(tag)?;
    let created = made(local, async move |poster, own| {
        let world = poster.endpoint().world();
        let mut scratch = choices(&world);
        let leaders = Leaders { local: &own, leader, peer: &peer_comm, remote, tag };
        Ok(inter::icreate(poster, leaders, &mut scratch).await?)
    })?;
    new.set(insert(created, local)?)?;
} }

mpi! { fn MPI_Intercomm_merge(comm: Handle, high: c_int, new: Ptr<Handle>) on comm => {
    new.set(MPI_COMM_NULL)?;
    let merged = made(comm, async move |poster, of| Ok(inter::imerge(poster, &of, high != 0).await?))?;
    new.set(insert(merged, comm)?)?;
} }

mpi! { fn MPI_Comm_free(comm: Ptr<Handle>) on comm.get().unwrap_or(MPI_COMM_NULL) => { free(comm)?; } }

mpi! { fn MPI_Comm_disconnect(comm: Ptr<Handle>) on comm.get().unwrap_or(MPI_COMM_NULL) => {
    let own = to_be_freed(comm)?;
    buffers::flush_of(own)?;
    futures::complete(MPI_COMM_SELF, futures::until(move || requests::are_over_on(own)))?;
    free(comm)?;
} }

mpi! { fn MPI_Comm_get_parent(parent: Ptr<Handle>) on MPI_COMM_SELF => { parent.set(MPI_COMM_NULL)?; } }

mpi! { fn MPI_Comm_set_name(comm: Handle, name: Ptr<c_char>) on comm => {
    let name = name.text()?;
    change(comm, |data| data.name = name)?;
} }

mpi! { fn MPI_Comm_get_name(comm: Handle, name: Ptr<c_char>, len: Ptr<c_int>) on comm => {
    let known = match comm {
        MPI_COMM_NULL => "MPI_COMM_NULL".to_owned(),
        comm => change(comm, |data| data.name.clone())?,
    };
    len.set(name.set_text(&known, MPI_MAX_OBJECT_NAME as usize)? as c_int)?;
} }

mpi! { fn MPI_Comm_set_info(comm: Handle, hints: Handle) on comm => {
    let hints = info::of_communicator(hints)?;
    change(comm, |data| data.info = hints)?;
} }

mpi! { fn MPI_Comm_get_info(comm: Handle, hints: Ptr<Handle>) on comm => {
    let copy = change(comm, |data| data.info.clone())?;
    hints.set(info::insert(copy)?)?;
} }

mpi! { fn MPI_Comm_toint(comm: Handle) -> c_int { to_int(comm) } }

mpi! { fn MPI_Comm_fromint(number: c_int) -> Handle { of_number(number) } }
