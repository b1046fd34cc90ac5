//! Barrier: no rank leaves before every rank has entered.

mod dissemination;
mod dissemination_radix;
mod double_ring;
mod linear;
mod recursive_doubling;
mod signal;
mod tree;
mod two_processes;

pub use dissemination::Dissemination;
pub use dissemination_radix::DisseminationRadix;
pub use double_ring::DoubleRing;
pub use linear::Linear;
pub use recursive_doubling::RecursiveDoubling;
pub use tree::Tree;
pub use two_processes::TwoProcesses;

use crate::schedule::Candidate;

/// Every algorithm for it.
pub static ALGORITHMS: [Candidate; 8] = [
    &Dissemination,
    &DisseminationRadix::<4>,
    &RecursiveDoubling,
    &TwoProcesses,
    &Tree,
    &Linear,
    &DoubleRing,
    &DisseminationRadix::<8>,
];
