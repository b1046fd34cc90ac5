//! A round of a schedule: its messages are posted, they land, then its local steps are carried out.

use core::ops::Range;

use aldis_kernel::hal::{Cause, Platform, Resource, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Error, Failed, Lent, LentMut, LentRange, Scope, Tag};

use super::lane::{LaneStage, SegmentLane, of_mut};
use super::peers::MessageRoute;
use super::typed::BlockPlace;
use super::{BlockMemory, CallMemory, Collective, CollectiveMemory, Input, LentBlocks, Planned};
use crate::layout::{Layout, Pieces, SegmentPlace, stretch};
use crate::op::combine;
use crate::schedule::{Buffer, IN_FLIGHT_MAX, Instance, Order, Schedule, Span, Step, divide};
use crate::select::Plan;

/// A part of a buffer: some of its bytes, or a block of a datatype, whose number begins the range.
struct BufferPart {
    buffer: Buffer,
    range: Range<usize>,
}

impl BufferPart {
    #[inline(always)]
    const fn new(span: Span, range: Range<usize>) -> Self {
        Self { buffer: span.buffer, range }
    }

    const fn block(&self) -> BlockPlace {
        BlockPlace { buffer: self.buffer, number: self.range.start }
    }
}

impl<'scope> LentBlocks<'scope> {
    pub(super) fn new<T: Transport, P: Platform>(
        scope: &mut Scope<'scope, '_, '_, T, P>,
        blocks: BlockMemory<'scope>,
    ) -> Self {
        let BlockMemory { input, layouts, own, .. } = blocks;
        let (input, lent) = match input {
            Input::Shown(memory) => (scope.show(memory), None),
            Input::Lent(memory) => {
                let lent = scope.lend(memory);
                (lent.into(), Some(lent))
            }
        };
        Self { input, lent, layouts, own }
    }
}

impl<'scope> CollectiveMemory<'scope> {
    /// Lends it to the scope.
    #[inline]
    pub(super) fn new<T: Transport, P: Platform>(
        scope: &mut Scope<'scope, '_, '_, T, P>,
        planned: &Planned,
        lent: CallMemory<'scope>,
    ) -> Self {
        let CallMemory { data, scratch, blocks } = lent;
        let (element_bytes, kernel) = (planned.call().element_bytes, planned.query.spec.kernel);
        let blocks = LentBlocks::new(scope, blocks);
        Self { data: scope.lend(data), scratch: scope.lend(scratch), blocks, element_bytes, kernel }
    }

    /// Returns the memory that is written where this stretch of a buffer is; nothing where only
    /// reading is allowed.
    pub(super) fn target(&self, buffer: Buffer) -> Option<LentMut<'scope>> {
        match buffer {
            Buffer::Data => Some(self.data),
            Buffer::Input => None,
            Buffer::Scratch => Some(self.scratch),
        }
    }

    /// Returns the memory that is read where this stretch of a buffer is.
    pub(super) fn source(&self, buffer: Buffer) -> Lent<'scope> {
        if self.is_given_in_place() && buffer == Buffer::Input {
            return self.data.into();
        }
        self.target(buffer).map_or(self.blocks.input, Lent::from)
    }

    /// Returns the memory that a stretch of a buffer is sent out of by `rank`, and where it stands
    /// there: in the caller's own block, if it is of that, and not in its copy.
    #[inline]
    fn given(&self, buffer: Buffer, range: Range<usize>, rank: u32) -> (Lent<'scope>, Range<usize>) {
        let source = self.source(buffer);
        if !matches!((buffer, self.blocks.layouts), (Buffer::Data, [_, Layout::Twin])) {
            return (source, range);
        }
        let own = self.blocks.input;
        let [layout, _] = self.blocks.layouts;
        let first = layout.first_byte(rank, own.len(), self.element_bytes);
        match range.start.checked_sub(first).zip(range.end.checked_sub(first)) {
            Some((start, end)) if end <= own.len() => (own, start..end),
            _ => (source, range),
        }
    }

    /// The input, if it was lent to be edited.
    pub(super) fn input_loan(&self) -> Option<LentMut<'scope>> {
        self.blocks.lent
    }

    /// Returns the schedule that a plan runs.
    #[inline]
    pub(super) fn schedule(&self, plan: &Plan) -> &dyn Schedule {
        self.blocks.own.unwrap_or(plan.algorithm)
    }

    /// Returns true if data and input are no blocks.
    #[inline]
    fn is_undivided(&self) -> bool {
        matches!(self.blocks.layouts, [Layout::Whole, _])
    }

    /// Returns true if the data are the input as well, where there are blocks.
    fn is_given_in_place(&self) -> bool {
        matches!(self.blocks.layouts, [_, Layout::Whole])
    }

    /// Bytes of scratch that each of `lanes` has.
    fn part(&self, lanes: u32) -> usize {
        let (elements, _) = divide(self.scratch.len(), self.element_bytes as usize);
        divide(elements, lanes as usize).0.saturating_mul(self.element_bytes as usize)
    }

    /// Elements as bytes.
    #[inline]
    fn range(&self, elements: Range<usize>) -> Range<usize> {
        let bytes = |elements: usize| elements.saturating_mul(self.element_bytes as usize);
        bytes(elements.start)..bytes(elements.end)
    }

    /// Bytes of a span; none are known of blocks of datatypes.
    pub(super) fn bytes(&self, span: Span) -> u64 {
        if self.is_typed() {
            return 0;
        }
        (span.len as u64).saturating_mul(self.element_bytes.into())
    }
}

