//! Scan: on every rank the reduction of the ranks up to and including it.

mod linear;
mod recursive_doubling;

pub use linear::Linear;
pub use recursive_doubling::RecursiveDoubling;
pub(crate) use recursive_doubling::doubling;

use crate::schedule::Candidate;

/// Every algorithm for it.
pub static ALGORITHMS: [Candidate; 2] = [&RecursiveDoubling, &Linear];
