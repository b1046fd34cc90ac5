//! Recalls: a send whose receiver knows of it already is cancelled, if the receiver, which alone
//! can tell, has not matched it. The exchange is in
//! [`protocols::rendezvous`](aldis_protocols::rendezvous).

use aldis_hal::cause::Malformed;
use aldis_hal::{Cause, Handle, PeerId};
use aldis_protocols::RECALLS;
use aldis_protocols::header::{Kind, about};
use aldis_protocols::rendezvous::Receiver;

use crate::engine::matching::Payload;
use crate::engine::state::Engine;
use crate::engine::wire::{HeaderWords, LaneTurn, Wire};
use crate::memory::buffer::UserBuffer;
use crate::rank::Mode;
use crate::tables::request::{Key, Machine, State};

/// The sender.
impl Engine<'_> {
    /// Recalls a send that its receiver knows of. One that is announced is asked for back; one that
    /// is offered is over as soon as the offer is declined. What is matched goes on.
    pub(crate) fn recall(&mut self, handle: Handle) {
        let Some(request) = self.requests.get(handle).filter(|request| request.mode != Mode::Partitioned)
        else {
            return;
        };
        match request.state {
            State::Queued => self.give_up_offer(handle),
            State::Sending => self.recall_announced(handle.slot),
            _ => {}
        }
    }

    /// Recalls the announced send in slot `index`.
    pub(crate) fn recall_announced(&mut self, index: u32) {
        if let Some(Machine::Send(sender)) = self.requests.at(index).map(|request| &mut request.machine)
            && sender.recall()
        {
            self.queue_rendezvous(index);
        }
    }

    /// Asks for the message of the request in slot `index` back, or gives one back for it, which is
    /// over then; `sender` is the sending request.
    pub(crate) fn say_recall(
        &mut self,
        wire: &mut dyn Wire,
        id: PeerId,
        index: u32,
        sender: Handle,
        given: bool,
    ) -> LaneTurn {
        let says = HeaderWords { key: Key::NONE, length: given.into() };
        let turn = self.say(wire, id, Kind::Recall, says, &about(sender));
        if !matches!(turn, LaneTurn::Sent) {
            return turn;
        }
        if given {
            self.disown(index);
            self.complete(index, None);
        } else if let Some(Machine::Send(sender)) =
            self.requests.at(index).map(|request| &mut request.machine)
        {
            sender.recalled();
        }
        turn
    }

    /// The receiver gives one of our messages back: its send is cancelled.
    fn take_back_message(&mut self, from: PeerId, sender: Handle) -> Result<(), Malformed> {
        let Some(request) = self.requests.get(sender) else { return Err(Malformed::Control) };
        match &mut request.machine {
            Machine::Send(machine) if request.peer == from && request.state == State::Sending => {
                machine.given_back()?;
            }
            _ => return Err(Malformed::Control),
        }
        self.complete(sender.slot, Some(Cause::Cancelled));
        Ok(())
    }
}

/// The receiver.
impl Engine<'_> {
    /// The sender of an announced message asks for it back, or has one back.
    pub(crate) fn take_recall(&mut self, from: PeerId, sender: Handle, given: bool) -> Result<(), Malformed> {
        if given {
            return self.take_back_message(from, sender);
        }
        // If a receive has matched it, its clear-to-send is the answer.
        if let Some(index) = self.matcher.find_announced(from, sender) {
            self.matcher.set_recalled(index, sender);
            self.recalled = true;
            self.schedule(self.me);
        }
        Ok(())
    }

    /// Gives back the messages that have been recalled, each by an orphan that tells its sender.
    /// A message that finds no request slot waits for the next poll. Bounded by the envelopes.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        if RECALLS && self.recalled {
            self.give_back_all();
        }
    }

    fn give_back_all(&mut self) {
        self.recalled = false;
        for slot in 0..self.matcher.kept_end() {
            let Some(envelope) = self.matcher.kept(slot) else { continue };
            let &Payload::Recalled(sender) = &envelope.payload else { continue };
            let peer = envelope.peer;
            if self.presence(peer).is_err() || self.begin_giving_back(peer, sender) {
                self.matcher.drop_aside(slot);
                self.free_envelope(peer);
            } else {
                self.recalled = true;
            }
        }
    }

    fn begin_giving_back(&mut self, peer: PeerId, sender: Handle) -> bool {
        let Ok(handle) = self.request(State::Receiving, Key::NONE, peer, 0, UserBuffer::NONE) else {
            return false;
        };
        if let Some(request) = self.requests.get(handle) {
            (request.orphan, request.machine) = (true, Machine::Recv(Receiver::giving_back(sender)));
        }
        self.queue_rendezvous(handle.slot);
        true
    }
}
