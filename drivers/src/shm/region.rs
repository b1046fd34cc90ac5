//! This module holds `unsafe` code: a shared region, and the way from validated numbers to
//! pointers.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use aldis_hal::{Cause, Epoch, PeerId};

use super::control_slots::{self, Own, Theirs};
#[cfg(target_pointer_width = "64")]
use super::departures::{self, Departures};
use super::geometry::{Geometry, Identity, PING_PONG_SLOTS, SHARES, SLOT_BYTES, SetsLayout, place_of};
use super::header::{self, InboxHeader};
#[cfg(target_pointer_width = "64")]
use super::inbox::{InboxControl, InboxPlace};
use super::lane::LanePeer;
use super::memory::{Credit, Slot};
use super::ring::{Incoming, LanePlace, RingSender};
use super::sleep::WAKES;
use crate::sync::{Ordering, Word};

/// A rank's inbox, mapped into this process. Nothing is known of its contents until they are
/// inspected.
pub struct Region<'m> {
    start: NonNull<u8>,
    len: usize,
    /// Nothing has been written to it.
    is_fresh: bool,
    memory: PhantomData<&'m mut [u8]>,
}

// SAFETY: a region is a pointer to memory that is shared by its nature; it is tied to no thread.
unsafe impl Send for Region<'_> {}

impl<'m> Region<'m> {
    /// The `len` bytes from `start`.
    ///
    /// # Safety
    /// * The memory is valid for reads and writes for `'m`, initialised (a fresh mapping's zeros
    ///   are), and does not shrink: a mapped file is sealed against that.
    /// * In this process it is used through this value alone, or through others made over it by the
    ///   same contract (an owner's and its peers' in one process).
    /// * Everyone who writes to it keeps the ring protocol: each lane has one sender and one
    ///   receiver, which write only what is theirs, when it is theirs. Values that break the
    ///   protocol's arithmetic are found and reported; memory that changes while it is being read
    ///   cannot be.
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len, is_fresh: false, memory: PhantomData }
    }

    /// The `len` bytes from `start`, all of them zero: [`format`](format()) writes then only what
    /// is not, so that of a fresh mapping few pages take memory before they are used.
    ///
    /// # Safety
    /// The conditions of [`new`](Self::new), and the memory is zero: nobody has written to it, not
    /// an earlier life of its owner either.
    pub const unsafe fn fresh(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len, is_fresh: true, memory: PhantomData }
    }

    fn header(&self) -> Result<&InboxHeader, Cause> {
        let header = self.start.cast::<InboxHeader>();
        if self.len < size_of::<InboxHeader>() || !header.is_aligned() {
            return Err(Cause::BadRegion);
        }
        // SAFETY: long enough and aligned as just checked, valid and initialised by `new`'s
        // contract, and made of atomics, so that others may write it.
        Ok(unsafe { header.as_ref() })
    }
}

/// Memory beside the inboxes of a node in which all its ranks have the records by which they carry
/// out collectives together: see [`Shm::with_record_table`](super::Shm::with_record_table).
#[cfg(target_pointer_width = "64")]
#[derive(Debug)]
pub struct RecordTable<'m>(Region<'m>);

#[cfg(target_pointer_width = "64")]
impl<'m> RecordTable<'m> {
    /// The `len` bytes from `start`, zero but for what other ranks have written to their own
    /// records.
    ///
    /// # Safety
    /// The conditions of [`Region::new`], and the records of the rank that uses it are zero: nobody
    /// has written to them, not an earlier life of their owner either.
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        // SAFETY: the caller vouches for it.
        Self(unsafe { Region::new(start, len) })
    }
}

impl fmt::Debug for Region<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("start", &self.start).field("len", &self.len).finish()
    }
}

/// Makes a region the empty inbox of its owner: writes every control word and, last, the header.
/// Called once by the owner, before any peer attaches. The blocks are left as they are.
///
/// # Errors
/// [`Cause::RankOutOfRange`] for an owner outside the geometry, [`Cause::Incompatible`] for an
/// epoch of zero, [`Cause::BadRegion`] for a region that is too short or not aligned to 64 bytes;
/// the rest as [`Geometry::check`].
pub fn format(region: &Region<'_>, geometry: Geometry, identity: Identity) -> Result<(), Cause> {
    format_at(region, geometry, identity, 0)
}

