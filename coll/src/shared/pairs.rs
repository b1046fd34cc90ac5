//! Two ranks that hand each other a block which no line holds: through chunks, a segment at a time, the next one written before
//! one is read. Where both cores share a cache that is faster than to let the system read the other's memory.

use aldis_kernel::Lines;
use aldis_kernel::hal::lines::LinesShape;
use aldis_kernel::hal::{Cause, Operation};

use super::blocks::Portions;
use super::chunks::{Run, SEGMENTS_MAX, fill};
use super::{Stopped, Turn, about};
use crate::op::copy;

/// Bytes of a segment: small enough that several are under way, and stay in a cache.
pub(super) const SEGMENT_BYTES: usize = 16 << 10;

/// Segments of a block of so many bytes, which the other rank has told: too many to be passed are one too many.
fn segments(bytes: u64, segment: usize) -> u32 {
    let segments = bytes.div_ceil(segment.max(1) as u64);
    u32::try_from(segments).unwrap_or(u32::MAX).min(SEGMENTS_MAX)
}

impl Portions<'_> {
    /// Before the first segment of what this rank hands over.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for too many segments.
    pub(super) fn run_of_two(&self, shape: &LinesShape) -> Result<Run, Cause> {
        let handed = self.block_bytes(self.task.bytes as u64) as usize;
        Run::of(SEGMENT_BYTES.min(shape.chunk_bytes as usize), handed)
    }

    /// Positions that their chunks take; `None` if the other's block stands in its line.
    pub(super) fn positions_of_two(&self, run: &Run) -> Option<u32> {
        Some(run.segments.max(segments(self.heard.get()?, run.segment)))
    }

    /// A step: in turn a segment is written, and the one before it is read.
    pub(super) fn pass_of_two(
        &self,
        run: &mut Run,
        lines: &mut Lines<'_>,
        data: &mut [u8],
    ) -> Result<bool, Stopped> {
        let (turn, reads) = (run.step / 2, run.step % 2 == 1);
        match turn.checked_sub(1) {
            _ if !reads => self.hand(run, turn, lines, data)?,
            Some(segment) => self.collect(run, segment, lines, data)?,
            None => {}
        }
        run.step += 1;
        let positions = self.positions_of_two(run).unwrap_or(0);
        if run.step < 2 * positions.saturating_add(1) {
            return Ok(false);
        }
        let (own, theirs) = (self.taken_bytes(self.other()) as u64, self.heard.get().unwrap_or(0));
        if own != theirs {
            return Err(Turn::Failed(Cause::UnlikeLength { own, theirs }, Some(self.other())));
        }
        self.take_own(data)?;
        self.is_long.set(false);
        Ok(true)
    }

    const fn other(&self) -> u32 {
        1_u32.wrapping_sub(self.task.rank)
    }

    /// Bytes of the block of the two that a line with so many would hand over.
    pub(super) fn block_bytes(&self, given: u64) -> u64 {
        match self.task.operation {
            Operation::Alltoall => given / 2,
            _ => given.saturating_sub(self.table_bytes() as u64),
        }
    }

    fn hand(&self, run: &Run, segment: u32, lines: &mut Lines<'_>, data: &[u8]) -> Result<(), Stopped> {
        let (layout, rank) =
            if self.gives_each() { (self.divided(), self.other()) } else { (self.data, self.task.rank) };
        let block = self.block(layout, rank, self.given(data))?;
        match block.get(run.span(block.len(), segment)) {
            Some(part) if !part.is_empty() => {
                fill(lines, run.first.wrapping_add(segment), part, part.len()..part.len())
            }
            _ => Ok(()),
        }
    }

    fn collect(
        &self,
        run: &Run,
        segment: u32,
        lines: &mut Lines<'_>,
        data: &mut [u8],
    ) -> Result<(), Stopped> {
        let (position, other) = (run.first.wrapping_add(segment), self.other());
        let theirs = self.heard.get().unwrap_or(0);
        if segment < segments(theirs, run.segment) {
            let chunk = lines.chunk(position, other).map_err(about(other))?.ok_or(Turn::Missing(other))?;
            let into = self.block_mut(other, data)?;
            let part = run.span(into.len(), segment);
            if into.len() as u64 == theirs
                && let (Some(into), Some(from)) = (into.get_mut(part.clone()), chunk.get(..part.len()))
            {
                copy(into, from)?;
            }
        }
        lines.done(position);
        Ok(())
    }
}
