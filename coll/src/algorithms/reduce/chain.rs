//! Four chains that end at the root.

use super::collect::Collect;
use crate::schedule::tree::Chains;
use crate::schedule::variant::Variant;

/// The reduction by four chains: p - 1 rounds of n elements up to 5 ranks, floor((p - 1) / 4) + 3
/// beyond, any root.
///
/// Ranks count from the root and stand in chains of neighbours, as even as can be; in each, every
/// rank hands its sum to the one before. The chains end a round apart. For operations that commute.
///
/// Scratch: as many elements as are worked on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Chain;

impl Variant for Chain {
    type Pattern = Collect<Chains<4>>;
    const NAME: &'static str = "chain";
    const SOURCE: &'static str = "Open MPI ompi_coll_base_reduce_intra_chain, fanout 4";
}
