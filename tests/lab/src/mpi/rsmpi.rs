//! The examples of the crate `mpi` (rsmpi), built once with `aldis-mpicc`, over the reference
//! library and over Aldis.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aldis_shell::artifact::Artifact;
use aldis_shell::shell;
use aldis_shell::table::Table;
use aldis_shell::workspace;
use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::folder;
use super::gaps::Gaps;
use super::modules::{self, Library, environment};

/// The release whose examples docs/mpi.md counts.
const CRATE: &str = "mpi";
const VERSION: &str = "0.8.2";
/// The features that its examples need.
const FEATURES: &str = "complex,derive,user-operations";
/// Ranks that each is run with.
pub(super) const RANKS: [u32; 4] = [1, 2, 3, 4];
/// Ranks that they are run with every day: all pass over the reference then, and mpi4py's tests
/// have an even number.
pub(super) const RANKS_DAILY: [u32; 1] = [3];
/// The command that installs what its build reads headers with.
const NEEDS: &str = "apt-get install python3-venv python3-dev libclang-dev pkg-config";

/// Runs them all at each number of ranks, and shows which pass where; what came of all of them.
///
/// # Errors
/// One that passes over the reference library and not over Aldis, and is not among the known gaps;
/// or one of those that passes.
pub(super) fn run(prefix: &Path, target: &Path, ranks: &[u32], is_json: bool) -> Result<String> {
    let (reference, aldis) = (Library::reference(&environment(target))?, Library::aldis(prefix));
    let examples = build(prefix, &target.join("mpi-rsmpi"))?;
    let mut gaps = Gaps::read(&folder().join("table/gaps.txt"))?;
    let mut table = Table::new(["example", "ranks", "reference", "Aldis"]);
    let (mut all, mut same, mut behind) = (0, 0, 0);
    for (name, program) in &examples {
        eprintln!("{name}");
        for &ranks in ranks {
            let full = format!("rsmpi.{name}");
            // What passes needs no comparison.
            let (control, told) = match went(&aldis, program, ranks)? {
                Ok(()) => {
                    gaps.passed(&full, ranks);
                    same += 1;
                    ("-", "passed".into())
                }
                Err(_) if went(&reference, program, ranks)?.is_err() => continue,
                Err(_) if gaps.has(&full, ranks) => ("passed", "known gap".into()),
                Err(why) => {
                    behind += 1;
                    ("passed", format!("FAILED: {why}"))
                }
            };
            all += 1;
            table.row([name.clone(), ranks.to_string(), control.into(), told]);
        }
    }
    if is_json {
        for record in table.records() {
            println!("{}", serde_json::to_string(&record.into_iter().collect::<BTreeMap<_, _>>())?);
        }
    } else {
        print!("{table}");
    }
    gaps.check()?;
    if behind > 0 {
        bail!("{behind} times an example passes over the reference library and not over Aldis");
    }
    let count = examples.len();
    Ok(format!(
        "{count} examples of {CRATE} {VERSION}: {same} of {all} runs pass, without those that fail over the reference too"
    ))
}

/// Returns the command that installs what their build needs, if something is not here.
pub(super) fn missing() -> Option<&'static str> {
    let has_all = modules::has_python() && shell::has("pkg-config") && has_libclang();
    (!has_all).then_some(NEEDS)
}

/// Returns true if libclang is where Debian puts it, or where the environment says.
fn has_libclang() -> bool {
    let paths =
        |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_libclang = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("libclang") && name.contains(".so")
    };
    std::env::var_os("LIBCLANG_PATH").is_some()
        || paths("/usr/lib".into()).any(|version| paths(version.join("lib")).any(is_libclang))
}

/// Runs a job, and returns its last words if it does not end well.
fn went(library: &Library, program: &Path, ranks: u32) -> Result<Result<(), String>> {
    let mut job = library.job(ranks);
    let ended = job.arg(program).output().with_context(|| shell::spell(&job))?;
    if ended.status.success() {
        return Ok(Ok(()));
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let line = said.lines().find(|line| line.contains("panicked at") || line.starts_with("aldis-run"));
    Ok(Err(format!("{}, {}", ended.status, line.unwrap_or("without a word"))))
}

/// Fetches the crate, and builds a copy of it; its examples by name.
fn build(prefix: &Path, into: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let copy = into.join("crate");
    if !copy.exists() {
        fetch(into, &copy)?;
    }
    let mut build = workspace::cargo();
    build.args(["build", "--quiet", "--locked", "--examples", "--features", FEATURES]);
    build.args(["--message-format", "json"]).current_dir(&copy);
    build.env("CARGO_TARGET_DIR", into.join("target")).env("MPICC", prefix.join("bin/aldis-mpicc"));
    let said = shell::output(&mut build).with_context(|| format!("what is missing may come with {NEEDS}"))?;
    let examples: BTreeMap<_, _> = said.lines().filter_map(example).collect();
    if examples.is_empty() {
        bail!("cargo has named no example of {CRATE} {VERSION}");
    }
    Ok(examples)
}

/// Copies the crate's source from where cargo keeps it, as a package of its own.
fn fetch(into: &Path, copy: &Path) -> Result<()> {
    let asks = into.join("asks");
    fs::create_dir_all(asks.join("src")).with_context(|| format!("making {}", asks.display()))?;
    fs::write(asks.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[package]\nname = \"asks\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n{CRATE} = \"={VERSION}\"\n"
    );
    fs::write(asks.join("Cargo.toml"), manifest)?;
    let mut metadata = workspace::cargo();
    metadata.args(["metadata", "--quiet", "--format-version", "1"]).current_dir(&asks);
    let said: Value = serde_json::from_str(&shell::output(&mut metadata)?)?;
    let packages = said["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let package = packages.iter().find(|package| package["name"] == CRATE);
    let source = package.and_then(|package| Path::new(package["manifest_path"].as_str()?).parent());
    let source = source.with_context(|| format!("cargo does not know {CRATE} {VERSION}"))?;
    shell::run(Command::new("cp").arg("-r").arg(source).arg(copy))?;
    // It is a member of no workspace, this one's folder notwithstanding.
    let text = fs::read_to_string(copy.join("Cargo.toml"))?;
    Ok(fs::write(copy.join("Cargo.toml"), format!("{text}\n[workspace]\n"))?)
}

/// An example that a line of what cargo says has built.
fn example(line: &str) -> Option<(String, PathBuf)> {
    let artifact = Artifact::parse(line).filter(|artifact| artifact.is("example"))?;
    Some((artifact.target.name, artifact.executable?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_found_among_what_cargo_says() {
        let line = r#"{"target":{"kind":["example"],"name":"pack"},"executable":"/t/pack"}"#;
        assert_eq!(example(line), Some(("pack".into(), "/t/pack".into())));
        assert_eq!(example(&line.replace("example", "bin")), None);
        assert_eq!(example(r#"{"target":{"kind":["example"],"name":"x"},"executable":null}"#), None);
    }
}
