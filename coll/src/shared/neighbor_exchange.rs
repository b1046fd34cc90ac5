//! Exchanges with neighbours, of which a slot holds all that a rank gives, or which two ranks pass
//! in chunks.
//!
//! **In a grid, blocks of one length.** All know of each other whether a slot holds what they give;
//! and what is sent one way along a dimension arrives from the other, so that a rank knows which
//! block of a neighbour's slot is for it. Slots hold the input as it is, and a rank reads those of
//! its neighbours alone.
//!
//! **Else**, blocks of unlike lengths or a graph, a rank knows what it takes, but not what else
//! others give. So all read all, for which there must be few: one that gives more than a slot holds
//! sends all to messages, unless there are but two and the other does so too. A slot has a [table]
//! and what is for the rank after its own, for the one after that and so on; what a rank has for
//! another several times stands in the order in which the other takes it.
//!
//! A gather gives every neighbour the same, which stands in the slot alone.

use core::cell::Cell;
use core::ops::Range;

use aldis_kernel::hal::shared_control::{ControlSlotsShape, Note, OwnChunk};
use aldis_kernel::hal::{Cause, Operation};
use aldis_kernel::{ControlSlots, NotReady};

use super::blocks::GivenBlocks;
use super::chunks::ChunkRun;
use super::pairs::{IN_CHUNKS, Pair};
use super::table::{self, Packing};
use super::{Contributions, Role, SLOT_BYTES, Stopped, Task};
use crate::algorithms::neighbor::{NeighborAction, NeighborEntry};
use crate::layout::Layout;
use crate::op::{copy, publish};
use crate::select::Call;

/// The most ranks that read the slots of all others rather than of neighbours alone.
const FEW: u32 = 8;

/// Such a call as one rank sees it, but for its data.
pub(crate) struct NeighborExchange<'m> {
    task: Task,
    /// With whom it exchanges what.
    entries: &'m [NeighborEntry],
    input: &'m [u8],
    given: Layout<'m>,
    taken: Layout<'m>,
    /// Bytes of a block, where they are alike.
    block_bytes: usize,
    /// All know how much the others give, and what of it is for whom.
    is_known: bool,
    /// Two ranks pass chunks, and so does this one unless what the other gives stands in its slot.
    passes: bool,
    /// True if some rank gives more than a slot holds: messages are to follow.
    is_long: Cell<bool>,
    /// The bytes that the other rank of two gives in chunks, once that is known.
    heard: Cell<Option<u64>>,
}

/// The neighbours of a rank.
#[derive(Clone, Copy)]
pub(crate) struct Neighbors<'m> {
    pub(crate) rank: u32,
    /// With whom it exchanges what.
    pub(crate) entries: &'m [NeighborEntry],
    /// True for a grid, where what a rank sends one way arrives from the other.
    pub(crate) is_grid: bool,
}

impl<'m> NeighborExchange<'m> {
    /// The call with this input, divided so, for data that are divided so; `None` if it is not for
    /// slots.
    #[inline]
    pub(crate) fn new(
        call: &Call,
        Neighbors { rank, entries, is_grid }: Neighbors<'m>,
        input: GivenBlocks<'m>,
        taken: Layout<'m>,
    ) -> Option<Self> {
        let GivenBlocks { memory: input, layout: given } = input;
        let &Call { operation, size, element_bytes, count, .. } = call;
        let task = Task { operation, rank, size, root: 0, bytes: input.len(), element_bytes, kernel: None };
        let is_known = is_grid && matches!(taken, Layout::Even);
        let block_bytes = count.saturating_mul(element_bytes as usize);
        let (is_long, heard) = (Cell::new(false), Cell::new(None));
        let mut this =
            Self { task, entries, input, given, taken, block_bytes, is_known, passes: false, is_long, heard };
        if this.has_table() {
            this.task.bytes = this.table_bytes().saturating_add(this.given_bytes());
        }
        if this.is_typed() {
            this.task.bytes = SLOT_BYTES as usize + 1;
        }
        let is_long = this.task.bytes as u64 > SLOT_BYTES;
        // One of two knows what the other gives, but for a gather of which it takes nothing.
        let is_more = || is_long || !is_known && this.taken_bytes() as u64 > SLOT_BYTES;
        this.passes = size == 2 && !this.is_typed() && is_more();
        this.is_long.set(is_long || this.passes);
        let is_for_slots = if is_known { !is_long || size == 2 } else { size <= FEW };
        is_for_slots.then_some(this)
    }

