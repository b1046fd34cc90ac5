//! This module holds `unsafe` code: message bytes in shared inboxes, of which a slot's label tells
//! how many there are.
//!
//! The transport of a rank that has fewer lanes than peers: it sends by shared inboxes, takes turns
//! between its own and its lanes, and gives these to the peers that talk to it;
//! [`path`](super::path) has the rules.

use core::{ptr, slice};

use aldis_hal::cause::Malformed;
use aldis_hal::{Again, Cause, PeerId, Post, Refusal, Sink};

use super::geometry::{Geometry, Identity, SHORT_BYTES};
use super::inbox::{About, INBOX_SLOTS, InboxPlace, InboxReceiver, InboxSender, SHARES_OF_SLOTS};
use super::lane::{LanePair, LanePeer, LaneState};
use super::memory::{SharedSpan, Short};
use super::path::{GRANT_AFTER, LaneStage, PathRecord};
use super::region::Inbox;
use super::ring::Incoming;
use super::sleep::Alarm;
use super::transport::{Shm, ShmSlot, SlotClaim, too_big};
use crate::sync::{Word, light_fence};

/// Polls that must bring nothing in a lane before it is asked for: long enough for the answer to an
/// answer, short against a computation.
const IDLE_POLLS_MIN: u32 = 256;

/// The holder of one of this rank's lanes.
#[derive(Clone, Copy)]
struct LaneHolder {
    /// The peer, by rank, plus one; zero for none.
    peer: u32,
    /// The position in the lane when it was last found in use, and the number of the poll.
    position: u32,
    used_at: u32,
}

impl LaneHolder {
    const NONE: Self = Self { peer: 0, position: 0, used_at: 0 };

    /// Returns true if the lane, which is at this position, has not moved since it was last found
    /// in use, some polls ago; `now` is the number of polls so far.
    fn is_idle(&mut self, position: u32, now: u32) -> bool {
        if self.position != position {
            (self.position, self.used_at) = (position, now);
        }
        now.wrapping_sub(self.used_at) >= IDLE_POLLS_MIN
    }
}

/// The state of a rank that has fewer lanes than peers.
pub(super) struct SharedInbox {
    /// True if it has.
    pub(super) exists: bool,
    /// True if what stands in the inbox cannot be, and it cannot be said whose it is.
    is_broken: bool,
    receiver: InboxReceiver,
    /// The number of the round in which each sender has its turn, modulo 256.
    round: u8,
    /// The peers that have the lanes.
    holders: [LaneHolder; Geometry::LANES_MAX as usize],
    /// The lane that is asked for next.
    turn: u8,
    /// The polls so far.
    polls: u32,
    /// The inbox's share of earlier polls' budgets that was less than an event.
    carry: u32,
    /// The region of the node's first rank, which has the log of departures; null before it is
    /// attached.
    node: *const u8,
    /// Departures that this rank has taken note of.
    departed: u32,
}

impl SharedInbox {
    pub(super) fn new(own: &Inbox<'_>) -> Self {
        let holders = [LaneHolder::NONE; Geometry::LANES_MAX as usize];
        let exists = own.geometry.is_shared();
        let receiver = InboxReceiver::NEW;
        let node = if own.identity.owner == PeerId(0) { own.region() } else { ptr::null() };
        Self {
            exists,
            is_broken: false,
            receiver,
            round: 1,
            holders,
            turn: 0,
            polls: 0,
            carry: 0,
            node,
            departed: 0,
        }
    }

    /// Accepts the inbox of a peer, by its number.
    ///
    /// # Errors
    /// [`Cause::Unreachable`] for this rank itself, [`Cause::Incompatible`] for an inbox whose
    /// lanes begin with another position, [`Cause::BadRegion`] once this rank's inbox is broken.
    pub(super) fn meet(&mut self, own: &Inbox<'_>, theirs: &Inbox<'_>, number: PeerId) -> Result<(), Cause> {
        if number == own.identity.owner {
            return Err(Cause::Unreachable);
        }
        if self.is_broken {
            return Err(Cause::BadRegion);
        }
        if own.start() != theirs.start() {
            return Err(Cause::Incompatible);
        }
        if number == PeerId(0) {
            self.node = theirs.region();
        }
        Ok(())
    }
}

