//! `Platform`: the clock, what to do while idle, entropy, and a note of what this rank is doing.

use core::fmt;

use embedded_hal::delay::DelayNs;

use crate::id::PeerId;
use crate::time::Instant;

/// The user-visible operation that an error or an [`Activity`] belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[repr(u32)]
pub enum Operation {
    /// No operation: computing, or not started.
    #[default]
    None = 0,
    /// Joining the job.
    Join = 1,
    /// A send, blocking or not.
    Send = 2,
    /// A receive, blocking or not.
    Recv = 3,
    /// A combined send and receive.
    SendRecv = 4,
    /// A probe.
    Probe = 5,
    /// Waiting for requests.
    Wait = 6,
    /// A barrier.
    Barrier = 7,
    /// A broadcast.
    Bcast = 8,
    /// An all-reduce.
    Allreduce = 9,
    /// Leaving the job.
    Leave = 10,
    /// Ending the job at once.
    Abort = 11,
    /// Duplicating a communicator.
    Dup = 12,
    /// Splitting a communicator.
    Split = 13,
    /// Making a communicator of a group.
    Create = 14,
    /// Freeing a communicator.
    Free = 15,
    /// An operation on groups or on what is known of a communicator, without communication.
    Group = 16,
    /// A reduction to one rank.
    Reduce = 17,
    /// A reduction of all ranks up to each.
    Scan = 18,
    /// A reduction of all ranks before each.
    Exscan = 19,
    /// A block of every rank to one rank.
    Gather = 20,
    /// Blocks of unlike lengths of every rank to one rank.
    Gatherv = 21,
    /// A block of one rank to every rank.
    Scatter = 22,
    /// Blocks of unlike lengths of one rank to every rank.
    Scatterv = 23,
    /// A block of every rank to every rank.
    Allgather = 24,
    /// Blocks of unlike lengths of every rank to every rank.
    Allgatherv = 25,
    /// A block of every rank for every rank.
    Alltoall = 26,
    /// Blocks of unlike lengths of every rank for every rank.
    Alltoallv = 27,
    /// Blocks of unlike types of every rank for every rank.
    Alltoallw = 28,
    /// A reduction whose result is divided among the ranks, in blocks of unlike lengths.
    ReduceScatter = 29,
    /// A reduction whose result is divided among the ranks, in blocks of one length.
    ReduceScatterBlock = 30,
    /// A block of every rank to its neighbours.
    NeighborAllgather = 31,
    /// Blocks of unlike lengths of every rank to its neighbours.
    NeighborAllgatherv = 32,
    /// A block of every rank for each of its neighbours.
    NeighborAlltoall = 33,
    /// Blocks of unlike lengths of every rank for each of its neighbours.
    NeighborAlltoallv = 34,
    /// Blocks of unlike types of every rank for each of its neighbours.
    NeighborAlltoallw = 35,
}

impl Operation {
    /// Every operation, by its number.
    pub const ALL: [Self; 36] = [
        Self::None,
        Self::Join,
        Self::Send,
        Self::Recv,
        Self::SendRecv,
        Self::Probe,
        Self::Wait,
        Self::Barrier,
        Self::Bcast,
        Self::Allreduce,
        Self::Leave,
        Self::Abort,
        Self::Dup,
        Self::Split,
        Self::Create,
        Self::Free,
        Self::Group,
        Self::Reduce,
        Self::Scan,
        Self::Exscan,
        Self::Gather,
        Self::Gatherv,
        Self::Scatter,
        Self::Scatterv,
        Self::Allgather,
        Self::Allgatherv,
        Self::Alltoall,
        Self::Alltoallv,
        Self::Alltoallw,
        Self::ReduceScatter,
        Self::ReduceScatterBlock,
        Self::NeighborAllgather,
        Self::NeighborAllgatherv,
        Self::NeighborAlltoall,
        Self::NeighborAlltoallv,
        Self::NeighborAlltoallw,
    ];

    /// The operation with this number, for the reader of another process's note.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "computing",
            Self::Join => "join",
            Self::Send => "send",
            Self::Recv => "recv",
            Self::SendRecv => "sendrecv",
            Self::Probe => "probe",
            Self::Wait => "wait",
            Self::Barrier => "barrier",
            Self::Bcast => "bcast",
            Self::Allreduce => "allreduce",
            Self::Leave => "leave",
            Self::Abort => "abort",
            Self::Dup => "dup",
            Self::Split => "split",
            Self::Create => "create",
            Self::Free => "free",
            Self::Group => "group",
            Self::Reduce => "reduce",
            Self::Scan => "scan",
            Self::Exscan => "exscan",
            other => of_blocks(*other),
        })
    }
}

