//! `cargo xtask sim`: a campaign of the simulator. Every workload under every fault profile, on as
//! many seeds as are asked for or as there is time for; the workload `mixed`, which is some of
//! everything, gets half of them.

use std::process::Command;
use std::time::Instant;

use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::table::Table;
use aldis_shell::wild::Wild;
use aldis_shell::workspace::{self, Workspace};
use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::conformance;
use crate::verbs;

/// Seeds of a campaign that is bound by nothing else.
const SEEDS: u64 = 1000;
/// Seeds and ranks of the step of `cargo xtask test`, and with `--full`; as many are wild, beside
/// those.
const STEP_SEEDS: u64 = 750;
const FULL_STEP_SEEDS: u64 = 5000;
const STEP_RANKS: &str = "2-16";
/// Ranks of the step's large job of full kernels, and with `--full`; and the most memory that each
/// may take: 16 GiB are enough for twice as many.
const LARGE_RANKS: u32 = 4096;
const FULL_LARGE_RANKS: u32 = 65_536;
const LARGE_RANK_BYTES_MAX: u64 = 128 << 10;
/// The workload that is some of everything.
const MIXED: &str = "mixed";

/// Runs the simulator's workloads under its fault profiles on many seeds, and tells what failed and
/// how to repeat it.
///
/// Each seed draws a job size, a topology, a wire, a network, storages and faults. The seeds of one
/// campaign are the same for every workload and profile; those after them are the next campaign's,
/// with --from.
#[derive(Args)]
pub struct Sim {
    /// Seeds in all [default: 1000, or with --minutes as many as there is time for]
    #[arg(long)]
    seeds: Option<u64>,
    /// Begin no seed after so many minutes
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    from: u64,
    /// Ranks of a job: a number, or a range of which each seed draws one
    #[arg(long, value_name = "A-B", default_value = "2-32")]
    ranks: String,
    /// Only this workload; `aldis-sim list` tells of each
    #[arg(long, value_name = "W")]
    workload: Option<String>,
    /// Only this fault profile
    #[arg(long, value_name = "P")]
    faults: Option<String>,
    /// Only this wire
    #[arg(long, value_name = "W")]
    wire: Option<String>,
    /// Print one JSON object a line, and a verdict as the last
    #[arg(long)]
    json: bool,
}

/// The output of `aldis-sim list --json`.
#[derive(Deserialize)]
struct SimList {
    workloads: Vec<SimWorkload>,
    faults: Vec<String>,
}

#[derive(Deserialize)]
struct SimWorkload {
    name: String,
}

/// A line of a campaign: one workload under one profile.
struct ResultLine {
    workload: String,
    faults: String,
    /// Its part of all seeds, in `weight` of the sum of all weights.
    weight: u64,
}

/// The result of one run: what `aldis-sim run --json` says, as far as it is needed here.
#[derive(Deserialize)]
struct LargeResult {
    seconds: f64,
    peak_bytes_per_rank: u64,
    failure: Option<SeedFailure>,
}

/// The result of a line: what `aldis-sim seeds --json` says, as far as it is needed here.
#[derive(Deserialize, Serialize)]
struct SeedsResult {
    seeds: u64,
    events: u64,
    messages: u64,
    frames: u64,
    seconds: f64,
    trace: String,
    failure: Option<SeedFailure>,
}

#[derive(Deserialize, Serialize)]
struct SeedFailure {
    seed: u64,
    told: String,
    replay: String,
    shrunk: Option<Shrunk>,
}

#[derive(Deserialize, Serialize)]
struct Shrunk {
    ranks: u32,
    faults: Vec<String>,
    replay: String,
}

impl Sim {
    pub(crate) fn run(self) -> Result<()> {
        let workspace = Workspace::members()?;
        build(&[])?;
        let went = self.campaign(&workspace)?;
        self.judge(&went)
    }

