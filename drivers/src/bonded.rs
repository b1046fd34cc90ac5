//! Two cards as one: frames take turns on both, and go by one alone while the other carries none.
//!
//! A [`BondedNic`] is a [`Nic`] of two, so that [`Discovery`](crate::Discovery) and
//! [`Ethernet`](crate::Ethernet) stand on it as they do on a device. Both cards take frames to one
//! address, that of the first, and each peer is reached by both, through one switch or two.
//!
//! ```
//! use aldis_drivers::bonded::BondedNic;
//! use aldis_hal::Nic;
//!
//! # fn bonded<N: Nic>(cards: [N; 2]) -> impl Nic {
//! let [first, second] = cards;
//! let frame = [0_u8; 1514]; // as long as the longest frame of either
//! BondedNic::new(first, second, frame)
//! # }
//! ```
//!
//! # Which card a frame takes
//!
//! * A card without a link takes none while the other has one.
//! * To a peer that answers by both, frames go by each in turn: twice the bandwidth of one.
//! * A card that a peer no longer answers by, though it does by the other, is left alone: its
//!   cable, or the peer's, is cut behind a switch, which no link tells. Each [`PROBE_EVERY`]th
//!   frame tries it, and each eighth while nothing is heard at all; once the peer has answered by
//!   it for [`TRIAL`] frames it has its turns again.
//!
//! Frames that were lost until then are sent again by the reliable protocol, and by the other
//! card: nothing is lost, and nothing is late by more than some retransmissions. Frames that
//! overtake each other are what that protocol expects.
//!
//! # Bounds
//!
//! [`PATHS`] peers are told apart, by their addresses; more share what is known of them, which
//! costs some of their frames a retransmission while a card is cut. A frame is copied once more, as
//! the card is chosen when its receiver is known.

use core::fmt;

use aldis_hal::Nic;
use aldis_hal::copy::copy;
use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Offload, RxFrame, TxFrame};

/// The peers that are told apart; a power of two.
pub const PATHS: usize = 64;

/// Frames to a peer, of which one tries the card that it does not answer by.
pub const PROBE_EVERY: u8 = 64;

/// Frames that are heard by the other card, and such as are sent, before one that has carried no
/// answer meanwhile is left alone: peers take turns too.
const PATIENCE: u8 = 8;

/// Frames that are heard by a card that was left alone before it has its turns again. A cable that
/// is cut one way alone costs eight frames each time.
pub const TRIAL: u8 = 8;

/// Frames that are sent without any answer, before each eighth of them tries the other card: about
/// as many as a peer acknowledges together where all is well.
const SILENCE: u8 = 16;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BondSide {
    First,
    Second,
}

impl BondSide {
    const fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// The way to a peer by one card. Counts stop at 255.
#[derive(Clone, Copy)]
struct PathState {
    /// Frames sent by it since the peer was heard by it.
    sent: u8,
    /// Frames heard by the other since the peer was heard by it.
    missed: u8,
    /// Frames still to be heard before it has its turns again; zero while it has.
    trial: u8,
}

impl PathState {
    const NEW: Self = Self { sent: 0, missed: 0, trial: 0 };

    const fn is_cut(&self) -> bool {
        self.sent >= PATIENCE && self.missed >= PATIENCE
    }
}

/// The two ways to a peer.
#[derive(Clone, Copy)]
struct Paths {
    ways: [PathState; 2],
    /// Frames sent, modulo 256.
    sent: u8,
    /// Frames sent since the peer was heard at all.
    unheard: u8,
}

impl Paths {
    const NEW: Self = Self { ways: [PathState::NEW; 2], sent: 0, unheard: 0 };

    /// The way by a card, and the other.
    const fn ways(&mut self, card: BondSide) -> (&mut PathState, &mut PathState) {
        let [first, second] = &mut self.ways;
        match card {
            BondSide::First => (first, second),
            BondSide::Second => (second, first),
        }
    }

