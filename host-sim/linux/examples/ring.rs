//! A token goes round all ranks; every rank adds its number and checks what it got.
//!
//! ```text
//! aldis-run -n 4 target/release/examples/ring --laps 1000
//! ```

use core::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use aldis_kernel::{Rank, Tag};
use aldis_linux::HostEndpoint;
use clap::Parser;

/// Pass a token round all ranks and verify it at every step.
#[derive(Parser)]
struct Options {
    /// Number of times the token goes round
    #[arg(long, default_value_t = 1000)]
    laps: u64,
    /// 64-bit words of the token; the sum is in each
    #[arg(long, default_value_t = 4)]
    words: usize,
    /// Print one JSON object instead of a sentence
    #[arg(long)]
    json: bool,
}

const TOKEN: Tag = Tag(1);

fn main() -> ExitCode {
    let options = Options::parse();
    aldis_linux::run(|ep| ring(ep, &options))
}

fn ring(ep: &mut HostEndpoint, options: &Options) -> Result<(), Box<dyn Error>> {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (next, previous) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    let mut token = vec![0_u64; options.words];
    let mut came = token.clone();
    let start = Instant::now();
    for lap in 0..options.laps {
        if size == 1 {
            // To oneself, sending and receiving go on at a time.
            ep.sendrecv(&world, &token, next, TOKEN, &mut came, previous, TOKEN)?;
        } else if me == 0 {
            ep.send(&world, &token, next, TOKEN)?;
            ep.recv(&world, &mut came, previous, TOKEN)?;
        } else {
            ep.recv(&world, &mut came, previous, TOKEN)?;
        }
        let expected = expected(me, size, lap);
        if let Some(wrong) = came.iter().find(|word| **word != expected) {
            return Err(format!("lap {lap}: the token says {wrong}, {expected} was expected").into());
        }
        for (word, came) in token.iter_mut().zip(&came) {
            *word = came + u64::from(me) + 1;
        }
        if me != 0 {
            ep.send(&world, &token, next, TOKEN)?;
        }
    }
    if me == 0 {
        report(options, size, start.elapsed().as_nanos() as f64);
    }
    Ok(())
}

/// Returns the value of the token when it reaches rank `me` in lap `lap`: every rank r on the way
/// since the start has added r + 1, rank 0 for the first time after lap 0.
fn expected(me: u32, size: u32, lap: u64) -> u64 {
    let sum = |ranks: u32| u64::from(ranks) * (u64::from(ranks) + 1) / 2;
    let on_the_way = if me == 0 { sum(size) } else { sum(me) };
    lap * sum(size) + on_the_way - 1
}

fn report(options: &Options, size: u32, nanoseconds: f64) {
    let hop = nanoseconds / (options.laps * u64::from(size)).max(1) as f64;
    if options.json {
        let line = serde_json::json!({
            "bench": "ring", "impl": "aldis", "ranks": size, "laps": options.laps, "bytes": options.words * 8,
            "hop_ns": hop, "verified": true,
        });
        println!("{line}");
    } else {
        println!("{} laps over {size} ranks, every token verified, {hop:.0} ns a hop", options.laps);
    }
}
