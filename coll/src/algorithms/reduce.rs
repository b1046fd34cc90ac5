//! Reduction to one rank: the reduction of every rank's data at the root.

mod binary;
mod binomial;
mod chain;
mod collect;
mod in_order_binary;
mod knomial;
mod linear;
mod pipeline;
mod rabenseifner;
mod ring;

pub use binary::Binary;
pub use binomial::Binomial;
pub use chain::Chain;
pub(crate) use collect::messages;
pub use in_order_binary::InOrderBinary;
pub use knomial::Knomial;
pub use linear::Linear;
pub use pipeline::Pipeline;
pub use rabenseifner::Rabenseifner;
pub use ring::Ring;

use crate::schedule::Candidate;

/// Every algorithm for it.
pub static ALGORITHMS: [Candidate; 9] =
    [&Binomial, &Linear, &InOrderBinary, &Binary, &Knomial, &Chain, &Pipeline, &Rabenseifner, &Ring];
