//! `cargo xtask bench` by itself: what a program in C sees, the native interface and the peers, in
//! one run whose rounds take turns.

use aldis_shell::steps::Outcome;
use aldis_shell::workspace::Workspace;
use anyhow::{Result, bail};
use clap::Args;

use super::PROFILE;
use super::campaign::{Campaign, CampaignItem, CampaignStage, Output};
use super::client::ClientRow;
use super::cores;
use super::implementation::{Implementation, Transport};
use super::programs::{BuildOrders, Programs};
use super::report::Report;
use super::rounds::Bench;
use super::workload::BenchWorkload;
use super::{instructions, matching, peers};
use crate::verbs;

/// The choice of what is measured, of which implementations, and how often.
#[derive(Args)]
pub(crate) struct BenchRun {
    /// Measure the peers too: all, or those that are named
    ///
    /// openmpi5, mpich5 and impi (Intel MPI) are installed from PyPI into target/bench, iceoryx
    /// (loaned memory, native:loaned) is built with what is on crates.io; openmpi4,
    /// mpich4, ucx and gloo are Debian's: apt-get install openmpi-bin libopenmpi-dev mpich
    /// libmpich-dev ucx-utils libgloo-dev g++. One that is missing is told, and the others are
    /// measured.
    #[arg(long, value_name = "PEER,...", value_delimiter = ',', num_args = 0..)]
    peers: Option<Vec<Implementation>>,
    /// Rows to measure: `programs`, `native`, or names as in the tables [default: all]
    ///
    /// Names are those of the loops of programs (pingpong, window, halo, gather, iallreduce,
    /// overlap ...); the rows of the native interface have the prefix `native:` (native:latency,
    /// native:consume ...). A name that is not known is answered with all there are.
    #[arg(long, value_name = "ROW,...", value_delimiter = ',')]
    rows: Vec<String>,
    /// Sizes in bytes of a message, block or vector [default: some that show how it grows]
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',')]
    sizes: Vec<usize>,
    /// Steady rounds of each row at each size, three batches of every implementation in each
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Numbers of ranks, on two cores
    #[arg(long, value_delimiter = ',', default_value = "2,4", value_parser = clap::value_parser!(u8).range(2..=16))]
    ranks: Vec<u8>,
    /// The two cores [default: the first two that are not one core's threads]
    ///
    /// Where cores share caches with some and not with others, a run on a pair of each kind shows
    /// both placements.
    #[arg(long, value_name = "CORE,CORE", value_delimiter = ',')]
    cores: Vec<usize>,
    /// Transports by which messages travel
    #[arg(long, value_enum, value_delimiter = ',', default_value = "shm,tcp")]
    transport: Vec<Transport>,
    #[command(flatten)]
    output: Output,
    /// Fail when a peer cannot be measured
    #[arg(long)]
    require: bool,
    /// Cargo's profile to build with; `release` builds sooner, and runs some percent slower
    #[arg(long, default_value = PROFILE, value_parser = [PROFILE, "release"])]
    profile: String,
}

/// The measured programs of tables of their own.
const OTHERS: [&str; 3] = ["bench_matching", "bench_peers", "bench_instructions"];

/// The sizes of a native collective that are measured by ranks that are many, or far, unless rows
/// or sizes are named.
fn few(workload: BenchWorkload) -> &'static [usize] {
    match workload {
        BenchWorkload::Bcast | BenchWorkload::Reduce | BenchWorkload::Allreduce => &[8, 64 << 10, 1 << 20],
        BenchWorkload::Gather
        | BenchWorkload::Scatter
        | BenchWorkload::Allgather
        | BenchWorkload::Alltoall => &[64 << 10],
        BenchWorkload::ReduceScatterBlock | BenchWorkload::Scan => &[64 << 10],
        BenchWorkload::Barrier | BenchWorkload::Client(_) => workload.sizes(),
        _ => &[],
    }
}

