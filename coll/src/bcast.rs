//! Broadcast: the root's data on every rank.

mod binomial;

pub use binomial::Binomial;

use crate::schedule::Algorithm;

/// Every algorithm for it.
pub static ALGORITHMS: [Algorithm; 1] = [&Binomial];
