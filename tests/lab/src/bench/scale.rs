//! `cargo xtask bench scale`: what jobs of more and more ranks cost: time from start to end, a few
//! calls, memory and descriptors, beside the peers.

use core::time::Duration;
use std::time::Instant;

use aldis_shell::table::Table;
use aldis_shell::workspace::Workspace;
use aldis_shell::{limit, shell};
use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::PROFILE;
use super::implementation::{Implementation, Transport};
use super::launch::MpiLibrary;
use super::programs::{BuildOrders, Programs};

/// The source of the measured program, and its like in Rust.
const SOURCE: &str = "scale.c";
const NATIVE: &str = "bench_scale";

/// The time that a job may take.
const JOB_MAX: Duration = Duration::from_secs(180);

/// Measures what a job of many ranks costs, in Rust and by its interface of MPI: wall time of a
/// program that only starts and ends, and one of a few verified calls (mean of 3 turns of the
/// slowest rank), the memory of a rank (PSS, its share of what is shared included), the memory that
/// all share, and the most descriptors of a rank. Sizes beyond what an implementation can start are
/// told.
#[derive(Args)]
pub(crate) struct Scale {
    /// Measure the peers too: all, or those that are named (openmpi5, mpich5, impi, openmpi4,
    /// mpich4)
    #[arg(long, value_name = "PEER,...", value_delimiter = ',', num_args = 0..)]
    peers: Option<Vec<Implementation>>,
    /// Numbers of ranks; if not given 2, 16, 64, 256 and, over shared memory, 1024
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65_536))]
    ranks: Vec<u32>,
    /// Transports by which messages travel
    #[arg(long, value_enum, value_delimiter = ',', default_value = "shm,tcp")]
    transport: Vec<Transport>,
    /// Print one JSON object a line instead of the table
    #[arg(long)]
    json: bool,
    /// Cargo's profile to build with
    #[arg(long, default_value = PROFILE, value_parser = [PROFILE, "release"])]
    profile: String,
}

/// Numbers of ranks if none are given; the last only where a machine's ranks share memory.
const RANKS: [u32; 5] = [2, 16, 64, 256, 1024];

/// The line that the program says.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Costs {
    barrier_us: f64,
    allreduce_us: f64,
    bcast_us: f64,
    gather_us: f64,
    alltoall_us: f64,
    halo_us: f64,
    pss_bytes: f64,
    shared_bytes: f64,
    descriptors: f64,
}

/// A row of the table.
#[derive(Debug, Serialize)]
struct ScaleRow<'a> {
    implementation: &'a str,
    over: &'a str,
    ranks: u32,
    hello_ms: f64,
    #[serde(flatten)]
    costs: Costs,
}

const HEAD: [&str; 13] = [
    "implementation",
    "over",
    "ranks",
    "hello ms",
    "barrier us",
    "allreduce 8 B us",
    "bcast 64 KiB us",
    "gather 8 B us",
    "alltoall 8 B us",
    "halo 1 KiB us",
    "PSS a rank KiB",
    "shared in all KiB",
    "descriptors",
];

impl Scale {
    fn ranks_over(&self, transport: Transport) -> &[u32] {
        match (self.ranks.as_slice(), transport) {
            ([], Transport::Shm) => &RANKS,
            ([], _) => RANKS.split_last().map_or(&[], |(_, others)| others),
            (asked, _) => asked,
        }
    }

