//! Linear: the root sends to every rank itself.

use super::spread::Spread;
use crate::schedule::tree::Flat;
use crate::schedule::variant::Variant;

/// The linear broadcast: p - 1 messages of n elements, all of the root, in ceil((p - 1) / 8)
/// rounds, any p, any root.
///
/// [`IN_FLIGHT_MAX`](crate::schedule::IN_FLIGHT_MAX) messages leave in a round.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Linear;

impl Variant for Linear {
    type Pattern = Spread<Flat>;
    const NAME: &'static str = "linear";
    const SOURCE: &'static str = "Open MPI ompi_coll_base_bcast_intra_basic_linear";
}
