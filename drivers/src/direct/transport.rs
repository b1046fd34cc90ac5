//! This module holds `unsafe` code, a function that is `unsafe` to call: the transport that reads
//! other ranks' memory.

use core::fmt;

use aldis_hal::copy::Store;
use aldis_hal::memory::{Access, Gather, Mapped, Memory};
use aldis_hal::remote_memory::RemoteAddress;
use aldis_hal::transport::{Quiesce, Route};
use aldis_hal::{
    Caps, Cause, Cost, Epoch, Extras, Features, Handle, Instant, PeerId, Post, Refusal, RegionId,
    RemoteMemory, Resource, SharedControl, Sink, Token, Transport,
};

use super::CopyEngine;
use super::reads::{READ_BYTES_MAX, Read, ReadEnds, ReadState, ReadStep};
use super::regions::{REGIONS, RegionSlots, Slot, reader};
use super::table::{ENTRIES, ShownRegion, Shows, Table, entry_bit};

/// The tables of a [`Direct`] transport, in the caller's memory.
#[derive(Debug)]
pub struct DirectTables<'m> {
    /// The table in which this rank shows regions.
    pub own: Table<'m>,
    /// The others' tables: an entry a rank.
    pub peers: &'m mut [Option<Table<'m>>],
    /// The regions that are registered.
    pub slots: &'m mut RegionSlots,
}

/// A transport around `T` that reads memory of ranks of this node by `E`: see the [module](super).
pub struct Direct<'m, T: Transport, E: CopyEngine> {
    inner: T,
    pub(super) engine: E,
    pub(super) own: Table<'m>,
    /// The others' tables, by rank.
    pub(super) peers: &'m mut [Option<Table<'m>>],
    pub(super) slots: &'m mut RegionSlots,
    /// Bits of the regions that are shown, and of those that are read into.
    pub(super) shown: u64,
    pub(super) reading: u64,
    /// Bits of the regions that are registered to be read into.
    targets: u64,
    /// The region that is read into next, or the first after it.
    pub(super) turn: u32,
    pub(super) serial: u16,
    /// Of peers whose memory can be read: only what is mapped, or any.
    caps: Option<[Caps; 2]>,
    read_cost: Cost,
    mapped_cost: Cost,
}

impl<'m, T: Transport, E: CopyEngine> Direct<'m, T, E> {
    /// Shows regions in its own table. No rank's memory is read before [`attach`](Self::attach).
    /// `cost` is that of a read.
    pub fn new(inner: T, engine: E, tables: DirectTables<'m>, cost: Cost) -> Self {
        let DirectTables { own, peers, slots } = tables;
        for peer in &mut *peers {
            *peer = None;
        }
        *slots = RegionSlots::EMPTY;
        Self {
            inner,
            engine,
            own,
            peers,
            slots,
            shown: 0,
            reading: 0,
            targets: 0,
            turn: 0,
            serial: 0,
            caps: None,
            read_cost: cost,
            mapped_cost: Cost::default(),
        }
    }

    /// With this cost of a read of memory that is mapped.
    pub const fn with_mapped(mut self, cost: Cost) -> Self {
        self.mapped_cost = cost;
        self
    }

    /// Takes this for the cost of a read, as somebody has measured. Before the kernel is told of
    /// any peer: by then it is decided what is read.
    pub fn set_read_cost(&mut self, cost: Cost) {
        self.read_cost = cost;
        for caps in self.caps.iter_mut().flatten() {
            caps.read_cost = cost;
        }
    }

