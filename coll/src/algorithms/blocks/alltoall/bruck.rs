//! Bruck: blocks travel in powers of the radix, many in one message.

use core::ops::Range;

use aldis_kernel::hal::Operation;

use crate::schedule::radix::{self, RoundDigits};
use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work, divide};

/// Bruck's all-to-all of radix k, 2 in the original, modified: ceil(log_k p) stages of up to k - 1
/// messages of about p/k blocks, any p; a round each for a radix of up to 5. For short blocks: a
/// higher radix takes fewer stages and sends less.
///
/// The block for the rank i after this one travels the distances that make up i, the digits of i
/// times the powers of k. At each rank on its way it stands where it belongs if that rank is the
/// last: at the place of the rank i before. So nothing is turned at the end. What is sent in a
/// round is packed into scratch, and what comes is unpacked from there.
///
/// Scratch: what is sent and what is received in a round, about p blocks for a radix of 2, and less
/// than 2 p.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Bruck<const RADIX: u32>;

/// Returns the place of the block that has `distance` to travel in all.
fn home(instance: &Instance, distance: u32) -> Span {
    instance.block(instance.before(distance))
}

impl<const RADIX: u32> Bruck<RADIX> {
    fn digits(size: u32, round: u32) -> Option<RoundDigits> {
        radix::rounds(size, RADIX).nth(round as usize)
    }

    /// Counts the blocks whose distance has this digit at the round's power of the radix.
    fn passing(size: u32, digits: RoundDigits, digit: u32) -> u32 {
        let (size, distance) = (size as usize, digits.distance as usize);
        let (full, rest) = divide(size, distance.saturating_mul(RADIX as usize));
        let beyond = rest.saturating_sub(distance.saturating_mul(digit as usize)).min(distance);
        full.saturating_mul(distance).saturating_add(beyond) as u32
    }

    /// Blocks of the first `exchanges` of a round.
    fn before(size: u32, digits: RoundDigits, exchanges: u32) -> u32 {
        (0..exchanges).map(|index| Self::passing(size, digits, digits.digit(index))).sum()
    }

    /// Blocks of a round.
    fn all(size: u32, digits: RoundDigits) -> u32 {
        Self::before(size, digits, digits.count)
    }

    /// The most blocks of a round.
    fn most(size: u32) -> u32 {
        radix::rounds(size, RADIX).map(|digits| Self::all(size, digits)).max().unwrap_or(0)
    }

    /// Returns how far in all the block travels that is number `index` of those of a round.
    fn distance_of(size: u32, digits: RoundDigits, mut index: u32) -> u32 {
        for digit in (0..digits.count).map(|index| digits.digit(index)) {
            let blocks = Self::passing(size, digits, digit);
            if index < blocks {
                let (high, low) = divide(index as usize, digits.distance as usize);
                let high = (high as u32).saturating_mul(RADIX).saturating_add(digit);
                return high.saturating_mul(digits.distance).saturating_add(low as u32);
            }
            index -= blocks;
        }
        0
    }

    /// The place in scratch of these of the blocks that are sent in a round, or received behind
    /// them.
    fn packed(instance: &Instance, digits: RoundDigits, blocks: Range<u32>, received: bool) -> Span {
        let before = if received { Self::all(instance.size(), digits) } else { 0 };
        let elements = |blocks: u32| (blocks as usize).saturating_mul(instance.count());
        let len = elements(blocks.end.saturating_sub(blocks.start));
        Span { start: elements(before.saturating_add(blocks.start)), ..Span::scratch(len) }
    }

    /// All blocks of an exchange.
    fn message(instance: &Instance, digits: RoundDigits, exchange: u32, received: bool) -> Span {
        let (size, digit) = (instance.size(), digits.digit(exchange));
        let first = Self::before(size, digits, exchange);
        let blocks = first..first.saturating_add(Self::passing(size, digits, digit));
        Self::packed(instance, digits, blocks, received)
    }

    /// The local steps after a round: what came is stored in its place, and what is sent in the
    /// next is packed. All comes from the input at first.
    fn sort(
        instance: &Instance,
        came: Option<RoundDigits>,
        goes: Option<RoundDigits>,
        index: u32,
    ) -> Option<Step> {
        let size = instance.size();
        let blocks = came.map_or(size, |digits| Self::all(size, digits));
        let Some(index) = index.checked_sub(blocks) else {
            let (distance, from) = match came {
                Some(digits) => (
                    Self::distance_of(size, digits, index),
                    Self::packed(instance, digits, index..index + 1, true),
                ),
                None => (index, instance.block(instance.after(index)).of_input()),
            };
            return Some(Step::Copy { into: home(instance, distance), from });
        };
        let digits = goes.filter(|digits| index < Self::all(size, *digits))?;
        let from = home(instance, Self::distance_of(size, digits, index));
        Some(Step::Copy { into: Self::packed(instance, digits, index..index + 1, false), from })
    }
}

impl<const RADIX: u32> Schedule for Bruck<RADIX> {
    fn operation(&self) -> Operation {
        Operation::Alltoall
    }

    fn name(&self) -> &'static str {
        match RADIX {
            2 => "bruck",
            4 => "bruck_radix4",
            8 => "bruck_radix8",
            _ => "bruck_radix",
        }
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { radix::rounds(instance.size(), RADIX).count() as u32 + 1 }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if instance.count() == 0 {
            return None;
        }
        let next = Self::digits(instance.size(), round);
        let Some(now) = round.checked_sub(1) else { return Self::sort(instance, None, next, index) };
        let digits = Self::digits(instance.size(), now)?;
        let (nth, sends) = match index.checked_sub(digits.count) {
            None => (index, false),
            Some(index) if index < digits.count => (index, true),
            Some(index) => return Self::sort(instance, Some(digits), next, index - digits.count),
        };
        let reach = digits.reach(nth);
        let span = Self::message(instance, digits, nth, !sends);
        Some(match sends {
            false => Step::Recv { from: instance.before(reach), into: span },
            true => Step::Send { to: instance.after(reach), from: span },
        })
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        scratch.checked_div((Self::most(size) as usize).saturating_mul(2)).unwrap_or(usize::MAX)
    }
}

impl<const RADIX: u32> Priced for Bruck<RADIX> {
    fn source(&self) -> &'static str {
        "Bruck, Ho, Kipnis, Upfal, Weathersby 1997; Traeff, Rougier, Hunold 2014; Open MPI ompi_coll_base_alltoall_intra_bruck; MPICH alltoall_intra_brucks, k_brucks"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        if count == 0 {
            return Work::default();
        }
        let passed: u64 = radix::rounds(size, RADIX).map(|digits| u64::from(Self::all(size, digits))).sum();
        let count = count as u64;
        Work {
            elements: passed.saturating_mul(count),
            copied: (u64::from(size) + 2 * passed).saturating_mul(count),
            ..radix::work(size, RADIX)
        }
    }
}