impl BenchRun {
    pub(crate) fn run(self) -> Result<()> {
        let rows = self.rows()?;
        let stages = self.stages(&rows)?;
        let is_whole = self.rows.is_empty() && self.sizes.is_empty();
        let mut report = Report::default();
        let wanted = self.wanted(&rows, Implementation::missing, |line| report.missing.push(line))?;
        let cores = cores::choose(&self.cores)?;
        let files = self.output.reserve()?;
        eprintln!("building {}", names(&wanted));
        let others = if is_whole { &OTHERS[..] } else { &[] };
        let orders = BuildOrders { profile: &self.profile, wanted: &wanted, others, features: &[] };
        let programs = Programs::build(&Workspace::members()?, &orders)?;
        if let Some(lost) = programs.lost.first().filter(|_| self.require) {
            bail!("not ready: {lost}");
        }
        report.missing.extend(programs.lost.iter().cloned());
        let wanted = programs.ready.clone();
        let mut bench = Bench::new(programs, cores)?;
        if is_whole {
            further_tables(&mut report)?;
        }
        let campaign = Campaign { stages: &stages, wanted: &wanted, rounds: self.rounds as usize };
        let measured = campaign.run(&mut bench, &mut report);
        // Also when it did not come to its end: what there is has cost minutes.
        files.publish(&mut std::io::stdout().lock(), &report)?;
        measured
    }

    /// The rows that are asked for.
    fn rows(&self) -> Result<Vec<BenchWorkload>> {
        let mut rows = Vec::new();
        for name in &self.rows {
            let is_meant = |one: &BenchWorkload| match name.as_str() {
                "programs" => matches!(one, BenchWorkload::Client(_)),
                "native" => !matches!(one, BenchWorkload::Client(_)),
                name => one.row() == name,
            };
            let before = rows.len();
            rows.extend(BenchWorkload::all().filter(is_meant));
            if rows.len() == before {
                let known: Vec<_> = BenchWorkload::all().map(BenchWorkload::row).collect();
                bail!("--rows: there is no {name}; there are programs, native, {}", known.join(", "));
            }
        }
        Ok(if rows.is_empty() { BenchWorkload::all().collect() } else { rows })
    }

    /// The measurements, by transport and number of ranks.
    fn stages(&self, rows: &[BenchWorkload]) -> Result<Vec<CampaignStage>> {
        let mut stages = Vec::new();
        for (&transport, &ranks) in
            self.transport.iter().flat_map(|over| self.ranks.iter().map(move |ranks| (over, ranks)))
        {
            let ranks = usize::from(ranks);
            let mut items = Vec::new();
            for &workload in rows {
                if BenchWorkload::PAIRS.contains(&workload) && ranks != 2 {
                    continue;
                }
                if matches!(workload, BenchWorkload::Client(_)) && !ranks.is_multiple_of(2) {
                    bail!("--ranks: the loops of programs need an even number of ranks, not {ranks}");
                }
                let sizes = self.sizes_of(workload, transport, ranks)?;
                items.extend(sizes.iter().map(|&bytes| CampaignItem { workload, bytes }));
            }
            if !items.is_empty() {
                stages.push(CampaignStage { transport, ranks, items });
            }
        }
        Ok(stages)
    }

    fn sizes_of(&self, workload: BenchWorkload, transport: Transport, ranks: usize) -> Result<&[usize]> {
        if self.sizes.is_empty() || workload.sizes() == [0] {
            let is_few = self.rows.is_empty() && workload.is_collective();
            let is_near = transport != Transport::Tcp && ranks == 2;
            return Ok(if is_few && !is_near { few(workload) } else { workload.sizes() });
        }
        let (min, row) = (workload.bytes_min(), workload.row());
        match self.sizes.iter().find(|&&bytes| bytes < min) {
            Some(_) => bail!("--sizes: {row} needs {min} bytes at least"),
            None => Ok(&self.sizes),
        }
    }

