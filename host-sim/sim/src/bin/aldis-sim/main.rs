//! `aldis-sim`: runs jobs on virtual nodes from seeds. [`cli`] is what the user types, [`seeds`]
//! runs many seeds at a time, [`failure`] makes a failing run smaller and tells of it, [`show`] is
//! what is printed.

mod cli;
mod failure;
mod seeds;
mod show;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::Instant;

use aldis_linux::output;
use aldis_sim::command_line::parse;
use aldis_sim::{Report, View, chrome_trace, space_time};
use cli::{Many, One, Options, SimCommand};
use show::{FinishedCampaign, RunSum};

fn main() -> ExitCode {
    let options = match parse::<Options>() {
        Ok(options) => options,
        Err(code) => return code,
    };
    let done = match options.command {
        SimCommand::Run(one) => run(&one),
        SimCommand::Seeds(many) => campaign(&many),
        SimCommand::List { json } => {
            show::say(if json { show::list_json() } else { show::list() }).map(|()| true)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => output::failed("aldis-sim", &error),
    }
}

/// Runs one seed; whether it went well.
fn run(one: &One) -> io::Result<bool> {
    let start = Instant::now();
    let report = one.job.simulate_shown(&one.config())?;
    let took = start.elapsed();
    write_pictures(one, &report)?;
    let told = failure::find(&report, &one.job, one.shrink)?;
    if one.job.json {
        show::say(show::run_json(&report, took, one.job.workload.name, told.as_ref()))?;
        return Ok(told.is_none());
    }
    show::say(format_args!("{report}\n{}", show::run_speed(&report, took)))?;
    report.stranded.iter().try_for_each(|line| show::say(format_args!("  {line}")))?;
    if one.show_faults {
        show::say(report.config.tell_faults())?;
    }
    if let Some(told) = &told {
        show::say(format_args!("\n{}", told.tell(|config| config.replay(one.job.workload.name))))?;
    }
    Ok(told.is_none())
}

fn write_pictures(one: &One, report: &Report) -> io::Result<()> {
    if let Some(path) = &one.trace {
        let mut file = BufWriter::new(File::create(path)?);
        chrome_trace(&report.records, &mut file)?;
        file.flush()?;
    }
    if let Some(path) = &one.svg {
        let view = View { window: one.window.clone(), messages_max: one.messages_max };
        let title = report.replay(one.job.workload.name);
        let picture = space_time(report.config.ranks, &report.records, &title, &view)?;
        std::fs::write(path, picture)?;
    }
    Ok(())
}

/// Runs seeds until one fails; whether none did.
fn campaign(many: &Many) -> io::Result<bool> {
    let start = Instant::now();
    let mut sum = RunSum::default();
    let last = seeds::run(many, &mut sum)?;
    let took = start.elapsed();
    let told = match &last {
        Some(last) => failure::find(last, &many.job, !many.no_shrink)?,
        None => None,
    };
    if many.job.json {
        let (workload, sum, last, told) = (many.job.workload.name, &sum, last.as_ref(), told.as_ref());
        show::say(FinishedCampaign { workload, sum, took, last, told }.json())?;
    } else {
        show::say(format_args!("{sum}\n{}", show::seeds_speed(&sum, took, many.jobs())))?;
        if let Some(told) = &told {
            show::say(format_args!("\n{}", told.tell(|config| config.replay(many.job.workload.name))))?;
        }
    }
    Ok(told.is_none())
}
