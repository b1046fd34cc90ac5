//! This module holds `unsafe` code, one timed load. The distance of this rank's core to those of
//! its peers, by which a writer chooses its [stores](Store).
//!
//! Cores that share a cache pass a line in a quarter of the time that others need. There ordinary
//! stores are the cheaper ones by half, elsewhere those that go past the caches are, by two to six
//! times. Cores move while a job runs, so the distance is measured and kept up: by the time that a
//! load takes of a line that the peer has written since this rank last looked at it.
//!
//! Two lines are looked at: a lane's credit as its receiver returned it, when room is looked for
//! and at every [`BLOCKS_A_LOOK`]-th block, or [`MESSAGES_A_LOOK`]-th message that is written
//! elsewhere; and the probe of a set of control slots, at the first collectives that pass chunks
//! and then at every [`CALLS_A_LOOK`]-th.
//!
//! No short message is timed, and no message is longer under way than that one load takes. The
//! [`AGAINST_MAX`]-th load in a row that speaks against what is known changes it.

use aldis_hal::copy::Store;

use crate::sync::Word;

/// A peer's core, as seen from this rank's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Distance {
    /// The two share a cache, or are one core.
    Near,
    /// They share none.
    Far,
}

/// True if distances are measured at all: where stores past the caches are, and a counter of ticks.
pub(super) const MEASURES: bool =
    cfg!(all(target_arch = "x86_64", target_feature = "sse2", not(miri), not(loom)));

/// The ticks of the timestamp counter from which on a line has come from afar, beside those of the
/// measurement itself. Counters tick at 2 to 3 GHz: 45 to 65 ns. Two cores of an EPYC 9004 with a
/// cache in common take 26 to 52 ticks, two without 234 to 286.
const FAR_TICKS_MIN: u32 = 130;

/// Loads in a row that must speak against what is known.
const AGAINST_MAX: u8 = 3;

/// Blocks of which one is preceded by a look.
pub(super) const BLOCKS_A_LOOK: u32 = 16;

/// Bytes from which on it does not pay any more that the lines of a block are here.
const WARM_BYTES_MAX: usize = 12 << 10;

/// Messages in memory of this rank's own of which one is preceded by a look.
const MESSAGES_A_LOOK: u8 = 4;

/// Collectives that pass chunks of which one is preceded by a look, after as many first ones.
const CALLS_A_LOOK: u32 = 16;

/// Lanes that are looked at then.
pub(super) const LANES_A_LOOK: u32 = 8;

/// A lane's knowledge, before and after the first sample. All-zero at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Estimate {
    Unknown = 0,
    Near,
    Far,
}

impl From<Distance> for Estimate {
    fn from(distance: Distance) -> Self {
        match distance {
            Distance::Near => Self::Near,
            Distance::Far => Self::Far,
        }
    }
}

/// The loads of lines of one peer, as far as they matter.
#[derive(Clone, Copy, Debug)]
struct Samples {
    estimate: Estimate,
    /// Loads in a row that spoke against it.
    against: u8,
    /// Messages elsewhere of which was asked how they are to be stored.
    asked: u8,
    /// The credit and the probe as last seen, modulo 2^16.
    credit: u16,
    probe: u16,
}

impl Samples {
    /// Nothing is known. All-zero.
    const UNKNOWN: Self = Self { estimate: Estimate::Unknown, against: 0, asked: 0, credit: 0, probe: 0 };

    /// The distance given instead of a measured one.
    fn given(distance: Distance) -> Self {
        Self { estimate: distance.into(), ..Self::UNKNOWN }
    }

    /// Returns what is known.
    const fn known(&self) -> Option<Distance> {
        match self.estimate {
            Estimate::Unknown => None,
            Estimate::Near => Some(Distance::Near),
            Estimate::Far => Some(Distance::Far),
        }
    }

    /// Returns the stores by which a message of so many bytes is written in a block: ordinary ones
    /// for a short one whose lines are here, since the block is held for an answer, or an answer
    /// has come in it.
    #[inline(always)]
    fn store_of_block(&self, len: usize, is_warm: bool, far: Store) -> Store {
        if is_warm && len < WARM_BYTES_MAX { Store::Plain } else { self.store(far) }
    }

    /// Returns the stores by which long messages are written for the peer, of which `far` are those
    /// for afar; these before the first load too: to be wrong in that costs less.
    #[inline(always)]
    fn store(&self, far: Store) -> Store {
        if MEASURES && self.estimate != Estimate::Near { far } else { Store::Plain }
    }