    /// Returns true if messages are to follow, once it was carried out.
    #[inline]
    pub(crate) const fn is_long(&self) -> bool {
        self.is_long.get()
    }

    /// Returns true if its elements are of datatypes: then others need to know only that messages
    /// are to follow.
    #[inline]
    const fn is_typed(&self) -> bool {
        matches!(self.taken, Layout::Typed(_))
    }

    #[inline]
    const fn is_gather(&self) -> bool {
        matches!(self.task.operation, Operation::NeighborAllgather | Operation::NeighborAllgatherv)
    }

    #[inline]
    const fn has_table(&self) -> bool {
        !self.is_known && !self.is_gather()
    }

    #[inline]
    const fn table_bytes(&self) -> usize {
        table::bytes(self.task.size.saturating_sub(1))
    }

    /// Returns the entries of one kind: what is exchanged with one of them several times stands
    /// together, in the order of both.
    #[inline]
    fn all(&self, act: NeighborAction) -> impl Iterator<Item = &'m NeighborEntry> + use<'m> {
        self.entries.iter().filter(move |entry| entry.action == act)
    }

    /// Returns the place of a block in a buffer that is divided so.
    #[inline]
    fn block(&self, layout: Layout<'_>, number: u32) -> Range<usize> {
        let bytes_of = |elements: usize| elements.saturating_mul(self.task.element_bytes as usize);
        let (start, len) = match layout {
            Layout::Listed(blocks) => {
                let block = blocks.get(number as usize).copied().unwrap_or_default();
                (bytes_of(block.start), bytes_of(block.len))
            }
            Layout::One(len) => (0, bytes_of(len)),
            _ => (self.block_bytes.saturating_mul(number as usize), self.block_bytes),
        };
        start..start.saturating_add(len)
    }

    /// Bytes that it gives others.
    #[inline]
    fn given_bytes(&self) -> usize {
        if self.is_gather() {
            return self.input.len();
        }
        let sent = self.all(NeighborAction::Send).map(|entry| self.block(self.given, entry.block).len());
        sent.fold(0, usize::saturating_add)
    }

