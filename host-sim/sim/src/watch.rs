//! An observer of every message between two kernels, where it goes into a transport and where it
//! comes out. It knows the wire format and the promises of protocol and transport, and nothing of
//! how the kernel keeps them.
//!
//! For each ordered pair of ranks:
//! - every message comes out once, as it went in, in the order in which it went in;
//! - messages that take part in matching are numbered without a gap;
//! - none goes in beyond the credits of which its sender can know, and none of its blocks;
//! - credits are never taken back, and never promise more than the receiver has room for;
//! - a rank that asks another for contact is answered in time, or told that the other has ended.
//!
//! Numbers and credits of a contact count from its first message. A pair of which one has died is
//! not watched any more: its next life counts from the start.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use aldis_kernel::protocols::INLINE_BYTES;
use aldis_kernel::protocols::card::Room;
use aldis_kernel::protocols::credit::CreditLimits;
use aldis_kernel::protocols::header::{Header, Kind};

/// The invariant that has been broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invariant {
    /// A message is one of the wire format.
    Format,
    /// The messages that go in come out once, and in order.
    Stream,
    /// Matchable messages are numbered without a gap.
    Sequence,
    /// A sender stays within its credits.
    Credit,
    /// A receiver keeps to what it has granted, and grants no more than it has.
    Grant,
    /// A rank asks no other for contact for ever.
    Contact,
}

/// The longest that a rank asks for contact in vain, in virtual ns: several times what each of many
/// contacts may hold the rows of a rank that others ask.
const ASKING_NS_MAX: u64 = 5_000_000_000;

impl Invariant {
    const fn name(self) -> &'static str {
        match self {
            Self::Format => "wire format",
            Self::Stream => "once and in order",
            Self::Sequence => "sequence",
            Self::Credit => "credit",
            Self::Grant => "grant",
            Self::Contact => "contact",
        }
    }
}

/// An invariant that a message has broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// The rank that had sent the message.
    pub from: u32,
    /// The rank that it was sent to.
    pub to: u32,
    /// The message, and what is wrong with it.
    pub what: String,
}

impl Violation {
    /// The rank whose kernel or transport has broken it.
    pub const fn rank(&self) -> u32 {
        match self.invariant {
            Invariant::Stream => self.to,
            _ => self.from,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, from, to, what } = self;
        write!(f, "the invariant \"{}\" is broken from rank {from} to rank {to}: {what}", invariant.name())
    }
}

/// A message under way.
#[derive(Clone, Copy, Debug)]
struct Letter {
    digest: u64,
    header: Header,
    in_block: bool,
}

/// The messages that have been seen from one rank to another.
#[derive(Debug, Default)]
struct WatchedLane {
    under_way: VecDeque<Letter>,
    /// Messages that have come out.
    out: u64,
    /// Number of the next matchable message.
    sequence: u16,
    /// Matchable messages and blocks that have gone in, modulo 2^16.
    sent: CreditLimits,
    /// Matchable messages and blocks that have come out, modulo 2^16.
    arrived: CreditLimits,
    /// Limits that messages of this lane have carried in, and those that have come out; none yet if
    /// there is none.
    told: Option<CreditLimits>,
    known: Option<CreditLimits>,
    /// True from the sender's contact to its close.
    in_contact: bool,
    /// The time of the first contact that the sender has asked for and no answer has followed.
    asking_ns: Option<u64>,
}

/// Watches all pairs of a job whose ranks have the same room for each other.
#[derive(Debug)]
pub(crate) struct JobWatch {
    room: CreditLimits,
    lanes: Vec<BTreeMap<u32, WatchedLane>>,
    dead: BTreeSet<u32>,
    under_way: u64,
    violation: Option<Violation>,
}

impl JobWatch {
    pub(crate) fn new(ranks: u32) -> Self {
        let lanes = (0..ranks).map(|_| BTreeMap::new()).collect();
        Self { room: CreditLimits::default(), lanes, dead: BTreeSet::new(), under_way: 0, violation: None }
    }

    /// Every rank has told every other that it has so much room for it.
    pub(crate) fn granted(&mut self, room: Room) {
        self.room = CreditLimits { envelopes: room.envelopes, blocks: room.blocks };
    }

    /// The first violation, once.
    pub(crate) fn violation(&mut self) -> Option<Violation> {
        self.violation.take()
    }

    /// Messages that have gone in and not come out, of pairs that are watched.
    pub(crate) const fn under_way(&self) -> u64 {
        self.under_way
    }

