//! This module holds `unsafe` code: state of the process.
//!
//! Communicators (MPI 5.0, chapter 7): handles for the kernel's, with their error handlers, names,
//! attributes and hints.

use core::cell::{Cell, RefCell};
use core::ffi::c_int;
use std::rc::Rc;

use aldis_kernel::{Comm, Rank};

use crate::abi::{
    Handle, MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_ERR_COMM, MPI_ERR_NO_MEM, MPI_ERR_TOPOLOGY,
    MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN, MPI_SESSION_NULL,
};
use crate::fault::CallFault;
use crate::objects::attributes::{self, Attributes, ObjectKind};
use crate::objects::freed_comms;
use crate::objects::info::Info;
use crate::objects::topologies::CommTopology;
use crate::process::Owned;
use crate::process::handles::{HandleKind, HandleTable};

/// A communicator of the program's.
#[derive(Debug)]
pub(crate) struct Communicator {
    pub(crate) comm: Comm,
    handler: Handle,
    /// The program has given the handler to it, or to the communicator that it has it from.
    is_handler_given: bool,
    pub(crate) name: String,
    pub(crate) attributes: Attributes,
    pub(crate) info: Info,
    /// The session that it is derived from; none of the World Model.
    session: Handle,
    /// The kernel's communicator is the topology's, if there is one.
    pub(crate) topology: Option<Rc<CommTopology>>,
}

impl Communicator {
    fn new(comm: Comm, handler: Handle, name: &str) -> Self {
        let (attributes, info) = (Attributes::new(), Info::new());
        let (is_handler_given, session) = (false, MPI_SESSION_NULL);
        let name = name.to_owned();
        Self { comm, handler, is_handler_given, name, attributes, info, session, topology: None }
    }
}

/// World and self, and those that were made.
struct Communicators {
    roots: [Option<Communicator>; 2],
    made: HandleTable<Communicator>,
}

// SAFETY: only calls of MPI use it.
static COMMS: Owned<RefCell<Communicators>> = unsafe {
    Owned::new(RefCell::new(Communicators { roots: [None, None], made: HandleTable::new(HandleKind::Comm) }))
};

const _: () = assert!(MPI_COMM_SELF == MPI_COMM_WORLD + 1);

/// The kernel's communicators of world and self, by handle, which never change: read by most calls.
// SAFETY: only calls of MPI use it.
static ROOTS: Owned<[Cell<Option<&Comm>>; 2]> = unsafe { Owned::new([const { Cell::new(None) }; 2]) };

impl Communicators {
    #[inline]
    fn get(&self, handle: Handle) -> Option<&Communicator> {
        match handle {
            MPI_COMM_WORLD => self.roots[0].as_ref(),
            MPI_COMM_SELF => self.roots[1].as_ref(),
            handle => self.made.get(handle),
        }
    }

    fn get_mut(&mut self, handle: Handle) -> Option<&mut Communicator> {
        match handle {
            MPI_COMM_WORLD => self.roots[0].as_mut(),
            MPI_COMM_SELF => self.roots[1].as_mut(),
            handle => self.made.get_mut(handle),
        }
    }
}

/// Makes world and self known.
pub(crate) fn start([world, itself]: [Comm; 2]) {
    for (root, comm) in ROOTS.iter().zip([world, itself]) {
        root.set(Some(Box::leak(Box::new(comm))));
    }
    COMMS.borrow_mut().roots = [
        Some(Communicator::new(world, initial_handler(), "MPI_COMM_WORLD")),
        Some(Communicator::new(itself, initial_handler(), "MPI_COMM_SELF")),
    ];
}

/// The program ends: the attributes of self are deleted first (MPI 5.0, 11.2.4).
pub(crate) fn finish() -> Result<(), CallFault> {
    let mut attributes = change(MPI_COMM_SELF, |own| core::mem::take(&mut own.attributes))?;
    attributes::deleted(ObjectKind::Comm, MPI_COMM_SELF, &mut attributes)
}

