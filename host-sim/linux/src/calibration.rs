//! This module holds `unsafe` code: words and pages that two processes share. What two ranks of a
//! node measure together when they join, so that messages of middle length take the way that is the
//! fastest on their cores.
//!
//! By which stores bytes are best written for a core that shares no cache with the writer's, up to
//! which length a message that is staged (copied by both sides at a time) comes sooner than one of
//! which the system copies a half for each side, and from which on one that the system copies whole
//! for the receiver, differs from processor to processor: on one stores past the caches take half
//! as long as ordinary ones, on another twice as long. No rank finds that out alone. So the ranks
//! of a node pair up, the first with the second and so on, if each has a core: the even one of two,
//! the *leader*, passes the bytes of messages of a few lengths to the other in each of the ways, in
//! turns, and takes the least time of each. The bytes stay the same, as those of most loops do that
//! measure messages.
//!
//! That takes a millisecond or two, and 20 at most, once both are there: a rank whose partner has
//! not come within 100, for which it naps, goes on with what it would do without, as does one of an
//! odd number. The variable [`VARIABLE`] turns it off.
//!
//! A partner's words lead nowhere else: lengths and places are the same constants on both sides.

use core::cell::Cell;
use core::hint::{black_box, spin_loop};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

use aldis_drivers::shm::PairLengths;
use aldis_hal::Cost;
use aldis_hal::copy::{Store, copy_raw, publish};
use aldis_sys::Errno;
use aldis_sys::process::pid_t;

use crate::cma;

/// The variable that turns the measurement off: `on` (also if it is not set), or `off`.
pub const VARIABLE: &str = "ALDIS_CALIBRATION";

/// The longest that a rank takes for it, once its partner is there.
const LIMIT: Duration = Duration::from_millis(20);

/// The longest that a rank waits for its partner, which may be started later on a busy machine, and
/// its naps meanwhile.
const PARTNER_LIMIT: Duration = Duration::from_millis(100);
const NAP: Duration = Duration::from_micros(20);

/// The lengths that are measured, in the order in which they are judged.
const LENGTHS: [usize; 5] = [16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10];

/// The first of them that messages are staged or copied at: shorter ones go at once.
const FIRST_STAGED: usize = 1;

/// The bytes of a piece, of which the receiver is told while the next is written: that of the
/// kernel.
const PIECE_BYTES: usize = 16 << 10;

/// Rounds of each way at each length, and rounds that pass nothing but the word.
const ROUNDS: usize = 6;
const EMPTY_ROUNDS: usize = 16;

/// The shortest data of a collective that may pass sooner in a message, and what that takes besides
/// its copies where control slots take next to nothing: announcement, matching, a few polls. Seen
/// on a Xeon of 2.3 GHz.
const PAIR_MESSAGE_BYTES_MIN: usize = 64 << 10;
const PAIR_MESSAGE_NS: u64 = 2_000;

/// The way of a word to the partner and back from which on the two cores share no cache. Two cores
/// of an EPYC 9004 with a cache in common take 50 to 80 ns, two without 200 to 300.
const FAR_NS_MIN: u64 = 140;

/// Bytes at the front of a rank's memory for staged messages that hold its
/// [`CalibrationWords`].
pub(crate) const WORDS_BYTES: usize = 4096;

/// Bytes of that memory without which nothing is measured.
const NEEDED_BYTES: usize = WORDS_BYTES + PLACES * LENGTHS[LENGTHS.len() - 1];

/// Messages lie in so many places in turn.
const PLACES: usize = 2;

/// The words of one of two ranks that the other reads. All-zero at first.
#[repr(C, align(64))]
struct CalibrationWords {
    /// Of a leader: the round, and how many pieces of it are there, or how it has ended. Of the
    /// other: the rounds that it has answered, and one more once it is there.
    turn: AtomicU32,
    /// The process, and the address of the bytes that it passes or that they pass to.
    process: AtomicU32,
    bytes: AtomicU64,
    /// Of a leader, at the end: the [`Times`].
    times: [AtomicU64; TIMES],
    /// Not zero once the system has refused to read or to write.
    refused: AtomicU32,
}

