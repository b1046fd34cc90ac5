//! This module holds `unsafe` code: it opens sets of control slots and clears them, so that nothing
//! is written that another rank reads.
//!
//! The control slots of a communicator: [`aldis_hal::shared_control`] with ranks instead of
//! processes.
//!
//! **The set.** The set of a communicator is given by its slot in the communicator table, which its
//! ranks have agreed on when they made it and which none of them uses for another: world has the
//! first, and the slots after self's the next ones. So no rank asks another. A rank opens the set
//! when it takes the communicator in. A communicator beyond the last set, or with a rank on another
//! node, has none, and a caller that asks gets an error; that is decided at the first use, and
//! holds for the life of the communicator.
//!
//! **Who reads.** A rank reads the control slots of those in its own group of the communicator, and
//! only where they are opened by the same name; and a rank writes nothing again before all in *its*
//! group have come past it. That is sound since no two ranks that reach each other use sets of one
//! name with unlike groups: the name of world has its size in it, and a rank that takes another
//! communicator in compares its group with those of all ranks that have it already. If they are
//! unlike, which is a mistake of the program, the rank has no control slots in it. Handles are not
//! trusted: a rank's place in a communicator is that of its table. An
//! endpoint whose communicators have control slots keeps its transport
//! ([`try_transport_mut`](Endpoint::try_transport_mut)), and a slot of the table whose control
//! slots another rank may still read is not free.

use core::ops::Range;
use core::sync::atomic::{Ordering, fence};

use aldis_hal::shared_control::{ControlSlotsShape, Note, Notice, OwnChunk, Progress, is_earlier};
use aldis_hal::{Activity, Cause, PeerId, Platform, Resource, Transport};

use crate::api::endpoint::Endpoint;
use crate::api::poll_rounds::PollRounds;
use crate::api::scope::Scope;
use crate::error::Error;
use crate::tables::comm::{Comm, PLANE};
use crate::tables::comms::{Comms, ControlSlotsState, Row};
use crate::tables::group::GroupPiece;

/// The reason why this rank cannot write a control slot or a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotReady {
    /// This rank has not finished with what stands there: of all it is the furthest behind.
    By(u32),
    /// This rank never can, for this cause; the cause lies with that rank if there is one.
    For(Cause, Option<u32>),
}

impl From<Cause> for NotReady {
    fn from(cause: Cause) -> Self {
        Self::For(cause, None)
    }
}

/// The control slots of a communicator, for those who implement collectives. A borrow of the
/// endpoint: nothing is polled meanwhile.
pub struct ControlSlots<'a> {
    control: &'a mut dyn aldis_hal::SharedControl,
    row: &'a Row,
    pieces: &'a [GroupPiece],
    rank: u32,
    set: u32,
}

