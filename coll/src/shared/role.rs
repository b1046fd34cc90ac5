//! The part of a rank in a collective by control slots: what it gives, reads, and makes of it.

use aldis_kernel::hal::Cause;
use aldis_kernel::hal::shared_control::{ControlSlotsShape, Note};
use aldis_kernel::{ControlSlots, NotReady};

use super::chunks::ChunkRun;
use super::{Stopped, Task};

/// The contents of the slots of a collective, all of which have been read.
pub(crate) struct Contributions<'l, 'a> {
    pub(super) slots: &'l ControlSlots<'a>,
    pub(super) number: u32,
    /// The slot that was read last, and its rank.
    pub(super) last: Option<(u32, &'l [u8])>,
}

impl<'l> Contributions<'l, '_> {
    /// Returns what stands in the slot of `rank`.
    ///
    /// # Errors
    /// [`Cause::Stale`] if nothing does; why it cannot be read.
    #[inline(always)]
    pub(super) fn of(&self, rank: u32) -> Result<&'l [u8], Cause> {
        match self.last {
            Some((last, payload)) if last == rank => Ok(payload),
            _ => Ok(self.slots.look(self.number, rank)?.ok_or(Cause::Stale)?.payload),
        }
    }
}

/// The part of a rank with slots, and with memory of its own beside the data.
pub(crate) trait Role {
    /// Returns the task: the rank, and the collective that it takes part in.
    fn task(&self) -> &Task;

    /// Returns true if what it gives is for a slot of so many bytes.
    fn fits(&self, slot_bytes: u32) -> bool;

    /// Returns true if it passes chunks, unless it reads otherwise.
    fn passes_chunks(&self) -> bool;

    /// Returns true if chunks are passed in its call, also if it makes messages of them itself.
    #[inline(always)]
    fn is_passed(&self) -> bool {
        self.passes_chunks()
    }

    /// Returns the run by which it passes chunks, if its slot does not say all.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for an element that is larger than a chunk, and for too many chunks.
    fn run(&self, shape: &ControlSlotsShape) -> Result<Option<ChunkRun>, Cause>;

    /// Returns the note of its slot.
    #[inline]
    fn note(&self) -> Note {
        self.task().note()
    }

    /// Writes this rank's slot.
    ///
    /// # Errors
    /// The rank that has not finished with what stands in this rank's slot, or the cause of
    /// failure, as [`ControlSlots::publish`].
    fn give(&self, slots: &mut ControlSlots<'_>, number: u32, data: &[u8]) -> Result<(), NotReady>;

    /// Returns true if it must read another rank's slot, which says all.
    #[inline]
    fn reads_slot_of(&self, rank: u32) -> bool {
        self.task().reads_slot_of(rank)
    }

    /// Takes note of what `rank` says.
    ///
    /// # Errors
    /// The cause that refuses it.
    fn check_note(&self, rank: u32, note: Note) -> Result<(), Cause>;

    /// The result of what stands in slots, all of which have been read.
    ///
    /// # Errors
    /// The cause that refuses it, and the rank whose slot says so if it is about one.
    fn settle(&self, given: &Contributions<'_, '_>, data: &mut [u8]) -> Result<(), (Cause, Option<u32>)>;

    /// Returns the memory that it lends to the other rank of two, which reads it sooner than it
    /// takes it from chunks of slots of this shape.
    fn lends<'b>(&self, shape: &ControlSlotsShape, data: &'b [u8]) -> Option<&'b [u8]>
    where
        Self: 'b,
    {
        let _ = (shape, data);
        None
    }

    /// Positions that its chunks take, once all slots have been read; `None` if it passes none
    /// after all.
    fn positions(&self, run: &ChunkRun) -> Option<u32>;

    /// Takes a step of its chunks, if it can be taken now; true after the last one.
    ///
    /// # Errors
    /// Why it cannot.
    fn pass(
        &self,
        run: &mut ChunkRun,
        slots: &mut ControlSlots<'_>,
        data: &mut [u8],
    ) -> Result<bool, Stopped>;
}

/// Forwards what it does to the role that it refers to.
macro_rules! forwards {
    ($($(#[$meta:meta])* fn $name:ident(&self $(, $arg:ident: $kind:ty)*) -> $returns:ty;)*) => {
        impl<R: Role> Role for &R {
            $($(#[$meta])* fn $name(&self $(, $arg: $kind)*) -> $returns {
                R::$name(self $(, $arg)*)
            })*

            fn lends<'b>(&self, shape: &ControlSlotsShape, data: &'b [u8]) -> Option<&'b [u8]>
            where
                Self: 'b,
            {
                R::lends(self, shape, data)
            }
        }
    };
}

forwards! {
    #[inline(always)]
    fn task(&self) -> &Task;
    #[inline(always)]
    fn fits(&self, slot_bytes: u32) -> bool;
    #[inline(always)]
    fn passes_chunks(&self) -> bool;
    #[inline(always)]
    fn is_passed(&self) -> bool;
    fn run(&self, shape: &ControlSlotsShape) -> Result<Option<ChunkRun>, Cause>;
    #[inline(always)]
    fn note(&self) -> Note;
    #[inline(always)]
    fn give(&self, slots: &mut ControlSlots<'_>, number: u32, data: &[u8]) -> Result<(), NotReady>;
    #[inline(always)]
    fn reads_slot_of(&self, rank: u32) -> bool;
    #[inline(always)]
    fn check_note(&self, rank: u32, note: Note) -> Result<(), Cause>;
    #[inline(always)]
    fn settle(&self, given: &Contributions<'_, '_>, data: &mut [u8]) -> Result<(), (Cause, Option<u32>)>;
    fn positions(&self, run: &ChunkRun) -> Option<u32>;
    fn pass(
        &self, run: &mut ChunkRun, slots: &mut ControlSlots<'_>, data: &mut [u8]
    ) -> Result<bool, Stopped>;
}
