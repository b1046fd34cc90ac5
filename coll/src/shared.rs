//! Collectives by control slots (*slots* for short), for ranks that share memory: the algorithm
//! `shared` of every operation here.
//!
//! It is no schedule: no message is sent. Every rank writes what it contributes once, into memory
//! of its own that all the others read ([`aldis_kernel::hal::shared_control`] has the rules), so
//! that a collective takes as long as a cache line's journey from core to core, whatever the number
//! of ranks:
//!
//! | bytes | what a rank writes | what it reads |
//! |---|---|---|
//! | none (barrier) | its slot | all ranks' |
//! | up to a slot's | its slot, the bytes in it | the root's, or all ranks', to reduce them |
//! | more, allreduce | segments, then its part reduced | its part of all, then all parts |
//! | more, bcast, reduce to one of many, allreduce of two | segments | the root's, or all |
//! | up to [`SLOT_BYTES`], blocks, scans | its slot: all that it gives | those of whom it takes |
//! | up to [`SLOT_BYTES`], neighbours in a grid | its slot: all that it gives | its neighbours' |
//! | up to [`SLOT_BYTES`], neighbours, <= 8 ranks | its slot: all that it gives | those of all |
//! | more, blocks, scans and reduce of two | segments of what the other takes | the other's |
//! | more, of two, where that is faster | where its data are, which it lends | them |
//! | more, blocks for all of <= 8 ranks | segments of what the others take | the others' |
//!
//! **Blocks and scans** are for calls that block, or are waited for as soon as they are started,
//! whose blocks stand in slots, or two ranks pass in chunks. Where a rank does not know what others
//! give - blocks of unlike lengths - it writes its slot in any case; one that says that it gives
//! more than a slot holds sends all to messages, unless there are but two and the other does so
//! too. So does one that gives elements of datatypes, at once.
//!
//! **Segments.** More than a chunk is cut into segments of at most that; ranks that write are ahead
//! of those who read by a few, so that both copy at a time. An allreduce is a reduce-scatter and an
//! allgather (Thakur, Rabenseifner, Gropp 2005, section 4.5) of each segment: every rank reduces a
//! part of it, and while a segment is being reduced the next one is written and the one before is
//! collected.
//!
//! **Lent.** Where two ranks have measured that one reads the other's memory sooner than both copy
//! through chunks, a rank whose data are copied, or reduced by the other alone, says in its slot
//! where they are, and is over once the other has read them. One that gives up before says so by
//! that: what is read is taken for its data only if it is found in the collective after the read.
//!
//! **Same bits.** Every operand is combined from the first rank's to the last's, whichever rank
//! does it: all ranks have the same bits, and operations need not commute.
//!
//! **Who can.** The ranks of a node, on a communicator that has a set of slots
//! ([`aldis_kernel::ControlSlots`]). A call that names it elsewhere is refused, with the reason; a
//! call that leaves the choice to selection takes messages there. A nonblocking call uses it if it
//! names it, or if its rank drives all that it has started, and a persistent one if it has a
//! communicator [to itself](crate::StartMode::Dedicated): there are slots for some collectives of a
//! communicator at a time and one stream of chunks, which the started ones take in their order. One
//! that waits for another of this rank, which is not driven, ends with [`Cause::Full`].
//!
//! **What goes wrong.** A rank that has left or is lost ends it with the cause and that rank's
//! name; a deadline names the first rank that is missing. Lengths that differ are found before
//! anything is copied. What other ranks write is never taken for a length or a place: those are
//! worked out from this rank's own arguments, and where a slot says how blocks stand in it, that
//! must be inside of it and as long as this rank expects.

mod blocks;
mod chunks;
mod drive;
mod fast_path;
mod neighbor_exchange;
mod pairs;
mod parts;
mod role;
mod started;
mod table;

use core::sync::atomic::{Ordering, fence};

use aldis_kernel::hal::shared_control::{ControlSlotsShape, Note, Start};
use aldis_kernel::hal::{Activity, Cause, Operation, PeerId};
use aldis_kernel::{Comm, ControlSlots, NotReady};
pub(crate) use blocks::{GivenBlocks, Portions};
use chunks::{ChunkRun, WorkShare};
pub(crate) use drive::{CROWDED, SlotForm, run};
pub(crate) use fast_path::{try_run, try_run_unless, try_start};
pub(crate) use neighbor_exchange::{NeighborExchange, Neighbors};
use pairs::{IN_CHUNKS, LENT};
pub(crate) use role::{Contributions, Role};
pub(crate) use started::StartedRole;

