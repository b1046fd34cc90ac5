//! Broadcast: the root's data on every rank.

mod binary;
mod binomial;
mod chain;
mod knomial;
mod linear;
mod pipeline;
mod scatter_recursive_doubling_allgather;
mod scatter_ring_allgather;
mod split_binary;
mod spread;

pub use binary::Binary;
pub use binomial::Binomial;
pub use chain::Chain;
pub use knomial::Knomial;
pub use linear::Linear;
pub use pipeline::Pipeline;
pub use scatter_recursive_doubling_allgather::ScatterRecursiveDoublingAllgather;
pub use scatter_ring_allgather::ScatterRingAllgather;
pub use split_binary::SplitBinary;

use crate::schedule::Candidate;

/// Every algorithm for it.
pub static ALGORITHMS: [Candidate; 9] = [
    &Binomial,
    &Knomial,
    &Linear,
    &Binary,
    &SplitBinary,
    &Chain,
    &Pipeline,
    &ScatterRecursiveDoublingAllgather,
    &ScatterRingAllgather,
];