/// [`format`] with a first position other than zero, so that tests reach the wrap of positions.
#[inline(never)]
pub(super) fn format_at(
    region: &Region<'_>,
    geometry: Geometry,
    identity: Identity,
    start: u32,
) -> Result<(), Cause> {
    geometry.check()?;
    if identity.owner.0 >= geometry.peers {
        return Err(Cause::RankOutOfRange { rank: identity.owner.0, size: geometry.peers });
    }
    if identity.epoch == Epoch(0) {
        return Err(Cause::Incompatible);
    }
    let header = region.header()?;
    if region.len < geometry.inbox_bytes() {
        return Err(Cause::BadRegion);
    }
    let memory = InboxParts { start: region.start, geometry };
    // A word that is cleared is zero or the first position. A small core has no fresh mappings.
    let is_clear = SHARES && region.is_fresh && start == 0;
    header.publish::<header::Exact>(geometry, identity, start, || memory.clear(start, is_clear));
    Ok(())
}

/// Reads and validates an inbox's header.
///
/// # Errors
/// [`Cause::BadRegion`] for a region that is not aligned to 64 bytes, not formatted (yet), foreign,
/// truncated, or self-contradictory; [`Cause::Incompatible`] for one of another version.
pub fn inspect(region: &Region<'_>) -> Result<(Geometry, Identity), Cause> {
    let same = Region { is_fresh: false, ..*region };
    Inbox::open(same).map(|inbox| (inbox.geometry, inbox.identity))
}

