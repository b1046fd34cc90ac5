//! Two ranks: they swap a block.

use crate::schedule::exchange::Exchanges;
use crate::schedule::variant::Variant;

/// The all-to-all of two: one round, for two ranks only.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TwoProcesses;

impl Variant for TwoProcesses {
    type Pattern = Exchanges<1>;
    const NAME: &'static str = "two_processes";
    const SOURCE: &'static str = "Open MPI ompi_coll_base_alltoall_intra_two_procs";

    fn serves(size: u32) -> bool {
        size == 2
    }
}