impl ControlSlots<'_> {
    /// Returns the number of control slots, and their size.
    #[inline]
    pub fn shape(&self) -> ControlSlotsShape {
        self.control.shape(self.set)
    }

    /// Returns the number of sets that other communicators may have behind this one.
    pub fn sets_behind(&self) -> u32 {
        self.control.sets().saturating_sub(self.set.saturating_add(1))
    }

    /// Starts the communicator's next collective and returns its number. The caller finishes it,
    /// also where reading or reducing panics, or goes on with it in a scope
    /// ([`ScopePlane::go_on_by_control_slots`](crate::plane::ScopePlane::go_on_by_control_slots)).
    #[inline]
    pub fn begin(&mut self) -> u32 {
        self.control.begin(self.set)
    }

    /// Returns true if a collective has a control slot: false while one so far before it is not
    /// finished here that they share it.
    #[inline]
    pub fn admits(&self, number: u32) -> bool {
        self.control.admits(self.set, number)
    }

    /// Returns true if this rank has finished all collectives before this one.
    pub fn is_oldest(&self, number: u32) -> bool {
        let own = self.peer(self.rank).and_then(|own| self.control.progress(self.set, own));
        own.is_ok_and(|own| own.finished == number)
    }

    /// Writes this rank's control slot of a collective.
    ///
    /// # Errors
    /// The rank that has not finished with what stands in it; [`Cause::TooBig`] for a payload that
    /// is longer than its note says, or why another rank's control slots cannot be read.
    #[inline]
    pub fn publish(&mut self, number: u32, note: Note, payload: &[u8]) -> Result<(), NotReady> {
        if self.control.publish(self.set, number, note, payload)? {
            return Ok(());
        }
        self.publish_again(number, note, payload)
    }

    /// Writes a control slot like [`publish`](Self::publish), but once the others have been asked
    /// how far they are.
    #[cold]
    fn publish_again(&mut self, number: u32, note: Note, payload: &[u8]) -> Result<(), NotReady> {
        let (finishing, _) = self.refresh()?;
        if self.control.publish(self.set, number, note, payload)? {
            return Ok(());
        }
        Err(NotReady::By(finishing))
    }

    /// Writes a control slot like [`publish`](Self::publish), but of what `pack` writes into the
    /// control slot.
    ///
    /// # Errors
    /// The cause that `pack` returns, in which case nothing is published; the rank that has not
    /// finished with what stands in the control slot, or why another rank's control slots cannot be
    /// read.
    pub fn pack(
        &mut self,
        number: u32,
        note: Note,
        pack: impl FnOnce(&mut [u8]) -> Result<(), Cause>,
    ) -> Result<(), NotReady> {
        let mut finishing = self.rank;
        if let Some(slot) = self.control.slot(self.set, number, note.bytes) {
            pack(slot)?;
        } else {
            (finishing, _) = self.refresh()?;
            pack(self.control.slot(self.set, number, note.bytes).ok_or(NotReady::By(finishing))?)?;
        }
        match self.control.publish(self.set, number, note, &[])? {
            true => Ok(()),
            false => Err(NotReady::By(finishing)),
        }
    }

    /// Returns what `rank` says of a collective that is not finished here; `None` if nothing yet.
    ///
    /// # Errors
    /// [`Cause::Malformed`], or why that rank's control slots cannot be read.
    #[inline]
    pub fn look(&self, number: u32, rank: u32) -> Result<Option<Notice<'_>>, Cause> {
        self.control.look(self.set, number, self.peer(rank)?)
    }

    /// This rank has nothing more to do in a collective.
    #[inline]
    pub fn finish(&mut self, number: u32) {
        self.control.finish(self.set, number);
    }

    /// This rank has nothing more to do in a collective, in which it has waited for no other as a
    /// rule.
    #[inline]
    pub fn finish_ahead(&mut self, number: u32) {
        self.control.finish_ahead(self.set, number);
    }

    /// Gives the stream of chunks to a collective: its next position. `None` while another of this
    /// rank has it.
    pub fn take_chunks(&mut self, number: u32) -> Option<u32> {
        self.control.take_chunks(self.set, number)
    }

    /// The collective that has the stream uses `len` positions from `first` on.
    pub fn run(&mut self, first: u32, len: u32) {
        self.control.run(self.set, first, len);
    }

    /// This rank's chunk at `position`, to be filled.
    ///
    /// # Errors
    /// The rank that is not done with what stands in it, or why another rank's control slots cannot
    /// be read.
    pub fn fill(&mut self, position: u32) -> Result<OwnChunk<'_>, NotReady> {
        let mut reading = self.rank;
        if self.control.fill(self.set, position).is_none() {
            (_, reading) = self.refresh()?;
        }
        self.control.fill(self.set, position).ok_or(NotReady::By(reading))
    }

    /// Publishes this rank's chunks up to and with `position`.
    pub fn filled(&mut self, position: u32) {
        self.control.filled(self.set, position);
    }

    /// The chunk of `rank` at `position`; `None` if it is not filled yet.
    ///
    /// # Errors
    /// [`Cause::Malformed`], or why that rank's control slots cannot be read.
    #[inline]
    pub fn chunk(&self, position: u32, rank: u32) -> Result<Option<&[u8]>, Cause> {
        self.control.chunk(self.set, position, self.peer(rank)?)
    }

    /// Reads so many bytes from an address in the memory of `rank`, which lends them in a
    /// collective that is not finished here.
    ///
    /// # Errors
    /// [`Cause::Withdrawn`] if it lends them no more, so that they may be others;
    /// [`Cause::Unsupported`] or [`Cause::Device`] if they cannot be read, or why that rank's
    /// control slots cannot be.
    pub fn read(&mut self, number: u32, rank: u32, address: u64, into: &mut [u8]) -> Result<(), Cause> {
        let peer = self.peer(rank)?;
        let read = self.control.read(peer, address, into);
        self.check_lent(number, peer).and(read)
    }

    /// Reads what stands at these addresses like [`read`](Self::read), but into this rank's own
    /// chunk at `position`, which no rank sees, and returns that chunk.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), and of [`fill`](Self::fill).
    pub fn read_chunk(
        &mut self,
        number: u32,
        rank: u32,
        position: u32,
        from: Range<u64>,
    ) -> Result<&[u8], NotReady> {
        self.fill(position)?;
        let about = |cause| NotReady::For(cause, Some(rank));
        let peer = self.peer(rank).map_err(about)?;
        let read = self.control.read_chunk(self.set, position, peer, from);
        self.check_lent(number, peer).and(read).map_err(about)?;
        self.fill(position).map(|chunk| &*chunk.bytes)
    }

    /// Checks that a rank, which has lent its memory in a collective, has not finished that.
    fn check_lent(&self, number: u32, peer: PeerId) -> Result<(), Cause> {
        let theirs = self.control.progress(self.set, peer)?;
        if is_earlier(number, theirs.finished) { Err(Cause::Withdrawn) } else { Ok(()) }
    }

    /// Checks that `rank` is done with all ranks' chunks up to and with `position`.
    ///
    /// # Errors
    /// That it is not yet, or why its control slots cannot be read.
    pub fn is_done(&self, position: u32, rank: u32) -> Result<(), NotReady> {
        let theirs = self.peer(rank).and_then(|peer| self.control.progress(self.set, peer));
        let theirs = theirs.map_err(|cause| NotReady::For(cause, Some(rank)))?;
        if is_earlier(position, theirs.done) { Ok(()) } else { Err(NotReady::By(rank)) }
    }

    /// Records that this rank is done with all ranks' chunks up to and with `position`.
    pub fn done(&mut self, position: u32) {
        self.control.done(self.set, position);
    }

    #[inline]
    fn peer(&self, rank: u32) -> Result<PeerId, Cause> {
        let out = Cause::RankOutOfRange { rank, size: self.row.size() };
        self.row.peer(rank, self.pieces).ok_or(out)
    }

    /// Looks how far the others have come: which of them has finished the fewest collectives, and
    /// which is done with the fewest positions.
    #[cold]
    fn refresh(&mut self) -> Result<(u32, u32), NotReady> {
        let mut last = None;
        for rank in (0..self.row.size()).filter(|rank| *rank != self.rank) {
            let found = self.peer(rank).and_then(|peer| self.control.progress(self.set, peer));
            let theirs = found.map_err(|cause| NotReady::For(cause, Some(rank)))?;
            let (least, finishing, reading) = last.get_or_insert((theirs, rank, rank));
            if is_earlier(theirs.finished, least.finished) {
                (least.finished, *finishing) = (theirs.finished, rank);
            }
            if is_earlier(theirs.done, least.done) {
                (least.done, *reading) = (theirs.done, rank);
            }
        }
        let (least, finishing, reading) = last.ok_or(Cause::Stale)?;
        // SAFETY: all others of the group, which all of its ranks have alike, have come so far.
        unsafe { self.control.clear(self.set, least) };
        Ok((finishing, reading))
    }
}

