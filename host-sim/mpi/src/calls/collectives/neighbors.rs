//! This module holds `unsafe` code: the arguments of collectives, as the program gives them.
//!
//! Neighbourhood collectives (MPI 5.0, 8.6): each rank exchanges with its neighbours in the
//! topology of the communicator.

use core::ffi::c_int;
use std::rc::Rc;

use super::blocks::RankBlocks;
use super::call::{ByteOperation, CallForm, CollectiveCall};
use super::calls::collective;
use super::pieces::{try_neighbor_allgather, try_neighbor_alltoall};
use super::{Given, given_of, taken_of};
use crate::abi::Handle;
use crate::fault::CallFault;
use crate::ffi::{Address, Ptr};
use crate::objects::communicators;

/// Sources and destinations.
fn degrees(comm: Handle) -> Result<[u32; 2], CallFault> {
    Ok(communicators::topology(comm)?.degrees())
}

/// Numbers of the program's, one a neighbour.
///
/// # Safety
/// There are so many, unless it is null.
unsafe fn numbers<T: Copy + 'static>(
    array: Ptr<T>,
    count: u32,
    number: impl Fn(T) -> i64,
) -> Result<Vec<i64>, CallFault> {
    // SAFETY: the caller's promise.
    Ok(unsafe { array.array(count as usize) }?.iter().map(number).collect())
}

/// Numbers of the program's that are `int`s, one a neighbour.
///
/// # Safety
/// As for [`numbers`].
unsafe fn ints(array: Ptr<c_int>, count: u32) -> Result<Vec<i64>, CallFault> {
    // SAFETY: the caller's promise.
    unsafe { numbers(array, count, i64::from) }
}

/// Large counts of the program's, one a neighbour.
///
/// # Safety
/// As for [`numbers`].
unsafe fn counts(array: Ptr<i64>, count: u32) -> Result<Vec<i64>, CallFault> {
    // SAFETY: the caller's promise.
    unsafe { numbers(array, count, |number| number) }
}

/// Displacements of the program's, one a neighbour.
///
/// # Safety
/// As for [`numbers`].
unsafe fn places(array: Ptr<isize>, count: u32) -> Result<Vec<i64>, CallFault> {
    // SAFETY: the caller's promise.
    unsafe { numbers(array, count, |place| place as i64) }
}

/// A gather from all sources.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
unsafe fn allgather(
    own: Given,
    blocks: impl FnOnce(u32) -> Result<RankBlocks, CallFault>,
    comm: Handle,
) -> Result<CollectiveCall, CallFault> {
    let mut call = CollectiveCall::new(comm)?;
    let topology = communicators::topology(comm)?;
    // A neighbour that is not there leaves its block as it was.
    let (there, _) = topology.presence();
    let taken = Rc::new(blocks(there.len() as u32)?.in_memory("recvbuf")?);
    let list = taken.list(&mut call);
    // SAFETY: the caller's promise.
    let data = unsafe { own.data("sendbuf") }?;
    let given = Rc::new(RankBlocks::one(own.address, data));
    given.check_neighbors_apart(&[true], &taken, &there)?;
    let input = given_of(&mut call, given, false)?;
    let bytes = taken_of(&mut call, taken, move |place| there.get(place) == Some(&true))?;
    call.what = ByteOperation::NeighborAllgather(topology, input, bytes, list);
    Ok(call)
}

fn alltoall(
    given: impl FnOnce(u32) -> Result<RankBlocks, CallFault>,
    taken: impl FnOnce(u32) -> Result<RankBlocks, CallFault>,
    comm: Handle,
) -> Result<CollectiveCall, CallFault> {
    let mut call = CollectiveCall::new(comm)?;
    let topology = communicators::topology(comm)?;
    let [sources, destinations] = degrees(comm)?;
    let (there, reached) = topology.presence();
    let given = Rc::new(given(destinations)?.in_memory("sendbuf")?);
    let taken = Rc::new(taken(sources)?.in_memory("recvbuf")?);
    given.check_neighbors_apart(&reached, &taken, &there)?;
    let (from, to) = (given.list(&mut call), taken.list(&mut call));
    let input = given_of(&mut call, given, false)?;
    let bytes = taken_of(&mut call, taken, move |place| there.get(place) == Some(&true))?;
    call.what = ByteOperation::NeighborAlltoall(topology, input, from, bytes, to);
    Ok(call)
}

/// The types of blocks.
///
/// # Safety
/// As for [`numbers`].
unsafe fn kinds(of: Ptr<Handle>, count: u32) -> Result<Vec<Handle>, CallFault> {
    // SAFETY: the caller's promise.
    Ok(unsafe { of.array(count as usize) }?.to_vec())
}

collective! {
    fn MPI_Neighbor_allgather_c, fn MPI_Ineighbor_allgather_c, fn MPI_Neighbor_allgather_init_c(
        data: Address, count: i64, datatype: Handle, into: Address, room: i64, kind: Handle, comm: Handle,
    ) on comm =>
        |form| try_neighbor_allgather(form, Given::new(data, count, datatype), Given::new(into, room, kind), comm),
        else allgather(Given { address: data, count, datatype }, |sources| RankBlocks::even(into, room, kind, sources), comm)
}
mpi! { fn MPI_Neighbor_allgather(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, comm: Handle,
) as MPI_Neighbor_allgather_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, comm) }
mpi! { fn MPI_Ineighbor_allgather(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, comm: Handle, request: Ptr<Handle>,
) as MPI_Ineighbor_allgather_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, comm, request) }
mpi! { fn MPI_Neighbor_allgather_init(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, comm: Handle, info: Handle, request: Ptr<Handle>,
) as MPI_Neighbor_allgather_init_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, comm, info, request) }

