//! Compilations that a run of `cargo xtask test` makes: what is compiled, how often, and for how
//! long. Cargo is told to start rustc by way of this program, which notes each compilation in a
//! file.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

use crate::table::Table;

/// The variable that names the file in which compilations are noted.
pub const LOG: &str = "ALDIS_COMPILES";

/// The crates that the table names; the others are one row.
const NAMED: usize = 20;

/// A compilation.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Compilation {
    name: String,
    /// The way it is compiled, in the words of the table.
    flavour: String,
    /// Seconds of processor time.
    seconds: f64,
}

/// Acts as rustc if cargo has started this program in its place.
pub fn stand_in() -> Option<ExitCode> {
    let log = env::var_os(LOG)?;
    let mut arguments = env::args_os().skip(1);
    let compiler = PathBuf::from(arguments.next()?);
    let name = compiler.file_name()?.to_str()?;
    if !["rustc", "clippy-driver"].contains(&name) {
        return None;
    }
    let arguments: Vec<OsString> = arguments.collect();
    let mut command = Command::new(&compiler);
    command.args(&arguments);
    let allocator = allocator();
    if env::var_os(PRELOAD).is_none() && allocator.is_file() {
        command.env(PRELOAD, allocator);
    }
    let status = match command.status() {
        Ok(status) => status,
        Err(error) => {
            eprintln!("xtask: starting {}: {error}", compiler.display());
            return Some(ExitCode::FAILURE);
        }
    };
    if let Some(compilation) = Compilation::of(name, &arguments) {
        // A compilation that is not noted is compiled all the same.
        let _ = compilation.note(Path::new(&log));
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Some(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The variable that names libraries whose functions stand before all others.
const PRELOAD: &str = "LD_PRELOAD";

/// An allocator for compilers that come without one of their own, as Debian's do, where its package
/// libjemalloc2 puts it: it takes large pages, which saves one second of ten that building core
/// takes.
fn allocator() -> PathBuf {
    PathBuf::from(format!("/usr/lib/{}-linux-gnu/libjemalloc.so.2", env::consts::ARCH))
}

/// The file of this run.
static NOTED: OnceLock<PathBuf> = OnceLock::new();

/// Notes what is compiled from now on, in a new file below the target folder.
pub fn begin(target: &Path) -> Result<()> {
    fs::create_dir_all(target).with_context(|| format!("creating {}", target.display()))?;
    let log = NOTED.get_or_init(|| target.join("compiles.jsonl"));
    File::create(log).with_context(|| format!("creating {}", log.display()))?;
    // A copy: this program itself may be built anew meanwhile.
    let (program, copy) = (env::current_exe()?, wrapper(log));
    // Moved into place: the one that stands there may be running, for another run.
    let part = copy.with_extension(format!("rustc-{}", std::process::id()));
    fs::copy(program, &part)
        .and_then(|_| fs::rename(&part, &copy))
        .with_context(|| format!("writing {}", copy.display()))?;
    Ok(())
}

/// The file in which compilations are noted: of this run, or of the one that has started this.
pub fn log() -> Option<PathBuf> {
    NOTED.get().cloned().or_else(|| env::var_os(LOG).map(PathBuf::from))
}

/// The program that cargo starts in rustc's place.
fn wrapper(log: &Path) -> PathBuf {
    log.with_extension("rustc")
}

/// Has cargo note what it compiles, unless something else stands between it and rustc.
pub fn note(cargo: &mut Command) {
    if let (Some(log), None) = (log(), env::var_os("RUSTC_WRAPPER")) {
        let wrapper = wrapper(&log);
        cargo.env(LOG, log).env("RUSTC_WRAPPER", wrapper);
    }
}

/// Has cargo note what it compiles with a compiler that nothing else may stand before: one that
/// [workspace::cargo](crate::workspace::cargo) was told of is left out.
pub(crate) fn note_alone(cargo: &mut Command) {
    match log() {
        Some(log) => cargo.env("RUSTC_WRAPPER", wrapper(&log)).env(LOG, log),
        None => cargo.env_remove("RUSTC_WRAPPER"),
    };
}

impl Compilation {
    /// The compilation that a compiler with these arguments is; none if it only answers a question.
    fn of<'a>(compiler: &str, arguments: &'a [OsString]) -> Option<Self> {
        let words: Vec<&'a str> = arguments.iter().filter_map(|word| word.to_str()).collect();
        let after = |option: &str| {
            let at = words.iter().position(|word| *word == option)?;
            words.get(at + 1).copied()
        };
        let bare = |word: &'a str| word.strip_prefix("-C").or(word.strip_prefix("-Z")).unwrap_or(word);
        let code = |option: &str| words.iter().find_map(|word| bare(word).strip_prefix(option));
        let name = after("--crate-name").filter(|name| *name != "___")?;
        let is_check = !words.iter().any(|word| word.starts_with("--emit=") && word.contains("link"));
        let kind = match (compiler, is_check, words.contains(&"--test")) {
            ("clippy-driver", ..) => "clippy",
            (_, true, _) => "check",
            (_, false, true) => "test",
            (_, false, false) => "build",
        };
        let mut flavour = format!("{kind} -O{}", code("opt-level=").unwrap_or("0"));
        for option in ["panic=", "lto="] {
            flavour.extend(code(option).map(|value| format!(" {option}{value}")));
        }
        flavour.extend(
            after("--target")
                .and_then(|target| Path::new(target).file_stem())
                .and_then(OsStr::to_str)
                .map(|target| format!(" {target}")),
        );
        for mark in ["loom", "fuzzing"] {
            let is_there = words.windows(2).any(|pair| *pair == ["--cfg", mark]);
            flavour.extend(is_there.then(|| format!(" {mark}")));
        }
        flavour.extend(code("sanitizer=").map(|sanitizer| format!(" {sanitizer}")));
        let used = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
        let seconds = (used.user_time() + used.system_time()).num_milliseconds() as f64 / 1e3;
        Some(Self { name: name.into(), flavour, seconds })
    }

    /// Appends it to the file in one piece, as other compilations do at the same time.
    fn note(&self, log: &Path) -> Result<()> {
        let line = serde_json::to_string(self)? + "\n";
        File::options().append(true).create(true).open(log)?.write_all(line.as_bytes())?;
        Ok(())
    }
}

/// Returns what this run has noted, by flavour and by crate; nothing if another one has started it.
pub fn tables() -> Result<Vec<Table>> {
    let Some(log) = NOTED.get() else { return Ok(Vec::new()) };
    let text = fs::read_to_string(log).with_context(|| format!("reading {}", log.display()))?;
    let compilations: Vec<Compilation> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    Ok(vec![
        table("compiled as", usize::MAX, compilations.iter().map(|one| (one.flavour.as_str(), one.seconds))),
        table("crate", NAMED, compilations.iter().map(|one| (one.name.as_str(), one.seconds))),
    ])
}

/// Sums of compilations by a word, the dearest first, and all together.
fn table<'a>(head: &str, most: usize, compilations: impl Iterator<Item = (&'a str, f64)>) -> Table {
    let mut sums = BTreeMap::<&str, (usize, f64)>::new();
    for (word, seconds) in compilations {
        let sum = sums.entry(word).or_default();
        *sum = (sum.0 + 1, sum.1 + seconds);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    let add = |all: (usize, f64), (_, sum): &(&str, (usize, f64))| (all.0 + sum.0, all.1 + sum.1);
    let all = sums.iter().fold((0, 0.0), add);
    let others = sums.get(most.min(sums.len())..).unwrap_or_default().iter().fold((0, 0.0), add);
    sums.truncate(most);
    if others.0 > 0 {
        sums.push(("others", others));
    }
    sums.push(("all", all));
    let mut table = Table::new([head, "times", "processor s"]);
    for (word, (times, seconds)) in sums {
        table.row([word.into(), times.to_string(), format!("{seconds:.1}")]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flavour(compiler: &str, line: &str) -> Option<String> {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Compilation::of(compiler, &arguments).map(|compilation| compilation.flavour)
    }

    #[test]
    fn a_compilation_is_named_by_how_it_is_compiled() {
        let build = "--crate-name a --emit=dep-info,metadata,link -C opt-level=3 -C lto=fat";
        assert_eq!(flavour("rustc", build).unwrap(), "build -O3 lto=fat");
        let check = "--crate-name a --emit=dep-info,metadata --target thumbv7em-none-eabihf -C panic=abort";
        assert_eq!(flavour("rustc", check).unwrap(), "check -O0 panic=abort thumbv7em-none-eabihf");
        let test = "--crate-name a --emit=dep-info,link --test --cfg loom";
        assert_eq!(flavour("rustc", test).unwrap(), "test -O0 loom");
        assert_eq!(flavour("clippy-driver", check).unwrap(), "clippy -O0 panic=abort thumbv7em-none-eabihf");
        assert_eq!(flavour("rustc", "--crate-name ___ --print=cfg"), None);
        assert_eq!(flavour("rustc", "-vV"), None);
    }

    #[test]
    fn the_dearest_are_named_and_the_others_are_one_row() {
        let text =
            table("crate", 1, [("a", 1.0), ("b", 3.0), ("a", 1.0), ("c", 1.0)].into_iter()).to_string();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows.get(2..).unwrap(), [["b", "1", "3.0"], ["others", "3", "3.0"], ["all", "4", "6.0"]]);
    }
}