    /// Reads memory of `peer` from now on, which shows it in `table`. The inner transport must
    /// reach it.
    ///
    /// # Errors
    /// Why it does not, [`Cause::Unsupported`] if the engine expects that it cannot read it,
    /// [`Cause::Unreachable`] for a rank beyond the table of peers.
    pub fn attach(&mut self, peer: PeerId, table: Table<'m>) -> Result<(), Cause> {
        let inner = *self.inner.reach(peer)?;
        let row = self.peers.get_mut(peer.index()).ok_or(Cause::Unreachable)?;
        if !self.engine.expects(peer) {
            return Err(Cause::Unsupported);
        }
        *row = Some(table);
        let mut caps = Caps { read_cost: self.read_cost, mapped_cost: self.mapped_cost, ..inner };
        caps.features.set(Features::MAPPABLE, self.engine.maps(peer));
        (caps.limits.key_bytes, caps.limits.direct_bytes_max) = (8, READ_BYTES_MAX);
        caps.limits.regions_max = ENTRIES as u16;
        self.caps = Some([caps, Caps { features: caps.features | Features::GET, ..caps }]);
        Ok(())
    }

    /// The transport inside.
    pub const fn inner(&self) -> &T {
        &self.inner
    }

    /// The transport inside, to attach peers to.
    ///
    /// # Safety
    /// It stays where it is: nothing exchanges it for another.
    ///
    /// ```compile_fail,E0133
    /// # use aldis_drivers::direct::{CopyEngine, Direct};
    /// # use aldis_hal::Transport;
    /// # fn mix<'m, T: Transport, E: CopyEngine>(
    /// #     one: &mut Direct<'m, T, E>,
    /// #     other: &mut Direct<'m, T, E>,
    /// # ) {
    /// // Peers and regions of the one are not those of the other.
    /// core::mem::swap(one.inner_mut(), other.inner_mut()); // `unsafe`
    /// # }
    /// ```
    pub const unsafe fn inner_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// The engine.
    pub const fn engine(&self) -> &E {
        &self.engine
    }

    /// The engine, to make peers known to.
    ///
    /// # Safety
    /// It stays where it is: nothing exchanges it for another, which does not know the peers whose
    /// copies this one still has to await.
    ///
    /// ```compile_fail,E0133
    /// # use aldis_drivers::direct::{CopyEngine, Direct};
    /// # use aldis_hal::Transport;
    /// # fn mix<'m, T: Transport, E: CopyEngine>(
    /// #     one: &mut Direct<'m, T, E>,
    /// #     other: &mut Direct<'m, T, E>,
    /// # ) {
    /// core::mem::swap(one.engine_mut(), other.engine_mut());
    /// # }
    /// ```
    pub const unsafe fn engine_mut(&mut self) -> &mut E {
        &mut self.engine
    }

    fn reads(&self, peer: PeerId) -> bool {
        matches!(self.peers.get(peer.index()), Some(Some(_)))
    }

    pub(super) fn slot(&mut self, RegionId(handle): RegionId) -> Option<&mut Slot> {
        let slot = self.slots.0.get_mut(handle.slot as usize)?;
        (slot.is_live() && slot.generation == handle.generation).then_some(slot)
    }
}

/// Takes all regions back. Nothing is shown any more: what is read of it from now on is not taken
/// for what was asked for. And no owner writes any more to what is read into.
impl<T: Transport, E: CopyEngine> Drop for Direct<'_, T, E> {
    fn drop(&mut self) {
        for (index, row) in (0..).zip(0..REGIONS) {
            let Some(slot) = self.slots.0.get(row).filter(|slot| slot.is_live()) else { continue };
            match self.own.entry(index) {
                Some(entry) => entry.hide(slot.generation),
                None => self.cut_off(row),
            }
        }
    }
}

