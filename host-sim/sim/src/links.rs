//! Memory and times of the Ethernet transports of virtual ranks. The memory is small, so that
//! limits are met all the time; the times fit the virtual network and its faults.

use aldis_drivers::ethernet::{self, Config, EthernetMemory, EthernetStorage, MTU_OVERHEAD_BYTES};
use aldis_kernel::hal::{Cost, Epoch, PeerId};
use aldis_kernel::protocols::{connect, reliable};

use super::config::{Network, SimConfig as Run};

/// Ranks of the largest job on the wire of frames.
pub const FRAME_RANKS_MAX: u32 = 256;
/// Messages to itself that a rank can have under way.
const LOOPBACK_FRAMES: usize = 4;
/// Bytes in front of each of them.
const LOOPBACK_HEAD_BYTES: usize = 8;

/// The times of a handshake, ns. A rank that has booted again asks until the others know of it.
const RETRY_FIRST_NS: u64 = 50_000;
const RETRY_MAX_NS: u64 = 1_000_000;
const DEADLINE_NS: u64 = 500_000_000;

/// The times of a connection. All faults are over within 4 ms, so that only the dead are silent for
/// 20 ms.
const TIMES: reliable::LinkConfig = reliable::LinkConfig {
    rto_first_ns: 100_000,
    rto_min_ns: 30_000,
    rto_max_ns: 1_000_000,
    ack_delay_ns: 5_000,
    silence_ns: 5_000_000,
    give_up_ns: 20_000_000,
    ..reliable::LinkConfig::DEFAULT
};

/// A rank's memory for the wire of frames.
pub(crate) struct FrameLinks {
    ethernet: Box<dyn Store>,
    loopback: Vec<u8>,
}

/// A rank's memory for the wire of frames, lent to a transport.
pub(crate) struct LinkMemory<'m> {
    pub(crate) ethernet: EthernetMemory<'m>,
    pub(crate) loopback: &'m mut [u8],
    /// Bytes of the largest message.
    pub(crate) message_bytes: u32,
}

/// An Ethernet storage of some size.
trait Store {
    fn memory(&mut self) -> EthernetMemory<'_>;
    fn message_bytes(&self) -> usize;
}

impl<const PEERS: usize, const WINDOW: usize, const MESSAGE_BYTES: usize> Store
    for EthernetStorage<PEERS, WINDOW, MESSAGE_BYTES>
{
    fn memory(&mut self) -> EthernetMemory<'_> {
        Self::memory(self)
    }

    fn message_bytes(&self) -> usize {
        MESSAGE_BYTES
    }
}

impl FrameLinks {
    /// The memory for a run's job and network; `None` beyond [`FRAME_RANKS_MAX`] and for frames
    /// that are too short.
    pub(crate) fn new(run: &Run) -> Option<Self> {
        let ethernet = store(run.ranks, &run.network)?;
        let loopback =
            vec![0; LOOPBACK_FRAMES * (ethernet.message_bytes() + LOOPBACK_HEAD_BYTES) + LOOPBACK_HEAD_BYTES];
        Some(Self { ethernet, loopback })
    }

    pub(crate) fn memory(&mut self) -> LinkMemory<'_> {
        let message_bytes = self.ethernet.message_bytes() as u32;
        LinkMemory { ethernet: self.ethernet.memory(), loopback: &mut self.loopback, message_bytes }
    }
}

/// The largest storage whose messages fit the frames and whose window is not above the network's.
fn store(ranks: u32, network: &Network) -> Option<Box<dyn Store>> {
    let bytes = (network.mtu as usize).checked_sub(MTU_OVERHEAD_BYTES)?;
    Some(match (ranks, bytes, network.window) {
        (_, 0..64, _) | (_, _, 0..4) => return None,
        (0..=9, 64..160, 4..8) => boxed::<8, 4, 64>(),
        (0..=9, 64..160, 8..16) => boxed::<8, 8, 64>(),
        (0..=9, 64..160, _) => boxed::<8, 16, 64>(),
        (0..=9, 160..512, 4..8) => boxed::<8, 4, 160>(),
        (0..=9, 160..512, 8..16) => boxed::<8, 8, 160>(),
        (0..=9, 160..512, _) => boxed::<8, 16, 160>(),
        (0..=9, 512..1464, 4..8) => boxed::<8, 4, 512>(),
        (0..=9, 512..1464, _) => boxed::<8, 8, 512>(),
        (0..=9, _, 4..8) => boxed::<8, 4, 1464>(),
        (0..=9, _, 8..16) => boxed::<8, 8, 1464>(),
        (0..=9, _, _) => boxed::<8, 16, 1464>(),
        (10..=64, 64..160, 4..8) => boxed::<63, 4, 64>(),
        (10..=64, 64..160, 8..16) => boxed::<63, 8, 64>(),
        (10..=64, 64..160, _) => boxed::<63, 16, 64>(),
        (10..=64, 160..512, 4..8) => boxed::<63, 4, 160>(),
        (10..=64, 160..512, _) => boxed::<63, 8, 160>(),
        (10..=64, 512.., _) => boxed::<63, 4, 512>(),
        (65..=FRAME_RANKS_MAX, _, _) => boxed::<255, 4, 64>(),
        _ => return None,
    })
}

/// A storage of this size. Never inlined: each is on the stack for a moment, and not all at a time.
#[inline(never)]
fn boxed<const PEERS: usize, const WINDOW: usize, const MESSAGE_BYTES: usize>() -> Box<dyn Store> {
    Box::new(EthernetStorage::<PEERS, WINDOW, MESSAGE_BYTES>::new())
}

/// Returns the settings of a rank's Ethernet transport, besides its memory.
pub(crate) fn config(run: &Run, me: PeerId, epoch: Epoch, cost: Cost) -> Config {
    let config = ethernet::Config::new(me, epoch, run.seed, cost);
    let (retry_first_ns, retry_max_ns, deadline_ns) = (RETRY_FIRST_NS, RETRY_MAX_NS, DEADLINE_NS);
    let connect = connect::HandshakeSetup { retry_first_ns, retry_max_ns, deadline_ns, ..config.connect };
    Config { connect, link: TIMES, ..config }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn every_network_that_is_drawn_has_a_storage_whose_messages_fit_its_frames() {
        for (seed, ranks) in (0..300).flat_map(|seed| [1, 9, 10, 64, 65, 256].map(|ranks| (seed, ranks))) {
            let network = Network::drawn(&mut Random::new(seed, 1));
            let store = store(ranks, &network).unwrap();
            assert!(store.message_bytes() + MTU_OVERHEAD_BYTES <= network.mtu as usize);
        }
    }

    #[test]
    fn what_is_too_large_or_too_short_has_none() {
        let network = Network::default();
        assert!(store(FRAME_RANKS_MAX + 1, &network).is_none());
        assert!(store(2, &Network { mtu: 97, ..network }).is_none());
        assert!(store(2, &Network { window: 3, ..network }).is_none());
    }
}
