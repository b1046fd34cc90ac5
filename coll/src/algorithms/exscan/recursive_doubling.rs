//! Recursive doubling: every rank takes the data of the rank before, then adds what comes from 1,
//! 2, 4, .. before.

use aldis_kernel::hal::Operation;

use crate::algorithms::reduce::messages;
use crate::algorithms::scan::doubling;
use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work, log2_ceil};

/// The recursive-doubling exclusive scan: 1 + ceil(log2(p - 1)) rounds of n elements, any p.
///
/// In the first round every rank hands its data to the next one; what the ranks from 1 on have then
/// is scanned as by the algorithm of the same name there. The expression of rank r is the scan's of
/// rank r - 1. MPICH and Open MPI keep a sum with and one without the rank's own data instead,
/// which takes ceil(log2 p) rounds, twice the scratch and twice the reductions.
///
/// Scratch: as many elements as are worked on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RecursiveDoubling;

impl Schedule for RecursiveDoubling {
    fn operation(&self) -> Operation {
        Operation::Exscan
    }

    fn name(&self) -> &'static str {
        "recursive_doubling"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 || instance.size() < 2 { 0 } else { 1 + log2_ceil(instance.size() - 1) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        if let Some(round) = round.checked_sub(1) {
            return doubling(instance, 1, round, index);
        }
        let (data, arrived) = (Span::data(0, instance.count()), Span::scratch(instance.count()));
        let (rank, is_last) = (instance.rank(), instance.rank() == instance.size() - 1);
        match (rank, index) {
            (0, 0) => Some(Step::Send { to: rank + 1, from: data }),
            (0, _) => None,
            (_, 0) => Some(Step::Recv { from: rank - 1, into: if is_last { data } else { arrived } }),
            _ if is_last => None,
            (_, 1) => Some(Step::Send { to: rank + 1, from: data }),
            (_, 2) => Some(Step::Copy { into: data, from: arrived }),
            _ => None,
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        if size < 2 { usize::MAX } else { scratch }
    }
}

impl Priced for RecursiveDoubling {
    fn source(&self) -> &'static str {
        "Hillis, Steele 1986, after a shift; MPICH exscan_intra_recursive_doubling and Open MPI \
         ompi_coll_base_exscan_intra_recursivedoubling with twice the scratch"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        if size < 2 {
            return Work::default();
        }
        let scan = u64::from(log2_ceil(size - 1));
        let copied = if size > 2 { count as u64 } else { 0 };
        Work { copied, ..messages(1 + scan, scan, count) }
    }

    fn reproduces(&self, _size: u32) -> bool {
        true
    }
}
