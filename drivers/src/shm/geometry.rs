//! The division of an inbox, in numbers alone: sizes, limits, offsets.

use core::ops::Range;

use aldis_hal::{Cause, Epoch, PeerId};

use super::control_slots;

/// Bytes of a cache line, the unit of everything here: on x86-64 and most others one line moves as
/// a whole. Where lines are shorter or longer the layout stays right and is merely less fast.
pub(super) const LINE_BYTES: u32 = 64;

/// Bytes of a ring slot: two lines. A pair of lines is also what some processors fetch together, so
/// that neighbouring slots do not disturb each other.
pub(super) const SLOT_BYTES: u32 = 2 * LINE_BYTES;

/// Payload bytes of a ring slot: all but the sequence word and the head.
pub(super) const SHORT_BYTES: u32 = SLOT_BYTES - 8;

/// Ping-pong slots behind each ring.
pub(super) const PING_PONG_SLOTS: u32 = 2;

/// True if ranks can have an inbox that all share. A 32-bit core holds neither the code nor so many
/// peers.
pub(super) const SHARES: bool = cfg!(target_pointer_width = "64");

/// Slots of a shared inbox, and bytes of what stands before the message in each.
pub(super) const SHARED_SLOTS: usize = 64;
pub(super) const SHARED_LABEL_BYTES: usize = 8;

/// The division of every inbox of a job. All ranks of a job use the same one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Geometry {
    /// Ranks of the job, the owner included: 1..=[`PEERS_MAX`](Self::PEERS_MAX).
    pub peers: u32,
    /// Slots of the ring from each sender, a power of two: 2..=[`SLOTS_MAX`](Self::SLOTS_MAX). 128
    /// bytes each. As many messages a sender can be ahead of its receiver; more take a higher rate.
    /// Latency does not depend on them, as messages to a receiver that keeps up stand in two
    /// ping-pong slots beside them.
    pub slots: u32,
    /// Lanes of a rank: 1..=[`LANES_MAX`](Self::LANES_MAX). Where there are as many other ranks at
    /// most each has one. Where there are more the lanes go to those that talk, and the rank has
    /// an inbox that all share, of 64 slots, each large enough for a block; not where words have 32
    /// bits.
    pub lanes: u32,
    /// Blocks for larger messages in each lane: 1..=[`BLOCKS_MAX`](Self::BLOCKS_MAX).
    pub blocks: u32,
    /// Bytes of a block, a multiple of 64: 64..=[`BLOCK_BYTES_MAX`](Self::BLOCK_BYTES_MAX).
    pub block_bytes: u32,
    /// Sets of control slots for collectives, a communicator
    /// each: 0..=[`SETS_MAX`](Self::SETS_MAX). 84,864 bytes each, and [chunks](Self::chunks): eight
    /// as large as a block, or 2 MiB in each of the first four where ranks are few and blocks are
    /// large.
    pub sets: u32,
}

/// Sets whose chunks are more where ranks are few: those of the communicators that are made first.
const LARGE_SETS: u32 = 4;

/// Bytes of all chunks of such a set. More than a core has in caches of its own: a
/// chunk that is written again has gone to a cache that cores share, and that is cheaper to write
/// than one whose lines two cores have in their own. Of the sizes that fit into those, only 8 KiB
/// are as cheap.
const RING_BYTES: u32 = 2 << 20;

/// Ranks that are few.
const FEW_PEERS: u32 = 8;

/// The bytes from which on a block is large.
const LARGE_BLOCK_BYTES: u32 = 8 << 10;

/// Bytes of a chunk at most that two ranks pass each other: one writes the next one while the other
/// reads. Where there are more a chunk has a part for each.
const CHUNK_BYTES_OF_TWO: u32 = 8 << 10;

/// The division of what follows the lanes: the records of all sets, next to each other, so that few
/// pages hold those that others read; then the bodies of the slots of each, then the chunks.
#[derive(Clone, Copy, Debug)]
pub(super) struct SetsLayout {
    /// Offset of the first bodies.
    bodies_at: u64,
    /// Offset of the first chunks.
    chunks_at: u64,
    /// Bytes of the chunks of a set, and how many more those of a large one have.
    ring_bytes: u64,
    more_bytes: u64,
    /// Chunks of a large set, and of another.
    chunks: [u32; 2],
    pub(super) chunk_bytes: u32,
}

