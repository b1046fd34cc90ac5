//! The reason why a call failed: an error class of MPI, and a text.

use core::ffi::c_int;

use aldis_hal::{Cause, Resource};

use crate::abi::{
    Handle, MPI_ERR_ARG, MPI_ERR_BUFFER, MPI_ERR_COMM, MPI_ERR_COUNT, MPI_ERR_IN_STATUS, MPI_ERR_NO_MEM,
    MPI_ERR_OTHER, MPI_ERR_PROC_ABORTED, MPI_ERR_RANK, MPI_ERR_REQUEST, MPI_ERR_TAG, MPI_ERR_TRUNCATE,
    MPI_ERR_TYPE, MPI_ERR_UNSUPPORTED_OPERATION, Status,
};

/// The reason why a call failed: a class, and a text. A code that a function of the program has
/// returned stays as it is.
#[derive(Debug)]
pub(crate) struct CallFault(Box<Reason>);

#[derive(Debug)]
struct Reason {
    class: c_int,
    text: String,
    /// True if the fault would not be, had another rank not ended.
    is_consequence: bool,
    /// The message that it befell, as far as it is known.
    status: Status,
}

impl CallFault {
    pub(crate) fn new(class: c_int, text: impl Into<String>) -> Self {
        Self(Box::new(Reason { class, text: text.into(), is_consequence: false, status: Status::EMPTY }))
    }

    /// The error of a function that is not supported.
    pub(crate) fn unsupported() -> Self {
        Self::new(
            MPI_ERR_UNSUPPORTED_OPERATION,
            "Aldis does not have this function yet; docs/mpi.md lists what it has",
        )
    }

    /// Of a handle that was freed, or never was one.
    pub(crate) fn handle(class: c_int, what: &str, handle: Handle) -> Self {
        Self::new(class, format!("{handle:#x} is no {what}: it was freed, or never was one"))
    }

    pub(crate) const fn class(&self) -> c_int {
        self.0.class
    }

    /// The fault of a call on several requests, of which one failed by this: its statuses tell the
    /// class.
    pub(crate) fn in_status(&self) -> Self {
        let Reason { is_consequence, .. } = *self.0;
        let text = self.text().to_owned();
        Self(Box::new(Reason { class: MPI_ERR_IN_STATUS, text, is_consequence, status: Status::EMPTY }))
    }

    /// Returns true if the fault would not be, had another rank not ended.
    pub(crate) const fn is_consequence(&self) -> bool {
        self.0.is_consequence
    }

    pub(crate) fn text(&self) -> &str {
        &self.0.text
    }

    /// The status of the message that failed, as far as it is known; the error in it is none.
    pub(crate) fn status(&self) -> Status {
        self.0.status
    }

    fn of(cause: Cause, text: String) -> Self {
        let is_consequence =
            matches!(cause, Cause::Aborted { .. } | Cause::PeerAborted { .. } | Cause::PeerDead);
        Self(Box::new(Reason { class: class_of(cause), text, is_consequence, status: Status::EMPTY }))
    }
}

impl From<aldis_kernel::Error> for CallFault {
    fn from(error: aldis_kernel::Error) -> Self {
        let mut fault = Self::of(error.cause, error.to_string());
        let status = &mut fault.0.status;
        status.source = error.peer().map_or(status.source, |peer| peer.0.cast_signed());
        status.tag = error.tag().map_or(status.tag, |tag| tag.0.cast_signed());
        status.set_bytes(error.bytes_done);
        fault
    }
}

impl From<Cause> for CallFault {
    fn from(cause: Cause) -> Self {
        Self::of(cause, cause.to_string())
    }
}

/// The error class of a cause.
fn class_of(cause: Cause) -> c_int {
    match cause {
        Cause::Full(Resource::SendBuffer) => MPI_ERR_BUFFER,
        Cause::Full(_) | Cause::TooSmall { .. } => MPI_ERR_NO_MEM,
        Cause::RankOutOfRange { .. } | Cause::DuplicateRank { .. } => MPI_ERR_RANK,
        Cause::TagOutOfRange { .. } => MPI_ERR_TAG,
        Cause::Truncated { .. } | Cause::UnlikeLength { .. } => MPI_ERR_TRUNCATE,
        Cause::TooBig { .. } => MPI_ERR_COUNT,
        Cause::LengthMismatch { .. } | Cause::BadStride { .. } | Cause::Predefined => MPI_ERR_ARG,
        Cause::Partitions { .. } | Cause::PartitionOutOfRange { .. } | Cause::PartitionReady { .. } => {
            MPI_ERR_ARG
        }
        Cause::Inactive => MPI_ERR_REQUEST,
        Cause::PeerDead | Cause::PeerLeft | Cause::PeerAborted { .. } | Cause::Aborted { .. } => {
            MPI_ERR_PROC_ABORTED
        }
        Cause::Unsupported => MPI_ERR_UNSUPPORTED_OPERATION,
        Cause::SignatureMismatch { .. } | Cause::PartialElement { .. } => MPI_ERR_TYPE,
        Cause::Intercommunicator | Cause::Intracommunicator => MPI_ERR_COMM,
        _ => MPI_ERR_OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_gone_is_of_one_class_and_speaks_for_himself() {
        let gone = [Cause::PeerDead, Cause::PeerAborted { code: 3 }, Cause::Aborted { code: 3 }];
        for cause in gone {
            let fault = CallFault::of(cause, cause.to_string());
            assert_eq!((fault.0.class, fault.0.is_consequence), (MPI_ERR_PROC_ABORTED, true));
            let several = fault.in_status();
            assert_eq!((several.0.class, several.0.is_consequence), (MPI_ERR_IN_STATUS, true));
        }
        // A rank that has left has nothing to say.
        let left = CallFault::of(Cause::PeerLeft, String::new());
        assert_eq!((left.0.class, left.0.is_consequence), (MPI_ERR_PROC_ABORTED, false));
    }
}
