//! Bruck: blocks travel in powers of two, many in one message.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work, log2_ceil};

/// Bruck's all-to-all, modified: ceil(log2 p) rounds of about p/2 blocks, any p; for short blocks.
///
/// The block for the rank i after this one travels the distances that make up i, the powers of two of its binary digits. At
/// each rank on its way it stands where it belongs if that rank is the last: at the place of the rank i before. So nothing
/// is turned at the end. What goes in a round is packed into scratch, and what comes is unpacked from there.
///
/// Scratch: what is sent and what is received in a round, at most p + 1 blocks.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Bruck;

/// Blocks whose distance has the binary digit `bits`.
fn passing(size: u32, bits: u32) -> u32 {
    let digit = 1u32.unbounded_shl(bits);
    let full = size.unbounded_shr(bits + 1).unbounded_shl(bits);
    full + (size & digit.unbounded_shl(1).wrapping_sub(1)).saturating_sub(digit)
}

/// The most blocks of a round.
fn passing_max(size: u32) -> u32 {
    (0..log2_ceil(size)).map(|bits| passing(size, bits)).max().unwrap_or(0)
}

/// The distance that is number `index` of those with the digit `bits`.
fn distance(bits: u32, index: u32) -> u32 {
    let digit = 1u32.unbounded_shl(bits);
    (index & !(digit.wrapping_sub(1))).wrapping_mul(2) | digit | (index & digit.wrapping_sub(1))
}

/// Where the block that has `distance` to travel in all stands.
fn home(instance: &Instance, distance: u32) -> Span {
    instance.block(instance.before(distance))
}

/// The place in scratch of a block that is sent, or received.
fn packed(instance: &Instance, index: u32, received: bool) -> Span {
    let before = if received { passing_max(instance.size()) } else { 0 };
    let len = instance.count();
    Span { start: (before.saturating_add(index) as usize).saturating_mul(len), ..Span::scratch(len) }
}

/// All blocks of a round.
fn message(instance: &Instance, bits: u32, received: bool) -> Span {
    let blocks = passing(instance.size(), bits) as usize;
    Span { len: blocks.saturating_mul(instance.count()), ..packed(instance, 0, received) }
}

/// The local steps after a round: what came goes home, and what goes in the next is packed. All comes from the input at first.
fn sort(instance: &Instance, came: Option<u32>, goes: u32, index: u32) -> Option<Step> {
    let size = instance.size();
    let blocks = came.map_or(size, |bits| passing(size, bits));
    let Some(index) = index.checked_sub(blocks) else {
        let (distance, from) = match came {
            Some(bits) => (distance(bits, index), packed(instance, index, true)),
            None => (index, instance.block(instance.after(index)).of_input()),
        };
        return Some(Step::Copy { into: home(instance, distance), from });
    };
    let is_there = goes < log2_ceil(size) && index < passing(size, goes);
    is_there.then(|| Step::Copy {
        into: packed(instance, index, false),
        from: home(instance, distance(goes, index)),
    })
}

impl Schedule for Bruck {
    fn operation(&self) -> Operation {
        Operation::Alltoall
    }

    fn name(&self) -> &'static str {
        "bruck"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { log2_ceil(instance.size()) + 1 }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let Some(bits) = round.checked_sub(1) else { return sort(instance, None, 0, index) };
        let distance = 1u32.checked_shl(bits)?;
        match index {
            0 => Some(Step::Recv { from: instance.before(distance), into: message(instance, bits, true) }),
            1 => Some(Step::Send { to: instance.after(distance), from: message(instance, bits, false) }),
            _ => sort(instance, Some(bits), bits + 1, index - 2),
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        scratch.checked_div((passing_max(size) as usize).saturating_mul(2)).unwrap_or(usize::MAX)
    }
}

impl Priced for Bruck {
    fn source(&self) -> &'static str {
        "Bruck, Ho, Kipnis, Upfal, Weathersby 1997; Traeff, Rougier, Hunold 2014; Open MPI ompi_coll_base_alltoall_intra_bruck; MPICH alltoall_intra_brucks"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        if count == 0 {
            return Work::default();
        }
        let (rounds, count) = (log2_ceil(size), count as u64);
        let passed: u64 = (0..rounds).map(|bits| u64::from(passing(size, bits))).sum();
        Work {
            rounds: rounds.into(),
            elements: passed.saturating_mul(count),
            copied: (u64::from(size) + 2 * passed).saturating_mul(count),
            ..Work::default()
        }
    }
}