/// The set of a communicator, if there are so many.
fn set_of(slot: u32, sets: u32) -> Option<u32> {
    // World has slot 0 and self, which needs none, slot 1.
    let set = if slot == 0 { 0 } else { slot.checked_sub(1)? };
    if set < sets && (set > 0 || slot == 0) { Some(set) } else { None }
}

/// The name by which the ranks of a communicator open its set: its context, which all of them have
/// agreed on. On that of world they have not: theirs is its size.
const fn name_of(context: u32, row: &Row, set: u32) -> u32 {
    if set == 0 { PLANE | row.size() } else { context }
}

/// The processes of a communicator, a bit each; `None` if one has too high a number.
fn members_of(row: &Row, pieces: &[GroupPiece]) -> Option<u64> {
    let mut processes = (0..row.size()).map(|rank| row.peer(rank, pieces));
    processes.try_fold(0, |members, process| Some(members | 1u64.checked_shl(process?.0)?))
}

/// Returns true if no other rank of a communicator reads control slots of this one any more.
fn is_over(control: &dyn aldis_hal::SharedControl, set: u32, row: &Row, pieces: &[GroupPiece]) -> bool {
    let own = row.peer(row.rank(), pieces).map(|me| control.progress(set, me));
    let Some(Ok(own)) = own else { return true };
    let mut peers = (0..row.size()).filter_map(|rank| row.peer(rank, pieces));
    let is_behind = |theirs: Progress| is_earlier(theirs.finished, own.finished);
    // Whose control slots cannot be read any more reads none.
    !peers.any(|peer| control.progress(set, peer).is_ok_and(is_behind))
}

