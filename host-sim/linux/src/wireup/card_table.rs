//! The cards of all ranks of a job, one after the other, as the ranks of a node share them.
//!
//! The offsets at which they end, of four bytes each (little-endian) from the end of the offsets
//! on, then the cards. The launcher writes the table once a node, to a file that nobody can change
//! from then on; ranks map it, and decode a card when they need it.

use std::borrow::Cow;
use std::os::fd::OwnedFd;

use crate::segment::{SegmentError, create_constant, map_constant};

/// Bytes of an offset.
const OFFSET_BYTES: usize = size_of::<u32>();

/// A table of cards. What it holds is no more believed than what a rank sends: a card that is cut
/// off or is another rank's does not decode as the one that was asked for.
#[derive(Clone, Debug)]
pub struct CardTable {
    ranks: u32,
    bytes: Cow<'static, [u8]>,
}

impl CardTable {
    /// The table of these cards, by rank.
    pub fn of(cards: &[Vec<u8>]) -> Self {
        let mut end = 0_u32;
        let offsets = cards.iter().flat_map(|card| {
            end = end.saturating_add(card.len() as u32);
            end.to_le_bytes()
        });
        let mut bytes: Vec<u8> = offsets.collect();
        bytes.extend(cards.iter().flatten());
        Self { ranks: cards.len() as u32, bytes: bytes.into() }
    }

    /// Writes it to a file for the ranks of a node of this job.
    ///
    /// # Errors
    /// [`SegmentError::NoMemory`] with both numbers, or the system call that failed.
    pub fn share(&self, job: u64) -> Result<SharedCards, SegmentError> {
        let file = create_constant(&format!("aldis-{job:016x}-cards"), &self.bytes)?;
        Ok(SharedCards { file, bytes: self.bytes.len() as u64 })
    }

    /// Maps the file of a table of so many ranks and bytes, for the rest of the process.
    ///
    /// # Errors
    /// The causes that [`SegmentError`] names: size, seals, addresses, or the system.
    pub fn map(file: &OwnedFd, ranks: u32, bytes: u64) -> Result<Self, SegmentError> {
        let bytes = map_constant(file, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        Ok(Self { ranks, bytes: bytes.into() })
    }

    /// The number of ranks that it has cards of.
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The bytes of a rank's card; none where it has none.
    pub fn bytes_of(&self, rank: u32) -> &[u8] {
        self.find(rank).unwrap_or_default()
    }

    fn find(&self, rank: u32) -> Option<&[u8]> {
        let (offsets, cards) = self.bytes.split_at_checked(self.ranks as usize * OFFSET_BYTES)?;
        let end_of = |rank: u32| {
            offsets.as_chunks().0.get(rank as usize).map(|bytes| u32::from_le_bytes(*bytes) as usize)
        };
        let start = rank.checked_sub(1).map_or(Some(0), end_of)?;
        cards.get(start..end_of(rank)?)
    }
}

/// The file of a table.
#[derive(Debug)]
pub struct SharedCards {
    /// The file.
    pub file: OwnedFd,
    /// Its bytes.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use aldis_sys::file::pwrite;
    use proptest::prelude::*;

    use super::*;
    use crate::segment;

    fn cards() -> Vec<Vec<u8>> {
        vec![vec![1, 2, 3], vec![], vec![4]]
    }

    #[test]
    fn a_shared_table_has_the_card_of_each_rank() {
        let SharedCards { file, bytes } = CardTable::of(&cards()).share(7).unwrap();
        let table = CardTable::map(&file, 3, bytes).unwrap();
        assert_eq!(table.ranks(), 3);
        let found: Vec<&[u8]> = (0..4).map(|rank| table.bytes_of(rank)).collect();
        assert_eq!(found, [&[1, 2, 3][..], &[], &[4], &[]]);
    }

    #[test]
    fn nobody_can_change_a_shared_table() {
        let SharedCards { file, .. } = CardTable::of(&cards()).share(7).unwrap();
        assert!(pwrite(&file, &[9], 12).is_err());
    }

    #[test]
    fn a_file_that_could_be_changed_is_refused() {
        let label = crate::board::Label { job: 1, rank: 0, size: 1 };
        let file = segment::create(label, segment::LEAST_BYTES).unwrap();
        let refused = CardTable::map(&file, 1, segment::LEAST_BYTES as u64);
        assert!(matches!(refused, Err(SegmentError::Unsealed { .. })), "{refused:?}");
    }

    #[test]
    fn a_file_of_another_length_is_refused() {
        let SharedCards { file, bytes } = CardTable::of(&cards()).share(7).unwrap();
        for told in [bytes - 1, bytes + 1, u64::MAX] {
            let refused = CardTable::map(&file, 3, told);
            assert!(matches!(refused, Err(SegmentError::Size { .. })), "{refused:?}");
        }
    }

    proptest! {
        #[test]
        fn cards_come_back(cards in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..40)) {
            let table = CardTable::of(&cards);
            for (rank, card) in (0..).zip(&cards) {
                prop_assert_eq!(table.bytes_of(rank), &card[..]);
            }
        }

        #[test]
        fn any_bytes_are_read_without_harm(ranks: u32, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let few = ranks % 60;
            for ranks in [ranks, few] {
                let table = CardTable { ranks, bytes: bytes.clone().into() };
                for rank in [0, 1, few, ranks.saturating_sub(1), ranks, u32::MAX] {
                    prop_assert!(table.bytes_of(rank).len() <= bytes.len());
                }
            }
        }
    }
}
