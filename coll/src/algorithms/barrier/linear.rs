//! Linear: every rank signals rank 0, which answers each.

use super::signal::Signal;
use crate::schedule::tree::Flat;
use crate::schedule::variant::Variant;

/// The linear barrier: 2 (p - 1) messages, all of them of rank 0, in 2 ceil((p - 1) / 8) rounds,
/// any p.
///
/// Rank 0 awaits [`IN_FLIGHT_MAX`](crate::schedule::IN_FLIGHT_MAX) ranks in a round, and answers as
/// many in a round.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Linear;

impl Variant for Linear {
    type Pattern = Signal<Flat>;
    const NAME: &'static str = "linear";
    const SOURCE: &'static str = "Open MPI ompi_coll_base_barrier_intra_basic_linear";
}
