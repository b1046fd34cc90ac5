//! This module holds `unsafe` code: it looks at memory that was lent to be sent from, for as long
//! as it is lent.
//!
//! Regions of the user's memory, and the pieces of them that wait for a socket. A caller that takes
//! a region [back](Regions::take_back) lets go of its pieces too, before anything else.

use core::ptr::NonNull;

use aldis_hal::memory::{Gather, Memory};
use aldis_hal::{Cause, Handle, PeerId, RegionId, Resource, Token};

/// Regions at a time. What finds no room is copied.
const REGIONS_MAX: usize = 4096;

/// Bytes that are sent in place of memory that has been let go of.
static NOTHING: [u8; 64 << 10] = [0; 64 << 10];

/// The table's row of a region.
#[derive(Debug)]
struct RegionRow {
    generation: u32,
    peer: PeerId,
    memory: Option<Memory>,
}

/// The regions that there are.
#[derive(Debug, Default)]
pub(super) struct Regions {
    places: Vec<RegionRow>,
    free: Vec<u32>,
}

/// A piece of a region that waits to be sent.
#[derive(Debug)]
pub(super) struct Lent {
    region: RegionId,
    /// The start of what has not been sent; `None` once it has been let go of.
    start: Option<NonNull<u8>>,
    len: usize,
    token: Token,
}

// SAFETY: the addresses are dereferenced by the transport that holds them alone, which moves
// between threads as a whole.
unsafe impl Send for RegionRow {}
// SAFETY: as above.
unsafe impl Send for Lent {}

impl Regions {
    /// Takes memory into the table.
    ///
    /// # Errors
    /// [`Cause::Full`].
    ///
    /// # Safety
    /// Until it is [taken back](Self::take_back) and its pieces are let go of, or this is dropped
    /// with them, the memory is there to be read and nothing writes to it.
    pub(super) unsafe fn register(&mut self, peer: PeerId, memory: Memory) -> Result<RegionId, Cause> {
        if self.free.is_empty() && self.places.len() < REGIONS_MAX {
            self.free.push(self.places.len() as u32);
            self.places.push(RegionRow { generation: 0, peer, memory: None });
        }
        let slot = self.free.pop().ok_or(Cause::Full(Resource::Regions))?;
        let place = self.places.get_mut(slot as usize).ok_or(Cause::BadRegion)?;
        (place.peer, place.memory) = (peer, Some(memory));
        Ok(RegionId(Handle { slot, generation: place.generation }))
    }

    /// Takes a region out of the table; the peer that it was for.
    ///
    /// # Errors
    /// [`Cause::Stale`] if it is not there.
    pub(super) fn take_back(&mut self, region: RegionId) -> Result<PeerId, Cause> {
        let place = self.places.get_mut(region.0.slot as usize).ok_or(Cause::Stale)?;
        if place.generation != region.0.generation || place.memory.take().is_none() {
            return Err(Cause::Stale);
        }
        place.generation = place.generation.wrapping_add(1);
        self.free.push(region.0.slot);
        Ok(place.peer)
    }

    /// A piece of a region that was registered for `peer`. `None` if there is no such, or it is not
    /// inside.
    pub(super) fn piece(&self, peer: PeerId, piece: Gather, token: Token) -> Option<Lent> {
        let Gather { region, offset, len } = piece;
        let place = self.places.get(region.0.slot as usize)?;
        let memory =
            place.memory.filter(|_| place.generation == region.0.generation && place.peer == peer)?;
        if len == 0 || offset.checked_add(len)? > memory.len {
            return None;
        }
        // SAFETY: it is inside the region, as was just found.
        let start = unsafe { memory.start.add(offset) };
        Some(Lent { region, start: Some(start), len, token })
    }
}

impl Lent {
    /// Bytes that have not been sent.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Returns what is to be sent next of it, at least one byte.
    pub(super) fn bytes(&self) -> &[u8] {
        match self.start {
            // SAFETY: the region has not been taken back, or the piece would have been let go of;
            // until then the memory is there and nothing writes to it, by `register`'s contract.
            Some(start) => unsafe { core::slice::from_raw_parts(start.as_ptr(), self.len) },
            None => NOTHING.get(..self.len).unwrap_or(&NOTHING),
        }
    }

    /// Accounts for bytes of it that have been sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        let bytes = bytes.min(self.len);
        // SAFETY: it stays within the piece, or at its end.
        self.start = self.start.map(|start| unsafe { start.add(bytes) });
        self.len -= bytes;
    }

    /// The token to report once all of it has been sent; `None` if it has been let go of.
    pub(super) fn token(&self) -> Option<Token> {
        self.start.map(|_| self.token)
    }

    /// Lets go of the memory if it is of this region; as many bytes of no meaning are sent in its
    /// place.
    pub(super) fn let_go(&mut self, region: RegionId) {
        if self.region == region {
            self.start = None;
        }
    }
}