    /// A rank is gone: no pair with it is watched any more.
    pub(crate) fn died(&mut self, rank: u32) {
        self.dead.insert(rank);
        for (from, lanes) in (0..).zip(&mut self.lanes) {
            for lane in lanes.iter().filter(|(to, _)| from == rank || **to == rank) {
                self.under_way -= lane.1.under_way.len() as u64;
            }
            lanes.retain(|to, _| from != rank && *to != rank);
        }
    }

    fn is_watched(&self, from: u32, to: u32) -> bool {
        let ranks = self.lanes.len() as u32;
        from < ranks && to < ranks && !self.dead.contains(&from) && !self.dead.contains(&to)
    }

    fn report(&mut self, invariant: Invariant, from: u32, to: u32, what: String) {
        self.violation.get_or_insert(Violation { invariant, from, to, what });
    }

    /// The kernel of `from` has handed a message for `to` to its transport, which has taken it.
    pub(crate) fn posted(&mut self, from: u32, to: u32, bytes: &[u8], now: u64) {
        if !self.is_watched(from, to) {
            return;
        }
        let header = match Header::parse(bytes) {
            Ok((header, _)) => header,
            Err(what) => return self.report(Invariant::Format, from, to, what.to_string()),
        };
        // The payload alone counts; a label in front of it does not.
        let is_whole = matches!(header.kind, Kind::Eager | Kind::Signed | Kind::Labelled);
        let in_block = is_whole && header.bytes() > INLINE_BYTES as u64;
        let lane = self.lanes[from as usize].entry(to).or_default();
        if header.kind == Kind::Close {
            lane.in_contact = false;
        } else if header.kind == Kind::Contact && !core::mem::replace(&mut lane.in_contact, true) {
            (lane.sequence, lane.sent) = (0, CreditLimits::default());
            lane.told = Some(header.limits);
            self.lanes[to as usize].entry(from).or_default().arrived = CreditLimits::default();
        }
        let back = self.lanes[to as usize].entry(from).or_default();
        let (limit, arrived, is_answered) = (back.known.unwrap_or(self.room), back.arrived, back.in_contact);
        if header.kind == Kind::Contact {
            back.asking_ns = None;
        }
        let room = self.room;
        let lane = self.lanes[from as usize].entry(to).or_default();
        let late = lane.ask(header.kind, is_answered, now);
        lane.under_way.push_back(Letter { digest: digest(bytes), header, in_block });
        self.under_way += 1;
        // A goodbye that answers a contact promises nothing.
        let grants = header.kind != Kind::Control || lane.in_contact;
        let broken = late.or_else(|| if grants { lane.grant(header.limits, arrived, room) } else { None });
        let broken = broken.or_else(|| lane.send(&header, in_block, limit));
        if let Some((invariant, what)) = broken {
            self.report(invariant, from, to, format!("{}: {what}", describe(&header)));
        }
    }

    /// The transport of `to` hands a message of `from` to its kernel.
    pub(crate) fn delivered(&mut self, from: u32, to: u32, bytes: &[u8]) {
        if !self.is_watched(from, to) {
            return;
        }
        let lane = self.lanes[from as usize].entry(to).or_default();
        let digest = digest(bytes);
        let Some(letter) = lane.under_way.front().copied().filter(|letter| letter.digest == digest) else {
            let what = lane.misplaced(digest, bytes);
            return self.report(Invariant::Stream, from, to, what);
        };
        lane.under_way.pop_front();
        self.under_way -= 1;
        lane.out += 1;
        if letter.header.kind.is_matchable() {
            lane.arrived.envelopes = lane.arrived.envelopes.wrapping_add(1);
        }
        if letter.in_block {
            lane.arrived.blocks = lane.arrived.blocks.wrapping_add(1);
        }
        lane.known = Some(letter.header.limits);
        if letter.header.kind == Kind::Control {
            // A goodbye ends the contact.
            lane.in_contact = false;
            let back = self.lanes[to as usize].entry(from).or_default();
            (back.in_contact, back.asking_ns) = (false, None);
        }
    }
}

impl WatchedLane {
    /// Keeps the time since which the sender asks for a contact, and the other has said nothing.
    fn ask(&mut self, kind: Kind, is_answered: bool, now: u64) -> Option<(Invariant, String)> {
        if kind != Kind::Contact || is_answered {
            self.asking_ns = None;
            return None;
        }
        let asks_ms = now.saturating_sub(*self.asking_ns.get_or_insert(now)) / 1_000_000;
        let what = || format!("it is not answered for {asks_ms} ms");
        (asks_ms > ASKING_NS_MAX / 1_000_000).then(|| (Invariant::Contact, what()))
    }

