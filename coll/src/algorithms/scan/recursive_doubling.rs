//! Recursive doubling: every rank adds what comes from 1, 2, 4, .. ranks before.

use aldis_kernel::hal::Operation;

use crate::algorithms::reduce::messages;
use crate::schedule::{Instance, Order, Priced, Schedule, Span, Step, Work, log2_ceil};

/// The recursive-doubling scan: ceil(log2 p) rounds of n elements, any p.
///
/// In round k each rank sends what it has to the rank 2^k after it, and puts what comes from the
/// rank 2^k before it on the left. After round k it has the reduction of the 2^(k+1) ranks that end
/// with itself, as far as there are so many. The expression of rank r is split so that its right
/// half has as many ranks as the largest power of two below r + 1, and so are the halves.
///
/// Scratch: as many elements as are worked on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RecursiveDoubling;

/// A round of a scan over the ranks from `first` on.
pub(crate) fn doubling(instance: &Instance, first: u32, round: u32, index: u32) -> Option<Step> {
    let (rank, distance) = (instance.rank(), 1u32.checked_shl(round)?);
    let place = rank.checked_sub(first)?;
    let (data, arrived) = (Span::data(0, instance.count()), Span::scratch(instance.count()));
    let receives = (place >= distance).then(|| Step::Recv { from: rank - distance, into: arrived });
    let sends = (distance < instance.size() - rank).then(|| Step::Send { to: rank + distance, from: data });
    let adds = receives.map(|_| Step::Reduce { into: data, from: arrived, order: Order::FromFirst });
    receives.into_iter().chain(sends).chain(adds).nth(index as usize)
}

impl Schedule for RecursiveDoubling {
    fn operation(&self) -> Operation {
        Operation::Scan
    }

    fn name(&self) -> &'static str {
        "recursive_doubling"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { log2_ceil(instance.size()) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        doubling(instance, 0, round, index)
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        if size < 2 { usize::MAX } else { scratch }
    }
}

impl Priced for RecursiveDoubling {
    fn source(&self) -> &'static str {
        "Kogge, Stone 1973; Hillis, Steele 1986; in the rounds of MPICH scan_intra_recursive_doubling and Open MPI \
         ompi_coll_base_scan_intra_recursivedoubling"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        messages(log2_ceil(size).into(), log2_ceil(size).into(), count)
    }

    fn reproduces(&self, _size: u32) -> bool {
        true
    }
}
