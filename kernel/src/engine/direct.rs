//! Memory of the user in the hands of the transport: read by the peer that it is announced to,
//! gathered from, or filled.
//!
//! One rule makes it sound. A request whose memory the transport may touch has a *region* of it,
//! and the region is taken back ([`deregister`](aldis_hal::RemoteMemory::deregister)) before the
//! memory is let go: when the request is over, before its owner can learn of it
//! ([`State::Closing`]), and when its owner lets go of it, at once. All that is for transports that
//! [touch such memory](aldis_hal::RemoteMemory::HAS_REMOTE_MEMORY); for any other, nothing of it is
//! compiled.

use aldis_hal::cause::Malformed;
use aldis_hal::memory::{Access, Gather};
use aldis_hal::remote_memory::RemoteAddress;
use aldis_hal::{Caps, Cause, Features, Handle, PeerId, Post, Refusal, RegionId, Token, Transport};
use aldis_protocols::LENDS;
use aldis_protocols::header::{
    DATA_HEADER_BYTES, DataHead, Finish, Header, KEY_BYTES, Kind, Label, MemoryKey, clear_to_send, exposed,
};
use aldis_protocols::rendezvous::{Reader, ReaderStep, WriterStep};

use crate::counters::count;
use crate::datatype::Form;
use crate::engine::rendezvous::FragmentSpan;
use crate::engine::state::Engine;
use crate::engine::wire::{HeaderWords, Injected, LaneTurn, post};
use crate::memory::buffer::UserBuffer;
use crate::rank::Mode;
use crate::tables::list::{List, Queue};
use crate::tables::peer::Presence;
use crate::tables::request::{Backing, Key, Machine, NO_REGION, State};

pub(crate) use write::WriteRequest;

mod write;

/// A piece of a peer's memory that the transport is to read or to write.
struct RemotePiece {
    /// The key to the memory of the message.
    key: MemoryKey,
    /// The place in the message.
    offset: u64,
    len: u32,
}

/// A message that its peer can read where it is.
pub(crate) struct ExposedMessage {
    pub(crate) key: Key,
    pub(crate) len: usize,
    /// The signature of its elements, if it is typed.
    pub(crate) signature: Option<u32>,
    /// The key to its memory.
    pub(crate) read_key: MemoryKey,
}

/// Returns true if there is code for memory in the transport's hands.
pub(crate) const fn lends<T: Transport>() -> bool {
    LENDS && T::HAS_REMOTE_MEMORY
}

/// Regions.
impl Engine<'_> {
    /// Takes the memory of the requests that are over back from the transport; they are complete
    /// then.
    #[inline]
    pub(crate) fn close_regions<T: Transport>(&mut self, transport: &mut T) {
        if lends::<T>() && !self.closing.is_empty() {
            self.close_all(transport);
        }
    }

    #[inline(never)]
    fn close_all<T: Transport>(&mut self, transport: &mut T) {
        while let Some(index) = self.closing.front() {
            self.closing.remove(&mut self.requests, index);
            let Some(request) = self.requests.at(index) else { return };
            let cause = request.cause;
            close(transport, core::mem::replace(&mut request.region, NO_REGION));
            self.complete(index, cause);
        }
    }

    /// Takes the memory of one request back, now.
    pub(crate) fn take_back<T: Transport>(&mut self, transport: &mut T, handle: Handle) {
        let Some(request) = self.requests.get(handle) else { return };
        if request.region == NO_REGION {
            return;
        }
        close(transport, core::mem::replace(&mut request.region, NO_REGION));
        if request.state == State::Closing {
            request.state = State::Complete;
            List::<Queue>::remove(&mut self.closing, &mut self.requests, handle.slot);
        }
    }

    /// Returns true if the transport has memory of a request's.
    pub(crate) fn has_lent(&mut self) -> bool {
        (0..self.requests.used_end())
            .any(|index| self.requests.at(index).is_some_and(|request| request.region != NO_REGION))
    }

    /// The region of the memory of the request in slot `index`, as much of it as the message has,
    /// registered for its peer if it is not yet. `None` if it cannot be: the table is full, or it
    /// is no memory that stays where it is.
    fn lend<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        index: u32,
        access: Access,
    ) -> Option<RegionId> {
        let request = self.requests.at(index)?;
        if request.region == NO_REGION {
            if !lends::<T>() || !request.may_be_lent() {
                return None;
            }
            // Pages beyond the message need not be locked.
            request.region = request.piece()?.register(transport, id, request.length, access)?;
        }
        Some(request.region)
    }
}

