//! Messages that a peer has no envelope for are matched where they are held back: see
//! [`protocols::overflow`](aldis_protocols::overflow) for the exchange and why it keeps the order.
//! This is its slow way only; a job whose envelopes suffice never comes here.

use aldis_hal::cause::Malformed;
use aldis_hal::{Cause, Handle, PeerId, Transport};
use aldis_protocols::ACTIVE;
use aldis_protocols::header::{Header, Kind, about, about_both};
use aldis_protocols::overflow::{NextReceive, Posted, Seek};
use aldis_protocols::rendezvous::Announcement;

use crate::counters::count;
use crate::engine::state::{Engine, FAST_PATHS, PostedSlot, status};
use crate::engine::wire::{HeaderWords, LaneTurn};
use crate::memory::buffer::UserBuffer;
use crate::rank::{Status, WILD};
use crate::tables::comm::{is_freed, is_tag};
use crate::tables::list::{List, Queue};
use crate::tables::peer::Presence;
use crate::tables::request::{Key, Machine, Request, State};

mod walk;

/// Polls after which an offer that a matched probe holds is declined. A program that looks for
/// messages comes back for it in one or a few.
const HOLD_POLLS: u64 = 256;

const fn waits(request: &Request) -> bool {
    matches!(request.state, State::Posted | State::Probing)
}

/// Returns true if `id` may be asked about a request.
#[inline(always)]
fn may_be_asked(request: &Request, id: PeerId, next: NextReceive) -> bool {
    waits(request)
        && (request.key.source == WILD || request.peer == id)
        && !matches!(next, NextReceive::After(cursor) if (request.order.wrapping_sub(cursor) as i32) <= 0)
}

