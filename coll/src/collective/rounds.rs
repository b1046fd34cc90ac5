//! One round of a schedule: its messages are posted, they land, then its local steps are carried out.

use core::ops::Range;

use aldis_kernel::hal::{Cause, Platform, Transport};
use aldis_kernel::{Error, Failed, Loan, Rank, Scope};

use super::{Collective, Memory, Stage};
use crate::op::{Kernel, copy};
use crate::schedule::{Buffer, Instance, Order, Span, Step};

impl<'scope> Memory<'scope> {
    /// The loan and byte range of `span` in the segment that starts at element `base`.
    #[inline(never)]
    fn part(&self, span: Span, base: usize) -> (Loan<'scope>, Range<usize>) {
        let (loan, first) = match span.buffer {
            Buffer::Data => (self.data, base.saturating_add(span.start)),
            Buffer::Scratch => (self.scratch, span.start),
        };
        let bytes = |elements: usize| elements.saturating_mul(self.element_bytes as usize);
        (loan, bytes(first)..bytes(first.saturating_add(span.len)))
    }

    pub(super) fn bytes(&self, span: Span) -> u64 {
        (span.len as u64).saturating_mul(self.element_bytes.into())
    }
}

impl<'scope> Collective<'scope> {
    /// The segment being worked on, as the schedule sees it.
    #[inline]
    fn instance(&self) -> Instance {
        let left = self.whole.count().saturating_sub(self.base);
        self.whole.with_count(left.min(self.plan.segment))
    }

    pub(super) fn step(&self, index: u32) -> Option<Step> {
        self.plan.algorithm.step(&self.instance(), self.round, index)
    }

    /// Posts the round's messages from the one with `index` on.
    pub(super) fn post<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        mut index: u32,
    ) -> Result<bool, Failed> {
        let instance = self.instance();
        for request in self.requests.iter_mut().skip(index as usize) {
            let posted = match self.plan.algorithm.step(&instance, self.round, index) {
                Some(Step::Recv { from, into }) => {
                    let (loan, range) = self.memory.part(into, self.base);
                    scope.start_recv_part(&self.comm, loan, range, Rank(from), self.tag)
                }
                Some(Step::Send { to, from }) => {
                    let (loan, range) = self.memory.part(from, self.base);
                    scope.start_send_part(&self.comm, loan, range, Rank(to), self.tag)
                }
                _ => break,
            };
            match posted {
                Ok(posted) => *request = posted,
                Err(Failed) => return Err(self.stop(scope.failure())),
            }
            index += 1;
            self.moved = true;
            self.stage = Stage::Post(index);
        }
        self.stage = Stage::Land(index);
        Ok(true)
    }

    /// Once all messages of the round are complete: its local steps, and on to the next round.
    pub(super) fn land<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        messages: u32,
    ) -> Result<bool, Failed> {
        for index in 0..messages {
            if !self.landed(scope, index)? {
                return Ok(false);
            }
        }
        let mut index = messages;
        while let Some(step) = self.step(index) {
            self.work(scope, step)?;
            index += 1;
        }
        self.next_round();
        Ok(true)
    }

    /// Whether the message with this index is complete. Once it is, its request is null.
    #[inline]
    fn landed<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        index: u32,
    ) -> Result<bool, Failed> {
        let Some(request) = self.requests.get_mut(index as usize) else { return Ok(true) };
        if request.is_null() {
            return Ok(true);
        }
        let status = match scope.outcome(request) {
            Ok(Some(status)) => status,
            Ok(None) => return Ok(false),
            Err(Failed) => return Err(self.stop(scope.failure())),
        };
        self.moved = true;
        match self.step(index) {
            Some(Step::Recv { from, into }) if status.bytes != self.memory.bytes(into) => {
                let (left, right) = (status.bytes, self.memory.bytes(into));
                let failed = self.refuse(Cause::LengthMismatch { left, right });
                self.error = self.error.with(Rank(from), self.comm.context(), self.tag);
                scope.raise(&self.error);
                Err(failed)
            }
            _ => Ok(true),
        }
    }

    /// Carries out a local step.
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
        let kernel = self.memory.kernel;
        let mut result = Ok(());
        let (into, from) = (self.memory.part(into, self.base), self.memory.part(from, self.base));
        let combined = scope.combine(into, from, |into, from| result = combine(kernel, into, from, order));
        match (combined, result) {
            (Ok(()), Ok(())) => Ok(()),
            (Ok(()), Err(cause)) => Err(self.refuse(cause)),
            (Err(error), _) => Err(self.stop(&error)),
        }
    }

    fn next_round(&mut self) {
        self.round += 1;
        if self.round >= self.plan.algorithm.rounds(&self.instance()) {
            self.round = 0;
            self.base = self.base.saturating_add(self.plan.segment);
        }
        let over = self.round == 0 && self.base >= self.whole.count();
        self.stage = if over { Stage::Done } else { Stage::Post(0) };
    }

    /// Stops for an error of a message.
    #[cold]
    #[inline(never)]
    fn stop(&mut self, error: &Error) -> Failed {
        self.error = error.within(self.operation());
        Failed
    }

    /// Stops for an error of its own.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, cause: Cause) -> Failed {
        self.error = Error::new(self.operation(), cause).on(&self.comm);
        Failed
    }
}

/// Bytes of `from` into those of `into`: reduced if there is an order, else copied.
fn combine(kernel: Option<Kernel>, into: &mut [u8], from: &[u8], order: Option<Order>) -> Result<(), Cause> {
    match (kernel, order) {
        (Some(kernel), Some(order)) => kernel.run(into, from, order),
        (None, Some(_)) => Err(Cause::Unsupported),
        (_, None) => copy(into, from),
    }
}
