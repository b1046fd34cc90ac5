//! Bundles of a partitioned message's parts.
//!
//! The kernel has a bounded number of parts. A message of more goes in bundles of equal numbers of
//! them, and a bundle goes when all of its parts are ready: MPI does not promise that what is ready
//! goes at once.

use aldis_kernel::protocols::partitioned::PARTITIONS_MAX;

use crate::abi::{MPI_ERR_ARG, MPI_ERR_REQUEST};
use crate::fault::CallFault;

/// Parts of a message that go together.
pub(crate) struct Bundles {
    /// Parts of a bundle.
    size: u32,
    sends: bool,
    /// True for each part that is ready, in the round under way.
    ready: Vec<bool>,
    /// The number of parts of each bundle that are not ready.
    missing: Vec<u32>,
}

impl Bundles {
    /// The bundles of so many parts, as many bundles as there can be; `None` if each part goes by
    /// itself.
    pub(crate) fn of(partitions: u32, sends: bool) -> Option<Self> {
        if partitions <= PARTITIONS_MAX {
            return None;
        }
        let count = (1..=PARTITIONS_MAX).rev().find(|count| partitions.is_multiple_of(*count))?;
        let size = partitions / count;
        let (ready, missing) = (vec![false; partitions as usize], vec![size; count as usize]);
        Some(Self { size, sends, ready, missing })
    }

    pub(crate) const fn count(&self) -> u32 {
        self.missing.len() as u32
    }

    /// A round begins: nothing is ready.
    pub(crate) fn begin(&mut self) {
        self.ready.fill(false);
        self.missing.fill(self.size);
    }

    /// The bundle of a part.
    pub(crate) fn bundle(&self, part: u32) -> Result<u32, CallFault> {
        if part as usize >= self.ready.len() {
            let why = format!("partition {part} of a message that has {}", self.ready.len());
            return Err(CallFault::new(MPI_ERR_ARG, why));
        }
        Ok(part / self.size)
    }

    /// Declares a part ready; its bundle, if it was the last of it.
    pub(crate) fn declare(&mut self, part: u32) -> Result<Option<u32>, CallFault> {
        let bundle = self.bundle(part)?;
        if !self.sends {
            return Err(CallFault::new(MPI_ERR_REQUEST, "the request of a receive, whose partitions arrive"));
        }
        let ready = self.ready.get_mut(part as usize);
        if ready.is_none_or(|ready| core::mem::replace(ready, true)) {
            return Err(CallFault::new(MPI_ERR_ARG, format!("partition {part}, which is ready already")));
        }
        let Some(missing) = self.missing.get_mut(bundle as usize) else { return Ok(None) };
        *missing -= 1;
        Ok((*missing == 0).then_some(bundle))
    }
}
