//! Calls on data that are divided into blocks, one a rank: gathers, scatters, all-to-alls and their
//! like.

use core::fmt;

use aldis_kernel::hal::{Cause, Operation, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Endpoint, Error, Rank, Scope};
use zerocopy::IntoBytes;

use crate::algorithms::algorithms;
use crate::algorithms::blocks::alltoall::InPlace;
use crate::blocking_endpoint::BlockingEndpoint;
use crate::collective::{BlockMemory, CallMemory, Collective, Input, Planned, Started};
use crate::layout::{Block, Layout};
use crate::op::{Element, Kernel};
use crate::route::StartMode;
use crate::schedule::{Algorithm, Schedule, divide};
use crate::select::slots::has_unknown_lengths;
use crate::select::{Call, CallSpec, Choice, Options};
use crate::shared::{self, GivenBlocks, Portions, Task};

/// A collective on blocks, described and not yet begun. It is [run](Self::run),
/// [started](Self::start), or made to be started many times ([`persistent`](Self::persistent)).
#[must_use = "nothing is done before it is run or started"]
pub struct BlockCall<'m> {
    /// The call; the number of ranks and the longest block are still open.
    call: Call,
    root: Rank,
    /// True if the root alone has a block for every rank, and every other rank its own.
    is_rooted: bool,
    /// The reduction, where there is one.
    kernel: Option<Kernel>,
    /// The algorithm, where there is but one.
    only: Option<Algorithm>,
    data: &'m mut [u8],
    divided: Division<'m>,
    input: Input<'m, u8>,
    given: Division<'m>,
    scratch: &'m mut [u8],
    options: Options,
    /// The reason why it cannot be carried out, if its arguments are wrong.
    refusal: Option<Cause>,
}

/// An input with the list of its blocks, one for each rank.
#[derive(Debug)]
pub struct InputBlocks<'m, E> {
    /// The elements.
    pub input: Input<'m, E>,
    /// Their division.
    pub blocks: &'m [Block],
}

impl<'m, E> InputBlocks<'m, E> {
    /// Returns an input that is divided into these blocks.
    #[inline(always)]
    pub fn new(input: impl Into<Input<'m, E>>, blocks: &'m [Block]) -> Self {
        Self { input: input.into(), blocks }
    }
}

/// The division of so many elements into blocks.
#[derive(Clone, Copy)]
pub(crate) struct Division<'m> {
    pub(crate) layout: Layout<'m>,
    pub(crate) elements: usize,
}

impl<'m> Division<'m> {
    /// Returns this division without the blocks that stand in slots, where blocks are listed.
    fn without_short(self, element_bytes: u32) -> Self {
        Self { layout: self.layout.without_short(element_bytes), ..self }
    }

    /// Returns the elements of the longest of so many blocks.
    #[inline(always)]
    pub(crate) fn longest(&self, blocks: u32) -> Result<usize, Cause> {
        self.layout.count(blocks, self.elements)
    }
}

impl<'m> BlockCall<'m> {
    /// Describes a call without input.
    #[inline(always)]
    pub(crate) fn new<E: Element>(
        operation: Operation,
        data: &'m mut [E],
        layout: Layout<'m>,
        scratch: &'m mut [E],
    ) -> Self {
        let element_bytes = size_of::<E>() as u32;
        let call =
            Call { operation, size: 0, count: 0, element_bytes, scratch: scratch.len(), commutes: true };
        Self {
            call,
            root: Rank(0),
            is_rooted: false,
            kernel: None,
            only: None,
            divided: Division { layout, elements: data.len() },
            data: data.as_mut_bytes(),
            input: Input::NONE,
            given: Division { layout: Layout::Whole, elements: 0 },
            scratch: scratch.as_mut_bytes(),
            options: Options::default(),
            refusal: None,
        }
    }

    /// Returns this call on bytes as one on elements of so many bytes.
    #[inline(always)]
    pub(crate) fn of_elements(mut self, element_bytes: u32) -> Self {
        let whole = |bytes: usize| divide(bytes, element_bytes as usize);
        for elements in [&mut self.divided.elements, &mut self.given.elements] {
            let (count, rest) = whole(*elements);
            if rest > 0 {
                let (left, right) = (*elements as u64, elements.saturating_sub(rest) as u64);
                self.refusal = Some(Cause::LengthMismatch { left, right });
            }
            *elements = count;
        }
        let scratch = whole(self.call.scratch).0;
        Self { call: Call { element_bytes, scratch, ..self.call }, ..self }
    }

    /// Returns this call with the rank whose data alone are divided as it says, each other rank's
    /// being its own block.
    #[inline(always)]
    pub(crate) fn rooted(self, root: Rank) -> Self {
        Self { root, is_rooted: true, ..self }
    }

