//! Groups that are made of others: MPI 4.1 section 7.3.2. Every result lives in memory that the
//! caller lends.

use aldis_hal::{Cause, PeerId};

use super::{Group, GroupPiece};
use crate::rank::Rank;

/// The result of comparing two groups or communicators (MPI 4.1 sections 7.3.1 and 7.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Comparison {
    /// Equal: the same processes in the same order; of communicators, the same one (MPI_IDENT).
    Identical,
    /// Of communicators: the same processes in the same order, in different contexts
    /// (MPI_CONGRUENT).
    Congruent,
    /// Equal as sets: the same processes in different orders (MPI_SIMILAR).
    Similar,
    /// Different processes (MPI_UNEQUAL).
    Unequal,
}

/// Ranks `first`, `first + stride`, ... up to `last`, which is one of them if the stride fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RankRange {
    /// The first rank.
    pub first: Rank,
    /// The bound, inclusive.
    pub last: Rank,
    /// The step, negative for ranks that fall. Not zero.
    pub stride: i32,
}

impl RankRange {
    /// Returns the number of its ranks in a group of `size`.
    fn len(&self, size: u32) -> Result<u32, Cause> {
        if let Some(&rank) = [self.first.0, self.last.0].iter().find(|&&rank| rank >= size) {
            return Err(Cause::RankOutOfRange { rank, size });
        }
        let distance = i64::from(self.last.0) - i64::from(self.first.0);
        match distance.checked_div(self.stride.into()) {
            // A distance within the stride rounds to zero, whichever way it leads.
            Some(steps) if steps >= 0 && distance.signum() * i64::from(self.stride.signum()) >= 0 => {
                Ok(steps as u32 + 1)
            }
            _ => Err(Cause::BadStride { stride: self.stride }),
        }
    }

    /// Its ranks, `len` of them.
    fn ranks(self, len: u32) -> impl Iterator<Item = u32> + Clone {
        (0..len).map(move |step| self.first.0.wrapping_add(step.wrapping_mul(self.stride.cast_unsigned())))
    }

    fn contains(&self, rank: u32, len: u32) -> bool {
        let distance = i64::from(rank) - i64::from(self.first.0);
        distance.checked_rem(self.stride.into()) == Some(0)
            && (0..i64::from(len)).contains(&(distance / i64::from(self.stride)))
    }
}