impl SetsLayout {
    /// Records of a set: that of its progress, and the head of each slot.
    pub(super) const RECORDS: u32 = 1 + Geometry::CONTROL_SLOTS;

    /// Places of a record of so many ranks in their table: an odd number, so that those of one rank
    /// do not share their place in a cache.
    #[inline]
    pub(super) const fn records_of(peers: u32) -> usize {
        (peers | 1) as usize
    }

    /// Bytes of the bodies of a set, with the places beside them.
    const BODIES_BYTES: u64 =
        (Geometry::CONTROL_SLOTS + control_slots::PLACES) as u64 * control_slots::SLOT_PAYLOAD as u64;

    /// Bytes of a set but for its chunks and its records.
    const STRIDE: u64 = Self::BODIES_BYTES + control_slots::PROBE_BYTES as u64;

    const fn new(sets: u32, chunks: [u32; 2], chunk_bytes: u32) -> Self {
        let [large, small] = [chunks[0] as u64 * chunk_bytes as u64, chunks[1] as u64 * chunk_bytes as u64];
        let bodies_at = Self::records_at(sets);
        let chunks_at = bodies_at + sets as u64 * Self::STRIDE;
        Self { bodies_at, chunks_at, ring_bytes: small, more_bytes: large - small, chunks, chunk_bytes }
    }

    /// Offset of a set's records.
    #[inline]
    pub(super) const fn records_at(set: u32) -> u64 {
        set as u64 * Self::RECORDS as u64 * control_slots::RECORD_BYTES as u64
    }

    /// Offset of the bodies of a set's slots.
    #[inline]
    pub(super) const fn bodies_at(&self, set: u32) -> u64 {
        self.bodies_at + set as u64 * Self::STRIDE
    }

    /// Chunks of a set, a power of two.
    #[inline]
    pub(super) const fn chunks(&self, set: u32) -> u32 {
        let [large, small] = self.chunks;
        if set < LARGE_SETS { large } else { small }
    }

    /// Offset of a set's chunks; of the one after the last, the bytes of all.
    #[inline]
    pub(super) const fn chunks_at(&self, set: u32) -> u64 {
        let larger = if set < LARGE_SETS { set } else { LARGE_SETS };
        self.chunks_at + set as u64 * self.ring_bytes + larger as u64 * self.more_bytes
    }
}

impl Geometry {
    /// Most ranks of a job over shared memory.
    pub const PEERS_MAX: u32 = 1 << 16;
    /// Most slots of a ring.
    pub const SLOTS_MAX: u32 = 1 << 14;
    /// Most blocks of a sender: one bit each in a 32-bit word.
    pub const BLOCKS_MAX: u32 = 32;
    /// Largest block.
    pub const BLOCK_BYTES_MAX: u32 = 1 << 25;
    /// Most lanes of a rank. Each poll looks at all that are in use.
    pub const LANES_MAX: u32 = 32;
    /// Most sets of control slots. None where words have 32 bits: a small core does not hold the
    /// code.
    pub const SETS_MAX: u32 = if cfg!(target_pointer_width = "64") { 32 } else { 0 };
    /// Control slots of a set, and so the most collectives of one communicator under way at a time.
    pub const CONTROL_SLOTS: u32 = 8;
    /// Chunks of a set at least.
    pub const CHUNKS_MIN: u32 = 8;

