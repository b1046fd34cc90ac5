//! Linear: rank 0 reduces everything, and sends each rank its block.

use super::rooted::Rooted;
use crate::schedule::variant::Variant;

/// The linear reduce-scatter: p - 1 rounds in which rank 0 adds what one rank gives, all n elements
/// of it; then a block to each of the others, eight at a time. In the order of ranks.
///
/// Scratch: 2 n.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Linear;

impl Variant for Linear {
    type Pattern = Rooted<false>;
    const NAME: &'static str = "linear";
    const SOURCE: &'static str = "Open MPI ompi_coll_base_reduce_scatter_block_basic_linear";
}
