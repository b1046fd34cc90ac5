//! The fast paths, which most eager messages take. Each does one step of a message at once if
//! nothing is unusual, in one function without calls, where no error is made and nothing is copied
//! twice; if anything is unusual, or wrong, it does nothing, and the general function for the step
//! finds out what. `cargo xtask bench instructions` counts them.

use aldis_hal::{Handle, PeerId, Post, Slot, Transport};
use aldis_protocols::INLINE_BYTES;
use aldis_protocols::header::{HEADER_BYTES, Header, Kind, Label};

use crate::counters::count;
use crate::datatype::Form;
use crate::engine::matching::{Envelope, Payload};
use crate::engine::state::{ArmedRecv, Engine, FAST_PATHS, status};
use crate::memory::buffer::UserBuffer;
use crate::rank::{Status, WILD};
use crate::tables::comm::PARTITIONED;
use crate::tables::comms::SendTarget;
use crate::tables::elements::Plain;
use crate::tables::list::{InScope, List};
use crate::tables::peer::Peer;
use crate::tables::request::{Backing, Key, State};

/// A receive that is to be posted.
pub(crate) struct Posting {
    pub(crate) pattern: Key,
    /// The peer, if the receive names one.
    pub(crate) peer: Option<PeerId>,
    pub(crate) buffer: UserBuffer,
    pub(crate) backing: Backing,
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
        let Some(peer) = self.peers.get_mut(id.index()) else { return false };
        let length = buffer.len() as u64;
        let Some(in_block) = peer.takes_eager(length) else { return false };
        let header = peer.header(self.epoch, Kind::Eager, key, peer.sequence_out, length);
        let header = signature.map_or(header, |signature| header.signed(signature)).emit();
        let sent = if length < u64::from(peer.thresholds.short_end) {
            matches!(transport.short(id, &header, buffer.bytes()), Post::Done | Post::Queued)
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

    /// Posts a receive if no message is unexpected, none is held back or probed for, the peer is
    /// there, and a slot free; it is `kept` then.
    #[inline(always)]
    pub(crate) fn try_post(
        &mut self,
        Posting { pattern, peer, buffer, backing }: Posting,
        kept: &mut List<InScope>,
    ) -> Option<Handle> {
        if !FAST_PATHS {
            return None;
        }
        let may_come = match peer {
            Some(peer) => self.presence(peer).is_ok(),
            None => !self.bereft,
        };
        if !may_come || self.matcher.unexpected() > 0 || self.overflowing || self.probing != Handle::default()
        {
            return None;
        }
        let (handle, request) = self.requests.take()?;
        request.start(State::Posted, pattern, peer.unwrap_or_default(), pattern.source, buffer);
        request.backing = backing;
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
        let is_alone = self.matcher.is_empty() && !self.overflowing && self.probing == Handle::default();
        if !FAST_PATHS
            || key.tag == WILD
            || !is_alone
            || self.requests.is_full()
            || self.presence(peer).is_err()
        {
            return false;
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
            || label == wanted && bytes.len() == buffer.len() && is_alike(self.peers.get(peer.index()));
        if !is_wanted || misfit || !buffer.write_inline(bytes) {
            return None;
        }
        self.matcher.discard(index);
        self.free_envelope(peer);
        Some(status(key, length))
    }

    /// Gives an eager message at once to the receive that was posted for just that, if it is next
    /// to be taken and nothing is unusual about it: the way of most messages. Anything else, and
    /// whatever is wrong, is left to [`deliver`](Self::deliver), and nothing has changed but what
    /// the message says of credits.
    #[inline(always)]
    pub(crate) fn try_deliver(&mut self, from: PeerId, message: &[u8]) -> bool {
        if !FAST_PATHS {
            return false;
        }
        let Some((header, payload)) = Header::parse_eager(message) else { return false };
        let Some(peer) = self.peers.get_mut(from.index()) else { return false };
        let in_block = payload.len() > INLINE_BYTES;
        let is_too_long = in_block && payload.len() > self.room.block_bytes as usize;
        if is_too_long || !peer.is_next(&header, in_block) {
            return false;
        }
        if let ArmedRecv::Armed { key: wanted, peer: source, buffer, .. } = &self.armed {
            let misfit = payload.len() != buffer.len() && self.rules.is_some();
            let foreign = *source != from || *wanted != Key::of(&header);
            if foreign || misfit || !buffer.write_all(payload) {
                return false;
            }
            self.armed = ArmedRecv::Delivered(header.length);
        } else {
            // The receive was posted for this source of this communicator, which is this peer if it
            // is the receive's: so the message's context, source and tag are what they may be, but
            // for tags that only announcements have.
            let Some((front, request)) = self.matcher.front(&mut self.requests, &Key::of(&header)) else {
                return false;
            };
            let misfit = payload.len() != request.buffer.len() && self.rules.is_some();
            let foreign = request.peer != from || header.tag & PARTITIONED != 0;
            if foreign || misfit || !request.buffer.write_all(payload) {
                return false;
            }
            (request.state, request.length) = (State::Complete, header.length);
            let links = request.queue;
            front.take(&mut self.requests, links);
        }
        let due = peer.account_delivered(&header, in_block);
        count(&mut self.counters.messages_received);
        self.counters.bytes_received += header.length;
        if due {
            self.schedule(from);
        }
        true
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
#[inline]
fn is_alike(peer: Option<&Peer>) -> bool {
    peer.is_some_and(|peer| Form::from_peer(peer.order, peer.words) == Form::Native)
}

/// Packs an eager message straight into a slot of the transport. False, and nothing done, if there
/// is none.
#[inline(never)]
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