    /// Returns what it takes of another rank: the bytes of all that this one gives it, and the
    /// place in the data that they come to.
    #[inline]
    fn takes(&self, from: u32) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let mut end = 0_usize;
        self.all(NeighborAction::Receive).filter(move |entry| entry.rank == from).map(move |entry| {
            let into = self.block(self.taken, entry.block);
            let start = if self.is_gather() { 0 } else { end };
            end = start.saturating_add(into.len());
            (start..end, into)
        })
    }

    /// Bytes of the slot of the other rank of two.
    #[inline]
    fn taken_bytes(&self) -> usize {
        let blocks = self.takes(self.other()).map(|(part, _)| part.end).max().unwrap_or(0);
        if self.has_table() { blocks.saturating_add(self.table_bytes()) } else { blocks }
    }

    /// Bytes that `from` should give it, which gives so many.
    #[inline]
    fn expects(&self, from: u32, theirs: u64) -> u64 {
        let mut ends = self.takes(from).map(|(part, _)| part.end as u64);
        if self.is_gather() {
            // The same for each time that it takes them.
            return ends.find(|end| *end != theirs).unwrap_or(theirs);
        }
        ends.last().unwrap_or(0)
    }

    /// Returns the number of steps by which `to` is behind `from`.
    #[inline]
    const fn distance(&self, from: u32, to: u32) -> u32 {
        let size = self.task.size;
        if from <= to { to.wrapping_sub(from) } else { size.wrapping_sub(from.wrapping_sub(to)) }
    }

    /// Writes the table and all blocks into a slot.
    fn pack(&self, slot: &mut [u8]) -> Result<(), Cause> {
        let mut packing = Packing::new(slot, self.table_bytes())?;
        let mut sent = self.all(NeighborAction::Send).peekable();
        for distance in 1..self.task.size {
            while let Some(entry) =
                sent.next_if(|entry| self.distance(self.task.rank, entry.rank) == distance)
            {
                packing.put(self.input.get(self.block(self.given, entry.block)).ok_or(Cause::Stale)?)?;
            }
            packing.end();
        }
        Ok(())
    }

    /// Returns the part of the slot of `from` that is for this rank.
    #[inline]
    fn unpack<'l>(&self, from: u32, slot: &'l [u8]) -> Result<&'l [u8], Cause> {
        if !self.has_table() {
            return Ok(slot);
        }
        // The first block is for the next rank.
        let number = self.distance(from, self.task.rank).saturating_sub(1);
        table::block(slot, self.table_bytes(), number)
    }

    /// Takes what stands in the slot of `from`.
    #[inline]
    fn take_of(&self, from: u32, slot: &[u8], data: &mut [u8]) -> Result<(), Cause> {
        if self.is_known && !self.is_gather() {
            let mut received = self.all(NeighborAction::Receive).filter(|entry| entry.rank == from);
            return received.try_for_each(|to| {
                let part = slot.get(self.block(self.given, to.turn)).ok_or(Cause::Incompatible)?;
                put(data, self.block(self.taken, to.block), part)
            });
        }
        let given = self.unpack(from, slot)?;
        let theirs = given.len() as u64;
        let own = self.expects(from, theirs);
        if own != theirs {
            return Err(Cause::UnlikeLength { own, theirs });
        }
        self.takes(from)
            .try_for_each(|(part, into)| put(data, into, given.get(part).ok_or(Cause::Incompatible)?))
    }

    /// Copies what this rank has for itself.
    #[inline]
    fn take_own(&self, data: &mut [u8]) -> Result<(), Cause> {
        self.all(NeighborAction::Copy).try_for_each(|entry| {
            let place = if self.is_gather() { 0 } else { entry.given };
            let from = self.input.get(self.block(self.given, place)).ok_or(Cause::Stale)?;
            put(data, self.block(self.taken, entry.block), from)
        })
    }
}

#[inline]
fn put(data: &mut [u8], place: Range<usize>, bytes: &[u8]) -> Result<(), Cause> {
    copy(data.get_mut(place).ok_or(Cause::Stale)?, bytes)
}

/// Returns the common part of two ranges, as a part of either.
#[inline]
fn shared(left: &Range<usize>, right: &Range<usize>) -> Option<(Range<usize>, Range<usize>)> {
    let (start, end) = (left.start.max(right.start), left.end.min(right.end));
    let within = |of: &Range<usize>| start.saturating_sub(of.start)..end.saturating_sub(of.start);
    (start < end).then(|| (within(left), within(right)))
}

