//! Calls among neighbours: what they lend, checked, planned and started.

use core::fmt;

use aldis_kernel::Error;
use aldis_kernel::Scope;
use aldis_kernel::hal::{Cause, Operation, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use zerocopy::IntoBytes;

use super::{Linear, NeighborList};
use crate::algorithms::algorithms;
use crate::algorithms::neighbor::NeighborAction;
use crate::block_call::Division;
use crate::blocking_endpoint::BlockingEndpoint;
use crate::collective::{BlockMemory, CallMemory, Collective, Input, Planned, Started};
use crate::layout::Layout;
use crate::op::Element;
use crate::route::StartMode;
use crate::schedule::Schedule;
use crate::select::{Call, CallSpec, Options};
use crate::shared::{self, GivenBlocks, NeighborExchange, Neighbors};

/// A collective among neighbours, described and not yet begun. It is [run](Self::run),
/// [started](Self::start), or made to be started many times ([`persistent`](Self::persistent)), on
/// a [`NeighborList`].
#[must_use = "nothing is done before it is run or started"]
pub struct NeighborCall<'m> {
    /// The call; the number of ranks and the longest block are still open.
    call: Call,
    data: &'m mut [u8],
    divided: Division<'m>,
    input: Input<'m, u8>,
    given: Division<'m>,
    options: Options,
}

impl<'m> NeighborCall<'m> {
    /// Describes a call whose input is still open.
    #[inline(always)]
    pub(super) fn new<E: Element>(operation: Operation, data: &'m mut [E], layout: Layout<'m>) -> Self {
        let element_bytes = size_of::<E>() as u32;
        Self {
            call: Call { operation, size: 0, count: 0, element_bytes, scratch: 0, commutes: true },
            divided: Division { layout, elements: data.len() },
            data: data.as_mut_bytes(),
            input: Input::NONE,
            given: Division { layout: Layout::Whole, elements: 0 },
            options: Options::default(),
        }
    }

    /// Returns this call with an input, which is left as it is.
    #[inline(always)]
    pub(super) fn given<E: Element>(self, input: Input<'m, E>, layout: Layout<'m>) -> Self {
        let given = Division { layout, elements: input.len() };
        Self { input: input.into_bytes(), given, ..self }
    }

    /// Returns this call with these options, which are the same on every rank.
    #[inline(always)]
    pub fn with(self, options: &Options) -> Self {
        Self { options: *options, ..self }
    }

