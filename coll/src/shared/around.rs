//! Exchanges with the neighbours in a grid: a line holds all that a rank gives, or two ranks pass that in chunks.
//!
//! In a grid every rank has as many neighbours and blocks of one length, so all know of each other whether a line holds what they
//! give; and what is sent one way along a dimension arrives from the other, so that a rank knows which block of a neighbour's
//! line is for it. In a graph it knows neither.

use core::ops::Range;

use aldis_kernel::hal::lines::{LinesShape, Note};
use aldis_kernel::hal::{Cause, Operation};
use aldis_kernel::{Comm, Lines, Withheld};

use super::chunks::{Run, fill};
use super::pairs::SEGMENT_BYTES;
use super::{LINE_BYTES, Role, Stopped, Task, Turn, about};
use crate::neighbor::{Act, Line};
use crate::op::copy;
use crate::select::Call;

/// Such a call as one rank sees it, but for its data.
#[derive(Clone, Copy)]
pub(crate) struct Around<'m> {
    task: Task,
    /// With whom it exchanges what.
    lines: &'m [Line],
    input: &'m [u8],
    block_bytes: usize,
}

impl<'m> Around<'m> {
    /// The call with this input, for blocks of the call's count; `None` if neither a line holds it nor two ranks can pass it.
    #[inline]
    pub(crate) fn new(call: &Call, comm: &Comm, lines: &'m [Line], input: &'m [u8]) -> Option<Self> {
        let &Call { operation, size, element_bytes, count, .. } = call;
        let (rank, bytes) = (comm.rank().0, input.len());
        let task = Task { operation, rank, size, root: 0, bytes, element_bytes, kernel: None };
        let this = Self { task, lines, input, block_bytes: count.saturating_mul(element_bytes as usize) };
        (this.stands_in_line() || size == 2).then_some(this)
    }

    /// Whether a line holds what it gives.
    #[inline]
    pub(crate) const fn stands_in_line(&self) -> bool {
        self.input.len() as u64 <= LINE_BYTES
    }

    /// Bytes of a block in data, or in what somebody gives.
    #[inline]
    const fn block(&self, number: u32) -> Range<usize> {
        let start = self.block_bytes.saturating_mul(number as usize);
        start..start.saturating_add(self.block_bytes)
    }

    /// Which bytes a rank has given that come to a block of the data.
    #[inline]
    const fn given(&self, number: u32) -> Range<usize> {
        // A gather gives everybody the same.
        let is_gather = matches!(self.task.operation, Operation::NeighborAllgather);
        self.block(if is_gather { 0 } else { number })
    }

    /// Copies what this rank has for itself.
    #[inline]
    fn take_own(&self, data: &mut [u8]) -> Result<(), Cause> {
        for line in self.lines.iter().filter(|line| line.act == Act::Copy) {
            let from = self.input.get(self.given(line.given)).ok_or(Cause::Stale)?;
            copy(data.get_mut(self.block(line.block)).ok_or(Cause::Stale)?, from)?;
        }
        Ok(())
    }

    const fn other(&self) -> u32 {
        1_u32.wrapping_sub(self.task.rank)
    }

    /// Takes from the other one of two this part of what it gives, if that is there.
    fn collect(
        &self,
        run: &Run,
        segment: u32,
        lines: &mut Lines<'_>,
        data: &mut [u8],
    ) -> Result<(), Stopped> {
        let (position, other) = (run.first.wrapping_add(segment), self.other());
        let chunk = lines.chunk(position, other).map_err(about(other))?.ok_or(Turn::Missing(other))?;
        let part = run.span(self.task.bytes, segment);
        for line in self.lines.iter().filter(|line| line.act == Act::Receive) {
            let (given, block) = (self.given(line.turn), self.block(line.block));
            let (start, end) = (given.start.max(part.start), given.end.min(part.end));
            if start >= end {
                continue;
            }
            let from = chunk.get(start.saturating_sub(part.start)..end.saturating_sub(part.start));
            let place = block.start.saturating_add(start.saturating_sub(given.start));
            let into = data.get_mut(place..place.saturating_add(end.saturating_sub(start)));
            copy(into.ok_or(Cause::Stale)?, from.ok_or(Cause::Incompatible)?)?;
        }
        lines.done(position);
        Ok(())
    }
}

impl Role for &Around<'_> {
    #[inline]
    fn task(&self) -> &Task {
        &self.task
    }

    #[inline]
    fn fits(&self, _line_bytes: u32) -> bool {
        self.stands_in_line()
    }

    fn run(&self, shape: &LinesShape) -> Result<Option<Run>, Cause> {
        if self.stands_in_line() {
            return Ok(None);
        }
        Run::of(SEGMENT_BYTES.min(shape.chunk_bytes as usize), self.task.bytes).map(Some)
    }

    #[inline]
    fn give(&self, lines: &mut Lines<'_>, number: u32, _data: &[u8]) -> Result<(), Withheld> {
        lines.publish(number, self.task.note(), self.input)
    }

    #[inline]
    fn listens_to(&self, rank: u32) -> bool {
        self.lines.iter().any(|line| line.act == Act::Receive && line.rank == rank)
    }

    #[inline]
    fn hear(&self, rank: u32, note: Note) -> Result<(), Cause> {
        self.task.hear(rank, note)
    }

    #[inline]
    fn settle(&self, lines: &Lines<'_>, number: u32, data: &mut [u8]) -> Result<(), (Cause, Option<u32>)> {
        for line in self.lines.iter().filter(|line| line.act == Act::Receive) {
            let told = lines.look(number, line.rank).and_then(|told| told.ok_or(Cause::Stale));
            let taken = told.and_then(|told| {
                let from = told.payload.get(self.given(line.turn)).ok_or(Cause::Incompatible)?;
                copy(data.get_mut(self.block(line.block)).ok_or(Cause::Stale)?, from)
            });
            taken.map_err(|cause| (cause, Some(line.rank)))?;
        }
        self.take_own(data).map_err(|cause| (cause, None))
    }

    fn positions(&self, run: &Run) -> Option<u32> {
        Some(run.segments)
    }

    /// In turn a segment is written, and the one before it is read.
    fn pass(&self, run: &mut Run, lines: &mut Lines<'_>, data: &mut [u8]) -> Result<bool, Stopped> {
        let (turn, reads) = (run.step / 2, run.step % 2 == 1);
        match turn.checked_sub(1) {
            _ if !reads => {
                let part = self.input.get(run.span(self.task.bytes, turn)).unwrap_or_default();
                if !part.is_empty() {
                    fill(lines, run.first.wrapping_add(turn), part, part.len()..part.len())?;
                }
            }
            Some(segment) => self.collect(run, segment, lines, data)?,
            None => {}
        }
        run.step += 1;
        if run.step < 2 * run.segments.saturating_add(1) {
            return Ok(false);
        }
        self.take_own(data)?;
        Ok(true)
    }
}
