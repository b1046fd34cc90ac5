//! This module holds `unsafe` code: it hands memory to be registered on. Two transports as one, by
//! static dispatch; nest for more.
//!
//! Each peer is reached by the first that can. A peer's route never changes, so that each
//! transport's order is the peer's order.

use aldis_hal::caps::Features;
use aldis_hal::copy::Store;
use aldis_hal::memory::{Access, Gather, Mapped, Memory};
use aldis_hal::remote_memory::{AtomicUpdate, RemoteAddress};
use aldis_hal::transport::{Quiesce, Route};
use aldis_hal::{
    Caps, Cause, Epoch, Extras, Handle, Instant, PeerId, Post, Refusal, RegionId, RemoteMemory,
    SharedControl, Sink, Slot, Token, Transport,
};

/// `A` for the peers it reaches, `B` for the others.
#[derive(Debug)]
pub struct Composite<A, B> {
    first: A,
    second: B,
    /// The number of polls so far, which says which transport an odd event of a budget is for.
    polls: u8,
}

impl<A: Transport, B: Transport> Composite<A, B> {
    /// Prefers `first`.
    pub const fn new(first: A, second: B) -> Self {
        Self { first, second, polls: 0 }
    }

    /// The preferred transport.
    pub const fn first(&self) -> &A {
        &self.first
    }

    /// The transport for peers that the preferred one does not reach.
    pub const fn second(&self) -> &B {
        &self.second
    }

    /// The transport for the other peers, to attach them to.
    pub const fn second_mut(&mut self) -> &mut B {
        &mut self.second
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    #[cfg_attr(not(target_pointer_width = "64"), inline)]
    fn takes_first(&self, peer: PeerId) -> bool {
        self.first.reach(peer).is_ok()
    }

    /// A piece of a region under the id that the transport of `peer` knows it by.
    fn localize(&self, peer: PeerId, gather: Gather) -> Result<Gather, Cause> {
        let (second, region) = untagged(gather.region);
        if second == self.takes_first(peer) {
            return Err(Cause::BadRegion);
        }
        Ok(Gather { region, ..gather })
    }
}

/// A slot of either transport.
#[derive(Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Either<A, B> {
    /// Of the first.
    First(A),
    /// Of the second.
    Second(B),
}

impl<A: Slot, B: Slot> Slot for Either<A, B> {
    #[inline]
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::First(slot) => slot.bytes(),
            Self::Second(slot) => slot.bytes(),
        }
    }

    #[inline]
    fn write(&mut self, header: &[u8], payload: &[u8]) {
        match self {
            Self::First(slot) => slot.write(header, payload),
            Self::Second(slot) => slot.write(header, payload),
        }
    }

    #[inline]
    fn commit(self) {
        match self {
            Self::First(slot) => slot.commit(),
            Self::Second(slot) => slot.commit(),
        }
    }
}

/// Regions of the two are distinguished by the lowest bit of their slot.
const fn tagged(RegionId(handle): RegionId, second: bool) -> RegionId {
    RegionId(Handle { slot: handle.slot << 1 | second as u32, ..handle })
}

/// The transport that a region is of, and the region's own id there.
const fn untagged(RegionId(handle): RegionId) -> (bool, RegionId) {
    (handle.slot & 1 == 1, RegionId(Handle { slot: handle.slot >> 1, ..handle }))
}

/// Polls of which one has an odd event for the second transport.
const SECONDS_TURN: u8 = 8;

/// Gather entries that are handed to a transport at most.
const GATHER_MAX: usize = 16;

impl<A: Transport, B: Transport> Transport for Composite<A, B> {
    type Slot<'a>
        = Either<A::Slot<'a>, B::Slot<'a>>
    where
        Self: 'a;

