//! `HostPlatform`: clock, idle policy, entropy and notes of a rank on Linux.

use core::time::Duration;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use aldis_drivers::shm::SleepWords;
use aldis_hal::platform::WHOLE_POLLS_FROM;
use aldis_hal::{Activity, Instant, Operation, Platform};
use aldis_sys::clock::{ClockId, clock_gettime, sleep};
use aldis_sys::event::{PollFd, PollFlags, ppoll};
use aldis_sys::process::{CpuSet, Pid, sched_getaffinity, sched_yield};

use crate::board::StatusBoard;
use crate::sleeper::Sleeper;

/// Nanoseconds of `CLOCK_MONOTONIC`, which all processes of a machine share.
pub fn monotonic_ns() -> u64 {
    // The call cannot fail for this clock; a clock that stands still only makes deadlines wait.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| Duration::from(time).as_nanos() as u64)
}

/// Cores that this process may run on.
pub fn allowed_cores() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).ok();
    let allowed = |core: &usize| set.is_some_and(|set| set.is_set(*core).unwrap_or(false));
    (0..CpuSet::count()).filter(allowed).collect()
}

/// The polls after which to stop spinning, offer the core and sleep. Polls are those in a row that
/// found nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// Polls with nothing but a pause between them.
    pub spins: u32,
    /// Beyond those, the core is offered to others every so many polls; a power of two.
    pub yield_every: u32,
    /// Beyond these, the rank sleeps between polls.
    pub awake: u32,
    /// The longest that it sleeps; less in the beginning.
    pub nap_us_max: u32,
}

impl Patience {
    /// Every rank can have a core of its own: spin for some microseconds, then offer the core now
    /// and then (half a microsecond when no other process takes it, and no more than that is lost;
    /// without it two ranks on a core that others use too wait for each other's time slices), and
    /// sleep only when the wait has lasted for about a tenth of a second, so that a rank that waits
    /// for minutes burns nothing.
    pub const ALONE: Self = Self { spins: 128, yield_every: 64, awake: 1 << 20, nap_us_max: 50 };

    /// More ranks than cores: the rank that is waited for may need this very core. On two cores,
    /// four ranks pass a message in 0.5 us with 16 spins before the first yield, as with 64, in 3
    /// us with 4 and in 170 us without yields; a barrier of all of them takes 2.9 us with 16 and
    /// 4.3 us with 64.
    pub const SHARED: Self = Self { spins: 16, yield_every: 1, awake: 1 << 10, nap_us_max: 50 };

    /// Patience like [`SHARED`](Self::SHARED), but with sockets: a poll that finds nothing is a
    /// system call, and takes as long as tens of looks at memory.
    pub const SHARED_SOCKETS: Self = Self { spins: 2, ..Self::SHARED };

    /// Patience like [`SHARED_SOCKETS`](Self::SHARED_SOCKETS), but of a rank that its sockets or
    /// its device wake. A rank that yields is given the core again until it has had its share of
    /// it: a peer whose system call moves a megabyte, as with soft RoCE, takes half as long again
    /// for every rank that polls meanwhile, and any other work of the machine is ahead of a rank
    /// that yields. So a rank sleeps soon: until it is woken, or for a tenth of the time that it
    /// has waited.
    pub const SHARED_WOKEN: Self = Self { awake: 16, nap_us_max: 1000, ..Self::SHARED_SOCKETS };

    /// This patience for a rank that is woken by whoever it waits for: it sleeps sooner where cores
    /// are shared. Not before polls are whole ([`Platform::relax`]), nor before a
    /// peer that has the same core has had its turn some times, since a rank that is woken takes
    /// microseconds to come.
    #[must_use]
    pub const fn with_wake_up(self) -> Self {
        let awake = if self.yield_every == 1 { AWAKE_SHARED } else { self.awake };
        Self { awake, ..self }
    }