use crate::op::{Kernel, copy};
use crate::schedule::{Order, is_among_neighbors};
use crate::select::Call;
pub(crate) use crate::select::slots::algorithm;
pub use crate::select::slots::{NAME, SLOT_BYTES};
use crate::select::slots::{is_lendable, is_read};
use crate::tag::ROOTS;

/// An allreduce of at most so many bytes is reduced by every rank for itself, as that of two ranks
/// which stands in a slot: one journey instead of two, for more reading.
pub const FLAT_BYTES_MAX: u64 = 4096;

/// A payload of so many bytes might stand beside the slots.
const LONG_BYTES_MIN: usize = 2048;

/// More bytes than any rank gives.
const WAITING: u64 = (1 << 48) - 1;

/// Steps that one call takes at most: what bounds its work, with the size of a chunk.
const STEPS_A_CALL: u32 = 8;

/// A witness that control slots are there. Where words have 32 bits there is no value of this type,
/// and so no code.
#[cfg(target_pointer_width = "64")]
pub(crate) type Here = ();
#[cfg(not(target_pointer_width = "64"))]
pub(crate) type Here = core::convert::Infallible;

#[cfg(target_pointer_width = "64")]
pub(crate) const HERE: Option<Here> = Some(());
#[cfg(not(target_pointer_width = "64"))]
pub(crate) const HERE: Option<Here> = None;

/// A collective by control slots, as one rank sees it.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    pub(crate) operation: Operation,
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) root: u32,
    /// Bytes of the data.
    pub(crate) bytes: usize,
    pub(crate) element_bytes: u32,
    pub(crate) kernel: Option<Kernel>,
}

impl Task {
    /// Returns the part of a rank in a call whose data are one stretch.
    #[inline(always)]
    pub(crate) const fn new(call: &Call, root: u32, kernel: Option<Kernel>, rank: u32) -> Self {
        let &Call { operation, size, count, element_bytes, .. } = call;
        let bytes = count.saturating_mul(element_bytes as usize);
        Self { operation, rank, size, root, bytes, element_bytes, kernel }
    }

    /// Returns this part with so many bytes of data.
    #[inline(always)]
    pub(crate) const fn with_bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// Returns true if the data of all ranks, or of none, are read: every rank reads from all.
    const fn is_of_all(&self) -> bool {
        use Operation::{Bcast, Exscan, Gather, Gatherv, Reduce, Scan, Scatter, Scatterv};
        match self.operation {
            Bcast | Gather | Gatherv | Scatter | Scatterv | Scan | Exscan => false,
            // One of two that gives does not wait for the root.
            Reduce => self.size > 2,
            _ => true,
        }
    }

    /// Returns true if this rank ends with a result.
    const fn receives(&self) -> bool {
        use Operation::{Bcast, Gather, Gatherv, Reduce, Scatter, Scatterv};
        match self.operation {
            Reduce | Gather | Gatherv => self.rank == self.root,
            Bcast | Scatter | Scatterv => self.rank != self.root,
            _ => true,
        }
    }

    /// Returns true if this rank gives its data to others, or reads its own back.
    const fn gives(&self) -> bool {
        use Operation::{Bcast, Exscan, Gather, Gatherv, Reduce, Scan, Scatter, Scatterv};
        match self.operation {
            Bcast | Scatter | Scatterv => self.rank == self.root,
            Gather | Gatherv => self.rank != self.root,
            // A root that combines those before it first reads its own back.
            Reduce => self.rank != self.root || self.rank > 1,
            Scan | Exscan => self.rank > 1 || self.rank.saturating_add(1) < self.size,
            _ => true,
        }
    }

    /// Returns true if this rank must read another's slot, which says all.
    #[inline]
    const fn reads_slot_of(&self, rank: u32) -> bool {
        use Operation::{Bcast, Exscan, Scan, Scatter, Scatterv};
        let is_read = match self.operation {
            Bcast | Scatter | Scatterv => rank == self.root,
            Scan | Exscan => rank < self.rank,
            _ => true,
        };
        rank != self.rank && self.receives() && is_read
    }

    /// Returns true if one of two may lend what it gives.
    const fn is_lendable(&self) -> bool {
        is_lendable(self.operation, self.size)
    }

    /// Returns the way in which its chunks are passed.
    const fn way(&self) -> WorkShare {
        match self.operation {
            Operation::Bcast => WorkShare::Copy,
            // Of two, each reads what the other gives, once.
            Operation::Allreduce if self.size > 2 => WorkShare::Split,
            _ => WorkShare::Fold,
        }
    }