    /// Runs every line, also after one that failed.
    fn campaign(&self, workspace: &Workspace) -> Result<Vec<(ResultLine, SeedsResult)>> {
        let lines = self.lines(&list(workspace)?)?;
        let (start, mut weights) = (Instant::now(), lines.iter().map(|line| line.weight).sum::<u64>());
        let seeds = self.seeds.or_else(|| self.minutes.is_none().then_some(SEEDS));
        let all = weights;
        let mut done = Vec::new();
        for line in lines {
            let mut run = aldis_sim(workspace);
            run.args(["seeds", "--json", "--from", &self.from.to_string(), "--ranks", &self.ranks]);
            run.args(["--faults", &line.faults]);
            if let Some(wire) = &self.wire {
                run.args(["--wire", wire]);
            }
            if let Some(seeds) = seeds {
                run.args(["--count", &(seeds * line.weight).div_ceil(all).to_string()]);
            }
            if let Some(minutes) = self.minutes {
                let left = (minutes - start.elapsed().as_secs_f64() / 60.0).max(0.0);
                run.args(["--minutes", &(left * line.weight as f64 / weights as f64).to_string()]);
            }
            weights -= line.weight;
            eprintln!("{}, {} faults", line.workload, line.faults);
            let (_, said) = shell::capture(run.arg(&line.workload))?;
            let said = said.trim_end();
            let went: SeedsResult = serde_json::from_str(said)
                .with_context(|| format!("`{}` said {said:?}", shell::spell(&run)))?;
            if let Some(failure) = &went.failure {
                eprintln!("{}", failure.tell());
            }
            done.push((line, went));
        }
        Ok(done)
    }

    /// Returns the lines that are to be run.
    fn lines(&self, list: &SimList) -> Result<Vec<ResultLine>> {
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        let workloads = list.workloads.iter().map(|workload| workload.name.as_str());
        let workloads: Vec<&str> = workloads.filter(|name| is(&self.workload, name)).collect();
        let faults: Vec<&String> = list.faults.iter().filter(|name| is(&self.faults, name)).collect();
        if workloads.is_empty() || faults.is_empty() {
            bail!("no such workload or fault profile; `aldis-sim list --json` tells which there are");
        }
        let others = (workloads.len() as u64 - 1).max(1);
        let line = |workload: &str, faults: &String| ResultLine {
            workload: workload.into(),
            faults: faults.clone(),
            weight: if workload == MIXED { others } else { 1 },
        };
        Ok(workloads.iter().flat_map(|name| faults.iter().map(|faults| line(name, faults))).collect())
    }

    fn judge(&self, went: &[(ResultLine, SeedsResult)]) -> Result<()> {
        let failed = went.iter().filter(|(_, went)| went.failure.is_some()).count();
        if self.json {
            for (line, went) in went {
                let mut object = serde_json::to_value(went)?;
                object["workload"] = line.workload.as_str().into();
                object["profile"] = line.faults.as_str().into();
                println!("{object}");
            }
            println!(
                "{}",
                serde_json::json!({"lines": went.len(), "failed": failed, "seeds": sum(went).seeds})
            );
        } else {
            println!("{}", table(went));
        }
        for failure in went.iter().filter_map(|(_, went)| went.failure.as_ref()) {
            eprintln!("{}\n", failure.tell());
        }
        if failed > 0 {
            bail!("verdict: {failed} of {} lines of the campaign have a seed that fails", went.len());
        }
        Ok(())
    }
}

impl SeedFailure {
    fn tell(&self) -> String {
        let Self { seed, told, replay, shrunk } = self;
        let mut text = format!("seed {seed} FAILED: {told}\nreplay with\n  target/release/{replay}");
        if let Some(Shrunk { ranks, faults, replay }) = shrunk {
            text += &format!("\nsmaller, with {ranks} ranks and {} faults:\n", faults.len());
            faults.iter().for_each(|fault| text += &format!("{fault}\n"));
            text += &format!("replay with\n  target/release/{replay}");
        }
        text
    }
}

