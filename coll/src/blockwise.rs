//! The common part of the calls on blocks: what they lend, checked, planned and started.

use aldis_kernel::hal::{Cause, Operation, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Endpoint, Error, Rank, Scope};
use zerocopy::IntoBytes;

use crate::algorithms::algorithms;
use crate::algorithms::blocks::alltoall::InPlace;
use crate::caller::Caller;
use crate::collective::{Blocks, Collective, Input, Lent, Planned};
use crate::layout::Layout;
use crate::op::{Element, Kernel};
use crate::schedule::Schedule;
use crate::select::slots::line_elements;
use crate::select::{Call, CallSpec, Options};
use crate::shared::{self, Portions};

/// A call on blocks and all that it lends.
pub(crate) struct Blockwise<'m, E> {
    pub(crate) operation: Operation,
    pub(crate) root: Rank,
    pub(crate) data: (&'m mut [E], Layout<'m>),
    pub(crate) input: (Input<'m, E>, Layout<'m>),
    pub(crate) scratch: &'m mut [E],
    /// The reduction, where there is one.
    pub(crate) kernel: Option<Kernel>,
}

impl<'m, E: Element> Blockwise<'m, E> {
    /// Without input.
    pub(crate) fn new(
        operation: Operation,
        root: Rank,
        data: (&'m mut [E], Layout<'m>),
        scratch: &'m mut [E],
    ) -> Self {
        Self { operation, root, data, input: (Input::NONE, Layout::Whole), scratch, kernel: None }
    }

    /// The longest block.
    #[inline(always)]
    fn count(&self, comm: &Comm) -> Result<usize, Cause> {
        let ((data, divided), (input, given)) = (&self.data, &self.input);
        let size = comm.size();
        let (count, of_input) = (divided.count(size, data.len())?, given.count(size, input.len())?);
        match given {
            Layout::Even if count != of_input => {
                Err(Cause::LengthMismatch { left: of_input as u64, right: count as u64 })
            }
            // This rank's block is as long as it is listed.
            Layout::Listed(blocks) if matches!(divided, Layout::Own) => {
                let listed = blocks.get(comm.rank().0 as usize).map_or(0, |block| block.len);
                let mismatch = Cause::LengthMismatch { left: count as u64, right: listed as u64 };
                if count == listed { Ok(of_input) } else { Err(mismatch) }
            }
            _ => Ok(count.max(of_input)),
        }
    }

    #[inline(always)]
    fn call(&self, comm: &Comm, count: usize) -> Call {
        Call {
            operation: self.operation,
            size: comm.size(),
            count,
            element_bytes: size_of::<E>() as u32,
            scratch: self.scratch.len(),
            commutes: self.kernel.is_none_or(|kernel| kernel.commutes()),
        }
    }

    fn planned(&self, options: &Options, comm: &Comm) -> Planned {
        let count = self.count(comm);
        let call = self.call(comm, count.unwrap_or(0));
        let (root, kernel) = (self.root.0, self.kernel);
        let spec = CallSpec { call, root, kernel, candidates: algorithms(call.operation) };
        let planned = Planned::new(&spec, options);
        match count {
            // It would leave the input unread.
            Ok(_) if !self.input.0.is_empty() && planned.is_by(InPlace.name()) => {
                planned.refused(Cause::Unsupported)
            }
            Ok(_) => planned,
            Err(cause) => planned.refused(cause),
        }
    }

    fn lent(self) -> Lent<'m> {
        let layouts = [self.data.1, self.input.1];
        let blocks = Blocks { input: self.input.0.into_bytes(), layouts, own: None };
        Lent { data: self.data.0.as_mut_bytes(), scratch: self.scratch.as_mut_bytes(), blocks }
    }

    /// Carries it out.
    #[inline(always)]
    pub(crate) fn run<'s, T: Transport, P: Platform>(
        mut self,
        options: &Options,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
    ) -> Result<(), Error> {
        match self.try_fast_path(options, caller, comm) {
            Some(done) => done,
            None => self.run_planned(options, caller, comm),
        }
    }

    /// Carries it out by what is selected: out of the way of what is done at once.
    #[inline(never)]
    fn run_planned<'s, T: Transport, P: Platform>(
        self,
        options: &Options,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
    ) -> Result<(), Error> {
        self.planned(options, comm).run_on(caller, comm, self.lent())
    }

    /// Carries it out by control slots, if it is for them; `None` if it, or what is left of it, is
    /// for messages.
    #[inline(always)]
    fn try_fast_path<'s, T: Transport, P: Platform>(
        &mut self,
        options: &Options,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
    ) -> Option<Result<(), Error>> {
        if !T::HAS_LINES || !shared::is_in_lines(self.operation) {
            return None;
        }
        let call = self.call(comm, self.count(comm).ok()?);
        let (input, divided) = (&*self.input.0, self.input.1);
        let given = Some(input).filter(|_| !matches!(divided, Layout::Whole));
        let (what, data) = ((self.root.0, self.kernel), self.data.0.as_mut_bytes());
        let given = given.map(|input| (input.as_bytes(), divided));
        let portions = Portions::new(&call, comm, what, (data.len(), self.data.1), given);
        let done = options.try_fast_path_as(caller, comm, &call, &portions, data)?;
        let is_gatherv = self.operation == Operation::Gatherv;
        match done {
            Ok(()) if portions.is_long() => {
                if let (Layout::Listed(blocks), true) = (self.data.1, is_gatherv) {
                    self.data.1 = Layout::Longer(blocks, line_elements(call.element_bytes));
                }
                None
            }
            // Others may have messages for the root.
            Ok(()) if is_gatherv => Some(skip(caller.endpoint(), comm)),
            done => Some(done),
        }
    }

    /// Starts it.
    pub(crate) fn start<T: Transport, P: Platform>(
        self,
        options: &Options,
        scope: &mut Scope<'m, '_, '_, T, P>,
        comm: &Comm,
    ) -> Result<Collective<'m>, Error> {
        Collective::begin(scope, comm, self.planned(options, comm), self.lent())
    }
}

/// Advances to the number of the call after this one, which had no message.
fn skip<T: Transport, P: Platform>(endpoint: &mut Endpoint<'_, T, P>, comm: &Comm) -> Result<(), Error> {
    endpoint.skip_collective(comm).map_err(|cause| Error::new(Operation::Gatherv, cause).on(comm))
}
