//! Sums over all ranks, of whole numbers and of fractions, with every algorithm: every rank
//! verifies every element, and that the bits of the fractions' sums are the same on all ranks.
//!
//! ```text
//! aldis-run -n 4 target/release/examples/allreduce --max-bytes 4194304
//! ```

use core::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use aldis_coll::allreduce;
use aldis_coll::allreduce::ALGORITHMS;
use aldis_coll::op::{Max, Min, Sum};
use aldis_coll::{Options as Choice, barrier};
use aldis_kernel::{Comm, Rank};
use aldis_linux::HostEndpoint;
use clap::Parser;

/// Reduce over all ranks and verify on every rank.
#[derive(Parser)]
struct Options {
    /// Largest vector in bytes
    #[arg(long, default_value_t = 1 << 20)]
    max_bytes: usize,
    /// Calls of each size
    #[arg(long, default_value_t = 20)]
    calls: u32,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    json: bool,
}

/// Sizes of the table, in bytes: a multiple of 8 each.
const SIZES: [usize; 6] = [8, 64, 1 << 10, 16 << 10, 256 << 10, 4 << 20];

fn main() -> ExitCode {
    let options = Options::parse();
    aldis_linux::run(|ep| {
        let world = ep.world();
        let line = ResultLine { talks: world.rank() == Rank(0), json: options.json, ranks: world.size() };
        line.title();
        for bytes in SIZES.into_iter().filter(|bytes| *bytes <= options.max_bytes) {
            let auto = ("auto", Choice::default());
            let named = ALGORITHMS.iter().map(|algorithm| (algorithm.name(), Choice::using(*algorithm)));
            for (name, choice) in core::iter::once(auto).chain(named) {
                let nanoseconds = reduce(ep, bytes / 8, options.calls, &choice)?;
                line.print(bytes, name, nanoseconds);
            }
        }
        Ok(())
    })
}

/// Elements of scratch that every algorithm can do with: some keep an operand of every rank.
fn scratch_for(world: &Comm, count: usize) -> usize {
    count.max(world.size() as usize)
}

/// Reduces `count` elements `calls` times, verified; the mean time of a call in ns.
fn reduce(ep: &mut HostEndpoint, count: usize, calls: u32, choice: &Choice) -> Result<f64, Box<dyn Error>> {
    let world = &ep.world();
    let (rank, size) = (u64::from(world.rank().0), u64::from(world.size()));
    let (mut data, mut scratch) = (vec![0_u64; count], vec![0_u64; scratch_for(world, count)]);
    let mut nanoseconds = 0.0;
    for call in 0..u64::from(calls) {
        for (place, element) in (0_u64..).zip(&mut data) {
            *element = call + place * (rank + 1);
        }
        barrier().run(ep, world)?;
        let start = Instant::now();
        allreduce(Sum, &mut data, &mut scratch).with(choice).run(ep, world)?;
        nanoseconds += start.elapsed().as_nanos() as f64;
        for (place, element) in (0_u64..).zip(&data) {
            let expected = call * size + place * (size * (size + 1) / 2);
            if *element != expected {
                return Err(format!("element {place}: {element} where {expected} is right").into());
            }
        }
    }
    same_bits(ep, world, count.min(1024), choice)?;
    Ok(nanoseconds / f64::from(calls.max(1)))
}

/// Sums fractions, which do not add up the same in every order, and compares their bits over all
/// ranks: the least and the greatest bit pattern of each element are one.
fn same_bits(
    ep: &mut HostEndpoint,
    world: &Comm,
    count: usize,
    choice: &Choice,
) -> Result<(), Box<dyn Error>> {
    let share = |place: usize| 1.0 / (1.0 + place as f64 + 7.0 * f64::from(world.rank().0));
    let mut sums: Vec<f64> = (0..count).map(share).collect();
    let scratch = scratch_for(world, count);
    allreduce(Sum, &mut sums, &mut vec![0.0; scratch]).with(choice).run(ep, world)?;
    let bits: Vec<u64> = sums.iter().map(|sum| sum.to_bits()).collect();
    let (mut least, mut greatest) = (bits.clone(), bits);
    allreduce(Min, &mut least, &mut vec![0; scratch]).with(choice).run(ep, world)?;
    allreduce(Max, &mut greatest, &mut vec![0; scratch]).with(choice).run(ep, world)?;
    match least.iter().zip(&greatest).position(|(least, greatest)| least != greatest) {
        None => Ok(()),
        Some(place) => Err(format!("the sum of element {place} has other bits on another rank").into()),
    }
}

/// Rank 0's table.
struct ResultLine {
    talks: bool,
    json: bool,
    ranks: u32,
}

impl ResultLine {
    fn title(&self) {
        if self.talks && !self.json {
            println!("sums over {} ranks, verified on every rank, same bits on all of them", self.ranks);
            println!("{:>10} {:>20} {:>12}", "bytes", "algorithm", "mean us");
        }
    }

    fn print(&self, bytes: usize, algorithm: &str, nanoseconds: f64) {
        if self.talks && self.json {
            let line = serde_json::json!({
                "bench": "allreduce", "impl": "aldis", "ranks": self.ranks, "bytes": bytes,
                "algorithm": algorithm, "mean_ns": nanoseconds, "verified": true,
            });
            println!("{line}");
        } else if self.talks {
            println!("{bytes:>10} {algorithm:>20} {:>12.2}", nanoseconds / 1e3);
        }
    }
}
