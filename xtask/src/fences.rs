//! Unsafe code is fenced: a file that holds any says so in its first line, so that a reviewer finds
//! all of it by looking at first lines. So are calls of the system: [`calls`]. Tests are left out:
//! they ship with nothing.

use std::fs;
use std::path::{Path, PathBuf};

use aldis_shell::steps::Outcome;
use aldis_shell::workspace::checkout;
use anyhow::{Context, Result, bail};
use clap::Args;

mod calls;
mod items;
mod list;
mod tokens;

/// Checks that files with unsafe code say so, that `docs/unsafe.md` lists what is unsafe in them,
/// and that the crates for Linux make their calls of the system through aldis-sys.
#[derive(Args)]
pub(crate) struct Fences {
    /// Write the list anew, keeping what attacks each item
    #[arg(long)]
    bless: bool,
}

impl Fences {
    pub(crate) fn run(self) -> Result<()> {
        let outcome = compare(self.bless);
        println!("{}", Outcome::spell(&outcome));
        outcome.map(drop)
    }
}

/// The folders of what ships or is measured.
const FOLDERS: [&str; 26] = [
    "hal/src",
    "protocols/src",
    "drivers/src",
    "kernel/src",
    "coll/src",
    "c/src",
    "host-sim/linux/src",
    "host-sim/run/src",
    "host-sim/sim/src",
    "host-sim/sys/src",
    "host-sim/mpi/src",
    "host-sim/mpi/table/src",
    "host-sim/mpi/tools/src",
    "host-sim/nic/src",
    "host-sim/records/src",
    "tests/src",
    "tests/bench/src",
    "tests/board/src",
    "tests/conformance/src",
    "tests/firmware/src",
    "tests/lab/src",
    "tests/programs/src",
    "tests/shell/src",
    "tests/trials/src",
    "tests/unikernel/src",
    "xtask/src",
];

/// The openings that make code unsafe: the keyword in front of one of these, or an unsafe
/// attribute.
const OPENINGS: [&str; 6] =
    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe trait", "unsafe extern", "#[unsafe("];

/// The step of `cargo xtask test`.
pub(crate) fn check() -> Result<Outcome> {
    compare(false)
}

/// Fails with every file whose first line is silent about the unsafe code in it, with what the list
/// lacks, and with calls of the system that pass by the layer.
fn compare(bless: bool) -> Result<Outcome> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        collect(&checkout().join(folder), "tests", &mut files)?;
    }
    let (mut fenced, mut silent) = (0, Vec::new());
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        match (is_unsafe(&text), says_so(&text)) {
            (true, true) => fenced += 1,
            (true, false) => silent.push(file.strip_prefix(checkout()).unwrap_or(file).display().to_string()),
            (false, _) => {}
        }
    }
    if !silent.is_empty() {
        bail!("unsafe code, and a first line that does not say so: {}", silent.join(", "));
    }
    let items = list::check(&files, bless)?;
    let layered = calls::check(&files)?;
    let of = files.len();
    Ok(Outcome::Passed(format!(
        "{fenced} of {of} files hold unsafe code and say so, {items} items are listed; no call of the system passes by the \
         layer in {layered}"
    )))
}

/// Adds the sources below a folder to `files`, but for files and folders of the name `without`.
fn collect(folder: &Path, without: &str, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.file_stem().is_some_and(|name| name == without) {
            continue;
        }
        if path.is_dir() {
            collect(&path, without, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn is_unsafe(text: &str) -> bool {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or(""));
    // What stands in quotes is text: this file has some.
    let mut bare = code.filter(|line| !line.contains('"'));
    bare.any(|line| OPENINGS.iter().any(|opening| line.contains(opening)))
}

fn says_so(text: &str) -> bool {
    let first = text.lines().next().unwrap_or("");
    first.starts_with("//!") && first.to_lowercase().contains("unsafe")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_text_are_not_code() {
        assert!(is_unsafe("fn f() {\n    unsafe { g() }\n}"));
        assert!(is_unsafe("unsafe impl Send for X {}"));
        assert!(!is_unsafe("// unsafe { g() }\nlet text = \"unsafe fn\";"));
        assert!(!is_unsafe("#![forbid(unsafe_code)]"));
    }

    #[test]
    fn only_the_first_line_counts() {
        assert!(says_so("//! This module holds `unsafe` code: a register."));
        assert!(says_so("//! UNSAFE: maps memory."));
        assert!(!says_so("//! A register.\n//! This module holds `unsafe` code."));
    }
}
