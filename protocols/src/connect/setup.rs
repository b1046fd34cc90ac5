//! The settings that the two sides bring along, and the events that the caller gets.

use aldis_hal::Epoch;

use super::{HandshakeRefusal, LinkOffer};
use crate::reliable::LinkEnds;

/// From one number to the next: the slot below stays.
pub(super) const GENERATION: u32 = 1 << 16;

/// The slot that a connection number of this side names.
#[must_use]
pub const fn slot(number: u32) -> u16 {
    (number % GENERATION) as u16
}

/// The crossing rule: of two ranks that ask each other at once, the higher answers.
#[must_use]
pub const fn yields(rank: u32, peer: u32) -> bool {
    rank > peer
}

/// The identity of this side and what it asks for; one for all peers. Times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct HandshakeSetup {
    /// The key of the job: peers of another are refused.
    pub job: u64,
    /// This side's rank.
    pub rank: u32,
    /// This side's life.
    pub epoch: Epoch,
    /// The limits of what this side takes.
    pub offer: LinkOffer,
    /// The least that a peer's frames must be able to carry.
    pub frame_bytes_min: u16,
    /// The time after which a message that found no answer is first repeated; at least 1.
    pub retry_first_ns: u64,
    /// The longest interval between repetitions.
    pub retry_max_ns: u64,
    /// The longest time that an attempt may take.
    pub deadline_ns: u64,
}

impl HandshakeSetup {
    /// For a local network: repeated after 10 ms to 1 s, given up after 10 s. Job, rank and epoch
    /// are to be filled in.
    pub const DEFAULT: Self = Self {
        job: 0,
        rank: 0,
        epoch: Epoch(0),
        offer: LinkOffer { window: 32, frame_bytes: 1468 },
        frame_bytes_min: 64,
        retry_first_ns: 10_000_000,
        retry_max_ns: 1_000_000_000,
        deadline_ns: 10_000_000_000,
    };
}

/// A connection as the handshake has settled it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Opened {
    /// The two ends, as [`Link::open`](crate::reliable::Link::open) wants them.
    pub ends: LinkEnds,
    /// Bytes of the largest payload of a frame that the peer takes.
    pub frame_bytes: u16,
    /// The peer's life.
    pub epoch: Epoch,
}

/// The outcome of a message or of the time that has passed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum HandshakeEvent {
    /// The connection is there.
    Opened(Opened),
    /// The admitted life is over, or has itself given up the connection: whatever is open is dead.
    /// Nothing connects until the peer is introduced anew.
    Restarted(Epoch),
    /// The peer refuses for good, or is refused.
    Refused(HandshakeRefusal),
    /// This side's attempt, or its close, has found no answer by its deadline.
    TimedOut,
    /// The peer has no room for a connection now, which proves that it is alive. The attempt goes
    /// on, with all its time again.
    TurnedAway,
    /// The peer ends the connection: all that it sent has arrived. The caller is to send nothing
    /// new, and to [`close`](super::Connect::close) once all that it sent has arrived too.
    Closing,
    /// The connection is over by agreement, and nothing of it is under way. Another can be made.
    Closed,
}
