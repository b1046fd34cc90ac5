//! The options that the user types.

use core::num::NonZeroUsize;
use core::ops::{Range, RangeInclusive};
use core::str::FromStr;
use core::time::Duration;
use std::io;
use std::path::PathBuf;

use aldis_sim::topology;
use aldis_sim::workloads::{WORKLOADS, Workload};
use aldis_sim::{
    ACTIVE_MIN, FRAME_RANKS_MAX, Network, Profile, RANKS_MAX, Random, Report, SimConfig, Topology, View,
    Wire, simulate, simulate_watched,
};
use clap::{Args, Parser, Subcommand};

use crate::show;

/// Run jobs on virtual nodes in one process, under virtual time, from a seed.
///
/// The kernel, its protocols and the collectives are the real ones; machines, network and time are
/// virtual, and all that happens is drawn from the seed. The same seed is the same history, on
/// every run and machine: a failure is repeated by the line that reports it.
#[derive(Debug, Parser)]
#[command(name = "aldis-sim", version, about, long_about, after_long_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: SimCommand,
}

/// The command to run.
#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Run one seed and say how it went
    Run(One),
    /// Run many seeds, up to the first that fails, which is then made smaller
    Seeds(Many),
    /// List the workloads, and with --json also topologies and fault profiles
    List {
        /// In one line of JSON
        #[arg(long)]
        json: bool,
    },
}

/// A single seed.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The seed that everything is drawn from
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// Of the faults that the seed draws, only those with these numbers, such as 2,7; or none
    #[arg(long, value_name = "LIST")]
    only_faults: Option<Only>,

    /// Tell all faults of the run, with their numbers
    #[arg(long)]
    pub(crate) show_faults: bool,

    /// If it fails, look for fewer faults and ranks that fail too
    #[arg(long)]
    pub(crate) shrink: bool,

    /// Write every event to FILE, which ui.perfetto.dev and chrome://tracing show
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// Draw the run to FILE: a line a rank, time from left to right, messages aslant
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// Draw this stretch of virtual time only, us
    #[arg(long, value_name = "A..B", value_parser = window, requires = "svg")]
    pub(crate) window: Option<Range<u64>>,

    /// Draw so many messages at most; the picture ends where the next would begin
    #[arg(long, value_name = "N", default_value_t = View::default().messages_max, requires = "svg")]
    pub(crate) messages_max: usize,

    #[command(flatten)]
    pub(crate) job: Job,
}

impl One {
    /// The run.
    pub(crate) fn config(&self) -> SimConfig {
        let only = self.only_faults.as_ref().map(|only| only.0.clone());
        let record = self.trace.is_some() || self.svg.is_some();
        SimConfig { only, record, ..self.job.config(self.seed) }
    }
}

/// Many seeds.
#[derive(Debug, Args)]
pub(crate) struct Many {
    /// The first seed
    #[arg(long, default_value_t = 0)]
    pub(crate) from: u64,

    /// The number of seeds [default: 200, or with --minutes as many as there is time for]
    #[arg(long)]
    count: Option<u64>,

    /// Begin no seed after so many minutes
    #[arg(long, value_name = "M", value_parser = minutes)]
    pub(crate) minutes: Option<Duration>,

    /// The number of seeds run at a time, each on a thread [default: one a core]
    #[arg(long, value_name = "J")]
    jobs: Option<NonZeroUsize>,

    /// Leave a failing run as it is
    #[arg(long)]
    pub(crate) no_shrink: bool,

    #[command(flatten)]
    pub(crate) job: Job,
}

impl Many {
    /// The seeds.
    pub(crate) fn seeds(&self) -> Range<u64> {
        let all = if self.minutes.is_some() { u64::MAX } else { 200 };
        self.from..self.from.saturating_add(self.count.unwrap_or(all))
    }

    /// Threads.
    pub(crate) fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.jobs.map_or_else(cores, NonZeroUsize::get)
    }
}

