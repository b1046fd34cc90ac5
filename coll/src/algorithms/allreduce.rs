//! All-reduce: the reduction of every rank's data on every rank.

mod allgather_reduce;
mod bcube;
mod halving_doubling;
mod linear;
mod nonoverlapping;
mod rabenseifner;
mod recursive_doubling;
mod recursive_multiplying;
mod ring;
mod segmented_ring;

pub use allgather_reduce::AllgatherReduce;
pub use bcube::Bcube;
pub use halving_doubling::HalvingDoubling;
pub use linear::Linear;
pub use nonoverlapping::Nonoverlapping;
pub use rabenseifner::Rabenseifner;
pub use recursive_doubling::RecursiveDoubling;
pub use recursive_multiplying::RecursiveMultiplying;
pub use ring::Ring;
pub use segmented_ring::SegmentedRing;

use crate::schedule::Candidate;

/// Every algorithm for it.
pub static ALGORITHMS: [Candidate; 10] = [
    &RecursiveDoubling,
    &Rabenseifner,
    &Ring,
    &HalvingDoubling,
    &RecursiveMultiplying::<4>,
    &AllgatherReduce,
    &Bcube::<2>,
    &Nonoverlapping,
    &Linear,
    &SegmentedRing,
];
