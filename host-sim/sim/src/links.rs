//! Memory and times of the Ethernet transports of virtual ranks. The memory is small, so that
//! limits are met all the time; the times fit the virtual network and its faults.

use aldis_drivers::ethernet::{
    self, BYTES_PER_KNOWN_PEER, Config, EthernetMemory, LINKS_MIN, MTU_OVERHEAD_BYTES, PeerLink, PeerRow,
    bytes_per_link,
};
use aldis_kernel::hal::{Cost, Epoch, PeerId};
use aldis_kernel::protocols::{connect, reliable};

use super::config::{Network, SimConfig as Run};

/// Ranks of the largest job on the wire of frames.
pub const FRAME_RANKS_MAX: u32 = 2048;
/// The least frames of a window.
const WINDOW_MIN: u32 = 4;
/// Bytes of the longest message, of which there are a few.
const MESSAGE_BYTES: [usize; 4] = [64, 160, 512, 1464];
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
    sizes: LinkSizes,
    rows: Vec<PeerRow>,
    links: Vec<PeerLink>,
    messages: [Vec<u64>; 2],
    lengths: [Vec<u16>; 2],
    loopback: Vec<u8>,
}

/// A rank's memory for the wire of frames, lent to a transport.
pub(crate) struct LinkMemory<'m> {
    pub(crate) ethernet: EthernetMemory<'m>,
    pub(crate) loopback: &'m mut [u8],
    /// Bytes of the largest message.
    pub(crate) message_bytes: u32,
}

/// The sizes of an Ethernet storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LinkSizes {
    peers: usize,
    links: usize,
    window: usize,
    message_bytes: usize,
}

impl LinkSizes {
    /// The sizes for a run's job and network: links for as many peers as a rank has rows for, the
    /// longest messages that fit the frames and the largest window that is not above the network's.
    /// `None` beyond [`FRAME_RANKS_MAX`] and for frames that are too short.
    pub(crate) fn of(run: &Run) -> Option<Self> {
        let (ranks, Network { mtu, window, .. }) = (run.ranks, run.network);
        let bytes = (mtu as usize).checked_sub(MTU_OVERHEAD_BYTES)?;
        if window < WINDOW_MIN || ranks > FRAME_RANKS_MAX {
            return None;
        }
        let message_bytes = MESSAGE_BYTES.into_iter().rev().find(|message| *message <= bytes)?;
        // Small ones in large jobs, whose memory is the larger part of a simulation.
        let (window_max, message_bytes_max) = match ranks {
            0..=9 if message_bytes == 512 => (8, 512),
            0..=9 => (16, 1464),
            10..=64 if message_bytes == 64 => (16, 64),
            10..=64 if message_bytes == 160 => (8, 160),
            10..=64 => (WINDOW_MIN, 512),
            _ => (WINDOW_MIN, 64),
        };
        let peers = (ranks.max(2) - 1) as usize;
        let active = run.active.map_or(peers, |rows| (rows as usize - 1).max(LINKS_MIN));
        Some(Self {
            peers,
            links: active.min(peers),
            window: 1 << window.min(window_max).ilog2(),
            message_bytes: message_bytes.min(message_bytes_max),
        })
    }

    /// Bytes of all of it.
    pub(crate) const fn bytes(self) -> usize {
        let Self { peers, links, window, message_bytes } = self;
        peers * BYTES_PER_KNOWN_PEER + links * bytes_per_link(window, message_bytes)
    }
}

impl FrameLinks {
    /// The memory for a run's job and network; `None` where there are no [sizes](LinkSizes::of).
    pub(crate) fn new(run: &Run) -> Option<Self> {
        let sizes = LinkSizes::of(run)?;
        let LinkSizes { peers, links, window, message_bytes } = sizes;
        let words = links * window * message_bytes / size_of::<u64>();
        Some(Self {
            sizes,
            rows: vec![PeerRow::EMPTY; peers],
            links: vec![PeerLink::EMPTY; links],
            messages: [(); 2].map(|()| vec![0; words]),
            lengths: [(); 2].map(|()| vec![0; links * window]),
            loopback: vec![0; LOOPBACK_FRAMES * (message_bytes + LOOPBACK_HEAD_BYTES) + LOOPBACK_HEAD_BYTES],
        })
    }

    pub(crate) fn memory(&mut self) -> LinkMemory<'_> {
        let Self { sizes: LinkSizes { window, message_bytes, .. }, rows, links, loopback, .. } = self;
        let ([out, into], [out_lengths, into_lengths]) = (&mut self.messages, &mut self.lengths);
        let rings = [(&mut out[..], &mut out_lengths[..]), (&mut into[..], &mut into_lengths[..])];
        let ethernet = EthernetMemory::of_slices(rows, links, rings, *window, *message_bytes);
        let ethernet = ethernet.expect("as much as its sizes need");
        LinkMemory { ethernet, loopback, message_bytes: *message_bytes as u32 }
    }
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

    #[test]
    fn every_network_that_is_drawn_has_a_storage_whose_messages_fit_its_frames() {
        for (seed, ranks) in
            (0..300).flat_map(|seed| [1, 9, 10, 64, 65, 256, 2048].map(|ranks| (seed, ranks)))
        {
            let run = Run::new(seed, ranks);
            let sizes = LinkSizes::of(&run).unwrap();
            assert!(sizes.message_bytes + MTU_OVERHEAD_BYTES <= run.network.mtu as usize);
            assert!(sizes.window <= run.network.window as usize, "{sizes:?}");
            let few = ranks <= 256 || sizes.links < 32 && sizes.bytes() < 256 << 10;
            assert!(few && sizes.links <= sizes.peers, "{sizes:?}");
            assert_eq!(FrameLinks::new(&run).unwrap().memory().message_bytes as usize, sizes.message_bytes);
        }
    }

    #[test]
    fn a_rank_has_links_for_as_many_peers_as_it_has_rows_for() {
        let links = |active| LinkSizes::of(&Run { active, ..Run::new(1, 30) }).unwrap().links;
        assert_eq!([None, Some(3), Some(12), Some(30)].map(links), [29, LINKS_MIN, 11, 29]);
    }

    #[test]
    fn what_is_too_large_or_too_short_has_none() {
        let of = |ranks, network| LinkSizes::of(&Run { network, ..Run::new(1, ranks) });
        let network = Network::default();
        assert!(of(2, network).is_some() && of(FRAME_RANKS_MAX + 1, network).is_none());
        assert!(of(2, Network { mtu: 97, ..network }).is_none());
        assert!(of(2, Network { window: 3, ..network }).is_none());
    }
}
