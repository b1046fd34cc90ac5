//! Rows of a rank's table of peers where they are to be fewer than the ranks of its job: memory for
//! the peers that it is in contact with at a time ([`mod@aldis_kernel::storage`]).
//!
//! All ranks of a job have rows for all, or all have fewer: each tells its rows beside its card,
//! and none joins that is unlike the others.

use core::fmt;
use core::str::FromStr;

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
    /// Bytes that two ranks pass sooner in a message, as this one has measured; zero for none.
    pub(crate) pair_message_bytes_min: u32,
}

/// Bytes of a number behind the card, of which there are two.
const NUMBER_BYTES: usize = size_of::<u32>();

impl JoinCard {
    /// The card of a rank on this memory, which has measured this.
    pub(crate) const fn new(card: Card, memory: &Memory<'_>, pair_message_bytes_min: u32) -> Self {
        Self { card, rows: memory.peers(), pair_message_bytes_min }
    }

    /// Writes it as the wire-up carries it.
    ///
    /// # Errors
    /// [`JoinError::Card`] if it does not fit.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, JoinError> {
        let undecodable = JoinError::Card { rank: self.card.peer().0, found: None };
        let mut buffer = [0; CARD_BYTES_MAX - 2 * NUMBER_BYTES];
        let bytes = self.card.encode(&mut buffer).map_err(|_| undecodable)?;
        Ok([bytes, &self.rows.to_le_bytes(), &self.pair_message_bytes_min.to_le_bytes()].concat())
    }

    /// Reads that of `rank`.
    ///
    /// # Errors
    /// [`JoinError::Card`] if it does not decode or is another rank's.
    pub(crate) fn decode(rank: u32, bytes: &[u8]) -> Result<Self, JoinError> {
        let undecodable = JoinError::Card { rank, found: None };
        let numbers = bytes.split_last_chunk::<NUMBER_BYTES>();
        let numbers =
            numbers.and_then(|(bytes, least)| Some((bytes.split_last_chunk::<NUMBER_BYTES>()?, least)));
        let Some(((bytes, rows), least)) = numbers else { return Err(undecodable) };
        let card = Card::decode(bytes).map_err(|_| undecodable)?;
        if card.peer() != PeerId(rank) {
            return Err(JoinError::Card { rank, found: Some(card.peer().0) });
        }
        let [rows, pair_message_bytes_min] = [rows, least].map(|number| u32::from_le_bytes(*number));
        Ok(Self { card, rows, pair_message_bytes_min })
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

/// Returns the bytes that two ranks pass sooner in a message, as far as all have measured: the most
/// that any says; zero if one has measured nothing.
pub(crate) fn pair_message_bytes_min(cards: &[JoinCard]) -> u32 {
    let all = cards.iter().map(|card| card.pair_message_bytes_min);
    if all.clone().any(|least| least == 0) { 0 } else { all.max().unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use aldis_hal::Epoch;
    use aldis_protocols::card::Room;

    use super::*;

    fn card(rank: u32, rows: u32) -> JoinCard {
        let room = Room { envelopes: 1, blocks: 0, block_bytes: 0 };
        JoinCard { card: Card::new(PeerId(rank), Epoch(7), room), rows, pair_message_bytes_min: 0 }
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
