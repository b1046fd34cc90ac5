//! This module holds `unsafe` code: functions of the program's are called.
//!
//! Requests for operations of the program's (MPI 5.0, 13.2): it says when they are over, and what
//! they come to.

use core::ffi::{c_int, c_void};

use super::{REQUESTS, RequestStage, Work, missing, started};
use crate::abi::{Handle, MPI_COMM_SELF, MPI_ERR_REQUEST, Status};
use crate::fault::CallFault;
use crate::ffi::{Ptr, callback};

/// The functions of such a request.
#[derive(Clone, Copy)]
pub(crate) struct GeneralizedRequest {
    query: usize,
    free: usize,
    cancel: usize,
    extra: Ptr<c_void>,
    pub(super) is_complete: bool,
    /// Its handle is gone: it is let go of when it is complete.
    pub(super) is_freed: bool,
}

fn checked(code: c_int, what: &str) -> Result<(), CallFault> {
    match code {
        0 => Ok(()),
        code => Err(CallFault::new(code, format!("a generalized request's {what} function has failed"))),
    }
}

impl GeneralizedRequest {
    /// An operation that has begun, by the query, free and cancel functions of the program.
    pub(crate) const fn new([query, free, cancel]: [usize; 3], extra: Ptr<c_void>) -> Self {
        Self { query, free, cancel, extra, is_complete: false, is_freed: false }
    }

    /// Asks the program's query function for the status of the operation.
    pub(super) fn query(&self) -> Result<Status, CallFault> {
        let mut status = Status::EMPTY;
        // SAFETY: the program gave it as such a function, or null.
        checked(unsafe { callback::query(self.query, self.extra, &mut status) }, "query")?;
        Ok(status)
    }

    pub(super) fn free(&self) -> Result<(), CallFault> {
        // SAFETY: the program gave it as such a function, or null.
        checked(unsafe { callback::free(self.free, self.extra) }, "free")
    }

    pub(super) fn cancel(&self) -> Result<(), CallFault> {
        // SAFETY: the program gave it as such a function, or null.
        checked(unsafe { callback::cancel(self.cancel, self.extra, self.is_complete) }, "cancel")
    }

    /// Returns the status as [`query`](Self::query) does, and frees the program's state.
    pub(super) fn finish(&self) -> Result<Status, CallFault> {
        let status = self.query();
        self.free()?;
        status
    }
}

/// A handle for an operation of the program's.
pub(crate) fn of_generalized(general: GeneralizedRequest) -> Result<Handle, CallFault> {
    started(MPI_COMM_SELF, Work::GeneralizedRequest(general))
}

/// Notes that an operation of the program's is complete, and lets go of it if its handle is freed.
pub(crate) fn complete_generalized(request: Handle) -> Result<(), CallFault> {
    let mut requests = REQUESTS.borrow_mut();
    let operated = requests.get_mut(request).ok_or_else(|| missing(request))?;
    let (RequestStage::Active, Work::GeneralizedRequest(general)) = (&operated.stage, &mut operated.work)
    else {
        return Err(CallFault::new(MPI_ERR_REQUEST, "no generalized request that is under way"));
    };
    if general.is_complete {
        return Err(CallFault::new(MPI_ERR_REQUEST, "a generalized request that is complete already"));
    }
    general.is_complete = true;
    let general = *general;
    if general.is_freed {
        requests.remove(request);
        drop(requests);
        general.free()?;
    }
    Ok(())
}
