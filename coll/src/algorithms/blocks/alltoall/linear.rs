//! Linear: every rank sends to every other.

use crate::schedule::exchange::{Exchanges, WIDTH_MAX};
use crate::schedule::variant::Variant;

/// The linear all-to-all: as many exchanges under way at a time as a round has messages for, those
/// with near ranks first.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Linear;

impl Variant for Linear {
    type Pattern = Exchanges<WIDTH_MAX>;
    const NAME: &'static str = "linear";
    const SOURCE: &'static str = "Open MPI ompi_coll_base_alltoall_intra_basic_linear; MPICH alltoall_intra_scattered; gloo alltoall.cc";
}
