//! This module holds `unsafe` code: a shared region, and the way from validated numbers to
//! pointers.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use aldis_hal::{Cause, Epoch, PeerId};

use super::control_slots::{self, Own, Theirs};
use super::geometry::{BELLS_A_LINE, Geometry, Identity, PING_PONG_SLOTS, SLOT_BYTES, SetSizes, place_of};
use super::header::{self, InboxHeader};
use super::lane::Lane;
use super::memory::{Credit, Slot};
use super::ring::{Exact, Incoming, LanePlace, RingSender, read_bell};
use super::sleep::WAKES;
use crate::sync::{Ordering, Word};

/// A rank's inbox, mapped into this process. Nothing is known of its contents until they are
/// inspected.
pub struct Region<'m> {
    start: NonNull<u8>,
    len: usize,
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
        Self { start, len, memory: PhantomData }
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
    header.publish::<header::Exact>(geometry, identity, start, || memory.clear(start));
    Ok(())
}

/// Reads and validates an inbox's header.
///
/// # Errors
/// [`Cause::BadRegion`] for a region that is not aligned to 64 bytes, not formatted (yet), foreign,
/// truncated, or self-contradictory; [`Cause::Incompatible`] for one of another version.
pub fn inspect(region: &Region<'_>) -> Result<(Geometry, Identity), Cause> {
    let same = Region { start: region.start, len: region.len, memory: PhantomData };
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
    /// Sizes of sets, where there are any.
    pub(super) set_sizes: [SetSizes; (Geometry::SETS_MAX > 0) as usize],
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
        let set_sizes = core::array::from_fn(|_| geometry.set_sizes());
        // SAFETY: it stands in the region, which `Region::new`'s caller vouched for during `'m`,
        // and is made of atomics.
        let header = core::array::from_fn(|_| unsafe { NonNull::from(header).as_ref() });
        Ok(Self { region, geometry, identity, start, header, set_sizes })
    }

    /// Returns the place of `sender`'s lane. `sender` is a rank of the geometry other than the
    /// owner.
    fn lane(&self, sender: PeerId) -> LanePlace {
        let place = place_of(self.identity.owner, sender);
        let memory = self.memory();
        let Geometry { slots: size, blocks, .. } = self.geometry;
        let (slots, credit, asleep) = (memory.slots(place), memory.credit(place), memory.asleep());
        let bell = (self.geometry.bell_lines() > 0).then_some(place);
        let bell_at = core::array::from_fn(|_| bell.map_or(0, |place| place as u16 + 1));
        // A sender that wakes no rank needs the doorbell alone.
        let asleep = if WAKES { asleep } else { bell.map_or(ptr::null(), |place| memory.bell_word(place)) };
        LanePlace { slots, credit, asleep, bell_at, size, blocks, start: self.start }
    }

    /// The sending end of `sender`'s lane in this inbox; `None` for a rank without a lane.
    pub(super) fn outgoing(&self, sender: PeerId) -> Option<RingSender> {
        let place = self.checked(sender)?;
        // SAFETY: `open` found the region long enough for its geometry, of which `sender` has a
        // lane; `Region::new`'s caller vouched for the memory and its users for `'m`, which the
        // user of the end keeps.
        Some(unsafe { RingSender::open(place) })
    }

    /// The receiving end of `sender`'s lane in this inbox; `None` for a rank without a lane.
    pub(super) fn incoming(&self, sender: PeerId) -> Option<Incoming> {
        let place = self.checked(sender)?;
        // SAFETY: as in `outgoing`.
        Some(unsafe { Incoming::open(place) })
    }

    fn checked(&self, sender: PeerId) -> Option<LanePlace> {
        (sender.0 < self.geometry.peers && sender != self.identity.owner).then(|| self.lane(sender))
    }

    /// The first set of control slots.
    pub(super) fn sets(&self) -> *const u8 {
        self.memory().at(self.geometry.sets_at() as usize)
    }

    /// A set of control slots of this inbox, for its owner; `None` if there are fewer.
    pub(super) fn own_set(&self, set: u32) -> Option<Own> {
        let place = self.set(self.sets(), set)?;
        // SAFETY: `open` found the region long enough for its geometry, which has this set;
        // `Region::new`'s caller vouched for the memory and its users for `'m`, which the user of
        // the set keeps.
        Some(unsafe { Own::at(place) })
    }

    /// A set of control slots of this inbox, for its owner as a reader.
    pub(super) fn read_set(&self, set: u32) -> Option<Theirs> {
        let place = self.set(self.sets(), set)?;
        // SAFETY: as in `own_set`.
        Some(unsafe { Theirs::at(place) })
    }

    /// A set of control slots in the inbox into which `lane` leads from here; `None` once that is
    /// closed.
    #[inline]
    pub(super) fn their_set(&self, lane: &Lane, set: u32) -> Option<Theirs> {
        if lane.sets.is_null() {
            return None;
        }
        let place = self.set(lane.sets, set)?;
        // SAFETY: an open lane leads to the sets of an inbox that was found right when it was
        // attached, of the same geometry as this one; `Region::new`'s caller vouched for its memory
        // and its users for as long as the lane is open.
        Some(unsafe { Theirs::at(place) })
    }

    /// Returns the place of a set in an inbox of this geometry whose first one is at `sets`.
    #[inline]
    fn set(&self, sets: *const u8, set: u32) -> Option<control_slots::SetPlace> {
        let sizes = self.set_sizes.first()?;
        if set < self.geometry.sets { Some(place_of_set(*sizes, sets, set)) } else { None }
    }

    /// The value of the owner's word of sleep while it is awake.
    pub(super) fn awake(&self) -> u32 {
        header::awake(self.geometry)
    }

    fn memory(&self) -> InboxParts {
        InboxParts { start: self.region.start, geometry: self.geometry }
    }

    /// The first message's position in every lane.
    pub(super) fn start(&self) -> u32 {
        self.start
    }

    /// Reads the doorbells of one line: those that have changed since they were `heard`, each with
    /// its place.
    #[inline]
    pub(super) fn bells<'h>(
        &self,
        line: u32,
        heard: &'h mut [u32; BELLS_A_LINE as usize],
    ) -> impl Iterator<Item = (u32, u32)> + use<'h> {
        let memory = self.memory();
        let there = if line < self.geometry.bell_lines() { BELLS_A_LINE } else { 0 };
        let first = line.saturating_mul(BELLS_A_LINE);
        (first..first + there).zip(heard).filter_map(move |(place, heard)| {
            // SAFETY: the line is one of the geometry's, for which the region was found long
            // enough, and it stays valid for `'m`, which outlives the borrow of the inbox's owner.
            let bell = unsafe { &*memory.bell_word(place) };
            read_bell::<Exact>(bell, heard).map(|bell| (place, bell))
        })
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

    /// The header's last word, which the doorbells follow.
    fn asleep(self) -> *const Word {
        self.at(Geometry::BELLS_AT).cast::<Word>().wrapping_sub(1)
    }

    #[inline(always)]
    fn bell_word(self, place: u32) -> *const Word {
        self.at(Geometry::BELLS_AT).cast::<Word>().wrapping_add(place as usize)
    }

    /// Sets every control word to the state before the first message at `start`. The region was
    /// found long enough.
    fn clear(self, start: u32) {
        for place in 0..self.geometry.bell_lines() * BELLS_A_LINE {
            // SAFETY: a word of the geometry's doorbell lines, in a region that is long enough for
            // them.
            unsafe { (*self.bell_word(place)).store(start, Ordering::Relaxed) };
        }
        for place in 0..self.geometry.peers.saturating_sub(1) {
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
        let sets = self.at(self.geometry.sets_at() as usize);
        let place = |set| place_of_set(self.geometry.set_sizes(), sets, set);
        for place in (0..self.geometry.sets.min(Geometry::SETS_MAX)).map(place) {
            // SAFETY: a set of the geometry, in a region that is long enough for it; none is in
            // use yet, and no rank reads there.
            unsafe { Own::<control_slots::Exact>::at(place).open(0, start, 0) };
        }
    }
}

/// Returns the place of a set of these sizes in an inbox whose first one is at `sets`.
#[inline]
fn place_of_set(sizes: SetSizes, sets: *const u8, set: u32) -> control_slots::SetPlace {
    let control = sets.cast_mut().wrapping_add((sizes.bytes as usize).wrapping_mul(set as usize));
    let slots = control.wrapping_add(SLOT_BYTES as usize);
    let chunks = slots.wrapping_add(Geometry::CONTROL_SLOT_BYTES as usize + control_slots::PROBE_BYTES);
    control_slots::SetPlace {
        control: control.cast_const().cast(),
        slots: slots.cast_const().cast(),
        chunks,
        size: Geometry::CONTROL_SLOTS,
        depth: sizes.chunks,
        chunk_bytes: sizes.chunk_bytes,
    }
}
