//! Rabenseifner's algorithm: a reduce-scatter by recursive halving and a gather by a binomial tree.

use aldis_kernel::hal::Operation;

use crate::phases::{Halving, Pairs, locate, messages, nth, power, reverse, sum};
use crate::schedule::{Instance, Priced, Schedule, Step, Work};

/// Rabenseifner's reduction: 2 log2 p rounds, 2 (p - 1)/p n elements sent and (p - 1)/p n reduced,
/// for p a power of two. Otherwise pairs of ranks act as one: a round of n elements more.
///
/// The reduce-scatter is that of the all-reduce; then each rank hands its parts to the partner that
/// is nearer to the root, those of the last exchange first. Which half a rank keeps is counted from
/// the root, which keeps the first one always; and in its pair it is the root that acts. So it need
/// not be rank 0, and no rank has to pass the result on to it.
///
/// Operands cover contiguous ranges of ranks, the lower standing on the left, so rank order is
/// kept.
///
/// Scratch: half a segment; for p no power of two a whole one.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rabenseifner;

fn lengths(pairs: Pairs) -> [u32; 3] {
    [pairs.folds(), pairs.bits, pairs.bits]
}

/// Halving or gathering with the partner across bit `bit`.
fn exchange(pairs: Pairs, instance: &Instance, bit: u32, gathers: bool, index: u32) -> Option<Step> {
    let number = pairs.actor(instance.rank())?;
    let from_root = number ^ pairs.number(instance.root());
    let (halving, position) = (Halving::new(instance.count(), pairs.bits), reverse(from_root, pairs.bits));
    let partner = pairs.rank(number ^ power(bit));
    if gathers {
        nth([halving.gather(position, bit, partner)?], index)
    } else {
        nth(halving.halve(instance, position, bit, partner), index)
    }
}

impl Schedule for Rabenseifner {
    fn operation(&self) -> Operation {
        Operation::Reduce
    }

    fn name(&self) -> &'static str {
        "rabenseifner"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { lengths(Pairs::new(instance.size(), None)).iter().sum() }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let pairs = Pairs::new(instance.size(), Some(instance.root()));
        if instance.count() == 0 {
            return None;
        }
        match locate(round, lengths(pairs))? {
            (0, _) => pairs.fold(instance, index),
            (1, bit) => exchange(pairs, instance, bit, false, index),
            (_, done) => exchange(pairs, instance, pairs.bits - 1 - done, true, index),
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        Pairs::new(size, None).capacity(scratch)
    }
}

impl Priced for Rabenseifner {
    fn source(&self) -> &'static str {
        "Rabenseifner 2004; Thakur, Rabenseifner, Gropp 2005, section 4.4; MPICH reduce_intra_reduce_scatter_gather; Open \
         MPI ompi_coll_base_reduce_intra_redscat_gather"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let pairs = Pairs::new(size, None);
        let halving = Halving::new(count, pairs.bits);
        sum([messages(pairs.folds(), count, true), halving.exchanged(true), halving.spread()])
    }

    fn reproduces(&self, _size: u32) -> bool {
        true
    }
}
