//! The programs of the jobs, built so that calls of the system can be made to fail in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aldis_shell::shell;
use aldis_shell::workspace::{self, Workspace};
use anyhow::{Context, Result};

use super::scenario::{SCENARIOS, Scenario};
use crate::conformance;

/// The name by which programs in C find the library.
const LIBRARY: &str = "libmpi_abi.so.1";

/// Their folders.
pub(super) struct FaultPrograms {
    /// The folder of cargo's programs.
    pub(super) debug: PathBuf,
    /// The folder of the programs in C, if there is a compiler.
    in_c: Option<PathBuf>,
}

impl FaultPrograms {
    /// Builds them.
    pub(super) fn build() -> Result<Self> {
        let target = Workspace::members()?.target;
        eprintln!("building aldis-run, the examples and the library for C");
        // All libraries but that one, which takes as long as the others together.
        shell::run(workspace::examples().args(["--lib", "--exclude", conformance::PACKAGE]))?;
        let debug = target.join("debug");
        let in_c = shell::has("cc").then(|| target.join("faults"));
        match &in_c {
            Some(folder) => compile(&debug.join("libmpi_abi.so"), folder)?,
            None => eprintln!("  without programs in C: no cc"),
        }
        Ok(Self { debug, in_c })
    }

    /// Returns true if the scenario's program could be built.
    pub(super) fn have(&self, scenario: &Scenario) -> bool {
        scenario.in_c().is_none() || self.in_c.is_some()
    }

    /// The scenario's program.
    pub(super) fn path(&self, scenario: &Scenario) -> PathBuf {
        match (scenario.in_c(), &self.in_c) {
            (Some(source), Some(folder)) => folder.join(source.trim_end_matches(".c")),
            _ => self.debug.join("examples").join(scenario.program[0]),
        }
    }
}

/// Compiles the programs in C, into the folder in which they find a copy of the library.
fn compile(built: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let library = folder.join(LIBRARY);
    fs::copy(built, &library).context("copying the library for C")?;
    let interface = workspace::checkout().join("host-sim/mpi");
    let mut sources: Vec<&str> = SCENARIOS.iter().filter_map(Scenario::in_c).collect();
    sources.dedup();
    for source in sources {
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-I"]).arg(interface.join("include"));
        cc.arg(interface.join("programs").join(source))
            .arg("-o")
            .arg(folder.join(source.trim_end_matches(".c")));
        cc.arg(&library).arg(format!("-Wl,-rpath,{}", folder.display())).arg("-lm");
        shell::run(&mut cc)?;
    }
    Ok(())
}
