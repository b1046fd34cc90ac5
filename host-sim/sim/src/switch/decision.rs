//! The fate of one frame.

use super::faults::PortFaults;
use crate::Random;

/// Most later frames that overtake one.
const OVERTAKERS_MAX: u64 = 4;
/// Most bytes that are changed.
const CHANGES_MAX: u64 = 4;

/// The fate of a frame. The same numbers are drawn for each, whatever the rates are: the n-th
/// frame's fate does not depend on what happened to those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Decision {
    pub(super) lost: bool,
    pub(super) twice: bool,
    /// So many later frames overtake it.
    pub(super) behind: Option<u32>,
    /// The frame is late by so many ns.
    pub(super) late_ns: Option<u64>,
    /// So many bytes are changed, the places and values drawn from this seed.
    pub(super) changes: Option<(u32, u64)>,
}

impl Decision {
    pub(super) fn draw(faults: &PortFaults, random: &mut Random) -> Self {
        let lost = faults.loss.happens(random);
        let twice = faults.duplicate.happens(random);
        let (reordered, behind) = (faults.reorder.happens(random), random.within(1, OVERTAKERS_MAX) as u32);
        let (delayed, late_ns) = (faults.delay.happens(random), random.within(1, faults.delay_ns_max.max(1)));
        let corrupted = faults.corrupt.happens(random);
        let changes = (random.within(1, CHANGES_MAX) as u32, random.draw());
        Self {
            lost,
            twice,
            behind: reordered.then_some(behind),
            late_ns: delayed.then_some(late_ns),
            changes: corrupted.then_some(changes),
        }
    }
}

/// Changes `count` bytes of a frame, each to another value; two changes may undo each other only at
/// one place.
pub(super) fn corrupt(frame: &mut [u8], count: u32, seed: u64) {
    let mut random = Random::new(seed, 0);
    for _ in 0..count {
        let at = random.below(frame.len() as u64) as usize;
        let bits = random.within(1, 255) as u8;
        if let Some(byte) = frame.get_mut(at) {
            *byte ^= bits;
        }
    }
}