    /// Returns this call with an input, which is left as it is.
    #[inline(always)]
    pub(crate) fn given<E: Element>(self, input: Input<'m, E>, layout: Layout<'m>) -> Self {
        let given = Division { layout, elements: input.len() };
        Self { input: input.into_bytes(), given, ..self }
    }

    /// Returns this call with the reduction that is done to elements.
    #[inline(always)]
    pub(crate) fn reducing(self, kernel: Kernel) -> Self {
        let call = Call { commutes: kernel.commutes(), ..self.call };
        Self { call, kernel: Some(kernel), ..self }
    }

    /// Returns this call, to be carried out by this algorithm alone.
    #[inline(always)]
    pub(crate) fn only_by(self, algorithm: Algorithm) -> Self {
        Self { only: Some(algorithm), options: Options::using(algorithm), ..self }
    }

    /// Returns this call with these options, which are the same on every rank. A call in place goes
    /// by its one algorithm, whichever they name.
    #[inline(always)]
    pub fn with(self, options: &Options) -> Self {
        let choice = self.only.map_or(options.choice, Choice::Named);
        Self { options: Options { choice, ..*options }, ..self }
    }

    /// Carries it out: returns when this rank's part is done.
    ///
    /// # Errors
    /// Those of the operation, as its function says; [`Cause::Unsupported`] for an algorithm that
    /// is not for this, or one that does not keep rank order when a reduction does not commute;
    /// else as [`Collective::wait`].
    #[inline(always)]
    pub fn run<'s, T: Transport, P: Platform>(
        mut self,
        ep: &mut impl BlockingEndpoint<'s, T, P>,
        comm: &Comm,
    ) -> Result<(), Error> {
        self.divided = self.division(comm);
        self.copy_twin(comm);
        match self.try_fast_path(ep, comm) {
            Some(done) => done,
            None => self.run_planned(ep, comm),
        }
    }

    /// Starts it. The memory can be used again when the scope is over.
    ///
    /// # Errors
    /// [`Cause::Full`] when the request pool is full; [`Cause::Unsupported`] for an algorithm that
    /// is not for this; the rest as [`run`](Self::run).
    #[inline]
    pub fn start<T: Transport, P: Platform>(
        self,
        scope: &mut Scope<'m, '_, '_, T, P>,
        comm: &Comm,
    ) -> Result<Collective<'m>, Error> {
        self.begin(scope, comm, StartMode::Nonblocking)
    }

    /// Makes it, to be started by [`Collective::start`] any number of times.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] for an algorithm that is not for this; the rest as
    /// [`start`](Self::start).
    pub fn persistent<T: Transport, P: Platform>(
        self,
        scope: &mut Scope<'m, '_, '_, T, P>,
        comm: &Comm,
    ) -> Result<Collective<'m>, Error> {
        self.begin(scope, comm, StartMode::Persistent)
    }

    /// Begins it in this mode: [`start`](Self::start), or [`persistent`](Self::persistent).
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn begin<T: Transport, P: Platform>(
        self,
        scope: &mut Scope<'m, '_, '_, T, P>,
        comm: &Comm,
        mode: StartMode,
    ) -> Result<Collective<'m>, Error> {
        self.launch(scope, comm, mode)?.into_collective(scope)
    }

    /// Begins it like [`begin`](Self::begin), but as what it is: by control slots or by messages.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    #[inline]
    pub fn launch<T: Transport, P: Platform>(
        mut self,
        scope: &mut Scope<'m, '_, '_, T, P>,
        comm: &Comm,
        mode: StartMode,
    ) -> Result<Started<'m>, Error> {
        self.divided = self.division(comm);
        self.copy_twin(comm);
        let is_copied_once = mode.is_persistent() && matches!(self.given.layout, Layout::Twin);
        let refusal = is_copied_once.then_some(Cause::Unsupported);
        let planned = self.planned(comm).in_mode(mode).refused_if(refusal);
        if T::HAS_CONTROL_SLOTS && mode == StartMode::Waited && has_unknown_lengths(self.call.operation) {
            return Collective::begin_of_unknown_lengths(scope, comm, planned, self.lent());
        }
        Collective::begin(scope, comm, planned, self.lent())
    }

    /// Returns this rank's part in it by control slots.
    #[inline(always)]
    fn portions<'p>(&self, comm: &Comm, call: &Call, memory: &'p [u8]) -> Portions<'p>
    where
        'm: 'p,
    {
        let given = GivenBlocks::of(memory, self.given.layout);
        let task = Task::new(call, self.root.0, self.kernel, comm.rank().0).with_bytes(self.data.len());
        Portions::new(call, task, self.divided.layout, given)
    }

    /// Returns the division of this rank's data.
    #[inline(always)]
    fn division(&self, comm: &Comm) -> Division<'m> {
        match self.is_rooted && comm.rank() != self.root {
            true => Division { layout: Layout::Own, ..self.divided },
            false => self.divided,
        }
    }

    /// Copies this rank's block, if it is given apart, to where it stands in the data as well.
    #[inline(always)]
    fn copy_twin(&mut self, comm: &Comm) {
        if !matches!(self.given.layout, Layout::Twin) || self.count(comm).is_err() {
            return;
        }
        let bytes = self.input.len();
        let start = self.divided.layout.first_byte(comm.rank().0, bytes, self.call.element_bytes);
        let place = self.data.get_mut(start..).and_then(|rest| rest.get_mut(..self.input.len()));
        if let Some(place) = place {
            place.copy_from_slice(&self.input);
        }
    }

    /// The longest block.
    #[inline(always)]
    fn count(&self, comm: &Comm) -> Result<usize, Cause> {
        if let Some(cause) = self.refusal {
            return Err(cause);
        }
        let (divided, given) = (&self.divided, &self.given);
        let (count, of_input) = (divided.longest(comm.size())?, given.longest(comm.size())?);
        let listed = |blocks: &[Block]| blocks.get(comm.rank().0 as usize).map_or(0, |block| block.len);
        let mismatch =
            |left: usize, right: usize| Err(Cause::LengthMismatch { left: left as u64, right: right as u64 });
        match (given.layout, divided.layout) {
            // This rank's block is as long as it is listed.
            (Layout::Twin, Layout::Listed(blocks)) if of_input != listed(blocks) => {
                mismatch(of_input, listed(blocks))
            }
            (Layout::Listed(blocks), Layout::Own) if count != listed(blocks) => {
                mismatch(count, listed(blocks))
            }
            (Layout::Twin, Layout::Listed(_)) => Ok(count),
            (Layout::Listed(_), Layout::Own) => Ok(of_input),
            (Layout::Even | Layout::Twin, _) if count != of_input => mismatch(of_input, count),
            _ => Ok(count.max(of_input)),
        }
    }

    #[inline(always)]
    const fn of(&self, comm: &Comm, count: usize) -> Call {
        Call { size: comm.size(), count, ..self.call }
    }

    fn planned(&self, comm: &Comm) -> Planned {
        let count = self.count(comm);
        let call = self.of(comm, count.unwrap_or(0));
        let (root, kernel) = (self.root.0, self.kernel);
        let spec = CallSpec { call, root, kernel, candidates: algorithms(call.operation) };
        let planned = Planned::new(&spec, &self.options);
        // The algorithm in place would leave the input unread.
        let is_unread = !self.input.is_empty() && self.options.names(InPlace.name());
        planned.refused_if(count.err().or(is_unread.then_some(Cause::Unsupported)))
    }

    fn lent(self) -> CallMemory<'m> {
        let layouts = [self.divided.layout, self.given.layout];
        let blocks = BlockMemory { input: self.input, layouts, own: None, neighbors: None };
        CallMemory { data: self.data, scratch: self.scratch, blocks }
    }

    /// Carries it out by what is selected: out of the way of what is done at once.
    #[inline(never)]
    fn run_planned<'s, T: Transport, P: Platform>(
        self,
        ep: &mut impl BlockingEndpoint<'s, T, P>,
        comm: &Comm,
    ) -> Result<(), Error> {
        self.planned(comm).run(ep, comm, self.lent())
    }

    /// Carries it out by control slots, if it is for them; `None` if it, or what is left of it, is
    /// for messages.
    #[inline(always)]
    fn try_fast_path<'s, T: Transport, P: Platform>(
        &mut self,
        ep: &mut impl BlockingEndpoint<'s, T, P>,
        comm: &Comm,
    ) -> Option<Result<(), Error>> {
        if !T::HAS_CONTROL_SLOTS {
            return None;
        }
        let (options, call) = (self.options, self.of(comm, self.count(comm).ok()?));
        let portions = self.portions(comm, &call, &self.input);
        let tuning = ep.endpoint().tuning(comm);
        if !options.tries_slots(tuning, &call, &[]) {
            return None;
        }
        let bytes = || portions.message_bytes(&call);
        let prefers_message = |shape: &_| options.prefers_message(tuning, &call, bytes, shape);
        let done = shared::try_run_unless(ep, comm, &portions, self.data, prefers_message)?;
        let is_gatherv = call.operation == Operation::Gatherv;
        match done {
            Ok(()) if portions.is_long() => {
                if is_gatherv {
                    self.divided = self.divided.without_short(call.element_bytes);
                }
                None
            }
            // Others may have messages for the root.
            done if is_gatherv => Some(skip(ep.endpoint(), comm).and(done)),
            done => Some(done),
        }
    }
}

/// Advances to the number of the call after this one, which had no message.
fn skip<T: Transport, P: Platform>(endpoint: &mut Endpoint<'_, T, P>, comm: &Comm) -> Result<(), Error> {
    endpoint.skip_collective(comm).map_err(|cause| Error::new(Operation::Gatherv, cause).on(comm))
}

impl fmt::Debug for BlockCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} elements in blocks", self.call.operation, self.divided.elements)
    }
}
