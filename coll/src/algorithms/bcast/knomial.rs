//! The k-nomial tree of radix 4: every rank that has the data sends it to three a round.

use super::spread::Spread;
use crate::schedule::tree;
use crate::schedule::variant::Variant;

/// The k-nomial broadcast of radix 4: ceil(log4 p) rounds of 3 n elements, any p, any root.
///
/// Counted from the root, in round k of R every rank that has the data sends it 1, 2 and 3 times
/// 4^(R-1-k) places on. The first round has fewer messages when there are not so many ranks.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Knomial;

impl Variant for Knomial {
    type Pattern = Spread<tree::Knomial<2>>;
    const NAME: &'static str = "knomial";
    const SOURCE: &'static str =
        "Open MPI ompi_coll_base_bcast_intra_knomial, radix 4; MPICH bcast_intra_tree, kary and knomial";
}