    /// The policy for a job of `ranks` ranks on this machine that may use `cores` cores, with or
    /// without sockets.
    pub fn of(ranks: u32, cores: u32, sockets: bool) -> Self {
        match (ranks > cores, sockets) {
            (false, _) => Self::ALONE,
            (true, false) => Self::SHARED,
            (true, true) => Self::SHARED_SOCKETS,
        }
    }
}

/// The time that a rank sleeps between polls once its patience is at an end, and the number of naps
/// after which each lasts longer by as much.
const NAP_US: u32 = 50;
/// The longest that it sleeps where sockets or a device wake it: timers and deadlines are late by
/// no more.
const NAP_WITH_BELL: Duration = Duration::from_millis(5);
/// The longest that it sleeps where peers wake it. Sixty-four ranks that do take some hundredths of
/// two cores.
const SLEEP_MAX: Duration = Duration::from_millis(10);
/// The polls after which it sleeps where peers wake it and cores are shared.
const AWAKE_SHARED: u32 = WHOLE_POLLS_FROM;
const NAPS: u32 = 8;

/// Platform of a rank on Linux.
///
/// The clock is `clock_gettime(CLOCK_MONOTONIC)` through the vDSO: 25 ns where the bare time-stamp
/// counter takes 10 (AMD EPYC, virtual machine). The kernel keeps the instant of its last poll and
/// asks again only where a deadline is set or a wait is long, so the 15 ns do not stand on a
/// message's way.
///
/// A clone is for another thread, which may do what this one waits for and rings for no rank: it
/// naps where this one sleeps until a peer rings.
#[derive(Debug)]
pub struct HostPlatform {
    board: Option<&'static StatusBoard>,
    patience: Patience,
    bell: Bell,
}

/// The cause by which a rank wakes.
#[derive(Debug)]
enum Bell {
    /// Time alone.
    None,
    /// A file that can be read when something has happened.
    File(Arc<OwnedFd>),
    /// The peers that it shares memory with.
    Peers(Sleeper),
}

impl HostPlatform {
    /// A platform that keeps its notes on `board`.
    pub const fn new(board: &'static StatusBoard, patience: Patience) -> Self {
        Self { board: Some(board), patience, bell: Bell::None }
    }

    /// A platform that keeps no notes: of a core of this process, which no launcher watches.
    pub const fn unwatched(patience: Patience) -> Self {
        Self { board: None, patience, bell: Bell::None }
    }

    /// This platform, but one that sleeps as long as it may, or until this file can be read: of a
    /// rank for which nothing else happens.
    #[must_use]
    pub fn with_bell(self, bell: Option<OwnedFd>) -> Self {
        match bell {
            Some(bell) => Self { bell: Bell::File(Arc::new(bell)), ..self },
            None => self,
        }
    }

    /// This platform, but one that is woken by peers that it shares memory with, to which it says
    /// by these words that it sleeps: of a rank for which nothing else happens. They all take part
    /// in its barriers.
    #[must_use]
    pub(crate) fn with_sleep(self, words: Option<SleepWords<'static>>) -> Self {
        match words {
            Some(words) => Self {
                patience: self.patience.with_wake_up(),
                bell: Bell::Peers(Sleeper::new(words)),
                ..self
            },
            None => self,
        }
    }

    /// The platform of another wait of the same thread, once this one's is over.
    #[must_use]
    pub fn of_another_wait(&self) -> Self {
        match &self.bell {
            Bell::Peers(sleeper) => Self { bell: Bell::Peers(sleeper.another()), ..self.clone() },
            Bell::None | Bell::File(_) => self.clone(),
        }
    }

    /// Rests like [`relax`](Platform::relax), for one of several threads that wait: another may do
    /// what this one waits for, and rings for no rank.
    pub fn relax_among_threads(&mut self, idle: u32) {
        if idle < self.patience.awake { self.relax(idle) } else { self.nap(idle) }
    }

