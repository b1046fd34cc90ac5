//! Command lines of the launcher: that of the job, and of each further program in it.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{ArgMatches, Command, Parser};

use aldis_linux::output;

/// The launcher for programs of MPI, which runs as `aldis-run` with other options.
pub const MPIEXEC: &str = "aldis-mpiexec";

/// The name by which the user called the launcher.
pub fn own_name() -> &'static str {
    let called = std::env::args_os().next();
    let is_mpiexec = called.is_some_and(|path| Path::new(&path).ends_with(MPIEXEC));
    if is_mpiexec { MPIEXEC } else { "aldis-run" }
}

/// Parses words as the command line, of which the first is the program's name; help and the version
/// are printed and end the program, as wrong lines do.
///
/// # Errors
/// The exit code.
pub fn parse_from<O: Parser>(words: impl IntoIterator<Item = OsString>) -> Result<O, ExitCode> {
    let matches = matches(O::command(), words)?;
    O::from_arg_matches(&matches).map_err(|error| end(&error, O::command().get_name()))
}

/// Like [`parse_from`], without the last step: returns clap's matches.
///
/// # Errors
/// The exit code.
pub fn matches(command: Command, words: impl IntoIterator<Item = OsString>) -> Result<ArgMatches, ExitCode> {
    let name = command.get_name().to_owned();
    command.try_get_matches_from(words).map_err(|error| end(&error, &name))
}

/// Prints what clap has to say; returns the exit code.
fn end(error: &clap::Error, program: &str) -> ExitCode {
    output::end(program, error.exit_code(), error.use_stderr(), || error.print())
}