/// The job that every seed runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct Job {
    /// Ranks of the job, one a virtual node; of a range such as 2-9 each seed draws one
    #[arg(long, value_name = "N", default_value = "8", value_parser = ranks)]
    ranks: RangeInclusive<u32>,

    /// The wiring of the nodes; each seed draws one if this is left out
    #[arg(long, long_help = topologies())]
    topology: Option<Topology>,

    /// The wire they talk over: messages, as over shared memory, or frames, which get lost,
    /// doubled, damaged and overtaken under the Ethernet transport; each seed draws one if this is
    /// left out
    #[arg(long)]
    wire: Option<Wire>,

    /// The faults that are done to them: calm (nothing), swarm (clogged links, slow and pausing
    /// nodes), crash (and one dies) or restart (and one dies and boots again)
    #[arg(long, value_name = "PROFILE", default_value_t = Profile::Swarm)]
    faults: Profile,

    /// Rows of each rank for its peers, where there are fewer than ranks, so that contacts are made
    /// and closed: a number from 3, or all; each seed draws it if this is left out, up to 64 in
    /// jobs of more than 256 ranks
    #[arg(long, value_name = "ROWS", value_parser = rows)]
    active: Option<RowCount>,

    /// A fast network with some room instead of one that is drawn and tight
    #[arg(long)]
    fast: bool,

    /// The time after the last fault has healed by which everything must be over, virtual ms
    #[arg(long, value_name = "MS", default_value_t = SimConfig::new(0, 1).patience_ns / 1_000_000)]
    patience: u64,

    /// Stack of each rank, KiB; only what is touched takes memory
    #[arg(long, value_name = "KIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(32..=65536))]
    stack: u32,

    /// Close with one line of JSON on standard output instead of sentences
    #[arg(long)]
    pub(crate) json: bool,

    /// The work of the ranks; `aldis-sim list` tells of each
    #[arg(value_parser = workload)]
    pub(crate) workload: Workload,
}

impl Job {
    /// The run of one seed.
    pub(crate) fn config(&self, seed: u64) -> SimConfig {
        let random = &mut Random::new(seed, 30);
        let ranks = random.within((*self.ranks.start()).into(), (*self.ranks.end()).into()) as u32;
        let topology = *random.pick(&Topology::ALL);
        let wire = if ranks > FRAME_RANKS_MAX { Wire::Messages } else { *random.pick(&Wire::ALL) };
        let mut config = SimConfig {
            topology: self.topology.unwrap_or(topology),
            wire: self.wire.unwrap_or(wire),
            faults: self.faults,
            patience_ns: self.patience.saturating_mul(1_000_000),
            stack_bytes: (self.stack as usize) << 10,
            ..SimConfig::new(seed, ranks)
        };
        if self.fast {
            config.network = Network::default();
        }
        match self.active {
            Some(RowCount(active)) => SimConfig { active: active.filter(|rows| *rows < ranks), ..config },
            None => config.with_drawn_rows(),
        }
    }

    /// Runs it once.
    pub(crate) fn simulate(&self, config: &SimConfig) -> io::Result<Report> {
        let (program, seed) = (self.workload.run, config.seed);
        simulate(config, move |endpoint| program(endpoint, seed))
    }

    /// Runs it once and shows how far it has come.
    pub(crate) fn simulate_shown(&self, config: &SimConfig) -> io::Result<Report> {
        let (program, seed) = (self.workload.run, config.seed);
        let bar = show::spinner("{msg}, {elapsed}");
        let watch = |progress| bar.set_message(show::progress(progress));
        let report = simulate_watched(config, move |endpoint| program(endpoint, seed), watch);
        bar.finish_and_clear();
        report
    }
}

/// Rows for peers; none is a row for every rank.
#[derive(Clone, Copy, Debug)]
struct RowCount(Option<u32>);

fn rows(text: &str) -> Result<RowCount, String> {
    let number = || text.parse().ok().filter(|rows| *rows >= ACTIVE_MIN);
    let wrong = || format!("neither a number from {ACTIVE_MIN} nor all");
    if text == "all" {
        Ok(RowCount(None))
    } else {
        number().map(|rows| RowCount(Some(rows))).ok_or_else(wrong)
    }
}

/// Numbers of faults.
#[derive(Clone, Debug)]
struct Only(Vec<u16>);

impl FromStr for Only {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(Vec::new()));
        }
        let list = text.split(',').map(|number| number.trim().parse().ok()).collect::<Option<_>>();
        list.map(Self).ok_or_else(|| "neither numbers such as 2,7 nor none".into())
    }
}

fn topologies() -> String {
    let head = "How the nodes are wired, one rank a node in order; each seed draws one if this is left out:";
    format!("{head}\n{}", topology::HELP)
}

const EXAMPLES: &str = "\
Examples:
  aldis-sim seeds --count 1000 --ranks 2-32 mixed
      a thousand histories of a bit of everything; the first that fails is made smaller and told with replay commands
  aldis-sim seeds --minutes 30 --from 5000 --ranks 8-32 --faults crash mixed
      as many as there is time for
  aldis-sim run --seed 7 --ranks 16 --topology torus --wire frames --faults swarm halo
      one history, and its trace hash: this line gives the same hash everywhere
  aldis-sim run --seed 7 --ranks 4 --svg run.svg --window 0..80 ring
      the first 80 us of a history as a picture
  aldis-sim run --ranks 65536 --active 34 --topology fat-tree --faults calm --fast barrier-allreduce
      a large job of full kernels, and how long it takes: 7 GiB of memory, and a minute or two

