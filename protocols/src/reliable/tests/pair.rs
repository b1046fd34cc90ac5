//! Two links, what their callers keep, and a network between them that does what a plan says, under
//! virtual time. Every promise is checked where it could be broken; the first that is broken ends
//! the run.

use std::collections::{BTreeMap, BTreeSet};
use std::string::String;
use std::vec::Vec;
use std::{format, vec};

use aldis_hal::Instant;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::super::{
    DeliveryOrder, Frame, FrameFate, FrameKind, Link, LinkConfig, LinkEnds, Transmit, open, seal,
};
use crate::sabotage::{Defect, planted};

/// A description of the invariant that was broken.
pub(super) type Broken = String;

macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => {
        if !$condition {
            return Err(format!($($text)*));
        }
    };
}

/// The test's times: round trips of about 10 us.
pub(super) const CONFIG: LinkConfig = LinkConfig {
    window: 16,
    order: DeliveryOrder::InOrder,
    rto_first_ns: 60_000,
    rto_min_ns: 20_000,
    rto_max_ns: 640_000,
    ack_delay_ns: 3_000,
    silence_ns: 2_000_000,
    give_up_ns: 1_000_000_000_000,
};

/// The behaviour of the network and the callers until `heals_ns`; after that all is well. Shares
/// are of 100.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairPlan {
    pub(super) seed: u64,
    /// All but the windows, which are the sides' own.
    pub(super) config: LinkConfig,
    pub(super) windows: [u8; 2],
    /// The connection numbers of the two sides, and so their first sequence numbers.
    pub(super) numbers: [u32; 2],
    pub(super) messages: [u32; 2],
    pub(super) lost: u64,
    pub(super) repeated: u64,
    pub(super) corrupted: u64,
    /// Frames of another connection thrown in.
    pub(super) foreign: u64,
    /// The share of early payloads for which a caller has no place.
    pub(super) dropped_early: u64,
    /// True if the callers' room changes.
    pub(super) cramped: bool,
    pub(super) delay_ns: (u64, u64),
    pub(super) heals_ns: u64,
}

/// A perfect network.
pub(super) const CALM: PairPlan = PairPlan {
    seed: 1,
    config: CONFIG,
    windows: [16, 16],
    numbers: [u32::MAX - 3, 0x7FFF_FFFE],
    messages: [40, 40],
    lost: 0,
    repeated: 0,
    corrupted: 0,
    foreign: 0,
    dropped_early: 0,
    cramped: false,
    delay_ns: (4_000, 4_000),
    heals_ns: 0,
};

impl PairPlan {
    fn config_of(&self, i: usize) -> LinkConfig {
        LinkConfig { window: self.windows[i], ..self.config }
    }
}

/// `splitmix64` (Steele, Lea and Flood, 2014).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A link and its caller. Payloads are known by their index: what `u32` number is `first + index`.
pub(super) struct LinkSide {
    pub(super) link: Link,
    first: u32,
    peer_first: u32,
    ring: Vec<Option<u32>>,
    early: Vec<Option<Vec<u8>>>,
    queued: u32,
    pub(super) released: u32,
    transmitted: u32,
    /// Of this side's payloads: those whose acknowledgement was received.
    acknowledged: BTreeSet<u32>,
    /// Of the peer's payloads: those handed up.
    pub(super) delivered: BTreeSet<u32>,
    /// Most that the peer has allowed, as an index.
    allowed: u32,
}

impl LinkSide {
    fn new(plan: &PairPlan, i: usize) -> Self {
        let config = plan.config_of(i);
        let slots = usize::from(config.window);
        let (ours, theirs, peer_window) = (plan.numbers[i], plan.numbers[1 - i], plan.windows[1 - i]);
        let ends = LinkEnds { ours, theirs, peer_window };
        Self {
            link: Link::open(&config, ends, Instant(0)),
            first: theirs,
            peer_first: ours,
            ring: vec![None; slots],
            early: vec![None; slots],
            queued: 0,
            released: 0,
            transmitted: 0,
            acknowledged: BTreeSet::new(),
            delivered: BTreeSet::new(),
            allowed: u32::from(peer_window),
        }
    }
}

