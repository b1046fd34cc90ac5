//! Collectives that are carried out by control slots instead of messages: see [`shared`].

use aldis_kernel::hal::{Cause, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Scope, Tag};

use super::lane::LaneStage;
use super::{CallMemory, Collective, CollectiveMemory, Peers, Planned, Progress, Ready};
use crate::schedule::Instance;
use crate::select::{Call, CallSpec, Plan};
use crate::shared::{self, CROWDED, CallOutcome, FlatCollective, StartedRole};

impl Planned {
    /// Starts it by the control slots of the communicator, for which it is, on any lent memory.
    pub(crate) fn begin_in_slots<'scope, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        lent: CallMemory<'scope>,
        role: StartedRole<'scope>,
    ) -> Result<Collective<'scope>, Error> {
        let memory = CollectiveMemory::new(scope, self, lent);
        self.start_in_slots(scope, comm, memory, role)
    }

    /// Starts it by the control slots of the communicator.
    pub(super) fn start_in_slots<'scope, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        memory: CollectiveMemory<'scope>,
        role: StartedRole<'scope>,
    ) -> Result<Collective<'scope>, Error> {
        let CallSpec { call: Call { operation, count, .. }, root, .. } = self.query.spec;
        let refused = |cause| Error::new(operation, cause);
        let begun = FlatCollective::begin(scope, comm, role).map_err(refused)?;
        let algorithm = shared::algorithm(operation).ok_or(Cause::Unsupported).map_err(refused)?;
        let whole = Instance::new(comm.rank().0, comm.size(), root, count).map_err(refused)?;
        let plan = Plan::in_turn(algorithm, count);
        let ready = Ready { whole, plan, tag: Tag(0), peers: Peers::Ranks };
        let mut started = Collective { flat: begun, ..Collective::new(comm, ready, operation, memory) };
        started.set_stage(LaneStage::Post(0));
        match started.advance(scope) {
            Progress::Failed => Err(started.error),
            Progress::Done | Progress::Waiting | Progress::Starved => Ok(started),
        }
    }
}

impl<'scope> Collective<'scope> {
    /// Like [`advance`](Self::advance), but by control slots.
    pub(super) fn advance_in_slots<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Progress {
        let Some(flat) = &mut self.flat else { return Progress::Failed };
        match (self.lanes.now().stage, flat.turn(scope, &self.comm, self.memory.data)) {
            (LaneStage::Failed, _) => return Progress::Failed,
            // What every rank knows to stand in slots does.
            (_, CallOutcome::Over) if flat.role().is_long() => {
                self.error = flat.error(&self.comm, Cause::Incompatible, None);
                self.set_stage(LaneStage::Failed);
                return Progress::Failed;
            }
            (_, CallOutcome::Over) => {
                self.moved |= !self.lanes.are_done();
                self.set_stage(LaneStage::Done);
                return Progress::Done;
            }
            (_, CallOutcome::Moved) => self.moved = true,
            (_, CallOutcome::Missing(_)) => {}
            (_, CallOutcome::Crowded) => {
                self.error = flat.error(&self.comm, CROWDED, None);
                return Progress::Starved;
            }
            (_, CallOutcome::Failed(cause, rank)) => {
                self.error = flat.error(&self.comm, cause, rank);
                scope.raise(&self.error);
                self.set_stage(LaneStage::Failed);
                return Progress::Failed;
            }
        }
        Progress::Waiting
    }
}