/// All lines together.
fn sum(went: &[(ResultLine, SeedsResult)]) -> SeedsResult {
    let zero = SeedsResult {
        seeds: 0,
        events: 0,
        messages: 0,
        frames: 0,
        seconds: 0.0,
        trace: String::new(),
        failure: None,
    };
    went.iter().fold(zero, |sum, (_, went)| SeedsResult {
        seeds: sum.seeds + went.seeds,
        events: sum.events + went.events,
        messages: sum.messages + went.messages,
        frames: sum.frames + went.frames,
        seconds: sum.seconds + went.seconds,
        ..sum
    })
}

fn table(went: &[(ResultLine, SeedsResult)]) -> Table {
    let mut table =
        Table::new(["workload", "faults", "seeds", "events", "messages", "frames", "seconds", "outcome"]);
    let mut row = |workload: &str, faults: &str, went: &SeedsResult, outcome: String| {
        let numbers = [went.seeds, went.events, went.messages, went.frames].map(|count| count.to_string());
        let [seeds, events, messages, frames] = numbers;
        let seconds = format!("{:.1}", went.seconds);
        table.row([workload.into(), faults.into(), seeds, events, messages, frames, seconds, outcome]);
    };
    for (line, went) in went {
        let failed = |failure: &SeedFailure| format!("FAILED: seed {}", failure.seed);
        row(&line.workload, &line.faults, went, went.failure.as_ref().map_or_else(|| "ok".into(), failed));
    }
    row("all", "", &sum(went), String::new());
    table
}

fn aldis_sim(workspace: &Workspace) -> Command {
    Command::new(workspace.target.join("release").join("aldis-sim"))
}

fn list(workspace: &Workspace) -> Result<SimList> {
    let text = shell::output(aldis_sim(workspace).args(["list", "--json"]))?;
    serde_json::from_str(&text).context("what `aldis-sim list --json` says")
}

/// Builds the simulator and other programs of the workspace.
fn build(others: &[String]) -> Result<()> {
    eprintln!("building aldis-sim in release");
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--locked", "--quiet", "-p", "aldis-sim", "--bin", "aldis-sim"]);
    shell::run(cargo.args(others))
}

/// A step of `cargo xtask test`: fixed seeds, so that what fails fails everywhere, and [wild
/// ones](Wild).
pub fn step() -> Result<Outcome> {
    pass(STEP_SEEDS, LARGE_RANKS)
}

/// Runs the step on more seeds, and its large job on more ranks.
pub fn step_in_full() -> Result<Outcome> {
    pass(FULL_STEP_SEEDS, FULL_LARGE_RANKS)
}

/// Runs a barrier and an all-reduction on so many full kernels, whose rows are for the peers that
/// these need. Fails if a rank takes more memory than it may.
fn large_job(workspace: &Workspace, ranks: u32) -> Result<String> {
    let rows = 2 * ranks.next_power_of_two().ilog2() + 2;
    let mut run = aldis_sim(workspace);
    run.args(["run", "--json", "--ranks", &ranks.to_string(), "--active", &rows.to_string()]);
    run.args(["--topology", "fat-tree", "--faults", "calm", "--fast", "barrier-allreduce"]);
    eprintln!("{ranks} ranks");
    let (_, said) = shell::capture(&mut run)?;
    let LargeResult { seconds, peak_bytes_per_rank: bytes, failure } = serde_json::from_str(said.trim_end())
        .with_context(|| format!("`{}` said {said:?}", shell::spell(&run)))?;
    if let Some(failure) = failure {
        bail!("verdict: {}", failure.tell());
    }
    if bytes > LARGE_RANK_BYTES_MAX {
        bail!("verdict: a rank of {ranks} takes {bytes} bytes, and may take {LARGE_RANK_BYTES_MAX}");
    }
    Ok(format!("{ranks} ranks of {bytes} bytes in {seconds:.1} s"))
}

