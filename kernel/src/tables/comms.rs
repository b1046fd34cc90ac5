//! The communicator table: which context has which group, and how this process is ranked in it.

use aldis_hal::{Cause, PeerId, Resource};

pub use self::numbers::COLLECTIVES_MAX;
use self::numbers::Numbers;
use self::settings::Settings;
pub use self::settings::Tuning;
use self::turns::ContextTurns;
use crate::rank::{Rank, Tag};
use crate::tables::comm::{Comm, ITSELF, Members, PLANE, PREDEFINED, SLOT_BITS, WORLD, context, slot};
use crate::tables::group::{Group, GroupForm, GroupPiece};
use crate::tables::request::Key;

mod numbers;
mod settings;
mod turns;

/// The state of a communicator's control slots, if it has any. Decided once, so that its ranks keep
/// to the same. All-zero is not yet decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum ControlSlotsState {
    Unknown = 0,
    Joined,
    /// All sets are for others.
    NoSet,
    /// A rank is on another node.
    Elsewhere,
    /// This rank has left the communicator, and others may still read its control slots.
    Left,
}

/// A row of the communicator table; all-zero is a free one. Its group is the one that ranks are
/// addressed in: the remote one, if there are two.
#[derive(Debug)]
pub(crate) struct Row {
    /// The context id on the plane of the user's messages; zero if the row is free, since
    /// generations start at one.
    context: u32,
    /// Rank `i < strided` is process `first + i * stride`. No rank is, if the group is kept in
    /// pieces.
    first: u32,
    stride: u32,
    strided: u32,
    size: u32,
    /// The place of the group's pieces, and their number; zero if it is a single stride.
    pieces_at: u32,
    pieces: u32,
    /// This process's rank.
    rank: u32,
    /// The context id of the companion, whose group is the local one; zero if there is no remote
    /// one.
    companion: u32,
    /// Of its collectives.
    numbers: Numbers,
    /// The last generation that this slot has had.
    generation: u16,
    /// The pieces are words of a bitmap.
    is_bitmap: bool,
    /// The state of the control slots for its collectives, once that has been asked.
    pub(crate) control_slots: ControlSlotsState,
    name: Option<&'static str>,
    pub(crate) settings: Settings,
}

impl Row {
    pub(crate) const EMPTY: Self = Self {
        context: 0,
        first: 0,
        stride: 0,
        strided: 0,
        size: 0,
        pieces_at: 0,
        pieces: 0,
        rank: 0,
        companion: 0,
        numbers: Numbers::EMPTY,
        generation: 0,
        is_bitmap: false,
        control_slots: ControlSlotsState::Unknown,
        name: None,
        settings: Settings::EMPTY,
    };

    /// The row of a group, whose pieces, if it has any, are at `pieces_at`.
    fn new(id: u32, group: &Group<'_>, pieces_at: u32, rank: u32) -> Self {
        let (size, generation) = (group.size(), (id >> SLOT_BITS) as u16);
        let row = Self { context: id, size, rank, generation, ..Self::EMPTY };
        match *group.form() {
            GroupForm::Strided { first, stride } => Self { first, stride, strided: size, ..row },
            GroupForm::Ranges(list) => Self { pieces_at, pieces: list.len() as u32, ..row },
            GroupForm::Bitmap(list) => Self { pieces_at, pieces: list.len() as u32, is_bitmap: true, ..row },
        }
    }

    #[inline]
    pub(crate) fn peer(&self, rank: u32, pieces: &[GroupPiece]) -> Option<PeerId> {
        if rank < self.strided {
            Some(PeerId(self.first.wrapping_add(rank.wrapping_mul(self.stride))))
        } else {
            self.peer_in_pieces(rank, pieces)
        }
    }

    #[cold]
    fn peer_in_pieces(&self, rank: u32, pieces: &[GroupPiece]) -> Option<PeerId> {
        self.group(pieces).process(Rank(rank))
    }

    pub(super) fn group<'m>(&self, pieces: &'m [GroupPiece]) -> Group<'m> {
        let at = self.pieces_at as usize;
        let form = match pieces.get(at..at.saturating_add(self.pieces as usize)) {
            Some(list) if self.is_bitmap => GroupForm::Bitmap(list),
            Some(list) if !list.is_empty() => GroupForm::Ranges(list),
            _ => GroupForm::Strided { first: self.first, stride: self.stride },
        };
        Group::new(self.size, form)
    }

    /// The handle of a communicator of one group.
    pub(crate) const fn comm(&self) -> Comm {
        Comm { context: self.context, rank: self.rank, size: self.size, remote: 0 }
    }

    pub(crate) const fn is_inter(&self) -> bool {
        self.companion != 0
    }

    /// Ranks that are addressed in it.
    pub(crate) const fn size(&self) -> u32 {
        self.size
    }

    /// This process's rank.
    pub(crate) const fn rank(&self) -> u32 {
        self.rank
    }
}

