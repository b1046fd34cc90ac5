//! Messages over a network card of this machine: frames of [`Ethernet`](aldis_drivers::ethernet)
//! through an interface, by a socket of frames, by memory that is shared with the system (AF_XDP)
//! or a TAP, through memory that is shared with DPDK or VPP (memif), or by a card on PCI that is
//! the process's alone (VFIO), and no TCP/IP.
//!
//! | module | what it holds |
//! |---|---|
//! | `address` | what a rank's card says of it, and why two do not fit |
//! | `wire` | the transport on its interface, and looks at whether frames pass |
//!
//! # How ranks find each other
//!
//! Each has an address on the wire of its own, drawn at random, which the launcher or the process
//! manager tells the others with its card. So several ranks can be on one interface. What one of
//! them sends to another of the same interface does not come back from the wire: as soon as it is
//! introduced to one, it has the system show its frames to those that listen on this side.
//!
//! # Faults
//!
//! Frames that are lost are repeated, for an hour if need be: a rank that computes answers nobody.
//! An interface that is down or gone is waited for ([`CardChoice::patience_s`]), then all peers are
//! lost for [`Cause::Device`]; one whose MTU has become too short loses them at once, and so does a
//! card on PCI that the system has asked for. The error that the job ends with says which, and what
//! to do ([`Wired::trouble`]).
//!
//! # Strangers on the wire
//!
//! A card that says `auth` has a tag by the job's key on each frame, and takes none without it
//! ([`aldis_drivers::authenticated`]). The key is drawn for the job by its launcher, or by rank 0
//! under a process manager, and comes to the ranks as that of TCP does; frames have one that is
//! made of it.
//!
//! # Bounds
//!
//! Messages of [`MESSAGE_BYTES_MAX`] at most, a window of [`WINDOW`] of them to each peer that the
//! rank is active with: 93 KiB each with the usual MTU, in pages that are not there before they are
//! used. Of another 32 bytes are kept. A rank is active with as many as it has rows for
//! ([`peer_rows`](crate::peer_rows)).

mod address;
mod wire;

use core::ops::Range;
use std::os::fd::OwnedFd;

use aldis_drivers::authenticated::AuthenticatedNic;
use aldis_drivers::ethernet::{BYTES_PER_KNOWN_PEER, Ethernet, EthernetMemory, PeerLink, PeerRow};
use aldis_hal::{Cause, Cost, Epoch, Instant, PeerId, Sink};
use aldis_nic::{CARD_KINDS, CardError, RankNic};

use self::address::WiredAddress;
use self::wire::InterfaceWire;
use crate::environment::setting;
use crate::error::JoinError;
use crate::tcp::KEY_BYTES;

pub use aldis_nic::{CardChoice, CardKind, CardsChoice};

/// The variable that names the card: `packet:IF`, `xdp:IF`, `tap:IF`, `memif:PATH` or
/// `pci:ADDRESS`; or two, with a plus between them.
pub const CARD_VARIABLE: &str = "ALDIS_NIC";

/// The cost of a frame through the system on a network of 10 Gbit/s: two calls and a switch's
/// latency, and 1.2 ns a byte on the wire and to be copied.
const COST: Cost = Cost { overhead_ns: 1_000, latency_ns: 6_000, per_kib_ns: 1_200 };

/// Frames to a peer that can be under way.
pub const WINDOW: usize = 32;

/// Bytes of the longest message, whatever the MTU: what one of 9000 carries, and a multiple of 8.
pub const MESSAGE_BYTES_MAX: usize = 8928;

/// Bytes that are kept of a peer that a rank does not talk to.
pub(crate) const BYTES_PER_PEER: usize = BYTES_PER_KNOWN_PEER;

/// The card of a rank, whose frames have tags, or are as they are.
pub type WiredNic = AuthenticatedNic<RankNic>;

/// The transport over its frames.
pub(crate) type WiredFrames = Ethernet<'static, WiredNic>;

