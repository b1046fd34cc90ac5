//! The log in which the ranks of a node with shared inboxes say that they have left: so that none
//! sends a message to each other, which would be as many as there are pairs.
//!
//! It stands in the inbox of the node's first rank, with an entry for each rank. One that leaves
//! takes the first free entry, after all that it has sent; the others read the entries in turn. Who
//! finds an entry finds, with it, all messages of its rank, or has taken them: the rank is gone
//! when those have been delivered. A rank that is killed has taken its entry or not: there is
//! nothing between.

use core::marker::PhantomData;

use aldis_hal::PeerId;

use crate::sync::{Ordering, Word};

/// The orders of the log's accesses; the models relax them one by one.
pub(super) trait DepartureOrders {
    /// The store of an entry: after all messages.
    const PUBLISH: Ordering = Ordering::Release;
    /// The load of an entry.
    const LOOK: Ordering = Ordering::Acquire;
    /// True if an entry is taken in one operation.
    const TAKES_AT_ONCE: bool = true;
}

/// The orders that ship.
pub(super) struct Exact;
impl DepartureOrders for Exact {}

/// The log: entries of a rank's number on the node, plus one, or zero.
pub(super) struct Departures<'m, O = Exact> {
    entries: &'m [Word],
    orders: PhantomData<O>,
}

impl<'m, O: DepartureOrders> Departures<'m, O> {
    /// The log of these entries, one for each rank.
    pub(super) const fn new(entries: &'m [Word]) -> Self {
        Self { entries, orders: PhantomData }
    }

    /// Frees every entry. By the owner, before any rank is attached.
    pub(super) fn clear(&self) {
        self.entries.iter().for_each(|entry| entry.store(0, Ordering::Relaxed));
    }

    /// Says that a rank has left, which has found all entries before `place` taken.
    pub(super) fn enter(&self, number: PeerId, place: u32) {
        let value = number.0.wrapping_add(1);
        for entry in self.entries.iter().skip(place as usize) {
            let is_taken = if O::TAKES_AT_ONCE {
                entry.claim(value, O::PUBLISH)
            } else {
                let is_free = entry.load(Ordering::Relaxed) == 0;
                if is_free {
                    entry.store(value, O::PUBLISH);
                }
                is_free
            };
            if is_taken {
                return;
            }
        }
    }

    /// Returns the rank that has left as the one of this number, counted from zero; `None` if none
    /// has yet.
    #[inline(always)]
    pub(super) fn at(&self, place: u32) -> Option<PeerId> {
        self.entries.get(place as usize)?.load(O::LOOK).checked_sub(1).map(PeerId)
    }
}
