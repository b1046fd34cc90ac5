//! Jobs over network cards: `aldis-run` starts a rank program for each rank, in a network of the
//! job's own, and the ranks play all cases of messages, datatypes and collectives.

use std::process::Stdio;
use std::time::Instant;

use aldis_kit::network::{CABLE, HOSTS, TAPS, TWO_BRIDGES, command};

use super::launched::{HANG_S, LaunchedPrograms, PROGRAMS};

/// The network of each job, and its options.
const JOBS: [(&str, &str); 7] = [
    (CABLE, "-n 2 --transport ethernet --nic packet:v%r"),
    (CABLE, "-n 2 --transport ethernet --nic packet:v%r,udp"),
    (CABLE, "-n 4 --transport ethernet --nic packet:v0"),
    (TAPS, "-n 2 --transport ethernet --nic tap:t%r"),
    (TWO_BRIDGES, "-n 2 --transport ethernet --nic packet:a%r+packet:b%r"),
    (HOSTS, "-n 4 --host netns:left,netns:right --transport ethernet --nic packet:eth0"),
    (HOSTS, "-n 4 --host netns:left,netns:right --transport shm-ethernet --nic packet:eth0,udp"),
];

/// A job that has ended.
#[derive(Debug)]
pub struct CardsJob {
    /// The options of `aldis-run`.
    pub options: &'static str,
    /// The seconds that it took.
    pub seconds: f64,
    /// The words of a job that failed.
    pub failure: Option<String>,
}

/// Runs each of the jobs, with cases of this seed. There are none where there can be no network of
/// one's own, which standard error then tells.
///
/// # Panics
/// If `PROGRAMS` has not been set, or `unshare` cannot be started.
pub fn jobs(seed: u64) -> impl Iterator<Item = CardsJob> {
    let LaunchedPrograms { launcher, rank } = PROGRAMS.get().expect("the programs are known");
    JOBS.into_iter().map_while(move |(layout, options)| {
        let mut job = command(layout, launcher)?;
        job.args(options.split_whitespace()).args(["--timeout", HANG_S]);
        job.arg(rank).args(["rank", "all", &seed.to_string()]);
        let start = Instant::now();
        let went = job.stdin(Stdio::null()).output().expect("unshare");
        let [out, err] = [&went.stdout, &went.stderr].map(|said| String::from_utf8_lossy(said));
        let failure = (!went.status.success()).then(|| format!("{}\n{out}{err}", went.status));
        Some(CardsJob { options, seconds: start.elapsed().as_secs_f64(), failure })
    })
}
