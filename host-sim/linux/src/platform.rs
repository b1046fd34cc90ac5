//! `HostPlatform`: clock, idle policy, entropy and notes of a rank on Linux.

use core::time::Duration;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use aldis_hal::{Activity, Instant, Platform};
use aldis_sys::clock::{ClockId, clock_gettime, sleep};
use aldis_sys::event::{PollFd, PollFlags, ppoll};
use aldis_sys::process::{CpuSet, Pid, sched_getaffinity, sched_yield};

use crate::board::StatusBoard;

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

    /// Patience like [`SHARED_SOCKETS`](Self::SHARED_SOCKETS), but with an RDMA device. A rank that
    /// yields is given the core again until it has had its share of it: a peer whose system call
    /// moves a megabyte, as with soft RoCE, takes half as long again for every rank that polls
    /// meanwhile. So a rank sleeps soon: until the device wakes it, or for a tenth of the time that
    /// it has waited.
    pub const SHARED_DEVICE: Self = Self { awake: 16, nap_us_max: 1000, ..Self::SHARED_SOCKETS };

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
/// The longest that it sleeps where a bell wakes it: timers and deadlines are late by no more.
const NAP_WITH_BELL: Duration = Duration::from_millis(5);
const NAPS: u32 = 8;

/// Platform of a rank on Linux.
///
/// The clock is `clock_gettime(CLOCK_MONOTONIC)` through the vDSO: 25 ns where the bare time-stamp
/// counter takes 10 (AMD EPYC, virtual machine). The kernel keeps the instant of its last poll and
/// asks again only where a deadline is set or a wait is long, so the 15 ns do not stand on a
/// message's way.
#[derive(Clone, Debug)]
pub struct HostPlatform {
    board: Option<&'static StatusBoard>,
    patience: Patience,
    /// A file that can be read when a sleeper has to wake.
    bell: Option<Arc<OwnedFd>>,
}

impl HostPlatform {
    /// A platform that keeps its notes on `board`.
    pub const fn new(board: &'static StatusBoard, patience: Patience) -> Self {
        Self { board: Some(board), patience, bell: None }
    }

    /// A platform that keeps no notes: of a core of this process, which no launcher watches.
    pub const fn unwatched(patience: Patience) -> Self {
        Self { board: None, patience, bell: None }
    }

    /// This platform, but one that sleeps as long as it may, or until this file can be read: of a
    /// rank for which nothing else happens.
    #[must_use]
    pub fn with_bell(self, bell: Option<OwnedFd>) -> Self {
        Self { bell: bell.map(Arc::new), ..self }
    }

    /// The status board on which it keeps its notes.
    pub const fn board(&self) -> Option<&'static StatusBoard> {
        self.board
    }

    fn sleep(&self, naps: u32) {
        let Some(bell) = &self.bell else {
            let us = NAP_US.saturating_mul(naps).min(self.patience.nap_us_max);
            return sleep(Duration::from_micros(us.into()));
        };
        // A rank that is woken by a signal sleeps less.
        let _ = ppoll(&mut [PollFd::new(bell.as_fd(), PollFlags::POLLIN)], Some(NAP_WITH_BELL.into()), None);
    }

    #[cold]
    fn wait_longer(&self, idle: u32) {
        if idle >= self.patience.awake {
            self.sleep((idle - self.patience.awake) / NAPS + 1);
        } else if idle & (self.patience.yield_every - 1) == 0 {
            let _ = sched_yield();
            if let Some(board) = self.board {
                board.count_yields(1);
            }
        } else {
            core::hint::spin_loop();
        }
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
        if let Some(board) = self.board {
            board.note(activity, monotonic_ns());
        }
    }
}

#[cfg(test)]
mod tests {
    use aldis_hal::Operation;

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
    fn no_rank_burns_for_minutes() {
        for (patience, least_us) in
            [(Patience::ALONE, 50), (Patience::SHARED, 50), (Patience::SHARED_DEVICE, 1000)]
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
