//! This module holds `unsafe` code: `Shm`, the transport over the lanes. The only unsafe steps are
//! those from a block's validated index to its bytes.

use core::fmt;
use core::slice;

use aldis_hal::cause::Malformed;
use aldis_hal::copy::{Store, copy, publish};
use aldis_hal::transport::{Quiesce, Route, Sink, Slot, Transport};
use aldis_hal::{
    Again, Caps, Cause, Cost, Extras, Features, Instant, Limits, PeerId, Post, Refusal, RemoteMemory,
    Resource, SharedControl,
};

use super::control_slots::Own;
use super::distance::{BLOCKS_A_LOOK, Distance, Gauge, MEASURES};
use super::geometry::{Geometry, Identity, SHARES, SHORT_BYTES};
#[cfg(target_pointer_width = "64")]
use super::inbox::About;
use super::lane::{Lane, LaneEnds, LanePair, LaneState};
use super::lane_table::{LaneQueue, LaneTable, PollSet};
use super::memory::{SharedSpan, Short};
use super::outgoing::USES_PING_PONG;
use super::poll_set::SendPath;
#[cfg(target_pointer_width = "64")]
use super::region::RecordTable;
use super::region::{Inbox, Region};
#[cfg(target_pointer_width = "64")]
use super::ring::RingSender;
use super::ring::{Claim, Incoming, NextMessage};
use super::sets::NodeSleep;
#[cfg(target_pointer_width = "64")]
use super::sets::{PairLengths, PairWays, PeerReader};
#[cfg(target_pointer_width = "64")]
use super::shared::{InboxClaim, SharedInbox};
use super::sleep::{Alarm, SleepWords, WAKES};
use crate::sync::AtomicU32;

/// Most messages of one lane in one poll, so that a flood from one peer delays the others by a
/// bounded time.
const BURST: u32 = 16;

/// True if a single ring is looked at for a receiver that waits for its next message. A 32-bit core
/// polls all, as it does anyway.
const PEEKS: bool = cfg!(target_pointer_width = "64");

/// A rank of a node, of several that share memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeRank {
    /// The first rank of the job that the node has.
    pub first: PeerId,
    /// The rank's inbox, by its number on the node.
    pub identity: Identity,
}

/// The shared-memory transport of one rank: see the [module](super).
pub struct Shm<'m> {
    /// The lanes, one for each rank of the job, by rank. This rank's own stays vacant, and so do
    /// those below `first`.
    pub(super) lanes: LaneTable<'m>,
    /// The rank of the job that the inboxes count as their number 0.
    pub(super) first: u32,
    pub(super) block_bytes: u32,
    /// Lanes whose rings are looked at.
    pub(super) poll_set: PollSet,
    /// Lanes that wait for credit or have a loss to report.
    pub(super) waiting: LaneQueue,
    /// The state that there is where lanes are fewer than peers.
    #[cfg(target_pointer_width = "64")]
    pub(super) shared: SharedInbox,
    /// True if waiting lanes get the larger half of this poll's budget.
    senders_turn: bool,
    caps: Caps,
    pub(super) sets: [Option<Own>; Geometry::SETS_MAX as usize],
    pub(super) inbox: Inbox<'m>,
    /// The distances of peers.
    pub(super) gauge: Gauge,
    /// Ranks of each node of the job but the last; 0 if that is not known.
    pub(super) ranks_per_node: u32,
    /// The ways in which two ranks pass long data, beside chunks.
    #[cfg(target_pointer_width = "64")]
    pub(super) pair_ways: PairWays<'m>,
    /// The way in which a rank that sleeps is woken.
    pub(super) alarm: Alarm,
    /// The sleepers of the node, where there can be any.
    pub(super) sleep: [NodeSleep<'m>; WAKES as usize],
}

// SAFETY: the pointers of lanes and control slots lead into regions that were given to the
// transport for `'m`, and regions are `Send`.
unsafe impl Send for Shm<'_> {}