/// A region whose header has been found right.
#[derive(Debug)]
pub(super) struct Inbox<'m> {
    region: Region<'m>,
    pub(super) geometry: Geometry,
    pub(super) identity: Identity,
    start: u32,
    /// The header, which stays what it was found to be but for the words that tell of sleep; where
    /// ranks sleep.
    pub(super) header: [&'m InboxHeader; WAKES as usize],
    /// The division of the sets, where there are any.
    pub(super) sets_layout: [SetsLayout; (Geometry::SETS_MAX > 0) as usize],
    /// The table of the node's records, where there is one.
    records: [Option<Region<'m>>; (Geometry::SETS_MAX > 0) as usize],
}

impl<'m> Inbox<'m> {
    /// Inspects `region`.
    ///
    /// # Errors
    /// [`Cause::BadRegion`] for a region that is not aligned, not formatted (yet), foreign,
    /// truncated or self-contradictory, [`Cause::Incompatible`] for one of another version.
    #[inline(never)]
    pub(super) fn open(region: Region<'m>) -> Result<Self, Cause> {
        let header = region.header()?;
        let (geometry, identity, start) = header.read::<header::Exact>(region.len)?;
        let sets_layout = core::array::from_fn(|_| geometry.sets_layout());
        // SAFETY: it stands in the region, which `Region::new`'s caller vouched for during `'m`,
        // and is made of atomics.
        let header = core::array::from_fn(|_| unsafe { NonNull::from(header).as_ref() });
        let records = [const { None }; (Geometry::SETS_MAX > 0) as usize];
        Ok(Self { region, geometry, identity, start, header, sets_layout, records })
    }

    /// Takes `region` for an inbox of this one's geometry, of `identity`, without a look at it.
    ///
    /// # Errors
    /// [`Cause::BadRegion`] for a region that is too short or not aligned.
    pub(super) fn assume(&self, region: Region<'m>, identity: Identity) -> Result<Self, Cause> {
        let header = region.header()?;
        if region.len < self.geometry.inbox_bytes() {
            return Err(Cause::BadRegion);
        }
        // SAFETY: as in `open`.
        let header = core::array::from_fn(|_| unsafe { NonNull::from(header).as_ref() });
        let &Self { geometry, start, sets_layout, .. } = self;
        let records = [const { None }; (Geometry::SETS_MAX > 0) as usize];
        Ok(Self { region, geometry, identity, start, header, sets_layout, records })
    }

    /// The sending end of `sender`'s lane in this inbox; `None` for a rank without a lane.
    pub(super) fn outgoing(&self, sender: PeerId) -> Option<RingSender> {
        let place = self.memory().lane(self.place_of(sender)?, self.start);
        // SAFETY: `open` found the region long enough for its geometry, of which `sender` has a
        // lane; `Region::new`'s caller vouched for the memory and its users for `'m`, which the
        // user of the end keeps.
        Some(unsafe { RingSender::open(place) })
    }

    /// The receiving end of `sender`'s lane in this inbox; `None` for a rank without a lane.
    pub(super) fn incoming(&self, sender: PeerId) -> Option<Incoming> {
        let place = self.memory().lane(self.place_of(sender)?, self.start);
        // SAFETY: as in `outgoing`.
        Some(unsafe { Incoming::open(place) })
    }

    /// The place of the lane of `sender`, a rank of the geometry other than the owner.
    fn place_of(&self, sender: PeerId) -> Option<u32> {
        let is_other = sender.0 < self.geometry.peers && sender != self.identity.owner;
        is_other.then(|| place_of(self.identity.owner, sender))
    }

    /// The first set of control slots.
    pub(super) fn sets(&self) -> *const u8 {
        self.memory().at(self.geometry.sets_at() as usize)
    }

    /// A set of control slots of this inbox, for its owner; `None` if there are fewer.
    pub(super) fn own_set(&self, set: u32) -> Option<Own> {
        let place = self.set(self.sets(), self.identity.owner, set)?;
        // SAFETY: `open` found the region long enough for its geometry, which has this set, and
        // `use_record_table` found the table, if there is one; `Region::new`'s caller vouched for
        // the memory and its users for `'m`, which the user of the set keeps.
        Some(unsafe { Own::at(place) })
    }

    /// A set of control slots of this inbox, for its owner as a reader.
    pub(super) fn read_set(&self, set: u32) -> Option<Theirs> {
        let place = self.set(self.sets(), self.identity.owner, set)?;
        // SAFETY: as in `own_set`.
        Some(unsafe { Theirs::at(place) })
    }

    /// A set of control slots in the inbox of a peer, the one with this number on the node; `None`
    /// once that is closed.
    #[cfg(target_pointer_width = "64")]
    #[inline]
    pub(super) fn their_set(&self, peer: &LanePeer, number: PeerId, set: u32) -> Option<Theirs> {
        if peer.sets.is_null() {
            return None;
        }
        let place = self.set(peer.sets, number, set)?;
        // SAFETY: an open peer leads to the sets of an inbox of this one's geometry, in a region
        // that was found long enough when it was attached, and a table, if there is one, has the
        // records of its number; `Region::new`'s caller vouched for their memory and its users for
        // as long as the peer is open.
        Some(unsafe { Theirs::at(place) })
    }

    /// A set of control slots in the inbox of a peer, of which there are none.
    #[cfg(not(target_pointer_width = "64"))]
    pub(super) fn their_set(&self, _: &LanePeer, _: PeerId, _: u32) -> Option<Theirs> {
        None
    }

    /// The word by which an open peer says that it sleeps; none does.
    #[cfg(not(target_pointer_width = "64"))]
    pub(super) fn asleep_of(&self, _: &LanePeer) -> Option<&'m Word> {
        None
    }

    /// Returns the place of a set in the inbox of this geometry of a rank with this number on the
    /// node, where the first set is at `sets`.
    #[inline]
    fn set(&self, sets: *const u8, number: PeerId, set: u32) -> Option<control_slots::SetPlace> {
        let layout = self.sets_layout.first()?;
        if set >= self.geometry.sets {
            return None;
        }
        let records = match self.records.first() {
            Some(Some(table)) => Records::in_table(table, &self.geometry, number)?,
            _ => Records::own(sets),
        };
        Some(place_of_set(layout, sets, &records, set))
    }

    /// Has the records of all ranks' sets in a table of the node, and makes this rank's empty.
    ///
    /// # Errors
    /// [`Cause::BadRegion`] for a table that is too short or not aligned.
    #[cfg(target_pointer_width = "64")]
    pub(super) fn use_record_table(&mut self, table: RecordTable<'m>) -> Result<(), Cause> {
        let RecordTable(table) = table;
        let is_aligned = table.start.addr().get().is_multiple_of(align_of::<control_slots::ControlHead>());
        if table.len < self.geometry.record_table_bytes() || !is_aligned {
            return Err(Cause::BadRegion);
        }
        self.records = [Some(table)];
        // A record that is clear is zero or has the first position.
        let sets = if self.start == 0 { 0 } else { self.geometry.sets };
        for mut own in (0..sets).filter_map(|set| self.own_set(set)) {
            // SAFETY: it is in no use yet, and no rank reads there.
            unsafe { own.open(0, self.start, 0) };
        }
        Ok(())
    }

    fn memory(&self) -> InboxParts {
        InboxParts { start: self.region.start, geometry: self.geometry }
    }

    /// The first message's position in every lane.
    pub(super) fn start(&self) -> u32 {
        self.start
    }
}

