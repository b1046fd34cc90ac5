//! `cargo xtask bench` by itself: every workload over every transport in one run of bounded length,
//! and a report.

use core::time::Duration;
use std::time::Instant;

use aldis_shell::workspace::Workspace;
use anyhow::Result;
use clap::Args;

use super::PROFILE;
use super::campaign::{Campaign, CampaignItem, CampaignStage, Output, Pace};
use super::implementation::Transport;
use super::programs::{BuildOrders, Programs};
use super::report::Report;
use super::rounds::Bench;
use super::workload::BenchWorkload;
use super::{instructions, matching, measure, peers};

/// A full run.
#[derive(Args)]
pub(crate) struct Everything {
    /// Measure Open MPI, MPICH, UCX and gloo too, where they are installed
    #[arg(long)]
    peers: bool,
    #[command(flatten)]
    output: Output,
    /// Transports by which messages travel
    #[arg(long, value_enum, value_delimiter = ',', default_value = "shm,tcp")]
    transport: Vec<Transport>,
    /// Time for the whole run, once everything is built
    #[arg(long, default_value_t = 13.0)]
    minutes: f64,
    /// Fail when a peer is not installed
    #[arg(long)]
    require: bool,
}

/// Workloads of two ranks, in the order of the report; then those of all ranks.
const OF_PAIRS: [BenchWorkload; 6] = [
    BenchWorkload::Latency,
    BenchWorkload::Bandwidth,
    BenchWorkload::Both,
    BenchWorkload::Consume,
    BenchWorkload::Rate,
    BenchWorkload::Overlap,
];

/// The share of a run's time that starting ranks and the other tables may take.
const OVERHEAD: f64 = 0.1;

/// The measured programs of tables of their own.
const OTHERS: [&str; 3] = ["bench_matching", "bench_peers", "bench_instructions"];

/// The sizes of a collective that are measured here by ranks that are many, or far: `cargo xtask
/// bench collectives` has more.
fn few(workload: BenchWorkload) -> &'static [usize] {
    match workload {
        BenchWorkload::Bcast | BenchWorkload::Reduce | BenchWorkload::Allreduce => &[8, 64 << 10, 1 << 20],
        BenchWorkload::Gather
        | BenchWorkload::Scatter
        | BenchWorkload::Allgather
        | BenchWorkload::Alltoall => &[64 << 10],
        BenchWorkload::ReduceScatterBlock | BenchWorkload::Scan => &[64 << 10],
        BenchWorkload::Barrier => workload.sizes(),
        _ => &[],
    }
}

/// Returns what is measured with so many ranks over a transport: of collectives everything where
/// two share memory.
fn stage(transport: Transport, ranks: usize) -> CampaignStage {
    let is_whole = transport == Transport::Shm && ranks == 2;
    let pairs = OF_PAIRS.into_iter().filter(|_| ranks == 2).map(|workload| (workload, workload.sizes()));
    let sizes = |workload: BenchWorkload| if is_whole { workload.sizes() } else { few(workload) };
    let all = pairs.chain(BenchWorkload::COLLECTIVES.map(|workload| (workload, sizes(workload))));
    let items =
        all.flat_map(|(workload, sizes)| sizes.iter().map(move |&bytes| CampaignItem { workload, bytes }));
    CampaignStage { transport, ranks, items: items.collect() }
}

/// The numbers of ranks.
const RANKS: [usize; 2] = [2, 4];

impl Everything {
    pub(crate) fn run(self) -> Result<()> {
        let files = self.output.reserve()?;
        let mut report = Report::default();
        let wanted = measure::wanted(self.peers, self.require, |line| report.missing.push(line))?;
        eprintln!("building {}", measure::names(&wanted));
        let orders = BuildOrders { profile: PROFILE, wanted: &wanted, others: &OTHERS, features: &[] };
        let programs = Programs::build(&Workspace::members()?, &orders)?;
        let mut bench = Bench::new(programs)?;
        let end = Instant::now() + Duration::from_secs_f64(self.minutes * 60.0 * (1.0 - OVERHEAD));
        report.tables.push(("Matching: ns a message at growing depth".into(), matching::table(200)?));
        report.tables.extend(peers::tables()?);
        match instructions::missing() {
            None => report.tables.push(instructions::table()?),
            Some(install) => {
                report.missing.push(format!("instructions: what counts them is not installed: {install}"))
            }
        }
        let stages: Vec<_> =
            self.transport.iter().flat_map(|&over| RANKS.map(|ranks| stage(over, ranks))).collect();
        let campaign = Campaign { stages: &stages, wanted: &wanted, pace: Pace::Until(end) };
        let measured = campaign.run(&mut bench, &mut report);
        // Also when it did not come to its end: what there is has cost minutes.
        files.publish(&mut std::io::stdout().lock(), &report)?;
        measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_measured_with_two_ranks_alone() {
        let of = |ranks| stage(Transport::Tcp, ranks).items;
        assert!(of(4).iter().all(|item| item.workload.is_collective()));
        assert!(of(2).len() > of(4).len());
    }

    #[test]
    fn two_ranks_that_share_memory_measure_every_collective_at_every_size() {
        let items = stage(Transport::Shm, 2).items;
        for workload in BenchWorkload::COLLECTIVES {
            assert!(workload.sizes().iter().all(|&bytes| items.contains(&CampaignItem { workload, bytes })));
        }
        assert!(items.iter().all(|item| item.bytes >= item.workload.bytes_min()));
    }
}
