//! The parts of a message's tag that name its call, on the plane of collectives.
//!
//! | bits | what |
//! |---|---|
//! | 0 to 14 | the call's number on the communicator, or among its persistent ones, modulo 2^15 |
//! | 15 to 19 | the root's rank, modulo 32; zero without a root |
//! | 20 to 25 | the operation |
//! | 26 | a persistent collective, or one that is started again |
//! | 27 and 28 | the lane |
//! | 29 | a refusal: a notice to those whose messages a rank will not take any more |
//! | 30 | a call whose tag the program gives, in bits 0 to 28 |
//!
//! Bit 31 is the kernel's. Operations beyond the last one, whose calls are not compared, stand for
//! persistent collectives beyond the first 2^15 of a communicator, and for those that are started
//! again though they were not made persistent.

use aldis_kernel::hal::{Cause, Operation};
use aldis_kernel::{COLLECTIVES_MAX, Tag};

use crate::select::LANES;

const NUMBER_BITS: u32 = COLLECTIVES_MAX.ilog2();
const ROOT_BITS: u32 = 5;
const OPERATION_BITS: u32 = 6;
const PERSISTENT_BITS: u32 = 1;
const LANE_BITS: u32 = 2;

const ROOT_AT: u32 = NUMBER_BITS;
const OPERATION_AT: u32 = ROOT_AT + ROOT_BITS;
const PERSISTENT_AT: u32 = OPERATION_AT + OPERATION_BITS;
const LANE_AT: u32 = PERSISTENT_AT + PERSISTENT_BITS;
const REFUSAL_AT: u32 = LANE_AT + LANE_BITS;
const USER_AT: u32 = REFUSAL_AT + 1;

const REFUSAL: u32 = 1 << REFUSAL_AT;
const USER: u32 = 1 << USER_AT;
/// The tag by which all members of two groups have everything received, over the world.
pub(crate) const FLUSH: Tag = Tag(USER | (REFUSAL - 1));

const PERSISTENT: u32 = 1 << PERSISTENT_AT;
const NUMBER: u32 = COLLECTIVES_MAX - 1;
/// Roots that are distinguished.
pub(crate) const ROOTS: u32 = 1 << ROOT_BITS;
/// Root and operation.
const CALL: u32 = (1 << (ROOT_BITS + OPERATION_BITS)) - 1;
/// The last number of an operation that there can be, which stands for a restarted collective.
const RESTARTED: u32 = (1 << OPERATION_BITS) - 1;

const _: () = assert!(USER_AT == 30);
const _: () = assert!(LANES <= 1 << LANE_BITS);
const _: () = assert!(Operation::ALL.len() < 1 << OPERATION_BITS);

/// The tag of the call with this number.
#[inline]
pub(crate) const fn of_call(number: Tag, operation: Operation, root: u32) -> Tag {
    let root = (root << (u32::BITS - ROOT_BITS)) >> (u32::BITS - ROOT_BITS - ROOT_AT);
    Tag(number.0 | root | (operation as u32) << OPERATION_AT)
}

/// Returns the place of a call in an order of those on its communicator: calls whose tags the
/// program gives come behind the others.
pub(crate) const fn order(tag: Tag) -> u16 {
    (tag.0 & (COLLECTIVES_MAX - 1)) as u16 | ((tag.0 >> USER_AT & 1) as u16) << NUMBER_BITS
}

/// The tag of the persistent collective with this number, which is not taken modulo anything.
pub(crate) const fn of_persistent(number: u32, operation: Operation, root: u32) -> Tag {
    let low = Tag(number & NUMBER);
    let Some(round) = (number >> NUMBER_BITS).checked_sub(1) else {
        return Tag(PERSISTENT | of_call(low, operation, root).0);
    };
    let first = (Operation::ALL.len() as u32) << ROOT_BITS;
    Tag(PERSISTENT | (first + round % ((RESTARTED << ROOT_BITS) - first)) << ROOT_AT | low.0)
}

/// The tag of a call's collective when it is started again. Ranks do that in any order, when the
/// number may have come round.
pub(crate) const fn restarted(tag: Tag) -> Tag {
    if is_persistent(tag) { tag } else { Tag(tag.0 | PERSISTENT | RESTARTED << OPERATION_AT) }
}

/// The tag of a lane of a call.
#[inline]
pub(crate) const fn in_lane(tag: Tag, lane: u32) -> Tag {
    Tag(tag.0 ^ lane << LANE_AT)
}

/// The tag of a call's refusals.
pub(crate) const fn refusal(tag: Tag) -> Tag {
    Tag(tag.0 | REFUSAL)
}

/// Returns the tag of a call whose tag the program gives.
///
/// # Errors
/// [`Cause::TagOutOfRange`] from 2^29 on.
pub(crate) const fn of_user(tag: Tag) -> Result<Tag, Cause> {
    if tag.0 < REFUSAL {
        Ok(Tag(tag.0 | USER))
    } else {
        Err(Cause::TagOutOfRange { tag: tag.0, max: REFUSAL - 1 })
    }
}