Exit code:
  0 all went well; 1 a run failed; 2 for a wrong command line

A failing run says which rank found what; one that does not come to its end says what every rank waits for.
Programs of your own are tested the same way, from a Rust test: see docs/simulator.md.";

/// A number of ranks or a range of them.
fn ranks(text: &str) -> Result<RangeInclusive<u32>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if 1 <= first && first <= last && last <= RANKS_MAX => Ok(first..=last),
        _ => Err(format!("not a number from 1 to {RANKS_MAX} or a range of them such as 2-9")),
    }
}

/// Microseconds from and to, as ns.
fn window(text: &str) -> Result<Range<u64>, String> {
    let ns = |us: &str| us.trim().parse::<f64>().ok().filter(|us| *us >= 0.0).map(|us| (us * 1000.0) as u64);
    let ends = text.split_once("..").and_then(|(start, end)| Some(ns(start)?..ns(end)?));
    let window = ends.filter(|window| !window.is_empty());
    window.ok_or_else(|| "not a stretch of time in us, such as 20..80.5".into())
}

fn minutes(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().map(|minutes| minutes * 60.0);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| "not a number of minutes such as 0.5".into())
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
        let line = "aldis-sim run --seed 9 --ranks 3 --topology fat-tree --wire frames --faults crash \
                    --only-faults 2,7 mixed";
        let config = |line| {
            let SimCommand::Run(one) = parse(line).unwrap().command else { panic!("a run") };
            (one.config(), one.job.workload.name)
        };
        let (one, workload) = config(line);
        assert_eq!((one.seed, one.ranks, workload), (9, 3, "mixed"));
        assert_eq!((one.topology, one.faults), (Topology::FAT_TREE, Profile::Crash));
        assert_eq!(one.wire, Wire::Frames);
        assert_eq!((one.only.as_deref(), one.replay(workload)), (Some(&[2, 7][..]), line.into()));
        let line = "aldis-sim run --seed 9 --ranks 3 --topology dragonfly:2x1 --wire messages --faults calm \
                    --only-faults none --fast --patience 7 ring";
        assert_eq!(config(line).0.replay("ring"), line);
    }

    #[test]
    fn a_seed_draws_what_is_left_out_and_its_replay_command_names_it() {
        let SimCommand::Seeds(many) = parse("aldis-sim seeds --ranks 2-9 mixed").unwrap().command else {
            panic!("seeds")
        };
        assert_eq!(many.seeds(), 0..200);
        for seed in many.seeds() {
            let drawn = many.job.config(seed);
            let SimCommand::Run(one) = parse(&drawn.replay("mixed")).unwrap().command else {
                panic!("a run")
            };
            assert_eq!(format!("{:?}", one.config()), format!("{drawn:?}"));
        }
        let SimCommand::Seeds(many) = parse("aldis-sim seeds --from 5 --minutes 0.5 mixed").unwrap().command
        else {
            panic!("seeds")
        };
        assert_eq!((many.seeds(), many.minutes), (5..u64::MAX, Some(Duration::from_secs(30))));
    }

    #[test]
    fn wrong_lines_are_answered_with_what_would_be_right() {
        for (line, answer) in [
            ("aldis-sim run --ranks 0 mixed", "from 1 to 1048576"),
            ("aldis-sim run --ranks 9-2 mixed", "a range"),
            ("aldis-sim run fixed", "barrier-allreduce"),
            ("aldis-sim run --topology cube mixed", "torus[:COLUMNS]"),
            ("aldis-sim run --faults all mixed", "swarm"),
            ("aldis-sim run --wire string mixed", "messages, frames"),
            ("aldis-sim run --only-faults all mixed", "2,7"),
            ("aldis-sim run --window 2..1 --svg f mixed", "20..80.5"),
            ("aldis-sim run --window 1..2 mixed", "--svg"),
            ("aldis-sim seeds --minutes x mixed", "a number of minutes"),
            ("aldis-sim run --active 2 mixed", "from 3"),
            ("aldis-sim seeds --jobs 0 mixed", "--jobs"),
            ("aldis-sim run", "<WORKLOAD>"),
            ("aldis-sim", "seeds"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(answer), "{line}: {error}");
        }
    }
}
