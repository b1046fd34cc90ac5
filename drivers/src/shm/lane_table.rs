//! This module holds `unsafe` code: the table of a rank's lanes, by peer, and the ends of those
//! that are in use, to which each peer's entry points; and the two lists that poll walks, lanes to
//! look at and lanes that wait.
//!
//! A pair that talks by a lane has ends, of which there are so many as a rank can have lanes both
//! ways, taken when a lane is made or taken over and free again once the pair has none: what a peer
//! costs that is idle is no more than its entry here. One place is that of all pairs without lanes:
//! ends that lead nowhere, so that a post finds them as it finds any other and has no further
//! question to ask.

#[cfg(target_pointer_width = "64")]
use core::ptr::NonNull;
use core::slice;

use super::lane::{EndsPlace, Lane, LaneEnds, LanePair, LanePeer, LaneRow, LaneState};
use super::ring::{Incoming, RingSender};

/// Places of ends at most; the first is that of pairs without lanes. As many pairs as can have a
/// lane in one direction each, all but one.
#[cfg(target_pointer_width = "64")]
const PLACES_MAX: usize = super::geometry::Geometry::ENDS_MAX as usize;

/// Places that a rank looks at at a time, when it seeks one that is idle.
#[cfg(target_pointer_width = "64")]
const LOOKS: usize = 4;

/// The ends of the pairs that have lanes.
#[cfg(target_pointer_width = "64")]
struct EndsPool {
    /// The first of the places, and how many there are.
    first: NonNull<LaneEnds>,
    count: EndsPlace,
    /// The place that is looked at next for one that is idle.
    turn: EndsPlace,
    /// The places that are free, a bit each.
    free: u64,
    /// The position of the outgoing lane when it was last looked at.
    seen: [u32; PLACES_MAX],
    /// The places that have not been looked at since they were taken, a bit each.
    unseen: u64,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(PLACES_MAX == u64::BITS as usize, "a bit a place");
    assert!(size_of::<LaneEnds>() == 2 * size_of::<Lane>() && align_of::<LaneEnds>() == align_of::<Lane>());
};

/// The lanes of a rank.
pub(super) struct LaneTable<'m> {
    /// By rank.
    rows: &'m mut [LaneRow],
    #[cfg(target_pointer_width = "64")]
    pool: EndsPool,
}

impl<'m> LaneTable<'m> {
    /// The table in this memory, of which the first so many entries are those of peers; behind them
    /// are two for each of the places of ends, of which there is one at least. Where words have 32
    /// bits all are those of peers.
    pub(super) fn new(memory: &'m mut [Lane], _peers: usize) -> Self {
        #[cfg(target_pointer_width = "64")]
        let (memory, ends) = memory.split_at_mut_checked(_peers).unwrap_or_default();
        let rows = memory;
        for row in &mut *rows {
            *row = Lane::EMPTY;
        }
        // SAFETY: a lane is transparent, and each has just been made an empty row.
        let rows = unsafe { slice::from_raw_parts_mut(rows.as_mut_ptr().cast::<LaneRow>(), rows.len()) };
        #[cfg(target_pointer_width = "64")]
        let pool = EndsPool::new(ends);
        // Without a place that leads nowhere there is none to point to.
        #[cfg(target_pointer_width = "64")]
        let rows = if pool.count == 0 { &mut [] } else { rows };
        #[cfg(target_pointer_width = "64")]
        rows.iter_mut().for_each(|row| row.peer.ends = pool.first.as_ptr());
        Self {
            rows,
            #[cfg(target_pointer_width = "64")]
            pool,
        }
    }

    /// Ranks that there are entries for.
    #[cfg(target_pointer_width = "64")]
    pub(super) const fn len(&self) -> u32 {
        self.rows.len() as u32
    }

    /// All peers, by rank.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LanePeer> {
        self.rows.iter().map(|row| &row.peer)
    }

    #[inline(always)]
    pub(super) fn peer(&self, index: u32) -> Option<&LanePeer> {
        self.rows.get(index as usize).map(|row| &row.peer)
    }

    #[inline(always)]
    pub(super) fn peer_mut(&mut self, index: u32) -> Option<&mut LanePeer> {
        self.rows.get_mut(index as usize).map(|row| &mut row.peer)
    }

    /// Lets go of all shared memory of a peer, which poll looks at no more.
    pub(super) fn close(&mut self, index: u32, state: LaneState) {
        let Some(LanePair { peer, ends }) = self.pair_mut(index) else { return };
        peer.state = state;
        peer.path.close();
        ends.outgoing = RingSender::CLOSED;
        ends.incoming = Incoming::CLOSED;
        #[cfg(target_pointer_width = "64")]
        {
            peer.sets = core::ptr::null();
            self.free_unused(index);
        }
    }
}