    #[inline]
    const fn note(&self) -> Note {
        let root = (self.root % ROOTS) as u8;
        Note { operation: self.operation as u32 as u8, root, bytes: self.bytes as u64 }
    }

    /// Returns the note of a rank that waits and gives nothing: no rank takes it for data.
    const fn waiting(&self) -> Note {
        Note { bytes: WAITING, ..self.note() }
    }

    /// Writes this rank's slot. What ranks give each other at a time stands in the slot even if it
    /// is long: none of them is behind, so that places beside it are written while they are read.
    #[inline(always)]
    fn publish(&self, slots: &mut ControlSlots<'_>, number: u32, payload: &[u8]) -> Result<(), NotReady> {
        if payload.len() < LONG_BYTES_MIN || !self.is_of_all() {
            return slots.publish(number, self.note(), payload);
        }
        let write = |slot: &mut [u8]| copy(slot.get_mut(..payload.len()).ok_or(Cause::Stale)?, payload);
        slots.pack(number, self.note(), write)
    }

    /// Returns the cause of failure if a rank has called this instead.
    const fn unlike(&self, theirs: Operation, their_root: u8) -> Cause {
        let (own, own_root, is_exact) = (self.operation, self.note().root, self.size <= ROOTS);
        Cause::UnlikeCall { own, own_root, theirs, their_root, is_exact }
    }

    /// Refuses what a rank says that makes another call.
    #[inline]
    fn check_call(&self, Note { operation, root, .. }: Note) -> Result<(), Cause> {
        let own = self.note();
        if (operation, root) == (own.operation, own.root) {
            return Ok(());
        }
        let unlike = Operation::from_number(operation).map(|theirs| self.unlike(theirs, root));
        Err(unlike.unwrap_or(Cause::Incompatible))
    }

    /// Returns the cause of failure if a rank says this of another call, or of other data.
    #[cold]
    fn mismatch(&self, note: Note) -> Cause {
        let theirs = note.bytes & (IN_CHUNKS - 1);
        let unlike = Cause::UnlikeLength { own: self.bytes as u64, theirs };
        self.check_call(note).err().unwrap_or(unlike)
    }

    /// Returns the activity of a rank that waits for `missing`.
    fn activity(&self, comm: &Comm, missing: Option<u32>) -> Activity {
        let (peer, context) = (missing.map(PeerId), comm.collective().context());
        Activity { operation: self.operation, peer, tag: None, context, bytes: self.bytes as u64 }
    }

    /// Returns true if there is nothing to do, on any rank.
    const fn is_idle(&self) -> bool {
        use Operation::{Allgatherv, Alltoallv, Alltoallw, Barrier, Gatherv, Scatterv};
        let is_for_all = matches!(self.operation, Allgatherv | Alltoallv | Alltoallw | Gatherv | Scatterv)
            || is_among_neighbors(self.operation);
        self.size < 2 || (self.bytes == 0 && !is_for_all && !matches!(self.operation, Barrier))
    }

    /// Reduces the operands of the first `ranks`, in their order, into `data`, which holds this
    /// rank's own. From the third rank on the ones before it are combined first, and it reads its
    /// own back from what it has written.
    fn fold<'l>(
        &self,
        ranks: u32,
        data: &mut [u8],
        operand: impl Fn(u32) -> Result<&'l [u8], Cause>,
    ) -> Result<(), Cause> {
        let kernel = self.kernel.ok_or(Cause::Unsupported)?;
        let mut next = 1;
        match self.rank {
            0 => {}
            1 => {
                kernel.run(data, operand(0)?, Order::FromFirst)?;
                next = 2;
            }
            _ => copy(data, operand(0)?)?,
        }
        (next..ranks).try_for_each(|rank| kernel.run(data, operand(rank)?, Order::IntoFirst))
    }

    /// Reduces the operands of a scan that are for this rank, as [`fold`](Self::fold) does those of
    /// all: those up to this rank's, or before it.
    #[inline(always)]
    fn scan<'l>(
        &self,
        data: &mut [u8],
        operand: impl Fn(u32) -> Result<&'l [u8], Cause>,
    ) -> Result<(), Cause> {
        match self.operation {
            Operation::Exscan if self.rank == 0 => Ok(()),
            Operation::Exscan => {
                let kernel = self.kernel.ok_or(Cause::Unsupported)?;
                copy(data, operand(0)?)?;
                (1..self.rank).try_for_each(|before| kernel.run(data, operand(before)?, Order::IntoFirst))
            }
            _ => self.fold(self.rank.saturating_add(1), data, operand),
        }
    }
}

