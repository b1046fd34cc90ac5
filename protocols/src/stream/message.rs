//! The messages of the handshake: fixed layout, little-endian, of a length that the first eight
//! bytes tell.

use aldis_hal::{Epoch, PeerId};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Mac, StreamRefusal, StreamSetup, Tag};
/// The version of the handshake and of the frames behind it.
pub(super) const STREAM_VERSION: u8 = 2;
/// The first bytes of every message.
pub const MAGIC: [u8; 4] = *b"AldS";
/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 16;
/// Bytes of what every message begins with, and of the shortest messages.
pub const HEAD_BYTES: usize = 8;
/// Bytes of a greeting.
pub const GREETING_BYTES: usize = 56;
/// Bytes of an answer: the longest message.
pub const ANSWER_BYTES: usize = GREETING_BYTES + size_of::<Tag>();
/// Bytes of a proof.
pub const PROOF_BYTES: usize = HEAD_BYTES + size_of::<Tag>();

/// The length of what is authenticated: a label, the dialler's greeting, the acceptor's.
const TRANSCRIPT_BYTES: usize = LABEL_BYTES + 2 * GREETING_BYTES;
const LABEL_BYTES: usize = 16;

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub(super) enum StreamKind {
    /// The dialler's [`Greeting`].
    Greeting = 1,
    /// The acceptor's [`Greeting`] and the tag of both.
    Answer,
    /// The dialler's tag of both.
    Proof,
    /// The lower rank has chosen this connection.
    Select,
    /// The higher rank has taken it.
    Confirm,
    /// No; the reason in the next byte.
    Refuse,
}

impl StreamKind {
    const ALL: [Self; 6] =
        [Self::Greeting, Self::Answer, Self::Proof, Self::Select, Self::Confirm, Self::Refuse];

    /// Bytes of such a message.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Greeting => GREETING_BYTES,
            Self::Answer => ANSWER_BYTES,
            Self::Proof => PROOF_BYTES,
            Self::Select | Self::Confirm | Self::Refuse => HEAD_BYTES,
        }
    }
}

/// The head with which every message of every version begins.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub(super) struct StreamHead {
    magic: [u8; 4],
    pub(super) version: u8,
    kind: u8,
    /// Of a greeting and an answer: the number of the link. Of a refusal: the reason.
    pub(super) first: u8,
    /// Of a greeting and an answer: how many links two ranks have.
    pub(super) second: u8,
}

impl StreamHead {
    pub(super) const fn new(kind: StreamKind, first: u8, second: u8) -> Self {
        Self { magic: MAGIC, version: STREAM_VERSION, kind: kind as u8, first, second }
    }

    /// Returns true if the bytes without a meaning are zero.
    pub(super) fn is_sound(&self) -> bool {
        matches!(self.kind(), Some(StreamKind::Greeting | StreamKind::Answer | StreamKind::Refuse))
            || (self.first | self.second) == 0
    }

    /// Returns the kind of the message, if there is such a thing.
    pub(super) fn kind(&self) -> Option<StreamKind> {
        StreamKind::ALL.into_iter().find(|&kind| kind as u8 == self.kind)
    }
}

/// The greeting of a side: its identity, and that of the side it believes to talk to.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub(super) struct Greeting {
    pub(super) head: StreamHead,
    rank: U32,
    to: U32,
    epoch: U32,
    to_epoch: U32,
    ranks: U32,
    /// Of the dialler's attempts for this link, which it is. The acceptor repeats it.
    attempt: U32,
    job: U64,
    nonce: [u8; NONCE_BYTES],
}

const _: () = assert!(size_of::<StreamHead>() == HEAD_BYTES && size_of::<Greeting>() == GREETING_BYTES);

/// The identity of one end of a connection, as a greeting names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EndIdentity {
    pub(super) rank: PeerId,
    pub(super) epoch: Epoch,
}

