//! Cases as jobs of processes: `aldis-run` starts a rank program for each rank, over shared
//! segments.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;

use aldis_coll::barrier;
use aldis_kernel::Rank;
use aldis_linux::{HostPlatform, HostTransport};

use super::chapter::cases;
use super::plan::CasePlan;
use super::rank::play;

/// Request slots of a rank: few enough that a case can use them all.
const STORAGE_REQUESTS: usize = 1024;

aldis_kernel::storage! {
    /// The storage of a rank of one case; those of many cases have the default storage.
    static STORAGE: peers = 64, requests = STORAGE_REQUESTS, communicators = 64,
        envelopes = 128, blocks = 32, block_bytes = 8192, pooled = 16, bins = 1024,
        pieces = 1024
}

/// Seconds after which a job hangs: the launcher then tells what every rank was doing. They are the
/// machine's, so there are some thousand times as many as a job needs on one that has time for it.
pub(super) const HANG_S: &str = "300";

/// The paths of the two programs.
#[derive(Debug)]
pub struct LaunchedPrograms {
    /// `aldis-run`.
    pub launcher: PathBuf,
    /// A program that calls [`rank`] with its last two arguments.
    pub rank: PathBuf,
}

/// The programs of this process, set before the first case runs.
pub static PROGRAMS: OnceLock<LaunchedPrograms> = OnceLock::new();

/// Runs a case on processes.
///
/// # Errors
/// What the job has said.
pub(super) fn run(plan: &CasePlan) -> Result<(), String> {
    let CasePlan { case, seed, ranks } = plan;
    let LaunchedPrograms { launcher, rank } =
        PROGRAMS.get().ok_or("`PROGRAMS` does not say where aldis-run is")?;
    let mut job = Command::new(launcher);
    job.args(["-n", &ranks.to_string(), "--timeout", HANG_S]).arg(rank).args([
        "rank",
        &case.to_string(),
        &seed.to_string(),
    ]);
    let went =
        job.stdin(Stdio::null()).output().map_err(|error| format!("{}: {error}", launcher.display()))?;
    if went.status.success() {
        return Ok(());
    }
    let [out, err] = [&went.stdout, &went.stderr].map(|said| String::from_utf8_lossy(said));
    Err(format!("{}\n{out}{err}", went.status))
}

/// The `main` of a rank: plays its part of a case.
pub fn rank(case: usize, seed: u64) -> ExitCode {
    let storage = STORAGE.take().expect("taken once");
    aldis_linux::run_with(storage, |endpoint| play(case, seed, endpoint, STORAGE_REQUESTS))
}

/// The chapters that a job can play one after the other: messages, datatypes and collectives. Other
/// chapters leave communicators, attributes and the like behind.
const CHAPTERS: [&str; 4] = ["3", "4", "5", "6"];

/// The `main` of a rank of a job that plays every such case of its size; rank 0 says how many there
/// are.
pub fn rank_of_all(seed: u64) -> ExitCode {
    aldis_linux::run(|endpoint| {
        let world = endpoint.world();
        let all = cases::<HostTransport, HostPlatform>();
        let mut runs = 0;
        let is_here =
            |section: &str| section.split('.').next().is_some_and(|first| CHAPTERS.contains(&first));
        for case in all.iter().filter(|case| case.ranks == world.size() && is_here(case.section)) {
            (case.run)(endpoint, seed).map_err(|error| format!("{case:?}: {error}"))?;
            // What a rank that is through sends would meet one that is still at work.
            barrier().run(endpoint, &world)?;
            runs += 1;
        }
        if world.rank() == Rank(0) {
            println!("{{\"runs\": {runs}}}");
        }
        Ok(())
    })
}