impl Role for Task {
    #[inline]
    fn task(&self) -> &Task {
        self
    }

    #[inline]
    fn fits(&self, slot_bytes: u32) -> bool {
        let is_apart = matches!(self.operation, Operation::Allreduce) && self.size > 2;
        self.bytes <= if is_apart { FLAT_BYTES_MAX as usize } else { slot_bytes as usize }
    }

    fn passes_chunks(&self) -> bool {
        false
    }

    fn run(&self, shape: &ControlSlotsShape) -> Result<Option<ChunkRun>, Cause> {
        if self.fits(shape.slot_bytes) { Ok(None) } else { ChunkRun::new(self, shape).map(Some) }
    }

    #[inline]
    fn give(&self, slots: &mut ControlSlots<'_>, number: u32, data: &[u8]) -> Result<(), NotReady> {
        self.publish(slots, number, data)
    }

    #[inline]
    fn check_note(&self, _rank: u32, note: Note) -> Result<(), Cause> {
        if note == self.note() { Ok(()) } else { Err(self.mismatch(note)) }
    }

    #[inline]
    fn settle(&self, given: &Contributions<'_, '_>, data: &mut [u8]) -> Result<(), (Cause, Option<u32>)> {
        let slot = |rank| given.of(rank);
        let settled = match self.operation {
            Operation::Barrier => Ok(()),
            _ if !self.receives() => Ok(()),
            Operation::Bcast => slot(self.root).and_then(|slot| copy(data, slot)),
            Operation::Scan | Operation::Exscan => self.scan(data, slot),
            _ => self.fold(self.size, data, slot),
        };
        settled.map_err(|cause| (cause, None))
    }

    fn lends<'b>(&self, shape: &ControlSlotsShape, data: &'b [u8]) -> Option<&'b [u8]>
    where
        Self: 'b,
    {
        if self.is_lendable() && self.gives() && is_read(shape, self.bytes as u64) {
            Some(data)
        } else {
            None
        }
    }

    fn positions(&self, run: &ChunkRun) -> Option<u32> {
        Some(match self.way() {
            WorkShare::Split => 2 * run.segments,
            _ => ChunkRun::positions_of(run.segments, run.lends || run.lent() != 0),
        })
    }

    fn pass(
        &self,
        run: &mut ChunkRun,
        slots: &mut ControlSlots<'_>,
        data: &mut [u8],
    ) -> Result<bool, Stopped> {
        run.step(self, slots, data)
    }
}

/// The outcome of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallOutcome {
    /// The collective is complete.
    Over,
    /// There is more to do at once.
    Moved,
    /// The collective waits for this rank.
    Missing(u32),
    /// The collective waits for another one of this rank.
    Crowded,
    /// This rank, if it is about one, has ended it.
    Failed(Cause, Option<u32>),
}

/// The reason why a step was not taken: a turn without one.
type Stopped = CallOutcome;

impl From<Cause> for CallOutcome {
    fn from(cause: Cause) -> Self {
        Self::Failed(cause, None)
    }
}

impl From<NotReady> for CallOutcome {
    fn from(withheld: NotReady) -> Self {
        match withheld {
            NotReady::By(rank) => Self::Missing(rank),
            NotReady::For(cause, rank) => Self::Failed(cause, rank),
        }
    }
}

/// Of another rank.
fn about(rank: u32) -> impl Fn(Cause) -> Stopped {
    move |cause| CallOutcome::Failed(cause, Some(rank))
}

/// The progress of a collective.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SharedStage {
    /// This rank's slot is to be written.
    Enter,
    /// The others' slots are to be read.
    Read,
    /// Chunks are passed.
    Pass,
    Over,
}

/// No rank.
const NOBODY: u32 = u32::MAX;

/// A collective by control slots under way.
pub(crate) struct FlatCollective<R> {
    role: R,
    /// Its number on the communicator.
    number: u32,
    stage: SharedStage,
    /// The first rank whose slot has not been read in this stage.
    next: u32,
    /// Turns that found nothing.
    idle: u32,
    /// The rank that was missing then, or [`NOBODY`].
    missing: u32,
    /// True once it has let others know that it waits.
    has_published: bool,
    /// True if it goes on while others of this rank do: they take the chunks in the same order on
    /// all ranks.
    is_started: bool,
    /// The run by which chunks are passed; none if a slot holds everything.
    run: Option<ChunkRun>,
    _here: Here,
}

