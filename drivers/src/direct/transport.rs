//! This module holds `unsafe` code: `Direct`, the transport that reads other ranks' memory. The unsafe steps are the
//! engine's copies, from and to registered memory.

use core::fmt;
use core::ptr::NonNull;

use aldis_hal::memory::{Access, Gather, Memory};
use aldis_hal::transport::{Quiesce, Remote, Route};
use aldis_hal::{
    Caps, Cause, Cost, Epoch, Features, Handle, Instant, Lines, PeerId, Post, Refusal, RegionId, Resource,
    Sink, Token, Transport,
};

use super::CopyEngine;
use super::table::{CHUNKS_MAX, Chunk, ENTRIES, Entry, Offered, Table};

/// Regions that are registered at a time: the first half can be shown, the other is read into.
const REGIONS: usize = 2 * ENTRIES as usize;

/// A chunk that is not shared with the owner, and the least and the most of one that is.
const CHUNK_BYTES: u32 = 64 << 10;
const SHARED_CHUNK_BYTES_MIN: u32 = 16 << 10;
const SHARED_CHUNK_BYTES_MAX: u32 = 128 << 10;

/// Most bytes of one read.
const READ_BYTES_MAX: u64 = CHUNKS_MAX as u64 * SHARED_CHUNK_BYTES_MAX as u64;

/// Chunks that a shared read is cut into if it is short: few, since each costs a call; enough for the faster side to do
/// more of them.
const CHUNKS_MIN: u32 = 4;

/// Polls for which a reader that has done its part waits for the owner's, before it looks whether that is stopped.
const PATIENCE: u32 = 4096;

/// What is registered; a row of the caller's memory.
#[derive(Debug)]
pub struct Slots([Slot; REGIONS]);

impl Slots {
    /// Nothing registered.
    pub const EMPTY: Self = Self([Slot::EMPTY; REGIONS]);
}

/// One region.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Odd while it is registered.
    generation: u32,
    peer: PeerId,
    memory: Memory,
    access: Access,
    read: Read,
}

// SAFETY: the address is dereferenced by the transport that holds it alone, which moves between threads as a whole.
unsafe impl Send for Slot {}

impl Slot {
    const EMPTY: Self = Self {
        generation: 0,
        peer: PeerId(0),
        memory: Memory { start: NonNull::dangling(), len: 0 },
        access: Access::empty(),
        read: Read::NONE,
    };

    const fn is_live(&self) -> bool {
        self.generation & 1 == 1
    }

    /// Whether a piece is inside.
    fn holds(&self, offset: usize, len: usize) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.memory.len)
    }
}

/// A read into a region.
#[derive(Clone, Copy, Debug)]
struct Read {
    state: State,
    token: Token,
    /// The owner's entry and its generation.
    entry: u32,
    generation: u32,
    /// The first byte in the owner's memory, and where it belongs in the region.
    from: u64,
    offset: usize,
    len: usize,
    /// Bytes read, if it is not shared.
    done: usize,
    offered: Offered,
    /// Polls that it has waited for the owner.
    waited: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Idle,
    /// By this side alone.
    Alone,
    /// Offered to the owner.
    Shared,
    /// What the owner has taken and not done is read after all: from the so many-th of the chunks that it took on.
    Again {
        next: u32,
        end: u32,
    },
}

impl Read {
    const NONE: Self = Self {
        state: State::Idle,
        token: Token(Handle { slot: 0, generation: 0 }),
        entry: 0,
        generation: 0,
        from: 0,
        offset: 0,
        len: 0,
        done: 0,
        offered: Offered { serial: 0, first: 0, len: 0, chunk_bytes: 0, chunks: 0 },
        waited: 0,
    };
}

/// What a step of a read came to.
enum Step {
    /// There is more.
    On,
    Over(Result<(), Cause>),
}