impl<'m> Shm<'m> {
    /// The transport of the rank that `identity` names, over its own formatted `inbox`. `lanes` has
    /// at least as many entries as [`Geometry::lane_entries`] says; `cost` is what was measured or
    /// assumed for this machine.
    ///
    /// # Errors
    /// [`Cause::BadRegion`] if the inbox is not that of `identity`, [`Cause::TooSmall`] for too few
    /// lanes, [`Cause::Incompatible`] for an inbox of another version; the rest as
    /// [`inspect`](super::inspect).
    pub fn new(
        identity: Identity,
        inbox: Region<'m>,
        lanes: &'m mut [Lane],
        cost: Cost,
    ) -> Result<Self, Cause> {
        Self::of_node(NodeRank { first: PeerId(0), identity }, inbox, lanes, cost)
    }

    /// Like [`new`](Self::new), but where only some of the job's ranks share memory, those of one
    /// node: `rank.first` and as many that follow it as the geometry has. Inboxes, and whose they
    /// are, count from that; peers are ranks of the job as ever. `lanes` has an entry more for
    /// every rank before the node's first, so that a post looks for none but its own.
    ///
    /// # Errors
    /// [`Cause::BadRegion`] if the inbox is not that of `identity`, [`Cause::TooSmall`] for too few
    /// lanes; the rest as [`new`](Self::new).
    #[inline(never)]
    pub fn of_node(
        rank: NodeRank,
        inbox: Region<'m>,
        lanes: &'m mut [Lane],
        cost: Cost,
    ) -> Result<Self, Cause> {
        let NodeRank { first, identity } = rank;
        let inbox = Inbox::open(inbox)?;
        if inbox.identity != identity {
            return Err(Cause::BadRegion);
        }
        let (have, need) = (lanes.len(), inbox.geometry.lane_entries().saturating_add(first.index()));
        let Some(lanes) = lanes.get_mut(..need) else {
            return Err(Cause::TooSmall {
                what: Resource::Peers,
                need: need.try_into().unwrap_or(u32::MAX),
                have: have as u32,
            });
        };
        let peers = inbox.geometry.peers as usize + first.index();
        let Geometry { block_bytes, .. } = inbox.geometry;
        let sleep = NodeSleep::of(&inbox);
        let features = Features::SHORT | Features::BCOPY | Features::ORDERED | Features::RELIABLE;
        let limits =
            Limits { short_bytes_max: SHORT_BYTES, bcopy_bytes_max: block_bytes, ..Limits::default() };
        Ok(Self {
            lanes: LaneTable::new(lanes, peers),
            first: first.0,
            block_bytes,
            poll_set: PollSet::default(),
            waiting: LaneQueue::default(),
            #[cfg(target_pointer_width = "64")]
            shared: SharedInbox::new(&inbox),
            senders_turn: false,
            caps: Caps { features, limits, cost, ..Caps::default() },
            sets: core::array::from_fn(|set| inbox.own_set(set as u32)),
            inbox,
            gauge: Gauge::new(),
            ranks_per_node: 0,
            #[cfg(target_pointer_width = "64")]
            pair_ways: PairWays::default(),
            alarm: Alarm::default(),
            sleep,
        })
    }

    /// Takes nodes of the job for runs of so many ranks, the last of them for what is left; 0 if
    /// that is not known, as it is at first. The same on every rank of the job.
    #[must_use]
    pub fn with_ranks_per_node(mut self, ranks: u32) -> Self {
        self.ranks_per_node = ranks;
        self
    }

