//! The fast paths, which most eager messages take. Each does one step of a message at once if
//! nothing is unusual, in one function without calls, where no error is made and nothing is copied
//! twice; if anything is unusual, or wrong, it does nothing, and the general function for the step
//! finds out what. `cargo xtask bench instructions` counts them.

use aldis_hal::{Handle, PeerId, Post, Slot, Transport};
use aldis_protocols::INLINE_BYTES;
use aldis_protocols::header::{HEADER_BYTES, Kind, Label, WholeHead};

use crate::counters::count;
use crate::datatype::Form;
use crate::engine::matching::{Envelope, Payload};
use crate::engine::send_queue::{CREDIT_LOOK, CREDIT_LOOKS};
use crate::engine::state::{ArmedRecv, Engine, FAST_PATHS, status};
use crate::memory::buffer::UserBuffer;
use crate::rank::{Status, WILD};
use crate::tables::comm::PARTITIONED;
use crate::tables::comms::SendTarget;
use crate::tables::elements::Plain;
use crate::tables::list::{InScope, List};
use crate::tables::peer::Peer;
use crate::tables::request::{Backing, Key, Request, State};

/// A receive that is to be posted.
pub(crate) struct Posting {
    pub(crate) pattern: Key,
    /// The peer, if the receive names one.
    pub(crate) peer: Option<PeerId>,
    pub(crate) buffer: UserBuffer,
}

