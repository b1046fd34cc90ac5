//! Injection: putting messages on the wire in order, and what keeps them waiting.
//!
//! A peer has two queues. Its `send_queue` holds the sends that have not been injected, first come
//! first served: none overtakes another, whatever protocol each takes. Its `rendezvous_queue` holds
//! the rendezvous that have something to send; they have been matched already, so their order is
//! free, and they take turns fragment by fragment. Credits are sent first, then one turn of
//! `rendezvous_queue`, then `send_queue`: answers never wait behind new messages.

use aldis_hal::{Cause, Handle, PeerId, Post, Transport};

use aldis_protocols::header::{Kind, about};
use aldis_protocols::rendezvous::Sender;
use aldis_protocols::{ACTIVE, Protocol, RECALLS};

use crate::counters::count;
use crate::engine::direct::lends;
use crate::engine::state::{Engine, FAST_PATHS, Started};
use crate::engine::wire::{HeaderWords, Injected, LaneTurn, Wire, pack, post};
use crate::memory::buffer::UserBuffer;
use crate::rank::{Mode, Rank, Status, Tag};
use crate::tables::comms::SendTarget;
use crate::tables::peer::{Peer, Presence};
use crate::tables::request::{Key, Machine, State};

/// Events that a send without credit takes in at a look, before it waits or defers.
pub(crate) const CREDIT_LOOK: u32 = 16;

/// Looks that it takes, and one without room on the wire where there are fast paths. Two ranks that
/// send each other more than there is room for take in what the other has sent, each while it
/// sends: nothing of it is queued or announced.
pub(crate) const CREDIT_LOOKS: u32 = if FAST_PATHS { 8 } else { 1 };

/// The kinds of messages that are sent to a peer, in turns.
#[derive(Clone, Copy)]
enum SendLane {
    Credit,
    Rendezvous,
    Sends,
    /// Messages that are matched without credit.
    Overflow,
}

impl SendLane {
    const COUNT: u32 = 4;

    const fn next(self) -> Self {
        match self {
            Self::Credit => Self::Rendezvous,
            Self::Rendezvous => Self::Sends,
            Self::Sends => Self::Overflow,
            Self::Overflow => Self::Credit,
        }
    }
}

