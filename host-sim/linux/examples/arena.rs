//! Long messages from an arena and from the heap: rank 0 sends each of the others a field that it
//! writes anew, from a block of memory that they have mapped, and then from a vector; the others
//! verify every number.
//!
//! ```text
//! aldis-run -n 2 --arena 64M --bind core target/release/examples/arena
//! ```

use core::error::Error;
use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use aldis_kernel::{Rank, Tag};
use aldis_linux::{HostEndpoint, ShmArena};
use clap::Parser;

/// Send a field of numbers from mapped memory and from the heap, and verify it.
#[derive(Parser)]
struct Options {
    /// Numbers of the field, of 8 bytes each
    #[arg(long, default_value_t = 128 << 10)]
    numbers: usize,
    /// Number of times it is sent from either
    #[arg(long, default_value_t = 200)]
    rounds: u32,
    /// Print one JSON object a line instead of sentences
    #[arg(long)]
    json: bool,
}

type Outcome<T> = Result<T, Box<dyn Error>>;

const FIELD: Tag = Tag(1);
const SEEN: Tag = Tag(2);

fn main() -> ExitCode {
    let options = Options::parse();
    aldis_linux::run(|ep| {
        let mut block = ep.shm_arena().allocate::<f64>(options.numbers)?;
        let in_arena = exchange(ep, &mut block, options.rounds)?;
        let on_heap = exchange(ep, &mut vec![0.0; options.numbers], options.rounds)?;
        if ep.world().rank() == Rank(0) {
            report(ep, &options, [("arena", in_arena), ("heap", on_heap)])?;
        }
        Ok(())
    })
}

/// Sends the field from `memory` so many times, or receives it there; the time that the sends took.
fn exchange(ep: &mut HostEndpoint, memory: &mut [f64], rounds: u32) -> Outcome<Duration> {
    let world = ep.world();
    let mut elapsed = Duration::ZERO;
    for round in 0..rounds {
        let value = |index: usize| f64::from(round) + index as f64;
        if world.rank() != Rank(0) {
            ep.recv(&world, memory, Rank(0), FIELD)?;
            if let Some(index) = (0..memory.len()).find(|&index| memory[index] != value(index)) {
                return Err(format!("round {round}: number {index} is {}", memory[index]).into());
            }
            // Only when all have seen this field may it be written anew.
            ep.send(&world, &[round], Rank(0), SEEN)?;
            continue;
        }
        memory.iter_mut().enumerate().for_each(|(index, number)| *number = value(index));
        let start = Instant::now();
        for other in 1..world.size() {
            ep.send(&world, &*memory, Rank(other), FIELD)?;
        }
        elapsed += start.elapsed();
        for other in 1..world.size() {
            ep.recv(&world, &mut [0u32], Rank(other), SEEN)?;
        }
    }
    Ok(elapsed)
}

fn report(ep: &mut HostEndpoint, options: &Options, times: [(&str, Duration); 2]) -> Outcome<()> {
    let world = ep.world();
    let bytes = options.numbers * size_of::<f64>();
    for (memory, elapsed) in times {
        let messages = u64::from(options.rounds) * u64::from(world.size() - 1);
        let rate = messages as f64 * bytes as f64 / (elapsed.as_nanos() as f64).max(1.0);
        if options.json {
            let line = serde_json::json!({
                "bench": "arena", "impl": "aldis", "ranks": world.size(), "memory": memory, "bytes": bytes,
                "messages": messages, "gb_per_s": rate, "verified": true,
            });
            println!("{line}");
        } else {
            println!(
                "{messages} fields of {bytes} bytes from the {memory}: {rate:.2} GB/s, every number verified"
            );
        }
    }
    if !options.json && world.size() > 1 {
        print!("{}", ep.explain(Rank(1), bytes as u64)?);
    }
    Ok(())
}
