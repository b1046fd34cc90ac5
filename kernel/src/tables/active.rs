//! Rows for the peers that a rank is in contact with, where there are fewer than ranks.
//!
//! A row is found by a hash index of two places a row: open addressing with linear probing, and a
//! deletion that shifts back what was displaced (Knuth, The Art of Computer Programming 3, section
//! 6.4, algorithm R). This rank's own row is the first, and stays.

use core::cell::Cell;

use aldis_hal::{Cause, Instant, PeerId};
use aldis_protocols::ACTIVE;
use aldis_protocols::contact::Contact;

use crate::tables::list::{List, OptionalIndex, Queue};
use crate::tables::peer::{Peer, Presence};

/// The fewest rows of a table with fewer rows than ranks: this rank's, one for a peer that it
/// asks, and one for a peer that asks it.
pub(crate) const ROWS_MIN: u32 = 3;

/// The time, ns, for which a row that has work is kept when room is wanted: at first, and at most.
/// Long enough for a question and its answer.
pub(crate) const HOLD_NS_MIN: u32 = 1_000_000;
pub(crate) const HOLD_NS_MAX: u32 = 128_000_000;

/// The state beside a row. All-zero is a free row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActiveRow {
    /// The peer whose row it is.
    owner: OptionalIndex,
    /// Two places of the index, each with a row.
    places: [OptionalIndex; 2],
    /// A place in the queue of peers that asked when no row was free.
    turned_away: u32,
    state: ContactState,
}

/// The contact of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContactState {
    pub(crate) contact: Contact,
    /// Contacts sent in vain.
    pub(crate) repeats: u8,
    /// True if anything was said in this contact but contact and close.
    pub(crate) used: bool,
    /// The sequence numbers when the row was last looked at.
    pub(crate) seen: (u16, u16),
    /// The time at which a contact or close was last sent.
    pub(crate) since: Instant,
}

impl ActiveRow {
    /// A table as the one entry of an array, or none of it in a build without.
    pub(crate) fn one(table: &mut [Self]) -> [&mut [Self]; ACTIVE as usize] {
        let mut table = Some(table);
        core::array::from_fn(|_| table.take().unwrap_or_default())
    }

    pub(crate) const EMPTY: Self = Self {
        owner: OptionalIndex::NONE,
        places: [OptionalIndex::NONE; 2],
        turned_away: 0,
        state: ContactState::NONE,
    };
}

impl ContactState {
    const NONE: Self =
        Self { contact: Contact::NONE, repeats: 0, used: false, seen: (0, 0), since: Instant(0) };
}

/// A peer that is lost. No wider aligned than the rest of a table, for a build without such tables.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct LostPeer {
    pub(crate) peer: PeerId,
    pub(crate) cause: Cause,
}

/// Ranks of a communicator of which each was found to be lost, or is this rank.
#[derive(Clone, Copy, Default)]
pub(crate) struct LostRanks {
    /// The next rank, after them.
    pub(crate) rank: u32,
    /// The last of them that is lost, and one more.
    pub(crate) lost: u32,
}

/// A receive of any source that is looked at for whether a rank is left that could send to it.
#[derive(Clone, Copy, Default)]
pub(crate) struct DesertedWalk {
    /// The slot of the request, and its number in the order of posting.
    pub(crate) slot: u32,
    pub(crate) order: u32,
    pub(crate) ranks: LostRanks,
}

/// A communicator on which a message of any source was asked for without a request, as by a probe.
#[derive(Clone, Copy)]
pub(crate) struct ProbedWalk {
    pub(crate) context: u32,
    pub(crate) ranks: LostRanks,
    /// Set once all are lost.
    pub(crate) cause: Option<Cause>,
}

/// Fewer rows than the job has ranks.
pub(crate) struct ActiveTable<'s> {
    rows: &'s mut [Peer],
    beside: &'s mut [ActiveRow],
    /// Requests whose peer has no row, in order.
    pub(crate) waiting: List<Queue>,
    /// Peers in the queue of those that were turned away.
    turned_away: u32,
    /// The row that was last looked at for one to be given up.
    pub(crate) hand: u32,
    /// True if a request that waits is to be given the next row, and not a peer that was turned
    /// away.
    pub(crate) serves_waiting: bool,
    /// True if a place has become free that no row has.
    pub(crate) has_freed: bool,
    /// True once this rank has begun to leave: it answers contact and close by goodbye.
    pub(crate) is_leaving: bool,
    /// The request that was last looked at for whether its peer is lost.
    pub(crate) watched: u32,
    pub(crate) walk: DesertedWalk,
    pub(crate) probed: Option<ProbedWalk>,
    /// A peer without a row that was asked about since the last poll.
    pub(crate) stranger: Cell<Option<PeerId>>,
    /// The peer that was last found to be lost when it had no row.
    pub(crate) lost_stranger: Option<LostPeer>,
    /// The time, ns, for which a row that has work is not given up. No wider than the rest, so that
    /// a build without such tables is not aligned for it.
    pub(crate) hold_ns: u32,
}

