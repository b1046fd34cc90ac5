//! The way to the other ranks, whichever it is: one type, so that endpoints and programs are
//! compiled once and not once for each way.

use aldis_drivers::authenticated::AuthenticatedNic;
use aldis_drivers::discovery::Discovery;
use aldis_drivers::ethernet::{Ethernet, EthernetSlot};
use aldis_drivers::shm::{Shm, ShmSlot};
use aldis_hal::transport::Quiesce;
use aldis_hal::{
    Caps, Cause, Epoch, Extras, Features, Instant, Nic, PeerId, Post, Refusal, RemoteMemory, Sink, Transport,
};
use aldis_kernel::Either;

/// A card on which ranks find each other.
pub(crate) type FoundNic<N> = Discovery<'static, AuthenticatedNic<N>>;

/// The transport to other ranks.
pub(crate) enum AnyWire<N> {
    /// There are no other ranks.
    Vacant,
    /// Frames of a card.
    Frames(Ethernet<'static, FoundNic<N>>),
    /// Inboxes in memory that all ranks share.
    Inboxes(Shm<'static>),
}

impl<N: Nic> AnyWire<N> {
    /// The transport over frames.
    ///
    /// # Errors
    /// The ranks have another way.
    pub(crate) const fn frames(&self) -> Result<&Ethernet<'static, FoundNic<N>>, Cause> {
        if let Self::Frames(frames) = self { Ok(frames) } else { Err(Cause::Unreachable) }
    }

    /// The transport over frames, to find the other ranks with.
    ///
    /// # Errors
    /// The ranks have another way.
    pub(crate) const fn frames_mut(&mut self) -> Result<&mut Ethernet<'static, FoundNic<N>>, Cause> {
        if let Self::Frames(frames) = self { Ok(frames) } else { Err(Cause::Unreachable) }
    }

    /// The transport over inboxes, to attach others to.
    ///
    /// # Errors
    /// The ranks have another way.
    pub(crate) const fn inboxes_mut(&mut self) -> Result<&mut Shm<'static>, Cause> {
        if let Self::Inboxes(inboxes) = self { Ok(inboxes) } else { Err(Cause::Unreachable) }
    }
}

impl<N: Nic> Transport for AnyWire<N> {
    type Slot<'a>
        = Either<EthernetSlot<'a, 'static, FoundNic<N>>, ShmSlot<'a>>
    where
        Self: 'a;

    fn name(&self) -> &'static str {
        match self {
            Self::Vacant => "none",
            Self::Frames(frames) => frames.name(),
            Self::Inboxes(inboxes) => inboxes.name(),
        }
    }

    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        match self {
            Self::Vacant => Err(Cause::Unreachable),
            Self::Frames(frames) => frames.reach(peer),
            Self::Inboxes(inboxes) => inboxes.reach(peer),
        }
    }

    fn features(&self) -> Features {
        match self {
            Self::Vacant => Features::empty(),
            Self::Frames(frames) => frames.features(),
            Self::Inboxes(inboxes) => inboxes.features(),
        }
    }

    fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &[u8]) -> Result<(), Cause> {
        match self {
            Self::Vacant => Err(Cause::Unreachable),
            Self::Frames(frames) => frames.introduce(peer, epoch, address),
            Self::Inboxes(inboxes) => inboxes.introduce(peer, epoch, address),
        }
    }

    fn expect(&mut self, peer: PeerId) {
        match self {
            Self::Vacant => {}
            Self::Frames(frames) => frames.expect(peer),
            Self::Inboxes(inboxes) => inboxes.expect(peer),
        }
    }

    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        match self {
            Self::Vacant => Post::Never(Cause::Unreachable),
            Self::Frames(frames) => frames.short(peer, header, payload),
            Self::Inboxes(inboxes) => inboxes.short(peer, header, payload),
        }
    }

    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<Self::Slot<'_>, Refusal> {
        match self {
            Self::Vacant => Err(Refusal::Never(Cause::Unreachable)),
            Self::Frames(frames) => frames.reserve(peer, len).map(Either::First),
            Self::Inboxes(inboxes) => inboxes.reserve(peer, len).map(Either::Second),
        }
    }

    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        match self {
            Self::Vacant => Err(Cause::Stale),
            Self::Frames(frames) => frames.quiesce(what),
            Self::Inboxes(inboxes) => inboxes.quiesce(what),
        }
    }

    fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        match self {
            Self::Vacant => 0,
            Self::Frames(frames) => frames.poll(budget, now, sink),
            Self::Inboxes(inboxes) => inboxes.poll(budget, now, sink),
        }
    }

    fn is_idle(&self) -> bool {
        match self {
            Self::Vacant => true,
            Self::Frames(frames) => frames.is_idle(),
            Self::Inboxes(inboxes) => inboxes.is_idle(),
        }
    }
}

impl<N: Nic> Extras for AnyWire<N> {
    fn has_news(&self, peer: PeerId) -> bool {
        match self {
            Self::Vacant => false,
            Self::Frames(frames) => frames.has_news(peer),
            Self::Inboxes(inboxes) => inboxes.has_news(peer),
        }
    }
}

impl<N> RemoteMemory for AnyWire<N> {}
