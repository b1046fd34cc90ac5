//! This module holds `unsafe` code: state of the process.
//!
//! Info objects (MPI 5.0, chapter 10): keys and values, in the order in which they were set.

use core::cell::RefCell;
use core::ffi::c_int;

use crate::abi::{Handle, MPI_ERR_INFO, MPI_ERR_NO_MEM, MPI_INFO_ENV, MPI_INFO_NULL};
use crate::fault::CallFault;
use crate::process::Owned;
use crate::process::handles::{HandleKind, HandleTable};

/// Keys and values.
pub(crate) type Info = Vec<(String, String)>;

// SAFETY: only calls of MPI use it.
static INFOS: Owned<RefCell<HandleTable<Info>>> =
    unsafe { Owned::new(RefCell::new(HandleTable::new(HandleKind::Info))) };

/// Returns what is known about the start of the program (MPI 5.0, 11.6).
pub(crate) fn environment() -> Info {
    let mut arguments = std::env::args();
    let command = arguments.next().unwrap_or_default();
    let folder = aldis_sys::process::current_dir()
        .map_or_else(|_| String::new(), |folder| folder.display().to_string());
    let rest = arguments.collect::<Vec<_>>().join(" ");
    let known = [
        ("command", command),
        ("argv", rest),
        ("wdir", folder),
        ("thread_level", "MPI_THREAD_MULTIPLE".into()),
    ];
    known.map(|(key, value)| (key.to_owned(), value)).into()
}

/// A copy of an info object; of none, of nothing.
pub(crate) fn of(handle: Handle) -> Result<Info, CallFault> {
    match handle {
        MPI_INFO_NULL => Ok(Info::new()),
        MPI_INFO_ENV => Ok(environment()),
        handle => look(handle, Info::clone),
    }
}

/// Refuses what is no info object, for a function that looks for no hints in it.
pub(crate) fn check(handle: Handle) -> Result<(), CallFault> {
    match handle {
        MPI_INFO_NULL | MPI_INFO_ENV => Ok(()),
        handle => look(handle, |_| ()),
    }
}

/// Hints for communicators that are known (MPI 5.0, 7.4.4); others are ignored, and so not given
/// back.
const OF_COMMUNICATORS: [&str; 5] = [
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
    "mpi_assert_strict_persistent_collective_ordering",
];

/// The pairs of an info object that a communicator takes.
pub(crate) fn of_communicator(handle: Handle) -> Result<Info, CallFault> {
    let given = of(handle)?;
    Ok(given.into_iter().filter(|(key, _)| OF_COMMUNICATORS.contains(&key.as_str())).collect())
}

/// A new object.
pub(crate) fn insert(info: Info) -> Result<Handle, CallFault> {
    INFOS.borrow_mut().insert(info).ok_or_else(|| CallFault::new(MPI_ERR_NO_MEM, "too many info objects"))
}

pub(crate) fn look<R>(handle: Handle, look: impl FnOnce(&Info) -> R) -> Result<R, CallFault> {
    if handle == MPI_INFO_ENV {
        return Ok(look(&environment()));
    }
    INFOS.borrow().get(handle).map(look).ok_or_else(|| CallFault::handle(MPI_ERR_INFO, "info object", handle))
}

pub(crate) fn change<R>(handle: Handle, change: impl FnOnce(&mut Info) -> R) -> Result<R, CallFault> {
    let changed = INFOS.borrow_mut().get_mut(handle).map(change);
    changed.ok_or_else(|| CallFault::handle(MPI_ERR_INFO, "info object that can be changed", handle))
}

/// The handle of which `number` is the `int`.
pub(crate) fn of_number(number: c_int) -> Handle {
    INFOS.borrow().handle_of(number)
}

/// Frees an object.
pub(crate) fn free(handle: Handle) -> Result<(), CallFault> {
    let freed = INFOS.borrow_mut().remove(handle);
    freed.map(|_| ()).ok_or_else(|| CallFault::handle(MPI_ERR_INFO, "info object", handle))
}
