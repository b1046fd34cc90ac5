//! Wire-up: how the ranks of a job find each other before the first message.
//!
//! Every rank inherits one end of a local socket pair from the launcher, or from its agent on
//! another machine; the descriptor's number stands in the environment variable [`SOCKET_VARIABLE`].
//! The socket keeps message boundaries (`SOCK_SEQPACKET`), a message is one [`postcard`]-encoded
//! value of at most [`MESSAGE_BYTES_MAX`] bytes, and descriptors travel beside it.
//!
//! ```text
//! rank                                   launcher
//!  |  Hello {version, pid}                  |
//!  |--------------------------------------->|
//!  |       Welcome {job, rank, size, ..}    |
//!  |<---------------------------------------|
//!  |       Segments + descriptor            |   of those it shares memory with
//!  |<---------------------------------------|
//!  |  Card {bytes}                          |   its own inbox is formatted
//!  |--------------------------------------->|
//!  |       Cards {bytes} + descriptor       |   the table of all ranks', when all have come
//!  |<---------------------------------------|
//!  |  Joined                                |   all peers are introduced
//!  |--------------------------------------->|
//!  | Leave {..} | Abort {..} | Failed {..}  |   the last message
//!  |--------------------------------------->|
//! ```
//!
//! Nothing either side sends is believed: sizes are bounded, a message that does not decode is
//! [`WireError::Malformed`], and every receive has a deadline.

mod card_table;
mod channel;
mod message;

pub use aldis_protocols::card::CARD_BYTES_MAX;
pub use card_table::{CardTable, SharedCards};
pub(crate) use channel::inherited;
pub use channel::{Channel, Received};
pub use message::{FromLauncher, FromRank, Node, Shape, TEXT_BYTES_MAX, TcpTerms, bounded};

use core::fmt;

use aldis_sys::Errno;

/// The environment variable with the number of the inherited socket.
pub const SOCKET_VARIABLE: &str = "ALDIS_WIREUP_FD";

/// The version of this protocol; both sides must speak the same.
pub const VERSION: u16 = 8;

/// The longest message, in bytes: a welcome that names three files by the longest of paths.
pub const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// The most descriptors beside one message (the kernel's own limit is 253).
pub const DESCRIPTORS_MAX: usize = 64;

/// An error on the wire-up socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WireError {
    /// The other side closed the socket.
    Closed,
    /// A call found that the other side has closed the socket.
    Cut {
        /// The system call.
        call: &'static str,
        /// The error by which it was found.
        errno: Errno,
    },
    /// No message came before the deadline.
    TimedOut,
    /// A message longer than [`MESSAGE_BYTES_MAX`], or with more descriptors than
    /// [`DESCRIPTORS_MAX`].
    TooLong,
    /// A message that does not decode.
    Malformed {
        /// Its bytes.
        bytes: usize,
    },
    /// A message that has no place at this point of the conversation.
    Unexpected {
        /// The message that came.
        found: &'static str,
        /// The message that should have come.
        expected: &'static str,
    },
    /// The other side speaks another version.
    Version {
        /// Ours.
        expected: u16,
        /// Theirs.
        found: u16,
    },
    /// The variable [`SOCKET_VARIABLE`] names no such socket.
    NoSocket,
    /// The system refused.
    System {
        /// The system call.
        call: &'static str,
        /// The error.
        errno: Errno,
    },
}

impl WireError {
    /// Returns true if the other side is gone, which has a reason of its own.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Closed | Self::Cut { .. })
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Closed => f.write_str("the wire-up socket was closed by the other side"),
            Self::Cut { call, errno } => {
                write!(f, "the wire-up socket was closed by the other side: {call} failed: {}", errno.desc())
            }
            Self::TimedOut => f.write_str("nothing came over the wire-up socket before the deadline"),
            Self::TooLong => write!(f, "a wire-up message longer than {MESSAGE_BYTES_MAX} bytes"),
            Self::Malformed { bytes } => write!(f, "a wire-up message of {bytes} bytes that does not decode"),
            Self::Unexpected { found, expected } => {
                write!(f, "wire-up message `{found}` where `{expected}` was due")
            }
            Self::Version { expected, found } => write!(
                f,
                "wire-up version {found} where {expected} is spoken: program and aldis-run are of different builds"
            ),
            Self::NoSocket => write!(
                f,
                "{SOCKET_VARIABLE} does not name a wire-up socket; without it the program is a job of one rank"
            ),
            Self::System { call, errno } => write!(f, "{call} failed: {}", errno.desc()),
        }
    }
}

impl core::error::Error for WireError {}
