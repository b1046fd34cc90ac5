//! Calls over two groups: what they lend, checked, planned and started.

use core::fmt;

use aldis_kernel::hal::{Cause, Operation, Platform, Transport};
use aldis_kernel::{Comm, Error, Scope};
use zerocopy::IntoBytes;

use super::{Root, algorithms};
use crate::blocking_endpoint::BlockingEndpoint;
use crate::collective::{CallMemory, Collective, Input, Over, Planned};
use crate::layout::Layout;
use crate::op::{Element, Kernel};
use crate::route::StartMode;
use crate::schedule::divide;
use crate::select::{Call, CallSpec, Options, Plan};

/// A collective over both groups of an intercommunicator, described and not yet begun. It is
/// [run](Self::run), [started](Self::start), or made to be started many times
/// ([`persistent`](Self::persistent)).
#[must_use = "nothing is done before it is run or started"]
pub struct InterCall<'m> {
    operation: Operation,
    over: Over,
    element_bytes: usize,
    kernel: Option<Kernel>,
    options: Options,
    lent: CallMemory<'m>,
}

impl<'m> InterCall<'m> {
    /// Describes a call without input, on data that are one stretch.
    pub(super) fn new<E: Element>(
        operation: Operation,
        over: Over,
        data: &'m mut [E],
        scratch: &'m mut [E],
    ) -> Self {
        let (element_bytes, options) = (size_of::<E>(), Options::default());
        let lent = CallMemory::stretch(data.as_mut_bytes(), scratch.as_mut_bytes());
        Self { operation, over, element_bytes, kernel: None, options, lent }
    }

    /// Returns this call with data that are divided like this.
    pub(super) fn divided(self, layout: Layout<'m>) -> Self {
        let [_, given] = self.lent.blocks.layouts;
        Self { lent: self.lent.divided([layout, given]), ..self }
    }

    /// Returns this call with blocks at the root, divided like this, and one on each other rank.
    pub(super) fn divided_at(self, root: Root, layout: Layout<'m>) -> Self {
        self.divided(if root == Root::This { layout } else { Layout::Own })
    }

    /// Returns this call with an input, which is left as it is.
    pub(super) fn given<E: Element>(self, input: Input<'m, E>, layout: Layout<'m>) -> Self {
        let [divided, _] = self.lent.blocks.layouts;
        Self { lent: self.lent.divided([divided, layout]).given(input.into_bytes()), ..self }
    }

    /// Returns this call with the reduction that is done to elements.
    pub(super) fn reducing(self, kernel: Kernel) -> Self {
        Self { element_bytes: kernel.element_bytes() as usize, kernel: Some(kernel), ..self }
    }

    /// Returns this call with these options, which are the same on every rank. There are no control
    /// slots between groups.
    pub fn with(self, options: &Options) -> Self {
        Self { options: *options, ..self }
    }

