//! The pipeline: one chain of all ranks.

use super::spread::Spread;
use crate::schedule::tree::Chains;
use crate::schedule::variant::Variant;

/// The pipelined broadcast: p - 1 rounds of n elements, any p, any root; a rank receives once and
/// sends once.
///
/// Ranks count from the root; each sends to the next. What makes it fast for long data is that
/// segments follow each other.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pipeline;

impl Variant for Pipeline {
    type Pattern = Spread<Chains<1>>;
    const NAME: &'static str = "pipeline";
    const SOURCE: &'static str = "Open MPI ompi_coll_base_bcast_intra_pipeline";
}
