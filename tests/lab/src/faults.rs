//! `cargo xtask faults`: jobs in which calls of the system fail, fall short, come late or stop
//! their process. Whatever that hits, the job ends in time, with the right result or with an error
//! that names the call.

mod campaign;
mod job;
mod outcomes;
mod programs;
mod scenario;

use std::collections::BTreeMap;
use std::time::Instant;

use aldis_shell::dice::Dice;
use aldis_shell::steps::Outcome;
use aldis_shell::table::Table;
use aldis_shell::wild::Wild;
use aldis_sys::Call;
use aldis_sys::plan::CallPlan;
use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::json;

use self::job::{JobEnd, Use};
use self::programs::FaultPrograms;
use self::scenario::{SCENARIOS, Scenario};

/// Jobs of a campaign that is bound by nothing else.
const JOBS: u64 = 100;
/// Seconds of the step of `cargo xtask test`.
const STEP_SECONDS: f64 = 25.0;
/// Jobs after each of which a line tells how far it is.
const TELL_EVERY: u64 = 50;

/// Makes calls of the system fail, fall short, come late or stop their process, in jobs over every
/// transport, and judges how each job ends.
///
/// Each job is run once as it is, to see which processes make which calls; then each seed draws a
/// job, one of those calls and what it comes to. With --all, every call is made to come to all that
/// it can, at each of its first uses; with --each, to one error at each. What is hit depends on how
/// fast this machine is, so a failing plan is to be repeated some times.
#[derive(Args)]
pub struct FaultsCommand {
    /// Jobs [default: 100, or with --seconds, --all or --each as many as there is time for]
    #[arg(long, value_name = "N")]
    jobs: Option<u64>,
    /// The first job's seed; each other job has the next one
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Every call, use and outcome instead of those that seeds draw
    #[arg(long, conflicts_with = "seed")]
    all: bool,
    /// Every call and use once, with an error drawn by the seed
    #[arg(long, conflicts_with = "all")]
    each: bool,
    /// The first uses of each call in each process that are made to fail
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=50))]
    uses: u32,
    /// Only this job
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(SCENARIOS.map(|job| job.name)))]
    job: Option<String>,
    /// Only this call
    #[arg(long, value_name = "CALL", value_parser = PossibleValuesParser::new(Call::ALL.iter().map(|call| call.name())))]
    call: Option<String>,
    /// Run one job with this plan, as a failure prints it
    #[arg(long, value_name = "PLAN", requires = "job", conflicts_with_all = ["all", "each", "seed", "call", "list"])]
    plan: Option<CallPlan>,
    /// Print which processes of the jobs make which calls, and how often (to 50), and end
    #[arg(long)]
    list: bool,
    /// Begin no job after so many seconds
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Print one JSON object a job, and a verdict as the last
    #[arg(long)]
    json: bool,
}

/// A job as it is without a fault.
struct Known {
    uses: Vec<Use>,
    lines: usize,
}

/// Counts of a job's runs.
#[derive(Default)]
struct Tally {
    jobs: u64,
    /// Jobs in which a call came to what was planned.
    hit: u64,
    right: u64,
    failed: u64,
}

/// Runs of jobs so far.
struct Campaign<'a> {
    options: &'a FaultsCommand,
    programs: FaultPrograms,
    start: Instant,
    tallies: BTreeMap<&'static str, Tally>,
    jobs: u64,
    failed: u64,
}

impl FaultsCommand {
    pub(crate) fn run(self) -> Result<()> {
        let mut campaign = self.campaign()?;
        if self.list {
            return campaign.list();
        }
        campaign.fight()?;
        campaign.tell();
        campaign.judge()
    }

    fn campaign(&self) -> Result<Campaign<'_>> {
        let programs = FaultPrograms::build()?;
        let (start, tallies) = (Instant::now(), BTreeMap::new());
        Ok(Campaign { options: self, programs, start, tallies, jobs: 0, failed: 0 })
    }

    /// The jobs that are asked for and can be run here.
    fn scenarios(&self, programs: &FaultPrograms) -> Vec<&'static Scenario> {
        let is_asked = |scenario: &&Scenario| self.job.as_deref().is_none_or(|job| job == scenario.name);
        SCENARIOS.iter().filter(is_asked).filter(|scenario| programs.have(scenario)).collect()
    }

    fn wants(&self, of: &Use) -> bool {
        of.number <= self.uses && self.call.as_deref().is_none_or(|call| call == of.call.name())
    }
}

