//! Command lines of the tools.

use std::process::ExitCode;

use aldis_linux::output;
use clap::Parser;

/// Returns the options of this process; help and the version are printed and end the program, as
/// wrong lines do.
///
/// # Errors
/// The exit code.
pub fn parse<O: Parser>() -> Result<O, ExitCode> {
    O::try_parse().map_err(|error| {
        let name = O::command().get_name().to_owned();
        output::end(&name, error.exit_code(), error.use_stderr(), || error.print())
    })
}
