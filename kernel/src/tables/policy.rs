//! The policy of a communicator for errors.

use crate::error::Error;
use crate::tables::comm::Comm;

/// The step that an error leads to before it is returned. See `CommMut::set_error_policy`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(u8)]
pub enum Policy {
    /// Do nothing (MPI_ERRORS_RETURN).
    #[default]
    Return,
    /// This is called with the communicator and the error. It has no endpoint, so it cannot
    /// re-enter.
    Callback(fn(&Comm, &Error)),
    /// The processes of the communicator are aborted with this code (MPI_ERRORS_ABORT).
    Abort {
        /// The code, as for `CommMut::abort`.
        code: i32,
    },
    /// The whole job is aborted with this code (MPI_ERRORS_ARE_FATAL).
    Fatal {
        /// The code, as for `Endpoint::abort`.
        code: i32,
    },
}
