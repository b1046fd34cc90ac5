//! Lanes: how many segments of one call are under way at a time.
//!
//! Lane i carries out the segments i, i + lanes, i + 2 lanes, .. one after another, each as if it
//! were a collective of its own: with its own tag, its own part of the scratch, and on its own
//! elements of the data. So nothing that holds of a schedule that runs alone is lost by others
//! beside it, and no order between lanes is needed, nor is one kept.
//!
//! Lanes share request slots. The lane with the oldest segment takes any that is free;
//! another begins a round only while half of all slots are free, and 2 [`IN_FLIGHT_MAX`], which
//! leaves the oldest the slots of a round. Hence the oldest segment of a collective finds its slots
//! on every rank, ends, and makes the next one the oldest.

use aldis_kernel::hal::{Cause, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Failed, Request, Scope, Tag};

use super::{Collective, Progress};
use crate::schedule::{IN_FLIGHT_MAX, STAGES_A_CALL};
use crate::select::{LANES, Plan};
use crate::tag;

/// The state of a lane within its round.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneStage {
    /// The messages of these steps are posted, a bit each by index; more are to be.
    Post(u32),
    /// This many messages are posted, all of the round; some may be incomplete.
    Land(u32),
    /// Every segment is done.
    Done,
    /// Ended by the collective's error.
    Failed,
}

/// A message of a round.
pub(super) struct Message<'scope> {
    /// Null once it is complete, or its piece is.
    pub(super) request: Request<'scope>,
    /// The piece of it that the request is; without a request, the piece that comes next, or 0 if
    /// there is none.
    piece: u32,
}

impl Message<'_> {
    pub(super) fn piece(&self) -> u32 {
        self.piece
    }

    pub(super) fn set_piece(&mut self, number: u32) {
        self.piece = number;
    }
}

/// A round's messages by the index of their step.
pub(super) type Messages<'scope> = [Message<'scope>; IN_FLIGHT_MAX];

/// The progress of a lane with its segment.
#[derive(Clone, Copy)]
pub(super) struct SegmentLane {
    pub(super) stage: LaneStage,
    pub(super) round: u32,
    /// First element of the segment.
    pub(super) base: usize,
    number: u32,
}

impl SegmentLane {
    fn new(number: usize, plan: &Plan, is_idle: bool) -> Self {
        let is_idle = is_idle || number >= plan.lanes() as usize;
        Self {
            stage: if is_idle { LaneStage::Done } else { LaneStage::Post(0) },
            round: 0,
            base: plan.segment.saturating_mul(number),
            number: number as u32,
        }
    }

    /// Counted from 0.
    #[inline]
    pub(super) fn number(&self) -> u32 {
        self.number
    }
}

/// The one of a lane among what every lane has.
#[inline]
fn of<T>(all: &[T; LANES], lane: usize) -> &T {
    let [first, others @ ..] = all;
    lane.checked_sub(1).and_then(|lane| others.get(lane)).unwrap_or(first)
}

/// The one of a lane among what every lane has, to be changed.
#[inline]
pub(super) fn of_mut<T>(all: &mut [T; LANES], lane: usize) -> &mut T {
    let [first, others @ ..] = all;
    lane.checked_sub(1).and_then(|lane| others.get_mut(lane)).unwrap_or(first)
}

/// All lanes of a collective, one of which is being driven.
pub(super) struct Lanes {
    all: [SegmentLane; LANES],
    driven: usize,
}

impl Lanes {
    /// Before the first message.
    #[inline]
    pub(super) fn new(plan: &Plan, is_idle: bool) -> Self {
        let mut all = [SegmentLane::new(0, plan, is_idle); LANES];
        let [_, others @ ..] = &mut all;
        for (number, lane) in (1..).zip(others) {
            *lane = SegmentLane::new(number, plan, is_idle);
        }
        Self { all, driven: 0 }
    }

    #[inline]
    pub(super) fn driven(&self) -> usize {
        self.driven
    }

    /// The lane that is driven.
    #[inline]
    pub(super) fn now(&self) -> &SegmentLane {
        of(&self.all, self.driven())
    }

    /// The lane that is driven, to be changed.
    #[inline]
    pub(super) fn now_mut(&mut self) -> &mut SegmentLane {
        let driven = self.driven();
        of_mut(&mut self.all, driven)
    }

    pub(super) fn are_done(&self) -> bool {
        matches!(self.oldest().stage, LaneStage::Done)
    }

