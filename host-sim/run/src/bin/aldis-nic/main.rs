//! `aldis-nic`: which network cards a machine has for jobs, and what they carry: [`list`], [`echo`]
//! and [`mod@bench`] are its commands.

mod bench;
mod cli;
mod echo;
mod list;
mod station;

use std::ffi::OsString;
use std::io::{Write, stderr};
use std::process::ExitCode;

use aldis_linux::output;
use aldis_run::command_line;

use crate::cli::{NicCommand, NicOptions};

/// The program's name.
const NAME: &str = "aldis-nic";

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let options: NicOptions = match command_line::parse_from(words) {
        Ok(options) => options,
        Err(code) => return code,
    };
    let done = match &options.work {
        NicCommand::List => list::run(options.json),
        NicCommand::Echo(echo) => echo::run(echo, options.json),
        NicCommand::Bench(bench) => bench::run(bench, options.json),
    };
    let said = match done {
        Ok(text) => output::print(format_args!("{text}\n")),
        Err(error) => {
            // No output is left to report to where this fails.
            let _ = writeln!(stderr(), "{NAME}: {error}");
            return ExitCode::FAILURE;
        }
    };
    said.map_or_else(|lost| output::failed(NAME, &lost), |()| ExitCode::SUCCESS)
}