/// The turn of a leader that has found something, and of one that has given up.
const FOUND: u32 = u32::MAX;
const GONE: u32 = u32::MAX - 1;

/// Bits of a turn that count pieces.
const PIECE_BITS: u32 = 8;

/// The findings of two ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Calibration {
    /// The stores by which bytes are written for a core that shares no cache; `None` if the two
    /// share one now.
    pub(crate) far_store: Option<Store>,
    /// Bytes up to which staged messages are the faster ones; 0 if none are.
    pub(crate) staged_bytes_max: usize,
    /// Bytes that the two pass sooner by copies of the system than both of them copy.
    pub(crate) pairs: PairLengths,
    /// The cost of a copy by the system of which both do a half, on the scale of a given cost of
    /// messages that both copy; `None` if the system makes none.
    pub(crate) read_cost: Option<Cost>,
}

/// A way in which bytes pass from one rank to the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Passing {
    /// Nothing does but the word.
    Word,
    /// Both copy at a time, written by these stores.
    Staged(Store),
    /// Both have the system copy a half: the receiver reads the front, and the sender writes the
    /// back.
    Halves,
    /// The receiver has the system read all of it.
    Read,
}

/// The ways in which messages pass.
const WAYS: [Passing; 4] =
    [Passing::Staged(Store::Plain), Passing::Staged(Store::Past), Passing::Halves, Passing::Read];

/// A round: a way, and the length by its number.
#[derive(Clone, Copy, Debug)]
struct Round {
    passing: Passing,
    length: usize,
    /// The place of its bytes.
    place: usize,
}

/// The rounds in their order, the same for both: first those without bytes, then each way at each
/// length in turns, so that what changes meanwhile meets all alike.
fn rounds() -> impl Iterator<Item = (u32, Round)> {
    let empty = (0..EMPTY_ROUNDS).map(|_| Round { passing: Passing::Word, length: 0, place: 0 });
    let of_length = |turn, length| WAYS.map(|passing| Round { passing, length, place: turn % PLACES });
    let full = (0..ROUNDS).flat_map(move |turn| (0..LENGTHS.len()).flat_map(move |at| of_length(turn, at)));
    (1..).zip(empty.chain(full))
}

/// The least times at one length, in ns.
struct LengthTimes {
    length: usize,
    staged: u64,
    halves: u64,
    read: u64,
}

impl LengthTimes {
    /// Returns true if the system copies no message sooner than it is staged.
    const fn is_staged(&self) -> bool {
        self.staged <= self.halves
    }

    /// Returns true if two ranks pass data of a collective soonest in a message.
    fn is_message(&self) -> bool {
        let message = self.halves.saturating_add(PAIR_MESSAGE_NS);
        self.length >= PAIR_MESSAGE_BYTES_MIN && message < self.staged.min(self.read)
    }

    /// Returns true if one of two ranks reads data sooner than both copy them.
    const fn is_read(&self) -> bool {
        self.read < self.staged
    }
}

/// Numbers of [`Times`].
const TIMES: usize = 1 + WAYS.len() * LENGTHS.len();

/// The least times, in ns: of the word, and of each way at each length. A way that the system does
/// not allow takes for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Times([u64; TIMES]);

impl Times {
    const NONE: Self = Self([u64::MAX; TIMES]);

    fn record(&mut self, round: Round, ns: u64) {
        let way = WAYS.iter().position(|way| *way == round.passing);
        let at = way.map_or(0, |way| 1 + way * LENGTHS.len() + round.length);
        if let Some(least) = self.0.get_mut(at) {
            *least = ns.min(*least);
        }
    }

