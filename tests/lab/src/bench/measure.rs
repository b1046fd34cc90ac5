//! `cargo xtask bench latency` and its like: one workload of two ranks over one transport, at sizes
//! of one's choice.

use aldis_shell::steps::Outcome;
use aldis_shell::workspace::Workspace;
use anyhow::{Result, bail};
use clap::Args;

use super::PROFILE;
use super::cores;
use super::figure::{Figure, Point};
use super::implementation::{Implementation, Transport};
use super::programs::{BuildOrders, Programs};
use super::rounds::Bench;
use super::workload::BenchWorkload;
use crate::verbs;

/// The choice of what to measure, of which implementations, and for how long.
#[derive(Args)]
pub(crate) struct Measure {
    /// Measure the peers too, where they are installed
    #[arg(long)]
    peers: bool,
    /// Measure only these
    #[arg(long, value_delimiter = ',')]
    only: Vec<Implementation>,
    /// Transport by which messages travel
    #[arg(long, value_enum, default_value = "shm")]
    transport: Transport,
    /// Print one JSON object a line instead of the table
    #[arg(long)]
    json: bool,
    /// Message sizes [default: some that show how it grows]
    #[arg(long, value_delimiter = ',')]
    bytes: Vec<usize>,
    /// Time to measure each size for
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Fail when a peer is not installed
    #[arg(long)]
    require: bool,
    /// Cargo's profile to build with; `release` builds sooner, and runs some percent slower
    #[arg(long, default_value = PROFILE, value_parser = [PROFILE, "release"])]
    profile: String,
    /// Features that cargo is told besides
    #[arg(skip)]
    features: Vec<String>,
    /// A machine too busy to measure on is no failure
    #[arg(skip)]
    is_only_shown: bool,
}

/// A short run with every peer, for `cargo xtask test`.
pub(super) fn step() -> Result<Outcome> {
    for peer in Implementation::TESTED {
        if let Some(install) = peer.missing() {
            return Ok(Outcome::Skipped {
                why: format!("{} is not installed", peer.name()),
                enable: install.into(),
            });
        }
    }
    if let Err(error) = cores::two() {
        return Ok(Outcome::Skipped { why: format!("{error:#}"), enable: "a machine with two cores".into() });
    }
    let mut measure = Measure {
        peers: true,
        only: vec![Implementation::Aldis, Implementation::OpenMpi, Implementation::Mpich],
        transport: Transport::Shm,
        json: false,
        bytes: Vec::new(),
        seconds: 1.0,
        require: true,
        // What the steps before have built for the most part.
        profile: "release".into(),
        features: verbs::features(&["aldis-run"]),
        is_only_shown: true,
    };
    let mut bench = measure.bench()?;
    for (workload, bytes, ranks) in [
        (BenchWorkload::Latency, 8, RANKS),
        (BenchWorkload::Bandwidth, 64 << 10, RANKS),
        (BenchWorkload::Rate, 8, RANKS),
        (BenchWorkload::Allreduce, 8, 4),
    ] {
        measure.bytes = vec![bytes];
        measure.on(&mut bench, workload, ranks)?;
    }
    Ok(Outcome::Passed("raw, aldis, openmpi and mpich in one run".into()))
}

/// The ranks of these workloads.
const RANKS: usize = 2;

impl Measure {
    /// Measures `workload`.
    pub(crate) fn run(self, workload: BenchWorkload) -> Result<()> {
        if self.bytes.iter().any(|&bytes| bytes < workload.bytes_min()) {
            bail!("{} needs messages of {} bytes at least", workload.name(), workload.bytes_min());
        }
        let mut bench = self.bench()?;
        eprintln!("measuring on cores {} and {}, {} s a size", bench.cores[0], bench.cores[1], self.seconds);
        self.on(&mut bench, workload, RANKS)
    }

    fn bench(&self) -> Result<Bench> {
        let wanted = self.wanted()?;
        eprintln!("building {}", names(&wanted));
        let Self { profile, features, .. } = self;
        let orders = BuildOrders { profile, wanted: &wanted, others: &[], features };
        Bench::new(Programs::build(&Workspace::members()?, &orders)?)
    }

    fn on(&self, bench: &mut Bench, workload: BenchWorkload, ranks: usize) -> Result<()> {
        let mut wanted = self.wanted()?;
        if wanted.contains(&Implementation::Aldis) && !bench.knows(self.transport)? {
            eprintln!("aldis has no transport {} yet and is not measured", self.transport.name());
            wanted.retain(|one| !Implementation::OWN.contains(one));
        }
        let mut field = bench.field(self.transport, ranks, &wanted)?;
        let sizes = if self.bytes.is_empty() { workload.sizes() } else { &self.bytes };
        for &bytes in sizes {
            let figures = bench.measure(&mut field, workload, bytes, self.seconds)?;
            if figures.is_empty() && !self.is_only_shown {
                bail!("{}, {bytes} B: no round was steady; the machine is too busy", workload.name());
            }
            self.show(&figures);
        }
        Ok(())
    }

    fn show(&self, figures: &[Figure]) {
        let point = Point(figures);
        if self.json {
            figures.iter().for_each(|figure| println!("{}", figure.json(point)));
        } else {
            println!("{}", point.table());
        }
    }

    fn wanted(&self) -> Result<Vec<Implementation>> {
        if !self.only.is_empty() {
            let others = self.only.iter().copied().filter(|&one| one != Implementation::Raw);
            return Ok([Implementation::Raw].into_iter().chain(others).collect());
        }
        wanted(self.peers, self.require, |line| eprintln!("not measured: {line}"))
    }
}

/// The implementations that can be measured; what is missing, and how to install it, is told, or
/// fails where all are required.
pub(super) fn wanted(
    peers: bool,
    require: bool,
    mut tell: impl FnMut(String),
) -> Result<Vec<Implementation>> {
    let mut wanted = vec![Implementation::Raw, Implementation::Aldis, Implementation::Arena];
    for peer in Implementation::PEERS.into_iter().filter(|_| peers) {
        match peer.missing() {
            None => wanted.push(peer),
            Some(install) if require => bail!("{} is not installed: {install}", peer.name()),
            Some(install) => tell(format!("{} is not installed: {install}", peer.name())),
        }
    }
    Ok(wanted)
}

pub(super) fn names(wanted: &[Implementation]) -> String {
    wanted.iter().map(|one| one.name()).collect::<Vec<_>>().join(", ")
}
