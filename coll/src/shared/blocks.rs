//! Operations on blocks, and scans, of which a slot holds all that a rank gives.
//!
//! Blocks stand in a slot one behind the other, in the order of the ranks that they are for. Where
//! a rank does not know how long those are that others give, the slot begins with a [table] of all
//! ranks' blocks; a rank's own block is empty there. It is left out as well where all blocks are of
//! one length, unless the rank reads it back to reduce it in its turn.

use core::cell::Cell;
use core::ops::Range;

use aldis_kernel::hal::shared_control::{ControlSlotsShape, Note};
use aldis_kernel::hal::{Cause, Operation};
use aldis_kernel::{ControlSlots, NotReady};

use super::chunks::ChunkRun;
use super::pairs::{IN_CHUNKS, Pair};
use super::table::{self, Packing};
use super::{Contributions, Role, SLOT_BYTES, Stopped, Task};
use crate::layout::Layout;
use crate::op::copy;
use crate::select::Call;
use crate::select::slots::{is_read, passes_in_chunks, stands_in_control_slots};

/// The bytes in the note of a rank that gives elements of datatypes, which are for messages: more
/// than a slot holds.
const TYPED_BYTES: usize = SLOT_BYTES as usize + TABLE_BYTES as usize + 1;

/// Bytes that a slot has for a table beside those for blocks.
const TABLE_BYTES: u64 = 64;

/// Memory that a rank gives, and its division.
#[derive(Clone, Copy)]
pub(crate) struct GivenBlocks<'m> {
    pub(crate) memory: &'m [u8],
    pub(crate) layout: Layout<'m>,
}

impl<'m> GivenBlocks<'m> {
    /// Returns an input that is divided like this; `None` if what is given stands in the data
    /// alone.
    #[inline(always)]
    pub(crate) fn of(memory: &'m [u8], layout: Layout<'m>) -> Option<Self> {
        match layout {
            Layout::Whole => None,
            layout => Some(Self { memory, layout }),
        }
    }
}

/// Such a call as one rank sees it, but for its data.
pub(crate) struct Portions<'m> {
    pub(super) task: Task,
    /// The division of its data.
    pub(super) data: Layout<'m>,
    /// The memory that it gives, if that is not its data, or a block of these that stands elsewhere
    /// too.
    input: Option<GivenBlocks<'m>>,
    /// Bytes of its data.
    data_bytes: usize,
    /// Bytes of the longest block, of which all ranks know if blocks are of one length.
    pub(super) longest_bytes: usize,
    /// True if some rank gives more than a slot holds: messages are to follow.
    pub(super) is_long: Cell<bool>,
    /// Two ranks pass chunks, and so does this one unless the other's block stands in its slot.
    passes: bool,
    /// True if that is so unless elements are of datatypes.
    is_passed: bool,
    /// The bytes that the other rank of two gives in chunks, once that is known.
    pub(super) heard: Cell<Option<u64>>,
}

impl<'m> Portions<'m> {
    /// The call of a task whose data are divided like this, with an input if it has one.
    #[inline(always)]
    pub(crate) fn new(call: &Call, task: Task, data: Layout<'m>, input: Option<GivenBlocks<'m>>) -> Self {
        let data_bytes = task.bytes;
        let longest_bytes = call.count.saturating_mul(task.element_bytes as usize);
        let (is_long, heard) = (Cell::new(false), Cell::new(None));
        let (passes, is_passed) = (false, false);
        let mut this =
            Self { task, data, input, data_bytes, longest_bytes, is_long, passes, is_passed, heard };
        this.task.bytes = this.given_bytes();
        // Of all others it is known that a slot holds them.
        let is_long = task.gives() && this.is_too_long(this.task.bytes as u64);
        let is_more = || match this.has_table() || call.operation == Operation::Gatherv {
            false => !stands_in_control_slots(call),
            // One of two knows what the other gives.
            true => is_long || this.is_taker() && this.is_too_long(this.taken_slot_bytes() as u64),
        };
        this.is_passed = passes_in_chunks(call) && is_more();
        this.passes = this.is_passed && !this.is_typed();
        this.is_long.set(is_long || this.passes);
        this
    }

