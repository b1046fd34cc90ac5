//! `aldis-schedule`: one schedule of a collective operation, drawn and with its figures. [`cli`] is
//! what the user types, [`study`] finds the schedule and simulates it, [`figures`] says what it
//! costs, [`text`] and [`svg`] draw it.

mod cli;
mod figures;
mod study;
mod svg;
mod text;

use core::error::Error;
use std::process::ExitCode;

use aldis_coll::draw::Drawing;
use aldis_linux::output;
use aldis_sim::command_line::parse;

use crate::figures::Figures;
use crate::study::Study;

fn main() -> ExitCode {
    match parse().map(|options| run(&options)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => output::failed("aldis-schedule", &*error),
        Err(code) => code,
    }
}

fn run(options: &cli::Options) -> Result<(), Box<dyn Error>> {
    let study = Study::of(options)?;
    let figures = Figures::of(&study);
    let mut said = if options.json {
        figures.json(&study)?
    } else {
        format!("{}{figures}", text::draw(&study, options.width))
    };
    if options.steps && !options.json {
        let Study { run, plan, .. } = &study;
        let (algorithm, size, root, count) = (run.algorithm, run.size, run.root, plan.segment);
        said += &format!("\n{}\n", Drawing { algorithm, size, root, count });
    }
    output::print(said)?;
    if let Some(path) = &options.svg {
        std::fs::write(path, svg::draw(&study)?).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
