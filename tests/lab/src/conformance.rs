//! `cargo xtask conformance`: what MPI says of every call, over every transport and in the
//! simulator.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::table::Table;
use aldis_shell::wild::Wild;
use aldis_shell::workspace::{self, Workspace};
use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Deserialize;

use crate::verbs;

/// Seeds of a campaign.
const SEEDS: u64 = 1000;
/// Seeds of the step of `cargo xtask test`. As many are wild, beside those, for what draws from
/// them alone: the rest would be repeated. Fixed ones show what a change breaks; a wild one that
/// passes is worth more, since it has not passed before.
const STEP_SEEDS: u64 = 100;
/// The suite's package.
pub const PACKAGE: &str = "aldis-conformance";
/// The arguments by which cargo is to build the programs: the suite, and what it starts for jobs of
/// processes.
pub(crate) const PROGRAMS: [&str; 8] =
    ["-p", PACKAGE, "--bin", "conformance", "-p", "aldis-run", "--bin", "aldis-run"];
/// The packages of those programs.
pub(crate) const PACKAGES: [&str; 2] = [PACKAGE, "aldis-run"];
/// The argument that the suite takes for every case and every medium.
const ALL: &str = "all";

/// Runs the conformance suite: small rank programs by chapter of MPI 4.1, each over every transport
/// and combination of transports there is, and in the simulator under faults.
///
/// SEEDS are shared out among the media: half of them to each wire of the simulator, a few to those
/// where threads of this machine take part. A medium that is named gets them all. What fails is
/// told with the command that repeats it.
#[derive(Args)]
pub struct Conformance {
    /// Tell which cases and media there are, and run nothing
    #[arg(long)]
    list: bool,
    /// Only this case
    #[arg(long, value_name = "NAME", default_value = ALL)]
    case: String,
    /// Only over this medium
    #[arg(long, value_name = "NAME", default_value = ALL)]
    medium: String,
    /// Seeds of each case
    #[arg(long, default_value_t = SEEDS)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    from: u64,
    /// Run jobs over network cards instead, in networks of their own: each plays all cases of
    /// messages, datatypes and collectives on the first seed
    #[arg(long, conflicts_with_all = ["list", "case", "medium", "seeds"])]
    cards: bool,
    /// Print one JSON object a line instead of the tables
    #[arg(long)]
    json: bool,
}

/// The runs of a campaign.
#[derive(Clone, Copy)]
enum CampaignKind {
    /// Every case over every medium.
    All,
    /// Those alone that draw from the seed.
    Drawn,
}

/// A line of the list of cases.
#[derive(Deserialize)]
struct Case {
    case: String,
    section: String,
    ranks: u32,
}

/// A line of the list of media.
#[derive(Deserialize)]
struct Medium {
    medium: String,
    about: String,
}

/// A line of what it runs.
#[derive(Deserialize)]
struct CaseResult {
    case: String,
    medium: String,
    runs: u64,
    seconds: f64,
    failure: Option<String>,
}

/// A line of jobs over network cards.
#[derive(Deserialize)]
struct CardsJob {
    job: String,
    seconds: f64,
    failure: Option<String>,
}

impl Conformance {
    pub(crate) fn run(self) -> Result<()> {
        let program = build()?;
        if self.cards {
            let jobs = over_cards(&program, self.from, self.json)?;
            println!("verdict: all {jobs} jobs are good");
            return Ok(());
        }
        if self.list {
            return self.list(&program);
        }
        let went = self.campaign(&program, CampaignKind::All)?;
        if self.json {
            return judge(&went);
        }
        println!("{}", table(&cases(&program)?, &media(&program)?, &went));
        judge(&went)
    }

    fn list(&self, program: &Path) -> Result<()> {
        if self.json {
            shell::run(Command::new(program).arg("cases"))?;
            return shell::run(Command::new(program).arg("media"));
        }
        let mut table = Table::new(["section", "ranks", "case"]);
        for Case { case, section, ranks } in cases(program)? {
            table.row([section, ranks.to_string(), case]);
        }
        println!("{table}");
        let mut table = Table::new(["medium", "what it is"]);
        for Medium { medium, about } in media(program)? {
            table.row([medium, about]);
        }
        println!("{table}");
        Ok(())
    }

