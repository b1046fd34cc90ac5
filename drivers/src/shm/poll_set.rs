//! The choice of the lanes that a poll looks at: those of the poll set, and those that wait for
//! credit.

use aldis_hal::cause::Malformed;
use aldis_hal::{Again, Cause, PeerId, Refusal, Sink};

use super::lane::LaneState;
use super::transport::Shm;

/// The way that a message to a peer takes.
pub(super) enum SendPath {
    /// A lane of the peer's.
    Lane,
    /// The peer's inbox that all share.
    #[cfg(target_pointer_width = "64")]
    Inbox,
}

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
    /// lane waits. A peer without a lane from here is sent to by its inbox.
    #[cold]
    #[inline(never)]
    pub(super) fn find_room(&mut self, peer: PeerId, block: bool) -> Result<SendPath, Refusal> {
        #[cfg(target_pointer_width = "64")]
        if self.shared.exists {
            self.make_contact(peer).map_err(Refusal::Never)?;
            if self.goes_by_inbox(peer) {
                return Ok(SendPath::Inbox);
            }
        }
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
            (true, true) => return Ok(SendPath::Lane),
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
            let state = lane.state;
            match state {
                LaneState::Broken => {
                    lane.state = LaneState::Closed;
                    self.poll_set.remove(self.lanes, index);
                    sink.lost(PeerId(index), Cause::Malformed(Malformed::Credit));
                }
                LaneState::Open if lane.has_room() => sink.ready(PeerId(index)),
                #[cfg(target_pointer_width = "64")]
                LaneState::Open if self.has_room_in_inbox(index) => sink.ready(PeerId(index)),
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

    /// Acts on what a burst has ended with; returns the events.
    #[cold]
    #[inline(never)]
    pub(super) fn end_burst<S: Sink>(&mut self, index: u32, what: Malformed, sink: &mut S) -> u32 {
        #[cfg(target_pointer_width = "64")]
        let what = match self.take_record_of_lane(index) {
            Ok(true) => return 0,
            Ok(false) => what,
            Err(what) => what,
        };
        self.fail(index, what, sink);
        1
    }

    /// Ends a lane whose peer broke the protocol.
    pub(super) fn fail<S: Sink>(&mut self, index: u32, what: Malformed, sink: &mut S) {
        self.poll_set.remove(self.lanes, index);
        if let Some(lane) = self.lanes.get_mut(index as usize) {
            lane.close(LaneState::Closed);
        }
        sink.lost(PeerId(index), Cause::Malformed(what));
    }
}