/// The rank and the job of a transport.
#[derive(Clone)]
pub(crate) struct WiredIdentity {
    pub(crate) job: u64,
    pub(crate) me: PeerId,
    pub(crate) epoch: Epoch,
    pub(crate) ranks: u32,
    /// Peers that it can be active with at a time.
    pub(crate) links: u32,
    /// Ranks that are reached through shared memory.
    pub(crate) mates: Range<u32>,
    /// The key of the job, if it has one.
    pub(crate) key: Option<[u8; KEY_BYTES]>,
}

/// The transport over a card of one rank. See the [module](self).
#[derive(Debug)]
pub struct Wired(Box<InterfaceWire>);

impl Wired {
    /// The transport of a rank on the card that the environment names.
    pub(crate) fn open(who: WiredIdentity) -> Result<Self, JoinError> {
        let rank = who.me.0;
        let missing = || JoinError::Setting {
            name: CARD_VARIABLE,
            value: String::new(),
            why: format!("it names the card of --transport ethernet: {CARD_KINDS}"),
        };
        let choice: CardsChoice = setting(CARD_VARIABLE)?.ok_or_else(missing)?;
        let refused = |text| JoinError::Ethernet { rank, text };
        Ok(Self(Box::new(InterfaceWire::open(&choice.of_rank(rank), who).map_err(refused)?)))
    }

    /// Returns the address at which it can be reached, as its card tells.
    pub fn address(&self) -> Vec<u8> {
        self.0.address().encode()
    }

    /// A file that can be read when a frame has come. `None` if the card has none, or the process
    /// can have no more files.
    pub fn bell(&self) -> Option<OwnedFd> {
        self.0.bell()
    }

    /// The reason why frames do not pass now, if one is known.
    pub fn trouble(&self) -> Option<&CardError> {
        self.0.trouble()
    }

    /// Tells what the user wants to know at the end: counters, and whether a capture is whole.
    pub(crate) fn tell(&self) {
        self.0.tell();
    }

    /// The transport over frames.
    #[inline]
    pub(crate) const fn ethernet(&self) -> &WiredFrames {
        &self.0.ethernet
    }

    /// The transport over frames, to send by.
    #[inline]
    pub(crate) const fn ethernet_mut(&mut self) -> &mut WiredFrames {
        &mut self.0.ethernet
    }

    pub(crate) fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &[u8]) -> Result<(), Cause> {
        self.0.introduce(peer, epoch, address)
    }

    #[inline]
    pub(crate) fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        self.0.poll(budget, now, sink)
    }
}

/// Returns true if the environment names a card.
pub(crate) fn names_card() -> Result<bool, JoinError> {
    Ok(setting::<CardsChoice>(CARD_VARIABLE)?.is_some())
}

/// Returns true if the card that the environment names has tags on its frames.
pub(crate) fn is_authenticated() -> Result<bool, JoinError> {
    let choice: Option<CardsChoice> = setting(CARD_VARIABLE)?;
    Ok(choice.is_some_and(|choice| choice.first.is_authenticated))
}

/// The reason why the address of another rank does not fit this one's; `None` for those that are
/// not reached by a card.
pub(crate) fn disagreement(own: &[u8], other: &[u8]) -> Option<String> {
    WiredAddress::decode(own)?.contradiction(&WiredAddress::decode(other)?)
}

/// Memory of the transport over frames for so many peers, of which so many have a link at a time,
/// for the rest of the process.
pub(crate) fn memory(
    others: usize,
    links: usize,
    window: usize,
    message_bytes: usize,
) -> Result<EthernetMemory<'static>, Cause> {
    let (messages, words) = (links * window, links * window * message_bytes / size_of::<u64>());
    let ring = || (vec![0; words].leak(), vec![0; messages].leak());
    let (rows, pool) = (vec![PeerRow::EMPTY; others].leak(), vec![PeerLink::EMPTY; links].leak());
    EthernetMemory::of_slices(rows, pool, [ring(), ring()], window, message_bytes)
}