    /// Counts a message of which is asked how it is to be stored; true if the peer is to be looked
    /// at before.
    fn is_due(&mut self) -> bool {
        self.asked = self.asked.wrapping_add(1);
        self.estimate == Estimate::Unknown || self.asked.is_multiple_of(MESSAGES_A_LOOK)
    }

    /// Takes a load of so many ticks, beside those of the measurement itself, into account.
    fn record(&mut self, ticks: u32) {
        let seen = if ticks < FAR_TICKS_MIN { Estimate::Near } else { Estimate::Far };
        self.against = if seen == self.estimate { 0 } else { self.against + 1 };
        if self.estimate == Estimate::Unknown || self.against >= AGAINST_MAX {
            (self.estimate, self.against) = (seen, 0);
        }
    }

    /// Looks at a line of the peer's: it says something if the peer has written it since it was
    /// last `seen`, so that it has to come from there. Returns the word.
    fn look(&mut self, word: &Word, seen: u16, gauge: &Gauge) -> u16 {
        let (value, ticks) = timed_load(word);
        let value = value as u16;
        if value != seen {
            self.record(ticks.saturating_sub(gauge.own_ticks()));
        }
        value
    }

    /// Looks at the credit of a lane.
    #[cold]
    #[inline(never)]
    fn look_at_credit(&mut self, credit: &Word, gauge: &Gauge) {
        self.credit = self.look(credit, self.credit, gauge);
    }
}

/// Records of a lane: none on a small core, which measures nothing and has no room for them.
const RECORDS: usize = if cfg!(target_pointer_width = "64") { 1 } else { 0 };

/// The distance of one peer, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneDistance([Samples; RECORDS]);

impl LaneDistance {
    /// Nothing is known. All-zero.
    pub(super) const UNKNOWN: Self = Self([Samples::UNKNOWN; RECORDS]);

    /// The distance given instead of a measured one.
    pub(super) fn given(distance: Distance) -> Self {
        Self([Samples::given(distance); RECORDS])
    }

    /// Returns what is known.
    pub(super) fn known(&self) -> Option<Distance> {
        self.0.first()?.known()
    }

    /// See [`Samples::store_of_block`].
    #[inline(always)]
    pub(super) fn store_of_block(&self, len: usize, is_warm: bool, gauge: &Gauge) -> Store {
        let far = gauge.far_store();
        self.0.first().map_or(Store::Plain, |samples| samples.store_of_block(len, is_warm, far))
    }

    /// See [`Samples::store`].
    #[inline(always)]
    pub(super) fn store(&self, gauge: &Gauge) -> Store {
        self.0.first().map_or(Store::Plain, |samples| samples.store(gauge.far_store()))
    }

    /// Counts a message of which is asked how it is to be stored; true if the peer is to be looked
    /// at before.
    pub(super) fn is_due(&mut self) -> bool {
        self.0.first_mut().is_some_and(Samples::is_due)
    }

    /// See [`Samples::look_at_credit`].
    #[inline]
    pub(super) fn look_at_credit(&mut self, credit: &Word, gauge: &Gauge) {
        if let Some(samples) = self.0.first_mut() {
            samples.look_at_credit(credit, gauge);
        }
    }

    /// Looks at the probe of a peer.
    pub(super) fn look_at_probe(&mut self, probe: &Word, gauge: &Gauge) {
        if let Some(samples) = self.0.first_mut() {
            samples.probe = samples.look(probe, samples.probe, gauge);
        }
    }
}

/// The measuring of a transport, which takes no room where nothing is measured.
#[derive(Debug)]
pub(super) struct Gauge([Measuring; RECORDS]);

impl Gauge {
    pub(super) fn new() -> Self {
        Self([(); RECORDS].map(|()| Measuring::new()))
    }

    /// All peers are so far, and none is measured.
    pub(super) fn give(&mut self, distance: Distance) {
        if let Some(measuring) = self.0.first_mut() {
            measuring.give(distance);
        }
    }

    /// Takes these stores for the best ones to write for a core that shares no cache, unless the
    /// distance is given.
    pub(super) fn give_far_store(&mut self, store: Store) {
        if let Some(measuring) = self.0.first_mut() {
            measuring.give_far_store(store);
        }
    }

    /// Returns the stores by which bytes are written for a core that shares no cache.
    #[inline(always)]
    fn far_store(&self) -> Store {
        self.0.first().map_or(Store::Plain, |measuring| measuring.far_store)
    }

    /// Returns what is known of a peer that is attached now.
    pub(super) fn first(&self) -> LaneDistance {
        let given = self.0.first().and_then(|measuring| measuring.given);
        given.map_or(LaneDistance::UNKNOWN, LaneDistance::given)
    }

    /// Returns true if lanes are measured.
    #[inline(always)]
    pub(super) fn measures(&self) -> bool {
        self.0.first().is_some_and(Measuring::measures)
    }