    /// Checks that an inbox can be divided like this.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for a number above its limit or an inbox beyond the address space,
    /// [`Cause::Unaligned`] for a block size that is no multiple of 64, [`Cause::Incompatible`] for
    /// a number too small and for slots that are no power of two.
    pub const fn check(&self) -> Result<(), Cause> {
        let mut rest: &[(u32, u32, u32)] = &self.numbers();
        while let [(value, min, max), tail @ ..] = rest {
            if *value < *min {
                return Err(Cause::Incompatible);
            }
            if *value > *max {
                return Err(Cause::TooBig { len: *value as u64, max: *max as u64 });
            }
            rest = tail;
        }
        if self.sets > Self::SETS_MAX {
            return Err(Cause::TooBig { len: self.sets as u64, max: Self::SETS_MAX as u64 });
        }
        if !self.slots.is_power_of_two() {
            return Err(Cause::Incompatible);
        }
        if !self.block_bytes.is_multiple_of(LINE_BYTES) {
            return Err(Cause::Unaligned { need: LINE_BYTES });
        }
        if self.bytes() > isize::MAX as u64 {
            return Err(Cause::TooBig { len: self.bytes(), max: isize::MAX as u64 });
        }
        Ok(())
    }

    /// Bytes of one rank's inbox; saturates at `usize::MAX` where [`check`](Self::check) would
    /// refuse.
    pub const fn inbox_bytes(&self) -> usize {
        if self.check().is_ok() { self.bytes() as usize } else { usize::MAX }
    }

    /// Bytes of a [table of records](super::Shm::with_record_table) of so many ranks; saturates at
    /// `usize::MAX` where [`check`](Self::check) would refuse.
    pub const fn record_table_bytes(&self) -> usize {
        if self.check().is_err() {
            return usize::MAX;
        }
        SetsLayout::records_at(self.sets) as usize * SetsLayout::records_of(self.peers)
    }

    /// Each number with its bounds.
    const fn numbers(&self) -> [(u32, u32, u32); 5] {
        [
            (self.peers, 1, Self::PEERS_MAX),
            (self.slots, 2, Self::SLOTS_MAX),
            // Where no inbox is shared each peer has a lane.
            (self.lanes, if SHARES { 1 } else { self.peers.saturating_sub(1) }, Self::LANES_MAX),
            (self.blocks, 1, Self::BLOCKS_MAX),
            (self.block_bytes, LINE_BYTES, Self::BLOCK_BYTES_MAX),
        ]
    }

    /// Header, shared inbox, lanes, and sets; of numbers within their bounds, so that it fits.
    const fn bytes(&self) -> u64 {
        let sets = if Self::SETS_MAX > 0 { self.sets_layout().chunks_at(self.sets) } else { 0 };
        self.sets_at().wrapping_add(sets)
    }

    /// Offset of the first set of control slots, after the lanes.
    pub(super) const fn sets_at(&self) -> u64 {
        (self.lane_count() as u64).wrapping_mul(self.lane_bytes()).wrapping_add(self.lanes_at())
    }

    /// Returns true if ranks are few and blocks are large.
    const fn has_large_rings(&self) -> bool {
        self.peers <= FEW_PEERS && self.block_bytes >= LARGE_BLOCK_BYTES
    }

    /// Bytes of a chunk.
    pub const fn chunk_bytes(&self) -> u32 {
        let is_pair = self.peers <= 2 && self.block_bytes > CHUNK_BYTES_OF_TWO;
        if is_pair { CHUNK_BYTES_OF_TWO } else { self.block_bytes }
    }

    /// Chunks of a set, a power of two.
    pub const fn chunks(&self, set: u32) -> u32 {
        let most =
            if set < LARGE_SETS && self.has_large_rings() { RING_BYTES / self.chunk_bytes() } else { 0 };
        if most > Self::CHUNKS_MIN { 1 << most.ilog2() } else { Self::CHUNKS_MIN }
    }

    /// Returns the bytes of an inbox in which the chunks of a set stand, so that their pages can be
    /// made before they are used; none of a set that there is not.
    pub const fn chunks_range(&self, set: u32) -> Range<usize> {
        if set >= self.sets || self.check().is_err() {
            return 0..0;
        }
        let layout = self.sets_layout();
        let start = self.sets_at() + layout.chunks_at(set);
        start as usize..(start + layout.chunks(set) as u64 * layout.chunk_bytes as u64) as usize
    }

    /// Returns the division of the sets.
    pub(super) const fn sets_layout(&self) -> SetsLayout {
        SetsLayout::new(self.sets, [self.chunks(0), self.chunks(LARGE_SETS)], self.chunk_bytes())
    }

