//! A direction of a port: frames go in, and what the faults leave of them comes out.

use super::decision::{Decision, corrupt};
use super::faults::PortFaults;
use super::malformed::Fuzzer;
use super::statistics::FaultCounts;
use crate::Random;

/// The longest that a frame waits for others to overtake it, ns, before it goes on all the same.
const OVERTAKEN_NS_MAX: u64 = 5_000_000;
/// Frames held back at a time; beyond them, frames pass in order and on time.
const HELD_FRAMES_MAX: usize = 64;

/// A frame on its way out.
pub(super) type Passed = Vec<Vec<u8>>;

/// A frame that is held back: until its time has come or so many others have passed.
#[derive(Debug)]
struct HeldFrame {
    frame: Vec<u8>,
    due: u64,
    behind: Option<u32>,
}

/// The faults of one direction at work. Reads no clock: `now` comes in.
#[derive(Debug)]
pub(super) struct Direction {
    faults: PortFaults,
    random: Random,
    fuzzer: Fuzzer,
    held: Vec<HeldFrame>,
    pub(super) counts: FaultCounts,
}

impl Direction {
    /// A direction whose decisions are the stream `stream` of `seed`.
    pub(super) fn new(faults: PortFaults, seed: u64, stream: u64) -> Self {
        Self {
            faults,
            random: Random::new(seed, 2 * stream),
            fuzzer: Fuzzer::new(Random::new(seed, 2 * stream + 1)),
            held: Vec::new(),
            counts: FaultCounts::default(),
        }
    }

    /// A frame sets out; whatever leaves now is put behind `out`.
    pub(super) fn pass(&mut self, frame: &[u8], now: u64, out: &mut Passed) {
        if self.faults == PortFaults::NONE {
            out.push(frame.to_vec());
            return;
        }
        if let Some((kind, malformed)) = self.fuzzer.follow(frame, self.faults.malformed) {
            self.counts.malformed.count(kind);
            out.push(malformed);
        }
        let decision = Decision::draw(&self.faults, &mut self.random);
        if decision.lost {
            self.counts.lost += 1;
            return;
        }
        let mut frame = frame.to_vec();
        if decision.twice {
            self.counts.duplicated += 1;
            out.push(frame.clone());
        }
        if let Some((count, seed)) = decision.changes {
            self.counts.corrupted += 1;
            corrupt(&mut frame, count, seed);
        }
        if let Some(frame) = self.hold(frame, &decision, now) {
            out.push(frame);
            self.overtake(out);
        }
    }

    /// Holds a frame back that is to be late or overtaken; gives it back otherwise.
    fn hold(&mut self, frame: Vec<u8>, decision: &Decision, now: u64) -> Option<Vec<u8>> {
        let (behind, late) = (decision.behind, decision.late_ns);
        if (behind.is_none() && late.is_none()) || self.held.len() >= HELD_FRAMES_MAX {
            return Some(frame);
        }
        self.counts.reordered += u64::from(behind.is_some());
        self.counts.delayed += u64::from(late.is_some());
        // A frame that is late is not called back by those that pass it.
        let behind = behind.filter(|_| late.is_none());
        self.held.push(HeldFrame { frame, due: now + late.unwrap_or(OVERTAKEN_NS_MAX), behind });
        None
    }

    /// A frame has passed those that are held back.
    fn overtake(&mut self, out: &mut Passed) {
        for held in &mut self.held {
            held.behind = held.behind.map(|behind| behind.saturating_sub(1));
        }
        self.let_go(|held| held.behind == Some(0), out);
    }

    /// Lets go of what is due.
    pub(super) fn release(&mut self, now: u64, out: &mut Passed) {
        self.let_go(|held| held.due <= now, out);
    }

    fn let_go(&mut self, which: impl Fn(&HeldFrame) -> bool, out: &mut Passed) {
        out.extend(self.held.extract_if(.., |held| which(held)).map(|held| held.frame));
    }

    /// The time at which [`release`](Self::release) has something to do.
    pub(super) fn due(&self) -> Option<u64> {
        self.held.iter().map(|held| held.due).min()
    }
}
