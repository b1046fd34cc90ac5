//! A planned collective on a communicator.

use aldis_kernel::hal::{Cause, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Failed, Scope, Tag};

use super::Planned;
use super::peers::{Over, Peers};
use crate::algorithms::algorithms;
use crate::schedule::Instance;
use crate::select::is_far;
use crate::select::{Call, Plan};
use crate::tag;

/// The way in which a planned collective is carried out on a communicator.
#[derive(Clone, Copy)]
pub(super) struct Ready {
    /// The whole call.
    pub(super) whole: Instance,
    pub(super) plan: Plan,
    pub(super) tag: Tag,
    pub(super) peers: Peers,
}

impl Planned {
    /// All of it, and how each segment is carried out; its tag is taken here.
    #[inline]
    pub(super) fn ready<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'_, '_, '_, T, P>,
        comm: &Comm,
    ) -> Result<Ready, Failed> {
        let ready = match self.over {
            Over::Ranks => self.ready_on(scope, comm),
            over => self.ready_in_row(scope, comm, over),
        };
        ready.and_then(|ready| self.check_alike(scope, comm, ready.tag).map(|()| ready))
    }

    /// All of it and how each segment is carried out, over the ranks of a communicator.
    #[inline]
    fn ready_on<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'_, '_, '_, T, P>,
        comm: &Comm,
    ) -> Result<Ready, Failed> {
        let Call { operation, count, .. } = self.call;
        Instance::new(comm.rank().0, comm.size(), self.root, count)
            .and_then(|whole| {
                let whole = whole.with_cut(self.node.0);
                let (plan, tag) = (self.plan_on(scope, comm)?, self.next_tag(scope, comm)?);
                Ok(Ready { whole, plan, tag, peers: Peers::Ranks })
            })
            .map_err(|cause| scope.keep_failure(&Error::new(operation, cause).on(comm)))
    }

    /// The call's tag, by the next number.
    #[inline]
    fn next_tag<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'_, '_, '_, T, P>,
        comm: &Comm,
    ) -> Result<Tag, Cause> {
        let (operation, root) = (self.call.operation, self.root);
        if self.is_persistent() {
            let number = scope.persistent_number(comm, false)?;
            return Ok(tag::of_persistent(number, operation, root));
        }
        Ok(tag::of_call(scope.collective_number(comm)?, operation, root))
    }

    /// The plan for the ranks of this communicator. Whether one of them is on another node, all of
    /// them say alike.
    #[inline]
    fn plan_on<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'_, '_, '_, T, P>,
        comm: &Comm,
    ) -> Result<Plan, Cause> {
        if let Some(open) = &self.open
            && T::HAS_CONTROL_SLOTS
            && is_far(scope.control_slots(comm).map(drop))
        {
            let far = open.for_far();
            let selected = self.call.select(algorithms(self.call.operation), &far);
            let selected = match far.fixes_bits(&self.call) {
                true => selected,
                false => self.call.select_in_two_levels(selected, self.node, &far.prices),
            };
            return selected.map(|selected| selected.plan);
        }
        self.plan
    }

    /// Refuses numbers of ranks of the other byte order, which nothing here converts. Bytes have
    /// none.
    #[inline]
    fn check_alike<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'_, '_, '_, T, P>,
        comm: &Comm,
        tag: Tag,
    ) -> Result<(), Failed> {
        let Call { operation, element_bytes, .. } = self.call;
        match scope.unlike(comm).filter(|_| element_bytes > 1) {
            None => Ok(()),
            Some(rank) => {
                let error = Error::new(operation, Cause::UnlikeOrder).with(rank, comm.context(), tag);
                Err(scope.keep_failure(&error))
            }
        }
    }
}