    /// Returns the ticks that a timed load of a line takes which this core has.
    fn own_ticks(&self) -> u32 {
        self.0.first().map_or(0, |measuring| measuring.own_ticks)
    }

    /// Returns what is to be told of a peer of this distance.
    pub(super) fn remark(&self, known: Option<Distance>) -> Option<&'static str> {
        self.0.first()?.remark(known)
    }

    /// Returns the stores by which chunks are written.
    pub(super) fn chunk_store(&self) -> Store {
        self.0.first().map_or(Store::Plain, |measuring| measuring.chunk_store)
    }

    /// Counts a collective that passes chunks: its number if peers are to be looked at before it.
    pub(super) fn is_due(&mut self) -> Option<u32> {
        self.0.first_mut()?.is_due()
    }

    /// The lane to look at, counted from the node's first.
    pub(super) fn turn(&self) -> u32 {
        self.0.first().map_or(0, |measuring| measuring.turn)
    }

    /// See [`Measuring::go_on`].
    pub(super) fn go_on(&mut self, known: Option<Distance>, lanes: u32) -> bool {
        self.0.first_mut().is_none_or(|measuring| measuring.go_on(known, lanes))
    }
}

/// The measuring of a transport: what all its lanes have in common.
#[derive(Debug)]
struct Measuring {
    /// The distance of all peers, if that is given.
    given: Option<Distance>,
    /// The stores for a core that shares no cache.
    far_store: Store,
    /// Ticks that a timed load of a line takes which this core has.
    own_ticks: u32,
    /// Collectives that passed chunks.
    calls: u32,
    /// The lane to look at next, counted from the node's first.
    turn: u32,
    /// True if some lane that was looked at since the first one is near, or far.
    is_any_near: bool,
    is_any_far: bool,
    /// The stores by which chunks are written, which all peers read: ordinary ones if all that are
    /// known are near.
    chunk_store: Store,
}

impl Measuring {
    fn new() -> Self {
        let mut own_ticks = 0;
        if MEASURES {
            let word = Word::default();
            own_ticks = (0..16).map(|_| timed_load(&word).1).min().unwrap_or(0);
        }
        let far_store = if MEASURES { Store::Past } else { Store::Plain };
        let (is_any_near, is_any_far) = (false, false);
        let (given, chunk_store) = (None, far_store);
        Self { given, far_store, own_ticks, calls: 0, turn: 0, is_any_near, is_any_far, chunk_store }
    }

    /// All peers are so far, and none is measured.
    fn give(&mut self, distance: Distance) {
        self.given = Some(distance);
        self.chunk_store = Samples::given(distance).store(self.far_store);
    }

    /// See [`Gauge::give_far_store`].
    fn give_far_store(&mut self, store: Store) {
        if self.measures() {
            (self.far_store, self.chunk_store) = (store, store);
        }
    }

    /// Returns true if lanes are measured.
    #[inline(always)]
    fn measures(&self) -> bool {
        MEASURES && self.given.is_none()
    }

    /// Returns what is to be told of a peer of this distance.
    fn remark(&self, known: Option<Distance>) -> Option<&'static str> {
        Some(match (known, self.given.is_some()) {
            _ if !MEASURES => return None,
            (Some(Distance::Near), false) => "near, as measured: written through the caches",
            (Some(Distance::Near), true) => "near, as given: written through the caches",
            (Some(Distance::Far), true) => "far, as given: written past the caches",
            (None, _) if self.far_store == Store::Past => {
                "its distance is not measured yet: written past the caches"
            }
            (Some(Distance::Far), false) if self.far_store == Store::Past => {
                "far, as measured: written past the caches"
            }
            (None, _) => "its distance is not measured yet: written through the caches, as is faster here",
            (Some(Distance::Far), false) => "far, as measured: written through the caches, as is faster here",
        })
    }

    /// Counts a collective that passes chunks: its number if peers are to be looked at before it.
    fn is_due(&mut self) -> Option<u32> {
        self.calls = self.calls.wrapping_add(1);
        let is_due = self.calls < CALLS_A_LOOK || self.calls.is_multiple_of(CALLS_A_LOOK);
        Some(self.calls).filter(|_| self.measures() && is_due)
    }

    /// Takes what is known of the lane whose turn it is into account, if it leads anywhere, and
    /// goes on to the next one of so many; true after the last one, when the stores for chunks are
    /// chosen anew.
    fn go_on(&mut self, known: Option<Distance>, lanes: u32) -> bool {
        self.is_any_near |= known == Some(Distance::Near);
        self.is_any_far |= known == Some(Distance::Far);
        self.turn += 1;
        if self.turn < lanes {
            return false;
        }
        self.chunk_store = if self.is_any_near && !self.is_any_far { Store::Plain } else { self.far_store };
        (self.turn, self.is_any_near, self.is_any_far) = (0, false, false);
        true
    }
}

