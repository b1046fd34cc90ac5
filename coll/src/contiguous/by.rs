//! Calls by one algorithm that the program names, and the executor that is theirs: rounds one after
//! another, segments in turn.
//!
//! It stands below selection, rules, control slots, blocks and calls that are started: a program
//! whose calls all name their algorithm in this way links none of these. Firmware does.

use core::fmt;

use aldis_kernel::hal::{Activity, Cause, Operation, PeerId, Platform, Resource, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Failed, LentMut, LentRange, Rank, Request, Scope, Tag};

use crate::blocking_endpoint::BlockingEndpoint;
use crate::layout::stretch;
use crate::op::{Kernel, combine};
use crate::schedule::{Algorithm, Buffer, IN_FLIGHT_MAX, Instance, STAGES_A_CALL, Span, Step};
use crate::select::Call;
use crate::tag;

/// A blocking collective by a named algorithm, described and not yet begun: see
/// [`ContiguousCall::by`](super::ContiguousCall::by).
#[must_use = "nothing is done before it is run"]
pub struct CallBy<'m> {
    pub(super) call: Call,
    pub(super) root: u32,
    pub(super) kernel: Option<Kernel>,
    pub(super) algorithm: Algorithm,
    pub(super) data: &'m mut [u8],
    pub(super) scratch: &'m mut [u8],
    /// The reason why it cannot be carried out, if its arguments are wrong.
    pub(super) refusal: Option<Cause>,
}

impl CallBy<'_> {
    /// Carries it out: returns when this rank's part is done.
    ///
    /// # Errors
    /// Those of the operation, as its function says; [`Cause::Unsupported`] for an algorithm of
    /// another operation, or one that does not keep rank order when a reduction does not commute;
    /// [`Cause::Full`] when there is no request slot for a message of a round, of which most
    /// algorithms have two; [`Cause::UnlikeLength`] when a rank has called it with another count;
    /// [`Cause::UnlikeOrder`] for elements of more than a byte in a job with ranks of both byte
    /// orders. Ranks that make calls of other operations are found by the deadline.
    #[inline]
    pub fn run<'s, T: Transport, P: Platform>(
        mut self,
        ep: &mut impl BlockingEndpoint<'s, T, P>,
        comm: &Comm,
    ) -> Result<(), Error> {
        self.call.size = comm.size();
        self.carry_out(ep, comm)
    }

    #[inline(never)]
    fn carry_out<'s, T: Transport, P: Platform>(
        self,
        ep: &mut impl BlockingEndpoint<'s, T, P>,
        comm: &Comm,
    ) -> Result<(), Error> {
        let done = ep.enter(|scope| {
            let Self { call, root, kernel, algorithm, data, scratch, refusal } = self;
            let mut rounds = Rounds {
                comm: comm.collective(),
                tag: Tag(0),
                operation: call.operation,
                algorithm,
                whole: Instance::ALONE,
                segment: 0,
                base: 0,
                round: 0,
                stage: Stage::Post(0),
                requests: [const { Request::null() }; IN_FLIGHT_MAX],
                data: scope.lend(data),
                scratch: scope.lend(scratch),
                element_bytes: call.element_bytes as usize,
                kernel,
            };
            let begun = refusal.map_or(Ok(()), Err).and_then(|()| rounds.begin(scope, comm, &call, root));
            begun.map_err(|cause| rounds.refuse(scope, cause, None))?;
            while rounds.stage != Stage::Done {
                let activity = rounds.activity();
                scope.drive_until(&activity, |scope| rounds.advance(scope))?;
            }
            Ok(())
        });
        done.map_err(|Failed| *ep.endpoint().failure())
    }
}

/// The state of a collective within its round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// So many messages of the round are posted; more are to be.
    Post(u32),
    /// This many messages are posted, all of the round; some may be incomplete.
    Land(u32),
    /// Every segment is done.
    Done,
}

