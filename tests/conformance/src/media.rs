//! The media that cases run over, in one list.

use core::fmt;
use core::ops::RangeInclusive;

use aldis_drivers::Loopback;
use aldis_sim::Wire;
use aldis_tests::storage::{RANKS_MAX, REQUESTS, Room};
use aldis_tests::threads::{self, Host};

use super::chapter::cases;
pub use super::plan::CasePlan;
use super::rank::play;
#[cfg(feature = "verbs")]
use super::registered;
use super::{connected, launched, simulated, wired};

/// Request slots of a core of `aldis_linux::cores`.
const CORE_REQUESTS: usize = 256;

/// Seeds that a case that draws from them has on every medium at least.
const DRAWN: u64 = 20;

/// The number of seeds that are worth their time on a medium.
#[derive(Clone, Copy)]
enum Seeds {
    /// A single one: nothing is drawn.
    One,
    /// A seed for each size of storage: nothing else is drawn.
    Rooms,
    /// So many of a thousand, and one for each size of storage at least.
    PerThousand(u64),
}

/// A transport, or several together, and what drives them.
#[derive(Clone, Copy)]
pub struct Medium {
    /// Its name on the command line.
    pub name: &'static str,
    /// The medium in a line.
    pub about: &'static str,
    /// Least and most ranks of a job on it.
    ranks: (u32, u32),
    seeds: Seeds,
    run: fn(&CasePlan) -> Result<(), String>,
}

/// The media that every case runs over. A transport that comes later is a line here.
const MEDIA: &[Medium] = &[
    Medium {
        name: "loopback",
        about: "a job of one over the loopback alone",
        ranks: (1, 1),
        seeds: Seeds::Rooms,
        run: |plan| threads::run_alone(plan.room(), |ep| told(play(plan.case, plan.seed, ep, REQUESTS))),
    },
    Medium {
        name: "shm",
        about: "threads over shared-memory rings, and each over the loopback to itself",
        ranks: (1, RANKS_MAX as u32),
        seeds: Seeds::Rooms,
        run: |plan| {
            threads::run(plan.ranks, plan.room(), |ep| told(play(plan.case, plan.seed, ep, REQUESTS)))
                .map(drop)
        },
    },
    Medium {
        name: "cores",
        about: "the cores of a job of `aldis_linux::cores`: threads with the rings and the storage of a host",
        ranks: (1, RANKS_MAX as u32),
        seeds: Seeds::One,
        run: |plan| {
            threads::run_on_cores(plan.ranks, |ep| told(play(plan.case, plan.seed, ep, CORE_REQUESTS)))
        },
    },
    Medium {
        name: "processes",
        about: "processes under aldis-run, over shared segments, with the storage of a host",
        ranks: (1, RANKS_MAX as u32),
        seeds: Seeds::One,
        run: launched::run,
    },
    Medium {
        name: "tcp",
        about: "threads over TCP on the loopback, IPv4 and IPv6, sockets that take little, several links",
        ranks: (1, RANKS_MAX as u32),
        seeds: Seeds::PerThousand(8),
        run: connected::run,
    },
    #[cfg(feature = "verbs")]
    Medium {
        name: "verbs",
        about: "threads over an RDMA device, with prices by which long messages are read, or none are",
        ranks: (1, RANKS_MAX as u32),
        seeds: Seeds::PerThousand(8),
        run: registered::connected,
    },
    #[cfg(feature = "verbs")]
    Medium {
        name: "datagrams",
        about: "the same in datagrams of an RDMA device, which are acknowledged and repeated",
        ranks: (1, RANKS_MAX as u32),
        seeds: Seeds::PerThousand(8),
        run: registered::datagrams,
    },
    Medium {
        name: "ethernet",
        about: "the Ethernet transport on a hub that loses, doubles and damages frames",
        ranks: (1, RANKS_MAX as u32),
        seeds: Seeds::PerThousand(6),
        run: wired::ethernet,
    },
    Medium {
        name: "composite",
        about: "shared memory within each half of the job, and the same Ethernet between the halves",
        ranks: (1, RANKS_MAX as u32),
        seeds: Seeds::PerThousand(6),
        run: wired::composite,
    },
    Medium {
        name: "messages",
        about: "the simulator's wire of messages: ordered and reliable, with little room; slow and stalled nodes",
        ranks: (1, RANKS_MAX as u32),
        seeds: Seeds::PerThousand(500),
        run: |plan| simulated::run(plan, Wire::Messages),
    },
    Medium {
        name: "frames",
        about: "the simulator's wire of frames: Ethernet under loss, duplication, reordering, damage and partitions",
        ranks: (1, RANKS_MAX as u32),
        seeds: Seeds::PerThousand(500),
        run: |plan| simulated::run(plan, Wire::Frames),
    },
];

