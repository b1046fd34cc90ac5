//! Four chains that begin at the root.

use super::spread::Spread;
use crate::schedule::tree::Chains;
use crate::schedule::variant::Variant;

/// The broadcast by four chains: p - 1 rounds of n elements up to 5 ranks, floor((p - 1) / 4) + 3
/// beyond, any root.
///
/// Ranks count from the root and stand in chains of neighbours, as even as can be; in each, every
/// rank sends to the next. The root begins one chain a round.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Chain;

impl Variant for Chain {
    type Pattern = Spread<Chains<4>>;
    const NAME: &'static str = "chain";
    const SOURCE: &'static str = "Open MPI ompi_coll_base_bcast_intra_chain, fanout 4";
}
