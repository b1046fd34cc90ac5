//! The heat equation on a plate, cut into strips, one a rank: every step each rank exchanges its
//! first and last row with its neighbours by nonblocking sends and receives in a scope. It is the
//! program `heat` of `tests/programs`, which firmware runs too, here on a plate of any size; in the
//! end rank 0 compares the plate's digest with that of its own run over the uncut plate.
//!
//! ```text
//! aldis-run -n 4 target/release/examples/heat --width 512 --height 512 --steps 400
//! ```

use core::error::Error;
use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use aldis_kernel::Rank;
use aldis_linux::HostEndpoint;
use aldis_programs::heat::{Plate, PlateMemory};
use clap::Parser;

/// Solve the 2-D heat equation on all ranks and compare the result with one rank's.
#[derive(Parser)]
struct Options {
    /// Cells from west to east
    #[arg(long, default_value_t = 256)]
    width: usize,
    /// Cells from north to south
    #[arg(long, default_value_t = 256)]
    height: usize,
    /// Time steps
    #[arg(long, default_value_t = 200)]
    steps: u32,
    /// Print one JSON object instead of a sentence
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    aldis_linux::run(|ep| heat(ep, &options))
}

fn heat(ep: &mut HostEndpoint, options: &Options) -> Result<(), Box<dyn Error>> {
    let &Options { width, height, steps, .. } = options;
    let (plate, world) = (Plate { width, height }, ep.world());
    let memory = |ranks| vec![0.0; plate.cells(ranks)];
    let ranks = world.size() as usize;
    let start = Instant::now();
    let [mut cells, mut next] = [memory(ranks), memory(ranks)];
    let own = PlateMemory { cells: &mut cells, next: &mut next };
    let digest = plate.solve(ep, Duration::MAX, steps, own)?;
    let seconds = start.elapsed().as_secs_f64();
    if world.rank() != Rank(0) {
        return Ok(());
    }
    let whole = PlateMemory { cells: &mut memory(1), next: &mut memory(1) };
    let alone = plate.solve_alone(steps, whole);
    if digest != alone {
        return Err(format!("digest {digest:016x} differs from the one-rank run's {alone:016x}").into());
    }
    report(options, world.size(), digest, seconds);
    Ok(())
}

fn report(options: &Options, ranks: u32, digest: u64, seconds: f64) {
    let &Options { width, height, steps, json } = options;
    let step = 1e6 * seconds / f64::from(steps.max(1));
    if json {
        let line = serde_json::json!({
            "bench": "heat", "impl": "aldis", "ranks": ranks, "width": width, "height": height,
            "steps": steps, "step_us": step, "digest": format!("{digest:016x}"), "verified": true,
        });
        println!("{line}");
    } else {
        println!(
            "{steps} steps of {width} x {height} cells on {ranks} ranks, {step:.1} us a step, bit-identical with \
             one rank: digest {digest:016x}"
        );
    }
}