/// Loads a word, and returns it with the ticks of the timestamp counter that this took.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri), not(loom)))]
fn timed_load(word: &Word) -> (u32, u32) {
    let (value, ticks): (u32, u32);
    // SAFETY: an aligned load of a word that the reference says is there, as a relaxed one is; the
    // fences keep other loads out of the measured time, and nothing else is changed but registers.
    unsafe {
        core::arch::asm!(
            "lfence",
            "rdtsc",
            "lfence",
            "mov {begun:e}, eax",
            "mov {value:e}, dword ptr [{word}]",
            "lfence",
            "rdtsc",
            "sub eax, {begun:e}",
            word = in(reg) word,
            begun = out(reg) _,
            value = out(reg) value,
            out("eax") ticks,
            out("edx") _,
            options(nostack),
        );
    }
    (u32::from_le(value), ticks)
}

/// Loads a word: there is no counter of ticks that is known to serve.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri), not(loom))))]
fn timed_load(word: &Word) -> (u32, u32) {
    (word.load(crate::sync::Ordering::Relaxed), 0)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    const NEAR: u32 = 40;
    const FAR: u32 = 250;

    fn after(samples: &[u32]) -> Samples {
        let mut distance = Samples::UNKNOWN;
        samples.iter().for_each(|ticks| distance.record(*ticks));
        distance
    }

    #[test]
    fn the_first_sample_decides_and_three_in_a_row_change_it() {
        for (samples, known) in [
            (&[][..], None),
            (&[NEAR], Some(Distance::Near)),
            (&[FAR], Some(Distance::Far)),
            (&[NEAR, FAR, FAR], Some(Distance::Near)),
            (&[NEAR, FAR, FAR, NEAR, FAR, FAR], Some(Distance::Near)),
            (&[NEAR, FAR, FAR, FAR], Some(Distance::Far)),
            (&[FAR, NEAR, NEAR, NEAR], Some(Distance::Near)),
            (&[FAR, u32::MAX, NEAR, FAR], Some(Distance::Far)),
        ] {
            assert_eq!(after(samples).known(), known, "{samples:?}");
        }
    }

    #[test]
    fn stores_go_past_the_caches_unless_the_peer_is_near() {
        let past = if MEASURES { Store::Past } else { Store::Plain };
        assert_eq!(
            [&[][..], &[FAR], &[NEAR]].map(|samples| after(samples).store(Store::Past)),
            [past, past, Store::Plain]
        );
        assert_eq!(after(&[FAR]).store(Store::Plain), Store::Plain, "where these were found to be faster");
        assert_eq!(LaneDistance::given(Distance::Near).known(), Some(Distance::Near));
    }

    #[test]
    fn a_line_says_something_only_if_it_was_written() {
        let (mut distance, gauge, word) = (LaneDistance::UNKNOWN, Gauge::new(), Word::default());
        distance.look_at_probe(&word, &gauge);
        assert_eq!(distance.known(), None, "it is as it was");
        word.store(1, Ordering::Relaxed);
        distance.look_at_probe(&word, &gauge);
        assert!(distance.known().is_some());
        let before = distance.known();
        (0..10).for_each(|_| distance.look_at_probe(&word, &gauge));
        assert_eq!(distance.known(), before);
    }

    #[test]
    fn chunks_are_for_the_farthest_of_those_that_are_known() {
        let mut gauge = Gauge::new();
        let mut lap = |known: [Option<Distance>; 3]| {
            let ends = known.map(|known| gauge.go_on(known, 3));
            assert_eq!(ends, [false, false, true]);
            gauge.chunk_store()
        };
        let (near, far) = (Some(Distance::Near), Some(Distance::Far));
        assert_eq!([lap([None, None, near]), lap([near, near, near])], [Store::Plain; 2]);
        assert_eq!([lap([near, far, near]), lap([None; 3])], [Store::Past; 2]);
        gauge.give(Distance::Near);
        assert_eq!((gauge.chunk_store(), gauge.measures(), gauge.is_due()), (Store::Plain, false, None));
        assert_eq!(gauge.first().known(), near);
    }

    #[test]
    fn peers_are_looked_at_at_first_and_seldom_then() {
        let mut gauge = Gauge::new();
        let due = (1..=64).filter(|_| gauge.is_due().is_some()).count();
        assert_eq!(due, if MEASURES { 15 + 4 } else { 0 });
    }
}
