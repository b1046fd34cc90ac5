//! The walk from one receive to the one posted after it, without a look at all requests.

use aldis_hal::PeerId;
use aldis_protocols::overflow::{NextReceive, Posted};

use super::{may_be_asked, waits};
use crate::counters::count;
use crate::engine::state::{Engine, FAST_PATHS, PostedSlot};
use crate::tables::request::Requests;

/// Slots to either side of a request among which the one posted after it is looked for. What is
/// posted in a loop lies side by side, upwards or downwards, perhaps with sends in between.
const NEARBY: u32 = 4;

impl PostedSlot {
    pub(crate) const fn of(posted: Posted) -> Self {
        Self { slot: posted.receiver.slot, order: posted.order }
    }

    /// The next place, if its request lies close by. A place is given to one request alone, so none
    /// is passed over that was posted in between; the request may be over, as long as no other has
    /// been posted in its slot.
    pub(crate) fn next(self, requests: &mut Requests<'_>) -> Option<Self> {
        // All slots begin with the first place, which tells nothing.
        let order = self.order.checked_add(1)?;
        for distance in 1..=NEARBY {
            for slot in [self.slot.wrapping_add(distance), self.slot.wrapping_sub(distance)] {
                if requests.at(slot).is_some_and(|request| request.order == order) {
                    return Some(Self { slot, order });
                }
            }
        }
        None
    }
}

impl Engine<'_> {
    /// Finds the request to ask `id` about: from one to the next, beginning where none before is to
    /// be asked about, or among all if they lie too far apart for that.
    pub(super) fn next_to_ask(&mut self, id: PeerId, next: NextReceive) -> Option<PostedSlot> {
        if !FAST_PATHS {
            return self.first_of_all(|request| may_be_asked(request, id, next));
        }
        let mut at = match next {
            NextReceive::First => self.oldest,
            NextReceive::After(_) => self.peers.get(id).map(|row| PostedSlot::of(row.seeker.sought())),
        };
        if let (Some(at), NextReceive::After(cursor)) = (at, next)
            && at.order == cursor
            && self.matcher.is_newest(cursor)
        {
            return None;
        }
        let mut is_oldest = next == NextReceive::First;
        while let Some(place) = at {
            count(&mut self.counters.seek_steps);
            let request = self.requests.at(place.slot)?;
            if request.order == place.order && waits(request) {
                let found = may_be_asked(request, id, next);
                if core::mem::take(&mut is_oldest) {
                    self.oldest = at;
                }
                if found {
                    return at;
                }
            }
            at = place.next(&mut self.requests);
        }
        self.counters.seek_steps += u64::from(self.requests.used_end());
        if is_oldest {
            self.oldest = self.first_of_all(waits);
        }
        self.first_of_all(|request| may_be_asked(request, id, next))
    }
}
