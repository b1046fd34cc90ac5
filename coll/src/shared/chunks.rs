//! More bytes than a slot holds: how chunks are passed, a step at a time.

use core::ops::Range;

use aldis_kernel::ControlSlots;
use aldis_kernel::hal::shared_control::ControlSlotsShape;
use aldis_kernel::hal::{Cause, Operation};

use super::{CallOutcome, Stopped, Task, about};
use crate::op::{copy, publish};
use crate::schedule::divide;

/// The least that a segment is cut down to, so that there are several to be under way at a time.
const SEGMENT_BYTES_MIN: usize = 16 << 10;

/// Segments that the data is cut into at least, if they are not too small then.
const SEGMENTS: usize = 4;

/// Segments of a collective are fewer: positions are compared across half of their range.
pub(super) const SEGMENTS_MAX: u32 = 1 << 28;

/// The way in which the ranks share the work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkShare {
    /// The root writes, the others copy.
    Copy,
    /// All write, those who receive reduce everything.
    Fold,
    /// All write, each reduces a part, all collect.
    Split,
}

/// The chunks of one collective.
pub(crate) struct ChunkRun {
    /// Its first position.
    pub(super) first: u32,
    /// Bytes of every segment but the last: a whole number of elements, where those are reduced.
    segment: u32,
    pub(super) segments: u32,
    /// The step at hand.
    pub(super) step: u32,
    /// The first rank whose chunk is not there yet in this step; of what is lent, how many parts
    /// are read.
    pub(super) next: u32,
    /// The number of the collective.
    pub(super) number: u32,
    /// True if this rank lends what it gives, instead of chunks: one position stands for all of it.
    pub(super) lends: bool,
    /// The halves of the address of what the other rank of two lends; zero if it does not. Halves,
    /// so that a run, which moves with every collective, is short.
    lent: [u32; 2],
}

/// Bytes of what is lent that one step reads.
const READ_BYTES: usize = 64 << 10;

impl ChunkRun {
    const EMPTY: Self =
        Self { first: 0, segment: 0, segments: 0, step: 0, next: 0, number: 0, lends: false, lent: [0; 2] };

    pub(super) fn new(task: &Task, shape: &ControlSlotsShape) -> Result<Self, Cause> {
        let chunk = shape.chunk_bytes as usize;
        let element = task.element_bytes as usize;
        let (elements, _) = divide(chunk, element);
        if elements == 0 {
            return Err(Cause::TooBig { len: element as u64, max: chunk as u64 });
        }
        let (wanted, _) = divide(task.bytes.div_ceil(SEGMENTS).max(SEGMENT_BYTES_MIN), element);
        let segment = wanted.clamp(1, elements).saturating_mul(element);
        Self::of(segment, task.bytes)
    }

    /// For so many bytes in segments of this length.
    pub(super) fn of(segment: usize, bytes: usize) -> Result<Self, Cause> {
        let segments = u32::try_from(bytes.div_ceil(segment.max(1)));
        let segments = segments.ok().filter(|segments| *segments < SEGMENTS_MAX);
        let max = (segment as u64).saturating_mul(SEGMENTS_MAX.into());
        // A segment is in a chunk, whose bytes are so few.
        let both = u32::try_from(segment).ok().zip(segments);
        let (segment, segments) = both.ok_or(Cause::TooBig { len: bytes as u64, max })?;
        Ok(Self { segment, segments, ..Self::EMPTY })
    }

    /// Bytes of every segment but the last.
    pub(super) const fn segment_bytes(&self) -> usize {
        self.segment as usize
    }

    /// Returns the address of what the other rank of two lends; zero if it does not.
    pub(super) const fn lent(&self) -> u64 {
        let [low, high] = self.lent;
        low as u64 | (high as u64) << 32
    }

    /// The other rank of two lends what is at this address, or at zero nothing.
    pub(super) const fn set_lent(&mut self, address: u64) {
        self.lent = [address as u32, (address >> 32) as u32];
    }

    /// Returns the place of a segment of so many bytes of data.
    pub(super) fn span(&self, bytes: usize, segment: u32) -> Range<usize> {
        let start = self.segment_bytes().saturating_mul(segment as usize).min(bytes);
        start..start.saturating_add(self.segment_bytes()).min(bytes)
    }

    /// Positions of segments of the one rank or of the other; one for what is lent.
    pub(super) const fn positions_of(segments: u32, is_lent: bool) -> u32 {
        if is_lent { 1 } else { segments }
    }

    /// Returns the place of the next part of what the other rank of two lends, `bytes` in all, of
    /// so many at most. It is empty once all are read.
    fn next_part(&self, bytes: usize, most: usize) -> Range<usize> {
        let start = most.saturating_mul(self.next as usize).min(bytes);
        start..start.saturating_add(most).min(bytes)
    }