    /// Returns what follows: the stores that take less time over all lengths, the longest length
    /// up to which the system copies no message sooner than it is staged by these, what its copies
    /// cost where messages that both copy cost `messages`, and what two ranks do in collectives.
    fn judge(&self, messages: &Cost) -> Calibration {
        let [word, ways @ ..] = &self.0;
        let lengths = |way: usize| ways.iter().copied().skip(way * LENGTHS.len()).take(LENGTHS.len());
        let sum = |way| lengths(way).fold(0, u64::saturating_add);
        let store = if sum(1) < sum(0) { Store::Past } else { Store::Plain };
        let staged = lengths((store == Store::Past).into());
        let times = staged.clone().zip(lengths(2)).zip(lengths(3));
        let by_length = LENGTHS.into_iter().zip(times);
        let by_length =
            by_length.map(|(length, ((staged, halves), read))| LengthTimes { length, staged, halves, read });
        let longest = by_length.clone().skip(FIRST_STAGED).take_while(LengthTimes::is_staged).last();
        let message = by_length.clone().rev().take_while(LengthTimes::is_message).last();
        let read =
            by_length.rev().skip_while(LengthTimes::is_message).take_while(LengthTimes::is_read).last();
        let least = |found: Option<LengthTimes>| found.map_or(0, |times| times.length as u32);
        Calibration {
            far_store: (*word >= FAR_NS_MIN).then_some(store),
            staged_bytes_max: longest.map_or(0, |times| times.length),
            pairs: PairLengths { message_bytes_min: least(message), read_bytes_min: least(read) },
            read_cost: halves_cost(staged, lengths(2), messages),
        }
    }
}

/// Returns what copies cost that take so long at each length, where messages that both copy take as
/// long as `staged` and cost so much: a straight line through the first and the last.
fn halves_cost(
    mut staged: impl Iterator<Item = u64>,
    mut halves: impl Iterator<Item = u64>,
    messages: &Cost,
) -> Option<Cost> {
    let (short, long) = (halves.next()?, halves.last()?);
    let [first, .., last] = LENGTHS.map(|length| length as u64 >> 10);
    let measured = staged.next().filter(|ns| (1..u64::MAX).contains(ns) && long < u64::MAX)?;
    let expected = messages.message_ns(first << 10);
    let scaled = |ns: u64| u32::try_from(ns.saturating_mul(expected) / measured).ok();
    let per_kib = long.saturating_sub(short) / (last - first);
    let latency = short.saturating_sub(per_kib.saturating_mul(first));
    Some(Cost { overhead_ns: 0, latency_ns: scaled(latency)?, per_kib_ns: scaled(per_kib)? })
}

/// Memory for messages that are staged as this process has it mapped, [`NEEDED_BYTES`] of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StagingView(NonNull<u8>);

impl StagingView {
    /// The `bytes` from `start`; `None` if they are too few.
    ///
    /// # Safety
    /// They are initialised, begin at a page, and are valid for reads for the rest of the process,
    /// and for writes if they are this rank's own; the rank that has them writes there alone.
    pub(crate) unsafe fn new(start: NonNull<u8>, bytes: usize) -> Option<Self> {
        (bytes >= NEEDED_BYTES).then_some(Self(start))
    }

    fn words(&self) -> &'static CalibrationWords {
        // SAFETY: `new`'s caller vouched for the memory, which is aligned, and they are made of
        // atomics; its owner lends these bytes to nothing else.
        unsafe { self.0.cast::<CalibrationWords>().as_ref() }
    }

    /// The place of a round's bytes.
    fn place(&self, round: Round) -> NonNull<u8> {
        let offset = WORDS_BYTES + (round.place % PLACES) * LENGTHS[LENGTHS.len() - 1];
        // SAFETY: it is within the bytes that `new` has asked for.
        unsafe { self.0.add(offset) }
    }
}

