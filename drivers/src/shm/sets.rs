//! This module holds `unsafe` code, functions whose callers vouch for what no rank reads any more.
//!
//! The sets of control slots of a rank: its own, and those of the ranks it is attached to.

use core::fmt;
use core::ops::Range;

use aldis_hal::shared_control::{ControlSlotsShape, Note, Notice, OwnChunk, Progress, SharedControl};
use aldis_hal::{Cause, PeerId};

use super::control_slots::{Own, SLOT_PAYLOAD, Theirs};
use super::distance::LANES_A_LOOK;
use super::geometry::Geometry;
use super::header::InboxHeader;
use super::lane::LaneState;
use super::region::Inbox;
use super::sleep::{WAKES, has_sleepers, is_watched, note_missing};
use super::transport::Shm;
use crate::sync::{AtomicU32, Word};

/// Collectives from one that waits for no rank to the one whose slot is made ready then: more than
/// one, as a line takes longer to come from another core than such a call takes.
const AHEAD: u32 = 2;

impl Shm<'_> {
    /// A set of this rank.
    #[inline]
    fn own(&self, set: u32) -> Result<&Own, Cause> {
        self.sets.get(set as usize).and_then(Option::as_ref).ok_or(Cause::Unsupported)
    }

    #[inline]
    fn own_mut(&mut self, set: u32) -> Option<&mut Own> {
        self.sets.get_mut(set as usize).and_then(Option::as_mut)
    }

    /// A set of a rank as others see it, this one's own included.
    #[inline]
    fn their(&self, set: u32, peer: PeerId) -> Result<Theirs, Cause> {
        let number = PeerId(peer.0.wrapping_sub(self.first));
        let found = if number == self.inbox.identity.owner {
            self.inbox.read_set(set)
        } else {
            self.lanes.peer(peer.0).and_then(|peer| self.inbox.their_set(peer, number, set))
        };
        found.ok_or_else(|| self.unusable(peer))
    }
}

impl Shm<'_> {
    /// Opens a set for another communicator.
    ///
    /// # Safety
    /// As of [`SharedControl::open`].
    #[cold]
    unsafe fn open_newly(&mut self, set: u32, context: u32, members: u64) -> Result<(), Cause> {
        let start = self.inbox.start();
        let own = self.own_mut(set).ok_or(Cause::Unsupported)?;
        let is_new = own.is_new();
        // SAFETY: the caller promised that no rank reads there, and whom it counts.
        unsafe { own.open(context, start, members) };
        self.rouse_readers();
        let own = self.own(set)?;
        let numbers = (0..).map(|index: u32| PeerId(index.wrapping_sub(self.first)));
        let agrees = |(peer, number)| {
            self.inbox.their_set(peer, number, set).is_none_or(|theirs| theirs.agrees(own, is_new))
        };
        if self.lanes.iter().zip(numbers).all(agrees) {
            return Ok(());
        }
        self.own_mut(set).map(Own::refuse);
        Err(Cause::Stale)
    }
}

impl Shm<'_> {
    /// Looks how far away some peers are, by their probes in the first set, whichever is used, and
    /// changes its own.
    #[cold]
    fn measure_distances(&mut self, number: u32) {
        for _ in 0..LANES_A_LOOK {
            let number = self.gauge.turn();
            let known = self.lanes.peer_mut(number.wrapping_add(self.first)).and_then(|peer| {
                let theirs = self.inbox.their_set(peer, PeerId(number), 0)?;
                peer.distance.look_at_probe(theirs.probe(), &self.gauge);
                peer.distance.known()
            });
            if self.gauge.go_on(known, self.inbox.geometry.peers) {
                break;
            }
        }
        if let Some(own) = self.own_mut(0) {
            own.change_probe(number);
        }
    }
}

/// A way to read the memory of other ranks.
pub trait PeerReader: fmt::Debug + Send {
    /// Reads so many bytes from an address in the memory of `peer`, which has told it.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] if memory of that rank is not read, [`Cause::Device`] if the system
    /// refuses it.
    fn fetch(&mut self, peer: PeerId, address: u64, into: &mut [u8]) -> Result<(), Cause>;
}

/// The lengths from which on two ranks pass data sooner than in chunks, in bytes; zero if they
/// never do, or nobody has measured it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PairLengths {
    /// In a message.
    pub message_bytes_min: u32,
    /// By a read out of the other's memory.
    pub read_bytes_min: u32,
}

