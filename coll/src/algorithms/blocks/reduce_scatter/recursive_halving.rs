//! Recursive halving: the half of the data that the other half of the ranks needs is sent there,
//! then a quarter, and so on.

use super::halves::Halves;
use crate::schedule::variant::Variant;

/// The reduce-scatter by recursive halving: log2 p rounds, (p - 1)/p n elements sent and reduced,
/// for p a power of two, the far half of the ranks first. Otherwise pairs of ranks act as one: a
/// round of n elements more before, and one after.
///
/// Operands of far ranks are combined first: only for operations that commute.
///
/// Scratch: 3/4 of n; up to 3/2 of n for p no power of two.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RecursiveHalving;

impl Variant for RecursiveHalving {
    type Pattern = Halves<false>;
    const NAME: &'static str = "recursive_halving";
    const SOURCE: &'static str = "Thakur, Rabenseifner, Gropp 2005, section 4.3; Open MPI ompi_coll_base_reduce_scatter_intra_basic_recursivehalving; MPICH reduce_scatter_intra_recursive_halving";
}
