//! Rabenseifner's algorithm: a reduce-scatter by recursive halving and an allgather by recursive
//! doubling.

use aldis_kernel::hal::Operation;

use crate::phases::{Halving, Pairs, locate, messages, nth, power, reverse, sum};
use crate::schedule::{Instance, Priced, Schedule, Step, Work};

/// Rabenseifner's all-reduce: 2 log2 p rounds, 2 (p - 1)/p n elements sent and (p - 1)/p n reduced,
/// for p a power of two. Otherwise pairs of ranks act as one, as in recursive doubling: a round
/// more before and one after, of n elements each.
///
/// In round k of the reduce-scatter a rank exchanges halves of what it has left with the partner
/// whose number differs in bit k, keeps one half and reduces it; in the end each has one part of
/// the result. The allgather takes the same rounds from the last to the first.
///
/// **Same bits everywhere:** each part is combined on one rank in the end, and copied to the
/// others. Operands cover contiguous ranges of ranks, the lower standing on the left, so rank order
/// is kept.
///
/// Scratch: half a segment; for p no power of two a whole one.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rabenseifner;

fn lengths(pairs: Pairs) -> [u32; 4] {
    [pairs.folds(), pairs.bits, pairs.bits, pairs.folds()]
}

/// Halving and doubling with the partner across bit `bit`.
fn exchange(pairs: Pairs, instance: &Instance, bit: u32, doubles: bool, index: u32) -> Option<Step> {
    let number = pairs.actor(instance.rank())?;
    let (halving, position) = (Halving::new(instance.count(), pairs.bits), reverse(number, pairs.bits));
    let partner = pairs.rank(number ^ power(bit));
    if doubles {
        nth(halving.double(position, bit, partner), index)
    } else {
        nth(halving.halve(instance, position, bit, partner), index)
    }
}

impl Schedule for Rabenseifner {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn name(&self) -> &'static str {
        "rabenseifner"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { lengths(Pairs::new(instance.size(), None)).iter().sum() }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let pairs = Pairs::new(instance.size(), None);
        if instance.count() == 0 {
            return None;
        }
        match locate(round, lengths(pairs))? {
            (0, _) => pairs.fold(instance, index),
            (1, bit) => exchange(pairs, instance, bit, false, index),
            (2, done) => exchange(pairs, instance, pairs.bits - 1 - done, true, index),
            _ => pairs.unfold(instance, index),
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        Pairs::new(size, None).capacity(scratch)
    }
}

impl Priced for Rabenseifner {
    fn source(&self) -> &'static str {
        "Rabenseifner 2004; Thakur, Rabenseifner, Gropp 2005, section 4.5; MPICH allreduce_intra_reduce_scatter_allgather; \
         Open MPI ompi_coll_base_allreduce_intra_redscat_allgather"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let pairs = Pairs::new(size, None);
        let halving = Halving::new(count, pairs.bits);
        let (fold, unfold) = (messages(pairs.folds(), count, true), messages(pairs.folds(), count, false));
        sum([fold, halving.exchanged(true), halving.exchanged(false), unfold])
    }

    fn reproduces(&self, _size: u32) -> bool {
        true
    }
}
