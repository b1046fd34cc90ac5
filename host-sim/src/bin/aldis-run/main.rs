//! `aldis-run`: starts the ranks of a job on this machine, brings them together, and ends them together.
//!
//! Read top-down: [`cli`] is what the user types, [`cores`] and [`spawn`] make the processes, [`rank`] is one of
//! them, [`wire`] talks to it until it knows its peers, [`relay`] carries their output, [`supervise`] waits for whatever
//! happens next and decides, [`report`] says it. One thread, one `poll(2)`.

mod cli;
mod cores;
mod error;
mod rank;
mod relay;
mod report;
mod signals;
mod spawn;
mod supervise;
mod wire;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let options = cli::Options::parse();
    match supervise::run(&options) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("aldis-run: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
