//! Rows of a rank's table of peers where they are to be fewer than the ranks of its job: memory for
//! the peers that it is in contact with at a time ([`mod@aldis_kernel::storage`]).
//!
//! All ranks of a job have rows for all, or all have fewer: each tells its rows beside its card,
//! and none joins that is unlike the others.

use core::str::FromStr;
use core::{fmt, iter};

use aldis_drivers::shm::PairLengths;
use aldis_hal::PeerId;
use aldis_kernel::Memory;
use aldis_protocols::card::{CARD_BYTES_MAX, Card};

use crate::environment;
use crate::error::JoinError;
use crate::wireup::CardTable;

/// The variable that says for how many peers a rank has rows: `aldis-run --peers` sets it for all.
pub const VARIABLE: &str = "ALDIS_PEERS";

/// Rows for peers, this rank's own included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerRows(u32);

impl PeerRows {
    /// The fewest: this rank's own, one for a peer that it asks, and one for a peer that asks it.
    pub const MIN: u32 = 3;

    /// Rows of a rank of a job of `ranks`, as the environment asks; all if it asks nothing.
    ///
    /// # Errors
    /// [`JoinError::Setting`] for what is no number from [`MIN`](Self::MIN).
    pub(crate) fn asked(ranks: u32) -> Result<u32, JoinError> {
        let asked = environment::setting(VARIABLE)?;
        Ok(asked.map_or(ranks, |Self(rows)| rows.min(ranks)))
    }
}

impl FromStr for PeerRows {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rows = text.parse().ok().filter(|rows| *rows >= Self::MIN).map(Self);
        rows.ok_or_else(|| {
            format!("a number from {}: the rank itself, a peer that it asks and one that asks it", Self::MIN)
        })
    }
}

impl fmt::Display for PeerRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The numbers of a rank that all must know before the first message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JoinNumbers {
    /// The rows for peers that it has.
    pub(crate) rows: u32,
    /// The ways of two ranks in collectives, as this one has measured.
    pub(crate) pairs: PairLengths,
}

/// A rank's card as the wire-up carries it: with its numbers.
#[derive(Clone, Debug)]
pub(crate) struct JoinCard {
    pub(crate) card: Card,
    pub(crate) numbers: JoinNumbers,
}

/// Numbers behind the card, of four bytes.
const NUMBERS: usize = 3;
const NUMBERS_BYTES: usize = NUMBERS * size_of::<u32>();

impl JoinCard {
    /// The card of a rank on this memory, which has measured this.
    pub(crate) const fn new(card: Card, memory: &Memory<'_>, pairs: PairLengths) -> Self {
        Self { card, numbers: JoinNumbers { rows: memory.peers(), pairs } }
    }

    /// Writes it as the wire-up carries it.
    ///
    /// # Errors
    /// [`JoinError::Card`] if it does not fit.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, JoinError> {
        let undecodable = JoinError::Card { rank: self.card.peer().0, found: None };
        let mut buffer = [0; CARD_BYTES_MAX - NUMBERS_BYTES];
        let bytes = self.card.encode(&mut buffer).map_err(|_| undecodable)?;
        let JoinNumbers { rows, pairs: PairLengths { message_bytes_min, read_bytes_min } } = self.numbers;
        let numbers = [rows, message_bytes_min, read_bytes_min].map(u32::to_le_bytes);
        Ok([bytes, numbers.as_flattened()].concat())
    }

    /// Reads that of `rank` among those of all.
    ///
    /// # Errors
    /// [`JoinError::Card`] if it does not decode or is another rank's.
    pub(crate) fn of(cards: &CardTable, rank: u32) -> Result<Card, JoinError> {
        let undecodable = JoinError::Card { rank, found: None };
        let bytes = cards.bytes_of(rank).split_last_chunk::<NUMBERS_BYTES>();
        let card = bytes.and_then(|(bytes, _)| Card::decode(bytes).ok()).ok_or(undecodable)?;
        if card.peer() != PeerId(rank) {
            return Err(JoinError::Card { rank, found: Some(card.peer().0) });
        }
        Ok(card)
    }
}

