//! This module holds `unsafe` code: lists that the program gives.
//!
//! Groups (MPI 5.0, 7.3).

use core::ffi::c_int;

use aldis_hal::Cause;
use aldis_kernel::{Group, GroupPiece, Rank, RankRange};

use crate::abi::{
    Handle, MPI_COMM_SELF, MPI_ERR_ARG, MPI_ERR_RANK, MPI_GROUP_NULL, MPI_PROC_NULL, MPI_UNDEFINED,
};
use crate::fault::CallFault;
use crate::ffi::Ptr;
use crate::objects::groups::{
    Processes, free, insert, name_of, of_number, pieces, processes, session_of, with,
};
use crate::process::engine;
use crate::process::handles::to_int;

/// Makes a group of two.
fn combine(
    one: Handle,
    other: Handle,
    made: Ptr<Handle>,
    combine: impl for<'m> FnOnce(&Group<'_>, &Group<'_>, &'m mut [GroupPiece]) -> Result<Group<'m>, Cause>,
) -> Result<(), CallFault> {
    let processes = with(one, |one| {
        with(other, |other| {
            let mut memory = pieces((one.size() + other.size()) as usize);
            Ok(combine(one, other, &mut memory)?.processes().collect::<Processes>())
        })
    })?;
    made.set(insert(processes, session_of(one))?)
}

/// Makes a group of one.
fn derive(
    group: Handle,
    made: Ptr<Handle>,
    derive: impl for<'m> FnOnce(&Group<'_>, &'m mut [GroupPiece]) -> Result<Group<'m>, Cause>,
) -> Result<(), CallFault> {
    let processes = with(group, |group| {
        let mut memory = pieces(group.size() as usize);
        Ok(derive(group, &mut memory)?.processes().collect::<Processes>())
    })?;
    made.set(insert(processes, session_of(group))?)
}

/// A rank, as far as it can be one.
fn rank(number: c_int) -> Result<Rank, CallFault> {
    match u32::try_from(number) {
        Ok(rank) => Ok(Rank(rank)),
        Err(_) => Err(CallFault::new(MPI_ERR_RANK, format!("{number} is no rank of a group"))),
    }
}

/// The count of a list's elements.
fn many(count: c_int, what: &str) -> Result<usize, CallFault> {
    usize::try_from(count).map_err(|_| CallFault::new(MPI_ERR_ARG, format!("{count} {what}")))
}

/// A list of ranks.
///
/// # Safety
/// There are so many, unless it is null.
unsafe fn ranks(count: c_int, list: Ptr<c_int>) -> Result<Vec<Rank>, CallFault> {
    let count = many(count, "ranks")?;
    // SAFETY: the caller's promise.
    unsafe { list.array(count) }?.iter().map(rank).collect()
}

/// A list of ranges, of three numbers each.
///
/// # Safety
/// There are so many, unless it is null.
unsafe fn ranges(count: c_int, list: Ptr<c_int>) -> Result<Vec<RankRange>, CallFault> {
    let count = many(count, "ranges")?;
    // SAFETY: the caller's promise.
    let list = unsafe { list.array(3 * count) }?.to_vec();
    let (ranges, _) = list.as_chunks::<3>();
    ranges
        .iter()
        .map(|&[first, last, stride]| Ok(RankRange { first: rank(first)?, last: rank(last)?, stride }))
        .collect()
}

mpi! { fn MPI_Group_size(group: Handle, size: Ptr<c_int>) on MPI_COMM_SELF => {
    size.set(processes(group)?.len() as c_int)?;
} }

mpi! { fn MPI_Group_rank(group: Handle, rank: Ptr<c_int>) on MPI_COMM_SELF => {
    let me = engine::with(|engine| Ok(engine.endpoint().process()))?;
    let place = processes(group)?.iter().position(|process| *process == me);
    rank.set(place.map_or(MPI_UNDEFINED, |place| place as c_int))?;
} }

mpi! { fn MPI_Group_compare(one: Handle, other: Handle, result: Ptr<c_int>) on MPI_COMM_SELF => {
    let comparison = with(one, |one| with(other, |other| Ok(one.compare(other))))?;
    result.set(name_of(comparison))?;
} }

mpi! { fn MPI_Group_translate_ranks(one: Handle, count: c_int, given: Ptr<c_int>, other: Handle, found: Ptr<c_int>) on MPI_COMM_SELF => {
    let (one, other) = (processes(one)?, processes(other)?);
    let count = many(count, "ranks")?;
    // SAFETY: the program gives so many, and room for as many (MPI 5.0, 7.3.1).
    let (given, found) = unsafe { (given.array(count)?, found.array(count)?) };
    for (index, number) in given.iter().enumerate() {
        found.set(index, match number {
            MPI_PROC_NULL => MPI_PROC_NULL,
            number => {
                let outside = || CallFault::new(MPI_ERR_RANK, format!("rank {number} of {}", one.len()));
                let process = one.get(rank(number)?.0 as usize).ok_or_else(outside)?;
                other.iter().position(|known| known == process).map_or(MPI_UNDEFINED, |place| place as c_int)
            }
        });
    }
} }

mpi! { fn MPI_Group_union(one: Handle, other: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    combine(one, other, made, |one, other, memory| one.union(other, memory))?;
} }

mpi! { fn MPI_Group_intersection(one: Handle, other: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    combine(one, other, made, |one, other, memory| one.intersection(other, memory))?;
} }

mpi! { fn MPI_Group_difference(one: Handle, other: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    combine(one, other, made, |one, other, memory| one.difference(other, memory))?;
} }

mpi! { fn MPI_Group_incl(group: Handle, count: c_int, list: Ptr<c_int>, made: Ptr<Handle>) on MPI_COMM_SELF => {
    made.check_place()?;
    // SAFETY: the program gives so many (MPI 5.0, 7.3.2).
    let ranks = unsafe { ranks(count, list) }?;
    derive(group, made, |group, memory| group.incl(&ranks, memory))?;
} }

mpi! { fn MPI_Group_excl(group: Handle, count: c_int, list: Ptr<c_int>, made: Ptr<Handle>) on MPI_COMM_SELF => {
    made.check_place()?;
    // SAFETY: the program gives so many (MPI 5.0, 7.3.2).
    let ranks = unsafe { ranks(count, list) }?;
    derive(group, made, |group, memory| group.excl(&ranks, memory))?;
} }

mpi! { fn MPI_Group_range_incl(group: Handle, count: c_int, list: Ptr<c_int>, made: Ptr<Handle>) on MPI_COMM_SELF => {
    made.check_place()?;
    // SAFETY: the program gives so many (MPI 5.0, 7.3.2).
    let ranges = unsafe { ranges(count, list) }?;
    derive(group, made, |group, memory| group.range_incl(&ranges, memory))?;
} }

mpi! { fn MPI_Group_range_excl(group: Handle, count: c_int, list: Ptr<c_int>, made: Ptr<Handle>) on MPI_COMM_SELF => {
    made.check_place()?;
    // SAFETY: the program gives so many (MPI 5.0, 7.3.2).
    let ranges = unsafe { ranges(count, list) }?;
    derive(group, made, |group, memory| group.range_excl(&ranges, memory))?;
} }

mpi! { fn MPI_Group_free(group: Ptr<Handle>) on MPI_COMM_SELF => {
    free(group.get()?)?;
    group.set(MPI_GROUP_NULL)?;
} }

mpi! { fn MPI_Group_toint(group: Handle) -> c_int { to_int(group) } }

mpi! { fn MPI_Group_fromint(number: c_int) -> Handle { of_number(number) } }
