//! Exchanges with neighbours: the order of a rank's messages, and the schedule that follows it.

mod linear;
mod order;
#[cfg(test)]
mod tests;

use aldis_kernel::hal::Operation;
pub use linear::Linear;
pub use order::NeighborEntry;
pub(crate) use order::{NeighborAction, arrange};

use crate::schedule::Candidate;

/// Every algorithm of the allgather among neighbours.
pub static GATHERS: [Candidate; 1] = [&Linear { operation: Operation::NeighborAllgather, entries: &[] }];

/// Every algorithm of the all-to-all among neighbours.
pub static EXCHANGES: [Candidate; 1] = [&Linear { operation: Operation::NeighborAlltoall, entries: &[] }];