/// The ways in which two ranks pass data, beside chunks.
#[cfg(target_pointer_width = "64")]
#[derive(Debug, Default)]
pub(super) struct PairWays<'m> {
    pub(super) lengths: PairLengths,
    pub(super) reader: Option<&'m mut (dyn PeerReader + 'static)>,
}

#[cfg(target_pointer_width = "64")]
impl Shm<'_> {
    /// Returns the lengths of which the control slots tell.
    #[inline]
    fn pair_lengths(&self) -> PairLengths {
        self.pair_ways.lengths
    }

    fn reader(&mut self) -> Option<&mut (dyn PeerReader + 'static)> {
        self.pair_ways.reader.as_deref_mut()
    }

    fn reader_and_set(&mut self, set: u32) -> Option<(&mut (dyn PeerReader + 'static), &mut Own)> {
        let own = self.sets.get_mut(set as usize)?.as_mut()?;
        self.pair_ways.reader.as_deref_mut().map(|reader| (reader, own))
    }
}

#[cfg(not(target_pointer_width = "64"))]
impl Shm<'_> {
    fn pair_lengths(&self) -> PairLengths {
        PairLengths::default()
    }

    fn reader(&mut self) -> Option<&mut dyn PeerReader> {
        None
    }

    fn reader_and_set(&mut self, _set: u32) -> Option<(&mut dyn PeerReader, &mut Own)> {
        None
    }
}

/// The sleepers of a node, as one of its ranks knows them.
#[derive(Debug)]
pub(super) struct NodeSleep<'m> {
    /// The number of those that wait for control slots: in the inbox of rank 0, once that is mapped
    /// here.
    pub(super) sleepers: &'m Word,
    /// The ranks whose slots this one has found missing.
    pub(super) noted: Option<&'m AtomicU32>,
    /// The reason why this one does not sleep, for users.
    pub(super) remark: Option<&'static str>,
}

impl<'m> NodeSleep<'m> {
    /// The sleepers that the owner of an inbox knows before it is attached to others.
    pub(super) fn of(inbox: &Inbox<'m>) -> [Self; WAKES as usize] {
        inbox.header.map(|InboxHeader { sleepers, .. }| Self { sleepers, noted: None, remark: None })
    }
}