impl<'s> ActiveTable<'s> {
    /// A table whose first row is that of this rank.
    pub(crate) fn new(rows: &'s mut [Peer], beside: &'s mut [ActiveRow], me: PeerId) -> Self {
        let waiting = List::EMPTY;
        let mut table = Self {
            rows,
            beside,
            waiting,
            turned_away: 0,
            hand: 0,
            serves_waiting: false,
            has_freed: false,
            is_leaving: false,
            watched: 0,
            walk: DesertedWalk::default(),
            probed: None,
            stranger: Cell::new(None),
            lost_stranger: None,
            hold_ns: HOLD_NS_MIN,
        };
        table.take(me);
        table
    }

    pub(crate) const fn len(&self) -> u32 {
        self.rows.len() as u32
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.rows.iter()
    }

    /// The peer whose row stands at `index`.
    pub(crate) fn owner(&self, index: u32) -> Option<PeerId> {
        self.beside.get(index as usize)?.owner.get().map(PeerId)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.rows.get(self.find(peer)? as usize)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.rows.get_mut(self.find(peer)? as usize)
    }

    /// The place of a peer's row, and the row.
    pub(crate) fn place(&mut self, peer: PeerId) -> Option<(u32, &mut Peer)> {
        let index = self.find(peer)?;
        Some((index, self.rows.get_mut(index as usize)?))
    }

    /// Takes note that the row at `index` does not stand in the FIFO of rows any more; returns its
    /// peer, if it has one.
    pub(crate) fn unschedule(&mut self, index: u32) -> Option<PeerId> {
        self.rows.get_mut(index as usize)?.scheduled = false;
        self.owner(index)
    }

    /// The row at `index`, its peer and its contact.
    pub(crate) fn at(&mut self, index: u32) -> Option<(PeerId, &mut Peer, &mut ContactState)> {
        let owner = self.owner(index)?;
        let state = &mut self.beside.get_mut(index as usize)?.state;
        Some((owner, self.rows.get_mut(index as usize)?, state))
    }

    /// The row of a peer, and its contact.
    pub(crate) fn of(&mut self, peer: PeerId) -> Option<(&mut Peer, &mut ContactState)> {
        let index = self.find(peer)?;
        self.at(index).map(|(_, row, state)| (row, state))
    }

    /// The list of the sends to a peer, in its row or among those without.
    pub(crate) fn send_queue(&mut self, peer: PeerId) -> &mut List<Queue> {
        let index = self.find(peer);
        match index.and_then(|index| self.rows.get_mut(index as usize)) {
            Some(row) => &mut row.send_queue,
            None => &mut self.waiting,
        }
    }

    /// The list of the rendezvous with a peer, in its row or among those without.
    pub(crate) fn rendezvous_queue(&mut self, peer: PeerId) -> &mut List<Queue> {
        let index = self.find(peer);
        match index.and_then(|index| self.rows.get_mut(index as usize)) {
            Some(row) => &mut row.rendezvous_queue,
            None => &mut self.waiting,
        }
    }

    /// Places of the index.
    const fn places(&self) -> u32 {
        self.len().wrapping_mul(2)
    }

    fn row_at(&self, place: u32) -> Option<u32> {
        let pair = &self.beside.get(place as usize / 2)?.places;
        pair.get(place as usize % 2)?.get()
    }

    fn set(&mut self, place: u32, row: OptionalIndex) {
        let pair = self.beside.get_mut(place as usize / 2).map(|beside| &mut beside.places);
        if let Some(entry) = pair.and_then(|pair| pair.get_mut(place as usize % 2)) {
            *entry = row;
        }
    }

    /// The place at which the search for a peer begins. Multiplied by the golden ratio, the high
    /// bits of consecutive ids lie far apart (Knuth, section 6.4).
    fn home(&self, peer: PeerId) -> u32 {
        let hash = u64::from(peer.0.wrapping_mul(0x9E37_79B1));
        (hash.wrapping_mul(u64::from(self.places())) >> 32) as u32
    }