/// The ends where each peer has its own.
#[cfg(not(target_pointer_width = "64"))]
impl LaneTable<'_> {
    /// The ends to and from a peer.
    #[inline(always)]
    pub(super) fn ends(&self, index: u32) -> Option<&LaneEnds> {
        self.rows.get(index as usize).map(|row| &row.ends)
    }

    #[inline(always)]
    pub(super) fn pair_mut(&mut self, index: u32) -> Option<LanePair<'_>> {
        self.rows.get_mut(index as usize).map(|LaneRow { peer, ends }| LanePair { peer, ends })
    }

    /// The place of a peer's ends.
    #[inline(always)]
    fn place_of(&self, index: u32) -> Option<u32> {
        Some(index)
    }

    #[inline(always)]
    pub(super) fn at_mut(&mut self, place: u32) -> Option<&mut LaneEnds> {
        self.rows.get_mut(place as usize).map(|row| &mut row.ends)
    }

    /// The peer of the ends at a place.
    #[inline(always)]
    pub(super) const fn peer_of(_: &LaneEnds, place: u32) -> u32 {
        place
    }
}

#[cfg(target_pointer_width = "64")]
impl EndsPool {
    /// The places in this memory, two entries each: of too little the first, which needs some.
    fn new(memory: &mut [Lane]) -> Self {
        let count = (memory.len() / 2).min(PLACES_MAX);
        let first = NonNull::from(memory).cast::<LaneEnds>();
        for place in 0..count {
            // SAFETY: two entries are as large as ends and aligned as they are, the memory has two
            // for each place, and whoever has it has lent it for as long as the table is there.
            unsafe { first.add(place).write(LaneEnds::CLOSED) };
        }
        let all = u64::MAX.checked_shr(u64::BITS - count as u32).unwrap_or(0);
        Self { first, count: count as EndsPlace, turn: 0, free: all & !1, seen: [0; PLACES_MAX], unseen: 0 }
    }

    /// The place of ends to which an entry of the table points.
    fn place_of(&self, ends: *mut LaneEnds) -> EndsPlace {
        (ends.addr().wrapping_sub(self.first.addr().get()) / size_of::<LaneEnds>()) as EndsPlace
    }
}

/// The ends where pairs that talk have them.
#[cfg(target_pointer_width = "64")]
impl LaneTable<'_> {
    /// The ends to and from a peer: of one without lanes, those that lead nowhere.
    #[inline(always)]
    pub(super) fn ends(&self, index: u32) -> Option<&LaneEnds> {
        let ends = self.rows.get(index as usize)?.peer.ends;
        // SAFETY: an entry points to a place: to the first, as `new` has it, or to one that
        // `take_ends` has found. They are this table's, which lends none to be changed meanwhile.
        Some(unsafe { &*ends })
    }

    #[inline(always)]
    pub(super) fn pair_mut(&mut self, index: u32) -> Option<LanePair<'_>> {
        let LaneRow { peer } = self.rows.get_mut(index as usize)?;
        // SAFETY: as in `ends`; no other place is lent meanwhile, and rows are elsewhere.
        let ends = unsafe { &mut *peer.ends };
        Some(LanePair { peer, ends })
    }

    /// The place of a peer's ends; `None` if it has none.
    fn place_of(&self, index: u32) -> Option<u32> {
        self.peer(index).map(|peer| self.pool.place_of(peer.ends).into()).filter(|place| *place != 0)
    }

    #[inline(always)]
    pub(super) fn at_mut(&mut self, place: u32) -> Option<&mut LaneEnds> {
        if place >= self.pool.count.into() {
            return None;
        }
        // SAFETY: there is such a place, and it is this table's, which lends no other meanwhile.
        Some(unsafe { self.pool.first.add(place as usize).as_mut() })
    }

    /// The peer of the ends at a place.
    #[inline(always)]
    pub(super) const fn peer_of(ends: &LaneEnds, _: u32) -> u32 {
        ends.peer
    }

    /// Returns true if the pair has ends, or there are some to be taken.
    pub(super) fn has_ends(&self, index: u32) -> bool {
        self.pool.free != 0 || self.place_of(index).is_some()
    }

    /// The number of pairs that have ends.
    #[cfg(test)]
    pub(super) const fn ends_in_use(&self) -> usize {
        (self.pool.count as u32 - 1 - self.pool.free.count_ones()) as usize
    }

    /// Takes ends for a pair that has none, with a sender's end that leads to no lane yet. False if
    /// there are none.
    pub(super) fn take_ends(&mut self, index: u32, outgoing: RingSender) -> bool {
        if self.place_of(index).is_some() {
            return true;
        }
        let place = self.pool.free.trailing_zeros();
        if place >= self.pool.count.into() {
            return false;
        }
        // SAFETY: there is such a place.
        let ends = unsafe { self.pool.first.add(place as usize) };
        let Some(peer) = self.peer_mut(index) else { return false };
        // As it is derived from all places, and from no reference to this one, it outlives those
        // that are made of either.
        peer.ends = ends.as_ptr();
        // SAFETY: as above, and it is this table's, which lends no other meanwhile.
        unsafe { ends.write(LaneEnds { outgoing, peer: index, ..LaneEnds::CLOSED }) };
        self.pool.free &= self.pool.free - 1;
        self.pool.unseen |= 1 << (place & 63);
        true
    }

    /// Frees the ends of a pair that has no lane any more, and is not in the poll set.
    pub(super) fn free_unused(&mut self, index: u32) {
        let Some(place) = self.place_of(index) else { return };
        let first = self.pool.first.as_ptr();
        let Some(LanePair { peer, ends }) = self.pair_mut(index) else { return };
        if !ends.outgoing.is_open() && !ends.incoming.is_open() {
            *ends = LaneEnds::CLOSED;
            peer.ends = first;
            self.pool.free |= 1 << (place & 63);
        }
    }

    /// Finds a peer with ends for a lane to it alone, by which nothing was sent since this was
    /// looked at before: some in turn.
    pub(super) fn find_idle(&mut self) -> Option<u32> {
        for _ in 0..LOOKS {
            let next = self.pool.turn.wrapping_add(1);
            let turn = if next < self.pool.count { next } else { 0 };
            self.pool.turn = turn;
            let ends = self.at_mut(turn.into())?;
            let (position, peer) = (ends.outgoing.position(), ends.peer);
            let is_outgoing = ends.outgoing.is_open() && !ends.incoming.is_open();
            let bit = 1 << (turn & 63);
            let seen = self.pool.seen.get_mut(usize::from(turn))?;
            if is_outgoing && *seen == position && self.pool.unseen & bit == 0 {
                return Some(peer);
            }
            *seen = position;
            self.pool.unseen &= !bit;
        }
        None
    }
}