/// The receiver's side: what is asked about, and what becomes of the answers.
impl Engine<'_> {
    /// A receive or probe of `peer`'s messages, or of anybody's, was posted while some peer held
    /// messages back.
    #[cold]
    pub(crate) fn seek_for(&mut self, peer: Option<PeerId>) {
        if let Some(peer) = peer {
            return self.seek_next(peer);
        }
        self.overflowing = false;
        for index in 0..self.peers.len() {
            let Some(peer) = self.peers.owner(index) else { continue };
            let stalled = self.peers.get(peer).is_some_and(|row| row.seeker.is_stalled());
            self.overflowing |= stalled;
            if stalled {
                self.seek_next(peer);
            }
        }
    }

    /// Asks `peer` about the next receive that it could satisfy, unless a question is open. Bounded
    /// by the table.
    fn seek_next(&mut self, id: PeerId) {
        let Some(next) = self.peers.get(id).and_then(|row| row.seeker.next()) else { return };
        let Some(PostedSlot { slot, order }) = self.next_to_ask(id, next) else { return };
        let (Some(receiver), Some(row)) = (self.requests.handle(slot), self.peers.get_mut(id)) else {
            return;
        };
        row.seeker.seek(Posted { receiver, order });
        self.schedule(id);
    }

    /// The request posted first of those that `is` what is looked for.
    #[cfg_attr(not(feature = "fast-paths"), inline(always))]
    fn first_of_all(&mut self, is: impl Fn(&Request) -> bool) -> Option<PostedSlot> {
        let mut first: Option<PostedSlot> = None;
        for slot in 0..self.requests.used_end() {
            let Some(request) = self.requests.at(slot) else { continue };
            let order = request.order;
            if is(request) && first.is_none_or(|first| (order.wrapping_sub(first.order) as i32) < 0) {
                first = Some(PostedSlot { slot, order });
            }
        }
        first
    }

    pub(crate) fn take_stalled(&mut self, from: PeerId) {
        let Some(row) = self.peer(from) else { return };
        row.seeker.stalled();
        self.overflowing = true;
        self.seek_next(from);
    }

    pub(crate) fn take_nothing(
        &mut self,
        from: PeerId,
        receiver: Handle,
        more: bool,
    ) -> Result<(), Malformed> {
        let Some(row) = self.peer(from) else { return Ok(()) };
        row.seeker.nothing(receiver, more)?;
        self.seek_next(from);
        Ok(())
    }

    /// A message held back is offered. It is taken if the receive that was asked about is still the
    /// first that it fits.
    pub(crate) fn take_offer(
        &mut self,
        from: PeerId,
        header: &Header,
        sender: Handle,
        receiver: Handle,
    ) -> Result<(), Malformed> {
        let key = Key { context: header.context, source: header.source, tag: header.tag };
        let is_member = self.comms.admits(key.context, key.source, from);
        if !is_tag(key.context, key.tag, true) || !(is_member || is_freed(key.context)) {
            return Err(Malformed::Envelope);
        }
        let Some(row) = self.peers.get_mut(from) else { return Ok(()) };
        row.seeker.offered(receiver)?;
        if ACTIVE && row.presence == Presence::Leaving {
            // Its sender takes it back when the contact ends.
            return Ok(());
        }
        let first = if is_member { self.matcher.find_posted(&mut self.requests, &key) } else { None };
        let first = first.and_then(|index| self.requests.handle(index));
        if first == Some(receiver) {
            self.matcher.unpost(&mut self.requests, receiver.slot);
            count(&mut self.counters.messages_received);
            if let Some(request) = self.requests.at(receiver.slot) {
                (request.rank, request.tag) = (key.source, key.tag);
            }
            self.fetch(receiver.slot, from, &Announcement::plain(sender), header.length);
        } else {
            // An older receive fits and should be asked about first: all are looked at.
            if FAST_PATHS
                && first.is_some()
                && self.requests.get(receiver).is_some_and(|request| waits(request))
            {
                self.oldest = None;
            }
            let held = first.is_none() && self.found(receiver, from, sender, key, header.length);
            if let Some(row) = self.peer(from) {
                if held { row.seeker.hold(sender) } else { row.seeker.decline(sender) }
            }
            self.schedule(from);
        }
        self.seek_next(from);
        Ok(())
    }

    /// The probe `receiver`, if it is one, has found a message that no posted receive takes.
    /// Whether it holds it.
    fn found(&mut self, receiver: Handle, from: PeerId, sender: Handle, key: Key, length: u64) -> bool {
        // A future's probe never takes.
        let (takes, now) = (self.probe_takes && receiver == self.probing, self.counters.polls);
        let Some(request) = self.requests.get(receiver) else { return false };
        if request.state != State::Probing || !request.key.takes(&key) {
            return false;
        }
        (request.rank, request.tag, request.length) = (key.source, key.tag, length);
        if takes {
            (request.state, request.peer, request.machine) =
                (State::Held, from, Machine::Announced(Announcement::plain(sender)));
            self.held_since = now;
        } else {
            self.complete(receiver.slot, None);
        }
        takes
    }

    /// Returns what a probe finds of the messages held back: it goes on from call to call until a
    /// receive is posted or another probe made, since its answer may be old then.
    pub(crate) fn probe_held_back(
        &mut self,
        pattern: Key,
        peer: Option<PeerId>,
    ) -> Result<Option<Status>, Cause> {
        match self.probe_for(&pattern) {
            Some(State::Complete | State::Held) => {
                let Some(probe) = self.requests.get(self.probing) else { return Ok(None) };
                Ok(Some(status(Key { source: probe.rank, tag: probe.tag, ..pattern }, probe.length)))
            }
            Some(_) => Ok(None),
            None => self.start_probe(pattern, peer, false).map(|()| None),
        }
    }

    /// Returns where the probe stands that goes on, if it has this pattern and no peer of its was
    /// lost.
    pub(crate) fn probe_for(&mut self, pattern: &Key) -> Option<State> {
        let probe = self.requests.get(self.probing)?;
        (probe.key == *pattern && probe.cause.is_none()).then_some(probe.state)
    }

    /// Starts a probe for messages held back, in place of any other. `takes`: what it finds is to
    /// be matched.
    pub(crate) fn start_probe(
        &mut self,
        pattern: Key,
        peer: Option<PeerId>,
        takes: bool,
    ) -> Result<(), Cause> {
        self.end_probe();
        let named = peer.unwrap_or_default();
        self.probing = self.request(State::Probing, pattern, named, pattern.source, UserBuffer::NONE)?;
        self.probe_takes = takes;
        let order = self.matcher.next_order();
        if let Some(probe) = self.requests.get(self.probing) {
            probe.order = order;
        }
        self.seek_for(peer);
        Ok(())
    }

    /// Ends a probe for messages held back: what it has found may be taken now.
    #[inline]
    pub(crate) fn end_probe(&mut self) {
        if self.probing != Handle::default() {
            self.drop_probe();
        }
    }

    #[cold]
    fn drop_probe(&mut self) {
        let probe = core::mem::take(&mut self.probing);
        if let Some(&Request {
            state: State::Held,
            machine: Machine::Announced(Announcement { sender, .. }),
            peer,
            ..
        }) = self.requests.get(probe).map(|probe| &*probe)
        {
            if let Some(row) = self.peer(peer) {
                row.seeker.decline(sender);
            }
            self.schedule(peer);
        }
        self.abandon(probe);
    }

    /// A clear-to-send is on its way for `message` of `id`: if its offer was still to be settled,
    /// it is, and the next receive can be asked about.
    pub(crate) fn settled_by_asking(&mut self, id: PeerId, message: Handle) {
        let Some(row) = self.peers.get_mut(id) else { return };
        if row.seeker.verdict_due().is_some_and(|(due, _)| due == message) {
            row.seeker.settled(message);
            self.seek_next(id);
        }
    }

    /// Declines the offer of `id` that a probe holds, if the program has not come back for it in
    /// time: the other messages of `id` wait meanwhile. Until then it is looked at in every poll.
    fn age_held(&mut self, id: PeerId) {
        if self.counters.polls.wrapping_sub(self.held_since) >= HOLD_POLLS {
            self.drop_probe();
        } else {
            self.schedule(id);
        }
    }
}