/// The parts that there are where lanes are fewer than peers.
#[cfg(target_pointer_width = "64")]
impl<'m> Inbox<'m> {
    /// The region, by which a peer finds its way here.
    pub(super) fn region(&self) -> *const u8 {
        self.region.start.as_ptr()
    }

    /// The region of an open peer's inbox.
    #[inline]
    fn region_of(&self, peer: &LanePeer) -> Option<NonNull<u8>> {
        let sets = NonNull::new(peer.sets.cast_mut())?;
        NonNull::new(sets.as_ptr().wrapping_sub(self.geometry.sets_at() as usize))
    }

    fn parts_of(&self, peer: &LanePeer) -> Option<InboxParts> {
        let start = self.region_of(peer)?;
        Some(InboxParts { start, geometry: self.geometry })
    }

    /// The word by which an open peer says that it sleeps.
    pub(super) fn asleep_of(&self, peer: &LanePeer) -> Option<&'m Word> {
        let parts = self.parts_of(peer)?;
        // SAFETY: as in `shared_at`; the region begins with its header, which is made of atomics.
        Some(unsafe { &*parts.asleep() })
    }

    /// The inbox of this region that all share.
    pub(super) fn shared(&self) -> InboxPlace<'m> {
        self.shared_at(self.region())
    }

    /// The inbox that all share in a region that was found right, of the same geometry.
    fn shared_at(&self, region: *const u8) -> InboxPlace<'m> {
        let control = region.wrapping_add(Geometry::SHARED_AT).cast::<InboxControl>();
        let labels = region.wrapping_add(Geometry::SHARED_SLOTS_AT);
        // SAFETY: callers have a region of this geometry, which has a shared inbox, that was found
        // long enough and is mapped during `'m` (of a peer: as long as it is open, which is
        // where its address comes from). It is made of atomics, and its users keep the protocol.
        unsafe { InboxPlace::new(&*control, labels, self.geometry.shared_stride()) }
    }

    /// The inbox that all share of an open peer, where there is one.
    pub(super) fn shared_of(&self, peer: &LanePeer) -> Option<InboxPlace<'m>> {
        let region = self.region_of(peer).filter(|_| self.geometry.is_shared())?;
        Some(self.shared_at(region.as_ptr()))
    }

    /// Looks if the inbox that all share of an open peer is what it was taken for, and that
    /// peer's.
    ///
    /// # Errors
    /// [`Cause::BadRegion`] if it is another's, or none; [`Cause::Incompatible`] for another
    /// geometry or another first position, and as [`open`](Self::open).
    #[cold]
    pub(super) fn check_theirs(&self, peer: &LanePeer, identity: Identity) -> Result<(), Cause> {
        let start = self.region_of(peer).ok_or(Cause::BadRegion)?;
        // As long as `assume` has found it.
        let theirs = Self::open(Region {
            start,
            len: self.geometry.inbox_bytes(),
            is_fresh: false,
            memory: PhantomData,
        })?;
        if theirs.identity != identity {
            return Err(Cause::BadRegion);
        }
        let is_alike = theirs.geometry == self.geometry && theirs.start == self.start;
        if is_alike { Ok(()) } else { Err(Cause::Incompatible) }
    }

    /// The log of departures in the region of the node's first rank, which was found right, of the
    /// same geometry; `None` for a null pointer.
    #[inline]
    pub(super) fn departures_in(&self, region: *const u8) -> Option<Departures<'m>> {
        if region.is_null() {
            return None;
        }
        // SAFETY: as in `shared_at`, but for a region that stays, whatever becomes of its lane.
        let entries = unsafe { entries(region, &self.geometry) };
        Some(Departures::new(entries))
    }

    /// The sending end towards an open peer, without a lane.
    pub(super) fn shut_of(&self, peer: &LanePeer) -> Option<RingSender> {
        let parts = self.parts_of(peer)?;
        // SAFETY: as in `shared_at`; the region begins with its header.
        Some(unsafe { RingSender::shut(parts.asleep()) })
    }

    /// Makes a lane of this rank's fresh, and returns its receiving end. No rank sends in it.
    pub(super) fn fresh_lane(&self, place: u32) -> Option<Incoming> {
        if place >= self.geometry.lane_count() {
            return None;
        }
        let memory = self.memory();
        memory.clear_lane(place, self.start);
        // SAFETY: as in `outgoing`: the geometry has this lane.
        Some(unsafe { Incoming::open(memory.lane(place, self.start)) })
    }

    /// The sending end of a fresh lane of a peer's; `None` if there are fewer.
    pub(super) fn granted_lane(&self, peer: &LanePeer, place: u32) -> Option<RingSender> {
        let memory = self.parts_of(peer).filter(|_| place < self.geometry.lane_count())?;
        // SAFETY: as in `shared_at`, and the geometry has this lane.
        Some(unsafe { RingSender::open(memory.lane(place, self.start)) })
    }
}

