//! A reduction and a scatter, one after the other.

use super::rooted::Rooted;
use crate::schedule::variant::Variant;

/// The reduce-scatter of two operations: a reduction to rank 0 along a binomial tree, ceil(log2 p)
/// rounds of n elements; then a block to each of the others, eight at a time. In the order of
/// ranks.
///
/// Scratch: 2 n.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Nonoverlapping;

impl Variant for Nonoverlapping {
    type Pattern = Rooted<true>;
    const NAME: &'static str = "nonoverlapping";
    const SOURCE: &'static str = "Open MPI ompi_coll_base_reduce_scatter_intra_nonoverlapping";
}