collective! {
    fn MPI_Neighbor_alltoall_c, fn MPI_Ineighbor_alltoall_c, fn MPI_Neighbor_alltoall_init_c(
        data: Address, count: i64, datatype: Handle, into: Address, room: i64, kind: Handle, comm: Handle,
    ) on comm =>
        |form| try_neighbor_alltoall(form, Given::new(data, count, datatype), Given::new(into, room, kind), comm),
        else alltoall(|destinations| RankBlocks::even(data, count, datatype, destinations), |sources| RankBlocks::even(into, room, kind, sources), comm)
}
mpi! { fn MPI_Neighbor_alltoall(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, comm: Handle,
) as MPI_Neighbor_alltoall_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, comm) }
mpi! { fn MPI_Ineighbor_alltoall(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, comm: Handle, request: Ptr<Handle>,
) as MPI_Ineighbor_alltoall_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, comm, request) }
mpi! { fn MPI_Neighbor_alltoall_init(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, comm: Handle, info: Handle, request: Ptr<Handle>,
) as MPI_Neighbor_alltoall_init_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, comm, info, request) }

collective! {
    fn MPI_Neighbor_allgatherv, fn MPI_Ineighbor_allgatherv, fn MPI_Neighbor_allgatherv_init(
        data: Address, count: c_int, datatype: Handle, into: Address, rooms: Ptr<c_int>, starts: Ptr<c_int>,
        kind: Handle, comm: Handle,
    ) on comm =>
        allgather(Given { address: data, count: count.into(), datatype }, |sources| RankBlocks::listed(into, &ints(rooms, sources)?, &ints(starts, sources)?, kind), comm)
}

collective! {
    fn MPI_Neighbor_alltoallv, fn MPI_Ineighbor_alltoallv, fn MPI_Neighbor_alltoallv_init(
        data: Address, lens: Ptr<c_int>, starts: Ptr<c_int>, datatype: Handle, into: Address,
        rooms: Ptr<c_int>, ends: Ptr<c_int>, kind: Handle, comm: Handle,
    ) on comm =>
        alltoall(|destinations| RankBlocks::listed(data, &ints(lens, destinations)?, &ints(starts, destinations)?, datatype), |sources| RankBlocks::listed(into, &ints(rooms, sources)?, &ints(ends, sources)?, kind), comm)
}

collective! {
    fn MPI_Neighbor_alltoallw, fn MPI_Ineighbor_alltoallw, fn MPI_Neighbor_alltoallw_init(
        data: Address, lens: Ptr<c_int>, starts: Ptr<isize>, of: Ptr<Handle>, into: Address,
        rooms: Ptr<c_int>, ends: Ptr<isize>, taken: Ptr<Handle>, comm: Handle,
    ) on comm =>
        alltoall(|destinations| RankBlocks::unlike(data, &ints(lens, destinations)?, &places(starts, destinations)?, &kinds(of, destinations)?), |sources| RankBlocks::unlike(into, &ints(rooms, sources)?, &places(ends, sources)?, &kinds(taken, sources)?), comm)
}

collective! {
    fn MPI_Neighbor_allgatherv_c, fn MPI_Ineighbor_allgatherv_c, fn MPI_Neighbor_allgatherv_init_c(
        data: Address, count: i64, datatype: Handle, into: Address, rooms: Ptr<i64>, starts: Ptr<isize>,
        kind: Handle, comm: Handle,
    ) on comm =>
        allgather(Given { address: data, count, datatype }, |sources| RankBlocks::listed(into, &counts(rooms, sources)?, &places(starts, sources)?, kind), comm)
}

collective! {
    fn MPI_Neighbor_alltoallv_c, fn MPI_Ineighbor_alltoallv_c, fn MPI_Neighbor_alltoallv_init_c(
        data: Address, lens: Ptr<i64>, starts: Ptr<isize>, datatype: Handle, into: Address, rooms: Ptr<i64>,
        ends: Ptr<isize>, kind: Handle, comm: Handle,
    ) on comm =>
        alltoall(|destinations| RankBlocks::listed(data, &counts(lens, destinations)?, &places(starts, destinations)?, datatype), |sources| RankBlocks::listed(into, &counts(rooms, sources)?, &places(ends, sources)?, kind), comm)
}

collective! {
    fn MPI_Neighbor_alltoallw_c, fn MPI_Ineighbor_alltoallw_c, fn MPI_Neighbor_alltoallw_init_c(
        data: Address, lens: Ptr<i64>, starts: Ptr<isize>, of: Ptr<Handle>, into: Address, rooms: Ptr<i64>,
        ends: Ptr<isize>, taken: Ptr<Handle>, comm: Handle,
    ) on comm =>
        alltoall(|destinations| RankBlocks::unlike(data, &counts(lens, destinations)?, &places(starts, destinations)?, &kinds(of, destinations)?), |sources| RankBlocks::unlike(into, &counts(rooms, sources)?, &places(ends, sources)?, &kinds(taken, sources)?), comm)
}