/// A slot of a peer's inbox that this rank has claimed.
pub(super) struct InboxClaim<'a> {
    sender: &'a mut InboxSender,
    inbox: InboxPlace<'a>,
    slot: u32,
    /// The word by which the peer tells that it sleeps.
    asleep: &'a Word,
}

impl InboxClaim<'_> {
    fn message(&self) -> *mut u8 {
        self.inbox.message(self.slot).cast_mut()
    }

    /// Sends what stands in the slot.
    pub(super) fn send(self, about: About, alarm: Alarm) {
        self.sender.send(&self.inbox, self.slot, about);
        light_fence(true);
        alarm.rouse(self.asleep);
    }
}

impl LanePeer {
    /// Claims a slot of the peer's inbox.
    fn claim_in_inbox<'a>(&'a mut self, own: &'a Inbox<'_>) -> Option<InboxClaim<'a>> {
        let (inbox, asleep) = (own.shared_of(self)?, own.asleep_of(self)?);
        let slot = self.path.sender.claim(&inbox, own.identity.owner)?;
        Some(InboxClaim { sender: &mut self.path.sender, inbox, slot, asleep })
    }
}

impl LanePair<'_> {
    /// Sends a record on the way that messages take; false if there is no room for it now.
    fn send_record(&mut self, own: &Inbox<'_>, record: PathRecord, alarm: Alarm) -> bool {
        if !self.ends.outgoing.is_open() {
            let claim = self.peer.claim_in_inbox(own);
            return claim.map(|claim| claim.send(About::Record(record), alarm)).is_some();
        }
        let consumed = self.ends.incoming.consumed();
        let claim = self.ends.outgoing.claim();
        claim.map(|claim| claim.send_record(record, consumed, &alarm)).is_some()
    }

    /// Returns true if no message is under way in the lane to the peer.
    fn is_outgoing_idle(&mut self) -> bool {
        let outgoing = &mut self.ends.outgoing;
        !outgoing.is_open() || outgoing.refresh().is_ok() && outgoing.under_way() == 0
    }
}

/// The fate of a full slot.
enum SlotFate {
    /// Waiting for another message of its sender, or for its sender to be attached.
    Waits,
    /// Waiting for the next round: its sender has had its turn.
    WaitsItsTurn,
    /// Taken.
    Taken,
    /// Impossible, and its sender is this one.
    Fault(u32, Malformed),
    /// Impossible, and of no sender that could be named.
    Broken,
}

