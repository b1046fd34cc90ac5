//! The common part of the calls among neighbours: what they lend, checked, planned and started.

use aldis_kernel::hal::{Cause, Operation, Platform, Transport};
use aldis_kernel::{Error, Scope};
use zerocopy::IntoBytes;

use super::{Linear, Neighbourhood};
use crate::algorithms::algorithms;
use crate::algorithms::neighbor::Act;
use crate::caller::Caller;
use crate::collective::{BlockMemory, Collective, Input, Lent, Planned};
use crate::layout::Layout;
use crate::op::Element;
use crate::schedule::Schedule;
use crate::select::{Call, CallSpec, Options};
use crate::shared::{self, Around, Neighbors};

/// A call among neighbours and all that it lends.
pub(super) struct Exchange<'m, E> {
    pub(super) operation: Operation,
    pub(super) around: &'m Neighbourhood<'m>,
    pub(super) data: (&'m mut [E], Layout<'m>),
    pub(super) input: (Input<'m, E>, Layout<'m>),
}

impl<'m, E: Element> Exchange<'m, E> {
    fn linear(&self) -> &'m Linear<'m> {
        match self.operation {
            Operation::NeighborAllgather | Operation::NeighborAllgatherv => &self.around.gather,
            _ => &self.around.exchange,
        }
    }

    /// The longest block.
    fn count(&self) -> Result<usize, Cause> {
        let ((data, blocks), (input, given)) = (&self.data, &self.input);
        let (sources, destinations) = (self.around.sources, self.around.destinations);
        let (count, of_input) = (blocks.count(sources, data.len())?, given.count(destinations, input.len())?);
        let differ = match blocks {
            Layout::Even => count != of_input && sources > 0 && destinations > 0,
            _ => false,
        };
        let mismatch =
            |left: usize, right: usize| Err(Cause::LengthMismatch { left: left as u64, right: right as u64 });
        if differ {
            return mismatch(of_input, count);
        }
        // What a rank has for itself is not sent to it by a message.
        let copies = self.linear().lines.iter().filter(|line| line.act == Act::Copy);
        for line in copies {
            let (left, right) = (given.len(line.given, of_input), blocks.len(line.block, count));
            if left != right {
                return mismatch(left, right);
            }
        }
        Ok(match (sources, destinations) {
            (0, _) => of_input,
            (_, 0) => count,
            _ => count.max(of_input),
        })
    }

    fn call(&self, count: usize) -> Call {
        let (size, element_bytes) = (self.around.comm.size(), size_of::<E>() as u32);
        Call { operation: self.operation, size, count, element_bytes, scratch: 0, commutes: true }
    }

    fn planned(&self, options: &Options) -> Planned {
        let count = self.count();
        let call = self.call(count.unwrap_or(0));
        let spec = CallSpec { call, root: 0, kernel: None, candidates: algorithms(self.operation) };
        let planned = Planned::new(&spec, options);
        match count {
            Ok(_) => planned,
            Err(cause) => planned.refused(cause),
        }
    }

    fn lent(self) -> Lent<'m> {
        let own: Option<&dyn Schedule> = Some(self.linear());
        // BlockMemory of one length are one stretch: there may be more or fewer of them than ranks.
        let layouts = match self.data.1 {
            Layout::Even => [Layout::Whole, Layout::Even],
            listed => [listed, self.input.1],
        };
        let blocks = BlockMemory { input: self.input.0.into_bytes(), layouts, own };
        Lent { data: self.data.0.as_mut_bytes(), scratch: &mut [], blocks }
    }

    /// Carries it out.
    #[inline]
    pub(super) fn run<'s, T: Transport, P: Platform>(
        mut self,
        options: &Options,
        caller: &mut impl Caller<'s, T, P>,
    ) -> Result<(), Error> {
        match self.try_fast_path(options, caller) {
            Some(done) => done,
            None => self.run_planned(options, caller),
        }
    }

    /// Carries it out by control slots, if it is for them; `None` if it, or what is left of it, is
    /// for messages.
    #[inline(always)]
    fn try_fast_path<'s, T: Transport, P: Platform>(
        &mut self,
        options: &Options,
        caller: &mut impl Caller<'s, T, P>,
    ) -> Option<Result<(), Error>> {
        if !T::HAS_LINES || !shared::is_in_lines(self.operation) {
            return None;
        }
        let (call, comm) = (self.call(self.count().ok()?), &self.around.comm);
        let (lines, input) = (self.linear().lines, (self.input.0.as_bytes(), self.input.1));
        let neighbors = Neighbors { rank: comm.rank().0, lines, is_grid: self.around.is_grid };
        let around = Around::new(&call, neighbors, input, self.data.1)?;
        let done = options.try_fast_path_as(caller, comm, &call, &around, self.data.0.as_mut_bytes())?;
        if done.is_ok() && around.is_long() { None } else { Some(done) }
    }

    #[inline(never)]
    fn run_planned<'s, T: Transport, P: Platform>(
        self,
        options: &Options,
        caller: &mut impl Caller<'s, T, P>,
    ) -> Result<(), Error> {
        let comm = self.around.comm;
        self.planned(options).run_on(caller, &comm, self.lent())
    }

    /// Starts it.
    pub(super) fn start<T: Transport, P: Platform>(
        self,
        options: &Options,
        scope: &mut Scope<'m, '_, '_, T, P>,
    ) -> Result<Collective<'m>, Error> {
        let comm = self.around.comm;
        Collective::begin(scope, &comm, self.planned(options), self.lent())
    }
}
