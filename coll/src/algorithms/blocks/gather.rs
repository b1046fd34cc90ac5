//! Gather: a block of every rank at the root.

mod binomial;
mod linear;
mod linear_sync;

pub use binomial::Binomial;
pub use linear::Linear;
pub use linear_sync::LinearSync;

use crate::schedule::Candidate;

/// Every algorithm for it.
pub static ALGORITHMS: [Candidate; 3] = [&Binomial, &Linear, &LinearSync];

/// The algorithms for blocks of unlike lengths.
pub static OF_UNLIKE: [Candidate; 2] = [&Linear, &LinearSync];