    /// Returns true if a rank has fewer lanes than there are others, and an inbox that all share.
    pub const fn is_shared(&self) -> bool {
        SHARES && self.lanes < self.peers.saturating_sub(1)
    }

    /// Most pairs of a rank that have lanes, one in each direction, and one for all that have none.
    pub(super) const ENDS_MAX: u32 = 2 * Self::LANES_MAX;

    /// Entries of a rank's table of [`Lane`](super::Lane)s: one a rank, and two for each pair that
    /// can have lanes at a time, and for those that have none. Where words have 32 bits each rank's
    /// has all.
    pub const fn lane_entries(&self) -> usize {
        let pairs = if self.is_shared() { Self::ENDS_MAX } else { self.peers };
        self.peers as usize + if SHARES { 2 * pairs as usize } else { 0 }
    }

    /// Lanes that a rank has.
    pub(super) const fn lane_count(&self) -> u32 {
        if self.is_shared() { self.lanes } else { self.peers.saturating_sub(1) }
    }

    /// Offset of the shared inbox, after the header's line: two lines further, as all is that
    /// follows, so that slots begin where pairs of lines do.
    pub(super) const SHARED_AT: usize = SLOT_BYTES as usize;

    /// Offset of the shared inbox's slots, after the words of all of them.
    pub(super) const SHARED_SLOTS_AT: usize = Self::SHARED_AT + SLOT_BYTES as usize + SHARED_SLOTS * 8;

    /// Bytes of a message that a slot of the shared inbox has room for.
    pub(super) const fn shared_message_bytes(&self) -> u32 {
        if self.block_bytes > SHORT_BYTES { self.block_bytes } else { SHORT_BYTES }
    }

    /// Bytes from one slot of the shared inbox to the next.
    pub(super) const fn shared_stride(&self) -> usize {
        (self.shared_message_bytes() as usize + SHARED_LABEL_BYTES).next_multiple_of(LINE_BYTES as usize)
    }

    /// Offset of the log of departures, after the shared inbox's slots: an entry of four bytes for
    /// each rank.
    pub(super) const fn departures_at(&self) -> usize {
        (Self::SHARED_SLOTS_AT + SHARED_SLOTS * self.shared_stride()).next_multiple_of(SLOT_BYTES as usize)
    }

    /// Offset of the first lane.
    const fn lanes_at(&self) -> u64 {
        if !self.is_shared() {
            return SLOT_BYTES as u64;
        }
        (self.departures_at() as u64 + self.peers as u64 * 4).next_multiple_of(SLOT_BYTES as u64)
    }

    /// Bytes of a lane: ring, ping-pong slots, credit line, blocks.
    const fn lane_bytes(&self) -> u64 {
        let blocks = self.blocks as u64 * self.block_bytes as u64;
        SLOT_BYTES as u64 * (self.slots as u64 + PING_PONG_SLOTS as u64 + 1)
            + blocks.next_multiple_of(SLOT_BYTES as u64)
    }

    /// Offset of the ring at `place`. Within the inbox for a checked geometry and a place below
    /// [`lane_count`](Self::lane_count).
    pub(super) const fn ring_at(&self, place: u32) -> usize {
        (self.lanes_at() + place as u64 * self.lane_bytes()) as usize
    }

    /// Offset of the credit line at `place`; the blocks follow two lines later.
    pub(super) const fn credit_at(&self, place: u32) -> usize {
        self.ring_at(place) + (SLOT_BYTES * (self.slots + PING_PONG_SLOTS)) as usize
    }
}

/// The owner of an inbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Identity {
    /// The job, a number drawn by its launcher.
    pub job: u64,
    /// The rank that receives here, by its number among those that share the memory.
    pub owner: PeerId,
    /// The owner's boot id; never zero.
    pub epoch: Epoch,
}

/// Returns the place at which `sender` writes in the inbox of `owner` where each has a lane: no
/// rank sends to itself here, so the owner's place is left out.
pub(super) const fn place_of(owner: PeerId, sender: PeerId) -> u32 {
    if sender.0 < owner.0 { sender.0 } else { sender.0.saturating_sub(1) }
}
