//! Messages of a rank to itself, over memory it lends.

use core::fmt;

use aldis_hal::copy::copy;
use aldis_hal::transport::{Quiesce, Sink, Slot, Transport};
use aldis_hal::{
    Again, Caps, Cause, Cost, Extras, Features, Instant, Limits, PeerId, Post, Refusal, RemoteMemory,
};

/// Bytes before each message: its length, padded so that messages start 8-byte aligned.
const HEAD_BYTES: usize = 8;

/// The cost of a message to oneself: two copies within the cache at some 10 GB/s each and no wire.
const COST: Cost = Cost { overhead_ns: 10, latency_ns: 0, per_kib_ns: 200 };

/// The transport that reaches only its own rank: a ring of frames of one size, in the caller's
/// memory.
pub struct Loopback<'m> {
    me: PeerId,
    /// Whole frames only, 8-byte aligned.
    memory: &'m mut [u8],
    /// Bytes from one frame to the next.
    stride: usize,
    /// Offset of the oldest message's frame.
    head: usize,
    /// Offset of the next message's frame.
    tail: usize,
    /// Messages in the ring.
    held: u32,
    /// Frames of the ring.
    frames: u32,
    /// True if a post was refused since the sink was last notified of room.
    waiting: bool,
    /// This side has let go of itself.
    closed: bool,
    caps: Caps,
}

impl<'m> Loopback<'m> {
    /// A loopback of rank `me` with frames for messages of up to `frame_bytes` bytes, as many as
    /// `memory` holds: each takes `frame_bytes` rounded up to a multiple of 8, plus 8; up to 7
    /// bytes go to alignment.
    ///
    /// # Errors
    /// [`Cause::TooBig`] if the memory holds no frame.
    pub fn new(me: PeerId, memory: &'m mut [u8], frame_bytes: u32) -> Result<Self, Cause> {
        let max = memory.len();
        let skip = memory.as_ptr().align_offset(HEAD_BYTES).min(max);
        let stride = (frame_bytes as usize).checked_next_multiple_of(HEAD_BYTES);
        let stride = stride.and_then(|bytes| bytes.checked_add(HEAD_BYTES)).unwrap_or(usize::MAX);
        let frames = u32::try_from((max - skip) / stride).unwrap_or(u32::MAX);
        let whole = memory.get_mut(skip..skip + frames as usize * stride).filter(|_| frames != 0);
        let too_big = Cause::TooBig { len: stride as u64, max: max as u64 };
        let memory = whole.ok_or(too_big)?;
        let features = Features::SHORT | Features::BCOPY | Features::ORDERED | Features::RELIABLE;
        let limits =
            Limits { short_bytes_max: frame_bytes, bcopy_bytes_max: frame_bytes, ..Limits::default() };
        let caps = Caps { features, limits, cost: COST, ..Caps::default() };
        Ok(Self {
            me,
            memory,
            stride,
            head: 0,
            tail: 0,
            held: 0,
            frames,
            waiting: false,
            closed: false,
            caps,
        })
    }

    /// Checks that the next frame can take `len` bytes for `peer`.
    #[inline]
    fn admit(&mut self, peer: PeerId, len: usize) -> Result<(), Refusal> {
        let max = self.caps.limits.bcopy_bytes_max;
        if peer != self.me {
            return Err(Refusal::Never(Cause::Unreachable));
        }
        if self.closed {
            return Err(Refusal::Never(Cause::PeerDead));
        }
        if len > max as usize {
            return Err(Refusal::Never(Cause::TooBig { len: len as u64, max: u64::from(max) }));
        }
        if self.held == self.frames {
            self.waiting = true;
            return Err(Refusal::Again(Again::NoSlot));
        }
        Ok(())
    }

    /// The offset of the frame after this one.
    #[inline]
    fn after(&self, frame: usize) -> usize {
        let next = frame + self.stride;
        if next < self.memory.len() { next } else { 0 }
    }

    /// Room for a message of `len` bytes in the next frame.
    #[inline]
    fn room(&mut self, len: usize) -> &mut [u8] {
        let start = self.tail + HEAD_BYTES;
        self.memory.get_mut(start..start + len).unwrap_or_default()
    }

    /// Makes the next frame a message of `len` bytes.
    #[inline]
    fn enqueue(&mut self, len: usize) {
        if let Some(word) = self.memory.get_mut(self.tail..).and_then(|frame| frame.first_chunk_mut()) {
            *word = (len as u32).to_ne_bytes();
        }
        self.tail = self.after(self.tail);
        self.held += 1;
    }

    /// The oldest message.
    #[inline]
    fn oldest(&self) -> &[u8] {
        let frame = self.memory.get(self.head..).unwrap_or_default();
        let len = frame.first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
        frame.get(HEAD_BYTES..HEAD_BYTES + len as usize).unwrap_or_default()
    }
}

/// A message to oneself being written. Nothing is taken before [`commit`](Slot::commit).
#[derive(Debug)]
pub struct LoopbackSlot<'a, 'm> {
    loopback: &'a mut Loopback<'m>,
    len: usize,
}

impl Slot for LoopbackSlot<'_, '_> {
    #[inline]
    fn bytes(&mut self) -> &mut [u8] {
        self.loopback.room(self.len)
    }

    #[inline]
    fn commit(self) {
        self.loopback.enqueue(self.len);
    }
}

impl<'m> Transport for Loopback<'m> {
    type Slot<'a>
        = LoopbackSlot<'a, 'm>
    where
        Self: 'a;

    fn name(&self) -> &'static str {
        "self"
    }

    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        match peer == self.me {
            false => Err(Cause::Unreachable),
            true if self.closed => Err(Cause::PeerDead),
            true => Ok(&self.caps),
        }
    }

    #[inline(never)]
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        let len = header.len() + payload.len();
        if let Err(refusal) = self.admit(peer, len) {
            return refusal.into();
        }
        if let Some((first, second)) = self.room(len).split_at_mut_checked(header.len()) {
            copy(first, header);
            copy(second, payload);
        }
        self.enqueue(len);
        Post::Done
    }

    #[inline]
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<LoopbackSlot<'_, 'm>, Refusal> {
        self.admit(peer, len)?;
        Ok(LoopbackSlot { loopback: self, len })
    }

    /// Letting go of oneself discards what is under way; later posts answer [`Cause::PeerDead`].
    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        if what != Quiesce::Peer(self.me) {
            return Err(Cause::Stale);
        }
        self.closed = true;
        self.waiting = false;
        self.held = 0;
        Ok(())
    }

    #[inline]
    fn poll<S: Sink>(&mut self, budget: u32, _now: Instant, sink: &mut S) -> u32 {
        if self.held == 0 && !self.waiting { 0 } else { self.deliver(budget, sink) }
    }

    fn features(&self) -> Features {
        self.caps.features
    }
}

impl Extras for Loopback<'_> {}

impl RemoteMemory for Loopback<'_> {}

impl Loopback<'_> {
    /// Gives the sink what is there.
    #[inline(never)]
    fn deliver<S: Sink>(&mut self, budget: u32, sink: &mut S) -> u32 {
        let mut events = 0;
        while events < budget && self.held != 0 {
            sink.arrived(self.me, self.oldest());
            self.head = self.after(self.head);
            self.held -= 1;
            events += 1;
        }
        if self.waiting && self.held < self.frames && events < budget {
            self.waiting = false;
            sink.ready(self.me);
            events += 1;
        }
        events
    }
}

impl fmt::Debug for Loopback<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { me, held, frames, .. } = self;
        f.debug_struct("Loopback").field("me", me).field("held", held).field("frames", frames).finish()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
