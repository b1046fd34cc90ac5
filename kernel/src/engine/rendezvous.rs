//! Rendezvous under way: what an announced message and the receive that has matched it tell each
//! other. Neither is on the way of a small message; the two machines are in
//! [`protocols::rendezvous`](aldis_protocols::rendezvous).

use core::ops::Range;

use aldis_hal::cause::Malformed;
use aldis_hal::{Cause, Handle, PeerId, Refusal, Transport};
use aldis_protocols::header::{Finish, Header, Kind, Label, clear_to_send, finish};
use aldis_protocols::rendezvous::{ReaderStep, ReceiverStep, Sender, SenderStep, WriterStep};
use aldis_protocols::{LENDS, RECALLS};

use crate::counters::count;
use crate::engine::state::Engine;
use crate::engine::wire::{HeaderWords, LaneTurn, Wire, pack};
use crate::planted;
use crate::rank::Mode;
use crate::tables::elements::{DataPiece, Fragment};
use crate::tables::request::{Key, Machine, State};

/// The request of a receiver for data of an announced message.
pub(crate) struct DataRequest {
    pub(crate) sender: Handle,
    pub(crate) receiver: Handle,
    /// The bytes of the message that are asked for.
    pub(crate) range: Range<u64>,
    /// True if the receive was posted after the announcement had come.
    pub(crate) late: bool,
    /// True if more will be asked for.
    pub(crate) more: bool,
}

/// The bytes of a message that a fragment carries, and the receive that they are for.
#[derive(Clone, Copy)]
pub(crate) struct FragmentSpan {
    pub(crate) receiver: Handle,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// Arriving messages.
impl Engine<'_> {
    /// The receiver asks for the data of one of our announcements.
    pub(crate) fn take_clear_to_send(&mut self, from: PeerId, asked: DataRequest) -> Result<(), Malformed> {
        let DataRequest { sender, receiver, range, late, more } = asked;
        if self.is_offered(from, sender) {
            self.take_up_offer(from, sender)?;
        }
        let Some(request) = self.requests.get(sender) else {
            // An announced send keeps its slot until it has been asked, so no receiver can ask for
            // one that is over.
            return Err(Malformed::Control);
        };
        match &mut request.machine {
            Machine::Send(machine) if request.peer == from && request.state == State::Sending => {
                machine.asked(receiver, range, more)?;
                if late && request.mode == Mode::Ready {
                    request.cause = Some(Cause::NotReady);
                }
                if request.mode != Mode::Polled || request.orphan {
                    self.queue_rendezvous(sender.slot);
                }
                Ok(())
            }
            Machine::PartSend(_) if request.peer == from => {
                if let Some(channels) = self.channels {
                    channels.take_refusal(self, from, sender, receiver);
                }
                Ok(())
            }
            _ => Err(Malformed::Control),
        }
    }

    pub(crate) fn take_data(
        &mut self,
        from: PeerId,
        receiver: Handle,
        piece: &DataPiece<'_>,
    ) -> Result<(), Malformed> {
        let &DataPiece { offset, payload, .. } = piece;
        let Some(request) = self.requests.get(receiver) else {
            count(&mut self.counters.stale_handles);
            return Ok(());
        };
        match &mut request.machine {
            Machine::Recv(machine) if request.peer == from && request.state == State::Receiving => {
                let place = machine.data(offset, payload.len() as u64)?;
                let unwanted = request.orphan && machine.is_between();
                if unwanted {
                    machine.decline();
                }
                if !request.buffer.write(place, payload) {
                    self.unpack_piece(receiver.slot, piece);
                }
                self.counters.bytes_received += payload.len() as u64;
                if unwanted {
                    self.queue_rendezvous(receiver.slot);
                }
                Ok(())
            }
            Machine::PartRecv(_) if request.peer == from && request.state == State::Receiving => {
                let Some(channels) = self.channels else { return Err(Malformed::Control) };
                channels.take_part(self, receiver.slot, piece)
            }
            _ => Err(Malformed::Control),
        }
    }

    pub(crate) fn take_finish(
        &mut self,
        from: PeerId,
        receiver: Handle,
        status: Finish,
        label: &Label,
    ) -> Result<(), Malformed> {
        let Some(request) = self.requests.get(receiver) else {
            count(&mut self.counters.stale_handles);
            return Ok(());
        };
        match &mut request.machine {
            Machine::Recv(machine) if request.peer == from && request.state == State::Receiving => {
                let before = machine.bytes_received();
                machine.finish(status)?;
                if LENDS {
                    self.counters.bytes_received += machine.bytes_received().saturating_sub(before);
                }
                let length = request.length;
                match status {
                    Finish::Complete | Finish::Written => self.received(receiver.slot, length, label),
                    Finish::Withdrawn => self.complete(receiver.slot, Some(Cause::Withdrawn)),
                }
                Ok(())
            }
            Machine::PartRecv(_) if request.peer == from && status == Finish::Withdrawn => {
                self.close(receiver.slot, Cause::Withdrawn);
                Ok(())
            }
            _ => Err(Malformed::Control),
        }
    }
}