    /// Reads on in what the other rank of two lends, whole elements of so many bytes at a time, to
    /// where it belongs; returns the place of what was read.
    ///
    /// # Errors
    /// The rank, and why its memory cannot be read, or was lent no more.
    #[inline(never)]
    pub(super) fn read_on(
        &mut self,
        slots: &mut ControlSlots<'_>,
        other: u32,
        into: &mut [u8],
        element_bytes: usize,
    ) -> Result<Range<usize>, Stopped> {
        let (elements, _) = divide(READ_BYTES, element_bytes);
        let part = self.next_part(into.len(), elements.max(1).saturating_mul(element_bytes));
        if let Some(into) = into.get_mut(part.clone()).filter(|into| !into.is_empty()) {
            let from = self.lent().wrapping_add(part.start as u64);
            slots.read(self.number, other, from, into).map_err(about(other))?;
            self.next = self.next.saturating_add(1);
        }
        Ok(part)
    }

    /// Reads on in what the other rank of two lends, `bytes` in all, as much as a segment, to this
    /// rank's own chunk; returns it and the place of its bytes, or nothing once all are read.
    ///
    /// # Errors
    /// Those of [`read_on`](Self::read_on); the rank that is not done with what stood in the
    /// chunk.
    pub(super) fn read_chunk<'s>(
        &mut self,
        slots: &'s mut ControlSlots<'_>,
        other: u32,
        bytes: usize,
    ) -> Result<(&'s [u8], Range<usize>), Stopped> {
        let part = self.next_part(bytes, self.segment_bytes());
        if part.is_empty() {
            return Ok((&[], part));
        }
        let at = |offset: usize| self.lent().wrapping_add(offset as u64);
        let chunk = slots.read_chunk(self.number, other, self.first, at(part.start)..at(part.end))?;
        self.next = self.next.saturating_add(1);
        Ok((chunk, part))
    }

    /// Passes what a root lends to the other rank of two; true once that has it.
    #[inline(never)]
    fn pass_lent(
        &mut self,
        task: &Task,
        slots: &mut ControlSlots<'_>,
        data: &mut [u8],
    ) -> Result<bool, Stopped> {
        let other = 1_u32.wrapping_sub(task.rank);
        let is_there = task.rank == task.root || self.read_on(slots, other, data, 1)?.end == data.len();
        if is_there {
            slots.done(self.first);
        }
        if task.rank == task.root {
            slots.is_done(self.first, other)?;
        }
        Ok(is_there)
    }

    /// Takes the step at hand, if it can be taken now; true after the last one.
    pub(super) fn step(
        &mut self,
        task: &Task,
        slots: &mut ControlSlots<'_>,
        data: &mut [u8],
    ) -> Result<bool, Stopped> {
        let steps = match task.way() {
            WorkShare::Copy if self.lends || self.lent() != 0 => return self.pass_lent(task, slots, data),
            WorkShare::Copy => {
                self.pass_on(task, slots, data)?;
                self.segments
            }
            WorkShare::Fold => {
                self.fold(task, slots, data)?;
                (self.segments + 1).saturating_mul(2)
            }
            WorkShare::Split => {
                self.split(task, slots, data)?;
                (self.segments + 2).saturating_mul(3)
            }
        };
        self.step += 1;
        self.next = 0;
        Ok(self.step >= steps)
    }

    /// A segment from the root to the others.
    fn pass_on(&self, task: &Task, slots: &mut ControlSlots<'_>, data: &mut [u8]) -> Result<(), Stopped> {
        let position = self.first.wrapping_add(self.step);
        let part = data.get_mut(self.span(task.bytes, self.step)).unwrap_or_default();
        if task.rank == task.root {
            fill(slots, position, part, part.len()..part.len())?;
        } else {
            let chunk = slots.chunk(position, task.root).map_err(about(task.root))?;
            let chunk = chunk.ok_or(CallOutcome::Missing(task.root))?;
            copy(part, chunk.get(..part.len()).unwrap_or_default())?;
        }
        slots.done(position);
        Ok(())
    }

    /// In turn: writes a segment, if a rank reads it; reduces the one before, if this rank does
    /// that.
    fn fold(&mut self, task: &Task, slots: &mut ControlSlots<'_>, data: &mut [u8]) -> Result<(), Stopped> {
        let (turn, reduces) = (self.step / 2, self.step % 2 == 1);
        let Some(segment) = turn.checked_sub(reduces.into()).filter(|segment| *segment < self.segments)
        else {
            return Ok(());
        };
        let position = self.first.wrapping_add(segment);
        let part = data.get_mut(self.span(task.bytes, segment)).unwrap_or_default();
        if !reduces {
            let read_by_others = task.operation == Operation::Allreduce || task.rank != task.root;
            if read_by_others || task.rank > 1 {
                fill(slots, position, part, part.len()..part.len())?;
            }
        } else {
            if task.receives() {
                self.await_all(task, slots, position)?;
                let len = part.len();
                task.fold(task.size, part, |rank| operand(slots, position, rank, 0..len))?;
            }
            slots.done(position);
        }
        Ok(())
    }

    /// In turn: writes a segment for the others to reduce their parts of; reduces its own part of
    /// the one before, and writes that; collects the parts of the one before that.
    fn split(&mut self, task: &Task, slots: &mut ControlSlots<'_>, data: &mut [u8]) -> Result<(), Stopped> {
        let (turn, what) = (self.step / 3, self.step % 3);
        let Some(segment) = turn.checked_sub(what).filter(|segment| *segment < self.segments) else {
            return Ok(());
        };
        let span = self.span(task.bytes, segment);
        let own = piece(task, span.len(), task.rank);
        let part = data.get_mut(span).unwrap_or_default();
        let (written, reduced) = (self.written_at(segment), self.reduced_at(segment));
        match what {
            0 => {
                let kept = if task.rank > 1 { part.len()..part.len() } else { own };
                fill(slots, written, part, kept)
            }
            1 => {
                self.await_all(task, slots, written)?;
                slots.fill(reduced)?;
                let part = part.get_mut(own.clone()).unwrap_or_default();
                task.fold(task.size, part, |rank| operand(slots, written, rank, own.clone()))?;
                fill(slots, reduced, part, part.len()..part.len())?;
                slots.done(written);
                Ok(())
            }
            _ => {
                while self.next < task.size {
                    if self.next != task.rank {
                        let piece = piece(task, part.len(), self.next);
                        let into = part.get_mut(piece).unwrap_or_default();
                        let chunk = slots.chunk(reduced, self.next).map_err(about(self.next))?;
                        let chunk = chunk.ok_or(CallOutcome::Missing(self.next))?;
                        copy(into, chunk.get(..into.len()).unwrap_or_default())?;
                    }
                    self.next += 1;
                }
                slots.done(reduced);
                Ok(())
            }
        }
    }

    /// Returns the position at which a segment is written. Positions follow the order of steps, in
    /// which a segment is written before the one before it is reduced: W0 W1 R0 W2 R1 .. and R of
    /// the last one at the end.
    fn written_at(&self, segment: u32) -> u32 {
        self.first.wrapping_add(segment.saturating_mul(2).saturating_sub(1))
    }

    /// Returns the position of its reduced part.
    fn reduced_at(&self, segment: u32) -> u32 {
        let last = segment + 1 >= self.segments;
        self.first.wrapping_add(segment.saturating_mul(2) + if last { 1 } else { 2 })
    }

    /// Checks that the chunks of all ranks at `position` are there.
    pub(super) fn await_all(
        &mut self,
        task: &Task,
        slots: &ControlSlots<'_>,
        position: u32,
    ) -> Result<(), Stopped> {
        while self.next < task.size {
            let rank = self.next;
            if rank != task.rank && slots.chunk(position, rank).map_err(about(rank))?.is_none() {
                return Err(CallOutcome::Missing(rank));
            }
            self.next += 1;
        }
        Ok(())
    }
}