/// A transport around `T` that reads memory of ranks of this node by `E`: see the [module](super).
pub struct Direct<'m, T, E> {
    inner: T,
    engine: E,
    own: Table<'m>,
    /// The others' tables, by rank.
    peers: &'m mut [Option<Table<'m>>],
    slots: &'m mut Slots,
    /// Bits of the regions that are shown, and of those that are read into.
    shown: u32,
    reading: u32,
    /// Whose turn it is.
    turn: u32,
    serial: u16,
    /// Of peers whose memory can be read.
    caps: Option<Caps>,
    read_cost: Cost,
}

impl<'m, T: Transport, E: CopyEngine> Direct<'m, T, E> {
    /// Shows regions in `own`. Nobody's memory is read before [`attach`](Self::attach). `peers` has an entry a rank;
    /// `cost` is that of a read.
    pub fn new(
        inner: T,
        engine: E,
        own: Table<'m>,
        peers: &'m mut [Option<Table<'m>>],
        slots: &'m mut Slots,
        cost: Cost,
    ) -> Self {
        for peer in &mut *peers {
            *peer = None;
        }
        *slots = Slots::EMPTY;
        let (caps, read_cost) = (None, cost);
        Self { inner, engine, own, peers, slots, shown: 0, reading: 0, turn: 0, serial: 0, caps, read_cost }
    }

    /// Reads memory of `peer` from now on, which shows it in `table`. The inner transport must reach it.
    ///
    /// # Errors
    /// Why it does not, [`Cause::Unsupported`] if the engine cannot read it, [`Cause::Unreachable`] for a rank beyond
    /// the table of peers.
    pub fn attach(&mut self, peer: PeerId, table: Table<'m>) -> Result<(), Cause> {
        let inner = *self.inner.reach(peer)?;
        let row = self.peers.get_mut(peer.index()).ok_or(Cause::Unreachable)?;
        if self.engine.reads(peer).is_err() {
            return Err(Cause::Unsupported);
        }
        *row = Some(table);
        let mut caps = Caps { read_cost: self.read_cost, ..inner };
        caps.features |= Features::GET;
        (caps.limits.key_bytes, caps.limits.direct_bytes_max) = (8, READ_BYTES_MAX);
        caps.limits.regions_max = ENTRIES as u16;
        self.caps = Some(caps);
        Ok(())
    }

    /// The transport inside.
    pub const fn inner(&self) -> &T {
        &self.inner
    }

    /// The transport inside, to attach peers to.
    pub const fn inner_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// The engine.
    pub const fn engine(&self) -> &E {
        &self.engine
    }

    /// The engine, to make peers known to.
    pub const fn engine_mut(&mut self) -> &mut E {
        &mut self.engine
    }

    fn reads(&self, peer: PeerId) -> bool {
        matches!(self.peers.get(peer.index()), Some(Some(_)))
    }

    fn slot(&mut self, RegionId(handle): RegionId) -> Option<&mut Slot> {
        let slot = self.slots.0.get_mut(handle.slot as usize)?;
        (slot.is_live() && slot.generation == handle.generation).then_some(slot)
    }

    /// The owner's entry that a read is of.
    fn entry(&self, peer: PeerId, index: u32) -> Option<&'m Entry> {
        self.peers.get(peer.index())?.as_ref()?.entry(index)
    }

    /// One chunk of the read into region `index`.
    fn step(&mut self, index: u32) -> Step {
        let Some(&slot) = self.slots.0.get(reader(index)) else { return Step::Over(Err(Cause::Stale)) };
        let Slot { peer, memory, mut read, .. } = slot;
        let Some(entry) = self.entry(peer, read.entry) else { return Step::Over(Err(Cause::Stale)) };
        let (piece, last) = match read.state {
            State::Idle => return Step::Over(Err(Cause::Stale)),
            State::Alone => {
                let len = (read.len - read.done).min(CHUNK_BYTES as usize);
                let piece = (read.done as u64, len);
                read.done += len;
                (Some(piece), read.done == read.len)
            }
            State::Shared => match entry.take_front(read.offered.serial, read.offered.chunks) {
                Chunk::Yours(chunk) => (read.offered.range(chunk), false),
                Chunk::Taken(taken) => match self.rest(peer, entry, &mut read, taken) {
                    Some(done) => (None, done),
                    None => return self.keep(index, read),
                },
                Chunk::Gone => return Step::Over(Err(Cause::Stale)),
            },
            State::Again { next, end } => {
                let chunk = read.offered.chunks.saturating_sub(1).saturating_sub(next);
                read.state = State::Again { next: next + 1, end };
                (read.offered.range(chunk), next + 1 >= end)
            }
        };
        if let Some((start, len)) = piece {
            let place = read.offset.saturating_add(start as usize);
            if !slot.holds(place, len) {
                return Step::Over(Err(Cause::BadRegion));
            }
            // SAFETY: the piece is inside of registered memory, which whoever registered it keeps valid and leaves alone
            // until it is taken back; no other chunk has these bytes.
            let copied = unsafe {
                let into = memory.start.as_ptr().add(place);
                self.engine.read(peer, read.from.wrapping_add(start), into, len)
            };
            if let Err(cause) = copied {
                let cause = if entry.is_shown(read.generation) { cause } else { Cause::Stale };
                return Step::Over(Err(cause));
            }
        }
        if !last {
            return self.keep(index, read);
        }
        Step::Over(if entry.is_shown(read.generation) { Ok(()) } else { Err(Cause::Stale) })
    }

    fn keep(&mut self, index: u32, read: Read) -> Step {
        if let Some(slot) = self.slots.0.get_mut(reader(index)) {
            slot.read = read;
        }
        Step::On
    }

    /// The reader has done its part of a read of which the owner has taken so many chunks: whether all is done, or some
    /// chunks must be read after all. `None` while the owner is at it.
    fn rest(&mut self, peer: PeerId, entry: &Entry, read: &mut Read, taken: u32) -> Option<bool> {
        let done = match entry.helped(read.offered.serial) {
            Some(helped) if helped >= taken => return Some(true),
            Some(helped) => {
                read.waited += 1;
                if !read.waited.is_multiple_of(PATIENCE) {
                    return None;
                }
                if entry.is_shown(read.generation) && self.engine.is_within(peer, entry.helper()) {
                    return None;
                }
                // It may be stopped just before its copy.
                entry.empty_places();
                if self.engine.is_within(peer, entry.helper()) {
                    return None;
                }
                helped
            }
            // Those before the one that failed are there, but which one it was is not known.
            None => 0,
        };
        read.state = State::Again { next: done, end: taken };
        Some(false)
    }

    /// Ends a read: when this returns nobody writes to its memory any more.
    fn cut_off(&mut self, index: usize) {
        let Some(slot) = self.slots.0.get_mut(index) else { return };
        let (peer, read) = (slot.peer, core::mem::replace(&mut slot.read, Read::NONE));
        self.reading &= !bit(index.wrapping_sub(ENTRIES as usize) as u32);
        if read.state == State::Idle || read.state == State::Alone {
            return;
        }
        let Some(entry) = self.entry(peer, read.entry) else { return };
        let Some(taken) = entry.withdraw(read.offered.serial, read.offered.chunks) else { return };
        let is_done = || entry.helped(read.offered.serial).is_none_or(|helped| helped >= taken);
        if is_done() {
            return;
        }
        entry.empty_places();
        // Ends with the owner's copy of one chunk at the latest, or once the owner cannot be within one.
        while !is_done() && self.engine.is_within(peer, entry.helper()) {
            core::hint::spin_loop();
        }
    }

    /// Writes one chunk for a reader of what is shown here. Whether there was one.
    fn help(&mut self) -> bool {
        let mut left = self.shown;
        while left != 0 {
            // The lowest bit, which is the oldest entry but for those that have been used again.
            let index = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            if self.help_with(index) {
                return true;
            }
        }
        false
    }

    fn help_with(&mut self, index: u32) -> bool {
        let (Some(&slot), Some(entry)) = (self.slots.0.get(index as usize), self.own.entry(index)) else {
            return false;
        };
        let Some(offered) = entry.offered() else { return false };
        if !self.engine.writes(slot.peer) {
            return false;
        }
        let Chunk::Yours(chunk) = entry.take_back(offered.serial, offered.chunks, self.engine.thread())
        else {
            return false;
        };
        let place = entry.place(chunk).zip(offered.range(chunk));
        let inside = place.and_then(|(place, (start, len))| {
            let start = usize::try_from(offered.first.checked_add(start)?).ok()?;
            slot.holds(start, len).then_some((place, start, len))
        });
        let written = match inside {
            // SAFETY: the piece is inside of registered memory, which is there to be read until it is taken back.
            Some((place, start, len)) => unsafe {
                let from = slot.memory.start.as_ptr().add(start);
                self.engine.write(slot.peer, from, place, len)
            },
            None => Err(Cause::BadRegion),
        };
        let count = offered.chunks.wrapping_sub(chunk);
        entry.tell_helped(offered.serial, written.is_ok().then_some(count));
        true
    }

    /// The next serial of an offer; never zero.
    fn next_serial(&mut self) -> u16 {
        self.serial = self.serial.wrapping_add(1).max(1);
        self.serial
    }

    /// What a read is, if both sides' memory is there.
    fn plan(&mut self, peer: PeerId, local: Gather, remote: Remote<'_>, token: Token) -> Result<Read, Cause> {
        let Some((&slot_bytes, rest)) = remote.key.split_first_chunk() else { return Err(Cause::BadRegion) };
        let Some(&generation_bytes) = rest.first_chunk() else { return Err(Cause::BadRegion) };
        let (index, generation) = (u32::from_le_bytes(slot_bytes), u32::from_le_bytes(generation_bytes));
        let entry = self.entry(peer, index).ok_or(Cause::BadRegion)?;
        let (address, shown) = entry.look(generation)?;
        if remote.offset.checked_add(local.len as u64).is_none_or(|end| end > shown) {
            return Err(Cause::BadRegion);
        }
        let slot = self.slot(local.region).ok_or(Cause::BadRegion)?;
        if !slot.access.contains(Access::LOCAL_WRITE) || !slot.holds(local.offset, local.len) {
            return Err(Cause::BadRegion);
        }
        if slot.read.state != State::Idle || slot.peer != peer {
            return Err(Cause::Busy);
        }
        let from = address.wrapping_add(remote.offset);
        let Gather { offset, len, .. } = local;
        Ok(Read { state: State::Alone, token, entry: index, generation, from, offset, len, ..Read::NONE })
    }

    /// Offers the chunks of a long read to the owner.
    fn share(&mut self, entry: &Entry, read: &mut Read, target: u64, first: u64) {
        let len = read.len as u64;
        let least = len.div_ceil(CHUNKS_MAX.into()).max(SHARED_CHUNK_BYTES_MIN.into());
        let wanted = (len / u64::from(CHUNKS_MIN)).min(CHUNK_BYTES.into());
        let chunk_bytes = wanted.max(least).next_multiple_of(4096) as u32;
        let chunks = len.div_ceil(chunk_bytes.into()) as u32;
        read.offered = Offered { serial: self.next_serial(), first, len, chunk_bytes, chunks };
        read.state = State::Shared;
        entry.offer(&read.offered, target);
    }
}

