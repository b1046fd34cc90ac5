//! The ends of requests before their time: their owner lets go of them, their peer is lost, or the
//! job is aborted.

use aldis_hal::{Cause, Handle, PeerId};
use aldis_protocols::{ACTIVE, LENDS};

use crate::counters::count;
use crate::engine::matching::Payload;
use crate::engine::state::Engine;
use crate::memory::buffer::UserBuffer;
use crate::rank::{Mode, WILD};
use crate::tables::peer::{Peer, Presence};
use crate::tables::request::{Backing, Machine, State};

/// A single request.
impl Engine<'_> {
    #[cold]
    pub(crate) fn abandon_live(&mut self, handle: Handle) {
        let Some(request) = self.requests.get(handle) else { return };
        if request.mode == Mode::Partitioned && !request.orphan {
            if let Some(channels) = self.channels {
                channels.abandon(self, handle);
            }
            return;
        }
        let (index, peer, state) = (handle.slot, request.peer, request.state);
        request.orphan = true;
        request.buffer = UserBuffer::NONE;
        if let Backing::Pooled(block) = core::mem::replace(&mut request.backing, Backing::Plain) {
            self.blocks.give_pooled(block);
        }
        match state {
            // The receiver may be about to take it: it is notified then.
            State::Queued if self.is_offered(peer, handle) => self.give_up_offer(handle),
            State::Queued => self.unqueue(peer, index),
            State::Posted => {
                self.matcher.unpost(&mut self.requests, index);
                self.complete(index, Some(Cause::Cancelled));
            }
            State::Probing | State::Held | State::Matched | State::Idle => {
                self.complete(index, Some(Cause::Cancelled))
            }
            State::Sending => self.withdraw(index),
            State::Receiving => self.decline(index),
            State::Complete | State::Closing | State::Free => self.complete(index, None),
        }
    }

    /// A request that is in no list any more is over for `cause`; one between its rounds will not
    /// be started again.
    pub(crate) fn end(&mut self, index: u32, cause: Cause) {
        match self.requests.at(index) {
            Some(request) if request.is_idle() => (request.state, request.cause) = (State::Idle, Some(cause)),
            _ => self.complete(index, Some(cause)),
        }
    }

    /// A channel is of no use any more: a round under way fails, and none can be started.
    pub(crate) fn close(&mut self, index: u32, cause: Cause) {
        if self.requests.at(index).is_some_and(|request| request.state != State::Complete) {
            self.end(index, cause);
        }
    }

    /// Takes a request out of its peer's rendezvous queue.
    pub(crate) fn disown(&mut self, index: u32) {
        let Some(request) = self.requests.at(index) else { return };
        let peer = request.peer;
        if core::mem::take(&mut request.in_rendezvous_queue)
            && let Some(queue) = self.peers.rendezvous_queue(peer)
        {
            queue.remove(&mut self.requests, index);
        }
    }

    /// Withdraws an announced send, which loses its memory: the receiver is notified when it asks,
    /// or now if it has.
    fn withdraw(&mut self, index: u32) {
        let Some(request) = self.requests.at(index) else { return };
        match &mut request.machine {
            Machine::Send(sender) => {
                sender.withdraw();
                if !sender.is_waiting() {
                    self.queue_rendezvous(index);
                }
            }
            Machine::Write(writer) if LENDS => {
                writer.withdraw();
                self.queue_rendezvous(index);
            }
            _ => {}
        }
    }

    /// A matched receive loses its memory: data under way is discarded; if it has not asked yet, it
    /// asks for nothing, so that the sender comes to its end.
    fn decline(&mut self, index: u32) {
        let Some(request) = self.requests.at(index) else { return };
        match &mut request.machine {
            Machine::Recv(receiver) => {
                receiver.decline();
                if !receiver.is_receiving() {
                    self.queue_rendezvous(index);
                }
            }
            Machine::Read(reader) if LENDS => {
                reader.decline();
                self.queue_rendezvous(index);
            }
            _ => {}
        }
    }
}

