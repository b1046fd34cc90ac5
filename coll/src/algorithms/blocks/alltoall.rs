//! All-to-all: a block of every rank for every rank.

mod bruck;
mod in_place;
mod linear;
mod linear_sync;
mod pairwise;
mod two_processes;

pub use bruck::Bruck;
pub use in_place::InPlace;
pub use linear::Linear;
pub use linear_sync::LinearSync;
pub use pairwise::Pairwise;
pub use two_processes::TwoProcesses;

use crate::schedule::Candidate;

/// Every algorithm for it. [`InPlace`] is that of the calls in place.
pub static ALGORITHMS: [Candidate; 7] =
    [&TwoProcesses, &Linear, &LinearSync, &Pairwise, &Bruck::<2>, &Bruck::<4>, &Bruck::<8>];

/// The algorithms for blocks of unlike lengths, and of unlike elements.
pub static OF_UNLIKE: [Candidate; 4] = [&TwoProcesses, &Linear, &LinearSync, &Pairwise];