/// The other side of a send, worked out and checked.
#[derive(Clone, Copy)]
pub(crate) struct SendTarget {
    pub(crate) peer: PeerId,
    pub(crate) rank: u32,
    pub(crate) key: Key,
}

/// The communicator table.
#[derive(Debug)]
pub(crate) struct Comms<'s> {
    rows: &'s mut [Row],
    /// The pieces of all groups, those in use at the front and without gaps.
    pub(crate) pieces: &'s mut [GroupPiece],
    pieces_used: u32,
    me: PeerId,
    pub(crate) turns: ContextTurns,
}

impl<'s> Comms<'s> {
    /// The table with the world and this process's own communicator in it.
    #[inline(never)]
    pub(crate) fn new(
        rows: &'s mut [Row],
        pieces: &'s mut [GroupPiece],
        me: PeerId,
        size: u32,
    ) -> Result<Self, Cause> {
        let have = rows.len() as u32;
        let [world, itself, ..] = rows else {
            return Err(Cause::TooSmall { what: Resource::Communicators, need: PREDEFINED as u32, have });
        };
        let strided = |first, size| Group::new(size, GroupForm::Strided { first, stride: 1 });
        *world = Row { name: Some("world"), ..Row::new(WORLD, &strided(0, size), 0, me.0) };
        *itself = Row { name: Some("self"), ..Row::new(ITSELF, &strided(me.0, 1), 0, 0) };
        Ok(Self { rows, pieces, pieces_used: 0, me, turns: ContextTurns::new() })
    }

    #[inline]
    pub(crate) fn row(&self, context: u32) -> Option<&Row> {
        let row = self.rows.get(slot(context) as usize)?;
        if row.context == context & !PLANE { Some(row) } else { None }
    }

    #[inline]
    pub(crate) fn row_mut(&mut self, comm: &Comm) -> Result<&mut Row, Cause> {
        let row = self.rows.get_mut(slot(comm.context) as usize);
        row.filter(|row| row.context == comm.context & !PLANE).ok_or(Cause::Stale)
    }

    /// The process behind a rank.
    #[inline]
    pub(crate) fn peer(&self, comm: &Comm, rank: Rank) -> Result<PeerId, Cause> {
        match self.row(comm.context) {
            Some(row) => {
                let out = Cause::RankOutOfRange { rank: rank.0, size: row.size };
                row.peer(rank.0, self.pieces).ok_or(out)
            }
            None => Err(Cause::Stale),
        }
    }

    /// Checks the arguments of a send.
    #[inline]
    pub(crate) fn target(&self, comm: &Comm, rank: Rank, tag: Tag) -> Result<SendTarget, Cause> {
        check_tag(tag)?;
        let peer = self.peer(comm, rank)?;
        let key = Key { context: comm.context(), source: comm.rank().0, tag: tag.0 };
        Ok(SendTarget { peer, rank: rank.0, key })
    }

    /// Checks that the communicator has not been freed.
    pub(crate) fn check(&self, comm: &Comm) -> Result<(), Cause> {
        self.row(comm.context).map(|_| ()).ok_or(Cause::Stale)
    }

    /// Returns true if `context` is of a communicator in which `peer` is `rank`.
    #[inline]
    pub(crate) fn admits(&self, context: u32, rank: u32, peer: PeerId) -> bool {
        self.row(context).is_some_and(|row| row.peer(rank, self.pieces) == Some(peer))
    }

    /// The next collective's number, the same on every rank since all start them in the same order.
    /// Collectives over two groups are not those over one.
    pub(crate) fn next_collective(&mut self, comm: &Comm, is_inter: bool) -> Result<u32, Cause> {
        self.numbers(comm, is_inter).map(Numbers::take)
    }

    /// The numbers of a communicator of two groups or of one.
    fn numbers(&mut self, comm: &Comm, is_inter: bool) -> Result<&mut Numbers, Cause> {
        let row = self.row_mut(comm)?;
        match (row.is_inter(), is_inter) {
            (true, false) => Err(Cause::Intercommunicator),
            (false, true) => Err(Cause::Intracommunicator),
            _ => Ok(&mut row.numbers),
        }
    }

    /// Takes a number like [`next_collective`](Self::next_collective), but of persistent
    /// collectives, counted without end.
    pub(crate) fn next_persistent(&mut self, comm: &Comm, is_inter: bool) -> Result<u32, Cause> {
        self.numbers(comm, is_inter).map(Numbers::take_persistent)
    }

