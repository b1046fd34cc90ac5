//! The first line of an inbox, by which those who map it know it: its owner publishes it once, when
//! all the rest stands, and the others find all of that as soon as they find the header.

use aldis_hal::{Cause, Epoch, PeerId};

use super::geometry::{Geometry, Identity, LINE_BYTES};
use crate::sync::{Ordering, Word};

/// First word of an inbox: "ALDI". A region from a machine of the other byte order reads the same,
/// as all words are little-endian.
const MAGIC: u32 = u32::from_le_bytes(*b"ALDI");

/// Version of the layout and of the ring protocol.
const VERSION: u32 = 9;

/// Words between the magic number and the two that change.
const FIELDS: usize = LINE_BYTES as usize / 4 - 3;

/// The orders of the header's accesses; the models relax them one by one.
pub(super) trait HeaderOrders {
    /// The owner's store of the magic number: after all else.
    const PUBLISH: Ordering = Ordering::Release;
    /// The load of the magic number.
    const OPEN: Ordering = Ordering::Acquire;
}

/// The orders that ship.
pub(super) struct Exact;
impl HeaderOrders for Exact {}

/// The words of the line.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct InboxHeader {
    magic: Word,
    fields: [Word; FIELDS],
    /// Ranks of the node that sleep, or are about to, and wait for control slots: counted in the
    /// inbox of its rank 0.
    pub(super) sleepers: Word,
    /// Not zero if a sender has to wake the owner, beside its store. The last word of the line.
    pub(super) asleep: Word,
}

impl InboxHeader {
    /// A header of its own, outside shared memory, as it is in fresh memory.
    #[cfg(loom)]
    pub(super) fn new() -> Self {
        let word = || Word::new(0);
        Self { magic: word(), fields: core::array::from_fn(|_| word()), sleepers: word(), asleep: word() }
    }

    /// Withdraws the header, writes what is behind it by `clear`, and publishes it. By the owner,
    /// once, before any peer attaches.
    #[inline(always)]
    pub(super) fn publish<O: HeaderOrders>(
        &self,
        geometry: Geometry,
        identity: Identity,
        start: u32,
        clear: impl FnOnce(),
    ) {
        let Self { magic, fields: words, sleepers, asleep } = self;
        magic.store(0, Ordering::Relaxed);
        clear();
        sleepers.store(0, Ordering::Relaxed);
        asleep.store(0, Ordering::Relaxed);
        for (word, value) in words.iter().zip(fields(geometry, identity, start)) {
            word.store(value, Ordering::Relaxed);
        }
        magic.store(MAGIC, O::PUBLISH);
    }

    /// Reads and validates what the header of a region of `len` bytes says: how it is divided,
    /// whose it is, and the first message's position in every lane.
    ///
    /// # Errors
    /// [`Cause::BadRegion`] for a header that is not published (yet), foreign, truncated, or
    /// self-contradictory; [`Cause::Incompatible`] for one of another version.
    #[inline(always)]
    pub(super) fn read<O: HeaderOrders>(&self, len: usize) -> Result<(Geometry, Identity, u32), Cause> {
        let Self { magic, fields: words, .. } = self;
        if magic.load(O::OPEN) != MAGIC {
            return Err(Cause::BadRegion);
        }
        let words = words.each_ref().map(|word| word.load(Ordering::Relaxed));
        let [version, peers, slots, each, block_bytes, ..] = words;
        if version != VERSION {
            return Err(Cause::Incompatible);
        }
        let [_, _, _, _, _, _, _, job_low, job_high, owner, epoch, start, sets] = words;
        let (lanes, blocks) = (each >> 16, each & 0xFFFF);
        let geometry = Geometry { peers, slots, lanes, blocks, block_bytes, sets };
        geometry.check().map_err(|_| Cause::BadRegion)?;
        let job = u64::from(job_low) | (u64::from(job_high) << 32);
        let identity = Identity { job, owner: PeerId(owner), epoch: Epoch(epoch) };
        // Also holds the stated length against what it must be.
        let is_whole = words == fields(geometry, identity, start);
        if !is_whole || owner >= peers || epoch == 0 || len < geometry.inbox_bytes() {
            return Err(Cause::BadRegion);
        }
        Ok((geometry, identity, start))
    }
}

/// The header's words after the magic number that stay.
fn fields(geometry: Geometry, identity: Identity, start: u32) -> [u32; FIELDS] {
    let Geometry { peers, slots, lanes, blocks, block_bytes, sets } = geometry;
    let Identity { job, owner, epoch } = identity;
    let bytes = geometry.inbox_bytes() as u64;
    let (low, high) = (bytes as u32, (bytes >> 32) as u32);
    let (job_low, job_high) = (job as u32, (job >> 32) as u32);
    let each = lanes << 16 | blocks;
    [VERSION, peers, slots, each, block_bytes, low, high, job_low, job_high, owner.0, epoch.0, start, sets]
}