/// The media that there are on this machine: an RDMA device is no matter of course.
pub fn media() -> impl Iterator<Item = &'static Medium> {
    #[cfg(feature = "verbs")]
    let is_here = {
        let has_device = registered::is_here();
        move |medium: &&Medium| has_device || !["verbs", "datagrams"].contains(&medium.name)
    };
    #[cfg(not(feature = "verbs"))]
    let is_here = |_: &&Medium| true;
    MEDIA.iter().filter(is_here)
}

impl Medium {
    /// The one of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        MEDIA.iter().find(|medium| medium.name == name)
    }

    /// Returns the number of seeds to run here when a campaign over all media has so many, of a
    /// case that draws from them or does not.
    pub const fn seeds_of(&self, seeds: u64, is_drawn: bool) -> u64 {
        let rooms = Room::ALL.len() as u64;
        let worth = match self.seeds {
            Seeds::One | Seeds::Rooms if is_drawn => DRAWN,
            Seeds::PerThousand(share) if is_drawn && share < DRAWN => DRAWN,
            Seeds::One => 1,
            Seeds::Rooms => rooms,
            Seeds::PerThousand(share) => {
                let share = seeds.saturating_mul(share).div_ceil(1000);
                if share < rooms { rooms } else { share }
            }
        };
        if worth < seeds { worth } else { seeds }
    }

    /// Returns true if a run here differs from seed to seed, of a case that draws from them or
    /// does not, by more than the size of storages.
    pub const fn draws(&self, is_drawn: bool) -> bool {
        is_drawn || matches!(self.seeds, Seeds::PerThousand(_))
    }

    /// Sizes of a job on it.
    pub const fn ranks(&self) -> RangeInclusive<u32> {
        self.ranks.0..=self.ranks.1
    }
}

impl fmt::Debug for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Medium").field(&self.name).finish()
    }
}

fn told(outcome: super::Outcome) -> Result<(), String> {
    outcome.map_err(|error| error.to_string())
}

/// A run that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MediaFailure {
    /// The case, with its section.
    pub case: String,
    /// Its name.
    pub name: &'static str,
    /// The medium that it ran over.
    pub medium: &'static str,
    /// The run's seed.
    pub seed: u64,
    /// The words of each rank that failed.
    pub what: String,
}

impl fmt::Display for MediaFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, name, medium, seed, what } = self;
        writeln!(f, "{case} FAILED over {medium} with seed {seed}:\n  {what}")?;
        write!(
            f,
            "replay with\n  cargo xtask conformance --case {name} --medium {medium} --from {seed} --seeds 1"
        )
    }
}

impl core::error::Error for MediaFailure {}

/// Runs a case over a medium. `None` if the medium has no jobs of its size.
///
/// # Errors
/// What went wrong, and how to see it again.
pub fn run(case: usize, medium: &Medium, seed: u64) -> Option<Result<(), MediaFailure>> {
    // Any kind of endpoint will do to read the list.
    let all = cases::<Loopback<'_>, Host<'_>>();
    let found = all.get(case)?;
    let ranks = found.ranks;
    medium.ranks().contains(&ranks).then(|| {
        (medium.run)(&CasePlan { case, seed, ranks }).map_err(|what| MediaFailure {
            case: format!("{found:?}"),
            name: found.name,
            medium: medium.name,
            seed,
            what,
        })
    })
}