    /// Looks at the limits that a message of this lane carries to the other rank, of which so much
    /// has arrived here.
    fn grant(
        &mut self,
        limits: CreditLimits,
        arrived: CreditLimits,
        room: CreditLimits,
    ) -> Option<(Invariant, String)> {
        let before = self.told.replace(limits).unwrap_or(room);
        let kinds = [
            ("envelopes", before.envelopes, limits.envelopes, arrived.envelopes, room.envelopes),
            ("blocks", before.blocks, limits.blocks, arrived.blocks, room.blocks),
        ];
        kinds.into_iter().find_map(|(kind, before, limit, arrived, room)| {
            if (limit.wrapping_sub(before) as i16) < 0 {
                return Some((Invariant::Grant, format!("it grants {limit} {kind}, after {before}")));
            }
            let promised = limit.wrapping_sub(arrived);
            let what = || format!("it grants {promised} {kind} more than have come, with room for {room}");
            (promised > room).then(|| (Invariant::Grant, what()))
        })
    }

    /// Counts a message that goes in, of which its sender knows that it may send up to `limit`.
    fn send(&mut self, header: &Header, in_block: bool, limit: CreditLimits) -> Option<(Invariant, String)> {
        if !header.kind.is_matchable() {
            return None;
        }
        let due = self.sequence;
        self.sequence = header.sequence.wrapping_add(1);
        self.sent.envelopes = self.sent.envelopes.wrapping_add(1);
        self.sent.blocks = self.sent.blocks.wrapping_add(in_block.into());
        if header.sequence != due {
            return Some((Invariant::Sequence, format!("number {due} was due")));
        }
        let kinds =
            [("envelopes", self.sent.envelopes, limit.envelopes), ("blocks", self.sent.blocks, limit.blocks)];
        kinds.into_iter().find_map(|(kind, sent, limit)| {
            let what = || format!("with it {sent} {kind} are used, and {limit} granted");
            ((limit.wrapping_sub(sent) as i16) < 0).then(|| (Invariant::Credit, what()))
        })
    }

    /// Describes a message that comes out and is not the one that is due.
    fn misplaced(&self, digest: u64, bytes: &[u8]) -> String {
        let came =
            Header::parse(bytes).map_or("a message without a header".into(), |(header, _)| describe(&header));
        let due = match self.under_way.front() {
            Some(letter) => format!("{} is due", describe(&letter.header)),
            None => "nothing is under way".into(),
        };
        let ahead = self.under_way.iter().any(|letter| letter.digest == digest);
        let how = if ahead { "too early" } else { "twice, damaged or from nowhere" };
        format!("{came} comes out {how} after {} messages, and {due}", self.out)
    }
}

fn describe(header: &Header) -> String {
    let (Header { kind, sequence, tag, source, .. }, length) = (header, header.bytes());
    if kind.is_matchable() {
        format!("{kind:?} number {sequence} with tag {tag} of source {source}, {length} bytes")
    } else {
        format!("{kind:?}, {length} bytes")
    }
}