/// Sending.
impl Shm<'_> {
    /// Looks at a peer's inbox before the first message goes there: a rank of many talks to a few.
    ///
    /// # Errors
    /// [`Cause::BadRegion`] if it is not the peer's in the life that was attached, or not
    /// formatted; [`Cause::Incompatible`] for another geometry or version.
    #[inline]
    pub(super) fn make_contact(&mut self, peer: PeerId) -> Result<(), Cause> {
        let Some(lane) = self.lanes.peer_mut(peer.0) else { return Ok(()) };
        if lane.path.is_met || lane.state != LaneState::Open {
            return Ok(());
        }
        let owner = PeerId(peer.0.wrapping_sub(self.first));
        let expect = Identity { owner, epoch: lane.path.epoch, ..self.inbox.identity };
        self.inbox.check_theirs(lane, expect)?;
        lane.path.is_met = true;
        Ok(())
    }

    /// Returns true if what is sent to this peer goes by its inbox now. A lane that has been
    /// granted is taken over first.
    pub(super) fn goes_by_inbox(&mut self, peer: PeerId) -> bool {
        let Some(LanePair { peer: lane, ends }) = self.lanes.pair_mut(peer.0) else { return false };
        if !self.shared.exists || lane.state != LaneState::Open || ends.outgoing.is_open() {
            return false;
        }
        self.hand_over(peer.0);
        !self.lanes.ends(peer.0).is_some_and(|ends| ends.outgoing.is_open())
    }

    /// Claims a slot of a peer's inbox, which stays claimed until it is used, or waits for one.
    fn await_slot(&mut self, peer: PeerId) -> Result<(), Refusal> {
        let lane = self.lanes.peer_mut(peer.0).ok_or(Refusal::Never(Cause::Unreachable))?;
        if lane.claim_in_inbox(&self.inbox).is_some() {
            return Ok(());
        }
        lane.wants_block = false;
        self.waiting.push(&mut self.lanes, peer.0);
        Err(Refusal::Again(Again::NoSlot))
    }

    /// Sends a short message by a peer's inbox.
    #[cold]
    #[inline(never)]
    pub(super) fn short_by_inbox(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        let Some(message) = Short::new(header, payload) else {
            return Post::Never(too_big(header.len() + payload.len(), SHORT_BYTES));
        };
        if let Err(refusal) = self.await_slot(peer) {
            return refusal.into();
        }
        let lane = self.lanes.peer_mut(peer.0);
        let Some(claim) = lane.and_then(|lane| lane.claim_in_inbox(&self.inbox)) else {
            return Post::Again(Again::NoSlot);
        };
        // SAFETY: a slot has room for a short message, and this one is the claim's alone; the
        // message, borrowed from this rank's user, lies elsewhere.
        unsafe { message.write(claim.message()) };
        claim.send(About::Message(message.len()), self.alarm);
        Post::Done
    }

    /// Reserves a slot of a peer's inbox for a message of at most as many bytes as a block has.
    pub(super) fn reserve_in_inbox(&mut self, peer: PeerId, len: usize) -> Result<ShmSlot<'_>, Refusal> {
        self.await_slot(peer)?;
        let lane = self.lanes.peer_mut(peer.0).ok_or(Refusal::Never(Cause::Unreachable))?;
        let store = lane.distance.store(&self.gauge);
        let Some(claim) = lane.claim_in_inbox(&self.inbox) else {
            return Err(Refusal::Again(Again::NoSlot));
        };
        // SAFETY: the slot is the claim's alone until it is sent, it has room for a block or a
        // short message, and shared memory is initialised.
        let span = unsafe { SharedSpan::new(claim.message(), len) };
        let (claim, alarm) = (SlotClaim::Inbox(claim), &self.alarm);
        Ok(ShmSlot { claim, span, block: None, lender: None, consumed: 0, store, alarm })
    }

    /// Returns true if there is room for a message to a peer by its inbox.
    pub(super) fn has_room_in_inbox(&mut self, index: u32) -> bool {
        let Some(LanePair { peer, ends }) = self.lanes.pair_mut(index) else { return false };
        let Some(inbox) = self.inbox.shared_of(peer).filter(|_| !ends.outgoing.is_open()) else {
            return false;
        };
        peer.path.sender.has_room(&inbox, self.inbox.identity.owner)
    }
}