impl Engine<'_> {
    /// Sends an eager message to its target, with the signature of its elements if it is typed, if
    /// nothing stands in its way, as is usual. False if something does, and nothing has changed:
    /// [`send`](Self::send) finds out what it is.
    #[inline(always)]
    pub(crate) fn try_send_eager<T: Transport>(
        &mut self,
        transport: &mut T,
        &SendTarget { peer: id, key, .. }: &SendTarget,
        buffer: UserBuffer,
        signature: Option<u32>,
    ) -> bool {
        let Some(peer) = self.peers.among_all(id) else { return false };
        let length = buffer.len() as u64;
        let Some(in_block) = peer.takes_eager(length) else { return false };
        if signature.is_some() && Form::to_peer(peer.words) != Form::Native {
            return false;
        }
        let header = peer.header(self.epoch, Kind::Eager, key, peer.sequence_out, length);
        let header = signature.map_or(header, |signature| header.signed(signature)).emit();
        let sent = if length < u64::from(peer.thresholds.short_end) {
            matches!(transport.short(id, &header, buffer.bytes()), Post::Done)
        } else {
            packed(transport, id, &header, buffer.bytes())
        };
        if !sent {
            return false;
        }
        peer.account_sent(in_block);
        count(&mut self.counters.messages_sent);
        self.counters.bytes_sent += length;
        true
    }

    /// Sends like [`try_send_eager`](Self::try_send_eager), if nothing but credit or room is
    /// missing, once some looks at what has arrived find them.
    #[cold]
    #[inline(never)]
    pub(crate) fn send_eager_after_looks<T: Transport>(
        &mut self,
        transport: &mut T,
        target: &SendTarget,
        buffer: UserBuffer,
        signature: Option<u32>,
    ) -> bool {
        let length = buffer.len() as u64;
        for _ in 0..CREDIT_LOOKS {
            let Some(peer) = self.peers.get(target.peer).filter(|peer| peer.could_take_eager(length)) else {
                return false;
            };
            if signature.is_some() && Form::to_peer(peer.words) != Form::Native {
                return false;
            }
            self.poll_transport(transport, CREDIT_LOOK);
            if self.try_send_eager(transport, target, buffer, signature) {
                return true;
            }
        }
        false
    }

    /// Posts a receive if no message is unexpected, none is held back or probed for, the peer is
    /// there, and a slot free; it is `kept` then. If it is typed, `back` gives it its elements.
    #[inline(always)]
    pub(crate) fn try_post(
        &mut self,
        Posting { pattern, peer, buffer }: Posting,
        kept: &mut List<InScope>,
        back: impl FnOnce(&mut Request),
    ) -> Option<Handle> {
        if !FAST_PATHS {
            return None;
        }
        // Each by itself: a value for both takes instructions to make and to look at.
        match peer {
            Some(peer) if !self.peers.among_all(peer)?.is_connected() => return None,
            None if self.bereft => return None,
            _ => {}
        }
        if self.matcher.unexpected() > 0 || self.overflowing || self.probing != Handle::default() {
            return None;
        }
        let (handle, request) = self.requests.take()?;
        request.start(State::Posted, pattern, peer.unwrap_or_default(), pattern.source, buffer);
        back(request);
        let in_bin = self.matcher.join(handle.slot, request, &pattern);
        let in_scope = kept.join(handle.slot, &mut request.scope);
        self.counters.requests_peak = self.requests.used_end();
        if let Some(joined) = in_bin {
            joined.link(&mut self.requests);
        }
        in_scope.link(&mut self.requests);
        Some(handle)
    }

    /// Arms a receive, if it names the source and the tag it waits for, that peer is there, and
    /// there is no other receive and no message that it could have to stand back behind.
    #[inline(always)]
    pub(crate) fn arm(
        &mut self,
        key: Key,
        peer: PeerId,
        buffer: UserBuffer,
        elements: Option<Plain>,
    ) -> bool {
        if !FAST_PATHS
            || key.tag == WILD
            || !self.matcher.is_empty()
            || self.overflowing
            || self.probing != Handle::default()
            || self.requests.is_full()
        {
            return false;
        }
        match self.peers.among_all(peer) {
            Some(row) if row.is_connected() => {}
            _ => return false,
        }
        self.armed = ArmedRecv::Armed { key, peer, buffer, elements };
        true
    }

    /// Posts the armed receive, before anything happens that all receives take part in.
    #[inline]
    pub(crate) fn post_armed(&mut self) {
        if FAST_PATHS && let ArmedRecv::Armed { key, peer, buffer, elements } = self.armed {
            self.post_armed_slowly(key, peer, buffer, elements);
        }
    }

    #[cold]
    #[inline(never)]
    fn post_armed_slowly(&mut self, key: Key, peer: PeerId, buffer: UserBuffer, elements: Option<Plain>) {
        let request = match (elements, self.tools()) {
            (Some(elements), Some(tools)) => tools.request(self, key, peer, buffer, elements),
            _ => self.request(State::Posted, key, peer, key.source, buffer),
        };
        // There was a slot when it began to wait, and nothing has taken one since.
        if let Ok(handle) = request {
            self.matcher.post(&mut self.requests, handle.slot);
            self.armed = ArmedRecv::Posted(handle);
        }
    }

    /// Receives a small message at once that has come before, if it is kept in an envelope and
    /// nothing is unusual about it. One with a label has to have the one that is wanted.
    #[inline(always)]
    pub(crate) fn try_receive_kept(
        &mut self,
        pattern: &Key,
        buffer: UserBuffer,
        wanted: Label,
    ) -> Option<Status> {
        if !FAST_PATHS || self.matcher.unexpected() == 0 || self.probing != Handle::default() {
            return None;
        }
        let index = self.matcher.find_unexpected(pattern)?;
        let &Envelope { key, peer, length, ref payload, label, .. } = self.matcher.peek(index)?;
        let Payload::Inline(bytes) = payload else { return None };
        let bytes = bytes.get(..length as usize)?;
        let misfit = bytes.len() != buffer.len() && self.rules.is_some();
        // With a label the bytes are in the sender's byte order.
        let is_wanted = label.is_none()
            || label == wanted
                && bytes.len() == buffer.len()
                && self.peers.among_all(peer).is_some_and(|row| is_alike(row));
        if !is_wanted || misfit || !buffer.write_inline(bytes) {
            return None;
        }
        let due = self.peers.among_all(peer)?.free_envelope();
        self.matcher.discard(index);
        if due {
            self.schedule(peer);
        }
        Some(status(key, length))
    }

    /// Gives a whole message of this kind, eager or signed, at once to the receive that was posted
    /// for just that, if it is next to be taken and nothing is unusual about it: the way of most
    /// messages. Anything else, and whatever is wrong, is left to [`deliver`](Self::deliver), and
    /// nothing has changed but what the message says of credits.
    #[inline(always)]
    pub(crate) fn try_deliver(&mut self, from: PeerId, message: &[u8], kind: Kind) -> bool {
        let Some((head, payload)) = WholeHead::parse(message, kind) else { return false };
        let Some(peer) = self.peers.among_all(from) else { return false };
        let (is_signed, in_block) = (kind == Kind::Signed, payload.len() > INLINE_BYTES);
        if in_block && payload.len() > self.room.block_bytes as usize {
            return false;
        }
        if is_signed && !is_alike(peer) || !peer.is_next(head, in_block) {
            return false;
        }
        let key = Key { context: head.context(), source: head.source(), tag: head.tag() };
        let fits = |buffer: &UserBuffer| {
            buffer.takes(payload.len())
                && (payload.len() == buffer.len() || !is_signed && self.rules.is_none())
        };
        // The receive was posted for this source of this communicator, which is this peer if it is
        // the receive's: so the message's context, source and tag are what they may be, but for
        // tags that only announcements have.
        let place = if let ArmedRecv::Armed { key: wanted, peer: source, buffer, elements } = &self.armed {
            let is_of_type =
                !is_signed || matches!(elements, Some(known) if known.signature == head.signature());
            if *source != from || *wanted != key || !is_of_type || !fits(buffer) {
                return false;
            }
            let place = *buffer;
            self.armed = ArmedRecv::Delivered(payload.len() as u64);
            place
        } else {
            let Some((front, request)) = self.matcher.front(&mut self.requests, &key) else {
                return false;
            };
            if request.peer != from || key.tag & PARTITIONED != 0 {
                return false;
            }
            let place = match &request.backing {
                Backing::Typed(layout) if is_signed && layout.has(head.signature()) => layout.memory(),
                _ if is_signed => return false,
                _ => request.buffer,
            };
            if !fits(&place) {
                return false;
            }
            (request.state, request.length) = (State::Complete, payload.len() as u64);
            let links = request.queue;
            front.take(&mut self.requests, links);
            place
        };
        let due = peer.account_delivered(in_block);
        count(&mut self.counters.messages_received);
        self.counters.bytes_received += payload.len() as u64;
        // At the end of either way, so that nothing need be kept over a call.
        if due {
            self.fill_and_schedule(place, payload, from);
        } else {
            place.write_all(payload);
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn fill_and_schedule(&mut self, place: UserBuffer, payload: &[u8], from: PeerId) {
        place.write_all(payload);
        self.schedule(from);
    }

    /// The status of a request that is over, and well, which frees its slot and is not `kept` any
    /// more: the way of most. `None` if it is not; [`collect`](Self::collect) is for all.
    #[inline(always)]
    pub(crate) fn try_complete(&mut self, handle: Handle, kept: &mut List<InScope>) -> Option<Status> {
        if !FAST_PATHS {
            return None;
        }
        let (status, links) = self.requests.give_if(handle, |request| {
            if request.state != State::Complete || request.cause.is_some() {
                return None;
            }
            request.state = State::Free;
            Some((request.status(), request.scope))
        })?;
        kept.leave(&mut self.requests, links);
        Some(status)
    }
}

/// Returns true if typed messages of a peer need not be converted.
#[inline(always)]
fn is_alike(peer: &Peer) -> bool {
    Form::from_peer(peer.order, peer.words) == Form::Native
}

/// Packs an eager message straight into a slot of the transport. False, and nothing done, if there
/// is none. On a large core within its caller: a header that is handed over in memory, and copied
/// from there in larger pieces than it was written in, waits until every store before has left the
/// core.
#[cfg_attr(target_pointer_width = "64", inline(always))]
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
fn packed<T: Transport>(
    transport: &mut T,
    peer: PeerId,
    header: &[u8; HEADER_BYTES],
    payload: &[u8],
) -> bool {
    let Ok(mut slot) = transport.reserve(peer, HEADER_BYTES + payload.len()) else { return false };
    slot.write(header, payload);
    slot.commit();
    true
}
