//! The report of a run when it is over.

use core::fmt;

use super::config::{Network, SimConfig};
use super::record::Record;
use super::world::{Life, Totals, World};

/// The reason why a run failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunFailure {
    /// The rank whose program failed; `None` if the job did not come to its end.
    pub rank: Option<u32>,
    /// The text of the failure.
    pub what: String,
    /// The activity of each rank that is not over, if the job did not come to its end.
    pub ranks: Vec<String>,
}

/// The most ranks whose activity is told.
const TOLD_RANKS_MAX: usize = 256;

impl RunFailure {
    pub(crate) fn ranks(world: &World) -> Vec<String> {
        let unfinished = || world.nodes.iter().zip(0..).filter(|(node, _)| node.life != Life::Over);
        let untold = unfinished().count().saturating_sub(TOLD_RANKS_MAX);
        let mut lines: Vec<String> = unfinished()
            .take(TOLD_RANKS_MAX)
            .map(|(node, rank)| {
                if node.life == Life::Dead {
                    return format!("rank {rank} is gone");
                }
                let doing = node.activity;
                let mut line = format!("rank {rank} is in {}", doing.operation);
                if let Some(peer) = doing.peer {
                    line += &format!(" with {peer}");
                }
                if let Some(tag) = doing.tag {
                    line += &format!(", tag {tag}");
                }
                line + &format!(", {} bytes; {} arrivals not taken", doing.bytes, node.waiting())
            })
            .collect();
        if untold > 0 {
            lines.push(format!("and {untold} ranks more"));
        }
        lines
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rank) = self.rank {
            write!(f, "rank {rank}: ")?;
        }
        f.write_str(&self.what)?;
        self.ranks.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// The progress of a run that is not over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunProgress {
    /// Ranks that are made; none begins before all are.
    pub made: u32,
    /// Ranks whose program has come to its end.
    pub over: u32,
    /// Ranks in all.
    pub ranks: u32,
    /// Events so far.
    pub events: u64,
    /// Virtual time, ns.
    pub virtual_ns: u64,
}

/// The ways in which a run ends.
pub(crate) enum RunEnd {
    Well,
    Failed(RunFailure),
    Stranded(Vec<String>),
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The configuration that was run.
    pub config: SimConfig,
    /// Hash of the whole history: every event, its virtual time, and the bytes of every message.
    pub hash: u64,
    /// Virtual time at the end, ns.
    pub virtual_ns: u64,
    /// The counts of what happened.
    pub totals: Totals,
    /// Bytes of each rank's kernel storage.
    pub storage_bytes: usize,
    /// The failure, if something went wrong.
    pub failure: Option<RunFailure>,
    /// The activity of each rank, where a node has died and others wait for ever for a message of
    /// any source: without a launcher no rank can know that it will not come.
    pub stranded: Vec<String>,
    /// Every event, if [`SimConfig::record`] asked for it.
    pub records: Vec<Record>,
}

impl Report {
    pub(crate) fn new(world: &mut World, storage_bytes: usize, end: RunEnd) -> Self {
        let (failure, stranded) = match end {
            RunEnd::Well => (None, Vec::new()),
            RunEnd::Failed(failure) => (Some(failure), Vec::new()),
            RunEnd::Stranded(ranks) => (None, ranks),
        };
        Self {
            config: world.config.clone(),
            hash: world.hash(),
            virtual_ns: world.now,
            totals: world.totals,
            storage_bytes,
            failure,
            stranded,
            records: world.records.take().unwrap_or_default(),
        }
    }

    /// The command that runs `workload` through the same history again.
    pub fn replay(&self, workload: &str) -> String {
        self.config.replay(workload)
    }
}

impl SimConfig {
    /// The command that runs `workload` in this way, for a network that is drawn from the seed or
    /// the default.
    pub fn replay(&self, workload: &str) -> String {
        let Self { seed, ranks, topology, wire, faults, .. } = self;
        let mut line = format!(
            "aldis-sim run --seed {seed} --ranks {ranks} --topology {topology} --wire {wire} --faults {faults}"
        );
        if Self::may_be_active(*ranks) {
            let rows = self.active.map_or("all".into(), |rows| rows.to_string());
            line += &format!(" --active {rows}");
        }
        if let Some(only) = &self.only {
            let list: Vec<String> = only.iter().map(u16::to_string).collect();
            let list = if list.is_empty() { "none".into() } else { list.join(",") };
            line += &format!(" --only-faults {list}");
        }
        if self.network == Network::default() {
            line += " --fast";
        }
        if self.patience_ns != Self::new(*seed, *ranks).patience_ns {
            line += &format!(" --patience {}", self.patience_ns / 1_000_000);
        }
        line + " " + workload
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { events, messages, bytes, refusals, .. } = self.totals;
        write!(
            f,
            "seed {}, {} ranks, {}, {}, {} faults: {} virtual us, {events} events, {messages} messages, {bytes} bytes, \
             {refusals} refused posts, trace {:016x}",
            self.config.seed,
            self.config.ranks,
            self.config.topology,
            self.config.wire,
            self.config.faults,
            self.virtual_ns / 1000,
            self.hash
        )
    }
}