/// Receiving.
impl Shm<'_> {
    /// Takes messages of this rank's inbox: that part of a poll's budget that its senders have
    /// among all that send. Returns the events.
    #[inline(never)]
    pub(super) fn poll_share_of_inbox<S: Sink>(&mut self, budget: u32, sink: &mut S) -> u32 {
        self.shared.polls = self.shared.polls.wrapping_add(1);
        let inbox = self.inbox.shared();
        if !inbox.has_news() {
            return 0;
        }
        let mut senders = 0_u64;
        for slot in self.shared.receiver.look(&inbox) {
            senders |= inbox.owner(slot).map_or(0, |owner| 1 << (owner.0 % 64));
        }
        let parts = u64::from(senders.count_ones());
        let all = parts + u64::from(self.poll_set.len);
        let due = u64::from(budget) * parts + u64::from(self.shared.carry);
        self.shared.carry = due.checked_rem(all).unwrap_or(0) as u32;
        let share = due.checked_div(all).unwrap_or(0).min(budget.into()) as u32;
        self.poll_inbox(share, sink)
    }

    /// Takes messages of this rank's inbox. Returns the events.
    #[inline(never)]
    pub(super) fn poll_inbox<S: Sink>(&mut self, budget: u32, sink: &mut S) -> u32 {
        let mut left = budget;
        // As many rounds as a sender can have messages here, and the rest of one before.
        for _ in 0..=INBOX_SLOTS / SHARES_OF_SLOTS {
            let inbox = self.inbox.shared();
            if left == 0 || self.shared.is_broken || !self.poll_round(&inbox, &mut left, sink) {
                break;
            }
            self.shared.round = self.shared.round.wrapping_add(1);
        }
        budget - left
    }

    /// Takes a message of each sender that has not had its turn in this round. Returns true if a
    /// sender that has had it has another.
    fn poll_round<S: Sink>(&mut self, inbox: &InboxPlace<'_>, left: &mut u32, sink: &mut S) -> bool {
        let mut has_more = false;
        for slot in self.shared.receiver.look(inbox) {
            if *left == 0 {
                return false;
            }
            match self.take_slot(inbox, slot, left, sink) {
                SlotFate::Waits => continue,
                SlotFate::WaitsItsTurn => {
                    has_more = true;
                    continue;
                }
                SlotFate::Taken => {}
                SlotFate::Fault(index, what) => {
                    self.fail(index, what, sink);
                    *left -= 1;
                }
                SlotFate::Broken => {
                    self.break_inbox();
                    return false;
                }
            }
            if let Some(waiter) = self.shared.receiver.free(inbox, slot) {
                let waiter = self.lanes.peer(waiter.0.wrapping_add(self.first));
                if let Some(asleep) = waiter.and_then(|waiter| self.inbox.asleep_of(waiter)) {
                    self.alarm.rouse(asleep);
                }
            }
        }
        has_more
    }

    /// Looks at a full slot, and takes what stands there if it is next.
    fn take_slot<S: Sink>(
        &mut self,
        inbox: &InboxPlace<'_>,
        slot: u32,
        left: &mut u32,
        sink: &mut S,
    ) -> SlotFate {
        let peers = self.inbox.geometry.peers;
        let Some(owner) = inbox.owner(slot).filter(|owner| owner.0 < peers) else { return SlotFate::Broken };
        if owner == self.inbox.identity.owner {
            return SlotFate::Broken;
        }
        let index = owner.0.wrapping_add(self.first);
        let Some(lane) = self.lanes.peer_mut(index) else { return SlotFate::Broken };
        match lane.state {
            LaneState::Vacant => return SlotFate::Waits,
            // What it has sent before it was lost, or let go.
            LaneState::Broken | LaneState::Closed => return SlotFate::Taken,
            LaneState::Open if !lane.path.stage.takes_inbox() => return SlotFate::Waits,
            LaneState::Open if lane.path.round == self.shared.round => return SlotFate::WaitsItsTurn,
            LaneState::Open => {}
        }
        let len_max = self.inbox.geometry.shared_message_bytes();
        let full = self.shared.receiver.read(inbox, slot);
        let about = match full.check(lane.path.expected, len_max) {
            Ok(Some(about)) => about,
            Ok(None) => return SlotFate::Waits,
            Err(what) => return SlotFate::Fault(index, what),
        };
        lane.path.expected = lane.path.expected.wrapping_add(1);
        lane.path.round = self.shared.round;
        match about {
            About::Message(len) => {
                // SAFETY: the length is within the slot, which its sender has filled and leaves
                // alone until it is free.
                let message = unsafe { slice::from_raw_parts(inbox.message(slot), len as usize) };
                sink.arrived(PeerId(index), message);
                *left -= 1;
                lane.path.came = lane.path.came.saturating_add(1);
                if lane.path.came >= GRANT_AFTER {
                    lane.path.came = 0;
                    self.offer_lane(index);
                }
            }
            About::Record(record) => {
                if let Err(what) = self.take_record(index, record, false) {
                    return SlotFate::Fault(index, what);
                }
            }
        }
        SlotFate::Taken
    }

    /// Ends the traffic of all that send by this rank's inbox.
    #[cold]
    fn break_inbox(&mut self) {
        self.shared.is_broken = true;
        for index in 0..self.lanes.len() {
            let Some(lane) = self.lanes.peer(index) else { break };
            if lane.state == LaneState::Open && lane.path.stage.takes_inbox() {
                self.close(index, LaneState::Broken);
                self.waiting.push(&mut self.lanes, index);
            }
        }
    }
}

