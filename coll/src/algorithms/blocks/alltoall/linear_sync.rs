//! Throttled: every rank sends to every other, two at a time.

use crate::schedule::along::Along;
use crate::schedule::exchange::Exchanges;

/// The throttled all-to-all: two exchanges under way at a time, for networks that many messages at
/// once congest.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LinearSync;

impl Along for LinearSync {
    type Way = Exchanges<2>;
    const NAME: &'static str = "linear_sync";
    const SOURCE: &'static str = "Open MPI ompi_coll_base_alltoall_intra_linear_sync";
}
