//! Chapter 4: partitioned point-to-point communication.

mod parts;
mod refusals;

use core::ops::Range;

use aldis_hal::{Platform, Transport};
use aldis_kernel::{Error, LentMut, Scope};

use super::chapter::Case;

/// The cases of this chapter.
pub(super) fn cases<T: Transport, P: Platform>() -> Vec<Case<T, P>> {
    let mut cases = parts::cases();
    cases.extend(refusals::cases());
    cases
}

/// The byte at some place of the message of a round: it tells which round, and where it belongs.
fn byte(round: usize, at: usize) -> u8 {
    (at.wrapping_mul(0x9E37_79B9) >> 11) as u8 ^ (round * 77) as u8
}

/// The message of a round.
fn message(round: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| byte(round, at)).collect()
}

/// The bytes of one partition.
const fn bytes_of(partition: u32, partitions: u32, len: usize) -> Range<usize> {
    let bytes = len / partitions as usize;
    partition as usize * bytes..(partition as usize + 1) * bytes
}

/// Partitions in an order that differs by round.
fn shuffled(round: usize, partitions: u32) -> impl Iterator<Item = u32> {
    let count = partitions as usize;
    // Any number that shares no factor with the count goes through all.
    let step = (1..=count).rev().filter(|step| gcd(*step, count) == 1).nth(round).unwrap_or(1);
    (0..count).map(move |turn| ((round + turn * step) % count) as u32)
}

const fn gcd(one: usize, other: usize) -> usize {
    if other == 0 { one } else { gcd(other, one % other) }
}

/// Writes a partition of a round's message.
fn fill<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    memory: LentMut<'scope>,
    bytes: Range<usize>,
    round: usize,
) -> Result<(), Error> {
    let start = bytes.start;
    scope.edit(memory, bytes, |part| {
        for (at, element) in (start..).zip(part) {
            *element = byte(round, at);
        }
    })
}

/// Looks at bytes of a round's message.
fn check<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    memory: LentMut<'scope>,
    bytes: Range<usize>,
    round: usize,
) -> Result<(), Error> {
    let start = bytes.start;
    scope.edit(memory, bytes, |part| {
        for (at, element) in (start..).zip(part) {
            assert_eq!(*element, byte(round, at), "byte {at} of round {round}");
        }
    })
}
