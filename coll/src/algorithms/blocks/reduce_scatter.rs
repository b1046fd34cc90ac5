//! Reduce-scatter: the reduction of every rank's data, divided among the ranks.

mod butterfly;
mod halves;
mod linear;
mod nonoverlapping;
mod pairwise;
pub(crate) mod partial;
mod recursive_doubling;
mod recursive_halving;
mod ring;
pub(crate) mod rooted;

pub use butterfly::Butterfly;
pub use linear::Linear;
pub use nonoverlapping::Nonoverlapping;
pub use pairwise::Pairwise;
pub use recursive_doubling::RecursiveDoubling;
pub use recursive_halving::RecursiveHalving;
pub use ring::Ring;

use crate::schedule::Candidate;

/// Every algorithm for it, also for blocks of unlike lengths.
pub static ALGORITHMS: [Candidate; 7] =
    [&RecursiveHalving, &Butterfly, &Pairwise, &Ring, &RecursiveDoubling, &Nonoverlapping, &Linear];

/// Returns the elements of a segment of those algorithms that keep two images of all blocks.
pub(crate) fn of_images(size: u32, scratch: usize) -> usize {
    match size {
        0 | 1 => usize::MAX,
        size => scratch / (size as usize).saturating_mul(2),
    }
}
