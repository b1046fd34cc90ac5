//! `aldis-whatif`: predicted times of the collective schedules, against rank count and message size, on a network of
//! one's choice.
//!
//! Read top-down: [`cli`] is what the user types and [`list`] its numbers, [`study`] simulates every point, [`report`]
//! shows them as a table, CSV or JSON, [`plot`] draws them, [`output`] brings them where they belong.

mod cli;
mod list;
mod output;
mod plot;
mod report;
mod study;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match run(&cli::Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("aldis-whatif: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &cli::Options) -> Result<(), String> {
    if options.list {
        return output::print(&report::list());
    }
    let plan = study::Plan::of(options)?;
    // What cannot be written is known before minutes are spent.
    let csv = options.csv.as_deref().map(output::File::open).transpose()?;
    let svg = options.svg.as_deref().map(output::File::open).transpose()?;
    let (points, speed) = plan.simulate()?;
    output::print(&if options.json { report::json(&points) } else { report::table(&points) })?;
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