impl<R: Role> FlatCollective<R> {
    /// The collective of a task that is over.
    pub(crate) fn over(role: R) -> Option<Self> {
        HERE.map(|here| Self { stage: SharedStage::Over, ..Self::entering(role, 0, here) })
    }

    /// The collective that has this number, for slots of this shape; `None` on a machine that has
    /// none of this.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for an element that is larger than a chunk, and for too many chunks.
    pub(crate) fn new(role: R, number: u32, shape: &ControlSlotsShape) -> Result<Option<Self>, Cause> {
        let begin = |here| {
            let is_idle = role.task().is_idle();
            let run = if is_idle { None } else { role.run(shape)? };
            let stage = if is_idle { SharedStage::Over } else { SharedStage::Enter };
            Ok(Self { stage, run, ..Self::entering(role, number, here) })
        };
        HERE.map(begin).transpose()
    }

    /// The collective that has this number, whose bytes stand in a slot that is to be written.
    #[inline(always)]
    const fn entering(role: R, number: u32, here: Here) -> Self {
        Self {
            role,
            number,
            stage: SharedStage::Enter,
            next: 0,
            idle: 0,
            missing: NOBODY,
            has_published: false,
            is_started: false,
            run: None,
            _here: here,
        }
    }

    /// Returns it as one that goes on while others of this rank do.
    pub(crate) fn started(self) -> Self {
        Self { is_started: true, ..self }
    }

    fn task(&self) -> &Task {
        self.role.task()
    }

    /// Returns this rank's role in it.
    pub(crate) const fn role(&self) -> &R {
        &self.role
    }

    /// Returns true if it is complete.
    pub(crate) fn is_over(&self) -> bool {
        self.stage == SharedStage::Over
    }

    /// Goes on like [`advance`](Self::advance), and looks so many times for what is missing.
    pub(crate) fn watch(&mut self, slots: &mut ControlSlots<'_>, data: &mut [u8], looks: u32) -> CallOutcome {
        let mut outcome = self.advance(slots, data);
        for _ in 1..looks {
            let CallOutcome::Missing(_) = outcome else { break };
            core::hint::spin_loop();
            outcome = self.advance(slots, data);
        }
        outcome
    }

    /// Goes on until it must wait, is over, or has done enough for one call.
    pub(crate) fn advance(&mut self, slots: &mut ControlSlots<'_>, data: &mut [u8]) -> CallOutcome {
        for _ in 0..STEPS_A_CALL {
            let went = match self.stage {
                SharedStage::Enter => self.enter(slots, data),
                SharedStage::Read => self.read_slots(slots, data),
                SharedStage::Pass => self.pass(slots, data),
                SharedStage::Over => return CallOutcome::Over,
            };
            if let Err(stopped) = went {
                if let CallOutcome::Failed(..) = stopped {
                    self.give_up(slots);
                }
                return stopped;
            }
        }
        CallOutcome::Moved
    }

    /// Has nothing more to do with it.
    pub(crate) fn give_up(&mut self, slots: &mut ControlSlots<'_>) {
        slots.finish(self.number);
        self.stage = SharedStage::Over;
        if self.run.as_ref().is_some_and(|run| run.lends) {
            // Before the memory is used for something else: a reader looks after it has read.
            fence(Ordering::SeqCst);
        }
    }

    /// Writes this rank's slot, if others read it.
    fn enter(&mut self, slots: &mut ControlSlots<'_>, data: &[u8]) -> Result<(), Stopped> {
        if !slots.admits(self.number) {
            return Err(CallOutcome::Crowded);
        }
        if self.run.is_some() {
            self.enter_run(slots, data)?;
        } else if self.task().gives() {
            self.role.give(slots, self.number, data)?;
        }
        self.stage = SharedStage::Read;
        Ok(())
    }

