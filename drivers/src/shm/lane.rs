//! The state that a rank keeps for each peer, and that of the lanes of a pair that talks.

use core::fmt;
use core::mem::MaybeUninit;
#[cfg(target_pointer_width = "64")]
use core::ptr;

use aldis_hal::cause::Malformed;

use super::distance::{Gauge, LaneDistance, MEASURES};
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

/// The place of a pair's ends among those of the transport; where each peer has its own, the rank
/// of the peer.
#[cfg(target_pointer_width = "64")]
pub(super) type EndsPlace = u8;
#[cfg(not(target_pointer_width = "64"))]
pub(super) type EndsPlace = u32;

/// The ends of the lanes to and from one peer: two cache lines, for sending and receiving.
#[cfg_attr(target_pointer_width = "64", repr(C, align(64)))]
#[cfg_attr(not(target_pointer_width = "64"), repr(C))]
pub(super) struct LaneEnds {
    pub(super) outgoing: RingSender,
    pub(super) incoming: Incoming,
    /// The peer.
    #[cfg(target_pointer_width = "64")]
    pub(super) peer: u32,
    /// Neighbours in the poll set, a circular list of hot lanes.
    pub(super) next: EndsPlace,
    pub(super) previous: EndsPlace,
    /// True while poll looks at the ring.
    pub(super) hot: bool,
    /// True if the last message in a block came in one of those that this rank writes, so that its
    /// lines are here.
    pub(super) is_warm: bool,
}

impl LaneEnds {
    /// Ends that lead nowhere. All-zero.
    pub(super) const CLOSED: Self = Self {
        outgoing: RingSender::CLOSED,
        incoming: Incoming::CLOSED,
        #[cfg(target_pointer_width = "64")]
        peer: 0,
        next: 0,
        previous: 0,
        hot: false,
        is_warm: false,
    };

    /// Records that an answer has come in a block that this rank writes, or that it has written
    /// one.
    #[inline(always)]
    pub(super) fn set_warm(&mut self, is_warm: bool) {
        if MEASURES {
            self.is_warm = is_warm;
        }
    }
}

/// The state towards one peer that this rank keeps whether they talk or not: what is less common
/// than to send and to receive by a lane, and the shared inboxes.
pub(super) struct LanePeer {
    /// The first set of control slots in the peer's inbox, by which its region is found too; null
    /// while closed.
    #[cfg(target_pointer_width = "64")]
    pub(super) sets: *const u8,
    /// The way that messages take, where lanes are fewer than peers.
    pub(super) path: PeerPath,
    /// The distance of the peer's core.
    pub(super) distance: LaneDistance,
    /// The lane that waits after this one.
    pub(super) wait_next: u32,
    /// The ends of the pair's lanes, for the table alone, which has them.
    #[cfg(target_pointer_width = "64")]
    pub(super) ends: *mut LaneEnds,
    pub(super) state: LaneState,
    pub(super) waiting: bool,
    /// True if it is a block, besides a slot, that is waited for.
    pub(super) wants_block: bool,
}

/// A peer, and the ends of the lanes to and from it: of one without lanes, those that lead nowhere.
pub(super) struct LanePair<'a> {
    pub(super) peer: &'a mut LanePeer,
    pub(super) ends: &'a mut LaneEnds,
}

impl LanePair<'_> {
    /// Returns true if there is what is waited for.
    pub(super) fn has_room(&self) -> bool {
        let outgoing = &self.ends.outgoing;
        outgoing.has_slot() && (!self.peer.wants_block || outgoing.free_block().is_some())
    }

    /// Reads the credit line. After that any message may return to the peer what is held here.
    ///
    /// # Errors
    /// [`Malformed::Credit`] if the receiver returns what it never got.
    pub(super) fn refresh(&mut self, gauge: &Gauge) -> Result<(), Malformed> {
        self.look_at_credit(gauge);
        self.ends.incoming.let_go();
        self.ends.outgoing.refresh()
    }

    /// Looks at the credit line, to learn how far away the peer is.
    #[inline]
    pub(super) fn look_at_credit(&mut self, gauge: &Gauge) {
        if gauge.measures()
            && let Some(credit) = self.ends.outgoing.credit_word()
        {
            self.peer.distance.look_at_credit(credit, gauge);
        }
    }
}

/// The entry of a peer in a table of lanes.
#[repr(C, align(64))]
pub(super) struct LaneRow {
    #[cfg(not(target_pointer_width = "64"))]
    pub(super) ends: LaneEnds,
    pub(super) peer: LanePeer,
}

impl LaneRow {
    /// A row of no peer. All-zero.
    pub(super) const EMPTY: Self = Self {
        #[cfg(not(target_pointer_width = "64"))]
        ends: LaneEnds::CLOSED,
        peer: LanePeer {
            #[cfg(target_pointer_width = "64")]
            sets: ptr::null(),
            path: PeerPath::EMPTY,
            distance: LaneDistance::UNKNOWN,
            wait_next: 0,
            #[cfg(target_pointer_width = "64")]
            ends: ptr::null_mut(),
            state: LaneState::Vacant,
            waiting: false,
            wants_block: false,
        },
    };
}

/// Memory for a rank's state towards its peers: an entry a peer, and what
/// [`Geometry::lane_entries`](super::Geometry::lane_entries) has beside them for the lanes that are
/// in use. The memory is the caller's; its contents are the transport's.
#[repr(transparent)]
pub struct Lane {
    row: MaybeUninit<LaneRow>,
}

// On a 64-bit machine: a cache line, and what sending and receiving by a lane takes is two.
const _: () = {
    assert!(size_of::<Lane>() == 64 || size_of::<usize>() != 8);
    assert!(size_of::<LaneEnds>() == 128 || size_of::<usize>() != 8);
    assert!(core::mem::offset_of!(LaneEnds, incoming) == 64 || size_of::<usize>() != 8);
};

impl Lane {
    /// A lane to no peer. All-zero, so that a static table of lanes takes no room in an image.
    pub const EMPTY: Self = Self { row: MaybeUninit::new(LaneRow::EMPTY) };
}

impl Default for Lane {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").finish_non_exhaustive()
    }
}
