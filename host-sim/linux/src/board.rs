//! The status board: one page at the start of every rank's segment, on which the rank says what it
//! is doing.
//!
//! The rank is the single writer; the launcher reads, also after the rank has died, so a hang or a
//! death can be explained without the victim's help. Everything is a plain atomic store; a
//! note of several words is read whole or found to be none (`aldis-records`).

use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use aldis_hal::{Activity, Operation, PeerId};
use aldis_kernel::ContextName;
use aldis_records::mark::{self, Mark};
use aldis_records::note::{self, ActivityNote};
use aldis_sys::{Call, CallFailure, Errno};

use crate::segment::SegmentError;

pub use aldis_records::mark::{Label, MAGIC};
pub use aldis_records::note::Noted;

/// Bytes of the board at the start of a segment: a page, so that the inbox behind it is
/// page-aligned.
pub const BOARD_BYTES: usize = 4096;

/// The stage of a rank's life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum LifePhase {
    /// The segment exists; the rank has not taken it up.
    Created = 0,
    /// Between the start of the process and the last introduction.
    Joining = 1,
    /// In the program.
    Running = 2,
    /// The program is done; the last messages are on their way.
    Leaving = 3,
    /// Left in order.
    Left = 4,
    /// Ended by an error or by an abort.
    Failed = 5,
}

impl LifePhase {
    /// The phase with this number.
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Created,
            1 => Self::Joining,
            2 => Self::Running,
            3 => Self::Leaving,
            4 => Self::Left,
            5 => Self::Failed,
            _ => return None,
        })
    }
}

/// The page itself. All-zero memory is a valid, unlabelled board.
#[derive(Debug, Default)]
#[repr(C)]
pub struct StatusBoard {
    mark: Mark,
    phase: AtomicU32,
    pid: AtomicU32,
    /// Waits that were long enough to be noted.
    waits: AtomicU64,
    /// Times the rank gave up the core while it waited.
    yields: AtomicU64,
    /// Times it slept while it waited.
    sleeps: AtomicU64,
    /// The present wait; [`Operation::None`] when the rank does not wait.
    current: ActivityNote,
    /// The wait before that.
    previous: ActivityNote,
    /// The last call of the system that failed for a peer: the peer in the high half, then the
    /// call's place among all, then the error; zero if none has failed.
    failed: AtomicU64,
}

const _: () = assert!(size_of::<StatusBoard>() <= BOARD_BYTES);

impl StatusBoard {
    /// Writes what never changes; the magic last. Done by the launcher before the segment is handed
    /// on.
    pub fn label(&self, label: Label, segment_bytes: u64) {
        self.mark.write::<mark::Exact>(label, segment_bytes);
    }

    /// Checks that this is the board of the segment that was agreed upon.
    ///
    /// # Errors
    /// [`SegmentError::Foreign`] without the magic, [`SegmentError::Mislabelled`] for another job's
    /// or rank's segment, [`SegmentError::Size`] when the board claims another length.
    pub fn check(&self, expected: Label, segment_bytes: u64) -> Result<(), SegmentError> {
        let mark = self.mark.read::<mark::Exact>();
        let (found, bytes) = mark.map_err(|found| SegmentError::Foreign { expected: MAGIC, found })?;
        if found != expected {
            return Err(SegmentError::Mislabelled { expected, found });
        }
        if bytes != segment_bytes {
            return Err(SegmentError::Size { expected: segment_bytes, found: bytes });
        }
        Ok(())
    }

    /// The rank enters a phase of its life.
    pub fn enter(&self, phase: LifePhase) {
        self.phase.store(phase as u32, Ordering::Release);
    }

    /// The rank's process takes the board up.
    pub fn take_up(&self, pid: u32) {
        self.pid.store(pid, Ordering::Relaxed);
        self.enter(LifePhase::Joining);
    }