    /// Takes the chunks, and writes this rank's slot, if others read it: where its run begins, or
    /// what it lends. Not a part of a short call.
    #[inline(never)]
    fn enter_run(&mut self, slots: &mut ControlSlots<'_>, data: &[u8]) -> Result<(), Stopped> {
        let &mut Self { number, is_started, ref role, ref mut run, .. } = self;
        let Some(run) = run else { return Ok(()) };
        if is_started && !slots.is_oldest(number) {
            return Err(CallOutcome::Crowded);
        }
        run.first = slots.take_chunks(number).ok_or(CallOutcome::Crowded)?;
        run.number = number;
        if role.task().gives() || role.task().is_of_all() {
            // Of several collectives under way others could not see that this one is given up.
            let lent = role.lends(&slots.shape(), data).filter(|_| slots.is_oldest(number));
            run.lends = lent.is_some();
            let (note, beside) = (role.note(), if run.lends { LENT } else { 0 });
            let note = Note { bytes: note.bytes | beside, ..note };
            let address = lent.map_or(0, |lent| lent.as_ptr().expose_provenance() as u64);
            slots.publish(number, note, &Start { position: run.first, address }.emit())?;
        }
        Ok(())
    }

    /// Lets the others know what this rank waits for, if its slot says nothing: who waits for it in
    /// turn sees that they make unlike calls.
    fn publish_wait(&mut self, slots: &mut ControlSlots<'_>) {
        if self.stage == SharedStage::Read && !self.task().gives() && !self.has_published {
            // Once, as it may be read from now on.
            self.has_published = true;
            // No rank need read it, so what keeps it from being written does not matter.
            let _ = slots.publish(self.number, self.task().waiting(), &[]);
        }
    }

    /// Returns true if this rank must read another's slot: also where the other gives only its
    /// chunks.
    fn reads_slot_of(&self, rank: u32) -> bool {
        let passes = self.run.is_some() && self.task().is_of_all() && rank != self.task().rank;
        passes || self.role.reads_slot_of(rank)
    }

    /// Reads the others' slots, and is over unless there are chunks to pass.
    fn read_slots(&mut self, slots: &mut ControlSlots<'_>, data: &mut [u8]) -> Result<(), Stopped> {
        while self.next < self.task().size {
            if self.reads_slot_of(self.next) {
                self.read_slot(slots, self.next)?;
            }
            self.next += 1;
        }
        match &self.run {
            Some(run) => match self.role.positions(run) {
                Some(positions) => {
                    slots.run(run.first, positions);
                    self.stage = SharedStage::Pass;
                }
                None => self.give_up(slots),
            },
            None => {
                let given = Contributions { slots, number: self.number, last: None };
                let settled = self.role.settle(&given, data);
                settled.map_err(|(cause, rank)| CallOutcome::Failed(cause, rank))?;
                self.give_up(slots);
            }
        }
        Ok(())
    }

    fn read_slot(&mut self, slots: &ControlSlots<'_>, rank: u32) -> Result<(), Stopped> {
        let notice = slots.look(self.number, rank).map_err(about(rank))?.ok_or(CallOutcome::Missing(rank))?;
        let mut note = notice.note;
        let is_lent = self.run.is_some() && note.bytes & LENT != 0 && note.bytes != WAITING;
        if is_lent {
            note.bytes &= !LENT;
        }
        self.role.check_note(rank, note).map_err(about(rank))?;
        if self.run.is_some() { self.read_start(rank, is_lent, notice.payload) } else { Ok(()) }
    }

    /// Reads where the run of a rank begins whose contribution need not stand in its slot, or what
    /// it lends. Not a part of a short call.
    #[inline(never)]
    fn read_start(&mut self, rank: u32, is_lent: bool, payload: &[u8]) -> Result<(), Stopped> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let is_of_all = self.role.task().is_of_all();
        // Unless that rank has all in its slot, which then says no position.
        if self.role.positions(run).is_some() {
            let incompatible = CallOutcome::Failed(Cause::Incompatible, Some(rank));
            let start = Start::parse(payload).ok_or(incompatible)?;
            if is_lent && (!self.role.task().is_lendable() || start.address == 0) {
                return Err(incompatible);
            }
            run.set_lent(if is_lent { start.address } else { 0 });
            let ahead = start.position.wrapping_sub(run.first);
            // Ranks that a failed collective has left behind catch up with the others.
            if (ahead as i32) > 0 {
                run.first = run.first.wrapping_add(ahead);
            } else if ahead != 0 && !is_of_all {
                return Err(CallOutcome::Failed(Cause::Incompatible, Some(rank)));
            }
        }
        Ok(())
    }

    fn pass(&mut self, slots: &mut ControlSlots<'_>, data: &mut [u8]) -> Result<(), Stopped> {
        let Some(run) = &mut self.run else { return Err(CallOutcome::Over) };
        if self.role.pass(run, slots, data)? {
            self.give_up(slots);
        }
        Ok(())
    }
}
