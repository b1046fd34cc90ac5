//! Fans: one rank and all others, a few of them at a time. Places count from the one, whose own
//! is 0.

use super::{IN_FLIGHT_MAX, Work};

/// Ranks of a round.
const WIDTH: u32 = IN_FLIGHT_MAX as u32;

/// Rounds until all others have had theirs.
pub(crate) fn rounds(size: u32) -> u32 {
    size.saturating_sub(1).div_ceil(WIDTH)
}

/// Returns the round of a place that is not 0.
pub(crate) fn round_of(place: u32) -> u32 {
    place.saturating_sub(1) / WIDTH
}

/// The place with `index` in a round, if there is one.
pub(crate) fn place(size: u32, round: u32, index: u32) -> Option<u32> {
    let place = round.checked_mul(WIDTH)?.checked_add(index)?.checked_add(1)?;
    (index < WIDTH && place < size).then_some(place)
}

/// The work of the one: a message of `count` elements for each other.
pub(crate) fn work(size: u32, count: usize) -> Work {
    if count == 0 {
        return Work::default();
    }
    let (rounds, messages) = (u64::from(rounds(size)), u64::from(size.saturating_sub(1)));
    Work {
        rounds,
        fan: messages - rounds,
        elements: messages.saturating_mul(count as u64),
        ..Work::default()
    }
}
