//! Two ranks that hand each other what no slot holds, or one hands it to the other: through
//! chunks, a segment at a time, the next one written before one is read; or the giver lends it, and
//! the taker has the system read it from where it is, where that was measured to be faster: to
//! where it belongs, or, if that holds an operand which it is reduced into, to a chunk of its own.

use core::ops::Range;

use aldis_kernel::ControlSlots;
use aldis_kernel::hal::shared_control::{ControlSlotsShape, OwnChunk};
use aldis_kernel::hal::{Cause, Operation};

use super::blocks::{GivenBlocks, Portions};
use super::chunks::{ChunkRun, SEGMENTS_MAX};
use super::{CallOutcome, Stopped, about};
use crate::op::{copy, publish};
use crate::schedule::{Order, divide};
use crate::select::Call;
use crate::select::slots::bytes;

/// Bytes of a segment: small enough that several are under way, and stay in a cache.
const SEGMENT_BYTES: usize = 16 << 10;

/// The bytes that are added to those given, in the note of a slot that does not hold them but
/// precedes chunks.
pub(super) const IN_CHUNKS: u64 = 1 << 46;

/// The bytes that are added besides if its rank lends them instead.
pub(super) const LENT: u64 = 1 << 47;

/// Segments of so many bytes, which the other rank has published: too many to be passed are one too
/// many.
fn segments(bytes: u64, segment: usize) -> u32 {
    let segments = bytes.div_ceil(segment.max(1) as u64);
    u32::try_from(segments).unwrap_or(u32::MAX).min(SEGMENTS_MAX)
}

/// A rank of two.
pub(super) trait Pair {
    /// The other rank.
    fn other(&self) -> u32;

    /// Returns true if this rank takes what the other hands over.
    fn is_taker(&self) -> bool;

    /// Bytes that it hands over.
    fn handed(&self) -> u64;

    /// Bytes of an element, of which a segment holds whole ones.
    fn element_bytes(&self) -> usize;

    /// Bytes that it takes of one that hands over so many.
    fn taken(&self, heard: u64) -> u64;

    /// Bytes that the other rank hands over, once that is known; nothing if the other's slot holds
    /// them.
    fn heard(&self) -> Option<u64>;

    /// Writes a part of what it hands over into a chunk.
    ///
    /// # Errors
    /// [`Cause::Stale`] for what cannot be.
    fn hand(&self, part: Range<usize>, chunk: OwnChunk<'_>, data: &[u8]) -> Result<(), Cause>;

    /// Takes a part of what the other rank lends; true once it has taken all.
    ///
    /// # Errors
    /// Why that rank's memory cannot be read; [`Cause::Incompatible`] if it may lend none,
    /// [`Cause::Stale`] for what cannot be, as in [`hand`](Self::hand).
    fn take_lent(
        &self,
        _run: &mut ChunkRun,
        _slots: &mut ControlSlots<'_>,
        _data: &mut [u8],
    ) -> Result<bool, Stopped> {
        Err(Cause::Incompatible.into())
    }

    /// Takes a part of what is handed to it from a chunk, or reduces it.
    ///
    /// # Errors
    /// [`Cause::Stale`] for what cannot be, as in [`hand`](Self::hand).
    fn take(&self, part: Range<usize>, chunk: &[u8], data: &mut [u8]) -> Result<(), Cause>;

    /// Ends the exchange: everything is taken.
    ///
    /// # Errors
    /// [`Cause::Stale`] for what cannot be, as in [`hand`](Self::hand).
    fn end(&self, data: &mut [u8]) -> Result<(), Cause>;

    /// Before the first segment of what it hands over.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for too many segments, and for an element that is larger than a chunk.
    fn run_of_two(&self, shape: &ControlSlotsShape) -> Result<ChunkRun, Cause> {
        let (chunk, element) = (shape.chunk_bytes as usize, self.element_bytes());
        let (elements, _) = divide(SEGMENT_BYTES.max(element).min(chunk), element);
        if elements == 0 {
            return Err(Cause::TooBig { len: element as u64, max: chunk as u64 });
        }
        ChunkRun::of(elements.saturating_mul(element), self.handed() as usize)
    }

    /// Positions that their chunks take; `None` if what the other gives stands in its slot.
    fn positions_of_two(&self, run: &ChunkRun) -> Option<u32> {
        let heard = if self.is_taker() { self.heard()? } else { 0 };
        let theirs = ChunkRun::positions_of(segments(heard, run.segment_bytes()), run.lent() != 0);
        Some(ChunkRun::positions_of(run.segments, run.lends).max(theirs))
    }

    /// A step: what is lent is read, then in turn a segment is written, and the one before it is
    /// read; at last what this rank lends has been.
    ///
    /// # Errors
    /// Why it cannot be taken now, or ever.
    fn pass_of_two(
        &self,
        run: &mut ChunkRun,
        slots: &mut ControlSlots<'_>,
        data: &mut [u8],
    ) -> Result<bool, Stopped> {
        let (turn, reads) = (run.step / 2, run.step % 2 == 1);
        let (heard, other) = (self.heard().unwrap_or(0), self.other());
        let positions = self.positions_of_two(run).unwrap_or(0);
        let steps = 2 * positions.saturating_add(1);
        let own = self.taken(heard);
        // The other rank is to have all that is for it before this rank says that what it gets is
        // too much, or too little.
        let unlike = || CallOutcome::Failed(Cause::UnlikeLength { own, theirs: heard }, Some(other));
        if run.step >= steps {
            slots.is_done(run.first.wrapping_add(positions).wrapping_sub(1), other)?;
            return if own == heard { Ok(true) } else { Err(unlike()) };
        }
        if run.lent() != 0 && own == heard && !self.take_lent(run, slots, data)? {
            return Ok(false);
        }
        match turn.checked_sub(1) {
            _ if !reads => {
                let part = run.span(self.handed() as usize, turn);
                if !part.is_empty() && !run.lends {
                    let position = run.first.wrapping_add(turn);
                    self.hand(part, slots.fill(position)?, data)?;
                    slots.filled(position);
                }
            }
            Some(segment) => {
                let position = run.first.wrapping_add(segment);
                if segment < segments(heard, run.segment_bytes()) && run.lent() == 0 {
                    let chunk = slots.chunk(position, other).map_err(about(other))?;
                    let chunk = chunk.ok_or(CallOutcome::Missing(other))?;
                    if own == heard {
                        self.take(run.span(heard as usize, segment), chunk, data)?;
                    }
                }
                slots.done(position);
            }
            None => {}
        }
        run.step += 1;
        if run.step < steps {
            return Ok(false);
        }
        if own == heard {
            self.end(data)?;
        }
        match run.lends {
            false if own != heard => Err(unlike()),
            lends => Ok(!lends),
        }
    }
}

impl<'m> Portions<'m> {
    /// Returns the bytes by which it is decided whether two ranks pass what they hand over in a
    /// message: of blocks of which each rank knows its own and the root all, that of the one that
    /// is no root, and else the longest.
    pub(crate) fn message_bytes(&self, call: &Call) -> u64 {
        match call.operation {
            Operation::Gatherv | Operation::Scatterv if call.size == 2 => {
                if self.is_taker() {
                    self.taken_bytes(self.other()) as u64
                } else {
                    self.handed()
                }
            }
            _ => bytes(call),
        }
    }