impl Campaign<'_> {
    /// The uses of calls that a job makes as it is, and the lines that it prints. It has to end
    /// well.
    fn learn(&self, scenario: &Scenario) -> Result<Known> {
        let end = job::run(&self.programs, scenario, &CallPlan::default(), None)?;
        if let Some(wrong) = end.wrong {
            bail!("{} without a fault: {wrong}", scenario.name);
        }
        let uses = end.uses.into_iter().filter(|of| self.options.wants(of)).collect();
        Ok(Known { uses, lines: end.lines })
    }

    fn list(&self) -> Result<()> {
        let mut table = Table::new(["job", "process", "calls and their uses"]);
        for scenario in self.options.scenarios(&self.programs) {
            let mut processes = BTreeMap::<String, BTreeMap<Call, u32>>::new();
            for Use { process, call, number } in self.learn(scenario)?.uses {
                let uses = processes.entry(process.to_string()).or_default().entry(call).or_default();
                *uses = number.max(*uses);
            }
            for (process, calls) in processes {
                if self.options.json {
                    let calls: BTreeMap<&str, u32> =
                        calls.iter().map(|(call, uses)| (call.name(), *uses)).collect();
                    println!("{}", json!({"job": scenario.name, "process": process, "calls": calls}));
                    continue;
                }
                let calls: Vec<String> = calls.iter().map(|(call, uses)| format!("{call} {uses}")).collect();
                table.row([scenario.name.to_owned(), process, calls.join(", ")]);
            }
        }
        if !self.options.json {
            println!("{table}");
        }
        Ok(())
    }

    /// Runs the jobs, also after one that failed.
    fn fight(&mut self) -> Result<()> {
        let scenarios = self.options.scenarios(&self.programs);
        if let Some(plan) = &self.options.plan {
            let scenario = scenarios.first().context("no job of that name")?;
            return self.run(scenario, plan, self.learn(scenario)?.lines);
        }
        if self.options.all || self.options.each {
            for scenario in scenarios {
                let Known { uses, lines } = self.learn(scenario)?;
                let plans = match self.options.all {
                    true => campaign::all(&uses),
                    false => campaign::each(&mut Dice(self.options.seed), &uses),
                };
                eprintln!("{}: {} plans", scenario.name, plans.len());
                for plan in &plans {
                    if self.is_over(u64::MAX) {
                        return Ok(());
                    }
                    self.run(scenario, plan, lines)?;
                }
            }
            return Ok(());
        }
        let mut known = BTreeMap::<_, Known>::new();
        let end = if self.options.seconds.is_some() { u64::MAX } else { JOBS };
        while !self.is_over(end) {
            let mut dice = Dice(self.options.seed.wrapping_add(self.jobs));
            let scenario = *dice.one_of(&scenarios);
            if !known.contains_key(scenario.name) {
                known.insert(scenario.name, self.learn(scenario)?);
            }
            let Known { uses, lines } = &known[scenario.name];
            // A program that is no job makes none.
            let plan = if uses.is_empty() { CallPlan::default() } else { campaign::draw(&mut dice, uses) };
            self.run(scenario, &plan, *lines)?;
        }
        Ok(())
    }

    fn is_over(&self, end: u64) -> bool {
        let seconds = self.start.elapsed().as_secs_f64();
        self.jobs >= self.options.jobs.unwrap_or(end)
            || self.options.seconds.is_some_and(|max| seconds >= max)
    }

    /// Runs a job and counts it.
    fn run(&mut self, scenario: &Scenario, plan: &CallPlan, lines: usize) -> Result<()> {
        let began = Instant::now();
        let JobEnd { is_hit, is_right, wrong, .. } = job::run(&self.programs, scenario, plan, Some(lines))?;
        let tally = self.tallies.entry(scenario.name).or_default();
        tally.jobs += 1;
        tally.hit += u64::from(is_hit);
        tally.right += u64::from(is_hit && is_right && wrong.is_none());
        tally.failed += u64::from(wrong.is_some());
        self.jobs += 1;
        self.failed += u64::from(wrong.is_some());
        if self.options.json {
            let seconds = began.elapsed().as_secs_f64();
            let told = json!({"job": scenario.name, "plan": plan.to_string(), "seconds": seconds, "hit": is_hit,
                "right": is_right, "failure": wrong});
            println!("{told}");
        }
        if let Some(wrong) = wrong {
            let name = scenario.name;
            eprintln!(
                "{name} FAILED: {wrong}\nreplay with\n  cargo xtask faults --job {name} --plan '{plan}'"
            );
        }
        if self.jobs.is_multiple_of(TELL_EVERY) {
            eprintln!(
                "{} jobs in {:.0} s, {} failed",
                self.jobs,
                self.start.elapsed().as_secs_f64(),
                self.failed
            );
        }
        Ok(())
    }

    fn tell(&self) {
        if self.options.json {
            println!("{}", json!({"jobs": self.jobs, "failed": self.failed}));
            return;
        }
        let mut table = Table::new(["job", "runs", "with a fault", "right all the same", "failed"]);
        for (name, Tally { jobs, hit, right, failed }) in &self.tallies {
            let numbers = [jobs, hit, right, failed].map(ToString::to_string);
            table.push([(*name).to_owned()].into_iter().chain(numbers));
        }
        println!("{table}");
    }

    fn judge(&self) -> Result<()> {
        let Self { jobs, failed, .. } = self;
        if *failed > 0 {
            bail!("verdict: {failed} of {jobs} jobs with faults did not end as they must");
        }
        if !self.options.json {
            println!(
                "verdict: all {jobs} jobs ended with the right result or with an error that names the call"
            );
        }
        Ok(())
    }
}

/// A step of `cargo xtask test`: as many jobs as there is time for, from a [wild seed](Wild) on.
pub fn step() -> Result<Outcome> {
    let wild = Wild::of("faults");
    eprintln!("{wild}");
    let faults = FaultsCommand {
        jobs: None,
        seed: wild.from,
        all: false,
        each: false,
        uses: 50,
        job: None,
        call: None,
        plan: None,
        list: false,
        seconds: Some(STEP_SECONDS),
        json: false,
    };
    let mut campaign = faults.campaign()?;
    campaign.fight()?;
    campaign.judge()?;
    Ok(Outcome::Passed(format!("{} jobs; {wild}", campaign.jobs)))
}
