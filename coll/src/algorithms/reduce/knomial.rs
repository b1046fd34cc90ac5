//! The k-nomial tree of radix 4.

use super::collect::Collect;
use crate::schedule::tree;
use crate::schedule::variant::Variant;

/// The k-nomial reduction of radix 4: 3 rounds of n elements for each digit of p - 1 to base 4, any
/// p, any root; less for the highest digit, as many as it counts.
///
/// Counted from the root, a place adds what the places 1, 2 and 3 times 4^k after it send, one a
/// round, the nearest first, for each k that ends in zeros for it. For operations that commute.
///
/// Scratch: as many elements as are worked on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Knomial;

impl Variant for Knomial {
    type Pattern = Collect<tree::Knomial<2>>;
    const NAME: &'static str = "knomial";
    const SOURCE: &'static str =
        "Open MPI ompi_coll_base_reduce_intra_knomial, radix 4; MPICH ireduce_intra_gentran_tree, knomial_1";
}