    /// Carries it out: returns when this rank's part is done.
    ///
    /// # Errors
    /// Those of the operation, as its function says; [`Cause::Unsupported`] for an algorithm of
    /// another operation; else as [`Collective::wait`].
    #[inline]
    pub fn run<'s, T: Transport, P: Platform>(
        mut self,
        ep: &mut impl BlockingEndpoint<'s, T, P>,
        neighbors: &NeighborList<'_>,
    ) -> Result<(), Error> {
        match self.try_fast_path(ep, neighbors) {
            Some(done) => done,
            None => self.run_planned(ep, neighbors),
        }
    }

    /// Starts it. The memory can be used again when the scope is over.
    ///
    /// # Errors
    /// [`Cause::Full`] when the request pool is full; [`Cause::Unsupported`] for an algorithm of
    /// another operation; the rest as [`run`](Self::run).
    #[inline]
    pub fn start<T: Transport, P: Platform>(
        self,
        scope: &mut Scope<'m, '_, '_, T, P>,
        neighbors: &'m NeighborList<'m>,
    ) -> Result<Collective<'m>, Error> {
        self.begin(scope, neighbors, StartMode::Nonblocking)
    }

    /// Makes it, to be started by [`Collective::start`] any number of times.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] for an algorithm of another operation; the rest as
    /// [`start`](Self::start).
    pub fn persistent<T: Transport, P: Platform>(
        self,
        scope: &mut Scope<'m, '_, '_, T, P>,
        neighbors: &'m NeighborList<'m>,
    ) -> Result<Collective<'m>, Error> {
        self.begin(scope, neighbors, StartMode::Persistent)
    }

    /// Begins it in this mode: [`start`](Self::start), or [`persistent`](Self::persistent).
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn begin<T: Transport, P: Platform>(
        self,
        scope: &mut Scope<'m, '_, '_, T, P>,
        neighbors: &'m NeighborList<'m>,
        mode: StartMode,
    ) -> Result<Collective<'m>, Error> {
        self.launch(scope, neighbors, mode)?.into_collective(scope)
    }

    /// Begins it like [`begin`](Self::begin), but as what it is: by control slots or by messages.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn launch<T: Transport, P: Platform>(
        self,
        scope: &mut Scope<'m, '_, '_, T, P>,
        neighbors: &'m NeighborList<'m>,
        mode: StartMode,
    ) -> Result<Started<'m>, Error> {
        let planned = self.planned(neighbors).in_mode(mode);
        Collective::begin(scope, &neighbors.comm, planned, self.lent(neighbors))
    }

    #[inline(always)]
    const fn linear<'n>(&self, neighbors: &'n NeighborList<'n>) -> &'n Linear<'n> {
        match self.call.operation {
            Operation::NeighborAllgather | Operation::NeighborAllgatherv => &neighbors.gather,
            _ => &neighbors.exchange,
        }
    }

    /// Returns the neighbours as a role in control slots has them.
    #[inline(always)]
    fn neighbors<'n>(&self, neighbors: &'n NeighborList<'n>) -> Neighbors<'n> {
        let entries = self.linear(neighbors).entries;
        Neighbors { rank: neighbors.comm.rank().0, entries, is_grid: neighbors.is_grid }
    }

    /// The longest block.
    fn count(&self, neighbors: &NeighborList<'_>) -> Result<usize, Cause> {
        let (blocks, given) = (&self.divided.layout, &self.given.layout);
        let (sources, destinations) = (neighbors.sources, neighbors.destinations);
        let (count, of_input) = (self.divided.longest(sources)?, self.given.longest(destinations)?);
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
        let copies =
            self.linear(neighbors).entries.iter().filter(|entry| entry.action == NeighborAction::Copy);
        for entry in copies {
            let (left, right) = (given.len(entry.given, of_input), blocks.len(entry.block, count));
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

    #[inline(always)]
    const fn of(&self, neighbors: &NeighborList<'_>, count: usize) -> Call {
        Call { size: neighbors.comm.size(), count, ..self.call }
    }

    fn planned(&self, neighbors: &NeighborList<'_>) -> Planned {
        let count = self.count(neighbors);
        let call = self.of(neighbors, count.unwrap_or(0));
        let spec = CallSpec { call, root: 0, kernel: None, candidates: algorithms(call.operation) };
        Planned::new(&spec, &self.options).refused_if(count.err())
    }

    fn lent(self, neighbors: &'m NeighborList<'m>) -> CallMemory<'m> {
        let own: Option<&dyn Schedule> = Some(self.linear(neighbors));
        // Blocks of one length are one stretch: there may be more or fewer of them than ranks.
        let layouts = match self.divided.layout {
            Layout::Even => [Layout::Whole, Layout::Even],
            listed => [listed, self.given.layout],
        };
        let is_known = matches!(self.divided.layout, Layout::Even) && neighbors.is_grid;
        let known = is_known.then(|| self.neighbors(neighbors));
        let blocks = BlockMemory { input: self.input, layouts, own, neighbors: known };
        CallMemory { data: self.data, scratch: &mut [], blocks }
    }

    /// Carries it out by control slots, if it is for them; `None` if it, or what is left of it, is
    /// for messages.
    #[inline(always)]
    fn try_fast_path<'s, T: Transport, P: Platform>(
        &mut self,
        ep: &mut impl BlockingEndpoint<'s, T, P>,
        neighbors: &NeighborList<'_>,
    ) -> Option<Result<(), Error>> {
        if !T::HAS_CONTROL_SLOTS {
            return None;
        }
        let (options, call, comm) =
            (self.options, self.of(neighbors, self.count(neighbors).ok()?), &neighbors.comm);
        let input = GivenBlocks { memory: &self.input, layout: self.given.layout };
        let role = NeighborExchange::new(&call, self.neighbors(neighbors), input, self.divided.layout)?;
        if !options.tries_slots(ep.endpoint().tuning(comm), &call, &[]) {
            return None;
        }
        let done = shared::try_run(ep, comm, &role, self.data)?;
        if done.is_ok() && role.is_long() { None } else { Some(done) }
    }

    /// Carries it out by what is selected: out of the way of what is done at once.
    #[inline(never)]
    fn run_planned<'s, T: Transport, P: Platform>(
        self,
        ep: &mut impl BlockingEndpoint<'s, T, P>,
        neighbors: &NeighborList<'_>,
    ) -> Result<(), Error> {
        let planned = self.planned(neighbors);
        planned.run(ep, &neighbors.comm, self.lent(neighbors))
    }
}

impl fmt::Debug for NeighborCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} elements in blocks", self.call.operation, self.divided.elements)
    }
}