    const fn after(&self, place: u32) -> u32 {
        let next = place.wrapping_add(1);
        if next >= self.places() { 0 } else { next }
    }

    /// Steps from one place to another, forwards.
    const fn distance(&self, from: u32, to: u32) -> u32 {
        let ahead = to.wrapping_sub(from);
        if to >= from { ahead } else { ahead.wrapping_add(self.places()) }
    }

    /// The place of a peer in the index, or the free one at which the search for it has ended.
    fn search(&self, peer: PeerId) -> Result<u32, u32> {
        let mut at = self.home(peer);
        for _ in 0..self.places() {
            match self.row_at(at) {
                None => return Err(at),
                Some(row) if self.owner(row) == Some(peer) => return Ok(at),
                Some(_) => at = self.after(at),
            }
        }
        // Half of the places are free.
        Err(at)
    }

    /// The row of a peer. O(1) as long as ids are spread by the hash.
    fn find(&self, peer: PeerId) -> Option<u32> {
        self.search(peer).ok().and_then(|place| self.row_at(place))
    }

    /// Returns true if a peer has a row.
    pub(crate) fn has(&self, peer: PeerId) -> bool {
        self.find(peer).is_some()
    }

    /// Takes a free row for a peer that has none.
    pub(crate) fn take(&mut self, peer: PeerId) -> Option<u32> {
        let is_free = |beside: &ActiveRow| beside.owner == OptionalIndex::NONE;
        let index = self.beside.iter().position(is_free)? as u32;
        let Err(place) = self.search(peer) else { return None };
        self.beside.get_mut(index as usize)?.owner = OptionalIndex::to(peer.0);
        self.set(place, OptionalIndex::to(index));
        Some(index)
    }

    /// A peer that is lost and still has its row.
    pub(crate) fn lost(&self) -> Option<PeerId> {
        // This rank's own row is the first, and stays.
        let is_lost = |(_, row): &(u32, &Peer)| matches!(row.presence, Presence::Gone(_));
        let (lost, _) = (0..).zip(self.rows.iter()).skip(1).find(is_lost)?;
        self.owner(lost)
    }

    /// Gives the row of a peer back; it is free from then on.
    pub(crate) fn give(&mut self, peer: PeerId) {
        let Ok(mut hole) = self.search(peer) else { return };
        let Some(index) = self.row_at(hole) else { return };
        let mut at = hole;
        for _ in 0..self.places() {
            at = self.after(at);
            let Some(row) = self.row_at(at) else { break };
            let Some(owner) = self.owner(row) else { break };
            if self.distance(self.home(owner), at) >= self.distance(hole, at) {
                self.set(hole, OptionalIndex::to(row));
                hole = at;
            }
        }
        self.set(hole, OptionalIndex::NONE);
        if let Some(beside) = self.beside.get_mut(index as usize) {
            (beside.owner, beside.state) = (OptionalIndex::NONE, ContactState::NONE);
        }
        if let Some(row) = self.rows.get_mut(index as usize) {
            let scheduled = row.scheduled;
            *row = Peer::EMPTY;
            row.scheduled = scheduled;
        }
    }

    /// Remembers a peer that asked when no row was free, if it is not remembered. Where there is no
    /// room, the last one that came is forgotten for it, and will repeat what it said: those that
    /// are served and come back at once do not keep others out.
    pub(crate) fn turn_away(&mut self, peer: PeerId) {
        let mut known = self.beside.iter().take(self.turned_away as usize);
        if known.any(|beside| beside.turned_away == peer.0) {
            return;
        }
        let end = self.turned_away.wrapping_add(1).min(self.len());
        if let Some(beside) = self.beside.get_mut(end.wrapping_sub(1) as usize) {
            beside.turned_away = peer.0;
            self.turned_away = end;
        }
    }

    /// The peer that was turned away first.
    pub(crate) fn first_turned_away(&self) -> Option<PeerId> {
        self.turned_away_at(0)
    }

    /// A peer that was turned away, in the order in which they came.
    pub(crate) fn turned_away_at(&self, at: u32) -> Option<PeerId> {
        let beside = self.beside.get(at as usize).filter(|_| at < self.turned_away)?;
        Some(PeerId(beside.turned_away))
    }