impl EndIdentity {
    /// This side.
    pub(super) const fn of(setup: &StreamSetup) -> Self {
        Self { rank: setup.rank, epoch: setup.epoch }
    }
}

impl Greeting {
    /// This side greets `to`, for no numbered attempt of a link.
    pub(super) fn new(
        setup: &StreamSetup,
        head: StreamHead,
        to: EndIdentity,
        nonce: [u8; NONCE_BYTES],
    ) -> Self {
        let from = EndIdentity::of(setup);
        Self {
            head,
            rank: U32::new(from.rank.0),
            to: U32::new(to.rank.0),
            epoch: U32::new(from.epoch.0),
            to_epoch: U32::new(to.epoch.0),
            ranks: U32::new(setup.ranks),
            attempt: U32::new(0),
            job: U64::new(setup.job),
            nonce,
        }
    }

    /// This greeting, for attempt `attempt` of its link.
    pub(super) const fn for_attempt(self, attempt: u32) -> Self {
        Self { attempt: U32::new(attempt), ..self }
    }

    /// The greeting of no rank: all zero.
    pub(super) fn none() -> Self {
        Self::new_zeroed()
    }

    /// This answer, made out to whom it answers.
    pub(super) const fn answering(self, greeting: &Self) -> Self {
        let head = StreamHead { first: greeting.head.first, ..self.head };
        Self { head, to: greeting.rank, to_epoch: greeting.epoch, attempt: greeting.attempt, ..self }
    }

    /// Returns true if it is made out to the rank and life that it should answer.
    pub(super) fn answers(&self, greeting: &Self) -> bool {
        let addressed = (self.to, self.to_epoch) == (greeting.rank, greeting.epoch);
        addressed && (self.head.first, self.attempt) == (greeting.head.first, greeting.attempt)
    }

    pub(super) const fn from(&self) -> EndIdentity {
        EndIdentity { rank: PeerId(self.rank.get()), epoch: Epoch(self.epoch.get()) }
    }

    pub(super) const fn to(&self) -> EndIdentity {
        EndIdentity { rank: PeerId(self.to.get()), epoch: Epoch(self.to_epoch.get()) }
    }

    pub(super) const fn link(&self) -> u8 {
        self.head.first
    }

    pub(super) const fn attempt(&self) -> u32 {
        self.attempt.get()
    }

    /// The reason why it does not fit this side's job, if it does not.
    pub(super) fn objection(&self, setup: &StreamSetup) -> Option<StreamRefusal> {
        let &StreamSetup { job, ranks, links, .. } = setup;
        let checks = [
            (self.job.get() == job, StreamRefusal::Job),
            (self.ranks.get() == ranks, StreamRefusal::Ranks),
            (self.head.second == links && self.link() < links, StreamRefusal::Links),
            (self.rank.get() < ranks && self.rank != self.to && self.epoch.get() != 0, StreamRefusal::Rank),
        ];
        checks.into_iter().find_map(|(fits, why)| (!fits).then_some(why))
    }
}

/// The side that proves itself: what one says cannot be sent back to it as the other's proof.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Prover {
    Acceptor,
    Dialler,
}

/// The proof that a side holds the key and has seen both greetings.
pub(super) fn tag(mac: &dyn Mac, prover: Prover, dialler: &Greeting, acceptor: &Greeting) -> Tag {
    let label: &[u8; LABEL_BYTES] = match prover {
        Prover::Acceptor => b"aldis acceptor 1",
        Prover::Dialler => b"aldis dialler  1",
    };
    let mut transcript = [0; TRANSCRIPT_BYTES];
    let parts = label.iter().chain(dialler.as_bytes()).chain(acceptor.as_bytes());
    transcript.iter_mut().zip(parts).for_each(|(to, &from)| *to = from);
    mac.tag(&transcript)
}

/// Returns true if two tags are the same, in a time that does not depend on where they differ.
pub(super) fn same(one: &Tag, other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && core::hint::black_box(differing) == 0
}
