//! Scatter: a block of the root's data on every rank.

mod binomial;
mod linear;
mod linear_nonblocking;

pub use binomial::Binomial;
pub use linear::Linear;
pub use linear_nonblocking::LinearNonblocking;

use crate::schedule::Candidate;

/// Every algorithm for it.
pub static ALGORITHMS: [Candidate; 3] = [&Binomial, &LinearNonblocking, &Linear];

/// The algorithms for blocks of unlike lengths.
pub static OF_UNLIKE: [Candidate; 2] = [&LinearNonblocking, &Linear];