    /// Has the records by which all ranks of the node carry out collectives together in a table
    /// that they share beside their inboxes, of
    /// [so many bytes](Geometry::record_table_bytes): with many ranks those that each of them reads
    /// stand on few pages then, not on one of every inbox. All ranks of the node do that, or none:
    /// else they wait for each other's records until their deadlines. Before any is attached.
    ///
    /// # Errors
    /// [`Cause::BadRegion`] for a table that is shorter or not aligned to 64 bytes (128 are best),
    /// [`Cause::Stale`] once a rank is attached or a set is open.
    #[cfg(target_pointer_width = "64")]
    pub fn with_record_table(mut self, table: RecordTable<'m>) -> Result<Self, Cause> {
        let is_used = self.sets.iter().flatten().any(|own| own.context != 0);
        if is_used || self.lanes.iter().any(|peer| peer.state != LaneState::Vacant) {
            return Err(Cause::Stale);
        }
        self.inbox.use_record_table(table)?;
        self.sets = core::array::from_fn(|set| self.inbox.own_set(set as u32));
        Ok(self)
    }

    /// Takes this for the distance of all peers, and measures none. Before any is attached.
    #[must_use]
    pub fn with_distance(mut self, distance: Distance) -> Self {
        self.gauge.give(distance);
        self
    }

    /// Takes data of so many bytes, or more, to pass between two ranks sooner than in chunks of
    /// control slots, as somebody has measured; without a reader none are read. The same on every
    /// rank of the job.
    #[cfg(target_pointer_width = "64")]
    pub fn pass_between_pairs(
        &mut self,
        lengths: PairLengths,
        reader: Option<&'m mut (dyn PeerReader + 'static)>,
    ) {
        let read_bytes_min = if reader.is_some() { lengths.read_bytes_min } else { 0 };
        self.pair_ways = PairWays { lengths: PairLengths { read_bytes_min, ..lengths }, reader };
    }

    /// Takes these stores for the best ones to write for a core that shares no cache with this
    /// rank's, as somebody has measured; past the caches if nobody has.
    pub fn set_far_store(&mut self, store: Store) {
        self.gauge.give_far_store(store);
    }

    /// Gives this rank the way to wake others: `ring` has the system wake all that sleep on the
    /// word, also in other processes. It is called after a message to a rank that sleeps. `noted`
    /// is a word of this rank's own memory, zero at first, for what it waits for.
    #[must_use]
    pub fn with_alarm(mut self, ring: fn(&AtomicU32), noted: &'m AtomicU32) -> Self {
        self.alarm = Alarm::new(ring);
        self.sleep.iter_mut().for_each(|sleep| sleep.noted = Some(noted));
        self
    }

    /// Lets this rank sleep on no word, for this reason, which users are told.
    pub fn refuse_sleep(&mut self, remark: &'static str) {
        for sleep in &mut self.sleep {
            (sleep.noted, sleep.remark) = (None, Some(remark));
        }
    }

    /// Returns the words by which this rank says that it sleeps, once it has a way to wake others
    /// and is attached to rank 0 of the node, in whose inbox sleepers are counted; `None` before,
    /// and where no rank sleeps.
    pub fn sleep_words(&self) -> Option<SleepWords<'m>> {
        let NodeSleep { sleepers, noted, .. } = self.sleep.first()?;
        let is_counted = self.inbox.identity.owner == PeerId(0)
            || self.lanes.peer(self.first).is_some_and(|peer| peer.state != LaneState::Vacant);
        let noted = noted.filter(|_| is_counted)?;
        Some(SleepWords { asleep: &self.inbox.header.first()?.asleep, sleepers, noted })
    }

    /// Returns the distance of a peer's core, if it is known yet.
    pub fn distance(&self, peer: PeerId) -> Option<Distance> {
        self.lanes.peer(peer.0).filter(|peer| peer.state == LaneState::Open)?.distance.known()
    }

    /// Joins the lane to `peer` and the lane from it. `inbox` is the peer's inbox, mapped here;
    /// `expect` is what wire-up said of it. Messages that the peer has sent before are delivered
    /// from the next poll on.
    ///
    /// Where lanes are fewer than peers the inbox is not looked at, but for that of rank 0, before
    /// the first message is sent there: then that is refused for what would be an error here.
    ///
    /// # Errors
    /// [`Cause::BadRegion`] if the inbox is not the expected peer's of this job;
    /// [`Cause::Incompatible`] for another geometry; [`Cause::Unreachable`] for this rank itself or
    /// one beyond the geometry; [`Cause::Stale`] for a peer that is or was attached already; the
    /// rest as [`inspect`](super::inspect).
    #[inline(never)]
    pub fn attach(&mut self, peer: PeerId, inbox: Region<'m>, expect: Identity) -> Result<(), Cause> {
        let me = self.inbox.identity;
        let number = PeerId(peer.0.wrapping_sub(self.first));
        let is_shared = SHARES && self.inbox.geometry.is_shared();
        let is_met = !is_shared || number == PeerId(0);
        let theirs = if is_met { Inbox::open(inbox) } else { self.inbox.assume(inbox, expect) };
        let theirs = match &theirs {
            Ok(theirs) => theirs,
            Err(cause) => return Err(*cause),
        };
        if theirs.identity != expect || expect.owner != number || expect.job != me.job {
            return Err(Cause::BadRegion);
        }
        if theirs.geometry != self.inbox.geometry {
            return Err(Cause::Incompatible);
        }
        let lane = self.lanes.peer_mut(peer.0).ok_or(Cause::Unreachable)?;
        if lane.state != LaneState::Vacant {
            return Err(Cause::Stale);
        }
        #[cfg(target_pointer_width = "64")]
        if is_shared {
            self.shared.meet(&self.inbox, theirs, number)?;
            (lane.path.is_met, lane.path.epoch) = (is_met, expect.epoch);
        }
        if !is_shared {
            let incoming = self.inbox.incoming(number).ok_or(Cause::Unreachable)?;
            let outgoing = theirs.outgoing(me.owner).ok_or(Cause::Unreachable)?;
            #[cfg(target_pointer_width = "64")]
            if !self.lanes.take_ends(peer.0, RingSender::CLOSED) {
                return Err(Cause::Unreachable);
            }
            let pair = self.lanes.pair_mut(peer.0).ok_or(Cause::Unreachable)?;
            (pair.ends.outgoing, pair.ends.incoming) = (outgoing, incoming);
        }
        let lane = self.lanes.peer_mut(peer.0).ok_or(Cause::Unreachable)?;
        #[cfg(target_pointer_width = "64")]
        {
            lane.sets = theirs.sets();
        }
        if MEASURES {
            lane.distance = self.gauge.first();
        }
        if number == PeerId(0)
            && let (Some(sleep), Some(header)) = (self.sleep.first_mut(), theirs.header.first())
        {
            sleep.sleepers = &header.sleepers;
        }
        lane.state = LaneState::Open;
        if !is_shared {
            self.poll_set.insert(&mut self.lanes, peer.0);
        }
        Ok(())
    }

    /// Returns the geometry by which the job's inboxes are divided.
    pub fn geometry(&self) -> Geometry {
        self.inbox.geometry
    }
}