    /// The implementations that can be measured; what is missing, and how to install it, is told,
    /// or fails where all are required.
    fn wanted(
        &self,
        rows: &[BenchWorkload],
        missing: impl Fn(Implementation) -> Option<&'static str>,
        mut tell: impl FnMut(String),
    ) -> Result<Vec<Implementation>> {
        let is_client = |row: &BenchWorkload| matches!(row, BenchWorkload::Client(_));
        let mut own = Vec::new();
        if rows.iter().any(is_client) {
            own.push(Implementation::Aldis);
        }
        if !rows.iter().all(is_client) {
            own.extend([Implementation::Raw, Implementation::Native, Implementation::Arena]);
        }
        let named = self.peers.as_deref().unwrap_or_default();
        if let Some(own) = named.iter().find(|one| !Implementation::PEERS.contains(one)) {
            bail!("--peers: {} is no peer; there are {}", own.name(), names(&Implementation::PEERS));
        }
        let is_asked =
            |one: &Implementation| self.peers.is_some() && (named.is_empty() || named.contains(one));
        let asked = Implementation::PEERS.into_iter().filter(is_asked);
        let mut wanted = Vec::new();
        for one in own.into_iter().chain(asked) {
            match missing(one) {
                None => wanted.push(one),
                Some(install) if self.require || Implementation::OWN.contains(&one) => {
                    bail!("{} is not installed: {install}", one.name())
                }
                Some(install) => tell(format!("{} is not installed: {install}", one.name())),
            }
        }
        Ok(wanted)
    }
}

fn names(wanted: &[Implementation]) -> String {
    wanted.iter().map(|one| one.name()).collect::<Vec<_>>().join(", ")
}

/// Adds the other tables of a full report.
fn further_tables(report: &mut Report) -> Result<()> {
    report.tables.push(("Matching: ns a message at growing depth".into(), matching::table(200)?));
    report.tables.extend(peers::tables()?);
    match instructions::missing() {
        None => report.tables.push(instructions::table()?),
        Some(install) => {
            report.missing.push(format!("instructions: what counts them is not installed: {install}"));
        }
    }
    Ok(())
}

/// A short run with two peers, for `cargo xtask test`: it works, its data are looked at, and a
/// wrong byte is told.
pub(super) fn step() -> Result<Outcome> {
    for peer in Implementation::TESTED {
        if let Some(install) = peer.missing() {
            return Ok(Outcome::Skipped {
                why: format!("{} is not installed", peer.name()),
                enable: install.into(),
            });
        }
    }
    let cores = match cores::two() {
        Ok(cores) => cores,
        Err(error) => {
            let enable = "a machine with two cores".into();
            return Ok(Outcome::Skipped { why: format!("{error:#}"), enable });
        }
    };
    let [one, other] = Implementation::TESTED;
    let wanted = [Implementation::Raw, Implementation::Aldis, Implementation::Native, one, other];
    // Mostly built by the steps before.
    let orders = BuildOrders {
        profile: "release",
        wanted: &wanted,
        others: &[],
        features: &verbs::features(&["aldis-run"]),
    };
    let programs = Programs::build(&Workspace::members()?, &orders)?;
    if let Some(lost) = programs.lost.first() {
        bail!("{lost}");
    }
    let mut bench = Bench::new(programs, cores)?;
    let mut report = Report::default();
    let item = |workload, bytes| CampaignItem { workload, bytes };
    let [pingpong, window, allreduce] =
        [ClientRow::Pingpong, ClientRow::Window, ClientRow::Allreduce].map(BenchWorkload::Client);
    let pairs = [item(pingpong, 8), item(window, 1024), item(BenchWorkload::Bandwidth, 64 << 10)];
    for (ranks, items) in [(2, &pairs[..]), (4, &[item(allreduce, 8)])] {
        let mut field = bench.field(Transport::Shm, ranks, &wanted)?;
        for &item in items {
            report.points.extend(bench.measure(&mut field, item, STEP_ROUNDS)?);
        }
        if let Some(failed) = field.failures().next() {
            bail!("{failed}");
        }
        if ranks == 2 {
            field.tells_wrong_bytes()?;
        }
    }
    println!("{}", report.text());
    Ok(Outcome::Passed(format!("{} in one run; all told a wrong byte", names(&wanted))))
}