fn close<T: Transport>(transport: &mut T, region: RegionId) {
    // One that the transport does not know any more is one that it does not touch.
    let _ = transport.deregister(region);
}

/// Returns the capabilities by which `peer` is reached, if they have one of the features.
fn caps_with<T: Transport>(transport: &T, peer: PeerId, features: Features) -> Option<&Caps> {
    transport.reach(peer).ok().filter(|caps| lends::<T>() && caps.features.intersects(features))
}

/// The sender.
impl Engine<'_> {
    /// Returns true if the send in slot `index` is to be announced with a key by which its data can
    /// be read.
    #[inline]
    pub(crate) fn is_exposed<T: Transport>(&mut self, transport: &T, id: PeerId, index: u32) -> bool {
        if !lends::<T>() {
            return false;
        }
        let (Some(peer), Some(request)) = (self.peers.get(id), self.requests.at(index)) else {
            return false;
        };
        let len = request.buffer.len() as u64;
        let memory = request.piece().and_then(|piece| piece.memory());
        let is_mapped = |memory| peer.thresholds.is_mapped(len) && transport.is_mapped(id, memory);
        request.may_be_lent() && (peer.thresholds.is_read(len) || memory.is_some_and(is_mapped))
    }

    /// Announces the send behind `own` with such a key, and the signature of its elements if it is
    /// typed; without a key if its memory cannot be registered, and if it is so long that the
    /// header has no room for a signature.
    pub(crate) fn expose<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        own: Handle,
    ) -> Result<Injected, Cause> {
        let Some(request) = self.requests.get(own) else { return Err(Cause::Stale) };
        let (key, len) = (request.key, request.buffer.len());
        let signature = self.label(own.slot, Finish::Complete).signature();
        let is_told = signature.is_none() || u32::try_from(len).is_ok();
        let Some(read_key) = self.read_key(transport, id, own.slot).filter(|_| is_told) else {
            count(&mut self.counters.unread);
            return self.announce(transport, id, Kind::Announce, key, len, own);
        };
        self.announce_exposed(transport, id, own, &ExposedMessage { key, len, signature, read_key })
    }

    /// Announces a message, whose data is read from the memory of the request behind `own`.
    pub(crate) fn announce_exposed<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        own: Handle,
        message: &ExposedMessage,
    ) -> Result<Injected, Cause> {
        let &ExposedMessage { key, len, signature, read_key } = message;
        let Some(peer) = self.peers.get(id) else { return Err(Cause::Unreachable) };
        if peer.envelopes_out.available() == 0 {
            count(&mut self.counters.credit_stalls);
            return Ok(Injected::NoCredit);
        }
        let header = self.header(peer, Kind::Expose, key, peer.sequence_out, len as u64);
        let header = signature.map_or(header, |signature| header.signed(signature));
        let post = post(transport, id, &header.emit(), &exposed(own, read_key));
        self.injected(id, Kind::Announce, false, len, post)
    }

    fn read_key<T: Transport>(&mut self, transport: &mut T, id: PeerId, index: u32) -> Option<MemoryKey> {
        self.key(transport, id, index, Access::LOCAL_READ | Access::REMOTE_READ)
    }

    /// The key to the memory of the request in slot `index`, for its peer.
    pub(crate) fn key<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        index: u32,
        access: Access,
    ) -> Option<MemoryKey> {
        let region = self.lend(transport, id, index, access)?;
        let mut key = [0; KEY_BYTES];
        transport.pack_key(region, &mut key).is_ok_and(|len| len > 0).then_some(key)
    }

    /// The receiver has read what it wants of one of our messages.
    pub(crate) fn take_read(&mut self, from: PeerId, sender: Handle, late: bool) -> Result<(), Malformed> {
        let Some(request) = self.requests.get(sender) else { return Err(Malformed::Control) };
        let Machine::Send(machine) = &mut request.machine else { return Err(Malformed::Control) };
        if request.peer != from || request.state != State::Sending || request.mode == Mode::Polled {
            return Err(Malformed::Control);
        }
        machine.read()?;
        if late && request.mode == Mode::Ready {
            request.cause = Some(Cause::NotReady);
        }
        let (length, cause) = (request.length, request.cause);
        self.counters.bytes_sent += length;
        self.complete(sender.slot, cause);
        Ok(())
    }

    /// The largest fragment of the send in slot `index` that can be gathered from its memory, in
    /// bytes.
    #[inline]
    pub(crate) fn gathered_max<T: Transport>(
        &mut self,
        transport: &T,
        id: PeerId,
        index: u32,
    ) -> Option<u32> {
        let caps = caps_with(transport, id, Features::ZCOPY)?;
        let most = caps.limits.zcopy_bytes_max.min(u64::from(u32::MAX));
        let payload = (most as u32).checked_sub(DATA_HEADER_BYTES as u32)?;
        self.requests.at(index).filter(|request| request.may_be_lent() && payload > 0).map(|_| payload)
    }

    /// Sends a fragment straight from the memory of the send in slot `index`. `None` if that cannot
    /// be registered.
    pub(crate) fn gather_fragment<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        index: u32,
        span: FragmentSpan,
    ) -> Option<LaneTurn> {
        let FragmentSpan { receiver, offset, len } = span;
        let region = self.lend(transport, id, index, Access::LOCAL_READ)?;
        let own = self.requests.handle(index)?;
        let is_typed = matches!(self.requests.at(index)?.backing, Backing::Typed(_));
        let peer = self.peers.get(id)?;
        let key = Key { tag: is_typed.into(), ..Key::NONE };
        let header = self.header(peer, Kind::Data, key, 0, u64::from(len));
        let piece = Gather { region, offset: usize::try_from(offset).ok()?, len: len as usize };
        let post = transport.zcopy(id, &header.emit_data(receiver, offset), &[piece], Token(own));
        let sent = match post {
            Post::Done | Post::Queued => Ok(()),
            Post::Again(why) => Err(Refusal::Again(why)),
            Post::Never(cause) => Err(Refusal::Never(cause)),
        };
        let turn = self.sent_fragment(id, index, len, sent);
        if post == Post::Queued
            && let Some(Machine::Send(sender)) = self.requests.at(index).map(|request| &mut request.machine)
        {
            sender.in_flight();
        }
        Some(turn)
    }
}

