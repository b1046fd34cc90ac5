//! Throttled: every rank sends to every other, two at a time.

use crate::schedule::exchange::Exchanges;
use crate::schedule::variant::Variant;

/// The throttled all-to-all: two exchanges under way at a time, for networks that many messages at
/// once congest.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LinearSync;

impl Variant for LinearSync {
    type Pattern = Exchanges<2>;
    const NAME: &'static str = "linear_sync";
    const SOURCE: &'static str = "Open MPI ompi_coll_base_alltoall_intra_linear_sync";
}
