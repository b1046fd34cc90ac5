//! This module holds `unsafe` code: state of the process.
//!
//! Communicators that the program has freed and that something still uses (MPI 5.0, 7.4.3): their
//! handles are gone at once, they themselves when the last operation on them is. Freeing is local:
//! no rank waits for another one. A rank offers the slot of a communicator to a new one only when
//! nothing here, and no other rank's reading of what this one wrote, needs it any more; so it is
//! looked at again before each creation of a communicator, and not before.

use core::cell::RefCell;
use std::collections::HashSet;

use aldis_kernel::Comm;
use aldis_kernel::plane::prelude::*;

use crate::abi::{Handle, MPI_ERRORS_ARE_FATAL};
use crate::fault::CallFault;
use crate::process::{Owned, engine};

/// A communicator without a handle.
struct Freed {
    /// The handle that it had, by which requests know it; none if it was the library's own.
    handle: Option<Handle>,
    comm: Comm,
    /// Its error handler, which is called for errors of the operations that are left.
    handler: Handle,
}

// SAFETY: only calls of MPI use it.
static FREED: Owned<RefCell<Vec<Freed>>> = unsafe { Owned::new(RefCell::new(Vec::new())) };

/// Takes a communicator whose handle is gone.
pub(crate) fn add(handle: Handle, comm: Comm, handler: Handle) {
    FREED.borrow_mut().push(Freed { handle: Some(handle), comm, handler });
}

/// A communicator of the library's own, of which the program has no handle. It is freed once this
/// is dropped, after what is called on it.
pub(crate) struct OwnComm(pub(crate) Comm);

impl Drop for OwnComm {
    fn drop(&mut self) {
        FREED.borrow_mut().push(Freed { handle: None, comm: self.0, handler: MPI_ERRORS_ARE_FATAL });
    }
}

/// The error handler of a freed communicator.
pub(crate) fn handler_of(handle: Handle) -> Option<Handle> {
    FREED.borrow().iter().find(|freed| freed.handle == Some(handle)).map(|freed| freed.handler)
}

/// Gives back the slots of those that nothing needs any more; `used` are the handles that requests
/// have.
pub(crate) fn release(used: impl FnOnce() -> HashSet<Handle>) {
    if FREED.borrow().is_empty() {
        return;
    }
    let used = used();
    FREED.borrow_mut().retain(|freed| {
        freed.handle.is_some_and(|handle| used.contains(&handle))
            || !is_released(&freed.comm).unwrap_or(false)
    });
}

fn is_released(comm: &Comm) -> Result<bool, CallFault> {
    engine::with(|engine| {
        engine.reap();
        Ok(engine.endpoint().release(comm)?)
    })
}
