//! The role of a rank in a collective that is started, and goes on while others do.

use aldis_kernel::hal::Cause;
use aldis_kernel::hal::shared_control::{ControlSlotsShape, Note};
use aldis_kernel::{ControlSlots, NotReady};

use super::chunks::ChunkRun;
use super::drive::serves;
use super::{Contributions, NeighborExchange, Portions, Role, Stopped, Task};
use crate::layout::Layout;
use crate::select::{Call, slots};

/// Bytes of the longest block that is written ahead: what is longer the other rank copies once,
/// from where it stands.
const AHEAD_BYTES_MAX: usize = 128 << 10;

/// The role of a rank in a collective that is started.
pub(crate) enum StartedRole<'m> {
    /// In one on data that are one stretch.
    Stretch(Task),
    /// In one on blocks, or a scan.
    Blocks(Portions<'m>),
    /// In one among neighbours.
    Neighbors(NeighborExchange<'m>),
}

impl<'m> StartedRole<'m> {
    /// Returns the role in a call whose data are one stretch.
    #[inline]
    pub(crate) fn of_stretch(call: &Call, task: Task) -> Self {
        match slots::is_handed_over(call) {
            true => Self::Blocks(Portions::new(call, task, Layout::Whole, None)),
            false => Self::Stretch(task),
        }
    }

    /// Returns the role in a call that slots of this shape hold, or two ranks pass in chunks: in as
    /// many as there are, if it goes on while the ranks do other things. `None` if it is for
    /// messages, or more is to be asked.
    #[inline(always)]
    pub(crate) fn if_served(self, shape: &ControlSlotsShape, is_driven: bool) -> Option<Self> {
        let is_for_mode = !is_driven || !self.passes_chunks() || self.writes_ahead(shape);
        (is_for_mode && serves(shape, &self)).then_some(self)
    }

    /// Returns true if slots of this shape hold all that ranks give, and there is anything.
    #[inline]
    pub(crate) fn stands_in(&self, shape: &ControlSlotsShape) -> bool {
        !self.passes_chunks() && !self.task().is_idle() && self.fits(shape.slot_bytes)
    }

    /// Returns true if every rank can write all of its chunks before another has read any.
    fn writes_ahead(&self, shape: &ControlSlotsShape) -> bool {
        let Ok(Some(run)) = self.run(shape) else { return false };
        let of_bytes = |bytes: usize| {
            let segments = u32::try_from(bytes.div_ceil(run.segment_bytes().max(1)));
            segments.ok().filter(|_| bytes <= AHEAD_BYTES_MAX)
        };
        let positions = match self {
            Self::Stretch(task) => task.positions(&run).filter(|_| task.bytes <= 2 * AHEAD_BYTES_MAX),
            Self::Blocks(portions) => of_bytes(portions.longest_bytes),
            Self::Neighbors(exchange) => of_bytes(exchange.task().bytes),
        };
        positions.is_some_and(|positions| positions <= shape.chunks)
    }

    /// Returns true if no rank knows that slots hold all before it has read them: messages may
    /// follow.
    #[inline]
    pub(crate) fn has_unknown_lengths(&self) -> bool {
        slots::has_unknown_lengths(self.task().operation)
    }

    /// Returns the bytes by which it is decided whether two ranks pass them in a message.
    pub(crate) fn message_bytes(&self, call: &Call) -> u64 {
        match self {
            Self::Blocks(portions) => portions.message_bytes(call),
            Self::Stretch(_) | Self::Neighbors(_) => slots::bytes(call),
        }
    }

    /// Returns true if a slot did not hold all that a rank gives, so that messages were to follow.
    pub(crate) fn is_long(&self) -> bool {
        match self {
            Self::Stretch(_) => false,
            Self::Blocks(portions) => portions.is_long(),
            Self::Neighbors(exchange) => exchange.is_long(),
        }
    }
}

/// Calls the same function of the role that it is.
macro_rules! by_kind {
    ($role:expr, $bound:ident => $call:expr) => {
        match $role {
            StartedRole::Stretch($bound) => $call,
            StartedRole::Blocks($bound) => $call,
            StartedRole::Neighbors($bound) => $call,
        }
    };
}

impl Role for StartedRole<'_> {
    #[inline]
    fn task(&self) -> &Task {
        by_kind!(self, role => role.task())
    }

    #[inline]
    fn fits(&self, slot_bytes: u32) -> bool {
        by_kind!(self, role => role.fits(slot_bytes))
    }

    fn passes_chunks(&self) -> bool {
        by_kind!(self, role => role.passes_chunks())
    }

    fn run(&self, shape: &ControlSlotsShape) -> Result<Option<ChunkRun>, Cause> {
        by_kind!(self, role => role.run(shape))
    }

    #[inline]
    fn note(&self) -> Note {
        by_kind!(self, role => role.note())
    }

    #[inline(always)]
    fn give(&self, slots: &mut ControlSlots<'_>, number: u32, data: &[u8]) -> Result<(), NotReady> {
        by_kind!(self, role => role.give(slots, number, data))
    }

    #[inline]
    fn reads_slot_of(&self, rank: u32) -> bool {
        by_kind!(self, role => role.reads_slot_of(rank))
    }

    #[inline]
    fn check_note(&self, rank: u32, note: Note) -> Result<(), Cause> {
        by_kind!(self, role => role.check_note(rank, note))
    }

    #[inline]
    fn settle(&self, given: &Contributions<'_, '_>, data: &mut [u8]) -> Result<(), (Cause, Option<u32>)> {
        by_kind!(self, role => role.settle(given, data))
    }

    fn lends<'b>(&self, shape: &ControlSlotsShape, data: &'b [u8]) -> Option<&'b [u8]>
    where
        Self: 'b,
    {
        by_kind!(self, role => role.lends(shape, data))
    }

    fn positions(&self, run: &ChunkRun) -> Option<u32> {
        by_kind!(self, role => role.positions(run))
    }

    fn pass(
        &self,
        run: &mut ChunkRun,
        slots: &mut ControlSlots<'_>,
        data: &mut [u8],
    ) -> Result<bool, Stopped> {
        by_kind!(self, role => role.pass(run, slots, data))
    }
}
