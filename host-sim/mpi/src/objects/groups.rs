//! This module holds `unsafe` code: state of the process.
//!
//! Groups (MPI 5.0, 7.3): processes by their numbers in the job; what is made of them is the
//! kernel's.

use core::cell::RefCell;
use core::ffi::c_int;

use aldis_hal::PeerId;
use aldis_kernel::{Comparison, Group, GroupPiece};

use crate::abi::{
    Handle, MPI_CONGRUENT, MPI_ERR_GROUP, MPI_ERR_NO_MEM, MPI_GROUP_EMPTY, MPI_IDENT, MPI_SESSION_NULL,
    MPI_SIMILAR, MPI_UNEQUAL,
};
use crate::fault::CallFault;
use crate::process::Owned;
use crate::process::handles::{HandleKind, HandleTable};

pub(crate) type Processes = Vec<PeerId>;

/// A group of the program's.
struct KnownGroup {
    processes: Processes,
    /// The session that it is derived from; none of the World Model.
    session: Handle,
}

// SAFETY: only calls of MPI use it.
static GROUPS: Owned<RefCell<HandleTable<KnownGroup>>> =
    unsafe { Owned::new(RefCell::new(HandleTable::new(HandleKind::Group))) };

/// Memory that a group is put together in.
pub(crate) fn pieces(processes: usize) -> Vec<GroupPiece> {
    vec![GroupPiece::NONE; processes]
}

/// A new group, derived from a session, or from none.
pub(crate) fn insert(processes: Processes, session: Handle) -> Result<Handle, CallFault> {
    if processes.is_empty() {
        return Ok(MPI_GROUP_EMPTY);
    }
    let made = GROUPS.borrow_mut().insert(KnownGroup { processes, session });
    made.ok_or_else(|| CallFault::new(MPI_ERR_NO_MEM, "too many groups"))
}

/// The session that a group is derived from, `MPI_SESSION_NULL` for one of the World Model.
pub(crate) fn session_of(group: Handle) -> Handle {
    GROUPS.borrow().get(group).map_or(MPI_SESSION_NULL, |group| group.session)
}

/// The processes of a group.
pub(crate) fn processes(group: Handle) -> Result<Processes, CallFault> {
    if group == MPI_GROUP_EMPTY {
        return Ok(Processes::new());
    }
    let known = GROUPS.borrow().get(group).map(|group| group.processes.clone());
    known.ok_or_else(|| CallFault::handle(MPI_ERR_GROUP, "group", group))
}

/// Works with a group.
pub(crate) fn with<R>(
    group: Handle,
    work: impl FnOnce(&Group<'_>) -> Result<R, CallFault>,
) -> Result<R, CallFault> {
    let processes = processes(group)?;
    work(&Group::of(&processes, &mut pieces(processes.len()))?)
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

/// The handle of which `number` is the `int`.
pub(crate) fn of_number(number: c_int) -> Handle {
    GROUPS.borrow().handle_of(number)
}

/// Frees a group's handle.
pub(crate) fn free(handle: Handle) -> Result<(), CallFault> {
    if handle == MPI_GROUP_EMPTY {
        return Ok(());
    }
    let freed = GROUPS.borrow_mut().remove(handle);
    freed.map(|_| ()).ok_or_else(|| CallFault::handle(MPI_ERR_GROUP, "group", handle))
}
