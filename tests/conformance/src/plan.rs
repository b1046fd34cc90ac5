//! A run of one case.

use aldis_tests::storage::Room;

/// A run of one case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CasePlan {
    /// The case, by its place in the list.
    pub case: usize,
    /// The seed that the medium draws from, and the case if it does.
    pub seed: u64,
    /// Ranks of the job.
    pub(super) ranks: u32,
}

impl CasePlan {
    /// The size of the storages.
    pub(super) fn room(&self) -> Room {
        Room::ALL[self.seed as usize % Room::ALL.len()]
    }
}
