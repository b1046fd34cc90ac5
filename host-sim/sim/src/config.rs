//! The configuration of a run: everything that its history depends on.

use core::fmt;
use core::str::FromStr;

use aldis_kernel::hal::Cost;

use super::random::Random;
use super::storage::Room;
use super::topology::Topology;

/// The kinds of faults that are drawn from the seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Profile {
    /// No faults; latencies still vary.
    Calm,
    /// Clogged links, slow nodes and pauses; each run draws which of them and how many.
    #[default]
    Swarm,
    /// The faults of `Swarm`, and one node dies.
    Crash,
    /// The faults of `Swarm`, and one node dies and boots again after a while.
    Restart,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Calm, Self::Swarm, Self::Crash, Self::Restart];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Swarm => "swarm",
            Self::Crash => "crash",
            Self::Restart => "restart",
        }
    }

    /// Returns true if a node dies.
    pub const fn kills(self) -> bool {
        matches!(self, Self::Crash | Self::Restart)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|profile| profile.name() == text);
        found.ok_or_else(|| format!("no fault profile {text}; there are {names}"))
    }
}

/// The network that joins the nodes' programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wire {
    /// Whole messages, in order and without loss, as over shared memory: the kernel's protocols are
    /// tested.
    #[default]
    Messages,
    /// Ethernet frames that are lost, doubled, damaged and overtaken, under the Ethernet transport:
    /// the reliable link and its handshake are tested too.
    Frames,
}

impl Wire {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Messages, Self::Frames];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Frames => "frames",
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Wire {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|wire| wire.name() == text);
        found.ok_or_else(|| format!("no wire {text}; there are {names}"))
    }
}

/// The network between healthy nodes, after LogGP (Alexandrov et al., SPAA 1995).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// The time that a node is busy with each message that it sends or takes, ns.
    pub overhead_ns: u64,
    /// The time that the first byte takes over each link, ns.
    pub latency_ns: u64,
    /// The time that each further KiB takes over the narrowest link, ns.
    pub per_kib_ns: u64,
    /// Up to so much is added to each message at random, ns.
    pub jitter_ns: u64,
    /// Messages that one node may have under way to another before it is told to try again, on the
    /// wire of messages.
    pub depth: u32,
    /// Largest reserved message on the wire of messages, bytes.
    pub bcopy_bytes_max: u32,
    /// Largest payload of an Ethernet frame, bytes.
    pub mtu: u32,
    /// Frames that a node's network card may have waiting to be sent.
    pub tx_frames: u32,
    /// Frames that it holds until its node takes them; those that come then are lost.
    pub rx_frames: u32,
    /// Frames that a node may have under way to another without acknowledgement.
    pub window: u32,
}

impl Network {
    /// A network that is drawn: tight limits, so that backpressure happens all the time.
    pub fn drawn(random: &mut Random) -> Self {
        Self {
            overhead_ns: random.within(20, 400),
            latency_ns: random.within(100, 2_000),
            per_kib_ns: random.within(20, 1_000),
            jitter_ns: *random.pick(&[0, 100, 1_000, 10_000]),
            depth: random.within(1, 6) as u32,
            bcopy_bytes_max: *random.pick(&[56, 64, 100, 160, 512]),
            mtu: *random.pick(&[98, 194, 546, 1500]),
            tx_frames: *random.pick(&[1, 2, 4, 16]),
            rx_frames: *random.pick(&[4, 16, 64]),
            window: random.within(4, 16) as u32,
        }
    }

    /// Returns the cost of a message, for the kernel's choice of protocols.
    pub(crate) fn cost(&self) -> Cost {
        let clamped = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX);
        Cost {
            overhead_ns: clamped(self.overhead_ns),
            latency_ns: clamped(self.latency_ns),
            per_kib_ns: clamped(self.per_kib_ns),
        }
    }
}

impl Default for Network {
    /// A fast cluster network.
    fn default() -> Self {
        let (overhead_ns, latency_ns, per_kib_ns) = (150, 600, 90);
        Self {
            overhead_ns,
            latency_ns,
            per_kib_ns,
            jitter_ns: 100,
            depth: 8,
            bcopy_bytes_max: 512,
            mtu: 1500,
            tx_frames: 64,
            rx_frames: 256,
            window: 16,
        }
    }
}

