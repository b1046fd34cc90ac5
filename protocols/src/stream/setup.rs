//! Settings that a side brings along, the events that it gets, and its reasons to refuse.

use aldis_hal::{Epoch, PeerId};

use super::StreamLink;

/// A tag of a [`Mac`].
pub type Tag = [u8; 32];

/// A keyed hash with the key of the job, such as HMAC-SHA256 (RFC 2104) or keyed BLAKE3: who does
/// not have the key can neither make nor guess a tag. It comes from the caller, so that no
/// cryptography is linked here.
pub trait Mac {
    /// The tag of `message`.
    fn tag(&self, message: &[u8]) -> Tag;
}

/// The public name of a job, from its key: it tells jobs apart in greetings and betrays nothing of
/// the key.
#[must_use]
pub fn job_name(mac: &dyn Mac) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = mac.tag(b"aldis job");
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// The identity and patience of this side; one for all peers. Times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct StreamSetup {
    /// The public name of the job, see [`job_name`].
    pub job: u64,
    /// Ranks of the job.
    pub ranks: u32,
    /// Links between two ranks; at least 1, the same on all ranks.
    pub links: u8,
    /// This side's rank.
    pub rank: PeerId,
    /// This side's life.
    pub epoch: Epoch,
    /// The longest time that a connection may take from its first byte to the end of the handshake.
    pub handshake_ns: u64,
    /// The time after an attempt that failed until the next is made; at least 1, doubled each time.
    pub retry_first_ns: u64,
    /// The longest such wait.
    pub retry_max_ns: u64,
    /// The longest time that all attempts for a link may take together.
    pub deadline_ns: u64,
}

impl StreamSetup {
    /// Handshakes of 5 s, repeated after 10 ms to 1 s, given up after 20 s. Who it is, is to be
    /// filled in.
    pub const DEFAULT: Self = Self {
        job: 0,
        ranks: 0,
        links: 1,
        rank: PeerId(0),
        epoch: Epoch(0),
        handshake_ns: 5_000_000_000,
        retry_first_ns: 10_000_000,
        retry_max_ns: 1_000_000_000,
        deadline_ns: 20_000_000_000,
    };
}

/// The state that all handshakes of a side share, lent for one call.
pub struct Node<'a> {
    /// The identity and times of this side.
    pub setup: &'a StreamSetup,
    /// The key.
    pub mac: &'a dyn Mac,
    /// [`links`](StreamSetup::links) of them for each rank, in the order of ranks: [`Node::link`]
    /// finds one.
    pub links: &'a mut [StreamLink],
}

impl Node<'_> {
    /// The link of this number to `peer`; `None` if the table has no such place.
    pub fn link(&mut self, peer: PeerId, number: u8) -> Option<&mut StreamLink> {
        let links = usize::from(self.setup.links);
        let at = peer.index().checked_mul(links)?.checked_add(usize::from(number))?;
        if usize::from(number) < links { self.links.get_mut(at) } else { None }
    }
}

/// The crossing rule: of two ranks, the lower one chooses among the connections that either has
/// made.
#[must_use]
pub const fn chooses(rank: PeerId, peer: PeerId) -> bool {
    rank.0 < peer.0
}

/// The outcome of a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum StreamEvent {
    /// Both sides keep this connection for this link. What is left of
    /// [`output`](super::Handshake::output) is sent first, then frames; every other connection of
    /// this link is to be dropped.
    Opened {
        /// The peer.
        peer: PeerId,
        /// The number of the link.
        link: u8,
    },
    /// The connection is not kept: after what is left of the output it is to be closed.
    Ended {
        /// The reason.
        why: StreamRefusal,
        /// The peer has said so, not this side.
        told: bool,
    },
}