    /// The card for the next frame, of two that have a link.
    fn next(&mut self) -> BondSide {
        let tries = self.sent.is_multiple_of(PROBE_EVERY)
            || self.unheard >= SILENCE && self.sent.is_multiple_of(PATIENCE);
        for card in [BondSide::First, BondSide::Second] {
            if self.ways(card).0.trial != 0 {
                return if tries { card } else { card.other() };
            }
        }
        if self.sent.is_multiple_of(2) { BondSide::First } else { BondSide::Second }
    }

    /// Notes a frame that is sent.
    fn count(&mut self, card: BondSide) {
        self.sent = self.sent.wrapping_add(1);
        self.unheard = self.unheard.saturating_add(1);
        let way = self.ways(card).0;
        way.sent = way.sent.saturating_add(1);
    }

    /// Notes a frame that is heard.
    fn hear(&mut self, card: BondSide) {
        self.unheard = 0;
        let (way, other) = self.ways(card);
        *way = PathState { trial: way.trial.saturating_sub(1), ..PathState::NEW };
        other.missed = other.missed.saturating_add(1);
        if other.trial == 0 && other.is_cut() {
            // One of them always has its turns.
            (way.trial, other.trial) = (0, TRIAL);
        }
    }
}

/// The paths to all peers.
struct PathTable([Paths; PATHS]);

impl PathTable {
    /// The paths to the station whose address begins at this byte of a frame.
    fn of(&mut self, frame: &[u8], at: usize) -> Option<&mut Paths> {
        let address = frame.get(at..)?.first_chunk::<6>()?;
        // Addresses of one job differ in any of their bytes.
        let sum = address.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
        self.0.get_mut(sum % PATHS)
    }
}

/// The places of the receiver's and of the sender's address in a frame.
const RECEIVER: usize = 0;
const SENDER: usize = 6;

/// Two cards as one. See the [module](self).
pub struct BondedNic<A, B, M> {
    first: A,
    second: B,
    /// The frame that is being written.
    frame: M,
    paths: PathTable,
    /// The card that is looked at first for the next frame received.
    turn: BondSide,
}

impl<A: Nic, B: Nic, M: AsMut<[u8]>> BondedNic<A, B, M> {
    /// Bonds two cards. `frame` is as long as the longest frame: a longer one than it is not sent.
    pub const fn new(first: A, second: B, frame: M) -> Self {
        let paths = PathTable([Paths::NEW; PATHS]);
        Self { first, second, frame, paths, turn: BondSide::First }
    }

    /// The first card, whose address both have.
    pub const fn first(&self) -> &A {
        &self.first
    }

    /// The second card.
    pub const fn second(&self) -> &B {
        &self.second
    }

    /// Both cards, for what they need besides frames.
    pub const fn both_mut(&mut self) -> (&mut A, &mut B) {
        (&mut self.first, &mut self.second)
    }

    /// The card for the frame that has been written.
    fn choose(&mut self, len: usize) -> BondSide {
        match (self.first.link(), self.second.link()) {
            (LinkState::Up, LinkState::Down) => BondSide::First,
            (LinkState::Down, LinkState::Up) => BondSide::Second,
            _ => {
                let frame = self.frame.as_mut().get(..len).unwrap_or_default();
                self.paths.of(frame, RECEIVER).map_or(BondSide::First, Paths::next)
            }
        }
    }

