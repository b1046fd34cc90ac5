//! Collectives that are carried out by control slots instead of messages: see [`shared`].

use aldis_kernel::hal::{Cause, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Endpoint, Error, Scope, Tag};

use super::lane::LaneStage;
use super::{Collective, CollectiveMemory, Peers, Planned, Progress, Ready};
use crate::schedule::Instance;
use crate::select::{Call, Plan, Shares};
use crate::shared::{self, CROWDED, CallOutcome, Meeting, StartedRole, Task};

impl Planned {
    /// Returns the task for control slots, if this blocking call is for them.
    pub(super) fn by_control_slots<T: Transport, P: Platform>(
        &self,
        endpoint: &mut Endpoint<'_, T, P>,
        comm: &Comm,
    ) -> Result<Option<Task>, Error> {
        if self.shares() == Shares::Never {
            return Ok(None);
        }
        if shared::is_in_control_slots(self.call.operation) {
            // Where that could be, it was done at once.
            return match self.shares() {
                Shares::Named => Err(Error::new(self.call.operation, self.unshared(endpoint, comm))),
                _ => Ok(None),
            };
        }
        let task = self.task(comm);
        match task.and_then(|task| shared::check(endpoint.control_slots(comm), task)) {
            Err(cause) if self.shares() == Shares::Named => Err(Error::new(self.call.operation, cause)),
            went => Ok(went.and(task).ok()),
        }
    }

    /// Returns true if what a call starts is carried out by control slots: if it names them, or if
    /// a blocking call would be.
    pub(super) fn starts_by_control_slots<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'_, '_, '_, T, P>,
        comm: &Comm,
    ) -> bool {
        if self.shares() == Shares::IfThere
            && self.beginning == super::Beginning::Waited
            && !shared::is_in_control_slots(self.call.operation)
        {
            return self.task(comm).is_ok_and(|task| shared::check(scope.control_slots(comm), task).is_ok());
        }
        self.shares() == Shares::Named
    }

    /// The reason why a call that names control slots, and is for them alone, is not carried out by
    /// them.
    #[cold]
    fn unshared<T: Transport, P: Platform>(&self, endpoint: &mut Endpoint<'_, T, P>, comm: &Comm) -> Cause {
        let Call { count, element_bytes, .. } = self.call;
        let len = (count as u64).saturating_mul(element_bytes.into());
        match endpoint.control_slots(comm) {
            Err(cause) => cause,
            Ok(_) if shared::is_too_long(&self.call) || len > shared::SLOT_BYTES => {
                Cause::TooBig { len, max: shared::SLOT_BYTES }
            }
            Ok(_) => self.plan.err().unwrap_or(Cause::Unsupported),
        }
    }

    pub(super) fn task(&self, comm: &Comm) -> Result<Task, Cause> {
        let Call { operation, count, element_bytes, .. } = self.call;
        let whole = Instance::new(comm.rank().0, comm.size(), self.root, count)?;
        let bytes = count.saturating_mul(element_bytes as usize);
        let (rank, size, root, kernel) = (whole.rank(), whole.size(), self.root, self.kernel);
        Ok(Task { operation, rank, size, root, bytes, element_bytes, kernel })
    }
}

impl<'scope> Collective<'scope> {
    /// Like [`start`](Self::start), but by the control slots of the communicator.
    pub(super) fn start_by_control_slots<T: Transport, P: Platform>(
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        planned: &Planned,
        memory: CollectiveMemory<'scope>,
        role: Result<StartedRole<'scope>, Cause>,
    ) -> Result<Self, Error> {
        let Call { operation, count, .. } = planned.call;
        let refused = |cause| Error::new(operation, cause);
        if matches!(role, Ok(StartedRole::Stretch(_))) && shared::is_in_control_slots(operation) {
            return Err(refused(Cause::Unsupported));
        }
        let begun = role.and_then(|role| Meeting::begin(scope, comm, role));
        let algorithm = shared::algorithm(operation).ok_or(Cause::Unsupported).map_err(refused)?;
        let whole = Instance::new(comm.rank().0, comm.size(), planned.root, count).map_err(refused)?;
        let plan = Plan::in_turn(algorithm, count);
        let ready = Ready { whole, plan, tag: Tag(0), peers: Peers::Ranks };
        let mut started =
            Self { meeting: begun.map_err(refused)?, ..Self::new(comm, ready, operation, memory) };
        started.set_stage(LaneStage::Post(0));
        match started.advance(scope) {
            Progress::Failed => Err(started.error),
            Progress::Done | Progress::Waiting | Progress::Starved => Ok(started),
        }
    }

    /// Like [`advance`](Self::advance), but by control slots.
    pub(super) fn meet<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Progress {
        let Some(meeting) = &mut self.meeting else { return Progress::Failed };
        match (self.lanes.now().stage, meeting.turn(scope, &self.comm, self.memory.data)) {
            (LaneStage::Failed, _) => return Progress::Failed,
            // What every rank knows to stand in slots does.
            (_, CallOutcome::Over) if meeting.role().is_long() => {
                self.error = meeting.error(&self.comm, Cause::Incompatible, None);
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
                self.error = meeting.error(&self.comm, CROWDED, None);
                return Progress::Starved;
            }
            (_, CallOutcome::Failed(cause, rank)) => {
                self.error = meeting.error(&self.comm, cause, rank);
                scope.raise(&self.error);
                self.set_stage(LaneStage::Failed);
                return Progress::Failed;
            }
        }
        Progress::Waiting
    }
}
