//! The options that the user types.

use std::path::PathBuf;

use aldis_coll::catalog::COLLECTIVES;
use aldis_coll::catalog::algorithms;
use aldis_hal::Operation;
use aldis_sim::topology;
use aldis_sim::whatif::{LogGp, ScheduleNetwork, Topology};
use clap::{Args, Parser};

use crate::list::RisingNumbers;

/// Predict how long each collective schedule takes, against rank count and message size, on a given
/// network.
///
/// Every rank is walked through its rounds of the schedule in virtual time under the LogGP model: a
/// message of k bytes costs its sender o, (k-1) G on the wire, L on the way and its receiver o, and
/// messages of one node are g apart. No protocol is run and nothing is sent. The same command
/// always gives the same times.
#[derive(Debug, Parser)]
#[command(name = "aldis-whatif", version, about, long_about, after_long_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Options {
    /// Collectives to predict [default: all]; the v-variants have the schedules of those they are
    /// variants of
    #[arg(value_name = "OPERATION", value_parser = operation)]
    pub(crate) operations: Vec<Operation>,

    /// Only this algorithm; may be given several times (see --list) [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) algorithm: Vec<String>,

    /// Rank counts: a number, a list (4,6,8), or a range (2..64 doubling, 2..64*4 times 4 each)
    #[arg(long, value_name = "LIST", default_value = "2..65536")]
    pub(crate) ranks: RisingNumbers,

    /// Bytes of a rank's data, in the same forms, with Ki, Mi, Gi; of a block where there is one
    /// for every rank; a barrier has none
    #[arg(long, value_name = "LIST", default_value = "8")]
    pub(crate) bytes: RisingNumbers,

    /// Bytes of an element: data is cut between elements
    #[arg(long, value_name = "BYTES", default_value = "8", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) element_bytes: u32,

    /// Scratch memory that each rank has; less than an algorithm needs cuts its data into segments
    /// [default: as much as it can use]
    #[arg(long, value_name = "BYTES")]
    pub(crate) scratch_bytes: Option<u64>,

    /// The root of operations that have one
    #[arg(long, value_name = "RANK", default_value = "0")]
    pub(crate) root: u32,

    /// Points that take more rounds of ranks than this to simulate are left out: a ring over p
    /// ranks takes 2 p (p-1)
    #[arg(long, value_name = "ROUNDS", default_value = "33554432")]
    pub(crate) work_max: u64,

    /// Print JSON in place of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write the points to this file as comma-separated values
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// Also draw them to this file, both axes logarithmic: time against ranks, or against bytes if
    /// there is one rank count
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// List operations, algorithms and where they are published, and topologies; simulate nothing
    #[arg(long)]
    pub(crate) list: bool,

    #[command(flatten)]
    pub(crate) network: NetworkOptions,
}

/// The network.
#[derive(Debug, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct NetworkOptions {
    /// The topology that connects the nodes
    #[arg(long, long_help = topologies(), default_value = "crossbar")]
    pub(crate) topology: Topology,

    /// L: from the sender to the receiver over the shortest way
    #[arg(long, value_name = "NS", allow_negative_numbers = true, default_value = "900", value_parser = nanoseconds)]
    pub(crate) latency_ns: u64,

    /// The time that each further switch or node on the way adds to L
    #[arg(long, value_name = "NS", allow_negative_numbers = true, default_value = "100", value_parser = nanoseconds)]
    pub(crate) hop_ns: u64,

    /// o: processor time to send or to receive a message
    #[arg(long, value_name = "NS", allow_negative_numbers = true, default_value = "300", value_parser = nanoseconds)]
    pub(crate) overhead_ns: u64,

    /// g: the least time between two messages of one node
    #[arg(long, value_name = "NS", allow_negative_numbers = true, default_value = "50", value_parser = nanoseconds)]
    pub(crate) gap_ns: u64,

    /// G: time for each further byte of a message; 0.04 is 200 Gbit/s
    #[arg(long, value_name = "NS", allow_negative_numbers = true, default_value = "0.04", value_parser = nanoseconds)]
    pub(crate) byte_ns: u64,

    /// Processor time for each byte reduced or copied
    #[arg(long, value_name = "NS", allow_negative_numbers = true, default_value = "0.05", value_parser = nanoseconds)]
    pub(crate) reduce_byte_ns: u64,

    /// A node whose processor is FACTOR times as slow; may be given several times
    #[arg(long, value_name = "RANK=FACTOR", value_parser = slow_node)]
    pub(crate) slow: Vec<(u32, u32)>,

    /// Let messages wait for each other where they share a link of the topology
    #[arg(long)]
    pub(crate) contention: bool,
}