impl<'scope> Collective<'scope> {
    /// The segment that a lane works on, as the schedule sees it.
    #[inline]
    fn instance_of(&self, lane: &SegmentLane) -> Instance {
        let left = self.whole.count().saturating_sub(lane.base);
        self.whole.with_count(left.min(self.plan.segment))
    }

    /// The segment of the lane that is driven.
    #[inline]
    fn instance(&self) -> Instance {
        self.instance_of(self.lanes.now())
    }

    pub(super) fn step_of(&self, lane: &SegmentLane, index: u32) -> Option<Step> {
        self.schedule().step(&self.instance_of(lane), lane.round, index)
    }

    fn step(&self, index: u32) -> Option<Step> {
        self.step_of(self.lanes.now(), index)
    }

    #[inline]
    fn base(&self) -> usize {
        self.lanes.now().base
    }

    #[inline]
    fn tag(&self) -> Tag {
        self.tag_of(self.lanes.now())
    }

    /// Elements of a buffer as bytes. Of scratch every lane has a part.
    #[inline]
    fn range(&self, buffer: Buffer, elements: Range<usize>) -> Range<usize> {
        let range = self.memory.range(elements);
        match self.lanes.now().number() {
            number if number > 0 && buffer == Buffer::Scratch => {
                let before = self.memory.part(self.plan.lanes()).saturating_mul(number as usize);
                range.start.saturating_add(before)..range.end.saturating_add(before)
            }
            _ => range,
        }
    }

    /// The bytes of a span of buffers that are not divided.
    fn stretch(&self, span: Span) -> Range<usize> {
        self.range(span.buffer, stretch(span, self.base()))
    }

