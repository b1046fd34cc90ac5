//! Blocks of one length that more than two ranks give each other and no slot holds: through chunks,
//! a segment of every block at a time, the next ones written before some are read.

use core::ops::Range;

use aldis_kernel::ControlSlots;
use aldis_kernel::hal::Cause;
use aldis_kernel::hal::shared_control::{ControlSlotsShape, OwnChunk};

use super::blocks::Portions;
use super::chunks::ChunkRun;
use super::{Stopped, about};
use crate::op::{copy, publish};
use crate::schedule::divide;

/// Bytes of a segment of a block at most: small enough that several are under way, and stay in a
/// cache.
const SEGMENT_BYTES: usize = 16 << 10;

impl Portions<'_> {
    /// Returns the run of its chunks, before the first segment.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for too many segments, and if a chunk has no room for an element for every
    /// rank.
    pub(super) fn run_of_many(&self, shape: &ControlSlotsShape) -> Result<ChunkRun, Cause> {
        let (chunk, element) = (shape.chunk_bytes as usize, self.element());
        let (room, _) = divide(chunk, self.parts());
        let (elements, _) = divide(room.min(SEGMENT_BYTES.max(element)), element);
        if elements == 0 {
            return Err(Cause::TooBig { len: element as u64, max: room as u64 });
        }
        ChunkRun::of(elements.saturating_mul(element), self.longest_bytes)
    }

    /// Bytes of which a segment is a multiple: elements that are reduced are whole and aligned.
    fn element(&self) -> usize {
        let element = self.task.element_bytes as usize;
        match self.task.kernel {
            // Parts of a chunk are aligned as the data are.
            Some(_) => element.saturating_mul(8),
            None => 64,
        }
    }

    /// Parts of a chunk: blocks in it.
    fn parts(&self) -> usize {
        let own = u32::from(self.leaves_own_out());
        if self.gives_each() { self.task.size.saturating_sub(own) as usize } else { 1 }
    }

    /// Returns the place of the part for `rank` in a chunk of `from`.
    fn part_for(&self, run: &ChunkRun, from: u32, rank: u32) -> usize {
        let is_after = self.leaves_own_out() && from < rank;
        let index = if self.gives_each() { rank.wrapping_sub(is_after.into()) } else { 0 };
        run.segment_bytes().saturating_mul(index as usize)
    }

    /// A step: in turn a segment of each block is written, and those before it are read.
    ///
    /// # Errors
    /// Why it cannot be taken now, or ever.
    pub(super) fn pass_of_many(
        &self,
        run: &mut ChunkRun,
        slots: &mut ControlSlots<'_>,
        data: &mut [u8],
    ) -> Result<bool, Stopped> {
        let (turn, reads) = (run.step / 2, run.step % 2 == 1);
        match turn.checked_sub(1) {
            _ if !reads => {
                let part = run.span(self.longest_bytes, turn);
                if !part.is_empty() {
                    let position = run.first.wrapping_add(turn);
                    self.write_parts(run, part, slots.fill(position)?, data)?;
                    slots.filled(position);
                }
            }
            Some(segment) => {
                let position = run.first.wrapping_add(segment);
                run.await_all(&self.task, slots, position)?;
                self.read_parts(run, segment, slots, data)?;
                slots.done(position);
            }
            None => {}
        }
        run.step += 1;
        run.next = 0;
        if run.step < 2 * run.segments.saturating_add(1) {
            return Ok(false);
        }
        self.is_long.set(false);
        if self.task.kernel.is_none() {
            self.take_own(data)?;
        }
        Ok(true)
    }

    /// Writes a part of what this rank gives into a chunk.
    fn write_parts(
        &self,
        run: &ChunkRun,
        part: Range<usize>,
        chunk: OwnChunk<'_>,
        data: &[u8],
    ) -> Result<(), Cause> {
        let me = self.task.rank;
        let mut put = |at: usize, block: &[u8]| {
            let into = chunk.bytes.get_mut(at..).and_then(|rest| rest.get_mut(..part.len()));
            let from = block.get(part.clone());
            let (into, from) = into.zip(from).ok_or(Cause::Stale)?;
            publish(into, from, chunk.store)
        };
        if !self.gives_each() {
            return put(0, self.block(self.data, me, data)?);
        }
        let given = self.given(data);
        let mut ranks = (0..self.task.size).filter(|rank| *rank != me || !self.leaves_own_out());
        ranks.try_for_each(|rank| put(self.part_for(run, me, rank), self.block(self.divided(), rank, given)?))
    }

    /// Takes or reduces the parts for this rank, which are there.
    fn read_parts(
        &self,
        run: &ChunkRun,
        segment: u32,
        slots: &ControlSlots<'_>,
        data: &mut [u8],
    ) -> Result<(), Stopped> {
        let (me, part) = (self.task.rank, run.span(self.longest_bytes, segment));
        let position = run.first.wrapping_add(segment);
        let given = |from: u32| {
            let chunk = slots.chunk(position, from)?.ok_or(Cause::Stale)?;
            let rest = chunk.get(self.part_for(run, from, me)..);
            rest.and_then(|rest| rest.get(..part.len())).ok_or(Cause::Stale)
        };
        if self.task.kernel.is_some() {
            let into = self.block_mut(me, data)?.get_mut(part.clone()).ok_or(Cause::Stale)?;
            if me < 2 {
                copy(into, given(me)?)?;
            }
            return Ok(self.task.fold(self.task.size, into, given)?);
        }
        for from in (0..self.task.size).filter(|from| *from != me) {
            let into = self.block_mut(from, data)?.get_mut(part.clone()).ok_or(Cause::Stale)?;
            given(from).and_then(|given| copy(into, given)).map_err(about(from))?;
        }
        Ok(())
    }
}