    /// Runs all that is asked for, or what differs from seed to seed alone.
    fn campaign(&self, program: &Path, how: CampaignKind) -> Result<Vec<CaseResult>> {
        let mut command = Command::new(program);
        let how = match how {
            CampaignKind::All => "run",
            CampaignKind::Drawn => "drawn",
        };
        command.args([how, &self.from.to_string(), &self.seeds.to_string(), &self.case, &self.medium]);
        // The panics of cases that fail are told with the failures.
        let (_, text) = shell::capture(command.env("RUST_BACKTRACE", "0"))?;
        if self.json {
            print!("{text}");
        }
        let went: Vec<CaseResult> = lines(&text)?;
        if went.is_empty() {
            bail!("no such case or medium; `cargo xtask conformance --list` tells which there are");
        }
        Ok(went)
    }
}

/// Runs a job over each kind of network card, on this seed. Returns how many there were: none where
/// there can be no network of one's own.
///
/// # Errors
/// The jobs that failed, with what they said.
fn over_cards(program: &Path, seed: u64, json: bool) -> Result<usize> {
    let (_, text) = shell::capture(Command::new(program).args(["cards", &seed.to_string()]))?;
    if json {
        print!("{text}");
    }
    let jobs: Vec<CardsJob> = lines(&text)?;
    let mut failed = Vec::new();
    for CardsJob { job, seconds, failure } in &jobs {
        let told = if failure.is_none() { "ok" } else { "FAILED" };
        eprintln!("  aldis-run {job}: {told} ({seconds:.1} s)");
        failed.extend(failure.as_ref().map(|said| format!("aldis-run {job}, seed {seed}:\n{said}")));
    }
    if !failed.is_empty() {
        bail!("{} of {} jobs over cards fail\n{}", failed.len(), jobs.len(), failed.join("\n"));
    }
    Ok(jobs.len())
}

fn cases(program: &Path) -> Result<Vec<Case>> {
    listed(&shell::output(Command::new(program).arg("cases"))?)
}

/// The list of cases, if they are told apart by name, cite their section and have ranks.
fn listed(text: &str) -> Result<Vec<Case>> {
    let cases: Vec<Case> = lines(text)?;
    let mut names = BTreeSet::new();
    for Case { case, section, ranks } in &cases {
        if !names.insert(case) {
            bail!("two cases are named `{case}`");
        }
        if *ranks == 0 || section.split('.').any(|number| number.parse::<u32>().is_err()) {
            bail!("`{case}` has {ranks} ranks and cites section `{section}` of MPI");
        }
    }
    Ok(cases)
}

fn media(program: &Path) -> Result<Vec<Medium>> {
    lines(&shell::output(Command::new(program).arg("media"))?)
}

fn lines<T: for<'de> Deserialize<'de>>(text: &str) -> Result<Vec<T>> {
    text.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("what `conformance` says")
}

/// Cases by media: how many runs of each were good.
fn table(cases: &[Case], media: &[Medium], went: &[CaseResult]) -> Table {
    let media = media.iter().map(|medium| medium.medium.as_str());
    let media: Vec<&str> = media.filter(|medium| went.iter().any(|went| went.medium == *medium)).collect();
    let mut table = Table::from_head(["section", "case"].into_iter().chain(media.iter().copied()));
    for Case { case, section, .. } in cases {
        let of = |medium: &&str| went.iter().find(|went| went.case == *case && went.medium == **medium);
        if media.iter().all(|medium| of(medium).is_none()) {
            continue;
        }
        let cell = |went: &CaseResult| match &went.failure {
            Some(_) => "FAILED".to_owned(),
            None if went.runs == 0 => "-".to_owned(),
            None => went.runs.to_string(),
        };
        let cells = media.iter().map(|medium| of(medium).map_or("-".to_owned(), cell));
        table.push([section.clone(), case.clone()].into_iter().chain(cells));
    }
    table
}

