//! A farm: rank 0 hands tasks of very different size to the ranks that are free, and these work
//! them off. No rank knows which reports next, so rank 0 receives from any source, and the tag
//! tells a report from a first request.
//!
//! ```text
//! aldis-run -n 4 target/release/examples/farm --tasks 5000
//! ```

use core::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use aldis_kernel::{Comm, Rank, Source, Tag, TagMatch};
use aldis_linux::HostEndpoint;
use clap::Parser;

/// Work off tasks of unequal size by whichever rank is free, and verify every result.
#[derive(Parser)]
struct Options {
    /// Numbers to work on
    #[arg(long, default_value_t = 2000)]
    tasks: u32,
    /// Print one JSON object instead of a sentence
    #[arg(long)]
    json: bool,
}

/// From a worker: it is free, and has nothing to report.
const READY: Tag = Tag(1);
/// From a worker: a task and its result; it is free again.
const RESULT: Tag = Tag(2);
/// From rank 0: a number to work on.
const TASK: Tag = Tag(3);
/// From rank 0: there is nothing left to do. No payload.
const STOP: Tag = Tag(4);

fn main() -> ExitCode {
    let options = Options::parse();
    aldis_linux::run(|ep| {
        let world = ep.world();
        if world.rank() != Rank(0) {
            return work(ep, &world);
        }
        let start = Instant::now();
        let share = farm_out(ep, &world, options.tasks)?;
        report(&options, &share, start.elapsed().as_secs_f64());
        Ok(())
    })
}

/// Steps until the Collatz sequence from `start` reaches one: quick to check, and different for
/// every number.
fn steps(start: u32) -> u32 {
    let next = |at: &u64| Some(if at.is_multiple_of(2) { at / 2 } else { 3 * at + 1 });
    core::iter::successors(Some(u64::from(start)), next).take_while(|at| *at != 1).count() as u32
}

fn work(ep: &mut HostEndpoint, world: &Comm) -> Result<(), Box<dyn Error>> {
    ep.send::<u32>(world, &[], Rank(0), READY)?;
    let mut task = [0];
    loop {
        let status = ep.recv(world, &mut task, Rank(0), TagMatch::Any)?;
        if status.tag == STOP {
            return Ok(());
        }
        ep.send(world, &[task[0], steps(task[0])], Rank(0), RESULT)?;
    }
}

/// Hands all tasks out and verifies what comes back; how many each rank has done.
fn farm_out(ep: &mut HostEndpoint, world: &Comm, tasks: u32) -> Result<Vec<u32>, Box<dyn Error>> {
    let mut share = vec![0; world.size() as usize];
    let mut done = vec![false; tasks as usize];
    let (mut next, mut busy) = (1, world.size() - 1);
    while busy > 0 {
        let mut result = [0; 2];
        let status = ep.recv(world, &mut result, Source::Any, TagMatch::Any)?;
        if status.tag == RESULT {
            verify(result, &mut done)?;
            share[status.source.0 as usize] += 1;
        }
        if next <= tasks {
            ep.send(world, &[next], status.source, TASK)?;
            next += 1;
        } else {
            ep.send::<u32>(world, &[], status.source, STOP)?;
            busy -= 1;
        }
    }
    // Alone in the job, there is no rank to hand anything to.
    if world.size() > 1 && !done.iter().all(|done| *done) {
        return Err("a task was lost".into());
    }
    Ok(share)
}

fn verify([task, result]: [u32; 2], done: &mut [bool]) -> Result<(), Box<dyn Error>> {
    let first_time = done.get_mut(task as usize - 1).map(|done| !core::mem::replace(done, true));
    if first_time != Some(true) || result != steps(task) {
        return Err(format!("task {task} came back with {result}, or twice").into());
    }
    Ok(())
}

fn report(options: &Options, share: &[u32], seconds: f64) {
    let tasks: u32 = share.iter().sum();
    if options.json {
        let line = serde_json::json!({
            "bench": "farm", "impl": "aldis", "ranks": share.len(), "tasks": tasks,
            "tasks_per_ms": f64::from(tasks) / seconds / 1e3, "verified": true,
        });
        println!("{line}");
    } else {
        println!("{tasks} tasks in {:.1} ms, every result verified; by rank: {share:?}", seconds * 1e3);
    }
}