fn payload(side: usize, index: u32) -> Vec<u8> {
    let mut bytes = index.to_le_bytes().to_vec();
    bytes.resize(4 + (index as usize * 7) % 31, side as u8);
    bytes
}

/// A rule by which a test loses frames of its choice: the sender and the frame.
pub(super) type Filter = fn(&mut Random, usize, &Frame) -> bool;

pub(super) struct Pair {
    pub(super) plan: PairPlan,
    pub(super) now: u64,
    pub(super) sides: [LinkSide; 2],
    pub(super) loses: Filter,
    random: Random,
    network: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    frames: u64,
    room_changes_ns: u64,
}

impl Pair {
    pub(super) fn new(plan: PairPlan) -> Self {
        Self {
            plan,
            now: 0,
            sides: [0, 1].map(|i| LinkSide::new(&plan, i)),
            loses: |_, _, _| false,
            random: Random(plan.seed),
            network: BTreeMap::new(),
            frames: 0,
            room_changes_ns: 7_000,
        }
    }

    fn heals(&self) -> bool {
        self.now >= self.plan.heals_ns
    }

    pub(super) fn is_done(&self) -> bool {
        (0..2).all(|i| {
            let (side, messages) = (&self.sides[i], self.plan.messages[i]);
            side.released == messages && self.sides[1 - i].delivered.len() == messages as usize
        })
    }

    /// The time at which all must be done: a few of the longest time-outs after the network has
    /// healed, then at worst a frame for each round trip.
    fn deadline(&self) -> u64 {
        let round = 2 * self.plan.delay_ns.1 + self.plan.config.ack_delay_ns;
        let frames = u64::from(self.plan.messages[0] + self.plan.messages[1]);
        self.plan.heals_ns + 5 * self.plan.config.rto_max_ns + 2 * frames * round
    }

    /// Runs until everything has arrived and is released.
    pub(super) fn run(&mut self) -> Result<(), Broken> {
        self.pump(0)?;
        self.pump(1)?;
        while !self.is_done() {
            self.step()?;
            ensure!(self.now <= self.deadline(), "not done in time: {:?}", self.plan);
        }
        for (i, side) in self.sides.iter().enumerate() {
            ensure!(side.link.is_idle(), "side {i} believes that something is left");
            let sent = side.link.counters().sent - side.link.counters().repeated;
            ensure!(sent == self.plan.messages[i], "side {i} counts {sent} payloads");
        }
        Ok(())
    }

    /// The next thing that happens.
    pub(super) fn step(&mut self) -> Result<(), Broken> {
        let timers = self.sides.iter().filter_map(|side| side.link.poll_timeout()).map(|at| at.0);
        let arrivals = self.network.keys().next().map(|&(at, _)| at);
        let rooms = self.plan.cramped.then_some(self.room_changes_ns);
        let next = timers.chain(arrivals).chain(rooms).min();
        let Some(next) = next else { return Err("nothing is left to happen".into()) };
        ensure!(next >= self.now, "a timer in the past: {next} at {}", self.now);
        self.now = next;
        if rooms == Some(next) {
            self.change_rooms();
        }
        while let Some(entry) = self.network.first_entry().filter(|entry| entry.key().0 <= next) {
            let (to, bytes) = entry.remove();
            self.arrive(to, &bytes)?;
            self.pump(to)?;
        }
        for i in 0..2 {
            let link = &mut self.sides[i].link;
            link.handle_timeout(&self.plan.config_of(i), Instant(next))
                .map_err(|cause| format!("{cause}"))?;
            self.pump(i)?;
            let timer = self.sides[i].link.poll_timeout();
            ensure!(timer.is_none_or(|at| at.0 > next), "a timer that has passed is still set");
        }
        Ok(())
    }

    fn change_rooms(&mut self) {
        self.room_changes_ns = self.now + 1 + self.random.below(60_000);
        for i in 0..2 {
            let config = self.plan.config_of(i);
            let room = if self.heals() {
                config.window
            } else {
                self.random.below(u64::from(config.window) / 4) as u8
            };
            self.sides[i].link.set_room(&config, room);
        }
        if self.heals() {
            self.plan.cramped = false;
        }
    }

