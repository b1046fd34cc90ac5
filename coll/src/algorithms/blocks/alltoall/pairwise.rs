//! Pairwise: each round every rank sends to one rank and receives from one.

use crate::schedule::exchange::Exchanges;
use crate::schedule::variant::Variant;

/// The pairwise all-to-all: p - 1 rounds; in round k a rank sends to the one k + 1 after it and
/// receives from the one k + 1 before it.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pairwise;

impl Variant for Pairwise {
    type Pattern = Exchanges<1>;
    const NAME: &'static str = "pairwise";
    const SOURCE: &'static str = "Thakur, Rabenseifner, Gropp 2005, section 4.2; Open MPI ompi_coll_base_alltoall_intra_pairwise; MPICH alltoall_intra_pairwise";
}
