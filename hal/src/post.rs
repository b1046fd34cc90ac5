//! The four outcomes of a post. `Again` and `Never` are different facts: one passes, the other does
//! not.

use core::fmt;

use crate::Cause;

/// The reason why a post cannot be taken just now. A state, not a fault: the transport calls
/// [`Sink::ready`](crate::Sink::ready) for the peer when it is worth another try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Again {
    /// No free slot or descriptor.
    NoSlot,
    /// The receiver's memory is taken; it has granted no more.
    NoCredit,
    /// The connection is being made.
    Connecting,
}

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSlot => "no free slot",
            Self::NoCredit => "no credit from the receiver",
            Self::Connecting => "still connecting",
        })
    }
}

/// The outcome of a post.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use = "a post that was not taken must be tried again or failed"]
pub enum Post {
    /// Taken; the buffer is reusable now and no completion follows.
    Done,
    /// Taken; the buffer stays in use until [`Sink::completed`](crate::Sink::completed) names the
    /// post's token.
    Queued,
    /// Not taken and nothing changed; order is the caller's to keep.
    Again(Again),
    /// Never possible, whatever is waited for.
    Never(Cause),
}

/// The reason why a slot could not be reserved: the two negative outcomes of [`Post`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Refusal {
    /// Not now.
    Again(Again),
    /// Never.
    Never(Cause),
}

impl From<Refusal> for Post {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Again(why) => Self::Again(why),
            Refusal::Never(why) => Self::Never(why),
        }
    }
}
