//! Ranks that are threads of this process, one a core, joined by rings in its memory: a token goes
//! round, then all sum vectors together; every result is verified.
//!
//! ```text
//! cargo run --release -p aldis-linux --example cores -- --cores 4
//! ```

use std::process::ExitCode;
use std::time::Instant;

use aldis_coll::allreduce;
use aldis_coll::barrier;
use aldis_coll::op::Sum;
use aldis_kernel::{Rank, Tag};
use aldis_linux::cores::{self, CoreEndpoint, CoreFailure};
use clap::Parser;

/// A ring and an all-reduction between the threads of one process
#[derive(Parser)]
struct Options {
    /// Threads, each a rank
    #[arg(long, default_value_t = 4)]
    cores: u32,
    /// Rounds of the token
    #[arg(long, default_value_t = 1000)]
    rounds: u32,
    /// Elements of the vectors
    #[arg(long, default_value_t = 1 << 16)]
    elements: usize,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let times = cores::run(options.cores, |ep| {
        let hop = ring(ep, options.rounds)?;
        Ok((hop, sum(ep, options.elements)?))
    });
    match times {
        Ok(times) => {
            let (hop, sum) = times.into_iter().next().unwrap_or_default();
            println!("{} cores: {hop:.0} ns a hop of a token, verified", options.cores);
            println!(
                "{} cores: {sum:.1} us for the sum of {} numbers, verified",
                options.cores, options.elements
            );
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Sends a token round, which every rank adds to; the mean time of a hop in ns.
fn ring(ep: &mut CoreEndpoint<'_>, rounds: u32) -> Result<f64, CoreFailure> {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (next, previous) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    let mut token = [0_u64];
    let start = Instant::now();
    for _ in 0..rounds {
        if me == 0 {
            ep.sendrecv(&world, &[token[0] + 1], next, Tag(1), &mut token, previous, Tag(1))?;
        } else {
            ep.recv(&world, &mut token, previous, Tag(1))?;
            ep.send(&world, &[token[0] + u64::from(me) + 1], next, Tag(1))?;
        }
    }
    let nanoseconds = start.elapsed().as_nanos() as f64;
    let round = u64::from(size) * u64::from(size + 1) / 2;
    if me == 0 && token[0] != u64::from(rounds) * round {
        return Err(format!("the token is {} after {rounds} rounds of {round}", token[0]).into());
    }
    Ok(nanoseconds / f64::from(rounds.max(1)) / f64::from(size))
}

/// Sums vectors over all ranks, and verifies every element; the time in us.
fn sum(ep: &mut CoreEndpoint<'_>, elements: usize) -> Result<f64, CoreFailure> {
    let world = ep.world();
    let (me, size) = (u64::from(world.rank().0), u64::from(world.size()));
    let mut data: Vec<u64> = (0..elements as u64).map(|place| place * (me + 1)).collect();
    barrier().run(ep, &world)?;
    let start = Instant::now();
    allreduce(Sum, &mut data, &mut vec![0; elements]).run(ep, &world)?;
    let microseconds = start.elapsed().as_nanos() as f64 / 1e3;
    for (place, element) in (0_u64..).zip(&data) {
        let expected = place * size * (size + 1) / 2;
        if *element != expected {
            return Err(format!("element {place} is {element} where {expected} is right").into());
        }
    }
    Ok(microseconds)
}