impl Shm<'_> {
    /// Wakes the ranks of the node that wait in their sleep for this one, after a store to what
    /// they may read.
    #[inline(always)]
    fn rouse_readers(&self) {
        if let Some(sleep) = self.sleep.first()
            && has_sleepers(sleep.sleepers, true)
        {
            self.rouse_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn rouse_all(&self) {
        for asleep in self.lanes.iter().filter_map(|peer| self.inbox.asleep_of(peer)) {
            self.alarm.rouse_reader(asleep, self.inbox.identity.owner);
        }
    }

    /// Notes that what this rank waits for was not found in slots of `peer`, if it is about to
    /// sleep.
    #[inline(always)]
    fn miss(&self, peer: PeerId) {
        if let Some(NodeSleep { noted: Some(noted), .. }) = self.sleep.first()
            && is_watched(noted)
        {
            note_missing(noted, PeerId(peer.0.wrapping_sub(self.first)));
        }
    }
}

impl SharedControl for Shm<'_> {
    #[inline]
    fn sets(&self) -> u32 {
        self.inbox.geometry.sets
    }

    #[inline]
    fn shape(&self, set: u32) -> ControlSlotsShape {
        let layout = self.inbox.sets_layout.first();
        let pairs = self.pair_lengths();
        let (chunks, chunk_bytes) = layout.map_or((0, 0), |layout| (layout.chunks(set), layout.chunk_bytes));
        ControlSlotsShape {
            slots: Geometry::CONTROL_SLOTS,
            slot_bytes: SLOT_PAYLOAD as u32,
            chunks,
            chunk_bytes,
            pair_message_bytes_min: pairs.message_bytes_min,
            pair_read_bytes_min: pairs.read_bytes_min,
        }
    }

    fn ranks_per_node(&self) -> u32 {
        self.ranks_per_node
    }

    fn reach(&self, peer: PeerId) -> Result<(), Cause> {
        match self.lanes.peer(peer.0).map(|peer| peer.state) {
            Some(LaneState::Open) => Ok(()),
            _ => Err(self.unusable(peer)),
        }
    }

    #[inline(always)]
    unsafe fn open(&mut self, set: u32, context: u32, members: u64) -> Result<(), Cause> {
        if self.own(set)?.context == context {
            return Ok(());
        }
        // SAFETY: the caller promised that no rank reads there, and whom it counts.
        unsafe { self.open_newly(set, context, members) }
    }

    fn leave(&mut self, set: u32) {
        if let Some(own) = self.own_mut(set) {
            own.leave();
        }
        self.rouse_readers();
    }

    #[inline]
    fn begin(&mut self, set: u32) -> u32 {
        self.own_mut(set).map_or(0, Own::begin)
    }

    #[inline]
    fn admits(&self, set: u32, number: u32) -> bool {
        self.own(set).is_ok_and(|own| own.admits(number))
    }

    #[inline]
    fn publish(&mut self, set: u32, number: u32, note: Note, payload: &[u8]) -> Result<bool, Cause> {
        let published = self.own_mut(set).ok_or(Cause::Unsupported)?.publish(number, note, payload);
        self.rouse_readers();
        published
    }

    fn slot(&mut self, set: u32, number: u32, bytes: u64) -> Option<&mut [u8]> {
        self.own_mut(set)?.slot(number, bytes)
    }

    #[inline]
    fn look(&self, set: u32, number: u32, peer: PeerId) -> Result<Option<Notice<'_>>, Cause> {
        let found = self.their(set, peer)?.look(self.own(set)?, number);
        if let Ok(None) = found {
            self.miss(peer);
        }
        found
    }

    #[inline]
    fn finish(&mut self, set: u32, number: u32) {
        if let Some(own) = self.own_mut(set) {
            own.finish(number);
        }
        self.rouse_readers();
    }

    #[inline]
    fn finish_ahead(&mut self, set: u32, number: u32) {
        if let Some(own) = self.own_mut(set) {
            own.finish(number);
            own.prepare(number.wrapping_add(AHEAD));
        }
        self.rouse_readers();
    }

    fn abandon(&mut self) {
        self.sets.iter_mut().flatten().for_each(Own::abandon);
        self.rouse_readers();
    }

    fn take_chunks(&mut self, set: u32, number: u32) -> Option<u32> {
        self.own_mut(set)?.take_chunks(number)
    }

    fn run(&mut self, set: u32, first: u32, len: u32) {
        if let Some(own) = self.own_mut(set) {
            own.run(first, len);
        }
        self.rouse_readers();
        if let Some(number) = self.gauge.is_due() {
            self.measure_distances(number);
        }
    }

    fn fill(&mut self, set: u32, position: u32) -> Option<OwnChunk<'_>> {
        let store = self.gauge.chunk_store();
        self.own_mut(set)?.fill(position).map(|bytes| OwnChunk { bytes, store })
    }

    fn filled(&mut self, set: u32, position: u32) {
        if let Some(own) = self.own_mut(set) {
            own.filled(position);
        }
        self.rouse_readers();
    }

    #[inline]
    fn chunk(&self, set: u32, position: u32, peer: PeerId) -> Result<Option<&[u8]>, Cause> {
        let found = self.their(set, peer)?.chunk(self.own(set)?, position);
        if let Ok(None) = found {
            self.miss(peer);
        }
        found
    }

    fn done(&mut self, set: u32, position: u32) {
        if let Some(own) = self.own_mut(set) {
            own.done_before(position.wrapping_add(1));
        }
        self.rouse_readers();
    }

    fn read(&mut self, peer: PeerId, address: u64, into: &mut [u8]) -> Result<(), Cause> {
        self.reader().ok_or(Cause::Unsupported)?.fetch(peer, address, into)
    }

    fn read_chunk(&mut self, set: u32, position: u32, peer: PeerId, from: Range<u64>) -> Result<(), Cause> {
        let (reader, own) = self.reader_and_set(set).ok_or(Cause::Unsupported)?;
        let len = from.end.saturating_sub(from.start) as usize;
        let chunk = own.fill(position).and_then(|chunk| chunk.get_mut(..len));
        reader.fetch(peer, from.start, chunk.ok_or(Cause::Stale)?)
    }

    fn progress(&self, set: u32, peer: PeerId) -> Result<Progress, Cause> {
        let own = self.own(set)?;
        let progress = self.their(set, peer)?.progress(own);
        if own.may_wait_for(progress) {
            self.miss(peer);
        }
        Ok(progress)
    }

    unsafe fn clear(&mut self, set: u32, progress: Progress) {
        if let Some(own) = self.own_mut(set) {
            // SAFETY: the caller promised that the others have come so far.
            unsafe { own.clear(progress) };
        }
    }
}
