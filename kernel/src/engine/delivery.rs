//! Arrivals: what the engine makes of messages that a transport delivers. Nothing here posts; what
//! is to be said in return is recorded and sent by [`send_queue`](crate::engine::send_queue) after
//! the poll.

use aldis_hal::cause::Malformed;
use aldis_hal::copy::copy;
use aldis_hal::{Cause, Partial, PeerId, Sink, Token, Transport};
use aldis_protocols::card::{ByteOrder, WordWidth};
use aldis_protocols::header::{Body, Header, Kind, Label};
use aldis_protocols::rendezvous::Announcement;
use aldis_protocols::{ACTIVE, Control, INLINE_BYTES, LENDS, RECALLS};

use crate::counters::count;
use crate::engine::direct::WriteRequest;
use crate::engine::matching::Payload;
use crate::engine::rendezvous::DataRequest;
use crate::engine::state::{ChannelGrant, Engine, FAST_PATHS};
use crate::tables::comm::{is_freed, is_tag};
use crate::tables::elements::DataPiece;
use crate::tables::request::Key;

impl Sink for Engine<'_> {
    #[inline(never)]
    fn arrived(&mut self, from: PeerId, message: &[u8]) {
        let is_delivered = FAST_PATHS
            && (self.try_deliver(from, message, Kind::Eager)
                || self.try_deliver(from, message, Kind::Signed));
        if !is_delivered {
            self.deliver(from, message);
        }
    }

    fn completed(&mut self, token: Token, result: Result<(), Cause>) {
        self.moved(token, result);
    }

    fn ready(&mut self, peer: PeerId) {
        self.schedule(peer);
    }

    fn lost(&mut self, peer: PeerId, cause: Cause) {
        self.post_armed();
        self.lose(peer, cause);
    }

    fn land(&mut self, from: PeerId, message: Partial<'_>, fill: &mut dyn FnMut(&mut [u8])) -> bool {
        let Partial { head, landed, length } = message;
        let place = self.place_for(from, head, length).and_then(|place| place.part(landed..length));
        place.map(|place| place.change(fill)).is_some()
    }

    fn landed(&mut self, from: PeerId, head: &[u8]) {
        if let Err(what) = self.take_landed(from, head) {
            self.cut_off(from, what);
        }
    }
}

