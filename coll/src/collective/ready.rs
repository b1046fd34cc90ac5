//! A planned collective on a communicator.

use aldis_kernel::hal::{Cause, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Failed, Scope, Tag};

use super::peers::{Over, Peers};
use super::{CollectiveMemory, Planned};
use crate::schedule::Instance;
use crate::select::{Call, CallSpec, Plan};
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
    /// Returns all of it, and how each segment is carried out by this plan, once its memory is
    /// found well. Its tag is taken here.
    #[inline]
    pub(super) fn ready<'scope, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        plan: Result<Plan, Cause>,
        memory: &CollectiveMemory<'scope>,
    ) -> Result<Ready, Failed> {
        memory.check_types(scope, comm, self.call().operation)?;
        let ready = match self.over {
            Over::Ranks => self.ready_on(scope, comm, plan),
            Over::Groups | Over::Rooted(_) => self.ready_in_row(scope, comm, plan),
        };
        ready.and_then(|ready| self.check_alike(scope, comm, ready.tag).map(|()| ready))
    }

    /// All of it and how each segment is carried out, over the ranks of a communicator.
    #[inline]
    fn ready_on<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'_, '_, '_, T, P>,
        comm: &Comm,
        plan: Result<Plan, Cause>,
    ) -> Result<Ready, Failed> {
        let CallSpec { call: Call { operation, count, .. }, root, .. } = self.query.spec;
        let whole = Instance::new(comm.rank().0, comm.size(), root, count);
        whole
            .and_then(|whole| {
                let (plan, tag) = (plan?, self.next_tag(scope, comm)?);
                let whole = whole.with_cut(self.query.options.node);
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
        let (operation, root) = (self.call().operation, self.query.spec.root);
        if self.is_persistent() {
            let number = scope.persistent_number(comm, false)?;
            return Ok(tag::of_persistent(number, operation, root));
        }
        Ok(tag::of_call(scope.collective_number(comm)?, operation, root))
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
        let &Call { operation, element_bytes, .. } = self.call();
        match scope.unlike(comm).filter(|_| element_bytes > 1) {
            None => Ok(()),
            Some(rank) => {
                let error = Error::new(operation, Cause::UnlikeOrder).with(rank, comm.context(), tag);
                Err(scope.keep_failure(&error))
            }
        }
    }
}
