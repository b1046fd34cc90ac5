//! The state that a rank keeps for each peer, and the two lists that poll walks: lanes to look at,
//! and lanes that wait.

use core::{fmt, ptr};

use aldis_hal::cause::Malformed;

use super::distance::{Gauge, LaneDistance};
use super::path::PeerPath;
use super::ring::{Incoming, RingSender};

/// The state of a lane: what can be done over it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LaneState {
    /// No peer was attached.
    Vacant = 0,
    /// Messages pass.
    Open,
    /// The peer broke the protocol, as found by a post; poll has yet to report it.
    Broken,
    /// Over: the loss was reported, or this side let go of the peer.
    Closed,
}

/// This rank's state towards one peer: four cache lines, for sending, receiving, what is less
/// common, and the shared inboxes. The memory is the caller's; its contents are the transport's.
#[repr(C, align(64))]
pub struct Lane {
    pub(super) outgoing: RingSender,
    pub(super) incoming: Incoming,
    /// Neighbours in the poll set, a circular list of hot lanes.
    next: u32,
    previous: u32,
    /// The lane that waits after this one.
    wait_next: u32,
    pub(super) state: LaneState,
    pub(super) waiting: bool,
    /// True if it is a block, besides a slot, that is waited for.
    pub(super) wants_block: bool,
    /// True while poll looks at the ring.
    hot: bool,
    /// The first set of control slots in the peer's inbox; null while closed.
    pub(super) sets: *const u8,
    /// The distance of the peer's core.
    pub(super) distance: LaneDistance,
    /// The way that messages take, where lanes are fewer than peers.
    pub(super) path: PeerPath,
}

// On a 64-bit machine, as `Lane`'s documentation says.
const _: () = {
    assert!(size_of::<Lane>() == 256 || size_of::<usize>() != 8);
    assert!(core::mem::offset_of!(Lane, incoming) == 64 || size_of::<usize>() != 8);
};

impl Lane {
    /// A lane to no peer. All-zero, so that a static table of lanes takes no room in an image.
    pub const EMPTY: Self = Self {
        outgoing: RingSender::CLOSED,
        wait_next: 0,
        state: LaneState::Vacant,
        waiting: false,
        wants_block: false,
        hot: false,
        sets: ptr::null(),
        incoming: Incoming::CLOSED,
        next: 0,
        previous: 0,
        distance: LaneDistance::UNKNOWN,
        path: PeerPath::EMPTY,
    };

    /// Returns true if there is what is waited for.
    pub(super) fn has_room(&self) -> bool {
        self.outgoing.has_slot() && (!self.wants_block || self.outgoing.free_block().is_some())
    }

    /// Reads the credit line. After that any message may return to the peer what is held here.
    ///
    /// # Errors
    /// [`Malformed::Credit`] if the receiver returns what it never got.
    pub(super) fn refresh(&mut self, gauge: &Gauge) -> Result<(), Malformed> {
        self.look_at_credit(gauge);
        self.incoming.let_go();
        self.outgoing.refresh()
    }

    /// Looks at the credit line, to learn how far away the peer is.
    #[inline]
    pub(super) fn look_at_credit(&mut self, gauge: &Gauge) {
        if gauge.measures()
            && let Some(credit) = self.outgoing.credit_word()
        {
            self.distance.look_at_credit(credit, gauge);
        }
    }

    /// Lets go of all shared memory.
    pub(super) fn close(&mut self, state: LaneState) {
        self.outgoing = RingSender::CLOSED;
        self.incoming = Incoming::CLOSED;
        self.sets = ptr::null();
        self.path.close();
        self.state = state;
    }
}

impl Default for Lane {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("state", &self.state).field("hot", &self.hot).finish_non_exhaustive()
    }
}

/// The poll set: the lanes whose rings poll looks at, in turn. The links stand in the lanes.
#[derive(Debug, Default)]
pub(super) struct PollSet {
    /// Lanes in the poll set.
    pub(super) len: u32,
    /// The lane whose turn is next, if there is any.
    pub(super) turn: u32,
}

impl PollSet {
    /// Puts a lane at the end: it comes after all that are in now. Nothing if it is in already.
    pub(super) fn insert(&mut self, lanes: &mut [Lane], index: u32) {
        let first = if self.len == 0 { index } else { self.turn };
        let Some(last) =
            lanes.get(first as usize).map(|lane| if self.len == 0 { index } else { lane.previous })
        else {
            return;
        };
        let Some(lane) = lanes.get_mut(index as usize).filter(|lane| !lane.hot) else { return };
        (lane.hot, lane.next, lane.previous) = (true, first, last);
        link(lanes, last, index);
        link(lanes, index, first);
        self.turn = first;
        self.len += 1;
    }

    /// Takes a lane out. Nothing if it is not in.
    pub(super) fn remove(&mut self, lanes: &mut [Lane], index: u32) {
        let Some(lane) = lanes.get_mut(index as usize).filter(|lane| lane.hot) else { return };
        lane.hot = false;
        let (previous, next) = (lane.previous, lane.next);
        link(lanes, previous, next);
        self.len -= 1;
        if self.turn == index {
            self.turn = next;
        }
    }

    /// The lane after this one.
    #[inline(always)]
    pub(super) fn after(lane: &Lane) -> u32 {
        lane.next
    }
}

/// Makes two lanes neighbours.
fn link(lanes: &mut [Lane], before: u32, after: u32) {
    if let Some(lane) = lanes.get_mut(before as usize) {
        lane.next = after;
    }
    if let Some(lane) = lanes.get_mut(after as usize) {
        lane.previous = before;
    }
}

/// The queue of lanes that poll must look at for the sender's sake: they wait for credit or have a
/// loss to report.
#[derive(Debug, Default)]
pub(super) struct LaneQueue {
    /// Lanes in the queue.
    pub(super) len: u32,
    first: u32,
    last: u32,
}

impl LaneQueue {
    /// Puts a lane at the end. Nothing if it is in already.
    pub(super) fn push(&mut self, lanes: &mut [Lane], index: u32) {
        let Some(lane) = lanes.get_mut(index as usize).filter(|lane| !lane.waiting) else { return };
        lane.waiting = true;
        if self.len == 0 {
            self.first = index;
        } else if let Some(last) = lanes.get_mut(self.last as usize) {
            last.wait_next = index;
        }
        self.last = index;
        self.len += 1;
    }

    /// Takes the first lane out.
    pub(super) fn pop(&mut self, lanes: &mut [Lane]) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let index = self.first;
        let lane = lanes.get_mut(index as usize)?;
        lane.waiting = false;
        self.first = lane.wait_next;
        self.len -= 1;
        Some(index)
    }
}