/// The sender's side: what is held back, and what is offered.
impl Engine<'_> {
    pub(crate) fn take_seek(
        &mut self,
        from: PeerId,
        header: &Header,
        receiver: Handle,
    ) -> Result<(), Malformed> {
        let Some(row) = self.peer(from) else { return Ok(()) };
        row.holder.asked(Seek { context: header.context, tag: header.tag, receiver })?;
        self.schedule(from);
        Ok(())
    }

    /// The first message held back for `id` that the receive asked about takes.
    fn first_held_back(&mut self, id: PeerId, seek: Seek) -> Option<u32> {
        let mut next = self.peers.get(id)?.send_queue.front();
        while let Some(index) = next {
            let key = self.requests.at(index)?.key;
            if key.context == seek.context && (seek.tag == WILD || seek.tag == key.tag) {
                return Some(index);
            }
            next = List::<Queue>::after(&mut self.requests, index);
        }
        None
    }

    /// The receiver takes the message that it was offered: from here on it is an announced one.
    pub(crate) fn take_up_offer(&mut self, from: PeerId, sender: Handle) -> Result<(), Malformed> {
        let Some(row) = self.peers.get_mut(from) else { return Ok(()) };
        row.holder.settled(sender)?;
        row.send_queue.remove(&mut self.requests, sender.slot);
        self.schedule(from);
        count(&mut self.counters.messages_sent);
        count(&mut self.counters.overflows);
        if self.requests.get(sender).is_some() {
            self.announced(sender.slot);
        }
        Ok(())
    }

    /// The receiver does not take it: it stays where it is in the order.
    pub(crate) fn take_decline(&mut self, from: PeerId, sender: Handle) -> Result<(), Malformed> {
        let Some(row) = self.peers.get_mut(from) else { return Ok(()) };
        row.holder.settled(sender)?;
        self.schedule(from);
        if self.requests.get(sender).is_some_and(|request| request.cause.is_some()) {
            self.unqueue(from, sender.slot);
        }
        Ok(())
    }

    /// The user gives up a send that the receiver may be about to take: it is told when it does.
    pub(crate) fn give_up_offer(&mut self, handle: Handle) {
        if let Some(request) = self.requests.get(handle) {
            request.cause = Some(Cause::Cancelled);
        }
    }

    /// Takes a send that was given up out of the line.
    pub(crate) fn unqueue(&mut self, peer: PeerId, index: u32) {
        self.leave_send_queue(peer, index);
        self.complete(index, Some(Cause::Cancelled));
    }

    /// Returns true if the send in slot `index` has been offered and may still be taken.
    pub(crate) fn is_offered(&self, peer: PeerId, handle: Handle) -> bool {
        self.peers
            .get(peer)
            .is_some_and(|row| row.presence == Presence::Connected && row.holder.offered() == Some(handle))
    }
}

