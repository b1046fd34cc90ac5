//! The binomial tree: every rank that has the data sends it on, half the remaining distance each
//! time.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work, log2_ceil};

/// The binomial-tree broadcast: ceil(log2 p) rounds of n elements, any p, any root.
///
/// Ranks count from the root. With R rounds, round k has every place that is a multiple of 2^(R-k)
/// send to the place 2^(R-1-k) after it: the farthest child first, which has the largest subtree to
/// serve.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Binomial;

impl Schedule for Binomial {
    fn operation(&self) -> Operation {
        Operation::Bcast
    }

    fn name(&self) -> &'static str {
        "binomial"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { log2_ceil(instance.size()) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let rounds_left = self.rounds(instance).checked_sub(round)?.checked_sub(1)?;
        if index > 0 {
            return None;
        }
        let distance = 1u32.checked_shl(rounds_left)?;
        let place = instance.from_root();
        let data = Span::data(0, instance.count());
        // The place within the group of 2 * distance places that this round spreads the data over.
        let in_group = place & (distance | (distance - 1));
        if in_group == 0 && distance < instance.size() - place {
            Some(Step::Send { to: instance.at_place(place + distance), from: data })
        } else if in_group == distance {
            Some(Step::Recv { from: instance.at_place(place - distance), into: data })
        } else {
            None
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for Binomial {
    fn source(&self) -> &'static str {
        "Thakur, Rabenseifner, Gropp 2005, section 4.2; MPICH bcast_intra_binomial; Open MPI \
         ompi_coll_base_bcast_intra_binomial; gloo broadcast.cc"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let rounds = if count == 0 { 0 } else { u64::from(log2_ceil(size)) };
        Work { rounds, elements: rounds.saturating_mul(count as u64), ..Work::default() }
    }
}