    /// Returns true if messages are to follow, once it was carried out: for all blocks, or, of a
    /// gather, for those that no slot holds.
    #[inline(always)]
    pub(crate) fn is_long(&self) -> bool {
        self.is_long.get()
    }

    /// Returns true if a slot does not hold so many bytes.
    #[inline(always)]
    const fn is_too_long(&self, bytes: u64) -> bool {
        bytes > if self.has_table() { SLOT_BYTES + TABLE_BYTES } else { SLOT_BYTES }
    }

    /// Returns true if its elements are of datatypes: then others need to know only that messages
    /// are to follow.
    #[inline(always)]
    const fn is_typed(&self) -> bool {
        matches!(self.data, Layout::Typed(_))
    }

    /// Returns true if a table says how long blocks are.
    #[inline(always)]
    pub(super) const fn has_table(&self) -> bool {
        matches!(self.task.operation, Operation::Scatterv | Operation::Alltoallv | Operation::Alltoallw)
    }

    /// Returns true if a rank gives every rank a block, or the root alone does.
    #[inline(always)]
    pub(super) const fn gives_each(&self) -> bool {
        use Operation::{Alltoall, ReduceScatter, ReduceScatterBlock, Scatter};
        self.has_table()
            || matches!(self.task.operation, Alltoall | Scatter | ReduceScatterBlock | ReduceScatter)
    }

    /// Returns true if a slot with a block for each rank has none for its own.
    #[inline(always)]
    pub(super) const fn leaves_own_out(&self) -> bool {
        use Operation::{Alltoall, ReduceScatterBlock, Scatter};
        match self.task.operation {
            Alltoall | Scatter => true,
            ReduceScatterBlock => self.task.size == 2,
            _ => self.has_table(),
        }
    }