/// A rank of two that measure together.
pub(crate) struct CalibrationPair {
    own: StagingView,
    partner: StagingView,
    /// True if the system may be asked for copies, both ways.
    copies: bool,
    /// When the partner must be there.
    partner_deadline: Instant,
    deadline: Cell<Instant>,
    looks: Cell<u32>,
}

impl CalibrationPair {
    /// The pair of the rank that has the one memory with the one that has the other; `copies` if
    /// the system may be asked for copies, both ways.
    pub(crate) fn new(own: StagingView, partner: StagingView, copies: bool) -> Self {
        let now = Instant::now();
        let partner_deadline = now + PARTNER_LIMIT;
        Self { own, partner, copies, partner_deadline, deadline: Cell::new(now), looks: Cell::new(0) }
    }

    /// Measures, as the one that `leads` or the other: what was found, if both have come to the
    /// end, with the cost of a copy by the system on the scale of this cost of messages.
    pub(crate) fn measure(&self, leads: bool, messages: &Cost) -> Option<Calibration> {
        let mut bytes = vec![1; LENGTHS[LENGTHS.len() - 1]];
        let words = self.own.words();
        words.process.store(std::process::id(), Ordering::Relaxed);
        words.refused.store((!self.copies).into(), Ordering::Relaxed);
        words.bytes.store(bytes.as_mut_ptr().expose_provenance() as u64, Ordering::Relaxed);
        let times = if leads {
            let times = self.lead(&bytes);
            for (told, ns) in words.times.iter().zip(times.unwrap_or(Times::NONE).0) {
                told.store(ns, Ordering::Relaxed);
            }
            words.turn.store(if times.is_some() { FOUND } else { GONE }, Ordering::Release);
            times
        } else {
            self.follow(&mut bytes)
        };
        times.map(|times| times.judge(messages))
    }

    /// Waits until the partner's turn is what it is waited for; `None` if it has given up, or at
    /// the deadline.
    fn wait(&self, is_there: impl Fn(u32) -> bool) -> Option<u32> {
        loop {
            let turn = self.partner.words().turn.load(Ordering::Acquire);
            if is_there(turn) {
                return Some(turn);
            }
            self.looks.set(self.looks.get().wrapping_add(1));
            let is_late = self.looks.get().is_multiple_of(64) && Instant::now() >= self.deadline.get();
            if turn == GONE || is_late {
                return None;
            }
            spin_loop();
        }
    }

    /// Waits until the partner is there, as its turn says, and allows the measurement its time from
    /// then on; `None` if it has given up or does not come.
    fn meet(&self, is_there: impl Fn(u32) -> bool) -> Option<()> {
        loop {
            let turn = self.partner.words().turn.load(Ordering::Acquire);
            let now = Instant::now();
            if is_there(turn) {
                self.deadline.set(now + LIMIT);
                return Some(());
            }
            if turn == GONE || now >= self.partner_deadline {
                return None;
            }
            aldis_sys::clock::sleep(NAP);
        }
    }

    /// Returns the process of the partner, and an address there of its bytes.
    fn partner_bytes(&self, at: usize) -> (pid_t, u64) {
        let words = self.partner.words();
        let pid = pid_t::try_from(words.process.load(Ordering::Relaxed)).unwrap_or(0);
        (pid, words.bytes.load(Ordering::Relaxed).wrapping_add(at as u64))
    }

    /// Has the system make a copy, if it may be asked, and notes if it refuses.
    fn ask(&self, copy: impl FnOnce() -> Result<(), Errno>) {
        if self.copies && copy().is_err() {
            self.own.words().refused.store(1, Ordering::Relaxed);
        }
    }

