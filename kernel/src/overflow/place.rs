//! Places in the order of posting, and the way from one to the next without a look at all requests.

#[cfg(not(feature = "compact"))]
use aldis_protocols::overflow::Posted;

#[cfg(not(feature = "compact"))]
use crate::request::Requests;

/// Slots to either side of a request among which the one posted after it is looked for. What is
/// posted in a loop lies side by side, upwards or downwards, perhaps with sends in between.
#[cfg(not(feature = "compact"))]
const NEARBY: u32 = 4;

/// A place in the order of posting, and the slot of the request that was given it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) slot: u32,
    pub(crate) order: u32,
}

#[cfg(not(feature = "compact"))]
impl Place {
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
