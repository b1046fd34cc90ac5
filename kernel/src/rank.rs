//! The words of message passing: rank, tag, source, status. MPI 4.1 sections 3.2 and 3.2.4.

use core::fmt;

use aldis_hal::Cause;

/// A process's number in a communicator, `0..size`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rank(pub u32);

impl Rank {
    /// No process (MPI_PROC_NULL, MPI 4.1 section 3.10): a send to it and a receive from it are
    /// over at once.
    pub const NULL: Self = Self(u32::MAX);
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A message's tag, `0..=Tag::MAX`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Tag(pub u32);

impl Tag {
    /// The largest tag (MPI_TAG_UB): all 31 bits of a non-negative C int.
    pub const MAX: Self = Self(0x7FFF_FFFF);
    /// The tag of no message: what a receive from [`Rank::NULL`] reports.
    pub const NONE: Self = Self(u32::MAX);
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The value that stands for "any" in a pattern; above every rank and tag.
pub(crate) const WILD: u32 = u32::MAX;

/// The source that a receive takes messages from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Source {
    /// This rank only.
    Rank(Rank),
    /// Any rank of the communicator (MPI_ANY_SOURCE).
    Any,
}

impl From<Rank> for Source {
    fn from(rank: Rank) -> Self {
        Self::Rank(rank)
    }
}

/// The tags that a receive takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum TagMatch {
    /// This tag only.
    Tag(Tag),
    /// Any tag (MPI_ANY_TAG).
    Any,
}

impl From<Tag> for TagMatch {
    fn from(tag: Tag) -> Self {
        Self::Tag(tag)
    }
}

/// The condition on which a send is complete (MPI 4.1 section 3.4). Buffered mode is none of these:
/// it is a send in standard mode of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(crate) enum Mode {
    /// Once its memory may be reused.
    #[default]
    Standard,
    /// Not before a receive has matched it.
    Synchronous,
    /// Like synchronous, but it is an error if that receive was posted later.
    Ready,
    /// Of a future ([`future`](mod@crate::api::future)): its memory is at hand while the future is
    /// polled and at no other time, so a send is announced and streams only then, and a receive
    /// asks for what one block holds at a time.
    Polled,
    /// Of a receive alone: its message is left where it is if that can be
    /// ([`view`](mod@crate::api::view)).
    Viewed,
    /// Announced once, and sent in parts round after round
    /// ([`partitioned`](mod@crate::api::partitioned)); of a receive, the other end of that.
    Partitioned,
}

/// The facts that a completed receive, or a probe, found out about its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Status {
    /// The rank that sent it; for a send, the rank that it went to.
    pub source: Rank,
    /// Its tag.
    pub tag: Tag,
    /// Its length in bytes.
    pub bytes: u64,
}

impl Status {
    /// The status of a receive from [`Rank::NULL`].
    pub(crate) const NULL: Self = Self { source: Rank::NULL, tag: Tag::NONE, bytes: 0 };
    /// The status of an operation that was cancelled. No message has this tag, and none is from
    /// there.
    pub(crate) const CANCELLED: Self = Self { source: Rank::NULL, tag: Tag(u32::MAX - 1), bytes: 0 };

    /// Returns true if the operation was cancelled (MPI_Test_cancelled): nothing was sent or
    /// received then, and the rest of this says nothing.
    pub fn is_cancelled(&self) -> bool {
        *self == Self::CANCELLED
    }

    /// Returns the number of elements of `E` in the message (MPI_Get_count).
    ///
    /// # Errors
    /// [`Cause::PartialElement`] if its length is no whole number of them.
    pub fn elements<E>(&self) -> Result<u64, Cause> {
        let element = size_of::<E>() as u64;
        match (self.bytes.checked_div(element), self.bytes.checked_rem(element)) {
            (Some(count), Some(0)) => Ok(count),
            _ => Err(Cause::PartialElement { bytes: self.bytes, element: element as u32 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_counts_whole_elements_only() {
        let status = Status { source: Rank(0), tag: Tag(0), bytes: 12 };
        assert_eq!(status.elements::<u32>(), Ok(3));
        assert_eq!(status.elements::<u64>(), Err(Cause::PartialElement { bytes: 12, element: 8 }));
        assert!(status.elements::<()>().is_err());
        assert!(!status.is_cancelled() && !Status::NULL.is_cancelled());
    }
}