impl Group<'_> {
    /// Compares two groups (MPI_Group_compare).
    pub fn compare(&self, other: &Group<'_>) -> Comparison {
        if self.size() != other.size() {
            Comparison::Unequal
        } else if self.processes().eq(other.processes()) {
            Comparison::Identical
        } else if self.processes().all(|process| other.contains(process)) {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    /// Returns the ranks in `other` of the processes with these ranks; none for those that are not
    /// in it (MPI_Group_translate_ranks).
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] if the result has another length, [`Cause::RankOutOfRange`].
    pub fn translate_ranks(
        &self,
        ranks: &[Rank],
        other: &Group<'_>,
        into: &mut [Option<Rank>],
    ) -> Result<(), Cause> {
        if ranks.len() != into.len() {
            return Err(Cause::LengthMismatch { left: ranks.len() as u64, right: into.len() as u64 });
        }
        for (&rank, into) in ranks.iter().zip(into) {
            *into = other.rank_of(self.member(rank)?);
        }
        Ok(())
    }

    /// The processes of this group, then those of `other` that are not in it (MPI_Group_union).
    ///
    /// # Errors
    /// [`Cause::TooSmall`] if `memory` has too few pieces; it tells how many are needed.
    pub fn union<'m>(&self, other: &Group<'_>, memory: &'m mut [GroupPiece]) -> Result<Group<'m>, Cause> {
        let added = other.members().filter(|&process| !self.contains(PeerId(process)));
        Group::collect(self.members().chain(added), memory)
    }

    /// The processes of this group that are in `other` too, in this one's order
    /// (MPI_Group_intersection).
    ///
    /// # Errors
    /// [`Cause::TooSmall`] if `memory` has too few pieces; it tells how many are needed.
    pub fn intersection<'m>(
        &self,
        other: &Group<'_>,
        memory: &'m mut [GroupPiece],
    ) -> Result<Group<'m>, Cause> {
        Group::collect(self.members().filter(|&process| other.contains(PeerId(process))), memory)
    }

    /// The processes of this group that are not in `other` (MPI_Group_difference).
    ///
    /// # Errors
    /// [`Cause::TooSmall`] if `memory` has too few pieces; it tells how many are needed.
    pub fn difference<'m>(
        &self,
        other: &Group<'_>,
        memory: &'m mut [GroupPiece],
    ) -> Result<Group<'m>, Cause> {
        Group::collect(self.members().filter(|&process| !other.contains(PeerId(process))), memory)
    }

    /// The processes with these ranks, in the order of the list (MPI_Group_incl).
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`], [`Cause::DuplicateRank`], or as [`union`](Self::union).
    pub fn incl<'m>(&self, ranks: &[Rank], memory: &'m mut [GroupPiece]) -> Result<Group<'m>, Cause> {
        for &rank in ranks {
            self.member(rank)?;
        }
        self.picked(ranks.iter().map(|rank| rank.0), memory)
    }

    /// The processes with all ranks but these, in this group's order (MPI_Group_excl). Takes time
    /// proportional to the product of both sizes.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`], [`Cause::DuplicateRank`], or [`Cause::TooSmall`] if `memory` has
    /// too few pieces.
    pub fn excl<'m>(&self, ranks: &[Rank], memory: &'m mut [GroupPiece]) -> Result<Group<'m>, Cause> {
        for (position, &rank) in ranks.iter().enumerate() {
            self.member(rank)?;
            if ranks.iter().take(position).any(|&other| other == rank) {
                return Err(Cause::DuplicateRank { rank: rank.0 });
            }
        }
        self.picked((0..self.size()).filter(|&rank| !ranks.contains(&Rank(rank))), memory)
    }

    /// The processes with the ranks of these ranges, in the order of the list
    /// (MPI_Group_range_incl).
    ///
    /// # Errors
    /// [`Cause::BadStride`], or as [`incl`](Self::incl).
    pub fn range_incl<'m>(
        &self,
        ranges: &[RankRange],
        memory: &'m mut [GroupPiece],
    ) -> Result<Group<'m>, Cause> {
        self.check_ranges(ranges)?;
        self.picked(self.in_ranges(ranges), memory)
    }

    /// The processes with all ranks but those of these ranges, in this group's order
    /// (MPI_Group_range_excl).
    ///
    /// # Errors
    /// [`Cause::BadStride`], [`Cause::RankOutOfRange`], [`Cause::DuplicateRank`], or
    /// [`Cause::TooSmall`] if `memory` has too few pieces.
    pub fn range_excl<'m>(
        &self,
        ranges: &[RankRange],
        memory: &'m mut [GroupPiece],
    ) -> Result<Group<'m>, Cause> {
        self.check_ranges(ranges)?;
        let size = self.size();
        let holds = |range: &RankRange, rank| range.len(size).is_ok_and(|len| range.contains(rank, len));
        let out = |rank: &u32| !ranges.iter().any(|range| holds(range, *rank));
        self.picked((0..size).filter(out), memory)
    }

    fn member(&self, rank: Rank) -> Result<PeerId, Cause> {
        self.process(rank).ok_or(Cause::RankOutOfRange { rank: rank.0, size: self.size() })
    }

    /// The group of the members with these ranks, each of which is in range.
    fn picked<'m>(
        &self,
        ranks: impl Iterator<Item = u32> + Clone,
        memory: &'m mut [GroupPiece],
    ) -> Result<Group<'m>, Cause> {
        let members = ranks.filter_map(|rank| self.process(Rank(rank))).map(|process| process.0);
        let group = Group::collect(members, memory)?;
        match group.repeated() {
            Some(twice) => {
                Err(Cause::DuplicateRank { rank: self.rank_of(twice).map_or(twice.0, |rank| rank.0) })
            }
            None => Ok(group),
        }
    }

    fn in_ranges<'r>(&self, ranges: &'r [RankRange]) -> impl Iterator<Item = u32> + Clone + use<'r> {
        let size = self.size();
        ranges.iter().flat_map(move |range| range.ranks(range.len(size).unwrap_or(0)))
    }

    /// Checks that the ranges are ranges, and that no rank is in two of them.
    fn check_ranges(&self, ranges: &[RankRange]) -> Result<(), Cause> {
        for (position, range) in ranges.iter().enumerate() {
            let len = range.len(self.size())?;
            for other in ranges.iter().take(position) {
                let other_len = other.len(self.size())?;
                if let Some(rank) = range.ranks(len).find(|&rank| other.contains(rank, other_len)) {
                    return Err(Cause::DuplicateRank { rank });
                }
            }
        }
        Ok(())
    }
}
