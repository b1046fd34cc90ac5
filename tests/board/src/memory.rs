//! This module holds `unsafe` code: the one flag that makes a static value hand itself out once,
//! and lanes that may pass between cores before they are used.
//!
//! Every byte that a rank works in but its stack, sized here. All of it is zero at first, so that
//! it takes no room in an image.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use aldis_drivers::discovery::Entry;
use aldis_drivers::ethernet::{EthernetStorage, Framing, Udp};
#[cfg(not(target_arch = "arm"))]
use aldis_drivers::handover::HandoverStorage;
use aldis_drivers::serial::SerialStorage;
#[cfg(not(target_arch = "arm"))]
use aldis_drivers::shm::Cores;
use aldis_drivers::shm::{Geometry, Lane};
use aldis_drivers::{authenticated, e1000e, virtio};
use aldis_programs::{MESSAGE_BYTES, WINDOW};

/// Ranks of the largest job.
pub(crate) const RANKS: usize = 8;

/// Cores of a board that can be ranks of one job; a microcontroller has one.
pub(crate) const CORES: usize = if cfg!(target_arch = "arm") { 1 } else { 4 };

/// The kernel's tables of a core: 64 requests, 16 envelopes and 4 blocks of 1 KiB for each rank.
type CoreStorage = aldis_kernel::storage_type!(RANKS, 64, 8, 16, 4, 1024, 4, 64);

/// The kernel's tables of each core.
pub(crate) static STORAGE: [CoreStorage; CORES] = [const { CoreStorage::new() }; CORES];

/// Bytes of the longest message of a rank to itself.
pub(crate) const FRAME_BYTES: u32 = 1096;
/// The number of such messages under way at a time.
const FRAMES: usize = 8;
const FRAMES_BYTES: usize = FRAMES * (FRAME_BYTES as usize + 16);

/// Memory of each core's loopback.
pub(crate) static LOOPBACK: [Once<[u8; FRAMES_BYTES]>; CORES] =
    [const { Once::new([0; FRAMES_BYTES]) }; CORES];

/// The cards of all ranks, as each core knows them.
pub(crate) static CARDS: [Once<[Entry; RANKS]>; CORES] = [const { Once::new([Entry::EMPTY; RANKS]) }; CORES];

/// Rings of messages to and from each other rank, of each core: most of an image's RAM.
type CoreRings = EthernetStorage<{ RANKS - 1 }, WINDOW, MESSAGE_BYTES>;
pub(crate) static RINGS: [Once<CoreRings>; CORES] = [const { Once::new(EthernetStorage::new()) }; CORES];

/// Bytes of the longest frame, in UDP, which has the longest headers, and with a tag.
pub(crate) const FRAME: usize =
    Framing::Udp(Udp::of_rank(0)).headers_bytes() + MESSAGE_BYTES + authenticated::TAG_BYTES;

/// Descriptors of a network card each way: as many frames as two peers have in flight.
pub(crate) const QUEUE: usize = 64;

/// Bytes for queues and frames of either network card, of all cores.
const CARD_BYTES: usize = {
    let [one, other] = if CORES == 1 {
        [virtio::bytes_needed(QUEUE, FRAME), e1000e::bytes_needed(QUEUE, FRAME)]
    } else {
        let virtio = virtio::queues_bytes_needed(CORES, QUEUE, FRAME);
        [virtio, e1000e::queues_bytes_needed(QUEUE, FRAME)]
    };
    if one > other { one } else { other }
};

/// Frames that can wait for a core in the hands of others: two windows.
pub(crate) const HANDED: usize = 2 * WINDOW;

/// Frames that cores with one card have for each other.
#[cfg(not(target_arch = "arm"))]
pub(crate) static HANDOVER: HandoverStorage<CORES, HANDED, FRAME> = HandoverStorage::new();

/// Queues and frames of a network card.
pub(crate) static CARD: Once<[u8; CARD_BYTES]> = Once::new([0; CARD_BYTES]);

/// The inbox of each rank in memory that all ranks share.
pub(crate) const fn inbox(ranks: u32) -> Geometry {
    Geometry { peers: ranks, slots: 64, lanes: Geometry::LANES_MAX, blocks: 4, block_bytes: 2048, sets: 0 }
}

/// The lanes to and from the other ranks there.
pub(crate) static LANES: Once<EmptyLanes<{ inbox(RANKS as u32).lane_entries() }>> =
    Once::new(EmptyLanes::NEW);

/// Lanes that no transport has yet.
pub(crate) struct EmptyLanes<const N: usize>(pub(crate) [Lane; N]);

impl<const N: usize> EmptyLanes<N> {
    const NEW: Self = Self([const { Lane::EMPTY }; N]);
}

// SAFETY: an empty lane leads nowhere, whichever core it is used on; what opens it is a transport,
// which then has it.
unsafe impl<const N: usize> Send for EmptyLanes<N> {}

/// The inboxes of all cores of a board.
#[cfg(not(target_arch = "arm"))]
const CORE_RINGS_BYTES: usize = Cores::memory_bytes(&inbox(CORES as u32));
#[cfg(not(target_arch = "arm"))]
pub(crate) static CORE_RINGS: Once<[u8; CORE_RINGS_BYTES]> = Once::new([0; CORE_RINGS_BYTES]);

/// The lanes between them.
#[cfg(not(target_arch = "arm"))]
pub(crate) static CORE_LANES: Once<EmptyLanes<{ Cores::lanes(&inbox(CORES as u32)) }>> =
    Once::new(EmptyLanes::NEW);

/// Frames on the serial line.
pub(crate) static LINE: Once<SerialStorage<FRAME>> = Once::new(SerialStorage::new());

/// A value that is handed out once.
pub(crate) struct Once<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `take` hands out one reference, once, to whichever core asks first: so the value passes
// from one to another, which `Send` allows, and is never shared.
unsafe impl<T: Send> Sync for Once<T> {}

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