/// Ranks of the job.
pub(crate) fn world_size() -> c_int {
    COMMS.borrow().roots[0].as_ref().map_or(0, |world| world.comm.size() as c_int)
}

/// The error handler of a communicator, which may have been freed while something uses it.
pub(crate) fn known_handler(handle: Handle) -> Option<Handle> {
    COMMS.borrow().get(handle).map(|data| data.handler).or_else(|| freed_comms::handler_of(handle))
}

/// The error handler of a communicator; before there are any, the one that all begin with.
pub(crate) fn handler_of(handle: Handle) -> Handle {
    known_handler(handle).unwrap_or_else(initial_handler)
}

/// The variable that names the initial error handler, of `aldis-mpiexec -initial-errhandler`.
const INITIAL_HANDLER: &str = "ALDIS_MPI_INITIAL_ERRHANDLER";

/// The error handler that world and self begin with (MPI 5.0, 9.3 and 11.5).
fn initial_handler() -> Handle {
    match std::env::var(INITIAL_HANDLER).as_deref() {
        Ok("mpi_errors_return") => MPI_ERRORS_RETURN,
        Ok("mpi_errors_abort") => MPI_ERRORS_ABORT,
        _ => MPI_ERRORS_ARE_FATAL,
    }
}

pub(crate) fn set_handler(handle: Handle, handler: Handle) -> Result<(), CallFault> {
    change(handle, |data| (data.handler, data.is_handler_given) = (handler, true))
}

/// Returns true if the handler of a communicator is one that the program has chosen, for it or for
/// one that it was made of.
fn is_handler_given(handle: Handle) -> bool {
    COMMS.borrow().get(handle).is_some_and(|data| data.is_handler_given)
}

/// Returns true for a communicator that was made while no handler had been given to its parent: an
/// argument that cannot be, such as a null pointer, says nothing about it and is an error of no
/// communicator.
pub(crate) fn has_usual_handler(handle: Handle) -> bool {
    !matches!(handle, MPI_COMM_WORLD | MPI_COMM_SELF) && !is_handler_given(handle)
}

/// The communicator whose error handler is called for an error on this one. Errors of no
/// communicator are those of `MPI_COMM_SELF` (MPI 5.0, 9.3); they were those of `MPI_COMM_WORLD`
/// before MPI 4, and a program that has given a handler to `MPI_COMM_WORLD` alone means it.
pub(crate) fn judge_of(handle: Handle) -> Handle {
    let comms = COMMS.borrow();
    let is_given = |handle| comms.get(handle).is_some_and(|data| data.is_handler_given);
    if handle == MPI_COMM_SELF && !is_given(MPI_COMM_SELF) && is_given(MPI_COMM_WORLD) {
        return MPI_COMM_WORLD;
    }
    handle
}

#[cold]
fn missing(handle: Handle) -> CallFault {
    match handle {
        MPI_COMM_NULL => CallFault::new(MPI_ERR_COMM, "MPI_COMM_NULL where a communicator belongs"),
        MPI_COMM_WORLD | MPI_COMM_SELF => CallFault::new(MPI_ERR_COMM, "called before MPI_Init"),
        handle => CallFault::handle(MPI_ERR_COMM, "communicator", handle),
    }
}

/// The kernel's communicator.
#[inline]
pub(crate) fn of(handle: Handle) -> Result<Comm, CallFault> {
    find(handle, &mut None).copied()
}

/// The kernel's communicator for the time of a call, where it stands for good if it is world or
/// self, else in `place`. It is not copied where that can be spared: what is written and at once
/// read in larger pieces waits until every store before has left the core.
#[inline(always)]
pub(crate) fn find(handle: Handle, place: &mut Option<Comm>) -> Result<&Comm, CallFault> {
    match ROOTS.get(handle.wrapping_sub(MPI_COMM_WORLD)).and_then(Cell::get) {
        Some(comm) => Ok(comm),
        None => Ok(place.insert(of_any(handle)?)),
    }
}

