//! This module holds `unsafe` code: state of the process.
//!
//! Sessions (MPI 5.0, 11.3): handles by which parts of a program use MPI side by side. They share
//! the process's one endpoint, which the first of them starts.

use core::cell::{Cell, RefCell};
use core::ffi::c_int;

use crate::abi::{Handle, MPI_ERR_NO_MEM, MPI_ERR_SESSION, MPI_SESSION_NULL};
use crate::fault::CallFault;
use crate::process::Owned;
use crate::process::handles::{HandleKind, HandleTable};

/// A session of the program's.
pub(crate) struct ProgramSession {
    pub(crate) handler: Handle,
    /// The thread level that was granted.
    pub(crate) level: c_int,
}

// SAFETY: only calls of MPI use it.
static SESSIONS: Owned<RefCell<HandleTable<ProgramSession>>> =
    unsafe { Owned::new(RefCell::new(HandleTable::new(HandleKind::Session))) };

/// True once there has been a session.
// SAFETY: only calls of MPI use it.
static WERE_THERE: Owned<Cell<bool>> = unsafe { Owned::new(Cell::new(false)) };

fn missing(session: Handle) -> CallFault {
    match session {
        MPI_SESSION_NULL => CallFault::new(MPI_ERR_SESSION, "MPI_SESSION_NULL where a session belongs"),
        session => CallFault::handle(MPI_ERR_SESSION, "session", session),
    }
}

/// A handle for a new session.
pub(crate) fn insert(session: ProgramSession) -> Result<Handle, CallFault> {
    WERE_THERE.set(true);
    let made = SESSIONS.borrow_mut().insert(session);
    made.ok_or_else(|| CallFault::new(MPI_ERR_NO_MEM, "too many sessions"))
}

/// Works with a session.
pub(crate) fn change<R>(
    session: Handle,
    work: impl FnOnce(&mut ProgramSession) -> R,
) -> Result<R, CallFault> {
    SESSIONS.borrow_mut().get_mut(session).map(work).ok_or_else(|| missing(session))
}

pub(crate) fn check(session: Handle) -> Result<(), CallFault> {
    change(session, |_| ())
}

/// The error handler of a session, if that is what the handle is of.
pub(crate) fn handler_of(session: Handle) -> Option<Handle> {
    SESSIONS.borrow().get(session).map(|known| known.handler)
}

/// Takes a session's handle away.
pub(crate) fn remove(session: Handle) -> Result<(), CallFault> {
    SESSIONS.borrow_mut().remove(session).map(|_| ()).ok_or_else(|| missing(session))
}

/// Returns true if no session is in use.
pub(crate) fn are_none() -> bool {
    SESSIONS.borrow().is_empty()
}

/// Returns true if there is a session, or was one.
pub(crate) fn were_there() -> bool {
    WERE_THERE.get()
}

/// The handle of which `number` is the `int`.
pub(crate) fn of_number(number: c_int) -> Handle {
    SESSIONS.borrow().handle_of(number)
}