impl JoinNumbers {
    /// Reads those of all ranks.
    ///
    /// # Errors
    /// [`JoinError::Card`] for the first that has none.
    pub(crate) fn of_all(cards: &CardTable) -> Result<Vec<Self>, JoinError> {
        let of = |rank| {
            let numbers = cards.bytes_of(rank).split_last_chunk::<NUMBERS_BYTES>();
            let (_, numbers) = numbers.ok_or(JoinError::Card { rank, found: None })?;
            let numbers = numbers.as_chunks().0.iter().copied().map(u32::from_le_bytes);
            let mut numbers = numbers.chain(iter::repeat(0));
            let mut next = || numbers.next().unwrap_or_default();
            let (rows, message_bytes_min, read_bytes_min) = (next(), next(), next());
            Ok(Self { rows, pairs: PairLengths { message_bytes_min, read_bytes_min } })
        };
        (0..cards.ranks()).map(of).collect()
    }
}

/// Checks that all ranks have rows for all, or all have fewer.
///
/// # Errors
/// [`JoinError::Rows`] with the first two that are unlike.
pub(crate) fn agree(all: &[JoinNumbers]) -> Result<(), JoinError> {
    let size = all.len() as u32;
    let rank_with = |enough: bool| (0..).zip(all).find(|(_, one)| (one.rows >= size) == enough);
    match (rank_with(true), rank_with(false)) {
        (Some((with_all, _)), Some((with_fewer, one))) => {
            Err(JoinError::Rows { with_all, with_fewer, rows: one.rows, size })
        }
        _ => Ok(()),
    }
}

/// Returns the ways of two ranks in collectives, as far as all have measured: the most bytes that
/// any says of each; zero if one has measured nothing.
pub(crate) fn pair_lengths(all: &[JoinNumbers]) -> PairLengths {
    let agreed = |of: fn(&PairLengths) -> u32| {
        let all = all.iter().map(|one| of(&one.pairs));
        if all.clone().any(|least| least == 0) { 0 } else { all.max().unwrap_or(0) }
    };
    PairLengths {
        message_bytes_min: agreed(|pairs| pairs.message_bytes_min),
        read_bytes_min: agreed(|pairs| pairs.read_bytes_min),
    }
}

#[cfg(test)]
mod tests {
    use aldis_hal::Epoch;
    use aldis_protocols::card::Room;

    use super::*;

    const fn numbers(rows: u32) -> JoinNumbers {
        JoinNumbers { rows, pairs: PairLengths { message_bytes_min: 70, read_bytes_min: 9 } }
    }

    #[test]
    fn fewer_rows_than_a_contact_needs_are_refused_with_the_minimum() {
        assert_eq!("3".parse(), Ok(PeerRows(3)));
        for text in ["2", "0", "-1", "all", ""] {
            assert!(text.parse::<PeerRows>().unwrap_err().starts_with("a number from 3"), "{text}");
        }
    }

    #[test]
    fn a_rank_whose_rows_are_unlike_the_others_is_named() {
        let all = |rows: [u32; 4]| rows.map(numbers);
        for alike in [[4; 4], [3; 4], [64, 4, 5, 4]] {
            assert_eq!(agree(&all(alike)), Ok(()), "{alike:?}");
        }
        let unlike = JoinError::Rows { with_all: 0, with_fewer: 2, rows: 3, size: 4 };
        assert_eq!(agree(&all([4, 64, 3, 4])), Err(unlike.clone()));
        let text = unlike.to_string();
        assert!(text.contains("rank 0") && text.contains("rank 2") && text.contains("--peers"), "{text}");
    }

    #[test]
    fn a_card_carries_its_numbers_and_is_its_ranks() {
        let room = Room { envelopes: 1, blocks: 0, block_bytes: 0 };
        let join = |rank| JoinCard { card: Card::new(PeerId(rank), Epoch(7), room), numbers: numbers(3) };
        let written = |rank| join(rank).encode().unwrap();
        let cards =
            CardTable::of(&[written(0), written(5), written(2)[..3].to_vec(), written(3)[1..].to_vec()]);
        assert_eq!(JoinCard::of(&cards, 0).unwrap(), join(0).card);
        let refused = |rank, found| Err(JoinError::Card { rank, found });
        assert_eq!(JoinCard::of(&cards, 1), refused(1, Some(5)), "another rank's");
        for rank in [2, 3, 4] {
            assert_eq!(JoinCard::of(&cards, rank), refused(rank, None), "cut, or none");
        }
        assert_eq!(JoinNumbers::of_all(&cards).unwrap_err(), JoinError::Card { rank: 2, found: None });
        let cards = CardTable::of(&[written(0), written(1)]);
        assert_eq!(JoinNumbers::of_all(&cards).unwrap(), [numbers(3); 2]);
    }
}
