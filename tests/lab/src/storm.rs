//! `cargo xtask storm`: jobs whose processes are killed, stopped and continued at moments that a
//! seed draws. Whatever that hits, the job ends in time, its report names what died, no
//! survivor tells a wrong result, and nothing is left behind.

mod job;
mod plan;

use std::time::Instant;

use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::table::Table;
use aldis_shell::wild::Wild;
use aldis_shell::workspace::{self, Workspace};
use anyhow::{Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::json;

use self::plan::{KINDS, StormPlan};

/// Jobs of a storm that is bound by nothing else.
const JOBS: u64 = 100;
/// Seconds of the step of `cargo xtask test`.
const STEP_SECONDS: f64 = 20.0;
/// Jobs after each of which a line tells how far it is.
const TELL_EVERY: u64 = 50;

/// Kills, stops and continues ranks, agents and launchers of jobs, and judges how each job ends.
///
/// Each seed draws a transport, ranks, a program, and what is done to whom and when. What is hit
/// depends on how fast this machine is, so a failing seed is to be repeated some times.
#[derive(Args)]
pub struct Storm {
    /// Jobs [default: 100, or with --seconds as many as there is time for]
    #[arg(long, value_name = "N")]
    jobs: Option<u64>,
    /// The first job's seed; each other job has the next one
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Only jobs of this kind
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(KINDS.map(|kind| kind.name)))]
    transport: Option<String>,
    /// Begin no job after so many seconds
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Print one JSON object a job, and a verdict as the last
    #[arg(long)]
    json: bool,
}

/// The number of jobs of a kind, and how they ended.
#[derive(Default)]
struct Tally {
    jobs: u64,
    killed: u64,
    failed: u64,
}

impl Storm {
    pub(crate) fn run(self) -> Result<()> {
        let tallies = self.blow()?;
        if !self.json {
            let mut table = Table::new(["transport", "jobs", "with a kill", "failed"]);
            for (kind, tally) in KINDS.iter().zip(&tallies).filter(|(_, tally)| tally.jobs > 0) {
                let numbers = [tally.jobs, tally.killed, tally.failed].map(|count| count.to_string());
                table.push([kind.name.to_owned()].into_iter().chain(numbers));
            }
            println!("{table}");
        }
        self.judge(&tallies)
    }

    /// Runs the jobs, also after one that failed; a tally for each kind.
    fn blow(&self) -> Result<[Tally; KINDS.len()]> {
        let workspace = Workspace::members()?;
        eprintln!("building aldis-run and the examples");
        shell::run(&mut workspace::examples())?;
        let start = Instant::now();
        let jobs = self.jobs.or_else(|| self.seconds.is_none().then_some(JOBS)).unwrap_or(u64::MAX);
        let mut tallies: [Tally; KINDS.len()] = core::array::from_fn(|_| Tally::default());
        for number in 0..jobs {
            if self.seconds.is_some_and(|seconds| start.elapsed().as_secs_f64() >= seconds) {
                break;
            }
            let plan = StormPlan::draw(self.seed.wrapping_add(number), self.transport.as_deref());
            let began = Instant::now();
            let failure = job::run(&workspace.target.join("debug"), &plan)?;
            let tally = &mut tallies[plan.kind];
            tally.jobs += 1;
            tally.killed += u64::from(plan.kills.is_some());
            tally.failed += u64::from(failure.is_some());
            if self.json {
                let seconds = began.elapsed().as_secs_f64();
                println!(
                    "{}",
                    json!({"seed": plan.seed, "job": plan.to_string(), "seconds": seconds, "failure": failure})
                );
            }
            if let Some(failure) = failure {
                eprintln!(
                    "seed {} FAILED: {plan}\n{failure}\nreplay with\n  {}",
                    plan.seed,
                    self.replay(&plan)
                );
            }
            if (number + 1).is_multiple_of(TELL_EVERY) {
                let failed: u64 = tallies.iter().map(|tally| tally.failed).sum();
                eprintln!("{} jobs in {:.0} s, {failed} failed", number + 1, start.elapsed().as_secs_f64());
            }
        }
        Ok(tallies)
    }

    fn replay(&self, plan: &StormPlan) -> String {
        let transport = self.transport.as_ref().map_or(String::new(), |name| format!(" --transport {name}"));
        format!("cargo xtask storm --jobs 1 --seed {}{transport}", plan.seed)
    }

    fn judge(&self, tallies: &[Tally]) -> Result<()> {
        let count = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
        let (jobs, failed) = (count(|tally| tally.jobs), count(|tally| tally.failed));
        if self.json {
            println!("{}", json!({"jobs": jobs, "failed": failed}));
        }
        if failed > 0 {
            bail!("verdict: {failed} of {jobs} jobs of the storm did not end as they must");
        }
        if !self.json {
            println!("verdict: all {jobs} jobs ended as they must");
        }
        Ok(())
    }
}

/// A step of `cargo xtask test`: as many jobs as there is time for, from a [wild seed](Wild) on.
pub fn step() -> Result<Outcome> {
    let wild = Wild::of("storm");
    eprintln!("{wild}");
    let storm =
        Storm { jobs: None, seed: wild.from, transport: None, seconds: Some(STEP_SECONDS), json: false };
    let tallies = storm.blow()?;
    storm.judge(&tallies)?;
    Ok(Outcome::Passed(format!("{} jobs; {wild}", tallies.iter().map(|tally| tally.jobs).sum::<u64>())))
}
