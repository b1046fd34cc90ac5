//! The binary tree: every rank sends to two.

use super::spread::Spread;
use crate::schedule::tree;
use crate::schedule::variant::Variant;

/// The binary-tree broadcast: floor(log2 p) rounds of 2 n elements, any p, any root; a rank
/// receives once and sends twice.
///
/// Counted from the root, place i sends to the places 2 i + 1 and 2 i + 2, both in one round. In
/// the last round it may be one alone.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Binary;

impl Variant for Binary {
    type Pattern = Spread<tree::Binary>;
    const NAME: &'static str = "binary";
    const SOURCE: &'static str = "Open MPI ompi_coll_base_bcast_intra_bintree";
}
