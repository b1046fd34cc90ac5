//! Communicators: a context that keeps messages apart, and the group of ranks in it.
//!
//! A context id is a slot of the communicator table with its generation, so that a freed communicator's id is
//! recognised. Its top bit is the *plane*: collectives match on the other plane of the same communicator, so that
//! no tag of the user's can meet them.

use core::fmt;

use aldis_hal::{Cause, PeerId};

use crate::rank::Rank;

const PLANE: u32 = 1 << 31;
const SLOT_BITS: u32 = 16;

const fn context(slot: u16, generation: u16) -> u32 {
    (generation as u32) << SLOT_BITS | slot as u32
}

/// Context id of the world: all processes of the job.
pub(crate) const WORLD: u32 = context(0, 1);
/// Context id of each process's communicator with itself.
pub(crate) const ITSELF: u32 = context(1, 1);
/// Communicators that every endpoint has from the start.
pub const PREDEFINED: usize = 2;

/// Prints a context id as the user knows it: `communicator 3 (generation 2, collective)`. A slot's first generation
/// goes without saying.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

/// A communicator, seen from one of its ranks. A small handle; using one that was freed is a typed error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Comm {
    context: u32,
    rank: u32,
    size: u32,
}

impl Comm {
    /// This process's rank in it.
    pub const fn rank(&self) -> Rank {
        Rank(self.rank)
    }

    /// How many ranks it has.
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Its context id, as errors and traces name it.
    pub const fn context(&self) -> u32 {
        self.context
    }

    /// The same communicator on the plane of collectives, for those who implement one.
    #[must_use]
    pub const fn collective(&self) -> Self {
        Self { context: self.context | PLANE, ..*self }
    }
}

/// Which processes are in a communicator, and in which order: every `stride`-th from `first` on. The world and one
/// process are such groups; they take no memory and resolve a rank without a branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Group {
    first: u32,
    stride: u32,
    size: u32,
}

impl Group {
    const EMPTY: Self = Self { first: 0, stride: 0, size: 0 };

    #[inline]
    const fn peer(&self, rank: u32) -> Option<PeerId> {
        if rank < self.size {
            Some(PeerId(self.first.wrapping_add(rank.wrapping_mul(self.stride))))
        } else {
            None
        }
    }
}

/// A row of the communicator table; all-zero is a free one.
#[derive(Debug)]
pub(crate) struct Row {
    /// The context id on the plane of the user's messages; zero if the row is free, since generations start at one.
    context: u32,
    group: Group,
    /// This process's rank.
    rank: u32,
    /// Collectives started so far: the next one's tag.
    collectives: u32,
}

impl Row {
    pub(crate) const EMPTY: Self = Self { context: 0, group: Group::EMPTY, rank: 0, collectives: 0 };

    const fn new(context: u32, group: Group, rank: u32) -> Self {
        Self { context, group, rank, collectives: 0 }
    }
}

/// The communicator table.
#[derive(Debug)]
pub(crate) struct Comms<'s> {
    rows: &'s mut [Row],
}

impl<'s> Comms<'s> {
    /// The table with the world and this process's own communicator in it.
    pub(crate) fn new(rows: &'s mut [Row], me: PeerId, size: u32) -> Result<Self, Cause> {
        let have = rows.len() as u32;
        let [world, itself, ..] = rows else {
            let what = aldis_hal::Resource::Communicators;
            return Err(Cause::TooSmall { what, need: PREDEFINED as u32, have });
        };
        *world = Row::new(WORLD, Group { first: 0, stride: 1, size }, me.0);
        *itself = Row::new(ITSELF, Group { first: me.0, stride: 1, size: 1 }, 0);
        Ok(Self { rows })
    }

    #[inline]
    fn row(&mut self, context: u32) -> Option<&mut Row> {
        let row = self.rows.get_mut((context & 0xFFFF) as usize)?;
        if row.context == context & !PLANE { Some(row) } else { None }
    }

    /// The process behind a rank.
    #[inline]
    pub(crate) fn peer(&mut self, comm: &Comm, rank: Rank) -> Result<PeerId, Cause> {
        match self.row(comm.context) {
            Some(row) => {
                row.group.peer(rank.0).ok_or(Cause::RankOutOfRange { rank: rank.0, size: comm.size })
            }
            None => Err(Cause::Stale),
        }
    }

    /// Whether the communicator has not been freed.
    #[inline]
    pub(crate) fn check(&mut self, comm: &Comm) -> Result<(), Cause> {
        self.row(comm.context).map(|_| ()).ok_or(Cause::Stale)
    }

    /// Whether a message from `peer` may call itself `rank` in `context`. A context that is not known here yet may
    /// be known to the peer already.
    #[inline]
    pub(crate) fn admits(&mut self, context: u32, rank: u32, peer: PeerId) -> bool {
        match self.row(context) {
            Some(row) => row.group.peer(rank) == Some(peer),
            None => true,
        }
    }

    /// The next collective's number, the same on every rank since all start them in the same order.
    pub(crate) fn next_collective(&mut self, comm: &Comm) -> Result<u32, Cause> {
        let row = self.row(comm.context).ok_or(Cause::Stale)?;
        let number = row.collectives;
        row.collectives = (number + 1) & crate::rank::Tag::MAX.0;
        Ok(number)
    }

    /// The communicator in a row, if there is one.
    pub(crate) fn predefined(&self, slot: usize) -> Option<Comm> {
        let row = self.rows.get(slot).filter(|row| row.context != 0)?;
        Some(Comm { context: row.context, rank: row.rank, size: row.group.size })
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn ranks_are_resolved_and_checked() {
        let mut rows = [const { Row::EMPTY }; 2];
        let mut comms = Comms::new(&mut rows, PeerId(3), 4).unwrap();
        let (world, itself) = (comms.predefined(0).unwrap(), comms.predefined(1).unwrap());
        assert_eq!(comms.peer(&world, Rank(2)), Ok(PeerId(2)));
        assert_eq!(comms.peer(&world, Rank(4)), Err(Cause::RankOutOfRange { rank: 4, size: 4 }));
        assert_eq!(comms.peer(&itself, Rank(0)), Ok(PeerId(3)));
        assert_eq!(comms.peer(&itself, Rank(1)), Err(Cause::RankOutOfRange { rank: 1, size: 1 }));
        assert!(comms.admits(world.collective().context, 1, PeerId(1)));
        assert!(!comms.admits(world.context, 1, PeerId(2)), "a peer cannot speak for another");
        let freed = Comm { context: context(0, 2), ..world };
        assert_eq!(comms.peer(&freed, Rank(0)), Err(Cause::Stale));
        assert_eq!(
            (comms.next_collective(&world), comms.next_collective(&world.collective())),
            (Ok(0), Ok(1))
        );
    }

    #[test]
    fn a_table_without_room_for_world_and_self_is_refused() {
        let mut rows = [const { Row::EMPTY }; 1];
        let what = aldis_hal::Resource::Communicators;
        assert_eq!(
            Comms::new(&mut rows, PeerId(0), 1).err(),
            Some(Cause::TooSmall { what, need: 2, have: 1 })
        );
    }

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