    fn lead(&self, bytes: &[u8]) -> Option<Times> {
        let words = self.own.words();
        self.meet(|turn| turn == 1)?;
        let mut times = Times::NONE;
        for (number, round) in rounds() {
            let length = LENGTHS.get(round.length).copied()?;
            let start = Instant::now();
            match round.passing {
                Passing::Word | Passing::Read => {
                    words.turn.store(number << PIECE_BITS | 1, Ordering::Release);
                }
                Passing::Halves => {
                    words.turn.store(number << PIECE_BITS | 1, Ordering::Release);
                    let back = bytes.get(length / 2..length)?;
                    let (pid, to) = self.partner_bytes(length / 2);
                    // SAFETY: those are the back of the bytes that the partner lends for this
                    // round, and reads no sooner than it is told that they are there.
                    self.ask(|| unsafe { cma::write(pid, back, to) });
                    words.turn.store(number << PIECE_BITS | 2, Ordering::Release);
                }
                Passing::Staged(store) => {
                    for (piece, count) in black_box(bytes).get(..length)?.chunks(PIECE_BYTES).zip(1..) {
                        // SAFETY: the pieces are within a place, which is this rank's own to write;
                        // its partner reads those alone that it has been told of.
                        let to = unsafe {
                            let at = self.own.place(round).add((count as usize - 1) * PIECE_BYTES);
                            NonNull::slice_from_raw_parts(at, piece.len()).as_mut()
                        };
                        publish(to, piece, store);
                        words.turn.store(number << PIECE_BITS | count, Ordering::Release);
                    }
                }
            }
            self.wait(|turn| turn == number + 1)?;
            let refused = [words, self.partner.words()].map(|words| words.refused.load(Ordering::Relaxed));
            let is_asked = matches!(round.passing, Passing::Halves | Passing::Read);
            if !is_asked || refused == [0; 2] {
                times.record(round, start.elapsed().as_nanos() as u64);
            }
        }
        Some(times)
    }

    fn follow(&self, bytes: &mut [u8]) -> Option<Times> {
        let (own, leader) = (self.own.words(), self.partner.words());
        own.turn.store(1, Ordering::Release);
        self.meet(|turn| turn >> PIECE_BITS == 1)?;
        for (number, round) in rounds() {
            let length = LENGTHS.get(round.length).copied()?;
            let into = bytes.get_mut(..length)?;
            match round.passing {
                Passing::Word => drop(self.wait(|turn| turn >> PIECE_BITS == number)?),
                Passing::Halves => {
                    self.wait(|turn| turn >> PIECE_BITS == number)?;
                    let (pid, from) = self.partner_bytes(0);
                    let front = into.get_mut(..length / 2)?;
                    // SAFETY: `front` has as many bytes.
                    self.ask(|| unsafe { cma::read(pid, from, front.as_mut_ptr(), front.len()) });
                    self.wait(|turn| turn == number << PIECE_BITS | 2)?;
                }
                Passing::Read => {
                    self.wait(|turn| turn >> PIECE_BITS == number)?;
                    let (pid, from) = self.partner_bytes(0);
                    // SAFETY: `into` has as many bytes.
                    self.ask(|| unsafe { cma::read(pid, from, into.as_mut_ptr(), into.len()) });
                }
                Passing::Staged(_) => {
                    let place = self.partner.place(round);
                    for (piece, count) in into.chunks_mut(PIECE_BYTES).zip(1u32..) {
                        let told = number << PIECE_BITS | count;
                        self.wait(|turn| turn >> PIECE_BITS == number && turn >= told)?;
                        // SAFETY: the place is within the partner's memory and as long, and what it
                        // has told of it writes no more until this rank has answered.
                        unsafe {
                            let from = place.add((count as usize - 1) * PIECE_BYTES);
                            copy_raw(from.as_ptr(), piece.as_mut_ptr(), piece.len());
                        }
                    }
                }
            }
            black_box(&mut *bytes);
            own.turn.store(number + 1, Ordering::Release);
        }
        self.wait(|turn| turn == FOUND)?;
        Some(Times(core::array::from_fn(|at| leader.times[at].load(Ordering::Relaxed))))
    }
}

#[cfg(test)]
mod tests;
