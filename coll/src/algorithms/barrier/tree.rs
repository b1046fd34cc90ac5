//! The binomial tree: signals gather at rank 0 and its answer spreads out, half the remaining
//! distance each time.

use super::signal::Signal;
use crate::schedule::tree::Knomial;
use crate::schedule::variant::Variant;

/// The barrier along the binomial tree: 2 ceil(log2 p) rounds, any p, and 2 (p - 1) messages, the
/// fewest there can be.
///
/// In round k the ranks that are multiples of 2^k and not of 2^(k+1) signal the rank 2^k before
/// them, which has then a signal of the 2^(k+1) ranks that begin with itself; rank 0 has one of
/// all. The way back is the same backwards.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Tree;

impl Variant for Tree {
    type Pattern = Signal<Knomial<1>>;
    const NAME: &'static str = "tree";
    const SOURCE: &'static str =
        "Hensgen, Finkel, Manber 1988, tournament; Open MPI ompi_coll_base_barrier_intra_tree";
}