    /// Sends the frame that has been written by the chosen card, or by the other if that has no
    /// room.
    fn send(&mut self, len: usize) {
        let chosen = self.choose(len);
        let Self { first, second, frame, paths, .. } = self;
        let Some(frame) = frame.as_mut().get(..len) else { return };
        for card in [chosen, chosen.other()] {
            let is_sent = match card {
                BondSide::First => send_by(first, frame),
                BondSide::Second => send_by(second, frame),
            };
            if is_sent {
                if let Some(paths) = paths.of(frame, RECEIVER) {
                    paths.count(card);
                }
                return;
            }
        }
    }
}

/// Sends a frame by a card; false if that has no room.
fn send_by(nic: &mut impl Nic, frame: &[u8]) -> bool {
    let Some(mut token) = nic.transmit(frame.len()) else { return false };
    copy(token.bytes(), frame);
    token.send();
    true
}

impl<A: Nic, B: Nic, M: AsMut<[u8]>> Nic for BondedNic<A, B, M> {
    type Rx<'a>
        = BondedRx<A::Rx<'a>, B::Rx<'a>>
    where
        Self: 'a;
    type Tx<'a>
        = BondedTx<'a, A, B, M>
    where
        Self: 'a;

    /// The next frame of either card; each is looked at first in turn.
    fn receive(&mut self) -> Option<BondedRx<A::Rx<'_>, B::Rx<'_>>> {
        let Self { first, second, paths, turn, .. } = self;
        let looked = *turn;
        *turn = looked.other();
        let frame = match looked {
            BondSide::First => match first.receive() {
                Some(frame) => BondedRx::First(frame),
                None => BondedRx::Second(second.receive()?),
            },
            BondSide::Second => match second.receive() {
                Some(frame) => BondedRx::Second(frame),
                None => BondedRx::First(first.receive()?),
            },
        };
        let card = if matches!(frame, BondedRx::First(_)) { BondSide::First } else { BondSide::Second };
        if let Some(paths) = paths.of(frame.bytes(), SENDER) {
            paths.hear(card);
        }
        Some(frame)
    }

    fn transmit(&mut self, len: usize) -> Option<BondedTx<'_, A, B, M>> {
        let fits = len <= self.frame.as_mut().len() && len <= self.mtu() + MAC_HEADER_BYTES;
        // A token that is dropped gives its descriptor back.
        let has_room = fits && (self.first.transmit(len).is_some() || self.second.transmit(len).is_some());
        has_room.then_some(BondedTx { nic: self, len })
    }

    fn mtu(&self) -> usize {
        self.first.mtu().min(self.second.mtu())
    }

    fn mac(&self) -> Mac {
        self.first.mac()
    }

    /// Up if either is.
    fn link(&self) -> LinkState {
        match self.first.link() {
            LinkState::Up => LinkState::Up,
            LinkState::Down => self.second.link(),
        }
    }

    /// The checksums that both take over.
    fn offload(&self) -> Offload {
        self.first.offload() & self.second.offload()
    }
}

impl<A: fmt::Debug, B: fmt::Debug, M> fmt::Debug for BondedNic<A, B, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, second, .. } = self;
        f.debug_struct("BondedNic").field("first", first).field("second", second).finish_non_exhaustive()
    }
}

/// A received frame of either card.
#[derive(Debug)]
pub enum BondedRx<A, B> {
    /// Of the first.
    First(A),
    /// Of the second.
    Second(B),
}

impl<A: RxFrame, B: RxFrame> RxFrame for BondedRx<A, B> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::First(frame) => frame.bytes(),
            Self::Second(frame) => frame.bytes(),
        }
    }

    fn checked(&self) -> Offload {
        match self {
            Self::First(frame) => frame.checked(),
            Self::Second(frame) => frame.checked(),
        }
    }
}

/// A frame to be filled, which gets its card when it is sent.
#[derive(Debug)]
pub struct BondedTx<'a, A: Nic, B: Nic, M: AsMut<[u8]>> {
    nic: &'a mut BondedNic<A, B, M>,
    len: usize,
}

impl<A: Nic, B: Nic, M: AsMut<[u8]>> TxFrame for BondedTx<'_, A, B, M> {
    fn bytes(&mut self) -> &mut [u8] {
        self.nic.frame.as_mut().get_mut(..self.len).unwrap_or_default()
    }

    fn send(self) {
        self.nic.send(self.len);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