fn judge(went: &[CaseResult]) -> Result<()> {
    let failures: Vec<&String> = went.iter().filter_map(|went| went.failure.as_ref()).collect();
    failures.iter().for_each(|failure| eprintln!("{failure}\n"));
    let (lines, runs) = (went.len(), went.iter().map(|went| went.runs).sum::<u64>());
    if !failures.is_empty() {
        bail!("verdict: {} of {lines} cases and media have a run that fails", failures.len());
    }
    println!("verdict: all {runs} runs are good");
    Ok(())
}

/// Builds the suite, and beside it the launcher. Where the suite is.
pub(crate) fn build() -> Result<PathBuf> {
    eprintln!("building conformance in release");
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--locked", "--quiet"]).args(PROGRAMS);
    shell::run(cargo.args(verbs::features(&PACKAGES)))?;
    Ok(Workspace::members()?.target.join("release").join("conformance"))
}

/// A step of `cargo xtask test`: fixed seeds, so that what fails fails everywhere, and [wild
/// ones](Wild).
pub fn step() -> Result<Outcome> {
    pass(STEP_SEEDS)
}

/// Runs the step on as many seeds as the command has.
pub fn step_in_full() -> Result<Outcome> {
    pass(SEEDS)
}

/// Runs the suite on so many fixed seeds, and on as many wild ones.
fn pass(seeds: u64) -> Result<Outcome> {
    let program = build()?;
    let (start, wild) = (Instant::now(), Wild::of("conformance"));
    eprintln!("{seeds} {wild}");
    let mut went = Vec::new();
    let campaigns = [(0, CampaignKind::All), (wild.from, CampaignKind::Drawn)];
    for (from, how) in campaigns {
        let [case, medium] = [ALL; 2].map(String::from);
        let suite = Conformance { list: false, cards: false, case, medium, seeds, from, json: false };
        went.extend(suite.campaign(&program, how)?);
    }
    let took = start.elapsed().as_secs_f64();
    judge(&went)?;
    let jobs = over_cards(&program, wild.from, false)?;
    let (runs, work) = went.iter().fold((0, 0.0), |sum, went| (sum.0 + went.runs, sum.1 + went.seconds));
    let cases = cases(&program)?.len();
    Ok(Outcome::Passed(format!(
        "{cases} cases, {runs} runs in {took:.1} s ({work:.0} s of work); {jobs} jobs over cards; {wild}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: &str = r#"{"case":"a","section":"3.4","ranks":2}
{"case":"b","section":"3.5","ranks":1}"#;
    const MEDIA: &str = r#"{"medium":"loopback","about":"alone"}
{"medium":"shm","about":"threads"}"#;
    const WENT: &str = r#"{"case":"a","medium":"loopback","runs":0,"seconds":0.0,"failure":null}
{"case":"a","medium":"shm","runs":7,"seconds":0.5,"failure":null}
{"case":"b","medium":"shm","runs":1,"seconds":0.5,"failure":"b FAILED over shm"}"#;

    #[test]
    fn a_line_for_each_case_and_a_column_for_each_medium() {
        let went: Vec<CaseResult> = lines(WENT).unwrap();
        let text = table(&listed(CASES).unwrap(), &lines(MEDIA).unwrap(), &went).to_string();
        let found: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(found.contains(&vec!["3.4", "a", "-", "7"]), "{text}");
        assert!(found.contains(&vec!["3.5", "b", "-", "FAILED"]), "{text}");
        assert!(judge(&went).is_err() && judge(&went[..2]).is_ok());
    }

    #[test]
    fn cases_are_told_apart_by_name_and_cite_their_section() {
        assert_eq!(listed(CASES).unwrap().len(), 2);
        for [from, to] in [["\"b\"", "\"a\""], ["3.5", "3.x"], ["3.5", ""], ["\"ranks\":1", "\"ranks\":0"]] {
            assert!(listed(&CASES.replace(from, to)).is_err(), "{from} as {to}");
        }
    }
}