pub(super) fn too_big(len: usize, max: u32) -> Cause {
    Cause::TooBig { len: len as u64, max: u64::from(max) }
}

/// The messages that one poll takes from one lane.
#[derive(Clone, Copy)]
struct Burst {
    from: PeerId,
    block_bytes: u32,
    /// Messages at most.
    most: u32,
    /// The way in which a sender that waits for credit is woken.
    alarm: Alarm,
}

/// Delivers the messages of one lane; returns how many fewer, and what was wrong with the
/// next, which may be a record.
#[inline(always)]
fn drain<S: Sink>(lane: &mut LaneEnds, burst: Burst, sink: &mut S) -> (u32, Option<Malformed>) {
    let Burst { from, block_bytes, most, alarm } = burst;
    let mut left = most;
    while left != 0 {
        let (message, block, head) = match lane.incoming.next(block_bytes) {
            NextMessage::Empty => break,
            NextMessage::Short(message, head) => (message, None, head),
            NextMessage::Block(block, len, head) => {
                #[cfg(target_pointer_width = "64")]
                lane.incoming.ask_for_block_after(block_bytes);
                let start = lane.incoming.blocks().wrapping_add(block as usize * block_bytes as usize);
                // SAFETY: `next` has checked both numbers against the geometry, and the region
                // holds all of its blocks. The sender filled this one before it announced it and
                // leaves it alone until the end advances, below.
                (unsafe { slice::from_raw_parts(start, len as usize) }, Some(block), head)
            }
            #[cfg(target_pointer_width = "64")]
            NextMessage::Lent(..) if !lane.outgoing.is_open() => return (left, Some(Malformed::Length)),
            NextMessage::Lent(block, len, head) => {
                let start = lane.outgoing.blocks().wrapping_add(block as usize * block_bytes as usize);
                lane.outgoing.answered();
                lane.set_warm(true);
                // SAFETY: as above, in the peer's region: the lane back has the same geometry. As a
                // sender the block is this side's, which fills none while the message is borrowed.
                (unsafe { slice::from_raw_parts(start.cast_const(), len as usize) }, None, head)
            }
            NextMessage::Fault(what) => return (left, Some(what)),
        };
        if let Err(what) = lane.outgoing.take_credit(head) {
            return (left, Some(what));
        }
        sink.arrived(from, message);
        if let Some(block) = block {
            lane.incoming.hold(block, lane.outgoing.position());
        }
        lane.incoming.advance(head, block);
        left -= 1;
    }
    if left != most {
        if lane.incoming.settle() && WAKES {
            lane.outgoing.rouse(alarm);
        }
        if left != 0 {
            lane.outgoing.received_all();
            // A sender that gets no messages back learns no credit from their heads, and is to see
            // that its lane is empty: it may have other use for its ends.
            #[cfg(target_pointer_width = "64")]
            if !lane.outgoing.is_open() {
                lane.incoming.publish();
            }
        }
    }
    (left, None)
}

