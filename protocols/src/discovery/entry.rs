//! The state that a roster keeps of one rank.

use aldis_hal::Epoch;
use aldis_hal::nic::Mac;

use super::Message;
use crate::card::CARD_BYTES_MAX;

/// A rank's place in a [`Roster`](super::Roster): its life, its station and its card. The memory is
/// the caller's, its contents the roster's.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its life; zero: nothing is known.
    pub(super) epoch: u32,
    /// The life before; zero: none.
    previous: u32,
    /// The first number that it was asked with because another card than this one was seen; zero:
    /// not asked.
    pub(super) challenge: u32,
    pub(super) station: Mac,
    length: u8,
    /// True while this card has not been reported to the user.
    pub(super) news: bool,
    card: [u8; CARD_BYTES_MAX],
}

const _: () = assert!(CARD_BYTES_MAX <= u8::MAX as usize, "a length must fit");

impl Entry {
    /// No station. All-zero, so that a static table takes no room in an image.
    pub const EMPTY: Self = Self {
        epoch: 0,
        previous: 0,
        challenge: 0,
        station: Mac([0; 6]),
        length: 0,
        news: false,
        card: [0; CARD_BYTES_MAX],
    };

    pub(super) const fn is_known(&self) -> bool {
        self.epoch != 0
    }

    pub(super) fn card(&self) -> Option<&[u8]> {
        self.is_known().then(|| self.card.get(..usize::from(self.length)).unwrap_or_default())
    }

    /// Returns true if `epoch` is a life that was replaced by this one.
    pub(super) const fn has_replaced(&self, epoch: Epoch) -> bool {
        self.is_known() && self.previous == epoch.0
    }

    /// Returns true if the entry holds this very card.
    pub(super) fn holds(&self, message: &Message<'_>) -> bool {
        self.epoch == message.epoch.0 && self.card() == Some(message.card)
    }

    /// Takes a card that is known to be the rank's. It is at most [`CARD_BYTES_MAX`] long.
    pub(super) fn learn(&mut self, station: Mac, epoch: Epoch, card: &[u8]) {
        if self.epoch != epoch.0 {
            self.previous = self.epoch;
        }
        (self.epoch, self.station, self.challenge, self.news) = (epoch.0, station, 0, true);
        self.length = 0;
        if let Some(place) = self.card.get_mut(..card.len()) {
            place.copy_from_slice(card);
            self.length = card.len() as u8;
        }
    }
}
