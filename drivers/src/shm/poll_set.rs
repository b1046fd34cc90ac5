//! The choice of the lanes that a poll looks at: those of the poll set, those whose doorbell has
//! rung, and those that wait for credit.

use aldis_hal::cause::Malformed;
use aldis_hal::{Again, Cause, PeerId, Refusal, Sink};

use super::geometry::sender_at;
use super::lane::{BellLine, LaneState};
use super::sleep::{WAKES, is_asleep};
use super::transport::Shm;

impl Shm<'_> {
    /// Returns the reason why nothing can be sent over a lane, whatever is waited for.
    #[cold]
    pub(super) fn unusable(&self, peer: PeerId) -> Cause {
        match self.lanes.get(peer.index()).map(|lane| lane.state) {
            None | Some(LaneState::Vacant) => Cause::Unreachable,
            Some(_) => Cause::PeerDead,
        }
    }

    /// Looks at the credit line for a free slot and, if `block`, a free block; without them the
    /// lane waits.
    #[cold]
    #[inline(never)]
    pub(super) fn find_room(&mut self, peer: PeerId, block: bool) -> Result<(), Refusal> {
        let Some(lane) = self.lanes.get_mut(peer.index()).filter(|lane| lane.state == LaneState::Open) else {
            return Err(Refusal::Never(self.unusable(peer)));
        };
        if lane.refresh(&self.gauge).is_err() {
            lane.close(LaneState::Broken);
            self.poll_set.remove(self.lanes, peer.0);
            self.waiting.push(self.lanes, peer.0);
            return Err(Refusal::Never(Cause::PeerDead));
        }
        let short_of = match (lane.outgoing.has_slot(), !block || lane.outgoing.free_block().is_some()) {
            (true, true) => return Ok(()),
            (false, _) => Again::NoSlot,
            (true, false) => Again::NoCredit,
        };
        lane.wants_block = block;
        self.waiting.push(self.lanes, peer.0);
        Err(Refusal::Again(short_of))
    }

    /// Looks at the credit of waiting lanes, each at most once; returns the events.
    #[cold]
    #[inline(never)]
    pub(super) fn poll_waiting<S: Sink>(&mut self, budget: u32, sink: &mut S) -> u32 {
        let mut events = 0;
        for _ in 0..self.waiting.len {
            if events == budget {
                break;
            }
            let Some(index) = self.waiting.pop(self.lanes) else { break };
            let Some(lane) = self.lanes.get_mut(index as usize) else { break };
            if lane.state == LaneState::Open && lane.refresh(&self.gauge).is_err() {
                lane.close(LaneState::Broken);
            }
            match lane.state {
                LaneState::Broken => {
                    lane.state = LaneState::Closed;
                    self.poll_set.remove(self.lanes, index);
                    sink.lost(PeerId(index), Cause::Malformed(Malformed::Credit));
                }
                LaneState::Open if lane.has_room() => sink.ready(PeerId(index)),
                LaneState::Open => {
                    self.waiting.push(self.lanes, index);
                    continue;
                }
                LaneState::Vacant | LaneState::Closed => continue,
            }
            events += 1;
        }
        events
    }

    /// Looks at one line of doorbells, the next in turn, or at all of them if this rank is about to
    /// sleep.
    #[inline(never)]
    pub(super) fn poll_bells(&mut self) {
        let sleeps = WAKES && self.inbox.header.first().is_some_and(|header| is_asleep(&header.asleep));
        for _ in 0..if sleeps { self.bell_lines } else { 1 } {
            self.poll_bell_line();
        }
    }

    /// Looks at the next line of doorbells, and brings the lanes they belong to into the poll set.
    fn poll_bell_line(&mut self) {
        let line = self.bell_turn;
        self.bell_turn = if line + 1 < self.bell_lines { line + 1 } else { 0 };
        let Some(BellLine(mut bells)) = self.lanes.get(line as usize).map(|lane| lane.bells) else { return };
        let mut changed = false;
        for (place, bell) in self.inbox.bells(line, &mut bells) {
            let index = sender_at(self.inbox.identity.owner, place).0.wrapping_add(self.first);
            let open = self.lanes.get_mut(index as usize).filter(|lane| lane.state == LaneState::Open);
            match open.map(|lane| (lane.incoming.is_rung(bell), lane)) {
                Some((Ok(true), _)) => self.poll_set.insert(self.lanes, index),
                Some((Err(_), lane)) => {
                    // Reported, as an event within the budget, by the next poll.
                    lane.close(LaneState::Broken);
                    self.poll_set.remove(self.lanes, index);
                    self.waiting.push(self.lanes, index);
                }
                Some((Ok(false), _)) | None => {}
            }
            changed = true;
        }
        if changed && let Some(lane) = self.lanes.get_mut(line as usize) {
            lane.bells = BellLine(bells);
        }
    }

    /// Ends a lane whose peer broke the protocol.
    #[cold]
    #[inline(never)]
    pub(super) fn fail<S: Sink>(&mut self, index: u32, what: Malformed, sink: &mut S) {
        self.poll_set.remove(self.lanes, index);
        if let Some(lane) = self.lanes.get_mut(index as usize) {
            lane.close(LaneState::Closed);
        }
        sink.lost(PeerId(index), Cause::Malformed(what));
    }
}
