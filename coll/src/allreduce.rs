//! All-reduce: the reduction of every rank's data on every rank.

mod recursive_doubling;
mod ring;

pub use recursive_doubling::RecursiveDoubling;
pub use ring::Ring;

use crate::schedule::Algorithm;

/// Every algorithm for it.
pub static ALGORITHMS: [Algorithm; 2] = [&RecursiveDoubling, &Ring];