/// Opens the set of a communicator that was made, if no rank that is reached names it alike and has
/// another group.
fn open(
    control: &mut dyn aldis_hal::SharedControl,
    set: u32,
    row: &Row,
    pieces: &[GroupPiece],
) -> Result<(), Cause> {
    let members = members_of(row, pieces).ok_or(Cause::Unsupported)?;
    // SAFETY: the set is of the slot, which the communicator has from the time that no rank reads
    // control slots of the last one to the time that none reads its own. These are the members that
    // `refresh` asks.
    unsafe { control.open(set, row.comm().context(), members) }
}

/// Finds out whether a communicator can have control slots.
#[cold]
#[inline(never)]
fn join(comms: &mut Comms<'_>, control: &mut dyn aldis_hal::SharedControl, comm: &Comm) -> Result<(), Cause> {
    let row = comms.row(comm.context()).ok_or(Cause::Stale)?;
    let mut others = (0..row.size()).filter(|rank| *rank != row.rank());
    let reached = |rank| row.peer(rank, comms.pieces).is_some_and(|peer| control.reach(peer).is_ok());
    let control_slots = match set_of(comm.slot(), control.sets()) {
        // First of all: it also says what messages cost.
        _ if !others.all(reached) => ControlSlotsState::Elsewhere,
        None => ControlSlotsState::NoSet,
        Some(set) if set > 0 && open(control, set, row, comms.pieces).is_err() => {
            ControlSlotsState::Elsewhere
        }
        Some(_) => ControlSlotsState::Joined,
    };
    comms.row_mut(comm).map(|row| row.control_slots = control_slots)
}

impl<T: Transport, P: Platform> Endpoint<'_, T, P> {
    /// See [`EndpointPlane::control_slots`](crate::plane::EndpointPlane::control_slots).
    #[inline]
    pub(crate) fn control_slots(&mut self, comm: &Comm) -> Result<ControlSlots<'_>, Cause> {
        self.control_slots_beside(comm).map(|(control, _)| control)
    }

    /// See [`EndpointPlane::ranks_per_node`](crate::plane::EndpointPlane::ranks_per_node).
    pub(crate) fn ranks_per_node(&mut self, comm: &Comm) -> u32 {
        if !T::HAS_CONTROL_SLOTS {
            return 0;
        }
        let every = self.transport.control_slots().map_or(0, |control| control.ranks_per_node());
        self.engine.comms.group(comm).map_or(0, |group| group.ranks_per_node(every))
    }

    /// See
    /// [`EndpointPlane::control_slots_beside`](crate::plane::EndpointPlane::control_slots_beside).
    #[inline(always)]
    pub(crate) fn control_slots_beside(&mut self, comm: &Comm) -> Result<(ControlSlots<'_>, &mut P), Cause> {
        if !T::HAS_CONTROL_SLOTS {
            return Err(Cause::Unsupported);
        }
        let control = self.transport.control_slots().ok_or(Cause::Unsupported)?;
        let comms = &mut self.engine.comms;
        if comms.row(comm.context()).is_some_and(|row| row.control_slots == ControlSlotsState::Unknown) {
            join(comms, control, comm)?;
        }
        let row = comms.row(comm.context()).ok_or(Cause::Stale)?;
        if row.is_inter() {
            return Err(Cause::Intercommunicator);
        }
        let set = match row.control_slots {
            ControlSlotsState::Joined => set_of(comm.slot(), u32::MAX).unwrap_or(u32::MAX),
            ControlSlotsState::NoSet => return Err(Cause::Full(Resource::ControlSlots)),
            _ => return Err(Cause::Unreachable),
        };
        // SAFETY: it is world's, whose name says who its ranks are, all of which `refresh` asks; or
        // it has been opened already, before the communicator had joined.
        unsafe { control.open(set, name_of(comm.user().context(), row, set), 0) }?;
        let control = ControlSlots { control, row, pieces: comms.pieces, rank: row.rank(), set };
        Ok((control, &mut self.platform))
    }

    /// Gives a new communicator its set, so that a rank whose set is not of it any more has left
    /// it. It has none if another rank names it alike and has another group.
    pub(crate) fn open_control_slots(&mut self, comm: &Comm) {
        if !T::HAS_CONTROL_SLOTS {
            return;
        }
        let (Some(control), comms) = (self.transport.control_slots(), &mut self.engine.comms) else { return };
        let Some(set) = set_of(comm.slot(), control.sets()) else { return };
        let Some(row) = comms.row(comm.context()) else { return };
        if open(control, set, row, comms.pieces).is_err() {
            let _ = comms.row_mut(comm).map(|row| row.control_slots = ControlSlotsState::Elsewhere);
        }
    }

    /// Returns true if all ranks have finished what this one has finished by control slots of a
    /// communicator: no rank reads its control slots then.
    pub(crate) fn are_control_slots_over(&mut self, comm: &Comm) -> bool {
        if !T::HAS_CONTROL_SLOTS {
            return true;
        }
        let (Some(control), comms) = (self.transport.control_slots(), &self.engine.comms) else {
            return true;
        };
        let Some(row) =
            comms.row(comm.context()).filter(|row| row.control_slots == ControlSlotsState::Joined)
        else {
            return true;
        };
        let Some(set) = set_of(comm.slot(), u32::MAX) else { return true };
        is_over(control, set, row, comms.pieces)
    }

    /// Leaves a communicator's set: this rank reads nothing there any more. While others may, the
    /// slot of the communicator is not free for another.
    #[cold]
    pub(crate) fn leave_control_slots(&mut self, comm: &Comm) {
        let (Some(control), comms) = (self.transport.control_slots(), &mut self.engine.comms) else { return };
        let Some(set) = set_of(comm.slot(), control.sets()) else { return };
        let Some(row) = comms.row(comm.context()) else { return };
        let is_joined = row.control_slots == ControlSlotsState::Joined;
        control.leave(set);
        if is_joined && !is_over(control, set, row, comms.pieces) {
            let _ = comms.row_mut(comm).map(|row| row.control_slots = ControlSlotsState::Left);
        }
    }

    /// Frees the slots of communicators that this rank has left, once no rank reads its control
    /// slots there.
    pub(crate) fn free_left_slots(&mut self) {
        if !T::HAS_CONTROL_SLOTS {
            return;
        }
        let (Some(control), comms) = (self.transport.control_slots(), &mut self.engine.comms) else { return };
        for slot in 0..comms.slots() {
            let (Some(row), Some(set)) = (comms.left(slot), set_of(slot, u32::MAX)) else { continue };
            if is_over(control, set, row, comms.pieces) {
                comms.free_left(slot);
            }
        }
    }

    /// Gives up all that was begun by control slots: its memory is not there any more.
    pub(crate) fn abandon_control_slots(&mut self) {
        if let Some(control) = self.transport.control_slots() {
            control.abandon();
            // Before the memory that was lent is used for something else.
            fence(Ordering::SeqCst);
        }
    }
}

