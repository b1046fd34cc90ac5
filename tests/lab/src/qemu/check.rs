//! Snapshot tests: jobs whose output, with times and the like left out, is compared with what is
//! written down beside the command line in `tests/emulated`.
//!
//! A snapshot is a text file: lines with `#` say what it shows, the line with `$` is the command,
//! what follows is the expected output of each rank in the order of ranks. `cargo xtask qemu
//! check --bless` writes the output anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use aldis_shell::steps::Outcome;
use aldis_shell::workspace::{self, Workspace};
use anyhow::{Context, Result, bail};
use clap::{Args, Parser};

use super::bridge;
use super::cli::{Mixed, QemuRun};
use super::job::Job;
use super::machine::{self, Arch};
use super::programs::{self, QemuPrograms};
use super::rank::Rank;
use super::report::JobReport;

/// Snapshots that are played at a time: most of a job's time goes by in waits for frames that were
/// lost.
const AT_ONCE: usize = 3;

/// Compares jobs in emulators with what they should say.
///
/// Each file of tests/emulated names a command and the output it must have. Faults come from seeds;
/// what depends on time is left out of the comparison.
#[derive(Args)]
pub struct Check {
    /// Only snapshots whose name contains this
    filter: Option<String>,
    /// Write down what is said now
    #[arg(long)]
    bless: bool,
}

impl Check {
    pub(super) fn run(self) -> Result<()> {
        match check(self.filter.as_deref(), self.bless)? {
            Outcome::Passed(words) => println!("verdict: {words}"),
            Outcome::Skipped { why, enable } => bail!("{why}; to enable: {enable}"),
        }
        Ok(())
    }
}

/// The step of `cargo xtask test` that builds what [`step`] runs in emulators.
pub fn images(workspace: &Workspace) -> Result<Outcome> {
    let mut members: Vec<Arch> = Snapshot::all()?.iter().flat_map(|one| one.job.members.clone()).collect();
    let lacking = members.iter().find_map(|arch| arch.missing());
    members.retain(|arch| arch.missing().is_none());
    if let Some(missing) = programs::missing(workspace, &members)? {
        return Ok(missing);
    }
    let built = programs::images(workspace, &members)?.len();
    Ok(lacking.unwrap_or(Outcome::Passed(format!("{built} images"))))
}

/// The step of `cargo xtask test`.
pub fn step() -> Result<Outcome> {
    check(None, false)
}

fn check(filter: Option<&str>, bless: bool) -> Result<Outcome> {
    let all = Snapshot::all()?;
    let chosen: Vec<&Snapshot> =
        all.iter().filter(|one| filter.is_none_or(|part| one.name.contains(part))).collect();
    if chosen.is_empty() {
        bail!("no snapshot is called so; there are {}", names(&all));
    }
    // Without an emulator or a compiler, the other snapshots are compared all the same.
    let lacking = chosen.iter().find_map(|one| one.missing());
    let chosen: Vec<&Snapshot> = chosen.into_iter().filter(|one| one.missing().is_none()).collect();
    let members: Vec<Arch> =
        chosen.iter().flat_map(|one| one.job.members.iter().copied()).chain([Arch::Host]).collect();
    if let Some(missing) = programs::missing(&Workspace::members()?, &members)? {
        return Ok(missing);
    }
    let programs = QemuPrograms::build(&members)?;
    let mut failures = compare_all(&chosen, &programs, bless);
    if !failures.is_empty() {
        failures.sort();
        let names: Vec<&str> = failures.iter().map(|(name, _)| *name).collect();
        let why: Vec<String> = failures.iter().map(|(name, error)| format!("{name}: {error}")).collect();
        // The first line is what the table of the steps has.
        bail!(
            "{} of {} snapshots differ: {}\n{}",
            names.len(),
            chosen.len(),
            names.join(", "),
            why.join("\n")
        );
    }
    Ok(lacking.unwrap_or(Outcome::Passed(format!("{} snapshots", chosen.len()))))
}

