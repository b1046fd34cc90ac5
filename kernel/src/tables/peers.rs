//! The table of peers: the one way from a peer to its row.

use aldis_hal::PeerId;

use crate::tables::peer::Peer;

/// The rows of an endpoint's peers. A row's index is its peer's id.
#[derive(Debug)]
pub(crate) struct PeerTable<'s> {
    rows: &'s mut [Peer],
}

impl<'s> PeerTable<'s> {
    pub(crate) const fn new(rows: &'s mut [Peer]) -> Self {
        Self { rows }
    }

    /// The row of a peer.
    #[inline(always)]
    pub(crate) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.rows.get(peer.index())
    }

    /// The row of a peer, to be changed.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.rows.get_mut(peer.index())
    }

    /// All rows, also of peers that have not been introduced.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.rows.iter()
    }
}