    /// Queues what can be queued and sends what is due.
    pub(super) fn pump(&mut self, i: usize) -> Result<(), Broken> {
        let (config, now) = (self.plan.config_of(i), Instant(self.now));
        let side = &mut self.sides[i];
        while side.queued < self.plan.messages[i] {
            let Some(sequence) = side.link.queue(&config, now) else { break };
            ensure!(sequence == side.first.wrapping_add(side.queued), "numbers are not consecutive");
            let slot = &mut side.ring[config.slot(sequence)];
            ensure!(slot.is_none(), "the slot of {slot:?} is given to {}", side.queued);
            *slot = Some(side.queued);
            side.queued += 1;
        }
        for turn in 0.. {
            let Some(transmit) = self.sides[i].link.poll_transmit() else { break };
            ensure!(turn < 2 * u32::from(config.window) + 3, "it never stops sending");
            ensure!(self.sides[i].link.poll_transmit() == Some(transmit), "asking changes the answer");
            self.sides[i].link.transmitted(&config, &transmit, now);
            self.send(i, transmit)?;
        }
        Ok(())
    }

    fn send(&mut self, i: usize, transmit: Transmit) -> Result<(), Broken> {
        let side = &mut self.sides[i];
        let mut bytes = Vec::new();
        if let Some(sequence) = transmit.payload {
            let index = sequence.wrapping_sub(side.first);
            ensure!(
                side.ring[self.plan.config_of(i).slot(sequence)] == Some(index),
                "payload {index} is not in its slot"
            );
            ensure!(
                index < side.allowed,
                "payload {index} is sent where the peer has allowed {}",
                side.allowed
            );
            ensure!(!side.acknowledged.contains(&index), "payload {index} is sent though it has arrived");
            if index < side.transmitted && planted(Defect::NeverRepeats) {
                return Ok(());
            }
            side.transmitted = side.transmitted.max(index + 1);
            bytes = payload(i, index);
        }
        let frame = seal(transmit.frame, &bytes).ok_or("a frame that cannot be sealed")?;
        if (self.loses)(&mut self.random, i, &frame) {
            return Ok(());
        }
        let mut wire = [frame.as_bytes(), &bytes].concat();
        if self.heals() {
            self.enqueue(1 - i, wire);
            return Ok(());
        }
        if self.random.chance(self.plan.lost) {
            return Ok(());
        }
        if self.random.chance(self.plan.foreign) {
            let connection = U32::new(frame.connection.get() ^ (1 << self.random.below(32)));
            let foreign = seal(Frame { connection, ..frame }, b"foreign").unwrap_or(frame);
            self.enqueue(1 - i, [foreign.as_bytes(), b"foreign"].concat());
        }
        if self.random.chance(self.plan.repeated) {
            self.enqueue(1 - i, wire.clone());
        }
        if self.random.chance(self.plan.corrupted) {
            let bit = self.random.below(8 * wire.len() as u64) as usize;
            wire[bit / 8] ^= 1 << (bit % 8);
        }
        self.enqueue(1 - i, wire);
        Ok(())
    }

    fn enqueue(&mut self, to: usize, mut wire: Vec<u8>) {
        wire.resize(wire.len().max(46), 0xEE);
        let (least, most) = self.plan.delay_ns;
        let delay = if self.heals() { most } else { least + self.random.below(most - least + 1) };
        self.frames += 1;
        self.network.insert((self.now + delay, self.frames), (to, wire));
    }