/// Returns true for the tag of a collective that keeps its number, while those of calls come round.
pub(crate) const fn is_persistent(tag: Tag) -> bool {
    tag.0 & PERSISTENT != 0
}

/// The operation and the root, if the tag is one that tells them.
pub(crate) fn call(tag: Tag) -> Option<(Operation, u8)> {
    if tag.0 >= REFUSAL {
        return None;
    }
    let (operation, root) = (tag.0 >> OPERATION_AT & RESTARTED, tag.0 >> ROOT_AT & (ROOTS - 1));
    let operation = Operation::from_number(operation as u8).filter(|known| *known != Operation::None)?;
    Some((operation, root as u8))
}

/// Returns true if two tags are of calls with one number that are not the same.
pub(crate) fn are_unlike(own: Tag, theirs: Tag) -> bool {
    let differ = own.0 ^ theirs.0;
    differ & (NUMBER | PERSISTENT) == 0
        && differ & CALL << ROOT_AT != 0
        && call(own).is_some()
        && call(theirs).is_some()
}

/// Returns true if a tag is of the call with this number, and not of a persistent collective.
pub(crate) const fn has_number(tag: Tag, number: Tag) -> bool {
    tag.0 & (NUMBER | PERSISTENT | REFUSAL | USER) == number.0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn fields_do_not_overlap() {
        let fields = [NUMBER, CALL << ROOT_AT, PERSISTENT, ((1 << LANE_BITS) - 1) << LANE_AT, REFUSAL, USER];
        assert_eq!(fields.iter().fold(0, |all, field| all | field), Tag::MAX.0);
        assert_eq!(fields.iter().map(|field| field.count_ones()).sum::<u32>(), Tag::MAX.0.count_ones());
        let last = Operation::ALL[Operation::ALL.len() - 1];
        let highest = [
            of_call(Tag(NUMBER), last, u32::MAX),
            of_persistent(u32::MAX, last, u32::MAX),
            restarted(of_call(Tag(NUMBER), last, u32::MAX)),
        ];
        for tag in highest {
            for lane in 0..4 {
                assert_eq!(in_lane(tag, lane).0 >> LANE_AT, lane);
                assert!(refusal(in_lane(tag, lane)).0 < USER);
            }
        }
    }

    #[test]
    fn a_tag_tells_the_call() {
        for (number, root) in [(0, 0), (1, 3), (NUMBER, 31), (7, 32), (NUMBER, u32::MAX)] {
            for operation in Operation::ALL.into_iter().skip(1) {
                let tag = of_call(Tag(number), operation, root);
                assert_eq!(call(tag), Some((operation, (root % 32) as u8)));
                assert!(has_number(tag, Tag(number)) && has_number(in_lane(tag, 3), Tag(number)));
                for alike in
                    [tag, in_lane(tag, 3), refusal(tag), Tag(tag.0 | USER), Tag(tag.0 ^ 1), restarted(tag)]
                {
                    assert!(!are_unlike(tag, alike) && !are_unlike(alike, tag), "{operation}");
                }
                assert!(are_unlike(tag, in_lane(of_call(Tag(number), operation, root ^ 1), 2)));
                let persistent = of_persistent(number, operation, root);
                assert_eq!(call(persistent), call(tag));
                assert!(!has_number(persistent, Tag(number)) && !are_unlike(tag, persistent));
                assert!(are_unlike(persistent, of_persistent(number, operation, root ^ 1)));
                assert_eq!(restarted(persistent), persistent);
            }
        }
        assert!(are_unlike(of_call(Tag(5), Operation::Dup, 0), of_call(Tag(5), Operation::Reduce, 0)));
        // A call whose tag the program gives has a number alone.
        assert!(!are_unlike(Tag(5), of_call(Tag(5), Operation::Reduce, 0)));
    }

    /// Beyond the first 2^15 they are distinguished, but not compared.
    #[test]
    fn persistent_collectives_have_tags_of_their_own() {
        let one = |number| of_persistent(number, Operation::Bcast, 3);
        let rounds = (RESTARTED - Operation::ALL.len() as u32) << ROOT_BITS;
        let numbers = (0..=rounds).flat_map(|round| [0, 1, NUMBER].map(|low| round << NUMBER_BITS | low));
        let tags: BTreeSet<u32> = numbers.clone().map(|number| one(number).0).collect();
        assert_eq!(tags.len(), numbers.clone().count());
        assert!(tags.iter().all(|tag| is_persistent(Tag(*tag)) && *tag < 1 << LANE_AT));
        for number in numbers {
            assert_eq!(call(one(number)).is_some(), number < COLLECTIVES_MAX);
            assert_ne!(one(number), restarted(of_call(Tag(number & NUMBER), Operation::Bcast, 3)));
        }
    }
}
