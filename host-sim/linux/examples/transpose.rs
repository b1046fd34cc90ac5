//! A matrix in strips of rows, one a rank, is transposed: blocks go from every rank to every other
//! and are turned on the way by their datatypes. No rank packs anything, and there is no buffer but
//! the two strips.
//!
//! ```text
//! aldis-run -n 4 target/release/examples/transpose --rows 1024 --checked
//! ```

use core::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use aldis_kernel::datatype::{Basic, Committed, Order, Slice, TypeTable, Types};
use aldis_kernel::hal::Cause;
use aldis_kernel::{Rank, Tag, Typed, TypedMut};
use aldis_linux::HostEndpoint;
use clap::Parser;

/// Transpose a square matrix that is distributed by rows, and verify every element.
#[derive(Parser)]
struct Options {
    /// Rows and columns of the matrix; rounded up to a multiple of the ranks
    #[arg(long, default_value_t = 512)]
    rows: usize,
    /// Number of times it is transposed
    #[arg(long, default_value_t = 4)]
    rounds: usize,
    /// Send every block with a checksum
    #[arg(long)]
    checked: bool,
    /// Print one JSON object instead of a sentence
    #[arg(long)]
    json: bool,
}

const BLOCK: Tag = Tag(1);

fn main() -> ExitCode {
    let options = Options::parse();
    aldis_linux::run(|ep| transpose(ep, &options))
}

fn transpose(ep: &mut HostEndpoint, options: &Options) -> Result<(), Box<dyn Error>> {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let strip = options.rows.div_ceil(size as usize);
    let side = strip * size as usize;
    // A process has one table for all of its life.
    ep.attach_types(Box::leak(Box::new(TypeTable::<8, 256>::new())).types())?;
    let (block, column) = (block(ep.types()?, strip, side)?, column(ep.types()?, strip, side)?);

    let first = me as usize * strip;
    let mut matrix: Vec<f64> = (first * side..(first + strip) * side).map(|number| number as f64).collect();
    let mut turned = vec![0.0; matrix.len()];
    let start = Instant::now();
    for round in 0..options.rounds {
        ep.scope(|s| {
            // A block's place is where its first column begins.
            let place = |rank: u32| (rank as usize * strip * size_of::<f64>()).cast_signed();
            let into = s.lend(&mut turned);
            let mut requests = Vec::new();
            for rank in 0..size {
                let columns = TypedMut::lent(into, strip as u64, column).with_origin(place(rank));
                requests.push(s.irecv_typed(&world, columns, Rank(rank), BLOCK)?);
            }
            for rank in (0..size).map(|step| (me + step) % size) {
                let mut rows = Typed::new(&matrix, 1, block).with_origin(place(rank));
                if options.checked {
                    rows = rows.checked();
                }
                requests.push(s.isend_typed(&world, rows, Rank(rank), BLOCK)?);
            }
            s.wait_all(&mut requests)
        })?;
        core::mem::swap(&mut matrix, &mut turned);
        verify(&matrix, first, side, round % 2 == 0)?;
    }
    if me == 0 {
        let bytes = (options.rounds * side * side * size_of::<f64>()) as f64;
        let rate = bytes / start.elapsed().as_secs_f64() / 1e6;
        if options.json {
            let line = serde_json::json!({
                "bench": "transpose", "impl": "aldis", "ranks": size, "rows": side, "rounds": options.rounds,
                "mb_per_s": rate, "verified": true,
            });
            println!("{line}");
        } else {
            println!("{side} x {side} over {size} ranks, {} times, verified, {rate:.0} MB/s", options.rounds);
        }
    }
    Ok(())
}

/// A square of a strip of rows.
fn block(types: &mut Types<'_>, strip: usize, side: usize) -> Result<Committed, Cause> {
    let (strip, side) = (strip as u64, side as u64);
    let rows = Slice { size: strip, count: strip, start: 0 };
    let columns = Slice { size: side, count: strip, start: 0 };
    let block = types.subarray(&[rows, columns], Order::C, Basic::F64)?;
    types.commit(block)
}

/// A column of a strip, as wide as a number: the next one begins beside it. What was a row arrives
/// as one of these.
fn column(types: &mut Types<'_>, strip: usize, side: usize) -> Result<Committed, Cause> {
    let column = types.vector(strip as u64, 1, side as i64, Basic::F64)?;
    let narrow = types.resized(column, 0, size_of::<f64>() as i64)?;
    types.free(column)?;
    types.commit(narrow)
}

/// Every element is its number in the matrix as it was made.
fn verify(strip: &[f64], first: usize, side: usize, is_turned: bool) -> Result<(), String> {
    for (place, number) in strip.iter().enumerate() {
        let (row, column) = (first + place / side, place % side);
        let due = if is_turned { column * side + row } else { row * side + column };
        if *number != due as f64 {
            return Err(format!("row {row}, column {column} is {number}, {due} was due"));
        }
    }
    Ok(())
}