/// The poll set: the lanes whose rings poll looks at, in turn. The links stand in the ends.
#[derive(Debug, Default)]
pub(super) struct PollSet {
    /// Lanes in the poll set.
    pub(super) len: u32,
    /// The place of the ends whose turn is next, if there are any.
    pub(super) turn: u32,
}

impl PollSet {
    /// Puts the lane of a peer at the end: it comes after all that are in now. Nothing if it is in
    /// already.
    pub(super) fn insert(&mut self, lanes: &mut LaneTable<'_>, peer: u32) {
        let Some(place) = lanes.place_of(peer) else { return };
        let first = if self.len == 0 { place } else { self.turn };
        let last = lanes.at_mut(first).map(|ends| if self.len == 0 { place } else { ends.previous.into() });
        let Some(last) = last else { return };
        let Some(ends) = lanes.at_mut(place).filter(|ends| !ends.hot) else { return };
        (ends.hot, ends.next, ends.previous) = (true, first as EndsPlace, last as EndsPlace);
        link(lanes, last, place);
        link(lanes, place, first);
        self.turn = first;
        self.len += 1;
    }

    /// Takes the lane of a peer out. Nothing if it is not in.
    pub(super) fn remove(&mut self, lanes: &mut LaneTable<'_>, peer: u32) {
        let Some(place) = lanes.place_of(peer) else { return };
        let Some(ends) = lanes.at_mut(place).filter(|ends| ends.hot) else { return };
        ends.hot = false;
        let (previous, next) = (ends.previous.into(), ends.next.into());
        link(lanes, previous, next);
        self.len -= 1;
        if self.turn == place {
            self.turn = next;
        }
    }

    /// The place after this one.
    #[inline(always)]
    pub(super) fn after(ends: &LaneEnds) -> u32 {
        ends.next.into()
    }
}

/// Makes two lanes neighbours.
fn link(lanes: &mut LaneTable<'_>, before: u32, after: u32) {
    if let Some(ends) = lanes.at_mut(before) {
        ends.next = after as EndsPlace;
    }
    if let Some(ends) = lanes.at_mut(after) {
        ends.previous = before as EndsPlace;
    }
}

/// The queue of lanes that poll must look at for the sender's sake: they wait for credit or have a
/// loss to report.
#[derive(Debug, Default)]
pub(super) struct LaneQueue {
    /// Lanes in the queue.
    pub(super) len: u32,
    first: u32,
    last: u32,
}

impl LaneQueue {
    /// Puts a lane at the end. Nothing if it is in already.
    pub(super) fn push(&mut self, lanes: &mut LaneTable<'_>, index: u32) {
        let Some(lane) = lanes.peer_mut(index).filter(|lane| !lane.waiting) else { return };
        lane.waiting = true;
        if self.len == 0 {
            self.first = index;
        } else if let Some(last) = lanes.peer_mut(self.last) {
            last.wait_next = index;
        }
        self.last = index;
        self.len += 1;
    }

    /// Takes the first lane out.
    pub(super) fn pop(&mut self, lanes: &mut LaneTable<'_>) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let index = self.first;
        let lane = lanes.peer_mut(index)?;
        lane.waiting = false;
        self.first = lane.wait_next;
        self.len -= 1;
        Some(index)
    }
}