impl<'scope, T: Transport, P: Platform> Scope<'scope, '_, '_, T, P> {
    /// See [`ScopePlane::control_slots`](crate::plane::ScopePlane::control_slots).
    pub(crate) fn control_slots(&mut self, comm: &Comm) -> Result<ControlSlots<'_>, Cause> {
        self.within.endpoint.control_slots(comm)
    }

    /// See [`ScopePlane::ranks_per_node`](crate::plane::ScopePlane::ranks_per_node).
    pub(crate) fn ranks_per_node(&mut self, comm: &Comm) -> u32 {
        self.within.endpoint.ranks_per_node(comm)
    }

    /// See
    /// [`ScopePlane::go_on_by_control_slots`](crate::plane::ScopePlane::go_on_by_control_slots).
    pub(crate) fn go_on_by_control_slots(&mut self) {
        self.by_control_slots = true;
    }

    /// See [`ScopePlane::watch_until`](crate::plane::ScopePlane::watch_until).
    pub(crate) fn watch_until<R>(
        &mut self,
        looks: u32,
        activity: impl Fn() -> Activity,
        mut check: impl FnMut(&mut Self) -> Result<Option<R>, Error>,
    ) -> Result<R, Error> {
        let mut turns = PollRounds::after(looks);
        loop {
            if let Some(found) = check(self).transpose() {
                self.within.end(&mut turns);
                return found;
            }
            let turned = self.within.turn_beside(&mut turns, &|_| activity());
            turned.map_err(|elapsed_ns| self.missed(&activity(), elapsed_ns))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_told_by_the_slot() {
        let sets: std::vec::Vec<_> = (0..6).map(|slot| set_of(slot, 4)).collect();
        assert_eq!(sets, [Some(0), None, Some(1), Some(2), Some(3), None]);
    }
}
