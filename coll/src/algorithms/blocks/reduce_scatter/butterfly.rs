//! The butterfly: halving with near ranks first, and a permutation at the end.

use super::halves::Halves;
use crate::schedule::variant::Variant;

/// The reduce-scatter by a butterfly: log2 p rounds, (p - 1)/p n elements sent and reduced, and one
/// more round of a block, for p a power of two; as recursive halving, but near ranks first, so that
/// operands keep the order of ranks. A rank ends with the block of the rank whose number is its own
/// with the bits in reverse, and sends it there. For other p pairs of ranks act as one: a round of
/// n elements more before.
///
/// Scratch: 3/4 of n; up to 3/2 of n for p no power of two.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Butterfly;

impl Variant for Butterfly {
    type Pattern = Halves<true>;
    const NAME: &'static str = "butterfly";
    const SOURCE: &'static str = "Traeff 2005, An improved algorithm for (non-commutative) reduce-scatter; Open MPI ompi_coll_base_reduce_scatter_intra_butterfly; MPICH reduce_scatter_intra_noncommutative";
}