/// Both sides: what is to be said.
impl Engine<'_> {
    /// Sends one message of the exchange, if one is due.
    pub(crate) fn send_overflow<T: Transport>(&mut self, transport: &mut T, id: PeerId) -> LaneTurn {
        let Some(row) = self.peers.get(id) else { return LaneTurn::Idle };
        // What has credits goes before the answer: the receive asked about is most often for a
        // message that is under way, and to find that it is not held back takes a look at all that
        // are.
        let flows = || FAST_PATHS && row.envelopes_out.available() > 0 && !row.send_queue.is_empty();
        if let Some(seek) = row.holder.question()
            && !flows()
        {
            return self.answer(transport, id, seek);
        }
        if let Some((sender, taken)) = row.seeker.verdict_due() {
            let says = HeaderWords { key: Key::NONE, length: u64::from(taken) };
            let turn = self.say(transport, id, Kind::Settle, says, &about(sender));
            if let (LaneTurn::Sent, Some(row)) = (&turn, self.peer(id)) {
                row.seeker.settled(sender);
                self.seek_next(id);
            }
            return turn;
        }
        if row.seeker.is_held() {
            self.age_held(id);
            return LaneTurn::Idle;
        }
        if row.seeker.due().is_some()
            && let Some((receiver, key)) = self.sought(id)
        {
            return self.ask_about(transport, id, receiver, key);
        }
        let Some(row) = self.peers.get(id) else { return LaneTurn::Idle };
        let dry = row.envelopes_out.available() == 0 && !row.send_queue.is_empty();
        if !(dry && row.holder.is_notice_due()) {
            return LaneTurn::Idle;
        }
        let turn = self.say(transport, id, Kind::Stalled, HeaderWords { key: Key::NONE, length: 0 }, &[]);
        if let (LaneTurn::Sent, Some(row)) = (&turn, self.peer(id)) {
            row.holder.noticed();
        }
        turn
    }

    fn ask_about<T: Transport>(
        &mut self,
        transport: &mut T,
        id: PeerId,
        receiver: Handle,
        key: Key,
    ) -> LaneTurn {
        let says = HeaderWords { key: Key { source: 0, ..key }, length: 0 };
        let turn = self.say(transport, id, Kind::Seek, says, &about(receiver));
        if let (LaneTurn::Sent, Some(row)) = (&turn, self.peer(id)) {
            row.seeker.asked();
        }
        turn
    }

    /// The receive to ask `id` about, and its pattern. One that is posted no more is passed over.
    fn sought(&mut self, id: PeerId) -> Option<(Handle, Key)> {
        // Twice: what is due after the first has been passed over is posted.
        for _ in 0..2 {
            let receiver = self.peers.get(id)?.seeker.due()?;
            match self.requests.get(receiver) {
                Some(request) if matches!(request.state, State::Posted | State::Probing) => {
                    return Some((receiver, request.key));
                }
                _ => self.peer(id)?.seeker.skip(),
            }
            self.seek_next(id);
        }
        None
    }

    fn answer<T: Transport>(&mut self, transport: &mut T, id: PeerId, seek: Seek) -> LaneTurn {
        let found = self.first_held_back(id, seek).and_then(|index| self.requests.handle(index));
        let Some(row) = self.peers.get(id) else { return LaneTurn::Idle };
        let Some(sender) = found else {
            let more = u64::from(!row.send_queue.is_empty());
            let says = HeaderWords { key: Key::NONE, length: more };
            let turn = self.say(transport, id, Kind::Nothing, says, &about(seek.receiver));
            if let (LaneTurn::Sent, Some(row)) = (&turn, self.peer(id)) {
                row.holder.answered_nothing();
            }
            return turn;
        };
        let Some(request) = self.requests.get(sender) else { return LaneTurn::Idle };
        let says = HeaderWords { key: request.key, length: request.length };
        let turn = self.say(transport, id, Kind::Offer, says, &about_both(sender, seek.receiver));
        if let (LaneTurn::Sent, Some(row)) = (&turn, self.peer(id)) {
            row.holder.offer(sender);
        }
        turn
    }
}