    fn name(&self) -> &'static str {
        "composite"
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    #[cfg_attr(not(target_pointer_width = "64"), inline)]
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        // A peer that is lost to one is not merely out of reach because the other never had it.
        self.first.reach(peer).or_else(|first| {
            let second = self.second.reach(peer);
            second.map_err(|second| if second == Cause::Unreachable { first } else { second })
        })
    }

    /// Introduces the peer to both, as the address may be either's; the answer is that of the one
    /// that is then taken.
    fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &[u8]) -> Result<(), Cause> {
        let (first, second) =
            (self.first.introduce(peer, epoch, address), self.second.introduce(peer, epoch, address));
        if self.takes_first(peer) { first } else { second }
    }

    #[inline]
    fn expect(&mut self, peer: PeerId) {
        if self.takes_first(peer) {
            self.first.expect(peer);
        } else {
            self.second.expect(peer);
        }
    }

    #[inline(always)]
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        if self.takes_first(peer) {
            self.first.short(peer, header, payload)
        } else {
            self.second.short(peer, header, payload)
        }
    }

    #[inline]
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<Self::Slot<'_>, Refusal> {
        if self.takes_first(peer) {
            self.first.reserve(peer, len).map(Either::First)
        } else {
            self.second.reserve(peer, len).map(Either::Second)
        }
    }

    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        match what {
            Quiesce::Peer(peer) if self.takes_first(peer) => self.first.quiesce(what),
            Quiesce::Peer(_) => self.second.quiesce(what),
            Quiesce::Region(region) => match untagged(region) {
                (false, region) => self.first.quiesce(Quiesce::Region(region)),
                (true, region) => self.second.quiesce(Quiesce::Region(region)),
            },
            Quiesce::Post(_) => self.first.quiesce(what).or_else(|_| self.second.quiesce(what)),
        }
    }

    #[inline(always)]
    fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        // The first leaves the second at least half of the budget, but for an odd event, which is
        // the second's in one of some polls: a look for one message finds the first's as a rule.
        self.polls = self.polls.wrapping_add(1);
        let is_seconds = self.polls.is_multiple_of(SECONDS_TURN);
        let share = budget / 2 + if is_seconds { 0 } else { budget % 2 };
        let handled = self.first.poll(share, now, sink);
        handled + self.second.poll(budget - handled, now, sink)
    }

    fn is_idle(&self) -> bool {
        self.first.is_idle() && self.second.is_idle()
    }

    #[inline]
    fn features(&self) -> Features {
        self.first.features() | self.second.features()
    }
}

impl<A: Transport, B: Transport> Extras for Composite<A, B> {
    const HAS_CONTROL_SLOTS: bool = A::HAS_CONTROL_SLOTS || B::HAS_CONTROL_SLOTS;

    fn survey(&self, peer: PeerId, mut visit: impl FnMut(Route<'_>)) {
        self.first.survey(peer, &mut visit);
        self.second.survey(peer, &mut visit);
    }

    #[inline]
    fn cork(&mut self) {
        self.first.cork();
        self.second.cork();
    }

    #[inline]
    fn uncork(&mut self, more: bool) {
        self.first.uncork(more);
        self.second.uncork(more);
    }

    fn store(&mut self, peer: PeerId) -> Store {
        if self.takes_first(peer) { self.first.store(peer) } else { self.second.store(peer) }
    }

    #[inline(always)]
    fn eager_bytes_max(&self, peer: PeerId) -> u32 {
        if self.takes_first(peer) {
            self.first.eager_bytes_max(peer)
        } else {
            self.second.eager_bytes_max(peer)
        }
    }

    #[inline(always)]
    fn fragment_bytes_max(&self, peer: PeerId) -> u32 {
        if self.takes_first(peer) {
            self.first.fragment_bytes_max(peer)
        } else {
            self.second.fragment_bytes_max(peer)
        }
    }

    #[inline]
    fn has_news(&self, peer: PeerId) -> bool {
        if self.takes_first(peer) { self.first.has_news(peer) } else { self.second.has_news(peer) }
    }

    #[inline]
    fn tells_departure(&self, peer: PeerId) -> bool {
        if self.takes_first(peer) {
            self.first.tells_departure(peer)
        } else {
            self.second.tells_departure(peer)
        }
    }

    #[inline]
    fn depart(&mut self) {
        self.first.depart();
        self.second.depart();
    }

    #[inline]
    fn control_slots(&mut self) -> Option<&mut dyn SharedControl> {
        if A::HAS_CONTROL_SLOTS { self.first.control_slots() } else { self.second.control_slots() }
    }
}

impl<A: Transport, B: Transport> RemoteMemory for Composite<A, B> {
    const HAS_REMOTE_MEMORY: bool = A::HAS_REMOTE_MEMORY || B::HAS_REMOTE_MEMORY;