impl<T: Transport, E: CopyEngine> Transport for Direct<'_, T, E> {
    type Slot<'a>
        = T::Slot<'a>
    where
        Self: 'a;

    const DIRECT: bool = true;

    const HAS_LINES: bool = T::HAS_LINES;

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    #[inline]
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        let inner = self.inner.reach(peer)?;
        Ok(self.caps.as_ref().filter(|_| self.reads(peer)).unwrap_or(inner))
    }

    fn survey(&self, peer: PeerId, mut visit: impl FnMut(Route<'_>)) {
        let refusal = self.engine.reads(peer).err();
        visit(Route { transport: self.name(), caps: self.reach(peer), refusal });
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

    fn get(&mut self, peer: PeerId, local: Gather, remote: Remote<'_>, token: Token) -> Post {
        let mut read = match self.plan(peer, local, remote, token) {
            Ok(read) => read,
            Err(cause) => return Post::Never(cause),
        };
        let (index, Some(entry)) = (local.region.0.slot, self.entry(peer, read.entry)) else {
            return Post::Never(Cause::Unsupported);
        };
        if local.len > SHARED_CHUNK_BYTES_MIN as usize && self.engine.writes(peer) {
            let Some(slot) = self.slot(local.region) else { return Post::Never(Cause::BadRegion) };
            let target = slot.memory.start.as_ptr().addr().wrapping_add(local.offset) as u64;
            self.share(entry, &mut read, target, remote.offset);
        }
        let index = index.wrapping_sub(ENTRIES);
        self.keep(index, read);
        self.reading |= bit(index);
        match self.step(index) {
            Step::On => Post::Queued,
            Step::Over(result) => {
                self.cut_off(reader(index));
                match result {
                    Ok(()) => Post::Done,
                    Err(cause) => Post::Never(cause),
                }
            }
        }
    }

    fn register(&mut self, peer: PeerId, memory: Memory, access: Access) -> Result<RegionId, Cause> {
        if !self.reads(peer) {
            return Err(Cause::Unsupported);
        }
        let shown = access.contains(Access::REMOTE_READ);
        let half = if shown { 0..ENTRIES as usize } else { ENTRIES as usize..REGIONS };
        let start = half.start;
        let rows = self.slots.0.get_mut(half).unwrap_or_default();
        let free = rows.iter_mut().enumerate().find(|(_, slot)| !slot.is_live());
        let Some((place, slot)) = free else { return Err(Cause::Full(Resource::Regions)) };
        let index = (start + place) as u32;
        let generation = slot.generation.wrapping_add(1);
        *slot = Slot { generation, peer, memory, access, read: Read::NONE };
        if shown && let Some(entry) = self.own.entry(index) {
            entry.show(generation, memory.start.as_ptr().addr() as u64, memory.len as u64);
            self.shown |= bit(index);
        }
        Ok(RegionId(Handle { slot: index, generation }))
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), Cause> {
        let slot = self.slot(region).ok_or(Cause::Stale)?;
        slot.generation = slot.generation.wrapping_add(1);
        let RegionId(Handle { slot: index, generation }) = region;
        if let Some(entry) = self.own.entry(index) {
            entry.hide(generation);
            self.shown &= !bit(index);
        } else {
            self.cut_off(index as usize);
        }
        Ok(())
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

    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        match what {
            Quiesce::Region(region) => self.deregister(region),
            Quiesce::Post(token) => {
                let is_it = |slot: &Slot| slot.read.state != State::Idle && slot.read.token == token;
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

    fn lines(&mut self) -> Option<&mut dyn Lines> {
        self.inner.lines()
    }

    fn features(&self) -> Features {
        self.inner.features() | self.caps.map_or(Features::empty(), |caps| caps.features)
    }
}

impl<T: Transport, E: CopyEngine> Direct<'_, T, E> {
    /// One chunk, of one of the reads under way or of one that others have under way here.
    #[inline(never)]
    fn copy<S: Sink>(&mut self, sink: &mut S) -> u32 {
        // The two take turns; one that has nothing to do leaves it to the other.
        self.turn = self.turn.wrapping_add(1);
        let helps_first = self.turn & 1 == 0;
        if helps_first && self.help() {
            return 1;
        }
        let index =
            (self.reading.rotate_right(self.turn % u32::BITS).trailing_zeros() + self.turn) % u32::BITS;
        if self.reading & bit(index) == 0 {
            return u32::from(!helps_first && self.help());
        }
        if let Step::Over(result) = self.step(index) {
            let token = self.slots.0.get(reader(index)).map(|slot| slot.read.token);
            self.cut_off(reader(index));
            if let Some(token) = token {
                sink.completed(token, result);
            }
        }
        1
    }
}

impl<T: fmt::Debug, E: fmt::Debug> fmt::Debug for Direct<'_, T, E> {
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

/// The place of region `index` of those that are read into.
const fn reader(index: u32) -> usize {
    index as usize + ENTRIES as usize
}

/// The bit of `index`; none for one that is too large.
const fn bit(index: u32) -> u32 {
    match 1u32.checked_shl(index) {
        Some(bit) => bit,
        None => 0,
    }
}
