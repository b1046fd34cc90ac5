//! The status board: one page at the start of every rank's segment, on which the rank says what it is doing.
//!
//! The rank is the single writer; the launcher reads, also after the rank has died, so a hang or a death can be
//! explained without the victim's help. Everything is a plain atomic store. A note of several words is guarded by a
//! sequence number that is odd while the note is written (a seqlock: Boehm, "Can seqlocks get along with
//! programming language memory models?", MSPC 2012); a reader that meets a writer which died in the middle says so
//! instead of waiting.

use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use core::time::Duration;

use aldis_hal::{Activity, Operation, PeerId};
use aldis_kernel::ContextName;

use crate::segment::SegmentError;

/// Bytes of the board at the start of a segment: a page, so that the inbox behind it is page-aligned.
pub const BOARD_BYTES: usize = 4096;

/// First word of every segment: "ALDISEG" and the layout's version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ALDISEG\x01");

/// Attempts of a reader to see a note that is not being rewritten.
const READ_ATTEMPTS: u32 = 64;

/// Where a rank is in its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Phase {
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

impl Phase {
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

/// One note: an activity and when it began, as words that can be stored one by one.
#[derive(Debug, Default)]
#[repr(C)]
struct Note {
    /// Odd while the note is being written.
    sequence: AtomicU32,
    operation: AtomicU32,
    context: AtomicU32,
    reserved: AtomicU32,
    /// The peer plus one; zero for none.
    peer: AtomicU64,
    /// The tag plus one; zero for none.
    tag: AtomicU64,
    bytes: AtomicU64,
    since_ns: AtomicU64,
    /// Zero while it lasts.
    until_ns: AtomicU64,
}

impl Note {
    fn write(&self, activity: Activity, since_ns: u64, until_ns: u64) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.operation.store(activity.operation as u32, Ordering::Relaxed);
        self.context.store(activity.context, Ordering::Relaxed);
        self.peer.store(activity.peer.map_or(0, |peer| u64::from(peer.0) + 1), Ordering::Relaxed);
        self.tag.store(activity.tag.map_or(0, |tag| u64::from(tag) + 1), Ordering::Relaxed);
        self.bytes.store(activity.bytes, Ordering::Relaxed);
        self.since_ns.store(since_ns, Ordering::Relaxed);
        self.until_ns.store(until_ns, Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(2), Ordering::Release);
    }

    /// The words as they stand, and whether they belong together.
    fn read(&self) -> (Noted, bool) {
        let mut noted = self.words();
        for _ in 0..READ_ATTEMPTS {
            let before = self.sequence.load(Ordering::Acquire);
            noted = self.words();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.sequence.load(Ordering::Relaxed) == before {
                return (noted, true);
            }
            core::hint::spin_loop();
        }
        (noted, false)
    }

    fn words(&self) -> Noted {
        let narrow = |word: u64| word.checked_sub(1).and_then(|value| u32::try_from(value).ok());
        let operation = u8::try_from(self.operation.load(Ordering::Relaxed)).ok();
        Noted {
            activity: Activity {
                operation: operation.and_then(Operation::from_number).unwrap_or_default(),
                peer: narrow(self.peer.load(Ordering::Relaxed)).map(PeerId),
                tag: narrow(self.tag.load(Ordering::Relaxed)),
                context: self.context.load(Ordering::Relaxed),
                bytes: self.bytes.load(Ordering::Relaxed),
            },
            since_ns: self.since_ns.load(Ordering::Relaxed),
            until_ns: self.until_ns.load(Ordering::Relaxed),
        }
    }
}

/// The page itself. All-zero memory is a valid, unlabelled board.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Board {
    magic: AtomicU64,
    job: AtomicU64,
    /// Length of the whole segment, board included.
    bytes: AtomicU64,
    rank: AtomicU32,
    size: AtomicU32,
    phase: AtomicU32,
    pid: AtomicU32,
    /// Waits that were long enough to be noted.
    waits: AtomicU64,
    /// Times the rank gave up the core while it waited.
    yields: AtomicU64,
    /// What it waits for now; [`Operation::None`] when it does not.
    current: Note,
    /// The wait before that.
    previous: Note,
}

const _: () = assert!(size_of::<Board>() <= BOARD_BYTES);

/// To whom a segment belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    /// The job's random key.
    pub job: u64,
    /// The rank that owns the segment.
    pub rank: u32,
    /// Ranks of the job.
    pub size: u32,
}

impl Board {
    /// Writes what never changes; the magic last. Done by the launcher before the segment is handed on.
    pub fn label(&self, label: Label, segment_bytes: u64) {
        self.job.store(label.job, Ordering::Relaxed);
        self.bytes.store(segment_bytes, Ordering::Relaxed);
        self.rank.store(label.rank, Ordering::Relaxed);
        self.size.store(label.size, Ordering::Relaxed);
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// Checks that this is the board of the segment that was agreed upon.
    ///
    /// # Errors
    /// [`SegmentError::Foreign`] without the magic, [`SegmentError::Mislabelled`] for another job's or rank's
    /// segment, [`SegmentError::Size`] when the board claims another length.
    pub fn check(&self, expected: Label, segment_bytes: u64) -> Result<(), SegmentError> {
        let magic = self.magic.load(Ordering::Acquire);
        if magic != MAGIC {
            return Err(SegmentError::Foreign { expected: MAGIC, found: magic });
        }
        let found = Label {
            job: self.job.load(Ordering::Relaxed),
            rank: self.rank.load(Ordering::Relaxed),
            size: self.size.load(Ordering::Relaxed),
        };
        if found != expected {
            return Err(SegmentError::Mislabelled { expected, found });
        }
        let bytes = self.bytes.load(Ordering::Relaxed);
        if bytes != segment_bytes {
            return Err(SegmentError::Size { expected: segment_bytes, found: bytes });
        }
        Ok(())
    }

    /// The rank enters a phase of its life.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u32, Ordering::Release);
    }

