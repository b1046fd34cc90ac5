//! The user's error: which operation, with whom, on what, how far it got, and why it failed.

use core::fmt;

use aldis_hal::{Cause, Operation};

use crate::rank::{Rank, Tag, WILD};
use crate::tables::comm::Comm;

/// A failed operation. `Copy` and at most 64 bytes, so that it can be kept, logged and sent on
/// without memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Error {
    /// The cause.
    pub cause: Cause,
    /// Bytes that had moved by then.
    pub bytes_done: u64,
    /// Nanoseconds from the start of the call to its failure; zero if it was refused at once.
    pub elapsed_ns: u64,
    peer: u32,
    tag: u32,
    /// Context id of the communicator; zero if the operation has none.
    pub context: u32,
    /// The operation that failed.
    pub operation: Operation,
}

const _: () = assert!(size_of::<Error>() <= 64);

impl Error {
    /// An error of `operation` by itself: no peer, tag or communicator in particular.
    pub const fn new(operation: Operation, cause: Cause) -> Self {
        Self { cause, bytes_done: 0, elapsed_ns: 0, peer: WILD, tag: WILD, context: 0, operation }
    }

    pub(crate) const fn about(operation: Operation, cause: Cause, peer: u32, context: u32, tag: u32) -> Self {
        Self { peer, tag, context, ..Self::new(operation, cause) }
    }

    /// Returns this failure as part of a larger operation: a send inside a barrier.
    #[must_use]
    pub const fn within(self, operation: Operation) -> Self {
        Self { operation, ..self }
    }

    /// Returns this failure with the time it took to come.
    #[must_use]
    pub(crate) const fn after(self, elapsed_ns: u64) -> Self {
        Self { elapsed_ns, ..self }
    }

    /// Returns this failure with the bytes that had moved.
    #[must_use]
    pub(crate) const fn having_moved(self, bytes_done: u64) -> Self {
        Self { bytes_done, ..self }
    }

    /// Returns this failure with its peer, communicator and message.
    #[must_use]
    pub const fn with(self, peer: Rank, context: u32, tag: Tag) -> Self {
        Self { peer: peer.0, context, tag: tag.0, ..self }
    }

    /// Returns this failure on a communicator.
    #[must_use]
    pub const fn on(self, comm: &Comm) -> Self {
        Self { context: comm.context(), ..self }
    }

    /// Returns this failure about a rank of a communicator and no message in particular.
    #[must_use]
    pub const fn about_rank(self, rank: Rank, comm: &Comm) -> Self {
        Self { peer: rank.0, ..self.on(comm) }
    }

    /// The rank at the other side, in the operation's communicator; `None` for any or none.
    pub const fn peer(&self) -> Option<Rank> {
        if self.peer == WILD { None } else { Some(Rank(self.peer)) }
    }

    /// The message's tag; `None` for any or none.
    pub const fn tag(&self) -> Option<Tag> {
        if self.tag == WILD { None } else { Some(Tag(self.tag)) }
    }
}

/// Marker: the call failed and the full error is kept in the endpoint
/// ([`ScopePlane::failure`](crate::plane::ScopePlane::failure)), for implementers of calls of their
/// own. Errors are large and pass through many functions: the last of them looks the error up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Failed;

/// The failure of a call: its error, or a [marker](Failed) that the error is kept.
pub trait Failure {
    /// The failure whose error is `kept`.
    fn of(kept: &Error) -> Self;
}

impl Failure for Error {
    #[inline]
    fn of(kept: &Error) -> Self {
        *kept
    }
}

impl Failure for Failed {
    #[inline]
    fn of(_: &Error) -> Self {
        Self
    }
}

/// A cause by itself, as of a call on [datatypes](crate::datatype).
impl From<Cause> for Error {
    fn from(cause: Cause) -> Self {
        Self::new(Operation::None, cause)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.operation)?;
        if let Some(peer) = self.peer() {
            write!(f, " with rank {peer}")?;
        }
        if let Some(tag) = self.tag() {
            write!(f, ", tag {tag}")?;
        }
        if self.context != 0 {
            write!(f, ", {}", crate::tables::comm::ContextName(self.context))?;
        }
        write!(f, ": {}", self.cause)?;
        if self.bytes_done > 0 {
            write!(f, ", after {} bytes", self.bytes_done)?;
        }
        if self.elapsed_ns > 0 {
            write!(
                f,
                ", {}.{:03} ms after the call",
                self.elapsed_ns / 1_000_000,
                self.elapsed_ns / 1000 % 1000
            )?;
        }
        Ok(())
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn an_error_tells_the_whole_story() {
        let mut error = Error::about(
            Operation::Recv,
            Cause::Truncated { sent: 8, room: 4 },
            2,
            crate::tables::comm::WORLD,
            7,
        );
        (error.bytes_done, error.elapsed_ns) = (4, 1_234_567);
        assert_eq!(
            error.to_string(),
            "recv with rank 2, tag 7, communicator 0: truncated: a message of 8 bytes met a buffer \
             of 4, after 4 bytes, 1.234 ms after the call"
        );
        assert_eq!(
            Error::new(Operation::Join, Cause::Stale).to_string(),
            "join: a handle that has been freed: make a new one"
        );
    }
}