/// The slot that announces a message being written.
pub(super) enum SlotClaim<'a> {
    /// A slot of a lane.
    Lane(Claim<'a>),
    /// A slot of a shared inbox, in which the message stands as well.
    #[cfg(target_pointer_width = "64")]
    Inbox(InboxClaim<'a>),
}

/// A message being written: in the ring slot itself if it is short, else in a block of the
/// receiver.
///
/// Nothing is taken before [`commit`](Slot::commit); dropped, it has changed nothing but bytes that
/// are never read.
pub struct ShmSlot<'a> {
    pub(super) claim: SlotClaim<'a>,
    pub(super) span: SharedSpan,
    pub(super) block: Option<u32>,
    /// The lane whose block it is, if it is lent.
    pub(super) lender: Option<&'a mut Incoming>,
    pub(super) consumed: u32,
    /// The stores by which it is written.
    pub(super) store: Store,
    pub(super) alarm: &'a Alarm,
}

impl Slot for ShmSlot<'_> {
    #[inline(always)]
    fn bytes(&mut self) -> &mut [u8] {
        self.span.bytes()
    }

    #[inline]
    fn write(&mut self, header: &[u8], payload: &[u8]) {
        if let Some((head, body)) = self.span.bytes().split_at_mut_checked(header.len()) {
            copy(head, header);
            if MEASURES { publish(body, payload, self.store) } else { copy(body, payload) }
        }
    }

    #[inline(always)]
    fn commit(self) {
        let len = self.span.len() as u32;
        let claim = match self.claim {
            SlotClaim::Lane(claim) => claim,
            #[cfg(target_pointer_width = "64")]
            SlotClaim::Inbox(claim) => return claim.send(About::Message(len), *self.alarm),
        };
        match (self.block, self.lender.filter(|_| USES_PING_PONG)) {
            (None, _) => claim.send_filled(len, self.consumed, self.alarm),
            (Some(block), None) => claim.send_block(block, len, self.consumed, self.alarm),
            (Some(block), Some(lender)) => {
                lender.lend();
                claim.send_lent(block, len, self.consumed, self.alarm);
            }
        }
    }
}