impl Role for NeighborExchange<'_> {
    #[inline]
    fn task(&self) -> &Task {
        &self.task
    }

    #[inline]
    fn fits(&self, slot_bytes: u32) -> bool {
        u64::from(slot_bytes) >= SLOT_BYTES
    }

    #[inline]
    fn passes_chunks(&self) -> bool {
        self.passes
    }

    fn run(&self, shape: &ControlSlotsShape) -> Result<Option<ChunkRun>, Cause> {
        if self.passes { self.run_of_two(shape).map(Some) } else { Ok(None) }
    }

    #[inline]
    fn note(&self) -> Note {
        let note = self.task.note();
        if self.passes { Note { bytes: self.handed() + IN_CHUNKS, ..note } } else { note }
    }

    #[inline]
    fn give(&self, slots: &mut ControlSlots<'_>, number: u32, _data: &[u8]) -> Result<(), NotReady> {
        let note = self.task.note();
        match note.bytes > SLOT_BYTES {
            true => slots.publish(number, note, &[]),
            false if self.has_table() => slots.pack(number, note, |slot| self.pack(slot)),
            false => slots.publish(number, note, self.input),
        }
    }

    #[inline]
    fn reads_slot_of(&self, rank: u32) -> bool {
        match self.is_known {
            true => self.all(NeighborAction::Receive).any(|entry| entry.rank == rank),
            false => rank != self.task.rank && !self.is_typed(),
        }
    }

    #[inline]
    fn check_note(&self, _rank: u32, note: Note) -> Result<(), Cause> {
        self.task.check_call(note)?;
        let theirs = note.bytes & (IN_CHUNKS - 1);
        if self.passes && theirs != note.bytes {
            self.heard.set(Some(theirs));
            return Ok(());
        }
        let (own, is_more) = (self.task.bytes as u64, note.bytes > SLOT_BYTES);
        if self.is_known && own != note.bytes {
            return Err(Cause::UnlikeLength { own, theirs });
        }
        self.is_long.set(self.is_long() || is_more);
        Ok(())
    }

    #[inline]
    fn settle(&self, given: &Contributions<'_, '_>, data: &mut [u8]) -> Result<(), (Cause, Option<u32>)> {
        if self.is_long() {
            return Ok(());
        }
        let mut before = None;
        for from in self.all(NeighborAction::Receive).map(|entry| entry.rank) {
            if before.replace(from) == Some(from) {
                continue;
            }
            let taken = given.of(from).and_then(|slot| self.take_of(from, slot, data));
            taken.map_err(|cause| (cause, Some(from)))?;
        }
        self.take_own(data).map_err(|cause| (cause, None))
    }

    fn positions(&self, run: &ChunkRun) -> Option<u32> {
        self.positions_of_two(run)
    }

    fn pass(
        &self,
        run: &mut ChunkRun,
        slots: &mut ControlSlots<'_>,
        data: &mut [u8],
    ) -> Result<bool, Stopped> {
        self.pass_of_two(run, slots, data)
    }
}

impl Pair for NeighborExchange<'_> {
    fn other(&self) -> u32 {
        1_u32.wrapping_sub(self.task.rank)
    }

    fn is_taker(&self) -> bool {
        true
    }

    fn element_bytes(&self) -> usize {
        1
    }

    fn handed(&self) -> u64 {
        self.given_bytes() as u64
    }

    fn taken(&self, heard: u64) -> u64 {
        self.expects(self.other(), heard)
    }

    fn heard(&self) -> Option<u64> {
        self.heard.get()
    }

    fn hand(&self, part: Range<usize>, chunk: OwnChunk<'_>, _data: &[u8]) -> Result<(), Cause> {
        if self.is_gather() {
            let (into, from) = (chunk.bytes.get_mut(..part.len()), self.input.get(part));
            let both = into.zip(from).ok_or(Cause::Stale);
            return both.and_then(|(into, from)| publish(into, from, chunk.store));
        }
        let mut end = 0_usize;
        for entry in self.all(NeighborAction::Send) {
            let block = self.block(self.given, entry.block);
            let stands = end..end.saturating_add(block.len());
            end = stands.end;
            if let Some((within, to)) = shared(&stands, &part) {
                let from = self.input.get(block).and_then(|block| block.get(within));
                let into = chunk.bytes.get_mut(to).ok_or(Cause::Stale)?;
                publish(into, from.ok_or(Cause::Stale)?, chunk.store)?;
            }
        }
        Ok(())
    }

    fn take(&self, part: Range<usize>, chunk: &[u8], data: &mut [u8]) -> Result<(), Cause> {
        self.takes(self.other()).try_for_each(|(stands, into)| match shared(&stands, &part) {
            Some((within, from)) => {
                let place = into.start.saturating_add(within.start)..into.start.saturating_add(within.end);
                put(data, place, chunk.get(from).ok_or(Cause::Stale)?)
            }
            None => Ok(()),
        })
    }

    fn end(&self, data: &mut [u8]) -> Result<(), Cause> {
        self.is_long.set(false);
        self.take_own(data)
    }
}
