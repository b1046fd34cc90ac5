//! `aldis-whatif`: predicted times of the collective schedules, against rank count and message
//! size, on a network of one's choice.
//!
//! Read top-down: [`cli`] is what the user types and [`list`] its numbers, [`study`] simulates
//! every point, [`report`] shows them as a table, CSV or JSON, [`plot`] draws them, [`output`]
//! brings them where they belong.

mod cli;
mod list;
mod output;
mod plot;
mod report;
mod study;

use core::error::Error;
use std::process::ExitCode;

use aldis_linux::output::{failed, print};
use aldis_sim::command_line::parse;

fn main() -> ExitCode {
    match parse().map(|options| run(&options)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => failed("aldis-whatif", &*error),
        Err(code) => code,
    }
}

fn run(options: &cli::Options) -> Result<(), Box<dyn Error>> {
    if options.list {
        return Ok(print(report::list())?);
    }
    let plan = study::StudyPlan::of(options)?;
    // What cannot be written is known before minutes are spent.
    let csv = options.csv.as_deref().map(output::OutputFile::open).transpose()?;
    let svg = options.svg.as_deref().map(output::OutputFile::open).transpose()?;
    let (points, speed) = plan.simulate()?;
    print(if options.json { report::json(&points) } else { report::table(&points) })?;
    if let Some(csv) = csv {
        csv.write(&report::csv(&points))?;
    }
    if let Some(svg) = svg {
        svg.write(&plot::draw(&points, &options.title())?)?;
    }
    if let Some(refused) = points.iter().find_map(|point| point.refused.as_ref()) {
        eprintln!("aldis-whatif: points without a time: {refused}; take fewer ranks or raise --work-max");
    }
    eprintln!("{speed}");
    Ok(())
}