impl Transport for Shm<'_> {
    type Slot<'a>
        = ShmSlot<'a>
    where
        Self: 'a;

    fn name(&self) -> &'static str {
        "shm"
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        match self.lanes.peer(peer.0).map(|peer| peer.state) {
            Some(LaneState::Open) => Ok(&self.caps),
            _ => Err(self.unusable(peer)),
        }
    }

    #[inline(always)]
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        let Some(message) = Short::new(header, payload) else {
            return Post::Never(too_big(header.len() + payload.len(), SHORT_BYTES));
        };
        // Once more after a look for room, if that is needed.
        for _ in 0..2 {
            if let Some(LanePair { ends, .. }) = self.lanes.pair_mut(peer.0) {
                let consumed = ends.incoming.consumed();
                if let Some(claim) = ends.outgoing.claim() {
                    claim.send(message, consumed, &self.alarm);
                    return Post::Done;
                }
            }
            match self.find_room(peer, false) {
                Ok(SendPath::Lane) => {}
                #[cfg(target_pointer_width = "64")]
                Ok(SendPath::Inbox) => return self.short_by_inbox(peer, header, payload),
                Err(refusal) => return refusal.into(),
            }
        }
        Post::Again(Again::NoSlot)
    }

    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<ShmSlot<'_>, Refusal> {
        if len > self.block_bytes as usize && len > SHORT_BYTES as usize {
            return Err(Refusal::Never(too_big(len, self.block_bytes)));
        }
        let large = len > SHORT_BYTES as usize;
        let held = |ends: &LaneEnds| {
            ends.incoming.held(ends.outgoing.position()).filter(|_| USES_PING_PONG && large)
        };
        let has_block = |ends: &LaneEnds| held(ends).or_else(|| ends.outgoing.free_block()).is_some();
        let enough = |ends: &LaneEnds| ends.outgoing.has_slot() && (!large || has_block(ends));
        if !self.lanes.ends(peer.0).is_some_and(enough) {
            match self.find_room(peer, large)? {
                SendPath::Lane => {}
                #[cfg(target_pointer_width = "64")]
                SendPath::Inbox => return self.reserve_in_inbox(peer, len),
            }
        }
        let mut pair = self.lanes.pair_mut(peer.0).ok_or(Refusal::Never(Cause::Unreachable))?;
        let (held, consumed) = (held(pair.ends), pair.ends.incoming.consumed());
        if MEASURES && large && pair.ends.outgoing.position().is_multiple_of(BLOCKS_A_LOOK) {
            pair.look_at_credit(&self.gauge);
        }
        let LanePair { peer, ends } = pair;
        let store = peer.distance.store_of_block(len, held.is_some() || ends.is_warm, &self.gauge);
        if large {
            ends.set_warm(false);
        }
        let LaneEnds { outgoing, incoming, .. } = ends;
        let blocks = if held.is_some() { incoming.blocks().cast_mut() } else { outgoing.blocks() };
        let block = match held.or_else(|| outgoing.free_block()) {
            None if large => return Err(Refusal::Again(Again::NoCredit)),
            free => free.filter(|_| large),
        };
        let Some(mut claim) = outgoing.claim() else { return Err(Refusal::Again(Again::NoSlot)) };
        let start = match block {
            None => claim.payload(),
            Some(block) => blocks.wrapping_add(block as usize * self.block_bytes as usize),
        };
        // SAFETY: the slot or block is free, hence this sender's alone until the claim sends it, or
        // it is held, and the peer leaves it alone until it hears of its release; `len` is at most
        // its size, the region holds all of the geometry's slots and blocks, and shared memory is
        // initialised.
        let span = unsafe { SharedSpan::new(start, len) };
        Ok(ShmSlot {
            claim: SlotClaim::Lane(claim),
            span,
            block,
            lender: held.map(|_| incoming),
            consumed,
            store,
            alarm: &self.alarm,
        })
    }

    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        let Quiesce::Peer(peer) = what else { return Err(Cause::Stale) };
        let lane = self.lanes.peer(peer.0).ok_or(Cause::Stale)?;
        if lane.state == LaneState::Vacant {
            return Err(Cause::Stale);
        }
        self.close(peer.0, LaneState::Closed);
        Ok(())
    }

    #[inline(always)]
    fn poll<S: Sink>(&mut self, budget: u32, _now: Instant, sink: &mut S) -> u32 {
        let mut left = budget;
        if self.waiting.len != 0 {
            // Halves, so that neither readiness nor arrivals starve; the odd event is given to each
            // in turn.
            self.senders_turn = !self.senders_turn;
            let share = if self.senders_turn { budget.div_ceil(2) } else { budget / 2 };
            left -= self.poll_waiting(share, sink);
        }
        #[cfg(target_pointer_width = "64")]
        if self.shared.exists {
            left -= self.poll_share_of_inbox(left, sink);
        }
        let mut turns = self.poll_set.len;
        while turns != 0 && left != 0 {
            turns -= 1;
            let place = self.poll_set.turn;
            let Some(ends) = self.lanes.at_mut(place) else { break };
            self.poll_set.turn = PollSet::after(ends);
            let (index, most) = (LaneTable::peer_of(ends, place), left.min(BURST));
            let burst = Burst { from: PeerId(index), block_bytes: self.block_bytes, most, alarm: self.alarm };
            let (spared, fault) = drain(ends, burst, sink);
            left -= most - spared;
            if let Some(what) = fault {
                left -= self.end_burst(index, what, sink);
                turns = turns.min(self.poll_set.len);
            }
        }
        #[cfg(target_pointer_width = "64")]
        if self.shared.exists {
            left -= self.poll_inbox(left, sink);
            left -= self.poll_departures(left, sink);
        }
        budget - left
    }

    fn features(&self) -> Features {
        self.caps.features
    }
}