    /// The number that the next collective has, which is not taken; `None` while it may be that of
    /// one under way.
    pub(crate) fn coming_collective(&self, comm: &Comm) -> Option<u32> {
        let row = self.row(comm.context).filter(|row| row.numbers.are_distinct())?;
        Some(row.numbers.coming())
    }

    /// A collective begins, with this tag; gives that of the one that began before it.
    #[inline]
    pub(crate) fn begin_collective(&mut self, comm: &Comm, tag: u32) -> Option<u32> {
        self.row_mut(comm).ok()?.numbers.begin(tag)
    }

    /// Accounts for the end of a collective that has begun.
    #[inline]
    pub(crate) fn end_collective(&mut self, comm: &Comm) {
        if let Ok(row) = self.row_mut(comm) {
            row.numbers.end();
        }
    }

    /// A communicator's group, the local one if it has two.
    pub(crate) fn group(&self, comm: &Comm) -> Result<Group<'_>, Cause> {
        match self.row(comm.context).ok_or(Cause::Stale)? {
            row if row.is_inter() => self.row(row.companion).ok_or(Cause::Stale),
            row => Ok(row),
        }
        .map(|row| row.group(self.pieces))
    }

    /// An intercommunicator's remote group.
    pub(crate) fn remote_group(&self, comm: &Comm) -> Result<Group<'_>, Cause> {
        let row = self.row(comm.context).ok_or(Cause::Stale)?;
        if row.is_inter() { Ok(row.group(self.pieces)) } else { Err(Cause::Intracommunicator) }
    }

    /// The handle of a communicator with this context, on either plane.
    pub(crate) fn handle(&self, context: u32) -> Option<Comm> {
        let row = self.row(context)?;
        if !row.is_inter() {
            return Some(row.comm());
        }
        let local = self.row(row.companion)?;
        Some(Comm { context: row.context, remote: row.size, ..local.comm() })
    }

    /// An intercommunicator's companion.
    pub(crate) fn companion(&self, comm: &Comm) -> Result<Comm, Cause> {
        let row = self.row(comm.context).ok_or(Cause::Stale)?;
        match self.row(row.companion) {
            Some(companion) => Ok(companion.comm()),
            None if row.is_inter() => Err(Cause::Stale),
            None => Err(Cause::Intracommunicator),
        }
    }

    pub(crate) fn name(&self, comm: &Comm) -> Result<&'static str, Cause> {
        self.row(comm.context).map(|row| row.name.unwrap_or("")).ok_or(Cause::Stale)
    }

    pub(crate) fn set_name(&mut self, comm: &Comm, name: &'static str) -> Result<(), Cause> {
        self.row_mut(comm)?.name = Some(name);
        Ok(())
    }

    /// Slots of the table.
    pub(crate) fn slots(&self) -> u32 {
        self.rows.len() as u32
    }

    pub(crate) fn is_free(&self, slot: u32) -> bool {
        self.rows.get(slot as usize).is_some_and(|row| row.context == 0)
    }

    /// The last generation of a slot; zero for one that was never used.
    pub(crate) fn generation(&self, slot: u32) -> u32 {
        self.rows.get(slot as usize).map_or(0, |row| row.generation.into())
    }

    /// The last context of a slot.
    pub(crate) fn last_context(&self, slot: u32) -> u32 {
        context(slot, self.generation(slot))
    }

    /// Checks that there are enough pieces for a communicator of these members.
    pub(crate) fn check_pieces<I: Iterator<Item = PeerId> + Clone>(
        &self,
        members: &Members<I>,
    ) -> Result<(), Cause> {
        let need = match members {
            Members::These(processes) => Group::pieces_for(processes.clone().map(|process| process.0)),
            others => Group::pieces_for(listed(self.rows, self.pieces, others)?),
        };
        let have = (self.pieces.len() as u32).saturating_sub(self.pieces_used);
        let what = Resource::GroupPieces;
        if need > have { Err(Cause::TooSmall { what, need, have }) } else { Ok(()) }
    }

    /// Puts a communicator of these members into a free slot; if there is a companion, an
    /// intercommunicator between its group and them.
    pub(crate) fn install<I: Iterator<Item = PeerId> + Clone>(
        &mut self,
        at: u32,
        generation: u32,
        members: &Members<I>,
        companion: Option<&Comm>,
    ) -> Result<Comm, Cause> {
        companion.map_or(Ok(()), |companion| self.check(companion))?;
        let (used, free) = self.pieces.split_at_mut_checked(self.pieces_used as usize).ok_or(Cause::Stale)?;
        let group = match members {
            Members::These(processes) => Group::collect(processes.clone().map(|process| process.0), free)?,
            others => Group::collect(listed(self.rows, used, others)?, free)?,
        };
        let id = context(at, generation);
        let (made, comm) = match companion {
            None => {
                let rank = group.rank_of(self.me).ok_or(Cause::Unreachable)?;
                let made = Row::new(id, &group, self.pieces_used, rank.0);
                let comm = made.comm();
                (made, comm)
            }
            Some(&Comm { context, rank, size, .. }) => {
                let made = Row::new(id, &group, self.pieces_used, rank);
                (Row { companion: context, ..made }, Comm { context: id, rank, size, remote: group.size() })
            }
        };
        let row = self.rows.get_mut(at as usize).filter(|row| row.context == 0).ok_or(Cause::Busy)?;
        self.pieces_used += made.pieces;
        *row = made;
        Ok(comm)
    }

    /// Takes a communicator out of the table. Its slot remembers the generation, and is not free
    /// before it is [freed](Self::free_left) while others may still read its control slots.
    pub(crate) fn remove(&mut self, comm: &Comm) -> Result<(), Cause> {
        if slot(comm.context) < PREDEFINED as u32 {
            return Err(Cause::Predefined);
        }
        let row = self.row_mut(comm)?;
        if row.control_slots != ControlSlotsState::Left {
            self.free(slot(comm.context));
            return Ok(());
        }
        // No handle has such a context.
        row.context |= PLANE;
        (row.name, row.settings) = (None, Settings::EMPTY);
        Ok(())
    }

    /// The row of a communicator that has been removed, if its slot is not free yet.
    pub(crate) fn left(&self, slot: u32) -> Option<&Row> {
        self.rows.get(slot as usize).filter(|row| row.context & PLANE != 0)
    }

    /// Frees the slot of a communicator that has been removed, whose control slots nobody reads.
    pub(crate) fn free_left(&mut self, slot: u32) {
        if self.left(slot).is_some() {
            self.free(slot);
        }
    }

    /// Returns true if a communicator has control slots, or its ranks may still read them.
    pub(crate) fn has_any_control_slots(&self) -> bool {
        self.rows
            .iter()
            .any(|row| matches!(row.control_slots, ControlSlotsState::Joined | ControlSlotsState::Left))
    }

    fn free(&mut self, slot: u32) {
        let Some(row) = self.rows.get_mut(slot as usize) else { return };
        let (at, len) = (row.pieces_at, row.pieces);
        *row = Row { generation: row.generation, ..Row::EMPTY };
        // The pieces behind its own move up.
        let behind = at.saturating_add(len);
        if len > 0 && behind <= self.pieces_used && self.pieces_used as usize <= self.pieces.len() {
            self.pieces.copy_within(behind as usize..self.pieces_used as usize, at as usize);
            self.pieces_used -= len;
            for row in self.rows.iter_mut().filter(|row| row.pieces > 0 && row.pieces_at > at) {
                row.pieces_at -= len;
            }
        }
    }
}