/// The reason why a connection is not kept. The numbers of those that are sent are part of the wire
/// format.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum StreamRefusal {
    /// The bytes that came do not begin as a message of the handshake does. Never sent: a foreign
    /// program gets no answer.
    Foreign = 1,
    /// Another version of the wire format.
    Version,
    /// Another job.
    Job,
    /// A job of another size.
    Ranks,
    /// No such rank, or not the one that is expected here.
    Rank,
    /// Another number of links, or no such link.
    Links,
    /// A greeting for another life of this rank: this life has not been introduced to its sender
    /// (yet).
    Epoch,
    /// A life of the sender that has not been introduced (yet), or whose connection has ended.
    Unknown,
    /// The proof is wrong: its sender does not hold the key of the job.
    Key,
    /// Another connection is kept for this link.
    Crossed,
    /// An attempt that is over: it was given up, or the peer was introduced anew meanwhile.
    Stale,
    /// No place for another handshake.
    Busy,
    /// A message that has no place here, or contradicts an earlier one.
    Malformed,
    /// The connection ended before its first byte. Never sent.
    Silent,
    /// The connection ended within the handshake. Never sent.
    Truncated,
    /// The handshake took too long. Never sent.
    Slow,
    /// No connection could be made at all. Never sent.
    Unreachable,
    /// The encryption below did not come about: one side does not trust the other's certificate.
    /// Never sent.
    Untrusted,
}

impl StreamRefusal {
    /// Every reason, in the order of [`index`](Self::index).
    pub const ALL: [Self; 18] = [
        Self::Foreign,
        Self::Version,
        Self::Job,
        Self::Ranks,
        Self::Rank,
        Self::Links,
        Self::Epoch,
        Self::Unknown,
        Self::Key,
        Self::Crossed,
        Self::Stale,
        Self::Busy,
        Self::Malformed,
        Self::Silent,
        Self::Truncated,
        Self::Slow,
        Self::Unreachable,
        Self::Untrusted,
    ];

    /// Returns the index at which to count it: below the length of [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize - 1
    }

    /// The reason of this number on the wire.
    #[must_use]
    pub fn from_wire(number: u8) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|&why| why as u8 == number);
        known.filter(|why| why.is_sent())
    }

    /// Returns true if the refusal is sent to the other side.
    #[must_use]
    pub const fn is_sent(self) -> bool {
        !matches!(
            self,
            Self::Foreign | Self::Silent | Self::Truncated | Self::Slow | Self::Unreachable | Self::Untrusted
        )
    }

    /// Returns true if asking again at the same address cannot help.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            Self::Foreign
                | Self::Version
                | Self::Job
                | Self::Ranks
                | Self::Rank
                | Self::Links
                | Self::Key
                | Self::Untrusted
        )
    }

    /// Returns true if it happens between ranks of one job in good order: connections that crossed
    /// or came too early.
    #[must_use]
    pub const fn is_ordinary(self) -> bool {
        matches!(self, Self::Epoch | Self::Unknown | Self::Crossed | Self::Stale | Self::Busy)
    }

    /// Returns a single word, for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::Version => "version",
            Self::Job => "job",
            Self::Ranks => "ranks",
            Self::Rank => "rank",
            Self::Links => "links",
            Self::Epoch => "epoch",
            Self::Unknown => "unknown",
            Self::Key => "key",
            Self::Crossed => "crossed",
            Self::Stale => "stale",
            Self::Busy => "busy",
            Self::Malformed => "misplaced",
            Self::Silent => "silent",
            Self::Truncated => "truncated",
            Self::Slow => "slow",
            Self::Unreachable => "unreachable",
            Self::Untrusted => "untrusted",
        }
    }
}

impl core::fmt::Display for StreamRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Foreign => "not the language of Aldis",
            Self::Version => "another version of the wire format",
            Self::Job => "another job",
            Self::Ranks => "a job of another size",
            Self::Rank => "not a rank that is expected here",
            Self::Links => "another number of links, or no such link",
            Self::Epoch => "meant for another life of this rank",
            Self::Unknown => "a life that has not been introduced",
            Self::Key => "a wrong proof: it does not hold the key of the job",
            Self::Crossed => "another connection is kept",
            Self::Stale => "an attempt that is over",
            Self::Busy => "no place for another handshake",
            Self::Malformed => "a message that has no place in the handshake",
            Self::Silent => "closed without a byte",
            Self::Truncated => "closed within the handshake",
            Self::Slow => "the handshake took too long",
            Self::Unreachable => "no connection could be made",
            Self::Untrusted => "a certificate that is not trusted",
        })
    }
}
