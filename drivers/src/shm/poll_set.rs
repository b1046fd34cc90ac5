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
        match self.lanes.peer(peer.0).map(|peer| peer.state) {
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
        let pair = self.lanes.pair_mut(peer.0).filter(|pair| pair.peer.state == LaneState::Open);
        let Some(mut pair) = pair else {
            return Err(Refusal::Never(self.unusable(peer)));
        };
        if pair.refresh(&self.gauge).is_err() {
            self.close(peer.0, LaneState::Broken);
            self.waiting.push(&mut self.lanes, peer.0);
            return Err(Refusal::Never(Cause::PeerDead));
        }
        let outgoing = &pair.ends.outgoing;
        let short_of = match (outgoing.has_slot(), !block || outgoing.free_block().is_some()) {
            (true, true) => return Ok(SendPath::Lane),
            (false, _) => Again::NoSlot,
            (true, false) => Again::NoCredit,
        };
        pair.peer.wants_block = block;
        self.waiting.push(&mut self.lanes, peer.0);
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
            let Some(index) = self.waiting.pop(&mut self.lanes) else { break };
            let Some(mut pair) = self.lanes.pair_mut(index) else { break };
            let mut state = pair.peer.state;
            if state == LaneState::Open && pair.refresh(&self.gauge).is_err() {
                state = LaneState::Broken;
            }
            match state {
                LaneState::Broken => {
                    self.close(index, LaneState::Closed);
                    sink.lost(PeerId(index), Cause::Malformed(Malformed::Credit));
                }
                LaneState::Open if pair.has_room() => sink.ready(PeerId(index)),
                #[cfg(target_pointer_width = "64")]
                LaneState::Open if self.has_room_in_inbox(index) => sink.ready(PeerId(index)),
                LaneState::Open => {
                    self.waiting.push(&mut self.lanes, index);
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
        self.close(index, LaneState::Closed);
        sink.lost(PeerId(index), Cause::Malformed(what));
    }

    /// Lets go of a peer: polls its lane no more, nor keeps any of its memory.
    pub(super) fn close(&mut self, index: u32, state: LaneState) {
        self.poll_set.remove(&mut self.lanes, index);
        self.lanes.close(index, state);
    }
}