    /// Returns the memory that it gives, if that is not its data.
    #[inline(always)]
    pub(super) fn apart(&self) -> Option<GivenBlocks<'m>> {
        self.input.filter(|input| !matches!(input.layout, Layout::Twin))
    }

    /// Returns the block that it gives, if that stands elsewhere as well as in its data.
    pub(super) fn twin(&self) -> Option<&'m [u8]> {
        self.input.filter(|input| matches!(input.layout, Layout::Twin)).map(|input| input.memory)
    }

    /// Returns the division of what this rank gives.
    #[inline(always)]
    pub(super) fn divided(&self) -> Layout<'m> {
        self.apart().map_or(self.data, |input| input.layout)
    }

    /// Returns the memory that this rank gives.
    #[inline(always)]
    pub(super) fn given<'b>(&self, data: &'b [u8]) -> &'b [u8]
    where
        'm: 'b,
    {
        self.apart().map_or(data, |input| input.memory)
    }

    /// Returns the place in memory of the block of `rank`.
    #[inline(always)]
    fn range(&self, layout: Layout<'_>, rank: u32) -> Range<usize> {
        let bytes_of = |elements: usize| elements.saturating_mul(self.task.element_bytes as usize);
        let (start, len) = match layout {
            Layout::Even => ((rank as usize).saturating_mul(self.longest_bytes), self.longest_bytes),
            Layout::Listed(blocks) => {
                let block = blocks.get(rank as usize).copied().unwrap_or_default();
                (bytes_of(block.start), bytes_of(block.len))
            }
            _ => (0, self.data_bytes),
        };
        start..start.saturating_add(len)
    }

    /// The part of memory that is the block of `rank`.
    #[inline(always)]
    pub(super) fn block<'b>(
        &self,
        layout: Layout<'_>,
        rank: u32,
        memory: &'b [u8],
    ) -> Result<&'b [u8], Cause> {
        memory.get(self.range(layout, rank)).ok_or(Cause::Stale)
    }

    #[inline(always)]
    pub(super) fn block_mut<'b>(&self, rank: u32, data: &'b mut [u8]) -> Result<&'b mut [u8], Cause> {
        data.get_mut(self.range(self.data, rank)).ok_or(Cause::Stale)
    }

    /// Bytes of the block for `rank` in this rank's slot.
    #[inline(always)]
    fn len_for(&self, rank: u32) -> usize {
        if self.leaves_own_out() && rank == self.task.rank { 0 } else { self.block_bytes(rank) }
    }

    /// Bytes of the block for `rank`.
    #[inline(always)]
    fn block_bytes(&self, rank: u32) -> usize {
        match self.divided() {
            layout @ Layout::Listed(_) => self.range(layout, rank).len(),
            _ => self.longest_bytes,
        }
    }

    /// Returns the place of the block for `rank` in the slot of `from`, if that has no table.
    #[inline(always)]
    fn start_for(&self, from: u32, rank: u32) -> usize {
        match self.divided() {
            Layout::Listed(_) => {
                (0..rank).fold(0, |start: usize, rank| start.saturating_add(self.len_for(rank)))
            }
            _ => {
                let is_after = self.leaves_own_out() && from < rank;
                self.longest_bytes.saturating_mul(rank.wrapping_sub(is_after.into()) as usize)
            }
        }
    }

    /// Bytes of the slot of the other rank of two.
    fn taken_slot_bytes(&self) -> usize {
        self.taken_bytes(1_u32.wrapping_sub(self.task.rank)).saturating_add(self.table_bytes())
    }

    /// Bytes that a slot with so many would hand the other rank of two.
    pub(super) fn handed_of(&self, given: u64) -> u64 {
        given.saturating_sub(self.table_bytes() as u64)
    }

    #[inline(always)]
    const fn table_bytes(&self) -> usize {
        if self.has_table() { table::bytes(self.task.size) } else { 0 }
    }

    /// Bytes of this rank's slot.
    #[inline(always)]
    fn given_bytes(&self) -> usize {
        let Task { rank, size, .. } = self.task;
        match self.gives_each() {
            _ if self.is_typed() => TYPED_BYTES,
            // Who only takes expects as much as is given.
            true if !self.has_table() || self.task.gives() => {
                self.start_for(rank, size).saturating_add(self.table_bytes())
            }
            true => 0,
            false => self.taken_bytes(rank),
        }
    }

    /// Writes all blocks into a slot.
    fn pack(&self, slot: &mut [u8], from: &[u8]) -> Result<(), Cause> {
        let mut packing = Packing::new(slot, self.table_bytes())?;
        for rank in 0..self.task.size {
            if self.len_for(rank) > 0 {
                packing.put(self.block(self.divided(), rank, from)?)?;
            }
            packing.end();
        }
        Ok(())
    }

    /// The block for `rank` in the slot of `from`.
    #[inline(always)]
    fn unpack<'l>(&self, slot: &'l [u8], from: u32, rank: u32) -> Result<&'l [u8], Cause> {
        if !self.has_table() {
            let (start, len) = (self.start_for(from, rank), self.block_bytes(rank));
            return slot.get(start..).and_then(|rest| rest.get(..len)).ok_or(Cause::Incompatible);
        }
        table::block(slot, self.table_bytes(), rank)
    }

    /// Takes the block that stands in the slot of `from`.
    #[inline(always)]
    fn take_of(&self, from: u32, slot: &[u8], data: &mut [u8]) -> Result<(), Cause> {
        let rank = self.task.rank;
        let is_scattered = matches!(self.task.operation, Operation::Scatter | Operation::Scatterv);
        let into = self.block_mut(if is_scattered { rank } else { from }, data)?;
        let given = if self.gives_each() { self.unpack(slot, from, rank)? } else { slot };
        if into.len() != given.len() {
            return Err(Cause::UnlikeLength { own: into.len() as u64, theirs: given.len() as u64 });
        }
        copy(into, given)
    }

    /// Takes the blocks that stand in slots, and this rank's own.
    #[inline(always)]
    fn take<'l>(
        &self,
        slot: impl Fn(u32) -> Result<&'l [u8], Cause>,
        data: &mut [u8],
    ) -> Result<(), (Cause, Option<u32>)> {
        let Task { operation, size, .. } = self.task;
        for from in 0..size {
            // A long one of a gatherv is still to come.
            let is_to_come =
                || operation == Operation::Gatherv && self.is_too_long(self.taken_bytes(from) as u64);
            if !self.task.reads_slot_of(from) || is_to_come() {
                continue;
            }
            let taken = slot(from).and_then(|slot| self.take_of(from, slot, data));
            taken.map_err(|cause| (cause, Some(from)))?;
        }
        self.take_own(data).map_err(|cause| (cause, None))
    }

    /// Takes this rank's own block, if it is not there already.
    #[inline(always)]
    pub(super) fn take_own(&self, data: &mut [u8]) -> Result<(), Cause> {
        let Some(GivenBlocks { memory, layout }) = self.apart() else { return Ok(()) };
        let own = self.block(layout, self.task.rank, memory)?;
        copy(self.block_mut(self.task.rank, data)?, own)
    }

    /// Bytes of the block that `from` gives to this rank, as it stands in the data.
    #[inline(always)]
    pub(super) fn taken_bytes(&self, from: u32) -> usize {
        self.range(self.data, from).len()
    }

    /// Reduces what stands in slots for this rank.
    #[inline(always)]
    fn fold<'l>(&self, slot: impl Fn(u32) -> Result<&'l [u8], Cause>, data: &mut [u8]) -> Result<(), Cause> {
        let rank = self.task.rank;
        match self.task.operation {
            Operation::Scan | Operation::Exscan => self.task.scan(data, slot),
            _ => {
                self.take_own(data)?;
                self.task.fold(self.task.size, self.block_mut(rank, data)?, |from| {
                    self.unpack(slot(from)?, from, rank)
                })
            }
        }
    }
}