impl<T: Transport, E: CopyEngine> Transport for Direct<'_, T, E> {
    type Slot<'a>
        = T::Slot<'a>
    where
        Self: 'a;

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    #[cfg_attr(not(target_pointer_width = "64"), inline)]
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        let inner = self.inner.reach(peer)?;
        let Some([mapped, any]) = self.caps.as_ref().filter(|_| self.reads(peer)) else { return Ok(inner) };
        Ok(if self.engine.reads_all(peer) { any } else { mapped })
    }

    fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &[u8]) -> Result<(), Cause> {
        self.inner.introduce(peer, epoch, address)
    }

    fn expect(&mut self, peer: PeerId) {
        self.inner.expect(peer);
    }

    #[inline(always)]
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        self.inner.short(peer, header, payload)
    }

    #[inline(always)]
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<Self::Slot<'_>, Refusal> {
        self.inner.reserve(peer, len)
    }

    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        match what {
            Quiesce::Region(region) => self.deregister(region),
            Quiesce::Post(token) => {
                let is_it = |slot: &Slot| slot.read.state != ReadState::Idle && slot.read.token == token;
                let index = self.slots.0.iter().position(is_it).ok_or(Cause::Stale)?;
                self.cut_off(index);
                Ok(())
            }
            Quiesce::Peer(peer) => {
                for index in 0..REGIONS {
                    if self.slots.0.get(index).is_some_and(|slot| slot.is_live() && slot.peer == peer) {
                        self.cut_off(index);
                    }
                }
                self.inner.quiesce(what)
            }
        }
    }

    #[inline(always)]
    fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        let mut events = 0;
        if (self.reading | self.shown) != 0 && budget > 0 {
            events = self.copy(sink);
        }
        events + self.inner.poll(budget - events, now, sink)
    }

    fn is_idle(&self) -> bool {
        self.inner.is_idle()
    }

    fn features(&self) -> Features {
        self.inner.features() | self.caps.map_or(Features::empty(), |[_, any]| any.features)
    }
}

/// Bytes beyond which it is cheaper to wait for the receive than to copy a message out of the way.
const EAGER_BYTES_MAX: u32 = 16 << 10;

/// The longest fragment: the receiver takes one while the sender writes the next.
const FRAGMENT_BYTES_MAX: u32 = 16 << 10;

impl<T: Transport, E: CopyEngine> Extras for Direct<'_, T, E> {
    const HAS_CONTROL_SLOTS: bool = T::HAS_CONTROL_SLOTS;

    fn survey(&self, peer: PeerId, mut visit: impl FnMut(Route<'_>)) {
        let remark = self.engine.remark(peer);
        let (transport, caps) = (self.name(), self.reach(peer));
        self.inner.survey(peer, |route| visit(Route { transport, caps, remark, ..route }));
    }

    #[inline]
    fn cork(&mut self) {
        self.inner.cork();
    }

    #[inline]
    fn uncork(&mut self, more: bool) {
        self.inner.uncork(more);
    }

    fn store(&mut self, peer: PeerId) -> Store {
        self.inner.store(peer)
    }

    /// Returns little: what is longer is copied once, by the receiver.
    fn eager_bytes_max(&self, peer: PeerId) -> u32 {
        self.inner.eager_bytes_max(peer).min(EAGER_BYTES_MAX)
    }

    fn fragment_bytes_max(&self, peer: PeerId) -> u32 {
        self.inner.fragment_bytes_max(peer).min(FRAGMENT_BYTES_MAX)
    }

    #[inline]
    fn has_news(&self, peer: PeerId) -> bool {
        self.inner.has_news(peer)
    }

    fn tells_departure(&self, peer: PeerId) -> bool {
        self.inner.tells_departure(peer)
    }

    fn depart(&mut self) {
        self.inner.depart();
    }

    fn control_slots(&mut self) -> Option<&mut dyn SharedControl> {
        self.inner.control_slots()
    }
}

