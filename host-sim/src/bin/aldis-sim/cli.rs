//! What the user types.

use core::ops::RangeInclusive;
use std::path::PathBuf;

use aldis_host_sim::sim::workloads::{WORKLOADS, Workload};
use aldis_host_sim::sim::{Config, Network, Profile, RANKS_MAX, Random, Topology};
use clap::{Args, Parser, Subcommand};

/// Run jobs on virtual nodes in one process, under virtual time, from a seed.
///
/// The kernel, its protocols and the collectives are the real ones; machines, network and time are virtual, and all that
/// happens is drawn from the seed. The same seed is the same history, on every run and machine: a failure is repeated by
/// the line that reports it.
#[derive(Debug, Parser)]
#[command(name = "aldis-sim", version, about, long_about, after_long_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to run.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one seed and say how it went
    Run {
        /// What everything is drawn from
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Write every event to FILE, which ui.perfetto.dev and chrome://tracing show
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
        #[command(flatten)]
        job: Job,
    },
    /// Run many seeds, one after another, up to the first that fails
    Seeds {
        /// The first seed
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// How many
        #[arg(long, default_value_t = 200)]
        count: u64,
        #[command(flatten)]
        job: Job,
    },
    /// List the workloads
    List,
}

/// The job that every seed runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct Job {
    /// Ranks of the job, one a virtual node; of a range such as 2-9 each seed draws one
    #[arg(long, value_name = "N", default_value = "8", value_parser = ranks)]
    ranks: RangeInclusive<u32>,

    /// How the nodes are wired; each seed draws one if this is left out
    #[arg(long, long_help = WIRINGS)]
    topology: Option<Topology>,

    /// What is done to them: calm (nothing), swarm (clogged links, slow and pausing nodes) or crash (and one dies)
    #[arg(long, value_name = "PROFILE", default_value_t = Profile::Swarm)]
    faults: Profile,

    /// A fast network with some room instead of one that is drawn and tight
    #[arg(long)]
    fast: bool,

    /// Stack of each rank, KiB; only what is touched takes memory
    #[arg(long, value_name = "KIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(32..=65536))]
    stack: u32,

    /// Close with one line of JSON on standard output instead of sentences
    #[arg(long)]
    pub(crate) json: bool,

    /// What the ranks do; `aldis-sim list` tells of each
    #[arg(value_parser = workload)]
    pub(crate) workload: Workload,
}

impl Job {
    /// The run of one seed.
    pub(crate) fn config(&self, seed: u64) -> Config {
        let random = &mut Random::new(seed, 30);
        let mut config =
            Config::new(seed, random.within((*self.ranks.start()).into(), (*self.ranks.end()).into()) as u32);
        config.topology = self.topology.unwrap_or(*random.pick(&Topology::ALL));
        config.faults = self.faults;
        config.stack_bytes = (self.stack as usize) << 10;
        if self.fast {
            config.network = Network::default();
        }
        config
    }

    /// Options that change the history and that a report does not know of.
    pub(crate) fn extra(&self) -> &'static str {
        if self.fast { " --fast" } else { "" }
    }
}

const WIRINGS: &str = "\
How the nodes are wired, one rank a node in order; each seed draws one if this is left out:
  crossbar                   one switch that never blocks
  ring                       each node to the next, both ways round
  torus[:COLUMNS]            a grid closed in both directions [square]
  fat-tree[:LEAFxUPLINKS]    switches of LEAF nodes under UPLINKS spine switches [by ranks, up to 32x16]
  dragonfly[:ROUTERSxNODES]  groups of ROUTERS routers with NODES nodes each [by ranks, up to 16x8]
";

const EXAMPLES: &str = "\
Examples:
  aldis-sim seeds --count 1000 --ranks 2-32 mixed
      a thousand histories of a bit of everything; the first that fails is reported with its replay command
  aldis-sim run --seed 7 --ranks 16 --topology torus --faults swarm halo
      one history, and its trace hash: whoever runs this line gets the same hash
  aldis-sim run --ranks 1024 --topology fat-tree --faults calm --fast --json barrier-allreduce
      a large job, and how long it takes

Exit code:
  0 all went well; 1 a run failed; 2 for a wrong command line

A failing run says which rank found what; one that does not come to its end says what every rank waits for.
Programs of your own are tested the same way, from a Rust test: see aldis_host_sim::sim.";

/// A number of ranks or a range of them.
fn ranks(text: &str) -> Result<RangeInclusive<u32>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if 1 <= first && first <= last && last <= RANKS_MAX => Ok(first..=last),
        _ => Err(format!("not a number from 1 to {RANKS_MAX} or a range of them such as 2-9")),
    }
}

fn workload(name: &str) -> Result<Workload, String> {
    let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
    Workload::named(name).ok_or_else(|| format!("there are {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_definition_is_sound() {
        Options::command().debug_assert();
    }

    #[test]
    fn a_replay_command_is_understood() {
        let line = "aldis-sim run --seed 9 --ranks 3 --topology fat-tree --faults crash mixed";
        let Command::Run { seed, job, .. } = parse(line).unwrap().command else { panic!("a run") };
        let config = job.config(seed);
        assert_eq!((config.seed, config.ranks), (9, 3));
        assert_eq!((config.topology, config.faults), (Topology::FAT_TREE, Profile::Crash));
        assert_eq!(job.workload.name, "mixed");
    }

    #[test]
    fn wrong_lines_are_answered_with_what_would_be_right() {
        for (line, answer) in [
            ("aldis-sim run --ranks 0 mixed", "from 1 to 4096"),
            ("aldis-sim run --ranks 9-2 mixed", "a range"),
            ("aldis-sim run fixed", "barrier-allreduce"),
            ("aldis-sim run --topology cube mixed", "torus"),
            ("aldis-sim run --faults all mixed", "swarm"),
            ("aldis-sim run", "<WORKLOAD>"),
            ("aldis-sim", "seeds"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(answer), "{line}: {error}");
        }
    }
}
