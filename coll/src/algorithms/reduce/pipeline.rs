//! The pipeline: one chain of all ranks that ends at the root.

use super::collect::Collect;
use crate::schedule::tree::Chains;
use crate::schedule::variant::Variant;

/// The pipelined reduction: p - 1 rounds of n elements, any p, any root; a rank receives once and
/// sends once.
///
/// Ranks count from the root; each adds its own to what the next one sends and hands it to the one
/// before. What makes it fast for long data is that segments follow each other. For operations that
/// commute.
///
/// Scratch: as many elements as are worked on.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pipeline;

impl Variant for Pipeline {
    type Pattern = Collect<Chains<1>>;
    const NAME: &'static str = "pipeline";
    const SOURCE: &'static str = "Open MPI ompi_coll_base_reduce_intra_pipeline";
}
