//! This module holds `unsafe` code: the one flag that makes a static value hand itself out once.
//!
//! Every byte that a rank works in but its stack, sized here. All of it is zero at first, so that
//! it takes no room in an image.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use aldis_drivers::discovery::Entry;
use aldis_drivers::ethernet::{EthernetStorage, Framing, Udp};
use aldis_drivers::serial::SerialStorage;
use aldis_drivers::shm::{Geometry, Lane};
use aldis_drivers::{authenticated, e1000e, virtio};
use aldis_programs::{MESSAGE_BYTES, WINDOW};

/// Ranks of the largest job.
pub(crate) const RANKS: usize = 8;

aldis_kernel::storage! {
    /// The kernel's tables: 64 requests, 16 envelopes and 4 blocks of 1 KiB for each rank.
    pub(crate) static STORAGE: peers = RANKS, requests = 64, communicators = 8,
        envelopes = 16, blocks = 4, block_bytes = 1024, pooled = 4, bins = 64
}

/// Bytes of the longest message of a rank to itself.
pub(crate) const FRAME_BYTES: u32 = 1096;
/// The number of such messages under way at a time.
const FRAMES: usize = 8;
const FRAMES_BYTES: usize = FRAMES * (FRAME_BYTES as usize + 16);

/// Memory of the loopback.
pub(crate) static LOOPBACK: Once<[u8; FRAMES_BYTES]> = Once::new([0; FRAMES_BYTES]);

/// The cards of all ranks.
pub(crate) static CARDS: Once<[Entry; RANKS]> = Once::new([Entry::EMPTY; RANKS]);

/// Rings of messages to and from each other rank: most of an image's RAM.
pub(crate) static RINGS: Once<EthernetStorage<{ RANKS - 1 }, WINDOW, MESSAGE_BYTES>> =
    Once::new(EthernetStorage::new());

/// Bytes of the longest frame, in UDP, which has the longest headers, and with a tag.
pub(crate) const FRAME: usize =
    Framing::Udp(Udp::of_rank(0)).headers_bytes() + MESSAGE_BYTES + authenticated::TAG_BYTES;

/// Descriptors of a network card each way: as many frames as two peers have in flight.
pub(crate) const QUEUE: usize = 64;

/// Bytes for queues and frames of either network card.
const CARD_BYTES: usize = {
    let [one, other] = [virtio::bytes_needed(QUEUE, FRAME), e1000e::bytes_needed(QUEUE, FRAME)];
    if one > other { one } else { other }
};

/// Queues and frames of a network card.
pub(crate) static CARD: Once<[u8; CARD_BYTES]> = Once::new([0; CARD_BYTES]);

/// The inbox of each rank in memory that all ranks share.
pub(crate) const fn inbox(ranks: u32) -> Geometry {
    Geometry { peers: ranks, slots: 64, lanes: Geometry::LANES_MAX, blocks: 4, block_bytes: 2048, sets: 0 }
}

/// The lanes to and from the other ranks there.
pub(crate) static LANES: Once<[Lane; RANKS]> = Once::new([const { Lane::EMPTY }; RANKS]);

/// Frames on the serial line.
pub(crate) static LINE: Once<SerialStorage<FRAME>> = Once::new(SerialStorage::new());

/// A value that is handed out once.
pub(crate) struct Once<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `take` hands out one reference, once, and an image runs on one core: nothing ever passes
// between threads.
unsafe impl<T> Sync for Once<T> {}

impl<T> Once<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// The value, the first time.
    pub(crate) fn take(&'static self) -> Option<&'static mut T> {
        let first = !self.taken.swap(true, Ordering::AcqRel);
        // SAFETY: the swap lets one caller through, once.
        first.then(|| unsafe { &mut *self.value.get() })
    }
}