/// A run. The same configuration and program have the same history, on every machine.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// The seed that everything is drawn from.
    pub seed: u64,
    /// Nodes, one rank each.
    pub ranks: u32,
    /// The wiring of the nodes.
    pub topology: Topology,
    /// The network that joins them.
    pub wire: Wire,
    /// The faults that are injected.
    pub faults: Profile,
    /// Of the faults that the seed draws, those with these indices in [`faults`](super::faults());
    /// all if `None`. Without some of them a failure that remains is easier to understand.
    pub only: Option<Vec<u16>>,
    /// The network; drawn from the seed by [`SimConfig::new`].
    pub network: Network,
    /// Rows for peers in each rank's storage, where there are fewer than ranks; `None` for a row
    /// for every rank, which [`SimConfig::new`] chooses in jobs of up to 256 ranks. In larger ones
    /// it is twice the logarithm of the ranks and two, so that a rank's memory hardly grows with
    /// the job.
    pub active: Option<u32>,
    /// The capacity of each rank's storage; drawn from the seed by [`SimConfig::new`].
    pub room: Room,
    /// True if ranks say goodbye when their program is over. Otherwise they serve the others until
    /// all are done, which saves messages between all pairs in large jobs.
    pub leave: bool,
    /// Stack of a rank, bytes. Pages that are never touched take no memory.
    pub stack_bytes: usize,
    /// The time by which everything must be over, in ns after the faults have healed.
    pub patience_ns: u64,
    /// True if the report holds every event, for a picture of the run. No part of its history.
    pub record: bool,
}

/// Ranks up to which they say goodbye by default.
const LEAVING_RANKS_MAX: u32 = 64;

/// Ranks up to which each has a row for every other by default. The rows of larger jobs do not grow
/// with them.
const ALL_ROWS_RANKS_MAX: u32 = 256;
/// The most rows that are drawn in larger jobs.
const DRAWN_ROWS_MAX: u32 = 64;

/// The rows of a rank of a large job: for those whose rank differs from its own by a power of two,
/// in either direction, for itself, and one for a peer that asks. Dissemination and recursive
/// doubling close no contact then.
const fn large_rows(ranks: u32) -> u32 {
    2 * ranks.next_power_of_two().ilog2() + 2
}

impl SimConfig {
    /// A run of `ranks` ranks on a network drawn from the seed.
    pub fn new(seed: u64, ranks: u32) -> Self {
        Self {
            seed,
            ranks,
            topology: Topology::default(),
            wire: Wire::default(),
            faults: Profile::default(),
            only: None,
            network: Network::drawn(&mut Random::new(seed, 1)),
            active: (ranks > ALL_ROWS_RANKS_MAX).then(|| large_rows(ranks)),
            room: *Random::new(seed, 7).pick(&Room::ALL),
            leave: ranks <= LEAVING_RANKS_MAX,
            stack_bytes: 256 << 10,
            patience_ns: 10_000_000_000,
            record: false,
        }
    }
}

/// The fewest rows of a storage with fewer rows than ranks.
pub const ACTIVE_MIN: u32 = 3;

impl SimConfig {
    /// Returns true if a run of such a job may have fewer rows than ranks.
    pub const fn may_be_active(ranks: u32) -> bool {
        ranks > ACTIVE_MIN
    }

    /// Draws the rows of every rank from the seed: of every other run fewer than ranks, and of all
    /// runs of more than 256 ranks up to 64.
    #[must_use]
    pub fn with_drawn_rows(self) -> Self {
        let mut random = Random::new(self.seed, 11);
        let is_large = self.ranks > ALL_ROWS_RANKS_MAX;
        let most = if is_large { DRAWN_ROWS_MAX } else { self.ranks.max(ACTIVE_MIN + 1) - 1 };
        let drawn = random.within(ACTIVE_MIN.into(), most.into()) as u32;
        let has_fewer = is_large || Self::may_be_active(self.ranks) && random.chance(50);
        Self { active: has_fewer.then_some(drawn), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_large_jobs_do_not_grow_with_them() {
        let rows = |ranks| SimConfig::new(1, ranks).active;
        assert_eq!([8, 256, 257, 4096, 65_536].map(rows), [None, None, Some(20), Some(26), Some(34)]);
        for seed in 0..100 {
            let drawn = SimConfig::new(seed, 65_536).with_drawn_rows().active.unwrap();
            assert!((ACTIVE_MIN..=DRAWN_ROWS_MAX).contains(&drawn), "{drawn}");
        }
    }

    #[test]
    fn names_are_read_back() {
        assert!(Profile::ALL.into_iter().all(|profile| profile.name().parse() == Ok(profile)));
        assert!(Wire::ALL.into_iter().all(|wire| wire.name().parse() == Ok(wire)));
        assert!("string".parse::<Wire>().unwrap_err().contains("frames"));
        assert!("stormy".parse::<Profile>().unwrap_err().contains("crash"));
    }
}
