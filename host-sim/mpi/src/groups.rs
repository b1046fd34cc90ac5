//! This module holds `unsafe` code: lists that the program gives; state of the process.
//!
//! Groups (MPI 5.0, 7.3): processes by their numbers in the job; what is made of them is the
//! kernel's.

use core::cell::RefCell;
use core::ffi::c_int;

use aldis_hal::{Cause, PeerId};
use aldis_kernel::{Comparison, Group, Piece, Rank, RankRange};

use crate::abi::{
    Handle, MPI_COMM_SELF, MPI_CONGRUENT, MPI_ERR_ARG, MPI_ERR_GROUP, MPI_ERR_NO_MEM, MPI_ERR_RANK,
    MPI_GROUP_EMPTY, MPI_GROUP_NULL, MPI_IDENT, MPI_PROC_NULL, MPI_SIMILAR, MPI_UNDEFINED, MPI_UNEQUAL,
};
use crate::fault::Fault;
use crate::ffi::Ptr;
use crate::process::handles::{Kind, Table, to_int};
use crate::process::{Owned, engine};

type Processes = Vec<PeerId>;

// SAFETY: only calls of MPI use it.
static GROUPS: Owned<RefCell<Table<Processes>>> =
    unsafe { Owned::new(RefCell::new(Table::new(Kind::Group))) };

/// Memory that a group is put together in.
pub(crate) fn pieces(processes: usize) -> Vec<Piece> {
    vec![Piece::NONE; processes]
}

/// A new group.
pub(crate) fn insert(processes: Processes) -> Result<Handle, Fault> {
    if processes.is_empty() {
        return Ok(MPI_GROUP_EMPTY);
    }
    GROUPS.borrow_mut().insert(processes).ok_or_else(|| Fault::new(MPI_ERR_NO_MEM, "too many groups"))
}

/// The processes of a group.
pub(crate) fn processes(group: Handle) -> Result<Processes, Fault> {
    if group == MPI_GROUP_EMPTY {
        return Ok(Processes::new());
    }
    GROUPS.borrow().get(group).cloned().ok_or_else(|| Fault::handle(MPI_ERR_GROUP, "group", group))
}

/// Works with a group.
pub(crate) fn with<R>(group: Handle, work: impl FnOnce(&Group<'_>) -> Result<R, Fault>) -> Result<R, Fault> {
    let processes = processes(group)?;
    work(&Group::of(&processes, &mut pieces(processes.len()))?)
}

/// Makes a group of two.
fn combine(
    one: Handle,
    other: Handle,
    made: Ptr<Handle>,
    combine: impl for<'m> FnOnce(&Group<'_>, &Group<'_>, &'m mut [Piece]) -> Result<Group<'m>, Cause>,
) -> Result<(), Fault> {
    let processes = with(one, |one| {
        with(other, |other| {
            let mut memory = pieces((one.size() + other.size()) as usize);
            Ok(combine(one, other, &mut memory)?.processes().collect::<Processes>())
        })
    })?;
    made.set(insert(processes)?)
}

/// Makes a group of one.
fn derive(
    group: Handle,
    made: Ptr<Handle>,
    derive: impl for<'m> FnOnce(&Group<'_>, &'m mut [Piece]) -> Result<Group<'m>, Cause>,
) -> Result<(), Fault> {
    let processes = with(group, |group| {
        let mut memory = pieces(group.size() as usize);
        Ok(derive(group, &mut memory)?.processes().collect::<Processes>())
    })?;
    made.set(insert(processes)?)
}

/// Returns MPI's constant for a comparison.
pub(crate) const fn name_of(comparison: Comparison) -> c_int {
    match comparison {
        Comparison::Identical => MPI_IDENT,
        Comparison::Congruent => MPI_CONGRUENT,
        Comparison::Similar => MPI_SIMILAR,
        Comparison::Unequal => MPI_UNEQUAL,
    }
}

/// A rank, as far as it can be one.
fn rank(number: c_int) -> Result<Rank, Fault> {
    match u32::try_from(number) {
        Ok(rank) => Ok(Rank(rank)),
        Err(_) => Err(Fault::new(MPI_ERR_RANK, format!("{number} is no rank of a group"))),
    }
}

/// The count of a list's elements.
fn many(count: c_int, what: &str) -> Result<usize, Fault> {
    usize::try_from(count).map_err(|_| Fault::new(MPI_ERR_ARG, format!("{count} {what}")))
}

/// A list of ranks.
///
/// # Safety
/// There are so many, unless it is null.
unsafe fn ranks(count: c_int, list: Ptr<c_int>) -> Result<Vec<Rank>, Fault> {
    let count = many(count, "ranks")?;
    // SAFETY: the caller's promise.
    unsafe { list.array(count) }?.iter().map(rank).collect()
}

/// A list of ranges, of three numbers each.
///
/// # Safety
/// There are so many, unless it is null.
unsafe fn ranges(count: c_int, list: Ptr<c_int>) -> Result<Vec<RankRange>, Fault> {
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
                let outside = || Fault::new(MPI_ERR_RANK, format!("rank {number} of {}", one.len()));
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
    // SAFETY: the program gives so many (MPI 5.0, 7.3.2).
    let ranks = unsafe { ranks(count, list) }?;
    derive(group, made, |group, memory| group.incl(&ranks, memory))?;
} }

mpi! { fn MPI_Group_excl(group: Handle, count: c_int, list: Ptr<c_int>, made: Ptr<Handle>) on MPI_COMM_SELF => {
    // SAFETY: the program gives so many (MPI 5.0, 7.3.2).
    let ranks = unsafe { ranks(count, list) }?;
    derive(group, made, |group, memory| group.excl(&ranks, memory))?;
} }

mpi! { fn MPI_Group_range_incl(group: Handle, count: c_int, list: Ptr<c_int>, made: Ptr<Handle>) on MPI_COMM_SELF => {
    // SAFETY: the program gives so many (MPI 5.0, 7.3.2).
    let ranges = unsafe { ranges(count, list) }?;
    derive(group, made, |group, memory| group.range_incl(&ranges, memory))?;
} }

mpi! { fn MPI_Group_range_excl(group: Handle, count: c_int, list: Ptr<c_int>, made: Ptr<Handle>) on MPI_COMM_SELF => {
    // SAFETY: the program gives so many (MPI 5.0, 7.3.2).
    let ranges = unsafe { ranges(count, list) }?;
    derive(group, made, |group, memory| group.range_excl(&ranges, memory))?;
} }

mpi! { fn MPI_Group_free(group: Ptr<Handle>) on MPI_COMM_SELF => {
    let handle = group.get()?;
    if handle != MPI_GROUP_EMPTY {
        let freed = GROUPS.borrow_mut().remove(handle);
        freed.ok_or_else(|| Fault::handle(MPI_ERR_GROUP, "group", handle))?;
    }
    group.set(MPI_GROUP_NULL)?;
} }

mpi! { fn MPI_Group_toint(group: Handle) -> c_int { to_int(group) } }
mpi! { fn MPI_Group_fromint(number: c_int) -> Handle { GROUPS.borrow().handle_of(number) } }
