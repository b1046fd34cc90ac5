//! Communicators: a context that keeps messages apart, and the group of ranks in it (MPI 4.1
//! chapter 7).
//!
//! A context id is a slot of the communicator table with its generation, the same on all ranks. Its
//! top bit is the *plane*: collectives match on the other plane of the same communicator, so that
//! no tag of the user's can meet them.
//!
//! A slot is used again once it is free on all ranks of the next communicator, with the next
//! generation. Every member has a communicator in its table before any member may use it, so a
//! message in a context that is not in the table is of one that has been freed: it is turned away
//! and counted, and its credit given back. `aldis_coll::comm` has the collective calls that make
//! and free communicators; here is what they change.
//!
//! An *intercommunicator* (section 7.6) has two groups: a rank addresses the other, *remote* one,
//! and is itself ranked in its own, *local* one. Its row in the table holds the remote group, so
//! that sends, receives and probes find the other side by the same look-up as in any communicator;
//! its local group is that of a communicator of its own, the *companion*, which is what the local
//! ranks agree on anything by. So it takes two slots of the table.

use core::fmt;

use crate::rank::{Rank, WILD};

pub(crate) const PLANE: u32 = 1 << 31;
/// On the plane of collectives, whose tags have 31 bits as those of users have: what tags of
/// partitioned messages have more.
pub(crate) const PARTITIONED: u32 = 1 << 31;
pub(super) const SLOT_BITS: u32 = 16;
/// The last generation of a slot; the first comes after it.
pub const GENERATION_MAX: u32 = (PLANE >> SLOT_BITS) - 1;

pub(super) const fn context(slot: u32, generation: u32) -> u32 {
    generation << SLOT_BITS | slot
}

/// The slot of a context, on either plane.
pub(super) const fn slot(context: u32) -> u32 {
    context & ((1 << SLOT_BITS) - 1)
}

/// Returns true if a context without the sender in it is of a communicator that has been freed.
/// World and self never are.
#[inline]
pub(crate) const fn is_freed(context: u32) -> bool {
    slot(context) >= PREDEFINED as u32
}

/// Returns true if a tag is one that messages in a context have; of announced ones there are more.
#[inline]
pub(crate) const fn is_tag(context: u32, tag: u32, is_announced: bool) -> bool {
    tag & PARTITIONED == 0 || (is_announced && context & PLANE != 0 && tag != WILD)
}

/// Context id of the world: all processes of the job.
pub(crate) const WORLD: u32 = context(0, 1);
/// Context id of each process's communicator with itself.
pub(crate) const ITSELF: u32 = context(1, 1);
/// Communicators that every endpoint has from the start.
pub const PREDEFINED: usize = 2;

/// Prints a context id as the user knows it: `communicator 3 (generation 2, collective)`. A slot's
/// first generation goes without saying.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ContextName(
    /// The context id, as [`Comm::context`], errors and activities have it.
    pub u32,
);

impl fmt::Display for ContextName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (slot, generation) = (self.0 & 0xFFFF, (self.0 & !PLANE) >> SLOT_BITS);
        write!(f, "communicator {slot}")?;
        match (generation, self.0 & PLANE != 0) {
            (0 | 1, false) => Ok(()),
            (0 | 1, true) => f.write_str(" (collective)"),
            (_, false) => write!(f, " (generation {generation})"),
            (_, true) => write!(f, " (generation {generation}, collective)"),
        }
    }
}

/// A communicator, seen from one of its ranks. A small handle; using one that was freed is a typed
/// error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Comm {
    pub(super) context: u32,
    pub(super) rank: u32,
    pub(super) size: u32,
    /// Ranks of the remote group; none in a communicator of one group.
    pub(super) remote: u32,
}

impl Comm {
    /// The communicator of a context that every endpoint has.
    pub(crate) const fn predefined(context: u32, rank: u32, size: u32) -> Self {
        Self { context, rank, size, remote: 0 }
    }

    /// This process's rank in it; of an intercommunicator, in the local group.
    pub const fn rank(&self) -> Rank {
        Rank(self.rank)
    }

    /// Returns the number of its ranks; of an intercommunicator, of those in the local group.
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Returns the number of ranks in the remote group (MPI_Comm_remote_size); zero unless it is an
    /// intercommunicator.
    pub const fn remote_size(&self) -> u32 {
        self.remote
    }

    /// Returns true if it has two groups (MPI_Comm_test_inter).
    pub const fn is_inter(&self) -> bool {
        self.remote > 0
    }

    /// Its context id, as errors and traces name it.
    pub const fn context(&self) -> u32 {
        self.context
    }

    /// The slot of the communicator table that it is in, on all its ranks.
    pub(crate) const fn slot(&self) -> u32 {
        slot(self.context)
    }

    /// Returns true if a context is on the plane of collectives.
    pub(crate) const fn is_collective(context: u32) -> bool {
        context & PLANE != 0
    }

    /// Returns the communicator on the plane of the user's messages.
    pub(crate) const fn user(&self) -> Self {
        Self { context: self.context & !PLANE, ..*self }
    }

    /// Returns the communicator on the plane of collectives, for implementers of collectives.
    #[must_use]
    pub const fn collective(&self) -> Self {
        Self { context: self.context | PLANE, ..*self }
    }
}

/// Words of a [`ContextOffer`]: 256 slots at a time.
pub const CONTEXT_WORDS: usize = 4;

/// Slots of the communicator table that are free here: what the members of a communicator-to-be
/// agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ContextOffer {
    /// A bit for each slot from the one that was asked for on; set if it is free.
    pub free: [u64; CONTEXT_WORDS],
    /// There are slots behind these.
    pub more: bool,
}

/// The members of a communicator that is to be made.
#[derive(Clone, Debug)]
pub enum Members<I> {
    /// The ranks that are addressed in another communicator, in the same order.
    Of(Comm),
    /// The first so many ranks of another communicator, in the same order.
    First(Comm, u32),
    /// The ranks of both groups of an intercommunicator.
    Both {
        /// The intercommunicator.
        inter: Comm,
        /// The ranks of its remote group come first.
        remote_first: bool,
    },
    /// A list of processes, which are distinct.
    These(I),
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn a_context_is_printed_by_slot_and_plane() {
        assert_eq!(ContextName(WORLD).to_string(), "communicator 0");
        assert_eq!(ContextName(ITSELF | PLANE).to_string(), "communicator 1 (collective)");
        assert_eq!(ContextName(context(3, 2)).to_string(), "communicator 3 (generation 2)");
        assert_eq!(
            ContextName(context(3, 2) | PLANE).to_string(),
            "communicator 3 (generation 2, collective)"
        );
    }
}