    /// The rank's process takes the board up.
    pub fn take_up(&self, pid: u32) {
        self.pid.store(pid, Ordering::Relaxed);
        self.enter(Phase::Joining);
    }

    /// Notes what the rank waits for from `now_ns` on; [`Operation::None`] ends the wait.
    pub fn note(&self, activity: Activity, now_ns: u64) {
        let (running, _) = self.current.read();
        if running.activity.operation != Operation::None {
            self.previous.write(running.activity, running.since_ns, now_ns);
        }
        if activity.operation != Operation::None {
            self.waits.store(self.waits.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
        self.current.write(activity, now_ns, 0);
    }

    /// Counts `yields` more hand-overs of the core.
    pub fn count_yields(&self, yields: u64) {
        self.yields.store(self.yields.load(Ordering::Relaxed).wrapping_add(yields), Ordering::Relaxed);
    }

    /// What the rank says of itself as of now. `now_ns` is the reader's `CLOCK_MONOTONIC`, which all processes of
    /// a machine share.
    pub fn read(&self, now_ns: u64) -> State {
        let (current, settled) = self.current.read();
        let (previous, _) = self.previous.read();
        State {
            phase: Phase::from_number(self.phase.load(Ordering::Acquire)),
            waits: self.waits.load(Ordering::Relaxed),
            yields: self.yields.load(Ordering::Relaxed),
            current: (current.activity.operation != Operation::None).then_some(current),
            previous: (previous.activity.operation != Operation::None).then_some(previous),
            settled,
            read_ns: now_ns,
        }
    }
}

/// A noted wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Noted {
    /// What was waited for.
    pub activity: Activity,
    /// When the wait was noted, ns of the machine's monotonic clock.
    pub since_ns: u64,
    /// When it ended; zero while it lasts.
    pub until_ns: u64,
}

/// A reading of a board. [`Display`](fmt::Display) is the sentence for the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// Where the rank is in its life; `None` when the word makes no sense.
    pub phase: Option<Phase>,
    /// Waits noted so far.
    pub waits: u64,
    /// Times the core was given up.
    pub yields: u64,
    /// The wait that the rank is in.
    pub current: Option<Noted>,
    /// The last wait that ended.
    pub previous: Option<Noted>,
    /// False when the rank died (or is stopped) while it wrote the note.
    pub settled: bool,
    /// When it was read.
    pub read_ns: u64,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.phase {
            Some(Phase::Created) => return f.write_str("not joined yet"),
            Some(Phase::Joining) => f.write_str("joining the job; ")?,
            Some(Phase::Leaving) => f.write_str("leaving the job; ")?,
            Some(Phase::Left) => return f.write_str("has left the job in order"),
            Some(Phase::Failed) => f.write_str("failed; ")?,
            Some(Phase::Running) => {}
            None => return f.write_str("its status board is overwritten"),
        }
        match self.current {
            Some(noted) => {
                let waited = Span(self.read_ns.saturating_sub(noted.since_ns));
                write!(f, "{}, waiting {waited}", Sentence(noted.activity))?;
            }
            None => f.write_str("computing")?,
        }
        if let (None, Some(noted)) = (self.current, self.previous) {
            let waited = Span(noted.until_ns.saturating_sub(noted.since_ns));
            let ago = Span(self.read_ns.saturating_sub(noted.until_ns));
            write!(f, "; last: {}, waited {waited}, ended {ago} ago", Sentence(noted.activity))?;
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
pub struct Span(
    /// Nanoseconds.
    pub u64,
);

impl fmt::Display for Span {
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
    use super::*;

    const RECV: Activity =
        Activity { operation: Operation::Recv, peer: Some(PeerId(2)), tag: Some(7), context: 0, bytes: 4096 };

    #[test]
    fn a_wait_reads_as_a_sentence() {
        let board = Board::default();
        assert_eq!(board.read(0).to_string(), "not joined yet");
        board.enter(Phase::Running);
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
        let board = Board::default();
        board.enter(Phase::Running);
        let context = 1 << 31 | 5 << 16 | 3;
        board.note(Activity { operation: Operation::Probe, context, ..Activity::default() }, 0);
        assert_eq!(
            board.read(0).to_string(),
            "probe from any rank, any tag, communicator 3 (generation 5, collective), waiting 0 us"
        );
    }

    #[test]
    fn a_writer_that_died_in_the_middle_stops_no_reader() {
        let board = Board::default();
        board.enter(Phase::Running);
        board.note(RECV, 5);
        board.current.sequence.store(9, Ordering::Relaxed);
        let state = board.read(5);
        assert!(!state.settled);
        assert!(state.to_string().ends_with("(read while it was being rewritten)"), "{state}");
    }

    #[test]
    fn an_overwritten_board_is_said_to_be_one() {
        let board = Board::default();
        board.phase.store(77, Ordering::Relaxed);
        assert_eq!(board.read(0).to_string(), "its status board is overwritten");
    }

    #[test]
    fn a_label_is_checked_word_by_word() {
        let label = Label { job: 9, rank: 1, size: 4 };
        let board = Board::default();
        assert!(matches!(board.check(label, 64), Err(SegmentError::Foreign { found: 0, .. })));
        board.label(label, 64);
        assert_eq!(board.check(label, 64), Ok(()));
        assert_eq!(board.check(label, 65), Err(SegmentError::Size { expected: 65, found: 64 }));
        let other = Label { rank: 2, ..label };
        assert_eq!(board.check(other, 64), Err(SegmentError::Mislabelled { expected: other, found: label }));
    }
}