    /// The lane with the oldest segment that is not done; the first, if all are. One that has
    /// failed, all have.
    pub(super) fn oldest(&self) -> &SegmentLane {
        let [first, others @ ..] = &self.all;
        others.iter().fold(first, |oldest, lane| match (oldest.stage, lane.stage) {
            (_, LaneStage::Done) => oldest,
            (LaneStage::Done, _) => lane,
            _ if lane.base < oldest.base => lane,
            _ => oldest,
        })
    }
}

/// No messages.
#[inline(always)]
pub(super) const fn no_messages<'scope>() -> [Messages<'scope>; LANES] {
    [const { [const { Message { request: Request::null(), piece: 0 } }; IN_FLIGHT_MAX] }; LANES]
}

impl<'scope> Collective<'scope> {
    /// The tag of a lane's messages.
    #[inline]
    pub(super) fn tag_of(&self, lane: &SegmentLane) -> Tag {
        tag::in_lane(self.tag, lane.number())
    }

    /// A message of the lane that is driven.
    #[inline]
    pub(super) fn message(&mut self, index: u32) -> Option<&mut Message<'scope>> {
        of_mut(&mut self.messages, self.lanes.driven()).get_mut(index as usize)
    }

    /// The first message of a lane that is under way.
    fn missing_of(&self, lane: &SegmentLane) -> Option<u32> {
        let messages = of(&self.messages, lane.number() as usize);
        messages.iter().position(|message| !message.request.is_null()).map(|index| index as u32)
    }

    /// The message that is missed for longest: its lane, and its step's index.
    #[inline]
    pub(super) fn missing(&self) -> Option<(&SegmentLane, u32)> {
        let [first, others @ ..] = &self.lanes.all;
        let of_first = self.missing_of(first).map(|index| (first, index));
        others.iter().fold(of_first, |missing, lane| match (missing, self.missing_of(lane)) {
            (Some((older, _)), Some(_)) if older.base < lane.base => missing,
            (_, Some(index)) => Some((lane, index)),
            _ => missing,
        })
    }

    /// Sets how far all lanes are.
    pub(super) fn set_stage(&mut self, stage: LaneStage) {
        let [first, others @ ..] = &mut self.lanes.all;
        first.stage = stage;
        others.iter_mut().for_each(|lane| lane.stage = stage);
    }

    /// Goes on until every lane must wait, is over, or has done enough for one call.
    pub(super) fn advance<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Progress {
        if T::HAS_CONTROL_SLOTS && self.flat.is_some() {
            return self.advance_in_slots(scope, 1);
        }
        self.lanes.driven = 0;
        let mut all = self.advance_lane(scope);
        for number in 1..self.plan.lanes() {
            if all == Progress::Failed {
                break;
            }
            self.lanes.driven = number as usize;
            all = all.max(self.advance_lane(scope));
        }
        if all == Progress::Failed {
            self.fail(scope);
        }
        self.watch_out(scope, all)
    }

    /// Advances the lane that is driven until it must wait, is over, or has done enough for one
    /// call.
    fn advance_lane<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Progress {
        for _ in 0..STAGES_A_CALL {
            let moved = match self.lanes.now().stage {
                LaneStage::Post(0) if !self.may_begin(scope) => return Progress::Starved,
                LaneStage::Post(posted) => self.post(scope, posted),
                LaneStage::Land(messages) => self.land(scope, messages),
                LaneStage::Done => return Progress::Done,
                LaneStage::Failed => return Progress::Failed,
            };
            match moved {
                Ok(true) => self.moved = true,
                Ok(false) => return Progress::Waiting,
                Err(Failed) if matches!(self.error.cause, Cause::Full(_)) => {
                    let under_way = self.missing_of(self.lanes.now()).is_some();
                    return if under_way { Progress::Waiting } else { Progress::Starved };
                }
                Err(Failed) => return Progress::Failed,
            }
        }
        Progress::Waiting
    }

    /// Returns true if the lane that is driven may begin a round.
    fn may_begin<T: Transport, P: Platform>(&self, scope: &Scope<'scope, '_, '_, T, P>) -> bool {
        let room = scope.room();
        let is_ample = room >= scope.room_max() / 2 && room as usize >= 2 * IN_FLIGHT_MAX;
        is_ample || self.lanes.now().number() == self.lanes.oldest().number()
    }

    /// Ends it and lets go of what can still be undone.
    #[cold]
    pub(super) fn fail<T: Transport, P: Platform>(&mut self, scope: &mut Scope<'scope, '_, '_, T, P>) {
        for message in self.messages.as_flattened_mut() {
            scope.cancel(&mut message.request);
        }
        self.set_stage(LaneStage::Failed);
    }
}
