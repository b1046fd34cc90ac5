//! A rendezvous by writing: the receiver is asked for the key to its memory, and the sender's
//! transport writes there.

use aldis_hal::cause::Malformed;
use aldis_hal::memory::{Access, Gather};
use aldis_hal::remote_memory::RemoteAddress;
use aldis_hal::{Cause, Features, Handle, PeerId, Post, Token, Transport};
use aldis_protocols::header::{Finish, Kind, MemoryKey, exposed};
use aldis_protocols::rendezvous::{Receiver, Writer, WriterStep};

use super::{RemotePiece, caps_with, lends};
use crate::counters::count;
use crate::engine::state::Engine;
use crate::engine::wire::{HeaderWords, LaneTurn};
use crate::rank::Mode;
use crate::tables::request::{Key, Machine, State};

/// The request of a receiver that its data be written into its memory.
pub(crate) struct WriteRequest {
    pub(crate) sender: Handle,
    pub(crate) receiver: Handle,
    /// Bytes of the message that are to be written.
    pub(crate) end: u64,
    pub(crate) key: MemoryKey,
    /// True if the receive was posted after the announcement had come.
    pub(crate) late: bool,
}

/// The sender.
impl Engine<'_> {
    /// Returns true if the data of the send in slot `index` is to be written into the receiver's
    /// memory.
    #[inline]
    pub(crate) fn is_to_be_written<T: Transport>(&mut self, id: PeerId, index: u32) -> bool {
        if !lends::<T>() {
            return false;
        }
        let (Some(peer), Some(request)) = (self.peers.get(id), self.requests.at(index)) else {
            return false;
        };
        request.may_be_lent() && peer.thresholds.is_written(request.buffer.len() as u64)
    }

    /// The receiver tells by which key `end` bytes of one of our announcements can be written into
    /// its memory.
    pub(crate) fn take_clear_to_write(
        &mut self,
        from: PeerId,
        asked: &WriteRequest,
    ) -> Result<(), Malformed> {
        let &WriteRequest { sender, receiver, end, key, late } = asked;
        let Some(request) = self.requests.get(sender) else { return Err(Malformed::Control) };
        let Machine::Send(machine) = &request.machine else { return Err(Malformed::Control) };
        if request.peer != from || request.state != State::Sending || request.mode == Mode::Polled {
            return Err(Malformed::Control);
        }
        request.machine = Machine::Write(machine.asked_to_write(receiver, end, key)?);
        if late && request.mode == Mode::Ready {
            request.cause = Some(Cause::NotReady);
        }
        self.queue_rendezvous(sender.slot);
        Ok(())
    }

    /// Takes one step of a send that writes its message.
    #[inline]
    pub(crate) fn step_writer<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        index: u32,
        writer: &Writer,
    ) -> LaneTurn {
        let most = caps_with(transport, id, Features::PUT).map_or(0, |caps| caps.limits.direct_bytes_max);
        match writer.step(most) {
            WriterStep::Write { key, offset, len } if most > 0 => {
                self.write(transport, id, index, &RemotePiece { key, offset, len })
            }
            WriterStep::Write { .. } => {
                self.send_instead(index);
                LaneTurn::Sent
            }
            WriterStep::Finish { receiver, status } => {
                let turn = self.say_finish(transport, id, index, receiver, status);
                if let (LaneTurn::Sent, Finish::Written) = (&turn, status) {
                    count(&mut self.counters.writes);
                }
                turn
            }
            WriterStep::Wait => LaneTurn::Idle,
        }
    }

    fn write<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        index: u32,
        piece: &RemotePiece,
    ) -> LaneTurn {
        let &RemotePiece { ref key, offset, len } = piece;
        let region = self.lend(transport, id, index, Access::LOCAL_READ);
        let (Some(region), Ok(place), Some(own)) =
            (region, usize::try_from(offset), self.requests.handle(index))
        else {
            self.send_instead(index);
            return LaneTurn::Sent;
        };
        let local = Gather { region, offset: place, len: len as usize };
        let post = transport.put(id, local, RemoteAddress { key, offset }, Token(own));
        let Some(Machine::Write(writer)) = self.requests.at(index).map(|request| &mut request.machine) else {
            return LaneTurn::Idle;
        };
        match post {
            Post::Done => {
                writer.posted(len);
                writer.arrived();
                self.counters.bytes_sent += u64::from(len);
            }
            Post::Queued => writer.posted(len),
            Post::Never(_) => self.send_instead(index),
            Post::Again(_) => {
                count(&mut self.counters.retries);
                return LaneTurn::Stuck;
            }
        }
        LaneTurn::Sent
    }

    /// Sends data that cannot be written in fragments instead.
    pub(super) fn send_instead(&mut self, index: u32) {
        let Some(request) = self.requests.at(index) else { return };
        if let Machine::Write(writer) = request.machine {
            request.machine = Machine::Send(writer.send_instead());
            count(&mut self.counters.unread);
        }
    }
}

/// The receiver.
impl Engine<'_> {
    /// Tells `sender` by which key `end` bytes can be written into the memory of the receive in
    /// slot `index`, if it would do so. `None` if it is to be asked for them.
    #[inline]
    pub(crate) fn invite<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        index: u32,
        sender: Handle,
        end: u64,
    ) -> Option<LaneTurn> {
        if !lends::<T>() || !self.is_inviting(index) {
            return None;
        }
        let Some(key) = self.key(transport, id, index, Access::LOCAL_WRITE | Access::REMOTE_WRITE) else {
            count(&mut self.counters.unread);
            self.receiver(index)?.ask_instead();
            return None;
        };
        let Handle { slot, generation } = self.requests.handle(index)?;
        let late = self.requests.at(index)?.late;
        let key_words = Key { context: slot, source: generation, tag: late.into() };
        let says = HeaderWords { key: key_words, length: end };
        let turn = self.say(transport, id, Kind::ClearToWrite, says, &exposed(sender, key));
        if let LaneTurn::Sent = turn {
            self.receiver(index)?.invited();
        }
        Some(turn)
    }

    fn is_inviting(&mut self, index: u32) -> bool {
        self.receiver(index).is_some_and(|receiver| receiver.is_inviting())
    }

    fn receiver(&mut self, index: u32) -> Option<&mut Receiver> {
        match &mut self.requests.at(index)?.machine {
            Machine::Recv(receiver) => Some(receiver),
            _ => None,
        }
    }
}