    /// Forgets that a peer was turned away.
    pub(crate) fn welcome(&mut self, peer: PeerId) {
        let len = self.turned_away as usize;
        let known = self.beside.iter().take(len).position(|beside| beside.turned_away == peer.0);
        let Some(known) = known else { return };
        for at in known..len {
            let next = self.beside.get(at.wrapping_add(1)).map_or(0, |beside| beside.turned_away);
            if let Some(beside) = self.beside.get_mut(at) {
                beside.turned_away = next;
            }
        }
        self.turned_away = self.turned_away.wrapping_sub(1);
    }

    /// Returns true if one more peer may be asked: this rank's own row is left, and one for a peer
    /// that asks.
    pub(crate) fn may_ask(&self) -> bool {
        self.asking() < self.len().saturating_sub(ROWS_MIN - 1)
    }

    /// Rows whose peer has not answered.
    pub(crate) fn asking(&self) -> u32 {
        self.beside.iter().filter(|beside| beside.state.contact.is_asking()).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn table<'s>(rows: &'s mut [Peer], beside: &'s mut [ActiveRow]) -> ActiveTable<'s> {
        ActiveTable::new(rows, beside, PeerId(7))
    }

    proptest! {
        /// Against a map, with ids that share places: rows are found, taken and given back.
        #[test]
        fn rows_are_found_by_their_peers(
            rows in 3_usize..9,
            steps in proptest::collection::vec((any::<bool>(), 0_u32..24, 0_u32..3), 0..200),
        ) {
            let mut memory: Vec<Peer> = (0..rows).map(|_| Peer::EMPTY).collect();
            let mut beside = vec![ActiveRow::EMPTY; rows];
            let mut table = table(&mut memory, &mut beside);
            let mut model = BTreeMap::from([(7, 0)]);
            for (takes, id, high) in steps {
                let peer = PeerId(id | high << 30);
                if takes && !model.contains_key(&peer.0) {
                    let taken = table.take(peer);
                    prop_assert_eq!(taken.is_some(), model.len() < rows);
                    if let Some(row) = taken {
                        prop_assert!(!model.values().any(|used| *used == row), "row {} is used", row);
                        model.insert(peer.0, row);
                    }
                } else if !takes && peer.0 != 7 {
                    table.give(peer);
                    model.remove(&peer.0);
                }
                for (peer, row) in &model {
                    prop_assert_eq!(table.find(PeerId(*peer)), Some(*row));
                    prop_assert_eq!(table.owner(*row), Some(PeerId(*peer)));
                }
                for other in (0..24).filter(|id| !model.contains_key(id)) {
                    prop_assert_eq!(table.find(PeerId(other)), None);
                }
            }
        }

        /// Against a list: peers that were turned away are remembered once, in order; where there
        /// is no room, the last makes it.
        #[test]
        fn those_turned_away_keep_their_order(steps in proptest::collection::vec((any::<bool>(), 0_u32..9), 0..100)) {
            let mut memory: Vec<Peer> = (0..4).map(|_| Peer::EMPTY).collect();
            let mut beside = vec![ActiveRow::EMPTY; 4];
            let mut table = table(&mut memory, &mut beside);
            let mut model: Vec<u32> = vec![];
            for (comes, peer) in steps {
                if comes {
                    table.turn_away(PeerId(peer));
                    if !model.contains(&peer) {
                        model.truncate(3);
                        model.push(peer);
                    }
                } else {
                    table.welcome(PeerId(peer));
                    model.retain(|other| *other != peer);
                }
                prop_assert_eq!(table.first_turned_away(), model.first().copied().map(PeerId));
            }
        }
    }

    #[test]
    fn a_lost_peer_is_found_and_this_rank_is_none() {
        let mut memory: Vec<Peer> = (0..3).map(|_| Peer::EMPTY).collect();
        let mut beside = vec![ActiveRow::EMPTY; 3];
        let mut table = table(&mut memory, &mut beside);
        table.get_mut(PeerId(7)).unwrap().presence = Presence::Gone(aldis_hal::Cause::PeerDead);
        assert_eq!(table.lost(), None);
        assert_eq!(
            (table.take(PeerId(1)), table.take(PeerId(2)), table.take(PeerId(3))),
            (Some(1), Some(2), None)
        );
        table.get_mut(PeerId(2)).unwrap().presence = Presence::Gone(aldis_hal::Cause::PeerDead);
        assert_eq!(table.lost(), Some(PeerId(2)));
    }
}