impl Engine<'_> {
    /// Polls the transport for at most `budget` events; returns how many events that were.
    #[inline(never)]
    pub(crate) fn poll_transport<T: Transport>(&mut self, transport: &mut T, budget: u32) -> u32 {
        let events = transport.poll(budget, self.now, self);
        self.close_regions(transport);
        events
    }

    /// Takes any message.
    #[inline(never)]
    fn deliver(&mut self, from: PeerId, message: &[u8]) {
        self.post_armed();
        if let Err(what) = self.receive_message(from, message) {
            self.cut_off(from, what);
        }
    }

    /// Ends a peer that broke the protocol.
    #[cold]
    fn cut_off(&mut self, peer: PeerId, what: Malformed) {
        count(&mut self.counters.malformed);
        aldis_hal::debug!("{} broke the protocol: {}", peer, what);
        self.lose(peer, Cause::Malformed(what));
    }

    /// Acts on one message.
    fn receive_message(&mut self, from: PeerId, message: &[u8]) -> Result<(), Malformed> {
        let (header, rest) = Header::parse(message)?;
        if !self.take_credits(from, &header)? {
            return Ok(());
        }
        match header.kind {
            Kind::Eager => self.receive_eager(from, &header, header.payload(rest)?),
            // Nothing but the credits, which have been taken.
            Kind::Credit if FAST_PATHS && rest.is_empty() && is_bare(&header) => Ok(()),
            // Read again there, so that the common way need not keep the header for it.
            _ => self.receive_slow(from, message),
        }
    }

    /// Returns true if a message is to be taken although its sender is not connected in its life:
    /// one by which a contact begins or ends, or that comes while it ends.
    #[cold]
    pub(crate) fn meets(&mut self, from: PeerId, header: &Header) -> Result<bool, Malformed> {
        if ACTIVE && self.is_of_contact(from, header)? {
            return Ok(true);
        }
        count(&mut self.counters.stale_epochs);
        aldis_hal::debug!("a message of another life of {}, discarded", from);
        Ok(false)
    }

    #[inline(never)]
    fn receive_slow(&mut self, from: PeerId, message: &[u8]) -> Result<(), Malformed> {
        let (header, rest) = &Header::parse(message)?;
        if ACTIVE && self.peers.is_active() {
            self.account_use(from);
        }
        match Body::parse(header, rest)? {
            Body::Labelled(label, payload) if let Some(tools) = self.tools() => {
                tools.take_labelled(self, from, header, &label, payload)
            }
            Body::Eager(payload) | Body::Labelled(_, payload) => self.receive_eager(from, header, payload),
            Body::Announce { sender, .. } => {
                self.receive_announcement(from, header, &Announcement::plain(sender), &Label::NONE)
            }
            Body::Expose { sender, key, signature } if LENDS => {
                let label = Label::new(signature, None);
                self.receive_announcement(from, header, &Announcement::exposed(sender, key), &label)
            }
            Body::AnnounceWrite { sender } if LENDS => {
                self.receive_announcement(from, header, &Announcement::to_be_written(sender), &Label::NONE)
            }
            Body::ClearToWrite { sender, receiver, key, late } if LENDS => {
                let asked = WriteRequest { sender, receiver, end: header.length, key, late };
                self.take_clear_to_write(from, &asked)
            }
            Body::Expose { .. } | Body::AnnounceWrite { .. } | Body::ClearToWrite { .. } => {
                Err(Malformed::Control)
            }
            Body::ClearToSend { sender, late, read: true, .. } if LENDS => self.take_read(from, sender, late),
            Body::ClearToSend { sender, receiver, offset, late, more, .. } => {
                let range = offset..header.length;
                self.take_clear_to_send(from, DataRequest { sender, receiver, range, late, more })
            }
            Body::Data { receiver, offset, payload, typed, checked } => {
                self.take_data(from, receiver, &DataPiece { offset, payload, typed, checked })
            }
            Body::Finish { receiver, status, label } => self.take_finish(from, receiver, status, &label),
            Body::Credit => Ok(()),
            Body::Stalled => {
                self.take_stalled(from);
                Ok(())
            }
            Body::Seek { receiver } => self.take_seek(from, header, receiver),
            Body::Offer { sender, receiver } => self.take_offer(from, header, sender, receiver),
            Body::Nothing { receiver, more } => self.take_nothing(from, receiver, more),
            Body::Settle { sender, taken: true } => self.take_up_offer(from, sender),
            Body::Settle { sender, taken: false } => self.take_decline(from, sender),
            Body::Grant { sender, receiver, partitions, started } => match self.channels {
                Some(channels) => {
                    let length = header.length;
                    let grant = ChannelGrant { sender, receiver, partitions, length, started };
                    channels.take_grant(self, from, &grant)
                }
                // There has never been a channel that it could be for.
                None => Err(Malformed::Control),
            },
            Body::Control(bytes) => self.take_control(from, bytes),
            Body::Contact { room, order, words } if ACTIVE => {
                let is_alike = order == ByteOrder::NATIVE && words == WordWidth::NATIVE;
                self.take_contact(from, header, room, is_alike)
            }
            Body::Close if ACTIVE => self.take_close(from),
            Body::Contact { .. } | Body::Close => Err(Malformed::Control),
            Body::Recall { sender, given } if RECALLS => self.take_recall(from, sender, given),
            // It stays until it is received.
            Body::Recall { .. } => Ok(()),
        }
    }

    /// Takes a matchable message in: checks it, gives it the place that its peer was promised, and
    /// finds the receive that waits for it, in which case the place is free again. A message that
    /// is refused has matched nothing.
    pub(crate) fn admit(
        &mut self,
        from: PeerId,
        header: &Header,
        key: &Key,
        in_block: bool,
    ) -> Result<Option<u32>, Malformed> {
        if !is_tag(key.context, key.tag, header.kind == Kind::Announce) {
            return Err(Malformed::Envelope);
        }
        let is_member = self.comms.admits(key.context, key.source, from);
        if !is_member && !is_freed(key.context) {
            return Err(Malformed::Envelope);
        }
        let Some(peer) = self.peers.get_mut(from) else { return Err(Malformed::Envelope) };
        if header.sequence != peer.sequence_in {
            return Err(Malformed::Sequence { got: header.sequence, need: peer.sequence_in });
        }
        peer.envelopes_in.accept()?;
        if in_block {
            peer.blocks_in.accept()?;
        }
        peer.sequence_in = header.sequence.wrapping_add(1);
        count(&mut self.counters.messages_received);
        let matched = if is_member { self.matcher.match_posted(&mut self.requests, key) } else { None };
        if matched.is_some() {
            peer.envelopes_in.free();
            let mut due = peer.envelopes_in.is_due();
            if in_block {
                peer.blocks_in.free();
                due |= peer.blocks_in.is_due();
            }
            if due {
                self.schedule(from);
            }
        }
        Ok(matched)
    }

    fn receive_eager(&mut self, from: PeerId, header: &Header, payload: &[u8]) -> Result<(), Malformed> {
        let in_block = payload.len() > INLINE_BYTES;
        if in_block && payload.len() > self.room.block_bytes as usize {
            return Err(Malformed::Length);
        }
        let key = Key::of(header);
        let matched = self.admit(from, header, &key, in_block)?;
        self.counters.bytes_received += payload.len() as u64;
        let Some(index) = matched else {
            return self.keep(from, key, payload.len() as u64, Keep::Payload(payload), &Label::NONE);
        };
        let Some(request) = self.requests.at(index) else { return Ok(()) };
        (request.peer, request.rank, request.tag) = (from, key.source, key.tag);
        if request.buffer.write(0, payload) {
            self.received_all(index, payload.len() as u64);
        } else {
            self.take_unpacked(index, payload);
        }
        Ok(())
    }

    fn receive_announcement(
        &mut self,
        from: PeerId,
        header: &Header,
        announcement: &Announcement,
        label: &Label,
    ) -> Result<(), Malformed> {
        let key = Key::of(header);
        // Only announcements of what is read tell a signature.
        let length = if LENDS { header.bytes() } else { header.length };
        let matched = self.admit(from, header, &key, false)?;
        let Some(index) = matched else {
            return self.keep(from, key, length, Keep::Token(*announcement), label);
        };
        if let Some(request) = self.requests.at(index) {
            (request.rank, request.tag) = (key.source, key.tag);
        }
        self.fetch(index, from, announcement, length);
        self.compare_announced(index, length, label);
        Ok(())
    }

    /// Stores a message that no receive waits for. Its place was promised by credits, so there is
    /// one.
    #[inline(never)]
    pub(crate) fn keep(
        &mut self,
        from: PeerId,
        key: Key,
        length: u64,
        what: Keep<'_>,
        label: &Label,
    ) -> Result<(), Malformed> {
        if !self.comms.admits(key.context, key.source, from) && self.turn_away(from, &what) {
            return Ok(());
        }
        let block = match what {
            Keep::Payload(bytes) if bytes.len() > INLINE_BYTES => match self.blocks.take() {
                None => return Err(Malformed::Credit),
                block => block,
            },
            _ => None,
        };
        let Some(payload) = self.matcher.keep(key, from, length, label) else {
            if let Some(block) = block {
                self.blocks.give(block);
            }
            return Err(Malformed::Credit);
        };
        match (what, block) {
            (Keep::Token(announcement), _) => *payload = Payload::Announced(announcement),
            (Keep::Payload(bytes), Some(block)) => {
                self.blocks.buffer(&block).write(0, bytes);
                *payload = Payload::Block(block);
            }
            (Keep::Payload(bytes), None) => {
                *payload = Payload::EMPTY;
                if let Payload::Inline(inline) = payload {
                    copy(inline, bytes);
                }
            }
        }
        count(&mut self.counters.unexpected);
        self.counters.unexpected_peak = self.counters.unexpected_peak.max(self.matcher.unexpected());
        Ok(())
    }

    /// Drops a message of a communicator that has been freed. False if it must be kept until there
    /// is a request slot.
    #[cold]
    fn turn_away(&mut self, from: PeerId, what: &Keep<'_>) -> bool {
        match what {
            Keep::Token(announcement) if !self.turn_away_announced(from, announcement) => return false,
            Keep::Payload(bytes) if bytes.len() > INLINE_BYTES => self.free_block(from),
            _ => {}
        }
        self.free_envelope(from);
        count(&mut self.counters.stale_contexts);
        true
    }

    fn take_control(&mut self, from: PeerId, bytes: &[u8]) -> Result<(), Malformed> {
        match Control::decode(bytes)? {
            Control::Goodbye => self.lose(from, Cause::PeerLeft),
            Control::Abort { process, code } if process == self.me.0 => self.abort(from, code),
            Control::Abort { process, code } => self.lose(PeerId(process), Cause::PeerAborted { code }),
        }
        Ok(())
    }
}

/// Returns true if a header says nothing but credits.
#[inline]
const fn is_bare(header: &Header) -> bool {
    let &Header { source, tag, sequence, length, .. } = header;
    source == 0 && tag == 0 && sequence == 0 && length == 0
}

/// The part of an unexpected message that is kept.
pub(crate) enum Keep<'a> {
    Payload(&'a [u8]),
    Token(Announcement),
}
