//! Several programs in one job, with `:` between them as MPI has it: `-n 1 a : -n 3 b`.

use std::ffi::OsString;
use std::path::PathBuf;

use aldis_linux::ethernet::CardsChoice;
use aldis_linux::shape::NodePlan;
use clap::Parser;
use serde::{Deserialize, Serialize};

use crate::options::{self, Options};

/// A program after the first, with the options that are its own.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "aldis-run",
    disable_version_flag = true,
    override_usage = "aldis-run [OPTIONS OF THE JOB] -n <N> PROGRAM [ARGS]... : -n <N> [--wdir <FOLDER>] [--env <NAME[=VALUE]>] [--nic <CARD>] PROGRAM [ARGS]..."
)]
pub struct ProgramPart {
    /// Ranks that run this program
    #[arg(short = 'n', value_name = "N", value_parser = options::ranks)]
    pub plan: NodePlan,

    /// The folder in which they start
    #[arg(long, value_name = "FOLDER")]
    pub wdir: Option<PathBuf>,

    /// A variable for their environment
    #[arg(long = "env", value_name = "NAME[=VALUE]", value_parser = options::variable)]
    pub environment: Vec<(OsString, OsString)>,

    /// The network card of its ranks, where it is another than that of the first program's
    #[arg(long, value_name = "CARD")]
    pub nic: Option<CardsChoice>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"])]
    pub command: Vec<OsString>,
}

/// A program and the ranks that run it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LaunchedProgram {
    /// Their number.
    pub ranks: u32,
    /// Its name and its arguments.
    pub command: Vec<OsString>,
    /// The folder to start it in, if it is another than the node's.
    pub folder: Option<OsString>,
    /// Variables to set.
    pub environment: Vec<(OsString, OsString)>,
}

/// Splits a command line at each `:`.
pub fn split(words: impl Iterator<Item = OsString>) -> Vec<Vec<OsString>> {
    let mut parts = vec![Vec::new()];
    for word in words {
        if word == ":" {
            // In front of the options of each stands the name of this program.
            parts.push(vec!["aldis-run".into()]);
        } else if let Some(part) = parts.last_mut() {
            part.push(word);
        }
    }
    parts
}

impl Options {
    /// Takes the programs after the first.
    pub fn join(&mut self, others: Vec<ProgramPart>) -> Result<(), String> {
        let ranks = others.iter().fold(self.plan.ranks, |sum, part| sum.saturating_add(part.plan.ranks));
        self.plan = options::ranks(&ranks.to_string())
            .map_err(|why| format!("{ranks} ranks of all programs: {why}"))?;
        self.others = others;
        Ok(())
    }

    /// The programs, by the ranks that run them; each with its environment whole.
    pub fn programs(&self) -> Vec<LaunchedProgram> {
        let others: u32 = self.others.iter().map(|part| part.plan.ranks).sum();
        let folder_of = |folder: &Option<PathBuf>| folder.clone().map(Into::into);
        let first = LaunchedProgram {
            ranks: self.plan.ranks - others,
            command: self.command.clone(),
            folder: folder_of(&self.wdir),
            environment: self.variables(&self.environment, None),
        };
        let others = self.others.iter().map(|part| LaunchedProgram {
            ranks: part.plan.ranks,
            command: part.command.clone(),
            folder: folder_of(&part.wdir),
            environment: self.variables(&part.environment, part.nic.as_ref()),
        });
        core::iter::once(first).chain(others).collect()
    }
}