/// The receiver.
impl Engine<'_> {
    /// Returns true if the bytes of a message of its peer can be put into the memory of the receive
    /// in slot `index` as they are there.
    pub(crate) fn may_be_filled(&mut self, index: u32) -> bool {
        let Some(request) = self.requests.at(index).filter(|request| request.may_be_lent()) else {
            return false;
        };
        let (peer, is_plain) = (request.peer, matches!(request.backing, Backing::Plain));
        is_plain || self.form_from(peer, true) == Form::Native
    }

    /// Compares the signature in the announcement of a message that is to be read, of `length`
    /// bytes, with that of the receive in slot `index`. It fails once it has read the message, as
    /// any other.
    pub(crate) fn compare_announced(&mut self, index: u32, length: u64, label: &Label) {
        if LENDS
            && !label.is_none()
            && let Some(tools) = self.tools()
        {
            tools.compare(self, index, length, label);
        }
    }

    /// Takes one step of a receive that reads its message.
    #[inline]
    pub(crate) fn step_reader<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        index: u32,
        reader: &Reader,
    ) -> LaneTurn {
        let most = caps_with(transport, id, Features::GET | Features::MAPPABLE)
            .map_or(0, |caps| caps.limits.direct_bytes_max);
        match reader.step(most) {
            ReaderStep::Read { .. } if self.holds(index) => LaneTurn::Idle,
            ReaderStep::Read { key, offset, len } if most > 0 => {
                self.read(transport, id, index, &RemotePiece { key, offset, len })
            }
            ReaderStep::Read { .. } => self.ask_instead(index),
            ReaderStep::Tell { sender } => self.tell_read(transport, id, index, sender, reader),
            ReaderStep::Wait => LaneTurn::Idle,
        }
    }

    /// Leaves the message of the receive in slot `index` where it is, to be looked at there; false
    /// if the receive is not one that does so.
    fn holds(&mut self, index: u32) -> bool {
        let Some(request) = self.requests.at(index).filter(|request| request.mode == Mode::Viewed) else {
            return false;
        };
        if let Machine::Read(reader) = &mut request.machine {
            reader.hold();
        }
        true
    }

    fn read<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        index: u32,
        piece: &RemotePiece,
    ) -> LaneTurn {
        let &RemotePiece { ref key, offset, len } = piece;
        let region = self.lend(transport, id, index, Access::LOCAL_WRITE);
        let (Some(region), Ok(place), Some(own)) =
            (region, usize::try_from(offset), self.requests.handle(index))
        else {
            return self.ask_instead(index);
        };
        let local = Gather { region, offset: place, len: len as usize };
        let post = transport.get(id, local, RemoteAddress { key, offset }, Token(own));
        let Some(request) = self.requests.at(index) else { return LaneTurn::Idle };
        let Machine::Read(reader) = &mut request.machine else { return LaneTurn::Idle };
        match post {
            Post::Done => {
                reader.posted(len);
                reader.arrived();
                self.counters.bytes_received += u64::from(len);
            }
            Post::Queued => reader.posted(len),
            Post::Never(Cause::Stale) => reader.withdraw(),
            Post::Never(_) => return self.ask_instead(index),
            Post::Again(_) => {
                count(&mut self.counters.retries);
                return LaneTurn::Stuck;
            }
        }
        LaneTurn::Sent
    }

    /// Asks the sender for data that cannot be read.
    fn ask_instead(&mut self, index: u32) -> LaneTurn {
        let Some(request) = self.requests.at(index) else { return LaneTurn::Idle };
        if let Machine::Read(reader) = request.machine {
            request.machine = Machine::Recv(reader.ask_instead());
            count(&mut self.counters.unread);
        }
        LaneTurn::Sent
    }

    /// Tells the sender that nothing more is wanted, and is over.
    fn tell_read<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        index: u32,
        sender: Handle,
        reader: &Reader,
    ) -> LaneTurn {
        let (Some(own), Some(request)) = (self.requests.handle(index), self.requests.at(index)) else {
            return LaneTurn::Idle;
        };
        let (late, length, here) = (request.late, request.length, reader.bytes_read());
        let key = Key { tag: u32::from(late) | 1 << 2, ..Key::NONE };
        let says = HeaderWords { key, length: here };
        let turn = self.say(transport, id, Kind::ClearToSend, says, &clear_to_send(sender, own, here));
        if let LaneTurn::Sent = turn {
            self.disown(index);
            if reader.is_withdrawn() {
                self.complete(index, Some(Cause::Withdrawn));
            } else {
                count(&mut self.counters.reads);
                self.received(index, length, &Label::NONE);
            }
        }
        turn
    }

    /// Returns where the `length` bytes of the fragment that begins with `head` belong; `None` if
    /// it is to be delivered whole.
    pub(crate) fn place_for(&mut self, from: PeerId, head: &[u8], length: usize) -> Option<UserBuffer> {
        let DataHead { header, receiver, offset, typed } = DataHead::parse(head).ok()?;
        let is_alike = !typed || self.form_from(from, true) == Form::Native;
        let peer = self.peers.get(from)?;
        let is_there = header.epoch == peer.epoch && matches!(peer.presence, Presence::Connected);
        let request = self.requests.get(receiver).filter(|_| is_there && header.length == length as u64)?;
        let Machine::Recv(mut machine) = request.machine else { return None };
        let piece = request.piece().filter(|_| request.mode != Mode::Polled)?;
        let is_whole = is_alike || matches!(request.backing, Backing::Plain);
        if request.peer != from || request.state != State::Receiving || !is_whole {
            return None;
        }
        let start = usize::try_from(machine.data(offset, header.length).ok()?).ok()?;
        piece.part(start..start.checked_add(length)?)
    }

    /// A fragment has been put where it belongs, or nowhere if its receive has been let go of
    /// meanwhile.
    pub(crate) fn take_landed(&mut self, from: PeerId, head: &[u8]) -> Result<(), Malformed> {
        let DataHead { header, receiver, offset, .. } = DataHead::parse(head)?;
        if !self.take_credits(from, &header)? {
            return Ok(());
        }
        let Some(request) = self.requests.get(receiver) else {
            count(&mut self.counters.stale_handles);
            return Ok(());
        };
        match &mut request.machine {
            Machine::Recv(machine) if request.peer == from && request.state == State::Receiving => {
                machine.data(offset, header.length)?;
                self.counters.bytes_received += header.length;
                Ok(())
            }
            _ => Err(Malformed::Control),
        }
    }
}