impl Role for Portions<'_> {
    #[inline]
    fn task(&self) -> &Task {
        &self.task
    }

    #[inline(always)]
    fn fits(&self, slot_bytes: u32) -> bool {
        u64::from(slot_bytes) >= SLOT_BYTES + TABLE_BYTES
    }

    #[inline(always)]
    fn passes_chunks(&self) -> bool {
        self.passes
    }

    #[inline(always)]
    fn is_passed(&self) -> bool {
        self.is_passed
    }

    fn run(&self, shape: &ControlSlotsShape) -> Result<Option<ChunkRun>, Cause> {
        match self.passes {
            true if self.task.size > 2 => self.run_of_many(shape).map(Some),
            true => self.run_of_two(shape).map(Some),
            false => Ok(None),
        }
    }

    #[inline(always)]
    fn give(&self, slots: &mut ControlSlots<'_>, number: u32, data: &[u8]) -> Result<(), NotReady> {
        let (note, from) = (self.task.note(), self.given(data));
        if self.is_too_long(note.bytes) {
            return slots.publish(number, note, &[]);
        }
        match self.divided() {
            _ if !self.gives_each() => {
                self.task.publish(slots, number, self.block(self.data, self.task.rank, data)?)
            }
            layout if self.leaves_own_out() && !self.has_table() && self.task.size == 2 => {
                self.task.publish(slots, number, self.block(layout, self.other(), from)?)
            }
            Layout::Even if !self.leaves_own_out() => self.task.publish(slots, number, from),
            _ => slots.pack(number, note, |slot| self.pack(slot, from)),
        }
    }

    #[inline(always)]
    fn note(&self) -> Note {
        let note = self.task.note();
        let beside = if self.passes { IN_CHUNKS } else { 0 };
        Note { bytes: note.bytes.saturating_add(beside), ..note }
    }

    #[inline(always)]
    fn reads_slot_of(&self, rank: u32) -> bool {
        !self.is_typed() && self.task.reads_slot_of(rank)
    }

    #[inline(always)]
    fn check_note(&self, rank: u32, note: Note) -> Result<(), Cause> {
        self.task.check_call(note)?;
        let theirs = note.bytes & (IN_CHUNKS - 1);
        let own = match self.task.operation {
            _ if self.has_table() => theirs,
            Operation::Gatherv | Operation::Allgatherv => self.taken_bytes(rank) as u64,
            _ => self.task.bytes as u64,
        };
        if self.passes && self.task.size > 2 {
            let is_passed = theirs != note.bytes && theirs == own;
            return if is_passed { Ok(()) } else { Err(Cause::UnlikeLength { own, theirs }) };
        }
        if self.passes && theirs != note.bytes {
            // The other rank is to have its chunks before this rank says that they are too many, or
            // too few.
            self.heard.set(Some(self.handed_of(theirs)));
            return Ok(());
        }
        if theirs != own || self.passes && !self.has_table() {
            return Err(Cause::UnlikeLength { own, theirs });
        }
        if self.is_too_long(note.bytes) {
            self.is_long.set(true);
        }
        Ok(())
    }

    #[inline(always)]
    fn settle(&self, given: &Contributions<'_, '_>, data: &mut [u8]) -> Result<(), (Cause, Option<u32>)> {
        let slot = |rank| given.of(rank);
        if !self.task.receives() || self.has_table() && self.is_long() {
            return Ok(());
        }
        match self.task.kernel {
            Some(_) => self.fold(slot, data).map_err(|cause| (cause, None)),
            None => self.take(slot, data),
        }
    }

    fn lends<'b>(&self, shape: &ControlSlotsShape, data: &'b [u8]) -> Option<&'b [u8]>
    where
        Self: 'b,
    {
        let is_lent = self.task.is_lendable() && is_read(shape, self.handed());
        if is_lent { self.handed_block(data).ok() } else { None }
    }

    fn positions(&self, run: &ChunkRun) -> Option<u32> {
        if self.task.size > 2 { Some(run.segments) } else { self.positions_of_two(run) }
    }

    fn pass(
        &self,
        run: &mut ChunkRun,
        slots: &mut ControlSlots<'_>,
        data: &mut [u8],
    ) -> Result<bool, Stopped> {
        match self.task.size > 2 {
            true => self.pass_of_many(run, slots, data),
            false => self.pass_of_two(run, slots, data),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::layout::Block;

    /// An all-to-all of blocks of unlike bytes.
    fn unlike(rank: u32, blocks: &[Block]) -> Portions<'_> {
        let (operation, size, data) = (Operation::Alltoallv, blocks.len() as u32, Layout::Listed(blocks));
        let task = Task { operation, rank, size, root: 0, bytes: 0, element_bytes: 1, kernel: None };
        let (is_long, heard) = (Cell::new(false), Cell::new(None));
        Portions {
            task,
            data,
            input: None,
            data_bytes: 0,
            longest_bytes: 0,
            is_long,
            passes: false,
            is_passed: false,
            heard,
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_for_a_rank_is_unpacked_there(
            lens in prop::collection::vec(0..40usize, 2..9),
            rank in 0..9u32,
            seed: u8,
        ) {
            let (rank, size) = (rank % lens.len() as u32, lens.len() as u32);
            let mut end = 0;
            let blocks = lens.iter().map(|&len| Block { start: (end, end += len).0, len });
            let blocks: Vec<Block> = blocks.collect();
            let memory: Vec<u8> = (0..end).map(|at| seed.wrapping_add(at as u8)).collect();
            let giver = unlike(rank, &blocks);
            let mut slot = std::vec![0; giver.given_bytes()];
            giver.pack(&mut slot, &memory).unwrap();
            for taker in (0..size).filter(|taker| *taker != rank) {
                let Block { start, len } = blocks[taker as usize];
                let taken = unlike(taker, &blocks).unpack(&slot, rank, taker).unwrap().to_vec();
                prop_assert_eq!(taken, memory[start..][..len].to_vec());
            }
            prop_assert!(giver.unpack(&slot, rank, rank).unwrap().is_empty(), "its own block stays where it is");
        }

        /// A slot that another rank has written anyhow.
        #[test]
        fn whatever_a_table_says_is_inside_or_refused(
            slot in prop::collection::vec(prop_oneof![any::<u8>(), 0..30u8, Just(0)], 0..60),
            size in 2..9u32,
            rank in 0..9u32,
        ) {
            let blocks = std::vec![Block { start: 0, len: 5 }; size as usize];
            let taken = unlike(rank % size, &blocks).unpack(&slot, 0, rank % size);
            match taken {
                Ok(block) => prop_assert!(block.len() + 2 * size as usize <= slot.len()),
                Err(cause) => prop_assert_eq!(cause, Cause::Incompatible),
            }
        }
    }
}