/// The parts of an inbox by address. Making a pointer is harmless; who follows it says why it may.
#[derive(Clone, Copy)]
struct InboxParts {
    start: NonNull<u8>,
    geometry: Geometry,
}

impl InboxParts {
    fn at(self, offset: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(offset)
    }

    fn slots(self, place: u32) -> *const Slot {
        self.at(self.geometry.ring_at(place)).cast()
    }

    fn credit(self, place: u32) -> *const Credit {
        self.at(self.geometry.credit_at(place)).cast()
    }

    /// The header's last word.
    fn asleep(self) -> *const Word {
        self.at(SLOT_BYTES as usize / 2).cast::<Word>().wrapping_sub(1)
    }

    /// Returns the place of a lane.
    fn lane(self, place: u32, start: u32) -> LanePlace {
        let Geometry { slots: size, blocks, .. } = self.geometry;
        let (slots, credit, asleep) = (self.slots(place), self.credit(place), self.asleep());
        LanePlace { slots, credit, asleep, size, blocks, start }
    }

    /// Sets every control word of a lane to the state before the first message at `start`. The
    /// region was found long enough, and the geometry has this lane.
    fn clear_lane(self, place: u32, start: u32) {
        for slot in 0..self.geometry.slots as usize {
            // SAFETY: a slot of a lane of the geometry, in a region that is long enough for it.
            unsafe { (*self.slots(place).wrapping_add(slot)).sequence.store(start, Ordering::Relaxed) };
        }
        for home in self.geometry.slots..self.geometry.slots + PING_PONG_SLOTS {
            // SAFETY: a ping-pong slot of the same lane.
            let slot = unsafe { &*self.slots(place).wrapping_add(home as usize) };
            slot.sequence.store(0, Ordering::Relaxed);
        }
        // SAFETY: the credit line of the same lane.
        let credit = unsafe { &*self.credit(place) };
        credit.consumed.store(start, Ordering::Relaxed);
        credit.released.store(0, Ordering::Relaxed);
        if PING_PONG_SLOTS != 0 {
            credit.lends.store(0, Ordering::Relaxed);
        }
    }