    /// The frame, unless the network has spoilt it.
    fn read<'b>(&self, bytes: &'b [u8]) -> Option<(Frame, &'b [u8])> {
        if planted(Defect::TrustsChecksum) {
            let (frame, rest) = Frame::read_from_prefix(bytes).ok()?;
            return Some((frame, rest.get(..usize::from(frame.length.get()))?));
        }
        open(bytes).ok().map(|(frame, body)| (*frame, body))
    }

    fn arrive(&mut self, i: usize, bytes: &[u8]) -> Result<(), Broken> {
        let Some((mut frame, body)) = self.read(bytes) else { return Ok(()) };
        let stale = frame.connection.get() != self.sides[i].peer_first;
        if stale && planted(Defect::AdmitsStale) {
            frame.connection = U32::new(self.sides[i].peer_first);
        }
        if planted(Defect::IgnoresBitmap) {
            frame.bitmap = U64::ZERO;
        }
        let config = self.plan.config_of(i);
        let side = &mut self.sides[i];
        let index = frame.sequence.get().wrapping_sub(side.peer_first);
        if planted(Defect::ForgetsDuplicates)
            && frame.kind() == Ok(FrameKind::Data)
            && side.delivered.contains(&index)
        {
            return Ok(());
        }
        let taken = side
            .link
            .handle_frame(&config, &frame, Instant(self.now))
            .map_err(|malformed| format!("an honest frame is refused: {malformed}"))?;
        ensure!(
            stale == (taken.fate == FrameFate::Stale) || planted(Defect::AdmitsStale),
            "stale or not: {taken:?}"
        );
        if !stale {
            self.note(i, &frame);
        }
        let extra = u32::from(planted(Defect::ReleasesEarly) && taken.released > 0);
        self.release(i, taken.released + extra)?;
        match taken.fate {
            FrameFate::Deliver => self.deliver(i, index, body)?,
            FrameFate::Duplicate if planted(Defect::HandsUpTwice) => self.deliver(i, index, body)?,
            FrameFate::Store if !self.heals() && self.random.chance(self.plan.dropped_early) => {
                if planted(Defect::ClaimsStored) {
                    self.sides[i].link.stored(frame.sequence.get());
                }
            }
            FrameFate::Store => self.store(i, frame.sequence.get(), body)?,
            FrameFate::Duplicate | FrameFate::None | FrameFate::Stale => {}
        }
        while let Some(sequence) = self.sides[i].link.next_stored() {
            let index = sequence.wrapping_sub(self.sides[i].peer_first);
            let body = self.sides[i].early[config.slot(sequence)].take().ok_or("nothing is stored there")?;
            self.deliver(i, index, &body)?;
        }
        Ok(())
    }

    /// Notes what the frame says to side `i` about its payloads.
    fn note(&mut self, i: usize, frame: &Frame) {
        let side = &mut self.sides[i];
        let cumulative = frame.cumulative.get().wrapping_sub(side.first);
        if cumulative <= side.transmitted {
            side.acknowledged.extend(side.released..cumulative);
            let bits = (0..64).filter(|bit| frame.bitmap.get() >> bit & 1 == 1);
            side.acknowledged.extend(bits.map(|bit| cumulative + 1 + bit));
        }
        let limit = frame.limit.get().wrapping_sub(side.first);
        side.allowed = side.allowed.max(limit);
    }

    fn release(&mut self, i: usize, count: u32) -> Result<(), Broken> {
        for _ in 0..count {
            let index = self.sides[i].released;
            let peer = &self.sides[1 - i];
            let sequence = self.sides[i].first.wrapping_add(index);
            let stored = peer.early[self.plan.config_of(1 - i).slot(sequence)].as_deref()
                == Some(&payload(i, index)[..]);
            ensure!(
                peer.delivered.contains(&index) || stored,
                "payload {index} is released and has not arrived"
            );
            ensure!(
                self.sides[i].ring[self.plan.config_of(i).slot(sequence)].take() == Some(index),
                "payload {index} is released twice"
            );
            self.sides[i].released += 1;
        }
        Ok(())
    }

    fn store(&mut self, i: usize, sequence: u32, body: &[u8]) -> Result<(), Broken> {
        let slot = &mut self.sides[i].early[self.plan.config_of(i).slot(sequence)];
        ensure!(slot.is_none(), "the slot of {sequence} is taken");
        *slot = Some(body.to_vec());
        self.sides[i].link.stored(sequence);
        Ok(())
    }

    fn deliver(&mut self, i: usize, index: u32, body: &[u8]) -> Result<(), Broken> {
        ensure!(body == payload(1 - i, index), "payload {index} is not what was sent");
        let next = self.sides[i].delivered.len() as u32;
        let ordered = self.plan.config.order == DeliveryOrder::Unordered || index == next;
        ensure!(ordered, "payload {index} where {next} is next");
        ensure!(self.sides[i].delivered.insert(index), "payload {index} is handed up twice");
        Ok(())
    }
}