/// Departures.
impl Shm<'_> {
    /// Returns true if a peer learns from the log of departures that this rank has left.
    pub(super) fn has_log(&self, peer: PeerId) -> bool {
        let lane = self.lanes.peer(peer.0);
        self.shared.exists
            && !self.shared.node.is_null()
            && lane.is_some_and(|lane| lane.state == LaneState::Open)
    }

    /// Enters this rank into the log of departures: after all that it sends.
    #[cold]
    pub(super) fn enter_log(&mut self) {
        if self.shared.exists
            && let Some(departures) = self.inbox.departures_in(self.shared.node)
        {
            departures.enter(self.inbox.identity.owner, self.shared.departed);
        }
    }

    /// Takes note of ranks that have left, each once all that it has sent has been delivered.
    /// Returns the events.
    #[inline]
    pub(super) fn poll_departures<S: Sink>(&mut self, budget: u32, sink: &mut S) -> u32 {
        let mut events = 0;
        while events < budget
            && let Some(departures) = self.inbox.departures_in(self.shared.node)
            && let Some(number) = departures.at(self.shared.departed)
        {
            let index = number.0.wrapping_add(self.first);
            if self.has_pending(number, index) {
                break;
            }
            self.shared.departed += 1;
            // What it has published stays where it is, for those who still read it.
            if self.lanes.peer(index).is_some_and(|peer| peer.state == LaneState::Open) {
                sink.lost(PeerId(index), Cause::PeerLeft);
                events += 1;
            }
        }
        events
    }

    /// Returns true if anything that a rank has sent waits to be taken.
    #[cold]
    fn has_pending(&self, number: PeerId, index: u32) -> bool {
        let open = self.lanes.peer(index).filter(|peer| peer.state == LaneState::Open);
        let Some((peer, ends)) = open.zip(self.lanes.ends(index)) else { return false };
        let inbox = self.inbox.shared();
        let mut full = self.shared.receiver.look(&inbox);
        let in_inbox = !self.shared.is_broken && full.any(|slot| inbox.owner(slot) == Some(number));
        in_inbox || peer.path.stage.takes_lane() && ends.incoming.is_there()
    }
}