/// Compares snapshots, a few at a time, and tells of each when it ends. Those that differ, and how.
fn compare_all<'a>(chosen: &[&'a Snapshot], programs: &QemuPrograms, bless: bool) -> Vec<(&'a str, String)> {
    let (left, failures) = (Mutex::new(chosen.iter()), Mutex::new(Vec::new()));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(snapshot) = next() {
            let start = Instant::now();
            let result = snapshot.compare(programs, bless);
            let told = if result.is_ok() { "ok" } else { "FAILED" };
            eprintln!("  {}: {told} ({:.1} s)", snapshot.name, start.elapsed().as_secs_f64());
            if let Err(error) = result {
                let failure = (snapshot.name.as_str(), format!("{error:#}"));
                failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    failures.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn names(all: &[Snapshot]) -> String {
    all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// A job and what it should say.
struct Snapshot {
    name: String,
    path: PathBuf,
    /// The description and the command, as they stand in the file.
    head: String,
    job: Job,
    expected: String,
}

/// The command line of a snapshot.
#[derive(Parser)]
#[command(name = "cargo xtask qemu", no_binary_name = true)]
enum CheckLine {
    Run(QemuRun),
    Mixed(Mixed),
}

impl Snapshot {
    fn all() -> Result<Vec<Self>> {
        let folder = workspace::checkout().join("tests/emulated");
        let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
            .with_context(|| format!("reading {}", folder.display()))?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
        paths.sort();
        paths.into_iter().map(|path| Self::read(&path).with_context(|| path.display().to_string())).collect()
    }

    fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (head, command, expected) = parts(&text)?;
        let job = match CheckLine::try_parse_from(command.split_whitespace())? {
            CheckLine::Run(run) => run.job()?,
            CheckLine::Mixed(mixed) => mixed.job()?,
        };
        Ok(Self { name, path: path.into(), head: head.into(), job, expected: expected.into() })
    }

    /// The emulator or compiler of a rank, if it is not installed here.
    fn missing(&self) -> Option<Outcome> {
        let on_taps = machine::is_on_taps(self.job.link, self.job.cores);
        self.job.members.iter().find_map(|arch| arch.missing()).or_else(|| on_taps.then(bridge::missing)?)
    }

    fn compare(&self, programs: &QemuPrograms, bless: bool) -> Result<()> {
        let job = Job { quiet: true, silent: true, ..self.job.clone() };
        let mut report = job.play(programs)?;
        report.compare_with_host(programs)?;
        report.judge().with_context(|| transcript(&report))?;
        let said = normalised(&report);
        if bless {
            return Ok(fs::write(&self.path, format!("{}{said}", self.head))?);
        }
        if said != self.expected {
            bail!("expected\n{}\nand was\n{said}", self.expected);
        }
        Ok(())
    }
}

/// Head, command and expected output of a snapshot's text.
fn parts(text: &str) -> Result<(&str, &str, &str)> {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        if let Some(command) = line.strip_prefix("$ cargo xtask qemu ") {
            return Ok((&text[..end], command.trim(), &text[end..]));
        }
    }
    bail!("no line begins with `$ cargo xtask qemu `")
}

/// All that was said, for the reader who has to find out why it went wrong.
fn transcript(report: &JobReport) -> String {
    let lines = |rank: &Rank| {
        let label = rank.label();
        rank.lines.iter().map(|line| format!("{label} {line}\n")).collect::<String>()
    };
    report.ranks.iter().map(lines).collect()
}

/// The beginnings of a line that is not part of what a program says: counts, logs, and what an
/// emulator says of itself.
const ASIDES: [&str; 9] =
    ["frames: ", "qemu-system-", "libbpf: ", "log: ", "trace: ", "debug: ", "info: ", "warn: ", "error: "];

/// Returns what the ranks said, rank by rank, without what differs from run to run.
fn normalised(report: &JobReport) -> String {
    let lines = |rank: &Rank| {
        let label = rank.label();
        let is_said =
            |line: &&String| !line.is_empty() && !ASIDES.iter().any(|aside| of_core(line).starts_with(aside));
        let banner = |line: &&String| rank.arch.has_banner() && !line.starts_with(super::rank::EPOCH);
        let kept = rank.lines.iter().skip_while(banner).filter(is_said);
        kept.map(|line| format!("{label} {}\n", without_times(line))).collect::<String>()
    };
    let mut text: String = report.ranks.iter().map(lines).collect();
    if report.count("/udp") > 0 && report.count("/udp") == report.count("/received") {
        text.push_str("[switch] all frames in UDP over IPv4\n");
    }
    // How many there are depends on time; that there are some does not, where the switch was told
    // to make them.
    for (name, _) in super::report::FAULTS.iter().filter(|(_, pointer)| report.count(pointer) > 0) {
        text.push_str(&format!("[switch] some frames {name}\n"));
        if matches!(*name, "corrupted" | "malformed") && report.refused() > 0 {
            text.push_str("[ranks] refused some\n");
        }
    }
    text
}

/// The part of a line that another core than a board's first has said, or all of it.
fn of_core(line: &str) -> &str {
    let said = line.strip_prefix("core ").and_then(|rest| rest.split_once(": "));
    said.map_or(line, |(_, said)| said)
}

/// The line with `#` for every number that a unit of time follows.
fn without_times(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let is_unit =
        |word: &str| matches!(word.trim_end_matches([',', ';', '.', ')']), "ns" | "us" | "ms" | "s");
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let shown = words.iter().enumerate().map(|(at, word)| {
        let timed = is_number(word) && words.get(at + 1).is_some_and(|next| is_unit(next));
        if timed { "#" } else { word }
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_left_out_and_other_numbers_stay() {
        assert_eq!(
            without_times("8 B to rank 1: mean 1250 ns, best 3 ns"),
            "8 B to rank 1: mean # ns, best # ns"
        );
        assert_eq!(without_times("verdict: OK heat steps=3"), "verdict: OK heat steps=3");
    }

    #[test]
    fn the_prefix_of_a_core_is_taken_off() {
        assert_eq!(of_core("core 1: info: 7 frames"), "info: 7 frames");
        assert_eq!(of_core("corelation: info: 7"), "corelation: info: 7");
    }

    #[test]
    fn a_snapshot_has_a_command() {
        let text = "# what\n$ cargo xtask qemu run --arch host\n[rank 0 host] x\n";
        let (head, command, expected) = parts(text).unwrap();
        assert_eq!((head, command, expected), (&text[..42], "run --arch host", "[rank 0 host] x\n"));
        assert!(parts("# what\n").is_err());
    }

    #[test]
    fn the_snapshots_that_there_are_can_be_read() {
        assert!(Snapshot::all().unwrap().iter().all(|one| !one.expected.is_empty()));
    }
}
