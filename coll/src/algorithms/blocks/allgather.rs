//! Allgather: a block of every rank on every rank.

mod bruck;
mod direct;
mod gather_bcast;
mod linear;
mod neighbor_exchange;
mod recursive_doubling;
mod ring;
mod sparbit;
mod two_processes;

pub use bruck::Bruck;
pub use direct::Direct;
pub use gather_bcast::GatherBcast;
pub use linear::Linear;
pub use neighbor_exchange::NeighborExchange;
pub use recursive_doubling::RecursiveDoubling;
pub use ring::Ring;
pub use sparbit::Sparbit;
pub use two_processes::TwoProcesses;

use crate::schedule::Candidate;

/// Every algorithm for it, and for blocks of unlike lengths.
pub static ALGORITHMS: [Candidate; 11] = [
    &Bruck::<2>,
    &RecursiveDoubling,
    &TwoProcesses,
    &Ring,
    &NeighborExchange,
    &Sparbit,
    &Direct,
    &GatherBcast,
    &Linear,
    &Bruck::<4>,
    &Bruck::<8>,
];
