//! `cargo xtask fuzz`: inputs made up by libFuzzer for whatever reads what others wrote. The
//! targets and what was found worth keeping are in `tests/fuzz`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aldis_shell::steps::Outcome;
use aldis_shell::table::Table;
use aldis_shell::wild::Wild;
use aldis_shell::workspace::{self, Workspace};
use aldis_shell::{host_units, shell};
use anyhow::{Context, Result, bail};
use clap::Args;

/// Seconds of a target that is not told otherwise.
const SECONDS: u64 = 60;
/// Seconds of each target in the step of `cargo xtask test`, and with `--full`.
const STEP_SECONDS: u64 = 2;
const FULL_STEP_SECONDS: u64 = 20;
/// Bytes of the longest input that is made up.
const INPUT_BYTES_MAX: u32 = 2048;
/// Seconds after which one input hangs.
const HANG_S: u32 = 20;

/// The way it is optimised, below the checkout; and the folder that cargo puts the program into.
const PROFILE: &str = "tests/fuzz/profile.toml";
const BUILT: &str = "debug";
/// The flags that make LLVM tell libFuzzer where an input goes and what it compares, on the stable
/// toolchain; and overflow checks.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Coverflow-checks \
    -Cdebug-assertions";

/// Tries decoders, links, the engine and what a launcher reads with inputs that are made up to
/// reach new code.
///
/// Inputs that do are kept below `target/fuzz`; with --keep the few that reach all of it go to
/// `tests/fuzz/corpus`, which `cargo test` reads again. Needs a compiler for C++, for libFuzzer.
#[derive(Args)]
pub struct Fuzz {
    /// Only these targets [default: all]
    targets: Vec<String>,
    /// Seconds for each target
    #[arg(long, value_name = "S", default_value_t = SECONDS, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// The seed that the inputs are drawn from [default: the commit]
    #[arg(long, value_name = "S")]
    seed: Option<u32>,
    /// Keep what reaches new code in tests/fuzz/corpus
    #[arg(long)]
    keep: bool,
    /// Print the targets
    #[arg(long, exclusive = true)]
    list: bool,
}

/// The result of a target.
struct FuzzResult {
    target: String,
    inputs: u64,
    kept: usize,
}

impl Fuzz {
    pub(crate) fn run(self) -> Result<()> {
        if self.list {
            return shell::run(workspace::cargo().args(["run", "--locked", "--quiet", "-p", "aldis-fuzz"]));
        }
        let fuzzer = Fuzzer::build()?;
        let seed = self.seed.unwrap_or_else(drawn);
        let names = fuzzer.chosen(&self.targets)?;
        let mut table = Table::new(["target", "inputs", "corpus"]);
        for name in names {
            eprintln!("{name}: {} s, seed {seed}", self.seconds);
            let went = fuzzer.fuzz(name, self.seconds, seed)?;
            if self.keep {
                fuzzer.keep(name)?;
            }
            table.push([went.target, went.inputs.to_string(), went.kept.to_string()]);
        }
        println!("{table}");
        Ok(())
    }
}

/// The program, and where it keeps what it finds.
struct Fuzzer {
    program: PathBuf,
    folder: PathBuf,
    /// Names, and what each tries.
    targets: Vec<(String, String)>,
}

