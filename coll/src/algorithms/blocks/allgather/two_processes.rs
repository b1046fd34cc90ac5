//! Two ranks: they swap their blocks.

use super::ring::RingPattern;
use crate::schedule::variant::Variant;

/// The allgather of two: one round, for two ranks only.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TwoProcesses;

impl Variant for TwoProcesses {
    type Pattern = RingPattern;
    const NAME: &'static str = "two_processes";
    const SOURCE: &'static str = "Open MPI ompi_coll_base_allgather_intra_two_procs";

    fn serves(size: u32) -> bool {
        size == 2
    }
}