#[inline]
pub(crate) const fn check_tag(tag: Tag) -> Result<(), Cause> {
    if tag.0 > Tag::MAX.0 { Err(Cause::TagOutOfRange { tag: tag.0, max: Tag::MAX.0 }) } else { Ok(()) }
}

/// The processes of those members that are named by a communicator.
fn listed<'m, I>(
    rows: &[Row],
    pieces: &'m [GroupPiece],
    members: &Members<I>,
) -> Result<impl Iterator<Item = u32> + Clone + use<'m, I>, Cause> {
    let row = |context: u32| {
        let row = rows.get(slot(context) as usize);
        row.filter(|row| row.context == context & !PLANE).ok_or(Cause::Stale)
    };
    let (first, count, second) = match *members {
        Members::Of(ref comm) => (row(comm.context)?.group(pieces), usize::MAX, Group::EMPTY),
        Members::First(ref comm, count) => (row(comm.context)?.group(pieces), count as usize, Group::EMPTY),
        Members::Both { ref inter, remote_first } => {
            let remote = row(inter.context)?;
            let (local, remote) = (row(remote.companion)?.group(pieces), remote.group(pieces));
            if remote_first { (remote, usize::MAX, local) } else { (local, usize::MAX, remote) }
        }
        Members::These(_) => (Group::EMPTY, 0, Group::EMPTY),
    };
    Ok(first.processes().take(count).chain(second.processes()).map(|process| process.0))
}

#[cfg(test)]
mod tests;