/// Messages to be sent.
impl Engine<'_> {
    /// Takes one step of the rendezvous at the front of the rendezvous queue, which then moves to
    /// the back.
    pub(crate) fn send_rendezvous<T: Transport>(&mut self, transport: &mut T, id: PeerId) -> LaneTurn {
        let Some(peer) = self.peers.get(id) else { return LaneTurn::Idle };
        let (fragment_max, Some(index)) = (peer.thresholds.fragment_bytes_max, peer.rendezvous_queue.front())
        else {
            return LaneTurn::Idle;
        };
        let turn = match self.requests.at(index).map(|request| &request.machine) {
            Some(Machine::Send(sender)) => {
                let sender = *sender;
                self.step_sender(transport, id, index, sender, fragment_max)
            }
            Some(Machine::Recv(receiver)) => match receiver.step() {
                ReceiverStep::Ask { sender, offset, end, more } => {
                    self.ask(transport, id, index, sender, offset..end, more)
                }
                ReceiverStep::GiveBack { sender } if RECALLS => {
                    self.say_recall(transport, id, index, sender, true)
                }
                ReceiverStep::GiveBack { .. }
                | ReceiverStep::Wait
                | ReceiverStep::Piece
                | ReceiverStep::Done(_) => LaneTurn::Idle,
            },
            Some(Machine::Read(reader)) if LENDS => {
                let reader = *reader;
                self.step_reader(transport, id, index, &reader)
            }
            Some(Machine::Write(writer)) if LENDS => {
                let writer = *writer;
                self.step_writer(transport, id, index, &writer)
            }
            Some(Machine::PartSend(_) | Machine::PartRecv(_)) => {
                let Some(channels) = self.channels else { return LaneTurn::Idle };
                channels.step(self, transport, id, index, fragment_max)
            }
            Some(
                Machine::None
                | Machine::Announced(_)
                | Machine::Kept(_)
                | Machine::Read(_)
                | Machine::Write(_),
            )
            | None => LaneTurn::Idle,
        };
        if let LaneTurn::Stuck = turn {
            return turn;
        }
        self.rotate_owed(id, index);
        LaneTurn::Sent
    }

    /// After its turn: to the back if there is more to say, out of the list if not.
    fn rotate_owed(&mut self, id: PeerId, index: u32) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let Some(request) = self.requests.at(index) else { return };
        if !request.in_rendezvous_queue {
            return;
        }
        let more = match &request.machine {
            Machine::Send(sender) => sender.is_sending(),
            Machine::Recv(receiver) => receiver.is_asking(),
            Machine::Read(reader) if LENDS => reader.step(1) != ReaderStep::Wait,
            Machine::Write(writer) if LENDS => writer.step(1) != WriterStep::Wait,
            Machine::PartSend(_) | Machine::PartRecv(_) => {
                self.channels.is_some_and(|channels| channels.has_more(request))
            }
            Machine::None
            | Machine::Announced(_)
            | Machine::Kept(_)
            | Machine::Read(_)
            | Machine::Write(_) => false,
        };
        request.in_rendezvous_queue = more;
        peer.rendezvous_queue.remove(&mut self.requests, index);
        if more {
            peer.rendezvous_queue.push_back(&mut self.requests, index);
        }
    }

    fn ask<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        index: u32,
        sender: Handle,
        range: Range<u64>,
        more: bool,
    ) -> LaneTurn {
        if let Some(turn) = self.invite(transport, id, index, sender, range.end) {
            return turn;
        }
        let Some(own) = self.requests.handle(index) else { return LaneTurn::Idle };
        let late = self.requests.at(index).is_some_and(|request| request.late);
        let key = Key { tag: u32::from(late) | u32::from(more) << 1, ..Key::NONE };
        let says = HeaderWords { key, length: range.end };
        let turn = self.say(transport, id, Kind::ClearToSend, says, &clear_to_send(sender, own, range.start));
        if let LaneTurn::Sent = turn
            && let Some(Machine::Recv(receiver)) = self.requests.at(index).map(|request| &mut request.machine)
        {
            receiver.asked();
            self.settled_by_asking(id, sender);
        }
        turn
    }

    pub(crate) fn step_sender<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        index: u32,
        sender: Sender,
        fragment_max: u32,
    ) -> LaneTurn {
        let gathered_max = self.gathered_max(transport, id, index);
        match planted::step(&sender, gathered_max.unwrap_or(fragment_max)) {
            SenderStep::Data { receiver, offset, len } => {
                let span = FragmentSpan { receiver, offset, len };
                if gathered_max.is_some()
                    && let Some(turn) = self.gather_fragment(transport, id, index, span)
                {
                    return turn;
                }
                let span = FragmentSpan { len: len.min(fragment_max), ..span };
                self.send_fragment(transport, id, index, span)
            }
            SenderStep::Finish { receiver, status } => {
                self.say_finish(transport, id, index, receiver, status)
            }
            SenderStep::Recall if RECALLS => {
                let Some(own) = self.requests.handle(index) else { return LaneTurn::Idle };
                self.say_recall(transport, id, index, own, false)
            }
            SenderStep::Announce | SenderStep::Wait | SenderStep::Recall | SenderStep::Done => LaneTurn::Idle,
        }
    }

    /// Tells the receiver how its message ended; the send is over then.
    pub(crate) fn say_finish(
        &mut self,
        wire: &mut dyn Wire,
        id: PeerId,
        index: u32,
        receiver: Handle,
        status: Finish,
    ) -> LaneTurn {
        let label = self.label(index, status);
        let says = HeaderWords { key: Key::NONE, length: label.values() };
        let turn = self.say(wire, id, Kind::Finish, says, &finish(receiver, status, &label));
        if let LaneTurn::Sent = turn {
            self.finish_send(id, index);
        }
        turn
    }

    /// The finish is sent: the request leaves the rendezvous queue and is complete.
    fn finish_send(&mut self, id: PeerId, index: u32) {
        let Some(request) = self.requests.at(index) else { return };
        let (queued, cause) = (core::mem::take(&mut request.in_rendezvous_queue), request.cause);
        if let Machine::Send(sender) = &mut request.machine {
            sender.finished();
        }
        if let Some(peer) = self.peers.get_mut(id)
            && queued
        {
            peer.rendezvous_queue.remove(&mut self.requests, index);
        }
        self.complete(index, cause);
    }

    pub(crate) fn send_fragment(
        &mut self,
        wire: &mut dyn Wire,
        id: PeerId,
        index: u32,
        span: FragmentSpan,
    ) -> LaneTurn {
        let FragmentSpan { receiver, offset, len } = span;
        let Some(peer) = self.peers.get(id) else { return LaneTurn::Idle };
        let header = self.header(peer, Kind::Data, Key::NONE, 0, u64::from(len));
        let Some(request) = self.requests.at(index) else { return LaneTurn::Idle };
        if request.buffer.is_scattered() {
            if LENDS && let Some(piece) = request.piece() {
                // Elements of one piece, as they are.
                let header = Header { tag: 1, ..header }.emit_data(receiver, offset);
                let sent = pack(wire, id, &header, piece.read(offset, len as usize));
                return self.sent_fragment(id, index, len, sent);
            }
            let Some(tools) = self.tools() else { return LaneTurn::Idle };
            return tools.send_fragment(self, wire, id, index, Fragment { header, receiver, offset, len });
        }
        let payload = request.buffer.read(offset, len as usize);
        let sent = pack(wire, id, &header.emit_data(receiver, offset), payload);
        self.sent_fragment(id, index, len, sent)
    }

    /// Accounts for a fragment after its post.
    pub(crate) fn sent_fragment(
        &mut self,
        id: PeerId,
        index: u32,
        len: u32,
        sent: Result<(), Refusal>,
    ) -> LaneTurn {
        match sent {
            Ok(()) => {
                match self.requests.at(index).map(|request| &mut request.machine) {
                    Some(Machine::Send(sender)) => sender.sent(len),
                    _ => {
                        if let Some(channels) = self.channels {
                            channels.sent(self, index, len);
                        }
                    }
                }
                self.counters.bytes_sent += u64::from(len);
                if let Some(peer) = self.peer(id) {
                    peer.account_limits();
                }
                LaneTurn::Sent
            }
            Err(Refusal::Again(_)) => {
                count(&mut self.counters.retries);
                LaneTurn::Stuck
            }
            Err(Refusal::Never(cause)) => {
                self.lose(id, cause);
                LaneTurn::Stuck
            }
        }
    }
}
