//! A reduction to rank 0 and a broadcast from it, one after the other, down the same tree.

use aldis_kernel::hal::Operation;

use crate::algorithms::{bcast, reduce};
use crate::phases::sum;
use crate::schedule::{Instance, Priced, Schedule, Step, Work, pairs_up};

/// The nonoverlapping all-reduce: [`reduce::Binomial`] and then [`bcast::Binomial`], 2 ceil(log2 p)
/// rounds of n elements.
///
/// **Same bits everywhere:** one rank has the result and the others get a copy; rank order is kept.
///
/// Scratch: as many elements as a segment.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Nonoverlapping;

/// Two schedules, of which the second starts on a rank where the first has ended.
pub(super) struct InSequence<A, B>(pub(super) A, pub(super) B);

impl<A: Schedule, B: Schedule> InSequence<A, B> {
    pub(super) fn rounds(&self, instance: &Instance) -> u32 {
        self.0.rounds(instance).saturating_add(self.1.rounds(instance))
    }

    pub(super) fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        match round.checked_sub(self.0.rounds(instance)) {
            None => self.0.step(instance, round, index),
            Some(round) => self.1.step(instance, round, index),
        }
    }
}

const PHASES: InSequence<reduce::Binomial, bcast::Binomial> = InSequence(reduce::Binomial, bcast::Binomial);

impl Schedule for Nonoverlapping {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn name(&self) -> &'static str {
        "nonoverlapping"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        PHASES.rounds(instance)
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        PHASES.step(instance, round, index)
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        reduce::Binomial.capacity(size, scratch)
    }
}

impl Priced for Nonoverlapping {
    fn source(&self) -> &'static str {
        "Open MPI ompi_coll_base_allreduce_intra_nonoverlapping; MPICH allreduce_intra_tree"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        sum([reduce::Binomial.work(size, count), bcast::Binomial.work(size, count)])
    }

    fn reproduces(&self, size: u32) -> bool {
        pairs_up(size)
    }
}