/// The names of operations on blocks, and of those among neighbours.
const fn of_blocks(operation: Operation) -> &'static str {
    match operation {
        Operation::Gather => "gather",
        Operation::Gatherv => "gatherv",
        Operation::Scatter => "scatter",
        Operation::Scatterv => "scatterv",
        Operation::Allgather => "allgather",
        Operation::Allgatherv => "allgatherv",
        Operation::Alltoall => "alltoall",
        Operation::Alltoallv => "alltoallv",
        Operation::Alltoallw => "alltoallw",
        Operation::ReduceScatter => "reduce_scatter",
        Operation::ReduceScatterBlock => "reduce_scatter_block",
        Operation::NeighborAllgather => "neighbor_allgather",
        Operation::NeighborAllgatherv => "neighbor_allgatherv",
        Operation::NeighborAlltoall => "neighbor_alltoall",
        Operation::NeighborAlltoallv => "neighbor_alltoallv",
        Operation::NeighborAlltoallw => "neighbor_alltoallw",
        _ => "collective",
    }
}

/// The activity of a rank, to explain why it hangs or where it died.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Activity {
    /// The call that the rank is in.
    pub operation: Operation,
    /// The rank it waits for; `None` for any, or for none in particular.
    pub peer: Option<PeerId>,
    /// The message's tag; `None` for any.
    pub tag: Option<u32>,
    /// The communicator's context id.
    pub context: u32,
    /// The message's bytes, or the buffer's.
    pub bytes: u64,
}

impl Activity {
    /// In no call, as by default.
    pub const NONE: Self = Self { operation: Operation::None, peer: None, tag: None, context: 0, bytes: 0 };
}

/// The polls in a row that found nothing, from which on each was a whole one.
pub const WHOLE_POLLS_FROM: u32 = 512;

/// The services that the kernel needs from the machine it runs on.
pub trait Platform {
    /// Monotonic time. Needs no common origin with other ranks.
    fn now(&self) -> Instant;

    /// Called by blocking calls after a poll that found nothing; `idle` is how many such polls came
    /// in a row (saturating). Below [`WHOLE_POLLS_FROM`] it may have been a look for what one peer
    /// sends; from there on it was at all transports, and at all that the call waits for. The
    /// explicit idle policy: spin, pause, wait for an event, yield,
    /// park; in the simulator, the scheduling point. Must return in bounded time.
    fn relax(&mut self, idle: u32);

    /// 64 bits that differ between boots, for epochs. Not for cryptography.
    fn entropy(&mut self) -> u64;

    /// A note of what this rank is about to wait for; [`Operation::None`] when the wait is over.
    /// Called off the fast path only: when a blocking call has found nothing for a while.
    fn note(&mut self, _activity: Activity) {}
}

/// A platform that is lent.
impl<P: Platform + ?Sized> Platform for &mut P {
    fn now(&self) -> Instant {
        (**self).now()
    }

    fn relax(&mut self, idle: u32) {
        (**self).relax(idle);
    }

    fn entropy(&mut self) -> u64 {
        (**self).entropy()
    }

    fn note(&mut self, activity: Activity) {
        (**self).note(activity);
    }
}

/// A platform from any `embedded-hal` delay and a free-running nanosecond clock: what a board has
/// before its own platform is written.
///
/// `relax` spins for `SPINS` polls and then sleeps `delay_ns` between polls.
#[derive(Debug)]
pub struct DelayPlatform<D, C> {
    delay: D,
    clock: C,
    delay_ns: u32,
    seed: u64,
}

impl<D: DelayNs, C: Fn() -> u64> DelayPlatform<D, C> {
    /// Polls without a sleep before the first one with.
    pub const SPINS: u32 = 64;

    /// `clock` counts nanoseconds and never runs backwards; `seed` must differ between boots (a
    /// noisy ADC, a counter in flash, the clock at an operator's key press).
    pub const fn new(delay: D, clock: C, delay_ns: u32, seed: u64) -> Self {
        Self { delay, clock, delay_ns, seed }
    }
}

impl<D: DelayNs, C: Fn() -> u64> Platform for DelayPlatform<D, C> {
    fn now(&self) -> Instant {
        Instant((self.clock)())
    }

    fn relax(&mut self, idle: u32) {
        if idle < Self::SPINS {
            core::hint::spin_loop();
        } else {
            self.delay.delay_ns(self.delay_ns);
        }
    }

    fn entropy(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea, Flood 2014) over the seed and the clock.
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_add((self.clock)());
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Slept(u64);
    impl DelayNs for Slept {
        fn delay_ns(&mut self, ns: u32) {
            self.0 += u64::from(ns);
        }
    }

    #[test]
    fn a_delay_platform_spins_first_and_sleeps_later() {
        let mut platform = DelayPlatform::new(Slept(0), || 42, 500, 1);
        platform.relax(0);
        assert_eq!(platform.delay.0, 0);
        platform.relax(64);
        assert_eq!(platform.delay.0, 500);
        assert_eq!(platform.now(), Instant(42));
        assert_ne!(platform.entropy(), platform.entropy());
    }

    #[test]
    fn operations_are_numbered_as_listed() {
        for (number, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, number);
            assert_eq!(Operation::from_number(number as u8), Some(operation));
        }
        assert_eq!(Operation::from_number(200), None);
    }
}