    /// Returns the order in which the other's operand is reduced into this rank's.
    fn order(&self) -> Order {
        if self.task.rank == 0 { Order::IntoFirst } else { Order::FromFirst }
    }

    /// Returns the block that is handed over.
    pub(super) fn handed_block<'b>(&self, data: &'b [u8]) -> Result<&'b [u8], Cause>
    where
        'm: 'b,
    {
        if let Some(twin) = self.twin() {
            return Ok(twin);
        }
        let (layout, rank) =
            if self.gives_each() { (self.divided(), self.other()) } else { (self.data, self.task.rank) };
        self.block(layout, rank, self.given(data))
    }
}

impl Pair for Portions<'_> {
    fn other(&self) -> u32 {
        1_u32.wrapping_sub(self.task.rank)
    }

    fn is_taker(&self) -> bool {
        self.task.reads_slot_of(self.other())
    }

    fn handed(&self) -> u64 {
        if self.task.gives() { self.handed_of(self.task.bytes as u64) } else { 0 }
    }

    fn element_bytes(&self) -> usize {
        // What is not reduced can be cut anywhere.
        if self.task.kernel.is_some() { self.task.element_bytes as usize } else { 1 }
    }

    fn taken(&self, heard: u64) -> u64 {
        if self.is_taker() { self.taken_bytes(self.other()) as u64 } else { heard }
    }

    fn heard(&self) -> Option<u64> {
        self.heard.get()
    }

    fn hand(&self, part: Range<usize>, chunk: OwnChunk<'_>, data: &[u8]) -> Result<(), Cause> {
        let (into, block) = (chunk.bytes.get_mut(..part.len()), self.handed_block(data)?);
        publish(into.ok_or(Cause::Stale)?, block.get(part).ok_or(Cause::Stale)?, chunk.store)
    }

    fn take_lent(
        &self,
        run: &mut ChunkRun,
        slots: &mut ControlSlots<'_>,
        data: &mut [u8],
    ) -> Result<bool, Stopped> {
        let (other, element) = (self.other(), self.element_bytes());
        let into = self.block_mut(other, data)?;
        let len = into.len();
        let Some(kernel) = self.task.kernel else {
            return Ok(run.read_on(slots, other, into, element)?.end == len);
        };
        let (from, order, part) = match self.apart() {
            // The other's operand comes to where the result is to be.
            Some(GivenBlocks { memory, .. }) => {
                let part = run.read_on(slots, other, into, element)?;
                (memory.get(part.clone()), self.order().reversed(), part)
            }
            None => {
                let (chunk, part) = run.read_chunk(slots, other, len)?;
                (chunk.get(..part.len()), self.order(), part)
            }
        };
        let is_last = part.end == len;
        if !part.is_empty() {
            kernel.run(into.get_mut(part).ok_or(Cause::Stale)?, from.ok_or(Cause::Stale)?, order)?;
        }
        Ok(is_last)
    }

    fn take(&self, part: Range<usize>, chunk: &[u8], data: &mut [u8]) -> Result<(), Cause> {
        let from = chunk.get(..part.len()).ok_or(Cause::Stale)?;
        let Some(kernel) = self.task.kernel.filter(|_| self.task.operation != Operation::Exscan) else {
            return copy(self.block_mut(self.other(), data)?.get_mut(part).ok_or(Cause::Stale)?, from);
        };
        let rank = self.task.rank;
        let into = self.block_mut(rank, data)?.get_mut(part.clone()).ok_or(Cause::Stale)?;
        if let Some(GivenBlocks { memory, layout }) = self.apart() {
            copy(into, self.block(layout, rank, memory)?.get(part).ok_or(Cause::Stale)?)?;
        }
        kernel.run(into, from, self.order())
    }

    fn end(&self, data: &mut [u8]) -> Result<(), Cause> {
        self.is_long.set(false);
        let is_copied = self.task.receives() && self.task.kernel.is_none();
        if is_copied { self.take_own(data) } else { Ok(()) }
    }
}