    /// Gives the core away after so many looks in vain of a caller that does not wait, but comes
    /// back to look again, where ranks outnumber cores: the peer may need this very core. It never
    /// sleeps, since the caller may have work of its own.
    #[inline]
    pub fn yield_between_looks(&self, idle: u32) {
        if idle >= self.patience.spins && self.patience.yield_every == 1 {
            self.yield_core();
        }
    }

    #[cold]
    fn yield_core(&self) {
        let _ = sched_yield();
        if let Some(board) = self.board {
            board.count_yields(1);
        }
    }

    /// The status board on which it keeps its notes.
    pub const fn board(&self) -> Option<&'static StatusBoard> {
        self.board
    }

    /// Sleeps for a time that grows with the wait, until it is over.
    fn nap(&self, idle: u32) {
        let naps = (idle - self.patience.awake) / NAPS + 1;
        let us = NAP_US.saturating_mul(naps).min(self.patience.nap_us_max);
        sleep(Duration::from_micros(us.into()));
    }

    fn sleep(&mut self, idle: u32) {
        let has_slept = match &mut self.bell {
            Bell::None => {
                self.nap(idle);
                true
            }
            Bell::File(bell) => {
                let mut files = [PollFd::new(bell.as_fd(), PollFlags::POLLIN)];
                // A rank that is woken by a signal sleeps less.
                let _ = ppoll(&mut files, Some(NAP_WITH_BELL.into()), None);
                true
            }
            Bell::Peers(sleeper) => sleeper.rest(SLEEP_MAX),
        };
        if let Some(board) = self.board.filter(|_| has_slept) {
            board.count_sleep();
        }
    }

    #[cold]
    fn wait_longer(&mut self, idle: u32) {
        if idle >= self.patience.awake {
            return self.sleep(idle);
        }
        if let Bell::Peers(sleeper) = &mut self.bell {
            sleeper.rise();
        }
        if idle & (self.patience.yield_every - 1) == 0 {
            self.yield_core();
        } else {
            core::hint::spin_loop();
        }
    }
}

impl Clone for HostPlatform {
    fn clone(&self) -> Self {
        let bell = match &self.bell {
            Bell::File(bell) => Bell::File(Arc::clone(bell)),
            Bell::None | Bell::Peers(_) => Bell::None,
        };
        Self { board: self.board, patience: self.patience, bell }
    }
}

impl Platform for HostPlatform {
    #[inline]
    fn now(&self) -> Instant {
        Instant(monotonic_ns())
    }

    #[inline]
    fn relax(&mut self, idle: u32) {
        if idle < self.patience.spins {
            core::hint::spin_loop();
        } else {
            self.wait_longer(idle);
        }
    }

    fn entropy(&mut self) -> u64 {
        crate::entropy::distinct()
    }

