//! The arithmetic of rings that the system reads and writes too.
//!
//! A ring has entries, a power of two of them, and an index for each of its ends, which count
//! entries and wrap at 2^32: the producer's is as many ahead of the consumer's as there are entries
//! to be taken. Each end works on the entry at its own index, as long as the other's index allows
//! it, and publishes its own when it likes: several entries at a time.

use super::error::{XdpFault, XdpRing};
use crate::sync::{AtomicU32, Ordering};

/// The memory orders of the protocol, an argument only for the models: each has a twin with one
/// order relaxed, which must fail.
pub(super) trait XdpOrders {
    /// The store of an end's own index: after all that it has read and written in the entries
    /// before, and in the frames that they tell of.
    const PUBLISH: Ordering = Ordering::Release;
    /// The load of the other's index: before all that is read and written in the entries before it.
    const SEE: Ordering = Ordering::Acquire;
}

/// The orders that ship.
pub(super) struct Exact;
impl XdpOrders for Exact {}

/// An end of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RingEnd {
    Producer,
    Consumer,
}

/// The words of a ring: the indices, the system's flags, and the entries, one behind the other.
#[derive(Clone, Copy)]
pub(super) struct RingWords<'a> {
    pub(super) producer: &'a AtomicU32,
    pub(super) consumer: &'a AtomicU32,
    pub(super) flags: &'a AtomicU32,
    pub(super) entries: &'a [AtomicU32],
}

/// The progress of an end with a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingProgress {
    ring: XdpRing,
    end: RingEnd,
    /// The number of entries.
    entries: u32,
    /// The own index, and as it was published last.
    own: u32,
    published: u32,
    /// Entries that the end may work on, as far as it has seen.
    usable: u32,
}

impl RingProgress {
    /// The beginning of an end of an empty ring.
    pub(super) const fn new(ring: XdpRing, end: RingEnd, entries: u32) -> Self {
        Self { ring, end, entries, own: 0, published: 0, usable: 0 }
    }

    /// The number of entries that this end may work on, as far as it has seen.
    pub(super) const fn seen(&self) -> u32 {
        self.usable
    }

    /// Looks how many entries this end may work on.
    ///
    /// # Errors
    /// [`XdpFault::Index`] if the other's index has run ahead, or back.
    pub(super) fn look<O: XdpOrders>(&mut self, words: RingWords<'_>) -> Result<u32, XdpFault> {
        let (theirs, ahead) = match self.end {
            RingEnd::Producer => (words.consumer, self.entries),
            RingEnd::Consumer => (words.producer, 0),
        };
        let index = theirs.load(O::SEE);
        let usable = index.wrapping_add(ahead).wrapping_sub(self.own);
        if usable > self.entries || usable < self.usable {
            return Err(XdpFault::Index { ring: self.ring, index, own: self.own });
        }
        self.usable = usable;
        Ok(usable)
    }

    /// The words of the entry at the own index, of which each entry has `WIDTH`.
    pub(super) fn entry<'a, const WIDTH: usize>(
        &self,
        words: RingWords<'a>,
    ) -> Option<&'a [AtomicU32; WIDTH]> {
        let slot = (self.own & self.entries.wrapping_sub(1)) as usize;
        words.entries.get(slot * WIDTH..)?.first_chunk()
    }

    /// Goes past an entry, which was usable. The other end learns of it by [`publish`].
    ///
    /// [`publish`]: Self::publish
    pub(super) const fn advance(&mut self) {
        self.own = self.own.wrapping_add(1);
        self.usable = self.usable.saturating_sub(1);
    }

    /// The number of entries that the other end does not know of yet.
    pub(super) const fn unpublished(&self) -> u32 {
        self.own.wrapping_sub(self.published)
    }

    /// Hands all entries before the own index to the other end.
    pub(super) fn publish<O: XdpOrders>(&mut self, words: RingWords<'_>) {
        if self.published != self.own {
            self.published = self.own;
            let own = match self.end {
                RingEnd::Producer => words.producer,
                RingEnd::Consumer => words.consumer,
            };
            own.store(self.own, O::PUBLISH);
        }
    }
}

/// Reads an address, the two halves of which stand in memory in the order of the machine.
pub(super) fn read_address(halves: [&AtomicU32; 2]) -> u64 {
    let [first, second] = halves.map(|half| u64::from(half.load(Ordering::Relaxed)));
    if cfg!(target_endian = "big") { first << 32 | second } else { second << 32 | first }
}

/// Writes an address.
pub(super) fn write_address([first, second]: [&AtomicU32; 2], address: u64) {
    let (low, high) = (address as u32, (address >> 32) as u32);
    let (front, back) = if cfg!(target_endian = "big") { (high, low) } else { (low, high) };
    first.store(front, Ordering::Relaxed);
    second.store(back, Ordering::Relaxed);
}