    /// Returns the place of the segment being worked on.
    fn place(&self) -> SegmentPlace<'scope> {
        let [data, input] = self.memory.blocks.layouts;
        SegmentPlace { data, input, whole: self.whole, base: self.base(), segment: self.instance().count() }
    }

    /// Posts the round's messages but those that are `posted`. What has landed of these makes room.
    pub(super) fn post<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        mut posted: u32,
    ) -> Result<bool, Failed> {
        let instance = self.instance();
        for index in (0..IN_FLIGHT_MAX as u32).filter(|index| posted & (1 << index) != 0) {
            self.landed(scope, index)?;
        }
        let (mut is_short, mut index) = (false, 0);
        while (index as usize) < IN_FLIGHT_MAX
            && let Some(step) = self.schedule().step(&instance, self.lanes.now().round, index)
            && step.is_message()
        {
            let is_posted = posted & (1 << index) != 0;
            if !is_posted && scope.room() == 1 && self.is_for_a_send(posted, index) {
                is_short = true;
            } else if !is_posted {
                self.start_piece(scope, index, step, 0)?;
                posted |= 1 << index;
                self.moved = true;
                self.lanes.now_mut().stage = LaneStage::Post(posted);
            }
            index += 1;
        }
        if is_short {
            return Err(self.refuse(Cause::Full(Resource::Requests)));
        }
        self.lanes.now_mut().stage = LaneStage::Land(index);
        Ok(true)
    }

    /// Returns true if the last request slot is not for the receive with this index, as a send of
    /// the round is not posted yet: if all ranks held theirs with receives, no rank would ever
    /// send.
    #[cold]
    fn is_for_a_send(&self, posted: u32, index: u32) -> bool {
        let mut steps = (index..).map_while(|index| Some((index, self.step(index)?)));
        steps.next().is_some_and(|(_, step)| matches!(step, Step::Recv { .. }))
            && steps.any(|(index, step)| matches!(step, Step::Send { .. }) && posted & (1 << index) == 0)
    }

    /// Starts a message, or what is left of it from its piece with this number on.
    #[inline]
    fn start_piece<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        index: u32,
        step: Step,
        number: u32,
    ) -> Result<(), Failed> {
        let (span, place, receives) = match step {
            Step::Recv { from, into } => (into, from, true),
            Step::Send { to, from } => (from, to, false),
            Step::Reduce { .. } | Step::Copy { .. } => return Ok(()),
        };
        let found = self.piece(span, number);
        let tag = self.tag();
        let messages = of_mut(&mut self.messages, self.lanes.driven());
        let Some(message) = messages.get_mut(index as usize) else { return Ok(()) };
        let Some((number, range)) = found else {
            message.set_piece(0);
            return Ok(());
        };
        let route @ MessageRoute { comm, tag, peer } = self.peers.way(&self.comm, tag, place);
        let started = match self.memory.target(span.buffer) {
            _ if self.memory.is_typed() => {
                let block = BlockPlace { buffer: span.buffer, number: range.start };
                match self.memory.start_typed(scope, route, block, receives) {
                    Ok(Some(request)) => Ok(request),
                    Ok(None) => {
                        message.set_piece(0);
                        return Ok(());
                    }
                    Err(Failed) => Err(Failed),
                }
            }
            Some(loan) if receives => scope.start_recv_part(comm, loan, range, peer, tag),
            None if receives => return Err(self.refuse(Cause::Unsupported)),
            _ => {
                let (source, range) = self.memory.given(span.buffer, range, self.whole.rank());
                scope.start_send_part(comm, source, range, peer, tag)
            }
        };
        match started {
            Ok(request) => {
                message.request = request;
                message.set_piece(number);
            }
            Err(Failed) => return Err(self.stop(scope.failure())),
        }
        Ok(())
    }

    /// The bytes of the first piece of a span, from this number on, that has any, or of the only
    /// one.
    fn piece(&self, span: Span, number: u32) -> Option<(u32, Range<usize>)> {
        if self.memory.is_undivided() {
            return (number == 0).then(|| (0, self.stretch(span)));
        }
        let place = self.place();
        let mut pieces = (number..).map_while(|number| Some((number, place.piece(span, number)?)));
        let (number, elements) =
            pieces.find(|(_, elements)| span.len == 0 || !elements.is_empty() || !place.is_by_block())?;
        Some((number, self.range(span.buffer, elements)))
    }

    /// Once all messages of the round are complete: its local steps, and on to the next round.
    pub(super) fn land<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        messages: u32,
    ) -> Result<bool, Failed> {
        let mut all = true;
        for index in 0..messages {
            if !self.landed(scope, index)? {
                // The pieces of one message do not wait for those of another.
                all = false;
            }
        }
        if !all {
            return Ok(false);
        }
        let mut index = messages;
        while let Some(step) = self.step(index) {
            self.work(scope, step)?;
            index += 1;
        }
        self.next_round();
        Ok(true)
    }

    /// Returns true if the message with this index is complete. Once it is, its request is null.
    #[inline]
    fn landed<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        index: u32,
    ) -> Result<bool, Failed> {
        while let Some(message) = self.message(index) {
            let number = message.piece();
            if message.request.is_null() {
                if number == 0 {
                    break;
                }
                let Some(step) = self.step(index) else { break };
                self.start_piece(scope, index, step, number)?;
                continue;
            }
            let status = match scope.outcome(&mut message.request) {
                Ok(Some(status)) => status,
                Ok(None) => return Ok(false),
                Err(Failed) => return Err(self.stop(scope.failure())),
            };
            self.moved = true;
            let Some(step) = self.step(index) else { break };
            self.check_length(scope, step, number, status.bytes)?;
            let next = self.piece(step.message(), number + 1).map_or(0, |(next, _)| next);
            if let Some(message) = self.message(index) {
                message.set_piece(next);
            }
        }
        Ok(true)
    }

    /// Refuses a message of another length than the piece it is.
    #[inline]
    fn check_length<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        step: Step,
        number: u32,
        theirs: u64,
    ) -> Result<(), Failed> {
        let Step::Recv { from, into } = step else { return Ok(()) };
        let own = match self.piece(into, number) {
            // What is not there any more is not compared.
            Some((_, range)) if self.memory.is_typed() => {
                let block = BlockPlace { buffer: into.buffer, number: range.start };
                self.memory.typed_bytes(scope, block).unwrap_or(theirs)
            }
            Some((_, range)) => range.len() as u64,
            _ => self.memory.bytes(into),
        };
        if own == theirs {
            return Ok(());
        }
        let failed = self.refuse(Cause::UnlikeLength { own, theirs });
        let MessageRoute { comm, tag, peer } = self.way(self.lanes.now(), from);
        self.error = self.error.with(peer, comm.context(), tag);
        scope.raise(&self.error);
        Err(failed)
    }

    /// Carries out a local step, a piece that both spans have in one at a time.
    fn work<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        step: Step,
    ) -> Result<(), Failed> {
        let (into, from, order) = match step {
            Step::Reduce { into, from, order } => (into, from, Some(order)),
            Step::Copy { into, from } => (into, from, None),
            Step::Recv { .. } | Step::Send { .. } => return Err(self.refuse(Cause::Unsupported)),
        };
        if self.memory.is_undivided() {
            let (target, source) = (self.stretch(into), self.stretch(from));
            let (target, source) = (BufferPart::new(into, target), BufferPart::new(from, source));
            return self.work_on(scope, target, source, order);
        }
        let place = self.place();
        let (mut targets, mut sources) = (Pieces::new(&place, into), Pieces::new(&place, from));
        while let (Some(target), Some(source)) = (targets.rest(), sources.rest()) {
            let elements = target.len().min(source.len());
            let take = |buffer, stretch: Range<usize>| {
                self.range(buffer, stretch.start..stretch.start.saturating_add(elements))
            };
            let (target, source) = (take(into.buffer, target), take(from.buffer, source));
            let (target, source) = (BufferPart::new(into, target), BufferPart::new(from, source));
            self.work_on(scope, target, source, order)?;
            targets.take(elements);
            sources.take(elements);
        }
        Ok(())
    }

    fn work_on<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        target: BufferPart,
        source: BufferPart,
        order: Option<Order>,
    ) -> Result<(), Failed> {
        if self.memory.is_typed() {
            return self.copy_own(scope, target.block(), source.block());
        }
        let (kernel, memory, mut result) = (self.memory.kernel, &self.memory, Ok(()));
        // In place, what is given stands where the result does.
        let is_own =
            (target.buffer, source.buffer) == (Buffer::Data, Buffer::Input) && target.range == source.range;
        if memory.is_given_in_place() && is_own {
            return Ok(());
        }
        let Some(loan) = memory.target(target.buffer) else { return Err(self.refuse(Cause::Unsupported)) };
        let target = LentRange::new(loan, target.range);
        let source = LentRange::new(memory.source(source.buffer), source.range);
        let combined =
            scope.combine(target, source, |into, from| result = combine(kernel, into, from, order));
        match (combined, result) {
            (Ok(()), Ok(())) => Ok(()),
            (Ok(()), Err(cause)) => Err(self.refuse(cause)),
            (Err(error), _) => Err(self.stop(&error)),
        }
    }

    fn next_round(&mut self) {
        let (rounds, stride) = (self.schedule().rounds(&self.instance()), self.plan.stride());
        let count = self.whole.count();
        let lane = self.lanes.now_mut();
        lane.round += 1;
        if lane.round >= rounds {
            lane.round = 0;
            lane.base = lane.base.saturating_add(stride);
        }
        let over = lane.round == 0 && lane.base >= count;
        lane.stage = if over { LaneStage::Done } else { LaneStage::Post(0) };
    }

    /// Stops for an error of a message.
    #[cold]
    #[inline(never)]
    fn stop(&mut self, error: &Error) -> Failed {
        self.error = error.within(self.operation());
        if let Cause::Truncated { sent, room } = error.cause {
            self.error.cause = Cause::UnlikeLength { own: room, theirs: sent };
        }
        Failed
    }

    /// Stops for an error of its own.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&mut self, cause: Cause) -> Failed {
        self.error = Error::new(self.operation(), cause).on(&self.comm);
        Failed
    }
}