    fn note(&mut self, activity: Activity) {
        // Of every wait that may have come so far this is the end.
        if let Bell::Peers(sleeper) = &mut self.bell
            && activity.operation == Operation::None
        {
            sleeper.rise();
        }
        if let Some(board) = self.board {
            board.note(activity, monotonic_ns());
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU32;

    use super::*;
    use crate::board::LifePhase;

    fn platform(patience: Patience) -> HostPlatform {
        HostPlatform::new(Box::leak(Box::default()), patience)
    }

    #[test]
    fn time_runs_forwards() {
        let platform = platform(Patience::ALONE);
        let (first, second) = (platform.now(), platform.now());
        assert!(second >= first && first > Instant(0));
    }

    #[test]
    fn crowded_ranks_yield_after_16_polls_and_lone_ones_spin() {
        let (mut crowded, mut alone) =
            (platform(Patience::of(4, 2, false)), platform(Patience::of(2, 2, true)));
        for idle in 0..Patience::ALONE.spins {
            crowded.relax(idle);
            alone.relax(idle);
        }
        assert_eq!(crowded.board.unwrap().read(0).yields, u64::from(Patience::ALONE.spins - 16));
        assert_eq!(alone.board.unwrap().read(0).yields, 0);
    }

    #[test]
    fn crowded_ranks_yield_between_looks_and_never_sleep() {
        let (crowded, alone) = (platform(Patience::of(4, 2, false)), platform(Patience::of(2, 2, false)));
        for idle in [0, 15, 16, u32::MAX] {
            crowded.yield_between_looks(idle);
            alone.yield_between_looks(idle);
        }
        assert_eq!(crowded.board.unwrap().read(0).yields, 2);
        assert_eq!(crowded.board.unwrap().read(0).sleeps, 0);
        assert_eq!(alone.board.unwrap().read(0).yields, 0);
    }

    #[test]
    fn no_rank_burns_for_minutes() {
        for (patience, least_us) in
            [(Patience::ALONE, 50), (Patience::SHARED, 50), (Patience::SHARED_WOKEN, 1000)]
        {
            let mut platform = platform(patience);
            let before = platform.now();
            platform.relax(u32::MAX);
            assert!(platform.now().since(before) >= 1000 * least_us);
        }
    }

    /// Both look at the shortest of many naps: how long one of them takes is up to the machine.
    #[test]
    fn a_bell_wakes_who_sleeps() {
        let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut platform = platform(Patience::SHARED).with_bell(Some(reader.into()));
        let mut shortest = || {
            let nap = |_| {
                let before = platform.now();
                platform.relax(u32::MAX);
                platform.now().since(before)
            };
            (0..50).map(nap).min().unwrap()
        };
        assert!(shortest() >= NAP_WITH_BELL.as_nanos() as u64);
        std::io::Write::write_all(&mut &writer, b"x").unwrap();
        assert!(shortest() < NAP_WITH_BELL.as_nanos() as u64);
    }

    /// The words of a rank that shares memory with another, which rings for it.
    fn words() -> (SleepWords<'static>, aldis_drivers::Shm<'static>) {
        use aldis_drivers::shm::{Cores, CoresSetup, Geometry, Lane};
        use aldis_hal::{Cost, Epoch};

        let geometry = Geometry { peers: 2, slots: 4, lanes: 32, blocks: 1, block_bytes: 64, sets: 0 };
        let memory = vec![0; Cores::memory_bytes(&geometry)].leak();
        let lanes: Vec<Lane> = (0..Cores::lanes(&geometry)).map(|_| Lane::EMPTY).collect();
        let cost = Cost { overhead_ns: 1, latency_ns: 1, per_kib_ns: 1 };
        let setup = CoresSetup { geometry, epoch: Epoch(1), cost };
        let mut cores = Cores::new(memory, lanes.leak(), setup).unwrap().map(Result::unwrap);
        let (one, other) = (cores.next().unwrap(), cores.next().unwrap());
        let noted = || -> &'static AtomicU32 { Box::leak(Box::default()) };
        let one = one.with_alarm(crate::sleeper::ring, noted());
        (one.sleep_words().unwrap(), other.with_alarm(crate::sleeper::ring, noted()))
    }

    /// The word on which a rank sleeps, and its value meanwhile.
    fn asleep(words: &SleepWords<'static>) -> (&'static AtomicU32, u32) {
        let told = words.lie_down();
        let word = words.word(&told);
        words.get_up(told);
        word
    }

    /// A rank watches what it waits for, says that it sleeps, and sleeps at the third call.
    #[test]
    fn a_rank_sleeps_until_a_peer_rings() {
        use aldis_hal::{PeerId, Post, Transport};

        assert!(crate::sleeper::take_part(), "this system lets no process take part in barriers");
        let (words, mut peer) = words();
        let mut platform = platform(Patience::SHARED).with_sleep(Some(words));
        let sleeps = |platform: &HostPlatform| platform.board.unwrap().read(0).sleeps;
        let (word, asleep) = asleep(&words);
        let load = || word.load(core::sync::atomic::Ordering::Relaxed);
        let rest = |platform: &mut HostPlatform, times| (0..times).for_each(|_| platform.relax(AWAKE_SHARED));
        platform.relax(AWAKE_SHARED - 1);
        rest(&mut platform, 1);
        assert_ne!(load(), asleep);
        rest(&mut platform, 1);
        assert_eq!((load(), sleeps(&platform)), (asleep, 0));
        let mut send = || peer.short(PeerId(0), b"head", b"body");
        assert_eq!(send(), Post::Done);
        // It has been woken before it sleeps.
        assert_ne!(load(), asleep);
        rest(&mut platform, 1);
        assert_eq!(sleeps(&platform), 1);
        // Nothing comes: it wakes by itself, later and later; a new wait begins anew.
        rest(&mut platform, 8 * 3);
        assert_eq!(sleeps(&platform), 9);
        let ends: [fn(&mut HostPlatform); 2] =
            [|platform| platform.relax(AWAKE_SHARED - 1), |platform| platform.note(Activity::NONE)];
        for end in ends {
            rest(&mut platform, 2);
            assert_eq!(load(), asleep);
            end(&mut platform);
            assert_ne!(load(), asleep, "its wait is over");
        }
        let mut another = platform.of_another_wait();
        rest(&mut another, 2);
        assert_eq!(load(), asleep);
        drop(another);
        assert_ne!(load(), asleep, "its wait is over");
        // What is woken by another thread, which rings for no rank, naps.
        let mut copy = platform.clone();
        rest(&mut copy, 8);
        assert_ne!(load(), asleep);
        assert_eq!(sleeps(&platform), 9 + 8);
        assert_eq!(send(), Post::Done);
    }

    #[test]
    fn a_sleeper_is_woken_in_another_thread() {
        use aldis_hal::{PeerId, Post, Transport};

        let (words, mut peer) = words();
        let (word, asleep) = asleep(&words);
        // As long as this test: only a peer ends it.
        let forever = Duration::from_secs(600);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while word.load(core::sync::atomic::Ordering::Relaxed) != asleep {
                    std::thread::yield_now();
                }
                sleep(Duration::from_millis(20));
                assert_eq!(peer.short(PeerId(0), b"head", b"body"), Post::Done);
            });
            let told = words.lie_down();
            let woken = aldis_sys::futex::futex_wait(word, asleep, forever);
            assert!(matches!(woken, Ok(()) | Err(aldis_sys::Errno::EAGAIN)), "{woken:?}");
            assert!(words.get_up(told));
        });
    }

    /// Whatever else is in the word, as a peer may write, a sleep ends.
    #[test]
    fn a_word_that_a_peer_has_overwritten_ends_no_sleep_late() {
        assert!(crate::sleeper::take_part(), "this system lets no process take part in barriers");
        let (words, _peer) = words();
        let (word, asleep) = asleep(&words);
        let mut platform = platform(Patience::SHARED).with_sleep(Some(words));
        for value in [0, 1, asleep, u32::MAX, asleep ^ 4] {
            let before = platform.now();
            platform.relax(AWAKE_SHARED);
            platform.relax(AWAKE_SHARED);
            word.store(value, core::sync::atomic::Ordering::Relaxed);
            platform.relax(AWAKE_SHARED);
            assert!(platform.now().since(before) < 60_000_000_000);
        }
    }

    #[test]
    fn notes_stand_on_the_board() {
        let mut platform = platform(Patience::ALONE);
        platform.board.unwrap().enter(LifePhase::Running);
        platform.note(Activity { operation: Operation::Barrier, ..Activity::default() });
        let state = platform.board.unwrap().read(monotonic_ns());
        assert!(state.to_string().starts_with("barrier, communicator 0, waiting"), "{state}");
    }

    #[test]
    fn this_process_may_run_somewhere() {
        assert!(!allowed_cores().is_empty());
    }
}
