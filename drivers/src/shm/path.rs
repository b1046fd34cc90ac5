//! The way that messages take between two ranks of a node with more ranks than lanes: through the
//! receiver's shared inbox, or by a lane of the receiver's, while the sender has it.
//!
//! Lanes are the receiver's to give. Each direction of a pair is on its own, and each change is a
//! record among the messages, so that no message overtakes another:
//!
//! | record | from | stands in | says |
//! |---|---|---|---|
//! | grant | receiver | its way to the sender | this lane is fresh and yours |
//! | hand-over | sender | the receiver's inbox | what comes next comes in the lane |
//! | ask | receiver | its way to the sender | the lane is wanted by another |
//! | close | sender | the lane | what comes next comes in the inbox |
//!
//! A receiver grants a lane to a sender of which [`GRANT_AFTER`] messages came through the inbox
//! (Open MPI, `btl/sm`: a fast box after 16), if one is free; else it asks for one that has been
//! idle for some hundred polls. It reads a lane once it has taken the hand-over, and takes nothing
//! of that sender from the inbox until it has taken the close: that is all that order needs.
//!
//! The sender of a lane answers when it polls, and closes it if the receiver has consumed all that
//! it sent there; else the lane is in use, and the receiver may ask again. Nobody waits for any
//! answer: without a lane there is the inbox.
//!
//! A sender closes a lane unasked too, where it has ends for no more of them and another lane is
//! granted to it; the receiver then has it again. One that is asked for a lane which it has no ends
//! for takes it over and closes it, with nothing in between.
//!
//! Why the lane can be given to another then: its sender has nothing in it. Nor does it read the
//! blocks in which the receiver has answered: those that it knows to be consumed it has answered
//! for, and as long as the receiver's own messages to it are under way the lane stays (a lane that
//! is drained is given to another only then).
//!
//! Credit in heads is of the opposite lane. Since grants stand among the messages, what a sender of
//! a lane has read before is older than the lane, and all that follows is of it.

#[cfg(target_pointer_width = "64")]
use aldis_hal::Epoch;

#[cfg(target_pointer_width = "64")]
use super::inbox::InboxSender;

/// Messages of a sender that have come through the inbox, after which it gets a lane.
#[cfg(target_pointer_width = "64")]
pub(super) const GRANT_AFTER: u16 = 16;

/// A record among the messages of a pair.
#[cfg(target_pointer_width = "64")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PathRecord {
    /// A lane of the sender's, of this record, is the receiver's to send in.
    Grant(u8),
    /// The messages that follow come in this lane of the receiver.
    HandOver(u8),
    /// The lane in which the receiver sends is wanted.
    Ask,
    /// The messages that follow come in the inbox.
    Close,
}

#[cfg(target_pointer_width = "64")]
impl PathRecord {
    const KIND: u32 = 8;

    /// The record as a word.
    pub(super) const fn word(self) -> u32 {
        match self {
            Self::Grant(place) => 1 << Self::KIND | place as u32,
            Self::HandOver(place) => 2 << Self::KIND | place as u32,
            Self::Ask => 3 << Self::KIND,
            Self::Close => 4 << Self::KIND,
        }
    }

    /// Reads a word; `None` for no record.
    pub(super) const fn parse(word: u32) -> Option<Self> {
        let place = word as u8;
        match (word >> Self::KIND, place) {
            (1, _) => Some(Self::Grant(place)),
            (2, _) => Some(Self::HandOver(place)),
            (3, 0) => Some(Self::Ask),
            (4, 0) => Some(Self::Close),
            _ => None,
        }
    }
}

/// The stage of a lane of this rank's for one sender.
#[cfg(target_pointer_width = "64")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LaneStage {
    /// The sender has none.
    None = 0,
    /// The sender is told of it and has yet to take it over.
    Granted,
    /// Messages come by it.
    Open,
    /// The sender has closed it.
    Drained,
    /// The sender is lost and may write there still: no other gets it.
    Retired,
}

#[cfg(target_pointer_width = "64")]
impl LaneStage {
    /// Returns true if the sender's messages are taken from the inbox.
    pub(super) const fn takes_inbox(self) -> bool {
        !self.takes_lane()
    }

    /// Returns true if the sender's messages are taken from the lane.
    pub(super) const fn takes_lane(self) -> bool {
        matches!(self, Self::Open)
    }
}

/// The way that messages to and from one peer take, where lanes are fewer than peers.
#[cfg(target_pointer_width = "64")]
pub(super) struct PeerPath {
    /// The end of the peer's shared inbox.
    pub(super) sender: InboxSender,
    /// The number of the next message from the peer in this rank's shared inbox.
    pub(super) expected: u32,
    /// The round in which the peer's last message there was taken, modulo 256: one that seems to
    /// have had its turn has it in the next round.
    pub(super) round: u8,
    /// Messages that have come there since a lane was last thought of.
    pub(super) came: u16,
    /// The place of the lane that the peer has here.
    pub(super) place: u8,
    pub(super) stage: LaneStage,
    /// The place, plus one, of a lane of the peer's that is granted and not taken over yet.
    pub(super) granted: u8,
    /// False until the peer's inbox has been looked at: before the first message to it.
    pub(super) is_met: bool,
    /// The life of the peer that is to be found there.
    pub(super) epoch: Epoch,
}

#[cfg(target_pointer_width = "64")]
impl PeerPath {
    /// No way. All-zero.
    pub(super) const EMPTY: Self = Self {
        sender: InboxSender::EMPTY,
        expected: 0,
        round: 0,
        came: 0,
        place: 0,
        stage: LaneStage::None,
        granted: 0,
        is_met: false,
        epoch: Epoch(0),
    };

    /// Goes no way any more.
    pub(super) fn close(&mut self) {
        self.granted = 0;
        if matches!(self.stage, LaneStage::Granted | LaneStage::Open) {
            self.stage = LaneStage::Retired;
        }
    }
}

/// The way to a peer that has a lane: there is no other.
#[cfg(not(target_pointer_width = "64"))]
pub(super) struct PeerPath;

#[cfg(not(target_pointer_width = "64"))]
impl PeerPath {
    /// No way.
    pub(super) const EMPTY: Self = Self;

    /// Goes no way any more.
    pub(super) fn close(&mut self) {}
}
