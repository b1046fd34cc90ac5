//! How requests end before their time: their owner lets go of them, their peer is lost, or the job is aborted.

use aldis_hal::{Cause, Handle, PeerId};
use aldis_protocols::rendezvous::{ReceiverStep, SenderStep};

use crate::buffer::Buffer;
use crate::engine::Engine;
use crate::matching::Payload;
use crate::peer::Presence;
use crate::rank::WILD;
use crate::request::{Backing, Machine, State};

/// One request.
impl Engine<'_> {
    #[cold]
    pub(crate) fn abandon_live(&mut self, handle: Handle) {
        let Some(request) = self.requests.get(handle) else { return };
        let (index, peer, state) = (handle.slot, request.peer, request.state);
        request.orphan = true;
        request.buffer = Buffer::NONE;
        if let Backing::Pooled(block) = core::mem::replace(&mut request.backing, Backing::Plain) {
            self.blocks.give_pooled(block);
        }
        match state {
            // The receiver may be about to take it: it is told then.
            State::Queued if self.is_offered(peer, handle) => self.give_up_offer(handle),
            State::Queued => self.unqueue(peer, index),
            State::Posted => {
                self.matcher.unpost(&mut self.requests, index);
                self.complete(index, Some(Cause::Cancelled));
            }
            State::Probing | State::Idle => self.complete(index, Some(Cause::Cancelled)),
            State::Sending => self.withdraw(index),
            State::Receiving => self.decline(index),
            State::Complete | State::Free => self.complete(index, None),
        }
    }

    /// An announced send loses its memory: the receiver is told when it asks, or now if it has.
    fn withdraw(&mut self, index: u32) {
        let Some(request) = self.requests.at(index) else { return };
        if let Machine::Send(sender) = &mut request.machine {
            sender.withdraw();
            if sender.step(1) != SenderStep::Wait {
                self.owe(index);
            }
        }
    }

    /// A matched receive loses its memory: data under way is discarded; if it has not asked yet, it asks for
    /// nothing, so that the sender comes to its end.
    fn decline(&mut self, index: u32) {
        let Some(request) = self.requests.at(index) else { return };
        if let Machine::Recv(receiver) = &mut request.machine {
            receiver.decline();
            if receiver.step() != ReceiverStep::Wait {
                self.owe(index);
            }
        }
    }
}

/// All that depend on a peer.
impl Engine<'_> {
    /// `peer` is gone: everything that depends on it fails with `cause`. Work is bounded by the request table.
    pub(crate) fn lose(&mut self, peer: PeerId, cause: Cause) {
        let Some(row) = self.peers.get_mut(peer.index()) else { return };
        if let Presence::Gone(_) = row.presence {
            return;
        }
        row.presence = Presence::Gone(cause);
        aldis_hal::debug!("{} is gone: {}", peer, cause);
        for index in 0..self.requests.used_end() {
            let Some(request) = self.requests.at(index) else { continue };
            let waits_for_any = matches!(request.state, State::Posted | State::Probing);
            let named = request.key.source != WILD || !waits_for_any;
            if request.peer != peer || !named {
                continue;
            }
            let owed = core::mem::take(&mut request.owed);
            match request.state {
                State::Free | State::Idle | State::Complete => continue,
                State::Probing => {}
                State::Posted => self.matcher.unpost(&mut self.requests, index),
                State::Queued => {
                    if let Some(row) = self.peers.get_mut(peer.index()) {
                        row.ordered.remove(&mut self.requests, index);
                    }
                }
                State::Sending | State::Receiving => {
                    if owed && let Some(row) = self.peers.get_mut(peer.index()) {
                        row.owed.remove(&mut self.requests, index);
                    }
                }
            }
            self.complete(index, Some(cause));
        }
        let others_left = self
            .peers
            .iter()
            .zip(0..)
            .any(|(row, id)| row.presence == Presence::Connected && id != self.me.0);
        if !others_left && self.size > 1 {
            self.deserted = Some(cause);
            self.fail_wildcards(cause);
        }
    }

    /// Drops everything of an earlier life of `peer`, so that it can be introduced anew.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.lose(peer, Cause::PeerDead);
        while let Some(envelope) = self.matcher.remove_from(peer) {
            self.counters.stale_epochs += 1;
            if let Payload::Block(block) = envelope.payload {
                self.blocks.give(block);
            }
        }
    }

    /// The job is over by a rank's decision: everything fails.
    pub(crate) fn abort(&mut self, by: PeerId, code: i32) {
        self.aborted = self.aborted.or(Some((by, code)));
        for peer in 0..self.size {
            self.lose(PeerId(peer), Cause::Aborted { code });
        }
        self.fail_wildcards(Cause::Aborted { code });
    }

    /// Whether a communicator has this process alone, which can be talked to: what others do does not matter on it.
    pub(crate) fn is_left_to_itself(&self, context: u32) -> bool {
        self.presence(self.me).is_ok() && self.comms.is_alone(context)
    }

    /// Fails the receives that name no source: nobody is left who could satisfy them.
    pub(crate) fn fail_wildcards(&mut self, cause: Cause) {
        for index in 0..self.requests.used_end() {
            let Some(request) = self.requests.at(index) else { continue };
            let key = request.key;
            let waits = request.state == State::Posted && key.source == WILD;
            if waits && !self.is_left_to_itself(key.context) {
                self.matcher.unpost(&mut self.requests, index);
                self.complete(index, Some(cause));
            }
        }
    }
}