impl<T: Transport, E: CopyEngine> RemoteMemory for Direct<'_, T, E> {
    const HAS_REMOTE_MEMORY: bool = true;

    fn get(&mut self, peer: PeerId, local: Gather, remote: RemoteAddress<'_>, token: Token) -> Post {
        let read = match self.plan(peer, local, remote, token) {
            Ok(read) => read,
            Err(cause) => return Post::Never(cause),
        };
        let (Some(entry), Some(slot)) = (self.entry(peer, read.entry), self.slot(local.region)) else {
            return Post::Never(Cause::BadRegion);
        };
        let target = slot.memory.start.as_ptr().addr().wrapping_add(local.offset) as u64;
        let index = local.region.0.slot.wrapping_sub(ENTRIES);
        match self.begin(index, entry, read, ReadEnds { first: remote.offset, target }) {
            ReadStep::On | ReadStep::Waits => Post::Queued,
            ReadStep::Over(result) => {
                self.cut_off(reader(index));
                match result {
                    Ok(()) => Post::Done,
                    Err(cause) => Post::Never(cause),
                }
            }
        }
    }

    fn mapped(&self, peer: PeerId, remote: RemoteAddress<'_>, len: u64) -> Result<Mapped<'_>, Cause> {
        let (target, from) = self.find(peer, remote, len)?;
        let ready = self.entry(peer, target.entry).map_or(0, ShownRegion::ready);
        let len = usize::try_from(len).map_err(|_| Cause::Unsupported)?;
        if ready < remote.offset.saturating_add(len as u64) {
            return Err(Cause::Unsupported);
        }
        self.engine.mapped(peer, from, len).ok_or(Cause::Unsupported)
    }

    fn is_mapped(&self, peer: PeerId, memory: Memory) -> bool {
        self.reads(peer) && self.engine.is_mapped(peer, memory)
    }

    unsafe fn register(&mut self, peer: PeerId, memory: Memory, access: Access) -> Result<RegionId, Cause> {
        if !self.reads(peer) {
            return Err(Cause::Unsupported);
        }
        let shown = access.contains(Access::REMOTE_READ);
        if shown && !self.engine.shows(peer, memory) {
            return Err(Cause::Unsupported);
        }
        let (live, start) = if shown { (&mut self.shown, 0) } else { (&mut self.targets, ENTRIES) };
        let place = live.trailing_ones();
        let index = start + place;
        let free = self.slots.0.get_mut(index as usize).filter(|_| place < ENTRIES);
        let Some(slot) = free else { return Err(Cause::Full(Resource::Regions)) };
        *live |= entry_bit(place);
        let generation = slot.generation.wrapping_add(1);
        *slot = Slot { generation, peer, memory, access, read: Read::NONE };
        if shown && let Some(entry) = self.own.entry(index) {
            let (address, len) = (memory.start.as_ptr().addr() as u64, memory.len as u64);
            entry.show(generation, Shows { address, len, grows: access.contains(Access::GROWS) });
        }
        Ok(RegionId(Handle { slot: index, generation }))
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), Cause> {
        let slot = self.slot(region).ok_or(Cause::Stale)?;
        slot.generation = slot.generation.wrapping_add(1);
        let RegionId(Handle { slot: index, generation }) = region;
        if let Some(entry) = self.own.entry(index) {
            entry.hide(generation);
            self.shown &= !entry_bit(index);
        } else {
            self.cut_off(index as usize);
            self.targets &= !entry_bit(index.wrapping_sub(ENTRIES));
        }
        Ok(())
    }

    fn grow(&mut self, region: RegionId, len: u64) {
        let RegionId(Handle { slot: index, .. }) = region;
        let grows = self.slot(region).is_some_and(|slot| slot.access.contains(Access::GROWS));
        if let Some(entry) = self.own.entry(index).filter(|_| grows) {
            entry.grow(u32::try_from(len).unwrap_or(u32::MAX));
        }
    }

    fn pack_key(&self, RegionId(handle): RegionId, key: &mut [u8]) -> Result<usize, Cause> {
        let live =
            self.slots.0.get(handle.slot as usize).is_some_and(|slot| slot.generation == handle.generation);
        if !live || handle.slot >= ENTRIES {
            return Err(Cause::Stale);
        }
        let Some(key) = key.first_chunk_mut::<8>() else {
            return Err(Cause::TooBig { len: 8, max: key.len() as u64 });
        };
        *key = (u64::from(handle.generation) << 32 | u64::from(handle.slot)).to_le_bytes();
        Ok(key.len())
    }
}

impl<T: Transport + fmt::Debug, E: CopyEngine + fmt::Debug> fmt::Debug for Direct<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inner, engine, shown, reading, .. } = self;
        f.debug_struct("Direct")
            .field("inner", inner)
            .field("engine", engine)
            .field("shown", shown)
            .field("reading", reading)
            .finish_non_exhaustive()
    }
}