impl Fuzzer {
    fn build() -> Result<Self> {
        eprintln!("building the fuzz targets with libFuzzer");
        let workspace = Workspace::members()?;
        let folder = workspace.target.join("fuzz");
        let host = workspace::host()?;
        host_units::share(&workspace, &folder)?;
        let mut cargo = workspace::cargo();
        // A target of its own name, so that what runs while building is not watched.
        cargo.args([
            "build",
            "--locked",
            "--quiet",
            "--config",
            PROFILE,
            "-p",
            "aldis-fuzz",
            "--target",
            &host,
        ]);
        cargo.arg("--target-dir").arg(&folder).env("RUSTFLAGS", FLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS");
        shell::run(&mut cargo)?;
        let program = folder.join(host).join(BUILT).join("aldis-fuzz");
        Ok(Self { targets: targets(&program)?, program, folder })
    }

    fn chosen<'a>(&'a self, asked: &'a [String]) -> Result<Vec<&'a str>> {
        let all: Vec<&str> = self.targets.iter().map(|(name, _)| name.as_str()).collect();
        if let Some(other) = asked.iter().find(|name| !all.contains(&name.as_str())) {
            bail!("`{other}` is no fuzz target; there are {}", all.join(", "));
        }
        Ok(if asked.is_empty() { all } else { asked.iter().map(String::as_str).collect() })
    }

    /// Returns the folders of what is found on the way, and of what is in the tree.
    fn corpora(&self, target: &str) -> Result<[PathBuf; 2]> {
        let found = self.folder.join("corpus").join(target);
        let kept = kept(target);
        for folder in [&found, &kept] {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        Ok([found, kept])
    }

    fn fuzz(&self, target: &str, seconds: u64, seed: u32) -> Result<FuzzResult> {
        let [found, kept] = self.corpora(target)?;
        let artifacts = self.folder.join(format!("{target}-"));
        let mut fuzzer = Command::new(&self.program);
        fuzzer.env("ALDIS_FUZZ_TARGET", target).args([
            format!("-max_total_time={seconds}"),
            format!("-seed={seed}"),
            format!("-max_len={INPUT_BYTES_MAX}"),
            format!("-timeout={HANG_S}"),
            format!("-artifact_prefix={}", artifacts.display()),
            "-print_final_stats=1".into(),
            "-verbosity=0".into(),
        ]);
        fuzzer.args([&found, &kept]);
        // It says everything on its standard error.
        let output = fuzzer.output().with_context(|| shell::spell(&fuzzer))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            bail!("{said}\n`{target}` fails; {}", replay(target, &said));
        }
        let inputs = stat(&said, "number_of_executed_units").context("libFuzzer does not tell its inputs")?;
        Ok(FuzzResult { target: target.into(), inputs, kept: fs::read_dir(&found)?.count() })
    }

    /// Takes the inputs that together reach all that was reached into the tree.
    fn keep(&self, target: &str) -> Result<()> {
        let [found, kept] = self.corpora(target)?;
        let mut fuzzer = Command::new(&self.program);
        fuzzer.env("ALDIS_FUZZ_TARGET", target).args(["-merge=1", "-verbosity=0"]).args([kept, found]);
        shell::run(&mut fuzzer)
    }
}

fn kept(target: &str) -> PathBuf {
    workspace::checkout().join("tests/fuzz/corpus").join(target)
}

/// The targets as the program tells them.
fn targets(program: &Path) -> Result<Vec<(String, String)>> {
    let said = shell::output(Command::new(program).env_remove("ALDIS_FUZZ_TARGET"))?;
    let lines = said.lines().filter_map(|line| line.split_once(' '));
    Ok(lines.map(|(name, about)| (name.into(), about.trim().into())).collect())
}

/// A seed of the commit.
fn drawn() -> u32 {
    (Wild::of("fuzz").from % u64::from(u32::MAX)) as u32
}

fn stat(said: &str, name: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name))?;
    line.trim_start_matches(':').trim().parse().ok()
}

fn replay(target: &str, said: &str) -> String {
    let file = said.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, file)| file);
    let file = file.map_or(Path::new("FILE"), |file| Path::new(file.trim()));
    format!("replay with\n  cargo run -p aldis-fuzz -- {target} {}", file.display())
}

/// A step of `cargo xtask test`: a few seconds of each target.
pub fn step() -> Result<Outcome> {
    fuzz_each(STEP_SECONDS)
}

/// Runs the step with more time for each target.
pub fn step_in_full() -> Result<Outcome> {
    fuzz_each(FULL_STEP_SECONDS)
}

fn fuzz_each(seconds: u64) -> Result<Outcome> {
    if !shell::has("c++") {
        return Ok(Outcome::Skipped {
            why: "libFuzzer needs a compiler for C++".into(),
            enable: "apt-get install g++".into(),
        });
    }
    let fuzzer = Fuzzer::build()?;
    let (seed, mut inputs) = (drawn(), 0);
    for (target, _) in &fuzzer.targets {
        inputs += fuzzer.fuzz(target, seconds, seed)?.inputs;
    }
    Ok(Outcome::Passed(format!("{} targets, {inputs} inputs, seed {seed}", fuzzer.targets.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libfuzzer_says_is_understood() {
        let said = "stat::number_of_executed_units: 4711\nstat::average_exec_per_sec:     12\n";
        assert_eq!(stat(said, "number_of_executed_units"), Some(4711));
        assert_eq!(stat(said, "peak_rss_mb"), None);
        let said = "artifact_prefix='x'; Test unit written to /tmp/crash-1\n";
        assert_eq!(replay("rules", said), "replay with\n  cargo run -p aldis-fuzz -- rules /tmp/crash-1");
    }
}