impl Extras for Shm<'_> {
    const HAS_CONTROL_SLOTS: bool = Geometry::SETS_MAX > 0;

    fn survey(&self, peer: PeerId, mut visit: impl FnMut(Route<'_>)) {
        let caps = Transport::reach(self, peer);
        let stores = caps.is_ok().then(|| self.gauge.remark(self.distance(peer)));
        let rest = self.sleep.first().and_then(|sleep| sleep.remark);
        visit(Route { transport: self.name(), caps, remark: None, stores: stores.flatten(), rest });
    }

    fn store(&mut self, peer: PeerId) -> Store {
        let Some(mut pair) = self.lanes.pair_mut(peer.0) else { return Store::Plain };
        if MEASURES && self.gauge.measures() && pair.peer.distance.is_due() {
            // The peer is to find a line that was written here, as this rank finds one of its.
            pair.ends.incoming.publish();
            pair.ends.outgoing.rouse(self.alarm);
            pair.look_at_credit(&self.gauge);
        }
        pair.peer.distance.store(&self.gauge)
    }

    #[inline]
    fn has_news(&self, peer: PeerId) -> bool {
        if !PEEKS || self.lanes.ends(peer.0).is_some_and(|ends| ends.incoming.is_there()) {
            return true;
        }
        #[cfg(target_pointer_width = "64")]
        if self.shared.exists {
            return self.inbox.shared().has_news();
        }
        false
    }

    #[cfg(target_pointer_width = "64")]
    fn tells_departure(&self, peer: PeerId) -> bool {
        self.has_log(peer)
    }

    #[cfg(target_pointer_width = "64")]
    fn depart(&mut self) {
        self.enter_log();
    }

    fn control_slots(&mut self) -> Option<&mut dyn SharedControl> {
        if Self::HAS_CONTROL_SLOTS && self.inbox.geometry.sets > 0 { Some(self) } else { None }
    }
}

impl RemoteMemory for Shm<'_> {}

impl fmt::Debug for Shm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inbox, poll_set, waiting, .. } = self;
        f.debug_struct("Shm")
            .field("inbox", inbox)
            .field("circle", poll_set)
            .field("waiting", waiting)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ShmSlot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShmSlot").field("len", &self.span.len()).field("block", &self.block).finish()
    }
}
