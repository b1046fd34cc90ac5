//! `aldis-sim`: runs jobs on virtual nodes from seeds. [`cli`] is what the user types, [`show`] what is printed.

mod cli;
mod show;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use aldis_host_sim::sim::workloads::WORKLOADS;
use aldis_host_sim::sim::{Config, Report, chrome_trace, simulate};
use clap::Parser;
use cli::{Command, Job, Options};
use show::Sum;

fn main() -> ExitCode {
    let done = match Options::parse().command {
        Command::Run { seed, trace, job } => run(seed, 1, &job, trace.as_deref()),
        Command::Seeds { from, count, job } => run(from, count, &job, None),
        Command::List => {
            WORKLOADS.iter().for_each(|workload| println!("{:18} {}", workload.name, workload.about));
            Ok(true)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("aldis-sim: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs seeds until one fails; whether none did.
fn run(from: u64, count: u64, job: &Job, trace: Option<&Path>) -> io::Result<bool> {
    let bar = show::bar(count);
    let (start, mut sum) = (Instant::now(), Sum::default());
    let mut last = None;
    for seed in from..from.saturating_add(count) {
        let report = one(seed, job, trace)?;
        sum.add(&report);
        bar.inc(1);
        let failed = report.failure.is_some();
        last = Some(report);
        if failed {
            break;
        }
    }
    bar.finish_and_clear();
    let Some(last) = last else { return Ok(true) };
    let replay = last.replay(job.workload.name) + job.extra();
    let well = last.failure.is_none();
    if job.json {
        println!("{}", show::json(&last, &sum, start.elapsed(), &replay));
        return Ok(well);
    }
    println!("{}", if count == 1 { last.to_string() } else { sum.to_string() });
    println!("{}", show::speed(&last, &sum, start.elapsed()));
    if count == 1 {
        last.stranded.iter().for_each(|line| println!("  {line}"));
    }
    if let Some(failure) = &last.failure {
        println!("\nseed {} FAILED: {failure}\n\nreplay with\n  {replay}", last.config.seed);
    }
    Ok(well)
}

fn one(seed: u64, job: &Job, trace: Option<&Path>) -> io::Result<Report> {
    let program = job.workload.run;
    let config = Config { record: trace.is_some(), ..job.config(seed) };
    let report = simulate(&config, move |endpoint| program(endpoint, seed))?;
    if let Some(path) = trace {
        let mut file = BufWriter::new(File::create(path)?);
        chrome_trace(&report.records, &mut file)?;
        file.flush()?;
    }
    Ok(report)
}
