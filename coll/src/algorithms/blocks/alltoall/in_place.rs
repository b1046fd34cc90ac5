//! In place: pairs of ranks swap their blocks for each other.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work};

/// The all-to-all in place: p rounds, in each of which pairs of ranks swap; what is received waits
/// in scratch until what it replaces has been sent. In round k a rank meets the one whose number
/// makes k with its own, modulo p; itself at times.
///
/// It reads no input: data is both.
///
/// Scratch: one block. Blocks of unlike lengths are as long at both ranks of a pair.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct InPlace;

impl Schedule for InPlace {
    fn operation(&self) -> Operation {
        Operation::Alltoall
    }

    fn name(&self) -> &'static str {
        "in_place"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 || instance.size() < 2 { 0 } else { instance.size() }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let (rank, size) = (instance.rank(), instance.size());
        let other = if round < rank { round + (size - rank) } else { round - rank };
        let (block, arrived) = (instance.block(other), Span::scratch(instance.count()).of_block(other));
        match index {
            _ if other == rank => None,
            0 => Some(Step::Recv { from: other, into: arrived }),
            1 => Some(Step::Send { to: other, from: block }),
            2 => Some(Step::Copy { into: block, from: arrived }),
            _ => None,
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        if size < 2 { usize::MAX } else { scratch }
    }

    fn serves_unlike(&self, _size: u32) -> bool {
        true
    }
}

impl Priced for InPlace {
    fn source(&self) -> &'static str {
        "Open MPI mca_coll_base_alltoall_intra_basic_inplace; MPICH alltoallv_intra_pairwise_sendrecv_replace"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        // Of two ranks both meet themselves in the first round.
        let rounds = match (count, size) {
            (0, _) | (_, 0 | 1) => 0,
            (_, 2) => 1,
            _ => u64::from(size),
        };
        let elements = rounds.saturating_mul(count as u64);
        Work { rounds, elements, copied: elements, ..Work::default() }
    }
}