    pub(crate) fn run(self) -> Result<()> {
        let named = self.peers.as_deref().unwrap_or_default();
        let is_asked =
            |one: &Implementation| self.peers.is_some() && (named.is_empty() || named.contains(one));
        let peers = Implementation::PEERS.into_iter().filter(|one| one.is_mpi() && is_asked(one));
        let mut wanted = Vec::new();
        for one in core::iter::once(Implementation::Aldis).chain(peers) {
            match one.missing() {
                None => wanted.push(one),
                Some(install) => eprintln!("not measured: {} is not installed: {install}", one.name()),
            }
        }
        let orders =
            BuildOrders { profile: &self.profile, wanted: &wanted, others: &[NATIVE], features: &[] };
        let programs = Programs::build(&Workspace::members()?, &orders)?;
        programs.lost.iter().for_each(|lost| eprintln!("not measured: {lost}"));
        let compiled = |&one: &Implementation| match programs.program_of(one, SOURCE) {
            Ok(library) => Some(library),
            Err(error) => {
                eprintln!("not measured: {}: {error:#}", one.name());
                None
            }
        };
        let native = programs.native_program_of(NATIVE);
        let compiled = programs.ready.iter().filter_map(compiled);
        let libraries: Vec<MpiLibrary> = core::iter::once(native).chain(compiled).collect();
        let mut table = Table::new(HEAD);
        for &transport in &self.transport {
            for &ranks in self.ranks_over(transport) {
                for library in &libraries {
                    let row = match measure(library, transport, ranks) {
                        Ok(row) => row,
                        Err(error) => {
                            let (one, over) = (library.which, library.which.over(transport));
                            eprintln!("not measured: {} over {over}, {ranks} ranks: {error:#}", one.name());
                            continue;
                        }
                    };
                    if self.json {
                        println!("{}", serde_json::to_string(&row)?);
                    } else {
                        eprintln!(
                            "{} over {}: {ranks} ranks in {:.0} ms",
                            row.implementation, row.over, row.hello_ms
                        );
                        table.row(cells(&row));
                    }
                }
            }
        }
        if !self.json {
            print!("{}", table.markdown());
        }
        Ok(())
    }
}

/// Runs both jobs of so many ranks.
fn measure(library: &MpiLibrary, transport: Transport, ranks: u32) -> Result<ScaleRow<'static>> {
    let start = |arguments: &[&str]| {
        let mut job = library.launcher(transport, &ranks.to_string(), ranks > 2);
        job.args(arguments);
        let before = Instant::now();
        let said = limit::within(JOB_MAX, || shell::output(&mut job))?;
        Ok::<_, anyhow::Error>((before.elapsed().as_secs_f64() * 1e3, said))
    };
    // The best of three: whatever else the machine does makes it longer.
    let mut hello_ms = f64::INFINITY;
    for _ in 0..3 {
        hello_ms = hello_ms.min(start(&["hello"])?.0);
    }
    let (_, said) = start(&[])?;
    let (which, costs) = (library.which, costs(&said)?);
    Ok(ScaleRow { implementation: which.name(), over: which.over(transport), ranks, hello_ms, costs })
}

/// Reads what the program has said; launchers may have said something too, and put a rank before
/// the line.
fn costs(said: &str) -> Result<Costs> {
    let line = said.lines().find_map(|line| Some(&line[line.find('{')?..]));
    let line = line.with_context(|| format!("it has said {said:?}"))?;
    serde_json::from_str(line).with_context(|| format!("reading {line:?}"))
}

fn cells(row: &ScaleRow<'_>) -> [String; 13] {
    let costs = &row.costs;
    let us = |us: f64| format!("{us:.1}");
    let kib = |bytes: f64| format!("{:.0}", bytes / 1024.0);
    [
        row.implementation.into(),
        row.over.into(),
        row.ranks.to_string(),
        format!("{:.0}", row.hello_ms),
        us(costs.barrier_us),
        us(costs.allreduce_us),
        us(costs.bcast_us),
        us(costs.gather_us),
        us(costs.alltoall_us),
        us(costs.halo_us),
        kib(costs.pss_bytes),
        kib(costs.shared_bytes),
        format!("{:.0}", costs.descriptors),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = r#"{"barrier_us":1.5,"allreduce_us":2,"bcast_us":3,"gather_us":4,"alltoall_us":5,"halo_us":6,"pss_bytes":1048576,"shared_bytes":2097152,"descriptors":9}"#;

    #[test]
    fn a_line_becomes_a_row_also_behind_a_rank() {
        let said = format!("a launcher's word\n[0] {SAID}\n");
        let row = ScaleRow {
            implementation: "aldis",
            over: "shm",
            ranks: 64,
            hello_ms: 12.4,
            costs: costs(&said).unwrap(),
        };
        assert_eq!(cells(&row)[..5], ["aldis", "shm", "64", "12", "1.5"]);
        assert_eq!(cells(&row)[10..], ["1024", "2048", "9"]);
        assert!(serde_json::to_string(&row).unwrap().contains(r#""ranks":64"#));
        assert!(costs("nothing").unwrap_err().to_string().contains("nothing"));
    }
}
