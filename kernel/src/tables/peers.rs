//! The table of peers: the one way from a peer to its row.
//!
//! A storage with a row for every rank of the job finds a peer's row by its id. One with fewer has
//! rows for the peers that it is in contact with: [`active`](crate::tables::active).

use aldis_hal::PeerId;
use aldis_protocols::ACTIVE;

use crate::tables::active::{ActiveRow, ActiveTable};
use crate::tables::list::{List, Queue};
use crate::tables::peer::Peer;

/// The rows of an endpoint's peers.
pub(crate) struct PeerTable<'s> {
    /// A row for every rank, at its id; none in a table with fewer.
    all: &'s mut [Peer],
    /// The rows of a table with fewer; of no size in a build without.
    active: [ActiveTable<'s>; ACTIVE as usize],
}

impl<'s> PeerTable<'s> {
    /// A table on these rows, in a job of `size` ranks.
    pub(crate) fn new(
        rows: &'s mut [Peer],
        beside: [&'s mut [ActiveRow]; ACTIVE as usize],
        me: PeerId,
        size: u32,
    ) -> Self {
        let has_fewer = ACTIVE && (rows.len() as u64) < u64::from(size);
        let (all, fewer): (&mut [Peer], &mut [Peer]) =
            if has_fewer { (&mut [], rows) } else { (rows, &mut []) };
        let mut fewer = Some(fewer);
        let active = beside.map(|beside| {
            let beside = if has_fewer { beside } else { &mut [] };
            ActiveTable::new(fewer.take().unwrap_or_default(), beside, me)
        });
        Self { all, active }
    }

    /// The row of a peer in a table that has all: for fast paths, which do without a search.
    #[inline(always)]
    pub(crate) fn among_all(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.all.get_mut(peer.index())
    }

    /// The row of a peer.
    #[inline(always)]
    pub(crate) fn get(&self, peer: PeerId) -> Option<&Peer> {
        match self.all.get(peer.index()) {
            Some(row) => Some(row),
            None => self.fewer()?.get(peer),
        }
    }

    /// The row of a peer, to be changed.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Peer> {
        match self.all.get_mut(peer.index()) {
            Some(row) => Some(row),
            None => self.active.first_mut()?.get_mut(peer),
        }
    }

    /// The rows of a table that may have fewer than the job has ranks.
    #[inline(always)]
    pub(crate) fn fewer(&self) -> Option<&ActiveTable<'s>> {
        self.active.first()
    }

    /// The rows of a table that has fewer than the job has ranks; none of one that has all.
    #[inline]
    pub(crate) fn active(&mut self) -> Option<&mut ActiveTable<'s>> {
        self.active.first_mut().filter(|table| table.len() > 0)
    }

    /// Returns true if it has fewer rows than the job has ranks.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.fewer().is_some_and(|table| table.len() > 0)
    }

    /// All rows, also of peers that have not been introduced.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.all.iter().chain(self.fewer().into_iter().flat_map(ActiveTable::iter))
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> u32 {
        self.all.len() as u32 + self.fewer().map_or(0, ActiveTable::len)
    }

    /// The peer whose row stands at `index`, if it is any peer's.
    #[inline]
    pub(crate) fn owner(&self, index: u32) -> Option<PeerId> {
        if ACTIVE && self.is_active() { self.fewer()?.owner(index) } else { Some(PeerId(index)) }
    }

    /// Takes note that the row at `index` does not stand in the FIFO any more; returns its peer.
    #[inline]
    pub(crate) fn unschedule(&mut self, index: u32) -> Option<PeerId> {
        match self.all.get_mut(index as usize) {
            Some(row) => {
                row.scheduled = false;
                Some(PeerId(index))
            }
            None => self.active.first_mut()?.unschedule(index),
        }
    }

    /// The place of a peer's row, and the row.
    #[inline]
    pub(crate) fn place(&mut self, peer: PeerId) -> Option<(u32, &mut Peer)> {
        match self.all.get_mut(peer.index()) {
            Some(row) => Some((peer.0, row)),
            None => self.active.first_mut()?.place(peer),
        }
    }

    /// The list of the sends to a peer that wait for their turn, or for a row.
    #[inline]
    pub(crate) fn send_queue(&mut self, peer: PeerId) -> Option<&mut List<Queue>> {
        if ACTIVE && self.is_active() {
            return Some(self.active()?.send_queue(peer));
        }
        self.get_mut(peer).map(|row| &mut row.send_queue)
    }

    /// The list of the rendezvous with a peer that have something to say, or wait for a row to say
    /// it.
    #[inline]
    pub(crate) fn rendezvous_queue(&mut self, peer: PeerId) -> Option<&mut List<Queue>> {
        if ACTIVE && self.is_active() {
            return Some(self.active()?.rendezvous_queue(peer));
        }
        self.get_mut(peer).map(|row| &mut row.rendezvous_queue)
    }
}