/// All that depend on a peer.
impl Engine<'_> {
    /// Ends a peer that is lost: everything that depends on it fails with `cause`. Work is bounded
    /// by the request table, and by the groups of those communicators that a receive of any source
    /// is posted on.
    #[inline(never)]
    pub(crate) fn lose(&mut self, peer: PeerId, cause: Cause) {
        if self.part(peer, cause) {
            self.fail_wildcards();
        }
    }

    /// Ends everything that depends on this peer alone. False if it was gone already.
    pub(crate) fn part(&mut self, peer: PeerId, cause: Cause) -> bool {
        let is_active = self.peers.is_active();
        match self.peers.get_mut(peer) {
            Some(Peer { presence: Presence::Gone(_), .. }) => return false,
            Some(row) => row.presence = Presence::Gone(cause),
            None if is_active => {}
            None => return false,
        }
        self.bereft = true;
        aldis_hal::debug!("{} is gone: {}", peer, cause);
        for index in 0..self.requests.used_end() {
            let Some(request) = self.requests.at(index) else { continue };
            let waits_for_any = matches!(request.state, State::Posted | State::Probing);
            let named = request.key.source != WILD || !waits_for_any;
            if request.peer != peer || !named {
                continue;
            }
            self.disown(index);
            let Some(request) = self.requests.at(index) else { continue };
            match request.state {
                State::Free | State::Complete | State::Closing => continue,
                // What has arrived is there.
                State::Matched if matches!(request.machine, Machine::Kept(_)) => continue,
                // The holder of its token gets the error by it.
                State::Matched => {
                    request.cause = Some(cause);
                    continue;
                }
                State::Idle | State::Probing | State::Held | State::Sending | State::Receiving => {}
                State::Posted => self.matcher.unpost(&mut self.requests, index),
                State::Queued => self.leave_send_queue(peer, index),
            }
            self.end(index, cause);
        }
        if ACTIVE {
            self.end_contact(peer, cause);
        }
        true
    }

    /// Takes the send in slot `index` out of the queue in which it waits.
    pub(crate) fn leave_send_queue(&mut self, peer: PeerId, index: u32) {
        if let Some(queue) = self.peers.send_queue(peer) {
            queue.remove(&mut self.requests, index);
        }
    }

    /// Drops everything of an earlier life of `peer`, so that it can be introduced anew.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.lose(peer, Cause::PeerDead);
        while let Some(payload) = self.matcher.remove_from(peer) {
            count(&mut self.counters.stale_epochs);
            if let Payload::Block(block) = payload {
                self.blocks.give(block);
            }
        }
        self.forget_matched(peer);
        self.give_back();
    }

    /// This process is over by a rank's decision: everything fails.
    pub(crate) fn abort(&mut self, by: PeerId, code: i32) {
        self.aborted = self.aborted.or(Some((by, code)));
        let cause = Cause::Aborted { code };
        for index in 0..self.peers.len() {
            if let Some(peer) = self.peers.owner(index) {
                self.part(peer, cause);
            }
        }
        if ACTIVE {
            self.abort_strangers(cause);
        }
        self.fail_wildcards();
    }

    /// Returns the rank and process of a peer that is lost, if no message of any peer can come on a
    /// communicator any more. A peer that is not connected yet does not count, nor does this
    /// process, but what it has sent to itself and is under way.
    #[cold]
    #[inline(never)]
    pub(crate) fn deserter(&mut self, context: u32) -> Option<(u32, PeerId)> {
        let (mut gone, mut rank) = (None, 0);
        while let Some(process) = self.comms.addressed(context, rank) {
            match &self.peers.get(process)?.presence {
                Presence::Connected if process != self.me => return None,
                Presence::Meeting | Presence::Leaving if ACTIVE => return None,
                Presence::Gone(_) => gone = Some((rank, process)),
                _ => {}
            }
            rank += 1;
        }
        let row = self.peers.get(self.me)?;
        let under_way = !row.send_queue.is_empty() || row.sequence_out != row.sequence_in;
        if gone.is_some() && under_way && matches!(row.presence, Presence::Connected) {
            // Looked at again after the next poll.
            self.lingering = true;
            self.schedule(self.me);
            return None;
        }
        gone
    }

    /// Returns an error if no message of any peer can come on a communicator any more.
    #[cold]
    #[inline(never)]
    pub(crate) fn is_left_alone(&mut self, context: u32) -> Result<(), Cause> {
        match self.deserter(context) {
            Some((_, process)) => self.presence(process),
            None if ACTIVE => self.is_deserted(context),
            None => Ok(()),
        }
    }

    /// Returns true if a receive waits for any source.
    #[cold]
    #[inline(never)]
    pub(crate) fn has_wildcard(&mut self) -> bool {
        let mut indices = 0..self.requests.used_end();
        indices.any(|index| self.requests.at(index).is_some_and(|request| request.is_wildcard()))
    }

    /// Fails the receives of any source on communicators that have no peer left, and names a lost
    /// one.
    #[cold]
    #[inline(never)]
    pub(crate) fn fail_wildcards(&mut self) {
        self.lingering = false;
        for index in 0..self.requests.used_end() {
            let Some(request) = self.requests.at(index) else { continue };
            let (is_wildcard, key) = (request.is_wildcard(), request.key);
            if is_wildcard && let Some((rank, process)) = self.deserter(key.context) {
                let cause = self.presence(process).err();
                self.matcher.unpost(&mut self.requests, index);
                if let Some(request) = self.requests.at(index) {
                    request.rank = rank;
                }
                self.complete(index, cause);
            }
        }
    }
}