/// The kernel's communicator of any handle.
#[inline(never)]
fn of_any(handle: Handle) -> Result<Comm, CallFault> {
    COMMS.borrow().get(handle).map(|data| data.comm).ok_or_else(|| missing(handle))
}

pub(crate) fn check(handle: Handle) -> Result<(), CallFault> {
    of(handle).map(|_| ())
}

/// Works with what is kept with a communicator.
pub(crate) fn change<R>(handle: Handle, work: impl FnOnce(&mut Communicator) -> R) -> Result<R, CallFault> {
    COMMS.borrow_mut().get_mut(handle).map(work).ok_or_else(|| missing(handle))
}

/// A handle for a communicator that was made of `parent`, whose error handler it has.
pub(crate) fn insert(comm: Comm, parent: Handle) -> Result<Handle, CallFault> {
    let mut data = Communicator::new(comm, handler_of(parent), "");
    data.is_handler_given = is_handler_given(parent);
    data.session = session_of(parent);
    COMMS
        .borrow_mut()
        .made
        .insert(data)
        .ok_or_else(|| CallFault::new(MPI_ERR_NO_MEM, "too many communicators"))
}

/// The session that a communicator is derived from, `MPI_SESSION_NULL` for one of the World Model.
pub(crate) fn session_of(handle: Handle) -> Handle {
    COMMS.borrow().get(handle).map_or(MPI_SESSION_NULL, |data| data.session)
}

/// A handle for a communicator that was made of no other one, but of groups of a session, or of the
/// World Model's.
pub(crate) fn insert_alone(
    comm: Comm,
    handler: Handle,
    info: Info,
    session: Handle,
) -> Result<Handle, CallFault> {
    let made = insert(comm, MPI_COMM_SELF)?;
    change(made, |data| {
        (data.handler, data.is_handler_given, data.info) = (handler, true, info);
        data.session = session;
    })?;
    Ok(made)
}

/// A handle for a communicator with a topology.
pub(crate) fn insert_with(comm: Comm, parent: Handle, topology: CommTopology) -> Result<Handle, CallFault> {
    let made = insert(comm, parent)?;
    change(made, |data| data.topology = Some(Rc::new(topology)))?;
    Ok(made)
}

/// The topology of a communicator.
pub(crate) fn topology(handle: Handle) -> Result<Rc<CommTopology>, CallFault> {
    let none = || CallFault::new(MPI_ERR_TOPOLOGY, "a communicator without a topology");
    change(handle, |data| data.topology.clone())?.ok_or_else(none)
}

pub(crate) fn insert_if(comm: Option<Comm>, parent: Handle) -> Result<Handle, CallFault> {
    comm.map_or(Ok(MPI_COMM_NULL), |comm| insert(comm, parent))
}

/// A rank of a communicator of so many.
#[inline]
pub(crate) fn rank_in(number: c_int, size: u32, class: c_int) -> Result<Rank, CallFault> {
    match u32::try_from(number) {
        Ok(rank) if rank < size => Ok(Rank(rank)),
        _ => Err(out_of_range(number, size, class)),
    }
}

#[cold]
fn out_of_range(number: c_int, size: u32, class: c_int) -> CallFault {
    CallFault::new(class, format!("rank {number} of a communicator of {size}"))
}

/// The handle of which `number` is the `int`.
pub(crate) fn of_number(number: c_int) -> Handle {
    COMMS.borrow().made.handle_of(number)
}

/// Takes a communicator's handle away, and leaves the communicator to what uses it.
pub(crate) fn remove(own: Handle) -> Result<(), CallFault> {
    let freed = COMMS.borrow_mut().made.remove(own).ok_or_else(|| missing(own))?;
    freed_comms::add(own, freed.comm, freed.handler);
    Ok(())
}