    /// Carries it out.
    ///
    /// # Errors
    /// [`Cause::Intracommunicator`], [`Cause::RankOutOfRange`] for the root;
    /// [`Cause::LengthMismatch`] and [`Cause::TooBig`] for data that are not divided into a block
    /// for each rank of the other group; [`Cause::Unsupported`] for an algorithm that is not for
    /// this, [`Cause::TooSmall`] for too little scratch; else as [`Collective::wait`].
    pub fn run<'s, T: Transport, P: Platform>(
        self,
        ep: &mut impl BlockingEndpoint<'s, T, P>,
        inter: &Comm,
    ) -> Result<(), Error> {
        let (planned, lent) = self.planned(inter);
        planned.run(ep, inter, lent)
    }

    /// Starts it. The memory can be used again when the scope is over.
    ///
    /// # Errors
    /// [`Cause::Intracommunicator`], [`Cause::RankOutOfRange`] for the root;
    /// [`Cause::LengthMismatch`] and [`Cause::TooBig`] for data that are not divided into a block
    /// for each rank of the other group; the rest as [`run`](Self::run).
    pub fn start<T: Transport, P: Platform>(
        self,
        scope: &mut Scope<'m, '_, '_, T, P>,
        inter: &Comm,
    ) -> Result<Collective<'m>, Error> {
        self.begin(scope, inter, StartMode::Nonblocking)
    }

    /// Makes it, to be started by [`Collective::start`] any number of times.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] for an algorithm that is not for this; the rest as
    /// [`start`](Self::start).
    pub fn persistent<T: Transport, P: Platform>(
        self,
        scope: &mut Scope<'m, '_, '_, T, P>,
        inter: &Comm,
    ) -> Result<Collective<'m>, Error> {
        self.begin(scope, inter, StartMode::Persistent)
    }

    /// Begins it in this mode: [`start`](Self::start), or [`persistent`](Self::persistent).
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn begin<T: Transport, P: Platform>(
        self,
        scope: &mut Scope<'m, '_, '_, T, P>,
        inter: &Comm,
        mode: StartMode,
    ) -> Result<Collective<'m>, Error> {
        let (planned, lent) = self.planned(inter);
        Collective::begin(scope, inter, planned.in_mode(mode), lent)?.into_collective(scope)
    }

    fn planned(self, inter: &Comm) -> (Planned, CallMemory<'m>) {
        let divided = self.of_groups(inter);
        let Self { operation, over, element_bytes, kernel, options, lent } = self;
        let (operation, count, layouts) = divided.unwrap_or((operation, 0, lent.blocks.layouts));
        let elements = divide(lent.blocks.input.len(), element_bytes).0;
        let of_unlike = operation == Operation::ReduceScatter;
        let call = Call {
            operation,
            size: places(over, operation, inter),
            count: if of_unlike { mean(layouts, elements, inter) } else { count },
            element_bytes: element_bytes as u32,
            scratch: divide(lent.scratch.len(), element_bytes).0,
            commutes: kernel.is_none_or(|kernel| kernel.commutes()),
        };
        let spec = CallSpec { call, root: 0, kernel, candidates: algorithms(operation) };
        let planned = Planned::across(&spec, over, &options);
        let planned = if of_unlike { of_longest(planned, count) } else { planned };
        (planned.refused_if(divided.err()), lent.divided(layouts))
    }

    /// The operation, the elements of its longest block, and how data and input are divided, as the
    /// sizes of the groups have it.
    fn of_groups(&self, inter: &Comm) -> Result<(Operation, usize, [Layout<'m>; 2]), Cause> {
        if !inter.is_inter() {
            return Err(Cause::Intracommunicator);
        }
        let layouts @ [data, input] = self.lent.blocks.layouts;
        let (bytes, rest) = (self.lent.data.len(), divide(self.lent.data.len(), self.element_bytes).1);
        if rest > 0 {
            let (left, right) = (bytes as u64, (bytes - rest) as u64);
            return Err(Cause::LengthMismatch { left, right });
        }
        let elements = |bytes: usize| divide(bytes, self.element_bytes).0;
        let (data_len, input_len) = (elements(self.lent.data.len()), elements(self.lent.blocks.input.len()));
        if matches!(self.over, Over::Rooted(Root::Beside)) {
            return Ok((self.operation, 0, layouts));
        }
        let there = inter.remote_size();
        let (count, given) = (data.count(there, data_len)?, input.count(there, input_len)?);
        let of_unlike = match self.operation {
            Operation::Allgather if count != given => Operation::Allgatherv,
            Operation::Alltoall if count != given => Operation::Alltoallv,
            Operation::ReduceScatterBlock => {
                let taken = data_len.saturating_mul(inter.size() as usize);
                if taken != input_len {
                    return Err(Cause::LengthMismatch { left: input_len as u64, right: taken as u64 });
                }
                if count == given { self.operation } else { Operation::ReduceScatter }
            }
            operation => operation,
        };
        let each = |layout, len| match layout {
            Layout::Even | Layout::Own => Layout::Each(len),
            listed => listed,
        };
        Ok(match of_unlike {
            Operation::Allgatherv | Operation::Alltoallv | Operation::Alltoallw => {
                (of_unlike, count.max(given), [each(data, count), each(input, given)])
            }
            Operation::ReduceScatter => {
                (of_unlike, count.max(given), [Layout::One(count), each(input, given)])
            }
            operation => (operation, count, layouts),
        })
    }
}

/// Elements of a block if all were as long: by these both groups choose the same algorithm, as
/// their inputs have as many.
fn mean([_, given]: [Layout<'_>; 2], elements: usize, inter: &Comm) -> usize {
    let all = match given {
        Layout::Listed(blocks) => blocks.iter().fold(0, |all: usize, block| all.saturating_add(block.len)),
        _ => elements,
    };
    all.div_ceil(inter.size().max(inter.remote_size()).max(1) as usize)
}

/// Returns the plan for blocks of up to `count` elements. Ranks differ in their longest block, and
/// all cut alike nevertheless: what two of them exchange ends for both alike.
fn of_longest(mut planned: Planned, count: usize) -> Planned {
    planned.query.spec.call.count = count;
    let call = planned.query.spec.call;
    let plan = |plan: Plan| match plan.algorithm.capacity(call.size, call.scratch) {
        0 => call.plan(plan.algorithm),
        most => Ok(Plan::in_turn(plan.algorithm, count.min(most))),
    };
    planned.settled = planned.settled.map(|settled| settled.and_then(plan));
    planned
}

/// Places of the schedule; as many as if both groups were as large as the larger one, for one that
/// crosses between them.
fn places(over: Over, operation: Operation, inter: &Comm) -> u32 {
    let (here, there) = (inter.size(), inter.remote_size());
    match over {
        Over::Rooted(Root::Remote(_)) => here.saturating_add(1),
        Over::Rooted(Root::This | Root::Beside) => there.saturating_add(1),
        Over::Ranks | Over::Groups if operation == Operation::Barrier => here.saturating_add(there),
        Over::Ranks | Over::Groups => here.max(there).saturating_mul(2),
    }
}

impl fmt::Debug for InterCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over two groups", self.operation)
    }
}