/// Both.
impl Engine<'_> {
    /// Accounts for the end of what was queued with `token`.
    pub(crate) fn moved(&mut self, Token(handle): Token, result: Result<(), Cause>) {
        let Some(request) = self.requests.get(handle) else {
            count(&mut self.counters.stale_handles);
            return;
        };
        match (&mut request.machine, request.state) {
            (Machine::Read(reader), State::Receiving) if reader.step(1) == ReaderStep::Wait => match result {
                Ok(()) => {
                    let before = reader.bytes_read();
                    reader.arrived();
                    self.counters.bytes_received += reader.bytes_read().saturating_sub(before);
                }
                Err(Cause::Stale) => reader.withdraw(),
                Err(_) => {
                    self.ask_instead(handle.slot);
                }
            },
            (Machine::Write(writer), State::Sending) if writer.step(1) == WriterStep::Wait => match result {
                Ok(()) => {
                    let before = writer.bytes_written();
                    writer.arrived();
                    self.counters.bytes_sent += writer.bytes_written().saturating_sub(before);
                }
                Err(_) => self.send_instead(handle.slot),
            },
            (Machine::Send(sender), State::Sending) if sender.is_in_flight() => match result {
                Ok(()) => sender.landed(),
                Err(cause) => {
                    let peer = request.peer;
                    return self.lose(peer, cause);
                }
            },
            // It has been let go of meanwhile.
            _ => {
                count(&mut self.counters.stale_handles);
                return;
            }
        }
        self.queue_rendezvous(handle.slot);
    }

    /// Takes the credits in a message of `from`. False if it is of another life, or of a peer that
    /// is not connected.
    pub(crate) fn take_credits(&mut self, from: PeerId, header: &Header) -> Result<bool, Malformed> {
        let Some(peer) = self.peers.get_mut(from) else { return self.meets(from, header) };
        if header.epoch != peer.epoch || !matches!(peer.presence, Presence::Connected) {
            return self.meets(from, header);
        }
        let more_envelopes = peer.envelopes_out.raise(header.limits.envelopes)?;
        let more_blocks = peer.blocks_out.raise(header.limits.blocks)?;
        if (more_envelopes || more_blocks) && !peer.send_queue.is_empty() {
            self.schedule(from);
        }
        Ok(true)
    }
}