/// A part of a rank's chunk that is there.
fn operand<'l>(
    slots: &'l ControlSlots<'_>,
    position: u32,
    rank: u32,
    part: Range<usize>,
) -> Result<&'l [u8], Cause> {
    slots.chunk(position, rank)?.and_then(|chunk| chunk.get(part)).ok_or(Cause::Stale)
}

/// The part of a segment of `len` bytes that `rank` reduces: as even as can be, in whole elements.
fn piece(task: &Task, len: usize, rank: u32) -> Range<usize> {
    let element = task.element_bytes as usize;
    let (elements, _) = divide(len, element);
    let (base, longer) = divide(elements, task.size as usize);
    let start =
        |rank: usize| rank.saturating_mul(base).saturating_add(rank.min(longer)).saturating_mul(element);
    start(rank as usize)..start(rank as usize + 1)
}

/// Writes `part` to this rank's chunk at `position`, but for those bytes that no rank reads.
pub(super) fn fill(
    slots: &mut ControlSlots<'_>,
    position: u32,
    part: &[u8],
    unread: Range<usize>,
) -> Result<(), Stopped> {
    let chunk = slots.fill(position)?;
    for range in [0..unread.start, unread.end..part.len()] {
        let (into, from) = (chunk.bytes.get_mut(range.clone()), part.get(range));
        let (into, from) = into.zip(from).ok_or(Cause::Stale)?;
        publish(into, from, chunk.store)?;
    }
    slots.filled(position);
    Ok(())
}