    /// Notes what the rank waits for from `now_ns` on; [`Operation::None`] ends the wait.
    pub fn note(&self, activity: Activity, now_ns: u64) {
        let (running, _) = self.current.read::<note::Exact>();
        if running.activity.operation != Operation::None {
            self.previous.write::<note::Exact>(Noted { until_ns: now_ns, ..running });
        }
        if activity.operation != Operation::None {
            self.waits.store(self.waits.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
        self.current.write::<note::Exact>(Noted { activity, since_ns: now_ns, until_ns: 0 });
    }

    /// Notes a call of the system that has failed for a peer.
    pub fn note_failure(&self, peer: PeerId, failure: CallFailure) {
        let (call, errno) = (failure.call as u64 & 0xffff, failure.errno as u64 & 0xffff);
        self.failed.store(u64::from(peer.0) << 32 | call << 16 | errno, Ordering::Relaxed);
    }

    fn failure(&self) -> Option<(PeerId, CallFailure)> {
        let word = self.failed.load(Ordering::Relaxed);
        let call = Call::ALL.get((word >> 16 & 0xffff) as usize).filter(|_| word != 0)?;
        let errno = Errno::from_raw((word & 0xffff) as i32);
        Some((PeerId((word >> 32) as u32), CallFailure { call: *call, errno }))
    }

    /// Counts `yields` more hand-overs of the core.
    pub fn count_yields(&self, yields: u64) {
        self.yields.store(self.yields.load(Ordering::Relaxed).wrapping_add(yields), Ordering::Relaxed);
    }

    /// Counts one more sleep.
    pub fn count_sleep(&self) {
        self.sleeps.store(self.sleeps.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Reads the state that the rank has noted, as of now. `now_ns` is the reader's
    /// `CLOCK_MONOTONIC`, which all processes of a machine share.
    pub fn read(&self, now_ns: u64) -> BoardState {
        let (current, settled) = self.current.read::<note::Exact>();
        let (previous, _) = self.previous.read::<note::Exact>();
        BoardState {
            phase: LifePhase::from_number(self.phase.load(Ordering::Acquire)),
            waits: self.waits.load(Ordering::Relaxed),
            yields: self.yields.load(Ordering::Relaxed),
            sleeps: self.sleeps.load(Ordering::Relaxed),
            current: (current.activity.operation != Operation::None).then_some(current),
            previous: (previous.activity.operation != Operation::None).then_some(previous),
            failed: self.failure(),
            settled,
            read_ns: now_ns,
        }
    }
}

/// A reading of a board. [`Display`](fmt::Display) is the sentence for the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoardState {
    /// The stage of the rank's life; `None` when the word makes no sense.
    pub phase: Option<LifePhase>,
    /// Waits noted so far.
    pub waits: u64,
    /// Times the core was given up.
    pub yields: u64,
    /// Times it slept.
    pub sleeps: u64,
    /// The wait that the rank is in.
    pub current: Option<Noted>,
    /// The last wait that ended.
    pub previous: Option<Noted>,
    /// The last call of the system that failed for a peer, which may be what others have failed of.
    pub failed: Option<(PeerId, CallFailure)>,
    /// False when the rank died (or is stopped) while it wrote the note.
    pub settled: bool,
    /// The time at which it was read.
    pub read_ns: u64,
}

impl fmt::Display for BoardState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.phase {
            Some(LifePhase::Created) => return f.write_str("not joined yet"),
            Some(LifePhase::Joining) => f.write_str("joining the job; ")?,
            Some(LifePhase::Leaving) => f.write_str("leaving the job; ")?,
            Some(LifePhase::Left) => return f.write_str("has left the job in order"),
            Some(LifePhase::Failed) => f.write_str("failed; ")?,
            Some(LifePhase::Running) => {}
            None => return f.write_str("its status board is overwritten"),
        }
        match self.current {
            Some(noted) => {
                let waited = TimeSpan(self.read_ns.saturating_sub(noted.since_ns));
                write!(f, "{}, waiting {waited}", Sentence(noted.activity))?;
            }
            None => f.write_str("computing")?,
        }
        if let (None, Some(noted)) = (self.current, self.previous) {
            let waited = TimeSpan(noted.until_ns.saturating_sub(noted.since_ns));
            let ago = TimeSpan(self.read_ns.saturating_sub(noted.until_ns));
            write!(f, "; last: {}, waited {waited}, ended {ago} ago", Sentence(noted.activity))?;
        }
        if let Some((peer, failure)) = self.failed {
            write!(f, "; for {peer}, {failure}")?;
        }
        if !self.settled {
            f.write_str(" (read while it was being rewritten)")?;
        }
        Ok(())
    }
}

/// An activity in words: `recv of 4096 bytes from rank 2, tag 7, communicator 0`.
struct Sentence(Activity);

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Activity { operation, peer, tag, context, bytes } = self.0;
        let (receives, names_peer) = match operation {
            Operation::Recv | Operation::Probe => (true, true),
            Operation::Send | Operation::SendRecv | Operation::Wait => (false, true),
            _ => (false, false),
        };
        write!(f, "{operation}")?;
        if operation != Operation::Probe && (names_peer || bytes > 0) {
            write!(f, " of {bytes} bytes")?;
        }
        let direction = match operation {
            Operation::Recv | Operation::Probe => "from",
            Operation::Send => "to",
            _ => "with",
        };
        match peer {
            Some(peer) => write!(f, " {direction} {peer}")?,
            None if receives => write!(f, " {direction} any rank")?,
            None => {}
        }
        match tag {
            Some(tag) => write!(f, ", tag {tag}")?,
            None if receives => f.write_str(", any tag")?,
            None => {}
        }
        write!(f, ", {}", ContextName(context))
    }
}

