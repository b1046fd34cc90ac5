//! The transport as the engine sees it: posts, and what comes of them.

use aldis_hal::copy::copy;
use aldis_hal::{Cause, PeerId, Post, Refusal, Slot, Transport};
use aldis_protocols::LENDS;

use crate::tables::request::Key;

/// The outcome for a message at the head of its peer's order.
pub(crate) enum Injected {
    /// The message is sent, its memory reusable.
    Sent,
    /// The message is announced.
    Announced,
    /// The message must be announced, for which it needs a request slot.
    NeedsRequest,
    /// The peer has granted no envelope; it is looked at again when it has.
    NoCredit,
    /// The transport has no room; the peer is looked at again when it says that there is.
    NoRoom,
}

/// The outcome of a lane's turn.
pub(crate) enum LaneTurn {
    /// A message was sent.
    Sent,
    /// There is nothing that can be sent: nothing at all, or nothing without a credit from the
    /// peer.
    Idle,
    /// The transport takes nothing more for this peer now.
    Stuck,
}

/// The words of a message that is not matched which stand in its header in place of a key and a
/// length.
#[derive(Clone, Copy)]
pub(crate) struct HeaderWords {
    pub(crate) key: Key,
    pub(crate) length: u64,
}

/// [`Transport::short`] in one place, for all but small messages that are sent at once.
#[inline(never)]
pub(crate) fn post<T: Transport>(transport: &mut T, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
    transport.short(peer, header, payload)
}

/// True if a message is packed as its transport does it best, for which a small image does not
/// hold the code.
const PACKS: bool = cfg!(feature = "fast-paths");

/// A payload at least so long is sent from where it is, if the transport takes it so: a shorter one
/// is copied sooner than that is found out.
const PASSED_BYTES_MIN: usize = 2048;

/// Sends header and payload: packed straight into a slot of the transport, or from where they are.
pub(crate) fn pack(wire: &mut dyn Wire, peer: PeerId, header: &[u8], payload: &[u8]) -> Result<(), Refusal> {
    if LENDS && payload.len() >= PASSED_BYTES_MIN && wire.passes(peer, header.len() + payload.len()) {
        return match wire.post(peer, header, payload) {
            Post::Done | Post::Queued => Ok(()),
            Post::Again(why) => Err(Refusal::Again(why)),
            Post::Never(cause) => Err(Refusal::Never(cause)),
        };
    }
    if PACKS {
        return wire.pack(peer, header, payload);
    }
    wire.fill(peer, header.len() + payload.len(), &mut |slot| {
        if let Some((head, body)) = slot.split_at_mut_checked(header.len())
            && body.len() == payload.len()
        {
            copy(head, header);
            copy(body, payload);
        }
        Ok(())
    })
}

/// A transport, whichever it is: for what is reached through a table of functions.
pub(crate) trait Wire {
    /// See [`Transport::short`].
    fn post(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post;

    /// Returns true if a short message may be so long.
    fn passes(&self, peer: PeerId, len: usize) -> bool;

    /// Reserves a slot for header and payload, writes them and commits it; only with fast paths.
    fn pack(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Result<(), Refusal>;

    /// Reserves a slot of `len` bytes, and commits it once `fill` has filled it; if that fails, so
    /// does this.
    fn fill(
        &mut self,
        peer: PeerId,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<(), Cause>,
    ) -> Result<(), Refusal>;
}

impl<T: Transport> Wire for T {
    fn post(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        post(self, peer, header, payload)
    }

    fn passes(&self, peer: PeerId, len: usize) -> bool {
        LENDS && self.reach(peer).is_ok_and(|caps| caps.limits.short_bytes_max as usize >= len)
    }

    fn pack(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Result<(), Refusal> {
        if !PACKS {
            return Err(Refusal::Never(Cause::Unsupported));
        }
        let mut slot = self.reserve(peer, header.len() + payload.len())?;
        slot.write(header, payload);
        slot.commit();
        Ok(())
    }

    fn fill(
        &mut self,
        peer: PeerId,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<(), Cause>,
    ) -> Result<(), Refusal> {
        let mut slot = self.reserve(peer, len)?;
        fill(slot.bytes()).map_err(Refusal::Never)?;
        slot.commit();
        Ok(())
    }
}