/// A collective under way: one segment of it at a time, round by round.
struct Rounds<'scope> {
    comm: Comm,
    tag: Tag,
    operation: Operation,
    algorithm: Algorithm,
    /// The whole call; segments differ in the count.
    whole: Instance,
    /// Elements of a segment.
    segment: usize,
    /// First element of the segment at hand.
    base: usize,
    round: u32,
    stage: Stage,
    /// The round's messages by the index of their step; null once they are complete.
    requests: [Request<'scope>; IN_FLIGHT_MAX],
    data: LentMut<'scope>,
    scratch: LentMut<'scope>,
    element_bytes: usize,
    kernel: Option<Kernel>,
}

impl<'scope> Rounds<'scope> {
    /// Plans the call and takes its tag.
    fn begin<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        call: &Call,
        root: u32,
    ) -> Result<(), Cause> {
        if self.algorithm.operation() != call.operation || !call.admits(self.algorithm) {
            return Err(Cause::Unsupported);
        }
        let capacity = self.algorithm.capacity(call.size, call.scratch);
        let (what, need) = (Resource::Scratch, call.element_bytes);
        let have = (call.scratch as u32).saturating_mul(need);
        let too_little = Cause::TooSmall { what, need, have };
        self.segment = call.even_segment(capacity).ok_or(too_little)?;
        self.whole = Instance::new(comm.rank().0, call.size, root, call.count)?;
        self.tag = tag::of_call(scope.collective_number(comm)?, call.operation, root);
        if call.element_bytes > 1 && scope.has_unlike_peers() {
            return Err(Cause::UnlikeOrder);
        }
        if self.algorithm.rounds(&self.instance()) == 0 {
            self.stage = Stage::Done;
        }
        Ok(())
    }

    /// The segment at hand, as the schedule sees it.
    fn instance(&self) -> Instance {
        self.whole.with_count(self.whole.count().saturating_sub(self.base).min(self.segment))
    }

    fn step(&self, index: u32) -> Option<Step> {
        self.algorithm.step(&self.instance(), self.round, index)
    }

    /// The bytes that a span is.
    #[inline(never)]
    fn part(&self, span: Span) -> LentRange<LentMut<'scope>> {
        let memory = if span.buffer == Buffer::Data { self.data } else { self.scratch };
        let elements = stretch(span, self.base);
        let bytes = |elements: usize| elements.saturating_mul(self.element_bytes);
        LentRange::new(memory, bytes(elements.start)..bytes(elements.end))
    }

    /// Returns the activity of this rank while it waits: the first message that is missing.
    fn activity(&self) -> Activity {
        let missing = self.requests.iter().position(|request| !request.is_null());
        let (rank, span) = match missing.and_then(|index| self.step(index as u32)) {
            Some(Step::Recv { from: rank, into: span } | Step::Send { to: rank, from: span }) => {
                (Some(rank), span)
            }
            _ => (None, Span::EMPTY),
        };
        let (tag, context) = (Some(self.tag.0), self.comm.context());
        let bytes = self.part(span).range.len() as u64;
        Activity { operation: self.operation, peer: rank.map(PeerId), tag, context, bytes }
    }

    /// Goes on until it must wait, is over, or has done enough for one call; `Some` if anything
    /// happened.
    fn advance<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Result<Option<()>, Failed> {
        let mut moved = false;
        for _ in 0..STAGES_A_CALL {
            let went = match self.stage {
                Stage::Post(posted) => self.post(scope, posted),
                Stage::Land(messages) => self.land(scope, messages),
                Stage::Done => break,
            };
            match went {
                Ok(true) => moved = true,
                Ok(false) => break,
                Err(Failed) => {
                    for request in &mut self.requests {
                        scope.cancel(request);
                    }
                    return Err(self.name_failure(scope));
                }
            }
        }
        Ok(moved.then_some(()))
    }

    /// Posts the next of the round's messages, of which so many are posted.
    fn post<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        posted: u32,
    ) -> Result<bool, Failed> {
        let step = if (posted as usize) < IN_FLIGHT_MAX { self.step(posted) } else { None };
        let (rank, span, receives) = match step {
            Some(Step::Recv { from, into }) => (Rank(from), into, true),
            Some(Step::Send { to, from }) => (Rank(to), from, false),
            _ => {
                self.stage = Stage::Land(posted);
                return Ok(true);
            }
        };
        let LentRange { memory, range } = self.part(span);
        let started = if receives {
            scope.start_recv_part(&self.comm, memory, range, rank, self.tag)
        } else {
            scope.start_send_part(&self.comm, memory, range, rank, self.tag)
        };
        let request = started?;
        if let Some(place) = self.requests.get_mut(posted as usize) {
            *place = request;
        }
        self.stage = Stage::Post(posted + 1);
        Ok(true)
    }

    /// Once all messages of the round are complete: its local steps, and on to the next round.
    fn land<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        messages: u32,
    ) -> Result<bool, Failed> {
        for index in 0..messages {
            let request = self.requests.get_mut(index as usize).filter(|request| !request.is_null());
            let Some(request) = request else { continue };
            let Some(status) = scope.outcome(request)? else { return Ok(false) };
            self.check_length(scope, index, status.bytes)?;
        }
        let mut index = messages;
        while let Some(step) = self.step(index) {
            self.work(scope, step)?;
            index += 1;
        }
        self.round += 1;
        if self.round >= self.algorithm.rounds(&self.instance()) {
            (self.round, self.base) = (0, self.base.saturating_add(self.segment));
        }
        let is_over = self.round == 0 && self.base >= self.whole.count();
        self.stage = if is_over { Stage::Done } else { Stage::Post(0) };
        Ok(true)
    }

    /// Refuses a message of another length than its step's.
    fn check_length<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        index: u32,
        theirs: u64,
    ) -> Result<(), Failed> {
        let Some(Step::Recv { from, into }) = self.step(index) else { return Ok(()) };
        let own = self.part(into).range.len() as u64;
        if own == theirs {
            return Ok(());
        }
        Err(self.refuse(scope, Cause::UnlikeLength { own, theirs }, Some(Rank(from))))
    }

    /// Carries out a local step.
    fn work<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        step: Step,
    ) -> Result<(), Failed> {
        let (into, from, order) = match step {
            Step::Reduce { into, from, order } => (into, from, Some(order)),
            Step::Copy { into, from } => (into, from, None),
            Step::Recv { .. } | Step::Send { .. } => {
                return Err(self.refuse(scope, Cause::Unsupported, None));
            }
        };
        let (target, source) = (self.part(into), self.part(from));
        let mut result = Ok(());
        let combined = scope.combine(target, source, |into, from| {
            result = combine(self.kernel, into, from, order);
        });
        match (combined, result) {
            (Ok(()), Ok(())) => Ok(()),
            (Ok(()), Err(cause)) => Err(self.refuse(scope, cause, None)),
            (Err(error), _) => Err(scope.keep_failure(&error)),
        }
    }

    /// Says of the error that has ended it that it is this operation's.
    #[cold]
    fn name_failure<T: Transport, P: Platform>(&self, scope: &mut Scope<'scope, '_, '_, T, P>) -> Failed {
        let mut error = scope.failure().within(self.operation);
        if let Cause::Truncated { sent, room } = error.cause {
            error.cause = Cause::UnlikeLength { own: room, theirs: sent };
        }
        scope.keep_failure(&error)
    }

    /// Ends it with an error of its own, about a message of this rank if there is one.
    #[cold]
    #[inline(never)]
    fn refuse<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        cause: Cause,
        rank: Option<Rank>,
    ) -> Failed {
        let error = Error::new(self.operation, cause).on(&self.comm);
        let context = self.comm.context();
        scope.keep_failure(&rank.map_or(error, |rank| error.with(rank, context, self.tag)))
    }
}

impl fmt::Debug for CallBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, algorithm, .. } = self;
        write!(f, "{} of {} elements by {}", call.operation, call.count, algorithm.name())
    }
}