impl NetworkOptions {
    pub(crate) fn network(&self) -> ScheduleNetwork {
        // All of these were turned into picoseconds when they were read.
        let cost = LogGp {
            latency_ps: self.latency_ns,
            hop_ps: self.hop_ns,
            overhead_ps: self.overhead_ns,
            gap_ps: self.gap_ns,
            byte_ps: self.byte_ns,
            local_byte_ps: self.reduce_byte_ns,
        };
        let mut network = ScheduleNetwork::new(cost, self.topology);
        for (rank, factor) in &self.slow {
            network = network.with_slow_node(*rank, *factor);
        }
        if self.contention { network.with_contention() } else { network }
    }
}

impl Options {
    /// Returns the title of a plot.
    pub(crate) fn title(&self) -> String {
        let shared = if self.network.contention { ", shared links" } else { "" };
        format!("Predicted time on a {}{shared}", self.network.topology)
    }
}

/// The collectives that have schedules of their own.
pub(crate) fn scheduled() -> impl Iterator<Item = Operation> {
    let is_own =
        |operation: &Operation| algorithms(*operation).iter().any(|one| one.operation() == *operation);
    COLLECTIVES.into_iter().filter(is_own)
}

/// The operation of this name.
fn operation(name: &str) -> Result<Operation, String> {
    scheduled().find(|operation| operation.to_string() == name).ok_or_else(|| {
        let known: Vec<String> = scheduled().map(|operation| operation.to_string()).collect();
        format!("known: {}", known.join(", "))
    })
}

fn topologies() -> String {
    format!("How the nodes are connected, one rank a node in order:\n{}", topology::HELP)
}

const EXAMPLES: &str = "\
Examples:
  aldis-whatif
      every schedule over 2 to 65,536 ranks with 8 bytes
  aldis-whatif allreduce --ranks 64 --bytes 8..16Mi*2 --svg allreduce.svg
      where the ring overtakes recursive doubling on 64 nodes
  aldis-whatif barrier --ranks 2..65536 --topology dragonfly:16x8 --csv barrier.csv
  aldis-whatif allreduce --ranks 1024 --bytes 1Mi --topology fat-tree:32x8 --contention
      with 32 nodes at a leaf switch that share 8 uplinks
  aldis-whatif bcast --ranks 100 --slow 3=10
      rank 3 takes ten times as long for everything that its processor does

The columns of the table:
  us         when the last rank is done
  messages   messages of all ranks; sent are their bytes
  fastest    the least time of the algorithms at the same ranks and bytes

Measure L, o, g and G of your network with a LogGP benchmark; the defaults are of the order of a cluster's of the
2020s. Not in the model: rendezvous, unexpected copies, acknowledgements.

Exit code: 0; 1 when nothing could be predicted or written; 2 for a wrong command line";

/// Nanoseconds with fractions, as picoseconds.
fn nanoseconds(text: &str) -> Result<u64, String> {
    let ns = text.parse::<f64>().ok().filter(|ns| (0.0..=1e9).contains(ns));
    let ps = ns.map(|ns| (ns * 1000.0).round() as u64);
    ps.ok_or_else(|| "not a number of nanoseconds from 0 to 1e9 (a second)".into())
}

fn slow_node(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once('=');
    let parsed = parts.and_then(|(rank, factor)| Some((rank.parse().ok()?, factor.parse().ok()?)));
    parsed.ok_or_else(|| "not RANK=FACTOR with two whole numbers, as 3=10".into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Options::command().debug_assert();
    }

    #[test]
    fn the_default_costs_are_the_librarys() {
        let options = Options::try_parse_from(["aldis-whatif"]).unwrap();
        assert_eq!(options.network.network(), ScheduleNetwork::new(LogGp::CLUSTER, Topology::Crossbar));
        assert_eq!(options.work_max, aldis_sim::whatif::run::WORK_MAX);
    }

    #[test]
    fn wrong_lines_are_answered_with_what_would_be_right() {
        for (line, answer) in [
            ("gatherv", "known: barrier, bcast, gather, scatter, "),
            ("--topology tree", "known: crossbar, ring, torus"),
            ("--ranks many", "2..64 (doubling)"),
            ("--latency-ns -1", "from 0 to 1e9"),
            ("--latency-ns 1e30", "from 0 to 1e9"),
            ("--byte-ns NaN", "from 0 to 1e9"),
            ("--slow 3", "RANK=FACTOR"),
            ("--element-bytes 0", "1..=4096"),
        ] {
            let words = ["aldis-whatif"].into_iter().chain(line.split_whitespace());
            let error = Options::try_parse_from(words).unwrap_err().to_string();
            assert!(error.contains(answer), "{line}: {error}");
        }
    }
}