/// A hash of a message: FNV-1a over words (Fowler, Noll, Vo), enough to tell messages apart.
fn digest(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29);
    bytes.chunks(8).fold(mix(0xCBF2_9CE4_8422_2325, bytes.len() as u64), |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash, u64::from_le_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use aldis_kernel::hal::Epoch;

    use super::*;

    const ROOM: Room = Room { envelopes: 2, blocks: 1, block_bytes: 64 };

    fn watch(ranks: u32) -> JobWatch {
        let mut watch = JobWatch::new(ranks);
        watch.granted(ROOM);
        watch
    }

    const fn limits(envelopes: u16, blocks: u16) -> CreditLimits {
        CreditLimits { envelopes, blocks }
    }

    fn message(kind: Kind, sequence: u16, limits: CreditLimits, len: usize) -> Vec<u8> {
        let (epoch, length) = (Epoch(1), len as u64);
        let header = Header { kind, limits, epoch, context: 0, source: 0, tag: 0, sequence, length };
        [&header.emit()[..], &vec![7; len]].concat()
    }

    /// Returns the invariant that is broken first by messages that go in at rank 0 for rank 1, and
    /// which are all delivered.
    fn after(messages: &[Vec<u8>]) -> Option<Invariant> {
        let mut watch = watch(2);
        for message in messages {
            watch.posted(0, 1, message, 0);
            watch.delivered(0, 1, message);
        }
        assert_eq!(watch.under_way(), 0);
        watch.violation().map(|violation| violation.invariant)
    }

    #[test]
    fn a_proper_stream_passes() {
        let mut watch = watch(2);
        for number in 0..100_u16 {
            let sent = message(Kind::Eager, number, limits(2, 1), 40);
            watch.posted(0, 1, &sent, 0);
            watch.delivered(0, 1, &sent);
            let credit = message(Kind::Credit, 0, limits(number + 3, number + 2), 0);
            watch.posted(1, 0, &credit, 0);
            watch.delivered(1, 0, &credit);
        }
        assert_eq!((watch.violation(), watch.under_way()), (None, 0));
    }

    #[test]
    fn gaps_and_overdrawn_credits_are_seen() {
        let eager = |sequence, len| message(Kind::Eager, sequence, limits(2, 1), len);
        assert_eq!(after(&[eager(0, 8), eager(1, 8)]), None);
        assert_eq!(after(&[eager(0, 8), eager(2, 8)]), Some(Invariant::Sequence));
        assert_eq!(
            after(&[eager(0, 8), eager(1, 8), eager(2, 8)]),
            Some(Invariant::Credit),
            "three envelopes"
        );
        assert_eq!(after(&[eager(0, 40), eager(1, 40)]), Some(Invariant::Credit), "two blocks");
        assert_eq!(after(&[vec![0; 40]]), Some(Invariant::Format));
    }

    #[test]
    fn limits_that_shrink_or_promise_too_much_are_seen() {
        let credit = |envelopes| message(Kind::Credit, 0, limits(envelopes, 1), 0);
        assert_eq!(after(&[credit(2)]), None);
        assert_eq!(
            after(&[credit(3)]),
            Some(Invariant::Grant),
            "nothing has come that could have been freed"
        );
        assert_eq!(after(&[credit(1)]), Some(Invariant::Grant));
    }

    #[test]
    fn what_is_lost_doubled_damaged_or_early_is_seen() {
        let [one, two] = [0, 1].map(|sequence| message(Kind::Eager, sequence, limits(2, 1), 8));
        let mut damaged = one.clone();
        damaged[35] ^= 1;
        let bad: [&[&Vec<u8>]; 4] = [&[&two], &[&one, &one], &[&damaged], &[&one, &two, &two]];
        for (out, words) in bad.into_iter().zip(["early", "twice", "damaged", "nothing is under way"]) {
            let mut watch = watch(2);
            watch.posted(0, 1, &one, 0);
            watch.posted(0, 1, &two, 0);
            out.iter().for_each(|message| watch.delivered(0, 1, message));
            let violation = watch.violation().unwrap();
            assert_eq!((violation.invariant, violation.from, violation.to), (Invariant::Stream, 0, 1));
            assert!(violation.to_string().contains(words), "{violation}");
        }
    }

    #[test]
    fn a_contact_that_is_asked_for_in_vain_is_seen() {
        let contact = message(Kind::Contact, 0, limits(2, 1), 0);
        let asked = |answered_ns: Option<u64>| {
            let mut watch = watch(2);
            for now in (0..=12).map(|second| second * 500_000_000) {
                watch.posted(0, 1, &contact, now);
                if answered_ns == Some(now) {
                    watch.posted(1, 0, &contact, now);
                }
            }
            watch.violation().map(|violation| (violation.invariant, violation.from, violation.to))
        };
        assert_eq!(asked(Some(0)), None);
        assert_eq!(asked(Some(4_000_000_000)), None);
        assert_eq!(asked(None), Some((Invariant::Contact, 0, 1)));
    }

    #[test]
    fn a_pair_with_a_dead_rank_is_left_alone() {
        let mut watch = watch(3);
        let sent = message(Kind::Eager, 0, limits(2, 1), 8);
        watch.posted(0, 1, &sent, 0);
        watch.posted(0, 2, &sent, 0);
        watch.died(1);
        assert_eq!(watch.under_way(), 1);
        watch.delivered(1, 0, &sent);
        watch.posted(0, 1, &sent, 0);
        assert_eq!((watch.violation(), watch.under_way()), (None, 1));
    }
}