/// Runs the campaign on so many fixed seeds, and on as many wild ones, and a job of `large` ranks.
fn pass(each: u64, large: u32) -> Result<Outcome> {
    let workspace = Workspace::members()?;
    // With what the next step runs: the last crates of all, each one core's work, are compiled side
    // by side. Not with what the last one runs, which has no RDMA and would be built again.
    let mut others: Vec<String> = conformance::PROGRAMS.map(String::from).into();
    others.extend(verbs::features(&conformance::PACKAGES));
    build(&others)?;
    let (start, wild) = (Instant::now(), Wild::of("simulator"));
    eprintln!("{each} {wild}");
    let (mut seeds, mut events) = (0, 0);
    let mut verdicts = Vec::new();
    for from in [0, wild.from] {
        let sim = Sim {
            seeds: Some(each),
            minutes: None,
            from,
            ranks: STEP_RANKS.into(),
            workload: None,
            faults: None,
            wire: None,
            json: false,
        };
        let went = sim.campaign(&workspace)?;
        let all = sum(&went);
        (seeds, events) = (seeds + all.seeds, events + all.events);
        // Those of the other range are tried and told all the same.
        verdicts.push(sim.judge(&went));
    }
    verdicts.into_iter().collect::<Result<()>>()?;
    let took = start.elapsed().as_secs_f64();
    let large = large_job(&workspace, large)?;
    Ok(Outcome::Passed(format!("{seeds} seeds, {events} events in {took:.1} s; {large}; {wild}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sim(workload: Option<&str>, faults: Option<&str>) -> Sim {
        Sim {
            seeds: None,
            minutes: None,
            from: 0,
            ranks: "2-4".into(),
            workload: workload.map(Into::into),
            faults: faults.map(Into::into),
            wire: None,
            json: false,
        }
    }

    fn known() -> SimList {
        let workloads = ["ring", "halo", "flood", MIXED].map(|name| SimWorkload { name: name.into() });
        SimList { workloads: workloads.into(), faults: vec!["calm".into(), "crash".into()] }
    }

    #[test]
    fn the_mixed_workload_gets_half_of_all_seeds() {
        let lines = sim(None, None).lines(&known()).unwrap();
        assert_eq!(lines.len(), 8);
        let weight = |of: &dyn Fn(&ResultLine) -> bool| -> u64 {
            lines.iter().filter(|line| of(line)).map(|line| line.weight).sum()
        };
        assert_eq!(weight(&|line| line.workload == MIXED), weight(&|line| line.workload != MIXED));
    }

    #[test]
    fn what_is_asked_for_is_run_and_nothing_else() {
        let lines = sim(Some("halo"), Some("crash")).lines(&known()).unwrap();
        assert_eq!(lines.len(), 1);
        assert_eq!((&*lines[0].workload, &*lines[0].faults, lines[0].weight), ("halo", "crash", 1));
        assert!(sim(Some("haló"), None).lines(&known()).is_err());
        assert!(sim(None, Some("storm")).lines(&known()).is_err());
    }

    #[test]
    fn a_failure_is_told_with_both_replay_commands() {
        let failure: SeedFailure = serde_json::from_str(
            r#"{"seed": 7, "told": "lost", "replay": "aldis-sim run --seed 7 x", "rank": null,
                "shrunk": {"ranks": 2, "faults": ["  3  a pause"], "replay": "aldis-sim run --seed 7 y", "trials": 1}}"#,
        )
        .unwrap();
        let text = failure.tell();
        assert!(
            text.starts_with("seed 7 FAILED: lost\nreplay with\n  target/release/aldis-sim run --seed 7 x\n")
        );
        assert!(text.contains(
            "2 ranks and 1 faults:\n  3  a pause\nreplay with\n  target/release/aldis-sim run --seed 7 y"
        ));
    }
}