impl Engine<'_> {
    /// Starts a send: on the wire at once if nothing is ahead of it, else in a request slot.
    pub(crate) fn send<T: Transport>(
        &mut self,
        transport: &mut T,
        to: SendTarget,
        buffer: UserBuffer,
    ) -> Result<Started, Cause> {
        if self.sent_now(transport, &to, buffer)? {
            let bytes = buffer.len() as u64;
            return Ok(Started::Done(Status { source: Rank(to.rank), tag: Tag(to.key.tag), bytes }));
        }
        self.send_later(to, buffer, Mode::Standard)
    }

    /// Queues a send: behind others, or to be announced.
    pub(crate) fn send_later(
        &mut self,
        to: SendTarget,
        buffer: UserBuffer,
        mode: Mode,
    ) -> Result<Started, Cause> {
        self.presence(to.peer)?;
        let handle = self.request(State::Queued, to.key, to.peer, to.rank, buffer)?;
        if let Some(request) = self.requests.get(handle) {
            request.mode = mode;
        }
        self.queue_send(to.peer, handle.slot);
        Ok(Started::Pending(handle))
    }

    /// Puts the send in slot `index` behind the others to its peer.
    pub(crate) fn queue_send(&mut self, id: PeerId, index: u32) {
        if let Some(peer) = self.peers.get_mut(id) {
            peer.send_queue.push_back(&mut self.requests, index);
            peer.holder.held_back();
        } else if let Some(table) = self.peers.active() {
            table.waiting.push_back(&mut self.requests, index);
        }
        self.schedule_contact(id);
    }

    /// Returns true if a message could be sent without a request slot, since nothing is ahead of it
    /// that it must stay behind. If so, its buffer is not kept; if not, nothing has been done.
    pub(crate) fn sent_now<T: Transport>(
        &mut self,
        transport: &mut T,
        to: &SendTarget,
        buffer: UserBuffer,
    ) -> Result<bool, Cause> {
        let Some(peer) = self.peers.get(to.peer) else { return self.absence(to.peer).map(|()| false) };
        let is_first = matches!(peer.presence, Presence::Connected)
            && (peer.send_queue.is_empty() || self.may_overtake(to.key.context));
        Ok(is_first && self.sent_before_others(transport, to, buffer)?)
    }

    /// Returns true if a message with nothing ahead of it could be sent without a request slot.
    fn sent_before_others<T: Transport>(
        &mut self,
        transport: &mut T,
        to: &SendTarget,
        buffer: UserBuffer,
    ) -> Result<bool, Cause> {
        match self.inject(transport, to.peer, to.key, buffer, None)? {
            Injected::Sent => Ok(true),
            Injected::NoRoom if !FAST_PATHS => Ok(false),
            Injected::NoCredit | Injected::NoRoom => self.sent_after_looks(transport, to, buffer),
            Injected::NeedsRequest | Injected::Announced => Ok(false),
        }
    }

    /// Sends like [`sent_before_others`](Self::sent_before_others), but after some looks at what
    /// has arrived: a rank that only sends finds its credits there, and its eager messages stay
    /// eager.
    #[cold]
    #[cfg_attr(feature = "fast-paths", inline(never))]
    fn sent_after_looks<T: Transport>(
        &mut self,
        transport: &mut T,
        to: &SendTarget,
        buffer: UserBuffer,
    ) -> Result<bool, Cause> {
        for _ in 0..CREDIT_LOOKS {
            self.poll_transport(transport, CREDIT_LOOK);
            self.presence(to.peer)?;
            if ACTIVE && !self.is_connected(to.peer) {
                return Ok(false);
            }
            match self.inject(transport, to.peer, to.key, buffer, None)? {
                Injected::Sent => return Ok(true),
                Injected::NoCredit | Injected::NoRoom => {}
                Injected::NeedsRequest | Injected::Announced => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Sends from the rendezvous and send queues of the scheduled peers, in rotation; at most
    /// `budget` messages. Returns how many.
    #[inline]
    pub(crate) fn flush<T: Transport>(&mut self, transport: &mut T, budget: u32) -> u32 {
        if self.scheduled.len() == 0 { 0 } else { self.flush_scheduled(transport, budget, false) }
    }

    /// Flushes like [`flush`](Self::flush) after a send that is not over before a poll.
    pub(crate) fn flush_begun<T: Transport>(&mut self, transport: &mut T, budget: u32) {
        if self.scheduled.len() > 0 {
            self.flush_scheduled(transport, budget, true);
        }
    }

    #[inline(never)]
    fn flush_scheduled<T: Transport>(&mut self, transport: &mut T, budget: u32, more: bool) -> u32 {
        self.post_armed();
        if self.lingering {
            self.fail_wildcards();
        }
        if ACTIVE && self.peers.is_active() {
            self.watch_strangers(transport);
            self.serve_contacts(transport);
        }
        self.give_back();
        let mut sent = 0;
        transport.cork();
        for _ in 0..self.scheduled.len() {
            let Some(index) = self.scheduled.pop() else { break };
            let Some(id) = self.peers.unschedule(index) else { continue };
            sent += self.flush_peer(transport, id, budget.saturating_sub(sent));
            if sent >= budget {
                break;
            }
        }
        transport.uncork(more);
        if ACTIVE && self.peers.is_active() || RECALLS && self.recalled {
            // Looked at in every poll: a receive may be posted for a peer that is lost, or a
            // request slot be there for what is to be given back.
            self.schedule(self.me);
        }
        sent
    }

    fn flush_peer<T: Transport>(&mut self, transport: &mut T, id: PeerId, budget: u32) -> u32 {
        let (mut sent, mut idle, mut lane) = (0, 0, SendLane::Credit);
        if ACTIVE && self.peers.is_active() {
            sent += self.step_contact(transport, id);
        }
        loop {
            if sent >= budget {
                // More may be left: look again at the next poll.
                self.schedule(id);
                return sent;
            }
            if idle == SendLane::COUNT || !self.can_flush(id) {
                return sent;
            }
            let turn = match lane {
                SendLane::Credit => self.send_credit(transport, id),
                SendLane::Rendezvous => self.send_rendezvous(transport, id),
                SendLane::Sends => self.send_next(transport, id),
                SendLane::Overflow => self.send_overflow(transport, id),
            };
            match turn {
                // One message has all credits that are due, and mostly there is nothing else.
                LaneTurn::Sent if FAST_PATHS && matches!(lane, SendLane::Credit) => {
                    (sent, idle) = (sent + 1, idle + 1);
                    if self.peers.get(id).is_some_and(Peer::is_quiet) {
                        return sent;
                    }
                }
                LaneTurn::Sent => (sent, idle) = (sent + 1, 0),
                LaneTurn::Idle => idle += 1,
                LaneTurn::Stuck => return sent,
            }
            lane = lane.next();
        }
    }

    /// Returns true if what waits for a peer can be sent now.
    #[inline]
    fn can_flush(&self, id: PeerId) -> bool {
        if ACTIVE { self.is_connected(id) } else { self.presence(id).is_ok() }
    }

    /// Credits in a message of their own, when no other message has carried them for too long.
    fn send_credit<T: Transport>(&mut self, transport: &mut T, id: PeerId) -> LaneTurn {
        let Some(peer) = self.peers.get(id) else { return LaneTurn::Idle };
        if !peer.credit_due() {
            return LaneTurn::Idle;
        }
        let turn = self.say(transport, id, Kind::Credit, HeaderWords { key: Key::NONE, length: 0 }, &[]);
        if let LaneTurn::Sent = turn {
            count(&mut self.counters.credits_sent);
        }
        turn
    }

    /// Posts a message that is not matched, with what its header says in place of a key and a
    /// length; on success the credits in it count as announced.
    #[inline(never)]
    pub(crate) fn say(
        &mut self,
        wire: &mut dyn Wire,
        id: PeerId,
        kind: Kind,
        words: HeaderWords,
        body: &[u8],
    ) -> LaneTurn {
        let Some(peer) = self.peers.get_mut(id) else { return LaneTurn::Idle };
        let header = peer.header(self.epoch, kind, words.key, 0, words.length);
        match wire.post(id, &header.emit(), body) {
            Post::Done | Post::Queued => {
                peer.account_limits();
                if ACTIVE && self.peers.is_active() {
                    self.account_use(id);
                }
                LaneTurn::Sent
            }
            Post::Again(_) => {
                count(&mut self.counters.retries);
                LaneTurn::Stuck
            }
            Post::Never(cause) => {
                self.lose(id, cause);
                LaneTurn::Stuck
            }
        }
    }

    /// Tries to inject the send at the head of the order.
    fn send_next<T: Transport>(&mut self, transport: &mut T, id: PeerId) -> LaneTurn {
        let Some(peer) = self.peers.get(id) else { return LaneTurn::Idle };
        let (None, Some(index)) = (peer.holder.offered(), peer.send_queue.front()) else {
            return LaneTurn::Idle;
        };
        let Some(handle) = self.requests.handle(index) else { return LaneTurn::Idle };
        let Some(request) = self.requests.at(index) else { return LaneTurn::Idle };
        let (key, buffer, mode) = (request.key, request.buffer, request.mode);
        let injected = match mode {
            Mode::Standard
                if lends::<T>()
                    && let Some(injected) = self.stage(transport, id, handle) =>
            {
                injected
            }
            _ if self.is_exposed(transport, id, index) => self.expose(transport, id, handle),
            _ if self.is_to_be_written::<T>(id, index) => {
                self.announce(transport, id, Kind::AnnounceWrite, key, buffer.len(), handle)
            }
            Mode::Standard
                if buffer.is_scattered()
                    && let Some(tools) = self.tools() =>
            {
                tools.inject(self, transport, id, handle)
            }
            Mode::Standard => self.inject(transport, id, key, buffer, Some(handle)),
            Mode::Synchronous | Mode::Ready | Mode::Polled | Mode::Viewed | Mode::Partitioned => {
                self.announce(transport, id, Kind::Announce, key, buffer.len(), handle)
            }
        };
        match injected {
            Ok(Injected::NoRoom) => return LaneTurn::Stuck,
            Ok(Injected::NoCredit | Injected::NeedsRequest) => return LaneTurn::Idle,
            Ok(Injected::Sent | Injected::Announced) | Err(_) => {}
        }
        if let Some(peer) = self.peers.get_mut(id) {
            peer.send_queue.remove(&mut self.requests, index);
        }
        match injected {
            Err(cause) => self.end(index, cause),
            Ok(Injected::Announced) => self.announced(index),
            Ok(_) => self.complete(index, None),
        }
        LaneTurn::Sent
    }

    /// Records that the send in slot `index` is announced, or its offer taken up. One that was
    /// given up meanwhile says so to the receiver that asks.
    pub(crate) fn announced(&mut self, index: u32) {
        let Some(request) = self.requests.at(index) else { return };
        if request.mode == Mode::Partitioned && request.cause.is_none() {
            request.state = if request.is_idle() { State::Idle } else { State::Sending };
            return;
        }
        let mut sender = Sender::new(request.length);
        sender.announced();
        let given_up = request.cause.is_some();
        if given_up && (!RECALLS || request.orphan) {
            sender.withdraw();
        }
        (request.state, request.machine) = (State::Sending, Machine::Send(sender));
        if RECALLS && given_up && !request.orphan {
            // Its owner still waits: the receiver is asked whether it has matched it.
            request.cause = None;
            self.recall_announced(index);
        }
    }

    /// Puts one message on the wire if credits and transport allow. Changes nothing if not.
    fn inject<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        key: Key,
        buffer: UserBuffer,
        request: Option<Handle>,
    ) -> Result<Injected, Cause> {
        let Some(peer) = self.peers.get(id) else { return Err(Cause::Unreachable) };
        if peer.envelopes_out.available() == 0 {
            count(&mut self.counters.credit_stalls);
            return Ok(Injected::NoCredit);
        }
        let len = buffer.len();
        if !FAST_PATHS || len as u64 >= u64::from(peer.thresholds.inline_end) {
            return self.inject_any(transport, id, key, buffer, request);
        }
        let header = self.header(peer, Kind::Eager, key, peer.sequence_out, len as u64);
        let post = post(transport, id, &header.emit(), buffer.bytes());
        self.injected(id, Kind::Eager, false, len, post)
    }

    /// Sends like [`inject`](Self::inject), but a message of any size; there is an envelope for it.
    #[inline(never)]
    fn inject_any<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        key: Key,
        buffer: UserBuffer,
        request: Option<Handle>,
    ) -> Result<Injected, Cause> {
        let Some(peer) = self.peers.get(id) else { return Err(Cause::Unreachable) };
        let len = buffer.len();
        let protocol = peer.thresholds.protocol(len as u64);
        let kind = match protocol {
            Protocol::Inline => Kind::Eager,
            Protocol::Rendezvous => Kind::Announce,
            _ if peer.blocks_out.available() > 0 => Kind::Eager,
            _ => Kind::Defer,
        };
        let is_inline = matches!(protocol, Protocol::Inline);
        let header = self.header(peer, kind, key, peer.sequence_out, len as u64).emit();
        let post = match (kind, request) {
            (Kind::Eager, _) if is_inline => post(transport, id, &header, buffer.bytes()),
            (Kind::Eager, _) => match pack(transport, id, &header, buffer.read(0, len)) {
                Ok(()) => Post::Done,
                Err(refusal) => refusal.into(),
            },
            (_, Some(own)) => post(transport, id, &header, &about(own)),
            (Kind::Defer, None) => return Ok(Injected::NoCredit),
            (_, None) => return Ok(Injected::NeedsRequest),
        };
        self.injected(id, kind, kind == Kind::Eager && !is_inline, len, post)
    }

    /// Announces a message, for its size, for want of a block, or since it is complete only once it
    /// is matched.
    pub(crate) fn announce(
        &mut self,
        wire: &mut dyn Wire,
        id: PeerId,
        kind: Kind,
        key: Key,
        len: usize,
        own: Handle,
    ) -> Result<Injected, Cause> {
        let Some(peer) = self.peers.get(id) else { return Err(Cause::Unreachable) };
        if peer.envelopes_out.available() == 0 {
            count(&mut self.counters.credit_stalls);
            return Ok(Injected::NoCredit);
        }
        let header = self.header(peer, kind, key, peer.sequence_out, len as u64);
        let post = wire.post(id, &header.emit(), &about(own));
        self.injected(id, kind, false, len, post)
    }

    /// Accounts for a matchable message after its post.
    pub(crate) fn injected(
        &mut self,
        id: PeerId,
        kind: Kind,
        in_block: bool,
        len: usize,
        post: Post,
    ) -> Result<Injected, Cause> {
        match post {
            Post::Done | Post::Queued => {}
            Post::Again(_) => {
                count(&mut self.counters.retries);
                return Ok(Injected::NoRoom);
            }
            Post::Never(cause) => return Err(cause),
        }
        let Some(peer) = self.peers.get_mut(id) else { return Err(Cause::Unreachable) };
        // Both credits were seen to be there before the post.
        peer.envelopes_out.spend();
        if in_block {
            peer.blocks_out.spend();
        }
        peer.sequence_out = peer.sequence_out.wrapping_add(1);
        peer.account_limits();
        count(&mut self.counters.messages_sent);
        match kind {
            Kind::Defer => count(&mut self.counters.deferrals),
            Kind::Announce => count(&mut self.counters.rendezvous),
            Kind::AnnounceWrite => count(&mut self.counters.rendezvous),
            _ => {
                self.counters.bytes_sent += len as u64;
                return Ok(Injected::Sent);
            }
        }
        Ok(Injected::Announced)
    }
}
