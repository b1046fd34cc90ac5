//! The simulation of a schedule, its outcome, and the reasons why there is none.

use core::fmt;

use aldis_coll::schedule::{Algorithm, IN_FLIGHT_MAX, Instance};
use aldis_coll::select::{Call, Plan};
use aldis_hal::Cause;

use super::network::ScheduleNetwork;
use super::watch::{Counted, Watch};

mod engine;

/// The most ranks of a run.
pub const RANKS_MAX: u32 = 1 << 24;

/// The largest [`Run::work`] that a run may have unless it says otherwise: a matter of seconds.
pub const WORK_MAX: u64 = 1 << 25;

/// The most shared links of a network with contention.
pub const LINKS_MAX: u64 = 1 << 26;

/// A schedule to be simulated.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The schedule.
    pub algorithm: Algorithm,
    /// Ranks.
    pub size: u32,
    /// The root's rank; 0 where there is none.
    pub root: u32,
    /// Elements of data.
    pub count: usize,
    /// Bytes of an element.
    pub element_bytes: u32,
    /// Elements of scratch: less than the schedule can use cuts the data into segments.
    pub scratch: usize,
    /// Refuse if [`Run::work`] is more.
    pub work_max: u64,
}

impl Run {
    /// A schedule over `size` ranks without data; root 0, and all the scratch that it can use.
    pub const fn new(algorithm: Algorithm, size: u32) -> Self {
        Self { algorithm, size, root: 0, count: 0, element_bytes: 1, scratch: usize::MAX, work_max: WORK_MAX }
    }

    /// This run with `count` elements of `element_bytes` bytes.
    #[must_use]
    pub const fn with_data(self, count: usize, element_bytes: u32) -> Self {
        Self { count, element_bytes, ..self }
    }

    /// Returns the plan by which the executor would carry it out with one segment at a time.
    ///
    /// # Errors
    /// [`RunError::Refused`].
    pub fn plan(&self) -> Result<Plan, RunError> {
        let Self { algorithm, size, count, element_bytes, scratch, .. } = *self;
        let operation = algorithm.operation();
        let call = Call { operation, size, count, element_bytes, scratch, commutes: true };
        call.plan(algorithm).map_err(RunError::Refused)
    }

    /// Returns the work that simulating it takes: rounds of all ranks, times the longest way where
    /// messages share links.
    ///
    /// # Errors
    /// [`RunError::Ranks`], [`RunError::Links`] or [`RunError::Refused`].
    pub fn work(&self, network: &ScheduleNetwork) -> Result<u64, RunError> {
        if self.size == 0 || self.size > RANKS_MAX {
            return Err(RunError::Ranks(self.size));
        }
        let links = if network.has_contention() { network.topology().shared_links(self.size) } else { 0 };
        if links > LINKS_MAX {
            return Err(RunError::Links(links));
        }
        let plan = self.plan()?;
        let first = Instance::new(0, self.size, self.root, plan.segment).map_err(RunError::Refused)?;
        let rounds = u64::from(self.algorithm.rounds(&first));
        let all = rounds.saturating_mul(self.size.into()).saturating_mul(plan.segments(self.count) as u64);
        let ways = if network.has_contention() { network.topology().diameter(self.size) } else { 1 };
        Ok(all.saturating_mul(ways.into()))
    }

    /// Simulates it.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn on(&self, network: &ScheduleNetwork) -> Result<Outcome, RunError> {
        self.watched(network, |_| ())
    }

    /// Simulates it, and tells the number of messages delivered every so often.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn watched(&self, network: &ScheduleNetwork, watch: impl FnMut(u64)) -> Result<Outcome, RunError> {
        self.traced(network, &mut Counted(watch))
    }

    /// Simulates it, and tells all that happens: a [`Trace`](super::Trace) keeps it.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn traced(&self, network: &ScheduleNetwork, watch: &mut impl Watch) -> Result<Outcome, RunError> {
        let work = self.work(network)?;
        if work > self.work_max {
            return Err(RunError::TooMuch { work, most: self.work_max });
        }
        let plan = self.plan()?;
        let mut engine = engine::RunEngine::new(self, network, plan, watch);
        engine.all()?;
        engine.outcome()
    }
}

/// The outcome of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The time at which the last rank was done, ps after all began.
    pub time_ps: u64,
    /// The time at which the first rank was done.
    pub first_ps: u64,
    /// Messages of all ranks.
    pub messages: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Bytes of memory that the simulation took at most.
    pub memory: usize,
}

/// The reason why there is no outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RunError {
    /// No ranks, or more than [`RANKS_MAX`].
    Ranks(u32),
    /// More than [`LINKS_MAX`] links are shared.
    Links(u64),
    /// The run lasts longer than can be counted: 2^64 ps, 213 days.
    TooLong,
    /// The executor would refuse it.
    Refused(Cause),
    /// More than the run allows.
    TooMuch {
        /// The work that the run takes: [`Run::work`].
        work: u64,
        /// The most work that it may take.
        most: u64,
    },
    /// The schedule has more messages in a round than a round may have, or a message to no rank.
    Broken {
        /// The rank.
        rank: u32,
        /// Its round.
        round: u32,
    },
    /// The schedule sends a message of another length than its receiver expects.
    Length {
        /// The receiver.
        rank: u32,
        /// Its round.
        round: u32,
        /// The sender.
        from: u32,
    },
    /// The schedule's ranks wait for messages that no rank sends; this is one of them.
    Stuck {
        /// The rank.
        rank: u32,
        /// Its round.
        round: u32,
    },
    /// The schedule sends messages that no rank receives.
    LeftOver(u64),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ranks(size) => write!(f, "{size} ranks: there must be 1 to {RANKS_MAX}"),
            Self::Links(links) => write!(f, "{links} shared links, and {LINKS_MAX} are the most"),
            Self::TooLong => f.write_str("it lasts longer than 213 days, and no longer times are kept"),
            Self::Refused(cause) => write!(f, "the schedule cannot be carried out: {cause}"),
            Self::TooMuch { work, most } => {
                write!(f, "{work} rounds of ranks are to be simulated, and {most} are allowed")
            }
            Self::Broken { rank, round } => {
                write!(
                    f,
                    "the schedule is wrong: rank {rank}, round {round}: more messages than {IN_FLIGHT_MAX}"
                )?;
                f.write_str(", or one to no rank")
            }
            Self::Length { rank, round, from } => {
                write!(f, "the schedule is wrong: rank {rank}, round {round}: ")?;
                write!(f, "the message from rank {from} has another length than is expected")
            }
            Self::Stuck { rank, round } => {
                write!(f, "the schedule is wrong: rank {rank} waits in round {round} for ever")
            }
            Self::LeftOver(messages) => {
                write!(f, "the schedule is wrong: no rank receives {messages} of its messages")
            }
        }
    }
}

impl core::error::Error for RunError {}
