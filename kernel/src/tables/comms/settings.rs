//! Settings of a communicator, kept besides its groups: what this process was given for it. A
//! column of the communicator table.

use aldis_hal::{Cause, PeerId};

use super::Comms;
use crate::memory::buffer::UserBuffer;
use crate::tables::comm::{Comm, ITSELF};
use crate::tables::hints::Hints;
use crate::tables::list::{InScope, Ring};
use crate::tables::policy::Policy;

/// A value of a layer above, known by its type: [`downcast_ref`](core::any::Any).
pub type Tuning = &'static (dyn core::any::Any + Send + Sync);

/// All-zero is a communicator of which nothing was said.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The policy for errors on it.
    pub(crate) policy: Policy,
    /// The promises made of it.
    pub(crate) hints: Hints,
    /// Memory for copies of the buffered sends on it, lent for the life of the table.
    pub(crate) attached: UserBuffer,
    /// The messages in it.
    pub(crate) buffered: Ring<InScope>,
    /// The tuning of the layers above on it.
    pub(crate) tuning: Option<Tuning>,
}

impl Settings {
    pub(crate) const EMPTY: Self = Self {
        policy: Policy::Return,
        hints: Hints::empty(),
        attached: UserBuffer::NONE,
        buffered: Ring::EMPTY,
        tuning: None,
    };
}

impl Comms<'_> {
    /// Returns the settings of a communicator, by its context on either plane.
    pub(crate) fn settings(&self, context: u32) -> Option<&Settings> {
        self.row(context).map(|row| &row.settings)
    }

    /// Returns the settings of a communicator, to be changed.
    pub(crate) fn settings_of(&mut self, context: u32) -> Option<&mut Settings> {
        let comm = self.handle(context)?;
        self.settings_mut(&comm).ok()
    }

    pub(crate) fn settings_mut(&mut self, comm: &Comm) -> Result<&mut Settings, Cause> {
        self.row_mut(comm).map(|row| &mut row.settings)
    }

    /// Gives a communicator a policy, and its companion.
    pub(crate) fn set_policy(&mut self, comm: &Comm, policy: Policy) -> Result<(), Cause> {
        self.settings_mut(comm)?.policy = policy;
        if let Ok(companion) = self.companion(comm) {
            self.settings_mut(&companion)?.policy = policy;
        }
        Ok(())
    }

    /// The communicator that an error is attached to, and its policy. One of no communicator, or of
    /// one that was freed, is attached to self (MPI 4.1 section 9.3).
    pub(crate) fn policy(&self, context: u32) -> Option<(Comm, Policy)> {
        let context = if self.row(context).is_some() { context } else { ITSELF };
        Some((self.handle(context)?, self.settings(context)?.policy))
    }

    /// The process that a rank addresses on a communicator.
    pub(crate) fn addressed(&self, context: u32, rank: u32) -> Option<PeerId> {
        self.row(context)?.peer(rank, self.pieces)
    }

    /// Returns true if a process is in a communicator, in either group.
    pub(crate) fn has(&self, comm: &Comm, process: PeerId) -> bool {
        let remote = self.row(comm.context).is_some_and(|row| row.group(self.pieces).contains(process));
        remote || self.group(comm).is_ok_and(|group| group.contains(process))
    }
}
