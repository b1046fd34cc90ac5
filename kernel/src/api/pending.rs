//! The requests under way on an endpoint, one by one: for reports on a job that gets no further.

use core::fmt;

use aldis_hal::Operation;

use crate::api::diagnostics::Diagnostics;
use crate::rank::{Rank, Tag, WILD};
use crate::tables::comm::ContextName;
use crate::tables::request::{Request, State};

/// The state of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Standing {
    /// A persistent one that has not been started.
    Idle,
    /// A send that waits for its turn.
    Queued,
    /// A send that is announced, or moves.
    Sending,
    /// A receive without a message.
    Posted,
    /// A probe that asks for a message which its sender holds back.
    Probing,
    /// A matched probe whose message its sender holds on offer.
    Held,
    /// A matched message that has not been received.
    Matched,
    /// A receive whose message is announced, or moves.
    Receiving,
    /// Over, and its result not taken.
    Complete,
}

impl Standing {
    const fn of(state: State) -> Option<Self> {
        Some(match state {
            State::Free => return None,
            State::Idle => Self::Idle,
            State::Queued => Self::Queued,
            State::Sending => Self::Sending,
            State::Posted => Self::Posted,
            State::Probing => Self::Probing,
            State::Held => Self::Held,
            State::Matched => Self::Matched,
            State::Receiving => Self::Receiving,
            State::Complete | State::Closing => Self::Complete,
        })
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Posted => "posted",
            Self::Probing => "probing",
            Self::Held => "held",
            Self::Matched => "matched",
            Self::Receiving => "receiving",
            Self::Complete => "complete",
        })
    }
}

/// A request slot in use: what it is for, and how far it is. See [`Diagnostics::pending`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pending {
    /// The operation that was called for.
    pub operation: Operation,
    /// The state of the request.
    pub standing: Standing,
    /// The other side's rank; `None` for any.
    pub peer: Option<Rank>,
    /// The message's tag; `None` for any.
    pub tag: Option<Tag>,
    /// Context id of the communicator; zero if it has none.
    pub context: u32,
    /// Bytes of the message, or of the memory for one.
    pub bytes: u64,
    /// The number of them that have moved.
    pub bytes_done: u64,
    /// True if its owner has let go of it: it lives on to tell the peer.
    pub is_let_go: bool,
}

impl Pending {
    fn of(request: &Request) -> Option<Self> {
        let standing = Standing::of(request.state)?;
        Some(Self {
            operation: request.operation,
            standing,
            peer: (request.rank != WILD).then_some(Rank(request.rank)),
            tag: (request.tag != WILD).then_some(Tag(request.tag)),
            context: request.key.context,
            bytes: request.length,
            bytes_done: request.bytes_done(),
            is_let_go: request.orphan,
        })
    }
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, standing, bytes, bytes_done, .. } = self;
        write!(f, "{operation} {standing}")?;
        match self.peer {
            Some(peer) => write!(f, ", rank {peer}")?,
            None => f.write_str(", any rank")?,
        }
        match self.tag {
            Some(tag) => write!(f, ", tag {tag}")?,
            None => f.write_str(", any tag")?,
        }
        if self.context != 0 {
            write!(f, ", {}", ContextName(self.context))?;
        }
        write!(f, ", {bytes_done} of {bytes} bytes")?;
        if self.is_let_go { f.write_str(", let go") } else { Ok(()) }
    }
}

impl Diagnostics<'_, '_> {
    /// Reports every request slot in use, in the order of the table. Takes a step a slot, in use or
    /// not: for reports, not for a program's way.
    pub fn pending(&self, mut tell: impl FnMut(&Pending)) {
        let requests = &self.engine.requests;
        for index in 0..requests.used_end() {
            if let Some(pending) = requests.peek(index).and_then(Pending::of) {
                tell(&pending);
            }
        }
    }
}