    /// Sets every control word to the state before the first message at `start`; if all of them are
    /// zero, only those that are not in that state. The region was found long enough.
    fn clear(self, start: u32, is_zero: bool) {
        #[cfg(target_pointer_width = "64")]
        if self.geometry.is_shared() {
            // SAFETY: the geometry has a shared inbox, and the region is long enough for it.
            unsafe { (*self.at(Geometry::SHARED_AT).cast::<InboxControl>()).clear() };
        }
        if is_zero {
            return;
        }
        #[cfg(target_pointer_width = "64")]
        if self.geometry.is_shared() {
            // SAFETY: as above.
            Departures::<departures::Exact>::new(unsafe { entries(self.start.as_ptr(), &self.geometry) })
                .clear();
        }
        for place in 0..self.geometry.lane_count() {
            self.clear_lane(place, start);
        }
        let sets = self.at(self.geometry.sets_at() as usize);
        let place = |set| place_of_set(&self.geometry.sets_layout(), sets, &Records::own(sets), set);
        for place in (0..self.geometry.sets.min(Geometry::SETS_MAX)).map(place) {
            // SAFETY: a set of the geometry, in a region that is long enough for it; none is in
            // use yet, and no rank reads there.
            unsafe { Own::<control_slots::Exact>::at(place).open(0, start, 0) };
        }
    }
}

/// The entries of the log of departures in a region.
///
/// # Safety
/// The region is one of this geometry, which has a shared inbox, and mapped during `'m`.
#[cfg(target_pointer_width = "64")]
#[inline]
unsafe fn entries<'m>(region: *const u8, geometry: &Geometry) -> &'m [Word] {
    let start = region.wrapping_add(geometry.departures_at()).cast::<Word>();
    // SAFETY: the region has an entry for each rank there, as the caller vouches, and they are
    // atomics.
    unsafe { core::slice::from_raw_parts(start, geometry.peers as usize) }
}

/// The records of a rank's sets: the first one, and the bytes from one to the next.
struct Records {
    first: *const u8,
    stride: usize,
}

impl Records {
    /// Those in an inbox whose first set is at `sets`.
    #[inline]
    const fn own(sets: *const u8) -> Self {
        Self { first: sets, stride: control_slots::RECORD_BYTES }
    }

    /// Those of a rank in a table of the node, in which each of them stands next to that of the
    /// rank after; `None` of a rank that it does not have.
    #[inline]
    fn in_table(table: &Region<'_>, geometry: &Geometry, number: PeerId) -> Option<Self> {
        if number.0 >= geometry.peers {
            return None;
        }
        let first = table.start.as_ptr().wrapping_add(number.index() * control_slots::RECORD_BYTES);
        Some(Self { first, stride: SetsLayout::records_of(geometry.peers) * control_slots::RECORD_BYTES })
    }

    #[inline]
    const fn at(&self, record: u32) -> *const u8 {
        self.first.wrapping_add(self.stride.wrapping_mul(record as usize))
    }
}

/// Returns the place of a set where these are the records of all sets, and the first set in the
/// inbox is at `sets`.
#[inline]
fn place_of_set(
    layout: &SetsLayout,
    sets: *const u8,
    records: &Records,
    set: u32,
) -> control_slots::SetPlace {
    let at = |offset: u64| sets.wrapping_add(offset as usize);
    let first = set.wrapping_mul(SetsLayout::RECORDS);
    control_slots::SetPlace {
        control: records.at(first).cast(),
        heads: records.at(first.wrapping_add(1)).cast(),
        stride: records.stride,
        bodies: at(layout.bodies_at(set)).cast(),
        chunks: at(layout.chunks_at(set)).cast_mut(),
        size: Geometry::CONTROL_SLOTS,
        depth: layout.chunks(set),
        chunk_bytes: layout.chunk_bytes,
    }
}
