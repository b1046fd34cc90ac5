//! Recursive doubling: pairs at distance 1, 2, 4, .. signal each other.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work, log2_floor};

/// The recursive-doubling barrier: log2 p rounds for a power of two, floor(log2 p) + 2 for any
/// other p.
///
/// The ranks beyond the largest power of two signal a partner below it first, and get its answer
/// last. The others signal the partner that differs in bit k in round k.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RecursiveDoubling;

/// Two more rounds if there are ranks beyond the largest power of two.
const fn is_folded(size: u32) -> bool {
    !size.is_power_of_two()
}

impl RecursiveDoubling {
    /// Between a rank beyond the power of two and its partner, towards the partner or back.
    fn fold(instance: &Instance, back: bool) -> Option<Step> {
        let (rank, power) = (instance.rank(), 1u32 << log2_floor(instance.size()));
        let (is_beyond, partner) = if rank < power { (false, rank + power) } else { (true, rank - power) };
        (is_beyond || rank < instance.size() - power).then_some(if is_beyond == back {
            Step::Recv { from: partner, into: Span::EMPTY }
        } else {
            Step::Send { to: partner, from: Span::EMPTY }
        })
    }

    fn exchange(instance: &Instance, bit: u32, index: u32) -> Option<Step> {
        let (rank, power) = (instance.rank(), 1u32 << log2_floor(instance.size()));
        let partner = rank ^ 1u32.checked_shl(bit)?;
        match index {
            _ if rank >= power => None,
            0 => Some(Step::Recv { from: partner, into: Span::EMPTY }),
            1 => Some(Step::Send { to: partner, from: Span::EMPTY }),
            _ => None,
        }
    }
}

impl Schedule for RecursiveDoubling {
    fn operation(&self) -> Operation {
        Operation::Barrier
    }

    fn name(&self) -> &'static str {
        "recursive_doubling"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        log2_floor(instance.size()) + if is_folded(instance.size()) { 2 } else { 0 }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let rounds = self.rounds(instance);
        let last = rounds.checked_sub(1)?;
        match is_folded(instance.size()) {
            _ if round >= rounds => None,
            true if round == 0 || round == last => Self::fold(instance, round == last).filter(|_| index == 0),
            true => Self::exchange(instance, round - 1, index),
            false => Self::exchange(instance, round, index),
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for RecursiveDoubling {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_barrier_intra_recursivedoubling; MPICH barrier_intra_recexch"
    }

    fn work(&self, size: u32, _count: usize) -> Work {
        let folds = if is_folded(size) { 2 } else { 0 };
        Work { rounds: u64::from(log2_floor(size)) + folds, ..Work::default() }
    }
}
