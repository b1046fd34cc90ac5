//! Chapter 3: point-to-point communication.

mod blocking;
mod buffers;
mod cancel;
mod completion;
mod detached;
mod flow_control;
mod matched;
mod modes;
mod null_rank;
mod order;
mod persistent;
mod probe;
mod wildcards;

use aldis_hal::{Platform, Transport};

use super::chapter::Case;

/// The cases of this chapter.
pub(super) fn cases<T: Transport, P: Platform>() -> Vec<Case<T, P>> {
    let mut cases = blocking::cases();
    cases.extend(modes::cases());
    cases.extend(buffers::cases());

    cases.extend(order::cases());
    cases.extend(wildcards::cases());
    cases.extend(flow_control::cases());
    cases.extend(completion::cases());
    cases.extend(detached::cases());
    cases.extend(probe::cases());
    cases.extend(matched::cases());
    cases.extend(cancel::cases());
    cases.extend(persistent::cases());
    cases.extend(null_rank::cases());
    cases
}

/// Lengths for which messages are inline, eager, deferred, and in a few or many fragments.
const LENGTHS: [usize; 9] = [0, 1, 8, 24, 25, 64, 65, 400, 3000];

/// The bytes of a message: they tell which one it is, and where in it they belong.
fn message(number: u32, len: usize) -> Vec<u8> {
    let at = |index: u32| index.wrapping_mul(0x9E37_79B9) ^ number.wrapping_mul(0x85EB_CA6B);
    (0..len as u32).map(|index| (at(index) >> 13) as u8).collect()
}
