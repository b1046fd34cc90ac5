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

/// A rank's card as the wire-up carries it: with the rows for peers that it has.
#[derive(Clone, Debug)]
pub(crate) struct JoinCard {
    pub(crate) card: Card,
    pub(crate) rows: u32,
    /// The ways of two ranks in collectives, as this one has measured.
    pub(crate) pairs: PairLengths,
}

/// Numbers behind the card, of four bytes.
const NUMBERS: usize = 3;
const NUMBERS_BYTES: usize = NUMBERS * size_of::<u32>();

impl JoinCard {
    /// The card of a rank on this memory, which has measured this.
    pub(crate) const fn new(card: Card, memory: &Memory<'_>, pairs: PairLengths) -> Self {
        Self { card, rows: memory.peers(), pairs }
    }

    /// Writes it as the wire-up carries it.
    ///
    /// # Errors
    /// [`JoinError::Card`] if it does not fit.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, JoinError> {
        let undecodable = JoinError::Card { rank: self.card.peer().0, found: None };
        let mut buffer = [0; CARD_BYTES_MAX - NUMBERS_BYTES];
        let bytes = self.card.encode(&mut buffer).map_err(|_| undecodable)?;
        let PairLengths { message_bytes_min, read_bytes_min } = self.pairs;
        let numbers = [self.rows, message_bytes_min, read_bytes_min].map(u32::to_le_bytes);
        Ok([bytes, numbers.as_flattened()].concat())
    }

    /// Reads that of `rank`.
    ///
    /// # Errors
    /// [`JoinError::Card`] if it does not decode or is another rank's.
    pub(crate) fn decode(rank: u32, bytes: &[u8]) -> Result<Self, JoinError> {
        let undecodable = JoinError::Card { rank, found: None };
        let Some((bytes, numbers)) = bytes.split_last_chunk::<NUMBERS_BYTES>() else {
            return Err(undecodable);
        };
        let card = Card::decode(bytes).map_err(|_| undecodable)?;
        if card.peer() != PeerId(rank) {
            return Err(JoinError::Card { rank, found: Some(card.peer().0) });
        }
        let numbers = numbers.as_chunks().0.iter().copied().map(u32::from_le_bytes);
        let mut numbers = numbers.chain(iter::repeat(0));
        let mut next = || numbers.next().unwrap_or_default();
        let (rows, message_bytes_min, read_bytes_min) = (next(), next(), next());
        Ok(Self { card, rows, pairs: PairLengths { message_bytes_min, read_bytes_min } })
    }
}

/// Checks that all ranks have rows for all, or all have fewer.
///
/// # Errors
/// [`JoinError::Rows`] with the first two that are unlike.
pub(crate) fn agree(cards: &[JoinCard]) -> Result<(), JoinError> {
    let size = cards.len() as u32;
    let rank_with = |all: bool| (0..).zip(cards).find(|(_, card)| (card.rows >= size) == all);
    match (rank_with(true), rank_with(false)) {
        (Some((with_all, _)), Some((with_fewer, card))) => {
            Err(JoinError::Rows { with_all, with_fewer, rows: card.rows, size })
        }
        _ => Ok(()),
    }
}

/// Returns the ways of two ranks in collectives, as far as all have measured: the most bytes that
/// any says of each; zero if one has measured nothing.
pub(crate) fn pair_lengths(cards: &[JoinCard]) -> PairLengths {
    let agreed = |of: fn(&PairLengths) -> u32| {
        let all = cards.iter().map(|card| of(&card.pairs));
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

    fn card(rank: u32, rows: u32) -> JoinCard {
        let room = Room { envelopes: 1, blocks: 0, block_bytes: 0 };
        JoinCard { card: Card::new(PeerId(rank), Epoch(7), room), rows, pairs: PairLengths::default() }
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
        let cards = |rows: [u32; 4]| (0..).zip(rows).map(|(rank, rows)| card(rank, rows)).collect::<Vec<_>>();
        for alike in [[4; 4], [3; 4], [64, 4, 5, 4]] {
            assert_eq!(agree(&cards(alike)), Ok(()), "{alike:?}");
        }
        let unlike = JoinError::Rows { with_all: 0, with_fewer: 2, rows: 3, size: 4 };
        assert_eq!(agree(&cards([4, 64, 3, 4])), Err(unlike.clone()));
        let text = unlike.to_string();
        assert!(text.contains("rank 0") && text.contains("rank 2") && text.contains("--peers"), "{text}");
    }

    #[test]
    fn a_card_carries_its_rows_and_is_its_ranks() {
        let bytes = card(5, 3).encode().unwrap();
        assert_eq!(JoinCard::decode(5, &bytes).unwrap().rows, 3);
        let others = JoinError::Card { rank: 4, found: Some(5) };
        assert_eq!(JoinCard::decode(4, &bytes).unwrap_err(), others);
        for bytes in [&bytes[..3], &bytes[1..]] {
            assert_eq!(JoinCard::decode(5, bytes).unwrap_err(), JoinError::Card { rank: 5, found: None });
        }
    }
}
