//! Every algorithm: pure schedules, by operation.
//!
//! They are given out by the modules of the operations, as `bcast::Binomial`. Nothing here knows of
//! memory, messages or selection.

pub(crate) mod allreduce;
pub(crate) mod barrier;
pub(crate) mod bcast;
pub(crate) mod blocks;
pub(crate) mod exscan;
pub(crate) mod hierarchy;
pub(crate) mod inter;
pub(crate) mod neighbor;
pub(crate) mod reduce;
pub(crate) mod scan;

use aldis_kernel::hal::Operation;

use crate::schedule::{Algorithm, Candidate};

/// Every algorithm of an operation, in order of preference between equals. Empty for what is no
/// collective.
pub fn algorithms(operation: Operation) -> &'static [Candidate] {
    match operation {
        Operation::Barrier => &barrier::ALGORITHMS,
        Operation::Bcast => &bcast::ALGORITHMS,
        Operation::Allreduce => &allreduce::ALGORITHMS,
        Operation::Reduce => &reduce::ALGORITHMS,
        Operation::Scan => &scan::ALGORITHMS,
        Operation::Exscan => &exscan::ALGORITHMS,
        operation => blocks::algorithms(operation),
    }
}

/// The algorithms for two groups alone.
pub(crate) fn across(operation: Operation) -> impl Iterator<Item = &'static Candidate> {
    inter::algorithms(operation).iter().filter(|known| known.crosses())
}

/// Returns what is known of an algorithm beside its steps; `None` for a program's own.
pub fn priced(algorithm: Algorithm) -> Option<Candidate> {
    algorithms(algorithm.operation()).iter().find(|known| known.name() == algorithm.name()).copied()
}
