//! The binary tree: every rank adds what two send.

use super::collect::Collect;
use crate::schedule::tree;
use crate::schedule::variant::Variant;

/// The binary-tree reduction: 2 floor(log2 p) rounds of n elements, one less if the deepest level
/// has one rank, any p, any root; a rank receives twice and sends once.
///
/// Counted from the root, place i adds what the places 2 i + 1 and 2 i + 2 send. For operations
/// that commute.
///
/// Scratch: as many elements as are worked on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Binary;

impl Variant for Binary {
    type Pattern = Collect<tree::Binary>;
    const NAME: &'static str = "binary";
    const SOURCE: &'static str = "Open MPI ompi_coll_base_reduce_intra_binary";
}