    fn zcopy(&mut self, peer: PeerId, header: &[u8], gather: &[Gather], token: Token) -> Post {
        let mut own = [Gather { region: RegionId(Handle::default()), offset: 0, len: 0 }; GATHER_MAX];
        let Some(list) = own.get_mut(..gather.len()) else {
            return Post::Never(Cause::TooBig { len: gather.len() as u64, max: GATHER_MAX as u64 });
        };
        for (to, from) in list.iter_mut().zip(gather) {
            match self.localize(peer, *from) {
                Ok(local) => *to = local,
                Err(cause) => return Post::Never(cause),
            }
        }
        if self.takes_first(peer) {
            self.first.zcopy(peer, header, list, token)
        } else {
            self.second.zcopy(peer, header, list, token)
        }
    }

    fn put(&mut self, peer: PeerId, local: Gather, remote: RemoteAddress<'_>, token: Token) -> Post {
        match self.localize(peer, local) {
            Ok(local) if self.takes_first(peer) => self.first.put(peer, local, remote, token),
            Ok(local) => self.second.put(peer, local, remote, token),
            Err(cause) => Post::Never(cause),
        }
    }

    fn get(&mut self, peer: PeerId, local: Gather, remote: RemoteAddress<'_>, token: Token) -> Post {
        match self.localize(peer, local) {
            Ok(local) if self.takes_first(peer) => self.first.get(peer, local, remote, token),
            Ok(local) => self.second.get(peer, local, remote, token),
            Err(cause) => Post::Never(cause),
        }
    }

    fn mapped(&self, peer: PeerId, remote: RemoteAddress<'_>, len: u64) -> Result<Mapped<'_>, Cause> {
        if self.takes_first(peer) {
            self.first.mapped(peer, remote, len)
        } else {
            self.second.mapped(peer, remote, len)
        }
    }

    fn is_mapped(&self, peer: PeerId, memory: Memory) -> bool {
        if self.takes_first(peer) {
            self.first.is_mapped(peer, memory)
        } else {
            self.second.is_mapped(peer, memory)
        }
    }

    fn atomic(&mut self, peer: PeerId, update: AtomicUpdate<'_>, token: Token) -> Post {
        let local = self.localize(peer, update.fetched);
        let update = |fetched| AtomicUpdate { fetched, ..update };
        match local {
            Ok(local) if self.takes_first(peer) => self.first.atomic(peer, update(local), token),
            Ok(local) => self.second.atomic(peer, update(local), token),
            Err(cause) => Post::Never(cause),
        }
    }

    unsafe fn register(&mut self, peer: PeerId, memory: Memory, access: Access) -> Result<RegionId, Cause> {
        if self.takes_first(peer) {
            // SAFETY: the same promises, of the caller's; what is done with this transport is done
            // with that one.
            unsafe { self.first.register(peer, memory, access) }.map(|region| tagged(region, false))
        } else {
            // SAFETY: as above.
            unsafe { self.second.register(peer, memory, access) }.map(|region| tagged(region, true))
        }
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), Cause> {
        match untagged(region) {
            (false, region) => self.first.deregister(region),
            (true, region) => self.second.deregister(region),
        }
    }

    fn grow(&mut self, region: RegionId, len: u64) {
        match untagged(region) {
            (false, region) => self.first.grow(region, len),
            (true, region) => self.second.grow(region, len),
        }
    }

    fn pack_key(&self, region: RegionId, key: &mut [u8]) -> Result<usize, Cause> {
        match untagged(region) {
            (false, region) => self.first.pack_key(region, key),
            (true, region) => self.second.pack_key(region, key),
        }
    }
}
