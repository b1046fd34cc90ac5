//! Exclusive scan: on every rank the reduction of the ranks before it.

mod linear;
mod recursive_doubling;

pub use linear::Linear;
pub use recursive_doubling::RecursiveDoubling;

use crate::schedule::Candidate;

/// Every algorithm for it.
pub static ALGORITHMS: [Candidate; 2] = [&RecursiveDoubling, &Linear];