/// Rounds of a step that shows that all are measured, and judges nothing; nothing runs beside it.
const STEP_ROUNDS: usize = 1;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct ParsedLine {
        #[command(flatten)]
        run: BenchRun,
    }

    fn read(line: &str) -> Result<BenchRun, String> {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        ParsedLine::try_parse_from(words).map(|line| line.run).map_err(|error| error.to_string())
    }

    fn stages(line: &str) -> Result<Vec<CampaignStage>> {
        let run = read(line).unwrap();
        run.stages(&run.rows()?)
    }

    #[test]
    fn pairs_are_measured_with_two_ranks_alone() {
        let stages = stages("--rows native --transport tcp").unwrap();
        let [two, four] = &stages[..] else { panic!("two numbers of ranks") };
        assert!(four.items.iter().all(|item| item.workload.is_collective()));
        assert!(two.items.len() > four.items.len());
    }

    #[test]
    fn two_ranks_that_share_memory_measure_every_row_at_every_size() {
        let stages = stages("--transport shm --ranks 2").unwrap();
        let [stage] = &stages[..] else { panic!("one stage") };
        for workload in BenchWorkload::all() {
            assert!(
                workload.sizes().iter().all(|&bytes| stage.items.contains(&CampaignItem { workload, bytes }))
            );
        }
    }

    #[test]
    fn rows_and_sizes_are_those_that_are_named() {
        let stages =
            stages("--rows halo,native:bcast,barrier --sizes 64,128 --ranks 4 --transport shm").unwrap();
        let [stage] = &stages[..] else { panic!("one stage") };
        let rows: Vec<_> = stage.items.iter().map(|item| (item.workload.row(), item.bytes)).collect();
        let expected =
            [("halo", 64), ("halo", 128), ("native:bcast", 64), ("native:bcast", 128), ("barrier", 0)];
        assert_eq!(rows, expected.map(|(row, bytes)| (row.to_owned(), bytes)));
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let refused = |line| stages(line).map(drop).unwrap_err().to_string();
        assert!(refused("--rows allscatter").contains("pingpong, window, halo"));
        assert!(refused("--rows halo --sizes 4").contains("halo needs 8 bytes"));
        assert!(refused("--ranks 3").contains("even number"));
        assert!(read("--ranks 1").err().unwrap().contains("2..=16"));
        let run = read("--peers aldis").unwrap();
        let error = run.wanted(&[BenchWorkload::Latency], |_| None, drop).unwrap_err().to_string();
        assert!(error.contains("aldis is no peer; there are openmpi5, mpich5, impi"), "{error}");
    }

    #[test]
    fn peers_are_measured_if_they_are_asked_for() {
        let rows = [BenchWorkload::Client(ClientRow::Halo)];
        let wanted =
            |line: &str| read(line).unwrap().wanted(&rows, |_| None, |line| panic!("{line}")).unwrap();
        assert_eq!(wanted(""), [Implementation::Aldis]);
        assert_eq!(wanted("--peers").len(), 1 + Implementation::PEERS.len());
        assert_eq!(
            wanted("--peers ucx,impi"),
            [Implementation::Aldis, Implementation::Intel, Implementation::Ucx]
        );
    }

    #[test]
    fn a_missing_peer_is_told_with_what_installs_it() {
        let rows = [BenchWorkload::Client(ClientRow::Halo)];
        let is_missing = |one| Implementation::PEERS.contains(&one).then_some("apt-get install it");
        let mut told = Vec::new();
        let wanted = read("--peers").unwrap().wanted(&rows, is_missing, |line| told.push(line)).unwrap();
        assert_eq!(wanted, [Implementation::Aldis]);
        assert_eq!(told.len(), Implementation::PEERS.len());
        assert!(told.contains(&"impi is not installed: apt-get install it".to_owned()), "{told:?}");
        let refused = read("--peers --require").unwrap().wanted(&rows, is_missing, drop).unwrap_err();
        assert!(refused.to_string().contains("openmpi5 is not installed: apt-get install it"));
    }
}