/// Lanes.
impl Shm<'_> {
    /// Takes a record that stands in a lane in place of the next message; false if there is none.
    ///
    /// # Errors
    /// [`Malformed::Credit`] for credit in its head that cannot be, [`Malformed::Control`] for a
    /// record that cannot be now.
    pub(super) fn take_record_of_lane(&mut self, index: u32) -> Result<bool, Malformed> {
        let Some(LanePair { ends, .. }) = self.lanes.pair_mut(index) else { return Ok(false) };
        let Some((record, head)) = ends.incoming.record()? else { return Ok(false) };
        ends.outgoing.take_credit(head)?;
        ends.incoming.advance(head, None);
        if ends.incoming.settle() {
            ends.outgoing.rouse(self.alarm);
        }
        self.take_record(index, record, true)?;
        Ok(true)
    }

    /// Acts on a record that came in the inbox or by a lane.
    ///
    /// # Errors
    /// [`Malformed::Control`] for one that cannot be now.
    fn take_record(&mut self, index: u32, record: PathRecord, by_lane: bool) -> Result<(), Malformed> {
        let Some(LanePair { peer, ends }) = self.lanes.pair_mut(index).filter(|_| self.shared.exists) else {
            return Err(Malformed::Control);
        };
        match record {
            PathRecord::Grant(place) => {
                let is_known = u32::from(place) < self.inbox.geometry.lane_count();
                if !is_known || ends.outgoing.is_open() || peer.path.granted != 0 {
                    return Err(Malformed::Control);
                }
                peer.path.granted = place + 1;
                self.hand_over(index);
            }
            PathRecord::HandOver(place) => {
                if by_lane || peer.path.stage != LaneStage::Granted || peer.path.place != place {
                    return Err(Malformed::Control);
                }
                peer.path.stage = LaneStage::Open;
                if let Some(holder) = self.shared.holders.get_mut(usize::from(place)) {
                    (holder.position, holder.used_at) = (ends.incoming.consumed(), self.shared.polls);
                }
                self.poll_set.insert(&mut self.lanes, index);
            }
            PathRecord::Ask if ends.outgoing.is_open() => self.close_outgoing(index),
            PathRecord::Ask => {
                self.hand_over(index);
                self.give_back(index);
            }
            PathRecord::Close => {
                if !by_lane {
                    return Err(Malformed::Control);
                }
                ends.incoming = Incoming::CLOSED;
                peer.path.stage = LaneStage::Drained;
                self.poll_set.remove(&mut self.lanes, index);
                self.lanes.free_unused(index);
            }
        }
        Ok(())
    }

    /// Goes over to the lane that a peer has granted, if there are a slot for the record and ends;
    /// else messages to it stay in its inbox.
    fn hand_over(&mut self, index: u32) {
        let Some(peer) = self.lanes.peer_mut(index) else { return };
        let Some(place) = peer.path.granted.checked_sub(1) else { return };
        // None is claimed before there are ends: it would stay claimed.
        if !self.has_room_in_inbox(index) || !self.take_ends(index) {
            return;
        }
        let Some(LanePair { peer, ends }) = self.lanes.pair_mut(index) else { return };
        let outgoing = self.inbox.granted_lane(peer, place.into());
        if let Some((outgoing, claim)) = outgoing.zip(peer.claim_in_inbox(&self.inbox)) {
            claim.send(About::Record(PathRecord::HandOver(place)), self.alarm);
            peer.path.granted = 0;
            ends.incoming.let_go();
            ends.outgoing = outgoing;
        }
        self.lanes.free_unused(index);
    }

    /// Gives a lane back that a peer has granted and this rank has no ends for: the peer has it
    /// again, and nothing was sent in it.
    fn give_back(&mut self, index: u32) {
        let Some(LanePair { peer, ends }) = self.lanes.pair_mut(index) else { return };
        let Some(place) = peer.path.granted.checked_sub(1) else { return };
        let Some(mut outgoing) = self.inbox.granted_lane(peer, place.into()) else { return };
        let Some(claim) = peer.claim_in_inbox(&self.inbox) else { return };
        claim.send(About::Record(PathRecord::HandOver(place)), self.alarm);
        peer.path.granted = 0;
        if let Some(claim) = outgoing.claim() {
            claim.send_record(PathRecord::Close, ends.incoming.consumed(), &self.alarm);
        }
    }

    /// Closes the lane to a peer, if the peer has consumed all that was sent in it.
    fn close_outgoing(&mut self, index: u32) {
        let Some(mut pair) = self.lanes.pair_mut(index) else { return };
        if !pair.is_outgoing_idle() || !pair.send_record(&self.inbox, PathRecord::Close, self.alarm) {
            return;
        }
        pair.ends.outgoing = pair.ends.outgoing.without_lane();
        self.lanes.free_unused(index);
    }

    /// Takes ends for a pair that may have none, if need be those of a peer to which nothing has
    /// been sent for a while. False if there are none.
    fn take_ends(&mut self, index: u32) -> bool {
        if !self.lanes.has_ends(index)
            && let Some(idle) = self.lanes.find_idle()
        {
            self.close_outgoing(idle);
        }
        let shut = self.lanes.peer(index).and_then(|peer| self.inbox.shut_of(peer));
        shut.is_some_and(|shut| self.lanes.take_ends(index, shut))
    }

    /// Lets a peer have a lane, or asks for one that is idle.
    #[cold]
    #[inline(never)]
    fn offer_lane(&mut self, index: u32) {
        match self.lanes.peer(index).map(|peer| peer.path.stage) {
            Some(LaneStage::None) => {}
            // It has closed the one it had, and talks again.
            Some(LaneStage::Drained) if self.take_back(index) => {}
            _ => return,
        }
        // One that cannot be sent to is not told of a lane either: its messages come as they did.
        if self.make_contact(PeerId(index)).is_err() {
            return;
        }
        let Some(place) = self.find_free_lane() else { return self.ask_for_lane() };
        if !self.take_ends(index) {
            return;
        }
        let Some(incoming) = self.inbox.fresh_lane(place) else { return };
        let Some(mut pair) = self.lanes.pair_mut(index) else { return };
        if pair.send_record(&self.inbox, PathRecord::Grant(place as u8), self.alarm) {
            let LanePair { peer, ends } = pair;
            (ends.incoming, peer.path.place, peer.path.stage) = (incoming, place as u8, LaneStage::Granted);
            if let Some(holder) = self.shared.holders.get_mut(place as usize) {
                *holder = LaneHolder { peer: index + 1, ..LaneHolder::NONE };
            }
        }
        self.lanes.free_unused(index);
    }

    /// Finds a lane that no peer has.
    fn find_free_lane(&mut self) -> Option<u32> {
        (0..self.inbox.geometry.lane_count()).find(|place| {
            let holder = self.shared.holders.get(*place as usize);
            let holder = holder.and_then(|holder| holder.peer.checked_sub(1));
            holder.is_none_or(|index| self.take_back(index))
        })
    }

    /// Takes back the lane that a peer has closed. False if it has not, or may still read what was
    /// answered in the lane's blocks.
    fn take_back(&mut self, index: u32) -> bool {
        let Some(mut pair) = self.lanes.pair_mut(index) else { return false };
        if pair.peer.path.stage != LaneStage::Drained || !pair.is_outgoing_idle() {
            return false;
        }
        pair.peer.path.stage = LaneStage::None;
        if let Some(holder) = self.shared.holders.get_mut(usize::from(pair.peer.path.place)) {
            *holder = LaneHolder::NONE;
        }
        true
    }

    /// Asks for a lane in which nothing has come for a while.
    fn ask_for_lane(&mut self) {
        let count = self.inbox.geometry.lane_count() as usize;
        for _ in 0..count {
            self.shared.turn = (self.shared.turn as usize + 1).checked_rem(count).unwrap_or(0) as u8;
            let Some(holder) = self.shared.holders.get_mut(usize::from(self.shared.turn)) else { return };
            let index = holder.peer.checked_sub(1);
            let Some(mut pair) = index.and_then(|index| self.lanes.pair_mut(index)) else { continue };
            let is_idle = holder.is_idle(pair.ends.incoming.consumed(), self.shared.polls);
            let stage = pair.peer.path.stage;
            if !(stage.takes_lane() && is_idle) && stage != LaneStage::Granted {
                continue;
            }
            // Its sender is to find that all was consumed.
            pair.ends.incoming.publish();
            holder.used_at = self.shared.polls;
            pair.send_record(&self.inbox, PathRecord::Ask, self.alarm);
            break;
        }
    }
}