/// A time in the unit that suits it.
pub struct TimeSpan(
    /// Nanoseconds.
    pub u64,
);

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = Duration::from_nanos(self.0).as_secs_f64();
        if self.0 < 1_000_000 {
            write!(f, "{:.0} us", seconds * 1e6)
        } else if self.0 < 1_000_000_000 {
            write!(f, "{:.1} ms", seconds * 1e3)
        } else {
            write!(f, "{seconds:.1} s")
        }
    }
}

#[cfg(test)]
mod tests {
    use aldis_hal::PeerId;

    use super::*;

    const RECV: Activity =
        Activity { operation: Operation::Recv, peer: Some(PeerId(2)), tag: Some(7), context: 0, bytes: 4096 };

    #[test]
    fn a_wait_reads_as_a_sentence() {
        let board = StatusBoard::default();
        assert_eq!(board.read(0).to_string(), "not joined yet");
        board.enter(LifePhase::Running);
        assert_eq!(board.read(0).to_string(), "computing");
        board.note(RECV, 1_000);
        assert_eq!(
            board.read(1_200_001_000).to_string(),
            "recv of 4096 bytes from rank 2, tag 7, communicator 0, waiting 1.2 s"
        );
        board.note(Activity::default(), 2_501_000);
        assert_eq!(
            board.read(2_511_000).to_string(),
            "computing; last: recv of 4096 bytes from rank 2, tag 7, communicator 0, waited 2.5 ms, ended 10 us ago"
        );
        assert_eq!(board.read(0).waits, 1);
    }

    #[test]
    fn wildcards_are_named() {
        let board = StatusBoard::default();
        board.enter(LifePhase::Running);
        let context = 1 << 31 | 5 << 16 | 3;
        board.note(Activity { operation: Operation::Probe, context, ..Activity::default() }, 0);
        assert_eq!(
            board.read(0).to_string(),
            "probe from any rank, any tag, communicator 3 (generation 5, collective), waiting 0 us"
        );
    }

    #[test]
    fn a_writer_that_died_in_the_middle_stops_no_reader() {
        let board = StatusBoard::default();
        board.enter(LifePhase::Running);
        board.note(RECV, 5);
        board.current.sequence.store(9, Ordering::Relaxed);
        let state = board.read(5);
        assert!(!state.settled);
        assert!(state.to_string().ends_with("(read while it was being rewritten)"), "{state}");
    }

    #[test]
    fn a_call_that_failed_for_a_peer_is_named() {
        let board = StatusBoard::default();
        board.enter(LifePhase::Running);
        let failed = CallFailure { call: Call::Recv, errno: Errno::ECONNRESET };
        board.note_failure(PeerId(3), failed);
        assert_eq!(board.read(0).failed, Some((PeerId(3), failed)));
        assert_eq!(board.read(0).to_string(), "computing; for rank 3, recv failed: Connection reset by peer");
    }

    #[test]
    fn an_overwritten_board_is_said_to_be_one() {
        let board = StatusBoard::default();
        board.phase.store(77, Ordering::Relaxed);
        assert_eq!(board.read(0).to_string(), "its status board is overwritten");
    }

    #[test]
    fn a_label_is_checked_word_by_word() {
        let label = Label { job: 9, rank: 1, size: 4 };
        let board = StatusBoard::default();
        assert!(matches!(board.check(label, 64), Err(SegmentError::Foreign { found: 0, .. })));
        board.label(label, 64);
        assert_eq!(board.check(label, 64), Ok(()));
        assert_eq!(board.check(label, 65), Err(SegmentError::Size { expected: 65, found: 64 }));
        let other = Label { rank: 2, ..label };
        assert_eq!(board.check(other, 64), Err(SegmentError::Mislabelled { expected: other, found: label }));
    }
}
